//! The router's questions at Enter: where an ambiguous line goes, the correction of a slip, `cd`
//! for a directory, what was learned, and the last failure. It must not know how a line is weighed.

use std::sync::Arc;

use nu_ansi_term::Color;

use super::editing::state::{self, Learned};
use super::hub::{Flow, NOT_FOUND, Repl};
use crate::config::RouteMode;
use crate::ops::{history, routes};
use crate::proto::{Failure, Route, RouteVerdict};
use crate::render::sanitise;
use crate::render::text::escape_visible;
use crate::repl::answer;
use crate::route::{self, Context};

/// The person's choice of a line's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The line that was offered in its place.
    Offered,
    Run,
    Ask,
    Cancel,
}

/// Reads the answer if another line is offered.
fn way_with_offer(keys: &[u8]) -> Option<Way> {
    if matches!(keys, b"y" | b"Y") { Some(Way::Offered) } else { way(keys) }
}

/// Reads the answer from a lone key; Enter, Esc and the end of input run nothing.
fn way(keys: &[u8]) -> Option<Way> {
    match keys {
        b"r" | b"R" => Some(Way::Run),
        b"a" | b"A" | b"?" => Some(Way::Ask),
        b"c" | b"C" | b"q" | b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(Way::Cancel),
        _ => None,
    }
}

/// Reads a yes to the offer to ask the model.
fn yes_ask(keys: &[u8]) -> Option<bool> {
    match keys {
        b"a" | b"A" | b"?" => Some(true),
        b"c" | b"n" | b"N" | b"q" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(false),
        _ => None,
    }
}

/// Settles where a line goes: asks if it may be either, or if it seems to be a slip or a directory. `None` if the
/// person wants nothing done.
pub(super) fn settle_route(
    repl: &mut Repl,
    line: &str,
    verdict: RouteVerdict,
    hidden: bool,
) -> Result<Option<RouteVerdict>, Flow> {
    if verdict.rule == "forced-by-key" {
        let natural = state::read(&repl.state).natural_verdict(line).route;
        if natural != verdict.route && matches!(natural, Route::Shell | Route::Ask | Route::Confirm) {
            learn(repl, line, verdict.route, hidden);
        }
        return Ok(Some(verdict));
    }
    if verdict.route == Route::Shell {
        if let Some(offered) = offer_for(repl, line, &verdict) {
            return ask_about_offer(repl, verdict, offered);
        }
        if !repl.heading.differs(line, &verdict) {
            return Ok(Some(verdict));
        }
    } else if verdict.route == Route::Confirm && history::has_run(&repl.store(), line) {
        let repeated = |context: &Context<'_>| route::decide(line, &Context { ran_before: true, ..*context });
        let again = state::read(&repl.state).with_context(line, repeated);
        if again.route == Route::Shell {
            return Ok(Some(again));
        }
    } else if verdict.route != Route::Confirm && !repl.heading.differs(line, &verdict) {
        return Ok(Some(verdict));
    }
    ask_way(repl, line, verdict, hidden)
}

/// The question with three answers.
fn ask_way(repl: &mut Repl, line: &str, verdict: RouteVerdict, hidden: bool) -> Result<Option<RouteVerdict>, Flow> {
    repl.console.line(&repl.console.paint(Color::Yellow.bold(), &format!("{}:", sanitise(&verdict.reason))));
    match repl.put_own_question("run it [r]  ask the model [a]  cancel [Enter, Esc]", way, Way::Cancel)? {
        Way::Run => {
            repl.console.line("run");
            learn(repl, line, Route::Shell, hidden);
            Ok(Some(answered(Route::Shell, line.to_owned())))
        }
        Way::Ask => {
            repl.console.line("ask");
            learn(repl, line, Route::Ask, hidden);
            Ok(Some(answered(Route::Ask, line.trim().to_owned())))
        }
        Way::Cancel | Way::Offered => {
            repl.console.line("cancelled: nothing was run");
            Ok(None)
        }
    }
}

