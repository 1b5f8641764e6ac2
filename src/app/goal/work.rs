//! The work on a run towards a goal: its workspace is held, the run is stored or continued, and its end reported. It
//! must not know who watches.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Marked, RunSteps, StoredJournal, find_run, hold_workspace, names_run, notify_of_run, run_report};
use crate::agent::goal::{self, Journal, OnHalt, Turns, Watcher, Work};
use crate::agent::{Agent, Cancel};
use crate::app::{Request, RunOnGit, Runtime, closed};
use crate::config::Env;
use crate::norris::{Event, Goal, Run};
use crate::proto::Failure;

/// The run to work on.
pub enum Wanted {
    /// A new one.
    New(Box<Goal>),
    /// A stored one.
    Stored(i64),
}

/// A watcher that sees a run from its beginning.
pub trait RunWatcher: Watcher {
    /// Notes that the run is stored and about to work; `problems` are those of tools that it lacks.
    fn stored(&mut self, runtime: &Runtime, journal: &StoredJournal, problems: Vec<Failure>);

    /// Something beside the run went wrong.
    fn news(&mut self, line: String);

    /// Waits for the answer to the call that halted a run; false if the run is to rest.
    ///
    /// # Errors
    /// The journal can't be read.
    fn is_answered(&mut self, _run: &Run, _journal: &StoredJournal) -> Result<bool, Failure> {
        Ok(false)
    }
}

/// Returns the request that continues a stored run: in the run's own directory, whose project file counts.
///
/// # Errors
/// The store can't be read.
pub fn request_of_run(request: Request, journal: &StoredJournal) -> Result<Request, Failure> {
    let goal = journal.state()?.goal.unwrap_or_default();
    Ok(Request { cwd: Some(PathBuf::from(goal.workspace)), store: Some(Arc::clone(&journal.store)), ..request })
}

/// Sends the report of an ended run to its session and to `norris.notify`, if a kill prevented that. Returns what went wrong.
///
/// # Errors
/// Another run works in its workspace, or its session can't be opened.
pub fn report_ended_run(runtime: &mut Runtime, journal: &StoredJournal) -> Result<Vec<String>, Failure> {
    let run = journal.state()?;
    if run.end.is_none() || run.is_reported {
        return Ok(Vec::new());
    }
    let mut goal = run.goal.unwrap_or_default();
    let workspace = PathBuf::from(&goal.workspace);
    let held = hold_workspace(&runtime.env, &workspace)?;
    names_run(&held, journal.run())?;
    runtime.begin_run_session(&workspace, &mut goal)?;
    let mut session = runtime.take_run_session();
    Ok(reported(session.as_mut(), runtime, journal))
}

/// Reports a run that has ended or rests to its session and to `norris.notify`; returns what went wrong.
fn reported(session: Option<&mut RunOnGit>, runtime: &Runtime, journal: &StoredJournal) -> Vec<String> {
    let lacks = |failure: Failure| format!("the session lacks the report of the run: {}", failure.message);
    let unreported = report_to_session(session, &runtime.agent, journal, &runtime.env).err().map(lacks);
    let notified = notify_of_run(&runtime.settings, &runtime.env, journal);
    let news: Vec<String> = unreported.into_iter().chain(notified).collect();
    if news.is_empty() && journal.state().is_ok_and(|run| run.end.is_some()) {
        // Without this event the report is only sent once more.
        let _ = journal.add(&Event::Reported);
    }
    news
}

/// A run that is about to work, and the hold on its workspace.
pub struct ReadyRun {
    runtime: Runtime,
    journal: StoredJournal,
    problems: Vec<Failure>,
    _held: Marked,
}

/// Holds the workspace of a run, and stores a new run or continues a stored one.
///
/// # Errors
/// It can't begin: no model, no tools, no such run, or another run works in the workspace. Or it has ended.
pub fn ready_run(mut runtime: Runtime, wanted: Wanted) -> Result<ReadyRun, Failure> {
    if let Some(failure) = closed(&runtime.settings, runtime.channel) {
        return Err(failure);
    }
    let (stored, mut goal) = match wanted {
        Wanted::New(goal) => (None, *goal),
        Wanted::Stored(id) => {
            let journal = find_run(&runtime.store, Some(id))?;
            let goal = journal.state()?.goal.unwrap_or_default();
            (Some(journal), goal)
        }
    };
    let workspace = PathBuf::from(&goal.workspace);
    let held = hold_workspace(&runtime.env, &workspace)?;
    let mut is_paused = false;
    if let Some(journal) = &stored {
        names_run(&held, journal.run())?;
        runtime.stand_in(workspace.clone());
        // Another process may have worked on it until the hold.
        let run = journal.state()?;
        if run.end.is_some() {
            return Err(ended(journal, &run));
        }
        is_paused = run.paused.is_some();
    }
    runtime.begin_run_session(&workspace, &mut goal)?;
    let problems = runtime.take_tools(&workspace);
    goal::ready(&mut runtime.agent, &goal)?;
    let journal = match stored {
        Some(journal) => journal,
        None => {
            let journal = StoredJournal::begin(Arc::clone(&runtime.store), goal)?;
            names_run(&held, journal.run())?;
            journal
        }
    };
    if is_paused {
        journal.add(&Event::Resumed)?;
    }
    Ok(ReadyRun { runtime, journal, problems, _held: held })
}

