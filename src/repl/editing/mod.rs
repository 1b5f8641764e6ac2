//! The parts of the line editor that know the shell: completion, colours, history, menus, prompt, and the state that they share.

pub mod complete;
pub(super) mod editor;
pub(super) mod highlight;
pub mod history;
pub(super) mod menu;
pub(super) mod programs;
pub(super) mod prompt;
pub(super) mod slots;
pub mod state;
pub mod validate;
pub(super) mod writer;
