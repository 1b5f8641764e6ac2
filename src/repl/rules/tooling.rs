//! The model's tools in a session: where they work, and their results.

use std::path::PathBuf;

use crate::proto::Failure;
use crate::render::patch::parse;
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::records::changes;
use crate::repl::screen::ToolOutput;

/// Sets up the model's tools for the person's directory.
pub(in crate::repl) fn refresh_tools(repl: &mut Repl) {
    if let Some(path) = repl.terminal.programs.path() {
        repl.runtime.follow_path(&path);
    }
    let problems = repl.runtime.take_tools(&workspace(repl));
    problems.iter().for_each(|problem| repl.console.failure(problem));
}

/// The workspace of tools for the person's directory.
pub(in crate::repl) fn workspace(repl: &Repl) -> PathBuf {
    let cwd = state::read(&repl.state).cwd.clone();
    repl.runtime.workspace_around(&cwd)
}

/// Shows the whole result of a tool.
pub(in crate::repl) fn show_output(repl: &mut Repl, argument: &str) -> Flow {
    let outputs = &repl.tooling.outputs;
    let number = if argument.is_empty() { Some(outputs.len()) } else { argument.parse().ok() };
    let found = number.and_then(|number: usize| number.checked_sub(1)).and_then(|at| outputs.get(at));
    match found {
        Some(ToolOutput { text, diff }) if text.is_empty() && diff.is_empty() => {
            repl.console.notice("that call gave no output");
        }
        Some(ToolOutput { text, diff }) => {
            repl.console.outside(&format!("{}\n", text.trim_end_matches('\n')));
            let patches = parse(diff);
            if !patches.is_empty() {
                return changes::browse(repl, patches, Vec::new());
            }
        }
        None => repl.console.failure(
            &Failure::user(format!("there is no tool call {argument}").trim_end().to_owned()).hint(
                match outputs.len() {
                    0 => "no tool was called in this session".to_owned(),
                    1 => "only tool call 1 exists".to_owned(),
                    count => format!("tool calls 1 to {count} exist"),
                },
            ),
        ),
    }
    Flow::Continue
}
