//! Paths outside of the workspace that a program changes, or takes away, though its jail doesn't let it: read from the
//! call, before the kernel refuses it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::missed::Missed;
use super::watch::memory;
use crate::files::normal;
use crate::proto::HeldCall;
use crate::proto::known_paths::is_tool;
use crate::sandbox::helper::wire::{Spec, paths};

/// Longest path that is read.
const PATH_BYTES_MAX: usize = 4096;
/// Most paths are shorter, and memory may end after one.
const PATH_BYTES_USUAL: usize = 256;
/// Directories that a program can write, or that are never opened to one.
const PRIVATE: [&str; 6] = ["/dev", "/proc", "/sys", "/tmp", "/var/tmp", "/run"];
/// Names of directories in which programs store things for the next time if they can; they work without.
const CACHES: [&str; 2] = ["__pycache__", "cache"];

/// Calls that change what is at a path: the argument with the directory that the path is relative to (none of the older calls has
/// one), the argument with the path, and whether nothing is there afterwards.
pub(super) const CHANGES: &[(i64, Option<usize>, usize, bool)] = &[
    (libc::SYS_openat, Some(0), 1, false),
    (libc::SYS_open, None, 0, false),
    (libc::SYS_unlink, None, 0, true),
    (libc::SYS_unlinkat, Some(0), 1, true),
    (libc::SYS_rename, None, 1, false),
    (libc::SYS_rename, None, 0, true),
    (libc::SYS_renameat, Some(2), 3, false),
    (libc::SYS_renameat, Some(0), 1, true),
    (libc::SYS_renameat2, Some(2), 3, false),
    (libc::SYS_renameat2, Some(0), 1, true),
    (libc::SYS_mkdir, None, 0, false),
    (libc::SYS_mkdirat, Some(0), 1, false),
    (libc::SYS_creat, None, 0, false),
    (libc::SYS_rmdir, None, 0, true),
    (libc::SYS_link, None, 1, false),
    (libc::SYS_linkat, Some(2), 3, false),
    (libc::SYS_symlink, None, 1, false),
    (libc::SYS_symlinkat, Some(1), 2, false),
    (libc::SYS_truncate, None, 0, false),
    (libc::SYS_chmod, None, 0, false),
    (libc::SYS_fchmodat, Some(0), 1, false),
    (libc::SYS_fchmodat2, Some(0), 1, false),
    (libc::SYS_chown, None, 0, false),
    (libc::SYS_lchown, None, 0, false),
    (libc::SYS_fchownat, Some(0), 1, false),
    (libc::SYS_utimensat, Some(0), 1, false),
    (libc::SYS_mknod, None, 0, false),
    (libc::SYS_mknodat, Some(0), 1, false),
];

/// The parts of the file system that a program can't write.
pub(super) struct Closed {
    open: Vec<PathBuf>,
    /// New paths of the homes that it may make, with the directories around them.
    new: Vec<PathBuf>,
    /// The directory in which the program works, which may be inside a private one.
    workspace: PathBuf,
    homes: Vec<PathBuf>,
    tools: Vec<PathBuf>,
}

impl Closed {
    pub(super) fn of(spec: &Spec) -> Self {
        let jail = spec.jail.as_ref();
        let workspace = jail.map(|jail| jail.workspace.path());
        let new: Vec<PathBuf> = jail.into_iter().flat_map(|jail| paths(&jail.new_in_home)).collect();
        Self {
            workspace: spec.cwd.path(),
            open: workspace.into_iter().chain(paths(&spec.writable)).collect(),
            new,
            homes: jail.map(|jail| paths(&jail.homes).collect()).unwrap_or_default(),
            tools: jail.map(|jail| paths(&jail.kept_of_home).collect()).unwrap_or_default(),
        }
    }

