//! The composition root: settings become each room's options, and rooms are started. If a room fails, the rest starts
//! without it, with a problem to report.

mod channel;
mod goal;
mod limits;
mod opening;
mod procedure;
mod question;
mod session;
mod sharing;
mod steps;
mod tooling;

use parking_lot::{Mutex, MutexGuard};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{self, Agent};
use crate::config::{self, ColorChoice, Env, KeySource, ModelSettings, Settings, ThinkingSettings};
use crate::gate::Ceiling;
use crate::host;
use crate::log;
use crate::model::{Endpoint, KeyReader, Protocol, Reach, Secret, Spec, Thinking};
use crate::proto::action::Autonomy;
use crate::proto::{Failure, Image};
use crate::sandbox::home_of_user;
use crate::shell;
use crate::shell::spawn::{Dialect, Start};
use crate::store::{self, ConversationId, Store};

pub use crate::mcp::Place as ServerPlace;
pub use crate::model::ToolCall;
pub use crate::tools::Replies;
pub use crate::tools::served::{
    Added, Done, Face, NO_NETWORK, Servers, allow_tools, ask_to_allow_started, mcp_command, words_of,
};
pub use channel::{Channel, Received};
pub use goal::{
    Background, Progress, ReadyRun, RunSteps, RunWatcher, StoredJournal, Unheld, Wanted, effect_line, event_lines,
    find_run, go_lines, goal_of, goal_within, granted_lines, hold_workspace, is_worked_on, plan_lines, ready_run,
    report_ended_run, request_of_run, resting_runs, run_facts, run_report, run_rows, run_trajectory, state_word,
    steps_of_run, work_on_run,
};
pub use limits::guard::policy_rules;
pub use limits::jail::Jails;
use limits::money::money_options;
pub use limits::safety::{estop, receipt_options, unknown_outcomes};
use limits::sandbox::may_be_readable;
pub use limits::sandbox::{keeps_tenants_apart, sandbox_in_use, sandbox_mode, sandbox_place, team_workspaces};
use opening::{EarlyStore, because, is_on_disk, not_stored, open_store};
pub use procedure::{
    ALL_TRIGGERS_MAX, Beside, Due, Moment, Procedure, Schedule, Shown, SopJournal, SopPlaces, SopStart, TriggerFacts,
    begin_procedure, find_procedure, find_sop_run, hooked_procedure, imagined_run, last_fire, may_take_up,
    models_with_variable, models_without_key, next_time, open_sop_runs, procedure_at, procedure_problems, procedures,
    sop_lines, sop_row, sop_runs, step_tools, trust_procedure, untrust_procedure, untrusted_files, waiting_sops,
    work_procedure,
};
pub use question::{
    Around, AroundNotes, Attached, Attaching, PIPED, Remembered, StoreRecorder, make_title, past_summary, past_turns,
    served_words,
};
pub use session::{
    Applied, Approvals, Doubt, FOLDER, Maker, OnGit, OwnChanges, OwnCommand, RepositoryTool, Ruling, RunOnGit, Tested,
    ToSummarise, ToolAsked, cut_off_turns, doubts, left_behind, maker, open_asking, open_to_write,
    restore_conversations, rewind_run_session, session_failure, session_on, sessions_here, summarise, to_summarise,
    undo_in_session, undoes_in_session,
};
pub use sharing::share_place;
pub use steps::{recover, steps, steps_failure};
pub use tooling::runner::{BuiltRunner, RunnerOf, allowed_commands, tool_runner, unknown_tools};
pub use tooling::servers::servers;
pub use tooling::skills::{Skills, trust as skills_trust};
use tooling::tools::tool_rows;
pub use tooling::tools::{
    OWN_TOOLS, allowed_tools, card_options, manual_options, own_tools, plugins, symbols_directory, tool_channels,
    tool_risk, tools_alone,
};
pub use tooling::workspace::{workspace_dir, workspace_for, workspace_named};

/// Limit for the problems of a config that are shown before the first prompt, which must stay in sight.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// Longest wait for the first word of a model on this machine, unless the config sets another.
const LOCAL_FIRST_BYTE: Duration = Duration::from_secs(600);

