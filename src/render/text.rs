//! Text in terminal columns: display width, cutting, visible escapes and plain tables.
//!
//! Owns the width of a text. Must not know colours or markdown.
//! The width is that of the clusters one by one (a base character with its marks, or an emoji sequence), because that is
//! how terminals place them: ligatures that `unicode-width` would count as one cell take two.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::sanitise::sanitise;
use crate::base::text::is_invisible;

/// Limit on the characters of one cluster; further marks begin another, so that no text costs more than linear time.
const CLUSTER_CHARS_MAX: usize = 32;
/// Blanks between the columns of a plain table.
const GAP: usize = 2;
/// Columns that a description needs beside its name.
const DESCRIPTION_MIN: usize = 24;
/// Minimum columns of a table's last column, which is the one that the list is for.
const LAST_COLUMN_MIN: usize = 20;
/// Minimum columns of a column of paths: a name.
const PATH_COLUMN_MIN: usize = 16;

/// Returns the columns that a text of one line takes on a terminal.
#[must_use]
pub fn width(text: &str) -> usize {
    clusters(text).map(|(_, columns)| columns).sum()
}

/// Splits a text into its visible characters, each with its width in columns.
pub fn clusters(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let mut end = first.len_utf8();
        for (count, c) in rest[end..].chars().enumerate() {
            if count + 1 >= CLUSTER_CHARS_MAX || !extends(&rest[..end], c) {
                break;
            }
            end += c.len_utf8();
        }
        let (cluster, after) = rest.split_at(end);
        rest = after;
        Some((cluster, cluster_width(cluster)))
    })
}

/// Returns whether a character belongs to the cluster before it.
pub(super) fn extends(cluster: &str, c: char) -> bool {
    let Some(last) = cluster.chars().next_back() else { return false };
    if c.is_control() || last.is_control() || cluster.len() > CLUSTER_CHARS_MAX * 4 {
        return false;
    }
    let region = |c: char| matches!(c, '\u{1f1e6}'..='\u{1f1ff}');
    c.width() == Some(0)
        || last == '\u{200d}'
        || (matches!(c, '\u{1f3fb}'..='\u{1f3ff}') && last.width() == Some(2))
        || (region(c) && region(last) && cluster.chars().count() == 1)
}

/// Returns the columns of one cluster; controls, which must not occur here, count as zero.
pub(super) fn cluster_width(cluster: &str) -> usize {
    if cluster.bytes().all(|byte| byte < 0x80) {
        return cluster.bytes().filter(|byte| !byte.is_ascii_control()).count();
    }
    // Two columns is the most that any terminal uses for one character.
    cluster.width().min(2)
}

/// Shortens a text of one line to at most this number of columns, the last of them `…` if something was cut.
#[must_use]
pub fn ellipsis(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut left = columns.saturating_sub(1);
    for (cluster, columns) in clusters(text) {
        if columns > left {
            break;
        }
        left -= columns;
        cut.push_str(cluster);
    }
    if columns > 0 {
        cut.push('…');
    }
    cut
}

/// Breaks lines at spaces so that none is wider than `columns`, if the words allow it; later rows begin with `indent`.
#[must_use]
pub fn wrap(text: &str, columns: usize, indent: &str) -> String {
    let mut rows = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            rows.push('\n');
        }
        let mut used = 0;
        for (index, word) in line.split(' ').enumerate() {
            let needed = width(word);
            if index > 0 && used + 1 + needed > columns && used > width(indent) {
                rows.push('\n');
                rows.push_str(indent);
                used = width(indent);
            } else if index > 0 {
                rows.push(' ');
                used += 1;
            }
            rows.push_str(word);
            used += needed;
        }
    }
    rows
}

