//! Trees of files in git's objects: a commit, which is read-only, and a draft, which consists of a commit and later changes in
//! memory. Both are `host::Tree`, so that every tool works on them as on a directory.
//!
//! | | reads | writes | empty directories |
//! |---|---|---|---|
//! | `host::Root` | the directory | the directory | stay |
//! | [`Draft`] over a repository | changes, else objects | memory | disappear, as in git |
//! | [`Draft::read_only`] | objects | refused | |
//! | [`Draft`] over [`Memory`] | memory | memory | disappear |
//!
//! It must not know conversations, models, or the fate of a draft.

#[cfg(test)]
mod alike_tests;
mod bench;
mod checkout;
mod edit;
mod flood;
mod gitdir;
mod layer;
mod lower;
mod memory;
mod node;
mod read;
mod rules;
#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::git::{GitError, Mode, Objects, Oid};

pub use bench::{Bench, CutOff, Did, Shown, clear_up_shared, copies_beside, remove_bench};
pub use checkout::{Uncommitted, uncommitted};
pub use edit::{DECISIONS, RECORDS};
pub use flood::{Flood, NewEntry, NewEntryKind};
pub use memory::Memory;
pub use node::Content;
use node::Node;
pub use rules::may_hold_secrets;

/// Longest path in bytes, as in Linux (`PATH_MAX`, its end included).
const PATH_BYTES_MAX: usize = 4095;
/// Longest name in bytes, as in Linux (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;
/// Links that are followed on the way to one file, as in Linux.
const LINKS_MAX: usize = 40;
/// Longest file that a draft takes, in bytes; longer ones don't belong into a commit.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Files that can be open at once.
const OPEN_MAX: usize = 200;

/// One path of a draft that differs from its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The path.
    pub path: PathBuf,
    /// The present entry; `None` if it is gone.
    pub now: Option<(Mode, Content)>,
}

/// A commit's files and what was changed since.
pub struct Draft {
    objects: Arc<dyn Objects>,
    path: PathBuf,
    home: Option<PathBuf>,
    is_read_only: bool,
    state: Mutex<State>,
    /// Held while a file is compared and then changed.
    editing: Mutex<()>,
    /// Files whose contents go with each question.
    open: Mutex<BTreeSet<PathBuf>>,
    watcher: Mutex<Option<Watcher>>,
    guard: Mutex<Option<Guard>>,
    /// Lines of ignore files that lie outside of the tree.
    excludes: Mutex<Vec<String>>,
    /// The commit whose tree it began with.
    commit: Mutex<Option<Oid>>,
}

/// Returns whether bytes contain a key that must not become part of a commit.
pub type Guard = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Called after each change of a draft; returns whether it could store it.
pub type Watcher = Box<dyn Fn(&Draft) -> bool + Send + Sync>;

