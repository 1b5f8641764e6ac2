//! The models: their list, the choice of one, the times of their last answers.

use crate::agent::{Agent, ModelInfo};
use crate::app::Runtime;
use crate::proto::Failure;
use crate::store::ModelTimes;

/// The models as the rows of a table: name with a mark for the one that answers, the server's name for it, address.
#[must_use]
pub fn rows(agent: &Agent) -> Vec<Vec<String>> {
    let row = |it: ModelInfo| {
        let mark = if it.is_current { "*" } else { " " };
        vec![format!("{mark} {}", it.name), it.model, it.endpoint]
    };
    agent.models().into_iter().map(row).collect()
}

/// The models of the config, each with the time of its last answer and of its last failure.
///
/// # Errors
/// The database can't be read.
pub fn times(runtime: &Runtime) -> Result<Vec<ModelTimes>, Failure> {
    let seen = runtime.lock_store().model_times()?;
    let times = |name: &String| {
        let known = seen.iter().find(|it| it.model == *name).cloned();
        known.unwrap_or_else(|| ModelTimes { model: name.clone(), ..ModelTimes::default() })
    };
    Ok(runtime.settings().models.keys().map(times).collect())
}

/// Makes another model answer, and returns its own name, whatever alias was typed.
///
/// # Errors
/// No model has this name.
pub fn choose(agent: &mut Agent, name: &str) -> Result<String, Failure> {
    agent.use_model(name)?;
    Ok(agent.current_model().unwrap_or(name).to_owned())
}

/// Returns whether a model is on this machine or in the user's network, so that it needs no price.
#[must_use]
pub fn is_near(agent: &Agent, name: &str) -> bool {
    agent.models().iter().any(|it| it.name == name && it.is_near)
}
