//! The subcommands and flags, one table for clap and for dispatch.

use crate::cli::out::{err, errln, settle};
use crate::render::sanitise;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{exit, pdf};
use crate::app;
use crate::cli::answers::agent;
use crate::cli::answers::norris;
use crate::cli::records::card;
use crate::cli::records::cost;
use crate::cli::records::import;
use crate::cli::records::memory;
use crate::cli::records::receipt;
use crate::cli::records::session;
use crate::cli::records::steps;
use crate::cli::rules::allow;
use crate::cli::rules::estop;
use crate::cli::rules::plugin;
use crate::cli::rules::policy;
use crate::cli::rules::route;
use crate::cli::rules::tool;
use crate::cli::services::acp;
use crate::cli::services::gateway;
use crate::cli::services::mcp;
use crate::cli::services::service;
use crate::cli::services::sop;
use crate::cli::setup::completions;
use crate::cli::setup::config;
use crate::cli::setup::doctor;
use crate::cli::setup::init;
use crate::cli::setup::onboard;
use crate::cli::setup::provider;
use crate::host;
use crate::log;
use crate::proto::Failure;

/// A call of a subcommand.
pub(super) struct Call<'a> {
    /// The name that was typed.
    name: &'static str,
    /// Its own arguments.
    matches: &'a ArgMatches,
    /// `--config`.
    config: Option<PathBuf>,
    /// `--path`.
    path: Option<PathBuf>,
    /// `--model`.
    model: Option<String>,
}

/// A subcommand.
pub(super) struct Subcommand {
    /// Its first word.
    pub(super) name: &'static str,
    definition: fn() -> Command,
    run: fn(Call<'_>) -> ExitCode,
}

const fn subcommand(name: &'static str, definition: fn() -> Command, run: fn(Call<'_>) -> ExitCode) -> Subcommand {
    Subcommand { name, definition, run }
}

/// The subcommands: parsing, help, completion, documentation and dispatch read this table.
pub(super) const SUBCOMMANDS: [Subcommand; 31] = [
    subcommand("route", route::definition, |it| route::run(it.matches, it.config)),
    subcommand("history", import::definition, |it| import::run(it.matches)),
    subcommand("agent", agent::definition, |it| agent::run(it.matches, it.config, it.path, it.model)),
    subcommand("norris", norris::definition, |it| norris::run(it.matches, it.config, it.path)),
    subcommand("sop", sop::definition, |it| sop::run(it.matches, it.config, it.path)),
    subcommand("service", service::definition, |it| service::run(it.matches, it.config, it.path)),
    subcommand("metrics", service::metrics_definition, |it| service::metrics(it.config)),
    subcommand("acp", acp::definition, |it| acp::run(it.matches, it.config)),
    subcommand("gateway", gateway::definition, |it| gateway::run(it.matches, it.config)),
    subcommand("card", card::definition, |it| card::run(it.matches, it.config, it.path)),
    subcommand("config", config::definition, |it| config::run(it.matches, it.config)),
    subcommand("memory", memory::definition, |it| memory::run(it.matches, it.config)),
    subcommand("cost", cost::definition, |it| cost::run(it.matches, it.config)),
    subcommand("doctor", doctor::definition, |it| doctor::run(it.matches, it.config)),
    subcommand("provider", provider::definition, |it| provider::run(it.matches, it.config)),
    subcommand("onboard", onboard::definition, |it| onboard::run(it.matches, it.config)),
    subcommand("receipt", receipt::definition, |it| receipt::run(it.matches, it.config)),
    subcommand("estop", estop::definition, |it| estop::run(it.matches)),
    subcommand("allow", allow::definition, |it| allow::run(it.matches, it.config)),
    subcommand("init", init::definition, |it| init::run(it.config)),
    subcommand("tool", tool::definition, |it| tool::run(it.matches, it.config)),
    subcommand("plugin", plugin::definition, |it| plugin::run(it.matches)),
    subcommand("mcp", mcp::definition, |it| mcp::run(it.matches, it.config)),
    subcommand("pdf-text", pdf::definition, |_| pdf::run()),
    subcommand("policy", policy::definition, |it| policy::run(it.matches, it.config)),
    subcommand("session", session::definition, |it| session::run(it.matches, it.config)),
    subcommand("undo", steps::undo_definition, |it| steps::run(it.name, it.matches, it.config)),
    subcommand("redo", steps::redo_definition, |it| steps::run(it.name, it.matches, it.config)),
    subcommand("steps", steps::steps_definition, |it| steps::run(it.name, it.matches, it.config)),
    subcommand("completions", completions::definition, |it| completions::run(it.matches, it.config)),
    subcommand("help", help_definition, |it| help(it.matches.get_many::<String>("command").unwrap_or_default())),
];

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
        .subcommands(SUBCOMMANDS.iter().map(|it| (it.definition)()))
}

/// The options before a subcommand, or of a session.
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

/// The words of the standard library for a text that is no number.
const NO_NUMBER: &str = "invalid digit found in string";

