//! Contents that a snapshot doesn't know yet: read, hashed and stored, unless the user's repository has them anyway. Entries of
//! git's index are compared last, and only as far as there is time: without it, the index is believed.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use gix::ObjectId;
use gix::zlib::Inflate;

use super::git::{Index, Theirs};
use super::{Found, Look, path_of};
use crate::files::PathError;
use crate::host::now_unix_ms;
use crate::steps::store::error::StepsError;
use crate::steps::store::name_of;
use crate::steps::store::packs::{Packer, Packs};
use crate::steps::store::state::Why;
use crate::steps::store::table::{Content, Entry};

/// A file that was changed so short a time before it was read may have been changed again with the same stamp: the clocks
/// of file systems tick every 10 ms at the slowest.
const RACY_NS: i64 = 30_000_000;
/// Maximum number of reading threads.
const THREADS_MAX: usize = 8;
/// Number of contents from which they go into a pack; fewer get a file each.
const PACKED_MIN: usize = 64;
/// Number of files for which it is worth reading git's index.
const INDEXED_MIN: usize = 32;
/// Limit on new contents that are stored in the background, in bytes: a question alone must not fill the disk.
const AHEAD_BYTES: u64 = 16 * 1024 * 1024;

/// A file whose content isn't known yet.
struct Wanted {
    directory: usize,
    entry: usize,
    size: u64,
    /// The object that git's index names.
    indexed: Option<ObjectId>,
}

/// The state that the threads share.
struct Shared<'a> {
    packs: Option<&'a Packs>,
    own: Arc<Packs>,
    /// The objects being packed, which can't be found yet.
    new: Mutex<HashSet<ObjectId>>,
    room: AtomicU64,
    is_full: AtomicBool,
    read_until: Instant,
    compare_until: Instant,
}

impl Look<'_> {
    /// Reads and stores the unknown contents, the smallest first, as far as time and space permit; returns the number of bytes
    /// that were written.
    pub(in crate::steps) fn gather(&self, found: &mut [Found], held: u64) -> Result<u64, StepsError> {
        let wanted = self.wanted(found);
        if wanted.is_empty() {
            return Ok(0);
        }
        let began = Instant::now();
        let room = (self.limits.bytes_max / 2).saturating_sub(held);
        let shared = Shared {
            packs: self.theirs.map(Theirs::packs),
            own: self.store.packs(),
            new: Mutex::default(),
            room: AtomicU64::new(if self.is_ahead { room.min(AHEAD_BYTES) } else { room }),
            is_full: AtomicBool::new(false),
            read_until: began + self.limits.read_time,
            compare_until: began + if self.is_ahead { self.limits.read_time } else { self.limits.compare_time },
        };
        let (next, written, problem) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
        let (places, wanted) = (&*found, &wanted);
        let read = || {
            let mut own = Vec::new();
            let mut reader = Reader { look: self, shared: &shared, inflate: Inflate::default(), packer: None };
            reader.packer = (wanted.len() >= PACKED_MIN).then(|| self.store.packer());
            let mut work = || {
                while let Some(it) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (path, listing, _) = &places[it.directory];
                    let entry =
                        reader.known(&path_of(path, &listing[it.entry]), &listing[it.entry], it.indexed, &written)?;
                    own.push((it.directory, it.entry, entry));
                }
                match &mut reader.packer {
                    Some(packer) => packer.finish().map(|()| written.fetch_add(packer.written(), Ordering::Relaxed)),
                    None => Ok(0),
                }
                .map_err(|error| StepsError::io("the store of steps", &error))
            };
            if let Err(error) = work() {
                shared.is_full.store(true, Ordering::Relaxed);
                problem.lock().get_or_insert(error);
            }
            own
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let threads = if wanted.len() < 8 { 1 } else { threads };
        let done: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(read)).collect();
            let mut done = read();
            others.into_iter().for_each(|it| done.extend(it.join().unwrap_or_default()));
            done
        });
        self.store.packed();
        if let Some(error) = problem.into_inner() {
            return Err(error);
        }
        for (directory, at, entry) in done {
            Arc::make_mut(&mut found[directory].1)[at] = entry;
        }
        Ok(written.into_inner())
    }

    /// Returns the unknown contents in reading order: first those that would be lost, then the smallest.
    fn wanted(&self, found: &[Found]) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for (directory, (_, listing, _)) in found.iter().enumerate().filter(|(_, (_, _, is_new))| *is_new) {
            for (entry, it) in listing.iter().enumerate() {
                let indexed = match it.content {
                    Content::Lost(Why::Budget) => None,
                    Content::Packed { id, is_read: false } if self.is_ahead => Some(id),
                    _ => continue,
                };
                wanted.push(Wanted { directory, entry, size: it.stamp.size, indexed });
            }
        }
        let theirs = self.theirs.filter(|_| wanted.len() >= INDEXED_MIN);
        let attributes = |(path, listing, _): &Found| {
            let at = listing.binary_search_by(|it| (*it.name).cmp(b".gitattributes"));
            at.ok().map(|at| path_of(path, &listing[at]))
        };
        let attributes: Vec<PathBuf> = found.iter().filter_map(attributes).collect();
        if let Some(index) = theirs.and_then(|theirs| Index::read(theirs, self.root, &attributes)) {
            for it in wanted.iter_mut().filter(|it| it.indexed.is_none()) {
                let (path, listing, _) = &found[it.directory];
                let entry = &listing[it.entry];
                it.indexed = index.says(&path_of(path, entry), &entry.stamp);
            }
        }
        wanted.sort_by_key(|it| (it.indexed.is_some(), it.size));
        wanted
    }
}

