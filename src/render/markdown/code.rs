//! Colours for a block of code while it comes: strings, comments, numbers and the words that many languages share.
//!
//! Owns the state within a block, a character at a time. Must not know the terminal. A word is held until it has ended;
//! every character comes out once, in order, whatever the colours. It reads no grammar: where it is wrong, a colour is.

use nu_ansi_term::{Color, Style};

/// Characters of a word that is held; a longer one is no keyword.
const WORD_CHARS_MAX: usize = 32;

const KEYWORDS: &[&str] = &[
    "and",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "def",
    "default",
    "del",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "fi",
    "finally",
    "fn",
    "for",
    "foreach",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "in",
    "interface",
    "is",
    "lambda",
    "let",
    "local",
    "loop",
    "match",
    "mod",
    "mut",
    "new",
    "not",
    "or",
    "package",
    "pass",
    "private",
    "pub",
    "public",
    "raise",
    "repeat",
    "return",
    "select",
    "self",
    "static",
    "struct",
    "switch",
    "then",
    "this",
    "throw",
    "trait",
    "try",
    "type",
    "until",
    "use",
    "var",
    "where",
    "while",
    "with",
    "yield",
    "SELECT",
    "FROM",
    "WHERE",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "TABLE",
    "INTO",
    "VALUES",
    "JOIN",
    "ON",
    "GROUP",
    "ORDER",
    "BY",
    "LIMIT",
    "AND",
    "OR",
    "NOT",
    "NULL",
    "true",
    "false",
    "null",
    "nil",
    "None",
    "True",
    "False",
];

/// How a language writes its comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `# comment`
    Hash,
    /// `// comment` and `/* comment */`
    Slash,
    /// `-- comment`
    Dash,
    /// Nothing is known of it.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    Text {
        quote: char,
        escaped: bool,
    },
    Comment,
    /// `/* … */`, and whether a star was last.
    Block {
        star: bool,
    },
}

/// The colours of one block.
#[derive(Clone, Debug)]
pub(super) struct Code {
    family: Family,
    /// Whether `'` begins a text; in Rust it may be a lifetime.
    single_quotes: bool,
    state: State,
    /// A word, or the first character of a comment's mark, that hasn't ended.
    held: String,
    /// The last character before `held`.
    before: char,
}

impl Code {
    /// Begins a block; `language` is the word behind its fence.
    pub(super) fn new(language: &str) -> Self {
        let language = language.split(|c: char| !c.is_alphanumeric() && !"+#-".contains(c)).next().unwrap_or_default();
        let family = match language.to_ascii_lowercase().as_str() {
            "sh" | "bash" | "zsh" | "fish" | "shell" | "python" | "py" | "python3" | "ruby" | "rb" | "perl"
            | "yaml" | "yml" | "toml" | "make" | "makefile" | "dockerfile" | "r" | "conf" | "nix" | "awk" => {
                Family::Hash
            }
            "rust" | "rs" | "c" | "cpp" | "c++" | "h" | "hpp" | "cs" | "c#" | "csharp" | "go" | "java" | "kotlin"
            | "swift" | "js" | "javascript" | "jsx" | "ts" | "typescript" | "tsx" | "php" | "scala" | "dart"
            | "zig" | "json" | "jsonc" | "css" | "scss" => Family::Slash,
            "sql" | "lua" | "luau" | "haskell" | "hs" | "ada" | "elm" => Family::Dash,
            _ => Family::Unknown,
        };
        let single_quotes = !matches!(language, "rust" | "rs");
        Self { family, single_quotes, state: State::Plain, held: String::new(), before: '\n' }
    }

    /// Takes a character of a line; gives those that are decided.
    pub(super) fn push(&mut self, c: char, sink: &mut dyn FnMut(char, Style)) {
        if self.family == Family::Unknown {
            return sink(c, plain());
        }
        match self.state {
            State::Comment => sink(c, comment()),
            State::Block { star } => {
                sink(c, comment());
                self.state = if star && c == '/' { State::Plain } else { State::Block { star: c == '*' } };
            }
            State::Text { quote, escaped } => {
                sink(c, text());
                self.state = match c {
                    _ if escaped => State::Text { quote, escaped: false },
                    '\\' => State::Text { quote, escaped: true },
                    _ if c == quote => State::Plain,
                    _ => self.state,
                };
            }
            State::Plain => self.push_plain(c, sink),
        }
    }

