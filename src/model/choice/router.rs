//! A model for each kind of work: chooses by a request's hints, then by its task, and lets that one answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::choice::reliable::{empty, names};
use crate::model::error::ModelError;
use crate::model::provider::{Capabilities, Count, Countable, Provider, Sink};
use crate::model::request::{Metadata, Request, Response};

/// The rule for everything that no other rule names.
const DEFAULT: &str = "default";
/// The rule for questions with pictures.
const IMAGES: &str = "images";

/// Chooses among models.
pub struct Router {
    name: String,
    rules: BTreeMap<String, Arc<dyn Provider>>,
}

impl Router {
    /// Makes the provider; a rule's word is a hint, a task's word, or `default`.
    #[must_use]
    pub fn new(name: &str, rules: BTreeMap<String, Arc<dyn Provider>>) -> Self {
        Self { name: name.to_owned(), rules }
    }

    /// The model for a request: by its first hint that has a rule, else by its task, else the default, else chat's.
    fn choose(&self, metadata: &Metadata) -> Option<&Arc<dyn Provider>> {
        let hints = metadata.hints.iter().map(String::as_str);
        let words = hints.chain([metadata.task.word(), DEFAULT, "chat"]);
        words.filter_map(|word| self.rules.get(word)).next().or_else(|| self.rules.values().next())
    }
}

impl Provider for Router {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        let models: Vec<Arc<dyn Provider>> = self.rules.values().cloned().collect();
        let all: Vec<Capabilities> = models.iter().map(|model| model.capabilities()).collect();
        let together = Capabilities::of_all("router", &all, names(&models, ", "));
        let images = self.rules.get(IMAGES).map_or(together.images, |model| model.capabilities().images);
        Capabilities { images, ..together }
    }

    fn learn(&self, cancel: &crate::model::Cancel) {
        self.rules.values().for_each(|model| model.learn(cancel));
    }

    fn chat(&self, request: &Request, sink: &mut dyn Sink) -> Result<Response, Box<ModelError>> {
        match self.choose(&request.metadata) {
            Some(model) => model.chat(request, sink),
            None => Err(Box::new(empty(&self.name, "router", "rules"))),
        }
    }

    /// As the model for such a request; a text alone counts as a plain question.
    fn count(&self, what: Countable<'_>, cancel: &crate::model::Cancel) -> Option<Count> {
        let plain = Metadata::default();
        let metadata = match what {
            Countable::Text(_) => &plain,
            Countable::Request(request) => &request.metadata,
        };
        self.choose(metadata)?.count(what, cancel)
    }
}
