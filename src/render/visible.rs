//! The characters of a line as they are shown: visible ones as they are, and an escape for each that is invisible or
//! deceptive. Pure.

use std::borrow::Cow;

use super::text::{clusters, escape_visible, has_hidden, width};
use crate::base::text::look_alikes;

/// Columns from one tab stop to the next.
const TAB_COLUMNS: usize = 4;

/// The content of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell<'t> {
    /// Its start in the line, in bytes.
    pub(super) at: usize,
    pub(super) text: Cow<'t, str>,
    pub(super) columns: usize,
    /// `true` if it replaces a character that isn't shown as it is.
    pub(super) is_escape: bool,
}

/// The cells of a line; a tab extends to the next stop, with a sign if it has to be visible.
pub(super) fn cells(line: &str, shows_tabs: bool, unicode: bool) -> impl Iterator<Item = Cell<'_>> {
    let (mut at, mut column) = (0, 0);
    let look_alikes = look_alikes(line);
    let is_look_alike = move |at: usize| look_alikes.binary_search(&at).is_ok();
    clusters(line).flat_map(move |(cluster, columns)| {
        let start = at;
        at += cluster.len();
        let cells = match cluster {
            "\t" if shows_tabs && !unicode => vec![Cell { at: start, text: "\\t".into(), columns: 2, is_escape: true }],
            "\t" => {
                let columns = TAB_COLUMNS - column % TAB_COLUMNS;
                let blanks = " ".repeat(columns);
                let text = if shows_tabs { format!("→{}", &blanks[1..]) } else { blanks };
                vec![Cell { at: start, text: text.into(), columns, is_escape: false }]
            }
            _ if has_hidden(cluster) || cluster == "\n" || is_look_alike(start) => {
                let escaped = |(offset, c): (usize, char)| {
                    let text = escape_visible(c.encode_utf8(&mut [0; 4]));
                    let columns = width(&text);
                    let at = start + offset;
                    // The character combines with others, and isn't hidden itself.
                    if columns > 0 && text.chars().eq([c]) && !is_look_alike(at) {
                        return vec![Cell { at, text: text.into(), columns, is_escape: false }];
                    }
                    let text = if text.chars().eq([c]) { format!("\\u{{{:x}}}", u32::from(c)) } else { text };
                    // An escape can be broken anywhere.
                    let part = |part: char| Cell { at, text: part.to_string().into(), columns: 1, is_escape: true };
                    text.chars().map(part).collect()
                };
                cluster.char_indices().flat_map(escaped).collect()
            }
            _ => vec![Cell { at: start, text: cluster.into(), columns, is_escape: false }],
        };
        column += cells.iter().map(|cell| cell.columns).sum::<usize>();
        cells
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(line: &str, shows_tabs: bool, unicode: bool) -> String {
        cells(line, shows_tabs, unicode).map(|cell| cell.text.into_owned()).collect()
    }

    #[test]
    fn invisible_and_deceptive_characters_become_escapes() {
        for (line, seen) in [
            ("a\tb\t", "a   b   "),
            ("日\tx", "日  x"),
            ("a\u{202e}b\u{1b}[2J\r", "a\\u{202e}b\\x1b[2J\\r"),
            ("is\u{200b}Admin", "is\\u{200b}Admin"),
            ("\u{430}dmin = \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}", "\\u{430}dmin = привет"),
            ("Δx = 2µs", "Δx = 2µs"),
            ("e\u{301} 👩\u{200d}👩", "e\u{301} 👩\\u{200d}👩"),
        ] {
            assert_eq!(shown(line, false, true), seen, "{line:?}");
        }
        assert_eq!(shown("\ta", true, true), "→   a");
        assert_eq!(shown("\ta", true, false), "\\ta");
    }

    proptest! {
        #[test]
        fn no_line_has_a_cell_that_moves_the_cursor_or_a_wrong_width(line in "\\PC{0,20}|[\u{0}-\u{9f}\u{2028}a\t]{0,20}") {
            for cell in cells(&line, true, true) {
                prop_assert!(!has_hidden(&cell.text) && !cell.text.contains('\n'), "{:?}", cell);
                prop_assert_eq!(width(&cell.text), cell.columns);
            }
        }
    }
}
