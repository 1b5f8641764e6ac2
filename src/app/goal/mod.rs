//! Runs towards goals for a face: the goal that settings and a person's words make, the lines that describe a run's
//! work, the hold on its workspace, and a run on a thread of its own. It must not know how lines are shown.

mod atif;
mod background;
mod journal;
mod work;

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agent::goal::Journal;
use crate::config::{Env, Settings};
use crate::files::{Marked, is_marked, marked_number};
use crate::host;
use crate::norris::{self, CheckResult, Effect, Event, GOAL_BYTES_MAX, Goal, Grant, Limits, Rest, Run, TaskState};
use crate::proto::Failure;
use crate::proto::action::Autonomy;
use crate::store::{RunRow, Store};

pub use atif::run_trajectory;
pub use background::{Background, Progress};
use journal::{KIND, number_of};
pub use journal::{StoredJournal, find_run, run_facts, run_report, run_rows};
pub(in crate::app) use journal::{body_of, stored_events};
pub use work::{ReadyRun, RunWatcher, Wanted, ready_run, report_ended_run, request_of_run, work_on_run};

/// Limit on the runs that are searched for one that rests.
const RECENT_MAX: usize = 20;

/// Makes the goal that the settings and a person's words describe.
///
/// # Errors
/// The words are none, or too many; or the config has a mistake in the grant.
pub fn goal_of(settings: &Settings, text: &str, workspace: &Path) -> Result<Goal, Failure> {
    let text = text.trim();
    if text.is_empty() || text.len() > GOAL_BYTES_MAX {
        let message = format!("a goal has between 1 and {GOAL_BYTES_MAX} bytes");
        return Err(Failure::user(message).hint("reedclaw norris \"GOAL\""));
    }
    let of = &settings.norris;
    if !of.mistake.is_empty() {
        let message = format!("the config doesn't tell what a run may change: {}", of.mistake);
        let hint = "reedclaw config validate lists the mistakes; mend this one first";
        return Err(Failure::config(message).hint(hint));
    }
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let mut checks = of.checks.clone();
    if checks.is_empty() {
        checks.extend(settings.tools.check.clone());
    }
    let goal = Goal {
        text: text.to_owned(),
        checks,
        limits: Limits {
            usd: Some(of.usd),
            tokens: Some(of.tokens),
            minutes: Some(of.minutes),
            steps: Some(of.steps),
            calls: Some(of.calls),
            attempts: small(of.attempts),
            replans: small(of.replans),
            stall: small(of.stall),
        },
        grant: Grant { writes: of.writes.clone(), commands: of.commands.clone() },
        protect: of.protect.clone(),
        workspace: workspace.display().to_string(),
        planner: of.preplanner.clone(),
        executor: of.executor.clone(),
        reviewer: of.reviewer.clone(),
        delegates: of.delegate,
        ..Goal::default()
    };
    Ok(goal_within(settings, goal))
}

/// Removes the grant if a model may only look: the report would show it, but it would have no effect.
#[must_use]
pub fn goal_within(settings: &Settings, goal: Goal) -> Goal {
    match settings.security.autonomy {
        Autonomy::Readonly => Goal { grant: Grant::default(), ..goal },
        Autonomy::Supervised | Autonomy::Full => goal,
    }
}

/// Describes what a run may do and use, in two lines.
#[must_use]
pub fn granted_lines(goal: &Goal) -> [String; 2] {
    let Limits { usd, tokens, minutes, steps, calls, .. } = &goal.limits;
    let shown = [
        usd.map(|it| format!("${it}")),
        tokens.map(|it| format!("{it} tokens")),
        minutes.map(|it| format!("{it} min")),
        steps.map(|it| number_of(it, "question")),
        calls.map(|it| number_of(it, "call")),
    ];
    let budget = shown.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let commands: Vec<String> =
        goal.checks.iter().chain(&goal.grant.commands).map(|command| format!("`{command}`")).collect();
    let commands = if commands.is_empty() { "no commands".to_owned() } else { commands.join(", ") };
    let writes = goal.grant.writes.join(", ");
    let writes = if writes.is_empty() { "no changes".to_owned() } else { format!("changes of {writes}") };
    [format!("grant: {writes}; {commands}; no network"), format!("budget: {budget}")]
}

/// Describes what a person should know before a run begins to work: its tasks, what the checks show, grant and budget.
#[must_use]
pub fn go_lines(run: &Run) -> Vec<String> {
    let goal = run.goal.clone().unwrap_or_default();
    let mut lines = vec!["the plan:".to_owned()];
    lines.extend(plan_lines(run));
    for (number, check) in goal.checks.iter().enumerate() {
        let is_passing = run.baseline.get(number).is_some_and(CheckResult::has_passed);
        let now = if is_passing { "passes already, so it can't show that anything was done" } else { "fails now" };
        lines.push(format!("check: `{check}` ({now})"));
    }
    lines.extend(run.proposed.iter().map(|check| format!("check, proposed with the plan: `{check}`")));
    if goal.checks.is_empty() && run.proposed.is_empty() {
        lines.push("no check: the run can't be verified".to_owned());
    }
    lines.extend(granted_lines(&goal));
    lines
}

