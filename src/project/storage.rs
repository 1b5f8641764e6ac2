//! Files that store data for the next session, one or two for each repository. They can be made again, so if there are too many,
//! the oldest are removed.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Limits on the number of files in a directory, and on their bytes.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Writes a file completely or not at all, and removes the oldest files beside it if there are too many.
pub(super) fn put(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().ok_or(io::ErrorKind::NotFound)?;
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let new = file.with_extension(format!("new{}", std::process::id()));
    let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let written = open.write_all(bytes).and_then(|()| std::fs::rename(&new, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    make_room(directory, file, FILES_MAX, BYTES_MAX);
    written
}

/// Removes the oldest files until the rest fits; the new file stays.
fn make_room(directory: &Path, own: &Path, files_max: usize, bytes_max: u64) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let file = |entry: std::fs::DirEntry| {
        let data = entry.path().symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path(), data.len()))
    };
    let mut files: Vec<(SystemTime, PathBuf, u64)> = entries.filter_map(file).collect();
    files.sort_unstable();
    let (mut count, mut bytes) = (files.len(), files.iter().map(|(.., bytes)| bytes).sum::<u64>());
    for (_, path, length) in files.iter().filter(|(_, path, _)| path != own) {
        if count <= files_max && bytes <= bytes_max {
            return;
        }
        if std::fs::remove_file(path).is_ok() {
            (count, bytes) = (count - 1, bytes - length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("a directory").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_oldest_make_room_by_number_and_by_bytes() {
        let top = tempfile::tempdir().expect("a directory");
        let directory = top.path().join("cards");
        let age = |name: &str, seconds: u64| {
            let file = File::options().write(true).open(directory.join(name)).expect("a file");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
        };
        for (at, name) in ["d", "b", "c", "a"].into_iter().enumerate() {
            put(&directory.join(name), &[b'x'; 10]).expect("a file");
            age(name, 100 + at as u64);
        }
        make_room(&directory, &directory.join("a"), 3, 1000);
        assert_eq!(names(&directory), ["a", "b", "c"], "the oldest went, not the first by name");
        make_room(&directory, &directory.join("a"), 3, 25);
        assert_eq!(names(&directory), ["a", "c"]);
        make_room(&directory, &directory.join("c"), 3, 5);
        assert_eq!(names(&directory), ["c"], "what was just written stays, however old and large");
    }

    #[test]
    fn writing_one_more_keeps_the_directory_within_its_bounds() {
        let top = tempfile::tempdir().expect("a directory");
        for number in 0..FILES_MAX + 5 {
            put(&top.path().join(format!("{number}")), b"x").expect("a file");
        }
        let names = names(top.path());
        assert_eq!(names.len(), FILES_MAX);
        assert!(names.contains(&format!("{}", FILES_MAX + 4)));
    }

    #[test]
    fn a_directory_that_cannot_be_written_stays_empty() {
        let top = tempfile::tempdir().expect("a directory");
        let file = top.path().join("file");
        std::fs::write(&file, "no directory").expect("a file");
        assert!(put(&file.join("card"), b"x").is_err());
        std::fs::create_dir(top.path().join("taken")).expect("a directory");
        assert!(put(&top.path().join("taken"), b"x").is_err());
        assert_eq!(names(top.path()), ["file", "taken"]);
    }
}
