//! A whole markdown table, fitted to a width.
//!
//! Owns rows, alignment and column widths. Must not know what surrounds the table.

use nu_ansi_term::Style;

use super::inline::{Inline, Mark};
use super::wrap::{Cell, push_cell};

/// Narrowest column that a table is squeezed to.
const COLUMN_MIN: usize = 3;
/// Longest word that isn't cut to make a column narrower: a longer one is a path or an address.
const WORD_MAX: usize = 20;
const GAP: &str = " │ ";
const CROSS: &str = "─┼─";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
    Center,
}

/// Returns whether a row is the one below a table's header, such as `|---|:-:|`.
pub(super) fn is_delimiter(row: &str) -> bool {
    let cells = split(row);
    let dashes = |cell: &String| {
        let inner = cell.strip_prefix(':').unwrap_or(cell);
        let inner = inner.strip_suffix(':').unwrap_or(inner);
        !inner.is_empty() && inner.bytes().all(|byte| byte == b'-')
    };
    row.contains('-') && cells.iter().all(dashes)
}

/// Lays a table out in `width` columns, one row of cells for each line. If that would cut words, the cells of a row are
/// below each other, each after its heading. `None` if that doesn't fit either. The rows are a header, a delimiter row
/// and the body; the longest row decides the number of columns, so that no cell is lost.
pub(super) fn lay_out(
    rows: &[String],
    width: usize,
    keep_ticks: bool,
    style_of: &dyn Fn(Style, Mark) -> Style,
) -> Option<Vec<Vec<Cell>>> {
    let aligns: Vec<Align> = split(rows.get(1)?).iter().map(|cell| align(cell)).collect();
    let count = rows.iter().map(|row| split(row).len()).max()?;
    let read = |(at, row): (usize, &String)| -> Vec<Vec<Cell>> {
        let base = if at == 0 { Style::new().bold() } else { Style::new() };
        let mut cells: Vec<_> = split(row).iter().map(|cell| read_cell(cell, base, keep_ticks, style_of)).collect();
        cells.resize_with(count, Vec::new);
        cells
    };
    let rows: Vec<_> = rows.iter().enumerate().filter(|(at, _)| *at != 1).map(read).collect();
    let natural: Vec<usize> =
        (0..count).map(|at| rows.iter().map(|row| columns(&row[at])).max().unwrap_or(0).max(1)).collect();
    let words: Vec<usize> =
        (0..count).map(|at| rows.iter().map(|row| longest_word(&row[at])).max().unwrap_or(0)).collect();
    let Some(widths) = fit(&natural, &words, width.saturating_sub(3 * (count - 1))) else { return stack(&rows, width) };
    let dim = Style::new().dimmed();
    let mut lines = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let wrapped: Vec<Vec<&[Cell]>> = row.iter().zip(&widths).map(|(cells, width)| wrap(cells, *width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
        for at in 0..height {
            let mut line = Vec::new();
            for (column, parts) in wrapped.iter().enumerate() {
                if column > 0 {
                    push_text(&mut line, GAP, dim);
                }
                let part = parts.get(at).copied().unwrap_or_default();
                let free = widths[column].saturating_sub(columns(part));
                let left = match aligns.get(column) {
                    Some(Align::Right) => free,
                    Some(Align::Center) => free / 2,
                    _ => 0,
                };
                push_text(&mut line, &" ".repeat(left), Style::new());
                line.extend_from_slice(part);
                push_text(&mut line, &" ".repeat(free - left), Style::new());
            }
            while line.last().is_some_and(|cell: &Cell| cell.text == " ") {
                line.pop();
            }
            lines.push(line);
        }
        if number == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            let mut line = Vec::new();
            push_text(&mut line, &rule.join(CROSS), dim);
            lines.push(line);
        }
    }
    Some(lines)
}

