//! The errors of sessions.

use std::path::PathBuf;

use super::names::short_id;
use crate::git::{BranchUse, Conflict, GitError};

/// Paths that a message names.
const NAMED_MAX: usize = 8;

/// Reason why an operation on a session fails.
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
    /// Another shell has it open.
    #[error("session {0} is open in another shell{1}")]
    Held(String, String),
    /// The name of something that doesn't exist, and the command that lists what exists.
    #[error("{0}")]
    Missing(String, &'static str),
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
    /// A work tree uses the branch, at this place: a move would change the files of that checkout.
    #[error("the branch of session {0} {1}: switch to another one there first")]
    InUse(String, BranchUse),
    /// Its branch was only fetched, from this remote.
    #[error("session {0} was fetched from {1} and isn't one of this repository: it can be looked at and forked")]
    Foreign(String, String),
    /// The branch was rewritten, for example by a rebase: it doesn't follow the commit that this process has.
    #[error(
        "the branch of session {id} was rewritten elsewhere, as by a rebase, and is at {at}; the earlier commits are kept as \
         {number}"
    )]
    MadeAnew {
        /// The session, in short.
        id: String,
        /// Its branch's commit, in short.
        at: String,
        /// The number under which the original commits are retained.
        number: u64,
    },
    /// There are commits on the branch that this process didn't make, while uncommitted changes wait.
    #[error("someone has committed on the branch of session {0} while it had uncommitted changes")]
    Overtaken(String),
    /// Not possible now.
    #[error("{0}")]
    Refused(String),
    /// There is nothing to do: the requested state already exists.
    #[error("{0}")]
    Nothing(String),
    /// Both sides changed the same.
    #[error("both sides changed {}", list(.0))]
    Conflicts(Vec<Conflict>),
    /// A record that can't be read.
    #[error("the record of turn {0} can't be read")]
    Damaged(u64),
}

fn list(conflicts: &[Conflict]) -> String {
    let named: Vec<String> = conflicts.iter().take(NAMED_MAX).map(|it| it.path.display().to_string()).collect();
    let more = conflicts.len().saturating_sub(NAMED_MAX);
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}

/// The hint for a turn or a retained tip that doesn't exist.
pub(super) const LOG_LISTS: &str = ":session log lists its turns, and the tips that are kept";

/// The error for the name of a branch that doesn't exist.
pub(super) fn no_branch(name: &str) -> SessionError {
    SessionError::Missing(format!("there is no branch {name}"), "git branch lists them")
}

/// The error for the id of a session that doesn't exist.
pub(super) fn unknown(id: &str) -> SessionError {
    SessionError::Unknown(format!("no session here has the id {}", short_id(id)))
}
