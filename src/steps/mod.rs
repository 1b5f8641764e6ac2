//! A model's changes of the workspace, step by step, for undo: a look before each command and one
//! after it, an edit's own files before and after. Contents lie in a store outside the workspace. It knows nothing of
//! who ran what, and leaves a repository's own state alone, but for what the guard of protected files is asked to put
//! back.

mod adopt;
#[cfg(test)]
mod adopt_tests;
mod edits;
mod gather;
mod git;
mod guard;
mod jobs;
mod look;
mod outside;
mod secure;
mod store;
#[cfg(test)]
mod tests;
mod together;
#[cfg(test)]
mod together_tests;
#[cfg(test)]
mod tracked_tests;
mod undo;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use ring::rand::{SecureRandom, SystemRandom};

use crate::base::hex;
use crate::base::text::counted;
use crate::files::{Locked, PathError, Root};
use crate::host::now_unix_ms;
pub use adopt::{Adopted, Incoming, NewContent};
pub use edits::Before;
pub use git::are_alike_indices;
use git::{Standing, Theirs};
pub use guard::{Changed, Guard, IsProtected};
pub use jobs::Job;
use look::Look;
pub use outside::OpenOutside;
use secure::secure;
pub use store::error::{Conflict, Limits, StepsError};
use store::state::OF_RUN;
pub use store::state::{Elsewhere, Kind, Record, State, Why};
pub use store::table::Change;
use store::table::Table;
use store::{Mark, PROBE_TIME, Store};
pub use undo::TakenBack;

/// Longest text of a step, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;
/// Paths that a step of edits looks at.
const PATHS_MAX: usize = 2_000;

/// The steps of one workspace.
pub struct Steps {
    root: Root,
    store: Store,
    limits: Limits,
    left_out: Vec<PathBuf>,
    /// The state directory, and all absolute paths that aren't covered: for other places.
    state: PathBuf,
    absent: Vec<PathBuf>,
    /// The step of what a command did outside, to which its changes of the workspace are to be added.
    joined: Option<u64>,
    session: String,
    /// The run towards a goal that the next steps belong to.
    run: Option<i64>,
    /// The table that was last read or written, and what its file was then.
    table: Option<(Table, Mark)>,
    /// The contents of the user's repository at the looks that the next step is made of.
    held: Vec<Theirs>,
    /// Bytes that were written since room was made.
    written: u64,
    opened: usize,
}

impl Open {
    /// The command line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A command that runs, with what was there before it.
#[must_use]
pub struct Open {
    text: String,
    /// Place where the repository stood.
    git: Option<Standing>,
    /// The file that says so; held as long as it runs.
    name: String,
    _running: Locked<File>,
}

/// The changes of a command or an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// The number of the step; none where nothing was changed.
    pub step: Option<u64>,
    /// Number of files that it changed.
    pub files: usize,
    /// Number of those that can't be taken back.
    pub lost: usize,
    /// Old steps that made room.
    pub pruned: usize,
}

impl Steps {
    /// The steps of the workspace at `workspace`, kept below the state directory `state`; `all_left_out` are absolute paths that
    /// aren't covered. Nothing is looked at yet.
    ///
    /// # Errors
    /// The workspace can't be opened.
    pub fn new(state: &Path, workspace: &Path, limits: Limits, all_left_out: &[PathBuf]) -> Result<Self, StepsError> {
        let root = Root::open(workspace, None).map_err(StepsError::Root)?;
        let store = Store::of(state, root.path());
        let mut nonce = [0; 8];
        // Only a name that no other session has.
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

    /// Looks at the workspace while nobody waits, so that a first command hasn't to: in a repository only, for there nearly
    /// all is kept already.
    ///
    /// # Errors
    /// As of [`Steps::before`], which says so when it counts.
    pub fn ahead(&mut self) -> Result<(), StepsError> {
        if Theirs::of(self.root.path(), 0).is_none() {
            return Ok(());
        }
        let _held = self.enter()?;
        let others = self.others();
        let change = self.look(true)?;
        self.attribute(&others, change)?;
        self.held.clear();
        Ok(())
    }

    /// Limits of a look.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Place where the workspace is.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.root.path()
    }

    /// Looks at the workspace before a command.
    ///
    /// # Errors
    /// What the command changes couldn't be taken back.
    pub fn before(&mut self, text: &str) -> Result<Open, StepsError> {
        let _held = self.enter()?;
        let others = self.others();
        let change = self.look(false)?;
        self.attribute(&others, change)?;
        // What this look relies on is held until the command is over.
        self.held = std::mem::take(&mut self.held).pop().map(Theirs::closed).into_iter().collect();
        self.opened += 1;
        let name = format!("open/{}-{}", self.session, self.opened);
        let failed = |error: std::io::Error| StepsError::io("the note of a running command", &error);
        let text = cut(text);
        self.store.put(&name, hex::encode(text.as_bytes()).as_bytes()).map_err(failed)?;
        let file = File::open(self.store.folder.join(&name)).map_err(failed)?;
        let running = Locked::take(file, false, PROBE_TIME).map_err(|error| failed(error.into()))?;
        let git = self.held.last().map(|theirs| theirs.standing.clone());
        Ok(Open { text, git, name, _running: running })
    }

