//! Runs towards a goal: their journal in the store, and the lines that describe them.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{RunSteps, state_word};
use crate::agent::goal::Journal;
use crate::base::text::counted;
use crate::config::Env;
use crate::host::now_unix_ms;
use crate::norris::{Again, CheckResult, Event, Run, TaskState, Used, looks_like_test, names_of};
use crate::proto::Failure;
use crate::store::{NewRun, Period, RunRow, Store, StoredEvent};

/// Files, and failed calls, that a report lists.
const LISTED_MAX: usize = 20;
/// The kind of these runs in the store.
pub(super) const KIND: &str = "norris";

/// The journal of one run.
#[derive(Clone)]
pub struct StoredJournal {
    pub(super) store: Arc<Mutex<Store>>,
    run: i64,
}

impl StoredJournal {
    /// Opens the journal of a run; whether it exists isn't checked.
    #[must_use]
    pub fn of(store: Arc<Mutex<Store>>, run: i64) -> Self {
        Self { store, run }
    }

    /// Begins a run.
    ///
    /// # Errors
    /// The store can't save the run: a run that a crash would lose doesn't begin.
    pub fn begin(store: Arc<Mutex<Store>>, goal: crate::norris::Goal) -> Result<Self, Failure> {
        let run = {
            let mut store = lock(&store);
            if !store.is_durable() {
                return Err(Failure::unavailable("a run needs a store on the disk, and there is none")
                    .hint("reedclaw doctor says why"));
            }
            let workspace = goal.workspace.clone();
            let body = body_of(&Event::Began { goal })?;
            let new = NewRun { kind: KIND, name: "", workspace: &workspace, body: &body, slot: None };
            // `begin_run` returns `None` only if a trigger's moment has begun a run before.
            store.begin_run(now_unix_ms(), &new)?.unwrap_or_default()
        };
        Ok(Self { store, run })
    }

    /// The state of the run: the fold of its events.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn state(&self) -> Result<Run, Failure> {
        let events = self.events(0)?;
        Ok(Run::of(events.iter().map(|(_, time, event)| (*time, event))))
    }
}

impl Journal for StoredJournal {
    fn add(&self, event: &Event) -> Result<(), Failure> {
        Ok(lock(&self.store).add_run_event(self.run, now_unix_ms(), &body_of(event)?)?)
    }

    fn events(&self, after: i64) -> Result<Vec<(i64, i64, Event)>, Failure> {
        stored_events(&self.store, self.run, after)
    }

    fn used(&self) -> Result<Used, Failure> {
        let spent = lock(&self.store).spent(Period::Run(self.run))?;
        Ok(Used { usd: spent.cost.usd(), tokens: spent.total_in() + spent.total_out(), now: now_unix_ms() })
    }

    fn now(&self) -> i64 {
        now_unix_ms()
    }

    fn run(&self) -> i64 {
        self.run
    }
}

/// The events of a run after a number, with their numbers and times.
///
/// # Errors
/// The store can't be read, or one of them is of a newer version.
pub(in crate::app) fn stored_events<E: DeserializeOwned>(
    store: &Mutex<Store>,
    run: i64,
    after: i64,
) -> Result<Vec<(i64, i64, E)>, Failure> {
    let stored = lock(store).run_events(run, after)?;
    let event = |it: StoredEvent| {
        let event = serde_json::from_str(&it.body).map_err(|error| {
            Failure::unavailable(format!("event {} of run {run} can't be read: {error}", it.seq))
                .hint("a newer version of reedclaw may have written it")
        })?;
        Ok((it.seq, it.time, event))
    };
    stored.into_iter().map(event).collect()
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock()
}

/// Writes an event in its stored form.
pub(in crate::app) fn body_of(event: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(event)
        .map_err(|error| Failure::internal(format!("an event of a run can't be written: {error}")))
}

/// Returns a stored run, or the newest one.
///
/// # Errors
/// There is none, or the store can't be read.
pub fn find_run(store: &Arc<Mutex<Store>>, id: Option<i64>) -> Result<StoredJournal, Failure> {
    let found: Option<RunRow> = match id {
        Some(id) => lock(store).run(KIND, id)?,
        None => lock(store).runs(KIND, 1)?.pop(),
    };
    let Some(row) = found else {
        let (message, hint) = match id {
            None => {
                ("there is no run yet".to_owned(), ":norris GOAL in the shell, or reedclaw norris GOAL, begins one")
            }
            Some(id) => (format!("there is no run {id}"), "reedclaw norris list lists the runs"),
        };
        return Err(Failure::user(message).hint(hint));
    };
    Ok(StoredJournal::of(Arc::clone(store), row.id))
}

