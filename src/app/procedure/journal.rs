//! Runs of procedures: their journals in the store, and the lines that describe them. It must not know how lines are shown.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Procedure;
use crate::agent::goal::Journal as _;
use crate::agent::procedure::{InnerRun, Journal, Order};
use crate::app::goal::{body_of, stored_events};
use crate::app::{StoredJournal, find_run, goal_of};
use crate::base::hash::sha256_hex;
use crate::base::time::{utc, utc_ms};
use crate::config::{Env, Settings};
use crate::host::now_unix_ms;
use crate::norris;
use crate::proto::{Failure, FailureKind};
use crate::receipts;
use crate::sop::{
    self, Budget, DEPTH_MAX, Definition, EarlierResult, Effect, Event, Fate, Fired, Inner, Run, Spent, StepRun,
    StepState,
};
use crate::store::{NewRun, Period, RunRow, Store};

/// Limit on the runs that are searched for one that waits.
const WAITING_MAX: usize = 20;
/// The kind of these runs in the store.
const KIND: &str = "sop";

/// The journal of one run of a procedure.
#[derive(Clone)]
pub struct SopJournal {
    store: Arc<Mutex<Store>>,
    parts: Arc<Parts>,
    run: i64,
    /// The name of the procedure.
    pub name: String,
    /// The directory that it works in.
    pub workspace: PathBuf,
}

/// The parts of the config that a run needs.
struct Parts {
    receipts: Option<receipts::Options>,
    env: Env,
    /// Further directories of procedures.
    dirs: Vec<String>,
    /// Limit on what a run may use.
    most: Budget,
    /// Number of finished runs to store for each procedure.
    keep_runs: usize,
    /// Template of a step's goal, without the goal's text.
    goal: Result<norris::Goal, Failure>,
}

impl Parts {
    fn of((settings, env): (&Settings, &Env), workspace: &Path) -> Result<Arc<Self>, Failure> {
        let receipts = crate::app::receipt_options(settings, env)?;
        let goal = goal_of(settings, "-", workspace);
        let crate::config::SopSettings { dirs, usd, tokens, minutes, keep_runs } = settings.sop.clone();
        let most = Budget { usd, tokens, minutes };
        Ok(Arc::new(Self { receipts, env: env.clone(), dirs, most, keep_runs, goal }))
    }
}

/// The beginning of a run.
pub struct SopStart<'a> {
    /// The values of the inputs that aren't left to their defaults.
    pub inputs: &'a BTreeMap<String, String>,
    /// The trigger.
    pub trigger: Fired,
    /// The trigger's moment, which begins one run.
    pub slot: Option<&'a str>,
    /// Results of an earlier run.
    pub taken: Vec<EarlierResult>,
}

impl<'a> SopStart<'a> {
    /// Returns a beginning by a kind of trigger, with inputs and nothing else.
    #[must_use]
    pub fn by(kind: &str, inputs: &'a BTreeMap<String, String>) -> Self {
        Self { inputs, trigger: Fired::by(kind), slot: None, taken: Vec::new() }
    }
}

/// Begins a run of a trusted procedure; `None` if the trigger's moment has begun one before.
///
/// # Errors
/// The procedure may not run, an input is wrong, or the store can't save the run: one that a crash would lose doesn't begin.
pub fn begin_procedure(
    config: (&Settings, &Env),
    store: &Arc<Mutex<Store>>,
    procedure: &Procedure,
    workspace: &Path,
    with: SopStart<'_>,
) -> Result<Option<SopJournal>, Failure> {
    begin(&Parts::of(config, workspace)?, store, procedure, workspace, with)
}

fn begin(
    parts: &Arc<Parts>,
    store: &Arc<Mutex<Store>>,
    procedure: &Procedure,
    workspace: &Path,
    with: SopStart<'_>,
) -> Result<Option<SopJournal>, Failure> {
    let slot = with.slot;
    let event = beginning(procedure, procedure.usable()?, with, Some(parts.most))?;
    let (body, place) = (body_of(&event)?, procedure.place.display().to_string());
    let path = workspace.display().to_string();
    let run = {
        let mut store = lock(store);
        if !store.is_durable() {
            return Err(Failure::unavailable("a run needs a store on the disk, and there is none")
                .hint("reedclaw doctor says why"));
        }
        let slot = slot.map(|slot| (place.as_str(), slot));
        let new = NewRun { kind: KIND, name: &procedure.name, workspace: &path, body: &body, slot };
        let run = store.begin_run(now_unix_ms(), &new)?;
        // Failing to remove old runs is no reason not to run.
        let _ = store.forget_runs(KIND, &procedure.name, parts.keep_runs);
        run
    };
    let (name, workspace) = (procedure.name.clone(), workspace.to_owned());
    Ok(run.map(|run| SopJournal { store: Arc::clone(store), parts: Arc::clone(parts), run, name, workspace }))
}