/// Answers messages from any channel.
pub struct Runtime {
    /// The effective settings.
    settings: Settings,
    /// The environment at the start.
    env: Env,
    /// The problems of the start, shown before the first prompt.
    problems: Vec<Failure>,
    has_broken_config: bool,
    /// History and conversations.
    store: Arc<Mutex<store::Store>>,
    /// Answers questions.
    agent: Agent,
    /// The config from which the settings were built, for a session that changes them.
    config: ConfigParts,
    /// The source of the questions.
    channel: ChannelKind,
    /// The directory of a question: its `@` names are looked up there.
    cwd: PathBuf,
    /// The current limit on the autonomy.
    ceiling: Ceiling,
    /// Ids of the memories that went in front of this conversation.
    carried: Vec<i64>,
    /// Notes that a channel puts in front of the next question, each with the place that it is from.
    brought: Vec<(String, String)>,
    /// Pictures that a channel brings with the next question.
    brought_images: Vec<Image>,
    around: Around,
    /// The project for which the notice about its untrusted skills was shown.
    skills_told: Option<PathBuf>,
    /// The person's choice whether questions carry the project's facts; `None` leaves it to the setting.
    project_wanted: Option<bool>,
    tools: tooling::toolsets::Tools,
    /// The session on git that is on.
    on_git: Option<OnGit>,
    readable: Vec<PathBuf>,
}

/// The session's part of the config.
#[derive(Default)]
pub struct ConfigParts {
    /// The way to find the config.
    pub request: config::LoadRequest,
    /// Its values, for a project's file to be laid over them.
    pub layers: config::Layers,
    /// Its hooks.
    pub hooks: config::Hooks,
    /// The file that was read, if one was.
    pub path: Option<PathBuf>,
}

impl ConfigParts {
    /// The directory whose `config.lua` counts as a project's file: that of the start, for a user without a config.
    #[must_use]
    pub fn start_directory(&self) -> Option<&Path> {
        self.path.is_none().then_some(self.request.cwd.as_path())
    }
}

/// The command line's options for an interactive session.
#[derive(Clone, Default)]
pub struct Request {
    /// `--config PATH`.
    pub config: Option<PathBuf>,
    /// `--model NAME`: the answering model, if it isn't the default one.
    pub model: Option<String>,
    /// The conversation to continue; `None` begins a new one.
    pub resume: Option<Resume>,
    /// The source of the questions.
    pub channel: ChannelKind,
    /// The directory in which the session begins; `None` for that of the process.
    pub cwd: Option<PathBuf>,
    /// History and conversations, if they are already open; `None` opens them.
    pub store: Option<Arc<Mutex<Store>>>,
    /// The values to use if the config has a mistake; `None` for its readable values and the defaults.
    pub fallback: Option<Arc<config::Layers>>,
    /// Without `HOME`, take the home from the system's table of users: containers often don't set the variable.
    pub finds_home: bool,
    /// Directories outside the workspace that tools may read, too: absolute and without links.
    pub readable: Vec<PathBuf>,
}

/// The source of questions, which decides the tools that answer them and their reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// A session.
    #[default]
    Shell,
    /// `reedclaw agent`, one question.
    Agent,
    /// `reedclaw acp`, an editor.
    Acp,
    /// `reedclaw mcp serve`, another agent.
    Serve,
    /// `reedclaw gateway`, HTTP.
    Gateway,
    /// A trigger of a procedure: no person is there.
    Service,
}

impl ChannelKind {
    /// Every channel.
    pub const ALL: [Self; 6] = [Self::Shell, Self::Agent, Self::Acp, Self::Serve, Self::Gateway, Self::Service];

    /// The word for it, as the config has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Agent => "agent",
            Self::Acp => "acp",
            Self::Serve => "serve",
            Self::Gateway => "gateway",
            Self::Service => "service",
        }
    }
}

/// The stored conversation to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The newest.
    Last,
    /// The one with this id.
    Id(i64),
}

