//! The bell that wakes those who wait for a person's answer.

use parking_lot::{Condvar, Mutex};
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
    /// Signals that a question was answered.
    pub fn ring(&self) {
        *self.rung.lock() += 1;
        self.changed.notify_all();
    }

    /// Returns the number of rings so far.
    pub fn count(&self) -> u64 {
        *self.rung.lock()
    }

    /// Waits until it has rung more than `seen` times, or for a moment.
    pub fn wait(&self, seen: u64) {
        let mut rung = self.rung.lock();
        self.changed.wait_while_for(&mut rung, |rung| *rung == seen, LOOK);
    }
}
