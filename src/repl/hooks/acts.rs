//! The acts of hooks: the loop does what a key, a command of the config or its answer asks for.

use nu_ansi_term::Style;

use crate::config::{Action, KeyDoes, KeyName};
use crate::proto::HumanLine;
use crate::render::sanitise;
use crate::render::text::{escape_visible, has_hidden};
use crate::repl::configure::config_failure;
use crate::repl::prompt::ReedPrompt;
use crate::repl::run::{Flow, Repl};
use crate::shell::session::KeysTo;

impl Repl {
    /// Tells what hooks failed since the last time.
    pub(in crate::repl) fn tell_hook_failures(&self) {
        for failure in self.hooks.take_failures() {
            self.console.failure(&config_failure(failure.to_string(), ""));
        }
    }

    /// Does what a key with a hook asks for; the line that is being typed stays.
    pub(in crate::repl) fn key_pressed(&mut self, name: &str, prompt: &ReedPrompt) -> Flow {
        let Ok(key) = KeyName::parse(name) else { return Flow::Continue };
        let does = self.hooks.keys().into_iter().find(|(known, _)| *known == key);
        match does {
            Some((_, KeyDoes::Meta(line))) => {
                self.step_below(prompt);
                let before = self.last.clone();
                self.meta(&line, false, before.as_ref())
            }
            Some((_, KeyDoes::Shell(command))) => self.press_in_shell("", &command, prompt),
            Some((_, KeyDoes::Call)) => {
                let line = self.typed_line();
                let (action, of_project) = self.hooks.press(&key, &line);
                let failed = self.hooks.has_failed();
                if failed || !matches!(action, Action::Nothing | Action::Insert(_)) {
                    self.step_below(prompt);
                }
                self.tell_hook_failures();
                self.carry_out(action, of_project)
            }
            _ => Flow::Continue,
        }
    }

    /// Runs a meta command of the config; none where there is none of that name.
    pub(in crate::repl) fn own_meta(&mut self, line: &str) -> Option<Flow> {
        let line = line.trim().trim_start_matches(':');
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (action, of_project) = self.hooks.meta(name, argument.trim())?;
        Some(self.carry_out(action, of_project))
    }

    fn carry_out(&mut self, action: Action, of_project: bool) -> Flow {
        match action {
            Action::Nothing => {}
            Action::Print(text) => self.console.line(sanitise(&text).trim_end_matches('\n')),
            Action::Insert(text) if of_project && has_hidden(&text) => {
                let message = "a project's hook wants to insert text with hidden characters; it was left out";
                self.console.failure(&config_failure(message.into(), ""));
            }
            Action::Insert(text) => {
                if of_project {
                    // A key typed ahead must not submit what nobody has read.
                    self.terminal.session.keys_to(KeysTo::Question);
                    self.terminal.session.keys_to(KeysTo::HoldFresh);
                }
                self.insert_text(&text);
            }
            Action::Ask(text) => return self.ask(None, &text),
            Action::Exec(command) => {
                let flow = self.settle();
                if flow != Flow::Continue {
                    return flow;
                }
                let command = command.trim_end_matches(['\n', '\r']).to_owned();
                let shown = format!("$ {}", escape_visible(&command));
                self.console.line(&self.console.paint(Style::new().dimmed(), &shown));
                return self.run_command(&HumanLine::typed(command), true);
            }
        }
        Flow::Continue
    }
}
