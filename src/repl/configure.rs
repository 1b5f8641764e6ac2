//! The config of a running session: what holds now, read again or with a project's file over it, and `:config`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::editor::{self, Shape};
use super::hooks::SharedHooks;
use super::project::ProjectState;
use super::prompt::ReedPrompt;
use super::run::{Flow, Repl};
use super::state::SharedState;
use crate::app::{self, config_problems};
use crate::config::{self, Effective, Env, KeyDoes, KeyName, Loaded, PromptStyle};
use crate::console::Options;
use crate::host;
use crate::ops::commands;
use crate::proto::{Failure, FailureKind, HumanLine};

/// Time that the shell may take to draw its prompt where it is asked for it.
const PROMPT_WAIT: Duration = Duration::from_secs(1);

/// Facts about the config beside the effective settings.
pub(super) struct Configured {
    /// The effective layers, with a project's file on top.
    pub(super) effective: config::Layers,
    /// The keys and the meta commands of hooks that the editor knows.
    bound: Bound,
    /// Time when the config was changed last, as far as it has been read.
    stamp: Option<SystemTime>,
    /// The project's file, if there is one.
    pub(super) project: ProjectState,
}

/// Keys and meta commands of hooks.
type Bound = (Vec<(KeyName, KeyDoes)>, Vec<(String, String)>);

impl Configured {
    /// Takes what the start has read.
    pub(super) fn new(parts: &mut app::ConfigParts, hooks: &SharedHooks) -> Self {
        hooks.set_own(std::mem::take(&mut parts.hooks));
        let bound = (hooks.keys(), hooks.metas());
        let stamp = parts.path.as_deref().and_then(stamp);
        Self { effective: parts.layers.clone(), bound, stamp, project: ProjectState::new(&parts.request.env) }
    }
}

/// Says what is wrong with a config, or with what it asks for.
pub(super) fn config_failure(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::Config, message, hint: hint.to_owned() }
}

/// Returns the program that opens a file for the person, perhaps with arguments.
#[must_use]
pub fn editor_program(env: &Env) -> String {
    let variable = |name: &str| {
        let value = env.get(std::ffi::OsStr::new(name)).and_then(|value| value.to_str());
        value.filter(|value| !value.trim().is_empty()).map(str::to_owned)
    };
    variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| "vi".into())
}

/// Time when a file was changed last; nothing where there is none.
fn stamp(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}

impl Repl {
    /// Lets other settings hold: those of the config, or with a project's file over it.
    pub(super) fn apply(&mut self, effective: Effective) {
        let Effective { settings, hooks, layers, .. } = effective;
        self.hooks.set_project(hooks);
        self.configured.effective = layers;
        let (old, other_models) = self.runtime.replace_settings(settings);
        self.terminal.options = super::terminal::Options::of(self.runtime.settings());
        {
            let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            let known = self.runtime.settings().shell.known_commands.iter().cloned().collect();
            if state.names.known != known {
                let names = crate::proto::Names { known, ..crate::proto::Names::clone(&state.names) };
                state.names = names.into();
            }
            state.route_hook = self.hooks.route_hook();
            // What `:mode` said holds on, unless the config says something else than before.
            if old.route.mode != self.runtime.settings().route.mode {
                state.mode = self.runtime.settings().route.mode;
            }
        }
        self.heading.set_words(self.runtime.settings().route.words);
        if old.console != self.runtime.settings().console {
            let color = app::color(self.runtime.settings(), self.runtime.env());
            let config::ConsoleSettings { markdown, accessible, .. } = self.runtime.settings().console;
            self.console = self.console.with(Options { color, markdown, accessible, ..self.console.options() });
            self.terminal.console = self.console.clone();
        }
        let wants_shell_prompt = self.runtime.settings().prompt == PromptStyle::Shell;
        self.terminal.session.want(app::wanted(self.runtime.settings()));
        match &self.terminal.shell_prompt {
            Some(_) if !wants_shell_prompt => self.terminal.shell_prompt = None,
            // It drew it for us only at the prompts where it was wanted.
            None if wants_shell_prompt => self.terminal.session.handle().draw_prompt(PROMPT_WAIT),
            _ => {}
        }
        let bound = (self.hooks.keys(), self.hooks.metas());
        let other_hooks = bound != self.configured.bound;
        self.configured.bound = bound;
        if other_hooks
            || other_models
            || old.editor != self.runtime.settings().editor
            || old.console != self.runtime.settings().console
        {
            self.remake_editor();
        }
        if other_hooks {
            self.tell_taken_metas();
        }
    }

