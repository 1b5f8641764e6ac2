//! The model's tools in a session: where they work, what they gave.

use std::path::PathBuf;

use super::run::{Flow, Repl};
use super::state;
use crate::config::state_directory;
use crate::proto::{CommandOutcome, Failure, FailureKind};
use crate::render::patch::parse;
use crate::serve::Outputs;

/// The session's state about tools.
#[derive(Default)]
pub(super) struct Tooling {
    /// The servers were started with the first line.
    pub(super) are_servers_started: bool,
    /// The outputs for `:show`.
    pub outputs: Vec<ToolOutput>,
    /// Shows the last output to other agents, if the config lets them see it.
    pub(super) shown_to_agents: Option<Outputs>,
}

/// The output of a tool.
pub(super) struct ToolOutput {
    /// In text.
    pub text: String,
    /// The files that it changed, in the unified form.
    pub diff: String,
}

impl Repl {
    /// Lets other agents see a command that has ended, if the config says so.
    pub(super) fn show_to_agents(&mut self, outcome: &CommandOutcome) {
        let settings = self.runtime.settings();
        if !settings.mcp.serve.has_outputs || !settings.shell.capture_output {
            self.tooling.shown_to_agents = None;
            return;
        }
        if self.tooling.shown_to_agents.is_none()
            && let (Some(state), Some(shell)) = (state_directory(self.runtime.env()), self.terminal.session.shell())
        {
            let offered = Outputs::offer(&state, state::read(&self.state).session, shell);
            if let Err(error) = &offered {
                tracing::warn!(event = "outputs_not_offered", %error);
            }
            self.tooling.shown_to_agents = offered.ok();
        }
        if let Some(outputs) = &self.tooling.shown_to_agents {
            outputs.note(outcome);
        }
    }

    /// Gives the model tools for where the person is.
    pub(super) fn refresh_tools(&mut self) {
        let problems = self.runtime.take_tools(&self.workspace());
        problems.iter().for_each(|problem| self.console.failure(problem));
    }

    /// Place where tools work for a person who is where they are.
    pub(super) fn workspace(&self) -> PathBuf {
        let cwd = state::read(&self.state).cwd.clone();
        self.runtime.workspace_around(&cwd)
    }

    /// Shows what a tool gave, whole.
    pub(super) fn show_output(&mut self, argument: &str) -> Flow {
        let outputs = &self.tooling.outputs;
        let number = if argument.is_empty() { Some(outputs.len()) } else { argument.parse().ok() };
        let found = number.and_then(|number: usize| number.checked_sub(1)).and_then(|at| outputs.get(at));
        match found {
            Some(ToolOutput { text, diff }) if text.is_empty() && diff.is_empty() => {
                self.console.notice("that call gave no output");
            }
            Some(ToolOutput { text, diff }) => {
                self.console.outside(&format!("{}\n", text.trim_end_matches('\n')));
                let patches = parse(diff);
                if !patches.is_empty() {
                    return self.browse(patches, Vec::new());
                }
            }
            None => self.console.failure(&Failure {
                kind: FailureKind::User,
                message: format!("no tool gave an output {argument}").trim_end().to_owned(),
                hint: match outputs.len() {
                    0 => "no tool was called in this session".to_owned(),
                    count => format!("there are 1 to {count}"),
                },
            }),
        }
        Flow::Continue
    }
}
