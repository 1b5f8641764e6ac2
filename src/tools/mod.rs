//! Tools that a model may call: each tool describes itself, plans a call without touching anything, and runs it with a
//! permit of the gate. A tool sees neither the session nor the model.

mod ask;
mod canvas;
mod catalog;
mod check;
mod context;
mod edit;
mod http;
mod memory;
pub mod plugin;
mod reading;
mod running;
pub mod script;
mod search;
pub mod served;
mod shell;
mod skill;
mod time;

pub use catalog::stranger;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;

use crate::files::Tree;
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{FileChange, Outcome, Overdue, OverdueChoice, ToolError};
use crate::sandbox::MadeInHome;

pub use ask::{DELEGATE_TOOL, Delegate, HELPER_TOOLS};
pub use canvas::{Boards, CANVAS_TOOLS, Canvases, canvas_tools};
pub use catalog::offer::{Offer, ToolSet};
pub use catalog::registry::Registry;
pub use catalog::spill::Spill;
pub use check::{Check, EARLIER_FILES, EarlierFile};
pub use context::UpdateContext;
pub use edit::{changed_by_person, chosen, edit_tools};
pub use http::{Http, HttpOptions, SearchOptions, SearchService, WebSearch, judged_client};
pub use memory::Remember;
pub use reading::pdf::{PAGE_END, Pdf, pages_of_pdf};
pub use reading::reads::Reads;
pub use reading::symbols::Symbols;
pub use running::copied::{Copied, Shown, link_protection, listed, protection, shown};
pub use running::launcher::{Launcher, Terms, WholeBench};
pub use running::refused::Refusal;
pub use running::worktrees::clear_worktrees;
pub use script::Script;
pub use shell::{IsStopped, Job, Jobs, Shell};
pub use skill::{Library, Skill};

/// Names of tools that need settings, beside those that every registry has.
pub const OWN_TOOLS: [&str; 13] = [
    "edit_apply_batch",
    "edit_create_file",
    "edit_delete_file",
    "edit_insert_at_line",
    "edit_replace_exact",
    "file_write",
    "http",
    "pdf_extract",
    "shell",
    "shell_job",
    "skill",
    "symbols",
    "web_search",
];

/// A tool's description, for the model and for lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Other names that calls and lists may use; the model is shown only `name`.
    pub aliases: &'static [&'static str],
    /// Its purpose, for the model.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub schema: Value,
}

impl Spec {
    /// Returns whether one of its names is in a list.
    #[must_use]
    pub fn is_in(&self, names: &[String]) -> bool {
        names.iter().any(|name| *name == self.name || self.aliases.contains(&name.as_str()))
    }

    /// The schema as text, as a model gets it.
    #[must_use]
    pub fn schema_text(&self) -> String {
        catalog::schema_text::schema_text(&self.schema)
    }

    /// The description and the schema for a small model, if the tool has a brief.
    #[must_use]
    pub fn words(&self, brief: Option<Brief>) -> (String, String) {
        match brief {
            None => (self.description.clone(), self.schema_text()),
            Some(brief) => {
                let schema = catalog::schema_text::with_only(&self.schema, brief.arguments);
                (brief.description.to_owned(), catalog::schema_text::schema_text(&schema))
            }
        }
    }
}

/// A tool in few words, for a small model. Its other arguments can still be used; results mention them if they help.
#[derive(Clone, Copy, Debug)]
pub struct Brief {
    /// Its purpose.
    pub description: &'static str,
    /// Names of arguments of the schema, the required ones among them.
    pub arguments: &'static [&'static str],
}

/// A call as its tool understands it; nothing has been touched.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The action that it would take.
    pub action: Action,
    /// The proposed change as text for a person; may be empty.
    pub preview: String,
    /// The files that would change, with their exact contents, if the tool knows.
    pub changes: Arc<[FileChange]>,
    /// The directory that it would run in, if that isn't the workspace.
    pub cwd: Option<PathBuf>,
    /// Reason why the call can't be carried out, if the reason reveals something about a file: the model reads it only if the
    /// policy permits the action.
    pub refusal: Option<Outcome>,
    /// A line about the call, if the action alone doesn't describe it.
    pub intent: Option<String>,
    /// Arguments that the tool doesn't have and that were left out.
    pub left_out: Vec<String>,
}

impl Plan {
    /// A plan without a preview, in the workspace.
    #[must_use]
    pub fn of(action: Action) -> Self {
        Self {
            action,
            preview: String::new(),
            changes: [].into(),
            cwd: None,
            refusal: None,
            intent: None,
            left_out: Vec::new(),
        }
    }

