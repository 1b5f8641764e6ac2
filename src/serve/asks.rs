//! Questions of one process that a person answers in another: a call of another agent waits here until a person at a ReedClaw
//! session agrees. The files are in the state directory, which no sandboxed program sees.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::files::{Locked, lock_file, make_private};
use crate::host::now_unix_ms;
use crate::proto::tool::Question;
use crate::render::text::escape_visible;

/// Time that a person has for an answer.
pub(super) const WAIT: Duration = Duration::from_secs(120);
/// Limit on waiting questions; a further one is answered with no.
const ASKS_MAX: u32 = 32;
/// Bytes of a question's preview.
const PREVIEW_BYTES_MAX: usize = 256 << 10;
/// The longest wait while other processes add, answer or remove questions.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Limit on the line that announces a question to a session, in bytes.
const TOLD_BYTES_MAX: usize = 1024;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number by which a person names it.
    pub number: u32,
    /// The program that wants the call, in its own words.
    pub client: String,
    /// The lines about the call and the reason for asking, ready to be shown: every text is escaped.
    pub lines: Vec<String>,
    digest: String,
    /// The process and thread that wait: the same call may be asked about again under this number.
    owner: String,
}

/// The waiting questions.
#[derive(Clone, Debug)]
pub struct Asks {
    directory: PathBuf,
}

impl Asks {
    /// The questions of a state directory; nothing is opened.
    #[must_use]
    pub fn at(state: &Path) -> Self {
        Self { directory: state.join("serve") }
    }

