//! Reverts steps or redoes them in several places at once: in the workspace, and outside it if a command had a grant. Everything
//! is checked first; then all new contents are staged; then the note of the workspace puts all of it into effect. A crash before
//! that note leaves everything as it was, one after it is completed later, and a failure reverts everything.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::base::Steps;
use super::closed::Opened;
use super::intent::{
    INTENT, Intent, Plan, Sources, apply, carry_out, close, is_reversed, lay_all_ready, mark_steps, note_of, plan,
    remove_left_stages, stage_name, unseen, unstage,
};
use super::store;
use super::store::error::{Conflict, StepsError};
use super::store::state::{Elsewhere, Kind, Record, State, Why, is_of_directories};
use super::store::table::Change;
use crate::base::text::counted;
use crate::files::Stamp;

/// The text of a step that a crash cut off.
const CUT_OFF: &str = "changes that were cut off while they were made real, and finished afterwards";

/// The result of an undo or redo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenBack {
    /// The steps, in the order in which that was done.
    pub steps: Vec<Record>,
    /// Files and links that are as they were, or will be.
    pub files: usize,
    /// The paths that stay as they are, and why.
    pub left: Vec<(PathBuf, String)>,
    /// The step that stores a person's changes that were overwritten.
    pub kept_in: Option<u64>,
    /// Places that aren't covered: a command's changes there stay.
    pub unseen: Vec<(PathBuf, Why)>,
}

/// Another place whose steps are turned together with those of the workspace.
struct Place {
    steps: Steps,
    records: Vec<Record>,
    _held: store::Held,
}

/// The share of one place.
struct Share {
    intent: Intent,
    left: Vec<(PathBuf, String)>,
    conflicts: Vec<Conflict>,
    stamps: Vec<Option<Stamp>>,
}

impl Share {
    fn files(&self) -> usize {
        self.intent.changes.iter().filter(|it| !is_of_directories(it)).count()
    }

    /// Returns the person's changes that are lost by force.
    fn forced(&self) -> Vec<Change> {
        let is_forced = |it: &&Change| self.conflicts.iter().any(|conflict| conflict.path == it.path);
        self.intent.changes.iter().filter(is_forced).cloned().collect()
    }
}

/// Makes paths absolute.
fn whole(root: &Path, left: Vec<(PathBuf, String)>) -> impl Iterator<Item = (PathBuf, String)> + '_ {
    left.into_iter().map(|(path, why)| (root.join(path), why))
}

/// Reverts the last `count` steps. Later changes are overwritten only if `by_force`, and are then stored as a step.
pub fn undo(here: &mut Steps, count: usize, by_force: bool) -> Result<TakenBack, StepsError> {
    let _held = enter_alone(here)?;
    let mut done = here.list();
    let all = done.len();
    let is_whole = to_redo(done.clone()).len() == all;
    done.retain(|step| !step.is_undone);
    done.reverse();
    let none = match all {
        0 => "nothing to undo: no command or edit of a model has changed anything here".to_owned(),
        1 => "nothing to undo: the only step is already undone; redo repeats it".to_owned(),
        all if is_whole => format!("nothing to undo: all {all} steps are already undone; redo repeats them"),
        all => format!("nothing to undo: all {all} steps are already undone"),
    };
    let steps = first(done, count, &none, "to take back")?;
    turn(here, steps, true, by_force, &mut || ())
}

/// Reverts all steps of a run towards a goal, even if others came after them.
pub fn undo_run(here: &mut Steps, run: i64, by_force: bool) -> Result<TakenBack, StepsError> {
    let _held = enter_alone(here)?;
    let is_of_run = |step: &Record| step.run() == Some(run) && !step.is_undone;
    let steps: Vec<Record> = here.list().into_iter().rev().filter(is_of_run).collect();
    if steps.is_empty() {
        return Err(StepsError::Nothing(format!("run {run} has changed nothing here, or it was undone")));
    }
    turn(here, steps, true, by_force, &mut || ())
}

/// Redoes the last `count` steps that were reverted.
pub fn redo(here: &mut Steps, count: usize, by_force: bool) -> Result<TakenBack, StepsError> {
    let _held = enter_alone(here)?;
    let none = "nothing to redo: no step was undone since the last one";
    let steps = first(to_redo(here.list()), count, none, "to make again")?;
    turn(here, steps, false, by_force, &mut || ())
}

