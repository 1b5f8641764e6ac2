//! Puts the line editor together from its slots.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nu_ansi_term::{Color, Style};
use reedline::{ColumnarMenu, MenuBuilder, Osc133Markers, Reedline, ReedlineMenu};

use crate::agent::Agent;
use crate::app::{Attaching, Jails, Runtime, Skills, served_words};
use crate::config::{EditMode, EditorSettings, Env, Settings};
use crate::ops::commands::{Argument, of_shell};
use crate::ops::conversations;
use crate::ops::sessions::titles;
use crate::proto::ShellKeys;
use crate::repl::editing::complete::{MetaEntry, ShellCompleter};
use crate::repl::editing::highlight::Palette;
use crate::repl::editing::history::HistorySlot;
use crate::repl::editing::menu::CompletionMenu;
use crate::repl::editing::prompt::Heading;
use crate::repl::editing::slots::{ShellCompletion, ToldHighlighter, ToldValidator};
use crate::repl::editing::state::SharedState;
use crate::repl::editing::writer::Writer;
use crate::repl::hooks::{HookCompleter, SharedHooks};
use crate::repl::keys::{self, COMPLETION_MENU};
use crate::repl::line::{Links, SearchMenu, Suggester, WordKey, widgets};
use crate::shell::Handle;

/// The columns of the completion menu.
const MENU_COLUMNS: u16 = 4;

/// The parts that the editor is built from.
pub(in crate::repl) struct Shape<'a> {
    /// The effective settings.
    pub(in crate::repl) settings: &'a Settings,
    /// The environment at the start.
    pub(in crate::repl) env: &'a Env,
    /// True if colours are used.
    pub(in crate::repl) color: bool,
    /// True if characters outside ASCII are drawn.
    pub(in crate::repl) unicode: bool,
    /// The agent, which knows the models.
    pub(in crate::repl) agent: &'a Agent,
    /// The hooks of the config.
    pub(in crate::repl) hooks: &'a SharedHooks,
}

impl<'a> Shape<'a> {
    /// The shape at the start.
    pub(in crate::repl) fn of(runtime: &'a Runtime, hooks: &'a SharedHooks) -> Self {
        let (color, unicode) = (runtime.color(), runtime.unicode());
        Self { settings: runtime.settings(), env: runtime.env(), color, unicode, agent: runtime.agent(), hooks }
    }
}

/// Makes the editor.
pub(in crate::repl) fn make(
    shape: &Shape<'_>,
    state: &SharedState,
    heading: &Heading,
    pump: &Handle,
    writer: &Writer,
    links: &Links,
) -> Reedline {
    let settings = &shape.settings.editor;
    let color = shape.color;
    let palette = (settings.highlight && color).then(Palette::default);
    let live = ShellCompletion {
        pump: pump.clone(),
        by_itself: Arc::clone(&crate::repl::editing::state::read(state).shell_completes),
        timeout: Duration::from_millis(settings.completion_timeout_ms),
    };
    let inner = ShellCompleter::new(SharedState::clone(state), meta_entries(shape), Some(Box::new(live)))
        .with_conversations(recent_conversations(writer))
        .with_mentions(mentions(shape))
        .with_served(served(shape))
        .with_sessions(sessions(shape))
        .with_templates(templates(shape));
    let completer = HookCompleter { inner, hooks: shape.hooks.clone() };
    let completion_menu = ColumnarMenu::default()
        .with_name(COMPLETION_MENU)
        .with_columns(MENU_COLUMNS)
        .with_selected_text_style(if color { Style::new().reverse() } else { Style::new() })
        .with_text_style(Style::new())
        .with_description_text_style(if color { Color::DarkGray.normal() } else { Style::new() });
    let search = SearchMenu::new(links.searching.clone(), writer.clone(), SharedState::clone(state), shape.unicode);
    let (session, shell) = {
        let state = crate::repl::editing::state::read(state);
        (state.session, state.names.keys.clone())
    };
    let hooks = shape.hooks.keys();
    pump.stop_at(keys::stops(&hooks, &shell));
    let keys =
        keys::Wanted { vi: is_vi(settings, &shell), word: word_key(settings), hooks: &hooks, shell: &shell, links };
    let mut editor = Reedline::create()
        .use_bracketed_paste(true)
        .with_ansi_colors(color)
        .with_history(Box::new(HistorySlot::new(writer.clone(), session)))
        .with_validator(Box::new(ToldValidator::new(SharedState::clone(state), pump.clone())))
        .with_highlighter(Box::new(ToldHighlighter::new(
            SharedState::clone(state),
            palette,
            heading.clone(),
            pump.clone(),
            Arc::clone(&links.document),
        )))
        .with_completer(Box::new(completer))
        .with_visual_selection_style(Style::new().reverse())
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(CompletionMenu::new(completion_menu, heading.clone()))))
        .with_menu(ReedlineMenu::HistoryMenu(Box::new(search)))
        // An empty query doesn't end the search; the completion menu closes by itself.
        .with_persistent_menus(true)
        .with_abbreviations(settings.abbreviations.clone().into_iter().collect())
        .with_edit_mode(keys::edit_mode(&keys));
    editor = editor.with_semantic_markers(takes_sequences(shape.env).then(Osc133Markers::boxed));
    for widget in widgets(writer, state, links) {
        editor = editor.with_menu(widget);
    }
    if settings.autosuggest && color {
        editor = editor.with_hinter(Box::new(Suggester::new(writer.clone(), Color::DarkGray.normal())));
    }
    editor
}

