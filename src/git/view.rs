//! The library's view of a repository, and its handles: one for each thread that reads just now.
//!
//! The library can update its view of the packs itself, but its list of them has a fixed length, and it panics if they change
//! fast. Therefore this is disabled: the repository is opened again if something isn't found and packs have changed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Age of a directory's modification time from which on no later change can have the same time.
const SETTLED: Duration = Duration::from_millis(100);
/// Number of times that a search is repeated.
const LOOKS_MAX: usize = 5;
/// Number of directories of objects whose packs are watched.
const ALTERNATES_MAX: usize = 16;

pub(super) struct View {
    git_dir: PathBuf,
    /// The directories of packs: its own, and those of the repositories whose objects it uses.
    packs: Vec<PathBuf>,
    state: Mutex<State>,
}

struct State {
    repo: gix::ThreadSafeRepository,
    /// The times of the last changes of packs when it was opened; `None` if one was too recent.
    changed: Option<Vec<SystemTime>>,
    /// The idle handles.
    handles: Vec<gix::Repository>,
    /// Number of times that it was opened again: older handles aren't used any more.
    number: u64,
}

/// Options for opening a repository: only its own configuration applies, and objects are read as they were committed, whatever
/// `git replace` substitutes for them.
pub(super) fn as_committed() -> gix::open::Options {
    gix::open::Options::isolated().config_overrides(["core.useReplaceRefs=false"])
}

impl View {
    /// Returns a view of a repository before its first object was read.
    pub(super) fn of(repo: gix::Repository, git_dir: PathBuf, common_dir: &Path) -> Self {
        let packs = packs_of(common_dir.join("objects"));
        // The packs are listed when the first object is read.
        let changed = changed(&packs);
        let state = State { repo: repo.into_sync(), changed, handles: Vec::new(), number: 0 };
        Self { git_dir, packs, state: Mutex::new(state) }
    }

    /// Runs `work` with a handle of this thread's own.
    pub(super) fn with<T>(&self, work: impl FnOnce(&gix::Repository) -> T) -> T {
        let (handle, number) = {
            let mut state = self.state.lock();
            (state.handles.pop().unwrap_or_else(|| handle_of(&state.repo)), state.number)
        };
        let done = work(&handle);
        let mut state = self.state.lock();
        if state.number == number {
            state.handles.push(handle);
        }
        done
    }

    /// Searches in the objects, and again if nothing is found while packs change: one may disappear after it was listed and
    /// before it is opened.
    pub(super) fn find<T>(&self, look: impl Fn(&gix::Repository) -> Option<T>) -> Option<T> {
        let first = self.with(&look);
        first.or_else(|| (0..LOOKS_MAX).take_while(|_| self.renew()).find_map(|_| self.with(&look)))
    }

    /// Opens the repository again, unless the packs haven't changed for a while. Returns whether it did.
    pub(super) fn renew(&self) -> bool {
        let mut state = self.state.lock();
        let changed = changed(&self.packs);
        if changed.is_some() && changed == state.changed {
            return false;
        }
        let Ok(repo) = gix::open_opts(&self.git_dir, as_committed()) else { return false };
        *state = State { repo: repo.into_sync(), changed, handles: Vec::new(), number: state.number + 1 };
        true
    }
}

fn handle_of(repo: &gix::ThreadSafeRepository) -> gix::Repository {
    let mut handle = repo.to_thread_local();
    handle.objects.refresh_never();
    handle
}

/// The directories of packs of a directory of objects, and of those that it names.
fn packs_of(objects: PathBuf) -> Vec<PathBuf> {
    let mut all = vec![objects];
    let mut at = 0;
    while let Some(objects) = all.get(at).filter(|_| at < ALTERNATES_MAX) {
        let named = std::fs::read(objects.join("info/alternates")).unwrap_or_default();
        let lines = named.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let further: Vec<PathBuf> = lines.map(|line| objects.join(OsStr::from_bytes(line))).collect();
        all.extend(further.into_iter().take(ALTERNATES_MAX));
        at += 1;
    }
    all.into_iter().map(|objects| objects.join("pack")).collect()
}

/// The times of the last changes of packs. `None` if one is too recent, since more changes could have the same time.
fn changed(packs: &[PathBuf]) -> Option<Vec<SystemTime>> {
    let changed = |packs: &PathBuf| {
        let Ok(about) = std::fs::metadata(packs) else { return Some(SystemTime::UNIX_EPOCH) };
        let changed = about.modified().ok()?;
        changed.elapsed().is_ok_and(|age| age > SETTLED).then_some(changed)
    };
    packs.iter().map(changed).collect()
}
