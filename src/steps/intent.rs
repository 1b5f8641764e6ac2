//! Reverts steps and makes them again: each path must be what the step left there, or nothing is changed. All new contents are on
//! the disk before a note of the intended changes takes effect; from then on an interrupted undo is completed, not reverted.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::base::Steps;
use super::closed::Opened;
use super::look;
use super::store::error::{Conflict, StepsError};
use super::store::name_of;
use super::store::state::{Record, State, Why, change_lines, change_of};
use super::store::table::Change;
use super::whole;
use crate::base::hex;
use crate::files::{PathError, Places, Stage, Stamp};

/// The note of an undo that counts.
pub(super) const INTENT: &str = "undoing";
/// First line of it: what it is, and its version.
const HEAD: &str = "reedclaw-undo 1";
/// Last line of a complete one.
const END: &str = "end";
/// Threads that wait for the disk at once.
const SYNCING_THREADS: usize = 8;
/// Of more files than this the whole file system is synced at once.
const SYNCED_ALONE_MAX: usize = 64;
/// Permissions of a directory's owner.
const OWNERS: u32 = 0o700;
/// Longest file that is compared with the result of a step.
const COMPARED_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The work at a path: from `before` to `after`.
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    pub(super) left: Vec<(PathBuf, String)>,
    pub(super) conflicts: Vec<Conflict>,
}

/// Source of the new content of a path, if it isn't in the store.
pub(super) enum Source {
    /// In a file, which is moved from there if it can be.
    File {
        /// Place where it lies.
        path: PathBuf,
        /// `true` if it has the mode and the owner already that it is to have, and no attributes.
        is_ready: bool,
    },
    /// In memory; for a link, its target.
    Bytes(Vec<u8>),
}

/// New contents, in the order of the changes; none at all if the store has every one.
pub(super) type Sources = Vec<Option<Source>>;

/// The intended changes, in the form in which they are noted beforehand.
pub(super) struct Intent {
    pub(super) stage: String,
    /// Steps, and whether they are reverted afterwards.
    pub(super) steps: Vec<(u64, bool)>,
    pub(super) changes: Vec<Change>,
    /// Other places that are turned together with this one; their notes have the name of the stage.
    pub(super) places: Vec<PathBuf>,
    /// The number of the step that the changes become, so that a crash between that step and the end makes no second one.
    pub(super) becomes: Option<u64>,
}

/// Caches, other file systems and directories that can't be read. `docs/undo.md` names git's own files and credentials.
pub fn unseen(here: &Steps) -> Vec<(PathBuf, Why)> {
    let skipped = here.store.table().map(|(table, _)| table.skipped).unwrap_or_default();
    let is_one = |why: Why| matches!(why, Why::Cache | Why::Mount | Why::Closed);
    skipped.into_iter().filter(|(_, why)| is_one(*why)).collect()
}

/// Returns the combined effect of steps, and the conflicts.
pub fn plan(here: &Steps, steps: &[Record], is_undone: bool, opened: &Opened) -> Result<Plan, StepsError> {
    let mut together: BTreeMap<&Path, (State, State, bool)> = BTreeMap::new();
    for change in steps.iter().flat_map(|step| &step.changes) {
        let (from, to) = if is_undone { (change.after, change.before) } else { (change.before, change.after) };
        let entry = together.entry(&change.path).or_insert((from, to, true));
        // Another program may have changed it between two steps.
        entry.2 &= (entry.0, entry.1) == (from, to) || entry.1 == from;
        entry.1 = to;
    }
    let mut plan = Plan { changes: Vec::new(), left: Vec::new(), conflicts: Vec::new() };
    for (path, (from, to, is_chain)) in together {
        let now = opened.as_before(path, now(here, path, from)?);
        if let State::Unknown(why) = to {
            plan.left.push((path.to_owned(), why.to_string()));
            continue;
        }
        if now == to {
            continue;
        }
        // It can't be known whether the path still is what the step left, so it stays, and the rest of the step is done without
        // it.
        if let (State::Unknown(_), State::Unknown(why)) = (now, from) {
            plan.left.push((path.to_owned(), format!("the step didn't keep what it left there: {why}")));
            continue;
        }
        // A directory that should be removed is removed if it is empty; one that should be made exists already.
        let is_free = now.is_directory()
            && (from.is_directory() && to == State::Nothing || to.is_directory() && !from.is_directory());
        let why = match (now, from) {
            _ if is_free => None,
            (_, State::Unknown(why)) => Some(format!("may have changed since: the step didn't keep it ({why})")),
            _ if now != from && !is_refreshed_index(here, path, from, now) => Some("has changed since".to_owned()),
            _ if !is_chain => Some("was changed between these steps".to_owned()),
            _ => None,
        };
        if let Some(why) = why {
            plan.conflicts.push(Conflict { path: path.to_owned(), why, left: from, now });
        }
        plan.changes.push(Change { path: path.to_owned(), before: now, after: to });
    }
    Ok(plan)
}

