//! Reads the options of a program's words, the usual GNU and POSIX way.

use super::text::{is_open, listed};

/// A program's words, read.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Each option with its value: `-x` is `x`, `--long` is `long`.
    pub(super) given: Vec<(String, Option<String>)>,
    /// The other words.
    pub(super) operands: Vec<String>,
}

impl Options {
    /// Reads words behind the program's name. `short` has the letters that take a value, `long` the names that do, between spaces.
    pub(super) fn read(words: &[String], short: &str, long: &str) -> Self {
        let mut options = Self::default();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                options.operands.extend(words.cloned());
                break;
            }
            if let Some(name) = word.strip_prefix("--") {
                let (name, value) = match name.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None if listed(long, name) => (name, words.next().cloned()),
                    None => (name, None),
                };
                options.given.push((name.to_owned(), value));
            } else if word.len() > 1 && word.starts_with('-') {
                let letters = &word[1..];
                for (at, letter) in letters.char_indices() {
                    if short.contains(letter) {
                        let rest = &letters[at + letter.len_utf8()..];
                        let value = if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) };
                        options.given.push((letter.to_string(), value));
                        break;
                    }
                    options.given.push((letter.to_string(), None));
                }
            } else {
                options.operands.push(word.clone());
            }
        }
        options
    }

    /// Whether an option was given, by one of its letters or the beginning of its long name.
    pub(super) fn has(&self, letters: &str, long: &str) -> bool {
        self.given.iter().any(|(name, _)| is_option(name, letters, long))
    }

    /// The values given to an option.
    pub(super) fn values<'a>(&'a self, letters: &'a str, long: &'a str) -> impl Iterator<Item = &'a str> {
        self.given
            .iter()
            .filter(move |(name, _)| is_option(name, letters, long))
            .filter_map(|(_, value)| value.as_deref())
    }

    /// Whether a word could be an option that isn't known.
    pub(super) fn has_unknown(&self) -> bool {
        self.operands.iter().any(|word| word.starts_with(is_open))
            || self.given.iter().any(|(name, _)| name.contains(is_open))
    }
}

fn is_option(name: &str, letters: &str, long: &str) -> bool {
    if name.chars().count() == 1 {
        return letters.contains(name) || name.starts_with(is_open);
    }
    !long.is_empty() && name.len() > 1 && (long.starts_with(name) || name.contains(is_open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_every_spelling() {
        let words: Vec<String> = ["-rfo", "out", "--recurs", "--mode=7", "x", "--", "-y"].map(str::to_owned).into();
        let options = Options::read(&words, "o", "");
        assert!(options.has("r", "recursive") && options.has("f", "") && options.has("", "recursive"));
        assert_eq!(options.values("o", "output").collect::<Vec<_>>(), ["out"]);
        assert_eq!(options.values("m", "mode").collect::<Vec<_>>(), ["7"]);
        assert_eq!(options.operands, ["x", "-y"]);
    }
}