/// The line that was probably meant: a slip corrected, or `cd` for a directory alone.
fn offer_for(repl: &Repl, line: &str, verdict: &RouteVerdict) -> Option<String> {
    let state = state::read(&repl.state);
    if verdict.rule == "forced-shell" && !state.other_grammar {
        let word = line.trim_end().strip_prefix('!').filter(|word| !word.contains(char::is_whitespace))?;
        drop(state);
        return history::last_with(&repl.store(), word);
    }
    if verdict.rule == "slip" {
        return state.with_context(line, |context| route::correction(&verdict.text, context));
    }
    let word = line.trim();
    let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "\"'\\$`*?[;&|<>(){}!".contains(c));
    let is_clear = state.names.enters_directories || state.names.kind(word).is_some();
    if !plain || state.other_grammar || is_clear {
        return None;
    }
    let is_directory = state.resolve(word).is_some_and(|path| path.is_dir());
    is_directory.then(|| format!("cd {}{word}", if word.starts_with('-') { "-- " } else { "" }))
}

fn ask_about_offer(repl: &mut Repl, verdict: RouteVerdict, offered: String) -> Result<Option<RouteVerdict>, Flow> {
    let shown = repl.console.paint(Color::Cyan.normal(), &escape_visible(&offered));
    let reason = match verdict.rule {
        "slip" => verdict.reason.clone(),
        "forced-shell" => format!("`!{0}` runs `{0}` here, and repeats a line in bash", verdict.text.trim()),
        _ => format!("`{}` is a directory", verdict.text.trim()),
    };
    repl.console.line(&format!("{}. Run {shown} instead?", sanitise(&reason)));
    let words = "yes [y]  run as typed [r]  ask the model [a]  cancel [Enter, Esc]";
    match repl.put_own_question(words, way_with_offer, Way::Cancel)? {
        Way::Offered => {
            repl.console.line("yes");
            let reason = format!("you took `{offered}` for it");
            Ok(Some(RouteVerdict { reason, ..answered(Route::Shell, offered) }))
        }
        Way::Run => {
            repl.console.line("run as typed");
            Ok(Some(verdict))
        }
        Way::Ask => {
            repl.console.line("ask");
            Ok(Some(answered(Route::Ask, verdict.text.trim().to_owned())))
        }
        Way::Cancel => {
            repl.console.line("cancelled: nothing was run");
            Ok(None)
        }
    }
}

/// Remembers that a line goes `route` whatever the rules decide: stores the exact line, and moves the weights by a small step.
fn learn(repl: &mut Repl, line: &str, route: Route, hidden: bool) {
    if !repl.runtime.settings().route.learn || hidden {
        return;
    }
    let (line, to_shell) = (line.trim(), route == Route::Shell);
    let steps = state::read(&repl.state).with_context(line, |context| {
        let features = route::features_of(line, context);
        features.map(|features| route::lesson(&features, context.weights, to_shell)).unwrap_or_default()
    });
    {
        let mut state = repl.state.write();
        let mut learned = Learned::clone(&state.learned);
        learned.answers.insert(line.to_owned(), route);
        steps.iter().for_each(|(index, step)| learned.weights.shift(*index, *step));
        state.learned = Arc::new(learned);
    }
    routes::learn(&mut repl.store(), line, to_shell, &steps);
}

/// `:route forget`.
pub(super) fn forget_routes(repl: &mut Repl, argument: &str) {
    if argument != "forget" {
        return repl
            .console
            .failure(&Failure::user(format!(":route {} is unknown", sanitise(argument))).hint(":route forget"));
    }
    let forgotten = routes::forget(&mut repl.store());
    match forgotten {
        Ok(lines) => {
            repl.state.write().learned = Arc::default();
            let noun = if lines == 1 { "line" } else { "lines" };
            repl.console.notice(&format!("Forgot {lines} {noun} and what was learned from it."));
        }
        Err(failure) => repl.console.failure(&failure),
    }
}

/// `:mode`.
pub(super) fn set_mode(repl: &mut Repl, name: &str) {
    if !name.is_empty() {
        let Some(mode) = RouteMode::of(name) else {
            return repl.console.failure(
                &Failure::user(format!(":mode {} is unknown", sanitise(name)))
                    .hint(":mode auto, :mode shell, :mode ask or :mode shadow"),
            );
        };
        repl.state.write().mode = mode;
    }
    let mode = state::read(&repl.state).mode;
    repl.console.notice(match mode {
        RouteMode::Auto => "a command goes to the shell, a sentence to the model",
        RouteMode::Shell => "every line goes to the shell; ?LINE to the model",
        RouteMode::Ask => "every line goes to the model; !LINE to the shell",
        RouteMode::Shadow => "every line goes to the shell, ?LINE to the model; the prompt tells what auto would do",
    });
}

