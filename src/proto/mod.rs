//! The nouns that rooms exchange: plain data, no behaviour that acts.

pub mod action;
mod image;
pub mod known_paths;
mod names;
pub mod program_rule;
pub mod served;
mod task;
pub mod team;
pub mod tool;
mod usage;
pub mod wire;

use std::path::PathBuf;
use std::time::Duration;

pub use image::Image;
pub use names::{NameKind, NameList, Names, ShellKeys};
pub use task::Task;
pub use usage::{Money, Spent, Usage};

/// A system call that the kernel holds until it is answered.
#[derive(Clone, Copy, Debug)]
pub struct HeldCall {
    /// The number under which it is answered.
    pub id: u64,
    /// The thread that makes it, in the process namespace of the reader.
    pub thread: u32,
    /// The number of the call.
    pub call: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// The destination of a line.
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
    /// The destination of the line.
    pub route: Route,
    /// The text that goes there: the line without a forcing prefix (`!`, `$ `, `?`).
    pub text: String,
    /// The rule that decided, a stable identifier such as `first-word-resolves`.
    pub rule: &'static str,
    /// The reason, in words that a user understands.
    pub reason: String,
    /// The confidence, as a logarithm of odds: above 0 favours the shell, below 0 the model.
    pub score: f32,
}

/// A line that a person typed, or adopted after reading it. Only such a line can be handed to the live shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HumanLine {
    text: String,
    kind: LineKind,
}

impl HumanLine {
    /// Wraps a line that a person typed at the prompt.
    #[must_use]
    pub fn typed(text: String) -> Self {
        Self { text, kind: LineKind::Command }
    }

    /// Turns a model's command into the person's own: to be called only after a person has read it and agreed.
    #[must_use]
    pub fn adopted(command: ModelCommand) -> Self {
        Self { text: command.text, kind: LineKind::ModelCommand }
    }

    /// The exact command line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The word for it in the history.
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

/// The kind of a line in the history.
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

/// The bounded copy of a command's output: head, then tail; the bytes between them were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes, after `omitted_bytes` that were dropped.
    pub tail: Vec<u8>,
    /// Bytes dropped between head and tail.
    pub omitted_bytes: u64,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The command line as it was handed over.
    pub command: String,
    /// The shell's `$?`.
    pub status: i32,
    /// From the start of the command to its end.
    pub duration: Duration,
    /// The shell's working directory afterwards, if it reported one.
    pub cwd: Option<PathBuf>,
    /// The virtual environment (Python, conda) that is active afterwards, or an empty text.
    pub environment: String,
    /// Its output, raw, bounded.
    pub output: Capture,
}

/// The author of a message. Roles of the OpenAI chat protocol.
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
    /// Its author.
    pub role: Role,
    /// Its text.
    pub content: String,
}

/// The kind of a failure, for exit codes and the wording.
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
    /// A budget would be exceeded.
    Budget,
    /// The model's server can't be reached.
    Unreachable,
    /// Something else outside is missing, or does not answer as it should.
    Unavailable,
    /// A fault of ReedClaw.
    Internal,
}

/// A failure, ready to be shown: what failed and on what, and one thing to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// The failure and its object, in one line.
    pub message: String,
    /// One thing to do next; may be empty.
    pub hint: String,
    /// The server of a model that failed, if one did.
    pub upstream: Option<Box<Upstream>>,
}

/// The server of a model that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The model's name in the config.
    pub model: String,
    /// The status of HTTP, if it answered with one.
    pub http_status: Option<u16>,
}

impl Failure {
    /// A failure without a hint.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new(), upstream: None }
    }

    /// A failure of the user's input.
    #[must_use]
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(FailureKind::User, message)
    }

    /// A failure of the configuration.
    #[must_use]
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Config, message)
    }

    /// A failure because there is no model.
    #[must_use]
    pub fn no_model(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NoModel, message)
    }

    /// A failure because a rule of ours forbids it.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, message)
    }

    /// A failure because it would exceed a budget.
    #[must_use]
    pub fn budget(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Budget, message)
    }

    /// A failure of something outside.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unavailable, message)
    }

    /// A fault of ReedClaw.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Internal, message)
    }

    /// The same failure with one thing to do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

/// The reason why an answer is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The answer reached its limit, or that of the model's window.
    Length,
    /// The model had no more rounds of tools, or repeated itself.
    Rounds,
    /// The server's filter stopped it.
    Filtered,
}

/// An event of a session on git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session is on.
    Started {
        /// Its id.
        session: String,
    },
    /// Files of the session still have conflict markers when a question is asked.
    Conflict {
        /// The session's id.
        session: String,
        /// The files.
        paths: Vec<String>,
    },
    /// A call of a tool changed files of the running turn.
    DraftChanged {
        /// The session's id.
        session: String,
        /// The files, by path from the top of the project.
        paths: Vec<String>,
    },
    /// A turn became a commit.
    Committed(TurnCommitted),
    /// A turn could not be committed, and its files stay in the draft.
    NotCommitted {
        /// The session's id.
        session: String,
        /// The reason.
        failure: Failure,
    },
}

/// A turn of a session on git that became a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnCommitted {
    /// The session's id: a new one if the branch had moved, so that the turn went to a fork.
    pub session: String,
    /// The turn's number.
    pub turn: u64,
    /// The commit.
    pub commit: String,
    /// The number of files that it changed.
    pub files: usize,
    /// The lines that it added and removed; `None` if they weren't counted.
    pub lines: Option<[u64; 2]>,
    /// The word for the way in which it ended.
    pub state: &'static str,
    /// The files that still have conflict markers.
    pub conflicts: Vec<String>,
    /// The event in one line for people.
    pub text: String,
}

impl SessionEvent {
    /// The event in one line for people; `None` if they see it anyway with the call that it belongs to.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Started { session } => Some(format!("[session] {session}")),
            Self::Conflict { paths, .. } => Some(format!("[session] conflicts left in {}", paths.join(", "))),
            Self::DraftChanged { .. } => None,
            Self::Committed(turn) => Some(turn.text.clone()),
            Self::NotCommitted { failure, .. } => Some(format!("[session] {}", failure.message)),
        }
    }
}

/// Events while a question is answered, in order, for any face to draw.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something the user should know, such as an eviction from the context.
    Notice(String),
    /// A piece of the answer, raw as the model sent it (not sanitised).
    Text(String),
    /// A piece of the model's thoughts before its answer, raw.
    Thought(String),
    /// An event of a tool call.
    Tool(Box<tool::ToolEvent>),
    /// A request to a model is over, with its cost; an answer may take several.
    Usage(Box<Spent>),
    /// An event of the session on git that the question belongs to.
    Session(Box<SessionEvent>),
    /// The answer has come to its end.
    Answered {
        /// The whole text.
        text: String,
        /// The reason why it is incomplete, if it is.
        shortfall: Option<Shortfall>,
    },
    /// The user stopped the answer; the text so far stays.
    Cancelled {
        /// The text so far.
        text: String,
    },
    /// The answer failed; the text so far, if any, stays.
    Failed {
        /// The text so far.
        text: String,
        /// Reason why it ended.
        failure: Failure,
    },
}