/// Returns whether git has only refreshed its index, as a mere `git status` does: then nothing is lost.
fn is_refreshed_index(here: &Steps, path: &Path, from: State, now: State) -> bool {
    let (State::File { mode: old, id: from }, State::File { mode, id: now }) = (from, now) else { return false };
    let contents = || here.store.content(&from).ok().zip(here.store.content(&now).ok());
    path.ends_with(".git/index")
        && old == mode
        && contents().is_some_and(|(from, now)| look::git::are_alike_contents(&from, &now))
}

/// Returns the present state of a path, and stores its content if it isn't the expected one.
fn now(here: &Steps, path: &Path, expected: State) -> Result<State, StepsError> {
    let found = compared(here, path)?;
    if found == expected && found.id().is_none_or(|id| here.store.holds(&id)) {
        Ok(found)
    } else {
        here.keep_state(path)
    }
}

/// Returns the present state of a path without storing it.
fn compared(here: &Steps, path: &Path) -> Result<State, StepsError> {
    let failed = |error| StepsError::Path { path: path.to_owned(), error };
    let Some(stamp) = here.root.stamp(path).map_err(failed)? else { return Ok(State::Nothing) };
    if stamp.is_directory() {
        return Ok(State::Directory { mode: stamp.permissions() });
    }
    Ok(match here.root.held(path, COMPARED_BYTES_MAX) {
        Ok((stamp, bytes)) => match name_of(&bytes) {
            Some(id) if stamp.is_link() => State::Link { id },
            Some(id) => State::File { mode: stamp.permissions(), id },
            None => State::Unknown(Why::Special),
        },
        Err(PathError::Missing) => State::Nothing,
        Err(PathError::Long(_)) => State::Unknown(Why::Large),
        Err(PathError::NotRegular) => State::Unknown(Why::Special),
        Err(_) => State::Unknown(Why::Closed),
    })
}

/// Carries out a plan as one change; contents that aren't in the store are at their sources. Returns what it had to leave, and
/// the intent, which must be closed once the changes are a step: until then a crash makes a step of them. `known` are the stamps
/// with which the earlier contents were read: a path whose stamp differs now is left. Without them nothing is done if any path
/// has changed.
pub fn carry_out(
    here: &Steps,
    changes: Vec<Change>,
    sources: &Sources,
    known: Option<Vec<Option<Stamp>>>,
    step: &mut dyn FnMut(),
) -> Result<(Vec<(PathBuf, String)>, Intent), StepsError> {
    let (stage, becomes) = (stage_name(here), Some(here.store.next_number()));
    let intent = Intent { stage, steps: Vec::new(), changes, places: Vec::new(), becomes };
    let stamps = lay_all_ready(here, &intent, sources, known, step)?;
    if let Err(error) = here.store.put_for_good(INTENT, intent.text().as_bytes()) {
        unstage(here, &intent);
        here.store.remove(INTENT);
        return Err(StepsError::io("the note of what is to be done", &error));
    }
    step();
    let left = match apply(here, &intent, Some(&stamps), step) {
        Ok(left) => left,
        // If reverting fails, too, the note stays, and the next session completes the work.
        Err(error) => {
            if is_reversed(here, &intent) {
                here.store.remove(INTENT);
                unstage(here, &intent);
            }
            return Err(error);
        }
    };
    step();
    Ok((left, intent))
}

