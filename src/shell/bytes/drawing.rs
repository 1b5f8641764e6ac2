//! The drawing of the shell's own line editor, which stays hidden, and the lines of our integration that the shell prints. Pure.

use crate::shell::spawn::Dialect;

/// Limit on the drawing of a line: readline draws a line in one row, so anything longer is something else.
const DRAWN_BYTES_MAX: usize = 16 * 1024;

/// The starts of our own lines, as the shell prints them under `set -v`.
const OWN_LINES: [&[u8]; 2] = [b"{ __rc_", b"if __rc_"];

/// readline's drawing of a line that was handed over, up to the line feed that ends it.
#[derive(Debug, Default)]
pub(in crate::shell) struct Echo {
    /// Number of rows still to come.
    rows: usize,
    /// `true` if the terminal itself echoes: then empty rows count.
    plain: bool,
    drawn: Vec<u8>,
}

impl Echo {
    /// Waits for a drawing of one row, if `open`.
    pub(in crate::shell) fn new(open: bool) -> Self {
        Self { rows: usize::from(open), ..Self::default() }
    }

    /// Waits for the terminal's own echo of a text.
    pub(in crate::shell) fn of_terminal(rows: usize) -> Self {
        Self { rows, plain: true, ..Self::default() }
    }

    /// Returns whether the drawing hasn't ended.
    pub(in crate::shell) fn is_open(&self) -> bool {
        self.rows > 0
    }

    /// Ends the wait.
    pub(in crate::shell) fn close(&mut self) {
        *self = Self::default();
    }

    /// Removes the drawing from the front of `bytes` and returns the rest. A terminal of unknown type gets an empty row first,
    /// and `set -v` prints our own line there.
    pub(in crate::shell) fn take<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while self.rows > 0 {
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                self.drawn.extend_from_slice(bytes);
                if self.drawn.len() > DRAWN_BYTES_MAX {
                    self.close();
                }
                return b"";
            };
            self.drawn.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            if self.plain || has_text(&self.drawn) && !is_own(&self.drawn) {
                self.rows -= 1;
            }
            self.drawn.clear();
        }
        bytes
    }
}

/// Limit on the number of bytes by which one of our own lines is recognised.
const OWN_BYTES_MAX: usize = 8;

/// The position at which a line ends with the first `length` bytes of one of ours.
fn cut_start(line: &[u8], length: usize) -> Option<usize> {
    let is_cut = |own: &&[u8]| own.len() > length && line.ends_with(&own[..length]);
    OWN_LINES.iter().any(is_cut).then(|| line.len() - length)
}

/// Returns whether a row shows anything.
fn has_text(row: &[u8]) -> bool {
    ends_open(row, false)
}

/// Returns whether a row is a line of our integration.
fn is_own(row: &[u8]) -> bool {
    let row = row.trim_ascii_end();
    let start = row.iter().rposition(|byte| *byte == b'\r').map_or(0, |at| at + 1);
    OWN_LINES.iter().any(|own| row[start..].starts_with(own))
}

/// Removes our own lines from the output of a shell that prints the lines it reads.
#[derive(Debug, Default)]
pub(in crate::shell) struct OwnLines {
    /// The bytes that may be the start of such a line.
    held: Vec<u8>,
}

impl OwnLines {
    /// Returns whether the start of a line is held back.
    pub(in crate::shell) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the bytes that were held back.
    pub(in crate::shell) fn release(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// The output without our own lines.
    pub(in crate::shell) fn without(&mut self, bytes: &[u8]) -> Vec<u8> {
        let bytes = [std::mem::take(&mut self.held), bytes.to_vec()].concat();
        let mut shown = Vec::with_capacity(bytes.len());
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let own = OWN_LINES.iter().filter_map(|own| memchr::memmem::find(line, own)).min();
            let cut = own.or_else(|| (1..OWN_BYTES_MAX).rev().find_map(|length| cut_start(line, length)));
            let (before, from) = line.split_at(cut.unwrap_or(line.len()));
            shown.extend_from_slice(before);
            if !from.ends_with(b"\n") {
                self.held = from.to_vec();
            }
        }
        shown
    }
}

