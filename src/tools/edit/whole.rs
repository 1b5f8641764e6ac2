//! Several files that get other contents as one change: the edits of a tool that computes them.

use std::sync::Arc;

use super::draft::{Draft, basis};
use super::revise::Revised;
use super::{Reads, done, path_error};
use crate::files::{Journals, PathError, Tree};
use crate::proto::action::Action;
use crate::proto::tool::{FileChange, Outcome, ToolError};

/// Longest file whose present content is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Files with the contents that they are to get.
pub(in crate::tools) struct Whole(Draft);

impl Whole {
    /// Makes the change from new contents by path; `None` deletes a file. Returns `None` if nothing would differ.
    ///
    /// # Errors
    /// A path can't be used, or there are too many.
    pub(in crate::tools) fn of(
        files: Vec<(String, Option<Vec<u8>>)>,
        tree: &dyn Tree,
    ) -> Result<Option<Self>, ToolError> {
        let mut draft = Draft::default();
        for (path, content) in files {
            let old = match tree.read(&path, FILE_BYTES_MAX) {
                Ok(old) => Some(old.bytes),
                Err(PathError::Missing) => None,
                Err(error) => return Err(path_error(&path, &error)),
            };
            if old == content {
                continue;
            }
            draft.put(Revised { basis: basis(old.as_deref()), path, content }, tree)?;
        }
        Ok((!draft.changes().is_empty()).then_some(Self(draft)))
    }

    /// The change as text for a person, with what it was made from.
    pub(in crate::tools) fn preview(&self) -> String {
        self.0.difference().preview()
    }

    /// Returns the same changes in the form that the user interface draws.
    pub(in crate::tools) fn file_changes(&self) -> Arc<[FileChange]> {
        self.0.file_changes()
    }

    /// The action for the gate: exactly these paths.
    pub(in crate::tools) fn action(&self) -> Action {
        let paths = |is_gone: bool| {
            let changes = self.0.changes();
            changes.iter().filter(|it| it.new.is_none() == is_gone).map(|it| it.path.to_owned()).collect()
        };
        Action::Edit { writes: paths(false), deletes: paths(true) }
    }

    /// Makes the change, all of it or nothing. Returns a summary.
    ///
    /// # Errors
    /// A file isn't as it was, or can't be written.
    pub(in crate::tools) fn apply(
        &self,
        tree: &dyn Tree,
        journals: &Journals,
        reads: &Reads,
    ) -> Result<String, ToolError> {
        tree.change(journals, &self.0.changes()).map_err(|error| path_error(&error.path, &error.error))?;
        self.0.note(reads);
        Ok(self.0.difference().summary.trim_end().to_owned())
    }

    /// The outcome of a change that was made.
    pub(in crate::tools) fn outcome(&self, bytes_max: usize) -> Outcome {
        done(&self.0.difference(), bytes_max)
    }
}
