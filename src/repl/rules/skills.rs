//! `:skills` and `:p`: the available skills and prompt templates, trust in those of a project, and a question made from
//! a template.

use crate::app::{Skills, skills_trust};
use crate::ops;
use crate::proto::Failure;
use crate::render::text::{escape_visible, table};
use crate::repl::answer;
use crate::repl::hub::{Flow, Repl};

fn skills_here(repl: &Repl) -> Skills {
    Skills::around(repl.runtime.env(), repl.runtime.cwd())
}

/// `:skills [trust|untrust]`.
pub(in crate::repl) fn skills(repl: &mut Repl, argument: &str) -> Flow {
    match argument {
        "" => list_skills(repl),
        "trust" => return trust_skills(repl),
        "untrust" => untrust_skills(repl),
        _ => {
            skills_failure(repl, format!(":skills doesn't know {argument}"), "trust, untrust, or nothing for the list")
        }
    }
    Flow::Continue
}

fn skills_failure(repl: &Repl, message: String, hint: &str) {
    repl.console.failure(&Failure::user(message).hint(hint));
}

fn list_skills(repl: &Repl) {
    let skills = skills_here(repl);
    let escaped = |row: Vec<String>| row.iter().map(|cell| escape_visible(cell)).collect();
    let all: Vec<Vec<String>> = ops::skills::rows(&skills).into_iter().map(escaped).collect();
    if all.is_empty() {
        repl.console.notice("there are no skills or prompt templates; the documentation's page on skills says where they are looked for");
    } else {
        repl.console.write(&table(&all, repl.console.width_columns()));
    }
    for problem in skills.own.problems.iter().chain(&skills.project.problems) {
        repl.console.notice(&format!("not used: {}", escape_visible(problem)));
    }
    if let Some(notice) = skills.notice() {
        repl.console.notice(&notice);
    }
}

fn trust_skills(repl: &mut Repl) -> Flow {
    let skills = skills_here(repl);
    let Some(overlay) = skills.overlay.clone().filter(|_| !skills.is_trusted) else {
        repl.console.notice(if skills.is_trusted {
            "this project's skills are trusted already"
        } else {
            "this project brings no skills or prompt templates"
        });
        return Flow::Continue;
    };
    let console = repl.console.clone();
    console.line("These texts speak to the model as instructions; any change of them asks again:");
    let show_bodies = || {
        for it in skills.project.skills.iter().chain(&skills.project.templates) {
            console.line(&escape_visible(&format!("── {} ({})", it.name, it.path.display())));
            it.body.lines().for_each(|line| console.line(&format!("  {}", escape_visible(line))));
        }
    };
    for it in skills.project.skills.iter().chain(&skills.project.templates) {
        console.line(&escape_visible(&format!("  {}: {}", it.path.display(), it.description)));
    }
    let choice = |keys: &[u8]| match keys {
        b"t" | b"T" => Some(Choice::Trust),
        b"l" | b"L" => Some(Choice::Look),
        b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(Choice::No),
        _ => None,
    };
    loop {
        match repl.put_question("trust [t]  look [l]  no [n, Enter]", choice, Choice::No) {
            Ok(Choice::Look) => {
                console.line("look");
                show_bodies();
            }
            Ok(Choice::No) => {
                console.line("not trusted");
                return Flow::Continue;
            }
            Ok(Choice::Trust) => break,
            Err(flow) => return flow,
        }
    }
    match skills_trust(repl.runtime.env()).trust(overlay).1 {
        Ok(()) => console.line("trusted"),
        Err(error) => skills_failure(repl, format!("the trust can't be stored: {error}"), ""),
    }
    Flow::Continue
}

fn untrust_skills(repl: &Repl) {
    let Some(overlay) = skills_here(repl).overlay else {
        return repl.console.notice("this project brings no skills or prompt templates");
    };
    match skills_trust(repl.runtime.env()).forget(&overlay) {
        Ok(true) => repl.console.notice("this project's skills are no longer trusted"),
        Ok(false) => repl.console.notice("they weren't trusted"),
        Err(error) => skills_failure(repl, format!("the record can't be removed: {error}"), ""),
    }
}

/// `:p NAME ARGUMENTS`: asks the question of a template; without a name it lists the templates.
pub(in crate::repl) fn prompt_template(repl: &mut Repl, argument: &str, hidden: bool) -> Flow {
    let (name, arguments) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    if name.is_empty() {
        list_skills(repl);
        return Flow::Continue;
    }
    match ops::skills::question(&skills_here(repl), name, arguments.trim()) {
        Ok(question) => {
            let line = (!hidden).then(|| format!(":p {argument}"));
            answer::ask(repl, line.as_deref(), &question)
        }
        Err(failure) => {
            repl.console.failure(&failure);
            Flow::Continue
        }
    }
}

#[derive(Clone, Copy)]
enum Choice {
    Trust,
    Look,
    No,
}
