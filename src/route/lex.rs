//! Reads a line into words and operators, finished or not. Owns the one reader that routing, highlighting and completion share;
//! it must not know what a word means, and never fails: text that a shell would refuse is split into tokens too.

/// Reading of an apostrophe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As bash does: every quote opens a string.
    Shell,
    /// As a person does: `don't` and `what's` are words, and a quote that never closes is a letter.
    Prose,
}

/// The kind of a piece of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word with its traits.
    Word(Traits),
    /// `|`, `&&`, `||`, `;`, `&`, `(`, `)` and their like: what follows is a new command.
    Operator,
    /// `>`, `<<`, `2>&` and their like: what follows is a file or a tag.
    Redirect,
    /// The end of a line in a text of several.
    Newline,
    /// `#` to the end of the line.
    Comment,
}

/// The traits of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Holds a quoted string.
    pub quoted: bool,
    /// Holds `$…` or backticks outside single quotes, or is a process substitution.
    pub expansion: bool,
    /// Holds an unquoted `*`, `?` or `[`.
    pub glob: bool,
    /// Holds an apostrophe as English uses it (`Reading::Prose` only).
    pub contraction: bool,
    /// The quote or bracket in which the text ends: `'`, `"`, a backtick, `(` or `{`.
    pub open: Option<char>,
}

/// One piece of a line, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The text as typed, quotes included.
    pub text: &'a str,
    /// Its start, in bytes.
    pub start: usize,
    /// Its kind.
    pub kind: TokenKind,
}

impl Token<'_> {
    /// Its end, in bytes.
    #[must_use]
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// The traits of the token, if it is a word.
    #[must_use]
    pub fn traits(&self) -> Option<Traits> {
        match self.kind {
            TokenKind::Word(traits) => Some(traits),
            _ => None,
        }
    }

    /// Returns whether a new command begins after this token.
    #[must_use]
    pub fn ends_command(&self) -> bool {
        matches!(self.kind, TokenKind::Operator | TokenKind::Newline)
    }
}

/// Splits `text` into tokens. Every byte that is not white space (or an escaped newline) lies in exactly one token.
#[must_use]
pub fn tokens(text: &str, reading: Reading) -> Vec<Token<'_>> {
    let mut out = Vec::with_capacity(8);
    out.extend(pieces(text, reading));
    out
}

/// The tokens of `text` one by one, for a reader that needs only some of them.
#[must_use]
pub fn pieces(text: &str, reading: Reading) -> Pieces<'_> {
    Pieces { text, at: 0, reading }
}

/// The iterator of [`pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    text: &'a str,
    at: usize,
    reading: Reading,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let (text, reading) = (self.text, self.reading);
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            let at = self.at;
            let (kind, end) = match byte {
                b'\n' => (TokenKind::Newline, at + 1),
                byte if byte.is_ascii_whitespace() => {
                    self.at += 1;
                    continue;
                }
                b'\\' if bytes.get(at + 1) == Some(&b'\n') => {
                    self.at += 2;
                    continue;
                }
                b'#' => (TokenKind::Comment, line_end(bytes, at)),
                b'<' | b'>' if bytes.get(at + 1) == Some(&b'(') => word(text, at, reading),
                b'<' | b'>' => (TokenKind::Redirect, redirect_end(bytes, at)),
                b'&' if bytes.get(at + 1) == Some(&b'>') => (TokenKind::Redirect, redirect_end(bytes, at + 1)),
                b'0'..=b'9' if redirect_after_digits(bytes, at).is_some() => {
                    (TokenKind::Redirect, redirect_after_digits(bytes, at).unwrap_or(at + 1))
                }
                b'|' | b'&' | b';' | b'(' | b')' => (TokenKind::Operator, operator_end(bytes, at)),
                _ => word(text, at, reading),
            };
            self.at = end;
            return Some(Token { text: &text[at..end], start: at, kind });
        }
        None
    }
}

/// The word without its quotes and backslashes, as bash would pass it on when nothing expands.
#[must_use]
pub fn unquoted(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut quote = None;
    let mut characters = word.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            ('\\', None) => out.extend(characters.next()),
            ('\\', Some('"')) => match characters.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => out.push(escaped),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            _ => out.push(character),
        }
    }
    out
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |found| at + found)
}

fn redirect_after_digits(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    match bytes.get(at + digits) {
        Some(b'<' | b'>') if bytes.get(at + digits + 1) != Some(&b'(') => Some(redirect_end(bytes, at + digits)),
        _ => None,
    }
}

