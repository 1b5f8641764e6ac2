//! Reading a text that may be cut: runs of bytes, assigned values, and the form of a value. Pure; a check that reaches
//! an end which isn't the text's asks for more, so that the verdict is the same wherever a text is cut.

use std::ops::Range;

/// A text to read, perhaps the beginning of a longer one.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub bytes: &'a [u8],
    /// The byte before it.
    pub before: Option<u8>,
    /// Complete: no more text follows.
    pub is_whole: bool,
}

/// The answer of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Not a secret.
    No,
    /// The text that follows decides.
    More,
    /// This part is a secret.
    Hide(Range<usize>),
}

impl<'a> Text<'a> {
    /// The byte in front of `at`.
    pub fn byte_before(&self, at: usize) -> Option<u8> {
        if at == 0 { self.before } else { Some(self.bytes[at - 1]) }
    }

    /// Returns whether a word reaches up to `at`.
    pub fn is_word_before(&self, at: usize) -> bool {
        self.byte_before(at).is_some_and(word)
    }

    /// The end of a run of such bytes from `at`; `None` if it may continue.
    pub fn end(&self, at: usize, fits: impl Fn(u8) -> bool) -> Option<usize> {
        let end = self.bytes[at..].iter().position(|byte| !fits(*byte)).map(|length| at + length);
        end.or(self.is_whole.then_some(self.bytes.len()))
    }

    /// The byte at `at`: the inner `None` at the end, the outer one if it isn't known yet.
    pub fn byte(&self, at: usize) -> Option<Option<u8>> {
        match self.bytes.get(at) {
            Some(byte) => Some(Some(*byte)),
            None => self.is_whole.then_some(None),
        }
    }

    /// Returns whether this word is at `at`; `None` if that isn't known yet.
    pub fn has(&self, at: usize, wanted: &[u8]) -> Option<bool> {
        let rest = &self.bytes[at..];
        let fits = rest.len().min(wanted.len());
        let is_same = rest[..fits].eq_ignore_ascii_case(&wanted[..fits]);
        if is_same && fits < wanted.len() { self.is_whole.then_some(false) } else { Some(is_same) }
    }

    /// The rest of the line from `at`; `None` if it may continue.
    pub fn line(&self, at: usize) -> Option<&'a [u8]> {
        let end = self.end(at, |byte| byte != b'\n')?;
        Some(&self.bytes[at..end])
    }
}

