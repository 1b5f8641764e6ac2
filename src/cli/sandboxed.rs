//! The helper of the sandbox: the executable called by itself, to become a program that a model wants to run.

use std::ffi::OsString;
use std::process::ExitCode;

use nix::sys::signal::Signal;

use crate::cli::out::errln;
use crate::sandbox::{self, Calls, HELPER_FAILED};
use crate::shell::sys;

/// Restricts this process and becomes the program; returns only if that fails, with the reason on standard error.
#[must_use]
pub fn become_sandboxed(arguments: &[OsString]) -> ExitCode {
    // Signals that this process or its parent ignores must not be ignored in the program.
    Signal::iterator().filter(|it| !matches!(it, Signal::SIGKILL | Signal::SIGSTOP)).for_each(sys::default_action);
    let why = sandbox::enter(
        arguments,
        Calls {
            close: sys::close_descriptors,
            drop_capabilities: sys::drop_capabilities,
            add_mount_attributes: sys::add_mount_attributes,
            bring_loopback_up: sys::bring_loopback_up,
            hold_calls: sys::seccomp_listener,
            next_call: sys::seccomp_notice,
            let_call: sys::seccomp_continue,
            fork: || match sys::fork_single_threaded()? {
                sys::Side::Parent(child) => Ok(Some(child)),
                sys::Side::Child => Ok(None),
            },
        },
    );
    errln!("reedclaw: sandbox: {why}");
    ExitCode::from(HELPER_FAILED)
}