/// The end of the longest operator that bash knows at `at`, which is at `<` or `>`.
fn redirect_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    for operator in [&b"<<<"[..], b"<<-", b"<<", b"<&", b"<>", b">>", b">&", b">|"] {
        if rest.starts_with(operator) {
            return at + operator.len();
        }
    }
    at + 1
}

fn operator_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    for operator in [&b";;&"[..], b"&&", b"||", b"|&", b";;", b";&"] {
        if rest.starts_with(operator) {
            return at + operator.len();
        }
    }
    at + 1
}

fn word(text: &str, start: usize, reading: Reading) -> (TokenKind, usize) {
    let bytes = text.as_bytes();
    let mut traits = Traits::default();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at = (at + 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8)).min(bytes.len()),
            b'\'' if reading == Reading::Prose && is_contraction(bytes, start, at) => {
                traits.contraction = true;
                at += 1;
            }
            quote @ (b'\'' | b'"') => match string_end(bytes, at, &mut traits) {
                Some(end) => {
                    traits.quoted = true;
                    at = end;
                }
                None if reading == Reading::Prose => at += 1,
                None => {
                    traits.quoted = true;
                    traits.open = Some(char::from(quote));
                    at = bytes.len();
                }
            },
            b'$' if bytes.get(at + 1) == Some(&b'\'') => {
                let end = escaped_end(bytes, at + 1);
                traits.quoted |= end.is_some();
                at = end.unwrap_or(at + 1);
            }
            b'`' | b'$' => {
                traits.expansion = true;
                at = expansion_end(bytes, at, &mut traits, reading);
            }
            b'<' | b'>' if at == start => {
                traits.expansion = true;
                at = bracket_end(bytes, at + 1, &mut traits, reading);
            }
            b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>' => break,
            byte if byte.is_ascii_whitespace() => break,
            byte => {
                traits.glob |= matches!(byte, b'*' | b'?' | b'[');
                at += 1;
            }
        }
    }
    (TokenKind::Word(traits), at)
}

fn is_contraction(bytes: &[u8], start: usize, at: usize) -> bool {
    if at == start || !bytes[at - 1].is_ascii_alphabetic() {
        return false;
    }
    let tail = &bytes[at + 1..];
    let letters = tail.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let follows = tail.get(letters).is_none_or(|byte| byte.is_ascii_whitespace() || b",.?!:;".contains(byte));
    follows && matches!(&tail[..letters], b"s" | b"t" | b"re" | b"ll" | b"ve" | b"d" | b"m")
}

