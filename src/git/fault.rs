//! Points of a write at which a test ends the process as a power cut would. Outside of tests they do nothing.

#[cfg(test)]
pub mod power_tests;

/// The variable that names the number of the point at which the process ends.
#[cfg(test)]
pub const END_AT: &str = "REEDCLAW_TEST_END_AT";

/// A point of a write.
#[cfg(not(test))]
#[inline]
pub fn point() {}

/// A point of a write: the process that a test has started ends at the one with its number.
#[cfg(test)]
pub fn point() {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PASSED: AtomicU64 = AtomicU64::new(0);
    static END: OnceLock<Option<u64>> = OnceLock::new();
    let Some(end) = *END.get_or_init(|| std::env::var(END_AT).ok()?.parse().ok()) else { return };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == end {
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
    }
}

/// Waits until a file or folder is on the disk.
///
/// # Errors
/// The disk's.
#[cfg(not(test))]
#[inline]
pub fn sync(file: &std::fs::File, _path: &std::path::Path) -> std::io::Result<()> {
    file.sync_all()
}

/// Waits until a file or folder is on the disk, and records which part of it now survives a power failure.
#[cfg(test)]
pub fn sync(file: &std::fs::File, path: &std::path::Path) -> std::io::Result<()> {
    point();
    file.sync_all()?;
    power_tests::note(path);
    Ok(())
}

/// The variable with the number of the first write that finds the disk full; all later ones do, too. After a blank it may have
/// the word `damaged`: then only this write fails.
#[cfg(test)]
pub const FULL_AT: &str = "REEDCLAW_TEST_FULL_AT";

/// A write that fails if the disk is full. Outside of tests it isn't decided here.
///
/// # Errors
/// Never.
#[cfg(not(test))]
#[inline]
pub fn write() -> std::io::Result<()> {
    Ok(())
}

/// A write: in a process that a test has started, the one with its number fails, or that and all later ones.
#[cfg(test)]
pub fn write() -> std::io::Result<()> {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PASSED: AtomicU64 = AtomicU64::new(0);
    static FULL: OnceLock<Option<(u64, bool)>> = OnceLock::new();
    let read = || {
        let text = std::env::var(FULL_AT).ok()?;
        let number = text.split(' ').next()?.parse().ok()?;
        Some((number, text.ends_with(" damaged")))
    };
    let Some((at, is_damaged)) = *FULL.get_or_init(read) else { return Ok(()) };
    match PASSED.fetch_add(1, Ordering::SeqCst) + 1 {
        passed if is_damaged && passed == at => Err(std::io::Error::from_raw_os_error(libc::EIO)),
        passed if !is_damaged && passed >= at => Err(std::io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    }
}

/// A directory in memory, if the system has such a place: tests with hundreds of repositories wait for the disk otherwise.
#[cfg(test)]
pub fn in_memory() -> tempfile::TempDir {
    let fast = std::path::Path::new("/dev/shm");
    let at = if fast.is_dir() { fast.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(at).expect("a directory")
}
