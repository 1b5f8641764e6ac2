//! Objects that are gathered in memory and then written as loose files of the repository: each is on the disk before any
//! reference names it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use gix::actor::Signature;
use gix::objs::tree::Entry as GixEntry;
use gix::objs::{Commit as GixCommit, Kind, Tree, WriteTo};

use super::recent::WrittenBatch;
use super::{Entry, GitError, Identity, Mode, Objects, Oid, Repo, durable, fault, other, pack};

/// Threads that wait for the disk at once: it takes many files in hardly more than the time of one.
const SYNCING_THREADS: usize = 8;
/// Age from which on git considers the note of a collection on another machine abandoned.
const LEFT_BEHIND: Duration = Duration::from_hours(12);
/// Number of times that the folder of an object is made again if others remove it.
const FOLDER_TRIES_MAX: usize = 100;

/// The new entry at a path: a file, a link or another repository's commit; `None` removes it.
pub type TreeEdit = (PathBuf, Option<(Mode, Oid)>);

/// A commit to make.
#[derive(Clone, Debug)]
pub struct NewCommit {
    /// Its tree.
    pub tree: Oid,
    /// Its parents.
    pub parents: Vec<Oid>,
    /// The author.
    pub author: Identity,
    /// The committer.
    pub committer: Identity,
    /// The time, in seconds of Unix time.
    pub time_s: i64,
    /// Its message.
    pub message: String,
}

/// New objects of a repository, in memory until [`Batch::settle`].
pub struct Batch<'r> {
    repo: &'r Repo,
    new: HashMap<Oid, (Kind, Vec<u8>)>,
    /// The new ones, each after all that it names.
    order: Vec<Oid>,
    /// Objects that the repository already has: they may be unreferenced, and a `git gc` could remove them.
    known: Vec<Oid>,
}

impl Repo {
    /// Begins a batch of new objects.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch { repo: self, new: HashMap::new(), order: Vec::new(), known: Vec::new() }
    }
}

impl Objects for Batch<'_> {
    fn entries(&self, tree: Oid) -> Result<Vec<Entry>, GitError> {
        let Some((_, bytes)) = self.new.get(&tree) else { return self.repo.entries(tree) };
        let decoded = gix::objs::TreeRef::from_bytes(bytes, self.repo.hash());
        let decoded = decoded.map_err(|_| GitError::Object(tree))?;
        let one = |it: &gix::objs::tree::EntryRef<'_>| Entry {
            name: it.filename.to_vec(),
            mode: Mode::of(it.mode.kind()),
            id: it.oid.to_owned(),
        };
        Ok(decoded.entries.iter().map(one).collect())
    }

    fn blob(&self, id: Oid, bytes_max: u64) -> Result<Vec<u8>, GitError> {
        match self.new.get(&id) {
            Some((_, bytes)) if bytes.len() as u64 > bytes_max => Err(GitError::Long(bytes_max)),
            Some((_, bytes)) => Ok(bytes.clone()),
            None => self.repo.blob(id, bytes_max),
        }
    }

    fn size(&self, id: Oid) -> Result<u64, GitError> {
        self.new.get(&id).map_or_else(|| self.repo.size(id), |(_, bytes)| Ok(bytes.len() as u64))
    }

    fn blob_id(&self, bytes: &[u8]) -> Option<Oid> {
        self.repo.blob_id(bytes)
    }
}

