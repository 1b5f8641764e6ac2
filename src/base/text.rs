//! Text functions for several rooms: deceptive characters (invisible ones, and letters that look like Latin ones), and a number
//! with its noun. Pure.

/// Returns whether a character is invisible and can hide something: formats, fillers, joiners, selectors, tags, direction marks.
/// Controls (C0, DEL, C1) and white space are not included.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether a character can hide a command's or path's meaning and is needed in neither: a control, or an invisible
/// character. The selectors that follow an emoji hide nothing.
#[must_use]
pub fn is_odd(c: char) -> bool {
    let is_plain = matches!(c, ' '..='~' | '\n' | '\r' | '\t' | '\u{fe0e}' | '\u{fe0f}');
    !is_plain && (c.is_control() || is_invisible(c))
}

/// Returns whether a character can be part of a joined emoji: a superset by blocks, because the exact table changes with each
/// Unicode version.
#[must_use]
pub fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Returns whether a variation selector (U+FE0E, U+FE0F) changes the appearance of this character.
#[must_use]
pub fn has_emoji_variant(c: char) -> bool {
    is_emoji(c)
        || matches!(c, '0'..='9' | '#' | '*' | '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙')
        || matches!(c, '\u{24c2}' | '\u{25a0}'..='\u{25ff}' | '\u{2900}'..='\u{297f}')
}

/// Returns whether a letter of another script can be taken for a Latin one: Greek, Cyrillic, Cherokee, full-width and
/// mathematical letters. The Greek letters that physics and mathematics use among Latin ones are not counted.
#[must_use]
pub fn is_look_alike(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{52f}' | '\u{13a0}'..='\u{13ff}' | '\u{ff01}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}')
        && !matches!(c, 'µ' | 'μ' | 'Ω' | 'π' | 'λ' | 'Δ' | 'σ' | 'θ' | 'α' | 'β' | 'γ' | 'ε')
}

/// Finds the look-alike letters that share a word with Latin letters, as offsets in bytes. Words of one script, such as
/// Russian text, are left alone.
#[must_use]
pub fn look_alikes(line: &str) -> Vec<usize> {
    let mut found = Vec::new();
    if line.is_ascii() {
        return found;
    }
    let mut word: Vec<(usize, char)> = Vec::new();
    for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
        if c.is_alphanumeric() || c == '_' {
            word.push((at, c));
            continue;
        }
        if word.iter().any(|(_, c)| c.is_ascii_alphabetic()) {
            found.extend(word.iter().filter(|(_, c)| is_look_alike(*c)).map(|(at, _)| *at));
        }
        word.clear();
    }
    found
}

/// Returns whether a word is a valid name of a shell variable: letters, digits and `_`, not beginning with a digit.
#[must_use]
pub fn is_variable(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns a number with its noun, in the plural unless the number is one.
#[must_use]
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Cuts text to a number of characters and escapes what isn't printable.
#[must_use]
pub fn shorten(text: &str, chars_max: usize) -> String {
    let mut short: String = text
        .chars()
        .take(chars_max)
        .flat_map(|c| {
            // `escape_debug` knows which characters are printable; quotes and backslashes are printable in a message.
            let is_plain = matches!(c, '"' | '\'' | '\\');
            let escaped = (!is_plain).then(|| c.escape_debug());
            is_plain.then_some(c).into_iter().chain(escaped.into_iter().flatten())
        })
        .collect();
    if text.chars().nth(chars_max).is_some() {
        short.push('…');
    }
    short
}

/// A name for a line of ReedClaw's: control characters, and those that hide something, are escaped.
#[must_use]
pub fn spelled_out(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            _ if c.is_control() => text.extend(c.escape_debug()),
            _ if is_invisible(c) => text.extend(c.escape_unicode()),
            _ => text.push(c),
        }
    }
    text
}

/// A path for a sentence of ReedClaw's: in quotation marks if it has more than the characters of a plain name, because it could
/// look like our words.
#[must_use]
pub fn in_sentence(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@~=,".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("{path:?}") }
}

/// A text with each run of blanks and line ends replaced by one blank.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An elapsed time, in the largest unit that fits.
#[must_use]
pub fn age(milliseconds: i64) -> String {
    let minutes = milliseconds.max(0) / 60_000;
    match minutes {
        0 => "now".to_owned(),
        1..60 => format!("{minutes} min"),
        60..1_440 => format!("{} h", minutes / 60),
        _ => format!("{} d", minutes / 1_440),
    }
}

/// Splits a text at blanks. A quoted part is one word, without the quotes; a quote that doesn't begin a word, or isn't closed at
/// the end of one, is ordinary text.
#[must_use]
pub fn quoted_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quoted = quote.and_then(|quote| {
            let inner = &rest[1..];
            let is_end = |at: &usize| inner[at + 1..].chars().next().is_none_or(char::is_whitespace);
            let end = inner.match_indices(quote).map(|(at, _)| at).find(is_end)?;
            Some((&inner[..end], &inner[end + 1..]))
        });
        let word_end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, after) = quoted.unwrap_or_else(|| rest.split_at(word_end));
        words.push(word);
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_line_of_ours_breaks_and_hides_nothing() {
        assert_eq!(spelled_out("x]\n[undo] \u{202e}\u{1b}[2K\u{2800}"), r"x]\n[undo] \u{202e}\u{1b}[2K\u{2800}");
        assert_eq!(spelled_out("it's \"ä\\日本\"e\u{301}"), "it's \"ä\\日本\"e\u{301}");
    }

    #[test]
    fn letters_of_two_scripts_in_one_word_are_found() {
        assert_eq!(look_alikes("\u{440}ython x"), [0]);
        assert_eq!(look_alikes("cat /usr/b\u{456}n/ls"), [10]);
        for harmless in ["python", "echo привет мир", "Δx = 2µs", "日本 naïve", "привет/world"] {
            assert_eq!(look_alikes(harmless), [0; 0], "{harmless}");
        }
    }

    #[test]
    fn an_age_has_its_largest_unit() {
        let minute = 60_000;
        for (milliseconds, words) in [
            (-5, "now"),
            (59_999, "now"),
            (minute, "1 min"),
            (59 * minute, "59 min"),
            (60 * minute, "1 h"),
            (1_439 * minute, "23 h"),
            (1_440 * minute, "1 d"),
            (40 * 1_440 * minute, "40 d"),
        ] {
            assert_eq!(age(milliseconds), words);
        }
    }

    #[test]
    fn words_in_quotes_are_one() {
        for (text, words) in [
            ("", &[][..]),
            ("  a  b ", &["a", "b"]),
            ("\"f one.txt\" two", &["f one.txt", "two"]),
            ("'two words.sh'", &["two words.sh"]),
            ("\"it's\" don't", &["it's", "don't"]),
            ("'a b", &["'a", "b"]),
            ("'a'b c", &["'a'b", "c"]),
            ("\"\" #12", &["", "#12"]),
            ("say \"é ü\"", &["say", "é ü"]),
        ] {
            assert_eq!(quoted_words(text), words, "{text}");
        }
    }
}
