//! The tools of a runtime, over its life: each project has its own tools, whose jobs go on running while questions are
//! about another project.

use std::path::{Path, PathBuf};

use crate::agent::{Agent, ToolRunner};
use crate::app::BuiltRunner;
use crate::config::{McpSettings, SecuritySettings, Settings, ToolLimitSettings, ToolSettings};
use crate::proto::Failure;

/// The tools of a runtime.
#[derive(Default)]
pub(in crate::app) struct Tools {
    /// The place where the agent's tool runner works.
    at: Option<At>,
    /// Tools of other projects that questions were about.
    parked: Vec<(At, ToolRunner)>,
    /// `PATH` of the person's live shell.
    path: Option<String>,
}

/// The place where tools work, and the settings when they were made: a project's file may change those.
#[derive(Clone, PartialEq)]
struct At {
    workspace: PathBuf,
    /// The id of the git session that they work for, and the hashes of the repository's own tools.
    session: Option<String>,
    tools: ToolSettings,
    limits: ToolLimitSettings,
    security: SecuritySettings,
    mcp: McpSettings,
}

impl Tools {
    /// Lets commands find programs on the `PATH` of the person's live shell, from the next question on.
    pub(in crate::app) fn follow_path(&mut self, path: &str) {
        self.path = Some(path.to_owned());
    }

    /// Sets the agent's tool runner for `workspace` under these settings, made by `make` if there is none yet; returns
    /// its problems.
    pub(in crate::app) fn take(
        &mut self,
        agent: &mut Agent,
        (workspace, session): (&Path, Option<&str>),
        settings: &Settings,
        make: impl FnOnce(&Settings) -> Result<BuiltRunner, Failure>,
    ) -> Vec<Failure> {
        let Settings { tools, limits, security, mcp, .. } = settings.clone();
        let at =
            At { workspace: workspace.to_owned(), session: session.map(str::to_owned), tools, limits, security, mcp };
        if self.at.as_ref() == Some(&at) {
            agent.runner().into_iter().for_each(|runner| runner.follow_path(self.path.as_deref()));
            return Vec::new();
        }
        let (next, problems) = match self.parked.iter().position(|(other, _)| *other == at) {
            Some(found) => (Some(self.parked.swap_remove(found).1), Vec::new()),
            None => match make(settings) {
                Ok(handed) => (Some(handed.runner), handed.problems),
                Err(failure) => (None, vec![failure]),
            },
        };
        let old = self.at.replace(at);
        self.parked.extend(old.zip(agent.replace_tools(next)));
        agent.runner().into_iter().for_each(|runner| runner.follow_path(self.path.as_deref()));
        // A tool runner that was made for this project under other settings isn't used again.
        let id = |session: Option<&str>| session.and_then(|it| it.split(' ').next()).map(str::to_owned);
        self.parked.retain(|(old, _)| old.workspace != workspace || id(old.session.as_deref()) != id(session));
        problems
    }
}