impl Batch<'_> {
    fn add(&mut self, kind: Kind, bytes: Vec<u8>) -> Result<Oid, GitError> {
        let id = gix::objs::compute_hash(self.repo.hash(), kind, &bytes).map_err(other)?;
        if self.new.insert(id, (kind, bytes)).is_none() {
            let place = if self.repo.has_known(id) { &mut self.known } else { &mut self.order };
            place.push(id);
        }
        Ok(id)
    }

    /// Adds a blob.
    ///
    /// # Errors
    /// The content was forged to collide with another.
    pub fn blob_of(&mut self, bytes: &[u8]) -> Result<Oid, GitError> {
        self.add(Kind::Blob, bytes.to_vec())
    }

    /// Adds the tree that `base` becomes with these edits. Directories that become empty disappear.
    ///
    /// # Errors
    /// A tree on the way can't be read.
    pub fn tree(&mut self, base: Oid, edits: &[TreeEdit]) -> Result<Oid, GitError> {
        let mut top = Node::default();
        for (path, leaf) in edits {
            let mut at = &mut top;
            let parts: Vec<&[u8]> = path.components().map(|part| part.as_os_str().as_bytes()).collect();
            for part in parts {
                at = at.below.entry(part.to_vec()).or_default();
            }
            at.leaf = Some(*leaf);
        }
        Ok(self.tree_of(Some(base), &top)?.unwrap_or_else(|| Oid::empty_tree(self.repo.hash())))
    }

    /// Adds a subtree; returns `None` if it is empty.
    fn tree_of(&mut self, base: Option<Oid>, node: &Node) -> Result<Option<Oid>, GitError> {
        let mut entries: BTreeMap<Vec<u8>, (Mode, Oid)> = BTreeMap::new();
        if let Some(base) = base {
            entries.extend(self.entries(base)?.into_iter().map(|it| (it.name, (it.mode, it.id))));
        }
        for (name, node) in &node.below {
            let before = entries.get(name).filter(|(mode, _)| *mode == Mode::Directory).map(|(_, id)| *id);
            let now = match node.leaf {
                Some(Some((Mode::Directory, id))) if !node.below.is_empty() => {
                    self.tree_of(Some(id), node)?.map(|id| (Mode::Directory, id))
                }
                Some(Some(leaf)) => Some(leaf),
                Some(None) if node.below.is_empty() => None,
                Some(None) => self.tree_of(None, node)?.map(|id| (Mode::Directory, id)),
                None => self.tree_of(before, node)?.map(|id| (Mode::Directory, id)),
            };
            match now {
                Some(now) => drop(entries.insert(name.clone(), now)),
                None => drop(entries.remove(name)),
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let entry = |(name, (mode, oid)): (Vec<u8>, (Mode, Oid))| GixEntry {
            mode: mode.entry_kind().into(),
            filename: name.into(),
            oid,
        };
        let mut tree = Tree { entries: entries.into_iter().map(entry).collect() };
        tree.entries.sort();
        let mut bytes = Vec::new();
        tree.write_to(&mut bytes).map_err(other)?;
        self.add(Kind::Tree, bytes).map(Some)
    }

    /// Adds a commit.
    ///
    /// # Errors
    /// It can't be written, since a name holds a line break for instance.
    pub fn commit(&mut self, new: &NewCommit) -> Result<Oid, GitError> {
        let by = |who: &Identity| Signature {
            name: who.name.clone().into(),
            email: who.email.clone().into(),
            time: gix::date::Time::new(new.time_s, 0),
        };
        let commit = GixCommit {
            tree: new.tree,
            parents: new.parents.iter().copied().collect(),
            author: by(&new.author),
            committer: by(&new.committer),
            encoding: None,
            message: new.message.clone().into(),
            extra_headers: Vec::new(),
        };
        let mut bytes = Vec::new();
        commit.write_to(&mut bytes).map_err(other)?;
        self.add(Kind::Commit, bytes)
    }

    /// Adds an object of another repository with all that it names and this one lacks.
    ///
    /// # Errors
    /// An object can't be read.
    pub fn add_from(&mut self, other_repo: &Repo, id: Oid) -> Result<(), GitError> {
        self.repo.view.renew();
        // Each object is visited twice: before the objects that it names, and after them.
        let mut waiting = vec![(id, None)];
        while let Some((id, object)) = waiting.pop() {
            if self.new.contains_key(&id) || self.repo.has_known(id) {
                continue;
            }
            if let Some(object) = object {
                self.new.insert(id, object);
                self.order.push(id);
                continue;
            }
            let (kind, bytes) = other_repo.raw(id)?;
            waiting.push((id, Some((kind, bytes))));
            match kind {
                Kind::Commit => {
                    let commit = other_repo.commit(id)?;
                    waiting.push((commit.tree, None));
                    waiting.extend(commit.parents.into_iter().map(|it| (it, None)));
                }
                Kind::Tree => {
                    let entries = other_repo.entries(id)?;
                    let own = entries.into_iter().filter(|it| it.mode != Mode::Submodule);
                    waiting.extend(own.map(|it| (it.id, None)));
                }
                Kind::Blob | Kind::Tag => {}
            }
        }
        Ok(())
    }

    /// Number of new objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there are no new objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Writes the objects into the repository and waits until they are on the disk. One appears after all that it names. They stay
    /// in memory for a while, since nothing names them yet: see [`Repo::secure`].
    ///
    /// # Errors
    /// One can't be written; the others are harmless, since they are unreferenced.
    pub fn settle(self) -> Result<(), GitError> {
        self.write_files(true)?;
        self.repo.recent.push(WrittenBatch { objects: self.new, order: [self.known, self.order].concat() });
        Ok(())
    }

    /// The same for objects in a directory of ours that goes with its owner: nothing waits for the disk.
    ///
    /// # Errors
    /// As of [`Batch::settle`].
    pub fn settle_unsynced(&self) -> Result<(), GitError> {
        self.write_files(false)
    }

    /// Writes the objects. One appears after all that it names.
    fn write_files(&self, is_durable: bool) -> Result<(), GitError> {
        let objects = self.repo.common_dir().join("objects");
        let failed = |error: std::io::Error| GitError::Other(format!("{}: {error}", objects.display()));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut ready = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(id) = self.order.get(at) else { return Ok(ready) };
                let (kind, bytes) = &self.new[id];
                ready.extend(
                    Ready::prepare(&objects, (*id, *kind, bytes), is_durable).map_err(failed)?.map(|it| (at, it)),
                );
            }
        };
        // Starting a thread takes as long as waiting for one small file.
        let threads = if is_durable { SYNCING_THREADS.min(self.order.len().div_ceil(2)) } else { 1 };
        let mut ready = std::thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let first: Result<Vec<(usize, Ready)>, GitError> = work();
            let rest = workers.into_iter().map(|it| it.join().unwrap_or_else(|_| Err(other("a thread panicked"))));
            rest.fold(first, |all, some| all.and_then(|all| Ok(all.into_iter().chain(some?).collect())))
        })?;
        ready.sort_by_key(|(at, _)| *at);
        let mut folders = BTreeSet::new();
        for (at, it) in ready {
            self.publish(&objects, self.order[at], it, is_durable, &mut folders).map_err(failed)?;
        }
        if !is_durable {
            return Ok(());
        }
        let folders: Vec<PathBuf> = folders.into_iter().collect();
        let sync = |folder: &PathBuf| match File::open(folder).and_then(|file| fault::sync(&file, folder)) {
            // A `git gc` has packed what was in it, and synced the pack.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(failed),
        };
        // Their entries are in one transaction of the file system: the first one waits for it, and the others find it done.
        folders.iter().try_for_each(sync)
    }
}

