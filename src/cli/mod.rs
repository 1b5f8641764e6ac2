//! Command-line arguments: who gets them, the subcommands, and how an interactive session starts and ends.

mod answers;
pub mod backing;
pub mod command;
pub mod dispatch;
pub mod exit;
mod front;
mod options;
mod out;
mod pdf;
mod records;
mod rules;
mod sandboxed;
mod services;
mod setup;

pub use crate::shell::sys::before_runtimes;
pub use front::interactive;
pub use sandboxed::become_sandboxed;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::host;

/// The shell in the user's config. Reads the config only if it can name one; never fails.
#[must_use]
pub fn configured_shell() -> Option<PathBuf> {
    crate::config::shell_program(&host::environment())
}

/// Returns whether the user's config may name a shell; to find out which, its interpreter would have to run.
#[must_use]
pub fn may_name_shell() -> bool {
    crate::config::may_name_shell(&host::environment())
}

/// Runs a subcommand.
#[must_use]
pub fn run(arguments: &[OsString]) -> ExitCode {
    command::run(arguments)
}
