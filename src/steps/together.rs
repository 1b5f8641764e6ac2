//! Steps taken back, or made again, in several places at once: in the workspace, and outside it where a command had a grant.
//! Everything is checked first; then all new contents lie ready; then the note of the workspace makes all of it count. A
//! crash before that note leaves all as it was, one after it is carried on, and a failure puts everything back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::outside::Other;
use super::store::error::Conflict;
use super::store::state::{Kind, Record, State, is_of_directories};
use super::undo::{INTENT, Intent, Plan, Sources, TakenBack};
use super::{Change, Steps, StepsError, store};
use crate::files::Stamp;

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

/// The name of the note in another place: it counts once the workspace's note names that place.
fn note_of(intent: &Intent) -> String {
    format!("{INTENT}-with{}", intent.stage)
}

/// With whole paths.
fn whole(root: &Path, left: Vec<(PathBuf, String)>) -> impl Iterator<Item = (PathBuf, String)> + '_ {
    left.into_iter().map(|(path, why)| (root.join(path), why))
}

impl Steps {
    /// Takes steps back, the newest first, or makes them again, the oldest first.
    pub(super) fn turn(
        &mut self,
        steps: Vec<Record>,
        is_undone: bool,
        by_force: bool,
        step: &mut dyn FnMut(),
    ) -> Result<TakenBack, StepsError> {
        let stage = self.stage_name();
        let mut own = self.share(&steps, is_undone, &stage)?;
        let mut others: Vec<(Other, Share)> = Vec::new();
        for other in self.others_of(&steps)? {
            let share = other.steps.share(&other.records, is_undone, &stage)?;
            others.push((other, share));
        }
        own.intent.places = others.iter().map(|(other, _)| other.steps.workspace().to_owned()).collect();
        let mut conflicts = own.conflicts.clone();
        for (other, share) in &others {
            let root = other.steps.workspace();
            conflicts.extend(share.conflicts.iter().map(|it| Conflict { path: root.join(&it.path), ..it.clone() }));
        }
        if !conflicts.is_empty() && !by_force {
            return Err(StepsError::Conflicts(conflicts));
        }
        if let Some(lost) = conflicts.iter().find(|it| matches!(it.now, State::Unknown(_))) {
            let error = format!("{} {}, and it can't be kept: put it away first", lost.path.display(), lost.why);
            return Err(StepsError::Nothing(error));
        }
        let files = own.files() + others.iter().map(|(_, share)| share.files()).sum::<usize>();
        let done = self.carry_out_together(&mut own, &mut others, step)?;
        let mut kept_in = None;
        let shares = others.iter_mut().map(|(other, share)| (&mut other.steps, &*share));
        let word = if is_undone { "undo" } else { "redo" };
        for (place, share) in shares.collect::<Vec<_>>().into_iter().chain([(&mut *self, &own)]) {
            let forced = share.forced();
            if !forced.is_empty() {
                let note = "what you had changed is kept in it".to_owned();
                kept_in = place.make(Kind::Undo, format!(":{word} --force"), vec![note], forced)?.step;
            }
        }
        let planned = others.iter().flat_map(|(other, share)| whole(other.steps.workspace(), share.left.clone()));
        let left = planned.chain(own.left).chain(done).collect();
        let unseen = if steps.iter().any(|it| it.kind == Kind::Command) { self.unseen() } else { Vec::new() };
        Ok(TakenBack { steps, files, left, kept_in, unseen })
    }

    /// Returns the work in this place.
    fn share(&self, steps: &[Record], is_undone: bool, stage: &str) -> Result<Share, StepsError> {
        let Plan { mut changes, left, conflicts } = self.plan(steps, is_undone)?;
        // A change of what isn't there any more needs its directories.
        let needed: BTreeSet<PathBuf> = changes
            .iter()
            .filter(|it| it.after != State::Nothing)
            .flat_map(|it| it.path.ancestors().skip(1).map(Path::to_owned))
            .filter(|path| !path.as_os_str().is_empty() && matches!(self.root.stamp(path), Ok(None)))
            .collect();
        for path in needed {
            if !changes.iter().any(|it| it.path == path) {
                changes.push(Change { path, before: State::Nothing, after: State::Directory { mode: 0o755 } });
            }
        }
        let steps = steps.iter().map(|it| (it.number, is_undone)).collect();
        let intent = Intent { stage: stage.to_owned(), steps, changes, places: Vec::new() };
        Ok(Share { intent, left, conflicts, stamps: Vec::new() })
    }

