//! Lua configuration to settings, with problems as data: the config's place, the sandbox in which it runs, the table of
//! settings, and the defaults in `config/default.lua`, from which `config/default.tsv` is written. It never prints, and it
//! must not know a setting's use.

mod console;
mod engine;
mod hooks;
mod overlay;
mod prices;
mod reading;
mod reference;
mod schema;
mod served;
mod settings;
#[cfg(test)]
mod tests;
mod tools;

use std::path::{Path, PathBuf};

use mlua::{Table, Value};

use crate::lua::{RunError, Sandbox};
use crate::proto::Failure;
use overlay::tighten::Own;
use reading::check::{Check, Checked};
use reading::checked::Tree;
use reading::problem::Problems;

pub use crate::lua::quoted as lua_string;
pub use console::{ColorChoice, ConsoleSettings, NotifyChoice, WhoChoice};
pub use engine::{
    Action, Answer, HookContext, HookEvent, HookFailure, HookSet, Hooks, KeyDoes, OverlayHooks, ProjectAction,
    Suggested,
};
pub use hooks::{ACTIONS, CONTEXT, HOOKS, HookKind, HookRow, KeyCode, KeyName, NAMED_KEYS, OWN_KEYS};
pub use reading::checked::{Hidden, KeySource};
pub use reading::expand::Env;
pub use reading::find::Source;

pub use overlay::layers::{Effective, Layers, ShownRow};
pub use overlay::project::{Change, FILE_NAME as PROJECT_FILE, Look, Overlay, Refused};
pub use overlay::trust::{Trust, TrustVerdict, Trusted, config_directory, data_directory, state_directory};
pub use prices::{ListedPrice, PriceSettings, listed_prices};
pub use reading::problem::Problem;
pub use reference::{hooks_tables, limits_table, project_variables, settings_table};
pub use schema::{Kind, Project, ROWS, Row};
pub use served::{McpSettings, ServeSettings, ServerSandbox, ServerSettings, ServerStart};
pub use settings::{
    BudgetSettings, ContextSettings, EditMode, EditorSettings, HistorySettings, LimitSettings, ModelSettings,
    PromptStyle, ReceiptSettings, RouteMode, RouteSettings, SandboxChoice, SecuritySettings, Settings, ShellSettings,
    ThinkingSettings,
};
pub use tools::{
    AuthSettings, ChannelSettings, GatewayLimits, GatewaySettings, NatsSettings, NorrisSettings, ReachSettings,
    ServiceSettings, SessionSettings, ShareSettings, SopSettings, ToolLimitSettings, ToolSettings, UndoSettings,
    WebhookSettings,
};

/// The built-in defaults, which are the reference of every setting too.
pub const DEFAULT_LUA: &str = include_str!("../../config/default.lua");

/// The input of a load.
#[derive(Clone, Default)]
pub struct LoadRequest {
    /// The path from `--config`.
    pub explicit: Option<PathBuf>,
    /// The environment: it decides the config's place, the results of `os.getenv`, and the variables in paths.
    pub env: Env,
    /// The working directory, absolute.
    pub cwd: PathBuf,
}

/// The result of a load.
#[derive(Debug)]
pub struct Loaded {
    /// The settings: the defaults, with the good keys of the config laid over them.
    pub settings: Settings,
    /// All problems, collected in one pass.
    pub problems: Vec<Problem>,
    /// The config that was used, or that was meant and could not be.
    pub path: Option<PathBuf>,
    /// The way in which it was found.
    pub source: Option<Source>,
    /// `true` if the config was run and returned a table, or if there is none: a broken config sets nothing at all.
    pub is_read: bool,
    /// The hooks of the config.
    pub hooks: Hooks,
    /// The values from which the settings were built, so that a project's file can be merged over them and they can be
    /// shown.
    pub layers: Layers,
}