/// Returns whether the terminal takes marks of the prompt without printing them.
fn takes_sequences(env: &Env) -> bool {
    let term = env.get(std::ffi::OsStr::new("TERM")).and_then(|term| term.to_str());
    crate::shell::takes_sequences(term.unwrap_or_default())
}

/// Returns whether the keys are vi's: the config says so, or the live shell is in that mode.
pub(in crate::repl) fn is_vi(settings: &EditorSettings, shell: &ShellKeys) -> bool {
    settings.mode == EditMode::Vi || shell.vi
}

/// Returns the extent that Ctrl-W deletes.
pub(in crate::repl) fn word_key(settings: &EditorSettings) -> WordKey {
    if settings.kill_word == "blank" { WordKey::Blank } else { WordKey::Word }
}

/// Asks the store only when the list is wanted, since another session may have added to it.
fn recent_conversations(writer: &Writer) -> impl Fn() -> Vec<(String, String)> + Send + use<> {
    let writer = writer.clone();
    move || conversations::recent(&writer.store())
}

fn mentions(shape: &Shape<'_>) -> impl Fn(&Path, &str) -> Vec<(String, String)> + Send + use<> {
    let (settings, env, jails) = (shape.settings.clone(), shape.env.clone(), Jails::default());
    move |cwd, typed| {
        let (settings, env, jails) = (&settings, &env, &jails);
        Attaching { settings, env, config: None, cwd, jails, servers: None, draft: None }.candidates(typed)
    }
}

fn templates(shape: &Shape<'_>) -> impl Fn(&Path) -> Vec<(String, String)> + Send + use<> {
    let env = shape.env.clone();
    move |cwd| Skills::around(&env, cwd).templates().map(|it| (it.name.clone(), it.description.clone())).collect()
}

fn sessions(shape: &Shape<'_>) -> impl Fn(&Path) -> Vec<(String, String)> + Send + use<> {
    let env = shape.env.clone();
    move |cwd| titles(&env, cwd)
}

fn served(shape: &Shape<'_>) -> impl Fn(&[&str]) -> Vec<(String, String)> + Send + use<> {
    let (settings, env) = (shape.settings.clone(), shape.env.clone());
    move |words| served_words(&settings, &env, words)
}

fn meta_entries(shape: &Shape<'_>) -> Vec<MetaEntry> {
    let models = || {
        let aliases = shape.settings.models.values().flat_map(|model| model.aliases.clone());
        shape.agent.models().into_iter().map(|model| model.name).chain(aliases).collect()
    };
    let ours = of_shell().map(|meta| MetaEntry {
        name: meta.names[0].to_owned(),
        help: meta.help.to_owned(),
        values: match meta.argument {
            Argument::None => Vec::new(),
            Argument::Model => models(),
            Argument::Only(words) | Argument::Optional(words) | Argument::Needed(words) => {
                words.iter().copied().map(str::to_owned).collect()
            }
        },
    });
    let hooks = shape.hooks.usable_metas().map(|(name, help)| MetaEntry { name, help, values: Vec::new() });
    ours.chain(hooks).collect()
}
