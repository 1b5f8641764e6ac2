//! The errors of receipts, in a user's words. Doesn't know how they are shown.

use std::io;
use std::path::Path;

use crate::proto::{Failure, FailureKind};

/// The kind of an error of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptErrorKind {
    /// A file or directory can't be made, read or written.
    Access,
    /// The disk is full.
    Full,
    /// Another program holds the lock for too long.
    Locked,
    /// The log's last line was changed.
    Broken,
    /// The key of a sealed log is gone, or belongs to a longer log.
    Key,
    /// The key that the user named for a check can't be used.
    NamedKey,
}

/// A receipt can't be written or read: the failure and its place, and one thing to do next. The call must not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReceiptError {
    /// The kind of error.
    pub kind: ReceiptErrorKind,
    /// The failed operation, its object and the reason; one line.
    pub message: String,
    /// One thing to do next.
    pub hint: String,
}

impl From<ReceiptError> for Failure {
    fn from(error: ReceiptError) -> Self {
        let kind = match error.kind {
            ReceiptErrorKind::NamedKey => FailureKind::User,
            _ => FailureKind::Unavailable,
        };
        Self::new(kind, error.message).hint(error.hint)
    }
}

impl ReceiptError {
    pub(super) fn io(action: &str, path: &Path, problem: &io::Error) -> Self {
        let (kind, hint) = match problem.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                (ReceiptErrorKind::Full, "free some disk space; no tool runs without a receipt")
            }
            _ => (ReceiptErrorKind::Access, "check its owner and permissions; no tool runs without a receipt"),
        };
        Self {
            kind,
            message: format!("receipts: cannot {action} {}: {problem}", path.display()),
            hint: hint.to_owned(),
        }
    }

    pub(super) fn not_a_file(path: &Path) -> Self {
        Self {
            kind: ReceiptErrorKind::Access,
            message: format!("receipts: {} is not a regular file of yours", path.display()),
            hint: "move it out of the way; no tool runs without a receipt".to_owned(),
        }
    }

    pub(super) fn locked(path: &Path) -> Self {
        Self {
            kind: ReceiptErrorKind::Locked,
            message: format!("receipts: another program has held {} for 10 seconds", path.display()),
            hint: "is a reedclaw stopped (Ctrl-Z)? End it; no tool runs without a receipt".to_owned(),
        }
    }

    pub(super) fn named_key(path: &Path, why: &str) -> Self {
        Self {
            kind: ReceiptErrorKind::NamedKey,
            message: format!("receipts: the key {} can't be used: {why}", path.display()),
            hint: "name the file that receipts-keys/*.verify.json was moved to".to_owned(),
        }
    }

    pub(super) fn key(what: &str, path: &Path, log: &Path) -> Self {
        Self {
            kind: ReceiptErrorKind::Key,
            message: format!("receipts: {what}: {}", path.display()),
            hint: format!("reedclaw receipt verify says more; to begin a new log move {} away", log.display()),
        }
    }
}
