//! Locks on files: the kernel's, which end with their process; waits for them are limited. Marks on a locked file, which others
//! read without a lock.

use std::borrow::Borrow;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};

/// Tries that only yield the processor: most holders need some microseconds.
const QUICK_TRIES: u32 = 100;
/// The wait between two later tries.
const PAUSE: Duration = Duration::from_micros(500);

/// A file that is locked until this is dropped.
///
/// It is unlocked then, and not only closed: a child that is just being started by another thread has the same open file for a
/// moment, and would hold the lock for that long.
#[derive(Debug)]
pub struct Locked<F: Borrow<File>>(F);

impl<F: Borrow<File>> Locked<F> {
    /// Locks a file for us alone, or `shared` with others who share it. Waits for at most `longest`.
    ///
    /// # Errors
    /// Another holds it still, or the system can't lock.
    pub fn take(file: F, shared: bool, longest: Duration) -> Result<Self, TryLockError> {
        let began = Instant::now();
        let mut tries = 0;
        loop {
            let tried = if shared { file.borrow().try_lock_shared() } else { file.borrow().try_lock() };
            match tried {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::Error(problem)) if problem.kind() != ErrorKind::Interrupted => {
                    return Err(TryLockError::Error(problem));
                }
                Err(_) if began.elapsed() >= longest => return Err(TryLockError::WouldBlock),
                Err(_) if tries < QUICK_TRIES => std::thread::yield_now(),
                Err(_) => std::thread::park_timeout(PAUSE),
            }
            tries += 1;
        }
    }
}

impl Locked<File> {
    /// Locks one of our files exclusively and without waiting; makes it with its directory if it doesn't exist.
    ///
    /// # Errors
    /// Another holds it, or it can't be made.
    pub fn open(path: &Path) -> Result<Self, TryLockError> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(TryLockError::Error)?;
        }
        let file = lock_file(path);
        Self::take(file.map_err(TryLockError::Error)?, false, Duration::ZERO)
    }
}

impl<F: Borrow<File>> Drop for Locked<F> {
    fn drop(&mut self) {
        // It can't fail on a held lock; and the kernel releases it with the file.
        let _ = self.0.borrow().unlock();
    }
}

/// A locked file that shows for which numbers it is held; at first for all of them.
///
/// Each number is a byte of the file that a lock of its own covers, so that [`is_marked`] can ask for it without a lock.
#[derive(Debug)]
pub struct Marked(Locked<File>);

impl Marked {
    /// Locks a file as [`Locked::open`] does, and marks all numbers.
    ///
    /// # Errors
    /// Another holds it, or it can't be made.
    pub fn open(path: &Path) -> Result<Self, TryLockError> {
        let marked = Self(Locked::open(path)?);
        marked.mark(libc::F_WRLCK, 0, 0).map_err(TryLockError::Error)?;
        Ok(marked)
    }

    /// Leaves only the mark of this number, from 0.
    ///
    /// # Errors
    /// The system can't lock.
    pub fn only(&self, number: i64) -> std::io::Result<()> {
        if number > 0 {
            self.mark(libc::F_UNLCK, 0, number)?;
        }
        self.mark(libc::F_UNLCK, number + 1, 0)
    }

    fn mark(&self, kind: i32, from: i64, count: i64) -> std::io::Result<()> {
        let mark = byte_range(kind, from, count);
        fcntl(&self.0.0, FcntlArg::F_OFD_SETLK(&mark)).map(drop).map_err(std::io::Error::from)
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        // As for a lock: a child may have the same open file for a moment.
        let _ = self.mark(libc::F_UNLCK, 0, 0);
    }
}

/// Returns whether a process holds this file for this number. Neither makes the file nor locks it.
#[must_use]
pub fn is_marked(path: &Path, number: i64) -> bool {
    mark_of(path, number, 1).is_some()
}

/// The number for which a process holds this file; none if it is free, or held for all.
#[must_use]
pub fn marked_number(path: &Path) -> Option<i64> {
    mark_of(path, 0, 0).filter(|mark| mark.l_len == 1).map(|mark| mark.l_start)
}

/// Returns the first mark of another process among these numbers; a count of 0 means all of them.
fn mark_of(path: &Path, from: i64, count: i64) -> Option<libc::flock> {
    let file = File::open(path).ok()?;
    let mut mark = byte_range(libc::F_WRLCK, from, count);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut mark)).ok()?;
    (i32::from(mark.l_type) != libc::F_UNLCK).then_some(mark)
}

/// Returns a lock on bytes of a file; a length of 0 means all from the first one.
fn byte_range(kind: i32, from: i64, count: i64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: from,
        l_len: count,
        l_pid: 0,
    }
}

/// Opens the file of a lock, made readable for its owner alone if it isn't there. Its content is left as it is.
///
/// # Errors
/// It can't be opened or made.
pub fn lock_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes an empty file that only its owner can read, or empties the one that is there.
///
/// # Errors
/// It can't be opened or made.
pub fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_released_though_the_file_is_open_elsewhere() {
        let place = tempfile::NamedTempFile::new().expect("a file");
        let open = || File::open(place.path()).expect("it is there");
        let file = open();
        // As a child has it between fork and exec: the same open file.
        let inherited = file.try_clone().expect("a descriptor");
        let held = Locked::take(file, false, Duration::ZERO).expect("it is free");
        assert!(matches!(Locked::take(open(), true, Duration::ZERO), Err(TryLockError::WouldBlock)));
        drop(held);
        let shared = Locked::take(open(), true, Duration::ZERO).expect("it is free again");
        drop(Locked::take(open(), true, Duration::ZERO).expect("others may share it"));
        assert!(matches!(Locked::take(open(), false, Duration::ZERO), Err(TryLockError::WouldBlock)));
        drop((shared, inherited));
    }

    #[test]
    fn marks_are_read_without_a_lock_and_end_with_it() {
        let top = tempfile::tempdir().expect("a directory");
        let place = top.path().join("runs/a.lock");
        assert!(!is_marked(&place, 7) && !place.exists(), "a look makes no file");
        let held = Marked::open(&place).expect("it is free");
        assert!(is_marked(&place, 0) && is_marked(&place, 7), "all numbers at first");
        assert_eq!(marked_number(&place), None);
        held.only(7).expect("marked");
        assert_eq!(marked_number(&place), Some(7));
        let marks: Vec<i64> = (0..20).filter(|&number| is_marked(&place, number)).collect();
        assert_eq!(marks, [7]);
        assert!(matches!(Marked::open(&place), Err(TryLockError::WouldBlock)));
        let inherited = held.0.0.try_clone().expect("a descriptor");
        drop(held);
        assert!(!is_marked(&place, 7) && marked_number(&place).is_none());
        drop((Marked::open(&place).expect("it is free again"), inherited));
    }
}
