//! The state that all requests of a gateway share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use super::call::Schemas;
use super::gestures::Gestures;
use super::guard::{Names, Reach};
use super::identity::Callers;
use super::live::Live;
use super::metrics::Metrics;
use super::person::Bell;
use super::rates::{Rates, Streams};
use super::relay::Passing;
use super::runners::Runners;
use super::running::Running;
use super::shares::Shares;
use super::stream::{Feeds, Rights};
use super::work::Pool;
use crate::app;
use crate::config::{Env, Settings};
use crate::ledger::Ledger;
use crate::proto::team::Mode;
use crate::store::Store;

/// The parts of a runtime that requests use.
pub struct Parts {
    /// The settings.
    pub settings: Settings,
    /// The environment.
    pub env: Env,
    /// History and conversations.
    pub store: Arc<Mutex<Store>>,
    /// The config's file, if one was read.
    pub config: Option<PathBuf>,
}

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
    pub(super) callers: Arc<Callers>,
    /// The logs that streams follow, and the rights of those who follow them.
    pub(super) feeds: Arc<Feeds>,
    pub(super) rights: Arc<Rights>,
    /// Set when the gateway ends.
    pub(super) stopping: watch::Sender<bool>,
    /// Whether events are passed on to NATS.
    pub(super) passing: Arc<Passing>,
    /// Cached: whether the receipts hold, and how many do.
    pub(super) receipts: Mutex<Option<(Instant, bool, u64)>>,
}

impl Gateway {
    /// The time since the start, in whole seconds.
    pub(super) fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Time for which a question waits for a person.
    pub(super) fn question_timeout_ms(&self) -> i64 {
        i64::try_from(self.parts.settings.gateway.question_timeout_s).unwrap_or(i64::MAX / 1_000).saturating_mul(1_000)
    }

    /// The emergency stop of this machine, as a reason.
    pub(super) fn stopped(&self) -> Option<String> {
        match app::estop(&self.parts.env) {
            Ok(estop) => estop.check().err().map(|stopped| stopped.why),
            Err(failure) => Some(failure.message),
        }
    }
}
