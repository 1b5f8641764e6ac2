//! The model's tools in a session: where they work, what they gave.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::run::Repl;
use super::state;
use crate::agent::Hands;
use crate::app::{ChannelKind, hands, workspace_dir, workspace_for};
use crate::proto::{CommandOutcome, Failure, FailureKind};

/// What a session keeps of tools.
#[derive(Default)]
pub(super) struct Tooling {
    /// Where they work now.
    workspace: Option<PathBuf>,
    /// Those of other projects that were asked about in this session.
    parked: BTreeMap<PathBuf, Hands>,
    /// What they gave, for `:show`.
    pub outputs: Vec<String>,
    /// How the last command in the user's shell ended.
    pub last_outcome: Option<CommandOutcome>,
}

impl Repl {
    /// Gives the model tools for where the person is; a project keeps its own, with what runs in them.
    pub(super) fn take_hands(&mut self) {
        let cwd = state::read(&self.state).cwd.clone();
        let env = &self.configured.request.env;
        let workspace = workspace_for(env, &cwd, &workspace_dir(&self.settings, env));
        if self.tooling.workspace.as_ref() == Some(&workspace) {
            return;
        }
        let config = self.configured.path.as_deref();
        let next = match self.tooling.parked.remove(&workspace) {
            Some(hands) => Some(hands),
            None => match hands(&self.settings, env, &workspace, &self.store, Some(ChannelKind::Shell), config) {
                Ok(handed) => {
                    handed.problems.iter().for_each(|problem| self.console.failure(problem));
                    Some(handed.hands)
                }
                Err(failure) => {
                    self.console.failure(&failure);
                    None
                }
            },
        };
        let before = self.agent.take_up(next);
        if let (Some(before), Some(at)) = (before, self.tooling.workspace.replace(workspace)) {
            self.tooling.parked.insert(at, before);
        }
    }

    /// Shows what a tool gave, whole.
    pub(super) fn show_output(&mut self, argument: &str) {
        let outputs = &self.tooling.outputs;
        let number = if argument.is_empty() { Some(outputs.len()) } else { argument.parse().ok() };
        let found = number.and_then(|number: usize| number.checked_sub(1)).and_then(|at| outputs.get(at));
        match found {
            Some(output) => self.console.outside(&format!("{}\n", output.trim_end_matches('\n'))),
            None => self.console.failure(&Failure {
                kind: FailureKind::User,
                message: format!("no tool gave an output {argument}").trim_end().to_owned(),
                hint: match outputs.len() {
                    0 => "no tool was called in this session".to_owned(),
                    count => format!("there are 1 to {count}"),
                },
            }),
        }
    }
}
