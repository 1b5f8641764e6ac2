//! Errors of sessions as failures with a hint. Must not know what was being done.

use crate::git::GitError;
use crate::proto::{Failure, FailureKind};
use crate::sessions::SessionError;

/// A failure of sessions, in words for a person at the shell's prompt.
#[must_use]
pub fn session_failure(error: SessionError) -> Failure {
    let (kind, hint) = match &error {
        SessionError::Unknown(_) => (FailureKind::User, ":session list shows the sessions of this repository"),
        SessionError::Missing(_, hint) => (FailureKind::User, *hint),
        SessionError::NoTurn { .. } => (FailureKind::User, ":session log lists its turns"),
        SessionError::NoChange(_) => (FailureKind::User, ":session diff alone shows all that the session has changed"),
        SessionError::Git(GitError::NoCommit(_)) => (FailureKind::User, "name a commit, a branch or a tag"),
        SessionError::Held(..) => {
            (FailureKind::Refused, "a fork continues from it here; :session show and :session diff look at it")
        }
        SessionError::MadeAnew { .. } => (
            FailureKind::Refused,
            ":session open ID continues with the branch as it is now, :fork --kept N with the commits as they were",
        ),
        SessionError::Foreign(..) => (FailureKind::Refused, "a fork of it is a session of your own"),
        SessionError::Overtaken(_) => {
            (FailureKind::Refused, ":session open ID keeps these changes by name and continues after those commits")
        }
        SessionError::Refused(_) | SessionError::Nothing(_) | SessionError::InUse(..) => (FailureKind::Refused, ""),
        SessionError::Conflicts(_) => (
            FailureKind::Refused,
            "nothing was changed; :session sync brings what you have committed into the session, to solve it there",
        ),
        SessionError::Damaged(_) => (FailureKind::Unavailable, "its files are whole; git log shows its commits"),
        SessionError::Git(GitError::None(_)) => (FailureKind::Unavailable, "git init makes one there"),
        SessionError::Git(_) => (FailureKind::Unavailable, ""),
        SessionError::Disk(_, error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            (FailureKind::User, "name one that doesn't exist yet")
        }
        SessionError::Disk(_, error) if error.kind() == std::io::ErrorKind::NotFound => {
            (FailureKind::User, "the directory in which it is to lie doesn't exist")
        }
        SessionError::Disk(..) => (FailureKind::Unavailable, "free some disk space, or look at the permissions there"),
    };
    let message = match &error {
        SessionError::Disk(path, error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            format!("{} is there already", path.display())
        }
        SessionError::Disk(path, error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("{} can't be made", path.display())
        }
        error => error.to_string(),
    };
    Failure::new(kind, message).hint(hint)
}
