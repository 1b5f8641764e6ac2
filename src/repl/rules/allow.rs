//! `:allow`: what the model may run in this project without a question, and `:tools`: what it may call at all.

use std::path::Path;

use crate::ask::yes_or_no;
use crate::base::text::counted;
use crate::ops::allow::{self, ListedHere};
use crate::proto::Failure;
use crate::render::text::{escape_visible, table, wrap};
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::rules::tooling;

/// Lists the permanently allowed commands of the project around the person, or revokes one.
pub(in crate::repl) fn allow(repl: &mut Repl, argument: &str) -> Flow {
    let workspace = tooling::workspace(repl);
    let env = repl.runtime.env();
    let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let resolved = |file: &str| state::read(&repl.state).resolve(file).unwrap_or_else(|| file.into());
    let done = match (word, rest.trim()) {
        ("" | "list", "") => allow::list(env, &workspace).map(|rows| show_allowed(repl, rows, &workspace)),
        ("remove", which) if !which.is_empty() => allow::withdraw(env, &workspace, which, ":allow list")
            .map(|_| repl.console.notice("withdrawn; you will be asked again")),
        ("export" | "import", "") => {
            let message = format!(":allow {word} needs a file");
            Err(Failure::user(message).hint(":allow export FILE, :allow import FILE"))
        }
        ("export", file) => allow::export(env, &workspace, &resolved(file)).map(|count| {
            repl.console.notice(&format!("{} in {}", counted(count, "command"), escape_visible(file)));
        }),
        ("import", file) => {
            let path = resolved(file);
            return import_allowed(repl, &path);
        }
        _ => {
            let message = format!(":allow doesn't know {}", escape_visible(argument));
            Err(Failure::user(message).hint(":allow list, remove N, export FILE, import FILE"))
        }
    };
    if let Err(failure) = done {
        repl.console.failure(&failure);
    }
    Flow::Continue
}

fn show_allowed(repl: &Repl, rows: Vec<Vec<String>>, workspace: &Path) {
    if rows.is_empty() {
        let place = escape_visible(&workspace.display().to_string());
        return repl.console.notice(&format!("nothing is allowed for good in {place}"));
    }
    let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(escaped).collect();
    repl.console.write(&table(&rows, repl.console.width_columns()));
    repl.console.notice(":allow remove N revokes one");
}

/// Shows which commands of a list may be allowed here and which not, asks, and adds the former.
fn import_allowed(repl: &mut Repl, path: &Path) -> Flow {
    tooling::refresh_tools(repl);
    let Some(runner) = repl.runtime.agent_mut().runner() else {
        repl.console.notice("no model is set up, so no tool runs and nothing can be allowed; :onboard finds one");
        return Flow::Continue;
    };
    let root = runner.workspace().to_owned();
    let listed = match allow::read_list(runner.gate(), &root, path) {
        Ok(listed) => listed,
        Err(failure) => {
            repl.console.failure(&failure);
            return Flow::Continue;
        }
    };
    for it in &listed {
        repl.console.line(&wrap(&it.line(), repl.console.width_columns(), "    "));
    }
    let fits: Vec<&ListedHere> = listed.iter().filter(|it| it.program.is_ok()).collect();
    if fits.is_empty() {
        repl.console.notice("none of its calls can be allowed here");
        return Flow::Continue;
    }
    let which = if fits.len() == 1 { "it".to_owned() } else { format!("these {}", fits.len()) };
    repl.console.line(&format!("allow {which} for good in this project?"));
    let yes = match repl.put_question("yes [y]  no [n, Enter]", yes_or_no, None) {
        Ok(reply) => reply.unwrap_or(false),
        Err(flow) => return flow,
    };
    repl.console.line(if yes { "yes" } else { "no" });
    let fits: Vec<(&str, &Path)> = fits.iter().map(|it| (it.command.as_str(), it.cwd.as_path())).collect();
    let runner = yes.then(|| repl.runtime.agent_mut().runner()).flatten();
    if let Some(Err(why)) = runner.map(|runner| runner.gate().allow(&fits)) {
        repl.console.failure(&Failure::unavailable(escape_visible(&why)));
    }
    Flow::Continue
}

/// Lists the tools that the model has here.
pub(in crate::repl) fn list_tools(repl: &mut Repl) {
    tooling::refresh_tools(repl);
    let workspace = repl.runtime.agent_mut().runner().map(|runner| runner.workspace().to_owned());
    let Some((rows, workspace)) = repl.runtime.tool_rows().zip(workspace) else {
        return repl.console.notice("the model has no tools here");
    };
    let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(escaped).collect();
    repl.console.write(&table(&rows, repl.console.width_columns()));
    repl.console.notice(&format!(
        "they work in {}; tools.set decides which of them are described to a model",
        escape_visible(&workspace.display().to_string())
    ));
}
