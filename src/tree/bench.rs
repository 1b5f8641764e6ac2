//! The bench: the files of a draft as a directory, shown to commands in place of the workspace. It is a cache: only what a draft
//! adopts from it counts, and it can be made again at any time. Files that git ignores stay on it.
//!
//! A bench has the differences from a tree that all sessions of the repository share ([`super::lower`]); both are shown as
//! layers. If a directory can't hide the layer below it, or if that is wanted, a bench has all files itself. For a sandbox that
//! can't show layers there is a directory with all files beside it, in which commands write ([`whole`]).

mod note;
mod whole;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::flood::Flood;
use super::gitdir::GitDir;
use super::layer::{self, Layer, can_hide, write};
use super::lower::{Lower, Lowers};
use super::rules::{Rules, is_rule_file, may_hold_secrets, rules_in};
use super::{Draft, FILE_BYTES_MAX, RECORDS};
use crate::files::{PathError, Root, Table};
use crate::git::{Changed as Differs, Identity, Mode, Objects, Oid, Repo, diff, empty_tree, oid_of, stat_of};
pub use note::{CutOff, clear_up_shared, copies_beside};
use whole::Whole;
pub(in crate::tree) use whole::open_ours;

/// Threads that write files.
const THREADS_MAX: usize = 8;
/// Suffix of the folder beside a bench that has the copies of commands.
const COPIES: &str = "copies";
/// Paths of one command that a commit takes.
pub(super) const PATHS_MAX: usize = 5_000;
/// Bytes of one command that a commit takes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Limit on the lines about what a commit leaves out; beyond it only their number is reported.
const LEFT_OUT_MAX: usize = 100;
/// A command's change at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// There is a file with the content of this one, which may be moved, and these permission bits.
    File(PathBuf, u32),
    /// There is a file with this content and these permission bits.
    Bytes(Vec<u8>, u32),
    /// There is a link to this.
    Link(PathBuf),
    /// There is a directory.
    Directory,
    /// There is nothing any more.
    Gone,
}

/// Way in which commands see a bench.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// Its layers over each other, at the workspace's path.
    #[default]
    Layers,
    /// A directory with all files, at the workspace's path.
    Bound,
    /// The same at its own path.
    Apart,
}

/// The directory that commands of a session work on.
#[derive(Debug)]
pub struct Bench {
    dir: PathBuf,
    pub(super) draft: Arc<Draft>,
    /// Place of the trees that benches share; `None` if this one is to have all files itself.
    shared: Option<Lowers>,
    /// The `.git` that commands see.
    git: Option<GitDir>,
    /// The directory with all files, and how commands see the bench.
    whole: Whole,
    shown: Mutex<Shown>,
    /// True if the place in which commands work has been reported.
    is_named: AtomicBool,
    /// Ignored directories of the checkout that it has copies of.
    copied: Vec<String>,
    /// Reason why no command may run on it.
    closed: Option<&'static str>,
    known: Mutex<Option<Known>>,
    left_out: Mutex<Vec<String>>,
}

/// The tree that the bench shows: a tree of the store, and the paths that differ from it.
#[derive(Debug)]
struct Known {
    base: Oid,
    changed: BTreeMap<PathBuf, Option<(Mode, Oid)>>,
    /// The tree below the bench's own files.
    lower: Option<Arc<Lower>>,
}

impl Bench {
    /// A bench at `dir` for a draft; nothing is written yet. `shared` is the folder of the trees that it shares with others.
    #[must_use]
    pub fn new(dir: PathBuf, shared: Option<PathBuf>, draft: Arc<Draft>) -> Self {
        let shared = shared.map(Lowers);
        let (known, left_out) = (Mutex::new(None), Mutex::default());
        let (whole, shown, is_named) = (Whole::beside(&dir), Mutex::default(), AtomicBool::new(false));
        let (git, copied, closed) = (None, Vec::new(), None);
        Self { dir, shared, draft, git, whole, shown, is_named, copied, closed, known, left_out }
    }

    /// The same, on which git shows commits of this repository. `who` makes commits there.
    #[must_use]
    pub fn with_git(self, repo: Arc<Repo>, who: Identity) -> Self {
        Self { git: Some(GitDir::beside(&self.dir, repo, who)), ..self }
    }

