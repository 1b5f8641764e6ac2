//! The only writer of a log, among threads and processes: each record follows from the last line, which is read again under the
//! lock, and is written with one call. It must not trust its memory of the log's end.

use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};

use super::keys::{self, Key};
use super::lock::{self, open_private};
use super::read::{self, Last, OpenIntent, TailProblem};
use super::record::{Kind, NO_HASH, Record, Seal, Status};
use super::wire::Head;
use super::{
    ANCHOR_EVERY, ANCHOR_EVERY_MS, Entry, Options, Outcome, ReceiptError, ReceiptErrorKind, ReceiptId, TEXT_BYTES_MAX,
    hash, head, verify,
};
use crate::base::time;

/// The log of a session. It may be used by several threads; other processes have their own.
#[derive(Debug)]
pub struct Log {
    options: Options,
    /// 62 random bits: in the id of each receipt, and as the byte that is locked as long as this value is there.
    session: u64,
    lock: File,
    live: File,
    state: Mutex<State>,
}

/// The state between two records.
#[derive(Default)]
struct State {
    written: u64,
    file: Option<Arc<File>>,
    /// The last record of this session; if the log ends with another one, its head file is read.
    last: Option<Last>,
    key: Option<Key>,
    anchored_ms: i64,
    /// Something was written after the last anchor.
    needs_anchor: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("last", &self.last).finish_non_exhaustive()
    }
}

/// An intent that is in the log: the call may run, and is settled once.
#[derive(Debug)]
#[must_use = "a call without an outcome is reported at the next start"]
pub struct Opened {
    id: ReceiptId,
    entry: Entry,
}

impl Opened {
    /// The id of the intent.
    #[must_use]
    pub fn id(&self) -> &ReceiptId {
        &self.id
    }
}

/// The parts that differ from record to record.
#[derive(Default)]
struct Draft<'a> {
    entry: Option<&'a Entry>,
    status: Option<Status>,
    result_hash: Option<&'a str>,
    intent: Option<&'a str>,
    rule: Option<&'a str>,
    outside: Option<&'a str>,
}

