//! Changes of files drawn for a terminal, row by row: heads, line numbers, differences within a line, folds. Rows are
//! made when they are needed, so that only the visible part of a long sheet costs time. Pure; every character of a file
//! is shown as a visible one or as an escape.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use nu_ansi_term::{Color, Style};

use super::diff::Line;
use super::paint::code_style;
use super::patch::{FilePatch, Hunk};
use super::text::{escape_visible, width, wrap};
use super::visible::{Cell, cells};
use super::words::differing;
use crate::base::text::counted;
use crate::syntax::{Language, highlight};

/// From this width on, both texts have their line numbers.
const TWO_NUMBERS_COLUMNS: usize = 60;
/// Minimum columns of a text, however narrow the terminal is.
const TEXT_COLUMNS_MIN: usize = 8;

/// The appearance of a sheet.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The terminal's width.
    pub width_columns: usize,
    /// `true` if colours are used.
    pub color: bool,
    /// `true` if characters outside ASCII are drawn for signs of ours.
    pub unicode: bool,
    /// `true` if the output is for a screen reader: words in place of signs and numbers.
    pub accessible: bool,
}

impl Look {
    /// Returns the look of plain text, without colours.
    #[must_use]
    pub fn plain(width_columns: usize) -> Self {
        Self { width_columns, color: false, unicode: true, accessible: false }
    }
}

/// Rows that can be drawn.
pub struct Sheet {
    look: Look,
    files: Vec<Drawn>,
    items: Vec<Item>,
    /// The first row of each item, and the number of all rows.
    starts: Vec<usize>,
}

/// Colours of a text or of a line: ranges in bytes, in order.
type Colors = Vec<(Range<usize>, Style)>;

/// A file with the facts for drawing it.
struct Drawn {
    patch: FilePatch,
    digits: usize,
    /// The colours of each line of the new text, by its number.
    colors: OnceCell<BTreeMap<usize, Colors>>,
    /// The differences within each line, by hunk.
    words: Vec<OnceCell<Vec<Vec<Range<usize>>>>>,
}

/// The content of one or several rows.
enum Item {
    /// Rows of ours.
    Rows(Vec<String>),
    Head(usize),
    /// Lines that are the same and aren't shown.
    Fold(usize),
    /// A line of a hunk: file, hunk, line, its number in the old text and in the new one.
    Line(usize, usize, usize, [usize; 2]),
}

impl Sheet {
    /// Lays out the changes of files, between rows of ours.
    #[must_use]
    pub fn new(look: Look, head: Vec<String>, patches: Vec<FilePatch>, foot: Vec<String>) -> Self {
        let mut sheet = Self { look, files: Vec::new(), items: vec![Item::Rows(head)], starts: Vec::new() };
        if patches.len() > 1 {
            sheet.items.push(Item::Rows(vec![summary(&patches, look)]));
        }
        for (number, patch) in patches.into_iter().enumerate() {
            if number > 0 {
                sheet.items.push(Item::Rows(vec![String::new()]));
            }
            sheet.file(number, patch);
        }
        sheet.items.push(Item::Rows(foot));
        let mut row = 0;
        for item in &sheet.items {
            sheet.starts.push(row);
            row += sheet.height(item);
        }
        sheet.starts.push(row);
        sheet
    }

