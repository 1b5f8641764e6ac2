//! Carries out a run towards a goal: does the next thing that [`norris`] returns, and adds the result to the run's journal before
//! anything depends on it. It never prints, and asks only through a stand-in.

mod earlier;
mod hands;
pub(super) mod helper;
mod inputs;
mod review;
mod rust_tests;
mod share;
mod standin;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::rounds::REPEATED;
use super::stopwatch::Stopwatch;
use super::{Agent, Cancel};
use crate::gate::{CallsLeft, Grant, Stop};
use crate::model::ToolCall;
use crate::money::Limit;
use crate::norris::{self, Effect, Goal, Halt, Limits, Run, TAIL_BYTES_MAX, Used};
use crate::proto::action::{Autonomy, Risk};
use crate::proto::tool::{Outcome, Step};
use crate::proto::{Event, Failure, FailureKind, Money};
use crate::tools::served::{Changed, Servers};
use crate::tools::{DELEGATE_TOOL, EarlierFile};

use earlier::{EarlierTests, earlier_tests};
use review::Reviewer;

pub(super) use share::Share;
pub use standin::WAITS;
pub(super) use standin::{Calls, StandIn};

/// Poll interval of the journal for a person's decision while a model works.
const POLL: Duration = Duration::from_millis(50);
/// Beginning of the result of an approved call that was cut short.
const CUT_CALL: &str = "it was cut off while it ran: it may have happened or not, so look before anything like it. ";
/// Maximum size of an answer in the journal, in bytes.
const SAID_BYTES_MAX: usize = 8 * 1024;
/// The way on from a check that may not run, which nothing changes in this run.
pub const NEEDS_OTHER_CHECK: &str = "begin a new run with another --check";
/// The part of a run's cost that is work on its tasks.
const STEP: &str = "norris-step";
/// Characters of a call's result that the next question carries.
const RESULT_CHARS_MAX: usize = 2_000;

/// The events of one run, on disk. Other processes may add to it.
pub trait Journal: Sync {
    /// Adds an event; it is on disk when this returns.
    ///
    /// # Errors
    /// It can't be stored: nothing may depend on it.
    fn add(&self, event: &norris::Event) -> Result<(), Failure>;

    /// Reads the events after number `after`: number, time, event.
    ///
    /// # Errors
    /// They can't be read.
    fn events(&self, after: i64) -> Result<Vec<(i64, i64, norris::Event)>, Failure>;

    /// Returns the run's use of its limits, and the present time.
    ///
    /// # Errors
    /// It can't be known.
    fn used(&self) -> Result<Used, Failure>;

    /// The present time, Unix milliseconds.
    fn now(&self) -> i64;

    /// The number of the run.
    fn run(&self) -> i64;
}

/// An observer of a run.
pub trait Watcher {
    /// The run is about to do something.
    fn begins(&mut self, run: &Run, effect: &Effect);

    /// Something happened in the question at hand.
    fn event(&mut self, event: Event);
}

/// The commits of a run on a git session: one for each attempt at a task.
pub trait Turns {
    /// An attempt begins.
    ///
    /// # Errors
    /// The session can't be written.
    fn begin(&mut self, agent: &Agent, task: &str) -> Result<(), Failure>;

    /// An attempt is over: its changes become a commit.
    ///
    /// # Errors
    /// The commit can't be made.
    fn end(&mut self, agent: &Agent, task: &str) -> Result<(), Failure>;
}

/// Sees the events of questions alone.
impl<F: FnMut(Event)> Watcher for F {
    fn begins(&mut self, _: &Run, _: &Effect) {}

    fn event(&mut self, event: Event) {
        self(event);
    }
}

/// The treatment of a call beyond the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHalt {
    /// The run halts, and waits for a person.
    Halt,
    /// The call is denied, and the run continues without it.
    Deny,
}

