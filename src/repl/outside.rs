//! The line in other hands: the user's editor, and keys of the live shell's own line editor. It must not know what the
//! line means.

use std::sync::atomic::Ordering;

use reedline::EditCommand;

use super::editing::prompt::ReedPrompt;
use super::editing::state;
use super::hub::{Flow, Repl};
use super::line::bytes;
use crate::ask::Asking;
use crate::host::PrivateCopy;
use crate::shell::Event;
use crate::shell::session::Press;

/// Opens the line that is being typed in the user's editor, and takes what they save as the line.
pub(super) fn edit_line(repl: &mut Repl, prompt: &ReedPrompt) -> Flow {
    let flow = repl.settle();
    if flow != Flow::Continue {
        return flow;
    }
    let line = repl.typed_line();
    repl.step_below(prompt);
    let copy = match PrivateCopy::new("line.sh", line.as_bytes(), repl.runtime.env()) {
        Ok(copy) => copy,
        Err(error) => {
            repl.console.notice(&format!("no file can be made for the editor: {error}"));
            return Flow::Continue;
        }
    };
    let status = match repl.terminal.open_in_editor(copy.path()) {
        Ok(Some(status)) => status,
        Ok(None) => return Flow::Continue,
        Err(flow) => return flow,
    };
    match copy.read().map(String::from_utf8) {
        Ok(_) if status != 0 => {
            repl.console.notice(&format!("the editor ended with status {status}: the line is as it was"));
        }
        Ok(Ok(text)) => set_line(repl, text.trim_end(), usize::MAX),
        Ok(Err(_)) => repl.console.notice("the editor saved no UTF-8 text: the line is as it was"),
        Err(error) => repl.console.notice(&format!("the editor's file can't be read: {error}")),
    }
    Flow::Continue
}

/// Puts a text into the line, with the cursor after this number of characters.
fn set_line(repl: &mut Repl, text: &str, point: usize) {
    let clean: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let position = clean.char_indices().nth(point).map_or(clean.len(), |(at, _)| at);
    repl.terminal.editor.run_edit_commands(&[
        EditCommand::Clear,
        EditCommand::InsertString(clean),
        EditCommand::MoveToPosition { position, select: false },
    ]);
}

/// Returns whether the shell's own line editor is to complete the line.
pub(super) fn shell_completes(repl: &Repl) -> bool {
    state::read(&repl.state).shell_completes.swap(false, Ordering::Relaxed)
}

/// Returns whether a line has an expansion of the history that bash is to show before it runs (`histverify`): then the
/// line that it makes is in the editor now.
pub(super) fn expanded(repl: &mut Repl, line: &str, prompt: &ReedPrompt) -> Result<bool, Flow> {
    if !state::read(&repl.state).names.history.verifies || !(line.contains('!') || line.starts_with('^')) {
        return Ok(false);
    }
    set_line(repl, line, usize::MAX);
    match press_in_shell(repl, "", "__rc_expanded", prompt) {
        Flow::Continue => {}
        flow => return Err(flow),
    }
    if repl.typed_line() != line {
        return Ok(true);
    }
    repl.terminal.editor.run_edit_commands(&[EditCommand::Clear]);
    Ok(false)
}

/// Lets the live shell run a key's binding, or a function of its own, on the line that is being typed.
pub(super) fn press_in_shell(repl: &mut Repl, key: &str, function: &str, prompt: &ReedPrompt) -> Flow {
    let flow = repl.settle();
    if flow != Flow::Continue {
        return flow;
    }
    if !function.is_empty() && state::read(&repl.state).other_grammar {
        repl.console.notice("a key can run functions of bash only");
        return Flow::Continue;
    }
    let line = repl.typed_line();
    let at = repl.terminal.editor.current_insertion_point().min(line.len());
    let point = line.get(..at).map_or(0, |before| before.chars().count());
    // Each shell reads bytes in this form.
    let key: String = bytes(key).unwrap_or_default().iter().map(|byte| format!("\\x{byte:02x}")).collect();
    let key = key.as_str();
    repl.terminal.finished = None;
    repl.terminal.session.press(&Press { line: &line, point, key, function, prompt: &prompt.drawn() });
    // The text that zsh prepared for its next line while it ran one for the key.
    let mut edited = None;
    let (text, point, rows, cwd) = loop {
        match repl.terminal.session.next_event() {
            Event::Line { text, point, rows, cwd } => match edited {
                Some(edited) => break (edited, usize::MAX, rows, cwd),
                None => break (text, point, rows, cwd),
            },
            Event::Edit(text) => edited = Some(text),
            event => {
                let flow = repl.terminal.take_event(event, None);
                if flow != Flow::Continue {
                    return flow;
                }
            }
        }
    };
    let has_run = repl.line_of_key_ended();
    repl.leave_rows(if has_run { 0 } else { rows }, (&line, at), prompt);
    if let Some(cwd) = cwd.filter(|cwd| *cwd != state::read(&repl.state).cwd) {
        repl.state.write().cwd.clone_from(&cwd);
        repl.runtime.stand_in(cwd);
        repl.configured.project.line_done();
    }
    // A new text makes the next step through the history begin at its end.
    if has_run || text != line || repl.terminal.editor.current_insertion_point() != at {
        set_line(repl, &text, point);
    }
    Flow::Continue
}
