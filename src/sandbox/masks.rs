//! Paths that no tool may see, wherever it runs: credentials at their usual paths. Also the resolution of links in paths.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Grant;
use crate::proto::known_paths::{self, CREDENTIAL_SUFFIXES, CREDENTIALS, SYSTEM_CREDENTIALS, TOOLS};

/// The parts of `/run` that a program needs: the resolver's configuration, and on NixOS the programs. The rest are sockets of
/// services, some of which would start a program outside for any caller.
pub(super) const KEPT_OF_RUN: [&str; 5] = [
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
];
/// The parts of `/proc` that must stay closed: the kernel's memory, and its data about the user and other programs.
pub(super) const CLOSED_OF_PROC: [&str; 4] = ["/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/timer_list"];
/// Directories in which people put files with passwords, below a home; the first is the home itself.
const USUAL: &[&str] = &["", "Desktop", "Documents", "Downloads", "Dropbox", "Nextcloud", "Sync", ".keepass"];
/// Maximum number of entries that are checked in one such directory.
const ENTRIES_MAX: usize = 4096;

/// Usual paths of credentials for the user with this home: below it, below the home that the user database names (`HOME` may name
/// another one), and those of the machine. Password databases are found by name in the usual directories.
#[must_use]
pub fn credentials(home: &Path) -> Vec<PathBuf> {
    let recorded = home_of_user().filter(|recorded| recorded != home && recorded.is_dir());
    let mut paths: Vec<PathBuf> = SYSTEM_CREDENTIALS.iter().map(PathBuf::from).collect();
    for home in [Some(home), recorded.as_deref()].into_iter().flatten() {
        paths.extend(CREDENTIALS.iter().map(|name| home.join(name)));
        paths.extend(USUAL.iter().flat_map(|below| with_suffix(&home.join(below))));
    }
    paths
}

/// The home of the current user in the system's user database, independent of `$HOME`.
#[must_use]
pub fn home_of_user() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.dir)
}

/// The files of a directory whose names end like those of credentials.
fn with_suffix(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_one = |path: &PathBuf| {
        let name = path.as_os_str().as_encoded_bytes().to_ascii_lowercase();
        CREDENTIAL_SUFFIXES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
    };
    entries.take(ENTRIES_MAX).flatten().map(|entry| entry.path()).filter(is_one).collect()
}

/// The files of a project that other programs run, which must be read-only in its sandbox: names in its top directory, and the
/// links from each of its work trees to the repository.
#[must_use]
pub fn protected(project: &Path) -> Vec<PathBuf> {
    const OF_WORKTREE: [&str; 4] = ["commondir", "config.worktree", "gitdir", "modules"];
    let trees = fs::read_dir(project.join(".git/worktrees")).into_iter().flatten().take(ENTRIES_MAX).flatten();
    let links = trees.flat_map(|tree| OF_WORKTREE.map(|name| tree.path().join(name)));
    known_paths::protected_names().map(|name| project.join(name)).chain(links).collect()
}

/// Resolves links in paths. It reads each directory once: the paths of credentials are in few directories, and following each
/// path from the root took 4,000 system calls per command.
#[derive(Default)]
pub(super) struct Resolver(HashMap<PathBuf, PathBuf>);

impl Resolver {
    /// Returns the path without links, as far as the path exists.
    pub(super) fn resolve(&mut self, path: &Path) -> PathBuf {
        let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), path.is_absolute()) else {
            return path.canonicalize().unwrap_or_else(|_| path.to_owned());
        };
        let found = self.directory(parent).join(name);
        let is_link = found.symlink_metadata().is_ok_and(|data| data.is_symlink());
        if is_link { found.canonicalize().unwrap_or(found) } else { found }
    }

    fn directory(&mut self, path: &Path) -> PathBuf {
        if let Some(found) = self.0.get(path) {
            return found.clone();
        }
        let found = self.resolve(path);
        self.0.insert(path.to_owned(), found.clone());
        found
    }
}

/// Form in which the jail of the overlay tier shows a path outside of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// A private file or directory is shown instead.
    Hidden,
    /// Readable, if its owner allows that.
    ReadOnly,
}

/// Returns how the jail of a grant shows an absolute path outside of the workspace; `None` for a path that may never be opened to
/// a program, and for one that contains such a path or a whole home.
#[must_use]
pub fn outside(grant: &Grant, path: &Path) -> Option<Outside> {
    /// The kernel's own directories, and devices.
    const CLOSED: [&str; 3] = ["/dev", "/proc", "/sys"];
    let mut links = Resolver::default();
    let homes: Vec<PathBuf> = grant.homes.iter().map(|home| links.resolve(home)).collect();
    let masked: Vec<PathBuf> = grant.masked.iter().map(|path| links.resolve(path)).collect();
    let workspace = links.resolve(&grant.workspace);
    let found = links.resolve(path);
    for path in [path, &found] {
        let is_closed = CLOSED.iter().any(|closed| path.starts_with(closed))
            || masked.iter().chain(&grant.masked).any(|masked| path.starts_with(masked) || masked.starts_with(path))
            || homes.iter().any(|home| home.starts_with(path));
        if is_closed || path.starts_with(&workspace) || path.parent().is_none() {
            return None;
        }
    }
    let tools = tools_of(&homes, grant.env.get(std::ffi::OsStr::new("PATH")).map(|path| &**path));
    let hidden = homes.iter().map(PathBuf::as_path).chain(PRIVATE.map(Path::new));
    let is_hidden = hidden.into_iter().any(|hidden| found.starts_with(hidden) && found != hidden)
        && !tools.iter().chain(&grant.readable).any(|tools| found.starts_with(tools));
    Some(if is_hidden { Outside::Hidden } else { Outside::ReadOnly })
}

/// Directories that a jail replaces by its own.
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// The paths that don't lie inside another one.
pub(super) fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !found.iter().any(|outer| path.starts_with(outer)) {
            found.push(path);
        }
    }
    found
}

/// The entries of a directory, except the one in which a path lies.
#[must_use]
pub fn entries_without(directory: &Path, own: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| !own.starts_with(path)).collect()
}

/// Returns the parts of these homes that hold tools: the usual places, and directories of `PATH`.
pub(super) fn tools_of(homes: &[PathBuf], path: Option<&std::ffi::OsStr>) -> Vec<PathBuf> {
    let usual = homes.iter().flat_map(|home| TOOLS.iter().map(|name| home.join(name)));
    let on_path = path.into_iter().flat_map(std::env::split_paths).filter(|directory| {
        // A home on PATH doesn't open the home.
        homes.iter().any(|home| directory.starts_with(home) && directory != home)
    });
    let there = usual.chain(on_path).filter_map(|path| path.canonicalize().ok());
    outermost(there.filter(|path| homes.iter().any(|home| path.starts_with(home) && path != home)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_both_homes_and_databases_of_passwords_are_masked() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("Documents")).unwrap();
        for name in ["Documents/Mine.KDBX", "Documents/notes.txt"] {
            fs::write(home.path().join(name), "").unwrap();
        }
        let masked = credentials(home.path());
        assert!(masked.contains(&home.path().join("Documents/Mine.KDBX")));
        assert!(!masked.contains(&home.path().join("Documents/notes.txt")));
        let recorded = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().map(|user| user.dir);
        for home in [Some(home.path().to_owned()), recorded].into_iter().flatten().filter(|home| home.is_dir()) {
            assert!(masked.contains(&home.join(".claude/.credentials.json")), "{}", home.display());
        }
        assert!(masked.contains(&PathBuf::from("/etc/shadow")));
    }
}
