//! `reedclaw estop`: stops every tool, says whether they are stopped, and lets a person at a terminal start them again.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use nix::sys::termios::{FlushArg, tcflush};

use super::exit;
use super::out::outln;
use crate::app;
use crate::estop::Estop;
use crate::host;
use crate::proto::{Failure, FailureKind};
use crate::render::sanitise;

/// The subcommand, as clap knows it.
pub(super) fn definition() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("estop")
        .about("Stops every tool of a model, in every session, until it is cleared")
        .arg(
            flag("status")
                .conflicts_with("clear")
                .help("Only says whether tools are stopped; exits with 1 if they are"),
        )
        .arg(flag("clear").help("Lets tools run again; asks, and only at a terminal"))
}

/// Carries it out.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    match act(matches) {
        Ok(code) => code,
        Err(failure) => exit::failed(&failure),
    }
}

fn act(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let estop = app::estop(&host::environment())?;
    if matches.get_flag("status") {
        outln!("{}", sanitise(&status(&estop)));
        return Ok(ExitCode::from(u8::from(estop.check().is_err())));
    }
    if matches.get_flag("clear") {
        return clear(&estop);
    }
    estop.stop().map_err(|error| cannot(&estop, "made", &error))?;
    tracing::warn!(event = "estop_triggered", by = "command", shown = true);
    outln!("{}\nreedclaw estop --clear lets them run again", sanitise(&status(&estop)));
    Ok(ExitCode::SUCCESS)
}

/// One line about its state.
pub(super) fn status(estop: &Estop) -> String {
    match estop.check() {
        Ok(()) => "tools may run: no emergency stop".to_owned(),
        Err(stopped) => stopped.why,
    }
}

fn clear(estop: &Estop) -> Result<ExitCode, Failure> {
    let Err(stopped) = estop.check() else {
        outln!("tools are not stopped");
        return Ok(ExitCode::SUCCESS);
    };
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure {
            kind: FailureKind::Refused,
            message: "only a person at a terminal clears the emergency stop".into(),
            hint: "run reedclaw estop --clear at a terminal, without a pipe".into(),
        });
    }
    // Text typed before the question isn't an answer to it.
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    eprint!("{}\nLet tools run again? Type yes: ", sanitise(&stopped.why));
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    if answer.trim() != "yes" {
        eprintln!("nothing was changed");
        return Ok(ExitCode::from(exit::FAILED));
    }
    estop.clear().map_err(|error| cannot(estop, "removed", &error))?;
    outln!("{}", sanitise(&status(estop)));
    Ok(ExitCode::from(u8::from(estop.check().is_err())))
}

fn cannot(estop: &Estop, what: &str, error: &io::Error) -> Failure {
    Failure {
        kind: FailureKind::Unavailable,
        message: format!("{} can't be {what}: {error}", estop.path().display()),
        hint: "look at it, and at the permissions of its directory".into(),
    }
}
