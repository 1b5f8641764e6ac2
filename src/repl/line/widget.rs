//! Carries out edits inside the editor. reedline lends its line to menus alone, so each edit is a menu that does its
//! work when it is opened and is closed again at once, without anything drawn in between.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use reedline::{Completer, Editor, Menu, MenuEvent, MenuSettings, Painter, ReedlineMenu, Suggestion, UndoBehavior};

use super::Links;
use super::edits::{self, Edit};
use crate::repl::editing::state::{self, SharedState};
use crate::repl::editing::writer::Writer;
use crate::store::{Search, StoreError};

/// Limit on the stored killed texts, as in readline.
const KILLS_MAX: usize = 10;
/// Lines back that Alt-. goes.
const ARGUMENTS_MAX: usize = 1_000;

/// The menus of all edits.
pub(in crate::repl) fn widgets(writer: &Writer, state: &SharedState, links: &Links) -> Vec<ReedlineMenu> {
    let memory = Arc::<Mutex<Memory>>::default();
    let make = |(edit, again): (Edit, bool)| {
        let menu = Box::new(Widget {
            edit,
            again,
            memory: Arc::clone(&memory),
            writer: writer.clone(),
            state: SharedState::clone(state),
            links: links.clone(),
            settings: MenuSettings::default().with_name(&edit.menu_name(again)),
            active: false,
        });
        // The other kind makes reedline ask the terminal for the cursor's position, since its completer may have drawn.
        if edit == Edit::InsertCompletions {
            ReedlineMenu::EngineCompleter(menu)
        } else {
            ReedlineMenu::HistoryMenu(menu)
        }
    };
    Edit::ALL.into_iter().flat_map(|edit| [(edit, false), (edit, true)]).map(make).collect()
}

/// The state that edits carry from one to the next.
#[derive(Default)]
struct Memory {
    /// Newest first.
    kills: VecDeque<String>,
    /// The text that Ctrl-Y put into the line, and the number of its kill.
    yanked: Range<usize>,
    yanked_index: usize,
    /// The text that Alt-. put into the line, and how many lines back it was found.
    argument: Range<usize>,
    argument_back: usize,
    /// The line before a step through the history.
    noted: String,
}

struct Widget {
    edit: Edit,
    again: bool,
    memory: Arc<Mutex<Memory>>,
    writer: Writer,
    state: SharedState,
    links: Links,
    settings: MenuSettings,
    active: bool,
}

/// Puts a line and a cursor into the editor.
pub(super) fn set(editor: &mut Editor, line: String, cursor: usize) {
    editor.edit_buffer(
        |buffer| {
            buffer.clear_selection();
            buffer.set_buffer(line);
            buffer.set_insertion_point(cursor);
        },
        UndoBehavior::CreateUndoPoint,
    );
}

impl Widget {
    fn carry_out(&self, editor: &mut Editor, completer: &mut dyn Completer) {
        let mut memory = self.memory.lock();
        let line = editor.get_buffer().to_owned();
        let cursor = line.floor_char_boundary(editor.line_buffer().insertion_point());
        match self.edit {
            Edit::Yank => {
                if let Some(text) = memory.kills.front().cloned() {
                    memory.yanked_index = 0;
                    memory.yanked = insert(editor, &line, cursor..cursor, &text);
                }
            }
            Edit::YankPop if self.again && !memory.kills.is_empty() => {
                memory.yanked_index = (memory.yanked_index + 1) % memory.kills.len();
                let text = memory.kills[memory.yanked_index].clone();
                memory.yanked = insert(editor, &line, memory.yanked.clone(), &text);
            }
            Edit::LastArgument => {
                let back = if self.again { memory.argument_back + 1 } else { 0 };
                let Some((back, text)) = self.argument_from(back) else { return };
                let replaced = if self.again { memory.argument.clone() } else { cursor..cursor };
                memory.argument_back = back;
                memory.argument = insert(editor, &line, replaced, &text);
            }
            Edit::TransposeWords => {
                if let Some((line, cursor)) = edits::transpose_words(&line, cursor) {
                    set(editor, line, cursor);
                }
            }
            Edit::Comment => {
                let line = edits::commented(&line);
                let end = line.len();
                set(editor, line, end);
            }
            Edit::MatchBracket => {
                if let Some(at) = edits::matching_bracket(&line, cursor) {
                    editor.edit_buffer(|buffer| buffer.set_insertion_point(at), UndoBehavior::MoveCursor);
                }
            }
            Edit::NoteLine => memory.noted = line,
            // reedline leaves the cursor in the first of several rows.
            Edit::EndOfRecalled if memory.noted != line => {
                editor.edit_buffer(|buffer| buffer.move_to_end(), UndoBehavior::MoveCursor);
            }
            Edit::InsertCompletions => insert_completions(editor, &line, cursor, completer),
            Edit::RestoreSearched => {
                if let Some((line, cursor)) = self.links.searching.take_line() {
                    set(editor, line, cursor);
                }
            }
            Edit::ClearLine => set(editor, String::new(), 0),
            Edit::LeaveInsert => self.links.escape.reached(),
            Edit::WordBack | Edit::WordAhead => {
                let at = edits::beside_word(&line, cursor, self.edit == Edit::WordAhead);
                editor.edit_buffer(|buffer| buffer.set_insertion_point(at), UndoBehavior::MoveCursor);
            }
            kill => {
                if let Some(range) = kill.killed(&line, cursor) {
                    self.kill(&mut memory, editor, &line, range, cursor);
                }
            }
        }
    }

