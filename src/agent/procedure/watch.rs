//! Watches a running step: its time, and requests that others make of the run meanwhile.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::Journal;
use crate::agent::Cancel;
use crate::sop::Event;

/// Poll interval of the journal for a person's request.
const POLL: Duration = Duration::from_millis(200);

/// Reason why something was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Its time is over.
    Time,
    /// A person wants the run to pause or to end.
    Wish,
    /// The process is to end.
    Interrupt,
}

/// Does something, and cancels it if its time is over or a person wants so.
pub(super) fn watched<T>(
    most: Duration,
    cancel: &Cancel,
    journal: &dyn Journal,
    seen: i64,
    act: impl FnOnce() -> T,
) -> (T, Option<Cut>) {
    let cut = AtomicU8::new(0);
    let until = Instant::now() + most;
    let done = std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let cut = &cut;
        scope.spawn(move || {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if is_done.recv_timeout(left.min(POLL)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let why = if Instant::now() >= until { 1 } else { u8::from(is_wanted(journal, seen)) * 2 };
                if why != 0 && !cancel.is_cancelled() {
                    cut.store(why, Ordering::SeqCst);
                    cancel.cancel();
                    return;
                }
            }
        });
        let made = act();
        drop(done);
        made
    });
    let cut = match cut.into_inner() {
        1 => Some(Cut::Time),
        2 => Some(Cut::Wish),
        _ if cancel.is_cancelled() => Some(Cut::Interrupt),
        _ => None,
    };
    (done, cut)
}

/// Waits, unless it is cut short.
pub(super) fn wait(
    most: Duration,
    cancel: &Cancel,
    journal: &dyn Journal,
    seen: i64,
    is_stopped: &dyn Fn() -> bool,
) -> Option<Cut> {
    let until = Instant::now() + most;
    loop {
        if cancel.is_cancelled() {
            return Some(Cut::Interrupt);
        }
        if is_wanted(journal, seen) || is_stopped() {
            return Some(Cut::Wish);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left.min(POLL));
    }
}

/// Returns whether a person wants the run to pause or to end.
fn is_wanted(journal: &dyn Journal, seen: i64) -> bool {
    let wants = |event: &Event| matches!(event, Event::CancelAsked | Event::Paused { .. });
    journal.events(seen).is_ok_and(|events| events.iter().any(|(_, _, event)| wants(event)))
}
