//! Several files beneath a directory, changed as one: all of them or none, even if the program crashes at any moment.
//! Each new content is written beside its file first; a journal in another directory lists the renames. Once the
//! journal counts, the next run finishes the renames that a crash interrupted. Knows nothing of the contents or the
//! reason for the change.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, TryLockError};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

use nix::fcntl::{RenameFlags, renameat2};
use nix::unistd::{Gid, Uid, fchown};
use ring::rand::{SecureRandom, SystemRandom};

use super::*;
use crate::base::hash::{path_name, sha256_hex};
use crate::base::hex;

/// Longest file that is read for a recovery, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest journal, in bytes: some thousand paths.
const JOURNAL_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// First line of a journal: its kind and its version.
const HEAD: &str = "reedclaw-edits 1";
/// Last line of a journal that is whole.
const END: &str = "end";
/// Longest wait for another session's change: it takes some milliseconds, on a slow disk seconds.
const WAIT: Duration = Duration::from_secs(10);
/// Threads that wait for the disk at once; it takes many at a time in hardly more than the time of one.
const SYNCING_THREADS: usize = 8;

/// One file of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The path of the file.
    pub path: &'a str,
    /// The content required for the change; `None` if there must be no file.
    pub old: Option<&'a [u8]>,
    /// The new content; `None` to delete it.
    pub new: Option<&'a [u8]>,
}

/// Reason why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {error}")]
pub struct CommitError {
    /// The file that it failed on.
    pub path: String,
    /// The reason.
    pub error: PathError,
}

/// The result for a change that a crash interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The directory that the files lie beneath.
    pub root: PathBuf,
    /// Files that have their new content; empty if nothing had been changed yet.
    pub finished: Vec<PathBuf>,
    /// Files that another program has changed since: they were left as they are.
    pub left: Vec<PathBuf>,
}

/// The place of the journals: a directory that only its owner can write.
#[derive(Clone, Debug)]
pub struct Journals {
    directory: PathBuf,
    /// Longest wait for another session that changes files in the same directory.
    wait: Duration,
}

impl Journals {
    /// Keeps them in `directory`, which is made with the first one.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, wait: WAIT }
    }

    /// The same, with another longest wait for other sessions.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Completes or reverts changes that interrupted sessions have left, in any directory.
    #[must_use]
    pub fn recover(&self) -> Vec<Recovery> {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return Vec::new() };
        let paths = entries.flatten().map(|entry| entry.path());
        let journals = paths.filter(|path| path.extension().is_some_and(|it| it == "prepared" || it == "committed"));
        let recovered = journals.filter_map(|path| {
            let root = Root::open(&Journal::read(&path)?.root, None).ok()?;
            self.lock(root.path(), Duration::ZERO).ok()?.recover(&root)
        });
        recovered.collect()
    }

    /// Takes the lock of a directory; it ends with its process.
    fn lock(&self, root: &Path, wait: Duration) -> Result<Desk, PathError> {
        let of = |error: std::io::Error| of_io(&error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(of)?;
        let name = path_name(root);
        let at = |extension: &str| self.directory.join(format!("{name}.{extension}"));
        let lock = lock_file(&at("lock")).map_err(of)?;
        let lock = Locked::take(lock, false, wait).map_err(|error| match error {
            TryLockError::WouldBlock => PathError::Busy,
            TryLockError::Error(error) => of(error),
        })?;
        let directory = File::open(&self.directory).map_err(of)?;
        Ok(Desk { _lock: lock, directory, prepared: at("prepared"), committed: at("committed") })
    }
}

/// The journal of one directory, locked by this process.
struct Desk {
    _lock: Locked<File>,
    directory: File,
    /// The journal's name before anything has been changed.
    prepared: PathBuf,
    /// The journal's name from which on the change must be completed.
    committed: PathBuf,
}

impl Desk {
    fn prepare(&self, journal: &Journal) -> std::io::Result<File> {
        let mut file = private_file(&self.prepared)?;
        file.write_all(journal.text().as_bytes())?;
        Ok(file)
    }

    /// Puts the change into effect: from then on it will be completed in any case.
    fn count(&self, journal: &File) -> std::io::Result<()> {
        journal.sync_all()?;
        std::fs::rename(&self.prepared, &self.committed)?;
        self.directory.sync_all()
    }

