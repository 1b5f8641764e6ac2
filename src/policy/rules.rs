//! Input of a verdict beside the action: the rules of the session, the place, the disk as far as it is asked for.

use crate::proto::action::{Autonomy, Hold};
use crate::proto::program_rule::ProgramRule;

/// The rules of a session: the user's settings and the places of things. Paths are absolute and without `.` and `..`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The directory that a model may work in.
    pub workspace: String,
    /// The user's home.
    pub home: String,
    /// The extent of what runs unasked.
    pub autonomy: Autonomy,
    /// `true` if everything outside the workspace is out of bounds.
    pub workspace_only: bool,
    /// Directories outside the workspace that may be read; nothing is written there.
    pub readable: Vec<String>,
    /// Paths below which nothing is read or written.
    pub forbidden_paths: Vec<String>,
    /// Commands that never run, by the last part of their path.
    pub forbidden_commands: Vec<String>,
    /// Programs of which the user wants more care than the table of programs takes.
    pub programs: Vec<ProgramRule>,
    /// The treatment of high risk under `supervised`.
    pub high: High,
    /// Hosts that may be asked with GET; one that begins with a dot means all below it.
    pub allow_domains: Vec<String>,
    /// ReedClaw's own directories and files: config, state, data. Never written by a model.
    pub own_paths: Vec<String>,
    /// `true` if files of the workspace are changed in a draft of a git session, which the person takes over later:
    /// ordinary edits are made unasked then.
    pub is_draft: bool,
}

/// The rule of a reason that always causes a question, regardless of confinement.
pub(super) const ASKED: &str = "asked-program";

/// Place where a command runs that another one starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    Here,
    /// On another machine, over the network.
    Machine,
    Container,
}

/// The treatment of high risk under `supervised`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum High {
    /// The person is asked.
    #[default]
    Ask,
    /// Denied.
    Deny,
}

impl Rules {
    /// Rules with nothing but the two directories: supervised, inside the workspace only.
    #[must_use]
    pub fn new(workspace: &str, home: &str) -> Self {
        let (workspace, home) = (workspace.to_owned(), home.to_owned());
        Self { workspace, home, workspace_only: true, ..Self::default() }
    }
}

/// The facts at the place where an action is judged.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The rules of the session.
    pub rules: &'a Rules,
    /// The directory that the action starts in, absolute.
    pub cwd: &'a str,
    /// True if a person can be asked; otherwise each question is answered with no.
    pub can_ask: bool,
    /// The wall around a command that starts. It decides which questions come before the run and which after it.
    pub hold: Hold,
    /// The disk.
    pub files: &'a dyn Files,
}

impl<'a> Context<'a> {
    /// A context in the workspace, with a person to ask, in which nothing of the disk is known.
    #[must_use]
    pub fn new(rules: &'a Rules) -> Self {
        Self { rules, cwd: &rules.workspace, can_ask: true, hold: Hold::Walls, files: &NoFiles }
    }
}

/// The questions that a verdict may ask of the disk. Every answer may be `None` or no, which never makes anything less risky.
pub trait Files {
    /// Returns the target of a path with every link on it followed; for a missing path, that of its directory.
    fn canonical(&self, path: &str) -> Option<String>;

    /// Returns whether a change of a path changes a file that other programs run by another name: git's configuration
    /// names it, or a link leads to it.
    fn is_named(&self, _path: &str, _rules: &Rules) -> bool {
        false
    }
}

/// A disk of which nothing is known.
pub struct NoFiles;

impl Files for NoFiles {
    fn canonical(&self, _path: &str) -> Option<String> {
        None
    }
}
