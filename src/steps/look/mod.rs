//! A snapshot of the workspace: the present entries, compared with the earlier ones, and the new contents stored. Files with an
//! unchanged stamp aren't read.

mod gather;
pub(in crate::steps) mod git;
pub(in crate::steps) mod secure;

use parking_lot::Mutex;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::look::git::Theirs;
use super::store::Store;
use super::store::error::{Limits, StepsError};
use super::store::state::Why;
use super::store::table::{Content, Entry, Listing, Table, joined};
use crate::files::{Looked, Root, Seen, Stamp, SurveyEnd, SurveyLimits};

/// First bytes of a file that says of its directory that it is a cache.
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// Prefix of the directory for waiting contents.
pub(in crate::steps) const STAGE_PREFIX: &str = ".reedclaw-undo-";

/// The inputs of a look.
pub(in crate::steps) struct Look<'a> {
    pub(in crate::steps) root: &'a Root,
    pub(in crate::steps) store: &'a Store,
    pub(in crate::steps) limits: &'a Limits,
    /// Paths from the root that aren't covered.
    pub(in crate::steps) left_out: &'a [PathBuf],
    /// The contents of the user's repository.
    pub(in crate::steps) theirs: Option<&'a Theirs>,
    /// True in the background: then entries known only from git's index are compared too, and few new contents are stored.
    pub(in crate::steps) is_ahead: bool,
}

/// A directory, its entries, and whether some of their contents aren't known yet.
pub(in crate::steps) type Found = (PathBuf, Arc<Listing>, bool);

impl Look<'_> {
    /// Makes the snapshot; returns the present table, and the number of bytes that were written for it.
    pub(in crate::steps) fn now(&self, before: &Table) -> Result<(Table, u64), StepsError> {
        let started = Instant::now();
        let found = Mutex::new(Vec::new());
        let skipped = Mutex::new(Vec::new());
        let limits = SurveyLimits { entries_max: self.limits.files_max, deadline: started + self.limits.look_time };
        let has_all = self.theirs.is_some_and(|theirs| before.packs.is_subset(&theirs.names()));
        let end = self.root.survey(limits, &|looked| {
            let path = looked.path.to_owned();
            let mut left_out = Vec::new();
            let listing = self.listing(looked, before.directories.get(&path), has_all, &mut left_out);
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
        let mut found = found.into_inner();
        let mut table = Table { packs: self.theirs.map(Theirs::names).unwrap_or_default(), ..Table::default() };
        table.skipped.extend(skipped.into_inner());
        let held = before.kept_bytes();
        let written = self.gather(&mut found, held)?;
        table.directories.extend(found.into_iter().map(|(path, listing, _)| (path, listing)));
        Ok((table, written))
    }

    /// Lists a directory with the known contents, and whether some are unknown. `None` if it isn't covered.
    fn listing(
        &self,
        looked: Looked<'_>,
        before: Option<&Arc<Listing>>,
        has_all: bool,
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
                // Contents that were skipped for lack of time are tried again, and so are those that git no longer has.
                let same = same.filter(|(old, _)| match old.content {
                    Content::Lost(why) => why != Why::Budget,
                    Content::Packed { id, .. } => has_all || self.theirs.is_some_and(|it| it.packs().hold(&id)),
                    Content::None | Content::Kept(_) => true,
                });
                known.push(same.map(|(old, _)| (old.content, old.is_racy)));
            }
        });
        let mut is_new = false;
        for (entry, known) in listing.iter_mut().zip(known) {
            match known {
                Some((content, is_racy)) => {
                    (entry.content, entry.is_racy) = (content, is_racy);
                    is_new |= self.is_ahead && matches!(content, Content::Packed { is_read: false, .. });
                }
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
}

/// Place where an entry of a directory is.
pub(in crate::steps) fn path_of(directory: &Path, entry: &Entry) -> PathBuf {
    directory.join(std::ffi::OsStr::from_bytes(&entry.name))
}

fn lock_in<T>(it: &Mutex<Vec<T>>) -> parking_lot::MutexGuard<'_, Vec<T>> {
    it.lock()
}

/// Returns what is known of the content before reading.
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
