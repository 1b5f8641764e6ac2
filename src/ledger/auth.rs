//! Tenants, members and tokens. A token's secret leaves this file once, when it is made; the database has its SHA-256.

use super::sql::{Begin, Connection, OptionalExtension as _, Row, params};
use serde_json::json;

use super::permits::{at_terminal, first_lock};
use super::stores::note;
use super::{Ledger, LedgerError, now_ms, random_text, uuid_v7};
use crate::base::hash;
use crate::base::time::utc_ms;
use crate::proto::team::{Identity, Mode, TeamRole, TokenKind};

/// Letters of a token's secret: 130 bits.
const SECRET_LETTERS: usize = 26;
/// Letters of a pairing code: 60 bits.
const CODE_LETTERS: usize = 12;
/// Time for which a pairing code can be used.
const CODE_MS: i64 = 5 * 60 * 1_000;
/// Time for which the access token of a paired session can be used.
pub const ACCESS_MS: i64 = 10 * 60 * 1_000;
/// Time for which a session can be renewed.
pub const REFRESH_MS: i64 = 30 * 24 * 3_600 * 1_000;

/// A token to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its kind.
    pub kind: TokenKind,
    /// Its user.
    pub user: String,
    /// Its tenant.
    pub tenant: String,
    /// The highest role that it grants.
    pub role: TeamRole,
    /// Time for which it can be used, in milliseconds; without an end if absent.
    pub lifetime_ms: Option<i64>,
}

/// The holder of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The token's id.
    pub token_id: String,
    /// Its kind.
    pub kind: TokenKind,
    /// Its user.
    pub user: String,
    /// Its tenant.
    pub tenant: String,
    /// The highest role that it grants.
    pub role: TeamRole,
}

/// The holder of a token in a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The holder.
    pub holder: Who,
    /// Their role as a member of the tenant; `None` if they aren't a member.
    pub member: Option<TeamRole>,
    /// The mode of the tenant; `None` if there is no such tenant.
    pub mode: Option<Mode>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Its user.
    pub user: String,
    /// Its tenant.
    pub tenant: String,
    /// Its role.
    pub role: String,
    /// `active`, `expired` or `revoked`.
    pub state: &'static str,
    /// Time when it ends.
    pub expires_at: Option<String>,
}

/// A session that a pairing code or a refresh began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paired {
    /// The secret for `Authorization`.
    pub access_token: String,
    /// The secret of the refresh cookie.
    pub refresh: String,
    /// The user.
    pub user: String,
    /// The tenant.
    pub tenant: String,
    /// The role.
    pub role: String,
}

/// Tenants, their members, tokens and pairing.
pub struct Accounts<'l>(pub(in crate::ledger) &'l Ledger);

