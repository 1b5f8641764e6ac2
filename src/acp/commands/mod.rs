//! The slash commands of a session: a person's own, carried out without a model. A prompt template of the user, or of a project
//! that they trust, is a command too: its text becomes the question. So is a prompt of a server of tools.

mod goal;
mod prompts;

use serde_json::Value;

use super::calls::fenced;
use super::wire::command;
use crate::agent::Cancel;
use crate::app::{self, Runtime, Skills};
use crate::base::text::{counted, one_line};
use crate::ops;
use crate::ops::commands::{Op, of_editor};
use crate::ops::cost::of_conversation;
use crate::ops::steps::{Direction, Wish, revert};
use crate::proto::Failure;
use crate::render::sanitise;
use crate::render::text::{escape_visible, table};
use crate::steps::{Record, TakenBack};
use crate::store::{Hit, StoredMemory};
pub(super) use goal::{Desk, Here, carry_out as work_on_goal};
use prompts::Named;
pub(super) use prompts::of_session;

/// Columns of tables.
const COLUMNS: usize = 100;
/// Steps, hits and templates that are shown.
const ROWS_MAX: usize = 30;
/// Paths that a message names.
const PATHS_MAX: usize = 8;

type Act = fn(&mut Runtime, &str, &Cancel) -> Result<String, Failure>;

/// The function of a command.
fn act_of(op: Op) -> Option<Act> {
    Some(match op {
        Op::Undo => undo,
        Op::Redo => redo,
        Op::Steps => steps,
        Op::Cost => cost,
        Op::Context => context,
        Op::Compact => compact,
        Op::Tools => tools,
        Op::Model => model,
        Op::Memory => memory,
        Op::Allow => allowlist,
        _ => return None,
    })
}

/// All commands, for the client.
pub(super) fn available(runtime: &mut Runtime) -> Vec<Value> {
    let of_servers = prompts::commands(runtime);
    let own = of_editor().map(|(_, form)| command(form.name, form.help, form.usage));
    let skills = Skills::around(runtime.env(), runtime.cwd());
    let is_own = |name: &str| of_editor().any(|(_, form)| form.name == name);
    let of_project = skills.project.templates.iter().filter(|_| skills.is_trusted);
    let templates = skills.own.templates.iter().chain(of_project).filter(|it| !is_own(&it.name)).take(ROWS_MAX);
    let templates = templates.map(|it| {
        let description = if it.description.is_empty() { "A prompt template" } else { it.description.as_str() };
        command(&it.name, &sanitise(description), "text")
    });
    own.chain(templates).chain(of_servers).collect()
}

/// The kinds of prompt: a question, or a slash command.
pub(super) enum PromptKind {
    /// A question, possibly made of a template.
    Question(String),
    /// A prompt of a server of tools, which its person looks at first.
    OfServer(Named),
    /// The start of a run towards a goal, or an operation on one.
    Goal(String),
    /// A command, with its result.
    Done(Result<String, Failure>),
}

/// Reads a prompt, and carries it out if it is a command.
pub(super) fn read(runtime: &mut Runtime, prompt: String, cancel: &Cancel) -> PromptKind {
    let Some(rest) = prompt.strip_prefix('/') else { return PromptKind::Question(prompt) };
    let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = argument.trim();
    let known = of_editor().find(|(_, form)| form.name == word);
    if known.is_some_and(|(op, _)| op == Op::Norris) {
        return PromptKind::Goal(argument.to_owned());
    }
    if let Some(act) = known.and_then(|(op, _)| act_of(op)) {
        return PromptKind::Done(act(runtime, argument, cancel));
    }
    let skills = Skills::around(runtime.env(), runtime.cwd());
    match ops::skills::question(&skills, word, argument) {
        Ok(question) => PromptKind::Question(question),
        Err(_) => match prompts::named(runtime, word, argument) {
            Some(named) => PromptKind::OfServer(named),
            // For example, a path.
            None => PromptKind::Question(prompt),
        },
    }
}
/// A table, as a client shows it: in a block of code.
fn block(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escape_visible(cell)).collect()).collect();
    fenced(&table(&rows, COLUMNS), "")
}

fn number(argument: &str) -> Result<usize, Failure> {
    match argument {
        "" => Ok(1),
        text => text
            .parse()
            .map_err(|_| Failure::user(format!("{} is no number of steps", escape_visible(text))).hint("/steps")),
    }
}

fn workspace_steps(runtime: &mut Runtime) -> Result<crate::steps::Steps, Failure> {
    let workspace = runtime.agent_mut().runner().map(|runner| runner.workspace().to_owned());
    let workspace = workspace.unwrap_or_else(|| runtime.cwd().to_owned());
    app::steps(runtime.settings(), runtime.env(), &workspace)
}

fn undo(runtime: &mut Runtime, argument: &str, _: &Cancel) -> Result<String, Failure> {
    turned(runtime, argument, Direction::Undo, "Undid")
}

fn redo(runtime: &mut Runtime, argument: &str, _: &Cancel) -> Result<String, Failure> {
    turned(runtime, argument, Direction::Redo, "Redid")
}

fn turned(runtime: &mut Runtime, argument: &str, direction: Direction, verb: &str) -> Result<String, Failure> {
    let wish = Wish::Last(number(argument)?);
    let done = revert(&mut workspace_steps(runtime)?, direction, &wish, false, (runtime.cwd(), "/"));
    done.map(|done| reverted_text(&done, verb)).map_err(|refusal| match refusal.conflict {
        Some(_) => Failure {
            hint: "nothing was changed; in a terminal: reedclaw undo --force overwrites it".into(),
            ..refusal.failure
        },
        None => refusal.failure,
    })
}

