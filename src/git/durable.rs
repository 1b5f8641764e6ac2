//! References and power failures: a reference reaches the disk before it gets its name, so a power failure leaves the old or the
//! new one. References that are damaged nevertheless, by another program or by a disk that lies, are detected and rewritten.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gix::actor::SignatureRef;
use gix::lock::acquire::Fail;
use gix::refs::transaction::{Change, RefEdit};

use super::{GitError, LOCKED_MAX, Oid, PAUSE, PAUSE_MAX, Repo, fault, oid_of, other};

/// Time for which the library itself waits for a lock; our own tries last longer.
const LOCK_WAIT: Duration = Duration::from_millis(100);
/// The file of references that `git gc` has packed.
const TABLE: &str = "packed-refs";
/// Age from which on the lock of a reference of ours counts as the remains of a crash: git holds one for about a second at most.
const STALE: Duration = Duration::from_secs(60);

/// Reason why an edit of a reference failed.
pub(super) enum EditError {
    /// The library's.
    Refs(gix::Error),
    /// The system's.
    Disk(std::io::Error),
}

impl Repo {
    /// Carries out one edit of a reference; the new content is on the disk before the reference has it.
    pub(super) fn edit(&self, edit: RefEdit, by: SignatureRef<'_>) -> Result<(), EditError> {
        let name = edit.name.as_bstr().to_string();
        let path = self.common_dir.join(&name);
        let is_new = !path.exists();
        let is_write = !matches!(edit.change, Change::Delete { .. });
        if !is_write {
            self.unpack(&name).map_err(EditError::Disk)?;
        }
        self.view.with(|repo| {
            let wait = Fail::AfterDurationWithBackoff(LOCK_WAIT);
            let ready = repo.refs.transaction().prepare([edit], wait, wait).map_err(EditError::Refs)?;
            if is_write {
                match File::open(lock_of(&path)).and_then(|lock| fault::sync(&lock, &lock_of(&path))) {
                    // It has this content already.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    done => done.map_err(EditError::Disk)?,
                }
                fault::point();
            }
            ready.commit(Some(by)).map(drop).map_err(EditError::Refs)
        })?;
        fault::point();
        // The reference has moved: an error now would mean that it hasn't.
        let _ = self.sync_folders(&path, is_new);
        Ok(())
    }

    /// Brings the name of a reference onto the disk; of a new one also the folders above it.
    fn sync_folders(&self, path: &Path, is_new: bool) -> std::io::Result<()> {
        for folder in path.ancestors().skip(1).take_while(|it| *it != self.common_dir) {
            match File::open(folder) {
                // An empty folder may be removed, also by others: then the folder above it contains the change.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => {
                    fault::sync(&opened?, folder)?;
                    if !is_new {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The inode and time of the table of packed references, which distinguish it from an older one. `None` if there is no table.
    pub(super) fn packed_refs(&self) -> Option<(u64, i64, i64)> {
        let about = std::fs::metadata(self.common_dir.join(TABLE)).ok()?;
        Some((about.ino(), about.mtime(), about.mtime_nsec()))
    }

    /// Takes a reference out of the table of packed ones, and makes it a file before. The library would write the table
    /// without waiting for the disk, and a power cut could take all references in it.
    fn unpack(&self, name: &str) -> std::io::Result<()> {
        let table = self.common_dir.join(TABLE);
        if find_packed(&std::fs::read(&table).unwrap_or_default(), name).is_none() {
            return Ok(());
        }
        // The lock isn't held during the wait for the disk: if a crash left it, git's own programs would stop.
        let draft = self.common_dir.join(format!("{TABLE}.rc{}", std::process::id()));
        let done = (|| loop {
            let text = std::fs::read(&table)?;
            let Some((id, lines)) = find_packed(&text, name) else { return Ok(()) };
            if !self.common_dir.join(name).exists() {
                self.put(name, format!("{id}\n").as_bytes())?;
            }
            write_synced(&File::create(&draft)?, &draft, &[&text[..lines.start], &text[lines.end..]].concat())?;
            let lock = Held::take(&table)?;
            if std::fs::read(&table)? == text {
                std::fs::rename(&draft, &table)?;
                drop(lock);
                fault::point();
                return fault::sync(&File::open(&self.common_dir)?, &self.common_dir);
            }
        })();
        let _ = std::fs::remove_file(&draft);
        done
    }

    /// Writes the file of a reference as it is to be.
    fn put(&self, name: &str, text: &[u8]) -> std::io::Result<()> {
        let path = self.common_dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.common_dir))?;
        let lock = Held::take(&path)?;
        write_synced(&lock.file, &lock_of(&path), text)?;
        std::fs::rename(lock_of(&path), &path)?;
        // The lock was renamed to the file.
        lock.became_the_file();
        fault::point();
        self.sync_folders(&path, true)
    }

    /// Returns whether a reference exists but names no readable commit; or it is gone, and so is the table of packed ones.
    #[must_use]
    pub fn is_torn(&self, name: &str) -> bool {
        if self.tables.is_some() {
            return false;
        }
        match std::fs::read(self.common_dir.join(name)) {
            Ok(text) if text.starts_with(b"ref: ") => !text.ends_with(b"\n") || text.contains(&0),
            Ok(text) => id_in(&text).is_none_or(|id| self.commit(id).is_err()),
            Err(error) if error.kind() == ErrorKind::NotFound => self.is_table_torn(),
            Err(_) => false,
        }
    }

    /// Returns whether the table of packed references can't be whole: git begins it with a line about itself, and ends
    /// each line.
    #[must_use]
    pub fn is_table_torn(&self) -> bool {
        let table = std::fs::read(self.common_dir.join(TABLE));
        table.is_ok_and(|text| !text.ends_with(b"\n") || text.contains(&0))
    }

    /// The references below `prefix`, which ends with a slash, whose files are damaged.
    #[must_use]
    pub fn torn_below(&self, prefix: &str) -> Vec<String> {
        let (mut torn, mut folders) = (Vec::new(), vec![prefix.to_owned()]);
        while let Some(folder) = folders.pop().filter(|_| self.tables.is_none()) {
            for entry in std::fs::read_dir(self.common_dir.join(&folder)).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                match entry.file_type() {
                    Ok(it) if it.is_dir() => folders.push(format!("{folder}{name}/")),
                    Ok(it) if it.is_file() && !has_lock_name(&name) => torn.push(format!("{folder}{name}")),
                    _ => {}
                }
            }
        }
        torn.retain(|name| self.is_torn(name));
        torn
    }

    /// Points a damaged reference to a commit; `None` removes it, since it names nothing. It isn't changed if it is intact by
    /// now.
    ///
    /// # Errors
    /// The repository can't be written.
    pub fn mend(&self, name: &str, commit: Option<Oid>) -> Result<(), GitError> {
        let path = self.common_dir.join(name);
        match commit {
            _ if !self.is_torn(name) => return Ok(()),
            Some(commit) => self.put(name, format!("{commit}\n").as_bytes()),
            // A reference to a missing commit may still be useful to the user.
            None if std::fs::read(&path).is_ok_and(|text| id_in(&text).is_some()) => return Ok(()),
            None => std::fs::remove_file(&path).and_then(|()| self.sync_folders(&path, false)),
        }
        .map_err(|error| GitError::Other(format!("{}: {error}", path.display())))
    }

    /// Removes the lock that a crash has left at a reference: an old one, or one that contains the commit to be written.
    pub fn clear_lock(&self, name: &str, commit: Option<Oid>) {
        let path = lock_of(&self.common_dir.join(name));
        let Ok(about) = std::fs::metadata(&path) else { return };
        let is_old = about.modified().ok().and_then(|it| it.elapsed().ok()).is_some_and(|age| age > STALE);
        let text = std::fs::read(&path).unwrap_or_default();
        if is_old && name.contains("/reedclaw/") || commit.is_some() && id_in(&text) == commit {
            let _ = std::fs::remove_file(&path);
        }
    }

    /// Does the same below `prefix`, in which nothing else writes: a lock with an id in it remains from a crash.
    pub fn clear_locks_below(&self, prefix: &str) {
        let entries = std::fs::read_dir(self.common_dir.join(prefix)).into_iter().flatten().flatten();
        for path in entries.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "lock")) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            self.clear_lock(&format!("{prefix}{name}"), std::fs::read(&path).ok().and_then(|text| id_in(&text)));
        }
    }
}

