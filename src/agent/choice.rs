//! The model that answers, by its name. Must not know how it is asked.

use std::sync::Arc;

use crate::model::{Mock, Models, Provider, Spec};
use crate::proto::{Failure, FailureKind};

/// The answering model; if none is configured, one whose answer explains that.
pub(super) fn choose(models: &Models, name: Option<&str>) -> Result<Arc<dyn Provider>, Failure> {
    let Some(name) = name else {
        if models.specs().is_empty() {
            return Ok(Arc::new(Mock::unconnected()));
        }
        return Err(Failure::no_model("several models are configured and none is chosen").hint(format!(
            ":model NAME chooses one of {}; default_model in the config does so permanently",
            names(models)
        )));
    };
    models.get(name).cloned().ok_or_else(|| unknown_model(FailureKind::NoModel, name, models))
}

fn names(models: &Models) -> String {
    models.specs().iter().map(Spec::name).collect::<Vec<_>>().join(", ")
}

/// The failure for a name that no model has.
#[must_use]
pub fn unknown_model(kind: FailureKind, name: &str, models: &Models) -> Failure {
    let is_empty = models.specs().is_empty();
    let hint =
        if is_empty { "reedclaw onboard finds models".to_owned() } else { format!("configured: {}", names(models)) };
    // The name is the user's own input, but its control characters must not reach their terminal.
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    Failure::new(kind, format!("no model is called {name}")).hint(hint)
}
