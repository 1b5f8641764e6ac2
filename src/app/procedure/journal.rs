//! Runs of procedures: their journals in the store, and the lines that tell about them. It must not know how lines are shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Procedure;
use crate::agent::procedure::Journal;
use crate::base::hash::sha256_hex;
use crate::base::time::{utc, utc_ms};
use crate::config::{Env, Settings};
use crate::host::now_unix_ms;
use crate::proto::{Failure, FailureKind};
use crate::receipts;
use crate::sop::{self, Effect, Event, Fate, Fired, Run, Spent, StepRun, StepState};
use crate::store::{NewRun, Period, RunRow, Store};

/// Runs that are looked at for one that waits.
const WAITING_MAX: usize = 20;
/// The kind of these runs in the store.
const KIND: &str = "sop";

/// The journal of one run of a procedure.
#[derive(Clone)]
pub struct SopJournal {
    store: Arc<Mutex<Store>>,
    receipts: Option<receipts::Options>,
    run: i64,
    /// The name of the procedure.
    pub name: String,
    /// The directory that it works in.
    pub workspace: PathBuf,
}

/// Begins a run of a trusted procedure; `None` if the trigger's moment has begun one before.
///
/// # Errors
/// The procedure may not run, an input is wrong, or the store can't keep the run: one that a crash would lose doesn't begin.
pub fn begin_procedure(
    (settings, env): (&Settings, &Env),
    store: &Arc<Mutex<Store>>,
    procedure: &Procedure,
    workspace: &Path,
    (inputs, trigger, slot): (&BTreeMap<String, String>, Fired, Option<&str>),
) -> Result<Option<SopJournal>, Failure> {
    let definition = procedure.usable()?;
    let usage = |message: String| Failure {
        kind: FailureKind::User,
        message,
        hint: "reedclaw sop show NAME lists the inputs".into(),
    };
    let inputs = definition.inputs(inputs).map_err(usage)?;
    let event = Event::Began {
        text: procedure.text.clone(),
        sha256: sha256_hex(procedure.manifest().as_bytes()),
        place: procedure.place.display().to_string(),
        inputs,
        trigger,
    };
    let (body, place) = (body_of(&event)?, procedure.place.display().to_string());
    let path = workspace.display().to_string();
    let run = {
        let mut store = lock(store);
        if !store.is_durable() {
            return Err(Failure {
                kind: FailureKind::Unavailable,
                message: "a run needs a store on the disk, and there is none".into(),
                hint: "reedclaw doctor says why".into(),
            });
        }
        let slot = slot.map(|slot| (place.as_str(), slot));
        let new = NewRun { kind: KIND, name: &procedure.name, workspace: &path, body: &body, slot };
        store.begin_run(now_unix_ms(), &new)?
    };
    let receipts = crate::app::receipt_options(settings, env)?;
    let (name, workspace) = (procedure.name.clone(), workspace.to_owned());
    Ok(run.map(|run| SopJournal { store: Arc::clone(store), receipts, run, name, workspace }))
}

impl SopJournal {
    fn of(settings: &Settings, env: &Env, store: &Arc<Mutex<Store>>, row: RunRow) -> Result<Self, Failure> {
        let receipts = crate::app::receipt_options(settings, env)?;
        let workspace = PathBuf::from(row.workspace);
        Ok(Self { store: Arc::clone(store), receipts, run: row.id, name: row.name, workspace })
    }

    /// The state of the run: the fold of its events.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn state(&self) -> Result<Run, Failure> {
        let events = self.events(0)?;
        Ok(Run::of(self.run, events.iter().map(|(_, time, event)| (*time, event))))
    }
}

impl Journal for SopJournal {
    fn add(&self, event: &Event) -> Result<(), Failure> {
        Ok(lock(&self.store).add_run_event(self.run, now_unix_ms(), &body_of(event)?)?)
    }

    fn events(&self, after: i64) -> Result<Vec<(i64, i64, Event)>, Failure> {
        let stored = lock(&self.store).run_events(self.run, after)?;
        let event = |it: crate::store::StoredEvent| {
            let event = serde_json::from_str(&it.body).map_err(|error| Failure {
                kind: FailureKind::Unavailable,
                message: format!("event {} of run {} can't be read: {error}", it.seq, self.run),
                hint: "a newer version of reedclaw may have written it".into(),
            })?;
            Ok((it.seq, it.time, event))
        };
        stored.into_iter().map(event).collect()
    }

    fn spent(&self) -> Result<Spent, Failure> {
        let spent = lock(&self.store).spent(Period::Run(self.run))?;
        Ok(Spent { usd: spent.cost.usd(), tokens: spent.total_in() + spent.total_out(), now: now_unix_ms() })
    }

