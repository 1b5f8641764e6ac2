//! Every entry beneath a directory, examined but not opened, by several threads. No link is followed, no other file
//! system entered. The caller receives each directory as a whole and chooses which of its subdirectories to enter.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;

/// Maximum number of threads; more would wait for each other.
const THREADS_MAX: usize = 8;
/// Number of entries of one directory that a thread examines before another thread is worth starting.
const ENTRIES_ALONE_MAX: usize = 16_384;
/// Directories that wait, from which on further threads are worth their start.
const WAITING_MIN: usize = 16;

/// The system's facts about one entry, without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Kind and permission bits.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// The inode.
    pub inode: u64,
    /// Time when the content was last changed, in nanoseconds of Unix time.
    pub modified_ns: i64,
    /// Time when anything about it was last changed.
    pub changed_ns: i64,
}

/// The content of a regular file, with the facts of just before it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFile {
    /// The file's stamp.
    pub stamp: Stamp,
    /// User and group.
    pub owner: (u32, u32),
    /// The content.
    pub bytes: Vec<u8>,
}

impl Stamp {
    pub(super) fn of(data: &FileStat) -> Self {
        let ns = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns);
        Self {
            mode: data.st_mode,
            size: u64::try_from(data.st_size).unwrap_or(0),
            inode: data.st_ino,
            modified_ns: ns(data.st_mtime, data.st_mtime_nsec),
            changed_ns: ns(data.st_ctime, data.st_ctime_nsec),
        }
    }

    fn is(&self, kind: u32) -> bool {
        self.mode & libc::S_IFMT == kind
    }

    /// Returns whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.is(libc::S_IFDIR)
    }

    /// Returns whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.is(libc::S_IFREG)
    }

    /// Returns whether it is a symbolic link.
    #[must_use]
    pub fn is_link(&self) -> bool {
        self.is(libc::S_IFLNK)
    }

    /// Its permission bits.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// One entry of an examined directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: Box<[u8]>,
    /// The system's facts about it.
    pub stamp: Stamp,
}

/// One examined directory.
#[derive(Debug)]
pub struct Looked<'a> {
    /// Its path from the root.
    pub path: &'a Path,
    /// Its entries by name, those apart that lie on another file system.
    pub entries: Vec<Seen>,
    /// Names of those on another file system.
    pub elsewhere: Vec<Box<[u8]>>,
    /// `true` if it couldn't be read.
    pub is_closed: bool,
}

/// The limits of a survey.
#[derive(Clone, Copy, Debug)]
pub struct SurveyLimits {
    /// Entries.
    pub entries_max: usize,
    /// Deadline.
    pub deadline: Instant,
}

/// Reason why a survey isn't whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyEnd {
    /// All of it was seen.
    Whole,
    /// There are more entries than wanted.
    Entries,
    /// Took too long.
    Time,
}

/// Directories that wait, and the number of those being examined.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<PathBuf>,
    at_work: usize,
}

impl Root {
    /// Examines everything beneath. `visit` is called once for each directory, in a large tree by several threads; it returns the
    /// names of the subdirectories to examine.
    pub fn survey(&self, limits: SurveyLimits, visit: &(dyn Fn(Looked<'_>) -> Vec<Box<[u8]>> + Sync)) -> SurveyEnd {
        let queue = Mutex::new(Queue { waiting: VecDeque::from([PathBuf::new()]), at_work: 0 });
        let (more, left, end) = (Condvar::new(), AtomicUsize::new(limits.entries_max), Mutex::new(SurveyEnd::Whole));
        let lock = || queue.lock();
        // With `is_shared`, it continues until everything is examined, otherwise until there is enough work for more threads.
        let work = |is_shared: bool| {
            let mut held = lock();
            loop {
                if !is_shared && held.waiting.len() >= WAITING_MIN {
                    return;
                }
                let Some(path) = held.waiting.pop_front() else {
                    if held.at_work == 0 {
                        more.notify_all();
                        return;
                    }
                    more.wait(&mut held);
                    continue;
                };
                held.at_work += 1;
                drop(held);
                let looked = self.look_into(&path);
                let count = looked.entries.len() + 1;
                let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count));
                let stop = match before {
                    Err(_) => Some(SurveyEnd::Entries),
                    Ok(_) if Instant::now() > limits.deadline => Some(SurveyEnd::Time),
                    Ok(_) => None,
                };
                let below = if stop.is_some() { Vec::new() } else { visit(looked) };
                held = lock();
                held.at_work -= 1;
                if let Some(stop) = stop {
                    *end.lock() = stop;
                    held.waiting.clear();
                }
                let names = below.iter().map(|name| path.join(std::ffi::OsStr::from_bytes(name)));
                let had = held.waiting.len();
                // The deepest first, so that few wait.
                names.for_each(|path| held.waiting.push_front(path));
                if held.waiting.len() > had || held.at_work == 0 {
                    more.notify_all();
                }
            }
        };
        work(false);
        if !lock().waiting.is_empty() {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
            std::thread::scope(|scope| {
                (1..threads).for_each(|_| drop(scope.spawn(|| work(true))));
                work(true);
            });
        }
        end.into_inner()
    }