    /// Ends a line: what it held comes out, and no text goes on behind it.
    pub(super) fn end_line(&mut self, sink: &mut dyn FnMut(char, Style)) {
        self.release(sink);
        self.before = '\n';
        if !matches!(self.state, State::Block { .. }) {
            self.state = State::Plain;
        }
    }

    fn push_plain(&mut self, c: char, sink: &mut dyn FnMut(char, Style)) {
        let is_word = c.is_alphanumeric() || c == '_';
        let next = match (self.held.as_str(), c, self.family) {
            ("/", '/', _) | ("-", '-', _) => Some(State::Comment),
            ("/", '*', _) => Some(State::Block { star: false }),
            _ => None,
        };
        if let Some(next) = next {
            self.held.push(c);
            std::mem::take(&mut self.held).chars().for_each(|c| sink(c, comment()));
            self.state = next;
            return;
        }
        if is_word && !matches!(self.held.as_str(), "/" | "-") && self.held.len() < WORD_CHARS_MAX {
            self.held.push(c);
            return;
        }
        self.release(sink);
        match (c, self.family) {
            ('#', Family::Hash) if self.before.is_whitespace() => {
                sink(c, comment());
                self.state = State::Comment;
            }
            ('/', Family::Slash) | ('-', Family::Dash) => self.held.push(c),
            ('"' | '`', _) | ('\'', _) if c != '\'' || self.single_quotes => {
                sink(c, text());
                self.state = State::Text { quote: c, escaped: false };
            }
            _ if is_word => self.held.push(c),
            _ => sink(c, plain()),
        }
        self.before = c;
    }

    fn release(&mut self, sink: &mut dyn FnMut(char, Style)) {
        let word = std::mem::take(&mut self.held);
        let style = match word.chars().next() {
            Some('0'..='9') => number(),
            Some(_) if KEYWORDS.contains(&word.as_str()) => keyword(),
            _ => plain(),
        };
        word.chars().for_each(|c| sink(c, style));
        self.before = word.chars().next_back().unwrap_or(self.before);
    }
}

fn plain() -> Style {
    super::code_style()
}

fn keyword() -> Style {
    Style::new().fg(Color::Magenta)
}

fn text() -> Style {
    Style::new().fg(Color::Green)
}

fn number() -> Style {
    Style::new().fg(Color::Yellow)
}

fn comment() -> Style {
    Style::new().dimmed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each character's colour as a letter: `.` plain, k keyword, t text, n number, c comment.
    fn colors(language: &str, line: &str) -> (String, String) {
        let (mut shown, mut letters) = (String::new(), String::new());
        let mut code = Code::new(language);
        let mut sink = |c: char, style: Style| {
            shown.push(c);
            let table = [(plain(), '.'), (keyword(), 'k'), (text(), 't'), (number(), 'n'), (comment(), 'c')];
            letters.extend(table.iter().find(|(known, _)| *known == style).map(|(_, letter)| *letter));
        };
        for (number, line) in line.split('\n').enumerate() {
            if number > 0 {
                code.end_line(&mut sink);
            }
            line.chars().for_each(|c| code.push(c, &mut sink));
        }
        code.end_line(&mut sink);
        (shown, letters)
    }

    #[test]
    fn words_texts_numbers_and_comments_are_seen() {
        for (language, line, letters) in [
            ("sh", "if x; then # no", "kk....kkkk.cccc"),
            ("sh", "a$#b 'if' \"#\"", ".....tttt.ttt"),
            ("python", "x = 42", "....nn"),
            ("rust", "fn f<'a>() // x", "kk.........cccc"),
            ("js", "a / b /* c\nd */ e", "......cccccccc.."),
            ("sql", "a - b -- c", "......cccc"),
            ("js", "\"a\\\"b\" c", "tttttt.."),
            ("", "if \"x\" # y", ".........."),
            ("sh", "iffy", "...."),
        ] {
            let (shown, found) = colors(language, line);
            assert_eq!(shown, line.replace('\n', ""), "{line}");
            assert_eq!(found, letters, "{language}: {line}");
        }
    }

    proptest! {
        #[test]
        fn every_character_comes_out_once(line in "[a-z0-9 /*'\"#\\\\`-]{0,60}", at in 0usize..4) {
            let language = ["sh", "rust", "sql", "none"][at];
            prop_assert_eq!(colors(language, &line).0, line);
        }
    }
}
