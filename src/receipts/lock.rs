//! Locks: one writer at a time, and which sessions are alive. Kernel locks, which end with their process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};

use super::ReceiptError;
use crate::files::Locked;

/// Longest wait for the lock: a holder writes one line, and only one that is stopped takes longer.
const WAIT: Duration = Duration::from_secs(10);

/// Opens a file of ours, created with mode 0600 if it is missing; a link, or anything but a plain file of this user, is
/// refused.
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

/// Takes the lock of a log, shared or alone; dropping the value releases it.
pub(super) fn take<'a>(file: &'a File, path: &Path, shared: bool) -> Result<Locked<&'a File>, ReceiptError> {
    Locked::take(file, shared, WAIT).map_err(|error| match error {
        TryLockError::WouldBlock => ReceiptError::locked(path),
        TryLockError::Error(problem) => ReceiptError::io("lock", path, &problem),
    })
}

/// Locks the byte of a session, until `mark_ended` or the end of the process.
pub(super) fn mark_alive(file: &File, session: u64) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&byte(session))).map(drop).map_err(io::Error::from)
}

/// Releases the byte, which a child that is just being started would hold for a moment longer.
pub(super) fn mark_ended(file: &File, session: u64) {
    let free = libc::flock { l_type: libc::F_UNLCK as libc::c_short, ..byte(session) };
    // It can't fail on a held lock; and the kernel releases it with the file.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&free));
}

/// Returns whether another open file holds the byte of a session. A session of this very file is alive.
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
