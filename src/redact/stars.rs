//! Secrets in the output of programs to a screen: each is replaced by stars of the same width, so that the columns
//! stay. Escape sequences within a secret don't hide it.

use unicode_width::UnicodeWidthChar as _;

use super::read::Text;
use super::{Redactor, Span};

/// Bytes of text before a piece that are read with it: a secret may have begun there, and be partly shown already.
const BEFORE_BYTES: usize = 512;
/// Limit on the bytes that are held back; a longer run is decided as it is.
const HELD_BYTES_MAX: usize = 64 * 1024;
/// Text at the end that begins a known secret, with at least this many bytes, is starred before the rest has arrived.
const PREFIX_BYTES_MIN: usize = 6;

/// Stars secrets in output that arrives in pieces, cut anywhere. What may yet become a secret is held back until more comes,
/// or until [`Stars::release`].
#[derive(Clone, Debug, Default)]
pub struct Stars {
    /// The bytes that aren't decided yet.
    held: Vec<u8>,
    /// The sequence in which they begin.
    begins_in: Within,
    /// The text before them.
    before: Vec<u8>,
}

/// The place of a byte in an escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    Escape,
    Csi,
    String,
    StringEscape,
}

impl Within {
    /// The place of the next byte, and whether `byte` is text.
    fn next(self, byte: u8) -> (Self, bool) {
        match (self, byte) {
            (Self::String, 0x07) | (Self::StringEscape, b'\\') => (Self::Text, false),
            (Self::String, 0x1b) => (Self::StringEscape, false),
            (Self::String, _) => (Self::String, false),
            (_, 0x1b) => (Self::Escape, false),
            (Self::Escape | Self::StringEscape, b'[') => (Self::Csi, false),
            (Self::Escape | Self::StringEscape, b']' | b'P' | b'X' | b'^' | b'_') => (Self::String, false),
            (Self::Escape, b' '..=b'/') => (Self::Escape, false),
            (Self::Escape | Self::StringEscape, _) => (Self::Text, false),
            (Self::Csi, b'@'..=b'~') => (Self::Text, false),
            (Self::Csi, _) => (Self::Csi, false),
            (Self::Text, b'\n' | b'\r' | b'\t') => (Self::Text, true),
            (Self::Text, byte) => (Self::Text, byte >= b' ' && byte != 0x7f),
        }
    }
}

impl Stars {
    /// Takes a piece; returns the bytes that are decided by now.
    pub fn push(&mut self, redactor: &Redactor, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        let is_long = self.held.len() > HELD_BYTES_MAX;
        self.settle(redactor, is_long)
    }

    /// Returns whether something is held back.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the bytes that are held back, since nothing arrived to decide them. A known secret that has begun is
    /// starred, and so is its rest when it arrives.
    pub fn release(&mut self, redactor: &Redactor) -> Vec<u8> {
        self.settle(redactor, true)
    }

    fn settle(&mut self, redactor: &Redactor, is_late: bool) -> Vec<u8> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let shown = self.before.len();
        let mut text = self.before.clone();
        // The place of each byte of the text in the held bytes.
        let mut places = Vec::with_capacity(self.held.len());
        let mut within = self.begins_in;
        for (place, byte) in self.held.iter().enumerate() {
            let (next, is_text) = within.next(*byte);
            within = next;
            if is_text {
                text.push(*byte);
                places.push(place);
            }
        }
        let (mut spans, mut settled) = redactor.scan(Text { bytes: &text, before: None, is_whole: false });
        // Bytes that were shown can't wait any more.
        settled = settled.max(shown);
        if is_late {
            let (whole, _) = redactor.scan(Text { bytes: &text, before: None, is_whole: true });
            spans = whole;
            spans.extend(redactor.begun(&text, PREFIX_BYTES_MIN));
            settled = text.len();
        }
        spans.retain(|span| span.range.end <= settled && span.range.end > shown);
        let decided = if settled == text.len() { self.held.len() } else { places[settled - shown] };
        let out = self.starred(&text, &spans, &places, decided);
        let mut within = self.begins_in;
        for byte in self.held.drain(..decided) {
            within = within.next(byte).0;
        }
        self.begins_in = within;
        text.truncate(settled);
        self.before = text.split_off(settled.saturating_sub(BEFORE_BYTES));
        // A character must not be cut.
        let start = self.before.iter().position(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
        self.before.drain(..start);
        out
    }

