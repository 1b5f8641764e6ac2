//! The settings as plain data, and how they are built from checked values. The values themselves come from `config/default.lua`
//! and the user's config; none is written here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::console::ConsoleSettings;
use super::overlay::tighten::Own;
use super::prices::PriceSettings;
use super::reading::checked::{KeySource, Setting, Tree};
use super::reading::problem::{Problems, quoted};
use super::reading::values::Values;
use super::schema::usual_endpoint;
use super::served::McpSettings;
use super::tools::{
    ChannelSettings, GatewaySettings, NorrisSettings, SECURITY_MISTAKE, ServiceSettings, SessionSettings,
    ShareSettings, SopSettings, ToolLimitSettings, ToolSettings, UndoSettings,
};
use crate::proto::Task;
use crate::proto::action::Autonomy;
use crate::proto::program_rule::ProgramRule;

/// The default protocol.
const DEFAULT_KIND: &str = "openai-compatible";

/// Every setting, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The model that answers at the start, a key of `models`.
    pub default_model: Option<String>,
    /// The models, by name.
    pub models: BTreeMap<String, ModelSettings>,
    /// Instructions that open each conversation.
    pub system_prompt: String,
    /// The user's own prices, by a model's name in the config or at its server.
    pub prices: BTreeMap<String, PriceSettings>,
    /// The budget.
    pub budget: BudgetSettings,
    /// The live shell.
    pub shell: ShellSettings,
    /// The context that the model sees.
    pub context: ContextSettings,
    /// The memory beyond conversations.
    pub memory: MemorySettings,
    /// Answers without a model.
    pub manual: ManualSettings,
    /// Lines and conversations on disk.
    pub history: HistorySettings,
    /// The receipts of tool calls.
    pub receipts: ReceiptSettings,
    /// The directory that a model works in, absolute; none without a HOME.
    pub workspace_dir: Option<PathBuf>,
    /// The rights of a model.
    pub security: SecuritySettings,
    /// The source of the prompt.
    pub prompt: PromptStyle,
    /// The rules for routing lines.
    pub route: RouteSettings,
    /// The line editor.
    pub editor: EditorSettings,
    /// The output on the terminal.
    pub console: ConsoleSettings,
    /// The model's tools.
    pub tools: ToolSettings,
    /// The limits of a model's tools.
    pub limits: ToolLimitSettings,
    /// Ways to a model.
    pub channels: ChannelSettings,
    /// Servers of tools.
    pub mcp: McpSettings,
    /// The limits of undo.
    pub undo: UndoSettings,
    /// Sessions on git.
    pub sessions: SessionSettings,
    /// The gateway.
    pub gateway: GatewaySettings,
    /// The gateway that shares the user's sessions with a team.
    pub share: ShareSettings,
    /// Runs towards goals.
    pub norris: NorrisSettings,
    /// Procedures.
    pub sop: SopSettings,
    /// The service that runs procedures.
    pub service: ServiceSettings,
}

/// One model, with the defaults already filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// The server's protocol, or the way in which this model asks others.
    pub kind: String,
    /// Address of the server, as the user wrote it: with or without `/v1` or `/v1/chat/completions`. Empty if the kind
    /// has no server.
    pub endpoint: String,
    /// The server's name for the model.
    pub model: String,
    /// The sampling temperature, 0 to 2, if set.
    pub temperature: Option<f64>,
    /// The limit for an answer in tokens, if set.
    pub max_output_tokens: Option<u64>,
    /// The window: limit of a request and its answer together, in tokens, if set.
    pub context_tokens: Option<u64>,
    /// `true` if it takes pictures, if set.
    pub images: Option<bool>,
    /// `true` if its provider has promised not to train on the data it receives.
    pub no_training: bool,
    /// The effort of thinking, if set.
    pub thinking: Option<ThinkingSettings>,
    /// Number of retries of a refused request.
    pub retries: u32,
    /// For `reliable`: the models that are asked in turn, keys of `models`.
    pub of: Vec<String>,
    /// For `reliable`: a question may go on to a more distant model.
    pub allow_remote: bool,
    /// For `router`: the model for a task or a hint, a key of `models`.
    pub rules: BTreeMap<String, String>,
    /// For `mock`: the file with its answers, absolute.
    pub script: Option<PathBuf>,
    /// The source of its key; `None` if no key is sent.
    pub key: Option<KeySource>,
    /// Its other names.
    pub aliases: Vec<String>,
    /// Instructions that open a conversation with this model.
    pub system_prompt: String,
    /// Time limit for connecting, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Milliseconds until the answer starts.
    pub first_byte_timeout_ms: u64,
    /// Milliseconds until the answer starts, for a server that reports that it is working.
    pub busy_timeout_ms: u64,
    /// Milliseconds between two parts of an answer.
    pub idle_timeout_ms: u64,
}

