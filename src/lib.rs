//! ReedClaw: a conversational login shell.
//!
//! The rooms of the house, by floor (see `ARCHITECTURE.md`). Imports go down only and rooms of one
//! floor don't see each other; `tests/it/tidy` holds it.
#![deny(unsafe_code)]

// floor 0
pub mod base;
// floor 1
pub mod proto;
// floor 2: pure, no I/O, no clock
pub mod render;
pub mod route;
pub mod turn;
// floor 3
pub mod host;
// floor 4
pub mod config;
pub mod model;
pub mod shell;
pub mod store;
// floor 7
pub mod agent;
// floor 8
pub mod app;
// floor 9
pub mod console;
// floor 10
pub mod repl;
// floor 11
pub mod cli;
