//! The table of settings: one row per key drives parsing, the wording of problems and the reference. It contains no default
//! values (`config/default.lua` does) and knows nothing of Lua.

mod keys;
mod kind;
mod rights;

use Project::{Adds, Drops, Less, May, NewLocal, Not, Only, Stricter, StricterEach};

use crate::proto::action::Autonomy;
pub(super) use keys::{Place, place, strictest, strictest_in, suggest};
pub use kind::Kind;
pub use rights::Project;

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The key, from the top, joined by dots; `NAME` means any name.
    pub path: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// Its purpose, in one line.
    pub doc: &'static str,
    /// The rights of a project's file over the setting.
    pub project: Project,
}

const SECOND_MS: u64 = 1000;
const MINUTES_10_MS: u64 = 600 * SECOND_MS;
const HOUR_MS: u64 = 3600 * SECOND_MS;
const MIB: u64 = 1024 * 1024;
/// Copies of output are held in memory, a few at a time; a larger copy is of no use for a question.
const CAPTURE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// More than any model's context, and too little to overflow a sum.
const TOKENS_MAX: u64 = 10_000_000;
/// Limit on rounds of tools for one question; a model that needs more has lost its way.
const ROUNDS_MAX: u64 = 1000;

/// Kinds of models at a server, each with its default address.
const SERVER_KINDS: &[(&str, Option<&str>)] = &[
    ("openai-responses", Some("https://api.openai.com/v1")),
    ("anthropic", Some("https://api.anthropic.com")),
    ("gemini", Some("https://generativelanguage.googleapis.com")),
];
/// The treatment of high risk by `supervised`, from the strictest.
const HIGH: &[&str] = &["deny", "ask"];
/// Cases in which the prompt names user and host.
const WHO: &[&str] = &["auto", "always", "never"];
const NOTIFY: &[&str] = &["auto", "bell", "off"];
const DAY_S: u64 = 24 * 3600;
const SANDBOX: &[&str] = &["require", "prefer", "off"];
/// Sandboxes, the strongest first.
const TIERS: &[&str] = &["overlay", "bubblewrap", "landlock"];
/// Every kind of model; the first is the default.
const KINDS: &[&str] = &["openai-compatible", "openai-responses", "anthropic", "gemini", "mock", "reliable", "router"];

/// The key that a model of this kind requires.
pub(super) fn needed_key(kind: &str) -> Option<&'static str> {
    match kind {
        "mock" => Some("script"),
        "reliable" => Some("of"),
        "router" => Some("rules"),
        _ => usual_endpoint(kind).is_none().then_some("endpoint"),
    }
}

/// The address of the one provider that has this kind of model.
pub(super) fn usual_endpoint(kind: &str) -> Option<&'static str> {
    SERVER_KINDS.iter().find(|(name, _)| *name == kind).and_then(|(_, endpoint)| *endpoint)
}

/// Efforts of thinking, in words.
const EFFORTS: &[&str] = &["off", "low", "medium", "high"];
/// More than anyone needs, and too little to overflow a sum.
const BUDGET_TOKENS_MAX: u64 = 1_000_000_000_000;
/// More than anyone spends on questions.
const DOLLARS_MAX: f64 = 1_000_000.0;

/// Moments at which servers of tools are started, from the strictest.
const MCP_START: &[&str] = &["never", "lazy", "eager"];
/// The access of a server of tools to the workspace, from the strictest.
const MCP_SANDBOX: &[&str] = &["read", "workspace", "off"];
/// Rules for a tool of a server, from the strictest.
const MCP_RULES: &[&str] = &["deny", "ask", "run"];
/// The choices for logins at servers of tools.
const MCP_OAUTH: &[&str] = &["off", "auto"];
/// Versions of the protocol that servers of tools speak.
const MCP_ERAS: &[&str] = &["auto", "2025-11-25", "2026-07-28"];
/// Transports of servers that are reached by an address.
const MCP_TRANSPORTS: &[&str] = &["http", "sse"];
/// The offers to other agents, the least first.
const OFFERS: &[&str] = &["observe", "tools"];
/// The refusal for a project that sets up a server of tools.
const SERVER: Project = Not("say which servers are started");
/// The refusal for a project that shows other agents more.
const SERVE: Project = Not("say what other agents are offered");

