//! Cuts a text into the pieces within which tokens are merged, as the patterns of the two encodings do. They are written
//! out by hand: a general matcher of patterns with its tables would be larger than both vocabularies.

use super::Encoding;

/// The class of a character in the patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A sign, or not assigned.
    Other,
    /// A letter that is upper or title case.
    Upper,
    /// A letter that is lower case.
    Lower,
    /// A letter without case.
    Letter,
    /// A mark, which isn't a letter but continues one in `o200k_base`.
    Mark,
    /// A number.
    Number,
    /// White space.
    Space,
}

impl Kind {
    const ALL: [Self; 7] = [Self::Other, Self::Upper, Self::Lower, Self::Letter, Self::Mark, Self::Number, Self::Space];

    fn of(c: char) -> Self {
        match c {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Number,
            ' ' | '\t'..='\r' => Self::Space,
            '\0'..='\x7f' => Self::Other,
            _ => {
                let (runs, _) = KINDS.as_chunks::<4>();
                let run = |at: usize| u32::from_le_bytes(runs[at]);
                let at = runs.partition_point(|run| u32::from_le_bytes(*run) >> 3 <= c as u32);
                Self::ALL[(run(at - 1) & 7) as usize]
            }
        }
    }

    fn is_letter(self) -> bool {
        matches!(self, Self::Upper | Self::Lower | Self::Letter)
    }

    /// Can be at the start of a word in `o200k_base`, before its lower case.
    fn is_upper(self) -> bool {
        matches!(self, Self::Upper | Self::Letter | Self::Mark)
    }

    /// Can be at the end of a word in `o200k_base`.
    fn is_lower(self) -> bool {
        matches!(self, Self::Lower | Self::Letter | Self::Mark)
    }
}

/// The start of each run of characters of one kind: the character's number, shifted by three bits for the kind.
const KINDS: &[u8] = include_bytes!("../../config/tokens/kinds.bin");

/// Returns the pieces of a text; together they are the text.
pub(super) fn pieces(encoding: Encoding, text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = match encoding {
            Encoding::O200k => cased_word(rest).or_else(|| run(rest, true)),
            Encoding::Cl100k => contraction(rest).or_else(|| word(rest)).or_else(|| run(rest, false)),
        };
        // Each character fits somewhere; a piece of one does no harm either.
        let end = end.filter(|end| *end > 0).unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece)
    })
}

/// The length in bytes of the leading characters for which `fits` is true.
fn span(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d`, in any case.
fn contraction(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let mut letters = rest.chars().map(|c| if c == 'ſ' { ('s', c.len_utf8()) } else { (c.to_ascii_lowercase(), 1) });
    let (first, bytes) = letters.next()?;
    match (first, letters.next().map(|(c, _)| c)) {
        ('s' | 't' | 'm' | 'd', _) => Some(1 + bytes),
        ('r' | 'v', Some('e')) | ('l', Some('l')) => Some(3),
        _ => None,
    }
}

/// One sign that may go in front of a word.
fn sign(text: &str) -> Option<usize> {
    let c = text.chars().next()?;
    let kind = Kind::of(c);
    (!kind.is_letter() && kind != Kind::Number && c != '\r' && c != '\n').then(|| c.len_utf8())
}

/// A word of `cl100k_base`: letters, with a sign before them.
fn word(text: &str) -> Option<usize> {
    let letters = |start: usize| {
        let length = span(&text[start..], |c| Kind::of(c).is_letter());
        (length > 0).then_some(start + length)
    };
    sign(text).and_then(letters).or_else(|| letters(0))
}

/// A word of `o200k_base`: upper case, then lower case, with a sign before and a contraction after. A word that ends in
/// lower case is tried first, then one of upper case alone.
fn cased_word(text: &str) -> Option<usize> {
    let starts = || sign(text).into_iter().chain([0]);
    let end = starts().find_map(|start| ends_lower(text, start)).or_else(|| {
        starts().find_map(|start| {
            let upper = span(&text[start..], |c| Kind::of(c).is_upper());
            (upper > 0).then(|| start + upper + span(&text[start + upper..], |c| Kind::of(c).is_lower()))
        })
    })?;
    Some(end + contraction(&text[end..]).unwrap_or(0))
}

/// The end of a word from `start` on, of which the last character can be lower case.
fn ends_lower(text: &str, start: usize) -> Option<usize> {
    let upper = start + span(&text[start..], |c| Kind::of(c).is_upper());
    let lower = span(&text[upper..], |c| Kind::of(c).is_lower());
    if lower > 0 {
        return Some(upper + lower);
    }
    // The first part returns the characters that the second can match: up to the last one of both kinds.
    let both = |c: char| Kind::of(c).is_lower();
    text[start..upper].char_indices().rev().find(|(_, c)| both(*c)).map(|(at, c)| start + at + c.len_utf8())
}

/// A run that is no word: up to three digits, signs, or white space.
fn run(text: &str, with_slashes: bool) -> Option<usize> {
    let first = text.chars().next()?;
    if Kind::of(first) == Kind::Number {
        let digits = text.chars().take(3).take_while(|c| Kind::of(*c) == Kind::Number);
        return Some(digits.map(char::len_utf8).sum());
    }
    let blank = usize::from(first == ' ');
    let is_sign = |c: char| matches!(Kind::of(c), Kind::Other | Kind::Mark);
    let signs = span(&text[blank..], is_sign);
    if signs > 0 {
        let end = blank + signs;
        let ends = |c: char| c == '\r' || c == '\n' || (with_slashes && c == '/');
        return Some(end + span(&text[end..], ends));
    }
    let space = &text[..span(text, char::is_whitespace)];
    if let Some(last) = space.rfind(['\r', '\n']) {
        return Some(last + 1);
    }
    if space.len() == text.len() {
        return Some(space.len());
    }
    // The last blank belongs to the following piece, unless it is the only one.
    let last = space.chars().next_back().map_or(0, char::len_utf8);
    Some(if space.len() > last { space.len() - last } else { last })
}
