//! The executable: looks at `argv` before anything else, and becomes the backing shell if `argv` calls for it.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use reedclaw::cli::{self, backing, dispatch};

cli::before_runtimes!(become_shell_at_once);

/// Becomes the backing shell for `-c`, which editors, tmux and ssh run all day, before the runtimes of the embedded languages are
/// set up. Returns if the arguments don't call for it, or if the config may name another shell: then `main` does it.
fn become_shell_at_once() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_none_or(|word| word != "-c") || cli::may_name_shell() {
        return;
    }
    if let dispatch::Dispatch::Become(rest) = dispatch::decide(&arguments, streams()) {
        let _ = backing::become_shell(&backing::find(None), is_login(&arguments), &rest);
    }
}

fn streams() -> dispatch::Streams {
    dispatch::Streams {
        input: std::io::stdin().is_terminal(),
        output: std::io::stdout().is_terminal(),
        error: std::io::stderr().is_terminal(),
    }
}

fn is_login(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|name| name.to_string_lossy().starts_with('-'))
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match dispatch::decide(&arguments, streams()) {
        dispatch::Dispatch::Become(rest) => {
            let program = backing::find(cli::configured_shell());
            let error = backing::become_shell(&program, is_login(&arguments), &rest);
            eprintln!("reedclaw: {}: {error}", program.display());
            ExitCode::from(126)
        }
        dispatch::Dispatch::Interactive(how) => cli::interactive(&how),
        dispatch::Dispatch::Command(rest) => cli::run(&rest),
        dispatch::Dispatch::Sandboxed(rest) => cli::become_sandboxed(&rest),
    }
}
