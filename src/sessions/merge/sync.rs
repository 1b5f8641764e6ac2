//! Brings the user's branch into a session, and a session's files into the checkout. What both sides changed in the same
//! place is solved in the session, as a turn; the checkout is changed as a whole or not at all.

use std::path::{Path, PathBuf};

use super::checkout::checkout_tree;
use super::twins::twins;
use super::{MergePlan, Scratch, solved};
use crate::files::{PathError, Root, Stamp};
use crate::git::{Changed, Conflict, GitError, Mode, Objects as _, Oid, Program, Repo, TreeEdit, oid_of, short};
use crate::host::now_unix_ms;
use crate::render::patch::all_crlf;
use crate::sessions::base::{Session, Sessions};
use crate::sessions::disk::Desk;
use crate::sessions::error::SessionError;
use crate::sessions::names::short_id;
use crate::sessions::turn;
use crate::sessions::wire::{MergedFile, Meta};
use crate::tree::{FILE_BYTES_MAX, Guard, RECORDS};

/// The session's side in git's marks of conflicts.
const OURS: &str = "session";
/// The side of the checkout's uncommitted files there.
const CHECKOUT: &str = "checkout";

/// A branch that was brought into a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The newest commit of that branch.
    pub from: Oid,
    /// Files that both sides changed in the same place: they have git's marks until a turn solves them.
    pub conflicts: Vec<Conflict>,
}

/// A file of the checkout that a session changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToApply {
    /// The path.
    pub path: PathBuf,
    /// The file that is there now.
    pub expected: Option<Stamp>,
    /// The kind and content that it gets; `None` removes it.
    pub now: Option<(Mode, Vec<u8>)>,
    /// True if the content has changes of the user's, too.
    pub is_merged: bool,
    /// For a new file: an entry of the session whose name differs only in case or Unicode form.
    pub twin: Option<PathBuf>,
}

/// Merges a branch of the user's into the session: by default the one at which it began.
///
/// # Errors
/// There is no such branch, the session has all of it, or git can't merge them.
pub fn sync(session: &mut Session, from: Option<&str>, program: &Program) -> Result<Synced, SessionError> {
    session.commit_left()?;
    let repo = session.sessions.repo.clone();
    let (name, theirs) = branch_to_sync(session, from)?;
    let scratch = Scratch::beside(&repo, &session.desk.scratch())?;
    let ours = if name == OURS { "reedclaw-session" } else { OURS };
    let merged = program.merge_named(&scratch.path, None, [(ours, session.tip), (&name, theirs)])?;
    // Git's program wrote the objects: a repository that was opened before may not know them yet.
    let fresh = Repo::open(&scratch.path)?;
    let mut conflicts = merged.conflicts;
    conflicts.retain(|it| !it.path.starts_with(RECORDS));
    conflicts.sort_by(|one, other| one.path.cmp(&other.path));
    let meta = Meta {
        base: Some(theirs.to_string()),
        conflicts: conflicts.iter().map(|it| it.path.display().to_string()).collect(),
        ..session.meta.clone()
    };
    let subject = format!("bring {name} ({}) into the session", short(theirs));
    let commit = joined(session, &fresh, &meta, (merged.tree, Some(theirs)), &subject)?;
    session.operate("sync", commit)?;
    Ok(Synced { from: theirs, conflicts })
}

/// Brings the checkout's uncommitted files into the session, which has all of its newest commit; the checkout is only read. Also
/// returns the files that are left out, each with the reason.
///
/// # Errors
/// Nothing is uncommitted, the session lacks commits of the checkout, or git can't read or merge it.
pub fn sync_changes(
    session: &mut Session,
    program: &Program,
    holds_key: &Guard,
) -> Result<(Synced, Vec<String>), SessionError> {
    session.commit_left()?;
    session.follow()?;
    let (repo, refused) = (session.sessions.repo.clone(), |message: &str| SessionError::Refused(message.to_owned()));
    let head = repo.head()?.commit.ok_or_else(|| refused("the repository has no commit yet"))?;
    if repo.merge_base(session.tip, head) != Some(head) {
        return Err(refused(
            "the session lacks commits of your checkout; sync without --with-changes brings them first",
        ));
    }
    let (tree, left_out) = checkout_tree(&session.sessions, program, holds_key)?;
    if tree == repo.commit(head)?.tree {
        return Err(SessionError::Nothing("nothing in your checkout is uncommitted that a session takes".to_owned()));
    }
    let scratch = Scratch::beside(&repo, &session.desk.scratch())?;
    let fresh = Repo::open(&scratch.path)?;
    let mut batch = fresh.batch();
    let mut commit = |tree: Oid, parents: Vec<Oid>| {
        let message = "uncommitted files\n".to_owned();
        batch.commit(&session.sessions.new_commit(tree, parents, now_unix_ms(), message))
    };
    let theirs = commit(tree, vec![head])?;
    // Changes from an earlier import aren't the session's. A `git gc` may have removed them.
    let before = session.meta.checkout.as_deref().and_then(oid_of).filter(|it| repo.has(*it));
    let base = before.map(|tree| commit(tree, vec![])).transpose()?;
    batch.settle_unsynced()?;
    let merged = program.merge_named(&scratch.path, base, [(OURS, session.tip), (CHECKOUT, theirs)])?;
    let fresh = Repo::open(&scratch.path)?;
    let mut conflicts = merged.conflicts;
    conflicts.retain(|it| !it.path.starts_with(RECORDS));
    conflicts.sort_by(|one, other| one.path.cmp(&other.path));
    let names = conflicts.iter().map(|it| it.path.display().to_string()).collect();
    let meta = Meta { conflicts: names, checkout: Some(tree.to_string()), ..session.meta.clone() };
    let subject = "bring uncommitted files of the checkout into the session";
    let commit = joined(session, &fresh, &meta, (merged.tree, None), subject)?;
    session.operate("sync", commit)?;
    Ok((Synced { from: head, conflicts }, left_out))
}

