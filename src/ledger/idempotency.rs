//! Requests that may be repeated: their keys and stored answers. A request is recorded before it acts, so that after a crash it
//! never runs twice unasked.

use super::sql::{OptionalExtension as _, Row, params};

use super::{LEFT, Ledger, LedgerError, now_ms};
use crate::proto::team::Identity;

/// The state of a request that the process didn't live to finish.
const UNKNOWN: &str = "unknown";

/// A request with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The kind of route.
    pub kind: &'static str,
    /// The client's key.
    pub key: String,
    /// SHA-256 of the canonical request.
    pub request_hash: String,
}

/// The beginning of a request with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// New, and acts.
    New,
    /// Answered before.
    Answered {
        /// The status.
        status: u16,
        /// The body.
        response: String,
    },
}

/// Idempotency keys.
pub struct Keys<'l>(pub(in crate::ledger) &'l Ledger);

impl Keys<'_> {
    /// Notes that a request begins.
    ///
    /// # Errors
    /// The key was used for another request or by another user, the first request with it runs or has an unknown end, or the
    /// database fails.
    pub fn begin(&self, who: &Identity, key: &Key) -> Result<Begun, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "SELECT actor, request_hash, state, status, response FROM idempotency \
                       WHERE tenant = ?1 AND kind = ?2 AND key = ?3";
            type Found = (String, String, String, Option<u16>, Option<String>);
            let row = |row: &Row<'_>| -> crate::ledger::sql::Result<Found> {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            };
            let found = transaction.query_row(sql, params![who.tenant, key.kind, key.key], row).optional()?;
            match found {
                Some((actor, hash, ..)) if actor != who.user || hash != key.request_hash => {
                    Err(LedgerError::IdempotencyMismatch(format!("the key {}", key.key)))
                }
                Some((.., Some(status), Some(response))) => Ok(Begun::Answered { status, response }),
                Some((_, _, state, ..)) if state == UNKNOWN => Err(LedgerError::InProgress(UNKNOWN)),
                Some(_) => Err(LedgerError::InProgress("running")),
                None => {
                    let sql = "INSERT INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5, 'running', NULL, NULL, ?6, ?7)";
                    let now = now_ms(transaction)?;
                    transaction.execute(
                        sql,
                        params![who.tenant, key.kind, key.key, who.user, key.request_hash, now, transaction.node()],
                    )?;
                    Ok(Begun::New)
                }
            }
        })
    }

    /// Stores the answer of a request, or forgets a request that was refused.
    ///
    /// # Errors
    /// The database fails.
    pub fn answer(&self, who: &Identity, key: &Key, answer: Option<(u16, &str)>) -> Result<(), LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            match answer {
                Some((status, response)) => {
                    let sql = "UPDATE idempotency SET state = 'done', status = ?4, response = ?5 \
                               WHERE tenant = ?1 AND kind = ?2 AND key = ?3";
                    transaction.execute(sql, params![who.tenant, key.kind, key.key, status, response])?;
                }
                None => {
                    let sql = "DELETE FROM idempotency WHERE tenant = ?1 AND kind = ?2 AND key = ?3";
                    transaction.execute(sql, params![who.tenant, key.kind, key.key])?;
                }
            }
            Ok(())
        })
    }

    /// Stores the answer that a request gets while its question is open.
    ///
    /// # Errors
    /// The database fails.
    pub fn answer_waiting(&self, who: &Identity, key: &Key, status: u16, response: &str) -> Result<(), LedgerError> {
        let sql = "UPDATE idempotency SET state = 'waiting', status = ?4, response = ?5 \
                   WHERE tenant = ?1 AND kind = ?2 AND key = ?3 AND state = 'running'";
        self.0.write(&who.tenant, |transaction| {
            transaction.execute(sql, params![who.tenant, key.kind, key.key, status, response])?;
            Ok(())
        })
    }

    /// Records that the end of a request is unknown: it isn't repeated.
    ///
    /// # Errors
    /// The database fails.
    pub fn mark(&self, who: &Identity, key: &Key) -> Result<(), LedgerError> {
        let sql = "UPDATE idempotency SET state = 'unknown', status = NULL, response = NULL \
                   WHERE tenant = ?1 AND kind = ?2 AND key = ?3";
        self.0.write(&who.tenant, |it| Ok(it.execute(sql, params![who.tenant, key.kind, key.key])?)).map(drop)
    }

    /// Marks requests that an earlier process began and never finished; returns how many.
    ///
    /// # Errors
    /// The database fails.
    pub fn mark_unknown(&self) -> Result<usize, LedgerError> {
        let sql = format!(
            "UPDATE idempotency SET state = 'unknown', status = NULL, response = NULL \
             WHERE tenant = ?1 AND state IN ('running', 'waiting') AND {LEFT}"
        );
        let mut marked = 0;
        for (tenant, _) in self.0.accounts().tenants()? {
            marked += self
                .0
                .write(&tenant, |transaction| Ok(transaction.execute(&sql, params![tenant, now_ms(transaction)?])?))?;
        }
        Ok(marked)
    }
}