impl Accounts<'_> {
    /// Makes a tenant; an existing one doesn't change its mode. Outside `lab` a new one hides personal data from models and
    /// requires strategies, and has one for all actions that ends in 90 days.
    ///
    /// # Errors
    /// The tenant exists with another mode, or the database fails.
    pub fn add_tenant(&self, tenant: &str, mode: Mode) -> Result<(), LedgerError> {
        let there = self.0.write(tenant, |transaction| {
            let flags = if mode == Mode::Lab { json!({}) } else { json!({"pii": true, "strategy_locks": true}) };
            let sql = "INSERT INTO tenant (tenant, mode, flags) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
            let is_new = transaction.execute(sql, params![tenant, mode.word(), flags.to_string()])? > 0;
            if is_new && mode != Mode::Lab {
                first_lock(transaction, &at_terminal(tenant, mode))?;
            }
            mode_in(transaction, tenant)
        })?;
        if there == Some(mode) {
            return Ok(());
        }
        Err(LedgerError::Forbidden(format!("the tenant {tenant} is there with another mode")))
    }

    /// The tenants and their modes.
    ///
    /// # Errors
    /// The database fails.
    pub fn tenants(&self) -> Result<Vec<(String, String)>, LedgerError> {
        let connection = self.0.view("")?;
        let mut statement = connection.prepare_cached("SELECT tenant, mode FROM tenant ORDER BY tenant")?;
        let rows = statement.query_map(params![], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// The mode of a tenant.
    ///
    /// # Errors
    /// The database fails.
    pub fn mode(&self, tenant: &str) -> Result<Option<Mode>, LedgerError> {
        let connection = self.0.view(tenant)?;
        mode_in(&connection, tenant)
    }

    /// Sets the role of a user in a tenant, or removes it with `None`. Without an actor, a person at a terminal is recorded.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn set_member(
        &self,
        tenant: &str,
        by: Option<&Identity>,
        user: &str,
        role: Option<TeamRole>,
    ) -> Result<(), LedgerError> {
        let by = self.actor(tenant, by)?;
        self.0.write(tenant, |transaction| {
            set_member_in(transaction, tenant, user, role)?;
            audit(transaction, &by, json!({"kind": "member", "user": user, "role": role.map(TeamRole::word)}))
        })
    }

    /// The actor in a tenant: a person at a terminal if there is no request.
    fn actor(&self, tenant: &str, by: Option<&Identity>) -> Result<Identity, LedgerError> {
        by.map_or_else(|| self.0.permits().operator_at_terminal(tenant), |by| Ok(by.clone()))
    }

    /// The role of a user in a tenant.
    ///
    /// # Errors
    /// The database fails.
    pub fn member(&self, tenant: &str, user: &str) -> Result<Option<TeamRole>, LedgerError> {
        let sql = "SELECT role FROM member WHERE tenant = ?1 AND user = ?2";
        let connection = self.0.view(tenant)?;
        let mut statement = connection.prepare_cached(sql)?;
        let word: Option<String> = statement.query_row(params![tenant, user], |row| row.get(0)).optional()?;
        Ok(word.as_deref().and_then(TeamRole::of))
    }

    /// The members of a tenant with their roles.
    ///
    /// # Errors
    /// The database fails.
    pub fn members(&self, tenant: &str) -> Result<Vec<(String, String)>, LedgerError> {
        let connection = self.0.view(tenant)?;
        let mut statement =
            connection.prepare_cached("SELECT user, role FROM member WHERE tenant = ?1 ORDER BY user")?;
        let rows = statement.query_map([tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// Makes a token at a terminal, and the membership if the user has none; returns the token's id and its secret.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn create_token(&self, new: &NewToken) -> Result<(String, String), LedgerError> {
        let by = self.actor(&new.tenant, None)?;
        let has_role = self.member(&new.tenant, &new.user)?.is_some();
        self.0.write(&new.tenant, |transaction| {
            if !has_role {
                set_member_in(transaction, &new.tenant, &new.user, Some(new.role))?;
            }
            let (id, secret) = insert_token(transaction, new, None)?;
            let body = json!({"kind": "token", "token_id": id, "user": new.user, "role": new.role.word()});
            audit(transaction, &by, body)?;
            Ok((id, secret))
        })
    }

    /// The tokens, without their secrets.
    ///
    /// # Errors
    /// The database fails.
    pub fn tokens(&self) -> Result<Vec<TokenRow>, LedgerError> {
        let connection = self.0.view("")?;
        let now = now_ms(&connection)?;
        let sql = "SELECT id, kind, user, tenant, role, expires_ms, revoked_ms FROM token ORDER BY created_ms, id";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![], |row| {
            let (expires, revoked): (Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?);
            let state = match (revoked, expires) {
                (Some(_), _) => "revoked",
                (None, Some(at)) if at <= now => "expired",
                _ => "active",
            };
            let expires_at = expires.map(utc_ms);
            let (id, kind, user, tenant) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(TokenRow { id, kind, user, tenant, role: row.get(4)?, state, expires_at })
        })?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// Revokes a token: the next request with it is refused. Without an actor, a person at a terminal is recorded.
    ///
    /// # Errors
    /// There is no such token, or the database fails.
    pub fn revoke_token(&self, by: Option<&Identity>, id: &str) -> Result<(), LedgerError> {
        let found: Option<(String, String)> = {
            let sql = "SELECT tenant, user FROM token WHERE id = ?1";
            self.0.view("")?.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?
        };
        let Some((tenant, user)) = found else { return Err(LedgerError::NotFound) };
        let by = self.actor(&tenant, by)?;
        self.0.write(&tenant, |transaction| {
            let now = now_ms(transaction)?;
            let sql = "UPDATE token SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL";
            transaction.execute(sql, params![id, now])?;
            audit(transaction, &by, json!({"kind": "token_revoked", "token_id": id, "user": user}))
        })
    }

    /// The holder of a secret, if the token is neither revoked nor expired.
    ///
    /// # Errors
    /// The database fails.
    pub fn authenticate(&self, secret: &str) -> Result<Option<Who>, LedgerError> {
        Ok(self.caller(secret, "")?.map(|caller| caller.holder))
    }

    /// The holder of a secret and their place in a tenant, by one query.
    ///
    /// # Errors
    /// The database fails.
    pub fn caller(&self, secret: &str, tenant: &str) -> Result<Option<Caller>, LedgerError> {
        let connection = self.0.pool.glance(&[tenant])?;
        // The look-up is by the hash, so its duration reveals nothing about the secret.
        let sql = format!(
            "SELECT t.id, t.kind, t.user, t.tenant, t.role, m.role, n.mode FROM token t \
             LEFT JOIN member m ON m.tenant = ?2 AND m.user = t.user LEFT JOIN tenant n ON n.tenant = ?2 \
             WHERE t.sha256 = ?1 AND t.revoked_ms IS NULL AND (t.expires_ms IS NULL OR t.expires_ms > ({}))",
            connection.clock()
        );
        type Found = ([String; 5], Option<String>, Option<String>);
        let row = |row: &Row<'_>| -> crate::ledger::sql::Result<Found> {
            Ok(([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?], row.get(5)?, row.get(6)?))
        };
        let sha256 = hash::sha256_hex(secret.as_bytes());
        let found = connection.query_row(&sql, params![sha256, tenant], row).optional()?;
        Ok(found.and_then(|([token_id, kind, user, of, role], member, mode)| {
            let holder = Who { token_id, kind: TokenKind::of(&kind)?, user, tenant: of, role: TeamRole::of(&role)? };
            let (member, mode) = (member.as_deref().and_then(TeamRole::of), mode.as_deref().and_then(Mode::of));
            Some(Caller { holder, member, mode })
        }))
    }

    /// Makes a pairing code for a user at a terminal: it is valid for five minutes, and once.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn create_pair_code(&self, tenant: &str, user: &str, role: TeamRole) -> Result<String, LedgerError> {
        let by = self.actor(tenant, None)?;
        let code = random_text(CODE_LETTERS);
        let has_role = self.member(tenant, user)?.is_some();
        self.0.write(tenant, |transaction| {
            let now = now_ms(transaction)?;
            if !has_role {
                set_member_in(transaction, tenant, user, Some(role))?;
            }
            transaction.execute("DELETE FROM pair_code WHERE expires_ms <= ?1", [now])?;
            let sql = "INSERT INTO pair_code VALUES (?1, ?2, ?3, ?4, ?5)";
            let sha256 = hash::sha256_hex(code.as_bytes());
            transaction.execute(sql, params![sha256, user, tenant, role.word(), now + CODE_MS])?;
            audit(transaction, &by, json!({"kind": "pair_code", "user": user, "role": role.word()}))
        })?;
        Ok(code)
    }

    /// Begins a session by a pairing code, which can't be used again; `None` if it is unknown, used or too old.
    ///
    /// # Errors
    /// The database fails.
    pub fn pair(&self, code: &str) -> Result<Option<Paired>, LedgerError> {
        let sha256 = hash::sha256_hex(code.as_bytes());
        let tenant: Option<String> = {
            let sql = "SELECT tenant FROM pair_code WHERE sha256 = ?1";
            self.0.view("")?.query_row(sql, [&sha256], |row| row.get(0)).optional()?
        };
        let Some(tenant) = tenant else { return Ok(None) };
        // This locks the secret, so that of two concurrent uses one comes second.
        self.0.write_alone(&tenant, &[&sha256, &tenant], |transaction| {
            let now = now_ms(transaction)?;
            let sql = "DELETE FROM pair_code WHERE sha256 = ?1 RETURNING user, role, expires_ms";
            let found: Option<(String, String, i64)> =
                transaction.query_row(sql, [&sha256], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
            let Some((user, role, _)) = found.filter(|found| found.2 > now) else { return Ok(None) };
            let mode = mode_in(transaction, &tenant)?.unwrap_or(Mode::Lab);
            let by = Identity {
                user: user.clone(),
                role: TeamRole::of(&role).unwrap_or(TeamRole::Viewer),
                ..at_terminal(&tenant, mode)
            };
            audit(transaction, &by, json!({"kind": "paired", "user": user, "role": role}))?;
            Ok(Some(begin_session(transaction, (user, tenant.clone(), role), &uuid_v7(), now)?))
        })
    }

    /// Renews a session: the old secret can't be used again. If it was used before, it has been copied, and the whole session
    /// ends.
    ///
    /// # Errors
    /// The database fails.
    pub fn refresh(&self, secret: &str) -> Result<Option<Paired>, LedgerError> {
        let sha256 = hash::sha256_hex(secret.as_bytes());
        // This locks the secret, so that of two concurrent uses one comes second.
        let transaction = self.0.pool.begin(Begin::Write, &[&sha256])?;
        let now = now_ms(&transaction)?;
        let sql = "SELECT family, user, tenant, role, expires_ms, used FROM session WHERE sha256 = ?1";
        type Found = (String, String, String, String, i64, bool);
        let row = |row: &Row<'_>| -> crate::ledger::sql::Result<Found> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        };
        let found = transaction.query_row(sql, [&sha256], row).optional()?;
        let paired = match found {
            None => None,
            Some((family, .., true)) => {
                end_family(&transaction, &family, now)?;
                None
            }
            Some((.., expires, _)) if expires <= now => None,
            Some((family, user, tenant, role, ..)) => {
                transaction.execute("UPDATE session SET used = 1 WHERE sha256 = ?1", [&sha256])?;
                Some(begin_session(&transaction, (user, tenant, role), &family, now)?)
            }
        };
        transaction.finish()?;
        Ok(paired)
    }

    /// Ends the session that a token belongs to, or the token alone.
    ///
    /// # Errors
    /// The database fails.
    pub fn log_out(&self, who: &Who) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let now = now_ms(transaction)?;
            let sql = "SELECT family FROM token WHERE id = ?1";
            let family: Option<String> =
                transaction.query_row(sql, [&who.token_id], |row| row.get(0)).optional()?.flatten();
            match family {
                Some(family) => end_family(transaction, &family, now),
                None => {
                    let sql = "UPDATE token SET revoked_ms = ?2 WHERE id = ?1";
                    transaction.execute(sql, params![who.token_id, now])?;
                    Ok(())
                }
            }
        })
    }
}

