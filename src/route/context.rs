//! The facts for a decision about a line, and the decision before the text is cut out.

use super::weights::Weights;
use crate::proto::{Names, Route};

/// The session's knowledge for a decision about a line.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The names that the live shell resolves.
    pub names: &'a Names,
    /// `true` if a word names an existing executable file or directory; asked only for a first word.
    pub is_path: &'a dyn Fn(&str) -> bool,
    /// `true` if a word names an existing file of any kind; asked only for the arguments of a line that is in doubt.
    pub exists: &'a dyn Fn(&str) -> bool,
    /// The line's destination regardless of its content: from the user's key (Ctrl-T), a mode, or a hook of the config.
    pub forced: Option<Forced>,
    /// `true` if the model's last answer ended with a question, so that `yes` is a reply.
    pub model_asked: bool,
    /// The side to which the user sent this very line before, against the decision.
    pub answered: Option<Route>,
    /// `true` if the user has run this very line before.
    pub ran_before: bool,
    /// The weights, with the user's corrections.
    pub weights: &'a Weights,
}

impl<'a> Context<'a> {
    /// A context in which only the names are known.
    #[must_use]
    pub fn new(names: &'a Names) -> Self {
        Self {
            names,
            is_path: &|_| false,
            exists: &|_| false,
            forced: None,
            model_asked: false,
            answered: None,
            ran_before: false,
            weights: Weights::built_in(),
        }
    }
}

/// The authority that sends a line somewhere regardless of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Ctrl-T, for this line.
    Key(Route),
    /// `:mode shell` or `:mode ask`; a prefix still counts.
    Mode(Route),
    /// The answer of the config's `route` hook; a prefix still counts.
    Hook(Route),
    /// Only prefixes decide: everything else goes to the shell.
    Prefixes,
}

/// Destination and reason of a line, before the text is cut out.
pub(super) struct Call {
    pub(super) route: Route,
    pub(super) rule: &'static str,
    pub(super) reason: String,
    pub(super) score: f32,
}
