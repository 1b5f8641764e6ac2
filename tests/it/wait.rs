//! Waiting for something that another process or thread does.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Longest wait; a busy machine needs some of it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks: what is waited for needs the processor, too, and the gateway allows a user fifty requests a second.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what} doesn't come");
        std::thread::park_timeout(PAUSE);
    }
}

/// Looks until a condition holds.
#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    wait_for("what is waited for", || is_so().then_some(()));
}

/// Waits for the end of a process.
#[track_caller]
pub fn wait_for_end(child: &mut Child) -> ExitStatus {
    wait_for("the end of a process", || child.try_wait().expect("its status"))
}
