//! The lines that differ between two texts. Pure; must not know what the texts are.

/// Most cells of the table that is worked through: about the square of 2,000 changed lines. Beyond it, all of it has
/// changed.
const CELLS_MAX: usize = 4_000_000;

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

/// Compares two texts line by line; the fewest lines are gone and new, but for very long changes.
#[must_use]
pub fn diff<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut lines: Vec<Line<'a>> = old[..start].iter().map(|line| Line::Kept(line)).collect();
    lines.extend(middle(old_middle, new_middle));
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Kept(line)));
    lines
}

/// Compares what lies between the first and the last difference, by the longest common sequence of lines.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len().saturating_mul(new.len()) > CELLS_MAX {
        return old.iter().map(|line| Line::Gone(line)).chain(new.iter().map(|line| Line::New(line))).collect();
    }
    let columns = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * columns];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * columns + j] = if old[i] == new[j] {
                longest[(i + 1) * columns + j + 1] + 1
            } else {
                longest[(i + 1) * columns + j].max(longest[i * columns + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Kept(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && longest[(i + 1) * columns + j] >= longest[i * columns + j + 1]) {
            lines.push(Line::Gone(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
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
        assert_eq!(diff("a\nb", "b\na"), [Gone("a"), Kept("b"), New("a")]);
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
