//! `reedclaw agent` without a message: a chat at the terminal. It reads lines, carries out its own commands, and passes
//! all other lines to the model. It starts no shell.

use parking_lot::MutexGuard;
use std::io::{self, IsTerminal, Write};

use crate::app::Runtime;
use crate::cli::answers::agent::{say, tell};
use crate::cli::answers::person::AtTty;
use crate::cli::records::memory;
use crate::console::CLEAR_SCREEN;
use crate::ops::commands::{Form, Op, of_chat};
use crate::ops::policy::{self, explain, limit_rows, verdict_lines};
use crate::ops::{self, allow};
use crate::proto::Failure;
use crate::render::text::{escape_visible, table};
use crate::store::Store;

/// Hits that `/memory` shows.
const HITS: usize = 20;
/// Columns if the terminal's width is unknown.
const COLUMNS: usize = 80;

type Act = fn(&mut Runtime, &str) -> Result<(), Failure>;

/// The function of a command of the chat; ending the chat is the loop's.
fn act_of(op: Op) -> Option<Act> {
    Some(match op {
        Op::Help => |_, _| help(),
        Op::Tools => tools,
        Op::Memory => search,
        Op::Policy => policy,
        Op::Allow => allowlist,
        Op::Clear => |_, _| clear(),
        Op::New => |runtime, _| begin_anew(runtime),
        Op::Model => model,
        _ => return None,
    })
}

/// Returns whether a person can type, and see the text that they type.
pub(in crate::cli) fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Carries out commands until there is a question; `None` at the end of the input.
pub(in crate::cli) fn next_question(runtime: &mut Runtime, person: &mut AtTty) -> Result<Option<String>, Failure> {
    while let Some(line) = person.line().map_err(unreadable)? {
        match command(&line) {
            Command::None if line.trim().is_empty() => {}
            Command::None => return Ok(Some(line)),
            Command::Known(op, argument) => {
                let Some(act) = act_of(op) else { return Ok(None) };
                if let Err(failure) = act(runtime, argument) {
                    tell(&failure);
                }
            }
            Command::Unknown(word) => tell(
                &Failure::user(format!("{} is no command of the chat", escape_visible(word)))
                    .hint("/help lists them; a question may begin with a space"),
            ),
        }
    }
    Ok(None)
}

/// Makes the failure of a terminal that can't be read.
pub(in crate::cli) fn unreadable(error: io::Error) -> Failure {
    let message = format!("the terminal can't be read: {error}");
    Failure::unavailable(message)
}

/// The kind of a line.
enum Command<'a> {
    /// No command.
    None,
    Known(Op, &'a str),
    Unknown(&'a str),
}

/// Reads a command, with a slash or a colon. A path at the start of a question has another slash in it.
fn command(line: &str) -> Command<'_> {
    let Some(rest) = line.strip_prefix(['/', ':']) else { return Command::None };
    let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Command::None;
    }
    match of_chat().find(|(_, form)| form.name == word) {
        Some((op, _)) => Command::Known(op, argument.trim()),
        None => Command::Unknown(&line[..=word.len()]),
    }
}

fn help() -> Result<(), Failure> {
    let row = |(_, form): (_, Form)| {
        vec![format!("/{} {}", form.name, form.usage).trim_end().to_owned(), form.help.to_owned()]
    };
    put(&of_chat().map(row).collect::<Vec<_>>());
    Ok(())
}

fn tools(runtime: &mut Runtime, _: &str) -> Result<(), Failure> {
    match runtime.tool_rows() {
        Some(rows) => put(&rows),
        None => say("the model has no tools here"),
    }
    Ok(())
}

fn search(runtime: &mut Runtime, query: &str) -> Result<(), Failure> {
    let mut store: MutexGuard<'_, Store> = runtime.lock_store();
    if query.is_empty() {
        return memory::notes(&store).map(drop);
    }
    memory::search(&mut store, query, HITS).map(drop)
}

