//! `project_check` and `goal_check`: the command that the user's config names, after accepted edits, and the commands
//! that decide whether a goal is reached. No model can call them: they are planned and run here, through the gate, each time in
//! a bash of its own that knows nothing of what a model has set.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::running::bash::{Bash, Ran, Request, State};
use super::running::launcher::{Launcher, Terms};
use super::running::spawner::Spawner;
use super::shell::{Note, outcome};
use super::{Place, Plan, Spec, Tool, Work};
use crate::base::base64;
use crate::gate::{CHECK_TOOL, GOAL_CHECK_TOOL, Permit};
use crate::proto::action::{Action, Hold};
use crate::proto::tool::{Outcome, ToolError};
use crate::sandbox::{Area, View};

/// The argument of a check with files as they were earlier.
pub const EARLIER_FILES: &str = "earlier";

/// A file as it was earlier, for a check that runs with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierFile {
    /// The path, relative to the workspace.
    pub path: String,
    /// The bytes.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl EarlierFile {
    /// Its form among the arguments of a call.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!([self.path, self.mode, base64::encode(&self.content)])
    }

    fn of(value: &Value) -> Option<Self> {
        let [path, mode, content] = value.as_array()?.as_slice() else { return None };
        let (path, mode) = (path.as_str()?.to_owned(), u32::try_from(mode.as_u64()?).ok()?);
        Some(Self { path, content: base64::decode(content.as_str()?)?, mode })
    }
}

/// The tool.
pub struct Check {
    launcher: Launcher,
    spawner: Spawner,
    /// The command of the config; none if each call names one, as a goal's check does.
    command: Option<String>,
    time: Duration,
}

impl Check {
    /// Makes it for a command with this limit of time.
    #[must_use]
    pub fn new(launcher: Launcher, command: String, time: Duration) -> Self {
        Self { launcher, spawner: Spawner::new(), command: Some(command), time }
    }

    /// Makes the check of goals, with this time limit for each.
    #[must_use]
    pub fn of_goals(launcher: Launcher, time: Duration) -> Self {
        Self { launcher, spawner: Spawner::new(), command: None, time }
    }
}

impl Tool for Check {
    fn spec(&self) -> Spec {
        if self.command.is_none() {
            return Spec {
                name: GOAL_CHECK_TOOL.into(),
                aliases: &[],
                description: "Runs a check of the run's goal.".into(),
                schema: json!({"type": "object", "properties": {"command": {"type": "string"}, EARLIER_FILES: {"type": "array"}}, "required": ["command"]}),
            };
        }
        Spec {
            name: CHECK_TOOL.into(),
            aliases: &[],
            description: "Runs the project's check after accepted edits.".into(),
            schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let named = || arguments.get("command").and_then(Value::as_str).map(str::to_owned);
        let command = self.command.clone().or_else(named).unwrap_or_default();
        let intent = format!("Checking with `{command}`");
        Ok(Plan::of(Action::Shell { command }).saying(intent))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let Action::Shell { command } = permit.action() else {
            return ToolError::new("internal", "it has no command", "").into();
        };
        let failed = |error: std::io::Error| Outcome::from(ToolError::new("shell", format!("bash: {error}"), ""));
        let view = match self.launcher.hold() {
            // Only its output counts; the files that it writes are discarded with the copy.
            Hold::Copy => match self.launcher.layer(None) {
                Ok(layer) => View::Copy(layer),
                Err(why) => return ToolError::new("sandbox", why, "").into(),
            },
            Hold::Walls | Hold::Off | Hold::Nothing => View::Work,
        };
        if let Err(why) = put_earlier(permit, &view) {
            return ToolError::new("sandbox", why, "").into();
        }
        let terms = Terms { network: permit.has_network(), view, area: Area::Checks, ..Terms::default() };
        let request = Request { command, cwd: permit.cwd(), state: &State::default(), terms };
        let mut bash = match Bash::start(&self.launcher, &self.spawner, &request) {
            Ok(bash) => bash,
            Err(error) => return failed(error),
        };
        let started = Instant::now();
        let (output, note) = match bash.wait(started + self.time, work.is_stopped) {
            Err(error) => return failed(error),
            Ok(Ran::Done(output)) => (output, Note::None),
            Ok(Ran::Stopped(output)) => (output, Note::Stopped),
            Ok(Ran::Awaited(output)) => (output, Note::Awaited),
            Ok(Ran::Overfull(output)) => (output, Note::Overfull),
            Ok(Ran::Running(output)) => {
                bash.kill();
                (output, Note::Late)
            }
        };
        outcome(&output, &note, started.elapsed())
    }
}

/// Puts the earlier versions of files into the copy of a check.
fn put_earlier(permit: &Permit, view: &View) -> Result<(), String> {
    let Some(files) = permit.arguments().get(EARLIER_FILES).and_then(Value::as_array) else { return Ok(()) };
    let View::Copy(layer) = view else { return Err("without a copy of the workspace no file can be as it was".into()) };
    for file in files {
        let EarlierFile { path, content, mode } = EarlierFile::of(file).ok_or("a file of the check isn't whole")?;
        layer.put(Path::new(&path), &content, mode).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}
