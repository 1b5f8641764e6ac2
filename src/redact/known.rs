//! The forms in which a known value travels: as it is, in base64 from any position, in an address, in JSON. Pure.

use super::read::{Seen, Text};
use crate::base::base64;

/// A value of fewer characters isn't hidden: half of all texts contain it.
const LEAST_CHARS: usize = 6;
/// Up to this length a value counts only as a whole word.
const SHORT_CHARS: usize = 8;
/// Words that people write if a program asks for a key and needs none.
const NO_KEYS: [&str; 14] = [
    "api_key",
    "api-key",
    "default",
    "dummy-key",
    "lm-studio",
    "lmstudio",
    "local-key",
    "no-key",
    "no-key-required",
    "not-needed",
    "nothing",
    "ollama",
    "sk-no-key-required",
    "unused",
];

/// One form of a known value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Its name in the mark.
    pub name: String,
    /// The exact characters.
    pub value: String,
    /// Counts only as a whole word.
    is_word: bool,
}

impl Known {
    /// Checks for the value at `at`.
    pub fn look(&self, text: &Text<'_>, at: usize) -> Seen {
        let rest = &text.bytes[at..];
        let value = self.value.as_bytes();
        if rest.len() < value.len() {
            return if !text.is_whole && value.starts_with(rest) { Seen::More } else { Seen::No };
        }
        if !rest.starts_with(value) || (self.is_word && text.is_word_before(at)) {
            return Seen::No;
        }
        match rest.get(value.len()) {
            None if self.is_word && !text.is_whole => Seen::More,
            Some(byte) if self.is_word && byte.is_ascii_alphanumeric() => Seen::No,
            _ => Seen::Hide(at..at + value.len()),
        }
    }
}

/// Makes the forms of a value.
pub(super) fn forms(name: &str, value: &str) -> Vec<Known> {
    let value = value.trim();
    let length = value.chars().count();
    if length < LEAST_CHARS || NO_KEYS.contains(&value.to_ascii_lowercase().as_str()) {
        return Vec::new();
    }
    let mut texts = vec![value.to_owned(), in_address(value, true), in_address(value, false), in_json(value)];
    // With a name in front (`user:key`), the value begins at any of three places of a base64 group; its first and last
    // signs depend on the neighbours.
    for shift in 0..3 {
        let padded = [&b"\0\0"[..shift], value.as_bytes()].concat();
        let encoded = base64::encode(&padded);
        let inner = &encoded[[0, 2, 3][shift]..padded.len() * 8 / 6];
        texts.push(inner.to_owned());
        texts.push(inner.replace('+', "-").replace('/', "_"));
    }
    let is_word = length < SHORT_CHARS;
    let is_useful = |text: &String| text.len() >= LEAST_CHARS;
    let known = |text: String| Known { name: clean(name), is_word: is_word && text == value, value: text };
    texts.into_iter().filter(is_useful).map(known).collect()
}

/// The value as a part of an address: all but a few signs by their numbers.
fn in_address(value: &str, capital: bool) -> String {
    let sign = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if capital => format!("%{byte:02X}"),
        _ => format!("%{byte:02x}"),
    };
    value.bytes().map(sign).collect()
}

/// The value as a part of a JSON text.
fn in_json(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Cleans a name, so that it can't be mistaken for a part of the text around its mark.
fn clean(name: &str) -> String {
    name.chars().filter(|c| !c.is_control() && !"[]:=\"'@/".contains(*c)).take(60).collect()
}