impl Runtime {
    /// Loads the settings and starts the rooms that need no terminal.
    ///
    /// # Errors
    /// The config that `--config` names can't be read, the conversation to continue isn't there, or the system has no
    /// memory for a database in memory.
    pub fn start(request: &Request) -> Result<Self, Failure> {
        let mut env = host::environment();
        let found_home = if request.finds_home { find_home(&mut env) } else { None };
        let cwd = request.cwd.clone().unwrap_or_else(host::working_directory);
        // The path of `--config` starts at the directory of the program's start, wherever the program works.
        let load = config::LoadRequest { explicit: request.config.clone(), env, cwd: host::working_directory() };
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(event = "startup", version, channel = request.channel.word());
        let is_session = request.channel == ChannelKind::Shell && request.store.is_none();
        let early = if is_session { EarlyStore::begin(&load.env) } else { None };
        let mut loaded = config::load(&load)?;
        let is_broken = |loaded: &config::Loaded| loaded.problems.iter().any(|problem| !problem.is_warning);
        if let Some(layers) = request.fallback.as_ref().filter(|_| is_broken(&loaded)) {
            loaded.fall_back(layers);
        }
        if request.channel != ChannelKind::Shell {
            loaded.lay_trusted_project(&config::LoadRequest { cwd: cwd.clone(), ..load.clone() });
        }
        let has_broken_config = is_broken(&loaded);
        let config::Loaded { settings, problems, path, hooks, layers, .. } = loaded;
        let place = path.as_ref().map(|path| path.display().to_string());
        tracing::info!(event = "config_path", path = place, problems = problems.len());
        let env = load.env.clone();
        let mut problems = config_problems(&problems);
        problems.extend(found_home);
        let store = match &request.store {
            Some(store) => Arc::clone(store),
            None => open_store(&settings, early, &mut problems)?,
        };
        let recorder = StoreRecorder::new(Arc::clone(&store));
        let mut agent = Agent::new(agent_options(&settings, &env, request.channel), Box::new(recorder));
        if let Some(which) = request.resume {
            if !is_on_disk(&store) {
                // Opening it was the last thing that failed.
                return Err(problems.pop().filter(|_| request.store.is_none()).map_or_else(not_stored, because));
            }
            resume(&mut agent, &store, which)?;
        }
        if let Some(name) = &request.model
            && let Err(failure) = agent.use_model(name)
        {
            problems.push(failure);
        }
        let config = ConfigParts { request: load, layers, hooks, path };
        Ok(Self {
            settings,
            env,
            problems,
            has_broken_config,
            store,
            agent,
            config,
            channel: request.channel,
            cwd,
            ceiling: Ceiling::default(),
            carried: Vec::new(),
            brought: Vec::new(),
            brought_images: Vec::new(),
            around: Around::default(),
            skills_told: None,
            project_wanted: None,
            tools: tooling::toolsets::Tools::default(),
            on_git: None,
            readable: request.readable.clone(),
        })
    }

    /// Checks that history and conversations are those on the disk, for a command that only reads them: an empty
    /// database in memory would make it report that there is nothing.
    ///
    /// # Errors
    /// They can't be read; the problems of the start say why.
    pub fn check_stored(&self) -> Result<(), Failure> {
        if is_on_disk(&self.store) { Ok(()) } else { Err(not_stored()) }
    }

    /// The effective settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the settings; returns the previous ones and whether the agent's models have changed.
    pub fn replace_settings(&mut self, settings: Settings) -> (Settings, bool) {
        let old = std::mem::replace(&mut self.settings, settings);
        let models = |settings: &Settings| {
            let Settings { models, default_model, context, system_prompt, limits, .. } = settings.clone();
            (models, default_model, context, system_prompt, limits)
        };
        let has_other_models = models(&old) != models(&self.settings);
        if has_other_models {
            self.agent.configure(agent_options(&self.settings, &self.env, self.channel));
        }
        (old, has_other_models)
    }

    /// Lets one answer use all rounds of tools, without a question in between: a person sees each of them.
    pub fn allow_all_rounds(&mut self) {
        self.settings.limits.tool_rounds_once = self.settings.limits.tool_rounds;
        self.agent.configure(agent_options(&self.settings, &self.env, self.channel));
    }

