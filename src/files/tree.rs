//! The trait that every tool reads and writes files through, and the real directory as its first implementation.
//! It must not know git: other rooms implement it over commits and drafts.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ignore::WalkState;

use super::plain::walk;
use super::{Change, CommitError, DirEntry, FileContent, Journals, Links, PathError, Root};

/// A file's identity and size, by which a reader knows whether it has seen this content before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Time of the last change in nanoseconds; 0 for a content that its identity names.
    pub time_ns: i128,
    /// Bytes.
    pub bytes: u64,
    /// The inode, or the beginning of the content's hash.
    pub identity: u64,
}

/// A regular file that a walk found.
pub struct Walked<'a> {
    /// Its path, relative to the tree.
    pub path: &'a Path,
    stamp: &'a dyn Fn() -> Option<FileStamp>,
}

impl<'a> Walked<'a> {
    /// A file at `path`; `stamp` is called only if it is needed.
    #[must_use]
    pub fn new(path: &'a Path, stamp: &'a dyn Fn() -> Option<FileStamp>) -> Self {
        Self { path, stamp }
    }

    /// Returns its identity and size; `None` if it is gone.
    #[must_use]
    pub fn stamp(&self) -> Option<FileStamp> {
        (self.stamp)()
    }
}

/// Receives the files of a walk; `false` ends the walk.
pub type Visitor<'v> = Box<dyn FnMut(&Walked<'_>) -> bool + Send + 'v>;

/// A file that a walk came upon, opened: its content and its length.
pub type Opened = (Box<dyn Read + Send>, u64);

/// Opens files that a walk found.
pub type Opener<'t> = Box<dyn Fn(&Path) -> Result<Opened, PathError> + Send + Sync + 't>;

/// Files by path: a real directory, a commit, a draft over a commit, or memory. Every tool works through this trait, so
/// that no tool knows which of them it has.
///
/// Paths are texts as a model or a person writes them: relative to the tree, or absolute and below [`Tree::path`]. Links
/// are followed if they stay inside, and refused if they leave. A real directory may have further ones that are only read:
/// their paths are absolute in both directions.
pub trait Tree: Send + Sync {
    /// The directory of the tree, or the one that it represents.
    fn path(&self) -> &Path;

    /// Returns the part of a path that lies beneath the tree, without following links.
    ///
    /// # Errors
    /// The path can't be one, or leads elsewhere.
    fn beneath(&self, path: &str) -> Result<PathBuf, PathError>;

    /// Returns the path of a file without links, `.` and `..`. The file needn't exist.
    ///
    /// # Errors
    /// Any [`PathError`].
    fn resolve(&self, path: &str) -> Result<PathBuf, PathError>;

    /// Returns where an existing path leads, without links, and whether that is a directory.
    ///
    /// # Errors
    /// Any [`PathError`].
    fn look(&self, path: &str) -> Result<(PathBuf, bool), PathError>;

    /// Reads a regular file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Any [`PathError`].
    fn read(&self, path: &str, bytes_max: u64) -> Result<FileContent, PathError>;

    /// Lists a directory, sorted by kind and name.
    ///
    /// # Errors
    /// Any [`PathError`].
    fn list(&self, path: &str) -> Result<Vec<DirEntry>, PathError>;

    /// Names in a directory that no ignore file names; `None` if nothing in this tree is ignored.
    fn unignored(&self, below: &Path) -> Option<BTreeSet<String>>;

    /// Returns whether a path that a walk came upon exists, with no link on the way to it.
    fn holds(&self, relative: &Path) -> bool;

