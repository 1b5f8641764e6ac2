//! Files: those beneath a directory, with changes of several at once; the entries of a directory; locks; files with holes;
//! replacing one of our files.
//!
//! A [`Root`] opens files beneath its directory and no others, whatever a path says: the kernel opens each relative to a
//! handle taken at the start (`openat2`, `RESOLVE_BENEATH`), and the opened file is examined, not the path. Links that stay
//! beneath are followed; absolute ones and those that leave are refused, even if they come back. It knows no rules about
//! which files may be touched.

mod commit;
pub mod holes;
mod layers;
mod lock;
mod place;
mod plain;
mod replace;
mod survey;
mod table;
mod tree;
mod watch;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2, readlink, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

pub use commit::{Change, CommitError, Journals, Recovery};
pub use layers::{Layers, OPAQUE, is_copied_up, is_opaque};
pub use lock::{Locked, Marked, is_marked, lock_file, marked_number, private_file};
use place::keep_attributes;
pub use place::{Places, Stage, is_plain};
pub use plain::{may_be_walked, open_plain, read_plain, walk};
pub use replace::{create_private, make_private, replace_for_now, replace_private};
pub use survey::{HeldFile, Looked, Seen, Stamp, SurveyEnd, SurveyLimits, read_whole};
pub use table::{Table, Unseen};
pub use tree::{FileStamp, Opened, Opener, Tree, Visitor, Walked};
pub use watch::{Reports, Watch};

/// Longest path in bytes, as in Linux (`PATH_MAX`, its end included).
pub const PATH_BYTES_MAX: usize = 4095;
/// Longest name in bytes, as in Linux (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;
/// The kernel asks for another try if something was renamed during the lookup.
const TRIES_MAX: usize = 64;
/// Limit on entries that are examined to find the other names of a file with several.
const LINKS_SOUGHT_MAX: usize = 20_000;
/// Tries to find a name for a temporary file.
const NAMES_TRIED_MAX: u32 = 100;

/// Reason why a path wasn't opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No path at all.
    #[error("the path is empty")]
    Empty,
    /// Contains a NUL, which no path does.
    #[error("the path holds a NUL")]
    Nul,
    /// Longer than the system takes.
    #[error("the path is too long")]
    TooLong,
    /// `~name`, which only a shell understands.
    #[error("~NAME isn't expanded; give the whole path")]
    Tilde,
    /// `$NAME` or `${NAME}`, which only a shell understands.
    #[error("variables aren't expanded in a path; write the path itself, ~/ for the home")]
    Variable,
    /// Leads out of the directory, by itself or by a link.
    #[error("it leads out of the workspace")]
    Outside,
    /// There is nothing.
    #[error("there is no such file or directory")]
    Missing,
    /// A directory instead of a file.
    #[error("it is a directory")]
    Directory,
    /// A file instead of a directory.
    #[error("it is not a directory")]
    NotDirectory,
    /// A pipe, a socket, a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// The file has other names outside, and through them other readers and writers.
    #[error("the file has other names (hard links) outside the workspace")]
    HardLinks,
    /// Longer than the limit.
    #[error("the file is longer than {0} bytes")]
    Long(u64),
    /// Changed since it was read.
    #[error("the file has changed meanwhile")]
    Changed,
    /// Another session is just changing files here.
    #[error("another session is changing files here right now")]
    Busy,
    /// Another entry has this name, but for its case or the Unicode form of a letter: not every file system can hold both.
    #[error("{0} is there already, and the names differ only in case or in the Unicode form of a letter")]
    Twin(String),
    /// The tree doesn't let it be used, for this reason.
    #[error("{0}")]
    Reserved(&'static str),
    /// The system refuses.
    #[error("{}", .0.desc())]
    System(Errno),
}

