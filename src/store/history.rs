//! History: one row per submitted line; append, outcome, search, delete. Knows neither shells' history files nor the
//! line editor.

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::overlay::OVERLAY_ID_MIN;
use super::statements::stored_ms;
use super::{Store, StoreError};
use crate::proto::LineKind;

/// The newest rows, searched before an index is: nearly every search that is typed ends here, in well under a
/// millisecond, and the index's hits needn't be sorted.
const WINDOW_ROWS: usize = 1_000;
/// Limit for a substring too short for the index: a person who types one or two characters soon types more, and a whole
/// scan of a million rows would delay the key press.
const SHORT_WINDOW_ROWS: usize = 10_000;
/// The shortest substring that the trigram index can find, in characters.
const TRIGRAM_CHARS_MIN: usize = 3;
/// Limit on the rows that one call of [`Store::prune`] removes: each takes some 0.1 ms, and other sessions wait for the lock.
const PRUNE_ROWS_MAX: u64 = 500;
/// Characters that a terminal would obey: all controls but tab and newline.
const CONTROL_GLOB: &str = "*[\u{1}-\u{8}\u{b}-\u{1f}\u{7f}-\u{9f}]*";

const COLUMNS: &str = "id, time, session, cwd, hostname, line, kind, status, duration_ms";

/// The id of a row; greater ids are not necessarily later lines (imports), the time decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistoryId(pub i64);

/// One line, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time when it was submitted, Unix milliseconds; 0 if an import has none.
    pub time: i64,
    /// The session it was typed in; 0 for imported lines.
    pub session: i64,
    /// The shell's working directory.
    pub cwd: Option<String>,
    /// The machine.
    pub hostname: Option<String>,
    /// The line itself, possibly of several lines.
    pub line: String,
    /// The kind of line.
    pub kind: LineKind,
    /// The exit status, once it ended.
    pub status: Option<i32>,
    /// Its duration.
    pub duration_ms: Option<u64>,
}

/// One line, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: HistoryId,
    /// The stored line, with its outcome if it has one.
    pub entry: Entry,
}

/// The comparison with a line; case counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TextMatch {
    /// Any line.
    #[default]
    Any,
    /// Begins with this.
    Prefix(String),
    /// Contains this; if it has less than three characters, only the first 10,000 rows are searched.
    Substring(String),
    /// The line is exactly this.
    Exact(String),
    /// Contains each of these lower-case words, in any order and whatever the line's case; if all of them are shorter than three
    /// characters, only the first 10,000 rows are searched.
    Words(Vec<String>),
}

/// A search; the default finds everything, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The text to find.
    pub text: TextMatch,
    /// Not this very line.
    pub other_than: Option<String>,
    /// Only lines without control characters (tab and newline are fine), safe to put on the screen as they are.
    pub plain_only: bool,
    /// Only from this directory.
    pub cwd: Option<String>,
    /// Only from directories whose path begins with this.
    pub cwd_prefix: Option<String>,
    /// Only from this machine.
    pub hostname: Option<String>,
    /// Only from this session.
    pub session: Option<i64>,
    /// Only from other sessions.
    pub other_session: Option<i64>,
    /// Only of this kind.
    pub kind: Option<LineKind>,
    /// Only with status 0, or only with another one.
    pub successful: Option<bool>,
    /// Not with a status by which a program reports a failure: 0, none yet, and ended by a signal are fine.
    pub not_failed: bool,
    /// Not before this time, Unix milliseconds.
    pub time_min: Option<i64>,
    /// Not after this time, Unix milliseconds.
    pub time_max: Option<i64>,
    /// Oldest first.
    pub oldest_first: bool,
    /// Only rows after this one in the search's direction.
    pub after: Option<HistoryId>,
    /// Only up to and with this row in the search's direction.
    pub until: Option<HistoryId>,
    /// Most rows.
    pub limit: Option<usize>,
}

/// Returns whether a typed line belongs in the history: it isn't blank and doesn't begin with a space. The caller asks
/// before it appends.
#[must_use]
pub fn keeps(line: &str) -> bool {
    !line.starts_with(' ') && !line.trim().is_empty()
}