/// The effort that a model spends on thinking before it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThinkingSettings {
    /// `off`, `low`, `medium` or `high`.
    Effort(String),
    /// Limit in tokens.
    Tokens(u64),
}

/// The budget; an absent limit means unlimited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSettings {
    /// For one question.
    pub per_turn: LimitSettings,
    /// For one conversation.
    pub per_conversation: LimitSettings,
    /// For one day.
    pub per_day: LimitSettings,
    /// A warning appears at this fraction of a limit.
    pub warn_at: f64,
}

/// One limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitSettings {
    /// In dollars.
    pub usd: Option<f64>,
    /// In tokens.
    pub tokens: Option<u64>,
}

/// The live shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellSettings {
    /// The shell to run, absolute; none means the user's bash, else `/bin/sh`.
    pub program: Option<PathBuf>,
    /// First words that count as commands although the shell can't find them.
    pub known_commands: Vec<String>,
    /// `true` if the shell keeps a copy of each command's output.
    pub capture_output: bool,
    /// Limit for the start of the output, in bytes.
    pub capture_head_bytes: usize,
    /// Limit for the end of the output, in bytes.
    pub capture_tail_bytes: usize,
}

/// The context that the model sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSettings {
    /// Limit for the turns of a conversation.
    pub max_turns: usize,
    /// Limit for a whole request, in tokens.
    pub token_budget: usize,
    /// Limit for output in front of a question, in tokens; less than `token_budget`.
    pub exec_output_tokens: usize,
    /// The percentage of the window from which older turns are summarised; 0 means never.
    pub compact_at_percent: usize,
    /// `true` if a question asked inside a repository carries facts about it.
    pub project: bool,
    /// Limit for the project's files and instructions, in tokens.
    pub project_tokens: usize,
    /// Time limit for git's state in a question.
    pub git_ms: u64,
}

/// The memory beyond conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySettings {
    /// `true` if a memory is written automatically when a conversation ends.
    pub auto: bool,
    /// Limit for memories in front of a conversation, in tokens.
    pub tokens: usize,
}

/// Answers without a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualSettings {
    /// `true` if programs without a manual page are asked for their help.
    pub help: bool,
}

/// Lines and conversations on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Directory of the database, absolute; none without a HOME.
    pub dir: Option<PathBuf>,
    /// Limit for the lines of the history.
    pub entries_max: usize,
    /// `true` if a line that starts with a space stays out.
    pub ignore_space: bool,
}

/// The receipts of tool calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptSettings {
    /// `true` if receipts are written.
    pub enabled: bool,
    /// The file, absolute; none means the default file in the state directory.
    pub path: Option<PathBuf>,
    /// `true` if each receipt is sealed with a key.
    pub hmac: bool,
    /// The directory of anchors and keys; none means the state directory. It is no setting: a gateway's tenant has one.
    pub anchors: Option<PathBuf>,
}

/// The rights of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecuritySettings {
    /// A model's freedom to act without asking.
    pub autonomy: Autonomy,
    /// `true` if everything outside the workspace is off limits.
    pub workspace_only: bool,
    /// Paths below which it reads and writes nothing; a leading `~` is the home.
    pub forbidden_paths: Vec<String>,
    /// Commands that it never runs.
    pub forbidden_commands: Vec<String>,
    /// Programs that need more care than the policy's own table takes.
    pub programs: Vec<ProgramRule>,
    /// `true` if high risk is denied under `supervised` instead of asked about.
    pub denies_high: bool,
    /// Hosts to which it may send GET requests.
    pub allow_domains: Vec<String>,
    /// A file that gets a line for each decision, absolute, if set.
    pub audit_log: Option<PathBuf>,
    /// The need of a model's commands for a sandbox.
    pub sandbox: SandboxChoice,
    /// The name of the strongest sandbox that is tried.
    pub tier: String,
    /// A problem with these settings, because of which their strictest values apply; empty if there is none.
    pub mistake: String,
}

