//! A model's changes, step by step: listed, shown, undone, redone. The person's own act: no policy judges it, and
//! the log records it.

use crate::agent::changed_words;
use crate::app::{steps, undo_in_session, undoes_in_session};
use crate::base::text::counted;
use crate::ops::steps::{Direction, Wish, cover_lines, revert, step_parts, step_rows, taken_back_lines, title, wish};
use crate::proto::{Failure, HumanLine, ModelCommand};
use crate::render::patch::parse;
use crate::render::text::{escape_visible, table};
use crate::repl::hub::{Flow, Repl};
use crate::repl::records::changes;
use crate::repl::rules::tooling;
use crate::sessions::FilesBack;
use crate::steps::Steps;

/// The list of steps of a workspace that has none.
const NONE: &str = "No steps yet: no command or edit of a model has changed anything here.";
/// Limit on the listed steps; all are stored until they make room.
const SHOWN_MAX: usize = 30;

fn own_steps(repl: &Repl) -> Option<Steps> {
    if !repl.runtime.settings().undo.enabled {
        repl.console.notice("undo is off: undo.enabled is false");
        return None;
    }
    match steps(repl.runtime.settings(), repl.runtime.env(), &tooling::workspace(repl)) {
        Ok(steps) => Some(steps),
        Err(failure) => {
            repl.console.failure(&failure);
            None
        }
    }
}

/// Runs a command of a model that the person took over, and records its changes as a step.
pub(in crate::repl) fn run_models_command(repl: &mut Repl, command: ModelCommand) -> Flow {
    let mut open_step = None;
    if repl.runtime.settings().undo.enabled
        && let Ok(mut steps) = steps(repl.runtime.settings(), repl.runtime.env(), &tooling::workspace(repl))
    {
        match steps.before(&repl.runtime.agent().redacted(&command.text)) {
            Ok(open) => open_step = Some((steps, open)),
            Err(error) => repl.console.notice(&format!("what this changes can't be undone: {error}")),
        }
    }
    let flow = repl.run_command(&HumanLine::adopted(command), true);
    if let Some((mut steps, open)) = open_step {
        match steps.after(open) {
            Ok(made) if made.step.is_some() => repl.console.notice(&changed_words(made.files, made.lost, ":undo")),
            Ok(_) => {}
            Err(error) => repl.console.notice(&format!("what this changed can't be undone: {error}")),
        }
    }
    flow
}

/// Undoes steps, or one file.
pub(in crate::repl) fn undo(repl: &mut Repl, argument: &str) {
    turn(repl, argument, true);
}

/// Makes undone steps again.
pub(in crate::repl) fn redo(repl: &mut Repl, argument: &str) {
    turn(repl, argument, false);
}

fn turn(repl: &mut Repl, argument: &str, is_undo: bool) {
    let (wish, by_force) = match wish(argument, is_undo) {
        Ok(wish) => wish,
        Err(message) => {
            let hint = if is_undo { ":undo [N] [--force], or :undo --file PATH" } else { ":redo [N] [--force]" };
            return repl.console.failure(&Failure::user(message).hint(hint));
        }
    };
    let nothing = if is_undo { "Nothing to undo." } else { "Nothing to redo." };
    if !tooling::workspace(repl).is_dir() {
        return repl.console.notice(nothing);
    }
    if undoes_in_session(&repl.runtime, is_undo) {
        return turn_session(repl, &wish, is_undo);
    }
    let Some(mut steps) = own_steps(repl) else { return };
    if steps.list().is_empty() {
        return repl.console.notice(nothing);
    }
    let cwd = crate::repl::editing::state::read(&repl.state).cwd.clone();
    let direction = if is_undo { Direction::Undo } else { Direction::Redo };
    match revert(&mut steps, direction, &wish, by_force, (&cwd, ":")) {
        Ok(done) => {
            let verb = match (&wish, is_undo) {
                (Wish::File(_), _) => "Restored one file to before",
                (_, true) => "Undid",
                (_, false) => "Redid",
            };
            taken_back_lines(&done, verb, ":").iter().for_each(|line| repl.console.notice(line));
        }
        Err(refusal) => {
            let mut failure = refusal.failure;
            if let Some(difference) = refusal.conflict {
                repl.console.outside(&difference);
                let word = if is_undo { "undo" } else { "redo" };
                failure.hint =
                    format!("nothing was changed; :{word} --force does it all the same and keeps this as a step");
            }
            repl.console.failure(&failure);
        }
    }
}

