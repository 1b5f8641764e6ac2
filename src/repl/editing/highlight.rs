//! reedline's highlighter: a command line in colours while it is typed, an unknown command red before Enter. It must
//! not know the terminal; it returns styled pieces whose texts joined are the line. A sentence stays plain.

use nu_ansi_term::{Color, Style};

use crate::base::text::is_variable;
use crate::proto::{NameKind, Route, RouteVerdict};
use crate::repl::editing::state::{self, EditorState};
use crate::route::lex::{Reading, Token, TokenKind, tokens, unquoted};

/// A longer line is drawn plain: colours don't help there, and each key redraws all of it.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// Limit on the words that are looked up on disk for each redraw; a look costs microseconds, and milliseconds over a network.
const PATH_LOOKS_MAX: usize = 8;

/// The colours of a command line.
#[derive(Clone, Debug)]
pub struct Palette {
    /// A program that is found.
    pub command: Style,
    /// An alias or function.
    pub own: Style,
    /// A builtin.
    pub builtin: Style,
    /// A reserved word.
    pub keyword: Style,
    /// An unknown command.
    pub unknown: Style,
    /// A quoted string.
    pub string: Style,
    /// `$name`, `$(…)` and assignments.
    pub variable: Style,
    /// Operators and redirections.
    pub operator: Style,
    /// `-x`, `--long`.
    pub option: Style,
    /// A comment.
    pub comment: Style,
    /// `:word` and the forcing prefixes.
    pub meta: Style,
}

impl Default for Palette {
    fn default() -> Self {
        Self {
            command: Color::Green.normal(),
            own: Color::Green.bold(),
            builtin: Color::Cyan.normal(),
            keyword: Color::Purple.bold(),
            unknown: Color::Red.normal(),
            string: Color::Yellow.normal(),
            variable: Color::Cyan.normal(),
            operator: Color::Blue.normal(),
            option: Color::Blue.normal(),
            comment: Color::DarkGray.normal(),
            meta: Color::Purple.normal(),
        }
    }
}

/// Splits `line`, whose verdict is `verdict`, into styled pieces, in order and without loss.
#[must_use]
pub fn paint<'a>(
    line: &'a str,
    verdict: &RouteVerdict,
    state: &EditorState,
    palette: &Palette,
) -> Vec<(Style, &'a str)> {
    if line.len() > LINE_BYTES_MAX {
        return vec![(Style::new(), line)];
    }
    match verdict.route {
        Route::Empty | Route::Ask => vec![(Style::new(), line)],
        Route::Meta => {
            let start = line.len() - line.trim_start().len();
            let end = line[start..].find(char::is_whitespace).map_or(line.len(), |length| start + length);
            let mut brush = Brush { line, at: 0, out: Vec::new() };
            brush.put(start, end, palette.meta);
            brush.finish()
        }
        Route::Shell | Route::Confirm => {
            let start = state::shell_text_start(line, verdict);
            let mut brush = Brush { line, at: 0, out: Vec::with_capacity(16) };
            if start > 0 {
                brush.put(0, start, palette.meta);
            }
            Walk { state, palette, looks_left: PATH_LOOKS_MAX, case_depth: 0 }.shell(&mut brush, start);
            brush.finish()
        }
    }
}

/// Collects pieces; text between them that has no style is plain.
struct Brush<'a> {
    line: &'a str,
    at: usize,
    out: Vec<(Style, &'a str)>,
}

impl<'a> Brush<'a> {
    fn put(&mut self, start: usize, end: usize, style: Style) {
        if end <= start {
            return;
        }
        if start > self.at {
            self.out.push((Style::new(), &self.line[self.at..start]));
        }
        self.out.push((style, &self.line[start..end]));
        self.at = end;
    }

    fn finish(mut self) -> Vec<(Style, &'a str)> {
        if self.at < self.line.len() {
            self.out.push((Style::new(), &self.line[self.at..]));
        }
        self.out
    }
}

struct Walk<'a> {
    state: &'a EditorState,
    palette: &'a Palette,
    looks_left: usize,
    case_depth: usize,
}

/// The kind of word that is expected next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Command,
    Argument,
    File,
}

