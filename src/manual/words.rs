//! Words of questions and texts: splitting, words without meaning, and synonyms. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Groups of words with one meaning, one group a line.
const SYNONYMS: &str = include_str!("../../config/manual/synonyms.txt");
/// Words that say nothing about the task.
const STOP_WORDS: &str = "a about all am an and any are as be been by can could do does doing every for from get give had \
    has have how i if in into is it its just let like me my need not now of off on one onto or our out please should so \
    some that the their them then there these they this those to under up us use used using want was way we what when \
    where which who why will with without would you your";
/// Longest word that counts, in bytes: longer ones are data.
const WORD_BYTES_MAX: usize = 40;

/// Splits a text into the stems of its words, in order; words without meaning are left out.
#[must_use]
pub(super) fn terms(text: &str) -> Vec<String> {
    words(text).filter(|word| !is_stop_word(word)).map(|word| stem(&word)).collect()
}

/// The stems of all words of a text, in order, whether they have a meaning or not; `what's` counts as `what`.
#[must_use]
pub(super) fn all_terms(text: &str) -> Vec<String> {
    words(text).filter(|word| word != "s").map(|word| stem(&word)).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|it| !it.is_empty() && it.len() <= WORD_BYTES_MAX);
    words.map(str::to_lowercase)
}

/// Stems that mean the same as one, without itself.
pub(super) fn synonyms(term: &str) -> &'static [String] {
    static GROUPS: OnceLock<HashMap<String, Vec<String>>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let mut groups: HashMap<String, Vec<String>> = HashMap::new();
        for line in SYNONYMS.lines().filter(|line| !line.starts_with('#')) {
            let stems: Vec<String> = line.split_whitespace().map(stem).collect();
            for one in &stems {
                let known = groups.entry(one.clone()).or_default();
                known.extend(stems.iter().filter(|other| *other != one).cloned());
                known.sort_unstable();
                known.dedup();
            }
        }
        groups
    });
    groups.get(term).map_or(&[], Vec::as_slice)
}

fn is_stop_word(word: &str) -> bool {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    WORDS.get_or_init(|| STOP_WORDS.split_ascii_whitespace().collect()).contains(word)
}

/// Removes English endings from a word, so that `archives`, `archived` and `archiving` are one.
fn stem(word: &str) -> String {
    const VOWELS: [char; 6] = ['a', 'e', 'i', 'o', 'u', 'y'];
    if word.len() < 4 || !word.is_ascii() || word.contains(|c: char| c.is_ascii_digit()) {
        return word.to_owned();
    }
    let mut stem = word.to_owned();
    let replace = |stem: &mut String, ending: &str, by: &str| {
        let begin = stem.len().wrapping_sub(ending.len());
        let fits = stem.ends_with(ending) && begin >= 3 && stem[..begin].contains(VOWELS);
        if fits {
            stem.truncate(begin);
            stem.push_str(by);
        }
        fits
    };
    let has_y = replace(&mut stem, "ies", "y") || replace(&mut stem, "ied", "y");
    if !has_y && !["ss", "us", "is"].iter().any(|ending| stem.ends_with(ending)) {
        replace(&mut stem, "s", "");
    }
    if replace(&mut stem, "ing", "") || replace(&mut stem, "ed", "") {
        let bytes = stem.as_bytes();
        let is_double = bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
        if is_double && !stem.ends_with(['l', 's', 'z']) {
            stem.pop();
        }
    }
    replace(&mut stem, "e", "");
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_and_small_words_make_no_difference() {
        for (one, other) in [
            ("How do I compress files?", "compressing a file"),
            ("the directories copied", "copy directory"),
            ("resized images", "resize an image"),
            ("running processes", "run process"),
            ("listing certificates", "list certificate"),
        ] {
            let sorted = |text: &str| {
                let mut terms = terms(text);
                terms.sort_unstable();
                terms
            };
            assert_eq!(sorted(one), sorted(other), "{one}");
        }
        assert_eq!(terms("tar.gz of UTF-8"), ["tar", "gz", "utf", "8"]);
    }

    #[test]
    fn a_word_of_a_group_means_the_others() {
        assert!(synonyms(&terms("folder")[0]).contains(&terms("directory")[0]));
        assert!(synonyms("quux").is_empty());
    }
}
