//! The runs of the service: several at once, of which one works in a workspace, and the settings that count for them.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::agent::Cancel;
use crate::agent::procedure::Journal;
use crate::app::{self, Request, SopJournal};
use crate::cli::answers::agent::{say, tell};
use crate::config::{Env, Layers, Settings};
use crate::host;
use crate::sop::Run;

/// The state that the loop and the runs share.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Ends the service after the step at hand.
    pub(super) stops: AtomicBool,
    /// Asks for the config to be read again.
    pub(super) reloads: AtomicBool,
    /// A file has changed, or a run has ended.
    pub(super) news: AtomicBool,
    cancel: Cancel,
    env: Env,
    /// The start of a run, with the settings that count for it.
    request: Mutex<Request>,
}

#[derive(Default)]
struct Queue {
    /// Runs that wait, the oldest first.
    waiting: Vec<SopJournal>,
    /// The workspaces in which runs work, each with the procedure.
    busy: BTreeMap<PathBuf, String>,
}

/// The place of a run among those that work. It is free again when this is dropped, also by a panic of the run.
struct BusyPlace {
    shared: Arc<Shared>,
    workspace: PathBuf,
}

impl Drop for BusyPlace {
    fn drop(&mut self) {
        self.shared.queue().busy.remove(&self.workspace);
        self.shared.start_ready();
        self.shared.news.store(true, Ordering::SeqCst);
        self.shared.wake();
    }
}

impl Shared {
    pub(super) fn new(env: Env, request: Request) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            changed: Condvar::new(),
            stops: AtomicBool::new(false),
            reloads: AtomicBool::new(false),
            news: AtomicBool::new(false),
            cancel: Cancel::new(),
            env,
            request: Mutex::new(request),
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Sets the settings for the runs that begin from now on.
    pub(super) fn set_settings(&self, layers: &Layers) {
        let mut request = self.request.lock();
        request.fallback = Some(Arc::new(layers.clone()));
    }

    fn request(&self) -> Request {
        self.request.lock().clone()
    }

    fn settings(&self) -> Option<Settings> {
        self.request().fallback.map(|layers| layers.settings())
    }

    /// Wakes every thread that waits.
    pub(super) fn wake(&self) {
        // The lock keeps this from falling between another thread's look at the flags and its wait.
        drop(self.queue());
        self.changed.notify_all();
    }

    /// Waits; false if the service is to end.
    pub(super) fn rest(&self, time: Duration) -> bool {
        let flags = [&self.stops, &self.reloads, &self.news];
        let is_asked = || flags.iter().any(|flag| flag.load(Ordering::SeqCst));
        self.changed.wait_while_for(&mut self.queue(), |_| !is_asked(), time);
        !self.stops.load(Ordering::SeqCst)
    }

    /// Adds runs, and starts those for which there is room.
    pub(super) fn add(self: &Arc<Self>, runs: impl IntoIterator<Item = SopJournal>) {
        self.queue().waiting.extend(runs);
        self.start_ready();
    }

    /// The number of runs that work.
    pub(super) fn working(&self) -> usize {
        self.queue().busy.len()
    }

    /// The number of runs that wait for room.
    pub(super) fn waiting(&self) -> usize {
        self.queue().waiting.len()
    }

    /// Returns whether a run of a procedure works or waits for room.
    pub(super) fn is_at_work(&self, name: &str) -> bool {
        let queue = self.queue();
        queue.busy.values().any(|busy| busy == name) || queue.waiting.iter().any(|run| run.name == name)
    }

    fn start_ready(self: &Arc<Self>) {
        let parallel = self.settings().map_or(1, |settings| settings.service.parallel.max(1));
        let mut queue = self.queue();
        while queue.busy.len() < parallel && !self.stops.load(Ordering::SeqCst) {
            let Some(at) = queue.waiting.iter().position(|run| !queue.busy.contains_key(&run.workspace)) else {
                return;
            };
            let journal = queue.waiting.remove(at);
            queue.busy.insert(journal.workspace.clone(), journal.name.clone());
            let shared = Arc::clone(self);
            let (run, workspace) = (journal.run(), journal.workspace.clone());
            let worked = move || {
                let place = BusyPlace { shared, workspace: journal.workspace.clone() };
                place.shared.work(&journal);
            };
            if let Err(error) = std::thread::Builder::new().name("service-sop".into()).spawn(worked) {
                queue.busy.remove(&workspace);
                say(&format!("run {run} can't work: no thread could be started: {error}"));
            }
        }
    }

    fn work(&self, journal: &SopJournal) {
        match app::work_procedure(self.request(), journal, &self.cancel, &self.stops) {
            Ok(Some(run)) => {
                say(&format!("run {} of {}: {}", run.id, journal.name, run.word()));
                self.notify(journal, &run);
            }
            Ok(None) => {}
            Err(failure) => tell(&failure),
        }
    }

    /// Reports a run that has ended or waits for a person to the program of `service.notify`.
    fn notify(&self, journal: &SopJournal, run: &Run) {
        let is_silent = matches!(run.word(), "running" | "paused") || !run.definition().is_none_or(|it| it.notifies);
        let Some(settings) = self.settings().filter(|_| !is_silent) else { return };
        let facts = json!({"kind": "sop", "run": run.id, "name": journal.name, "state": run.word(),
            "workspace": journal.workspace});
        if let Err(why) = host::notify(&settings.service.notify, &self.env, &format!("{facts}\n")) {
            say(&format!("service.notify: {why}"));
        }
    }

    /// Lets the steps at hand finish for a while, and then stops them.
    pub(super) fn end(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut queue = self.queue();
        while !queue.busy.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.cancel.cancel();
                self.changed.wait(&mut queue);
            } else {
                self.changed.wait_for(&mut queue, left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_panics_frees_its_workspace_and_lets_the_service_end() {
        let shared = Shared::new(Env::new(), Request::default());
        let workspace = PathBuf::from("/work");
        shared.queue().busy.insert(workspace.clone(), "check".into());
        let place = BusyPlace { shared: Arc::clone(&shared), workspace };
        let run = std::thread::spawn(move || {
            let _place = place;
            std::panic::resume_unwind(Box::new("a mistake"));
        });
        assert!(run.join().is_err());
        assert_eq!((shared.working(), shared.is_at_work("check")), (0, false));
        shared.end(Duration::ZERO);
    }
}
