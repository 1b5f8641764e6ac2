//! Going back: rewind, reword, undo and redo, and files alone. The old tip is retained before the branch moves.

use std::path::Path;

use super::base::Session;
use super::disk::{DONE, Operation, UNDONE};
use super::error::SessionError;
use super::history::{LogEntry, UNDONE as UNDONE_BY, View};
use super::names::{self, short_id};
use super::turn::{trailers, with_subject};
use super::wire::{Meta, TurnReport};
use crate::git::{Oid, oid_of, short};
use crate::tree::{Changed, Content};

/// A change of files that was reverted, or applied again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesBack {
    /// The first line of the commit that had made it.
    pub what: String,
    /// The number of files.
    pub files: usize,
}

impl Session {
    /// Goes back to a turn: the branch moves there, and its previous tip is retained. Returns the retained tip's name.
    ///
    /// # Errors
    /// There is no such turn, or the branch can't be moved.
    pub fn rewind(&mut self, turn: u64) -> Result<String, SessionError> {
        self.commit_left()?;
        let entry = self.view().turn(Some(turn))?;
        self.operate(&format!("rewind to turn {turn}"), entry.id)
    }

    /// Changes the first line of a turn's commit message; the newest turn is the default. The following commits are rewritten
    /// with the same files and times; the branch's previous tip is retained. Returns its name.
    ///
    /// # Errors
    /// There is no such turn, the text is empty, or a foreign commit follows it.
    pub fn reword(&mut self, number: Option<u64>, subject: &str) -> Result<String, SessionError> {
        self.commit_left()?;
        let (number, subject) = (number.unwrap_or(self.meta.turns), names::title(subject));
        if subject.is_empty() {
            return Err(SessionError::Refused("a commit needs a first line".to_owned()));
        }
        let log = self.view().log()?;
        let missing =
            || SessionError::NoTurn { id: short_id(&self.meta.id).to_owned(), turn: number, last: self.meta.turns };
        let at = log.iter().position(|it| it.turn == Some(number)).ok_or_else(missing)?;
        if let Some(foreign) = log[..at].iter().find(|it| it.session.is_empty()) {
            let message = format!("{} was committed by someone else and would have to be rewritten", short(foreign.id));
            return Err(SessionError::Refused(message));
        }
        let repo = self.sessions.repo.clone();
        let (mut batch, mut parent) = (repo.batch(), None);
        for entry in log[..=at].iter().rev() {
            let old = repo.commit(entry.id)?;
            let (mut parents, mut message) = (old.parents, old.message);
            match (parent, parents.first_mut()) {
                (Some(new), Some(first)) => *first = new,
                _ => message = with_subject(&subject, &message),
            }
            parent = Some(batch.commit(&self.sessions.new_commit(old.tree, parents, old.time_s * 1000, message))?);
        }
        batch.settle()?;
        let tip = parent.ok_or_else(missing)?;
        self.operate(&format!("new message of turn {number}"), tip)
    }

    /// Undoes the last operation on the session itself. Returns its description.
    ///
    /// # Errors
    /// There is no operation, or turns were made since.
    pub fn undo(&mut self) -> Result<String, SessionError> {
        if !self.draft.is_unchanged() || self.left().is_some() {
            self.draft.start_over(self.draft.base());
            self.desk.clear_draft();
            return Ok("dropped the draft of a turn that was cut off".to_owned());
        }
        let mut all = self.desk.operations(DONE);
        let Some(last) = all.pop() else {
            return Err(SessionError::Refused("nothing was done to this session that could be undone".to_owned()));
        };
        let (Some(from), Some(to)) = (oid_of(&last.from), oid_of(&last.to)) else {
            return Err(SessionError::Refused("the list of operations is damaged".to_owned()));
        };
        if to != self.tip {
            let message = format!(
                "turns were made since the {}; the log names the tips it left, and fork --kept N continues from one",
                last.what
            );
            return Err(SessionError::Refused(message));
        }
        self.move_to(from)?;
        let mut undone = self.desk.operations(UNDONE);
        undone.push(last.clone());
        self.desk.put_operations(&all, &undone)?;
        Ok(format!("undid the {}; the session is at {} again", last.what, short(from)))
    }

