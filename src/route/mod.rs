//! From a line and the session's facts to the line's destination and the reason. Pure: no I/O, no clock, and nothing is ever run
//! to find out.
//!
//! The order: forced by the user; a prefix (`:`, `!`, `$ `, `?`); an answer to the model's question; the user's earlier choice
//! for this very line; exact rules (`rules`: shell syntax, a single word, a label). Any other line is weighed: the features of
//! the line (`features`), a table of 4096 weights of one byte (`weights`), and a score that is a logarithm of odds. Running a
//! sentence is the worse error, twenty times worse if the command can change something, so between "surely a command" and "surely
//! a sentence" the user is asked.
//!
//! ```
//! use reedclaw::proto::{Names, Route};
//! use reedclaw::route::{Context, decide};
//!
//! let names = Names { programs: std::sync::Arc::new(["make".to_owned()].into()), ..Names::default() };
//! let context = Context::new(&names);
//! assert_eq!(decide("make test", &context).route, Route::Shell);
//! assert_eq!(decide("make me a sandwich", &context).route, Route::Ask);
//! ```

pub mod lex;

mod context;
mod features;
mod head;
mod line;
mod rules;
mod steady;
mod weigh;
mod weights;
mod words;

#[cfg(test)]
mod tests;

use crate::proto::{Route, RouteVerdict};
use context::Call;

pub use context::{Context, Forced};
pub use features::{Features, OPTION_WEIGHTS};
pub use steady::steady;
pub use weigh::{Evidence, correction, evidence, features_of};
pub use weights::{FINGERPRINT, STEP, WEIGHTS, Weights, lesson, slot};

/// Meta commands that may also begin with a slash, and whether more may follow: those that every assistant has.
const SLASH_WORDS: [(&str, bool); 6] =
    [("allowlist", true), ("clear", false), ("help", false), ("memory", true), ("model", true), ("new", false)];

/// Decides where `line` goes, with which text, and why.
#[must_use]
pub fn decide(line: &str, context: &Context<'_>) -> RouteVerdict {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return verdict(Route::Empty, String::new(), "empty", "nothing was typed");
    }
    if let Some(natural) = by_prefix(line, trimmed, context) {
        return match context.forced {
            Some(Forced::Key(route)) if route != natural.route => by_key(route, natural.text),
            _ => natural,
        };
    }
    if !matches!(context.forced, Some(Forced::Key(_)))
        && let Some(meta) = by_slash(trimmed, context)
    {
        return meta;
    }
    let text = |route| if route == Route::Ask { trimmed.to_owned() } else { line.to_owned() };
    let (route, rule, reason) = match context.forced {
        None => {
            let call = by_content(trimmed, context);
            let text = text(call.route);
            return RouteVerdict { score: call.score, ..verdict(call.route, text, call.rule, call.reason) };
        }
        Some(Forced::Key(route)) => return by_key(route, text(route)),
        Some(Forced::Mode(route)) => (route, "mode", "you set the mode with :mode"),
        Some(Forced::Hook(route)) => (route, "hook", "the route hook of your config says so"),
        Some(Forced::Prefixes) => (Route::Shell, "prefixes-decide", "only the prefixes decide (route.mode)"),
    };
    verdict(route, text(route), rule, reason)
}

fn by_key(route: Route, text: String) -> RouteVerdict {
    verdict(route, text, "forced-by-key", "you switched it with Ctrl-T")
}

/// Returns whether a text, such as a model's answer, ends with a question to the user.
#[must_use]
pub fn ends_with_question(text: &str) -> bool {
    text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | ')' | '"')).ends_with(['?', '？'])
}

fn verdict(route: Route, text: String, rule: &'static str, reason: impl Into<String>) -> RouteVerdict {
    let score = match route {
        Route::Shell => rules::CERTAIN,
        Route::Ask => -rules::CERTAIN,
        _ => 0.0,
    };
    RouteVerdict { route, text, rule, reason: reason.into(), score }
}

