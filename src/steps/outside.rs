//! Changes that a command made outside the workspace, at paths that it was granted: each such place has steps of its own, and
//! a step of the workspace names them, so that they are taken back with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::edits::Before;
use super::store::state::{Elsewhere, Record};
use super::{Change, Kind, Open, StepReport, Steps, StepsError, cut, store};

/// Paths that a step's note names.
const NAMED_MAX: usize = 5;

/// The places outside that a command may write, as they were before it.
#[must_use]
pub struct OpenOutside {
    text: String,
    places: Vec<(Steps, Held)>,
}

/// One such place.
enum Held {
    Directory(Open),
    File(Before),
}

/// Another place whose steps are turned together with those of the workspace.
pub(super) struct Other {
    pub(super) steps: Steps,
    pub(super) records: Vec<Record>,
    _held: store::Held,
}

impl Steps {
    /// Looks at paths outside the workspace, all of which are there, before a command that may write them.
    ///
    /// # Errors
    /// What the command changes there couldn't be taken back.
    pub fn before_outside(&self, text: &str, paths: &[PathBuf]) -> Result<OpenOutside, StepsError> {
        let mut places = Vec::new();
        let is_below = |path: &PathBuf| paths.iter().any(|other| other != path && path.starts_with(other));
        for path in paths.iter().filter(|path| !is_below(path)) {
            let name = path.file_name().map(PathBuf::from);
            places.push(match (path.parent(), name) {
                (Some(above), Some(name)) if !path.is_dir() => {
                    let mut steps = self.beside(above)?;
                    let before = steps.before_edit(&path.display().to_string(), &[name])?;
                    (steps, Held::File(before))
                }
                _ => {
                    let mut steps = self.beside(path)?;
                    let open = steps.before(text)?;
                    (steps, Held::Directory(open))
                }
            });
        }
        Ok(OpenOutside { text: cut(text), places })
    }

    /// Looks at them after it, and makes a step that takes back what differs; gives the paths that it changed, too.
    ///
    /// # Errors
    /// A step couldn't be written: what the command did there can't be taken back.
    pub fn after_outside(&mut self, open: OpenOutside) -> Result<(StepReport, Vec<PathBuf>), StepsError> {
        let (mut outside, mut paths, mut failed) = (Vec::new(), Vec::new(), None);
        for (mut steps, held) in open.places {
            let made = match held {
                Held::Directory(open) => steps.after(open),
                Held::File(before) => steps.after_edit(before),
            };
            let number = match made {
                Ok(made) => made.step,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            let Some(record) = steps.list().into_iter().find(|it| Some(it.number) == number) else { continue };
            let root = steps.workspace().to_owned();
            paths.extend(record.changes.iter().map(|it| root.join(&it.path)));
            outside.push(Elsewhere { root, number: record.number, files: record.files() });
        }
        if !outside.is_empty() {
            let _held = self.enter()?;
            let names: Vec<String> = paths.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
            let more = paths.len().saturating_sub(NAMED_MAX);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let notes = vec![format!("outside the workspace: {}{more}", names.join(", "))];
            let made = self.make_with(Kind::Command, open.text, notes, Vec::new(), outside)?;
            self.joined = made.step;
            return failed.map_or(Ok((made, paths)), Err);
        }
        failed.map_or_else(|| Ok((StepReport::default(), paths)), Err)
    }

    /// The next changes of a copy are those of another command.
    pub fn without_outside(&mut self) {
        self.joined = None;
    }

    /// The steps outside that the command made whose copy's changes are made real now, and the step that has them until then.
    pub(super) fn joined(&mut self) -> Option<Record> {
        let number = self.joined.take()?;
        self.list().into_iter().find(|step| step.number == number && !step.is_undone)
    }

    /// The places outside of these steps, each with its own steps in the same order.
    pub(super) fn others_of(&self, steps: &[Record]) -> Result<Vec<Other>, StepsError> {
        let mut others: Vec<Other> = Vec::new();
        for Elsewhere { root, number, .. } in steps.iter().flat_map(|step| &step.outside) {
            let at = match others.iter().position(|it| it.steps.workspace() == root) {
                Some(at) => at,
                None => {
                    let mut steps = self.beside(root)?;
                    let held = steps.enter_alone()?;
                    others.push(Other { steps, records: Vec::new(), _held: held });
                    others.len() - 1
                }
            };
            let other = &mut others[at];
            let found = other.steps.list().into_iter().find(|it| it.number == *number);
            let gone = || StepsError::Nothing(format!("what was changed in {} isn't kept any more", root.display()));
            let record = found.ok_or_else(gone)?;
            if !other.records.iter().any(|it| it.number == record.number) {
                other.records.push(record);
            }
        }
        Ok(others)
    }

    /// The other places of these steps, for reading what is kept there; one that is gone is left out.
    #[must_use]
    pub fn places_of(&self, steps: &[Record]) -> Vec<Self> {
        let roots: BTreeSet<&PathBuf> = steps.iter().flat_map(|step| &step.outside).map(|it| &it.root).collect();
        roots.into_iter().filter_map(|root| self.beside(root).ok()).collect()
    }

    /// Returns a step's changes in other places, by whole paths, without contents that were discarded.
    #[must_use]
    pub fn changes_outside(&self, step: &Record) -> Vec<Change> {
        let changes = step.outside.iter().flat_map(|Elsewhere { root, number, .. }| {
            let other = self.beside(root).ok();
            let record = other.and_then(|other| other.list().into_iter().find(|it| it.number == *number));
            let changes = record.map(|record| record.changes).unwrap_or_default();
            changes.into_iter().map(|it| Change { path: root.join(&it.path), ..it })
        });
        changes.collect()
    }

    /// The steps of another place, with the same limits.
    pub(super) fn beside(&self, root: &Path) -> Result<Self, StepsError> {
        let steps = Self::new(&self.state, root, self.limits.clone(), &self.absent);
        steps.map_err(|error| match error {
            StepsError::Root(error) => StepsError::Path { path: root.to_owned(), error },
            error => error,
        })
    }
}
