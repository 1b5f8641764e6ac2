//! The files of a bench: a directory, alone or over a tree that is written out and doesn't change. The directory's entries hide
//! those below; a deleted name is marked as overlayfs does it.

use parking_lot::Mutex;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags};
use nix::sys::stat::{Mode as Bits, SFlag, mknod};

use super::bench::open_ours;
use super::rules::may_hold_secrets;
use crate::files::{Looked, OPAQUE, PathError, Root, SurveyEnd, SurveyLimits, holes};
use crate::git::Mode;

/// Entries of a directory that is copied.
const COPY_ENTRIES_MAX: usize = 1_000_000;
/// Maximum time of such a copy.
const COPY_MAX: Duration = Duration::from_mins(10);

/// A directory in which a bench's files are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer<'a> {
    /// The directory.
    pub(super) top: &'a Path,
    /// The tree below it.
    pub(super) below: Option<&'a Path>,
    /// True if moved files stay at their source as well.
    pub(super) copies: bool,
}

/// Returns whether a directory can hide what lies below it: not every file system and not every kernel lets an ordinary
/// user mark it.
pub(super) fn can_hide(place: &Path) -> bool {
    let trial = place.with_extension("trial");
    let tried = fs::create_dir(&trial).and_then(|()| whiteout(&trial.join("gone"))).and_then(|()| hide(&trial));
    let _ = fs::remove_dir_all(&trial);
    tried.is_ok()
}

fn whiteout(path: &Path) -> io::Result<()> {
    mknod(path, SFlag::S_IFCHR, Bits::empty(), 0).map_err(io::Error::from)
}

fn hide(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::lsetxattr(directory, OPAQUE, b"y", rustix::fs::XattrFlags::empty())?)
}

