//! A model's changes of the workspace, step by step, for undo: a look before each command and one
//! after it, an edit's own files before and after. Contents lie in a store outside the workspace. It knows nothing of
//! who ran what, and leaves a repository's own state alone, but for what the guard of protected files is asked to put
//! back.

mod adopt;
#[cfg(test)]
mod adopt_tests;
mod base;
mod closed;
mod commands;
mod edits;
mod guard;
mod intent;
mod jobs;
mod look;
mod outside;
mod store;
#[cfg(test)]
mod tests;
mod together;
#[cfg(test)]
mod together_tests;
#[cfg(test)]
mod tracked_tests;
mod whole;

use std::path::{Path, PathBuf};

pub use adopt::{Adopted, Incoming, NewContent};
pub use base::{StepReport, Steps};
pub use commands::Open;
pub use edits::Before;
pub use guard::{Changed, Guard, IsProtected};
pub use jobs::Job;
pub use look::git::are_alike_indices;
pub use outside::OpenOutside;
pub use store::error::{Conflict, Limits, StepsError};
pub use store::state::{Elsewhere, Kind, Record, State, Why};
pub use store::table::Change;
pub use together::TakenBack;

// Each operation has its file; this is the list of them.
impl Steps {
    /// Looks at the workspace while nobody waits, so that a first command hasn't to: in a repository only, for there nearly
    /// all is kept already.
    ///
    /// # Errors
    /// As of [`Steps::before`], which says so when it counts.
    pub fn ahead(&mut self) -> Result<(), StepsError> {
        commands::ahead(self)
    }

    /// Looks at the workspace before a command.
    ///
    /// # Errors
    /// The changes of the command couldn't be taken back.
    pub fn before(&mut self, text: &str) -> Result<Open, StepsError> {
        commands::before(self, text)
    }

    /// Looks at it after the command, and makes a step of what differs.
    ///
    /// # Errors
    /// The step couldn't be written: the command can't be taken back.
    pub fn after(&mut self, open: Open) -> Result<StepReport, StepsError> {
        commands::after(self, open)
    }

    /// Finishes what a session that ended in the middle has left: a command, an edit or a job that was cut off becomes a step, an
    /// undo that counted is carried on. Returns a line for each.
    ///
    /// # Errors
    /// The store can't be read, or the workspace looked at.
    pub fn recover(&mut self) -> Result<Vec<String>, StepsError> {
        commands::recover(self)
    }

    /// Looks at files before an edit of exactly these.
    ///
    /// # Errors
    /// The edit couldn't be taken back.
    pub fn before_edit(&mut self, text: &str, paths: &[PathBuf]) -> Result<Before, StepsError> {
        edits::before(self, text, paths)
    }

    /// Looks at them after it, and makes a step of what differs.
    ///
    /// # Errors
    /// The step couldn't be written.
    pub fn after_edit(&mut self, before: Before) -> Result<StepReport, StepsError> {
        edits::after(self, before)
    }

    /// Forgets an edit that changed nothing.
    pub fn without_edit(&mut self, before: Before) {
        edits::without(self, before)
    }

    /// Notes that a command goes on; the look after its call has just been.
    pub fn job(&mut self, text: &str) -> Job {
        jobs::begin(self, text)
    }

    /// Looks at the workspace when it has ended, and makes a step of what it changed since its call.
    ///
    /// # Errors
    /// The step couldn't be written: that can't be taken back.
    pub fn after_job(&mut self, job: Job) -> Result<StepReport, StepsError> {
        jobs::after(self, job)
    }

    /// Looks at paths outside the workspace, all of which are there, before a command that may write them.
    ///
    /// # Errors
    /// The changes of the command there couldn't be taken back.
    pub fn before_outside(&self, text: &str, paths: &[PathBuf]) -> Result<OpenOutside, StepsError> {
        outside::before(self, text, paths)
    }

    /// Looks at them after it, and makes a step that takes back what differs; returns the paths that it changed, too.
    ///
    /// # Errors
    /// A step couldn't be written: what the command did there can't be taken back.
    pub fn after_outside(&mut self, open: OpenOutside) -> Result<(StepReport, Vec<PathBuf>), StepsError> {
        outside::after(self, open)
    }

    /// The next changes of a copy are those of another command.
    pub fn without_outside(&mut self) {
        self.joined = None;
    }

    /// The other places of these steps, for reading what is kept there; one that is gone is left out.
    #[must_use]
    pub fn places_of(&self, steps: &[Record]) -> Vec<Self> {
        outside::places_of(self, steps)
    }

    /// Returns a step's changes in other places, by whole paths, without contents that were discarded.
    #[must_use]
    pub fn changes_outside(&self, step: &Record) -> Vec<Change> {
        outside::changes(self, step)
    }

    /// Makes changes real, and a step of them unless it isn't wanted.
    ///
    /// # Errors
    /// A file can't be read or written, or the store: nothing was changed then.
    pub fn adopt(&mut self, text: &str, incoming: Vec<Incoming>, is_recorded: bool) -> Result<Adopted, StepsError> {
        adopt::adopt(self, text, incoming, is_recorded)
    }

    /// Takes the last `count` steps back. What was changed since is overwritten only where `by_force`, and kept as a step
    /// then.
    ///
    /// # Errors
    /// There are fewer; something has changed since; a file can't be written: nothing is changed then.
    pub fn undo(&mut self, count: usize, by_force: bool) -> Result<TakenBack, StepsError> {
        together::undo(self, count, by_force)
    }

    /// Takes back all steps of a run towards a goal, also if others came after them.
    ///
    /// # Errors
    /// As of [`Steps::undo`].
    pub fn undo_run(&mut self, run: i64, by_force: bool) -> Result<TakenBack, StepsError> {
        together::undo_run(self, run, by_force)
    }

    /// Makes the last `count` steps again that were taken back.
    ///
    /// # Errors
    /// As of [`Steps::undo`].
    pub fn redo(&mut self, count: usize, by_force: bool) -> Result<TakenBack, StepsError> {
        together::redo(self, count, by_force)
    }

    /// Takes back what the last step did to one file that still is what that step left; again, what the one before it did.
    /// That is a step of its own.
    ///
    /// # Errors
    /// No step changed it, or it has changed since; a file can't be written.
    pub fn undo_file(&mut self, path: &Path, by_force: bool) -> Result<TakenBack, StepsError> {
        together::undo_file(self, path, by_force)
    }
}
