//! Renamed files in a list of changes: a removed file and a new one whose contents are at least half alike, as git measures it.

use std::collections::{BTreeMap, HashMap};

use crate::git::{Changed, Mode, Oid};

/// Part of the content in percent from which two files count as one that was renamed, as git's `-M`.
const LIKENESS_MIN: usize = 50;
/// Limit on the pairs of files whose contents are compared; beyond it, only files with equal contents are found.
const PAIRS_MAX: usize = 40_000;
/// Longest content that is compared, in bytes.
const BYTES_MAX: usize = 1024 * 1024;

/// The former name of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The place of the file that went in the list.
    pub from: usize,
    /// The part of its content in percent that is the same.
    pub likeness: usize,
}

/// Finds renamed files: for the place of each new file in the list, its former file.
#[must_use]
pub fn renames(changes: &[Changed], text: &dyn Fn(Option<(Mode, Oid)>) -> Option<String>) -> BTreeMap<usize, Renamed> {
    let is_one = |side: Option<(Mode, Oid)>| side.is_some_and(|(mode, _)| mode.is_file() || mode == Mode::Link);
    let place = |is_wanted: &dyn Fn(&Changed) -> bool| -> Vec<usize> {
        changes.iter().enumerate().filter(|(_, it)| is_wanted(it)).map(|(at, _)| at).collect()
    };
    let mut gone = place(&|it| it.new.is_none() && is_one(it.old));
    let mut new = place(&|it| it.old.is_none() && is_one(it.new));
    let mut found = BTreeMap::new();
    let is_same = |from: usize, to: usize| {
        let (Some((was, old)), Some((is, now))) = (changes[from].old, changes[to].new) else { return false };
        old == now && was.is_file() == is.is_file()
    };
    let has_name = |from: usize, to: usize| changes[from].path.file_name() == changes[to].path.file_name();
    new.retain(|to| {
        let all = || gone.iter().copied().filter(|from| is_same(*from, *to));
        let Some(from) = all().find(|from| has_name(*from, *to)).or_else(|| all().next()) else { return true };
        gone.retain(|it| *it != from);
        found.insert(*to, Renamed { from, likeness: 100 });
        false
    });
    if gone.len().saturating_mul(new.len()) > PAIRS_MAX {
        return found;
    }
    let read = |side: Option<(Mode, Oid)>| {
        text(side.filter(|(mode, _)| mode.is_file())).filter(|it| !it.is_empty() && it.len() <= BYTES_MAX)
    };
    let before: Vec<_> = gone.iter().filter_map(|at| Some((*at, read(changes[*at].old)?))).collect();
    let after: Vec<_> = new.iter().filter_map(|at| Some((*at, read(changes[*at].new)?))).collect();
    let mut pairs = Vec::new();
    for (from, old) in &before {
        let lines = counts(old);
        for (to, now) in &after {
            let likeness = likeness(&lines, old.len(), now);
            if likeness >= LIKENESS_MIN {
                pairs.push((likeness, has_name(*from, *to), *from, *to));
            }
        }
    }
    // The most alike come first; among equals, the one with the same name.
    pairs.sort_by_key(|(likeness, has_name, from, to)| (std::cmp::Reverse((*likeness, *has_name)), *from, *to));
    let mut used = Vec::new();
    for (likeness, _, from, to) in pairs {
        if !used.contains(&from) && !found.contains_key(&to) {
            used.push(from);
            found.insert(to, Renamed { from, likeness });
        }
    }
    found
}

fn counts(text: &str) -> HashMap<&str, usize> {
    let mut lines = HashMap::new();
    for line in text.split_inclusive('\n') {
        *lines.entry(line).or_default() += 1;
    }
    lines
}

/// The part of the longer text in percent that both have, line by line in any order.
fn likeness(old: &HashMap<&str, usize>, old_bytes: usize, new: &str) -> usize {
    let longer = old_bytes.max(new.len());
    if old_bytes.min(new.len()) * 100 < longer * LIKENESS_MIN {
        return 0;
    }
    let mut left = old.clone();
    let mut common = 0;
    for line in new.split_inclusive('\n') {
        if let Some(count) = left.get_mut(line).filter(|count| **count > 0) {
            *count -= 1;
            common += line.len();
        }
    }
    common * 100 / longer.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::oid_of;

    #[test]
    fn a_file_that_went_and_a_new_one_like_it_are_one_that_was_renamed() {
        let id = |digit: char| oid_of(&digit.to_string().repeat(40)).expect("an id");
        let side = |digit| Some((Mode::File, id(digit)));
        let change = |path: &str, old, new| Changed { path: path.into(), old, new };
        let text = |side: Option<(Mode, Oid)>| {
            let texts = [('1', "a\nb\nc\nd\n"), ('2', "a\nb\nc\nx\n"), ('3', "p\nq\n"), ('4', "a\nm\nn\no\n")];
            let (_, wanted) = side?;
            texts.iter().find(|(digit, _)| id(*digit) == wanted).map(|(_, text)| (*text).to_owned())
        };
        let changes = [
            change("alike.txt", None, side('2')),
            change("changed.txt", side('1'), side('2')),
            change("deep/moved.txt", None, side('3')),
            change("moved.txt", side('3'), None),
            change("other.txt", None, side('4')),
            change("was.txt", side('1'), None),
        ];
        let found: Vec<(usize, usize, usize)> =
            renames(&changes, &text).into_iter().map(|(to, it)| (to, it.from, it.likeness)).collect();
        assert_eq!(found, [(0, 5, 75), (2, 3, 100)]);
    }
}