/// Shows a command as it will run: every control, every invisible character and every blank that is no plain space as
/// an escape (`\n`, `\t`, `\x1b`, `\u{202e}`). Newlines, too: to keep them, split the text into lines first.
///
/// A backslash stays as it is, so that ordinary commands look as they are; [`has_hidden`] tells whether an escape is ours.
#[must_use]
pub fn escape_visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing to a String can't fail.
        let _ = match c {
            '\n' => write!(shown, "\\n"),
            '\t' => write!(shown, "\\t"),
            '\r' => write!(shown, "\\r"),
            _ if !is_hidden(c) => write!(shown, "{c}"),
            _ if c.is_ascii() => write!(shown, "\\x{:02x}", u32::from(c)),
            _ => write!(shown, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    shown
}

/// Escapes the invisible characters and controls of JSON, for a terminal: a program reads the same value.
#[must_use]
pub fn escape_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && (c.is_control() || is_invisible(c)) {
            // Writing to a String can't fail.
            let _ = c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(shown, "\\u{unit:04x}"));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns whether a text has a character that [`escape_visible`] would write as an escape, except newlines: a command
/// with one deserves a warning before its approval.
#[must_use]
pub fn has_hidden(text: &str) -> bool {
    text.chars().any(|c| c != '\n' && is_hidden(c))
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || is_invisible(c)
        || (c.is_whitespace() && c != ' ')
        || ('\u{fdd0}'..='\u{fdef}').contains(&c)
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Lays rows out in aligned columns, two blanks between; cells are sanitised, a newline in a cell shows as `⏎`. Lines are cut
/// at `width_columns` (0: not at all). If no room is left for the last column, paths before it lose their beginning; if that
/// isn't enough, each row breaks between its cells.
#[must_use]
pub fn table(rows: &[Vec<String>], width_columns: usize) -> String {
    let cell = |cell: &String| sanitise(cell).replace('\n', "⏎").replace('\t', " ");
    let mut rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let mut widths = column_widths(&rows);
    let surplus = |widths: &[usize]| {
        let Some((last, before)) = widths.split_last().filter(|_| width_columns > 0) else { return 0 };
        let needed = before.iter().map(|it| it + GAP).sum::<usize>() + (*last).min(LAST_COLUMN_MIN);
        needed.saturating_sub(width_columns)
    };
    if surplus(&widths) > 0 {
        shorten_paths(&mut rows, &widths, surplus(&widths));
        widths = column_widths(&rows);
        if surplus(&widths) > 0 {
            return rows.iter().map(|row| broken_row(row, width_columns)).collect();
        }
    }
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, widest) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', widest - width(cell) + GAP));
        }
        let line = line.trim_end();
        out.push_str(&if width_columns > 0 { ellipsis(line, width_columns) } else { line.to_owned() });
        out.push('\n');
    }
    out
}

fn column_widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            let columns = width(cell);
            match widths.get_mut(at) {
                Some(widest) => *widest = columns.max(*widest),
                None => widths.push(columns),
            }
        }
    }
    widths
}

/// Makes the widest column of paths, other than the last one, narrower by `surplus`: a path's end says most.
fn shorten_paths(rows: &mut [Vec<String>], widths: &[usize], surplus: usize) {
    let is_path = |cell: &String| cell.starts_with('/') || cell.starts_with("~/");
    let has_path = |at: &usize| rows.iter().any(|row| row.get(*at).is_some_and(is_path));
    let before = 0..widths.len().saturating_sub(1);
    let Some(at) = before.filter(has_path).max_by_key(|at| widths[*at]) else { return };
    let most = widths[at].saturating_sub(surplus).max(PATH_COLUMN_MIN);
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(at)).filter(|cell| is_path(cell)) {
        *cell = path_end(cell, most);
    }
}

/// The end of a path that fits, from the beginning of a name if one fits whole.
fn path_end(path: &str, columns: usize) -> String {
    if width(path) <= columns {
        return path.to_owned();
    }
    let mut left = width(path);
    let mut end = path;
    for (cluster, wide) in clusters(path) {
        if left < columns {
            break;
        }
        (left, end) = (left - wide, &end[cluster.len()..]);
    }
    format!("…{}", end.find('/').map_or(end, |at| &end[at..]))
}

/// A row without aligned columns: as many cells in a line as fit, further lines indented.
fn broken_row(row: &[String], width_columns: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for cell in row.iter().filter(|cell| !cell.is_empty()) {
        if used > 0 {
            let fits = used + GAP + width(cell) <= width_columns;
            out.push_str(if fits { "" } else { "\n" });
            out.extend(std::iter::repeat_n(' ', GAP));
            used = if fits { used + GAP } else { GAP };
        }
        let cell = ellipsis(cell, width_columns.saturating_sub(used).max(1));
        used += width(&cell);
        out.push_str(&cell);
    }
    out + "\n"
}

