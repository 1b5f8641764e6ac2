//! A parse that always ends: the length of the text is limited, and the time is checked throughout.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

use super::Language;

/// Limit for a text that is parsed, in bytes. A source of 10,000 lines has half of it.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Time limit for a text in milliseconds, from parse to result. The longest text takes a third of it on an idle machine.
pub const PARSE_MS_MAX: u64 = 500;

/// The deadline for a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn new(ms: u64) -> Self {
        // The result of a unit test must not depend on how busy the machine is.
        let ms = if cfg!(test) { ms.saturating_mul(1_000) } else { ms };
        Self(Instant::now() + Duration::from_millis(ms))
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Parses a text, with the updated syntax tree of its earlier version, if there is one; `None` if the text is too long or the
/// time is over.
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
    let bytes = &*readable(language, text);
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), before, Some(options))
}

/// A text in a form that a grammar may read, of the same length in bytes. Bash's scanner calls C's `isdigit` with any character,
/// which is looked up in a table of 384: another script reads far outside it, and the process crashes. Such characters are parts
/// of words.
fn readable(language: Language, text: &str) -> Cow<'_, [u8]> {
    if language != Language::Bash || text.is_ascii() {
        return text.as_bytes().into();
    }
    text.bytes().map(|byte| if byte.is_ascii() { byte } else { b'_' }).collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last of these texts, unchanged, crashed the process.
    #[test]
    fn bash_is_parsed_with_any_text_after_a_brace() {
        for text in ["echo {1..3}", "echo {\u{e9}", "echo {1..\u{1f600}}", "echo {\u{10ffff}", "echo {1..\u{10ffff}"] {
            let tree = parse(Language::Bash, text, None, Deadline::new(PARSE_MS_MAX)).expect("a tree");
            assert_eq!(tree.root_node().end_byte(), text.len(), "{text}");
            assert_eq!(readable(Language::Bash, text).len(), text.len());
        }
    }
}
