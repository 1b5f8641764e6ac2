//! Definitions as text, by file, within a number of characters. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::clean;
use super::{Ranked, Source};
use crate::syntax::Definition;

/// Definitions as text, with the number of those left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The text: a path, and below it the definitions, each with its line.
    pub text: String,
    /// The number of definitions in the text.
    pub count: usize,
    /// The number of definitions left out.
    pub left_out: usize,
}

/// Writes the first definitions that fit, by file: files in the order of their best definition, definitions in the order of their
/// lines.
#[must_use]
pub fn map(ranked: &[Ranked<'_>], chars_max: usize) -> Outline {
    let mut files: Vec<&Path> = Vec::new();
    let mut chosen: BTreeMap<&Path, Vec<&Definition>> = BTreeMap::new();
    let (mut chars, mut count) = (0, 0);
    for it in ranked {
        let is_new = !chosen.contains_key(it.path);
        let head = if is_new { clean(&it.path.to_string_lossy()).chars().count() + 1 } else { 0 };
        let length = line(it.definition).chars().count();
        if chars + head + length > chars_max {
            break;
        }
        chars += head + length;
        count += 1;
        if is_new {
            files.push(it.path);
        }
        chosen.entry(it.path).or_default().push(it.definition);
    }
    let mut text = String::new();
    for path in files {
        text.push_str(&clean(&path.to_string_lossy()));
        text.push('\n');
        let mut definitions = chosen.remove(path).unwrap_or_default();
        definitions.sort_by_key(|it| it.lines.0);
        definitions.iter().for_each(|it| text.push_str(&line(it)));
    }
    Outline { text, count, left_out: ranked.len() - count }
}

/// Writes a file's definitions in order, as many as fit.
#[must_use]
pub fn of_file(source: &Source, chars_max: usize) -> Outline {
    let mut outline = Outline { text: format!("{}\n", clean(&source.path.to_string_lossy())), ..Outline::default() };
    let mut chars = outline.text.chars().count();
    for definition in &source.definitions {
        let line = line(definition);
        chars += line.chars().count();
        if chars > chars_max {
            break;
        }
        outline.text.push_str(&line);
        outline.count += 1;
    }
    outline.left_out = source.definitions.len() - outline.count;
    outline
}

fn line(it: &Definition) -> String {
    format!("{}{}: {}\n", "  ".repeat(1 + it.depth.min(4)), it.lines.0, clean(&it.signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Kind;

    fn definition(name: &str, line: usize, depth: usize) -> Definition {
        let signature = format!("fn {name}()");
        Definition { name: name.into(), kind: Kind::Function, lines: (line, line), signature, depth, within: None }
    }

    #[test]
    fn as_many_definitions_as_fit_are_listed_by_file() {
        let (one, two, three) = (definition("one", 9, 0), definition("two", 3, 1), definition("three\u{1b}", 1, 0));
        let of = |path: &'static str, definition| Ranked { path: Path::new(path), definition, weight: 1.0 };
        let ranked = [of("b.rs", &one), of("a.rs", &three), of("b.rs", &two)];
        let all = map(&ranked, 1000);
        assert_eq!(all.text, "b.rs\n    3: fn two()\n  9: fn one()\na.rs\n  1: fn three()\n");
        assert_eq!((all.count, all.left_out), (3, 0));
        let some = map(&ranked, 40);
        assert_eq!(
            (some.text.as_str(), some.count, some.left_out),
            ("b.rs\n  9: fn one()\na.rs\n  1: fn three()\n", 2, 1)
        );
        assert_eq!(map(&ranked, 0), Outline { left_out: 3, ..Outline::default() });
    }
}
