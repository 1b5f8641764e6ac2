//! Settings to tools: which there are, which of them a channel has, how far they go.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::ToolRunner;
use crate::app::ChannelKind;
use crate::app::limits::jail::{Jails, forbidden_paths};
use crate::app::steps::edit_journals;
use crate::config::{self, Env, Settings};
use crate::host;
use crate::project;
use crate::proto::Failure;
use crate::proto::action::Hold;
pub use crate::tools::OWN_TOOLS;
use crate::tools::plugin::{PluginState, PluginTool, Plugins, Standing};
use crate::tools::{
    CANVAS_TOOLS, Check, Http, HttpOptions, Launcher, Limits, Pdf, Registry, SearchOptions, SearchService, Shell, Spec,
    Symbols, Tool, ToolSet, WebSearch, edit_tools,
};

/// The place of the plugins.
///
/// # Errors
/// Without a home directory the user's directories are unknown.
pub fn plugins(env: &Env) -> Result<Plugins, Failure> {
    let directories = config::data_directory(env).zip(config::state_directory(env));
    directories
        .map(|(data, state)| Plugins::new(&data, &state))
        .ok_or_else(|| Failure::unavailable("no HOME is set, so plugins have no place").hint("set HOME"))
}

/// Every tool, and the problems of those that can't be used; `launcher` starts their programs.
#[must_use]
pub(in crate::app) fn tools(settings: &Settings, env: &Env, launcher: &Launcher) -> (Registry, Vec<Failure>) {
    let mut registry = Registry::new();
    let options = HttpOptions {
        post: settings.tools.http_post,
        ports: settings.tools.http_ports.clone(),
        allow_private: settings.tools.http_allow_private,
        authorities: host::Authorities::of(env),
    };
    // If the place of the emergency stop is unknown, tools are stopped.
    let estop = crate::app::estop(env).ok();
    let is_stopped = Arc::new(move || estop.as_ref().is_none_or(|it| it.check().is_err()));
    let reader = vec![host::executable().display().to_string(), "pdf-text".to_owned()];
    let shell = Shell::new(launcher.clone(), is_stopped);
    let own: [Box<dyn Tool>; 6] = [
        Box::new(WebSearch::new(search_options(settings, env))),
        Box::new(Http::new(options)),
        Box::new(Pdf::new(launcher.clone(), reader)),
        Box::new(shell.jobs()),
        Box::new(shell),
        Box::new(Symbols::new(symbols_directory(env))),
    ];
    // Without a state directory there is no place for the journal of an edit, and no tool runner either.
    let edits = config::state_directory(env)
        .map(|state| edit_tools(&edit_journals(&state), registry.reads()))
        .unwrap_or_default();
    for tool in own.into_iter().chain(edits) {
        let added = registry.add(tool);
        debug_assert_eq!(added, Ok(()));
    }
    if let Some(command) = &settings.tools.check {
        let time = Duration::from_millis(settings.tools.check_ms);
        let added = registry.add_ours(Box::new(Check::new(launcher.clone(), command.clone(), time)));
        debug_assert_eq!(added, Ok(()));
    }
    let time = Duration::from_millis(settings.tools.check_ms);
    let added = registry.add_ours(Box::new(Check::of_goals(launcher.clone(), time)));
    debug_assert_eq!(added, Ok(()));
    let states = plugins(env).map(|plugins| plugins.all()).unwrap_or_default();
    let problems = states.iter().flat_map(|state| add_plugin(&mut registry, state, launcher));
    let problems: Vec<Failure> = problems.collect();
    (registry, problems)
}

/// Returns every tool, for lists and checks: none of them can start anything.
#[must_use]
pub fn tools_alone(settings: &Settings, env: &Env) -> (Registry, Vec<Failure>) {
    let nothing = || "nothing is started for a list".to_owned();
    let launcher = Launcher::new(move |_, _, _| Err(nothing()), || Hold::Nothing, move |_| Err(nothing()));
    tools(settings, env, &launcher)
}

/// The service that searches the web; its key is a variable of the environment, so that no config holds it.
fn search_options(settings: &Settings, env: &Env) -> SearchOptions {
    let service = SearchService::of_word(&settings.tools.search);
    let key = service.key_variable().and_then(|name| env.get(std::ffi::OsStr::new(name))?.to_str().map(str::to_owned));
    SearchOptions {
        service,
        address: settings.tools.search_url.clone(),
        key: key.filter(|key| !key.is_empty()),
        authorities: host::Authorities::of(env),
    }
}

/// The place of the stored definitions, a file for each workspace.
#[must_use]
pub fn symbols_directory(env: &Env) -> Option<PathBuf> {
    config::state_directory(env).map(|state| state.join("symbols"))
}

/// Returns the options for answers without a model.
#[must_use]
pub fn manual_options(settings: &Settings, env: &Env) -> crate::manual::Options {
    let variable = |name: &str| env.get(std::ffi::OsStr::new(name)).map(std::ffi::OsString::as_os_str);
    crate::manual::Options {
        directory: config::state_directory(env).map(|state| state.join("manual")),
        man_path: crate::manual::man_path(variable("MANPATH"), variable("PATH")),
        programs: settings.manual.help.then(|| Jails::default().programs(settings, env)),
    }
}

