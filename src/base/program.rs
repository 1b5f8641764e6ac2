//! Programs among files: whether a file is executable, and the search in the directories of `PATH`. It looks at files and opens
//! none.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// Returns whether the metadata belong to a plain file with an execute permission.
#[must_use]
pub fn is_executable(data: &Metadata) -> bool {
    data.is_file() && data.permissions().mode() & 0o111 != 0
}

/// Returns whether a path leads to a program, through symbolic links.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| is_executable(&data))
}

/// Returns the program that a shell in `cwd` would run for a name, with this value of `PATH`.
#[must_use]
pub fn find_program(name: &str, path: &str, cwd: &Path) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(cwd.join(name)).filter(|file| is_program(file));
    }
    path.split(':').map(|directory| cwd.join(directory).join(name)).find(|file| is_program(file))
}

/// The `PATH` of a model's commands: that of the person's live shell, which may have entered an environment since. Clones share
/// it.
#[derive(Clone, Debug)]
pub struct SearchPath(Arc<Paths>);

#[derive(Debug)]
struct Paths {
    first: String,
    live: Mutex<Option<String>>,
}

impl SearchPath {
    /// Starts with the `PATH` of the session's start.
    #[must_use]
    pub fn new(first: String) -> Self {
        Self(Arc::new(Paths { first, live: Mutex::new(None) }))
    }

    /// Takes over the `PATH` of the live shell.
    pub fn follow(&self, live: Option<&str>) {
        *self.0.live.lock() = live.map(str::to_owned);
    }

    /// Returns the `PATH` in force. If nothing confines the program (`is_held` is false), it is that of the session's start: a
    /// directory that the model can change may have been added since, with a program that has the name of a harmless one.
    #[must_use]
    pub fn text(&self, is_held: bool) -> String {
        let live = self.0.live.lock();
        live.as_ref().filter(|_| is_held).unwrap_or(&self.0.first).clone()
    }

    /// Returns the `PATH` of the live shell, if known.
    #[must_use]
    pub fn live(&self) -> Option<String> {
        self.0.live.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};

    use super::*;

    #[test]
    fn the_first_program_on_the_path_is_found() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        for name in ["a", "b"] {
            create_dir(at(name)).expect("a directory");
            write(at(name).join("tool"), "").expect("a file");
        }
        create_dir(at("a/folder")).expect("a directory");
        set_permissions(at("b/tool"), Permissions::from_mode(0o755)).expect("a mode");
        let path = format!("{}:b", at("a").display());
        assert_eq!(find_program("tool", &path, top.path()), Some(at("b/tool")), "a/tool can't be run");
        assert_eq!(find_program("folder", &path, top.path()), None);
        assert_eq!(find_program("b/tool", "", top.path()), Some(at("b/tool")));
        assert_eq!(find_program("./a/tool", &path, top.path()), None);
    }
}
