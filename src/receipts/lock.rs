//! Locks: one writer at a time, and which sessions are alive. Kernel locks, which end with their process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};

use super::ReceiptError;

/// Longest wait for the lock: a holder writes one line, and only one that is stopped takes longer.
const WAIT: Duration = Duration::from_secs(10);
/// Tries that only give up the processor: a holder needs some microseconds.
const QUICK_TRIES: u32 = 100;
/// The wait between two later tries.
const PAUSE: Duration = Duration::from_micros(200);

/// Opens a file of ours, made 0600 where it isn't there; a link, or what isn't a plain file of this user, is refused.
pub(super) fn open_private(path: &Path, how: &OpenOptions) -> Result<File, ReceiptError> {
    let mut how = how.clone();
    how.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = how.open(path).map_err(|problem| match problem.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => ReceiptError::not_a_file(path),
        _ => ReceiptError::io("open", path, &problem),
    })?;
    let data = file.metadata().map_err(|problem| ReceiptError::io("open", path, &problem))?;
    if !data.is_file() || data.uid() != nix::unistd::geteuid().as_raw() {
        return Err(ReceiptError::not_a_file(path));
    }
    Ok(file)
}

/// Takes the lock of a log, shared or alone; it is given back when the value is dropped.
pub(super) fn take<'a>(file: &'a File, path: &Path, shared: bool) -> Result<Held<'a>, ReceiptError> {
    let began = Instant::now();
    let mut tries = 0;
    loop {
        match if shared { file.try_lock_shared() } else { file.try_lock() } {
            Ok(()) => return Ok(Held(file)),
            Err(TryLockError::Error(problem)) if problem.kind() != io::ErrorKind::Interrupted => {
                return Err(ReceiptError::io("lock", path, &problem));
            }
            Err(_) if began.elapsed() > WAIT => return Err(ReceiptError::locked(path)),
            Err(_) if tries < QUICK_TRIES => std::thread::yield_now(),
            Err(_) => std::thread::park_timeout(PAUSE),
        }
        tries += 1;
    }
}

/// A lock that is held.
pub(super) struct Held<'a>(&'a File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // It can't fail on a lock that is held; and the kernel gives it back with the file.
        let _ = self.0.unlock();
    }
}

/// Locks the byte that stands for a session, for as long as the file is open.
pub(super) fn mark_alive(file: &File, session: u64) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&byte(session))).map(drop).map_err(io::Error::from)
}

/// Whether another open file holds the byte of a session. A session of this very file is alive.
pub(super) fn is_alive(file: &File, session: u64) -> bool {
    let mut found = byte(session);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found)).is_ok() && i32::from(found.l_type) != libc::F_UNLCK
}

fn byte(session: u64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        // Sessions have 62 bits, so that an offset never overflows.
        l_start: session as libc::off_t,
        l_len: 1,
        l_pid: 0,
    }
}