struct State {
    base: Oid,
    top: Node,
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Draft {
    /// Makes a draft over the tree `base`. `path` is the directory that it represents, `home` the meaning of `~`.
    #[must_use]
    pub fn on(objects: Arc<dyn Objects>, base: Oid, path: &Path, home: Option<&Path>) -> Self {
        let state = Mutex::new(State { base, top: Node::of_tree(base) });
        Self {
            objects,
            path: path.to_owned(),
            home: home.map(Path::to_owned),
            is_read_only: false,
            state,
            editing: Mutex::default(),
            open: Mutex::default(),
            watcher: Mutex::new(None),
            guard: Mutex::new(None),
            excludes: Mutex::default(),
            commit: Mutex::default(),
        }
    }

    /// Lets lines as of `.git/info/exclude` count for it, from now on.
    pub fn exclude(&self, lines: Vec<String>) {
        *self.excludes.lock() = lines;
    }

    /// Notes the commit whose tree it began with.
    pub fn note_commit(&self, commit: Oid) {
        *self.commit.lock() = Some(commit);
    }

    /// The commit whose tree it began with.
    fn commit(&self) -> Option<Oid> {
        *self.commit.lock()
    }

    /// These lines.
    fn excludes(&self) -> Vec<String> {
        self.excludes.lock().clone()
    }

    /// Returns the tree `base` as a draft that refuses every change.
    #[must_use]
    pub fn read_only(objects: Arc<dyn Objects>, base: Oid, path: &Path, home: Option<&Path>) -> Self {
        Self { is_read_only: true, ..Self::on(objects, base, path, home) }
    }

    /// Returns the tree of that name, read-only; `None` if it isn't a name.
    #[must_use]
    pub fn earlier(&self, tree: &str) -> Option<Self> {
        Some(Self::read_only(self.objects.clone(), tree.parse().ok()?, &self.path, None))
    }

    /// Returns the same draft, with a function that is called after each change.
    #[must_use]
    pub fn watched(self, watcher: Watcher) -> Self {
        self.watch(watcher);
        self
    }

    /// Sets the function that is called after each change.
    pub fn watch(&self, watcher: Watcher) {
        *self.watcher.lock() = Some(watcher);
    }

    /// Refuses names and contents that `guard` finds a key in, from now on.
    pub fn guard(&self, guard: Guard) {
        *self.guard.lock() = Some(guard);
    }

    /// Takes back the changes of files in which the guard finds a key: keys may become known after a file was written.
    /// Returns their paths.
    ///
    /// # Errors
    /// A tree of the base can't be read.
    pub fn take_back_keys(&self) -> Result<Vec<PathBuf>, GitError> {
        let holds = |it: &Changed| matches!(&it.now, Some((_, Content::New(bytes, _))) if self.holds_key(bytes));
        let found: Vec<PathBuf> = self.changes()?.into_iter().filter(holds).map(|it| it.path).collect();
        if found.is_empty() {
            return Ok(found);
        }
        let before = Self::on(self.objects.clone(), self.base(), &self.path, None);
        let now = |path: &Path| {
            before
                .leaf(path, u64::MAX)
                .ok()
                .and_then(|(mode, bytes)| Some((mode, Content::new(&*self.objects, &bytes)?)))
        };
        let back: Vec<Changed> = found.iter().map(|path| Changed { path: path.clone(), now: now(path) }).collect();
        self.apply(&back)?;
        Ok(found)
    }

    /// Returns whether the guard finds a key in these bytes.
    #[must_use]
    pub fn holds_key(&self, bytes: &[u8]) -> bool {
        self.guard.lock().as_ref().is_some_and(|guard| guard(bytes))
    }

    /// Notifies the watcher of a change; returns whether it could store it.
    pub fn tell(&self) -> bool {
        self.watcher.lock().as_ref().is_none_or(|watcher| watcher(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The tree that it began with.
    #[must_use]
    pub fn base(&self) -> Oid {
        self.state().base
    }

    /// Sets another tree to begin with; changes are forgotten.
    pub fn start_over(&self, base: Oid) {
        *self.state() = State { base, top: Node::of_tree(base) };
    }

    /// Sets a tree to begin with that has `written`, which were the changes some time ago; later changes remain changes. Returns
    /// whether there were none.
    ///
    /// # Errors
    /// A tree can't be read.
    pub fn go_on(&self, base: Oid, written: &[Changed]) -> Result<bool, GitError> {
        let _alone = self.editing.lock();
        let mut state = self.state();
        let mut now = Vec::new();
        state.top.changes(&*self.objects, Some(state.base), Path::new(""), &mut now)?;
        let entry = |it: &Changed| it.now.as_ref().map(|(mode, content)| (*mode, content.id()));
        let known: BTreeMap<&Path, _> = written.iter().map(|it| (&*it.path, entry(it))).collect();
        let present: BTreeSet<&Path> = now.iter().map(|it| &*it.path).collect();
        let mut later: Vec<Changed> =
            now.iter().filter(|it| known.get(&*it.path) != Some(&entry(it))).cloned().collect();
        let before = Self::read_only(self.objects.clone(), state.base, &self.path, None);
        for back in written.iter().filter(|it| !present.contains(&*it.path)) {
            later.push(Changed { path: back.path.clone(), now: before.walked(&back.path).ok() });
        }
        *state = State { base, top: Node::of_tree(base) };
        drop(state);
        self.apply(&later)?;
        Ok(later.is_empty())
    }

    fn open(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.open.lock()
    }

    /// The files whose contents go with each question, as a list for people and records.
    #[must_use]
    pub fn open_names(&self) -> Vec<String> {
        self.open().iter().map(|path| path.display().to_string()).collect()
    }

    /// Replaces the list of these files.
    pub fn start_open(&self, paths: &[String]) {
        *self.open() = paths.iter().take(OPEN_MAX).map(PathBuf::from).collect();
    }

    /// Returns the differences from the base, by path, without files that were changed back.
    ///
    /// # Errors
    /// A tree of the base can't be read.
    pub fn changes(&self) -> Result<Vec<Changed>, GitError> {
        let mut all = Vec::new();
        let state = self.state();
        state.top.changes(&*self.objects, Some(state.base), Path::new(""), &mut all)?;
        all.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(all)
    }

    /// A content that isn't in the store yet; `None` for one that was made to have another's name.
    #[must_use]
    pub fn content(&self, bytes: &[u8]) -> Option<Content> {
        Content::new(&*self.objects, bytes)
    }

    /// Returns whether something is at a path, with no link on the way to it.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        crate::files::Tree::holds(self, path)
    }

    /// Returns whether a directory is at a path.
    #[must_use]
    pub fn is_directory(&self, path: &Path) -> bool {
        let parts: Vec<std::ffi::OsString> = path.iter().map(std::ffi::OsStr::to_owned).collect();
        matches!(self.state().at(&*self.objects, &parts), Ok(read::Found::Directory))
    }

    /// Returns whether a file or a link is at a path.
    #[must_use]
    pub fn has_leaf(&self, path: &Path) -> bool {
        let parts: Vec<std::ffi::OsString> = path.iter().map(std::ffi::OsStr::to_owned).collect();
        matches!(self.state().at(&*self.objects, &parts), Ok(read::Found::Leaf(..)))
    }

    /// Returns whether another repository (a submodule) is at a path.
    #[must_use]
    pub fn is_submodule(&self, path: &Path) -> bool {
        let parts: Vec<std::ffi::OsString> = path.iter().map(std::ffi::OsStr::to_owned).collect();
        matches!(self.state().at(&*self.objects, &parts), Ok(read::Found::Submodule))
    }

    /// Returns whether nothing differs from the base.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.changes().is_ok_and(|changes| changes.is_empty())
    }
}
