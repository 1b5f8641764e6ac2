//! The files of a checkout that no commit has, counted in this process: git's index records how each file was when git last read
//! it, and only files that look different are read. Nothing is written, nothing that the repository names is run, and no lock is
//! acquired.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::rules::Rules;
use crate::base::git_index::{Entries, Entry, Stat};
use crate::files::{Looked, PATH_BYTES_MAX, Root, Seen, Stamp, SurveyEnd, SurveyLimits, read_plain};
use crate::git::{GitError, Mode, Objects as _, Oid, Repo, empty_tree};

/// Longest index that is read, in bytes: that of two million files.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Limit on the entries of the checkout that are examined.
const ENTRIES_MAX: usize = 2_000_000;
/// Limits on the bytes of one file that is read for a comparison, and of all of them.
const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;
const READ_ALL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest file of rules that is read, in bytes.
const RULES_BYTES_MAX: u64 = 1024 * 1024;
/// Flags of an entry: git takes it for unchanged; it is in conflict.
const ASSUMED: u16 = 0x8000;
const CONFLICT: u16 = 0x3000;
/// Flags of an extended entry: the file needn't be there; it was only announced to git.
const SKIPPED: u16 = 0x4000;
const ANNOUNCED: u16 = 0x2000;

/// Numbers of files that aren't committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncommitted {
    /// Files in a conflict.
    pub in_conflict: usize,
    /// Files that the index has otherwise than the newest commit.
    pub staged: usize,
    /// Files that differ from the index, or are gone.
    pub changed: usize,
    /// Files that git doesn't know, a new directory counted once.
    pub untracked: usize,
    /// True if all of the checkout was examined.
    pub is_whole: bool,
}

impl fmt::Display for Uncommitted {
    /// Names the kinds that there are; nothing if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.in_conflict, "in conflict"),
            (self.staged, "staged"),
            (self.changed, "changed"),
            (self.untracked, "untracked"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        let least = if self.is_whole || counts.is_empty() { "" } else { "at least " };
        write!(f, "{least}{}", counts.join(", "))
    }
}

/// A file that the index has.
struct Tracked {
    name: Box<[u8]>,
    id: Oid,
    mode: u32,
    flags: [u16; 2],
    stat: Stat,
}

impl Tracked {
    /// Returns whether the file of this entry is to be in the checkout, as the entry says.
    fn is_expected(&self) -> bool {
        self.flags[0] & CONFLICT == 0
            && self.flags[1] & (SKIPPED | ANNOUNCED) == 0
            && self.mode != mode_of(Mode::Submodule)
    }
}

/// A directory of the index.
#[derive(Default)]
struct Directory {
    /// Its files, by name.
    files: Vec<Tracked>,
    directories: BTreeSet<Box<[u8]>>,
}

/// The index of a checkout, by directories.
struct Known {
    directories: HashMap<Vec<u8>, Directory>,
    /// The trees that git has made of directories, which nothing was staged in since.
    trees: HashMap<Vec<u8>, Oid>,
    expected: usize,
    in_conflict: usize,
    announced: usize,
    has_attributes: bool,
    /// Time when the index was written, in nanoseconds.
    written_ns: i64,
}

