//! A terminal's bytes to the text that a person would have seen: control sequences gone, overwritten progress bars reduced
//! to their last state, full-screen drawing left out. Pure; knows nothing of models.

use crate::proto::Capture;

/// Limit for a line as a grid for overwriting; a longer one is cut into lines there, so that a cursor column can't
/// allocate much memory.
const COLUMNS_MAX: usize = 64 * 1024;
/// Longest control string (title, image) that is skipped; a longer one was no control string, and its rest is text.
const STRING_CHARS_MAX: usize = 1024 * 1024;

/// Turns a command's captured output into text; a line of its own names a gap of dropped bytes.
#[must_use]
pub fn plain_text(capture: &Capture) -> String {
    let mut screen = Screen::default();
    screen.write(&String::from_utf8_lossy(&capture.head));
    if capture.omitted_bytes == 0 {
        // Head and tail touch: a sequence or a character may lie across the seam.
        let whole = [capture.head.as_slice(), capture.tail.as_slice()].concat();
        screen = Screen::default();
        screen.write(&String::from_utf8_lossy(&whole));
    } else {
        screen.gap(capture.omitted_bytes);
        let start = capture.tail.iter().position(|byte| byte & 0xc0 != 0x80).unwrap_or(capture.tail.len());
        screen.write(&String::from_utf8_lossy(&capture.tail[start..]));
    }
    screen.finish()
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// `ESC (` and the like: one more character follows.
    EscapeOne,
    Csi,
    /// OSC, DCS, APC, PM, SOS: up to BEL or ST.
    Text,
    TextEscape,
}

/// One line with a cursor, and the lines above it. Not a terminal: cursor movements between lines are left out.
#[derive(Debug, Default)]
struct Screen {
    done: String,
    line: Vec<char>,
    column: usize,
    state: State,
    parameters: String,
    string_chars: usize,
    /// A full-screen program is drawing.
    alternate: bool,
    /// Drawing when bytes were dropped: its end may be in the gap. If an end follows after all, the text since here was
    /// its drawing.
    alternate_at_gap: Option<usize>,
}

impl Screen {
    fn write(&mut self, text: &str) {
        for c in text.chars() {
            self.take(c);
        }
    }

    fn take(&mut self, c: char) {
        match self.state {
            State::Ground => self.ground(c),
            State::Escape => self.escape(c),
            State::EscapeOne => self.state = State::Ground,
            State::Csi => self.csi(c),
            State::Text | State::TextEscape => self.string(c),
        }
    }

    fn ground(&mut self, c: char) {
        match c {
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.begin_csi(),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.begin_string(),
            '\n' => self.new_line(),
            '\r' => self.column = 0,
            '\u{8}' => self.column = self.column.saturating_sub(1),
            '\t' => self.put(c),
            c if c.is_control() => {}
            c => self.put(c),
        }
    }

    fn escape(&mut self, c: char) {
        match c {
            '[' => self.begin_csi(),
            ']' | 'P' | 'X' | '^' | '_' => self.begin_string(),
            '\u{1b}' => {}
            ' '..='/' => self.state = State::EscapeOne,
            '\n' => {
                self.state = State::Ground;
                self.new_line();
            }
            _ => self.state = State::Ground,
        }
    }

    fn begin_csi(&mut self) {
        self.state = State::Csi;
        self.parameters.clear();
    }

    fn begin_string(&mut self) {
        self.state = State::Text;
        self.string_chars = 0;
    }

    fn csi(&mut self, c: char) {
        match c {
            ' '..='?' if self.parameters.len() < 64 => self.parameters.push(c),
            ' '..='?' => {}
            '@'..='~' => {
                self.state = State::Ground;
                self.control(c);
            }
            '\u{1b}' => self.state = State::Escape,
            // A broken sequence: what follows is text again, and no line is lost.
            c => {
                self.state = State::Ground;
                self.ground(c);
            }
        }
    }

    fn control(&mut self, last: char) {
        let number = || self.parameters.parse::<usize>().unwrap_or(0);
        match last {
            'K' => match number() {
                0 => self.line.truncate(self.column),
                1 => {
                    let until = (self.column + 1).min(self.line.len());
                    self.line[..until].fill(' ');
                }
                _ => self.line.clear(),
            },
            'G' => self.column = number().saturating_sub(1).min(COLUMNS_MAX - 1),
            'C' => self.column = (self.column.saturating_add(number().max(1))).min(COLUMNS_MAX - 1),
            'D' => self.column = self.column.saturating_sub(number().max(1)),
            'h' | 'l' => {
                let is_alternate = self
                    .parameters
                    .strip_prefix('?')
                    .is_some_and(|list| list.split(';').any(|mode| matches!(mode, "47" | "1047" | "1049")));
                if is_alternate {
                    self.switch(last == 'h');
                }
            }
            _ => {}
        }
    }