/// The rows without columns: each cell on lines of its own, after its heading, and a line between two rows.
fn stack(rows: &[Vec<Vec<Cell>>], width: usize) -> Option<Vec<Vec<Cell>>> {
    let (header, body) = rows.split_first().filter(|(_, body)| !body.is_empty() && width > 2 * COLUMN_MIN)?;
    let mut lines = Vec::new();
    for (number, row) in body.iter().enumerate() {
        if number > 0 {
            let mut line = Vec::new();
            push_text(&mut line, &"─".repeat(width), Style::new().dimmed());
            lines.push(line);
        }
        for (heading, cells) in header.iter().zip(row).filter(|(_, cells)| !cells.is_empty()) {
            let mut whole = heading.clone();
            push_text(&mut whole, if heading.is_empty() { "" } else { ": " }, Style::new().bold());
            whole.extend_from_slice(cells);
            for (at, part) in wrap(&whole, width - 2).into_iter().enumerate() {
                let mut line = Vec::new();
                push_text(&mut line, if at == 0 { "" } else { "  " }, Style::new());
                line.extend_from_slice(part);
                lines.push(line);
            }
        }
    }
    Some(lines)
}

/// The columns that the longest word of a cell takes; wide characters can be split anywhere.
fn longest_word(cells: &[Cell]) -> usize {
    let words = cells.split(|cell| cell.text == " " || cell.columns > 1);
    words.map(columns).max().unwrap_or(0).min(WORD_MAX)
}

fn columns(cells: &[Cell]) -> usize {
    cells.iter().map(|cell| cell.columns).sum()
}

fn push_text(line: &mut Vec<Cell>, text: &str, style: Style) {
    text.chars().for_each(|c| line.push(Cell { text: c.to_string(), columns: 1, style }));
}

fn read_cell(text: &str, base: Style, keep_ticks: bool, style_of: &dyn Fn(Style, Mark) -> Style) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut inline = Inline::new(keep_ticks);
    let mut sink = |c: char, mark: Mark| push_cell(&mut cells, if c == '\t' { ' ' } else { c }, style_of(base, mark));
    text.chars().for_each(|c| inline.push(c, &mut sink));
    inline.finish(&mut sink);
    cells
}

fn align(cell: &str) -> Align {
    match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => Align::Center,
        (false, true) => Align::Right,
        _ => Align::Left,
    }
}

/// Splits a row into its cells. A bar inside code separates no cells, unlike in GFM: models write `a|b` and mean it.
fn split(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut ticks_left = row.matches('`').count();
    let mut code = false;
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        let cell = cells.last_mut().expect("there is always a last cell");
        match c {
            '\\' if chars.peek() == Some(&'|') => cell.extend(chars.next()),
            '|' if !code => cells.push(String::new()),
            '`' => {
                ticks_left -= 1;
                code = !code && ticks_left > 0;
                cell.push(c);
            }
            _ => cell.push(c),
        }
    }
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Narrows the widest columns to one width, the largest with which all columns fit, but none below its longest word;
/// `None` if they can't fit this way.
fn fit(natural: &[usize], words: &[usize], available: usize) -> Option<Vec<usize>> {
    if natural.iter().sum::<usize>() <= available {
        return Some(natural.to_vec());
    }
    let cut = |cap: usize| natural.iter().zip(words).map(move |(width, word)| cap.max(*word).min(*width));
    let cap = (COLUMN_MIN..=available).take_while(|cap| cut(*cap).sum::<usize>() <= available).last()?;
    let mut left = available - cut(cap).sum::<usize>();
    let widen = |(width, whole): (usize, &usize)| {
        let more = usize::from(width < *whole && width == cap && left > 0);
        left -= more;
        width + more
    };
    Some(cut(cap).zip(natural).map(widen).collect())
}

fn wrap(cells: &[Cell], width: usize) -> Vec<&[Cell]> {
    let mut lines = Vec::new();
    let mut rest = cells;
    while !rest.is_empty() {
        let mut used = 0;
        let fits = rest.iter().take_while(|cell| {
            used += cell.columns;
            used <= width
        });
        let mut end = fits.count().max(1);
        let mut next = end;
        if end < rest.len()
            && rest[end].text != " "
            && let Some(blank) = rest[..end].iter().rposition(|cell| cell.text == " ").filter(|at| *at > 0)
        {
            (end, next) = (blank, blank + 1);
        }
        while next < rest.len() && rest[next].text == " " {
            next += 1;
        }
        while end > 1 && rest[end - 1].text == " " {
            end -= 1;
        }
        lines.push(&rest[..end]);
        rest = &rest[next..];
    }
    lines
}
