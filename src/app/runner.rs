//! Builds the tool runner: tools, policy, receipts and sandbox in one workspace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::ChannelKind;
use super::guard::policy_rules;
use super::safety::{estop, receipt_options};
use super::tools::{allowed_tools, tool_limits, tool_set, tools};
use crate::agent::{Later, ToolRunner, ToolRunnerOptions};
use crate::config::{Env, SandboxChoice, Settings, config_directory, data_directory, state_directory};
use crate::files::Root;
use crate::gate::{self, Allowed, Ceiling, Gate};
use crate::policy::Rules;
use crate::proto::action::Hold;
use crate::proto::{Failure, FailureKind, Role};
use crate::receipts;
use crate::sandbox::{self, Grant, Mode, Sandbox, Tier};
use crate::store::{ConversationId, Hit, Store};
use crate::tools::{Found, Launcher, Memory, Registry, Remember, Spill, Terms};
use crate::tree::Bench;

/// Files that lie at the top of a project.
const PROJECT_FILES: [&str; 12] = [
    "Cargo.toml",
    "CMakeLists.txt",
    "Gemfile",
    "Makefile",
    "build.gradle",
    "composer.json",
    "deno.json",
    "go.mod",
    "mix.exs",
    "package.json",
    "pom.xml",
    "pyproject.toml",
];

/// The workspace outside a project.
#[must_use]
pub fn workspace_dir(settings: &Settings, env: &Env) -> PathBuf {
    let usual = || variable(env, "HOME").map(PathBuf::from).unwrap_or_else(|| "/".into()).join("reedclaw-workspace");
    settings.workspace_dir.clone().unwrap_or_else(usual)
}

/// The workspace for a user in `cwd`: the top of the git repository, else of the project, else that directory if it is
/// the user's own. It is never the home directory or a directory that contains it; the configured workspace replaces
/// those.
#[must_use]
pub fn workspace_for(env: &Env, cwd: &Path, configured: &Path) -> PathBuf {
    let top = project_top(env, cwd);
    top.as_deref().or(Some(cwd)).filter(|path| is_own(env, path)).unwrap_or(configured).to_owned()
}

/// The top of the git repository around a directory, else of the project.
#[must_use]
pub fn project_top(env: &Env, cwd: &Path) -> Option<PathBuf> {
    let holds = |path: &Path, name: &str| path.join(name).symlink_metadata().is_ok();
    let is_project = |path: &&Path| PROJECT_FILES.iter().any(|name| holds(path, name));
    let top = cwd.ancestors().find(|path| holds(path, ".git"));
    let top = top.or_else(|| cwd.ancestors().take_while(|path| is_own(env, path)).find(is_project));
    top.map(Path::to_owned)
}

/// The workspace for a named directory: the top of the git repository or project around it, else that directory.
///
/// # Errors
/// It is the home or contains it: in such a workspace a model could reach everything.
pub fn workspace_named(env: &Env, path: &Path) -> Result<PathBuf, Failure> {
    let top = project_top(env, path).filter(|top| !holds_home(env, top));
    let named = top.unwrap_or_else(|| path.to_owned());
    if holds_home(env, &named) {
        return Err(Failure {
            kind: FailureKind::User,
            message: format!("tools can't work in {}: it is your home, or contains it", named.display()),
            hint: "name a directory of a project".into(),
        });
    }
    Ok(named)
}

/// Top directories of a system, which are never a project.
const SYSTEM: [&str; 24] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "media",
    "mnt",
    "nix",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// Whether a directory is the user's own, neither home nor what contains it, and not the system's.
fn is_own(env: &Env, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_users = path.metadata().is_ok_and(|data| data.uid() == nix::unistd::geteuid().as_raw());
    let is_systems = path.parent() == Some(Path::new("/"))
        && path.file_name().is_some_and(|name| SYSTEM.iter().any(|system| name == *system));
    is_users && !holds_home(env, path) && !is_systems
}

