//! A model's changes of the workspace, step by step, for undo: a snapshot before and after each command, and an edit's own files
//! before and after. Contents are in a store outside the workspace. It knows nothing of who ran what, and leaves a repository's
//! own state alone, except for files that the guard of protected files is asked to restore.

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
    /// Makes a snapshot of the workspace in the background, so that the first command needn't wait: only in a repository, since
    /// there nearly all contents are already stored.
    ///
    /// # Errors
    /// As of [`Steps::before`], which says so when it counts.
    pub fn ahead(&mut self) -> Result<(), StepsError> {
        commands::ahead(self)
    }

    /// Makes a snapshot of the workspace before a command.
    ///
    /// # Errors
    /// The changes of the command couldn't be reverted.
    pub fn before(&mut self, text: &str) -> Result<Open, StepsError> {
        commands::before(self, text)
    }

    /// Makes a snapshot after the command, and a step of the differences.
    ///
    /// # Errors
    /// The step couldn't be written: the command can't be reverted.
    pub fn after(&mut self, open: Open) -> Result<StepReport, StepsError> {
        commands::after(self, open)
    }

    /// Finishes the work of a session that was interrupted: its command, edit or job becomes a step, and an undo already in
    /// effect is completed. Returns a line for each.
    ///
    /// # Errors
    /// The store can't be read, or the snapshot fails.
    pub fn recover(&mut self) -> Result<Vec<String>, StepsError> {
        commands::recover(self)
    }

    /// Records the state of files before an edit of exactly these.
    ///
    /// # Errors
    /// The edit couldn't be reverted.
    pub fn before_edit(&mut self, text: &str, paths: &[PathBuf]) -> Result<Before, StepsError> {
        edits::before(self, text, paths)
    }

    /// Compares the files after it, and makes a step of the differences.
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

    /// Notes that a command continues as a job; the snapshot after its call has just been made.
    pub fn job(&mut self, text: &str) -> Job {
        jobs::begin(self, text)
    }

    /// Makes a snapshot of the workspace when it has ended, and a step of its changes since its call.
    ///
    /// # Errors
    /// The step couldn't be written: its changes can't be reverted.
    pub fn after_job(&mut self, job: Job) -> Result<StepReport, StepsError> {
        jobs::after(self, job)
    }

    /// Records the state of existing paths outside the workspace, before a command that may write them.
    ///
    /// # Errors
    /// The command's changes there couldn't be reverted.
    pub fn before_outside(&self, text: &str, paths: &[PathBuf]) -> Result<OpenOutside, StepsError> {
        outside::before(self, text, paths)
    }

    /// Compares them after it, and makes a step that reverts the differences; also returns the paths that have changed.
    ///
    /// # Errors
    /// A step couldn't be written: the command's changes there can't be reverted.
    pub fn after_outside(&mut self, open: OpenOutside) -> Result<(StepReport, Vec<PathBuf>), StepsError> {
        outside::after(self, open)
    }

    /// The next changes of a copy are those of another command.
    pub fn without_outside(&mut self) {
        self.joined = None;
    }

    /// Returns the other places of these steps, for reading their stored contents; a place that is gone is left out.
    #[must_use]
    pub fn places_of(&self, steps: &[Record]) -> Vec<Self> {
        outside::places_of(self, steps)
    }

    /// Returns a step's changes in other places, by whole paths, without contents that were discarded.
    #[must_use]
    pub fn changes_outside(&self, step: &Record) -> Vec<Change> {
        outside::changes(self, step)
    }

    /// Applies changes, and makes a step of them unless that isn't wanted.
    ///
    /// # Errors
    /// A file can't be read or written, or the store: nothing was changed then.
    pub fn adopt(&mut self, text: &str, incoming: Vec<Incoming>, is_recorded: bool) -> Result<Adopted, StepsError> {
        adopt::adopt(self, text, incoming, is_recorded)
    }

    /// Reverts the last `count` steps. Later changes are overwritten only if `by_force`, and are then stored as a step.
    ///
    /// # Errors
    /// There are fewer; something has changed since; a file can't be written: nothing is changed then.
    pub fn undo(&mut self, count: usize, by_force: bool) -> Result<TakenBack, StepsError> {
        together::undo(self, count, by_force)
    }

    /// Reverts all steps of a run towards a goal, even if others came after them.
    ///
    /// # Errors
    /// As of [`Steps::undo`].
    pub fn undo_run(&mut self, run: i64, by_force: bool) -> Result<TakenBack, StepsError> {
        together::undo_run(self, run, by_force)
    }

    /// Redoes the last `count` steps that were reverted.
    ///
    /// # Errors
    /// As of [`Steps::undo`].
    pub fn redo(&mut self, count: usize, by_force: bool) -> Result<TakenBack, StepsError> {
        together::redo(self, count, by_force)
    }

    /// Reverts the last step's change of one file, if the file still is what that step left; called again, the change of the step
    /// before. That is a step of its own.
    ///
    /// # Errors
    /// No step changed it, or it has changed since; a file can't be written.
    pub fn undo_file(&mut self, path: &Path, by_force: bool) -> Result<TakenBack, StepsError> {
        together::undo_file(self, path, by_force)
    }
}
