//! A line as the router sees it: its words with their shapes and classes, in a table of fixed size. It must not know what a first
//! word resolves to, nor any weight.

use super::lex::{Pieces, Reading, Token, TokenKind, pieces};
use super::words;
use crate::base::text::is_variable;

/// Limit on the words of a line that are examined; a longer line has revealed its kind by then.
pub(super) const WORDS_MAX: usize = 48;
/// Limit on the tokens that are read, including options, which the table doesn't hold.
const PIECES_MAX: usize = 160;

/// The shape of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    #[default]
    Other,
    /// Small ASCII letters.
    Plain,
    Capital,
    Upper,
    /// Letters and digits, `_`.
    Ident,
    Hyphen,
    Number,
    /// Letters beyond ASCII.
    Foreign,
    Contraction,
    Dash,
    Flag,
    Path,
    File,
    Glob,
    Quoted,
    Expansion,
    Url,
    At,
    Assign,
    /// `=` alone.
    Equals,
    Brace,
    /// A word with brackets in it, as in code.
    Code,
    Pipe,
    AndOr,
    Semicolon,
    Open,
    /// A bracket directly after a word: `foo(`.
    Call,
    Close,
    Redirect,
    Newline,
    Comment,
}

impl Shape {
    /// Returns whether this is the shape of a word of letters, as in prose.
    pub(super) fn is_word(self) -> bool {
        matches!(self, Self::Plain | Self::Capital | Self::Upper | Self::Foreign | Self::Contraction | Self::Hyphen)
    }

    /// Returns whether a new command begins after this shape.
    pub(super) fn ends_command(self) -> bool {
        matches!(self, Self::Pipe | Self::AndOr | Self::Semicolon | Self::Newline | Self::Open)
    }

    /// Returns whether this is an operator instead of a word.
    pub(super) fn is_operator(self) -> bool {
        self.ends_command() || matches!(self, Self::Close | Self::Call | Self::Redirect)
    }
}

/// One word or operator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word<'a> {
    /// The text as typed.
    pub text: &'a str,
    /// Its start, in bytes.
    pub start: usize,
    /// The text without sentence punctuation at its end, and without quotes around a single word.
    pub bare: &'a str,
    pub shape: Shape,
    /// Its classes as an English function word.
    pub class: u16,
    /// The punctuation at its end: `,`, `.`, `?`, `!`, `:`; else 0.
    pub end: u8,
    /// The hash of the bare word in small letters.
    pub hash: u32,
    /// `true` if an option precedes it.
    pub after_flag: bool,
}

/// A line's words without its options, which are only counted: so an option can only favour a command.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    words: [Word<'a>; WORDS_MAX],
    len: usize,
    /// Options among the words.
    pub flags: usize,
    /// `true` if an option makes `find` act.
    pub acts: bool,
    /// `true` if the line begins with an option.
    pub flag_first: bool,
    /// `true` if a string or bracket never closes.
    pub open: bool,
}

impl<'a> Line<'a> {
    /// Reads a text.
    pub(super) fn read(text: &'a str) -> Self {
        let mut line =
            Self { words: [Word::default(); WORDS_MAX], len: 0, flags: 0, acts: false, flag_first: false, open: false };
        let source: Pieces<'a> = pieces(text, Reading::Prose);
        let (mut before, mut after_flag) = (usize::MAX, false);
        for token in source.take(PIECES_MAX) {
            let word = Word::of(&token, before == token.start);
            before = token.end();
            line.open |= token.traits().is_some_and(|traits| traits.open.is_some());
            if word.shape == Shape::Flag {
                line.flag_first |= line.len == 0 && line.flags == 0;
                line.flags += 1;
                line.acts |= matches!(word.text, "-delete" | "-exec" | "-execdir" | "-ok" | "-i");
                after_flag = true;
                continue;
            }
            if line.len == WORDS_MAX {
                break;
            }
            line.words[line.len] = Word { after_flag: std::mem::take(&mut after_flag), ..word };
            line.len += 1;
        }
        line.settle_articles();
        line.settle_texts();
        line
    }

    /// The arguments of `echo` after `&&` and the like are text, whatever their shape.
    fn settle_texts(&mut self) {
        let mut says = false;
        for at in 1..self.len {
            let before = self.words[at - 1];
            let word = &mut self.words[at];
            if word.shape.is_operator() {
                says = false;
            } else if before.shape.ends_command() {
                says = words::command(word.text) & words::command::TEXT != 0;
            } else if says && word.end != b',' && word.end != b'?' {
                word.shape = Shape::Quoted;
                word.class = 0;
            }
        }
    }