impl Walk<'_> {
    fn shell(&mut self, brush: &mut Brush<'_>, start: usize) {
        let line = brush.line;
        let mut expect = Expect::Command;
        for token in tokens(&line[start..], Reading::Shell) {
            let (from, to) = (start + token.start, start + token.end());
            match token.kind {
                TokenKind::Comment => brush.put(from, to, self.palette.comment),
                TokenKind::Newline => expect = Expect::Command,
                TokenKind::Operator => {
                    brush.put(from, to, self.palette.operator);
                    expect = Expect::Command;
                }
                TokenKind::Redirect => {
                    brush.put(from, to, self.palette.operator);
                    // After a redirection in front of a command the command is still to come; seldom, so drawn plain.
                    expect = Expect::File;
                }
                TokenKind::Word(_) => expect = self.word(brush, &token, from, expect),
            }
        }
    }

    fn word(&mut self, brush: &mut Brush<'_>, token: &Token<'_>, from: usize, expect: Expect) -> Expect {
        if expect != Expect::Command {
            let base = self.argument_style(token);
            self.inside(brush, token.text, from, base);
            return Expect::Argument;
        }
        if let Some(equals) = token.text.find('=').filter(|&equals| is_name(&token.text[..equals])) {
            brush.put(from, from + equals + 1, self.palette.variable);
            self.inside(brush, &token.text[equals + 1..], from + equals + 1, Style::new());
            return Expect::Command;
        }
        if token.text.starts_with('-') {
            // An option of `sudo` or its like: the command is still to come.
            brush.put(from, from + token.text.len(), self.palette.option);
            return Expect::Command;
        }
        let word = unquoted(token.text);
        let kind = self.state.names.kind(&word);
        let style = self.command_style(token, &word, kind);
        match style {
            Some(style) => brush.put(from, from + token.text.len(), style),
            None => self.inside(brush, token.text, from, Style::new()),
        }
        match word.as_str() {
            "case" if kind == Some(NameKind::Keyword) => self.case_depth += 1,
            "esac" => self.case_depth = self.case_depth.saturating_sub(1),
            _ => {}
        }
        let another = match kind {
            Some(NameKind::Keyword) => !matches!(word.as_str(), "for" | "case" | "select" | "function" | "in" | "[["),
            _ => matches!(word.as_str(), "sudo" | "doas" | "nohup" | "command" | "exec" | "builtin" | "env" | "nice"),
        };
        if another { Expect::Command } else { Expect::Argument }
    }

    /// `None` if the word is an expansion, whose parts are drawn one by one.
    fn command_style(&mut self, token: &Token<'_>, word: &str, kind: Option<NameKind>) -> Option<Style> {
        Some(match kind {
            Some(NameKind::Alias | NameKind::Function) => self.palette.own,
            Some(NameKind::Builtin) => self.palette.builtin,
            Some(NameKind::Keyword) => self.palette.keyword,
            Some(NameKind::Program) => self.palette.command,
            None if token.traits().is_some_and(|traits| traits.expansion || traits.glob) => return None,
            // A pattern of `case` is in the place of a command.
            None if self.case_depth > 0 || word.starts_with('!') => Style::new(),
            None if self.look(word, EditorState::is_runnable) => self.palette.command.underline(),
            None => self.palette.unknown,
        })
    }

    fn argument_style(&mut self, token: &Token<'_>) -> Style {
        if token.text.starts_with('-') {
            return self.palette.option;
        }
        let traits = token.traits().unwrap_or_default();
        if traits.expansion || traits.glob || token.text.len() > 1024 {
            return Style::new();
        }
        let exists =
            |state: &EditorState, word: &str| state.resolve(word).is_some_and(|path| path.symlink_metadata().is_ok());
        if self.look(&unquoted(token.text), exists) { Style::new().underline() } else { Style::new() }
    }

    fn look(&mut self, word: &str, exists: impl Fn(&EditorState, &str) -> bool) -> bool {
        if self.looks_left == 0 || word.is_empty() {
            return false;
        }
        self.looks_left -= 1;
        exists(self.state, word)
    }

    /// Draws quotes and variables inside a word over its base style.
    fn inside(&self, brush: &mut Brush<'_>, text: &str, from: usize, base: Style) {
        let bytes = text.as_bytes();
        let mut style = base;
        let (mut quote, mut at, mut run) = (None, 0, 0);
        let string = if base.is_underline { self.palette.string.underline() } else { self.palette.string };
        while at < bytes.len() {
            match (bytes[at], quote) {
                (b'\\', None | Some(b'"')) => at += 2,
                (byte @ (b'\'' | b'"'), None) => {
                    brush.put(from + run, from + at, style);
                    (quote, style, run, at) = (Some(byte), string, at, at + 1);
                }
                (byte, Some(open)) if byte == open => {
                    brush.put(from + run, from + at + 1, style);
                    (quote, style, run, at) = (None, base, at + 1, at + 1);
                }
                (b'$' | b'`', None | Some(b'"')) => {
                    brush.put(from + run, from + at, style);
                    let end = variable_end(bytes, at);
                    brush.put(from + at, from + end, self.palette.variable);
                    (run, at) = (end, end);
                }
                _ => at += 1,
            }
        }
        if run < text.len() {
            brush.put(from + run, from + text.len(), style);
        }
    }
}

fn is_name(word: &str) -> bool {
    is_variable(word.strip_suffix('+').unwrap_or(word))
}

