//! The lines that differ between two texts, and the unified form of it (as in POSIX `diff -u`). Pure; must not know
//! what the texts are.

use imara_diff::{Algorithm, Diff, InternedInput};

/// Lines of both texts that stand around a change, as in `diff -u`.
const CONTEXT_LINES: usize = 3;

/// One line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// In both texts.
    Kept(&'a str),
    /// In the old text only.
    Gone(&'a str),
    /// In the new text only.
    New(&'a str),
}

/// Compares two texts line by line.
#[must_use]
pub fn diff<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    compare(old.lines().collect(), new.lines().collect())
}

/// Compares two texts in the unified form: a head with the name, and each change with the lines around it. Empty where
/// they are the same. A text without a newline at its end is told apart from one with it.
#[must_use]
pub fn unified(name: &str, old: Option<&str>, new: &str) -> String {
    let lines = compare(old.unwrap_or_default().split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let is_change = |line: &Line<'_>| !matches!(line, Line::Kept(_));
    let changes: Vec<usize> = (0..lines.len()).filter(|at| is_change(&lines[*at])).collect();
    if changes.is_empty() {
        return String::new();
    }
    let mut text = format!("--- {}\n+++ {name}\n", if old.is_none() { "/dev/null" } else { name });
    let (mut old_line, mut new_line, mut done) = (0, 0, 0);
    let mut at = 0;
    while at < changes.len() {
        let from = changes[at].saturating_sub(CONTEXT_LINES);
        while changes.get(at + 1).is_some_and(|next| *next <= changes[at] + 2 * CONTEXT_LINES + 1) {
            at += 1;
        }
        let to = (changes[at] + CONTEXT_LINES + 1).min(lines.len());
        at += 1;
        count(&lines[done..from], &mut old_line, &mut new_line);
        let (old_from, new_from) = (old_line, new_line);
        count(&lines[from..to], &mut old_line, &mut new_line);
        done = to;
        let range = |from: usize, to: usize| format!("{},{}", if to > from { from + 1 } else { from }, to - from);
        text.push_str(&format!("@@ -{} +{} @@\n", range(old_from, old_line), range(new_from, new_line)));
        for line in &lines[from..to] {
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

fn count(lines: &[Line<'_>], old: &mut usize, new: &mut usize) {
    for line in lines {
        *old += usize::from(!matches!(line, Line::New(_)));
        *new += usize::from(!matches!(line, Line::Gone(_)));
    }
}

fn compare<'a>(old: Vec<&'a str>, new: Vec<&'a str>) -> Vec<Line<'a>> {
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
    fn only_what_differs_is_gone_or_new() {
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

    proptest! {
        #[test]
        fn both_texts_can_be_read_from_it(old in "[ab\n]{0,30}", new in "[ab\n]{0,30}") {
            let lines = diff(&old, &new);
            let of = |wanted: fn(&Line<'_>) -> bool| -> Vec<String> {
                lines.iter().filter(|line| wanted(line)).map(|line| match line {
                    Line::Kept(text) | Line::Gone(text) | Line::New(text) => (*text).to_owned(),
                }).collect()
            };
            prop_assert_eq!(of(|line| !matches!(line, Line::New(_))), old.lines().map(str::to_owned).collect::<Vec<_>>());
            prop_assert_eq!(of(|line| !matches!(line, Line::Gone(_))), new.lines().map(str::to_owned).collect::<Vec<_>>());
        }
    }
}