    fn file(&mut self, number: usize, patch: FilePatch) {
        self.items.push(Item::Head(number));
        let (mut last, mut digits) = (1, 3);
        for (at, hunk) in patch.hunks.iter().enumerate() {
            if hunk.old_line > last {
                self.items.push(Item::Fold(hunk.old_line - last));
            }
            let mut numbers = [hunk.old_line, hunk.new_line];
            for (line_at, line) in hunk.lines.iter().enumerate() {
                self.items.push(Item::Line(number, at, line_at, numbers));
                numbers[0] += usize::from(!matches!(line, Line::New(_)));
                numbers[1] += usize::from(!matches!(line, Line::Gone(_)));
            }
            last = numbers[0];
            digits = digits.max(numbers[0].max(numbers[1]).to_string().len());
        }
        if let Some(after) = patch.lines_after.filter(|after| *after > 0) {
            self.items.push(Item::Fold(after));
        }
        let words = patch.hunks.iter().map(|_| OnceCell::new()).collect();
        self.files.push(Drawn { patch, digits, colors: OnceCell::new(), words });
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns whether there are no files.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Draws these rows.
    #[must_use]
    pub fn rows(&self, wanted: Range<usize>) -> Vec<String> {
        let wanted = wanted.start..wanted.end.min(self.len());
        let mut rows = Vec::with_capacity(wanted.len());
        let first = self.starts.partition_point(|start| *start <= wanted.start).saturating_sub(1);
        for (at, item) in self.items.iter().enumerate().skip(first) {
            let start = self.starts[at];
            if start >= wanted.end {
                break;
            }
            let drawn = self.draw(item).into_iter().enumerate();
            rows.extend(drawn.filter(|(number, _)| wanted.contains(&(start + number))).map(|(_, row)| row));
        }
        rows
    }

    /// The file to which the first of these rows belongs.
    #[must_use]
    pub fn file_at(&self, wanted: Range<usize>) -> usize {
        let first = self.starts.partition_point(|start| *start <= wanted.start).saturating_sub(1);
        let file = |item: &Item| match item {
            Item::Head(file) | Item::Line(file, ..) => Some(*file),
            _ => None,
        };
        self.items.iter().skip(first).find_map(file).unwrap_or(self.files.len().saturating_sub(1))
    }

    /// One row for each file, with the size of its changes.
    #[must_use]
    pub fn file_rows(&self) -> Vec<String> {
        (0..self.files.len()).flat_map(|file| self.head(file)).collect()
    }

    fn height(&self, item: &Item) -> usize {
        match item {
            Item::Rows(rows) => rows.len(),
            Item::Fold(_) => 1,
            Item::Head(file) => self.head(*file).len(),
            Item::Line(file, hunk, line, numbers) => {
                let file = &self.files[*file];
                let line = &file.patch.hunks[*hunk].lines[*line];
                let gutter = width(&self.gutter(file, line, *numbers));
                let columns = self.text_columns(gutter);
                if line.text().bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                    return line.text().len().div_ceil(columns).max(1);
                }
                broken(cells(line.text(), self.shows_tabs(line), self.look.unicode), columns).len()
            }
        }
    }

    fn draw(&self, item: &Item) -> Vec<String> {
        match item {
            Item::Rows(rows) => rows.clone(),
            Item::Head(file) => self.head(*file),
            Item::Fold(lines) => vec![self.paint(Style::new().dimmed(), &self.fold(*lines))],
            Item::Line(file, hunk, line, numbers) => self.line(*file, *hunk, *line, *numbers),
        }
    }

    fn fold(&self, lines: usize) -> String {
        let counted = counted(lines, "line");
        match (self.look.accessible, self.look.unicode) {
            (true, _) => format!("{counted} that stay"),
            (false, true) => format!("  … {counted}"),
            (false, false) => format!("  ... {counted}"),
        }
    }

    fn head(&self, file: usize) -> Vec<String> {
        let FilePatch { path, notes, added, removed, .. } = &self.files[file].patch;
        let (path, notes) = (escape_visible(path), escape_visible(&notes.join(", ")));
        if self.look.accessible {
            let notes = if notes.is_empty() { notes } else { format!("; {notes}") };
            let text = format!("file {path}: {} added, {removed} removed{notes}", counted(*added, "line"));
            return wrap(&text, self.columns(), "  ").split('\n').map(str::to_owned).collect();
        }
        let notes = if notes.is_empty() { notes } else { format!("  {notes}") };
        let text = format!("{path}  {}{notes}", amount(*added, *removed, self.look.unicode));
        let rows = wrap(&text, self.columns(), "  ");
        // A path that is longer than the terminal is wide.
        let rows = rows.split('\n').flat_map(|row| broken(cells(row, false, self.look.unicode), self.columns()));
        rows.map(|row| self.paint(Style::new().bold(), &plain(&row))).collect()
    }

    fn columns(&self) -> usize {
        // A row that fills the last column would leave the cursor on the one below in some terminals, not in others.
        self.look.width_columns.saturating_sub(1).max(TEXT_COLUMNS_MIN)
    }

    fn text_columns(&self, gutter: usize) -> usize {
        self.columns().saturating_sub(gutter).max(TEXT_COLUMNS_MIN)
    }