impl From<Errno> for PathError {
    fn from(errno: Errno) -> Self {
        match errno {
            // The errors of RESOLVE_BENEATH and RESOLVE_NO_XDEV for a path that leads outside, and for a loop of links.
            Errno::EXDEV | Errno::ELOOP => Self::Outside,
            Errno::ENOENT => Self::Missing,
            Errno::EISDIR => Self::Directory,
            Errno::ENOTDIR => Self::NotDirectory,
            Errno::ENXIO | Errno::ENODEV => Self::NotRegular,
            Errno::ENAMETOOLONG => Self::TooLong,
            other => Self::System(other),
        }
    }
}

fn of_io(error: &std::io::Error) -> PathError {
    error.raw_os_error().map_or(PathError::System(Errno::EIO), |number| Errno::from_raw(number).into())
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its name; bytes that are no UTF-8 are shown as U+FFFD.
    pub name: String,
    /// Its kind.
    pub kind: EntryKind,
    /// Its size in bytes, if it is a file.
    pub bytes: u64,
}

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A link, wherever it leads.
    Link,
    /// Something else.
    Other,
}

/// The content read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// A directory that files are opened beneath.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    path: PathBuf,
    home: Option<PathBuf>,
    device: u64,
    inode: u64,
    /// Further directories, of which a [`Tree`] reads files by absolute paths.
    beside: Vec<Root>,
}

