//! The names that a shell resolves, and the programs on `PATH`.

mod keys;
pub mod names;
pub mod programs;
pub mod survey;
