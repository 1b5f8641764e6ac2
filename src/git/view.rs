//! The library's view of a repository, and its handles: one for each thread that reads just now.
//!
//! The library can bring its view of the packs up to date by itself, but its list of them has a fixed length, and it panics if they
//! come and go fast. So it never does: the repository is opened once more when something isn't found and packs have come or gone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Time after which a directory's time of change says that nothing else has changed it since.
const SETTLED: Duration = Duration::from_millis(100);
/// Number of times that something is looked for again.
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
    /// The times at which packs had come or gone when it was opened; `None` if one was just before.
    changed: Option<Vec<SystemTime>>,
    /// The handles that no thread uses.
    handles: Vec<gix::Repository>,
    /// Number of times that it was opened again: older handles aren't used any more.
    number: u64,
}

/// Options of opening a repository: only its own configuration counts, and objects are read as they were committed, whatever
/// `git replace` puts in their place.
pub(super) fn as_committed() -> gix::open::Options {
    gix::open::Options::isolated().config_overrides(["core.useReplaceRefs=false"])
}

impl View {
    /// Returns a view of a repository from which no object was read yet.
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

    /// Looks for something in the objects, and again if it isn't found while packs come and go: one may go between the list and its
    /// opening.
    pub(super) fn find<T>(&self, look: impl Fn(&gix::Repository) -> Option<T>) -> Option<T> {
        let first = self.with(&look);
        first.or_else(|| (0..LOOKS_MAX).take_while(|_| self.renew()).find_map(|_| self.with(&look)))
    }

    /// Opens the repository once more, unless the packs have long been the same as before. Returns whether it did.
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

/// The times at which packs came or went. `None` if one was just now, so that more may come at what counts as the same time.
fn changed(packs: &[PathBuf]) -> Option<Vec<SystemTime>> {
    let changed = |packs: &PathBuf| {
        let Ok(about) = std::fs::metadata(packs) else { return Some(SystemTime::UNIX_EPOCH) };
        let changed = about.modified().ok()?;
        changed.elapsed().is_ok_and(|age| age > SETTLED).then_some(changed)
    };
    packs.iter().map(changed).collect()
}