impl Root {
    /// Takes the handle of a directory; `home` replaces `~`.
    ///
    /// # Errors
    /// It doesn't exist, or isn't a directory.
    pub fn open(path: &Path, home: Option<&Path>) -> Result<Self, PathError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = openat2(AT_FDCWD, path, OpenHow::new().flags(flags))?;
        let data = nix::sys::stat::fstat(&dir)?;
        let path = std::fs::canonicalize(path).map_err(|error| of_io(&error))?;
        let home = home.map(Path::to_owned);
        Ok(Self { dir, path, home, device: data.st_dev, inode: data.st_ino, beside: Vec::new() })
    }

    /// The same, with further directories that are only read, and only as a [`Tree`].
    #[must_use]
    pub fn with_readable(self, beside: Vec<Root>) -> Self {
        Self { beside, ..self }
    }

    /// Its path when the handle was taken, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the part of a path that lies beneath: a relative one as it is, an absolute one if it begins with exactly
    /// this directory. Only a leading `~/` is expanded; nothing is decoded or trimmed.
    ///
    /// # Errors
    /// The path can't be one, or leads elsewhere.
    pub fn beneath(&self, path: &str) -> Result<PathBuf, PathError> {
        let is_there = |name: &str| self.path.join(name).symlink_metadata().is_ok();
        let expanded = expanded(path, self.home.as_deref(), &is_there)?;
        if !expanded.is_absolute() {
            return Ok(expanded);
        }
        // A trailing slash says that it is a directory; `components` would lose it.
        let is_directory = path.ends_with('/');
        let mut parts = expanded.components();
        let mut prefix = PathBuf::new();
        loop {
            let is_here = |data: std::fs::Metadata| data.dev() == self.device && data.ino() == self.inode;
            if !prefix.as_os_str().is_empty() && std::fs::metadata(&prefix).is_ok_and(is_here) {
                let rest = parts.as_path();
                let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
                return Ok(if is_directory { rest.join("") } else { rest.to_owned() });
            }
            match parts.next() {
                Some(Component::ParentDir) => return Err(PathError::Outside),
                None => return self.by_another_name(&expanded),
                Some(part) => prefix.push(part),
            }
        }
    }

    /// The part of an absolute path that leads beneath through a link from elsewhere.
    fn by_another_name(&self, path: &Path) -> Result<PathBuf, PathError> {
        let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        let (above, real) = there.ok_or(PathError::Outside)?;
        let rest = path.strip_prefix(above).map_err(|_| PathError::Outside)?;
        if rest.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(PathError::Outside);
        }
        let beneath = real.strip_prefix(&self.path).map_err(|_| PathError::Outside)?;
        let beneath: PathBuf = beneath.components().chain(rest.components()).collect();
        Ok(if beneath.as_os_str().is_empty() { PathBuf::from(".") } else { beneath })
    }

    /// Reads a regular file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn read(&self, path: &str, bytes_max: u64) -> Result<FileContent, PathError> {
        let relative = self.beneath(path)?;
        let mut file = self.open_file(&relative)?;
        let data = file.metadata().map_err(|error| of_io(&error))?;
        if data.len() > bytes_max {
            return Err(PathError::Long(bytes_max));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(data.len()).unwrap_or(0));
        (&mut file).take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| of_io(&error))?;
        if bytes.len() as u64 > bytes_max {
            return Err(PathError::Long(bytes_max));
        }
        Ok(FileContent { bytes, mode: data.mode() & 0o7777 })
    }

    /// Returns the target of an existing path, relative to this directory and without links, and whether it is a directory.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn look(&self, path: &str) -> Result<(PathBuf, bool), PathError> {
        let found = self.open_beneath(&self.beneath(path)?, OFlag::O_PATH)?;
        let is_directory = nix::sys::stat::fstat(&found)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        Ok((self.named(&found)?, is_directory))
    }

    /// Returns whether a name that a walk found is beneath, with no link on the way to it.
    #[must_use]
    pub fn holds(&self, relative: &Path) -> bool {
        self.open_walked(relative, OFlag::O_PATH | OFlag::O_NOFOLLOW).is_ok()
    }

    /// Opens a regular file that a walk found, for reading, and returns its length too; no link is followed. `links` is shared by
    /// all files of the walk.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn open_found(&self, relative: &Path, links: &Links) -> Result<(File, u64), PathError> {
        let file = File::from(self.open_walked(relative, OFlag::O_RDONLY)?);
        let data = file.metadata().map_err(|error| of_io(&error))?;
        if !data.is_file() {
            return Err(PathError::NotRegular);
        }
        if data.nlink() > 1 && !links.hold_all_of(self, &data) {
            return Err(PathError::HardLinks);
        }
        Ok((file, data.len()))
    }

    /// Lists a directory, sorted by kind and name.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn list(&self, path: &str) -> Result<Vec<DirEntry>, PathError> {
        let dir = self.open_beneath(&self.beneath(path)?, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut dir = nix::dir::Dir::from_fd(dir)?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        let mut entries: Vec<DirEntry> = names
            .iter()
            // An entry that has gone since is skipped.
            .filter_map(|name| {
                let data = fstatat(&dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
                let kind = match data.st_mode & libc::S_IFMT {
                    libc::S_IFDIR => EntryKind::Directory,
                    libc::S_IFREG => EntryKind::File,
                    libc::S_IFLNK => EntryKind::Link,
                    _ => EntryKind::Other,
                };
                let bytes = if kind == EntryKind::File { u64::try_from(data.st_size).unwrap_or(0) } else { 0 };
                Some(DirEntry { name: name.to_string_lossy().into_owned(), kind, bytes })
            })
            .collect();
        entries.sort_by(|left, right| (left.kind, &left.name).cmp(&(right.kind, &right.name)));
        Ok(entries)
    }

    /// Writes a file as a whole, as a new one or instead of an old one: at any moment all of it or nothing is there.
    /// Missing directories are made, and an old file's permissions stay. `expected` is the content that the file must
    /// have before, with `None` in it if the file must not exist.
    ///
    /// # Errors
    /// Any [`PathError`]; then nothing has changed.
    pub fn write(&self, path: &str, bytes: &[u8], expected: Option<Option<&[u8]>>) -> Result<(), PathError> {
        let relative = self.settled(&self.beneath(path)?)?;
        let (parent, name) = (relative.parent().unwrap_or(Path::new("")), relative.file_name());
        let name = name.ok_or(PathError::Directory)?;
        let parent = self.make_directories(parent)?;
        let old = match self.open_in(&parent, Path::new(name), OFlag::O_RDONLY | OFlag::O_NOFOLLOW) {
            Ok(old) => Some(self.checked(File::from(old))?),
            Err(PathError::Missing) => None,
            Err(problem) => return Err(problem),
        };
        let mode = match &old {
            Some(old) => old.metadata().map_err(|error| of_io(&error))?.mode() & 0o7777,
            None => 0o666,
        };
        if let Some(expected) = expected {
            let found = old.as_ref().map(|mut old| {
                let mut found = Vec::new();
                old.read_to_end(&mut found).map(|_| found)
            });
            let found = found.transpose().map_err(|error| of_io(&error))?;
            if found.as_deref() != expected {
                return Err(PathError::Changed);
            }
        }
        replace(&parent, Path::new(name), bytes, mode, old.as_ref())
    }

    /// Deletes a regular file.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn delete(&self, path: &str) -> Result<(), PathError> {
        let relative = self.beneath(path)?;
        drop(self.open_file(&relative)?);
        let name = relative.file_name().ok_or(PathError::Directory)?;
        let parent = relative.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = self.open_beneath(parent, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        Ok(unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Returns a file's path beneath, without links, `.` and `..`, so that two names of a file become one. Neither the
    /// file nor its directories need exist.
    ///
    /// # Errors
    /// Any [`PathError`]; a path that goes up from what isn't there leads outside.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, PathError> {
        let relative = self.beneath(path)?;
        let mut there = self.settled(&relative)?;
        let mut missing = Vec::new();
        loop {
            match self.open_beneath(&there, OFlag::O_PATH) {
                Ok(_) => break,
                Err(PathError::Missing) => {}
                Err(problem) => return Err(problem),
            }
            match there.components().next_back() {
                Some(Component::Normal(name)) => missing.push(name.to_owned()),
                _ => return Err(PathError::Outside),
            }
            there.pop();
        }
        let there = if there.as_os_str().is_empty() { there } else { self.settled(&there)? };
        Ok(missing.iter().rev().fold(there, |path, name| path.join(name)))
    }

    /// Follows the links of a path that exists; returns any other path, and one without links, unchanged.
    fn settled(&self, relative: &Path) -> Result<PathBuf, PathError> {
        if relative.as_os_str().as_bytes().ends_with(b"/") {
            return Err(PathError::Directory);
        }
        match self.open_beneath(relative, OFlag::O_PATH) {
            Ok(found) => self.named(&found),
            Err(PathError::Missing) => Ok(relative.to_owned()),
            Err(problem) => Err(problem),
        }
    }

    /// The path from here of what was opened.
    fn named(&self, found: &OwnedFd) -> Result<PathBuf, PathError> {
        let named = PathBuf::from(readlink(format!("/proc/self/fd/{}", raw(found)).as_str())?);
        named.strip_prefix(&self.path).map(Path::to_owned).map_err(|_| PathError::Outside)
    }

    fn open_file(&self, relative: &Path) -> Result<File, PathError> {
        let file = self.open_beneath(relative, OFlag::O_RDONLY)?;
        self.checked(File::from(file))
    }

    /// Checks an opened file: it must be a regular file whose names are all beneath.
    fn checked(&self, file: File) -> Result<File, PathError> {
        let data = file.metadata().map_err(|error| of_io(&error))?;
        if data.is_dir() {
            return Err(PathError::Directory);
        }
        if !data.is_file() {
            return Err(PathError::NotRegular);
        }
        if data.nlink() > 1 && !self.holds_all_names(&data) {
            return Err(PathError::HardLinks);
        }
        Ok(file)
    }

    /// Returns whether all names of a file lie beneath; in doubt they don't.
    fn holds_all_names(&self, of: &std::fs::Metadata) -> bool {
        let mut found = 0;
        self.each_name(&mut |data| {
            found += u64::from((data.st_dev, data.st_ino) == (of.dev(), of.ino()));
            found >= of.nlink()
        });
        found >= of.nlink()
    }

    /// Visits each name beneath, until `is_enough` returns true or there are too many.
    fn each_name(&self, is_enough: &mut dyn FnMut(&FileStat) -> bool) {
        let mut left = LINKS_SOUGHT_MAX;
        let mut waiting = vec![PathBuf::from(".")];
        while let Some(directory) = waiting.pop() {
            let Ok(dir) = self.open_beneath(&directory, OFlag::O_RDONLY | OFlag::O_DIRECTORY) else { continue };
            let Ok(mut dir) = nix::dir::Dir::from_fd(dir) else { continue };
            let names: Vec<_> = dir.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
            for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
                if left == 0 {
                    return;
                }
                left -= 1;
                let Ok(data) = fstatat(&dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
                if data.st_mode & libc::S_IFMT == libc::S_IFDIR {
                    waiting.push(directory.join(std::ffi::OsStr::from_bytes(name.to_bytes())));
                }
                if is_enough(&data) {
                    return;
                }
            }
        }
    }

    fn open_beneath(&self, relative: &Path, flags: OFlag) -> Result<OwnedFd, PathError> {
        self.open_in(&self.dir, relative, flags)
    }

    fn open_walked(&self, relative: &Path, flags: OFlag) -> Result<OwnedFd, PathError> {
        self.open_with(&self.dir, relative, flags, ResolveFlag::RESOLVE_NO_SYMLINKS)
    }

    /// Opens beneath a directory.
    fn open_in(&self, dir: &OwnedFd, relative: &Path, flags: OFlag) -> Result<OwnedFd, PathError> {
        self.open_with(dir, relative, flags, ResolveFlag::empty())
    }

    /// Opens beneath a directory. It never blocks on a pipe, and never acquires a terminal.
    fn open_with(
        &self,
        dir: &OwnedFd,
        relative: &Path,
        flags: OFlag,
        beside: ResolveFlag,
    ) -> Result<OwnedFd, PathError> {
        let flags = match flags.contains(OFlag::O_PATH) {
            true => flags | OFlag::O_CLOEXEC,
            false => flags | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY,
        };
        let resolve =
            beside | ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_XDEV;
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let mut tries = 0;
        loop {
            match openat2(dir.as_fd(), relative, OpenHow::new().flags(flags).resolve(resolve)) {
                Err(Errno::EAGAIN) if tries < TRIES_MAX => tries += 1,
                other => return Ok(other?),
            }
        }
    }

    /// Opens a directory, and makes its missing parts.
    fn make_directories(&self, relative: &Path) -> Result<OwnedFd, PathError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        match self.open_beneath(relative, flags) {
            Err(PathError::Missing) => {}
            other => return other,
        }
        let mut dir = self.open_beneath(Path::new("."), flags)?;
        for part in relative.components() {
            let name = match part {
                Component::CurDir => continue,
                Component::Normal(name) => Path::new(name),
                // A directory that doesn't exist yet has no parent to return to.
                _ => return Err(PathError::Outside),
            };
            dir = match self.open_in(&dir, name, flags) {
                Err(PathError::Missing) => {
                    match mkdirat(&dir, name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EEXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    self.open_in(&dir, name, flags | OFlag::O_NOFOLLOW)?
                }
                other => other?,
            };
        }
        Ok(dir)
    }
}

/// The number of names beneath a [`Root`] of files with several names: counted once, at the first such file, for the
/// whole walk.
#[derive(Debug, Default)]
pub struct Links {
    counts: OnceLock<HashMap<(u64, u64), u64>>,
}

impl Links {
    /// Returns whether all names of a file lie beneath; in doubt they don't.
    fn hold_all_of(&self, root: &Root, of: &std::fs::Metadata) -> bool {
        let counts = self.counts.get_or_init(|| {
            let mut counts = HashMap::new();
            root.each_name(&mut |data| {
                if data.st_nlink > 1 && data.st_mode & libc::S_IFMT == libc::S_IFREG {
                    *counts.entry((data.st_dev, data.st_ino)).or_insert(0) += 1;
                }
                false
            });
            counts
        });
        counts.get(&(of.dev(), of.ino())).is_some_and(|count| *count >= of.nlink())
    }
}

/// An absolute path without `.` and `..`, by its text alone.
#[must_use]
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            _ => {}
        }
    }
    normal
}

