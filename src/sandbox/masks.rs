//! Paths that no tool may see, wherever it runs: credentials by their usual places, and how a path becomes free of
//! links.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Grant;
use crate::proto::known_paths::{self, CREDENTIAL_SUFFIXES, CREDENTIALS, SYSTEM_CREDENTIALS, TOOLS};

/// The parts of `/run` that a program needs: the resolver's configuration, and on NixOS the programs. The rest are
/// sockets of services, some of which would start a program outside for any caller.
pub(super) const KEPT_OF_RUN: [&str; 5] = [
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
];
/// The parts of `/proc` that must stay closed: the kernel's memory, and what it keeps for the user and other programs.
pub(super) const CLOSED_OF_PROC: [&str; 4] = ["/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/timer_list"];
/// Place where people put files with passwords, below a home; the home itself is the first.
const USUAL: &[&str] = &["", "Desktop", "Documents", "Downloads", "Dropbox", "Nextcloud", "Sync", ".keepass"];
/// The most entries of one such directory that are looked at.
const ENTRIES_MAX: usize = 4096;

/// Place where credentials usually are, for the user with this home: below it, below the home that the user database
/// names (`HOME` may say something else), and of the machine. Databases of passwords are found by name in the usual
/// places.
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

/// The home that the system's table of users names for this one, whatever `$HOME` says.
#[must_use]
pub fn home_of_user() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.dir)
}

/// The files of a directory whose names end as those of credentials do.
fn with_suffix(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_one = |path: &PathBuf| {
        let name = path.as_os_str().as_encoded_bytes().to_ascii_lowercase();
        CREDENTIAL_SUFFIXES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
    };
    entries.take(ENTRIES_MAX).flatten().map(|entry| entry.path()).filter(is_one).collect()
}

/// The files of a project that other programs run: to be read-only in its sandbox. Names of its top only, and what links each of its
/// work trees to the repository.
#[must_use]
pub fn protected(project: &Path) -> Vec<PathBuf> {
    const OF_WORKTREE: [&str; 4] = ["commondir", "config.worktree", "gitdir", "modules"];
    let trees = fs::read_dir(project.join(".git/worktrees")).into_iter().flatten().take(ENTRIES_MAX).flatten();
    let links = trees.flat_map(|tree| OF_WORKTREE.map(|name| tree.path().join(name)));
    known_paths::protected_names().map(|name| project.join(name)).chain(links).collect()
}

/// Frees paths of links. It looks at each directory once: the paths of credentials have few directories, and to follow each path from
/// the root took 4,000 calls of the system for a command.
#[derive(Default)]
pub(super) struct Resolver(HashMap<PathBuf, PathBuf>);

impl Resolver {
    /// A path without links, as far as it is there.
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

/// Way in which the jail of the overlay tier shows a path outside of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Something private stands in its place.
    Hidden,
    /// Readable, if its owner lets it be.
    ReadOnly,
}

/// Way in which the jail of a grant shows an absolute path outside of the workspace; nothing for what may never be
/// opened to a program, and for what holds something of that kind or a whole home.
#[must_use]
pub fn outside(grant: &Grant, path: &Path) -> Option<Outside> {
    /// The kernel's own, and devices.
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

/// Directories for which a jail has its own.
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// The paths of which none lies in another one.
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

/// The entries of a directory, without the one in which a path lies.
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
