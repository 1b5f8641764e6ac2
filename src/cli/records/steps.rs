//! `reedclaw steps`, `undo` and `redo`: a model's changes in a workspace, listed and reverted without a session.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::app::{self, Request, Runtime};
use crate::cli::exit;
use crate::cli::out::{columns, errln, out, outln, report};
use crate::host;
use crate::ops::steps::{Direction, Wish, cover_lines, revert, step_parts, step_rows, taken_back_lines};
use crate::proto::Failure;
use crate::render::text::table;
use crate::steps::Steps;

fn workspace_argument() -> Arg {
    Arg::new("workspace")
        .long("workspace")
        .value_name("DIR")
        .value_parser(clap::value_parser!(PathBuf))
        .help("The workspace, instead of the one around the working directory")
}

fn count_argument(help: &'static str) -> Arg {
    Arg::new("count").value_name("N").value_parser(clap::value_parser!(usize)).help(help)
}

fn force_argument() -> Arg {
    Arg::new("force")
        .long("force")
        .action(ArgAction::SetTrue)
        .help("Overwrites later changes, which become a step of their own")
}

/// `undo`, as clap knows it.
pub(in crate::cli) fn undo_definition() -> Command {
    Command::new("undo")
        .about("Reverts changes by a model's commands and edits")
        .arg(count_argument("The number of steps; the default is one"))
        .arg(
            Arg::new("file")
                .long("file")
                .value_name("PATH")
                .conflicts_with("count")
                .help("Reverts one file to its state before the last step that changed it"),
        )
        .arg(force_argument())
        .arg(workspace_argument())
}

/// `redo`, as clap knows it.
pub(in crate::cli) fn redo_definition() -> Command {
    Command::new("redo")
        .about("Applies reverted steps again")
        .arg(count_argument("The number of steps; the default is one"))
        .arg(force_argument())
        .arg(workspace_argument())
}

/// `steps`, as clap knows it.
pub(in crate::cli) fn steps_definition() -> Command {
    Command::new("steps")
        .about("Lists changes by a model's commands and edits, step by step")
        .arg(
            Arg::new("diff")
                .long("diff")
                .value_name("N")
                .value_parser(clap::value_parser!(u64))
                .help("Shows what step N changed"),
        )
        .arg(workspace_argument())
}

/// Carries one of them out.
pub(in crate::cli) fn run(name: &str, matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    match carried_out(name, matches, config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

fn carried_out(name: &str, matches: &ArgMatches, config: Option<PathBuf>) -> Result<(), Failure> {
    let runtime = Runtime::start(&Request { config, ..Request::default() })?;
    runtime.problems().iter().for_each(report);
    let (settings, env) = (runtime.settings(), runtime.env());
    let cwd = host::working_directory();
    let workspace = match matches.get_one::<PathBuf>("workspace") {
        Some(named) => named.clone(),
        None => runtime.workspace_around(&cwd),
    };
    // The default workspace is made when a tool first needs it.
    if !workspace.exists() && matches.get_one::<PathBuf>("workspace").is_none() {
        let message = format!("no steps: there is no workspace {} yet", workspace.display());
        let hint = "--workspace DIR names another workspace";
        return Err(Failure::user(message).hint(hint));
    }
    for line in app::recover(settings, env, &workspace) {
        errln!("reedclaw: {}", crate::render::sanitise(&line));
    }
    let mut steps = app::steps(settings, env, &workspace)?;
    if name == "steps" {
        return list(&steps, matches.get_one::<u64>("diff").copied());
    }
    let by_force = matches.get_flag("force");
    let count = matches.get_one::<usize>("count").copied().unwrap_or(1);
    let file = if name == "undo" { matches.get_one::<String>("file") } else { None };
    let direction = if name == "undo" { Direction::Undo } else { Direction::Redo };
    let (wish, verb) = match (file, direction) {
        (Some(path), _) => (Wish::File(path.clone()), "took one file back to before"),
        (None, Direction::Undo) => (Wish::Last(count), "Undid"),
        (None, Direction::Redo) => (Wish::Last(count), "Redid"),
    };
    let done = revert(&mut steps, direction, &wish, by_force, (&cwd, "reedclaw ")).map_err(|refusal| {
        out!("{}", crate::render::sanitise(&refusal.conflict.unwrap_or_default()));
        refusal.failure
    })?;
    taken_back_lines(&done, verb, "reedclaw ").iter().for_each(|line| outln!("{line}"));
    Ok(())
}

fn list(steps: &Steps, diff: Option<u64>) -> Result<(), Failure> {
    let list = steps.list();
    let Some(number) = diff else {
        if list.is_empty() {
            outln!("no command or edit of a model has changed anything in {}", steps.workspace().display());
        } else {
            out!("{}", table(&step_rows(&list), columns()));
            cover_lines(steps).iter().for_each(|line| outln!("{line}"));
        }
        return Ok(());
    };
    let Some(step) = list.iter().find(|step| step.number == number) else {
        let message = format!("there is no step {number}");
        return Err(Failure::user(message).hint("reedclaw steps lists them"));
    };
    let text = step_parts(steps, step, "reedclaw ")?.concat();
    out!("{}", crate::render::sanitise(&text));
    Ok(())
}