/// Returns the name of the directory for waiting contents.
pub fn stage_name(here: &Steps) -> String {
    format!("{}{}", look::STAGE_PREFIX, here.session)
}

/// Writes the new contents to the stage, on the disk; returns the stamps of the contents that they replace.
pub fn lay_all_ready(
    here: &Steps,
    intent: &Intent,
    sources: &Sources,
    known: Option<Vec<Option<Stamp>>>,
    step: &mut dyn FnMut(),
) -> Result<Vec<Option<Stamp>>, StepsError> {
    let is_known = known.is_some();
    let read = known.map_or_else(|| stamps(here, intent), Ok)?;
    step();
    if let Err(error) = prepare(here, intent, sources, step) {
        unstage(here, intent);
        return Err(error);
    }
    if !is_known && stamps(here, intent)? != read {
        unstage(here, intent);
        return Err(StepsError::Nothing("the files have changed just now; nothing was done, try again".into()));
    }
    Ok(read)
}

/// Reverts what was done before a failure; returns whether everything is as it was.
pub fn is_reversed(here: &Steps, intent: &Intent) -> bool {
    let back = intent.changes.iter().map(|it| Change { path: it.path.clone(), before: it.after, after: it.before });
    let (stage, places) = (intent.stage.clone(), Vec::new());
    let back = Intent { stage, steps: Vec::new(), changes: back.collect(), places, becomes: None };
    apply(here, &back, None, &mut || ()).is_ok()
}

fn stamps(here: &Steps, intent: &Intent) -> Result<Vec<Option<Stamp>>, StepsError> {
    let stamp = |it: &Change| {
        let found = here.root.stamp(&it.path);
        found.map_err(|error| StepsError::Path { path: it.path.clone(), error })
    };
    // A directory's times change with its entries.
    let stamp = |it: &Change| Ok(stamp(it)?.filter(|stamp| !stamp.is_directory()));
    intent.changes.iter().map(stamp).collect()
}

/// Writes all new contents to the stage and syncs them.
fn prepare(here: &Steps, intent: &Intent, sources: &Sources, step: &mut dyn FnMut()) -> Result<(), StepsError> {
    let stage = staging(here, intent)?;
    let (mut laid, mut places) = (Vec::new(), here.root.places());
    let whole = if intent.is_large() { whole::take(&here.root, &stage, intent, sources) } else { HashSet::new() };
    step();
    for number in (0..intent.changes.len()).filter(|number| !whole.contains(number)) {
        if lay_ready(here, &stage, intent, sources, number, &mut places)? {
            laid.push(number);
        }
        step();
    }
    let failed = |error| StepsError::Path { path: intent.stage.clone().into(), error };
    if intent.is_large() {
        return stage.sync_all().map_err(failed);
    }
    let share = laid.len().div_ceil(SYNCING_THREADS).max(1);
    std::thread::scope(|scope| {
        let sync = |numbers: &[usize]| numbers.iter().try_for_each(|number| stage.sync(*number));
        let threads: Vec<_> = laid.chunks(share).map(|numbers| scope.spawn(move || sync(numbers))).collect();
        threads.into_iter().try_for_each(|it| it.join().unwrap_or(Ok(())))
    })
    .map_err(failed)
}

/// Removes the remaining contents of the stage. Removing thousands of old files takes a while, so it is done in the background.
pub fn unstage(here: &Steps, intent: &Intent) {
    let trash = here.store.trash();
    if intent.is_large() && here.root.move_stage(&intent.stage, &trash) {
        std::thread::spawn(move || drop(std::fs::remove_dir_all(trash)));
        here.store.forget_stage(&intent.stage);
    } else {
        remove_stage(here, &intent.stage);
    }
}