    /// The first `decided` bytes, with stars over the secrets in them.
    fn starred(&self, text: &[u8], spans: &[Span], places: &[usize], decided: usize) -> Vec<u8> {
        let shown = text.len() - places.len();
        // For each byte that a star replaces: the number of stars in its place.
        let mut stars: Vec<(usize, usize)> = Vec::new();
        for span in spans {
            let secret = &text[span.range.clone()];
            let mut at = span.range.start;
            for c in String::from_utf8_lossy(secret).chars() {
                let length = if c == char::REPLACEMENT_CHARACTER { 1 } else { c.len_utf8() };
                for offset in 0..length {
                    let byte = at + offset;
                    if byte >= shown && byte < text.len() && !matches!(c, '\n' | '\r' | '\t') {
                        stars.push((places[byte - shown], if offset == 0 { c.width().unwrap_or(1) } else { 0 }));
                    }
                }
                at += length;
            }
        }
        stars.sort_unstable();
        stars.dedup_by_key(|(place, _)| *place);
        let mut out = Vec::with_capacity(decided);
        let mut from = 0;
        for (place, count) in stars {
            out.extend_from_slice(&self.held[from..place]);
            out.extend(std::iter::repeat_n(b'*', count));
            from = place + 1;
        }
        out.extend_from_slice(&self.held[from..decided]);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "s3cr3t-välue-9";

    fn redactor() -> Redactor {
        Redactor::new([("a key", KEY)])
    }

    fn shown(pieces: &[&[u8]]) -> String {
        let (redactor, mut stars) = (redactor(), Stars::default());
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| stars.push(&redactor, piece)).collect();
        out.extend(stars.release(&redactor));
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_secret_is_starred_at_its_width_also_between_sequences() {
        assert_eq!(shown(&[format!("key {KEY}, end\r\n").as_bytes()]), "key **************, end\r\n");
        assert_eq!(
            shown(&["\x1b[31ms3cr\x1b[1m3t-v\x1b[0mälue-9\x1b[K|".as_bytes()]),
            "\x1b[31m****\x1b[1m****\x1b[0m******\x1b[K|"
        );
        let token = format!("ghp_{}", "a1B2".repeat(9));
        assert_eq!(shown(&[format!("{token}\n").as_bytes()]), format!("{}\n", "*".repeat(40)));
        assert_eq!(shown(&[b"plain \x1b]0;title\x07text"]), "plain \x1b]0;title\x07text");
    }

    #[test]
    fn a_secret_that_comes_slowly_is_starred_from_its_sixth_byte_on() {
        let (redactor, mut stars) = (redactor(), Stars::default());
        let mut out = Vec::new();
        for byte in KEY.as_bytes() {
            out.extend(stars.push(&redactor, &[*byte]));
            out.extend(stars.release(&redactor));
        }
        let out = String::from_utf8_lossy(&out).into_owned();
        assert!(out.starts_with("s3cr3") && out.ends_with("*****") && !out.contains("lue"), "{out}");
    }

    #[test]
    fn only_a_possible_secret_prefix_is_held_back() {
        let (redactor, mut stars) = (redactor(), Stars::default());
        assert_eq!(stars.push(&redactor, b"text s3cr3"), b"text ");
        assert!(stars.holds());
        assert_eq!(stars.push(&redactor, b" no"), b"s3cr3 no");
        let long = "x".repeat(10 * HELD_BYTES_MAX);
        let out = stars.push(&redactor, long.as_bytes());
        assert!(out.len() > 9 * HELD_BYTES_MAX, "{}", out.len());
    }

    proptest! {
        #[test]
        fn cutting_never_shows_a_secret(cuts in prop::collection::vec(1usize..9, 1..40)) {
            let token = format!("ghp_{}", "a1B2".repeat(9));
            let text = format!("one {KEY} two\r\n\x1b[1m{KEY}\x1b[0m {token} end\n");
            let (redactor, mut stars) = (redactor(), Stars::default());
            let (mut rest, mut out) = (text.as_bytes(), Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                out.extend(stars.push(&redactor, piece));
                rest = after;
            }
            out.extend(stars.release(&redactor));
            prop_assert_eq!(String::from_utf8_lossy(&out).into_owned(), shown(&[text.as_bytes()]));
        }
    }
}
