//! The prompt: reedline's slots, the meta commands, the loop.
//!
//! Here a line that a person typed becomes a command of the live shell, a question or an instruction. What a model
//! proposes becomes a command only by a person's key (`offer`).

mod act;
mod allow;
mod answer;
mod approve;
#[allow(clippy::disallowed_methods, reason = "the file that a block of an answer is saved to")]
mod blocks;
mod changes;
mod channel;
pub mod complete;
mod configure;
mod context;
mod conversations;
mod cost;
mod editor;
mod estop;
pub mod goal;
mod highlight;
pub mod history;
mod hooks;
pub mod keys;
mod leftover;
mod line;
mod manual;
mod memory;
mod menu;
mod offer;
mod outside;
mod policy;
mod programs;
mod project;
mod prompt;
mod route;
mod run;
mod secrets;
mod served;
mod sessions;
mod skills;
mod slots;
pub mod state;
mod steps;
mod terminal;
mod tooling;
pub mod validate;
mod writer;

pub use answer::stopped;
pub use channel::Shell;
pub use configure::editor_program;
pub use programs::first_names;
