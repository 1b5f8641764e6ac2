//! The prompt: reedline's slots, the meta commands, the loop.
pub mod history;
