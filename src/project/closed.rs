//! Paths that the user's rules close: nothing about them is shown, under whatever name.

use std::path::{Path, PathBuf};

/// Closed paths, as they were named and with links resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Closed(Vec<PathBuf>);

impl Closed {
    /// Stores absolute paths.
    pub(super) fn new(paths: &[PathBuf]) -> Self {
        let real = paths.iter().filter_map(|path| path.canonicalize().ok());
        Self(real.chain(paths.iter().cloned()).collect())
    }

    /// Returns whether a path without links lies in one of the closed paths.
    pub(super) fn holds(&self, path: &Path) -> bool {
        self.0.iter().any(|closed| path.starts_with(closed))
    }

    /// Returns whether a path lies in a closed path or leads to one.
    pub(super) fn is_reached_by(&self, path: &Path) -> bool {
        !self.0.is_empty() && (self.holds(path) || path.canonicalize().is_ok_and(|real| self.holds(&real)))
    }

    /// One line that identifies this list.
    pub(super) fn line(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_closed_by_its_name_and_by_its_target() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        std::fs::create_dir(root.join("secret")).expect("a directory");
        std::fs::write(root.join("secret/a"), "").expect("a file");
        symlink(root.join("secret"), root.join("named")).expect("a link");
        symlink("secret/a", root.join("other")).expect("a link");
        // Closed through a link: the target is closed too.
        let closed = Closed::new(&[root.join("named"), root.join("absent")]);
        for (path, is_closed) in [
            ("secret/a", true),
            ("named/a", true),
            ("other", true),
            ("absent/x", true),
            ("absentee", false),
            ("", false),
        ] {
            assert_eq!(closed.is_reached_by(&root.join(path)), is_closed, "{path}");
        }
        assert!(closed.holds(&root.join("secret")) && !closed.holds(&root.join("other")));
        assert!(!Closed::new(&[]).is_reached_by(&root));
    }
}
