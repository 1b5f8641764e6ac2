//! Builds the tool runner: tools, policy, receipts and sandbox in one workspace.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agent::{Later, ToolRunner, ToolRunnerOptions};
use crate::app::ChannelKind;
use crate::app::limits::guard::policy_rules;
use crate::app::limits::safety::{estop, receipt_options};
use crate::app::limits::sandbox::{Chosen, launcher};
use crate::app::tooling::scripts::add_repository_tools;
use crate::app::tooling::servers::servers_in;
use crate::app::tooling::tools::{allowed_tools, tool_limits, tool_set, tools, tools_alone};
use crate::app::tooling::workspace::{variable, workspace_dir};
use crate::base::program::SearchPath;
use crate::config::{Env, Settings, state_directory};
use crate::files::Root;
use crate::gate::{self, Allowed, Ceiling, Gate};
use crate::policy::Rules;
use crate::proto::{Failure, Role};
use crate::receipts;
use crate::store::{ConversationId, Hit, Store};
use crate::tools::served::Servers;
use crate::tools::{CANVAS_TOOLS, Found, Memory, Registry, Remember, Spill, canvas_tools};
use crate::tree::Bench;

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
    /// The current limit on the autonomy.
    pub ceiling: Ceiling,
    /// The bench on which commands of a git session run, if one is on.
    pub bench: Option<&'a Arc<Bench>>,
    /// Directories outside the workspace that it may read, too.
    pub readable: &'a [PathBuf],
}

/// Builds a tool runner, as [`runner_in`] does. A configured workspace that doesn't exist is made with the first call
/// of a tool: until then an empty directory of ours takes its place. A server of tools needs it at once.
///
/// # Errors
/// The errors of [`runner_in`].
pub fn tool_runner(of: &RunnerOf<'_>) -> Result<BuiltRunner, Failure> {
    let &RunnerOf { settings, env, workspace, store, channel, config, ref ceiling, bench: _, readable } = of;
    if workspace != workspace_dir(settings, env) || workspace.exists() {
        return runner_in(of);
    }
    let stand_in =
        state_directory(env).map(|state| state.join("no-workspace")).filter(|_| settings.mcp.servers.is_empty());
    let Some(stand_in) = stand_in else {
        existing(workspace);
        return runner_in(of);
    };
    existing(&stand_in);
    let ceiling = ceiling.clone();
    let mut built = runner_in(&RunnerOf { workspace: &stand_in, ceiling: ceiling.clone(), ..*of })?;
    let (settings, env, store) = (settings.clone(), env.clone(), Arc::clone(store));
    let (place, config, readable) = (workspace.to_owned(), config.map(Path::to_owned), readable.to_vec());
    built.runner.wait_for(Later {
        workspace: workspace.to_owned(),
        make: Box::new(move || {
            existing(&place);
            let (settings, env, store) = (&settings, &env, &store);
            let (workspace, config, ceiling) = (place.as_path(), config.as_deref(), ceiling.clone());
            let (bench, readable) = (None, readable.as_slice());
            runner_in(&RunnerOf { settings, env, workspace, store, channel, config, ceiling, bench, readable })
                .map(|built| built.runner)
        }),
    });
    Ok(built)
}

/// Makes a directory that isn't there yet; a failure shows when the directory is opened.
fn existing(path: &Path) -> &Path {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(path);
    path
}

