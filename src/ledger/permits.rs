//! Licences for dangerous actions and strategy locks: each change is an event, and the row is its newest state.

use super::sql::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use super::stores::note;
use super::{Ledger, LedgerError, now_ms, now_text, uuid_v7};
use crate::base::time::utc_ms;
use crate::proto::team::{Identity, Mode, TeamRole, TokenKind};

/// Persons that a lock with `three_wise` needs.
const WISE: i64 = 3;
/// Limit on the days for which a licence is valid.
const LICENCE_DAYS_MAX: i64 = 90;
/// Limit on the days for which a strategy lock is valid.
const LOCK_DAYS_MAX: i64 = 3_650;
/// Days that the lock of a new tenant counts.
const FIRST_LOCK_DAYS: i64 = 90;
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// A licence to issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLicence {
    /// `user:NAME`, `role:NAME` or `agent:NAME`.
    pub subject: String,
    /// The actions.
    pub actions: Vec<String>,
    /// The class.
    pub class: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// The surface.
    pub surface_id: Option<String>,
    /// Time when it ends, in Unix milliseconds; compared with the database's clock.
    pub valid_until_ms: i64,
    /// Number of times that it may be used.
    pub uses_max: Option<i64>,
    /// The reason.
    pub reason: String,
}

/// A strategy lock to make or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLock {
    /// `*` or a project.
    pub scope: String,
    /// The surface.
    pub surface_id: Option<String>,
    /// Patterns of actions.
    pub actions: Vec<String>,
    /// `true` if three persons must approve it.
    pub is_three_wise: bool,
    /// Time when it begins, in Unix milliseconds; now if absent.
    pub valid_from_ms: Option<i64>,
    /// Time when it ends.
    pub valid_until_ms: i64,
    /// The reason.
    pub reason: String,
}

/// Licences and strategy locks.
pub struct Permits<'l>(pub(in crate::ledger) &'l Ledger);

