//! The terminal's echo of the keys that a person types while a command runs. It isn't the command's output, and may be a password
//! that was typed a moment too early. An echo that a program prints itself is indistinguishable from its output. Pure.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use nix::sys::termios::{InputFlags, LocalFlags, SpecialCharacterIndices, Termios};

/// Time in which a terminal echoes a key, even on a busy machine.
const ECHO_WAIT: Duration = Duration::from_secs(1);
/// Limit on the unread bytes that a terminal holds and echoes.
const AWAITED_BYTES_MAX: usize = 4096;
const ERASED: &[u8] = b"\x08 \x08";

/// The echo that is expected.
#[derive(Debug, Default)]
pub(in crate::shell) struct TypedEcho {
    awaited: Vec<u8>,
    until: Option<Instant>,
    /// Number of characters in the line that the person is typing.
    characters: usize,
}

impl TypedEcho {
    /// Discards the expected echo, because another command begins.
    pub(in crate::shell) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Expects the echo of keys that a terminal with these modes gets.
    pub(in crate::shell) fn expect(&mut self, keys: &[u8], modes: &Termios, now: Instant) {
        if !modes.local_flags.contains(LocalFlags::ECHO) {
            return self.clear();
        }
        let is = |key: u8, index: SpecialCharacterIndices, flag| {
            key != 0 && modes.local_flags.contains(flag) && modes.control_chars[index as usize] == key
        };
        for key in keys {
            match *key {
                b'\r' if modes.input_flags.contains(InputFlags::ICRNL) => self.line_feed(),
                b'\n' => self.line_feed(),
                key if is(key, SpecialCharacterIndices::VEOF, LocalFlags::ICANON) => {}
                key if is(key, SpecialCharacterIndices::VERASE, LocalFlags::ICANON) => self.erase(1),
                key if is(key, SpecialCharacterIndices::VKILL, LocalFlags::ICANON) => self.erase(self.characters),
                // A signal drops the typed keys, and its echo shows why the command has ended.
                key if is(key, SpecialCharacterIndices::VINTR, LocalFlags::ISIG)
                    || is(key, SpecialCharacterIndices::VQUIT, LocalFlags::ISIG)
                    || is(key, SpecialCharacterIndices::VSUSP, LocalFlags::ISIG) =>
                {
                    self.clear();
                }
                key if key != b'\t' && key.is_ascii_control() => {
                    self.awaited.extend([b'^', key ^ 0x40]);
                    self.characters += 1;
                }
                key => {
                    self.awaited.push(key);
                    // Each character is counted at its first byte.
                    self.characters += usize::from(key & 0xc0 != 0x80);
                }
            }
        }
        self.awaited.truncate(AWAITED_BYTES_MAX);
        self.until = Some(now + ECHO_WAIT);
    }

    fn line_feed(&mut self) {
        self.awaited.extend(b"\r\n");
        self.characters = 0;
    }

    fn erase(&mut self, characters: usize) {
        let erased = characters.min(self.characters);
        self.awaited.extend(ERASED.repeat(erased));
        self.characters -= erased;
    }

    /// Removes the echo from the output. Output may come between two keys: the longest match is removed first.
    pub(in crate::shell) fn without<'a>(&mut self, output: &'a [u8], now: Instant) -> Cow<'a, [u8]> {
        if self.until.is_some_and(|until| until < now) {
            (self.awaited, self.until) = (Vec::new(), None);
        }
        let mut rest = output;
        let mut left = Cow::Borrowed(output);
        while let Some((at, length)) = longest_start(rest, &self.awaited) {
            let read = left.len() - rest.len();
            left.to_mut().drain(read + at..read + at + length);
            rest = &rest[at + length..];
            self.awaited.drain(..length);
        }
        left
    }
}

/// Position and length of the longest prefix of `text` in `output`, the first if there are several. A partial match counts only
/// at the beginning or the end of the output, because one or two letters occur in many words.
fn longest_start(output: &[u8], text: &[u8]) -> Option<(usize, usize)> {
    let mut longest = None;
    for at in memchr::memchr_iter(*text.first()?, output) {
        let length = output[at..].iter().zip(text).take_while(|(shown, typed)| shown == typed).count();
        let counts = length == text.len() || at == 0 || at + length == output.len();
        if counts && longest.is_none_or(|(_, most)| length > most) {
            longest = Some((at, length));
        }
        if length == text.len() {
            break;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes() -> Termios {
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        let mut modes = nix::sys::termios::tcgetattr(&pty.slave).expect("its modes");
        modes.local_flags.insert(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
        modes.input_flags.insert(InputFlags::ICRNL);
        modes
    }

    #[test]
    fn the_echo_of_keys_is_no_output() {
        let table: [(&[&str], &[&str], &str); 10] = [
            (&["secret\r"], &["secret\r\nlogin failed\r\n"], "login failed\r\n"),
            (&["secret"], &["sec", "ret"], ""),
            (&["s", "e", "c"], &["s", "half", "ec"], "half"),
            (&["pass"], &["compiling\r\n", "passpassed"], "compiling\r\npassed"),
            (&["ab"], &["a line\r\nab\r\n"], "a line\r\n\r\n"),
            (&["abc\x7f\x7fd"], &["abc\x08 \x08\x08 \x08dx"], "x"),
            (&["ab\x15c"], &["ab\x08 \x08\x08 \x08c"], ""),
            (&["é\x7f"], &["é\x08 \x08."], "."),
            (&["a\x01\t\x04"], &["a^A\tout"], "out"),
            (&["ab\x03"], &["ab^C\r\n"], "ab^C\r\n"),
        ];
        let now = Instant::now();
        for (keys, outputs, expected) in table {
            let mut echo = TypedEcho::default();
            for piece in keys {
                echo.expect(piece.as_bytes(), &modes(), now);
            }
            let left: Vec<u8> =
                outputs.iter().flat_map(|output| echo.without(output.as_bytes(), now).into_owned()).collect();
            assert_eq!(String::from_utf8_lossy(&left), expected, "{keys:?}");
        }
    }

    #[test]
    fn nothing_is_awaited_without_echo_or_for_long() {
        let now = Instant::now();
        let mut echo = TypedEcho::default();
        let mut silent = modes();
        silent.local_flags.remove(LocalFlags::ECHO);
        echo.expect(b"abc", &silent, now);
        assert_eq!(&*echo.without(b"abc", now), b"abc");
        echo.expect(b"abc", &modes(), now);
        assert_eq!(&*echo.without(b"abc", now + ECHO_WAIT * 2), b"abc");
    }
}
