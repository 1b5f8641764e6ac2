//! The kinds of work that a router of models distinguishes.

/// A kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// A question.
    #[default]
    Chat,
    /// Source code.
    Code,
    /// A summary or a title.
    Summary,
    /// A plan.
    Plan,
    /// A commit message.
    Commit,
}

impl Task {
    /// The words besides tasks that a rule of a router may have: a long conversation, pictures, and everything without a rule.
    pub const OTHER_RULES: [&str; 3] = ["long", "images", "default"];

    /// Every task.
    pub const ALL: [Self; 5] = [Self::Chat, Self::Code, Self::Summary, Self::Plan, Self::Commit];

    /// Its word in the rules of a router.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Code => "code",
            Self::Summary => "summary",
            Self::Plan => "plan",
            Self::Commit => "commit",
        }
    }
}
