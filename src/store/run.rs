//! Runs, towards a goal or of a procedure: rows of events that are only added, each a text whose meaning is another room's.
//! Unlike a history's, such a row must reach the file before anything follows from it, so that writing one may fail.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::spending::{count, total};
use super::{Store, StoreError};
use crate::proto::Money;

/// Events of a run at most: a run that makes more is out of control.
const EVENTS_MAX: i64 = 100_000;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its number.
    pub id: i64,
    /// Time when it began, Unix milliseconds.
    pub time: i64,
    /// The directory that it works in.
    pub workspace: String,
    /// `norris` or `sop`.
    pub kind: String,
    /// The name of its procedure.
    pub name: String,
}

/// A run that begins.
#[derive(Clone, Copy, Debug)]
pub struct NewRun<'a> {
    /// `norris` or `sop`.
    pub kind: &'static str,
    /// The name of its procedure.
    pub name: &'a str,
    /// The directory that it works in.
    pub workspace: &'a str,
    /// Its first event.
    pub body: &'a str,
    /// The place of the procedure and the moment of its trigger, which begins one run and no second.
    pub slot: Option<(&'a str, &'a str)>,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in the run, from 1.
    pub seq: i64,
    /// Time when it was stored, Unix milliseconds.
    pub time: i64,
    /// The event, JSON.
    pub body: String,
}

/// The cost of a part of a run's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOfRun {
    /// The part, as in [`super::Charge`].
    pub category: String,
    /// The model.
    pub model: String,
    /// Requests.
    pub requests: u64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Their cost, of those with a known price.
    pub cost: Money,
}