    /// Returns the same bench, which begins with copies of these directories of the checkout, unless git has files in one. Later
    /// changes to them by the person's commands aren't seen.
    #[must_use]
    pub fn with_copies(self, directories: &[String]) -> Self {
        Self { copied: directories.to_vec(), ..self }
    }

    /// The same, on which no command may run, for this reason.
    #[must_use]
    pub fn closed(self, why: Option<&'static str>) -> Self {
        Self { closed: why, ..self }
    }

    /// The directory of its own files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directories that show its files over each other, the topmost first. They are right after [`Bench::ready`].
    #[must_use]
    pub fn layers(&self) -> Vec<PathBuf> {
        let known = self.known.lock();
        let lower = known.as_ref().and_then(|it| it.lower.as_ref());
        let git = self.git.as_ref().and_then(GitDir::layer);
        let own = std::iter::once(self.dir.as_path()).chain(git).map(Path::to_owned);
        own.chain(lower.map(|it| it.files.clone())).collect()
    }

    /// Sets how the sandbox can show it to commands.
    pub fn show_as(&self, shown: Shown) {
        *self.shown.lock() = shown;
    }

    fn whole(&self) -> Option<&Whole> {
        (*self.shown.lock() != Shown::Layers).then_some(&self.whole)
    }

    /// A line about the directory in which commands work, once, if that isn't the workspace's path.
    pub fn take_name(&self) -> Option<String> {
        let is_apart = *self.shown.lock() == Shown::Apart;
        if !is_apart || self.is_named.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (whole, workspace) = (self.whole.dir.display(), crate::files::Tree::path(&*self.draft).display());
        Some(format!(
            "[commands of this session work in {whole}, which has the session's files; name them by relative paths: \
             {workspace} is the user's checkout, which commands can read and not change]"
        ))
    }

    /// Place of the directory with all files.
    #[must_use]
    pub fn whole_dir(&self) -> &Path {
        &self.whole.dir
    }

    /// The directory with all files in which commands work, and how it was before the newest one; `None` if they don't, or before
    /// [`Bench::ready`].
    #[must_use]
    pub fn in_whole(&self) -> Option<(PathBuf, Arc<Table>)> {
        let whole = self.whole()?;
        Some((whole.dir.clone(), whole.table()?))
    }

    /// A directory that commands see read-only, with its place in the workspace: the objects of the repository.
    #[must_use]
    pub fn shown_at(&self) -> Option<(PathBuf, PathBuf)> {
        self.git.as_ref().and_then(GitDir::objects)
    }

    /// The draft whose files it shows.
    #[must_use]
    pub fn draft(&self) -> &Arc<Draft> {
        &self.draft
    }

    /// Removes and returns the list of command changes that the draft doesn't have, each with the reason.
    pub fn take_left_out(&self) -> Vec<String> {
        std::mem::take(&mut self.left_out.lock())
    }

    /// Writes out the tree below its own files, so that the first command needn't wait for that. It is of use to all sessions of
    /// the commit.
    pub fn prepare(&self) {
        let Some(shared) = self.shared.as_ref().filter(|_| self.closed.is_none()) else { return };
        {
            let known = self.known.lock();
            let is_made = known.is_some() || self.state_file().exists();
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
            if is_made || made.is_err() || !can_hide(&self.dir) {
                return;
            }
        }
        if let Err(error) = shared.for_tree(&*self.draft.objects, self.draft.base()) {
            // The first command says so.
            let why = error.to_string();
            tracing::info!(event = "bench_not_prepared", why = why.as_str());
        }
    }

