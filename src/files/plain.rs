//! Regular files by their paths, for readers that follow links: a pipe or a device in the place of a file is an error and no
//! wait. And walks that follow the rules about ignored files, whose files such a pipe may replace as well.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

use super::read_whole;

/// Opens a regular file for reading.
///
/// # Errors
/// It can't be opened, or is none.
pub fn open_plain(path: &Path) -> Result<File> {
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Error::new(ErrorKind::InvalidInput, "not a regular file")) }
}

/// Reads a regular file of at most `bytes_max` bytes, with what the system knows of it.
///
/// # Errors
/// It can't be read, is none, or is longer.
pub fn read_plain(path: &Path, bytes_max: u64) -> Result<(Metadata, Vec<u8>)> {
    let file = open_plain(path)?;
    let data = file.metadata()?;
    match read_whole(&file, data.len(), bytes_max)? {
        Some(bytes) => Ok((data, bytes)),
        None => Err(Error::new(ErrorKind::FileTooLarge, format!("longer than {bytes_max} bytes"))),
    }
}

/// Begins a walk that leaves out ignored files, and directories whose rules about them aren't in regular files: the walk would
/// wait for a pipe. At its top such rules don't count.
#[must_use]
pub fn walk(top: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(top);
    walk.filter_entry(may_be_walked);
    if !has_plain_rules(top) {
        walk.ignore(false).git_ignore(false).git_exclude(false);
    }
    walk
}

/// Returns whether a walk may enter an entry, if it is a directory.
#[must_use]
pub fn may_be_walked(entry: &DirEntry) -> bool {
    // For the top, `walk` turns the rules off instead.
    entry.depth() == 0 || !entry.file_type().is_some_and(|kind| kind.is_dir()) || has_plain_rules(entry.path())
}

/// Returns whether the existing ignore files of a directory are regular.
fn has_plain_rules(directory: &Path) -> bool {
    let is_plain = |path: &Path| path.metadata().map_or(true, |data| data.is_file());
    let git = directory.join(".git");
    // A work tree names the directory of its repository in a file.
    let is_linked = git.metadata().is_ok_and(|data| !data.is_dir());
    let common = || {
        let mut line = String::new();
        open_plain(&git).ok()?.take(8192).read_to_string(&mut line).ok()?;
        let place = line.lines().next()?.strip_prefix("gitdir:")?.trim();
        Some(is_plain(&directory.join(place).join("commondir")))
    };
    [".gitignore", ".ignore", ".git/info/exclude"].iter().all(|name| is_plain(&directory.join(name)))
        && (!is_linked || common().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_among_the_rules_about_ignored_files_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let pipe = |name: &str| nix::unistd::mkfifo(&at(name), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        for name in [".git/info", "a", "b", "c", "d", "e/git"] {
            std::fs::create_dir_all(at(name)).expect("a directory");
            std::fs::write(at(name).join("file"), "").expect("a file");
        }
        std::fs::write(at("a/.gitignore"), "file\n").expect("a file");
        std::fs::write(at("e/.git"), "gitdir: git\n").expect("a file");
        ["b/.gitignore", "c/.ignore", "d/.git", "e/git/commondir"].iter().for_each(|name| pipe(name));
        let names = || {
            let walk = walk(dir.path()).build().flatten().filter(|it| it.path().is_file());
            let below = walk.map(|it| it.path().strip_prefix(dir.path()).expect("below").display().to_string());
            below.collect::<std::collections::BTreeSet<String>>().into_iter().collect::<Vec<String>>()
        };
        std::fs::write(at("top"), "").expect("a file");
        assert_eq!(names(), ["top"]);
        for name in [".gitignore", ".ignore", ".git/info/exclude"] {
            pipe(name);
            assert!(names().contains(&"top".to_owned()), "{name}");
            std::fs::remove_file(at(name)).expect("it goes");
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").expect("a file");
        std::os::unix::fs::symlink("file", at("link")).expect("a link");
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        std::os::unix::fs::symlink("pipe", at("to-pipe")).expect("a link");
        for name in ["file", "link"] {
            assert_eq!(read_plain(&at(name), 4).expect("it is read").1, b"text", "{name}");
            assert!(read_plain(&at(name), 3).is_err(), "{name}");
        }
        for name in ["pipe", "to-pipe", "none", ""] {
            assert!(open_plain(&at(name)).is_err(), "{name}");
        }
        assert!(open_plain(Path::new("/dev/tty")).is_err());
    }
}
