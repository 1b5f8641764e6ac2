//! A procedure: steps in a file `SOP.toml`, done one after the other. Pure: the file becomes a definition and a list of its
//! problems, a run is the fold of its events, and the next step follows from the fold alone. It must not know models, disk, clock
//! or tools, nor who trusts a file.

pub mod cron;
mod earlier;
mod event;
mod next;
mod read;
mod run;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::Schema;

pub use event::{
    Budget, Choice, Covered, Decision, EarlierEnd, EarlierResult, EditedFile, Event, Fate, Trigger as Fired,
};
pub use next::{Effect, End, Rest, Spent};
pub use read::{read, read_partly};
pub use run::{Differs, Inner, Run, StepRun, StepState};
pub use source::{Source, Test, argument_names};

/// The name of the file.
pub const FILE_NAME: &str = "SOP.toml";
/// Limit on a file, in bytes.
pub const FILE_BYTES_MAX: usize = 256 * 1024;
/// Limit on the steps of a procedure.
pub const STEPS_MAX: usize = 100;
/// Limit on the inputs of a procedure.
pub const INPUTS_MAX: usize = 50;
/// Limit on the triggers of a procedure.
pub const TRIGGERS_MAX: usize = 32;
/// Limit on the output of a step in the journal, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Limit on the depth to which procedures may begin one another.
pub const DEPTH_MAX: usize = 4;
/// Limit on an input's value, or a webhook's body, in bytes.
pub const INPUT_BYTES_MAX: usize = 256 * 1024;
/// Limit on an earlier step's output that a model sees, in bytes.
pub const SEEN_BYTES_MAX: usize = 8 * 1024;
/// Limit on a name or an id, in bytes.
pub const NAME_BYTES_MAX: usize = 40;
/// The metadata key of a step that was stopped by a budget.
pub const OVER_BUDGET: &str = "over_budget";
/// Default time limit of a step, in milliseconds.
pub const STEP_MS: u64 = 600_000;
/// Maximum time limit of any step or wait, in milliseconds: a day.
pub const STEP_MS_MAX: u64 = 86_400_000;
/// Minutes from the beginning of a run after which it stops: a day.
pub const RUN_MINUTES_MAX: u64 = 1_440;

/// A problem of a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The fault.
    pub what: String,
    /// The remedy.
    pub hint: String,
}

/// A procedure as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name, which is also the name of its directory.
    pub name: String,
    /// Its purpose, in its author's words.
    pub description: String,
    /// Its freedom to act without a person.
    pub mode: Mode,
    /// The maximum autonomy of its calls; `None` leaves that to the config.
    pub caution: Option<Caution>,
    /// The directory that it works in, if it isn't the one that it was found for. A project's procedure has none.
    pub workspace: String,
    /// `true` if a scheduled time begins another run even while one is active.
    pub overlaps: bool,
    /// Minutes from a run's beginning after which the run stops.
    pub timeout_minutes: Option<u64>,
    /// `true` if the config's notification program is run for it.
    pub notifies: bool,
    /// The model for its questions; if empty, the model that answers.
    pub model: String,
    /// The limits of a run.
    pub budget: Budget,
    /// Inputs of a run.
    pub inputs: BTreeMap<String, Input>,
    /// The triggers of a run, besides a person.
    pub triggers: Vec<Trigger>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A procedure's freedom to act without a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Calls whose arguments are all in the trusted file need no approval.
    Auto,
    /// A call for which the rules require a question waits for a person.
    #[default]
    Supervised,
    /// Each step waits for a person.
    StepByStep,
}

impl Mode {
    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Supervised => "supervised",
            Self::StepByStep => "step",
        }
    }
}

/// The maximum autonomy of a procedure's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caution {
    /// Changes are denied.
    Readonly,
    /// Changes require a question.
    Supervised,
}

/// An input of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Its default value; an input without a default is required.
    pub default: Option<String>,
    /// Its meaning.
    pub description: String,
}

/// A trigger of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// Only a person.
    Manual,
    /// A time.
    Cron {
        /// The times.
        at: cron::Spec,
        /// The time zone; empty for the machine's.
        zone: String,
        /// `true` if a missed time is caught up once.
        catches_up: bool,
    },
    /// A file that was made or changed.
    File {
        /// Patterns of paths below the workspace.
        paths: Vec<String>,
        /// Milliseconds for which it must not have changed.
        settle_ms: u64,
    },
    /// A signed request to the gateway.
    Webhook {
        /// The environment variable that holds the secret of its signature.
        secret_env: String,
    },
}

