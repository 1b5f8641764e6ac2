//! The things that a user can ask for, one function for each: it acts, and returns a report as plain data. A `:word` of the
//! shell, a `/word` of the chat or of an editor, a subcommand and a server print or send the report. `COMMANDS` lists the
//! words.

pub mod commands;
pub mod context;
pub mod cost;
pub mod models;
mod renames;
mod rules;
pub mod sessions;
pub mod steps;
mod stored;

pub use commands::{COMMANDS, Command};
pub use rules::{allow, estop, policy, skills};
pub use stored::{conversations, editors, history, memory, receipts, routes};