/// Returns the steps that redo repeats, the oldest first: the reverted ones at the end, without those that a newer one has
/// replaced.
fn to_redo(all: Vec<Record>) -> Vec<Record> {
    let mut undone = VecDeque::new();
    let mut end = u64::MAX;
    for step in all.into_iter().rev().take_while(|step| step.is_undone) {
        if step.number < end {
            end = step.sets_aside.unwrap_or(end);
            undone.push_front(step);
        }
    }
    undone.into()
}

/// Reverts the last step's change of one file, if the file still is what that step left; called again, the change of the step
/// before. That is a step of its own.
pub fn undo_file(here: &mut Steps, path: &Path, by_force: bool) -> Result<TakenBack, StepsError> {
    let _held = enter_alone(here)?;
    let now = here.keep_state(path)?;
    let steps = here.list();
    let of_it = |step: &Record| {
        let found = step.changes.iter().find(|it| it.path == path);
        found.map(|it| (it.before, it.after))
    };
    let touching = || {
        let own = steps.iter().rev().filter(|step| step.kind != Kind::Undo && !step.is_undone);
        own.filter_map(|step| Some((step, of_it(step)?)))
    };
    let name = path.display();
    let Some((newest, (_, left))) = touching().next() else {
        let is_of_one = steps.iter().any(|step| of_it(step).is_some());
        let why = if is_of_one { "the step that changed it is already undone" } else { "no step changed it" };
        return Err(StepsError::Nothing(format!("{name} can't be undone: {why}")));
    };
    if let State::Unknown(why) = now {
        return Err(StepsError::Nothing(format!("{name} can't be kept ({why}): put it away first")));
    }
    let (step, (to, _)) = match touching().find(|(_, (_, after))| *after == now) {
        Some(found) => found,
        None if by_force => (newest, of_it(newest).unwrap_or((State::Nothing, State::Nothing))),
        None => {
            let why = "has changed since".to_owned();
            return Err(StepsError::Conflicts(vec![Conflict { path: path.to_owned(), why, left, now }]));
        }
    };
    if let State::Unknown(why) = to {
        return Err(StepsError::Nothing(format!("{name} can't be undone: {why}")));
    }
    let mut changes = vec![Change { path: path.to_owned(), before: now, after: to }];
    // The directories that it needs, if they are gone with it.
    let missing = |path: &&Path| matches!(here.root.stamp(path), Ok(None)) && to != State::Nothing;
    let above = path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).take_while(missing);
    changes.extend(above.map(|path| Change {
        path: path.to_owned(),
        before: State::Nothing,
        after: State::Directory { mode: 0o755 },
    }));
    let (text, step) = (format!(":undo --file {name}"), step.clone());
    let (_, intent) = carry_out(here, changes.clone(), &Sources::new(), None, &mut || ())?;
    let made = here.make(Kind::Undo, text, Vec::new(), changes);
    close(here, &intent)?;
    let made = made?;
    Ok(TakenBack { steps: vec![step], files: 1, left: Vec::new(), kept_in: made.step, unseen: Vec::new() })
}

/// Takes steps back, the newest first, or makes them again, the oldest first.
pub fn turn(
    here: &mut Steps,
    steps: Vec<Record>,
    is_undone: bool,
    by_force: bool,
    step: &mut dyn FnMut(),
) -> Result<TakenBack, StepsError> {
    let mut opened = Opened::by(here, &steps, is_undone);
    let turned = turn_opened(here, steps, (is_undone, by_force), &mut opened, step);
    opened.close(here);
    turned
}

fn turn_opened(
    here: &mut Steps,
    steps: Vec<Record>,
    (is_undone, by_force): (bool, bool),
    opened: &mut Opened,
    step: &mut dyn FnMut(),
) -> Result<TakenBack, StepsError> {
    let stage = stage_name(here);
    let mut own = share(here, &steps, is_undone, &stage, opened)?;
    let mut others: Vec<(Place, Share)> = Vec::new();
    for other in others_of(here, &steps)? {
        let share = share(&other.steps, &other.records, is_undone, &stage, &Opened::default())?;
        others.push((other, share));
    }
    own.intent.places = others.iter().map(|(other, _)| other.steps.workspace().to_owned()).collect();
    let mut conflicts = own.conflicts.clone();
    for (other, share) in &others {
        let root = other.steps.workspace();
        conflicts.extend(share.conflicts.iter().map(|it| Conflict { path: root.join(&it.path), ..it.clone() }));
    }
    // Not even by force, since the overwritten state couldn't be stored.
    if let Some(lost) = conflicts.iter().find(|it| matches!(it.now, State::Unknown(_))) {
        let error = format!("{} {}, and it can't be kept: put it away first", lost.path.display(), lost.why);
        return Err(StepsError::Nothing(error));
    }
    if !conflicts.is_empty() && !by_force {
        return Err(StepsError::Conflicts(conflicts));
    }
    let files = own.files() + others.iter().map(|(_, share)| share.files()).sum::<usize>();
    let done = carry_out_together(here, &mut own, &mut others, step)?;
    opened.settle(&own.intent.changes);
    let mut kept_in = None;
    let shares = others.iter_mut().map(|(other, share)| (&mut other.steps, &*share));
    let word = if is_undone { "undo" } else { "redo" };
    for (place, share) in shares.collect::<Vec<_>>().into_iter().chain([(&mut *here, &own)]) {
        let forced = share.forced();
        if !forced.is_empty() {
            let note = "your changes are saved in it".to_owned();
            kept_in = place.make(Kind::Undo, format!(":{word} --force"), vec![note], forced)?.step;
        }
    }
    let planned = others.iter().flat_map(|(other, share)| whole(other.steps.workspace(), share.left.clone()));
    let left = planned.chain(own.left).chain(done).collect();
    let unseen = if steps.iter().any(|it| it.kind == Kind::Command) { unseen(here) } else { Vec::new() };
    Ok(TakenBack { steps, files, left, kept_in, unseen })
}

