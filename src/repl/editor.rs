//! Puts the line editor together from its slots.

use std::process::Command;
use std::time::Duration;

use nu_ansi_term::{Color, Style};
use reedline::{ColumnarMenu, DefaultHinter, ListMenu, MenuBuilder, Reedline, ReedlineMenu};

use super::complete::{MetaEntry, ShellCompleter};
use super::highlight::Palette;
use super::history::HistorySlot;
use super::keys::{self, COMPLETION_MENU, HISTORY_MENU};
use super::menu::CompletionMenu;
use super::meta::{Argument, METAS};
use super::prompt::Heading;
use super::slots::{ShellCompletion, ToldHighlighter, ToldValidator};
use super::state::SharedState;
use super::writer::Writer;
use crate::app::App;
use crate::config::EditMode;
use crate::shell::Handle;

/// The columns of the completion menu.
const MENU_COLUMNS: u16 = 4;
/// Lines of the history that the menu shows at once.
const HISTORY_PAGE_LINES: usize = 12;

/// Makes the editor.
pub(super) fn make(app: &App, state: &SharedState, heading: &Heading, pump: &Handle, writer: &Writer) -> Reedline {
    let settings = &app.settings.editor;
    let color = app.color();
    let palette = (settings.highlight && color).then(Palette::default);
    let live = ShellCompletion { pump: pump.clone(), timeout: Duration::from_millis(settings.completion_timeout_ms) };
    let completer = ShellCompleter::new(SharedState::clone(state), meta_entries(app), Some(Box::new(live)));
    // A menu's marker stands where the prompt's glyph stood.
    let marker = if app.unicode() { "❯ " } else { "> " };
    let completion_menu = ColumnarMenu::default()
        .with_name(COMPLETION_MENU)
        .with_columns(MENU_COLUMNS)
        .with_marker(marker)
        .with_selected_text_style(if color { Style::new().reverse() } else { Style::new() })
        .with_text_style(Style::new())
        .with_description_text_style(if color { Color::DarkGray.normal() } else { Style::new() });
    let history_menu =
        ListMenu::default().with_name(HISTORY_MENU).with_page_size(HISTORY_PAGE_LINES).with_marker("history: ");
    let mut editor = Reedline::create()
        .use_bracketed_paste(true)
        .with_ansi_colors(color)
        .with_history(Box::new(HistorySlot::new(writer.clone(), None)))
        .with_validator(Box::new(ToldValidator::new(SharedState::clone(state), pump.clone())))
        .with_highlighter(Box::new(ToldHighlighter::new(
            SharedState::clone(state),
            palette,
            heading.clone(),
            pump.clone(),
        )))
        .with_completer(Box::new(completer))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(CompletionMenu(completion_menu))))
        .with_menu(ReedlineMenu::HistoryMenu(Box::new(history_menu)))
        .with_abbreviations(settings.abbreviations.clone().into_iter().collect())
        .with_edit_mode(keys::edit_mode(settings.mode == EditMode::Vi));
    if settings.autosuggest && color {
        let hinter = DefaultHinter::default().with_style(Color::DarkGray.normal()).with_min_chars(1);
        editor = editor.with_hinter(Box::new(hinter));
    }
    if let Some(program) = app.variable("VISUAL").or_else(|| app.variable("EDITOR")) {
        let mut words = shlex::split(program).unwrap_or_default().into_iter();
        if let Some(first) = words.next() {
            let mut command = Command::new(first);
            command.args(words);
            let name = format!("reedclaw-{}.sh", std::process::id());
            let dir = app.variable("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
            editor = editor.with_buffer_editor(command, dir.join(name));
        }
    }
    editor
}

fn meta_entries(app: &App) -> Vec<MetaEntry> {
    let models = || app.agent.models().into_iter().map(|model| model.name).collect();
    METAS
        .iter()
        .map(|meta| MetaEntry {
            name: meta.names[0].to_owned(),
            help: meta.help.to_owned(),
            values: if meta.argument == Argument::Model { models() } else { Vec::new() },
        })
        .collect()
}