/// The id in a reference's file, which has nothing else but the end of the line.
fn id_in(text: &[u8]) -> Option<Oid> {
    oid_of(std::str::from_utf8(text.strip_suffix(b"\n")?).ok()?)
}

fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn has_lock_name(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "lock")
}

/// Git's own lock of a file; another process that has it is waited for.
struct Held {
    file: File,
    path: PathBuf,
}

impl Held {
    fn take(path: &Path) -> std::io::Result<Self> {
        let (path, deadline, mut pause) = (lock_of(path), Instant::now() + LOCKED_MAX, PAUSE);
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && Instant::now() < deadline => {
                    std::thread::park_timeout(pause);
                    pause = PAUSE_MAX.min(pause * 2);
                }
                made => return Ok(Self { file: made?, path }),
            }
        }
    }
}

impl Held {
    /// Ends a lock that was renamed to the file itself.
    fn became_the_file(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn write_synced(mut file: &File, path: &Path, text: &[u8]) -> std::io::Result<()> {
    fault::write()?;
    file.write_all(text)?;
    fault::sync(file, path)?;
    fault::point();
    Ok(())
}

/// The id that a table of packed references has for a name, and the place of its lines: a tag has a second one.
fn find_packed(table: &[u8], name: &str) -> Option<(Oid, std::ops::Range<usize>)> {
    let mut start = 0;
    let mut found: Option<(Oid, std::ops::Range<usize>)> = None;
    for line in table.split_inclusive(|byte| *byte == b'\n') {
        let end = start + line.len();
        match &mut found {
            Some((_, lines)) if line.starts_with(b"^") => lines.end = end,
            Some(_) => break,
            None => {
                let text = std::str::from_utf8(line).unwrap_or_default().trim_end();
                let id = text.split_once(' ').filter(|(_, it)| *it == name).and_then(|(id, _)| oid_of(id));
                found = id.map(|id| (id, start..end));
            }
        }
        start = end;
    }
    found
}

/// Returns whether the file of a loose object has begun to be one: an older git doesn't wait for the disk, and a power
/// cut leaves it empty or full of zeros.
pub(super) fn is_written(path: &Path) -> bool {
    use std::io::Read as _;
    let mut first = [0];
    // Git itself tests the first byte of its compressed data like this.
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok() && first[0] & 0x8f == 0x08)
}

/// A failed edit as an error of ours.
pub(super) fn failed(error: &EditError) -> GitError {
    match error {
        EditError::Refs(error) => super::with_causes(error),
        EditError::Disk(error) => other(error),
    }
}
