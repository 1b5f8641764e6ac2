//! The store of steps: below the state directory, a folder for each workspace with a bare git object database, the records of
//! steps, the table of entries at the last snapshot, and a lock. Nothing of it is in the workspace.

pub(super) mod error;
pub(super) mod packs;
pub(super) mod state;
pub(super) mod table;

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gix::ObjectId;
use gix::objs::tree::{Entry as TreeEntry, EntryKind};
use gix::objs::{Kind as ObjectKind, Tree, Write as _, WriteTo as _};
use gix::odb::loose::Store as Loose;

use crate::base::hash;
use crate::files::{Locked, lock_file, private_file};
use error::StepsError;
use packs::{Packer, Packs};
use state::{Record, State};
use table::{Change, Table};

/// Longest wait for another session that checks whether a note is locked, which takes a moment.
pub(super) const PROBE_TIME: Duration = Duration::from_secs(1);
/// Longest wait for another session's lock, which it holds during a snapshot or an undo.
const WAIT: Duration = Duration::from_secs(5);
/// The file with the number of stored bytes.
const COUNT: &str = "bytes";
/// The file that names the workspace; it is the last that is written when a folder is made.
const WORKSPACE: &str = "workspace";
/// The folder of the names of directories for waiting contents in the workspace.
const STAGES: &str = "stages";
/// Number of changes from which their trees go into a pack; those of fewer get a file each.
const PACKED_MIN: usize = 64;
/// Limit on packs below the full size; more are merged.
const SMALL_PACKS_MAX: usize = 16;
/// Longest record that is read.
const RECORD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The folder of a workspace.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) folder: PathBuf,
    objects: Loose,
    /// Its packs, and the state of their directory when they were opened.
    packs: Arc<Mutex<KnownPacks>>,
}

type KnownPacks = Option<(Mark, Arc<Packs>)>;

/// The lock of a folder; it is given back when the value is dropped, or the process ends.
pub(super) type Held = Locked<File>;

/// A note of a change in progress. It is locked as long as the session lives, so that an unlocked one is from a session that was
/// killed.
pub(super) struct Note {
    name: String,
    _held: Locked<File>,
}

impl Store {
    /// The folder of the workspace at `root`; nothing is made yet.
    pub(super) fn of(state: &Path, root: &Path) -> Self {
        let name = hash::path_name(root);
        let folder = state.join("undo").join(name);
        let objects = Loose::at(folder.join("git/objects"), gix::hash::Kind::Sha1);
        Self { folder, objects, packs: Arc::default() }
    }

    /// Returns whether anything was ever stored.
    pub(super) fn is_there(&self) -> bool {
        self.folder.join("lock").exists()
    }

    /// Makes what is missing and takes the lock.
    pub(super) fn lock(&self, root: &Path) -> Result<Held, StepsError> {
        let failed = |error: std::io::Error| StepsError::io("the store of steps", &error);
        // Another session may have put packs together.
        self.forget_packs();
        let make = |name: &str| DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join(name));
        make("").map_err(failed)?;
        let lock = lock_file(&self.folder.join("lock")).map_err(failed)?;
        let held = Locked::take(lock, false, WAIT).map_err(|error| match error {
            TryLockError::WouldBlock => StepsError::Busy,
            TryLockError::Error(error) => failed(error),
        })?;
        // Only with the lock: two sessions that make the same folder would take each other's unfinished files away.
        if !self.folder.join(WORKSPACE).exists() {
            ["steps", "open", "git/objects", "git/refs"].iter().try_for_each(|name| make(name)).map_err(failed)?;
            // So that git's own tools read it: `git --git-dir …/git diff TREE TREE`.
            self.put("git/HEAD", b"ref: refs/heads/none\n").map_err(failed)?;
            self.put("git/config", b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n").map_err(failed)?;
            self.put(WORKSPACE, root.as_os_str().as_bytes()).map_err(failed)?;
        }
        Ok(held)
    }