/// The parts of a run's work.
pub struct Work<'a> {
    /// Its journal.
    pub journal: &'a dyn Journal,
    /// The watcher of its events.
    pub watcher: &'a mut dyn Watcher,
    /// The word for calls beyond the grant.
    pub on_halt: OnHalt,
    /// Stops it.
    pub cancel: &'a Cancel,
    /// The git session that it works on.
    pub turns: Option<&'a mut (dyn Turns + 'static)>,
}

/// Returns whether a run can work: tools are there, and the models that it names. A run begins only then.
///
/// # Errors
/// An explanation of what is missing.
pub fn ready(agent: &mut Agent, goal: &Goal) -> Result<(), Failure> {
    if let Some(message) = goal.problem() {
        return Err(Failure::user(message));
    }
    agent.answering()?;
    let names = [&goal.planner, &goal.executor, &goal.reviewer];
    let first = agent.current_model().map(str::to_owned);
    let known = names.into_iter().filter(|name| !name.is_empty()).try_for_each(|name| agent.use_model(name));
    if let Some(first) = first {
        agent.use_model(&first)?;
    }
    known?;
    agent.runner().map(|_| ()).ok_or_else(no_tools)
}

/// Works until the run ends, halts or pauses; returns its state.
///
/// # Errors
/// The journal can't be read or written, no model can answer, or there are no tools.
pub fn work(agent: &mut Agent, work: Work<'_>) -> Result<Run, Failure> {
    let Work { journal, watcher, on_halt, cancel, turns } = work;
    let first = agent.current_model().map(str::to_owned);
    let (run, worked) = (Run::default(), Stopwatch::after(0));
    let calls = CallsLeft::default();
    let mut driver = Driver { agent, journal, watcher, on_halt, cancel, turns, run, seen: 0, first, worked, calls };
    driver.sync()?;
    let done = driver.enter().and_then(|()| driver.work());
    let Driver { agent, run, first, .. } = driver;
    agent.charge_run(None, Limit::default());
    agent.answer_as(None);
    if let Some(runner) = agent.runner() {
        runner.gate().grant(None);
        runner.work_for(None);
        runner.lend_helper(None);
    }
    if let Some(first) = first {
        agent.use_model(&first)?;
    }
    done.map(|()| run)
}

struct Driver<'a> {
    agent: &'a mut Agent,
    journal: &'a dyn Journal,
    watcher: &'a mut dyn Watcher,
    on_halt: OnHalt,
    cancel: &'a Cancel,
    turns: Option<&'a mut (dyn Turns + 'static)>,
    run: Run,
    /// The newest event that the run knows.
    seen: i64,
    /// The model that answered before.
    first: Option<String>,
    /// The time of its work.
    worked: Stopwatch,
    /// Calls that the gate still lets through.
    calls: CallsLeft,
}

/// Reason why a question was cut short.
const BY_JOURNAL: u8 = 1;
const BY_TIME: u8 = 2;
const BY_ESTOP: u8 = 3;
const BY_BLOCKED: u8 = 4;
/// Calls in an attempt that the policy never allows; then the model has lost its way.
const BLOCKED_MAX: usize = 3;

/// End of a question.
struct Asked {
    text: Option<String>,
    failure: Option<Failure>,
    halt: Option<Halt>,
    cut: u8,
    /// The limits at its beginning.
    limits: Limits,
}

