//! Secrets in text: known values in each form in which they travel, and text that looks like a secret by its shape.
//! Pure; must not know where keys come from or where a text goes.
//!
//! ```
//! use reedclaw::redact::Redactor;
//!
//! let redactor = Redactor::new([("key of cloud", "s3cr3t-value")]);
//! let redacted = redactor.redact("curl -H 'x-api-key: s3cr3t-value'");
//! assert_eq!(redacted.text, "curl -H 'x-api-key: [redacted: key of cloud]'");
//! assert_eq!((redacted.hidden[0].line, redacted.hidden[0].length_chars), (1, 12));
//! ```

mod known;
mod looks;
mod personal;
mod read;
mod rules;
mod stars;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use known::Known;
use read::{Seen, Text};
use rules::{RULES, Rule};

pub use stars::Stars;

/// The beginning of the mark that replaces a secret; the kind of secret follows.
const MARK: &str = "[redacted: ";
/// From this length on, a text that waits for its end is read again only when it has grown by a quarter.
const PATIENT_BYTES: usize = 4 * 1024;

/// Forms of known values; more aren't learned.
const KNOWN_MAX: usize = 10_000;

/// Finds and hides secrets. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Redactor {
    known: Arc<Vec<Known>>,
    filter: Arc<Filter>,
    hides_personal: bool,
}

/// A text without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<'a> {
    /// The text, with a mark for each secret.
    pub text: Cow<'a, str>,
    /// The hidden secrets, in order.
    pub hidden: Vec<Hidden>,
}

/// A secret that was hidden; never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Its kind: a known key by its name, else a word such as `GitHub token`.
    pub kind: String,
    /// The line of the text in which it began, from 1.
    pub line: usize,
    /// Its length in characters.
    pub length_chars: usize,
}

/// The kind of the first data about a person in a text, such as `mail address`.
#[must_use]
pub fn first_personal(text: &str) -> Option<&'static str> {
    personal::find(text).into_iter().min_by_key(|(_, range)| range.start).map(|(kind, _)| kind)
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new::<&str, &str>([])
    }
}

