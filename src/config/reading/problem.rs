//! The problems of a config, as data, one line each. It never prints.

use std::fmt;
use std::sync::{Arc, OnceLock};

pub(in crate::config) use crate::base::text::shorten;
use crate::config::reading::places::Places;

/// Longest piece of the user's text that a problem shows, in characters: a line of a terminal, not a page.
const SHOWN_CHARS_MAX: usize = 60;
/// Limit on the problems of one load: more than anyone makes by hand, because a script can make a million.
pub(in crate::config) const PROBLEMS_MAX: usize = 1000;

/// One problem; the rest of the config applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as a user would write it (`~/.config/reedclaw/config.lua`).
    pub file: String,
    /// The line, counted from 1, if Lua reports one.
    pub line: Option<u32>,
    /// The key, from the top (`context.max_turns`); empty if the whole file is meant.
    pub key: String,
    /// The actual value, the allowed values, and the value that applies now.
    pub message: String,
    /// `true` if the value applies, but the person should know about it.
    pub is_warning: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        let mark = if self.is_warning { "warning: " } else { "" };
        write!(f, ": {mark}{}", self.message)
    }
}

/// A file with its text, in which keys are looked up only when a line is first requested: most configs have no problem, and
/// finding the places would delay the first prompt more than the check does.
#[derive(Clone, Default)]
pub(in crate::config) struct Source {
    file: String,
    text: String,
    places: OnceLock<Places>,
}

impl Source {
    /// A file of which only the name is known.
    pub(in crate::config) fn named(file: &str) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    /// The line of a key, if the key is written out.
    pub(in crate::config) fn line(&self, key: &[String]) -> Option<u32> {
        self.places.get_or_init(|| Places::of(&self.text)).line(key)
    }

    /// The file's name, as it is displayed.
    pub(in crate::config) fn file(&self) -> &str {
        &self.file
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may contain a key.
        f.debug_tuple("Source").field(&self.file).finish()
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.text == other.text
    }
}

/// Collects the problems of one file, up to a limit, and counts the rest.
pub(in crate::config) struct Problems {
    source: Arc<Source>,
    list: Vec<Problem>,
    dropped: usize,
}

impl Problems {
    pub(in crate::config) fn of(file: &str) -> Self {
        Self { source: Arc::new(Source::named(&plain(file))), list: Vec::new(), dropped: 0 }
    }

    /// The file's name, as it is displayed.
    pub(in crate::config) fn file_name(&self) -> &str {
        self.source.file()
    }

    /// Adds the file's text, for line numbers.
    pub(in crate::config) fn locate(&mut self, text: &str) {
        let file = self.file_name().to_owned();
        self.source = Arc::new(Source { file, text: text.to_owned(), places: OnceLock::new() });
    }

    /// The file.
    pub(in crate::config) fn source(&self) -> Arc<Source> {
        Arc::clone(&self.source)
    }

    /// The line of a key, if the key is written out.
    pub(in crate::config) fn line(&self, key: &[String]) -> Option<u32> {
        self.source.line(key)
    }

    /// Adds a problem with one key.
    pub(in crate::config) fn key(&mut self, key: &[String], message: String) {
        self.push(self.line(key), dotted(key), message, false);
    }

    /// Adds a warning about one key, whose value applies.
    pub(in crate::config) fn warning(&mut self, key: &[String], message: String) {
        self.push(self.line(key), dotted(key), message, true);
    }

    /// The problems found so far.
    pub(in crate::config) fn all(&self) -> &[Problem] {
        &self.list
    }

    /// Returns whether a problem is about the whole file.
    pub(in crate::config) fn has_file(&self) -> bool {
        self.list.iter().any(|problem| problem.key.is_empty())
    }

    /// Adds a problem with the whole file.
    pub(in crate::config) fn file(&mut self, line: Option<u32>, message: String) {
        self.push(line, String::new(), message, false);
    }

    fn push(&mut self, line: Option<u32>, key: String, message: String, is_warning: bool) {
        if self.list.len() < PROBLEMS_MAX {
            self.list.push(Problem { file: self.file_name().to_owned(), line, key, message, is_warning });
        } else {
            self.dropped += 1;
        }
    }

    /// Returns the problems; if there were too many, the last one names the number of those left out.
    pub(in crate::config) fn finish(mut self) -> Vec<Problem> {
        // In the order of the file; problems without a line come first, in the order in which they were found.
        self.list.sort_by_key(|problem| problem.line);
        if self.dropped > 0 {
            let message = format!("{} more problems are not shown", self.dropped);
            let file = self.file_name().to_owned();
            self.list.push(Problem { file, line: None, key: String::new(), message, is_warning: false });
        }
        self.list
    }
}

/// Writes a key as Lua would: `models.local.endpoint`, `models["qwen 2.5"].endpoint`.
pub(in crate::config) fn dotted(key: &[String]) -> String {
    let mut text = String::new();
    for part in key {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if part.len() <= SHOWN_CHARS_MAX && !part.is_empty() && part.chars().all(word) {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(part);
        } else {
            text.push_str(&format!("[{}]", quoted(part)));
        }
    }
    text
}

/// Quotes text from the user, shortened and without control characters.
pub(in crate::config) fn quoted(text: &str) -> String {
    format!("\"{}\"", plain(text).replace('"', "\\\""))
}

/// Makes text from the user fit on one line: the first `SHOWN_CHARS_MAX` characters, control characters escaped.
fn plain(text: &str) -> String {
    shorten(text, SHOWN_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problems_text_is_short_and_printable() {
        assert_eq!(quoted("many"), "\"many\"");
        assert_eq!(quoted("a\x1b[31m\"b\n\u{202e}"), "\"a\\u{1b}[31m\\\"b\\n\\u{202e}\"");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 63);
        let key = ["models".to_owned(), "a b".to_owned(), "x\x07".to_owned()];
        assert_eq!(dotted(&key), "models[\"a b\"][\"x\\u{7}\"]");
    }

    #[test]
    fn problems_are_bounded_and_the_rest_is_counted() {
        let mut problems = Problems::of("f");
        for _ in 0..PROBLEMS_MAX + 7 {
            problems.file(Some(3), "bad".into());
        }
        let list = problems.finish();
        assert_eq!(list.len(), PROBLEMS_MAX + 1);
        assert_eq!(list[0].to_string(), "f:3: bad");
        assert_eq!(list[PROBLEMS_MAX].to_string(), "f: 7 more problems are not shown");
    }
}
