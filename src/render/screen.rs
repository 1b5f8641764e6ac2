//! The output of programs for another person's screen: drawing passes, questions and commands to the terminal don't.
//!
//! Owns the rule of what may pass: text, colours, movements of the cursor, erasing, scrolling, and the modes that
//! change how a screen looks. Titles, links, clipboards, fonts, pictures, questions to the terminal, the mouse and the
//! bell are removed. Must not know who looks at the screen.
//!
//! Line drawing by a second character set becomes the characters themselves, so that the text describes the whole screen.

/// Characters of a control sequence that are read before it is dropped.
const SEQUENCE_CHARS_MAX: usize = 256;
/// Private modes that change how a screen looks.
const MODES: [&str; 11] = ["1", "5", "6", "7", "12", "25", "45", "47", "1047", "1048", "1049"];
/// The characters of the second set from `` ` `` on.
const LINES: [char; 31] = [
    '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴',
    '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// Passes output that arrives in pieces, cut anywhere.
#[derive(Clone, Debug, Default)]
pub struct ScreenFilter {
    state: State,
    /// The bytes of a character that isn't whole yet.
    partial: Vec<u8>,
    /// The sequence that is being read.
    sequence: String,
    /// `true` if each of the two sets draws lines, and which of them is in use.
    draws_lines: [bool; 2],
    set: usize,
    lasting: Lasting,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Csi,
    Text,
    TextEscape,
}

/// The settings of a screen that its picture doesn't show, for each of its two halves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lasting {
    /// The scrolling rows, as the sequence that sets them; of the usual half, then of the other one.
    rows: [String; 2],
    is_alternate: bool,
    no_wrap: bool,
    origin: bool,
}