/// Counts the files of the checkout of `repo` that aren't committed, until `deadline`. `excludes` are lines of ignore files
/// outside of it. `None` if only git's program can know: the index is of a kind that isn't read here, or a filter is between a
/// file that may have changed and git's content of it.
///
/// # Errors
/// A tree of the newest commit can't be read.
pub fn uncommitted(
    repo: &Repo,
    checkout: &Root,
    excludes: Vec<String>,
    deadline: Instant,
) -> Result<Option<Uncommitted>, GitError> {
    let head = repo.head()?.commit.map_or(Ok(empty_tree()), |commit| repo.commit(commit).map(|it| it.tree))?;
    let Some(known) = Known::read(&repo.git_dir().join("index"), head.as_bytes().len()) else { return Ok(None) };
    let rules = |path: &Path| {
        let read = checkout.held_file(path, RULES_BYTES_MAX);
        read.map(|it| String::from_utf8_lossy(&it.bytes).into_owned()).unwrap_or_default()
    };
    let look = Look {
        known: &known,
        rules: Mutex::new(Rules::new(excludes, Box::new(rules))),
        seen: AtomicUsize::new(0),
        unsure: Mutex::default(),
        untracked: Mutex::default(),
        is_partial: AtomicBool::new(false),
    };
    let end = checkout.survey(SurveyLimits { entries_max: ENTRIES_MAX, deadline }, &|looked| look.visit(looked));
    let Look { rules, seen, unsure, untracked, is_partial, .. } = look;
    let mut is_whole = end == SurveyEnd::Whole && !is_partial.into_inner();
    // Files that the index expects and that don't exist were removed.
    let mut changed = if is_whole { known.expected.saturating_sub(seen.into_inner()) } else { 0 };
    let (mut rules, mut read) = (rules.into_inner(), 0);
    let others = [checkout.stamp(Path::new(".gitattributes")).is_ok_and(|it| it.is_some()), repo.has_own_attributes()];
    let has_attributes = known.has_attributes || others.contains(&true);
    for (path, tracked) in unsure.into_inner() {
        if read > READ_ALL_BYTES_MAX || Instant::now() > deadline {
            is_whole = false;
            break;
        }
        let Some(is_changed) = differs(repo, checkout, (&path, tracked), has_attributes, &mut rules) else {
            return Ok(None);
        };
        read += u64::from(tracked.stat.size);
        changed += usize::from(is_changed);
    }
    let staged = known.staged(repo, Path::new(""), head, deadline)?;
    is_whole &= staged.is_some();
    Ok(Some(Uncommitted {
        in_conflict: known.in_conflict,
        staged: staged.unwrap_or_default(),
        changed: changed + known.announced,
        untracked: untracked.into_inner().len(),
        is_whole,
    }))
}

/// Returns whether the content of a file differs from that in the index; `None` if a filter, or an encoding, may be in between.
fn differs(
    repo: &Repo,
    checkout: &Root,
    (path, tracked): (&Path, &Tracked),
    has_attributes: bool,
    rules: &mut Rules<'_>,
) -> Option<bool> {
    let is = |bytes: &[u8]| repo.blob_id(bytes) == Some(tracked.id);
    let Ok((stamp, bytes)) = checkout.held(path, READ_BYTES_MAX) else { return Some(true) };
    // Git takes another length for a change, too, unless it has noted none.
    let is_longer = tracked.stat.size != 0 && u64::from(tracked.stat.size) != stamp.size;
    if !is_kind(tracked.mode, &stamp) || is_longer {
        return Some(true);
    }
    if is(&bytes) {
        let is_other_mode = is_executable(tracked.mode) != (stamp.permissions() & 0o100 != 0);
        return Some(stamp.is_file() && is_other_mode && repo.trusts_modes());
    }
    if stamp.is_link() {
        return Some(true);
    }
    // Attributes may insert names of commits into a text (`$Id`), or recode text that has zeros in it.
    let may_be_rewritten = || bytes.contains(&0) || memchr::memmem::find(&bytes, b"$Id").is_some();
    if rules.filters(path) || has_attributes && may_be_rewritten() {
        return None;
    }
    // Git may hold it with other ends of lines.
    let converts = bytes.contains(&b'\r') && (has_attributes || repo.converts_line_ends());
    Some(!converts || !is(&with_plain_ends(&bytes)))
}

fn with_plain_ends(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            plain.push(*byte);
        }
    }
    plain
}

fn mode_of(mode: Mode) -> u32 {
    u32::from_str_radix(mode.octal(), 8).unwrap_or_default()
}

fn is_executable(mode: u32) -> bool {
    mode == mode_of(Mode::Executable)
}

/// Returns whether an entry of the checkout is of the kind that the index has.
fn is_kind(mode: u32, stamp: &Stamp) -> bool {
    if mode == mode_of(Mode::Link) { stamp.is_link() } else { stamp.is_file() }
}

