//! `shell_job`: waits for a command that goes on, or ends it. A model is told of it only while such a command runs.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::{Left, follow, jobs_run};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::tools::{Offer, Place, Plan, Spec, Tool, Work, number};

/// The tool.
pub struct ShellJob(pub(super) Arc<Mutex<Left>>);

impl Tool for ShellJob {
    fn spec(&self) -> Spec {
        Spec {
            name: "shell_job".into(),
            aliases: &[],
            description: "Waits for more output of a shell command that still runs, or ends it with kill: true.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "job": {"type": "integer", "minimum": 1},
                    "kill": {"type": "boolean"},
                },
                "required": ["job"],
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if left.jobs.is_empty() { Offer::Never } else { Offer::Core }
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "shell_job".into() }))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let kill = permit.arguments().get("kill").and_then(Value::as_bool).unwrap_or(false);
        work.jobs = Some(jobs_run(&self.0));
        follow(&self.0, number(permit.arguments(), "job").unwrap_or(0), kill, work)
    }
}
