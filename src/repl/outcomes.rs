//! Notes how commands ended, on a thread of its own, so that no prompt waits for the disk. It must not know what a
//! line means.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::host;
use crate::store::{HistoryId, Store};

/// The thread. What it was told is in the store when this has been dropped.
pub(super) struct Outcomes {
    sender: Option<Sender<Outcome>>,
    thread: Option<JoinHandle<()>>,
    store: Arc<Mutex<Store>>,
}

/// How one command ended.
struct Outcome {
    row: HistoryId,
    status: i32,
    duration_ms: u64,
    now_unix_ms: i64,
}

impl Outcome {
    fn note(&self, store: &Mutex<Store>) {
        // A panic elsewhere leaves whole rows behind, so a poisoned lock is as good as another.
        let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
        store.set_outcome(self.row, Some(self.status), Some(self.duration_ms), self.now_unix_ms);
    }
}

impl Outcomes {
    /// Starts it. Where the system has no thread left, outcomes are noted by the caller itself.
    pub(super) fn start(store: Arc<Mutex<Store>>) -> Self {
        let (sender, incoming) = channel::<Outcome>();
        let shared = Arc::clone(&store);
        let work = move || incoming.iter().for_each(|outcome| outcome.note(&shared));
        let thread = std::thread::Builder::new().name("history".into()).spawn(work).ok();
        Self { sender: Some(sender), thread, store }
    }

    /// Notes how the command in `row` ended.
    pub(super) fn note(&self, row: HistoryId, status: i32, duration_ms: u64) {
        let outcome = Outcome { row, status, duration_ms, now_unix_ms: host::now_unix_ms() };
        let left = match &self.sender {
            Some(sender) => sender.send(outcome).err().map(|unsent| unsent.0),
            None => Some(outcome),
        };
        if let Some(outcome) = left {
            outcome.note(&self.store);
        }
    }
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::LineKind;
    use crate::store::Entry;

    #[test]
    fn all_that_was_noted_is_in_the_store_when_it_is_dropped() {
        let store = Arc::new(Mutex::new(Store::in_memory().expect("a store")));
        let line = |time| Entry {
            time,
            session: 1,
            cwd: None,
            hostname: None,
            line: format!("line {time}"),
            kind: LineKind::Command,
            status: None,
            duration_ms: None,
        };
        let rows: Vec<HistoryId> = (0..50).map(|time| store.lock().expect("the lock").append(&line(time))).collect();
        let outcomes = Outcomes::start(Arc::clone(&store));
        for (row, status) in rows.iter().zip(0..) {
            outcomes.note(*row, status, 7);
        }
        drop(outcomes);
        for (row, status) in rows.iter().zip(0..) {
            let entry = store.lock().expect("the lock").row(*row).expect("readable").expect("there").entry;
            assert_eq!((entry.status, entry.duration_ms), (Some(status), Some(7)));
        }
    }
}
