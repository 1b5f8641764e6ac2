//! The model's tools in a session: where they work, what they gave.

use std::path::PathBuf;

use super::run::{Flow, Repl};
use super::state;
use crate::agent::Hands;
use crate::app::{ChannelKind, hands, workspace_dir, workspace_for};
use crate::config::{SecuritySettings, Settings, ToolLimitSettings, ToolSettings};
use crate::proto::{CommandOutcome, Failure, FailureKind};
use crate::render::patch::parse;

/// What a session keeps of tools.
#[derive(Default)]
pub(super) struct Tooling {
    /// Where they work now, and under which settings.
    at: Option<At>,
    /// Those of other projects that were asked about in this session.
    parked: Vec<(At, Hands)>,
    /// What they gave, for `:show`.
    pub outputs: Vec<Given>,
    /// How the last command in the user's shell ended.
    pub last_outcome: Option<CommandOutcome>,
}

/// What a tool gave.
pub(super) struct Given {
    /// In text.
    pub text: String,
    /// The files that it changed, in the unified form.
    pub diff: String,
}

/// Where tools work, and what was set when they were made: a project's file may change that.
#[derive(Clone, PartialEq)]
struct At {
    workspace: PathBuf,
    tools: ToolSettings,
    limits: ToolLimitSettings,
    security: SecuritySettings,
}

impl Repl {
    /// Gives the model tools for where the person is; a project keeps its own, with what runs in them.
    pub(super) fn take_hands(&mut self) {
        if self.agent.models().is_empty() {
            return;
        }
        let (workspace, env) = (self.workspace(), &self.configured.request.env);
        let Settings { tools, limits, security, .. } = self.settings.clone();
        let at = At { workspace: workspace.clone(), tools, limits, security };
        if self.tooling.at.as_ref() == Some(&at) {
            return;
        }
        let config = self.configured.path.as_deref();
        let parked = &mut self.tooling.parked;
        let next = match parked.iter().position(|(other, _)| *other == at) {
            Some(found) => Some(parked.swap_remove(found).1),
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
        if let (Some(before), Some(old)) = (before, self.tooling.at.replace(at)) {
            self.tooling.parked.push((old, before));
        }
        // What was made for this project under other settings isn't taken up again.
        let now = self.tooling.at.clone();
        self.tooling.parked.retain(|(old, _)| now.as_ref().is_none_or(|now| now.workspace != old.workspace));
    }

    /// Where tools work for a person who is where they are.
    pub(super) fn workspace(&self) -> PathBuf {
        let cwd = state::read(&self.state).cwd.clone();
        let env = &self.configured.request.env;
        workspace_for(env, &cwd, &workspace_dir(&self.settings, env))
    }

    /// Shows what a tool gave, whole.
    pub(super) fn show_output(&mut self, argument: &str) -> Flow {
        let outputs = &self.tooling.outputs;
        let number = if argument.is_empty() { Some(outputs.len()) } else { argument.parse().ok() };
        let found = number.and_then(|number: usize| number.checked_sub(1)).and_then(|at| outputs.get(at));
        match found {
            Some(Given { text, diff }) => {
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