/// Lays names and descriptions out in two columns; descriptions break at spaces within their column. Both are
/// sanitised.
#[must_use]
pub fn described(rows: &[(String, String)], width_columns: usize) -> String {
    let names: Vec<_> = rows.iter().map(|(name, _)| sanitise(name)).collect();
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let begin = widest + GAP;
    // Without room beside the names, the descriptions go below them.
    let (begin, is_beside) = if begin + DESCRIPTION_MIN <= width_columns { (begin, true) } else { (GAP, false) };
    let mut out = String::new();
    for (name, (_, meaning)) in names.iter().zip(rows) {
        out.push_str(name);
        if is_beside {
            out.extend(std::iter::repeat_n(' ', begin - width(name)));
        } else {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', begin));
        }
        let meaning = wrap(&sanitise(meaning), width_columns.saturating_sub(begin).max(1), "");
        out.push_str(&meaning.replace('\n', &format!("\n{}", " ".repeat(begin))));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_description_breaks_under_itself() {
        let rows =
            [(":a".to_owned(), "lists all the words that there are".to_owned()), (":bcd [N]".into(), "b".into())];
        assert_eq!(
            super::described(&rows, 34),
            ":a        lists all the words that\n          there are\n:bcd [N]  b\n"
        );
        assert_eq!(super::described(&rows, 20), ":a\n  lists all the\n  words that there\n  are\n:bcd [N]\n  b\n");
    }

    #[test]
    fn rows_break_at_spaces() {
        assert_eq!(super::wrap("aa bb cc", 5, "  "), "aa bb\n  cc");
        assert_eq!(super::wrap("a  b", 80, ""), "a  b");
        assert_eq!(super::wrap("endlessword x", 4, " "), "endlessword\n x");
        assert_eq!(super::wrap("a\nb", 4, " "), "a\nb");
    }

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn widths_are_those_of_a_terminal() {
        let table: &[(&str, usize)] = &[
            ("", 0),
            ("abc", 3),
            ("ünï", 3),
            ("e\u{301}", 1),
            ("日本", 4),
            ("👍🏽", 2),
            ("👩\u{200d}👩\u{200d}👧", 2),
            ("🇩🇪🇫🇷", 4),
            ("❤\u{fe0f}", 2),
            ("1\u{fe0f}\u{20e3}", 2),
            ("─│•", 3),
        ];
        for (text, columns) in table {
            assert_eq!(width(text), *columns, "{text:?}");
        }
    }

    #[test]
    fn a_cut_text_fits() {
        let table: &[(&str, usize, &str)] = &[
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ];
        for (text, columns, cut) in table {
            assert_eq!(&ellipsis(text, *columns), cut);
        }
    }

    #[test]
    fn invisible_characters_are_shown() {
        let table: &[(&str, &str)] = &[
            ("ls -l 'ünï 日本'", "ls -l 'ünï 日本'"),
            ("a\x1b[2Kb\x07\x7f", "a\\x1b[2Kb\\x07\\x7f"),
            ("rm\u{a0}x\u{3000}y", "rm\\u{a0}x\\u{3000}y"),
            ("a\u{202e}b\u{200d}c\u{e0041}\u{9b}", "a\\u{202e}b\\u{200d}c\\u{e0041}\\u{9b}"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ];
        for (text, shown) in table {
            assert_eq!(&escape_visible(text), shown);
            assert_eq!(has_hidden(text), text != shown);
        }
        assert!(!has_hidden("cat <<E\nx\nE"));
    }

    #[test]
    fn escaped_json_is_the_same_value_without_hidden_characters() {
        let value = serde_json::json!({"a\u{202e}": "é日\u{9b}\u{7f}\u{e0041}\n\u{2028}\\"});
        let shown = escape_json(&(value.to_string() + "\n"));
        assert!(shown.ends_with("}\n") && shown.contains("\\u202e") && shown.contains("\\udb40\\udc41"), "{shown}");
        assert!(!has_hidden(shown.trim_end()));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).ok(), Some(value));
    }

    #[test]
    fn columns_line_up() {
        let rows: Vec<Vec<String>> = [["1", "ls -l", "ok"], ["12", "echo 日本\nx\x1b[2J", "failed"], ["3", "", ""]]
            .map(|row| row.map(String::from).to_vec())
            .to_vec();
        assert_eq!(table(&rows, 0), "1   ls -l        ok\n12  echo 日本⏎x  failed\n3\n");
        assert_eq!(table(&rows, 22), "1  ls -l  ok\n12  echo 日本⏎x\n  failed\n3\n");
    }

    #[test]
    fn the_last_column_has_room_before_paths_have() {
        let rows = |place: &str| {
            [
                ["2", "now", "everywhere", "use tabs in every Makefile"],
                ["10", "3 min", place, "the tests need a database"],
            ]
            .map(|row| row.map(String::from).to_vec())
            .to_vec()
        };
        let rows = rows("~/projects/company/backend/services/payment-api");
        assert_eq!(
            table(&rows, 60),
            "2   now    everywhere              use tabs in every Makefi…\n\
             10  3 min  …/services/payment-api  the tests need a database\n"
        );
        let narrow =
            "2  now  everywhere\n  use tabs in every Makef…\n10  3 min  …/payment-api\n  the tests need a databa…\n";
        assert_eq!(table(&rows, 26), narrow);
        let figures =
            [["today", "local", "10 requests", "1183 tokens in", "200 out", "$0.00"].map(String::from).to_vec()];
        assert_eq!(table(&figures, 40), "today  local  10 requests\n  1183 tokens in  200 out  $0.00\n");
        assert_eq!(path_end("/a/日本/bc", 6), "…/bc");
        assert_eq!(path_end("/abcdefgh", 6), "…defgh");
    }

    proptest! {
        #[test]
        fn clusters_make_the_whole(text in any::<String>(), columns in 0usize..30) {
            prop_assert_eq!(clusters(&text).map(|(cluster, _)| cluster).collect::<String>(), text.clone());
            prop_assert!(width(&ellipsis(&text, columns)) <= columns);
        }

        #[test]
        fn escapes_leave_nothing_hidden(text in any::<String>()) {
            prop_assert!(!has_hidden(&escape_visible(&text)));
        }
    }
}