fn beginning(
    procedure: &Procedure,
    definition: &Definition,
    SopStart { inputs, trigger, taken, .. }: SopStart<'_>,
    most: Option<Budget>,
) -> Result<Event, Failure> {
    let usage = |message: String| Failure::user(message).hint("reedclaw sop show NAME lists the inputs");
    Ok(Event::Began {
        text: procedure.text.clone(),
        sha256: sha256_hex(procedure.manifest().as_bytes()),
        place: procedure.place.display().to_string(),
        inputs: definition.inputs(inputs).map_err(usage)?,
        trigger,
        taken,
        most,
    })
}

/// Returns the run that a procedure would begin, for display; the procedure may not be trusted yet.
///
/// # Errors
/// Its file has problems, or its inputs do.
pub fn imagined_run(procedure: &Procedure, inputs: &BTreeMap<String, String>) -> Result<Run, Failure> {
    let Some(definition) = &procedure.definition else {
        procedure.usable()?;
        return Ok(Run::default());
    };
    let event = beginning(procedure, definition, SopStart::by("manual", inputs), None)?;
    Ok(Run::of(0, [(now_unix_ms(), &event)]))
}

impl SopJournal {
    fn of(settings: &Settings, env: &Env, store: &Arc<Mutex<Store>>, row: RunRow) -> Result<Self, Failure> {
        let workspace = PathBuf::from(row.workspace);
        let parts = Parts::of((settings, env), &workspace)?;
        Ok(Self { store: Arc::clone(store), parts, run: row.id, name: row.name, workspace })
    }

    /// The journal of another run in the same store.
    fn beside(&self, run: i64) -> Result<Self, Failure> {
        let row = lock(&self.store).run(KIND, run)?.ok_or_else(|| none_with(run))?;
        let workspace = PathBuf::from(row.workspace);
        let (store, parts) = (Arc::clone(&self.store), Arc::clone(&self.parts));
        Ok(Self { store, parts, run: row.id, name: row.name, workspace })
    }