impl Redactor {
    /// Makes a redactor for these values, each with its name, and for secrets recognised by their form. A value of
    /// fewer than six characters, or a placeholder for a key (`none`, `ollama`), isn't a secret.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(values: impl IntoIterator<Item = (N, V)>) -> Self {
        Self::of(values.into_iter().flat_map(|(name, value)| known::forms(name.as_ref(), value.as_ref())).collect())
    }

    fn of(mut known: Vec<Known>) -> Self {
        // If two values begin alike, the longer one counts.
        known.sort_by(|one, other| other.value.len().cmp(&one.value.len()).then_with(|| one.value.cmp(&other.value)));
        known.dedup_by(|one, other| one.value == other.value);
        let filter = Filter::new(&known);
        Self { known: Arc::new(known), filter: Arc::new(filter), hides_personal: false }
    }

    /// Returns a redactor that also knows the secrets of a text, wherever they occur again; `None` if the text has no new ones.
    #[must_use]
    pub fn knowing(&self, text: &str) -> Option<Self> {
        let (spans, _) = self.scan(Text { bytes: text.as_bytes(), before: None, is_whole: true });
        let forms = spans.iter().flat_map(|span| known::forms(&span.kind, &text[span.range.clone()]));
        let new: Vec<Known> = forms.filter(|form| self.known.iter().all(|known| known.value != form.value)).collect();
        if new.is_empty() || self.known.len() + new.len() > KNOWN_MAX {
            return None;
        }
        Some(Self::of(self.known.iter().cloned().chain(new).collect()).hiding_personal(self.hides_personal))
    }

    /// Returns a redactor that also hides data about persons, but only in whole texts, not in a text that arrives in pieces.
    #[must_use]
    pub fn hiding_personal(self, hides_personal: bool) -> Self {
        Self { hides_personal, ..self }
    }

    /// Returns whether it hides data about persons.
    #[must_use]
    pub fn hides_personal(&self) -> bool {
        self.hides_personal
    }

    /// Hides the secrets of a text. Marks of earlier redactions stay.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Redacted<'a> {
        let (mut spans, _) = self.scan(Text { bytes: text.as_bytes(), before: None, is_whole: true });
        if self.hides_personal {
            let personal = personal::find(text).into_iter();
            spans.extend(personal.map(|(kind, range)| Span { kind: kind.to_owned(), anchor: range.start, range }));
            spans = merge(spans);
        }
        let (text, hidden) = replace(text, &spans, 0);
        Redacted { text, hidden }
    }

    /// Returns a function that hides secrets, for a face that shows results.
    #[must_use]
    pub fn hiding(&self) -> Box<dyn Fn(&str) -> String + Send> {
        let redactor = self.clone();
        Box::new(move |text| redactor.redact(text).text.into_owned())
    }

    /// Returns whether one of the known values is in these bytes, in any of its forms. Text that only has the form of a
    /// secret, such as a token, doesn't count.
    #[must_use]
    pub fn holds_known(&self, bytes: &[u8]) -> bool {
        let text = Text { bytes, before: None, is_whole: true };
        let mut at = 0;
        while let Some(found) = self.filter.next(&text, at).filter(|_| !self.known.is_empty()) {
            at = found + 1;
            let mut known = self.filter.known_from(bytes[found]).iter();
            if known.any(|index| matches!(self.known[usize::from(*index)].look(&text, found), Seen::Hide(_))) {
                return true;
            }
        }
        false
    }

    /// Returns the end of a text if it is the beginning of a known value, with at least `least` bytes.
    fn begun(&self, text: &[u8], least: usize) -> Option<Span> {
        let begins = |known: &Known| {
            let value = known.value.as_bytes();
            let longest = value.len().saturating_sub(1).min(text.len());
            (least..=longest).rev().find(|length| text.ends_with(&value[..*length]))
        };
        let (length, name) = self.known.iter().filter_map(|it| Some((begins(it)?, &it.name))).max()?;
        let range = text.len() - length..text.len();
        Some(Span { kind: name.clone(), anchor: range.start, range })
    }

    /// Finds the secrets, in order, and the length of the text that is decided: the rest may yet become a secret, or
    /// belong to one.
    fn scan(&self, text: Text<'_>) -> (Vec<Span>, usize) {
        let mut spans: Vec<Span> = Vec::new();
        let mut settled = text.bytes.len();
        let mut at = 0;
        while let Some(found) = self.filter.next(&text, at) {
            at = found + 1;
            // A text is cut between characters, and each secret begins with one.
            if text.bytes[found] & 0xc0 == 0x80 {
                continue;
            }
            self.look(&text, found, &mut |kind, seen| match seen {
                Seen::No => {}
                Seen::More => settled = settled.min(found),
                Seen::Hide(range) => spans.push(Span { kind: kind.to_owned(), anchor: found, range }),
            });
        }
        let spans = merge(spans);
        // A span that isn't wholly decided is held back, from the anchor that led to it.
        for span in spans.iter().rev() {
            if span.range.end > settled {
                settled = settled.min(span.anchor);
            }
        }
        (spans, settled)
    }

    fn look(&self, text: &Text<'_>, at: usize, tell: &mut dyn FnMut(&str, Seen)) {
        let rest = &text.bytes[at..];
        for index in self.filter.known_from(rest[0]) {
            let known = &self.known[usize::from(*index)];
            let seen = known.look(text, at);
            let ends = seen != Seen::No;
            tell(&known.name, seen);
            if ends {
                break;
            }
        }
        for (rule, anchor) in candidates(rest) {
            let fits = rest.len().min(anchor.len());
            let is_same = if rule.place.is_folded() {
                rest[..fits].eq_ignore_ascii_case(&anchor.as_bytes()[..fits])
            } else {
                rest[..fits] == anchor.as_bytes()[..fits]
            };
            if !is_same || (rule.place.is_at_edge() && text.is_word_before(at)) {
                continue;
            }
            if fits == anchor.len() {
                tell(rule.kind, (rule.look)(text, at, at + fits));
            } else if !text.is_whole {
                tell(rule.kind, Seen::More);
            }
        }
    }
}

/// The anchors that may begin here, by the first three bytes, or by fewer at the end.
fn candidates(rest: &[u8]) -> &'static [(&'static Rule, &'static str)] {
    /// The starts of all anchors, in order, and the anchors in the same order.
    type Table = (Vec<u32>, Vec<(&'static Rule, &'static str)>);
    static TABLE: OnceLock<Table> = OnceLock::new();
    let (starts, anchors) = TABLE.get_or_init(|| {
        let mut anchors: Vec<_> = rules::anchors().collect();
        anchors.sort_by_key(|(_, anchor)| folded(anchor.as_bytes()));
        (anchors.iter().map(|(_, anchor)| folded(anchor.as_bytes())).collect(), anchors)
    });
    let start = folded(rest);
    let spread = [0xff_ffff, 0xffff, 0xff, 0][rest.len().min(3)];
    let from = starts.partition_point(|other| *other < start);
    let count = starts[from..].iter().take_while(|other| **other <= start | spread).count();
    &anchors[from..from + count]
}

/// Hides the secrets of a text that arrives in pieces, cut anywhere: text that may become a secret is held back.
/// Together the returned pieces equal [`Redactor::redact`] of the whole.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    held: String,
    before: Option<u8>,
    /// The length of the text before which nothing new is decided.
    look_at_bytes: usize,
    lines: usize,
}

