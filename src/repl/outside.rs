//! The line in other hands: the user's editor, and keys of the live shell's own line editor. It must not know what the
//! line means.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use reedline::EditCommand;

use super::prompt::ReedPrompt;
use super::run::{Flow, Repl};
use super::state;
use crate::ask::Asking;
use crate::host::PrivateCopy;
use crate::shell::Event;
use crate::shell::session::Press;

impl Repl {
    /// Opens the line that is being typed in the user's editor, and takes what they save as the line.
    pub(super) fn edit_line(&mut self, prompt: &ReedPrompt) -> Flow {
        let flow = self.settle();
        if flow != Flow::Continue {
            return flow;
        }
        let line = self.typed_line();
        self.step_below(prompt);
        let copy = match PrivateCopy::new("line.sh", line.as_bytes(), self.runtime.env()) {
            Ok(copy) => copy,
            Err(error) => {
                self.console.notice(&format!("no file can be made for the editor: {error}"));
                return Flow::Continue;
            }
        };
        let status = match self.terminal.open_in_editor(copy.path()) {
            Ok(Some(status)) => status,
            Ok(None) => return Flow::Continue,
            Err(flow) => return flow,
        };
        match copy.read().map(String::from_utf8) {
            Ok(_) if status != 0 => {
                self.console.notice(&format!("the editor ended with status {status}: the line is as it was"));
            }
            Ok(Ok(text)) => self.set_line(text.trim_end(), usize::MAX),
            Ok(Err(_)) => self.console.notice("the editor saved no UTF-8 text: the line is as it was"),
            Err(error) => self.console.notice(&format!("the editor's file can't be read: {error}")),
        }
        Flow::Continue
    }

    /// Puts a text into the line, with the cursor after so many characters.
    fn set_line(&mut self, text: &str, point: usize) {
        let clean: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        let position = clean.char_indices().nth(point).map_or(clean.len(), |(at, _)| at);
        self.terminal.editor.run_edit_commands(&[
            EditCommand::Clear,
            EditCommand::InsertString(clean),
            EditCommand::MoveToPosition { position, select: false },
        ]);
    }

    /// Whether the shell's own line editor is to complete the line.
    pub(super) fn shell_completes(&self) -> bool {
        state::read(&self.state).shell_completes.swap(false, Ordering::Relaxed)
    }

    /// Lets the live shell run a key's binding, or a function of its own, on the line that is being typed.
    pub(super) fn press_in_shell(&mut self, key: &str, function: &str, prompt: &ReedPrompt) -> Flow {
        let flow = self.settle();
        if flow != Flow::Continue {
            return flow;
        }
        if state::read(&self.state).other_grammar {
            self.console.notice("a key can run functions of bash only");
            return Flow::Continue;
        }
        let line = self.typed_line();
        let at = self.terminal.editor.current_insertion_point().min(line.len());
        let point = line.get(..at).map_or(0, |before| before.chars().count());
        self.terminal.session.press(&Press { line: &line, point, key, function, prompt: &prompt.drawn() });
        let (text, point, cwd) = loop {
            match self.terminal.session.next_event() {
                Event::Line { text, point, cwd } => break (text, point, cwd),
                event => {
                    let flow = self.terminal.take_event(event, None);
                    if flow != Flow::Continue {
                        return flow;
                    }
                }
            }
        };
        if let Some(cwd) = cwd.filter(|cwd| *cwd != state::read(&self.state).cwd) {
            self.state.write().unwrap_or_else(PoisonError::into_inner).cwd.clone_from(&cwd);
            self.runtime.stand_in(cwd);
            self.configured.project.line_done();
        }
        if text != line || self.terminal.editor.current_insertion_point() != at {
            self.set_line(&text, point);
        }
        Flow::Continue
    }
}