impl Batch<'_> {
    /// Moves an object to its final name, and notes the folders to sync. A `git gc --prune=now` may have removed its temporary
    /// file; then it is written again.
    fn publish(
        &self,
        objects: &Path,
        id: Oid,
        mut ready: Ready,
        is_durable: bool,
        folders: &mut BTreeSet<PathBuf>,
    ) -> std::io::Result<()> {
        let (kind, bytes) = &self.new[&id];
        for _ in 0..FOLDER_TRIES_MAX {
            folders.extend(ready.has_new_folder.then(|| objects.to_owned()));
            match ready.publish() {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                done => {
                    folders.extend(done?);
                    return Ok(());
                }
            }
            match Ready::prepare(objects, (id, *kind, bytes), is_durable)? {
                Some(again) => ready = again,
                None => return Ok(()),
            }
        }
        Err(std::io::Error::other("another program removes each object before it has its name"))
    }
}

/// Protection from collections: a `git gc --prune=now` that read the references before one of ours moved removes the objects that
/// only this one names, if they are loose, or in packs that existed when it read them.
impl Repo {
    /// Makes sure that the objects of a commit of this process survive a running `git gc`: they are put into a new pack. This
    /// must be called once a reference names the commit.
    ///
    /// # Errors
    /// An object can't be written.
    pub fn secure(&self, commit: Oid) -> Result<(), GitError> {
        let is_collecting = self.is_collecting();
        self.recent.name(commit, |batch| if is_collecting { self.pack(batch) } else { self.write_missing(batch) })
    }

    /// Writes missing objects again, if this process wrote them recently.
    ///
    /// # Errors
    /// One can't be written.
    pub fn write_again(&self) -> Result<(), GitError> {
        self.recent.each(|batch| self.write_missing(batch))
    }

