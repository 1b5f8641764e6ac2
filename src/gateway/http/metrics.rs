//! Counters of the gateway, as Prometheus reads them. No tenant, user or path is a label; a route is its pattern.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The bounds of the histogram of times, in seconds: an action may wait for a person.
const BOUNDS_S: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0, 60.0];

/// The state of the gateway at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Gauges {
    /// True if the chains of receipts are valid.
    pub is_chain_valid: bool,
    /// Streams that are open.
    pub streams: usize,
    /// Number of positions by which the slowest stream lags.
    pub lag: i64,
    /// Requests that wait for a thread.
    pub waiting: usize,
    /// Commits of appended events, and the events.
    pub batches: (u64, u64),
    /// Number of workspaces that this gateway holds a lease on.
    pub leases: usize,
}

/// The counters.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Conversations that began here.
    pub conversations: AtomicU64,
    /// Calls of tools.
    pub tool_calls: AtomicU64,
    /// Calls that a gate, the policy or a person refused.
    pub tool_denials: AtomicU64,
    /// Requests to models that failed.
    pub provider_errors: AtomicU64,
    /// Requests that the database failed.
    pub database_errors: AtomicU64,
    /// Number of pages of logs read from a replica.
    pub replica_reads: AtomicU64,
    /// Number of pages meant for a replica that the server itself returned.
    pub replica_misses: AtomicU64,
    /// Questions that calls wait for.
    pub questions_open: AtomicU64,
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// The sum of the times of requests, and their number below each bound and above the last.
    seconds: Mutex<(f64, [u64; BOUNDS_S.len() + 1])>,
    blocks: Mutex<BTreeMap<&'static str, u64>>,
}

impl Metrics {
    /// Counts an answered request; `route` is the pattern of its path.
    pub fn answered(&self, route: &'static str, status: u16, took: Duration) {
        *self.requests.lock().entry((route, status)).or_default() += 1;
        let mut seconds = self.seconds.lock();
        let took = took.as_secs_f64();
        seconds.0 += took;
        seconds.1[BOUNDS_S.iter().take_while(|bound| took > **bound).count()] += 1;
    }

    /// Counts a call that a gate has blocked.
    pub fn blocked(&self, gate: &'static str) {
        *self.blocks.lock().entry(gate).or_default() += 1;
    }

    /// The text for Prometheus.
    #[must_use]
    pub fn text(&self, now: Gauges) -> String {
        let mut text = String::new();
        let counters = [
            ("reedclaw_conversations_total", "Conversations that began here.", &self.conversations),
            ("reedclaw_tool_calls_total", "Calls of tools.", &self.tool_calls),
            ("reedclaw_tool_denials_total", "Calls of tools that were refused.", &self.tool_denials),
            ("reedclaw_provider_errors_total", "Requests to models that failed.", &self.provider_errors),
            ("reedclaw_db_errors_total", "Requests that the database failed.", &self.database_errors),
            ("reedclaw_replica_reads_total", "Pages of logs that the replica gave.", &self.replica_reads),
            ("reedclaw_replica_misses_total", "Pages that the replica couldn't give.", &self.replica_misses),
        ];
        for (name, help, counter) in counters {
            let value = counter.load(Ordering::Relaxed);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        let gauges = [
            ("reedclaw_receipt_chain_valid", "Whether the chain of receipts holds.", u64::from(now.is_chain_valid)),
            ("reedclaw_streams", "Streams that are open.", now.streams as u64),
            (
                "reedclaw_stream_lag_positions",
                "Positions by which the slowest stream is behind.",
                now.lag.unsigned_abs(),
            ),
            ("reedclaw_queue_depth", "Requests that wait for a thread.", now.waiting as u64),
            ("reedclaw_workspace_leases", "Workspaces that only this gateway works in.", now.leases as u64),
            ("reedclaw_questions_open", "Questions that calls wait for.", self.questions_open.load(Ordering::Relaxed)),
        ];
        for (name, help, value) in gauges {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        let (name, (commits, events)) = ("reedclaw_append_batch_events", now.batches);
        let _ = writeln!(text, "# HELP {name} Events that one commit appended.\n# TYPE {name} summary");
        let _ = writeln!(text, "{name}_sum {events}\n{name}_count {commits}");
        let name = "reedclaw_http_requests_total";
        let _ = writeln!(text, "# HELP {name} Requests by route and status.\n# TYPE {name} counter");
        for ((route, status), count) in self.requests.lock().iter() {
            let _ = writeln!(text, "{name}{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        let name = "reedclaw_gate_blocks_total";
        let _ = writeln!(text, "# HELP {name} Calls that a gate has blocked.\n# TYPE {name} counter");
        for (gate, count) in self.blocks.lock().iter() {
            let _ = writeln!(text, "{name}{{gate=\"{gate}\"}} {count}");
        }
        let (sum, counts) = *self.seconds.lock();
        let name = "reedclaw_http_request_seconds";
        let _ = writeln!(text, "# HELP {name} Time of requests.\n# TYPE {name} histogram");
        let bounds = BOUNDS_S.map(|bound| bound.to_string()).into_iter().chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, here) in bounds.zip(counts) {
            count += here;
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
        text
    }
}
