//! Lua configuration to settings, with problems as data: where the config is, the sandbox it runs in, the table of
//! settings, and the defaults in `config/default.lua`, which are nowhere else. It never prints, and it must not know
//! what a setting is used for.

mod check;
mod expand;
mod find;
mod lua;
mod problem;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mlua::{Table, Value};

use crate::proto::{Failure, FailureKind};
use check::{Check, Tree};
use lua::{RunError, Sandbox};
use problem::Problems;

pub use find::Source;
pub use problem::Problem;
pub use schema::{Kind, ROWS, Row};
pub use settings::{
    ColorChoice, ConsoleSettings, ContextSettings, EditMode, EditorSettings, HistorySettings, ModelSettings,
    PromptStyle, Settings, ShellSettings,
};

/// The environment, as a value.
pub type Env = BTreeMap<OsString, OsString>;

/// The built-in defaults, which are the reference of every setting too.
pub const DEFAULT_LUA: &str = include_str!("../../config/default.lua");

/// What a load needs to know.
#[derive(Clone, Default)]
pub struct LoadRequest {
    /// The path that `--config` gave.
    pub explicit: Option<PathBuf>,
    /// The environment: where the config is, what `os.getenv` gives and what expands in paths.
    pub env: Env,
    /// The working directory, absolute.
    pub cwd: PathBuf,
}

/// What a load gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The settings: the defaults, with the good keys of the config laid over them.
    pub settings: Settings,
    /// All that was wrong, in one pass.
    pub problems: Vec<Problem>,
    /// The config that was used, or that was meant and could not be.
    pub path: Option<PathBuf>,
    /// How it was found.
    pub source: Option<Source>,
}

/// Why nothing could be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file that `--config` names can't be read.
    #[error("the config {path} can't be read: {why}")]
    Unreadable {
        /// The path, as it was looked for.
        path: String,
        /// What the system says.
        why: String,
    },
    /// The built-in defaults don't load: a fault of the program, or no memory at all.
    #[error("the built-in defaults don't load: {why}")]
    Defaults {
        /// What went wrong.
        why: String,
    },
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let message = error.to_string();
        match error {
            LoadError::Unreadable { .. } => Self {
                kind: FailureKind::Config,
                message,
                hint: "name a config that can be read, or leave --config out".into(),
            },
            LoadError::Defaults { .. } => Self { kind: FailureKind::Internal, message, hint: String::new() },
        }
    }
}

/// Loads the settings: the defaults, then the first config there is (`--config`, `$REEDCLAW_CONFIG`, the user's own,
/// `./config.lua`) over them. Takes at most about 50 ms of processor time and 32 MiB, whatever the config does.
///
/// # Errors
/// `Unreadable` where `--config` names a file that can't be read; `Defaults` where the program itself is broken.
/// Whatever else is wrong is a problem, and costs no more than what it is about.
pub fn load(request: &LoadRequest) -> Result<Loaded, LoadError> {
    let env = &request.env;
    let sandbox = Sandbox::new(env).map_err(|error| LoadError::Defaults { why: error.message })?;
    let (defaults, default_problems) = defaults(&sandbox, env)?;

    let found = find::first(request.explicit.as_deref(), env, Some(&request.cwd));
    let mut user = Tree::new();
    let mut problems = Problems::of("");
    let mut untrusted = false;
    if let Some(found) = &found {
        let file = find::display(&found.path, found.source, env);
        untrusted = found.source == Source::Directory;
        problems = Problems::of(&file);
        match &found.text {
            Err(why) if found.source == Source::Option => {
                return Err(LoadError::Unreadable { path: problem::shorten(&file, 4096), why: why.clone() });
            }
            Err(why) => problems.file(None, format!("{why}; the defaults hold")),
            // An empty file is a config that changes nothing.
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => match sandbox.run(text) {
                Ok(value) => {
                    user = Check { env, defaults: &defaults, untrusted, problems: &mut problems }.whole(value);
                }
                Err(RunError { line, message }) => problems.file(line, format!("{message}; the defaults hold")),
            },
        }
    }
    let settings = settings::build(&defaults, &user, untrusted, &mut problems)
        .map_err(|key| LoadError::Defaults { why: format!("{key} is missing") })?;
    let mut problems = problems.finish();
    let given = |key: &str| user.keys().any(|have| problem::dotted(have) == key);
    problems.extend(default_problems.into_iter().filter(|problem| !given(&problem.key)));
    let (path, source) = found.map(|found| (found.path, found.source)).unzip();
    Ok(Loaded { settings, problems, path, source })
}

/// Reads the defaults. Where the environment lacks what they need (HOME), that is a problem like any other.
fn defaults(sandbox: &Sandbox, env: &Env) -> Result<(Tree, Vec<Problem>), LoadError> {
    let value = sandbox.run_trusted(DEFAULT_LUA).map_err(|error| LoadError::Defaults { why: error.message })?;
    let mut problems = Problems::of("default.lua");
    let none = Tree::new();
    let tree = Check { env, defaults: &none, untrusted: false, problems: &mut problems }.whole(value);
    Ok((tree, problems.finish()))
}

/// Gives `shell.program` of the user's config, for a start that has no time for more: nothing is run unless a config
/// is there and its text contains `program`. It looks at `$REEDCLAW_CONFIG` and the user's own config, not at
/// `./config.lua`, and never prints or fails.
#[must_use]
pub fn shell_program(env: &Env) -> Option<PathBuf> {
    let text = find::first(None, env, None)?.text.ok()?;
    memchr::memmem::find(text.as_bytes(), b"program")?;
    // Held to the end: a value of Lua's must not outlive its interpreter.
    let sandbox = Sandbox::new(env).ok()?;
    let value = sandbox.run(&text).ok()?;
    let shell: Table = value.as_table()?.raw_get("shell").ok()?;
    let program: Value = shell.raw_get("program").ok()?;
    let bytes: &[u8] = &program.as_string()?.as_bytes();
    expand::path(bytes, env).ok()
}

/// The path as a user would write it, with `~` for their home.
#[must_use]
pub fn display_path(path: &Path, env: &Env) -> String {
    find::display(path, Source::Option, env)
}
