//! A key that the shell's own line editor presses, and the line that it makes the shell run. Pure.

/// Limit on the drawing of a line, in bytes.
const DRAWN_BYTES_MAX: usize = 16 * 1024;

/// The key that is being pressed.
#[derive(Debug)]
pub(in crate::shell) struct Pressed {
    /// The number of its request.
    pub(in crate::shell) id: u64,
    /// `true` if the line was requested while the shell may run a command first.
    pub(in crate::shell) is_released: bool,
    /// The last row of the prompt, as displayed.
    prompt: String,
    /// `true` if, until a line starts, only the line editor itself draws; that drawing is dropped.
    pub(in crate::shell) draws_unseen: bool,
    /// The output since the line editor drew its prompt.
    drawn: Vec<u8>,
    /// All output.
    output: Vec<u8>,
}

impl Pressed {
    pub(in crate::shell) fn new(id: u64, prompt: &str) -> Self {
        let prompt = prompt.rsplit('\n').next().unwrap_or_default().to_owned();
        Self { id, is_released: false, prompt, draws_unseen: false, drawn: Vec::new(), output: Vec::new() }
    }

    /// Notes that the line editor draws its line from now on.
    pub(in crate::shell) fn draws(&mut self) {
        self.drawn.clear();
    }

    /// Notes output.
    pub(in crate::shell) fn note(&mut self, output: &[u8]) {
        for buffer in [&mut self.drawn, &mut self.output] {
            let room = DRAWN_BYTES_MAX - buffer.len();
            buffer.extend_from_slice(&output[..output.len().min(room)]);
        }
    }

    /// The number of rows that were printed; 0 if the cursor was moved in other ways than by a new row, as by a menu below the
    /// line that erases itself.
    pub(in crate::shell) fn rows_printed(&self) -> usize {
        let mut rest = self.output.as_slice();
        let mut rows = 0;
        while let Some(at) = memchr::memchr2(b'\n', 0x1b, rest) {
            let (is_row, after) = (rest[at] == b'\n', &rest[at + 1..]);
            rest = after;
            if is_row {
                rows += 1;
                continue;
            }
            let end = after.iter().position(|byte| byte.is_ascii_alphabetic() || byte.is_ascii_control());
            // Colours, the rest of the row erased, modes such as that for pastes.
            let stays = |end: usize| match (&after[..end], after[end]) {
                ([b'[', ..], b'm' | b'K') => true,
                (mode, b'h' | b'l') => mode.starts_with(b"[?2004"),
                _ => false,
            };
            match end.filter(|end| stays(*end)) {
                Some(end) => rest = &after[end + 1..],
                None => return 0,
            }
        }
        rows
    }

    /// The line that is about to run, from the newest one of the shell's history. If that isn't new, the line may be excluded
    /// from the history, and is read from the drawing.
    pub(in crate::shell) fn line(&self, newest: String, is_new: bool) -> Option<String> {
        if is_new {
            return Some(newest);
        }
        let drawn = std::str::from_utf8(&self.drawn).ok()?.trim_end_matches(['\r', '\n']);
        // readline draws one row, and only the end of a longer line.
        match drawn.strip_prefix('<') {
            _ if drawn.contains(char::is_control) => None,
            Some(end) if newest.ends_with(end) => Some(newest),
            Some(_) => None,
            None => Some(drawn.to_owned()),
        }
    }

    /// Draws the line after our prompt, in place of the rows that the shell has just drawn without it.
    pub(in crate::shell) fn redrawn(&self, line: &str, rows: usize) -> String {
        let up = "\x1b[A".repeat(rows);
        format!("{up}\r\x1b[J{}\x1b[0m{}\r\n", self.prompt, line.replace('\n', "\r\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_plain_output() {
        for (output, rows) in [
            ("\r\x1b[Kabc\r\x1b[K\x1b[1;31m/etc\x1b[0m  /usr\r\nabc\r\x1b[K", 1),
            ("\x1b[?2004l\ra\r\nb\r\n\x1b[?2004h", 2),
            ("\r\x1b[Kabc", 0),
            ("a\r\nb\x1b[1A\x1b[J", 0),
            ("\x1b[?1049ha\r\n\x1b[?1049l", 0),
            ("a\r\n\x1b]0;title\x07", 0),
            ("a\r\n\x1b[", 0),
        ] {
            let mut pressed = Pressed::new(1, "");
            pressed.note(output.as_bytes());
            assert_eq!(pressed.rows_printed(), rows, "{output:?}");
        }
    }

    fn line_of(drawn: &str, newest: &str, is_new: bool) -> Option<String> {
        let mut pressed = Pressed::new(1, "two rows\n$ ");
        pressed.note(b"before");
        pressed.draws();
        pressed.note(drawn.as_bytes());
        pressed.line(newest.to_owned(), is_new)
    }

    #[test]
    fn line_is_the_newest_of_the_history_unless_that_was_there_before_and_another_was_drawn() {
        let none: Option<&str> = None;
        for (drawn, newest, is_new, line) in [
            ("ls -l\r\n", "ls -l", true, Some("ls -l")),
            // A line of several rows.
            ("for i in 1; do^J e\r\n", "for i in 1; do\n e\ndone", true, Some("for i in 1; do\n e\ndone")),
            // Run twice.
            ("ls -l\r\n", "ls -l", false, Some("ls -l")),
            ("<ng line\r\n", "a long line", false, Some("a long line")),
            // A line that is excluded from the history.
            (" secret\r\n", "ls -l", false, Some(" secret")),
            ("<cret line\r\n", "ls -l", false, none),
        ] {
            assert_eq!(line_of(drawn, newest, is_new).as_deref(), line, "{drawn:?} {newest:?}");
        }
    }

    #[test]
    fn line_is_drawn_again_behind_the_last_row_of_the_prompt() {
        let pressed = Pressed::new(1, "two rows\n$ ");
        assert_eq!(pressed.redrawn("a\nb", 1), "\x1b[A\r\x1b[J$ \x1b[0ma\r\nb\r\n");
        assert_eq!(pressed.redrawn("a", 0), "\r\x1b[J$ \x1b[0ma\r\n");
    }
}