/// The need of a model's commands for a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxChoice {
    /// Without a sandbox, commands don't run.
    Require,
    /// The best sandbox available.
    Prefer,
    /// No sandbox.
    Off,
}

/// The source of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStyle {
    /// ReedClaw's: directory, branch, status, model.
    Default,
    /// The user's own prompt, as the shell draws it.
    Shell,
}

/// The rules for routing lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// The authority that decides on a line's route.
    pub mode: RouteMode,
    /// `true` if the prompt shows the route in words.
    pub words: bool,
    /// `true` if ReedClaw remembers the lines that the user sent the other way.
    pub learn: bool,
}

/// The authority over the route of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteMode {
    /// ReedClaw decides.
    #[default]
    Auto,
    /// Every line goes to the shell.
    Shell,
    /// Every line goes to the model.
    Ask,
    /// Every line goes to the shell, and the prompt shows ReedClaw's own choice.
    Shadow,
}

impl RouteMode {
    /// Returns the mode of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "shell" => Self::Shell,
            "ask" => Self::Ask,
            "shadow" => Self::Shadow,
            _ => return None,
        })
    }
}

/// The line editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorSettings {
    /// Key bindings.
    pub mode: EditMode,
    /// `true` if the line is coloured while it is typed.
    pub highlight: bool,
    /// `true` if the rest of the line is suggested from the history.
    pub autosuggest: bool,
    /// The extent of Ctrl-W: `blank` or `word`.
    pub kill_word: String,
    /// Milliseconds that Tab waits for the shell's own completion.
    pub completion_timeout_ms: u64,
    /// Words and their expansions.
    pub abbreviations: BTreeMap<String, String>,
}

/// Key bindings of the line editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditMode {
    /// Emacs keys.
    Emacs,
    /// Vi keys.
    Vi,
}

/// Merges the user's values over the defaults and builds the settings.
///
/// # Errors
/// The first key that the defaults lack: a fault of the program; a test checks for it.
pub(super) fn build(defaults: &Tree, own: &Own, problems: &mut Problems) -> Result<Settings, String> {
    let user = own.tree();
    let values = Values { defaults, user };
    let models = models(&values, problems)?;
    Ok(Settings {
        default_model: default_model(&values, &models, problems),
        models,
        system_prompt: system_prompt(&values),
        prices: prices(&values, problems),
        budget: budget(&values)?,
        shell: ShellSettings {
            program: values.path(&["shell", "program"]),
            known_commands: values.words(&["shell", "known_commands"])?,
            capture_output: values.bool(&["shell", "capture_output"])?,
            capture_head_bytes: values.size(&["shell", "capture_head_bytes"])?,
            capture_tail_bytes: values.size(&["shell", "capture_tail_bytes"])?,
        },
        context: context(&values, problems)?,
        memory: MemorySettings { auto: values.bool(&["memory", "auto"])?, tokens: values.size(&["memory", "tokens"])? },
        manual: ManualSettings { help: values.bool(&["manual", "help"])? },
        history: HistorySettings {
            dir: values.path(&["history", "dir"]),
            entries_max: values.size(&["history", "entries_max"])?,
            ignore_space: values.bool(&["history", "ignore_space"])?,
        },
        receipts: ReceiptSettings {
            enabled: values.bool(&["receipts", "enabled"])?,
            path: values.path(&["receipts", "path"]),
            hmac: values.bool(&["receipts", "hmac"])?,
            anchors: None,
        },
        workspace_dir: values.path(&["workspace_dir"]),
        security: security(&values)?,
        prompt: match values.text(&["prompt"])?.as_str() {
            "shell" => PromptStyle::Shell,
            _ => PromptStyle::Default,
        },
        route: RouteSettings {
            mode: RouteMode::of(&values.text(&["route", "mode"])?).unwrap_or_default(),
            words: values.text(&["route", "verdict"])? == "words",
            learn: values.bool(&["route", "learn"])?,
        },
        editor: EditorSettings {
            mode: match values.text(&["editor", "mode"])?.as_str() {
                "vi" => EditMode::Vi,
                _ => EditMode::Emacs,
            },
            highlight: values.bool(&["editor", "highlight"])?,
            autosuggest: values.bool(&["editor", "autosuggest"])?,
            kill_word: values.text(&["editor", "kill_word"])?,
            completion_timeout_ms: values.integer(&["editor", "completion_timeout_ms"])?,
            abbreviations: match values.get(&["editor", "abbreviations"]) {
                Some(Setting::WordMap(map)) => map.clone(),
                _ => return Err("editor.abbreviations".into()),
            },
        },
        console: ConsoleSettings::of(&values)?,
        tools: tools(&values)?,
        limits: ToolLimitSettings::of(&values)?,
        channels: ChannelSettings::of(&values)?,
        mcp: McpSettings::of(&values)?,
        undo: UndoSettings::of(&values)?,
        sessions: SessionSettings::of(&values)?,
        gateway: GatewaySettings::of(&values)?,
        share: ShareSettings::of(&values)?,
        norris: NorrisSettings::of(&values)?,
        sop: SopSettings::of(&values)?,
        service: ServiceSettings::of(&values)?,
    })
}

