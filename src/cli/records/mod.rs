//! Subcommands about stored things: history, costs, memories, receipts, sessions, steps.

pub(super) mod card;
pub(super) mod cost;
pub(super) mod import;
pub(super) mod memory;
pub(super) mod receipt;
pub(super) mod session;
pub(super) mod steps;
