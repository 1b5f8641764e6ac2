//! Applies changes that were made elsewhere, on a copy of the workspace, as one change: with the same journal as an undo, each
//! path only if it still is what it was when the changes were collected. The resulting step can revert them.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::base::{StepReport, Steps, cut};
use super::intent::{Source, Sources, carry_out, close};
use super::outside;
use super::store::error::StepsError;
use super::store::name_of;
use super::store::packs::{Packer, Packs};
use super::store::state::{Kind, State, Why};
use super::store::table::Change;
use super::together::enter;
use crate::files::{PathError, Stamp, is_plain, read_whole};

/// Number of contents from which they go into a pack; fewer get a file each.
const PACKED_MIN: usize = 64;
/// Maximum number of reading threads.
const THREADS_MAX: usize = 8;
/// Changes that a thread reads before it takes further ones.
const TAKEN_AT_ONCE: usize = 64;

/// The new content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewContent {
    /// A file whose content is in a file of the same user, which may be moved from there.
    File {
        /// Permission bits.
        mode: u32,
        /// Place where the content lies.
        source: PathBuf,
    },
    /// A file with this content; its permission bits stay, those of a new one are these.
    Bytes {
        /// Permission bits.
        mode: u32,
        /// The content.
        bytes: Vec<u8>,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        target: PathBuf,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// Nothing.
    Nothing,
}

/// One change to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// The state when the change was collected.
    pub expected: Option<Stamp>,
    /// The new content.
    pub content: NewContent,
}

/// The result of adopting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The step.
    pub report: StepReport,
    /// Paths that were left as they are, and why.
    pub left: Vec<(PathBuf, String)>,
}

/// Applies changes, and makes a step of them unless that isn't wanted.
pub fn adopt(here: &mut Steps, text: &str, incoming: Vec<Incoming>, is_recorded: bool) -> Result<Adopted, StepsError> {
    adopt_in_steps(here, text, incoming, is_recorded, &mut || ())
}

/// Calls `step` wherever a crash would leave another state.
pub fn adopt_in_steps(
    here: &mut Steps,
    text: &str,
    incoming: Vec<Incoming>,
    is_recorded: bool,
    step: &mut dyn FnMut(),
) -> Result<Adopted, StepsError> {
    let _held = enter(here)?;
    // The disk works on the new contents while they are read here; without this it would begin only when all wait.
    if incoming.len() >= PACKED_MIN {
        here.root.begin_sync();
    }
    let Part { ready, mut left, written } = read(here, incoming)?;
    here.written += written;
    let (mut changes, mut sources, mut stamps) = (Vec::new(), Sources::new(), Vec::new());
    let mut restored = HashMap::new();
    for Ready { change, stamp, source, as_new, .. } in ready {
        if change.before == change.after {
            continue;
        }
        restored.extend(as_new.map(|state| (change.path.clone(), state)));
        sources.push(source);
        changes.push(change);
        stamps.push(stamp);
    }
    if changes.is_empty() {
        return Ok(Adopted { report: StepReport::default(), left });
    }
    let planned = changes.clone();
    changes.iter_mut().for_each(|change| note_as_kept(change, &mut restored));
    // The trees of the step are written while the files are renamed; if a path then stays as it is, these trees are useless.
    let is_ahead = is_recorded && changes.len() >= PACKED_MIN;
    let (carried, ahead) = std::thread::scope(|scope| {
        let (here, changes) = (&*here, &changes);
        let ahead = is_ahead.then(|| scope.spawn(|| here.prepared(changes.clone())));
        let carried = carry_out(here, planned, &sources, Some(stamps), step);
        (carried, ahead.and_then(|it| it.join().ok()?.ok()))
    });
    let (stayed, intent) = carried?;
    let ahead = ahead.filter(|_| stayed.is_empty());
    left.extend(stayed);
    let stays: BTreeSet<&Path> = left.iter().map(|(path, _)| path.as_path()).collect();
    changes.retain(|change| !stays.contains(change.path.as_path()));
    if !is_recorded {
        close(here, &intent)?;
        // Contents that aren't to be recorded were needed only as long as the change could fail.
        if here.list().is_empty() {
            here.store.forget_contents();
        }
        return Ok(Adopted { report: StepReport::default(), left });
    }
    let joined = outside::joined(here);
    let (number, notes, outside) = joined.map_or_else(Default::default, |it| (it.number, it.notes, it.outside));
    let counted: usize = outside.iter().map(|it| it.files).sum();
    let made = match ahead {
        Some(prepared) => here.make_prepared(Kind::Command, cut(text), notes, prepared, outside),
        None => here.make_with(Kind::Command, cut(text), notes, changes, outside),
    };
    step();
    close(here, &intent)?;
    step();
    let made = made?;
    // What it did outside is part of the new step from here on.
    here.store.remove_step(number);
    Ok(Adopted { report: StepReport { pruned: here.make_room()?, files: made.files - counted, ..made }, left })
}