/// Undoes the changes of files by turns of the session that is on, or makes them again.
fn turn_session(repl: &mut Repl, wish: &Wish, is_undo: bool) {
    let (count, path) = match wish {
        Wish::Last(count) => (*count, None),
        Wish::File(path) => (1, Some(&**path)),
        Wish::Run(_) => return,
    };
    let verb = if is_undo { "Took back" } else { "Made again" };
    let back = match (is_undo, path) {
        (true, None) => "; :redo makes it again",
        (true, Some(_)) => "; :session undo returns",
        (false, _) => "",
    };
    for number in 0..count {
        match undo_in_session(&mut repl.runtime, path, is_undo) {
            Ok(FilesBack { what, files }) => {
                let (what, files) = (escape_visible(&what), counted(files, "file"));
                repl.console.notice(&format!("{verb} in the session: {what} ({files}){back}"));
            }
            Err(failure) => {
                if number == 0 {
                    repl.console.failure(&failure);
                }
                return;
            }
        }
    }
}

/// Lists the model's commands that run in the background, or ends one.
pub(in crate::repl) fn jobs(repl: &mut Repl, argument: &str) {
    let jobs = repl.runtime.agent_mut().runner().and_then(|runner| runner.jobs().cloned());
    let user = |message: String| Failure::user(message).hint(":jobs lists them");
    if !argument.is_empty() {
        let number = argument.strip_prefix("kill ").and_then(|number| number.trim().parse().ok());
        let Some(number) = number else {
            let failure = user(format!("{argument} is neither empty nor kill N"));
            return repl.console.failure(&failure);
        };
        if jobs.is_some_and(|jobs| jobs.end(number)) {
            return repl.console.notice(&format!("Job {number} was ended."));
        }
        return repl.console.failure(&user(format!("there is no job {number}")));
    }
    let list = jobs.map(|jobs| jobs.list()).unwrap_or_default();
    if list.is_empty() {
        return repl.console.notice("No command of the model runs in the background.");
    }
    let rows = list.iter().map(|job| {
        let state = if job.is_running { "running" } else { "ended" };
        vec![job.number.to_string(), state.to_owned(), escape_visible(&job.command)]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    repl.console.write(&table(&rows, repl.console.width_columns()));
    repl.console.notice(":jobs kill N ends one; all end with the session");
}

/// Lists the steps.
pub(in crate::repl) fn list_steps(repl: &Repl) {
    let Some(steps) = own_steps(repl) else { return };
    let list = steps.list();
    if list.is_empty() {
        return repl.console.notice(NONE);
    }
    let newest = &list[list.len().saturating_sub(SHOWN_MAX)..];
    if newest.len() < list.len() {
        repl.console.notice(&format!("{} older steps aren't shown", list.len() - newest.len()));
    }
    repl.console.write(&table(&step_rows(newest), repl.console.width_columns()));
    cover_lines(&steps).iter().for_each(|line| repl.console.notice(line));
    repl.console.notice(":diff N shows a step, :undo [N] undoes the last N, :undo --file PATH one file");
}

/// Shows what a step changed.
pub(in crate::repl) fn show_step(repl: &mut Repl, argument: &str) -> Flow {
    let Some(steps) = own_steps(repl) else { return Flow::Continue };
    let list = steps.list();
    let found = argument.parse().ok().and_then(|number: u64| list.iter().find(|step| step.number == number));
    let Some(step) = found else {
        let hint = match (list.first(), list.last()) {
            (Some(first), Some(last)) if first.number == last.number => format!("only step {} exists", first.number),
            (Some(first), Some(last)) => {
                format!("steps {} to {} exist; :steps lists them", first.number, last.number)
            }
            _ => NONE.to_owned(),
        };
        let message = format!("there is no step {argument}");
        repl.console.failure(&Failure::user(message).hint(hint));
        return Flow::Continue;
    };
    repl.console.notice(&format!("step {}: {}", step.number, title(step)));
    let (mut patches, mut foot) = (Vec::new(), Vec::new());
    let parts = match step_parts(&steps, step, ":") {
        Ok(parts) => parts,
        Err(failure) => {
            repl.console.failure(&failure);
            return Flow::Continue;
        }
    };
    for text in parts {
        // Changes without a text form are described in words before the difference.
        let at = if text.starts_with("--- ") { 0 } else { text.find("\n--- ").map_or(text.len(), |at| at + 1) };
        foot.extend(text[..at].lines().map(escape_visible));
        patches.extend(parse(&text[at..]));
    }
    changes::browse(repl, patches, foot)
}
