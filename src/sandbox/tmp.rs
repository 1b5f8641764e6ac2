//! The temporary directory of a sandbox that has no `/tmp` of its own. It is locked as long as it is used, so that the next
//! process recognises and removes what a killed one left.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::scratch::remove_all;

/// Beginning of the names.
const PREFIX: &str = "reedclaw-tmp-";
/// Entries of the directory that are searched for leftovers.
const LOOKED_AT_MAX: usize = 10_000;

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Tmp {
    path: PathBuf,
    /// Its lock, which ends with the process.
    _lock: File,
}

impl Tmp {
    /// Makes one in `place` (0700), and removes those that aren't used any more.
    pub(super) fn make(place: &Path) -> io::Result<Self> {
        sweep(place);
        let path = nix::unistd::mkdtemp(&place.join(format!("{PREFIX}XXXXXX")))?;
        let lock = open(&path)?;
        // Another process may have found it unlocked, and locked it for a moment or removed it.
        lock.lock()?;
        if path.is_dir() { Ok(Self { path, _lock: lock }) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Tmp {
    fn drop(&mut self) {
        remove_all(&self.path);
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY).open(path)
}

/// Removes the directories of this user that no process holds.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let ours = entries.flatten().take(LOOKED_AT_MAX).filter(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
    });
    for path in ours.map(|entry| entry.path()) {
        let Ok(left) = open(&path) else { continue };
        let is_own = left.metadata().is_ok_and(|data| data.uid() == nix::unistd::geteuid().as_raw());
        if is_own && left.try_lock().is_ok() {
            remove_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_directories_are_removed_and_used_ones_stay() {
        let place = tempfile::tempdir().unwrap();
        let used = Tmp::make(place.path()).unwrap();
        fs::write(used.path().join("file"), "used").unwrap();
        let left = place.path().join("reedclaw-tmp-abcdef");
        fs::create_dir_all(left.join("deep")).unwrap();
        for other in ["reedclaw-other", "tmp-reedclaw-tmp-"] {
            fs::create_dir(place.path().join(other)).unwrap();
        }
        let target = place.path().join("kept");
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, place.path().join("reedclaw-tmp-link")).unwrap();
        let second = Tmp::make(place.path()).unwrap();
        assert!(!left.exists() && target.exists() && used.path().join("file").exists() && second.path().exists());
        assert!(place.path().join("reedclaw-other").exists() && place.path().join("tmp-reedclaw-tmp-").exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
