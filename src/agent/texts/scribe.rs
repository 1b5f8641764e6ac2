//! Lets a model write a text that isn't shown: the summary of a conversation's older part, a memory. It must not lose a question:
//! without a summary the conversation continues, or its oldest turns are dropped.

use crate::agent::asked::{Asked, Quiet};
use crate::agent::purse::{Purse, Settled};
use crate::agent::recorder::Recorder;
use crate::agent::secrets::Secrets;
use crate::agent::tracer::{Traced, chat};
use crate::base::text::counted;
use crate::model::{Cancel, Fault, Item, Metadata, Models, Provider, Request, Task};
use crate::proto::{Event, Failure, Message};
use crate::turn::{Conversation, Older, Scale};

/// Maximum number of tokens of a summary: some 300 words are asked for, and some models think before they write.
const SUMMARY_TOKENS_MAX: u64 = 4096;

/// All that is needed for a text that isn't shown.
pub(in crate::agent) struct Scribe<'a> {
    pub(in crate::agent) models: &'a Models,
    pub(in crate::agent) secrets: &'a mut Secrets,
    pub(in crate::agent) purse: &'a mut Purse,
    pub(in crate::agent) recorder: &'a mut dyn Recorder,
    pub(in crate::agent) cancel: &'a Cancel,
    pub(in crate::agent) sink: &'a mut dyn FnMut(Event),
    pub(in crate::agent) tracer: &'a Traced,
}

impl Scribe<'_> {
    /// Replaces the older part by a summary.
    pub(in crate::agent) fn summarise(
        &mut self,
        conversation: &mut Conversation,
        provider: &dyn Provider,
        older: &Older,
    ) -> Result<(), Failure> {
        let small = self.models.for_task(provider, Task::Summary);
        let writer: &dyn Provider = small.as_deref().unwrap_or(provider);
        let (turns, tokens) = (older.turns, older.tokens);
        (self.sink)(Event::Notice(format!(
            "[context] the window is nearly full: {} summarises the oldest {}, about {tokens} tokens",
            writer.name(),
            counted(turns, "turn")
        )));
        let text = self.written(writer, &older.messages)?;
        let now = conversation.compacted(older, &text);
        if let Err(failure) = self.recorder.summarised(Some((&text, conversation.first_live()))) {
            (self.sink)(Event::Notice(format!("[history] the summary is not being stored: {}", failure.message)));
        }
        (self.sink)(Event::Notice(format!(
            "[context] {} {} a summary of about {now} tokens now; :context shows it, :context restore undoes it",
            counted(turns, "turn"),
            if turns == 1 { "is" } else { "are" }
        )));
        Ok(())
    }

    /// Lets a model write a text; without its secrets.
    pub(in crate::agent) fn written(&mut self, writer: &dyn Provider, messages: &[Message]) -> Result<String, Failure> {
        let metadata = Metadata { task: Task::Summary, ..Metadata::default() };
        // Some servers refuse a request whose answer would have no room.
        let room = writer.capabilities().context_tokens.map_or(SUMMARY_TOKENS_MAX, |window| window / 4);
        let max_output_tokens = Some(room.min(SUMMARY_TOKENS_MAX));
        let mut request = Request { metadata, max_output_tokens, ..Request::of(messages) };
        self.secrets.hide_in(&mut request);
        let mut quiet =
            Quiet { cancel: self.cancel, sink: self.sink, purse: self.purse, recorder: &mut *self.recorder };
        let end = chat(self.tracer, writer, &mut request, &mut quiet);
        let came = end.as_ref().map_or("", |response| response.text.as_str());
        let (settled, _) = self.purse.settle(end.as_ref().map_err(|error| &**error), (came, ""), self.recorder);
        if let Some(Settled { spent, notices }) = settled {
            (self.sink)(Event::Usage(Box::new(spent)));
            notices.into_iter().for_each(|notice| (self.sink)(Event::Notice(notice)));
        }
        let response = end.map_err(|error| match error.fault {
            Fault::Cancelled => Failure::user("it was stopped"),
            _ => error.to_failure(),
        })?;
        let text = self.secrets.redactor.redact(response.text.trim()).text.into_owned();
        if text.is_empty() {
            let message = format!("{} wrote nothing", writer.name());
            return Err(Failure::unavailable(message));
        }
        Ok(text)
    }
}

