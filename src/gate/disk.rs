//! The policy's view of the disk: the target of a path. It reads names, never contents.

use std::path::Path;

use crate::policy::Files;

/// The disk as it is now.
pub struct Disk;

impl Files for Disk {
    fn canonical(&self, path: &str) -> Option<String> {
        let path = Path::new(path);
        if let Ok(found) = std::fs::canonicalize(path) {
            return found.to_str().map(str::to_owned);
        }
        // A link that leads to nothing would be followed when it is written through.
        if std::fs::symlink_metadata(path).is_ok() {
            return None;
        }
        let mut missing = vec![path.file_name()?];
        let mut parent = path.parent()?;
        loop {
            if let Ok(found) = std::fs::canonicalize(parent) {
                let whole = missing.iter().rev().fold(found, |path, name| path.join(name));
                return whole.to_str().map(str::to_owned);
            }
            if std::fs::symlink_metadata(parent).is_ok() {
                return None;
            }
            missing.push(parent.file_name()?);
            parent = parent.parent()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_resolves_to_the_target_of_its_links() {
        let top = tempfile::tempdir().expect("a directory");
        let top = std::fs::canonicalize(top.path()).expect("a path");
        let at = |name: &str| top.join(name).display().to_string();
        std::fs::create_dir(top.join("real")).expect("a directory");
        symlink("real", top.join("link")).expect("a link");
        symlink("nowhere", top.join("dangling")).expect("a link");
        assert_eq!(Disk.canonical(&at("link/new/file")), Some(at("real/new/file")));
        assert_eq!(Disk.canonical(&at("link")), Some(at("real")));
        assert_eq!(Disk.canonical(&at("dangling")), None);
        assert_eq!(Disk.canonical(&at("dangling/x")), None);
    }
}
