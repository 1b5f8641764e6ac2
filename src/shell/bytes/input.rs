//! Splits the person's keys into pieces for the editor. Pure.
//!
//! A piece ends with an Enter or another key at which the editor hands over control; what follows may be meant for the command
//! that the Enter starts. An Enter inside a bracketed paste, or after an escape (Alt-Enter), doesn't count.

/// The parser's state between two reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Csi,
    /// `ESC O`; one more byte belongs to it.
    Ss3,
}

/// Follows the person's keys.
#[derive(Debug, Default)]
pub struct Keys {
    state: State,
    parameters: Vec<u8>,
    pasting: bool,
    /// The bytes of the key so far; after Ctrl-X they begin with it.
    key: Vec<u8>,
}

/// Longest escape sequence that a terminal sends for a key or a reply.
const SEQUENCE_BYTES_MAX: usize = 64;

/// The result of examining the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of bytes of this piece.
    pub length: usize,
    /// `true` if the piece ends with an Enter that submits.
    pub enter: bool,
}

impl Keys {
    /// Finds the end of the piece at the start of `bytes`: after the first submitting Enter or the first of `stops`, or all of
    /// it. `stops` are keys as a terminal without the kitty protocol sends them.
    pub fn next(&mut self, bytes: &[u8], stops: &[Vec<u8>]) -> Cut {
        for (index, byte) in bytes.iter().enumerate() {
            self.key.push(*byte);
            if self.step(*byte) || self.stops_here(stops) {
                self.key.clear();
                return Cut { length: index + 1, enter: true };
            }
        }
        Cut { length: bytes.len(), enter: false }
    }

    /// Returns whether a key ends here at which the editor hands over control.
    fn stops_here(&mut self, stops: &[Vec<u8>]) -> bool {
        const PREFIX: &[u8] = b"\x18";
        if self.state != State::Ground || self.key == PREFIX {
            return false;
        }
        let found = !self.pasting && stops.contains(&to_legacy(&self.key));
        self.key.clear();
        found
    }

    /// Returns whether no escape sequence is open, so that a key of our own may be inserted.
    #[must_use]
    pub fn between_keys(&self) -> bool {
        self.state == State::Ground && !self.pasting
    }

    /// Returns whether the input so far consists of whole keys; an escape at the end counts as the Escape key.
    pub(in crate::shell) fn at_key_end(&self) -> bool {
        matches!(self.state, State::Ground | State::Escape) && !self.pasting
    }

    /// Reads one byte; `true` if it is an Enter that submits.
    pub(in crate::shell) fn step(&mut self, byte: u8) -> bool {
        match self.state {
            State::Ground => match byte {
                0x1b => self.state = State::Escape,
                // At these the editor hands over control and forgets what follows them in one batch: Enter, Ctrl-C, Ctrl-D,
                // Ctrl-T. At Tab and Ctrl-R it opens a menu, which doesn't react to them.
                b'\r' | b'\n' | 0x03 | 0x04 | 0x14 | b'\t' | 0x12 => return !self.pasting,
                _ => {}
            },
            State::Escape => {
                self.state = match byte {
                    b'[' => State::Csi,
                    b'O' => State::Ss3,
                    0x1b => State::Escape,
                    _ => State::Ground,
                };
                self.parameters.clear();
            }
            State::Ss3 => self.state = State::Ground,
            State::Csi => {
                if (0x40..0x7f).contains(&byte) {
                    if byte == b'~' && self.parameters == b"200" {
                        self.pasting = true;
                    } else if byte == b'~' && self.parameters == b"201" {
                        self.pasting = false;
                    }
                    self.state = State::Ground;
                } else if self.parameters.len() >= SEQUENCE_BYTES_MAX || byte < 0x20 {
                    self.state = State::Ground;
                } else {
                    self.parameters.push(byte);
                }
            }
        }
        false
    }
}

/// Takes the terminal's answers to a cursor-position query (`ESC [ row ; column R`) out of `bytes`, so that they can overtake
/// keys that are held back. Returns the answers.
pub fn take_cursor_reports(bytes: &mut Vec<u8>) -> Vec<u8> {
    let mut reports = Vec::new();
    let mut from = 0;
    while let Some(offset) = memchr::memmem::find(&bytes[from..], b"\x1b[") {
        let at = from + offset;
        let body = &bytes[at + 2..];
        let length = body.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b';')).unwrap_or(body.len());
        let is_report = body.get(length) == Some(&b'R')
            && body[..length].iter().filter(|byte| **byte == b';').count() == 1
            && !body[..length].starts_with(b";")
            && !body[..length].ends_with(b";");
        if is_report {
            reports.extend(bytes.drain(at..at + 2 + length + 1));
            from = at;
        } else {
            from = at + 2;
        }
    }
    reports
}

/// Number of bytes at the end of `bytes` that may be the beginning of such an answer: `ESC [`, a digit, and any further digits or
/// `;`.
pub(in crate::shell) fn cut_report_bytes(bytes: &[u8]) -> usize {
    let Some(at) = memchr::memmem::rfind(bytes, b"\x1b[") else { return 0 };
    let body = &bytes[at + 2..];
    let is_cut = body.first().is_some_and(u8::is_ascii_digit)
        && body.len() < SEQUENCE_BYTES_MAX
        && body.iter().all(|byte| byte.is_ascii_digit() || *byte == b';');
    if is_cut { bytes.len() - at } else { 0 }
}

