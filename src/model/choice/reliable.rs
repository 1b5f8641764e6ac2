//! Several models in order: if one can't be reached, the next is asked. Each fall-back is reported, and none sends a
//! question further away without the person's consent.

use std::sync::Arc;

use crate::model::error::{Fault, ModelError};
use crate::model::exchange::retry::is_for_another;
use crate::model::provider::{Capabilities, ChatEvent, Count, Countable, Crossing, Provider, Reach, Sending, Sink};
use crate::model::request::{Request, Response};
use crate::proto::Failure;

/// Several models in order.
pub struct Reliable {
    name: String,
    of: Vec<Arc<dyn Provider>>,
    allow_remote: bool,
}

impl Reliable {
    /// Makes the provider. `allow_remote` is the person's consent, from the config, to send a question for a near model
    /// to a more distant one.
    #[must_use]
    pub fn new(name: &str, of: Vec<Arc<dyn Provider>>, allow_remote: bool) -> Self {
        Self { name: name.to_owned(), of, allow_remote }
    }

    /// Returns whether a request meant for the first model may go to `next`.
    fn may_go(&self, failed: &dyn Provider, next: &dyn Provider, sink: &mut dyn Sink) -> bool {
        let meant = self.of.first().map_or(Reach::Machine, |first| first.capabilities().reach);
        let there = next.capabilities();
        if there.reach <= meant || self.allow_remote {
            return true;
        }
        let crossing =
            Crossing { from: failed.name().to_owned(), to: next.name().to_owned(), place: there.place.clone() };
        let yes = sink.consent(&crossing);
        if !yes && !sink.cancel().is_cancelled() {
            let (name, to, far) = (&self.name, next.name(), there.reach.words());
            sink.event(ChatEvent::Notice(format!(
                "[model] {to} was not asked: it is on {far} ({}); models.{name}.allow_remote = true would allow it",
                there.place
            )));
        }
        yes
    }
}

impl Provider for Reliable {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        let all: Vec<Capabilities> = self.of.iter().map(|model| model.capabilities()).collect();
        let together = Capabilities::of_all("reliable", &all, names(&self.of, ", then "));
        // The distance that a question travels without asking the person.
        let reach = if self.allow_remote { together.reach } else { all.first().map(|it| it.reach).unwrap_or_default() };
        Capabilities { reach, ..together }
    }

    fn learn(&self, cancel: &crate::model::Cancel) {
        self.of.iter().for_each(|model| model.learn(cancel));
    }

    fn chat(&self, request: &Request, sink: &mut dyn Sink) -> Result<Response, Box<ModelError>> {
        let mut last: Option<(&Arc<dyn Provider>, Box<ModelError>)> = None;
        for model in &self.of {
            if let Some((failed, error)) = &last {
                if !self.may_go(failed.as_ref(), model.as_ref(), sink) {
                    if sink.cancel().is_cancelled() {
                        return Err(Box::new(ModelError { fault: Fault::Cancelled, ..(**error).clone() }));
                    }
                    continue;
                }
                sink.event(ChatEvent::Notice(format!("[model] {error}; asking {}", model.name())));
            }
            let mut watched = Watched { sink, has_begun: false };
            match model.chat(request, &mut watched) {
                Ok(response) => return Ok(response),
                Err(error) if watched.has_begun || !is_for_another(&error.fault) => return Err(error),
                Err(error) => {
                    let (provider, fault) = (model.name(), error.fault.word());
                    tracing::warn!(event = "provider_failed", provider, fault, shown = true);
                    last = Some((model, error));
                }
            }
        }
        Err(last.map_or_else(|| Box::new(empty(&self.name, "reliable", "of")), |(_, error)| error))
    }

    /// As the model that is asked first.
    fn count(&self, what: Countable<'_>, cancel: &crate::model::Cancel) -> Option<Count> {
        self.of.first()?.count(what, cancel)
    }
}

/// Names models in a row.
pub(in crate::model) fn names(models: &[Arc<dyn Provider>], between: &str) -> String {
    models.iter().map(|model| model.name()).collect::<Vec<_>>().join(between)
}

/// The error of a model that names no other.
pub(in crate::model) fn empty(name: &str, kind: &'static str, key: &'static str) -> ModelError {
    let fault = Fault::NoneToAsk { model: name.to_owned(), key };
    ModelError { model: name.to_owned(), place: String::new(), key_env: None, kind, fault }
}

/// Notices whether a part of the answer has been passed on.
struct Watched<'a> {
    sink: &'a mut dyn Sink,
    has_begun: bool,
}

impl Sink for Watched<'_> {
    fn event(&mut self, event: ChatEvent) {
        self.has_begun |= matches!(event, ChatEvent::Text(_) | ChatEvent::Thought(_));
        self.sink.event(event);
    }

    fn cancel(&self) -> &crate::model::Cancel {
        self.sink.cancel()
    }

    fn permit(&mut self, sending: &Sending<'_>) -> Result<Option<u64>, Failure> {
        self.sink.permit(sending)
    }

    fn consent(&mut self, crossing: &Crossing) -> bool {
        self.sink.consent(crossing)
    }
}
