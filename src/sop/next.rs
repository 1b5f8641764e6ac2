//! The next step of a run: derived from its state, so that it is the same after a crash and in a replay.

use serde_json::{Value, json};

use super::run::StepState;
use super::{Act, Budget, Decision, Mode, OnFailure, Run, Step, source};
use crate::base::hash::sha256_hex;

/// The used part of a run's limits, and the current time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Dollars.
    pub usd: f64,
    /// Tokens, read and written.
    pub tokens: u64,
    /// The current time, Unix milliseconds.
    pub now: i64,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All steps are done.
    Done,
    /// All steps are done; some failed, which the procedure allows.
    Partly(String),
    /// A step failed.
    Failed(String),
    /// A step wasn't allowed, or a person refused.
    Refused(String),
    /// The budget is used up.
    Budget(String),
    /// A person ended it.
    Cancelled,
}

impl End {
    /// The word for the end.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Partly(_) => "partly",
            Self::Failed(_) => "failed",
            Self::Refused(_) => "refused",
            Self::Budget(_) => "budget",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reason; empty if the word is enough.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Self::Partly(why) | Self::Failed(why) | Self::Refused(why) | Self::Budget(why) => why,
            Self::Done | Self::Cancelled => "",
        }
    }

    /// Reads the results of [`Self::word`] and [`Self::why`].
    #[must_use]
    pub fn of(word: &str, why: &str) -> Self {
        let why = why.to_owned();
        match word {
            "done" => Self::Done,
            "partly" => Self::Partly(why),
            "refused" => Self::Refused(why),
            "budget" => Self::Budget(why),
            "cancelled" => Self::Cancelled,
            _ => Self::Failed(why),
        }
    }

    /// The exit status; `cli::exit` has the table of their meanings.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed(_) => 1,
            Self::Refused(_) => 3,
            Self::Budget(_) => 5,
            Self::Partly(_) => 10,
            Self::Cancelled => 130,
        }
    }
}

/// The reason why a run does nothing for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A person's approval is missing.
    Asked,
    /// A step may have run, and a person has to decide whether it did.
    Unknown(usize),
    /// A person or a program paused it.
    Paused(String),
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Does a step: a call with these arguments, or a question.
    Begin {
        /// Its number.
        step: usize,
        /// The arguments of its call, with all values.
        args: Value,
    },
    /// Ends a step that needs no external action.
    Conclude {
        /// Its number.
        step: usize,
        /// The reason why it failed; none if it succeeded.
        error: Option<String>,
    },
    /// Skips a step.
    Skip(usize),
    /// Asks a person before a step.
    Ask {
        /// Its number.
        step: usize,
        /// The question.
        prompt: String,
        /// Numbers of the steps that an approval covers, each with the arguments of its call.
        covers: Vec<(usize, Value)>,
    },
    /// Searches the receipts for the outcome of an interrupted step.
    Examine(usize),
    /// Waits until a time, but at most for a duration: the clock may be set back meanwhile.
    Sleep {
        /// Unix milliseconds.
        until: i64,
        /// Milliseconds.
        most_ms: u64,
    },
    /// End.
    Finish(End),
    /// Do nothing until a person has decided.
    Rest(Rest),
    /// Nothing is left to do.
    Over(End),
}

impl Effect {
    /// The decision for the journal: the effect's digest and the inputs of the decision.
    #[must_use]
    pub fn decision(&self, run: &Run, spent: &Spent) -> Decision {
        Decision { digest: self.digest(run), now: spent.now, usd: spent.usd, tokens: spent.tokens }
    }

    /// The digest of exactly this effect.
    #[must_use]
    pub fn digest(&self, run: &Run) -> String {
        let id = |step: usize| run.definition().and_then(|it| it.steps.get(step)).map(|it| it.id.clone());
        let value = match self {
            Self::Begin { step, args } => json!({"begin": id(*step), "args": args}),
            Self::Conclude { step, error } => json!({"conclude": id(*step), "error": error}),
            Self::Skip(step) => json!({"skip": id(*step)}),
            Self::Ask { step, prompt, covers } => {
                let covers: Vec<_> = covers.iter().map(|(step, args)| json!([id(*step), args])).collect();
                json!({"ask": id(*step), "prompt": prompt, "covers": covers})
            }
            Self::Examine(step) => json!({"examine": id(*step)}),
            Self::Sleep { until, .. } => json!({"sleep": until}),
            Self::Finish(end) => json!({"finish": end.word(), "why": end.why()}),
            Self::Rest(rest) => json!({"rest": format!("{rest:?}")}),
            Self::Over(end) => json!({"over": end.word()}),
        };
        sha256_hex(value.to_string().as_bytes())
    }
}