fn remove_stage(here: &Steps, stage: &str) {
    here.root.unstage(stage);
    if matches!(here.root.stamp(Path::new(stage)), Ok(None)) {
        here.store.forget_stage(stage);
    }
}

/// Removes stages that killed sessions left, unless an undo in effect needs them. The lock is held, so none of them is in use.
pub fn remove_left_stages(here: &Steps) {
    let own = here.store.text(INTENT).as_deref().and_then(Intent::of).map(|intent| intent.stage);
    let is_needed = |stage: &String| Some(stage) == own.as_ref() || here.store.text(&note_of(stage)).is_some();
    for stage in here.store.stages().into_iter().filter(|stage| !is_needed(stage)) {
        remove_stage(here, &stage);
    }
}

/// The name of the note in another place: it counts once the workspace's note names that place.
pub fn note_of(stage: &str) -> String {
    format!("{INTENT}-with{stage}")
}

fn staging<'a>(here: &'a Steps, intent: &Intent) -> Result<Stage<'a>, StepsError> {
    let noted = here.store.note_stage(&intent.stage);
    noted.map_err(|error| StepsError::io("the note of what is to be done", &error))?;
    here.root.staging(&intent.stage).map_err(|error| StepsError::Path { path: intent.stage.clone().into(), error })
}

/// Lays the new content of a path ready; says whether there is a file to be brought onto the disk.
fn lay_ready(
    here: &Steps,
    stage: &Stage<'_>,
    intent: &Intent,
    sources: &Sources,
    number: usize,
    places: &mut Places<'_>,
) -> Result<bool, StepsError> {
    let Change { path, after, .. } = &intent.changes[number];
    let failed = |error| StepsError::Path { path: path.clone(), error };
    match (after, sources.get(number).and_then(Option::as_ref)) {
        (State::File { mode, .. }, Some(Source::File { path: source, is_ready })) => {
            stage.take(number, source, *mode, *is_ready, path, places).map_err(failed)?;
        }
        (State::File { mode, .. }, Some(Source::Bytes(bytes))) => {
            stage.file(number, bytes, *mode, path, places).map_err(failed)?;
        }
        (State::File { mode, id }, None) => {
            stage.file(number, &here.store.content(id)?, *mode, path, places).map_err(failed)?;
        }
        (State::Link { .. }, Some(Source::Bytes(target))) => stage.link(number, target).map_err(failed)?,
        (State::Link { id }, _) => stage.link(number, &here.store.content(id)?).map_err(failed)?,
        _ => {}
    }
    Ok(matches!(after, State::File { .. }))
}

