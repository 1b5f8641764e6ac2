//! The shape of rooms inside: no large cycles of files, no crowded folders, no type that is spread over many files.
//!
//! Each list below names the places that break a rule today. A list may only shrink: the rule also fails when a place has
//! improved, so that its number gets lowered.

use std::collections::BTreeMap;

use super::inside::Inside;
use super::source::{code_only, tokens};
use super::{ROOMS, SourceFile, files, hold};

/// Limit on the files of a room that use each other in a cycle, by paths or by methods that one adds to another's type.
const CIRCLE_FILES_MAX: usize = 5;
/// Limit on the files in one folder, not counting tests.
const FOLDER_FILES_MAX: usize = 12;
/// Limit on the files, besides its own, in which a type has `impl` blocks.
const IMPL_FILES_MAX: usize = 2;

/// Rooms with a larger cycle.
const CIRCLES: &[(&str, usize)] = &[];

/// Folders with more files.
const FOLDERS: &[(&str, usize)] = &[];

/// Types that are spread over more files, as `room::Type`.
const SPREAD: &[(&str, usize)] = &[("store::Store", 11)];

/// Compares the counts with a limit and its exceptions.
fn problems(
    places: &BTreeMap<String, Vec<String>>,
    limit: usize,
    exceptions: &[(&str, usize)],
    rule: &str,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, files) in places {
        let (count, list) = (files.len(), files.join(" "));
        let known = exceptions.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
        match known {
            None if count > limit => found.push(format!("{name}: {count} {rule}, {limit} at most: {list}")),
            Some(known) if count > known => found.push(format!("{name}: {count} {rule}, and it had {known}: {list}")),
            Some(known) if count < known => {
                let now = if count > limit { format!("{count}") } else { "no exception".to_owned() };
                found.push(format!("{name}: better than {known}; lower its number to {now}"));
            }
            _ => {}
        }
    }
    let gone = exceptions.iter().filter(|(name, _)| !places.contains_key(*name));
    found.extend(gone.map(|(name, _)| format!("{name} is gone: remove its exception")));
    found
}

#[test]
fn rooms_have_no_large_circle_of_files() {
    let files = files("src");
    let counted = ROOMS.iter().map(|room| (room.name.to_owned(), Inside::of(room.name, &files).largest_circle()));
    hold(
        "files of a room don't use each other in large circles",
        &problems(&counted.collect(), CIRCLE_FILES_MAX, CIRCLES, "files in a circle"),
    );
}

#[test]
fn folders_are_not_crowded() {
    let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files("src").iter().filter(|file| !file.is_tests()) {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or_default();
        folders.entry(folder.to_owned()).or_default().push(name.to_owned());
    }
    hold("a folder with many files is cut by subject", &problems(&folders, FOLDER_FILES_MAX, FOLDERS, "files"));
}

/// The policy isn't the wall, and reads no other language than the shell's.
#[test]
fn the_policy_and_its_shell_stay_small() {
    let lines = |room: &str| -> usize {
        let folder = format!("src/{room}/");
        let own = |file: &&SourceFile| file.path.starts_with(&folder) && !file.path.ends_with("tests.rs");
        let before_tests = |text: &str| text.lines().take_while(|line| *line != "mod tests {").count();
        files("src").iter().filter(own).map(|file| before_tests(&file.text)).sum()
    };
    let (policy, bash) = (lines("policy"), lines("bash"));
    assert!(policy <= 6_000 && bash <= 2_000, "policy has {policy} lines, bash {bash}");
}

#[test]
fn types_are_not_spread_over_files() {
    let files = files("src");
    let mut counted = BTreeMap::new();
    for room in ROOMS {
        let spread = Inside::of(room.name, &files).spread();
        counted.extend(spread.into_iter().map(|(name, files)| (format!("{}::{name}", room.name), files)));
    }
    hold(
        "a type's methods stand beside it",
        &problems(&counted, IMPL_FILES_MAX, SPREAD, "files beside its own have `impl` blocks"),
    );
}

fn source(path: &str, text: &str) -> SourceFile {
    let code = code_only(text);
    SourceFile { path: path.to_owned(), text: text.to_owned(), tokens: tokens(&code), code }
}

#[test]
fn a_circle_is_found_by_paths_and_by_methods() {
    let one =
        source("src/x/mod.rs", "mod a; mod b; mod c; pub use a::A; pub struct Hub; impl Hub { fn own(&self) {} }");
    let a = source("src/x/a.rs", "use super::b::B; pub struct A; impl super::Hub { fn of_a(&self) {} }");
    let b = source("src/x/b.rs", "use super::c; pub struct B; impl super::Hub { fn of_b(&self) {} }");
    // Named as the front page re-exports it, it is a's.
    let c = source("src/x/c.rs", "fn f() -> super::A { super::A }");
    let apart = source("src/x/d.rs", "use super::A;");
    let files = [one, a, b, c, apart];
    let inside = Inside::of("x", &files);
    assert_eq!(inside.largest_circle(), ["src/x/a.rs", "src/x/b.rs", "src/x/c.rs"]);
    assert_eq!(inside.spread()["Hub"], ["src/x/a.rs", "src/x/b.rs"]);
    let by_method = [
        source("src/x/mod.rs", "mod a; mod b; struct Hub;"),
        source("src/x/a.rs", "impl Hub { fn of_a(&self) { self.of_b() } }"),
        source("src/x/b.rs", "impl Hub { fn of_b(&self) { self.of_a() } }"),
    ];
    assert_eq!(Inside::of("x", &by_method).largest_circle(), ["src/x/a.rs", "src/x/b.rs"]);
}

#[test]
fn an_exception_only_shrinks() {
    let places = [("a".to_owned(), vec![String::new(); 7]), ("b".to_owned(), vec![String::new(); 3])].into();
    let count = |exceptions: &[(&str, usize)]| problems(&places, 5, exceptions, "files").len();
    assert_eq!(count(&[("a", 7)]), 0);
    assert_eq!(count(&[]), 1, "above the limit");
    assert_eq!(count(&[("a", 6)]), 1, "it got worse");
    assert_eq!(count(&[("a", 8)]), 1, "it got better");
    assert_eq!(count(&[("a", 7), ("b", 6)]), 1, "it needs no exception");
    assert_eq!(count(&[("a", 7), ("c", 6)]), 1, "it is gone");
}
