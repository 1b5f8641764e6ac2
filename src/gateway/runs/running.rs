//! Running calls and runs: their limit, and how they are stopped. A kill switch stops those that it covers at once.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::agent::Cancel;
use crate::proto::team::{Identity, Lease};

/// Calls and runs at once, those that wait for a person included.
const RUNNING_MAX: usize = 64;

/// The actions that are running.
#[derive(Debug, Default)]
pub struct Running {
    entries: Mutex<BTreeMap<u64, Entry>>,
    last: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    tenant: String,
    project: String,
    /// The action; none for a run with many.
    action: Option<String>,
    /// The lease of the workspace.
    lease: Option<Lease>,
    cancel: Cancel,
}

/// A slot among the running ones, until it is dropped.
#[derive(Debug)]
pub struct Place {
    running: Arc<Running>,
    number: u64,
    /// Stops it.
    pub cancel: Cancel,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.running.entries.lock().remove(&self.number);
    }
}

impl Running {
    /// Takes a slot; `None` if all are in use.
    pub fn take(self: &Arc<Self>, who: &Identity, action: Option<&str>) -> Option<Place> {
        let mut entries = self.entries.lock();
        if entries.len() >= RUNNING_MAX {
            return None;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let cancel = Cancel::new();
        let entry = Entry {
            tenant: who.tenant.clone(),
            project: who.project.clone(),
            action: action.map(str::to_owned),
            lease: who.lease,
            cancel: cancel.clone(),
        };
        entries.insert(number, entry);
        Some(Place { running: Arc::clone(self), number, cancel })
    }

    /// Returns the number of running actions and runs.
    pub fn count(&self) -> usize {
        self.entries.lock().len()
    }

    /// Stops the actions that a kill switch covers. Runs continue with text: their next call meets the switch.
    pub fn stop(&self, who: &Identity, scope: &str, subject: &str) {
        self.stop_where(|entry| {
            let is_covered = match scope {
                "project" => entry.project == subject,
                "action" => entry.action.as_deref() == Some(subject),
                _ => true,
            };
            entry.action.is_some() && entry.tenant == who.tenant && is_covered
        });
    }

    /// Stops the actions and runs under a lease that is lost.
    pub fn stop_under(&self, tenant: &str, project: &str, lease: Lease) {
        self.stop_where(|it| it.tenant == tenant && it.project == project && it.lease == Some(lease));
    }

    /// Stops everything.
    pub fn stop_all(&self) {
        self.stop_where(|_| true);
    }

    fn stop_where(&self, is_meant: impl Fn(&Entry) -> bool) {
        let entries = self.entries.lock();
        let cancels: Vec<Cancel> = entries.values().filter(|it| is_meant(it)).map(|it| it.cancel.clone()).collect();
        drop(entries);
        cancels.iter().for_each(Cancel::cancel);
    }
}