impl Store {
    /// Adds a line; it never fails, see [`Store::take_problem`].
    pub fn append(&mut self, entry: &Entry) -> HistoryId {
        HistoryId(self.write(entry.time, |_, connection| insert(connection, entry)).unwrap_or(0))
    }

    /// Records the outcome of a line, at `now` (Unix milliseconds).
    pub fn set_outcome(&mut self, id: HistoryId, status: Option<i32>, duration_ms: Option<u64>, now: i64) {
        self.retry(now);
        let sql = "UPDATE history SET status = ?2, duration_ms = ?3 WHERE id = ?1";
        let id = self.moved.history(id.0);
        if self.overlay.is_none() {
            match self
                .main
                .prepare_cached(sql)
                .and_then(|mut update| update.execute(params![id, status, stored_ms(duration_ms)]))
            {
                Ok(_) => return,
                Err(problem) => self.degrade(now, &problem),
            }
        }
        let Some(overlay) = &mut self.overlay else { return };
        if id < OVERLAY_ID_MIN {
            overlay.outcomes.insert(id, (status, duration_ms));
        } else if let Err(problem) = overlay.connection.execute(sql, params![id, status, stored_ms(duration_ms)]) {
            self.degrade(now, &problem);
        }
    }

    /// Finds lines.
    ///
    /// # Errors
    /// The database can't be read; rows in memory are still found.
    pub fn search(&self, search: &Search) -> Result<Vec<Row>, StoreError> {
        let bounds = Bounds { after: self.place(search.after), until: self.place(search.until) };
        let found = find(&self.main, search, &bounds);
        let Some(overlay) = &self.overlay else {
            return found.map_err(|problem| self.fail("read", &problem));
        };
        let mut rows = found.unwrap_or_default();
        for row in &mut rows {
            if let Some((status, duration_ms)) = overlay.outcomes.get(&row.id.0) {
                (row.entry.status, row.entry.duration_ms) = (*status, *duration_ms);
            }
        }
        rows.extend(find(&overlay.connection, search, &bounds).map_err(|problem| self.fail("read", &problem))?);
        rows.sort_by_key(|row| (row.entry.time, row.id.0));
        if !search.oldest_first {
            rows.reverse();
        }
        rows.truncate(search.limit.unwrap_or(usize::MAX));
        Ok(rows)
    }

    /// Finds the newest `limit` lines, newest first.
    ///
    /// # Errors
    /// As [`Store::search`].
    pub fn recent(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.search(&Search { limit: Some(limit), ..Search::default() })
    }

    /// Reads one row.
    ///
    /// # Errors
    /// As [`Store::search`].
    pub fn row(&self, id: HistoryId) -> Result<Option<Row>, StoreError> {
        let id = self.moved.history(id.0);
        let overlay = self.overlay.as_ref();
        let connection =
            if id < OVERLAY_ID_MIN { Some(&self.main) } else { overlay.map(|overlay| &overlay.connection) };
        let Some(connection) = connection else { return Ok(None) };
        let row = read(connection, &format!("SELECT {COLUMNS} FROM history WHERE id = ?"), &[Value::Integer(id)])
            .map_err(|problem| self.fail("read", &problem))?
            .pop();
        Ok(row.map(|mut row| {
            if let Some((status, duration_ms)) = overlay.and_then(|overlay| overlay.outcomes.get(&id)) {
                (row.entry.status, row.entry.duration_ms) = (*status, *duration_ms);
            }
            row
        }))
    }