impl Store {
    /// Begins a run with its first event; returns its number, or `None` if its moment has begun a run before.
    ///
    /// # Errors
    /// The database can't be written: there is no run.
    pub fn begin_run(&mut self, now: i64, new: &NewRun<'_>) -> Result<Option<i64>, StoreError> {
        let begin = |connection: &mut Connection| -> rusqlite::Result<Option<i64>> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = "INSERT INTO run (time, workspace, kind, name) VALUES (?1, ?2, ?3, ?4)";
            transaction.execute(sql, params![now, new.workspace, new.kind, new.name])?;
            let id = transaction.last_insert_rowid();
            if let Some((place, slot)) = new.slot {
                let sql = "INSERT OR IGNORE INTO run_fire (place, slot, run, time) VALUES (?1, ?2, ?3, ?4)";
                if transaction.execute(sql, params![place, slot, id, now])? == 0 {
                    return Ok(None);
                }
            }
            let sql = "INSERT INTO run_event (run, seq, time, body) VALUES (?1, 1, ?2, ?3)";
            transaction.execute(sql, params![id, now, new.body])?;
            transaction.commit().map(|()| Some(id))
        };
        durably(&mut self.main, begin).map_err(|problem| self.fail("write", &problem))
    }

    /// Deletes the finished runs of a procedure beyond the newest `most` ones. The moments that began them stay, so that none
    /// begins another.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn forget_runs(&mut self, kind: &str, name: &str, most: usize) -> Result<(), StoreError> {
        let old = "SELECT id FROM run WHERE kind = ?1 AND name = ?2 ORDER BY id DESC LIMIT -1 OFFSET ?3";
        let end = "SELECT json_extract(body, '$.event') FROM run_event WHERE run = ?1 ORDER BY seq DESC LIMIT 1";
        let forget = |connection: &mut Connection| -> rusqlite::Result<()> {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let old: Vec<i64> = connection
                .prepare_cached(old)?
                .query_map(params![kind, name, most], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            for id in old {
                let end: Option<String> = connection.query_row(end, [id], |row| row.get(0)).optional()?;
                if end.as_deref() != Some("finished") {
                    continue;
                }
                let transaction = connection.transaction()?;
                transaction.execute("DELETE FROM run_event WHERE run = ?1", [id])?;
                transaction.execute("DELETE FROM run WHERE id = ?1", [id])?;
                transaction.commit()?;
            }
            Ok(())
        };
        forget(&mut self.main).map_err(|problem| self.fail("write", &problem))
    }

    /// Tries whether the database can be written now, and changes nothing.
    ///
    /// # Errors
    /// Another process has it locked for too long, or it can't be written.
    pub fn probe(&mut self) -> Result<(), StoreError> {
        let tried = self.main.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|it| it.rollback());
        tried.map_err(|problem| self.fail("write", &problem))
    }

    /// Adds an event to a run.
    ///
    /// # Errors
    /// The database can't be written, or the run has too many events: the event didn't happen.
    pub fn add_run_event(&mut self, run: i64, now: i64, body: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO run_event (run, seq, time, body)
            SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3 FROM run_event WHERE run = ?1 HAVING coalesce(max(seq), 0) < ?4";
        let add = |connection: &mut Connection| match connection
            .prepare_cached(sql)?
            .execute(params![run, now, body, EVENTS_MAX])?
        {
            0 => Err(rusqlite::Error::StatementChangedRows(0)),
            _ => Ok(()),
        };
        durably(&mut self.main, add).map_err(|problem| self.fail("write", &problem))
    }

    /// Reads the events of a run after number `after`, in order.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn run_events(&self, run: i64, after: i64) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = "SELECT seq, time, body FROM run_event WHERE run = ?1 AND seq > ?2 ORDER BY seq";
        let read = |connection: &Connection| -> rusqlite::Result<Vec<StoredEvent>> {
            let row =
                |row: &rusqlite::Row<'_>| Ok(StoredEvent { seq: row.get(0)?, time: row.get(1)?, body: row.get(2)? });
            connection.prepare_cached(sql)?.query_map(params![run, after], row)?.collect()
        };
        read(&self.main).map_err(|problem| self.fail("read", &problem))
    }

    /// Reads the newest runs of a kind, the newest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn runs(&self, kind: &str, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let sql = "SELECT id, time, workspace, kind, name FROM run WHERE kind = ?1 ORDER BY id DESC LIMIT ?2";
        let read = |connection: &Connection| -> rusqlite::Result<Vec<RunRow>> {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            connection.prepare_cached(sql)?.query_map(params![kind, limit], run_of)?.collect()
        };
        read(&self.main).map_err(|problem| self.fail("read", &problem))
    }

    /// Reads the runs of a kind that haven't finished, the oldest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn open_runs(&self, kind: &str) -> Result<Vec<RunRow>, StoreError> {
        let sql = "SELECT id, time, workspace, kind, name FROM run WHERE kind = ?1 AND coalesce(
                (SELECT json_extract(body, '$.event') FROM run_event WHERE run = run.id ORDER BY seq DESC LIMIT 1), '')
                != 'finished' ORDER BY id";
        let read = |connection: &Connection| -> rusqlite::Result<Vec<RunRow>> {
            connection.prepare_cached(sql)?.query_map([kind], run_of)?.collect()
        };
        read(&self.main).map_err(|problem| self.fail("read", &problem))
    }

    /// Reads a run of a kind.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn run(&self, kind: &str, id: i64) -> Result<Option<RunRow>, StoreError> {
        let sql = "SELECT id, time, workspace, kind, name FROM run WHERE kind = ?1 AND id = ?2";
        let read = self.main.query_row(sql, params![kind, id], run_of).optional();
        read.map_err(|problem| self.fail("read", &problem))
    }

    /// Time when a moment that begins with `prefix` last began a run of the procedure at a place, Unix milliseconds.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn last_fire(&self, place: &str, prefix: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT max(time) FROM run_fire WHERE place = ?1 AND substr(slot, 1, length(?2)) = ?2";
        let read = self.main.query_row(sql, params![place, prefix], |row| row.get(0));
        read.map_err(|problem| self.fail("read", &problem))
    }

    /// Sums up the cost of a run by the part of its work.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn spent_by_category(&self, run: i64) -> Result<Vec<PartOfRun>, StoreError> {
        let sql = "SELECT coalesce(category, ''), model, count(*), total(uncached_in + cache_read + cache_write),
                total(visible_out + reasoning_out), total(cost)
            FROM request WHERE run = ?1 GROUP BY 1, 2 ORDER BY 1, 2";
        let read = |connection: &Connection| -> rusqlite::Result<Vec<PartOfRun>> {
            let row = |row: &rusqlite::Row<'_>| {
                Ok(PartOfRun {
                    category: row.get(0)?,
                    model: row.get(1)?,
                    requests: count(row, 2)?,
                    tokens_in: total(row, 3)?,
                    tokens_out: total(row, 4)?,
                    cost: Money::from_pico(total(row, 5)?),
                })
            };
            connection.prepare_cached(sql)?.query_map([run], row)?.collect()
        };
        read(&self.main).map_err(|problem| self.fail("read", &problem))
    }
}

fn run_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow { id: row.get(0)?, time: row.get(1)?, workspace: row.get(2)?, kind: row.get(3)?, name: row.get(4)? })
}

/// Writes so that a power failure can't undo it: the consequences of a run's event, such as a command, can't be undone either.
fn durably<T>(
    connection: &mut Connection,
    write: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    let written = write(connection);
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    written
}