impl Driver<'_> {
    fn goal(&self) -> Goal {
        self.run.goal.clone().unwrap_or_default()
    }

    fn sync(&mut self) -> Result<(), Failure> {
        for (seq, time, event) in self.journal.events(self.seen)? {
            self.run.apply(time, &event);
            self.seen = seq;
        }
        Ok(())
    }

    fn add(&mut self, event: &norris::Event) -> Result<(), Failure> {
        self.journal.add(event)?;
        self.sync()
    }

    fn enter(&mut self) -> Result<(), Failure> {
        self.add(&norris::Event::Entered { pid: std::process::id() })?;
        self.worked = Stopwatch::after(self.run.active_ms);
        let goal = self.goal();
        let granted = &goal.grant;
        let commands: Vec<String> = granted.commands.iter().chain(&goal.checks).cloned().collect();
        let mut protect = goal.protect.clone();
        protect.extend(inputs::NEVER_GRANTED.map(str::to_owned));
        let runner = self.agent.runner().ok_or_else(no_tools)?;
        if !goal.allow_check_edits {
            protect.extend(runner.check_inputs(&goal.checks, &[]).named.into_keys().map(|path| escaped(&path)));
            protect.extend(inputs::anywhere(&goal.checks));
        }
        let grant = Grant::new(&granted.writes, &protect, &commands, &goal.checks, self.calls.clone());
        let grant = grant.map_err(|error| {
            Failure::user(format!("the grant can't be understood: {error}")).hint("patterns are like src/** or *.py")
        })?;
        runner.gate().grant(Some(grant));
        runner.work_for(Some(self.journal.run()));
        Ok(())
    }

    fn work(&mut self) -> Result<(), Failure> {
        loop {
            self.sync()?;
            if let Some(runner) = self.agent.runner()
                && self.run.is_active()
                && (runner.gate().stop().clone())().is_some()
            {
                self.add(&norris::Event::Estop)?;
            }
            let used = self.journal.used()?;
            if self.run.is_active()
                && let Some(active_ms) = self.worked.correction(self.run.active_ms_at(used.now))
            {
                self.add(&norris::Event::Clocked { active_ms })?;
            }
            let effect = self.run.next(&used);
            self.watcher.begins(&self.run, &effect);
            match effect {
                Effect::Over(_) | Effect::Rest(_) => return Ok(()),
                Effect::Finish(end) => {
                    let (end, why) = (end.word().to_owned(), end.why().to_owned());
                    self.add(&norris::Event::Ended { end, why })?;
                }
                Effect::Pause(why) => self.add(&norris::Event::Paused { why })?,
                Effect::Digest => self.digest()?,
                Effect::Check(number) => self.check(number)?,
                Effect::Plan => self.plan()?,
                Effect::Work { task, is_escalated } => self.task(task, is_escalated)?,
                Effect::RunHalted(halt) => self.run_halted(&halt)?,
            }
        }
    }

    fn digest(&mut self) -> Result<(), Failure> {
        let goal = self.goal();
        let runner = self.agent.runner().ok_or_else(no_tools)?;
        let hands::CheckInputs { named, reached, unseen } = runner.check_inputs(&goal.checks, &goal.protect);
        let base = runner.base();
        if !(reached.is_empty() && unseen.is_empty() && self.run.reached.is_empty()) {
            self.add(&norris::Event::Reached { digests: reached, unseen })?;
        }
        self.add(&norris::Event::Inputs { digests: named, base })
    }

    fn check(&mut self, number: usize) -> Result<(), Failure> {
        let goal = self.goal();
        let Some(command) = goal.checks.get(number) else { return Ok(()) };
        let is_last = self.run.baseline.len() == goal.checks.len();
        if is_last {
            // No check would see the changes that a job makes after the check has started.
            let ended = self.agent.runner().ok_or_else(no_tools)?.end_jobs();
            ended.iter().for_each(|it| self.watcher.event(Event::Notice(format!("ended before the checks: `{it}`"))));
        }
        let check_began = Instant::now();
        let Some(outcome) = self.ran_check(command, &[])? else { return Ok(()) };
        let took_ms = u64::try_from(check_began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.digest()?;
        let mut again = None;
        if is_last && outcome.success && !goal.allow_check_edits {
            let runner = self.agent.runner().ok_or_else(no_tools)?;
            let tests = earlier_tests(runner, &self.run, self.journal.run());
            let files = tests.names();
            if !files.is_empty() {
                let Some(status) = self.status_with(command, &tests)? else { return Ok(()) };
                again = Some(norris::Again { files, status });
            }
        }
        let (status, tail) = (status_of(&outcome), tail_of(&outcome.output));
        self.add(&norris::Event::Checked { check: number, status, tail, took_ms, again })
    }

    /// Runs a check that has passed once more, with its tests as they were when the run began; returns its exit status, or
    /// nothing if it was cut short.
    fn status_with(&mut self, command: &str, tests: &EarlierTests) -> Result<Option<Option<i32>>, Failure> {
        if !tests.unknown.is_empty() {
            return Ok(Some(None));
        }
        let names = norris::names_of(&tests.names());
        self.watcher.event(Event::Notice(format!("checking again with the first version of {names}")));
        Ok(self.ran_check(command, &tests.files)?.map(|outcome| status_of(&outcome)))
    }

    /// Runs a check, on a copy in which these files are as they were earlier; returns nothing if it was cut short.
    fn ran_check(&mut self, command: &str, earlier: &[EarlierFile]) -> Result<Option<Outcome>, Failure> {
        let (outcome, cut) = self.watched(|driver, _| {
            let (watcher, cancel) = (&mut *driver.watcher, driver.cancel);
            let runner = driver.agent.runner().ok_or_else(no_tools)?;
            Ok(runner.goal_check(command, earlier, cancel, &mut super::Nobody, &mut |event| watcher.event(event)))
        })?;
        match cut {
            0 if self.cancel.is_cancelled() => self.interrupted()?,
            0 => {
                if let Some(error) = outcome.error.as_ref().filter(|error| error.code == "denied") {
                    let message = format!("the check `{command}` may not run: {}", error.message);
                    return Err(Failure::refused(message).hint(NEEDS_OTHER_CHECK));
                }
                return Ok(Some(outcome));
            }
            // It has no result: it runs again if the run continues.
            BY_ESTOP => {
                self.cancel.rearm();
                self.add(&norris::Event::Estop)?;
            }
            _ => {
                self.cancel.rearm();
                self.sync()?;
            }
        }
        Ok(None)
    }

    fn plan(&mut self) -> Result<(), Failure> {
        let goal = self.goal();
        let model = self.use_model(&goal.planner, &goal.executor)?;
        let executor = [goal.executor.as_str(), self.first.as_deref().unwrap_or_default()].into_iter();
        let executor = executor.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let question = norris::plan_question(&self.run, !self.agent.is_farther(&goal.planner, executor));
        let conversation = self.fresh();
        self.add(&norris::Event::Planning { model, conversation })?;
        let category = if self.run.needs_plan { "norris-replan" } else { "norris-preplan" };
        // A planner reads and changes nothing.
        let ceiling = self.agent.runner().ok_or_else(no_tools)?.gate().ceiling().clone();
        let before = ceiling.lowered(Autonomy::Full);
        ceiling.set(Autonomy::Readonly);
        let journal = self.journal;
        let asked = self.ask(&question, category, &mut |event| journal.add(event));
        ceiling.set(before);
        let run = self.run.clone();
        self.concluded(asked?, |text, _| run.planned(text))
    }

    fn task(&mut self, task: usize, is_escalated: bool) -> Result<(), Failure> {
        let goal = self.goal();
        let model = if is_escalated { &goal.planner } else { &goal.executor };
        let model = self.use_model(model, &goal.executor)?;
        let question = norris::anchor(&self.run, task);
        let conversation = self.fresh();
        self.add(&norris::Event::Working { task, model, conversation })?;
        let journal = self.journal;
        let text = self.run.tasks.get(task).map(|task| task.text.clone()).unwrap_or_default();
        self.begin_turn(&text)?;
        let asked = self.ask(&question, STEP, &mut |event| journal.add(event));
        self.end_turn(&text)?;
        let (asked, began) = (asked?, self.run.began);
        self.concluded(asked, |text, runner| norris::Event::Worked { text, tree: runner.state_since(began) })
    }

    /// Adds the result of a question.
    fn concluded(
        &mut self,
        asked: Asked,
        answered: impl FnOnce(String, &super::ToolRunner) -> norris::Event,
    ) -> Result<(), Failure> {
        let Asked { text, failure, halt, cut, limits } = asked;
        self.sync()?;
        if let Some(halt) = halt {
            self.cancel.rearm();
            return self.add(&norris::Event::Halted { halt });
        }
        if cut == BY_TIME {
            self.cancel.rearm();
            return self.out_of_time();
        }
        if cut == BY_ESTOP {
            self.cancel.rearm();
            return self.add(&norris::Event::Estop);
        }
        if cut == BY_BLOCKED {
            self.cancel.rearm();
            let why = format!("{BLOCKED_MAX} calls that are never allowed");
            return self.add(&norris::Event::Broke { why, limit: None, is_loop: true });
        }
        if cut == BY_JOURNAL {
            self.cancel.rearm();
            return self.sync();
        }
        if let Some(mut text) = text {
            let runner = self.agent.runner().ok_or_else(no_tools)?;
            text.truncate(text.floor_char_boundary(SAID_BYTES_MAX));
            let event = answered(text, runner);
            return self.add(&event);
        }
        let Some(failure) = failure else { return self.interrupted() };
        match failure.kind {
            FailureKind::NoModel | FailureKind::Config | FailureKind::User | FailureKind::Refused => Err(failure),
            kind => {
                let is_loop = failure.message.starts_with(REPEATED);
                // If a limit was changed while it worked, the next question is judged by the new one.
                let is_limit = kind == FailureKind::Budget && limits == self.goal().limits;
                let limit = is_limit.then(|| failure.message.clone());
                self.add(&norris::Event::Broke { why: failure.message, limit, is_loop })
            }
        }
    }

    /// Runs the call that the person approved: it is planned and judged again, and must be exactly the same.
    fn run_halted(&mut self, halt: &Halt) -> Result<(), Failure> {
        self.add(&norris::Event::RunsHalted { digest: halt.digest.clone() })?;
        let mut person = StandIn::new(OnHalt::Halt, self.cancel.clone(), self.run.approved.clone());
        let call = ToolCall { id: "approved".into(), name: halt.tool.clone(), arguments: halt.arguments.clone() };
        self.begin_turn(&halt.intent)?;
        let before = self.steps_after(0)?.last().copied().unwrap_or_default();
        let (outcome, cut) = self.watched(|driver, _| {
            let (watcher, cancel) = (&mut *driver.watcher, driver.cancel);
            let runner = driver.agent.runner().ok_or_else(no_tools)?;
            runner.prepare(cancel, &mut |event| watcher.event(event));
            Ok(runner.call(&call, halt.conversation, cancel, &mut person, &mut |event| watcher.event(event)))
        })?;
        self.end_turn(&halt.intent)?;
        if let Some(again) = person.halt.take() {
            self.cancel.rearm();
            let halt = Halt {
                tool: halt.tool.clone(),
                arguments: halt.arguments.clone(),
                intent: halt.intent.clone(),
                conversation: halt.conversation,
                ..again
            };
            return self.add(&norris::Event::Halted { halt });
        }
        let last = outcome.output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let why = outcome.error.as_ref().map_or_else(|| last.to_owned(), ToString::to_string);
        let done = if outcome.success { "it is done".to_owned() } else { format!("it failed: {why}") };
        self.watcher.event(Event::Notice(done));
        let error = outcome.error.as_ref().map(|error| format!("it failed: {error}\n")).unwrap_or_default();
        let output: String = outcome.output.chars().take(RESULT_CHARS_MAX).collect();
        let unknown = if cut == 0 || outcome.success { "" } else { CUT_CALL };
        let (result, steps) = (format!("{unknown}{error}{output}"), self.steps_after(before)?);
        self.add(&norris::Event::RanHalted { result, steps })?;
        if cut != 0 {
            self.cancel.rearm();
        }
        match cut {
            BY_TIME => self.out_of_time(),
            BY_ESTOP => self.add(&norris::Event::Estop),
            _ => Ok(()),
        }
    }

    /// Returns the run's undo steps after one of them.
    fn steps_after(&mut self, step: u64) -> Result<Vec<u64>, Failure> {
        let run = self.journal.run();
        Ok(self.agent.runner().ok_or_else(no_tools)?.keeper.steps_after(run, step))
    }

    /// The minutes are used up, by a clock that can't be set.
    fn out_of_time(&mut self) -> Result<(), Failure> {
        let limit = self.goal().limits.minutes.unwrap_or_default();
        let worked = Duration::from_millis(self.worked.worked_ms()).as_secs_f64() / 60.0;
        let why = format!("minutes: {:.2} of {limit}", worked.max(limit));
        self.add(&norris::Event::Broke { why: why.clone(), limit: Some(why), is_loop: false })
    }

    /// Does something that a person, the time or the emergency stop may cut short; returns which of them did.
    fn watched<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &AtomicU8) -> Result<T, Failure>,
    ) -> Result<(T, u8), Failure> {
        self.calls.set(self.run.calls_left());
        let stop = self.agent.runner().ok_or_else(no_tools)?.gate().stop().clone();
        let (cut, calls) = (AtomicU8::new(0), self.calls.clone());
        let (journal, cancel, worked, run) = (self.journal, self.cancel, self.worked, self.run.clone());
        let watch = Watch { journal, run, seen: self.seen, worked, calls, stop, cut: &cut, cancel };
        let done = std::thread::scope(|scope| {
            let (done, is_done) = channel::<()>();
            scope.spawn(move || watch.until(&is_done));
            let result = work(self, &cut);
            drop(done);
            result
        })?;
        Ok((done, cut.into_inner()))
    }

    /// The second opinion on calls of the question that begins, if the goal names a model for it.
    fn reviewer(&self, limit: Limit) -> Option<Reviewer> {
        let goal = self.run.goal.as_ref().filter(|goal| !goal.reviewer.is_empty())?;
        let writer = self.agent.writer(&goal.reviewer, limit)?.stopped_by(self.cancel.clone());
        let mut recorder = self.agent.recorder_beside()?;
        recorder.charge(Some((self.journal.run(), review::CATEGORY)));
        Some(Reviewer::new(writer, recorder, &goal.text))
    }

    /// Lets the executor delegate side work, within a fifth of what is left.
    fn lend_helper(&mut self, category: &'static str, limit: Limit, left_ms: Option<u64>) -> Result<(), Failure> {
        let goal = self.goal();
        let share = Share {
            run: self.journal.run(),
            category,
            limit,
            questions_left: goal.limits.steps.map(|most| most.saturating_sub(self.run.steps)),
            until: left_ms.and_then(in_ms),
        };
        let runner = self.agent.runner().ok_or_else(no_tools)?;
        runner.lend_helper((goal.delegates && category == STEP).then_some(share));
        Ok(())
    }

    fn begin_turn(&mut self, task: &str) -> Result<(), Failure> {
        self.turns.as_mut().map_or(Ok(()), |turns| turns.begin(self.agent, task))
    }

    fn end_turn(&mut self, task: &str) -> Result<(), Failure> {
        self.turns.as_mut().map_or(Ok(()), |turns| turns.end(self.agent, task))
    }

    fn interrupted(&mut self) -> Result<(), Failure> {
        self.add(&norris::Event::Paused { why: "it was interrupted".into() })
    }

    /// Begins a new conversation.
    fn fresh(&mut self) -> Option<i64> {
        self.agent.clear_conversation();
        self.agent.begin().map(|id| id.0)
    }

    /// Sets the model that answers: this one, or the other one if none is named, else the one that answered before.
    fn use_model(&mut self, name: &str, other: &str) -> Result<String, Failure> {
        let name = [name, other, self.first.as_deref().unwrap_or_default()].into_iter().find(|it| !it.is_empty());
        if let Some(name) = name {
            self.agent.use_model(name)?;
        }
        Ok(self.agent.current_model().unwrap_or_default().to_owned())
    }

    /// Asks, within the run's limits, and until a person or the time cuts it short.
    fn ask(
        &mut self,
        question: &str,
        category: &'static str,
        note: &mut dyn FnMut(&norris::Event) -> Result<(), Failure>,
    ) -> Result<Asked, Failure> {
        let goal = self.goal();
        let limit = Limit { money: goal.limits.usd.map(Money::from_usd), tokens: goal.limits.tokens };
        self.agent.charge_run(Some((self.journal.run(), category)), limit);
        let mut person = StandIn::new(self.on_halt, self.cancel.clone(), Vec::new());
        person.reviewer = self.reviewer(limit);
        let calls = person.calls();
        let conversation = self.agent.conversation().map(|id| id.0);
        let left_ms = left_ms(&self.run, self.worked);
        self.lend_helper(category, limit, left_ms)?;
        let servers = self.agent.runner().ok_or_else(no_tools)?.servers().cloned();
        let servers = servers.filter(|_| self.on_halt == OnHalt::Halt);
        let (mut text, mut failure, mut broken, mut blocked, mut changed) = (None, None, None, 0, None);
        let ((), cut) = self.watched(|driver, cut| {
            let (agent, watcher, cancel) = (&mut *driver.agent, &mut *driver.watcher, driver.cancel);
            let mut sink = |event: Event| {
                for event in journal_events(&event) {
                    if let Err(failure) = note(&event) {
                        // Without a record the run can't continue.
                        broken.get_or_insert(failure);
                        cancel.cancel();
                    }
                }
                calls.sees(&event);
                blocked += usize::from(is_blocked(&event));
                if blocked == BLOCKED_MAX {
                    cut_by(BY_BLOCKED, cut, cancel);
                }
                let servers = servers.as_ref().filter(|_| changed.is_none());
                if let Some((tool, found)) = servers.and_then(|it| changed_tool(it, &event)) {
                    changed = Some(calls.halt_of_changed(tool, found));
                    cancel.cancel();
                }
                match &event {
                    Event::Answered { text: whole, .. } => text = Some(whole.clone()),
                    Event::Failed { failure: why, .. } => failure = Some(why.clone()),
                    _ => {}
                }
                watcher.event(event);
            };
            agent.ask_with(question, cancel, &mut sink, &mut person);
            Ok(())
        })?;
        if let Some(failure) = broken {
            return Err(failure);
        }
        let halt = person.halt.take().or(changed).map(|halt| Halt { conversation, ..halt });
        Ok(Asked { text, failure, halt, cut, limits: goal.limits })
    }
}

