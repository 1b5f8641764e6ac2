//! One shared session: it receives the frames of its publisher, stores the screen and the list of lines for late viewers, and
//! passes answers to the publisher, who alone decides which one is valid.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::picture::Picture;
use crate::base::base64;
use crate::gateway::http::problem::{Answered, Problem};
use crate::ledger::{Asked, Ledger, NewShare, uuid_v7};
use crate::proto::Capture;
use crate::proto::team::Identity;
use crate::share::ELSEWHERE_WAIT;
use crate::turn::plain_text;

/// Limit on the frames in memory, in bytes; a viewer who misses more starts over with a snapshot.
const RING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Entries of the list for late viewers, and their bytes.
const ITEMS_MAX: (usize, usize) = (1_000, 1024 * 1024);
/// Limit on a command's output in the list, in bytes.
const OUTPUT_BYTES_MAX: usize = 32 * 1024;
/// Bytes of a text in the list.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Limits on a recording and on one piece of it, in bytes. An incomplete piece is stored at each tick, so that a gateway that is
/// killed loses at most a second.
const RECORDING_BYTES_MAX: usize = 64 * 1024 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
/// Limit on the last pieces and bytes of a recording that are replayed for a session that continues.
const PLAYED_MAX: (i64, usize) = (640, 8 * 1024 * 1024);
/// Time after which a silent session has gone.
const SILENCE: Duration = Duration::from_secs(30);
/// Time after which an answer that the session hasn't decided about gets an error.
const DECISION_WAIT: Duration = Duration::from_secs(5);

/// Reports the fate of an answer to the person who gave it.
type Report = Box<dyn FnOnce(Answered<()>) + Send>;

/// A person's answer to a question, on its way to the session.
pub struct Attempt {
    /// The person.
    pub who: Identity,
    /// True if the call may run.
    pub is_yes: bool,
    /// The person's reason.
    pub note: String,
    /// The fingerprint of the call that was shown.
    pub digest: String,
    /// Called once, with the result.
    pub report: Report,
}

/// The news for a viewer.
pub enum News {
    /// These frames, with their numbers.
    Frames(Vec<(u64, String)>),
    /// Too many: the viewer starts over with a snapshot.
    Anew,
}

/// A session that is shared.
pub struct LiveShare {
    /// Its id.
    pub id: String,
    /// The person who shares it.
    pub owner: Identity,
    /// The token with which it began; none for the gateway's own user.
    token: Option<String>,
    secret_hash: String,
    row: Value,
    ledger: Arc<Ledger>,
    inner: Mutex<Inner>,
    /// Changes with each frame, and at the end.
    pub grown: watch::Sender<u64>,
    /// Changes when there is a message for the publisher.
    pub called: watch::Sender<u64>,
}

struct Inner {
    /// The number of the last frame.
    last: u64,
    picture: Picture,
    ring: VecDeque<(u64, String)>,
    ring_bytes: usize,
    /// The last frame that marks a gap: viewers who are before it start over.
    gap: u64,
    items: VecDeque<Value>,
    items_bytes: usize,
    /// The output of the last line, as far as it is stored, and the number of bytes dropped before it.
    output: String,
    output_lost: u64,
    question: Option<OpenQuestion>,
    /// The question that was answered last, and by whom.
    decided: Option<(String, String)>,
    attempts: Vec<(Attempt, Instant)>,
    /// Messages for the publisher.
    calls: VecDeque<(&'static str, Value, Instant)>,
    viewers: BTreeMap<String, usize>,
    heard: Instant,
    piece: String,
    piece_number: i64,
    recorded_bytes: usize,
    /// Reason why it has ended.
    over: Option<String>,
}

/// A change of the database, made once the session isn't locked any more: streams must not wait for a disk.
enum Chore {
    Ask(Asked),
    Answer { who: Box<Identity>, question_id: String, digest: String, is_yes: bool, note: String },
    CloseQuestion(String, String),
    Record(i64, String),
    End(String),
}

/// A question that is open at the terminal, too.
struct OpenQuestion {
    id: String,
    number: u64,
    digest: String,
    frame: Value,
}

impl LiveShare {
    pub(super) fn new(
        ledger: Arc<Ledger>,
        (owner, token): (Identity, Option<String>),
        new: NewShare,
        secret_hash: String,
    ) -> Self {
        let row = json!({"share_id": new.share_id, "owner": owner.user, "kind": new.kind, "title": new.title,
            "watch": new.watch, "approve": new.approve});
        let now = Instant::now();
        let inner = Inner {
            last: 0,
            picture: Picture::new(new.size.0, new.size.1),
            ring: VecDeque::new(),
            ring_bytes: 0,
            gap: 0,
            items: VecDeque::new(),
            items_bytes: 0,
            output: String::new(),
            output_lost: 0,
            question: None,
            decided: None,
            attempts: Vec::new(),
            calls: VecDeque::new(),
            viewers: BTreeMap::new(),
            heard: now,
            piece: String::new(),
            piece_number: 0,
            recorded_bytes: 0,
            over: None,
        };
        let (grown, called) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { id: new.share_id, owner, token, secret_hash, row, ledger, inner: Mutex::new(inner), grown, called }
    }

