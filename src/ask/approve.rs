//! The question whether a model's call may run: what it would do, why it is asked, and a lone key that answers. Any
//! answer that isn't plainly yes is no, and a yes counts only once the whole text was shown.

use super::hunks::{choose_hunks, rewrite};
use super::pager::{Pager, look};
use super::question::{Asking, put};
use crate::agent::{Cancel, Crossing};
use crate::console::Console;
use crate::proto::action::{Action, KeptPaths};
use crate::proto::tool::{Answer, Question};
use crate::render::patch::FilePatch;
use crate::render::sheet::{Look, Sheet};
use crate::render::text::escape_visible;
use crate::render::{asked_rows, change_rows, chosen, named, question_sheet};
use crate::share::RemoteAnswer;

/// The choice of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Once,
    Always,
    /// Offered if a second key is asked for.
    Filled,
    Edit,
    MyShell,
    Hunks,
    Whole,
    No,
    NoBecause,
    Stop,
    /// No key came in time.
    Late,
}

/// The keys that may count, and the text of each; the other keys of the row are always there.
const KEYS: [(&[u8], Key, &str); 7] = [
    (b"y", Key::Once, "run once [y]"),
    (b"a", Key::Always, "always, in this project [a]"),
    (b"h", Key::Hunks, "by hunk [h]"),
    (b"e", Key::Edit, "edit [e]"),
    (b"s", Key::MyShell, "in my shell [s]"),
    (b"f", Key::Whole, "whole file [f]"),
    (b"w", Key::NoBecause, "no, and say why [w]"),
];
const NO: &str = "no [n, Enter]";
/// The row of keys before the whole text was shown.
const MORE: &str = "down [Space, j]  up [b, k]  end [G]  no [n, Enter]";

/// Reads a lone key; `offered` are the keys that count here.
fn key(keys: &[u8], offered: &[Key]) -> Option<Key> {
    if matches!(keys, b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x04") {
        return Some(Key::No);
    }
    let keys = if keys == b"o" || keys == b"O" { b"y" } else { keys };
    let found = KEYS.iter().find(|(letter, ..)| keys.eq_ignore_ascii_case(letter));
    found.map(|(_, key, _)| *key).filter(|key| offered.contains(key))
}

/// The row of keys.
fn row(offered: &[Key], is_change: bool) -> String {
    let word = |(_, key, text): &(&[u8], Key, &'static str)| match (key, is_change) {
        (Key::Once, true) => "accept [y]",
        _ => text,
    };
    let mut words: Vec<&str> = KEYS.iter().filter(|(_, key, _)| offered.contains(key)).map(word).collect();
    words.push(NO);
    words.join("  ")
}

/// The answers to a call.
fn offered(question: &Question, has_shell: bool) -> Vec<Key> {
    if question.only_own_shell {
        return vec![Key::MyShell];
    }
    let mut offered = vec![Key::Once];
    if question.may_always {
        offered.push(Key::Always);
    }
    if matches!(question.action, Action::Shell { .. }) {
        offered.push(Key::Edit);
        offered.extend(has_shell.then_some(Key::MyShell));
    }
    if matches!(question.action, Action::Keep { .. }) {
        offered.extend((!question.changes.is_empty()).then_some([Key::Hunks, Key::Whole]).into_iter().flatten());
    } else if !question.changes.is_empty() {
        offered.extend([Key::Hunks, Key::Edit, Key::Whole]);
    }
    offered.push(Key::NoBecause);
    offered
}

