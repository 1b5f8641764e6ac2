//! The steps of one workspace: their store, a snapshot of the workspace, a step made of the differences. It knows neither
//! commands nor edits, and reverts nothing.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use ring::rand::{SecureRandom, SystemRandom};

use super::look::Look;
use super::look::git::Theirs;
use super::look::secure::secure;
use super::store::error::{Limits, StepsError};
use super::store::state::{Elsewhere, Kind, OF_RUN, Record, State, Why};
use super::store::table::{Change, Table};
use super::store::{self, Mark, Store};
use crate::base::hex;
use crate::files::{Locked, PathError, Root};
use crate::host::now_unix_ms;

/// Longest text of a step, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;

/// The steps of one workspace.
pub struct Steps {
    pub(super) root: Root,
    pub(super) store: Store,
    pub(super) limits: Limits,
    pub(super) left_out: Vec<PathBuf>,
    /// The state directory, and all absolute paths that aren't covered: for other places.
    pub(super) state: PathBuf,
    pub(super) absent: Vec<PathBuf>,
    /// The step of a command's changes outside, to which its changes of the workspace will be added.
    pub(super) joined: Option<u64>,
    pub(super) session: String,
    /// The run towards a goal that the next steps belong to.
    pub(super) run: Option<i64>,
    /// The last table that was read or written, and the identity of its file.
    pub(super) table: Option<(Table, Mark)>,
    /// The contents of the user's repository at the snapshots from which the next step is made.
    pub(super) held: Vec<Theirs>,
    /// Bytes that were written since room was made.
    pub(super) written: u64,
    pub(super) opened: usize,
}

/// The changes of a command or an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// The number of the step; `None` if nothing was changed.
    pub step: Option<u64>,
    /// Number of files that it changed.
    pub files: usize,
    /// Number of files that can't be reverted.
    pub lost: usize,
    /// The paths that it made or changed and that are there now, relative to the workspace.
    pub there: Vec<PathBuf>,
    /// Number of old steps that were removed to free space.
    pub pruned: usize,
}

impl Steps {
    /// Opens the steps of the workspace at `workspace`, stored below the state directory `state`; `all_left_out` are absolute
    /// paths that aren't covered. No snapshot is made yet.
    ///
    /// # Errors
    /// The workspace can't be opened.
    pub fn new(state: &Path, workspace: &Path, limits: Limits, all_left_out: &[PathBuf]) -> Result<Self, StepsError> {
        let root = Root::open(workspace, None).map_err(StepsError::Root)?;
        let store = Store::of(state, root.path());
        let mut nonce = [0; 8];
        // The name must only differ from those of other sessions.
        let _ = SystemRandom::new().fill(&mut nonce);
        let within = |path: &PathBuf| path.strip_prefix(root.path()).ok().map(Path::to_owned);
        let mut left_out: Vec<PathBuf> = all_left_out.iter().filter_map(within).collect();
        left_out.retain(|path| !path.as_os_str().is_empty());
        let (state, absent) = (state.to_owned(), all_left_out.to_vec());
        Ok(Self {
            root,
            store,
            limits,
            left_out,
            state,
            absent,
            joined: None,
            session: hex::encode(&nonce),
            run: None,
            table: None,
            held: Vec::new(),
            written: 0,
            opened: 0,
        })
    }

    /// The same steps once more, for another thread.
    ///
    /// # Errors
    /// The workspace can't be opened.
    pub fn again(&self) -> Result<Self, StepsError> {
        let again = Self::new(&self.state, self.root.path(), self.limits.clone(), &self.absent)?;
        Ok(Self { store: self.store.clone(), session: self.session.clone(), run: self.run, ..again })
    }

    /// Says to which run towards a goal the next steps belong.
    pub fn work_for(&mut self, run: Option<i64>) {
        self.run = run;
    }

