//! Jobs: what a command changes after its call is over becomes a step of its own once it has ended. What other steps did
//! meanwhile, on a copy or by an edit, isn't the job's; what a person changed can't be told apart.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use super::state::{Kind, Record, State};
use super::{Change, StepReport, Steps, StepsError, cut};

/// A command that goes on after its call.
#[must_use]
pub struct Job {
    text: String,
    /// The steps when its call was over, and whether they were taken back.
    known: BTreeMap<u64, bool>,
}

impl Job {
    /// The command line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Steps {
    /// Notes that a command goes on; the look after its call has just been.
    pub fn job(&self, text: &str) -> Job {
        Job { text: cut(text), known: self.list().iter().map(|step| (step.number, step.is_undone)).collect() }
    }

    /// Looks at the workspace when it has ended, and makes a step of what it changed since its call.
    ///
    /// # Errors
    /// The step couldn't be written: that can't be taken back.
    pub fn after_job(&mut self, job: Job) -> Result<StepReport, StepsError> {
        let _held = self.enter()?;
        let left = left_by(&self.list(), &job.known);
        let mut changes: Vec<Change> = self.look(false)?;
        for change in &mut changes {
            change.before = left.get(&change.path).copied().unwrap_or(change.before);
        }
        changes.retain(|change| change.before != change.after);
        let made = self.make(Kind::Command, job.text, vec!["as a job, until its end".to_owned()], changes);
        self.held.clear();
        Ok(StepReport { pruned: self.make_room()?, ..made? })
    }
}

/// Returns the states that concurrent steps, undos and redos left at each path.
fn left_by(steps: &[Record], known: &BTreeMap<u64, bool>) -> HashMap<PathBuf, State> {
    let mut left = HashMap::new();
    let is_turned = |step: &&Record| known.get(&step.number).is_some_and(|was| *was != step.is_undone);
    let mut put = |step: &Record| {
        for change in &step.changes {
            left.insert(change.path.clone(), if step.is_undone { change.before } else { change.after });
        }
    };
    steps.iter().rev().filter(is_turned).filter(|step| step.is_undone).for_each(&mut put);
    steps.iter().filter(is_turned).filter(|step| !step.is_undone).for_each(&mut put);
    let is_new = |step: &&Record| !known.contains_key(&step.number);
    steps.iter().filter(is_new).filter(|step| !step.is_undone).for_each(&mut put);
    left
}
