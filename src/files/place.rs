//! Files, links and directories put in their places one by one: each new content is written into a separate directory
//! first, then renamed. No link is followed on the way. The caller chooses the contents, the places and the order.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::fcntl::{RenameFlags, renameat2};
use nix::unistd::{Gid, Uid, fchown, symlinkat};

use super::survey::Stamp;
use super::*;

/// Flags for creating a file that must not exist.
const NEW: OFlag = OFlag::O_WRONLY.union(OFlag::O_CREAT).union(OFlag::O_EXCL).union(OFlag::O_NOFOLLOW);

/// Rights of single users and groups, beside the mode.
const ACL: &str = "system.posix_acl_access";
/// The rights that files inherit from their directory.
const DEFAULT_ACL: &str = "system.posix_acl_default";
/// The kernel's note on a file that overlayfs has copied, about where it copied it from. It means nothing elsewhere.
const ORIGIN: &str = "user.overlay.origin";
/// Contents that wait in one directory.
const GROUP_MAX: usize = 50;
/// The directory for contents of a copy that were moved here unchanged.
const AS_THEY_WERE: &str = "copy";
/// Longest value of an attribute, and longest list of their names, of Linux.
const ATTRIBUTE_BYTES_MAX: usize = 64 * 1024;

/// A directory beneath a root in which contents wait to be renamed.
#[derive(Debug)]
pub struct Stage<'a> {
    root: &'a Root,
    name: String,
    dir: OwnedFd,
    /// The group of the last content: its directory exists.
    group: AtomicUsize,
    /// The last directory that was searched among those moved here unchanged, with its descriptor if it is one of them.
    last: Mutex<Option<(PathBuf, Option<Arc<OwnedFd>>)>>,
}

/// Paths beneath a root, one after the other: the directory of the last one stays open, since many lie in the same one.
#[derive(Debug)]
pub struct Places<'a> {
    root: &'a Root,
    last: Option<(PathBuf, OwnedFd)>,
}

impl Places<'_> {
    /// The directory that an entry lies in, and the entry's name.
    fn parent<'p>(&mut self, path: &'p Path) -> Result<(&OwnedFd, &'p Path), PathError> {
        let name = path.file_name().ok_or(PathError::Directory)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let opened = match self.last.take() {
            Some((last, opened)) if last == parent => opened,
            _ => self.root.open_walked(parent, OFlag::O_PATH | OFlag::O_DIRECTORY)?,
        };
        Ok((&self.last.insert((parent.to_owned(), opened)).1, Path::new(name)))
    }

    fn data(&mut self, path: &Path) -> Result<Option<FileStat>, PathError> {
        let device = self.root.device;
        let (parent, name) = self.parent(path)?;
        match fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(data) if data.st_dev == device => Ok(Some(data)),
            Ok(_) => Err(PathError::Outside),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Looks at one entry; `None` if it doesn't exist.
    ///
    /// # Errors
    /// Any [`PathError`]; its directory doesn't exist.
    pub fn stamp(&mut self, path: &Path) -> Result<Option<Stamp>, PathError> {
        Ok(self.data(path)?.map(|data| Stamp::of(&data)))
    }

    /// Takes a file or a link away.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn remove(&mut self, path: &Path) -> Result<(), PathError> {
        let (parent, name) = self.parent(path)?;
        Ok(unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)?)
    }
}