fn models(values: &Values<'_>, problems: &mut Problems) -> Result<BTreeMap<String, ModelSettings>, String> {
    let mut models = BTreeMap::new();
    for key in values.user.keys() {
        let [parent, name, last] = &key[..] else { continue };
        if parent == "models" && (last == "endpoint" || last == "kind") && !models.contains_key(name) {
            models.insert(name.clone(), model(values, name, problems)?);
        }
    }
    distinct_aliases(&mut models, problems);
    known_models(&mut models, problems);
    Ok(models)
}

/// The instructions that open each conversation: the user's, or the built-in ones.
fn system_prompt(values: &Values<'_>) -> String {
    values
        .text(&["system_prompt"])
        .unwrap_or_else(|_| include_str!("../../config/prompts/system.txt").trim_end().to_owned())
}

fn tools(values: &Values<'_>) -> Result<ToolSettings, String> {
    let words = |channel: &str| match values.get(&["tools_allow", channel]) {
        Some(Setting::Words(words)) => Some(words.clone()),
        _ => None,
    };
    Ok(ToolSettings {
        check: values.text(&["project", "check"]).ok().filter(|command| !command.trim().is_empty()),
        check_ms: values.integer(&["project", "check_ms"])?,
        http_post: values.bool(&["tools", "http_post"])?,
        http_ports: match values.get(&["tools", "http_ports"]) {
            Some(Setting::Ports(ports)) => ports.clone(),
            _ => return Err("tools.http_ports".into()),
        },
        http_allow_private: values.bool(&["tools", "http_allow_private"])?,
        search: values.text(&["tools", "search"])?,
        search_url: values.text(&["tools", "search_url"])?,
        set: values.text(&["tools", "set"])?,
        allow_shell: words("shell"),
        allow_agent: words("agent"),
        allow_acp: words("acp"),
        allow_serve: words("serve"),
        allow_gateway: words("gateway"),
        allow_service: words("service"),
    })
}

