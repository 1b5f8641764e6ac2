//! Colours of a text that arrives line by line: each line is coloured when it arrives, using all the text before it.

use std::ops::Range;

use tree_sitter::{InputEdit, Point, Tree};

use super::highlight::painted;
use super::open::Open;
use super::parse::{Deadline, parse};
use super::{Language, Paint};

/// Limit for a text that arrives line by line; later lines have no colours.
pub const STREAMED_BYTES_MAX: usize = 128 * 1024;
/// Time limit for one line in milliseconds; after a line that takes longer, further lines have no colours.
const LINE_MS_MAX: u64 = 50;

/// Colours a text as its lines arrive.
pub struct Lines {
    language: Language,
    /// The lines so far, followed by closers for everything that is open at their end.
    text: String,
    /// The length of the lines, in bytes.
    bytes: usize,
    /// The number of lines.
    count: usize,
    open: Open,
    tree: Option<Tree>,
    is_over: bool,
}

impl Lines {
    /// Starts a text.
    #[must_use]
    pub fn new(language: Language) -> Self {
        Self {
            language,
            text: String::new(),
            bytes: 0,
            count: 0,
            open: Open::new(language),
            tree: None,
            is_over: false,
        }
    }

    /// Adds the next line, without its end; returns its coloured parts, as [`highlight`](super::highlight) does.
    pub fn push(&mut self, line: &str) -> Vec<(Range<usize>, Paint)> {
        if self.is_over || self.bytes + line.len() > STREAMED_BYTES_MAX {
            self.is_over = true;
            return Vec::new();
        }
        let parts = self.parts(line);
        self.is_over = parts.is_none();
        parts.unwrap_or_default()
    }

    fn parts(&mut self, line: &str) -> Option<Vec<(Range<usize>, Paint)>> {
        let deadline = Deadline::new(LINE_MS_MAX);
        self.open.line(line);
        let begin = self.bytes;
        let start_position = Point::new(self.count, 0);
        let (old_end_byte, old_end_position) = (self.text.len(), self.end());
        self.text.truncate(begin);
        self.text.push_str(line);
        self.text.push('\n');
        (self.bytes, self.count) = (self.text.len(), self.count + 1);
        let end = self.open.end();
        self.text.push_str(&end);
        let new_end_position = self.end();
        if let Some(tree) = &mut self.tree {
            tree.edit(&InputEdit {
                start_byte: begin,
                old_end_byte,
                new_end_byte: self.text.len(),
                start_position,
                old_end_position,
                new_end_position,
            });
        }
        let tree = parse(self.language, &self.text, self.tree.as_ref(), deadline)?;
        let within = begin..begin + line.len();
        let parts = painted(self.language, &self.text, tree.root_node(), within, deadline)?;
        self.tree = Some(tree);
        Some(parts.into_iter().map(|(range, paint)| (range.start - begin..range.end - begin, paint)).collect())
    }

    /// The end of the text, after the end of a line, since both its parts end there.
    fn end(&self) -> Point {
        Point::new(self.count + memchr::memchr_iter(b'\n', &self.text.as_bytes()[self.bytes..]).count(), 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streamed(language: Language, text: &str) -> Vec<(Range<usize>, Paint)> {
        let mut lines = Lines::new(language);
        let mut begin = 0;
        let mut all: Vec<(Range<usize>, Paint)> = Vec::new();
        for line in text.split('\n') {
            for (range, paint) in lines.push(line) {
                all.push((begin + range.start..begin + range.end, paint));
            }
            begin += line.len() + 1;
        }
        all
    }

    /// Each byte's colour, so that parts split at line ends don't matter.
    fn by_byte(text: &str, parts: Vec<(Range<usize>, Paint)>) -> Vec<Option<Paint>> {
        let mut paints = vec![None; text.len()];
        for (range, paint) in parts {
            range.for_each(|at| paints[at] = Some(paint));
        }
        paints
    }

    #[test]
    fn lines_have_the_colours_of_the_whole() {
        for (language, text) in [
            (Language::Rust, include_str!("open.rs")),
            (Language::Rust, "/* a\n  fn b */\nfn f(\n  x: &str,\n) -> u8 {\n  \"two\n lines\";\n  g(1)\n}\n"),
            (
                Language::Python,
                "def f(a):\n    \"\"\"doc\n    if x\n    \"\"\"\n    return [\n        1,\n    ]\n\nclass A:\n    pass\n",
            ),
            (Language::Bash, "if x; then\n  for f in *; do\n    echo \"$f\"\n  done\nfi\ncat <<EOF\nif\nEOF\n# end\n"),
            (Language::JavaScript, "const a = {\n  b: `x\n ${y}`,\n  c() { return 1; },\n};\n"),
            (Language::Go, "func f() {\n\tx := `a\nfunc`\n\tg(x)\n}\n"),
            (Language::Lua, "local function f()\n  if x then\n    return 1\n  end\nend\n--[[\n if\n]]\n"),
        ] {
            let whole = by_byte(text, super::super::highlight(language, text));
            let lines = by_byte(text, streamed(language, text));
            let differ: Vec<usize> = (0..text.len())
                .filter(|&at| text.as_bytes()[at] != b'\n' && !text[at..].starts_with(' ') && whole[at] != lines[at])
                .collect();
            // A later line can still change the meaning of a name, but nearly all names are clear immediately.
            assert!(
                differ.len() * 100 <= text.len(),
                "{language:?}: {} of {}: {:?}",
                differ.len(),
                text.len(),
                differ.iter().map(|&at| &text[at..=at]).collect::<String>()
            );
        }
    }

    #[test]
    fn a_long_text_goes_on_without_colours() {
        let mut lines = Lines::new(Language::C);
        let line = format!("int x = {};", "1 + ".repeat(STREAMED_BYTES_MAX / 4));
        assert!(lines.push(&line).is_empty());
        assert!(lines.push("int x;").is_empty());
    }

    proptest! {
        #[test]
        fn any_lines_have_parts_within_them(text in "[ -~\n\u{e9}]{0,120}", at in 0usize..11) {
            let language = Language::all().nth(at).expect("a language");
            let mut lines = Lines::new(language);
            for line in text.split('\n') {
                let mut end = 0;
                for (range, _) in lines.push(line) {
                    prop_assert!(range.start >= end && line.get(range.clone()).is_some());
                    end = range.end;
                }
            }
        }
    }
}
