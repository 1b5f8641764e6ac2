//! The completion menu: reedline's columns, but it steps aside. It closes as soon as the person types on, so that Enter
//! runs the line and never takes a candidate that wasn't chosen, and it draws nothing if there are no candidates.

use reedline::{ColumnarMenu, Completer, Editor, Menu, MenuEvent, MenuSettings, Painter, Suggestion};

use super::prompt::Heading;

/// Limit on its rows: a long list says how much more there is, and leaves the screen as it was.
const ROWS_MAX: u16 = 12;

/// The menu.
pub(in crate::repl) struct CompletionMenu {
    inner: ColumnarMenu,
    /// The columns of the screen.
    columns: u16,
    heading: Heading,
    /// The sign at the end of the prompt, which an open menu would replace by its own.
    sign: String,
}

impl Menu for CompletionMenu {
    fn indicator(&self) -> &str {
        &self.sign
    }

    fn settings(&self) -> &MenuSettings {
        self.inner.settings()
    }

    fn is_active(&self) -> bool {
        self.inner.is_active()
    }

    fn set_active(&mut self, active: bool) {
        self.inner.set_active(active);
    }

    fn clear_input(&mut self) {
        self.inner.clear_input();
    }

    fn on_activate(&mut self) {
        self.inner.on_activate();
    }

    fn on_deactivate(&mut self) {
        self.inner.on_deactivate();
    }

    fn menu_event(&mut self, event: MenuEvent) {
        let event = if matches!(event, MenuEvent::Edit(_)) { MenuEvent::Deactivate } else { event };
        self.inner.menu_event(event);
    }

    fn can_quick_complete(&self) -> bool {
        self.inner.can_quick_complete()
    }

    fn can_partially_complete(
        &mut self,
        values_updated: bool,
        editor: &mut Editor,
        completer: &mut dyn Completer,
    ) -> bool {
        let done = self.inner.can_partially_complete(values_updated, editor, completer);
        self.close_if_empty();
        done
    }

    fn update_values(&mut self, editor: &mut Editor, completer: &mut dyn Completer) {
        // If the key that led here has closed the menu, it needs no candidates.
        if !self.is_active() {
            return;
        }
        self.inner.update_values(editor, completer);
        self.close_if_empty();
    }

    fn reset_position(&mut self) {
        self.inner.reset_position();
    }

    fn update_working_details(&mut self, editor: &mut Editor, completer: &mut dyn Completer, painter: &Painter) {
        self.columns = painter.screen_width();
        self.sign = self.heading.sign();
        self.inner.update_working_details(editor, completer, painter);
        self.close_if_empty();
    }

    fn replace_in_buffer(&self, editor: &mut Editor) {
        self.inner.replace_in_buffer(editor);
    }

    fn menu_required_lines(&self, terminal_columns: u16) -> u16 {
        let lines = if self.get_values().is_empty() { 0 } else { self.inner.menu_required_lines(terminal_columns) };
        lines.min(ROWS_MAX)
    }

    fn menu_string(&self, available_lines: u16, use_ansi_coloring: bool) -> String {
        if self.get_values().is_empty() {
            return String::new();
        }
        let (all, lines) = (self.inner.menu_required_lines(self.columns), available_lines.min(ROWS_MAX));
        if all <= lines || lines < 2 {
            return self.inner.menu_string(lines, use_ansi_coloring);
        }
        let candidates = self.get_values().len();
        let shown = candidates.div_ceil(usize::from(all)) * usize::from(lines - 1);
        let rows = self.inner.menu_string(lines - 1, use_ansi_coloring);
        let more = candidates.saturating_sub(shown);
        format!("{}\r\n… {more} more", rows.trim_end_matches(['\r', '\n']))
    }

    fn min_rows(&self) -> u16 {
        self.inner.min_rows()
    }

    fn get_values(&self) -> &[Suggestion] {
        self.inner.get_values()
    }

    fn results_are_provisional(&self) -> bool {
        self.inner.results_are_provisional()
    }

    fn is_awaiting_first_answer(&self) -> bool {
        self.inner.is_awaiting_first_answer()
    }

    fn set_cursor_pos(&mut self, position: (u16, u16)) {
        self.inner.set_cursor_pos(position);
    }
}

impl CompletionMenu {
    /// Wraps reedline's menu.
    pub(in crate::repl) fn new(inner: ColumnarMenu, heading: Heading) -> Self {
        Self { inner, columns: 0, heading, sign: String::new() }
    }

    fn close_if_empty(&mut self) {
        if self.inner.get_values().is_empty() && !self.inner.results_are_provisional() {
            self.inner.set_active(false);
        }
    }
}
