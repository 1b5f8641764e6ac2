//! The beginning of a session in this process: a new one, a fork of another, or one that is opened for writing.

use parking_lot::Mutex;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::base::{Session, Sessions};
use super::disk::{self, Desk};
use super::error::{LOG_LISTS, SessionError, no_branch, unknown};
use super::history::View;
use super::names::{self, kept_number, short_id};
use super::names::{BRANCHES, KEPT, ON};
use super::turn::Origin;
use super::wire::{self, Meta, Parent, VERSION};
use crate::files::{Locked, Root};
use crate::git::{Oid, empty_tree, short};
use crate::host::now_unix_ms;
use crate::tree::{Draft, RECORDS, Uncommitted, uncommitted};

/// The message about a repository in which git's program shows other objects.
const REPLACED: &str = "git shows replaced objects or parents here (git replace, grafts); a session reads and writes what was \
                        committed";

impl Sessions {
    /// Begins a session at a revision, HEAD if none is named: a branch and turn 0, and nothing in the checkout.
    ///
    /// # Errors
    /// The revision names no commit, or the repository can't be written.
    pub fn start(&self, from: Option<&str>, title: &str) -> Result<Session, SessionError> {
        self.start_with(from, title, None)
    }

    /// Counts the uncommitted files of the checkout within a time limit; nothing is run and no lock is acquired. `None` if there
    /// is no checkout, or only git's program could tell.
    #[must_use]
    pub fn count_uncommitted(&self, time: Duration) -> Option<Uncommitted> {
        let deadline = Instant::now() + time;
        let checkout = Root::open(self.repo.work_dir()?, None).ok()?;
        uncommitted(&self.repo, &checkout, self.excludes(), deadline).ok()?
    }

    pub(super) fn start_with(
        &self,
        from: Option<&str>,
        title: &str,
        files: Option<Oid>,
    ) -> Result<Session, SessionError> {
        let head = self.repo.head()?;
        let base = match from {
            Some(revision) => Some(self.repo.find_commit(revision)?),
            None => head.commit,
        };
        let (id, tip) = self.write_first(base, title, files)?;
        self.begin(&id, tip)
    }

    /// Begins a session on a branch of the user's that is checked out nowhere: each turn becomes a commit on it. If its newest
    /// commit is a session's, as in a clone, that session continues.
    ///
    /// # Errors
    /// There is no such branch, it is checked out, or another session works on it.
    pub fn start_on(&self, branch: &str, title: &str) -> Result<Session, SessionError> {
        let refused = |message: String| SessionError::Refused(message);
        let name = format!("refs/heads/{}", branch.trim_start_matches("refs/heads/"));
        let tip = self.repo.tip(&name)?.ok_or_else(|| no_branch(branch))?;
        if name.starts_with(BRANCHES) {
            return Err(refused(format!("{branch} is the branch of a session; continue it with open")));
        }
        if let Some(in_use) = self.repo.use_of(&name) {
            return Err(refused(format!("{branch} {in_use}; a turn would change it there")));
        }
        if let Some((link, _)) = self.repo.links(ON)?.into_iter().find(|(_, target)| *target == name) {
            let id = short_id(link.trim_start_matches(ON)).to_owned();
            return Err(refused(format!("session {id} works on {branch} already; open it")));
        }
        let held = View::new(self.repo.clone(), String::new(), tip).turn(None)?.session;
        let goes_on = names::is_id(&held) && self.repo.tip(&self.reference(&held))?.is_none();
        if goes_on && self.meta(&held, tip).is_ok() {
            self.repo.set_link(&format!("{ON}{held}"), Some(&name), &self.who)?;
            return self.open(&held);
        }
        let (id, first) = self.write_first(Some(tip), title, None)?;
        self.repo.swap(&name, Some(tip), Some(first), &self.who)?;
        self.repo.set_link(&format!("{ON}{id}"), Some(&name), &self.who)?;
        self.open(&id)
    }

