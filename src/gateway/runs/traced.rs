//! The requests of a run to models, as spans below the run's.

use parking_lot::Mutex;
use std::sync::Arc;

use serde_json::json;

use crate::agent::{Answer, Tracer};
use crate::gateway::Gateway;
use crate::gateway::traces::{Kind, Open, names};
use crate::proto::team::Identity;

/// Follows the requests of a run.
pub(super) struct ModelTracer {
    gateway: Arc<Gateway>,
    who: Identity,
    open: Mutex<Option<Open>>,
}

impl ModelTracer {
    /// For a run and its caller.
    pub(super) fn new(gateway: &Arc<Gateway>, who: &Identity) -> Self {
        Self { gateway: Arc::clone(gateway), who: who.clone(), open: Mutex::default() }
    }

    /// A model as its server knows it, and the kind of that server.
    fn known<'a>(&'a self, name: &'a str) -> (&'a str, Option<&'a str>) {
        let found = self.gateway.parts.settings.models.get(name);
        let model = found.map(|model| model.model.as_str()).filter(|model| !model.is_empty());
        (model.unwrap_or(name), found.map(|model| names::provider(&model.kind)))
    }
}

impl Tracer for ModelTracer {
    fn begins(&self, model: &str) -> Option<String> {
        let (model, provider) = self.known(model);
        let (mut span, context) = self.gateway.traces.below(&self.who, Kind::Client, (names::CHAT, model));
        if let Some(span) = &mut span {
            provider.into_iter().for_each(|provider| span.set(names::PROVIDER, provider));
            span.set(names::REQUEST_MODEL, model);
        }
        *self.open.lock() = span;
        context.map(|context| context.to_string())
    }

    fn ended(&self, end: Result<Answer<'_>, String>) {
        let Some(mut span) = self.open.lock().take() else { return };
        match end {
            Ok(answer) => {
                span.set(names::RESPONSE_MODEL, self.known(answer.model).0);
                span.set(names::FINISH_REASONS, json!([answer.reason]));
                if let Some((read, written)) = answer.tokens {
                    span.set(names::INPUT_TOKENS, read);
                    span.set(names::OUTPUT_TOKENS, written);
                }
            }
            Err(kind) => span.fail(kind),
        }
    }
}