/// Whether a directory is the home or contains it.
fn holds_home(env: &Env, path: &Path) -> bool {
    let home = variable(env, "HOME").map(PathBuf::from).unwrap_or_else(|| "/".into());
    home.starts_with(path) || home.canonicalize().is_ok_and(|home| home.starts_with(path))
}

/// The tool runner, and the problems of tools that it lacks.
pub struct BuiltRunner {
    /// The tool runner.
    pub runner: ToolRunner,
    /// The notices: tools of plugins that can't be used.
    pub problems: Vec<Failure>,
}

/// The parts of a tool runner.
pub struct RunnerOf<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The environment.
    pub env: &'a Env,
    /// The directory that it works in.
    pub workspace: &'a Path,
    /// History and conversations.
    pub store: &'a Arc<Mutex<Store>>,
    /// The channel whose tools it has; all tools without one.
    pub channel: Option<ChannelKind>,
    /// The config's file, if one was read.
    pub config: Option<&'a Path>,
    /// The most autonomy for now.
    pub ceiling: Ceiling,
    /// The bench on which commands of a git session run, if one is on.
    pub bench: Option<&'a Arc<Bench>>,
}

/// Builds a tool runner, as [`runner_in`] does. A configured workspace that doesn't exist is made with the first call
/// of a tool: until then an empty directory of ours takes its place. A server of tools needs it at once.
///
/// # Errors
/// As of [`runner_in`].
pub fn tool_runner(of: &RunnerOf<'_>) -> Result<BuiltRunner, Failure> {
    let &RunnerOf { settings, env, workspace, store, channel, config, ref ceiling, bench: _ } = of;
    if workspace != workspace_dir(settings, env) || workspace.exists() {
        return runner_in(of);
    }
    let stand_in =
        state_directory(env).map(|state| state.join("no-workspace")).filter(|_| settings.mcp.servers.is_empty());
    let Some(stand_in) = stand_in else {
        made(workspace);
        return runner_in(of);
    };
    made(&stand_in);
    let ceiling = ceiling.clone();
    let mut built = runner_in(&RunnerOf { workspace: &stand_in, ceiling: ceiling.clone(), ..*of })?;
    let (settings, env, store) = (settings.clone(), env.clone(), Arc::clone(store));
    let (place, config) = (workspace.to_owned(), config.map(Path::to_owned));
    built.runner.wait_for(Later {
        workspace: workspace.to_owned(),
        make: Box::new(move || {
            made(&place);
            let (settings, env, store) = (&settings, &env, &store);
            let (workspace, config, ceiling) = (place.as_path(), config.as_deref(), ceiling.clone());
            let bench = None;
            runner_in(&RunnerOf { settings, env, workspace, store, channel, config, ceiling, bench })
                .map(|built| built.runner)
        }),
    });
    Ok(built)
}

/// Makes a directory that isn't there yet; opening it reports a failure.
fn made(path: &Path) -> &Path {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(path);
    path
}

