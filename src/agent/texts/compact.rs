//! Replaces the older part of a conversation by a summary, written by the small model if there is one. It must not lose a
//! question: without a summary the conversation continues anyway.

use crate::agent::texts::scribe::Scribe;
use crate::agent::{Agent, Cancel, Learnt, choose};
use crate::model::{Provider, Request};
use crate::proto::{Event, Failure};
use crate::turn::{self, Older, Part, Scale, estimate_tokens};

/// Number of failed summaries after which this conversation is no longer summarised automatically.
pub(in crate::agent) const FAILURES_MAX: u8 = 3;
/// The contents of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextReport {
    /// The parts that the next question would carry, in order.
    pub parts: Vec<Part>,
    /// The parts are scaled to the server's count of the last request.
    pub is_counted: bool,
    /// Maximum number of tokens of a request.
    pub window_tokens: usize,
    /// From this size on the older part is summarised; `None` if it never is.
    pub compact_at_tokens: Option<usize>,
    /// The summary, and the number of turns that it replaces.
    pub summary: Option<(String, usize)>,
}

impl Agent {
    /// Limit for the tokens of a request to the answering model: the budget, or the model's window if that is smaller.
    /// A server that can report its window is asked, once.
    #[must_use]
    pub fn window_tokens(&mut self) -> usize {
        if let Ok(provider) = choose(&self.models, self.current.as_deref()) {
            provider.learn(&Cancel::new());
            self.prepare(&*provider);
        }
        self.conversation.budget()
    }

    /// Returns the contents of the window with the cost of each part.
    #[must_use]
    pub fn context(&mut self) -> ContextReport {
        let window_tokens = self.window_tokens();
        let provider = choose(&self.models, self.current.as_deref()).ok();
        let percent = self.compact_at_percent;
        let scale = provider.as_deref().map_or(Scale::UNKNOWN, |provider| self.scale(provider));
        let mut parts = self.conversation.parts();
        let has_tools = provider.as_ref().is_some_and(|provider| self.has_tools(&**provider));
        let is_small = provider.as_ref().is_some_and(|provider| crate::agent::is_small(&provider.capabilities()));
        if let Some(runner) = self.runner.as_ref().filter(|_| has_tools) {
            let tokens = runner.tools(is_small, true).iter().map(tool_tokens).sum();
            parts.insert(0, Part { name: "tool descriptions".into(), tokens });
        }
        parts.iter_mut().for_each(|part| part.tokens = scale.counted(part.tokens));
        ContextReport {
            parts,
            is_counted: scale != Scale::UNKNOWN,
            window_tokens,
            compact_at_tokens: (percent > 0 && self.summary_failures < FAILURES_MAX)
                .then_some(window_tokens * percent / 100),
            summary: self.conversation.summary().map(|(text, turns)| (text.to_owned(), turns)),
        }
    }

    /// Summarises the older part now, whatever the threshold says.
    ///
    /// # Errors
    /// There is no older part, or no summary could be made.
    pub fn compact_now(&mut self, cancel: &Cancel, sink: &mut dyn FnMut(Event)) -> Result<(), Failure> {
        let provider = choose(&self.models, self.current.as_deref())?;
        self.prepare(&*provider);
        self.summary_failures = 0;
        self.conversation.may_compact();
        let Some(older) = self.conversation.older() else {
            return Err(Failure::user("nothing is old enough to be summarised")
                .hint("the newest turns always stay in full; :context shows them"));
        };
        self.summarise(&*provider, &older, cancel, sink)
    }

    /// Removes the summary; returns the number of turns that it replaced.
    pub fn restore_context(&mut self) -> Option<usize> {
        let turns = self.conversation.restore_summarised()?;
        // If this can't be recorded, a resumed conversation still has the summary, which does no harm.
        let _ = self.recorder.summarised(None);
        Some(turns)
    }

    /// Summarises the older part if the question would exceed the threshold. Ctrl-C stops it, and then the question
    /// too.
    pub(in crate::agent) fn compact_if_due(
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
            "no more are tried in this conversation: the oldest turns are dropped instead; :context compact tries again"
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
        self.learn_keys();
        let Self { models, secrets, purse, recorder, conversation, tracer, .. } = self;
        Scribe { models, secrets, purse, recorder: &mut **recorder, cancel, sink, tracer }.summarise(
            conversation,
            provider,
            older,
        )?;
        self.summary_failures = 0;
        Ok(())
    }

    /// Lets a model write a text that isn't drawn; without its secrets.
    pub(in crate::agent) fn written(
        &mut self,
        writer: &dyn Provider,
        messages: &[crate::proto::Message],
        cancel: &Cancel,
        sink: &mut dyn FnMut(Event),
    ) -> Result<String, Failure> {
        self.learn_keys();
        let Self { models, secrets, purse, recorder, tracer, .. } = self;
        Scribe { models, secrets, purse, recorder: &mut **recorder, cancel, sink, tracer }.written(writer, messages)
    }

    /// Counts as the server does from now on, as far as its way is known.
    pub(in crate::agent) fn scale(&self, provider: &dyn Provider) -> Scale {
        let Some(Learnt { factor: Some(factor), .. }) = self.learnt.get(provider.name()) else {
            return Scale::UNKNOWN;
        };
        let tokens = |tool: crate::model::Tool| tool_tokens(&tool);
        let is_small = crate::agent::is_small(&provider.capabilities());
        let sends_tools = self.has_tools(provider) && !self.roomless.contains(provider.name());
        let runner = self.runner.as_ref().filter(|_| sends_tools);
        let tools: usize =
            runner.map(|runner| runner.tools(is_small, true).into_iter().map(tokens).sum()).unwrap_or_default();
        let sent = self.trails.iter().filter(|(question, _)| self.conversation.sends(question));
        let trails: usize =
            sent.map(|(_, trail)| estimated(&Request { messages: trail.clone(), ..Request::default() })).sum();
        Scale { factor: *factor, beside: tools + trails }
    }
}

/// The estimated tokens of all that a model reads of a request.
#[allow(clippy::cast_possible_truncation, reason = "a request's length fits the memory")]
pub(in crate::agent) fn estimated(request: &Request) -> usize {
    (request.length().0 as usize).div_ceil(turn::CHARS_PER_TOKEN)
}

fn tool_tokens(tool: &crate::model::Tool) -> usize {
    estimate_tokens(&format!("{} {} {}", tool.name, tool.description, tool.schema))
}
