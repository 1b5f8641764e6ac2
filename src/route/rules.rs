//! Rules that need no weighing: syntax that only a shell has, a single word, a label with a colon. It must not know the weights.

use super::head::{ASSIGNED, Group, Head, Kind, WRAPPED};
use super::line::{Line, Shape, Word};
use super::words::{class, command};
use super::{Call, Context, words};
use crate::base::text::is_variable;
use crate::proto::Route;

/// The score that means "certain".
pub(super) const CERTAIN: f32 = 12.0;
/// The score of a rule's guess: an unknown single word.
const LIKELY: f32 = 1.5;

pub(super) fn shell(rule: &'static str, reason: impl Into<String>) -> Call {
    Call { route: Route::Shell, rule, reason: reason.into(), score: CERTAIN }
}

pub(super) fn ask(rule: &'static str, reason: impl Into<String>) -> Call {
    Call { route: Route::Ask, rule, reason: reason.into(), score: -CERTAIN }
}

/// The result of the first rule that decides a line, if one does.
pub(super) fn exact(text: &str, line: &Line<'_>, head: &Head<'_>, context: &Context<'_>) -> Option<Call> {
    let words = line.words();
    let Some(first) = words.first() else {
        return Some(ask("not-a-command", "it is an option without a command"));
    };
    if first.shape == Shape::Comment {
        return Some(of_comment(first.text));
    }
    let names_something = |name: &str| name.starts_with(|c: char| c.is_alphanumeric() || "/._~\"'".contains(c));
    if text.strip_prefix('@').is_some_and(names_something) && !head.resolves() {
        return Some(ask("mention", "`@` names what the question is about"));
    }
    if text.starts_with('^') && text[1..].contains('^') {
        return Some(shell("history-expansion", "it is the shell's history expansion"));
    }
    if let Some(call) = of_syntax(text, words, head, context) {
        return Some(call);
    }
    if head.index == 0 && context.names.known.contains(head.name) {
        return Some(shell("known-command", format!("`{}` is one of shell.known_commands", head.name)));
    }
    let arguments = words.get(head.index + 1..).unwrap_or_default();
    if head.name == "reedclaw" && head.resolves() && arguments.first().is_some_and(|word| begins_own(word, head)) {
        return Some(shell("own-command", "it is a command of `reedclaw`, whatever follows"));
    }
    if let Some(call) = of_arguments(arguments, head) {
        return Some(call);
    }
    let compares = |words: &[Word<'_>]| matches!(words[0].bare, "vs" | "versus") && words[1].bare.len() > 1;
    if words.windows(2).skip(1).any(compares) && head.traits & command::TEXT == 0 {
        return Some(ask("comparison", "it sets one thing against another"));
    }
    if head.group == Group::English
        && let Some(call) = of_english(words, line.flags, head)
    {
        return Some(call);
    }
    if let Some(call) = of_words_about_it(words, head) {
        return Some(call);
    }
    if head.kind == Kind::Colon {
        return Some(ask("label", format!("`{}` ends with a colon, as a label or a message does", head.name)));
    }
    if head.kind == Kind::Function && words.len() > 2 {
        return Some(ask("not-a-command", format!("`{}` is no command, but a word of a sentence", head.name)));
    }
    // `vi, notes` may be a typing error.
    let known = |word: &str| context.names.kind(word).is_some() || words::command(word) != 0;
    if head.kind == Kind::Ended && words.len() > 1 && !known(words[head.index].bare) {
        return Some(ask("punctuation", format!("`{}` ends as a word of a sentence does", head.name)));
    }
    let alone = words.len() == head.index + 1;
    (alone && (head.before == 0 || head.resolves() && is_run_by(words, head)))
        .then(|| of_single(&words[head.index], line.flags, head, context))
}

/// Returns whether a word after `reedclaw` is an option or a subcommand, so that its arguments aren't mistaken for a question.
fn begins_own(word: &Word<'_>, head: &Head<'_>) -> bool {
    word.shape == Shape::Flag || words::has_subcommand(head.name, word.text) == Some(true)
}

/// A command whose name is an English word, in a line that no shell user would type.
fn of_english(words: &[Word<'_>], flags: usize, head: &Head<'_>) -> Option<Call> {
    let name = head.name;
    let is_prose = |word: &Word<'_>| matches!(word.shape, Shape::Plain | Shape::Capital | Shape::Contraction);
    // `compare these two:` before pasted text; `scp notes host:` is a command.
    let announces = words.last().is_some_and(|last| last.end == b':') && words.iter().all(is_prose);
    if announces && words.len() > 2 && flags == 0 && head.before == 0 {
        return Some(ask("announcement", "it ends with a colon, as a sentence that announces something does"));
    }
    // `time in tokyo`: no command follows.
    let next = words.get(head.index + 1);
    let runs = head.kind == Kind::Command && head.traits & command::RUNS != 0;
    (runs && next.is_some_and(|next| next.class != 0 && !next.after_flag))
        .then(|| ask("runs-nothing", format!("`{name}` runs a command, and none follows")))
}

/// Words about a command or a path: its effect, or a question after a comma.
fn of_words_about_it(words: &[Word<'_>], head: &Head<'_>) -> Option<Call> {
    let arguments = words.get(head.index + 1..).unwrap_or_default();
    // `/var/log is full`, `./run.sh fails`
    let is_telling = |word: &Word<'_>| word.class & class::TELLS != 0 && !word.after_flag && word.bare.len() > 1;
    if head.kind == Kind::Path && arguments.first().is_some_and(is_telling) {
        return Some(ask("about-a-path", format!("`{}` says something about `{}`", arguments[0].text, head.name)));
    }
    // `wc -l gives 0, why`
    let comma = |pair: &[Word<'_>]| pair[0].end == b',' && pair[1].class & class::QUESTION != 0;
    // `chmod -R 777 / what did I just do`
    let turns = |three: &[Word<'_>]| {
        let [first, second, third] = [three[0].class, three[1].class, three[2].class];
        first & class::QUESTION != 0
            && second & class::AUXILIARY != 0
            && third & (class::PRONOUN | class::DETERMINER) != 0
    };
    if head.traits & command::TEXT == 0 && (arguments.windows(2).any(comma) || arguments.windows(3).any(turns)) {
        return Some(ask("question", "a question is a part of it"));
    }
    // `please continue`, `please chmod +x all scripts`
    let polite = head.before & WRAPPED != 0 && words[0].class & class::STRONG != 0;
    let is_english = arguments.iter().any(|word| word.class != 0) || arguments.is_empty() && words::is_chat(head.name);
    (polite && is_english).then(|| ask("polite", format!("`{}` and English words after it", words[0].text)))
}

/// Returns whether the words before a command are there to run it: `nice work` is praise, `sudo work` and `nice ls` are not.
fn is_run_by(words: &[Word<'_>], head: &Head<'_>) -> bool {
    let english = |word: &Word<'_>| words::command(word.text) & command::ENGLISH != 0;
    let runs = |word: &Word<'_>| !english(word) || matches!(word.text, "env" | "time");
    head.before & WRAPPED == 0 || head.group != Group::English || words[..head.index].iter().all(runs)
}

/// Commands without arguments: a person who adds words is writing a sentence.
const WORDLESS: [&str; 18] = [
    "bg",
    "break",
    "clear",
    "continue",
    "deactivate",
    "dirs",
    "exit",
    "false",
    "free",
    "halt",
    "jobs",
    "logout",
    "poweroff",
    "pwd",
    "reboot",
    "return",
    "true",
    "whoami",
];

/// Commands that assign the variables after them.
const SETTERS: [&str; 6] = ["alias", "declare", "export", "local", "readonly", "typeset"];
/// The actions of `service NAME`.
const SERVICE_VERBS: [&str; 7] = ["force-reload", "reload", "restart", "start", "status", "stop", "try-restart"];

/// A command whose arguments occur in no sentence, or no command: a directory for `cd`, options with only paths and addresses,
/// words after `exit`.
fn of_arguments(arguments: &[Word<'_>], head: &Head<'_>) -> Option<Call> {
    let name = head.name;
    if arguments.is_empty() {
        return None;
    }
    let ends_machine = matches!(name, "halt" | "poweroff" | "reboot");
    let says = |word: &Word<'_>| word.shape.is_word() && !(ends_machine && word.text == "now") && !word.after_flag;
    let is_english = if name == "return" { says(&arguments[0]) } else { arguments.iter().all(says) };
    if head.resolves() && WORDLESS.binary_search(&name).is_ok() && is_english {
        return Some(ask("takes-no-words", format!("`{name}` takes no words")));
    }
    if head.kind != Kind::Command {
        return None;
    }
    if name == "read" && arguments.len() > 1 && arguments[0].class & class::DETERMINER != 0 {
        return Some(ask(
            "reads-nothing",
            format!("`read` takes names of variables, and `{}` is none", arguments[0].text),
        ));
    }
    let asks = arguments.iter().any(|word| word.end == b'?' || word.class & class::QUESTION != 0);
    if name == "echo" && head.before == 0 && !asks {
        return Some(shell("prints", "`echo` only prints what follows"));
    }
    let texts = (arguments.first().map(|word| word.text), arguments.get(1).map(|word| word.text), arguments.len());
    let ends = |at: usize| arguments.get(at).is_none_or(|word| word.shape.is_operator());
    if name == "who" && matches!(texts, (Some("am"), Some("i" | "I"), _)) && ends(2) {
        return Some(shell("who-am-i", "`who am i` is a call of `who`"));
    }
    if matches!(name, "bg" | "disown" | "fg" | "jobs" | "kill" | "wait") && arguments[0].text.starts_with('%') {
        return Some(shell("job", format!("`{name}` with a `%` is about a job")));
    }
    let is_name = |shape| matches!(shape, Shape::Plain | Shape::Capital | Shape::Upper | Shape::Ident | Shape::Foreign);
    if matches!(name, "cd" | "pushd") && texts.2 == 1 && is_name(arguments[0].shape) && arguments[0].class == 0 {
        return Some(shell("directory", format!("`{name}` with one word is a change of directory")));
    }
    // `alias ll='ls -l'`, `export X=1`
    if arguments[0].shape == Shape::Assign && SETTERS.contains(&name) {
        return Some(shell("assignment", format!("`{name}` sets what follows")));
    }
    if name == "service" && texts.2 == 2 && SERVICE_VERBS.contains(&arguments[1].text) {
        return Some(shell("subcommand", format!("`{name}` is asked to {}", arguments[1].text)));
    }
    let has_option = arguments.iter().any(|word| word.shape == Shape::Flag);
    let plain = |word: &Word<'_>| {
        matches!(
            word.shape,
            Shape::Flag | Shape::Path | Shape::File | Shape::Url | Shape::Glob | Shape::Quoted | Shape::Expansion
        )
    };
    (has_option && arguments.iter().all(plain))
        .then(|| shell("options-and-paths", format!("`{name}` is a command, with options and paths only")))
}

fn of_comment(text: &str) -> Call {
    if text[1..].starts_with(|c: char| c.is_ascii_digit() || c == '#') {
        return ask("numbered", "`#` and a number or a heading begin a sentence");
    }
    if text.starts_with("#include ") {
        return ask("code", "it looks like code of another language");
    }
    shell("comment", "it is a comment")
}

fn of_syntax(text: &str, words: &[Word<'_>], head: &Head<'_>, context: &Context<'_>) -> Option<Call> {
    let shape = |index: usize| words.get(index).map(|word| word.shape);
    let first = &words[0];
    if first.shape == Shape::Assign && shape(1) == Some(Shape::Call) {
        return Some(shell("assignment", "it sets an array"));
    }
    if let Some(call) = of_environment(words, head) {
        return Some(call);
    }
    if head.kind == Kind::Nothing {
        let redirects = words.iter().any(|word| word.shape == Shape::Redirect);
        return match () {
            () if first.shape == Shape::Assign => Some(shell("assignment", "it sets a variable")),
            () if redirects => Some(shell("redirection", "it is a redirection")),
            () => None,
        };
    }
    if KEYS_AMONG.iter().any(|key| text.contains(key)) && is_wordless(words) {
        return Some(keys());
    }
    if first.shape == Shape::Redirect {
        let closes = |(at, _): (usize, &str)| text[at + 2..].starts_with(|c: char| c.is_ascii_alphabetic());
        let is_tagged = text.match_indices("</").any(closes) || text.contains("=\"");
        let markup = first.text == "<" && text.ends_with('>') && is_tagged;
        if !markup && begins_with_key(text) {
            return Some(keys());
        }
        return match words.len() {
            1 => Some(ask("unfinished", "nothing follows the redirection")),
            2 if !markup => Some(shell("redirection", "it is a redirection")),
            _ if markup => Some(ask("code", "it looks like markup")),
            _ => None,
        };
    }
    if first.shape == Shape::Open && shape(1).is_some_and(|shape| matches!(shape, Shape::Open | Shape::Call)) {
        return Some(shell("syntax", "`((` is shell arithmetic"));
    }
    if text.strip_prefix("()").is_some_and(|rest| rest.trim_start().starts_with('{')) {
        return Some(shell("syntax", "`() {` is a function of zsh without a name"));
    }
    if matches!(first.shape, Shape::Semicolon | Shape::Close | Shape::Pipe | Shape::AndOr) {
        return Some(ask("no-command", "no command precedes it"));
    }
    if head.index == 0 && shape(1) == Some(Shape::Call) && head.kind != Kind::Keyword {
        let defines = shape(2) == Some(Shape::Close)
            && words.get(3).is_some_and(|body| body.text.starts_with('{') || body.shape == Shape::Open);
        return Some(if defines {
            shell("function-definition", "it defines a shell function")
        } else {
            ask("code", "it looks like code of another language")
        });
    }
    if head.kind == Kind::Keyword { of_keyword(head, words.get(head.index + 1..)?, context) } else { None }
}

/// Returns whether no word of a line is English or ends like a sentence.
fn is_wordless(words: &[Word<'_>]) -> bool {
    words.iter().all(|word| word.class == 0 && word.end == 0)
}

/// A variable before a command, without any English: no sentence begins like that.
fn of_environment(words: &[Word<'_>], head: &Head<'_>) -> Option<Call> {
    let first = &words[0];
    // `DEBUG=1 mytool all`; in `x=1 then y` the text may be algebra.
    let sets = first.shape == Shape::Assign && first.text.starts_with(|c: char| c.is_ascii_uppercase());
    // `x= 5`
    let empties = words.len() == 2 && first.text.strip_suffix('=').is_some_and(is_variable);
    (is_wordless(words) && (sets && head.kind != Kind::Nothing || empties))
        .then(|| shell("assignment", format!("`{}` is set for the command after it", first.text)))
}

/// Keys that a manual lists after some text: `/pattern<Enter>n`.
const KEYS_AMONG: [&str; 3] = ["<Enter>", "<Esc>", "<Tab>"];

fn keys() -> Call {
    shell("keys", "it is keys as manuals write them, and redirections to the shell")
}

/// Names of keys, as manuals write them.
const KEYS: [&str; 22] = [
    "Alt",
    "ArrowDown",
    "ArrowLeft",
    "ArrowRight",
    "ArrowUp",
    "Backspace",
    "Ctrl",
    "Del",
    "Delete",
    "Down",
    "End",
    "Enter",
    "Esc",
    "Home",
    "Insert",
    "Left",
    "PageDown",
    "PageUp",
    "Right",
    "Shift",
    "Space",
    "Tab",
];

/// Returns whether a text begins with a key from a manual, such as `<Esc>`, `<Ctrl x>`, `</>text<Enter>`, and not with a tag of a
/// page.
fn begins_with_key(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('<') else { return false };
    // `<>>` is the key `>`.
    let Some((end, _)) = inner.char_indices().skip(1).find(|(_, c)| *c == '>') else { return false };
    let (key, rest) = (&inner[..end], &inner[end + 1..]);
    let is_function_key = |name: &str| {
        name.strip_prefix('F')
            .is_some_and(|digits| digits.len() < 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_key = |name: &str| name.chars().count() == 1 || KEYS.binary_search(&name).is_ok() || is_function_key(name);
    let is_english = |word: &str| words::function(word) != 0;
    key.split(' ').all(is_key) && rest.is_ascii() && (rest.ends_with("<Enter>") || !rest.split(' ').any(is_english))
}

/// Limit on the words after `if` or `for` in a line that doesn't end the command.
const UNCLOSED_WORDS_MAX: usize = 6;

/// Returns whether a word after `if` is a command.
fn runs(word: &Word<'_>, context: &Context<'_>) -> bool {
    matches!(word.text, "[" | "[[" | "!" | "((") || context.names.kind(word.text).is_some()
}

/// Reserved words, if the grammar that they need is present.
fn of_keyword(head: &Head<'_>, rest: &[Word<'_>], context: &Context<'_>) -> Option<Call> {
    let has = |wanted: &[&str]| rest.iter().any(|word| wanted.contains(&word.text));
    let ends = rest.iter().any(|word| matches!(word.shape, Shape::Semicolon | Shape::Newline));
    let text = |index: usize| rest.get(index).map_or("", |word| word.text);
    // A loop that continues in the next line: nothing in it may be English.
    let wordless = rest.iter().all(|word| word.class == 0 || word.text == "in") && rest.len() <= UNCLOSED_WORDS_MAX;
    let begins = wordless && rest.first().is_some_and(|word| runs(word, context));
    let closed = match head.name {
        "[[" => true,
        "for" | "select" => {
            // The variable's name may be `i`, which is an English word too.
            let mut items = rest.iter().skip(2);
            let listed = items.clone().all(|word| word.class == 0) && rest.len() <= UNCLOSED_WORDS_MAX
                || items.all(|word| matches!(word.shape, Shape::Number | Shape::Path | Shape::Glob | Shape::Expansion));
            (ends && has(&["do"]))
                || (text(0).len() == 1 && text(1) == "(" && has(&[")"]))
                || (text(0) == "(" && text(1) == "(")
                || (text(1) == "in" && (listed || ends))
        }
        // `if [[ … ]] {`, `for i (…) …`: the short forms of zsh.
        "if" => ends && has(&["then"]) || begins || text(0) == "[[" && has(&["]]"]) && has(&["{"]),
        "while" | "until" => ends && has(&["do"]) || begins || text(0) == "[[" && has(&["]]"]) && has(&["{"]),
        "case" => text(1) == "in" && (rest.len() == 2 || has(&[")"])),
        "function" => has(&["{"]) || (text(1) == "(" && text(2) == ")"),
        "coproc" => rest.first().is_some_and(|word| word.text == "{" || runs(word, context)),
        // `x=1; done` is part of a script.
        _ if head.before & ASSIGNED != 0 => true,
        // Words that only a script has: the shell reports the error in them.
        "elif" | "fi" | "esac" if rest.is_empty() => true,
        "do" | "then" | "else" | "elif" | "done" | "fi" | "esac" | "]]" => {
            return Some(ask("block-word", format!("no command begins with `{}`", head.name)));
        }
        _ => false,
    };
    if closed {
        return Some(shell("syntax", "it is a compound command of the shell"));
    }
    rest.is_empty().then(|| ask("unfinished", format!("`{}` alone is no command", head.name)))
}

/// One word and perhaps options.
fn of_single(word: &Word<'_>, flags: usize, head: &Head<'_>, context: &Context<'_>) -> Call {
    let name = head.name;
    let resolves = |what: &str| shell("first-word-resolves", format!("`{name}` is {what}"));
    match head.kind {
        Kind::Command => return resolves("a command"),
        Kind::Own => return resolves("an alias or a function of yours"),
        Kind::Path => return resolves("a path"),
        Kind::Expansion => return resolves("an expansion"),
        Kind::Tool => return shell("looks-like-a-command", format!("`{name}` is a known tool, not installed here")),
        Kind::PathLike | Kind::File => {
            return Call { score: LIKELY, ..shell("looks-like-a-path", format!("`{name}` looks like a file to run")) };
        }
        _ => {}
    }
    if words::is_chat(word.bare) && flags == 0 && head.before == 0 {
        return ask("chat", "it is a word that one says to a person");
    }
    if head.kind != Kind::Quoted && (context.is_path)(name) {
        return shell("first-word-resolves", format!("`{name}` is a path"));
    }
    match head.kind {
        Kind::Slip | Kind::Capitalised => Call { score: LIKELY, ..shell("slip", slip_reason(head)) },
        Kind::Near | Kind::Plain | Kind::Name => {
            let reason = format!("`{name}` alone may be a command that is not installed; the shell will say");
            Call { score: LIKELY, ..shell("one-unknown-word", reason) }
        }
        Kind::Other if word.shape == Shape::Glob && word.end == 0 && name.starts_with(['[', '*', '{']) => {
            Call { score: LIKELY, ..shell("pattern", format!("`{name}` is a pattern of the shell")) }
        }
        Kind::Ended => ask("punctuation", format!("`{name}` ends as a word of a sentence does")),
        _ => ask("not-a-command", format!("`{name}` is not a command")),
    }
}

/// Reason why a word counts as a slip.
pub(super) fn slip_reason(head: &Head<'_>) -> String {
    match head.meant {
        Some(meant) => format!("`{}` is not a command, `{meant}` is similar", head.name),
        None => format!("`{}` looks like a command written in capitals", head.name),
    }
}