    /// Returns the same plan with a line that describes the call.
    #[must_use]
    pub fn saying(self, intent: String) -> Self {
        Self { intent: Some(intent), ..self }
    }
}

/// Place where a call would be carried out.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The workspace.
    pub tree: &'a dyn Tree,
    /// Whole outputs that a model has seen the ends of.
    pub spill: &'a Spill,
}

/// A tool.
pub trait Tool: Send {
    /// Describes the tool; the same at each call.
    fn spec(&self) -> Spec;

    /// Cases in which it is described to a model.
    fn offer(&self) -> Offer {
        Offer::Usual
    }

    /// The few words for a small model, if it has any.
    fn brief(&self) -> Option<Brief> {
        None
    }

    /// Understands a call whose arguments are valid against the schema. Touches nothing.
    ///
    /// # Errors
    /// The call makes no sense; the model reads the reason and may correct the call.
    fn plan(&self, arguments: &Value, place: Place<'_>) -> Result<Plan, ToolError>;

    /// Returns the arguments for a call that writes the contents a person wants in place of the results of `arguments`; `None` if
    /// the tool changes no files.
    fn revised(&self, _arguments: &Value, _files: &[FileChange]) -> Option<Value> {
        None
    }

    /// Does what the permit allows.
    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome;
}

/// The surroundings of a tool's work.
pub struct Work<'a> {
    /// The workspace and the stored outputs.
    pub place: Place<'a>,
    /// Limits on durations and outputs.
    pub limits: &'a Limits,
    /// True if it is to stop: the person's Ctrl-C, the emergency stop.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
    /// The person, to be asked something.
    pub person: &'a mut dyn Replies,
    /// Earlier conversations.
    pub memory: &'a mut dyn Memory,
    /// Notes for later conversations that the model proposes.
    pub notes: &'a mut Vec<String>,
    /// Paths that earlier calls were about, in their original spelling.
    pub used: &'a [PathBuf],
    /// The call ran before and runs again, with more rights: from the state that it began with.
    pub is_again: bool,
    /// The copy that a command has worked on, for the decision about its changes.
    pub copied: Option<Copied>,
    /// Files and directories that a command has made in its private home at paths of the home that it was allowed to make.
    pub new_in_home: Vec<MadeInHome>,
    /// The commands that continue after their calls; `None` before the first command.
    pub jobs: Option<Jobs>,
    /// Reason why no helper can begin.
    pub no_helper: Option<&'static str>,
}

/// Answers a model's questions.
pub trait Replies {
    /// Puts the model's question to the person; `None` if there is no person, or they didn't answer.
    fn reply(&mut self, question: &str, choices: &[String]) -> Option<String>;

    /// Does the same for the question of another party, which the heading names.
    fn reply_to(&mut self, _heading: &str, question: &str, choices: &[String]) -> Option<String> {
        self.reply(question, choices)
    }

    /// Prints one of ReedClaw's own lines, unchanged.
    fn tell(&mut self, _line: &str) {}

    /// Shows how far a call has come, in a few harmless words.
    fn progress(&mut self, _text: &str) {}

    /// Asks the person what to do with an overdue command until it `has_ended`; `None` if there is no person, or they didn't
    /// answer.
    fn overdue(&mut self, _command: &Overdue, _has_ended: &Arc<AtomicBool>) -> Option<OverdueChoice> {
        None
    }
}

/// Earlier conversations.
pub trait Memory {
    /// Searches them: at most `limit` places, the best first.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn search(&mut self, query: &str, limit: usize) -> Result<Vec<Found>, String>;
}

/// A place in an earlier conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The conversation.
    pub conversation: i64,
    /// Its title.
    pub title: String,
    /// The speaker: `user` or `assistant`.
    pub role: String,
    /// The text around the words that were found.
    pub text: String,
}

/// Limits on durations and outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A tool without a limit of its own.
    pub tool: Duration,
    /// Time limit of a command.
    pub shell: Duration,
    /// A request to another machine.
    pub http: Duration,
    /// Bytes of an output that the model is shown; of a longer one it sees head and tail.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tool: Duration::from_secs(30),
            shell: Duration::from_secs(15),
            http: Duration::from_secs(20),
            output_bytes: 32 * 1024,
        }
    }
}

/// Returns a text argument; empty if it is absent.
fn text<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// An argument that is a whole number.
fn number(arguments: &Value, name: &str) -> Option<usize> {
    arguments.get(name).and_then(Value::as_u64).and_then(|value| usize::try_from(value).ok())
}