/// Describes what a run does next; `None` if there is nothing to report.
#[must_use]
pub fn effect_line(run: &Run, effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Plan => "planning".to_owned(),
        Effect::Check(number) => {
            let goal = run.goal.as_ref();
            format!("checking `{}`", goal.and_then(|it| it.checks.get(*number)).map_or("", String::as_str))
        }
        Effect::Work { task, is_escalated } => {
            let count = run.tasks.len();
            let text = run.tasks.get(*task).map_or("", |task| task.text.as_str());
            let model = if *is_escalated { " (the planner's model does it)" } else { "" };
            format!("{}/{count} {text}{model}", task + 1)
        }
        Effect::RunHalted(halt) => format!("running what was approved: {}", halt.intent),
        Effect::Rest(Rest::Halted) => "halted: a call needs your yes".to_owned(),
        _ => return None,
    })
}

/// An event of a run in lines; none if there is nothing to report.
#[must_use]
pub fn event_lines(run: &Run, event: &Event) -> Vec<String> {
    match event {
        Event::Planned { .. } => plan_lines(run),
        event => event_line(run, event).into_iter().collect(),
    }
}

fn event_line(run: &Run, event: &Event) -> Option<String> {
    Some(match event {
        Event::Began { goal } => format!("goal: {}", goal.text),
        Event::Planning { model, .. } => format!("planning with {model}"),
        Event::Working { task, model, .. } => {
            let text = run.tasks.get(*task).map_or("", |task| task.text.as_str());
            format!("{}/{} {text} ({model})", task + 1, run.tasks.len())
        }
        Event::Calling { intent } => format!("  {intent}"),
        Event::Worked { .. } => "  the executor says that it is done".to_owned(),
        Event::Broke { why, .. } => format!("  broke off: {why}"),
        Event::Checked { check, status, .. } => {
            let goal = run.goal.as_ref();
            let command = goal.and_then(|it| it.checks.get(*check)).map_or("", String::as_str);
            status
                .map_or_else(|| format!("check `{command}` didn't end"), |it| format!("check `{command}`: status {it}"))
        }
        Event::Halted { halt } => format!("halted: {}", halt.intent),
        Event::Approved { .. } => "you said yes".to_owned(),
        Event::Denied { why, .. } if why.is_empty() => "you said no".to_owned(),
        Event::Denied { why, .. } => format!("you said no: {why}"),
        Event::Said { text } => format!("you said: {text}"),
        Event::Entered { .. } if run.was_cut_off => "taken up again after a question that was cut off".to_owned(),
        Event::Clocked { .. } => "the machine slept, or its clock was set; only the time of work counts".to_owned(),
        Event::Paused { why } => format!("paused: {why}"),
        Event::Ended { end, why } if why.is_empty() => format!("ended: {end}"),
        Event::Ended { end, why } => format!("ended: {end}: {why}"),
        _ => return None,
    })
}

/// Names the runs of a workspace that rest, for a person who comes back.
#[must_use]
pub fn resting_runs(store: &Arc<Mutex<Store>>, env: &Env, workspace: &Path) -> Vec<String> {
    let rows = store.lock().runs(KIND, RECENT_MAX).unwrap_or_default();
    let here = rows.into_iter().filter(|row| Path::new(&row.workspace) == workspace);
    let line = |row: RunRow| {
        // This comes before the run is read, since a process that works on the run may end it meanwhile.
        if is_worked_on(env, workspace, row.id) {
            return None;
        }
        let journal = StoredJournal::of(Arc::clone(store), row.id);
        let run = journal.state().ok().filter(|run| run.end.is_none())?;
        let goal = run.goal.as_ref().map_or("", |goal| goal.text.as_str());
        let goal: String = goal.chars().take(60).collect();
        let word = state_word(&journal, &run, env);
        Some(format!("[norris] run {} is {word}: {goal}; :norris resume {0}", row.id))
    };
    here.filter_map(line).collect()
}

/// Returns the word for a run's state. A run that could go on, but has no process that works on it, is interrupted.
#[must_use]
pub fn state_word(journal: &StoredJournal, run: &Run, env: &Env) -> &'static str {
    let is_left = |goal: &Goal| !is_worked_on(env, Path::new(&goal.workspace), journal.run());
    if !run.is_active() || !run.goal.as_ref().is_some_and(is_left) {
        return run.word();
    }
    // A process may have ended it since it was read, and be gone.
    journal.state().ok().filter(|now| !now.is_active()).map_or("interrupted", |now| now.word())
}

