//! The bench: the files of a draft as a directory, shown to commands in the workspace's place. It is a cache: only what a draft
//! takes of it counts, and it can be made anew at any time. What git ignores stays on it.
//!
//! A bench has what differs from a tree that all sessions of the repository share ([`super::lower`]); both are shown over
//! each other. Where a directory can't hide what lies below it, and if that is wanted, a bench has all files itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::layer::{Layer, can_hide, write};
use super::lower::{Lower, Lowers};
use super::{Draft, FILE_BYTES_MAX, RECORDS};
use crate::files::PathError;
use crate::git::{Changed as Differs, Mode, Objects, Oid, diff, empty_tree, oid_of};

/// Threads that write files.
const THREADS_MAX: usize = 8;
/// Paths of one command that a commit takes.
const PATHS_MAX: usize = 5_000;
/// Bytes of one command that a commit takes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Lines about what a commit leaves out; of more, the number.
const LEFT_OUT_MAX: usize = 100;
/// Longest ignore file that is read, in bytes.
const IGNORE_BYTES_MAX: u64 = 1024 * 1024;
/// The beginning of names of files that hold secrets: no commit takes them.
const SECRET: [&str; 6] = [".env", "id_rsa", "id_ed25519", "id_ecdsa", ".netrc", ".pgpass"];

/// Whether a file's name says that it may hold secrets.
#[must_use]
pub fn may_hold_secrets(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    SECRET.iter().any(|it| name.starts_with(it.as_bytes()))
}

/// A command's change at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// There is a file with this content and these permission bits.
    File(PathBuf, u32),
    /// There is a link to this.
    Link(PathBuf),
    /// There is a directory.
    Directory,
    /// There is nothing any more.
    Gone,
}

/// The directory that commands of a session work on.
#[derive(Debug)]
pub struct Bench {
    dir: PathBuf,
    draft: Arc<Draft>,
    /// Place of the trees that benches share; `None` if this one is to have all files itself.
    shared: Option<Lowers>,
    /// Lines of the repository's and the user's own ignore files.
    excludes: Vec<String>,
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
    /// A bench at `dir` for a draft; nothing is written yet. `shared` is the folder of the trees that it shares with other
    /// benches, `excludes` are lines as of `.git/info/exclude`.
    #[must_use]
    pub fn new(dir: PathBuf, shared: Option<PathBuf>, draft: Arc<Draft>, excludes: Vec<String>) -> Self {
        let shared = shared.map(Lowers);
        Self { dir, shared, draft, excludes, closed: None, known: Mutex::new(None), left_out: Mutex::default() }
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
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let lower = known.as_ref().and_then(|it| it.lower.as_ref());
        std::iter::once(self.dir.clone()).chain(lower.map(|it| it.files.clone())).collect()
    }

    /// The draft whose files it shows.
    #[must_use]
    pub fn draft(&self) -> &Arc<Draft> {
        &self.draft
    }

