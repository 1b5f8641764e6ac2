//! The beginning of a line of Markdown: containers (quotes, list items) and the kind of block.
//!
//! Owns the decision from a line's first characters, made as soon as more of them couldn't change it. Pure and without
//! memory of its own: it is called again with each character until it decides, at most [`HEAD_BYTES_MAX`] of them.
//!
//! It is more lenient than CommonMark in two ways: two columns of indentation nest an item under any marker, as models
//! write lists; a line that isn't indented leaves the list, blank line or not.

use crate::render::text;

/// Bytes of a line after which an undecided line is text.
pub(super) const HEAD_BYTES_MAX: usize = 256;
/// Containers within each other; deeper markers are text.
const DEPTH_MAX: usize = 16;
const COMMAND: &str = "CMD: ";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Quote,
    /// A list item: columns of its marker and of its text relative to the text of the container around it (negative where
    /// a nested list is indented less than that), and the marker as shown.
    Item {
        indent: isize,
        content: isize,
        marker: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Blank,
    Text,
    Heading(usize),
    /// The mark, the number of marks, and the limit on the indentation that code lines lose, in columns.
    Fence {
        mark: char,
        count: usize,
        indent: usize,
    },
    Rule,
    Row,
    Indented,
    Command,
    Math,
}

/// The kind of the previous line, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Paragraph,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The number of open containers that continue.
    pub(super) matched: usize,
    /// The containers that begin.
    pub(super) new: Vec<Container>,
    pub(super) leaf: Leaf,
    /// The start of the block's own text in the head.
    pub(super) rest: usize,
}

/// Classifies a line by the part that is known so far; `None` asks for more, never when the line is complete.
pub(super) fn classify(head: &str, complete: bool, open: &[Container], before: Before) -> Option<Start> {
    if head.starts_with(COMMAND) {
        return Some(Start { matched: 0, new: Vec::new(), leaf: Leaf::Command, rest: 0 });
    }
    if !complete && COMMAND.starts_with(head) {
        return None;
    }
    if head.len() > HEAD_BYTES_MAX {
        return Some(Start { matched: 0, new: Vec::new(), leaf: Leaf::Text, rest: 0 });
    }
    let mut line = Line { head, complete, at: 0, base: 0, short: 0, listed: false };
    let mut matched = 0;
    for container in open {
        let (indent, after, c) = line.measure();
        match (container, c) {
            (_, None) if !complete => return None,
            (Container::Item { .. }, None) => {}
            (Container::Quote, Some('>')) if indent < 4 => line.quote(after)?,
            (Container::Item { indent: marker, content, .. }, Some(_)) if line.beyond(indent) >= marker + 2 => {
                let wanted = usize::try_from(content + line.short).unwrap_or(0);
                line.skip(indent.min(wanted));
                line.short = content + line.short - columns(indent.min(wanted));
                line.listed = true;
            }
            _ => break,
        }
        matched += 1;
    }
    let mut new = Vec::new();
    loop {
        let (indent, after, c) = line.measure();
        let Some(c) = c else {
            return complete.then_some(Start { matched, new, leaf: Leaf::Blank, rest: head.len() });
        };
        let marker_like = line.listed && (c.is_ascii_digit() || matches!(c, '-' | '*' | '+'));
        if indent >= 4 && new.is_empty() && before != Before::Paragraph && !marker_like {
            line.skip(4);
            return Some(Start { matched, new, leaf: Leaf::Indented, rest: line.at });
        }
        let deep = matched + new.len() >= DEPTH_MAX;
        if c == '>' && !deep {
            line.quote(after)?;
            new.push(Container::Quote);
            continue;
        }
        match line.marker(after)? {
            Some(length) if !deep => {
                line.at = after;
                new.push(line.item(indent, length)?);
            }
            _ => {
                let leaf = line.leaf(after)?;
                return Some(Start { matched, new, leaf, rest: after });
            }
        }
    }
}

/// A position in a line's head.
struct Line<'a> {
    head: &'a str,
    complete: bool,
    at: usize,
    /// The start of the innermost quote's text.
    base: usize,
    /// Columns of indentation that the line needs to reach its container's text.
    short: isize,
    listed: bool,
}

