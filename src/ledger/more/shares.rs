//! Sessions that are shared: who may see each, how it ended, and its recording in pieces.

use serde_json::{Value, json};

use crate::base::time::utc_ms;
use crate::ledger::permits::settling;
use crate::ledger::sql::{OptionalExtension as _, Row, params};
use crate::ledger::stores::note;
use crate::ledger::{LEFT, Ledger, LedgerError, Mark, Marked, cut, now_ms, rows_of};
use crate::proto::team::Identity;

/// Time for which a recording can be seen: seven days.
const RETENTION_MS: i64 = 7 * 24 * 3_600 * 1_000;

/// The reason for an end that no person wanted: the next gateway may continue the session.
pub const GATEWAY_ENDED: &str = "the gateway ended";

/// Result of a request to continue sharing a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// Success; the pieces and bytes of its recording.
    Going(NewShare, (i64, i64)),
    /// Another gateway has it.
    Elsewhere,
    /// The reason why it was ended for good.
    Ended(String),
}

/// A session to share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewShare {
    /// Its id.
    pub share_id: String,
    /// `shell` or `agent`.
    pub kind: String,
    /// A line about it.
    pub title: String,
    /// The size of its screen, in columns and rows.
    pub size: (u16, u16),
    /// Those who may watch.
    pub watch: Vec<String>,
    /// Those who may watch and answer.
    pub approve: Vec<String>,
}

/// Shared sessions.
pub struct Shares<'l>(pub(in crate::ledger) &'l Ledger);

const COLUMNS: &str =
    "share_id, project, owner, kind, title, cols, rows, watch, approve, state, why, started_ms, ended_ms";

