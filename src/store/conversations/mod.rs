//! Conversations and what belongs to them: calls, summaries, memories, search.

pub(super) mod calls;
pub(super) mod conversation;
pub(super) mod editor;
pub(super) mod memory;
pub(super) mod recall;
pub(super) mod summary;
