//! A check that the database takes writes. A disk that is full can still be read, so a look alone doesn't show it.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time in which at most one write is tried.
const TRY: Duration = Duration::from_secs(1);

/// The outcome of the last writes. While none fails it costs nothing.
#[derive(Default)]
pub struct Health {
    has_failed: AtomicBool,
    tried: Mutex<Option<Instant>>,
}

impl Health {
    /// Notes that a transaction failed.
    pub fn failed(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Notes that a transaction has changed the disk for sure.
    pub fn wrote(&self) {
        if self.has_failed.load(Ordering::Relaxed) {
            self.has_failed.store(false, Ordering::Relaxed);
        }
    }

    /// Returns whether writes succeed. After a failed one, `write` makes a small one; until the next try, writes count as
    /// failing.
    pub fn can_write(&self, write: impl FnOnce() -> bool) -> bool {
        if !self.has_failed.load(Ordering::Relaxed) {
            return true;
        }
        // Concurrent callers wait for one try.
        let mut tried = self.tried.lock();
        if !self.has_failed.load(Ordering::Relaxed) {
            return true;
        }
        if tried.is_some_and(|at| at.elapsed() < TRY) {
            return false;
        }
        let is_written = write();
        self.has_failed.store(!is_written, Ordering::Relaxed);
        *tried = Some(Instant::now());
        is_written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_counts_until_another_one_succeeds_and_is_tried_once_a_second() {
        let health = Health::default();
        assert!(health.can_write(|| panic!("nothing has failed")));
        health.failed();
        assert!(!health.can_write(|| false));
        assert!(!health.can_write(|| panic!("it was tried just now")));
        health.wrote();
        assert!(health.can_write(|| panic!("a write has succeeded")));
        *health.tried.lock() = None;
        health.failed();
        assert!(health.can_write(|| true));
        health.failed();
        assert!(!health.can_write(|| panic!("it was tried just now")));
    }
}
