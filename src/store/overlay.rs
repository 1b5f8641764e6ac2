//! Rows that the file could not take: stored in a database of the same schema in memory, and moved to the file when it
//! can be written again. Knows no searches.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, TransactionBehavior, params};

use super::statements::{APPEND, CALL_COLUMNS, INSERT_CALL, INSERT_MESSAGE, TOUCH, stored_ms};
use super::{Store, schema};

/// Ids from here on belong to rows in memory; no file reaches them by counting.
pub(super) const OVERLAY_ID_MIN: i64 = 1 << 40;

/// The wait after a failure before the file is tried again, by the caller's clock: a retry can cost [`RETRY_WAIT_MS`].
const RETRY_AFTER_MS: i64 = 5_000;
/// The time that a retry waits for a lock, and the longer time of the last one, at the end of a session.
const RETRY_WAIT_MS: u64 = 20;
const LAST_WAIT_MS: u64 = 1_000;

/// The rows in memory, and the missing parts of the file's rows.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) connection: Connection,
    /// Outcomes of rows that are in the file: status, duration.
    pub(super) outcomes: HashMap<i64, (Option<i32>, Option<u64>)>,
    retry_at: i64,
}

/// The new ids of rows that were in memory, so that ids handed out remain valid.
#[derive(Debug, Default)]
pub(super) struct Moved {
    history: HashMap<i64, i64>,
    conversation: HashMap<i64, i64>,
    message: HashMap<i64, i64>,
    request: HashMap<i64, i64>,
}

impl Moved {
    pub(super) fn history(&self, id: i64) -> i64 {
        self.history.get(&id).copied().unwrap_or(id)
    }

    pub(super) fn conversation(&self, id: i64) -> i64 {
        self.conversation.get(&id).copied().unwrap_or(id)
    }

    pub(super) fn message(&self, id: i64) -> i64 {
        self.message.get(&id).copied().unwrap_or(id)
    }

    pub(super) fn request(&self, id: i64) -> i64 {
        self.request.get(&id).copied().unwrap_or(id)
    }
}

impl Store {
    /// Writes to the file, or if it can't be written, to memory; None: to neither, and the problem is noted.
    pub(super) fn write<T>(
        &mut self,
        now: i64,
        action: impl Fn(&Self, &Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        self.retry(now);
        if self.overlay.is_none()
            && let Some(path) = self.lost_path()
        {
            // The open file accepts rows, but they would be lost there.
            let problem = super::StoreError::lost(path);
            self.go_on_in_memory(now, problem);
        }
        if self.overlay.is_none() {
            match action(self, &self.main) {
                Ok(value) => return Some(value),
                Err(problem) => self.degrade(now, &problem),
            }
        }
        let overlay = self.overlay.as_ref()?;
        match action(self, &overlay.connection) {
            Ok(value) => Some(value),
            Err(problem) => {
                let problem = super::StoreError::sqlite("write", None, &problem);
                self.problem.get_or_insert(problem);
                None
            }
        }
    }

    /// Continues in memory from here, and notes the reason.
    pub(super) fn degrade(&mut self, now: i64, problem: &rusqlite::Error) {
        self.go_on_in_memory(now, self.fail("write", problem));
    }

    fn go_on_in_memory(&mut self, now: i64, problem: super::StoreError) {
        self.problem = Some(problem);
        if self.overlay.is_some() {
            return;
        }
        self.overlay = schema::memory().and_then(|connection| Overlay::over(connection, now)).ok();
    }

    /// Moves the rows in memory to the file if a new try is due.
    pub(super) fn retry(&mut self, now: i64) {
        let Some(overlay) = &mut self.overlay else { return };
        // A clock that was set back must not delay the retry endlessly.
        let due = now >= overlay.retry_at || now < overlay.retry_at - RETRY_AFTER_MS;
        if due {
            overlay.retry_at = now + RETRY_AFTER_MS;
            self.recover(RETRY_WAIT_MS);
        }
    }

    fn recover(&mut self, wait_ms: u64) {
        let Some(overlay) = self.overlay.as_ref().filter(|_| self.lost_path().is_none()) else { return };
        let mut moved = Moved::default();
        let _ = self.main.busy_timeout(Duration::from_millis(wait_ms));
        let done = move_rows(&mut self.main, overlay, &mut moved);
        let _ = self.main.busy_timeout(Duration::from_millis(schema::BUSY_TIMEOUT_MS));
        if done.is_ok() {
            self.overlay = None;
            self.moved.history.extend(moved.history);
            self.moved.conversation.extend(moved.conversation);
            self.moved.message.extend(moved.message);
            self.moved.request.extend(moved.request);
        }
    }
}

impl Store {
    /// Tries a last time to bring rows that are still in memory into the file. The end of a session calls it, because other
    /// threads may share the store and never drop it.
    pub fn finish(&mut self) {
        self.recover(LAST_WAIT_MS);
    }
}

impl Drop for Store {
    /// Rows that are still in memory afterwards are lost, as the reported problem has warned.
    fn drop(&mut self) {
        self.finish();
    }
}

impl Overlay {
    fn over(connection: Connection, now: i64) -> rusqlite::Result<Self> {
        for table in ["history", "conversation", "message", "request", "tool_call"] {
            let sql = "INSERT INTO sqlite_sequence(name, seq) VALUES (?1, ?2)";
            connection.execute(sql, params![table, OVERLAY_ID_MIN])?;
        }
        Ok(Self { connection, outcomes: HashMap::new(), retry_at: now + RETRY_AFTER_MS })
    }
}

fn move_rows(main: &mut Connection, overlay: &Overlay, moved: &mut Moved) -> rusqlite::Result<()> {
    let target = main.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (id, (status, duration_ms)) in &overlay.outcomes {
        target.execute(
            "UPDATE history SET status = ?2, duration_ms = ?3 WHERE id = ?1",
            params![id, status, stored_ms(*duration_ms)],
        )?;
    }
    let tables = [
        ("history", "time, session, cwd, hostname, line, kind, status, duration_ms", 8),
        ("conversation", "started, updated, model, title, parent, parent_turns", 6),
    ];
    for (table, columns, count) in tables {
        let marks = vec!["?"; count].join(", ");
        let mut insert = target.prepare(&format!("INSERT INTO {table} ({columns}) VALUES ({marks})"))?;
        let mut select = overlay.connection.prepare(&format!("SELECT id, {columns} FROM {table} ORDER BY id"))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let mut values: Vec<Value> = (1..=count).map(|column| row.get(column)).collect::<Result<_, _>>()?;
            // A conversation follows the one that it was forked from.
            if let ("conversation", Some(Value::Integer(parent))) = (table, values.get_mut(4)) {
                *parent = moved.conversation(*parent);
            }
            insert.execute(rusqlite::params_from_iter(values))?;
            let ids = if table == "history" { &mut moved.history } else { &mut moved.conversation };
            ids.insert(row.get(0)?, target.last_insert_rowid());
        }
    }
    move_messages(&target, overlay, moved)?;
    move_calls(&target, overlay, moved)?;
    move_requests(&target, overlay, moved)?;
    move_summaries(&target, overlay, moved)?;
    target.commit()
}

