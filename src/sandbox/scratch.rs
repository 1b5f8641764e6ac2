//! Private directories of the overlay tier: what stands for the home and for `/tmp` as long as a session lasts, and the
//! layers that take what a program changes on its copy.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::missed::{self, Missed};
use super::tmp::Tmp;

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
        let mut layer = Layer { dir, upper, work, refused, since_ns: 0 };
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
}

impl Layer {
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
