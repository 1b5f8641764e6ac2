//! Edits of a model: their files before and after become a step. A note says what an edit is about while it runs, so that the
//! next session makes a step of one that was killed.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::base::{StepReport, Steps, cut};
use super::store::Note;
use super::store::error::StepsError;
use super::store::state::{self, Kind, State};
use super::store::table::Change;
use super::together::enter;
use crate::base::hex;
use crate::base::text::counted;

/// Limit on the paths that a step of edits covers.
const PATHS_MAX: usize = 2_000;
/// The folder of the notes, in the store.
const NOTES: &str = "edits";

/// Files as they are before an edit.
#[must_use]
pub struct Before {
    text: String,
    states: Vec<(PathBuf, State)>,
    /// The states of files with an access list, in the form in which they can be made again: a removed file loses its list.
    as_new: HashMap<PathBuf, State>,
    /// The note about it, locked as long as the edit runs.
    note: Option<Note>,
}

/// Records the state of files before an edit of exactly these.
pub fn before(here: &mut Steps, text: &str, paths: &[PathBuf]) -> Result<Before, StepsError> {
    let _held = enter(here)?;
    // The directories too, for an edit may have to make them.
    let all: BTreeSet<PathBuf> =
        paths.iter().take(PATHS_MAX).flat_map(|path| path.ancestors()).map(Path::to_owned).collect();
    let all = all.into_iter().filter(|path| !path.as_os_str().is_empty());
    let states: Result<Vec<_>, StepsError> = all.map(|path| Ok((path.clone(), here.keep_state(&path)?))).collect();
    let (text, states) = (cut(text), states?);
    let note = Some(note(here, &text, &states)?);
    let as_new = |(path, state): &(PathBuf, State)| match *state {
        State::File { mode, id } => {
            let new = State::File { mode: here.root.mode_without_acl(path, mode), id };
            (new != *state).then(|| (path.clone(), new))
        }
        _ => None,
    };
    let as_new = states.iter().filter_map(as_new).collect();
    Ok(Before { text, states, as_new, note })
}

/// Compares the files after it, and makes a step of the differences.
pub fn after(here: &mut Steps, mut before: Before) -> Result<StepReport, StepsError> {
    let note = before.note.take();
    let made = enter(here).and_then(|_held| {
        let mut changes = differences(here, std::mem::take(&mut before.states))?;
        for change in changes.iter_mut().filter(|it| it.after == State::Nothing) {
            change.before = before.as_new.get(&change.path).copied().unwrap_or(change.before);
        }
        let made = here.make(Kind::Edit, before.text, Vec::new(), changes)?;
        here.written += 1;
        Ok(StepReport { pruned: here.make_room()?, ..made })
    });
    note.into_iter().for_each(|note| here.store.forget(&note));
    made
}

/// Forgets an edit that changed nothing.
pub fn without(here: &mut Steps, before: Before) {
    before.note.iter().for_each(|note| here.store.forget(note));
}

/// Returns whether an edit was cut off.
pub fn has_cut_off(here: &Steps) -> bool {
    cut_off(here).next().is_some()
}

/// Makes steps of edits that were cut off; returns a line for each that had changed something.
pub fn recover(here: &mut Steps) -> Result<Vec<String>, StepsError> {
    let mut notices = Vec::new();
    for (name, text, states) in cut_off(here).collect::<Vec<_>>() {
        let changes = differences(here, states)?;
        let made = here.make(Kind::Edit, text.clone(), vec!["it was cut off".to_owned()], changes)?;
        here.store.remove(&name);
        if let StepReport { step: Some(step), files, .. } = made {
            let files = counted(files, "file");
            notices.push(format!("an edit of {text} was cut off; it changed {files}, which is step {step} (:undo)"));
        }
    }
    Ok(notices)
}

/// Returns the present differences from the earlier states.
fn differences(here: &Steps, states: Vec<(PathBuf, State)>) -> Result<Vec<Change>, StepsError> {
    let mut changes = Vec::new();
    for (path, before) in states {
        let after = here.keep_state(&path)?;
        let is_unknown = matches!((before, after), (State::Unknown(_), State::Unknown(_)));
        if before != after && !is_unknown {
            changes.push(Change { path, before, after });
        }
    }
    Ok(changes)
}

/// Notes an edit that begins, and holds the note.
fn note(here: &mut Steps, text: &str, states: &[(PathBuf, State)]) -> Result<Note, StepsError> {
    let change =
        |(path, before): &(PathBuf, State)| Change { path: path.clone(), before: *before, after: State::Nothing };
    let changes: Vec<Change> = states.iter().map(change).collect();
    here.opened += 1;
    let text = format!("{}\n{}", hex::encode(text.as_bytes()), state::change_lines(&changes));
    here.store.note(NOTES, &format!("{}-{}", here.session, here.opened), &text)
}

/// Returns the notes that no session has locked: their names, the texts, and the states before.
fn cut_off(here: &Steps) -> impl Iterator<Item = (String, String, Vec<(PathBuf, State)>)> {
    here.store.cut_off(NOTES, &here.session).filter_map(|(name, note)| {
        let mut lines = note.lines();
        let text = String::from_utf8_lossy(&state::bytes_of(lines.next()?)?).into_owned();
        let states = lines.map(|line| state::change_of(line).map(|it| (it.path, it.before))).collect::<Option<_>>()?;
        Some((name, text, states))
    })
}