impl Root {
    /// Paths beneath it that are visited one after the other.
    #[must_use]
    pub fn places(&self) -> Places<'_> {
        Places { root: self, last: None }
    }

    /// Makes a directory for waiting contents, or opens the existing one.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn staging(&self, name: &str) -> Result<Stage<'_>, PathError> {
        match mkdirat(&self.dir_for_writing()?, name, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let dir = self.open_walked(Path::new(name), OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW)?;
        Ok(Stage { root: self, name: name.to_owned(), dir, group: AtomicUsize::new(0), last: Mutex::default() })
    }

    /// Removes a directory for waiting contents, with everything in it.
    pub fn unstage(&self, name: &str) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let dir = self.open_walked(Path::new(name), flags).and_then(|fd| Ok(nix::dir::Dir::from_fd(fd)?));
        let Ok(mut dir) = dir else { return };
        let names: Vec<_> = dir.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
        for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
            if unlinkat(&dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir) == Err(Errno::EISDIR) {
                let within = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
                let _ = std::fs::remove_dir_all(
                    Path::new(&format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir))).join(within),
                );
            }
        }
        if let Ok(parent) = self.dir_for_writing() {
            let _ = unlinkat(&parent, name, UnlinkatFlags::RemoveDir);
        }
    }

    /// Moves a directory for waiting contents, with what is in it, to a path outside of the root; returns whether that
    /// was possible.
    pub fn move_stage(&self, name: &str, to: &Path) -> bool {
        self.dir_for_writing().is_ok_and(|parent| renameat(&parent, name, AT_FDCWD, to).is_ok())
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn make_directory(&self, path: &Path, mode: u32) -> Result<(), PathError> {
        let (parent, name) = self.parent(path)?;
        mkdirat(&parent, name, Mode::S_IRWXU)?;
        self.set_mode(path, mode)
    }

    /// Removes an empty directory; returns whether it was empty.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn remove_directory(&self, path: &Path) -> Result<bool, PathError> {
        let (parent, name) = self.parent(path)?;
        match unlinkat(&parent, name, UnlinkatFlags::RemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes a file or a link away.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn remove(&self, path: &Path) -> Result<(), PathError> {
        let (parent, name) = self.parent(path)?;
        Ok(unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Brings the names in a directory onto the disk.
    pub fn sync_directory(&self, path: &Path) {
        if let Ok(found) = self.open_walked(path, OFlag::O_PATH | OFlag::O_DIRECTORY) {
            sync(&found);
        }
    }

    /// Returns whether its renames and changes below `other` reach the disk in the order in which they were made: both
    /// are metadata of one file system with one journal for all of it. A power cut then loses the later ones first.
    #[must_use]
    pub fn shares_journal(&self, other: &Path) -> bool {
        /// `f_type` of ext4 and xfs (statfs(2)). Btrfs isn't included: syncing a file writes only that file.
        const EXT4: u64 = 0xef53;
        const XFS: u64 = 0x5846_5342;
        let kind = rustix::fs::fstatfs(&self.dir).map_or(0, |data| data.f_type.cast_unsigned());
        (kind == XFS || kind == EXT4 && has_journal(self.device))
            && std::fs::metadata(other).is_ok_and(|data| data.dev() == self.device)
    }

    /// Begins to bring everything of this file system onto the disk, and waits for nothing: a later sync has less to do.
    pub fn begin_sync(&self) {
        if let Ok(dir) = self.open_walked(Path::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
            std::thread::spawn(move || nix::unistd::syncfs(&dir));
        }
    }

    /// Returns whether a new entry at a path gets no group and no rights from its directory.
    #[must_use]
    pub fn gives_nothing_to(&self, path: &Path) -> bool {
        let Ok((parent, _)) = self.parent(path) else { return false };
        nix::sys::stat::fstat(&parent).is_ok_and(|data| data.st_mode & libc::S_ISGID == 0)
            && acl(&named(&parent, Path::new(".")), DEFAULT_ACL).is_none()
    }

    /// Sets the permission bits of a directory or a file.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn set_mode(&self, path: &Path, mode: u32) -> Result<(), PathError> {
        let found = self.open_walked(path, OFlag::O_PATH | OFlag::O_NOFOLLOW)?;
        // Names the opened entry: a descriptor of a path alone can't set a mode.
        let named = format!("/proc/self/fd/{}", raw(&found));
        if Stamp::of(&nix::sys::stat::fstat(&found)?).is_link() {
            return Err(PathError::NotRegular);
        }
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode & 0o7777);
        std::fs::set_permissions(named, permissions).map_err(|error| of_io(&error))
    }

    /// Returns the permission bits for a file that replaces the removed one at `path`, whose bits were `mode` and whose access
    /// list is lost.
    #[must_use]
    pub fn mode_without_acl(&self, path: &Path, mode: u32) -> u32 {
        let list = self.parent(path).ok().and_then(|(dir, name)| acl(&named(&dir, name), ACL));
        list.map_or(mode, |list| without_mask(&list, mode))
    }

    /// The directory that an entry lies in, and the entry's name.
    fn parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p Path), PathError> {
        let name = path.file_name().ok_or(PathError::Directory)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let parent = self.open_walked(parent, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        Ok((parent, Path::new(name)))
    }

    fn dir_for_writing(&self) -> Result<OwnedFd, PathError> {
        self.open_walked(Path::new("."), OFlag::O_PATH | OFlag::O_DIRECTORY)
    }
}

/// Returns whether the ext4 of a device has an internal journal, which is optional. If the kernel doesn't show that, the answer
/// is no.
fn has_journal(device: u64) -> bool {
    let numbers = format!("{}:{}", libc::major(device), libc::minor(device));
    let shown = std::fs::read_link(Path::new("/sys/dev/block").join(numbers));
    let name = shown.ok().and_then(|it| it.file_name()?.to_str().map(|name| format!("{name}-8")));
    name.is_some_and(|name| Path::new("/proc/fs/jbd2").join(name).exists())
}

impl Stage<'_> {
    /// Writes a new content into the waiting directory; it gets the owner of the present entry at `place`, if that is
    /// allowed.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn file(
        &self,
        number: usize,
        bytes: &[u8],
        mode: u32,
        place: &Path,
        places: &mut Places<'_>,
    ) -> Result<(), PathError> {
        let mut file = self.new_file(number)?;
        file.write_all(bytes).map_err(|error| of_io(&error))?;
        let mode = self.keep_acl(number, &file, mode, place, places)?;
        self.finish(number, mode, place, places)
    }

    /// Takes over a file that lies at `source`, on whatever file system, as one that waits; else as [`Stage::file`]. `is_ready`
    /// says that it has that mode and owner already, and no attributes.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn take(
        &self,
        number: usize,
        source: &Path,
        mode: u32,
        is_ready: bool,
        place: &Path,
        places: &mut Places<'_>,
    ) -> Result<(), PathError> {
        match renameat(AT_FDCWD, source, &self.dir, self.room(number)?.as_str()) {
            Err(Errno::EXDEV) => {
                let from = File::open(source).map_err(|error| of_io(&error))?;
                let file = self.new_file(number)?;
                super::holes::copy(&from, &file).map_err(|error| of_io(&error))?;
                let mode = self.keep_acl(number, &file, mode, place, places)?;
                return self.finish(number, mode, place, places);
            }
            renamed => {
                renamed?;
                if is_ready {
                    return Ok(());
                }
                // Most files have none, and a file system may not support attributes.
                let _ = rustix::fs::lremovexattr(self.waiting(number), ORIGIN);
                self.settle_acl(number, place, places)?;
            }
        }
        self.finish(number, mode, place, places)
    }

    /// Moves a directory at `source` here, with everything in it; returns whether that was possible.
    #[must_use]
    pub fn take_directory(&self, number: usize, source: &Path) -> bool {
        self.room(number).is_ok_and(|name| renameat(AT_FDCWD, source, &self.dir, name.as_str()).is_ok())
    }

    /// Moves a directory at `source` here, with everything in it, for an existing directory at `path`: each file in it waits at
    /// its own path, and is placed independently of the others. Returns whether that was possible.
    #[must_use]
    pub fn take_files(&self, path: &Path, source: &Path) -> bool {
        let to = Path::new(AS_THEY_WERE).join(path);
        let mut above: Vec<&Path> = to.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()).collect();
        above.reverse();
        above.into_iter().for_each(|path| {
            let _ = mkdirat(&self.dir, path, Mode::S_IRWXU);
        });
        *self.last.lock() = None;
        renameat(AT_FDCWD, source, &self.dir, &to).is_ok()
    }

    /// Returns the directory in which a file waits at its own path, if its directory was moved here unchanged.
    fn came(&self, path: &Path) -> Option<Arc<OwnedFd>> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let mut last = self.last.lock();
        if let Some((_, came)) = last.as_ref().filter(|(last, _)| last.as_os_str() == parent.as_os_str()) {
            return came.clone();
        }
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let within = Path::new(AS_THEY_WERE).join(parent);
        let came = self.root.open_with(&self.dir, &within, flags, ResolveFlag::RESOLVE_NO_SYMLINKS).ok().map(Arc::new);
        last.insert((parent.to_owned(), came)).1.clone()
    }

    /// Sets the access list of a new waiting file to that of the present entry at its place, and returns the permission bits for
    /// it.
    fn keep_acl(
        &self,
        number: usize,
        file: &File,
        mode: u32,
        place: &Path,
        places: &mut Places<'_>,
    ) -> Result<u32, PathError> {
        if places.data(place).ok().flatten().is_none() {
            return self.settle_acl(number, place, places).map(|()| mode);
        }
        let (dir, name) = places.parent(place)?;
        Ok(set_acl(file, acl(&named(dir, name), ACL).as_deref(), mode))
    }

    /// Removes rights of single users and groups from a waiting file that the present entry at its place doesn't grant, or, for a
    /// new file, its directory: neither the mode nor the difference shows them.
    fn settle_acl(&self, number: usize, place: &Path, places: &mut Places<'_>) -> Result<(), PathError> {
        let waiting = self.waiting(number);
        let Some(own) = acl(&waiting, ACL) else { return Ok(()) };
        let is_new = places.data(place).ok().flatten().is_none();
        let (present, rights) = match places.parent(place) {
            Ok((dir, _)) if is_new => (None, acl(&named(dir, Path::new(".")), DEFAULT_ACL)),
            Ok((dir, name)) => {
                let present = acl(&named(dir, name), ACL);
                (present.clone(), present)
            }
            // A directory that is applied first.
            Err(PathError::Missing) => (None, None),
            Err(error) => return Err(error),
        };
        let rights: Vec<&[u8]> = rights.iter().flat_map(|list| rights_by_name(list)).collect();
        if rights_by_name(&own).all(|right| rights.contains(&right)) {
            return Ok(());
        }
        let changed = match present {
            Some(present) => rustix::fs::lsetxattr(&waiting, ACL, &present, rustix::fs::XattrFlags::empty()),
            None => rustix::fs::lremovexattr(&waiting, ACL),
        };
        changed.map_err(|error| of_io(&error.into()))
    }

    /// Makes the directory of a new waiting content, and returns the content's name.
    fn room(&self, number: usize) -> Result<String, PathError> {
        let group = number / GROUP_MAX;
        if group > 0 && self.group.load(Ordering::Relaxed) != group {
            match mkdirat(&self.dir, group_name(group).as_str(), Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => self.group.store(group, Ordering::Relaxed),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(waiting_name(number))
    }

    /// A path to a waiting file.
    fn waiting(&self, number: usize) -> PathBuf {
        named(&self.dir, Path::new(&waiting_name(number)))
    }

    fn new_file(&self, number: usize) -> Result<File, PathError> {
        let name = self.room(number)?;
        let _ = unlinkat(&self.dir, name.as_str(), UnlinkatFlags::NoRemoveDir);
        let how = OpenHow::new().flags(NEW | OFlag::O_CLOEXEC).mode(Mode::from_bits_truncate(0o600));
        Ok(File::from(openat2(&self.dir, name.as_str(), how)?))
    }

    /// Sets the mode of a waiting file, and the owner to that of the present entry at its place, if they differ.
    fn finish(&self, number: usize, mode: u32, place: &Path, places: &mut Places<'_>) -> Result<(), PathError> {
        let name = waiting_name(number);
        let data = fstatat(&self.dir, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if !Stamp::of(&data).is_file() {
            return Err(PathError::NotRegular);
        }
        let owner = |data: &FileStat| (data.st_uid, data.st_gid);
        let wanted = places.data(place).ok().flatten().map(|old| owner(&old)).filter(|it| *it != owner(&data));
        if wanted.is_none() && data.st_mode & 0o7777 == mode & 0o7777 {
            return Ok(());
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = File::from(self.opened_for_owner(&name, flags)?);
        if let Some((user, group)) = wanted {
            // Only root may change the owner; other users write files of their own.
            let _ = fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        }
        Ok(fchmod(&file, Mode::from_bits_truncate(mode & 0o7777))?)
    }

    /// Brings one waiting file onto the disk.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn sync(&self, number: usize) -> Result<(), PathError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat2(&self.dir, waiting_name(number).as_str(), OpenHow::new().flags(flags)) {
            Ok(file) => File::from(file).sync_all().map_err(|error| of_io(&error)),
            // Its mode forbids reading.
            Err(Errno::EACCES) => self.sync_all(),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a waiting file that its owner may not be able to read.
    fn opened_for_owner(&self, name: &str, flags: OFlag) -> Result<OwnedFd, PathError> {
        match openat2(&self.dir, name, OpenHow::new().flags(flags)) {
            Err(Errno::EACCES) => {
                let mode = Mode::S_IRUSR | Mode::S_IWUSR;
                nix::sys::stat::fchmodat(&self.dir, name, mode, nix::sys::stat::FchmodatFlags::FollowSymlink)?;
                Ok(openat2(&self.dir, name, OpenHow::new().flags(flags))?)
            }
            other => Ok(other?),
        }
    }

    /// Brings everything of this file system onto the disk.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn sync_all(&self) -> Result<(), PathError> {
        Ok(nix::unistd::syncfs(&self.dir)?)
    }

    /// Makes a link that waits.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn link(&self, number: usize, target: &[u8]) -> Result<(), PathError> {
        let name = self.room(number)?;
        let _ = unlinkat(&self.dir, name.as_str(), UnlinkatFlags::NoRemoveDir);
        Ok(symlinkat(target, &self.dir, name.as_str())?)
    }

    /// Returns whether the content for a path waits.
    #[must_use]
    pub fn holds(&self, number: usize, path: &Path) -> bool {
        let is_in = |dir: &OwnedFd, name: &Path| fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
        let came = self.came(path).zip(path.file_name());
        came.is_some_and(|(dir, name)| is_in(&dir, Path::new(name)))
            || is_in(&self.dir, Path::new(&waiting_name(number)))
    }

    /// Brings a content to its place, over the file or link that is there. `is_new` says that none is.
    ///
    /// # Errors
    /// Any [`PathError`]; [`PathError::Changed`] if something is at a place that should be free.
    pub fn place(&self, number: usize, path: &Path, is_new: bool, places: &mut Places<'_>) -> Result<(), PathError> {
        let flags = if is_new { RenameFlags::RENAME_NOREPLACE } else { RenameFlags::empty() };
        match self.rename(number, path, flags, places) {
            // Not every file system supports a rename that refuses to replace.
            Err(PathError::System(Errno::EINVAL | Errno::ENOSYS)) if is_new => {
                self.rename(number, path, RenameFlags::empty(), places)
            }
            Err(PathError::System(Errno::EEXIST)) => Err(PathError::Changed),
            renamed => renamed,
        }
    }

    /// Does the same, but the present entry becomes the waiting one. Not every file system supports that.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn exchange(&self, number: usize, path: &Path, places: &mut Places<'_>) -> Result<(), PathError> {
        self.rename(number, path, RenameFlags::RENAME_EXCHANGE, places)
    }

    fn rename(&self, number: usize, path: &Path, flags: RenameFlags, places: &mut Places<'_>) -> Result<(), PathError> {
        let (parent, name) = places.parent(path)?;
        let renamed = self.came(path).map(|dir| renameat2(&dir, name, parent, name, flags));
        match renamed {
            None | Some(Err(Errno::ENOENT)) => {
                renameat2(&self.dir, waiting_name(number).as_str(), parent, name, flags)?;
            }
            Some(renamed) => renamed?,
        }
        Ok(())
    }

    /// Takes a file or a link away from its place; it waits here.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn put_away(&self, number: usize, path: &Path, places: &mut Places<'_>) -> Result<(), PathError> {
        let (parent, name) = places.parent(path)?;
        Ok(renameat(parent, name, &self.dir, self.room(number)?.as_str())?)
    }

    /// Returns the content of the file or link that waits for a path.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn held(&self, number: usize, path: &Path, bytes_max: u64) -> Result<(Stamp, Vec<u8>), PathError> {
        let held = |within: &Path| self.root.held(&Path::new(&self.name).join(within), bytes_max);
        held(&Path::new(AS_THEY_WERE).join(path)).or_else(|_| held(Path::new(&waiting_name(number))))
    }

    /// Removes a file that was moved here with its directory and isn't the intended one for its path.
    pub fn drop_unfit(&self, path: &Path) {
        if let Some((dir, name)) = self.came(path).zip(path.file_name()) {
            let _ = unlinkat(&dir, Path::new(name), UnlinkatFlags::NoRemoveDir);
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The name of a waiting content. Thousands of renames into one directory take longer than into several.
fn waiting_name(number: usize) -> String {
    match number / GROUP_MAX {
        0 => number.to_string(),
        group => format!("{}/{number}", group_name(group)),
    }
}

fn group_name(group: usize) -> String {
    format!("{group}.d")
}

/// A path to an entry of an open directory.
fn named(dir: &OwnedFd, name: &Path) -> PathBuf {
    Path::new(&format!("/proc/self/fd/{}", raw(dir))).join(name)
}

/// A list of access of an entry, if it has one.
fn acl(entry: &Path, kind: &str) -> Option<Vec<u8>> {
    attribute(|value| rustix::fs::lgetxattr(entry, kind, value))
}

/// Reads an attribute, or the names of all.
fn attribute(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> Option<Vec<u8>> {
    let mut few = [0_u8; 256];
    match read(&mut few) {
        Ok(length) => Some(few[..length].to_vec()),
        Err(rustix::io::Errno::RANGE) => {
            let mut value = vec![0_u8; ATTRIBUTE_BYTES_MAX];
            let length = read(&mut value).ok()?;
            value.truncate(length);
            Some(value)
        }
        Err(_) => None,
    }
}

/// Takes the note of overlayfs from an open file. Returns whether the file has no access list then, and no attributes but the
/// kernel's own; a file system may have none.
#[must_use]
pub fn is_plain(file: &File) -> bool {
    let mut names = [0_u8; 256];
    match rustix::fs::flistxattr(file, &mut names[..]) {
        Ok(length) => {
            let names = names[..length].split(|byte| *byte == 0);
            let mut others = names.filter(|name| !name.is_empty() && !name.starts_with(b"security."));
            others.all(|name| name == ORIGIN.as_bytes() && rustix::fs::fremovexattr(file, ORIGIN).is_ok())
        }
        Err(error) => error == rustix::io::Errno::NOTSUP,
    }
}

/// Copies the access list and the `user.` attributes of the replaced file to a new one. Returns the permission bits for it.
pub(super) fn keep_attributes(old: &File, new: &File, mode: u32) -> u32 {
    let no_flags = rustix::fs::XattrFlags::empty();
    let names = attribute(|value| rustix::fs::flistxattr(old, value)).unwrap_or_default();
    for name in names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        if let Some(value) = attribute(|value| rustix::fs::fgetxattr(old, name, value)) {
            // Attributes of the user's aren't worth an error.
            let _ = rustix::fs::fsetxattr(new, name, &value, no_flags);
        }
    }
    set_acl(new, attribute(|value| rustix::fs::fgetxattr(old, ACL, value)).as_deref(), mode)
}

/// Sets or removes the access list of a new file. Returns the permission bits for it: while there is a list, those of the group
/// are a mask, so that without it the group would gain what the mask allows to others.
fn set_acl(file: &File, list: Option<&[u8]>, mode: u32) -> u32 {
    match list {
        Some(list) if rustix::fs::fsetxattr(file, ACL, list, rustix::fs::XattrFlags::empty()).is_err() => {
            without_mask(list, mode)
        }
        Some(_) => mode,
        None => {
            // Inherited from the directory; most files have none, and a file system may have no lists.
            let _ = rustix::fs::fremovexattr(file, ACL);
            mode
        }
    }
}

/// Returns the permission bits without an access list: the group has what its own entry allows (`ACL_GROUP_OBJ` of
/// linux/posix_acl.h).
fn without_mask(list: &[u8], mode: u32) -> u32 {
    let mut entries = list.get(4..).unwrap_or_default().chunks_exact(8);
    let group = entries.find(|entry| entry[0] == 4).map_or(0, |entry| u32::from(entry[2] & 7) << 3);
    mode & (group | !0o070)
}

/// The entries of a list of access that name a user or a group: after a version of four bytes each entry has eight, of which
/// the first is its kind (`ACL_USER` and `ACL_GROUP` of linux/posix_acl.h).
fn rights_by_name(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.get(4..).unwrap_or_default().chunks(8).filter(|entry| matches!(entry[0], 2 | 8))
}
