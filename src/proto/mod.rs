//! The nouns that rooms exchange: plain data, no behaviour that acts.

pub mod action;
mod image;
pub mod known_paths;
mod names;
pub mod program_rule;
pub mod served;
mod task;
pub mod tool;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

pub use image::Image;
pub use names::{NameKind, Names, ShellKeys};
pub use task::Task;
pub use usage::{Money, Spent, Usage};

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing but white space.
    Empty,
    /// `:word`, an instruction to ReedClaw itself.
    Meta,
    /// The user's live shell.
    Shell,
    /// The model.
    Ask,
    /// Shell or model: the user is asked which.
    Confirm,
}

/// The router's answer for one line.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteVerdict {
    /// Where the line goes.
    pub route: Route,
    /// The text that goes there: the line without a forcing prefix (`!`, `$ `, `?`).
    pub text: String,
    /// The rule that decided, a stable identifier such as `first-word-resolves`.
    pub rule: &'static str,
    /// The reason, in words that a user understands.
    pub reason: String,
    /// How sure that is, as a logarithm of odds: above 0 speaks for the shell, below for the model.
    pub score: f32,
}

/// A line that a person typed, or adopted after reading it. Only such a line can be handed to the live shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HumanLine {
    text: String,
    kind: LineKind,
}

impl HumanLine {
    /// Wraps what a person typed at the prompt.
    #[must_use]
    pub fn typed(text: String) -> Self {
        Self { text, kind: LineKind::Command }
    }

    /// Turns a model's command into the person's own: call it only where a person has read it and said yes.
    #[must_use]
    pub fn adopted(command: ModelCommand) -> Self {
        Self { text: command.text, kind: LineKind::ModelCommand }
    }

    /// The command line, to the byte.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the history calls it.
    #[must_use]
    pub fn kind(&self) -> LineKind {
        self.kind
    }
}

/// A command that a model proposed. It can be shown; to run, a person adopts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCommand {
    /// The command, possibly of several lines (a here-document).
    pub text: String,
}

/// What a line in the history was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Typed and run by the shell.
    Command,
    /// Asked of the model.
    Question,
    /// Proposed by the model, run by the person.
    ModelCommand,
    /// A meta command.
    Meta,
}

/// The bounded copy of a command's output: head, then tail; what lay between was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes, after `omitted_bytes` that were dropped.
    pub tail: Vec<u8>,
    /// How many bytes were dropped between head and tail.
    pub omitted_bytes: u64,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The command line as it was handed over.
    pub command: String,
    /// The shell's `$?`.
    pub status: i32,
    /// From the start of the command to its end.
    pub duration: Duration,
    /// The shell's working directory afterwards, where it said so.
    pub cwd: Option<PathBuf>,
    /// The virtual environment (Python, conda) that is active afterwards, or nothing.
    pub environment: String,
    /// Its output, raw, bounded.
    pub output: Capture,
}

/// Who said a message. Roles of the OpenAI chat protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions, first in a conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
}

/// What kind of trouble, for exit codes and tone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The user's input.
    User,
    /// The configuration.
    Config,
    /// No model is configured, or none is chosen.
    NoModel,
    /// A rule of ours forbids it.
    Refused,
    /// It would go over a budget.
    Budget,
    /// Something outside is not there or does not answer.
    Unavailable,
    /// A fault of ReedClaw.
    Internal,
}

/// A failure, ready to be shown: what failed and on what, and one thing to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of trouble.
    pub kind: FailureKind,
    /// What failed, and on what. One line.
    pub message: String,
    /// One thing to do next; may be empty.
    pub hint: String,
}

/// Why an answer isn't all that it could have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// It reached the most that an answer, or what the model holds, may be long.
    Length,
    /// The model had no more rounds of tools, or repeated itself.
    Rounds,
    /// The server's filter stopped it.
    Filtered,
}

/// What happens while a question is answered, in order, for any face to draw.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something the user should know, such as an eviction from the context.
    Notice(String),
    /// A piece of the answer, raw as the model sent it (not sanitised).
    Text(String),
    /// A piece of what the model thought before it answered, raw.
    Thought(String),
    /// Something happens to a call of a tool.
    Tool(Box<tool::ToolEvent>),
    /// A request to a model is over, and this is what it came to; an answer may take several.
    Usage(Box<Spent>),
    /// The answer is whole.
    Answered {
        /// The whole text.
        text: String,
    },
    /// The user stopped it; what had come is kept.
    Cancelled {
        /// What had come.
        text: String,
    },
    /// It failed; what had come, if anything, is kept.
    Failed {
        /// What had come.
        text: String,
        /// Why it ended.
        failure: Failure,
    },
}