/// Sets the states of a change to those that the step records.
fn note_as_kept(change: &mut Change, as_new: &mut HashMap<PathBuf, State>) {
    change.before = as_new.remove(&change.path).unwrap_or(change.before);
    if change.after.id().is_some_and(|id| id.is_null()) {
        change.after = State::Unknown(Why::Large);
    }
}

/// Reads the present and the new contents, and stores both; many changes are read by several threads. Also returns the paths that
/// have changed meanwhile.
fn read(here: &Steps, incoming: Vec<Incoming>) -> Result<Part, StepsError> {
    let is_many = incoming.len() >= PACKED_MIN;
    let threads = if is_many { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let (seen, packs) = (Mutex::default(), here.store.packs());
    let waiting = Mutex::new(incoming.into_iter().enumerate());
    // None has to wait long for the others: one may work beside the disk.
    let next = || waiting.lock().by_ref().take(TAKEN_AT_ONCE).collect::<Vec<_>>();
    let work = || -> Result<Part, StepsError> {
        let packer = is_many.then(|| here.store.packer());
        let mut keeping = Keeping { steps: here, packer, packs: &packs, seen: &seen, written: 0 };
        let mut done = Part::default();
        let shares = std::iter::repeat_with(next).take_while(|share| !share.is_empty());
        for (number, Incoming { path, expected, content }) in shares.flatten() {
            let Some((before, stamp, owner)) = keeping.before(&path, expected)? else {
                done.left.push((path, "someone else has changed it meanwhile".to_owned()));
                continue;
            };
            let (after, source) = keeping.after(content, before == State::Nothing, owner)?;
            let as_new = match (before, after) {
                (State::File { mode, id }, State::Nothing) => {
                    Some(State::File { mode: here.root.mode_without_acl(&path, mode), id })
                }
                _ => None,
            };
            done.ready.push(Ready { number, change: Change { path, before, after }, stamp, source, as_new });
        }
        done.written = keeping.finish()?;
        Ok(done)
    };
    let gone = || Err(StepsError::Io { what: "the store of steps", why: "a thread ended".to_owned() });
    let parts: Vec<Result<Part, StepsError>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(THREADS_MAX)).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().map(|it| it.join().unwrap_or_else(|_| gone())).chain([own]).collect()
    });
    let mut all = Part::default();
    for part in parts {
        let part = part?;
        all.ready.extend(part.ready);
        all.left.extend(part.left);
        all.written += part.written;
    }
    all.ready.sort_unstable_by_key(|it| it.number);
    if is_many {
        here.store.packed();
    }
    Ok(all)
}

/// One change whose contents were read.
struct Ready {
    /// Its position in the list of incoming changes.
    number: usize,
    change: Change,
    /// The state before, unless it is a directory, whose times change with its entries.
    stamp: Option<Stamp>,
    source: Option<Source>,
    /// The state of a file that will be removed, in the form in which it can be made again: without its access list.
    as_new: Option<State>,
}

/// The files that one thread or all threads have read.
#[derive(Default)]
struct Part {
    ready: Vec<Ready>,
    left: Vec<(PathBuf, String)>,
    written: u64,
}

/// The state of a path, its stamp, and the owner of a file.
type Found = (State, Option<Stamp>, Option<(u32, u32)>);

/// Keeps contents: many of them in packs.
struct Keeping<'a> {
    steps: &'a Steps,
    packer: Option<Packer<'a>>,
    packs: &'a Packs,
    /// The objects packed just now.
    seen: &'a Mutex<HashSet<ObjectId>>,
    written: u64,
}