/// Returns the work in this place.
fn share(here: &Steps, steps: &[Record], is_undone: bool, stage: &str, opened: &Opened) -> Result<Share, StepsError> {
    let Plan { mut changes, left, conflicts } = plan(here, steps, is_undone, opened)?;
    // A change of a path that no longer exists needs its directories.
    let needed: BTreeSet<PathBuf> = changes
        .iter()
        .filter(|it| it.after != State::Nothing)
        .flat_map(|it| it.path.ancestors().skip(1).map(Path::to_owned))
        .filter(|path| !path.as_os_str().is_empty() && matches!(here.root.stamp(path), Ok(None)))
        .collect();
    for path in needed {
        if !changes.iter().any(|it| it.path == path) {
            changes.push(Change { path, before: State::Nothing, after: State::Directory { mode: 0o755 } });
        }
    }
    let steps = steps.iter().map(|it| (it.number, is_undone)).collect();
    let intent = Intent { stage: stage.to_owned(), steps, changes, places: Vec::new(), becomes: None };
    Ok(Share { intent, left, conflicts, stamps: Vec::new() })
}

/// Carries out everything or nothing; returns what it had to leave.
fn carry_out_together(
    here: &mut Steps,
    own: &mut Share,
    others: &mut [(Place, Share)],
    step: &mut dyn FnMut(),
) -> Result<Vec<(PathBuf, String)>, StepsError> {
    if let Err(error) = lay_places_ready(here, own, others, step) {
        forget(here, own, others);
        return Err(error);
    }
    step();
    let left = match apply_places(here, own, others, step) {
        Ok(left) => left,
        Err(error) => {
            let mut is_as_before = is_reversed(here, &own.intent);
            for (other, share) in &*others {
                is_as_before &= is_reversed(&other.steps, &share.intent);
            }
            // Otherwise the notes stay, and the next session completes the work.
            if is_as_before {
                forget(here, own, others);
            }
            return Err(error);
        }
    };
    for (other, share) in &*others {
        mark_steps(&other.steps, &share.intent)?;
    }
    mark_steps(here, &own.intent)?;
    step();
    forget(here, own, others);
    Ok(left)
}

fn lay_places_ready(
    here: &Steps,
    own: &mut Share,
    others: &mut [(Place, Share)],
    step: &mut dyn FnMut(),
) -> Result<(), StepsError> {
    let failed = |error: std::io::Error| StepsError::io("the note of what is to be done", &error);
    for (Place { steps, .. }, share) in others {
        share.stamps = lay_all_ready(steps, &share.intent, &Sources::new(), None, step)?;
        steps.store.put_for_good(&note_of(&share.intent.stage), share.intent.text().as_bytes()).map_err(failed)?;
        step();
    }
    own.stamps = lay_all_ready(here, &own.intent, &Sources::new(), None, step)?;
    here.store.put_for_good(INTENT, own.intent.text().as_bytes()).map_err(failed)
}

fn apply_places(
    here: &Steps,
    own: &Share,
    others: &[(Place, Share)],
    step: &mut dyn FnMut(),
) -> Result<Vec<(PathBuf, String)>, StepsError> {
    let mut left = Vec::new();
    for (Place { steps, .. }, share) in others {
        left.extend(whole(steps.workspace(), apply(steps, &share.intent, Some(&share.stamps), step)?));
    }
    left.extend(apply(here, &own.intent, Some(&own.stamps), step)?);
    Ok(left)
}