    /// Makes the editor anew, with the line that stands in it.
    fn remake_editor(&mut self) {
        let line = self.terminal.editor.current_buffer_contents().to_owned();
        let shape = Shape {
            settings: self.runtime.settings(),
            env: self.runtime.env(),
            color: self.console.options().color,
            unicode: self.console.options().unicode,
            agent: self.runtime.agent(),
            hooks: &self.hooks,
        };
        let state = SharedState::clone(&self.state);
        self.terminal.editor = editor::make(
            &shape,
            &state,
            &self.heading,
            &self.terminal.session.handle(),
            self.terminal.history.writer(),
            &self.terminal.links,
        );
        self.insert_text(&line);
    }

    /// Tells what is particular about the config at the start.
    pub(super) fn tell_config(&self) {
        self.tell_taken_metas();
    }

    /// Meta commands of ReedClaw's own can't be taken.
    fn tell_taken_metas(&self) {
        for (name, _) in self.hooks.metas() {
            if let Some(taken) = commands::name_problem(&name) {
                self.console.failure(&config_failure(format!("meta.{name}: {taken}"), "give it another name"));
            }
        }
    }

    /// Carries out `:config`.
    pub(super) fn config(&mut self, argument: &str) -> Flow {
        match argument {
            "" | "show" => self.show_config(),
            "reload" => return self.reload_config(),
            "edit" => return self.edit_config(),
            "trust" => return self.trust_project(),
            "untrust" => self.untrust_project(),
            "path" => self.show_path(),
            other => {
                let message = format!(":config {} is nothing", crate::render::sanitise(other));
                self.console.failure(&Failure {
                    kind: FailureKind::User,
                    message,
                    hint: ":config show, reload, edit, path, trust or untrust".into(),
                });
            }
        }
        Flow::Continue
    }

    fn show_config(&self) {
        let lines = self.configured.effective.lines(true);
        let text: String = lines.iter().map(|line| format!("{}\n", crate::render::sanitise(line))).collect();
        self.console.write(&text);
        self.console.notice(&self.configured.project.summary());
    }

    fn show_path(&self) {
        let env = self.runtime.env();
        match self.runtime.config().path.clone().or_else(|| config::own_path(env)) {
            Some(path) if self.runtime.config().path.is_some() => {
                self.console.outside(&format!("{}\n", path.display()))
            }
            Some(path) => {
                self.console.outside(&format!("{}\n", path.display()));
                self.console.notice("it isn't there; using defaults");
            }
            None => self.console.notice("no HOME is set, so a config has no place"),
        }
    }