/// Changes every path to its new state; a path that has neither its old nor its new state is left. It can be repeated.
pub fn apply(
    here: &Steps,
    intent: &Intent,
    stamps: Option<&[Option<Stamp>]>,
    step: &mut dyn FnMut(),
) -> Result<Vec<(PathBuf, String)>, StepsError> {
    let mut left = Vec::new();
    let mut order: Vec<usize> = (0..intent.changes.len()).collect();
    order.sort_by_cached_key(|at| intent.changes[*at].path.components().count());
    let stage = staging(here, intent)?;
    let stamp_of = |at: usize| stamps.and_then(|stamps| stamps[at]);
    // First the removals, from the deepest; then the additions, from the top.
    let goes = |at: &&usize| {
        let Change { before, after, .. } = &intent.changes[**at];
        *after == State::Nothing || before.is_directory() != after.is_directory() && *before != State::Nothing
    };
    let mut places = here.root.places();
    for at in order.iter().rev().filter(goes) {
        if let Some(why) = take_away(here, &stage, intent, *at, stamp_of(*at), &mut places)? {
            left.push((intent.changes[*at].path.clone(), why));
        }
        step();
    }
    let stays: BTreeSet<PathBuf> = left.iter().map(|(path, _)| path.clone()).collect();
    let (mut places, mut moved) = (here.root.places(), HashSet::new());
    for at in &order {
        let change = &intent.changes[*at];
        if change.path.ancestors().any(|above| moved.contains(above)) {
            continue;
        }
        // A directory that was staged as a whole is moved to a free place; otherwise its contents are added one by one.
        let is_new_directory = change.before == State::Nothing && change.after.is_directory();
        if is_new_directory && intent.is_large() && stage.place(*at, &change.path, true, &mut places).is_ok() {
            moved.insert(change.path.as_path());
            step();
            continue;
        }
        if change.after != State::Nothing && !stays.contains(&change.path) {
            if let Some(why) = bring(here, &stage, intent, *at, stamp_of(*at), &mut places)? {
                left.push((change.path.clone(), why));
            }
            step();
        }
    }
    // One that is closed to its owner could take nothing in.
    for change in order.iter().rev().map(|at| &intent.changes[*at]) {
        if let State::Directory { mode } = change.after
            && mode & OWNERS != OWNERS
            && !left.iter().any(|(path, _)| *path == change.path)
        {
            let failed = |error| StepsError::Path { path: change.path.clone(), error };
            here.root.set_mode(&change.path, mode).map_err(failed)?;
        }
    }
    // The note is removed after the renames. If its removal can't reach the disk before them, there is no need to wait: after a
    // power cut the note shows what is left to do.
    if intent.is_large() && (here.root.shares_journal(&here.store.folder) || stage.sync_all().is_ok()) {
        return Ok(left);
    }
    let directories: BTreeSet<&Path> = intent.changes.iter().filter_map(|it| it.path.parent()).collect();
    directories.into_iter().for_each(|path| here.root.sync_directory(path));
    Ok(left)
}

/// Returns the present state at the path of a change. An equal stamp counts as an equal content.
fn found(here: &Steps, change: &Change, stamp: Option<Stamp>, places: &mut Places<'_>) -> Result<State, StepsError> {
    match (stamp, places.stamp(&change.path)) {
        (Some(stamp), Ok(Some(now))) if now == stamp => Ok(change.before),
        (_, Ok(None)) => Ok(State::Nothing),
        _ => compared(here, &change.path),
    }
}

/// Removes the old content; returns the reason if it stays.
fn take_away(
    here: &Steps,
    stage: &Stage<'_>,
    intent: &Intent,
    at: usize,
    stamp: Option<Stamp>,
    places: &mut Places<'_>,
) -> Result<Option<String>, StepsError> {
    let change = &intent.changes[at];
    let failed = |error| StepsError::Path { path: change.path.clone(), error };
    let now = found(here, change, stamp, places)?;
    if now == State::Nothing || now == change.after {
        return Ok(None);
    }
    if now.is_directory() && change.before.is_directory() {
        let is_gone = here.root.remove_directory(&change.path).map_err(failed)?;
        return Ok((!is_gone).then(|| "it isn't empty: something else is in it".to_owned()));
    }
    if now != change.before {
        return Ok(Some("it has changed meanwhile".to_owned()));
    }
    if intent.is_large() && change.after == State::Nothing {
        stage.put_away(at, &change.path, places).map_err(failed)?;
    } else {
        places.remove(&change.path).map_err(failed)?;
    }
    Ok(None)
}

