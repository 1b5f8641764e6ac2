//! Movements on a canvas, which aren't stored: they reach the clients that show it now.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::mpsc::Sender;

use crate::ledger::Filter;
use crate::proto::team::Identity;

/// Time for which a gate's pass counts.
const PASSED: Duration = Duration::from_secs(1);
/// Passes that are remembered.
const PASSES_MAX: usize = 10_000;

/// The streams that show canvases, and the passes of the gates.
#[derive(Default)]
pub struct Gestures {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    next: u64,
    hearers: HashMap<u64, Hearer>,
    passes: HashMap<(String, String, String), Instant>,
}

/// One stream.
struct Hearer {
    tenant: String,
    project: String,
    /// The streams of events in its filter; none if it follows everything.
    streams: Vec<String>,
    frames: Sender<Bytes>,
}

/// A registration: the stream receives gestures until this is dropped.
pub struct Hearing(Arc<Gestures>, u64);

impl Drop for Hearing {
    fn drop(&mut self) {
        self.0.seen.lock().hearers.remove(&self.1);
    }
}

impl Gestures {
    /// Lets a stream hear the gestures of the canvases in its filter.
    pub fn hear(self: &Arc<Self>, who: &Identity, filter: &Filter, frames: &Sender<Bytes>) -> Hearing {
        let streams: Vec<String> = filter.stream.iter().chain(&filter.any_streams).cloned().collect();
        // A filter with types and without streams is an inbox's or one of decisions: it matches no canvas.
        let streams = if filter.any_types.is_empty() || !streams.is_empty() { streams } else { vec![String::new()] };
        let mut seen = self.seen.lock();
        seen.next += 1;
        let id = seen.next;
        let (tenant, project, frames) = (who.tenant.clone(), who.project.clone(), frames.clone());
        seen.hearers.insert(id, Hearer { tenant, project, streams, frames });
        Hearing(Arc::clone(self), id)
    }

    /// Sends a frame to all clients that show a canvas; a client without room for it misses it.
    pub fn show(&self, who: &Identity, stream: &str, frame: &str) {
        let seen = self.seen.lock();
        let frame = Bytes::from(frame.to_owned());
        for hearer in seen.hearers.values() {
            let is_here = hearer.tenant == who.tenant && hearer.project == who.project;
            if is_here && (hearer.streams.is_empty() || hearer.streams.iter().any(|it| it == stream)) {
                let _ = hearer.frames.try_send(frame.clone());
            }
        }
    }

    /// Returns whether the gates have let this actor's gestures through a moment ago.
    pub fn has_passed(&self, who: &Identity, canvas: &str, now: Instant) -> bool {
        let seen = self.seen.lock();
        let key = (who.tenant.clone(), who.user.clone(), canvas.to_owned());
        seen.passes.get(&key).is_some_and(|at| now.saturating_duration_since(*at) < PASSED)
    }

    /// Notes that the gates have let an actor's gestures through.
    pub fn passed(&self, who: &Identity, canvas: &str, now: Instant) {
        let mut seen = self.seen.lock();
        if seen.passes.len() >= PASSES_MAX {
            seen.passes.clear();
        }
        seen.passes.insert((who.tenant.clone(), who.user.clone(), canvas.to_owned()), now);
    }

    /// Forgets all passes: a kill switch was set.
    pub fn forget(&self) {
        self.seen.lock().passes.clear();
    }
}