    /// Takes text out of the line. Kills without another key in between are one.
    fn kill(&self, memory: &mut Memory, editor: &mut Editor, line: &str, range: Range<usize>, cursor: usize) {
        let text = &line[range.clone()];
        match memory.kills.front_mut().filter(|_| self.again) {
            Some(last) if range.start < cursor => *last = format!("{text}{last}"),
            Some(last) => last.push_str(text),
            None => memory.kills.push_front(text.to_owned()),
        }
        memory.kills.truncate(KILLS_MAX);
        insert(editor, line, range, "");
    }

    /// The last word of the line that lies this number of lines back, or of an earlier one that has words.
    fn argument_from(&self, back: usize) -> Option<(usize, String)> {
        let lines = self.lines(back).ok()?;
        let mut from = lines.iter().enumerate().skip(back);
        from.find_map(|(back, line)| Some((back, edits::last_argument(line)?.to_owned())))
    }

    /// The lines of the history, this session's first, newest first; some more than `back`.
    fn lines(&self, back: usize) -> Result<Vec<String>, StoreError> {
        let session = state::read(&self.state).session;
        let limit = Some((back + 20).min(ARGUMENTS_MAX));
        let own = Search { plain_only: true, session: Some(session), limit, ..Search::default() };
        let others = Search { session: None, other_session: Some(session), ..own.clone() };
        let store = self.writer.store();
        let mut rows = store.search(&own)?;
        if rows.len() <= back {
            rows.extend(store.search(&others)?);
        }
        Ok(rows.into_iter().map(|row| row.entry.line).collect())
    }
}

/// Replaces a part of the line, with the cursor after it. Returns the range of the new text.
fn insert(editor: &mut Editor, line: &str, replaced: Range<usize>, text: &str) -> Range<usize> {
    // The line may have changed since the range was noted.
    let (Some(before), Some(after)) = (line.get(..replaced.start), line.get(replaced.end..)) else { return 0..0 };
    let end = before.len() + text.len();
    set(editor, [before, text, after].concat(), end);
    before.len()..end
}

/// Puts all candidates into the line, in the place of the word that they complete.
fn insert_completions(editor: &mut Editor, line: &str, cursor: usize, completer: &mut dyn Completer) {
    let found = completer.complete(line, cursor);
    let Some(span) = found.suggestions().first().map(|first| first.span) else { return };
    let values: Vec<&str> = found.suggestions().iter().map(|one| one.value.trim_end()).collect();
    insert(editor, line, span.start..span.end, &format!("{} ", values.join(" ")));
}

impl Menu for Widget {
    fn settings(&self) -> &MenuSettings {
        &self.settings
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    fn clear_input(&mut self) {}

    fn menu_event(&mut self, event: MenuEvent) {
        self.handle_menu_event(&event);
    }

    fn can_quick_complete(&self) -> bool {
        false
    }

    /// The one call that a menu gets the line with while it is opened.
    fn can_partially_complete(&mut self, _: bool, editor: &mut Editor, completer: &mut dyn Completer) -> bool {
        if std::mem::take(&mut self.active) {
            self.carry_out(editor, completer);
        }
        true
    }

    fn update_values(&mut self, _: &mut Editor, _: &mut dyn Completer) {}

    fn reset_position(&mut self) {}

    fn update_working_details(&mut self, _: &mut Editor, _: &mut dyn Completer, _: &Painter) {}

    fn replace_in_buffer(&self, _: &mut Editor) {}

    fn menu_required_lines(&self, _: u16) -> u16 {
        0
    }

    fn menu_string(&self, _: u16, _: bool) -> String {
        String::new()
    }

    fn min_rows(&self) -> u16 {
        0
    }

    fn get_values(&self) -> &[Suggestion] {
        &[]
    }
}
