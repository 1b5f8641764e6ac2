//! The service's report about itself, in `service.json` of the state directory: written when something changes and
//! every half minute, and read by `service status`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::workers::Shared;
use crate::app::Runtime;
use crate::base::hash::sha256_hex;
use crate::base::time::utc;
use crate::cli::answers::agent::say;
use crate::config::Env;
use crate::files::replace_for_now;
use crate::host::{now_unix_ms, read_text};
use crate::ops::history::Database;
use crate::ops::{self, receipts};

/// Longest interval between two writes, and interval between looks at the stores.
const EVERY: Duration = Duration::from_secs(30);
/// A service that wrote nothing for longer than this, in milliseconds, is stuck.
const SILENT_MS_MAX: i64 = 120_000;
/// A disk with fewer bytes left is full.
const FREE_BYTES_MIN: u64 = 1024 * 1024;

/// The service's report about itself.
pub(super) struct Health {
    place: PathBuf,
    since: String,
    workspace: PathBuf,
    /// Reason why the config can't be used as it is.
    pub(super) config: Option<String>,
    /// The digest of the config that was read last.
    pub(super) digest: String,
    /// The stores, and when they were looked at.
    stores: Option<(Instant, Stores)>,
    written: Option<(Instant, Value)>,
    has_failed: bool,
}

/// The state of the stores.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stores {
    /// The database, as JSON.
    pub(super) store: Value,
    /// The receipts, as JSON.
    pub(super) receipts: Value,
    /// Their faults.
    pub(super) wrong: Vec<String>,
}

impl Health {
    pub(super) fn new(place: PathBuf, workspace: &Path, digest: String) -> Self {
        let (since, workspace) = (utc(now_unix_ms()), workspace.to_owned());
        Self { place, since, workspace, config: None, digest, stores: None, written: None, has_failed: false }
    }

    /// Makes the next update look at the stores, however recent the last look was.
    pub(super) fn look_anew(&mut self) {
        self.stores = None;
    }

    /// Writes the report if something has changed, or if it is time; `wrong` are the faults that the service knows.
    pub(super) fn update(&mut self, runtime: &Runtime, shared: &Shared, wrong: Vec<String>) {
        if self.stores.as_ref().is_none_or(|(at, _)| at.elapsed() >= EVERY) {
            self.stores = Some((Instant::now(), stores(runtime)));
        }
        let stores = self.stores.clone().map(|(_, stores)| stores).unwrap_or_default();
        let degraded: Vec<String> = self.config.iter().cloned().chain(wrong).chain(stores.wrong).collect();
        let facts = json!({"pid": std::process::id(), "since": self.since, "version": env!("CARGO_PKG_VERSION"),
            "workspace": self.workspace, "config_sha256": self.digest, "store": stores.store,
            "receipts": stores.receipts, "working": shared.working(), "queued": shared.waiting(), "degraded": degraded});
        let is_news = |(at, before): &(Instant, Value)| *before != facts || at.elapsed() >= EVERY;
        if !self.written.as_ref().is_none_or(is_news) {
            return;
        }
        let mut text = facts.clone();
        text["at"] = now_unix_ms().into();
        let written = replace_for_now(&self.place, text.to_string().as_bytes());
        if let (Err(error), false) = (&written, self.has_failed) {
            say(&format!("{} can't be written: {error}", self.place.display()));
        }
        self.has_failed = written.is_err();
        self.written = written.is_ok().then(|| (Instant::now(), facts));
    }
}

/// Looks at the database and at the receipts.
pub(super) fn stores(runtime: &Runtime) -> Stores {
    let mut wrong = Vec::new();
    let Database { is_durable, fault } = ops::history::database(&mut runtime.lock_store());
    let store = json!({"durable": is_durable, "writable": fault.is_none()});
    wrong.extend(fault.map(|fault| format!("runs can't be stored: {fault}")));
    let receipts = match receipts::tally(runtime.settings(), runtime.env()) {
        Ok(None) => json!({"enabled": false}),
        Ok(Some(tally)) => {
            if let Some(why) = &tally.broken {
                wrong.push(format!("the chain of receipts doesn't hold: {why}; reedclaw receipt verify tells more"));
            }
            json!({"enabled": true, "valid": tally.broken.is_none(), "receipts": tally.receipts})
        }
        Err(failure) => {
            wrong.push(format!("the receipts can't be read: {}", failure.message));
            json!({"enabled": true, "valid": Value::Null})
        }
    };
    Stores { store, receipts, wrong }
}

/// The digest of the config's text; empty if there is none.
pub(super) fn config_digest(runtime: &Runtime) -> String {
    let text = runtime.config().path.as_ref().and_then(|path| read_text(path).ok());
    text.map_or_else(String::new, |text| sha256_hex(text.as_bytes()))
}

/// Returns the reasons why the service that wrote this isn't well; empty if it is well.
pub(super) fn problems(facts: &Value, env: &Env) -> Vec<String> {
    let mut found: Vec<String> =
        facts["degraded"].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect();
    let at = facts["at"].as_i64().unwrap_or_else(now_unix_ms);
    if now_unix_ms() - at > SILENT_MS_MAX {
        found.push(format!("it has given no sign of life since {}", utc(at)));
    }
    // A service can't write a report that its disk is full.
    let directories = [crate::config::state_directory(env), crate::config::data_directory(env)];
    found.extend(directories.into_iter().flatten().filter_map(|directory| {
        let disk = nix::sys::statvfs::statvfs(&directory).ok()?;
        let free = disk.blocks_available().saturating_mul(disk.fragment_size());
        (free < FREE_BYTES_MIN).then(|| format!("the disk of {} is full", directory.display()))
    }));
    found
}
