//! `:` commands about stored things: conversations, sessions, memories, steps, costs, what a killed session left.

#[allow(clippy::disallowed_methods, reason = "the file that a block of an answer is saved to")]
pub(super) mod blocks;
pub(super) mod changes;
pub(super) mod context;
pub(super) mod conversations;
pub(super) mod cost;
pub(super) mod leftover;
pub(super) mod manual;
pub(super) mod memory;
pub(super) mod repository;
pub(super) mod sessions;
pub(super) mod steps;
