//! Streaming markdown to terminal text for normal scrollback.
//!
//! Owns the state of an answer that is being drawn: append-only, a character at a time, so that the result doesn't
//! depend on the division into pieces. Must not know the terminal, the model, or the effect of a command.
//!
//! A source line is a terminal line or several: a single newline stays a newline, and inline spans end with their line.
//! A table needs its leading `|`. Setext headings (`===` below) stay as written, `---` is a rule, because the line
//! above has been printed already. Code is never wrapped, indented or framed, so that it can be copied; without colours
//! its fences stay, so that the reader sees its end.

mod block;
mod code;
mod inline;
mod table;
#[cfg(test)]
mod tests;
mod wrap;

use std::collections::VecDeque;

use nu_ansi_term::{Color, Style};

use self::block::{Before, Container, Fence, FenceLine, Leaf, Start};
use self::code::Code;
use self::inline::{Inline, Mark};
use self::wrap::{Prefix, Writer};
use super::sanitise::Sanitiser;
use crate::syntax::{Document, Scan};

/// Bytes of a table that are held until it is complete; beyond, the rest is shown row by row.
const TABLE_BYTES_MAX: usize = 64 * 1024;
/// Narrowest terminal that is wrapped for; a narrower one (0 is "unknown") wraps by itself.
const WIDTH_COLUMNS_MIN: usize = 8;
/// Columns of a rule if the width is unknown.
const RULE_COLUMNS: usize = 40;

/// The appearance of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal; less than 8 turns wrapping off.
    pub width_columns: usize,
    /// `true` if SGR sequences are written (the caller knows `NO_COLOR` and the terminal).
    pub color: bool,
    /// `true` if markdown is drawn; otherwise the text is only sanitised.
    pub markdown: bool,
}

/// The drawing of one answer. Its text is safe for a terminal whatever came in.
pub struct Markdown {
    options: Options,
    sanitiser: Sanitiser,
    writer: Writer,
    width: usize,
    inline: Inline,
    mode: Mode,
    /// The line so far, while it is undecided, held whole or recorded.
    head: String,
    containers: Vec<Container>,
    before: Before,
    fence: Option<Fence>,
    /// The colours of the block that is open, or was last.
    code: Code,
    math: bool,
    documents: VecDeque<Document>,
    table: Table,
    /// The last character returned while markdown is off.
    plain_last: char,
}

/// The handling of the current line's characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Start,
    Text,
    Verbatim(Style),
    /// A line of a block of code.
    Code,
    /// Printed as it is, and stored to be read at its end.
    Command,
    Document,
    Held(Leaf),
}

#[derive(Default)]
struct Table {
    rows: Vec<String>,
    bytes: usize,
    first: Prefix,
    hang: Prefix,
}

