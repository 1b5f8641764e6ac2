//! A parse that ends: the text is short enough, and the time is looked at all along.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

use super::Language;

/// Bytes of a text; a longer one isn't parsed. A source of 10,000 lines is half of it.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Milliseconds that a text may take, from parse to result. The longest text takes a third of it on a machine at rest.
pub const PARSE_MS_MAX: u64 = 500;

/// When the time for a text is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn new(ms: u64) -> Self {
        // What a unit test sees must not hang on how busy the machine is.
        let ms = if cfg!(test) { ms.saturating_mul(1_000) } else { ms };
        Self(Instant::now() + Duration::from_millis(ms))
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Parses a text, with the tree of what it was before where that is known and told of the difference; `None` if the text
/// is too long or the time is over.
pub(super) fn parse(language: Language, text: &str, before: Option<&Tree>, deadline: Deadline) -> Option<Tree> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    let mut over = |_: &tree_sitter::ParseState| {
        if deadline.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut over);
    let text = if language == Language::Bash { narrowed(text) } else { Cow::Borrowed(text) };
    let bytes = text.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), before, Some(options))
}

/// The same bytes long, with letters of Latin-1 in place of all that lies beyond it.
///
/// The scanner of the grammar of bash (0.25) asks C's `isdigit` about each character behind a `{`, which reads outside of its
/// table for those. Outside of ASCII all characters are the same to bash: parts of a word.
fn narrowed(text: &str) -> Cow<'_, str> {
    let is_narrow = |it: char| u32::from(it) <= 0xff;
    if text.chars().all(is_narrow) {
        return Cow::Borrowed(text);
    }
    let mut narrow = String::with_capacity(text.len());
    for it in text.chars() {
        match it.len_utf8() {
            _ if is_narrow(it) => narrow.push(it),
            2 => narrow.push('\u{e9}'),
            3 => narrow.push_str("\u{e9}e"),
            _ => narrow.push_str("\u{e9}\u{e9}"),
        }
    }
    Cow::Owned(narrow)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bash_s_scanner_is_asked_about_no_character_beyond_its_table(text in any::<String>()) {
            let narrow = narrowed(&text);
            prop_assert_eq!(narrow.len(), text.len());
            prop_assert!(narrow.chars().all(|it| u32::from(it) <= 0xff));
            prop_assert!(text.char_indices().all(|(at, it)| !it.is_ascii() || narrow[at..].starts_with(it)));
        }
    }

    #[test]
    fn a_brace_of_bash_may_stand_before_any_character() {
        for it in ['\u{100}', '\u{4e2d}', '\u{1f600}', '\u{e0001}', '\u{10ffff}'] {
            let text = format!("echo {{{it}..{it}}} '{it}'\n");
            let tree = parse(Language::Bash, &text, None, Deadline::new(60_000)).expect("a tree");
            assert_eq!(tree.root_node().end_byte(), text.len());
        }
    }
}
