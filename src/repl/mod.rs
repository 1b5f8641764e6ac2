//! The prompt: reedline's slots, the meta commands, the loop.
//!
//! Here a line that a person typed becomes a command of the live shell, a question or an instruction. What a model
//! proposes becomes a command only by a person's key (`offer`).

mod act;
mod answer;
mod channel;
mod editing;
pub mod goal;
mod hooks;
mod hub;
pub mod keys;
mod line;
mod offer;
mod outside;
mod records;
mod route;
mod rules;
mod run;
mod screen;
mod terminal;

pub use channel::Shell;
pub use editing::programs::first_names;
pub use editing::{complete, history, state, validate};
pub use rules::configure::editor_program;
pub use screen::stopped;
