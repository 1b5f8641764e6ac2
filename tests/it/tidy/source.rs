//! Reading Rust source without a compiler: code, comments and strings, tokens, functions, imports. Must not know the rules that
//! are checked with it.

use std::ops::Range;

/// Blanks comments and the insides of strings and characters, so that only code is left. No line moves.
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skip_from(&chars, at, code.chars().next_back());
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            // A blank in place of a comment or string separates the tokens around it.
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Returns the end of the comment, string or character that begins at `at`, or `at` itself if none begins.
fn skip_from(chars: &[char], at: usize, before: Option<char>) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied();
    match (chars[at], next(1)) {
        ('/', Some('/')) => (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len()),
        ('/', Some('*')) => end_of_block_comment(chars, at),
        ('"', _) => end_of_string(chars, at),
        ('\'', Some('\\')) => (at + 3..chars.len()).find(|&i| chars[i] == '\'').map_or(chars.len(), |i| i + 1),
        ('\'', Some(_)) if next(2) == Some('\'') => at + 3,
        ('r', Some('"' | '#')) if !before.is_some_and(|c| is_word(c) && !matches!(c, 'b' | 'c')) => {
            end_of_raw_string(chars, at)
        }
        _ => at,
    }
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => {
                (depth, i) = (depth - 1, i + 2);
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

fn end_of_raw_string(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        // `r#name`, a raw identifier.
        return at;
    }
    (open + 1..chars.len())
        .find(|&i| chars[i] == '"' && chars[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes)
        .map_or(chars.len(), |i| i + 1 + hashes)
}

/// Returns whether a text is one name of Rust.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(is_word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A word or a single symbol of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The word or symbol.
    pub text: String,
    /// Its line, counted from 1.
    pub line: usize,
}

/// Splits code into words and symbols; `::` is one token.
pub fn tokens(code: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            found.push(Token { text: rest[..length].to_string(), line: index + 1 });
            rest = rest[length..].trim_start();
        }
    }
    found
}

/// Returns the index after the bracket that closes the one at `open`.
pub fn behind_closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn matches_words(tokens: &[Token], at: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(offset, word)| tokens.get(at + offset).is_some_and(|token| token.text == *word))
}

/// Returns the places at which the words occur in sequence, as indices of the first word.
pub fn find_words(tokens: &[Token], words: &[&str]) -> Vec<usize> {
    (0..tokens.len()).filter(|&at| matches_words(tokens, at, words)).collect()
}

/// The test modules of a file, as ranges of tokens.
pub fn test_modules(tokens: &[Token]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in find_words(tokens, &["#", "[", "cfg", "(", "test", ")", "]"]) {
        let mut next = at + 7;
        while matches_words(tokens, next, &["#", "["]) {
            next = behind_closing(tokens, next + 1);
        }
        if matches_words(tokens, next, &["mod"]) && matches_words(tokens, next + 2, &["{"]) {
            found.push(at..behind_closing(tokens, next + 2));
        }
    }
    found
}

