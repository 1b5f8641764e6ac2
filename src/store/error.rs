//! The errors of the store, in a user's words. Doesn't know how they are shown.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::proto::Failure;

/// The kind of an error of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The directory or the file can't be made, read or written.
    Access,
    /// Something else holds the lock.
    Locked,
    /// The file isn't a database, or is damaged.
    Corrupt,
    /// The file was written by a newer ReedClaw.
    Newer,
    /// The disk is full.
    Full,
    /// Anything else that SQLite reports.
    Other,
}

/// A failure of the store: what failed on what, and one thing to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// The kind of error.
    pub kind: StoreErrorKind,
    /// The failed operation, its object and the reason; one line.
    pub message: String,
    /// One thing to do next.
    pub hint: String,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::unavailable(error.message).hint(error.hint)
    }
}

impl StoreError {
    pub(super) fn io(action: &str, path: &Path, problem: &std::io::Error) -> Self {
        let kind = match problem.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreErrorKind::Full,
            _ => StoreErrorKind::Access,
        };
        Self { kind, message: format!("history: cannot {action} {}: {problem}", path.display()), hint: hint(kind) }
    }

    pub(super) fn not_a_file(path: &Path) -> Self {
        let kind = StoreErrorKind::Access;
        Self {
            kind,
            message: format!("history: {} is not a regular file", path.display()),
            hint: "move it out of the way; until then the history stays in memory".to_owned(),
        }
    }

    pub(super) fn lost(path: &Path) -> Self {
        let message = format!("history: {} was moved or removed while it was open", path.display());
        let hint = "put it back, or begin a new session; until then new lines and conversations stay in memory";
        Self { kind: StoreErrorKind::Access, message, hint: hint.to_owned() }
    }

    pub(super) fn newer(path: &Path, found: i64, known: i64) -> Self {
        let kind = StoreErrorKind::Newer;
        let message = format!("history: {} has format {found}; this program knows up to {known}", path.display());
        Self { kind, message, hint: hint(kind) }
    }

    pub(super) fn sqlite(action: &str, path: Option<&Path>, problem: &rusqlite::Error) -> Self {
        let kind = match problem.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::Locked,
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreErrorKind::Corrupt,
            Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StoreErrorKind::Access,
            _ => StoreErrorKind::Other,
        };
        let place = path.map_or_else(|| "the store in memory".to_owned(), |path| path.display().to_string());
        Self { kind, message: format!("history: cannot {action} {place}: {problem}"), hint: hint(kind) }
    }
}

fn hint(kind: StoreErrorKind) -> String {
    match kind {
        StoreErrorKind::Access => "check its owner and permissions; until then the history stays in memory",
        StoreErrorKind::Locked => "another program holds it: close that one; new lines are kept in memory until then",
        StoreErrorKind::Corrupt => {
            "reedclaw doctor --repair saves what can be read; until then the history stays in memory"
        }
        StoreErrorKind::Newer => "update reedclaw, or set another history directory; this history is in memory",
        StoreErrorKind::Full => "free some disk space; new lines are kept in memory until then",
        StoreErrorKind::Other => "new lines are kept in memory; `reedclaw` continues without the file",
    }
    .to_owned()
}