    /// Counts all lines.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn count(&self) -> Result<u64, StoreError> {
        let count = |connection: &Connection| {
            connection.query_row("SELECT count(*) FROM history", [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
        };
        let overlay = self.overlay.as_ref().map_or(Ok(0), |overlay| count(&overlay.connection));
        count(&self.main).and_then(|main| Ok(main + overlay?)).map_err(|problem| self.fail("read", &problem))
    }

    /// Deletes one line, also from the file's free space; returns false if there was none.
    ///
    /// # Errors
    /// The database can't be written: the line is still there.
    pub fn delete(&mut self, id: HistoryId) -> Result<bool, StoreError> {
        let id = self.moved.history(id.0);
        let connection = match &self.overlay {
            Some(overlay) if id >= OVERLAY_ID_MIN => &overlay.connection,
            _ => &self.main,
        };
        delete_for_good(connection, id)
            .inspect(|_| truncate_log(connection))
            .map(|deleted| deleted > 0)
            .map_err(|problem| self.fail("delete from", &problem))
    }

    /// Deletes the whole history; conversations stay.
    ///
    /// # Errors
    /// The database can't be written: the history is still there.
    pub fn clear(&mut self) -> Result<(), StoreError> {
        if let Some(overlay) = &self.overlay {
            overlay.connection.execute("DELETE FROM history", []).map_err(|problem| self.fail("clear", &problem))?;
        }
        // The trigger would update the index line by line for a long history; instead the text index is cleared at once.
        let all = "BEGIN IMMEDIATE;
            INSERT INTO history_text(history_text) VALUES('delete-all');
            DROP TRIGGER history_deleted;
            DELETE FROM history;
            CREATE TRIGGER history_deleted AFTER DELETE ON history BEGIN
                INSERT INTO history_text(history_text, rowid, line) VALUES ('delete', old.id, old.line);
            END;
            COMMIT;";
        let done = self.main.execute_batch(all);
        if done.is_err() && !self.main.is_autocommit() {
            let _ = self.main.execute_batch("ROLLBACK");
        }
        done.map_err(|problem| self.fail("clear", &problem))?;
        truncate_log(&self.main);
        Ok(())
    }

    /// Removes the oldest lines beyond `entries_max`, at most 500 per call; returns their number.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn prune(&mut self, entries_max: u64) -> Result<u64, StoreError> {
        let excess = self.count()?.saturating_sub(entries_max).min(PRUNE_ROWS_MAX);
        if excess == 0 {
            return Ok(0);
        }
        let sql = "DELETE FROM history WHERE id IN (SELECT id FROM history ORDER BY time, id LIMIT ?1)";
        self.main
            .execute(sql, [excess as i64])
            .map(|deleted| deleted as u64)
            .map_err(|problem| self.fail("prune", &problem))
    }

    fn place(&self, id: Option<HistoryId>) -> Option<(i64, i64)> {
        let row = self.row(id?).ok()??;
        Some((row.entry.time, row.id.0))
    }
}

/// The rows between which a search moves, as (time, id).
struct Bounds {
    after: Option<(i64, i64)>,
    until: Option<(i64, i64)>,
}

pub(super) fn insert(connection: &Connection, entry: &Entry) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO history (time, session, cwd, hostname, line, kind, status, duration_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .insert(params![
            entry.time,
            entry.session,
            entry.cwd,
            entry.hostname,
            entry.line,
            kind_text(entry.kind),
            entry.status,
            stored_ms(entry.duration_ms)
        ])
}

/// Deletes a row and removes its text from the text index as well; a plain delete would only hide it until the next
/// merge. That costs some milliseconds, too much for [`Store::prune`].
fn delete_for_good(connection: &Connection, id: i64) -> rusqlite::Result<usize> {
    let mode = "INSERT INTO history_text(history_text, rank) VALUES('secure-delete', ?1)";
    let transaction = connection.unchecked_transaction()?;
    transaction.execute(mode, [1])?;
    let deleted = transaction.execute("DELETE FROM history WHERE id = ?1", [id])?;
    transaction.execute(mode, [0])?;
    transaction.commit()?;
    Ok(deleted)
}

