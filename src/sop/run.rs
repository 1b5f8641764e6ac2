//! The state of a procedure's run: the fold of its events.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::event::{Choice, Covered, Decision, EarlierEnd, EarlierResult, EditedFile, Event, Fate, Trigger};
use super::next::{Effect, End, Spent};
use super::{Act, Budget, Definition, OnFailure, read};
use crate::base::time::work_ms;

/// The progress of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepState {
    /// Not begun yet.
    #[default]
    Ready,
    /// Begun.
    Begun,
    /// Its process was killed.
    Cut,
    /// Unknown whether it ran.
    Unknown,
    /// Succeeded.
    Done,
    /// Failed.
    Failed,
    /// Skipped.
    Skipped,
    /// A condition that doesn't hold ends the run here.
    Stopped,
}

/// A step of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepRun {
    /// Its progress.
    pub state: StepState,
    /// Number of attempts that began.
    pub attempts: u32,
    /// Its output; `None` if there is none, or if it wasn't stored.
    pub output: Option<String>,
    /// The facts of its result.
    pub metadata: Map<String, Value>,
    /// The reason why it failed.
    pub error: String,
    /// `true` if it wasn't allowed to run.
    pub is_denied: bool,
    /// `true` if a person approved it.
    pub has_yes: bool,
    /// Time when it began, Unix milliseconds.
    pub begun_ms: i64,
    /// Time when it was over, Unix milliseconds.
    pub ended_ms: i64,
    /// The run that it began.
    pub inner: Option<Inner>,
    /// The risk of its call, the tool and the hash of the arguments.
    pub call: (String, String, String),
    /// The files that its call edits.
    pub files: Vec<EditedFile>,
}

impl StepRun {
    /// Returns whether it succeeded.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        self.state == StepState::Done
    }
}

/// A run that a step began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// `true` for a run towards a goal, `false` for one of a procedure.
    pub is_goal: bool,
    /// Its number.
    pub run: i64,
}

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Its number.
    pub id: i64,
    /// Time when it began, Unix milliseconds.
    pub began: i64,
    /// The directory of the procedure.
    pub place: String,
    /// The trusted digest.
    pub sha256: String,
    /// The values of the inputs.
    pub inputs: BTreeMap<String, String>,
    /// The trigger.
    pub trigger: Trigger,
    /// Its limits.
    pub budget: Budget,
    /// Its steps, in order.
    pub steps: Vec<StepRun>,
    /// The step that asks a person, its question, and the calls that an approval covers.
    pub asked: Option<(usize, String, Vec<Covered>)>,
    /// Calls that a person approved: the number of the step and the fingerprint.
    pub approved: Vec<(usize, String)>,
    /// The reason why it waits.
    pub paused: Option<String>,
    /// `true` if the emergency stop paused it.
    pub is_estop: bool,
    /// The run of one of its steps that waits for a person.
    pub awaits: Option<Inner>,
    /// All runs that its steps began.
    pub inner: Vec<Inner>,
    /// `true` if a person asked it to end.
    pub is_cancelled: bool,
    /// Its end.
    pub end: Option<End>,
    /// The conversation of its calls.
    pub conversation: Option<i64>,
    /// Milliseconds of work.
    pub active_ms: u64,
    definition: Option<Definition>,
    last_time: Option<i64>,
}

