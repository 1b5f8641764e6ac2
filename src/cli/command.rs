//! The subcommands and flags, as clap knows them, and what each does.

use crate::render::sanitise;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::exit;
use super::import;
use crate::app::{self, Runtime};
use crate::host;
use crate::log;
use crate::proto::action::Autonomy;
use crate::proto::{Failure, FailureKind};

/// The whole command line, for parsing and for `--help`.
#[must_use]
pub fn definition() -> Command {
    Command::new("reedclaw")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A conversational login shell: a command runs in your own live shell, a sentence goes to a model")
        .after_help(
            "Without a subcommand, at a terminal: the shell. With -c, -s, a script, or no terminal: the backing \
             shell (shell.program in the config, else bash, else /bin/sh) with the same arguments. A script named \
             like a subcommand is written ./route or after --. Other options (-l, --login, -i, --norc, --noprofile, \
             --rcfile FILE, -x, -o NAME …) mean what they mean to bash.",
        )
        .disable_help_subcommand(true)
        .args(options())
        .subcommand(super::route::definition())
        .subcommand(
            Command::new("history").about("Imports a shell's history").subcommand_required(true).subcommand(
                Command::new("import")
                    .about("Imports the history of bash, zsh or fish; a second import adds nothing twice")
                    .arg(
                        Arg::new("shell")
                            .value_name("SHELL")
                            .value_parser(["bash", "zsh", "fish"])
                            .help("Whose history; without a name, all that are found"),
                    )
                    .arg(
                        Arg::new("file")
                            .long("file")
                            .value_name("FILE")
                            .requires("shell")
                            .value_parser(clap::value_parser!(PathBuf))
                            .help("The history file, if it isn't the usual one"),
                    ),
            ),
        )
        .subcommand(super::agent::definition())
        .subcommand(super::acp::definition())
        .subcommand(super::card::definition())
        .subcommand(super::config::definition())
        .subcommand(super::memory::definition())
        .subcommand(super::cost::definition())
        .subcommand(super::doctor::definition())
        .subcommand(super::provider::definition())
        .subcommand(super::onboard::definition())
        .subcommand(super::receipt::definition())
        .subcommand(super::estop::definition())
        .subcommand(super::allow::definition())
        .subcommand(super::init::definition())
        .subcommand(super::tool::definition())
        .subcommand(super::plugin::definition())
        .subcommand(super::mcp::definition())
        .subcommand(super::pdf::definition())
        .subcommand(super::policy::definition())
        .subcommand(super::steps::undo_definition())
        .subcommand(super::steps::redo_definition())
        .subcommand(super::steps::steps_definition())
        .subcommand(super::completions::definition())
        .subcommand(Command::new("help").about("Prints this help"))
}

/// What may stand in front of a subcommand, or begin a session.
fn options() -> [Arg; 5] {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    [
        text("config", "PATH")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Reads this config instead of ~/.config/reedclaw/config.lua"),
        text("path", "DIR")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Begins in DIR; its repository or project is what the model works on"),
        text("model", "NAME").help("Uses this model of the config"),
        text("log-level", "LEVEL")
            .value_parser(log::LEVELS)
            .help("Logs error, warn, info or debug, instead of REEDCLAW_LOG_LEVEL"),
        Arg::new("login").short('l').long("login").action(ArgAction::SetTrue).help("Starts as a login shell"),
    ]
}

/// What std's `println!` panics with where standard output can't be written.
const CANNOT_PRINT: &str = "failed printing to stdout: ";

/// Lets a command whose reader has gone (`| head`) end without a word, and one whose output is full say so.
fn end_where_nobody_reads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let said = info.payload().downcast_ref::<String>().and_then(|text| text.strip_prefix(CANNOT_PRINT));
        match said {
            None => usual(info),
            Some(why) if why.contains("(os error 32)") => std::process::exit(0),
            Some(why) => {
                let _ = writeln!(std::io::stderr(), "reedclaw: standard output can't be written: {why}");
                std::process::exit(1)
            }
        }
    }));
}

