//! The place of each key in a config's source, found by reading it, without running anything. Lua's tables don't record lines; a
//! value that code computes is found at the place that writes out its key, or not at all.
//!
//! It also lists the keys that a file would set, with the source text of their values, before the file is trusted.

use std::collections::BTreeMap;
use std::ops::Range;

/// Deepest table that is read; a setting is three deep.
const DEPTH_MAX: usize = 16;

/// The place of a value in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct Place {
    /// The line of its key, counted from 1.
    pub(in crate::config) line: u32,
    /// The value's source text, in bytes.
    pub(in crate::config) value: Range<usize>,
    /// `true` if the value is a table written out, whose own keys have places.
    pub(in crate::config) is_table: bool,
}

/// The keys that a source writes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::config) struct Places {
    keys: BTreeMap<Vec<String>, Place>,
    /// `true` if the whole source is one table, written out.
    is_complete: bool,
}

impl Places {
    /// Reads a source. Text that isn't Lua has no places.
    pub(in crate::config) fn of(text: &str) -> Self {
        let tokens = tokens(text);
        let mut places = Reader { tokens: &tokens, at: 0, variables: BTreeMap::new() }.chunk();
        places.is_complete &= is_straight(&tokens);
        places
    }

    /// The line of a key.
    pub(in crate::config) fn line(&self, key: &[String]) -> Option<u32> {
        self.keys.get(key).map(|place| place.line)
    }

    /// Each key whose value is not a table of further keys, in the order of the source.
    pub(in crate::config) fn leaves(&self) -> Vec<(&[String], &Place)> {
        let leaf = |(_, place): &(&[String], &Place)| !place.is_table;
        let mut leaves: Vec<_> = self.keys.iter().map(|(key, place)| (&key[..], place)).filter(leaf).collect();
        leaves.sort_by_key(|(_, place)| place.value.start);
        leaves
    }