/// The position after the closing quote; none if it never closes. Quotes in a `$(…)` of the string don't end it.
fn string_end(bytes: &[u8], open: usize, traits: &mut Traits) -> Option<usize> {
    if bytes[open] != b'"' {
        return memchr::memchr(bytes[open], &bytes[open + 1..]).map(|length| open + 1 + length + 1);
    }
    // A bracket that never closes says nothing about later ones, and must not be scanned to the end again and again.
    let mut nested = true;
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 1,
            b'$' if nested && bytes.get(at + 1) == Some(&b'(') => {
                traits.expansion = true;
                match substitution_end(bytes, at + 1) {
                    Some(end) => {
                        at = end;
                        continue;
                    }
                    None => nested = false,
                }
            }
            b'$' | b'`' => traits.expansion = true,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position after the bracket that closes the `$(` in a string; `open` is at its bracket. Brackets in nested strings aren't
/// followed.
fn substitution_end(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = open;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at + 1),
            b')' => depth -= 1,
            quote @ (b'\'' | b'"') => at += 1 + memchr::memchr(quote, &bytes[at + 1..])?,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position after the quote that closes the `$'`; `open` is at its quote. A backslash keeps a quote in the string.
fn escaped_end(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\'' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// The end of the expansion at `at`, which is at `$` or a backtick.
fn expansion_end(bytes: &[u8], at: usize, traits: &mut Traits, reading: Reading) -> usize {
    if bytes[at] == b'`' {
        return match memchr::memchr(b'`', &bytes[at + 1..]) {
            Some(length) => at + 1 + length + 1,
            None if reading == Reading::Prose => at + 1,
            None => {
                traits.open = Some('`');
                bytes.len()
            }
        };
    }
    match bytes.get(at + 1) {
        Some(b'(' | b'{') => bracket_end(bytes, at + 1, traits, reading),
        Some(b'?' | b'!' | b'$' | b'#' | b'*' | b'@' | b'-') => at + 2,
        _ => at + 1,
    }
}

/// The position after the bracket that closes the `(` or `{` at `open`; if none does, the end of the text.
fn bracket_end(bytes: &[u8], open: usize, traits: &mut Traits, reading: Reading) -> usize {
    let (opening, closing) = if bytes[open] == b'{' { (b'{', b'}') } else { (b'(', b')') };
    let mut depth = 0_usize;
    let mut at = open;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' | b'"' => match string_end(bytes, at, &mut Traits::default()) {
                Some(end) => {
                    at = end;
                    continue;
                }
                None if reading == Reading::Prose => {}
                None => {
                    traits.open = Some(char::from(bytes[at]));
                    return bytes.len();
                }
            },
            byte if byte == opening => depth += 1,
            byte if byte == closing => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    traits.open = Some(char::from(opening));
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str, reading: Reading) -> Vec<&str> {
        tokens(text, reading).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn pieces_of_a_line() {
        for (line, pieces) in [
            ("ls -la|wc", vec!["ls", "-la", "|", "wc"]),
            ("a&&b||c;d&", vec!["a", "&&", "b", "||", "c", ";", "d", "&"]),
            ("x 2>&1 >>f <<<w &>o", vec!["x", "2>&", "1", ">>", "f", "<<<", "w", "&>", "o"]),
            ("echo \"a b\"'c d'\\ e", vec!["echo", "\"a b\"'c d'\\ e"]),
            ("echo $(ls; (cd x)) ${a:-b c} `id -u`", vec!["echo", "$(ls; (cd x))", "${a:-b c}", "`id -u`"]),
            ("diff <(a b) >(c)", vec!["diff", "<(a b)", ">(c)"]),
            ("ls # all | of it", vec!["ls", "# all | of it"]),
            ("a#b", vec!["a#b"]),
            ("ls \\\n -l\npwd", vec!["ls", "-l", "\n", "pwd"]),
            ("f(){ :;}", vec!["f", "(", ")", "{", ":", ";", "}"]),
            ("a=\"$(b \"c d\" | e \")\")\" f", vec!["a=\"$(b \"c d\" | e \")\")\"", "f"]),
            ("echo \"$(a\" b", vec!["echo", "\"$(a\"", "b"]),
            ("echo $'it\\'s \\n' b", vec!["echo", "$'it\\'s \\n'", "b"]),
        ] {
            assert_eq!(texts(line, Reading::Shell), pieces, "{line:?}");
        }
    }

    #[test]
    fn an_apostrophe_is_a_letter_in_prose_and_a_quote_in_the_shell() {
        assert_eq!(texts("what's up, don't go", Reading::Prose), ["what's", "up,", "don't", "go"]);
        assert_eq!(texts("what's up", Reading::Shell), ["what's up"]);
        let shell = tokens("what's up", Reading::Shell);
        assert_eq!(shell[0].traits().and_then(|traits| traits.open), Some('\''));
    }

    #[test]
    fn quotes_and_backslashes_are_removed() {
        for (word, plain) in [("\\ls", "ls"), ("'a b'\"c\"", "a bc"), ("\"a\\\"b\\n\"", "a\"b\\n"), ("a\\", "a")] {
            assert_eq!(unquoted(word), plain);
        }
    }

    proptest! {
        #[test]
        fn tokens_are_in_order_and_lose_only_white_space(line in "[ -~\\n\\téあ]{0,60}", prose in any::<bool>()) {
            let reading = if prose { Reading::Prose } else { Reading::Shell };
            let mut at = 0;
            for token in tokens(&line, reading) {
                prop_assert!(token.start >= at && token.end() > token.start);
                let between = line[at..token.start].replace("\\\n", "");
                prop_assert!(between.chars().all(|c| c.is_ascii_whitespace()), "{:?}", between);
                prop_assert_eq!(&line[token.start..token.end()], token.text);
                at = token.end();
            }
            prop_assert!(line[at..].replace("\\\n", "").chars().all(|c| c.is_ascii_whitespace()));
        }

        #[test]
        fn unquoting_never_panics(word in any::<String>()) {
            let plain: String = word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
            prop_assert_eq!(unquoted(&plain), plain.clone());
            prop_assert!(unquoted(&word).len() <= word.len());
        }
    }
}
