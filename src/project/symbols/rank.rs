//! The importance of definitions: a file that important files use is important (PageRank over references), even more if
//! it contains words of the search. Pure.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{Symbols, number};
use crate::syntax::{Definition, Kind};

/// Number of rounds in which weights are passed on; after that they hardly change.
const ROUNDS: usize = 20;
/// The part of a file's weight that it passes on; the rest comes from the search.
const DAMPING: f64 = 0.85;
/// Limit on the files that define a name; beyond it the name is too common: `new`, `main`, `get`.
const DEFINERS_MAX: usize = 12;
/// The weight, relative to any other file, of a file that the words name or that is in use.
const NAMED: f64 = 50.0;

/// The search terms.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    /// Words of a question, or a name.
    pub words: String,
    /// Files that the conversation is about.
    pub files: Vec<PathBuf>,
    /// `true` for only the definitions whose names match the words; otherwise these come first.
    pub only: bool,
    /// The directory or file to search, from the root.
    pub below: PathBuf,
}

/// A definition and its importance.
#[derive(Clone, Copy, Debug)]
pub struct Ranked<'a> {
    /// The file that contains it.
    pub path: &'a Path,
    /// The definition.
    pub definition: &'a Definition,
    /// Its weight: without a search, the sum is about 1.
    pub weight: f64,
}

/// Returns the definitions, the most important first.
#[must_use]
pub fn ranked<'a>(symbols: &'a Symbols, sought: &Sought) -> Vec<Ranked<'a>> {
    let words = words(&sought.words);
    let sources = &symbols.sources;
    let mut definers: HashMap<u32, (f64, Vec<usize>)> = HashMap::new();
    for (at, source) in sources.iter().enumerate() {
        for it in &source.definitions {
            let (_, files) = definers.entry(number(&it.name)).or_insert_with(|| (telling(&it.name), Vec::new()));
            if files.last() != Some(&at) {
                files.push(at);
            }
        }
    }
    let edges = edges(symbols, &definers);
    let wanted: Vec<f64> = sources
        .iter()
        .map(|source| {
            let in_use = sought.files.contains(&source.path) || path_match(&source.path, &words);
            let named = source.definitions.iter().any(|it| name_match(&it.name, &words) >= EXACT);
            if in_use || named { NAMED } else { 1.0 }
        })
        .collect();
    let weights = page_rank(&edges, &wanted);
    let mut of_name: HashMap<(usize, u32), f64> = HashMap::new();
    for (from, out) in edges.iter().enumerate() {
        for edge in out {
            *of_name.entry((edge.to, edge.name)).or_default() += weights[from] * edge.part;
        }
    }
    let mut all = Vec::new();
    for (at, source) in sources.iter().enumerate().filter(|(_, source)| source.path.starts_with(&sought.below)) {
        let is_named = path_match(&source.path, &words);
        let is_test = is_test(&source.path);
        for definition in &source.definitions {
            let meets = name_match(&definition.name, &words);
            if sought.only && meets == 0.0 && !is_named {
                continue;
            }
            let used = of_name.get(&(at, number(&definition.name))).copied().unwrap_or(0.0);
            // A definition without users still counts a little by its file; outer definitions rank before inner ones.
            let rest = weights[at] / (20.0 * (1.0 + source.definitions.len() as f64)) / (1.0 + definition.depth as f64);
            let kind = if definition.kind == Kind::Value { 0.5 } else { 1.0 } * if is_test { 0.1 } else { 1.0 };
            // Definitions whose names match the words come first; their users decide the order among them.
            let weight = ((used + rest) * (1.0 + meets) + meets / EXACT) * kind;
            all.push(Ranked { path: &source.path, definition, weight });
        }
    }
    all.sort_by(|left, right| {
        let place = |it: &Ranked<'a>| (it.path, it.definition.lines.0);
        right.weight.total_cmp(&left.weight).then_with(|| place(left).cmp(&place(right)))
    });
    all
}

/// An edge from a file to another one that defines a name it uses.
struct Edge {
    to: usize,
    name: u32,
    /// Its share of the weight that the file passes on.
    part: f64,
}

fn edges(symbols: &Symbols, definers: &HashMap<u32, (f64, Vec<usize>)>) -> Vec<Vec<Edge>> {
    let of = |(from, source): (usize, &super::Source)| {
        let mut out = Vec::new();
        for (name, count) in &source.references {
            let Some((telling, files)) = definers.get(name).filter(|(_, files)| files.len() <= DEFINERS_MAX) else {
                continue;
            };
            // Uses of a file's own names count for the file itself a little: a file that uses only itself passes nothing on.
            let part = telling * f64::from(*count).sqrt() / files.len() as f64;
            out.extend(files.iter().map(|&to| Edge {
                to,
                name: *name,
                part: if to == from { part * 0.1 } else { part },
            }));
        }
        let all: f64 = out.iter().map(|edge: &Edge| edge.part).sum();
        out.iter_mut().for_each(|edge| edge.part /= all.max(f64::MIN_POSITIVE));
        out
    };
    symbols.sources.iter().enumerate().map(of).collect()
}