impl ScreenFilter {
    /// Returns the part of a piece, and of the held text, that may be shown.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut out = String::with_capacity(bytes.len());
        let joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            joined = [std::mem::take(&mut self.partial).as_slice(), bytes].concat();
            rest = &joined;
        }
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    text.chars().for_each(|c| self.step(c, &mut out));
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    String::from_utf8_lossy(valid).chars().for_each(|c| self.step(c, &mut out));
                    match error.error_len() {
                        Some(length) => {
                            self.step(char::REPLACEMENT_CHARACTER, &mut out);
                            rest = &after[length..];
                        }
                        None => {
                            self.partial = after.to_vec();
                            break;
                        }
                    }
                }
            }
        }
        out
    }

    /// The sequences that set what a picture of the screen doesn't show: the scrolling rows of its usual half and, if
    /// it is in use, of the other one, and its modes. They move the cursor.
    #[must_use]
    pub fn lasting(&self) -> [String; 2] {
        let mut modes = String::new();
        if self.lasting.no_wrap {
            modes.push_str("\x1b[?7l");
        }
        if self.lasting.origin {
            modes.push_str("\x1b[?6h");
        }
        let [usual, other] = &self.lasting.rows;
        if self.lasting.is_alternate {
            [usual.clone(), format!("{other}{modes}")]
        } else {
            [format!("{usual}{modes}"), String::new()]
        }
    }

    fn step(&mut self, c: char, out: &mut String) {
        match (self.state, c) {
            (State::Text, '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}') => self.state = State::Ground,
            (State::Text, '\x1b') => self.state = State::TextEscape,
            (State::TextEscape, '\\') => self.state = State::Ground,
            (State::Text, _) => {}
            // The string ended without its terminator: another sequence begins.
            (State::TextEscape, _) => {
                self.begin(State::Escape);
                self.step(c, out);
            }
            (_, '\x1b') => self.begin(State::Escape),
            (_, '\u{18}' | '\u{1a}') => self.state = State::Ground,
            (_, c) if c.is_control() => self.control(c, out),
            (State::Ground, c) => out.push(self.drawn(c)),
            (State::Escape, c) => self.escape(c, out),
            (State::Csi, c) => self.csi(c, out),
        }
    }

    fn begin(&mut self, state: State) {
        self.state = state;
        self.sequence.clear();
    }

    /// A control acts even in the middle of a sequence.
    fn control(&mut self, c: char, out: &mut String) {
        match c {
            '\u{8}' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' => out.push(c),
            '\u{e}' => self.set = 1,
            '\u{f}' => self.set = 0,
            '\u{9b}' => self.begin(State::Csi),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.begin(State::Text),
            _ => {}
        }
    }

    fn drawn(&self, c: char) -> char {
        let line = |c: char| LINES.get(u32::from(c).checked_sub(u32::from('`'))? as usize).copied();
        if self.draws_lines[self.set] { line(c).unwrap_or(c) } else { c }
    }

    fn escape(&mut self, c: char, out: &mut String) {
        match (self.sequence.chars().next(), c) {
            (None, '[') => return self.begin(State::Csi),
            (None, ']' | 'P' | 'X' | '^' | '_') => return self.begin(State::Text),
            (_, ' '..='/') if self.sequence.len() < SEQUENCE_CHARS_MAX => return self.sequence.push(c),
            (None, 'c') => {
                // A full reset.
                let partial = std::mem::take(&mut self.partial);
                *self = Self { partial, ..Self::default() };
                out.push_str("\x1bc");
            }
            (None, '7' | '8' | 'D' | 'E' | 'H' | 'M' | '=' | '>') => {
                out.push('\x1b');
                out.push(c);
            }
            (Some('('), c) => self.draws_lines[0] = c == '0',
            (Some(')'), c) => self.draws_lines[1] = c == '0',
            _ => {}
        }
        self.state = State::Ground;
    }

    fn csi(&mut self, c: char, out: &mut String) {
        match c {
            ' '..='?' if self.sequence.len() < SEQUENCE_CHARS_MAX => self.sequence.push(c),
            '@'..='~' => {
                self.state = State::Ground;
                let sequence = std::mem::take(&mut self.sequence);
                self.dispatch(&sequence, c, out);
                self.sequence = sequence;
            }
            _ => self.state = State::Ground,
        }
    }

    fn dispatch(&mut self, parameters: &str, last: char, out: &mut String) {
        let prefix = parameters.chars().next().filter(|c| "<=>?".contains(*c));
        let middle = parameters.contains(|c| matches!(c, ' '..='/'));
        match (prefix, middle) {
            (None, false) => match last {
                'h' | 'l' if !matches!(parameters, "4" | "20") => return,
                'r' => self.lasting.rows[usize::from(self.lasting.is_alternate)] = format!("\x1b[{parameters}r"),
                '@'..='I'
                | 'J'..='M'
                | 'P'
                | 'S'
                | 'T'
                | 'X'
                | 'Z'
                | '`'
                | 'a'
                | 'b'
                | 'd'..='h'
                | 'l'
                | 'm'
                | 's'
                | 'u' => {}
                _ => return,
            },
            (Some('?'), false) if matches!(last, 'h' | 'l') => return self.modes(&parameters[1..], last == 'h', out),
            (Some('?'), false) if matches!(last, 'J' | 'K') => {}
            // The form of the cursor, and the soft reset.
            (None, true) if last == 'q' && parameters.ends_with(' ') => {}
            (None, true) if last == 'p' && parameters == "!" => {
                let is_alternate = self.lasting.is_alternate;
                self.lasting = Lasting { is_alternate, ..Lasting::default() };
                (self.draws_lines, self.set) = ([false; 2], 0);
            }
            _ => return,
        }
        out.push_str("\x1b[");
        out.push_str(parameters);
        out.push(last);
    }

    fn modes(&mut self, modes: &str, is_on: bool, out: &mut String) {
        let last = if is_on { 'h' } else { 'l' };
        for mode in modes.split(';').filter(|mode| MODES.contains(mode)) {
            match mode {
                "6" => self.lasting.origin = is_on,
                "7" => self.lasting.no_wrap = !is_on,
                "1048" => {
                    out.push_str(if is_on { "\x1b7" } else { "\x1b8" });
                    continue;
                }
                "47" | "1047" | "1049" => {
                    if is_on && !self.lasting.is_alternate {
                        self.lasting.rows[1].clear();
                    }
                    self.lasting.is_alternate = is_on;
                }
                _ => {}
            }
            // Few emulators know the mode between the other two.
            let mode = if mode == "1047" { "47" } else { mode };
            out.push_str(&format!("\x1b[?{mode}{last}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passed(bytes: &[u8]) -> String {
        ScreenFilter::default().push(bytes)
    }

    #[test]
    fn drawing_sequences_pass_and_terminal_commands_are_dropped() {
        for same in [
            "plain ünï 日本\r\n\t\u{8}",
            "\x1b[1;31mred\x1b[0m",
            "\x1b[2J\x1b[H\x1b[10;20Hx\x1b[K",
            "\x1b[3;20r\x1b[S\x1b[2L\x1b[P",
            "\x1b[?25l\x1b[?1049h\x1b[?7l",
            "\x1b7\x1b8\x1bM\x1bD\x1b=",
            "\x1b[5 q\x1b[!p",
            "\x1b[38:2::1:2:3mx",
        ] {
            assert_eq!(passed(same.as_bytes()), same, "{same:?}");
        }
        for (input, left) in [
            ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
            ("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "alink"),
            ("a\x1b]50;font\x07\x1b]0;title\x07b", "ab"),
            ("a\x1bP1$qm\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\dX\x1bXz\x1b\\e", "abcdXe"),
            ("a\x1bPq#0;2;0\nstill a picture\x1b\\b", "ab"),
            ("\x1b[6n\x1b[c\x1b[>c\x1b[0x\x1b[?6n\x1b[>q\x1bZ\x05", ""),
            ("\x1b[8;10;10t\x1b[21t\x1b[>4;2m\x1b[=1u\x1b[?1u", ""),
            ("\x1b[?1000;1006;25h\x1b[?1004h\x1b[?2004h", "\x1b[?25h"),
            ("\x1b[?1047h\x1b[?1048h", "\x1b[?47h\x1b7"),
            ("bell\x07\0", "bell"),
            ("\u{9d}52;c;x\u{9c}y\u{9b}31mz", "y\x1b[31mz"),
            ("\x1b(0lqk\x1b(Bq\x0e\x1b)0x\x0fx", "┌─┐q│x"),
            ("\x1b[12\r3mx", "\r\x1b[123mx"),
        ] {
            assert_eq!(passed(input.as_bytes()), left, "{input:?}");
        }
        assert_eq!(passed(b"a\xffb\xe2\x82"), "a\u{fffd}b", "the rest of a character is waited for");
    }

    #[test]
    fn rows_that_scroll_and_modes_are_known_for_each_half() {
        let mut filter = ScreenFilter::default();
        filter.push(b"\x1b[2;5r\x1b[?7l");
        assert_eq!(filter.lasting(), ["\x1b[2;5r\x1b[?7l".to_owned(), String::new()]);
        filter.push(b"\x1b[?1049h\x1b[1;9r\x1b[?6h");
        assert_eq!(filter.lasting(), ["\x1b[2;5r", "\x1b[1;9r\x1b[?7l\x1b[?6h"]);
        filter.push(b"\x1bc");
        assert_eq!(filter.lasting(), [String::new(), String::new()]);
    }

    proptest! {
        #[test]
        fn cutting_changes_nothing_and_nothing_dangerous_passes(
            pieces in prop::collection::vec(prop_oneof![
                prop::sample::select(vec!["\x1b]52;c;YQ==", "\x1b[", "6n", "\x07", "\x1b\\", "\x1bP", "é日", "m", "?1049h", "\x1b(0", "q", "\u{9d}", "\u{9c}"]).prop_map(|it| it.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..6),
            ], 0..30),
            cut in 1usize..7,
        ) {
            let bytes = pieces.concat();
            let whole = passed(&bytes);
            let mut filter = ScreenFilter::default();
            let cut: String = bytes.chunks(cut).map(|piece| filter.push(piece)).collect();
            prop_assert_eq!(&cut, &whole);
            prop_assert!(!whole.contains("\x1b]") && !whole.contains("\x1bP") && !whole.contains('\x07'), "{:?}", whole);
            prop_assert_eq!(passed(whole.as_bytes()), whole.clone(), "what has passed passes again");
        }
    }
}
