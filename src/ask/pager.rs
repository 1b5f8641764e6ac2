//! A question longer than a row: its rows a page at a time, drawn over in place, and a row of keys below them. It
//! leaves the lines above it alone, and removes its drawing at the end.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::question::{Asked, KeyMeaning};
use super::quiet::{KeyRow, Listening, height};
use crate::console::Console;
use crate::render::sheet::{Look, Sheet};
use crate::render::text::ellipsis;

/// Minimum rows of a page, however low the terminal is.
const PAGE_ROWS_MIN: usize = 3;

/// The appearance of changes on a console.
pub fn look(console: &Console) -> Look {
    let options = console.options();
    Look {
        width_columns: console.width_columns(),
        color: options.color,
        unicode: options.unicode,
        accessible: options.accessible,
    }
}

/// A page of a sheet, and the keys below it.
pub struct Pager<'q, T> {
    /// Makes the sheet for the terminal as it is.
    make: &'q dyn Fn(Look) -> Sheet,
    /// The rows of keys, in words: the one after the whole sheet was seen, and the one before.
    keys: [&'q str; 2],
    /// Reads a key; the second argument tells whether the whole sheet was seen.
    choice: &'q dyn Fn(&[u8], bool) -> Option<T>,
    sheet: Sheet,
    width_columns: usize,
    page_rows: usize,
    top: usize,
    is_seen: bool,
    /// A key was pressed that counts only at the end.
    is_early: bool,
    /// Rows on the screen, without those of keys; zero if other text is below them.
    drawn: usize,
    row: KeyRow,
    /// `true` if every answer only leaves the pager.
    is_harmless: bool,
    /// Set when a person elsewhere has answered.
    withdrawn_by: Option<&'q AtomicBool>,
}

/// The direction of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scroll {
    Rows(isize),
    Pages(isize),
    Home,
    End,
}

const SCROLLS: [(&[u8], Scroll); 20] = [
    (b"\x1b[A", Scroll::Rows(-1)),
    (b"\x1bOA", Scroll::Rows(-1)),
    (b"k", Scroll::Rows(-1)),
    (b"\x1b[B", Scroll::Rows(1)),
    (b"\x1bOB", Scroll::Rows(1)),
    (b"j", Scroll::Rows(1)),
    (b"\x1b[5~", Scroll::Pages(-1)),
    (b"b", Scroll::Pages(-1)),
    (b"\x1b[6~", Scroll::Pages(1)),
    (b" ", Scroll::Pages(1)),
    (b"\x1b[H", Scroll::Home),
    (b"\x1bOH", Scroll::Home),
    (b"\x1b[1~", Scroll::Home),
    (b"\x1b[7~", Scroll::Home),
    (b"g", Scroll::Home),
    (b"\x1b[F", Scroll::End),
    (b"\x1bOF", Scroll::End),
    (b"\x1b[4~", Scroll::End),
    (b"\x1b[8~", Scroll::End),
    (b"G", Scroll::End),
];

/// Reads keys that scroll; `None` if any other key is among them.
fn scrolls(mut keys: &[u8]) -> Option<Vec<Scroll>> {
    let mut found = Vec::new();
    while !keys.is_empty() {
        let (sequence, scroll) = SCROLLS.iter().find(|(sequence, _)| keys.starts_with(sequence))?;
        found.push(*scroll);
        keys = &keys[sequence.len()..];
    }
    Some(found)
}