impl Run {
    /// Returns the next step. The same state always has the same next step.
    #[must_use]
    pub fn next(&self, spent: &Spent) -> Effect {
        if let Some(end) = &self.end {
            return Effect::Over(end.clone());
        }
        let Some(definition) = self.definition() else {
            return Effect::Over(End::Failed("its definition can't be read".into()));
        };
        if self.is_cancelled {
            return Effect::Finish(End::Cancelled);
        }
        if let Some(why) = &self.paused {
            return Effect::Rest(Rest::Paused(why.clone()));
        }
        if self.asked.is_some() {
            return Effect::Rest(Rest::Asked);
        }
        let Some((at, step)) = definition.steps.iter().enumerate().find(|(at, _)| !self.is_over(*at)) else {
            return Effect::Finish(self.whole_end());
        };
        let state = &self.steps[at];
        match state.state {
            StepState::Unknown => return Effect::Rest(Rest::Unknown(at)),
            StepState::Cut => return Effect::Examine(at),
            StepState::Stopped => return Effect::Finish(self.whole_end()),
            StepState::Failed if step.on_failure == OnFailure::Abort && !self.has_retry(at) => {
                return Effect::Finish(self.failed_end(at));
            }
            StepState::Failed => {
                let until = state.ended_ms.saturating_add(i64::try_from(step.retry.1).unwrap_or(i64::MAX));
                if spent.now < until {
                    return Effect::Sleep { until, most_ms: step.retry.1 };
                }
            }
            StepState::Begun | StepState::Ready => {}
            // These steps are over.
            StepState::Done | StepState::Skipped => {}
        }
        if let Some(why) = self.over_budget(spent, matches!(step.act, Act::Model { .. } | Act::Goal { .. })) {
            return Effect::Finish(End::Budget(why));
        }
        self.step_effect(at, step, definition.mode, spent)
    }

    fn step_effect(&self, at: usize, step: &Step, mode: Mode, spent: &Spent) -> Effect {
        let failed = |why: String| Effect::Conclude { step: at, error: Some(why) };
        if self.steps[at].state == StepState::Ready
            && let Some(when) = &step.when
        {
            match when.holds(self) {
                Ok(true) => {}
                Ok(false) => return Effect::Skip(at),
                Err(why) => return failed(why),
            }
        }
        let does = step.act.is_call() || step.act.is_run() || matches!(step.act, Act::Model { .. });
        if mode == Mode::StepByStep && does && !self.steps[at].has_yes {
            let prompt = format!("Do step {} ({})?", step.id, step.act.word());
            return Effect::Ask { step: at, prompt, covers: self.covered(&[at]) };
        }
        match &step.act {
            Act::Tool { args, .. } => match source::resolved(args, self) {
                Ok(args) => Effect::Begin { step: at, args },
                Err(why) => failed(why),
            },
            Act::Shell { .. } => match self.shell_args(step) {
                Ok(args) => Effect::Begin { step: at, args },
                Err(why) => failed(why),
            },
            Act::Model { .. } => Effect::Begin { step: at, args: json!({}) },
            Act::Goal { goal, checks, writes, commands, budget } => {
                let Budget { usd, tokens, minutes } = budget;
                let args = json!({"goal": goal, "checks": checks, "writes": writes, "commands": commands,
                    "usd": usd, "tokens": tokens, "minutes": minutes});
                Effect::Begin { step: at, args }
            }
            Act::Procedure { name, inputs } => match source::resolved(inputs, self) {
                Ok(inputs) => Effect::Begin { step: at, args: json!({"sop": name, "inputs": inputs}) },
                Err(why) => failed(why),
            },
            Act::Approval { .. } if self.steps[at].has_yes => Effect::Conclude { step: at, error: None },
            Act::Approval { prompt, covers } => {
                let definition = self.definition();
                let numbers: Vec<usize> =
                    covers.iter().filter_map(|id| definition.and_then(|it| it.position(id))).collect();
                Effect::Ask { step: at, prompt: prompt.clone(), covers: self.covered(&numbers) }
            }
            Act::Wait { .. } if self.steps[at].state != StepState::Begun => Effect::Begin { step: at, args: json!({}) },
            Act::Wait { ms } => {
                let until = self.steps[at].begun_ms.saturating_add(i64::try_from(*ms).unwrap_or(i64::MAX));
                if spent.now < until {
                    return Effect::Sleep { until, most_ms: *ms };
                }
                Effect::Conclude { step: at, error: None }
            }
            Act::Condition { test, .. } => match test.holds(self) {
                Ok(true) => Effect::Conclude { step: at, error: None },
                Ok(false) => failed("the condition doesn't hold".into()),
                Err(why) => failed(why),
            },
        }
    }

