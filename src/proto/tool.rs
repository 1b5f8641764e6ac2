//! One tool call, as faces see it: the question whether it may run, what the person says to it, and what came of it.
//! Plain data.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::action::{Action, PolicyVerdict};

/// A call that the person is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The fingerprint of exactly this call: an answer counts for it and for nothing else.
    pub digest: String,
    /// The tool.
    pub tool: String,
    /// What it would do.
    pub action: Action,
    /// What the policy says of it.
    pub verdict: PolicyVerdict,
    /// What would change or be sent, whole; text from outside, to be escaped by whoever shows it.
    pub preview: String,
    /// The files that would change, where that is known to the byte: those of the preview, for whoever draws more of them.
    pub changes: Arc<[FileChange]>,
    /// The directory it would run in.
    pub cwd: String,
    /// The program that its first word stands for, where it is a command and that can be said.
    pub program: Option<String>,
    /// Whether "always" may be said to it.
    pub may_always: bool,
    /// It ran and wanted a terminal: only "in my shell" counts, and no.
    pub only_own_shell: bool,
}

/// One file of a proposal: what it holds and what it would hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Which, as the model wrote it.
    pub path: String,
    /// What it holds; nothing where there is none.
    pub old: Option<Vec<u8>>,
    /// What it would hold; nothing where it would go.
    pub new: Option<Vec<u8>>,
}

/// What a person says to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Run it, this once.
    Once,
    /// Run it, and the very same command in this project from now on.
    Always,
    /// Run this in its place; it is judged anew.
    Edited(String),
    /// Make only these of the hunks, by file and hunk in the order of the difference.
    Partly(Vec<Vec<bool>>),
    /// This is what the file of this number is to hold; it is judged, shown and asked about anew.
    Rewritten(usize, Vec<u8>),
    /// Run it in my own shell.
    InMyShell,
    /// Don't. The model is told why, where something was said.
    No(String),
}

/// A command that still runs when its time is over, as the person is asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// What runs.
    pub command: String,
    /// Since when.
    pub ran_for: Duration,
    /// The last line that it printed; text from outside, to be escaped by whoever shows it.
    pub last_line: Option<String>,
    /// Why it can't go on as a job, where it can't.
    pub no_job: Option<&'static str>,
}

/// What a person wants to become of an [`Overdue`] command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverdueChoice {
    /// It goes on as a job, and the model with its work.
    Job,
    /// It is waited for until it ends.
    Wait,
    /// It is ended now.
    End,
}

/// What came of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Whether it did what it should.
    pub success: bool,
    /// What it gave, for the model; text from outside.
    pub output: String,
    /// Why it failed.
    pub error: Option<ToolError>,
    /// Facts about the output: sizes, an exit status, where the rest of it is.
    pub metadata: Map<String, Value>,
    /// The receipt that tells of it.
    pub receipt_id: Option<String>,
}

/// What happens to a call, for any face to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolEvent {
    /// The call, as its model names it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// How far it is.
    pub step: Step,
}

/// A call as its tool has planned it. Nothing of it is escaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What it would do.
    pub action: Action,
    /// Its arguments.
    pub arguments: Value,
    /// The files that would change, where that is known beforehand.
    pub changes: Arc<[FileChange]>,
    /// Whether a person is asked before it runs.
    pub is_asked: bool,
}

/// How far a call is. Each one begins with `Requested` and ends with `Done`, unless its tool isn't known.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The model wants it.
    Requested {
        /// What it is about to do, in a line. It quotes the model: whoever shows it escapes it.
        intent: String,
        /// The call, for faces that show more than a line.
        planned: Arc<Planned>,
    },
    /// A person said yes.
    Approved,
    /// It doesn't run.
    Denied {
        /// Why.
        why: String,
    },
    /// It is over, run or not.
    Done {
        /// What came of it.
        outcome: Outcome,
        /// How long it took, questions to the person included.
        duration: Duration,
    },
}

/// The [code](ToolError::code) of a command whose time is over and that goes on.
pub const STILL_RUNNING: &str = "still-running";
/// The [code](ToolError::code) of a command that the person ended.
pub const ENDED_BY_USER: &str = "ended-by-user";

/// Why a call failed, so that a model can mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What kind of trouble, a stable identifier such as `not-found`.
    pub code: &'static str,
    /// What failed, and on what.
    pub message: String,
    /// What to try next; may be empty.
    pub hint: String,
}

impl ToolError {
    /// Makes one.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }

    /// Whether something went wrong: neither does what goes on fail, nor what the person ended.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        ![STILL_RUNNING, ENDED_BY_USER].contains(&self.code)
    }

    /// What failed, in one line: what a file has there follows in others.
    #[must_use]
    pub fn headline(&self) -> &str {
        self.message.split_once('\n').map_or(&self.message, |(first, _)| first.trim_end_matches(':'))
    }
}

impl From<ToolError> for Outcome {
    fn from(error: ToolError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

impl Outcome {
    /// A call that did what it should.
    #[must_use]
    pub fn of(output: impl Into<String>) -> Self {
        Self { success: true, output: output.into(), ..Self::default() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(name.to_owned(), value.into());
        self
    }

    /// The whole of it as JSON: `{success, output, error?, metadata?, receipt_id?}`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut whole = Map::new();
        whole.insert("success".into(), self.success.into());
        whole.insert("output".into(), self.output.clone().into());
        if let Some(ToolError { code, message, hint }) = &self.error {
            let mut error = Map::new();
            error.insert("code".into(), (*code).into());
            error.insert("message".into(), message.clone().into());
            if !hint.is_empty() {
                error.insert("hint".into(), hint.clone().into());
            }
            whole.insert("error".into(), error.into());
        }
        if !self.metadata.is_empty() {
            whole.insert("metadata".into(), self.metadata.clone().into());
        }
        if let Some(id) = &self.receipt_id {
            whole.insert("receipt_id".into(), id.clone().into());
        }
        whole.into()
    }
}