/// Watches for reasons to cut short a question, a check or an approved call.
struct Watch<'w> {
    journal: &'w dyn Journal,
    /// The run as it is now, and its newest event.
    run: Run,
    seen: i64,
    /// The time of the run's work, by a clock that can't be set.
    worked: Stopwatch,
    /// Calls that the gate still lets through.
    calls: CallsLeft,
    stop: Stop,
    cut: &'w AtomicU8,
    cancel: &'w Cancel,
}

impl Watch<'_> {
    fn until(mut self, is_done: &Receiver<()>) {
        let mut is_changed = false;
        while is_done.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
            is_changed |= self.look();
            if let Some(active_ms) = self.worked.correction(self.run.active_ms_at(self.journal.now())) {
                // If it can't be stored now, the run's next step adds it.
                let clocked = norris::Event::Clocked { active_ms };
                let _ = self.journal.add(&clocked);
                self.run.apply(self.journal.now(), &clocked);
            }
            let reason = if left_ms(&self.run, self.worked) == Some(0) {
                BY_TIME
            } else if self.run.is_stopped || self.run.paused.is_some() || is_changed && self.is_spent() {
                BY_JOURNAL
            } else if (self.stop)().is_some() {
                BY_ESTOP
            } else {
                continue;
            };
            return cut_by(reason, self.cut, self.cancel);
        }
    }

    /// Reads the newest events; other limits hold at once. Returns whether there were any.
    fn look(&mut self) -> bool {
        let mut is_changed = false;
        for (seq, time, event) in self.journal.events(self.seen).unwrap_or_default() {
            self.run.apply(time, &event);
            self.seen = seq;
            is_changed |= matches!(event, norris::Event::Raised { .. });
        }
        if is_changed {
            self.calls.set(self.run.calls_left());
        }
        is_changed
    }

    /// Returns whether limits of money or tokens that were changed meanwhile are used up: the question itself knows the
    /// old ones.
    fn is_spent(&self) -> bool {
        let limits = self.run.goal.as_ref().map(|goal| goal.limits.clone()).unwrap_or_default();
        self.journal.used().is_ok_and(|used| {
            limits.usd.is_some_and(|most| used.usd >= most) || limits.tokens.is_some_and(|most| used.tokens >= most)
        })
    }
}

