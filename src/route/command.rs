//! Decides a line without a prefix: shell syntax, a first word that resolves, or neither. It must not know the prefixes.

use super::lex::{Reading, Token, TokenKind, tokens, unquoted};
use super::sentence::{self, Marks};
use super::{Call, Context, words};
use crate::proto::{NameKind, Route};

/// A command inside `if`, `while`, `time`, `sudo` is decided like a line; this bounds how deep.
const NESTING_MAX: usize = 4;
/// Lines of a paste that are looked at; what a person pastes shows itself long before.
const PASTE_LINES_MAX: usize = 40;

/// Words that open a block, whose end is usually on a later line.
const BLOCKS: [&str; 8] = ["for", "if", "while", "until", "case", "select", "function", "{"];

/// Decides one line.
pub(super) fn of_line(line: &str, context: &Context<'_>) -> Call {
    let tokens = tokens(line, Reading::Prose);
    of_tokens(line, &tokens, context, 0)
}

/// Decides a text of several lines as a whole: its first line decides, unless most of the others are sentences.
pub(super) fn of_paste<'a>(
    whole: &str,
    first: &str,
    rest: impl Iterator<Item = &'a str>,
    context: &Context<'_>,
) -> Call {
    // A string, a here-document or a loop runs over several lines: its body is no line of its own.
    let head = tokens(first, Reading::Shell);
    let spans = whole.contains("<<")
        || first.ends_with(['\\', '{', '('])
        || head.first().is_some_and(|token| BLOCKS.contains(&token.text))
        || head.iter().any(|token| token.traits().is_some_and(|traits| traits.open.is_some()));
    let call = if spans && !whole.contains("<<") { of_line(whole, context) } else { of_line(first, context) };
    if spans || call.0 != Route::Shell {
        return call;
    }
    let (mut sentences, mut others) = (0, 0);
    for line in rest.take(PASTE_LINES_MAX) {
        let (route, rule, _) = of_line(line, context);
        if route == Route::Ask && rule != "block-word" { sentences += 1 } else { others += 1 }
    }
    if sentences > others + 1 {
        return ask("paste-of-sentences", "most of its lines are sentences");
    }
    call
}

fn ask(rule: &'static str, reason: impl Into<String>) -> Call {
    (Route::Ask, rule, reason.into())
}

fn shell(rule: &'static str, reason: impl Into<String>) -> Call {
    (Route::Shell, rule, reason.into())
}

