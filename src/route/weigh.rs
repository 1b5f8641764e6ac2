//! Decides a line by its exact rules or its weight, and reports the words that weighed most.

use super::head::{self, Group, Head, Kind, REDIRECTED};
use super::line::{Line, Shape, Word};
use super::words::{self, command};
use super::{Call, Context, Features, features, rules};
use crate::proto::{NameKind, Route};

/// Score above which a command runs unasked if it can change something and its name is an English word. Set on the folds of the
/// cross-validation (`config/route/report.md`): with a lower value, more sentences would run.
const RUN_CHANGING_ENGLISH: f32 = 0.8;
/// The same for a command that can't change anything; a wrong run of it counts three.
const RUN_READING_ENGLISH: f32 = 0.5;
/// The same for a command that can change something and whose name hardly ever begins a sentence: `chmod`, `./build`.
const RUN_CHANGING: f32 = 0.0;
/// The same for a command that can't change anything.
const RUN_READING: f32 = -0.4;
/// Width of the zone below these scores in which the user is always asked.
const GREY: f32 = 0.4;
/// Score above which a line goes to the shell if its first word doesn't resolve: nothing runs, and only an answer is lost.
const RUN_UNKNOWN: f32 = 2.4;
/// The same for a first word that is a tool which people have on other machines.
const RUN_TOOL: f32 = 0.5;
/// Score below which a line goes to the model unasked.
const ASK: f32 = 0.0;
/// The weight of a line that the user has run before.
const RAN_BEFORE: f32 = 3.0;
/// Limit on the arguments that are looked up on the disk.
const FILES_MAX: usize = 8;
/// Limit on the lines of a paste that are examined; a paste reveals its kind long before.
const PASTE_LINES_MAX: usize = 40;

/// Decides one line, or a text of several that is one command.
pub(super) fn line(text: &str, context: &Context<'_>) -> Call {
    let line = Line::read(text);
    let head = head::of(&line, context);
    // `please` may precede another command, as `sudo` does.
    let own = [line.words().first().map_or("", |word| word.text), head.name];
    let own = own.into_iter().find(|name| is_own_function(name, context));
    let asked = |name: &str, score| {
        let reason = format!("`{name}` is a function of yours, and the rest reads as a sentence");
        Call { route: Route::Confirm, rule: "own-function", reason, score }
    };
    if let Some(call) = rules::exact(text, &line, &head, context) {
        return match own {
            Some(name) if call.route == Route::Ask => asked(name, call.score),
            _ => call,
        };
    }
    let features = features::of(&line, &head, context);
    let repeated = if context.ran_before { RAN_BEFORE } else { 0.0 };
    let score = context.weights.score(&features) + repeated;
    let call = weighed(score, &line, &head);
    if let Some(name) = own.filter(|_| call.rule == "sentence") {
        return asked(name, score);
    }
    if call.route != Route::Shell && names_files(&line, &head, context) {
        return rules::shell(
            "arguments-exist",
            format!("`{}` is a command, and its arguments are files here", head.name),
        );
    }
    call
}

/// Returns whether a name belongs to a function that the person has defined, and to nothing else: `please`, `explain`. Such a
/// function exists only to be typed, so the user is asked about a line with it.
fn is_own_function(name: &str, context: &Context<'_>) -> bool {
    let names = context.names;
    names.kind(name) == Some(NameKind::Function) && !names.builtins.contains(name) && !names.programs.contains(name)
}

/// Returns whether every argument of a command is an option or an existing file: `cd there`, `less report`.
fn names_files(line: &Line<'_>, head: &Head<'_>, context: &Context<'_>) -> bool {
    let arguments = line.words().get(head.index + 1..).unwrap_or_default();
    let is_file = |word: &Word<'_>| matches!(word.shape, Shape::Flag) || (context.exists)(word.text);
    let named = arguments.iter().any(|word| word.shape != Shape::Flag);
    head.resolves() && named && arguments.len() <= FILES_MAX && arguments.iter().all(is_file)
}

fn weighed(score: f32, line: &Line<'_>, head: &Head<'_>) -> Call {
    let name = head.name;
    let call = |route, rule, reason| Call { route, rule, reason, score };
    let changes = can_change(line, head);
    if head.resolves() {
        let run = match (head.group, changes) {
            (Group::English, true) => RUN_CHANGING_ENGLISH,
            (Group::English, false) => RUN_READING_ENGLISH,
            (_, true) => RUN_CHANGING,
            (_, false) => RUN_READING,
        };
        return match score {
            _ if score > run => {
                call(Route::Shell, "first-word-resolves", format!("`{name}` is a command, and the rest fits it"))
            }
            _ if score < ASK.min(run - GREY) => {
                call(Route::Ask, "sentence", format!("`{name}` is a command, but the rest reads as a sentence"))
            }
            _ if changes => {
                call(Route::Confirm, "unsure", format!("it may be a sentence, and `{name}` could change something"))
            }
            _ => call(Route::Confirm, "unsure", format!("it may be a call of `{name}` or a sentence")),
        };
    }
    let run = match head.kind {
        // `<file>`: there is no command, so nothing could change.
        Kind::Operator if head.before & REDIRECTED != 0 => RUN_TOOL,
        _ if changes => RUN_CHANGING,
        _ if head.group == Group::Tool => RUN_TOOL,
        // `Sudo`, `LS`: no sentence begins with it, and the correction is only offered.
        Kind::Capitalised if words::command(&head.name.to_ascii_lowercase()) & command::ENGLISH == 0 => RUN_TOOL,
        _ => RUN_UNKNOWN,
    };
    if score <= run {
        return call(Route::Ask, "not-a-command", format!("`{name}` is not a command"));
    }
    match head.kind {
        Kind::Slip | Kind::Near | Kind::Capitalised => call(Route::Shell, "slip", rules::slip_reason(head)),
        _ => call(Route::Shell, "looks-like-a-command", format!("`{name}` is unknown, but it looks like a command")),
    }
}

