//! Bash's grammar: a script → its tree. One pass without going back, so its time grows linearly with the text. After a
//! mistake it notes the mistake and reads on, because the rest may still run. Words are read in `word`.

use std::rc::Rc;

use super::syntax::{
    Assign, AssignValue, Command, Item, Joint, Kind, Part, Pipeline, Redirect, RedirectOp, Script, Trouble, Word,
};

/// Constructs open at once.
pub(crate) const DEPTH_MAX: usize = 64;

/// Words that end a list of commands.
const ENDERS: [&str; 8] = ["then", "do", "done", "fi", "else", "elif", "esac", "}"];

/// Builtins whose arguments may be assignments of arrays.
const DECLARERS: [&str; 5] = ["declare", "typeset", "local", "export", "readonly"];

/// Reads a script that is nested `depth` constructs deep in another one; also returns its first mistake.
pub(crate) fn parse(text: &str, depth: usize) -> (Script, Option<Trouble>) {
    let mut parser = Parser::new(text, depth);
    (parser.script(), parser.trouble)
}

/// Reads a text as if it stood in double quotes, for the substitutions in it.
pub(crate) fn quoted(text: &str, depth: usize) -> Word {
    Word { parts: vec![Part::Double(Parser::new(text, depth).double(None))] }
}

/// Returns whether bash would ask for more after a script: something is open at its end. A script with any other
/// mistake, nested too deep, or longer than [`SCRIPT_BYTES_MAX`](super::SCRIPT_BYTES_MAX) counts as finished: bash
/// reports its mistake. Takes time in proportion to the text.
#[must_use]
pub fn is_unfinished(text: &str) -> bool {
    if text.len() > super::SCRIPT_BYTES_MAX {
        return false;
    }
    let mut parser = Parser::new(text, 0);
    parser.script();
    parser.ends_early == Some(true)
}

/// The delimiter of the first here-document that the text leaves open.
#[must_use]
pub fn open_document(text: &str) -> Option<String> {
    let mut parser = Parser::new(text, 0);
    parser.script();
    parser.document.filter(|_| parser.ends_early == Some(true))
}