fn of_tokens(line: &str, tokens: &[Token<'_>], context: &Context<'_>, depth: usize) -> Call {
    let Some(first) = tokens.first() else {
        return shell("comment", "it is a comment");
    };
    if depth > NESTING_MAX {
        return shell("nested", "it is shell syntax");
    }
    match first.kind {
        TokenKind::Comment => of_comment(first.text),
        TokenKind::Operator => of_bracket(line, tokens, context, depth),
        TokenKind::Redirect => match tokens.get(2..) {
            _ if first.text == "<"
                && tokens.get(1).is_some_and(|next| next.start == first.end())
                && line.ends_with('>') =>
            {
                ask("markup", "it looks like markup")
            }
            None | Some([]) if tokens.len() < 2 => ask("unfinished", "nothing follows the redirection"),
            None | Some([]) => shell("redirection", "it is a redirection"),
            Some(rest) => of_tokens(line, rest, context, depth + 1),
        },
        TokenKind::Newline => of_tokens(line, &tokens[1..], context, depth),
        TokenKind::Word(_) => of_word(line, tokens, context, depth),
    }
}

fn of_comment(text: &str) -> Call {
    if text[1..].starts_with(|c: char| c.is_ascii_digit() || c == '#') {
        return ask("numbered", "`#` and a number or a heading begin a sentence");
    }
    shell("comment", "it is a comment")
}

/// `(cmd)`, `((i++))`; prose in brackets is not.
fn of_bracket(line: &str, tokens: &[Token<'_>], context: &Context<'_>, depth: usize) -> Call {
    match (tokens[0].text, tokens.get(1)) {
        ("(", Some(next)) if next.text == "(" => shell("syntax", "`((` is shell arithmetic"),
        ("(", Some(_)) if of_tokens(line, &tokens[1..], context, depth + 1).0 == Route::Shell => {
            shell("syntax", "it is a subshell")
        }
        (";" | "&" | ")", None) => shell("syntax", "it is shell syntax"),
        _ => ask("no-command", "no command follows"),
    }
}

fn of_word(line: &str, tokens: &[Token<'_>], context: &Context<'_>, depth: usize) -> Call {
    let head = &tokens[0];
    if line.starts_with('^') && line[1..].contains('^') {
        return shell("history-expansion", "it is the shell's history expansion");
    }
    if is_assignment(head.text) {
        return of_assignment(line, tokens, context, depth);
    }
    // `name(` is a function's definition, an array, or the code of another language.
    if let Some(bracket) = tokens.get(1).filter(|next| next.text == "(" && next.start == head.end()) {
        return of_name_and_bracket(tokens, bracket);
    }
    let plain;
    let word = if head.text.contains(['\'', '"', '\\']) && head.traits().is_some_and(|traits| !traits.contraction) {
        plain = unquoted(head.text);
        plain.as_str()
    } else {
        head.text
    };
    if word == head.text
        && let Some(call) = of_reserved(line, word, tokens, context, depth)
    {
        return call;
    }
    let marks = Marks::of(&tokens[1..]);
    match resolution(word, head, context) {
        Some(what) => of_resolved(line, word, tokens, &marks, what, context, depth),
        None => of_unknown(line, word, tokens, &marks, context),
    }
}

fn is_assignment(word: &str) -> bool {
    let Some(equals) = word.find('=') else { return false };
    let name = &word[..equals];
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.find('[').filter(|_| name.ends_with(']')).map_or(name, |open| &name[..open]);
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn of_assignment(line: &str, tokens: &[Token<'_>], context: &Context<'_>, depth: usize) -> Call {
    let rest = &tokens[1..];
    if rest.is_empty() || rest[0].text == "(" || rest[0].ends_command() {
        return shell("assignment", "it sets a variable");
    }
    match of_tokens(line, rest, context, depth + 1) {
        (Route::Ask, _, reason) if Marks::of(rest).len() >= 2 => ask("sentence", reason),
        _ => shell("assignment", "it sets a variable for a command"),
    }
}

fn of_name_and_bracket(tokens: &[Token<'_>], bracket: &Token<'_>) -> Call {
    let closed = tokens.get(2).is_some_and(|next| next.text == ")" && next.start == bracket.end());
    let body = tokens.get(3).is_none_or(|next| next.text.starts_with('{') || matches!(next.text, "(" | "\n"));
    if closed && body && tokens.len() > 3 {
        return shell("function-definition", "it defines a shell function");
    }
    ask("code", "it looks like code of another language")
}

/// The shell's reserved words, which must be followed by what the grammar wants to be more than English.
fn of_reserved(line: &str, word: &str, tokens: &[Token<'_>], context: &Context<'_>, depth: usize) -> Option<Call> {
    let rest = &tokens[1..];
    let has = |wanted: &[&str]| rest.iter().any(|token| wanted.contains(&token.text));
    let text = |index: usize| rest.get(index).map_or("", |token| token.text);
    let call = match word {
        "[[" | "{" => shell("syntax", "it is shell syntax"),
        "for" | "select" if text(0) == "(" && text(1) == "(" => shell("syntax", "it is a loop of the shell"),
        "for" | "select" => {
            let closed = has(&["do", ";", "\n"]) && has(&["in", ";", "do"]);
            let prose = !closed && rest.len() > 3 && !Marks::of(&rest[2..]).is_wordless();
            let grammar = text(1) == "in" || closed || (rest.len() == 1 && word == "for" && text(0).len() < 3);
            if grammar && !prose && text(0) != "(" {
                shell("syntax", "it is a loop of the shell")
            } else {
                unclear(word)
            }
        }
        "case" if text(1) == "in" && (rest.len() == 2 || has(&[")", "\n"])) => {
            shell("syntax", "it is a case of the shell")
        }
        "case" => unclear(word),
        "function" => {
            let body = has(&["{"]) || (text(1) == "(" && text(2) == ")");
            if body { shell("function-definition", "it defines a shell function") } else { unclear(word) }
        }
        "if" | "while" | "until" => {
            let closed = has(&["then", "do"]) && has(&[";", "\n"]);
            let inner =
                !rest.is_empty() && text(0) != "(" && of_tokens(line, rest, context, depth + 1).0 == Route::Shell;
            let tested = text(0) == "(" && text(1) == "(";
            let prose = !closed && Marks::of(rest).sentence(word).is_some();
            if (inner || tested || closed && text(0) != "(") && !prose {
                shell("syntax", "it is a compound command of the shell")
            } else {
                unclear(word)
            }
        }
        "do" | "then" | "else" | "elif" | "in" | "done" | "fi" | "esac" | "}" => {
            ask("block-word", format!("no command begins with `{word}`"))
        }
        _ => return None,
    };
    Some(call)
}

fn unclear(word: &str) -> Call {
    ask("sentence", format!("what follows `{word}` is not shell syntax"))
}

/// What the first word is to the shell, in words.
fn resolution(word: &str, head: &Token<'_>, context: &Context<'_>) -> Option<&'static str> {
    if let Some(kind) = context.names.kind(word) {
        return Some(match kind {
            NameKind::Alias => "an alias",
            NameKind::Function => "a function",
            NameKind::Builtin => "a builtin",
            NameKind::Keyword => "a reserved word",
            NameKind::Program => "a program",
        });
    }
    if head.traits().is_some_and(|traits| traits.expansion) {
        return Some("an expansion");
    }
    if word.ends_with(':') {
        return None;
    }
    let explicit = ["./", "../", "/", "~/"].iter().any(|start| word.starts_with(start));
    if explicit || matches!(word, "~" | "." | "..") {
        return Some("a path");
    }
    if word.contains('/') && (word.len() > 1) && ((context.is_path)(word) || word.ends_with('/')) {
        return Some("a path");
    }
    words::is_known_tool(word).then_some("a well-known program")
}

fn of_resolved(
    line: &str,
    word: &str,
    tokens: &[Token<'_>],
    marks: &Marks,
    what: &'static str,
    context: &Context<'_>,
    depth: usize,
) -> Call {
    let rest = &tokens[1..];
    if words::runs_another(word) && rest.len() > 1 && marks.sentence(word).is_none() {
        // `sudo kill the server`: what is to be run decides. Options of the runner itself are not looked into.
        let inner = !sentence::is_flag(rest[0].text) && resolution(rest[0].text, &rest[0], context).is_some();
        if inner && of_tokens(line, rest, context, depth + 1).0 == Route::Ask {
            return ask("sentence", format!("what follows `{word}` reads as a sentence"));
        }
    }
    if is_other_code(word, rest) {
        return ask("code", "it looks like code of another language");
    }
    // A path was typed to be run; prose does not begin with `./`.
    let certain = what == "a path" && !matches!(word, "." | "..") && marks.operators() == 0 && marks.len() < 5;
    match marks.sentence(word) {
        Some(reason) if !certain => ask("sentence", format!("`{word}` is {what}, but {reason}")),
        _ if is_phrase(word, rest) => ask("sentence", "it is an everyday phrase"),
        _ => shell("first-word-resolves", format!("`{word}` is {what}")),
    }
}

/// Statements of other languages that begin with a word which is also a command.
fn is_other_code(word: &str, rest: &[Token<'_>]) -> bool {
    let text = |index: usize| rest.get(index).map_or("", |token| token.text);
    match word {
        "let" | "type" | "local" => text(1) == "=",
        "return" => rest.len() >= 2 && text(1) == "+" || text(0).ends_with('"'),
        "import" | "from" => rest.len() == 1 && text(0).bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
        "export" => matches!(text(0), "default" | "const" | "function" | "class"),
        _ => false,
    }
}

/// Two or three words said every day whose first is a command.
fn is_phrase(word: &str, rest: &[Token<'_>]) -> bool {
    let text = |index: usize| rest.get(index).map_or("", |token| token.text);
    match (word, rest.len()) {
        ("go", 1) => matches!(text(0), "ahead" | "on" | "back" | "away"),
        ("look", 1) => matches!(text(0), "busy" | "again" | "closer"),
        ("nice" | "good", 1) => matches!(text(0), "work" | "one" | "try" | "job"),
        ("fix" | "explain" | "run" | "try" | "undo" | "show", 1) => matches!(text(0), "it" | "this" | "that"),
        ("help", 1) => matches!(text(0), "me" | "please"),
        ("who", 2) => text(0) == "are" || text(0) == "is",
        _ => false,
    }
}

fn of_unknown(line: &str, word: &str, tokens: &[Token<'_>], marks: &Marks, context: &Context<'_>) -> Call {
    let head = &tokens[0];
    if !word.is_ascii()
        || head.traits().is_some_and(|traits| traits.contraction)
        || words::classes(word) != 0 && marks.len() > 0
    {
        return ask("not-a-command", format!("`{word}` is not a command"));
    }
    if word.ends_with([':', ',', '?', '!', ';']) || (word.ends_with('.') && word.len() > 1) {
        return ask("punctuation", format!("`{word}` ends as a word of a sentence does"));
    }
    if marks.len() == 0 && marks.operators() == 0 {
        return of_single(word, head, context);
    }
    if word.contains('/') || word.ends_with(".sh") || word.ends_with(".py") {
        return match marks.sentence(word) {
            Some(reason) => ask("sentence", reason),
            None => shell("looks-like-a-path", format!("`{word}` looks like a file to run")),
        };
    }
    if let Some(reason) = marks.looks_like_call().filter(|_| is_name(word)) {
        return shell("looks-like-a-command", format!("`{word}` is unknown, but {reason}"));
    }
    if marks.is_wordless() && is_name(word) {
        if marks.operators() > 0 && runs_further(line, tokens, context) {
            return shell("looks-like-a-command", format!("`{word}` is unknown, but a command follows"));
        }
        let lower = word.to_ascii_lowercase();
        let meant = if lower != word && context.names.kind(&lower).is_some() && !words::is_english_command(&lower) {
            Some(lower.as_str())
        } else {
            words::slip_of(word)
        };
        if let Some(meant) = meant.filter(|_| marks.len() <= 3) {
            return shell("slip", format!("`{word}` looks like a slip of `{meant}`"));
        }
    }
    ask("not-a-command", format!("`{word}` is not a command"))
}

fn of_single(word: &str, head: &Token<'_>, context: &Context<'_>) -> Call {
    if words::is_chat(word) || word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return ask("chat", "it is a word that one says to a person");
    }
    if head.traits().is_some_and(|traits| traits.quoted) || !is_name(word) && !word.contains('/') {
        return ask("not-a-command", format!("`{word}` is not a command"));
    }
    if (context.is_path)(word) {
        return shell("first-word-resolves", format!("`{word}` is a path"));
    }
    let capital = word.starts_with(|c: char| c.is_ascii_uppercase());
    if capital && context.names.kind(&word.to_ascii_lowercase()).is_none() {
        return ask("not-a-command", format!("`{word}` is not a command"));
    }
    shell("one-unknown-word", format!("`{word}` alone may be a command that is not installed; the shell will say"))
}

/// Whether a command after an operator resolves.
fn runs_further(line: &str, tokens: &[Token<'_>], context: &Context<'_>) -> bool {
    tokens.windows(2).any(|pair| {
        matches!(pair[0].text, "|" | "&&" | "||" | ";" | "|&")
            && line.len() > pair[1].start
            && pair[1].traits().is_some()
            && resolution(pair[1].text, &pair[1], context).is_some()
    })
}

/// Whether a word could be the name of a program.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte))
}
