//! Rewriting of a session's commits: the newest turn joined with its person's later changes, all turns replayed on the user's
//! branch, and a return to only the files or only the conversation of a turn. The branch's previous tip is retained, and `undo`
//! returns to it.

use std::path::Path;

use super::Scratch;
use super::sync::Synced;
use super::sync::branch_to_sync;
use crate::git::{Mode, NewCommit, Oid, Program, Repo, TreeEdit, short};
use crate::host::now_unix_ms;
use crate::sessions::base::Session;
use crate::sessions::error::SessionError;
use crate::sessions::history::{LogEntry, View, record_path};
use crate::sessions::names::{self, short_id};
use crate::sessions::turn;
use crate::sessions::wire::{ChangeFile, Meta};
use crate::tree::{Changed, Content, RECORDS};

/// Joins the person's own commits since the newest turn into that turn's commit, with the first line `subject` if there is one.
/// Returns the name of the retained old tip.
///
/// # Errors
/// There is no turn, nothing to join, a commit that isn't the person's comes after it, or the branch can't be moved.
pub fn amend(session: &mut Session, subject: Option<&str>) -> Result<String, SessionError> {
    session.commit_left()?;
    session.follow()?;
    let refused = |message: String| SessionError::Refused(message);
    let (view, number) = (session.view(), session.meta.turns);
    let log = view.log()?;
    let at = log.iter().position(|it| it.act == "turn" && it.turn == Some(number));
    let at = at.ok_or_else(|| refused("the session has no turns of its own yet".into()))?;
    let (later, entry) = (&log[..at], &log[at]);
    let subject = subject.map(names::title).filter(|it| !it.is_empty());
    if later.is_empty() && subject.is_none() {
        return Err(refused(format!("no commit of yours comes after turn {number}")));
    }
    if let Some(other) = later.iter().find(|it| it.act != "user" || it.session.is_empty()) {
        let message = format!("{} comes after turn {number} and isn't an edit or command of yours", short(other.id));
        return Err(refused(message));
    }
    let repo = session.sessions.repo.clone();
    let old = repo.commit(entry.id)?;
    let mut batch = repo.batch();
    let (mut record, mut lines) = (view.record(number)?, None);
    if let Some(parent) = entry.parents.first() {
        let from = view.before_parts(*parent)?;
        let changes = view.differ(from, session.tip)?;
        let now = |it: &crate::git::Changed| it.new.map(|(mode, id)| (mode, Content::Object(id)));
        let all: Vec<Changed> = changes.iter().map(|it| Changed { path: it.path.clone(), now: now(it) }).collect();
        lines = session.lines_since(from, &all)?;
        record.changes = changes
            .into_iter()
            .map(|it| ChangeFile {
                path: it.path.display().to_string(),
                mode: it.new.map(|(mode, _)| mode.octal().to_owned()),
                now: it.new.map(|(_, id)| id.to_string()),
            })
            .collect();
    }
    let edits = [turn::file(&mut batch, record_path(&entry.session, number), &turn::json(&record))?];
    let tree = batch.tree(repo.commit(session.tip)?.tree, &edits)?;
    let old_message = turn::with_numbers(record.changes.len(), lines, &old.message);
    let message = subject.map_or_else(|| old_message.clone(), |subject| turn::with_subject(&subject, &old_message));
    let new = session.sessions.new_commit(tree, old.parents, old.time_s * 1000, message);
    let tip = batch.commit(&new)?;
    batch.settle()?;
    session.operate(&format!("amend of turn {number}"), tip)
}

/// One of the two sides of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Its files.
    Code,
    /// The conversation up to it.
    Talk,
}

/// Goes back to a turn with one half; the other half doesn't change. Old files become a new turn; an old conversation continues
/// from its turn with a commit of the current files. Returns the name of the retained old tip.
///
/// # Errors
/// There is no such turn, another session made it, nothing differs, or the branch can't be moved.
pub fn rewind_half(session: &mut Session, number: u64, half: Half) -> Result<String, SessionError> {
    session.commit_left()?;
    session.follow()?;
    let entry = session.view().turn(Some(number))?;
    if entry.session != session.meta.id {
        let message = format!("turn {number} is one of session {}; go back there", short_id(&entry.session));
        return Err(SessionError::Refused(message));
    }
    let changes = session.view().differ(session.tip, entry.id)?;
    match half {
        _ if changes.is_empty() => Err(SessionError::Refused(format!("no file has changed since turn {number}"))),
        Half::Code => {
            let now = |it: crate::git::Changed| Changed {
                path: it.path,
                now: it.new.map(|(mode, id)| (mode, Content::Object(id))),
            };
            let view = View::new(session.sessions.repo.clone(), session.meta.id.clone(), entry.id);
            let changes: Vec<Changed> = changes.into_iter().map(now).collect();
            let commit = session.write_files_of(number, &changes, view.meta()?.conflicts)?;
            session.operate(&format!("return to the files of turn {number}"), commit)
        }
        Half::Talk => {
            let commit = talk_of(session, &entry, number)?;
            session.operate(&format!("return to the conversation of turn {number}"), commit)
        }
    }
}

