//! The state that all requests of a gateway share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tokio::sync::watch;

use super::gestures::Gestures;
use super::guard::{Names, Reach};
use super::homes::{Home, Homes, Parts};
use super::http::inputs::{Schemas, time_text};
use super::http::metrics::Metrics;
use super::http::problem::{Answered, Problem};
use super::http::rates::{Rates, Streams};
use super::identity::Callers;
use super::relay::Passing;
use super::runs::bell::Bell;
use super::runs::live::Live;
use super::runs::runners::Runners;
use super::runs::running::Running;
use super::runs::work::Pool;
use super::shares::Shares;
use super::stream::{Feeds, Rights};
use super::traces::Traces;
use crate::agent::ToolRunner;
use crate::app::{self, ChannelKind, RunnerOf};
use crate::gate::Ceiling;
use crate::ledger::{Ledger, Work};
use crate::ops::estop;
use crate::proto::team::{Identity, Mode};

/// The flag of a tenant whose personal data no model and no other server gets, and the code of a call that would send it.
pub(super) const PERSONAL: &str = "pii";

/// A gateway that serves.
pub struct Gateway {
    pub(super) ledger: Arc<Ledger>,
    pub(super) parts: Parts,
    pub(super) mode: Mode,
    pub(super) node_id: String,
    pub(super) started: Instant,
    pub(super) names: Names,
    pub(super) reach: Reach,
    pub(super) work: Pool,
    pub(super) running: Arc<Running>,
    pub(super) runners: Runners,
    pub(super) bell: Bell,
    pub(super) live: Live,
    pub(super) gestures: Arc<Gestures>,
    pub(super) shares: Shares,
    /// The address of this gateway, as a browser needs it.
    pub(super) url: String,
    pub(super) schemas: Schemas,
    pub(super) rates: Rates,
    pub(super) streams: Streams,
    pub(super) metrics: Metrics,
    pub(super) traces: Traces,
    pub(super) callers: Arc<Callers>,
    /// The logs that streams follow, and the rights of those who follow them.
    pub(super) feeds: Arc<Feeds>,
    pub(super) rights: Arc<Rights>,
    /// Set when the gateway ends.
    pub(super) stopping: watch::Sender<bool>,
    /// The state of passing events on to NATS.
    pub(super) passing: Arc<Passing>,
    /// The tenants whose routes name back-ends that this program doesn't have, each with those routes.
    pub(super) unserved: BTreeMap<String, Vec<String>>,
    /// The homes of the projects' agents.
    pub(super) homes: Homes,
}

impl Gateway {
    /// The time since the start, in whole seconds.
    pub(super) fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Refuses the requests of a tenant whose routes can't be served.
    ///
    /// # Errors
    /// The tenant has such routes.
    pub(super) fn check_served(&self, tenant: &str) -> Answered<()> {
        let Some(routes) = self.unserved.get(tenant) else { return Ok(()) };
        let message =
            "the tenant's routes name back-ends that this gateway doesn't serve; it looks at them when it starts";
        Err(Problem::new(503, "backend_unavailable", message).context(json!({"routes": routes})))
    }

    /// Returns whether a tenant's personal data must stay here. If the database doesn't answer, it must: data that was sent can't
    /// be called back.
    pub(super) fn hides_personal(&self, tenant: &str) -> bool {
        self.ledger.safety().flag(tenant, PERSONAL).map_or(true, |flag| flag == Some(true))
    }

    /// Time for which a question waits for a person.
    pub(super) fn question_timeout_ms(&self) -> i64 {
        i64::try_from(self.parts.settings.gateway.question_timeout_s).unwrap_or(i64::MAX / 1_000).saturating_mul(1_000)
    }

    /// Returns the reason of this machine's emergency stop, if it is on.
    pub(super) fn stopped(&self) -> Option<String> {
        estop::reason(&self.parts.env).unwrap_or_else(|failure| Some(failure.message))
    }

    /// Returns the time since which the emergency stop of this machine is on, and its cause, as far as they are known.
    pub(super) fn stop_noted(&self) -> Option<(String, String)> {
        let (since, by) = estop::noted(&self.parts.env)?;
        Some((time_text("since", &since).ok()?, by))
    }

    /// The tools in the workspace of a project.
    pub(super) fn runner(&self, who: &Identity) -> Answered<ToolRunner> {
        if let Some(runner) = self.runners.take(who) {
            return Ok(runner);
        }
        let parts = &self.parts;
        let home = self.home(who)?;
        let built = app::tool_runner(&RunnerOf {
            settings: &home.settings,
            env: &parts.env,
            workspace: &home.workspace,
            store: &home.store,
            channel: Some(ChannelKind::Gateway),
            config: parts.config.as_deref(),
            ceiling: Ceiling::default(),
            bench: None,
            readable: &[],
        });
        let built = built.map_err(|failure| Problem::new(503, "database_unavailable", failure.message))?;
        Ok(built.runner)
    }

    /// Begins work in the workspace of the caller's project: the caller as its events name them, and the value that ends it.
    ///
    /// # Errors
    /// Another gateway works there, or the database fails.
    pub(super) fn work_in(&self, who: &Identity) -> Answered<(Identity, Option<Work>)> {
        let begun = self.ledger.leases().begin(who, self.homes.machine_of(who))?;
        let (lease, work) = begun.unzip();
        Ok((Identity { lease, ..who.clone() }, work))
    }

    /// The home of the agents of the caller's project.
    pub(super) fn home(&self, who: &Identity) -> Answered<Arc<Home>> {
        self.homes.of(&self.parts, who)
    }

    /// The same, and `None` if no agent has worked there yet: looking makes no directory.
    pub(super) fn known_home(&self, who: &Identity) -> Answered<Option<Arc<Home>>> {
        self.homes.existing(&self.parts, who)
    }
}
