//! Sockets of outside services. A read-only file system doesn't prevent connections to a socket in it, and neither does a network
//! namespace: so each socket that a program would see is covered.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Limit on covered sockets: each is a mount.
const SOCKETS_MAX: usize = 256;

/// Limit on the entries of a workspace that are searched for sockets.
const ENTRIES_MAX: usize = 50_000;

/// Returns the sockets that have a name now, free of links; `is_seen` says whether a path is visible in the sandbox. Those with a
/// relative path are searched below `shown`.
///
/// Those of other network namespaces (containers) aren't in the kernel's list.
pub(super) fn seen(shown: Option<&Path>, is_seen: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let mut paths: Vec<PathBuf> = named(&table).filter(|path| is_seen(path)).map(Path::to_owned).collect();
    let names: BTreeSet<&OsStr> = relative(&table).collect();
    if let Some(shown) = shown.filter(|_| !names.is_empty()) {
        paths.extend(below(shown, &names));
    }
    paths.sort();
    paths.dedup();
    let there = paths.into_iter().filter_map(|path| path.canonicalize().ok());
    let is_socket = |path: &PathBuf| path.symlink_metadata().is_ok_and(|data| data.file_type().is_socket());
    there.filter(|path| is_socket(path) && is_seen(path)).take(SOCKETS_MAX).collect()
}

/// The last parts of the relative names of such a table.
fn relative(table: &[u8]) -> impl Iterator<Item = &OsStr> {
    table.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let name = line.splitn(8, |byte| *byte == b' ').nth(7)?;
        let name = name.strip_prefix(b" ").unwrap_or(name);
        let is_relative = !matches!(name.first(), None | Some(b'/' | b'@'));
        is_relative.then(|| Path::new(OsStr::from_bytes(name)).file_name())?
    })
}

/// Entries with these names below a directory. No link is followed.
fn below(directory: &Path, names: &BTreeSet<&OsStr>) -> Vec<PathBuf> {
    let (mut waiting, mut found, mut left) = (vec![directory.to_owned()], Vec::new(), ENTRIES_MAX);
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten().take(left) {
            left -= 1;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_socket() && names.contains(&*entry.file_name()) => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

/// The absolute names of a table like `/proc/net/unix`: seven fields, each followed by one blank, and the name.
fn named(table: &[u8]) -> impl Iterator<Item = &Path> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(&line[at..])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_with_a_name_are_found() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17004 /var/lib/a b/sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 17005\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17006 @/abstract\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17007 relative\n";
        let found: Vec<_> = named(table).collect();
        // An abstract name after the `@` is no path of a socket, which `seen` looks at.
        assert_eq!(found, [Path::new("/var/lib/a b/sock"), Path::new("/abstract")]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(relative(table).collect::<Vec<_>>(), ["relative"]);
        let names = BTreeSet::from([OsStr::new("socket")]);
        assert_eq!(below(dir.path(), &names).len(), 1);
        assert_eq!(seen(None, |it| it.starts_with(dir.path())), [path]);
        assert!(seen(None, |_| false).is_empty());
    }
}
