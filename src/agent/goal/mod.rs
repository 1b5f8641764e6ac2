//! Carries out a run towards a goal: does what [`norris`] says is next, and adds what came of it to the run's journal before
//! anything follows from it. It never prints, and asks nobody but through a stand-in.

mod hands;
mod inputs;
mod standin;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::rounds::REPEATED;
use super::{Agent, Cancel};
use crate::gate::Grant;
use crate::model::ToolCall;
use crate::money::Limit;
use crate::norris::{self, Effect, Goal, Halt, Run, TAIL_BYTES_MAX, Used};
use crate::proto::action::Autonomy;
use crate::proto::tool::Step;
use crate::proto::{Event, Failure, FailureKind, Money};

pub(super) use standin::{Calls, StandIn};

/// Interval at which the journal is looked at for a person's word while a model works.
const POLL: Duration = Duration::from_millis(100);
/// Bytes of an answer that the journal keeps.
const SAID_BYTES_MAX: usize = 8 * 1024;
/// Characters of a call's result that the next question carries.
const RESULT_CHARS_MAX: usize = 2_000;

/// The events of one run, on disk. Other processes may add to it.
pub trait Journal: Sync {
    /// Adds an event; it is on disk when this returns.
    ///
    /// # Errors
    /// It can't be kept: nothing may follow from it.
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

/// Somebody who sees a run.
pub trait Watcher {
    /// The run is about to do something.
    fn begins(&mut self, run: &Run, effect: &Effect);