    /// Returns whether a `git gc` is running. A killed one leaves its note, which is judged as git judges it.
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        let path = self.common_dir().join("gc.pid");
        let Ok(note) = std::fs::read_to_string(&path) else { return false };
        let (pid, host) = note.trim().split_once(' ').unwrap_or((note.trim(), ""));
        if nix::unistd::gethostname().is_ok_and(|own| own.to_string_lossy() == host) {
            return Path::new("/proc").join(pid).exists();
        }
        let modified = std::fs::metadata(&path).and_then(|it| it.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < LEFT_BEHIND))
    }

    fn pack(&self, batch: &WrittenBatch) -> Result<(), GitError> {
        let object = |id: &Oid| batch.objects.get(id).map(|(kind, bytes)| (*id, *kind, &bytes[..]));
        let all: Vec<pack::Object<'_>> = batch.order.iter().filter_map(object).collect();
        pack::write(&self.common_dir().join("objects"), self.hash(), &all).map_err(other)
    }

    fn write_missing(&self, batch: &WrittenBatch) -> Result<(), GitError> {
        // A pack that the library knows may have gone.
        self.view.renew();
        let order: Vec<Oid> = batch.order.iter().copied().filter(|id| !self.has_known(*id)).collect();
        if order.is_empty() {
            return Ok(());
        }
        let new = order.iter().filter_map(|id| Some((*id, batch.objects.get(id)?.clone()))).collect();
        Batch { repo: self, new, order, known: Vec::new() }.write_files(true)
    }
}

/// Longest commit that is read at once, in bytes.
const COMMIT_BYTES_MAX: u64 = 1024 * 1024;

/// Reads a commit from a loose file; returns `None` if there is no such file, or it is something else: then the library searches.
/// A session's turns are loose until they are packed, and a log reads all of them.
pub(super) fn loose_commit(objects: &Path, id: Oid) -> Option<Vec<u8>> {
    let packed = std::fs::read(place(objects, id)).ok()?;
    let mut bytes = Vec::with_capacity(packed.len() * 3);
    ZlibDecoder::new(&packed[..]).take(COMMIT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let length = std::str::from_utf8(bytes[..end].strip_prefix(b"commit ")?).ok()?.parse::<usize>().ok()?;
    (bytes.len() == end + 1 + length).then(|| bytes.split_off(end + 1))
}

pub(super) fn place(objects: &Path, id: Oid) -> PathBuf {
    let hex = id.to_hex().to_string();
    objects.join(&hex[..2]).join(&hex[2..])
}

/// An object with a temporary name, which is removed unless the object is published.
struct Ready {
    temporary: PathBuf,
    path: PathBuf,
    /// `true` if its folder was made for it, whose name isn't on the disk yet.
    has_new_folder: bool,
}

impl Ready {
    /// Writes one object as git does: a temporary file beside its place. `None` if the object is there.
    fn prepare(
        objects: &Path,
        (id, kind, bytes): (Oid, Kind, &[u8]),
        is_durable: bool,
    ) -> std::io::Result<Option<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = place(objects, id);
        if durable::is_written(&path) {
            return Ok(None);
        }
        let folder = path.parent().unwrap_or(objects);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Git's own prefix of such names, so that its `gc` removes the remains of a crash.
        let temporary = folder.join(OsStr::new(&format!("tmp_obj_rc{}-{number}", std::process::id())));
        let mut tries = 0;
        let file = loop {
            match OpenOptions::new().write(true).create_new(true).mode(0o444).open(&temporary) {
                // There is no such folder yet, or a `git gc` has just removed it since it was empty.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && tries < FOLDER_TRIES_MAX => {
                    tries += 1;
                    match std::fs::create_dir(folder) {
                        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
                        _ => {}
                    }
                }
                opened => break opened?,
            }
        };
        let ready = Self { temporary, path, has_new_folder: tries > 0 };
        let mut packed = ZlibEncoder::new(file, Compression::fast());
        packed.write_all(&gix::objs::encode::loose_header(kind, bytes.len() as u64))?;
        fault::write()?;
        packed.write_all(bytes)?;
        fault::point();
        let file = packed.finish()?;
        if is_durable {
            fault::sync(&file, &ready.temporary)?;
        }
        fault::point();
        Ok(Some(ready))
    }

    /// Moves it to its final name. Returns the folder, whose entry isn't on the disk yet.
    fn publish(self) -> std::io::Result<Option<PathBuf>> {
        fault::write()?;
        std::fs::rename(&self.temporary, &self.path)?;
        fault::point();
        Ok(self.path.parent().map(Path::to_owned))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // After it was published there is no such file.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// A tree in progress.
#[derive(Default)]
struct Node {
    below: BTreeMap<Vec<u8>, Node>,
    leaf: Option<Option<(Mode, Oid)>>,
}
