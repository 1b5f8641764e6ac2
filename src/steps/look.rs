//! A look at the workspace: what is there, compared with what was there, and the contents kept that weren't yet. What is the
//! same to the stamp isn't read.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::state::Why;
use super::store::Store;
use super::table::{Content, Entry, Listing, Table, joined};
use super::{Limits, StepsError};
use crate::host::{Looked, PathError, Root, Seen, Stamp, SurveyEnd, SurveyLimits, now_unix_ms};

/// A file that was changed so short a time before it was read may have been changed again with the same stamp: the clocks
/// of file systems tick every 10 ms at the slowest.
const RACY_NS: i64 = 30_000_000;
/// Threads that read at most.
const THREADS_MAX: usize = 8;
/// First bytes of a file that says of its directory that it is a cache.
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// What the directory that waiting contents lie in begins with.
pub(super) const STAGE_PREFIX: &str = ".reedclaw-undo-";

/// What there is for a look.
pub(super) struct Look<'a> {
    pub(super) root: &'a Root,
    pub(super) store: &'a Store,
    pub(super) limits: &'a Limits,
    /// Paths from the root that aren't covered.
    pub(super) left_out: &'a [PathBuf],
}

/// A file whose content isn't known yet.
struct Wanted {
    directory: usize,
    entry: usize,
    size: u64,
}