/// Runs a subcommand, or prints help or the version.
#[must_use]
pub fn run(arguments: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from("reedclaw")).chain(arguments.iter().cloned());
    let matches = match definition().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    end_where_nobody_reads();
    let level = matches.get_one::<String>("log-level").map(String::as_str);
    for unknown in app::start_log(&host::environment(), true, level) {
        eprintln!("reedclaw: {}", sanitise(&unknown));
    }
    let (path, model) = (matches.get_one::<PathBuf>("path").cloned(), matches.get_one::<String>("model").cloned());
    if let Some(failure) = out_of_place(matches.subcommand_name(), path.is_some(), model.is_some()) {
        return exit::failed(&failure);
    }
    match matches.subcommand() {
        Some(("route", matches)) => super::route::run(matches),
        Some(("history", matches)) => match matches.subcommand() {
            Some(("import", matches)) => finish(import::run(
                matches.get_one::<String>("shell").map(String::as_str),
                matches.get_one::<PathBuf>("file").map(PathBuf::as_path),
            )),
            _ => ExitCode::from(exit::USAGE),
        },
        Some(("agent", inner)) => super::agent::run(inner, config_of(&matches), path, model),
        Some(("acp", inner)) => super::acp::run(inner, config_of(&matches)),
        Some(("card", inner)) => super::card::run(inner, config_of(&matches), path),
        Some(("memory", inner)) => super::memory::run(inner, config_of(&matches)),
        Some(("cost", inner)) => super::cost::run(inner, config_of(&matches)),
        Some(("doctor", inner)) => super::doctor::run(inner, config_of(&matches)),
        Some(("config", inner)) => super::config::run(inner, config_of(&matches)),
        Some(("provider", inner)) => super::provider::run(inner, config_of(&matches)),
        Some(("init", _)) => super::init::run(config_of(&matches)),
        Some(("pdf-text", _)) => super::pdf::run(),
        Some(("plugin", inner)) => super::plugin::run(inner),
        Some(("mcp", inner)) => super::mcp::run(inner, config_of(&matches)),
        Some(("tool", inner)) => super::tool::run(inner, config_of(&matches)),
        Some(("policy", inner)) => super::policy::run(inner, config_of(&matches)),
        Some(("onboard", inner)) => super::onboard::run(inner, config_of(&matches)),
        Some(("receipt", inner)) => super::receipt::run(inner, config_of(&matches)),
        Some(("estop", inner)) => super::estop::run(inner),
        Some((name @ ("undo" | "redo" | "steps"), inner)) => super::steps::run(name, inner, config_of(&matches)),
        Some(("allow", inner)) => super::allow::run(inner, config_of(&matches)),
        Some(("completions", inner)) => super::completions::run(inner),
        _ => {
            let _ = definition().print_help();
            ExitCode::SUCCESS
        }
    }
}

/// Why an option in front of a subcommand can't be meant so; passed over, it would hide a mistake.
fn out_of_place(subcommand: Option<&str>, path: bool, model: bool) -> Option<Failure> {
    let message = match subcommand {
        None if path || model => "--path and --model begin a session, which needs a terminal".to_owned(),
        Some(name) if path && !matches!(name, "agent" | "card") => format!("reedclaw {name} has no --path"),
        Some(name) if model && name != "agent" => format!("reedclaw {name} has no --model"),
        _ => return None,
    };
    Some(Failure { kind: FailureKind::User, message, hint: "reedclaw --help lists the options".into() })
}

fn finish(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

fn config_of(matches: &clap::ArgMatches) -> Option<PathBuf> {
    matches.get_one::<PathBuf>("config").cloned()
}

/// A number and what it counts.
pub(super) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `--autonomy LEVEL`.
pub(super) fn autonomy(help: &'static str) -> Arg {
    Arg::new("autonomy")
        .long("autonomy")
        .value_name("LEVEL")
        .value_parser(PossibleValuesParser::new(Autonomy::WORDS))
        .help(help)
}

/// The autonomy that `--autonomy` names.
pub(super) fn autonomy_of(matches: &ArgMatches) -> Option<Autonomy> {
    matches.get_one::<String>("autonomy").and_then(|word| Autonomy::of(word))
}

/// Lets what `--autonomy` says hold for this run. The person has typed it, so it may also raise what the config says.
pub(super) fn set_autonomy(runtime: &mut Runtime, matches: &ArgMatches) {
    let security = &mut runtime.settings.security;
    security.autonomy = autonomy_of(matches).unwrap_or(security.autonomy);
}

/// Prints a failure on standard error, as every subcommand does.
pub(super) fn report(failure: &Failure) {
    eprintln!("reedclaw: {}", crate::render::sanitise(&failure.message));
    if !failure.hint.is_empty() {
        eprintln!("  {}", crate::render::sanitise(&failure.hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::dispatch::SUBCOMMANDS;

    #[test]
    fn the_definition_holds_and_dispatch_knows_each_subcommand() {
        definition().debug_assert();
        let names: Vec<String> = definition().get_subcommands().map(|it| it.get_name().to_owned()).collect();
        assert_eq!(names, SUBCOMMANDS);
    }
}
