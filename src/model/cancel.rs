//! Stopping a question from another thread. Knows how a wait is woken; must not know the reason for the stop.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Ends a wait, from any thread; never waits itself.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// Wraps what ends a wait; it must return at once.
    pub(super) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Ends the current wait, if there is one.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// A handle that stops a question at once; clones are the same handle.
///
/// One handle serves one question, or is made ready for the next by [`Cancel::rearm`]. A handle cancelled before the
/// question starts stops it before anything is sent.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    is_cancelled: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Cancel {
    /// Makes a handle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the question, now or when it starts. Takes a lock for a moment: call it from a thread, not from inside a
    /// signal handler.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        if let Some(waker) = &*self.waker.lock() {
            waker.wake();
        }
    }

    /// Returns whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    /// Makes the handle ready for another question.
    pub fn rearm(&self) {
        self.is_cancelled.store(false, Ordering::SeqCst);
    }

    /// Waits, unless it is cancelled; returns whether it was.
    pub(super) fn wait(&self, duration: Duration) -> bool {
        let (sender, woken) = sync_channel(1);
        self.attach(Some(Waker::new(move || {
            let _ = sender.try_send(());
        })));
        let until = Instant::now() + duration;
        while !self.is_cancelled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let _ = woken.recv_timeout(left);
        }
        self.attach(None);
        self.is_cancelled()
    }

    /// Lets `cancel` wake this waker. The caller looks at `is_cancelled` afterwards: a cancel before this found no waker.
    pub(super) fn attach(&self, waker: Option<Waker>) {
        *self.waker.lock() = waker;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_time_or_with_the_cancel() {
        let cancel = Cancel::new();
        assert!(!cancel.wait(Duration::from_millis(1)));
        let other = cancel.clone();
        let thread = std::thread::spawn(move || other.cancel());
        assert!(cancel.wait(Duration::from_secs(600)));
        thread.join().expect("the thread ends");
        assert!(cancel.wait(Duration::from_secs(600)), "it stays cancelled");
    }
}
