//! Measures the time that a run works in this process, by a clock that can't be set and that stops while the machine sleeps.

use std::time::Instant;

/// Milliseconds by which the times of events may differ from the time of work.
const TOLERANCE_MS: u64 = 2_000;

/// The time of work since a process took a run up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch {
    began: Instant,
    /// Milliseconds of work before.
    before_ms: u64,
}

impl Stopwatch {
    /// Starts with this number of milliseconds of work.
    pub(super) fn after(before_ms: u64) -> Self {
        Self { began: Instant::now(), before_ms }
    }

    /// Milliseconds of work, in earlier processes too.
    pub(super) fn worked_ms(&self) -> u64 {
        self.before_ms + u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the time of work, if the times of the events differ too much from it: the machine slept, or its clock was set.
    pub(super) fn correction(&self, by_events_ms: u64) -> Option<u64> {
        Some(self.worked_ms()).filter(|worked| worked.abs_diff(by_events_ms) > TOLERANCE_MS)
    }
}
