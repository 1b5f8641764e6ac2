//! Limits of budgets and the usage of each. Usage is stored by project, user and hour of the database's clock, so that each limit
//! adds up the hours of its span; older hours are merged.

use crate::base::time::utc_ms;
use crate::chain::{Limit, Span};
use crate::ledger::sql::{Connection, params};
use crate::ledger::stores::note;
use crate::ledger::{LedgerError, now_ms};
use crate::proto::team::Identity;
use serde_json::json;

const HOUR_MS: i64 = 3_600 * 1_000;
/// Hours that are stored separately; older ones of a day are merged.
const HOURS_APART: i64 = 48;
/// Hours of the days that stay apart, which are more than a month's.
const DAYS_APART: i64 = 62 * 24;

/// A limit that is to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLimit {
    /// The sum: `calls`, `cost_pico_usd` or `tokens`.
    pub kind: String,
    /// The project whose usage counts; without one, the usage of all projects.
    pub project: Option<String>,
    /// The user whose usage counts; without one, the usage of all users.
    pub actor: Option<String>,
    /// The span of time.
    pub span: Span,
    /// The maximum; `None` removes the limit.
    pub limit: Option<i64>,
}

impl super::Safety<'_> {
    /// Sets a limit of a tenant.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn set_limit(&self, tenant: &str, new: &NewLimit) -> Result<(), LedgerError> {
        let who = self.0.permits().operator_at_terminal(tenant)?;
        self.0.write(tenant, |transaction| {
            let (project, actor) = (new.project.as_deref().unwrap_or(""), new.actor.as_deref().unwrap_or(""));
            let (kind, span) = (&new.kind, new.span.word());
            match new.limit {
                Some(limit) => {
                    let sql = "INSERT INTO budget_rule VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                               ON CONFLICT (tenant, project, actor, span, kind) DO UPDATE SET limit_value = ?6";
                    transaction.execute(sql, params![tenant, project, actor, span, kind, limit])?;
                }
                None => {
                    let sql = "DELETE FROM budget_rule WHERE tenant = ?1 AND project = ?2 AND actor = ?3 AND span = ?4 \
                               AND kind = ?5";
                    transaction.execute(sql, params![tenant, project, actor, span, kind])?;
                }
            }
            let body = json!({"op": "limit", "kind": kind, "project": new.project, "user": new.actor, "per": span,
                "limit": new.limit});
            note(transaction, &who, "budget", "budget".into(), body)
        })
    }

    /// The limits that bound a caller in a project, and how much of each is used.
    ///
    /// # Errors
    /// The database fails.
    pub fn budget(&self, who: &Identity) -> Result<Vec<Limit>, LedgerError> {
        limits(&*self.0.view(&who.tenant)?, who, 0)
    }

    /// The limit of cost or tokens that a caller has used up, so that nothing may be asked of a model.
    ///
    /// # Errors
    /// The database fails.
    pub fn used_up(&self, who: &Identity) -> Result<Option<Limit>, LedgerError> {
        let limits = limits(&*self.0.view(&who.tenant)?, who, 1)?;
        Ok(limits.into_iter().find(|limit| limit.name != "calls" && limit.is_passed()))
    }
}

/// Returns the limits of a caller, with the usage of each.
pub(super) fn limits(connection: &Connection, who: &Identity, asked: i64) -> Result<Vec<Limit>, LedgerError> {
    let now = now_ms(connection)?;
    let begun = |span: Span| span.around(now).0 / HOUR_MS;
    let sql = "SELECT kind, project, actor, span, limit_value, CASE WHEN span = 'run' THEN (SELECT CAST(coalesce(sum(\
               CASE r.kind WHEN 'calls' THEN u.calls WHEN 'tokens' THEN u.tokens ELSE u.cost_pico_usd END), 0) AS BIGINT) \
               FROM budget_use u WHERE u.tenant = r.tenant AND u.run_id = ?4) ELSE (SELECT CAST(coalesce(sum(\
               CASE r.kind WHEN 'calls' THEN s.calls WHEN 'tokens' THEN s.tokens ELSE s.cost_pico_usd END), 0) AS BIGINT) \
               FROM budget_spent s WHERE s.tenant = r.tenant AND (r.project = '' OR s.project = r.project) \
               AND (r.actor = '' OR s.actor = r.actor) AND s.hour >= CASE r.span WHEN 'hour' THEN CAST(?5 AS BIGINT) \
               WHEN 'day' THEN CAST(?6 AS BIGINT) WHEN 'week' THEN CAST(?7 AS BIGINT) WHEN 'month' THEN CAST(?8 AS BIGINT) \
               ELSE CAST(0 AS BIGINT) END) END FROM budget_rule r WHERE tenant = ?1 AND (project = '' OR project = ?2) \
               AND (actor = '' OR actor = ?3) ORDER BY project DESC, actor DESC, span, kind";
    let mut statement = connection.prepare_cached(sql)?;
    let run_id = who.run_id.clone().unwrap_or_default();
    let [hour, day, week, month] = [Span::Hour, Span::Day, Span::Week, Span::Month].map(begun);
    let values = params![who.tenant, who.project, who.user, run_id, hour, day, week, month];
    let rows = statement.query_map(values, |row| {
        let span = Span::of(&row.get::<String>(3)?).unwrap_or(Span::Total);
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Limit {
            name: row.get(0)?,
            project: some(row.get(1)?),
            actor: some(row.get(2)?),
            span,
            limit: row.get(4)?,
            spent: row.get(5)?,
            asked,
            resets_at: span.around(now).1.map(utc_ms),
        })
    })?;
    Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
}