/// The confidence that a use of a name means this definition: low for common names such as `map`, `get` and `first`, high for
/// `read_config`.
fn telling(name: &str) -> f64 {
    match parts(name).len() {
        _ if name.len() < 4 => 0.1,
        1 if !name.starts_with(char::is_uppercase) => 0.05,
        1 => 1.0,
        _ => 3.0,
    }
}

/// Returns whether a file contains tests: they use everything, and nothing uses them.
fn is_test(path: &Path) -> bool {
    path.iter().any(|part| {
        let part = part.to_string_lossy();
        let stem = part.split('.').next().unwrap_or_default();
        matches!(stem, "test" | "tests" | "__tests__" | "spec")
            || stem.starts_with("test_")
            || stem.ends_with("_test")
            || part.contains(".test.")
            || part.contains(".spec.")
    })
}

/// Passes weights on along the edges until they are stable.
fn page_rank(edges: &[Vec<Edge>], wanted: &[f64]) -> Vec<f64> {
    let sum: f64 = wanted.iter().sum();
    let wanted: Vec<f64> = wanted.iter().map(|weight| weight / sum.max(f64::MIN_POSITIVE)).collect();
    let mut weights = wanted.clone();
    for _ in 0..ROUNDS {
        let mut next = vec![0.0; weights.len()];
        let mut lost = 0.0;
        for (from, out) in edges.iter().enumerate() {
            if out.is_empty() {
                lost += weights[from];
            }
            out.iter().for_each(|edge| next[edge.to] += DAMPING * weights[from] * edge.part);
        }
        let rest = 1.0 - DAMPING + DAMPING * lost;
        next.iter_mut().zip(&wanted).for_each(|(weight, wanted)| *weight += rest * wanted);
        weights = next;
    }
    weights
}

/// The score of a name that equals one of the words.
const EXACT: f64 = 30.0;

/// The similarity of words and a name; 0 is none.
fn name_match(name: &str, words: &[Word]) -> f64 {
    if words.is_empty() {
        return 0.0;
    }
    let lower = name.to_lowercase();
    let parts: HashSet<String> = parts(name);
    let one = |word: &Word| match () {
        () if word.whole == name => EXACT * 2.0,
        () if word.lower == lower => EXACT,
        () if words.len() == 1 && lower.starts_with(&word.lower) => 8.0,
        () if parts.iter().any(|part| is_same(part, &word.lower)) => 5.0,
        () if word.lower.len() >= 4 && lower.contains(&word.lower) => 2.0,
        () => 0.0,
    };
    // Two different words in one name count more than one word twice.
    words.iter().map(one).sum::<f64>().powf(1.5)
}

/// Returns whether two words differ only in their endings: `block`, `blocks`.
fn is_same(left: &str, right: &str) -> bool {
    let (short, long) = if left.len() < right.len() { (left, right) } else { (right, left) };
    left == right || (short.len() >= 4 && long.starts_with(short) && long.len() - short.len() <= 2)
}

/// Returns whether words name a file: its path, its name, or its name without the extension.
fn path_match(path: &Path, words: &[Word]) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    words.iter().any(|word| {
        (word.lower.len() > 3 && word.lower == stem.to_lowercase())
            || (word.whole.contains(['.', '/']) && (word.whole == name || path.ends_with(&word.whole)))
    })
}

struct Word {
    whole: String,
    lower: String,
}

/// Words of everyday speech, which name nothing in a source.
const EVERYDAY: &[&str] = &[
    "all", "and", "any", "are", "can", "code", "does", "file", "files", "find", "for", "from", "function", "get",
    "has", "have", "how", "into", "make", "new", "not", "project", "set", "show", "that", "the", "this", "use", "used",
    "was", "what", "when", "where", "which", "who", "why", "with", "you",
];

fn words(text: &str) -> Vec<Word> {
    let is_of_word = |c: char| c.is_alphanumeric() || "_./-".contains(c);
    let pieces = text.split(|c: char| !is_of_word(c)).map(|piece| piece.trim_matches(['.', '/', '-']));
    let mut all: Vec<Word> = Vec::new();
    let alone = text.split_whitespace().count() == 1;
    for piece in pieces {
        // A path as a whole, and each name in it.
        for whole in std::iter::once(piece).chain(piece.split(['.', '/', '-']).filter(|part| *part != piece)) {
            let lower = whole.to_lowercase();
            let is_told = alone || !EVERYDAY.contains(&lower.as_str());
            if whole.len() >= (if alone { 1 } else { 3 }) && is_told && !all.iter().any(|word| word.whole == whole) {
                all.push(Word { whole: whole.to_owned(), lower });
            }
        }
    }
    all
}