impl Loaded {
    /// Applies the project's file of the request's directory over the settings, if it is trusted. For commands without a prompt
    /// at which the user could be asked. A file that was trusted but no longer applies is reported as a warning.
    pub fn lay_trusted_project(&mut self, request: &LoadRequest) {
        let Some(look) = Look::of_request(request, self) else { return };
        let trust = Trust::of(&request.env);
        let warning =
            |file: String, message: String| Problem { file, line: None, key: String::new(), message, is_warning: true };
        match look.read(&request.env).map(|overlay| trust.judge(overlay)) {
            Ok(TrustVerdict::Trusted(trusted)) => {
                let Effective { settings, problems, layers, .. } = self.layers.with(&trusted, &request.env);
                (self.settings, self.layers) = (settings, layers);
                self.problems.extend(problems);
            }
            Ok(TrustVerdict::Unknown { overlay, before: Some(_) }) => {
                let message =
                    "has changed since you trusted it; none of it applies until a session there asks you again";
                self.problems.push(warning(overlay.shown().to_owned(), message.to_owned()));
            }
            Ok(TrustVerdict::Unknown { .. } | TrustVerdict::Never) => {}
            Err(refused) if trust.has_trusted(look.directory()) => {
                self.problems.push(warning(refused.file, format!("is not used: {}", refused.why)));
            }
            Err(_) => {}
        }
    }

    /// Replaces the settings with the values of another load.
    pub fn fall_back(&mut self, layers: &Layers) {
        (self.settings, self.layers) = (layers.settings(), layers.clone());
    }
}

/// Reason why nothing could be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file that `--config` names can't be read.
    #[error("the config {path} can't be read: {why}")]
    Unreadable {
        /// The path that was looked for.
        path: String,
        /// The system's error.
        why: String,
    },
    /// The built-in defaults don't load: a fault of the program, or no memory at all.
    #[error("the built-in defaults don't load: {why}")]
    Defaults {
        /// The error.
        why: String,
    },
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let message = error.to_string();
        match error {
            LoadError::Unreadable { .. } => {
                Self::config(message).hint("name a config that can be read, or leave --config out")
            }
            LoadError::Defaults { .. } => Self::internal(message),
        }
    }
}

/// Loads the settings: the defaults, and over them the first config that exists (`--config`, `$REEDCLAW_CONFIG`, the
/// user's own). If it can't be read as a whole, the defaults apply and the autonomy is `readonly`. Takes at most about
/// 50 ms of processor time and 32 MiB, whatever the config does.
///
/// # Errors
/// `Unreadable` if `--config` names a file that can't be read; `Defaults` if the program itself is broken. Any other
/// fault is a problem, and affects only the key that it is about.
pub fn load(request: &LoadRequest) -> Result<Loaded, LoadError> {
    load_or(request, DEFAULTS_HOLD)
}

/// Loads the settings again in a session: as [`load`], but if the config is broken as a whole, the message says that
/// the previous settings stay, and the caller must check [`Loaded::is_read`].
///
/// # Errors
/// As [`load`].
pub fn reload(request: &LoadRequest) -> Result<Loaded, LoadError> {
    load_or(request, "the previous settings stay")
}

fn load_or(request: &LoadRequest, otherwise: &'static str) -> Result<Loaded, LoadError> {
    let env = &request.env;
    let found = reading::find::first(request.explicit.as_deref(), env, Some(&request.cwd));
    let (defaults, default_problems) = match reading::defaults::read(env) {
        Some(defaults) => (defaults, Vec::new()),
        None => defaults(env)?,
    };

    let mut checked = Checked::default();
    let mut problems = Problems::of("");
    let mut sandbox = None;
    if let Some(found) = &found {
        let file = reading::find::display(&found.path, env);
        problems = Problems::of(&file);
        match &found.text {
            Err(why) if found.source == Source::Option => {
                return Err(LoadError::Unreadable { path: reading::problem::shorten(&file, 4096), why: why.clone() });
            }
            Err(why) => problems.file(None, format!("{why}; {otherwise}")),
            Ok(text) => {
                let sandbox = sandbox.insert(interpreter(env)?);
                checked = run(sandbox, text, env, (&defaults, true), otherwise, &mut problems);
            }
        }
    }
    let is_set = |key: &str| checked.tree.keys().any(|have| reading::problem::dotted(have) == key);
    let default_problems: Vec<Problem> = default_problems.into_iter().filter(|problem| !is_set(&problem.key)).collect();
    let is_read = !problems.has_file();
    if !is_read {
        // The security settings in the broken config are unknown.
        checked.tree.extend(schema::strictest(&["security", "autonomy"]));
    }
    tools::mark_mistake(&mut checked.tree, &problems);
    let (own, hooks) = (Own::chosen(checked.tree), checked.hooks);
    let settings = settings::build(&defaults, &own, &mut problems)
        .map_err(|key| LoadError::Defaults { why: format!("{key} is missing") })?;
    let file = problems.file_name().to_owned();
    let layers = Layers::new(defaults, own, problems.source(), hooks.names());
    let mut problems = problems.finish();
    problems.extend(default_problems);
    let (path, source) = found.map(|found| (found.path, found.source)).unzip();
    let hooks = sandbox.map_or_else(Hooks::default, |sandbox| Hooks::own(sandbox, hooks, &file));
    Ok(Loaded { settings, problems, path, source, is_read, hooks, layers })
}