/// `:why`: the rule, the words that weighed most, and how to change it; and the last failure, if it was one.
pub(super) fn explain_route(repl: &mut Repl, before: Option<&(String, RouteVerdict)>) -> Flow {
    let Some((line, verdict)) = before else {
        repl.console.notice("no line has gone anywhere yet");
        return Flow::Continue;
    };
    let destination = match verdict.route {
        Route::Shell => "the shell",
        Route::Ask => "the model",
        Route::Meta => "ReedClaw",
        Route::Empty | Route::Confirm => "nowhere",
    };
    repl.console.outside(&format!("{line}\n"));
    repl.console.paragraph(&format!("went to {destination}: {}", verdict.reason));
    let weighed = matches!(verdict.rule, "first-word-resolves" | "sentence" | "not-a-command" | "answered")
        || matches!(verdict.rule, "looks-like-a-command" | "slip");
    if weighed && let Some(words) = heaviest_words(repl, line) {
        repl.console.paragraph(&words);
    }
    repl.console.notice(&format!("rule {}; Ctrl-T flips a line, ! forces the shell, ? the model", verdict.rule));
    let Some(status) = repl.failed.as_ref().map(|failed| failed.status) else { return Flow::Continue };
    if verdict.route != Route::Shell || repl.runtime.agent().current_model().is_none() {
        return Flow::Continue;
    }
    let what = if status == NOT_FOUND { "wasn't found".to_owned() } else { format!("failed with status {status}") };
    repl.console.line(&format!("it {what}:"));
    match repl.put_own_question("ask the model about it [a]  no [Enter, Esc]", yes_ask, false) {
        Ok(true) => {
            repl.console.line("ask");
            ask_about_failure(repl)
        }
        Ok(false) => {
            repl.console.line("no");
            Flow::Continue
        }
        Err(flow) => flow,
    }
}

fn heaviest_words(repl: &Repl, line: &str) -> Option<String> {
    const SHOWN: usize = 4;
    let evidence = state::read(&repl.state).with_context(line, |context| route::evidence(line, context));
    let words: Vec<String> = evidence
        .iter()
        .take(SHOWN)
        .map(|word| {
            let side = if word.weight > 0.0 { "shell" } else { "model" };
            format!("`{}` {:+.1} ({side})", escape_visible(&word.word), word.weight)
        })
        .collect();
    (!words.is_empty()).then(|| format!("weighed most: {}", words.join(", ")))
}

/// Asks the model about the last failure.
pub(super) fn ask_about_failure(repl: &mut Repl) -> Flow {
    repl.state.write().failed = false;
    let Some(failed) = repl.failed.take() else { return Flow::Continue };
    let question = format!(
        "The command `{}` failed with status {}. Why, and what should I do?",
        failed.command.trim(),
        failed.status
    );
    repl.console.outside(&format!("{question}\n"));
    answer::ask(repl, Some(&question), &question)
}

/// The verdict of a person.
fn answered(route: Route, text: String) -> RouteVerdict {
    RouteVerdict { route, text, rule: "answered", reason: "you said so".into(), score: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lone_key_runs_and_all_that_ends_input_cancels() {
        for keys in [&b"\x1b"[..], b"\x04", b"\x03", b"\r", b"n"] {
            assert_eq!((way(keys), yes_ask(keys)), (Some(Way::Cancel), Some(false)), "{keys:?}");
        }
        for keys in [&b"run"[..], b"rr", b"y", b"\x1b[A", b""] {
            assert_eq!(way(keys), None, "{keys:?}");
        }
        assert_eq!((way(b"r"), way(b"a")), (Some(Way::Run), Some(Way::Ask)));
        assert_eq!((way_with_offer(b"y"), way_with_offer(b"\r")), (Some(Way::Offered), Some(Way::Cancel)));
    }
}
