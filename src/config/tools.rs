//! The settings of a model's tools, as plain data: which tools exist, how far they reach, and how far undo goes.

use std::collections::BTreeMap;

use super::reading::checked::{Setting, Tree};
use super::reading::problem::Problems;
use super::reading::values::Values;
use super::schema;

/// The model's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSettings {
    /// The command that runs after accepted edits.
    pub check: Option<String>,
    /// Time limit for that command, in milliseconds.
    pub check_ms: u64,
    /// `true` if `http` may send data.
    pub http_post: bool,
    /// Ports that `http` may speak to.
    pub http_ports: Vec<u16>,
    /// `true` if `http` may reach this machine and private networks.
    pub http_allow_private: bool,
    /// The service that `web_search` asks: a word.
    pub search: String,
    /// Its address, if it isn't the usual one.
    pub search_url: String,
    /// The word for the set of tools that the model gets.
    pub set: String,
    /// The only tools in the shell; all tools if none are named.
    pub allow_shell: Option<Vec<String>>,
    /// The only tools in `reedclaw agent`; all tools if none are named.
    pub allow_agent: Option<Vec<String>>,
    /// The only tools in `reedclaw acp`; all tools if none are named.
    pub allow_acp: Option<Vec<String>>,
    /// The only tools in `reedclaw mcp serve`; all tools if none are named.
    pub allow_serve: Option<Vec<String>>,
    /// The only tools in `reedclaw gateway`; all tools if none are named.
    pub allow_gateway: Option<Vec<String>>,
    /// The only tools of procedures that a trigger began; all tools if none are named.
    pub allow_service: Option<Vec<String>>,
}

/// The limits of a model's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLimitSettings {
    /// Rounds of tool calls for one question.
    pub tool_rounds: usize,
    /// Rounds of tool calls for a single question without a session.
    pub tool_rounds_once: usize,
    /// Limit on an answer, in bytes.
    pub response_bytes: usize,
    /// Time limit for a tool, in milliseconds.
    pub tool_ms: u64,
    /// Time limit for a command, in milliseconds.
    pub shell_ms: u64,
    /// Time limit for a request, in milliseconds.
    pub http_ms: u64,
    /// Number of times that the same call may have the same result.
    pub repeats: usize,
    /// Limit on the output of a tool that the model sees, in bytes.
    pub output_bytes: usize,
}

impl ToolLimitSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            tool_rounds: values.size(&["limits", "tool_rounds"])?,
            tool_rounds_once: values.size(&["limits", "tool_rounds_once"])?,
            response_bytes: values.size(&["limits", "response_bytes"])?,
            tool_ms: values.integer(&["limits", "tool_ms"])?,
            shell_ms: values.integer(&["limits", "shell_ms"])?,
            http_ms: values.integer(&["limits", "http_ms"])?,
            repeats: values.size(&["limits", "repeats"])?,
            output_bytes: values.size(&["limits", "output_bytes"])?,
        })
    }
}

/// The channels that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Questions in the shell.
    pub shell: bool,
    /// Questions by `reedclaw agent`.
    pub agent: bool,
    /// Questions by `reedclaw acp`.
    pub acp: bool,
    /// Questions by `reedclaw gateway`.
    pub gateway: bool,
}

impl ChannelSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        let is_open = |name: &str| values.bool(&["channels", name, "enabled"]);
        let (shell, agent) = (is_open("shell")?, is_open("agent")?);
        Ok(Self { shell, agent, acp: is_open("acp")?, gateway: is_open("gateway")? })
    }
}

/// The gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// The address that it listens on.
    pub listen: String,
    /// The mode: a word.
    pub mode: String,
    /// The database; empty means the default file.
    pub database: String,
    /// Address of the server for notifications of other gateways; empty means that of the database.
    pub listen_database: String,
    /// Address of a replica of the server, for reads that may lag; empty means none.
    pub read_database: String,
    /// Actions that need a licence, each as `NAME=CLASS`.
    pub dangerous: Vec<String>,
    /// The ways for other machines to reach it.
    pub reach: ReachSettings,
    /// Seconds that a question waits for a person.
    pub question_timeout_s: u64,
    /// Limit on concurrent runs of the agent.
    pub runs_max: u64,
    /// `true` if the workspaces of projects lie on a file system that all machines share.
    pub shares_workspaces: bool,
    /// `true` if a person may not answer a question about a call that they started.
    pub four_eyes: bool,
    /// The external sign-in whose tokens count, beside the gateway's own.
    pub auth: AuthSettings,
    /// The stream to which events are forwarded.
    pub nats: NatsSettings,
    /// The file that gets spans of traces; empty means none.
    pub traces: String,
    /// Limits on clients.
    pub limits: GatewayLimits,
    /// Webhooks, by name.
    pub hooks: BTreeMap<String, WebhookSettings>,
    /// System prompts that questions can name, by name.
    pub personas: BTreeMap<String, String>,
}