impl Permits<'_> {
    /// The identity of a person at this machine's terminal.
    pub(super) fn operator_at_terminal(&self, tenant: &str) -> Result<Identity, LedgerError> {
        let mode = self.0.accounts().mode(tenant)?.ok_or(LedgerError::NotFound)?;
        Ok(at_terminal(tenant, mode))
    }

    /// Issues a licence.
    ///
    /// # Errors
    /// It doesn't end within the next 90 days by the database's clock, or the database fails.
    pub fn issue(&self, who: &Identity, new: &NewLicence) -> Result<Value, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let id = uuid_v7();
            let (now, until) = (now_ms(transaction)?, new.valid_until_ms);
            if until <= now || until > now.saturating_add(LICENCE_DAYS_MAX * DAY_MS) {
                return Err(LedgerError::Time(format!("valid_until lies within the next {LICENCE_DAYS_MAX} days")));
            }
            let actions = Value::from(new.actions.clone()).to_string();
            transaction.execute(
                "INSERT INTO licence VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, ?11, NULL)",
                params![
                    who.tenant,
                    id,
                    new.subject,
                    actions,
                    new.class,
                    new.project,
                    new.surface_id,
                    until,
                    new.uses_max,
                    new.reason,
                    who.user
                ],
            )?;
            let licence = licence(transaction, &who.tenant, &id)?;
            let body = json!({"op": "issued", "licence": licence});
            note(transaction, who, "licence", format!("licence/{id}"), body)?;
            Ok(licence)
        })
    }

    /// Returns the licences of a tenant, or those that are valid now.
    ///
    /// # Errors
    /// The database fails.
    pub fn licences(&self, who: &Identity, only_active: bool) -> Result<Vec<Value>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let now = now_ms(&connection)?;
        let sql = format!("SELECT {LICENCE} FROM licence WHERE tenant = ?1 ORDER BY licence_id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([&who.tenant], |row| licence_value(row, now))?;
        let all: Vec<Value> = rows.collect::<crate::ledger::sql::Result<_>>()?;
        Ok(all.into_iter().filter(|licence| !only_active || licence["active"] == true).collect())
    }

    /// Revokes a licence; repeating it changes nothing.
    ///
    /// # Errors
    /// The tenant has no such licence, or the database fails.
    pub fn revoke_licence(&self, who: &Identity, id: &str, reason: &str) -> Result<Value, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "UPDATE licence SET revoked = ?3 WHERE tenant = ?1 AND licence_id = ?2 AND revoked IS NULL";
            if transaction.execute(sql, params![who.tenant, id, reason])? > 0 {
                let body = json!({"op": "revoked", "licence_id": id, "reason": reason});
                note(transaction, who, "licence", format!("licence/{id}"), body)?;
            }
            licence(transaction, &who.tenant, id)
        })
    }

    /// Makes a strategy lock, which waits for approval.
    ///
    /// # Errors
    /// It doesn't end after its beginning and within ten years by the database's clock, or the database fails.
    pub fn add_lock(&self, who: &Identity, new: &NewLock) -> Result<Value, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let id = uuid_v7();
            let (from, until) = lock_times(transaction, new)?;
            insert_lock(transaction, who, &id, new, (from, until, "pending"))?;
            changed_lock(transaction, who, &id, "made")
        })
    }

    /// The strategy locks of a tenant.
    ///
    /// # Errors
    /// The database fails.
    pub fn strategy_locks(&self, who: &Identity) -> Result<Vec<Value>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let now = now_ms(&connection)?;
        let sql = format!("SELECT {LOCK} FROM strategy_lock l WHERE tenant = ?1 ORDER BY lock_id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([&who.tenant], |row| lock_value(row, now))?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// Changes a lock: it waits for approval again, and earlier approvals don't count.
    ///
    /// # Errors
    /// There is no such lock, the actor isn't its author, it has another version, its times are invalid, or the database fails.
    pub fn change_lock(&self, who: &Identity, id: &str, expected: i64, new: &NewLock) -> Result<Value, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let (author, version) = author(transaction, who, id)?;
            if author != who.user {
                return Err(LedgerError::Forbidden("only the author of a lock changes it".into()));
            }
            if version != expected {
                return Err(LedgerError::VersionConflict { expected, actual: version });
            }
            let (from, until) = lock_times(transaction, new)?;
            let actions = Value::from(new.actions.clone()).to_string();
            let sql = "UPDATE strategy_lock SET scope = ?3, surface_id = ?4, actions = ?5, three_wise = ?6, \
                       valid_from_ms = ?7, valid_until_ms = ?8, reason = ?9, state = 'pending', version = version + 1 \
                       WHERE tenant = ?1 AND lock_id = ?2";
            let NewLock { scope, surface_id, is_three_wise, reason, .. } = new;
            let values = params![who.tenant, id, scope, surface_id, actions, is_three_wise, from, until, reason];
            transaction.execute(sql, values)?;
            let sql = "DELETE FROM lock_approval WHERE tenant = ?1 AND lock_id = ?2";
            transaction.execute(sql, params![who.tenant, id])?;
            changed_lock(transaction, who, id, "changed")
        })
    }

    /// Approves or rejects a lock. A person counts once, and the author never.
    ///
    /// # Errors
    /// There is no such lock, the actor is its author, it is already rejected, or the database fails.
    pub fn decide_lock(&self, who: &Identity, id: &str, is_yes: bool) -> Result<Value, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let (author, _) = author(transaction, who, id)?;
            if author == who.user {
                return Err(LedgerError::Forbidden("the author of a lock doesn't decide about it".into()));
            }
            if !is_yes {
                let sql = "UPDATE strategy_lock SET state = 'rejected' WHERE tenant = ?1 AND lock_id = ?2";
                transaction.execute(sql, params![who.tenant, id])?;
                return changed_lock(transaction, who, id, "rejected");
            }
            let now = now_text(transaction)?;
            let sql = "INSERT INTO lock_approval VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
            transaction.execute(sql, params![who.tenant, id, who.user, now])?;
            let sql = "UPDATE strategy_lock SET state = 'approved' WHERE tenant = ?1 AND lock_id = ?2 AND state = 'pending' \
                       AND (SELECT count(*) FROM lock_approval WHERE tenant = ?1 AND lock_id = ?2) \
                       >= CASE WHEN three_wise <> 0 THEN ?3 ELSE 1 END";
            transaction.execute(sql, params![who.tenant, id, WISE])?;
            changed_lock(transaction, who, id, "approved_by")
        })
    }
}

/// Makes the approved lock of a new tenant, which covers all actions.
pub(super) fn first_lock(transaction: &Connection, who: &Identity) -> Result<(), LedgerError> {
    let (id, from) = (uuid_v7(), now_ms(transaction)?);
    let until = from + FIRST_LOCK_DAYS * DAY_MS;
    let new = NewLock {
        scope: "*".into(),
        surface_id: None,
        actions: vec!["*".into()],
        is_three_wise: false,
        valid_from_ms: None,
        valid_until_ms: until,
        reason: "the tenant is new".into(),
    };
    insert_lock(transaction, who, &id, &new, (from, until, "approved"))?;
    changed_lock(transaction, who, &id, "made").map(drop)
}

fn insert_lock(
    transaction: &Connection,
    who: &Identity,
    id: &str,
    new: &NewLock,
    (from, until, state): (i64, i64, &str),
) -> Result<(), LedgerError> {
    let actions = Value::from(new.actions.clone()).to_string();
    let NewLock { scope, surface_id, is_three_wise, reason, .. } = new;
    let sql = "INSERT INTO strategy_lock VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1)";
    let values =
        params![who.tenant, id, scope, surface_id, actions, is_three_wise, from, until, reason, who.user, state];
    transaction.execute(sql, values)?;
    Ok(())
}

/// The times of a lock that is made or changed.
fn lock_times(connection: &Connection, new: &NewLock) -> Result<(i64, i64), LedgerError> {
    let now = now_ms(connection)?;
    let (from, until) = (new.valid_from_ms.unwrap_or(now), new.valid_until_ms);
    if until <= from || until > now.saturating_add(LOCK_DAYS_MAX * DAY_MS) {
        return Err(LedgerError::Time("valid_until lies after valid_from, within ten years".into()));
    }
    Ok((from, until))
}

