//! The integration tests, in one binary.
#![allow(dead_code, reason = "the harness has doors that not every stage of the tests uses")]

mod harness;
mod licences;
mod need;
mod procs;
mod pty;
mod sshd;
mod tidy;
