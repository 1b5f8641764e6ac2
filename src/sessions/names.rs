//! Ids and titles of sessions.

use ring::rand::{SecureRandom, SystemRandom};

use crate::base::hex;

/// The beginning of the branches of sessions.
pub const BRANCHES: &str = "refs/heads/reedclaw/session/";
/// The beginning of their names if they are hidden: no branches, so `git branch` doesn't list them, and
/// `git push --all` doesn't send them.
pub const HIDDEN: &str = "refs/reedclaw/session/";
/// The beginning of the names of references that lead to a branch of the user's, which a session works on.
pub const ON: &str = "refs/reedclaw/on/";
/// The prefix of retained tips.
pub const KEPT: &str = "refs/reedclaw/kept/";
/// The prefix of fetched branches; the name of the remote follows.
pub(super) const FETCHED: &str = "refs/remotes/";
/// The part of such a name before the id of a session.
pub(super) const FETCHED_SESSION: &str = "/reedclaw/session/";
/// The reference of the summaries of files.
pub const SUMMARIES: &str = "refs/reedclaw/summaries";

/// Digits of an id that are shown.
const SHOWN: usize = 8;
/// Limit on a title, in characters, without the mark for omitted text: the first line of a commit has 72.
const TITLE_CHARS_MAX: usize = 71;
/// Characters of a session's name in the prompt.
const LABEL_CHARS_MAX: usize = 20;

/// A new id: a UUID of version 7, which begins with the time (RFC 9562).
pub(super) fn new_id(now_ms: i64) -> String {
    let mut bytes = [0; 16];
    // Without randomness the time alone distinguishes sessions, and the first reference prevents a second one.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    bytes[6] = 0x70 | bytes[6] & 0x0f;
    bytes[8] = 0x80 | bytes[8] & 0x3f;
    let hex = hex::encode(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Returns whether a name has the form of an id.
pub(super) fn is_id(name: &str) -> bool {
    let is_digit = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    name.len() == 36 && name.bytes().enumerate().all(is_digit)
}

/// The part of an id that is shown: its last eight digits, which are random.
#[must_use]
pub fn short_id(id: &str) -> &str {
    &id[id.ceil_char_boundary(id.len().saturating_sub(SHOWN))..]
}

/// A session's name for the prompt, made of its title: the words in small letters with hyphens between, as many as fit. `None` if
/// the title has no letters.
#[must_use]
pub fn label(title: &str) -> Option<String> {
    let mut label = String::new();
    for word in title.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let room = LABEL_CHARS_MAX.saturating_sub(label.chars().count() + 1);
        match label.is_empty() {
            true => label = word.to_lowercase().chars().take(LABEL_CHARS_MAX).collect(),
            false if word.chars().count() > room => break,
            false => label = format!("{label}-{}", word.to_lowercase()),
        }
    }
    (!label.is_empty()).then_some(label)
}

/// A text as a title: one line of limited length.
pub(super) fn title(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|it| !it.is_control()).collect();
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

/// The number at the end of a retained tip's name.
pub(super) fn kept_number(name: &str) -> u64 {
    name.rsplit('/').next().and_then(|it| it.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_in_the_prompt_by_the_first_words_of_its_title() {
        for (title, expected) in [
            ("Login form", Some("login-form")),
            ("Make the tests pass on Python 3.13", Some("make-the-tests-pass")),
            ("  \u{202e}`rm -rf`\u{1b}[2J ", Some("rm-rf-2j")),
            ("Größe", Some("größe")),
            ("Donaudampfschifffahrtsgesellschaft", Some("donaudampfschifffahr")),
            ("…", None),
            ("", None),
        ] {
            assert_eq!(label(title).as_deref(), expected, "{title:?}");
        }
    }
}