impl Markdown {
    /// Begins an answer.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let width = if options.width_columns < WIDTH_COLUMNS_MIN { usize::MAX } else { options.width_columns };
        Self {
            options,
            sanitiser: Sanitiser::new(),
            writer: Writer::new(width, options.color),
            width,
            inline: Inline::new(!options.color),
            mode: Mode::Start,
            head: String::new(),
            containers: Vec::new(),
            before: Before::Other,
            fence: None,
            code: Code::new("", false),
            math: false,
            documents: VecDeque::new(),
            table: Table::default(),
            plain_last: '\n',
        }
    }

    /// Takes the next piece, raw as it came; returns what can be printed now. Lines end in `\n`; a colour may be left
    /// on, so call [`Markdown::finish`] before anything else is written.
    pub fn push(&mut self, piece: &str) -> String {
        let clean = self.sanitiser.push(piece);
        if !self.options.markdown {
            self.plain_last = clean.chars().next_back().unwrap_or(self.plain_last);
            return clean.into_owned();
        }
        for c in clean.chars() {
            self.feed(c);
        }
        self.writer.take()
    }

    /// Ends the answer: returns what was held back, as it was written if it is incomplete, with colours off and the last
    /// line ended. Empty if there is nothing to end; the value is then as new.
    pub fn finish(&mut self) -> String {
        if !self.options.markdown {
            let end = if self.plain_last == '\n' { "" } else { "\n" };
            *self = Self::new(self.options);
            return end.to_owned();
        }
        if self.mode != Mode::Start || !self.head.is_empty() {
            self.newline();
        }
        self.flush_table();
        let rest = self.writer.take();
        *self = Self::new(self.options);
        rest
    }

    fn feed(&mut self, c: char) {
        match self.mode {
            _ if c == '\n' => self.newline(),
            Mode::Start => {
                self.head.push(c);
                self.decide(false);
            }
            Mode::Text => self.text(c),
            Mode::Verbatim(style) => self.writer.verbatim(c, style),
            Mode::Code => {
                let writer = &mut self.writer;
                self.code.push(c, &mut |c, style| writer.verbatim(c, style));
            }
            Mode::Command | Mode::Document => {
                self.head.push(c);
                self.writer.verbatim(c, command_style(self.mode == Mode::Document));
            }
            Mode::Held(_) => self.head.push(c),
        }
    }

    fn newline(&mut self) {
        if self.mode == Mode::Start {
            self.decide(true);
        }
        let head = std::mem::take(&mut self.head);
        match std::mem::replace(&mut self.mode, Mode::Start) {
            Mode::Text => {
                let writer = &mut self.writer;
                self.inline.finish(&mut |c, mark| writer.wrapped(c, marked(Style::new(), mark)));
                self.writer.end();
            }
            Mode::Code => {
                let writer = &mut self.writer;
                self.code.end_line(&mut |c, style| writer.verbatim(c, style));
                writer.end();
            }
            Mode::Start | Mode::Verbatim(_) => self.writer.end(),
            Mode::Command => {
                self.writer.end();
                if self.fence.is_none() {
                    let mut scan = Scan::default();
                    scan.line(&head);
                    self.documents = std::iter::from_fn(|| scan.next_document()).collect();
                }
            }
            Mode::Document => {
                self.writer.end();
                if self.documents.front().is_some_and(|document| document.ends_at(&head)) {
                    self.documents.pop_front();
                }
            }
            Mode::Held(leaf) => self.held_line(leaf, &head),
        }
    }

    /// Decides the kind of a line as soon as its head is long enough.
    fn decide(&mut self, complete: bool) {
        if !self.documents.is_empty() {
            self.verbatim_line(0, Mode::Document);
        } else if self.math {
            // A formula's lines are short: each is shown when it is whole.
            if complete {
                self.math = !matches!(self.head.trim(), "$$" | "\\]" | "");
                self.verbatim_line(0, Mode::Verbatim(Style::new()));
            }
        } else if let Some(fence) = self.fence {
            self.decide_fenced(fence, complete);
        } else if let Some(start) = block::classify(&self.head, complete, &self.containers, self.before) {
            self.start(start);
        }
    }

    fn decide_fenced(&mut self, fence: Fence, complete: bool) {
        match block::classify_fenced(&self.head, complete, fence) {
            None => {}
            Some(FenceLine::Code(at)) => self.verbatim_line(at, Mode::Code),
            Some(FenceLine::Command) => self.verbatim_line(0, Mode::Command),
            Some(FenceLine::Close) => {
                self.fence = None;
                if self.options.color {
                    self.head.clear();
                } else {
                    let marks = self.head.len() - self.head.trim_start_matches([' ', '\t', '>']).len();
                    self.verbatim_line(marks, Mode::Verbatim(Style::new()));
                }
            }
            Some(FenceLine::Left) => {
                self.fence = None;
                self.decide(complete);
            }
        }
    }

    /// Begins a line that is shown as it is, from a byte of the head on.
    fn verbatim_line(&mut self, from: usize, mode: Mode) {
        self.writer.begin(&Prefix::default(), Prefix::default());
        self.replay(from, mode);
    }

    fn replay(&mut self, from: usize, mode: Mode) {
        let rest = self.head.split_off(from.min(self.head.len()));
        self.head.clear();
        self.mode = mode;
        rest.chars().for_each(|c| self.feed(c));
    }

    fn start(&mut self, start: Start) {
        let Start { matched, new, leaf, rest } = start;
        let goes_on = leaf == Leaf::Row && new.is_empty() && matched == self.containers.len();
        if !goes_on || self.table.bytes > TABLE_BYTES_MAX {
            self.flush_table();
        }
        self.containers.truncate(matched);
        let first_new = self.containers.len();
        self.containers.extend(new);
        self.before = if leaf == Leaf::Text { Before::Paragraph } else { Before::Other };
        let (first, hang) = self.prefixes(first_new);
        match leaf {
            Leaf::Blank if first_new == self.containers.len() => {
                self.head.clear();
                self.writer.blank(hang);
            }
            Leaf::Blank | Leaf::Text => {
                self.begin(&first, hang, first_new);
                self.replay(rest, Mode::Text);
            }
            Leaf::Indented => self.verbatim_line(rest, Mode::Verbatim(code_style())),
            Leaf::Command => {
                self.containers.clear();
                self.verbatim_line(0, Mode::Command);
            }
            Leaf::Math => {
                self.math = true;
                self.verbatim_line(rest, Mode::Verbatim(Style::new()));
            }
            Leaf::Row => {
                if self.table.rows.is_empty() {
                    (self.table.first, self.table.hang) = (first, hang);
                }
                self.replay(rest, Mode::Held(leaf));
            }
            Leaf::Fence { .. } if self.containers[first_new..].iter().all(|new| *new == Container::Quote) => {
                self.replay(rest, Mode::Held(leaf))
            }
            Leaf::Heading(_) | Leaf::Rule | Leaf::Fence { .. } => {
                self.begin(&first, hang, first_new);
                self.replay(rest, Mode::Held(leaf));
            }
        }
    }

    /// Begins a wrapped line; markers that have no room in front are written as text.
    fn begin(&mut self, first: &Prefix, hang: Prefix, first_new: usize) {
        self.writer.begin(first, hang);
        let mut columns = 0;
        for (at, container) in self.containers.iter().enumerate() {
            let (shown, _) = shown(container, at >= first_new);
            columns += super::text::width(&shown);
            if columns > self.width / 2 && at >= first_new {
                shown.chars().for_each(|c| self.writer.wrapped(c, Style::new()));
            }
        }
    }

    /// Returns the text before the first line of a block, and before the lines that it wraps to; the containers from
    /// `first_new` on begin here. The text takes at most half of the width.
    fn prefixes(&self, first_new: usize) -> (Prefix, Prefix) {
        let (mut first, mut hang) = (Prefix::default(), Prefix::default());
        let mut columns = 0;
        for (at, container) in self.containers.iter().enumerate() {
            let (begins, style) = shown(container, at >= first_new);
            columns += super::text::width(&begins);
            if columns > self.width / 2 {
                break;
            }
            first.push(&begins, style);
            let (goes_on, style) = shown(container, false);
            hang.push(&goes_on, style);
        }
        (first, hang)
    }

    fn text(&mut self, c: char) {
        let writer = &mut self.writer;
        self.inline.push(c, &mut |c, mark| writer.wrapped(c, marked(Style::new(), mark)));
    }

    fn held_line(&mut self, leaf: Leaf, line: &str) {
        match leaf {
            Leaf::Heading(level) => {
                let title = line[level.min(line.len())..].trim();
                let closed = title.trim_end_matches('#');
                let title = if closed.is_empty() || closed.ends_with(' ') { closed.trim_end() } else { title };
                let style = if level == 1 { Style::new().bold().underline() } else { Style::new().bold() };
                let marks = if self.options.color { String::new() } else { format!("{} ", "#".repeat(level)) };
                marks.chars().for_each(|c| self.writer.wrapped(c, style));
                self.inline_text(title, style);
                self.writer.end();
            }
            Leaf::Rule => {
                let prefix_columns = self.prefixes(self.containers.len()).1.columns;
                let columns = if self.width == usize::MAX { RULE_COLUMNS } else { self.width - prefix_columns };
                (0..columns).for_each(|_| self.writer.verbatim('─', Style::new().dimmed()));
                self.writer.end();
            }
            Leaf::Fence { mark, count, indent } => self.open_fence(mark, count, indent, line),
            Leaf::Row => {
                if self.table.rows.len() == 1 && !table::is_delimiter(line) {
                    self.flush_table();
                    (_, self.table.hang) = self.prefixes(self.containers.len());
                    self.table.first = self.table.hang.clone();
                }
                self.table.bytes += line.len();
                self.table.rows.push(line.to_owned());
            }
            _ => {}
        }
    }

    fn open_fence(&mut self, mark: char, count: usize, indent: usize, line: &str) {
        let info = line[count.min(line.len())..].trim();
        if mark == '`' && info.contains('`') {
            // Code within a line, such as "```x```".
            let (first, hang) = self.prefixes(self.containers.len());
            if !self.writer.is_open() {
                self.writer.begin(&first, hang);
            }
            self.before = Before::Paragraph;
            self.inline_text(line, Style::new());
            self.writer.end();
            return;
        }
        self.writer.end();
        let quotes = self.containers.iter().filter(|container| **container == Container::Quote).count();
        self.fence = Some(Fence { mark, count, indent, quotes });
        self.code = Code::new(info, self.options.color);
        let shown = if self.options.color { info } else { line.trim_end() };
        if !shown.is_empty() {
            self.writer.begin(&Prefix::default(), Prefix::default());
            shown.chars().for_each(|c| self.writer.verbatim(c, Style::new().dimmed()));
            self.writer.end();
        }
    }

    fn inline_text(&mut self, text: &str, style: Style) {
        let mut inline = Inline::new(!self.options.color);
        let writer = &mut self.writer;
        let mut sink = |c: char, mark: Mark| writer.wrapped(c, marked(style, mark));
        text.chars().for_each(|c| inline.push(c, &mut sink));
        inline.finish(&mut sink);
    }

    fn flush_table(&mut self) {
        let Table { rows, first, hang, .. } = std::mem::take(&mut self.table);
        let fits = rows.len() >= 2 && table::is_delimiter(&rows[1]);
        let width = self.width.saturating_sub(hang.columns);
        let lines = if fits { table::lay_out(&rows, width, !self.options.color, &marked) } else { None };
        let Some(lines) = lines else {
            for (at, row) in rows.iter().enumerate() {
                self.writer.begin(if at == 0 { &first } else { &hang }, hang.clone());
                self.inline_text(row, Style::new());
                self.writer.end();
            }
            return;
        };
        for (at, line) in lines.iter().enumerate() {
            self.writer.begin(if at == 0 { &first } else { &hang }, hang.clone());
            for cell in line {
                cell.text.chars().for_each(|c| self.writer.verbatim(c, cell.style));
            }
            self.writer.end();
        }
    }
}

/// Returns a container's sign in front of a line, for its first line or the following ones.
fn shown(container: &Container, begins: bool) -> (String, Style) {
    match container {
        Container::Quote => ("│ ".to_owned(), Style::new().dimmed()),
        Container::Item { marker, .. } if begins => (marker.clone(), Style::new()),
        Container::Item { marker, .. } => (" ".repeat(super::text::width(marker)), Style::new()),
    }
}

fn marked(base: Style, mark: Mark) -> Style {
    Style {
        is_bold: base.is_bold || mark.strong,
        is_italic: base.is_italic || mark.emphasis,
        is_strikethrough: base.is_strikethrough || mark.strike,
        is_underline: base.is_underline || mark.link,
        is_dimmed: base.is_dimmed || mark.url,
        foreground: if mark.code { code_style().foreground } else { base.foreground },
        ..base
    }
}

fn code_style() -> Style {
    Style::new().fg(Color::Cyan)
}

fn command_style(document: bool) -> Style {
    let style = Style::new().fg(Color::Yellow);
    if document { style } else { style.bold() }
}