/// Returns the identity of the gateway itself, which settles the unfinished calls of a user's run.
pub(super) fn settling(tenant: String, project: String, user: String, run_id: Option<String>) -> Identity {
    Identity {
        project,
        user,
        role: TeamRole::Viewer,
        kind: TokenKind::Service,
        run_id,
        ..at_terminal(&tenant, Mode::Lab)
    }
}

/// A person at this machine's terminal, in a tenant.
pub(super) fn at_terminal(tenant: &str, mode: Mode) -> Identity {
    Identity {
        mode,
        tenant: tenant.to_owned(),
        project: "default".into(),
        user: "terminal".into(),
        role: TeamRole::Admin,
        kind: TokenKind::Person,
        request_id: uuid_v7(),
        trace_id: uuid_v7(),
        run_id: None,
        step_id: None,
        surface_id: None,
        app_id: None,
        span: None,
        lease: None,
    }
}

const LICENCE: &str = "licence_id, subject, actions, class, project, surface_id, valid_until_ms, uses_max, uses, reason, \
     by, revoked";

fn licence(connection: &Connection, tenant: &str, id: &str) -> Result<Value, LedgerError> {
    let now = now_ms(connection)?;
    let sql = format!("SELECT {LICENCE} FROM licence WHERE tenant = ?1 AND licence_id = ?2");
    let found = connection.query_row(&sql, params![tenant, id], |row| licence_value(row, now)).optional()?;
    found.ok_or(LedgerError::NotFound)
}

fn licence_value(row: &Row<'_>, now: i64) -> crate::ledger::sql::Result<Value> {
    let texts = |at: usize| row.get::<Option<String>>(at);
    let (until, uses_max, uses): (i64, Option<i64>, i64) = (row.get(6)?, row.get(7)?, row.get(8)?);
    let revoked = texts(11)?;
    let is_active = revoked.is_none() && until > now && uses_max.is_none_or(|most| uses < most);
    let actions: Value = serde_json::from_str(&texts(2)?.unwrap_or_default()).unwrap_or_default();
    Ok(json!({
        "licence_id": texts(0)?, "subject": texts(1)?, "actions": actions, "class": texts(3)?, "project": texts(4)?,
        "surface_id": texts(5)?, "valid_until": utc_ms(until), "uses_max": uses_max, "uses": uses, "reason": texts(9)?,
        "by": texts(10)?, "revoked": revoked, "active": is_active,
    }))
}

const LOCK: &str = "lock_id, scope, surface_id, actions, three_wise, valid_from_ms, valid_until_ms, reason, author, state, \
     version, (SELECT string_agg(user, ',') FROM lock_approval a WHERE a.tenant = l.tenant \
     AND a.lock_id = l.lock_id)";

fn lock_value(row: &Row<'_>, now: i64) -> crate::ledger::sql::Result<Value> {
    let text = |at: usize| row.get::<Option<String>>(at);
    let json = |at: usize| -> crate::ledger::sql::Result<Value> {
        Ok(serde_json::from_str(&text(at)?.unwrap_or_default()).unwrap_or_default())
    };
    let (from, until): (i64, i64) = (row.get(5)?, row.get(6)?);
    // A user's name has no comma: it is made of letters, digits and `._:-`.
    let approvals: Vec<String> = text(11)?.iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
    let state = text(9)?.filter(|state| state != "approved" || now < until).unwrap_or_else(|| "expired".into());
    let (three_wise, version): (bool, i64) = (row.get(4)?, row.get(10)?);
    Ok(json!({
        "lock_id": text(0)?, "scope": text(1)?, "surface_id": text(2)?, "actions": json(3)?, "three_wise": three_wise,
        "valid_from": utc_ms(from), "valid_until": utc_ms(until), "reason": text(7)?, "author": text(8)?, "state": state,
        "version": version, "approvals": approvals,
    }))
}

fn author(connection: &Connection, who: &Identity, id: &str) -> Result<(String, i64), LedgerError> {
    let sql = "SELECT author, version FROM strategy_lock WHERE tenant = ?1 AND lock_id = ?2";
    let found = connection.query_row(sql, params![who.tenant, id], |row| Ok((row.get(0)?, row.get(1)?)));
    found.optional()?.ok_or(LedgerError::NotFound)
}

fn changed_lock(transaction: &Connection, who: &Identity, id: &str, op: &str) -> Result<Value, LedgerError> {
    let now = now_ms(transaction)?;
    let sql = format!("SELECT {LOCK} FROM strategy_lock l WHERE tenant = ?1 AND lock_id = ?2");
    let lock = transaction.query_row(&sql, params![who.tenant, id], |row| lock_value(row, now))?;
    let body = json!({"op": op, "lock": lock});
    note(transaction, who, "strategy_lock", format!("strategy_lock/{id}"), body)?;
    Ok(lock)
}