fn reverted_text(done: &TakenBack, verb: &str) -> String {
    let mut lines: Vec<String> =
        done.steps.iter().map(|step| format!("{verb} step {}: {}", step.number, title(step))).collect();
    lines.push(format!("{}.", counted(done.files, "file")));
    let left = done.left.iter().map(|(path, why)| format!("{} ({why})", path.display()));
    let unseen = done.unseen.iter().map(|(path, why)| format!("{} ({why})", path.display()));
    let not_done: Vec<String> = left.chain(unseen).map(|line| escape_visible(&line)).collect();
    lines.extend(not_done.iter().take(PATHS_MAX).map(|line| format!("Left as it is: {line}")));
    if not_done.len() > PATHS_MAX {
        lines.push(format!("{} more are left as they are.", not_done.len() - PATHS_MAX));
    }
    lines.join("\n")
}

fn title(step: &Record) -> String {
    escape_visible(step.text.lines().next().unwrap_or_default())
}

fn steps(runtime: &mut Runtime, _: &str, _: &Cancel) -> Result<String, Failure> {
    let steps = workspace_steps(runtime)?;
    let list = steps.list();
    if list.is_empty() {
        return Ok("No command or edit of a model has changed anything here.".to_owned());
    }
    let row = |step: &Record| {
        let state = if step.is_undone { "undone" } else { "" };
        vec![step.number.to_string(), counted(step.files(), "file"), state.to_owned(), title(step)]
    };
    let newest = list.len().saturating_sub(ROWS_MAX);
    Ok(block(&list[newest..].iter().map(row).collect::<Vec<_>>()))
}

fn cost(runtime: &mut Runtime, _: &str, _: &Cancel) -> Result<String, Failure> {
    let store = runtime.lock_store();
    let costs = of_conversation(&store, runtime.agent().conversation())?;
    Ok(block(&ops::cost::rows(&costs, runtime.agent(), "this session")))
}

fn context(runtime: &mut Runtime, _: &str, _: &Cancel) -> Result<String, Failure> {
    let report = runtime.agent_mut().context();
    let rows = ops::context::rows(&report, "in all");
    Ok(format!("Tokens of {} that the next prompt carries:\n\n{}", report.window_tokens, block(&rows)))
}

fn compact(runtime: &mut Runtime, _: &str, cancel: &Cancel) -> Result<String, Failure> {
    let mut lines = Vec::new();
    runtime.agent_mut().compact_now(cancel, &mut |event| {
        if let crate::proto::Event::Notice(text) = event {
            lines.push(sanitise(&text).into_owned());
        }
    })?;
    lines.push("The older part of this session is summarised.".to_owned());
    Ok(lines.join("\n"))
}

fn tools(runtime: &mut Runtime, _: &str, _: &Cancel) -> Result<String, Failure> {
    Ok(runtime.tool_rows().map_or_else(|| "The model has no tools here.".to_owned(), |rows| block(&rows)))
}

fn model(runtime: &mut Runtime, name: &str, _: &Cancel) -> Result<String, Failure> {
    let agent = runtime.agent_mut();
    if !name.is_empty() {
        let chosen = ops::models::choose(agent, name)?;
        return Ok(format!("{} answers from now on.", escape_visible(&chosen)));
    }
    Ok(block(&ops::models::rows(agent)))
}

fn memory(runtime: &mut Runtime, query: &str, _: &Cancel) -> Result<String, Failure> {
    let mut store = runtime.lock_store();
    let memory = |it: StoredMemory| vec!["memory".into(), one_line(&it.text)];
    let hit = |hit: Hit| vec![format!("conversation {}", hit.conversation.0), one_line(&hit.excerpt)];
    let mut rows: Vec<Vec<String>> = if query.is_empty() {
        ops::memory::list(&store, true)?.into_iter().map(memory).collect()
    } else {
        let found = ops::memory::find(&mut store, query, ROWS_MAX)?;
        found.memories.into_iter().map(memory).chain(found.hits.into_iter().map(hit)).collect()
    };
    rows.truncate(ROWS_MAX);
    Ok(if rows.is_empty() { "Nothing was found.".to_owned() } else { block(&rows) })
}

fn allowlist(runtime: &mut Runtime, argument: &str, _: &Cancel) -> Result<String, Failure> {
    let Some(workspace) = runtime.agent_mut().runner().map(|runner| runner.workspace().to_owned()) else {
        return Ok("The model has no tools here.".to_owned());
    };
    match argument.split_once(char::is_whitespace).unwrap_or((argument, "")) {
        ("", _) => {
            let rows = ops::allow::list(runtime.env(), &workspace)?;
            Ok(if rows.is_empty() { "Nothing is allowed for good here.".to_owned() } else { block(&rows) })
        }
        ("remove", which) if !which.trim().is_empty() => {
            ops::allow::withdraw(runtime.env(), &workspace, which.trim(), "/allowlist")?;
            Ok("Taken back; you are asked about it again.".to_owned())
        }
        _ => {
            Err(Failure::user(format!("/allowlist {} is nothing", escape_visible(argument)))
                .hint("/allowlist remove N"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_function() {
        assert!(of_editor().all(|(op, _)| op == Op::Norris || act_of(op).is_some()));
    }
}
