//! Faces and stores: a face prints the reports of `ops`. It doesn't query the database, the receipts or the steps itself, so that
//! two faces can't gather the same data in two ways.

use std::collections::BTreeSet;

use super::inside::without_tests;
use super::source::Token;
use super::{SourceFile, files, hold};

/// The rooms that communicate with a person, a program or an editor.
const FACES: &[&str] = &["acp", "cli", "gateway", "repl", "serve"];

/// Files of faces that use the database themselves, each with its reason.
const MAY_USE_STORE: &[(&str, &str)] = &[
    ("src/gateway/homes.rs", "it writes out or erases all that a tenant has in the databases of its projects"),
    ("src/repl/editing/history.rs", "the line editor's history is the database"),
    ("src/repl/editing/writer.rs", "each line is written before it runs, in a thread of its own"),
    ("src/repl/line/hint.rs", "it looks for the rest of a line at each key"),
    ("src/repl/line/search.rs", "it looks for lines at each key"),
    ("src/repl/line/widget.rs", "it looks for lines at each key"),
    ("src/repl/run.rs", "the session reports a problem of the database, and closes it at its end"),
];

/// Functions that open or read data which only `ops` reports on, as the path's last two words.
const OF_OPS: &[(&str, &str)] = &[
    ("app", "policy_rules"),
    ("app", "steps_failure"),
    ("app", "allowed_commands"),
    ("app", "estop"),
    ("receipts", "verify"),
    ("receipts", "tally"),
    ("skills", "filled"),
    ("policy", "judge"),
];

fn words(tokens: &[Token]) -> Vec<&str> {
    tokens.iter().map(|token| token.text.as_str()).collect()
}

/// The names of the database's methods.
fn methods(files: &[SourceFile]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.starts_with("src/store/") && !file.is_tests()) {
        let tokens = without_tests(&file.tokens);
        let words = words(&tokens);
        for at in 0..words.len() {
            if let ["pub", "fn", name, "(", "&", rest @ ..] = &words[at..]
                && matches!(rest, ["self", ..] | ["mut", "self", ..])
            {
                found.insert((*name).to_owned());
            }
        }
    }
    found
}

/// The database methods that code calls: `store.search(…)`, `repl.store().search(…)`, `lock_store().search(…)`.
fn calls<'a>(words: &[&'a str], methods: &BTreeSet<String>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for at in 0..words.len() {
        if !matches!(words[at], "store" | "lock_store") {
            continue;
        }
        let mut rest = &words[at + 1..];
        for step in [&["(", ")"][..], &[".", "lock", "(", ")"][..]] {
            rest = rest.strip_prefix(step).unwrap_or(rest);
        }
        if let [".", name, "(", ..] = rest
            && methods.contains(*name)
        {
            found.push(*name);
        }
    }
    found
}

/// The functions of [`OF_OPS`] that code names, by the room's module or in a separate `use`.
fn named(words: &[&str]) -> Vec<String> {
    let has = |path: &[&str]| words.windows(path.len()).any(|it| it == path);
    let is_named = |room: &str, function: &str| {
        let head = ["crate", "::", room, "::", "{"];
        let has_module = has(&["crate", "::", room, ";"]) || has(&[&head[..], &["self"]].concat());
        let lists = words.windows(head.len()).enumerate().filter(|(_, it)| *it == head);
        let mut lists = lists.map(|(at, _)| words[at..].split(|word| *word == ";").next().unwrap_or_default());
        has(&["crate", "::", room, "::", function])
            || has_module && has(&[room, "::", function])
            || lists.any(|list| list.contains(&function))
    };
    let all = OF_OPS.iter().filter(|(room, function)| is_named(room, function));
    all.map(|(room, function)| format!("{room}::{function}")).collect()
}

#[test]
fn faces_leave_the_stores_to_ops() {
    let files = files("src");
    let methods = methods(&files);
    assert!(methods.contains("search") && methods.contains("turns"), "the database's methods weren't found");
    let mut problems = Vec::new();
    let is_face = |file: &&SourceFile| file.module().is_some_and(|module| FACES.contains(&module[0]));
    for file in files.iter().filter(is_face).filter(|file| !file.is_tests()) {
        let tokens = without_tests(&file.tokens);
        let words = words(&tokens);
        let called = calls(&words, &methods);
        let is_exception = MAY_USE_STORE.iter().any(|(path, _)| *path == file.path);
        match (is_exception, called.is_empty()) {
            (true, true) => problems.push(format!("{} leaves the database alone: remove its exception", file.path)),
            (false, false) => problems.push(format!("{}: {} of the database", file.path, called.join(", "))),
            _ => {}
        }
        problems.extend(named(&words).into_iter().map(|name| format!("{}: {name}", file.path)));
    }
    hold("what a face shows is gathered by a function of `ops`", &problems);
}

#[test]
fn a_use_of_the_database_is_found() {
    let methods = BTreeSet::from(["search".to_owned()]);
    let found = |code: &str| {
        let tokens = super::source::tokens(code);
        calls(&words(&tokens), &methods).len()
    };
    assert_eq!(found("repl.store().search(&it)"), 1);
    assert_eq!(found("let store = runtime.lock_store(); store.search(&it); lock_store().search(&it)"), 2);
    assert_eq!(found("home.store.lock().search(&it)"), 1);
    assert_eq!(found("menu.search(&it); store.lock()"), 0);
    let named = |code: &str| named(&words(&super::source::tokens(code)));
    assert_eq!(named("use crate::app::{Runtime, policy_rules};"), ["app::policy_rules"]);
    assert_eq!(named("use crate::receipts::{self, Check}; receipts::verify(&it)"), ["receipts::verify"]);
    assert!(named("use crate::ops::receipts; use crate::receipts::Verdict; receipts::verify(&it)").is_empty());
}
