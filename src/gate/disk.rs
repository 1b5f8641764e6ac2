//! The policy's view of the disk: the target of a path, and the files that other programs run by another name.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::named::{Named, Tracked};
use crate::files::Tree;
use crate::policy::{Files, Rules};

/// Paths whose targets are remembered: a judgement asks about each path several times, one after the other.
const PATHS_MAX: usize = 1_000;

/// The disk as it is now, for one judgement: what was looked up is remembered, since the changes of a command may be thousands of
/// files in a few directories.
#[derive(Debug, Default)]
pub struct Disk {
    paths: RefCell<HashMap<String, Option<String>>>,
    directories: RefCell<HashMap<PathBuf, Option<Place>>>,
    named: OnceLock<Named>,
    tracked: Arc<Tracked>,
}

/// The disk, with another tree in place of the files beneath one directory: links are those of the tree there.
pub(super) struct Above<'a> {
    pub disk: &'a Disk,
    pub tree: &'a dyn Tree,
}

impl Files for Above<'_> {
    fn canonical(&self, path: &str) -> Option<String> {
        let Self { disk, tree } = self;
        let whole = Path::new(path);
        let is_below = whole.starts_with(tree.path()) && whole != tree.path();
        // Paths that leave the tree, or can't be in it, are looked up on the disk.
        let Some(found) = is_below.then(|| tree.resolve(path.trim_end_matches('/')).ok()).flatten() else {
            return disk.canonical(path);
        };
        text(Path::new(&disk.canonical(tree.path().to_str()?)?).join(found))
    }

    fn is_named(&self, path: &str, rules: &Rules) -> bool {
        self.disk.is_named(path, rules)
            || self.canonical(path).is_some_and(|real| real != path && self.disk.is_named(&real, rules))
    }
}

/// The target of a path.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    /// True if something is there.
    exists: bool,
}

impl Files for Disk {
    fn canonical(&self, path: &str) -> Option<String> {
        if let Some(known) = self.paths.borrow().get(path) {
            return known.clone();
        }
        let found = self.find(Path::new(path));
        let mut paths = self.paths.borrow_mut();
        if paths.len() >= PATHS_MAX {
            paths.clear();
        }
        paths.insert(path.to_owned(), found.clone());
        found
    }

    fn is_named(&self, path: &str, rules: &Rules) -> bool {
        let new = || Named::over(Path::new(&rules.home), Path::new(&rules.workspace), Arc::clone(&self.tracked));
        let named = self.named.get_or_init(new);
        let has = |path: &str| named.reason(Path::new(path)).is_some();
        has(path) || self.canonical(path).is_some_and(|real| real != path && has(&real))
    }
}

impl Disk {
    /// The target of a path, looked up.
    fn find(&self, path: &Path) -> Option<String> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return text(resolved(path)?.path) };
        let directory = self.directory(parent)?;
        let path = directory.path.join(name);
        // In a directory that isn't there, nothing is a link: a command may have made thousands of files in a new one.
        let is_link = directory.exists && std::fs::symlink_metadata(&path).is_ok_and(|data| data.is_symlink());
        text(if is_link { resolved(&path)?.path } else { path })
    }

    /// The disk, with what is known of git's indices.
    #[must_use]
    pub fn over(tracked: Arc<Tracked>) -> Self {
        Self { tracked, ..Self::default() }
    }

    /// Returns whether nothing is at a directory's path below `top` yet, and no link on the way leads elsewhere.
    #[must_use]
    pub fn is_new(&self, top: &Path, relative: &Path) -> bool {
        let whole = top.join(relative);
        self.directory(&whole).is_some_and(|found| !found.exists && found.path == whole)
    }

    /// The target of a directory's path.
    fn directory(&self, path: &Path) -> Option<Place> {
        if let Some(known) = self.directories.borrow().get(path) {
            return known.clone();
        }
        let found = resolved(path);
        self.directories.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }
}

fn text(path: PathBuf) -> Option<String> {
    path.into_os_string().into_string().ok()
}

/// Returns the target of a path; for a missing path, that of its directory; `None` if a link on it is dangling.
#[must_use]
fn resolved(path: &Path) -> Option<Place> {
    let mut missing = Vec::new();
    let mut path = path;
    loop {
        if let Ok(found) = std::fs::canonicalize(path) {
            let exists = missing.is_empty();
            return Some(Place { path: missing.iter().rev().fold(found, |path, name| path.join(name)), exists });
        }
        // A link that leads to nothing would be followed when it is written through.
        if std::fs::symlink_metadata(path).is_ok() {
            return None;
        }
        missing.push(path.file_name()?);
        path = path.parent()?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Each path of a command's changes was looked up four times for one judgement.
    #[test]
    fn a_judgement_looks_a_path_up_once() {
        let top = tempfile::tempdir().expect("a directory");
        let top = std::fs::canonicalize(top.path()).expect("a path");
        let at = |name: &str| top.join(name).display().to_string();
        let (disk, next) = (Disk::default(), Disk::default());
        symlink("real", top.join("link")).expect("a link");
        std::fs::write(top.join("real"), "").expect("a file");
        assert_eq!(disk.canonical(&at("link")), Some(at("real")));
        std::fs::remove_file(top.join("link")).expect("removed");
        assert_eq!(disk.canonical(&at("link")), Some(at("real")));
        assert_eq!(next.canonical(&at("link")), Some(at("link")), "another judgement sees the disk as it is");
        (0..PATHS_MAX).for_each(|number| drop(disk.canonical(&at(&number.to_string()))));
        assert_eq!(disk.canonical(&at("link")), Some(at("link")), "what is remembered is bounded");
    }

    #[test]
    fn a_path_resolves_to_the_target_of_its_links() {
        let top = tempfile::tempdir().expect("a directory");
        let top = std::fs::canonicalize(top.path()).expect("a path");
        let at = |name: &str| top.join(name).display().to_string();
        std::fs::create_dir(top.join("real")).expect("a directory");
        symlink("real", top.join("link")).expect("a link");
        symlink("nowhere", top.join("dangling")).expect("a link");
        std::fs::write(top.join("real/file"), "").expect("a file");
        let disk = Disk::default();
        // The second time from what is remembered.
        for _ in 0..2 {
            assert_eq!(disk.canonical(&at("link/new/file")), Some(at("real/new/file")));
            assert_eq!(disk.canonical(&at("link/file")), Some(at("real/file")));
            assert_eq!(disk.canonical(&at("link/./file")), Some(at("real/file")));
            assert_eq!(disk.canonical(&at("real/../link/file")), Some(at("real/file")));
            assert_eq!(disk.canonical(&at("link")), Some(at("real")));
            assert_eq!(disk.canonical(&at("link/")), Some(at("real")));
            assert_eq!(disk.canonical(&at("real/..")), Some(top.display().to_string()));
            assert_eq!(disk.canonical(&at("dangling")), None);
            assert_eq!(disk.canonical(&at("dangling/x")), None);
            assert_eq!(disk.canonical("/"), Some("/".to_owned()));
            for (path, is_new) in
                [("real/new", true), ("new/er", true), ("link/new", false), ("real", false), ("dangling", false)]
            {
                assert_eq!(disk.is_new(&top, Path::new(path)), is_new, "{path}");
            }
        }
    }
}