impl Settling {
    /// Takes a piece; returns the text that is decided by now.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> (String, Vec<Hidden>) {
        self.held.push_str(piece);
        if self.held.len() < self.look_at_bytes {
            return (String::new(), Vec::new());
        }
        let out = self.settle(redactor, false);
        self.look_at_bytes =
            if self.held.len() < PATIENT_BYTES { 0 } else { self.held.len().saturating_add(self.held.len() / 4) };
        out
    }

    /// Returns the rest at the end of the text.
    pub fn finish(&mut self, redactor: &Redactor) -> (String, Vec<Hidden>) {
        let out = self.settle(redactor, true);
        *self = Self::default();
        out
    }

    fn settle(&mut self, redactor: &Redactor, is_whole: bool) -> (String, Vec<Hidden>) {
        let text = Text { bytes: self.held.as_bytes(), before: self.before, is_whole };
        let (mut spans, settled) = redactor.scan(text);
        spans.retain(|span| span.range.end <= settled);
        let rest = self.held.split_off(settled);
        let decided = std::mem::replace(&mut self.held, rest);
        let (out, hidden) = replace(&decided, &spans, self.lines);
        self.lines += memchr::memchr_iter(b'\n', decided.as_bytes()).count();
        self.before = decided.as_bytes().last().copied().or(self.before);
        (out.into_owned(), hidden)
    }
}

/// A part of a text to hide.
#[derive(Clone, Debug)]
struct Span {
    kind: String,
    /// The start of the anchor by which it was found.
    anchor: usize,
    range: Range<usize>,
}

/// Joins spans that overlap: the first to begin decides the kind, and among equals the more specific one.
fn merge(mut spans: Vec<Span>) -> Vec<Span> {
    let says_little = |span: &Span| matches!(span.kind.as_str(), "secret" | "password");
    spans.sort_by_key(|span| (span.range.start, std::cmp::Reverse(span.range.end), says_little(span)));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.range.start < last.range.end => {
                last.range.end = last.range.end.max(span.range.end);
                last.anchor = last.anchor.min(span.anchor);
            }
            _ => merged.push(span),
        }
    }
    merged
}

fn replace<'a>(text: &'a str, spans: &[Span], lines_before: usize) -> (Cow<'a, str>, Vec<Hidden>) {
    if spans.is_empty() {
        return (Cow::Borrowed(text), Vec::new());
    }
    let mut out = String::with_capacity(text.len());
    let mut hidden = Vec::with_capacity(spans.len());
    let (mut at, mut line) = (0, lines_before + 1);
    for Span { kind, range, .. } in spans {
        let between = &text[at..range.start];
        line += memchr::memchr_iter(b'\n', between.as_bytes()).count();
        let secret = &text[range.clone()];
        hidden.push(Hidden { kind: kind.clone(), line, length_chars: secret.chars().count() });
        line += memchr::memchr_iter(b'\n', secret.as_bytes()).count();
        out.push_str(between);
        out.push_str(MARK);
        out.push_str(kind);
        out.push(']');
        at = range.end;
    }
    out.push_str(&text[at..]);
    (Cow::Owned(out), hidden)
}

/// A quick test for places where nothing can begin: a bit for each hash of three bytes, small and capital letters
/// alike.
#[derive(Debug)]
struct Filter {
    bits: Box<[u64; 1024]>,
    /// The known values by their first byte.
    known: Vec<Vec<u16>>,
    longest: usize,
}

impl Filter {
    fn new(known: &[Known]) -> Self {
        let mut filter = Self { bits: Box::new([0; 1024]), known: vec![Vec::new(); 256], longest: 0 };
        for (index, known) in (0u16..).zip(known) {
            filter.note(known.value.as_bytes());
            filter.known[usize::from(known.value.as_bytes()[0])].push(index);
        }
        RULES.iter().flat_map(|rule| rule.anchors).for_each(|anchor| filter.note(anchor.as_bytes()));
        filter
    }

    fn note(&mut self, text: &[u8]) {
        let hash = hash(text);
        self.bits[hash >> 6] |= 1 << (hash & 63);
        self.longest = self.longest.max(text.len());
    }

    /// Returns the next place from `at` on at which something may begin.
    fn next(&self, text: &Text<'_>, at: usize) -> Option<usize> {
        let bytes = text.bytes;
        // At the end of a text that continues, something may begin at any place.
        let tail = if text.is_whole { bytes.len() } else { bytes.len().saturating_sub(self.longest - 1) };
        let body = bytes.get(at..(tail + 2).min(bytes.len())).unwrap_or_default();
        let fits = |three: &[u8]| {
            let hash = hash(three);
            self.bits[hash >> 6] >> (hash & 63) & 1 == 1
        };
        let in_body = body.windows(3).position(fits).map(|found| at + found);
        in_body.or_else(|| (!text.is_whole && at.max(tail) < bytes.len()).then(|| at.max(tail)))
    }

    fn known_from(&self, first: u8) -> &[u16] {
        &self.known[usize::from(first)]
    }
}

/// The first three bytes as a number, small and capital letters alike; zeros for those that aren't there.
fn folded(bytes: &[u8]) -> u32 {
    bytes.iter().take(3).zip([16, 8, 0]).map(|(byte, shift)| u32::from(byte | 0x20) << shift).sum()
}

fn hash(three: &[u8]) -> usize {
    (folded(three).wrapping_mul(0x9e37_79b1) >> 16) as usize
}