/// Returns the place to which a path leads from a directory, even through dangling links; `None` for a cycle of links. No link is
/// followed in the path of the directory itself: the caller may expect a new one there.
#[must_use]
pub fn end_of(directory: PathBuf, path: &Path) -> Option<PathBuf> {
    /// As many as Linux follows.
    const LINKS_MAX: usize = 40;
    let (mut place, mut links) = (directory, 0);
    let mut rest: Vec<OsString> = reversed(path).collect();
    while let Some(name) = rest.pop() {
        if name == ".." {
            place.pop();
            continue;
        }
        let next = place.join(name);
        let Ok(target) = std::fs::read_link(&next) else {
            place = next;
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return None;
        }
        rest.extend(reversed(&target));
    }
    Some(place)
}

/// The components of a path, the last one first.
fn reversed(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().rev().filter(|it| *it != Component::CurDir).map(|it| it.as_os_str().to_owned())
}

/// Reads a tool's path argument: only a leading `~/` is expanded. `is_there` checks whether an entry has a name that
/// looks like a variable.
///
/// # Errors
/// It can't be a path.
pub fn expanded(path: &str, home: Option<&Path>, is_there: &dyn Fn(&str) -> bool) -> Result<PathBuf, PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    if is_variable(path) && !is_there(path.split('/').next().unwrap_or_default()) {
        return Err(PathError::Variable);
    }
    // `x/.` is the directory `x`, as `x/` is; `components` would lose the dot.
    let path = if path.ends_with("/.") { &path[..path.len() - 1] } else { path };
    let expanded = match path.strip_prefix('~') {
        Some("") => home.ok_or(PathError::Outside)?.to_owned(),
        Some(rest) if rest.starts_with('/') => home.ok_or(PathError::Outside)?.join(rest.trim_start_matches('/')),
        Some(_) => return Err(PathError::Tilde),
        None => PathBuf::from(path),
    };
    let is_long = |part: Component<'_>| part.as_os_str().len() > NAME_BYTES_MAX;
    if expanded.as_os_str().len() > PATH_BYTES_MAX || expanded.components().any(is_long) {
        return Err(PathError::TooLong);
    }
    Ok(expanded)
}