/// Every setting, in the order of `config/default.lua`.
pub const ROWS: &[Row] = &[
    row("default_model", Kind::Text { empty: false }, "the model that answers at the start", May),
    row(
        "models.NAME.kind",
        Kind::Choice(KINDS),
        "what the server speaks, or how this model asks others",
        Not("say how a model is asked"),
    ),
    row("models.NAME.endpoint", Kind::Address, "address of the server", NewLocal),
    row("models.NAME.model", Kind::Text { empty: false }, "what the server calls the model; NAME if not given", May),
    row("models.NAME.temperature", Kind::Number(0.0, 2.0), "temperature: how freely the model words its answers", May),
    row(
        "models.NAME.context_tokens",
        Kind::Integer(256, TOKENS_MAX),
        "size of the context window: request and answer together",
        May,
    ),
    row("models.NAME.images", Kind::Bool, "the model takes pictures", May),
    row(
        "models.NAME.no_training",
        Kind::Bool,
        "the provider doesn't train on what it gets: tenants of the gateway may ask for that",
        Not("say what a provider has promised"),
    ),
    row("models.NAME.max_output_tokens", Kind::Integer(1, TOKENS_MAX), "maximum tokens of an answer", May),
    row(
        "models.NAME.thinking",
        Kind::ChoiceOrInteger(EFFORTS, 1024, TOKENS_MAX),
        "how much the model thinks before it answers: an effort, or a number of tokens",
        May,
    ),
    row(
        "models.NAME.key_env",
        Kind::VariableName,
        "the environment variable that holds the key",
        Not("say which key is sent"),
    ),
    row(
        "models.NAME.key_command",
        Kind::Argv,
        "a program that prints the key, with its arguments",
        Not("run a program for a key"),
    ),
    row(
        "models.NAME.key_file",
        Kind::Path,
        "a file that holds the key and that only you can read",
        Not("say which key is sent"),
    ),
    row(
        "models.NAME.key",
        Kind::Secret,
        "the key itself, with a warning: a config is shown and shared",
        Not("say which key is sent"),
    ),
    row("models.NAME.aliases", Kind::Words, "other names for it, for `:model`", May),
    row("models.NAME.system_prompt", Kind::Text { empty: true }, "instructions for this model", May),
    row("models.NAME.connect_timeout_ms", Kind::Integer(1, MINUTES_10_MS), "wait for the connection", May),
    row("models.NAME.first_byte_timeout_ms", Kind::Integer(1, HOUR_MS), "wait for the answer to start", May),
    row("models.NAME.busy_timeout_ms", Kind::Integer(1, HOUR_MS), "the same, while the server says it is at work", May),
    row("models.NAME.idle_timeout_ms", Kind::Integer(1, HOUR_MS), "longest wait between two pieces of an answer", May),
    row("models.NAME.retries", Kind::Integer(0, 10), "how often a refused request is sent again", May),
    row(
        "models.NAME.of",
        Kind::Words,
        "of `reliable`: the models that are asked in turn",
        Not("say where your questions go"),
    ),
    row(
        "models.NAME.allow_remote",
        Kind::Bool,
        "of `reliable`: a question may fall back to a more remote model",
        Not("send your questions further away"),
    ),
    row(
        "models.NAME.rules",
        Kind::WordMap,
        "of `router`: the model for a task or a hint",
        Not("say where your questions go"),
    ),
    row("models.NAME.script", Kind::Path, "of `mock`: the file with its answers", Not("name a file that is read")),
    row("model_defaults.temperature", Kind::Number(0.0, 2.0), "temperature of models that don't give one", May),
    row("model_defaults.connect_timeout_ms", Kind::Integer(1, MINUTES_10_MS), "wait for the connection", May),
    row("model_defaults.first_byte_timeout_ms", Kind::Integer(1, HOUR_MS), "wait for the answer to start", May),
    row(
        "model_defaults.busy_timeout_ms",
        Kind::Integer(1, HOUR_MS),
        "wait for the answer to start while a server on this machine or your network says that it is at work",
        May,
    ),
    row(
        "model_defaults.idle_timeout_ms",
        Kind::Integer(1, HOUR_MS),
        "longest wait between two pieces of an answer",
        May,
    ),
    row("model_defaults.retries", Kind::Integer(0, 10), "how often a refused request is sent again", May),
    row(
        "prices.NAME.input",
        Kind::Number(0.0, DOLLARS_MAX),
        "dollars for a million input tokens",
        Not("say what a model costs"),
    ),
    row(
        "prices.NAME.cache_read",
        Kind::Number(0.0, DOLLARS_MAX),
        "the same for tokens read from the provider's cache; `input` if not given",
        Not("say what a model costs"),
    ),
    row(
        "prices.NAME.cache_write",
        Kind::Number(0.0, DOLLARS_MAX),
        "the same for tokens written into the cache; `input` if not given",
        Not("say what a model costs"),
    ),
    row(
        "prices.NAME.output",
        Kind::Number(0.0, DOLLARS_MAX),
        "dollars for a million output tokens, thoughts included",
        Not("say what a model costs"),
    ),
    row("budget.per_turn.usd", Kind::Number(0.0, DOLLARS_MAX), "maximum dollars for one question", Less),
    row("budget.per_turn.tokens", Kind::Integer(0, BUDGET_TOKENS_MAX), "maximum tokens for one question", Less),
    row("budget.per_conversation.usd", Kind::Number(0.0, DOLLARS_MAX), "maximum dollars for one conversation", Less),
    row(
        "budget.per_conversation.tokens",
        Kind::Integer(0, BUDGET_TOKENS_MAX),
        "maximum tokens for one conversation",
        Less,
    ),
    row("budget.per_day.usd", Kind::Number(0.0, DOLLARS_MAX), "maximum dollars a day", Less),
    row("budget.per_day.tokens", Kind::Integer(0, BUDGET_TOKENS_MAX), "maximum tokens a day", Less),
    row("budget.warn_at", Kind::Number(0.0, 1.0), "warn at this fraction of a budget", Less),
    row("system_prompt", Kind::Text { empty: true }, "instructions that open each conversation", May),
    row("shell.program", Kind::Path, "the shell that runs commands", Not("choose the shell")),
    row("shell.known_commands", Kind::Words, "first words that are always commands", Adds),
    row("shell.capture_output", Kind::Bool, "keep a copy of each command's output", Only(false)),
    row(
        "shell.capture_head_bytes",
        Kind::Integer(0, CAPTURE_BYTES_MAX),
        "bytes stored from the start of the output",
        Less,
    ),
    row(
        "shell.capture_tail_bytes",
        Kind::Integer(0, CAPTURE_BYTES_MAX),
        "bytes stored from the end of the output",
        Less,
    ),
    row(
        "shell.confirm_cmd",
        Kind::AlwaysTrue("at this stage a model's command always needs a yes"),
        "ask before a model's command runs; only `true` is possible",
        Only(true),
    ),
    row("context.max_turns", Kind::Integer(1, 1000), "maximum turns that a request carries", May),
    row("context.token_budget", Kind::Integer(256, TOKENS_MAX), "maximum tokens of a whole request", May),
    row(
        "context.exec_output_tokens",
        Kind::Integer(0, TOKENS_MAX),
        "maximum tokens of command output before a question",
        May,
    ),
    row(
        "context.compact_at",
        Kind::Number(0.0, 1.0),
        "summarise older turns at this fraction of the window; 0 is never",
        May,
    ),
    row(
        "context.project",
        Kind::Bool,
        "a question asked in a repository carries its card, its files' names, AGENTS.md and git's state",
        Only(false),
    ),
    row(
        "context.project_tokens",
        Kind::Integer(0, TOKENS_MAX),
        "maximum tokens of the card, the file names and AGENTS.md",
        Less,
    ),
    row("context.git_ms", Kind::Integer(0, HOUR_MS), "longest wait of a question for git's state", Less),
    row("memory.auto", Kind::Bool, "remember a conversation of three turns or more when it ends", Only(false)),
    row(
        "memory.tokens",
        Kind::Integer(0, TOKENS_MAX),
        "maximum tokens of memories before a conversation; 0 is none",
        Less,
    ),
    row(
        "manual.help",
        Kind::Bool,
        "without a model: read the --help of installed programs that have no manual page, in the sandbox",
        Only(false),
    ),
    row("history.dir", Kind::Path, "directory of the database", Not("say where the history goes")),
    row(
        "history.entries_max",
        Kind::Integer(0, 100_000_000),
        "maximum number of lines",
        Not("make the history forget"),
    ),
    row("history.ignore_space", Kind::Bool, "leave out lines that start with a space", Only(true)),
    row(
        "receipts.enabled",
        Kind::Bool,
        "write a receipt for each tool call and its outcome",
        Not("say whether receipts are kept"),
    ),
    row("receipts.path", Kind::Path, "the file of receipts", Not("say where receipts go")),
    row("receipts.hmac", Kind::Bool, "seal each receipt with a key that changes", Only(true)),
    row(
        "workspace_dir",
        Kind::Path,
        "the directory that a model works in",
        Not("choose the directory that a model works in"),
    ),
    row(
        "security.autonomy",
        Kind::Choice(Autonomy::WORDS),
        "how much a model may do without asking",
        Stricter(Autonomy::WORDS),
    ),
    row("security.workspace_only", Kind::Bool, "keep file tools inside the workspace", Only(true)),
    row("security.forbidden_paths", Kind::Paths, "paths below which a model reads and writes nothing", Adds),
    row("security.forbidden_commands", Kind::Words, "commands that a model never runs, however they are written", Adds),
    row(
        "security.programs",
        Kind::Programs,
        "rules that make commands stricter: `ask`, `deny`, `network` or `host`",
        Not("change the rules for programs"),
    ),
    row("security.high", Kind::Choice(HIGH), "what `supervised` does with high risk", Stricter(HIGH)),
    row(
        "security.allow_domains",
        Kind::Words,
        "hosts that a model may request with GET; a leading dot includes all subdomains",
        Not("let a model speak to hosts"),
    ),
    row(
        "security.audit_log",
        Kind::Path,
        "a file that gets a line for each decision, beside the receipts",
        Not("say where decisions are written"),
    ),
    row("security.sandbox", Kind::Choice(SANDBOX), "whether commands of a model need a sandbox", Stricter(SANDBOX)),
    row(
        "security.tier",
        Kind::Choice(TIERS),
        "the strongest sandbox to try; with any other than `overlay` you are asked before commands run",
        Not("choose how commands are held"),
    ),
    row("prompt", Kind::Choice(&["default", "shell"]), "ReedClaw's prompt or your shell's own", May),
    row(
        "route.mode",
        Kind::Choice(&["auto", "shell", "ask", "shadow"]),
        "who decides where a line goes: ReedClaw, always the same, or your prefixes",
        Not("say where your lines go"),
    ),
    row("route.verdict", Kind::Choice(&["glyph", "words"]), "how the prompt shows where the line goes", May),
    row(
        "route.learn",
        Kind::Bool,
        "remember, on this machine, which lines you sent the other way",
        Not("say what is learned of your lines"),
    ),
    row("editor.mode", Kind::Choice(&["emacs", "vi"]), "key bindings", May),
    row("editor.highlight", Kind::Bool, "colour the line while it is typed", May),
    row("editor.autosuggest", Kind::Bool, "suggest the rest of the line from the history", May),
    row(
        "editor.kill_word",
        Kind::Choice(&["blank", "word"]),
        "what Ctrl-W deletes: back to a blank, or a word of letters",
        May,
    ),
    row("editor.completion_timeout_ms", Kind::Integer(1, 10_000), "wait for the shell's own completion", May),
    row(
        "editor.abbreviations",
        Kind::WordMap,
        "abbreviations and their expansions",
        Not("put commands into your lines"),
    ),
    row("console.color", Kind::Choice(&["auto", "never"]), "colours where the terminal has them, or never", May),
    row("console.markdown", Kind::Bool, "draw the markdown of answers", May),
    row("console.usage", Kind::Bool, "context and money at the right edge of the prompt", May),
    row(
        "console.who",
        Kind::Choice(WHO),
        "name user and host in ReedClaw's own prompt: over ssh and as root, always, or never",
        Not("hide who and where you are"),
    ),
    row(
        "console.duration_s",
        Kind::Integer(0, DAY_S),
        "ReedClaw's own prompt shows the duration of a command that took longer; 0: never",
        May,
    ),
    row(
        "console.notify",
        Kind::Choice(NOTIFY),
        "announce the end of a command while you look elsewhere: by a notification, by the bell, or not",
        May,
    ),
    row("console.notify_s", Kind::Integer(1, DAY_S), "announce only commands that took longer", May),
    row("console.accessible", Kind::Bool, "for screen readers: no spinner, no colour, words instead", Only(true)),
    row(
        "project.check",
        Kind::Text { empty: true },
        "a command that runs after edits you have accepted; the model gets its result",
        Not("have a command run after edits"),
    ),
    row("project.check_ms", Kind::Integer(1, HOUR_MS), "maximum time of the check", Less),
    row("tools.http_post", Kind::Bool, "the model may send data with `http`: POST beside GET and HEAD", Only(false)),
    row("tools.http_ports", Kind::Ports, "ports that `http` may speak to", Drops),
    row("tools.http_allow_private", Kind::Bool, "`http` may reach this machine and private networks", Only(false)),
    row(
        "tools.search",
        Kind::Choice(&["off", "searxng", "brave", "tavily"]),
        "the service that `web_search` asks; brave and tavily read `BRAVE_API_KEY` and `TAVILY_API_KEY`",
        Not("choose where searches go"),
    ),
    row(
        "tools.search_url",
        Kind::Text { empty: true },
        "the address of that service; SearXNG needs one, the others have theirs",
        Not("choose where searches go"),
    ),
    row(
        "tools.set",
        Kind::Choice(&["auto", "core", "all"]),
        "which tools a model gets: the core for small windows and this machine's models, the core always, or all",
        May,
    ),
    row("channels.shell.enabled", Kind::Bool, "questions to a model in the shell", Only(false)),
    row("channels.agent.enabled", Kind::Bool, "questions to a model by `reedclaw agent`", Only(false)),
    row("channels.acp.enabled", Kind::Bool, "questions to a model by `reedclaw acp`", Only(false)),
    row("channels.gateway.enabled", Kind::Bool, "questions to a model by `reedclaw gateway`", Only(false)),
    row("tools_allow.shell", Kind::Words, "the only tools that a model has in the shell", Drops),
    row("tools_allow.agent", Kind::Words, "the only tools that a model has in `reedclaw agent`", Drops),
    row("tools_allow.acp", Kind::Words, "the only tools that a model has in an editor (`reedclaw acp`)", Drops),
    row("tools_allow.serve", Kind::Words, "the only tools that other agents have (`reedclaw mcp serve`)", Drops),
    row("tools_allow.gateway", Kind::Words, "the only tools of `reedclaw gateway`", Drops),
    row("tools_allow.service", Kind::Words, "the only tools of procedures that a trigger began", Drops),
    row("limits.tool_rounds", Kind::Integer(1, ROUNDS_MAX), "maximum rounds of tool calls for one question", Less),
    row("limits.tool_rounds_once", Kind::Integer(1, ROUNDS_MAX), "the same, for `reedclaw agent -m`", Less),
    row("limits.response_bytes", Kind::Integer(1024, 256 * MIB), "maximum bytes of an answer", Less),
    row("limits.tool_ms", Kind::Integer(1, MINUTES_10_MS), "maximum time of a tool", Less),
    row(
        "limits.shell_ms",
        Kind::Integer(1, HOUR_MS),
        "time after which you are asked about a running command of a model",
        Less,
    ),
    row("limits.http_ms", Kind::Integer(1, MINUTES_10_MS), "maximum time of an `http` request", Less),
    row(
        "limits.repeats",
        Kind::Integer(2, 100),
        "end a question when the same call gave the same result this often",
        Less,
    ),
    row("limits.output_bytes", Kind::Integer(1024, 16 * MIB), "maximum bytes of a tool's output for the model", Less),
    row("mcp.enabled", Kind::Bool, "use servers of tools (Model Context Protocol)", Only(false)),
    row(
        "mcp.start",
        Kind::Choice(MCP_START),
        "start servers with the first line of a session, with the first question that can use tools, or only by `:mcp connect`",
        Stricter(MCP_START),
    ),
    row("mcp.wait_ms", Kind::Integer(0, 60 * SECOND_MS), "how long a question waits for servers not seen before", Less),
    row(
        "mcp.tools_tokens",
        Kind::Integer(0, 100_000),
        "tokens of tool schemas that are sent at once, at most a tenth of the window; further tools are found by `tool_search`",
        Less,
    ),
    row(
        "mcp.serve.offer",
        Kind::Choice(OFFERS),
        "what `reedclaw mcp serve` offers other agents: a look at your sessions, or the built-in tools too",
        SERVE,
    ),
    row(
        "mcp.serve.outputs",
        Kind::Bool,
        "let other agents see the output of the last command of each session, and its jobs",
        SERVE,
    ),
    row("mcp.servers.NAME.command", Kind::Argv, "the server's program and its arguments", SERVER),
    row("mcp.servers.NAME.url", Kind::Address, "the server's address, in place of a program", SERVER),
    row("mcp.servers.NAME.headers", Kind::Sources, "headers of the requests to a server with an address", SERVER),
    row(
        "mcp.servers.NAME.key_env",
        Kind::VariableName,
        "the variable with the key for a server with an address",
        SERVER,
    ),
    row("mcp.servers.NAME.key_command", Kind::Argv, "a program that prints that key, with its arguments", SERVER),
    row("mcp.servers.NAME.key_file", Kind::Path, "a file that holds that key and that only you can read", SERVER),
    row("mcp.servers.NAME.oauth.mode", Kind::Choice(MCP_OAUTH), "whether logins are tried", SERVER),
    row("mcp.servers.NAME.oauth.client_id", Kind::Text { empty: false }, "your own registration for logins", SERVER),
    row(
        "mcp.servers.NAME.oauth.client_secret_env",
        Kind::VariableName,
        "the variable with the secret of that registration",
        SERVER,
    ),
    row(
        "mcp.servers.NAME.oauth.client_secret_command",
        Kind::Argv,
        "a program that prints that secret, with its arguments",
        SERVER,
    ),
    row(
        "mcp.servers.NAME.oauth.client_secret_file",
        Kind::Path,
        "a file that holds that secret and that only you can read",
        SERVER,
    ),
    row(
        "mcp.servers.NAME.oauth.client_id_url",
        Kind::Address,
        "the address of a document that describes the program that logs in",
        SERVER,
    ),
    row(
        "mcp.servers.NAME.oauth.scopes",
        Kind::Words,
        "the permissions to ask for, in place of those that the server names",
        SERVER,
    ),
    row(
        "mcp.servers.NAME.oauth.port",
        Kind::Integer(0, 65_535),
        "the port of this machine to which the browser returns; any free one if it is 0",
        SERVER,
    ),
    row("mcp.servers.NAME.elicit", Kind::Bool, "let it ask you something while one of its tools works", Only(false)),
    row("mcp.servers.NAME.resources", Kind::Bool, "use its resources", Only(false)),
    row("mcp.servers.NAME.prompts", Kind::Bool, "use its prompts", Only(false)),
    row("mcp.servers.NAME.env", Kind::Sources, "variables that are set for it", SERVER),
    row("mcp.servers.NAME.pass", Kind::Words, "variables of yours that it gets, such as the one with its key", SERVER),
    row(
        "mcp.servers.NAME.sandbox",
        Kind::Choice(MCP_SANDBOX),
        "what it may do with the workspace; `off` runs it without a sandbox",
        SERVER,
    ),
    row("mcp.servers.NAME.network", Kind::Bool, "give it the network", Only(false)),
    row("mcp.servers.NAME.cwd", Kind::Path, "the directory in which its program starts", SERVER),
    row("mcp.servers.NAME.readable", Kind::Paths, "further paths that it may read", SERVER),
    row("mcp.servers.NAME.writable", Kind::Paths, "further paths that it may write", SERVER),
    row("mcp.servers.NAME.only", Kind::Words, "the only tools of this server that are offered", Drops),
    row("mcp.servers.NAME.without", Kind::Words, "tools of this server that aren't offered", Adds),
    row(
        "mcp.servers.NAME.load",
        Kind::Words,
        "its tools that are sent even if there are too many for all",
        Project::May,
    ),
    row(
        "mcp.servers.NAME.pin",
        Kind::Text { empty: false },
        "the hash of everything that it offers (`:mcp show NAME`); what has it is allowed without a person",
        SERVER,
    ),
    row(
        "mcp.servers.NAME.tools",
        Kind::Rules(MCP_RULES),
        "a rule for a tool: `run` (unasked while it is the one you allowed), `ask`, `deny`",
        StricterEach(MCP_RULES),
    ),
    row("mcp.servers.NAME.era", Kind::Choice(MCP_ERAS), "the version of the protocol", SERVER),
    row(
        "mcp.servers.NAME.transport",
        Kind::Choice(MCP_TRANSPORTS),
        "how a server with an address is spoken to: streamable HTTP, or the older HTTP with events",
        SERVER,
    ),
    row("mcp.servers.NAME.start_ms", Kind::Integer(1, HOUR_MS), "maximum time of its start", SERVER),
    row("mcp.servers.NAME.call_ms", Kind::Integer(1, HOUR_MS), "wait for an answer or a sign of progress", SERVER),
    row("mcp.servers.NAME.call_max_ms", Kind::Integer(1, HOUR_MS), "maximum time of a whole call", SERVER),
    row("mcp.servers.NAME.idle_ms", Kind::Integer(1, 24 * HOUR_MS), "time without a call after which it ends", SERVER),
    row(
        "sessions.auto",
        Kind::Choice(SESSIONS_BEGIN),
        "a new conversation in a repository begins a session automatically, after a question to you, or never",
        Not("begin sessions for you"),
    ),
    row(
        "sessions.refs",
        Kind::Choice(SESSION_REFS),
        "new sessions are branches, or references that `git branch` doesn't list and `git push --all` doesn't send",
        Project::Stricter(SESSION_REFS),
    ),
    row(
        "sessions.merge",
        Kind::Choice(MERGES),
        "the commits that `:session merge` makes, unless an option says otherwise",
        Project::May,
    ),
    row(
        "sessions.record",
        Kind::Choice(RECORDED),
        "what a turn's commit says: all, or question and answer without the calls of tools",
        Project::Stricter(RECORDED),
    ),
    row(
        "sessions.bench",
        Kind::Choice(BENCHES),
        "commands of sessions share unchanged files, have a copy of their own, or don't run",
        Project::Stricter(BENCHES),
    ),
    row(
        "sessions.prepare",
        Kind::Integer(0, 10_000_000),
        "files of a repository up to which a session's first question has them written out for commands; 0: its first command",
        Less,
    ),
    row(
        "sessions.share",
        Kind::Lines,
        "ignored directories of the checkout, such as `node_modules`, of which a session's commands get a copy",
        Not("show a model files that aren't in git"),
    ),
    row("sessions.env", Kind::WordMap, "more variables for commands, which models can read", Not("set variables")),
    row("sessions.ask_edits", Kind::Bool, "ask about edits of a session's files as about others", Only(true)),
    row("sessions.tools", Kind::Bool, "offer the tools of a repository that you have allowed", Only(false)),
    row("sessions.author", Kind::Choice(AUTHORS), "the author of the commits of a model's turns", Project::May),
    row("sessions.assisted_by", Kind::Bool, "name the models in the message of a merge with one commit", Project::May),
    row(
        "sessions.keep_days",
        Kind::Integer(1, 3_650),
        "days after which `session gc` forgets what a rewind or an abandoned session left",
        Not("say how long your sessions are kept"),
    ),
    row("sessions.hooks", Kind::Bool, "have pre-commit and commit-msg check a session's merge", Only(true)),
    row(
        "sessions.message_ms",
        Kind::Integer(0, 60_000),
        "wait for a commit's first line by the model for summaries; 0 has none made",
        Less,
    ),
    row("gateway.listen", Kind::Text { empty: false }, "address of `reedclaw gateway`", GATEWAY),
    row("gateway.mode", Kind::Choice(TEAM_MODES), "one user, or tenants that don't trust each other", GATEWAY),
    row(
        "gateway.database",
        Kind::Text { empty: true },
        "the database; empty: `gateway.db` in the state directory",
        GATEWAY,
    ),
    row("gateway.listen_database", Kind::Text { empty: true }, "where hints are heard, if not there", GATEWAY),
    row("gateway.read_database", Kind::Text { empty: true }, "a replica for reads that may be behind", GATEWAY),
    row("gateway.dangerous", Kind::Lines, "actions that need a licence, each as `NAME=CLASS`", GATEWAY),
    row("gateway.public_url", Kind::Text { empty: true }, "the https address that people open; empty: none", GATEWAY),
    row("gateway.node_url", Kind::Text { empty: true }, "where other gateways reach this one; empty: nowhere", GATEWAY),
    row("gateway.allowed_hosts", Kind::Lines, "further names by which it may be called", GATEWAY),
    row("gateway.allowed_origins", Kind::Lines, "further addresses under which its console is opened", GATEWAY),
    row("gateway.trusted_proxies", Kind::Lines, "proxies whose word about a client's address counts", GATEWAY),
    row("gateway.behind_tls_proxy", Kind::Bool, "other machines reach it only by a proxy that encrypts", GATEWAY),
    row("gateway.question_timeout", Kind::Integer(1, 3_600), "seconds that a question waits for a person", GATEWAY),
    row("gateway.runs_max", Kind::Integer(1, 64), "runs of the agent at once", GATEWAY),
    row(
        "gateway.workspaces",
        Kind::Choice(TEAM_WORKSPACES),
        "whether each machine has its own workspaces, or all share them",
        GATEWAY,
    ),
    row("gateway.hooks.NAME.secret_env", Kind::VariableName, "the variable with the secret of a webhook", GATEWAY),
    row(
        "gateway.hooks.NAME.question",
        Kind::Text { empty: false },
        "the question that a webhook asks the model",
        GATEWAY,
    ),
    row(
        "gateway.hooks.NAME.tenant",
        Kind::Text { empty: true },
        "the tenant in which it asks; empty: `local`",
        GATEWAY,
    ),
    row("gateway.hooks.NAME.project", Kind::Text { empty: true }, "the project; empty: `default`", GATEWAY),
    row("gateway.hooks.NAME.persona", Kind::Text { empty: true }, "who answers; empty: `default`", GATEWAY),
    row(
        "gateway.personas.NAME.system_prompt",
        Kind::Text { empty: false },
        "the system prompt of a persona that questions over HTTP can name",
        GATEWAY,
    ),
    row("gateway.auth.issuer", Kind::Text { empty: true }, "who makes the tokens of another sign-in", GATEWAY),
    row("gateway.auth.audience", Kind::Text { empty: true }, "whom these tokens are for", GATEWAY),
    row(
        "gateway.auth.jwks",
        Kind::Text { empty: true },
        "the file with the keys of that sign-in; empty: none",
        GATEWAY,
    ),
    row(
        "gateway.nats.url",
        Kind::Text { empty: true },
        "the server of NATS that gets all events; empty: none",
        GATEWAY,
    ),
    row("gateway.nats.stream", Kind::Text { empty: true }, "the stream of that server", GATEWAY),
    row("gateway.traces", Kind::Text { empty: true }, "the file that gets spans of traces; empty: none", GATEWAY),
    row("gateway.limits.connections", Kind::Integer(16, 100_000), "connections at once", GATEWAY),
    row("gateway.limits.tenant_requests", Kind::Integer(1, 1_000_000), "requests of a tenant in a second", GATEWAY),
    row("gateway.limits.user_requests", Kind::Integer(1, 1_000_000), "requests of a user in a second", GATEWAY),
    row("gateway.limits.tenant_streams", Kind::Integer(1, 100_000), "streams of a tenant at once", GATEWAY),
    row("gateway.limits.user_streams", Kind::Integer(1, 100_000), "streams of a user at once", GATEWAY),
    row(
        "gateway.limits.user_runs",
        Kind::Integer(1, 64),
        "runs of a user at once, outside of the mode `lab`; others wait",
        GATEWAY,
    ),
    row("gateway.four_eyes", Kind::Bool, "whoever started a call doesn't answer its question", GATEWAY),
    row("share.gateway", Kind::Text { empty: true }, "the gateway that shares your sessions; empty: your own", SHARE),
    row("share.token_env", Kind::VariableName, "the variable with your token there", SHARE),
    row("share.mode", Kind::Choice(TEAM_MODES), "the mode of your tenant there", SHARE),
    row("share.tenant", Kind::Text { empty: false }, "your tenant there", SHARE),
    row("share.project", Kind::Text { empty: false }, "the project there that your sessions belong to", SHARE),
    row("norris.preplanner", Kind::Text { empty: true }, "the model that plans a run; empty: the one that works", RUN),
    row("norris.executor", Kind::Text { empty: true }, "the model that works; empty: the one that answers", RUN),
    row(
        "norris.reviewer",
        Kind::Text { empty: true },
        "the model that gives a second opinion on a run's risky calls; empty: none",
        RUN,
    ),
    row(
        "norris.delegate",
        Kind::Bool,
        "the model that works may give side work to a helper, which only looks",
        Only(false),
    ),
    row("norris.checks", Kind::Lines, "commands that decide whether a goal is reached", RUN),
    row("norris.grant.writes", Kind::Lines, "paths that a run may change without a question, as patterns", Drops),
    row("norris.grant.commands", Kind::Lines, "command lines that a run may use without a question, exactly", Drops),
    row("norris.protect", Kind::Lines, "paths that no run changes without a question, as patterns", Adds),
    row("norris.budget.usd", Kind::Number(0.0, DOLLARS_MAX), "maximum dollars for a run", Less),
    row("norris.budget.tokens", Kind::Integer(0, BUDGET_TOKENS_MAX), "maximum tokens of a run", Less),
    row("norris.budget.minutes", Kind::Number(0.0, 100_000.0), "maximum minutes of a run's work", Less),
    row("norris.budget.steps", Kind::Integer(0, 100_000), "maximum questions to models in a run", Less),
    row("norris.budget.calls", Kind::Integer(0, 100_000), "maximum calls of tools in a run", Less),
    row("norris.attempts", Kind::Integer(1, 20), "attempts of a task before a new plan", Less),
    row("norris.replans", Kind::Integer(0, 20), "new plans before a run is stuck", Less),
    row("norris.stall", Kind::Integer(1, 20), "attempts without progress before a new plan", Less),
    row("norris.notify", Kind::Program, "a program that hears when a run ends or waits for you", SERVICE),
    row("sop.dirs", Kind::Paths, "directories with procedures, beside the usual ones", SERVICE),
    row("sop.budget.usd", Kind::Number(0.0, DOLLARS_MAX), "maximum dollars for a procedure's run", Less),
    row("sop.budget.tokens", Kind::Integer(0, BUDGET_TOKENS_MAX), "maximum tokens of a procedure's run", Less),
    row("sop.budget.minutes", Kind::Number(0.0, 100_000.0), "maximum minutes of a procedure's work", Less),
    row("sop.keep_runs", Kind::Integer(1, 100_000), "finished runs of a procedure that are stored", SERVICE),
    row("service.triggers", Kind::Bool, "times, files and webhooks begin runs of procedures", Only(false)),
    row("service.parallel", Kind::Integer(1, 16), "runs of procedures at once", SERVICE),
    row("service.quiet", Kind::Times, "local times in which no run begins by the clock", SERVICE),
    row("service.notify", Kind::Program, "a program that hears when a procedure's run ends or waits for you", SERVICE),
    row("undo.enabled", Kind::Bool, "record changes by a model's commands and edits, for `:undo`", Only(true)),
    row("undo.bytes_max", Kind::Integer(MIB, 1024 * 1024 * MIB), "maximum bytes stored for a workspace", UNDO),
    row("undo.file_bytes_max", Kind::Integer(1024, 256 * MIB), "the largest file that is stored", UNDO),
    row(
        "undo.files_max",
        Kind::Integer(1, 10_000_000),
        "maximum number of files and folders of a covered workspace",
        UNDO,
    ),
];