impl Run {
    /// Folds events; `id` is the number of the run.
    #[must_use]
    pub fn of<'e>(id: i64, events: impl IntoIterator<Item = (i64, &'e Event)>) -> Self {
        let mut run = Self { id, ..Self::default() };
        for (time, event) in events {
            run.apply(time, event);
        }
        run
    }

    /// The procedure in the version with which the run began.
    #[must_use]
    pub fn definition(&self) -> Option<&Definition> {
        self.definition.as_ref()
    }

    /// A step by its id.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&StepRun> {
        self.steps.get(self.definition()?.position(id)?)
    }

    /// The state in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.end {
            Some(end) => end.word(),
            None if self.asked.is_some() || self.awaits.is_some() => "waiting",
            None if self.steps.iter().any(|step| step.state == StepState::Unknown) => "unknown",
            None if self.paused.is_some() => "paused",
            None => "running",
        }
    }

    /// Returns whether the run is active: neither ended nor waiting for a person.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.word() == "running"
    }

    /// Returns whether none of its steps has begun.
    #[must_use]
    pub fn is_at_its_start(&self) -> bool {
        self.steps.iter().all(|step| step.state == StepState::Ready && step.attempts == 0)
    }

    /// Returns whether a step needs nothing more.
    pub(super) fn is_over(&self, at: usize) -> bool {
        let continues =
            self.definition().and_then(|it| it.steps.get(at)).is_some_and(|it| it.on_failure == OnFailure::Continue);
        match self.steps[at].state {
            StepState::Done | StepState::Skipped => true,
            StepState::Failed => continues && !self.has_retry(at),
            _ => false,
        }
    }

    /// Returns whether a failed step has attempts left; a refused step isn't tried again.
    pub(super) fn has_retry(&self, at: usize) -> bool {
        let most = self.definition().and_then(|it| it.steps.get(at)).map_or(0, |it| it.retry.0);
        self.steps[at].attempts <= most && !self.steps[at].is_denied
    }

    /// The ids of the steps that failed without ending the run.
    pub(super) fn failed_ids(&self) -> Vec<&str> {
        let steps = self.definition().map(|it| it.steps.as_slice()).unwrap_or_default();
        let failed = steps.iter().zip(&self.steps).filter(|(_, state)| state.state == StepState::Failed);
        failed.map(|(step, _)| step.id.as_str()).collect()
    }

    /// Applies an event; its time is in Unix milliseconds.
    pub fn apply(&mut self, time: i64, event: &Event) {
        let is_raise = matches!(event, Event::Raised { .. });
        if self.end.is_some() && !is_raise {
            return;
        }
        // The time between two processes doesn't count as work.
        if !matches!(event, Event::Entered { .. }) {
            self.active_ms = self.active_ms_at(time);
        }
        self.last_time = Some(time);
        match event {
            Event::Began { text, sha256, place, inputs, trigger, taken, most } => {
                self.definition = read(text).0;
                self.steps = vec![StepRun::default(); self.definition().map_or(0, |it| it.steps.len())];
                self.budget = self.definition().map(|it| it.budget).unwrap_or_default();
                self.budget = most.map_or(self.budget, |most| self.budget.within(&most));
                (self.began, self.inputs, self.trigger) = (time, inputs.clone(), trigger.clone());
                (self.sha256, self.place) = (sha256.clone(), place.clone());
                taken.iter().for_each(|result| self.take_over(time, result));
            }
            Event::Entered { conversation, .. } => self.enter(*conversation),
            Event::Paused { why, is_estop } => (self.paused, self.is_estop) = (Some(why.clone()), *is_estop),
            Event::Resumed => (self.paused, self.is_estop, self.awaits) = (None, false, None),
            Event::CancelAsked => self.is_cancelled = true,
            Event::Clocked { active_ms } => self.active_ms = *active_ms,
            Event::Raised { usd, tokens, minutes } => {
                self.budget = Budget { usd: *usd, tokens: *tokens, minutes: *minutes };
                if matches!(self.end, Some(End::Budget(_))) {
                    self.end = None;
                    for step in &mut self.steps {
                        if step.metadata.remove(super::OVER_BUDGET).is_some() {
                            (step.state, step.attempts) = (StepState::Ready, step.attempts.saturating_sub(1));
                        }
                    }
                }
            }
            Event::Finished { end, why, .. } => self.end = Some(End::of(end, why)),
            Event::Asked { step, prompt, covers, .. } => {
                if let Some(at) = self.position(step) {
                    self.asked = Some((at, prompt.clone(), covers.clone()));
                }
            }
            Event::Halted { call } => {
                if let Some(at) = self.position(&call.step) {
                    // It didn't run: the attempt is counted when it does.
                    let step = &mut self.steps[at];
                    (step.state, step.attempts) = (StepState::Ready, step.attempts.saturating_sub(1));
                    let prompt = format!("Step {} needs your consent", call.step);
                    self.asked = Some((at, prompt, vec![call.clone()]));
                }
            }
            Event::Approved { step, digests } => self.approve(step, digests),
            Event::Rejected { step, why } => self.reject(time, step, why),
            Event::Awaits { step, why } => {
                self.awaits = self.step(step).and_then(|step| step.inner);
                self.paused = Some(why.clone());
            }
            Event::Begun { .. }
            | Event::RunBegun { .. }
            | Event::Ended { .. }
            | Event::Concluded { .. }
            | Event::Skipped { .. }
            | Event::Examined { .. }
            | Event::Decided { .. } => self.apply_to_step(time, event),
        }
    }

    /// The time of work until `now`, in milliseconds.
    #[must_use]
    pub fn active_ms_at(&self, now: i64) -> u64 {
        work_ms(self.active_ms, self.last_time.filter(|_| self.is_active()), now)
    }

    /// Takes over a result of an earlier run; its step is over from the beginning.
    fn take_over(&mut self, time: i64, result: &EarlierResult) {
        let Some(at) = self.definition().and_then(|it| it.position(&result.step)) else { return };
        let step = &mut self.steps[at];
        step.state = match result.end {
            EarlierEnd::Done => StepState::Done,
            EarlierEnd::Failed => StepState::Failed,
            EarlierEnd::Skipped => StepState::Skipped,
        };
        // The attempts belong to the earlier run.
        (step.attempts, step.begun_ms, step.ended_ms) = (u32::MAX, time, time);
        (step.output, step.metadata) = (result.output.clone(), result.metadata.clone());
        step.error.clone_from(&result.error);
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.definition()?.position(id)
    }

    fn apply_to_step(&mut self, time: i64, event: &Event) {
        let (Event::Begun { step: id, .. }
        | Event::RunBegun { step: id, .. }
        | Event::Ended { step: id, .. }
        | Event::Concluded { step: id, .. }
        | Event::Skipped { step: id, .. }
        | Event::Examined { step: id, .. }
        | Event::Decided { step: id, .. }) = event
        else {
            return;
        };
        let Some(at) = self.position(id) else { return };
        let Some(definition) = self.definition.as_ref().and_then(|it| it.steps.get(at)) else { return };
        let step = &mut self.steps[at];
        match event {
            Event::Begun { risk, tool, args_hash, files, .. } => {
                // Continuing a run isn't a new attempt.
                let more = u32::from(step.inner.is_none());
                (step.state, step.begun_ms, step.attempts) = (StepState::Begun, time, step.attempts + more);
                (step.call, step.files) = ((risk.clone(), tool.clone(), args_hash.clone()), files.clone());
            }
            Event::RunBegun { is_goal, run, .. } => {
                let inner = Inner { is_goal: *is_goal, run: *run };
                step.inner = Some(inner);
                self.inner.push(inner);
            }
            Event::Ended { success, is_denied, output, metadata, error, .. } => {
                step.state = if *success { StepState::Done } else { StepState::Failed };
                (step.is_denied, step.ended_ms, step.inner) = (*is_denied, time, None);
                (step.output, step.metadata) = (Some(output.clone()), metadata.clone());
                step.error.clone_from(error);
                self.approved.retain(|(of, _)| *of != at);
            }
            Event::Concluded { success, error, .. } => {
                let stops = matches!(definition.act, Act::Condition { fails: false, .. });
                step.state = match (success, stops) {
                    (true, _) => StepState::Done,
                    (false, true) => StepState::Stopped,
                    (false, false) => StepState::Failed,
                };
                // A step that failed because a value is missing would fail again.
                step.attempts = u32::MAX;
                step.ended_ms = time;
                step.error.clone_from(error);
            }
            Event::Skipped { .. } => step.state = StepState::Skipped,
            Event::Examined { fate, .. } => {
                let is_harmless = step.call.0 == "low" || definition.is_repeatable;
                step.ended_ms = time;
                step.state = match fate {
                    Fate::NotBegun => StepState::Ready,
                    Fate::Succeeded => StepState::Done,
                    Fate::Failed => StepState::Failed,
                    Fate::Unknown if is_harmless => StepState::Ready,
                    Fate::Unknown => StepState::Unknown,
                };
                if *fate == Fate::Failed {
                    step.error = "its process was killed after it had failed".to_owned();
                }
            }
            Event::Decided { choice, .. } if step.state == StepState::Unknown => {
                step.state = match choice {
                    Choice::Done => StepState::Done,
                    Choice::Again => StepState::Ready,
                    Choice::Skip => StepState::Skipped,
                };
            }
            _ => {}
        }
    }

    /// Handles a new process that takes over the run: a call that was in progress may have ended or not.
    fn enter(&mut self, conversation: Option<i64>) {
        self.conversation = self.conversation.or(conversation);
        let Some(definition) = &self.definition else { return };
        for (step, defined) in self.steps.iter_mut().zip(&definition.steps) {
            if step.state == StepState::Begun {
                step.state = match &defined.act {
                    act if act.is_call() => StepState::Cut,
                    // The wait continued meanwhile.
                    Act::Wait { .. } => StepState::Begun,
                    // A model only reads.
                    _ => StepState::Ready,
                };
            }
        }
    }

    fn approve(&mut self, id: &str, digests: &[String]) {
        let Some((at, _, covers)) =
            self.asked.take_if(|(at, ..)| self.definition.as_ref().and_then(|it| it.position(id)) == Some(*at))
        else {
            return;
        };
        self.steps[at].has_yes = true;
        for call in covers.iter().filter(|call| digests.contains(&call.digest)) {
            self.approved.extend(self.position(&call.step).map(|of| (of, call.digest.clone())));
        }
    }

    fn reject(&mut self, time: i64, id: &str, why: &str) {
        let Some((at, ..)) =
            self.asked.take_if(|(at, ..)| self.definition.as_ref().and_then(|it| it.position(id)) == Some(*at))
        else {
            return;
        };
        let step = &mut self.steps[at];
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        (step.state, step.is_denied, step.ended_ms) = (StepState::Failed, true, time);
        step.error = format!("a person said no{why}");
    }

    /// Goes through stored events and compares each decision with the one that would be made today; returns the number of
    /// decisions compared.
    ///
    /// # Errors
    /// The number of the event whose decision would be different today, and both decisions.
    pub fn replay<'e>(id: i64, events: impl IntoIterator<Item = (i64, i64, &'e Event)>) -> Result<usize, Box<Differs>> {
        let mut run = Self { id, ..Self::default() };
        let mut compared = 0;
        for (seq, time, event) in events {
            if let Some(Decision { digest, now, usd, tokens }) = event.decision() {
                let effect = run.next(&Spent { now: *now, usd: *usd, tokens: *tokens });
                if effect.digest(&run) != *digest {
                    return Err(Box::new(Differs { seq, stored: event.clone(), today: effect }));
                }
                compared += 1;
            }
            run.apply(time, event);
        }
        Ok(compared)
    }
}

/// A decision that would be different today.
#[derive(Clone, Debug, PartialEq)]
pub struct Differs {
    /// The number of the event.
    pub seq: i64,
    /// The event.
    pub stored: Event,
    /// The effect that would be chosen today.
    pub today: Effect,
}