/// Removes the notes and the staged contents, the note that is in effect first.
fn forget(here: &Steps, own: &Share, others: &[(Place, Share)]) {
    here.store.remove(INTENT);
    unstage(here, &own.intent);
    for (Place { steps, .. }, share) in others {
        steps.store.remove(&note_of(&share.intent.stage));
        unstage(steps, &share.intent);
    }
}

/// Completes an interrupted undo in the other places; returns what it had to leave there.
pub fn finish_places(here: &Steps, intent: &Intent) -> Result<Vec<(PathBuf, String)>, StepsError> {
    let mut left = Vec::new();
    for root in &intent.places {
        // In a place that is gone there is nothing to complete.
        let Ok(other) = here.beside(root) else { continue };
        let _held: store::Held = other.store.lock(root)?;
        let note = note_of(&intent.stage);
        let Some(theirs) = other.store.text(&note).as_deref().and_then(Intent::of) else { continue };
        left.extend(whole(root, apply(&other, &theirs, None, &mut || ())?));
        mark_steps(&other, &theirs)?;
        other.store.remove(&note);
        unstage(&other, &theirs);
    }
    Ok(left)
}

/// Acquires the lock, and first completes an interrupted undo.
pub fn enter(here: &mut Steps) -> Result<store::Held, StepsError> {
    let held = here.store.lock(here.root.path())?;
    finish_undo(here)?;
    remove_left_stages(here);
    Ok(held)
}

/// The lock, while no command of a model runs.
pub fn enter_alone(here: &mut Steps) -> Result<store::Held, StepsError> {
    if !here.store.is_there() {
        return Err(StepsError::Nothing(
            "nothing to undo or redo: no command or edit of a model has changed anything here".into(),
        ));
    }
    let held = enter(here)?;
    match here.others().into_iter().find(|other| other.is_alive) {
        Some(other) => Err(StepsError::Running(other.text)),
        None => Ok(held),
    }
}

/// Completes an undo that was interrupted after it took effect; returns a line about it. The lock is held.
pub fn finish_undo(here: &mut Steps) -> Result<Option<String>, StepsError> {
    let Some(text) = here.store.text(INTENT) else { return Ok(None) };
    let Some(intent) = Intent::of(&text) else {
        here.store.remove(INTENT);
        return Ok(None);
    };
    let mut left = finish_places(here, &intent)?;
    let (elsewhere, own) = (left.len(), apply(here, &intent, None, &mut || ())?);
    left.extend(own);
    let left_here = || left[elsewhere..].iter();
    let is_made = |number| here.list().iter().any(|step| step.number == number);
    if intent.steps.is_empty() && !intent.becomes.is_some_and(is_made) {
        // Changes of a command's copy, or of one file: they are a step as if nothing had happened.
        let done = intent.changes.iter().filter(|it| !left_here().any(|(path, _)| *path == it.path));
        here.make(Kind::Command, CUT_OFF.to_owned(), Vec::new(), done.cloned().collect())?;
    }
    let files = counted(intent.changes.len() - left_here().len().min(intent.changes.len()), "path");
    close(here, &intent)?;
    let left: Vec<String> = left.iter().map(|(path, why)| format!("{} ({why})", path.display())).collect();
    let left = if left.is_empty() { String::new() } else { format!("; left as they are: {}", left.join(", ")) };
    Ok(Some(format!("changes in {} were cut off; they are finished now: {files}{left}", here.root.path().display())))
}

/// The places outside of these steps, each with its own steps in the same order.
fn others_of(here: &Steps, steps: &[Record]) -> Result<Vec<Place>, StepsError> {
    let mut others: Vec<Place> = Vec::new();
    for Elsewhere { root, number, .. } in steps.iter().flat_map(|step| &step.outside) {
        let at = match others.iter().position(|it| it.steps.workspace() == root) {
            Some(at) => at,
            None => {
                let mut steps = here.beside(root)?;
                let held = enter_alone(&mut steps)?;
                others.push(Place { steps, records: Vec::new(), _held: held });
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

/// The first `count`, if there are that many.
fn first(mut steps: Vec<Record>, count: usize, none: &str, what: &str) -> Result<Vec<Record>, StepsError> {
    if steps.is_empty() {
        return Err(StepsError::Nothing(none.to_owned()));
    }
    if count == 0 || count > steps.len() {
        let (are, there) = (if steps.len() == 1 { "is" } else { "are" }, counted(steps.len(), "step"));
        return Err(StepsError::Nothing(format!("{count} is no number of steps {what}: there {are} {there}")));
    }
    steps.truncate(count);
    Ok(steps)
}