/// Returns the rows of a list of runs, the newest first: number, state, tasks done, cost, goal.
///
/// # Errors
/// The store can't be read.
pub fn run_rows(store: &Arc<Mutex<Store>>, env: &Env, limit: usize) -> Result<Vec<Vec<String>>, Failure> {
    let rows = lock(store).runs(KIND, limit)?;
    let row = |row: RunRow| {
        let journal = StoredJournal::of(Arc::clone(store), row.id);
        let (run, used) = (journal.state()?, journal.used()?);
        let goal = run.goal.as_ref().map(|goal| goal.text.clone()).unwrap_or_default();
        let word = state_word(&journal, &run, env).to_owned();
        Ok(vec![row.id.to_string(), word, done_of(&run), format!("${:.4}", used.usd), goal])
    };
    rows.into_iter().map(row).collect()
}

fn done_of(run: &Run) -> String {
    let planned = run.tasks.iter().filter(|task| task.state != TaskState::Dropped);
    let done = planned.clone().filter(|task| task.state != TaskState::Open).count();
    format!("{done}/{}", planned.count())
}

/// Returns the report of a run: its end, tasks, checks, cost, and how to undo its changes.
///
/// # Errors
/// The store can't be read.
pub fn run_report(journal: &StoredJournal, steps: &RunSteps, env: &Env) -> Result<Vec<String>, Failure> {
    let events = journal.events(0)?;
    let run = Run::of(events.iter().map(|(_, time, event)| (*time, event)));
    let used = journal.used()?;
    let Some(goal) = &run.goal else { return Ok(Vec::new()) };
    let why = why_of(&run);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let word = state_word(journal, &run, env);
    let mut lines = vec![format!("Run {}: {word}{why}", journal.run), format!("Goal: {}", goal.text)];
    for (number, task) in run.tasks.iter().enumerate() {
        lines.push(format!("Task {} ({}): {}", number + 1, mark_of(task.state), task.text));
    }
    if run.awaits_go() {
        lines.extend(run.proposed.iter().map(|check| format!("Check that the plan proposes: {check}")));
    }
    let results = if run.last_results.is_empty() { &run.baseline } else { &run.last_results };
    for (command, result) in goal.checks.iter().zip(results) {
        let cut = "didn't end (project.check_ms limits its time)";
        let status = result.status.map_or_else(|| cut.to_owned(), |status| format!("status {status}"));
        lines.push(format!("Check `{command}`: {status}, {:.1} s", seconds(result.took_ms)));
        lines.extend(
            result.tail.lines().rev().take(10).collect::<Vec<_>>().into_iter().rev().map(|it| format!("  {it}")),
        );
        lines.extend(result.again.as_ref().map(again_line));
    }
    if passed_before(&run) {
        lines.push("The checks passed before the first task too, so they can't show that anything was done.".into());
    }
    lines.extend(input_lines(&run));
    lines.extend(test_line(&run, steps));
    let files = with_caches_as_one(&steps.files);
    let (shown, more) = files.split_at(files.len().min(LISTED_MAX));
    lines.extend(shown.iter().map(|path| format!("Changed {path}")));
    lines.extend((!more.is_empty()).then(|| format!("Changed {} more files", more.len())));
    let calls = Calls::of(events.iter().map(|(_, _, event)| event));
    lines.extend(calls.failed.iter().take(LISTED_MAX).map(|call| format!("Failed: {call}")));
    lines.extend(calls.asked.iter().map(|(call, answer)| format!("You were asked: {call} ({answer})")));
    lines.extend(halt_lines(journal.run, &run));
    for part in lock(&journal.store).spent_by_category(journal.run)? {
        let (category, model) = (part.category, part.model);
        let requests = number_of(part.requests, "request");
        let (read, written, cost) = (part.tokens_in, part.tokens_out, part.cost);
        lines.push(format!("Cost {category} ({model}): {requests}, {read} + {written} tokens, {cost}"));
    }
    let minutes = run.minutes_at(used.now);
    lines.push(format!(
        "Used: ${:.4}, {} tokens, {minutes:.1} min, {}, {}",
        used.usd,
        used.tokens,
        number_of(run.steps, "question"),
        number_of(run.calls, "call")
    ));
    if !goal.session.is_empty() {
        let session = crate::sessions::short_id(&goal.session);
        lines
            .push(format!("Its work is session {session}: reedclaw session apply {session} puts it into the checkout"));
        let is_over = run.end.is_some();
        lines.extend(is_over.then(|| format!("reedclaw norris undo {} reverts the session", journal.run)));
    }
    if steps.count > 0 {
        let count = counted(steps.count, "step");
        lines.push(format!("reedclaw norris undo {} reverts its changes ({count})", journal.run));
    }
    Ok(lines)
}