    /// Sets how hard models think before they answer, for this run: an effort as the config has it, or the `configured` one.
    pub fn set_thinking(&mut self, effort: Option<&str>, configured: &Settings) {
        for (name, model) in &mut self.settings.models {
            let own = configured.models.get(name).and_then(|model| model.thinking.clone());
            model.thinking = effort.map(|effort| ThinkingSettings::Effort(effort.to_owned())).or(own);
        }
        self.agent.configure(agent_options(&self.settings, &self.env, self.channel));
    }

    /// Sets the autonomy of a model for this run.
    pub fn set_autonomy(&mut self, autonomy: Autonomy) {
        self.settings.security.autonomy = autonomy;
    }

    /// Sets the longest result of a tool.
    pub fn allow_output_bytes(&mut self, bytes: usize) {
        self.settings.limits.output_bytes = bytes;
    }

    /// The environment at the start.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The problems of the start.
    #[must_use]
    pub fn problems(&self) -> &[Failure] {
        &self.problems
    }

    /// Returns whether the config has a mistake, so that not all of it counts.
    #[must_use]
    pub fn has_broken_config(&self) -> bool {
        self.has_broken_config
    }

    /// Takes the problems of the start.
    #[must_use]
    pub fn take_problems(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.problems)
    }

    /// Adds a problem to those of the start.
    pub fn add_problem(&mut self, problem: Failure) {
        self.problems.push(problem);
    }

    /// History and conversations, for a part that shares them.
    #[must_use]
    pub fn store(&self) -> &Arc<Mutex<Store>> {
        &self.store
    }

    /// History and conversations.
    pub fn lock_store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    /// The agent that answers.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The agent that answers, to change its conversation or its model.
    #[must_use]
    pub fn agent_mut(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// The config from which the settings were built.
    #[must_use]
    pub fn config(&self) -> &ConfigParts {
        &self.config
    }

    /// The config, to replace what was read from it.
    #[must_use]
    pub fn config_mut(&mut self) -> &mut ConfigParts {
        &mut self.config
    }

    /// The directory of a question: its `@` names are looked up there.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Sets the directory of the next questions.
    pub fn stand_in(&mut self, directory: PathBuf) {
        self.cwd = directory;
    }

    /// Directories outside the workspace that tools may read, too.
    #[must_use]
    pub fn readable(&self) -> &[PathBuf] {
        &self.readable
    }

    /// Lets tools read further directories from outside a workspace: absolute paths without links.
    ///
    /// # Errors
    /// One of them can't be opened to a model's tools; nothing has changed then.
    pub fn add_readable(&mut self, workspace: &Path, paths: Vec<PathBuf>) -> Result<(), Failure> {
        let outside: Vec<PathBuf> = paths.into_iter().filter(|path| !path.starts_with(workspace)).collect();
        outside.iter().try_for_each(|path| may_be_readable(&self.settings, &self.env, workspace, path))?;
        self.readable.extend(outside);
        Ok(())
    }

    /// The current limit on the autonomy, shared with all who may lower it.
    #[must_use]
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// The memories that went in front of this conversation.
    #[must_use]
    pub fn carried(&self) -> &[i64] {
        &self.carried
    }

    /// The session on git that is on.
    #[must_use]
    pub fn on_git(&self) -> Option<&OnGit> {
        self.on_git.as_ref()
    }

    /// The session on git that is on, to change it.
    #[must_use]
    pub fn on_git_mut(&mut self) -> Option<&mut OnGit> {
        self.on_git.as_mut()
    }

    /// Ends the session on git for this runtime, and hands it over.
    #[must_use]
    pub fn take_on_git(&mut self) -> Option<OnGit> {
        self.on_git.take()
    }

    /// The workspace of tools for a person in a directory.
    #[must_use]
    pub fn workspace_around(&self, directory: &Path) -> PathBuf {
        workspace_for(&self.env, directory, &workspace_dir(&self.settings, &self.env))
    }

    /// The tools of the agent as the rows of a table; `None` if it has none.
    #[must_use]
    pub fn tool_rows(&mut self) -> Option<Vec<Vec<String>>> {
        let Self { agent, settings, .. } = self;
        agent.runner().map(|runner| tool_rows(runner, settings))
    }

    /// A runner of tools in a workspace, beside that of the agent; `channel` limits them to those of a channel.
    ///
    /// # Errors
    /// The place of receipts or steps can't be used.
    pub fn runner_in(&self, workspace: &Path, channel: Option<ChannelKind>) -> Result<BuiltRunner, Failure> {
        tool_runner(&RunnerOf {
            settings: &self.settings,
            env: &self.env,
            workspace,
            store: &self.store,
            channel,
            config: self.config.path.as_deref(),
            ceiling: self.ceiling.clone(),
            bench: None,
            readable: &self.readable,
        })
    }

    /// The options of the shell's session.
    #[must_use]
    pub fn shell_options(&self, start: Start, dialect: Dialect) -> shell::Options {
        shell::Options { start, dialect, unicode: self.unicode(), wanted: wanted(&self.settings) }
    }

    /// The value of an environment variable, if it is text and not empty.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    /// Returns whether the locale's characters are UTF-8.
    #[must_use]
    pub fn unicode(&self) -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| self.variable(name)).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    }

    /// Returns whether colours are used.
    #[must_use]
    pub fn color(&self) -> bool {
        color(&self.settings, &self.env)
    }
}