    /// Something happened in the question at hand.
    fn event(&mut self, event: Event);
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
    /// Denied, and the run goes on without it.
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
}

/// Whether a run can work: tools are there, and the models that it names. A run begins only then.
///
/// # Errors
/// Says what is missing.
pub fn ready(agent: &mut Agent, goal: &Goal) -> Result<(), Failure> {
    agent.answering()?;
    let names = [&goal.planner, &goal.executor];
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
    let Work { journal, watcher, on_halt, cancel } = work;
    let first = agent.current_model().map(str::to_owned);
    let mut driver = Driver { agent, journal, watcher, on_halt, cancel, run: Run::default(), seen: 0, first };
    driver.sync()?;
    let done = driver.enter().and_then(|()| driver.work());
    let Driver { agent, run, first, .. } = driver;
    agent.charge(None, Limit::default());
    agent.answer_as(None);
    if let Some(runner) = agent.runner() {
        runner.gate().grant(None);
        runner.work_for(None);
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
    run: Run,
    /// The newest event that the run knows.
    seen: i64,
    /// The model that answered before.
    first: Option<String>,
}

/// Reason why a question was cut short.
const BY_JOURNAL: u8 = 1;
const BY_TIME: u8 = 2;

/// End of a question.
struct Asked {
    text: Option<String>,
    failure: Option<Failure>,
    halt: Option<Halt>,
    cut: u8,
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
        let goal = self.goal();
        let calls_left = goal.limits.calls.map(|most| most.saturating_sub(self.run.calls));
        let granted = &goal.grant;
        let commands: Vec<String> = granted.commands.iter().chain(&goal.checks).cloned().collect();
        let mut protect = goal.protect.clone();
        protect.extend(inputs::NEVER_GRANTED.map(str::to_owned));
        let runner = self.agent.runner().ok_or_else(no_tools)?;
        protect.extend(runner.check_inputs(&goal.checks, &[]).into_keys().map(|path| escaped(&path)));
        let grant = Grant::new(&granted.writes, &protect, &commands, &goal.checks, calls_left);
        let grant = grant.map_err(|error| Failure {
            kind: FailureKind::User,
            message: format!("the grant can't be understood: {error}"),
            hint: "patterns are like src/** or *.py".into(),
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
            let effect = self.run.next(&self.journal.used()?);
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
        let digests = runner.check_inputs(&goal.checks, &goal.protect);
        self.add(&norris::Event::Inputs { digests })
    }

    fn check(&mut self, number: usize) -> Result<(), Failure> {
        let goal = self.goal();
        let Some(command) = goal.checks.get(number) else { return Ok(()) };
        let began = self.journal.now();
        let watcher = &mut *self.watcher;
        let runner = self.agent.runner().ok_or_else(no_tools)?;
        let outcome = runner.goal_check(command, self.cancel, &mut super::Nobody, &mut |event| watcher.event(event));
        if self.cancel.is_cancelled() {
            return self.interrupted();
        }
        if let Some(error) = outcome.error.as_ref().filter(|error| error.code == "denied") {
            return Err(Failure {
                kind: FailureKind::Refused,
                message: format!("the check `{command}` may not run: {}", error.message),
                hint: "choose another check".into(),
            });
        }
        let status = outcome.metadata.get("exitCode").and_then(serde_json::Value::as_i64);
        let status = status.and_then(|status| i32::try_from(status).ok());
        let took_ms = u64::try_from(self.journal.now() - began).unwrap_or(0);
        let tail = tail_of(&outcome.output);
        self.digest()?;
        self.add(&norris::Event::Checked { check: number, status, tail, took_ms })
    }

    fn plan(&mut self) -> Result<(), Failure> {
        let goal = self.goal();
        let model = self.use_model(&goal.planner, &goal.executor)?;
        let question = norris::plan_question(&self.run);
        let conversation = self.fresh();
        self.add(&norris::Event::Planning { model, conversation })?;
        let category = if self.run.needs_plan { "norris-replan" } else { "norris-preplan" };
        // A planner looks and doesn't act.
        let ceiling = self.agent.runner().ok_or_else(no_tools)?.gate().ceiling().clone();
        let before = ceiling.lowered(Autonomy::Full);
        ceiling.set(Autonomy::Readonly);
        let asked = self.ask(&question, category, &mut |_| Ok(()));
        ceiling.set(before);
        self.concluded(asked?, |text, _| norris::Event::Planned { text })
    }

    fn task(&mut self, task: usize, is_escalated: bool) -> Result<(), Failure> {
        let goal = self.goal();
        let model = if is_escalated { &goal.planner } else { &goal.executor };
        let model = self.use_model(model, &goal.executor)?;
        let question = norris::anchor(&self.run, task);
        let conversation = self.fresh();
        self.add(&norris::Event::Working { task, model, conversation })?;
        let journal = self.journal;
        let asked = self.ask(&question, "norris-step", &mut |event| journal.add(event))?;
        let began = self.run.began;
        self.concluded(asked, |text, runner| norris::Event::Worked { text, tree: runner.state_since(began) })
    }

    /// Adds what came of a question.
    fn concluded(
        &mut self,
        asked: Asked,
        answered: impl FnOnce(String, &super::ToolRunner) -> norris::Event,
    ) -> Result<(), Failure> {
        let Asked { text, failure, halt, cut } = asked;
        if let Some(halt) = halt {
            self.cancel.rearm();
            return self.add(&norris::Event::Halted { halt });
        }
        if cut == BY_TIME {
            self.cancel.rearm();
            let limit = self.goal().limits.minutes.unwrap_or_default();
            let why = format!("minutes: {limit} of {limit}");
            return self.add(&norris::Event::Broke { why: why.clone(), limit: Some(why), is_loop: false });
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
                let limit = (kind == FailureKind::Budget).then(|| failure.message.clone());
                self.add(&norris::Event::Broke { why: failure.message, limit, is_loop })
            }
        }
    }

    /// Runs the call that the person approved: planned and judged anew, and only if it is the very same.
    fn run_halted(&mut self, halt: &Halt) -> Result<(), Failure> {
        self.add(&norris::Event::RunsHalted { digest: halt.digest.clone() })?;
        let mut person = StandIn::new(OnHalt::Halt, self.cancel.clone(), self.run.approved.clone());
        let call = ToolCall { id: "approved".into(), name: halt.tool.clone(), arguments: halt.arguments.clone() };
        let (watcher, cancel) = (&mut *self.watcher, self.cancel);
        let runner = self.agent.runner().ok_or_else(no_tools)?;
        let outcome = runner.call(&call, halt.conversation, cancel, &mut person, &mut |event| {
            watcher.event(event);
        });
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
        let error = outcome.error.as_ref().map(|error| format!("it failed: {error}\n")).unwrap_or_default();
        let output: String = outcome.output.chars().take(RESULT_CHARS_MAX).collect();
        self.add(&norris::Event::RanHalted { result: format!("{error}{output}") })
    }

    fn interrupted(&mut self) -> Result<(), Failure> {
        self.add(&norris::Event::Paused { why: "it was interrupted".into() })
    }

    /// Begins a new conversation.
    fn fresh(&mut self) -> Option<i64> {
        self.agent.clear();
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
        self.agent.charge(Some((self.journal.run(), category)), limit);
        let mut person = StandIn::new(self.on_halt, self.cancel.clone(), Vec::new());
        let calls = person.calls();
        let conversation = self.agent.conversation().map(|id| id.0);
        let left_ms = goal.limits.minutes.map(|minutes| {
            let most = Duration::from_secs_f64((minutes * 60.0).max(0.0)).as_millis();
            u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(self.run.active_ms_at(self.journal.now()))
        });
        let deadline = left_ms.map(|left| self.journal.now().saturating_add(i64::try_from(left).unwrap_or(i64::MAX)));
        let cut = AtomicU8::new(0);
        let (journal, cancel, after) = (self.journal, self.cancel, self.seen);
        let (mut text, mut failure, mut broken) = (None, None, None);
        let (agent, watcher) = (&mut *self.agent, &mut *self.watcher);
        std::thread::scope(|scope| {
            let (done, is_done) = channel::<()>();
            let cut = &cut;
            scope.spawn(move || {
                while is_done.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                    let is_late = deadline.is_some_and(|at| journal.now() >= at);
                    let reason = if is_late {
                        BY_TIME
                    } else if is_wanted(journal, after) {
                        BY_JOURNAL
                    } else {
                        0
                    };
                    if reason != 0 && cut.compare_exchange(0, reason, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                        cancel.cancel();
                        return;
                    }
                }
            });
            let mut sink = |event: Event| {
                if let Some(event) = journal_event(&event)
                    && let Err(failure) = note(&event)
                {
                    // Without a record nothing goes on.
                    broken.get_or_insert(failure);
                    cancel.cancel();
                }
                calls.sees(&event);
                match &event {
                    Event::Answered { text: whole } => text = Some(whole.clone()),
                    Event::Failed { failure: why, .. } => failure = Some(why.clone()),
                    _ => {}
                }
                watcher.event(event);
            };
            agent.ask_with(question, cancel, &mut sink, &mut person);
            drop(done);
        });
        if let Some(failure) = broken {
            return Err(failure);
        }
        let halt = person.halt.take().map(|halt| Halt { conversation, ..halt });
        Ok(Asked { text, failure, halt, cut: cut.into_inner() })
    }
}

/// Whether a person wants the run to pause or to end.
fn is_wanted(journal: &dyn Journal, after: i64) -> bool {
    let wants = |event: &norris::Event| matches!(event, norris::Event::StopAsked | norris::Event::Paused { .. });
    journal.events(after).is_ok_and(|events| events.iter().any(|(_, _, event)| wants(event)))
}

/// The journal's event for a step of a call.
fn journal_event(event: &Event) -> Option<norris::Event> {
    let Event::Tool(tool) = event else { return None };
    match &tool.step {
        Step::Requested { intent, .. } => Some(norris::Event::Calling { intent: intent.chars().take(500).collect() }),
        Step::Done { outcome, .. } => Some(norris::Event::Called { success: outcome.success }),
        Step::Approved | Step::Denied { .. } => None,
    }
}

/// A pattern that matches this path alone.
fn escaped(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    path.chars().flat_map(|c| "*?[]{}\\!".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

fn tail_of(output: &str) -> String {
    let from = output.len().saturating_sub(TAIL_BYTES_MAX);
    output[output.ceil_char_boundary(from)..].to_owned()
}

fn no_tools() -> Failure {
    Failure {
        kind: FailureKind::Config,
        message: "a run needs tools, and there are none".to_owned(),
        hint: "tools_allow.agent in the config lists them".to_owned(),
    }
}