/// Writes a commit on a turn, with its conversation and the current files.
fn talk_of(session: &Session, entry: &LogEntry, number: u64) -> Result<Oid, SessionError> {
    let repo = session.sessions.repo.clone();
    let view = View::new(repo.clone(), session.meta.id.clone(), entry.id);
    // The merged branch, and its unsolved conflicts, belong to the files.
    let Meta { base, conflicts, turns, .. } = session.meta.clone();
    let meta = Meta { base, conflicts, ..view.meta()? };
    let records = session.sessions.records_in(entry.tree)?;
    let mut batch = repo.batch();
    let edits: Vec<TreeEdit> = vec![
        (Path::new(RECORDS).to_owned(), records.map(|id| (Mode::Directory, id))),
        turn::file(&mut batch, Path::new(RECORDS).join(&meta.id).join("session.json"), &turn::json(&meta))?,
    ];
    let tree = batch.tree(repo.commit(session.tip)?.tree, &edits)?;
    let state = if meta.conflicts.is_empty() { "whole" } else { "conflicted" };
    let trailers = turn::trailers(&meta.id, None, "user", state, None);
    let message = format!("the files of turn {turns} after the conversation of turn {number}\n\n{trailers}");
    let commit = batch.commit(&session.sessions.new_commit(tree, vec![entry.id], now_unix_ms(), message))?;
    batch.settle()?;
    Ok(commit)
}

/// Rewrites all commits of the session on a branch of the user's: by default the one at which it began.
///
/// # Errors
/// [`SessionError::Conflicts`] if both sides changed the same lines; then nothing has moved. Or there is no such branch, the
/// session has all of it, or a foreign commit is among those of the session.
pub fn replay(session: &mut Session, from: Option<&str>, program: &Program) -> Result<Synced, SessionError> {
    session.commit_left()?;
    let (_, theirs) = branch_to_sync(session, from)?;
    let log = session.view().log()?;
    if let Some(foreign) = log.iter().find(|it| it.session.is_empty()) {
        let message = format!(
            "{} was committed by someone else and would have to be rewritten; sync without --rebase merges",
            short(foreign.id)
        );
        return Err(SessionError::Refused(message));
    }
    let repo = session.sessions.repo.clone();
    let scratch = Scratch::beside(&repo, &session.desk.scratch())?;
    let work = Replay { session, scratch: &scratch, program, theirs };
    let mut at = theirs;
    for entry in log.iter().rev() {
        at = work.one(entry, at)?;
    }
    let mut batch = repo.batch();
    batch.add_from(&Repo::open(&scratch.path)?, at)?;
    batch.settle()?;
    session.operate("sync", at)?;
    Ok(Synced { from: theirs, conflicts: Vec::new() })
}

/// A replay at work.
struct Replay<'a> {
    session: &'a Session,
    scratch: &'a Scratch,
    program: &'a Program,
    theirs: Oid,
}

impl Replay<'_> {
    /// Rewrites one commit on `at`; returns it, or `at` if nothing of it remains.
    fn one(&self, entry: &LogEntry, at: Oid) -> Result<Oid, SessionError> {
        let sessions = &self.session.sessions;
        let none = || SessionError::Refused("the session began before the first commit; sync without --rebase".into());
        let parent = *entry.parents.first().ok_or_else(none)?;
        // Another process may have written objects: a repository that was opened before may not know them yet.
        let fresh = Repo::open(&self.scratch.path)?;
        let mut tree = fresh.commit(at)?.tree;
        if !self.session.view().differ(parent, entry.id)?.is_empty() {
            let merged = self.program.merge(&self.scratch.path, Some(parent), (at, entry.id))?;
            let conflicts: Vec<_> = merged.conflicts.into_iter().filter(|it| !it.path.starts_with(RECORDS)).collect();
            if !conflicts.is_empty() {
                return Err(SessionError::Conflicts(conflicts));
            }
            tree = merged.tree;
        }
        let fresh = Repo::open(&self.scratch.path)?;
        let code_of = |tree: Oid| -> Result<Oid, SessionError> {
            let mut batch = fresh.batch();
            let code = batch.tree(tree, &[(Path::new(RECORDS).to_owned(), None)])?;
            batch.settle_unsynced()?;
            Ok(code)
        };
        // The branch already has the changes of an earlier sync.
        if entry.act == "sync" && code_of(tree)? == code_of(fresh.commit(at)?.tree)? {
            return Ok(at);
        }
        let view = View::new(sessions.repo.clone(), entry.session.clone(), entry.id);
        let meta = Meta { base: Some(self.theirs.to_string()), ..view.meta()? };
        let mut batch = fresh.batch();
        let records = sessions.records_in(entry.tree)?;
        let edits: Vec<TreeEdit> = vec![
            (Path::new(RECORDS).to_owned(), records.map(|id| (Mode::Directory, id))),
            turn::file(&mut batch, Path::new(RECORDS).join(&meta.id).join("session.json"), &turn::json(&meta))?,
        ];
        let tree = batch.tree(tree, &edits)?;
        let old = sessions.repo.commit(entry.id)?;
        let message = match entry.act.as_str() {
            "base" => turn::with_subject(
                &format!("session {} begins at {}", short_id(&meta.id), short(self.theirs)),
                &old.message,
            ),
            _ => old.message,
        };
        let new: NewCommit = sessions.new_commit(tree, vec![at], old.time_s * 1000, message);
        let commit = batch.commit(&new)?;
        batch.settle_unsynced()?;
        Ok(commit)
    }
}
