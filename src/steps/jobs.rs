//! Jobs: what a command changes after its call is over becomes a step of its own once it has ended. What other steps did
//! meanwhile, on a copy or by an edit, isn't the job's; what a person changed can't be told apart. A note says what a job is
//! about while it runs, so that the next session makes a step of one whose session was killed.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use super::store::Note;
use super::store::state::{self, Kind, Record, State};
use super::{Change, StepReport, Steps, StepsError, counted, cut};
use crate::base::hex;

/// The folder of the notes, in the store.
const NOTES: &str = "jobs";

/// A command that goes on after its call.
#[must_use]
pub struct Job {
    text: String,
    /// The steps when its call was over, and whether they were taken back.
    known: BTreeMap<u64, bool>,
    /// The note of it; none if it couldn't be written, and then a crash loses which command it was.
    note: Option<Note>,
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
    pub fn job(&mut self, text: &str) -> Job {
        let known: BTreeMap<u64, bool> = self.list().iter().map(|step| (step.number, step.is_undone)).collect();
        let steps = known.iter().map(|(number, is_undone)| format!("{number} {}\n", u8::from(*is_undone)));
        let lines = format!("{}\n{}", hex::encode(cut(text).as_bytes()), steps.collect::<String>());
        self.opened += 1;
        let name = format!("{}-{}", self.session, self.opened);
        Job { text: cut(text), known, note: self.store.note(NOTES, &name, &lines).ok() }
    }

    /// Looks at the workspace when it has ended, and makes a step of what it changed since its call.
    ///
    /// # Errors
    /// The step couldn't be written: that can't be taken back.
    pub fn after_job(&mut self, job: Job) -> Result<StepReport, StepsError> {
        let Job { text, known, note } = job;
        let made = self.enter().and_then(|_held| {
            let made = self.make_of_job(text, &known, "as a job, until its end")?;
            Ok(StepReport { pruned: self.make_room()?, ..made })
        });
        note.into_iter().for_each(|note| self.store.forget(&note));
        made
    }

    /// Whether a job's session was killed.
    pub(super) fn has_cut_off_jobs(&self) -> bool {
        self.store.cut_off(NOTES, &self.session).next().is_some()
    }

    /// Makes steps of what jobs changed whose sessions were killed; gives a line for each that had changed something. The
    /// lock is held.
    pub(super) fn recover_jobs(&mut self) -> Result<Vec<String>, StepsError> {
        let mut told = Vec::new();
        for (name, note) in self.store.cut_off(NOTES, &self.session).collect::<Vec<_>>() {
            if let Some((text, known)) = job_of(&note) {
                let made = self.make_of_job(text.clone(), &known, "as a job; its session was cut off")?;
                if let StepReport { step: Some(step), files, .. } = made {
                    let files = counted(files, "file");
                    told.push(format!(
                        "the session of the job `{text}` was cut off; it changed {files}, which is step {step} (:undo)"
                    ));
                }
            }
            self.store.remove(&name);
        }
        Ok(told)
    }

    /// Makes a step of what differs from the last look, but for what other steps did since the job began.
    fn make_of_job(&mut self, text: String, known: &BTreeMap<u64, bool>, note: &str) -> Result<StepReport, StepsError> {
        let left = left_by(&self.list(), known);
        let mut changes: Vec<Change> = self.look(false)?;
        for change in &mut changes {
            change.before = left.get(&change.path).copied().unwrap_or(change.before);
        }
        changes.retain(|change| change.before != change.after);
        let made = self.make(Kind::Command, text, vec![note.to_owned()], changes);
        self.held.clear();
        made
    }
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
