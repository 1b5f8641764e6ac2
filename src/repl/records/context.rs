//! `:context`: what the next question would carry and what it costs, the summary of the older part, and whether questions
//! carry what is known of the project.

use crate::base::text::counted;
use crate::ops::context::{Card, card, rows};
use crate::proto::{Event, Failure};
use crate::render::text::table;
use crate::repl::answer;
use crate::repl::hub::{Flow, Repl};
use crate::repl::rules::tooling;

/// Carries out `:context`.
pub(in crate::repl) fn context(repl: &mut Repl, argument: &str) -> Flow {
    match argument {
        "" => show_context(repl),
        "compact" => return compact_context(repl),
        "restore" => match repl.runtime.agent_mut().restore_context() {
            Some(turns) => repl.console.notice(&format!(
                "the first {turns} turns are sent to the letter again; no summary is made until :context compact or :new"
            )),
            None => repl.console.notice("no turns are summarised here"),
        },
        "project" => tell_project(repl),
        "project on" | "project off" => {
            repl.runtime.carry_project(argument == "project on");
            tell_project(repl);
        }
        _ => repl.console.failure(&Failure::user(format!(":context doesn't know {argument}")).hint("compact, restore, project on, project off, or nothing")),
    }
    Flow::Continue
}

fn tell_project(repl: &Repl) {
    let state = if repl.runtime.carries_project() {
        "a question asked in a git repository carries its card, its files' names, AGENTS.md and git's state"
    } else {
        "questions carry nothing of the project around them"
    };
    repl.console.notice(state);
}

/// `:card`: what a question asked here carries of the repository, and what that costs.
pub(in crate::repl) fn show_card(repl: &mut Repl) {
    let Some(notes) = repl.runtime.project_notes() else {
        return repl.console.notice("there is no git repository here, so questions carry no card");
    };
    let Card { parts, tokens } = card(repl.runtime.agent(), &notes);
    for part in parts {
        part.lines().for_each(|line| repl.console.paragraph(line));
        repl.console.line("");
    }
    let most = repl.runtime.settings().context.project_tokens;
    let state = if repl.runtime.carries_project() {
        "sent with the first question here, and again when it has changed; :context project off leaves it out"
    } else {
        "not sent; :context project on sends it"
    };
    repl.console.notice(&format!("about {tokens} tokens of at most {most} (context.project_tokens); {state}"));
}

fn show_context(repl: &mut Repl) {
    tooling::refresh_tools(repl);
    let report = repl.runtime.agent_mut().context();
    let how = if report.is_counted { "total, by the server's count" } else { "total (estimate)" };
    repl.console.write(&table(&rows(&report, how), repl.console.width_columns()));
    let threshold = match report.compact_at_tokens {
        Some(tokens) => format!("from {tokens} on the older turns are summarised"),
        None => "nothing is summarised automatically".to_owned(),
    };
    repl.console.notice(&format!("the window has {} tokens; {threshold}", report.window_tokens));
    if let Some((text, turns)) = report.summary {
        repl.console.notice(&format!("the summary of the first {}:", counted(turns, "turn")));
        repl.console.outside(&format!("{text}\n"));
    }
}

fn compact_context(repl: &mut Repl) -> Flow {
    let done = answer::ask_aside(repl, |agent, cancel, send| {
        if let Err(failure) = agent.compact_now(cancel, send) {
            send(Event::Failed { text: String::new(), failure });
        }
    });
    done.err().unwrap_or(Flow::Continue)
}
