//! Selection of the tools that a model is offered: a small model does better with fewer. A tool that isn't offered can still be
//! called. Must not decide what a call may do.

/// Cases in which a tool is described to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Always: most work needs it, or the user added it.
    Core,
    /// Unless the model is small.
    Usual,
    /// Only if all tools are wanted: others do the same.
    Extra,
    /// If there is a person to ask.
    WithPerson,
    /// Never at the moment.
    Never,
}

/// The tools that the config describes to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolSet {
    /// The core for a small model, the usual ones for others.
    #[default]
    Auto,
    /// The core.
    Core,
    /// Every one.
    All,
}

impl ToolSet {
    /// The words of the setting.
    pub const WORDS: [&str; 3] = ["auto", "core", "all"];

    /// Returns the set for a word of the setting, or the first set if the word is unknown.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            "core" => Self::Core,
            "all" => Self::All,
            _ => Self::Auto,
        }
    }

    /// Returns whether such a tool is described to a model.
    pub(in crate::tools) fn has(self, offer: Offer, is_small: bool, can_ask: bool) -> bool {
        match offer {
            Offer::Core => true,
            Offer::Usual => self == Self::All || self == Self::Auto && !is_small,
            Offer::Extra => self == Self::All,
            Offer::WithPerson => can_ask,
            Offer::Never => false,
        }
    }
}