impl Known {
    /// Reads an index; `None` if it can't be read, or a part of it is in another file. Without an index nothing is known.
    fn read(index: &Path, id_bytes: usize) -> Option<Self> {
        let mut known = Self {
            directories: HashMap::from([(Vec::new(), Directory::default())]),
            trees: HashMap::new(),
            expected: 0,
            in_conflict: 0,
            announced: 0,
            has_attributes: false,
            written_ns: 0,
        };
        if index.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Some(known);
        }
        let (data, bytes) = read_plain(index, INDEX_BYTES_MAX).ok()?;
        known.written_ns = data.mtime().checked_mul(1_000_000_000)?.checked_add(data.mtime_nsec())?;
        let mut entries = Entries::of(&bytes, id_bytes)?;
        let (mut last, mut conflict) = (Vec::new(), Vec::new());
        let mut files = Vec::new();
        while let Some(entry) = entries.next_entry() {
            if entry.path.len() > PATH_BYTES_MAX {
                return None;
            }
            let split = memchr::memrchr(b'/', entry.path);
            let (directory, name) =
                split.map_or((&b""[..], entry.path), |at| (&entry.path[..at], &entry.path[at + 1..]));
            if directory != last {
                known.put(&last, std::mem::take(&mut files));
                last = directory.to_vec();
            }
            if entry.flags[0] & CONFLICT != 0 {
                known.in_conflict += usize::from(conflict != entry.path);
                conflict = entry.path.to_vec();
            }
            files.extend(known.tracked(&entry, name));
        }
        known.put(&last, files);
        let trees = entries.cached_trees().into_iter();
        known.trees = trees.filter_map(|(path, id)| Some((path, Oid::try_from(id).ok()?))).collect();
        entries.is_whole().then_some(known)
    }

    fn tracked(&mut self, entry: &Entry<'_>, name: &[u8]) -> Option<Tracked> {
        self.has_attributes |= name == b".gitattributes";
        self.announced += usize::from(entry.flags[1] & ANNOUNCED != 0);
        let id = Oid::try_from(entry.id).ok()?;
        let tracked = Tracked { name: name.into(), id, mode: entry.mode, flags: entry.flags, stat: entry.stat };
        self.expected += usize::from(tracked.is_expected());
        Some(tracked)
    }

    /// Adds files of a directory, and the directories above it.
    fn put(&mut self, directory: &[u8], files: Vec<Tracked>) {
        let mut at = directory;
        while let Some(split) = memchr::memrchr(b'/', at).or((!at.is_empty()).then_some(0)) {
            let (above, name) = if at[split] == b'/' { (&at[..split], &at[split + 1..]) } else { (&b""[..], at) };
            if !self.directories.entry(above.to_vec()).or_default().directories.insert(name.into()) {
                break;
            }
            at = above;
        }
        self.directories.entry(directory.to_vec()).or_default().files.extend(files);
    }

    /// Number of files that the index has otherwise than a tree; `None` if there was no time.
    fn staged(&self, repo: &Repo, path: &Path, tree: Oid, deadline: Instant) -> Result<Option<usize>, GitError> {
        let name = path.as_os_str().as_bytes();
        if self.trees.get(name) == Some(&tree) {
            return Ok(Some(0));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        let none = Directory::default();
        let here = self.directories.get(name).unwrap_or(&none);
        // A sparse index has an entry for a whole directory.
        if let Some(whole) = here.files.first().filter(|it| it.name.is_empty()) {
            return Ok(Some(usize::from(whole.id != tree)));
        }
        let mut staged = 0;
        let mut below: BTreeSet<&[u8]> = here.directories.iter().map(|it| &**it).collect();
        let entries = repo.entries(tree)?;
        for entry in entries.iter().filter(|it| it.mode == Mode::Directory) {
            below.remove(&*entry.name);
            let inner = self.staged(repo, &path.join(OsStr::from_bytes(&entry.name)), entry.id, deadline)?;
            let Some(inner) = inner else { return Ok(None) };
            staged += inner;
        }
        let committed: HashMap<&[u8], (Mode, Oid)> =
            entries.iter().filter(|it| it.mode != Mode::Directory).map(|it| (&*it.name, (it.mode, it.id))).collect();
        let is_here = |name: &&&[u8]| here.files.binary_search_by(|it| (*it.name).cmp(name)).is_ok();
        staged += committed.len() - committed.keys().filter(is_here).count();
        let is_staged = |it: &&Tracked| {
            let is_plain = it.flags[0] & CONFLICT == 0 && it.flags[1] & ANNOUNCED == 0;
            is_plain && committed.get(&*it.name).is_none_or(|(mode, id)| *id != it.id || mode_of(*mode) != it.mode)
        };
        staged += here.files.iter().filter(is_staged).count();
        for name in below {
            let inner = self.staged(repo, &path.join(OsStr::from_bytes(name)), empty_tree(), deadline)?;
            let Some(inner) = inner else { return Ok(None) };
            staged += inner;
        }
        Ok(Some(staged))
    }
}

