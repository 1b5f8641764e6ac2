//! The settings of servers of tools (Model Context Protocol), as plain data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::proto::served::OAuth;

use super::reading::checked::{KeySource, Setting};
use super::reading::values::Values;

/// Servers of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpSettings {
    /// `true` if servers of tools are used.
    pub enabled: bool,
    /// Moment at which they are started.
    pub start: ServerStart,
    /// Milliseconds that a question waits for servers whose tools aren't known yet.
    pub wait_ms: u64,
    /// Tokens of schemas that are sent at once; the others are found by a search.
    pub tools_tokens: usize,
    /// The settings of `reedclaw mcp serve`.
    pub serve: ServeSettings,
    /// The servers, by name. The map is shared, since settings are copied before the first prompt, and so is each server, since
    /// most of its fields are empty and a map allocates room for more entries than it has.
    pub servers: Arc<BTreeMap<String, Arc<ServerSettings>>>,
}

/// The offer to other agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// `true` if the built-in tools are offered, too.
    pub has_tools: bool,
    /// `true` if the output of the last command of each session and its jobs are offered.
    pub has_outputs: bool,
}

/// Moment at which servers of tools are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStart {
    /// Only when a person starts them.
    Never,
    /// With the first question that can use tools.
    Lazy,
    /// With the first line of a session.
    Eager,
}

/// A server of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The program and its arguments; empty if it is reached by an address.
    pub command: Vec<String>,
    /// The server's address, if it is reached by one.
    pub url: Option<String>,
    /// Headers that are sent to the server.
    pub headers: BTreeMap<String, KeySource>,
    /// The source of the key that is sent to it.
    pub key: Option<KeySource>,
    /// The mode of logins at the server.
    pub oauth: OAuth,
    /// The source of the secret of the user's own registration for logins.
    pub client_secret: Option<KeySource>,
    /// `true` if the server may ask the person something.
    pub may_ask: bool,
    /// `true` if it speaks the transport of 2024-11-05 at its address.
    pub is_sse: bool,
    /// `true` if its resources are used.
    pub has_resources: bool,
    /// `true` if its prompts are used.
    pub has_prompts: bool,
    /// The directory in which its program starts; the workspace if there is none.
    pub cwd: Option<PathBuf>,
    /// Variables that are set for it.
    pub env: BTreeMap<String, KeySource>,
    /// Variables of the user's environment that are passed to it.
    pub pass: Vec<String>,
    /// The server's confinement.
    pub sandbox: ServerSandbox,
    /// `true` if it has the network.
    pub network: bool,
    /// Further paths that it may read.
    pub readable: Vec<PathBuf>,
    /// Further paths that it may write.
    pub writable: Vec<PathBuf>,
    /// The only tools that are offered, if any are named.
    pub only: Option<Vec<String>>,
    /// Tools that aren't offered.
    pub without: Vec<String>,
    /// Tools that are sent even if there are too many for all.
    pub load: Vec<String>,
    /// The hash of everything that the server offers, if that may be used without asking a person.
    pub pin: Option<String>,
    /// `run`, `ask`, or `deny`, by tool.
    pub tools: BTreeMap<String, String>,
    /// The version of the protocol: `auto`, `2025-11-25`, or `2026-07-28`.
    pub era: String,
    /// Milliseconds for its start, between signs of life in a call, for a call in all, and until an idle server is ended.
    pub times_ms: [u64; 4],
}

/// The confinement of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSandbox {
    /// Reads the workspace.
    Read,
    /// Reads and writes the workspace.
    Workspace,
    /// Not confined.
    Off,
}

/// Default times of a server in milliseconds: start, call, call in all, idle.
const TIMES_MS: [(&str, u64); 4] =
    [("start_ms", 30_000), ("call_ms", 60_000), ("call_max_ms", 600_000), ("idle_ms", 600_000)];

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            url: None,
            headers: BTreeMap::new(),
            key: None,
            oauth: OAuth::default(),
            client_secret: None,
            may_ask: true,
            is_sse: false,
            has_resources: true,
            has_prompts: true,
            cwd: None,
            env: BTreeMap::new(),
            pass: Vec::new(),
            sandbox: ServerSandbox::Workspace,
            network: false,
            readable: Vec::new(),
            writable: Vec::new(),
            only: None,
            without: Vec::new(),
            load: Vec::new(),
            pin: None,
            tools: BTreeMap::new(),
            era: "auto".into(),
            times_ms: TIMES_MS.map(|(_, usual)| usual),
        }
    }
}

