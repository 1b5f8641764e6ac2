//! `shell_job`: waits for a job or ends it. It is offered to a model only while there are jobs. The person can list and end jobs,
//! too.

use parking_lot::Mutex;
use std::sync::{Arc, Weak};

use serde_json::{Value, json};

use super::{Left, follow};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::tools::{Offer, Place, Plan, Spec, Tool, Work, number};

/// The jobs of the shell tool; empty once the tool is gone.
#[derive(Clone)]
pub struct Jobs(pub(super) Weak<Mutex<Left>>);

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub number: usize,
    /// The command line.
    pub command: String,
    /// True if it still runs; otherwise it waits for the model to read its output.
    pub is_running: bool,
}

impl Jobs {
    fn with<T>(&self, act: impl FnOnce(&mut Left) -> T) -> Option<T> {
        let left = self.0.upgrade()?;
        let mut left = left.lock();
        Some(act(&mut left))
    }

    /// Returns whether a job works on the workspace itself.
    #[must_use]
    pub fn are_working(&self) -> bool {
        self.with(Left::is_working).unwrap_or(false)
    }

    /// Lists the jobs.
    #[must_use]
    pub fn list(&self) -> Vec<Job> {
        let job = |job: &mut super::Going| {
            let (number, command) = (job.number, job.command.clone());
            Job { number, command, is_running: job.bash.is_running() }
        };
        self.with(|left| left.jobs.iter_mut().map(job).collect()).unwrap_or_default()
    }

    /// Ends a job; returns whether there is one with this number.
    #[must_use]
    pub fn end(&self, number: usize) -> bool {
        let take = |left: &mut Left| {
            let at = left.jobs.iter().position(|job| job.number == number)?;
            let mut job = left.jobs.remove(at);
            // Until it has ended, its writes must still be attributed to it.
            left.is_followed = job.bash.is_working();
            Some(job)
        };
        let Some(mut job) = self.with(take).flatten() else { return false };
        job.bash.kill();
        self.with(|left| left.is_followed = false);
        true
    }
}

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
        let left = self.0.lock();
        if left.jobs.is_empty() { Offer::Never } else { Offer::Core }
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "shell_job".into() }))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let kill = permit.arguments().get("kill").and_then(Value::as_bool).unwrap_or(false);
        work.jobs = Some(Jobs(Arc::downgrade(&self.0)));
        follow(&self.0, number(permit.arguments(), "job").unwrap_or(0), kill, work)
    }
}
