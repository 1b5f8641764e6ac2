//! The things in the store: conversations, the history of lines, memories.

pub mod conversations;
pub mod history;
pub mod memory;