/// Names the changed files that look like tests and that no check has used in their original version.
fn test_line(run: &Run, steps: &RunSteps) -> Option<String> {
    run.goal.as_ref().filter(|goal| !goal.checks.is_empty())?;
    let put_back = put_back(run);
    let is_one = |path: &&String| looks_like_test(path) && !run.tampered.contains(path) && !put_back.contains(path);
    let tests: Vec<&str> = steps.files.iter().filter(is_one).map(String::as_str).take(LISTED_MAX).collect();
    let names = tests.join(", ");
    (!tests.is_empty())
        .then(|| format!("A check may find its tests itself; changed files that look like tests: {names}"))
}

/// The files that were put back for second runs of checks.
fn put_back(run: &Run) -> Vec<&String> {
    run.last_results.iter().filter_map(|it| it.again.as_ref()).flat_map(|it| &it.files).collect()
}

/// The end of a check that ran again with its tests as they were when the run began.
fn again_line(again: &Again) -> String {
    let status = again.status.map_or_else(|| "it couldn't run".to_owned(), |status| format!("status {status}"));
    format!("  with the first version of {}: {status}", names_of(&again.files))
}

/// Lists the changed inputs of the checks, and the inputs that nothing guards.
fn input_lines(run: &Run) -> Vec<String> {
    let put_back = put_back(run);
    let reached: Vec<&str> = run.reached.iter().filter(|it| !put_back.contains(it)).map(String::as_str).collect();
    let (shown, more) = reached.split_at(reached.len().min(LISTED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let (why, names) = ("the checks reach by scripts, or with tests in them", shown.join(", "));
    let changed = format!("Changed files that {why} (nothing guards these): {names}{more}");
    let tampered = || format!("Changed files that the checks depend on: {}", run.tampered.join(", "));
    let mut lines: Vec<String> = (!run.tampered.is_empty()).then(tampered).into_iter().collect();
    lines.extend((!shown.is_empty()).then_some(changed));
    lines.extend(run.unseen.iter().map(|why| format!("Not all inputs of the checks can be guarded: {why}")));
    lines
}

pub(super) fn number_of(count: u64, noun: &str) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), noun)
}

/// Describes the call that a run waits for, and how to answer it; empty if the run doesn't wait.
fn halt_lines(id: i64, run: &Run) -> Vec<String> {
    let Some((halt, _)) = run.halt.as_ref().filter(|_| run.is_waiting()) else { return Vec::new() };
    let mut lines = vec![format!("Waits for a yes ({} risk): {}", halt.risk, halt.intent)];
    lines.extend(halt.reasons.iter().map(|reason| format!("  {reason}")));
    lines.extend(halt.preview.lines().take(20).map(|line| format!("  | {line}")));
    lines.push(format!("reedclaw norris approve {id} allows exactly this call; reedclaw norris deny {id} refuses it"));
    lines
}

/// The sorted names of changed files, with each directory that marks itself as a cache (`CACHEDIR.TAG`) in place of its files.
fn with_caches_as_one(files: &[String]) -> Vec<String> {
    let caches: Vec<&str> = files.iter().filter_map(|it| it.strip_suffix("CACHEDIR.TAG")).collect();
    let cache_of = |file: &String| caches.iter().find(|cache| cache.ends_with('/') && file.starts_with(**cache));
    let name = |file: &String| cache_of(file).map_or_else(|| file.clone(), |cache| format!("{cache} (a cache)"));
    let mut names: Vec<String> = files.iter().map(name).collect();
    names.dedup();
    names
}

