//! Runs of the agent: the beginning, the outcome and the text of each. The row and its event change together.

use super::sql::{OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use super::permits::settling;
use super::stores::note;
use super::{LEFT, Ledger, LedgerError, Mark, Marked, Node, cut, now_ms, rows_of};
use crate::base::time::utc_ms;
use crate::proto::team::Identity;

/// A run to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Its id.
    pub run_id: String,
    /// The question, redacted.
    pub question: String,
    /// The origin of the request: `chat`, or a webhook's name.
    pub origin: String,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// `answered`, `failed`, `cancelled` or `interrupted`.
    pub state: &'static str,
    /// The text of the answer.
    pub text: String,
    /// The reason, if it failed.
    pub failure: Option<String>,
    /// The use of its limits.
    pub usage: Value,
    /// The conversation, by its id that includes the machine's number.
    pub conversation_id: Option<i64>,
}

const COLUMNS: &str =
    "run_id, project, user, conversation_id, state, question, text, failure, usage, started_ms, ended_ms";

/// Runs of agents.
pub struct Runs<'l>(pub(in crate::ledger) &'l Ledger);

impl Runs<'_> {
    /// Records the beginning of a run.
    ///
    /// # Errors
    /// The id was used before, or the database fails.
    pub fn begin(&self, who: &Identity, new: &NewRun) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "SELECT 1 FROM run WHERE tenant = ?1 AND run_id = ?2";
            if transaction.prepare_cached(sql)?.exists(params![who.tenant, new.run_id])? {
                return Err(LedgerError::IdempotencyMismatch(format!("the run {}", new.run_id)));
            }
            let sql = "INSERT INTO run (tenant, run_id, project, user, state, question, started_ms, node) \
                       VALUES (?1, ?2, ?3, ?4, 'running', ?5, ?6, ?7)";
            let now = now_ms(transaction)?;
            let values = params![who.tenant, new.run_id, who.project, who.user, new.question, now, transaction.node()];
            transaction.execute(sql, values)?;
            let body = json!({"origin": new.origin, "question": new.question});
            note(transaction, who, "run.started", format!("run/{}", new.run_id), body)
        })
    }

    /// Records the end of a run; repeating it changes nothing.
    ///
    /// # Errors
    /// The database fails.
    pub fn end(&self, who: &Identity, run_id: &str, end: &RunEnd) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "UPDATE run SET state = ?3, text = ?4, failure = ?5, usage = ?6, conversation_id = ?7, ended_ms = ?8 \
                       WHERE tenant = ?1 AND run_id = ?2 AND state = 'running'";
            let now = now_ms(transaction)?;
            let usage = end.usage.to_string();
            let changed = transaction.execute(
                sql,
                params![who.tenant, run_id, end.state, end.text, end.failure, usage, end.conversation_id, now],
            )?;
            if changed == 0 {
                return Ok(());
            }
            let body = json!({"state": end.state, "failure": end.failure, "usage": end.usage,
                "conversation_id": end.conversation_id});
            note(transaction, who, "run.ended", format!("run/{run_id}"), body)
        })
    }

    /// Ends the runs that an earlier process left. Returns how many.
    ///
    /// # Errors
    /// The database fails.
    pub fn end_left(&self) -> Result<usize, LedgerError> {
        let mut left: Vec<(Identity, String)> = Vec::new();
        for (tenant, _) in self.0.accounts().tenants()? {
            let connection = self.0.view(&tenant)?;
            let sql = format!(
                "SELECT tenant, run_id, project, user FROM run WHERE tenant = ?1 AND state = 'running' AND {LEFT}"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params![tenant, now_ms(&connection)?], |row| {
                let run_id: String = row.get(1)?;
                let who = settling(row.get(0)?, row.get(2)?, row.get(3)?, Some(run_id.clone()));
                Ok((who, run_id))
            })?;
            left.extend(rows.collect::<crate::ledger::sql::Result<Vec<_>>>()?);
        }
        for (who, run_id) in &left {
            let end = RunEnd {
                state: "interrupted",
                text: String::new(),
                failure: Some("the gateway ended while it ran".into()),
                usage: json!({}),
                conversation_id: None,
            };
            self.end(who, run_id, &end)?;
        }
        Ok(left.len())
    }

    /// The runs of a tenant and project after a mark, the newest first.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self, who: &Identity, after: &Mark, limit: usize) -> Result<Marked, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let sql = format!(
            "SELECT {COLUMNS} FROM run WHERE tenant = ?1 AND project = ?2 AND (started_ms, run_id) < (?3, ?4) \
             ORDER BY started_ms DESC, run_id DESC LIMIT ?5"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let values = params![who.tenant, who.project, after.at_ms, after.id, rows_of(limit)];
        let rows =
            statement.query_map(values, |row| Ok((Mark { at_ms: row.get(9)?, id: row.get(0)? }, run_value(row)?)))?;
        Ok(cut(rows.collect::<crate::ledger::sql::Result<_>>()?, limit))
    }

    /// A run.
    ///
    /// # Errors
    /// The project has no such run, or the database fails.
    pub fn get(&self, who: &Identity, run_id: &str) -> Result<Value, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let sql = format!("SELECT {COLUMNS} FROM run WHERE tenant = ?1 AND project = ?2 AND run_id = ?3");
        let found = connection.query_row(&sql, params![who.tenant, who.project, run_id], run_value).optional()?;
        found.ok_or(LedgerError::NotFound)
    }

    /// Returns the questions that a user has asked, each with its project and the id of its conversation. Erased ones are left
    /// out.
    ///
    /// # Errors
    /// The database fails.
    pub fn asked(&self, tenant: &str, user: &str) -> Result<Vec<(String, i64, String)>, LedgerError> {
        let connection = self.0.view(tenant)?;
        let sql = "SELECT project, conversation_id, question FROM run WHERE tenant = ?1 AND user = ?2 \
                   AND conversation_id IS NOT NULL AND question <> ''";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![tenant, user], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// The gateway that has a run, if it lives.
    ///
    /// # Errors
    /// The database fails.
    pub fn node(&self, who: &Identity, run_id: &str) -> Result<Option<Node>, LedgerError> {
        let id: Option<String> = {
            let connection = self.0.view(&who.tenant)?;
            let sql = "SELECT node FROM run WHERE tenant = ?1 AND project = ?2 AND run_id = ?3";
            connection.query_row(sql, params![who.tenant, who.project, run_id], |row| row.get(0)).optional()?.flatten()
        };
        Ok(self.0.nodes().list()?.into_iter().find(|node| Some(&node.id) == id.as_ref()))
    }
}

fn run_value(row: &Row<'_>) -> crate::ledger::sql::Result<Value> {
    let usage: String = row.get(8)?;
    let ended: Option<i64> = row.get(10)?;
    Ok(json!({
        "run_id": row.get::<String>(0)?, "project": row.get::<String>(1)?, "user": row.get::<String>(2)?,
        "conversation_id": row.get::<Option<i64>>(3)?, "state": row.get::<String>(4)?,
        "question": row.get::<String>(5)?, "text": row.get::<String>(6)?, "failure": row.get::<Option<String>>(7)?,
        "usage": serde_json::from_str::<Value>(&usage).unwrap_or_default(), "started_at": utc_ms(row.get(9)?),
        "ended_at": ended.map(utc_ms),
    }))
}
