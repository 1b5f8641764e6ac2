//! `reedclaw allow`: the commands that a model may run in a project without a question, listed, withdrawn, exported to
//! a list and imported from one.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::app::{Request, Runtime};
use crate::base::text::counted;
use crate::cli::exit;
use crate::cli::out::{columns, errln, is_yes, out, outln, report};
use crate::host;
use crate::ops::allow::{self, ListedHere};
use crate::proto::Failure;
use crate::render::text::{escape_visible, table};

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let workspace = || {
        let help = "The project; the default is the one around the working directory";
        Arg::new("workspace").long("workspace").value_name("DIR").value_parser(value_parser!(PathBuf)).help(help)
    };
    let file = |help: &'static str| {
        Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("allow")
        .about("Manages the commands that a model may run in this project without a question")
        .subcommand_required(true)
        .subcommand(Command::new("list").about("Lists them: number, command, program").arg(workspace()))
        .subcommand(
            Command::new("remove")
                .about("Withdraws a command by its number or line, at once, in every session")
                .arg(Arg::new("which").value_name("N").required(true))
                .arg(workspace()),
        )
        .subcommand(
            Command::new("export")
                .about("Writes them to a new file: {\"allowedCommands\": […]}")
                .arg(file("A new file"))
                .arg(workspace()),
        )
        .subcommand(
            Command::new("import")
                .about("Adds the commands of such a file that may be allowed with the programs of this machine; asks first")
                .arg(file("A file written by `export`"))
                .arg(Arg::new("yes").long("yes").action(ArgAction::SetTrue).help("Adds them without a question"))
                .arg(workspace()),
        )
}

/// Carries it out; `config` is what `--config` named.
pub(in crate::cli) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let done = match matches.subcommand() {
        Some(("list", matches)) => list(matches, config),
        Some(("remove", matches)) => remove(matches, config),
        Some(("export", matches)) => export(matches, config),
        Some(("import", matches)) => import(matches, config),
        _ => Ok(exit::USAGE),
    };
    ExitCode::from(done.unwrap_or_else(|failure| {
        report(&failure);
        exit::of(&failure)
    }))
}

/// The session's parts, and the project that is meant.
fn start(matches: &ArgMatches, config: Option<PathBuf>) -> Result<(Runtime, PathBuf), Failure> {
    let runtime = Runtime::start(&Request { config, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    let around = || runtime.workspace_around(&host::working_directory());
    let workspace = matches.get_one::<PathBuf>("workspace").cloned().unwrap_or_else(around);
    Ok((runtime, workspace))
}

fn list(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let rows = allow::list(runtime.env(), &workspace)?;
    if rows.is_empty() {
        errln!("reedclaw: nothing is allowed for good in {}", escape_visible(&workspace.display().to_string()));
        return Ok(exit::DONE);
    }
    let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(escaped).collect();
    out!("{}", table(&rows, columns()));
    Ok(exit::DONE)
}

fn remove(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let which = matches.get_one::<String>("which").map(String::as_str).unwrap_or_default();
    let count = allow::withdraw(runtime.env(), &workspace, which, "reedclaw allow list")?;
    outln!("{} revoked", counted(count, "command"));
    Ok(exit::DONE)
}

fn export(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let path = file_of(matches);
    let count = allow::export(runtime.env(), &workspace, &path)?;
    outln!("{} in {}", counted(count, "command"), escape_visible(&path.display().to_string()));
    Ok(exit::DONE)
}

/// Shows which commands of a list may be allowed here and which not, asks, and adds the former.
fn import(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let path = file_of(matches);
    let mut handed = runtime.runner_in(&workspace, None)?;
    let root = handed.runner.workspace().to_owned();
    let gate = handed.runner.gate();
    let mut fits: Vec<(String, PathBuf)> = Vec::new();
    let mut refused = 0;
    for listed in allow::read_list(gate, &root, &path)? {
        outln!("{}", listed.line());
        match listed {
            ListedHere { program: Ok(_), command, cwd, .. } => fits.push((command, cwd)),
            ListedHere { program: Err(_), .. } => refused += 1,
        }
    }
    if fits.is_empty() {
        outln!("nothing to add in {}", escape_visible(&root.display().to_string()));
        return Ok(if refused > 0 { exit::FAILED } else { exit::DONE });
    }
    let what =
        format!("{} for good in {}", counted(fits.len(), "command"), escape_visible(&root.display().to_string()));
    if !matches.get_flag("yes") && !is_wanted(&what) {
        return Ok(exit::REFUSED);
    }
    let fits: Vec<(&str, &Path)> = fits.iter().map(|(command, cwd)| (command.as_str(), cwd.as_path())).collect();
    gate.allow(&fits).map_err(|why| Failure::unavailable(escape_visible(&why)))?;
    outln!("allowed: {what}");
    Ok(if refused > 0 { exit::FAILED } else { exit::DONE })
}

fn is_wanted(what: &str) -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        errln!("reedclaw: this would allow {what}\n  with --yes it does");
        return false;
    }
    let is_yes = is_yes(&format!("Allow {what}?"));
    if !is_yes {
        errln!("nothing was changed");
    }
    is_yes
}

fn file_of(matches: &ArgMatches) -> PathBuf {
    matches.get_one::<PathBuf>("file").cloned().unwrap_or_default()
}
