//! The limits of undo, and the reasons why something can't be stored or reverted.

use std::path::PathBuf;
use std::time::Duration;

use gix::ObjectId;

use super::state::State;
use crate::files::PathError;

/// Limits of undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit on the stored bytes of a workspace.
    pub bytes_max: u64,
    /// Size of the largest file that is stored.
    pub file_bytes_max: u64,
    /// Entries of a workspace; one with more isn't covered.
    pub files_max: usize,
    /// Time limit of a snapshot.
    pub look_time: Duration,
    /// Time limit for reading contents in one snapshot.
    pub read_time: Duration,
    /// Time limit for comparing files with git's index; then the index is believed.
    pub compare_time: Duration,
}

/// Reason why something can't be stored or reverted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepsError {
    /// The store can't be read or written.
    #[error("{what}: {why}")]
    Io {
        /// The part that failed.
        what: &'static str,
        /// The system's message.
        why: String,
    },
    /// A content that should be stored isn't.
    #[error("the content {0} isn't in the store any more")]
    Missing(ObjectId),
    /// A content was made to have the name of another.
    #[error("a file was made to pass for another one (a SHA-1 collision)")]
    Collision,
    /// Another session holds the store.
    #[error("another session is just using the store of steps")]
    Busy,
    /// A command of a model runs here in another session.
    #[error("a command of a model still runs here, in another session: {0}")]
    Running(String),
    /// There are too many entries for a snapshot.
    #[error("the workspace has more than {0} files and folders (undo.files_max)")]
    TooMany(usize),
    /// Looking took too long.
    #[error("looking at the workspace took more than {} s", .0.as_secs())]
    Slow(Duration),
    /// There is nothing of that kind.
    #[error("{0}")]
    Nothing(String),
    /// Later changes would be lost.
    #[error("{}", conflict_words(.0))]
    Conflicts(Vec<Conflict>),
    /// A file of the workspace can't be read or written.
    #[error("{}: {error}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The reason.
        error: PathError,
    },
    /// The workspace can't be opened.
    #[error("the workspace: {0}")]
    Root(PathError),
}

fn conflict_words(conflicts: &[Conflict]) -> String {
    match conflicts {
        [only] => format!("{} {}", only.path.display(), only.why),
        many => format!("{} files have changed since", many.len()),
    }
}

impl StepsError {
    pub fn io(what: &'static str, error: &std::io::Error) -> Self {
        let why = error.raw_os_error().map(|number| nix::errno::Errno::from_raw(number).desc().to_lowercase());
        Self::Io { what, why: why.unwrap_or_else(|| error.to_string()) }
    }

    pub fn object(error: &gix::Error) -> Self {
        Self::Io { what: "the store of steps", why: error.to_string() }
    }
}

/// A path that differs from what a step left there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The place.
    pub path: PathBuf,
    /// The problem at the path.
    pub why: String,
    /// The state that the step left.
    pub left: State,
    /// The present state.
    pub now: State,
}
