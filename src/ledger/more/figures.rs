//! Measured figures and the rules about them. The gates' own figures are written in the transaction that they measure; others
//! come from clients, each with its event.

use crate::ledger::sql::{Connection, OptionalExtension as _, params};
use serde_json::{Value, json};

pub use crate::chain::{Rule, of_thousandths};
use crate::ledger::spine::append_in;
use crate::ledger::stores::note;
use crate::ledger::{Ledger, LedgerError, now_ms};
use crate::proto::team::{EventDraft, GateName, Identity};

/// Figures that the gateway measures itself.
pub const BUILT_IN: [&str; 3] = [ERRORS, DENIALS, P95];
const ERRORS: &str = "error_rate";
const DENIALS: &str = "denial_rate";
const P95: &str = "p95_ms";
/// The longest window, in seconds; older figures are deleted.
pub const WINDOW_S_MAX: i64 = 24 * 3_600;
/// The window of a figure that no rule is about, in seconds.
const WINDOW_S: i64 = 3_600;
/// Limit on the listed figures without a rule.
const NAMES_MAX: i64 = 200;

/// A figure from a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub kpi: String,
    /// The action that it is about; empty if it is about none.
    pub action: String,
    /// Its value, in thousandths.
    pub thousandths: i64,
    /// The event about it.
    pub draft: EventDraft,
}

/// The figures of the tenants.
pub struct Figures<'l>(pub(in crate::ledger) &'l Ledger);

impl Figures<'_> {
    /// Sets a rule of a tenant; `None` removes the rule about this figure and action.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn set_rule(&self, tenant: &str, kpi: &str, action: &str, rule: Option<&Rule>) -> Result<(), LedgerError> {
        let who = self.0.permits().operator_at_terminal(tenant)?;
        self.0.write(tenant, |transaction| {
            match rule {
                Some(rule) => {
                    let sql = "INSERT INTO kpi_rule VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (tenant, kpi, action) \
                               DO UPDATE SET op = ?4, thousandths = ?5, window_s = ?6, samples_min = ?7";
                    let values = params![tenant, kpi, action, rule.op, rule.threshold, rule.window_s, rule.samples_min];
                    transaction.execute(sql, values)?;
                }
                None => {
                    let sql = "DELETE FROM kpi_rule WHERE tenant = ?1 AND kpi = ?2 AND action = ?3";
                    transaction.execute(sql, params![tenant, kpi, action])?;
                }
            }
            let rule =
                rule.map(|rule| json!({"op": rule.op, "thousandths": rule.threshold, "window_s": rule.window_s}));
            let body = json!({"kind": "kpi_rule", "kpi": kpi, "action": action, "rule": rule});
            note(transaction, &who, "audit", "dataset:audit".into(), body)
        })
    }

    /// Stores figures of a client, with their events. A figure whose event exists already isn't counted again.
    ///
    /// # Errors
    /// An event's id was used for another event, or the database fails.
    pub fn ingest(&self, who: &Identity, figures: &[Figure]) -> Result<usize, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let drafts: Vec<EventDraft> = figures.iter().map(|figure| figure.draft.clone()).collect();
            let stored = append_in(transaction, who, &drafts, None)?;
            let new = figures.iter().zip(stored).filter(|(_, stored)| !stored.is_duplicate);
            let mut count = 0;
            for (figure, _) in new {
                measure(transaction, &who.tenant, &figure.kpi, &figure.action, figure.thousandths)?;
                count += 1;
            }
            Ok(count)
        })
    }

    /// Every figure of the tenant with its value, and the rule about it if there is one.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self, who: &Identity) -> Result<Vec<Rule>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let mut rules = rules_of(&connection, &who.tenant)?;
        let mut names: Vec<String> = BUILT_IN.map(str::to_owned).to_vec();
        let sql = "SELECT DISTINCT kpi FROM figure WHERE tenant = ?1 LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        for name in statement.query_map(params![who.tenant, NAMES_MAX], |row| row.get(0))? {
            names.push(name?);
        }
        for name in names {
            if !rules.iter().any(|rule| rule.kpi == name) {
                let rule = Rule { kpi: name, window_s: WINDOW_S, samples_min: 1, ..Rule::default() };
                rules.push(Rule { ..rule });
            }
        }
        for rule in &mut rules {
            fill(&connection, &who.tenant, rule)?;
        }
        Ok(rules)
    }
}

