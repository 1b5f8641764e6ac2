//! Text of which parts may be unknown. A part that isn't known, and a pattern's character that is alive, is one of
//! Unicode's noncharacters, so that such text is an ordinary string; a script that holds one itself is refused.

/// Anything at all, perhaps nothing, perhaps several paths.
pub(super) const ANY: char = '\u{FDD0}';
/// A part of a name: not empty, no slash, neither `.` nor `..`.
pub(super) const NAME: char = '\u{FDD1}';
/// Something that came over the network.
pub(super) const NET: char = '\u{FDD3}';
/// Something that was decoded or decompressed.
pub(super) const DECODED: char = '\u{FDD4}';
/// What a program printed.
pub(super) const OUTPUT: char = '\u{FDD5}';
/// What a program printed that is known to print settings for the shell, such as `ssh-agent -s`.
pub(super) const SETTINGS: char = '\u{FDD9}';
/// What a file of the machine holds.
pub(super) const FILE: char = '\u{FDDA}';
/// Stands behind text that is known though it was decoded: a shell that is fed with it is refused all the same.
pub(super) const DECODED_MARK: char = '\u{FDDB}';
/// The numbers of all processes, or of nearly all: what `ps -e` printed, and nothing chose among.
pub(super) const PROCESSES: char = '\u{FDDC}';
/// `*` as a pattern.
pub(super) const STAR: char = '\u{FDD6}';
/// `?` as a pattern.
pub(super) const QUESTION: char = '\u{FDD7}';
/// `[` as a pattern.
pub(super) const BRACKET: char = '\u{FDD8}';

/// Everything below a directory, however deep: what a `find` without a choice finds. Hardly a line writes it so.
pub(super) const ALL_BELOW: &str = "\u{FDD6}\u{FDD6}\u{FDD1}";

/// Longest text that is followed through a program, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// Whether a character of a script is one that this module gives a meaning.
pub(super) fn is_reserved(c: char) -> bool {
    ('\u{FDD0}'..='\u{FDEF}').contains(&c)
}

/// Whether a character stands for something that isn't known, and may be anything.
pub(super) fn is_open(c: char) -> bool {
    matches!(c, ANY | NET | DECODED | OUTPUT | SETTINGS | FILE | PROCESSES)
}

/// Whether part of a text isn't known at all.
pub(super) fn has_open(text: &str) -> bool {
    text.chars().any(is_open)
}

/// Whether a text is known to the last character.
pub(super) fn is_known(text: &str) -> bool {
    !text.chars().any(is_reserved)
}

/// Whether one of several texts came over the network or out of a decoder.
pub(super) fn is_foreign(texts: &[String]) -> bool {
    texts.iter().any(|text| text.contains([NET, DECODED, DECODED_MARK]))
}

/// Whether a text has a living pattern.
pub(super) fn has_pattern(text: &str) -> bool {
    text.contains([STAR, QUESTION, BRACKET])
}

/// The weightiest unknown part of a text: what stands for a text that can't be followed through a program.
pub(super) fn weightiest(text: &str) -> char {
    [NET, DECODED, ANY, PROCESSES, OUTPUT, FILE, SETTINGS]
        .into_iter()
        .find(|hole| text.contains(*hole))
        .unwrap_or(OUTPUT)
}

/// Whether a list of words between white space holds this one.
pub(super) fn listed(list: &str, word: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(char::is_whitespace);
    !word.is_empty()
        && list
            .match_indices(word)
            .any(|(at, _)| is_edge(list[..at].chars().next_back()) && is_edge(list[at + word.len()..].chars().next()))
}

/// Makes the characters of patterns alive.
pub(super) fn alive(text: &str) -> String {
    let living = |c| match c {
        '*' => STAR,
        '?' => QUESTION,
        '[' => BRACKET,
        c => c,
    };
    text.chars().map(living).collect()
}

/// Makes the characters of patterns dead.
pub(super) fn dead(text: String) -> String {
    if !has_pattern(&text) {
        return text;
    }
    let plain = |c| match c {
        STAR => '*',
        QUESTION => '?',
        BRACKET => '[',
        c => c,
    };
    text.chars().map(plain).collect()
}

/// Writes a text for a person: what isn't known is `?`.
pub(super) fn shown(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            STAR => '*',
            BRACKET => '[',
            c if is_reserved(c) => '?',
            c => c,
        })
        .collect()
}

/// Whether a pattern may match a name; what isn't known in the pattern matches anything. `[…]` matches any one character.
pub(super) fn may_match(pattern: &str, name: &str) -> bool {
    let mut pieces: Vec<char> = Vec::new();
    let mut source = pattern.chars();
    while let Some(c) = source.next() {
        if c == BRACKET {
            let rest = source.as_str();
            if let Some(end) = rest.char_indices().skip(1).find(|(_, c)| *c == ']') {
                source = rest[end.0 + 1..].chars();
                pieces.push(QUESTION);
                continue;
            }
        }
        let is_wild = c == STAR || c == NAME || is_open(c);
        if is_wild && pieces.last() == Some(&STAR) {
            continue;
        }
        pieces.push(if is_wild { STAR } else { c });
    }
    let name: Vec<char> = name.chars().collect();
    // The usual walk with one place to come back to: no more than both lengths multiplied.
    let (mut at, mut of, mut back) = (0, 0, None);
    while of < name.len() {
        match pieces.get(at) {
            Some(&STAR) => {
                back = Some((at, of));
                at += 1;
            }
            Some(&c) if c == QUESTION || c == name[of] => {
                at += 1;
                of += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    at = star + 1;
                    of = from + 1;
                    back = Some((star, from + 1));
                }
                None => return false,
            },
        }
    }
    pieces[at..].iter().all(|c| *c == STAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_may() {
        for (pattern, name, matches) in [
            ("e*", "etc", true),
            ("e*", "usr", false),
            ("???", "etc", true),
            ("??", "etc", false),
            ("[a-z]tc", "etc", true),
            ("*", "etc", true),
            ("e*c", "etcetera", false),
            ("", "", true),
        ] {
            assert_eq!(may_match(&alive(pattern), name), matches, "{pattern} {name}");
        }
        assert!(may_match(&format!("e{ANY}"), "etc"));
    }
}