    /// Redoes the operation of the last [`Session::undo`]. Returns its description.
    ///
    /// # Errors
    /// Nothing was undone, or the session has continued since.
    pub fn redo(&mut self) -> Result<String, SessionError> {
        let mut undone = self.desk.operations(UNDONE);
        let moves = |it: &Operation| Some((oid_of(&it.from)?, oid_of(&it.to)?));
        let last = undone.pop().and_then(|last| Some((moves(&last).filter(|(from, _)| *from == self.tip)?.1, last)));
        let Some((to, last)) = last.filter(|_| self.draft.is_unchanged() && self.left().is_none()) else {
            return Err(SessionError::Refused("nothing was undone since the last turn of this session".to_owned()));
        };
        self.move_to(to)?;
        let mut all = self.desk.operations(DONE);
        let message = format!("did the {} again; the session is at {}", last.what, short(to));
        all.push(last);
        self.desk.put_operations(&all, &undone)?;
        Ok(message)
    }

    /// Reverts the changes of files by the newest turn, or by a commit of the person's own; with `path`, the last change of that
    /// file. The conversation remains, and the result is a commit of the person's own. Repeated calls go further back.
    ///
    /// # Errors
    /// Nothing was changed, or the newest change came from the user's branch; or the branch can't be moved.
    pub fn undo_files(&mut self, path: Option<&Path>) -> Result<FilesBack, SessionError> {
        self.commit_left()?;
        self.follow()?;
        let (view, repo) = (self.view(), self.sessions.repo.clone());
        let (entry, before) = self.newest_change(&view, path)?;
        let is_wanted = |it: &crate::git::Changed| path.is_none_or(|path| it.path == path);
        let changes: Vec<Changed> = view
            .differ(self.tip, before)?
            .into_iter()
            .filter(is_wanted)
            .map(|it| Changed { path: it.path, now: it.new.map(|(mode, id)| (mode, Content::Object(id))) })
            .collect();
        // The earlier files have the earlier conflicts.
        let was = View::new(repo, self.meta.id.clone(), before).meta().map(|it| it.conflicts).unwrap_or_default();
        let conflicts = if path.is_some() { self.meta.conflicts.clone() } else { was };
        let meta = Meta { active: self.draft.open_names(), conflicts, ..self.meta.clone() };
        let state = if meta.conflicts.is_empty() { "whole" } else { "conflicted" };
        let note = if path.is_none() { format!("{UNDONE_BY}: {}\n", entry.id) } else { String::new() };
        let subject = names::title(&format!("undo: {}", entry.subject));
        let message = format!("{subject}\n\n{}{note}", trailers(&meta.id, None, "user", state, None));
        let commit = self.write_commit(&meta, None, &changes, message)?;
        self.operate(&format!("undo of {:?}", entry.subject), commit)?;
        Ok(FilesBack { what: entry.subject, files: changes.len() })
    }

    /// Makes the changes of files again that the last [`Session::undo_files`] took back.
    ///
    /// # Errors
    /// The newest commit doesn't revert files, or the branch can't be moved.
    pub fn redo_files(&mut self) -> Result<FilesBack, SessionError> {
        let newest = self.view().log_entry(self.tip)?;
        let Some(undone) = newest.undone.filter(|_| self.left().is_none()) else {
            let message = "no change of files was undone since the last turn of this session";
            return Err(SessionError::Refused(message.to_owned()));
        };
        let files = newest.parents.first().map_or(Ok(Vec::new()), |parent| self.view().differ(*parent, newest.id))?;
        let what = self.view().log_entry(undone)?.subject;
        self.undo()?;
        Ok(FilesBack { what, files: files.len() })
    }

