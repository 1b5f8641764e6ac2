//! The events of a procedure's run as they are stored: plain data, read again by every later version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Dollars.
    pub usd: f64,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Minutes of work.
    pub minutes: f64,
}

impl Budget {
    /// Returns the smaller value of each limit.
    #[must_use]
    pub fn within(self, most: &Self) -> Self {
        Self {
            usd: self.usd.min(most.usd),
            tokens: self.tokens.min(most.tokens),
            minutes: self.minutes.min(most.minutes),
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { usd: 0.5, tokens: 300_000, minutes: 30.0 }
    }
}

/// The trigger of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trigger {
    /// `manual`, `cron`, `file`, `webhook`, or `sop` for another procedure.
    pub kind: String,
    /// The file's path, below the workspace.
    pub path: Option<String>,
    /// The request's body.
    pub body: Option<String>,
    /// The run whose step began this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<i64>,
}

impl Trigger {
    /// Returns a trigger of a kind, with no other data.
    #[must_use]
    pub fn by(kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..Self::default() }
    }
}

/// The inputs of an engine's decision, and their digest: a replay compares it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// The digest of the effect.
    pub digest: String,
    /// The time, Unix milliseconds.
    pub now: i64,
    /// Dollars spent so far.
    pub usd: f64,
    /// Tokens used so far.
    pub tokens: u64,
}

/// A call that a person is asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Covered {
    /// The step.
    pub step: String,
    /// The fingerprint of exactly this call; empty for a question that is bound to no call.
    pub digest: String,
    /// The call in one line.
    pub intent: String,
    /// Its risk.
    pub risk: String,
    /// The reasons why a person is asked.
    pub reasons: Vec<String>,
    /// The proposed change.
    pub preview: String,
}

/// A file that a call edits, with the digests of its content before and after; none if the file doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditedFile {
    /// Its path, as the call has it.
    pub path: String,
    /// The digest before.
    pub before: Option<String>,
    /// The digest afterwards.
    pub after: Option<String>,
}

impl EditedFile {
    /// Returns the outcome of an edit, from the current digests of its files.
    #[must_use]
    pub fn fate(files: &[Self], now: impl Fn(&Self) -> Option<String>) -> Fate {
        let found: Vec<Option<String>> = files.iter().map(now).collect();
        let all = |of: fn(&Self) -> &Option<String>| files.iter().zip(&found).all(|(file, now)| of(file) == now);
        if files.is_empty() {
            Fate::Unknown
        } else if all(|file| &file.after) {
            Fate::Succeeded
        } else if all(|file| &file.before) {
            Fate::NotBegun
        } else {
            Fate::Unknown
        }
    }
}

/// The outcome of a call whose process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Never began.
    NotBegun,
    /// Succeeded.
    Succeeded,
    /// Failed or was denied.
    Failed,
    /// Began, with an unknown outcome.
    Unknown,
}

/// A person's choice about a step that may have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Done.
    Done,
    /// Runs again.
    Again,
    /// Left out.
    Skip,
}

/// The outcome of a step whose result a new run reuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierEnd {
    /// Succeeded.
    Done,
    /// Failed, which the procedure allows.
    Failed,
    /// Skipped.
    Skipped,
}