/// Returns whether running the line could change something.
fn can_change(line: &Line<'_>, head: &Head<'_>) -> bool {
    head.resolves() && head.traits & command::CHANGES != 0
        || head.before & REDIRECTED != 0
        || line.acts
        || line.words().windows(2).any(|pair| {
            let writes = pair[0].shape == Shape::Redirect && pair[0].text.contains('>') && !pair[0].text.ends_with('&');
            writes && pair[1].text != "/dev/null"
        })
}

/// Decides a text of several lines as a whole.
pub(super) fn paste(text: &str, context: &Context<'_>) -> Call {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("# "));
    let Some(first) = lines.next() else {
        return rules::shell("comment", "it is a comment");
    };
    let whole = Line::read(text);
    // The body of a here-document isn't a line of a command.
    let document = text.contains("<<");
    let spans = document || spans_lines(first, &whole, context);
    let call = if spans && !document { line(text, context) } else { line(first, context) };
    if spans && call.route != Route::Ask {
        return call;
    }
    let (mut commands, mut sentences) = (0_usize, 0_usize);
    let others: Vec<&str> = lines.take(PASTE_LINES_MAX).collect();
    for other in statements(&others) {
        match line(&other, context) {
            Call { route: Route::Ask, rule, .. } if rule != "block-word" => sentences += 1,
            Call { route: Route::Shell, .. } => commands += 1,
            _ => {}
        }
    }
    match call.route {
        Route::Ask => call,
        _ if sentences > commands => rules::ask("paste-of-sentences", "most of its lines are sentences"),
        _ if sentences > 0 => Call {
            route: Route::Confirm,
            rule: "paste-mixed",
            reason: "some of its lines read as sentences".to_owned(),
            score: 0.0,
        },
        _ => call,
    }
}

/// The lines of a text; lines that belong to one string are joined.
fn statements(lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let closes = |count: &usize| !is_open(&rest[..*count].join("\n"));
        // A quote that is never closed is an apostrophe.
        let count = if is_open(first) { (2..=rest.len()).find(closes).unwrap_or(1) } else { 1 };
        found.push(rest[..count].join("\n"));
        rest = &rest[count..];
    }
    found
}

fn is_open(line: &str) -> bool {
    super::lex::pieces(line, super::lex::Reading::Shell)
        .any(|token| token.traits().is_some_and(|traits| traits.open.is_some()))
}

/// Returns whether a command begins on the first line and continues over the others: after an operator or an open bracket, in a
/// loop, or in a string.
fn spans_lines(first: &str, whole: &Line<'_>, context: &Context<'_>) -> bool {
    let head = head::of(whole, context);
    first.ends_with(['\\', '{', '(', '|'])
        || first.ends_with("&&")
        || first.ends_with("||")
        || head.kind == Kind::Keyword
        || is_open(first)
}

/// The features of a line that is weighed; `None` if an exact rule decides.
#[must_use]
pub fn features_of(text: &str, context: &Context<'_>) -> Option<Features> {
    let text = text.trim();
    let line = Line::read(text);
    let head = head::of(&line, context);
    if rules::exact(text, &line, &head, context).is_some() {
        return None;
    }
    Some(features::of(&line, &head, context))
}

/// A word and its share in the score.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The word as typed.
    pub word: String,
    /// Above 0 for the shell, below for the model.
    pub weight: f32,
}

/// The heaviest features of a line, heaviest first; empty if an exact rule decides.
#[must_use]
pub fn evidence(text: &str, context: &Context<'_>) -> Vec<Evidence> {
    let text = text.trim();
    let line = Line::read(text);
    let head = head::of(&line, context);
    let Some(features) = features_of(text, context) else { return Vec::new() };
    let mut sums = [0.0_f32; super::line::WORDS_MAX + 1];
    for (index, place) in features.list() {
        if let Some(sum) = sums.get_mut(usize::from(*place)) {
            *sum += context.weights.of(*index);
        }
    }
    let words = line.words().get(head.index..).unwrap_or_default();
    let pairs = words.iter().zip(sums).filter(|(_, weight)| *weight != 0.0);
    let mut all: Vec<Evidence> = pairs.map(|(word, weight)| Evidence { word: word.text.to_owned(), weight }).collect();
    all.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
    all
}

/// The line with its misspelt command corrected.
#[must_use]
pub fn correction(text: &str, context: &Context<'_>) -> Option<String> {
    let line = Line::read(text);
    let head = head::of(&line, context);
    let word = line.words().get(head.index)?;
    let (before, behind) = (&text[..word.start], &text[word.start + word.text.len()..]);
    let meant = match (head.kind, head.meant) {
        (Kind::Slip | Kind::Near, Some(meant)) => match word.text.strip_prefix(meant) {
            // The missing blank is inserted: `cd..`, `cat-n`.
            Some(rest) if rest.starts_with(['.', '-']) => format!("{meant} {rest}"),
            _ => meant.to_owned(),
        },
        (Kind::Capitalised, _) => head.name.to_ascii_lowercase(),
        _ => return None,
    };
    let known = meant.split(' ').next().is_some_and(|first| context.names.kind(first).is_some());
    known.then(|| format!("{before}{meant}{behind}"))
}