/// Builds a tool runner.
///
/// # Errors
/// The workspace can't be opened, or there is no state directory for receipts.
fn runner_in(of: &RunnerOf<'_>) -> Result<BuiltRunner, Failure> {
    let &RunnerOf { settings, env, workspace, store, channel, config, ref ceiling, bench, readable } = of;
    let failed =
        |message: String, hint: &str| Failure::unavailable(format!("tools can't be used: {message}")).hint(hint);
    let home = variable(env, "HOME").map(Path::new);
    let open = |path: &Path| {
        Root::open(path, home)
            .map_err(|error| failed(format!("{}: {error}", path.display()), "reedclaw init makes the workspace"))
    };
    let place = open(workspace)?.path().to_owned();
    let beside = readable.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
    let root = open(bench.map_or(workspace, |bench| existing(bench.dir())))?.with_readable(beside);
    tracing::info!(event = "workspace_path", path = %place.display());
    let state =
        state_directory(env).ok_or_else(|| failed("no HOME is set, so there is no state directory".into(), ""))?;
    let left = crate::app::steps::recover(settings, env, &place);
    let mut problems = Vec::new();
    let allowed = allowed_or_none(&state, &place, &mut problems);
    let log = receipt_options(settings, env)?
        .map(receipts::Log::open)
        .transpose()
        .map_err(|error| failed(format!("the receipts: {error}"), "see reedclaw doctor"))?;
    let estop = estop(env)?;
    let chosen = Chosen::for_workspace(settings, env, &place);
    let is_draft = bench.is_some() && !settings.sessions.ask_edits;
    let path = SearchPath::new(variable(env, "PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned());
    let options = gate::Options {
        rules: Rules { is_draft, ..rules_in(&place, readable, policy_rules(settings, env, config)) },
        ceiling: ceiling.clone(),
        sandbox: Box::new({
            let (chosen, bench) = (chosen.clone(), bench.map(Arc::clone));
            let hold =
                move |chosen: &Chosen| bench.as_ref().map_or_else(|| chosen.hold(), |bench| chosen.judged_on(bench));
            move || (chosen.get().tier().name(), hold(&chosen))
        }),
        log,
        stop: Arc::new(move || estop.check().err().map(|stopped| stopped.why)),
        allowed,
        audit_log: settings.security.audit_log.clone(),
        check: settings.tools.check.clone(),
        path: path.clone(),
    };
    let launcher = launcher((settings, env, &path), &place, &chosen, bench, readable);
    let (mut registry, lacking) = tools(settings, env, &launcher);
    add_tools_of_conversations(&mut registry, env, &place, channel);
    problems.extend(bench.iter().flat_map(|bench| add_of_sessions(&mut registry, bench, (settings, env, config))));
    problems.extend(lacking.into_iter().chain(left.into_iter().map(cut_off)));
    if let Some(names) = channel.and_then(|channel| allowed_tools(settings, channel)) {
        keep_allowed(&mut registry, names, &mut problems);
    }
    let steps = bench.is_none().then(|| crate::app::steps::steps(settings, env, workspace)).transpose()?;
    let servers = servers_of(channel, (settings, env), &place, &chosen);
    let runner = ToolRunner::new(ToolRunnerOptions {
        // A server of tools works on the checkout, which a git session leaves alone.
        servers: servers.filter(|_| bench.is_none()),
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
        path,
    });
    Ok(BuiltRunner { runner, problems })
}

/// The servers of tools that a channel has.
fn servers_of(
    channel: Option<ChannelKind>,
    (settings, env): (&Settings, &Env),
    place: &Path,
    chosen: &Chosen,
) -> Option<Arc<Servers>> {
    let may_add = matches!(channel, Some(ChannelKind::Acp | ChannelKind::Shell));
    let servers = servers_in(settings, env, place, chosen, may_add)?;
    // On the other channels there is at most a person who says yes or no, and none who fills in forms.
    if !matches!(channel, None | Some(ChannelKind::Acp | ChannelKind::Agent | ChannelKind::Shell)) {
        servers.ask_nobody();
    }
    Some(servers)
}

/// The rules for a workspace and the directories beside it that may be read.
fn rules_in(workspace: &Path, readable: &[PathBuf], rules: Rules) -> Rules {
    let text = |path: &Path| path.display().to_string();
    Rules { workspace: text(workspace), readable: readable.iter().map(|path| text(path)).collect(), ..rules }
}

/// Adds the tools that only a session on git has; returns the problems of those that lie in its repository.
fn add_of_sessions(
    registry: &mut Registry,
    bench: &Arc<Bench>,
    from: (&Settings, &Env, Option<&Path>),
) -> Vec<Failure> {
    let added = registry.add(Box::new(crate::tools::UpdateContext(registry.reads().clone())));
    debug_assert_eq!(added, Ok(()));
    if from.0.sessions.tools { add_repository_tools(registry, bench, from) } else { Vec::new() }
}

/// Returns the names in `tools_allow` that no tool has, each with its setting. Names of servers' tools aren't judged,
/// since such a tool exists only once its server offers it.
#[must_use]
pub fn unknown_tools(settings: &Settings, env: &Env) -> Vec<(String, String)> {
    let (registry, _) = tools_alone(settings, env);
    let is_known = |name: &String| {
        ["skill", "update_context", "remember", "delegate"].contains(&name.as_str())
            || CANVAS_TOOLS.contains(&name.as_str())
            || name.contains("__")
            || registry.specs().any(|spec| spec.is_in(std::slice::from_ref(name)))
    };
    let unknown = |channel: ChannelKind| {
        let names = allowed_tools(settings, channel).unwrap_or_default().iter().filter(|name| !is_known(name));
        names.map(|name| (format!("tools_allow.{}", channel.word()), name.clone())).collect::<Vec<_>>()
    };
    ChannelKind::ALL.into_iter().flat_map(unknown).collect()
}

/// Adds the tool that reads skills, the tool that notes something for later if there is a conversation for the note,
/// and the tools of a team's canvases.
fn add_tools_of_conversations(registry: &mut Registry, env: &Env, place: &Path, channel: Option<ChannelKind>) {
    let added = registry.add(Box::new(crate::tools::Skill::new(crate::app::tooling::skills::library(env, place))));
    debug_assert_eq!(added, Ok(()));
    if channel.is_some_and(|channel| channel != ChannelKind::Serve) {
        let added = registry.add(Box::new(Remember));
        debug_assert_eq!(added, Ok(()));
    }
    if channel == Some(ChannelKind::Gateway) {
        canvas_tools(&None).into_iter().for_each(|tool| registry.lend(tool, true));
    }
}

/// Removes all tools but those of a list, and reports names that aren't tools.
fn keep_allowed(registry: &mut Registry, names: &[String], problems: &mut Vec<Failure>) {
    let is_known = |name: &&String| registry.specs().any(|spec| spec.is_in(std::slice::from_ref(name)));
    problems.extend(names.iter().filter(|name| !is_known(name)).map(|name| {
        Failure::config(format!("tools_allow names {name}, and there is no such tool"))
            .hint("reedclaw tool list lists them")
    }));
    registry.keep_only(names);
}

/// Returns the permanently allowed commands; none while their file is damaged, which is a problem. Tools then still ask.
fn allowed_or_none(state: &Path, root: &Path, problems: &mut Vec<Failure>) -> Allowed {
    let mut allowed = Allowed::at(state, root);
    problems.extend(allowed.refresh().err().map(|error| {
        Failure::unavailable(format!("nothing is allowed for good in this project: {error}"))
            .hint("repair or remove that file")
    }));
    allowed
}

/// The notices about changes that a crash interrupted.
fn cut_off(message: String) -> Failure {
    let hint = "look at these files before you continue";
    Failure::unavailable(message).hint(hint)
}

/// Returns the permanently allowed commands of `workspace`.
///
/// # Errors
/// There is no state directory or no such workspace, or the file of rules can't be used.
pub fn allowed_commands(env: &Env, workspace: &Path) -> Result<Allowed, Failure> {
    let failed = |message: String, hint: &str| {
        Failure::unavailable(format!("the permanently allowed commands can't be read: {message}")).hint(hint)
    };
    let state = state_directory(env).ok_or_else(|| failed("no HOME is set, so it has no place".into(), "set HOME"))?;
    let root = match workspace.canonicalize() {
        // The directory for tools outside of projects is made when a tool first needs it: nothing is allowed there yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => workspace.to_owned(),
        root => root.map_err(|error| failed(format!("{}: {error}", workspace.display()), ""))?,
    };
    Allowed::open(&state, &root).map_err(|error| failed(error.to_string(), "repair or remove that file"))
}

/// Earlier conversations, as the memory tool searches them.
struct StoredMemory {
    store: Arc<Mutex<Store>>,
}

impl Memory for StoredMemory {
    fn search(&mut self, query: &str, limit: usize) -> Result<Vec<Found>, String> {
        let mut store = self.store.lock();
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
