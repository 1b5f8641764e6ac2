//! Replacing a file of ours as a whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Makes a directory that only its user may enter, and those above it.
///
/// # Errors
/// It can't be made.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file that only its user may read, and makes its directory. After a crash it holds its old content or its new
/// one, whole.
///
/// # Errors
/// The directory or the file can't be made or written; the old file is untouched.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, |file| file.sync_all())
}

/// Does the same for a file that may be lost in a power cut: it isn't synced, so it may be empty then.
///
/// # Errors
/// As those of [`replace_private`].
pub fn replace_for_now(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, |_| Ok(()))
}

fn replace(path: &Path, bytes: &[u8], settle: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    let directory = path.parent().ok_or_else(|| io::Error::other("it has no directory"))?;
    make_private(directory)?;
    let (draft, mut file) = draft_of(path)?;
    let written = (|| {
        file.write_all(bytes)?;
        settle(&file)?;
        std::fs::rename(&draft, path)?;
        settle(&File::open(directory)?)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// Opens a new file beside another. A process that was killed may have left one with the same name.
fn draft_of(path: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let draft = path.with_added_extension(format!("{}-{number}", std::process::id()));
        match new_private(&draft) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((draft, opened?)),
        }
    }
}

fn new_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a new file that only its user may read, onto the disk.
///
/// # Errors
/// There is one already (`AlreadyExists`), or it can't be written.
pub fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = new_private(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_belongs_to_its_user() {
        let top = tempfile::tempdir().expect("a directory");
        let path = top.path().join("state/file.json");
        replace_private(&path, b"old").expect("written");
        replace_for_now(&path, b"newer").expect("written");
        replace_private(&path, b"new").expect("written");
        assert_eq!(std::fs::read(&path).expect("the file"), b"new");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a directory"))), (0o600, 0o700));
        let all = std::fs::read_dir(path.parent().expect("a directory")).expect("a list").count();
        assert_eq!(all, 1, "no draft is left");
    }

    #[test]
    fn a_draft_that_a_killed_process_left_is_passed_over() {
        let top = tempfile::tempdir().expect("a directory");
        let path = top.path().join("file");
        let next = NEXT.load(Ordering::Relaxed);
        for number in next..next + 20 {
            let draft = path.with_added_extension(format!("{}-{number}", std::process::id()));
            create_private(&draft, b"left").expect("a draft");
        }
        replace_private(&path, b"new").expect("written");
        assert_eq!(std::fs::read(&path).expect("the file"), b"new");
        let again = create_private(&path, b"x").expect_err("it is there");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays() {
        let top = tempfile::tempdir().expect("a directory");
        let path = top.path().join("taken");
        std::fs::create_dir(&path).expect("a directory");
        replace_private(&path, b"new").expect_err("a directory is in its place");
        assert_eq!(std::fs::read_dir(top.path()).expect("a list").count(), 1);
    }
}