/// Starts the log, with the level in the environment's variables, or `level` if there is one. `to_stderr` is false if a
/// session draws there. Returns the unknown parts of the variables, a sentence each.
#[must_use]
pub fn start_log(env: &Env, to_stderr: bool, level: Option<&str>) -> Vec<String> {
    let variable = |name: &str| {
        let value = env.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str());
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let level = level.map(str::to_owned).or_else(|| variable("REEDCLAW_LOG_LEVEL"));
    let form = variable("REEDCLAW_LOG");
    let mut unknown = Vec::new();
    if let Some(word) = level.as_ref().filter(|word| *word != "off" && !log::LEVELS.contains(&word.as_str())) {
        unknown.push(format!("the log level {word:?} isn't one of {}, off", log::LEVELS.join(", ")));
    }
    if let Some(word) = form.as_ref().filter(|word| *word != "json") {
        unknown.push(format!("REEDCLAW_LOG is {word:?}; only json is known"));
    }
    log::init(log::Options {
        directory: config::state_directory(env),
        to_stderr,
        form,
        level,
        clock: Some(host::now_unix_ms),
    });
    unknown
}

/// Returns whether colours are used.
#[must_use]
pub fn color(settings: &Settings, env: &Env) -> bool {
    let refused = env.get(std::ffi::OsStr::new("NO_COLOR")).is_some_and(|value| !value.is_empty());
    let is_dumb = env.get(std::ffi::OsStr::new("TERM")).is_none_or(|term| term == "dumb" || term.is_empty());
    settings.console.color == ColorChoice::Auto && !refused && !is_dumb && !settings.console.accessible
}

/// The settings for the shell's commands.
#[must_use]
pub fn wanted(settings: &Settings) -> shell::Wanted {
    let (shell, console) = (&settings.shell, &settings.console);
    let captured = |bytes| if shell.capture_output { bytes } else { 0 };
    let notify = shell::Notify {
        after: Duration::from_secs(console.notify_s),
        bell_only: console.notify == config::NotifyChoice::Bell,
    };
    shell::Wanted {
        capture_head_bytes: captured(shell.capture_head_bytes),
        capture_tail_bytes: captured(shell.capture_tail_bytes),
        shell_prompt: settings.prompt == config::PromptStyle::Shell,
        notify: (console.notify != config::NotifyChoice::Off).then_some(notify),
    }
}

/// Makes the lines about the problems of a config: the first ones, and the command that lists the rest.
#[must_use]
pub fn config_problems(problems: &[config::Problem]) -> Vec<Failure> {
    let shown = problems.iter().take(PROBLEMS_SHOWN_MAX);
    let mut lines: Vec<Failure> = shown.map(|problem| Failure::config(problem.to_string())).collect();
    if problems.len() > PROBLEMS_SHOWN_MAX {
        let more = format!("the config has {} more problems", problems.len() - PROBLEMS_SHOWN_MAX);
        lines.push(Failure::config(more).hint("reedclaw config validate lists them all"));
    }
    lines
}