/// The time that is left of a run's minutes.
fn left_ms(run: &Run, worked: Stopwatch) -> Option<u64> {
    let minutes = run.goal.as_ref()?.limits.minutes?;
    let most = Duration::try_from_secs_f64((minutes * 60.0).max(0.0)).unwrap_or(Duration::MAX).as_millis();
    Some(u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(worked.worked_ms()))
}

/// Cuts a question short for the first reason.
fn cut_by(reason: u8, cut: &AtomicU8, cancel: &Cancel) {
    if cut.compare_exchange(0, reason, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        cancel.cancel();
    }
}

/// Returns whether an event is the end of a call that the policy never allows.
fn is_blocked(event: &Event) -> bool {
    let Event::Tool(tool) = event else { return false };
    let Step::Done { outcome, .. } = &tool.step else { return false };
    outcome.metadata.get("risk").is_some_and(|risk| *risk == Risk::Blocked.word())
}

/// The tool of a call that was refused, if it has changed since a person allowed it.
fn changed_tool<'e>(servers: &Servers, event: &'e Event) -> Option<(&'e str, Changed)> {
    let Event::Tool(tool) = event else { return None };
    let Step::Done { outcome, .. } = &tool.step else { return None };
    let changed = servers.changed(&tool.tool).filter(|_| !outcome.success)?;
    Some((&tool.tool, changed))
}