impl<'q, T> Pager<'q, T> {
    /// Makes a pager; nothing is drawn yet.
    pub fn new(
        console: &Console,
        make: &'q dyn Fn(Look) -> Sheet,
        keys: [&'q str; 2],
        choice: &'q dyn Fn(&[u8], bool) -> Option<T>,
    ) -> Self {
        let look = look(console);
        let (width_columns, page_rows) = (look.width_columns, PAGE_ROWS_MIN);
        Self {
            make,
            keys,
            choice,
            sheet: make(look),
            width_columns,
            page_rows,
            top: 0,
            is_seen: false,
            is_early: false,
            drawn: 0,
            row: KeyRow::default(),
            is_harmless: false,
            withdrawn_by: None,
        }
    }

    /// Sets the flag that withdraws the question when a person elsewhere answers first.
    pub fn withdrawn_by(mut self, flag: Option<&'q AtomicBool>) -> Self {
        self.withdrawn_by = flag;
        self
    }

    /// Makes the pager one for looking only: its keys count as soon as it is drawn.
    pub fn browsing(mut self) -> Self {
        self.is_harmless = true;
        self
    }

    /// The visible rows.
    pub fn shown(&self) -> Range<usize> {
        self.top..(self.top + self.page_rows).min(self.sheet.len())
    }

    /// Its sheet.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// Returns whether all rows have been visible.
    pub fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// Continues from the place of another pager.
    pub fn go_to(&mut self, top: usize, is_seen: bool) {
        (self.top, self.is_seen) = (top, is_seen);
    }

    /// Removes the drawing, or goes below it if that is impossible.
    pub fn leave(&mut self, console: &Console) {
        let (rows, of_keys) = (std::mem::take(&mut self.drawn), self.row.rows());
        self.row.forget();
        if rows + of_keys == 0 {
            return;
        }
        // In a terminal that has become narrower, the number of rows that the old text takes is unknown.
        if console.options().accessible || console.width_columns() < self.width_columns {
            return if of_keys > 0 {
                console.raw(b"\r\n")
            };
        }
        // Without a row of keys the cursor is where the row will be.
        let up = rows + of_keys.saturating_sub(1);
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        console.raw(format!("\r{up}\x1b[J").as_bytes());
    }

    /// Draws the page without its keys, over the previous one if that is still on the screen.
    fn draw(&mut self, console: &Console) {
        let columns = console.width_columns();
        self.leave(console);
        if columns != self.width_columns {
            self.sheet = (self.make)(look(console));
            self.width_columns = columns;
        }
        let len = self.sheet.len();
        let rows_below = self.keys.map(|keys| height(keys, columns)).into_iter().max().unwrap_or(1);
        // One row says which lines these are, and the lowest one stays free.
        self.page_rows = console.height_rows().saturating_sub(rows_below + 2).max(PAGE_ROWS_MIN);
        self.top = self.top.min(len.saturating_sub(self.page_rows));
        let shown = self.shown();
        self.is_seen |= shown.end == len;
        let mut rows = self.sheet.rows(shown.clone());
        if shown.len() < len {
            let first = if std::mem::take(&mut self.is_early) { ": first go to the end" } else { "" };
            let text = format!("lines {}-{} of {len}{first}", shown.start + 1, shown.end);
            rows.push(console.paint(nu_ansi_term::Style::new().reverse(), &ellipsis(&text, columns.saturating_sub(1))));
        }
        self.drawn = rows.len();
        rows.iter().for_each(|row| console.line(row));
    }

    fn scroll(&mut self, scroll: Scroll) {
        let page = self.page_rows.saturating_sub(1).max(1);
        let by = |count: isize, rows: usize| self.top.saturating_add_signed(count * isize::try_from(rows).unwrap_or(0));
        self.top = match scroll {
            Scroll::Rows(count) => by(count, 1),
            Scroll::Pages(count) => by(count, page),
            Scroll::Home => 0,
            Scroll::End => self.sheet.len(),
        };
        self.top = self.top.min(self.sheet.len().saturating_sub(self.page_rows));
    }
}

impl<T: Clone> Asked for Pager<'_, T> {
    type Answer = T;

    fn show(&mut self, console: &Console) {
        self.draw(console);
    }

    fn show_keys(&mut self, console: &Console, listening: Listening) {
        self.row.draw(console, self.keys[usize::from(!self.is_seen)], "", listening);
    }

    fn key(&mut self, keys: &[u8], console: &Console) -> KeyMeaning<T> {
        if let Some(answer) = (self.choice)(keys, self.is_seen) {
            return KeyMeaning::Answer(answer);
        }
        let scrolls = scrolls(keys);
        self.is_early = (self.choice)(keys, true).is_some();
        let pages = scrolls.is_some() && self.shown().len() < self.sheet.len();
        if pages || self.is_early {
            scrolls.into_iter().flatten().for_each(|it| self.scroll(it));
            self.draw(console);
        }
        if pages { KeyMeaning::Paged } else { KeyMeaning::Other }
    }

    fn disturbed(&mut self) {
        self.drawn = 0;
        self.row.forget();
    }

    fn withdrawn_by(&self) -> Option<&AtomicBool> {
        self.withdrawn_by
    }

    fn is_harmless(&self) -> bool {
        self.is_harmless
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_scroll_are_read_however_many_come_at_once() {
        assert_eq!(scrolls(b"jj\x1b[6~G"), Some(vec![Scroll::Rows(1), Scroll::Rows(1), Scroll::Pages(1), Scroll::End]));
        for other in [&b"jy"[..], b"\x1b", b"\x1b[", b"y", b"\r"] {
            assert_eq!(scrolls(other), None, "{other:?}");
        }
    }
}