    fn fate(&self, step: &StepRun, conversation: Option<i64>) -> Result<Fate, Failure> {
        let conversation = conversation.and_then(|id| u64::try_from(id).ok());
        let (Some(options), Some(conversation)) = (&self.receipts, conversation) else { return Ok(Fate::Unknown) };
        let records = receipts::of_conversation(options, conversation).map_err(|error| Failure {
            kind: FailureKind::Unavailable,
            message: format!("the receipts can't be read, so that nobody knows what ran: {error}"),
            hint: "reedclaw doctor says why".into(),
        })?;
        Ok(fate_of(&records, step))
    }

    fn run(&self) -> i64 {
        self.run
    }
}

/// Returns the fate of a step that was cut off, from the receipts of the run's conversation.
fn fate_of(records: &[receipts::Record<'_>], step: &StepRun) -> Fate {
    let (risk, tool, hash) = &step.call;
    let is_call = |it: &receipts::Record<'_>| {
        it.kind == receipts::Kind::Intent
            && it.tool.as_deref() == Some(tool.as_str())
            && it.args_hash.as_deref() == Some(hash.as_str())
    };
    let Some(at) = records.iter().rposition(is_call) else { return Fate::NotBegun };
    if records[at].timestamp.as_ref() < utc_ms(step.begun_ms).as_str() {
        // An earlier attempt's, unless the clock was set back meanwhile.
        return if step.attempts > 1 { Fate::NotBegun } else { Fate::Unknown };
    }
    // The step was the run's last, so all that follows is its own: the changes of a command on its copy are a second call.
    let intents: Vec<_> = records[at..].iter().filter(|it| it.kind == receipts::Kind::Intent).collect();
    let outcome = |intent: &receipts::Record<'_>| {
        records.iter().find(|it| it.intent.as_deref() == Some(&*intent.id)).map(|it| it.status)
    };
    match intents.last().and_then(|last| outcome(last)) {
        // It isn't known whether there were changes to be applied.
        Some(Some(receipts::Status::Allowed)) if tool == "shell" && risk != "low" && intents.len() == 1 => {
            Fate::Unknown
        }
        Some(Some(receipts::Status::Allowed)) => Fate::Succeeded,
        Some(_) => Fate::Failed,
        None => Fate::Unknown,
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

fn body_of(event: &Event) -> Result<String, Failure> {
    serde_json::to_string(event).map_err(|error| Failure {
        kind: FailureKind::Internal,
        message: format!("an event of a run can't be written: {error}"),
        hint: String::new(),
    })
}

/// Returns a stored run of a procedure, or the newest one.
///
/// # Errors
/// There is none, or the store can't be read.
pub fn find_sop_run(
    settings: &Settings,
    env: &Env,
    store: &Arc<Mutex<Store>>,
    id: Option<i64>,
) -> Result<SopJournal, Failure> {
    let found = match id {
        Some(id) => lock(store).run(KIND, id)?,
        None => lock(store).runs(KIND, 1)?.pop(),
    };
    let Some(row) = found else {
        let message = match id {
            Some(id) => format!("there is no run {id} of a procedure"),
            None => "no procedure has run yet".to_owned(),
        };
        return Err(Failure { kind: FailureKind::User, message, hint: "reedclaw sop status lists the runs".into() });
    };
    SopJournal::of(settings, env, store, row)
}

/// Returns the newest runs of procedures, the newest first.
///
/// # Errors
/// The store can't be read.
pub fn sop_runs(
    settings: &Settings,
    env: &Env,
    store: &Arc<Mutex<Store>>,
    limit: usize,
) -> Result<Vec<SopJournal>, Failure> {
    let rows = lock(store).runs(KIND, limit)?;
    rows.into_iter().map(|row| SopJournal::of(settings, env, store, row)).collect()
}

/// Names the runs of a workspace that wait for their person, a line each.
#[must_use]
pub fn waiting_sops(settings: &Settings, env: &Env, store: &Arc<Mutex<Store>>, workspace: &Path) -> Vec<String> {
    let runs = sop_runs(settings, env, store, WAITING_MAX).unwrap_or_default();
    let line = |journal: SopJournal| {
        let run = journal.state().ok()?;
        let (id, name) = (run.id, &journal.name);
        match run.word() {
            "waiting" => {
                let prompt = run.asked.as_ref().map_or("", |(_, prompt, _)| prompt.as_str());
                Some(format!("[sop] run {id} of {name} waits: {prompt}; :sop approve {id}"))
            }
            "unknown" => Some(format!("[sop] a step of run {id} of {name} may have run; :sop status {id}")),
            _ => None,
        }
    };
    runs.into_iter().filter(|journal| journal.workspace == workspace).filter_map(line).collect()
}

/// When a trigger of a procedure last began a run, Unix milliseconds; `prefix` begins the trigger's moments.
#[must_use]
pub fn last_fire(store: &Arc<Mutex<Store>>, procedure: &Procedure, prefix: &str) -> Option<i64> {
    lock(store).last_fire(&procedure.place.display().to_string(), prefix).ok().flatten()
}

/// The row of a run in a list: number, procedure, state, steps, begin, trigger.
#[must_use]
pub fn sop_row(journal: &SopJournal, run: &Run) -> Vec<String> {
    let done = run.steps.iter().filter(|step| matches!(step.state, StepState::Done | StepState::Skipped)).count();
    vec![
        run.id.to_string(),
        journal.name.clone(),
        run.word().to_owned(),
        format!("{done}/{}", run.steps.len()),
        utc(run.began),
        run.trigger.kind.clone(),
    ]
}

/// The report of a run: its end, its steps, and what it waits for.
#[must_use]
pub fn sop_lines(journal: &SopJournal, run: &Run) -> Vec<String> {
    let why = run.end.as_ref().map(|end| end.why().to_owned()).or_else(|| run.paused.clone()).unwrap_or_default();
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let mut lines = vec![format!("Run {} of {}: {}{why}", run.id, journal.name, run.word())];
    let steps = run.definition().map(|it| it.steps.as_slice()).unwrap_or_default();
    for (step, state) in steps.iter().zip(&run.steps) {
        let word = match state.state {
            StepState::Ready => "open",
            StepState::Begun => "begun",
            StepState::Cut => "cut off",
            StepState::Unknown => "may have run",
            StepState::Done => "done",
            StepState::Failed => "failed",
            StepState::Skipped => "left out",
            StepState::Stopped => "ends the run",
        };
        let error = if state.error.is_empty() { String::new() } else { format!(": {}", state.error) };
        lines.push(format!("  {} ({}): {word}{error}", step.id, step.act.word()));
    }
    if let Some((_, prompt, covers)) = &run.asked {
        lines.push(format!("It waits: {prompt}"));
        for call in covers {
            lines.push(format!("  {} ({} risk)", call.intent, call.risk));
            lines.extend(call.reasons.iter().map(|reason| format!("    {reason}")));
            lines.extend(call.preview.lines().map(|line| format!("    | {line}")));
        }
        let id = run.id;
        lines.push(format!(
            "reedclaw sop approve {id} lets it go on with exactly this; reedclaw sop reject {id} refuses it"
        ));
    }
    if let Effect::Rest(sop::Rest::Unknown(at)) = run.next(&Spent::default()) {
        let (id, step) = (run.id, steps.get(at).map_or("", |step| step.id.as_str()));
        lines.push(format!("Step {step} may have run before its process was ended. Look, then say what became of it:"));
        lines.push(format!("reedclaw sop resume {id} --step done, --step again or --step skip"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipts::{Entry, Log, Options, Outcome};

    #[test]
    fn the_receipts_tell_what_became_of_a_call() {
        let entry = |args: &str| {
            let entry = Entry::new("shell", receipts::hash(args.as_bytes()), "medium");
            Entry { conversation_id: Some(3), ..entry }
        };
        let step = |risk: &str, attempts: u32, begun_ms: i64| StepRun {
            call: (risk.into(), "shell".into(), receipts::hash(b"call")),
            attempts,
            begun_ms,
            ..StepRun::default()
        };
        let done = |log: &Log, args: &str, outcome: Option<Outcome>| {
            let opened = log.intent(&entry(args)).expect("an intent");
            if let Some(outcome) = outcome {
                log.settle(opened, &outcome).expect("an outcome");
            } else {
                std::mem::forget(opened);
            }
        };
        let good = || Some(Outcome::done(receipts::hash(b"out")));
        let bad = || Some(Outcome { failed: true, ..Outcome::done(receipts::hash(b"out")) });
        let later = now_unix_ms() + 60_000;
        for (calls, step, fate) in [
            (vec![], step("medium", 1, 0), Fate::NotBegun),
            (vec![("other", good())], step("medium", 1, 0), Fate::NotBegun),
            (vec![("call", None)], step("medium", 1, 0), Fate::Unknown),
            (vec![("call", good())], step("medium", 1, 0), Fate::Unknown),
            (vec![("call", good())], step("low", 1, 0), Fate::Succeeded),
            (vec![("call", good()), ("keep", good())], step("medium", 1, 0), Fate::Succeeded),
            (vec![("call", good()), ("keep", bad())], step("medium", 1, 0), Fate::Failed),
            (vec![("call", good()), ("keep", None)], step("medium", 1, 0), Fate::Unknown),
            (vec![("call", bad())], step("medium", 1, 0), Fate::Failed),
            (vec![("call", good()), ("keep", good())], step("medium", 2, later), Fate::NotBegun),
            (vec![("call", good()), ("keep", good())], step("medium", 1, later), Fate::Unknown),
        ] {
            let top = tempfile::tempdir().expect("a directory");
            let options = Options::new(top.path().join("receipts.jsonl"), top.path().into());
            let log = Log::open(options.clone()).expect("a log");
            let names: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
            calls.into_iter().for_each(|(args, outcome)| done(&log, args, outcome));
            let records = receipts::of_conversation(&options, 3).expect("read");
            assert_eq!(fate_of(&records, &step), fate, "{names:?} {step:?}");
        }
    }
}