/// The settings if a whole config can't be used.
const DEFAULTS_HOLD: &str = "using the defaults, and tools are readonly until it can be read";

/// Runs a config and checks its values. The pair holds the values in force without the config and whether the config is the
/// user's own; `otherwise` names the fallback if the whole config is broken.
fn run(
    sandbox: &Sandbox,
    text: &str,
    env: &Env,
    (holds, is_users): (&Tree, bool),
    otherwise: &'static str,
    problems: &mut Problems,
) -> Checked {
    // An empty file is a config that changes nothing.
    if text.trim().is_empty() {
        return Checked::default();
    }
    match sandbox.run(text) {
        Ok(value) => {
            problems.locate(text);
            Check::new(env, (holds, is_users), otherwise, problems).whole(value)
        }
        Err(RunError { line, message }) => {
            problems.file(line, format!("{message}; {otherwise}"));
            Checked::default()
        }
    }
}

fn interpreter(env: &Env) -> Result<Sandbox, LoadError> {
    Sandbox::new(env).map_err(|error| LoadError::Defaults { why: error.message })
}

/// Runs the script of the defaults. Without a home, paths below it are left out; a missing path is reported when it is needed.
fn defaults(env: &Env) -> Result<(Tree, Vec<Problem>), LoadError> {
    let sandbox = interpreter(env)?;
    let value = sandbox.run_trusted(DEFAULT_LUA).map_err(|error| LoadError::Defaults { why: error.message })?;
    let mut problems = Problems::of("default.lua");
    let none = Tree::new();
    let checked = Check::new(env, (&none, true), DEFAULTS_HOLD, &mut problems).whole(value);
    let has_home = env.get(std::ffi::OsStr::new("HOME")).is_some_and(|home| !home.is_empty());
    Ok((checked.tree, if has_home { problems.finish() } else { Vec::new() }))
}

/// Returns the defaults as `config/default.tsv` holds them, from the script.
///
/// # Errors
/// The script doesn't run, or a value can't be written in a line.
pub fn defaults_lines() -> Result<String, LoadError> {
    let (tree, _) = defaults(&reading::defaults::written_env())?;
    reading::defaults::write(&tree)
        .map_err(|key| LoadError::Defaults { why: format!("{key} can't be written in a line") })
}

/// Returns the path of the config that a load would use, if there is one.
#[must_use]
pub fn find_path(request: &LoadRequest) -> Option<PathBuf> {
    reading::find::first(request.explicit.as_deref(), &request.env, Some(&request.cwd)).map(|found| found.path)
}

/// Makes the directory that a config lies in, so that an editor can write it.
///
/// # Errors
/// It can't be made.
pub fn make_directory_for(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Returns the path of the user's own config, whether it exists or not; `None` without a home.
#[must_use]
pub fn own_path(env: &Env) -> Option<PathBuf> {
    reading::find::user_path(env)
}

/// Returns whether the user's config may name a shell. Runs nothing.
#[must_use]
pub fn may_name_shell(env: &Env) -> bool {
    text_with_program(env).is_some()
}

fn text_with_program(env: &Env) -> Option<String> {
    let text = reading::find::first(None, env, None)?.text.ok()?;
    memchr::memmem::find(text.as_bytes(), b"program").is_some().then_some(text)
}

/// Returns `shell.program` of the user's config without a full load: nothing runs unless a config exists and its text contains
/// `program`. It looks at `$REEDCLAW_CONFIG` and the user's own config, and never prints or fails.
#[must_use]
pub fn shell_program(env: &Env) -> Option<PathBuf> {
    let text = text_with_program(env)?;
    // Lives until the end of the function: a Lua value must not outlive its interpreter.
    let sandbox = Sandbox::new(env).ok()?;
    let value = sandbox.run(&text).ok()?;
    let shell: Table = value.as_table()?.raw_get("shell").ok()?;
    let program: Value = shell.raw_get("program").ok()?;
    let bytes: &[u8] = &program.as_string()?.as_bytes();
    reading::expand::path(bytes, env).ok()
}

/// The path as a user would write it, with `~` for their home.
#[must_use]
pub fn display_path(path: &Path, env: &Env) -> String {
    reading::find::display(path, env)
}
