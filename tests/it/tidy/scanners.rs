//! The scanners of `tidy`, each tested with a source that breaks its rule.

use super::source::{
    Function, Import, code_only, find_words, functions, imports, lines_beside_tests, tokens, unreasoned_unsafe,
};
use super::{SourceFile, banned, import_problems};

fn named(source: &str, module: &[&str]) -> Vec<String> {
    imports(&tokens(&code_only(source)), module, "crate").into_iter().map(|import| import.room).collect()
}

#[test]
fn comments_and_strings_are_no_code() {
    for (source, code) in [
        ("a // b\nc", "a c"),
        ("a /* b /* c */ d */ e", "a e"),
        ("f(\"a\\\"b\") g", "f ( ) g"),
        ("x r\"a\\\" y", "x y"),
        ("x r#\"a\"b\"# y", "x y"),
        ("b'{' '\\'' '\\\\' '}' &'a str", "b & ' a str"),
        ("'\\u{7f}' z", "z"),
        ("r#type bar\"x\"", "r # type bar"),
        ("br##\"}\"#\"##;", "b ;"),
        ("\"one\ntwo\" three", "three"),
    ] {
        let blanked = code_only(source);
        let words: Vec<String> = tokens(&blanked).into_iter().map(|token| token.text).collect();
        assert_eq!(words.join(" "), code, "{source}");
        assert_eq!(blanked.chars().count(), source.chars().count(), "{source}");
        assert_eq!(blanked.lines().count(), source.lines().count(), "{source}");
    }
}

#[test]
fn every_way_to_name_a_room_is_found() {
    for (source, rooms) in [
        ("use crate::store::Db;", vec!["store"]),
        ("pub(crate) use crate::{base::hex, store::{self, Db}, model as m};", vec!["base", "store", "model"]),
        ("fn f() { crate::store::open(); }", vec!["store"]),
        ("let x: Vec<crate::model::Reply> = $crate::app::run();", vec!["model", "app"]),
        ("use super::scan;", vec![]),
        ("use super::super::store::Db;", vec!["store"]),
        ("use super::super::{store, model};", vec!["store", "model"]),
        ("mod tests { use super::super::Scan; use super::super::super::store::Db; }", vec!["store"]),
        ("mod tests { fn f() {} } use super::super::store::Db;", vec!["store"]),
        ("use crate::*;", vec!["*"]),
        ("use crate as whole;", vec!["*"]),
        ("use\n    crate\n    ::\n    store;", vec!["store"]),
        ("// use crate::store;\nlet s = \"crate::store\";", vec![]),
        ("pub(crate) fn f() {}", vec![]),
        ("use other::crate_name;", vec![]),
    ] {
        assert_eq!(named(source, &["shell", "scan"]), rooms, "{source}");
    }
    assert_eq!(named("use super::store::Db;", &["shell"]), ["store"]);
    let import = imports(&tokens("\nuse crate::\n{\n a,\n b};"), &["x"], "crate");
    let expected = [("a", 4), ("b", 5)].map(|(room, line)| Import { room: room.to_string(), line });
    assert_eq!(import, expected);
}

fn file(path: &str, text: &str) -> SourceFile {
    let code = code_only(text);
    let tokens = tokens(&code);
    SourceFile { path: path.to_string(), text: text.to_string(), code, tokens }
}

#[test]
fn a_room_that_looks_up_or_sideways_is_found() {
    for (path, text, wrong) in [
        ("src/shell/mod.rs", "use crate::host::File;", 0),
        ("src/shell/mod.rs", "use crate::store::Db;", 1),
        ("src/shell/scan/mod.rs", "use super::super::model::Reply;", 1),
        ("src/shell/scan/mod.rs", "use super::sys;", 0),
        ("src/route/rules.rs", "fn f() { crate::turn::step() }", 1),
        ("src/base/hex.rs", "use crate::proto::Event;", 1),
        ("src/cellar/mod.rs", "", 1),
        ("src/main.rs", "fn main() { reedclaw::cli::run() }", 0),
        ("src/main.rs", "fn main() { reedclaw::store::open() }", 1),
        ("src/lib.rs", "pub mod base; pub use crate::base::hex;", 1),
    ] {
        assert_eq!(import_problems(&file(path, text)).len(), wrong, "{path}: {text}");
    }
}

#[test]
fn long_functions_are_measured_to_their_last_bracket() {
    let source = "fn a() -> [u8; 3] {\n  let s = \"}\";\n  let c = '}';\n  // }\n  { 1 }\n}\n\
                  trait T { fn b(&self); fn c() {} }\n\
                  fn d<F>(f: fn(u8) -> u8) where F: Fn() {\n}\n\
                  #[cfg(test)]\n#[allow(x)]\nmod tests { fn e() {\n} }\nfn g() {}\n";
    let found = functions(&tokens(&code_only(source)));
    let expected = [("a", 1, 6), ("c", 7, 1), ("d", 8, 2), ("g", 14, 1)];
    assert_eq!(found, expected.map(|(name, line, lines)| Function { name: name.to_string(), line, lines }));
}

#[test]
fn test_modules_don_t_count_as_lines() {
    let source = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
    assert_eq!(lines_beside_tests(source, &tokens(&code_only(source))), 2);
    let source = "fn a() {}\n#[cfg(test)]\nmod tests;\n";
    assert_eq!(lines_beside_tests(source, &tokens(&code_only(source))), 3);
}

#[test]
fn unsafe_without_a_reason_is_found() {
    // `#` replaces the word, so that this file doesn't contain it.
    for (source, lines) in [
        ("// SAFETY: it is open.\n# { f() };", vec![]),
        ("// SAFETY: it is open,\n// and ours.\nlet x =\n    # { f() };", vec![]),
        ("/// Does.\n///\n/// # Safety\n/// Call it once.\npub # fn f() {}", vec![]),
        ("# { f() };", vec![1]),
        ("// SAFETY: it is open.\n\n# { f() };", vec![3]),
        ("// SAFETY: it is open.\n# { f() };\n# { g() };", vec![3]),
        ("// A comment.\n# { f() };", vec![2]),
        ("let safety = \"SAFETY:\";\n# { f() };", vec![2]),
    ] {
        let source = source.replace("# {", "unsafe {").replace("# fn", "unsafe fn");
        assert_eq!(unreasoned_unsafe(&source, &tokens(&code_only(&source))), lines, "{source}");
    }
    assert!(find_words(&tokens(&code_only("#![deny(unsafe_code)] // unsafe")), &["unsafe"]).is_empty());
}

#[test]
fn banned_words_are_found() {
    for (source, count) in [
        ("todo!()", 1),
        ("dbg!(x)", 1),
        ("unimplemented!()", 1),
        ("#[ignore = \"slow\"]", 1),
        ("std::thread::sleep(x)", 1),
        ("use std::thread::{sleep};", 1),
        (concat!("// FIX", "ME later"), 1),
        ("// a todo! in a comment, and \"dbg!\"", 0),
        ("let todo = !x;", 0),
    ] {
        assert_eq!(banned(source, &tokens(&code_only(source))).len(), count, "{source}");
    }
}
