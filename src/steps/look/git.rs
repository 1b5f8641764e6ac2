//! The user's repository: its position, to be reported with a step, since undo doesn't cover it; and the contents of the
//! workspace that it has anyway. It is read and never changed, and nothing that its config names is run.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gix::ObjectId;
use gix::bstr::ByteSlice;

use crate::base::git_index::{Entries, Entry, Stat};
use crate::files::{PATH_BYTES_MAX, Root, Stamp, read_plain};
use crate::steps::store::packs::{Held, Packs};

/// A file that was changed so shortly before the index was written can't be recognised by its stamp: some file systems count in
/// steps of 2 s, and the index may be on another one.
const RACY_NS: i64 = 3_000_000_000;
/// Longest index that is read, in bytes: that of two million files.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of all paths for each byte of the index: an index of version 4 has only the ends of paths, which a made-up one may let
/// grow without a limit.
const PATHS_PER_BYTE: usize = 4;
/// Bytes of the name of a content, SHA-1.
const ID_BYTES: usize = 20;
/// Modes of plain files.
const FILE_MODES: [u32; 2] = [0o100_644, 0o100_755];
/// Limits on the number and the size of files of attributes.
const ATTRIBUTES_MAX: usize = 1_000;
const ATTRIBUTES_BYTES_MAX: u64 = 1024 * 1024;
/// A pointer of Git LFS is shorter than that, as its specification says.
const LFS_POINTER_BYTES: u64 = 1024;

/// Opens the repository whose work tree the workspace is.
fn open(workspace: &Path) -> Option<gix::Repository> {
    let git = workspace.join(".git");
    git.symlink_metadata().ok()?;
    // The library would wait for a pipe.
    let is_pipe = |name: &str| git.join(name).metadata().is_ok_and(|data| !data.is_file());
    if ["HEAD", "config", "commondir", "packed-refs", "refs/stash"].iter().any(|name| is_pipe(name)) {
        return None;
    }
    gix::open_opts(workspace, gix::open::Options::isolated()).ok()
}

/// The state of HEAD and the stash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::steps) struct Standing {
    branch: String,
    commit: String,
    stash: String,
}

impl Standing {
    /// Reads it; `None` if HEAD can't be read.
    fn of(repository: &gix::Repository) -> Option<Self> {
        let short = |id: gix::Id<'_>| id.detach().to_hex_with_len(9).to_string();
        let head = repository.head().ok()?;
        let branch = head.referent_name().map(|name| name.shorten().to_string()).unwrap_or_default();
        let commit = head.id().map(short).unwrap_or_default();
        let stash = repository.try_find_reference("refs/stash").ok().flatten();
        let stash = stash.and_then(|found| found.try_id().map(short)).unwrap_or_default();
        Some(Self { branch, commit, stash })
    }

    /// Describes what has moved; empty if nothing has.
    pub(in crate::steps) fn moved(before: Option<&Self>, after: Option<&Self>) -> Vec<String> {
        let (before, after) = match (before, after) {
            (None, None) => return Vec::new(),
            (None, Some(_)) => return vec!["git: a repository was made; undo leaves .git as it is".to_owned()],
            (Some(_), None) => {
                return vec!["git: .git has gone or can't be read; undo doesn't bring it back".to_owned()];
            }
            (Some(before), Some(after)) => (before, after),
        };
        let none = |text: &str| if text.is_empty() { "nothing".to_owned() } else { text.to_owned() };
        let mut moved = Vec::new();
        for (what, old, new) in [
            ("the branch", &before.branch, &after.branch),
            ("HEAD", &before.commit, &after.commit),
            ("the stash", &before.stash, &after.stash),
        ] {
            if old != new {
                moved.push(format!("git: {what} moved from {} to {}; undo leaves it there", none(old), none(new)));
            }
        }
        moved
    }
}

/// The workspace's contents in the user's repository. Only objects in its packs count: there are few packs, so they can be held
/// open while a command runs.
pub(in crate::steps) struct Theirs {
    /// The state of HEAD and the stash.
    pub(in crate::steps) standing: Standing,
    held: Held,
    /// The packs, open during a snapshot.
    packs: OnceLock<Packs>,
    longest: u64,
    index: PathBuf,
    attributes: PathBuf,
}

