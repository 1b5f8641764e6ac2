//! `reedclaw allow`: the commands that a model may run in a project without a question, listed, taken back, written to a
//! list and taken from one.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::exit;
use super::out::{is_yes, out, outln, report};
use crate::app::{self, ListedHere, Request, Runtime};
use crate::base::text::counted;
use crate::host;
use crate::proto::{Failure, FailureKind};
use crate::render::text::{escape_visible, table};

/// Columns of the list if the terminal's width is unknown.
const COLUMNS: usize = 100;
/// The subcommand, as clap knows it.
pub(super) fn definition() -> Command {
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
pub(super) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
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
    runtime.problems.iter().for_each(report);
    let configured = app::workspace_dir(&runtime.settings, &runtime.env);
    let around = || app::workspace_for(&runtime.env, &host::working_directory(), &configured);
    let workspace = matches.get_one::<PathBuf>("workspace").cloned().unwrap_or_else(around);
    Ok((runtime, workspace))
}

fn list(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let allowed = app::allowed_commands(&runtime.env, &workspace)?;
    if allowed.rules().is_empty() {
        eprintln!("reedclaw: nothing is allowed for good in {}", escape_visible(&workspace.display().to_string()));
        return Ok(exit::DONE);
    }
    let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
    let rows: Vec<Vec<String>> = app::allowed_rows(allowed.rules()).into_iter().map(escaped).collect();
    let columns = crossterm::terminal::size().map_or(COLUMNS, |(columns, _)| usize::from(columns).max(40));
    out!("{}", table(&rows, columns));
    Ok(exit::DONE)
}

fn remove(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let which = matches.get_one::<String>("which").map(String::as_str).unwrap_or_default();
    let mut allowed = app::allowed_commands(&runtime.env, &workspace)?;
    match allowed.remove(which).map_err(|error| unavailable(error.to_string(), "nothing was changed"))? {
        0 => Err(Failure {
            kind: FailureKind::User,
            message: format!("nothing is allowed by {}", escape_visible(which)),
            hint: "reedclaw allow list lists them".into(),
        }),
        count => {
            outln!("{} taken back", counted(count, "command"));
            Ok(exit::DONE)
        }
    }
}

fn export(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let path = file_of(matches);
    let allowed = app::allowed_commands(&runtime.env, &workspace)?;
    let place = escape_visible(&path.display().to_string());
    app::export_allowed(&allowed, &path)
        .map_err(|error| unavailable(format!("{place} can't be written: {error}"), "name a new file"))?;
    outln!("{} in {place}", counted(allowed.rules().len(), "command"));
    Ok(exit::DONE)
}

/// Shows what of a list may be allowed here and what not, asks, and adds the first.
fn import(matches: &ArgMatches, config: Option<PathBuf>) -> Result<u8, Failure> {
    let (runtime, workspace) = start(matches, config)?;
    let path = file_of(matches);
    let mut handed = app::tool_runner(&app::RunnerOf {
        bench: None,
        settings: &runtime.settings,
        env: &runtime.env,
        workspace: &workspace,
        store: &runtime.store,
        channel: None,
        config: runtime.config.path.as_deref(),
        ceiling: runtime.ceiling.clone(),
    })?;
    let root = handed.runner.workspace().to_owned();
    let gate = handed.runner.gate();
    let mut fits: Vec<(String, PathBuf)> = Vec::new();
    let mut refused = 0;
    for ListedHere { command, below, cwd, program } in app::read_list(gate, &root, &path)? {
        let told = if below.is_empty() { String::new() } else { format!(" (in {})", escape_visible(&below)) };
        match program {
            Ok(program) => {
                let program = escape_visible(&program.display().to_string());
                outln!("  {}{told}  by {program}", escape_visible(&command));
                fits.push((command, cwd));
            }
            Err(why) => {
                refused += 1;
                outln!("  refused: {}{told}: {}", escape_visible(&command), escape_visible(&why));
            }
        }
    }
    if fits.is_empty() {
        outln!("nothing to add in {}", escape_visible(&root.display().to_string()));
        return Ok(if refused > 0 { exit::FAILED } else { exit::DONE });
    }
    let told =
        format!("{} for good in {}", counted(fits.len(), "command"), escape_visible(&root.display().to_string()));
    if !matches.get_flag("yes") && !is_wanted(&told) {
        return Ok(exit::USAGE);
    }
    for (command, cwd) in &fits {
        gate.allow(command, cwd).map_err(|why| unavailable(format!("{}: {why}", escape_visible(command)), ""))?;
    }
    outln!("allowed: {told}");
    Ok(if refused > 0 { exit::FAILED } else { exit::DONE })
}

fn is_wanted(told: &str) -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        eprintln!("reedclaw: this would allow {told}\n  with --yes it does");
        return false;
    }
    let is_yes = is_yes(&format!("Allow {told}?"));
    if !is_yes {
        eprintln!("nothing was changed");
    }
    is_yes
}

fn file_of(matches: &ArgMatches) -> PathBuf {
    matches.get_one::<PathBuf>("file").cloned().unwrap_or_default()
}

fn unavailable(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::Unavailable, message, hint: hint.to_owned() }
}
