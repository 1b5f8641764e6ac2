//! Leases of workspaces: only one gateway at a time works in a project's workspace, and each event of its work has the fencing
//! number of the lease, which grows with every new one. An SQLite file has one gateway, which needs no leases.
//!
//! A lease lasts as long as its gateway's row among the nodes, so renewing that row renews all of them, and a gateway that didn't
//! renew it in time checks each of its leases before it continues. It must not know the work.

mod tenures;

use std::time::Duration;

use super::sql::{OptionalExtension as _, params};
use super::{Ledger, LedgerError, now_ms};
use crate::host;
use crate::proto::team::{Identity, Lease};

use tenures::Place;
pub(super) use tenures::Tenures;
pub use tenures::{OnLost, Work};

/// The leases of workspaces.
pub struct Leases<'l>(pub(in crate::ledger) &'l Ledger);

impl Leases<'_> {
    /// Sets the function that is called when a lease is lost; later calls have no effect.
    pub fn on_lost(&self, on_lost: OnLost) {
        self.0.tenures.on_lost(on_lost);
    }

    /// Begins work in the workspace that a project has on a machine; `None` if only this gateway can do so.
    ///
    /// # Errors
    /// Another gateway works there, or the database fails.
    pub fn begin(&self, who: &Identity, machine: i64) -> Result<Option<(Lease, Work)>, LedgerError> {
        if !self.0.pool.target().is_server() {
            return Ok(None);
        }
        self.renew_if_due()?;
        let place = place(who, machine);
        self.0.tenures.begin(&place, || self.take(&place)).map(Some)
    }

    /// Takes a lease that no living gateway has, or that this one had; returns its number.
    fn take(&self, place: &Place) -> Result<i64, LedgerError> {
        let Place { tenant, project, machine } = place;
        let result = self.0.write(tenant, |transaction| {
            let (node, now) = (transaction.node(), now_ms(transaction)?);
            let sql = "INSERT INTO workspace_lease AS l (tenant, project, machine, node, fence) VALUES (?1, ?2, ?3, ?4, 1) \
                       ON CONFLICT (tenant, project, machine) DO UPDATE SET node = ?4, fence = l.fence + 1 \
                       WHERE l.node IS NULL OR l.node = ?4 OR NOT EXISTS \
                       (SELECT 1 FROM node n WHERE n.node_id = l.node AND n.until_ms > ?5) RETURNING fence";
            let values = params![tenant, project, *machine, node, now];
            let fence = transaction.query_row(sql, values, |row| row.get(0)).optional()?;
            if let Some(fence) = fence {
                return Ok(Ok(fence));
            }
            let sql = "SELECT node FROM workspace_lease WHERE tenant = ?1 AND project = ?2 AND machine = ?3";
            let holder = transaction.query_row(sql, params![tenant, project, *machine], |row| row.get(0));
            Ok(Err(holder.optional()?.flatten()))
        })?;
        let holder: Option<String> = match result {
            Ok(fence) => return Ok(fence),
            Err(holder) => holder,
        };
        let node = self.0.nodes().list()?.into_iter().find(|node| Some(&node.id) == holder.as_ref());
        Err(LedgerError::Elsewhere(node.map(Box::new)))
    }

    /// Checks that a caller's work still has its workspace for itself. Until the last renewal runs out, this needs no database.
    ///
    /// # Errors
    /// Another gateway may work there by now, or the database fails.
    pub fn check(&self, who: &Identity) -> Result<(), LedgerError> {
        let Some(lease) = who.lease else { return Ok(()) };
        self.renew_if_due()?;
        match self.is_lost(who) {
            true => Err(LedgerError::LeaseLost { project: who.project.clone(), lease }),
            false => Ok(()),
        }
    }

    /// Returns whether the work of a caller is known to have lost its workspace.
    #[must_use]
    pub fn is_lost(&self, who: &Identity) -> bool {
        let Some(Lease { machine, fence }) = who.lease else { return false };
        self.0.tenures.is_lost(&place(who, machine), fence)
    }

    /// Records a refusal of events because this gateway doesn't have their lease any more.
    pub(super) fn refused(&self, tenant: &str, error: &LedgerError) {
        let LedgerError::LeaseLost { project, lease } = error else { return };
        let place = Place { tenant: tenant.to_owned(), project: project.clone(), machine: lease.machine };
        self.0.tenures.lose(&place, lease.fence);
    }

    fn renew_if_due(&self) -> Result<(), LedgerError> {
        if !self.0.tenures.is_past(host::boot_time()) {
            return Ok(());
        }
        self.0.nodes().live_on()?;
        match self.0.tenures.is_past(host::boot_time()) {
            true => Err(LedgerError::Database("it answers so late that other gateways take this one for dead".into())),
            false => Ok(()),
        }
    }

    /// Records that the gateway's row was renewed, so that no other gateway acquires its leases until a time of the machine's
    /// clock. If the previous time had passed, another one may have acquired some meanwhile: each is checked before the new time
    /// applies.
    pub(super) fn renewed(&self, until: Duration) -> Result<(), LedgerError> {
        self.0.tenures.extend(until, |place, fence| self.has(place, fence))
    }

    /// Returns whether this gateway has the lease with a number. It waits for a gateway that is just acquiring it.
    fn has(&self, place: &Place, fence: i64) -> Result<bool, LedgerError> {
        let Place { tenant, project, machine } = place;
        self.0.write(tenant, |transaction| {
            let sql = "SELECT 1 FROM workspace_lease \
                       WHERE tenant = ?1 AND project = ?2 AND machine = ?3 AND node = ?4 AND fence = ?5";
            let values = params![tenant, project, *machine, transaction.node(), fence];
            Ok(transaction.prepare_cached(sql)?.exists(values)?)
        })
    }

    /// Releases the leases that were idle for a while.
    ///
    /// # Errors
    /// The database fails.
    pub(super) fn let_idle_go(&self) -> Result<(), LedgerError> {
        self.0.tenures.end_idle(|Place { tenant, project, machine }, fence| {
            self.0.write(tenant, |transaction| {
                let sql = "UPDATE workspace_lease SET node = NULL \
                           WHERE tenant = ?1 AND project = ?2 AND machine = ?3 AND node = ?4 AND fence = ?5";
                transaction.execute(sql, params![tenant, project, *machine, transaction.node(), fence])?;
                Ok(())
            })
        })
    }

    /// Revokes the leases of gateways that don't serve any more: from now on their work is refused, even if one of them was only
    /// suspended.
    ///
    /// # Errors
    /// The database fails.
    pub(super) fn end_left(&self) -> Result<(), LedgerError> {
        if !self.0.pool.target().is_server() {
            return Ok(());
        }
        const LEFT: &str = "tenant = ?1 AND node NOT IN (SELECT node_id FROM node WHERE until_ms > ?2)";
        for (tenant, _) in self.0.accounts().tenants()? {
            let has_left = {
                let (connection, sql) = (self.0.view(&tenant)?, format!("SELECT 1 FROM workspace_lease WHERE {LEFT}"));
                connection.prepare_cached(&sql)?.exists(params![tenant, now_ms(&connection)?])?
            };
            if has_left {
                let sql = format!("UPDATE workspace_lease SET node = NULL WHERE {LEFT}");
                self.0.write(&tenant, |it| Ok(it.execute(&sql, params![tenant, now_ms(it)?])?))?;
            }
        }
        Ok(())
    }

    /// The leases of a tenant that this gateway has: their projects and numbers.
    #[must_use]
    pub fn here(&self, tenant: &str) -> Vec<(String, i64)> {
        let own = self.0.tenures.list().into_iter().filter(|(place, _)| place.tenant == tenant);
        own.map(|(place, fence)| (place.project, fence)).collect()
    }

    /// The number of leases that this gateway has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.tenures.list().len()
    }

    /// The leases of a tenant that living gateways have: project, gateway and number.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self, tenant: &str) -> Result<Vec<(String, String, i64)>, LedgerError> {
        let connection = self.0.view(tenant)?;
        let sql = "SELECT l.project, l.node, l.fence FROM workspace_lease l JOIN node n ON n.node_id = l.node \
                   WHERE l.tenant = ?1 AND n.until_ms > ?2 ORDER BY l.project, l.machine";
        let values = params![tenant, now_ms(&connection)?];
        let rows =
            connection.prepare_cached(sql)?.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<super::sql::Result<_>>()?)
    }
}

/// The place of the workspace that a caller's project has on a machine.
fn place(who: &Identity, machine: i64) -> Place {
    Place { tenant: who.tenant.clone(), project: who.project.clone(), machine }
}
