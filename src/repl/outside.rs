//! The line in other hands: the user's editor, and keys of the live shell's own line editor. It must not know what the
//! line means.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reedline::{EditCommand, Reedline};

use super::keys::{self, Wanted};
use super::prompt::ReedPrompt;
use super::run::{Flow, Repl};
use super::{editor, state};
use crate::ask::Asking;
use crate::host::PrivateCopy;
use crate::shell::{Asked, Event};

/// How long the shell may take to say what a variable holds.
const VALUE_WAIT: Duration = Duration::from_secs(1);
/// Editors that are tried where no variable names one.
const EDITORS: [&str; 2] = ["sensible-editor", "vi"];

impl Repl {
    /// The user's editor: what the live shell's variables say, which start-up files set, or what is installed.
    pub(super) fn live_editor(&self) -> Option<String> {
        let handle = self.session.handle();
        let value = |name: &str| {
            let found = handle.ask(Asked::Value(format!("${name}")), VALUE_WAIT).into_iter().next();
            found.filter(|value| !value.trim().is_empty())
        };
        let installed = || {
            let programs = &state::read(&self.state).names.programs;
            EDITORS.iter().find(|name| programs.contains(**name)).map(|name| (*name).to_owned())
        };
        value("VISUAL").or_else(|| value("EDITOR")).or_else(installed)
    }

    /// The command that opens a file in the user's editor.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn editor_command(&self, path: &Path) -> Result<String, &'static str> {
        let Some(program) = self.live_editor() else {
            return Err("no editor: VISUAL and EDITOR are empty, and neither sensible-editor nor vi is installed");
        };
        let quoted = path.to_str().and_then(|path| shlex::try_quote(path).ok());
        quoted.map(|path| format!("{program} {path}")).ok_or("the file's path can't be written as a command")
    }

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
        let status = match self.open_in_editor(copy.path()) {
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
        self.editor.run_edit_commands(&[
            EditCommand::Clear,
            EditCommand::InsertString(clean),
            EditCommand::MoveToPosition { position, select: false },
        ]);
    }

    /// Whether the shell's own line editor is to complete the line.
    pub(super) fn shell_completes(&self) -> bool {
        state::read(&self.state).shell_completes.swap(false, Ordering::Relaxed)
    }

    /// Has the live shell do what a key is bound to, or run a function of its own, on the line that is being typed.
    pub(super) fn press_in_shell(&mut self, key: &str, function: &str) -> Flow {
        let flow = self.settle();
        if flow != Flow::Continue {
            return flow;
        }
        if state::read(&self.state).other_grammar {
            self.console.notice("a key can run functions of bash only");
            return Flow::Continue;
        }
        let line = self.typed_line();
        let at = self.editor.current_insertion_point().min(line.len());
        let point = line.get(..at).map_or(0, |before| before.chars().count());
        self.session.press(&line, point, key, function);
        let (text, point, cwd) = loop {
            match self.session.next_event() {
                Event::Line { text, point, cwd } => break (text, point, cwd),
                event => {
                    let flow = self.take_event(event, None);
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
        if text != line || self.editor.current_insertion_point() != at {
            self.set_line(&text, point);
        }
        Flow::Continue
    }

    /// Gives the editor the keys that the config and the shell say, with the line as it is.
    pub(super) fn set_keys(&mut self) {
        let shell = state::read(&self.state).names.keys.clone();
        let settings = &self.runtime.settings().editor;
        let wanted = Wanted {
            vi: editor::is_vi(settings, &shell),
            word: editor::word_key(settings),
            hooks: &self.hooks.keys(),
            shell: &shell,
            links: &self.links,
        };
        let mode = keys::edit_mode(&wanted);
        self.session.handle().stop_at(keys::stops(wanted.hooks, &shell));
        let editor = std::mem::replace(&mut self.editor, Reedline::create());
        self.editor = editor.with_edit_mode(mode);
    }
}
