//! Locks on files: the kernel's, which end with their process; waits for them are limited.

use std::borrow::Borrow;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

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
    /// Locks a file of ours, which is made with its directory if it isn't there, for us alone and without waiting.
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
}
