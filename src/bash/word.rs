//! Words of bash: quotes, parameters, substitutions. The second half of the reader in `parse`.

use std::rc::Rc;

use super::parse::{Parser, parse};
use super::syntax::{Change, Parameter, Part, Trouble, Word};

/// Limit for the search for the end of an expression, so that many unclosed ones don't take quadratic time.
const BRACKET_BYTES_MAX: usize = 2048;

/// The characters that end a word outside quotes.
const METACHARACTERS: [char; 10] = [' ', '\t', '\n', '\r', ';', '&', '|', '<', '>', '('];

impl Parser<'_> {
    /// Reads a word if one follows.
    pub(super) fn word(&mut self) -> Option<Word> {
        let start = self.at;
        let parts = self.parts(&|c| METACHARACTERS.contains(&c) || c == ')', false);
        (self.at > start).then_some(Word { parts })
    }

    /// Reads parts up to a character that ends them, which stays. `in_double`: inside `"${…}"`, where `'` is a plain
    /// character.
    fn parts(&mut self, ends: &dyn Fn(char) -> bool, in_double: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        while let Some(c) = self.peek() {
            if (c == '<' || c == '>') && self.rest()[1..].starts_with('(') && !in_double {
                flush(&mut plain, &mut parts);
                self.at += 2;
                let script = self.deeper(|parser| {
                    let script = parser.list();
                    parser.end(")");
                    script
                });
                parts.push(Part::Process { script: Rc::new(script), is_output: c == '>' });
                continue;
            }
            // `@(…)`, `!(…)` and the like are patterns.
            if c == '('
                && plain.ends_with(['@', '!', '?', '*', '+'])
                && ends('(')
                && let Some(length) = bracket_end(&self.rest()[1..], '(', ')')
            {
                plain.push_str(&self.rest()[..length + 2]);
                self.at += length + 2;
                continue;
            }
            if ends(c) {
                break;
            }
            match c {
                '\\' => {
                    flush(&mut plain, &mut parts);
                    self.at += 1;
                    match self.bump() {
                        Some('\n') => {}
                        Some(c) => parts.push(Part::Dead(c.to_string())),
                        None => {
                            self.note(true);
                            parts.push(Part::Dead("\\".to_owned()));
                        }
                    }
                }
                '\'' if !in_double => {
                    flush(&mut plain, &mut parts);
                    let text = self.single();
                    parts.push(Part::Dead(text));
                }
                '"' => {
                    flush(&mut plain, &mut parts);
                    self.at += 1;
                    let inner = self.deeper(|parser| parser.double(Some('"')));
                    parts.push(Part::Double(inner));
                }
                '$' | '`' => {
                    flush(&mut plain, &mut parts);
                    match self.dollar(in_double) {
                        Some(part) => parts.push(part),
                        None => plain.push('$'),
                    }
                }
                _ => {
                    plain.push(c);
                    self.bump();
                }
            }
        }
        flush(&mut plain, &mut parts);
        parts
    }

    fn end(&mut self, text: &str) {
        if !self.eat(text) {
            self.wrong(Trouble::Syntax);
        }
    }

    /// Reads `'…'`.
    fn single(&mut self) -> String {
        self.at += 1;
        let rest = self.rest();
        let length = rest.find('\'').unwrap_or_else(|| {
            self.unfinished();
            rest.len()
        });
        self.at = (self.at + length + 1).min(self.text.len());
        rest[..length].to_owned()
    }

    /// Reads the inside of double quotes and the closing quote; all of the text if there is none.
    pub(super) fn double(&mut self, end: Option<char>) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                if end.is_some() {
                    self.wrong(Trouble::Syntax);
                }
                break;
            };
            if Some(c) == end {
                self.at += 1;
                break;
            }
            match c {
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        Some(c @ ('$' | '`' | '\\')) => {
                            text.push(c);
                            self.at += 1;
                        }
                        Some('"') if end.is_some() => {
                            text.push('"');
                            self.at += 1;
                        }
                        _ => text.push('\\'),
                    }
                }
                '$' | '`' => match self.dollar(true) {
                    Some(part) => {
                        if !text.is_empty() {
                            parts.push(Part::Dead(std::mem::take(&mut text)));
                        }
                        parts.push(part);
                    }
                    None => text.push('$'),
                },
                _ => {
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        if !text.is_empty() {
            parts.push(Part::Dead(text));
        }
        parts
    }

    /// Reads an expansion that begins with `$` or a backquote; `None` for a lone `$`, which it skips.
    fn dollar(&mut self, in_double: bool) -> Option<Part> {
        if self.peek() == Some('`') {
            return Some(self.backquoted(in_double));
        }
        self.at += 1;
        match self.peek()? {
            '\'' if !in_double => Some(Part::Dead(self.ansi())),
            '"' if !in_double => {
                self.at += 1;
                Some(Part::Double(self.deeper(|parser| parser.double(Some('"')))))
            }
            '(' => Some(self.parenthesis()),
            '[' => {
                let rest = &self.rest()[1..];
                let Some(length) = bracket_end(rest, '[', ']') else {
                    self.unfinished();
                    return None;
                };
                self.at += length + 2;
                Some(Part::Arithmetic(self.expression(&rest[..length])))
            }
            '{' => {
                self.at += 1;
                self.deeper(|parser| Some(parser.braced(in_double)))
            }
            c @ ('0'..='9' | '@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                self.at += 1;
                Some(parameter(&c.to_string()))
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.name().to_owned();
                Some(parameter(&name))
            }
            _ => None,
        }
    }

    fn name(&mut self) -> &str {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn parenthesis(&mut self) -> Part {
        if self.starts("((")
            && let Some(length) = arithmetic_length(&self.rest()[2..])
        {
            let inner = &self.rest()[2..2 + length];
            self.at += length + 4;
            return Part::Arithmetic(self.expression(inner));
        }
        self.at += 1;
        let script = self.deeper(|parser| {
            let script = parser.list();
            parser.end(")");
            script
        });
        Part::Command(Rc::new(script))
    }

    fn backquoted(&mut self, in_double: bool) -> Part {
        self.at += 1;
        let mut inner = String::new();
        loop {
            match self.peek() {
                None => {
                    self.wrong(Trouble::Syntax);
                    break;
                }
                Some('`') => {
                    self.at += 1;
                    break;
                }
                Some('\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(c @ ('`' | '\\' | '$')) => inner.push(c),
                        Some('"') if in_double => inner.push('"'),
                        Some(c) => {
                            inner.push('\\');
                            inner.push(c);
                        }
                        None => inner.push('\\'),
                    }
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                Some(c) => {
                    inner.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        let (script, trouble) = parse(&inner, self.depth + 1);
        self.adopt(trouble);
        Part::Command(Rc::new(script))
    }

    /// Reads an expression of arithmetic or a subscript as a word, for the substitutions in it.
    pub(super) fn expression(&mut self, inner: &str) -> Word {
        let mut parser = Parser::new(inner, self.depth + 1);
        let parts = parser.double(None);
        self.adopt(parser.trouble);
        Word { parts: vec![Part::Double(parts)] }
    }

    /// Reads `$'…'`.
    fn ansi(&mut self) -> String {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                None => {
                    self.wrong(Trouble::Syntax);
                    return super::escape::unescaped(&self.text[start..], true);
                }
                Some('\'') => {
                    self.at += 1;
                    return super::escape::unescaped(&self.text[start..self.at - 1], true);
                }
                Some('\\') => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                Some(c) => self.at += c.len_utf8(),
            }
        }
    }

    /// Reads `${…}` after its brace.
    fn braced(&mut self, in_double: bool) -> Part {
        let mut found =
            Parameter { name: String::new(), index: None, indirect: false, length: false, change: Change::None };
        let second = self.rest()[self.peek().map_or(0, char::len_utf8)..].chars().next();
        let names = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || "_@*".contains(c));
        if self.peek() == Some('!') && (names(second) || self.starts("!#}")) {
            found.indirect = true;
            self.at += 1;
        } else if self.peek() == Some('#') && (names(second) || matches!(second, Some('?' | '-' | '$' | '!' | '#'))) {
            found.length = true;
            self.at += 1;
        }
        found.name = match self.peek() {
            Some(c) if c.is_ascii_alphanumeric() || c == '_' => self.name().to_owned(),
            Some(c @ ('@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                self.at += 1;
                c.to_string()
            }
            _ => String::new(),
        };
        if self.peek() == Some('[') {
            let rest = &self.rest()[1..];
            match bracket_length(rest) {
                Some(length) => {
                    self.at += length + 2;
                    found.index = Some(self.expression(&rest[..length]));
                }
                None => self.unfinished(),
            }
        }
        if found.name.is_empty() && self.peek().is_some() {
            self.note(false);
        }
        let lists_names = found.indirect && found.index.is_none() && (self.starts("@}") || self.starts("*}"));
        found.change = if lists_names {
            self.at += 1;
            Change::Names
        } else {
            self.change(in_double)
        };
        if !self.eat("}") {
            // Unreadable text is skipped up to the brace.
            found.change = Change::Unknown;
            self.parts(&|c| c == '}', in_double);
            self.end("}");
        }
        if found.name.is_empty() {
            self.wrong(Trouble::Syntax);
        }
        Part::Parameter(Box::new(found))
    }

    fn change(&mut self, in_double: bool) -> Change {
        let until = |parser: &mut Self, ends: &[char]| {
            let ends = ends.to_vec();
            Word { parts: parser.parts(&move |c| ends.contains(&c), false) }
        };
        match self.peek() {
            Some('}') | None => Change::None,
            Some(':') if !matches!(self.rest()[1..].chars().next(), Some('-' | '=' | '+' | '?')) => {
                self.at += 1;
                let offset = until(self, &[':', '}']);
                let length = self.eat(":").then(|| until(self, &['}']));
                Change::Slice { offset, length }
            }
            Some(':' | '-' | '=' | '+' | '?') => {
                let colon = self.eat(":");
                let letter = self.bump().unwrap_or('-');
                Change::Default { letter, colon, word: Word { parts: self.parts(&|c| c == '}', in_double) } }
            }
            Some(sign @ ('#' | '%')) => {
                self.at += 1;
                let longest = self.eat(if sign == '#' { "#" } else { "%" });
                Change::Trim { from_end: sign == '%', longest, pattern: until(self, &['}']) }
            }
            Some('/') => {
                self.at += 1;
                let all = self.eat("/");
                let anchor = self.peek().filter(|c| !all && (*c == '#' || *c == '%'));
                self.at += usize::from(anchor.is_some());
                let pattern = until(self, &['/', '}']);
                let with = if self.eat("/") { until(self, &['}']) } else { Word::default() };
                Change::Replace { all, anchor, pattern, with }
            }
            Some(letter @ ('^' | ',' | '~')) => {
                self.at += 1;
                let all = self.eat(&letter.to_string());
                Change::Case { letter, all, pattern: until(self, &['}']) }
            }
            Some('@') => {
                self.at += 1;
                self.bump().map_or(Change::Unknown, Change::Transform)
            }
            Some(_) => Change::Unknown,
        }
    }
}

fn parameter(name: &str) -> Part {
    Part::Parameter(Box::new(Parameter {
        name: name.to_owned(),
        index: None,
        indirect: false,
        length: false,
        change: Change::None,
    }))
}

fn flush(plain: &mut String, parts: &mut Vec<Part>) {
    if !plain.is_empty() {
        parts.push(Part::Plain(std::mem::take(plain)));
    }
}

/// The text of a word without its quotes, as a here-document's delimiter is read.
pub(crate) fn unquoted(word: &Word) -> String {
    fn add(parts: &[Part], text: &mut String) {
        for part in parts {
            match part {
                Part::Plain(piece) | Part::Dead(piece) => text.push_str(piece),
                Part::Double(inner) => add(inner, text),
                _ => {}
            }
        }
    }
    let mut text = String::new();
    add(&word.parts, &mut text);
    text
}

/// Returns the length up to the `))` that ends an expression; `None` if the brackets are those of a subshell.
pub(super) fn arithmetic_length(text: &str) -> Option<usize> {
    let end = bracket_end(text, '(', ')')?;
    text[end + 1..].starts_with(')').then_some(end)
}

/// The length up to the `]` that ends a subscript.
pub(super) fn bracket_length(text: &str) -> Option<usize> {
    bracket_end(text, '[', ']')
}

/// The characters outside of quotes, with their places; one after a backslash isn't among them.
fn unquoted_chars(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    let mut characters = text.char_indices();
    std::iter::from_fn(move || {
        loop {
            let (at, c) = characters.next()?;
            match (quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('\''), _) => {}
                (_, '\\') => _ = characters.next(),
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(c),
                (None, _) => return Some((at, c)),
            }
        }
    })
}

/// The length up to the bracket that closes one already open, quotes and pairs inside passed over.
fn bracket_end(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in unquoted_chars(text).take_while(|(at, _)| *at <= BRACKET_BYTES_MAX) {
        match (c == open, c == close) {
            (true, _) => depth += 1,
            (_, true) if depth == 0 => return Some(at),
            (_, true) => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The length of the rest of a line, line ends in quotes and substitutions passed over.
pub(super) fn line_length(text: &str) -> Option<usize> {
    let end = unquoted_chars(text).find(|(_, c)| *c == '\n').map(|(at, _)| at);
    // A quote that only the body closes, such as an apostrophe in a comment: the line ends at its own end.
    end.or_else(|| text.find('\n'))
}