/// The result of a step in an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierResult {
    /// The step.
    pub step: String,
    /// The earlier run.
    pub run: i64,
    /// The end.
    pub end: EarlierEnd,
    /// The output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The facts of the result.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The reason why it failed.
    #[serde(default)]
    pub error: String,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run began.
    Began {
        /// The text of the file, of which the run stores a copy.
        text: String,
        /// The trusted digest of the procedure's directory.
        sha256: String,
        /// The directory of the procedure.
        place: String,
        /// The values of the inputs.
        inputs: BTreeMap<String, String>,
        /// The trigger.
        trigger: Trigger,
        /// Results of an earlier run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        taken: Vec<EarlierResult>,
        /// The limits that the config sets for a run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<Budget>,
    },
    /// A process takes over the run.
    Entered {
        /// The process.
        pid: u32,
        /// The conversation of its calls.
        conversation: Option<i64>,
    },
    /// A step is about to begin.
    Begun {
        /// The step.
        step: String,
        /// Its decision.
        decision: Decision,
        /// The risk of its call.
        risk: String,
        /// The tool.
        tool: String,
        /// The hash of the call's arguments, as its receipt has it.
        args_hash: String,
        /// The files that the call edits.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<EditedFile>,
    },
    /// The step has begun a separate run.
    RunBegun {
        /// The step.
        step: String,
        /// A run towards a goal.
        is_goal: bool,
        /// Its number.
        run: i64,
    },
    /// The run of a step waits for a person.
    Awaits {
        /// The step.
        step: String,
        /// The reason.
        why: String,
    },
    /// The step is over.
    Ended {
        /// The step.
        step: String,
        /// `true` if it succeeded.
        success: bool,
        /// `true` if it wasn't allowed to run.
        #[serde(default)]
        is_denied: bool,
        /// Its output.
        output: String,
        /// The facts of its result.
        metadata: Map<String, Value>,
        /// Reason why it failed.
        error: String,
    },
    /// A step that needs no external action is over.
    Concluded {
        /// The step.
        step: String,
        /// Its decision.
        decision: Decision,
        /// `true` if it succeeded.
        success: bool,
        /// Reason why it failed.
        error: String,
    },
    /// A step was left out.
    Skipped {
        /// The step.
        step: String,
        /// Its decision.
        decision: Decision,
    },
    /// A person is asked whether the run may continue.
    Asked {
        /// The step.
        step: String,
        /// Its decision.
        decision: Decision,
        /// The question.
        prompt: String,
        /// The calls that an approval covers.
        covers: Vec<Covered>,
    },
    /// A call needs a person.
    Halted {
        /// The call.
        call: Covered,
    },
    /// A person approved exactly these calls.
    Approved {
        /// The step that asked.
        step: String,
        /// The fingerprints.
        digests: Vec<String>,
    },
    /// A person refused.
    Rejected {
        /// The step that asked.
        step: String,
        /// Their words.
        why: String,
    },
    /// The receipts were searched for the outcome of an interrupted step.
    Examined {
        /// The step.
        step: String,
        /// The outcome.
        fate: Fate,
    },
    /// A person decided on a step that may have run.
    Decided {
        /// The step.
        step: String,
        /// Their choice.
        choice: Choice,
    },
    /// The run waits until it is resumed.
    Paused {
        /// The reason.
        why: String,
        /// `true` if the emergency stop is the reason.
        #[serde(default)]
        is_estop: bool,
    },
    /// The run continues.
    Resumed,
    /// A person asks the run to end.
    CancelAsked,
    /// The times of the events don't show how long the run worked: the machine slept, or its clock was set.
    Clocked {
        /// Milliseconds of work so far.
        active_ms: u64,
    },
    /// A person changed the budget.
    Raised {
        /// Dollars.
        usd: f64,
        /// Tokens.
        tokens: u64,
        /// Minutes.
        minutes: f64,
    },
    /// The run ended.
    Finished {
        /// Its decision.
        decision: Decision,
        /// The word for the end.
        end: String,
        /// The reason.
        why: String,
    },
}

impl Event {
    /// The step that it is about.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        match self {
            Self::Begun { step, .. }
            | Self::RunBegun { step, .. }
            | Self::Awaits { step, .. }
            | Self::Ended { step, .. }
            | Self::Concluded { step, .. }
            | Self::Skipped { step, .. }
            | Self::Asked { step, .. }
            | Self::Approved { step, .. }
            | Self::Rejected { step, .. }
            | Self::Examined { step, .. }
            | Self::Decided { step, .. } => Some(step),
            Self::Halted { call } => Some(&call.step),
            _ => None,
        }
    }

    /// The engine's decision that it carries out.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Begun { decision, .. }
            | Self::Concluded { decision, .. }
            | Self::Skipped { decision, .. }
            | Self::Asked { decision, .. }
            | Self::Finished { decision, .. } => Some(decision),
            _ => None,
        }
    }
}
