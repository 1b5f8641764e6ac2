//! Plain words in comments and names: a doc comment begins with a noun or a verb, a type is a noun, and a function is named for
//! its action or its result.

use super::source::{Token, find_words};
use super::{files, hold};

/// First words of unclear doc comments: the sentence begins before it has named its subject.
const RIDDLES: [&str; 13] =
    ["Has", "How", "Is", "It", "That", "They", "What", "When", "Where", "Whether", "Which", "Who", "Why"];
/// Participles that reveal nothing about a type: a type is a noun of its field.
const PARTICIPLES: [&str; 9] = ["Given", "Gone", "Heard", "Kept", "Made", "Meant", "Said", "Taken", "Told"];
/// Such words as names of functions: a function is named for its action or its result.
const VAGUE: [&str; 7] = ["given", "kept", "made", "said", "stands", "taken", "told"];

#[test]
fn variables_are_named_for_what_they_hold() {
    let mut problems = Vec::new();
    for file in files("src") {
        let found = vague_variables(&file.tokens);
        problems.extend(found.iter().map(|(line, name)| format!("{}:{line}: {name}", file.path)));
    }
    hold("a variable is named for what it holds", &problems);
}

/// Returns the variables that `let` or a closure with one parameter names vaguely, with their lines.
fn vague_variables(tokens: &[Token]) -> Vec<(usize, &'static str)> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let name = match token.text.as_str() {
            "let" if word(at + 1) == "mut" => word(at + 2),
            "let" => word(at + 1),
            "|" if word(at + 2) == "|" => word(at + 1),
            _ => continue,
        };
        // `made` is the loop variable of a builder in too many places to forbid it.
        found.extend(VAGUE.into_iter().filter(|vague| *vague == name && name != "made").map(|it| (token.line, it)));
    }
    found
}

#[test]
fn vague_variables_are_found() {
    let code = "let told = 1; let mut kept = 2; it.map(|said| said); let notice = told; f(taken); x.kept;";
    let tokens = super::source::tokens(code);
    let names: Vec<&str> = vague_variables(&tokens).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["told", "kept", "said"]);
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let mut problems = Vec::new();
    for file in files("src") {
        problems.extend(riddles(&file.text).iter().map(|problem| format!("{}:{problem}", file.path)));
    }
    hold("a doc comment begins with a noun or a verb in the third person", &problems);
}

#[test]
fn types_are_nouns() {
    let mut problems = Vec::new();
    for file in files("src") {
        problems.extend(participles(&file.tokens).iter().map(|name| format!("{}: {name}", file.path)));
    }
    hold("a type's name is a noun", &problems);
}

#[test]
fn functions_are_named_for_what_they_give() {
    let mut problems = Vec::new();
    for file in files("src") {
        let is_there = |name: &&str| !find_words(&file.tokens, &["fn", name]).is_empty();
        problems.extend(VAGUE.into_iter().filter(is_there).map(|name| format!("{}: {name}", file.path)));
    }
    hold("a function's name says what it does or gives", &problems);
}

/// Returns the lines that begin a doc comment with such a word: `line word`.
fn riddles(text: &str) -> Vec<String> {
    first_words(text).filter(|(_, word)| RIDDLES.contains(word)).map(|(line, word)| format!("{line} {word}")).collect()
}

/// Returns the first word of each doc comment, with the number of its line.
fn first_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_inside = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let begins = comment.filter(|_| !is_inside);
        is_inside = comment.is_some();
        Some((number, begins?.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()))
    })
}

/// Returns the types that are named by a participle.
fn participles(tokens: &[Token]) -> Vec<&'static str> {
    let is_type =
        |name: &&str| ["struct", "enum", "trait", "type"].iter().any(|it| !find_words(tokens, &[it, name]).is_empty());
    PARTICIPLES.into_iter().filter(is_type).collect()
}

#[test]
fn riddles_and_participles_are_found() {
    let text =
        "//! What it is.\n\n/// The thing.\n/// What it does.\nstruct Made;\n\n/// Whatever.\nenum Reply { Said }\n";
    assert_eq!(riddles(text), ["1 What"]);
    let code = super::source::code_only(text);
    assert_eq!(participles(&super::source::tokens(&code)), ["Made"]);
}
