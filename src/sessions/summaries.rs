//! Summaries of files, by the name of their content: shared by all sessions of a repository, in a commit without parents.
//! A file that stays as it is needs no other summary. Must not know how they are made.

use std::path::{Path, PathBuf};

use super::base::Sessions;
use super::error::SessionError;
use super::names::SUMMARIES;
use crate::git::{Batch, GitError, Mode, NewCommit, Objects as _, Oid, TreeEdit, diff, empty_tree};
use crate::host::now_unix_ms;
use crate::tree::{Draft, may_hold_secrets};

/// The folder in its tree; another method of summarising gets another folder.
const FOLDER: &str = "v1";
/// Longest summary, in bytes.
const SUMMARY_BYTES_MAX: u64 = 2_000;
/// Longest file that is summarised.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Folders with files of third parties or generated files.
const FOREIGN: [&str; 6] = ["vendor", "node_modules", "third_party", "dist", "target", ".reedclaw"];
/// Limit on the attempts to move the reference while others move it.
const TRIES_MAX: usize = 10;

/// The summaries of the files of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summaries {
    /// The known ones, by path.
    pub known: Vec<(PathBuf, String)>,
    /// The files without one, each with the name of its content.
    pub missing: Vec<(PathBuf, Oid)>,
}

/// The path of the summary of a content.
fn place(id: Oid) -> PathBuf {
    let hex = id.to_string();
    Path::new(FOLDER).join(&hex[..2]).join(&hex[2..])
}

/// Returns the summaries of the files of a commit; files of others and those that hold secrets are left out.
///
/// # Errors
/// A tree can't be read.
pub fn summaries(sessions: &Sessions, commit: Oid) -> Result<Summaries, SessionError> {
    let repo = &sessions.repo;
    let stored = repo.tip(SUMMARIES)?.map(|tip| repo.commit(tip)).transpose()?.map_or(empty_tree(), |it| it.tree);
    let stored = Draft::read_only(repo.clone(), stored, Path::new("/"), None);
    let mut found = Summaries::default();
    for file in diff(&**repo, empty_tree(), repo.commit(commit)?.tree)? {
        let Some((_, id)) = file.new.filter(|(mode, _)| mode.is_file()) else { continue };
        let is_foreign = file.path.iter().any(|part| FOREIGN.iter().any(|it| part == *it));
        if is_foreign || may_hold_secrets(&file.path) {
            continue;
        }
        match stored.leaf(&place(id), SUMMARY_BYTES_MAX) {
            Ok((_, text)) => found.known.push((file.path, String::from_utf8_lossy(&text).into_owned())),
            Err(_) if repo.size(id).is_ok_and(|bytes| bytes <= FILE_BYTES_MAX) => found.missing.push((file.path, id)),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Returns whether the person has had summaries made in this repository.
#[must_use]
pub fn has_summaries(sessions: &Sessions) -> bool {
    matches!(sessions.repo.tip(SUMMARIES), Ok(Some(_)))
}

/// Stores summaries by the names of contents.
///
/// # Errors
/// The repository can't be written.
pub fn add_summaries(sessions: &Sessions, made: &[(Oid, String)]) -> Result<(), SessionError> {
    let repo = &sessions.repo;
    for _ in 0..TRIES_MAX {
        let old = repo.tip(SUMMARIES)?;
        let base = old.map(|tip| repo.commit(tip)).transpose()?.map_or(empty_tree(), |it| it.tree);
        let mut batch: Batch<'_> = repo.batch();
        let mut edits: Vec<TreeEdit> = Vec::new();
        for (id, text) in made {
            edits.push((place(*id), Some((Mode::File, batch.blob_of(text.as_bytes())?))));
        }
        let tree = batch.tree(base, &edits)?;
        let message = "summaries of files\n".to_owned();
        let new: NewCommit = sessions.new_commit(tree, Vec::new(), now_unix_ms(), message);
        let commit = batch.commit(&new)?;
        batch.settle()?;
        match repo.swap(SUMMARIES, old, Some(commit), &sessions.who) {
            Err(GitError::Moved { .. }) => {}
            done => return Ok(done?),
        }
    }
    Err(SessionError::Refused("others add summaries at the same time; try again".to_owned()))
}

/// Removes all summaries of the repository.
///
/// # Errors
/// The reference can't be removed.
pub fn drop_summaries(sessions: &Sessions) -> Result<(), SessionError> {
    let old = sessions.repo.tip(SUMMARIES)?;
    if old.is_some() {
        sessions.repo.swap(SUMMARIES, old, None, &sessions.who)?;
    }
    Ok(())
}