/// The options for a project's card.
#[must_use]
pub fn card_options(settings: &Settings, env: &Env, jails: &Jails) -> project::Options {
    project::Options {
        tokens_max: settings.context.project_tokens,
        wait: project::CARD_WAIT,
        state_wait: Duration::from_millis(settings.context.git_ms),
        kept_in: config::state_directory(env).map(|state| state.join("cards")),
        forbidden: forbidden_paths(settings, env),
        git: jails.git_options(settings, env),
    }
}

/// Adds a plugin's tools; returns the tools that can't be used, and why.
fn add_plugin(registry: &mut Registry, state: &PluginState, launcher: &Launcher) -> Vec<Failure> {
    let off = |why: &str, hint: String| Failure::refused(format!("the plugin {} is off: {why}", state.name)).hint(hint);
    let again = || format!("reedclaw plugin install {} shows it and asks", state.directory.display());
    match &state.standing {
        Standing::Unknown(_) => return vec![off("it hasn't been allowed", again())],
        Standing::Changed(_) => return vec![off("it has changed since you allowed it", again())],
        Standing::Broken(why) => return vec![off(why, format!("reedclaw plugin remove {}", state.name))],
        Standing::Allowed(_) => {}
    }
    let tools = PluginTool::of(state, launcher).into_iter();
    let added = tools.map(|tool| registry.add(Box::new(tool)));
    added
        .filter_map(|added| added.err().map(|why| off(&why, "the name of its tool is already in use".into())))
        .collect()
}

/// The only tools that a channel has; `None` if the setting names none.
#[must_use]
pub fn allowed_tools(settings: &Settings, channel: ChannelKind) -> Option<&[String]> {
    match channel {
        ChannelKind::Shell => settings.tools.allow_shell.as_deref(),
        ChannelKind::Agent => settings.tools.allow_agent.as_deref(),
        ChannelKind::Acp => settings.tools.allow_acp.as_deref(),
        ChannelKind::Serve => settings.tools.allow_serve.as_deref(),
        ChannelKind::Gateway => settings.tools.allow_gateway.as_deref(),
        ChannelKind::Service => settings.tools.allow_service.as_deref(),
    }
}

/// Returns the set of tools that a model gets: if a list names tools, all of these.
pub(in crate::app) fn tool_set(settings: &Settings, channel: Option<ChannelKind>) -> ToolSet {
    match ToolSet::of_word(&settings.tools.set) {
        ToolSet::Auto if channel.and_then(|channel| allowed_tools(settings, channel)).is_some() => ToolSet::All,
        set => set,
    }
}

/// The channels in which a model has a tool.
#[must_use]
pub fn tool_channels(settings: &Settings, spec: &Spec) -> Vec<&'static str> {
    let is_there = |channel| channel == ChannelKind::Gateway || !CANVAS_TOOLS.contains(&spec.name.as_str());
    let has = |channel| is_there(channel) && allowed_tools(settings, channel).is_none_or(|names| spec.is_in(names));
    ChannelKind::ALL.into_iter().filter(|channel| has(*channel)).map(ChannelKind::word).collect()
}

/// The tools of a runner as the rows of a table: name, usual risk of a call, channels, purpose. A plugin's row contains
/// its own words.
#[must_use]
pub fn tool_rows(runner: &ToolRunner, settings: &Settings) -> Vec<Vec<String>> {
    let row = |spec: &Spec| {
        let channels = match tool_channels(settings, spec)[..] {
            [only] => format!("{only} only"),
            _ => String::new(),
        };
        vec![spec.name.clone(), risk_class(&spec.name).to_owned(), channels, spec.description.clone()]
    };
    runner.registry().specs().map(row).collect()
}

/// Returns the usual risk of a tool's calls, and the class for which a call of high risk needs a licence.
#[must_use]
pub fn tool_risk(tool: &str) -> (&'static str, Option<&'static str>) {
    let risk = risk_class(tool);
    let class = match tool {
        "edit_delete_file" => Some("delete"),
        "http" | "web_search" => Some("network"),
        _ => matches!(risk, "high" | "by the command").then_some("exec"),
    };
    (risk, class)
}

/// Names of the tools that come with the program.
#[must_use]
pub fn own_tools() -> Vec<String> {
    let own = Registry::new();
    own.specs()
        .map(|spec| spec.name.clone())
        .chain(OWN_TOOLS.into_iter().chain(CANVAS_TOOLS).map(str::to_owned))
        .collect()
}

/// The usual risk of a tool's calls; the policy judges each call.
fn risk_class(tool: &str) -> &'static str {
    match tool {
        "time" | "shell_job" | "memory_search" | "remember" | "skill" | "ask_user" | "canvas_read" => "low",
        "canvas_edit" => "medium",
        "detect_languages" | "hotfiles" | "file_list" | "file_read" | "find_files" | "pdf_extract" | "read_readme"
        | "search_text" | "symbols" => "low in the workspace",
        "edit_delete_file" => "high",
        "file_write" | "edit_replace_exact" | "edit_insert_at_line" | "edit_create_file" | "edit_apply_batch" => {
            "medium in the workspace"
        }
        "http" | "web_search" => "low for allowed domains",
        "shell" => "by the command",
        _ => "high",
    }
}

/// The limits of tools.
pub(in crate::app) fn tool_limits(settings: &Settings) -> Limits {
    let limits = &settings.limits;
    Limits {
        tool: Duration::from_millis(limits.tool_ms),
        shell: Duration::from_millis(limits.shell_ms),
        http: Duration::from_millis(limits.http_ms),
        output_bytes: limits.output_bytes,
    }
}
