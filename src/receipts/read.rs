//! Reading the log: its lines from the start, its last line from the end, and queries. Changes nothing.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Take};
use std::os::unix::fs::FileExt;

use super::lock::{self, open_private};
use super::record::{Kind, Parsed, Record};
use super::{LINE_BYTES_MAX, Options, ReceiptError};

/// Bytes read at once.
const BUFFER_BYTES: usize = 1024 * 1024;
/// The piece of the end that is read first: a receipt has about 700 bytes.
const TAIL_BYTES: u64 = 2048;
/// The longest end without a line feed that is moved away; nothing of ours is longer than a line.
const TORN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An intent without an outcome, whose session has ended: whether the call ran is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenIntent {
    /// The number of the receipt.
    pub seq: u64,
    /// The id of the receipt.
    pub id: String,
    /// Time when it was written.
    pub timestamp: String,
    /// The tool that was to run.
    pub tool: String,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of the line.
    pub number: u64,
    /// The line as it is in the log.
    pub line: String,
    /// The receipt in it; `None` if it isn't one.
    pub record: Option<Record<'static>>,
}

impl Stored {
    fn of(number: u64, line: &[u8]) -> Self {
        let record = Parsed::read(line).map(|parsed| parsed.record.into_owned());
        Self { number, line: String::from_utf8_lossy(line).into_owned(), record }
    }
}

/// The lines of a log, up to the size that it had.
pub(super) struct Lines {
    input: BufReader<Take<File>>,
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn of(file: File, size: u64) -> Self {
        Self { input: BufReader::with_capacity(BUFFER_BYTES, file.take(size)), line: Vec::new() }
    }

    /// The next line, and whether a line feed ends it. Of a line that is too long only the beginning.
    pub(super) fn next(&mut self) -> io::Result<Option<(&[u8], bool)>> {
        self.line.clear();
        let mut any = false;
        loop {
            let piece = self.input.fill_buf()?;
            if piece.is_empty() {
                return Ok(any.then_some((&self.line, false)));
            }
            any = true;
            let end = memchr::memchr(b'\n', piece);
            let (text, used) = end.map_or((piece, piece.len()), |end| (&piece[..end], end + 1));
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some((&self.line, true)));
            }
        }
    }
}

/// The state of the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) log_id: String,
    pub(super) seq: u64,
    pub(super) hash: String,
    pub(super) timestamp: String,
    pub(super) is_sealed: bool,
}

/// The end of a log.
pub(super) struct Tail {
    /// The end of the last whole line.
    pub(super) end: u64,
    /// The bytes after it: an incomplete line.
    pub(super) torn: Vec<u8>,
    /// The last receipt; none in an empty log.
    pub(super) last: Option<Last>,
}

/// Reason why a log can't be continued from its end.
pub(super) enum TailProblem {
    Io(io::Error),
    /// The last line ends like one of ours, but isn't a receipt.
    Broken,
}

impl From<io::Error> for TailProblem {
    fn from(problem: io::Error) -> Self {
        Self::Io(problem)
    }
}

