//! The integration tests, in one binary.
#![allow(dead_code, reason = "the harness has doors that not every stage of the tests uses")]
#![allow(clippy::disallowed_methods, reason = "tests open what they need; waiting is held by tidy")]

mod dispatch;
mod fish;
mod harness;
mod hostile;
mod input;
mod jobs;
mod licences;
mod login;
mod need;
mod procs;
mod pty;
mod sshd;
mod state;
mod tidy;
mod tui;
mod zsh;
