//! `reedclaw estop`: stops every tool, shows whether they are stopped, and lets a person at a terminal start them again.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::cli::exit;
use crate::cli::out::{errln, outln, says_yes};
use crate::config::Env;
use crate::host;
use crate::ops::estop;
use crate::proto::Failure;
use crate::render::sanitise;

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("estop")
        .about("Stops every tool of a model, in every session, until it is cleared")
        .arg(
            flag("status")
                .conflicts_with("clear")
                .help("Only says whether tools are stopped; exits with 1 if they are"),
        )
        .arg(flag("clear").help("Lets tools run again; asks, and only at a terminal"))
        // The words of `:estop`, which are options here.
        .arg(Arg::new("word").value_name("WORD").hide(true).value_parser(|word: &str| match word {
            "clear" | "status" => Err::<String, _>(format!("write --{word}")),
            _ => Err("it takes options only".to_owned()),
        }))
}

/// Carries it out.
pub(in crate::cli) fn run(matches: &ArgMatches) -> ExitCode {
    match act(matches) {
        Ok(code) => code,
        Err(failure) => exit::failed(&failure),
    }
}

fn act(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let env = host::environment();
    if matches.get_flag("status") {
        return Ok(tell(estop::reason(&env)?));
    }
    if matches.get_flag("clear") {
        return clear(&env);
    }
    let why = estop::stop(&env, "command")?;
    outln!("{}\nreedclaw estop --clear lets them run again", sanitise(&why));
    Ok(ExitCode::SUCCESS)
}

/// Prints the state; a stop is status 1.
fn tell(reason: Option<String>) -> ExitCode {
    let code = u8::from(reason.is_some());
    outln!("{}", sanitise(&estop::status(reason)));
    ExitCode::from(code)
}

fn clear(env: &Env) -> Result<ExitCode, Failure> {
    let Some(why) = estop::reason(env)? else {
        outln!("tools are not stopped");
        return Ok(ExitCode::SUCCESS);
    };
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::refused("only a person at a terminal clears the emergency stop")
            .hint("run reedclaw estop --clear at a terminal, without a pipe"));
    }
    if !says_yes(&format!("{why}\nLet tools run again? Type yes:")) {
        errln!("nothing was changed");
        return Ok(ExitCode::from(exit::FAILED));
    }
    estop::clear(env)?;
    Ok(tell(estop::reason(env)?))
}
