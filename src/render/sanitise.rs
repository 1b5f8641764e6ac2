//! The sanitiser: makes text from a model, a file or a server harmless for a terminal.
//!
//! Owns the rule of what may pass: printable text, newline and tab. Escape sequences are removed whole (introducer,
//! parameters and payload), other controls one by one. Must not know who the text is for or how it is laid out.
//!
//! Decisions:
//! - A carriage return is dropped, so that CRLF is a newline and nothing can overwrite what was already shown.
//! - A string sequence (OSC, DCS, APC, PM, SOS) ends at its terminator, at a newline, or after [`STRING_CHARS_MAX`]
//!   characters, so that a lost terminator costs one line and not the rest of the answer.
//! - Bidirectional controls, zero-width characters, tag characters and other invisible formats are removed: what is not
//!   seen can't be judged. Line and paragraph separators become newlines.
//! - A joiner survives between two emoji, or between two letters of the scripts that spell with it (Arabic, Indic); an
//!   emoji variation selector survives after a character that has one. The flags made of tag characters lose their tags
//!   and show as a black flag.

use std::borrow::Cow;

use crate::base::text::{has_emoji_variant, is_emoji, is_invisible};

/// Characters of an unterminated string sequence that are swallowed before text is shown again.
pub const STRING_CHARS_MAX: usize = 4096;
/// Characters of a control sequence that are swallowed before the rest counts as text: real ones are under 64.
pub const CSI_CHARS_MAX: usize = 256;

const ZWNJ: char = '\u{200c}';
const ZWJ: char = '\u{200d}';

/// Cleans a whole text in one go.
#[must_use]
pub fn sanitise(text: &str) -> Cow<'_, str> {
    Sanitiser::new().push(text)
}

/// Cleans a text that arrives in pieces; where the pieces were cut never changes the result.
#[derive(Clone, Debug)]
pub struct Sanitiser {
    state: State,
    last: char,
    joiner: Option<char>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    EscapeIntermediate,
    Csi(usize),
    String(usize),
    StringEscape,
}

impl Default for Sanitiser {
    fn default() -> Self {
        Self::new()
    }
}

impl Sanitiser {
    /// Starts at the beginning of a text.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Ground, last: '\n', joiner: None }
    }

    /// Returns the part of the piece, and of the text held back, that may be shown.
    pub fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
        if self.state == State::Ground && self.joiner.is_none() && text.bytes().all(plain) {
            self.last = text.chars().next_back().unwrap_or(self.last);
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        for c in text.chars() {
            self.step(c, &mut clean);
        }
        Cow::Owned(clean)
    }

    /// Ends the text: a sequence or joiner that is still open is dropped, and the sanitiser is as new.
    pub fn finish(&mut self) {
        *self = Self::new();
    }

    fn step(&mut self, c: char, out: &mut String) {
        match self.state {
            State::Ground => self.ground(c, out),
            State::Escape => match c {
                '[' => self.state = State::Csi(0),
                ']' | 'P' | 'X' | '^' | '_' => self.state = State::String(0),
                ' '..='/' => self.state = State::EscapeIntermediate,
                '0'..='~' => self.state = State::Ground,
                _ => self.ground(c, out),
            },
            State::EscapeIntermediate => match c {
                ' '..='/' => {}
                '0'..='~' => self.state = State::Ground,
                _ => self.ground(c, out),
            },
            State::Csi(length) => match c {
                ' '..='?' if length < CSI_CHARS_MAX => self.state = State::Csi(length + 1),
                '@'..='~' => self.state = State::Ground,
                _ => self.ground(c, out),
            },
            State::String(length) => match c {
                '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}' => self.state = State::Ground,
                '\u{1b}' => self.state = State::StringEscape,
                '\n' | '\u{2028}' | '\u{2029}' => self.ground(c, out),
                _ if length < STRING_CHARS_MAX => self.state = State::String(length + 1),
                _ => self.ground(c, out),
            },
            State::StringEscape if c == '\\' => self.state = State::Ground,
            State::StringEscape => {
                self.state = State::Escape;
                self.step(c, out);
            }
        }
    }

    fn ground(&mut self, c: char, out: &mut String) {
        self.state = match c {
            '\u{1b}' => State::Escape,
            '\u{9b}' => State::Csi(0),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => State::String(0),
            _ => State::Ground,
        };
        match c {
            '\u{2028}' | '\u{2029}' => self.emit('\n', out),
            ZWJ | ZWNJ if self.joiner.is_none() => self.joiner = Some(c),
            '\u{fe0e}' | '\u{fe0f}' if self.joiner.is_none() && has_emoji_variant(self.last) => self.emit(c, out),
            '\n' | '\t' => self.emit(c, out),
            _ if c.is_control() || is_invisible(c) => {}
            _ => self.emit(c, out),
        }
    }

    fn emit(&mut self, c: char, out: &mut String) {
        if let Some(joiner) = self.joiner.take()
            && joins(self.last, joiner, c)
        {
            out.push(joiner);
        }
        out.push(c);
        self.last = c;
    }
}

