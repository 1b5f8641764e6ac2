//! The lines that differ between two texts, and their unified form (as in POSIX `diff -u`). Pure; must not know what
//! the texts are.

use std::hash::Hash;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Lines of both texts around a change, as in `diff -u`.
const CONTEXT_LINES: usize = 3;

/// One line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<T> {
    /// In both texts.
    Kept(T),
    /// In the old text only.
    Gone(T),
    /// In the new text only.
    New(T),
}

/// Compares two texts line by line.
#[must_use]
pub fn diff<'a>(old: &'a str, new: &'a str) -> Vec<Line<&'a str>> {
    compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>())
}

/// Compares two contents line by line, exactly: each line with its ending.
#[must_use]
pub fn diff_bytes<'a>(old: &'a [u8], new: &'a [u8]) -> Vec<Line<&'a [u8]>> {
    compare(&lines_of(old), &lines_of(new))
}

/// The lines of a content, each with its ending.
#[must_use]
pub fn lines_of(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Groups the changes of a comparison: each with the lines around it, as `diff -u` does. The ranges are of `lines`.
#[must_use]
pub fn hunks<T>(lines: &[Line<T>]) -> Vec<Range<usize>> {
    let mut hunks: Vec<Range<usize>> = Vec::new();
    for at in (0..lines.len()).filter(|at| !matches!(lines[*at], Line::Kept(_))) {
        let (from, to) = (at.saturating_sub(CONTEXT_LINES), (at + CONTEXT_LINES + 1).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if from <= last.end => last.end = to,
            _ => hunks.push(from..to),
        }
    }
    hunks
}

/// Returns the old content with the wanted hunks applied, exactly; a hunk beyond the end of `wanted` isn't wanted.
#[must_use]
pub fn partly(old: &[u8], new: &[u8], wanted: &[bool]) -> Vec<u8> {
    let lines = diff_bytes(old, new);
    let hunks = hunks(&lines);
    let is_wanted = |at: usize| {
        let hunk = hunks.partition_point(|hunk| hunk.end <= at);
        wanted.get(hunk).copied().unwrap_or(false)
    };
    let chosen = lines.iter().enumerate().filter_map(|(at, line)| match line {
        Line::Kept(line) => Some(*line),
        Line::Gone(line) => (!is_wanted(at)).then_some(*line),
        Line::New(line) => is_wanted(at).then_some(*line),
    });
    chosen.collect::<Vec<_>>().concat()
}

/// Compares two texts in the unified form: a head with the name, and each change with the lines around it. Empty if
/// they are equal. A missing newline at the end counts as a difference.
#[must_use]
pub fn unified(name: &str, old: Option<&str>, new: &str) -> String {
    let old_lines: Vec<&str> = old.unwrap_or_default().split_inclusive('\n').collect();
    let lines = compare(&old_lines, &new.split_inclusive('\n').collect::<Vec<_>>());
    let hunks = hunks(&lines);
    if hunks.is_empty() {
        return String::new();
    }
    let mut text = format!("--- {}\n+++ {name}\n", if old.is_none() { "/dev/null" } else { name });
    let (mut old_line, mut new_line, mut done) = (0, 0, 0);
    for hunk in hunks {
        count(&lines[done..hunk.start], &mut old_line, &mut new_line);
        let (old_from, new_from) = (old_line, new_line);
        count(&lines[hunk.clone()], &mut old_line, &mut new_line);
        done = hunk.end;
        let range = |from: usize, to: usize| format!("{},{}", if to > from { from + 1 } else { from }, to - from);
        text.push_str(&format!("@@ -{} +{} @@\n", range(old_from, old_line), range(new_from, new_line)));
        for line in &lines[hunk] {
            let (mark, line) = match line {
                Line::Kept(line) => (' ', line),
                Line::Gone(line) => ('-', line),
                Line::New(line) => ('+', line),
            };
            text.push(mark);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

/// Counts the lines of both texts.
pub(super) fn count<T>(lines: &[Line<T>], old: &mut usize, new: &mut usize) {
    for line in lines {
        *old += usize::from(!matches!(line, Line::New(_)));
        *new += usize::from(!matches!(line, Line::Gone(_)));
    }
}

/// Compares two sequences of items; `postprocess_lines` moves a change to where its indentation begins.
pub(super) fn compare<T: Copy + Default + Eq + Hash + AsRef<[u8]>>(old: &[T], new: &[T]) -> Vec<Line<T>> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let mut lines = Vec::with_capacity(old.len().max(new.len()));
    let (mut old_at, mut new_at) = (0, 0);
    let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    while old_at < old.len() || new_at < new.len() {
        if old_at < old.len() && diff.is_removed(index(old_at)) {
            lines.push(Line::Gone(old[old_at]));
            old_at += 1;
        } else if new_at < new.len() && diff.is_added(index(new_at)) {
            lines.push(Line::New(new[new_at]));
            new_at += 1;
        } else {
            lines.push(Line::Kept(old[old_at]));
            (old_at, new_at) = (old_at + 1, new_at + 1);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_differing_lines_are_gone_or_new() {
        use Line::{Gone, Kept, New};
        assert_eq!(diff("a\nb\nc\n", "a\nx\nc\n"), [Kept("a"), Gone("b"), New("x"), Kept("c")]);
        assert_eq!(diff("", "a\n"), [New("a")]);
        assert_eq!(diff("a\na\nb", "a\nb"), [Kept("a"), Gone("a"), Kept("b")]);
    }

    #[test]
    fn the_unified_form_is_that_of_diff() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n";
        let new = old.replace("2\n3\n", "2\nx\n").replace("14\n", "14");
        let expected = "--- f\n+++ f\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+x\n 4\n 5\n 6\n@@ -11,4 +11,4 @@\n 11\n 12\n 13\n-14\n\
            +14\n\\ No newline at end of file\n";
        assert_eq!(unified("f", Some(old), &new), expected);
        assert_eq!(unified("f", Some(old), old), "");
        assert_eq!(unified("f", None, "a\n"), "--- /dev/null\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(diff("a\nb", "b\na").iter().filter(|line| matches!(line, Line::Kept(_))).count(), 1);
    }

    #[test]
    fn a_hunk_that_ends_a_file_without_a_newline_joins_no_lines() {
        let (old, new) = (b"1\n2\n3\n4\n5\n6\n7\n8\n9", b"0\n2\n3\n4\n5\n6\n7\n8\n9\nx");
        assert_eq!(partly(old, new, &[true, false]), b"0\n2\n3\n4\n5\n6\n7\n8\n9");
        assert_eq!(partly(old, new, &[false, true]), b"1\n2\n3\n4\n5\n6\n7\n8\n9\nx");
        assert_eq!(partly(b"a", b"a\nb\n", &[]), b"a");
    }

    proptest! {
        #[test]
        fn chosen_hunks_give_the_content_that_their_patch_gives(
            old in prop::collection::vec(0u8..4, 0..60),
            new in prop::collection::vec(0u8..4, 0..60),
            ends in 0u8..4,
            chosen in prop::collection::vec(any::<bool>(), 20),
        ) {
            let content = |lines: &[u8], open: bool| {
                let mut text: Vec<u8> = lines.iter().flat_map(|line| [b'a' + line, b'\n']).collect();
                if open { text.pop(); }
                text
            };
            let (old, new) = (content(&old, ends & 1 > 0), content(&new, ends & 2 > 0));
            prop_assert_eq!(partly(&old, &new, &[true; 64]), new.clone());
            prop_assert_eq!(partly(&old, &new, &[]), old.clone());
            let lines = diff_bytes(&old, &new);
            let hunks = hunks(&lines);
            let part = partly(&old, &new, &chosen);
            let mut expected: Vec<&[u8]> = Vec::new();
            for (at, line) in lines.iter().enumerate() {
                let hunk = hunks.iter().position(|hunk| hunk.contains(&at));
                let is_taken = hunk.is_some_and(|hunk| chosen.get(hunk).copied().unwrap_or(false));
                match line {
                    Line::Kept(line) => expected.push(line),
                    Line::Gone(line) if !is_taken => expected.push(line),
                    Line::New(line) if is_taken => expected.push(line),
                    _ => {}
                }
            }
            let bare = |lines: &[&[u8]]| -> Vec<Vec<u8>> {
                lines.iter().map(|line| line.strip_suffix(b"\n").unwrap_or(line).to_vec()).collect()
            };
            prop_assert_eq!(bare(&lines_of(&part)), bare(&expected));
        }

        #[test]
        fn both_texts_can_be_read_from_it(old in "[ab\n]{0,30}", new in "[ab\n]{0,30}") {
            let lines = diff(&old, &new);
            let of = |wanted: fn(&Line<&str>) -> bool| -> Vec<String> {
                lines.iter().filter(|line| wanted(line)).map(|line| match line {
                    Line::Kept(text) | Line::Gone(text) | Line::New(text) => (*text).to_owned(),
                }).collect()
            };
            prop_assert_eq!(of(|line| !matches!(line, Line::New(_))), old.lines().map(str::to_owned).collect::<Vec<_>>());
            prop_assert_eq!(of(|line| !matches!(line, Line::Gone(_))), new.lines().map(str::to_owned).collect::<Vec<_>>());
        }
    }
}
