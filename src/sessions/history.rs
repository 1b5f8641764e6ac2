//! Read access to a session: its turns, their records and differences. It only reads objects, even while a turn runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{LOG_LISTS, SessionError};
use super::names::short_id;
use super::wire::{Meta, TurnFile, VERSION};
use crate::files::{DirEntry, EntryKind, Tree};
use crate::git::{Changed, Commit, Mode, Objects, Oid, Repo, diff, oid_of};
use crate::tree::{Bench, Draft, RECORDS};

/// Commits of a session that are walked.
const COMMITS_MAX: usize = 100_000;
/// The trailer that names the commit whose changes of files a commit reverts.
pub(super) const UNDONE: &str = "ReedClaw-Undone";
/// Longest record of a turn, in bytes.
const RECORD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A session to look at.
#[derive(Clone, Debug)]
pub struct View {
    repo: Arc<Repo>,
    id: String,
    tip: Oid,
}

/// A commit of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The commit.
    pub id: Oid,
    /// Its turn; `None` for a commit of the user's.
    pub turn: Option<u64>,
    /// `base`, `turn`, `fork`, `sync`, `user`, `part` (of a turn, before a question to a person), `approve`, `repair`.
    pub act: String,
    /// Its end.
    pub state: String,
    /// The model.
    pub model: String,
    /// The subject.
    pub subject: String,
    /// The time, in seconds of Unix time.
    pub time_s: i64,
    /// Files that it changed; `None` if its message doesn't name the number.
    pub files: Option<usize>,
    /// Lines that it added and removed; `None` if they weren't counted.
    pub lines: Option<[u64; 2]>,
    /// Its cost, in words; empty if it isn't known.
    pub cost: String,
    /// The commit whose changes of files it reverts.
    pub(super) undone: Option<Oid>,
    /// The session whose record its tree holds.
    pub(super) session: String,
    pub(super) parents: Vec<Oid>,
    pub(super) tree: Oid,
}

impl LogEntry {
    fn of(id: Oid, commit: Commit) -> Self {
        let trailer = |name: &str| {
            let lines = commit.message.lines().rev().take_while(|line| !line.is_empty());
            let found = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).next();
            found.unwrap_or_default().to_owned()
        };
        let turn = trailer("ReedClaw-Turn").parse().ok();
        let act = trailer("ReedClaw-Act");
        let lines = trailer("ReedClaw-Lines");
        let lines = lines.split_once('/').and_then(|(more, less)| Some([more.parse().ok()?, less.parse().ok()?]));
        Self {
            id,
            turn,
            act: if act.is_empty() { "user".to_owned() } else { act },
            state: trailer("ReedClaw-State"),
            model: trailer("ReedClaw-Model"),
            files: trailer("ReedClaw-Files").parse().ok(),
            lines,
            cost: trailer("ReedClaw-Cost"),
            undone: oid_of(&trailer(UNDONE)),
            session: trailer("ReedClaw-Session"),
            subject: commit.message.lines().next().unwrap_or_default().to_owned(),
            time_s: commit.time_s,
            parents: commit.parents,
            tree: commit.tree,
        }
    }
}

impl View {
    pub(super) fn new(repo: Arc<Repo>, id: String, tip: Oid) -> Self {
        Self { repo, id, tip }
    }

    /// Its newest commit.
    #[must_use]
    pub fn tip(&self) -> Oid {
        self.tip
    }

    /// Reads the session's record.
    ///
    /// # Errors
    /// The record can't be read.
    pub fn meta(&self) -> Result<Meta, SessionError> {
        let tree = self.repo.commit(self.tip)?.tree;
        let path = Path::new(RECORDS).join(&self.id).join("session.json");
        let read = self.tree(tree).leaf(&path, RECORD_BYTES_MAX);
        let meta = read.ok().and_then(|(_, bytes)| serde_json::from_slice::<Meta>(&bytes).ok());
        meta.filter(|meta| meta.v == VERSION && meta.id == self.id).ok_or(SessionError::Damaged(0))
    }

    fn tree(&self, tree: Oid) -> Draft {
        Draft::read_only(self.repo.clone(), tree, Path::new("/"), None)
    }

    /// The files of a commit.
    pub(super) fn files_at(&self, commit: Oid) -> Result<Draft, SessionError> {
        Ok(self.tree(self.repo.commit(commit)?.tree))
    }

    /// The file or link at a path of a commit; `None` if there is none.
    #[must_use]
    pub fn leaf_at(&self, commit: Oid, path: &Path) -> Option<(Mode, Oid)> {
        let files = self.files_at(commit).ok()?;
        files.walked(path).ok().map(|(mode, content)| (mode, content.id()))
    }

    /// Its commits, the newest first, down to the one that began it.
    ///
    /// # Errors
    /// A commit can't be read.
    pub fn log(&self) -> Result<Vec<LogEntry>, SessionError> {
        self.walk().collect()
    }