impl Keeping<'_> {
    fn keep(&mut self, bytes: &[u8]) -> Result<ObjectId, StepsError> {
        let Some(packer) = &mut self.packer else {
            let (id, written) = self.steps.store.keep(bytes)?;
            self.written += written;
            return Ok(id);
        };
        let id = name_of(bytes).ok_or(StepsError::Collision)?;
        let is_new = || self.seen.lock().insert(id);
        if !self.packs.hold(&id) && is_new() {
            packer.add(id, bytes).map_err(|error| StepsError::io("the store of steps", &error))?;
        }
        Ok(id)
    }

    /// Stores the present content of a path, if it is what was expected; also returns the owner of a file.
    fn before(&mut self, path: &Path, expected: Option<Stamp>) -> Result<Option<Found>, StepsError> {
        let failed = |error| StepsError::Path { path: path.to_owned(), error };
        let root = &self.steps.root;
        let most = self.steps.limits.file_bytes_max;
        let held = match expected {
            Some(stamp) if stamp.is_file() => root.held_file(path, most).map(|it| (it.stamp, Some(it.owner), it.bytes)),
            Some(stamp) if stamp.is_link() => root.held(path, most).map(|(stamp, bytes)| (stamp, None, bytes)),
            _ => Err(PathError::NotRegular),
        };
        if let Ok((stamp, owner, bytes)) = held {
            if Some(stamp) != expected {
                return Ok(None);
            }
            let (id, mode) = (self.keep(&bytes)?, stamp.permissions());
            let state = if stamp.is_link() { State::Link { id } } else { State::File { mode, id } };
            return Ok(Some((state, Some(stamp), owner)));
        }
        let now = root.stamp(path).map_err(failed)?;
        if !is_as_expected(now, expected) {
            return Ok(None);
        }
        if now.is_none() {
            return Ok(Some((State::Nothing, None, None)));
        }
        Ok(Some((self.steps.keep_state(path)?, now.filter(|stamp| !stamp.is_directory()), None)))
    }

    /// Returns the new state of a path, and the place of its content. `owner` is that of the file that is there.
    fn after(
        &mut self,
        content: NewContent,
        is_new: bool,
        owner: Option<(u32, u32)>,
    ) -> Result<(State, Option<Source>), StepsError> {
        Ok(match content {
            NewContent::Nothing => (State::Nothing, None),
            NewContent::Directory { mode } => (State::Directory { mode }, None),
            NewContent::Link { target } => {
                let target = target.into_os_string().into_encoded_bytes();
                (State::Link { id: self.keep(&target)? }, Some(Source::Bytes(target)))
            }
            NewContent::Bytes { mode, bytes } => {
                (State::File { mode, id: self.keep(&bytes)? }, Some(Source::Bytes(bytes)))
            }
            NewContent::File { mode, source: path } => {
                let failed = |error| StepsError::io("a change on the copy", &error);
                let file = open_source(&path).map_err(failed)?;
                let data = file.metadata().map_err(failed)?;
                let most = self.steps.limits.file_bytes_max;
                // Its name is only needed to compare it later, which isn't done with so large a file.
                let id = match read_whole(&file, data.len(), most).map_err(failed)? {
                    Some(bytes) => self.keep(&bytes)?,
                    None => ObjectId::null(gix::hash::Kind::Sha1),
                };
                let has_owner = is_new || owner == Some((data.uid(), data.gid()));
                let has_mode = data.is_file() && data.mode() & 0o7777 == mode & 0o7777;
                let is_ready = has_owner && has_mode && is_plain(&file);
                (State::File { mode, id }, Some(Source::File { path, is_ready }))
            }
        })
    }

    fn finish(self) -> Result<u64, StepsError> {
        let Some(mut packer) = self.packer else { return Ok(self.written) };
        packer.finish().map_err(|error| StepsError::io("the store of steps", &error))?;
        Ok(packer.written())
    }
}

/// Opens a file of a copy, even if its mode doesn't allow reading.
fn open_source(path: &Path) -> std::io::Result<File> {
    let open = || File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path);
    match open() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            open()
        }
        opened => opened,
    }
}

/// Returns whether a path is unchanged. The time of a directory changes with each name in it.
fn is_as_expected(now: Option<Stamp>, expected: Option<Stamp>) -> bool {
    match (now, expected) {
        (Some(now), Some(expected)) if now.is_directory() => expected.is_directory(),
        (now, expected) => now == expected,
    }
}
