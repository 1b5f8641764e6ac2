//! Which paths outside of the workspace a program opens for writing though its jail doesn't let it: read from the call, before
//! the kernel refuses it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::super::enter::HeldCall;
use super::super::wire::{Spec, paths};
use super::watch::memory;

/// Longest path that is read.
const PATH_BYTES_MAX: usize = 4096;
/// Most paths are shorter, and memory may end after one.
const PATH_BYTES_USUAL: usize = 256;
/// Where a program can write, or where nothing is ever opened to one.
const PRIVATE: [&str; 6] = ["/dev", "/proc", "/sys", "/tmp", "/var/tmp", "/run"];
/// Where programs leave things for the next time, if they can: they do without.
const CACHES: [&str; 2] = ["__pycache__", "cache"];

/// What of the file system a program can't write.
pub(super) struct Closed {
    open: Vec<PathBuf>,
    homes: Vec<PathBuf>,
    tools: Vec<PathBuf>,
}

impl Closed {
    pub(super) fn of(spec: &Spec) -> Self {
        let jail = spec.jail.as_ref();
        let workspace = jail.map(|jail| jail.workspace.path());
        Self {
            open: workspace.into_iter().chain(paths(&spec.writable)).collect(),
            homes: jail.map(|jail| paths(&jail.homes).collect()).unwrap_or_default(),
            tools: jail.map(|jail| paths(&jail.kept_of_home).collect()).unwrap_or_default(),
        }
    }

    /// The path that a call opens for writing or makes, if its jail is closed there.
    pub(super) fn path_of(&self, call: &HeldCall) -> Option<PathBuf> {
        let [first, second, ..] = call.arguments;
        let (directory, at) = match call.call {
            libc::SYS_openat | libc::SYS_mkdirat => (first as i32, second),
            libc::SYS_open | libc::SYS_creat | libc::SYS_mkdir => (libc::AT_FDCWD, first),
            _ => return None,
        };
        let name = text(call.thread, at)?;
        let name = Path::new(OsStr::from_bytes(&name));
        let path = if name.is_absolute() {
            normal(name)
        } else {
            let directory = match directory {
                libc::AT_FDCWD => "cwd".to_owned(),
                descriptor => format!("fd/{descriptor}"),
            };
            normal(&std::fs::read_link(format!("/proc/{}/{directory}", call.thread)).ok()?.join(name))
        };
        self.closes(&path).then_some(path)
    }

    /// Whether a program that writes there is refused, or writes into a private directory that stands for the true one.
    fn closes(&self, path: &Path) -> bool {
        if self.open.iter().any(|open| path.starts_with(open)) {
            return false;
        }
        let is_plain = |path: &Path| !path.as_os_str().as_bytes().iter().any(u8::is_ascii_control);
        let is_cache = |path: &Path| path.iter().any(|part| CACHES.iter().any(|cache| part == *cache));
        match self.homes.iter().find_map(|home| path.strip_prefix(home).ok()) {
            // Settings and caches of programs, which they find in every home, and tools, which they can't change.
            Some(below) => {
                let is_hidden = below.iter().any(|part| part.as_bytes().starts_with(b"."));
                let is_tool = self.tools.iter().any(|tool| path.starts_with(tool));
                below.iter().next().is_some() && !is_hidden && !is_tool && is_plain(path) && !is_cache(path)
            }
            None => !PRIVATE.iter().any(|it| path.starts_with(it)) && is_plain(path) && !is_cache(path),
        }
    }
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

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            _ => {}
        }
    }
    normal
}
