//! The session as one that can be asked: its terminal, its editor, its live shell.

use std::path::Path;
use std::sync::Arc;

use reedline::{EditCommand, Signal};

use super::{Flow, Terminal};
use crate::ask::Asking;
use crate::config::{Env, HookEvent};
use crate::console::Console;
use crate::proto::tool::{Outcome, ToolError};
use crate::proto::{HumanLine, ModelCommand, Route};
use crate::repl::editing::prompt::ReedPrompt;
use crate::repl::editing::state::SharedState;
use crate::share::Elsewhere;
use crate::shell::session::KeysTo;
use crate::shell::{Event, Session};
use crate::turn::plain_text;

impl Terminal {
    /// Runs a model's command, which the person has read, in their own shell.
    pub(in crate::repl) fn run_for_model(&mut self, command: String) -> Result<Option<Outcome>, Flow> {
        let flow = self.run_command(&HumanLine::adopted(ModelCommand { text: command }), true);
        if flow != Flow::Continue {
            return Err(flow);
        }
        let Some(outcome) = self.last_outcome.take() else { return Ok(None) };
        self.tell_hooks(HookEvent::Command(&outcome));
        let text = plain_text(&outcome.output);
        let mut came = Outcome::of(text).with("exitCode", outcome.status).with("ran_in", "the user's own shell");
        if outcome.status != 0 {
            came.success = false;
            came.error = Some(ToolError::new("exit", format!("it ended with status {}", outcome.status), ""));
        }
        Ok(Some(came))
    }
}

impl Asking for Terminal {
    type Hangup = Flow;

    fn session(&self) -> &Session {
        &self.session
    }

    fn console(&self) -> &Console {
        &self.console
    }

    fn env(&self) -> &Env {
        &self.env
    }

    fn happened(&mut self, event: Event) -> Result<(), Flow> {
        match self.take_event(event, None) {
            Flow::Continue => Ok(()),
            ended => Err(ended),
        }
    }

    /// Opens the file in the live shell, as if the person had typed the command.
    fn open_in_editor(&mut self, path: &Path) -> Result<Option<i32>, Flow> {
        let command = match self.editor_command(path) {
            Ok(command) => command,
            Err(why) => {
                self.console.notice(why);
                return Ok(None);
            }
        };
        let flow = self.run_command(&HumanLine::typed(command), false);
        if flow != Flow::Continue {
            return Err(flow);
        }
        Ok(Some(self.last_outcome.take().map_or(0, |outcome| outcome.status)))
    }

    fn has_shell(&self) -> bool {
        true
    }

    fn elsewhere(&self) -> Option<Arc<Elsewhere>> {
        self.sharing.open()
    }

    fn write_line(&mut self, label: &str, text: &str) -> Result<Option<String>, Flow> {
        // Keys typed before the question mustn't submit the line.
        self.session.keys_to(KeysTo::HoldFresh);
        let options = self.console.options();
        let prompt = ReedPrompt::from_label(label, options.color, options.unicode);
        // Only a command comes with a text to change; all other answers are words, with their apostrophes.
        let force = |state: &SharedState, route| {
            state.write().forced = route;
        };
        force(&self.state, Some(if text.is_empty() { Route::Ask } else { Route::Shell }));
        self.editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text.to_owned())]);
        let written = loop {
            match self.read_line(&prompt) {
                Ok(Signal::Success(line)) => break Ok(Some(line)),
                Ok(Signal::CtrlC | Signal::CtrlD) => break Ok(None),
                Ok(_) => {
                    self.session.woken();
                    let flow = self.take_pending(Some(&prompt));
                    if flow != Flow::Continue {
                        break Err(flow);
                    }
                }
                Err(_) => break Ok(None),
            }
        };
        force(&self.state, None);
        self.session.keys_to(KeysTo::Hold);
        written
    }
}