/// A figure as endpoints return it.
#[must_use]
pub fn to_value(rule: &Rule) -> Value {
    let value = |thousandths: i64| Value::from(of_thousandths(thousandths));
    let has_rule = !rule.op.is_empty();
    json!({
        "kpi": rule.kpi, "action": rule.action, "window_s": rule.window_s, "samples": rule.samples,
        "value": rule.value.map(value), "op": has_rule.then(|| rule.op.clone()),
        "threshold": has_rule.then(|| value(rule.threshold)), "samples_min": has_rule.then_some(rule.samples_min),
        "broken": has_rule && rule.is_broken(),
    })
}

/// Stores a figure, and removes those that are outside every window.
fn measure(
    transaction: &Connection,
    tenant: &str,
    kpi: &str,
    action: &str,
    thousandths: i64,
) -> Result<(), LedgerError> {
    let now = now_ms(transaction)?;
    let sql = "DELETE FROM figure WHERE tenant = ?1 AND kpi = ?2 AND at_ms < ?3";
    transaction.prepare_cached(sql)?.execute(params![tenant, kpi, now - WINDOW_S_MAX * 1_000])?;
    let sql = "INSERT INTO figure VALUES (?1, ?2, ?3, ?4, ?5)";
    transaction.prepare_cached(sql)?.execute(params![tenant, kpi, action, now, thousandths])?;
    Ok(())
}

/// Measures a decision. Blocks because of the figures themselves or of heat don't count: a broken rule would keep itself broken.
pub fn decided(
    transaction: &Connection,
    who: &Identity,
    action: &str,
    blocked: Option<GateName>,
    is_refused: bool,
) -> Result<(), LedgerError> {
    if matches!(blocked, Some(GateName::Kpi | GateName::Temperature)) {
        return Ok(());
    }
    let denied = if blocked.is_some() || is_refused { 1_000 } else { 0 };
    measure(transaction, &who.tenant, DENIALS, action, denied)
}

/// Measures how a call ended, from the event about it.
pub fn ended(transaction: &Connection, who: &Identity, draft: &EventDraft) -> Result<(), LedgerError> {
    let failed = match draft.event_type.as_str() {
        "action.completed" => 0,
        "action.failed" => 1_000,
        _ => return Ok(()),
    };
    let action = draft.body["action_name"].as_str().unwrap_or_default();
    measure(transaction, &who.tenant, ERRORS, action, failed)?;
    match draft.body["ms"].as_i64() {
        Some(ms) => measure(transaction, &who.tenant, P95, action, ms.saturating_mul(1_000)),
        None => Ok(()),
    }
}

fn rules_of(connection: &Connection, tenant: &str) -> Result<Vec<Rule>, LedgerError> {
    let sql = "SELECT kpi, action, op, thousandths, window_s, samples_min FROM kpi_rule WHERE tenant = ?1 ORDER BY kpi, action";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([tenant], |row| {
        Ok(Rule {
            kpi: row.get(0)?,
            action: row.get(1)?,
            op: row.get(2)?,
            threshold: row.get(3)?,
            window_s: row.get(4)?,
            samples_min: row.get(5)?,
            samples: 0,
            value: None,
        })
    })?;
    Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
}

/// Returns the rules about an action, with their current figures.
pub fn rules(connection: &Connection, tenant: &str, action: &str) -> Result<Vec<Rule>, LedgerError> {
    let mut rules = rules_of(connection, tenant)?;
    rules.retain(|rule| rule.action.is_empty() || rule.action == action);
    for rule in &mut rules {
        fill(connection, tenant, rule)?;
    }
    Ok(rules)
}

/// Measures the figure of a rule: a rate or another figure is the mean of its window, a time is the 95th percentile.
fn fill(connection: &Connection, tenant: &str, rule: &mut Rule) -> Result<(), LedgerError> {
    let since = now_ms(connection)? - rule.window_s * 1_000;
    let sql = "SELECT count(*), CAST(coalesce(sum(thousandths), 0) AS BIGINT) FROM figure WHERE tenant = ?1 AND kpi = ?2 AND at_ms >= ?3 \
               AND (?4 = '' OR action = ?4)";
    let (count, sum): (i64, i64) = connection
        .prepare_cached(sql)?
        .query_row(params![tenant, rule.kpi, since, rule.action], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rule.samples = count;
    if count == 0 || count < rule.samples_min {
        return Ok(());
    }
    if rule.kpi != P95 {
        rule.value = Some(sum / count);
        return Ok(());
    }
    let sql = "SELECT thousandths FROM figure WHERE tenant = ?1 AND kpi = ?2 AND at_ms >= ?3 AND (?4 = '' OR action = ?4) \
               ORDER BY thousandths LIMIT 1 OFFSET ?5";
    let place = (count * 95 + 99) / 100 - 1;
    rule.value = connection
        .prepare_cached(sql)?
        .query_row(params![tenant, rule.kpi, since, rule.action, place], |row| row.get(0))
        .optional()?;
    Ok(())
}