/// The journal's events for a step of a call.
fn journal_events(event: &Event) -> Vec<norris::Event> {
    let Event::Tool(tool) = event else { return Vec::new() };
    match &tool.step {
        Step::Requested { intent, .. } => vec![norris::Event::Calling { intent: intent.chars().take(500).collect() }],
        Step::Done { outcome, .. } => {
            let mut events = vec![norris::Event::Called { success: outcome.success }];
            events.extend((outcome.success && tool.tool == DELEGATE_TOOL).then_some(norris::Event::Delegated));
            events
        }
        Step::Approved | Step::Denied { .. } => Vec::new(),
    }
}

/// A pattern that matches this path alone.
fn escaped(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    path.chars().flat_map(|c| "*?[]{}\\!".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Returns the time this far from now; `None` if the clock can't represent it.
fn in_ms(ms: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(ms))
}

fn status_of(outcome: &Outcome) -> Option<i32> {
    let status = outcome.metadata.get("exitCode").and_then(serde_json::Value::as_i64)?;
    i32::try_from(status).ok()
}

fn tail_of(output: &str) -> String {
    let from = output.len().saturating_sub(TAIL_BYTES_MAX);
    output[output.ceil_char_boundary(from)..].to_owned()
}

fn no_tools() -> Failure {
    Failure::config("a run needs tools, and there are none").hint("tools_allow.agent in the config lists them")
}