/// One of the threads.
struct Reader<'a> {
    look: &'a Look<'a>,
    shared: &'a Shared<'a>,
    inflate: Inflate,
    packer: Option<Packer<'a>>,
}

impl Reader<'_> {
    /// One file, with its content as far as that can be known; an error is one of the store.
    fn known(
        &mut self,
        path: &std::path::Path,
        entry: &Entry,
        indexed: Option<ObjectId>,
        written: &AtomicU64,
    ) -> Result<Entry, StepsError> {
        let mut entry = entry.clone();
        let shared = self.shared;
        if entry.stamp.size > self.look.limits.file_bytes_max {
            entry.content = Content::Lost(Why::Large);
            return Ok(entry);
        }
        let now = Instant::now();
        if let (Some(id), Some(packs)) = (indexed, shared.packs)
            && now > shared.compare_until
            && packs.length(&id, &mut self.inflate) == Some(entry.stamp.size)
        {
            entry.content = Content::Packed { id, is_read: false };
            return Ok(entry);
        }
        entry.content = Content::Lost(Why::Budget);
        if shared.is_full.load(Ordering::Relaxed) || now > shared.read_until {
            return Ok(entry);
        }
        let now_ns = now_unix_ms().saturating_mul(1_000_000);
        match self.look.root.held(path, self.look.limits.file_bytes_max) {
            Ok((stamp, bytes)) => {
                if let Some(content) = self.keep(&bytes, written)? {
                    entry.is_racy = stamp.changed_ns.saturating_add(RACY_NS) > now_ns;
                    (entry.stamp, entry.content) = (stamp, content);
                }
            }
            Err(PathError::Long(_)) => entry.content = Content::Lost(Why::Large),
            Err(PathError::NotRegular | PathError::Directory) => entry.content = Content::Lost(Why::Special),
            Err(_) => entry.content = Content::Lost(Why::Closed),
        }
        Ok(entry)
    }

    /// Stores what was read, unless it is stored somewhere already; `None` if there is no space for it.
    fn keep(&mut self, bytes: &[u8], written: &AtomicU64) -> Result<Option<Content>, StepsError> {
        let Some(id) = name_of(bytes) else { return Ok(Some(Content::Lost(Why::Special))) };
        let shared = self.shared;
        if shared.packs.is_some_and(|packs| packs.hold(&id)) {
            return Ok(Some(Content::Packed { id, is_read: true }));
        }
        let take = |left: u64| left.checked_sub(bytes.len() as u64);
        if shared.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Ok(None);
        }
        let is_there = shared.own.hold(&id) || self.look.store.holds_alone(&id);
        let is_new = !is_there && shared.new.lock().insert(id);
        match &mut self.packer {
            _ if !is_new => {}
            Some(packer) => {
                packer.add(id, bytes).map_err(|error| StepsError::io("the store of steps", &error))?;
            }
            None => drop(written.fetch_add(self.look.store.keep_alone(id, bytes)?, Ordering::Relaxed)),
        }
        Ok(Some(Content::Kept(id)))
    }
}
