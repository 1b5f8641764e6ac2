//! Trees that are written out once and that several benches show below their own files. They are in a folder of the repository,
//! each under a name derived from its files, and are never changed. One that no bench uses can be removed at any time.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::bench::write_files;
use super::edit::RECORDS;
use crate::base::hash::sha256_hex;
use crate::files::Locked;
use crate::git::{Entry, GitError, Mode, Objects, Oid, diff, empty_tree, oid_of};

/// Paths by which a tree may differ from one that is written out already; of more, it is written out itself.
const DIFFER_MAX: usize = 5_000;
/// Trees that stay although no session uses them: the next session of the same commit begins at once.
const UNUSED_MAX: usize = 2;
/// Longest wait for another process that writes the same tree.
const WAIT: Duration = Duration::from_secs(600);
/// Hexadecimal digits of a name.
const NAME_DIGITS: usize = 40;

/// A tree that is written out. It stays as long as this lives.
#[derive(Debug)]
pub(super) struct Lower {
    /// Its name.
    pub(super) name: String,
    /// The tree in git. Its records of sessions aren't written out.
    pub(super) tree: Oid,
    /// The directory with its files.
    pub(super) files: PathBuf,
    _lock: Locked<File>,
}

/// The folder of a repository's trees.
#[derive(Clone, Debug)]
pub(super) struct Lowers(pub(super) PathBuf);

impl Lowers {
    /// Resets the age of a tree.
    fn used(&self, lower: Lower) -> Lower {
        let file = File::options().write(true).open(self.0.join(&lower.name).join("tree"));
        let _ = file.and_then(|it| it.set_modified(SystemTime::now()));
        lower
    }

    /// The tree of this name, if it is there.
    pub(super) fn take(&self, name: &str) -> Option<Lower> {
        let lock = self.lock(name, true, Duration::ZERO).ok()?;
        let text = fs::read_to_string(self.0.join(name).join("tree")).ok()?;
        let files = self.0.join(name).join("files");
        files.is_dir().then_some(())?;
        Some(Lower { name: name.to_owned(), tree: oid_of(&text)?, files, _lock: lock })
    }

    /// A tree that has the files of `tree`, or differs from them by few: the one that is there, or a new one.
    ///
    /// # Errors
    /// It can't be read or written.
    pub(super) fn for_tree(&self, objects: &dyn Objects, tree: Oid) -> io::Result<Lower> {
        let name = name_of(objects, tree).map_err(io::Error::other)?;
        if let Some(same) = self.take(&name) {
            return Ok(self.used(Lower { tree, ..same }));
        }
        if let Some(like) =
            self.names().into_iter().filter_map(|it| self.take(&it)).find(|it| is_near(objects, it.tree, tree))
        {
            return Ok(self.used(like));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        {
            let _lock = self.lock(&name, false, WAIT)?;
            let (place, new) = (self.0.join(&name), self.0.join(format!("{name}.new")));
            // Another process may have written it while this one waited.
            if !place.is_dir() {
                remove(&new)?;
                DirBuilder::new().mode(0o700).create(&new)?;
                let all = diff(objects, empty_tree(), tree).map_err(io::Error::other)?;
                DirBuilder::new().mode(0o755).create(new.join("files"))?;
                write_files(objects, &all, &new.join("files"))?;
                fs::write(new.join("tree"), tree.to_string())?;
                fs::rename(&new, &place)?;
            }
        }
        self.take(&name).ok_or_else(|| io::Error::other("a tree that was written out has gone"))
    }

    /// Removes trees that no bench uses, but for the newest. `used` are the names that benches which aren't open refer to. If
    /// `only_names`, none is removed. Returns the names.
    pub(super) fn clear_up(&self, used: &[String], only_names: bool) -> Vec<String> {
        let mut unused: Vec<(SystemTime, String)> = Vec::new();
        for name in self.names().into_iter().filter(|it| !used.contains(it)) {
            let time = fs::metadata(self.0.join(&name).join("tree")).and_then(|it| it.modified());
            unused.push((time.unwrap_or(SystemTime::UNIX_EPOCH), name));
        }
        unused.sort_by(|one, other| other.cmp(one));
        let mut gone = Vec::new();
        for (_, name) in unused.into_iter().skip(UNUSED_MAX) {
            // A process that has it open holds its lock.
            let Ok(_lock) = self.lock(&name, false, Duration::ZERO) else { continue };
            if only_names || self.remove(&name).is_ok() {
                gone.push(name);
            }
        }
        // Trees whose writing was interrupted: a process that still writes one holds its lock.
        for name in self.names_ending(".new") {
            let Ok(_lock) = self.lock(&name, false, Duration::ZERO) else { continue };
            let unfinished = format!("{name}.new");
            if only_names || remove(&self.0.join(&unfinished)).is_ok() {
                gone.push(unfinished);
            }
        }
        gone
    }

    /// Removes a tree whose lock is held: at once, so that half of it is never found.
    fn remove(&self, name: &str) -> io::Result<()> {
        let old = self.0.join(format!("{name}.old"));
        remove(&old)?;
        fs::rename(self.0.join(name), &old)?;
        remove(&old)
    }

    /// The names of the trees that are there.
    fn names(&self) -> Vec<String> {
        self.names_ending("")
    }

    /// Returns the names of the trees with this ending; without one, of the complete ones.
    fn names_ending(&self, ending: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = entries.filter_map(|it| Some(it.file_name().to_str()?.strip_suffix(ending)?.to_owned()));
        names.filter(|it| it.len() == NAME_DIGITS && it.bytes().all(|byte| byte.is_ascii_hexdigit())).collect()
    }

    fn lock(&self, name: &str, is_shared: bool, wait: Duration) -> io::Result<Locked<File>> {
        let path = self.0.join(format!("{name}.lock"));
        let mut options = File::options();
        options.read(true).write(true).create(!is_shared).truncate(false).mode(0o600);
        Locked::take(options.open(path)?, is_shared, wait).map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether two trees differ by so few files that one can be below the other's bench.
fn is_near(objects: &dyn Objects, one: Oid, other: Oid) -> bool {
    // The objects of a dropped session may be gone.
    diff(objects, one, other).is_ok_and(|all| all.len() <= DIFFER_MAX)
}

/// The name of the files of a tree without records of sessions: those of the same commit have the same.
fn name_of(objects: &dyn Objects, tree: Oid) -> Result<String, GitError> {
    let mut text = Vec::new();
    let mut add = |prefix: &str, entry: &Entry| {
        text.extend_from_slice(format!("{prefix}{} {} ", entry.mode.octal(), entry.id).as_bytes());
        text.extend_from_slice(&entry.name);
        text.push(0);
    };
    let (own, records) = RECORDS.split_once('/').unwrap_or((RECORDS, ""));
    for entry in objects.entries(tree)? {
        if entry.name == own.as_bytes() && entry.mode == Mode::Directory {
            let below = objects.entries(entry.id)?;
            below.iter().filter(|it| it.name != records.as_bytes()).for_each(|it| add(".reedclaw/", it));
        } else {
            add("", &entry);
        }
    }
    Ok(sha256_hex(&text)[..NAME_DIGITS].to_owned())
}
