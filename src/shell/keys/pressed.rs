//! A key that the shell's own line editor is pressing, and the line that the key has it run. Pure.

use unicode_width::UnicodeWidthStr;

/// The drawing of a line takes no more bytes.
const DRAWN_BYTES_MAX: usize = 16 * 1024;

/// The key that is being pressed.
#[derive(Debug)]
pub(in crate::shell) struct Pressed {
    /// The number of its request.
    pub(in crate::shell) id: u64,
    /// Whether the line was asked for while the shell may run a command first.
    pub(in crate::shell) is_released: bool,
    /// The last row of the prompt, as it is drawn.
    prompt: String,
    /// The output since the line editor drew its prompt.
    drawn: Vec<u8>,
    /// The newest line of the shell's history when the key had a line run, and whether it is new there.
    newest: Option<(String, bool)>,
}

impl Pressed {
    pub(in crate::shell) fn new(id: u64, prompt: &str) -> Self {
        let prompt = prompt.rsplit('\n').next().unwrap_or_default().to_owned();
        Self { id, is_released: false, prompt, drawn: Vec::new(), newest: None }
    }

    /// Notes that the line editor draws its line from here on.
    pub(in crate::shell) fn draws(&mut self) {
        self.drawn.clear();
    }

    /// Notes output.
    pub(in crate::shell) fn note(&mut self, output: &[u8]) {
        let room = DRAWN_BYTES_MAX - self.drawn.len();
        self.drawn.extend_from_slice(&output[..output.len().min(room)]);
    }

    /// Notes the shell's report about a line that it is about to run: whether its history has it as a new one, and the newest
    /// line there.
    pub(in crate::shell) fn note_report(&mut self, body: &str) {
        self.newest = body.split_once('\n').map(|(is_new, line)| (line.to_owned(), is_new == "1"));
    }

    /// The line that is about to run. One that isn't new in the history may be kept out of it, and is the one that was drawn then.
    pub(in crate::shell) fn take_line(&mut self) -> Option<String> {
        let (newest, is_new) = self.newest.take()?;
        if is_new {
            return Some(newest);
        }
        let drawn = std::str::from_utf8(&self.drawn).ok()?.trim_end_matches(['\r', '\n']);
        // readline draws one row, and the end of a line that is longer.
        match drawn.strip_prefix('<') {
            _ if drawn.contains(char::is_control) => None,
            Some(end) if newest.ends_with(end) => Some(newest),
            Some(_) => None,
            None => Some(drawn.to_owned()),
        }
    }

    /// Draws the line behind our prompt, in the place of the shell's drawing without it, which has just ended its last row.
    pub(in crate::shell) fn redrawn(&self, line: &str, columns: usize, is_one_row: bool) -> String {
        let height = |row: &str| row.width().saturating_sub(1) / columns.max(1) + 1;
        let rows = if is_one_row { 1 } else { line.split('\n').map(height).sum() };
        format!("\x1b[{rows}A\r\x1b[J{}\x1b[0m{}\r\n", self.prompt, line.replace('\n', "\r\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(drawn: &str, report: &str) -> Option<String> {
        let mut pressed = Pressed::new(1, "two rows\n$ ");
        pressed.note(b"before");
        pressed.draws();
        pressed.note(drawn.as_bytes());
        pressed.note_report(report);
        pressed.take_line()
    }

    #[test]
    fn line_is_the_newest_of_the_history_unless_that_was_there_before_and_another_was_drawn() {
        let none: Option<&str> = None;
        for (drawn, report, line) in [
            ("ls -l\r\n", "1\nls -l", Some("ls -l")),
            // Of several rows.
            ("for i in 1; do^J e\r\n", "1\nfor i in 1; do\n e\ndone", Some("for i in 1; do\n e\ndone")),
            // Run twice.
            ("ls -l\r\n", "0\nls -l", Some("ls -l")),
            ("<ng line\r\n", "0\na long line", Some("a long line")),
            // Kept out of the history.
            (" secret\r\n", "0\nls -l", Some(" secret")),
            ("<cret line\r\n", "0\nls -l", none),
            ("ls\r\n", "", none),
        ] {
            assert_eq!(line_of(drawn, report).as_deref(), line, "{drawn:?} {report:?}");
        }
    }

    #[test]
    fn line_is_drawn_again_behind_the_last_row_of_the_prompt() {
        let pressed = Pressed::new(1, "two rows\n$ ");
        assert_eq!(pressed.redrawn("a\nb", 80, true), "\x1b[1A\r\x1b[J$ \x1b[0ma\r\nb\r\n");
        assert_eq!(pressed.redrawn("12345678\nb", 4, false), "\x1b[3A\r\x1b[J$ \x1b[0m12345678\r\nb\r\n");
    }
}