    /// Reads its commits one after the other, the newest first.
    fn walk(&self) -> impl Iterator<Item = Result<LogEntry, SessionError>> {
        let (mut at, is_shallow) = (Some(self.tip), self.repo.is_shallow());
        let next = move || {
            let id = at.take()?;
            let entry = self.repo.commit(id).map(|commit| LogEntry::of(id, commit));
            // A commit of the user's below the first turn isn't part of the session.
            at = entry.as_ref().ok().filter(|it| it.act != "base").and_then(|it| it.parents.first().copied());
            at = at.filter(|parent| !is_shallow || self.repo.has(*parent));
            Some(entry.map_err(SessionError::from))
        };
        std::iter::from_fn(next).take(COMMITS_MAX)
    }

    /// The newest commit of a turn; `None` means the tip.
    ///
    /// # Errors
    /// There is no such turn.
    pub fn turn(&self, turn: Option<u64>) -> Result<LogEntry, SessionError> {
        let Some(turn) = turn else { return Ok(LogEntry::of(self.tip, self.repo.commit(self.tip)?)) };
        let mut last = None;
        for entry in self.walk() {
            let entry = entry?;
            if entry.turn == Some(turn) {
                return Ok(entry);
            }
            last = last.or(entry.turn);
        }
        Err(SessionError::NoTurn { id: short_id(&self.id).to_owned(), turn, last: last.unwrap_or(0) })
    }

    /// A commit of it.
    pub(super) fn log_entry(&self, id: Oid) -> Result<LogEntry, SessionError> {
        Ok(LogEntry::of(id, self.repo.commit(id)?))
    }

    /// The newest commit that isn't in the middle of a turn.
    pub(super) fn newest_whole(&self) -> Result<LogEntry, SessionError> {
        self.log_entry(self.before_parts(self.tip)?)
    }

    /// The commit before the turn of `id`: `id` itself unless it was made before a question to a person, or for their approval.
    pub(super) fn before_parts(&self, mut id: Oid) -> Result<Oid, SessionError> {
        loop {
            let entry = LogEntry::of(id, self.repo.commit(id)?);
            match entry.parents.first() {
                Some(parent) if matches!(&*entry.act, "part" | "approve") => id = *parent,
                _ => return Ok(id),
            }
        }
    }

    /// The files of a turn, or of the tip.
    pub(super) fn tree_of(&self, turn: Option<u64>) -> Result<Draft, SessionError> {
        Ok(self.tree(self.turn(turn)?.tree))
    }

    /// The record of a turn as the commit of turn `at`, or the tip, has it.
    pub(super) fn record_at(&self, at: Option<u64>, turn: u64) -> Result<TurnFile, SessionError> {
        let path = record_path(&self.id, turn);
        let (_, bytes) = self.tree_of(at)?.leaf(&path, RECORD_BYTES_MAX).map_err(|_| SessionError::Damaged(turn))?;
        let file: TurnFile = serde_json::from_slice(&bytes).map_err(|_| SessionError::Damaged(turn))?;
        if file.v == VERSION { Ok(file) } else { Err(SessionError::Damaged(turn)) }
    }

    /// The record of a turn.
    ///
    /// # Errors
    /// There is no such turn, or its record can't be read.
    pub fn record(&self, turn: u64) -> Result<TurnFile, SessionError> {
        let entry = self.turn(Some(turn))?;
        let path = record_path(&entry.session, turn);
        let (_, bytes) =
            self.tree(entry.tree).leaf(&path, RECORD_BYTES_MAX).map_err(|_| SessionError::Damaged(turn))?;
        let file: TurnFile = serde_json::from_slice(&bytes).map_err(|_| SessionError::Damaged(turn))?;
        if file.v == VERSION { Ok(file) } else { Err(SessionError::Damaged(turn)) }
    }

    /// The records of all turns up to one, the oldest first; turn 0 has no text and is left out.
    ///
    /// # Errors
    /// A record can't be read.
    pub fn records(&self, up_to: u64) -> Result<Vec<TurnFile>, SessionError> {
        let (tree, session) = match self.turn(Some(up_to)) {
            Ok(entry) => (entry.tree, entry.session),
            // Its commit's message was changed by hand. The newest files have the records nevertheless.
            Err(SessionError::NoTurn { .. }) if !self.id.is_empty() => {
                (self.repo.commit(self.tip)?.tree, self.id.clone())
            }
            Err(error) => return Err(error),
        };
        let tree = self.tree(tree);
        let one = |turn: u64| {
            let (_, bytes) = tree.leaf(&record_path(&session, turn), RECORD_BYTES_MAX).ok()?;
            serde_json::from_slice(&bytes).ok()
        };
        (1..=up_to).map(|turn| one(turn).ok_or(SessionError::Damaged(turn))).collect()
    }

    /// The files of a turn, or of the tip: to be read only.
    ///
    /// # Errors
    /// There is no such turn.
    pub fn files(&self, turn: Option<u64>) -> Result<Box<dyn Tree>, SessionError> {
        Ok(Box::new(self.tree(self.turn(turn)?.tree)))
    }

