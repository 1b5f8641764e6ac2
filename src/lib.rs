//! ReedClaw: a conversational login shell.
//!
//! The rooms, by floor (see `ARCHITECTURE.md`). Imports go down only, and rooms of one floor don't see each other;
//! `tests/it/tidy` checks it.
//!
//! Doors: a room that opens files, processes, the environment or the clock is exempted from that rule of `clippy.toml` at its
//! declaration below, with the things that it opens; so is printing, which is `console`'s and, without a session, `cli`'s.
#![deny(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they need"))]

// floor 0
pub mod base;
// floor 1
pub mod bash;
pub mod proto;
pub mod redact;
pub mod schema;
pub mod syntax;
pub mod web;
// floor 2: pure, no I/O, no clock
pub mod canvas;
pub mod chain;
pub mod money;
pub mod norris;
pub mod policy;
pub mod render;
pub mod route;
pub mod sop;
pub mod tokens;
pub mod turn;
// floor 3
#[allow(clippy::disallowed_methods, reason = "files beneath a directory, locks, replacing a file of ours")]
pub mod files;
#[allow(
    clippy::disallowed_methods,
    reason = "environment, clock, working directory, where a key is read from, the clipboard"
)]
pub mod host;
#[allow(clippy::disallowed_methods, reason = "the log's file")]
pub mod log;
pub mod lua;
pub mod rpc;
// floor 4
#[allow(clippy::disallowed_methods, reason = "config files, records of trust")]
pub mod config;
#[allow(clippy::disallowed_methods, reason = "the file of the emergency stop")]
pub mod estop;
#[allow(clippy::disallowed_methods, reason = "objects and references of a repository, git's program")]
pub mod git;
#[allow(clippy::disallowed_methods, reason = "the gateway's database and its lock")]
pub mod ledger;
#[allow(clippy::disallowed_methods, reason = "manual pages, the index of them")]
pub mod manual;
#[allow(
    clippy::disallowed_methods,
    reason = "the cached manifests of servers, their tokens, the port to which a login returns"
)]
pub mod mcp;
pub mod model;
#[allow(clippy::disallowed_methods, reason = "a repository's names, instructions and references; git for its state")]
pub mod project;
#[allow(clippy::disallowed_methods, reason = "the log of receipts and what lies beside it")]
pub mod receipts;
#[allow(
    clippy::disallowed_methods,
    reason = "programs in a sandbox, its temporary directory, what of the machine is opened to them"
)]
pub mod sandbox;
pub mod share;
#[allow(
    clippy::disallowed_methods,
    reason = "the shell's process and terminal, programs on PATH, the supervisor's exit"
)]
pub mod shell;
#[allow(clippy::disallowed_methods, reason = "files of skills and prompt templates")]
pub mod skills;
#[allow(clippy::disallowed_methods, reason = "the store of steps")]
pub mod steps;
#[allow(clippy::disallowed_methods, reason = "the database's file")]
pub mod store;
// floor 5
#[allow(clippy::disallowed_methods, reason = "where paths lead, the rules of what is allowed")]
pub mod gate;
#[allow(clippy::disallowed_methods, reason = "the directory that commands of a session work on")]
pub mod tree;
// floor 6
#[allow(clippy::disallowed_methods, reason = "lock, journal and draft of a session in the state directory")]
pub mod sessions;
#[allow(clippy::disallowed_methods, reason = "whole outputs, programs")]
pub mod tools;
// floor 7
pub mod agent;
// floor 8
pub mod app;
// floor 9
pub mod console;
pub mod ops;
// floor 10
pub mod acp;
pub mod ask;
#[allow(clippy::disallowed_methods, reason = "the gateway's listener, the workspaces of its projects")]
pub mod gateway;
#[allow(
    clippy::disallowed_methods,
    reason = "questions of other agents' calls in the state directory, and their socket"
)]
pub mod serve;
// floor 11
pub mod repl;
// floor 12
#[allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the backing shell, history files to import, schemas of answers, the environment before a session"
)]
pub mod cli;
