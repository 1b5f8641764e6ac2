//! `project_check`: the command that the user's config names, after accepted edits. No model can call it: it is planned and
//! run here, through the gate, each time in a bash of its own that knows nothing of what a model has set.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bash::{Bash, Ran};
use super::shell::{Note, Start, outcome};
use super::spawner::Spawner;
use super::{Place, Plan, Spec, Tool, Work};
use crate::gate::{CHECK_TOOL, Permit};
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// The tool.
pub struct Check {
    start: Start,
    spawner: Spawner,
    command: String,
    time: Duration,
}

impl Check {
    /// Makes it for a command that may take so long.
    #[must_use]
    pub fn new(start: Start, command: String, time: Duration) -> Self {
        Self { start, spawner: Spawner::new(), command, time }
    }
}

impl Tool for Check {
    fn spec(&self) -> Spec {
        Spec {
            name: CHECK_TOOL.into(),
            aliases: &[],
            description: "Runs the project's check after accepted edits.".into(),
            schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let intent = format!("Checking with `{}`", self.command);
        Ok(Plan::of(Action::Shell { command: self.command.clone() }).saying(intent))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let Action::Shell { command } = permit.action() else {
            return ToolError::new("internal", "it has no command", "").into();
        };
        let failed = |error: std::io::Error| Outcome::from(ToolError::new("shell", format!("bash: {error}"), ""));
        let bash = match (self.start)("bash", &Bash::arguments(), permit.has_network()) {
            Ok(bash) => bash,
            Err(why) => return ToolError::new("sandbox", why, "").into(),
        };
        let mut bash = match Bash::start(bash, &self.spawner) {
            Ok(bash) => bash,
            Err(error) => return failed(error),
        };
        let started = Instant::now();
        let (output, note) = match bash.run(command, permit.cwd(), started + self.time, work.is_stopped) {
            Err(error) => return failed(error),
            // One that ends its bash, as `exit` does, has a status like any other.
            Ok((_, Ran::Done(output) | Ran::Gone(output))) => (output, Note::None),
            Ok((_, Ran::Stopped(output))) => (output, Note::Stopped),
            Ok((_, Ran::Awaited(output))) => (output, Note::Awaited),
            Ok((_, Ran::Running(output))) => {
                bash.kill();
                (output, Note::Late)
            }
        };
        outcome(&output, &note, started.elapsed())
    }
}