/// The open tasks of a run, a line each.
#[must_use]
pub fn plan_lines(run: &Run) -> Vec<String> {
    let open = run.tasks.iter().enumerate().filter(|(_, task)| task.state == TaskState::Open);
    let mut lines: Vec<String> = open.map(|(number, task)| format!("  {} {}", number + 1, task.text)).collect();
    if run.tasks_left_out > 0 {
        let (all, most) = (run.tasks_left_out + norris::TASKS_MAX, norris::TASKS_MAX);
        lines.push(format!("  the plan has {all} tasks; only the first {most} are done"));
    }
    lines
}

/// The changes of a run that can be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSteps {
    /// The number of its steps.
    pub count: usize,
    /// The files that they changed, in order.
    pub files: Vec<String>,
}

/// Returns the changes of a run that can be undone.
#[must_use]
pub fn steps_of_run(settings: &Settings, env: &Env, goal: &Goal, run: i64) -> RunSteps {
    let Ok(steps) = crate::app::steps(settings, env, Path::new(&goal.workspace)) else { return RunSteps::default() };
    let of_run: Vec<_> = steps.list().into_iter().filter(|it| it.run() == Some(run) && !it.is_undone).collect();
    let paths = of_run.iter().flat_map(|it| &it.changes).map(|change| change.path.display().to_string());
    let files: BTreeSet<String> = paths.collect();
    RunSteps { count: of_run.len(), files: files.into_iter().collect() }
}

/// Runs `norris.notify` if a run has ended or waits for a person. Returns what went wrong.
#[must_use]
pub fn notify_of_run(settings: &Settings, env: &Env, journal: &StoredJournal) -> Option<String> {
    let words = &settings.norris.notify;
    let run = journal.state().ok().filter(|run| run.end.is_some() || run.is_waiting() || run.awaits_go())?;
    if words.is_empty() {
        return None;
    }
    let steps = steps_of_run(settings, env, run.goal.as_ref()?, journal.run());
    let facts = run_facts(journal, &steps, env).ok()?;
    host::notify(words, env, &format!("{facts}\n")).err().map(|why| format!("norris.notify: {why}"))
}

/// Reason why a workspace can't be held.
#[derive(Clone, Debug)]
pub enum Unheld {
    /// Another run works there.
    Busy(Failure),
    /// The hold can't be written.
    Failed(Failure),
}

impl From<Unheld> for Failure {
    fn from(reason: Unheld) -> Self {
        match reason {
            Unheld::Busy(failure) | Unheld::Failed(failure) => failure,
        }
    }
}

/// Holds a workspace for one run at a time. Until [`Marked::only`] names one, all of its runs count as worked on.
///
/// # Errors
/// Another run works there, or the hold can't be written.
pub fn hold_workspace(env: &Env, workspace: &Path) -> Result<Marked, Unheld> {
    let Some(place) = hold_of(env, workspace) else { return Err(Unheld::Failed(unheld("no HOME is set".into()))) };
    Marked::open(&place).map_err(|error| match error {
        TryLockError::WouldBlock => {
            let who = marked_number(&place).map_or_else(|| "a run".to_owned(), |run| format!("run {run}"));
            Unheld::Busy(unheld(format!("{who} works in {} already", workspace.display())))
        }
        TryLockError::Error(error) => Unheld::Failed(unheld(format!("{}: {error}", place.display()))),
    })
}

/// Shows that a held workspace is held for this run alone.
fn names_run(held: &Marked, run: i64) -> Result<(), Failure> {
    held.only(run).map_err(|error| unheld(format!("run {run} can't be marked as worked on: {error}")))
}

/// Returns whether a process works on a run of a workspace. Only looks: nothing is held or written.
#[must_use]
pub fn is_worked_on(env: &Env, workspace: &Path, run: i64) -> bool {
    hold_of(env, workspace).is_some_and(|place| is_marked(&place, run))
}

fn hold_of(env: &Env, workspace: &Path) -> Option<PathBuf> {
    let name = format!("{}.lock", crate::base::hash::path_name(workspace));
    Some(crate::config::state_directory(env)?.join("runs").join(name))
}

fn unheld(message: String) -> Failure {
    let hint = "reedclaw norris list and reedclaw sop status show the runs";
    Failure::unavailable(message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_that_another_run_holds_is_told_from_a_hold_that_cannot_be_written() {
        let home = tempfile::tempdir().expect("a directory");
        let env = Env::from([("HOME".into(), home.path().into())]);
        let workspace = home.path().join("work");
        let held = hold_workspace(&env, &workspace).expect("it is free");
        names_run(&held, 7).expect("a mark");
        let busy = hold_workspace(&env, &workspace);
        assert!(matches!(&busy, Err(Unheld::Busy(why)) if why.message.starts_with("run 7 works in")), "{busy:?}");
        drop(held);
        let holds = hold_of(&env, &workspace).expect("a place").parent().expect("a directory").to_owned();
        std::fs::remove_dir_all(&holds).expect("the holds");
        std::fs::write(&holds, "").expect("a file in their place");
        assert!(matches!(hold_workspace(&env, &workspace), Err(Unheld::Failed(_))));
        assert!(matches!(hold_workspace(&Env::new(), &workspace), Err(Unheld::Failed(_))), "no HOME");
    }
}
