//! The removal of old events: a log loses a prefix, and an anchor with the hash of its last event replaces it. The removal is
//! recorded in the log first, so that `verify` can distinguish it from a loss. Expired rows are removed, too.

use serde_json::{Value, json};

use crate::base::time::utc_ms;
use crate::canvas::State;
use crate::ledger::more::anchor::{Anchor, KIND};
use crate::ledger::safety::budget::put_together;
use crate::ledger::spine::append_in;
use crate::ledger::sql::{Begin, Connection, params};
use crate::ledger::{Ledger, LedgerError, now_ms};
use crate::proto::team::{EventDraft, Identity};

/// Rows that one statement removes, so that no writer waits long.
const ROWS: i64 = 1_000;
/// A day in milliseconds.
const DAY_MS: i64 = 24 * 3_600 * 1_000;
/// Days for which the answers to actions can be had again; those of other requests have one.
const ACTION_DAYS: i64 = 30;
/// Default number of days for which events are stored in tenants other than this machine's own.
const DAYS: i64 = 400;
/// Smallest number of days for which events can be stored.
pub const DAYS_MIN: i64 = 30;
/// The flag of a tenant with its number of days.
const FLAG: &str = "retention_days";
/// The removal of old data.
pub struct Retention<'l>(pub(in crate::ledger) &'l Ledger);

impl Retention<'_> {
    /// Sets the number of days for which the events of a tenant are stored; `None` means the default.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn set_days(&self, tenant: &str, days: Option<i64>) -> Result<(), LedgerError> {
        self.0.safety().set_flag_value(tenant, None, FLAG, days.map_or(Value::Null, Value::from))
    }

    /// The number of days for which the events of a tenant stay; `None` for ever.
    ///
    /// # Errors
    /// The database fails.
    pub fn days(&self, tenant: &str) -> Result<Option<i64>, LedgerError> {
        let days = self.0.safety().flag_value(tenant, FLAG)?.and_then(|value| value.as_i64());
        let is_own = self.0.accounts().mode(tenant)? == Some(crate::proto::team::Mode::Lab);
        Ok(days.or((!is_own).then_some(DAYS)).filter(|days| *days > 0))
    }

    /// The number of events that were stored before a time, in Unix milliseconds, and can be removed. Those stay that an open
    /// question, a running run, a licence or a lock in force needs, and all after them.
    ///
    /// # Errors
    /// The database fails.
    pub fn before(&self, tenant: &str, time_ms: i64) -> Result<i64, LedgerError> {
        let connection = self.0.view(tenant)?;
        let first = Anchor::of(&connection, tenant)?.map_or(0, |anchor| anchor.position);
        Ok((last_before(&connection, tenant, time_ms)? - first).max(0))
    }

    /// Removes the events that were stored before a time. Returns how many.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn purge(&self, tenant: &str, time_ms: i64) -> Result<i64, LedgerError> {
        let who = self.0.permits().operator_at_terminal(tenant)?;
        let count = self.before(tenant, time_ms)?;
        if count > 0 {
            self.announce(&who, time_ms)?;
        }
        while self.remove(tenant)? {}
        Ok(count)
    }

    /// Records the removal in the log, with the bases of canvases, and sets the anchor.
    fn announce(&self, who: &Identity, time_ms: i64) -> Result<(), LedgerError> {
        let transaction = self.0.pool.begin(Begin::Owner, &[&who.tenant])?;
        let last = last_before(&transaction, &who.tenant, time_ms)?;
        let sql = "SELECT hash FROM event WHERE tenant = ?1 AND position = ?2";
        let hash: String = transaction.query_row(sql, params![who.tenant, last], |row| row.get(0))?;
        let mut canvases = Vec::new();
        for (canvas, state, position) in self.0.canvases().boards_before(&transaction, who, last)? {
            store_base(&transaction, &who.tenant, &canvas, &state, position)?;
            let state_hash = state.hash();
            canvases
                .push(json!({"canvas_id": canvas, "rev": state.rev, "position": position, "state_hash": state_hash}));
        }
        let body =
            json!({"kind": KIND, "position": last, "hash": hash, "before": utc_ms(time_ms), "canvases": canvases});
        let draft = EventDraft {
            event_type: "audit".into(),
            source: "engine".into(),
            stream: Some("dataset:audit".into()),
            body,
            ..EventDraft::default()
        };
        let announced = append_in(&transaction, who, &[draft], None)?.first().map_or(0, |it| it.position);
        let sql = "INSERT INTO anchor VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tenant) DO UPDATE SET position = ?2, hash = ?3, announced = ?4";
        transaction.execute(sql, params![who.tenant, last, hash, announced])?;
        Ok(transaction.finish()?)
    }

    /// Removes some of the events before the anchor; returns whether there are more.
    fn remove(&self, tenant: &str) -> Result<bool, LedgerError> {
        let transaction = self.0.pool.begin(Begin::Owner, &[tenant])?;
        let Some(anchor) = Anchor::of(&transaction, tenant)? else { return Ok(false) };
        let sql = "SELECT coalesce(min(position), 0) FROM event WHERE tenant = ?1 AND position <= ?2";
        let first: i64 = transaction.query_row(sql, params![tenant, anchor.position], |row| row.get(0))?;
        if first == 0 {
            return Ok(false);
        }
        let last = anchor.position.min(first + ROWS - 1);
        transaction.execute("DELETE FROM event WHERE tenant = ?1 AND position <= ?2", params![tenant, last])?;
        transaction.execute("DELETE FROM erased WHERE tenant = ?1 AND position <= ?2", params![tenant, last])?;
        transaction.finish()?;
        Ok(last < anchor.position)
    }

    /// Removes expired data of all tenants: events, memory, stored answers, figures, codes and sessions. Only one of the gateways
    /// that share a database does it.
    ///
    /// # Errors
    /// The database fails.
    pub fn tidy(&self) -> Result<(), LedgerError> {
        let now = {
            let connection = self.0.view("")?;
            let now = now_ms(&connection)?;
            let sql = "SELECT min(node_id) FROM node WHERE until_ms > ?1";
            let first: Option<String> = connection.query_row(sql, [now], |row| row.get(0))?;
            if first.as_deref() != Some(self.0.node()) {
                return Ok(());
            }
            now
        };
        for (tenant, _) in self.0.accounts().tenants()? {
            while self.forget(&tenant, now)? {}
            self.0.write(&tenant, |transaction| put_together(transaction, &tenant))?;
            if let Some(days) = self.days(&tenant)? {
                self.purge(&tenant, now - days * DAY_MS)?;
            }
        }
        let transaction = self.0.pool.begin(Begin::Write, &[])?;
        transaction.execute("DELETE FROM pair_code WHERE expires_ms <= ?1", [now])?;
        transaction.execute("DELETE FROM session WHERE expires_ms <= ?1", [now])?;
        Ok(transaction.finish()?)
    }

    /// Removes some rows of a tenant that count no longer; returns whether there may be more.
    fn forget(&self, tenant: &str, now: i64) -> Result<bool, LedgerError> {
        let removals = [
            (
                "DELETE FROM memory WHERE tenant = ?1 AND (scope, scope_id, key) IN (SELECT scope, scope_id, key FROM memory \
                 WHERE tenant = ?1 AND expires_ms <= ?2 LIMIT ?3)",
                now,
            ),
            (
                "DELETE FROM idempotency WHERE tenant = ?1 AND (kind, key) IN (SELECT kind, key FROM idempotency \
                 WHERE tenant = ?1 AND kind <> 'action' AND at_ms < ?2 LIMIT ?3)",
                now - DAY_MS,
            ),
            (
                "DELETE FROM idempotency WHERE tenant = ?1 AND (kind, key) IN (SELECT kind, key FROM idempotency \
                 WHERE tenant = ?1 AND state = 'done' AND at_ms < ?2 LIMIT ?3)",
                now - ACTION_DAYS * DAY_MS,
            ),
            (
                "DELETE FROM figure WHERE tenant = ?1 AND (kpi, action, at_ms) IN (SELECT kpi, action, at_ms FROM figure \
                 WHERE tenant = ?1 AND at_ms < ?2 LIMIT ?3)",
                now - 2 * DAY_MS,
            ),
        ];
        let transaction = self.0.pool.begin(Begin::Write, &[tenant])?;
        let mut has_more = false;
        for (sql, before) in removals {
            let removed = transaction.execute(sql, params![tenant, before, ROWS])?;
            has_more |= i64::try_from(removed).is_ok_and(|removed| removed >= ROWS);
        }
        transaction.finish()?;
        Ok(has_more)
    }
}