    /// Writes the first commit of a new session at `base`; returns the session's id and the commit, which nothing names yet.
    fn write_first(&self, base: Option<Oid>, title: &str, files: Option<Oid>) -> Result<(String, Oid), SessionError> {
        let (head, now) = (self.repo.head()?, now_unix_ms());
        let id = names::new_id(now);
        let meta = Meta {
            v: wire::VERSION,
            id: id.clone(),
            title: names::title(title),
            base: base.map(|it| it.to_string()),
            base_branch: head.branch,
            checkout: files.map(|it| it.to_string()),
            started_ms: now,
            ..Meta::default()
        };
        let tree = match (files, base) {
            (Some(files), _) => files,
            (None, Some(base)) => self.repo.commit(base)?.tree,
            (None, None) => empty_tree(),
        };
        let parents: Vec<Oid> = base.into_iter().collect();
        let tip = self.first_commit(&meta, tree, parents, Origin::Start, now)?;
        Ok((id, tip))
    }

    /// Makes the reference of a new session, and opens it. The files outside of git are made at the same time, so that there is
    /// only one wait for the disk.
    fn begin(&self, id: &str, tip: Oid) -> Result<Session, SessionError> {
        let (desk, name) = (Desk::of(&self.folder, id), self.new_reference(id));
        let prepare = || {
            let lock = desk.lock()?;
            desk.note_tip(&name, tip).map(|()| lock)
        };
        let (prepared, swapped) = std::thread::scope(|scope| {
            let prepared = scope.spawn(prepare);
            let swapped = self.repo.swap(&name, None, Some(tip), &self.who);
            (prepared.join(), swapped)
        });
        let prepared = prepared.unwrap_or_else(|_| Err(SessionError::Refused("a thread panicked".to_owned())));
        if let Err(error) = swapped {
            if prepared.is_ok() {
                let _ = desk.remove();
            }
            return Err(error.into());
        }
        let lock = match prepared {
            Ok(lock) => lock,
            // Another process has found the new reference and holds the session already.
            Err(error @ SessionError::Held(..)) => return Err(error),
            Err(error) => {
                let _ = self.repo.swap(&name, Some(tip), None, &self.who);
                return Err(error);
            }
        };
        let session = self.take_up(desk.clone(), lock, name.clone(), tip).inspect_err(|_| {
            // The caller gets no id with which to drop it.
            let _ = self.repo.swap(&name, Some(tip), None, &self.who);
            let _ = desk.remove();
        })?;
        session.watch();
        self.repo.write_again()?;
        Ok(session)
    }

    /// Opens a session for writing. A turn that a crash cut off is finished or found again: see [`Session::left`].
    ///
    /// # Errors
    /// There is no session with this id, another shell has it open, or its branch is checked out.
    pub fn open(&self, id: &str) -> Result<Session, SessionError> {
        self.is_own(id)?;
        let desk = Desk::of(&self.folder, id);
        let lock = desk.lock()?;
        let name = self.reference(id);
        let mut notices: Vec<String> = desk.recover(&self.repo, &name, &self.who)?.into_iter().collect();
        notices.extend(disk::mend_kept(&self.repo, id));
        let tip = match self.repo.tip(&name)? {
            Some(tip) => tip,
            None => {
                // It was abandoned; opening it revives it.
                let tip = self.newest_former(id)?.ok_or_else(|| unknown(id))?;
                self.repo.swap(&name, None, Some(tip), &self.who)?;
                tip
            }
        };
        self.not_in_use(id, &name)?;
        let made_anew = self.made_anew(id, desk.noted_tip(&name), tip)?;
        // A draft belongs to the commit on which it was based, even if the branch has moved.
        let at = desk.draft_tip().filter(|at| self.repo.has(*at)).unwrap_or(tip);
        let mut session = self.take_up(desk, lock, name, at)?;
        let lost = session.desk.load_draft(&session.draft, at)?;
        notices.extend((!lost.is_empty()).then(|| {
            format!("of the turn that was cut off, as by a power cut, this is lost: {}", names::title(&lost.join(", ")))
        }));
        session.notices.extend(notices);
        session.watch();
        if at != tip {
            session.keep_draft_elsewhere(tip)?;
        }
        if let Some(number) = made_anew {
            // Its own changes are those since the commit on which it begins now.
            let first = session.view().turn(Some(0)).ok().and_then(|it| it.parents.first().copied());
            session.meta.base = first.map(|it| it.to_string()).or(session.meta.base.take());
            session.notices.push(format!(
                "the branch was rewritten elsewhere, as by a rebase, and the session continues at {}; the earlier \
                 commits are kept: fork --kept {number} continues from them",
                short(tip)
            ));
        }
        session.desk.note_tip(&session.name, session.tip)?;
        Ok(session)
    }

