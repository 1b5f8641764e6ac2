//! Colours for a block of code while it arrives: by its grammar if there is one, else strings, comments, numbers and
//! the words that many languages share.
//!
//! Owns the state within a block. Must not know the terminal. With a grammar a line is held until it has ended, else a word;
//! every character comes out once, in order, whatever the colours.

use nu_ansi_term::{Color, Style};

use crate::render::paint::code_style;
use crate::syntax::{Language, Lines};

/// Limit on the bytes of a line that are held for its grammar; from a longer line on, the block is printed without colours.
const LINE_BYTES_MAX: usize = 4 * 1024;

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

/// A language's form of comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `# comment`
    Hash,
    /// `// comment` and `/* comment */`
    Slash,
    /// `-- comment`
    Dash,
    /// The form is unknown.
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
pub(super) enum Code {
    /// By the language's grammar.
    Grammar(Grammar),
    /// By words.
    Words(Words),
}

impl Code {
    /// Begins a block; `info` is the text after its fence. Without colours no text has to be held back.
    pub(super) fn new(info: &str, color: bool) -> Self {
        match Language::of_name(info) {
            Some(language) if color => {
                Self::Grammar(Grammar { lines: Box::new(Lines::new(language)), held: String::new(), is_over: false })
            }
            _ => Self::Words(Words::new(if color { info } else { "" })),
        }
    }

    /// Takes a character of a line; returns those that are decided.
    pub(super) fn push(&mut self, c: char, sink: &mut dyn FnMut(char, Style)) {
        match self {
            Self::Grammar(grammar) => grammar.push(c, sink),
            Self::Words(words) => words.push(c, sink),
        }
    }

    /// Ends a line: its held text is printed.
    pub(super) fn end_line(&mut self, sink: &mut dyn FnMut(char, Style)) {
        match self {
            Self::Grammar(grammar) => grammar.end_line(sink),
            Self::Words(words) => words.end_line(sink),
        }
    }
}

/// A block in a language with a grammar.
pub(super) struct Grammar {
    lines: Box<Lines>,
    held: String,
    /// A line was too long.
    is_over: bool,
}

impl Grammar {
    fn push(&mut self, c: char, sink: &mut dyn FnMut(char, Style)) {
        if self.is_over {
            return sink(c, plain());
        }
        self.held.push(c);
        if self.held.len() > LINE_BYTES_MAX {
            self.is_over = true;
            std::mem::take(&mut self.held).chars().for_each(|c| sink(c, plain()));
        }
    }

    fn end_line(&mut self, sink: &mut dyn FnMut(char, Style)) {
        if self.is_over {
            return;
        }
        let line = std::mem::take(&mut self.held);
        let mut parts = self.lines.push(&line).into_iter().peekable();
        for (at, c) in line.char_indices() {
            while parts.next_if(|(range, _)| range.end <= at).is_some() {}
            let paint = parts.peek().filter(|(range, _)| range.contains(&at)).map(|(_, paint)| *paint);
            sink(c, paint.map_or_else(plain, code_style));
        }
    }
}

/// A block in another language.
#[derive(Clone, Debug)]
pub(super) struct Words {
    family: Family,
    state: State,
    /// A word, or the first character of a comment's mark, that hasn't ended.
    held: String,
    /// The last character before `held`.
    before: char,
}

impl Words {
    fn new(language: &str) -> Self {
        let language = language.split(|c: char| !c.is_alphanumeric() && !"+#-".contains(c)).next().unwrap_or_default();
        let family = match language.to_ascii_lowercase().as_str() {
            "fish" | "ruby" | "rb" | "perl" | "yaml" | "yml" | "toml" | "make" | "makefile" | "dockerfile" | "r"
            | "conf" | "nix" | "awk" => Family::Hash,
            "cs" | "c#" | "csharp" | "kotlin" | "swift" | "php" | "scala" | "dart" | "zig" | "json" | "jsonc"
            | "css" | "scss" => Family::Slash,
            "sql" | "haskell" | "hs" | "ada" | "elm" => Family::Dash,
            _ => Family::Unknown,
        };
        Self { family, state: State::Plain, held: String::new(), before: '\n' }
    }

    fn push(&mut self, c: char, sink: &mut dyn FnMut(char, Style)) {
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

    /// Ends a line: the held text is printed, and no text continues after it.
    fn end_line(&mut self, sink: &mut dyn FnMut(char, Style)) {
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
            ('"' | '`' | '\'', _) => {
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
        let mut code = Words::new(language);
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
            ("fish", "if x; then # no", "kk....kkkk.cccc"),
            ("rb", "a$#b 'if' \"#\"", ".....tttt.ttt"),
            ("toml", "x = 42", "....nn"),
            ("swift", "func f() // x", "kkkk.....cccc"),
            ("php", "a / b /* c\nd */ e", "......cccccccc.."),
            ("sql", "a - b -- c", "......cccc"),
            ("json", "\"a\\\"b\" c", "tttttt.."),
            ("", "if \"x\" # y", ".........."),
            ("rb", "iffy", "...."),
        ] {
            let (shown, found) = colors(language, line);
            assert_eq!(shown, line.replace('\n', ""), "{line}");
            assert_eq!(found, letters, "{language}: {line}");
        }
    }

    #[test]
    fn a_grammar_colours_whole_lines_and_a_long_one_comes_plain() {
        let mut shown = Vec::new();
        let mut code = Code::new("rust", true);
        let mut take = |code: &mut Code, text: &str| {
            text.chars().for_each(|c| code.push(c, &mut |c, style| shown.push((c, style))));
        };
        take(&mut code, "fn f() {");
        let long = "x".repeat(LINE_BYTES_MAX + 10);
        let mut ended = Vec::new();
        code.end_line(&mut |c, style| ended.push((c, style)));
        take(&mut code, &long);
        let text: String = shown.iter().map(|(c, _)| *c).collect();
        assert_eq!((text, ended.len()), (long, 8));
        assert_eq!((ended[0].1, ended[3].1, ended[7].1), (keyword(), Color::Blue.normal(), plain()));
        assert!(shown.iter().all(|(_, style)| *style == plain()));
        assert!(matches!(Code::new("rust", false), Code::Words(_)), "nothing is held if there are no colours");
    }

    proptest! {
        #[test]
        fn every_character_comes_out_once(line in "[a-z0-9 /*'\"#\\\\`-]{0,60}", at in 0usize..4) {
            let language = ["rb", "php", "sql", "none"][at];
            prop_assert_eq!(colors(language, &line).0, line);
        }
    }
}
