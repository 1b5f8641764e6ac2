//! The executable: looks at `argv` before anything else, and becomes the backing shell wherever that is meant.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use reedclaw::cli::{self, backing, dispatch};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let streams = dispatch::Streams {
        input: std::io::stdin().is_terminal(),
        output: std::io::stdout().is_terminal(),
        error: std::io::stderr().is_terminal(),
    };
    match dispatch::decide(&arguments, streams) {
        dispatch::Dispatch::Become(rest) => {
            let login = arguments.first().is_some_and(|name| name.to_string_lossy().starts_with('-'));
            let program = backing::find(cli::configured_shell());
            let error = backing::become_shell(&program, login, &rest);
            eprintln!("reedclaw: {}: {error}", program.display());
            ExitCode::from(126)
        }
        dispatch::Dispatch::Interactive(how) => cli::interactive(&how),
        dispatch::Dispatch::Command(rest) => cli::run(&rest),
        dispatch::Dispatch::Sandboxed(rest) => cli::become_sandboxed(&rest),
    }
}
