//! Whole outputs of which a model was shown the ends: files in a directory of ours, named `output:NUMBER`.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Prefix of a number.
const PREFIX: &str = "output:";
/// Maximum number of outputs of one session.
const OUTPUTS_MAX: usize = 1_000;
/// Longest output that is stored, in bytes.
const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Store of outputs, which lasts until the session ends.
#[derive(Debug)]
pub struct Spill {
    directory: PathBuf,
    count: AtomicUsize,
}

impl Spill {
    /// Keeps outputs below `parent`, in a directory of its own that is made with the first one.
    #[must_use]
    pub fn new(parent: &Path) -> Self {
        // A gateway has several at once, whose outputs are nothing to each other.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Self { directory: parent.join(format!("outputs-{}-{number}", std::process::id())), count: AtomicUsize::new(0) }
    }

    /// Stores an output and returns its name.
    pub(in crate::tools) fn keep(&self, text: &str) -> Result<String, String> {
        self.keep_bytes(&text.as_bytes()[..text.floor_char_boundary(OUTPUT_BYTES_MAX)])
    }

    /// Stores bytes that may not be text and returns their name.
    pub(in crate::tools) fn keep_bytes(&self, bytes: &[u8]) -> Result<String, String> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if number > OUTPUTS_MAX {
            return Err("there are too many outputs".into());
        }
        let write = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(self.directory.join(number.to_string()))?;
            file.write_all(bytes.get(..OUTPUT_BYTES_MAX).unwrap_or(bytes))
        };
        write().map(|()| format!("{PREFIX}{number}")).map_err(|error: std::io::Error| error.to_string())
    }

    /// Returns whether a path names an output.
    pub(in crate::tools) fn is_name(path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    /// Reads an output.
    pub(in crate::tools) fn read(&self, name: &str) -> Option<String> {
        let number: usize = name.strip_prefix(PREFIX)?.parse().ok()?;
        std::fs::read_to_string(self.directory.join(number.to_string())).ok()
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_one_are_nothing_to_another() {
        let place = tempfile::tempdir().expect("a place");
        let (mine, theirs) = (Spill::new(place.path()), Spill::new(place.path()));
        let name = mine.keep("mine").expect("it is kept");
        assert_eq!((mine.read(&name).as_deref(), theirs.read(&name)), (Some("mine"), None));
        theirs.keep("theirs").expect("it is kept");
        drop(theirs);
        assert_eq!(mine.read(&name).as_deref(), Some("mine"));
    }
}
