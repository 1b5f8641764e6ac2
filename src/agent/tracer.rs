//! Follows requests to models, for a channel that has traces. Knows nothing of their form.

use std::sync::Arc;

use crate::model::{ModelError, Provider, Request, Response, Sink, StopReason};
use crate::proto::Usage;

/// Follows the requests of a question to models, one after the other.
pub trait Tracer: Send + Sync {
    /// Notes that a request begins, by the model's name in the config; returns W3C's header `traceparent` for it.
    fn begins(&self, model: &str) -> Option<String>;

    /// Notes that it has ended: with an answer, or with a kind of fault.
    fn ended(&self, end: Result<Answer<'_>, String>);
}

/// An answer of a model, as a trace knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The name in the config of the model that answered.
    pub model: &'a str,
    /// Tokens that it has read and written, if they are known.
    pub tokens: Option<(u64, u64)>,
    /// Reason why it ended, in OpenTelemetry's word.
    pub reason: &'static str,
}

/// The tracer of the questions, if there is one.
pub(super) type Traced = Option<Arc<dyn Tracer>>;

/// Asks a model, as a part of the trace.
pub(super) fn chat(
    tracer: &Traced,
    provider: &dyn Provider,
    request: &mut Request,
    sink: &mut dyn Sink,
) -> Result<Response, Box<ModelError>> {
    request.trace = tracer.as_ref().and_then(|tracer| tracer.begins(provider.name()));
    let end = provider.chat(request, sink);
    if let Some(tracer) = tracer {
        tracer.ended(end.as_ref().map(answer).map_err(|error| error.word()));
    }
    end
}

fn answer(response: &Response) -> Answer<'_> {
    let counted = |usage: &Usage| (usage.total_in(), usage.total_out());
    let reason = match response.stop.reason {
        StopReason::Done => "stop",
        StopReason::Length | StopReason::ContextFull => "length",
        StopReason::ToolCalls => "tool_calls",
        StopReason::Filtered => "content_filter",
        StopReason::Paused => "pause",
        StopReason::Other => "other",
    };
    Answer { model: &response.model, tokens: response.usage.as_ref().map(counted), reason }
}