    /// Returns whether the leaves are all that the source sets, whatever its code does.
    pub(in crate::config) fn is_complete(&self) -> bool {
        self.is_complete
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Text,
    Number,
    Symbol,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    start: usize,
    line: u32,
}

impl Token<'_> {
    fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Name | Kind::Symbol) && self.text == text
    }

    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// The value of a string without unusual escapes.
    fn string(&self) -> Option<String> {
        let inner = self.text.get(1..self.text.len().checked_sub(1)?)?;
        (self.kind == Kind::Text && self.text.starts_with(['"', '\'']) && !inner.contains('\\'))
            .then(|| inner.to_owned())
    }
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// Tables in variables, by the variable's name.
    variables: BTreeMap<String, BTreeMap<Vec<String>, Place>>,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn next_is(&self, ahead: usize, text: &str) -> bool {
        self.peek(ahead).is_some_and(|token| token.is(text))
    }

    /// Reads the top-level statements: assignments to tables, and the `return`.
    fn chunk(mut self) -> Places {
        let mut blocks = 0_usize;
        while let Some(token) = self.peek(0) {
            match token.text {
                _ if token.kind != Kind::Name && token.kind != Kind::Symbol => self.at += 1,
                "function" | "do" | "repeat" => {
                    blocks += 1;
                    self.at += 1;
                }
                "if" if self.starts_statement() => {
                    blocks += 1;
                    self.at += 1;
                }
                "end" | "until" => {
                    blocks = blocks.saturating_sub(1);
                    self.at += 1;
                }
                "return" if blocks == 0 => {
                    self.at += 1;
                    return self.returned();
                }
                _ if token.kind == Kind::Name && blocks == 0 => self.assignment(),
                _ => self.at += 1,
            }
        }
        Places::default()
    }

    /// Returns whether an `if` at this position opens a block; in an expression it has no `end`.
    fn starts_statement(&self) -> bool {
        let Some(before) = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)) else { return true };
        let operator = before.kind == Kind::Symbol && !matches!(before.text, ")" | "]" | "}" | ";" | ">");
        !operator && !matches!(before.text, "return" | "and" | "or" | "not" | "in")
    }

    fn returned(mut self) -> Places {
        let mut keys = BTreeMap::new();
        if self.next_is(0, "{") {
            let is_complete = self.table(&mut Vec::new(), &mut keys) && self.peek(0).is_none_or(|it| it.is(";"));
            return Places { keys, is_complete };
        }
        let variable = self.peek(0).filter(|it| it.kind == Kind::Name && self.peek(1).is_none_or(|it| it.is(";")));
        let keys = variable.and_then(|it| self.variables.remove(it.text)).unwrap_or_default();
        Places { keys, is_complete: false }
    }

    /// Reads `NAME = { … }` and `NAME.a.b = value`, with or without `local`; skips anything else.
    fn assignment(&mut self) {
        let Some(name) = self.peek(0) else { return };
        self.at += 1;
        let mut key = Vec::new();
        let line = name.line;
        loop {
            let part = match (self.peek(0), self.peek(1)) {
                (Some(dot), Some(part)) if dot.is(".") && part.kind == Kind::Name => (part.text.to_owned(), 2),
                (Some(open), Some(part)) if open.is("[") && self.next_is(2, "]") => match part.string() {
                    Some(part) => (part, 3),
                    None => return,
                },
                _ => break,
            };
            key.push(part.0);
            self.at += part.1;
        }
        if !self.next_is(0, "=") || name.is("local") {
            return;
        }
        let known = self.variables.contains_key(name.text);
        if key.is_empty() && self.next_is(1, "{") {
            self.at += 1;
            let mut found = BTreeMap::new();
            self.table(&mut Vec::new(), &mut found);
            self.variables.insert(name.text.to_owned(), found);
        } else if known && !key.is_empty() && key.len() < DEPTH_MAX {
            self.at += 1;
            let mut found = self.variables.remove(name.text).unwrap_or_default();
            found.retain(|have, _| !have.starts_with(&key));
            self.value(&mut key, line, &mut found);
            self.variables.insert(name.text.to_owned(), found);
        } else if known && key.is_empty() {
            self.variables.remove(name.text);
        }
    }

    /// Reads a table that is written out, from its `{`; returns whether all its keys, including those in nested tables, are
    /// plain.
    fn table(&mut self, key: &mut Vec<String>, found: &mut BTreeMap<Vec<String>, Place>) -> bool {
        self.at += 1;
        let mut is_plain = true;
        while let Some(token) = self.peek(0) {
            if token.is("}") {
                self.at += 1;
                return is_plain;
            }
            let entry = self.at;
            let named = match (self.peek(1), self.peek(2), self.peek(3)) {
                (Some(equals), _, _) if token.kind == Kind::Name && equals.is("=") => Some((token.text.to_owned(), 2)),
                (Some(inner), Some(close), Some(equals)) if token.is("[") && close.is("]") && equals.is("=") => {
                    inner.string().map(|name| (name, 4))
                }
                _ => None,
            };
            match named {
                Some((name, length)) if key.len() < DEPTH_MAX => {
                    self.at += length;
                    key.push(name);
                    is_plain &= self.value(key, token.line, found);
                    key.pop();
                }
                _ => {
                    // A list's entry is part of its key's value; `[expression] = value` can be any key.
                    is_plain &= !token.is("[");
                    self.skip_value(false);
                }
            }
            if self.at == entry {
                // An unmatched closing bracket: not Lua.
                return false;
            }
            if self.next_is(0, ",") || self.next_is(0, ";") {
                self.at += 1;
            }
        }
        false
    }

    /// Reads the value of a key. A table is followed, and so is a variable that holds one.
    fn value(&mut self, key: &mut Vec<String>, line: u32, found: &mut BTreeMap<Vec<String>, Place>) -> bool {
        let first = self.at;
        let Some(token) = self.peek(0) else { return false };
        let mut is_plain = true;
        let mut inner = BTreeMap::new();
        if token.is("{") {
            is_plain = self.table(key, &mut inner);
        }
        let after_table = self.at;
        self.skip_value(after_table > first);
        let is_table = after_table > first && after_table == self.at && (!inner.is_empty() || !is_plain);
        if !is_table {
            inner.clear();
            is_plain = true;
        }
        if self.at == first + 1
            && token.kind == Kind::Name
            && let Some(entries) = self.variables.get(token.text)
        {
            // Other uses of the variable can't be followed from here.
            is_plain = false;
            inner.extend(entries.iter().map(|(rest, place)| ([&key[..], &rest[..]].concat(), place.clone())));
        }
        let end = self.tokens[..self.at].last().map_or(token.start, Token::end);
        let is_table = !inner.is_empty() || (is_table && !is_plain);
        found.insert(key.clone(), Place { line, value: token.start..end.max(token.start), is_table });
        found.append(&mut inner);
        is_plain
    }

    /// Skips to the `,`, `;` or closing bracket that ends a value, or, outside of brackets, to the next statement.
    fn skip_value(&mut self, is_begun: bool) {
        let first = self.at;
        let (mut brackets, mut blocks) = (0_usize, 0_usize);
        while let Some(token) = self.peek(0) {
            if brackets == 0 && blocks == 0 && (is_begun || self.at > first) && self.begins_statement() {
                return;
            }
            if matches!(token.kind, Kind::Name | Kind::Symbol) {
                match token.text {
                    "," | ";" if brackets == 0 && blocks == 0 => return,
                    "(" | "[" | "{" => brackets += 1,
                    ")" | "]" | "}" if brackets == 0 => return,
                    ")" | "]" | "}" => brackets -= 1,
                    "function" | "do" | "repeat" => blocks += 1,
                    "if" if blocks > 0 && self.starts_statement() => blocks += 1,
                    "end" | "until" => blocks = blocks.saturating_sub(1),
                    "local" | "return" if brackets == 0 && blocks == 0 => return,
                    _ => {}
                }
            }
            self.at += 1;
        }
    }

    /// Returns whether a statement `NAME =` or `NAME.` follows a complete value.
    fn begins_statement(&self) -> bool {
        let (Some(before), Some(token)) = (self.tokens.get(self.at - 1), self.peek(0)) else { return false };
        let whole = before.kind != Kind::Symbol || matches!(before.text, ")" | "]" | "}");
        let joins = ["and", "or", "not", "then", "else", "elseif", "if"];
        let word = token.kind == Kind::Name && !joins.contains(&token.text);
        whole && word && !joins.contains(&before.text) && token.line > before.line
    }
}

