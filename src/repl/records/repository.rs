//! The tools in a session's repository, which a person allows, the summaries of its files, and the questions that
//! precede taking over its changes, at the prompt. It must not know how either is stored.

use std::sync::Arc;

use crate::app::{Approvals, Doubt, FOLDER, Ruling, maker, session_failure, session_on, summarise, to_summarise};
use crate::ask::ask_yes_or_no;
use crate::base::text::counted;
use crate::ops::sessions::{doubt_lines, first_questions, test_lines, tool_lines, tool_rows};
use crate::proto::Failure;
use crate::render::patch::parse;
use crate::render::text::{escape_visible, table, wrap};
use crate::repl::hub::{Flow, Repl};
use crate::repl::records::changes;
use crate::sessions::{Sessions, drop_summaries};

/// Asks the questions that precede taking over a session's changes. Returns `false` if one of the answers is no.
pub(in crate::repl) fn agrees_first(
    repl: &mut Repl,
    sessions: &Sessions,
    doubts: &[Doubt],
    has_commit: bool,
) -> Result<bool, Flow> {
    doubt_lines(doubts).iter().for_each(|line| repl.console.line(line));
    for question in first_questions(sessions, doubts, has_commit) {
        if ask_yes_or_no(&mut repl.terminal, &question)? != Some(true) {
            repl.console.notice("nothing was changed");
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists the tools that lie in the repository.
pub(in crate::repl) fn list(repl: &mut Repl) -> Result<(), Failure> {
    let all = session_on(repl.runtime.on_git_mut())?.repository_tools();
    if all.is_empty() {
        repl.console.notice("no tool lies in this session's tools/ (NAME.luau)");
        return Ok(());
    }
    repl.console.write(&table(&tool_rows(&all), repl.console.width_columns()));
    repl.console
        .notice(":session approve NAME shows one and asks; test NAME runs its tests; revoke NAME revokes an approval");
    Ok(())
}

/// Makes summaries of the repository's files after a question, or drops them.
pub(in crate::repl) fn summaries(repl: &mut Repl, argument: &str) -> Flow {
    if argument == "drop" {
        let dropped = repl.git_sessions().and_then(|it| drop_summaries(&it).map_err(session_failure));
        match dropped {
            Ok(()) => repl.console.notice("the repository has no summaries any more"),
            Err(failure) => repl.console.failure(&failure),
        }
        return Flow::Continue;
    }
    let wanted = match to_summarise(&repl.runtime) {
        Ok(wanted) if wanted.files() == 0 => {
            repl.console.notice("each file has its summary");
            return Flow::Continue;
        }
        Ok(wanted) => wanted,
        Err(failure) => {
            repl.console.failure(&failure);
            return Flow::Continue;
        }
    };
    let files = counted(wanted.files(), "file");
    let question = format!("Send {files} (about {} tokens) to the model for summaries?", wanted.tokens);
    match ask_yes_or_no(&mut repl.terminal, &question) {
        Err(flow) => return flow,
        Ok(Some(true)) => {}
        Ok(_) => {
            repl.console.notice("nothing was sent");
            return Flow::Continue;
        }
    }
    let maker = match maker(&mut repl.runtime) {
        Ok(maker) => maker,
        Err(failure) => {
            repl.console.failure(&failure);
            return Flow::Continue;
        }
    };
    let made =
        repl.terminal.attended(&Arc::default(), &mut Approvals::none(), |cancel, _| summarise(maker, &wanted, cancel));
    match made {
        Err(flow) => return flow,
        Ok(Ok(files)) => repl.console.notice(&format!(
            "{} have a summary; questions of sessions carry them, and changed files get theirs after a turn",
            counted(files, "file")
        )),
        Ok(Err(failure)) => repl.console.failure(&failure),
    }
    Flow::Continue
}

/// Shows a tool of the repository, and asks whether the model may have it.
pub(in crate::repl) fn approve(repl: &mut Repl, name: &str) -> Flow {
    let asked = {
        let (settings, env) = (repl.runtime.settings().clone(), repl.runtime.env().clone());
        session_on(repl.runtime.on_git_mut()).and_then(|on_git| on_git.tool_asked(name, &settings, &env))
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(failure) => {
            repl.console.failure(&failure);
            return Flow::Continue;
        }
    };
    if let flow @ Flow::End(_) = changes::browse(repl, parse(&asked.text), Vec::new()) {
        return flow;
    }
    tool_lines(name, &asked).iter().for_each(|line| repl.console.line(line));
    match ask_yes_or_no(&mut repl.terminal, "May the model run this tool from now on without being asked?") {
        Err(flow) => return flow,
        Ok(Some(true)) => {
            if let Err(failure) = rule(repl, name, Ruling::Approve) {
                repl.console.failure(&failure);
            }
        }
        Ok(_) => repl.console.notice(&format!("not now; :session approve {name} asks again, reject never")),
    }
    Flow::Continue
}

/// Runs the tests of a tool of the repository.
pub(in crate::repl) fn test(repl: &mut Repl, name: &str) -> Result<(), Failure> {
    let (settings, env) = (repl.runtime.settings().clone(), repl.runtime.env().clone());
    let tests = session_on(repl.runtime.on_git_mut())?.test_tool(name, &settings, &env)?;
    let columns = repl.console.width_columns();
    test_lines(&tests).iter().for_each(|line| repl.console.line(&wrap(line, columns, "        ")));
    Ok(())
}

pub(in crate::repl) fn rule(repl: &mut Repl, name: &str, ruling: Ruling) -> Result<(), Failure> {
    let done = session_on(repl.runtime.on_git_mut())?.rule_tool(name, ruling)?;
    repl.console.notice(&escape_visible(&done));
    Ok(())
}

/// Asks about the repository's tools that the newest turn has made or changed.
pub(in crate::repl) fn ask_about_new(repl: &mut Repl) -> Flow {
    let Some(on_git) = repl.runtime.on_git() else { return Flow::Continue };
    let changed = on_git.session.view().changes_of(on_git.session.meta().turns).unwrap_or_default();
    if !changed.iter().any(|it| it.path.starts_with(FOLDER)) {
        return Flow::Continue;
    }
    for name in on_git.undecided_tools() {
        repl.console.notice(&format!("the repository has a tool that you haven't allowed: {name}"));
        if let flow @ Flow::End(_) = approve(repl, &name) {
            return flow;
        }
    }
    Flow::Continue
}