/// Writes the snapshot from which a canvas is folded from now on.
fn store_base(
    transaction: &Connection,
    tenant: &str,
    canvas: &str,
    state: &State,
    position: i64,
) -> Result<(), LedgerError> {
    let atoms = state.atoms_text();
    let sql = "INSERT INTO canvas_snapshot VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tenant, canvas_id, rev) \
               DO UPDATE SET atoms = ?4, state_hash = ?5, position = ?6";
    transaction.execute(sql, params![tenant, canvas, state.rev, atoms, state.hash(), position])?;
    Ok(())
}

/// The position of the last event that was stored before a time and that nothing needs; 0 if there is none.
fn last_before(connection: &Connection, tenant: &str, time_ms: i64) -> Result<i64, LedgerError> {
    let now = now_ms(connection)?;
    let earliest = |sql: &str| -> Result<Option<i64>, LedgerError> {
        Ok(connection.query_row(sql, params![tenant], |row| row.get(0))?)
    };
    let asked = earliest("SELECT min(asked_ms) FROM question WHERE tenant = ?1 AND state = 'open'")?;
    let running = earliest("SELECT min(started_ms) FROM run WHERE tenant = ?1 AND state = 'running'")?;
    let before = utc_ms([Some(time_ms), asked, running].into_iter().flatten().min().unwrap_or(time_ms));
    // Times grow with positions, so a binary search finds the place.
    let sql = "SELECT coalesce(min(position), 1), coalesce(max(position), 0) FROM event WHERE tenant = ?1";
    let (first, end): (i64, i64) = connection.query_row(sql, [tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (mut low, mut high) = (first - 1, end);
    let sql = "SELECT 1 FROM event WHERE tenant = ?1 AND position = ?2 AND recorded_at < ?3";
    while low < high {
        let middle = low + (high - low + 1) / 2;
        match connection.prepare_cached(sql)?.exists(params![tenant, middle, before])? {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    let sql = "SELECT min(position) FROM event WHERE tenant = ?1 AND event_type IN ('licence', 'strategy_lock') AND (\
               stream IN (SELECT 'licence/' || licence_id FROM licence WHERE tenant = ?1 AND revoked IS NULL AND valid_until_ms > ?2) \
               OR stream IN (SELECT 'strategy_lock/' || lock_id FROM strategy_lock WHERE tenant = ?1 AND valid_until_ms > ?2))";
    let needed: Option<i64> = connection.query_row(sql, params![tenant, now], |row| row.get(0))?;
    Ok(needed.map_or(low, |needed| low.min(needed - 1)).max(first - 1))
}
