//! Runs of procedures that a trigger began: nobody sees them work, and what needs a person waits.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Procedure, SopJournal, procedures};
use crate::agent::Cancel;
use crate::agent::procedure::{Journal, STOPPED, Watcher, Work, work};
use crate::app::{ChannelKind, Request, Runtime, closed, hold_workspace};
use crate::config::Env;
use crate::proto::{self, Failure};
use crate::sop::{Effect, Event, Run, Trigger};

/// Interval of the looks whether the workspace is free.
const FREE_EVERY: Duration = Duration::from_millis(500);

/// Finds the trusted procedure that a webhook of this name begins, and the secret of its signature.
#[must_use]
pub fn hooked_procedure(env: &Env, workspace: &Path, name: &str) -> Option<(Procedure, String)> {
    let procedure = procedures(env, workspace).into_iter().find(|it| it.name == name)?;
    let secret = procedure.usable().ok()?.triggers.iter().find_map(|trigger| match trigger {
        Trigger::Webhook { secret_env } => env.get(OsStr::new(secret_env))?.to_str().map(str::to_owned),
        _ => None,
    })?;
    (!secret.is_empty()).then_some((procedure, secret))
}

/// Whether a run was cut off, or rests only because its process ended.
#[must_use]
pub fn may_take_up(run: &Run) -> bool {
    run.is_active() || run.end.is_none() && run.paused.as_deref() == Some(STOPPED)
}

/// Works on a run until it ends or needs a person, in a runtime of its own; waits for its workspace. `stops` ends it after the
/// step at hand, `cancel` at once. `None` if it was stopped before it could begin.
///
/// # Errors
/// The config can't be read, tools are switched off, or the run can't go on.
pub fn work_procedure(
    request: Request,
    journal: &SopJournal,
    cancel: &Cancel,
    stops: &AtomicBool,
) -> Result<Option<Run>, Failure> {
    let request = Request { channel: ChannelKind::Agent, cwd: Some(journal.workspace.clone()), ..request };
    let mut runtime = Runtime::start(&request)?;
    if let Some(failure) = closed(runtime.settings(), ChannelKind::Agent) {
        return Err(failure);
    }
    let held = loop {
        if stops.load(Ordering::SeqCst) || cancel.is_cancelled() {
            return Ok(None);
        }
        match hold_workspace(runtime.env(), &journal.workspace) {
            Ok(held) => break held,
            Err(_) => std::thread::park_timeout(FREE_EVERY),
        }
    };
    // Another process may have continued it meanwhile.
    let run = journal.state()?;
    if !may_take_up(&run) {
        return Ok(Some(run));
    }
    if run.paused.is_some() {
        journal.add(&Event::Resumed)?;
    }
    let built = runtime.runner_in(&journal.workspace, Some(ChannelKind::Agent))?;
    runtime.agent_mut().replace_tools(Some(built.runner));
    let parts = Work { journal, watcher: &mut Unseen, cancel, stops };
    let run = work(runtime.agent_mut(), parts);
    drop(held);
    run.map(Some)
}

/// Nobody looks.
struct Unseen;

impl Watcher for Unseen {
    fn begins(&mut self, _: &Run, _: &Effect) {}

    fn added(&mut self, run: &Run, event: &Event) {
        if let Event::Finished { end, .. } = event {
            tracing::info!(event = "sop_ended", run = run.id, end = end.as_str());
        }
    }

    fn event(&mut self, _: proto::Event) {}
}
