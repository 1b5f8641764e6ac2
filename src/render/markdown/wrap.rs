//! The writer of terminal lines: word wrap with hanging indents, our own colours, append-only.
//!
//! Owns columns and SGR state. Must not know markdown. A word is written once its end is known, or once it is wider than
//! a whole line; what is written is never touched again.

use nu_ansi_term::Style;

use crate::render::text;

/// The prefix of a line's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefix {
    pub(super) spans: Vec<(String, Style)>,
    pub(super) columns: usize,
}

impl Prefix {
    pub(super) fn push(&mut self, span: &str, style: Style) {
        self.columns += text::width(span);
        self.spans.push((span.to_owned(), style));
    }
}

/// The text of one place and its style.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) columns: usize,
    pub(super) style: Style,
}

/// Adds a character to a row of cells, or to its last cell if it extends that.
pub(super) fn push_cell(cells: &mut Vec<Cell>, c: char, style: Style) {
    match cells.last_mut() {
        Some(last) if text::extends(&last.text, c) => {
            last.text.push(c);
            last.columns = text::cluster_width(&last.text);
        }
        _ => {
            let text = c.to_string();
            cells.push(Cell { columns: text::cluster_width(&text), text, style });
        }
    }
}

pub(super) struct Writer {
    out: String,
    width: usize,
    color: bool,
    style: Style,
    column: usize,
    /// Nothing but the prefix is on the line.
    fresh: bool,
    spaces: usize,
    space_style: Style,
    word: Vec<Cell>,
    word_columns: usize,
    hang: Prefix,
    blank: Option<Prefix>,
    started: bool,
    in_line: bool,
}

impl Writer {
    pub(super) fn new(width: usize, color: bool) -> Self {
        Self {
            out: String::new(),
            width,
            color,
            style: Style::new(),
            column: 0,
            fresh: true,
            spaces: 0,
            space_style: Style::new(),
            word: Vec::new(),
            word_columns: 0,
            hang: Prefix::default(),
            blank: None,
            started: false,
            in_line: false,
        }
    }

    /// Returns the text written so far, and clears it.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Begins a line with `first` in front; the lines it wraps to get `hang`.
    pub(super) fn begin(&mut self, first: &Prefix, hang: Prefix) {
        if let Some(blank) = self.blank.take()
            && self.started
        {
            self.prefix(&blank);
            self.newline();
        }
        self.hang = hang;
        self.started = true;
        self.in_line = true;
        self.prefix(first);
    }

    /// Returns whether a line has been begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.in_line
    }

    /// Remembers an empty line: it is written when more text comes, once for any number of them.
    pub(super) fn blank(&mut self, mut prefix: Prefix) {
        while prefix.spans.last().is_some_and(|(span, _)| span.trim().is_empty()) {
            prefix.spans.pop();
        }
        if let Some((span, _)) = prefix.spans.last_mut() {
            span.truncate(span.trim_end().len());
        }
        self.blank = Some(prefix);
    }

    /// Writes a character of running text.
    pub(super) fn wrapped(&mut self, c: char, style: Style) {
        if c == ' ' || c == '\t' {
            self.flush_word();
            self.spaces += 1;
            self.space_style = style;
            return;
        }
        if let Some(last) = self.word.last()
            && !text::extends(&last.text, c)
            && breaks(last, c)
        {
            self.flush_word();
        }
        let before = self.word.last().map_or(0, |last| last.columns);
        let count = self.word.len();
        push_cell(&mut self.word, c, style);
        let after = self.word.last().map_or(0, |last| last.columns);
        self.word_columns += if self.word.len() > count { after } else { after - before.min(after) };
        if self.word_columns > self.width.saturating_sub(self.hang.columns) && self.word.len() > 1 {
            self.break_word();
        }
    }

    /// Writes a character as it is, beyond the width too.
    pub(super) fn verbatim(&mut self, c: char, style: Style) {
        self.set_style(style);
        self.out.push(c);
        self.fresh = false;
    }

    /// Ends the line.
    pub(super) fn end(&mut self) {
        self.flush_word();
        self.spaces = 0;
        if self.in_line {
            self.newline();
        }
        self.in_line = false;
    }

    fn flush_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        if !self.fresh && self.column.saturating_add(self.spaces).saturating_add(self.word_columns) > self.width {
            self.wrap();
        }
        if !self.fresh && self.spaces > 0 {
            self.set_style(self.space_style);
            self.out.extend(std::iter::repeat_n(' ', self.spaces));
            self.column += self.spaces;
        }
        self.spaces = 0;
        let cells = std::mem::take(&mut self.word);
        self.word_columns = 0;
        self.cells(&cells);
    }

    /// Writes a word that fits no line, except for its last cell, which begins the next line.
    fn break_word(&mut self) {
        let Some(last) = self.word.pop() else { return };
        self.word_columns -= last.columns;
        self.flush_word();
        self.wrap();
        self.word_columns = last.columns;
        self.word.push(last);
    }

    fn wrap(&mut self) {
        self.newline();
        self.spaces = 0;
        let hang = std::mem::take(&mut self.hang);
        self.prefix(&hang);
        self.hang = hang;
    }

    fn cells(&mut self, cells: &[Cell]) {
        for cell in cells {
            self.set_style(cell.style);
            self.out.push_str(&cell.text);
            self.column += cell.columns;
            self.fresh = false;
        }
    }

    fn prefix(&mut self, prefix: &Prefix) {
        for (span, style) in &prefix.spans {
            self.set_style(*style);
            self.out.push_str(span);
        }
        self.column = prefix.columns;
        self.fresh = true;
    }

    fn newline(&mut self) {
        self.set_style(Style::new());
        self.out.push('\n');
        self.column = 0;
        self.fresh = true;
    }

    fn set_style(&mut self, style: Style) {
        if !self.color || self.style == style {
            return;
        }
        if self.style != Style::new() {
            self.out.push_str("\x1b[0m");
        }
        self.out.push_str(&style.prefix().to_string());
        self.style = style;
    }
}

/// Returns whether a line may be broken between two characters without a blank: beside wide ones, since CJK is written
/// without blanks, but not before closing punctuation nor after opening.
fn breaks(before: &Cell, c: char) -> bool {
    let wide = text::cluster_width(c.encode_utf8(&mut [0; 4])) == 2 || before.columns == 2;
    let opens = before.text.ends_with(['(', '[', '{', '"', '\'', '（', '「', '『', '【', '〔', '《', '〈', '“', '‘']);
    let closes = c.is_ascii_punctuation() || "、。，．）」』】〕》〉！？：；…ー”’".contains(c);
    wide && !opens && (!closes || matches!(c, '(' | '[' | '{'))
}
