//! Receipts: the calls of tools, the decisions about them, and their outcomes; one line a record, each bound to the one
//! before.
//!
//! It owns the log, its lock, head file, anchors and keys. A call's intent is on the disk before the call runs, so a
//! crash leaves an intent without an outcome, which [`Log::open_intents`] and [`verify`] report. It must not know what
//! a tool is, what is risky, or who is asked; and it stores hashes of arguments and results, never these themselves.
//!
//! The chain proves that nothing in the middle was changed, removed, added or moved. The head file and the anchors, in
//! other files and in the system's log, prove that its end wasn't cut off. A key (`hmac`) whose first value is stored
//! elsewhere proves that the whole log wasn't written anew. Anything that a user can rewrite proves nothing against
//! that user.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! use reedclaw::receipts::{Entry, Log, Options, Outcome, hash, verify};
//! let options = Options::new(dir.path().join("receipts.jsonl"), dir.path().into());
//! let log = Log::open(options.clone())?;
//! let entry = Entry::new("file_read", hash(b"{\"path\":\"notes.txt\"}"), "low");
//! let opened = log.intent(&entry)?; // an error here means: don't run it
//! log.settle(opened, &Outcome::done(hash(b"what was read")))?;
//! drop(log);
//! assert_eq!(verify(&options, &Default::default())?.receipts, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod head;
mod keys;
mod lock;
mod log;
mod read;
mod record;
#[cfg(test)]
mod tests;
mod unknown;
mod verify;
mod wire;

use std::fmt;
use std::path::{Path, PathBuf};

pub use error::{ReceiptError, ReceiptErrorKind};
pub use log::{Log, Opened};
pub use read::{OpenIntent, Stored, find, newest, of_conversation};
pub use record::{Kind, Record, Seal, Status};
pub use unknown::take_unknown;
pub use verify::{Check, Report, Tally, Verdict, tally, verify};

/// The name of the log in the state directory, unless the config names another file.
pub const FILE_NAME: &str = "receipts.jsonl";
/// Maximum number of receipts between two anchors while the program runs.
pub const ANCHOR_EVERY: u64 = 64;
/// Maximum number of milliseconds between two anchors while receipts are written.
pub const ANCHOR_EVERY_MS: i64 = 600_000;
/// Limit for the text of a field, in bytes; a longer one is cut, so that a line is never longer than a reader accepts.
pub const TEXT_BYTES_MAX: usize = 512;
/// Longest line: six texts, each byte of which may be written as six, and the fields of fixed size.
const LINE_BYTES_MAX: usize = 6 * 6 * TEXT_BYTES_MAX + 2048;

/// Reads the number and the hash of the newest record, as the head file has them; none if it can't be read.
#[must_use]
pub fn end(options: &Options) -> Option<(u64, String)> {
    let head = head::read(options).ok().flatten()?;
    Some((head.seq, head.hash))
}

/// The place and the settings of a log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The log. Its lock, head file and torn ends lie beside it.
    pub path: PathBuf,
    /// The state directory: anchors and keys.
    pub state: PathBuf,
    /// Seal each receipt with a key. A log that was sealed once stays sealed.
    pub hmac: bool,
    /// True to send anchors to the system's log as well.
    pub syslog: bool,
    /// Returns the time, in Unix milliseconds.
    pub clock: fn() -> i64,
}

impl Options {
    /// A log without a key, by the machine's clock, whose anchors stay in the state directory.
    #[must_use]
    pub fn new(path: PathBuf, state: PathBuf) -> Self {
        Self { path, state, hmac: false, syslog: false, clock: crate::host::now_unix_ms }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    fn lock_path(&self) -> PathBuf {
        self.beside(".lock")
    }

    /// The file in which a session that is alive holds a lock on a byte of its own.
    fn live_path(&self) -> PathBuf {
        self.beside(".live")
    }

    fn head_path(&self) -> PathBuf {
        self.beside(".head.json")
    }

    /// The directory of torn ends.
    #[must_use]
    pub fn torn_path(&self) -> PathBuf {
        self.beside(".torn")
    }

    /// The file of anchors.
    #[must_use]
    pub fn anchors_path(&self) -> PathBuf {
        self.state.join("receipts-anchors.jsonl")
    }

    fn keys_path(&self) -> PathBuf {
        self.state.join("receipts-keys")
    }

    /// The first value of a log's key, with which its seals are checked. It belongs on another machine.
    #[must_use]
    pub fn verification_key_path(&self, log_id: &str) -> PathBuf {
        self.keys_path().join(format!("{log_id}.verify.json"))
    }
}

/// The facts about a call before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The conversation in which it was made.
    pub conversation_id: Option<u64>,
    /// The tool.
    pub tool: String,
    /// [`hash`] of the canonical arguments.
    pub args_hash: String,
    /// Its risk, empty if it failed before it was judged; an intent of any risk but `low` is on the disk before the
    /// call returns.
    pub risk: String,
    /// The author of the decision; absent if no person was needed.
    pub approver: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The tier of the sandbox that it runs in.
    pub sandbox: Option<String>,
    /// The access outside the workspace that it was granted.
    pub outside: Option<String>,
}

impl Entry {
    /// A call without a question to a person.
    #[must_use]
    pub fn new(tool: &str, args_hash: String, risk: &str) -> Self {
        Self { tool: tool.to_owned(), args_hash, risk: risk.to_owned(), ..Self::default() }
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `true` if it failed.
    pub failed: bool,
    /// [`hash`] of its result, if there is one.
    pub result_hash: Option<String>,
    /// The files that it changed outside the workspace.
    pub outside: Option<String>,
}

impl Outcome {
    /// The call succeeded.
    #[must_use]
    pub fn done(result_hash: String) -> Self {
        Self { failed: false, result_hash: Some(result_hash), outside: None }
    }

    /// Failed.
    #[must_use]
    pub fn failed(result_hash: Option<String>) -> Self {
        Self { failed: true, result_hash, outside: None }
    }
}

/// The id of a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReceiptId(String);

impl ReceiptId {
    /// As text, `receipt-…`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReceiptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 of arguments or of a result, as hexadecimal text.
#[must_use]
pub fn hash(bytes: &[u8]) -> String {
    crate::base::hash::sha256_hex(bytes)
}

/// The default path of the log in a state directory.
#[must_use]
pub fn default_path(state: &Path) -> PathBuf {
    state.join(FILE_NAME)
}
