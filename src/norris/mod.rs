//! A run: work towards a goal, task by task, while no person watches. Pure: a run is the fold of its events, and the next step
//! follows from the fold alone, so that a killed run continues after its last event. It must not know models, disk or clock: sums
//! and times are passed in with events and calls.

mod anchor;
mod event;
mod next;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::base::time::work_ms;

pub use anchor::{anchor, plan_question};
pub use event::{Again, Event, Goal, Grant, Halt, Limits};
pub use next::{Effect, Rest, Used, names_of};
pub use tasks::{TASKS_MAX, proposed_checks, task_count, tasks};

/// Limit on a goal, in bytes.
pub const GOAL_BYTES_MAX: usize = 8 * 1024;
/// Limit on the checks of a run.
pub const CHECKS_MAX: usize = 5;
/// Limit on the stored end of a check's output, in bytes.
pub const TAIL_BYTES_MAX: usize = 4 * 1024;
/// Limit on a note by the person, in bytes.
pub const NOTE_BYTES_MAX: usize = 2 * 1024;
/// Limit on the notes that wait for the next question.
const NOTES_MAX: usize = 20;
/// Limit on the halted calls of a run; a run that halts more often needs its person.
const HALTS_MAX: usize = 20;
/// The reason why a plan is requested once more.
const NO_TASKS: &str = "the plan had no line that begins with `TASK: `";
/// Number of calls that a person may refuse before the run waits for more than a refusal.
const NOES_MAX: u8 = 3;
/// Limit on consecutive failed plans.
const PLAN_FAILURES_MAX: u8 = 3;
/// Limit on consecutive attempts that break off: the server is away.
const BREAKS_MAX: u8 = 3;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every check passed.
    Verified,
    /// The work is claimed to be done, but no check confirms it.
    NotVerified(String),
    /// A budget is used up.
    Budget(String),
    /// There is no progress.
    Stuck(String),
    /// Unable to continue.
    Failed(String),
    /// A person stopped it.
    Stopped,
}

impl End {
    /// The exit status; `cli::exit` has the table of their meanings.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Verified => 0,
            Self::Failed(_) => 1,
            Self::Budget(_) => 5,
            Self::NotVerified(_) => 6,
            Self::Stuck(_) => 8,
            Self::Stopped => 130,
        }
    }

    /// The word for the end.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Failed(_) => "failed",
            Self::Budget(_) => "budget",
            Self::NotVerified(_) => "not-verified",
            Self::Stuck(_) => "stuck",
            Self::Stopped => "stopped",
        }
    }

    /// The reason; empty if the word is enough.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Self::NotVerified(why) | Self::Budget(why) | Self::Stuck(why) | Self::Failed(why) => why,
            Self::Verified | Self::Stopped => "",
        }
    }

    /// Reads the results of [`Self::word`] and [`Self::why`].
    #[must_use]
    pub fn of(word: &str, why: &str) -> Self {
        let why = why.to_owned();
        match word {
            "verified" => Self::Verified,
            "not-verified" => Self::NotVerified(why),
            "budget" => Self::Budget(why),
            "stuck" => Self::Stuck(why),
            "stopped" => Self::Stopped,
            _ => Self::Failed(why),
        }
    }
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The work isn't done.
    Open,
    /// The executor reports that it is done.
    Claimed,
    /// The checks of the run passed after its work.
    Checked,
    /// A newer plan has replaced it.
    Dropped,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The task's text.
    pub text: String,
    /// Its progress.
    pub state: TaskState,
    /// Number of attempts that ended.
    pub attempts: u32,
    /// The executor's last words about it.
    pub last_words: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// Its exit status; none if it was ended from outside.
    pub status: Option<i32>,
    /// The end of its output.
    pub tail: String,
    /// Milliseconds.
    pub took_ms: u64,
    /// Its second run, with the files that may be its tests restored to their state at the start of the work.
    pub again: Option<Again>,
}

