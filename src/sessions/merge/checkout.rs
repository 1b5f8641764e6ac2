//! The import of the checkout's uncommitted files into a session. The checkout is only read, and files that aren't committed
//! become no objects of the repository.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::Scratch;
use crate::git::{Objects as _, Oid, Program, Repo, diff, empty_tree};
use crate::sessions::base::{Session, Sessions};
use crate::sessions::error::SessionError;
use crate::tree::{FILE_BYTES_MAX, Guard, may_hold_secrets};

/// Begins a session with the checkout's uncommitted files that git doesn't ignore. Files in which `holds_key` finds a key, and
/// others that a session never commits, remain as in the newest commit, and are named.
///
/// # Errors
/// As of [`Sessions::start`]; or git can't read the checkout.
pub fn start_with_changes(
    sessions: &Sessions,
    title: &str,
    program: &Program,
    holds_key: &Guard,
) -> Result<Session, SessionError> {
    let (tree, left_out) = checkout_tree(sessions, program, holds_key)?;
    let mut session = sessions.start_with(None, title, Some(tree))?;
    session.notices.extend(left_out);
    Ok(session)
}

/// The tree of the checkout's files: tracked and new ones, without ignored files and without those that a session never commits,
/// which are named.
pub(super) fn checkout_tree(
    sessions: &Sessions,
    program: &Program,
    holds_key: &Guard,
) -> Result<(Oid, Vec<String>), SessionError> {
    let place = sessions.folder.join(format!("changes-{}", std::process::id()));
    let state = read_checkout(sessions, &place, program, holds_key);
    let _ = std::fs::remove_dir_all(&place);
    state
}

fn read_checkout(
    sessions: &Sessions,
    place: &Path,
    program: &Program,
    holds_key: &Guard,
) -> Result<(Oid, Vec<String>), SessionError> {
    let bare = || SessionError::Refused("this repository has no checkout".to_owned());
    let checkout = sessions.repo.work_dir().ok_or_else(bare)?;
    let failed = |error| SessionError::Disk(place.to_owned(), error);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(failed)?;
    // Its objects are stored beside the index until it is known which of them are committed.
    let scratch = Scratch::beside(&sessions.repo, &place.join("objects"))?;
    let tree = program.tree_of_checkout(checkout, &sessions.repo, (&scratch.path, &place.join("index")))?;
    let head = sessions.repo.head()?.commit;
    let before = head.map_or(Ok(empty_tree()), |head| sessions.repo.commit(head).map(|it| it.tree))?;
    let fresh = Repo::open(&scratch.path)?;
    let why_left_out = |it: &crate::git::Changed| {
        let id = it.new?.1;
        if it.old.is_none() && may_hold_secrets(&it.path) {
            Some("a file of its name may hold secrets")
        } else if fresh.size(id).is_ok_and(|bytes| bytes > FILE_BYTES_MAX) {
            Some("it is longer than 16 MiB")
        } else if holds_key(it.path.as_os_str().as_encoded_bytes())
            || fresh.blob(id, FILE_BYTES_MAX).is_ok_and(|bytes| holds_key(&bytes))
        {
            Some("it holds a key")
        } else {
            None
        }
    };
    let (mut edits, mut left_out) = (Vec::new(), Vec::new());
    for it in diff(&fresh, before, tree)? {
        if let Some(why) = why_left_out(&it) {
            left_out.push(format!("{} isn't taken along: {why}", it.path.display()));
            edits.push((it.path, it.old));
        }
    }
    let mut batch = fresh.batch();
    let tree = batch.tree(tree, &edits)?;
    batch.settle_unsynced()?;
    let fresh = Repo::open(&scratch.path)?;
    let mut batch = sessions.repo.batch();
    batch.add_from(&fresh, tree)?;
    batch.settle()?;
    Ok((tree, left_out))
}
