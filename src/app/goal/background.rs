//! A run towards a goal on a thread of its own, beside a session. It must not know how its progress is shown.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::{RunWatcher, StoredJournal, Wanted, effect_line, work_on_run};
use crate::agent::Cancel;
use crate::agent::goal::{self, Journal, Watcher};
use crate::app::{ChannelKind, Request, Runtime};
use crate::norris::{Effect, Run, TaskState};
use crate::proto::tool::Step;
use crate::proto::{self, Failure};

/// Lines of news that wait to be shown.
const NEWS_MAX: usize = 200;

/// The visible progress of a run on a thread.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Its number, once it is stored.
    pub run: Option<i64>,
    /// The current activity, in one line.
    pub doing: String,
    /// The call at hand.
    pub call: String,
    /// The task at hand and the number of tasks.
    pub at: (usize, usize),
    /// The cost so far, in dollars.
    pub usd: f64,
    /// Milliseconds of work until `since`.
    pub active_ms: u64,
    /// Time when the step at hand began.
    pub since: Option<Instant>,
    /// Lines that haven't been shown.
    pub news: Vec<String>,
    /// Reason why it couldn't begin or go on.
    pub failure: Option<Failure>,
    /// `true` once the run has ended or rests.
    pub is_over: bool,
}

/// A run on a thread of its own, beside a session. It is paused when this is dropped.
pub struct Background {
    progress: Arc<Mutex<Progress>>,
    cancel: Cancel,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the run without waiting until it works; `nudge` is called whenever something has changed.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(request: Request, wanted: Wanted, nudge: Box<dyn Fn() + Send>) -> Result<Self, Failure> {
        let progress = Arc::new(Mutex::new(Progress { doing: "starting".into(), ..Progress::default() }));
        let cancel = Cancel::new();
        let (of_thread, stop) = (Arc::clone(&progress), cancel.clone());
        let request = Request { channel: ChannelKind::Agent, ..request };
        let work = move || {
            let mut seen = Seen { progress: of_thread, nudge, journal: None };
            if let Err(failure) = work_on_run(&request, wanted, &mut seen, &stop) {
                seen.lock().failure = Some(failure);
            }
        };
        let thread = std::thread::Builder::new().name("norris".into()).spawn(work);
        let thread =
            thread.map_err(|why| Failure::internal(format!("no thread could be started for the run: {why}")))?;
        Ok(Self { progress, cancel, thread: Some(thread) })
    }

    /// The run's number, once the run is stored.
    #[must_use]
    pub fn run(&self) -> Option<i64> {
        lock(&self.progress).run
    }

    /// Returns the run's progress and takes its news.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut progress = lock(&self.progress);
        let news = std::mem::take(&mut progress.news);
        Progress { news, ..progress.clone() }
    }

    /// Returns whether the run has ended or rests.
    #[must_use]
    pub fn is_over(&self) -> bool {
        lock(&self.progress).is_over
    }

    /// The number of the task at hand and the number of tasks.
    #[must_use]
    pub fn at(&self) -> (usize, usize) {
        lock(&self.progress).at
    }

    /// Stops the current work at once; the run can be resumed.
    pub fn interrupt(&self) {
        self.cancel.cancel();
    }

    /// Waits for the run's thread.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing to say.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.interrupt();
        self.join();
    }
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock()
}

/// A report of the thread's run.
struct Seen {
    progress: Arc<Mutex<Progress>>,
    nudge: Box<dyn Fn() + Send>,
    journal: Option<StoredJournal>,
}

// However the thread ends, the session learns that the run is over.
impl Drop for Seen {
    fn drop(&mut self) {
        let mut progress = self.lock();
        if std::thread::panicking() {
            progress.failure = Some(Failure::internal("the run's thread ended by a mistake in reedclaw"));
        }
        progress.is_over = true;
        drop(progress);
        (self.nudge)();
    }
}
impl Seen {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    fn add_news(&self, line: String) {
        let mut progress = self.lock();
        if progress.news.len() < NEWS_MAX {
            progress.news.push(line);
        }
    }
}

impl RunWatcher for Seen {
    fn stored(&mut self, _: &Runtime, journal: &StoredJournal, problems: Vec<Failure>) {
        problems.into_iter().for_each(|problem| self.add_news(problem.message));
        self.journal = Some(journal.clone());
        self.lock().run = Some(journal.run());
        (self.nudge)();
    }

    fn news(&mut self, line: String) {
        self.add_news(line);
    }
}

impl Watcher for Seen {
    fn begins(&mut self, run: &Run, effect: &Effect) {
        let line = effect_line(run, effect);
        if let Some(line) = line.clone().filter(|line| *line != self.lock().doing) {
            self.add_news(line);
        }
        let used = self.journal.as_ref().and_then(|journal| journal.used().ok()).unwrap_or_default();
        let mut progress = self.lock();
        let done = run.tasks.iter().filter(|task| task.state != TaskState::Open).count();
        progress.at = ((done + 1).min(run.tasks.len()), run.tasks.len());
        (progress.usd, progress.active_ms) = (used.usd, run.active_ms_at(used.now));
        progress.since = Some(Instant::now());
        progress.call.clear();
        if let Some(line) = line {
            progress.doing = line;
        }
        drop(progress);
        (self.nudge)();
    }

    fn event(&mut self, event: proto::Event) {
        match event {
            proto::Event::Notice(text) => self.add_news(text),
            proto::Event::Tool(tool) => match &tool.step {
                Step::Requested { intent, .. } => self.lock().call.clone_from(intent),
                Step::Denied { why } if why == goal::WAITS => return,
                Step::Denied { why } => self.add_news(format!("denied: {why}")),
                Step::Approved | Step::Done { .. } => return,
            },
            proto::Event::Failed { failure, .. } => self.add_news(failure.message),
            proto::Event::Usage(spent) => {
                let cost = spent.cost.map_or(0.0, |cost| cost.usd());
                self.lock().usd += cost;
            }
            _ => return,
        }
        (self.nudge)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_thread_panics_is_over_and_says_so() {
        let progress: Arc<Mutex<Progress>> = Arc::default();
        let seen = Seen { progress: Arc::clone(&progress), nudge: Box::new(|| ()), journal: None };
        let thread = std::thread::spawn(move || {
            let _seen = seen;
            std::panic::resume_unwind(Box::new("a mistake"));
        });
        assert!(thread.join().is_err());
        let progress = lock(&progress);
        assert!(progress.is_over && progress.failure.is_some(), "{progress:?}");
    }
}