/// `:word`, `!command`, `$ command`, `?question`.
fn by_prefix(line: &str, trimmed: &str, context: &Context<'_>) -> Option<RouteVerdict> {
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
        '!' => Some(by_bang(line, rest, &shell, context)),
        '$' if rest.starts_with([' ', '\t']) && !rest.trim().is_empty() => {
            Some(verdict(Route::Shell, shell(rest), "forced-shell", "it begins with `$ `"))
        }
        '?' if !rest.trim().is_empty() => {
            Some(verdict(Route::Ask, rest.trim().to_owned(), "forced-ask", "it begins with `?`"))
        }
        _ => None,
    }
}

/// `/help` and the like, as in other assistants; a path of that name takes precedence.
fn by_slash(trimmed: &str, context: &Context<'_>) -> Option<RouteVerdict> {
    let word = trimmed.split_whitespace().next()?;
    let (name, takes_more) = SLASH_WORDS.iter().find(|(name, _)| word.strip_prefix('/') == Some(name))?;
    let is_meta = (*takes_more || word == trimmed) && !(context.exists)(word);
    let reason = format!("it begins with /{name}, which is :{name}, and no file is called so");
    is_meta.then(|| verdict(Route::Meta, format!(":{}", &trimmed[1..]), "slash-word", reason))
}

/// `!ls` forces the shell; `!!`, `!$`, `!-2`, `!12`, `!ls:p` and `!WORD` without such a command are its history expansion, and
/// `! cmd` its negation.
fn by_bang(line: &str, rest: &str, shell: &dyn Fn(&str) -> String, context: &Context<'_>) -> RouteVerdict {
    if rest.len() > 1 && rest.bytes().all(|byte| byte == b'!') {
        return verdict(Route::Ask, format!("!{rest}"), "exclamation", "it is exclamation marks only");
    }
    let (word, modifier) = rest.split_once(':').map_or((rest, None), |(word, modifier)| (word, Some(modifier)));
    let is_word = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-.+".contains(c));
    let is_event = is_word && !rest.contains(char::is_whitespace) && {
        modifier.is_some() || context.names.kind(word).is_none() && !(context.is_path)(word)
    };
    match rest.chars().next() {
        None | Some(' ' | '\t') => verdict(Route::Shell, line.to_owned(), "negation", "`!` negates a command's status"),
        Some(first) if is_event || matches!(first, '!' | '$' | '^' | '*' | '#' | '?' | ':' | '-' | '0'..='9') => {
            verdict(Route::Shell, line.to_owned(), "history-expansion", "it is the shell's history expansion")
        }
        Some(_) => verdict(Route::Shell, shell(rest), "forced-shell", "it begins with `!`"),
    }
}

fn by_content(trimmed: &str, context: &Context<'_>) -> Call {
    if context.model_asked && is_reply(trimmed) {
        return rules::ask("reply", "it answers the model's question");
    }
    match context.answered {
        Some(Route::Shell) => return rules::shell("remembered", "you sent this very line to the shell before"),
        Some(Route::Ask) => return rules::ask("remembered", "you sent this very line to the model before"),
        _ => {}
    }
    // The shell asks for the rest of a block.
    if matches!(trimmed.split('#').next().unwrap_or_default().trim(), "(" | "{") && !trimmed.contains('\n') {
        return rules::shell("syntax", "it begins a block of the shell");
    }
    if trimmed.contains('\n') { weigh::paste(trimmed, context) } else { weigh::line(trimmed, context) }
}

/// Limit on the words of a reply.
const REPLY_WORDS_MAX: usize = 4;

fn is_reply(trimmed: &str) -> bool {
    let mut replies = trimmed.split_whitespace().map(|word| word.trim_matches([',', '.', '!', ':', ')']));
    replies.clone().count() <= REPLY_WORDS_MAX && replies.all(words::is_reply)
}
