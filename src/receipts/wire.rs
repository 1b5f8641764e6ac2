//! The formats of the small files beside the log: head, anchors, keys.

use serde::{Deserialize, Serialize};

/// The end of a log, as in the head file and in a line of the anchors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The hash of its last receipt.
    pub(super) hash: String,
    pub(super) log_id: String,
    /// The log's path: an anchor of another log in its place shows that the log was replaced.
    pub(super) path: String,
    /// The number of its last receipt.
    pub(super) seq: u64,
    pub(super) timestamp: String,
}

/// A key of a log, at one epoch.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredKey {
    pub(super) epoch: u64,
    /// The first receipt that is sealed.
    pub(super) from_seq: u64,
    /// 32 bytes in hexadecimal text.
    pub(super) key: String,
    pub(super) key_id: String,
    pub(super) log_id: String,
}

/// The position up to which the log was read for calls with an unknown outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The log's file.
    pub(super) inode: u64,
    /// The part that was read.
    pub(super) bytes: u64,
    /// The calls in there that were still running.
    pub(super) running: Vec<Running>,
}

/// A call that was still running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Running {
    pub(super) seq: u64,
    pub(super) id: String,
    pub(super) timestamp: String,
    pub(super) tool: String,
}

/// Receipts that were counted, and how far the log was read for that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counted {
    /// The log's file.
    pub(super) inode: u64,
    /// The end of the last line that was read.
    pub(super) bytes: u64,
    pub(super) log_id: String,
    /// The hash of the last receipt.
    pub(super) hash: String,
    pub(super) receipts: u64,
    pub(super) calls: u64,
    pub(super) denials: u64,
}