/// Continues a stored conversation.
fn resume(agent: &mut Agent, store: &Mutex<Store>, which: Resume) -> Result<(), Failure> {
    let store = store.lock();
    let id = match which {
        Resume::Id(id) => ConversationId(id),
        Resume::Last => match store.conversations(1)?.first() {
            Some(newest) => newest.id,
            None => return Err(Failure::user("there is no conversation to continue").hint("ask without it first")),
        },
    };
    let turns = store.turns(id)?;
    if turns.is_empty() {
        return Err(Failure::user(format!("there is no conversation {}", id.0)).hint("`last` is the newest one"));
    }
    let summary = past_summary(&store, id)?;
    drop(store);
    agent.go_on_in(id, past_turns(turns), summary);
    Ok(())
}

/// Sets `HOME` by the system's table of users if it isn't set, and returns the notice about that.
fn find_home(env: &mut Env) -> Option<Failure> {
    if env.get(OsStr::new("HOME")).is_some_and(|home| !home.is_empty()) {
        return None;
    }
    let home = home_of_user()?;
    let found = home_is_found(&home);
    env.insert("HOME".into(), home.into());
    Some(found)
}

fn home_is_found(home: &Path) -> Failure {
    let message = format!("no HOME is set: {} is used, your home in the system's table of users", home.display());
    Failure::unavailable(message).hint("set HOME to use another one")
}

/// Makes the agent's options.
#[must_use]
pub fn agent_options(settings: &Settings, env: &Env, channel: ChannelKind) -> agent::Options {
    let limits = &settings.limits;
    let models = settings.models.iter().map(|(name, model)| spec_of(name, model, env)).collect();
    let system_prompts = settings.models.iter().map(|(name, model)| (name.clone(), model.system_prompt.clone()));
    let aliases = settings
        .models
        .iter()
        .flat_map(|(name, model)| model.aliases.iter().map(|alias| (alias.clone(), name.clone())));
    agent::Options {
        models,
        default_model: settings.default_model.clone(),
        system_prompts: system_prompts.collect(),
        aliases: aliases.collect(),
        prompts: agent::Prompts {
            tools: include_str!("../../config/prompts/tools.txt").trim_end().to_owned(),
            commands: include_str!("../../config/prompts/commands.txt").trim_end().to_owned(),
        },
        limits: agent::Limits {
            rounds_max: match channel {
                ChannelKind::Shell | ChannelKind::Acp | ChannelKind::Gateway => limits.tool_rounds,
                ChannelKind::Agent | ChannelKind::Serve | ChannelKind::Service => limits.tool_rounds_once,
            },
            response_bytes_max: limits.response_bytes,
            repeats_max: limits.repeats,
        },
        conversation: agent::ConversationOptions {
            system_prompt: settings.system_prompt.clone(),
            max_turns: settings.context.max_turns,
            token_budget: settings.context.token_budget,
            exec_output_tokens: settings.context.exec_output_tokens,
            compact_at_percent: settings.context.compact_at_percent,
        },
        secrets: limits::secrets::of_environment(env, &settings.share.token_env),
        money: money_options(settings),
        closed: closed(settings, channel),
    }
}

/// Reason why a channel takes no questions; `None` if it does.
#[must_use]
pub fn closed(settings: &Settings, channel: ChannelKind) -> Option<Failure> {
    let (is_open, name) = match channel {
        ChannelKind::Shell => (settings.channels.shell, "in the shell"),
        ChannelKind::Agent => (settings.channels.agent, "by reedclaw agent"),
        ChannelKind::Acp => (settings.channels.acp, "in an editor"),
        ChannelKind::Gateway => (settings.channels.gateway, "by reedclaw gateway"),
        // A model's step counts as a question from the command line.
        ChannelKind::Service => return closed(settings, ChannelKind::Agent),
        // No question to a model comes from there.
        ChannelKind::Serve => return None,
    };
    (!is_open).then(|| {
        Failure::refused(format!("questions to a model {name} are turned off"))
            .hint(format!("channels.{}.enabled = true in the config turns them on", channel.word()))
    })
}