    /// Returns the limits of a snapshot.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Place where the workspace is.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.root.path()
    }

    /// Returns all stored steps, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Record> {
        self.store.steps()
    }

    /// Returns the number of stored bytes, and the paths of the workspace that aren't covered.
    #[must_use]
    pub fn cover(&self) -> (u64, Vec<(PathBuf, Why)>) {
        let skipped = self.store.table().map(|(table, _)| table.lost().chain(table.skipped.clone()).collect());
        (self.store.bytes(), skipped.unwrap_or_default())
    }

    /// Returns a stored content.
    ///
    /// # Errors
    /// It isn't stored.
    pub fn content(&self, id: &ObjectId) -> Result<Vec<u8>, StepsError> {
        self.store.content(id)
    }

    /// Makes a snapshot of the workspace; returns the changes since the table was written.
    pub(super) fn look(&mut self, is_ahead: bool) -> Result<Vec<Change>, StepsError> {
        let mark = self.store.mark();
        if self.table.as_ref().map(|(_, mark)| *mark) != mark {
            self.table = self.store.table();
        }
        let is_first = self.table.is_none();
        let before = self.table.take().map(|(table, _)| table).unwrap_or_default();
        let (root, store, limits) = (&self.root, &self.store, &self.limits);
        let theirs = Theirs::of(root.path(), limits.file_bytes_max);
        let look = Look { root, store, limits, left_out: &self.left_out, theirs: theirs.as_ref(), is_ahead };
        let (now, written) = look.now(&before)?;
        self.written += written;
        self.held.extend(theirs);
        let changes = if is_first { Vec::new() } else { before.changes(&now) };
        let mark = match mark.filter(|_| before.is_as(&now)) {
            Some(mark) => Some(mark),
            None => self.store.put_table(&now)?,
        };
        self.table = mark.map(|mark| (now, mark));
        Ok(changes)
    }

    /// Makes a step of changes by commands of other sessions, which still run or were interrupted; a person's changes belong to
    /// no step.
    pub(super) fn attribute(
        &mut self,
        others: &[Other],
        changes: Vec<Change>,
    ) -> Result<Option<StepReport>, StepsError> {
        let made = match others {
            [] => None,
            [first, ..] => {
                let note = if first.is_alive { "it still ran" } else { "it was cut off" };
                let text = others.iter().map(|other| other.text.as_str()).collect::<Vec<_>>().join(" · ");
                Some(self.make(Kind::Command, cut(&text), vec![note.to_owned()], changes)?)
            }
        };
        others.iter().filter(|other| !other.is_alive).for_each(|other| self.store.remove(&other.name));
        self.make_room()?;
        Ok(made)
    }

    pub(super) fn make(
        &mut self,
        kind: Kind,
        text: String,
        notes: Vec<String>,
        changes: Vec<Change>,
    ) -> Result<StepReport, StepsError> {
        self.make_with(kind, text, notes, changes, Vec::new())
    }

    /// The same for a step that has to do with other places, too.
    pub(super) fn make_with(
        &mut self,
        kind: Kind,
        text: String,
        notes: Vec<String>,
        changes: Vec<Change>,
        outside: Vec<Elsewhere>,
    ) -> Result<StepReport, StepsError> {
        if changes.is_empty() && outside.is_empty() {
            return Ok(StepReport::default());
        }
        let prepared = self.prepared(changes)?;
        self.make_prepared(kind, text, notes, prepared, outside)
    }

    /// Writes the objects that the record of a step of these changes refers to.
    pub(super) fn prepared(&self, mut changes: Vec<Change>) -> Result<Prepared, StepsError> {
        let written = secure(&self.store, &self.held, &mut changes, self.limits.bytes_max / 2)?;
        let trees = self.store.trees(&changes)?;
        Ok(Prepared { changes, trees, written })
    }

    pub(super) fn make_prepared(
        &mut self,
        kind: Kind,
        text: String,
        notes: Vec<String>,
        prepared: Prepared,
        outside: Vec<Elsewhere>,
    ) -> Result<StepReport, StepsError> {
        let Prepared { changes, trees: (before, after), written } = prepared;
        self.written += written;
        let number = self.store.next_number();
        let session = self.run.map_or_else(|| self.session.clone(), |run| format!("{OF_RUN}{run}"));
        let time = now_unix_ms();
        let (is_undone, sets_aside) = (false, self.store.first_undone());
        let step =
            Record { number, time, session, kind, text, before, after, is_undone, sets_aside, notes, outside, changes };
        self.store.put_step(&step)?;
        let _ = self.store.put("last", number.to_string().as_bytes());
        let (files, lost) = (step.files(), step.lost().count());
        let there = step.changes.into_iter().filter(|it| it.after != State::Nothing).map(|it| it.path).collect();
        Ok(StepReport { step: Some(number), files, lost, there, pruned: 0 })
    }

    /// Removes the oldest steps if there is too little space; returns how many.
    pub(super) fn make_room(&mut self) -> Result<usize, StepsError> {
        let written = std::mem::take(&mut self.written);
        if written == 0 || self.store.grown(written) <= self.limits.bytes_max {
            return Ok(0);
        }
        let table = self.store.table().map(|(table, _)| table).unwrap_or_default();
        Ok(self.store.prune(&table, self.limits.bytes_max))
    }

    /// Stores the content at a path, and returns its state.
    pub(super) fn keep_state(&self, path: &Path) -> Result<State, StepsError> {
        let failed = |error| StepsError::Path { path: path.to_owned(), error };
        let Some(stamp) = self.root.stamp(path).map_err(failed)? else { return Ok(State::Nothing) };
        if stamp.is_directory() {
            return Ok(State::Directory { mode: stamp.permissions() });
        }
        match self.root.held(path, self.limits.file_bytes_max) {
            Ok((stamp, bytes)) => {
                let (id, _) = self.store.keep(&bytes)?;
                let mode = stamp.permissions();
                Ok(if stamp.is_link() { State::Link { id } } else { State::File { mode, id } })
            }
            Err(PathError::Missing) => Ok(State::Nothing),
            Err(PathError::Long(_)) => Ok(State::Unknown(Why::Large)),
            Err(PathError::NotRegular) => Ok(State::Unknown(Why::Special)),
            Err(_) => Ok(State::Unknown(Why::Closed)),
        }
    }

    /// Commands that run in other sessions, or did when these ended.
    pub(super) fn others(&self) -> Vec<Other> {
        let Ok(entries) = std::fs::read_dir(self.store.folder.join("open")) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let own = format!("{}-", self.session);
        let other = |name: String| {
            let file = File::open(self.store.folder.join("open").join(&name)).ok()?;
            let is_alive = matches!(Locked::take(file, false, Duration::ZERO), Err(TryLockError::WouldBlock));
            let name = format!("open/{name}");
            let text = store::state::bytes_of(self.store.text(&name)?.trim())?;
            Some(Other { text: String::from_utf8_lossy(&text).into_owned(), name, is_alive })
        };
        let names = names.filter(|name| !name.starts_with(&own) && !name.ends_with(".new"));
        names.filter_map(other).collect()
    }

    /// The steps of another place, with the same limits.
    pub(super) fn beside(&self, root: &Path) -> Result<Self, StepsError> {
        let steps = Self::new(&self.state, root, self.limits.clone(), &self.absent);
        steps.map_err(|error| match error {
            StepsError::Root(error) => StepsError::Path { path: root.to_owned(), error },
            error => error,
        })
    }
}

/// The changes of a step whose trees are written.
pub(super) struct Prepared {
    changes: Vec<Change>,
    /// Before and after.
    trees: (ObjectId, ObjectId),
    /// Bytes that were written besides.
    written: u64,
}

/// A command of another session.
pub(super) struct Other {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) is_alive: bool,
}

/// Returns the text of a step, of bounded length.
pub(super) fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}