    pub(super) fn look_into<'a>(&self, path: &'a Path) -> Looked<'a> {
        let mut looked = Looked { path, entries: Vec::new(), elsewhere: Vec::new(), is_closed: false };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let opened = self.open_walked(path, flags).and_then(|fd| Ok(nix::dir::Dir::from_fd(fd)?));
        let mut dir = match opened {
            Ok(dir) => dir,
            // A directory that has gone meanwhile is empty.
            Err(error) => {
                looked.is_closed = error != PathError::Missing;
                return looked;
            }
        };
        let mut names: Vec<CString> = dir.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let each = names.len().div_ceil(threads).max(ENTRIES_ALONE_MAX);
        let mut found = Vec::new();
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            while names.len() > each {
                let (part, dir) = (names.split_off(names.len() - each), dir.as_fd());
                others.push(scope.spawn(move || self.examined(dir, part)));
            }
            found.push(self.examined(dir.as_fd(), names));
            found.extend(others.into_iter().map(|it| it.join().unwrap_or_else(|why| std::panic::resume_unwind(why))));
        });
        for (entries, elsewhere) in found {
            looked.elsewhere.extend(elsewhere);
            match looked.entries.is_empty() {
                true => looked.entries = entries,
                false => looked.entries.extend(entries),
            }
        }
        // Each part is in order already, which this sort makes use of.
        looked.entries.sort_by(|left, right| left.name.cmp(&right.name));
        looked
    }

    /// Examines entries of a directory; returns the existing ones, by name, and the names of those on another file system.
    fn examined(&self, dir: BorrowedFd<'_>, names: Vec<CString>) -> (Vec<Seen>, Vec<Box<[u8]>>) {
        let (mut entries, mut elsewhere) = (Vec::with_capacity(names.len()), Vec::new());
        for name in names {
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(data) = fstatat(dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
            let name = name.into_bytes().into_boxed_slice();
            if data.st_dev == self.device {
                entries.push(Seen { name, stamp: Stamp::of(&data) });
            } else {
                elsewhere.push(name);
            }
        }
        entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        (entries, elsewhere)
    }

    /// Looks at one entry; `None` if it doesn't exist. No link is followed, neither at the end of the path nor before.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn stamp(&self, relative: &Path) -> Result<Option<Stamp>, PathError> {
        match self.open_walked(relative, OFlag::O_PATH | OFlag::O_NOFOLLOW) {
            Ok(found) => Ok(Some(Stamp::of(&nix::sys::stat::fstat(&found)?))),
            // A file or a link in the place of a directory: nothing exists below it.
            Err(PathError::Missing | PathError::NotDirectory) => Ok(None),
            Err(PathError::Outside) if self.has_link_before(relative) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether one of the directories on the way is a link.
    fn has_link_before(&self, relative: &Path) -> bool {
        let found = |path: &Path| {
            let found = self.open_walked(path, OFlag::O_PATH | OFlag::O_NOFOLLOW).ok()?;
            nix::sys::stat::fstat(&found).ok()
        };
        relative.ancestors().skip(1).any(|path| found(path).is_some_and(|data| Stamp::of(&data).is_link()))
    }

    /// Reads the content of a regular file, or the target of a link, with the stamp from just before. At most `bytes_max` bytes.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn held(&self, relative: &Path, bytes_max: u64) -> Result<(Stamp, Vec<u8>), PathError> {
        let found = self.open_walked(relative, OFlag::O_PATH | OFlag::O_NOFOLLOW)?;
        let stamp = Stamp::of(&nix::sys::stat::fstat(&found)?);
        if stamp.is_link() {
            let target = nix::fcntl::readlinkat(&found, "")?;
            return Ok((stamp, target.as_bytes().to_vec()));
        }
        if !stamp.is_file() {
            return Err(if stamp.is_directory() { PathError::Directory } else { PathError::NotRegular });
        }
        self.held_file(relative, bytes_max).map(|held| (held.stamp, held.bytes))
    }

    /// Opens a regular file that a walk came upon for reading, also one with several names. No link is followed.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn open_entry(&self, relative: &Path) -> Result<File, PathError> {
        let file = File::from(self.open_walked(relative, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK)?);
        let is_file = file.metadata().map_err(|error| of_io(&error))?.is_file();
        if is_file { Ok(file) } else { Err(PathError::NotRegular) }
    }

    /// The same as [`Root::held`] for a regular file: another kind of entry is opened, too, but not read.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn held_file(&self, relative: &Path, bytes_max: u64) -> Result<HeldFile, PathError> {
        let file = File::from(self.open_walked(relative, OFlag::O_RDONLY | OFlag::O_NOFOLLOW)?);
        let data = nix::sys::stat::fstat(&file)?;
        let stamp = Stamp::of(&data);
        if !stamp.is_file() {
            return Err(PathError::NotRegular);
        }
        let bytes = read_whole(&file, stamp.size, bytes_max).map_err(|error| of_io(&error))?;
        let bytes = bytes.ok_or(PathError::Long(bytes_max))?;
        Ok(HeldFile { stamp, owner: (data.st_uid, data.st_gid), bytes })
    }
}

/// Reads a regular file of `size` bytes; `None` if it holds more than `bytes_max`. A file that doesn't grow meanwhile takes
/// one call of the system.
///
/// # Errors
/// It can't be read.
pub fn read_whole(mut file: &File, size: u64, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
    if size > bytes_max {
        return Ok(None);
    }
    let size = usize::try_from(size).unwrap_or(0);
    // One byte more: an answer that doesn't fill it is the end.
    let mut bytes = vec![0; size + 1];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if filled == size {
            break;
        }
    }
    let is_more = filled == bytes.len();
    bytes.truncate(filled);
    if is_more {
        file.take((bytes_max + 1).saturating_sub(filled as u64)).read_to_end(&mut bytes)?;
    }
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}