/// Returns the report of a run as JSON: `run`, `state`, `goal`, `why`, `workspace`, `session`, `tasks`, `checks` (`again`: the
/// status with `files` as they were when the run began), `changed_inputs`, `changed_unguarded` (files that checks only reach),
/// `unguarded` (reasons why not all are known), `waits_for`, `cost` by category and model, `used`, `limits`, `grant`,
/// `passed_before` (the checks passed before the run, so they show nothing), `steps` (those that can be undone), `files` that
/// they changed, `failed_calls`, `asked` (calls that halted the run, each with the answer).
///
/// # Errors
/// The store can't be read.
pub fn run_facts(journal: &StoredJournal, steps: &RunSteps, env: &Env) -> Result<Value, Failure> {
    let events = journal.events(0)?;
    let run = Run::of(events.iter().map(|(_, time, event)| (*time, event)));
    let used = journal.used()?;
    let calls = Calls::of(events.iter().map(|(_, _, event)| event));
    let asked: Vec<Value> = calls.asked.iter().map(|(call, answer)| json!({"call": call, "answer": answer})).collect();
    let goal = run.goal.clone().unwrap_or_default();
    let tasks: Vec<Value> = run.tasks.iter().map(|it| json!({"text": it.text, "state": mark_of(it.state)})).collect();
    let results = if run.last_results.is_empty() { &run.baseline } else { &run.last_results };
    let check = |(command, it): (&String, &CheckResult)| json!({"command": command, "status": it.status, "ms": it.took_ms, "tail": it.tail, "again": it.again});
    let checks: Vec<Value> = goal.checks.iter().zip(results).map(check).collect();
    let waits = run.halt.as_ref().filter(|_| run.is_waiting());
    let waits = waits.map(|(halt, _)| json!({"intent": halt.intent, "risk": halt.risk, "reasons": halt.reasons}));
    let parts = lock(&journal.store).spent_by_category(journal.run)?.into_iter();
    let cost: Vec<Value> = parts
        .map(|it| {
            json!({"category": it.category, "model": it.model, "requests": it.requests, "tokens_in": it.tokens_in,
                "tokens_out": it.tokens_out, "usd": it.cost.usd()})
        })
        .collect();
    Ok(json!({
        "kind": KIND, "run": journal.run, "state": state_word(journal, &run, env), "goal": goal.text, "why": why_of(&run),
        "workspace": goal.workspace, "session": goal.session, "tasks": tasks, "checks": checks, "changed_inputs": run.tampered, "changed_unguarded": run.reached, "unguarded": run.unseen, "waits_for": waits,
        "cost": cost, "steps": steps.count, "files": steps.files, "failed_calls": calls.failed, "asked": asked, "limits": goal.limits, "grant": goal.grant, "passed_before": passed_before(&run),
        "used": {"usd": used.usd, "tokens": used.tokens, "minutes": run.minutes_at(used.now), "questions": run.steps, "calls": run.calls},
    }))
}

/// The calls of a run that a report names.
#[derive(Default)]
struct Calls {
    /// Those that failed or were refused.
    failed: Vec<String>,
    /// Those that halted it, each with its person's answer.
    asked: Vec<(String, &'static str)>,
}

impl Calls {
    fn of<'e>(events: impl Iterator<Item = &'e Event>) -> Self {
        let (mut calls, mut call) = (Self::default(), "");
        for event in events {
            let answer = match event {
                Event::Calling { intent } => {
                    call = intent;
                    continue;
                }
                Event::Called { success: false } => {
                    calls.failed.push(call.to_owned());
                    continue;
                }
                Event::Halted { halt } => {
                    // The call counts as refused until the person has answered, which is no failure.
                    calls.failed.pop_if(|failed| *failed == halt.intent);
                    calls.asked.push((halt.intent.clone(), "no answer yet"));
                    continue;
                }
                Event::Approved { .. } => "allowed",
                Event::Denied { .. } => "refused",
                _ => continue,
            };
            if let Some((_, last)) = calls.asked.last_mut() {
                *last = answer;
            }
        }
        calls
    }
}

/// Returns whether the checks passed before anything was done, so that they can't show anything.
fn passed_before(run: &Run) -> bool {
    let count = run.goal.as_ref().map_or(0, |goal| goal.checks.len());
    count > 0 && run.baseline.len() == count && run.baseline.iter().all(CheckResult::has_passed)
}

/// The reason of a run's end or pause; may be empty.
fn why_of(run: &Run) -> String {
    run.end.as_ref().map(|end| end.why().to_owned()).or_else(|| run.paused.clone()).unwrap_or_default()
}

fn mark_of(state: TaskState) -> &'static str {
    match state {
        TaskState::Checked => "checked",
        TaskState::Claimed => "claimed",
        TaskState::Open => "open",
        TaskState::Dropped => "replaced",
    }
}

#[allow(clippy::cast_precision_loss, reason = "a time that is shown")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_stands_for_its_files_in_the_list_of_changed_ones() {
        let files = [".cache/CACHEDIR.TAG", ".cache/v/nodes", ".cached", "CACHEDIR.TAG", "a.py"].map(str::to_owned);
        assert_eq!(with_caches_as_one(&files), [".cache/ (a cache)", ".cached", "CACHEDIR.TAG", "a.py"]);
    }
}