/// A survey of the checkout by several threads.
struct Look<'k> {
    known: &'k Known,
    rules: Mutex<Rules<'k>>,
    /// Files that are there as the index expects.
    seen: AtomicUsize,
    /// Files whose numbers differ from those in the index.
    unsure: Mutex<Vec<(PathBuf, &'k Tracked)>>,
    untracked: Mutex<BTreeSet<PathBuf>>,
    is_partial: AtomicBool,
}

impl Look<'_> {
    /// Examines one directory; returns its subdirectories to examine.
    fn visit(&self, looked: Looked<'_>) -> Vec<Box<[u8]>> {
        if looked.is_closed || !looked.elsewhere.is_empty() {
            self.is_partial.store(true, Ordering::Relaxed);
        }
        let Some(known) = self.known.directories.get(looked.path.as_os_str().as_bytes()) else {
            return self.visit_unknown(looked);
        };
        let (mut below, mut seen, mut unsure) = (Vec::new(), 0, Vec::new());
        for Seen { name, stamp } in looked.entries.into_iter().filter(|it| *it.name != *b".git") {
            if let Ok(at) = known.files.binary_search_by(|it| it.name.cmp(&name)) {
                let tracked = &known.files[at];
                if !tracked.is_expected() {
                    continue;
                }
                seen += 1;
                if !self.is_unchanged(tracked, &stamp) {
                    unsure.push((looked.path.join(OsStr::from_bytes(&name)), tracked));
                }
            } else if stamp.is_directory() && known.directories.contains(&name) {
                below.push(name);
            } else {
                below.extend(self.unknown(looked.path, name, &stamp, None));
            }
        }
        self.seen.fetch_add(seen, Ordering::Relaxed);
        if !unsure.is_empty() {
            self.unsure.lock().append(&mut unsure);
        }
        below
    }

    /// Examines a directory that git doesn't know.
    fn visit_unknown(&self, looked: Looked<'_>) -> Vec<Box<[u8]>> {
        let is_known = |path: &&Path| self.known.directories.contains_key(path.as_os_str().as_bytes());
        let top = looked.path.ancestors().take_while(|it| !is_known(it)).last().unwrap_or(looked.path).to_owned();
        if looked.entries.iter().any(|it| *it.name == *b".git") {
            self.untracked.lock().insert(top);
            return Vec::new();
        }
        let mut below = Vec::new();
        for Seen { name, stamp } in looked.entries {
            if self.untracked.lock().contains(&top) {
                return Vec::new();
            }
            below.extend(self.unknown(looked.path, name, &stamp, Some(&top)));
        }
        below
    }

    /// Counts an entry that git doesn't know and doesn't ignore, as the directory `top` if there is one; returns a directory to
    /// examine.
    fn unknown(&self, at: &Path, name: Box<[u8]>, stamp: &Stamp, top: Option<&Path>) -> Option<Box<[u8]>> {
        let path = at.join(OsStr::from_bytes(&name));
        if self.rules.lock().ignores_entry(&path, stamp.is_directory()) {
            return None;
        }
        if stamp.is_directory() {
            return Some(name);
        }
        if stamp.is_file() || stamp.is_link() {
            self.untracked.lock().insert(top.map_or(path, Path::to_owned));
        }
        None
    }

    /// Returns whether a file's numbers say that it is as git has read it last.
    fn is_unchanged(&self, tracked: &Tracked, stamp: &Stamp) -> bool {
        if tracked.flags[0] & ASSUMED != 0 {
            return true;
        }
        let low = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or(0);
        let is_then = |[seconds, nanoseconds]: [u32; 2], ns: i64| {
            u64::try_from(ns.div_euclid(1_000_000_000)).is_ok_and(|it| low(it) == seconds)
                && i64::from(nanoseconds) == ns.rem_euclid(1_000_000_000)
        };
        let stat = &tracked.stat;
        is_kind(tracked.mode, stamp)
            && (stamp.is_link() || is_executable(tracked.mode) == (stamp.permissions() & 0o100 != 0))
            && is_then(stat.modified, stamp.modified_ns)
            && is_then(stat.changed, stamp.changed_ns)
            && stat.inode == low(stamp.inode)
            && stat.size == low(stamp.size)
            // A file that was changed just when the index was written may have changed again since.
            && stamp.modified_ns < self.known.written_ns
    }
}