/// The user's branch that is to come into the session, in short, and its newest commit.
pub(in crate::sessions) fn branch_to_sync(
    session: &Session,
    from: Option<&str>,
) -> Result<(String, Oid), SessionError> {
    let none = || SessionError::Refused("the session began at no branch; name one".to_owned());
    let name = from.or(session.meta.base_branch.as_deref()).ok_or_else(none)?;
    let repo = &session.sessions.repo;
    let gone = |error| match (from, error) {
        (None, GitError::NoCommit(_)) => SessionError::Missing(
            format!("{} is gone, the branch at which the session began", name.trim_start_matches("refs/heads/")),
            ":session sync BRANCH names another",
        ),
        (_, error) => error.into(),
    };
    let theirs = repo.find_commit(name).map_err(gone)?;
    let name = name.trim_start_matches("refs/heads/");
    if repo.merge_base(session.tip, theirs) == Some(theirs) {
        let message = format!("session {} has all of {name}", short_id(&session.meta.id));
        return Err(SessionError::Nothing(message));
    }
    Ok((name.to_owned(), theirs))
}

/// Records that the session was merged, so that the next merge has only later changes. If the target didn't get everything, the
/// session doesn't change.
///
/// # Errors
/// The branch can't be moved; the merge itself is made.
pub fn note_merged(session: &mut Session, plan: &MergePlan, commit: Oid) -> Result<(), SessionError> {
    let repo = session.sessions.repo.clone();
    let merged =
        MergedFile { commit: commit.to_string(), into: plan.target_name().to_owned(), turns: session.meta.turns };
    let meta = Meta { base: Some(commit.to_string()), merged: Some(merged), ..session.meta.clone() };
    let goes_on = !session.draft.is_unchanged() || session.left().is_some();
    if !plan.is_whole() || session.tip != plan.session_tip() || goes_on {
        return Ok(());
    }
    let subject = format!("merged into {} as {}", plan.target_name(), short(commit));
    let tree = repo.commit(commit)?.tree;
    let joined = joined(session, &repo, &meta, (tree, Some(commit)), &subject)?;
    session.publish(joined)?;
    session.meta = meta;
    Ok(())
}

/// Writes a commit with the files of `tree`, the records of this session, and `theirs`, if there is one, as its second parent.
fn joined(
    session: &Session,
    from: &Repo,
    meta: &Meta,
    (tree, theirs): (Oid, Option<Oid>),
    subject: &str,
) -> Result<Oid, SessionError> {
    let repo = &session.sessions.repo;
    let mut batch = repo.batch();
    batch.add_from(from, tree)?;
    let own = session.sessions.records_in(repo.commit(session.tip)?.tree)?;
    let edits: Vec<TreeEdit> = vec![
        (Path::new(RECORDS).to_owned(), own.map(|id| (Mode::Directory, id))),
        turn::file(&mut batch, Path::new(RECORDS).join(&meta.id).join("session.json"), &turn::json(meta))?,
    ];
    let tree = batch.tree(tree, &edits)?;
    let state = if meta.conflicts.is_empty() { "whole" } else { "conflicted" };
    let message = format!("{subject}\n\n{}", turn::trailers(&meta.id, None, "sync", state, None));
    let new =
        session.sessions.new_commit(tree, [session.tip].into_iter().chain(theirs).collect(), now_unix_ms(), message);
    let commit = batch.commit(&new)?;
    batch.settle()?;
    Ok(commit)
}