fn joins(before: char, joiner: char, after: char) -> bool {
    let spells = |c: char| matches!(c, '\u{600}'..='\u{6ff}' | '\u{900}'..='\u{dff}');
    let emoji_end = matches!(before, '\u{fe0f}') || is_emoji(before);
    (joiner == ZWJ && emoji_end && is_emoji(after)) || (spells(before) && spells(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_go_whole_and_text_stays() {
        let long = format!("\x1b]0;{}shown", "x".repeat(STRING_CHARS_MAX));
        let table: &[(&str, &str)] = &[
            ("plain — ünï 日本 \t\n", "plain — ünï 日本 \t\n"),
            ("a\x1b[31mred\x1b[0m", "ared"),
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]8;;http://x\x1b\\b", "ab"),
            ("a\x1b]52;c;cm0gLXJm", "a"),
            ("a\x1b]52;c;cm0gLXJm\nnext", "a\nnext"),
            ("a\x1bP1$qm\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e", "abcde"),
            ("a\u{9b}31mb\u{9d}0;t\u{9c}c\u{85}d", "abcd"),
            ("a\x1b(Bb\x1bcc\x1b7d", "abcd"),
            ("a\x1b\x1b[2Jb", "ab"),
            ("a\x1b[3\u{e9}b", "aéb"),
            ("a\x1b[3\nb", "a\nb"),
            ("a\x1b]x\x1b[31mb", "ab"),
            ("one\r\ntwo\rthree", "one\ntwothree"),
            ("a\0\x07\x08\x0b\x0c\x0e\x7fb", "ab"),
            ("\u{202e}evil\u{2066}\u{200f}\u{61c}", "evil"),
            ("a\u{200b}b\u{feff}c\u{ad}d\u{2060}e", "abcde"),
            ("hi\u{e0068}\u{e0069}\u{e007f}", "hi"),
            ("a\u{2028}b", "a\nb"),
            (
                "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 👍🏽 1\u{fe0f}\u{20e3} 🇩🇪",
                "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 👍🏽 1\u{fe0f}\u{20e3} 🇩🇪",
            ),
            ("a\u{200d}b👩\u{200d}c a\u{fe0f}", "ab👩c a"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
        ];
        for (text, clean) in table {
            assert_eq!(&sanitise(text), clean, "{text:?}");
        }
        assert_eq!(sanitise(&long[..long.len() - 5]), "xx", "an OSC of the limit is swallowed but for its overhang");
        assert!(sanitise(&long).ends_with("shown"), "a lost terminator doesn't swallow the rest");
    }

    pub(crate) fn nasty() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[a-z \\n]{1,6}",
            1 => any::<char>().prop_map(String::from),
            2 => (0u32..0xa0).prop_map(|c| char::from_u32(c).unwrap_or(' ').to_string()),
            3 => prop::sample::select(vec!["\x1b[", "\x1b]", "\x1b", "\x1bP", "\x07", "\x1b\\", "31m", "\u{9b}", "\u{9d}", "\r\n", "\r",
                "\u{200d}", "\u{fe0f}", "👩", "❤", "\u{202e}", "\u{e0041}", "م", "\u{200c}", "\u{2028}"]).prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nothing_but_text_newline_and_tab_passes(text in nasty()) {
            let clean = sanitise(&text).into_owned();
            prop_assert!(clean.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{clean:?}");
            let bidi = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{e0000}'..='\u{e007f}' | '\u{200b}');
            prop_assert!(!clean.chars().any(bidi));
            prop_assert_eq!(sanitise(&clean).into_owned(), clean.clone(), "idempotent");
        }

        #[test]
        fn cutting_never_changes_the_result(text in nasty(), cuts in prop::collection::vec(1usize..5, 1..60)) {
            let chars: Vec<char> = text.chars().collect();
            let (mut at, mut joined, mut sanitiser) = (0, String::new(), Sanitiser::new());
            for cut in cuts.iter().cycle() {
                if at >= chars.len() { break; }
                let end = (at + cut).min(chars.len());
                let piece: String = chars[at..end].iter().collect();
                joined.push_str(&sanitiser.push(&piece));
                at = end;
            }
            prop_assert_eq!(joined, sanitise(&text).into_owned());
        }

        #[test]
        fn plain_text_is_unchanged(text in "[ -~\\n\\tÀ-ÿあ-ん一-龥😀-🙏]{0,80}") {
            prop_assert_eq!(sanitise(&text).into_owned(), text.clone());
        }
    }
}