    fn close(&self) -> std::io::Result<()> {
        let is_gone = |gone: std::io::Result<()>| match gone {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        is_gone(std::fs::remove_file(&self.prepared))?;
        is_gone(std::fs::remove_file(&self.committed))?;
        self.directory.sync_all()
    }

    /// Looks for the remains of a crash; returns a description of the repair.
    fn recover(&self, root: &Root) -> Option<Recovery> {
        let is_committed = self.committed.exists();
        if !is_committed && !self.prepared.exists() {
            return None;
        }
        let journal = Journal::read(if is_committed { &self.committed } else { &self.prepared });
        let mut recovery = Recovery { root: root.path().to_owned(), finished: Vec::new(), left: Vec::new() };
        if let Some(journal) = &journal {
            if is_committed {
                for entry in &journal.entries {
                    let list = if finish(root, entry) { &mut recovery.finished } else { &mut recovery.left };
                    list.push(entry.path.clone());
                }
            }
            tidy(root, journal, !is_committed);
        }
        // A journal that can't be removed is examined again, with the same result.
        let _ = self.close();
        journal.map(|_| recovery)
    }
}

/// The planned changes, as they are stored.
struct Journal {
    root: PathBuf,
    /// Directories that the change makes, the outer ones first.
    directories: Vec<PathBuf>,
    entries: Vec<Entry>,
}

/// One file: its path, the name of its new content beside it, and the hashes of its contents before and after.
struct Entry {
    path: PathBuf,
    temporary: String,
    old: Option<String>,
    new: Option<String>,
}

impl Journal {
    fn text(&self) -> String {
        let name = |path: &Path| hex::encode(path.as_os_str().as_bytes());
        let mut text = format!("{HEAD}\nroot {}\n", name(&self.root));
        for directory in &self.directories {
            text.push_str(&format!("directory {}\n", name(directory)));
        }
        for Entry { path, temporary, old, new } in &self.entries {
            let hash = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "-".to_owned());
            text.push_str(&format!("file {} {temporary} {} {}\n", name(path), hash(old), hash(new)));
        }
        text + END + "\n"
    }

    fn read(path: &Path) -> Option<Self> {
        if std::fs::metadata(path).ok()?.len() > JOURNAL_BYTES_MAX {
            return None;
        }
        Self::of(&std::fs::read_to_string(path).ok()?)
    }

    /// Reads a journal; `None` if it isn't complete.
    fn of(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?.strip_suffix(&format!("{END}\n"))?.lines();
        let name = |text: &str| {
            let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
            Some(PathBuf::from(std::ffi::OsString::from_vec(bytes?)))
        };
        let mut journal =
            Self { root: name(lines.next()?.strip_prefix("root ")?)?, directories: Vec::new(), entries: Vec::new() };
        let hash = |text: &str| (text != "-").then(|| text.to_owned());
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["directory", path] => journal.directories.push(name(path)?),
                ["file", path, temporary, old, new] => journal.entries.push(Entry {
                    path: name(path)?,
                    temporary: temporary.to_owned(),
                    old: hash(old),
                    new: hash(new),
                }),
                _ => return None,
            }
        }
        Some(journal)
    }
}

fn byte(digits: &[u8]) -> Option<u8> {
    hex::decode::<1>(std::str::from_utf8(digits).ok()?).map(|[byte]| byte)
}

/// Facts that distinguish one state of a file from another without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: i64,
    changed: (i64, i64),
}

/// A file of a change whose new content lies ready.
struct Staged {
    parent: PathBuf,
    name: PathBuf,
    stamp: Option<Stamp>,
    mode: u32,
    /// Held open until everything is done.
    old: Option<File>,
    content: Option<File>,
}

/// The directories that files of a change lie in.
type Parents = BTreeMap<PathBuf, OwnedFd>;