/// The ways for other machines to reach the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachSettings {
    /// The address that people open; empty means none.
    pub public_url: String,
    /// The address at which other gateways of the database reach this one; empty means none.
    pub node_url: String,
    /// Further host names under which it may be addressed.
    pub allowed_hosts: Vec<String>,
    /// Further addresses under which the console is opened.
    pub allowed_origins: Vec<String>,
    /// Addresses and networks of proxies.
    pub trusted_proxies: Vec<String>,
    /// `true` if other machines reach it only through a proxy that encrypts.
    pub behind_tls_proxy: bool,
}

/// An external sign-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// The issuer of its tokens.
    pub issuer: String,
    /// The audience of its tokens.
    pub audience: String,
    /// The file with its keys; empty means that its tokens don't count.
    pub jwks: String,
}

/// A NATS stream that gets all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// The address of the server, or `env:NAME`; empty means none.
    pub url: String,
    /// The name of the stream.
    pub stream: String,
}

/// Limits on clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Concurrent connections.
    pub connections: u64,
    /// Requests of a tenant per second.
    pub tenant_requests: u64,
    /// Requests of a user per second.
    pub user_requests: u64,
    /// Concurrent streams of a tenant.
    pub tenant_streams: u64,
    /// Concurrent streams of a user.
    pub user_streams: u64,
    /// Concurrent runs of a user, outside of the mode `lab`.
    pub user_runs: u64,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The variable with its secret.
    pub secret_env: String,
    /// The question that it asks.
    pub question: String,
    /// The tenant in which it asks.
    pub tenant: String,
    /// The tenant's project.
    pub project: String,
    /// The persona that answers; `None` means the default one.
    pub persona: Option<String>,
}

impl GatewaySettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        let named = |table: &'static str, field: &'static str| {
            values.user.keys().filter_map(move |key| match &key[..] {
                [gateway, of, name, last] if gateway == "gateway" && of == table && last == field => Some(name),
                _ => None,
            })
        };
        let persona = |name: &String| {
            let text = values.text(&["gateway", "personas", name, "system_prompt"]).unwrap_or_default();
            (name.clone(), text)
        };
        let hook = |name: &String| {
            let text = |key: &str| values.text(&["gateway", "hooks", name, key]).unwrap_or_default();
            let id =
                |key: &str, usual: &str| Some(text(key)).filter(|id| !id.is_empty()).unwrap_or_else(|| usual.into());
            let (secret_env, question) = (text("secret_env"), text("question"));
            let (tenant, project) = (id("tenant", "local"), id("project", "default"));
            let persona = Some(text("persona")).filter(|name| !name.is_empty());
            (name.clone(), WebhookSettings { secret_env, question, tenant, project, persona })
        };
        Ok(Self {
            hooks: named("hooks", "secret_env").map(hook).collect(),
            personas: named("personas", "system_prompt").map(persona).collect(),
            listen: values.text(&["gateway", "listen"])?,
            mode: values.text(&["gateway", "mode"])?,
            database: values.text(&["gateway", "database"])?,
            listen_database: values.text(&["gateway", "listen_database"])?,
            read_database: values.text(&["gateway", "read_database"])?,
            dangerous: values.words(&["gateway", "dangerous"])?,
            reach: ReachSettings {
                public_url: values.text(&["gateway", "public_url"])?,
                node_url: values.text(&["gateway", "node_url"])?,
                allowed_hosts: values.words(&["gateway", "allowed_hosts"])?,
                allowed_origins: values.words(&["gateway", "allowed_origins"])?,
                trusted_proxies: values.words(&["gateway", "trusted_proxies"])?,
                behind_tls_proxy: values.bool(&["gateway", "behind_tls_proxy"])?,
            },
            question_timeout_s: values.integer(&["gateway", "question_timeout"])?,
            runs_max: values.integer(&["gateway", "runs_max"])?,
            shares_workspaces: values.text(&["gateway", "workspaces"])? == "shared",
            four_eyes: values.bool(&["gateway", "four_eyes"])?,
            auth: AuthSettings {
                issuer: values.text(&["gateway", "auth", "issuer"])?,
                audience: values.text(&["gateway", "auth", "audience"])?,
                jwks: values.text(&["gateway", "auth", "jwks"])?,
            },
            nats: NatsSettings {
                url: values.text(&["gateway", "nats", "url"])?,
                stream: values.text(&["gateway", "nats", "stream"])?,
            },
            traces: values.text(&["gateway", "traces"])?,
            limits: GatewayLimits {
                connections: values.integer(&["gateway", "limits", "connections"])?,
                tenant_requests: values.integer(&["gateway", "limits", "tenant_requests"])?,
                user_requests: values.integer(&["gateway", "limits", "user_requests"])?,
                tenant_streams: values.integer(&["gateway", "limits", "tenant_streams"])?,
                user_streams: values.integer(&["gateway", "limits", "user_streams"])?,
                user_runs: values.integer(&["gateway", "limits", "user_runs"])?,
            },
        })
    }
}