pub(super) fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(super) fn hexadecimal(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

pub(super) fn word(byte: u8) -> bool {
    alnum(byte) || byte == b'_'
}

pub(super) fn dashed(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

pub(super) fn dotted(byte: u8) -> bool {
    dashed(byte) || byte == b'.'
}

pub(super) fn base64(byte: u8) -> bool {
    alnum(byte) || matches!(byte, b'+' | b'/' | b'=')
}

/// Both alphabets of base64, and the signs that join parts of a token.
pub(super) fn encoded(byte: u8) -> bool {
    dotted(byte) || base64(byte)
}

pub(super) fn path(byte: u8) -> bool {
    dotted(byte) || byte == b'/'
}

pub(super) fn in_query(byte: u8) -> bool {
    encoded(byte) || byte == b'%'
}

pub(super) fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

pub(super) fn quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// The text around a literal in code: it is read up to the quote after it.
const WRAPS: [&[u8]; 8] = [
    b"[]byte(",
    b"bytes(",
    b"string::from(",
    b"buffer.from(",
    b"new secretkeyspec(",
    b"secretstr(",
    b"secretstring::from(",
    b"new string(",
];

/// The start of the value of a name that ends at `at`: the outer `None` if that isn't known yet, the inner one if no
/// value follows.
pub(super) fn value_start(text: &Text<'_>, at: usize) -> Option<Option<usize>> {
    // The name's own closing quote, escaped in a JSON text within another; or that of a key's brackets.
    let mut at = quotes(text, at)?;
    if text.byte(at)? == Some(b']') {
        at += 1;
    }
    at = text.end(at, blank)?;
    match text.byte(at)? {
        Some(b':' | b'=') => at += 1,
        _ => return Some(None),
    }
    // `:=` and `=>` assign a value, `==` and `::` don't.
    match text.byte(at)? {
        Some(b'=') if text.bytes[at - 1] == b':' => at += 1,
        Some(b'>') if text.bytes[at - 1] == b'=' => at += 1,
        Some(b'=' | b':') => return Some(None),
        _ => {}
    }
    at = text.end(at, blank)?;
    for wrap in WRAPS {
        if text.has(at, wrap)? {
            let inner = at + wrap.len();
            if text.byte(inner)?.is_some_and(quote) {
                at = inner;
            }
            break;
        }
    }
    // `b'…'` and `r"…"`.
    if text.byte(at)?.is_some_and(|byte| matches!(byte, b'b' | b'r' | b'u')) && text.byte(at + 1)?.is_some_and(quote) {
        at += 1;
    }
    quotes(text, at).map(Some)
}

/// Returns the place after quotes, escaped or not.
fn quotes(text: &Text<'_>, at: usize) -> Option<usize> {
    text.end(at, |byte| quote(byte) || byte == b'\\')
}

/// Placeholders for a value: a variable, a gap in a manual, our own mark, code that reads it from elsewhere.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: [&[u8]; 17] = [
        b"none",
        b"null",
        b"nil",
        b"true",
        b"false",
        b"undefined",
        b"optional",
        b"required",
        b"string",
        b"str",
        b"password",
        b"passwd",
        b"secret",
        b"token",
        b"changeme",
        b"change-me",
        b"change_me",
    ];
    const STARTS: [&[u8]; 11] = [
        "…".as_bytes(),
        b"...",
        b"process.env",
        b"os.environ",
        b"os.getenv",
        b"env.",
        b"var.",
        b"data.",
        b"local.",
        b"your-",
        b"your_",
    ];
    let Some(first) = value.first() else { return true };
    let all_same = value.len() > 1 && value.iter().all(|byte| byte == first);
    let starts = |start: &&[u8]| value.len() >= start.len() && value[..start.len()].eq_ignore_ascii_case(start);
    matches!(first, b'$' | b'<' | b'{' | b'*' | b'[' | b'(' | b'@')
        || (*first == b'%' && value.len() <= 3)
        || value.contains(&b'(')
        || all_same
        || WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
        || STARTS.iter().any(starts)
        || is_sample(value)
}

/// A token of a manual: `ghp_xxxxxxxxxxxx`, `AKIA…EXAMPLE`.
pub(super) fn is_sample(value: &[u8]) -> bool {
    let has = |what: &[u8]| memchr::memmem::find(value, what).is_some();
    has(b"EXAMPLE") || has(b"xxxxx") || has(b"XXXXX") || has(b"*****")
}

/// Letters of both sizes, or a digit or a sign among them: more than a plain word.
pub(super) fn is_mixed(value: &[u8]) -> bool {
    let has = |fits: fn(&u8) -> bool| value.iter().any(fits);
    has(u8::is_ascii_digit)
        || (has(u8::is_ascii_lowercase) && value[1..].iter().any(u8::is_ascii_uppercase))
        || has(|byte| matches!(byte, b'!' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'+' | b'='))
}

/// Letters and digits together, or many letters of both sizes; no path.
pub(super) fn is_random(value: &[u8]) -> bool {
    let is_path = matches!(value[0], b'/' | b'~' | b'.') && value.len() != 40;
    let has_digit = value.iter().any(u8::is_ascii_digit);
    let is_word = value.contains(&b'.') || !is_of_both_sizes(value);
    !is_path && value.iter().any(u8::is_ascii_alphabetic) && (has_digit || (value.len() >= 16 && !is_word))
}

/// Random characters: a digit is among them, or, in a long run, letters of both sizes.
pub(super) fn is_drawn(body: &[u8]) -> bool {
    body.iter().any(u8::is_ascii_digit) || (body.len() >= 24 && is_of_both_sizes(body))
}

/// Many small and many capital letters, as in no name that is put together from words.
fn is_of_both_sizes(value: &[u8]) -> bool {
    let many = |fits: fn(&u8) -> bool| value.iter().filter(|byte| fits(byte)).count() * 4 >= value.len();
    many(u8::is_ascii_lowercase) && many(u8::is_ascii_uppercase)
}