/// Builds a tool runner.
///
/// # Errors
/// The workspace can't be opened, or there is no state directory for receipts.
fn runner_in(of: &RunnerOf<'_>) -> Result<BuiltRunner, Failure> {
    let &RunnerOf { settings, env, workspace, store, channel, config, ref ceiling, bench } = of;
    let failed = |message: String, hint: &str| Failure {
        kind: FailureKind::Unavailable,
        message: format!("tools can't be used: {message}"),
        hint: hint.to_owned(),
    };
    let home = variable(env, "HOME").map(Path::new);
    let open = |path: &Path| {
        Root::open(path, home)
            .map_err(|error| failed(format!("{}: {error}", path.display()), "reedclaw init makes the workspace"))
    };
    let place = open(workspace)?.path().to_owned();
    let root = open(bench.map_or(workspace, |bench| made(bench.dir())))?;
    tracing::info!(event = "workspace_path", path = %place.display());
    let state =
        state_directory(env).ok_or_else(|| failed("no HOME is set, so there is no state directory".into(), ""))?;
    let left = super::steps::recover(settings, env, &place);
    let mut problems = Vec::new();
    let allowed = allowed_or_none(&state, &place, &mut problems);
    let log = receipt_options(settings, env)?
        .map(receipts::Log::open)
        .transpose()
        .map_err(|error| failed(format!("the receipts: {error}"), "see reedclaw doctor"))?;
    let estop = estop(env)?;
    let chosen = Chosen::for_workspace(settings, env, &place);
    let rules = policy_rules(settings, env, config);
    let options = gate::Options {
        rules: Rules { workspace: place.display().to_string(), is_draft: bench.is_some(), ..rules },
        ceiling: ceiling.clone(),
        sandbox: Box::new({
            let chosen = chosen.clone();
            move || (chosen.get().tier().name(), chosen.hold())
        }),
        log,
        stop: Arc::new(move || estop.check().err().map(|stopped| stopped.why)),
        allowed,
        audit_log: settings.security.audit_log.clone(),
        check: settings.tools.check.clone(),
        path: variable(env, "PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned(),
    };
    let launcher = launcher(settings, env, &place, &chosen, bench);
    let (mut registry, lacking) = tools(settings, env, &launcher);
    add_tools_of_conversations(&mut registry, env, &place, channel);
    add_of_sessions(&mut registry, bench.is_some());
    problems.extend(lacking.into_iter().chain(left.into_iter().map(cut_off)));
    if let Some(names) = channel.and_then(|channel| allowed_tools(settings, channel)) {
        keep_allowed(&mut registry, names, &mut problems);
    }
    let steps = bench.is_none().then(|| super::steps::steps(settings, env, workspace)).transpose()?;
    let runner = ToolRunner::new(ToolRunnerOptions {
        // A server of tools works on the checkout, which a git session leaves alone.
        servers: super::served::servers_in(settings, env, &place, &chosen, channel == Some(ChannelKind::Acp))
            .filter(|_| bench.is_none()),
        bench: bench.map(Arc::clone),
        registry,
        gate: Gate::new(options),
        spill: Spill::new(&state),
        root,
        limits: tool_limits(settings),
        memory: Box::new(StoredMemory { store: Arc::clone(store) }),
        steps,
        has_undo: settings.undo.enabled,
        tool_set: tool_set(settings, channel),
    });
    Ok(BuiltRunner { runner, problems })
}

/// Adds the tools that only a session on git has.
fn add_of_sessions(registry: &mut Registry, is_on_git: bool) {
    if is_on_git {
        let added = registry.add(Box::new(crate::tools::UpdateContext(registry.reads().clone())));
        debug_assert_eq!(added, Ok(()));
    }
}

/// Names in `tools_allow` that are no tool's: each with its setting. A tool of a server counts only once it is offered, so names
/// of servers' tools aren't judged.
#[must_use]
pub fn unknown_tools(settings: &Settings, env: &Env) -> Vec<(String, String)> {
    // The registry is read for its names alone: nothing is started.
    let launcher = Launcher::new(|_, _, _| Err(String::new()), || Hold::Walls, || Err(String::new()));
    let (registry, _) = tools(settings, env, &launcher);
    let is_known = |name: &String| {
        ["skill", "update_context", "remember"].contains(&name.as_str())
            || name.contains("__")
            || registry.specs().any(|spec| spec.is_in(std::slice::from_ref(name)))
    };
    let unknown = |channel: ChannelKind| {
        let names = allowed_tools(settings, channel).unwrap_or_default().iter().filter(|name| !is_known(name));
        names.map(|name| (format!("tools_allow.{}", channel.word()), name.clone())).collect::<Vec<_>>()
    };
    ChannelKind::ALL.into_iter().flat_map(unknown).collect()
}

/// Adds the tool that reads skills, and the one that notes something for later where there is a conversation to note it of.
fn add_tools_of_conversations(registry: &mut Registry, env: &Env, place: &Path, channel: Option<ChannelKind>) {
    let added = registry.add(Box::new(crate::tools::Skill::new(super::skills::library(env, place))));
    debug_assert_eq!(added, Ok(()));
    if channel.is_some_and(|channel| channel != ChannelKind::Serve) {
        let added = registry.add(Box::new(Remember));
        debug_assert_eq!(added, Ok(()));
    }
}

/// Removes all tools but those of a list, and reports names that aren't tools.
fn keep_allowed(registry: &mut Registry, names: &[String], problems: &mut Vec<Failure>) {
    let is_known = |name: &&String| registry.specs().any(|spec| spec.is_in(std::slice::from_ref(name)));
    problems.extend(names.iter().filter(|name| !is_known(name)).map(|name| Failure {
        kind: FailureKind::Config,
        message: format!("tools_allow names {name}, and there is no such tool"),
        hint: "reedclaw tool list lists them".into(),
    }));
    registry.keep_only(names);
}

/// The permanently allowed commands; none while their file is damaged, which is a problem. The tools go on and ask.
fn allowed_or_none(state: &Path, root: &Path, problems: &mut Vec<Failure>) -> Allowed {
    let mut allowed = Allowed::at(state, root);
    problems.extend(allowed.refresh().err().map(|error| Failure {
        kind: FailureKind::Unavailable,
        message: format!("nothing is allowed for good in this project: {error}"),
        hint: "repair or remove that file".into(),
    }));
    allowed
}

/// The notices about changes that a crash interrupted.
fn cut_off(message: String) -> Failure {
    let hint = "look at these files before you go on".into();
    Failure { kind: FailureKind::Unavailable, message, hint }
}

/// Returns the permanently allowed commands of `workspace`.
///
/// # Errors
/// There is no state directory or no such workspace, or the file of rules can't be used.
pub fn allowed_commands(env: &Env, workspace: &Path) -> Result<Allowed, Failure> {
    let failed = |message: String, hint: &str| Failure {
        kind: FailureKind::Unavailable,
        message: format!("the permanently allowed commands can't be read: {message}"),
        hint: hint.to_owned(),
    };
    let state = state_directory(env).ok_or_else(|| failed("no HOME says where it is".into(), "set HOME"))?;
    let root = workspace.canonicalize().map_err(|error| failed(format!("{}: {error}", workspace.display()), ""))?;
    Allowed::open(&state, &root).map_err(|error| failed(error.to_string(), "repair or remove that file"))
}

/// Directories of the system that no mask may cover: without them nothing runs.
const SYSTEM_DIRECTORIES: [&str; 7] = ["/etc", "/usr", "/bin", "/lib", "/lib64", "/sys", "/proc"];
/// Variables that a model's commands see, if they are set.
const PASSED_ON: [&str; 13] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "LOGNAME",
    "PATH",
    "SHELL",
    // Only its path; the socket itself needs a question.
    "SSH_AUTH_SOCK",
    "TMPDIR",
    "TZ",
    "USER",
];
/// Variables set for them, so that nothing waits for a person, and nothing looks for a newer version of itself, which would
/// ask for the network.
const SET: [(&str, &str); 26] = [
    ("CHECKPOINT_DISABLE", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("DENO_NO_UPDATE_CHECK", "1"),
    ("DOTNET_CLI_TELEMETRY_OPTOUT", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    // A repository's own settings start no program of its choice, and a look takes no lock.
    ("GIT_CONFIG_COUNT", "3"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_1", "explicit"),
    ("GIT_CONFIG_KEY_2", "log.showSignature"),
    ("GIT_CONFIG_VALUE_2", "false"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("MANPAGER", "cat"),
    ("NEXT_TELEMETRY_DISABLED", "1"),
    ("NO_UPDATE_NOTIFIER", "1"),
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
    ("PAGER", "cat"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
    ("SYSTEMD_PAGER", ""),
    ("TERM", "dumb"),
];

/// A sandbox that is chosen when the first program is to be judged, for that takes some milliseconds.
#[derive(Clone)]
pub(super) struct Chosen {
    mode: Mode,
    place: Arc<sandbox::Place>,
    sandbox: Arc<OnceLock<Arc<Sandbox>>>,
}

impl Chosen {
    pub(super) fn for_workspace(settings: &Settings, env: &Env, workspace: &Path) -> Self {
        let place = sandbox_place(settings, env, workspace);
        Self { mode: sandbox_mode(settings), place: Arc::new(place), sandbox: Arc::default() }
    }

    /// The same place without a sandbox.
    pub(super) fn without_sandbox(&self) -> Self {
        Self { mode: Mode::Off, place: Arc::clone(&self.place), sandbox: Arc::default() }
    }

    pub(super) fn get(&self) -> &Arc<Sandbox> {
        self.sandbox.get_or_init(|| Arc::new(Sandbox::detect(self.mode, "/proc/self/exe".into(), &self.place)))
    }

    /// The confinement of a command.
    fn hold(&self) -> Hold {
        match self.get().tier() {
            Tier::Overlay => Hold::Copy,
            Tier::None if self.mode == Mode::Prefer => Hold::Nothing,
            Tier::None | Tier::Landlock | Tier::Bubblewrap => Hold::Walls,
        }
    }
}

/// The place and the strength of the confinement of a model's programs.
#[must_use]
pub fn sandbox_place(settings: &Settings, env: &Env, workspace: &Path) -> sandbox::Place {
    sandbox::Place {
        state: state_directory(env).map(|state| state.join("wall")),
        workspace: Some(workspace.to_owned()),
        strongest: Tier::of(&settings.security.tier),
    }
}

/// The config's choice of the sandbox.
#[must_use]
pub fn sandbox_mode(settings: &Settings) -> Mode {
    match settings.security.sandbox {
        SandboxChoice::Require => Mode::Require,
        SandboxChoice::Prefer => Mode::Prefer,
        SandboxChoice::Off => Mode::Off,
    }
}

/// The name of the sandbox that a model's commands run in.
#[must_use]
pub fn sandbox_name(settings: &Settings, env: &Env, workspace: &Path) -> &'static str {
    Chosen::for_workspace(settings, env, workspace).get().tier().name()
}

/// The way to start a model's programs.
pub(super) fn launcher(
    settings: &Settings,
    env: &Env,
    workspace: &Path,
    chosen: &Chosen,
    bench: Option<&Arc<Bench>>,
) -> Launcher {
    let shown_instead = bench.map(|bench| bench.dir().to_owned());
    let copied = shown_instead.clone().unwrap_or_else(|| workspace.to_owned());
    let grant = Arc::new(Grant { shown_instead, ..grant(settings, env, workspace) });
    let seen = Arc::clone(&grant);
    let (start, hold, layer) = (chosen.clone(), chosen.clone(), chosen.clone());
    let failed = |error: sandbox::SandboxError| format!("{}; {}", error.message, error.hint);
    Launcher::new(
        move |program, arguments, terms: &Terms| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            let mut grant = Grant {
                network: terms.network,
                view: terms.view.clone(),
                network_of: terms.network_of,
                ..Grant::clone(&grant)
            };
            grant.readable.extend(terms.readable.iter().cloned());
            grant.writable.extend(terms.writable.iter().cloned());
            grant.env.extend(terms.variables.iter().map(|(name, value)| (name.into(), value.clone())));
            start.get().command(program.as_ref(), &arguments, &grant).map_err(failed)
        },
        move || hold.hold(),
        move || layer.get().layer(&copied).map_err(failed),
    )
    .with_outside(move |path| sandbox::outside(&seen, path))
    .on_bench(bench.is_some())
}

/// The grant of every program of a model: its workspace, no network, no credentials, none of our directories.
pub(super) fn grant(settings: &Settings, env: &Env, workspace: &Path) -> Grant {
    let passed = PASSED_ON.iter().filter_map(|name| {
        let name = std::ffi::OsStr::new(name);
        env.get(name).map(|value| (name.to_owned(), value.clone()))
    });
    let variables = passed.chain(SET.map(|(name, value)| (name.into(), value.into()))).collect();
    let home = variable(env, "HOME").map(PathBuf::from).unwrap_or_else(|| "/".into());
    let own = [config_directory(env), data_directory(env), state_directory(env)].into_iter().flatten();
    let forbidden = settings.security.forbidden_paths.iter().map(|path| match path.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => PathBuf::from(path),
    });
    // The system's own directories are needed to run anything; what of them is secret is among the credentials.
    let forbidden = forbidden.filter(|path| !SYSTEM_DIRECTORIES.iter().any(|system| path.starts_with(system)));
    let masked = sandbox::credentials(&home).into_iter().chain(own).chain(forbidden).collect();
    let read_only = sandbox::protected(workspace);
    // The programs of plugins and our own, which reads PDFs, wherever they lie.
    let plugins = data_directory(env).map(|data| data.join("plugins"));
    let readable = plugins.into_iter().chain([crate::host::executable()]).filter(|path| path.exists()).collect();
    let homes = std::iter::once(home).chain(sandbox::home_of_user()).collect();
    Grant { env: variables, masked, read_only, readable, homes, ..Grant::new(workspace.to_owned()) }
}

pub(super) fn variable<'e>(env: &'e Env, name: &str) -> Option<&'e str> {
    env.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
}

