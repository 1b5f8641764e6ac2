//! A question that a lone key answers. A paste, an escape sequence and keys that were typed before it are no answer.

use super::run::{Flow, Repl};
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
    pub(super) fn read<T>(&mut self, keys: &[u8], choice: impl Fn(&[u8]) -> Option<T>, stop: T) -> Option<T> {
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

impl Repl {
    /// Puts a question and waits for a key that answers it; `stop` is what Ctrl-C says. The keys are kept from then on.
    pub(super) fn put_question<T: Clone>(
        &mut self,
        text: &str,
        choice: impl Fn(&[u8]) -> Option<T>,
        stop: T,
    ) -> Result<T, Flow> {
        self.console.raw(b"\x1b[?2004h");
        let mut reader = Reader::default();
        // Keys from before the question don't answer it: they stay kept for the editor. So it is put when the pump has
        // said that from now on keys are answers; one pressed at the sight of it must count.
        self.session.keys_to(KeysTo::Question);
        self.session.handle().nudge();
        let mut is_put = false;
        let answer = loop {
            match self.session.next_event() {
                Event::Nudged if !is_put => {
                    is_put = true;
                    self.console.write(text);
                }
                Event::Keys(keys) if is_put => {
                    if let Some(choice) = reader.read(&keys, &choice, stop.clone()) {
                        break Ok(choice);
                    }
                }
                event => {
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
