//! Sockets of services outside. A file system that can't be written doesn't keep anybody from connecting to a socket in it,
//! and neither does a network namespace: so each that a program would see is covered.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Sockets that are covered at most: each is a mount.
const SOCKETS_MAX: usize = 256;

/// The sockets that have a name now, free of links; `is_seen` says whether a path shows in the sandbox.
///
/// Those of other network namespaces (containers) aren't in the kernel's list, nor is the directory of those that were named
/// by a relative path.
pub(super) fn seen(is_seen: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let mut paths: Vec<PathBuf> = named(&table).filter(|path| is_seen(path)).map(Path::to_owned).collect();
    paths.sort();
    paths.dedup();
    let there = paths.into_iter().filter_map(|path| path.canonicalize().ok());
    let is_socket = |path: &PathBuf| path.symlink_metadata().is_ok_and(|data| data.file_type().is_socket());
    there.filter(|path| is_socket(path) && is_seen(path)).take(SOCKETS_MAX).collect()
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
        assert_eq!(seen(|it| it.starts_with(dir.path())), [path]);
        assert!(seen(|_| false).is_empty());
    }
}