    /// Stores a question for sessions, and notifies them of it.
    pub(super) fn put(&self, client: &str, question: &Question) -> io::Result<Ask> {
        make_private(&self.directory)?;
        let _locked = self.lock()?;
        let lines = lines(question);
        let owner = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let expires = now_unix_ms() + i64::try_from(WAIT.as_millis()).unwrap_or_default();
        let record = json!({"client": client, "digest": question.digest, "lines": lines, "expires_ms": expires,
            "owner": owner});
        for number in 1..=ASKS_MAX {
            // The remains of an old question must not use up the numbers.
            if self.read(number).is_none() {
                self.clear(number);
            }
            match create(&self.path(number, "json"), &record) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let ask = Ask { number, client: client.to_owned(), lines, digest: question.digest.clone(), owner };
                    self.tell(&ask);
                    return Ok(ask);
                }
            }
        }
        Err(io::Error::other("too many questions wait already"))
    }

    /// The person's answer to a question, once there is one.
    pub(super) fn answered(&self, ask: &Ask) -> Option<bool> {
        let bytes = std::fs::read(self.path(ask.number, "answer")).ok()?;
        let answer: Value = serde_json::from_slice(&bytes).ok()?;
        // Only a yes to exactly this call counts.
        Some(answer["yes"] == true && answer["digest"] == ask.digest)
    }

    /// Withdraws a question; one of another process with the same number remains.
    pub(super) fn remove(&self, ask: &Ask) {
        let Ok(_locked) = self.lock() else { return };
        let is_owner = |record: &Value| record["owner"] == ask.owner.as_str();
        if self.record(ask.number).is_none_or(|record| is_owner(&record)) {
            self.clear(ask.number);
        }
    }

    /// Locks out other processes, so that a number belongs to one question between a check and a change.
    fn lock(&self) -> io::Result<Locked<File>> {
        let file = lock_file(&self.directory.join("lock"))?;
        Locked::take(file, false, LOCK_WAIT).map_err(|error| io::Error::other(error.to_string()))
    }

    fn clear(&self, number: u32) {
        for kind in ["json", "answer"] {
            let _ = std::fs::remove_file(self.path(number, kind));
        }
    }

    /// The questions that wait for an answer, by number.
    #[must_use]
    pub fn waiting(&self) -> Vec<Ask> {
        let is_open = |ask: &Ask| !self.path(ask.number, "answer").exists();
        (1..=ASKS_MAX).filter_map(|number| self.read(number)).filter(is_open).collect()
    }

    /// Answers a question as it was read. The first answer counts.
    ///
    /// # Errors
    /// It is answered already, or the answer can't be written.
    pub fn answer(&self, ask: &Ask, yes: bool) -> io::Result<()> {
        let _locked = self.lock()?;
        if self.read(ask.number).as_ref() != Some(ask) {
            return Err(io::Error::other("it no longer waits"));
        }
        create(&self.path(ask.number, "answer"), &json!({"yes": yes, "digest": ask.digest}))
    }

    /// Passes each question's line to `tell` as it arrives, until the process ends. Returns only if it can't listen.
    pub fn listen(&self, tell: &mut dyn FnMut(String)) {
        let path = self.directory.join(format!("{}.sock", std::process::id()));
        if make_private(&self.directory).is_err() {
            return;
        }
        // The socket belongs to an earlier process with this number.
        let _ = std::fs::remove_file(&path);
        let Ok(socket) = UnixDatagram::bind(&path) else { return };
        let mut line = [0; TOLD_BYTES_MAX];
        while let Ok(bytes) = socket.recv(&mut line) {
            tell(String::from_utf8_lossy(&line[..bytes]).into_owned());
        }
    }

    /// Notifies every running shell.
    fn tell(&self, ask: &Ask) {
        let what = ask.lines.first().map(String::as_str).unwrap_or_default();
        let line = format!("[serve] {} asks: {what}; :approve {} shows it", escape_visible(&ask.client), ask.number);
        self.send(&line, None);
    }

    /// Sends a line to every other running shell: its person is asked something here.
    pub fn announce(&self, line: &str) {
        self.send(&escape_visible(line), Some(&format!("{}.sock", std::process::id())));
    }

    /// Sends a line to all shells but the one that listens at `own`.
    fn send(&self, line: &str, own: Option<&str>) {
        let line = &line[..line.floor_char_boundary(TOLD_BYTES_MAX)];
        let Ok(socket) = UnixDatagram::unbound() else { return };
        // A session that doesn't read must not hold up a call.
        let _ = socket.set_nonblocking(true);
        let Ok(files) = std::fs::read_dir(&self.directory) else { return };
        for path in
            files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|it| it == "sock"))
        {
            if own.is_some_and(|own| path.ends_with(own)) {
                continue;
            }
            if let Err(error) = socket.send_to(line.as_bytes(), &path)
                && error.kind() == io::ErrorKind::ConnectionRefused
            {
                // Its session has ended.
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    fn record(&self, number: u32) -> Option<Value> {
        let bytes = std::fs::read(self.path(number, "json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn read(&self, number: u32) -> Option<Ask> {
        let record = self.record(number)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let is_over = record["expires_ms"].as_i64().is_none_or(|at| at < now_unix_ms());
        (!is_over).then_some(())?;
        Some(Ask {
            number,
            client: text(&record["client"])?,
            digest: text(&record["digest"])?,
            owner: text(&record["owner"])?,
            lines: record["lines"].as_array()?.iter().filter_map(text).collect(),
        })
    }

    fn path(&self, number: u32, kind: &str) -> PathBuf {
        self.directory.join(format!("{number}.{kind}"))
    }
}

/// Makes a file that doesn't exist yet.
fn create(path: &Path, value: &Value) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(value.to_string().as_bytes())
}

/// A question as lines for a person.
fn lines(question: &Question) -> Vec<String> {
    let mut lines = vec![format!("{} in {}", escape_visible(&question.tool), escape_visible(&question.cwd))];
    lines.push(format!("risk {}", question.verdict.risk));
    lines.extend(
        question
            .verdict
            .reasons
            .iter()
            .map(|reason| format!("  {}: {} ({})", reason.risk, escape_visible(&reason.text), reason.rule)),
    );
    let preview = &question.preview[..question.preview.floor_char_boundary(PREVIEW_BYTES_MAX)];
    lines.extend(preview.lines().map(escape_visible));
    if preview.len() < question.preview.len() {
        lines.push(format!("({} bytes more)", question.preview.len() - preview.len()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::action::{Action, Decision, PolicyVerdict, Risk};

    fn question(digest: &str) -> Question {
        Question {
            digest: digest.into(),
            tool: "file_write".into(),
            action: Action::Write { path: "a".into() },
            verdict: PolicyVerdict {
                risk: Risk::Medium,
                decision: Decision::Ask,
                reasons: Vec::new(),
                effects: Vec::new(),
                needs: Vec::new(),
            },
            preview: "+one\u{1b}[2J\n+two".into(),
            changes: [].into(),
            cwd: "/w".into(),
            program: None,
            may_always: true,
            filled: Vec::new(),
            only_own_shell: false,
        }
    }

    #[test]
    fn an_answer_counts_for_the_question_that_was_read_and_only_once() {
        let state = tempfile::tempdir().expect("a directory");
        let asks = Asks::at(state.path());
        let first = asks.put("editor", &question("one")).expect("it is put");
        let second = asks.put("editor", &question("two")).expect("it is put");
        assert_eq!((first.number, second.number), (1, 2));
        assert_eq!(asks.waiting(), [first.clone(), second.clone()]);
        assert!(first.lines.iter().all(|line| !line.contains('\u{1b}')), "{:?}", first.lines);
        asks.answer(&first, true).expect("an answer");
        assert!(asks.answer(&first, false).is_err(), "the first one counts");
        assert_eq!((asks.answered(&first), asks.answered(&second)), (Some(true), None));
        asks.remove(&first);
        let other = asks.put("editor", &question("three")).expect("it is put");
        assert_eq!((other.number, asks.answered(&other)), (1, None), "a number is used again, its answer isn't");
        assert!(asks.answer(&first, true).is_err(), "that question has gone");
        // Its owner may come late, and the same call may be asked about twice.
        asks.remove(&first);
        assert_eq!(asks.waiting(), [other.clone(), second.clone()]);
        asks.remove(&other);
        let again = asks.put("editor", &question("three")).expect("it is put");
        asks.remove(&other);
        assert_eq!(asks.waiting(), [again, second]);
    }

    #[test]
    fn questions_of_several_at_once_are_all_there() {
        let state = tempfile::tempdir().expect("a directory");
        let asks = Asks::at(state.path());
        let put = |number: u32| asks.put(&format!("agent {number}"), &question("one")).expect("it is put").number;
        for _ in 0..8 {
            let mut numbers: Vec<u32> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || put(number))).collect();
                threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
            });
            numbers.sort_unstable();
            assert_eq!(numbers, [1, 2, 3, 4]);
            let waiting = asks.waiting();
            assert_eq!(waiting.len(), 4, "{waiting:?}");
            waiting.iter().for_each(|ask| asks.remove(ask));
        }
    }

    #[test]
    fn a_session_that_listens_hears_of_a_question() {
        let state = tempfile::tempdir().expect("a directory");
        let asks = Asks::at(state.path());
        let (sender, lines) = std::sync::mpsc::channel();
        let listening = asks.clone();
        std::thread::spawn(move || {
            listening.listen(&mut |line| {
                let _ = sender.send(line);
            });
        });
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let line = loop {
            let ask = asks.put("an\u{1b}agent", &question("one")).expect("it is put");
            if let Ok(line) = lines.recv_timeout(Duration::from_millis(50)) {
                break line;
            }
            asks.remove(&ask);
            assert!(std::time::Instant::now() < until, "nobody listens");
        };
        assert!(line.contains("file_write") && line.contains(":approve ") && !line.contains('\u{1b}'), "{line}");
    }
}