/// Asks about a call.
///
/// # Errors
/// The person can't be asked any more.
pub fn approve<P: Asking>(person: &mut P, question: &Question, cancel: &Cancel) -> Result<Answer, P::Hangup> {
    let is_change = !question.changes.is_empty() || matches!(question.action, Action::Keep { .. });
    let offered = offered(question, person.has_shell());
    let (all, more) = (row(&offered, is_change), MORE.to_owned());
    let make = |look: Look| question_sheet(question, look);
    let choice = |keys: &[u8], is_seen: bool| key(keys, if is_seen { &offered } else { &[] });
    let console = person.console().clone();
    let elsewhere = person.elsewhere();
    if let Some(open) = &elsewhere {
        console.notice(&format!("also asked: {}", escape_visible(&open.whom)));
    }
    let (mut top, mut is_seen) = (0, false);
    loop {
        let flag = elsewhere.as_ref().map(|open| open.withdrawn());
        let mut pager = Pager::new(&console, &make, [&all, &more], &choice).withdrawn_by(flag);
        pager.go_to(top, is_seen);
        let reply = put(person, &mut pager, Key::Stop, Some(Key::Late))?;
        (top, is_seen) = (pager.shown().start, pager.is_seen());
        let file = pager.sheet().file_at(pager.shown());
        pager.leave(&console);
        // Looking at a file decides nothing; any other key does, unless a person elsewhere was first.
        if reply != Key::Whole
            && let Some(Err(remote)) = elsewhere.as_ref().map(|open| open.answer_here())
        {
            return Ok(answered_elsewhere(&console, question, remote));
        }
        if reply == Key::Whole {
            let change = &question.changes[file];
            let make = |look: Look| Sheet::new(look, Vec::new(), vec![FilePatch::of(change, true)], Vec::new());
            look_at(person, &make)?;
            continue;
        }
        let reply = match reply {
            Key::Always => match second_key(person, &make, top, question)? {
                Key::No => continue,
                reply => reply,
            },
            _ => reply,
        };
        let (word, answer) = match reply {
            Key::Once => (if is_change { "accepted" } else { "once" }, Answer::Once),
            Key::Always => ("always", Answer::Always),
            Key::Filled => ("always, of every command", Answer::AlwaysFilled),
            Key::MyShell => ("in your shell", Answer::InMyShell),
            Key::Hunks => {
                let (word, answer) = choose_hunks(person, question, cancel)?;
                conclude(&console, question, &word);
                return Ok(answer);
            }
            Key::Edit => match edit(person, question, file)? {
                Some(answer) => return Ok(answer),
                None => continue,
            },
            Key::NoBecause => {
                conclude(&console, question, "no");
                let why = person.write_line("tell the model: ", "")?;
                return Ok(Answer::No(why.unwrap_or_default()));
            }
            Key::Late => ("no answer", unanswered()),
            Key::No | Key::Whole | Key::Stop => {
                if reply == Key::Stop {
                    cancel.cancel();
                }
                ("no", Answer::No(String::new()))
            }
        };
        conclude(&console, question, word);
        return Ok(answer);
    }
}

/// The answer if no key came.
pub(super) fn unanswered() -> Answer {
    Answer::Unanswered("no one answered in time".to_owned())
}

/// Lets the person edit the call; `None` if they leave it as it is.
fn edit<P: Asking>(person: &mut P, question: &Question, file: usize) -> Result<Option<Answer>, P::Hangup> {
    let console = person.console().clone();
    if let Action::Shell { command } = &question.action {
        conclude(&console, question, "edit");
        let edited = person.write_line("run instead: ", command)?;
        return Ok(Some(edited.map_or(Answer::No(String::new()), Answer::Edited)));
    }
    let content = rewrite(person, &question.changes[file])?;
    if content.is_some() {
        console.notice("you changed the proposal; here is what it is now");
    }
    Ok(content.map(|content| Answer::Rewritten(file, content)))
}

/// Ends the question with the answer that came from elsewhere.
fn answered_elsewhere(console: &Console, question: &Question, remote: RemoteAnswer) -> Answer {
    let by = escape_visible(&remote.by);
    conclude(console, question, &format!("{}, by {by}", if remote.is_yes { "once" } else { "no" }));
    if remote.is_yes {
        return Answer::Once;
    }
    Answer::No(if remote.note.is_empty() { remote.by } else { format!("{}: {}", remote.by, remote.note) })
}

/// Asks for a second key before something is allowed permanently: `a` again for the same command, or `e` for every command
/// in the directories that tools fill, if nothing else was changed. It is a separate question, so key repeat doesn't answer
/// it; any other key returns to the first.
fn second_key<P: Asking>(
    person: &mut P,
    make: &dyn Fn(Look) -> Sheet,
    top: usize,
    question: &Question,
) -> Result<Key, P::Hangup> {
    let filled = &question.filled;
    let every = match &filled[..] {
        [] => String::new(),
        _ => format!("  whatever every command leaves in {}, which you may run later [e]", named(filled)),
    };
    let sure = format!("{}? press a again [a]{every}  back [any other key]", lasting_words(question));
    let choice = |keys: &[u8], _: bool| {
        Some(match keys.to_ascii_lowercase().as_slice() {
            b"a" => Key::Always,
            b"e" if !filled.is_empty() => Key::Filled,
            _ => Key::No,
        })
    };
    let console = person.console().clone();
    let mut pager = Pager::new(&console, make, [&sure, &sure], &choice);
    pager.go_to(top, true);
    let reply = put(person, &mut pager, Key::Stop, Some(Key::No))?;
    pager.leave(&console);
    Ok(reply)
}

/// Words for what `a` allows: a command, or its changes at some paths.
fn lasting_words(question: &Question) -> String {
    let KeptPaths { written, removed, .. } = question.action.kept_paths().unwrap_or_default();
    if let Action::Served { server, tool, .. } = &question.action {
        let tool = escape_visible(&format!("{server}.{tool}"));
        return format!("always, for {tool} with these arguments in this project");
    }
    let mut text = "always, for this command in this project".to_owned();
    for (what, paths) in [("new content of", &written), ("deleting", &removed)] {
        if !paths.is_empty() {
            text.push_str(&format!(", {what} {}", named(paths)));
        }
    }
    text
}

