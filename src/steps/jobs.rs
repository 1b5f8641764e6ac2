//! Jobs: what a command changes after its call is over becomes a step of its own once it has ended. The changes of other steps in
//! the meantime, on a copy or by an edit, don't belong to the job; a person's changes can't be distinguished. A note describes a
//! job while it runs, so that the next session makes a step of one whose session was killed.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use super::base::{StepReport, Steps, cut};
use super::store::Note;
use super::store::error::StepsError;
use super::store::state::{self, Kind, Record, State};
use super::store::table::Change;
use super::together::enter;
use crate::base::hex;
use crate::base::text::counted;

/// The folder of the notes, in the store.
const NOTES: &str = "jobs";

/// A command that continues as a job after its call.
#[must_use]
pub struct Job {
    text: String,
    /// The steps at the end of its call, and whether they were reverted.
    known: BTreeMap<u64, bool>,
    /// The note about it; `None` if it couldn't be written, and then a crash loses the name of the command.
    note: Option<Note>,
}

impl Job {
    /// The command line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Notes that a command continues as a job; the snapshot after its call has just been made.
pub fn begin(here: &mut Steps, text: &str) -> Job {
    let known: BTreeMap<u64, bool> = here.list().iter().map(|step| (step.number, step.is_undone)).collect();
    let steps = known.iter().map(|(number, is_undone)| format!("{number} {}\n", u8::from(*is_undone)));
    let lines = format!("{}\n{}", hex::encode(cut(text).as_bytes()), steps.collect::<String>());
    here.opened += 1;
    let name = format!("{}-{}", here.session, here.opened);
    Job { text: cut(text), known, note: here.store.note(NOTES, &name, &lines).ok() }
}

/// Makes a snapshot of the workspace when it has ended, and a step of its changes since its call.
pub fn after(here: &mut Steps, job: Job) -> Result<StepReport, StepsError> {
    let Job { text, known, note } = job;
    let made = enter(here).and_then(|_held| {
        let made = make_of_job(here, text, &known, "as a job, until its end")?;
        Ok(StepReport { pruned: here.make_room()?, ..made })
    });
    note.into_iter().for_each(|note| here.store.forget(&note));
    made
}

/// Returns whether a job's session was killed.
pub fn has_cut_off(here: &Steps) -> bool {
    here.store.cut_off(NOTES, &here.session).next().is_some()
}

/// Makes steps of what jobs changed whose sessions were killed; returns a line for each that had changed something. The
/// lock is held.
pub fn recover(here: &mut Steps) -> Result<Vec<String>, StepsError> {
    let mut notices = Vec::new();
    for (name, note) in here.store.cut_off(NOTES, &here.session).collect::<Vec<_>>() {
        if let Some((text, known)) = job_of(&note) {
            let made = make_of_job(here, text.clone(), &known, "as a job; its session was cut off")?;
            if let StepReport { step: Some(step), files, .. } = made {
                let files = counted(files, "file");
                notices.push(format!(
                    "the session of the job `{text}` was cut off; it changed {files}, which is step {step} (:undo)"
                ));
            }
        }
        here.store.remove(&name);
    }
    Ok(notices)
}

/// Makes a step of the differences from the last snapshot, except those that other steps made since the job began.
fn make_of_job(
    here: &mut Steps,
    text: String,
    known: &BTreeMap<u64, bool>,
    note: &str,
) -> Result<StepReport, StepsError> {
    let left = left_by(&here.list(), known);
    let mut changes: Vec<Change> = here.look(false)?;
    for change in &mut changes {
        change.before = left.get(&change.path).copied().unwrap_or(change.before);
    }
    changes.retain(|change| change.before != change.after);
    let made = here.make(Kind::Command, text, vec![note.to_owned()], changes);
    here.held.clear();
    made
}

/// Returns the command line of a note, and the steps that there were when its call was over.
fn job_of(note: &str) -> Option<(String, BTreeMap<u64, bool>)> {
    let mut lines = note.lines();
    let text = String::from_utf8_lossy(&state::bytes_of(lines.next()?)?).into_owned();
    let step = |line: &str| {
        let (number, is_undone) = line.split_once(' ')?;
        Some((number.parse().ok()?, is_undone == "1"))
    };
    Some((text, lines.map(step).collect::<Option<_>>()?))
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