/// Makes the options of one model.
#[must_use]
pub fn spec_of(name: &str, model: &ModelSettings, env: &Env) -> Spec {
    let owned = name.to_owned();
    let protocol = match model.kind.as_str() {
        "mock" => {
            let script = match &model.script {
                Some(path) => host::read_text(path).map_err(|why| format!("{}: {why}", path.display())),
                None => Err("none is given".to_owned()),
            };
            return Spec::Mock { name: owned, script };
        }
        "reliable" => {
            return Spec::Reliable { name: owned, of: model.of.clone(), allow_remote: model.allow_remote };
        }
        "router" => return Spec::Router { name: owned, rules: model.rules.clone() },
        word => Protocol::of_word(word).unwrap_or_default(),
    };
    let (key, key_reader) = key_of(name, model.key.as_ref(), env);
    let key_env = match &model.key {
        Some(KeySource::Variable(variable)) => Some(variable.clone()),
        _ => None,
    };
    let mut endpoint = Endpoint::new(name, &model.endpoint, &model.model);
    let limit = Duration::from_millis(model.first_byte_timeout_ms);
    // A model on this machine may read a long prompt for minutes before its first word.
    let is_default = limit == endpoint.first_byte_timeout;
    endpoint.first_byte_timeout =
        if is_default && endpoint.reach() == Reach::Machine { limit.max(LOCAL_FIRST_BYTE) } else { limit };
    endpoint.busy_timeout = Duration::from_millis(model.busy_timeout_ms);
    Spec::Server(Endpoint {
        protocol,
        temperature: model.temperature,
        max_output_tokens: model.max_output_tokens,
        context_tokens: model.context_tokens,
        images: model.images,
        asks_server: true,
        thinking: model.thinking.as_ref().and_then(|thinking| match thinking {
            ThinkingSettings::Effort(word) => Thinking::of_word(word),
            ThinkingSettings::Tokens(tokens) => Some(Thinking::Tokens(*tokens)),
        }),
        key,
        key_reader,
        key_env,
        authorities: host::Authorities::of(env),
        connect_timeout: Duration::from_millis(model.connect_timeout_ms),
        idle_timeout: Duration::from_millis(model.idle_timeout_ms),
        retries: model.retries,
        ..endpoint
    })
}

/// Returns a key that is known at once, or the way to read it when it is needed: a program or a file must not delay the start.
fn key_of(model: &str, source: Option<&KeySource>, env: &Env) -> (Option<Secret>, Option<KeyReader>) {
    let failed = |model: &str, what: String, why: String, key: &str| {
        Failure::config(format!("the key of {model} can't be read: {what}: {why}"))
            .hint(format!("see models.{model}.{key} in the config"))
    };
    let model = model.to_owned();
    match source {
        None => (None, None),
        Some(KeySource::Variable(variable)) => {
            let key = env.get(std::ffi::OsStr::new(variable)).and_then(|key| key.to_str());
            (key.filter(|key| !key.is_empty()).map(Secret::new), None)
        }
        Some(KeySource::Literal(key)) => (Some(Secret::new(key.reveal())), None),
        Some(KeySource::File(path)) => {
            let path = path.clone();
            let read = move |_: &agent::Cancel| match host::key_from_file(&path) {
                Ok(key) => Ok(Secret::new(&key)),
                Err(why) => Err(failed(&model, path.display().to_string(), why, "key_file")),
            };
            (None, Some(KeyReader::new(read)))
        }
        Some(KeySource::Command(words)) => {
            let (words, env) = (words.clone(), env.clone());
            let read =
                move |cancel: &agent::Cancel| match host::key_from_command(&words, &env, &|| cancel.is_cancelled()) {
                    Ok(key) => Ok(Secret::new(&key)),
                    Err(why) => Err(failed(&model, words[0].clone(), why, "key_command")),
                };
            (None, Some(KeyReader::new(read)))
        }
    }
}