impl Theirs {
    /// Opens it; `None` if there is no repository, or it can't be read. Contents up to `longest` bytes count.
    pub(in crate::steps) fn of(workspace: &Path, longest: u64) -> Option<Self> {
        let repository = open(workspace)?;
        if repository.object_hash() != gix::hash::Kind::Sha1 {
            return None;
        }
        let held = Held::of(repository.objects.store_ref().path());
        let attributes = repository.common_dir().join("info/attributes");
        let standing = Standing::of(&repository).unwrap_or_default();
        Some(Self { standing, held, packs: OnceLock::new(), longest, index: repository.index_path(), attributes })
    }

    /// Returns the names that identify its packs at one time.
    pub(in crate::steps) fn names(&self) -> BTreeSet<PathBuf> {
        self.held.names()
    }

    /// Its packs.
    pub(in crate::steps) fn packs(&self) -> &Packs {
        self.packs.get_or_init(|| self.held.packs(self.longest))
    }

    /// Closes the packs but still holds them.
    pub(in crate::steps) fn closed(self) -> Self {
        Self { packs: OnceLock::new(), ..self }
    }
}

/// Returns whether two files are git's index with the same entries, apart from times and inodes of files, which git refreshes. An
/// index that is split over two files equals no other one.
#[must_use]
pub fn are_alike_indices(before: &Path, after: &Path) -> bool {
    let read = |path: &Path| Some(read_plain(path, INDEX_BYTES_MAX).ok()?.1);
    read(before).zip(read(after)).is_some_and(|(before, after)| are_alike_contents(&before, &after))
}

/// The same for two contents.
pub(in crate::steps) fn are_alike_contents(before: &[u8], after: &[u8]) -> bool {
    let entries = |bytes| Entries::of(bytes, ID_BYTES).filter(|_| is_intact(bytes));
    let (Some(mut before), Some(mut after)) = (entries(before), entries(after)) else { return false };
    loop {
        let both = match (before.next_entry(), after.next_entry()) {
            (Some(before), Some(after)) => [before, after],
            (None, None) => break,
            _ => return false,
        };
        // No file has a longer path, and comparing many of them takes long.
        let is_long = both[0].path.len() > PATH_BYTES_MAX;
        let [before, after] = both.map(|it| (it.path, it.id, it.mode, it.flags));
        if is_long || before != after {
            return false;
        }
    }
    before.is_whole() && after.is_whole()
}

/// Returns whether an index ends with the hash of its content; git may write zeros instead.
fn is_intact(index: &[u8]) -> bool {
    let Some((content, sum)) = index.split_last_chunk::<ID_BYTES>() else { return false };
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    let is_own = |hasher: gix::hash::Hasher| hasher.try_finalize().is_ok_and(|it| it.as_bytes() == sum);
    *sum == [0; ID_BYTES] || {
        hasher.update(content);
        is_own(hasher)
    }
}

/// The hashes of contents in git's index: if the stamp of an entry is that of the file, its hash is that of the content, unless
/// git converted the content on the way.
pub(in crate::steps) struct Index {
    /// The entries that are sure, in the order of their paths, which lie one after the other.
    entries: Vec<Known>,
    paths: Vec<u8>,
    written_ns: i64,
    /// Shorter files may differ from git's version of them.
    shortest: u64,
}

/// An entry of the index, with the place of its path.
struct Known {
    path: Range<usize>,
    id: ObjectId,
    stat: Stat,
}