/// Removes the shell's own drawing of its empty line; the rest is output. readline redraws it when the window changes: the start
/// of the line, then an erase. On a terminal without capabilities zsh and fish draw more.
pub(in crate::shell) fn without_drawing(bytes: &[u8], dialect: Dialect) -> &[u8] {
    const PASTE: [&[u8]; 2] = [b"\x1b[?2004h", b"\x1b[?2004l"];
    const CLEAR: &[u8] = b"\x1b[K";
    if dialect == Dialect::Bash {
        let mut rest = bytes;
        let mut cleared = false;
        while let Some((first, after)) = rest.split_first() {
            match rest.strip_prefix(CLEAR) {
                Some(after) => (rest, cleared) = (after, true),
                None if matches!(first, b'\r' | b'\n') => rest = after,
                None => return bytes,
            }
        }
        return if cleared { b"" } else { bytes };
    }
    let mut rest = bytes;
    loop {
        let trimmed = PASTE.iter().find_map(|mode| rest.strip_prefix(*mode)).unwrap_or(rest);
        let trimmed = match trimmed {
            [b'\r' | b'\n' | 7, after @ ..] => after,
            other => other,
        };
        if trimmed.len() == rest.len() {
            break;
        }
        rest = trimmed;
    }
    let end = rest.iter().rposition(|byte| !matches!(byte, b'\r' | b' ' | 7)).map_or(0, |last| last + 1);
    &rest[..end]
}

/// Removes the first thing that a shell draws for Ctrl-C at its empty line.
pub(in crate::shell) fn without_interrupt(bytes: &[u8]) -> &[u8] {
    let rest = bytes.trim_ascii_start();
    rest.strip_prefix(b"^C").unwrap_or(rest).trim_ascii_start()
}

/// Splits off fish's mark for a line that a command left open: the program draws a mark of its own.
pub(in crate::shell) fn around_abandoned_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some(at) = memchr::memmem::find(bytes, "⏎".as_bytes()) else { return (bytes, b"") };
    let before = &bytes[..at];
    let before = before.strip_suffix(b"\x1b[2m").unwrap_or(before);
    // The mark, blanks up to the edge, then an erase of both.
    const CLEARED: &[u8] = b"\r\x1b[K";
    let end = memchr::memmem::find(&bytes[at..], CLEARED).map(|end| at + end + CLEARED.len());
    let Some(end) = end.or_else(|| memchr::memrchr(b'\r', bytes).map(|end| end + 1)) else { return (before, b"") };
    (before, &bytes[end..])
}

/// Returns whether the cursor is certainly in the first column after this output, if it was `before`: only colours follow the
/// last full line end. After a program has moved the cursor itself, nothing is certain.
pub(in crate::shell) fn ends_in_first_column(bytes: &[u8], before: bool) -> bool {
    let (mut certain, mut rest) = match memchr::memmem::rfind(bytes, b"\r\n") {
        Some(at) => (true, &bytes[at + 2..]),
        None => (before, bytes),
    };
    while certain && let Some(after) = rest.strip_prefix(b"\x1b[") {
        let end = after.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':'));
        certain = end.is_some_and(|end| after[end] == b'm');
        rest = &after[end.map_or(after.len(), |end| end + 1)..];
    }
    certain && rest.is_empty()
}

