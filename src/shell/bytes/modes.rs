//! Modes that a program has switched on in the terminal, and the sequences that switch them off again. Pure.
//!
//! A program that is killed leaves its modes on (alternate screen, mouse, hidden cursor, keyboard protocols).
//! Only modes that were seen to be switched on are switched off, so that a terminal never gets a mode that it doesn't know.

use memchr::memchr_iter;

/// Private modes (`CSI ? n h`) that make a prompt unusable when left on, with the sequence that ends each.
const MODES: [(u16, &str); 12] = [
    (1049, "\x1b[?1049l"),
    (1047, "\x1b[?1047l"),
    (47, "\x1b[?47l"),
    (1000, "\x1b[?1000l"),
    (1002, "\x1b[?1002l"),
    (1003, "\x1b[?1003l"),
    (1006, "\x1b[?1006l"),
    (1004, "\x1b[?1004l"),
    (2004, "\x1b[?2004l"),
    (1, "\x1b[?1l"),
    (2026, "\x1b[?2026l"),
    (2031, "\x1b[?2031l"),
];
const ALTERNATE: u16 = 0b111;
/// The terminal reports when it gets and loses the focus.
const FOCUS: u16 = 1004;

/// Switches off everything that any program may have left on, for a crash whose output wasn't watched.
pub const RESET_ALL: &str = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b[?25h\x1b[<u\x1b[4l\x1b[?7h\x1b7\x1b[r\x1b8\x1b[m";

/// Watches output for mode switches.
#[derive(Debug, Default)]
pub struct Modes {
    on: u16,
    cursor_hidden: bool,
    application_keypad: bool,
    /// Depth of the keyboard protocol's stack (`CSI > flags u` pushes, `CSI < n u` pops).
    keyboard_pushed: u32,
    keyboard_set: bool,
    /// xterm's `modifyOtherKeys` (`CSI > 4 ; n m`) is on.
    other_keys: bool,
    /// Rows outside a region don't scroll (`CSI top ; bottom r`).
    scroll_region: bool,
    /// Rows are counted from the region's top (`CSI ? 6 h`).
    origin: bool,
    /// Characters push the rest of the row to the right (`CSI 4 h`).
    insert: bool,
    /// Long lines stay in the last column (`CSI ? 7 l`).
    no_wrap: bool,
    /// Reports of the focus, or all modes, were switched off.
    focus_stopped: bool,
    /// An escape sequence that the end of the last piece cut off.
    cut: Vec<u8>,
}

/// Longest private sequence that is examined; longer ones aren't mode switches.
const SEQUENCE_BYTES_MAX: usize = 48;

impl Modes {
    /// Looks at more output.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.cut.is_empty() {
            self.scan(bytes);
        } else {
            let mut joined = std::mem::take(&mut self.cut);
            joined.extend_from_slice(bytes);
            self.scan(&joined);
        }
    }

    /// Returns whether the last piece ended within an escape sequence.
    pub(in crate::shell) fn is_cut(&self) -> bool {
        !self.cut.is_empty()
    }

    fn scan(&mut self, bytes: &[u8]) {
        let mut handled_bytes = 0;
        for at in memchr_iter(0x1b, bytes) {
            let sequence = &bytes[at..];
            // Colours and cursor movements, the most frequent ones, switch no mode.
            if let [_, b'[', rest @ ..] = sequence
                && rest.first().is_some_and(|next| !matches!(next, b'?' | b'>' | b'<' | b'='))
                && rest
                    .iter()
                    .find(|byte| !matches!(byte, b'0'..=b'9' | b';'))
                    .is_some_and(|last| !matches!(last, b'r' | b'h' | b'l' | b'!'))
            {
                continue;
            }
            if at < handled_bytes {
                continue;
            }
            match sequence_end(sequence) {
                Some(end) => {
                    self.apply(&sequence[..end]);
                    handled_bytes = at + end;
                }
                None if sequence.len() < SEQUENCE_BYTES_MAX => {
                    self.cut = sequence.to_vec();
                    return;
                }
                None => {}
            }
        }
    }

    fn apply(&mut self, sequence: &[u8]) {
        match sequence {
            b"\x1b=" => self.application_keypad = true,
            b"\x1b>" => self.application_keypad = false,
            b"\x1bc" | b"\x1b[!p" => *self = Self { focus_stopped: true, ..Self::default() },
            [0x1b, b'[', rows @ .., b'r'] if !rows.starts_with(b"?") => {
                self.scroll_region = !matches!(rows, b"" | b";")
            }
            b"\x1b[4h" => self.insert = true,
            b"\x1b[4l" => self.insert = false,
            [0x1b, b'[', b'?', numbers @ .., last @ (b'h' | b'l')] => {
                for number in numbers.split(|byte| *byte == b';') {
                    let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<u16>().ok());
                    if let Some(number) = number {
                        self.switch(number, *last == b'h');
                    }
                }
            }
            [0x1b, b'[', b'>', .., b'u'] => self.keyboard_pushed = (self.keyboard_pushed + 1).min(16),
            [0x1b, b'[', b'<', .., b'u'] => self.keyboard_pushed = self.keyboard_pushed.saturating_sub(1),
            [0x1b, b'[', b'=', flags @ .., b'u'] => self.keyboard_set = !flags.starts_with(b"0"),
            [0x1b, b'[', b'>', b'4', level @ .., b'm'] => self.other_keys = !matches!(level, b"" | b";" | b";0"),
            _ => {}
        }
    }

    fn switch(&mut self, number: u16, on: bool) {
        match number {
            6 => self.origin = on,
            7 => self.no_wrap = !on,
            25 => self.cursor_hidden = !on,
            FOCUS => self.focus_stopped = !on,
            _ => {}
        }
        if let Some(bit) = MODES.iter().position(|(mode, _)| *mode == number) {
            if on {
                self.on |= 1 << bit;
            } else {
                self.on &= !(1 << bit);
            }
        }
    }

    /// Returns whether a program draws on the alternate screen.
    #[must_use]
    pub fn alternate_screen(&self) -> bool {
        self.on & ALTERNATE != 0
    }

    /// Returns whether a program wants reports of the focus.
    #[must_use]
    pub fn reports_focus(&self) -> bool {
        MODES.iter().enumerate().any(|(bit, (mode, _))| *mode == FOCUS && self.on & (1 << bit) != 0)
    }

    /// Returns whether the terminal no longer reports the focus, or won't after a reset.
    #[must_use]
    pub fn stopped_focus(&self) -> bool {
        self.focus_stopped || self.reports_focus()
    }

    /// The sequences that return the terminal to the state that an editor expects; empty if nothing was left on.
    #[must_use]
    pub fn reset(&mut self) -> String {
        let mut text = String::new();
        for (bit, (_, off)) in MODES.iter().enumerate() {
            if self.on & (1 << bit) != 0 {
                text.push_str(off);
            }
        }
        if self.cursor_hidden {
            text.push_str("\x1b[?25h");
        }
        if self.application_keypad {
            text.push_str("\x1b>");
        }
        for _ in 0..self.keyboard_pushed {
            text.push_str("\x1b[<u");
        }
        if self.keyboard_set {
            text.push_str("\x1b[=0u");
        }
        if self.other_keys {
            text.push_str("\x1b[>4;0m");
        }
        if self.insert {
            text.push_str("\x1b[4l");
        }
        if self.no_wrap {
            text.push_str("\x1b[?7h");
        }
        // To end a region, or the counting from its top, moves the cursor. The second can't be saved and restored with it:
        // a new row at the bottom is drawn over nothing.
        if self.origin {
            text.push_str("\x1b[r\x1b[?6l\x1b[999;1H\r\n");
        } else if self.scroll_region {
            text.push_str("\x1b7\x1b[r\x1b8");
        }
        *self = Self::default();
        text
    }
}

/// Removes the sequences that switch a mode from `bytes`: private sequences, and those of the keypad.
pub(in crate::shell) fn without_modes(bytes: &[u8]) -> Vec<u8> {
    let mut rest_bytes = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let is_mode = matches!(rest, [0x1b, b'=' | b'>', ..] | [0x1b, b'[', b'?' | b'>' | b'<' | b'=', ..]);
        rest = match sequence_end(rest).filter(|_| is_mode) {
            Some(end) => rest.get(end..).unwrap_or_default(),
            None => {
                rest_bytes.push(*first);
                after
            }
        };
    }
    rest_bytes
}

/// The length of the sequence that starts at `bytes[0]` (an escape), or `None` if it is incomplete.
fn sequence_end(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().take(SEQUENCE_BYTES_MAX).position(|byte| !(0x20..0x40).contains(byte));
            match end {
                Some(end) => Some(2 + end + 1),
                None if bytes.len() > SEQUENCE_BYTES_MAX => Some(2),
                None => None,
            }
        }
        _ => Some(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_on(text: &str) -> String {
        let mut modes = Modes::default();
        modes.feed(text.as_bytes());
        let whole = modes.reset();
        for cut in 0..text.len() {
            if text.is_char_boundary(cut) {
                let mut modes = Modes::default();
                modes.feed(&text.as_bytes()[..cut]);
                modes.feed(&text.as_bytes()[cut..]);
                assert_eq!(modes.reset(), whole, "{text:?} cut at {cut}");
            }
        }
        whole
    }

    #[test]
    fn only_what_was_left_on_is_switched_off() {
        assert_eq!(left_on("plain \x1b[1;31mcolour\x1b[0m"), "");
        assert_eq!(left_on("\x1b[?1049h\x1b[?25lvim\x1b[?25h\x1b[?1049l"), "");
        assert_eq!(left_on("\x1b[?1049h\x1b[?25l"), "\x1b[?1049l\x1b[?25h");
        assert_eq!(left_on("\x1b[?1000;1006h"), "\x1b[?1000l\x1b[?1006l");
        assert_eq!(left_on("\x1b[>1u"), "\x1b[<u");
        assert_eq!(left_on("\x1b[>1u\x1b[<u"), "");
        assert_eq!(left_on("\x1b[=5u"), "\x1b[=0u");
        assert_eq!(left_on("\x1b[?2004h"), "\x1b[?2004l");
        assert_eq!(left_on("\x1b[>4;1m"), "\x1b[>4;0m");
        assert_eq!(left_on("\x1b[3;6r"), "\x1b7\x1b[r\x1b8");
        assert_eq!(left_on("\x1b[3;6r\x1b[?6h"), "\x1b[r\x1b[?6l\x1b[999;1H\r\n");
        assert_eq!(left_on("\x1b[3;6rx\x1b[1;31my\x1b[r\x1b[?7l\x1b[?7h\x1b[4h\x1b[4l"), "");
        assert_eq!(left_on("\x1b[?7l\x1b[4h"), "\x1b[4l\x1b[?7h");
        assert_eq!(left_on("\x1b[>4;2m\x1b[>4;0m\x1b[>4;2m\x1b[>4m"), "");
    }

    #[test]
    fn switches_are_taken_out_and_the_rest_stays() {
        let fish = b"\x1b[?2004h\x1b[?2031h\x1b[>4;1m\x1b=\rjob \x1b[1mdone\x1b[m\r\n\x1b[?2004l\x1b>";
        assert_eq!(without_modes(fish), b"\rjob \x1b[1mdone\x1b[m\r\n");
        assert_eq!(without_modes(b"a\x1b[?20"), b"a\x1b[?20");
    }

    #[test]
    fn the_alternate_screen_is_known_while_it_lasts() {
        let mut modes = Modes::default();
        modes.feed(b"\x1b[?1049h");
        assert!(modes.alternate_screen());
        modes.feed(b"\x1b[?1049l");
        assert!(!modes.alternate_screen());
    }
}