fn ended(journal: &StoredJournal, run: &Run) -> Failure {
    Failure::user(format!("run {} has ended: {}", journal.run(), run.word()))
        .hint("reedclaw norris show prints its report")
}

impl ReadyRun {
    /// Its journal.
    #[must_use]
    pub fn journal(&self) -> &StoredJournal {
        &self.journal
    }

    /// The runtime in which it works.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Works until the run ends or rests; returns its state.
    ///
    /// # Errors
    /// It can't go on: it rests then, and its journal says why.
    pub fn work(&mut self, watcher: &mut dyn RunWatcher, on_halt: OnHalt, cancel: &Cancel) -> Result<Run, Failure> {
        let Self { runtime, journal, problems, .. } = self;
        watcher.stored(runtime, journal, std::mem::take(problems));
        let mut session = runtime.take_run_session();
        let done = loop {
            let turns = session.as_mut().map(|session| session as &mut dyn Turns);
            let work = Work { journal, watcher: &mut *watcher, on_halt, cancel, turns };
            match goal::work(&mut runtime.agent, work) {
                Ok(run) if run.is_waiting() => match watcher.is_answered(&run, journal) {
                    Ok(true) => {}
                    rests => break rests.map(|_| run),
                },
                done => break done,
            }
        };
        if let Err(failure) = &done {
            // The run rests with this reason; its work so far isn't lost.
            let _ = journal.add(&Event::Paused { why: failure.message.clone() });
        }
        // A failed report must not hide why the run rests.
        reported(session.as_mut(), runtime, journal).into_iter().for_each(|problem| watcher.news(problem));
        done
    }
}

/// Works on a run, in a runtime of its own, until it ends or rests; returns its journal.
///
/// # Errors
/// It can't begin: no model, no tools, no such run, or another run works in the workspace. Or it can't go on; then it rests.
pub fn work_on_run(
    request: &Request,
    wanted: Wanted,
    watcher: &mut dyn RunWatcher,
    cancel: &Cancel,
) -> Result<StoredJournal, Failure> {
    let mut runtime = match (&wanted, &request.store) {
        (Wanted::Stored(id), Some(store)) => {
            Runtime::start(&request_of_run(request.clone(), &find_run(store, Some(*id))?)?)?
        }
        _ => Runtime::start(request)?,
    };
    if let Wanted::New(goal) = &wanted {
        runtime.stand_in(PathBuf::from(&goal.workspace));
    }
    let mut ready = ready_run(runtime, wanted)?;
    ready.work(watcher, OnHalt::Halt, cancel)?;
    Ok(ready.journal)
}

/// Adds the report of a run that has ended to the session that it worked on.
fn report_to_session(
    session: Option<&mut RunOnGit>,
    agent: &Agent,
    journal: &StoredJournal,
    env: &Env,
) -> Result<(), Failure> {
    let Some(session) = session else { return Ok(()) };
    let run = journal.state()?;
    if run.end.is_none() {
        return Ok(());
    }
    session.report(agent, journal.run(), run.word(), &run_report(journal, &RunSteps::default(), env)?)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::super::journal::{KIND, body_of};
    use super::*;
    use crate::store::{NewRun, Store};

    /// The project file of the directory in which the command was typed counted.
    #[test]
    fn a_stored_run_starts_in_its_own_directory() {
        let mut store = Store::in_memory().expect("a store");
        let goal = Goal { workspace: "/its/own".into(), ..Goal::default() };
        let body = body_of(&Event::Began { goal }).expect("JSON");
        let new = NewRun { kind: KIND, name: "", workspace: "/its/own", body: &body, slot: None };
        let run = store.begin_run(1, &new).expect("it is stored").expect("its number");
        let journal = StoredJournal::of(Arc::new(Mutex::new(store)), run);
        let typed = Request { cwd: Some("/elsewhere".into()), ..Request::default() };
        let request = request_of_run(typed, &journal).expect("it can be read");
        assert_eq!(request.cwd, Some("/its/own".into()));
    }
}