    /// Looks at it after the command, and makes a step of what differs.
    ///
    /// # Errors
    /// The step couldn't be written: the command can't be taken back.
    pub fn after(&mut self, open: Open) -> Result<StepReport, StepsError> {
        let made = self.enter().and_then(|_held| {
            let changes = self.look(false)?;
            // The look before is there too, so that there may be one though now there is no repository.
            let git = self.held.get(usize::from(open.git.is_some())).map(|theirs| &theirs.standing);
            let notes = Standing::moved(open.git.as_ref(), git);
            let made = self.make(Kind::Command, open.text.clone(), notes, changes)?;
            Ok(StepReport { pruned: self.make_room()?, ..made })
        });
        self.held.clear();
        self.store.remove(&open.name);
        made
    }

    /// Finishes what a session that ended in the middle has left: a command, an edit or a job that was cut off becomes a step, an
    /// undo that counted is carried on. Gives a line for each.
    ///
    /// # Errors
    /// The store can't be read, or the workspace looked at.
    pub fn recover(&mut self) -> Result<Vec<String>, StepsError> {
        if !self.store.is_there() {
            return Ok(Vec::new());
        }
        self.store.empty_trash();
        let has_undo = self.store.text(undo::INTENT).is_some();
        let is_needed = has_undo
            || self.others().iter().any(|other| !other.is_alive)
            || self.has_cut_off_edits()
            || self.has_cut_off_jobs();
        if !is_needed {
            return Ok(Vec::new());
        }
        let _lock = self.store.lock(self.root.path())?;
        let mut told: Vec<String> = self.finish_undo()?.into_iter().collect();
        told.append(&mut self.recover_edits()?);
        told.append(&mut self.recover_jobs()?);
        let others = self.others();
        let dead: Vec<&Other> = others.iter().filter(|other| !other.is_alive).collect();
        if let [first, ..] = dead[..] {
            let change = self.look(false)?;
            let made = self.attribute(&others, change)?;
            self.held.clear();
            if let Some(StepReport { step: Some(step), files, .. }) = made {
                let files = counted(files, "file");
                told.push(format!("`{}` was cut off; it changed {files}, which is step {step} (:undo)", first.text));
            }
        }
        Ok(told)
    }

    /// Every step that is kept, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Record> {
        self.store.steps()
    }

    /// Bytes that are kept, and what of the workspace isn't covered.
    #[must_use]
    pub fn cover(&self) -> (u64, Vec<(PathBuf, Why)>) {
        let skipped = self.store.table().map(|(table, _)| table.lost().chain(table.skipped.clone()).collect());
        (self.store.bytes(), skipped.unwrap_or_default())
    }

    /// A content that is kept.
    ///
    /// # Errors
    /// It isn't.
    pub fn content(&self, id: &ObjectId) -> Result<Vec<u8>, StepsError> {
        self.store.content(id)
    }

    /// Takes the lock; what an undo that was cut off has left is finished first.
    fn enter(&mut self) -> Result<store::Held, StepsError> {
        let held = self.store.lock(self.root.path())?;
        self.finish_undo()?;
        Ok(held)
    }

    /// Looks at the workspace; gives what has changed since the table was written.
    fn look(&mut self, is_ahead: bool) -> Result<Vec<Change>, StepsError> {
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

    /// Makes a step of changes that commands of other sessions have made, which still run or were cut off; what a person
    /// changed is nobody's step.
    fn attribute(&mut self, others: &[Other], changes: Vec<Change>) -> Result<Option<StepReport>, StepsError> {
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

    fn make(
        &mut self,
        kind: Kind,
        text: String,
        notes: Vec<String>,
        changes: Vec<Change>,
    ) -> Result<StepReport, StepsError> {
        self.make_with(kind, text, notes, changes, Vec::new())
    }

    /// The same for a step that has to do with other places, too.
    fn make_with(
        &mut self,
        kind: Kind,
        text: String,
        notes: Vec<String>,
        mut changes: Vec<Change>,
        outside: Vec<Elsewhere>,
    ) -> Result<StepReport, StepsError> {
        if changes.is_empty() && outside.is_empty() {
            return Ok(StepReport::default());
        }
        self.written += secure(&self.store, &self.held, &mut changes, self.limits.bytes_max / 2)?;
        let (before, after) = self.store.trees(&changes)?;
        let number = self.store.next_number();
        let session = self.run.map_or_else(|| self.session.clone(), |run| format!("{OF_RUN}{run}"));
        let time = now_unix_ms();
        let step =
            Record { number, time, session, kind, text, before, after, is_undone: false, notes, outside, changes };
        self.store.put_step(&step)?;
        let _ = self.store.put("last", number.to_string().as_bytes());
        Ok(StepReport { step: Some(number), files: step.files(), lost: step.lost().count(), pruned: 0 })
    }

    /// Lets the oldest steps go where there is no room; gives how many.
    fn make_room(&mut self) -> Result<usize, StepsError> {
        let written = std::mem::take(&mut self.written);
        if written == 0 || self.store.grown(written) <= self.limits.bytes_max {
            return Ok(0);
        }
        let table = self.store.table().map(|(table, _)| table).unwrap_or_default();
        Ok(self.store.prune(&table, self.limits.bytes_max))
    }

    /// Keeps what is at a path, and says what that is.
    fn keep_state(&self, path: &Path) -> Result<State, StepsError> {
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
    fn others(&self) -> Vec<Other> {
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
}

/// A command of another session.
struct Other {
    name: String,
    text: String,
    is_alive: bool,
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}