impl Line<'_> {
    /// Returns the width of the blanks from here, their end, and the character there.
    fn measure(&self) -> (usize, usize, Option<char>) {
        let mut columns = 0;
        for (offset, c) in self.head[self.at..].char_indices() {
            match c {
                ' ' => columns += 1,
                '\t' => columns += 4,
                _ => return (columns, self.at + offset, Some(c)),
            }
        }
        (columns, self.head.len(), None)
    }

    /// Returns the column, relative to the container's text, of the text after this number of blanks.
    fn beyond(&self, indent: usize) -> isize {
        columns(indent) - self.short
    }

    fn skip(&mut self, columns: usize) {
        self.at += skip_columns(&self.head[self.at..], columns);
    }

    fn quote(&mut self, mark: usize) -> Option<()> {
        self.at = mark + 1;
        self.short = 0;
        match self.head[self.at..].chars().next() {
            None if !self.complete => return None,
            Some(' ') => self.at += 1,
            _ => {}
        }
        self.base = self.at;
        Some(())
    }

    /// Returns the length of the list marker at `at`, if there is one; `None` means that a rule is still possible and
    /// more characters are needed.
    fn marker(&self, at: usize) -> Option<Option<usize>> {
        let text = &self.head[at..];
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let length = match text.as_bytes() {
            [b'-' | b'*' | b'+', ..] => 1,
            _ if (1..=9).contains(&digits) => match text.as_bytes().get(digits) {
                Some(b'.' | b')') => digits + 1,
                None if !self.complete => return None,
                _ => return Some(None),
            },
            _ => return Some(None),
        };
        match text.as_bytes().get(length) {
            None if !self.complete => None,
            Some(b' ' | b'\t') if is_rule(text) && !text.starts_with('+') => {
                // `- - -` is a rule; `- ` may become one or an item.
                if self.complete { Some((rule_marks(text) < 3).then_some(length)) } else { None }
            }
            Some(b' ' | b'\t') => Some(Some(length)),
            _ => Some(None),
        }
    }

    /// Reads the list item whose marker is here.
    fn item(&mut self, indent: usize, length: usize) -> Option<Container> {
        let bullet = length == 1;
        let mut marker = if bullet { "• ".to_owned() } else { format!("{} ", &self.head[self.at..self.at + length]) };
        self.at += length;
        let (blanks, after, c) = self.measure();
        if c.is_none() && !self.complete {
            return None;
        }
        let blanks = if c.is_none() || blanks > 4 { 1 } else { blanks };
        self.skip(blanks);
        if c == Some('[') && self.at == after {
            let rest = &self.head[after..];
            let tasks = [("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ ")];
            if !self.complete && tasks.iter().any(|(task, _)| task.len() > rest.len() && task.starts_with(rest)) {
                return None;
            }
            if let Some((task, sign)) = tasks.iter().find(|(task, _)| rest.starts_with(task)) {
                marker = if bullet { (*sign).to_owned() } else { format!("{marker}{sign}") };
                self.at += task.len();
            }
        }
        let indent = self.beyond(indent);
        self.listed = true;
        self.short = 0;
        Some(Container::Item { indent, content: indent + columns(length + blanks), marker })
    }

    fn leaf(&self, at: usize) -> Option<Leaf> {
        let text = &self.head[at..];
        let Some(first) = text.chars().next() else { return Some(Leaf::Blank) };
        let run = text.chars().take_while(|&c| c == first).count();
        let more = !self.complete && text.len() == run * first.len_utf8();
        match first {
            '#' if run <= 6 && more => None,
            '#' if run <= 6 && (text.len() == run || text[run..].starts_with([' ', '\t'])) => Some(Leaf::Heading(run)),
            '`' | '~' if more => None,
            '`' | '~' if run >= 3 => {
                Some(Leaf::Fence { mark: first, count: run, indent: text::width(&self.head[self.base..at]) })
            }
            '-' | '*' | '_' if is_rule(text) && !self.complete => None,
            '-' | '*' | '_' if is_rule(text) && rule_marks(text) >= 3 => Some(Leaf::Rule),
            '|' => Some(Leaf::Row),
            '$' | '\\' if self.complete && matches!(text.trim_end(), "$$" | "\\[") => Some(Leaf::Math),
            '$' | '\\' if !self.complete && matches!(text.trim_end(), "$" | "$$" | "\\" | "\\[") => None,
            _ => Some(Leaf::Text),
        }
    }
}

/// Columns that can go below zero; a head is far shorter than any limit of the type.
fn columns(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

fn is_rule(text: &str) -> bool {
    let first = text.as_bytes().first();
    text.bytes().all(|byte| Some(&byte) == first || byte == b' ' || byte == b'\t')
}

fn rule_marks(text: &str) -> usize {
    text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count()
}

/// Returns the bytes of blanks, up to this number of columns.
fn skip_columns(text: &str, mut columns: usize) -> usize {
    let blank = |byte: &u8| {
        let wide = match byte {
            b' ' => 1,
            b'\t' => 4,
            _ => return false,
        };
        let fits = columns > 0;
        columns = columns.saturating_sub(wide);
        fits
    };
    text.bytes().take_while(blank).count()
}

/// An open fenced block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    pub(super) mark: char,
    pub(super) count: usize,
    pub(super) indent: usize,
    pub(super) quotes: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FenceLine {
    /// The closing fence.
    Close,
    /// Code from this byte on.
    Code(usize),
    /// A `CMD: ` line.
    Command,
    /// The quote around the block has ended, and the block with it.
    Left,
}

/// Classifies a line inside a fenced block; `None` asks for more, never when the line is complete.
pub(super) fn classify_fenced(head: &str, complete: bool, fence: Fence) -> Option<FenceLine> {
    if head.starts_with(COMMAND) {
        return Some(FenceLine::Command);
    }
    if !complete && COMMAND.starts_with(head) {
        return None;
    }
    let complete = complete || head.len() > HEAD_BYTES_MAX;
    let mut line = Line { head, complete, at: 0, base: 0, short: 0, listed: false };
    for _ in 0..fence.quotes {
        match line.measure() {
            (_, _, None) if !complete => return None,
            (_, after, Some('>')) => line.quote(after)?,
            _ => return Some(FenceLine::Left),
        }
    }
    line.skip(fence.indent);
    let code = line.at;
    let (indent, after, c) = line.measure();
    let text = &head[after..];
    let marks = text.chars().take_while(|&c| c == fence.mark).count();
    let closing = indent < 4 && text[marks..].trim().is_empty();
    match c {
        None if !complete => None,
        _ if !closing => Some(FenceLine::Code(code)),
        _ if !complete => None,
        _ if marks >= fence.count => Some(FenceLine::Close),
        _ => Some(FenceLine::Code(code)),
    }
}
