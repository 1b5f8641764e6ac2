//! A procedure: steps in a file `SOP.toml`, done one after the other. Pure: the file becomes a definition and a list of its
//! problems, a run is the fold of its events, and the next step follows from the fold alone. It must not know models, disk,
//! clock or tools, nor who trusts a file.

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
/// Bytes of a file.
pub const FILE_BYTES_MAX: usize = 256 * 1024;
/// Steps of a procedure.
pub const STEPS_MAX: usize = 100;
/// Inputs of a procedure.
pub const INPUTS_MAX: usize = 50;
/// Triggers of a procedure.
pub const TRIGGERS_MAX: usize = 32;
/// Bytes of the output of a step that the journal holds.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Procedures that may begin one another.
pub const DEPTH_MAX: usize = 4;
/// Bytes of an input's value, or of a webhook's body.
pub const INPUT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of an earlier step's output that a model sees.
pub const SEEN_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a name or an id.
pub const NAME_BYTES_MAX: usize = 40;
/// The fact of a step that a budget cut short.
pub const OVER_BUDGET: &str = "over_budget";
/// Milliseconds of a step that names no time of its own.
pub const STEP_MS: u64 = 600_000;
/// Milliseconds that any step or wait may take: a day.
pub const STEP_MS_MAX: u64 = 86_400_000;
/// Minutes from the beginning of a run after which it does nothing more: a day.
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
    /// Its name, which is the name of its directory too.
    pub name: String,
    /// Its purpose, in its author's words.
    pub description: String,
    /// Its reach without a person.
    pub mode: Mode,
    /// The most autonomy of its calls; none leaves that to the config.
    pub caution: Option<Caution>,
    /// The directory that it works in, if it isn't the one that it was found for. A project's procedure has none.
    pub workspace: String,
    /// A time that comes while a run is at work begins another one.
    pub overlaps: bool,
    /// Minutes from a run's beginning after which it does nothing more.
    pub timeout_minutes: Option<u64>,
    /// The program of the config hears of its runs.
    pub notifies: bool,
    /// The model of its questions; empty for the one that answers.
    pub model: String,
    /// The most that a run may use.
    pub budget: Budget,
    /// Values that a run is begun with.
    pub inputs: BTreeMap<String, Input>,
    /// The triggers of a run, beside a person.
    pub triggers: Vec<Trigger>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Reach of a procedure without a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Calls whose arguments are all in the trusted file need no question.
    Auto,
    /// A call that the rules ask about waits for a person.
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

/// The most autonomy of a procedure's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caution {
    /// Changes are denied.
    Readonly,
    /// Changes are asked about.
    Supervised,
}

/// A value that a run is begun with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Its default value; without a default it must be named.
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
        /// A time that was missed is made up for, once.
        catches_up: bool,
    },
    /// A file that was made or changed.
    File {
        /// Patterns of paths below the workspace.
        paths: Vec<String>,
        /// Milliseconds for which it must have been left alone.
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
    /// The run ends.
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
    /// More attempts after a failure, and the milliseconds before each.
    pub retry: (u32, u64),
    /// Skipped unless this holds.
    pub when: Option<Test>,
    /// The most milliseconds that it may take.
    pub timeout_ms: u64,
    /// May run again if it isn't known whether it ran.
    pub is_repeatable: bool,
    /// Its output must be JSON that this describes.
    pub schema: Option<Schema>,
    /// The bytes of its output that are kept; a longer one is cut, and without this it is a failure.
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
        /// Only looks whether something holds, which its status tells.
        is_check: bool,
        /// The line, exactly as it runs.
        command: String,
        /// The directory, from the workspace.
        cwd: String,
        /// Values that it gets in environment variables.
        env: BTreeMap<String, Source>,
        /// Patterns of paths that it may change without a question.
        writes: Vec<String>,
    },
    /// A question to a model, which may look and change nothing.
    Model {
        /// The question.
        prompt: String,
        /// The model; empty for the procedure's.
        model: String,
        /// The only tools that it may use; all that only look if none are named.
        tools: Vec<String>,
    },
    /// A person's yes.
    Approval {
        /// The question.
        prompt: String,
        /// Ids of later steps whose calls the yes covers.
        covers: Vec<String>,
    },
    /// A run towards a goal.
    Goal {
        /// The goal.
        goal: String,
        /// Commands whose success ends it as done; those of the config if there are none.
        checks: Vec<String>,
        /// Patterns of paths that it may change; those of the config if it names none.
        writes: Vec<String>,
        /// Command lines that it may run.
        commands: Vec<String>,
        /// The most that it may use.
        budget: Budget,
    },
    /// Another procedure, as it is trusted when the step begins.
    Procedure {
        /// Its name.
        name: String,
        /// Its inputs; `X_from` stands for the input `X` from a source.
        inputs: Value,
    },
    /// Time that passes.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// A test that decides whether the run goes on.
    Condition {
        /// The test.
        test: Test,
        /// A test that doesn't hold is a failure; else the run is done.
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

    /// Returns whether it is a call of a tool, which may change something.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Tool { .. } | Self::Shell { .. })
    }

    /// Returns whether later steps can use its output.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.is_call() || self.is_run() || matches!(self, Self::Model { .. })
    }

    /// Returns whether it is a run of its own.
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

    /// The inputs of a run: those that are named, else the defaults.
    ///
    /// # Errors
    /// One is missing, unknown or too long, or holds a null character.
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
