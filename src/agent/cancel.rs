//! Stopping a question from another thread. Knows the stream's waker; must not know who asks for the stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Waker;

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
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    /// Tells whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    /// Makes the handle ready for another question.
    pub fn rearm(&self) {
        self.is_cancelled.store(false, Ordering::SeqCst);
    }

    /// Lets `cancel` wake this waker. The caller looks at `is_cancelled` afterwards: a cancel before this found no waker.
    pub(super) fn attach(&self, waker: Option<Waker>) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
    }
}