    /// Retains the last recorded tip if the branch doesn't follow it, after a rebase or reset. Returns the number of the retained
    /// tip.
    fn made_anew(&self, id: &str, noted: Option<Oid>, tip: Oid) -> Result<Option<u64>, SessionError> {
        let Some(noted) = noted.filter(|it| *it != tip && self.repo.has(*it)) else { return Ok(None) };
        if self.repo.merge_base(noted, tip) == Some(noted) {
            return Ok(None);
        }
        Ok(Some(kept_number(&self.keep(id, noted)?)))
    }

    /// A session at a commit, with a draft in which nothing has changed.
    fn take_up(&self, desk: Desk, lock: Locked<File>, name: String, at: Oid) -> Result<Session, SessionError> {
        let meta = self.meta(desk.id(), at)?;
        let tree = self.repo.commit(at)?.tree;
        let draft = Draft::on(self.repo.clone(), tree, &self.work_dir, self.home.as_deref());
        draft.start_open(&meta.active);
        draft.exclude(self.excludes());
        let mut notices = self.mended.clone();
        notices.extend(self.repo.has_replacements().then(|| REPLACED.to_owned()));
        let session = Session {
            sessions: Self { mended: Vec::new(), ..self.clone() },
            meta,
            name,
            tip: at,
            desk,
            draft: Arc::new(draft),
            written: Mutex::default(),
            owed: None,
            notices,
            recalled: None,
            _lock: lock,
        };
        Ok(session)
    }

    /// A new session that continues from a turn of another, or from its current state including the person's changes since its
    /// newest turn; the other doesn't change.
    ///
    /// # Errors
    /// There is no such turn, or the repository can't be written.
    pub fn fork(&self, id: &str, turn: Option<u64>) -> Result<Session, SessionError> {
        let view = self.look(id)?;
        self.fork_of(&view, &view.meta()?, turn)
    }

    /// A new session that continues from a former tip of another, or from an earlier turn there; `number` is one of
    /// [`Sessions::former_tips`].
    ///
    /// # Errors
    /// As of [`Sessions::fork`], or no tip has that number.
    pub fn fork_former(&self, id: &str, number: u64, turn: Option<u64>) -> Result<Session, SessionError> {
        let tip = self.repo.tip(&format!("{KEPT}{id}/{number}"))?;
        let missing = || SessionError::Missing(format!("session {} has no kept tip {number}", short_id(id)), LOG_LISTS);
        let view = View::new(self.repo.clone(), id.to_owned(), tip.ok_or_else(missing)?);
        self.fork_of(&view, &view.meta()?, turn)
    }

    pub(super) fn fork_of(&self, view: &View, from: &Meta, turn: Option<u64>) -> Result<Session, SessionError> {
        let mut entry = if turn.is_some() { view.turn(turn)? } else { view.newest_whole()? };
        let turn = turn.unwrap_or(from.turns);
        if entry.session.is_empty() {
            // It was committed with git's own program.
            entry.session.clone_from(&from.id);
        }
        // A later sync or merge has changed the session's base, which doesn't match this turn's files.
        let then = View::new(self.repo.clone(), entry.session.clone(), entry.id).meta();
        let then = then.unwrap_or_else(|_| from.clone());
        let now = now_unix_ms();
        let id = names::new_id(now);
        let parent = Parent { id: from.id.clone(), turn, commit: entry.id.to_string() };
        let meta = Meta {
            v: VERSION,
            id: id.clone(),
            title: from.title.clone(),
            base: then.base,
            base_branch: from.base_branch.clone(),
            active: then.active,
            conflicts: then.conflicts,
            parent: Some(parent),
            started_ms: now,
            turns: turn,
            ..Meta::default()
        };
        let turns = self.entry(entry.tree, &Path::new(RECORDS).join(&entry.session).join("turns"))?;
        let origin = Origin::Fork { turns, from: entry.session.clone() };
        let tip = self.first_commit(&meta, entry.tree, vec![entry.id], origin, now)?;
        self.begin(&id, tip)
    }
}
