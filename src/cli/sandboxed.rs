//! The helper of the sandbox: the executable called by itself, to become a program that a model wants to run.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::sandbox::{self, Calls, HELPER_FAILED};
use crate::shell::sys;

/// Restricts this process and becomes the program; comes back only where that fails, and says why on standard error.
#[must_use]
pub fn become_sandboxed(arguments: &[OsString]) -> ExitCode {
    let why = sandbox::enter(
        arguments,
        Calls { close_from: sys::close_descriptors_from, drop_capabilities: sys::drop_capabilities },
    );
    eprintln!("reedclaw: sandbox: {why}");
    ExitCode::from(HELPER_FAILED)
}