    /// Reads the config again; hooks that were off are on again.
    pub(super) fn reload_config(&mut self) -> Flow {
        let loaded = match config::reload(&self.runtime.config().request) {
            Ok(loaded) => loaded,
            Err(error) => {
                self.console.failure(&error.into());
                self.console.notice("the previous settings stay");
                return Flow::Continue;
            }
        };
        let Loaded { problems, path, hooks, layers, is_read, .. } = loaded;
        self.configured.stamp = path.as_deref().and_then(stamp);
        config_problems(&problems).iter().for_each(|problem| self.console.failure(problem));
        if !is_read {
            return Flow::Continue;
        }
        let before = self.runtime.settings().clone();
        let effective = Effective::plain(&layers);
        self.hooks.set_own(hooks);
        let config = self.runtime.config_mut();
        (config.layers, config.path) = (layers, path);
        self.apply(effective);
        self.console.notice("the config was read again");
        let next = [
            ("shell.program", before.shell.program != self.runtime.settings().shell.program),
            ("history.dir", before.history.dir != self.runtime.settings().history.dir),
        ];
        for (key, _) in next.iter().filter(|(_, other)| *other) {
            self.console.notice(&format!("{key} holds from the next session on"));
        }
        self.configured.project.forget_look();
        Flow::Continue
    }

    /// Opens the config in the user's editor, in the live shell, and reads it again.
    fn edit_config(&mut self) -> Flow {
        let env = self.runtime.env();
        let Some(path) = self.runtime.config().path.clone().or_else(|| config::own_path(env)) else {
            self.console.notice("no HOME is set, so a config has no place");
            return Flow::Continue;
        };
        let command = match self.terminal.editor_command(&path) {
            Ok(command) => command,
            Err(why) => {
                self.console.notice(why);
                return Flow::Continue;
            }
        };
        if let Err(error) = config::make_directory_for(&path) {
            self.console.failure(&config_failure(format!("{}: {error}", path.display()), ""));
            return Flow::Continue;
        }
        match self.run_command(&HumanLine::typed(command), false) {
            Flow::Continue => self.reload_config(),
            ended => ended,
        }
    }

    /// `:onboard`: looks for models in the live shell, which has the person's keys, and takes up the config at once.
    pub(super) fn onboard(&mut self, port: &str) -> Flow {
        let mut words = vec![host::executable().display().to_string()];
        if let Some(path) = &self.runtime.config().request.explicit {
            words.extend(["--config".to_owned(), path.display().to_string()]);
        }
        words.extend(["onboard", "--in-session"].map(str::to_owned));
        if !port.is_empty() {
            words.extend(["--port".to_owned(), port.to_owned()]);
        }
        let Ok(command) = shlex::try_join(words.iter().map(String::as_str)) else { return Flow::Continue };
        match self.run_command(&HumanLine::typed(command), false) {
            Flow::Continue if self.config_has_changed() => self.reload_config(),
            flow => flow,
        }
    }

    /// Reads the config again before a question that no model could answer, where somebody has written one meanwhile.
    pub(super) fn look_for_model(&mut self) -> Flow {
        if self.runtime.agent().models().is_empty() && self.config_has_changed() {
            return self.reload_config();
        }
        Flow::Continue
    }

    fn config_has_changed(&self) -> bool {
        let request = &self.runtime.config().request;
        let path = self.runtime.config().path.clone().or_else(|| request.explicit.clone());
        let path = path.or_else(|| config::own_path(self.runtime.env()));
        path.and_then(|path| stamp(&path)) != self.configured.stamp
    }

    /// Puts text into the line, where the cursor is.
    pub(super) fn insert_text(&mut self, text: &str) {
        let clean: String = text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
        if !clean.is_empty() {
            self.terminal.editor.run_edit_commands(&[reedline::EditCommand::InsertString(clean)]);
        }
    }

    /// The line in the editor.
    pub(super) fn typed_line(&self) -> String {
        self.terminal.editor.current_buffer_contents().to_owned()
    }

    /// Goes to a fresh row below the line that is being typed.
    pub(super) fn step_below(&self, prompt: &ReedPrompt) {
        let buffer = self.terminal.editor.current_buffer_contents();
        let at = self.terminal.editor.current_insertion_point();
        if let Some(rows) = prompt.rows_below_cursor(buffer, at, self.console.width_columns()).filter(|rows| *rows > 0)
        {
            self.console.raw(format!("\x1b[{rows}B").as_bytes());
        }
        self.console.raw(b"\r\n");
    }
}
