//! The integration tests, in one binary.
#![allow(dead_code, reason = "the harness has doors that not every stage of the tests uses")]
#![allow(clippy::disallowed_methods, reason = "tests open what they need; waiting is held by tidy")]

mod agent;
mod ask;
mod config;
mod context;
mod conversations;
mod dispatch;
mod editor;
mod estop;
mod fish;
mod harness;
mod history;
mod hooks;
mod hostile;
mod input;
mod jobs;
mod licences;
mod llama;
mod login;
mod memory;
mod meta;
mod money;
mod need;
mod offer;
mod ops;
mod plugin;
mod procs;
mod project;
mod provider;
mod pty;
mod reading;
mod receipts;
mod redact;
mod route;
mod routing;
mod sandbox;
mod server;
mod sshd;
mod state;
mod tidy;
mod tool;
mod tui;
mod zsh;
