//! Edits of a model: their files before and after become a step. A note says what an edit is about while it runs, so that the
//! next session makes a step of one that was killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::store::Note;
use super::store::state::{self, Kind, State};
use super::{Change, PATHS_MAX, StepReport, Steps, StepsError, counted, cut};
use crate::base::hex;

/// The folder of the notes, in the store.
const NOTES: &str = "edits";

/// Files as they are before an edit.
#[must_use]
pub struct Before {
    text: String,
    states: Vec<(PathBuf, State)>,
    /// The note of it, held as long as the edit runs.
    note: Option<Note>,
}

impl Steps {
    /// Looks at files before an edit of exactly these.
    ///
    /// # Errors
    /// The edit couldn't be taken back.
    pub fn before_edit(&mut self, text: &str, paths: &[PathBuf]) -> Result<Before, StepsError> {
        let _held = self.enter()?;
        // The directories too, for an edit may have to make them.
        let all: BTreeSet<PathBuf> =
            paths.iter().take(PATHS_MAX).flat_map(|path| path.ancestors()).map(Path::to_owned).collect();
        let all = all.into_iter().filter(|path| !path.as_os_str().is_empty());
        let states: Result<Vec<_>, StepsError> = all.map(|path| Ok((path.clone(), self.keep_state(&path)?))).collect();
        let (text, states) = (cut(text), states?);
        let note = Some(self.note_edit(&text, &states)?);
        Ok(Before { text, states, note })
    }

    /// Looks at them after it, and makes a step of what differs.
    ///
    /// # Errors
    /// The step couldn't be written.
    pub fn after_edit(&mut self, mut before: Before) -> Result<StepReport, StepsError> {
        let note = before.note.take();
        let made = self.enter().and_then(|_held| {
            let changes = self.differences(std::mem::take(&mut before.states))?;
            let made = self.make(Kind::Edit, before.text, Vec::new(), changes)?;
            self.written += 1;
            Ok(StepReport { pruned: self.make_room()?, ..made })
        });
        note.into_iter().for_each(|note| self.store.forget(&note));
        made
    }

    /// Forgets an edit that changed nothing.
    pub fn without_edit(&mut self, before: Before) {
        before.note.iter().for_each(|note| self.store.forget(note));
    }

    /// Whether an edit was cut off.
    pub(super) fn has_cut_off_edits(&self) -> bool {
        self.cut_off_edits().next().is_some()
    }

    /// Makes steps of edits that were cut off; gives a line for each that had changed something.
    pub(super) fn recover_edits(&mut self) -> Result<Vec<String>, StepsError> {
        let mut told = Vec::new();
        for (name, text, states) in self.cut_off_edits().collect::<Vec<_>>() {
            let changes = self.differences(states)?;
            let made = self.make(Kind::Edit, text.clone(), vec!["it was cut off".to_owned()], changes)?;
            self.store.remove(&name);
            if let StepReport { step: Some(step), files, .. } = made {
                let files = counted(files, "file");
                told.push(format!("an edit of {text} was cut off; it changed {files}, which is step {step} (:undo)"));
            }
        }
        Ok(told)
    }

    /// Returns the present differences from the earlier states.
    fn differences(&self, states: Vec<(PathBuf, State)>) -> Result<Vec<Change>, StepsError> {
        let mut changes = Vec::new();
        for (path, before) in states {
            let after = self.keep_state(&path)?;
            let is_unknown = matches!((before, after), (State::Unknown(_), State::Unknown(_)));
            if before != after && !is_unknown {
                changes.push(Change { path, before, after });
            }
        }
        Ok(changes)
    }

    /// Notes an edit that begins, and holds the note.
    fn note_edit(&mut self, text: &str, states: &[(PathBuf, State)]) -> Result<Note, StepsError> {
        let change =
            |(path, before): &(PathBuf, State)| Change { path: path.clone(), before: *before, after: State::Nothing };
        let changes: Vec<Change> = states.iter().map(change).collect();
        self.opened += 1;
        let text = format!("{}\n{}", hex::encode(text.as_bytes()), state::change_lines(&changes));
        self.store.note(NOTES, &format!("{}-{}", self.session, self.opened), &text)
    }

    /// The notes that no session holds: their names, the texts, and what was there before.
    fn cut_off_edits(&self) -> impl Iterator<Item = (String, String, Vec<(PathBuf, State)>)> {
        self.store.cut_off(NOTES, &self.session).filter_map(|(name, note)| {
            let mut lines = note.lines();
            let text = String::from_utf8_lossy(&state::bytes_of(lines.next()?)?).into_owned();
            let states =
                lines.map(|line| state::change_of(line).map(|it| (it.path, it.before))).collect::<Option<_>>()?;
            Some((name, text, states))
        })
    }
}
