//! The differences within a line: removed words of the old one, added words of the new one. Pure.

use std::ops::Range;

use super::diff::{Line, compare};

/// Longest line that is looked into, in bytes.
const LINE_BYTES_MAX: usize = 2_000;
/// Percentage of bytes that two lines must share to count as one line that changed.
const SAME_PERCENT: usize = 30;

/// Returns the places where two lines differ, in bytes; empty if they have too little in common.
pub(super) fn differing(old: &str, new: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    if old.len() > LINE_BYTES_MAX || new.len() > LINE_BYTES_MAX { (Vec::new(), Vec::new()) } else { ranges(old, new) }
}

/// Returns the removed words of the old text and the new words of the other, as far as the two have something in
/// common; `…` marks the words between them.
#[must_use]
pub fn changed_words(old: &str, new: &str) -> (String, String) {
    let (gone, come) = ranges(old, new);
    let joined = |text: &str, ranges: &[Range<usize>]| {
        let (mut shown, mut end) = (String::new(), None);
        for range in ranges {
            // A blank that both texts have doesn't separate two words.
            match end.map(|end| &text[end..range.start]) {
                Some(between) if between.trim().is_empty() => shown += between,
                Some(_) => shown += " … ",
                None => {}
            }
            shown += &text[range.clone()];
            end = Some(range.end);
        }
        shown.trim().to_owned()
    };
    (joined(old, &gone), joined(new, &come))
}

fn ranges(old: &str, new: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    let (mut old_at, mut new_at, mut same) = (0, 0, 0);
    for word in compare(&words(old), &words(new)) {
        match word {
            Line::Kept(word) => {
                (old_at, new_at) = (old_at + word.len(), new_at + word.len());
                same += word.trim().len();
            }
            Line::Gone(word) => extend(&mut gone, &mut old_at, word),
            Line::New(word) => extend(&mut come, &mut new_at, word),
        }
    }
    let longer = old.trim().len().max(new.trim().len());
    if same * 100 < longer * SAME_PERCENT { (Vec::new(), Vec::new()) } else { (gone, come) }
}

fn extend(ranges: &mut Vec<Range<usize>>, at: &mut usize, word: &str) {
    let range = *at..*at + word.len();
    *at = range.end;
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Splits a line into words, blanks and single signs.
fn words(line: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        _ if c.is_alphanumeric() || c == '_' => 1,
        _ if c.is_whitespace() => 2,
        _ => 0,
    };
    let (mut words, mut start) = (Vec::new(), 0);
    let mut before = None;
    for (at, c) in line.char_indices() {
        if before.is_some_and(|before| before != kind(c) || before == 0) {
            words.push(&line[start..at]);
            start = at;
        }
        before = Some(kind(c));
    }
    if start < line.len() {
        words.push(&line[start..]);
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_that_differ_are_found() {
        let of = |old: &str, new: &str| {
            let (gone, come) = differing(old, new);
            let text = |line: &str, ranges: &[Range<usize>]| -> Vec<String> {
                ranges.iter().map(|range| line[range.clone()].to_owned()).collect()
            };
            (text(old, &gone), text(new, &come))
        };
        assert_eq!(of("let a = 1;", "let a = 22;"), (vec!["1".into()], vec!["22".into()]));
        assert_eq!(of("    x()", "\tx()"), (vec!["    ".into()], vec!["\t".into()]));
        assert_eq!(of("f(a, b)", "f(a)"), (vec![", b".into()], vec![]));
        assert_eq!(of("one thing", "quite another"), (vec![], vec![]), "nothing in common");
    }

    #[test]
    fn the_words_that_came_and_went_are_shown_without_the_others() {
        let long = "Reads a file of the project. ".repeat(100);
        let changed = |old: &str, new: &str| changed_words(&format!("{long}{old}"), &format!("{long}{new}"));
        let none = String::new;
        assert_eq!(changed("It is quick.", "It is quick."), (none(), none()));
        assert_eq!(changed("", "Send it to me."), (none(), "Send it to me.".into()));
        assert_eq!(changed("It is quick and safe now.", "It was quick and unsafe then."), {
            ("is … safe now".into(), "was … unsafe then".into())
        });
        assert_eq!(changed_words("one thing", "quite another"), (none(), none()));
    }

    proptest! {
        #[test]
        fn unmarked_words_are_the_same_in_both(old in "[ab \u{e9}(]{0,12}", new in "[ab \u{e9}(]{0,12}") {
            let (gone, come) = differing(&old, &new);
            let rest = |line: &str, ranges: &[Range<usize>]| -> String {
                line.char_indices().filter(|(at, _)| !ranges.iter().any(|it| it.contains(at))).map(|(_, c)| c).collect()
            };
            if !gone.is_empty() || !come.is_empty() {
                prop_assert_eq!(rest(&old, &gone), rest(&new, &come));
            }
        }
    }
}