/// The choices for beginning a session without `:session start`.
const SESSIONS_BEGIN: &[&str] = &["never", "ask", "always"];
const SESSION_REFS: &[&str] = &["hidden", "branches"];
const RECORDED: &[&str] = &["talk", "full"];
const BENCHES: &[&str] = &["off", "copy", "shared"];
const MERGES: &[&str] = &["squash", "merge", "rebase"];
/// The modes of the gateway.
const TEAM_MODES: &[&str] = &["lab", "saas", "enterprise"];
/// The places of its workspaces.
const TEAM_WORKSPACES: &[&str] = &["node", "shared"];
const AUTHORS: &[&str] = &["user", "model"];
/// The refusal for a project that sets something of the gateway.
const GATEWAY: Project = Not("say who reaches this machine, or who answers");
/// The refusal for a project that sets something about shared sessions.
const SHARE: Project = Not("say where your sessions are shown");
/// The refusal for a project that sets the models or checks of a run.
const RUN: Project = Not("choose a run's models or checks");
/// The refusal for a project that configures the service, or a program that is notified of runs.
const SERVICE: Project = Not("say how the service works, or which program hears of runs");
/// The refusal for a project that sets the reach of undo.
const UNDO: Project = Not("say how much can be undone");

const fn row(path: &'static str, kind: Kind, doc: &'static str, project: Project) -> Row {
    Row { path, kind, doc, project }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_distinct_and_none_is_the_parent_of_another() {
        for (i, a) in ROWS.iter().enumerate() {
            for b in &ROWS[i + 1..] {
                assert_ne!(a.path, b.path);
                assert!(!b.path.starts_with(&format!("{}.", a.path)), "{} {}", a.path, b.path);
            }
            assert!(!a.doc.is_empty() && !a.doc.contains('\n'));
        }
    }
}
