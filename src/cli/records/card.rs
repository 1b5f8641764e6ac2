//! `reedclaw card`: the context that a question in a repository carries, on standard output.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};

use crate::app::{self, Jails, Request, Runtime};
use crate::cli::exit;
use crate::cli::out::{errln, outln, report};
use crate::host;
use crate::ops::context::{Card, card};
use crate::project::{self, Surroundings};
use crate::proto::Failure;
use crate::render::sanitise;

/// Longest wait for languages and hot files.
const WAIT: Duration = Duration::from_secs(30);

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("card").about("Prints the context that a question in a repository carries, and its cost").arg(
        Arg::new("path")
            .long("path")
            .value_name("DIR")
            .value_parser(clap::value_parser!(PathBuf))
            .help("A directory in the repository, instead of the working directory"),
    )
}

/// Carries it out; `config` is what `--config` named, `path` what `--path` named in front.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>, path: Option<PathBuf>) -> ExitCode {
    match print(matches.get_one::<PathBuf>("path").cloned().or(path), config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

fn print(path: Option<PathBuf>, config: Option<PathBuf>) -> Result<(), Failure> {
    let runtime = Runtime::start(&Request { config, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    let cwd = path.unwrap_or_else(host::working_directory);
    // A person who asks for the card gets all of it, so the waits are long.
    let options = app::card_options(runtime.settings(), runtime.env(), &Jails::default());
    let options = project::Options { wait: WAIT, state_wait: WAIT, ..options };
    let notes = Surroundings::default().notes(&cwd, &options).ok_or_else(|| {
        Failure::user(format!("{} is in no git repository", cwd.display())).hint("--path names a directory in one")
    })?;
    let Card { parts, tokens } = card(runtime.agent(), &notes);
    parts.iter().for_each(|part| outln!("{}\n", sanitise(part)));
    errln!("about {tokens} tokens of at most {} (context.project_tokens)", options.tokens_max);
    Ok(())
}