    /// Returns whether the newest commit reverts changes of files.
    #[must_use]
    pub fn has_undone_files(&self) -> bool {
        self.view().log_entry(self.tip).is_ok_and(|it| it.undone.is_some())
    }

    /// Finds the newest commit that changed files, or the file `path`, and the state before it; reverted changes don't count.
    fn newest_change(&self, view: &View, path: Option<&Path>) -> Result<(LogEntry, Oid), SessionError> {
        let refused = |message: &str| SessionError::Refused(message.to_owned());
        let nothing = || refused("nothing was changed in this session that could be undone");
        let mut at = view.before_parts(self.tip)?;
        loop {
            let entry = view.log_entry(at)?;
            let undone = entry.undone.map(|undone| view.log_entry(undone)).transpose()?.filter(|_| path.is_none());
            let of = undone.as_ref().unwrap_or(&entry);
            let parent = *of.parents.first().filter(|_| !matches!(&*of.act, "base" | "fork")).ok_or_else(nothing)?;
            let before = view.before_parts(parent)?;
            let changes = view.differ(before, of.id)?;
            let is_change = path.map_or(!changes.is_empty(), |path| changes.iter().any(|it| it.path == path));
            if undone.is_none() && is_change {
                if entry.act == "sync" {
                    return Err(refused("the newest change came from your branch; :session undo reverts it"));
                }
                return Ok((entry, before));
            }
            at = before;
        }
    }

    /// Commits the remains of an interrupted turn, so that going elsewhere doesn't lose them.
    pub(super) fn commit_left(&mut self) -> Result<(), SessionError> {
        let Some(left) = self.left() else { return Ok(()) };
        let report = self.report_of_left(left);
        self.end_turn(&report).map(drop)
    }

    /// Commits the draft of an interrupted turn on its old base, retains that commit by name, and continues at `tip`, since the
    /// branch has been moved meanwhile.
    pub(super) fn keep_draft_elsewhere(&mut self, tip: Oid) -> Result<(), SessionError> {
        if self.draft.is_unchanged() && self.left().is_none() {
            // Nothing but the list of open files.
            self.moved_to(tip, None)?;
            return self.read_meta();
        }
        let question = self.left().map(|left| left.question).unwrap_or_default();
        let (meta, done) = self.write_turn(&TurnReport::cut_off(question))?;
        // The branch doesn't move to it.
        self.desk.clear_journal();
        let reference = self.sessions.keep(&self.meta.id, done.commit)?;
        self.moved_to(tip, Some(done.commit))?;
        self.read_meta()?;
        let notice =
            format!("turn {} was cut off, and the branch has moved since: it is saved as {reference}", meta.turns);
        self.notices.push(notice);
        Ok(())
    }

    /// Moves the branch, and records the operation for undo.
    pub(super) fn operate(&mut self, what: &str, to: Oid) -> Result<String, SessionError> {
        let from = self.tip;
        if from == to {
            return Err(SessionError::Refused(format!("session {} is there already", short_id(&self.meta.id))));
        }
        let reference = self.move_to(to)?;
        let mut all = self.desk.operations(DONE);
        all.push(Operation { what: what.to_owned(), from: from.to_string(), to: to.to_string() });
        self.desk.put_operations(&all, &[])?;
        Ok(reference)
    }

    /// Moves the branch, after retaining its current tip.
    fn move_to(&mut self, to: Oid) -> Result<String, SessionError> {
        self.not_in_use()?;
        let reference = self.sessions.keep(&self.meta.id, self.tip)?;
        self.publish(to)?;
        self.read_meta()?;
        Ok(reference)
    }

    /// Loads the record of the tip.
    fn read_meta(&mut self) -> Result<(), SessionError> {
        self.meta = self.view().meta()?;
        self.draft.start_open(&self.meta.active);
        Ok(())
    }
}
