//! The tools that a model is offered: fewer are better for a small one. A tool that isn't offered can be called all the
//! same. Must not decide what a call may do.

/// Cases in which a tool is described to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Always: it is all that most work takes, or the person added it.
    Core,
    /// Unless the model is small.
    Usual,
    /// Only if all tools are wanted: others do the same.
    Extra,
    /// If somebody can be asked.
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

    /// The set of a word; the first if it is none.
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