/// The reader.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) trouble: Option<Trouble>,
    /// `true` if the first thing that was wrong is that the text ends too early. Not all that is wrong so is a trouble.
    ends_early: Option<bool>,
    /// The end of the line with a here-document, and the start of the text after its bodies.
    here: Option<(usize, usize)>,
    /// The delimiter of a here-document that isn't closed.
    document: Option<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, depth: usize) -> Self {
        let trouble = (depth > DEPTH_MAX).then_some(Trouble::Depth);
        let at = if trouble.is_some() { text.len() } else { 0 };
        Self { text, at, depth, trouble, ends_early: None, here: None, document: None }
    }

    fn script(&mut self) -> Script {
        let mut script = Script::default();
        while self.at < self.text.len() {
            let before = self.at;
            script.items.append(&mut self.list().items);
            if self.at < self.text.len() {
                // An end without a beginning.
                self.wrong(Trouble::Syntax);
                if self.at == before {
                    self.bump();
                }
            }
        }
        script
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn starts(&self, with: &str) -> bool {
        self.rest().starts_with(with)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let has = self.starts(text);
        if has {
            self.at += text.len();
        }
        has
    }

    /// Goes over one character, and at the end of a line over the here-documents that belong to it.
    pub(super) fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        if c == '\n'
            && let Some((_, behind)) = self.here.take_if(|(line_end, _)| *line_end == self.at)
        {
            self.at = behind;
            return Some(c);
        }
        self.at += c.len_utf8();
        Some(c)
    }

    pub(super) fn wrong(&mut self, trouble: Trouble) {
        self.note(trouble == Trouble::Syntax && self.rest().trim_start().is_empty());
        self.trouble = self.trouble.max(Some(trouble));
    }

    /// A construct is never closed.
    pub(super) fn unfinished(&mut self) {
        self.note(true);
        self.wrong(Trouble::Syntax);
    }

    /// Notes the first mistake: that the text ends too early, or something else.
    pub(super) fn note(&mut self, ends_early: bool) {
        self.ends_early.get_or_insert(ends_early);
    }

    /// Reads one construct deeper; if that is too deep, the rest isn't read and this is noted as trouble.
    pub(super) fn deeper<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        if self.depth >= DEPTH_MAX {
            self.wrong(Trouble::Depth);
            self.at = self.text.len();
            return T::default();
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Adopts the trouble that a parser for a piece of this text found.
    pub(super) fn adopt(&mut self, trouble: Option<Trouble>) {
        if trouble.is_some() {
            self.note(false);
        }
        self.trouble = self.trouble.max(trouble);
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.starts("\\\n") => self.at += 2,
                Some('#') => {
                    let line = self.rest();
                    self.at += line.find('\n').unwrap_or(line.len());
                }
                _ => return,
            }
        }
    }

    fn skip_newlines(&mut self) {
        self.skip_blanks();
        while self.peek() == Some('\n') {
            self.bump();
            self.skip_blanks();
        }
    }

    /// The plain word that follows, for reserved words.
    fn word_ahead(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find([' ', '\t', '\n', '\r', ';', '&', '|', '<', '>', '(', ')']).unwrap_or(rest.len());
        &rest[..end]
    }

    fn eat_word(&mut self, word: &str) -> bool {
        self.skip_newlines();
        let has = self.word_ahead() == word;
        if has {
            self.at += word.len();
        } else {
            self.wrong(Trouble::Syntax);
        }
        has
    }

    /// Reads commands up to something that ends a list.
    pub(super) fn list(&mut self) -> Script {
        let mut script = Script::default();
        loop {
            self.skip_newlines();
            match self.peek() {
                None | Some(')') => return script,
                Some(';') => {
                    if !self.starts(";;") && !self.starts(";&") {
                        // bash would refuse an empty command.
                        self.wrong(Trouble::Syntax);
                        self.at += 1;
                        continue;
                    }
                    return script;
                }
                Some('&' | '|') if !self.starts("&>") => {
                    self.wrong(Trouble::Syntax);
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            if ENDERS.contains(&self.word_ahead()) {
                return script;
            }
            let before = self.at;
            let mut item = self.joined();
            self.skip_blanks();
            match self.peek() {
                Some(';') if !self.starts(";;") && !self.starts(";&") => self.at += 1,
                Some('&') => {
                    item.background = true;
                    self.at += 1;
                }
                _ => {}
            }
            script.items.push(item);
            if self.at == before {
                self.wrong(Trouble::Syntax);
                self.bump();
            }
        }
    }

    /// Reads commands at a place that requires at least one.
    fn filled_list(&mut self) -> Script {
        let script = self.list();
        if script.items.is_empty() {
            self.wrong(Trouble::Syntax);
        }
        script
    }

    fn joined(&mut self) -> Item {
        let mut item = Item { first: self.pipeline(), rest: Vec::new(), background: false };
        loop {
            self.skip_blanks();
            let joint = if self.eat("&&") {
                Joint::And
            } else if self.eat("||") {
                Joint::Or
            } else {
                return item;
            };
            self.expect_command();
            item.rest.push((joint, self.pipeline()));
        }
    }

    fn pipeline(&mut self) -> Pipeline {
        let mut pipeline = Pipeline::default();
        loop {
            self.skip_blanks();
            match self.word_ahead() {
                "!" => self.at += 1,
                "time" => {
                    self.at += 4;
                    self.skip_blanks();
                    while matches!(self.word_ahead(), "-p" | "--") {
                        self.at += 2;
                        self.skip_blanks();
                    }
                }
                _ => break,
            }
        }
        loop {
            pipeline.commands.push(self.command());
            self.skip_blanks();
            if self.starts("||") || !(self.eat("|&") || self.eat("|")) {
                return pipeline;
            }
            self.expect_command();
        }
    }

    /// Goes to the next line that isn't empty, at a place that requires a command. For bash a missing command is a
    /// mistake; the text there may run all the same.
    fn expect_command(&mut self) {
        self.skip_newlines();
        match self.peek() {
            None => self.note(true),
            Some(';' | '|' | ')') => self.note(false),
            Some(_) => {}
        }
    }

    fn command(&mut self) -> Command {
        self.skip_blanks();
        let kind = self.deeper(|parser| Some(parser.compound())).flatten();
        let Some(kind) = kind else { return self.simple() };
        let mut redirects = Vec::new();
        while let Some(redirect) = {
            self.skip_blanks();
            self.redirect()
        } {
            redirects.push(redirect);
        }
        Command { kind, redirects }
    }

    fn compound(&mut self) -> Option<Kind> {
        if self.starts("((")
            && let Some(length) = super::word::arithmetic_length(&self.rest()[2..])
        {
            let inner = &self.rest()[2..2 + length];
            self.at += length + 4;
            return Some(Kind::Arithmetic(self.expression(inner)));
        }
        if self.eat("(") {
            let script = self.list();
            self.close(")");
            return Some(Kind::Subshell(script));
        }
        let word = self.word_ahead();
        match word {
            "{" | "if" | "while" | "until" | "for" | "select" | "case" | "function" | "[[" | "coproc" => {
                self.at += word.len();
            }
            _ => return None,
        }
        Some(match word {
            "{" => {
                let script = self.list();
                self.eat_word("}");
                Kind::Group(script)
            }
            "if" => self.conditional(),
            "while" | "until" => {
                let test = self.filled_list();
                Kind::While { test, body: self.body() }
            }
            "for" | "select" => self.for_loop(),
            "case" => self.case(),
            "function" => {
                self.skip_blanks();
                let name = self.name_ahead();
                self.skip_blanks();
                if self.eat("(") {
                    self.skip_blanks();
                    self.close(")");
                }
                self.function(name)
            }
            "[[" => self.test(),
            _ => self.coprocess(),
        })
    }

    fn close(&mut self, text: &str) {
        if !self.eat(text) {
            self.wrong(Trouble::Syntax);
        }
    }

    fn body(&mut self) -> Script {
        self.skip_newlines();
        if self.peek() == Some('{') {
            // An old form of bash: `for x in a; { …; }`.
            self.at += 1;
            let script = self.list();
            self.eat_word("}");
            return script;
        }
        self.eat_word("do");
        let script = self.filled_list();
        self.eat_word("done");
        script
    }

    fn conditional(&mut self) -> Kind {
        let mut tests = Vec::new();
        let mut otherwise = None;
        loop {
            let test = self.filled_list();
            self.eat_word("then");
            tests.push((test, self.filled_list()));
            match self.word_ahead() {
                "elif" => self.at += 4,
                "else" => {
                    self.at += 4;
                    otherwise = Some(self.filled_list());
                    break;
                }
                _ => break,
            }
        }
        self.eat_word("fi");
        Kind::If { tests, otherwise }
    }

    fn for_loop(&mut self) -> Kind {
        self.skip_blanks();
        if self.starts("((") {
            self.at += 2;
            let length = super::word::arithmetic_length(self.rest()).unwrap_or(0);
            let inner = &self.rest()[..length];
            self.at += length;
            let head = self.expression(inner);
            self.close("))");
            self.skip_blanks();
            if self.peek() == Some(';') {
                self.at += 1;
            }
            return Kind::ArithmeticFor { head, body: self.body() };
        }
        let name = self.name_ahead();
        self.skip_newlines();
        let mut words = None;
        if self.word_ahead() == "in" {
            self.at += 2;
            words = Some(self.words());
        }
        self.skip_blanks();
        if self.peek() == Some(';') {
            self.at += 1;
        }
        Kind::For { name, words, body: self.body() }
    }

    /// Reads a name, which must be on this line.
    fn name_ahead(&mut self) -> String {
        let name = self.word_ahead();
        self.at += name.len();
        if name.is_empty() {
            self.note(false);
        }
        name.to_owned()
    }

    fn words(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.word() {
                Some(word) => words.push(word),
                None => return words,
            }
        }
    }

    fn case(&mut self) -> Kind {
        self.skip_blanks();
        let word = self.word().unwrap_or_else(|| {
            self.note(false);
            Word::default()
        });
        self.eat_word("in");
        let mut arms = Vec::new();
        loop {
            self.skip_newlines();
            if self.word_ahead() == "esac" || self.peek().is_none() {
                break;
            }
            let before = self.at;
            self.eat("(");
            let mut patterns = Vec::new();
            loop {
                self.skip_blanks();
                patterns.extend(self.word());
                self.skip_blanks();
                if !self.eat("|") {
                    break;
                }
            }
            if !self.eat(")") {
                // It isn't a pattern then, but perhaps commands.
                self.wrong(Trouble::Syntax);
                self.at = before;
            }
            let script = self.list();
            arms.push((patterns, script));
            let _ = self.eat(";;&") || self.eat(";;") || self.eat(";&");
            if self.at == before {
                break;
            }
        }
        self.eat_word("esac");
        Kind::Case { word, arms }
    }

    fn function(&mut self, name: String) -> Kind {
        self.expect_command();
        let body = self.command();
        Kind::Function { name, body: Rc::new(body) }
    }

    fn test(&mut self) -> Kind {
        let mut words = Vec::new();
        loop {
            self.skip_newlines();
            match self.peek() {
                None => {
                    self.wrong(Trouble::Syntax);
                    break;
                }
                Some(_) if self.word_ahead() == "]]" => {
                    self.at += 2;
                    break;
                }
                Some('(' | ')' | '<' | '>' | '|' | '&' | ';') => self.at += 1,
                Some(_) => match self.word() {
                    Some(word) => words.push(word),
                    None => self.at += 1,
                },
            }
        }
        Kind::Test(words)
    }

    fn coprocess(&mut self) -> Kind {
        self.skip_blanks();
        // `coproc NAME { …; }`
        let rest = self.rest();
        let name = self.word_ahead();
        let behind = rest[name.len()..].trim_start_matches([' ', '\t']);
        if !name.is_empty() && name != "{" && (behind.starts_with('{') || behind.starts_with('(')) {
            self.at += name.len();
        }
        Kind::Coprocess(Box::new(self.command()))
    }

    fn simple(&mut self) -> Command {
        let (mut assigns, mut words, mut redirects) = (Vec::new(), Vec::new(), Vec::new());
        let mut declares = false;
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect() {
                redirects.push(redirect);
                continue;
            }
            if (words.is_empty() || declares)
                && let Some(assign) = self.assignment()
            {
                assigns.push(assign);
                continue;
            }
            let ahead = self.word_ahead();
            let Some(word) = self.word() else {
                if self.peek() == Some('(') {
                    if words.len() == 1 && assigns.is_empty() {
                        self.at += 1;
                        self.skip_blanks();
                        if self.peek() != Some(')') {
                            self.note(false);
                        }
                        self.close(")");
                        let name = words.first().and_then(plain).unwrap_or_default();
                        let kind = self.deeper(|parser| Some(parser.function(name)));
                        let nothing = Kind::Simple { assigns: Vec::new(), words: Vec::new() };
                        return Command { kind: kind.unwrap_or(nothing), redirects };
                    }
                    self.wrong(Trouble::Syntax);
                    self.at += 1;
                    continue;
                }
                break;
            };
            if words.is_empty() {
                declares = DECLARERS.contains(&ahead);
            }
            // `command declare x=(…)`, `builtin export …`
            declares |= words.len() == 1 && DECLARERS.contains(&ahead);
            words.push(word);
        }
        Command { kind: Kind::Simple { assigns, words }, redirects }
    }

    /// Reads `name=…`, `name[…]=…` or `name+=…` if one follows.
    fn assignment(&mut self) -> Option<Assign> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if length == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let start = self.at;
        let name = rest[..length].to_owned();
        self.at += length;
        let mut index = None;
        if self.peek() == Some('[') {
            let Some(length) = super::word::bracket_length(&self.rest()[1..]) else {
                self.at = start;
                return None;
            };
            let inner = &self.rest()[1..=length];
            self.at += length + 2;
            if !self.starts("=") && !self.starts("+=") {
                self.at = start;
                return None;
            }
            index = Some(self.expression(inner));
        }
        let append = self.eat("+=");
        if !append && !self.eat("=") {
            self.at = start;
            return None;
        }
        let value = if self.eat("(") {
            AssignValue::Array(self.array())
        } else {
            AssignValue::Scalar(self.word().unwrap_or_default())
        };
        Some(Assign { name, index, append, value })
    }

    fn array(&mut self) -> Vec<(Option<Word>, Word)> {
        let mut items = Vec::new();
        loop {
            self.skip_newlines();
            match self.peek() {
                Some(')') => {
                    self.at += 1;
                    return items;
                }
                None => {
                    self.wrong(Trouble::Syntax);
                    return items;
                }
                _ => {}
            }
            let mut index = None;
            if self.peek() == Some('[')
                && let Some(length) = super::word::bracket_length(&self.rest()[1..])
                && self.rest()[length + 2..].starts_with('=')
            {
                let inner = &self.rest()[1..=length];
                self.at += length + 3;
                index = Some(self.expression(inner));
            }
            match self.word() {
                Some(word) => items.push((index, word)),
                None if index.is_some() => items.push((index, Word::default())),
                None => {
                    self.wrong(Trouble::Syntax);
                    self.bump();
                }
            }
        }
    }

    /// Reads a redirection if one follows.
    fn redirect(&mut self) -> Option<Redirect> {
        let rest = self.rest();
        if !rest.starts_with(['<', '>', '&', '{']) && !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let mut length = digits;
        if digits == 0 && rest.starts_with('{') {
            let inner = rest[1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            if inner > 0 && rest[1 + inner..].starts_with('}') {
                length = inner + 2;
            }
        }
        let operator = &rest[length..];
        if operator.starts_with("<(") || operator.starts_with(">(") {
            return None;
        }
        let ops = [
            ("<<<", RedirectOp::Here),
            ("<<-", RedirectOp::Here),
            ("<<", RedirectOp::Here),
            ("<&", RedirectOp::DuplicateIn),
            ("<>", RedirectOp::Both),
            ("<", RedirectOp::Read),
            (">>", RedirectOp::Append),
            (">&", RedirectOp::DuplicateOut),
            (">|", RedirectOp::Write),
            (">", RedirectOp::Write),
        ];
        let found = if length == 0 && operator.starts_with("&>>") {
            ("&>>", RedirectOp::Append)
        } else if length == 0 && operator.starts_with("&>") {
            ("&>", RedirectOp::Write)
        } else {
            *ops.iter().find(|(text, _)| operator.starts_with(text))?
        };
        let fd = (length > 0).then(|| rest[..length].trim_matches(['{', '}']).to_owned());
        self.at += length + found.0.len();
        self.skip_blanks();
        let target = match found.0 {
            "<<" | "<<-" => self.here_document(found.0 == "<<-"),
            "<<<" => {
                let mut word = self.word().unwrap_or_default();
                word.parts.push(Part::Dead("\n".to_owned()));
                word
            }
            _ => match self.word() {
                Some(word) => word,
                None => {
                    self.note(false);
                    self.wrong(Trouble::Syntax);
                    Word::default()
                }
            },
        };
        Some(Redirect { fd, op: found.1, target })
    }

    /// Reads the delimiter here and the body after the end of this line.
    fn here_document(&mut self, strip_tabs: bool) -> Word {
        let start = self.at;
        let Some(word) = self.word() else {
            self.note(false);
            self.wrong(Trouble::Syntax);
            return Word::default();
        };
        let written = &self.text[start..self.at];
        let quoted = written.contains(['\'', '"', '\\']);
        let delimiter = if quoted { super::word::unquoted(&word) } else { written.to_owned() };
        let (line_end, from) = match self.here {
            Some(here) => here,
            None => {
                let Some(length) = super::word::line_length(self.rest()) else {
                    self.unfinished();
                    self.here = Some((self.text.len(), self.text.len()));
                    return Word::default();
                };
                (self.at + length, self.at + length + 1)
            }
        };
        let mut body = String::new();
        let mut at = from;
        let mut is_closed = false;
        while at < self.text.len() {
            let rest = &self.text[at..];
            let length = rest.find('\n').unwrap_or(rest.len());
            let line = if strip_tabs { rest[..length].trim_start_matches('\t') } else { &rest[..length] };
            at = (at + length + 1).min(self.text.len());
            if line == delimiter {
                is_closed = true;
                break;
            }
            // In a substitution the last line may carry its end: `EOF)`.
            if let Some(tail) = line.strip_prefix(&delimiter)
                && self.depth > 0
                && tail.trim_start().starts_with(')')
            {
                at -= tail.len() + usize::from(rest.len() > length);
                is_closed = true;
                break;
            }
            body.push_str(line);
            body.push('\n');
        }
        if !is_closed {
            self.unfinished();
            self.document.get_or_insert(delimiter);
        }
        self.here = Some((line_end, at));
        if quoted {
            return Word { parts: vec![Part::Dead(body)] };
        }
        let mut inner = Parser::new(&body, self.depth + 1);
        let parts = inner.double(None);
        self.adopt(inner.trouble);
        Word { parts: vec![Part::Double(parts)] }
    }
}

/// The text of a word that is nothing but text.
fn plain(word: &Word) -> Option<String> {
    word.parts
        .iter()
        .map(|part| match part {
            Part::Plain(text) | Part::Dead(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}
