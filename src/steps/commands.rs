//! Commands of a model: a snapshot of the workspace before and after each. It also finishes the work of a session that was
//! interrupted.

use std::fs::File;

use super::base::{Other, StepReport, Steps, cut};
use super::intent::{INTENT, remove_left_stages};
use super::look::git::{Standing, Theirs};
use super::store::PROBE_TIME;
use super::store::error::StepsError;
use super::store::state::Kind;
use super::together::{enter, finish_undo};
use super::{edits, jobs};
use crate::base::hex;
use crate::base::text::counted;
use crate::files::Locked;

/// A running command, with the state before it.
#[must_use]
pub struct Open {
    text: String,
    /// The position of the repository.
    git: Option<Standing>,
    /// The file that records it; locked as long as it runs.
    name: String,
    _running: Locked<File>,
}

impl Open {
    /// The command line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Makes a snapshot of the workspace in the background, so that the first command needn't wait: only in a repository, since there
/// nearly all contents are already stored.
pub fn ahead(here: &mut Steps) -> Result<(), StepsError> {
    if Theirs::of(here.root.path(), 0).is_none() {
        return Ok(());
    }
    let _held = enter(here)?;
    let others = here.others();
    let change = here.look(true)?;
    here.attribute(&others, change)?;
    here.held.clear();
    Ok(())
}

/// Makes a snapshot of the workspace before a command.
pub fn before(here: &mut Steps, text: &str) -> Result<Open, StepsError> {
    let _held = enter(here)?;
    let others = here.others();
    let change = here.look(false)?;
    here.attribute(&others, change)?;
    // The packs that this snapshot relies on are held open until the command is over.
    here.held = std::mem::take(&mut here.held).pop().map(Theirs::closed).into_iter().collect();
    here.opened += 1;
    let name = format!("open/{}-{}", here.session, here.opened);
    let failed = |error: std::io::Error| StepsError::io("the note of a running command", &error);
    let text = cut(text);
    here.store.put(&name, hex::encode(text.as_bytes()).as_bytes()).map_err(failed)?;
    let file = File::open(here.store.folder.join(&name)).map_err(failed)?;
    let running = Locked::take(file, false, PROBE_TIME).map_err(|error| failed(error.into()))?;
    let git = here.held.last().map(|theirs| theirs.standing.clone());
    Ok(Open { text, git, name, _running: running })
}

/// Makes a snapshot after the command, and a step of the differences.
pub fn after(here: &mut Steps, open: Open) -> Result<StepReport, StepsError> {
    let made = enter(here).and_then(|_held| {
        let changes = here.look(false)?;
        // The snapshot before is included, so there may be a repository in the list though there is none now.
        let git = here.held.get(usize::from(open.git.is_some())).map(|theirs| &theirs.standing);
        let notes = Standing::moved(open.git.as_ref(), git);
        let made = here.make(Kind::Command, open.text.clone(), notes, changes)?;
        Ok(StepReport { pruned: here.make_room()?, ..made })
    });
    here.held.clear();
    here.store.remove(&open.name);
    made
}

/// Finishes the work of a session that was interrupted: its command, edit or job becomes a step, and an undo already in effect is
/// completed. Returns a line for each.
pub fn recover(here: &mut Steps) -> Result<Vec<String>, StepsError> {
    if !here.store.is_there() {
        return Ok(Vec::new());
    }
    here.store.empty_trash();
    let has_undo = here.store.text(INTENT).is_some();
    let is_needed = has_undo
        || here.others().iter().any(|other| !other.is_alive)
        || !here.store.stages().is_empty()
        || edits::has_cut_off(here)
        || jobs::has_cut_off(here);
    if !is_needed {
        return Ok(Vec::new());
    }
    let _lock = here.store.lock(here.root.path())?;
    let mut notices: Vec<String> = finish_undo(here)?.into_iter().collect();
    remove_left_stages(here);
    notices.append(&mut edits::recover(here)?);
    notices.append(&mut jobs::recover(here)?);
    let others = here.others();
    let dead: Vec<&Other> = others.iter().filter(|other| !other.is_alive).collect();
    if let [first, ..] = dead[..] {
        let change = here.look(false)?;
        let made = here.attribute(&others, change)?;
        here.held.clear();
        if let Some(StepReport { step: Some(step), files, .. }) = made {
            let files = counted(files, "file");
            notices.push(format!("`{}` was cut off; it changed {files}, which is step {step} (:undo)", first.text));
        }
    }
    Ok(notices)
}
