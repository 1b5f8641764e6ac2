//! The next step of a run: derived from its state, so that it is the same after a crash.

use super::{CheckResult, End, HALTS_MAX, Halt, HaltState, NOES_MAX, Run};

/// The used part of a run's limits, as far as it isn't in the run's events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Dollars.
    pub usd: f64,
    /// Tokens, read and written.
    pub tokens: u64,
    /// The current time, Unix milliseconds.
    pub now: i64,
}

/// The reason why a run does nothing for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A call waits for a person.
    Halted,
    /// The plan waits for a person.
    Planned,
    /// A person or a program paused it.
    Paused(String),
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Digest the files that the checks depend on.
    Digest,
    /// Ask the planner.
    Plan,
    /// Run a check.
    Check(usize),
    /// Ask for a task.
    Work {
        /// Its number, from 0.
        task: usize,
        /// `true` if it failed twice: then the planner's model does it.
        is_escalated: bool,
    },
    /// Run the call that a person approved.
    RunHalted(Halt),
    /// Pauses: only a person can help.
    Pause(String),
    /// End.
    Finish(End),
    /// Do nothing until a person has decided.
    Rest(Rest),
    /// Nothing is left to do.
    Over(End),
}

/// Number of failed attempts of a task before a stronger model does it.
const ESCALATES_AFTER: u32 = 2;

/// Limit on the files that a sentence names; further ones are counted.
const NAMED_MAX: usize = 5;

/// Names files in a sentence.
#[must_use]
pub fn names_of(files: &[String]) -> String {
    let (shown, more) = files.split_at(files.len().min(NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    shown.join(", ") + &more
}

impl Run {
    /// Returns the next step. The same state always has the same next step.
    #[must_use]
    pub fn next(&self, used: &Used) -> Effect {
        let Some(goal) = &self.goal else { return Effect::Over(End::Failed("it never began".into())) };
        if let Some(end) = &self.end {
            return Effect::Over(end.clone());
        }
        if self.is_stopped {
            return Effect::Finish(End::Stopped);
        }
        if let Some(why) = &self.paused {
            return Effect::Rest(Rest::Paused(why.clone()));
        }
        match &self.halt {
            Some((_, HaltState::Waits)) if self.halts > HALTS_MAX => {
                return Effect::Finish(End::Failed(format!("more than {HALTS_MAX} calls needed a person")));
            }
            Some((_, HaltState::Waits)) => return Effect::Rest(Rest::Halted),
            Some((halt, _)) => return self.within(used, Effect::RunHalted(halt.clone())),
            None => {}
        }
        if self.noes >= NOES_MAX {
            return Effect::Pause(format!("{} calls refused; send a note to say what you want instead", self.noes));
        }
        if let Some(why) = &self.stuck {
            return Effect::Finish(End::Stuck(why.clone()));
        }
        if let Some(limit) = &self.over_limit {
            return Effect::Finish(End::Budget(limit.clone()));
        }
        if self.inputs.is_none() {
            return Effect::Digest;
        }
        if self.baseline.len() < goal.checks.len() {
            return self.within(used, Effect::Check(self.baseline.len()));
        }
        if self.model_fails() {
            return Effect::Pause(format!("a model failed again and again: {}", self.last_break));
        }
        if self.tasks.is_empty() || self.needs_plan {
            return self.within(used, Effect::Plan);
        }
        if self.awaits_go() {
            return Effect::Rest(Rest::Planned);
        }
        if let Some(task) = self.current() {
            let is_escalated = self.tasks[task].attempts >= ESCALATES_AFTER && !goal.planner.is_empty();
            return self.within(used, Effect::Work { task, is_escalated });
        }
        if goal.checks.is_empty() {
            let why = "no check was given, so nothing shows that it is done";
            return self.within(used, Effect::Finish(End::NotVerified(why.into())));
        }
        if self.results.len() < goal.checks.len() {
            // The check comes last: the files that it depends on are compared in the state that it ran with.
            return self.within(used, Effect::Check(self.results.len()));
        }
        if !self.tampered.is_empty() && !goal.allow_check_edits {
            let names = self.tampered.join(", ");
            let hint = "--allow-check-edits accepts that in a new run";
            return Effect::Finish(End::NotVerified(format!("what the checks depend on was changed: {names}; {hint}")));
        }
        if let Some(why) = self.bent_check().filter(|_| !goal.allow_check_edits) {
            return Effect::Finish(End::NotVerified(why));
        }
        debug_assert!(self.results.iter().all(CheckResult::has_passed));
        Effect::Finish(End::Verified)
    }

    /// The reason why a passing check proves nothing: it doesn't pass with its tests in the state at the start of the work.
    fn bent_check(&self) -> Option<String> {
        let goal = self.goal.as_ref()?;
        let (command, again) =
            goal.checks.iter().zip(&self.results).find_map(|(it, result)| Some((it, result.bent()?)))?;
        let names = names_of(&again.files);
        let hint = "--allow-check-edits accepts that in a new run";
        Some(match again.status {
            Some(status) => {
                format!(
                    "`{command}` passes only with changed tests ({names}): with the first ones its status is {status}; {hint}"
                )
            }
            None => format!("`{command}` couldn't run with the first version of {names}; {hint}"),
        })
    }

    /// The step, unless a limit is used up.
    fn within(&self, used: &Used, effect: Effect) -> Effect {
        let (is_question, is_call) =
            (matches!(effect, Effect::Plan | Effect::Work { .. }), matches!(effect, Effect::RunHalted(_)));
        match self.over(used, is_question, is_call) {
            Some(limit) => Effect::Finish(End::Budget(limit)),
            None => effect,
        }
    }

    fn over(&self, used: &Used, is_question: bool, is_call: bool) -> Option<String> {
        let limits = &self.goal.as_ref()?.limits;
        let minutes = self.minutes_at(used.now);
        if let Some(most) = limits.minutes.filter(|most| minutes >= *most) {
            return Some(format!("minutes: {minutes:.1} of {most}"));
        }
        if let Some(most) = limits.calls.filter(|_| self.calls_left() == Some(0) && (is_question || is_call)) {
            return Some(format!("calls: {} of {most}", self.calls));
        }
        if !is_question {
            return None;
        }
        if let Some(most) = limits.steps.filter(|most| self.steps >= *most) {
            return Some(format!("steps: {} of {most}", self.steps));
        }
        if let Some(most) = limits.tokens.filter(|most| used.tokens >= *most) {
            return Some(format!("tokens: {} of {most}", used.tokens));
        }
        limits.usd.filter(|most| used.usd >= *most).map(|most| format!("usd: {:.4} of {most}", used.usd))
    }

    /// Minutes of work until `now`.
    #[must_use]
    pub fn minutes_at(&self, now: i64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a run of years is still exact")]
        let ms = self.active_ms_at(now) as f64;
        ms / 60_000.0
    }
}
