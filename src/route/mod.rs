//! A line and what the session knows, to where it goes and why. Pure: no I/O, no clock, nothing is ever run to find out.
//!
//! The order of the rules: forced by the user; a prefix (`:`, `!`, `$ `, `?`); an answer to the model's question; shell
//! syntax; the first word. A first word that resolves goes to the shell unless the rest reads as a sentence; any other
//! line goes to the model unless it looks like a call. Running a sentence is the worse of the two errors, so doubt about a
//! known command with English after it goes to the model. One unknown word alone goes to the shell (its "command not
//! found" is honest and free) unless it is a word that one says to a person.
//!
//! ```
//! use reedclaw::proto::{Names, Route};
//! use reedclaw::route::{Context, decide};
//!
//! let names = Names { programs: std::sync::Arc::new(["make".to_owned()].into()), ..Names::default() };
//! let context = Context { names: &names, is_path: &|_| false, forced: None, model_asked: false };
//! assert_eq!(decide("make test", &context).route, Route::Shell);
//! assert_eq!(decide("make me a sandwich", &context).route, Route::Ask);
//! ```

pub mod lex;

mod command;
mod sentence;
mod words;

#[cfg(test)]
mod tests;

use crate::proto::{Names, Route, Verdict};

/// What the session knows when a line is decided.
pub struct Context<'a> {
    /// What the live shell resolves.
    pub names: &'a Names,
    /// Whether a word names an existing executable file or directory; asked only for a first word.
    pub is_path: &'a dyn Fn(&str) -> bool,
    /// Where the user's key (Ctrl-T) sends the line, whatever it is.
    pub forced: Option<Route>,
    /// Whether the model's last answer ended with a question, so that `yes` is a reply.
    pub model_asked: bool,
}

/// Where a line and why, before the text is cut out.
type Call = (Route, &'static str, String);

/// Says where `line` goes, what text goes there, and why.
#[must_use]
pub fn decide(line: &str, context: &Context<'_>) -> Verdict {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return verdict(Route::Empty, String::new(), "empty", "nothing was typed");
    }
    let natural = by_prefix(line, trimmed).unwrap_or_else(|| {
        let (route, rule, reason) = by_content(trimmed, context);
        let text = if route == Route::Shell { line } else { trimmed };
        verdict(route, text.to_owned(), rule, reason)
    });
    match context.forced {
        Some(route @ (Route::Shell | Route::Ask)) if route != natural.route => {
            verdict(route, natural.text, "forced-by-key", "you switched it with Ctrl-T")
        }
        _ => natural,
    }
}

/// Whether text that the user is to be asked about, such as a model's answer, ends with a question.
#[must_use]
pub fn ends_with_question(text: &str) -> bool {
    text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | ')' | '"')).ends_with(['?', '？'])
}

fn verdict(route: Route, text: String, rule: &'static str, reason: impl Into<String>) -> Verdict {
    Verdict { route, text, rule, reason: reason.into() }
}

/// `:word`, `!command`, `$ command`, `?question`.
fn by_prefix(line: &str, trimmed: &str) -> Option<Verdict> {
    let first = trimmed.chars().next()?;
    let rest = &trimmed[first.len_utf8()..];
    // A space in front keeps a line out of the history, so it survives the prefix.
    let indent = &line[..line.len() - line.trim_start().len()];
    let shell = |text: &str| format!("{indent}{}", text.trim_start());
    match first {
        ':' if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '?') => {
            Some(verdict(Route::Meta, trimmed.to_owned(), "meta", "it begins with a colon and a word"))
        }
        ':' if rest.is_empty() || rest.starts_with("()") || rest.starts_with([' ', '\t', ';', '>', '&', '|', '\n']) => {
            Some(verdict(Route::Shell, line.to_owned(), "null-command", "`:` is the shell's null command"))
        }
        ':' => Some(verdict(Route::Ask, trimmed.to_owned(), "colon", "no command follows the colon")),
        '!' => Some(by_bang(line, trimmed, rest, &shell)),
        '$' if rest.starts_with([' ', '\t']) && !rest.trim().is_empty() => {
            Some(verdict(Route::Shell, shell(rest), "forced-shell", "it begins with `$ `"))
        }
        '?' if !rest.trim().is_empty() => {
            Some(verdict(Route::Ask, rest.trim().to_owned(), "forced-ask", "it begins with `?`"))
        }
        _ => None,
    }
}

/// `!ls` forces the shell; `!!`, `!$`, `!-2`, `!12` are its history expansion, and `! cmd` its negation.
fn by_bang(line: &str, trimmed: &str, rest: &str, shell: &dyn Fn(&str) -> String) -> Verdict {
    if trimmed.len() > 2 && trimmed.bytes().all(|byte| byte == b'!') {
        return verdict(Route::Ask, trimmed.to_owned(), "exclamation", "it is exclamation marks only");
    }
    match rest.chars().next() {
        None | Some(' ' | '\t') => verdict(Route::Shell, line.to_owned(), "negation", "`!` negates a command's status"),
        Some('!' | '$' | '^' | '*' | '#' | '?' | ':' | '-' | '0'..='9') => {
            verdict(Route::Shell, line.to_owned(), "history-expansion", "it is the shell's history expansion")
        }
        Some(_) => verdict(Route::Shell, shell(rest), "forced-shell", "it begins with `!`"),
    }
}

fn by_content(trimmed: &str, context: &Context<'_>) -> Call {
    if context.model_asked && is_reply(trimmed) {
        return (Route::Ask, "reply", "it answers the model's question".to_owned());
    }
    let mut lines = trimmed.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("# "));
    let Some(first) = lines.next() else {
        return (Route::Shell, "comment", "it is a comment".to_owned());
    };
    if trimmed.contains('\n') {
        return command::of_paste(trimmed, first, lines, context);
    }
    command::of_line(first, context)
}

fn is_reply(trimmed: &str) -> bool {
    let mut replies = trimmed.split_whitespace().map(|word| word.trim_matches([',', '.', '!', ':']));
    replies.clone().count() <= 3 && replies.next().is_some_and(words::is_reply) && replies.all(words::is_reply)
}