/// Removes deleted text from the write-ahead log too, unless other sessions prevent it.
pub(super) fn truncate_log(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

fn find(connection: &Connection, search: &Search, bounds: &Bounds) -> rusqlite::Result<Vec<Row>> {
    let limit = search.limit.unwrap_or(usize::MAX);
    let is_short = |text: &String| text.chars().count() < TRIGRAM_CHARS_MIN || text.contains('\0');
    let short = match &search.text {
        TextMatch::Substring(text) => is_short(text),
        TextMatch::Words(words) => words.iter().all(is_short),
        _ => false,
    };
    if short {
        return Ok(find_in_window(connection, search, bounds, SHORT_WINDOW_ROWS)?.0);
    }
    let windowed = matches!(search.text, TextMatch::Prefix(_) | TextMatch::Substring(_) | TextMatch::Words(_));
    if windowed && limit <= WINDOW_ROWS {
        let (rows, is_all) = find_in_window(connection, search, bounds, WINDOW_ROWS)?;
        if is_all || rows.len() >= limit {
            return Ok(rows);
        }
    }
    // The text comes first: the other conditions are asked of its hits only.
    let (text_clause, index) = match &search.text {
        TextMatch::Any => (None, ""),
        TextMatch::Exact(_) => (Some("line = ?"), ""),
        // One session has far fewer rows than a common prefix may have in all.
        TextMatch::Prefix(_) if search.session.is_some() => {
            (Some("line >= ? AND line <= ?"), "INDEXED BY history_session")
        }
        TextMatch::Prefix(_) => (Some("line >= ? AND line <= ?"), "INDEXED BY history_line"),
        TextMatch::Substring(_) => {
            (Some("id IN (SELECT rowid FROM history_text WHERE history_text MATCH ?) AND instr(line, ?) > 0"), "")
        }
        TextMatch::Words(_) => (Some("id IN (SELECT rowid FROM history_text WHERE history_text MATCH ?)"), ""),
    };
    let mut values = match &search.text {
        TextMatch::Any => vec![],
        TextMatch::Exact(text) => vec![Value::Text(text.clone())],
        // No text sorts after the last code point, which cannot be typed.
        TextMatch::Prefix(text) => vec![Value::Text(text.clone()), Value::Text(format!("{text}\u{10ffff}"))],
        TextMatch::Substring(text) => {
            vec![Value::Text(quoted(text)), Value::Text(text.clone())]
        }
        TextMatch::Words(words) => {
            let all: Vec<String> = words.iter().filter(|word| !is_short(word)).map(|word| quoted(word)).collect();
            vec![Value::Text(all.join(" "))]
        }
    };
    let (mut more_clauses, more_values) = clauses(search, bounds);
    values.extend(more_values);
    if let TextMatch::Words(words) = &search.text {
        for word in words.iter().filter(|word| is_short(word)) {
            more_clauses.push("instr(lower(line), ?) > 0");
            values.push(Value::Text(word.clone()));
        }
    }
    if search.plain_only {
        more_clauses.push("line NOT GLOB ?");
        values.push(Value::Text(CONTROL_GLOB.to_owned()));
    }
    values.push(Value::Integer(i64::try_from(limit).unwrap_or(-1)));
    let wheres = wheres(text_clause.into_iter().chain(more_clauses));
    let order = order(search);
    // The inner query reads only an index, if one has all the columns, and sorts bare ids.
    let sql = format!(
        "SELECT {COLUMNS} FROM history
         WHERE id IN (SELECT id FROM history {index} {wheres} {order} LIMIT ?) {order}"
    );
    read(connection, &sql, &values)
}

/// A phrase of the index's query language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Searches the first rows in the search's order; also returns whether these are all rows.
fn find_in_window(
    connection: &Connection,
    search: &Search,
    bounds: &Bounds,
    window_rows: usize,
) -> rusqlite::Result<(Vec<Row>, bool)> {
    let limit = search.limit.unwrap_or(usize::MAX);
    let (clauses, values) = clauses(search, bounds);
    let wheres = wheres(clauses.into_iter());
    let sql = format!("SELECT {COLUMNS} FROM history {wheres} {} LIMIT {window_rows}", order(search));
    let mut select = connection.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let (mut found, mut seen) = (Vec::new(), 0);
    while found.len() < limit {
        let Some(row) = rows.next()? else { return Ok((found, seen < window_rows)) };
        seen += 1;
        let line = row.get_ref(5)?.as_str()?;
        let hit = match &search.text {
            TextMatch::Prefix(text) => line.starts_with(text.as_str()),
            TextMatch::Substring(text) => line.contains(text.as_str()),
            TextMatch::Words(words) => {
                let line = line.to_lowercase();
                words.iter().all(|word| line.contains(word.as_str()))
            }
            TextMatch::Any | TextMatch::Exact(_) => true,
        };
        if hit && (!search.plain_only || is_plain(line)) {
            found.push(to_row(row)?);
        }
    }
    Ok((found, false))
}

fn is_plain(line: &str) -> bool {
    !line.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t')
}

fn clauses(search: &Search, bounds: &Bounds) -> (Vec<&'static str>, Vec<Value>) {
    let mut clauses = Vec::new();
    let mut values = Vec::new();
    let mut add = |clause, value| {
        clauses.push(clause);
        values.push(value);
    };
    let text = |text: &String| Value::Text(text.clone());
    if let Some(cwd) = &search.cwd {
        add("cwd = ?", text(cwd));
    }
    if let Some(prefix) = &search.cwd_prefix {
        add("instr(cwd, ?) = 1", text(prefix));
    }
    if let Some(hostname) = &search.hostname {
        add("hostname = ?", text(hostname));
    }
    if let Some(session) = search.session {
        add("session = ?", Value::Integer(session));
    }
    if let Some(session) = search.other_session {
        add("session <> ?", Value::Integer(session));
    }
    if search.not_failed {
        // A shell reports 128 plus the signal's number.
        add("(status IS NULL OR status = 0 OR status > ?)", Value::Integer(128));
    }
    if let Some(kind) = search.kind {
        add("kind = ?", Value::Text(kind_text(kind).to_owned()));
    }
    if let Some(successful) = search.successful {
        add("(status = 0) = ?", Value::Integer(i64::from(successful)));
    }
    if let Some(time) = search.time_min {
        add("time >= ?", Value::Integer(time));
    }
    if let Some(time) = search.time_max {
        add("time <= ?", Value::Integer(time));
    }
    if let Some(line) = &search.other_than {
        add("line <> ?", text(line));
    }
    let (after, until) = match search.oldest_first {
        true => ("(time, id) > (?, ?)", "(time, id) <= (?, ?)"),
        false => ("(time, id) < (?, ?)", "(time, id) >= (?, ?)"),
    };
    for (clause, place) in [(after, bounds.after), (until, bounds.until)] {
        if let Some((time, id)) = place {
            clauses.push(clause);
            values.extend([Value::Integer(time), Value::Integer(id)]);
        }
    }
    (clauses, values)
}

fn wheres<'a>(clauses: impl Iterator<Item = &'a str>) -> String {
    let clauses: Vec<&str> = clauses.collect();
    if clauses.is_empty() { String::new() } else { format!("WHERE {}", clauses.join(" AND ")) }
}

fn order(search: &Search) -> &'static str {
    if search.oldest_first { "ORDER BY time, id" } else { "ORDER BY time DESC, id DESC" }
}

fn read(connection: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    connection.prepare_cached(sql)?.query_map(params_from_iter(values), to_row)?.collect()
}

fn to_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let kind = match row.get_ref(6)?.as_str()? {
        "question" => LineKind::Question,
        "model-command" => LineKind::ModelCommand,
        "meta" => LineKind::Meta,
        _ => LineKind::Command,
    };
    let entry = Entry {
        time: row.get(1)?,
        session: row.get(2)?,
        cwd: row.get(3)?,
        hostname: row.get(4)?,
        line: row.get(5)?,
        kind,
        status: row.get(7)?,
        duration_ms: row.get::<_, Option<i64>>(8)?.and_then(|ms| u64::try_from(ms).ok()),
    };
    Ok(Row { id: HistoryId(row.get(0)?), entry })
}

/// The kind's name in the database, part of its format.
pub(super) fn kind_text(kind: LineKind) -> &'static str {
    match kind {
        LineKind::Command => "command",
        LineKind::Question => "question",
        LineKind::ModelCommand => "model-command",
        LineKind::Meta => "meta",
    }
}