    /// The names in a directory of a turn, or of the tip; those of directories end with a slash.
    ///
    /// # Errors
    /// There is no such turn or directory.
    pub fn names(&self, path: &str, turn: Option<u64>) -> Result<Vec<String>, SessionError> {
        let files = self.files(turn)?;
        let list = files.list(if path.is_empty() { "." } else { path });
        let list =
            list.map_err(|error| SessionError::Missing(format!("{path}: {error}"), ":session files lists them"))?;
        let name = |it: DirEntry| if it.kind == EntryKind::Directory { format!("{}/", it.name) } else { it.name };
        Ok(list.into_iter().map(name).collect())
    }

    /// Writes the files of a turn, or of the tip, into a new directory; the record of the conversation is left out.
    ///
    /// # Errors
    /// There is no such turn, something is at `dir`, or it can't be written.
    pub fn write_to(&self, turn: Option<u64>, dir: &Path) -> Result<usize, SessionError> {
        Bench::write_out(&self.tree_of(turn)?, dir).map_err(|error| SessionError::Disk(dir.to_owned(), error))
    }

    /// Returns the differences between two commits of it, without records.
    ///
    /// # Errors
    /// A tree can't be read.
    pub fn differ(&self, old: Oid, new: Oid) -> Result<Vec<Changed>, SessionError> {
        let (old, new) = (self.repo.commit(old)?.tree, self.repo.commit(new)?.tree);
        let mut all = diff(&*self.repo, old, new)?;
        all.retain(|it| !it.path.starts_with(RECORDS));
        Ok(all)
    }

    /// Returns the changes of a turn against its first parent; none for turn 0.
    ///
    /// # Errors
    /// There is no such turn, or a tree can't be read.
    pub fn changes_of(&self, turn: u64) -> Result<Vec<Changed>, SessionError> {
        self.changes_by(&self.turn(Some(turn))?)
    }

    /// Returns the changes of the turn whose commit this is, or of a person's own commit; none for turn 0 and for other commits.
    ///
    /// # Errors
    /// A tree can't be read.
    pub fn changes_by(&self, entry: &LogEntry) -> Result<Vec<Changed>, SessionError> {
        match entry.parents.first() {
            Some(parent) if entry.turn.is_some_and(|turn| turn > 0) => {
                self.differ(self.before_parts(*parent)?, entry.id)
            }
            Some(parent) if entry.act == "user" => self.differ(*parent, entry.id),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the number of files that the turn whose commit this is, or a person's own commit, has changed.
    ///
    /// # Errors
    /// The errors of [`View::changes_by`], which counts them if the message doesn't name the number.
    pub fn files_of(&self, entry: &LogEntry) -> Result<usize, SessionError> {
        entry.files.map_or_else(|| self.changes_by(entry).map(|it| it.len()), Ok)
    }

    /// Returns the changes of the session since it began.
    ///
    /// # Errors
    /// A tree can't be read.
    pub fn changes(&self) -> Result<Vec<Changed>, SessionError> {
        // Changes that came from the user's branch since then aren't the session's own.
        let synced = self.meta().ok().and_then(|meta| oid_of(&meta.base?)).filter(|id| self.repo.has(*id));
        let from = synced.map_or_else(|| self.turn(Some(0)).map(|it| it.id), Ok)?;
        self.differ(from, self.tip)
    }

    /// The changes that a text names: all of them if it is empty, those of a turn (`N`), those between two (`A..B`, `A..`).
    ///
    /// # Errors
    /// The text is none of these, or there is no such turn.
    pub fn changes_in(&self, range: &str) -> Result<Vec<Changed>, SessionError> {
        let number = |text: &str| {
            let wrong = |_| SessionError::Missing(format!("{range} is neither a turn nor A..B"), LOG_LISTS);
            text.trim().parse::<u64>().map_err(wrong)
        };
        match range.split_once("..") {
            None if range.trim().is_empty() => self.changes(),
            None => self.changes_of(number(range)?),
            Some((from, to)) => {
                let to = if to.trim().is_empty() { None } else { Some(number(to)?) };
                self.differ(self.turn(Some(number(from)?))?.id, self.turn(to)?.id)
            }
        }
    }

    /// One side of a change as text; `None` if it doesn't exist or isn't text.
    #[must_use]
    pub fn text(&self, side: Option<(Mode, Oid)>) -> Option<String> {
        let (mode, id) = side?;
        if mode == Mode::Submodule {
            return Some(format!("commit {id}\n"));
        }
        let bytes = self.repo.blob(id, RECORD_BYTES_MAX).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
    }
}

/// The path of a turn's record in a tree.
pub(super) fn record_path(id: &str, turn: u64) -> PathBuf {
    Path::new(RECORDS).join(id).join(format!("turns/{:02}/{turn:04}.json", turn / 100))
}