/// Returns whether output leaves the cursor inside a line, judged by its last byte that isn't part of an escape
/// sequence.
pub(in crate::shell) fn ends_open(bytes: &[u8], before: bool) -> bool {
    let mut open = before;
    let window = &bytes[bytes.len().saturating_sub(256)..];
    let mut rest = window;
    while let Some((first, after)) = rest.split_first() {
        match first {
            0x1b => {
                let length = match after.first() {
                    Some(b'[') => after[1..].iter().position(|b| (0x40..0x7f).contains(b)).map(|end| end + 2),
                    Some(b']') => after.iter().position(|b| *b == 7 || *b == b'\\').map(|end| end + 1),
                    // A character set has one more byte.
                    Some(b'(' | b')' | b'*' | b'+' | b'#' | b'%') => (after.len() > 1).then_some(2),
                    Some(_) => Some(1),
                    None => None,
                };
                match length {
                    Some(length) => rest = &after[length..],
                    None => return open,
                }
            }
            b'\n' => {
                open = false;
                rest = after;
            }
            b'\r' => rest = after,
            0x20.. => {
                open = true;
                rest = after;
            }
            _ => rest = after,
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_empty_line_is_nothing_and_a_notice_stays() {
        let table: [(&[u8], &[u8]); 6] = [
            (b" \r", b""),
            (b"\x1b[?2004h\r", b""),
            (b"\r\r\n[1]  + done       sleep 1\r\n \r", b"[1]  + done       sleep 1\r\n"),
            (b"\r\nfish: Job 1, 'sleep 1 &' has ended\r\n\r", b"fish: Job 1, 'sleep 1 &' has ended\r\n"),
            (b"  indented\r\n", b"  indented\r\n"),
            (b"", b""),
        ];
        for (drawn, left) in table {
            assert_eq!(without_drawing(drawn, Dialect::Zsh), left, "{}", String::from_utf8_lossy(drawn));
            assert_eq!(without_drawing(drawn, Dialect::Bash), drawn);
        }
        for (drawn, left) in
            [(&b"\r\x1b[K\r\r\n"[..], &b""[..]), (b"\r\x1b[K\rjob\r\n", b"\r\x1b[K\rjob\r\n"), (b"\r\n", b"\r\n")]
        {
            assert_eq!(without_drawing(drawn, Dialect::Bash), left, "{}", String::from_utf8_lossy(drawn));
        }
    }

    #[test]
    fn the_drawing_of_a_line_ends_with_its_row() {
        let table: [(&str, &str); 5] = [
            ("\r\x1b[Kecho hi\r\nhi\r\n", "hi\r\n"),
            ("\r\n\recho hi\r\n\r\n", "\r\n"),
            ("\r\x1b[K\r{ __rc_load \"$_\"; } >/dev/null 2>&1\r\n\r\x1b[Kls\r\nls\r\na\r\n", "ls\r\na\r\n"),
            ("\r\x1b[K\r\x1b[Kls -l\r\nx", "x"),
            ("\r\x1b[Kls", ""),
        ];
        for (bytes, rest) in table {
            for cut in 0..bytes.len() {
                let mut echo = Echo::new(true);
                let first = echo.take(&bytes.as_bytes()[..cut]).to_vec();
                let second = echo.take(&bytes.as_bytes()[cut..]).to_vec();
                assert_eq!(String::from_utf8([first, second].concat()).unwrap(), rest, "{bytes:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn lines_of_our_own_are_taken_out_of_verbose_output() {
        let text = "a\r\nif __rc_both $?; then x; fi >/dev/null 2>&1\r\nif you\r\nhalf{ __rc_done; } 2>&1\r\nend";
        for cut in 0..text.len() {
            let mut own = OwnLines::default();
            let mut seen = own.without(&text.as_bytes()[..cut]);
            seen.extend(own.without(&text.as_bytes()[cut..]));
            seen.extend(own.release());
            assert_eq!(String::from_utf8(seen).unwrap(), "a\r\nif you\r\nhalfend", "cut at {cut}");
        }
    }

    #[test]
    fn fish_s_mark_of_an_open_line_is_cut_out() {
        let mark = "hook\r\n\x1b[2m⏎\x1b(B\x1b[m     \r⏎ \r\x1b[K".as_bytes();
        assert_eq!(around_abandoned_line(mark), (&b"hook\r\n"[..], &b""[..]));
        let before_hook = "\x1b[2m⏎\x1b(B\x1b[m     \r⏎ \r\x1b[Khook\r\n".as_bytes();
        assert_eq!(around_abandoned_line(before_hook), (&b""[..], &b"hook\r\n"[..]));
        assert_eq!(around_abandoned_line(b"plain\r\n"), (&b"plain\r\n"[..], &b""[..]));
    }

    #[test]
    fn the_first_column_is_certain_after_a_full_line_end_alone() {
        for (output, expected) in [
            (&b""[..], true),
            (b"text\r\n", true),
            (b"\x1b[31mtext\r\n\x1b[0m\x1b[m", true),
            (b"\x1b[5;5Hx\r\n", true),
            (b"text", false),
            (b"text\n", false),
            (b"text\r\nmore", false),
            (b"text\r\n\x1b[A", false),
            (b"text\r\n\x1b[3", false),
            (b"\x1b[?1049l", false),
            (b"\x1b[0m", true),
        ] {
            assert_eq!(ends_in_first_column(output, true), expected, "{output:?}");
        }
        assert!(!ends_in_first_column(b"\x1b[0m", false) && ends_in_first_column(b"\r\n", false));
    }

    #[test]
    fn an_open_line_is_known_by_its_last_visible_byte() {
        assert!(!ends_open(b"", false));
        assert!(ends_open(b"abc", false));
        assert!(!ends_open(b"abc\r\n", false));
        assert!(!ends_open(b"abc\r\n\x1b[0m\x1b]0;title\x07", false));
        assert!(ends_open(b"abc\n\x1b[1mx\x1b[0m", false));
        assert!(ends_open(b"\x1b[0m", true));
        assert!(!ends_open(b"\x1b]0;false ~\x07\x1b[30m\x1b(B\x1b[m\r", false));
    }
}