    /// Returns the paths that a call would change or take away, if its jail is closed there.
    pub(super) fn changes_of(&self, call: &HeldCall) -> Vec<Missed> {
        let rows = CHANGES.iter().filter(|(number, ..)| *number == call.call);
        let missed = |(_, directory, at, is_gone): &(i64, Option<usize>, usize, bool)| {
            let directory = directory.map_or(libc::AT_FDCWD, |at| call.arguments[at] as i32);
            let path = path_of(call.thread, directory, call.arguments[*at]).filter(|path| self.closes(path))?;
            Some(if *is_gone { Missed::Remove(path) } else { Missed::Write(path) })
        };
        rows.filter_map(missed).collect()
    }

    /// Returns whether a program that writes there is refused, or writes into a private directory instead of the real one.
    fn closes(&self, path: &Path) -> bool {
        let is_new = |new: &PathBuf| path.starts_with(new) || new.starts_with(path);
        if self.open.iter().any(|open| path.starts_with(open)) || self.new.iter().any(is_new) {
            return false;
        }
        let is_plain = |path: &Path| !path.as_os_str().as_bytes().iter().any(u8::is_ascii_control);
        let is_cache = |path: &Path| path.iter().any(|part| CACHES.iter().any(|cache| part == *cache));
        if path.starts_with(&self.workspace) {
            return is_plain(path) && !is_cache(path);
        }
        match self.homes.iter().find_map(|home| path.strip_prefix(home).ok()) {
            // Settings and caches of programs, which they find in every home, and tools, which they can't change.
            Some(below) => {
                let is_hidden = below.iter().any(|part| part.as_bytes().starts_with(b"."));
                // A missing one is made in the private home, in which the program finds it again.
                let is_tool =
                    self.tools.iter().any(|tool| path.starts_with(tool)) || is_tool(below.as_os_str().as_bytes());
                below.iter().next().is_some() && !is_hidden && !is_tool && is_plain(path) && !is_cache(path)
            }
            None => !PRIVATE.iter().any(|it| path.starts_with(it)) && is_plain(path) && !is_cache(path),
        }
    }
}

/// The absolute path that a thread names, from the directory of a descriptor.
fn path_of(thread: u32, directory: i32, at: u64) -> Option<PathBuf> {
    let name = text(thread, at)?;
    let name = Path::new(OsStr::from_bytes(&name));
    if name.is_absolute() {
        return Some(normal(name));
    }
    // Without a name it is the descriptor itself, which was opened before.
    if name.as_os_str().is_empty() {
        return None;
    }
    let directory = match directory {
        libc::AT_FDCWD => "cwd".to_owned(),
        descriptor => format!("fd/{descriptor}"),
    };
    Some(normal(&std::fs::read_link(format!("/proc/{thread}/{directory}")).ok()?.join(name)))
}

/// A text in the memory of a thread, up to its end.
fn text(thread: u32, at: u64) -> Option<Vec<u8>> {
    for length in [PATH_BYTES_USUAL, PATH_BYTES_MAX] {
        let bytes = memory(thread, at, length)?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            return Some(bytes[..end].to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a workspace below `/tmp`, what a first look was refused was neither asked about nor reported.
    #[test]
    fn a_workspace_in_a_private_place_is_closed_unless_it_is_open() {
        let mut closed = Closed {
            open: Vec::new(),
            new: vec!["/home/u/new/deep".into()],
            workspace: "/tmp/project".into(),
            homes: vec!["/home/u".into()],
            tools: Vec::new(),
        };
        for (path, is_closed) in [
            ("/tmp/project/a.txt", true),
            ("/tmp/project/__pycache__/a.pyc", false),
            ("/tmp/other", false),
            ("/dev/null", false),
            ("/srv/x", true),
            ("/home/u/x", true),
            ("/home/u/go/pkg/mod/a", false),
            ("/home/u/new", false),
            ("/home/u/new/deep/a", false),
            ("/home/u/new/other", true),
        ] {
            assert_eq!(closed.closes(Path::new(path)), is_closed, "{path}");
        }
        closed.open.push("/tmp/project".into());
        assert!(!closed.closes(Path::new("/tmp/project/a.txt")));
    }
}