/// Converts keys in the kitty protocol's encoding (`ESC [ code ; modifiers u`, modifiers less one: 1 shift, 2 alt, 4 control) to
/// the form of a terminal without it. Keys typed just after Enter may still arrive in that encoding, and the command that gets
/// them never asked for it. Source: <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>.
#[must_use]
pub fn to_legacy(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, b"\x1b[") {
        plain.extend_from_slice(&rest[..at]);
        let body = &rest[at + 2..];
        let length = body.iter().position(|byte| !(byte.is_ascii_digit() || matches!(byte, b';' | b':')));
        match length {
            Some(length) if body[length] == b'u' => {
                plain.extend(legacy_key(&body[..length]));
                rest = &body[length + 1..];
            }
            _ => {
                plain.extend_from_slice(b"\x1b[");
                rest = body;
            }
        }
    }
    plain.extend_from_slice(rest);
    plain
}

fn legacy_key(parameters: &[u8]) -> Vec<u8> {
    let number = |field: Option<&[u8]>| -> Option<u32> {
        std::str::from_utf8(field?.split(|byte| *byte == b':').next()?).ok()?.parse().ok()
    };
    let mut fields = parameters.split(|byte| *byte == b';');
    let Some(key) = number(fields.next()).and_then(char::from_u32) else { return Vec::new() };
    let modifiers = number(fields.next()).unwrap_or(1).saturating_sub(1);
    let mut sent = Vec::new();
    if modifiers & 2 != 0 {
        sent.push(0x1b);
    }
    if modifiers & 4 != 0 && key.is_ascii() {
        sent.push(key.to_ascii_uppercase() as u8 & 0x1f);
    } else {
        sent.extend_from_slice(key.encode_utf8(&mut [0; 4]).as_bytes());
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let mut keys = Keys::default();
        let mut rest = text.as_bytes();
        let mut got = Vec::new();
        while !rest.is_empty() {
            let cut = keys.next(rest, &[b"\x07".to_vec(), b"\x18\x05".to_vec(), b"\x1bc".to_vec(), b"\x1bOQ".to_vec()]);
            got.push(String::from_utf8(rest[..cut.length].to_vec()).unwrap());
            rest = &rest[cut.length..];
        }
        got
    }

    #[test]
    fn a_piece_ends_at_an_enter_that_submits() {
        assert_eq!(pieces("sleep 1\rcat\rhello\r"), ["sleep 1\r", "cat\r", "hello\r"]);
        assert_eq!(pieces("\x1b[200~a\rb\r\x1b[201~c\r"), ["\x1b[200~a\rb\r\x1b[201~c\r"]);
        assert_eq!(pieces("for x\x1b\ry\r"), ["for x\x1b\ry\r"]);
        assert_eq!(pieces("a\x03b\x14c\x04d"), ["a\x03", "b\x14", "c\x04", "d"]);
        assert_eq!(pieces("a\x07b\x18\x05c\x05d\x1bce\x1bOQf"), ["a\x07", "b\x18\x05", "c\x05d\x1bc", "e\x1bOQ", "f"]);
        assert_eq!(pieces("a\x1b[103;5ub\x1b[99;3uc"), ["a\x1b[103;5u", "b\x1b[99;3u", "c"]);
        assert_eq!(pieces("\x1b[200~a\x07b\x1b[201~\x07c"), ["\x1b[200~a\x07b\x1b[201~\x07", "c"]);
        assert_eq!(pieces("\x1bOM\r"), ["\x1bOM\r"]);
        assert_eq!(pieces("\x1b[13;2ux\r"), ["\x1b[13;2ux\r"]);
    }

    #[test]
    fn keys_of_the_kitty_protocol_become_plain() {
        let table: [(&[u8], &[u8]); 6] = [
            (b"a\x1b[99;5ub", b"a\x03b"),
            (b"\x1b[27u", b"\x1b"),
            (b"\x1b[13;2u", b"\r"),
            (b"\x1b[97;3u", b"\x1ba"),
            (b"\x1b[A\x1b[1;5C", b"\x1b[A\x1b[1;5C"),
            (b"\x1b[99;5", b"\x1b[99;5"),
        ];
        for (encoded, plain) in table {
            assert_eq!(to_legacy(encoded), plain, "{}", String::from_utf8_lossy(encoded));
        }
    }

    #[test]
    fn cursor_reports_are_taken_out() {
        let mut bytes = b"a\x1b[12;40Rb\x1b[A\x1b[1;5C".to_vec();
        assert_eq!(take_cursor_reports(&mut bytes), b"\x1b[12;40R");
        assert_eq!(bytes, b"ab\x1b[A\x1b[1;5C");
        let mut none = b"\x1b[12;40".to_vec();
        assert!(take_cursor_reports(&mut none).is_empty());
        assert_eq!(none, b"\x1b[12;40");
    }
}