    /// Restores the picture and the lines of its recording, for a session that continues: its next frame comes after `last`, its
    /// recording has this number of `pieces` and bytes, and its screen now has `size`.
    pub(super) fn played(self, last: u64, (pieces, bytes): (i64, i64), size: (u16, u16)) -> Self {
        {
            let mut inner = self.inner();
            // Viewers of the previous gateway start over.
            (inner.last, inner.gap, inner.piece_number) = (last, last, pieces);
            let (mut played, mut length) = (Vec::new(), 0);
            for number in ((pieces - PLAYED_MAX.0).max(0)..pieces).rev() {
                let piece = self.ledger.shares().piece(&self.owner, &self.id, number).unwrap_or_else(|error| {
                    tracing::warn!(event = "recording_not_read", why = error.to_string());
                    None
                });
                let piece = piece.unwrap_or_default();
                length += piece.len();
                played.push(piece);
                if length >= PLAYED_MAX.1 {
                    break;
                }
            }
            let lines = played.iter().rev().flat_map(|piece| piece.lines());
            lines.filter_map(|line| serde_json::from_str(line).ok()).for_each(|frame| inner.play(&frame));
            inner.recorded_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            inner.picture.resize(size.0, size.1);
        }
        self
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// The token of the person who shares it, and the tenant in which it must count.
    pub(super) fn right(&self) -> Option<(String, String)> {
        Some((self.token.clone()?, self.owner.tenant.clone()))
    }

    pub(super) fn is_published_with(&self, secret_hash: &str) -> bool {
        // Hashes are compared, so that timing reveals nothing about the secret.
        self.secret_hash == secret_hash
    }

    /// Returns whether it has ended.
    pub fn is_over(&self) -> bool {
        self.inner().over.is_some()
    }

    /// Reason why it has ended.
    pub fn over(&self) -> Option<String> {
        self.inner().over.clone()
    }

    /// Accepts frames of the publisher, one per line; returns the number of the last one received. Repeated frames change
    /// nothing.
    ///
    /// # Errors
    /// A line isn't a frame, or a frame before it is missing (409 with `expected_seq`).
    pub fn publish(&self, lines: &[u8]) -> Answered<u64> {
        let wrong = || Problem::body("a frame is a line of JSON with seq and k");
        let lines = std::str::from_utf8(lines).map_err(|_| wrong())?;
        let mut chores = Vec::new();
        let result = {
            let mut inner = self.inner();
            if inner.over.is_some() {
                return Err(Problem::new(410, "ended", "the session isn't shared any more"));
            }
            inner.heard = Instant::now();
            lines.lines().filter(|line| !line.is_empty()).try_for_each(|line| {
                let frame: Value = serde_json::from_str(line).map_err(|_| wrong())?;
                let number = frame["seq"].as_u64().ok_or_else(wrong)?;
                if number > inner.last + 1 {
                    let expected = json!({"expected_seq": inner.last + 1});
                    return Err(Problem::new(409, "conflict", "a frame before this one is missing").context(expected));
                }
                if number == inner.last + 1 && inner.over.is_none() {
                    inner.last = number;
                    self.take(&mut inner, frame, &mut chores);
                }
                Ok(())
            })
        };
        self.carry_out(chores);
        self.grow();
        result.map(|()| self.inner().last)
    }

    /// Makes the changes of the database that are due.
    fn carry_out(&self, chores: Vec<Chore>) {
        for chore in chores {
            let (shares, owner) = (self.ledger.shares(), &self.owner);
            let done = match chore {
                Chore::Ask(asked) => self.ledger.questions().ask(owner, &asked),
                Chore::Answer { who, question_id, digest, is_yes, note } => {
                    self.ledger.questions().answer(&who, &question_id, &digest, is_yes, &note)
                }
                Chore::CloseQuestion(id, why) => self.ledger.questions().close(owner, &id, &why),
                Chore::Record(number, lines) => shares.record(owner, &self.id, number, &lines),
                Chore::End(why) => shares.end(owner, &self.id, &why),
            };
            if let Err(error) = done {
                tracing::error!(event = "share_not_stored", why = error.to_string());
            }
        }
    }

    fn grow(&self) {
        self.grown.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn take(&self, inner: &mut Inner, frame: Value, chores: &mut Vec<Chore>) {
        let kind = frame["k"].as_str().unwrap_or_default().to_owned();
        let mut shown = frame;
        if let Some(fields) = shown.as_object_mut() {
            fields.remove("seq");
        }
        match kind.as_str() {
            "o" => {
                let bytes = shown["d"].as_str().and_then(base64::decode).unwrap_or_default();
                let text = inner.picture.write(&bytes);
                inner.keep_output(&text);
                shown["d"] = text.into();
            }
            "l" => {
                inner.end_output();
                let text = if shown["hidden"] == true {
                    "(a line that isn't shown)"
                } else {
                    shown["text"].as_str().unwrap_or_default()
                };
                let written = inner.picture.line(text);
                shown["d"] = written.into();
                inner.keep(&shown);
            }
            "c" | "e" => inner.keep(&shown),
            "r" => inner.resize(&shown),
            "g" => inner.gap = inner.last,
            "q" => self.ask(inner, &mut shown, chores),
            "a" => self.answered(inner, &mut shown, chores),
            "x" => return inner.refuse(&shown),
            "end" => return self.close(inner, "the person who shared it has ended it", chores),
            // A newer session may send other kinds.
            _ => return,
        }
        inner.show(&shown);
        inner.record(&shown, false, chores);
    }

    /// Puts a question where those who may answer it find it.
    fn ask(&self, inner: &mut Inner, frame: &mut Value, chores: &mut Vec<Chore>) {
        let may_answer = frame["may_answer"] == true;
        let digest = frame["digest"].as_str().unwrap_or_default().to_owned();
        if may_answer {
            let id = uuid_v7();
            let wait_ms = i64::try_from(ELSEWHERE_WAIT.as_millis()).unwrap_or(i64::MAX);
            let stream = format!("share/{}", self.id);
            let card = frame["card"].to_string();
            chores.push(Chore::Ask(Asked { question_id: id.clone(), stream, digest: digest.clone(), card, wait_ms }));
            frame["question_id"] = id.clone().into();
            let number = frame["number"].as_u64().unwrap_or_default();
            inner.question = Some(OpenQuestion { id, number, digest, frame: frame.clone() });
        }
        inner.keep(frame);
    }

    /// Handles the answer that counts: that of the person at the terminal, or of a viewer.
    fn answered(&self, inner: &mut Inner, frame: &mut Value, chores: &mut Vec<Chore>) {
        let by = frame["by"].as_str().unwrap_or(&self.owner.user).to_owned();
        if frame["by"].is_null() {
            frame["at_terminal"] = true.into();
            frame["by"] = by.clone().into();
        }
        inner.keep(frame);
        let Some(question) = inner.question.take_if(|open| frame["number"] == open.number) else { return };
        frame["question_id"] = question.id.clone().into();
        if frame["answer"] == "none" {
            chores.push(Chore::CloseQuestion(question.id, "no one answered in time".to_owned()));
            return;
        }
        inner.decided = Some((question.id.clone(), by.clone()));
        let is_yes = frame["answer"] == "once";
        let (mine, others): (Vec<_>, Vec<_>) =
            inner.attempts.drain(..).partition(|(attempt, _)| attempt.who.user == by && frame["at_terminal"] != true);
        let who = Box::new(mine.first().map_or(&self.owner, |(attempt, _)| &attempt.who).clone());
        let note = mine.first().map(|(attempt, _)| attempt.note.clone()).unwrap_or_default();
        chores.push(Chore::Answer { who, question_id: question.id, digest: question.digest, is_yes, note });
        mine.into_iter().for_each(|(attempt, _)| (attempt.report)(Ok(())));
        for (attempt, _) in others {
            (attempt.report)(Err(already_answered(&by)));
        }
    }

    /// Passes a person's answer to the session, which decides whether it counts.
    ///
    /// # Errors
    /// The question isn't open here any more.
    pub fn answer(&self, question_id: &str, attempt: Attempt) -> Answered<()> {
        let mut inner = self.inner();
        let Some(open) = inner.question.as_ref().filter(|open| open.id == question_id) else {
            let decided = inner.decided.as_ref().filter(|(id, _)| id == question_id);
            let late = || Problem::new(410, "question_expired", "the question's time is over");
            return Err(decided.map_or_else(late, |(_, by)| already_answered(by)));
        };
        let call = json!({"number": open.number, "digest": attempt.digest, "answer": if attempt.is_yes { "once" } else { "no" },
            "note": attempt.note, "by": attempt.who.user, "seen_to_end": true});
        inner.calls.push_back(("answer", call, Instant::now()));
        inner.attempts.push((attempt, Instant::now()));
        drop(inner);
        self.call();
        Ok(())
    }

    fn call(&self) {
        self.called.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Takes the messages for the publisher; an answer that wasn't fetched in time is dropped.
    pub fn calls(&self) -> Vec<(&'static str, Value)> {
        let mut inner = self.inner();
        let fresh = inner.calls.drain(..).filter(|(_, _, at)| at.elapsed() < DECISION_WAIT);
        fresh.map(|(name, value, _)| (name, value)).collect()
    }

    /// A viewer joins, until the value is dropped.
    pub fn join(self: &Arc<Self>, who: &Identity) -> Viewer {
        let is_first = {
            let mut inner = self.inner();
            let count = inner.viewers.entry(who.user.clone()).or_default();
            *count += 1;
            *count == 1
        };
        if is_first && let Err(error) = self.ledger.shares().joined(who, &self.id) {
            tracing::warn!(event = "viewer_not_noted", why = error.to_string());
        }
        self.tell_viewers();
        Viewer { share: Arc::clone(self), user: who.user.clone() }
    }

    fn tell_viewers(&self) {
        {
            let mut inner = self.inner();
            let users: Vec<&String> = inner.viewers.keys().collect();
            let value = json!({"count": users.len(), "users": users});
            inner.calls.retain(|(name, ..)| *name != "viewers");
            inner.calls.push_back(("viewers", value, Instant::now()));
        }
        self.call();
        self.grow();
    }

    /// The users that watch.
    pub fn viewers(&self) -> Vec<String> {
        self.inner().viewers.keys().cloned().collect()
    }

    /// The news for a viewer who has the frames up to a number; `None` for one who has seen nothing.
    pub fn news(&self, after: Option<u64>) -> News {
        let inner = self.inner();
        let Some(after) = after else { return News::Anew };
        let first = inner.ring.front().map_or(inner.last + 1, |(number, _)| *number);
        if after + 1 < first && after < inner.last || after < inner.gap {
            return News::Anew;
        }
        News::Frames(inner.ring.iter().filter(|(number, _)| *number > after).cloned().collect())
    }

    /// All that a late viewer needs, and the number of the last frame in it.
    pub fn snapshot(&self) -> (u64, Value) {
        let inner = self.inner();
        let (columns, rows) = inner.picture.size();
        let screen = inner.picture.redraw();
        let mut items: Vec<Value> = inner.items.iter().cloned().collect();
        if let Some(line) = items.iter_mut().rev().find(|item| item["k"] == "l") {
            line["output"] = inner.output_text().into();
        }
        let mut value = self.row.clone();
        value["screen_lost"] = screen.is_none().into();
        value["screen"] = screen.unwrap_or_default().into();
        (value["cols"], value["rows"]) = (columns.into(), rows.into());
        value["items"] = items.into();
        value["question"] = inner.question.as_ref().map(|open| open.frame.clone()).into();
        value["viewers"] = json!(inner.viewers.keys().collect::<Vec<_>>());
        (inner.last, value)
    }

    pub(super) fn tick(&self, now: Instant) {
        if now.saturating_duration_since(self.inner().heard) > SILENCE {
            return self.end("the session has gone");
        }
        let mut chores = Vec::new();
        let mut inner = self.inner();
        let is_late = |at: &Instant| now.saturating_duration_since(*at) > DECISION_WAIT;
        let (late, waiting): (Vec<_>, Vec<_>) = inner.attempts.drain(..).partition(|(_, at)| is_late(at));
        inner.attempts = waiting;
        for (attempt, _) in late {
            let message = "the session doesn't answer, so it isn't known whether the answer counts";
            (attempt.report)(Err(Problem::new(503, "overloaded", message).header("Retry-After", "1")));
        }
        if !inner.piece.is_empty() {
            inner.store(&mut chores);
        }
        drop(inner);
        self.carry_out(chores);
    }

    /// Ends it.
    pub fn end(&self, why: &str) {
        let mut chores = Vec::new();
        {
            let mut inner = self.inner();
            if inner.over.is_none() {
                self.close(&mut inner, why, &mut chores);
            }
        }
        self.carry_out(chores);
        self.grow();
    }

    fn close(&self, inner: &mut Inner, why: &str, chores: &mut Vec<Chore>) {
        inner.end_output();
        inner.over = Some(why.to_owned());
        for (attempt, _) in inner.attempts.drain(..) {
            (attempt.report)(Err(Problem::new(410, "question_expired", "the session isn't shared any more")));
        }
        if let Some(open) = inner.question.take() {
            chores.push(Chore::CloseQuestion(open.id, why.to_owned()));
        }
        inner.record(&json!({"k": "end", "why": why}), true, chores);
        chores.push(Chore::End(why.to_owned()));
        self.call();
    }
}

/// Returns the answer to a person who was too late.
fn already_answered(by: &str) -> Problem {
    let message = format!("the question was answered by {by}");
    Problem::new(409, "already_answered", message).context(json!({"by": by}))
}

impl Inner {
    /// Adds a frame to the recording.
    fn record(&mut self, frame: &Value, is_last: bool, chores: &mut Vec<Chore>) {
        if self.recorded_bytes > RECORDING_BYTES_MAX && !is_last {
            return;
        }
        let line = frame.to_string();
        self.recorded_bytes += line.len() + 1;
        self.piece.push_str(&line);
        self.piece.push('\n');
        if is_last || self.piece.len() >= PIECE_BYTES {
            self.store(chores);
        }
    }

    fn store(&mut self, chores: &mut Vec<Chore>) {
        chores.push(Chore::Record(self.piece_number, std::mem::take(&mut self.piece)));
        self.piece_number += 1;
    }

    fn resize(&mut self, frame: &Value) {
        let cells = |name: &str| frame[name].as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(1);
        self.picture.resize(cells("cols"), cells("rows"));
    }

    /// Takes a frame of the recording in.
    fn play(&mut self, frame: &Value) {
        let text = frame["d"].as_str().unwrap_or_default();
        match frame["k"].as_str().unwrap_or_default() {
            "o" => {
                self.picture.write(text.as_bytes());
                self.keep_output(text);
            }
            "l" => {
                self.end_output();
                self.picture.write(text.as_bytes());
                self.keep(frame);
            }
            "r" => self.resize(frame),
            "c" | "e" | "q" | "a" => self.keep(frame),
            _ => {}
        }
    }

    /// Appends a frame to those for viewers.
    fn show(&mut self, frame: &Value) {
        let text = frame.to_string();
        self.ring_bytes += text.len();
        self.ring.push_back((self.last, text));
        while self.ring_bytes > RING_BYTES_MAX && self.ring.len() > 1 {
            let gone = self.ring.pop_front();
            self.ring_bytes -= gone.map_or(0, |(_, text)| text.len());
        }
    }

    /// Puts an entry into the list for late viewers. Pieces of one text are one entry.
    fn keep(&mut self, frame: &Value) {
        let event = &frame["event"];
        if event["event"] == "text"
            && let Some(last) = self.items.back_mut().filter(|last| last["event"]["event"] == "text")
            && let (Some(old), Some(more)) = (last["event"]["text"].as_str(), event["text"].as_str())
            && old.len() + more.len() < TEXT_BYTES_MAX
        {
            let text = format!("{old}{more}");
            self.items_bytes += more.len();
            last["event"]["text"] = text.into();
            return;
        }
        let mut item = frame.clone();
        if let Some(fields) = item.as_object_mut() {
            fields.remove("d");
        }
        self.items_bytes += item.to_string().len();
        self.items.push_back(item);
        while self.items.len() > ITEMS_MAX.0 || self.items_bytes > ITEMS_MAX.1 && self.items.len() > 1 {
            let gone = self.items.pop_front();
            self.items_bytes = self.items_bytes.saturating_sub(gone.map_or(0, |item| item.to_string().len()));
        }
    }

    fn keep_output(&mut self, text: &str) {
        self.output.push_str(text);
        if self.output.len() > OUTPUT_BYTES_MAX {
            let cut = self.output.ceil_char_boundary(self.output.len() - OUTPUT_BYTES_MAX / 2);
            self.output_lost += cut as u64;
            self.output.drain(..cut);
        }
    }

    fn output_text(&self) -> String {
        let tail = self.output.as_bytes().to_vec();
        plain_text(&Capture { head: Vec::new(), tail, omitted_bytes: self.output_lost })
    }

    /// The output so far belongs to the line before the next one.
    fn end_output(&mut self) {
        let text = self.output_text();
        (self.output, self.output_lost) = (String::new(), 0);
        if let Some(line) = self.items.iter_mut().rev().find(|item| item["k"] == "l") {
            self.items_bytes += text.len();
            line["output"] = text.into();
        }
    }

    /// Handles the session's refusal of a person's answer.
    fn refuse(&mut self, frame: &Value) {
        let is_other = frame["why"] == "other_call";
        let (refused, waiting): (Vec<_>, Vec<_>) =
            self.attempts.drain(..).partition(|(attempt, _)| frame["by"] == *attempt.who.user);
        self.attempts = waiting;
        for (attempt, _) in refused {
            let problem = match is_other {
                true => {
                    Problem::new(409, "conflict", "the answer is for another call than the one that was asked about")
                }
                false => Problem::new(410, "question_expired", "the question's time is over"),
            };
            (attempt.report)(Err(problem));
        }
    }
}

/// A viewer, until this is dropped.
pub struct Viewer {
    share: Arc<LiveShare>,
    user: String,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        {
            let mut inner = self.share.inner();
            if let Some(count) = inner.viewers.get_mut(&self.user) {
                *count -= 1;
                if *count == 0 {
                    inner.viewers.remove(&self.user);
                }
            }
        }
        self.share.tell_viewers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::team::{Mode, TeamRole, TokenKind};

    #[test]
    fn a_gateway_that_is_killed_loses_no_more_of_a_recording_than_since_the_last_look() {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = Arc::new(Ledger::open(&directory.path().join("gateway.db")).expect("a database"));
        let owner = Identity {
            mode: Mode::Lab,
            tenant: "default".into(),
            project: "default".into(),
            user: "me".into(),
            role: TeamRole::Member,
            kind: TokenKind::Person,
            request_id: "r".into(),
            trace_id: "t".into(),
            run_id: None,
            step_id: None,
            surface_id: None,
            app_id: None,
            span: None,
            lease: None,
        };
        let new = NewShare {
            share_id: uuid_v7(),
            kind: "shell".into(),
            title: String::new(),
            size: (80, 24),
            watch: Vec::new(),
            approve: Vec::new(),
        };
        ledger.shares().begin(&owner, &new).expect("it is noted");
        let share = LiveShare::new(Arc::clone(&ledger), (owner.clone(), None), new, String::new());
        let piece = |number| ledger.shares().piece(&owner, &share.id, number).expect("it is read");
        for (number, data) in [(1, "one"), (2, "two")] {
            let frame = json!({"seq": number, "k": "o", "d": base64::encode(data.as_bytes())});
            share.publish(frame.to_string().as_bytes()).expect("it is taken");
            share.tick(Instant::now());
        }
        share.tick(Instant::now());
        let pieces = (0..).map_while(piece).map(|piece| piece.contains("one") != piece.contains("two"));
        assert_eq!(pieces.collect::<Vec<_>>(), [true, true], "each is stored, and nothing that is empty");
    }
}