fn model(values: &Values<'_>, name: &str, problems: &mut Problems) -> Result<ModelSettings, String> {
    let optional = |key: &str| match values.get(&["models", name, key]) {
        Some(Setting::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let number = |key: &str| match values.get(&["models", name, key]) {
        Some(Setting::Integer(number)) => Some(*number),
        _ => None,
    };
    let wait = |key: &str| match values.get(&["models", name, key]) {
        Some(Setting::Integer(number)) => Ok(*number),
        _ => values.integer(&["model_defaults", key]),
    };
    let temperature = match values.get(&["models", name, "temperature"]) {
        Some(Setting::Number(number)) => Some(*number),
        _ => match values.get(&["model_defaults", "temperature"]) {
            Some(Setting::Number(number)) => Some(*number),
            _ => None,
        },
    };
    let kind = optional("kind").unwrap_or_else(|| DEFAULT_KIND.to_owned());
    Ok(ModelSettings {
        endpoint: optional("endpoint").or_else(|| usual_endpoint(&kind).map(str::to_owned)).unwrap_or_default(),
        kind,
        max_output_tokens: number("max_output_tokens"),
        context_tokens: number("context_tokens"),
        images: match values.get(&["models", name, "images"]) {
            Some(Setting::Bool(takes)) => Some(*takes),
            _ => None,
        },
        no_training: matches!(values.get(&["models", name, "no_training"]), Some(Setting::Bool(true))),
        thinking: match values.get(&["models", name, "thinking"]) {
            Some(Setting::Text(effort)) => Some(ThinkingSettings::Effort(effort.clone())),
            Some(Setting::Integer(tokens)) => Some(ThinkingSettings::Tokens(*tokens)),
            _ => None,
        },
        retries: u32::try_from(wait("retries")?).map_err(|_| "model_defaults.retries")?,
        of: match values.get(&["models", name, "of"]) {
            Some(Setting::Words(words)) => words.clone(),
            _ => Vec::new(),
        },
        allow_remote: values.get(&["models", name, "allow_remote"]) == Some(&Setting::Bool(true)),
        rules: match values.get(&["models", name, "rules"]) {
            Some(Setting::WordMap(map)) => map.clone(),
            _ => BTreeMap::new(),
        },
        script: values.path(&["models", name, "script"]),
        model: optional("model").unwrap_or_else(|| name.to_owned()),
        temperature,
        key: key_source(values, name, problems),
        aliases: match values.get(&["models", name, "aliases"]) {
            Some(Setting::Words(words)) => words.clone(),
            _ => Vec::new(),
        },
        system_prompt: match optional("system_prompt") {
            Some(own) => own,
            None => system_prompt(values),
        },
        connect_timeout_ms: wait("connect_timeout_ms")?,
        first_byte_timeout_ms: wait("first_byte_timeout_ms")?,
        busy_timeout_ms: wait("busy_timeout_ms")?,
        idle_timeout_ms: wait("idle_timeout_ms")?,
    })
}

/// Collects the user's prices; a price without input or output is invalid.
fn prices(values: &Values<'_>, problems: &mut Problems) -> BTreeMap<String, PriceSettings> {
    let mut prices = BTreeMap::new();
    for key in values.user.keys().filter(|key| key.len() == 3 && key[0] == "prices") {
        let number = |part: &str| match values.get(&["prices", &key[1], part]) {
            Some(Setting::Number(number)) => Some(*number),
            _ => None,
        };
        let (cache_read, cache_write) = (number("cache_read"), number("cache_write"));
        match (number("input"), number("output")) {
            (Some(input), Some(output)) => {
                prices.insert(key[1].clone(), PriceSettings { input, cache_read, cache_write, output });
            }
            _ if prices.contains_key(&key[1]) => {}
            _ => problems.key(&key[..2], "needs both input and output; ignored".into()),
        }
    }
    prices
}

fn budget(values: &Values<'_>) -> Result<BudgetSettings, String> {
    let limit = |name: &str| LimitSettings {
        usd: match values.get(&["budget", name, "usd"]) {
            Some(Setting::Number(usd)) => Some(*usd),
            _ => None,
        },
        tokens: match values.get(&["budget", name, "tokens"]) {
            Some(Setting::Integer(tokens)) => Some(*tokens),
            _ => None,
        },
    };
    let Some(Setting::Number(warn_at)) = values.get(&["budget", "warn_at"]) else {
        return Err("budget.warn_at".into());
    };
    Ok(BudgetSettings {
        per_turn: limit("per_turn"),
        per_conversation: limit("per_conversation"),
        per_day: limit("per_day"),
        warn_at: *warn_at,
    })
}

/// Finds the source of a model's key; if the config names several, the first counts.
fn key_source(values: &Values<'_>, name: &str, problems: &mut Problems) -> Option<KeySource> {
    let mut found: Option<(&str, KeySource)> = None;
    for way in ["key_env", "key_command", "key_file", "key"] {
        let source = match values.get(&["models", name, way]) {
            Some(Setting::Text(variable)) => KeySource::Variable(variable.clone()),
            Some(Setting::Argv(words)) => KeySource::Command(words.clone()),
            Some(Setting::Path(path)) => KeySource::File(path.clone()),
            Some(Setting::Secret(key)) => KeySource::Literal(key.clone()),
            _ => continue,
        };
        match &found {
            None => found = Some((way, source)),
            Some((first, _)) => {
                let key = ["models", name, way].map(str::to_owned);
                problems.key(&key, format!("{first} already names the source of the key; ignored"));
            }
        }
    }
    found.map(|(_, source)| source)
}

/// Drops aliases that equal another model's name or that two models share: which model is meant would be a guess.
fn distinct_aliases(models: &mut BTreeMap<String, ModelSettings>, problems: &mut Problems) {
    let mut names: BTreeMap<String, String> = models.keys().map(|name| (name.clone(), name.clone())).collect();
    for (name, model) in models {
        model.aliases.retain(|alias| {
            let other = names.entry(alias.clone()).or_insert_with(|| name.clone());
            let is_free = other == name && alias != name;
            if !is_free && other != name {
                let key = ["models", name, "aliases"].map(str::to_owned);
                let message = format!("{} is what the model {} is called; ignored", quoted(alias), quoted(other));
                problems.key(&key, message);
            }
            is_free
        });
    }
}

/// Replaces aliases by the models' names in `of` and `rules`, and drops entries that name no model or lead back to the same one.
fn known_models(models: &mut BTreeMap<String, ModelSettings>, problems: &mut Problems) {
    let is_rule = |word: &str| Task::ALL.iter().any(|task| task.word() == word) || Task::OTHER_RULES.contains(&word);
    for (name, model) in models.iter_mut() {
        let lacks = match model.kind.as_str() {
            "reliable" => model.of.is_empty().then_some("of"),
            "router" => model.rules.is_empty().then_some("rules"),
            _ => None,
        };
        if let Some(lacks) = lacks {
            let key = ["models", name, lacks].map(str::to_owned);
            problems.key(&key, "names no model, so this one can't answer".into());
        }
        model.rules.retain(|word, _| {
            if !is_rule(word) {
                let known = Task::ALL.map(Task::word).into_iter().chain(Task::OTHER_RULES);
                let known = known.collect::<Vec<_>>().join(", ");
                let key = ["models", name, "rules"].map(str::to_owned);
                problems.key(&key, format!("there is no task or hint {} ({known}); ignored", quoted(word)));
            }
            is_rule(word)
        });
    }
    let aliases =
        models.iter().flat_map(|(name, model)| model.aliases.iter().map(|alias| (alias.clone(), name.clone())));
    let mut called: BTreeMap<String, String> = aliases.collect();
    called.extend(models.keys().map(|name| (name.clone(), name.clone())));
    for (name, model) in models.iter_mut() {
        let mut known = |key: &str, other: &str| {
            let found = called.get(other).cloned();
            if found.is_none() {
                let key = ["models", name, key].map(str::to_owned);
                problems.key(&key, format!("{} is not one of the models; left out", quoted(other)));
            }
            found
        };
        model.of = model.of.iter().filter_map(|other| known("of", other)).collect();
        let rules = std::mem::take(&mut model.rules).into_iter();
        model.rules = rules.filter_map(|(word, other)| Some((word, known("rules", &other)?))).collect();
    }
    let names: Vec<String> = models.keys().cloned().collect();
    for name in names {
        let leads_back = |other: &String| leads_to(models, other, &name, &mut Vec::new());
        let model = &models[&name];
        let back: Vec<String> =
            model.of.iter().chain(model.rules.values()).filter(|it| leads_back(it)).cloned().collect();
        for other in &back {
            let key = ["models", &name, if model.of.contains(other) { "of" } else { "rules" }].map(str::to_owned);
            problems.key(&key, format!("{} leads back to {}; left out", quoted(other), quoted(&name)));
        }
        if let Some(model) = models.get_mut(&name) {
            model.of.retain(|other| !back.contains(other));
            model.rules.retain(|_, other| !back.contains(other));
        }
    }
}

/// Returns whether a model is the model `to`, or asks it directly or indirectly.
fn leads_to<'a>(models: &'a BTreeMap<String, ModelSettings>, from: &'a str, to: &str, seen: &mut Vec<&'a str>) -> bool {
    if from == to {
        return true;
    }
    if seen.contains(&from) {
        return false;
    }
    seen.push(from);
    let others = models.get(from).into_iter().flat_map(|model| model.of.iter().chain(model.rules.values()));
    others.into_iter().any(|other| leads_to(models, other, to, seen))
}

/// Chooses the model for the start. If the choice isn't obvious, it chooses none, because a question may go to another machine.
fn default_model(
    values: &Values<'_>,
    models: &BTreeMap<String, ModelSettings>,
    problems: &mut Problems,
) -> Option<String> {
    let names = || models.keys().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let key = ["default_model".to_owned()];
    let called = |name: &str| {
        let by_alias = || models.iter().find(|(_, model)| model.aliases.iter().any(|alias| alias == name));
        models.get_key_value(name).or_else(by_alias).map(|(name, _)| name.clone())
    };
    match values.get(&["default_model"]) {
        Some(Setting::Text(name)) if called(name).is_some() => called(name),
        Some(Setting::Text(name)) if models.is_empty() => {
            problems.key(&key, format!("{} is not a model, and there is none; ignored", quoted(name)));
            None
        }
        Some(Setting::Text(name)) => {
            problems.key(&key, format!("{} is not one of the models ({}); ignored", quoted(name), names()));
            None
        }
        _ if models.len() > 1 => {
            problems.key(&key, format!("not given, and there are several models ({}); none is chosen", names()));
            None
        }
        _ => models.keys().next().cloned(),
    }
}

fn security(values: &Values<'_>) -> Result<SecuritySettings, String> {
    Ok(SecuritySettings {
        autonomy: Autonomy::of(&values.text(&["security", "autonomy"])?).unwrap_or_default(),
        workspace_only: values.bool(&["security", "workspace_only"])?,
        forbidden_paths: values.words(&["security", "forbidden_paths"])?,
        forbidden_commands: values.words(&["security", "forbidden_commands"])?,
        programs: values.words(&["security", "programs"])?.iter().filter_map(|rule| rule.parse().ok()).collect(),
        denies_high: values.text(&["security", "high"])? == "deny",
        allow_domains: values.words(&["security", "allow_domains"])?,
        audit_log: values.path(&["security", "audit_log"]),
        sandbox: match values.text(&["security", "sandbox"])?.as_str() {
            "require" => SandboxChoice::Require,
            "off" => SandboxChoice::Off,
            _ => SandboxChoice::Prefer,
        },
        tier: values.text(&["security", "tier"])?,
        mistake: match values.get(&SECURITY_MISTAKE) {
            Some(Setting::Text(mistake)) => mistake.clone(),
            _ => String::new(),
        },
    })
}

fn context(values: &Values<'_>, problems: &mut Problems) -> Result<ContextSettings, String> {
    let key = ["context", "exec_output_tokens"];
    let token_budget = values.size(&["context", "token_budget"])?;
    let mut exec_output_tokens = values.size(&key)?;
    if exec_output_tokens >= token_budget {
        let half = token_budget / 2;
        let key = key.map(str::to_owned);
        // A default that is larger than a small budget is lowered without a message: the user didn't write it.
        if values.user.contains_key(&key[..]) {
            let why = format!("{exec_output_tokens} is not less than token_budget ({token_budget}); using {half}");
            problems.key(&key, why);
        }
        exec_output_tokens = half;
    }
    let compact_at_percent = match values.get(&["context", "compact_at"]) {
        Some(Setting::Number(part)) => (part * 100.0).round() as usize,
        _ => return Err("context.compact_at".into()),
    };
    Ok(ContextSettings {
        max_turns: values.size(&["context", "max_turns"])?,
        token_budget,
        exec_output_tokens,
        compact_at_percent,
        project: values.bool(&["context", "project"])?,
        project_tokens: values.size(&["context", "project_tokens"])?,
        git_ms: values.integer(&["context", "git_ms"])?,
    })
}
