//! Progress of forwarding each tenant's log to another system, and the events to forward next.

use crate::ledger::row::Event;
use crate::ledger::spine::read_in;
use crate::ledger::sql::{Begin, OptionalExtension as _, params};
use crate::ledger::{Filter, Ledger, LedgerError};

/// The forwarding of the logs.
pub struct Relay<'l>(pub(in crate::ledger) &'l Ledger);

impl Relay<'_> {
    /// Returns the tenants with events that weren't forwarded yet.
    ///
    /// # Errors
    /// The database fails.
    pub fn behind(&self) -> Result<Vec<String>, LedgerError> {
        let tenants = self.0.accounts().tenants()?;
        let names: Vec<&str> = tenants.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let connection = self.0.pool.begin(Begin::Read, &names)?;
        let sql = "SELECT head.tenant FROM head LEFT JOIN relay ON relay.tenant = head.tenant \
                   WHERE head.position > coalesce(relay.position, 0) ORDER BY head.tenant";
        let rows = connection.prepare_cached(sql)?.query_map(params![], |row| row.get(0))?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// The epoch of a tenant's log, and its next events that weren't passed on.
    ///
    /// # Errors
    /// The database fails.
    pub fn next(&self, tenant: &str, limit: usize) -> Result<(i64, Vec<Event>), LedgerError> {
        let connection = self.0.view(tenant)?;
        let epoch = connection.query_row("SELECT epoch FROM tenant WHERE tenant = ?1", [tenant], |row| row.get(0))?;
        let sql = "SELECT position FROM relay WHERE tenant = ?1";
        let after: Option<i64> = connection.query_row(sql, [tenant], |row| row.get(0)).optional()?;
        Ok((epoch, read_in(&connection, tenant, after.unwrap_or_default(), &Filter::default(), limit)?))
    }

    /// Records that the events up to a position were forwarded.
    ///
    /// # Errors
    /// The database fails.
    pub fn passed(&self, tenant: &str, position: i64) -> Result<(), LedgerError> {
        let sql = "INSERT INTO relay VALUES (?1, ?2) ON CONFLICT (tenant) DO UPDATE SET position = ?2 \
                   WHERE relay.position < ?2";
        self.0.write(tenant, |transaction| Ok(transaction.execute(sql, params![tenant, position]).map(drop)?))
    }
}
