//! The constructs that are still open at the end of a text: brackets, strings, comments, blocks of words. An unfinished text is
//! parsed with these closed, so that its lines have the same colours as in the finished text.

use super::Language;

/// Limit on the brackets and blocks that are remembered; deeper ones stay open.
const DEPTH_MAX: usize = 200;

/// Reads a text line by line. It knows only as much of each language as is needed to find open constructs.
#[derive(Clone, Debug)]
pub(super) struct Open {
    language: Language,
    closers: Vec<&'static str>,
    within: Within,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Within {
    Code,
    /// A string or a comment: its end, whether a backslash escapes, whether it ends with its line.
    Span {
        end: String,
        escapes: bool,
        one_line: bool,
    },
    /// A here-document: the line that ends it.
    Document(String),
}

/// The beginning of a string or comment, and its end.
struct Rule(&'static str, &'static str, bool, bool);

const SLASH: Rule = Rule("//", "\n", false, true);
const BLOCK: Rule = Rule("/*", "*/", false, false);
const DOUBLE: Rule = Rule("\"", "\"", true, true);
const SINGLE: Rule = Rule("'", "'", true, true);
const LONG_DOUBLE: Rule = Rule("\"", "\"", true, false);
const TEMPLATE: Rule = Rule("`", "`", true, false);

fn rules(language: Language) -> &'static [Rule] {
    match language {
        Language::Bash => &[Rule("'", "'", false, false), LONG_DOUBLE],
        Language::C | Language::Cpp => &[SLASH, BLOCK, DOUBLE, SINGLE],
        Language::Java => &[SLASH, BLOCK, Rule("\"\"\"", "\"\"\"", true, false), DOUBLE, SINGLE],
        Language::Go => &[SLASH, BLOCK, DOUBLE, SINGLE, Rule("`", "`", false, false)],
        Language::JavaScript | Language::TypeScript | Language::Tsx => &[SLASH, BLOCK, DOUBLE, SINGLE, TEMPLATE],
        Language::Lua => &[
            Rule("--[[", "]]", false, false),
            Rule("--", "\n", false, true),
            Rule("[[", "]]", false, false),
            DOUBLE,
            SINGLE,
        ],
        Language::Python => &[
            Rule("#", "\n", false, true),
            Rule("\"\"\"", "\"\"\"", true, false),
            Rule("'''", "'''", true, false),
            DOUBLE,
            SINGLE,
        ],
        Language::Rust => &[SLASH, BLOCK, Rule("r#\"", "\"#", false, false), LONG_DOUBLE],
    }
}

/// Words that open a block, with the words that close it.
fn blocks(language: Language) -> &'static [(&'static str, &'static str)] {
    match language {
        Language::Bash => &[("if", "fi"), ("do", "done"), ("case", "esac")],
        Language::Lua => &[("function", "end"), ("do", "end"), ("if", "end")],
        _ => &[],
    }
}

impl Open {
    pub(super) fn new(language: Language) -> Self {
        Self { language, closers: Vec::new(), within: Within::Code }
    }

    /// Reads a line without its end.
    pub(super) fn line(&mut self, line: &str) {
        if let Within::Document(end) = &self.within {
            if line.trim_start_matches('\t') == end {
                self.within = Within::Code;
            }
            return;
        }
        let mut document = None;
        let mut rest = line;
        let mut before = ' ';
        while let Some(c) = rest.chars().next() {
            let length = match &self.within {
                Within::Span { end, escapes, .. } => {
                    if *escapes && c == '\\' {
                        1 + rest[1..].chars().next().map_or(0, char::len_utf8)
                    } else if rest.starts_with(end.as_str()) {
                        let length = end.len();
                        self.within = Within::Code;
                        length
                    } else {
                        c.len_utf8()
                    }
                }
                _ => self.code(rest, before, &mut document),
            };
            before = rest[..length].chars().next_back().unwrap_or(before);
            rest = &rest[length..];
        }
        if matches!(self.within, Within::Span { one_line: true, .. }) {
            self.within = Within::Code;
        }
        if let Some(end) = document.filter(|_| self.within == Within::Code) {
            self.within = Within::Document(end);
        }
    }

