//! A question that is being answered, as its provider sees it: pieces go to the face and to the record, questions to the
//! person.

use std::collections::BTreeMap;

use super::person::Person;
use super::purse::{Purse, Settled};
use super::recorder::Recorder;
use super::secrets::{Finding, Secrets};
use super::tracer::Traced;
use crate::model::{Cancel, ChatEvent, Crossing, ModelError, Response, Sending, Sink};
use crate::proto::{Event, Failure};
use crate::redact::{Hidden, Settling};
use crate::turn::may_begin_call;

/// The parts of an agent that a question uses.
pub(super) struct Parts<'a> {
    pub(super) sink: &'a mut dyn FnMut(Event),
    pub(super) record: Record<'a>,
    pub(super) cancel: &'a Cancel,
    pub(super) person: &'a mut dyn Person,
    pub(super) consents: &'a mut BTreeMap<String, bool>,
    pub(super) secrets: &'a mut Secrets,
    pub(super) purse: &'a mut Purse,
    pub(super) tracer: Traced,
    /// Bytes of an answer.
    pub(super) bytes_max: usize,
}

/// A question in progress.
pub(super) struct Asked<'a> {
    /// The answer so far.
    pub(super) text: String,
    /// The thoughts of the request that runs.
    thoughts: String,
    /// Separates the text that can be stored already from text that may yet turn out to be secret.
    settling: Settling,
    /// The length of the text from requests that are counted.
    counted_bytes: usize,
    pub(super) secrets: &'a mut Secrets,
    pub(super) purse: &'a mut Purse,
    pub(super) sink: &'a mut dyn FnMut(Event),
    pub(super) record: Record<'a>,
    pub(super) cancel: &'a Cancel,
    pub(super) person: &'a mut dyn Person,
    pub(super) tracer: Traced,
    consents: &'a mut BTreeMap<String, bool>,
    bytes_max: usize,
    /// Text that may turn out to be a call; it isn't shown yet.
    held: String,
    /// True if calls may be written as text, so that such text is held back.
    pub(super) holds_calls: bool,
    /// Tools ran since the last piece: the next one begins a paragraph.
    pub(super) is_between_rounds: bool,
    /// The answer was stopped for its length.
    pub(super) is_too_long: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn new(parts: Parts<'a>) -> Self {
        let Parts { sink, record, cancel, person, consents, secrets, purse, tracer, bytes_max } = parts;
        Self {
            text: String::new(),
            thoughts: String::new(),
            settling: Settling::default(),
            counted_bytes: 0,
            secrets,
            purse,
            sink,
            record,
            cancel,
            person,
            tracer,
            consents,
            bytes_max,
            held: String::new(),
            holds_calls: false,
            is_between_rounds: false,
            is_too_long: false,
        }
    }

    /// Takes a piece of the answer.
    fn piece(&mut self, piece: String) {
        self.text.push_str(&piece);
        let settled = self.settling.push(&self.secrets.redactor, &piece);
        (self.sink)(Event::Text(piece));
        self.keep(settled);
    }

    /// Takes a piece of the answer: text that may be a call is held back, from the beginning of its line.
    fn arrived(&mut self, piece: &str) {
        self.held.push_str(piece);
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', self.held.as_bytes()).map(|at| at + 1));
        let begun = starts.filter(|at| self.holds_calls && may_begin_call(&self.held[*at..])).min();
        let shown: String = self.held.drain(..begun.unwrap_or(self.held.len())).collect();
        self.show(shown);
    }

    /// Shows the held text: it isn't a call.
    pub(super) fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.show(held);
    }

    /// Drops the held text: it is a call.
    pub(super) fn drop_held(&mut self) {
        self.held.clear();
    }

    fn show(&mut self, piece: String) {
        if piece.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_between_rounds) && !self.text.trim_end().is_empty() {
            self.piece("\n\n".to_owned());
        }
        self.piece(piece);
    }

    fn keep(&mut self, (piece, hidden): (String, Vec<Hidden>)) {
        let place = || "the answer, as it is kept".to_owned();
        self.secrets.note(hidden.into_iter().map(|hidden| Finding { place: place(), hidden }), false);
        if !piece.is_empty() {
            self.record.keep(self.sink, |it| it.answer_piece(&piece));
        }
    }

    /// Releases the held text at the end of the answer.
    pub(super) fn settle_rest(&mut self) {
        let rest = self.settling.finish(&self.secrets.redactor);
        self.keep(rest);
    }

    /// Counts a request that is over and reports its cost; to be called after each.
    pub(super) fn settle(&mut self, end: &Result<Response, Box<ModelError>>) {
        self.settle_rest();
        let thoughts = self.secrets.redactor.redact(&std::mem::take(&mut self.thoughts)).text.into_owned();
        let came = (&self.text[self.counted_bytes..], thoughts.as_str());
        let (settled, trouble) = self.purse.settle(end.as_ref().map_err(|error| &**error), came, self.record.recorder);
        self.counted_bytes = self.text.len();
        if let Some(Settled { spent, notices }) = settled {
            (self.sink)(Event::Usage(Box::new(spent)));
            notices.into_iter().for_each(|notice| (self.sink)(Event::Notice(notice)));
        }
        self.record.keep(self.sink, |_| trouble.map_or(Ok(()), Err));
    }
}

