//! A question that a lone key answers. A paste, an escape sequence and keys that were typed before it are no answer.

use std::time::{Duration, Instant};

use reedline::{EditCommand, Signal};

use super::prompt::ReedPrompt;
use super::run::{Flow, Repl};
use crate::console::Console;
use crate::shell::Event;
use crate::shell::session::KeysTo;

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Reads keys one piece at a time, and passes over a bracketed paste however it is cut.
#[derive(Debug, Default)]
pub(super) struct Reader {
    paste: Option<Vec<u8>>,
}

impl Reader {
    /// Takes a piece; `choice` reads a lone key, `stop` is what Ctrl-C means in any company.
    pub(super) fn read<T>(&mut self, keys: &[u8], choice: impl FnOnce(&[u8]) -> Option<T>, stop: T) -> Option<T> {
        let find = |bytes: &[u8], what| memchr::memmem::find(bytes, what);
        if self.paste.is_none() && find(keys, PASTE_BEGINS).is_none() {
            return if keys.contains(&3) { Some(stop) } else { choice(keys) };
        }
        let pasted = self.paste.get_or_insert_default();
        pasted.extend_from_slice(keys);
        if let Some(at) = find(pasted, PASTE_ENDS) {
            let stops = pasted[at..].contains(&3);
            self.paste = None;
            return stops.then_some(stop);
        }
        // Of a long paste only the beginning of its end is still of use.
        let end = pasted.len();
        pasted.drain(..end.saturating_sub(PASTE_ENDS.len()));
        None
    }
}

/// Answers of the pump that are waited for before a question is put: one to the question itself, and as many as others
/// may still have on their way (the thread that lists programs, the one that answers).
const NUDGES: u8 = 3;

/// A question that is put, as it sees itself.
pub(super) trait Asked {
    /// What is answered.
    type Answer: Clone;
    /// Shows it: from now on keys are answers.
    fn show(&mut self, console: &Console);
    /// Takes a lone key, or several that were pressed at once.
    fn key(&mut self, keys: &[u8], console: &Console) -> Option<Self::Answer>;
    /// Something else was written meanwhile.
    fn disturbed(&mut self) {}
}

/// One row of text, and what keys mean.
struct Row<'q, C>(&'q str, C);

impl<T: Clone, C: Fn(&[u8]) -> Option<T>> Asked for Row<'_, C> {
    type Answer = T;

    fn show(&mut self, console: &Console) {
        console.write(self.0);
    }

    fn key(&mut self, keys: &[u8], _: &Console) -> Option<T> {
        (self.1)(keys)
    }
}

impl Repl {
    /// Puts a question and waits for a key that answers it; `stop` is what Ctrl-C says. The keys are kept from then on.
    pub(super) fn put_question<T: Clone>(
        &mut self,
        text: &str,
        choice: impl Fn(&[u8]) -> Option<T>,
        stop: T,
    ) -> Result<T, Flow> {
        self.put(None, &mut Row(text, choice), stop.clone(), stop)
    }

    /// Puts a question; `late` is what is taken for the answer where no key came for so long.
    pub(super) fn put<A: Asked>(
        &mut self,
        wait: Option<Duration>,
        asked: &mut A,
        stop: A::Answer,
        late: A::Answer,
    ) -> Result<A::Answer, Flow> {
        self.console.raw(b"\x1b[?2004h");
        let mut reader = Reader::default();
        // Keys from before the question don't answer it: they stay kept for the editor. So it is put when the pump has
        // said that from now on keys are answers; one pressed at the sight of it must count.
        self.session.keys_to(KeysTo::Question);
        (0..NUDGES).for_each(|_| self.session.handle().nudge());
        let mut nudges_due = NUDGES;
        let deadline_from_now = || wait.map(|wait| Instant::now() + wait);
        let mut deadline = deadline_from_now();
        let answer = loop {
            let event = match deadline {
                None => self.session.next_event(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match self.session.next_event_within(left) {
                        Some(event) => event,
                        None => break Ok(late),
                    }
                }
            };
            match event {
                Event::Nudged if nudges_due > 0 => {
                    nudges_due -= 1;
                    if nudges_due == 0 {
                        asked.show(&self.console);
                    }
                }
                Event::Keys(keys) if nudges_due == 0 => {
                    deadline = deadline_from_now();
                    if let Some(choice) = reader.read(&keys, |keys| asked.key(keys, &self.console), stop.clone()) {
                        break Ok(choice);
                    }
                }
                Event::Cancel => break Ok(stop),
                event => {
                    if matches!(event, Event::Output(_)) {
                        asked.disturbed();
                    }
                    let flow = self.take_event(event, None);
                    if flow != Flow::Continue {
                        break Err(flow);
                    }
                }
            }
        };
        self.session.keys_to(KeysTo::Hold);
        self.console.raw(b"\x1b[?2004l");
        answer
    }

    /// Lets the person write a line in the editor, which begins with `text`; nothing where they don't.
    pub(super) fn write_line(&mut self, label: &str, text: &str) -> Result<Option<String>, Flow> {
        // What was typed before mustn't submit it.
        self.session.keys_to(KeysTo::HoldFresh);
        let options = self.console.options();
        let prompt = ReedPrompt::from_shell(label, self.heading.clone(), options.color, options.unicode);
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
        self.session.keys_to(KeysTo::Hold);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paste_is_no_answer_however_it_is_cut() {
        let choice = |keys: &[u8]| (keys == b"r").then_some('r');
        let paste = b"\x1b[200~r\x1b[201~";
        for cut in 6..paste.len() {
            for second in cut..paste.len() {
                let mut reader = Reader::default();
                for piece in [&paste[..cut], &paste[cut..second], &paste[second..]] {
                    assert_eq!(reader.read(piece, choice, 's'), None, "{cut} {second}");
                }
                assert_eq!(reader.read(b"r", choice, 's'), Some('r'), "{cut} {second}");
            }
        }
    }
}
