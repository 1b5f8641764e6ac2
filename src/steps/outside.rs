//! Changes that a command made outside the workspace, at paths that it was granted: each such place has steps of its own, and a
//! step of the workspace names them, so that they are reverted together with it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::base::{StepReport, Steps, cut};
use super::commands::Open;
use super::edits::Before;
use super::store::error::StepsError;
use super::store::state::{Elsewhere, Kind, Record};
use super::store::table::Change;
use super::together::enter;
use super::{commands, edits};

/// Paths that a step's note names.
const NAMED_MAX: usize = 5;

/// The places outside that a command may write, as they were before it.
#[must_use]
pub struct OpenOutside {
    text: String,
    places: Vec<(Steps, Held)>,
}

impl OpenOutside {
    /// The same, with the places of an earlier one.
    pub fn after(mut self, earlier: Option<Self>) -> Self {
        self.places.extend(earlier.into_iter().flat_map(|it| it.places));
        self
    }
}

/// One such place.
enum Held {
    Directory(Open),
    File(Before),
}

/// Looks at paths outside the workspace, which are files or directories that are there or files that aren't yet, before a command
/// that may write them.
pub fn before(here: &Steps, text: &str, paths: &[PathBuf]) -> Result<OpenOutside, StepsError> {
    let mut places = Vec::new();
    let is_below = |path: &PathBuf| paths.iter().any(|other| other != path && path.starts_with(other));
    for path in paths.iter().filter(|path| !is_below(path)) {
        let name = path.file_name().map(PathBuf::from);
        places.push(match (path.parent(), name) {
            (Some(above), Some(name)) if !path.is_dir() => {
                let mut steps = here.beside(above)?;
                let before = edits::before(&mut steps, &path.display().to_string(), &[name])?;
                (steps, Held::File(before))
            }
            _ => {
                let mut steps = here.beside(path)?;
                let open = commands::before(&mut steps, text)?;
                (steps, Held::Directory(open))
            }
        });
    }
    Ok(OpenOutside { text: cut(text), places })
}

/// Compares them after it, and makes a step that reverts the differences; also returns the paths that have changed.
pub fn after(here: &mut Steps, open: OpenOutside) -> Result<(StepReport, Vec<PathBuf>), StepsError> {
    let (mut outside, mut paths, mut failed) = (Vec::new(), Vec::new(), None);
    for (mut steps, held) in open.places {
        let made = match held {
            Held::Directory(open) => commands::after(&mut steps, open),
            Held::File(before) => edits::after(&mut steps, before),
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
        let _held = enter(here)?;
        let names: Vec<String> = paths.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
        let more = paths.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let notes = vec![format!("outside the workspace: {}{more}", names.join(", "))];
        let made = here.make_with(Kind::Command, open.text, notes, Vec::new(), outside)?;
        here.joined = made.step;
        return failed.map_or(Ok((made, paths)), Err);
    }
    failed.map_or_else(|| Ok((StepReport::default(), paths)), Err)
}

/// Returns the step of the outside changes by the command whose copy is now being applied; that step holds them until then.
pub fn joined(here: &mut Steps) -> Option<Record> {
    let number = here.joined.take()?;
    here.list().into_iter().find(|step| step.number == number && !step.is_undone)
}

/// Returns the other places of these steps, for reading their stored contents; a place that is gone is left out.
#[must_use]
pub fn places_of(here: &Steps, steps: &[Record]) -> Vec<Steps> {
    let roots: BTreeSet<&PathBuf> = steps.iter().flat_map(|step| &step.outside).map(|it| &it.root).collect();
    roots.into_iter().filter_map(|root| here.beside(root).ok()).collect()
}

/// Returns a step's changes in other places, by whole paths, without contents that were discarded.
#[must_use]
pub fn changes(here: &Steps, step: &Record) -> Vec<Change> {
    let changes = step.outside.iter().flat_map(|Elsewhere { root, number, .. }| {
        let other = here.beside(root).ok();
        let record = other.and_then(|other| other.list().into_iter().find(|it| it.number == *number));
        let changes = record.map(|record| record.changes).unwrap_or_default();
        changes.into_iter().map(|it| Change { path: root.join(&it.path), ..it })
    });
    changes.collect()
}
