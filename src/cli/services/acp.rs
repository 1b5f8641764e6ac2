//! `reedclaw acp`: the agent of an editor.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::acp;
use crate::cli::exit;

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("acp")
        .about("Works inside an editor: an agent of the Agent Client Protocol on standard input and output")
        .after_help("An editor starts it; the documentation's page on editors describes the settings for Zed, Neovim, Emacs and JetBrains.")
        .arg(
            Arg::new("setup")
                .long("setup")
                .action(ArgAction::SetTrue)
                .help("Sets up a model in a terminal instead, as `reedclaw onboard` does"),
        )
}

/// Carries it out; `config` is the file that `--config` names.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    if matches.get_flag("setup") {
        return crate::cli::setup::onboard::run(
            &crate::cli::setup::onboard::definition().get_matches_from(["onboard"]),
            config,
        );
    }
    match acp::run(acp::Options { config }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}
