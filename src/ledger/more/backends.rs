//! Routes: the back-end of each service of a tenant. A route takes effect at the next start, which refuses routes that it can't
//! serve.

use crate::ledger::sql::{OptionalExtension as _, params};
use serde_json::{Value, json};

use crate::base::canonical::canonical;
use crate::base::hash;
use crate::ledger::stores::note;
use crate::ledger::{DEPTH_MAX, Ledger, LedgerError};
use crate::proto::team::Identity;

/// The services that have a back-end.
pub const SERVICES: [&str; 6] =
    ["event_spine", "memory_store", "blackboard_store", "analytics_store", "event_stream", "canvas_command_store"];
/// Services that change in one transaction, so that they need one back-end.
const TOGETHER: [&str; 3] = ["event_spine", "blackboard_store", "canvas_command_store"];
/// A route of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The service.
    pub service: String,
    /// The back-end.
    pub backend: String,
    /// Its place.
    pub location: Option<String>,
    /// The version; 0 for a service that has no row.
    pub version: i64,
}

impl Backend {
    /// The route as endpoints return it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({"service": self.service, "backend": self.backend, "location": self.location, "version": self.version})
    }
}

/// The reasons why routes can't be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Services that commit together name several back-ends; other routes that can't be served are named, too.
    Split(Vec<String>),
    /// Back-ends that this program doesn't serve, as `service: backend`.
    Unavailable(Vec<String>),
}

/// Returns why this program can't serve routes with the back-end `here`, which a service without a route has; `None` if it can.
#[must_use]
pub fn unfit(routes: &[Backend], here: &str) -> Option<Unfit> {
    let line = |route: &Backend| format!("{}: {}", route.service, route.backend);
    let together: Vec<&Backend> = routes.iter().filter(|it| TOGETHER.contains(&it.service.as_str())).collect();
    if together.iter().any(|it| it.backend != together[0].backend) {
        let named = routes.iter().filter(|it| it.backend != here || together.contains(it));
        return Some(Unfit::Split(named.map(line).collect()));
    }
    let others: Vec<String> = routes.iter().filter(|it| it.backend != here).map(line).collect();
    (!others.is_empty()).then_some(Unfit::Unavailable(others))
}

/// The hash over routes: it changes with any of them.
///
/// # Errors
/// A text can't be hashed.
pub fn version_hash(routes: &[Backend]) -> Result<String, LedgerError> {
    let all: Value = routes.iter().map(Backend::to_value).collect();
    Ok(hash::sha256_hex(canonical(&all, DEPTH_MAX)?.as_bytes()))
}

/// The routes of the tenants.
pub struct Backends<'l>(pub(in crate::ledger) &'l Ledger);

impl Backends<'_> {
    /// The routes of a tenant, one for each service.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self, tenant: &str) -> Result<Vec<Backend>, LedgerError> {
        let connection = self.0.view(tenant)?;
        let sql = "SELECT backend, location, version FROM route WHERE tenant = ?1 AND service = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let mut routes = Vec::new();
        for service in SERVICES {
            let found: Option<(String, Option<String>, i64)> = statement
                .query_row(params![tenant, service], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            let (backend, location, version) = found.unwrap_or_else(|| (self.0.engine().to_owned(), None, 0));
            routes.push(Backend { service: service.to_owned(), backend, location, version });
        }
        Ok(routes)
    }

    /// Sets a route; `expected` is the version that was read, 0 for none. Returns it with its new version.
    ///
    /// # Errors
    /// It has another version, or the database fails.
    pub fn set(&self, who: &Identity, route: &Backend, expected: i64) -> Result<Backend, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            let sql = "SELECT version FROM route WHERE tenant = ?1 AND service = ?2";
            let there: Option<i64> =
                transaction.query_row(sql, params![who.tenant, route.service], |row| row.get(0)).optional()?;
            let actual = there.unwrap_or(0);
            if actual != expected {
                return Err(LedgerError::VersionConflict { expected, actual });
            }
            let route = Backend { version: actual + 1, ..route.clone() };
            let sql = "INSERT INTO route VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (tenant, service) \
                       DO UPDATE SET backend = ?3, location = ?4, version = ?5";
            let values = params![who.tenant, route.service, route.backend, route.location, route.version];
            transaction.execute(sql, values)?;
            note(transaction, who, "route", "route".into(), route.to_value())?;
            Ok(route)
        })
    }

    /// Takes the route of a service away, at a terminal: the service has the usual back-end again.
    ///
    /// # Errors
    /// There is no such tenant or route, or the database fails.
    pub fn forget(&self, tenant: &str, service: &str) -> Result<(), LedgerError> {
        let who = self.0.permits().operator_at_terminal(tenant)?;
        self.0.write(tenant, |transaction| {
            let sql = "DELETE FROM route WHERE tenant = ?1 AND service = ?2";
            if transaction.execute(sql, params![tenant, service])? == 0 {
                return Err(LedgerError::NotFound);
            }
            note(transaction, &who, "route", "route".into(), json!({"op": "forgotten", "service": service}))
        })
    }
}