    /// Returns the run that waits for a person, this one or one that a step began, with its state.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn waiting(&self) -> Result<(Self, Run), Failure> {
        let journal = self.awaited()?.pop().unwrap_or_else(|| self.clone());
        let run = journal.state()?;
        Ok((journal, run))
    }

    /// The runs of procedures for which this one waits: one of its own step, one of that one's step, and so on.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn awaited(&self) -> Result<Vec<Self>, Failure> {
        let (mut runs, mut run) = (Vec::new(), self.state()?);
        while let Some(Inner { is_goal: false, run: inner }) = run.awaits {
            let journal = self.beside(inner)?;
            run = journal.state()?;
            runs.push(journal);
        }
        Ok(runs)
    }

    /// Returns the outermost run whose steps began this one, and resumes the paused runs up to it; this run if one of them ended.
    ///
    /// # Errors
    /// The store can't be read or written.
    pub fn outermost(&self) -> Result<Self, Failure> {
        let mut journal = self.clone();
        while let Some(parent) = journal.state()?.trigger.parent {
            journal = journal.beside(parent)?;
            let run = journal.state()?;
            if run.end.is_some() {
                return Ok(self.clone());
            }
            if run.paused.is_some() {
                journal.add(&Event::Resumed)?;
            }
        }
        Ok(journal)
    }

    /// Begins the procedure of a step.
    fn begin_inner(&self, name: &str, inputs: &serde_json::Value, left: &Budget) -> Result<Self, Failure> {
        let mut depth = 1;
        let mut parent = self.state()?.trigger.parent;
        while let Some(run) = parent {
            depth += 1;
            parent = self.beside(run)?.state()?.trigger.parent;
        }
        if depth >= DEPTH_MAX {
            return Err(Failure::user(format!("procedures may begin one another {DEPTH_MAX} deep, and no deeper"))
                .hint("look for a circle of steps of the kind sop"));
        }
        let procedure = super::find_procedure((&self.parts.dirs, &self.parts.env), &self.workspace, name)?;
        let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let named = inputs.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value)));
        let inputs = named.collect();
        let mut with = SopStart::by("sop", &inputs);
        with.trigger.parent = Some(self.run);
        let workspace = procedure.workspace(&self.parts.env, &self.workspace)?;
        if workspace != self.workspace {
            let message = format!("the procedure {name} works in {}, not in this workspace", workspace.display());
            let hint = "run it on its own: a step works in its procedure's workspace";
            return Err(Failure::user(message).hint(hint));
        }
        let begun = begin(&self.parts, &self.store, &procedure, &self.workspace, with)?;
        // `None` means that a trigger's moment has begun a run before, which can't happen here.
        let journal = begun.ok_or_else(|| none_with(self.run))?;
        let Budget { usd, tokens, minutes } = procedure.usable()?.budget.within(&self.parts.most).within(left);
        journal.add(&Event::Raised { usd, tokens, minutes })?;
        Ok(journal)
    }

    /// Begins the work towards the goal of a step.
    fn begin_goal(&self, args: &serde_json::Value, left: &Budget) -> Result<norris::Goal, Failure> {
        let mut goal = self.parts.goal.clone()?;
        let texts = |name: &str| -> Vec<String> {
            let items = args[name].as_array().into_iter().flatten();
            items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let text = args["goal"].as_str().unwrap_or_default();
        if text.len() > norris::GOAL_BYTES_MAX {
            let message = format!("a goal has at most {} bytes", norris::GOAL_BYTES_MAX);
            return Err(Failure::user(message));
        }
        text.clone_into(&mut goal.text);
        let replaced = |mine: &mut Vec<String>, own: Vec<String>| {
            if !own.is_empty() {
                *mine = own;
            }
        };
        replaced(&mut goal.checks, texts("checks"));
        replaced(&mut goal.grant.writes, texts("writes"));
        replaced(&mut goal.grant.commands, texts("commands"));
        let least = |name: &str, left: f64| args[name].as_f64().map_or(left, |own| own.min(left));
        goal.limits.usd = Some(least("usd", left.usd));
        goal.limits.minutes = Some(least("minutes", left.minutes));
        goal.limits.tokens = Some(args["tokens"].as_u64().map_or(left.tokens, |own| own.min(left.tokens)));
        Ok(goal)
    }

    fn spent_by(&self, run: &Run) -> Result<(f64, u64), Failure> {
        let spent = lock(&self.store).spent(Period::Run(self.run))?;
        let (mut usd, mut tokens) = (spent.cost.usd(), spent.total_in() + spent.total_out());
        for inner in &run.inner {
            let (more_usd, more_tokens) = if inner.is_goal {
                let spent = lock(&self.store).spent(Period::Run(inner.run))?;
                (spent.cost.usd(), spent.total_in() + spent.total_out())
            } else {
                match self.beside(inner.run) {
                    Ok(journal) => journal.spent_by(&journal.state()?)?,
                    // It ended long ago and isn't stored any more.
                    Err(failure) if failure.kind == FailureKind::User => (0.0, 0),
                    Err(failure) => return Err(failure),
                }
            };
            usd += more_usd;
            tokens += more_tokens;
        }
        Ok((usd, tokens))
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
        stored_events(&self.store, self.run, after)
    }

    fn spent(&self, run: &Run) -> Result<Spent, Failure> {
        let (usd, tokens) = self.spent_by(run)?;
        Ok(Spent { usd, tokens, now: now_unix_ms() })
    }

    fn inner(&self, order: &Order<'_>) -> Result<InnerRun, Failure> {
        let Order { known, args, left } = order;
        if let Some(name) = args["sop"].as_str() {
            let journal = match known {
                Some(run) => self.beside(*run)?,
                None => self.begin_inner(name, &args["inputs"], left)?,
            };
            if journal.state()?.paused.is_some() {
                journal.add(&Event::Resumed)?;
            }
            return Ok(InnerRun::Procedure(Box::new(journal)));
        }
        let journal = match known {
            Some(run) => find_run(&self.store, Some(*run))?,
            None => StoredJournal::begin(Arc::clone(&self.store), self.begin_goal(args, left)?)?,
        };
        let run = journal.state()?;
        if run.paused.is_some() {
            journal.add(&norris::Event::Resumed)?;
        }
        Ok(InnerRun::Goal(Box::new(journal), Box::new(run.goal.unwrap_or_default())))
    }

    fn fate(&self, step: &StepRun, conversation: Option<i64>) -> Result<Fate, Failure> {
        let conversation = conversation.and_then(|id| u64::try_from(id).ok());
        let (Some(options), Some(conversation)) = (&self.parts.receipts, conversation) else {
            return Ok(Fate::Unknown);
        };
        let records = receipts::of_conversation(options, conversation).map_err(|error| {
            Failure::unavailable(format!("the receipts can't be read, so it is unknown what ran: {error}"))
                .hint("reedclaw doctor says why")
        })?;
        Ok(fate_of(&records, step))
    }

    fn distrust(&self) -> Result<Option<String>, Failure> {
        let events = self.events(0)?;
        let Some((_, _, Event::Began { text, sha256, place, .. })) = events.first() else { return Ok(None) };
        let changed = super::changed_since(&self.parts.env, Path::new(place), text, sha256);
        let (name, run) = (&self.name, self.run);
        Ok(changed.map(|file| {
            let hint = format!("reedclaw sop trust {name}, and then reedclaw sop resume {run}");
            format!("{file} has changed since you trusted it; {hint}")
        }))
    }

    fn now(&self) -> i64 {
        now_unix_ms()
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
        // The record belongs to an earlier attempt, unless the clock was set back meanwhile.
        return if step.attempts > 1 { Fate::NotBegun } else { Fate::Unknown };
    }
    // The step was the run's last, so all later records are its own: applying a command's changes from its copy is a second call.
    let intents: Vec<_> = records[at..].iter().filter(|it| it.kind == receipts::Kind::Intent).collect();
    let outcome = |intent: &receipts::Record<'_>| {
        records.iter().find(|it| it.intent.as_deref() == Some(&*intent.id)).map(|it| it.status)
    };
    match intents.last().and_then(|last| outcome(last)) {
        // Whether there were changes to apply isn't known.
        Some(Some(receipts::Status::Allowed)) if tool == "shell" && risk != "low" && intents.len() == 1 => {
            Fate::Unknown
        }
        Some(Some(receipts::Status::Allowed)) => Fate::Succeeded,
        Some(_) => Fate::Failed,
        None => Fate::Unknown,
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock()
}