/// Runs a subcommand, or prints help or the version.
#[must_use]
pub fn run(arguments: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from("reedclaw")).chain(arguments.iter().cloned());
    let matches = match definition().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let text = error.render().to_string();
            match text.contains(NO_NUMBER) {
                true => err!("{}", text.replace(NO_NUMBER, "not a whole number")),
                // Help and the version go to standard output, mistakes to standard error.
                false if code == exit::DONE => settle(error.print().and_then(|()| io::stdout().flush())),
                false => drop(error.print()),
            }
            return ExitCode::from(code);
        }
    };
    let level = matches.get_one::<String>("log-level").map(String::as_str);
    for unknown in app::start_log(&host::environment(), true, level) {
        errln!("reedclaw: {}", sanitise(&unknown));
    }
    let (path, model) = (matches.get_one::<PathBuf>("path").cloned(), matches.get_one::<String>("model").cloned());
    if let Some(failure) = out_of_place(matches.subcommand_name(), path.is_some(), model.is_some()) {
        return exit::failed(&failure);
    }
    let found = matches.subcommand();
    let Some((subcommand, inner)) =
        found.and_then(|(name, inner)| Some((SUBCOMMANDS.iter().find(|it| it.name == name)?, inner)))
    else {
        return help([]);
    };
    let config = matches.get_one::<PathBuf>("config").cloned();
    (subcommand.run)(Call { name: subcommand.name, matches: inner, config, path, model })
}

fn help_definition() -> Command {
    Command::new("help")
        .about("Prints the help of reedclaw, or of one of its commands")
        .arg(Arg::new("command").value_name("COMMAND").num_args(0..).help("The command, with the word of one below it"))
}

/// Prints the help of the command that some words name.
fn help<'a>(words: impl IntoIterator<Item = &'a String>) -> ExitCode {
    let mut root = definition();
    root.build();
    let mut command = &mut root;
    for word in words {
        command = match command.find_subcommand(word).is_some() {
            true => command.find_subcommand_mut(word).unwrap_or_else(|| unreachable!("it was found")),
            false => {
                let message = format!("{} has no command {}", command.get_name(), sanitise(word));
                return exit::failed(&Failure::user(message).hint("reedclaw help lists them"));
            }
        };
    }
    settle(command.print_help().and_then(|()| io::stdout().flush()));
    ExitCode::SUCCESS
}

/// Reason why an option can't precede a subcommand; if it were ignored, a mistake would go unseen.
fn out_of_place(subcommand: Option<&str>, path: bool, model: bool) -> Option<Failure> {
    let message = match subcommand {
        None if path || model => "--path and --model begin a session, which needs a terminal".to_owned(),
        Some(name) if path && !matches!(name, "agent" | "card" | "norris" | "service" | "sop") => {
            format!("reedclaw {name} has no --path")
        }
        Some(name) if model && name != "agent" => format!("reedclaw {name} has no --model"),
        _ => return None,
    };
    Some(Failure::user(message).hint("reedclaw --help lists the options"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_defines_the_subcommand_that_it_names() {
        definition().debug_assert();
        let names: Vec<String> = definition().get_subcommands().map(|it| it.get_name().to_owned()).collect();
        assert_eq!(names, SUBCOMMANDS.map(|it| it.name));
    }

    /// For a command that a session lacks, the session names the subcommand.
    #[test]
    fn the_session_knows_the_subcommands_that_it_lacks() {
        use crate::ops::commands::{ONLY_SUBCOMMANDS, name_problem};
        let lacks = |name: &&str| name_problem(name).is_none() && !matches!(*name, "pdf-text" | "tool");
        let lacking: Vec<&str> = SUBCOMMANDS.iter().map(|it| it.name).filter(lacks).collect();
        assert_eq!(lacking, ONLY_SUBCOMMANDS);
    }

    #[test]
    fn routing_knows_each_subcommand_so_that_none_is_taken_for_a_question() {
        let mut names = SUBCOMMANDS.map(|it| it.name);
        names.sort_unstable();
        let row = format!("reedclaw {}", names.join(" "));
        let rows = include_str!("../../config/route/subcommands.txt");
        assert!(rows.lines().any(|it| it == row), "config/route/subcommands.txt has another row than this:\n{row}");
    }

    #[test]
    fn the_policy_knows_each_subcommand_so_that_none_is_taken_for_a_script() {
        use crate::policy::{Context, Rules, judge};
        use crate::proto::action::Action;
        let rules = Rules { home: "/home/u".into(), workspace: "/home/u/proj".into(), ..Rules::default() };
        let mut unknown = Vec::new();
        for above in definition().get_subcommands() {
            let below = above.get_subcommands().map(|it| format!("{} {}", above.get_name(), it.get_name()));
            for words in below.chain([above.get_name().to_owned()]) {
                let command = format!("reedclaw {words}");
                let verdict = judge(&Action::Shell { command }, &Context::new(&rules));
                let is_own = |rule| matches!(rule, "own-program" | "own-files" | "looks" | "reads");
                if !verdict.reasons.iter().all(|reason| is_own(reason.rule)) {
                    unknown.push(format!("{words}: {:?}", verdict.reasons));
                }
            }
        }
        assert!(unknown.is_empty(), "config/policy/programs.tsv has no row for these:\n{}", unknown.join("\n"));
    }
}
