//! The history of lines: searches, pruning, deleting a line, exporting. It must not know how a line is drawn.

use std::ops::DerefMut;
use std::path::Path;

use crate::base::text::counted;
use crate::proto::{Failure, LineKind};
use crate::store::export::{self, Format};
use crate::store::{HistoryId, Row, Search, Store, TextMatch};

/// Lines in a list.
const LISTED: usize = 30;
/// Limit on the newest lines in which sessions are searched for.
const SESSION_LINES: usize = 500;
/// Limit on the newest commands with which a question is compared.
const OWN_LINES: usize = 3_000;

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

/// Removes the oldest lines above a number, and returns how many were removed. `store` is called for each part, so that
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

/// The criteria of a search among commands that ran.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Words that a command contains, in lower case; empty for any command.
    pub words: Vec<String>,
    /// The directory in which it ran; `None` for any.
    pub cwd: Option<String>,
    /// Finds failed commands alone.
    pub is_failed: bool,
    /// Limit for the number of lines.
    pub limit: usize,
}

/// Finds commands that ran, the newest first.
///
/// # Errors
/// The store can't be read.
pub fn commands(store: &Store, wanted: Wanted) -> Result<Vec<Row>, Failure> {
    let Wanted { words, cwd, is_failed, limit } = wanted;
    let text = if words.is_empty() { TextMatch::Any } else { TextMatch::Words(words) };
    let successful = is_failed.then_some(false);
    Ok(store.search(&Search { text, cwd, successful, limit: Some(limit), ..of_commands() })?)
}

/// The newest command of each session that left one, the newest session first; at most `limit`.
///
/// # Errors
/// The store can't be read.
pub fn sessions(store: &Store, limit: usize) -> Result<Vec<Row>, Failure> {
    let mut found: Vec<Row> = Vec::new();
    for row in store.search(&Search { limit: Some(SESSION_LINES), ..of_commands() })? {
        let session = row.entry.session;
        if session != 0 && !found.iter().any(|known| known.entry.session == session) {
            found.push(row);
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// The person's own commands of one line that succeeded, each once, the newest first; none if the store can't be read.
#[must_use]
pub fn own_lines(store: &Store) -> Vec<String> {
    let search = Search { successful: Some(true), plain_only: true, limit: Some(OWN_LINES), ..of_commands() };
    // The next line that is written reports a store that can't be read.
    let rows = store.search(&search).unwrap_or_default();
    let mut seen = std::collections::HashSet::new();
    let lines = rows.into_iter().map(|row| row.entry.line).filter(|line| !line.contains('\n'));
    lines.filter(|line| seen.insert(line.clone())).collect()
}

/// The newest command that begins with a word and has more text, as bash would repeat it for `!WORD`.
#[must_use]
pub fn last_with(store: &Store, word: &str) -> Option<String> {
    if word.is_empty() {
        return None;
    }
    let text = TextMatch::Prefix(format!("{word} "));
    let rows = store.search(&Search { text, limit: Some(1), ..of_commands() }).ok()?;
    rows.into_iter().next().map(|row| row.entry.line).filter(|line| line != word)
}

/// Returns whether this very line ran as a command and succeeded.
#[must_use]
pub fn has_run(store: &Store, line: &str) -> bool {
    let text = TextMatch::Exact(line.to_owned());
    let search = Search { text, successful: Some(true), limit: Some(1), ..of_commands() };
    store.search(&search).is_ok_and(|rows| !rows.is_empty())
}

/// Returns whether no line is stored.
#[must_use]
pub fn is_empty(store: &Store) -> bool {
    store.search(&Search { limit: Some(1), ..Search::default() }).is_ok_and(|rows| rows.is_empty())
}

fn of_commands() -> Search {
    Search { kind: Some(LineKind::Command), ..Search::default() }
}

/// The state of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// `true` if new rows reach the disk.
    pub is_durable: bool,
    /// The reason why no lasting row can be written.
    pub fault: Option<String>,
}

/// Tries whether the database can be written; nothing is changed.
#[must_use]
pub fn database(store: &mut Store) -> Database {
    let is_durable = store.is_durable();
    let fault = match is_durable {
        false => Some("the database isn't on the disk".to_owned()),
        true => store.probe().err().map(|error| error.to_string()),
    };
    Database { is_durable, fault }
}
