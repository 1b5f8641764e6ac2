//! Tool runners that wait for the next call of their project, since putting one together takes longer than most calls.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use crate::agent::ToolRunner;
use crate::proto::team::Identity;

/// Runners that wait for one project.
const KEPT_MAX: usize = 4;
/// Runners that wait for all projects.
const ALL_MAX: usize = 16;

/// Runners that wait, by tenant and project.
#[derive(Default)]
pub struct Runners(Mutex<BTreeMap<(String, String), Vec<ToolRunner>>>);

impl Runners {
    /// Takes an idle runner of a project.
    pub fn take(&self, who: &Identity) -> Option<ToolRunner> {
        let mut idle = self.0.lock();
        idle.get_mut(&(who.tenant.clone(), who.project.clone()))?.pop()
    }

    /// Stores a runner for the next call of its project, if there is room.
    pub fn keep(&self, who: &Identity, mut runner: ToolRunner) {
        // The next call has another caller.
        runner.lend_boards(None);
        let mut idle = self.0.lock();
        if idle.values().map(Vec::len).sum::<usize>() >= ALL_MAX {
            idle.clear();
        }
        let of_project = idle.entry((who.tenant.clone(), who.project.clone())).or_default();
        if of_project.len() < KEPT_MAX {
            of_project.push(runner);
        }
    }
}