    /// `a`, `an` and `the` are articles only before a word that could be a noun: in `cp a b` they are names.
    fn settle_articles(&mut self) {
        for at in 0..self.len {
            let noun = |next: &Word<'_>| {
                next.bare.len() > 1
                    && (next.shape.is_word()
                        || matches!(next.shape, Shape::Ident | Shape::File | Shape::Quoted | Shape::Number))
            };
            let follows = self.words[..self.len].get(at + 1).is_some_and(|next| noun(next) && !next.after_flag);
            let word = &mut self.words[at];
            if matches!(word.bare, "a" | "an" | "the" | "A" | "The") && !(follows && word.end == 0) {
                word.class = 0;
            }
        }
    }

    /// The words, without options.
    pub(super) fn words(&self) -> &[Word<'a>] {
        &self.words[..self.len]
    }
}

impl<'a> Word<'a> {
    fn of(token: &Token<'a>, touches: bool) -> Self {
        let text = token.text;
        let mut word = Word { text, start: token.start, bare: text, ..Word::default() };
        word.shape = match token.kind {
            TokenKind::Redirect => Shape::Redirect,
            TokenKind::Newline => Shape::Newline,
            TokenKind::Comment => Shape::Comment,
            TokenKind::Operator => match text {
                "|" | "|&" => Shape::Pipe,
                "&&" | "||" => Shape::AndOr,
                "(" if touches => Shape::Call,
                "(" => Shape::Open,
                ")" => Shape::Close,
                _ => Shape::Semicolon,
            },
            TokenKind::Word(traits) => {
                if traits.quoted
                    && let Some(inner) = quoted_word(text)
                {
                    word.bare = inner;
                }
                word.trim();
                let alone = !traits.quoted && !traits.expansion;
                if traits.contraction && (word.bare == text || alone) {
                    Shape::Contraction
                } else if word.bare == text || !traits.quoted {
                    shape(word.bare, traits.quoted, traits.expansion)
                } else {
                    shape(word.bare, false, false)
                }
            }
        };
        if word.shape.is_word() || matches!(word.shape, Shape::Ident | Shape::Number) {
            word.class = words::function(word.bare);
        }
        if word.shape == Shape::Foreign {
            word.class = words::foreign_function(word.bare);
        }
        if matches!(text, "?" | "!") {
            word.end = text.as_bytes()[0];
        }
        word.hash = hash_lower(word.bare);
        word
    }

    /// Removes sentence punctuation from the end.
    fn trim(&mut self) {
        while let Some(last) = self.bare.chars().next_back() {
            let end = match last {
                ',' | '.' | '?' | '!' | ':' => last as u8,
                '？' => b'?',
                '。' | '…' => b'.',
                '，' | '、' => b',',
                '！' => b'!',
                _ => break,
            };
            let rest = &self.bare[..self.bare.len() - last.len_utf8()];
            if rest.is_empty() || !rest.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '?' | '!' | '.')) {
                break;
            }
            // `cd..`, `s/a/b?`: the punctuation belongs to the shell's syntax.
            if rest.contains(['/', '*', '=', '$', '`']) && last != ',' || rest.bytes().all(|byte| byte == b'.') {
                break;
            }
            self.bare = rest;
            self.end = end;
        }
    }
}

