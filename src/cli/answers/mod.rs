//! Questions to a model without a session: the subcommands, their output, and the person at the terminal.

pub(super) mod agent;
pub(super) mod chat;
pub(super) mod desk;
pub(super) mod norris;
pub(super) mod person;
pub(super) mod wire;