/// Reads the end of a log of `size` bytes.
pub(super) fn tail(file: &File, size: u64) -> Result<Tail, TailProblem> {
    let mut length = TAIL_BYTES;
    loop {
        let start = size.saturating_sub(length);
        let mut bytes = vec![0; usize::try_from(size - start).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        let end = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        let line = memchr::memrchr(b'\n', &bytes[..end.saturating_sub(1)]).map(|at| at + 1);
        match line.or((start == 0).then_some(0)) {
            None if length > TORN_BYTES_MAX => return Err(TailProblem::Broken),
            None => length *= 4,
            Some(line) => {
                let torn = bytes[end..].to_vec();
                let last = if end == 0 { None } else { Some(last(&bytes[line..end - 1]).ok_or(TailProblem::Broken)?) };
                return Ok(Tail { end: start + end as u64, torn, last });
            }
        }
    }
}

fn last(line: &[u8]) -> Option<Last> {
    let parsed = Parsed::read(line).filter(Parsed::hash_holds)?;
    Some(Last {
        log_id: parsed.record.log_id.to_string(),
        seq: parsed.record.seq,
        hash: parsed.receipt_hash.to_owned(),
        timestamp: parsed.record.timestamp.to_string(),
        is_sealed: parsed.record.seal.is_some(),
    })
}

/// Opens a log for reading; `None` if there is none.
pub(super) fn open(options: &Options) -> Result<Option<(File, u64)>, ReceiptError> {
    if matches!(options.path.symlink_metadata(), Err(problem) if problem.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let file = open_private(&options.path, OpenOptions::new().read(true))?;
    let size = file.metadata().map_err(|problem| ReceiptError::io("read", &options.path, &problem))?.len();
    Ok(Some((file, size)))
}

/// Calls `each` with the number and text of every line, the torn end too.
fn each_line(options: &Options, mut each: impl FnMut(u64, &[u8])) -> Result<(), ReceiptError> {
    let Some((file, size)) = open(options)? else { return Ok(()) };
    let mut lines = Lines::of(file, size);
    let mut number = 0;
    while let Some((line, _)) = lines.next().map_err(|problem| ReceiptError::io("read", &options.path, &problem))? {
        number += 1;
        each(number, line);
    }
    Ok(())
}

/// Returns the newest lines of the log, the oldest of them first.
///
/// # Errors
/// The log can't be read. One that isn't there is empty.
pub fn newest(options: &Options, limit: usize) -> Result<Vec<Stored>, ReceiptError> {
    let mut newest_lines: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    each_line(options, |number, line| {
        // The buffer of the line that is dropped is used for the new one.
        let mut buffer =
            if newest_lines.len() < limit { Vec::new() } else { newest_lines.pop_front().unwrap_or_default().1 };
        buffer.clear();
        buffer.extend_from_slice(line);
        newest_lines.push_back((number, buffer));
    })?;
    Ok(newest_lines.iter().take(limit).map(|(number, line)| Stored::of(*number, line)).collect())
}

/// Returns the intents of a conversation and their outcomes, in order.
///
/// # Errors
/// The log can't be read. One that isn't there is empty.
pub fn of_conversation(options: &Options, conversation: u64) -> Result<Vec<Record<'static>>, ReceiptError> {
    let mut found: Vec<Record<'static>> = Vec::new();
    each_line(options, |_, line| {
        let Some(Parsed { record, .. }) = Parsed::read(line) else { return };
        let is_intent = record.kind == Kind::Intent && record.conversation_id == Some(conversation);
        let is_outcome =
            record.kind == Kind::Outcome && found.iter().any(|it| record.intent.as_deref() == Some(&*it.id));
        if is_intent || is_outcome {
            found.push(record.into_owned());
        }
    })?;
    Ok(found)
}

/// Finds a receipt by its id or its number.
///
/// # Errors
/// The log can't be read.
pub fn find(options: &Options, which: &str) -> Result<Option<Stored>, ReceiptError> {
    let wanted_number: Option<u64> = which.parse().ok();
    let mut found = None;
    each_line(options, |number, line| {
        let is_wanted = wanted_number == Some(number)
            || (memchr::memmem::find(line, which.as_bytes()).is_some()
                && Parsed::read(line).is_some_and(|parsed| parsed.record.id == which));
        if found.is_none() && is_wanted {
            found = Some(Stored::of(number, line));
        }
    })?;
    Ok(found)
}

/// Collects the intents that have no outcome.
#[derive(Default)]
pub(super) struct Open(HashMap<String, OpenIntent>);

impl Open {
    /// Records a line; false if it settles a call that isn't open.
    pub(super) fn note(&mut self, record: &Record) -> bool {
        match record.kind {
            Kind::Intent => {
                let intent = OpenIntent {
                    seq: record.seq,
                    id: record.id.to_string(),
                    timestamp: record.timestamp.to_string(),
                    tool: record.tool.as_deref().unwrap_or_default().to_owned(),
                };
                self.0.insert(record.id.to_string(), intent).is_none()
            }
            Kind::Outcome => record.intent.as_deref().is_some_and(|id| self.0.remove(id).is_some()),
            Kind::Denied | Kind::Anchor | Kind::Recovery => true,
        }
    }

    /// Takes in an intent that was read before.
    pub(super) fn carry(&mut self, intent: OpenIntent) {
        self.0.insert(intent.id.clone(), intent);
    }

    /// Every intent without an outcome.
    pub(super) fn all(&self) -> Vec<OpenIntent> {
        self.0.values().cloned().collect()
    }

    /// Those whose session has ended, the oldest first. A call of a session that is alive is still running.
    pub(super) fn unknown(self, options: &Options, own: Option<u64>) -> Vec<OpenIntent> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let live = open_private(&options.live_path(), OpenOptions::new().read(true)).ok();
        let is_running = |intent: &OpenIntent| {
            session_of(&intent.id).is_some_and(|session| {
                own == Some(session) || live.as_ref().is_some_and(|live| lock::is_alive(live, session))
            })
        };
        let mut unknown: Vec<OpenIntent> = self.0.into_values().filter(|intent| !is_running(intent)).collect();
        unknown.sort_by_key(|intent| intent.seq);
        unknown
    }
}

/// The session that wrote a receipt, as its id has it.
fn session_of(id: &str) -> Option<u64> {
    u64::from_str_radix(id.strip_prefix("receipt-")?.split('-').next()?, 16).ok()
}

/// The intents of sessions that are gone without an outcome.
pub(super) fn open_intents(options: &Options, own: Option<u64>) -> Result<Vec<OpenIntent>, ReceiptError> {
    let mut open = Open::default();
    each_line(options, |_, line| {
        if let Some(parsed) = Parsed::read(line) {
            open.note(&parsed.record);
        }
    })?;
    Ok(open.unknown(options, own))
}
