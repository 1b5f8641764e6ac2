//! The config of a running session: the effective values, reloading, a project's file on top, and `:config`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::app::{self, config_problems};
use crate::config::{self, Effective, Env, KeyDoes, KeyName, Loaded, PromptStyle};
use crate::console::Options;
use crate::host;
use crate::ops::commands;
use crate::proto::{Failure, HumanLine};
use crate::render::text::escape_visible;
use crate::repl::editing::editor::{self, Shape};
use crate::repl::editing::state::SharedState;
use crate::repl::hooks::SharedHooks;
use crate::repl::hub::{Flow, Repl};
use crate::repl::rules::project;
use crate::repl::rules::project::ProjectState;

/// Time limit for the shell to draw its prompt on request.
const PROMPT_WAIT: Duration = Duration::from_secs(1);

/// Facts about the config beside the effective settings.
pub(in crate::repl) struct Configured {
    /// The effective layers, with a project's file on top.
    pub(in crate::repl) effective: config::Layers,
    /// The keys and the meta commands of hooks that the editor knows.
    bound: Bound,
    /// Time when the config was changed last, as far as it has been read.
    stamp: Option<SystemTime>,
    /// The project's file, if there is one.
    pub(in crate::repl) project: ProjectState,
}

/// Keys and meta commands of hooks.
type Bound = (Vec<(KeyName, KeyDoes)>, Vec<(String, String)>);

