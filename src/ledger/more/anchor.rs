//! The place after which a log begins once its oldest events were removed, as the log itself records it.

use serde_json::Value;

use crate::ledger::sql::{Connection, OptionalExtension as _, Result, Row, params};

/// The kind of the event about a removal.
pub const KIND: &str = "purge";

/// The last event that was removed from the beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Its position.
    pub position: i64,
    /// Its hash.
    pub hash: String,
    /// The position of the event about the removal.
    announced: i64,
}

/// The state from which a canvas is folded whose first commits were removed.
pub struct Base {
    /// The revision.
    pub rev: i64,
    /// The position of its commit.
    pub position: i64,
    /// The hash of the state.
    pub state_hash: String,
}

impl Anchor {
    /// Reads the anchor of a tenant's log; `None` if the log is whole.
    pub fn of(connection: &Connection, tenant: &str) -> Result<Option<Self>> {
        let sql = "SELECT position, hash, announced FROM anchor WHERE tenant = ?1";
        let row = |row: &Row<'_>| Ok(Self { position: row.get(0)?, hash: row.get(1)?, announced: row.get(2)? });
        connection.prepare_cached(sql)?.query_row([tenant], row).optional()
    }

    /// Reads the event about the removal, if it exists.
    fn announcement(&self, connection: &Connection, tenant: &str) -> Result<Option<Value>> {
        let sql = "SELECT body FROM event WHERE tenant = ?1 AND position = ?2 AND stream = 'dataset:audit' AND source = 'engine'";
        let body: Option<String> =
            connection.query_row(sql, params![tenant, self.announced], |row| row.get(0)).optional()?;
        let body: Value = serde_json::from_str(&body.unwrap_or_default()).unwrap_or_default();
        let is_told = body["kind"] == KIND && body["position"] == self.position && body["hash"] == *self.hash;
        Ok(is_told.then_some(body))
    }

    /// Returns whether the log has an event about the removal.
    pub fn is_announced(&self, connection: &Connection, tenant: &str) -> Result<bool> {
        Ok(self.announcement(connection, tenant)?.is_some())
    }
}

/// Reads the base of a canvas; `None` if all of its commits are in the log.
pub fn base(connection: &Connection, tenant: &str, canvas: &str) -> Result<Option<Base>> {
    let Some(anchor) = Anchor::of(connection, tenant)? else { return Ok(None) };
    let body = anchor.announcement(connection, tenant)?.unwrap_or_default();
    let found = body["canvases"].as_array().into_iter().flatten().find(|it| it["canvas_id"] == canvas);
    Ok(found.and_then(|it| {
        let state_hash = it["state_hash"].as_str()?.to_owned();
        Some(Base { rev: it["rev"].as_i64()?, position: it["position"].as_i64()?, state_hash })
    }))
}
