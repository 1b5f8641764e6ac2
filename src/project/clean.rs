//! Texts of a repository without the characters that a person wouldn't see, and the stamps that reveal changed files.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::base::text::is_invisible;

/// A path with its time and length.
pub(super) type Stamp = (PathBuf, Option<(SystemTime, u64)>);

pub(super) fn stamp(path: &Path) -> Stamp {
    let data = path.symlink_metadata().ok();
    let when = data.and_then(|data| Some((data.modified().ok()?, data.len())));
    (path.to_owned(), when)
}

/// A line without control characters and invisible characters.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c) && *c != '\n').collect()
}

/// Returns whether a character is invisible: a person who reads a file would not see a message to a model in such characters.
pub(super) fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || is_invisible(c)
}
