//! The older part of a conversation becomes a summary, written by the small model where there is one. It must not lose a
//! question: where no summary comes, the conversation goes on without.

use super::purse::{Purse, Settled};
use super::recorder::Recorder;
use super::{Agent, Cancel, choose};
use crate::model::{ChatEvent, Crossing, Fault, Metadata, Provider, Request, Sending, Sink, Task};
use crate::proto::{Event, Failure, FailureKind};
use crate::turn::{Older, Part, estimate_tokens};

/// After so many summaries that failed no more are tried by themselves in this conversation.
const FAILURES_MAX: u8 = 3;
/// Most tokens of a summary: some 300 words are asked for, and some models think before they write.
const SUMMARY_TOKENS_MAX: u64 = 4096;

/// What the window holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextReport {
    /// The parts that the next question would carry, in order.
    pub parts: Vec<Part>,
    /// The most tokens of a request.
    pub window_tokens: usize,
    /// From how many tokens on the older part is summarised; none where it never is.
    pub compact_at_tokens: Option<usize>,
    /// The summary, and how many turns it stands for.
    pub summary: Option<(String, usize)>,
}

impl Agent {
    /// The most tokens of a request to the model that answers: the budget, or its window where that is smaller. A server
    /// that can tell its window is asked, once.
    #[must_use]
    pub fn window_tokens(&mut self) -> usize {
        if let Ok(provider) = choose(&self.models, self.current.as_deref()) {
            provider.learn(&Cancel::new());
            self.prepare(&*provider);
        }
        self.conversation.budget()
    }

    /// Tells what the window holds and what each part costs.
    #[must_use]
    pub fn context(&mut self) -> ContextReport {
        let window_tokens = self.window_tokens();
        let provider = choose(&self.models, self.current.as_deref()).ok();
        let percent = self.compact_at_percent;
        let mut parts = self.conversation.parts();
        let has_tools = provider.as_ref().is_some_and(|provider| self.has_tools(&**provider));
        if let Some(hands) = self.hands.as_ref().filter(|_| has_tools) {
            let told = |tool: crate::model::Tool| format!("{} {} {}", tool.name, tool.description, tool.schema);
            let tokens = hands.tools().into_iter().map(|tool| estimate_tokens(&told(tool))).sum();
            parts.insert(0, Part { name: "tools that the model is told of".into(), tokens });
        }
        ContextReport {
            parts,
            window_tokens,
            compact_at_tokens: (percent > 0 && self.summary_failures < FAILURES_MAX)
                .then_some(window_tokens * percent / 100),
            summary: self.conversation.summary().map(|(text, turns)| (text.to_owned(), turns)),
        }
    }

    /// Summarises the older part now, whatever the threshold says.
    ///
    /// # Errors
    /// There is no older part, or no summary came.
    pub fn compact_now(&mut self, cancel: &Cancel, sink: &mut dyn FnMut(Event)) -> Result<(), Failure> {
        let provider = choose(&self.models, self.current.as_deref())?;
        self.prepare(&*provider);
        self.summary_failures = 0;
        self.conversation.may_compact();
        let Some(older) = self.conversation.older() else {
            return Err(Failure {
                kind: FailureKind::User,
                message: "nothing is old enough to be summarised".into(),
                hint: "the newest turns always stay to the letter; :context shows what is there".into(),
            });
        };
        self.summarise(&*provider, &older, cancel, sink)
    }

    /// Takes the summary away; gives how many turns it stood for.
    pub fn restore_context(&mut self) -> Option<usize> {
        let turns = self.conversation.restore_summarised()?;
        // A record that can't be written keeps the summary for whoever resumes: no harm.
        let _ = self.recorder.summarised(None);
        Some(turns)
    }

    /// Summarises the older part where the question would pass the threshold. Ctrl-C stops it, and then the question too.
    pub(super) fn compact_if_due(
        &mut self,
        provider: &dyn Provider,
        question: &str,
        cancel: &Cancel,
        sink: &mut dyn FnMut(Event),
    ) {
        if self.summary_failures >= FAILURES_MAX {
            return;
        }
        let Some(older) = self.conversation.due_for_summary(question) else { return };
        let Err(failure) = self.summarise(provider, &older, cancel, sink) else { return };
        if cancel.is_cancelled() {
            return;
        }
        self.summary_failures += 1;
        let rest = if self.summary_failures < FAILURES_MAX {
            "it is tried again with the next question"
        } else {
            "no more are tried in this conversation: the oldest turns leave instead; :context compact tries again"
        };
        let times = self.summary_failures;
        sink(Event::Notice(format!("[context] no summary ({times} of {FAILURES_MAX}): {}; {rest}", failure.message)));
    }

    fn summarise(
        &mut self,
        provider: &dyn Provider,
        older: &Older,
        cancel: &Cancel,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), Failure> {
        let small = self.models.for_task(provider, Task::Summary);
        let writer: &dyn Provider = small.as_deref().unwrap_or(provider);
        let (turns, tokens) = (older.turns, older.tokens);
        sink(Event::Notice(format!(
            "[context] the window is nearly full: {} summarises the oldest {turns} turns, about {tokens} tokens",
            writer.name()
        )));
        let text = self.written(writer, &older.messages, cancel, sink)?;
        let now = self.conversation.compacted(older, &text);
        self.summary_failures = 0;
        let recorded = self.recorder.summarised(Some((&text, self.conversation.first_live())));
        if let Err(failure) = recorded {
            sink(Event::Notice(format!("[history] the summary is not being stored: {}", failure.message)));
        }
        sink(Event::Notice(format!(
            "[context] {turns} turns are a summary of about {now} tokens now; :context shows it, :context restore undoes it"
        )));
        Ok(())
    }

    /// Lets a model write a text that isn't drawn; without its secrets.
    pub(super) fn written(
        &mut self,
        writer: &dyn Provider,
        messages: &[crate::proto::Message],
        cancel: &Cancel,
        sink: &mut dyn FnMut(Event),
    ) -> Result<String, Failure> {
        let metadata = Metadata { task: Task::Summary, ..Metadata::default() };
        let mut request = Request { metadata, max_output_tokens: Some(SUMMARY_TOKENS_MAX), ..Request::of(messages) };
        self.learn_keys();
        self.secrets.hide_in(&mut request);
        let mut quiet = Quiet { cancel, sink, purse: &mut self.purse, recorder: &mut *self.recorder };
        let end = writer.chat(&request, &mut quiet);
        let Quiet { sink, purse, recorder, .. } = quiet;
        let came = end.as_ref().map_or("", |response| response.text.as_str());
        let (settled, _) = purse.settle(end.as_ref().map_err(|error| &**error), (came, ""), recorder);
        if let Some(Settled { spent, notices }) = settled {
            sink(Event::Usage(Box::new(spent)));
            notices.into_iter().for_each(|notice| sink(Event::Notice(notice)));
        }
        let response = end.map_err(|error| match error.fault {
            Fault::Cancelled => {
                Failure { kind: FailureKind::User, message: "it was stopped".into(), hint: String::new() }
            }
            _ => error.to_failure(),
        })?;
        let text = self.redacted(response.text.trim());
        if text.is_empty() {
            let message = format!("{} wrote nothing", writer.name());
            return Err(Failure { kind: FailureKind::Unavailable, message, hint: String::new() });
        }
        Ok(text)
    }
}

/// Hears a text that nobody sees come: notices pass, and nothing goes to a farther model for it.
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
