//! The history of lines: a search, pruning, deleting a line, exporting. It must not know how a line is drawn.

use std::ops::DerefMut;
use std::path::Path;

use crate::base::text::counted;
use crate::proto::Failure;
use crate::store::export::{self, Format};
use crate::store::{HistoryId, Row, Search, Store, TextMatch};

/// Lines in a list.
const LISTED: usize = 30;

/// The newest lines with a text in them, or the newest of all; the oldest first.
///
/// # Errors
/// The store can't be read.
pub fn list(store: &mut Store, text: &str) -> Result<Vec<Row>, Failure> {
    let wanted = if text.is_empty() { TextMatch::Any } else { TextMatch::Substring(text.to_owned()) };
    let mut rows = store.search(&Search { text: wanted, limit: Some(LISTED), ..Search::default() })?;
    rows.reverse();
    Ok(rows)
}

/// Removes the oldest lines above a number, and returns how many were removed. `store` is asked for each part, so that
/// others can use the store in between.
///
/// # Errors
/// The store can't be written.
pub fn prune<S: DerefMut<Target = Store>>(store: impl Fn() -> S, entries_max: u64) -> Result<u64, Failure> {
    let mut pruned = 0;
    loop {
        match store().prune(entries_max)? {
            0 => return Ok(pruned),
            more => pruned += more,
        }
    }
}

/// Deletes a line, and returns it.
///
/// # Errors
/// No line has the number, or the store can't be written.
pub fn delete(store: &mut Store, number: i64) -> Result<String, Failure> {
    let line = store.row(HistoryId(number)).ok().flatten().map(|row| row.entry.line).unwrap_or_default();
    if store.delete(HistoryId(number))? {
        return Ok(line);
    }
    Err(Failure::user(format!("the history has no line {number}")).hint(":history lists the lines with their numbers"))
}

/// Writes all lines and conversations to a new file, and returns the numbers of both as text.
///
/// # Errors
/// The file can't be written, or the store can't be read.
pub fn export(store: &Store, path: &Path, format: Format) -> Result<String, Failure> {
    let (lines, conversations) = export::write_all(store, path, format)?;
    Ok(format!("{} and {}", counted(lines, "line"), counted(conversations, "conversation")))
}