impl Index {
    /// Reads it; `None` if it can't be read or is split over two files, or if a filter or an encoding is between files and
    /// contents. `attributes` are the existing files of attributes.
    pub(in crate::steps) fn read(theirs: &Theirs, root: &Root, attributes: &[PathBuf]) -> Option<Self> {
        let (data, bytes) = read_plain(&theirs.index, INDEX_BYTES_MAX).ok().filter(|(_, bytes)| is_intact(bytes))?;
        let written_ns = data.mtime().checked_mul(1_000_000_000)?.checked_add(data.mtime_nsec())?;
        let mut index = Self { entries: Vec::new(), paths: Vec::new(), written_ns, shortest: 0 };
        // A missing file of attributes still counts, in the version of the index.
        let mut absent = Vec::new();
        let mut entries = Entries::of(&bytes, ID_BYTES)?;
        while let Some(entry) = entries.next_entry() {
            let is_attributes = entry.path == b".gitattributes" || entry.path.ends_with(b"/.gitattributes");
            if is_attributes && !attributes.iter().any(|it| it.as_os_str().as_bytes() == entry.path) {
                absent.push(ObjectId::from_bytes_or_panic(entry.id));
            }
            if absent.len() > ATTRIBUTES_MAX || index.paths.len() > bytes.len().saturating_mul(PATHS_PER_BYTE) {
                return None;
            }
            index.add(&entry);
        }
        if !entries.is_whole() {
            return None;
        }
        let mut texts: Vec<Option<Vec<u8>>> = absent.iter().map(|id| theirs.packs().content(id)).collect();
        texts.extend(attributes.iter().map(|path| Some(root.held(path, ATTRIBUTES_BYTES_MAX).ok()?.1)));
        texts.push(match theirs.attributes.symlink_metadata() {
            Ok(_) => read_plain(&theirs.attributes, ATTRIBUTES_BYTES_MAX).ok().map(|(_, text)| text),
            Err(_) => Some(Vec::new()),
        });
        if texts.len() > ATTRIBUTES_MAX {
            return None;
        }
        for text in texts {
            index.shortest = index.shortest.max(shortest_plain(&text?)?);
        }
        Some(index)
    }

    /// Adds an entry that is a plain file of which git is sure: in no conflict, and expected as it is.
    fn add(&mut self, entry: &Entry<'_>) {
        if entry.flags != [0, 0] || !FILE_MODES.contains(&entry.mode) || entry.path.len() > PATH_BYTES_MAX {
            return;
        }
        let from = self.paths.len();
        self.paths.extend_from_slice(entry.path);
        let id = ObjectId::from_bytes_or_panic(entry.id);
        self.entries.push(Known { path: from..self.paths.len(), id, stat: entry.stat });
    }

    /// Returns the hash of a file's content, found by its stamp. The caller checks with the packs whether that content has the
    /// file's length: it doesn't if line ends or an `$Id$` were converted.
    pub(in crate::steps) fn says(&self, path: &Path, stamp: &Stamp) -> Option<ObjectId> {
        let path = path.as_os_str().as_bytes();
        let at = self.entries.binary_search_by(|entry| self.paths[entry.path.clone()].cmp(path)).ok()?;
        let entry = &self.entries[at];
        let is_racy = stamp.modified_ns.max(stamp.changed_ns).saturating_add(RACY_NS) > self.written_ns;
        if !stamp.is_file() || is_racy || stamp.size < self.shortest {
            return None;
        }
        // The index has the low 32 bits of each.
        let low = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or(0);
        let is_then = |[seconds, nanoseconds]: [u32; 2], ns: i64| {
            u64::try_from(ns.div_euclid(1_000_000_000)).is_ok_and(|it| low(it) == seconds)
                && i64::from(nanoseconds) == ns.rem_euclid(1_000_000_000)
        };
        let stat = &entry.stat;
        let is_same = is_then(stat.modified, stamp.modified_ns)
            && is_then(stat.changed, stamp.changed_ns)
            && stat.inode == low(stamp.inode)
            && stat.size == low(stamp.size);
        is_same.then_some(entry.id)
    }
}

/// Returns the length below which a file may differ from git's version according to a file of attributes; `None` if the
/// attributes may change any file.
pub(in crate::steps) fn shortest_plain(attributes: &[u8]) -> Option<u64> {
    let mut shortest = 0;
    for line in attributes.lines() {
        for word in line.fields().skip(1) {
            if word == b"filter=lfs" {
                shortest = LFS_POINTER_BYTES;
            } else if word.starts_with(b"filter") || word.starts_with(b"working-tree-encoding") {
                return None;
            }
        }
    }
    Some(shortest)
}