/// Returns whether only the last statement can return: no block precedes it, and no text that may contain code.
fn is_straight(tokens: &[Token<'_>]) -> bool {
    const BLOCKS: [&str; 8] = ["do", "else", "end", "function", "if", "repeat", "then", "until"];
    let last = tokens.iter().position(|token| token.is("return")).unwrap_or(0);
    let has_block = tokens[..last].iter().any(|token| BLOCKS.iter().any(|word| token.is(word)));
    !has_block && tokens.iter().all(|token| !token.text.starts_with('`'))
}

/// Splits a source into tokens, without its comments. Text that isn't Lua becomes single symbols.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut out, mut at, mut line) = (Vec::new(), 0, 1_u32);
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let kind = match byte {
            b'\n' | b' ' | b'\t' | b'\r' | 0x0b | 0x0c => None,
            b'-' if bytes[at..].starts_with(b"--") => {
                at = long_end(bytes, at + 2).unwrap_or_else(|| line_end(bytes, at));
                line += lines_in(&bytes[start..at]);
                continue;
            }
            b'"' | b'\'' | b'`' => {
                at = quoted_end(bytes, at);
                Some(Kind::Text)
            }
            b'[' if long_end(bytes, at).is_some() => {
                at = long_end(bytes, at).unwrap_or(at);
                Some(Kind::Text)
            }
            b'0'..=b'9' => {
                let more = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.');
                at += more.count().max(1);
                Some(Kind::Number)
            }
            _ if byte == b'_' || byte.is_ascii_alphabetic() => {
                at += bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
                Some(Kind::Name)
            }
            // Two-character symbols that must not be mistaken for a lone `=` or `.`.
            _ => {
                const PAIRS: [&[u8]; 12] =
                    [b"==", b"~=", b"<=", b">=", b"..", b"::", b"->", b"+=", b"-=", b"*=", b"/=", b"%="];
                let pair = PAIRS.iter().any(|pair| bytes[at..].starts_with(pair));
                at += if pair { 2 } else { text[at..].chars().next().map_or(1, char::len_utf8) };
                Some(Kind::Symbol)
            }
        };
        match kind {
            Some(kind) => out.push(Token { kind, text: &text[start..at], start, line }),
            None => at += 1,
        }
        line += lines_in(&bytes[start..at]);
    }
    out
}

fn lines_in(bytes: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', bytes).count()).unwrap_or(0)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length)
}

/// The end of a long bracket (`[[ … ]]`, `[==[ … ]==]`) that begins at `at`; `None` if there is none.
fn long_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?.strip_prefix(b"[")?;
    let level = rest.iter().take_while(|byte| **byte == b'=').count();
    if rest.get(level) != Some(&b'[') {
        return None;
    }
    let close = format!("]{}]", "=".repeat(level));
    let body = at + level + 2;
    Some(memchr::memmem::find(&bytes[body..], close.as_bytes()).map_or(bytes.len(), |end| body + end + close.len()))
}