    /// Shows the files below a path to visitors on several threads, in no order: no hidden or ignored ones, no links.
    /// A file that `below` names is shown whatever it is.
    fn walk<'v>(&self, below: &Path, visitors: &(dyn Fn() -> Visitor<'v> + Sync));

    /// Returns a function that opens files of one walk for reading.
    fn opener(&self) -> Opener<'_>;

    /// Changes several files as one: all of them or none. `journals` is the place in which a real directory records changes that
    /// a crash must not interrupt halfway.
    ///
    /// # Errors
    /// A file isn't what the change expects, or can't be written; nothing has changed then.
    fn change(&self, journals: &Journals, changes: &[Change<'_>]) -> Result<(), CommitError>;

    /// The files whose contents go with each question; `None` if this tree has no such list.
    fn open_files(&self) -> Option<Vec<PathBuf>> {
        None
    }

    /// Opens and closes files of that list: paths without links.
    ///
    /// # Errors
    /// There is no such list, or it can't be stored.
    fn set_open_files(&self, _opened: &[PathBuf], _closed: &[PathBuf]) -> Result<(), PathError> {
        Err(PathError::Reserved("only a session on git has open files"))
    }
}

impl Tree for Root {
    fn path(&self) -> &Path {
        self.path()
    }

    fn beneath(&self, path: &str) -> Result<PathBuf, PathError> {
        let root = root_of(self, path);
        root.beneath(path).map(|found| named_of(self, root, found))
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, PathError> {
        let root = root_of(self, path);
        root.resolve(path).map(|found| named_of(self, root, found))
    }

    fn look(&self, path: &str) -> Result<(PathBuf, bool), PathError> {
        let root = root_of(self, path);
        root.look(path).map(|(found, is_directory)| (named_of(self, root, found), is_directory))
    }

    fn read(&self, path: &str, bytes_max: u64) -> Result<FileContent, PathError> {
        root_of(self, path).read(path, bytes_max)
    }

    fn list(&self, path: &str) -> Result<Vec<DirEntry>, PathError> {
        root_of(self, path).list(path)
    }

    fn unignored(&self, below: &Path) -> Option<BTreeSet<String>> {
        let walk = walk(&self.path().join(below)).max_depth(Some(1)).hidden(false).build();
        let below = walk.flatten().filter(|it| it.depth() > 0);
        Some(below.map(|it| it.file_name().to_string_lossy().into_owned()).filter(|name| name != ".git").collect())
    }

    fn holds(&self, relative: &Path) -> bool {
        let (_, root, inside) = part_of(self, relative);
        root.holds(inside)
    }

    fn walk<'v>(&self, below: &Path, visitors: &(dyn Fn() -> Visitor<'v> + Sync)) {
        let top = self.path();
        walk(&top.join(below)).same_file_system(true).build_parallel().run(|| {
            let mut visit = visitors();
            Box::new(move |entry| {
                // Unreadable entries are omitted, as ripgrep does.
                let Ok(entry) = entry else { return WalkState::Continue };
                let path = match entry.path().strip_prefix(top) {
                    Ok(path) => path,
                    Err(_) if below.is_absolute() => entry.path(),
                    Err(_) => return WalkState::Continue,
                };
                if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                    return WalkState::Continue;
                }
                let stamp = || {
                    let data = entry.metadata().ok()?;
                    let time_ns = i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec());
                    Some(FileStamp { time_ns, bytes: data.len(), identity: data.ino() })
                };
                if visit(&Walked::new(path, &stamp)) { WalkState::Continue } else { WalkState::Quit }
            })
        });
    }

    fn opener(&self) -> Opener<'_> {
        let links: Vec<Links> = std::iter::repeat_with(Links::default).take(self.beside.len() + 1).collect();
        Box::new(move |path| {
            let (number, root, inside) = part_of(self, path);
            let (file, bytes) = root.open_found(inside, &links[number])?;
            Ok((Box::new(file) as Box<dyn Read + Send>, bytes))
        })
    }

    fn change(&self, journals: &Journals, changes: &[Change<'_>]) -> Result<(), CommitError> {
        journals.commit(self, changes)
    }
}

/// The directory that a path as it is written lies in: the first one, unless only a further one holds it.
fn root_of<'r>(all: &'r Root, path: &str) -> &'r Root {
    if all.beside.is_empty() || !matches!(all.beneath(path), Err(PathError::Outside)) {
        return all;
    }
    all.beside.iter().find(|root| root.beneath(path).is_ok()).unwrap_or(all)
}

/// The directory that a path of a walk lies in, with its number and the part of the path below it.
fn part_of<'r, 'p>(all: &'r Root, path: &'p Path) -> (usize, &'r Root, &'p Path) {
    let found = all.beside.iter().zip(1..).find_map(|(root, number)| {
        let inside = path.strip_prefix(root.path()).ok()?;
        Some((number, root, if inside.as_os_str().is_empty() { Path::new(".") } else { inside }))
    });
    found.unwrap_or((0, all, path))
}

/// A path below a directory, as it is named from the first one.
fn named_of(all: &Root, root: &Root, found: PathBuf) -> PathBuf {
    if std::ptr::eq(all, root) { found } else { root.path().join(found).components().collect() }
}