/// The gateway that shares the user's sessions with a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSettings {
    /// Its address; empty means the user's own gateway on this machine.
    pub gateway: String,
    /// The variable with the user's token.
    pub token_env: String,
    /// The mode of the tenant: a word.
    pub mode: String,
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
}

impl ShareSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            gateway: values.text(&["share", "gateway"])?,
            token_env: values.text(&["share", "token_env"])?,
            mode: values.text(&["share", "mode"])?,
            tenant: values.text(&["share", "tenant"])?,
            project: values.text(&["share", "project"])?,
        })
    }
}

/// Sessions on git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// The rule for beginning sessions without `:session start`: a word.
    pub auto: String,
    /// The place of new sessions: a word.
    pub refs: String,
    /// The content of a turn's record: a word.
    pub record: String,
    /// The way in which commands get their files: a word.
    pub bench: String,
    /// Largest number of files in a repository for which the files for commands are written in advance.
    pub prepare: u64,
    /// Ignored directories of the checkout that commands get a copy of.
    pub share: Vec<String>,
    /// Variables that commands have in addition to the usual ones.
    pub env: BTreeMap<String, String>,
    /// `true` if edits of a draft are asked about.
    pub ask_edits: bool,
    /// `true` if the tools of a repository are offered.
    pub tools: bool,
    /// The commits of a merge: a word.
    pub merge: String,
    /// `true` if hooks check the commit of a merge.
    pub hooks: bool,
    /// Milliseconds that a turn waits for the first line of its commit.
    pub message_ms: u64,
    /// The author of turns: a word.
    pub author: String,
    /// `true` if a merge with one commit names the models.
    pub assisted_by: bool,
    /// Number of days for which abandoned tips are stored.
    pub keep_days: u64,
}

impl SessionSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            auto: values.text(&["sessions", "auto"])?,
            refs: values.text(&["sessions", "refs"])?,
            record: values.text(&["sessions", "record"])?,
            bench: values.text(&["sessions", "bench"])?,
            prepare: values.integer(&["sessions", "prepare"])?,
            share: values.words(&["sessions", "share"])?,
            env: match values.get(&["sessions", "env"]) {
                Some(Setting::WordMap(map)) => map.clone(),
                _ => return Err("sessions.env".to_owned()),
            },
            ask_edits: values.bool(&["sessions", "ask_edits"])?,
            tools: values.bool(&["sessions", "tools"])?,
            merge: values.text(&["sessions", "merge"])?,
            hooks: values.bool(&["sessions", "hooks"])?,
            message_ms: values.integer(&["sessions", "message_ms"])?,
            author: values.text(&["sessions", "author"])?,
            assisted_by: values.bool(&["sessions", "assisted_by"])?,
            keep_days: values.integer(&["sessions", "keep_days"])?,
        })
    }
}

