//! Tool runners that wait for the next call of their project, since putting one together takes longer than most calls.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::Gateway;
use super::problem::{Answered, Problem};
use crate::agent::ToolRunner;
use crate::app::{self, ChannelKind, RunnerOf};
use crate::base::hash;
use crate::gate::Ceiling;
use crate::proto::team::Identity;

/// Runners that wait for one project.
const KEPT_MAX: usize = 4;
/// Runners that wait for all projects.
const ALL_MAX: usize = 16;

/// Runners that wait, by tenant and project.
#[derive(Default)]
pub struct Runners(Mutex<BTreeMap<(String, String), Vec<ToolRunner>>>);

impl Runners {
    fn take(&self, who: &Identity) -> Option<ToolRunner> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_mut(&(who.tenant.clone(), who.project.clone()))?.pop()
    }

    /// Keeps a runner for the next call of its project, if there is a place.
    pub fn keep(&self, who: &Identity, mut runner: ToolRunner) {
        // The next call has another caller.
        runner.lend_boards(None);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values().map(Vec::len).sum::<usize>() >= ALL_MAX {
            kept.clear();
        }
        let of_project = kept.entry((who.tenant.clone(), who.project.clone())).or_default();
        if of_project.len() < KEPT_MAX {
            of_project.push(runner);
        }
    }
}

impl Gateway {
    /// The tools in the workspace of a project.
    pub(super) fn runner(&self, who: &Identity) -> Answered<ToolRunner> {
        if let Some(runner) = self.runners.take(who) {
            return Ok(runner);
        }
        let parts = &self.parts;
        let workspace = self.workspace(who)?;
        let built = app::tool_runner(&RunnerOf {
            settings: &parts.settings,
            env: &parts.env,
            workspace: &workspace,
            store: &parts.store,
            channel: Some(ChannelKind::Gateway),
            config: parts.config.as_deref(),
            ceiling: Ceiling::default(),
            bench: None,
            readable: &[],
        });
        let built = built.map_err(|failure| Problem::new(503, "database_unavailable", failure.message))?;
        Ok(built.runner)
    }

    /// The workspace of a project: the configured one for this machine's own, else a directory that no other project shares.
    pub(super) fn workspace(&self, who: &Identity) -> Answered<PathBuf> {
        if (who.tenant.as_str(), who.project.as_str()) == ("local", "default") {
            return Ok(app::workspace_dir(&self.parts.settings, &self.parts.env));
        }
        let failed = |why: String| Problem::new(500, "internal", format!("there is no workspace: {why}"));
        let all = app::team_workspaces(&self.parts.env).ok_or_else(|| failed("no HOME is set".into()))?;
        // A name may be `..`, and a hash can't.
        let name = hash::sha256_hex(format!("{}\0{}", who.tenant, who.project).as_bytes());
        let path = all.join(&name[..32]);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|error| failed(error.to_string()))?;
        Ok(path)
    }
}