impl CheckResult {
    /// Returns whether it passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.status == Some(0)
    }

    /// The second run, if the check passes only with changed files, or possibly only with them.
    fn bent(&self) -> Option<&Again> {
        self.again.as_ref().filter(|again| again.status != Some(0))
    }
}

/// A call that the run made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDone {
    /// The intent of the call.
    pub intent: String,
    /// `true` if it succeeded; `None` if that isn't known.
    pub success: Option<bool>,
}

/// Progress of a halted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltState {
    /// Waiting for the person.
    Waits,
    /// Approved by the person.
    Approved,
    /// Running.
    Runs,
}

/// The state of a run: the fold of its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The goal and its bounds; none before the first event.
    pub goal: Option<Goal>,
    /// The tasks, including those of earlier plans.
    pub tasks: Vec<Task>,
    /// Results of the checks before the first task.
    pub baseline: Vec<CheckResult>,
    /// Results of the checks since the last task.
    pub results: Vec<CheckResult>,
    /// The newest complete results, for the anchor and the report.
    pub last_results: Vec<CheckResult>,
    /// The call that halted the run.
    pub halt: Option<(Halt, HaltState)>,
    /// Fingerprints of calls that the person approved and that haven't finished.
    pub approved: Vec<String>,
    /// The undo steps whose calls the person has approved.
    pub allowed_steps: Vec<u64>,
    /// Number of halts so far.
    pub halts: usize,
    /// The reason why it waits.
    pub paused: Option<String>,
    /// `true` if a person asked it to stop.
    pub is_stopped: bool,
    /// Its end.
    pub end: Option<End>,
    /// Number of tool calls.
    pub calls: u64,
    /// Number of questions to models.
    pub steps: u64,
    /// Number of new plans.
    pub replans: u32,
    /// `true` if the next step is a new plan.
    pub needs_plan: bool,
    /// `true` if a person has seen the plan.
    pub has_go: bool,
    /// Number of tasks of the last plan beyond the limit.
    pub tasks_left_out: usize,
    /// Checks that the plan proposes, for a goal without checks.
    pub proposed: Vec<String>,
    /// Number of consecutive attempts without progress.
    pub stalled: u32,
    /// Milliseconds of work.
    pub active_ms: u64,
    /// Notes of the person that the executor hasn't seen yet.
    pub notes: Vec<String>,
    /// Results of the calls that a person decided on, for the next attempt.
    pub decided: Vec<String>,
    /// Calls of the current attempt, or of the one that was interrupted.
    pub attempt: Vec<CallDone>,
    /// `true` if the last attempt didn't end.
    pub was_cut_off: bool,
    /// Changed inputs of the checks.
    pub tampered: Vec<String>,
    /// Changed files that the checks only reach, which aren't protected.
    pub reached: Vec<String>,
    /// The reasons why some files that the checks depend on aren't compared.
    pub unseen: Vec<String>,
    /// The tree of its git session before the work began; empty without one.
    pub base: String,
    /// `true` if the report of its end was sent to its session and to the person's program.
    pub is_reported: bool,
    /// The newest limit that was reached.
    pub over_limit: Option<String>,
    /// The conversations of the run.
    pub conversations: Vec<i64>,
    /// Time when it began, Unix milliseconds.
    pub began: i64,
    /// Number of notes and results that the current question carries.
    sent: (usize, usize),
    is_asking: bool,
    is_planning: bool,
    plan_failures: u8,
    breaks: u8,
    noes: u8,
    last_break: String,
    last_time: Option<i64>,
    seen: Vec<(String, String)>,
    tree: String,
    stuck: Option<String>,
    /// `true` if the emergency stop paused it.
    pub is_estop: bool,
    inputs: Option<BTreeMap<String, String>>,
    first_reached: Option<BTreeMap<String, String>>,
}