/// The end of a quoted string; an unclosed one ends with its line, except a template, which may contain line ends and
/// expressions.
fn quoted_end(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let (mut at, mut depth) = (at + 1, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            // `\z` skips the white space after it, including line ends.
            b'\\' if bytes.get(at + 1) == Some(&b'z') => {
                let blank = bytes[at + 2..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b);
                at += 1 + blank.count();
            }
            b'\\' if bytes[at + 1..].starts_with(b"\r\n") => at += 2,
            b'\\' => at += 1,
            b'{' if quote == b'`' => depth += 1,
            b'}' if quote == b'`' => depth = depth.saturating_sub(1),
            b'\n' if quote != b'`' => return at,
            byte if byte == quote && depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(text: &str) -> Vec<(String, u32, &str)> {
        let places = Places::of(text);
        let leaves: Vec<_> = places.leaves().into_iter().map(|(key, place)| (key.join("."), place)).collect();
        leaves.into_iter().map(|(key, place)| (key, place.line, &text[place.value.clone()])).collect()
    }

    #[test]
    fn keys_have_the_place_at_which_they_are_written() {
        let text = "-- return { no = 1 }\nlocal home = os.getenv('HOME')\nreturn {\n  prompt = \"shell\",\n  models = {\n    \
                    [\"local\"] = {\n      endpoint = 'http://h', -- x = 1\n      temperature = 0.1,\n    },\n  },\n  \
                    shell = { known_commands = { 'a', 'b' }, capture_output = true }\n}\n";
        assert_eq!(
            seen(text),
            [
                ("prompt".into(), 4, "\"shell\""),
                ("models.local.endpoint".into(), 7, "'http://h'"),
                ("models.local.temperature".into(), 8, "0.1"),
                ("shell.known_commands".into(), 11, "{ 'a', 'b' }"),
                ("shell.capture_output".into(), 11, "true"),
            ]
        );
        let places = Places::of(text);
        assert!(places.is_complete());
        assert_eq!(places.line(&["models".into(), "local".into()]), Some(6));
        assert_eq!(places.line(&["models".into(), "nope".into()]), None);
    }

    #[test]
    fn values_have_their_whole_text() {
        let text = "return {\n  a = if x then 1 else 2,\n  b = function(c)\n    if c then return { d = 1 } end\n  end,\n  \
                    e = f { g = 1 } .. [[\n]] ,\n  h = (1 == 2),\n  ['i'] = `x{ {1}[1] }y`\n}";
        assert_eq!(
            seen(text),
            [
                ("a".into(), 2, "if x then 1 else 2"),
                ("b".into(), 3, "function(c)\n    if c then return { d = 1 } end\n  end"),
                ("e".into(), 6, "f { g = 1 } .. [[\n]]"),
                ("h".into(), 8, "(1 == 2)"),
                ("i".into(), 9, "`x{ {1}[1] }y`"),
            ]
        );
    }

    #[test]
    fn a_config_that_is_put_together_has_its_lines_too() {
        let text = "local M = {}\nlocal models = { a = { endpoint = 'x' } }\nM.models = models\n\
                    M.context = { max_turns = 3 }\nM.context.max_turns = 4\nM[\"prompt\"] = 'shell'\nreturn M\n";
        assert_eq!(
            seen(text),
            [
                ("models.a.endpoint".into(), 2, "'x'"),
                ("context.max_turns".into(), 5, "4"),
                ("prompt".into(), 6, "'shell'")
            ]
        );
        assert!(!Places::of(text).is_complete());
    }

    #[test]
    fn code_that_can_set_anything_is_not_complete() {
        for (text, complete) in [
            ("return { a = 1 }", true),
            ("return { a = f() };", true),
            ("return { shell = { known_commands = { 'a' } } }", true),
            ("return { [f()] = 1 }", false),
            ("return { a = { [f()] = 1 } }", false),
            ("return setmetatable({ a = 1 }, m)", false),
            ("return { a = 1 }, 2", false),
            ("local t = { a = 1 } evil(t) return t", false),
            ("local t = { a = 1 } evil(t) return { b = t }", false),
            ("local home = os.getenv('HOME') return { a = home }", true),
            ("do return { evil = 1 } end return { a = 1 }", false),
            ("if true then return { evil = 1 } end return { a = 1 }", false),
            ("local x = \"\\z\n return { a = 1 } --\"\nreturn { evil = 1 }", true),
            ("local x = \"\\\r\n return { a = 1 } --\"\nreturn { evil = 1 }", true),
            ("local x = `{ '{' }` local y = ` return { a = 1 } --`\nreturn { evil = 1 }", false),
            ("", false),
        ] {
            assert_eq!(Places::of(text).is_complete(), complete, "{text}");
        }
    }

    #[test]
    fn code_in_strings_and_comments_sets_no_key() {
        for text in [
            "local x = \"\\z\n return { a = 1 } --\"\nreturn { evil = 1 }",
            "local x = \"\\\r\n return { a = 1 } --\"\nreturn { evil = 1 }",
            "--[==[ ]] return { a = 1 } ]==]\nreturn { evil = 1 }",
            "local x = [=[ ]] return { a = 1 } ]=]\nreturn { evil = 1 }",
            "return {\x0bevil\x0c= 1 }",
        ] {
            let keys: Vec<String> = seen(text).into_iter().map(|(key, ..)| key).collect();
            assert_eq!(keys, ["evil"], "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "[-a-z{}()\\[\\]=,;'\"`\\\\ \\n.é]{0,120}") {
            let _ = Places::of(&text);
            let _ = Places::of(&format!("return {{{text}"));
        }
    }
}