impl Journals {
    /// Changes several files as one. Missing directories are made; permissions stay, and so does the owner if that is
    /// allowed. No two changes may be of the same file.
    ///
    /// # Errors
    /// A file has another content than expected, or can't be written; in that case every file is unchanged.
    pub fn commit(&self, root: &Root, changes: &[Change<'_>]) -> Result<(), CommitError> {
        self.commit_in_steps(root, changes, &mut || ())
    }

    /// Calls `step` at each point where a crash would leave another state.
    fn commit_in_steps(&self, root: &Root, changes: &[Change<'_>], step: &mut dyn FnMut()) -> Result<(), CommitError> {
        let of_journal = |error: PathError| CommitError { path: self.directory.display().to_string(), error };
        let desk = self.lock(&root.path, self.wait).map_err(of_journal)?;
        let _ = desk.recover(root);
        let journal = journal(root, changes)?;
        let file = desk.prepare(&journal).map_err(|error| of_journal(of_io(&error)))?;
        step();
        let mut parents = Parents::new();
        let ready = stage(root, &journal, changes, &mut parents, step).and_then(|staged| {
            desk.count(&file).map_err(|error| of_journal(of_io(&error)))?;
            Ok(staged)
        });
        let staged = match ready {
            Ok(staged) => staged,
            Err(error) => {
                tidy(root, &journal, true);
                let _ = desk.close();
                return Err(error);
            }
        };
        step();
        let mut done = 0;
        let applied = staged.iter().zip(&journal.entries).zip(changes).try_for_each(|((staged, entry), change)| {
            let applied = apply(&parents[&staged.parent], staged, entry);
            applied.map_err(|error| CommitError { path: change.path.to_owned(), error })?;
            done += 1;
            step();
            Ok(())
        });
        if applied.is_err() {
            for (staged, change) in staged.iter().zip(changes).take(done) {
                let parent = &parents[&staged.parent];
                // A file that can't be restored either isn't in the journal any more: the error names the file that
                // failed.
                let _ = match change.old {
                    Some(old) => replace(parent, &staged.name, old, staged.mode, staged.old.as_ref()),
                    None => unlinkat(parent, &staged.name, UnlinkatFlags::NoRemoveDir).map_err(PathError::from),
                };
            }
            tidy(root, &journal, true);
        }
        parents.values().for_each(sync);
        let _ = desk.close();
        step();
        // Some disks take milliseconds to free the blocks of each replaced file; nothing waits for that.
        let replaced: Vec<File> = staged.into_iter().filter_map(|staged| staged.old).collect();
        let _ = std::thread::Builder::new().spawn(move || drop(replaced));
        applied
    }
}

/// Makes the journal of a change.
fn journal(root: &Root, changes: &[Change<'_>]) -> Result<Journal, CommitError> {
    let mut nonce = [0; 8];
    SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|_| CommitError { path: String::new(), error: PathError::System(Errno::EIO) })?;
    let nonce = hex::encode(&nonce);
    let mut journal = Journal { root: root.path.clone(), directories: Vec::new(), entries: Vec::new() };
    for (at, change) in changes.iter().enumerate() {
        let path = root.resolve(change.path);
        let path = path.map_err(|error| CommitError { path: change.path.to_owned(), error })?;
        let missing = |path: &&Path| {
            !path.as_os_str().is_empty() && matches!(root.open_beneath(path, OFlag::O_PATH), Err(PathError::Missing))
        };
        if change.new.is_some() {
            let mut made: Vec<PathBuf> = path.ancestors().skip(1).take_while(missing).map(Path::to_owned).collect();
            made.reverse();
            made.retain(|path| !journal.directories.contains(path));
            journal.directories.append(&mut made);
        }
        journal.entries.push(Entry {
            path,
            temporary: format!(".reedclaw-{nonce}-{at}.tmp"),
            old: change.old.map(sha256_hex),
            new: change.new.map(sha256_hex),
        });
    }
    Ok(journal)
}

/// Writes every new content beside its file, onto the disk; every old one is checked before and after.
fn stage(
    root: &Root,
    journal: &Journal,
    changes: &[Change<'_>],
    parents: &mut Parents,
    step: &mut dyn FnMut(),
) -> Result<Vec<Staged>, CommitError> {
    let failed = |at: usize, error: PathError| CommitError { path: changes[at].path.to_owned(), error };
    let new_mode = 0o666 & !umask();
    let mut staged = Vec::with_capacity(changes.len());
    for (at, (entry, change)) in journal.entries.iter().zip(changes).enumerate() {
        let one = stage_one(root, entry, change, parents, new_mode).map_err(|error| failed(at, error))?;
        staged.push(one);
        step();
    }
    let contents: Vec<(usize, &File)> =
        staged.iter().enumerate().filter_map(|(at, one)| Some((at, one.content.as_ref()?))).collect();
    sync_all(&contents).map_err(|(at, error)| failed(at, error))?;
    for (at, one) in staged.iter().enumerate() {
        if stamp(&parents[&one.parent], &one.name) != one.stamp {
            return Err(failed(at, PathError::Changed));
        }
    }
    step();
    Ok(staged)
}

fn stage_one(
    root: &Root,
    entry: &Entry,
    change: &Change<'_>,
    parents: &mut Parents,
    new_mode: u32,
) -> Result<Staged, PathError> {
    let parent = entry.path.parent().unwrap_or(Path::new("")).to_owned();
    let name = PathBuf::from(entry.path.file_name().ok_or(PathError::Directory)?);
    if !parents.contains_key(&parent) {
        parents.insert(parent.clone(), root.make_directories(&parent)?);
    }
    let dir = &parents[&parent];
    let stamp = stamp(dir, &name);
    let mut old = match root.open_in(dir, &name, OFlag::O_RDONLY | OFlag::O_NOFOLLOW) {
        Ok(old) => Some(root.checked(File::from(old))?),
        Err(PathError::Missing) => None,
        Err(problem) => return Err(problem),
    };
    let mut found = None;
    let mut data = None;
    if let Some(old) = &mut old {
        data = Some(old.metadata().map_err(|error| of_io(&error))?);
        let mut bytes = Vec::new();
        old.read_to_end(&mut bytes).map_err(|error| of_io(&error))?;
        found = Some(bytes);
    }
    if found.as_deref() != change.old {
        return Err(PathError::Changed);
    }
    let mode = data.as_ref().map_or(new_mode, |data| data.mode() & 0o7777);
    let mut content = None;
    if let Some(bytes) = change.new {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let how = OpenHow::new().flags(flags).mode(Mode::from_bits_truncate(0o600));
        let mut file = File::from(openat2(dir, entry.temporary.as_str(), how)?);
        file.write_all(bytes).map_err(|error| of_io(&error))?;
        if let Some(data) = &data {
            // Only root may change a file's owner; other users keep themselves as the owner.
            let _ = fchown(&file, Some(Uid::from_raw(data.uid())), Some(Gid::from_raw(data.gid())));
        }
        let mode = old.as_ref().map_or(mode, |old| keep_attributes(old, &file, mode));
        fchmod(&file, Mode::from_bits_truncate(mode))?;
        content = Some(file);
    }
    Ok(Staged { parent, name, stamp, mode, old, content })
}

/// Finishes one file of a change that counts; returns whether its content is right.
fn finish(root: &Root, entry: &Entry) -> bool {
    let Some((parent, name)) = parent_of(root, &entry.path) else { return false };
    let hash_of = |name: &Path| {
        let file = root.open_in(&parent, name, OFlag::O_RDONLY | OFlag::O_NOFOLLOW).map(File::from);
        let mut bytes = Vec::new();
        match file {
            Ok(file) => file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok().map(|_| Some(sha256_hex(&bytes))),
            Err(PathError::Missing) => Some(None),
            Err(_) => None,
        }
    };
    let Some(now) = hash_of(&name) else { return false };
    if now == entry.new {
        return true;
    }
    let is_ready = now == entry.old && hash_of(Path::new(&entry.temporary)) == Some(entry.new.clone());
    let finished = is_ready
        && match entry.new {
            Some(_) => renameat(&parent, entry.temporary.as_str(), &parent, &name).is_ok(),
            None => unlinkat(&parent, &name, UnlinkatFlags::NoRemoveDir).is_ok(),
        };
    sync(&parent);
    finished
}

/// Removes the remains of a change beside its files, and the directories that it made if they are empty.
fn tidy(root: &Root, journal: &Journal, with_directories: bool) {
    for entry in &journal.entries {
        if let Some((parent, _)) = parent_of(root, &entry.path) {
            let _ = unlinkat(&parent, entry.temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
    for directory in journal.directories.iter().rev().filter(|_| with_directories) {
        if let Some((parent, name)) = parent_of(root, directory) {
            let _ = unlinkat(&parent, &name, UnlinkatFlags::RemoveDir);
        }
    }
}

fn parent_of(root: &Root, path: &Path) -> Option<(OwnedFd, PathBuf)> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let parent = root.open_beneath(parent, OFlag::O_PATH | OFlag::O_DIRECTORY).ok()?;
    Some((parent, path.file_name()?.into()))
}

/// Puts one file's new content in place, or removes the file.
fn apply(parent: &OwnedFd, staged: &Staged, entry: &Entry) -> Result<(), PathError> {
    let (name, temporary) = (&staged.name, Path::new(&entry.temporary));
    match (&entry.old, &entry.new) {
        (_, None) => Ok(unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)?),
        (Some(_), Some(_)) => Ok(renameat(parent, temporary, parent, name)?),
        (None, Some(_)) => match renameat2(parent, temporary, parent, name, RenameFlags::RENAME_NOREPLACE) {
            // Not every file system supports this exchange.
            Err(Errno::EINVAL | Errno::ENOSYS) => Ok(renameat(parent, temporary, parent, name)?),
            Err(Errno::EEXIST) => Err(PathError::Changed),
            other => Ok(other?),
        },
    }
}

fn stamp(parent: &OwnedFd, name: &Path) -> Option<Stamp> {
    let data = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    Some(Stamp { inode: data.st_ino, bytes: data.st_size, changed: (data.st_ctime, data.st_ctime_nsec) })
}

/// Waits until all are on the disk.
fn sync_all(files: &[(usize, &File)]) -> Result<(), (usize, PathError)> {
    let share = files.len().div_ceil(SYNCING_THREADS).max(1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = files
            .chunks(share)
            .map(|files| {
                scope.spawn(|| {
                    files.iter().try_for_each(|(at, file)| file.sync_all().map_err(|error| (*at, of_io(&error))))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err((0, PathError::System(Errno::EIO)))))
    })
}

#[cfg(test)]
mod tests;
