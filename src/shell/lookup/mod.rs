//! The names that a shell resolves, and the programs on `PATH`.

pub mod names;
pub mod programs;
pub mod survey;