    fn switch(&mut self, alternate: bool) {
        if alternate && !self.alternate {
            self.flush_line();
        }
        if let Some(start) = self.alternate_at_gap.take()
            && !alternate
        {
            self.line.clear();
            self.done.truncate(start);
        }
        if !alternate {
            self.column = self.line.len().min(self.column);
        }
        self.alternate = alternate;
    }

    fn string(&mut self, c: char) {
        self.string_chars += 1;
        match (self.state, c) {
            (_, '\u{7}' | '\u{9c}' | '\u{18}' | '\u{1a}') | (State::TextEscape, '\\') => self.state = State::Ground,
            (_, '\u{1b}') => self.state = State::TextEscape,
            // ESC and anything but a backslash aborts the string and begins a sequence of its own.
            (State::TextEscape, c) => {
                self.state = State::Escape;
                self.escape(c);
            }
            _ if self.string_chars > STRING_CHARS_MAX => self.state = State::Ground,
            _ => {}
        }
    }

    fn put(&mut self, c: char) {
        if self.alternate {
            return;
        }
        if self.column >= COLUMNS_MAX {
            self.new_line();
        }
        if self.column < self.line.len() {
            self.line[self.column] = c;
        } else {
            self.line.resize(self.column, ' ');
            self.line.push(c);
        }
        self.column += 1;
    }

    fn new_line(&mut self) {
        if self.alternate {
            return;
        }
        let text: String = self.line.drain(..).collect();
        self.done.push_str(text.trim_end());
        self.done.push('\n');
        self.column = 0;
    }

    fn flush_line(&mut self) {
        if !self.line.is_empty() {
            self.new_line();
        }
    }

    fn gap(&mut self, omitted_bytes: u64) {
        self.state = State::Ground;
        self.flush_line();
        self.done.push_str(&format!("… {omitted_bytes} bytes omitted …\n"));
        if self.alternate {
            self.alternate = false;
            self.alternate_at_gap = Some(self.done.len());
        }
    }

    fn finish(mut self) -> String {
        self.alternate = false;
        self.flush_line();
        self.done.truncate(self.done.trim_end().len());
        self.done
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str) -> String {
        plain_text(&Capture { head: text.as_bytes().to_vec(), ..Capture::default() })
    }

    #[test]
    fn the_text_that_a_person_saw_last_remains() {
        let table = [
            ("a\r\nb\r\n", "a\nb"),
            ("\x1b[1;31mred\x1b[0m é\x1b(B", "red é"),
            ("\x1b]0;title\x07x\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\", "xlink"),
            ("\x1bPq#0;2\x1b\\after", "after"),
            (" 10%\r 50%\r100%\ndone", "100%\ndone"),
            ("long words\rx\x1b[K\n", "x"),
            ("abcdef\rxy\n", "xycdef"),
            ("ab\x08c\n", "ac"),
            ("a\x1b[4Gb\n", "a  b"),
            ("before\n\x1b[?1049h\x1b[2Jvim draws\r\nthis\x1b[?1049lafter\n", "before\nafter"),
            ("bell\x07 nul\0 c1\u{85}\n", "bell nul c1"),
            ("cut \x1b[31", "cut"),
            ("\x1b]0;never ends\nlost?", ""),
            ("\u{9b}31mred", "red"),
            ("tab\there  \n\n\n", "tab\there"),
        ];
        for (raw, seen) in table {
            assert_eq!(plain(raw), seen, "{raw:?}");
        }
    }

    #[test]
    fn a_gap_is_marked_and_ends_no_text() {
        let capture = |head: &str, omitted_bytes, tail: &[u8]| Capture {
            head: head.as_bytes().to_vec(),
            tail: tail.to_vec(),
            omitted_bytes,
        };
        assert_eq!(plain_text(&capture("a\x1b[3", 9, b"\xa9b\n")), "a\n… 9 bytes omitted …\nb");
        assert_eq!(plain_text(&capture("a\x1b[3", 0, b"1mb\n")), "ab");
        let drawn = capture("a\n\x1b[?1049hdraw", 9, b"draw\x1b[?1049lb\n");
        assert_eq!(plain_text(&drawn), "a\n… 9 bytes omitted …\nb");
        assert_eq!(plain_text(&capture("a\n\x1b[?1049hdraw", 9, b"b\n")), "a\n… 9 bytes omitted …\nb");
    }

    #[test]
    fn a_cursor_column_cannot_ask_for_memory() {
        assert!(plain("\x1b[99999999999Gx\x1b[99999999Gy\x1b[99999999Cz").len() < 3 * COLUMNS_MAX);
    }

    proptest! {
        #[test]
        fn no_control_character_ever_remains(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"\x1b[]?1049hlKGCD;\r\n\x07\\ab".to_vec())], 0..200),
            tail in prop::collection::vec(any::<u8>(), 0..50), omitted_bytes in 0u64..2) {
            let text = plain_text(&Capture { head: bytes, tail, omitted_bytes });
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{:?}", text);
        }
    }
}
