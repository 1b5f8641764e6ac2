//! Sheets as rows of text, at several widths; that no row is too wide; that rows are the same however they are asked for.

use proptest::prelude::*;

use super::*;
use crate::proto::tool::FileChange;
use crate::render::patch::patches;

fn change(path: &str, old: Option<&str>, new: Option<&str>) -> FileChange {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    FileChange { path: path.into(), old: bytes(old), new: bytes(new) }
}

fn drawn(changes: &[FileChange], look: Look) -> Vec<String> {
    let sheet = Sheet::new(look, Vec::new(), patches(changes), Vec::new());
    sheet.rows(0..sheet.len())
}

fn numbered(to: usize) -> String {
    (1..=to).map(|line| format!("line {line}\n")).collect()
}

#[test]
fn a_change_is_drawn_with_both_numbers_and_folds() {
    let old = numbered(60);
    let new = old.replace("line 20\n", "line twenty\n\tand more\n").replace("line 50\n", "");
    let changes = [change("src/a.rs", Some(&old), Some(&new)), change("new.txt", None, Some("日本語"))];
    let expected = "\
2 files, +3 −2
src/a.rs  +2 −2
  … 16 lines
 17  17   line 17
 18  18   line 18
 19  19   line 19
 20     - line 20
     20 + line twenty
     21 + →   and more
 21  22   line 21
 22  23   line 22
 23  24   line 23
  … 23 lines
 47  48   line 47
 48  49   line 48
 49  50   line 49
 50     - line 50
 51  51   line 51
 52  52   line 52
 53  53   line 53
  … 7 lines

new.txt  +1 −0  new file, ends without a newline
      1 + 日本語";
    for columns in [80, 120, 200] {
        assert_eq!(drawn(&changes, Look::plain(columns)).join("\n"), expected, "{columns}");
    }
    let narrow = drawn(&changes, Look::plain(40)).join("\n");
    for row in ["\n 20 - line 20\n 20 + line twenty\n 21 + →   and more\n 22   line 21\n", "\n  1 + 日本語"] {
        assert!(narrow.contains(row), "{narrow}");
    }
}

#[test]
fn a_sheet_can_be_read_out_and_drawn_without_unicode() {
    let old = numbered(9);
    let change = [change("a.md", Some(&old), Some(&old.replace("line 9", "\tnine")))];
    let spoken = drawn(&change, Look { accessible: true, ..Look::plain(80) });
    let expected = [
        "file a.md: 1 line added, 1 removed",
        "5 lines that stay",
        "line 6: line 6",
        "line 7: line 7",
        "line 8: line 8",
        "line 9 removed: line 9",
        "line 9 added:     nine",
    ];
    assert_eq!(spoken, expected);
    let ascii = drawn(&change, Look { unicode: false, ..Look::plain(80) });
    assert!(ascii.iter().all(|row| row.is_ascii()), "{ascii:?}");
    assert_eq!((ascii[0].as_str(), ascii[1].as_str()), ("a.md  +1 -1", "  ... 5 lines"));
    assert_eq!(ascii.last().map(String::as_str), Some("      9 + \\tnine"));
}

#[test]
fn a_long_line_continues_after_a_hanging_gutter_and_loses_nothing() {
    let line = format!("x{}", "日本".repeat(40));
    let rows = drawn(&[change("f", None, Some(&format!("{line}\n")))], Look::plain(40));
    assert!(rows[1].starts_with("  1 + x日") && rows[2].starts_with("      日本"), "{rows:?}");
    let text: String = rows[1..].iter().map(|row| &row[6..]).collect();
    assert_eq!(text, line);
}

#[test]
fn deceptive_characters_are_shown_as_escapes() {
    let evil =
        "if x { \u{1b}[2K\u{1b}[1A }\r // \u{202e} \u{2066}ok\u{200b}\u{9b}31m p\u{430}ypal \u{7}\u{85}\u{2028}\n";
    let path = "src/\u{1b}[31ma\u{202e}sr.rs";
    for look in [Look::plain(80), Look { color: true, ..Look::plain(40) }, Look { accessible: true, ..Look::plain(80) }]
    {
        let rows = drawn(&[change(path, Some(&evil.replace("ok", "no")), Some(evil))], look).join("\n");
        // The only escape sequences are our colours.
        let bare: String = rows
            .split("\u{1b}[")
            .enumerate()
            .map(|(at, part)| match at {
                0 => part,
                _ => part
                    .split_once('m')
                    .map(|(code, rest)| {
                        assert!(code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'), "{code:?}");
                        rest
                    })
                    .expect("a colour"),
            })
            .collect();
        let bare = bare.replace('\n', "");
        assert!(!crate::render::text::has_hidden(&bare), "{bare:?}");
        let bare: String = bare.split_whitespace().collect();
        for sign in ["\\x1b[2K", "\\u{202e}", "\\u{2066}", "\\u{200b}", "\\u{9b}31m", "p\\u{430}ypal", "src/\\x1b[31ma"]
        {
            assert!(bare.contains(sign), "{sign} is not in {bare}");
        }
    }
}

#[test]
fn words_that_differ_are_marked_and_text_is_highlighted() {
    let look = Look { color: true, ..Look::plain(80) };
    let rows = drawn(&[change("a.rs", Some("let a = 1;\nlet b;\n"), Some("let a = 2;\nlet b;\n"))], look);
    assert_eq!(
        rows[1],
        "\u{1b}[1;31m  1     - \u{1b}[0m\u{1b}[31mlet a = \u{1b}[0m\u{1b}[7;31m1\u{1b}[0m\u{1b}[31m;\u{1b}[0m"
    );
    assert!(rows[2].contains("\u{1b}[35mlet\u{1b}[0m") && rows[2].contains("\u{1b}[7;32m2\u{1b}[0m"), "{:?}", rows[2]);
    assert!(rows[3].contains("\u{1b}[35mlet\u{1b}[0m b;"), "{:?}", rows[3]);
}

#[test]
fn the_file_under_the_eyes_is_known() {
    let changes = [change("a", None, Some("1\n2\n")), change("b", None, Some("1\n"))];
    let sheet = Sheet::new(Look::plain(80), vec!["head".into()], patches(&changes), vec!["foot".into()]);
    let at: Vec<usize> = (0..sheet.len()).map(|row| sheet.file_at(row..row + 1)).collect();
    assert_eq!(at, [0, 0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(sheet.file_rows(), ["a  +2 −0  new file", "b  +1 −0  new file"]);
}

proptest! {
    #[test]
    fn no_row_is_too_wide_and_pages_are_parts_of_the_whole(
        old in "([ab\t日 ]{0,12}\n){0,12}",
        new in "([ab\t日 \u{7}]{0,60}\n){0,12}",
        columns in 24usize..100,
        page in 1usize..9,
    ) {
        let look = Look::plain(columns);
        let sheet = Sheet::new(look, Vec::new(), patches(&[change("f", Some(&old), Some(&new))]), Vec::new());
        let rows = sheet.rows(0..sheet.len());
        prop_assert_eq!(rows.len(), sheet.len());
        prop_assert!(rows.iter().all(|row| width(row) < columns), "{:?}", rows);
        let paged: Vec<String> = (0..sheet.len()).step_by(page).flat_map(|at| sheet.rows(at..at + page)).collect();
        prop_assert_eq!(paged, rows);
    }
}
