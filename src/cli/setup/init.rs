//! `reedclaw init`: creates the files for a first use (config, database, workspace, an example of a procedure), lists them, and
//! overwrites nothing.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;

use crate::app;
use crate::cli::exit;
use crate::cli::out::{outln, report};
use crate::config::{self, Env, LoadRequest};
use crate::files::create_private;
use crate::host;
use crate::proto::Failure;
use crate::render::sanitise;
use crate::store::Store;

/// The first config: comments, and nothing that differs from the defaults.
const STARTER: &str = include_str!("../../../config/starter.lua");

/// A procedure to begin with, which isn't trusted.
const EXAMPLE: &str = include_str!("../../../config/sop-example.toml");

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    Command::new("init")
        .about("Creates config, database, workspace and an example if they are missing; overwrites nothing")
}

/// Carries it out; `explicit` is what `--config` named.
pub(in crate::cli) fn run(explicit: Option<PathBuf>) -> ExitCode {
    match act(explicit) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure),
    }
}

fn act(explicit: Option<PathBuf>) -> Result<(), Failure> {
    let env = host::environment();
    let cwd = host::working_directory();
    let no_home = || Failure::config("no HOME is set, so nothing has a place").hint("set HOME");
    let path = explicit.clone().map(|path| cwd.join(path)).or_else(|| config::own_path(&env)).ok_or_else(no_home)?;
    let is_new = write_config(&path).map_err(|error| cannot("the config", &path, &error.to_string(), &env))?;
    tell("config", &path, is_new, &env);

    let loaded = config::load(&LoadRequest { explicit, env: env.clone(), cwd })?;
    app::config_problems(&loaded.problems).iter().for_each(report);
    let directory = loaded.settings.history.dir.as_deref().ok_or_else(no_home)?;
    let is_there = directory.join(crate::store::FILE_NAME).exists();
    Store::open(directory)?;
    tell("database", directory, !is_there, &env);

    let workspace = app::workspace_dir(&loaded.settings, &env);
    let is_new =
        make_directory(&workspace).map_err(|error| cannot("the workspace", &workspace, &error.to_string(), &env))?;
    tell("workspace", &workspace, is_new, &env);
    let example = workspace.join("sops/example/SOP.toml");
    // A user who already has procedures needs no example.
    let is_new = !workspace.join("sops").exists();
    if is_new {
        make_directory(&workspace.join("sops/example"))
            .and_then(|_| write_new(&example, EXAMPLE))
            .map_err(|error| cannot("the example", &example, &error.to_string(), &env))?;
    }
    tell("procedure", &example, is_new, &env);
    outln!("`reedclaw onboard` finds models; `reedclaw doctor` checks everything");
    Ok(())
}

/// Writes the config, unless anything has that name; returns whether it did.
fn write_config(path: &Path) -> std::io::Result<bool> {
    config::make_directory_for(path)?;
    write_new(path, STARTER)
}

fn write_new(path: &Path, text: &str) -> std::io::Result<bool> {
    match create_private(path, text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a private directory, unless there is one; returns whether it did.
fn make_directory(path: &Path) -> std::io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map(|()| true)
}

fn tell(what: &str, path: &Path, is_new: bool, env: &Env) {
    let state = if is_new { "made" } else { "is there already, and stays as it is" };
    outln!("{what:<9}  {}: {state}", sanitise(&config::display_path(path, env)));
}

fn cannot(what: &str, path: &Path, why: &str, env: &Env) -> Failure {
    Failure::unavailable(format!("{what} {} can't be made: {why}", config::display_path(path, env)))
        .hint("see the directory above it")
}