/// Adds the new content; returns the reason if that isn't done.
fn bring(
    here: &Steps,
    stage: &Stage<'_>,
    intent: &Intent,
    at: usize,
    stamp: Option<Stamp>,
    places: &mut Places<'_>,
) -> Result<Option<String>, StepsError> {
    let change = &intent.changes[at];
    let Change { path, before, after } = change;
    let failed = |error| StepsError::Path { path: path.clone(), error };
    let now = found(here, change, stamp, places)?;
    if now == *after {
        return Ok(None);
    }
    if let State::Directory { mode } = after {
        let done = match now {
            State::Nothing => here.root.make_directory(path, mode | OWNERS),
            State::Directory { .. } => here.root.set_mode(path, mode | OWNERS),
            _ => return Ok(Some("something else is there".to_owned())),
        };
        return done.map_err(failed).map(|()| None);
    }
    let is_gone = before.is_directory() && now == State::Nothing;
    if now != *before && !is_gone {
        return Ok(Some("it has changed meanwhile".to_owned()));
    }
    let is_new = now == State::Nothing;
    // After a crash, the staged content may be the old one.
    let is_ready = stamp.is_some() || is_new && stage.holds(at, path) || is_ready(stage, at, change);
    if is_ready && intent.is_large() && !is_new && stage.exchange(at, path, places).is_ok() {
        return Ok(None);
    }
    if is_ready && stage.place(at, path, is_new, places) == Ok(()) {
        return Ok(None);
    }
    if !(is_ready && stage.holds(at, path)) {
        stage.drop_unfit(path);
        if lay_ready(here, stage, intent, &Sources::new(), at, places)? {
            stage.sync(at).map_err(failed)?;
        }
    }
    stage.place(at, path, is_new, places).map_err(failed).map(|()| None)
}

/// Returns whether the staged content of a path is the new one.
fn is_ready(stage: &Stage<'_>, at: usize, Change { path, after, .. }: &Change) -> bool {
    let held = stage.held(at, path, COMPARED_BYTES_MAX);
    after.id().is_some_and(|id| id.is_null() || held.is_ok_and(|(_, bytes)| name_of(&bytes) == Some(id)))
}

/// Marks the steps, and puts the note away.
pub fn close(here: &mut Steps, intent: &Intent) -> Result<(), StepsError> {
    mark_steps(here, intent)?;
    here.store.remove(INTENT);
    unstage(here, intent);
    Ok(())
}

pub fn mark_steps(here: &Steps, intent: &Intent) -> Result<(), StepsError> {
    let steps = if intent.steps.is_empty() { Vec::new() } else { here.list() };
    for mut step in steps {
        if let Some((_, is_undone)) = intent.steps.iter().find(|(number, _)| *number == step.number) {
            step.is_undone = *is_undone;
            here.store.put_step(&step)?;
        }
    }
    Ok(())
}

impl Intent {
    /// Returns whether it is synced as a whole, and replaced files are removed afterwards.
    fn is_large(&self) -> bool {
        self.changes.len() > SYNCED_ALONE_MAX
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{HEAD}\nstage {}\n", hex::encode(self.stage.as_bytes()));
        for place in &self.places {
            text.push_str(&format!("place {}\n", hex::encode(place.as_os_str().as_bytes())));
        }
        for (number, is_undone) in &self.steps {
            text.push_str(&format!("step {number} {}\n", u8::from(*is_undone)));
        }
        text.extend(self.becomes.map(|number| format!("becomes {number}\n")));
        text + &change_lines(&self.changes) + END + "\n"
    }

    pub(super) fn of(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?.strip_suffix(&format!("{END}\n"))?.lines();
        let stage = String::from_utf8(super::store::state::bytes_of(lines.next()?.strip_prefix("stage ")?)?).ok()?;
        let mut intent = Self { stage, steps: Vec::new(), changes: Vec::new(), places: Vec::new(), becomes: None };
        for line in lines {
            match line.split_once(' ')? {
                ("step", step) => {
                    let (number, is_undone) = step.split_once(' ')?;
                    intent.steps.push((number.parse().ok()?, is_undone == "1"));
                }
                ("becomes", number) => intent.becomes = Some(number.parse().ok()?),
                ("place", place) => {
                    intent.places.push(OsString::from_vec(super::store::state::bytes_of(place)?).into())
                }
                _ => intent.changes.push(change_of(line)?),
            }
        }
        Some(intent)
    }
}