/// The hour of the database's clock.
pub(super) fn hour(connection: &Connection) -> Result<i64, LedgerError> {
    Ok(now_ms(connection)? / HOUR_MS)
}

/// The use of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub(super) calls: i64,
    pub(super) cost: i64,
    pub(super) tokens: i64,
}

/// Adds a caller's usage in an hour; a freed call is subtracted in the hour in which it was counted.
pub(super) fn add(transaction: &Connection, who: &Identity, hour: i64, used: Use) -> Result<(), LedgerError> {
    let Use { calls, cost, tokens } = used;
    let sql = "INSERT INTO budget_use VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (tenant, run_id) DO UPDATE SET \
               calls = budget_use.calls + ?3, cost_pico_usd = budget_use.cost_pico_usd + ?4, tokens = budget_use.tokens + ?5";
    let run_id = who.run_id.clone().unwrap_or_default();
    transaction.execute(sql, params![who.tenant, run_id, calls, cost, tokens])?;
    let sql = "INSERT INTO budget_spent VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (tenant, project, actor, hour) \
               DO UPDATE SET calls = budget_spent.calls + ?5, cost_pico_usd = budget_spent.cost_pico_usd + ?6, \
               tokens = budget_spent.tokens + ?7";
    transaction.execute(sql, params![who.tenant, who.project, who.user, hour, calls, cost, tokens])?;
    Ok(())
}

/// Merges old hours of a tenant into days, and very old ones into one row, so that a sum needs few rows.
pub(in crate::ledger) fn put_together(transaction: &Connection, tenant: &str) -> Result<(), LedgerError> {
    let now = hour(transaction)?;
    for (into, old, before) in
        [("hour - hour % 24", "hour % 24 <> 0", now - HOURS_APART), ("CAST(0 AS BIGINT)", "hour > 0", now - DAYS_APART)]
    {
        let sql = format!(
            "INSERT INTO budget_spent SELECT tenant, project, actor, {into}, CAST(sum(calls) AS BIGINT), \
             CAST(sum(cost_pico_usd) AS BIGINT), CAST(sum(tokens) AS BIGINT) FROM budget_spent WHERE tenant = ?1 \
             AND hour < ?2 AND {old} GROUP BY tenant, project, actor, {into} ON CONFLICT (tenant, project, actor, hour) \
             DO UPDATE SET calls = budget_spent.calls + excluded.calls, \
             cost_pico_usd = budget_spent.cost_pico_usd + excluded.cost_pico_usd, tokens = budget_spent.tokens + excluded.tokens"
        );
        transaction.execute(&sql, params![tenant, before])?;
        let sql = format!("DELETE FROM budget_spent WHERE tenant = ?1 AND hour < ?2 AND {old}");
        transaction.execute(&sql, params![tenant, before])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    #[test]
    fn hours_that_are_put_together_keep_their_sums() {
        let place = tempfile::tempdir().expect("a place");
        let ledger = Ledger::open(&place.path().join("gateway.db")).expect("it opens");
        let who = ledger.permits().operator_at_terminal("local").expect("the tenant");
        for span in Span::ALL {
            let new = NewLimit { kind: "tokens".into(), project: None, actor: None, span, limit: Some(100) };
            ledger.safety().set_limit("local", &new).expect("it is set");
        }
        let spent = || -> Vec<(&'static str, i64)> {
            let limits = ledger.safety().budget(&who).expect("limits");
            limits.iter().map(|limit| (limit.span.word(), limit.spent)).collect()
        };
        let count = |sql: &str| -> i64 {
            let connection = ledger.view("local").expect("a view");
            connection.query_row(sql, params![], |row| row.get(0)).expect("a number")
        };
        let mut now = 0;
        ledger
            .write("local", |transaction| {
                now = hour(transaction)?;
                for ago in [0, 1, 30, 49, 50, 24 * 20, 24 * 70, 24 * 70 + 1, 24 * 400] {
                    add(transaction, &who, now - ago, Use { tokens: 1, ..Use::default() })?;
                }
                Ok(())
            })
            .expect("it is noted");
        let before = spent();
        assert!(before.contains(&("total", 9)), "{before:?}");
        let rows = "SELECT count(*) FROM budget_spent";
        assert_eq!(count(rows), 9);
        for _ in 0..2 {
            ledger.write("local", |transaction| put_together(transaction, "local")).expect("they are put together");
            assert_eq!(spent(), before);
            // There are rows for two days, for one or two days before, for a month, and for all others.
            assert!(count(rows) <= 7, "{}", count(rows));
            assert_eq!(count("SELECT tokens FROM budget_spent WHERE hour = 0"), 3);
        }
    }
}
