//! The errors of sessions.

use std::path::PathBuf;

use super::names::short_id;
use crate::git::GitError;

/// Paths that a message names.
const NAMED_MAX: usize = 8;

/// Reason why something of a session can't be done.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Git's reason.
    #[error("{0}")]
    Git(#[from] GitError),
    /// The state directory's reason.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Disk(PathBuf, std::io::Error),
    /// No session, or several, have such an id.
    #[error("{0}")]
    Unknown(String),
    /// Another shell writes it.
    #[error("session {0} is open in another shell{1}")]
    Held(String, String),
    /// There is no such turn.
    #[error("session {id} has no turn {turn}; its newest is {last}")]
    NoTurn {
        /// The session, in short.
        id: String,
        /// The turn.
        turn: u64,
        /// Its newest turn.
        last: u64,
    },
    /// Nothing has changed at a path.
    #[error("nothing has changed at {0}")]
    NoChange(String),
    /// Not possible now.
    #[error("{0}")]
    Refused(String),
    /// Both sides changed the same.
    #[error("both sides changed {}", list(.0))]
    Conflicts(Vec<PathBuf>),
    /// A record that can't be read.
    #[error("the record of turn {0} can't be read")]
    Damaged(u64),
}

fn list(paths: &[PathBuf]) -> String {
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
    let more = paths.len().saturating_sub(NAMED_MAX);
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}

/// The error for an id that no session has.
pub(super) fn unknown(id: &str) -> SessionError {
    SessionError::Unknown(format!("no session here has the id {}", short_id(id)))
}
