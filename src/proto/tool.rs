//! One tool call, as faces see it: the question whether it may run, the person's answer, and the outcome. Plain data.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::action::{Action, PolicyVerdict, Reason};

/// The start of those lines of a preview that the command printed: the other lines are ReedClaw's words.
pub const PRINTED: &str = "│ ";

/// The heading of a question that ReedClaw itself asks, and not the model.
pub const OWN_HEADING: &str = "ReedClaw asks:";

/// A call that the person is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The fingerprint of exactly this call: an answer applies to it and to nothing else.
    pub digest: String,
    /// The tool.
    pub tool: String,
    /// Its effect.
    pub action: Action,
    /// The policy's verdict.
    pub verdict: PolicyVerdict,
    /// The changes or the data to be sent, in full; text from outside, which must be escaped when it is shown.
    pub preview: String,
    /// The files that would change, if their exact contents are known: those of the preview, for faces that draw more of them
    /// than text.
    pub changes: Arc<[FileChange]>,
    /// The directory it would run in.
    pub cwd: String,
    /// The program of its first word, if it is a command and the program is known.
    pub program: Option<String>,
    /// `true` if "always" may be chosen.
    pub may_always: bool,
    /// The directories that tools fill, if the call changes nothing else: the person may allow every command to fill them. Text
    /// from outside, which must be escaped when it is shown.
    pub filled: Vec<String>,
    /// `true` if it ran and wanted a terminal: only "in my shell" and no are possible answers.
    pub only_own_shell: bool,
}

impl Question {
    /// Adds the objection of a second opinion. It is about this call only, so the person can't choose "always".
    pub fn doubt(&mut self, text: String) {
        let risk = self.verdict.risk;
        self.verdict.reasons.push(Reason { rule: "reviewer", risk, text });
        self.may_always = false;
        self.filled.clear();
    }

    /// Returns the rows about a command's changes that no hunk shows, such as a picture, a link or a removed directory of build
    /// products.
    #[must_use]
    pub fn others(&self) -> &[String] {
        if let Action::Keep { others, .. } = &self.action { others } else { &[] }
    }

    /// Returns the rows about a command's changes, without the first, which reports how it ended.
    pub fn change_rows(&self) -> impl Iterator<Item = &str> {
        let preview = if matches!(self.action, Action::Keep { .. }) { self.preview.as_str() } else { "" };
        preview.lines().skip(1)
    }
}

/// One file of a proposal, with its current and its new content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The path, as the model wrote it.
    pub path: String,
    /// Its current content; `None` if it doesn't exist.
    pub old: Option<Vec<u8>>,
    /// Its new content; `None` if it would be deleted.
    pub new: Option<Vec<u8>>,
}

/// A person's answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Runs it this once.
    Once,
    /// Runs it, and from now on exactly this command in this project.
    Always,
    /// Applies these changes, and from now on those of every command in [`Question::filled`].
    AlwaysFilled,
    /// Runs this command instead; it is judged again.
    Edited(String),
    /// Makes only some of the changes.
    Partly {
        /// `true` for each wanted hunk, by file and hunk in the order of the difference.
        hunks: Vec<Vec<bool>>,
        /// `true` if the changes that no hunk shows are wanted.
        has_others: bool,
    },
    /// Replaces the new content of the file of this number; it is judged, shown and asked about again.
    Rewritten(usize, Vec<u8>),
    /// Runs it in the person's own shell.
    InMyShell,
    /// Refuses it. The model gets the person's reason, if there is one.
    No(String),
    /// Refuses it because there was no answer; the text is the reason.
    Unanswered(String),
}

/// A command that still runs after its time limit, as it is shown to the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The command.
    pub command: String,
    /// Time that it has run.
    pub ran_for: Duration,
    /// The last line of its output; text from outside, which must be escaped when it is shown.
    pub last_line: Option<String>,
    /// The reason why it can't continue as a job, if there is one.
    pub no_job: Option<&'static str>,
}

/// A person's choice about an [`Overdue`] command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverdueChoice {
    /// Continues as a job, while the model continues its work.
    Job,
    /// Continues, and the model waits until it ends.
    Wait,
    /// Ended now.
    End,
}

/// The outcome of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// `true` if it succeeded.
    pub success: bool,
    /// Its output, for the model; text from outside.
    pub output: String,
    /// Reason why it failed.
    pub error: Option<ToolError>,
    /// Facts about the output: sizes, an exit status, the place of the rest.
    pub metadata: Map<String, Value>,
    /// The id of its receipt.
    pub receipt_id: Option<String>,
}

/// An event of a call, for any face to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolEvent {
    /// The call, as its model names it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its progress.
    pub step: Step,
}

/// A call as its tool has planned it. None of its text is escaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its effect.
    pub action: Action,
    /// Its arguments.
    pub arguments: Value,
    /// The files that would change, if they are known in advance.
    pub changes: Arc<[FileChange]>,
    /// `true` if a person is asked before it runs.
    pub is_asked: bool,
}

/// The progress of a call. Each one begins with `Requested` and ends with `Done`.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The model requests it.
    Requested {
        /// Its effect, in one line. It quotes the model, so it must be escaped when it is shown.
        intent: String,
        /// The call, for faces that show more than a line.
        planned: Arc<Planned>,
    },
    /// A person has approved it.
    Approved,
    /// Not run.
    Denied {
        /// The reason.
        why: String,
    },
    /// Over, whether it ran or not.
    Done {
        /// The outcome.
        outcome: Outcome,
        /// Its duration, including questions to the person.
        duration: Duration,
    },
}

/// The [code](ToolError::code) of a command that continues after its time limit.
pub const STILL_RUNNING: &str = "still-running";
/// The [code](ToolError::code) of a command that the person ended.
pub const ENDED_BY_USER: &str = "ended-by-user";

/// The reason why a call failed, written so that a model can correct the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// The kind of the failure, a stable identifier such as `not-found`.
    pub code: &'static str,
    /// The failure and its object.
    pub message: String,
    /// The next thing to try; may be empty.
    pub hint: String,
}

impl ToolError {
    /// Makes an error.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }

    /// Returns whether it failed; a call that continues as a job, or that the person ended, didn't fail.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        ![STILL_RUNNING, ENDED_BY_USER].contains(&self.code)
    }

    /// The failure in one line, without the lines that quote a file.
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
    /// A call that succeeded.
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

    /// All fields as JSON: `{success, output, error?, metadata?, receipt_id?}`.
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