impl Shares<'_> {
    /// Notes that a session begins to be shared.
    ///
    /// # Errors
    /// The database fails.
    pub fn begin(&self, who: &Identity, new: &NewShare) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "INSERT INTO share (tenant, share_id, project, owner, kind, title, cols, rows, watch, approve, state, started_ms, \
                       node) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'live', ?11, ?12)";
            let now = now_ms(transaction)?;
            let (watch, approve) = (json!(new.watch).to_string(), json!(new.approve).to_string());
            let (cols, rows) = (i64::from(new.size.0), i64::from(new.size.1));
            transaction.execute(
                sql,
                params![
                    who.tenant,
                    new.share_id,
                    who.project,
                    who.user,
                    new.kind,
                    new.title,
                    cols,
                    rows,
                    watch,
                    approve,
                    now,
                    transaction.node()
                ],
            )?;
            note(transaction, who, "share.started", stream(&new.share_id), started(new))
        })
    }

    /// Continues to share a session whose gateway has gone, for the person who shared it.
    ///
    /// # Errors
    /// They have shared none with this id in this project, or the database fails.
    pub fn resume(&self, who: &Identity, share_id: &str) -> Result<Resumed, LedgerError> {
        let row = self.get(who, share_id)?;
        if row["owner"] != *who.user || row["project"] != *who.project {
            return Err(LedgerError::NotFound);
        }
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        if row["state"] != "ended" {
            return Ok(Resumed::Elsewhere);
        }
        if row["why"] != GATEWAY_ENDED {
            return Ok(Resumed::Ended(text("why")));
        }
        let cells = |name: &str| row[name].as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(80);
        let users = |name: &str| serde_json::from_value(row[name].clone()).unwrap_or_default();
        let share = NewShare {
            share_id: share_id.to_owned(),
            kind: text("kind"),
            title: text("title"),
            size: (cells("cols"), cells("rows")),
            watch: users("watch"),
            approve: users("approve"),
        };
        self.0.write(&who.tenant, |transaction| {
            let sql = "UPDATE share SET state = 'live', why = NULL, ended_ms = NULL, node = ?3 WHERE tenant = ?1 AND share_id = ?2 \
                       AND state = 'ended' AND why = ?4";
            if transaction.execute(sql, params![who.tenant, share_id, transaction.node(), GATEWAY_ENDED])? == 0 {
                return Ok(Resumed::Elsewhere);
            }
            let sql = "SELECT COALESCE(MAX(n) + 1, 0), CAST(COALESCE(SUM(LENGTH(data)), 0) AS BIGINT) FROM share_chunk \
                       WHERE tenant = ?1 AND share_id = ?2";
            let recorded =
                transaction.query_row(sql, params![who.tenant, share_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            note(transaction, who, "share.started", stream(share_id), started(&share))?;
            Ok(Resumed::Going(share.clone(), recorded))
        })
    }

    /// Records a viewer.
    ///
    /// # Errors
    /// The database fails.
    pub fn joined(&self, who: &Identity, share_id: &str) -> Result<(), LedgerError> {
        let body = json!({"share_id": share_id, "user": who.user});
        self.0.write(&who.tenant, |transaction| note(transaction, who, "share.joined", stream(share_id), body))
    }

    /// Records that a session isn't shared any more; repeating it changes nothing.
    ///
    /// # Errors
    /// The database fails.
    pub fn end(&self, who: &Identity, share_id: &str, why: &str) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "UPDATE share SET state = 'ended', why = ?3, ended_ms = ?4 WHERE tenant = ?1 AND share_id = ?2 \
                       AND state = 'live'";
            if transaction.execute(sql, params![who.tenant, share_id, why, now_ms(transaction)?])? == 0 {
                return Ok(());
            }
            let body = json!({"share_id": share_id, "why": why});
            note(transaction, who, "share.ended", stream(share_id), body)
        })
    }

    /// Ends the sessions of gateways that don't serve any more.
    ///
    /// # Errors
    /// The database fails.
    pub fn end_left(&self) -> Result<(), LedgerError> {
        let mut left: Vec<(Identity, String)> = Vec::new();
        for (tenant, _) in self.0.accounts().tenants()? {
            let connection = self.0.view(&tenant)?;
            let sql = format!(
                "SELECT tenant, project, owner, share_id FROM share WHERE tenant = ?1 AND state = 'live' AND {LEFT}"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params![tenant, now_ms(&connection)?], |row| {
                Ok((settling(row.get(0)?, row.get(1)?, row.get(2)?, None), row.get(3)?))
            })?;
            left.extend(rows.collect::<crate::ledger::sql::Result<Vec<_>>>()?);
        }
        left.iter().try_for_each(|(who, share_id)| self.end(who, share_id, GATEWAY_ENDED))
    }

    /// Deletes the recordings that have expired. The log still shows that they existed.
    ///
    /// # Errors
    /// The database fails.
    pub fn forget_old(&self) -> Result<(), LedgerError> {
        for (tenant, _) in self.0.accounts().tenants()? {
            self.0.write(&tenant, |transaction| {
                let before = now_ms(transaction)? - RETENTION_MS;
                let old = "SELECT share_id FROM share WHERE tenant = ?1 AND ended_ms < ?2";
                let sql = format!("DELETE FROM share_chunk WHERE tenant = ?1 AND share_id IN ({old})");
                transaction.execute(&sql, params![tenant, before])?;
                transaction
                    .execute("DELETE FROM share WHERE tenant = ?1 AND ended_ms < ?2", params![tenant, before])?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Adds a piece to a recording: lines of JSON.
    ///
    /// # Errors
    /// The database fails.
    pub fn record(&self, who: &Identity, share_id: &str, number: i64, lines: &str) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "INSERT INTO share_chunk VALUES (?1, ?2, ?3, ?4)";
            transaction.execute(sql, params![who.tenant, share_id, number, lines])?;
            Ok(())
        })
    }

    /// A piece of a recording; `None` after its end.
    ///
    /// # Errors
    /// The database fails.
    pub fn piece(&self, who: &Identity, share_id: &str, number: i64) -> Result<Option<String>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let sql = "SELECT data FROM share_chunk WHERE tenant = ?1 AND share_id = ?2 AND n = ?3";
        let values = params![who.tenant, share_id, number];
        Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
    }

    /// The sessions of a tenant after a mark, the newest first.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self, who: &Identity, after: &Mark, limit: usize) -> Result<Marked, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let sql = format!(
            "SELECT {COLUMNS} FROM share WHERE tenant = ?1 AND (started_ms, share_id) < (?2, ?3) \
             ORDER BY started_ms DESC, share_id DESC LIMIT ?4"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params![who.tenant, after.at_ms, after.id, rows_of(limit)], |row| {
            Ok((Mark { at_ms: row.get(11)?, id: row.get(0)? }, value(row)?))
        })?;
        Ok(cut(rows.collect::<crate::ledger::sql::Result<_>>()?, limit))
    }

    /// A session.
    ///
    /// # Errors
    /// There is none in this tenant, or the database fails.
    pub fn get(&self, who: &Identity, share_id: &str) -> Result<Value, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let sql = format!("SELECT {COLUMNS} FROM share WHERE tenant = ?1 AND share_id = ?2");
        let found = connection.query_row(&sql, params![who.tenant, share_id], value).optional()?;
        found.ok_or(LedgerError::NotFound)
    }
}

/// The body of the event that a session is shared.
fn started(share: &NewShare) -> Value {
    json!({"share_id": share.share_id, "kind": share.kind, "watch": share.watch, "approve": share.approve})
}

/// The stream of the events about a session.
fn stream(share_id: &str) -> String {
    format!("share/{share_id}")
}

fn value(row: &Row<'_>) -> crate::ledger::sql::Result<Value> {
    let users = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
    let ended: Option<i64> = row.get(12)?;
    Ok(json!({
        "share_id": row.get::<String>(0)?, "project": row.get::<String>(1)?, "owner": row.get::<String>(2)?,
        "kind": row.get::<String>(3)?, "title": row.get::<String>(4)?, "cols": row.get::<i64>(5)?, "rows": row.get::<i64>(6)?,
        "watch": users(row.get(7)?), "approve": users(row.get(8)?), "state": row.get::<String>(9)?,
        "why": row.get::<Option<String>>(10)?, "started_at": utc_ms(row.get(11)?), "started_ms": row.get::<i64>(11)?, "ended_ms": ended, "ended_at": ended.map(utc_ms),
    }))
}
