//! Texts that a model writes about a conversation: summaries, memories, titles.

pub(super) mod compact;
pub(super) mod remember;
pub(super) mod scribe;
pub(super) mod title;