impl Configured {
    /// Makes it from the config that the start has read.
    pub(in crate::repl) fn new(parts: &mut app::ConfigParts, hooks: &SharedHooks) -> Self {
        hooks.set_own(std::mem::take(&mut parts.hooks));
        let bound = (hooks.keys(), hooks.metas());
        let stamp = parts.path.as_deref().and_then(stamp);
        Self { effective: parts.layers.clone(), bound, stamp, project: ProjectState::new(&parts.request.env) }
    }
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

/// Time when a file was changed last; nothing if there is none.
fn stamp(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}

/// Puts other settings into effect: those of the config, or with a project's file on top.
pub(in crate::repl) fn apply(repl: &mut Repl, effective: Effective) {
    let Effective { settings, hooks, layers, .. } = effective;
    repl.hooks.set_project(hooks);
    repl.configured.effective = layers;
    let (old, other_models) = repl.runtime.replace_settings(settings);
    repl.hooks.set_ignore_space(repl.runtime.settings().history.ignore_space);
    repl.terminal.options = crate::repl::terminal::Options::of(repl.runtime.settings());
    repl.tooling.servers_alone = None;
    {
        let mut state = repl.state.write();
        let known = repl.runtime.settings().shell.known_commands.iter().cloned().collect();
        if state.names.known != known {
            let names = crate::proto::Names { known, ..crate::proto::Names::clone(&state.names) };
            state.names = names.into();
        }
        state.route_hook = repl.hooks.route_hook();
        // The choice of `:mode` stays, unless the config's mode has changed.
        if old.route.mode != repl.runtime.settings().route.mode {
            state.mode = repl.runtime.settings().route.mode;
        }
    }
    repl.heading.set_words(repl.runtime.settings().route.words);
    if old.console != repl.runtime.settings().console {
        let color = app::color(repl.runtime.settings(), repl.runtime.env());
        let config::ConsoleSettings { markdown, accessible, .. } = repl.runtime.settings().console;
        repl.console = repl.console.with(Options { color, markdown, accessible, ..repl.console.options() });
        repl.terminal.console = repl.console.clone();
    }
    let wants_shell_prompt = repl.runtime.settings().prompt == PromptStyle::Shell;
    repl.terminal.session.want(app::wanted(repl.runtime.settings()));
    match &repl.terminal.shell_prompt {
        Some(_) if !wants_shell_prompt => repl.terminal.shell_prompt = None,
        // The shell draws its prompt for ReedClaw only if that was wanted at that prompt.
        None if wants_shell_prompt => repl.terminal.session.handle().draw_prompt(PROMPT_WAIT),
        _ => {}
    }
    let bound = (repl.hooks.keys(), repl.hooks.metas());
    let other_hooks = bound != repl.configured.bound;
    repl.configured.bound = bound;
    if other_hooks
        || other_models
        || old.editor != repl.runtime.settings().editor
        || old.console != repl.runtime.settings().console
    {
        remake_editor(repl);
    }
    if other_hooks {
        tell_taken_metas(repl);
    }
}

/// Makes a new editor with the line of the old one.
pub(in crate::repl) fn remake_editor(repl: &mut Repl) {
    let line = repl.terminal.editor.current_buffer_contents().to_owned();
    let shape = Shape {
        settings: repl.runtime.settings(),
        env: repl.runtime.env(),
        color: repl.console.options().color,
        unicode: repl.console.options().unicode,
        agent: repl.runtime.agent(),
        hooks: &repl.hooks,
    };
    let state = SharedState::clone(&repl.state);
    repl.terminal.editor = editor::make(
        &shape,
        &state,
        &repl.heading,
        &repl.terminal.session.handle(),
        repl.terminal.history.writer(),
        &repl.terminal.links,
    );
    repl.insert_text(&line);
}

/// Reports what needs attention in the config at the start.
pub(in crate::repl) fn tell_config(repl: &Repl) {
    tell_taken_metas(repl);
}

/// Reports meta commands of the config that use a name of ReedClaw's own.
fn tell_taken_metas(repl: &Repl) {
    for (name, _) in repl.hooks.metas() {
        if let Some(problem) = commands::name_problem(&name) {
            repl.console.failure(&Failure::config(format!("meta.{name}: {problem}")).hint("give it another name"));
        }
    }
}

/// Carries out `:config`.
pub(in crate::repl) fn config(repl: &mut Repl, argument: &str) -> Flow {
    match argument {
        "" | "show" => show_config(repl),
        "reload" => return reload_config(repl),
        "edit" => return edit_config(repl),
        "trust" => return project::trust_project(repl),
        "untrust" => project::untrust_project(repl),
        "path" => show_path(repl),
        other => {
            let message = format!(":config doesn't know {}", crate::render::sanitise(other));
            repl.console.failure(&Failure::user(message).hint(":config show, reload, edit, path, trust or untrust"));
        }
    }
    Flow::Continue
}

fn show_config(repl: &Repl) {
    let lines = repl.configured.effective.lines(true);
    let text: String = lines.iter().map(|line| format!("{}\n", crate::render::sanitise(line))).collect();
    repl.console.write(&text);
    repl.console.notice(&repl.configured.project.summary());
}

fn show_path(repl: &Repl) {
    let env = repl.runtime.env();
    match repl.runtime.config().path.clone().or_else(|| config::own_path(env)) {
        Some(path) if repl.runtime.config().path.is_some() => repl.console.outside(&format!("{}\n", path.display())),
        Some(path) => {
            repl.console.outside(&format!("{}\n", path.display()));
            repl.console.notice("it isn't there; using defaults");
        }
        None => repl.console.notice("no HOME is set, so a config has no place"),
    }
}

/// Reads the config again; hooks that were off are on again.
pub(in crate::repl) fn reload_config(repl: &mut Repl) -> Flow {
    let loaded = match config::reload(&repl.runtime.config().request) {
        Ok(loaded) => loaded,
        Err(error) => {
            repl.console.failure(&error.into());
            repl.console.notice("the previous settings stay");
            return Flow::Continue;
        }
    };
    let Loaded { problems, path, hooks, layers, is_read, .. } = loaded;
    repl.configured.stamp = path.as_deref().and_then(stamp);
    config_problems(&problems).iter().for_each(|problem| repl.console.failure(problem));
    if !is_read {
        return Flow::Continue;
    }
    let before = repl.runtime.settings().clone();
    let effective = Effective::plain(&layers);
    repl.hooks.set_own(hooks);
    let config = repl.runtime.config_mut();
    (config.layers, config.path) = (layers, path);
    apply(repl, effective);
    repl.console.notice("the config was read again");
    let next = [
        ("shell.program", before.shell.program != repl.runtime.settings().shell.program),
        ("history.dir", before.history.dir != repl.runtime.settings().history.dir),
    ];
    for (key, _) in next.iter().filter(|(_, other)| *other) {
        repl.console.notice(&format!("{key} holds from the next session on"));
    }
    repl.configured.project.forget_look();
    Flow::Continue
}

/// Opens the config in the user's editor, in the live shell, and reads it again.
fn edit_config(repl: &mut Repl) -> Flow {
    let env = repl.runtime.env();
    let Some(path) = repl.runtime.config().path.clone().or_else(|| config::own_path(env)) else {
        repl.console.notice("no HOME is set, so a config has no place");
        return Flow::Continue;
    };
    let command = match repl.terminal.editor_command(&path) {
        Ok(command) => command,
        Err(why) => {
            repl.console.notice(why);
            return Flow::Continue;
        }
    };
    if let Err(error) = config::make_directory_for(&path) {
        repl.console.failure(&Failure::config(format!("{}: {error}", path.display())));
        return Flow::Continue;
    }
    match repl.run_command(&HumanLine::typed(command), false) {
        Flow::Continue => reload_config(repl),
        ended => ended,
    }
}

/// `:onboard`: looks for models in the live shell, which has the person's keys, and takes up the config at once.
pub(in crate::repl) fn onboard(repl: &mut Repl, port: &str) -> Flow {
    if !port.is_empty() && port.parse::<u16>().is_err() {
        let message = format!(":onboard takes the port of a local server, not {}", escape_visible(port));
        repl.console.failure(&Failure::user(message).hint(":onboard 8080"));
        return Flow::Continue;
    }
    let mut words = vec![host::executable().display().to_string()];
    if let Some(path) = &repl.runtime.config().request.explicit {
        words.extend(["--config".to_owned(), path.display().to_string()]);
    }
    words.extend(["onboard", "--in-session"].map(str::to_owned));
    if !port.is_empty() {
        words.extend(["--port".to_owned(), port.to_owned()]);
    }
    let Ok(command) = shlex::try_join(words.iter().map(String::as_str)) else { return Flow::Continue };
    match repl.run_command(&HumanLine::typed(command), false) {
        Flow::Continue if config_has_changed(repl) => reload_config(repl),
        flow => flow,
    }
}

/// Reads the config again before a question that no model could answer, if it has changed meanwhile.
pub(in crate::repl) fn look_for_model(repl: &mut Repl) -> Flow {
    if repl.runtime.agent().models().is_empty() && config_has_changed(repl) {
        return reload_config(repl);
    }
    Flow::Continue
}

fn config_has_changed(repl: &Repl) -> bool {
    let request = &repl.runtime.config().request;
    let path = repl.runtime.config().path.clone().or_else(|| request.explicit.clone());
    let path = path.or_else(|| config::own_path(repl.runtime.env()));
    path.and_then(|path| stamp(&path)) != repl.configured.stamp
}
