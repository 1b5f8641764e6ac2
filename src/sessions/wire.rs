//! The record of a session as it lies in its commits: `session.json` and one file for each turn. Fields are only added;
//! a file with another version is shown as damaged rather than guessed at.

use serde::{Deserialize, Serialize};

use crate::host::now_unix_ms;

/// Version of both files.
pub const VERSION: u32 = 1;

/// `session.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Files whose contents go with each question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<String>,
    /// The commit that the session began at; none in a repository without commits.
    pub base: Option<String>,
    /// The branch that was checked out then.
    pub base_branch: Option<String>,
    /// The tree of the checkout's files as they were brought into the session last, with uncommitted changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<String>,
    /// Files that still have git's marks of conflicts in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// The session's id.
    pub id: String,
    /// The last merge into a branch of the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedFile>,
    /// The session and turn that it was forked from.
    pub parent: Option<Parent>,
    /// Time when it began, in milliseconds of Unix time.
    pub started_ms: i64,
    /// Its title.
    pub title: String,
    /// The number of its newest turn.
    pub turns: u64,
    /// Version of the format.
    pub v: u32,
}

/// A merge of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MergedFile {
    /// The commit that it became.
    pub commit: String,
    /// The branch.
    pub into: String,
    /// The number of the newest turn then.
    pub turns: u64,
}

/// Point where a session was forked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parent {
    /// The commit.
    pub commit: String,
    /// The session.
    pub id: String,
    /// Its turn.
    pub turn: u64,
}

/// The file of a turn. Its texts are without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnFile {
    /// The answer.
    pub answer: String,
    /// The calls of tools, in order.
    pub calls: Vec<CallFile>,
    /// The files that differ from the turn before.
    pub changes: Vec<ChangeFile>,
    /// Its cost, in words; none if no price is known.
    pub cost: Option<String>,
    /// The places of its changes that look like secrets, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The kind of act: `ask`, `user`, `base`, `code`.
    pub kind: String,
    /// The changes of commands that the commit leaves out, with the reason.
    pub left_out: Vec<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The question.
    pub question: String,
    /// Its end: `whole`, `conflicted`, `cancelled`, `failed`, `cut`.
    pub state: String,
    /// Time when it was asked, in milliseconds of Unix time.
    pub time_ms: i64,
    /// Tokens that were sent and received.
    pub tokens: [u64; 2],
    /// Its number.
    pub turn: u64,
    /// Version of the format.
    pub v: u32,
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFile {
    /// The arguments, JSON as the model wrote it.
    pub arguments: String,
    /// Its name for the model.
    pub id: String,
    /// The receipt of the call.
    pub receipt: Option<String>,
    /// Its result, as JSON.
    pub result: String,
    /// True if it succeeded.
    pub success: bool,
    /// The tool.
    pub tool: String,
}

/// A path that a turn changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeFile {
    /// The mode in git's form; none if the file is gone.
    pub mode: Option<String>,
    /// The new content's name in git.
    pub now: Option<String>,
    /// The path.
    pub path: String,
}

/// End of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The answer is whole.
    Whole,
    /// The user stopped it.
    Cancelled,
    /// The answer is whole, and files still have git's marks of conflicts in them.
    Conflicted,
    /// Failed.
    Failed,
    /// The process ended before the turn did.
    Cut,
}

impl State {
    /// The word for it in records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Cancelled => "cancelled",
            Self::Conflicted => "conflicted",
            Self::Failed => "failed",
            Self::Cut => "cut",
        }
    }
}

/// The texts of a turn. They must be without secrets: they become part of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnReport {
    /// The question.
    pub question: String,
    /// A line about the changes, for the commit; by default the question's beginning.
    pub subject: Option<String>,
    /// The answer.
    pub answer: String,
    /// Its end.
    pub state: State,
    /// The model.
    pub model: Option<String>,
    /// The calls.
    pub calls: Vec<CallFile>,
    /// Time when it was asked, in milliseconds of Unix time.
    pub time_ms: i64,
    /// Tokens that were sent and received.
    pub tokens: [u64; 2],
    /// Its cost, in words.
    pub cost: Option<String>,
    /// The changes of commands that the commit leaves out.
    pub left_out: Vec<String>,
    /// The places of its changes that look like secrets.
    pub doubts: Vec<String>,
}

impl TurnReport {
    /// A turn that a crash cut off.
    #[must_use]
    pub fn cut_off(question: String) -> Self {
        Self {
            question,
            subject: None,
            answer: String::new(),
            state: State::Cut,
            model: None,
            calls: Vec::new(),
            time_ms: now_unix_ms(),
            tokens: [0; 2],
            cost: None,
            left_out: Vec::new(),
            doubts: Vec::new(),
        }
    }
}
