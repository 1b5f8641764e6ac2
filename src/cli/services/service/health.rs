//! The service's account of itself, in `service.json` of the state directory: written when something changes and every half
//! minute, and read by `service status`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::app::Runtime;
use crate::base::hash::sha256_hex;
use crate::base::time::utc;
use crate::cli::answers::agent::say;
use crate::files::replace_private;
use crate::host::{now_unix_ms, read_text};
use crate::store::Store;

/// Interval at which it is written at least.
const EVERY: Duration = Duration::from_secs(30);
/// A service that wrote nothing for this long, in milliseconds, is stuck.
pub(super) const SILENT_MS_MAX: i64 = 120_000;

/// The service's account of itself.
pub(super) struct Health {
    place: PathBuf,
    since: String,
    workspace: PathBuf,
    /// Reason why the config can't be used as it is.
    pub(super) config: Option<String>,
    /// The digest of the config that was read last.
    pub(super) digest: String,
    written: Option<(Instant, Value)>,
    has_failed: bool,
}

impl Health {
    pub(super) fn new(place: PathBuf, workspace: &Path, digest: String) -> Self {
        let (since, workspace) = (utc(now_unix_ms()), workspace.to_owned());
        Self { place, since, workspace, config: None, digest, written: None, has_failed: false }
    }

    /// Writes it if something has changed, or it is time.
    pub(super) fn update(&mut self, runtime: &Runtime, working: usize) {
        let is_durable = runtime.store().lock().is_ok_and(|store: std::sync::MutexGuard<'_, Store>| store.is_durable());
        let store = (!is_durable).then(|| "runs can't be kept: the store isn't on the disk".to_owned());
        let degraded: Vec<&String> = self.config.iter().chain(&store).collect();
        let facts = json!({"pid": std::process::id(), "since": self.since, "version": env!("CARGO_PKG_VERSION"),
            "workspace": self.workspace, "config_sha256": self.digest, "store": {"durable": is_durable},
            "working": working, "degraded": degraded});
        let is_news = |(at, before): &(Instant, Value)| *before != facts || at.elapsed() >= EVERY;
        if !self.written.as_ref().is_none_or(is_news) {
            return;
        }
        let mut text = facts.clone();
        text["at"] = now_unix_ms().into();
        let written = replace_private(&self.place, text.to_string().as_bytes());
        if let (Err(error), false) = (&written, self.has_failed) {
            say(&format!("{} can't be written: {error}", self.place.display()));
        }
        self.has_failed = written.is_err();
        self.written = written.is_ok().then(|| (Instant::now(), facts));
    }
}

/// The digest of the config's text; empty if there is none.
pub(super) fn config_digest(runtime: &Runtime) -> String {
    let text = runtime.config().path.as_ref().and_then(|path| read_text(path).ok());
    text.map_or_else(String::new, |text| sha256_hex(text.as_bytes()))
}

/// Reason why a service that wrote this doesn't do all that it should; empty if it is well.
pub(super) fn problems(facts: &Value) -> Vec<String> {
    let mut found: Vec<String> =
        facts["degraded"].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect();
    let at = facts["at"].as_i64().unwrap_or_else(now_unix_ms);
    if now_unix_ms() - at > SILENT_MS_MAX {
        found.push(format!("it has given no sign of life since {}", utc(at)));
    }
    found
}