impl Log {
    /// Opens the log, and makes missing directories (0700); the log itself is made with the first record.
    ///
    /// # Errors
    /// A directory or the lock can't be made.
    pub fn open(options: Options) -> Result<Self, ReceiptError> {
        for directory in [options.path.parent(), Some(&*options.state)].into_iter().flatten() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|problem| ReceiptError::io("make the directory", directory, &problem))?;
        }
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false);
        let lock = open_private(&options.lock_path(), &how)?;
        let live_path = options.live_path();
        let live = open_private(&live_path, &how)?;
        let session = random(&live_path)? >> 2;
        lock::mark_alive(&live, session).map_err(|problem| ReceiptError::io("lock", &live_path, &problem))?;
        let state = State { anchored_ms: (options.clock)(), ..State::default() };
        Ok(Self { options, session, lock, live, state: Mutex::new(state) })
    }

    /// Records that a call is about to run. Unless its risk is `low`, the record is on the disk when this returns.
    ///
    /// # Errors
    /// It could not be written: the call must not run.
    pub fn intent(&self, entry: &Entry) -> Result<Opened, ReceiptError> {
        let outside = entry.outside.as_deref();
        let draft = Draft { entry: Some(entry), status: Some(Status::Allowed), outside, ..Draft::default() };
        let id = self.append(Kind::Intent, &draft, entry.risk != "low")?;
        Ok(Opened { id, entry: entry.clone() })
    }

    /// Records the outcome of a call.
    ///
    /// # Errors
    /// It could not be written; the intent stays open, and will be reported.
    pub fn settle(&self, opened: Opened, outcome: &Outcome) -> Result<ReceiptId, ReceiptError> {
        let status = if outcome.failed { Status::Failed } else { Status::Allowed };
        let draft = Draft {
            entry: Some(&opened.entry),
            status: Some(status),
            result_hash: outcome.result_hash.as_deref(),
            intent: Some(opened.id.as_str()),
            outside: outcome.outside.as_deref(),
            ..Draft::default()
        };
        self.append(Kind::Outcome, &draft, false)
    }

    /// Writes that a call was not let run.
    ///
    /// # Errors
    /// It could not be written.
    pub fn denied(&self, entry: &Entry) -> Result<ReceiptId, ReceiptError> {
        let draft = Draft { entry: Some(entry), status: Some(Status::Denied), ..Draft::default() };
        self.append(Kind::Denied, &draft, false)
    }

    /// Returns the calls without an outcome of sessions that have ended. It reads the whole log.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn open_intents(&self) -> Result<Vec<OpenIntent>, ReceiptError> {
        read::open_intents(&self.options, Some(self.session))
    }

    /// Writes all records to the disk, then the head file and an anchor, if there are records since the last one.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn anchor(&self) -> Result<(), ReceiptError> {
        let mut state = self.state();
        if !state.needs_anchor {
            return Ok(());
        }
        let _held = lock::take(&self.lock, &self.options.lock_path(), false)?;
        let mut end = self.end(&mut state)?;
        end.finish(true)
    }

    /// The log's options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic between two steps leaves nothing that the next record would trust.
        self.state.lock()
    }

    fn append(&self, kind: Kind, draft: &Draft, durable: bool) -> Result<ReceiptId, ReceiptError> {
        let mut state = self.state();
        let _held = lock::take(&self.lock, &self.options.lock_path(), false)?;
        let known = state.last.take();
        let mut end = self.end(&mut state)?;
        if known.is_none() || end.last != known {
            end.heed_head()?;
        }
        end.begin_seals()?;
        let id = end.push(kind, draft)?;
        let seq = end.last.as_ref().map_or(0, |last| last.seq);
        let is_due = seq.is_multiple_of(ANCHOR_EVERY) || end.now() - end.state.anchored_ms >= ANCHOR_EVERY_MS;
        if durable || is_due {
            end.finish(is_due)?;
        }
        let last = end.last.take();
        state.last = last;
        Ok(ReceiptId(id))
    }

    /// Finds the end of the log and repairs a torn one; opens the log again if another file has replaced it.
    fn end<'a>(&'a self, state: &'a mut State) -> Result<End<'a>, ReceiptError> {
        let path = &self.options.path;
        let fail = |problem: io::Error| ReceiptError::io("read", path, &problem);
        let there = path.symlink_metadata().ok().map(|data| (data.dev(), data.ino()));
        let (file, size) = match state.file.take().and_then(|file| Some((file.metadata().ok()?, file))) {
            Some((data, file)) if there == Some((data.dev(), data.ino())) => (file, data.len()),
            _ => {
                let file = open_private(path, OpenOptions::new().read(true).append(true).create(true))?;
                let size = file.metadata().map_err(fail)?.len();
                (Arc::new(file), size)
            }
        };
        state.file = Some(Arc::clone(&file));
        let tail = read::tail(&file, size).map_err(|problem| match problem {
            TailProblem::Io(problem) => fail(problem),
            TailProblem::Broken => ReceiptError {
                kind: ReceiptErrorKind::Broken,
                message: format!("receipts: the last line of {} was changed", path.display()),
                hint: "reedclaw receipt verify says more; to begin a new log move the file away".into(),
            },
        })?;
        let mut end = End { log: self, state, file, size, last: tail.last };
        if !tail.torn.is_empty() {
            end.move_torn(tail.end, &tail.torn)?;
        }
        Ok(end)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // At its end a session can't report a failure; verify reports how far the last anchor reaches.
        let _ = self.anchor();
        lock::mark_ended(&self.live, self.session);
    }
}

/// The end of the log, under the lock.
struct End<'a> {
    log: &'a Log,
    state: &'a mut State,
    file: Arc<File>,
    size: u64,
    last: Option<Last>,
}

