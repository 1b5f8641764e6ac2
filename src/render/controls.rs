//! Captured command output to plain text, for the model's copy.
//!
//! Owns the last state of a line: escape sequences are removed, carriage returns, backspaces and moves within a line
//! are applied, so that only the last state of a progress bar remains. Must not know capture limits or the reader.
//! Linear: a line without controls is copied after one look at its bytes.

use memchr::{memchr, memchr2};

/// Bytes within which the end of a string sequence (a title, a picture) is looked for.
const STRING_SEARCH_BYTES: usize = 64 * 1024;
/// Bytes swallowed of a string sequence that has no end.
const STRING_BYTES_MAX: usize = 4096;
/// Columns that a cursor move can reach beyond the text: wider than any real table.
const COLUMN_MAX: usize = 512;
/// Blanks that all moves of one text may add together, so that a few bytes can't become megabytes.
const PADDING_MAX: usize = 64 * 1024;

/// Returns the text that remains on a terminal after these bytes, line by line, without escape sequences and without
/// control characters other than newline and tab. Invalid UTF-8 becomes U+FFFD. Moves between lines are ignored.
#[must_use]
pub fn strip_controls(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut screen = Screen { cells: Vec::new(), cursor: 0, padding_left: PADDING_MAX };
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr(b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        // A terminal line ends with CR LF, some with more than one CR: at the end of a line they overwrite nothing.
        let visible = &line[..line.iter().rposition(|&byte| byte != b'\r').map_or(0, |at| at + 1)];
        // 0xC2 begins the two-byte form of the C1 controls.
        if visible.iter().all(|&byte| (byte >= 0x20 && byte != 0x7f && byte != 0xc2) || byte == b'\t') {
            text.push_str(&String::from_utf8_lossy(visible));
        } else {
            screen.line(&String::from_utf8_lossy(visible), &mut text);
        }
        match end {
            Some(at) => {
                text.push('\n');
                rest = &rest[at + 1..];
            }
            None => break,
        }
    }
    text
}

struct Screen {
    cells: Vec<char>,
    cursor: usize,
    padding_left: usize,
}

impl Screen {
    fn line(&mut self, line: &str, text: &mut String) {
        self.cells.clear();
        self.cursor = 0;
        let mut at = 0;
        while let Some(c) = line[at..].chars().next() {
            let next = at + c.len_utf8();
            at = match c {
                '\u{1b}' => self.escape(line, next),
                '\u{9b}' => self.csi(line, next),
                '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => string_end(line, next),
                _ => next,
            };
            match c {
                '\r' => self.cursor = 0,
                '\u{8}' => self.cursor = self.cursor.saturating_sub(1),
                '\t' => self.put(c),
                _ if c.is_control() => {}
                _ => self.put(c),
            }
        }
        text.extend(&self.cells);
    }

    fn put(&mut self, c: char) {
        while self.cells.len() < self.cursor && self.padding_left > 0 {
            self.cells.push(' ');
            self.padding_left -= 1;
        }
        self.cursor = self.cursor.min(self.cells.len());
        match self.cells.get_mut(self.cursor) {
            Some(cell) => *cell = c,
            None => self.cells.push(c),
        }
        self.cursor += 1;
    }

    /// Reads the sequence whose ESC ends at `at`; returns its end.
    fn escape(&mut self, line: &str, at: usize) -> usize {
        let bytes = line.as_bytes();
        match bytes.get(at) {
            Some(b'[') => self.csi(line, at + 1),
            Some(b']' | b'P' | b'X' | b'^' | b'_') => string_end(line, at + 1),
            Some(b' '..=b'~') => {
                let intermediates = bytes[at..].iter().take_while(|byte| matches!(byte, b' '..=b'/')).count();
                let last = at + intermediates;
                if matches!(bytes.get(last), Some(b'0'..=b'~')) { last + 1 } else { last }
            }
            _ => at,
        }
    }

