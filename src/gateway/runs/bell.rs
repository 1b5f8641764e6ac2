//! The bell that wakes those who wait for a person's answer.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The longest time until a stop is seen while a question is open.
const LOOK: Duration = Duration::from_millis(100);

/// Wakes those who wait for an answer.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<u64>,
    changed: Condvar,
}

impl Bell {
    /// Says that a question was answered.
    pub fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// The number of times that it has rung.
    pub fn count(&self) -> u64 {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has rung more than `seen` times, or for a moment.
    pub fn wait(&self, seen: u64) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(rung, LOOK, |rung| *rung == seen);
    }
}