/// The files of the checkout that would change if a session's files were put there. A file that the user has changed
/// since, too, gets the changes of both. Nothing changes by this.
///
/// # Errors
/// [`SessionError::Conflicts`] if both changed the same lines, or there is no `program` to merge them; or a file can't
/// be read.
pub fn plan_apply(
    sessions: &Sessions,
    id: &str,
    checkout: &Root,
    program: Option<&Program>,
) -> Result<Vec<ToApply>, SessionError> {
    sessions.is_own(id)?;
    let view = sessions.look(id)?;
    solved(&view.meta()?)?;
    let (mut all, mut conflicts) = (Vec::new(), Vec::new());
    let scratch = Scratch::beside(&sessions.repo, &Desk::of(&sessions.folder, id).scratch())?;
    let merged = |[old, now, new]: [&Option<(Mode, Vec<u8>)>; 3]| {
        let (Some(program), Some(old), Some(now), Some(new)) = (program, old, now, new) else { return Ok(None) };
        if ![old, now, new].iter().all(|(mode, _)| mode.is_file()) {
            return Ok(None);
        }
        let mode = if now.0 == old.0 { new.0 } else { now.0 };
        let bytes = program.merge_texts(&scratch.path, [&old.1, &now.1, &new.1])?;
        Ok::<_, SessionError>(bytes.map(|bytes| (mode, bytes)))
    };
    for Changed { path, old, new } in view.changes()? {
        let content = |side: Option<(Mode, Oid)>| match side {
            Some((Mode::Submodule | Mode::Directory, _)) | None => Ok(None),
            Some((mode, id)) => sessions.repo.blob(id, FILE_BYTES_MAX).map(|bytes| Some((mode, bytes))),
        };
        let (old, new) = (content(old)?, content(new)?);
        let (expected, now) = match checkout.held(&path, FILE_BYTES_MAX) {
            Ok((stamp, bytes)) => (Some(stamp), Some((mode_of(stamp), bytes))),
            Err(PathError::Missing | PathError::NotDirectory) => (None, None),
            Err(_) => {
                conflicts.push(Conflict { path, kind: "contents".into() });
                continue;
            }
        };
        let is_crlf = has_crlf_here(&old, &now);
        let now = now.map(|(mode, bytes)| (mode, if is_crlf { with_lf(&bytes) } else { bytes }));
        let ended = |it: Option<(Mode, Vec<u8>)>| {
            it.map(|(mode, bytes)| (mode, if is_crlf && mode.is_file() { with_crlf(&bytes) } else { bytes }))
        };
        if now == new {
            continue;
        }
        if now == old {
            all.push(ToApply { path, expected, now: ended(new), is_merged: false, twin: None });
        } else if let Some(both) = merged([&old, &now, &new])? {
            all.push(ToApply { path, expected, now: ended(Some(both)), is_merged: true, twin: None });
        } else {
            let is_gone = old.is_some() && (now.is_none() || new.is_none());
            conflicts.push(Conflict { path, kind: if is_gone { "modify/delete" } else { "contents" }.into() });
        }
    }
    if !conflicts.is_empty() {
        return Err(SessionError::Conflicts(conflicts));
    }
    let tree = sessions.repo.commit(view.tip())?.tree;
    let new = all.iter().filter(|it| it.expected.is_none()).map(|it| it.path.as_path());
    for (path, twin) in twins(&*sessions.repo, tree, new)? {
        all.iter_mut().filter(|it| it.path.starts_with(&path)).for_each(|it| it.twin = Some(twin.clone()));
    }
    Ok(all)
}

/// Returns whether the lines of a text end with CR and LF in the checkout, and with LF alone in git, as its settings
/// for line ends make it.
fn has_crlf_here(old: &Option<(Mode, Vec<u8>)>, now: &Option<(Mode, Vec<u8>)>) -> bool {
    let (Some((Mode::File | Mode::Executable, old)), Some((Mode::File | Mode::Executable, now))) = (old, now) else {
        return false;
    };
    all_crlf(now) == Some(true) && !old.contains(&b'\r')
}

fn with_lf(text: &[u8]) -> Vec<u8> {
    let ends_line = |at: usize| text[at] == b'\r' && text.get(at + 1) == Some(&b'\n');
    (0..text.len()).filter(|at| !ends_line(*at)).map(|at| text[at]).collect()
}

fn with_crlf(text: &[u8]) -> Vec<u8> {
    let ended = |byte: &u8| if *byte == b'\n' { b"\r\n".to_vec() } else { vec![*byte] };
    with_lf(text).iter().flat_map(ended).collect()
}

/// The kind that git has for a file of the checkout.
fn mode_of(stamp: Stamp) -> Mode {
    match stamp {
        it if it.is_link() => Mode::Link,
        it if it.permissions() & 0o100 != 0 => Mode::Executable,
        _ => Mode::File,
    }
}