/// Returns the end of the expansion that begins at `$` or a backtick; always at a character's boundary.
fn variable_end(bytes: &[u8], at: usize) -> usize {
    let until = |close: u8| memchr::memchr(close, &bytes[at + 1..]).map_or(bytes.len(), |length| at + 1 + length + 1);
    match (bytes[at], bytes.get(at + 1)) {
        (b'`', _) => until(b'`'),
        (_, Some(b'{')) => until(b'}'),
        (_, Some(b'(')) => {
            let mut depth = 0_usize;
            for (offset, byte) in bytes[at + 1..].iter().enumerate() {
                match byte {
                    b'(' => depth += 1,
                    b')' if depth == 1 => return at + 1 + offset + 1,
                    b')' => depth -= 1,
                    _ => {}
                }
            }
            bytes.len()
        }
        (_, Some(b'?' | b'!' | b'$' | b'#' | b'*' | b'@' | b'-' | b'0'..=b'9')) => at + 2,
        _ => {
            let name = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            at + 1 + name
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::proto::Names;

    fn painted<'a>(line: &'a str, state: &EditorState) -> Vec<(Style, &'a str)> {
        paint(line, &state.verdict(line), state, &Palette::default())
    }

    fn state(cwd: &std::path::Path) -> EditorState {
        let mut names = Names { programs: Arc::new(["ls", "git", "sudo"].into()), ..Names::default() };
        names.aliases.insert("ll".into(), "ls -l".into());
        names.builtins = ["echo", "cd"].map(str::to_owned).into();
        names.keywords = ["if", "then", "fi", "for", "in", "do", "done", "case", "esac"].map(str::to_owned).into();
        EditorState { names: Arc::new(names), cwd: cwd.to_owned(), ..EditorState::default() }
    }

    fn styles(line: &str, of: &str) -> Option<Style> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("here.txt"), "").expect("a file");
        let pieces = painted(line, &state(directory.path()));
        pieces.into_iter().find(|(_, text)| *text == of).map(|(style, _)| style)
    }

    #[test]
    fn each_kind_of_word_has_its_style() {
        let palette = Palette::default();
        for (line, word, style) in [
            ("ls -la", "ls", palette.command),
            ("ls -la", "-la", palette.option),
            ("ll", "ll", palette.own),
            ("echo hi", "echo", palette.builtin),
            ("echo 'a b' c", "'a b'", palette.string),
            ("echo \"a $HOME\"", "$HOME", palette.variable),
            ("echo ${a:-b}c", "${a:-b}", palette.variable),
            ("echo $(ls (x)) y", "$(ls (x))", palette.variable),
            ("ls | nosuch", "nosuch", palette.unknown),
            ("nosuch --flag", "nosuch", palette.unknown),
            ("ls | git log", "git", palette.command),
            ("ls && echo x", "&&", palette.operator),
            ("ls > out", ">", palette.operator),
            ("ls # all", "# all", palette.comment),
            ("if ls; then echo; fi", "then", palette.keyword),
            ("if ls; then echo; fi", "ls", palette.command),
            ("X=1 ls", "X=", palette.variable),
            ("X=1 ls", "ls", palette.command),
            ("sudo -n git log", "git", palette.command),
            ("sudo nosuch -x", "nosuch", palette.unknown),
            ("ls here.txt", "here.txt", Style::new().underline()),
            ("ls 'here.txt'", "'here.txt'", palette.string.underline()),
            ("!nosuch x", "!", palette.meta),
            (":model x", ":model", palette.meta),
            ("echo 'unfinished", "'unfinished", palette.string),
        ] {
            assert_eq!(styles(line, word), Some(style), "{word:?} of {line:?}");
        }
    }

    #[test]
    fn sentences_and_very_long_lines_are_plain() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = state(directory.path());
        for line in ["what's in this directory".to_owned(), format!("ls {}", "a ".repeat(3000))] {
            assert_eq!(painted(&line, &state), [(Style::new(), line.as_str())]);
        }
    }

    #[test]
    fn a_line_of_200_characters_is_quick() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = state(directory.path());
        let line = format!("ls {}", "-x 'a b' $HOME file ".repeat(10));
        let mut times: Vec<_> = (0..200)
            .map(|_| {
                let started = std::time::Instant::now();
                let _ = painted(&line, &state);
                started.elapsed()
            })
            .collect();
        times.sort_unstable();
        // 2 ms at p99 is the target of an optimised build; the median here is far below it even without.
        assert!(times[100].as_micros() < 2_000, "{:?}", times[100]);
    }

    proptest! {
        #[test]
        fn the_pieces_joined_are_the_line(line in "[ -~\\n\\téあ]{0,80}") {
            let pieces = painted(&line, &state(std::path::Path::new("/nowhere")));
            prop_assert_eq!(pieces.iter().map(|(_, text)| *text).collect::<String>(), line);
        }

        #[test]
        fn a_forced_line_is_drawn_without_loss(line in any::<String>()) {
            let mut state = state(std::path::Path::new("/nowhere"));
            state.forced = Some(Route::Shell);
            let pieces = painted(&line, &state);
            prop_assert_eq!(pieces.iter().map(|(_, text)| *text).collect::<String>(), line);
        }
    }
}