fn move_summaries(target: &Connection, overlay: &Overlay, moved: &Moved) -> rusqlite::Result<()> {
    let mut select = overlay.connection.prepare("SELECT conversation, turns, time, content FROM summary")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (turns, time, content): (i64, i64, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let sql = "INSERT OR REPLACE INTO summary (conversation, turns, time, content) VALUES (?1, ?2, ?3, ?4)";
        target.execute(sql, params![moved.conversation(row.get(0)?), turns, time, content])?;
    }
    Ok(())
}

/// A message whose id is the file's is the rest of one that began there.
fn move_messages(target: &Connection, overlay: &Overlay, moved: &mut Moved) -> rusqlite::Result<()> {
    let sql = "SELECT id, conversation, time, role, content, state, model, rewound, indexed FROM message ORDER BY id";
    let mut select = overlay.connection.prepare(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        if id < OVERLAY_ID_MIN {
            let (content, state, indexed): (String, String, bool) = (row.get(4)?, row.get(5)?, row.get(8)?);
            target.execute(APPEND, params![id, content, state, indexed])?;
            continue;
        }
        let mut values: Vec<Value> = (1..=8).map(|column| row.get(column)).collect::<Result<_, _>>()?;
        let (conversation, time): (i64, i64) = (moved.conversation(row.get(1)?), row.get(2)?);
        values[0] = Value::Integer(conversation);
        target.execute(INSERT_MESSAGE, rusqlite::params_from_iter(values))?;
        moved.message.insert(id, target.last_insert_rowid());
        target.execute(TOUCH, [conversation, time])?;
    }
    Ok(())
}

fn move_calls(target: &Connection, overlay: &Overlay, moved: &Moved) -> rusqlite::Result<()> {
    let mut insert = target.prepare(INSERT_CALL)?;
    let mut select = overlay.connection.prepare(&format!("SELECT {} FROM tool_call ORDER BY id", CALL_COLUMNS))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let mut values: Vec<Value> = (0..9).map(|column| row.get(column)).collect::<Result<_, _>>()?;
        values[0] = Value::Integer(moved.conversation(row.get(0)?));
        values[1] = Value::Integer(moved.message(row.get(1)?));
        insert.execute(rusqlite::params_from_iter(values))?;
    }
    Ok(())
}

fn move_requests(target: &Connection, overlay: &Overlay, moved: &mut Moved) -> rusqlite::Result<()> {
    let columns = "conversation, time, model, served_as, uncached_in, cache_read, cache_write, visible_out,
        reasoning_out, usage, tools, thoughts, estimated_in, estimate, cost, run, category, kind, host";
    let marks = ["?"; 19].join(", ");
    let mut insert = target.prepare(&format!("INSERT INTO request ({columns}) VALUES ({marks})"))?;
    let mut select = overlay.connection.prepare(&format!("SELECT {columns}, id FROM request ORDER BY id"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let mut values: Vec<Value> = (0..19).map(|column| row.get(column)).collect::<Result<_, _>>()?;
        if let Value::Integer(conversation) = &mut values[0] {
            *conversation = moved.conversation(*conversation);
        }
        insert.execute(rusqlite::params_from_iter(values))?;
        moved.request.insert(row.get(19)?, target.last_insert_rowid());
    }
    let mut select = overlay.connection.prepare("SELECT model, factor, count FROM token_factor")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let values: Vec<Value> = (0..3).map(|column| row.get(column)).collect::<Result<_, _>>()?;
        let sql = "INSERT OR REPLACE INTO token_factor (model, factor, count) VALUES (?, ?, ?)";
        target.execute(sql, rusqlite::params_from_iter(values))?;
    }
    Ok(())
}