    /// Brings it to the state of the draft: only paths that differ are written.
    ///
    /// # Errors
    /// A file can't be written or read, in words; or no command may run.
    pub fn ready(&self) -> Result<(), String> {
        if let Some(why) = self.closed {
            return Err(why.to_owned());
        }
        let failed = |error: io::Error| format!("the copy for commands ({}): {error}", self.dir.display());
        let mut known = self.known.lock();
        let before = match known.take().or_else(|| self.remembered()) {
            Some(before) => before,
            None => self.begun().map_err(failed)?,
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        let now = Known { lower: before.lower.clone(), ..self.state()? };
        let work = self.outdated(&before, &now)?;
        if !work.is_empty() || before.base != now.base || !self.state_file().exists() {
            self.forget().map_err(failed)?;
            self.bring(&work.iter().map(PathBuf::as_path).collect::<Vec<_>>(), now.lower.as_deref()).map_err(failed)?;
            self.remember(&now).map_err(failed)?;
        }
        self.show(&now, &work).map_err(failed)?;
        *known = Some(now);
        Ok(())
    }

    /// Shows commands the state `now`: git's view of it and, if they work in it, the directory with all files. The bench has just
    /// changed at these paths.
    fn show(&self, now: &Known, changed: &[PathBuf]) -> io::Result<()> {
        let Some(whole) = self.whole() else {
            self.show_git(now, None);
            return Ok(());
        };
        let lower = now.lower.as_ref().map(|it| &*it.files);
        let layers: Vec<&Path> = std::iter::once(&*self.dir).chain(lower).collect();
        if whole.bring(&layers, changed)? {
            // Its index has the numbers of other files.
            self.git.iter().for_each(GitDir::clear);
        }
        self.show_git(now, Some(&whole.dir));
        whole.bring_git(self.git.as_ref().and_then(GitDir::layer), now.changed.is_empty())
    }

    /// Brings its `.git` to the commit that the draft began with.
    fn show_git(&self, now: &Known, whole: Option<&Path>) {
        let (Some(git), Some(commit)) = (&self.git, self.draft.commit()) else { return };
        let (place, base) = match (whole, &now.lower) {
            (Some(whole), _) => (whole, now.base),
            (None, Some(lower)) => (&*lower.files, lower.tree),
            (None, None) => (&*self.dir, now.base),
        };
        // The bench's own files differ from the commit, or are elsewhere: git reads them.
        let own = std::cell::LazyCell::new(|| {
            let differ = diff(&*self.draft.objects, base, now.base).unwrap_or_default();
            differ.into_iter().map(|it| it.path).chain(now.changed.keys().cloned()).collect::<BTreeSet<PathBuf>>()
        });
        let stat = |path: &Path| {
            let data = (!own.contains(path)).then(|| place.join(path).symlink_metadata().ok()).flatten();
            data.map_or([0; 10], |data| stat_of(&data))
        };
        if let Err(error) = git.show(commit, &self.draft.excludes(), &stat) {
            let why = error.to_string();
            tracing::info!(event = "git_not_shown", why = why.as_str());
        }
    }

    /// Brings it to the draft if a command has used it, so that another process can use it as it is.
    pub fn settle(&self) {
        let is_used = self.known.lock().is_some();
        if is_used && let Err(why) = self.ready() {
            // The next command reports this, or makes the bench again.
            tracing::info!(event = "bench_not_settled", why = why.as_str());
        }
    }

    /// The files of the bench over this tree.
    fn layer<'a>(&'a self, lower: Option<&'a Lower>) -> Layer<'a> {
        Layer { top: &self.dir, below: lower.map(|it| &*it.files), copies: self.whole().is_some() }
    }

    /// Returns the paths at which the bench isn't as the draft has it.
    fn outdated(&self, before: &Known, now: &Known) -> Result<Vec<PathBuf>, String> {
        let differ = diff(&*self.draft.objects, before.base, now.base).map_err(|error| error.to_string())?;
        let differ = differ.iter().filter(|it| !it.path.starts_with(RECORDS));
        let differ: BTreeMap<&Path, &Differs> = differ.map(|it| (it.path.as_path(), it)).collect();
        let mut paths: BTreeSet<&Path> = differ.keys().copied().collect();
        paths.extend(before.changed.keys().chain(now.changed.keys()).map(PathBuf::as_path));
        // A path that is in none of these is the same in both trees; that isn't checked, so it is written again.
        let was = |path: &Path| before.changed.get(path).copied().or_else(|| differ.get(path).map(|it| it.old));
        let is = |path: &Path| now.changed.get(path).copied().or_else(|| differ.get(path).map(|it| it.new));
        let is_outdated = |path: &&Path| was(path).is_none() || is(path).is_none() || was(path) != is(path);
        Ok(paths.into_iter().filter(is_outdated).map(Path::to_owned).collect())
    }

    /// Begins an empty bench, over the tree that it shares with others. Existing files are in an unknown state.
    fn begun(&self) -> io::Result<Known> {
        self.layer(None).clear()?;
        self.whole.begin_anew()?;
        self.git.iter().for_each(GitDir::clear);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let lower = match &self.shared {
            Some(shared) if can_hide(&self.dir) => {
                Some(Arc::new(shared.for_tree(&*self.draft.objects, self.draft.base())?))
            }
            _ => None,
        };
        self.copied.iter().try_for_each(|name| self.copy_in(name))?;
        let base = lower.as_ref().map_or_else(empty_tree, |it| it.tree);
        Ok(Known { base, changed: BTreeMap::new(), lower })
    }

    /// Copies a directory of the checkout that git ignores, if there is one of this name.
    fn copy_in(&self, name: &str) -> io::Result<()> {
        let path = Path::new(name.trim_end_matches('/'));
        let is_part =
            |part: Component<'_>| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
        if path.as_os_str().is_empty() || !path.components().all(is_part) {
            let why = format!("sessions.share: {name:?} isn't the name of a directory of the checkout");
            return Err(io::Error::other(why));
        }
        // Git's files come from the draft; the files of a directory that isn't ignored would be lost as changes.
        if self.draft.has(path) || !self.draft.rules().ignores(&path.join("file")) {
            return Ok(());
        }
        let Ok(checkout) = Root::open(crate::files::Tree::path(&*self.draft), None) else { return Ok(()) };
        if !checkout.stamp(path).map_err(io::Error::other)?.is_some_and(|it| it.is_directory()) {
            return Ok(());
        }
        layer::copy_directory(&checkout, path, &self.dir)
    }

    /// Writes the files of a tree into a new directory, without records of sessions. Returns their number.
    ///
    /// # Errors
    /// Something is there, or it can't be written.
    pub fn write_out(files: &Draft, dir: &Path) -> io::Result<usize> {
        DirBuilder::new().mode(0o700).create(dir)?;
        let all = diff(&*files.objects, empty_tree(), files.base()).map_err(io::Error::other)?;
        write_files(&*files.objects, &all, dir)
    }

    /// Writes or removes these paths as the draft has them.
    fn bring(&self, paths: &[&Path], lower: Option<&Lower>) -> io::Result<()> {
        let layer = self.layer(lower);
        let leaf = |path: &Path| match self.draft.leaf(path, u64::MAX) {
            Ok(leaf) => Ok(Some(leaf)),
            Err(PathError::Missing | PathError::NotDirectory | PathError::Directory) => Ok(None),
            Err(error) => Err(io::Error::other(format!("{}: {error}", path.display()))),
        };
        // Removed paths make room first.
        for path in paths {
            if self.draft.leaf(path, 0).is_err_and(|error| !matches!(error, PathError::Long(_))) {
                layer.remove(path)?;
                let parent = path.parent().unwrap_or(Path::new(""));
                layer.remove_empty(parent, |it| self.draft.is_directory(it))?;
            }
        }
        let parents: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        for parent in parents {
            if self.draft.is_directory(parent) {
                layer.make_directories(parent)?;
            }
        }
        by_several(paths, &|path: &&Path| match leaf(path)? {
            Some((mode, bytes)) => layer.put(path, mode, &bytes),
            // Its content is another repository's.
            None if self.draft.is_submodule(path) => layer.put(path, Mode::Submodule, b""),
            None => Ok(()),
        })
    }

    /// Applies a command's changes on the bench, and adopts those that belong into a commit into the draft. Returns the paths
    /// that the draft doesn't accept, each with the reason, except ignored ones.
    ///
    /// # Errors
    /// The bench or the draft can't be written, in words; the bench is then made again.
    pub fn adopt(&self, changes: &[(&Path, Did)]) -> Result<Vec<String>, String> {
        self.adopt_with(changes, None)
    }

    /// The same, with a flood of further files.
    ///
    /// # Errors
    /// As of [`Bench::adopt`].
    pub fn adopt_with(&self, changes: &[(&Path, Did)], flood: Option<&Flood>) -> Result<Vec<String>, String> {
        let failed = |error: io::Error| format!("the copy for commands ({}): {error}", self.dir.display());
        let mut known = self.known.lock();
        let lower = known.take().and_then(|it| it.lower);
        let layer = self.layer(lower.as_deref());
        self.forget().map_err(failed)?;
        let rule_files = changes.iter().filter(|(path, _)| is_rule_file(path)).map(|(path, did)| match did {
            Did::File(source, _) => (*path, rules_in(source)),
            Did::Bytes(bytes, _) => (*path, Some(String::from_utf8_lossy(bytes).into_owned())),
            Did::Link(_) | Did::Directory | Did::Gone => (*path, None),
        });
        let mut taking = Taking::by(self.rules_after(rule_files));
        taking.is_flood = self.is_flood(changes, &mut taking.rules);
        let mut others = Others::among(self, changes);
        for (path, did) in changes {
            if self.draft.is_submodule(path) {
                others.left_out.insert((*path).to_owned());
                continue;
            }
            let length = carry_out(layer, path, did).map_err(failed)?;
            if others.hold(path) {
                continue;
            }
            let leaf = self.leaf_of(path, did, length, &mut taking).map_err(failed)?;
            // A file is gone if a directory replaces it, even if a commit has nothing of that directory's contents.
            let is_gone = *did == Did::Gone || *did == Did::Directory && self.draft.has_leaf(path);
            if leaf.is_none() && !is_gone {
                continue;
            }
            let leaf = leaf.as_ref().map(|(mode, bytes)| (*mode, &bytes[..]));
            if let Err(error) = self.draft.put(path, leaf) {
                taking.leave_out(path, &error.to_string());
            }
        }
        let named = |it: &PathBuf| format!("{}/ (another repository, whose files no commit takes)", it.display());
        taking.left_out.extend(others.left_out.iter().map(named));
        let mut left_out = summed_up(taking.left_out, &taking.flood);
        if let Some(flood) = flood {
            left_out.extend(Self::take_flood(layer, flood).map_err(failed)?);
        }
        if !self.draft.tell() {
            return Err("the draft can't be kept in the state directory".to_owned());
        }
        let now = Known { lower, ..self.state()? };
        self.remember(&now).map_err(failed)?;
        *known = Some(now);
        self.left_out.lock().extend(left_out.iter().cloned());
        Ok(left_out)
    }

    /// Returns the file or link that the draft takes at a path that a command changed, as the bench has it now.
    /// `length` is that of the file.
    fn leaf_of(
        &self,
        path: &Path,
        did: &Did,
        length: u64,
        taking: &mut Taking<'_>,
    ) -> io::Result<Option<(Mode, Vec<u8>)>> {
        let mode = match did {
            Did::Directory | Did::Gone => return Ok(None),
            Did::Link(_) | Did::File(..) | Did::Bytes(..) if !self.draft.has(path) && taking.rules.ignores(path) => {
                return Ok(None);
            }
            Did::Link(target) => return Ok(Some((Mode::Link, target.as_os_str().as_bytes().to_vec()))),
            Did::File(_, mode) | Did::Bytes(_, mode) => *mode,
        };
        if let Some(why) = self.why_left_out(path, length, taking) {
            taking.leave_out(path, why);
            return Ok(None);
        }
        if taking.is_flood && !self.draft.has(path) {
            *taking.flood.entry(path.iter().take(1).collect()).or_default() += 1;
            return Ok(None);
        }
        let content = match fs::read(self.dir.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                taking.leave_out(path, "its permissions forbid reading it");
                return Ok(None);
            }
            content => content?,
        };
        (taking.bytes, taking.paths) = (taking.bytes + length, taking.paths + 1);
        let mode = if mode & 0o111 == 0 { Mode::File } else { Mode::Executable };
        Ok(Some((mode, content)))
    }