    /// Takes the list of what commands changed and the draft doesn't have, each with the reason.
    pub fn take_left_out(&self) -> Vec<String> {
        std::mem::take(&mut self.left_out.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings it to the state of the draft: only paths that differ are written.
    ///
    /// # Errors
    /// A file can't be written or read, in words; or no command may run.
    pub fn ready(&self) -> Result<(), String> {
        if let Some(why) = self.closed {
            return Err(why.to_owned());
        }
        let told = |error: io::Error| format!("the copy for commands ({}): {error}", self.dir.display());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match known.take().or_else(|| self.remembered()) {
            Some(before) => before,
            None => self.begun().map_err(told)?,
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(told)?;
        let now = Known { lower: before.lower.clone(), ..self.state()? };
        let differ = diff(&*self.draft.objects, before.base, now.base).map_err(|error| error.to_string())?;
        let differ = differ.iter().filter(|it| !it.path.starts_with(RECORDS));
        let differ: BTreeMap<&Path, &Differs> = differ.map(|it| (it.path.as_path(), it)).collect();
        let mut paths: BTreeSet<&Path> = differ.keys().copied().collect();
        paths.extend(before.changed.keys().chain(now.changed.keys()).map(PathBuf::as_path));
        // A path that is in none of these is as both trees have it, and that isn't looked up: it is written again.
        let was = |path: &Path| before.changed.get(path).copied().or_else(|| differ.get(path).map(|it| it.old));
        let is = |path: &Path| now.changed.get(path).copied().or_else(|| differ.get(path).map(|it| it.new));
        let outdated = |path: &&Path| was(path).is_none() || is(path).is_none() || was(path) != is(path);
        let work: Vec<&Path> = paths.into_iter().filter(outdated).collect();
        if !work.is_empty() || before.base != now.base || !self.state_file().exists() {
            self.forget().map_err(told)?;
            self.bring(&work, now.lower.as_deref()).map_err(told)?;
            self.remember(&now).map_err(told)?;
        }
        *known = Some(now);
        Ok(())
    }

    /// Begins an empty bench, over the tree that it shares with others. What is there is of a state that nobody knows.
    fn begun(&self) -> io::Result<Known> {
        Layer { top: &self.dir, below: None }.clear()?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let lower = match &self.shared {
            Some(shared) if can_hide(&self.dir) => {
                Some(Arc::new(shared.for_tree(&*self.draft.objects, self.draft.base())?))
            }
            _ => None,
        };
        let base = lower.as_ref().map_or_else(empty_tree, |it| it.tree);
        Ok(Known { base, changed: BTreeMap::new(), lower })
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
        let layer = Layer { top: &self.dir, below: lower.map(|it| &*it.files) };
        let leaf = |path: &Path| match self.draft.leaf(path, u64::MAX) {
            Ok(leaf) => Ok(Some(leaf)),
            Err(PathError::Missing | PathError::NotDirectory | PathError::Directory) => Ok(None),
            Err(error) => Err(io::Error::other(format!("{}: {error}", path.display()))),
        };
        // What has gone makes room first.
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

    /// Makes real on the bench what a command did on its copy, and takes into the draft what belongs into a commit. Gives
    /// the paths that the draft doesn't take, each with the reason; ignored ones aren't told.
    ///
    /// # Errors
    /// The bench or the draft can't be written, in words; the bench is made anew then.
    pub fn adopt(&self, changes: &[(&Path, Did)]) -> Result<Vec<String>, String> {
        let told = |error: io::Error| format!("the copy for commands ({}): {error}", self.dir.display());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let lower = known.take().and_then(|it| it.lower);
        let layer = Layer { top: &self.dir, below: lower.as_ref().map(|it| &*it.files) };
        self.forget().map_err(told)?;
        let (mut left_out, mut paths, mut bytes, mut rules) = (Vec::new(), 0, 0, Rules::default());
        let (is_flood, mut flood) = (self.is_flood(changes, &mut rules), BTreeMap::<PathBuf, usize>::new());
        for (path, did) in changes {
            carry_out(layer, path, did).map_err(told)?;
            let leaf = match did {
                Did::Directory => continue,
                Did::Gone => None,
                Did::Link(target) => Some((Mode::Link, target.as_os_str().as_bytes().to_vec())),
                Did::File(_, mode) => {
                    let file = self.dir.join(path);
                    let length = fs::metadata(&file).map_err(told)?.len();
                    let is_ignored = !self.draft.has(path) && self.is_ignored(path, &mut rules);
                    let why = self.why_left_out(path, length, bytes, paths);
                    if is_ignored {
                        continue;
                    }
                    if is_flood && !self.draft.has(path) {
                        *flood.entry(path.iter().take(1).collect()).or_default() += 1;
                        continue;
                    }
                    if let Some(why) = why {
                        left_out.push(format!("{} ({why})", path.display()));
                        continue;
                    }
                    (bytes, paths) = (bytes + length, paths + 1);
                    let mode = if mode & 0o111 == 0 { Mode::File } else { Mode::Executable };
                    Some((mode, fs::read(&file).map_err(told)?))
                }
            };
            if matches!(did, Did::Link(_)) && !self.draft.has(path) && self.is_ignored(path, &mut rules) {
                continue;
            }
            let leaf = leaf.as_ref().map(|(mode, bytes)| (*mode, &bytes[..]));
            if let Err(error) = self.draft.put(path, leaf) {
                left_out.push(format!("{} ({error})", path.display()));
            }
        }
        left_out = summed_up(left_out, &flood);
        if !self.draft.tell() {
            return Err("the draft can't be kept in the state directory".to_owned());
        }
        let now = Known { lower, ..self.state()? };
        self.remember(&now).map_err(told)?;
        *known = Some(now);
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).extend(left_out.iter().cloned());
        Ok(left_out)
    }

    /// Whether there are thousands of new files. They are data or products: none is taken, since some would be of no use.
    fn is_flood(&self, changes: &[(&Path, Did)], rules: &mut Rules) -> bool {
        let files = changes.iter().filter(|(_, did)| matches!(did, Did::File(..)));
        let mut new = files.filter(|(path, _)| !self.draft.has(path) && !self.is_ignored(path, rules));
        new.nth(PATHS_MAX).is_some()
    }

    fn why_left_out(&self, path: &Path, length: u64, bytes: u64, paths: usize) -> Option<&'static str> {
        let is_secret = may_hold_secrets(path) && !self.draft.has(path);
        if is_secret {
            Some("a file of its name may hold secrets")
        } else if length > FILE_BYTES_MAX {
            Some("it is longer than 16 MiB")
        } else if bytes + length > BYTES_MAX {
            Some("one command's files come to more than 64 MiB")
        } else if paths >= PATHS_MAX {
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
        match fs::remove_file(self.state_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether git would ignore a path that it doesn't know yet.
    fn is_ignored(&self, path: &Path, rules: &mut Rules) -> bool {
        for directory in path.ancestors().skip(1) {
            let rule = rules.0.entry(directory.to_owned()).or_insert_with(|| {
                let mut builder = GitignoreBuilder::new(Path::new("/").join(directory));
                let text = self.draft.leaf(&directory.join(".gitignore"), IGNORE_BYTES_MAX);
                let text = text.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
                let excludes = self.excludes.iter().filter(|_| directory.as_os_str().is_empty());
                for line in excludes.map(String::as_str).chain(text.lines()) {
                    let _ = builder.add_line(None, line);
                }
                builder.build().unwrap_or_else(|_| Gitignore::empty())
            });
            let found = rule.matched_path_or_any_parents(Path::new("/").join(path), false);
            if !found.is_none() {
                return found.is_ignore();
            }
        }
        false
    }
}

/// Ignore files by directory, each read once.
#[derive(Default)]
struct Rules(BTreeMap<PathBuf, Gitignore>);

/// The lines about what isn't taken: a flood of new files by their topmost names, and of too many lines the number.
fn summed_up(mut lines: Vec<String>, flood: &BTreeMap<PathBuf, usize>) -> Vec<String> {
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

/// Removes the trees in the folder `shared` that no bench uses, but for the newest. `states` are the files beside benches that
/// say what they show. If `only_names`, none is removed. Returns the names.
#[must_use]
pub fn clear_up_shared(shared: &Path, states: &[PathBuf], only_names: bool) -> Vec<String> {
    let texts: Vec<String> = states.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let used: Vec<String> = texts.iter().filter_map(|text| name_in(text)).map(str::to_owned).collect();
    Lowers(shared.to_owned()).clear_up(&used, only_names)
}

/// Does on the bench what a command did on its copy.
fn carry_out(layer: Layer<'_>, path: &Path, did: &Did) -> io::Result<()> {
    match did {
        Did::Gone => layer.remove(path),
        Did::Directory => layer.make_directories(path),
        Did::Link(target) => layer.put(path, Mode::Link, target.as_os_str().as_bytes()),
        Did::File(source, bits) => layer.copy(path, source, *bits),
    }
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

/// Does something with each item, by several threads.
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