impl Sink for Asked<'_> {
    fn event(&mut self, event: ChatEvent) {
        match event {
            ChatEvent::Text(piece) => {
                // An answer that arrives in one piece is cut like one that is streamed.
                let room = self.bytes_max.saturating_sub(self.text.len() + self.held.len());
                let fits = piece.len() <= room;
                self.arrived(if fits { &piece } else { &piece[..piece.floor_char_boundary(room)] });
                if !fits && !std::mem::replace(&mut self.is_too_long, true) {
                    self.cancel.cancel();
                }
            }
            ChatEvent::Thought(piece) => {
                self.thoughts.push_str(&piece);
                (self.sink)(Event::Thought(piece));
            }
            ChatEvent::Pause => self.record.keep(self.sink, |it| it.answer_pauses()),
            ChatEvent::Notice(text) => (self.sink)(Event::Notice(text)),
        }
    }

    fn cancel(&self) -> &Cancel {
        self.cancel
    }

    fn permit(&mut self, sending: &Sending<'_>) -> Result<Option<u64>, Failure> {
        self.purse.permit(sending, self.record.recorder)
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        if let Some(answer) = self.consents.get(&crossing.to) {
            return *answer;
        }
        let yes = self.person.consent(crossing);
        // To stop the whole question says nothing of the next one.
        if !self.cancel.is_cancelled() {
            self.consents.insert(crossing.to.clone(), yes);
        }
        yes
    }
}

/// Receives a text in the background: notices are passed on, and nothing goes to a more distant model.
pub(super) struct Quiet<'a> {
    pub(super) cancel: &'a Cancel,
    pub(super) sink: &'a mut dyn FnMut(Event),
    pub(super) purse: &'a mut Purse,
    pub(super) recorder: &'a mut dyn Recorder,
}

impl Sink for Quiet<'_> {
    fn event(&mut self, event: ChatEvent) {
        if let ChatEvent::Notice(text) = event {
            (self.sink)(Event::Notice(text));
        }
    }

    fn cancel(&self) -> &Cancel {
        self.cancel
    }

    fn permit(&mut self, sending: &Sending<'_>) -> Result<Option<u64>, Failure> {
        self.purse.permit(sending, self.recorder)
    }

    fn consent(&mut self, _: &Crossing) -> bool {
        false
    }
}

/// Passes events to the recorder, and reports a failure to the user once.
pub(super) struct Record<'a> {
    pub(super) recorder: &'a mut dyn Recorder,
    pub(super) has_failed: bool,
}

impl Record<'_> {
    pub(super) fn keep(
        &mut self,
        sink: &mut dyn FnMut(Event),
        tell: impl FnOnce(&mut dyn Recorder) -> Result<(), Failure>,
    ) {
        if let Err(failure) = tell(self.recorder)
            && !std::mem::replace(&mut self.has_failed, true)
        {
            sink(Event::Notice(format!("[history] this conversation is not being stored: {}", failure.message)));
        }
    }
}