    fn gutter(&self, file: &Drawn, line: &Line<String>, [old, new]: [usize; 2]) -> String {
        if self.look.accessible {
            return match line {
                Line::Kept(_) => format!("line {new}: "),
                Line::Gone(_) => format!("line {old} removed: "),
                Line::New(_) => format!("line {new} added: "),
            };
        }
        let digits = file.digits;
        let (left, right, mark) = match line {
            Line::Kept(_) => (old.to_string(), new.to_string(), ' '),
            Line::Gone(_) => (old.to_string(), String::new(), '-'),
            Line::New(_) => (String::new(), new.to_string(), '+'),
        };
        if self.look.width_columns >= TWO_NUMBERS_COLUMNS {
            return format!("{left:>digits$} {right:>digits$} {mark} ");
        }
        let number = if right.is_empty() { left } else { right };
        format!("{number:>digits$} {mark} ")
    }

    /// Returns whether the tabs of a line are shown: a change may consist only of tabs.
    fn shows_tabs(&self, line: &Line<String>) -> bool {
        !matches!(line, Line::Kept(_)) && !self.look.accessible
    }

    fn line(&self, file_at: usize, hunk_at: usize, line_at: usize, numbers: [usize; 2]) -> Vec<String> {
        let file = &self.files[file_at];
        let line = &file.patch.hunks[hunk_at].lines[line_at];
        let gutter = self.gutter(file, line, numbers);
        let columns = self.text_columns(width(&gutter));
        let cells = cells(line.text(), self.shows_tabs(line), self.look.unicode);
        let (base, mark) = match line {
            Line::Kept(_) => (Style::new(), Style::new().dimmed()),
            Line::Gone(_) => (Color::Red.normal(), Color::Red.bold()),
            // If the language has colours, only the gutter marks new lines.
            Line::New(_) if Language::of_path(Path::new(&file.patch.path)).is_some() => {
                (Style::new(), Color::Green.bold())
            }
            Line::New(_) => (Color::Green.normal(), Color::Green.bold()),
        };
        let words: &[Range<usize>] = match line {
            Line::Kept(_) => &[],
            _ if !self.look.color => &[],
            _ => &file.words(hunk_at)[line_at],
        };
        let colors: &[(Range<usize>, Style)] = match line {
            Line::Kept(_) | Line::New(_) if self.look.color => {
                file.colors().get(&numbers[1]).map(Vec::as_slice).unwrap_or_default()
            }
            _ => &[],
        };
        let style = |cell: &Cell<'_>| {
            let colored = in_order(colors, cell.at).map_or(base, |at| colors[at].1);
            let style = if cell.is_escape { Color::Magenta.bold() } else { colored };
            let is_word = words.iter().any(|word| word.contains(&cell.at));
            if is_word { Style { foreground: mark.foreground, ..Style::new() }.reverse() } else { style }
        };
        let hanging = " ".repeat(width(&gutter));
        let rows = broken(cells, columns).into_iter().enumerate();
        rows.map(|(number, row)| {
            let gutter = if number == 0 { &gutter } else { &hanging };
            if !self.look.color {
                return format!("{gutter}{}", plain(&row)).trim_end().to_owned();
            }
            let mut text = mark.paint(gutter).to_string();
            for piece in row.chunk_by(|left, right| style(left) == style(right)) {
                text.push_str(&style(&piece[0]).paint(plain(piece)).to_string());
            }
            text
        })
        .collect()
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.look.color { style.paint(text).to_string() } else { text.to_owned() }
    }
}

impl Drawn {
    fn colors(&self) -> &BTreeMap<usize, Colors> {
        self.colors.get_or_init(|| {
            let FilePatch { path, hunks, text, .. } = &self.patch;
            let mut colors = BTreeMap::new();
            let Some(language) = Language::of_path(Path::new(path)) else { return colors };
            let mut color = |text: &str, first_line: usize| {
                let parts = highlight(language, text).into_iter().map(|(range, paint)| (range, code_style(paint)));
                by_line(&parts.collect::<Vec<_>>(), text, first_line, &mut colors);
            };
            if let Some(text) = text {
                color(text, 1);
                return colors;
            }
            // For a long or unknown text, only the shown part.
            for Hunk { new_line, lines, .. } in hunks {
                let new = lines.iter().filter(|line| !matches!(line, Line::Gone(_)));
                color(&new.flat_map(|line| [line.text(), "\n"]).collect::<String>(), *new_line);
            }
            colors
        })
    }

