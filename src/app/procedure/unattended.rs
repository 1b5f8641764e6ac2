//! Runs of procedures that a trigger began: they are unattended, and what needs a person waits.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Procedure, SopJournal, SopPlaces, procedures};
use crate::agent::Cancel;
use crate::agent::procedure::{Journal, STOPPED, Watcher, Work, work};
use crate::app::{ChannelKind, Request, Runtime, Unheld, closed, hold_workspace};
use crate::config::{Env, KeySource, ModelSettings, Settings};
use crate::proto::{self, Failure};
use crate::sop::{Act, Effect, Event, Run, Trigger};

/// Interval between checks whether the workspace is free.
const FREE_EVERY: Duration = Duration::from_millis(500);

/// Finds the trusted procedure that a webhook of this name begins, and the secret of its signature.
#[must_use]
pub fn hooked_procedure(places: SopPlaces<'_>, workspace: &Path, name: &str) -> Option<(Procedure, String)> {
    let env = places.1;
    let procedure = procedures(places, workspace).into_iter().find(|it| it.name == name)?;
    let secret = procedure.usable().ok()?.triggers.iter().find_map(|trigger| match trigger {
        Trigger::Webhook { secret_env } => env.get(OsStr::new(secret_env))?.to_str().map(str::to_owned),
        _ => None,
    })?;
    (!secret.is_empty()).then_some((procedure, secret))
}

/// The models whose key is in a variable of the environment, each with it.
#[must_use]
pub fn models_with_variable(settings: &Settings) -> Vec<(String, String)> {
    let variable = |(name, model): (&String, &ModelSettings)| match &model.key {
        Some(KeySource::Variable(variable)) => Some((name.clone(), variable.clone())),
        _ => None,
    };
    settings.models.iter().filter_map(variable).collect()
}

/// The models that trusted procedures use and whose key's variable isn't set here, each with the variable.
#[must_use]
pub fn models_without_key(settings: &Settings, env: &Env, procedures: &[Procedure]) -> Vec<(String, String)> {
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for definition in procedures.iter().filter_map(|it| it.usable().ok()) {
        let steps = definition.steps.iter().filter_map(|step| match &step.act {
            Act::Model { model, .. } => Some(model.as_str()),
            Act::Goal { .. } => Some(""),
            _ => None,
        });
        let first = settings.default_model.as_deref().unwrap_or_default();
        let names = steps.map(|own| [own, &definition.model, first]);
        used.extend(names.filter_map(|names| names.into_iter().find(|name| !name.is_empty())));
    }
    // A model may call other models.
    let asked =
        |name: &&str| settings.models.iter().find(|(own, it)| own == name || it.aliases.iter().any(|it| it == name));
    let asked: Vec<_> = used.iter().filter_map(asked).collect();
    let names: BTreeSet<&String> =
        asked.iter().flat_map(|(name, model)| std::iter::once(*name).chain(&model.of)).collect();
    let is_set = |variable: &String| env.get(OsStr::new(variable)).is_some_and(|value| !value.is_empty());
    let mut found = models_with_variable(settings);
    found.retain(|(name, variable)| names.contains(name) && !is_set(variable));
    found
}

/// Returns whether a run was cut off, or rests only because its process ended.
#[must_use]
pub fn may_take_up(run: &Run) -> bool {
    run.is_active() || run.end.is_none() && run.paused.as_deref() == Some(STOPPED)
}

/// Works on a run until it ends or needs a person, in a runtime of its own; waits for its workspace. `stops` ends it after the
/// step at hand, `cancel` at once. `None` if it was stopped before it could begin.
///
/// # Errors
/// The config can't be read, tools are switched off, the hold on the workspace can't be written, or the run can't go on.
pub fn work_procedure(
    request: Request,
    journal: &SopJournal,
    cancel: &Cancel,
    stops: &AtomicBool,
) -> Result<Option<Run>, Failure> {
    let request = Request { channel: ChannelKind::Service, cwd: Some(journal.workspace.clone()), ..request };
    let mut runtime = Runtime::start(&request)?;
    if let Some(failure) = closed(runtime.settings(), ChannelKind::Service) {
        return Err(failure);
    }
    let held = loop {
        if stops.load(Ordering::SeqCst) || cancel.is_cancelled() {
            return Ok(None);
        }
        match hold_workspace(runtime.env(), &journal.workspace) {
            Ok(held) => break held,
            Err(Unheld::Busy(_)) => std::thread::park_timeout(FREE_EVERY),
            // The run would wait forever, and delay other runs.
            Err(Unheld::Failed(failure)) => return Err(failure),
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
    let built = runtime.runner_in(&journal.workspace, Some(ChannelKind::Service))?;
    runtime.agent_mut().replace_tools(Some(built.runner));
    let parts = Work { journal, watcher: &mut Unseen, cancel, stops };
    let run = work(runtime.agent_mut(), parts);
    drop(held);
    run.map(Some)
}

/// A watcher that ignores all events.
struct Unseen;

impl Watcher for Unseen {
    fn begins(&mut self, _: &Run, _: &Effect) {}

    fn added(&mut self, _: &Run, _: &Event) {}

    fn event(&mut self, _: proto::Event) {}
}