    /// Writes a file of the folder atomically.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.put_with(name, bytes, false)
    }

    /// Does the same and syncs it to the disk.
    pub(super) fn put_for_good(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.put_with(name, bytes, true)
    }

    fn put_with(&self, name: &str, bytes: &[u8], for_good: bool) -> std::io::Result<()> {
        let (path, temporary) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let mut file = private_file(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| if for_good { file.sync_all() } else { Ok(()) });
        if let Err(error) = written.and_then(|()| std::fs::rename(&temporary, &path)) {
            let _ = std::fs::remove_file(&temporary);
            return Err(error);
        }
        match path.parent().filter(|_| for_good) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    /// A new path for something that is to be removed.
    pub(super) fn trash(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let trash = self.folder.join("trash");
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&trash);
        trash.join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Removes what an ended session has left in the trash.
    pub(super) fn empty_trash(&self) {
        let trash = self.folder.join("trash");
        if trash.exists() {
            std::thread::spawn(move || drop(std::fs::remove_dir_all(trash)));
        }
    }

    pub(super) fn remove(&self, name: &str) {
        let _ = std::fs::remove_file(self.folder.join(name));
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        let path = self.folder.join(name);
        (std::fs::metadata(&path).ok()?.len() <= RECORD_BYTES_MAX).then(|| std::fs::read_to_string(path).ok())?
    }

    /// Notes that a directory for waiting contents is made in the workspace, so that a crash leaves none for good.
    pub(super) fn note_stage(&self, name: &str) -> std::io::Result<()> {
        let path = self.folder.join(STAGES).join(name);
        match private_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join(STAGES))?;
                private_file(&path).map(drop)
            }
            made => made.map(drop),
        }
    }

    /// Forgets a stage that is gone.
    pub(super) fn forget_stage(&self, name: &str) {
        self.remove(&format!("{STAGES}/{name}"));
    }

    /// The names of those that were made and may be there.
    pub(super) fn stages(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.join(STAGES)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Writes a note into a folder, and holds it.
    pub(super) fn note(&self, folder: &str, name: &str, text: &str) -> Result<Note, StepsError> {
        let failed = |error: std::io::Error| StepsError::io("the note of a change", &error);
        std::fs::create_dir_all(self.folder.join(folder)).map_err(failed)?;
        let name = format!("{folder}/{name}");
        self.put(&name, text.as_bytes()).map_err(failed)?;
        let file = File::open(self.folder.join(&name)).map_err(failed)?;
        let held = Locked::take(file, false, PROBE_TIME).map_err(|error| failed(error.into()))?;
        Ok(Note { name, _held: held })
    }

    /// Removes a note whose change is over.
    pub(super) fn forget(&self, note: &Note) {
        self.remove(&note.name);
    }

    /// Returns the notes of a folder that no session holds: their names in the store, and their texts. Those that this session
    /// wrote aren't among them.
    pub(super) fn cut_off(&self, folder: &'static str, session: &str) -> impl Iterator<Item = (String, String)> {
        let entries = std::fs::read_dir(self.folder.join(folder)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let own = format!("{session}-");
        names.filter(move |name| !name.starts_with(&own) && !name.ends_with(".new")).filter_map(move |name| {
            let name = format!("{folder}/{name}");
            let file = File::open(self.folder.join(&name)).ok()?;
            let is_held = matches!(Locked::take(file, false, Duration::ZERO), Err(TryLockError::WouldBlock));
            let text = self.text(&name).filter(|_| !is_held)?;
            Some((name, text))
        })
    }

    /// Reads the table, and the identity of its file.
    pub(super) fn table(&self) -> Option<(Table, Mark)> {
        let mark = self.mark()?;
        Some((Table::read(&std::fs::read(self.folder.join("table")).ok()?)?, mark))
    }

    /// Writes it.
    pub(super) fn put_table(&self, table: &Table) -> Result<Option<Mark>, StepsError> {
        self.put("table", &table.bytes()).map_err(|error| StepsError::io("the table of the workspace", &error))?;
        Ok(self.mark())
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        self.mark_of("table")
    }

    fn mark_of(&self, name: &str) -> Option<Mark> {
        let data = std::fs::metadata(self.folder.join(name)).ok()?;
        Some(Mark { inode: data.ino(), changed: (data.ctime(), data.ctime_nsec()), bytes: data.len() })
    }

    /// Every step, in order; one whose record can't be read is left out.
    pub(super) fn steps(&self) -> Vec<Record> {
        let names = self.step_names();
        let mut steps: Vec<Record> =
            names.filter_map(|name| Record::of(&self.text(&format!("steps/{name}"))?)).collect();
        steps.sort_by_key(|step| step.number);
        steps
    }

    fn step_names(&self) -> impl Iterator<Item = String> {
        let entries = std::fs::read_dir(self.folder.join("steps")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Returns the number of the first of the reverted steps at the end.
    pub(super) fn first_undone(&self) -> Option<u64> {
        let mut names: Vec<String> = self.step_names().collect();
        names.sort_by_key(|name| name.parse::<u64>().ok());
        let newest_first = names.iter().rev().filter_map(|name| Record::of(&self.text(&format!("steps/{name}"))?));
        newest_first.take_while(|step| step.is_undone).last().map(|step| step.number)
    }

    pub(super) fn put_step(&self, step: &Record) -> Result<(), StepsError> {
        let name = format!("steps/{:06}", step.number);
        // A power cut may lose the newest step, not a file: waiting for the disk would cost more than both looks.
        self.put(&name, step.text().as_bytes()).map_err(|error| StepsError::io("the record of a step", &error))
    }

    pub(super) fn remove_step(&self, number: u64) {
        self.remove(&format!("steps/{number:06}"));
    }

    /// Returns the number of the next step; numbers of removed steps aren't used again.
    pub(super) fn next_number(&self) -> u64 {
        let last = self.text("last").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let names = self.step_names().filter_map(|name| name.parse().ok());
        names.max().unwrap_or(0).max(last) + 1
    }

    /// Keeps a content; returns its name, and how many bytes were written for it.
    pub(super) fn keep(&self, bytes: &[u8]) -> Result<(ObjectId, u64), StepsError> {
        let id = name_of(bytes).ok_or(StepsError::Collision)?;
        Ok((id, if self.holds(&id) { 0 } else { self.keep_alone(id, bytes)? }))
    }

    /// Stores a new content in a file of its own; returns how many bytes were written for it.
    pub(super) fn keep_alone(&self, id: ObjectId, bytes: &[u8]) -> Result<u64, StepsError> {
        let written = self.objects.write_buf_with_known_id(ObjectKind::Blob, bytes, id);
        written.map_err(|error| StepsError::object(&error))?;
        Ok(std::fs::metadata(self.objects.object_path(&id)).map_or(0, |data| data.len()))
    }

    pub(super) fn holds(&self, id: &ObjectId) -> bool {
        self.packs().hold(id) || self.holds_alone(id)
    }

    /// Returns whether it has a file of its own.
    pub(super) fn holds_alone(&self, id: &ObjectId) -> bool {
        self.objects.contains(id)
    }

    /// A writer of packs, for many contents.
    pub(super) fn packer(&self) -> Packer<'_> {
        Packer::new(self.objects.path())
    }

    /// Takes note of new packs, and merges small ones if there are many. The lock is held.
    pub(super) fn packed(&self) {
        self.forget_packs();
        let packs = self.packs();
        if packs.small() > SMALL_PACKS_MAX && packs.rewrite(self.objects.path(), None).is_ok() {
            self.forget_packs();
        }
    }

    /// Removes every content; no step may need one.
    pub(super) fn forget_contents(&self) {
        self.forget_packs();
        let _ = std::fs::remove_dir_all(self.folder.join("git/objects"));
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join("git/objects"));
    }

    fn forget_packs(&self) {
        *self.packs.lock() = None;
    }

    /// Its packs, as they are by now.
    pub(super) fn packs(&self) -> Arc<Packs> {
        let mark = self.mark_of("git/objects/pack");
        let mut known = self.packs.lock();
        match (&*known, mark) {
            (_, None) => Arc::default(),
            (Some((at, packs)), Some(mark)) if *at == mark => Arc::clone(packs),
            (_, Some(mark)) => {
                let packs = Arc::new(Packs::open(self.objects.path()));
                *known = Some((mark, Arc::clone(&packs)));
                packs
            }
        }
    }

    /// Returns a stored content.
    pub(super) fn content(&self, id: &ObjectId) -> Result<Vec<u8>, StepsError> {
        if let Some(bytes) = self.packs().content(id) {
            return Ok(bytes);
        }
        let mut buffer = Vec::new();
        let found = self.objects.try_find(id, &mut buffer).map_err(|error| StepsError::object(&error))?;
        let bytes = found.map(|data| data.data.to_vec()).ok_or(StepsError::Missing(*id))?;
        // A content that doesn't match its hash is useless.
        if name_of(&bytes) == Some(*id) { Ok(bytes) } else { Err(StepsError::Missing(*id)) }
    }

    /// Writes the trees of both sides of these changes, as git has them: they hold those paths only. Those of many changes
    /// go into a pack.
    pub(super) fn trees(&self, changes: &[Change]) -> Result<(ObjectId, ObjectId), StepsError> {
        let is_many = changes.len() >= PACKED_MIN;
        let mut trees = is_many.then(|| Trees { packer: self.packer(), packs: self.packs(), seen: HashSet::new() });
        let before = self.tree(changes, |it| it.before, &mut trees)?;
        let after = self.tree(changes, |it| it.after, &mut trees)?;
        if let Some(mut trees) = trees {
            trees.packer.finish().map_err(|error| StepsError::io("the store of steps", &error))?;
            // Another thread may be reading small packs: they are merged when contents are packed.
            self.forget_packs();
        }
        Ok((before, after))
    }

    fn tree(
        &self,
        changes: &[Change],
        side: fn(&Change) -> State,
        trees: &mut Option<Trees<'_>>,
    ) -> Result<ObjectId, StepsError> {
        let mut top = Node::default();
        for change in changes {
            let state = side(change);
            let mut at = &mut top;
            let parts: Vec<&[u8]> = change.path.components().map(|part| part.as_os_str().as_bytes()).collect();
            let Some((name, above)) = parts.split_last() else { continue };
            if matches!(state, State::Nothing | State::Unknown(_)) {
                continue;
            }
            for part in above {
                at = at.below.entry(part.to_vec()).or_default();
            }
            let node = at.below.entry(name.to_vec()).or_default();
            node.leaf = match state {
                State::File { mode, id } if mode & 0o111 != 0 => Some((EntryKind::BlobExecutable, id)),
                State::File { id, .. } => Some((EntryKind::Blob, id)),
                State::Link { id } => Some((EntryKind::Link, id)),
                _ => None,
            };
        }
        self.write_tree(top, trees)
    }

    fn write_tree(&self, node: Node, trees: &mut Option<Trees<'_>>) -> Result<ObjectId, StepsError> {
        let mut tree = Tree::empty();
        for (name, node) in node.below {
            let (kind, oid) = match node.leaf {
                Some(leaf) => leaf,
                None => (EntryKind::Tree, self.write_tree(node, trees)?),
            };
            tree.entries.push(TreeEntry { mode: kind.into(), filename: name.into(), oid });
        }
        tree.entries.sort();
        let Some(trees) = trees else {
            return self.objects.write(&tree).map_err(|error| StepsError::object(&error));
        };
        let failed = |error| StepsError::io("the store of steps", &error);
        let mut bytes = Vec::new();
        tree.write_to(&mut bytes).map_err(failed)?;
        let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, ObjectKind::Tree, &bytes);
        let id = id.map_err(|_| StepsError::Collision)?;
        if !trees.packs.hold(&id) && trees.seen.insert(id) {
            trees.packer.add_tree(id, &bytes).map_err(failed)?;
        }
        Ok(id)
    }

    /// Removes the oldest steps until the rest fits, and then all objects that nothing refers to; returns the number of removed
    /// steps.
    pub(super) fn prune(&self, table: &Table, bytes_max: u64) -> usize {
        let sizes = self.sizes();
        if sizes.values().sum::<u64>() <= bytes_max {
            return 0;
        }
        let mut named: HashSet<ObjectId> = table.objects().collect();
        let size = |id: &ObjectId| sizes.get(id).copied().unwrap_or(0);
        let mut bytes: u64 = named.iter().map(size).sum();
        let (mut is_full, mut gone) = (false, 0);
        for step in self.steps().iter().rev() {
            let own: HashSet<ObjectId> = objects_of(step).filter(|id| !named.contains(id)).collect();
            let more: u64 = own.iter().map(size).sum();
            is_full |= bytes + more > bytes_max;
            if is_full {
                self.remove_step(step.number);
                gone += 1;
            } else {
                bytes += more;
                named.extend(own);
            }
        }
        // The trees below the two of a step aren't named by its record; they are small, and missing ones are made again.
        let trees: Vec<Record> = self.steps();
        for id in sizes.keys().filter(|id| !named.contains(*id)) {
            let _ = std::fs::remove_file(self.objects.object_path(id));
        }
        let _ = self.packs().rewrite(self.objects.path(), Some(&named));
        self.forget_packs();
        for step in trees {
            // If even that fails, the disk is full: the record alone is enough to revert the step.
            let _ = self.trees(&step.changes);
        }
        let _ = self.put(COUNT, self.bytes().to_string().as_bytes());
        gone
    }

    /// Adds to the number of written bytes; returns the approximate sum. An exact count is made when the sum is too high.
    pub(super) fn grown(&self, bytes: u64) -> u64 {
        let counted = self.text(COUNT).and_then(|text| text.trim().parse::<u64>().ok());
        let all = counted.map_or_else(|| self.bytes(), |counted| counted + bytes);
        let _ = self.put(COUNT, all.to_string().as_bytes());
        all
    }

    /// Returns the number of stored bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.sizes().values().sum()
    }

    /// Every object, with its bytes on the disk.
    fn sizes(&self) -> HashMap<ObjectId, u64> {
        let ids = self.objects.iter().flatten();
        let size = |id: &ObjectId| std::fs::metadata(self.objects.object_path(id)).map_or(0, |data| data.len());
        let mut sizes = self.packs().sizes();
        ids.for_each(|id| *sizes.entry(id).or_default() += size(&id));
        sizes
    }
}

/// The identity of a table's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
}

/// Writer of many trees.
struct Trees<'a> {
    packer: Packer<'a>,
    packs: Arc<Packs>,
    /// The objects that the packer has already.
    seen: HashSet<ObjectId>,
}

/// A tree under construction.
#[derive(Default)]
struct Node {
    below: BTreeMap<Vec<u8>, Node>,
    leaf: Option<(EntryKind, ObjectId)>,
}

fn objects_of(step: &Record) -> impl Iterator<Item = ObjectId> + '_ {
    let contents = step.changes.iter().flat_map(|it| [it.before.id(), it.after.id()]);
    contents.flatten().chain([step.before, step.after])
}

/// The name of a content, as git has it; nothing for one that was made to have another's name.
pub(super) fn name_of(bytes: &[u8]) -> Option<ObjectId> {
    gix::objs::compute_hash(gix::hash::Kind::Sha1, ObjectKind::Blob, bytes).ok()
}
