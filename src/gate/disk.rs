//! What the policy may ask of the disk: where a path leads, and what a pattern matches. It reads names, never contents.

use std::path::{Path, PathBuf};

use crate::policy::Files;

/// Names that a pattern may match before it counts as not understood.
const MATCHES_MAX: usize = 1_000;
/// Entries that are looked at for one pattern.
const ENTRIES_MAX: usize = 20_000;

/// The disk as it is now.
pub(super) struct Disk;

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

    fn matches(&self, pattern: &str) -> Option<Vec<String>> {
        let mut found = vec![PathBuf::from("/")];
        let mut left = ENTRIES_MAX;
        for part in pattern.strip_prefix('/')?.split('/').filter(|part| !part.is_empty()) {
            if !part.contains(['*', '?', '[']) {
                found =
                    found.into_iter().map(|path| path.join(part)).filter(|it| it.symlink_metadata().is_ok()).collect();
                continue;
            }
            let mut next = Vec::new();
            for directory in &found {
                let Ok(entries) = std::fs::read_dir(directory) else { continue };
                for entry in entries.flatten() {
                    left = left.checked_sub(1)?;
                    let name = entry.file_name();
                    let name = name.to_str()?;
                    if name.starts_with('.') <= part.starts_with('.') && fits(part.as_bytes(), name.as_bytes())? {
                        next.push(directory.join(name));
                    }
                }
            }
            found = next;
        }
        if found.len() > MATCHES_MAX {
            return None;
        }
        found.into_iter().map(|path| path.into_os_string().into_string().ok()).collect()
    }
}

/// Whether a name fits a pattern of `*`, `?` and `[…]`; nothing where the pattern holds more than these.
fn fits(pattern: &[u8], name: &[u8]) -> Option<bool> {
    match (pattern, name) {
        ([], rest) => Some(rest.is_empty()),
        ([b'\\', ..], _) => None,
        ([b'*', after @ ..], _) => {
            for from in 0..=name.len() {
                if fits(after, &name[from..])? {
                    return Some(true);
                }
            }
            Some(false)
        }
        ([b'?', after @ ..], [_, rest @ ..]) => fits(after, rest),
        ([b'[', after @ ..], [first, rest @ ..]) => {
            let end = after.iter().skip(1).position(|byte| *byte == b']')? + 1;
            let (set, after) = (&after[..end], &after[end + 1..]);
            let (is_not, set) = match set {
                [b'!' | b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            if set.contains(&b'[') || set.contains(&b'\\') {
                return None;
            }
            if in_set(set, *first) == is_not { Some(false) } else { fits(after, rest) }
        }
        ([b'?' | b'[', ..], []) => Some(false),
        ([wanted, after @ ..], [first, rest @ ..]) if wanted == first => fits(after, rest),
        _ => Some(false),
    }
}

fn in_set(mut set: &[u8], byte: u8) -> bool {
    loop {
        match set {
            [] => return false,
            [low, b'-', high, rest @ ..] => {
                if (*low..=*high).contains(&byte) {
                    return true;
                }
                set = rest;
            }
            [one, rest @ ..] => {
                if *one == byte {
                    return true;
                }
                set = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leads_where_its_links_lead() {
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

    #[test]
    fn a_pattern_matches_as_in_bash() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name).display().to_string();
        for name in ["a.rs", "b.rs", ".hidden.rs", "c.txt"] {
            std::fs::write(top.path().join(name), "").expect("a file");
        }
        let sorted = |pattern: &str| {
            let mut found = Disk.matches(&at(pattern)).expect("known");
            found.sort();
            found
        };
        assert_eq!(sorted("*.rs"), [at("a.rs"), at("b.rs")]);
        assert_eq!(sorted("[!a].rs"), [at("b.rs")]);
        assert_eq!(sorted("[a-b].??"), [at("a.rs"), at("b.rs")]);
        assert_eq!(sorted(".*.rs"), [at(".hidden.rs")]);
        assert_eq!(sorted("none*"), [""; 0]);
        assert_eq!(Disk.matches(&at("[[:alpha:]]*")), None);
        assert_eq!(Disk.matches("relative*"), None);
    }
}