/// Returns whether a path begins with a variable that only a shell expands.
fn is_variable(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('$') else { return false };
    let name = rest.split('/').next().unwrap_or_default();
    rest.starts_with('{') || !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn raw(fd: &OwnedFd) -> i32 {
    use std::os::fd::AsRawFd;
    fd.as_raw_fd()
}

/// Writes a temporary file beside the old one and renames it: atomic, and other hard links keep the old content. The attributes
/// are those of `old`.
fn replace(parent: &OwnedFd, name: &Path, bytes: &[u8], mode: u32, old: Option<&File>) -> Result<(), PathError> {
    let (temporary, mut file) = create_temporary(parent)?;
    let written = file
        .write_all(bytes)
        .map_err(|error| of_io(&error))
        .and_then(|()| {
            let mode = if mode == 0o666 { 0o666 & !umask() } else { mode };
            let mode = old.map_or(mode, |old| keep_attributes(old, &file, mode));
            Ok(fchmod(&file, Mode::from_bits_truncate(mode))?)
        })
        .and_then(|()| file.sync_all().map_err(|error| of_io(&error)))
        .and_then(|()| Ok(renameat(parent, temporary.as_str(), parent, name)?));
    if written.is_err() {
        let _ = unlinkat(parent, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        return written;
    }
    sync(parent);
    Ok(())
}

/// Brings the names in a directory onto the disk. They are there already; that they survive a power cut too isn't worth
/// an error.
fn sync(directory: &OwnedFd) {
    let again = openat2(directory, ".", OpenHow::new().flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC));
    if let Ok(directory) = again {
        let _ = nix::unistd::fsync(&directory);
    }
}

fn create_temporary(parent: &OwnedFd) -> Result<(String, File), PathError> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).mode(Mode::from_bits_truncate(0o600));
    for number in 0..NAMES_TRIED_MAX {
        let name = format!(".reedclaw-{}-{number}.tmp", std::process::id());
        match openat2(parent, name.as_str(), how) {
            Ok(fd) => return Ok((name, File::from(fd))),
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(PathError::System(Errno::EEXIST))
}

/// The process's mask of permissions, read without changing it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o077)
}

#[cfg(test)]
mod tests;