/// Shortens a conversation in the middle of a question, once: if its next request would exceed the threshold, or the server
/// refused it for its size.
pub(in crate::agent) struct Shorter<'a> {
    pub(in crate::agent) conversation: &'a mut Conversation,
    pub(in crate::agent) models: &'a Models,
    pub(in crate::agent) trails: &'a [(String, Vec<Item>)],
    /// Size above which the older part is summarised; `None` if it isn't summarised automatically.
    pub(in crate::agent) compact_at: Option<usize>,
    pub(in crate::agent) has_run: bool,
    /// The estimated tokens of the request that was refused, if one was.
    pub(in crate::agent) refused: Option<usize>,
}

impl Shorter<'_> {
    /// Returns whether the next request would exceed the threshold, by the server's count of the previous one.
    pub(in crate::agent) fn is_due(&self, counted: Counted, request_tokens: usize) -> bool {
        !self.has_run && self.compact_at.is_some_and(|most| counted.scale().counted(request_tokens) > most)
    }

    /// As [`Self::shorten`], after the server refused a request of this estimated size. If no summary can be made, the
    /// older part is dropped without one, since the request can't be sent otherwise.
    pub(in crate::agent) fn shorten_refused(
        &mut self,
        provider: &dyn Provider,
        request_tokens: usize,
        asked: &mut Asked<'_>,
    ) -> Option<Vec<Item>> {
        if self.has_run {
            return None;
        }
        let older = self.conversation.older_of_refused(request_tokens)?;
        self.refused = Some(request_tokens);
        let shorter = self.summarised(provider, &older, asked);
        if let Err(failure) = shorter {
            if asked.cancel.is_cancelled() {
                return None;
            }
            let notice = self.conversation.evict(&older);
            let why = failure.message;
            (asked.sink)(Event::Notice(format!(
                "{notice}: the server refused the request for its size; no summary: {why}"
            )));
        }
        Some(self.items())
    }

    /// Returns the messages before the question's own calls from now on, including the question; `None` if nothing is
    /// older or no summary could be made.
    pub(in crate::agent) fn shorten(
        &mut self,
        provider: &dyn Provider,
        counted: Counted,
        request_tokens: usize,
        asked: &mut Asked<'_>,
    ) -> Option<Vec<Item>> {
        self.has_run = true;
        let beside = request_tokens.saturating_sub(self.conversation.estimated_tokens());
        self.conversation.scale(Scale { beside, ..counted.scale() });
        let older = self.conversation.older()?;
        self.summarised(provider, &older, asked).ok()?;
        Some(self.items())
    }

    fn summarised(&mut self, provider: &dyn Provider, older: &Older, asked: &mut Asked<'_>) -> Result<(), Failure> {
        self.has_run = true;
        let Asked { secrets, purse, record, cancel, sink, tracer, .. } = asked;
        let models = self.models;
        let mut scribe = Scribe { models, secrets, purse, recorder: record.recorder, cancel, sink, tracer };
        scribe.summarise(self.conversation, provider, older)
    }

    fn items(&mut self) -> Vec<Item> {
        let mut request = Request::of(&self.conversation.messages_again());
        with_trails(&mut request, self.trails);
        request.messages
    }
}

/// Inserts the calls of earlier questions at their places. A question as it was recorded is the end of the one that was sent.
pub(in crate::agent) fn with_trails(request: &mut Request, trails: &[(String, Vec<Item>)]) {
    // Not the question that is asked now; and of questions that are alike, each trail has its own, from the last one on.
    let mut before = request.messages.len().saturating_sub(1);
    for (question, trail) in trails.iter().rev() {
        let is_it = |item: &Item| {
            let Item::User(text) = item else { return false };
            text.strip_suffix(question.as_str()).is_some_and(|notes| notes.is_empty() || notes.ends_with('\n'))
        };
        if let Some(at) = request.messages[..before].iter().rposition(is_it) {
            request.messages.splice(at + 1..at + 1, trail.iter().cloned());
            before = at;
        }
    }
}

/// The server's count of a request, and our estimate.
#[derive(Clone, Copy, Debug)]
pub(in crate::agent) struct Counted {
    pub(in crate::agent) tokens: u64,
    pub(in crate::agent) estimated: usize,
}

impl Counted {
    /// The ratio of the two.
    #[allow(clippy::cast_precision_loss, reason = "token counts are far below a float's limit")]
    pub(in crate::agent) fn scale(self) -> Scale {
        Scale { factor: self.tokens as f64 / self.estimated.max(1) as f64, beside: 0 }
    }
}