/// Returns the number of a file's lines that aren't in a test module.
pub fn lines_beside_tests(source: &str, tokens: &[Token]) -> usize {
    let in_tests: usize =
        test_modules(tokens).iter().map(|range| tokens[range.end - 1].line + 1 - tokens[range.start].line).sum();
    source.lines().count() - in_tests
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`.
    pub line: usize,
    /// Lines from `fn` to its last bracket.
    pub lines: usize,
}

/// Every function with a body, including nested ones, outside of test modules.
pub fn functions(tokens: &[Token]) -> Vec<Function> {
    let tests = test_modules(tokens);
    let mut found = Vec::new();
    for at in find_words(tokens, &["fn"]) {
        let Some(name) = tokens.get(at + 1).filter(|token| token.text.starts_with(is_word)) else { continue };
        if tests.iter().any(|range| range.contains(&at)) {
            continue;
        }
        // The body's bracket is the first that isn't inside the arguments or an array type.
        let mut next = at + 2;
        while let Some(token) = tokens.get(next) {
            match token.text.as_str() {
                "(" | "[" => next = behind_closing(tokens, next),
                "{" => {
                    let end = behind_closing(tokens, next);
                    let lines = tokens[end - 1].line + 1 - tokens[at].line;
                    found.push(Function { name: name.text.clone(), line: tokens[at].line, lines });
                    break;
                }
                ";" => break,
                _ => next += 1,
            }
        }
    }
    found
}

/// A path as the code names it, from the root of the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The first name below the root (a room), or `*` for the whole root.
    pub room: String,
    /// Its line.
    pub line: usize,
}

/// Every path of the crate that a file names, in `use` and elsewhere. `module` is the file's own path below the root, such as
/// `["shell", "scan"]`; `name` is the crate's name in this file (`crate`, or `reedclaw` in the executable).
pub fn imports(tokens: &[Token], module: &[&str], name: &str) -> Vec<Import> {
    let mut found = Vec::new();
    let mut inner_ends: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        inner_ends.retain(|&end| at < end);
        if matches_words(tokens, at, &["mod"]) && matches_words(tokens, at + 2, &["{"]) {
            inner_ends.push(behind_closing(tokens, at + 2));
        }
        let depth = module.len() + inner_ends.len();
        let starts_path = at == 0 || tokens[at - 1].text != "::";
        let is_root_name = matches_words(tokens, at, &[name, "::"]) || matches_words(tokens, at, &[name, "as"]);
        let line = tokens[at].line;
        if starts_path && is_root_name {
            rooms_after(tokens, at + 1, line, &mut found);
        } else if starts_path && matches_words(tokens, at, &["super", "::"]) {
            let mut climbed = 0;
            while matches_words(tokens, at + 2 * climbed, &["super", "::"]) {
                climbed += 1;
            }
            if climbed >= depth {
                rooms_after(tokens, at + 2 * climbed - 1, line, &mut found);
            }
            at += 2 * climbed - 1;
        }
        at += 1;
    }
    found
}

/// Reads the names after the root of the crate: `::room…`, `::{room…, room…}`, `::*`.
fn rooms_after(tokens: &[Token], separator: usize, line: usize, found: &mut Vec<Import>) {
    let Some(next) = tokens.get(separator + 1).filter(|_| matches_words(tokens, separator, &["::"])) else {
        // `use crate as name`: everything is reachable through it.
        found.push(Import { room: "*".to_string(), line });
        return;
    };
    if next.text != "{" {
        found.push(Import { room: next.text.clone(), line: next.line });
        return;
    }
    let end = behind_closing(tokens, separator + 1);
    let mut at = separator + 2;
    while at + 1 < end {
        found.push(Import { room: tokens[at].text.clone(), line: tokens[at].line });
        // Skips to the comma of this level.
        while at + 1 < end && tokens[at].text != "," {
            at = if tokens[at].text == "{" { behind_closing(tokens, at) } else { at + 1 };
        }
        at += 1;
    }
}

/// The lines of `unsafe` without a comment with the reason directly above. `lines` is the whole source.
pub fn unreasoned_unsafe(source: &str, tokens: &[Token]) -> Vec<usize> {
    let lines: Vec<&str> = source.lines().collect();
    let is_reason = |line: &str| {
        let line = line.trim_start();
        line.starts_with("//") && (line.contains("SAFETY:") || line.contains("# Safety"))
    };
    let mut found = Vec::new();
    for at in find_words(tokens, &["unsafe"]) {
        let line = tokens[at].line;
        // Goes up through the statement that contains it and the comment above that; a blank line or the end of another statement
        // above the code ends the search.
        let mut above = lines[..line - 1].iter().rev().skip_while(|text| {
            let text = text.trim();
            !text.is_empty() && !text.starts_with("//") && !text.ends_with([';', '{', '}'])
        });
        let reasoned =
            above.by_ref().take_while(|text| text.trim_start().starts_with("//")).any(|text| is_reason(text));
        if !reasoned {
            found.push(line);
        }
    }
    found
}