/// Replaces the question on the screen by as much of the call as fits, and by the answer.
fn conclude(console: &Console, question: &Question, word: &str) {
    // Screen readers have already read it out.
    if !console.options().accessible {
        let sheet = question_sheet(question, look(console));
        let rows_max = console.height_rows().saturating_sub(2).max(4);
        let mut rows = sheet.rows(0..sheet.len().min(rows_max));
        if sheet.len() > rows_max {
            // All changes are named before their differences are shown.
            let changes = change_rows(question.change_rows(), look(console));
            let named: Vec<String> = changes.into_iter().chain(sheet.file_rows()).collect();
            rows = match named.len() {
                0 => rows,
                _ => sheet.rows(0..1).into_iter().chain(named.into_iter().take(rows_max)).collect(),
            };
            rows.push(format!("  ({} lines in all)", sheet.len()));
        }
        rows.iter().for_each(|row| console.line(row));
    }
    console.line(word);
}

/// Shows a sheet until the person has seen enough.
fn look_at<P: Asking>(person: &mut P, make: &dyn Fn(Look) -> Sheet) -> Result<(), P::Hangup> {
    const BACK: &str = "down [Space, j]  up [b, k]  end [G]  back [q, Enter]";
    let choice = |keys: &[u8], _: bool| matches!(keys, b"q" | b"f" | b"\r" | b"\n" | b"\x1b" | b"\x04").then_some(());
    let console = person.console().clone();
    let mut pager = Pager::new(&console, make, [BACK, BACK], &choice).browsing();
    put(person, &mut pager, (), Some(()))?;
    pager.leave(&console);
    Ok(())
}

/// Asks the person a model's question.
///
/// # Errors
/// The person can't be asked any more.
pub fn words<P: Asking>(
    person: &mut P,
    heading: &str,
    question: &str,
    choices: &[String],
) -> Result<Option<String>, P::Hangup> {
    let console = person.console();
    asked_rows(heading, question, choices, look(console)).iter().for_each(|row| console.line(row));
    let reply = person.write_line("your answer: ", "")?.filter(|reply| !reply.trim().is_empty());
    Ok(reply.map(|reply| chosen(reply, choices)))
}

/// The question whether a conversation may go to a more distant model.
#[must_use]
pub fn crossing_question(Crossing { from, to, place }: &Crossing) -> String {
    escape_visible(&format!("{from} doesn't answer. Send this conversation to {to} ({place})?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::action::{Decision, PolicyVerdict, Risk};

    #[test]
    fn a_command_that_needs_a_terminal_runs_in_the_persons_shell_or_not_at_all() {
        let question = Question {
            digest: String::new(),
            tool: "shell".into(),
            action: Action::Shell { command: "passwd".into() },
            verdict: PolicyVerdict {
                risk: Risk::Medium,
                decision: Decision::Ask,
                reasons: vec![],
                effects: vec![],
                needs: vec![],
            },
            changes: [].into(),
            preview: String::new(),
            cwd: "/w".into(),
            program: None,
            may_always: true,
            filled: Vec::new(),
            only_own_shell: true,
        };
        assert_eq!(row(&offered(&question, true), false), "in my shell [s]  no [n, Enter]");
        let usual = Question { only_own_shell: false, ..question };
        assert_eq!(offered(&usual, true), [Key::Once, Key::Always, Key::Edit, Key::MyShell, Key::NoBecause]);
    }

    #[test]
    fn only_a_single_offered_key_is_more_than_no() {
        let all = [Key::Once, Key::Always, Key::Edit, Key::MyShell, Key::NoBecause];
        for (keys, reply) in [
            (&b"y"[..], Some(Key::Once)),
            (b"O", Some(Key::Once)),
            (b"a", Some(Key::Always)),
            (b"\r", Some(Key::No)),
            (b"\x1b", Some(Key::No)),
            (b"\x04", Some(Key::No)),
            (b"h", None),
            (b"yy", None),
            (b"\x1b[A", None),
            (b"x", None),
            (b" ", None),
        ] {
            assert_eq!(key(keys, &all), reply, "{keys:?}");
        }
        assert_eq!(key(b"a", &[Key::Once]), None, "what isn't offered");
        assert_eq!(key(b"y", &[]), None, "before all of it was shown");
        assert_eq!(row(&[Key::Once, Key::Hunks], true), "accept [y]  by hunk [h]  no [n, Enter]");
        assert_eq!(row(&[Key::Once], false), "run once [y]  no [n, Enter]");
    }
}