    fn csi(&mut self, line: &str, at: usize) -> usize {
        let bytes = line.as_bytes();
        let end = at + bytes[at..].iter().take_while(|byte| matches!(byte, b' '..=b'?')).count();
        let Some(&last @ b'@'..=b'~') = bytes.get(end) else { return end };
        let first = line[at..end].split(';').next().unwrap_or_default();
        // A count beyond any integer is ignored.
        let number: Option<usize> = first.parse().ok();
        let count = number.unwrap_or(1).max(1);
        let furthest = self.cells.len().max(COLUMN_MAX);
        match last {
            b'C' => self.cursor = self.cursor.saturating_add(count).min(furthest),
            b'D' => self.cursor = self.cursor.saturating_sub(count),
            b'G' => self.cursor = (count - 1).min(furthest),
            b'P' if self.cursor < self.cells.len() => {
                let gone = count.min(self.cells.len() - self.cursor);
                self.cells.drain(self.cursor..self.cursor + gone);
            }
            b'K' => match number.unwrap_or(0) {
                0 => self.cells.truncate(self.cursor),
                1 => {
                    let upto = (self.cursor + 1).min(self.cells.len());
                    self.cells[..upto].fill(' ');
                }
                _ => self.cells.clear(),
            },
            _ => {}
        }
        end + 1
    }
}

/// Returns the end of the string sequence whose payload begins at `at`: after its terminator, before another escape, or
/// after a bounded part of the line.
fn string_end(line: &str, at: usize) -> usize {
    let bytes = line.as_bytes();
    let window = &bytes[at..bytes.len().min(at + STRING_SEARCH_BYTES)];
    match memchr2(7, 0x1b, window) {
        Some(found) if window[found] == 7 => at + found + 1,
        Some(found) if bytes.get(at + found + 1) == Some(&b'\\') => at + found + 2,
        Some(found) => at + found,
        None => line.floor_char_boundary(at + STRING_BYTES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_state_of_each_line_remains() {
        let table: &[(&[u8], &str)] = &[
            (b"plain\tline\r\n  next  \n\n", "plain\tline\n  next  \n\n"),
            (b"\x1b[1;31mred\x1b[0m and \x1b]0;title\x07after", "red and after"),
            (b" 10%\r 50%\r100%\r\ndone\n", "100%\ndone\n"),
            (b"downloading 10%\r\x1b[Kdone", "done"),
            (b"long text\rnew", "newg text"),
            (b"abc\x08\x08X", "aXc"),
            (b"N\x08Na\x08am\x08me _\x08u", "Name u"),
            (b"secret\x1b[2K\rshown", "shown"),
            (b"a\x1b[10Gb", "a        b"),
            (b"ab\x1b[Dc\x1b[2Dd", "dc"),
            (b"abcdef\x1b[6D\x1b[2P", "cdef"),
            (b"a\x1b[999999999999999999999999Cb", "a b"),
            (b"bad \xff\xfe utf8 \xc3\xa9 \xc2\xa7", "bad \u{fffd}\u{fffd} utf8 é §"),
            (b"a\x00\x07\x7f\x0e\x0fb\x1b(Bc\x1b=d\x1b7", "abcd"),
            (b"a\xc2\x9b31mb", "ab"),
            (b"pic\x1bPq#0;2;0\x1b\\ture", "picture"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"cut\x1b", "cut"),
            (b"cut\x1b[3", "cut"),
            (b"", ""),
        ];
        for (bytes, text) in table {
            assert_eq!(&strip_controls(bytes), text, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn moves_can_not_blow_the_text_up() {
        let bytes = b"\x1b[512Gx\n".repeat(10_000);
        assert!(strip_controls(&bytes).len() < bytes.len() + PADDING_MAX);
        let unterminated = "\u{9d}".repeat(200_000);
        assert_eq!(strip_controls(unterminated.as_bytes()), "");
    }

    proptest! {
        #[test]
        fn no_control_is_left(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0x1b), Just(b'['), Just(b'\r'), Just(8), Just(0xc2), b'0'..b'z'], 0..200)) {
            let text = strip_controls(&bytes);
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{:?}", text);
            prop_assert_eq!(memchr::memchr_iter(b'\n', &bytes).count(), text.matches('\n').count());
        }
    }
}