/// The reaction to a failed step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Ends the run.
    #[default]
    Abort,
    /// Continues with the next step.
    Continue,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name, by which later steps use its result.
    pub id: String,
    /// Its line in the file.
    pub line: usize,
    /// Its act.
    pub act: Act,
    /// The reaction to its failure.
    pub on_failure: OnFailure,
    /// The number of retries after a failure, and the milliseconds before each.
    pub retry: (u32, u64),
    /// The step is skipped unless this test holds.
    pub when: Option<Test>,
    /// Its time limit, in milliseconds.
    pub timeout_ms: u64,
    /// `true` if it may run again when it isn't known whether it ran.
    pub is_repeatable: bool,
    /// Its output must be JSON that matches this schema.
    pub schema: Option<Schema>,
    /// Number of bytes of its output that are stored: a longer output is cut; without this value it is a failure.
    pub keep_bytes: Option<usize>,
}

/// The work of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A call of a tool.
    Tool {
        /// The tool.
        tool: String,
        /// Its arguments; `X_from` stands for the value `X` from a source.
        args: Value,
    },
    /// A command line.
    Shell {
        /// `true` if it only tests whether something holds, with its exit status as the result.
        is_check: bool,
        /// The command line, exactly as it runs.
        command: String,
        /// The directory, from the workspace.
        cwd: String,
        /// Values that are passed in environment variables.
        env: BTreeMap<String, Source>,
        /// Patterns of paths that it may change without a question.
        writes: Vec<String>,
    },
    /// A question to a model, which may only read.
    Model {
        /// The question.
        prompt: String,
        /// The model; empty for the procedure's.
        model: String,
        /// The only tools that it may use; if none are named, all tools that only read.
        tools: Vec<String>,
    },
    /// A person's approval.
    Approval {
        /// The question.
        prompt: String,
        /// Ids of later steps whose calls the approval covers.
        covers: Vec<String>,
    },
    /// A run towards a goal.
    Goal {
        /// The goal.
        goal: String,
        /// Commands whose success means that the goal is reached; if none are named, those of the config.
        checks: Vec<String>,
        /// Patterns of paths that it may change; if none are named, those of the config.
        writes: Vec<String>,
        /// Command lines that it may run.
        commands: Vec<String>,
        /// Its limits.
        budget: Budget,
    },
    /// Another procedure, in the version that is trusted when the step begins.
    Procedure {
        /// Its name.
        name: String,
        /// Its inputs; `X_from` stands for the input `X` from a source.
        inputs: Value,
    },
    /// A wait.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// A test that decides whether the run continues.
    Condition {
        /// The test.
        test: Test,
        /// `true` if a test that doesn't hold is a failure; otherwise the run is then done.
        fails: bool,
    },
}

impl Act {
    /// The word in the file.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Tool { .. } => "tool",
            Self::Shell { is_check: true, .. } => "check",
            Self::Shell { .. } => "shell",
            Self::Model { .. } => "model",
            Self::Approval { .. } => "approval",
            Self::Goal { .. } => "norris",
            Self::Procedure { .. } => "sop",
            Self::Wait { .. } => "wait",
            Self::Condition { .. } => "condition",
        }
    }

    /// Returns whether it is a tool call, which may change something.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Tool { .. } | Self::Shell { .. })
    }

    /// Returns whether later steps can use its output.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.is_call() || self.is_run() || matches!(self, Self::Model { .. })
    }

    /// Returns whether it is a separate run.
    #[must_use]
    pub fn is_run(&self) -> bool {
        matches!(self, Self::Goal { .. } | Self::Procedure { .. })
    }

    /// Returns whether nothing in it comes from a model, a trigger or another step.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        match self {
            Self::Tool { args, .. } => source::sources_in(args).is_empty(),
            Self::Shell { env, .. } => env.is_empty(),
            _ => false,
        }
    }
}

impl Definition {
    /// The number of a step.
    #[must_use]
    pub fn position(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }

    /// The inputs of a run: the named values, and defaults for the others.
    ///
    /// # Errors
    /// An input is missing, unknown or too long, or contains a null character.
    pub fn inputs(&self, named: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
        if let Some(unknown) = named.keys().find(|name| !self.inputs.contains_key(*name)) {
            return Err(format!("{} has no input {unknown}", self.name));
        }
        let value = |(name, input): (&String, &Input)| {
            let value = named.get(name).or(input.default.as_ref());
            let value = value.ok_or_else(|| format!("the input {name} has no value: --input {name}=VALUE"))?;
            if value.len() > INPUT_BYTES_MAX || value.contains('\0') {
                return Err(format!(
                    "the input {name} is longer than {INPUT_BYTES_MAX} bytes or holds a null character"
                ));
            }
            Ok((name.clone(), value.clone()))
        };
        self.inputs.iter().map(value).collect()
    }
}