impl Look<'_> {
    /// Looks; gives the table of now, and the bytes that were written for it.
    pub(super) fn now(&self, before: &Table) -> Result<(Table, u64), StepsError> {
        let started = Instant::now();
        let found = Mutex::new(Vec::new());
        let skipped = Mutex::new(Vec::new());
        let limits = SurveyLimits { entries_max: self.limits.files_max, deadline: started + self.limits.look_time };
        let end = self.root.survey(limits, &|looked| {
            let path = looked.path.to_owned();
            let mut left_out = Vec::new();
            let listing = self.listing(looked, before.directories.get(&path), &mut left_out);
            let below = match &listing {
                Some((listing, _)) => directories(listing),
                None => Vec::new(),
            };
            lock_in(&skipped).append(&mut left_out);
            if let Some((listing, is_new)) = listing {
                lock_in(&found).push((path, listing, is_new));
            }
            below
        });
        match end {
            SurveyEnd::Whole => {}
            SurveyEnd::Entries => return Err(StepsError::TooMany(self.limits.files_max)),
            SurveyEnd::Time => return Err(StepsError::Slow(self.limits.look_time)),
        }
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::default();
        table.skipped.extend(skipped.into_inner().unwrap_or_else(PoisonError::into_inner));
        let held = before.kept_bytes();
        let written = self.keep_new(&mut found, held)?;
        table.directories.extend(found.into_iter().map(|(path, listing, _)| (path, listing)));
        Ok((table, written))
    }

    /// What a directory holds, with the contents that are known; whether some aren't. Nothing where it isn't covered.
    fn listing(
        &self,
        looked: Looked<'_>,
        before: Option<&Arc<Listing>>,
        skipped: &mut Vec<(PathBuf, Why)>,
    ) -> Option<(Arc<Listing>, bool)> {
        let Looked { path, entries, elsewhere, is_closed } = looked;
        if is_closed {
            skipped.push((path.to_owned(), Why::Closed));
            return None;
        }
        let is_top = path.as_os_str().is_empty();
        if !is_top && entries.iter().any(|it| &*it.name == b"CACHEDIR.TAG") && self.is_cache(path) {
            skipped.push((path.to_owned(), Why::Cache));
            return None;
        }
        let at = |name: &[u8]| path.join(std::ffi::OsStr::from_bytes(name));
        skipped.extend(elsewhere.iter().map(|name| (at(name), Why::Mount)));
        let mut listing = Listing::with_capacity(entries.len());
        for Seen { name, stamp } in entries {
            let why = if &*name == b".git" {
                Some(Why::Git)
            } else if name.starts_with(STAGE_PREFIX.as_bytes()) {
                continue;
            } else {
                self.left_out.iter().any(|path| *path == at(&name)).then_some(Why::Secret)
            };
            match why {
                Some(why) => skipped.push((at(&name), why)),
                None => listing.push(Entry { content: unread(&stamp), name, stamp, is_racy: false }),
            }
        }
        let old: &[Entry] = before.map_or(&[], |it| it.as_slice());
        let mut known: Vec<Option<(Content, bool)>> = Vec::with_capacity(listing.len());
        joined(old, &listing, |_, old, new| {
            if new.is_some() {
                let same = old.zip(new).filter(|(old, new)| old.stamp == new.stamp && !old.is_racy);
                // What there was no time for gets another chance.
                let same = same.filter(|(old, _)| old.content != Content::Lost(Why::Budget));
                known.push(same.map(|(old, _)| (old.content, old.is_racy)));
            }
        });
        let mut is_new = false;
        for (entry, known) in listing.iter_mut().zip(known) {
            match known {
                Some((content, is_racy)) => (entry.content, entry.is_racy) = (content, is_racy),
                None => is_new |= entry.content == Content::Lost(Why::Budget),
            }
        }
        match before {
            Some(before) if !is_new && **before == listing => Some((Arc::clone(before), false)),
            _ => Some((Arc::new(listing), is_new)),
        }
    }

    fn is_cache(&self, path: &Path) -> bool {
        let tag = self.root.held(&path.join("CACHEDIR.TAG"), 64 * 1024);
        tag.is_ok_and(|(_, bytes)| bytes.starts_with(CACHE_TAG))
    }

    /// Reads and keeps what isn't known, the smallest first, as far as time and room go; gives the bytes that were written.
    fn keep_new(&self, found: &mut [(PathBuf, Arc<Listing>, bool)], held: u64) -> Result<u64, StepsError> {
        let mut wanted = Vec::new();
        for (directory, (_, listing, _)) in found.iter().enumerate().filter(|(_, (_, _, is_new))| *is_new) {
            for (entry, it) in listing.iter().enumerate() {
                if it.content == Content::Lost(Why::Budget) {
                    wanted.push(Wanted { directory, entry, size: it.stamp.size });
                }
            }
        }
        if wanted.is_empty() {
            return Ok(0);
        }
        wanted.sort_by_key(|it| it.size);
        let deadline = Instant::now() + self.limits.read_time;
        let room = AtomicU64::new((self.limits.bytes_max / 2).saturating_sub(held));
        let (next, written, is_full) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let problem = Mutex::new(None);
        let (places, wanted) = (&*found, &wanted);
        let read = || {
            let mut own = Vec::new();
            while let Some(it) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (path, listing, _) = &places[it.directory];
                let entry = &listing[it.entry];
                let path = path.join(std::ffi::OsStr::from_bytes(&entry.name));
                let is_over = || is_full.load(Ordering::Relaxed) || Instant::now() > deadline;
                match self.content_of(&path, entry, &room, is_over) {
                    Ok((entry, bytes)) => {
                        written.fetch_add(bytes, Ordering::Relaxed);
                        own.push((it.directory, it.entry, entry));
                    }
                    Err(error) => {
                        is_full.store(true, Ordering::Relaxed);
                        problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        break;
                    }
                }
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
        if let Some(error) = problem.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        for (directory, at, entry) in done {
            Arc::make_mut(&mut found[directory].1)[at] = entry;
        }
        Ok(written.into_inner())
    }

    /// One file's content, kept or found; an error is one of the store.
    fn content_of(
        &self,
        path: &Path,
        entry: &Entry,
        room: &AtomicU64,
        is_over: impl Fn() -> bool,
    ) -> Result<(Entry, u64), StepsError> {
        let mut entry = entry.clone();
        let lost = |mut entry: Entry, why| {
            entry.content = Content::Lost(why);
            Ok((entry, 0))
        };
        if entry.stamp.size > self.limits.file_bytes_max {
            return lost(entry, Why::Large);
        }
        let take = |left: u64| left.checked_sub(entry.stamp.size);
        if is_over() || room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return lost(entry, Why::Budget);
        }
        let now_ns = now_unix_ms().saturating_mul(1_000_000);
        match self.root.held(path, self.limits.file_bytes_max) {
            Ok((stamp, bytes)) => {
                let (id, written) = match self.store.keep(&bytes) {
                    Err(StepsError::Collision) => return lost(entry, Why::Special),
                    other => other?,
                };
                entry.is_racy = stamp.changed_ns.saturating_add(RACY_NS) > now_ns;
                (entry.stamp, entry.content) = (stamp, Content::Kept(id));
                Ok((entry, written))
            }
            Err(PathError::Long(_)) => lost(entry, Why::Large),
            Err(PathError::NotRegular | PathError::Directory) => lost(entry, Why::Special),
            Err(_) => lost(entry, Why::Closed),
        }
    }
}

fn lock_in<T>(it: &Mutex<Vec<T>>) -> std::sync::MutexGuard<'_, Vec<T>> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a content before it is read.
fn unread(stamp: &Stamp) -> Content {
    if stamp.is_directory() {
        Content::None
    } else if stamp.is_file() || stamp.is_link() {
        Content::Lost(Why::Budget)
    } else {
        Content::Lost(Why::Special)
    }
}

fn directories(listing: &Listing) -> Vec<Box<[u8]>> {
    listing.iter().filter(|it| it.stamp.is_directory()).map(|it| it.name.clone()).collect()
}