    /// Does all of it, or nothing; gives what it had to leave.
    fn carry_out_together(
        &mut self,
        own: &mut Share,
        others: &mut [(Other, Share)],
        step: &mut dyn FnMut(),
    ) -> Result<Vec<(PathBuf, String)>, StepsError> {
        if let Err(error) = self.lay_places_ready(own, others, step) {
            self.forget(own, others);
            return Err(error);
        }
        step();
        let left = match self.apply_places(own, others, step) {
            Ok(left) => left,
            Err(error) => {
                let mut is_as_before = self.is_reversed(&own.intent);
                for (other, share) in &*others {
                    is_as_before &= other.steps.is_reversed(&share.intent);
                }
                // Otherwise the notes stay, and whoever comes next goes on.
                if is_as_before {
                    self.forget(own, others);
                }
                return Err(error);
            }
        };
        for (other, share) in &*others {
            other.steps.mark_steps(&share.intent)?;
        }
        self.mark_steps(&own.intent)?;
        step();
        self.forget(own, others);
        Ok(left)
    }

    fn lay_places_ready(
        &self,
        own: &mut Share,
        others: &mut [(Other, Share)],
        step: &mut dyn FnMut(),
    ) -> Result<(), StepsError> {
        let failed = |error: std::io::Error| StepsError::io("the note of what is to be done", &error);
        for (Other { steps, .. }, share) in others {
            share.stamps = steps.lay_all_ready(&share.intent, &Sources::new(), None, step)?;
            steps.store.put_for_good(&note_of(&share.intent), share.intent.text().as_bytes()).map_err(failed)?;
            step();
        }
        own.stamps = self.lay_all_ready(&own.intent, &Sources::new(), None, step)?;
        self.store.put_for_good(INTENT, own.intent.text().as_bytes()).map_err(failed)
    }

    fn apply_places(
        &self,
        own: &Share,
        others: &[(Other, Share)],
        step: &mut dyn FnMut(),
    ) -> Result<Vec<(PathBuf, String)>, StepsError> {
        let mut left = Vec::new();
        for (Other { steps, .. }, share) in others {
            left.extend(whole(steps.workspace(), steps.apply(&share.intent, Some(&share.stamps), step)?));
        }
        left.extend(self.apply(&own.intent, Some(&own.stamps), step)?);
        Ok(left)
    }

    /// Puts the notes and what waits away, the note that counts first.
    fn forget(&self, own: &Share, others: &[(Other, Share)]) {
        self.store.remove(INTENT);
        self.unstage(&own.intent);
        for (Other { steps, .. }, share) in others {
            steps.store.remove(&note_of(&share.intent));
            steps.unstage(&share.intent);
        }
    }

    /// Finishes, in the other places, an undo that counted and was cut off; gives what it had to leave there.
    pub(super) fn finish_places(&self, intent: &Intent) -> Result<Vec<(PathBuf, String)>, StepsError> {
        let mut left = Vec::new();
        for root in &intent.places {
            // A place that is gone has nothing to be finished.
            let Ok(other) = self.beside(root) else { continue };
            let _held: store::Held = other.store.lock(root)?;
            let note = note_of(intent);
            let Some(theirs) = other.store.text(&note).as_deref().and_then(Intent::of) else { continue };
            left.extend(whole(root, other.apply(&theirs, None, &mut || ())?));
            other.mark_steps(&theirs)?;
            other.store.remove(&note);
            other.unstage(&theirs);
        }
        Ok(left)
    }
}