impl Layer<'_> {
    fn is_below(&self, path: &Path) -> bool {
        self.below.is_some_and(|below| below.join(path).symlink_metadata().is_ok())
    }

    /// Removes the contents of the directory, which itself stays, since others hold it open.
    pub(super) fn clear(&self) -> io::Result<()> {
        let entries = match fs::read_dir(self.top) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            self.vacate(Path::new(&entry?.file_name()))?;
        }
        Ok(())
    }

    /// Makes directories; anything else on the way is removed. No other process writes there meanwhile.
    pub(super) fn make_directories(&self, path: &Path) -> io::Result<()> {
        let (mut at, mut relative) = (self.top.to_owned(), PathBuf::new());
        for part in path.iter() {
            at.push(part);
            relative.push(part);
            let is_new = match at.symlink_metadata() {
                Ok(data) if data.is_dir() => continue,
                Ok(_) => {
                    fs::remove_file(&at)?;
                    true
                }
                Err(_) => false,
            };
            fs::create_dir(&at)?;
            // The removed entry, or the mark of a deleted name, has hidden the directory below.
            if is_new && self.is_below(&relative) {
                hide(&at)?;
            }
        }
        Ok(())
    }

    /// Removes the entry at a path; a link on the way isn't followed.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut at = self.top.to_owned();
        for part in path.parent().unwrap_or(Path::new("")).iter() {
            at.push(part);
            match at.symlink_metadata() {
                Ok(data) if data.is_dir() => {}
                // A file, a link, or the mark that nothing is there.
                Ok(_) => return Ok(()),
                Err(_) => break,
            }
        }
        self.vacate(path)?;
        if self.is_below(path) {
            self.make_directories(path.parent().unwrap_or(Path::new("")))?;
            whiteout(&self.top.join(path))?;
        }
        Ok(())
    }

    /// Removes a directory, and those that hold it, as far as nothing shows in them and `stays` doesn't name them.
    pub(super) fn remove_empty(&self, path: &Path, stays: impl Fn(&Path) -> bool) -> io::Result<()> {
        for directory in path.ancestors().take_while(|it| *it != Path::new("")) {
            if stays(directory) || !self.is_empty(directory)? {
                break;
            }
            self.remove(directory)?;
        }
        Ok(())
    }

    /// Returns whether a directory exists and shows nothing.
    fn is_empty(&self, path: &Path) -> io::Result<bool> {
        let (top, below) = (self.top.join(path), self.below.map(|it| it.join(path)));
        let names = |directory: &Path| -> io::Result<Vec<_>> {
            let entries = fs::read_dir(directory)?;
            entries.map(|entry| Ok(entry?.file_name())).collect()
        };
        let (mut gone, mut hides) = (Vec::new(), false);
        match top.symlink_metadata() {
            Ok(data) if data.is_dir() => {
                for name in names(&top)? {
                    if !top.join(&name).symlink_metadata()?.file_type().is_char_device() {
                        return Ok(false);
                    }
                    gone.push(name);
                }
                hides = rustix::fs::lgetxattr(&top, OPAQUE, &mut [0_u8; 1][..]).is_ok();
            }
            Ok(_) => return Ok(false),
            Err(_) => {}
        }
        match below.filter(|it| !hides && it.is_dir()) {
            Some(below) => Ok(names(&below)?.iter().all(|name| gone.contains(name))),
            None => Ok(top.is_dir()),
        }
    }

    /// Removes the directory's own entry at a path.
    fn vacate(&self, path: &Path) -> io::Result<()> {
        let target = self.top.join(path);
        match target.symlink_metadata() {
            Ok(data) if data.is_dir() => fs::remove_dir_all(&target),
            Ok(_) => fs::remove_file(&target),
            Err(_) => Ok(()),
        }
    }

    /// Puts a file, a link or an empty directory at a path.
    pub(super) fn put(&self, path: &Path, mode: Mode, bytes: &[u8]) -> io::Result<()> {
        let target = self.top.join(path);
        self.make_directories(path.parent().unwrap_or(Path::new("")))?;
        match mode {
            Mode::Submodule | Mode::Directory => {
                self.remove(path)?;
                self.make_directories(path)
            }
            mode => {
                self.vacate(path)?;
                write(&target, mode, bytes)
            }
        }
    }

    /// Moves a file to a path; returns its length. One of another file system is copied, with its holes: one of 2 GiB may
    /// be almost empty.
    pub(super) fn take(&self, path: &Path, source: &Path, bits: u32) -> io::Result<u64> {
        let target = self.top.join(path);
        self.make_directories(path.parent().unwrap_or(Path::new("")))?;
        if self.copies {
            self.vacate(path)?;
            copy_file(source, &target)?;
        // All but a directory is replaced by the move itself.
        } else if !changes_places(source, &target) && fs::rename(source, &target).is_err() {
            self.vacate(path)?;
            if fs::rename(source, &target).is_err() {
                copy_file(source, &target)?;
            }
        }
        let data = target.symlink_metadata()?;
        if data.permissions().mode() & 0o7777 != bits & 0o777 {
            fs::set_permissions(&target, fs::Permissions::from_mode(bits & 0o777))?;
        }
        Ok(data.len())
    }

    /// Moves a new directory, with the files and directories in it, to a path at which nothing shows.
    pub(super) fn take_directory(&self, path: &Path, source: &Path) -> io::Result<()> {
        self.make_directories(path.parent().unwrap_or(Path::new("")))?;
        // The mark of a deleted name.
        self.vacate(path)?;
        let target = self.top.join(path);
        if self.copies || fs::rename(source, &target).is_err() {
            return self.take_each(path, source);
        }
        if self.is_below(path) { hide(&target) } else { Ok(()) }
    }

    /// The same for a directory of another file system.
    fn take_each(&self, path: &Path, source: &Path) -> io::Result<()> {
        self.make_directories(path)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            let (path, data) = (path.join(entry.file_name()), entry.metadata()?);
            if data.is_dir() {
                self.take_each(&path, &entry.path())?;
            } else if data.is_file() {
                self.take(&path, &entry.path(), data.permissions().mode())?;
            }
        }
        Ok(())
    }
}

/// Copies a directory beneath `from`, with the files, directories and links in it, to the same path beneath `top`. Files that may
/// hold secrets, those that may not be read, and what lies on another file system are left out. No link is followed.
///
/// # Errors
/// It can't be written, or it is larger than [`COPY_ENTRIES_MAX`], or takes longer than [`COPY_MAX`].
pub(super) fn copy_directory(from: &Root, path: &Path, top: &Path) -> io::Result<()> {
    let failure = Mutex::new(None);
    let limits = SurveyLimits { entries_max: COPY_ENTRIES_MAX, deadline: Instant::now() + COPY_MAX };
    let end = from.survey(limits, &|looked| {
        let is_on_the_way = path != looked.path && path.starts_with(looked.path);
        let next = path.strip_prefix(looked.path).ok().and_then(|rest| rest.iter().next());
        let is_wanted = |name: &[u8]| !is_on_the_way || next.is_some_and(|it| it.as_bytes() == name);
        let copied = if is_on_the_way { Ok(()) } else { copy_entries(from, &looked, top) };
        if let Err(error) = copied {
            *failure.lock() = Some(error);
            return Vec::new();
        }
        let below = looked.entries.into_iter().filter(|it| it.stamp.is_directory() && is_wanted(&it.name));
        below.map(|it| it.name).collect()
    });
    match (failure.into_inner(), end) {
        (Some(error), _) => Err(error),
        (None, SurveyEnd::Whole) => Ok(()),
        (None, SurveyEnd::Entries) => Err(io::Error::other(format!("{} has too many files", path.display()))),
        (None, SurveyEnd::Time) => Err(io::Error::other(format!("copying {} took too long", path.display()))),
    }
}