    /// Returns git's rules as they are after a command that changed these files of rules: also those that ignore themselves and
    /// so are only on the bench, as the caches of pytest and mypy have them.
    pub(super) fn rules_after<'s>(&'s self, changed: impl Iterator<Item = (&'s Path, Option<String>)>) -> Rules<'s> {
        let changed: BTreeMap<&Path, Option<String>> = changed.collect();
        let read = move |path: &Path| match changed.get(path) {
            Some(text) => text.clone().unwrap_or_default(),
            None => self.draft.rules_text(path).or_else(|| rules_in(&self.dir.join(path))).unwrap_or_default(),
        };
        Rules::new(self.draft.excludes(), Box::new(read))
    }

    /// Returns whether there are thousands of new files. They are data or products: none is adopted, since a part of them would
    /// be of no use.
    fn is_flood(&self, changes: &[(&Path, Did)], rules: &mut Rules<'_>) -> bool {
        let files = changes.iter().filter(|(_, did)| matches!(did, Did::File(..) | Did::Bytes(..)));
        let mut new = files.filter(|(path, _)| !self.draft.has(path) && !rules.ignores(path));
        new.nth(PATHS_MAX).is_some()
    }

    fn why_left_out(&self, path: &Path, length: u64, taking: &mut Taking<'_>) -> Option<&'static str> {
        let is_pointer = self.draft.is_pointer(path).then_some("it is a pointer of Git LFS");
        is_pointer.or_else(|| self.why_new_left_out(path, length, taking))
    }

    /// The same for a path at which the draft has no pointer of Git LFS.
    pub(super) fn why_new_left_out(&self, path: &Path, length: u64, taking: &mut Taking<'_>) -> Option<&'static str> {
        if may_hold_secrets(path) && !self.draft.has(path) {
            Some("a file of its name may hold secrets")
        } else if taking.rules.filters(path) {
            Some("git would run a filter on it")
        } else if length > FILE_BYTES_MAX {
            Some("it is longer than 16 MiB")
        } else if taking.bytes + length > BYTES_MAX {
            Some("one command's files exceed 64 MiB in total")
        } else if taking.paths >= PATHS_MAX {
            Some("one command changed more than 5,000 files")
        } else {
            None
        }
    }

    /// Returns the present state of the draft.
    fn state(&self) -> Result<Known, String> {
        let changes = self.draft.changes().map_err(|error| error.to_string())?;
        let one = |it: super::Changed| (it.path, it.now.map(|(mode, content)| (mode, content.id())));
        Ok(Known { base: self.draft.base(), changed: changes.into_iter().map(one).collect(), lower: None })
    }

    fn state_file(&self) -> PathBuf {
        self.dir.with_extension("state")
    }

    /// Returns the written state of the bench; another process takes up only a bench without changes.
    fn remembered(&self) -> Option<Known> {
        let text = fs::read_to_string(self.state_file()).ok()?;
        let base = oid_of(text.lines().next()?.strip_prefix("tree ")?)?;
        let lower = match (name_in(&text), &self.shared) {
            (Some(name), Some(shared)) => Some(Arc::new(shared.take(name)?)),
            (None, None) => None,
            // It was made in the other way.
            _ => return None,
        };
        Some(Known { base, changed: BTreeMap::new(), lower })
    }

    fn remember(&self, known: &Known) -> io::Result<()> {
        if !known.changed.is_empty() {
            return Ok(());
        }
        let lower = known.lower.as_ref().map(|it| format!("over {}\n", it.name)).unwrap_or_default();
        fs::write(self.state_file(), format!("tree {}\n{lower}", known.base))
    }

    fn forget(&self) -> io::Result<()> {
        self.whole.forget()?;
        match fs::remove_file(self.state_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The state while a command's changes are adopted.
pub(super) struct Taking<'a> {
    pub(super) rules: Rules<'a>,
    /// `true` if there are too many new files to take any.
    is_flood: bool,
    /// Their number by their topmost names.
    pub(super) flood: BTreeMap<PathBuf, usize>,
    /// Paths that the draft doesn't take, each with the reason.
    pub(super) left_out: Vec<String>,
    /// Amounts that the draft has taken so far.
    bytes: u64,
    paths: usize,
}

impl<'a> Taking<'a> {
    pub(super) fn by(rules: Rules<'a>) -> Self {
        Self { rules, is_flood: false, flood: BTreeMap::new(), left_out: Vec::new(), bytes: 0, paths: 0 }
    }

    pub(super) fn leave_out(&mut self, path: &Path, why: &str) {
        self.left_out.push(format!("{} ({why})", path.display()));
    }
}

/// The other repositories beneath a bench: submodules, and those that commands have made. The session isn't theirs.
struct Others<'a> {
    bench: &'a Bench,
    /// Those that the command has made.
    new: BTreeSet<PathBuf>,
    /// The directory of the last path, and the repository in which it lies.
    last: Option<(PathBuf, Option<PathBuf>)>,
    /// Those with changes that no commit accepts.
    left_out: BTreeSet<PathBuf>,
}

impl<'a> Others<'a> {
    fn among(bench: &'a Bench, changes: &[(&Path, Did)]) -> Self {
        let above_git = |path: &Path| {
            path.ancestors().find(|it| it.file_name().is_some_and(|it| it == ".git"))?.parent().map(Path::to_owned)
        };
        let new = changes.iter().filter(|(_, did)| *did != Did::Gone).filter_map(|(path, _)| above_git(path));
        let new = new.filter(|it| !it.as_os_str().is_empty()).collect();
        Self { bench, new, last: None, left_out: BTreeSet::new() }
    }

    /// Returns whether a path is in one of them, so that no commit accepts it. A file that the session already has stays in the
    /// session.
    fn hold(&mut self, path: &Path) -> bool {
        let directory = path.parent().unwrap_or(Path::new(""));
        let is_last = |(last, _): &(PathBuf, Option<PathBuf>)| last == directory;
        let (_, found) = match self.last.take().filter(is_last) {
            Some(last) => self.last.insert(last),
            None => {
                let is_one = |it: &&Path| {
                    let is_made =
                        || self.new.contains(*it) || self.bench.dir.join(it).join(".git").symlink_metadata().is_ok();
                    !it.as_os_str().is_empty() && (is_made() || self.bench.draft.is_submodule(it))
                };
                let found = directory.ancestors().find(is_one).map(Path::to_owned);
                self.last.insert((directory.to_owned(), found))
            }
        };
        let Some(found) = found.clone().filter(|_| !self.bench.draft.has(path)) else { return false };
        self.left_out.insert(found);
        true
    }
}

/// Returns the lines about what isn't adopted: a flood of new files by their topmost names, and beyond a limit the number of
/// lines.
pub(super) fn summed_up(mut lines: Vec<String>, flood: &BTreeMap<PathBuf, usize>) -> Vec<String> {
    lines.extend(flood.iter().map(|(top, count)| match count {
        1 => format!("{} (one of more than 5,000 new files)", top.display()),
        count => format!("{}/ ({count} of more than 5,000 new files)", top.display()),
    }));
    let more = lines.len().saturating_sub(LEFT_OUT_MAX);
    lines.truncate(LEFT_OUT_MAX);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// The name of the shared tree that the written state of a bench names.
fn name_in(state: &str) -> Option<&str> {
    state.lines().find_map(|line| line.strip_prefix("over "))
}

/// Removes a bench with everything beside it.
///
/// # Errors
/// It can't be removed.
pub fn remove_bench(dir: &Path) -> io::Result<()> {
    ["state", "stamps", "git", "whole", "whole-new", COPIES]
        .iter()
        .try_for_each(|it| whole::remove(&dir.with_extension(it)).map(drop))?;
    whole::remove(dir).map(drop)
}

/// Repeats on the bench a change that a command made on its copy. Returns the length of the resulting file, or 0.
fn carry_out(layer: Layer<'_>, path: &Path, did: &Did) -> io::Result<u64> {
    match did {
        Did::Gone => layer.remove(path)?,
        Did::Directory => layer.make_directories(path)?,
        Did::Link(target) => layer.put(path, Mode::Link, target.as_os_str().as_bytes())?,
        Did::File(source, bits) => return layer.take(path, source, *bits),
        Did::Bytes(bytes, bits) => {
            layer.put(path, Mode::File, bytes)?;
            fs::set_permissions(layer.top.join(path), fs::Permissions::from_mode(bits & 0o777))?;
            return Ok(bytes.len() as u64);
        }
    }
    Ok(0)
}

/// Writes files of a tree into an empty directory, without records of sessions. Returns their number.
pub(super) fn write_files(objects: &dyn Objects, all: &[Differs], dir: &Path) -> io::Result<usize> {
    let files: Vec<(&Path, Mode, Oid)> = all
        .iter()
        .filter(|it| !it.path.starts_with(RECORDS))
        .filter_map(|it| it.new.map(|(mode, id)| (it.path.as_path(), mode, id)))
        .collect();
    let parents: BTreeSet<&Path> = files.iter().filter_map(|(path, ..)| path.parent()).collect();
    for parent in parents {
        fs::create_dir_all(dir.join(parent))?;
    }
    by_several(&files, &|&(path, mode, id)| {
        let bytes =
            if mode == Mode::Submodule { Vec::new() } else { objects.blob(id, u64::MAX).map_err(io::Error::other)? };
        write(&dir.join(path), mode, &bytes)
    })?;
    Ok(files.len())
}

/// Processes items with several threads.
fn by_several<T: Sync>(all: &[T], each: &(dyn Fn(&T) -> io::Result<()> + Sync)) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            each(item)?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(all.len());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let first: io::Result<()> = work();
        let panicked = || Err(io::Error::other("a thread panicked"));
        workers.into_iter().map(|it| it.join().unwrap_or_else(|_| panicked())).fold(first, Result::and)
    })
}