    /// The differences within each line of a hunk.
    fn words(&self, hunk: usize) -> &[Vec<Range<usize>>] {
        self.words[hunk].get_or_init(|| {
            let lines = &self.patch.hunks[hunk].lines;
            let mut words = vec![Vec::new(); lines.len()];
            let mut at = 0;
            while at < lines.len() {
                let run = |from: usize, is_it: fn(&Line<String>) -> bool| {
                    lines[from..].iter().take_while(|line| is_it(line)).count()
                };
                let gone = run(at, |line| matches!(line, Line::Gone(_)));
                let new = run(at + gone, |line| matches!(line, Line::New(_)));
                for pair in 0..gone.min(new) {
                    let (old_at, new_at) = (at + pair, at + gone + pair);
                    (words[old_at], words[new_at]) = differing(lines[old_at].text(), lines[new_at].text());
                }
                at += (gone + new).max(1);
            }
            words
        })
    }
}

/// Splits the colours of a text into those of its lines.
fn by_line(colors: &[(Range<usize>, Style)], text: &str, first_line: usize, out: &mut BTreeMap<usize, Colors>) {
    let mut start = 0;
    let mut rest = colors;
    for (number, line) in (first_line..).zip(text.split_inclusive('\n')) {
        let end = start + line.len();
        let done = rest.iter().take_while(|(range, _)| range.end <= start).count();
        rest = &rest[done..];
        let here = rest.iter().take_while(|(range, _)| range.start < end);
        let here = here.map(|(range, style)| (range.start.max(start) - start..range.end.min(end) - start, *style));
        out.insert(number, here.collect());
        start = end;
    }
}

/// Finds the range that contains a place, in ordered ranges.
fn in_order(ranges: &[(Range<usize>, Style)], at: usize) -> Option<usize> {
    let found = ranges.partition_point(|(range, _)| range.start <= at).checked_sub(1)?;
    ranges[found].0.contains(&at).then_some(found)
}

/// Breaks cells into rows; at least one.
pub(super) fn broken<'t>(cells: impl Iterator<Item = Cell<'t>>, columns: usize) -> Vec<Vec<Cell<'t>>> {
    broken_after(cells, columns, |row| row.len())
}

/// Breaks cells into rows, between words if a row has more than one; at least one.
pub(super) fn broken_at_words<'t>(cells: impl Iterator<Item = Cell<'t>>, columns: usize) -> Vec<Vec<Cell<'t>>> {
    broken_after(cells, columns, |row| {
        let blank = row.iter().rposition(|cell| cell.text == " ").map_or(0, |at| at + 1);
        // Blanks at the start are the indent.
        let has_word = row[..blank].iter().any(|cell| cell.text != " ");
        if has_word { blank } else { row.len() }
    })
}

/// Breaks cells into rows. `end` returns how many cells of a full row stay in it.
fn broken_after<'t>(
    cells: impl Iterator<Item = Cell<'t>>,
    columns: usize,
    end: impl Fn(&[Cell<'t>]) -> usize,
) -> Vec<Vec<Cell<'t>>> {
    let (mut rows, mut row, mut used) = (Vec::new(), Vec::new(), 0);
    for cell in cells {
        if used + cell.columns > columns && used > 0 {
            let rest = row.split_off(end(&row));
            rows.push(std::mem::replace(&mut row, rest));
            used = row.iter().map(|cell| cell.columns).sum();
        }
        used += cell.columns;
        row.push(cell);
    }
    rows.push(row);
    rows
}

pub(super) fn plain(cells: &[Cell<'_>]) -> String {
    cells.iter().map(|cell| cell.text.as_ref()).collect()
}

/// The size of the changes: `2 files, +10 −3`.
#[must_use]
pub fn summary(patches: &[FilePatch], look: Look) -> String {
    let (added, removed) =
        patches.iter().fold((0, 0), |(added, removed), patch| (added + patch.added, removed + patch.removed));
    let files = counted(patches.len(), "file");
    if look.accessible {
        return format!("{files}, {} added, {removed} removed", counted(added, "line"));
    }
    format!("{files}, {}", amount(added, removed, look.unicode))
}

fn amount(added: usize, removed: usize, unicode: bool) -> String {
    format!("+{added} {}{removed}", if unicode { '−' } else { '-' })
}

#[cfg(test)]
mod tests;