/// Runs towards goals.
#[derive(Clone, Debug, PartialEq)]
pub struct NorrisSettings {
    /// The model that plans; if empty, the model that works.
    pub preplanner: String,
    /// The model that works; if empty, the model that answers.
    pub executor: String,
    /// The model that gives a second opinion on risky calls; if empty, none.
    pub reviewer: String,
    /// `true` if the model that works may delegate side work to helpers.
    pub delegate: bool,
    /// Commands that decide whether a goal is reached.
    pub checks: Vec<String>,
    /// Patterns of paths that may be changed.
    pub writes: Vec<String>,
    /// Command lines that may run.
    pub commands: Vec<String>,
    /// Patterns of paths that never change without a question.
    pub protect: Vec<String>,
    /// Budget in dollars.
    pub usd: f64,
    /// Budget in tokens.
    pub tokens: u64,
    /// Budget in minutes of work.
    pub minutes: f64,
    /// Limit on questions to models.
    pub steps: u64,
    /// Limit on tool calls.
    pub calls: u64,
    /// Limit on the attempts of a task before a new plan.
    pub attempts: u64,
    /// Limit on new plans.
    pub replans: u64,
    /// Limit on attempts without progress before a new plan.
    pub stall: u64,
    /// A program that is notified of a run's end, with its arguments.
    pub notify: Vec<String>,
    /// A problem of the config that makes unclear what a run may change; empty if there is none.
    pub mistake: String,
}

/// The key under which a problem with the grant is stored among the values; no row has it, so no file can set it.
const GRANT_MISTAKE: [&str; 2] = ["norris", "mistake"];
/// The key for a problem with the rights of models.
pub(super) const SECURITY_MISTAKE: [&str; 2] = ["security", "mistake"];

/// Stores a problem with the grant of runs or the paths that they protect, and a problem with the rights of models, among the
/// values: ignoring such a problem would widen those rights.
pub(super) fn mark_mistake(tree: &mut Tree, problems: &Problems) {
    let of_security = |key: &str| key == "security" || key.starts_with("security.");
    let security = problems.all().iter().find(|it| it.key.is_empty()).map(ToString::to_string);
    let security = security.or_else(|| mistake_about(problems, &of_security));
    for (key, problem) in [(GRANT_MISTAKE, grant_mistake(problems)), (SECURITY_MISTAKE, security)] {
        if let Some(problem) = problem {
            tree.insert(key.map(str::to_owned).to_vec(), Setting::Text(problem));
        }
    }
}

/// The first problem that makes unclear what a run may change.
pub(super) fn grant_mistake(problems: &Problems) -> Option<String> {
    // An unknown key may be a misspelt one, and so may its table.
    let is_known =
        |key: &str| schema::ROWS.iter().any(|row| row.path == key || row.path.starts_with(&format!("{key}.")));
    let is_of_grant = |key: &str| {
        key == "norris"
            || key.starts_with("norris.grant")
            || key == "norris.protect"
            || key.starts_with("norris.") && !is_known(key)
    };
    mistake_about(problems, &is_of_grant)
}

/// The first problem with keys of a kind, or with a key that was probably meant as one.
fn mistake_about(problems: &Problems, is_of_kind: &dyn Fn(&str) -> bool) -> Option<String> {
    let is_meant = |key: &str| {
        let key = [key.to_owned()];
        schema::place(&key).is_unknown() && schema::suggest(&key).is_some_and(|meant| is_of_kind(&meant))
    };
    let is_about = |key: &str| is_of_kind(key) || is_meant(key);
    let problem = problems.all().iter().find(|problem| !problem.is_warning && is_about(&problem.key));
    problem.map(ToString::to_string)
}

impl NorrisSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            preplanner: values.text(&["norris", "preplanner"])?,
            executor: values.text(&["norris", "executor"])?,
            reviewer: values.text(&["norris", "reviewer"])?,
            delegate: values.bool(&["norris", "delegate"])?,
            checks: values.words(&["norris", "checks"])?,
            writes: values.words(&["norris", "grant", "writes"])?,
            commands: values.words(&["norris", "grant", "commands"])?,
            protect: values.words(&["norris", "protect"])?,
            usd: values.number(&["norris", "budget", "usd"])?,
            tokens: values.integer(&["norris", "budget", "tokens"])?,
            minutes: values.number(&["norris", "budget", "minutes"])?,
            steps: values.integer(&["norris", "budget", "steps"])?,
            calls: values.integer(&["norris", "budget", "calls"])?,
            attempts: values.integer(&["norris", "attempts"])?,
            replans: values.integer(&["norris", "replans"])?,
            stall: values.integer(&["norris", "stall"])?,
            notify: values.words(&["norris", "notify"])?,
            mistake: match values.get(&GRANT_MISTAKE) {
                Some(Setting::Text(problem)) => problem.clone(),
                _ => String::new(),
            },
        })
    }
}

