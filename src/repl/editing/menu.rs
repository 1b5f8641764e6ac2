//! The completion menu: reedline's columns, but it steps aside. It closes as soon as the person types on, so that Enter
//! runs the line and never takes a candidate that wasn't chosen, and it draws nothing where there is nothing.

use reedline::{ColumnarMenu, Completer, Editor, Menu, MenuEvent, MenuSettings, Painter, Suggestion};

/// Rows that it takes at most: a long list says how much more there is, and leaves the screen as it was.
const ROWS_MAX: u16 = 12;

/// The menu, and the columns of the screen.
pub(in crate::repl) struct CompletionMenu(pub(in crate::repl) ColumnarMenu, pub(in crate::repl) u16);

impl Menu for CompletionMenu {
    fn settings(&self) -> &MenuSettings {
        self.0.settings()
    }

    fn is_active(&self) -> bool {
        self.0.is_active()
    }

    fn set_active(&mut self, active: bool) {
        self.0.set_active(active);
    }

    fn clear_input(&mut self) {
        self.0.clear_input();
    }

    fn on_activate(&mut self) {
        self.0.on_activate();
    }

    fn on_deactivate(&mut self) {
        self.0.on_deactivate();
    }

    fn menu_event(&mut self, event: MenuEvent) {
        let event = if matches!(event, MenuEvent::Edit(_)) { MenuEvent::Deactivate } else { event };
        self.0.menu_event(event);
    }

    fn can_quick_complete(&self) -> bool {
        self.0.can_quick_complete()
    }

    fn can_partially_complete(
        &mut self,
        values_updated: bool,
        editor: &mut Editor,
        completer: &mut dyn Completer,
    ) -> bool {
        let done = self.0.can_partially_complete(values_updated, editor, completer);
        self.close_if_empty();
        done
    }

    fn update_values(&mut self, editor: &mut Editor, completer: &mut dyn Completer) {
        // Closed by the key that brought this about, it needs no candidates.
        if !self.is_active() {
            return;
        }
        self.0.update_values(editor, completer);
        self.close_if_empty();
    }

    fn reset_position(&mut self) {
        self.0.reset_position();
    }

    fn update_working_details(&mut self, editor: &mut Editor, completer: &mut dyn Completer, painter: &Painter) {
        self.1 = painter.screen_width();
        self.0.update_working_details(editor, completer, painter);
        self.close_if_empty();
    }

    fn replace_in_buffer(&self, editor: &mut Editor) {
        self.0.replace_in_buffer(editor);
    }

    fn menu_required_lines(&self, terminal_columns: u16) -> u16 {
        let lines = if self.get_values().is_empty() { 0 } else { self.0.menu_required_lines(terminal_columns) };
        lines.min(ROWS_MAX)
    }

    fn menu_string(&self, available_lines: u16, use_ansi_coloring: bool) -> String {
        if self.get_values().is_empty() {
            return String::new();
        }
        let (all, lines) = (self.0.menu_required_lines(self.1), available_lines.min(ROWS_MAX));
        if all <= lines || lines < 2 {
            return self.0.menu_string(lines, use_ansi_coloring);
        }
        let candidates = self.get_values().len();
        let shown = candidates.div_ceil(usize::from(all)) * usize::from(lines - 1);
        let rows = self.0.menu_string(lines - 1, use_ansi_coloring);
        let more = candidates.saturating_sub(shown);
        format!("{}\r\n… {more} more", rows.trim_end_matches(['\r', '\n']))
    }

    fn min_rows(&self) -> u16 {
        self.0.min_rows()
    }

    fn get_values(&self) -> &[Suggestion] {
        self.0.get_values()
    }

    fn results_are_provisional(&self) -> bool {
        self.0.results_are_provisional()
    }

    fn is_awaiting_first_answer(&self) -> bool {
        self.0.is_awaiting_first_answer()
    }

    fn set_cursor_pos(&mut self, position: (u16, u16)) {
        self.0.set_cursor_pos(position);
    }
}

impl CompletionMenu {
    fn close_if_empty(&mut self) {
        if self.0.get_values().is_empty() && !self.0.results_are_provisional() {
            self.0.set_active(false);
        }
    }
}
