//! A private copy of a text for another program to change: in a separate directory that only its owner can enter, removed when
//! the value is dropped.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};

use crate::base::hex;

/// Limit on the text that is read back, in bytes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Limit on the name, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// The copy.
#[derive(Debug)]
pub struct PrivateCopy {
    directory: PathBuf,
    path: PathBuf,
}

impl PrivateCopy {
    /// Makes a copy that is named like the file, so that an editor recognises its language.
    ///
    /// # Errors
    /// The directory or the file can't be made.
    pub fn new(path: &str, content: &[u8], env: &BTreeMap<OsString, OsString>) -> io::Result<Self> {
        let mut random = [0; 8];
        SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("no random numbers"))?;
        let runtime = env.get(OsStr::new("XDG_RUNTIME_DIR")).map(PathBuf::from).filter(|path| path.is_dir());
        let directory = runtime.unwrap_or_else(std::env::temp_dir).join(format!("reedclaw-{}", hex::encode(&random)));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let copy = Self { path: directory.join(name(path)), directory };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy.path)?;
        file.write_all(content)?;
        Ok(copy)
    }

    /// The path of the copy.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads its current content.
    ///
    /// # Errors
    /// The file is gone, is too long or can't be read.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(&self.path)?.take(BYTES_MAX + 1).read_to_end(&mut content)?;
        if content.len() as u64 > BYTES_MAX {
            return Err(io::Error::other(format!("it is longer than {BYTES_MAX} bytes")));
        }
        Ok(content)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // This includes any files that an editor has left beside it.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The last part of a path, reduced to characters that are harmless to any program, and never an option.
fn name(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = last.chars().map(plain).collect();
    let name = &name[name.len().saturating_sub(NAME_BYTES_MAX)..];
    if matches!(name, "" | "." | "..") || name.starts_with('-') { format!("file{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_is_its_owners_alone_and_goes_with_its_value() {
        let top = tempfile::tempdir().expect("a directory");
        let env = [("XDG_RUNTIME_DIR".into(), top.path().into())].into();
        let copy = PrivateCopy::new("src/a b.rs", b"text", &env).expect("a copy");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(copy.path()), mode(&copy.directory)), (0o600, 0o700));
        assert!(copy.path().starts_with(top.path()) && copy.path().ends_with("a_b.rs"));
        std::fs::write(copy.path(), "other").expect("an edit");
        std::fs::write(copy.directory.join(".a.swp"), "").expect("an editor's file");
        assert_eq!(copy.read().expect("read"), b"other");
        drop(copy);
        assert_eq!(std::fs::read_dir(top.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn a_name_is_plain() {
        for (path, plain) in
            [("a/b.rs", "b.rs"), ("-x", "file-x"), ("..", "file.."), ("a/", "file"), ("$(rm)\u{1b}.é", "__rm__._")]
        {
            assert_eq!(name(path), plain);
        }
    }
}