fn none_with(run: i64) -> Failure {
    let message = format!("there is no run {run} of a procedure");
    Failure::user(message).hint("reedclaw sop status lists the runs")
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
        let message = "no procedure has run yet";
        let none = Failure::user(message).hint("reedclaw sop run NAME runs one");
        return Err(id.map_or(none, none_with));
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

/// Returns the runs of procedures that haven't finished, the oldest first.
///
/// # Errors
/// The store can't be read.
pub fn open_sop_runs(settings: &Settings, env: &Env, store: &Arc<Mutex<Store>>) -> Result<Vec<SopJournal>, Failure> {
    let rows = lock(store).open_runs(KIND)?;
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
            "waiting" if run.awaits.is_some() => None,
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

/// Time when a trigger of a procedure last began a run, Unix milliseconds; `prefix` begins the trigger's moments.
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
        let inner = state.inner.map_or_else(String::new, |inner| format!(", run {}", inner.run));
        lines.push(format!("  {} ({}{inner}): {word}{error}", step.id, step.act.word()));
    }
    if let Some((_, prompt, covers)) = run.asked.as_ref().filter(|_| run.end.is_none()) {
        lines.push(format!("It waits: {prompt}"));
        for call in covers {
            lines.push(format!("  {} ({} risk)", call.intent, call.risk));
            lines.extend(call.reasons.iter().map(|reason| format!("    {reason}")));
            lines.extend(call.preview.lines().map(|line| format!("    | {line}")));
        }
        let id = run.id;
        lines.push(format!(
            "reedclaw sop approve {id} lets it continue with exactly this; reedclaw sop reject {id} refuses it"
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