/// The words in a name: `readFile`, `read_file`, `HTTPServer`.
fn parts(name: &str) -> HashSet<String> {
    let mut parts = HashSet::new();
    let mut part = String::new();
    let mut before = '_';
    let chars: Vec<char> = name.chars().collect();
    for (at, &c) in chars.iter().enumerate() {
        let after = chars.get(at + 1).copied().unwrap_or('_');
        let begins = !c.is_alphanumeric()
            || (c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && after.is_lowercase())));
        if begins && !part.is_empty() {
            parts.insert(std::mem::take(&mut part));
        }
        if c.is_alphanumeric() {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    if !part.is_empty() {
        parts.insert(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Stamp};
    use super::*;

    pub(super) fn repository(files: &[(&str, &[&str], &[&str])]) -> Symbols {
        let definition = |(at, name): (usize, &&str)| Definition {
            name: (*name).to_owned(),
            kind: Kind::Function,
            lines: (at + 1, at + 1),
            signature: format!("fn {name}()"),
            depth: 0,
            within: None,
        };
        let source = |(path, defined, used): &(&str, &[&str], &[&str])| Source {
            path: path.into(),
            stamp: Stamp { time_ns: 0, bytes: 0, inode: 0 },
            definitions: defined.iter().enumerate().map(definition).collect(),
            references: used.iter().map(|name| (number(name), 1)).collect(),
        };
        Symbols { sources: files.iter().map(source).collect(), left_out: 0, is_stopped: false }
    }

    fn names(symbols: &Symbols, sought: &Sought) -> Vec<String> {
        ranked(symbols, sought).iter().map(|it| it.definition.name.clone()).collect()
    }

    #[test]
    fn sought_definitions_rank_first_then_those_with_many_users() {
        let symbols = repository(&[
            ("core.rs", &["central", "unused"], &[]),
            ("a.rs", &["first"], &["central"]),
            ("b.rs", &["second"], &["central", "first"]),
            ("c.rs", &["read_config"], &["central"]),
        ]);
        let all = Sought::default();
        assert_eq!(names(&symbols, &all)[0], "central");
        assert_eq!(names(&symbols, &all).len(), 5);
        let question = Sought { words: "where is read_config called?".into(), ..Sought::default() };
        assert_eq!(names(&symbols, &question)[..2], ["read_config", "central"]);
        let file = Sought { files: vec!["b.rs".into()], ..Sought::default() };
        let place = |sought: &Sought, name: &str| names(&symbols, sought).iter().position(|it| it == name);
        assert!(place(&file, "first") < place(&all, "first").max(Some(2)), "what a file in use names comes up");
        let only = Sought { words: "config".into(), only: true, ..Sought::default() };
        assert_eq!(names(&symbols, &only), ["read_config"]);
        let below = Sought { below: "b.rs".into(), ..Sought::default() };
        assert_eq!(names(&symbols, &below), ["second"]);
        assert!(ranked(&Symbols::default(), &all).is_empty());
    }

    #[test]
    fn everybodys_names_and_tests_count_little() {
        let symbols = repository(&[
            ("a.rs", &["map", "load_rules"], &[]),
            ("b.rs", &["b_one"], &["map", "load_rules"]),
            ("c.rs", &["c_one"], &["map", "load_rules"]),
            ("tests/t.rs", &["t_one"], &["load_rules"]),
        ]);
        let names = names(&symbols, &Sought::default());
        assert_eq!((names[0].as_str(), names.last().map(String::as_str)), ("load_rules", Some("t_one")));
        for (path, of_tests) in [
            ("src/tests/a.rs", true),
            ("a_test.go", true),
            ("x.spec.ts", true),
            ("test_a.py", true),
            ("src/attest.rs", false),
            ("latest/a.rs", false),
        ] {
            assert_eq!(is_test(Path::new(path)), of_tests, "{path}");
        }
    }

    #[test]
    fn words_meet_names() {
        let meets = |name: &str, text: &str| name_match(name, &words(text));
        let mut before = f64::MAX;
        for text in ["readFile", "READFILE", "readF", "file", "dfil", "x"] {
            let now = meets("readFile", text);
            assert!(now < before, "{text}: {now}");
            before = now;
        }
        assert_eq!(before, 0.0);
        assert!(meets("draw_code_blocks", "draw blocks of code") > 2.0 * meets("draw_line", "draw blocks of code"));
        assert_eq!(parts("HTTPServer_v2"), ["http", "server", "v2"].map(str::to_owned).into());
        assert!(path_match(Path::new("src/app/mod.rs"), &words("what is in app/mod.rs?")));
        assert!(path_match(Path::new("src/ranking.rs"), &words("explain ranking")));
        assert!(!path_match(Path::new("src/app/mod.rs"), &words("what is this?")));
    }
}