/// The word in `"word"` or `'word'`: quotes around letters change nothing, to a shell or to a reader.
fn quoted_word(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.or_else(|| text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')))?;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ',' | ':' | '/');
    (!inner.is_empty() && inner.chars().all(plain) && !inner.starts_with('-')).then_some(inner)
}

fn shape(word: &str, quoted: bool, expansion: bool) -> Shape {
    let bytes = word.as_bytes();
    let first = bytes.first().copied().unwrap_or(0);
    let has = |wanted: &[u8]| bytes.iter().any(|byte| wanted.contains(byte));
    // A text processor turns `-name` into `–name`.
    if word.strip_prefix(['–', '—']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return Shape::Flag;
    }
    if first == b'-' {
        let option = bytes[1..].iter().find(|byte| **byte != b'-').is_some_and(u8::is_ascii_alphanumeric);
        return if option || word == "--" { Shape::Flag } else { Shape::Dash };
    }
    if is_assignment(word) {
        return Shape::Assign;
    }
    if quoted {
        return Shape::Quoted;
    }
    if expansion {
        let prose = first == b'`' && !word.is_ascii();
        return if prose { Shape::Foreign } else { Shape::Expansion };
    }
    if word.contains("://") {
        return Shape::Url;
    }
    if matches!(word, "?" | "!") {
        return Shape::Other;
    }
    if has(b"*[?") {
        return if word.contains("](") || has(b"(;") { Shape::Code } else { Shape::Glob };
    }
    if word.contains("\\ ") {
        return Shape::Path;
    }
    if is_foreign_text(word) {
        return Shape::Foreign;
    }
    if has(b"/") || first == b'~' {
        return Shape::Path;
    }
    if word == "=" || word == "==" || word == ":=" || word == "=>" || word == "->" {
        return Shape::Equals;
    }
    if has(b"{}") {
        return Shape::Brace;
    }
    if has(b"@") {
        return Shape::At;
    }
    if word.contains("::") || has(b"`\"'\\<>;") {
        return Shape::Code;
    }
    of_letters(word, bytes)
}

/// Returns whether a text is in a script without spaces between words, possibly with its punctuation or Latin words in it; it is
/// not a path or file.
fn is_foreign_text(word: &str) -> bool {
    let ideographs = word
        .chars()
        .filter(|c| matches!(c, '\u{3000}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{ff00}'..='\u{ffef}'))
        .count();
    let path = word.starts_with(['.', '/', '~', '$', '*']) || word.ends_with('/');
    let file = word
        .rsplit_once('.')
        .is_some_and(|(_, end)| end.len() < 7 && end.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let name = word.contains('/') && ideographs < 4;
    ideographs > 0 && !(path || file || name)
}

/// Files with a well-known name instead of an extension.
const FILES: [&str; 8] =
    ["Dockerfile", "Gemfile", "Jenkinsfile", "Justfile", "Makefile", "Procfile", "Rakefile", "Vagrantfile"];

fn of_letters(word: &str, bytes: &[u8]) -> Shape {
    let (mut lower, mut upper, mut digits, mut dots, mut joins, mut hyphens, mut others) = (0, 0, 0, 0, 0, 0, 0);
    for byte in bytes {
        match byte {
            b'a'..=b'z' => lower += 1,
            b'A'..=b'Z' => upper += 1,
            b'0'..=b'9' => digits += 1,
            b'.' => dots += 1,
            b'_' | b'+' | b'=' | b':' | b',' | b'%' | b'#' => joins += 1,
            b'-' => hyphens += 1,
            128.. => {}
            _ => others += 1,
        }
    }
    let letters = lower + upper;
    let foreign = !word.is_ascii();
    let file = dots > 0 && {
        let extension = word.rsplit('.').next().unwrap_or_default();
        (1..=6).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match () {
        () if file && (letters > 0 || foreign) => Shape::File,
        () if FILES.contains(&word) => Shape::File,
        () if foreign && others + joins == 0 => Shape::Foreign,
        () if letters == 0 && digits > 0 && others == 0 => Shape::Number,
        () if others > 0 || letters + digits == 0 => Shape::Other,
        () if digits > 0 || joins > 0 || dots > 0 => Shape::Ident,
        () if hyphens > 0 => Shape::Hyphen,
        () if upper == 0 => Shape::Plain,
        () if lower == 0 && upper > 1 => Shape::Upper,
        () if upper == 1 && bytes[0].is_ascii_uppercase() => Shape::Capital,
        () => Shape::Ident,
    }
}

/// Limit on the bytes of a word that are hashed.
const HASHED_BYTES_MAX: usize = 32;

/// A hash of a word in small letters, the same on every machine because the weights depend on it.
pub(super) fn hash_lower(word: &str) -> u32 {
    let bytes = word.as_bytes();
    let bytes = &bytes[..bytes.len().min(HASHED_BYTES_MAX)];
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193))
}

/// Returns whether a word sets a variable: `X=1`, `a[2]=x`, `PATH+=:/bin`.
pub(super) fn is_assignment(word: &str) -> bool {
    let Some(equals) = word.find('=') else { return false };
    let name = &word[..equals];
    let name = name.strip_suffix('+').unwrap_or(name);
    is_variable(name.find('[').filter(|_| name.ends_with(']')).map_or(name, |open| &name[..open]))
}
