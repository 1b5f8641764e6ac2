//! Characters that a server cut in two: `\ud83d` in one event and `\ude00` in the next, as a proxy sends them that cuts
//! strings of UTF-16. JSON allows such halves (RFC 8259, section 8.2), but no text can hold them. Pure.

/// The half of a character whose other half may come with the next event.
#[derive(Debug, Default)]
pub(super) struct Halves {
    first: Option<String>,
}

impl Halves {
    /// Returns an event's JSON without half characters; `None` if there were none. A first half waits for the second, and a
    /// second half without a first becomes U+FFFD.
    pub(super) fn join(&mut self, json: &str) -> Option<String> {
        let mut joined = String::with_capacity(json.len());
        let mut rest = json;
        let mut has_half = false;
        while let Some(at) = rest.find('\\') {
            joined.push_str(&rest[..at]);
            rest = &rest[at..];
            let (length, is_first, is_second) = match (unit(rest), rest.get(6..).and_then(unit)) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, false, false),
                (Some(0xd800..=0xdbff), _) => (6, true, false),
                (Some(0xdc00..=0xdfff), _) => (6, false, true),
                // The character after a backslash begins no escape.
                _ => (rest.chars().take(2).map(char::len_utf8).sum(), false, false),
            };
            let (escape, after) = rest.split_at(length);
            rest = after;
            has_half |= is_first || is_second;
            if is_first {
                self.first = Some(escape.to_owned());
            } else if is_second {
                match self.first.take() {
                    Some(first) => joined.extend([first.as_str(), escape]),
                    None => joined.push('\u{fffd}'),
                }
            } else {
                joined.push_str(escape);
            }
        }
        joined.push_str(rest);
        has_half.then_some(joined)
    }
}

/// Returns the unit of UTF-16 that an escape names.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}
