//! The composition root: settings become each room's options, and rooms are started. It starts degraded where a room
//! fails, with a problem to tell.

mod record;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::agent::{self, Agent};
use crate::config::{self, ColorChoice, Env, Settings};
use crate::host;
use crate::model::{Endpoint, Secret};
use crate::proto::{Failure, FailureKind};
use crate::shell::spawn::{Dialect, Start};
use crate::{shell, store};

pub use record::StoreRecorder;

/// What a session is made of.
pub struct App {
    /// The effective settings.
    pub settings: Settings,
    /// The environment at the start.
    pub env: Env,
    /// What was wrong on the way, to be told before the first prompt.
    pub problems: Vec<Failure>,
    /// History and conversations.
    pub store: Arc<Mutex<store::Store>>,
    /// Answers questions.
    pub agent: Agent,
}

/// What the command line says about an interactive session.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `--config PATH`.
    pub config: Option<PathBuf>,
}

impl App {
    /// Loads the settings and starts the rooms that need no terminal.
    ///
    /// # Errors
    /// The config that `--config` names can't be read, or the system has no memory for a database in memory.
    pub fn start(request: &Request) -> Result<Self, Failure> {
        let env = host::environment();
        let load = config::LoadRequest { explicit: request.config.clone(), env, cwd: host::working_directory() };
        let loaded = config::load(&load)?;
        let env = load.env;
        let mut problems: Vec<Failure> = loaded
            .problems
            .iter()
            .map(|problem| Failure { kind: FailureKind::Config, message: problem.to_string(), hint: String::new() })
            .collect();
        let settings = loaded.settings;
        let store = open_store(&settings, &mut problems)?;
        let recorder = StoreRecorder::new(Arc::clone(&store), settings.default_model.clone().unwrap_or_default());
        let agent = Agent::new(agent_options(&settings, &env), Box::new(recorder));
        Ok(Self { settings, env, problems, store, agent })
    }

    /// The options of the shell's session.
    #[must_use]
    pub fn shell_options(&self, start: Start, dialect: Dialect) -> shell::Options {
        let captured = self.settings.shell.capture_output;
        shell::Options {
            start,
            dialect,
            capture_head_bytes: if captured { self.settings.shell.capture_head_bytes } else { 0 },
            capture_tail_bytes: if captured { self.settings.shell.capture_tail_bytes } else { 0 },
            shell_prompt: self.settings.prompt == config::PromptStyle::Shell,
            unicode: self.unicode(),
        }
    }

    /// The value of an environment variable, where it is text and not empty.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    /// Whether the locale's characters are UTF-8.
    #[must_use]
    pub fn unicode(&self) -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| self.variable(name)).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    }

    /// Whether colours are used.
    #[must_use]
    pub fn color(&self) -> bool {
        self.settings.console.color == ColorChoice::Auto && self.variable("NO_COLOR").is_none()
    }
}

fn open_store(settings: &Settings, problems: &mut Vec<Failure>) -> Result<Arc<Mutex<store::Store>>, Failure> {
    let opened = match &settings.history.dir {
        Some(dir) => store::Store::open(dir),
        None => {
            problems.push(Failure {
                kind: FailureKind::Unavailable,
                message: "no HOME is set: history and conversations stay in memory".into(),
                hint: "set history.dir in the config to keep them".into(),
            });
            store::Store::in_memory()
        }
    };
    let store = opened.or_else(|problem| {
        problems.push(problem.into());
        store::Store::in_memory()
    });
    Ok(Arc::new(Mutex::new(store?)))
}

fn agent_options(settings: &Settings, env: &Env) -> agent::Options {
    let models = settings.models.iter().map(|(name, model)| {
        let key = model.key_env.as_ref().and_then(|variable| env.get(std::ffi::OsStr::new(variable)));
        Endpoint {
            temperature: model.temperature,
            key: key.and_then(|key| key.to_str()).filter(|key| !key.is_empty()).map(Secret::new),
            key_env: model.key_env.clone(),
            connect_timeout: Duration::from_millis(model.connect_timeout_ms),
            first_byte_timeout: Duration::from_millis(model.first_byte_timeout_ms),
            idle_timeout: Duration::from_millis(model.idle_timeout_ms),
            ..Endpoint::new(name, &model.endpoint, &model.model)
        }
    });
    let system_prompts = settings.models.iter().map(|(name, model)| (name.clone(), model.system_prompt.clone()));
    agent::Options {
        models: models.collect(),
        default_model: settings.default_model.clone(),
        system_prompts: system_prompts.collect(),
        conversation: agent::ConversationOptions {
            system_prompt: settings.system_prompt.clone(),
            max_turns: settings.context.max_turns,
            token_budget: settings.context.token_budget,
            exec_output_tokens: settings.context.exec_output_tokens,
        },
    }
}
