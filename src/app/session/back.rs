//! Files of a session that go back to what they were, without its conversation. Must not know how the person asks for it.

use std::path::PathBuf;

use super::{OnGit, no_session, session_failure};
use crate::app::{Runtime, steps};
use crate::files::Tree as _;
use crate::proto::Failure;
use crate::sessions::{FilesBack, SessionError, short_id};

/// Returns whether an undo, or a redo, applies to the files of the current session rather than to those of the
/// checkout. An undo does unless the session's files were brought to the checkout since its newest commit.
#[must_use]
pub fn undoes_in_session(runtime: &Runtime, is_undo: bool) -> bool {
    let Some(OnGit { session, .. }) = &runtime.on_git else { return false };
    if !is_undo {
        return session.has_undone_files();
    }
    let text = format!("session {}", short_id(session.id()));
    let since = session.view().turn(None).map_or(i64::MAX, |it| it.time_s.saturating_mul(1000));
    let steps = steps(&runtime.settings, &runtime.env, crate::files::Tree::path(&**session.draft()));
    let newest = steps.ok().and_then(|steps| steps.list().into_iter().rev().find(|step| !step.is_undone));
    !newest.is_some_and(|step| step.text == text && step.time >= since)
}

/// Undoes what a turn has changed in files of the session that is on, or makes it again; with `path`, one file.
///
/// # Errors
/// No session is on, there is nothing, or it can't be written.
pub fn undo_in_session(runtime: &mut Runtime, path: Option<&str>, is_undo: bool) -> Result<FilesBack, Failure> {
    let on_git = runtime.on_git.as_mut().ok_or_else(no_session)?;
    let session = &mut on_git.session;
    let path: Option<PathBuf> = path
        .map(|path| session.draft().beneath(path).map_err(|error| Failure::user(format!("{path}: {error}"))))
        .transpose()?;
    let done = if is_undo { session.undo_files(path.as_deref()) } else { session.redo_files() };
    let done = done.map_err(|error| match error {
        SessionError::Refused(_) => {
            session_failure(error).hint("after :session leave, :undo reverts steps of the checkout")
        }
        error => session_failure(error),
    })?;
    on_git.bench.settle();
    Ok(done)
}
