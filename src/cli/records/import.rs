//! `reedclaw history import`: finds the history files of other shells and imports them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use crate::app::{Request, Runtime};
use crate::cli::exit;
use crate::cli::out::{errln, outln, report};
use crate::proto::Failure;
use crate::store::import::{Imported, Problem, bash, fish, import_into, zsh};

/// The subcommand `history`.
pub(in crate::cli) fn definition() -> Command {
    Command::new("history").about("Imports a shell's history").subcommand_required(true).subcommand(
        Command::new("import")
            .about("Imports the history of bash, zsh or fish; a second import adds nothing twice")
            .arg(
                Arg::new("shell")
                    .value_name("SHELL")
                    .value_parser(["bash", "zsh", "fish"])
                    .help("The shell; without a name, all shells whose history is found"),
            )
            .arg(
                Arg::new("file")
                    .long("file")
                    .value_name("FILE")
                    .requires("shell")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("The history file, if it isn't the usual one"),
            ),
    )
}

/// Runs `reedclaw history`.
pub(in crate::cli) fn run(matches: &ArgMatches) -> ExitCode {
    let Some(("import", matches)) = matches.subcommand() else { return ExitCode::from(exit::USAGE) };
    let shell = matches.get_one::<String>("shell").map(String::as_str);
    match import(shell, matches.get_one::<PathBuf>("file").map(PathBuf::as_path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

type Reader = fn(&[u8]) -> (Vec<Imported>, Vec<Problem>);

const SHELLS: [(&str, Reader); 3] = [("bash", bash), ("zsh", zsh), ("fish", fish)];

/// Imports one shell's history, or all that are found.
///
/// # Errors
/// The named file can't be read, no history is found at all, or the database can't store it.
fn import(shell: Option<&str>, file: Option<&Path>) -> Result<(), Failure> {
    let runtime = Runtime::start(&Request::default())?;
    runtime.problems().iter().for_each(report);
    let mut found = false;
    for (name, read) in SHELLS.iter().filter(|(name, _)| shell.is_none_or(|wanted| wanted == *name)) {
        let path = file.map_or_else(|| usual_file(&runtime, name), |file| Some(file.to_owned()));
        let Some(path) = path else { continue };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if shell.is_some() => {
                return Err(Failure::user(format!("{name}'s history {} can't be read: {error}", path.display()))
                    .hint("name it with --file FILE"));
            }
            Err(_) => continue,
        };
        found = true;
        let (lines, problems) = read(&text);
        for problem in &problems {
            errln!(
                "{}",
                crate::render::sanitise(&format!("{}:{}: {}", path.display(), problem.line_number, problem.message))
            );
        }
        let mut store = runtime.store().lock();
        let report = import_into(&mut store, &lines)?;
        outln!("{name}: {} lines added, {} already known ({})", report.added, report.known, path.display());
    }
    if found {
        return Ok(());
    }
    Err(Failure::user("no history of bash, zsh or fish was found")
        .hint("name one: reedclaw history import bash --file FILE"))
}

/// The default history file of a shell.
fn usual_file(runtime: &Runtime, shell: &str) -> Option<PathBuf> {
    let home = PathBuf::from(runtime.variable("HOME")?);
    match shell {
        "bash" => Some(home.join(".bash_history")),
        "zsh" => {
            let dir = runtime.variable("ZDOTDIR").map_or_else(|| home.clone(), PathBuf::from);
            [".zsh_history", ".zhistory", ".histfile"].iter().map(|name| dir.join(name)).find(|path| path.exists())
        }
        _ => {
            // fish takes a relative one, too.
            let data = runtime.variable("XDG_DATA_HOME").map_or_else(|| home.join(".local/share"), PathBuf::from);
            Some(data.join("fish/fish_history"))
        }
    }
}