    /// Reads the construct at the beginning of `rest`; returns its length.
    fn code(&mut self, rest: &str, before: char, document: &mut Option<String>) -> usize {
        let Some(c) = rest.chars().next() else { return 0 };
        if self.language == Language::Bash {
            if c == '#' && before.is_whitespace() {
                return rest.len();
            }
            if c == '\\' {
                return 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            if let Some(after) = rest.strip_prefix("<<").filter(|after| !after.starts_with('<')) {
                let word = after.trim_start_matches(['-', ' ', '\'', '"', '\\']);
                let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
                *document = Some(word[..end].to_owned()).filter(|word| !word.is_empty());
                let quote = usize::from(word[end..].starts_with(['\'', '"']));
                return rest.len() - word.len() + end + quote;
            }
        }
        if self.language == Language::Rust && c == '\'' {
            // A character, not a lifetime: a bracket or quote inside it opens nothing.
            let inner = rest[1..].strip_prefix('\\').unwrap_or(&rest[1..]);
            let inner = &inner[inner.chars().next().map_or(0, char::len_utf8)..];
            return if inner.starts_with('\'') { rest.len() - inner.len() + 1 } else { 1 };
        }
        if let Some(Rule(begin, end, escapes, one_line)) = rules(self.language).iter().find(|it| rest.starts_with(it.0))
        {
            self.within = Within::Span { end: (*end).to_owned(), escapes: *escapes, one_line: *one_line };
            return begin.len();
        }
        match c {
            '(' => self.open(")"),
            '[' => self.open("]"),
            '{' => self.open("}"),
            ')' | ']' | '}' => self.close(c.encode_utf8(&mut [0; 4])),
            _ if c.is_alphanumeric() || c == '_' => {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let word = &rest[..end];
                if let Some((_, closer)) = blocks(self.language).iter().find(|(opener, _)| *opener == word) {
                    self.open(closer);
                } else if blocks(self.language).iter().any(|(_, closer)| *closer == word) {
                    self.close(word);
                }
                return end;
            }
            _ => {}
        }
        c.len_utf8()
    }

    fn open(&mut self, closer: &'static str) {
        if self.closers.len() < DEPTH_MAX {
            self.closers.push(closer);
        }
    }

    /// Closes the matching construct, and unclosed ones within it.
    fn close(&mut self, closer: &str) {
        if let Some(at) = self.closers.iter().rposition(|known| *known == closer) {
            self.closers.truncate(at);
        }
    }

    /// Returns the closing text for everything that is open.
    pub(super) fn end(&self) -> String {
        let mut text = match &self.within {
            Within::Code => String::new(),
            Within::Span { end, .. } => end.clone(),
            Within::Document(end) => end.clone(),
        };
        for closer in self.closers.iter().rev() {
            text.push('\n');
            text.push_str(closer);
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(language: &str, text: &str) -> String {
        let mut open = Open::new(Language::of_name(language).expect("a language"));
        text.lines().for_each(|line| open.line(line));
        open.end().trim_end().to_owned()
    }

    #[test]
    fn open_constructs_are_closed() {
        for (language, text, closers) in [
            ("rust", "fn f(a: [u8; 2]) { g(", "\n)\n}"),
            ("rust", "let c = '{'; let l: &'a str = \"(\n", "\""),
            ("rust", "let c = '\\''; {", "\n}"),
            ("rust", "// {\n/* {", "*/"),
            ("rust", "let s = r#\"a \"b\" {", "\"#"),
            ("c", "char *s = \"{", ""),
            ("python", "def f():\n    \"\"\"doc (\n", "\"\"\""),
            ("python", "x = [ # (", "\n]"),
            ("js", "f(`a ${b", "`\n)"),
            ("bash", "if x; then\n  echo \"a", "\"\nfi"),
            ("bash", "for f in *; do cat <<'EOF'\n{ done", "EOF\ndone"),
            ("bash", "cat <<EOF\nhi\nEOF\ncase x in # (", "\nesac"),
            ("bash", "echo a#b ${#x} $((1", "\n)\n)"),
            ("lua", "local function f() if x then", "\nend\nend"),
            ("lua", "--[[ (", "]]"),
            ("go", "x := `a", "`"),
        ] {
            assert_eq!(end(language, text), closers, "{language}: {text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "\\PC{0,60}", at in 0usize..11) {
            let mut open = Open::new(Language::all().nth(at).expect("a language"));
            text.split(' ').for_each(|line| open.line(line));
            open.end();
        }
    }
}
