//! The acts of hooks: the loop does what a key, a command of the config or its answer asks for.

use nu_ansi_term::Style;

use crate::config::{Action, KeyDoes, KeyName};
use crate::proto::{Failure, HumanLine};
use crate::render::sanitise;
use crate::render::text::{escape_visible, has_hidden};
use crate::repl::act;
use crate::repl::answer;
use crate::repl::editing::prompt::ReedPrompt;
use crate::repl::hub::{Flow, Repl};
use crate::repl::outside;
use crate::shell::session::KeysTo;

/// Reports the hooks that have failed since the last call.
pub(in crate::repl) fn tell_hook_failures(repl: &Repl) {
    for failure in repl.hooks.take_failures() {
        repl.console.failure(&Failure::config(failure.to_string()));
    }
}

/// Does what a key with a hook asks for; the line that is being typed stays.
pub(in crate::repl) fn key_pressed(repl: &mut Repl, name: &str, prompt: &ReedPrompt) -> Flow {
    let Ok(key) = KeyName::parse(name) else { return Flow::Continue };
    let does = repl.hooks.keys().into_iter().find(|(known, _)| *known == key);
    match does {
        Some((_, KeyDoes::Meta(line))) => {
            repl.step_below(prompt);
            let before = repl.last.clone();
            act::meta(repl, &line, false, before.as_ref())
        }
        Some((_, KeyDoes::Shell(command))) => outside::press_in_shell(repl, "", &command, prompt),
        Some((_, KeyDoes::Call)) => {
            let line = repl.typed_line();
            let (action, of_project) = repl.hooks.press(&key, &line);
            let failed = repl.hooks.has_failed();
            if failed || !matches!(action, Action::Nothing | Action::Insert(_)) {
                repl.step_below(prompt);
            }
            tell_hook_failures(repl);
            carry_out(repl, action, of_project)
        }
        _ => Flow::Continue,
    }
}

/// Runs a meta command of the config; `None` if there is none of that name.
pub(in crate::repl) fn own_meta(repl: &mut Repl, line: &str) -> Option<Flow> {
    let line = line.trim().trim_start_matches(':');
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (action, of_project) = repl.hooks.meta(name, argument.trim())?;
    Some(carry_out(repl, action, of_project))
}

fn carry_out(repl: &mut Repl, action: Action, of_project: bool) -> Flow {
    match action {
        Action::Nothing => {}
        Action::Print(text) => repl.console.line(sanitise(&text).trim_end_matches('\n')),
        Action::Insert(text) if of_project && has_hidden(&text) => {
            let message = "a project's hook wants to insert text with hidden characters; it was left out";
            repl.console.failure(&Failure::config(message));
        }
        Action::Insert(text) => {
            if of_project {
                // A key typed ahead must not submit a line that the person hasn't read.
                repl.terminal.session.keys_to(KeysTo::Question);
                repl.terminal.session.keys_to(KeysTo::HoldFresh);
            }
            repl.insert_text(&text);
        }
        Action::Ask(text) => return answer::ask(repl, None, &text),
        Action::Exec(command) => {
            let flow = repl.settle();
            if flow != Flow::Continue {
                return flow;
            }
            let command = command.trim_end_matches(['\n', '\r']).to_owned();
            let shown = format!("$ {}", escape_visible(&command));
            repl.console.line(&repl.console.paint(Style::new().dimmed(), &shown));
            return repl.run_command(&HumanLine::typed(command), true);
        }
    }
    Flow::Continue
}