impl McpSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        let mut rows: BTreeMap<&String, Own<'_>> = BTreeMap::new();
        for (key, value) in values.user {
            if let [mcp, servers, name, rest @ ..] = &key[..]
                && mcp == "mcp"
                && servers == "servers"
            {
                rows.entry(name).or_default().0.push((rest, value));
            }
        }
        rows.retain(|_, own| ["command", "url"].iter().any(|key| own.get(&[key]).is_some()));
        Ok(Self {
            enabled: values.bool(&["mcp", "enabled"])?,
            start: match values.text(&["mcp", "start"])?.as_str() {
                "lazy" => ServerStart::Lazy,
                "eager" => ServerStart::Eager,
                _ => ServerStart::Never,
            },
            wait_ms: values.integer(&["mcp", "wait_ms"])?,
            tools_tokens: values.size(&["mcp", "tools_tokens"])?,
            serve: ServeSettings {
                has_tools: values.text(&["mcp", "serve", "offer"])? == "tools",
                has_outputs: values.bool(&["mcp", "serve", "outputs"])?,
            },
            servers: Arc::new(rows.into_iter().map(|(name, own)| (name.clone(), Arc::new(server(&own)))).collect()),
        })
    }
}

/// The values of one server, each by the rest of its key. They have no defaults, and a lookup among a few values costs less than
/// one among all: many servers must not delay the first prompt.
#[derive(Default)]
struct Own<'v>(Vec<(&'v [String], &'v Setting)>);

impl<'v> Own<'v> {
    fn get(&self, key: &[&str]) -> Option<&'v Setting> {
        self.0.iter().find(|(have, _)| have == &key).map(|(_, value)| *value)
    }
}

fn server(own: &Own<'_>) -> ServerSettings {
    let get = |key: &str| own.get(&[key]);
    let map = |key: &str| match get(key) {
        Some(Setting::WordMap(map)) => map.clone(),
        _ => BTreeMap::new(),
    };
    let sources = |key: &str| match get(key) {
        Some(Setting::Sources(map)) => map.clone(),
        _ => BTreeMap::new(),
    };
    let words = |key: &str| match get(key) {
        Some(Setting::Words(words)) => Some(words.clone()),
        _ => None,
    };
    let paths = |key: &str| words(key).unwrap_or_default().into_iter().map(PathBuf::from).collect();
    let is = |key: &str, word: &str| matches!(get(key), Some(Setting::Text(text)) if text == word);
    let text = |key: &str| match get(key) {
        Some(Setting::Text(text)) => Some(text.clone()),
        _ => None,
    };
    ServerSettings {
        url: text("url"),
        headers: sources("headers"),
        key: source(["key_env", "key_command", "key_file"].map(|key| own.get(&[key]))),
        oauth: oauth(own),
        client_secret: source(
            ["client_secret_env", "client_secret_command", "client_secret_file"].map(|key| own.get(&["oauth", key])),
        ),
        may_ask: get("elicit") != Some(&Setting::Bool(false)),
        is_sse: is("transport", "sse"),
        has_resources: get("resources") != Some(&Setting::Bool(false)),
        has_prompts: get("prompts") != Some(&Setting::Bool(false)),
        cwd: match get("cwd") {
            Some(Setting::Path(path)) => Some(path.clone()),
            _ => None,
        },
        load: words("load").unwrap_or_default(),
        pin: text("pin"),
        command: match get("command") {
            Some(Setting::Argv(argv)) => argv.clone(),
            _ => Vec::new(),
        },
        env: sources("env"),
        pass: words("pass").unwrap_or_default(),
        sandbox: match (is("sandbox", "read"), is("sandbox", "off")) {
            (true, _) => ServerSandbox::Read,
            (_, true) => ServerSandbox::Off,
            _ => ServerSandbox::Workspace,
        },
        network: get("network") == Some(&Setting::Bool(true)),
        readable: paths("readable"),
        writable: paths("writable"),
        only: words("only"),
        without: words("without").unwrap_or_default(),
        tools: map("tools"),
        era: match get("era") {
            Some(Setting::Text(era)) => era.clone(),
            _ => "auto".into(),
        },
        times_ms: TIMES_MS.map(|(key, usual)| match get(key) {
            Some(Setting::Integer(number)) => *number,
            _ => usual,
        }),
    }
}

/// The source of a secret: a variable, a command or a file; the first one that is set counts.
fn source([variable, command, file]: [Option<&Setting>; 3]) -> Option<KeySource> {
    match (variable, command, file) {
        (Some(Setting::Text(name)), ..) => Some(KeySource::Variable(name.clone())),
        (_, Some(Setting::Argv(words)), _) => Some(KeySource::Command(words.clone())),
        (.., Some(Setting::Path(path))) => Some(KeySource::File(path.clone())),
        _ => None,
    }
}

fn oauth(own: &Own<'_>) -> OAuth {
    let get = |key: &str| own.get(&["oauth", key]);
    let text = |key: &str| match get(key) {
        Some(Setting::Text(text)) => Some(text.clone()),
        _ => None,
    };
    OAuth {
        is_on: text("mode").as_deref() != Some("off"),
        client_id: text("client_id"),
        client_id_url: text("client_id_url"),
        scopes: match get("scopes") {
            Some(Setting::Words(words)) => words.clone(),
            _ => Vec::new(),
        },
        port: match get("port") {
            Some(Setting::Integer(port)) => u16::try_from(*port).unwrap_or(0),
            _ => 0,
        },
    }
}