impl Run {
    /// Folds events.
    #[must_use]
    pub fn of<'e>(events: impl IntoIterator<Item = (i64, &'e Event)>) -> Self {
        let mut run = Self::default();
        for (time, event) in events {
            run.apply(time, event);
        }
        run
    }

    /// Returns whether the run is active: neither ended nor waiting for a person.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.end.is_none() && self.paused.is_none() && !self.is_waiting() && !self.awaits_go()
    }

    /// Returns whether it has ended for a reason that new limits can undo.
    #[must_use]
    pub fn may_get_more(&self) -> bool {
        matches!(self.end, Some(End::Budget(_) | End::Stuck(_)))
    }

    /// Returns whether it is paused because its model failed repeatedly.
    #[must_use]
    pub fn has_given_up(&self) -> bool {
        self.end.is_none() && self.paused.is_some() && self.model_fails()
    }

    fn model_fails(&self) -> bool {
        self.plan_failures >= PLAN_FAILURES_MAX || self.breaks >= BREAKS_MAX
    }

    /// Returns whether its plan waits for a person who has to see it first.
    #[must_use]
    pub fn awaits_go(&self) -> bool {
        let asks = self.goal.as_ref().is_some_and(|goal| goal.asks_go);
        asks && !self.has_go && !self.tasks.is_empty() && self.end.is_none() && !self.is_stopped
    }

    /// Returns whether it waits for a person's approval.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.end.is_none() && matches!(self.halt, Some((_, HaltState::Waits)))
    }

    /// The current task: the first open one.
    #[must_use]
    pub fn current(&self) -> Option<usize> {
        self.tasks.iter().position(|task| task.state == TaskState::Open)
    }

    /// The reason why the run doesn't accept a note, if there is one.
    #[must_use]
    pub fn note_problem(&self, text: &str) -> Option<String> {
        if text.trim().is_empty() || text.len() > NOTE_BYTES_MAX {
            return Some(format!("a note has between 1 and {NOTE_BYTES_MAX} bytes"));
        }
        let is_full = self.notes.len() >= NOTES_MAX;
        is_full.then(|| format!("{NOTES_MAX} notes wait for the run's next question already"))
    }

    /// Returns the event for a planner's answer. An answer without tasks is requested once more; the second time the goal becomes
    /// the only task.
    #[must_use]
    pub fn planned(&self, text: String) -> Event {
        if tasks(&text).is_empty() && self.plan_failures == 0 {
            return Event::Broke { why: NO_TASKS.into(), limit: None, is_loop: false };
        }
        Event::Planned { text }
    }

    /// Returns whether the last plan had no tasks.
    fn lacks_tasks(&self) -> bool {
        self.plan_failures > 0 && self.last_break == NO_TASKS
    }

    /// The state in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (&self.end, &self.halt) {
            (Some(end), _) => end.word(),
            (None, Some((_, HaltState::Waits))) => "halted",
            (None, _) if self.paused.is_some() => "paused",
            (None, _) if self.awaits_go() => "planned",
            (None, _) if self.tasks.is_empty() => "planning",
            (None, _) if self.current().is_some() => "working",
            (None, _) => "checking",
        }
    }

    /// Applies an event; its time is in Unix milliseconds.
    pub fn apply(&mut self, time: i64, event: &Event) {
        if self.goal.is_none() && !matches!(event, Event::Began { .. }) || self.end.is_some() && !event.reopens() {
            return;
        }
        self.count_time(time, event);
        match event {
            Event::Began { goal } => (self.goal, self.began) = (Some(goal.clone()), time),
            Event::Entered { pid: _ } => self.enter(),
            Event::Planning { conversation, .. } => {
                (self.is_asking, self.is_planning) = (true, true);
                self.ask(*conversation);
            }
            Event::Planned { text } => self.plan(text),
            Event::Working { conversation, .. } => {
                self.is_asking = true;
                self.sent = (self.notes.len(), self.decided.len());
                self.attempt.clear();
                self.was_cut_off = false;
                self.ask(*conversation);
            }
            Event::Calling { intent } => {
                self.calls += 1;
                // The planner's calls don't belong to an attempt at a task.
                if !self.is_planning {
                    self.attempt.push(CallDone { intent: intent.clone(), success: None });
                }
            }
            Event::Called { success } => {
                if let Some(call) = self.attempt.last_mut().filter(|_| !self.is_planning) {
                    call.success = Some(*success);
                }
            }
            Event::Delegated => self.steps += 1,
            Event::Worked { text, tree } => self.worked(text, tree),
            Event::Broke { why, limit, is_loop } => self.broke(why, limit.as_deref(), *is_loop),
            Event::Checked { check, status, tail, took_ms, again } => {
                let (status, took_ms) = (*status, *took_ms);
                self.checked(*check, CheckResult { status, tail: tail.clone(), took_ms, again: again.clone() });
            }
            Event::Inputs { digests, base } => self.compare_inputs(digests, base),
            Event::Reached { digests, unseen } => self.compare_reached(digests, unseen),
            Event::Go { checks } => self.go(checks),
            Event::Halted { .. }
            | Event::Approved { .. }
            | Event::Denied { .. }
            | Event::RunsHalted { .. }
            | Event::RanHalted { .. } => self.apply_to_halt(event),
            Event::Said { text } => {
                if self.notes.len() < NOTES_MAX {
                    self.notes.push(text.clone());
                }
            }
            Event::Paused { why } => self.pause(why),
            Event::Resumed => {
                (self.paused, self.is_estop) = (None, false);
                (self.breaks, self.plan_failures, self.noes) = (0, 0, 0);
            }
            Event::StopAsked => self.is_stopped = true,
            Event::Estop => {
                self.is_estop = true;
                self.pause("the emergency stop is on");
            }
            Event::Clocked { active_ms } => self.active_ms = *active_ms,
            Event::Raised { limits } => self.raise(limits),
            Event::Ended { end, why } => self.finish(End::of(end, why)),
            Event::Reported => self.is_reported = true,
        }
    }

    fn pause(&mut self, why: &str) {
        self.paused = Some(why.to_owned());
        self.cut();
    }

    fn finish(&mut self, end: End) {
        self.cut();
        (self.end, self.is_reported) = (Some(end), false);
    }

    fn compare_reached(&mut self, digests: &BTreeMap<String, String>, unseen: &[String]) {
        self.unseen = unseen.to_vec();
        let first = self.first_reached.get_or_insert_with(|| digests.clone());
        self.reached = changed(first, digests);
    }

    /// Applies an event about a call that needs a person.
    fn apply_to_halt(&mut self, event: &Event) {
        match event {
            Event::Halted { halt } => {
                (self.is_asking, self.is_planning) = (false, false);
                // A command that runs on a copy raises a second question about its changes: the approval of the command stays.
                if !matches!(self.halt, Some((_, HaltState::Runs))) {
                    self.approved.clear();
                }
                self.halts += 1;
                self.halt = Some((halt.clone(), HaltState::Waits));
            }
            Event::Approved { digest } => {
                if let Some((halt, state @ HaltState::Waits)) = &mut self.halt
                    && halt.digest == *digest
                {
                    *state = HaltState::Approved;
                    self.approved.push(digest.clone());
                }
            }
            Event::Denied { digest, why } => self.denied(digest, why),
            Event::RunsHalted { .. } => {
                // The call was counted when the model requested it.
                if let Some((_, state)) = &mut self.halt {
                    *state = HaltState::Runs;
                }
            }
            Event::RanHalted { result, steps } => {
                self.approved.clear();
                self.allowed_steps.extend(steps);
                if let Some((halt, _)) = self.halt.take() {
                    self.decided
                        .push(format!("The person allowed `{}`, and it was run for you: {result}", halt.intent));
                }
            }
            _ => {}
        }
    }

    fn count_time(&mut self, time: i64, event: &Event) {
        // The time between two processes, and the time of waiting, doesn't count as work.
        let counts = self.is_active() && !matches!(event, Event::Entered { .. });
        self.active_ms = work_ms(self.active_ms, self.last_time.filter(|_| counts), time);
        self.last_time = Some(time);
    }

    /// The time of work until `now`, in milliseconds.
    #[must_use]
    pub fn active_ms_at(&self, now: i64) -> u64 {
        work_ms(self.active_ms, self.last_time.filter(|_| self.is_active()), now)
    }

    fn ask(&mut self, conversation: Option<i64>) {
        self.steps += 1;
        self.conversations.extend(conversation);
    }

    /// Handles a new process that takes over the run: unfinished work of the previous process counts as interrupted.
    fn enter(&mut self) {
        self.cut();
        self.results.clear();
        if let Some((halt, HaltState::Runs)) = &self.halt {
            self.decided.push(format!(
                "The person allowed `{}`. ReedClaw ended while it ran: it may have happened or not. Look before you do \
                 anything like it again.",
                halt.intent
            ));
            self.halt = None;
        }
    }

    fn cut(&mut self) {
        self.was_cut_off |= std::mem::take(&mut self.is_asking) && !self.is_planning;
        self.is_planning = false;
    }

    fn plan(&mut self, text: &str) {
        (self.is_asking, self.is_planning, self.plan_failures) = (false, false, 0);
        let Some(goal) = &self.goal else { return };
        let found = tasks(text);
        self.tasks_left_out = task_count(text).saturating_sub(TASKS_MAX);
        // A plan without task lines is replaced by the goal as its only task.
        let texts = if found.is_empty() { vec![goal.text.clone()] } else { found };
        if self.awaits_go() {
            // The person changed the plan before anything was done.
            self.tasks.clear();
        }
        for task in self.tasks.iter_mut().filter(|task| task.state == TaskState::Open) {
            task.state = TaskState::Dropped;
        }
        if std::mem::take(&mut self.needs_plan) {
            self.replans += 1;
        }
        self.stalled = 0;
        self.proposed = if goal.checks.is_empty() { proposed_checks(text) } else { Vec::new() };
        let new = |text| Task { text, state: TaskState::Open, attempts: 0, last_words: String::new() };
        self.tasks.extend(texts.into_iter().map(new));
        self.results.clear();
    }

    /// Begins the work; accepted checks count like the person's own, and run before the work as those do.
    fn go(&mut self, checks: &[String]) {
        self.has_go = true;
        if let Some(goal) = self.goal.as_mut().filter(|goal| goal.checks.is_empty() && !checks.is_empty()) {
            goal.checks = checks.iter().take(CHECKS_MAX).cloned().collect();
            (self.inputs, self.first_reached) = (None, None);
        }
    }

    fn worked(&mut self, text: &str, tree: &str) {
        (self.is_asking, self.breaks) = (false, 0);
        let (notes, decided) = std::mem::take(&mut self.sent);
        self.notes.drain(..notes.min(self.notes.len()));
        self.decided.drain(..decided.min(self.decided.len()));
        tree.clone_into(&mut self.tree);
        if let Some(at) = self.current() {
            let task = &mut self.tasks[at];
            (task.state, task.attempts) = (TaskState::Claimed, task.attempts + 1);
            text.clone_into(&mut task.last_words);
        }
        self.results.clear();
    }

    fn broke(&mut self, why: &str, limit: Option<&str>, is_loop: bool) {
        self.was_cut_off |= self.is_asking && !self.is_planning;
        if self.is_planning {
            self.plan_failures += 1;
        } else {
            self.breaks += 1;
        }
        (self.is_asking, self.is_planning) = (false, false);
        self.over_limit = limit.map(str::to_owned);
        why.clone_into(&mut self.last_break);
        if is_loop && self.breaks >= BREAKS_MAX {
            self.stuck = Some(why.to_owned());
        }
    }

    fn denied(&mut self, digest: &str, why: &str) {
        if self.halt.as_ref().is_some_and(|(halt, state)| halt.digest == digest && *state == HaltState::Waits)
            && let Some((halt, _)) = self.halt.take()
        {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            self.noes = self.noes.saturating_add(1);
            self.decided.push(format!("The person said no to `{}`{why}: do without it.", halt.intent));
        }
    }

    fn checked(&mut self, check: usize, result: CheckResult) {
        let Some(goal) = &self.goal else { return };
        let count = goal.checks.len();
        let is_baseline = self.baseline.len() < count;
        let results = if is_baseline { &mut self.baseline } else { &mut self.results };
        if results.len() != check {
            return;
        }
        results.push(result);
        if is_baseline || self.results.len() < count {
            return;
        }
        self.last_results.clone_from(&self.results);
        let is_bent = !goal.allow_check_edits && self.results.iter().any(|result| result.bent().is_some());
        if self.results.iter().all(CheckResult::has_passed) {
            if is_bent {
                return;
            }
            for task in self.tasks.iter_mut().filter(|task| task.state == TaskState::Claimed) {
                task.state = TaskState::Checked;
            }
            return;
        }
        self.failed();
    }

    /// Handles a failed check after the last task: the last task is tried again, a new plan is made, or the run is stuck.
    fn failed(&mut self) {
        let Some(limits) = self.goal.as_ref().map(|goal| goal.limits.clone()) else { return };
        let failure: String = self.results.iter().map(without_numbers).collect();
        let state = (failure, self.tree.clone());
        if self.seen.contains(&state) {
            self.stalled += 1;
        } else {
            self.seen.push(state);
            self.stalled = 0;
        }
        self.results.clear();
        let Some(task) = self.tasks.iter_mut().rev().find(|task| task.state == TaskState::Claimed) else { return };
        task.state = TaskState::Open;
        if task.attempts < limits.attempts && self.stalled < limits.stall {
            return;
        }
        if self.replans < limits.replans {
            self.needs_plan = true;
            return;
        }
        let why = if self.stalled >= limits.stall {
            "the checks fail in the same way as before, with the same files".to_owned()
        } else {
            format!("the checks still fail after {} attempts and {} new plans", task.attempts, self.replans)
        };
        self.stuck = Some(why);
    }

    fn compare_inputs(&mut self, digests: &BTreeMap<String, String>, base: &str) {
        let Some(first) = &self.inputs else {
            self.inputs = Some(digests.clone());
            base.clone_into(&mut self.base);
            return;
        };
        // Only files that existed at first are compared: the goal may be to create a file that a check names.
        self.tampered = changed(first, digests);
    }

    /// Number of calls that may still run, if they are limited; an approved call was counted when the model requested it.
    #[must_use]
    pub fn calls_left(&self) -> Option<u64> {
        let most = self.goal.as_ref()?.limits.calls?;
        let own = u64::from(matches!(self.halt, Some((_, HaltState::Approved | HaltState::Runs))));
        Some(most.saturating_add(own).saturating_sub(self.calls))
    }

    fn raise(&mut self, limits: &Limits) {
        if let Some(goal) = &mut self.goal {
            goal.limits = limits.clone();
        }
        if self.may_get_more() {
            self.end = None;
        }
        (self.over_limit, self.stuck) = (None, None);
    }
}

/// The names whose digests have changed since the start.
fn changed(first: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    first.iter().filter(|(name, digest)| now.get(*name) != Some(digest)).map(|(name, _)| name.clone()).collect()
}

/// Returns whether a path looks like a test to the usual test programs.
#[must_use]
pub fn looks_like_test(path: &str) -> bool {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let is_place = |part: &str| matches!(part, "test" | "tests" | "__tests__" | "spec" | "specs");
    directories.split('/').any(is_place)
        || stem.starts_with("test_")
        || ["_test", "_spec", "Test"].iter().any(|end| stem.ends_with(end))
        || [".test.", ".spec."].iter().any(|part| name.contains(part))
}

/// A result without its digits: times and addresses differ each time although the failure is the same.
fn without_numbers(result: &CheckResult) -> String {
    let text: String = result.tail.chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{:?}\n{text}\n", result.status)
}