/// Procedures.
#[derive(Clone, Debug, PartialEq)]
pub struct SopSettings {
    /// Directories with procedures in addition to the usual ones; `~` is the home.
    pub dirs: Vec<String>,
    /// Budget of a run in dollars.
    pub usd: f64,
    /// Budget of a run in tokens, read and written.
    pub tokens: u64,
    /// Budget of a run in minutes of work.
    pub minutes: f64,
    /// Number of finished runs of a procedure that are stored.
    pub keep_runs: usize,
}

impl SopSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            dirs: values.words(&["sop", "dirs"])?,
            usd: values.number(&["sop", "budget", "usd"])?,
            tokens: values.integer(&["sop", "budget", "tokens"])?,
            minutes: values.number(&["sop", "budget", "minutes"])?,
            keep_runs: values.size(&["sop", "keep_runs"])?,
        })
    }
}

/// The service that runs procedures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `true` if times, files and webhooks begin runs.
    pub triggers: bool,
    /// Limit on concurrent runs.
    pub parallel: usize,
    /// The minutes of the day between which no run begins by the clock.
    pub quiet: Option<(u16, u16)>,
    /// A program that is notified of a run's end, with its arguments.
    pub notify: Vec<String>,
}

impl ServiceSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            triggers: values.bool(&["service", "triggers"])?,
            parallel: usize::try_from(values.integer(&["service", "parallel"])?).unwrap_or(1),
            quiet: quiet_minutes(&values.text(&["service", "quiet"])?),
            notify: values.words(&["service", "notify"])?,
        })
    }

    /// Returns whether a minute of the day, counted from midnight, is a quiet one.
    #[must_use]
    pub fn is_quiet_at(&self, minute: u16) -> bool {
        match self.quiet {
            Some((from, to)) if from <= to => (from..to).contains(&minute),
            Some((from, to)) => minute >= from || minute < to,
            None => false,
        }
    }
}

/// Reads `HH:MM-HH:MM`.
pub(super) fn quiet_minutes(text: &str) -> Option<(u16, u16)> {
    let minute = |time: &str| {
        let (hour, minute) = time.trim().split_once(':')?;
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let (from, to) = text.split_once('-')?;
    Some((minute(from)?, minute(to)?)).filter(|(from, to)| from != to)
}

/// The limits of undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoSettings {
    /// `true` if contents are stored for undo.
    pub enabled: bool,
    /// Limit for a workspace, in bytes.
    pub bytes_max: u64,
    /// Largest file, in bytes.
    pub file_bytes_max: u64,
    /// Limit on the files and folders of a workspace.
    pub files_max: usize,
}

impl UndoSettings {
    pub(super) fn of(values: &Values<'_>) -> Result<Self, String> {
        Ok(Self {
            enabled: values.bool(&["undo", "enabled"])?,
            bytes_max: values.integer(&["undo", "bytes_max"])?,
            file_bytes_max: values.integer(&["undo", "file_bytes_max"])?,
            files_max: values.size(&["undo", "files_max"])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_times_may_go_over_midnight() {
        let settings = |text: &str| ServiceSettings {
            triggers: true,
            parallel: 1,
            quiet: quiet_minutes(text),
            notify: Vec::new(),
        };
        for (text, at, is_quiet) in [
            ("22:00-06:00", 22 * 60, true),
            ("22:00-06:00", 5 * 60 + 59, true),
            ("22:00-06:00", 6 * 60, false),
            ("12:30-13:00", 12 * 60 + 45, true),
            ("12:30-13:00", 13 * 60, false),
            ("", 0, false),
        ] {
            assert_eq!(settings(text).is_quiet_at(at), is_quiet, "{text} at {at}");
        }
        for text in ["25:00-06:00", "6-7", "06:00", "06:00-06:00", "06:60-07:00"] {
            assert_eq!(quiet_minutes(text), None, "{text}");
        }
    }
}