    /// The steps among these whose arguments are known so far.
    fn covered(&self, numbers: &[usize]) -> Vec<(usize, Value)> {
        numbers.iter().filter_map(|at| Some((*at, self.known_arguments(*at)?))).collect()
    }

    /// The arguments of a step's call; `None` if it isn't a call, or if one of their values isn't known yet.
    #[must_use]
    pub fn known_arguments(&self, at: usize) -> Option<Value> {
        let step = self.definition()?.steps.get(at)?;
        match &step.act {
            Act::Tool { args, .. } => source::resolved(args, self).ok(),
            Act::Shell { .. } => self.shell_args(step).ok(),
            _ => None,
        }
    }

    /// The arguments of a command: its values are in environment variables, never in its text.
    fn shell_args(&self, step: &Step) -> Result<Value, String> {
        let Act::Shell { command, cwd, env, .. } = &step.act else { return Err("it is no command".into()) };
        let mut variables = serde_json::Map::new();
        for (name, source) in env {
            let value = source.value(self)?;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if text.contains('\0') {
                return Err(format!("the value of {name} holds a null character"));
            }
            variables.insert(name.clone(), text.into());
        }
        Ok(json!({"command": command, "cwd": cwd, "env": variables}))
    }

    fn whole_end(&self) -> End {
        let failed: Vec<&str> = self.failed_ids();
        if failed.is_empty() { End::Done } else { End::Partly(format!("failed and left: {}", failed.join(", "))) }
    }

    fn failed_end(&self, at: usize) -> End {
        let state = &self.steps[at];
        let id = self.definition().and_then(|it| it.steps.get(at)).map_or("", |it| it.id.as_str());
        let why = format!("step {id}: {}", state.error);
        if state.metadata.contains_key(super::OVER_BUDGET) {
            return End::Budget(why);
        }
        if state.is_denied { End::Refused(why) } else { End::Failed(why) }
    }

    /// The part of the budget that is left.
    #[must_use]
    pub fn left(&self, spent: &Spent) -> Budget {
        let Budget { usd, tokens, minutes } = self.budget;
        #[allow(clippy::cast_precision_loss, reason = "a run of years is still exact")]
        let worked = self.active_ms as f64 / 60_000.0;
        Budget {
            usd: (usd - spent.usd).max(0.0),
            tokens: tokens.saturating_sub(spent.tokens),
            minutes: (minutes - worked).max(0.0),
        }
    }

    fn over_budget(&self, spent: &Spent, is_question: bool) -> Option<String> {
        #[allow(clippy::cast_precision_loss, reason = "a run of years is still exact")]
        let minutes = self.active_ms as f64 / 60_000.0;
        let most = self.budget;
        let timeout = self.definition().and_then(|it| it.timeout_minutes).and_then(|it| i64::try_from(it).ok());
        if let Some(most) = timeout.filter(|most| spent.now - self.began >= most * 60_000) {
            return Some(format!("time: it began {most} minutes ago or earlier"));
        }
        if minutes >= most.minutes {
            return Some(format!("minutes: {minutes:.1} of {}", most.minutes));
        }
        if !is_question {
            return None;
        }
        if spent.tokens >= most.tokens {
            return Some(format!("tokens: {} of {}", spent.tokens, most.tokens));
        }
        (spent.usd >= most.usd).then(|| format!("usd: {:.4} of {}", spent.usd, most.usd))
    }
}
