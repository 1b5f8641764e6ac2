//! An action and what the session allows, to effects, a risk and a decision, with reasons. Pure: it reads no file, runs
//! nothing and has no clock; what it needs to know of the disk it asks through [`Files`]. What isn't understood is never
//! taken for harmless.
//!
//! ```
//! use reedclaw::policy::{Context, Rules, judge};
//! use reedclaw::proto::action::{Action, Risk};
//!
//! let rules = Rules::new("/home/u/work", "/home/u");
//! let command = "rm -rf /".to_owned();
//! assert_eq!(judge(&Action::Shell { command }, &Context::new(&rules)).risk, Risk::Blocked);
//! ```

use crate::proto::action::{Action, Autonomy, Decision, Reason, Risk, Verdict};

/// What holds for a session: the user's settings and where things are. Paths are absolute and without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The directory that a model may work in.
    pub workspace: String,
    /// The user's home.
    pub home: String,
    /// How much runs unasked.
    pub autonomy: Autonomy,
    /// Whether everything outside the workspace is out of bounds.
    pub workspace_only: bool,
    /// Paths below which nothing is read or written.
    pub forbidden_paths: Vec<String>,
    /// Commands that never run, by the last part of their path.
    pub forbidden_commands: Vec<String>,
    /// What happens with high risk under `supervised`.
    pub high: High,
    /// Hosts that may be asked with GET; one that begins with a dot means all below it.
    pub allow_domains: Vec<String>,
    /// ReedClaw's own directories and files: config, state, data. Never written by a model.
    pub own_paths: Vec<String>,
}

/// What happens with high risk under `supervised`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum High {
    /// The person is asked.
    #[default]
    Ask,
    /// It is denied.
    Deny,
}

impl Rules {
    /// Rules with nothing but the two directories: supervised, inside the workspace only.
    #[must_use]
    pub fn new(workspace: &str, home: &str) -> Self {
        Self {
            workspace: workspace.to_owned(),
            home: home.to_owned(),
            autonomy: Autonomy::default(),
            workspace_only: true,
            forbidden_paths: Vec::new(),
            forbidden_commands: Vec::new(),
            high: High::default(),
            allow_domains: Vec::new(),
            own_paths: Vec::new(),
        }
    }
}

/// What is known where an action is judged.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// What holds for the session.
    pub rules: &'a Rules,
    /// The directory that the action starts in, absolute.
    pub cwd: &'a str,
    /// Whether a person can be asked; where none can, each question is answered with no.
    pub can_ask: bool,
    /// Whether the sandbox is weaker than it should be, which raises each risk but low by one step, never to blocked.
    pub is_weakly_sandboxed: bool,
    /// The disk.
    pub files: &'a dyn Files,
}

impl<'a> Context<'a> {
    /// A context in the workspace, with a person to ask, in which nothing of the disk is known.
    #[must_use]
    pub fn new(rules: &'a Rules) -> Self {
        Self { rules, cwd: &rules.workspace, can_ask: true, is_weakly_sandboxed: false, files: &NoFiles }
    }
}

/// What a verdict may ask of the disk. Every answer may be `None`, which never makes anything less risky.
pub trait Files {
    /// Where a path leads once every link on it is followed; for what isn't there yet, where its directory leads.
    fn canonical(&self, path: &str) -> Option<String>;
    /// The paths that a pattern matches, absolute.
    fn matches(&self, pattern: &str) -> Option<Vec<String>>;
}

/// A disk of which nothing is known.
pub struct NoFiles;

impl Files for NoFiles {
    fn canonical(&self, _path: &str) -> Option<String> {
        None
    }

    fn matches(&self, _pattern: &str) -> Option<Vec<String>> {
        None
    }
}

/// Judges an action.
#[must_use]
pub fn judge(action: &Action, context: &Context<'_>) -> Verdict {
    let (risk, rule, text) = match action {
        Action::Inert { name } => (Risk::Low, "inert", format!("{name} touches nothing outside")),
        Action::Shell { command } if command.trim() == "rm -rf /" => {
            (Risk::Blocked, "delete-root", "deletes / and all below it".to_owned())
        }
        _ => (Risk::High, "not-understood", "what this does isn't known".to_owned()),
    };
    let risk = if context.is_weakly_sandboxed && risk == Risk::Medium { Risk::High } else { risk };
    let decision = decide(risk, context);
    Verdict { risk, decision, reasons: vec![Reason { rule, risk, text }], effects: Vec::new() }
}

/// What follows from a risk.
#[must_use]
pub fn decide(risk: Risk, context: &Context<'_>) -> Decision {
    let decision = match (context.rules.autonomy, risk) {
        (_, Risk::Blocked) => Decision::Deny,
        (_, Risk::Low) | (Autonomy::Full, Risk::Medium) => Decision::Run,
        (Autonomy::Readonly, _) => Decision::Deny,
        (Autonomy::Supervised, Risk::High) if context.rules.high == High::Deny => Decision::Deny,
        (Autonomy::Supervised | Autonomy::Full, Risk::Medium | Risk::High) => Decision::Ask,
    };
    if decision == Decision::Ask && !context.can_ask { Decision::Deny } else { decision }
}
