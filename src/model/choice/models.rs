//! All models of a config, made into providers that know each other. Knows nothing of how a config is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::choice::mock::Mock;
use crate::model::choice::reliable::Reliable;
use crate::model::choice::router::Router;
use crate::model::endpoint::Endpoint;
use crate::model::exchange::server::Server;
use crate::model::provider::Provider;
use crate::model::request::Task;

/// One model as it is configured.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a config has a handful of models")]
pub enum Spec {
    /// At a server.
    Server(Endpoint),
    /// A script; its text, or why it can't be read.
    Mock {
        /// Its name.
        name: String,
        /// The script.
        script: Result<String, String>,
    },
    /// Several in order.
    Reliable {
        /// Its name.
        name: String,
        /// The models, by name.
        of: Vec<String>,
        /// `true` if a question to a near model may go to a more distant one.
        allow_remote: bool,
    },
    /// One for each kind of work.
    Router {
        /// Its name.
        name: String,
        /// The models' names by hint, task or `default`.
        rules: BTreeMap<String, String>,
    },
}

impl From<Endpoint> for Spec {
    fn from(endpoint: Endpoint) -> Self {
        Self::Server(endpoint)
    }
}

impl Spec {
    /// The user's name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Server(endpoint) => &endpoint.name,
            Self::Mock { name, .. } | Self::Reliable { name, .. } | Self::Router { name, .. } => name,
        }
    }

    /// The model's name for its server, or the kind of a model without one.
    #[must_use]
    pub fn model(&self) -> &str {
        match self {
            Self::Server(endpoint) => &endpoint.model,
            Self::Mock { .. } => "mock",
            Self::Reliable { .. } => "reliable",
            Self::Router { .. } => "router",
        }
    }

    /// The names of the models that it asks.
    fn others(&self) -> Vec<&String> {
        match self {
            Self::Reliable { of, .. } => of.iter().collect(),
            Self::Router { rules, .. } => rules.values().collect(),
            Self::Server(_) | Self::Mock { .. } => Vec::new(),
        }
    }
}

/// The models of a config.
#[derive(Default)]
pub struct Models {
    specs: Vec<Spec>,
    providers: BTreeMap<String, Arc<dyn Provider>>,
}

impl Models {
    /// Makes the providers. A model that names itself, directly or through others, or one that doesn't exist, works without that
    /// one.
    #[must_use]
    pub fn new(specs: Vec<Spec>) -> Self {
        let mut providers = BTreeMap::new();
        for spec in &specs {
            make(spec.name(), &specs, &mut Vec::new(), &mut providers);
        }
        Self { specs, providers }
    }

    /// The configured models, in order.
    #[must_use]
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    /// The keys that are known by now, each with the words that replace it: for redaction.
    pub fn keys(&self) -> impl Iterator<Item = (String, String)> {
        let endpoint = |spec: &Spec| match spec {
            Spec::Server(endpoint) => {
                let key = endpoint.known_key()?;
                Some((format!("key of {}", endpoint.name), key.reveal().to_owned()))
            }
            _ => None,
        };
        self.specs.iter().filter_map(endpoint)
    }

    /// The model that a router names for a task, if it differs from the default one and isn't more distant.
    #[must_use]
    pub fn for_task(&self, answers: &dyn Provider, task: Task) -> Option<Arc<dyn Provider>> {
        let reach = answers.capabilities().reach;
        let named = self.specs.iter().filter_map(|spec| match spec {
            Spec::Router { rules, .. } => self.get(rules.get(task.word())?),
            _ => None,
        });
        let mut fits = named.filter(|model| model.capabilities().reach <= reach && model.name() != answers.name());
        // A router that answers makes its own choice, and may name several in turn.
        let routes = answers.capabilities().kind == "router";
        if routes { None } else { fits.next().cloned() }
    }

    /// The provider of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.get(name)
    }
}

/// Makes a provider after those that it names; `path` is the way here, for a circle.
fn make(
    name: &str,
    specs: &[Spec],
    path: &mut Vec<String>,
    built: &mut BTreeMap<String, Arc<dyn Provider>>,
) -> Option<Arc<dyn Provider>> {
    if let Some(provider) = built.get(name) {
        return Some(Arc::clone(provider));
    }
    if path.iter().any(|before| before == name) {
        return None;
    }
    let spec = specs.iter().find(|spec| spec.name() == name)?;
    path.push(name.to_owned());
    let others: BTreeMap<&String, Arc<dyn Provider>> =
        spec.others().into_iter().filter_map(|other| Some((other, make(other, specs, path, built)?))).collect();
    path.pop();
    // A model that needs another to answer is no leaf.
    let is_leaf = matches!(spec, Spec::Server(_) | Spec::Mock { .. });
    if others.is_empty() && !is_leaf && !path.is_empty() {
        return None;
    }
    let provider: Arc<dyn Provider> = match spec {
        Spec::Server(endpoint) => Arc::new(Server::new(endpoint.clone())),
        Spec::Mock { name, script } => Arc::new(Mock::new(name, script.clone())),
        Spec::Reliable { name, of, allow_remote } => {
            let of = of.iter().filter_map(|other| others.get(other).cloned()).collect();
            Arc::new(Reliable::new(name, of, *allow_remote))
        }
        Spec::Router { name, rules } => {
            let rules =
                rules.iter().filter_map(|(word, other)| Some((word.clone(), others.get(other)?.clone()))).collect();
            Arc::new(Router::new(name, rules))
        }
    };
    // Within a cycle a model lacks the one from which it was reached, so it is built again when it is needed itself.
    if path.is_empty() {
        built.insert(name.to_owned(), Arc::clone(&provider));
    }
    Some(provider)
}