fn policy(runtime: &mut Runtime, argument: &str) -> Result<(), Failure> {
    let (sandbox, hold) = policy::sandbox(runtime);
    let Some(runner) = runtime.agent_mut().runner() else {
        say("the model has no tools here");
        return Ok(());
    };
    let rules = runner.gate().rules();
    match argument.split_once(char::is_whitespace).unwrap_or((argument, "")) {
        ("", _) => put(&limit_rows(rules, sandbox)),
        ("explain", command) if !command.trim().is_empty() => {
            put(&verdict_lines(&explain(rules, hold, command.trim()))
                .into_iter()
                .map(|line| vec![line])
                .collect::<Vec<_>>());
        }
        _ => {
            let message = format!("/policy doesn't know {}", escape_visible(argument));
            return Err(Failure::user(message).hint("/policy, or /policy explain CMD"));
        }
    }
    Ok(())
}

fn allowlist(runtime: &mut Runtime, argument: &str) -> Result<(), Failure> {
    let Some(workspace) = runtime.agent_mut().runner().map(|runner| runner.workspace().to_owned()) else {
        say("the model has no tools here");
        return Ok(());
    };
    let env = runtime.env();
    match argument.split_once(char::is_whitespace).unwrap_or((argument, "")) {
        ("", _) => match &allow::list(env, &workspace)?[..] {
            [] => say("nothing is allowed for good here"),
            rows => put(rows),
        },
        ("remove", which) if !which.trim().is_empty() => {
            allow::withdraw(env, &workspace, which.trim(), "/allowlist")?;
            say("withdrawn; you will be asked again");
        }
        _ => {
            let message = format!("/allowlist doesn't know {}", escape_visible(argument));
            let hint = "/allowlist, or /allowlist remove N";
            return Err(Failure::user(message).hint(hint));
        }
    }
    Ok(())
}

fn clear() -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let _ = out.write_all(CLEAR_SCREEN).and_then(|()| out.flush());
    Ok(())
}

fn begin_anew(runtime: &mut Runtime) -> Result<(), Failure> {
    runtime.agent_mut().clear_conversation();
    say("a new conversation begins; the previous one is stored");
    Ok(())
}

fn model(runtime: &mut Runtime, name: &str) -> Result<(), Failure> {
    let agent = runtime.agent_mut();
    if name.is_empty() {
        put(&ops::models::rows(agent));
    } else {
        say(&format!("{} answers from now on", ops::models::choose(agent, name)?));
    }
    Ok(())
}

/// Prints a table, every byte of it escaped.
fn put(rows: &[Vec<String>]) {
    let columns = crate::console::terminal_size().map_or(COLUMNS, |(columns, _)| usize::from(columns).max(20));
    let escaped = |row: &Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let mut out = io::stdout().lock();
    // If the terminal has gone, a failure can't be reported anywhere.
    let _ = out.write_all(table(&rows, columns).as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_word_after_a_slash_and_a_path_is_none() {
        let read = |line: &str| match command(line) {
            Command::None => "question".to_owned(),
            Command::Known(op, argument) => format!("{op:?} {argument}"),
            Command::Unknown(word) => format!("unknown {word}"),
        };
        for (line, what) in [
            ("/exit", "Quit "),
            (":exit", "Quit "),
            ("/memory  two words ", "Memory two words"),
            ("/etc/passwd what is it?", "question"),
            ("/", "question"),
            (" /exit is what?", "question"),
            ("hello /exit", "question"),
            ("/nope x", "unknown /nope"),
        ] {
            assert_eq!(read(line), what, "{line}");
        }
    }

    #[test]
    fn each_command_but_exit_has_its_function() {
        let without: Vec<Op> = of_chat().map(|(op, _)| op).filter(|it| act_of(*it).is_none()).collect();
        assert_eq!(without, [Op::Quit]);
    }
}