fn mode_in(connection: &Connection, tenant: &str) -> Result<Option<Mode>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT mode FROM tenant WHERE tenant = ?1")?;
    let word: Option<String> = statement.query_row([tenant], |row| row.get(0)).optional()?;
    Ok(word.as_deref().and_then(Mode::of))
}

fn set_member_in(
    transaction: &Connection,
    tenant: &str,
    user: &str,
    role: Option<TeamRole>,
) -> Result<(), LedgerError> {
    match role {
        Some(role) => {
            let sql = "INSERT INTO member VALUES (?1, ?2, ?3) ON CONFLICT (tenant, user) DO UPDATE SET role = ?3";
            transaction.execute(sql, params![tenant, user, role.word()])?;
        }
        None => {
            transaction.execute("DELETE FROM member WHERE tenant = ?1 AND user = ?2", params![tenant, user])?;
        }
    }
    Ok(())
}

fn insert_token(
    connection: &Connection,
    new: &NewToken,
    family: Option<&str>,
) -> Result<(String, String), LedgerError> {
    let now = now_ms(connection)?;
    let secret = format!("rc_{}_{}", new.kind.word(), random_text(SECRET_LETTERS));
    let id = uuid_v7();
    connection.execute(
        "INSERT INTO token VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, ?9)",
        params![
            id,
            hash::sha256_hex(secret.as_bytes()),
            new.kind.word(),
            new.user,
            new.tenant,
            new.role.word(),
            now,
            new.lifetime_ms.map(|lifetime| now.saturating_add(lifetime)),
            family
        ],
    )?;
    Ok((id, secret))
}