/// Earlier conversations, as the memory tool searches them.
struct StoredMemory {
    store: Arc<Mutex<Store>>,
}

impl Memory for StoredMemory {
    fn search(&mut self, query: &str, limit: usize) -> Result<Vec<Found>, String> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let hits = store.recall(query, limit).map_err(|error| error.to_string())?;
        let mut titles: BTreeMap<ConversationId, String> = BTreeMap::new();
        let place = |hit: Hit| {
            let id = hit.conversation;
            let title = titles
                .entry(id)
                .or_insert_with(|| store.conversation(id).ok().flatten().map(|found| found.title).unwrap_or_default());
            let role = if hit.role == Role::User { "user" } else { "assistant" };
            Found { conversation: id.0, title: title.clone(), role: role.to_owned(), text: hit.excerpt }
        };
        Ok(hits.into_iter().map(place).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_directory_is_the_workspace_or_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().canonicalize().expect("a path").join("home");
        for path in ["home/plain/sub", "home/repo/.git", "home/repo/src", "other/deep"] {
            std::fs::create_dir_all(home.with_file_name("").join(path)).expect("a directory");
        }
        let env: Env = [("HOME".into(), home.clone().into_os_string())].into();
        let other = home.with_file_name("other");
        for (named, workspace) in [
            (home.join("plain/sub"), home.join("plain/sub")),
            (home.join("repo/src"), home.join("repo")),
            (other.clone(), other),
            ("/usr".into(), "/usr".into()),
        ] {
            assert_eq!(workspace_named(&env, &named), Ok(workspace), "{}", named.display());
        }
        for named in [home.as_path(), home.parent().expect("a parent"), Path::new("/")] {
            let refused = workspace_named(&env, named).expect_err("refused");
            assert!(refused.message.contains("it is your home, or contains it"), "{refused:?}");
        }
        // A repository that is the home itself isn't a workspace for directories in it.
        std::fs::create_dir(home.join(".git")).expect("a directory");
        assert_eq!(workspace_named(&env, &home.join("plain")), Ok(home.join("plain")));
    }

    #[test]
    fn a_directory_right_below_the_root_is_a_workspace_and_a_systems_isnt() {
        let env: Env = [("HOME".into(), "/nonexistent/home".into())].into();
        let configured = Path::new("/configured");
        for path in ["/", "/tmp", "/usr", "/etc", "/root"] {
            assert_eq!(workspace_for(&env, Path::new(path), configured), configured, "{path}");
        }
        // Only root may make one there.
        if let Ok(dir) = tempfile::tempdir_in("/") {
            assert_eq!(workspace_for(&env, dir.path(), configured), dir.path());
        }
    }
}