/// Copies the files and links of one directory, and makes the directory.
fn copy_entries(from: &Root, looked: &Looked<'_>, top: &Path) -> io::Result<()> {
    let directory = top.join(looked.path);
    fs::create_dir_all(&directory)?;
    for entry in &looked.entries {
        let name = OsStr::from_bytes(&entry.name);
        let (path, target) = (looked.path.join(name), directory.join(name));
        if entry.stamp.is_link() {
            let (_, place) = from.held(&path, u64::MAX).map_err(io::Error::other)?;
            symlink(OsStr::from_bytes(&place), target)?;
        } else if entry.stamp.is_file() && !may_hold_secrets(&path) {
            let mut source = match from.open_entry(&path) {
                Err(PathError::System(Errno::EACCES) | PathError::Missing | PathError::NotRegular) => continue,
                source => source.map_err(io::Error::other)?,
            };
            let bits = entry.stamp.permissions() & 0o777;
            let mut target = OpenOptions::new().write(true).create_new(true).mode(bits | 0o200).open(target)?;
            io::copy(&mut source, &mut target)?;
        }
    }
    Ok(())
}

/// Exchanges a file with the one at its target, unless that is a directory or doesn't exist; returns whether it did. The old file
/// is removed with the copy: a move that replaces it would make the file system write the new content at once.
fn changes_places(source: &Path, target: &Path) -> bool {
    target.symlink_metadata().is_ok_and(|data| !data.is_dir())
        && nix::fcntl::renameat2(AT_FDCWD, source, AT_FDCWD, target, RenameFlags::RENAME_EXCHANGE).is_ok()
}

/// Copies a file to a path at which nothing is.
fn copy_file(source: &Path, target: &Path) -> io::Result<()> {
    holes::copy(&open_ours(source)?, &OpenOptions::new().write(true).create_new(true).open(target)?)
}

/// Writes a file, a link or an empty directory at a free path.
pub(super) fn write(target: &Path, mode: Mode, bytes: &[u8]) -> io::Result<()> {
    match mode {
        Mode::Link => symlink(OsStr::from_bytes(bytes), target),
        Mode::Submodule | Mode::Directory => fs::create_dir(target),
        Mode::File | Mode::Executable => {
            let bits = if mode == Mode::Executable { 0o755 } else { 0o644 };
            OpenOptions::new().write(true).create_new(true).mode(bits).open(target)?.write_all(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_moved_to_a_name_that_was_gone_hides_what_is_below() {
        let dir = crate::git::in_memory();
        let [top, below, source] = ["top", "below", "source"].map(|name| dir.path().join(name));
        for (at, file) in [(&below, "a/old"), (&below, "keep"), (&source, "deep/new")] {
            fs::create_dir_all(at.join(file).parent().expect("a parent")).expect("a directory");
            fs::write(at.join(file), "").expect("a file");
        }
        fs::create_dir(&top).expect("a directory");
        let layer = Layer { top: &top, below: Some(&below), copies: false };
        layer.remove(Path::new("a")).expect("gone");
        layer.take_directory(Path::new("a"), &source).expect("moved");
        assert!(crate::files::is_opaque(&top.join("a")) && top.join("a/deep/new").exists());
        let layers = crate::files::Layers::open([&*top, &*below]).expect("both are there");
        let shows = |path: &str| layers.stamp(Path::new(path)).expect("looked at").is_some();
        assert_eq!(["a/deep/new", "a/old", "keep"].map(shows), [true, false, true]);
        // One of another file system is copied file by file.
        fs::create_dir_all(source.join("x")).expect("a directory");
        fs::write(source.join("x/y"), "").expect("a file");
        layer.take_each(Path::new("b"), &source).expect("moved");
        assert!(top.join("b/x/y").exists());
    }
}