fn begin_session(
    connection: &Connection,
    (user, tenant, role): (String, String, String),
    family: &str,
    now: i64,
) -> Result<Paired, LedgerError> {
    let new = NewToken {
        kind: TokenKind::Person,
        user: user.clone(),
        tenant: tenant.clone(),
        role: TeamRole::of(&role).unwrap_or(TeamRole::Viewer),
        lifetime_ms: Some(ACCESS_MS),
    };
    let (_, access_token) = insert_token(connection, &new, Some(family))?;
    let refresh = random_text(SECRET_LETTERS);
    let sha256 = hash::sha256_hex(refresh.as_bytes());
    let sql = "INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
    connection.execute(sql, params![sha256, family, user, tenant, role, now + REFRESH_MS])?;
    Ok(Paired { access_token, refresh, user, tenant, role })
}

fn end_family(connection: &Connection, family: &str, now: i64) -> Result<(), LedgerError> {
    connection.execute("DELETE FROM session WHERE family = ?1", [family])?;
    connection.execute("UPDATE token SET revoked_ms = ?2 WHERE family = ?1", params![family, now])?;
    Ok(())
}

/// Writes the audit event of an act.
pub(super) fn audit(transaction: &Connection, by: &Identity, body: serde_json::Value) -> Result<(), LedgerError> {
    note(transaction, by, "audit", "dataset:audit".into(), body)
}
