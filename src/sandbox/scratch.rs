//! Private directories of the overlay tier: what stands for the home and for `/tmp` as long as a session lasts, and the
//! layers that take what a program changes on its copy.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::missed::{self, Missed};
use super::tmp::Tmp;

/// Bytes that one copy may take on the disk, and the share of the free space that it may take: the rest is the person's.
const COPY_BYTES_MAX: u64 = 16 << 30;
const FREE_SHARE: u64 = 2;
/// Bytes that a file system must have lost since the last count before the files of a copy are counted again.
const COUNTED_AGAIN: u64 = 256 << 20;

/// Directories of one session, removed with it.
#[derive(Debug)]
pub(super) struct Scratch {
    held: Tmp,
    layers: AtomicU64,
}

impl Scratch {
    /// Makes them below `place` (0700), and removes what killed sessions have left there.
    pub(super) fn make(place: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        let held = Tmp::make(place)?;
        for name in ["tmp", "home", "layers"] {
            fs::create_dir(held.path().join(name))?;
        }
        fs::set_permissions(held.path().join("tmp"), PermissionsExt::from_mode(0o1777))?;
        Ok(Self { held, layers: AtomicU64::new(0) })
    }

    pub(super) fn is_there(&self) -> bool {
        self.held.path().join("layers").is_dir()
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.held.path().join("tmp")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.held.path().join("home")
    }

    /// Directories for one copy of `workspace`. What overlayfs has mounted once it never mounts again, so each copy gets
    /// new ones.
    pub(super) fn layer(&self, workspace: &Path) -> io::Result<Layer> {
        let number = self.layers.fetch_add(1, Ordering::Relaxed);
        let dir = self.held.path().join("layers").join(number.to_string());
        fs::create_dir(&dir)?;
        let [upper, work, refused] = ["upper", "work", "refused"].map(|name| dir.join(name));
        let free = free_bytes(&dir);
        let mut layer = Layer { dir, upper, work, refused, since_ns: 0, free, free_at_count: AtomicU64::new(free) };
        fs::create_dir(&layer.upper)?;
        fs::create_dir(&layer.work)?;
        // The top of the copy shows the mode of the upper directory.
        let mode = fs::metadata(workspace)?.permissions().mode();
        fs::set_permissions(&layer.upper, PermissionsExt::from_mode(mode & 0o777 | 0o700))?;
        let made = fs::metadata(&layer.upper)?;
        layer.since_ns = made.ctime().saturating_mul(1_000_000_000).saturating_add(made.ctime_nsec());
        Ok(layer)
    }
}

/// The layers of one copy: what a program changed lies in `upper`. Removed when dropped.
#[derive(Debug)]
pub struct Layer {
    dir: PathBuf,
    pub(super) upper: PathBuf,
    pub(super) work: PathBuf,
    /// The file in which the jail writes down refusals.
    pub(super) refused: PathBuf,
    /// Time when the copy was made, by the clock of the file system: what has changed since in the workspace was
    /// changed by somebody else.
    pub(super) since_ns: i64,
    /// Free space of the file system when the copy was made, and when its files were last counted.
    free: u64,
    free_at_count: AtomicU64,
}

impl Layer {
    /// Whether what a program wrote here takes more disk space than a copy may: 16 GiB, or half of what was free. Its files
    /// are counted only if the file system has lost as much.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        let most = COPY_BYTES_MAX.min(self.free / FREE_SHARE);
        let free = free_bytes(&self.upper);
        let last = self.free_at_count.load(Ordering::Relaxed);
        // Nothing is known, or the disk was full before: then writing fails by itself.
        if most == 0 || self.free.saturating_sub(free) < most || last.saturating_sub(free) < COUNTED_AGAIN.min(most) {
            return false;
        }
        self.free_at_count.store(free, Ordering::Relaxed);
        held_bytes(&self.upper, most) >= most
    }

    /// Returns the kernel's refusals to the program that worked on this copy; `None` if the jail could not
    /// look.
    #[must_use]
    pub fn missed(&self) -> Option<Vec<Missed>> {
        missed::read(&self.refused)
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        let dir = std::mem::take(&mut self.dir);
        if !dir.as_os_str().is_empty() {
            // Thousands of files take a while, for which nobody has to wait; the session's end removes what is left.
            std::thread::spawn(move || remove_all(&dir));
        }
    }
}

/// The free space of the file system of a path; 0 if it doesn't say.
fn free_bytes(path: &Path) -> u64 {
    nix::sys::statvfs::statvfs(path).map_or(0, |data| data.blocks_available().saturating_mul(data.fragment_size()))
}

/// The disk space that the files below a directory take; counts until it is `enough`.
fn held_bytes(dir: &Path, enough: u64) -> u64 {
    let (mut waiting, mut bytes) = (vec![dir.to_owned()], 0);
    while let Some(dir) = waiting.pop().filter(|_| bytes < enough) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            bytes += data.blocks() * 512;
            if data.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    bytes
}

/// Removes a directory with all below it, also if some of it may not be entered.
pub(super) fn remove_all(dir: &Path) {
    if fs::remove_dir_all(dir).is_ok() {
        return;
    }
    open_up(dir);
    // What can't be removed now is found by the next sweep.
    let _ = fs::remove_dir_all(dir);
}

/// Lets the owner into all directories below one.
fn open_up(dir: &Path) {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        let _ = fs::set_permissions(&dir, PermissionsExt::from_mode(0o700));
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        waiting.extend(entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells this very test, started in a mount namespace of its own, where a small disk is.
    const SMALL: &str = "REEDCLAW_TEST_COPY_SMALL";

    #[test]
    fn a_copy_that_takes_half_of_the_free_space_is_overfull() {
        if let Some(top) = std::env::var_os(SMALL) {
            let top = PathBuf::from(top);
            let (scratch, workspace) = (Scratch::make(&top.join("state")).expect("a scratch"), top.join("ws"));
            fs::create_dir(&workspace).expect("a directory");
            let layer = scratch.layer(&workspace).expect("a layer");
            assert!(!layer.is_overfull(), "nothing was written");
            // Somebody else fills the disk: not the copy's fault.
            fs::write(workspace.join("other"), vec![1; 1_300_000]).expect("a file");
            assert!(!layer.is_overfull(), "the copy is empty");
            fs::remove_file(workspace.join("other")).expect("it goes");
            fs::create_dir(layer.upper.join("deep")).expect("a directory");
            fs::write(layer.upper.join("deep/large"), vec![1; 1_300_000]).expect("a file");
            // Looked at again only after as much has gone once more; a new copy counts from what is free by then.
            layer.free_at_count.store(layer.free, Ordering::Relaxed);
            assert!(layer.is_overfull(), "more than half of 2 MB");
            return;
        }
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().expect("a directory");
        let name = std::thread::current().name().expect("the test's name").to_owned();
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", "mount -t tmpfs -o size=2000k none \"$1\" && exec \"$0\" --exact \"$2\""]);
        command.arg(std::env::current_exe().expect("this test")).arg(place.path()).arg(name);
        let ended = command.env(SMALL, place.path()).output().expect("it runs");
        assert!(ended.status.success(), "{ended:?}");
    }
}
