//! Memory with an expiry, and the blackboard of a run with versions. A row and the event about its change are written in one
//! transaction; the event has the value's hash and not the value, so that a deleted value is gone.

use super::sql::{Connection, OptionalExtension as _, params};
use serde_json::{Value, json};

use super::spine::append_in;
use super::{Ledger, LedgerError, now_ms, stored_text};
use crate::base::hash;
use crate::base::time::utc_ms;
use crate::proto::team::{EventDraft, Identity};

/// Bytes of a stored value.
const VALUE_BYTES_MAX: usize = 256 * 1024;

/// Scope of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `session`, `project` or `tenant`.
    pub scope: String,
    /// The session or project; empty for the tenant.
    pub scope_id: String,
}

/// A stored memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEntry {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Its version, from 1.
    pub version: i64,
    /// Time when it ends.
    pub expires_at: Option<String>,
    /// Its writer.
    pub by: String,
}

/// An entry of a blackboard.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardEntry {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Its version, from 1.
    pub version: i64,
    /// Its writer.
    pub by: String,
    /// Time when it was written.
    pub at: String,
}

/// Memories and entries of the blackboard.
pub struct Stores<'l>(pub(in crate::ledger) &'l Ledger);

impl Stores<'_> {
    /// Remembers a value; returns its version and when it ends.
    ///
    /// # Errors
    /// The version differs from the expected one, the value is too long, or the database fails.
    pub fn remember(
        &self,
        who: &Identity,
        place: &Place,
        key: &str,
        value: &Value,
        ttl_s: Option<i64>,
        expected: Option<i64>,
    ) -> Result<(i64, Option<String>), LedgerError> {
        let text = value_text(value)?;
        self.0.write(&who.tenant, |transaction| {
            let now = now_ms(transaction)?;
            let there = memory_version(transaction, who, place, key)?;
            let alive =
                there.filter(|(_, expires)| expires.is_none_or(|at| at > now)).map_or(0, |(version, _)| version);
            if let Some(expected) = expected.filter(|expected| *expected != alive) {
                return Err(LedgerError::VersionConflict { expected, actual: alive });
            }
            // The version of an expired value isn't used again: a late writer could confuse it with the one that it read.
            let version = there.map_or(0, |(version, _)| version) + 1;
            let expires = ttl_s.map(|seconds| now.saturating_add(seconds.saturating_mul(1_000)));
            transaction.execute(
                "INSERT INTO memory VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (tenant, scope, scope_id, key) \
                 DO UPDATE SET value = ?5, version = ?6, expires_ms = ?7, by = ?8",
                params![who.tenant, place.scope, place.scope_id, key, text, version, expires, who.user],
            )?;
            let expires_at = expires.map(utc_ms);
            let body = json!({"op": "set", "scope": place.scope, "scope_id": place.scope_id, "key": key,
                "version": version, "value_sha256": hash::sha256_hex(text.as_bytes()), "expires_at": expires_at});
            note(transaction, who, "memory", format!("memory/{}/{}", place.scope, place.scope_id), body)?;
            Ok((version, expires_at))
        })
    }

    /// Returns memories of a place: the one with the key, or those whose keys have it as a prefix and come after another key.
    /// Expired ones are left out.
    ///
    /// # Errors
    /// The database fails.
    pub fn memories(
        &self,
        who: &Identity,
        place: &Place,
        key: &str,
        is_prefix: bool,
        (after, limit): (&str, usize),
    ) -> Result<Vec<MemoryEntry>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let now = now_ms(&connection)?;
        let sql = "SELECT key, value, version, expires_ms, by FROM memory WHERE tenant = ?1 AND scope = ?2 \
                   AND scope_id = ?3 AND (key = ?4 OR (?5 AND substr(key, 1, length(?4)) = ?4)) \
                   AND (expires_ms IS NULL OR expires_ms > ?6) AND key > ?7 ORDER BY key LIMIT ?8";
        let mut statement = connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = params![who.tenant, place.scope, place.scope_id, key, is_prefix, now, after, limit];
        let rows = statement.query_map(values, |row| {
            let (value, expires): (String, Option<i64>) = (row.get(1)?, row.get(3)?);
            let value = serde_json::from_str(&value).unwrap_or_default();
            let expires_at = expires.map(utc_ms);
            Ok(MemoryEntry { key: row.get(0)?, value, version: row.get(2)?, expires_at, by: row.get(4)? })
        })?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// Forgets a memory.
    ///
    /// # Errors
    /// There is no such memory, or the database fails.
    pub fn forget(&self, who: &Identity, place: &Place, key: &str) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let now = now_ms(transaction)?;
            let sql = "DELETE FROM memory WHERE tenant = ?1 AND scope = ?2 AND scope_id = ?3 AND key = ?4 \
                       AND (expires_ms IS NULL OR expires_ms > ?5)";
            if transaction.execute(sql, params![who.tenant, place.scope, place.scope_id, key, now])? == 0 {
                return Err(LedgerError::NotFound);
            }
            let body = json!({"op": "delete", "scope": place.scope, "scope_id": place.scope_id, "key": key});
            note(transaction, who, "memory", format!("memory/{}/{}", place.scope, place.scope_id), body)
        })
    }

    /// Writes an entry on the blackboard of a run; `expected` is the version that must exist, 0 for none. Returns the new
    /// version.
    ///
    /// # Errors
    /// There is another version, the value is too long, or the database fails.
    pub fn put_entry(
        &self,
        who: &Identity,
        run_id: &str,
        key: &str,
        value: &Value,
        expected: i64,
    ) -> Result<i64, LedgerError> {
        let text = value_text(value)?;
        self.0.write(&who.tenant, |transaction| {
            let sql = "SELECT version FROM blackboard WHERE tenant = ?1 AND run_id = ?2 AND key = ?3";
            let there: Option<i64> =
                transaction.query_row(sql, params![who.tenant, run_id, key], |row| row.get(0)).optional()?;
            let actual = there.unwrap_or(0);
            if actual != expected {
                return Err(LedgerError::VersionConflict { expected, actual });
            }
            let version = actual + 1;
            let at = super::now_text(transaction)?;
            transaction.execute(
                "INSERT INTO blackboard VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (tenant, run_id, key) \
                 DO UPDATE SET value = ?4, version = ?5, by = ?6, at = ?7",
                params![who.tenant, run_id, key, text, version, who.user, at],
            )?;
            let value_sha256 = hash::sha256_hex(text.as_bytes());
            let body = json!({"run_id": run_id, "key": key, "version": version, "value_sha256": value_sha256});
            note(transaction, who, "blackboard", format!("blackboard/{run_id}"), body)?;
            Ok(version)
        })
    }

    /// Entries of a blackboard: that with the key, or those whose keys begin with it and come after another one.
    ///
    /// # Errors
    /// The database fails.
    pub fn entries(
        &self,
        who: &Identity,
        run_id: &str,
        key: &str,
        is_prefix: bool,
        (after, limit): (&str, usize),
    ) -> Result<Vec<BoardEntry>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let sql = "SELECT key, value, version, by, at FROM blackboard WHERE tenant = ?1 AND run_id = ?2 \
                   AND (key = ?3 OR (?4 AND substr(key, 1, length(?3)) = ?3)) AND key > ?5 ORDER BY key LIMIT ?6";
        let mut statement = connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![who.tenant, run_id, key, is_prefix, after, limit], |row| {
            let value: String = row.get(1)?;
            let value = serde_json::from_str(&value).unwrap_or_default();
            Ok(BoardEntry { key: row.get(0)?, value, version: row.get(2)?, by: row.get(3)?, at: row.get(4)? })
        })?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }
}

fn value_text(value: &Value) -> Result<String, LedgerError> {
    let text = stored_text(value)?;
    if text.len() > VALUE_BYTES_MAX {
        return Err(LedgerError::Invalid(format!("a value has at most {VALUE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn memory_version(
    connection: &Connection,
    who: &Identity,
    place: &Place,
    key: &str,
) -> Result<Option<(i64, Option<i64>)>, LedgerError> {
    let sql = "SELECT version, expires_ms FROM memory WHERE tenant = ?1 AND scope = ?2 AND scope_id = ?3 AND key = ?4";
    let values = params![who.tenant, place.scope, place.scope_id, key];
    Ok(connection.query_row(sql, values, |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Appends the event about a changed row.
pub(super) fn note(
    transaction: &Connection,
    who: &Identity,
    event_type: &str,
    stream: String,
    body: Value,
) -> Result<(), LedgerError> {
    let (event_type, source) = (event_type.to_owned(), "engine".to_owned());
    let draft = EventDraft { event_type, source, stream: Some(stream), body, ..EventDraft::default() };
    append_in(transaction, who, &[draft], None).map(drop)
}