impl End<'_> {
    fn path(&self) -> &Path {
        &self.log.options.path
    }

    fn now(&self) -> i64 {
        (self.log.options.clock)()
    }

    /// Appends one record.
    fn push(&mut self, kind: Kind, draft: &Draft) -> Result<String, ReceiptError> {
        let seq = self.last.as_ref().map_or(0, |last| last.seq) + 1;
        let log_id = match &self.last {
            Some(last) => last.log_id.clone(),
            None => format!("log-{:016x}", random(self.path())?),
        };
        let timestamp = time::utc_ms(self.now());
        let id = format!("receipt-{:016x}-{}", self.log.session, self.state.written + 1);
        let previous = self.last.as_ref().map_or(NO_HASH, |last| &last.hash).to_owned();
        let entry = draft.entry;
        let text = |text: Option<&str>| text.map(|text| Cow::Owned(cut(text).to_owned()));
        let of_entry = |field: fn(&Entry) -> Option<&str>| text(entry.and_then(field));
        let mut record = Record {
            id: id.as_str().into(),
            timestamp: timestamp.as_str().into(),
            seq,
            log_id: log_id.as_str().into(),
            kind,
            conversation_id: entry.and_then(|entry| entry.conversation_id),
            tool: of_entry(|entry| Some(&entry.tool)),
            args_hash: of_entry(|entry| Some(&entry.args_hash)),
            result_hash: text(draft.result_hash),
            status: draft.status,
            risk: of_entry(|entry| Some(entry.risk.as_str()).filter(|risk| !risk.is_empty())),
            approver: of_entry(|entry| entry.approver.as_deref()),
            rule: of_entry(|entry| entry.rule.as_deref()).or_else(|| text(draft.rule)),
            sandbox: of_entry(|entry| entry.sandbox.as_deref()),
            intent: text(draft.intent),
            outside: text(draft.outside),
            previous_hash: previous.into(),
            seal: None,
        };
        let new_key = self.seal(&mut record)?;
        let is_sealed = record.seal.is_some();
        let (line, hash) = record.line();
        let begun = if seq == 1 { self.announce(&log_id, &timestamp) } else { Ok(()) };
        if let Err(error) = begun.and_then(|()| self.write(&line)) {
            if new_key {
                keys::forget(&self.log.options, &log_id);
            }
            return Err(error);
        }
        self.state.written += 1;
        self.state.needs_anchor = true;
        self.last = Some(Last { log_id, seq, hash, timestamp, is_sealed });
        Ok(id)
    }

    /// Writes head file and anchor of a log that begins, before its first receipt: one without them has lost them.
    fn announce(&self, log_id: &str, timestamp: &str) -> Result<(), ReceiptError> {
        let head = Head {
            hash: NO_HASH.to_owned(),
            log_id: log_id.to_owned(),
            path: self.path().to_string_lossy().into_owned(),
            seq: 0,
            timestamp: timestamp.to_owned(),
        };
        head::write(&self.log.options, &head)?;
        head::anchor(&self.log.options, &head)
    }

    /// Seals a record if the log has a key; also the first one of a new log, if a key is wanted.
    fn seal(&mut self, record: &mut Record) -> Result<bool, ReceiptError> {
        let options = &self.log.options;
        let is_sealed = match &self.last {
            Some(last) => last.is_sealed || record.kind == Kind::Anchor,
            None => options.hmac,
        };
        if !is_sealed {
            return Ok(false);
        }
        let begins = self.last.as_ref().is_none_or(|last| !last.is_sealed);
        let key = if begins {
            keys::create(options, &record.log_id, record.seq)?
        } else {
            keys::for_receipt(options, self.state.key.take(), &record.log_id, record.seq, || self.file.sync_data())?
        };
        record.seal = Some(Seal { epoch: key.epoch(), key_id: key.id().to_owned().into(), mac: Cow::Borrowed("") });
        record.seal(key.bytes());
        self.state.key = Some(key);
        Ok(begins)
    }

    /// Starts the seals of a log that had no key; a record marks the start.
    fn begin_seals(&mut self) -> Result<(), ReceiptError> {
        if self.log.options.hmac && self.last.as_ref().is_some_and(|last| !last.is_sealed) {
            self.push(Kind::Anchor, &Draft { rule: Some("seals-begin"), ..Draft::default() })?;
        }
        Ok(())
    }

    /// Writes a line whole or not at all.
    fn write(&mut self, line: &[u8]) -> Result<(), ReceiptError> {
        let written = loop {
            match (&*self.file).write(line) {
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                written => break written,
            }
        };
        let problem = match written {
            Ok(length) if length == line.len() => {
                self.size += line.len() as u64;
                return Ok(());
            }
            Ok(_) => io::Error::from(io::ErrorKind::StorageFull),
            Err(problem) => problem,
        };
        // If it can't be removed, a torn end remains, and the next record notes it.
        let _ = self.file.set_len(self.size);
        Err(ReceiptError::io("write", self.path(), &problem))
    }

    /// Writes the log to the disk, then the head file, and an anchor if one is due. Only with an anchor the head file must be
    /// on the disk too.
    fn finish(&mut self, anchor: bool) -> Result<(), ReceiptError> {
        self.file.sync_data().map_err(|problem| ReceiptError::io("write", self.path(), &problem))?;
        let Some(last) = &self.last else { return Ok(()) };
        let now = Head {
            hash: last.hash.clone(),
            log_id: last.log_id.clone(),
            path: self.path().to_string_lossy().into_owned(),
            seq: last.seq,
            timestamp: last.timestamp.clone(),
        };
        if anchor {
            head::write(&self.log.options, &now)?;
            head::anchor(&self.log.options, &now)?;
            self.state.anchored_ms = self.now();
            self.state.needs_anchor = false;
            verify::keep_count(&self.log.options);
        } else {
            head::update(&self.log.options, &now)?;
        }
        Ok(())
    }

    /// Moves an incomplete line out of the log, and notes that in it.
    fn move_torn(&mut self, end: u64, torn: &[u8]) -> Result<(), ReceiptError> {
        let directory = self.log.options.torn_path();
        let name = format!("{}-{:08x}", self.now(), random(&directory)? >> 32);
        let path = directory.join(name);
        let moved = (|| {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(torn)?;
            file.sync_all()?;
            self.file.set_len(end)
        })();
        moved.map_err(|problem| ReceiptError::io("move a torn end to", &path, &problem))?;
        self.size = end;
        self.recover(&format!("torn-tail: {} bytes", torn.len()), &hash(torn))
    }

    /// Reads the head file. If it knows more than the log, or is missing, an anchor preserves it and the log notes it.
    fn heed_head(&mut self) -> Result<(), ReceiptError> {
        let Ok(head) = head::read(&self.log.options) else { return Ok(()) };
        let Some(head) = head else {
            let Some(Last { seq, hash, .. }) = self.last.clone() else { return Ok(()) };
            self.recover(&format!("head-missing: the log has {seq} receipts"), &hash)?;
            return self.finish(true);
        };
        let what = match &self.last {
            // The log was announced, but its first receipt was never written.
            None if head.seq == 0 => return Ok(()),
            None => "log-missing",
            Some(last) if last.log_id != head.log_id => "log-replaced",
            Some(last) if last.seq < head.seq || (last.seq == head.seq && last.hash != head.hash) => "log-cut-off",
            Some(_) => return Ok(()),
        };
        head::anchor(&self.log.options, &head)?;
        self.recover(&format!("{what}: {} had {} receipts", head.log_id, head.seq), &head.hash)?;
        self.finish(true)
    }

    fn recover(&mut self, rule: &str, result_hash: &str) -> Result<(), ReceiptError> {
        let draft = Draft { rule: Some(rule), result_hash: Some(result_hash), ..Draft::default() };
        self.push(Kind::Recovery, &draft).map(drop)
    }
}

/// The longest beginning of a text that a field takes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

fn random(for_what: &Path) -> Result<u64, ReceiptError> {
    let mut bytes = [0; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| ReceiptError::io("get random bytes for", for_what, &io::Error::other("none")))?;
    Ok(u64::from_ne_bytes(bytes))
}
