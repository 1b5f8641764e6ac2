//! A program's changes of its copy of the workspace, read from the upper directory of the overlay when the program has
//! ended. It compares, and decides nothing.
//!
//! | in the upper directory | means |
//! |---|---|
//! | a character device | the name was deleted |
//! | a directory marked opaque | it was replaced: what the workspace has below it is deleted |
//! | a directory | it was entered; its own mode is compared |
//! | a file, a link | compared with the workspace: what is the same was opened for writing only |
//!
//! The format is the kernel's (Documentation/filesystems/overlayfs.rst), with `userxattr`.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::scratch::Layer;
use crate::files::{
    Layers, PathError, Root, Seen, Stamp, SurveyEnd, SurveyLimits, Table, Unseen, holes, is_copied_up, is_opaque,
};

/// Entries of a directory that has all files: of a larger one no command's changes are found.
const WHOLE_ENTRIES_MAX: usize = 2_000_000;
/// Clocks of file systems go in ticks: a change in the same tick as the copy may be older or newer.
const TICK_NS: i64 = 10_000_000;
/// Longest target of a link, as in Linux (`PATH_MAX`).
const TARGET_BYTES_MAX: u64 = 4096;

/// Limits of what is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectLimits {
    /// Entries, deleted ones included.
    pub entries_max: usize,
    /// Time that it may take.
    pub time: Duration,
}

impl Default for CollectLimits {
    fn default() -> Self {
        // A flood of 200,000 files beside some others is still listed by name.
        Self { entries_max: 250_000, time: Duration::from_secs(30) }
    }
}

/// Reason why changes can't be collected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectError {
    /// There are more entries than the limit.
    #[error("they are more than {0} files and directories")]
    TooMany(usize),
    /// Took too long.
    #[error("they could not be collected in {} s", .0.as_secs())]
    Slow(Duration),
    /// The copy or the workspace can't be read.
    #[error("{}: {error}", path.display())]
    Path {
        /// The unreadable path.
        path: PathBuf,
        /// The reason.
        error: PathError,
    },
}

/// The change at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A file is new, or has another content or mode; the content lies at `source`.
    File {
        /// Its permission bits.
        mode: u32,
        /// Its size.
        bytes: u64,
        /// Path of its content in the upper directory.
        source: PathBuf,
    },
    /// A link is new, or leads elsewhere.
    Link {
        /// Its target.
        target: PathBuf,
    },
    /// A directory is new, or has another mode.
    Directory {
        /// Its permission bits.
        mode: u32,
    },
    /// Gone.
    Deleted,
}

/// One path that a program changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// The change.
    pub kind: ChangeKind,
    /// The workspace's entry there when this was collected; `None` if the path is new.
    pub before: Option<Stamp>,
    /// Another program has changed it in the workspace since the copy was made.
    pub is_contested: bool,
    /// Number of other names of the earlier file that the program didn't change: a copy has no links to the original, so they
    /// retain the old content.
    pub other_names: u64,
    /// True if it has permission bits by which it would run as another user; those aren't applied.
    pub has_privilege: bool,
    /// True if its name is protected, but all changes together make it harmless; the caller decides on that.
    pub is_cleared: bool,
    /// Reason why it is never applied without a question that names it; the caller decides on that.
    pub protected: Option<&'static str>,
}

/// Everything that a program changed, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The changes, sorted by path.
    pub items: Vec<Change>,
    /// Pipes and sockets, which aren't applied.
    pub left_out: Vec<PathBuf>,
}

impl Changes {
    /// Returns whether the program changed nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.left_out.is_empty()
    }
}

/// Reads what a program changed on the copy of `workspace`, which is one directory or several over each other; the program has
/// ended.
///
/// # Errors
/// There are too many changes, or they can't be read.
pub fn collect(layer: &Layer, workspace: &Layers, limits: &CollectLimits) -> Result<Changes, CollectError> {
    let upper =
        Root::open(&layer.upper, None).map_err(|error| CollectError::Path { path: layer.upper.clone(), error })?;
    let collector = Collector::of((&upper, layer), workspace, limits);
    let table = collector.table()?;
    collector.directory(Path::new(""), true, &table.directories)?;
    let since_ns = layer.since_ns;
    let mut changes = collector.changes();
    contest_vanished(&mut changes.items, workspace, since_ns);
    count_other_names(&mut changes.items, workspace);
    Ok(changes)
}

/// Reads what a program changed in a directory that had the files of `workspace` before and the state in `before`; the program
/// has ended.
///
/// # Errors
/// As of [`collect`].
pub fn collect_whole(
    (directory, before): (&Path, &Table),
    layer: &Layer,
    workspace: &Layers,
    limits: &CollectLimits,
) -> Result<Changes, CollectError> {
    let whole =
        Root::open(directory, None).map_err(|error| CollectError::Path { path: directory.to_owned(), error })?;
    // Unchanged entries don't count against the program's limit.
    let all = CollectLimits { entries_max: limits.entries_max.max(WHOLE_ENTRIES_MAX), ..*limits };
    let collector = Collector::of((&whole, layer), workspace, limits);
    let now = Collector::of((&whole, layer), workspace, &all).table()?;
    for path in before.differing(&now) {
        collector.ended(SurveyEnd::Whole)?;
        let lower = collector.stamp(&path)?;
        match now.stamp(&path) {
            None if lower.is_some() => collector.note(&path, ChangeKind::Deleted, lower)?,
            None => {}
            Some(stamp) if stamp.is_directory() => collector.own_mode(&path, stamp, lower)?,
            Some(stamp) => collector.entry(&path, stamp, lower)?,
        }
    }
    Ok(collector.changes())
}

/// Sorts the changes. A path that was replaced by something of another kind was noted as deleted and as new: that is one change.
fn one_for_each_path(mut items: Vec<Change>) -> Vec<Change> {
    items.sort_by(|left, right| left.path.cmp(&right.path));
    if items.windows(2).all(|pair| pair[0].path.as_os_str() != pair[1].path.as_os_str()) {
        return items;
    }
    let mut all: Vec<Change> = Vec::with_capacity(items.len());
    for item in items {
        match all.last_mut().filter(|last| last.path == item.path) {
            Some(last) => {
                last.before = last.before.or(item.before);
                last.is_contested |= item.is_contested;
                if item.kind != ChangeKind::Deleted {
                    last.kind = item.kind;
                }
            }
            None => all.push(item),
        }
    }
    all
}

/// Marks files as contested that another program deleted while this one changed them: the upper directory has a copy of a file
/// that no longer exists, in a directory that was changed since. A file that the program itself moved is such a copy, too, so up
/// to as many as it has deleted are tolerated.
fn contest_vanished(items: &mut [Change], workspace: &Layers, since_ns: i64) {
    let vanished = vanished(items, workspace, since_ns);
    let is_gone = |it: &&Change| it.kind == ChangeKind::Deleted && it.before.is_some_and(|it| it.is_file());
    if vanished.len() <= items.iter().filter(is_gone).count() {
        return;
    }
    vanished.iter().for_each(|at| items[*at].is_contested = true);
    // So are the directories that were deleted with them.
    let above = |is_contested: bool| {
        let is_leaf =
            |it: &&Change| !matches!(it.kind, ChangeKind::Directory { .. }) && it.is_contested == is_contested;
        let paths = items.iter().filter(is_leaf).flat_map(|it| it.path.ancestors().skip(1).map(Path::to_owned));
        paths.collect::<HashSet<PathBuf>>()
    };
    let (contested, others) = (above(true), above(false));
    for item in items.iter_mut().filter(|it| it.before.is_none()) {
        item.is_contested |= contested.contains(&item.path) && !others.contains(&item.path);
    }
}

/// Returns the places of copies of files that may be gone from the workspace.
fn vanished<'i>(items: &'i [Change], workspace: &Layers, since_ns: i64) -> Vec<usize> {
    let look = |directory: &Path| {
        let mut above = directory.ancestors().filter_map(|it| workspace.stamp(it).ok().flatten());
        above.next().is_some_and(|it| it.changed_ns >= since_ns - TICK_NS)
    };
    // Thousands of files lie in the same directories, and most of those in one follow each other.
    let mut known: HashMap<&Path, bool> = HashMap::new();
    let mut last = None::<(&Path, bool)>;
    let mut is_recent = |path: &'i Path| {
        let directory = path.parent().unwrap_or(Path::new(""));
        match last.filter(|(it, _)| it.as_os_str() == directory.as_os_str()) {
            Some((_, found)) => found,
            None => {
                let found = *known.entry(directory).or_insert_with(|| look(directory));
                last.insert((directory, found)).1
            }
        }
    };
    let mut is_vanished = |it: &'i Change| match &it.kind {
        // One with two names was linked.
        ChangeKind::File { source, .. } if it.before.is_none() => {
            is_recent(&it.path)
                && fs::symlink_metadata(source).is_ok_and(|data| data.nlink() == 1)
                && is_copied_up(source)
        }
        _ => false,
    };
    (0..items.len()).filter(|at| is_vanished(&items[*at])).collect()
}

/// Counts the names of a changed file that retain the old content.
fn count_other_names(items: &mut [Change], workspace: &Layers) {
    let file = |it: &Change| it.before.filter(Stamp::is_file).map(|stamp| stamp.inode);
    let mut changed: HashMap<u64, u64> = HashMap::new();
    items.iter().filter_map(file).for_each(|inode| *changed.entry(inode).or_default() += 1);
    for item in items.iter_mut().filter(|it| it.kind != ChangeKind::Deleted) {
        if let Some(inode) = file(item) {
            item.other_names = workspace.names(&item.path).saturating_sub(changed[&inode]);
        }
    }
}

struct Collector<'a> {
    layer: &'a Layer,
    upper: &'a Root,
    lower: &'a Layers,
    limits: &'a CollectLimits,
    deadline: Instant,
    changes: Mutex<Changes>,
}

/// The entries of each directory.
type Directories = BTreeMap<PathBuf, Vec<Seen>>;

impl<'a> Collector<'a> {
    fn of((upper, layer): (&'a Root, &'a Layer), lower: &'a Layers, limits: &'a CollectLimits) -> Self {
        let deadline = Instant::now() + limits.time;
        Self { layer, upper, lower, limits, deadline, changes: Mutex::default() }
    }

    /// Returns what was found, by path.
    fn changes(self) -> Changes {
        let mut changes = self.changes.into_inner();
        changes.items = one_for_each_path(changes.items);
        changes.left_out.sort();
        changes
    }

    /// Reads all directories of the copy. It is ours, whatever its directories let a program do.
    fn table(&self) -> Result<Table, CollectError> {
        let survey = SurveyLimits { entries_max: self.limits.entries_max, deadline: self.deadline };
        Table::of_ours(self.upper, survey).map_err(|why| match why {
            Unseen::Entries => CollectError::TooMany(self.limits.entries_max),
            Unseen::Time => CollectError::Slow(self.limits.time),
            Unseen::Closed(path) => CollectError::Path { path, error: PathError::System(nix::errno::Errno::EACCES) },
        })
    }

    fn ended(&self, end: SurveyEnd) -> Result<(), CollectError> {
        match end {
            SurveyEnd::Whole if Instant::now() < self.deadline => Ok(()),
            SurveyEnd::Entries => Err(CollectError::TooMany(self.limits.entries_max)),
            SurveyEnd::Whole | SurveyEnd::Time => Err(CollectError::Slow(self.limits.time)),
        }
    }

    /// Compares what the upper directory has at `path` with the workspace. `is_merged` says that what the workspace has
    /// below shows through.
    fn directory(&self, path: &Path, is_merged: bool, all: &Directories) -> Result<(), CollectError> {
        self.ended(SurveyEnd::Whole)?;
        let Some(entries) = all.get(path) else { return Ok(()) };
        for Seen { name, stamp } in entries {
            let path = joined(path, OsStr::from_bytes(name));
            let lower = if is_merged { self.stamp(&path)? } else { None };
            if stamp.is_directory() {
                let shows = lower.is_some_and(|it| it.is_directory());
                let is_merged = shows && !is_opaque(&self.upper.path().join(&path));
                self.own_mode(&path, stamp, lower)?;
                if shows && !is_merged {
                    let is_written = |path: &Path| self.upper_has(path);
                    self.deleted_below(&path, &is_written)?;
                    self.replaced(&path, all)?;
                } else {
                    self.directory(&path, is_merged, all)?;
                }
            } else {
                self.entry(&path, stamp, lower)?;
            }
        }
        Ok(())
    }

    /// Compares a directory without its contents.
    fn own_mode(&self, path: &Path, stamp: &Stamp, lower: Option<Stamp>) -> Result<(), CollectError> {
        match lower {
            Some(lower) if !lower.is_directory() => self.note(path, ChangeKind::Deleted, Some(lower))?,
            _ => {}
        }
        let mode = stamp.permissions() & 0o1777;
        let before = lower.filter(|it| it.is_directory());
        if before.is_none_or(|it| it.permissions() & 0o1777 != mode) {
            self.note_with(path, ChangeKind::Directory { mode }, before, has_privilege(stamp))?;
        }
        Ok(())
    }

    /// Compares below a directory that replaces one of the workspace: entries that both have are compared, although the old ones
    /// don't show through.
    fn replaced(&self, path: &Path, all: &Directories) -> Result<(), CollectError> {
        self.directory(path, true, all)
    }

    fn entry(&self, path: &Path, stamp: &Stamp, lower: Option<Stamp>) -> Result<(), CollectError> {
        let source = joined(self.upper.path(), path.as_os_str());
        let is_device = stamp.mode & libc::S_IFMT == libc::S_IFCHR;
        if is_device {
            return match lower {
                Some(lower) => self.deleted(path, lower),
                None => Ok(()),
            };
        }
        if let Some(directory) = lower.filter(|it| it.is_directory()) {
            self.deleted(path, directory)?;
        }
        let lower = lower.filter(|it| !it.is_directory());
        if stamp.is_link() {
            let target = fs::read_link(&source).map_err(|error| self.failed(path, &error))?;
            let is_same = lower.is_some_and(|it| it.is_link())
                && self
                    .lower
                    .held(path, TARGET_BYTES_MAX)
                    .is_ok_and(|(_, before)| before == target.as_os_str().as_bytes());
            return if is_same { Ok(()) } else { self.note(path, ChangeKind::Link { target }, lower) };
        }
        if !stamp.is_file() {
            self.changes.lock().left_out.push(path.to_owned());
            return Ok(());
        }
        // Bits that would let it run as another user aren't applied.
        let mode = stamp.permissions() & 0o1777;
        let is_same = lower
            .is_some_and(|it| it.is_file() && it.size == stamp.size && it.permissions() & 0o1777 == mode)
            && self.holds_the_same(path, &source)?;
        if is_same {
            return Ok(());
        }
        self.note_with(path, ChangeKind::File { mode, bytes: stamp.size, source }, lower, has_privilege(stamp))
    }

    /// Notes that a path of the workspace is gone, with all below it.
    fn deleted(&self, path: &Path, lower: Stamp) -> Result<(), CollectError> {
        if lower.is_directory() {
            self.deleted_below(path, &|_| false)?;
        }
        self.note(path, ChangeKind::Deleted, Some(lower))
    }

    /// Notes that everything below a directory of the workspace is gone, apart from what was written.
    fn deleted_below(&self, path: &Path, is_written: &(dyn Fn(&Path) -> bool + Sync)) -> Result<(), CollectError> {
        let survey = SurveyLimits { entries_max: self.limits.entries_max, deadline: self.deadline };
        let failure = Mutex::new(None);
        let end = self.lower.survey(path, survey, &|path, stamp| {
            if !is_written(path)
                && let Err(error) = self.note(path, ChangeKind::Deleted, Some(stamp))
            {
                *failure.lock() = Some(error);
            }
        });
        let end = end.map_err(|error| CollectError::Path { path: path.to_owned(), error })?;
        failure.into_inner().map_or(Ok(()), Err)?;
        self.ended(end)
    }

    fn upper_has(&self, path: &Path) -> bool {
        self.upper.stamp(path).is_ok_and(|found| found.is_some_and(|it| it.mode & libc::S_IFMT != libc::S_IFCHR))
    }

    fn note(&self, path: &Path, kind: ChangeKind, before: Option<Stamp>) -> Result<(), CollectError> {
        self.note_with(path, kind, before, false)
    }

    fn note_with(
        &self,
        path: &Path,
        kind: ChangeKind,
        before: Option<Stamp>,
        has_privilege: bool,
    ) -> Result<(), CollectError> {
        let is_contested = before.is_some_and(|it| {
            // A directory's time changes with each name in it.
            !it.is_directory() && it.changed_ns >= self.layer.since_ns - TICK_NS
        });
        let mut changes = self.changes.lock();
        if changes.items.len() >= self.limits.entries_max {
            return Err(CollectError::TooMany(self.limits.entries_max));
        }
        let path = path.to_owned();
        changes.items.push(Change {
            path,
            kind,
            before,
            is_contested,
            other_names: 0,
            has_privilege,
            is_cleared: false,
            protected: None,
        });
        Ok(())
    }

    fn stamp(&self, path: &Path) -> Result<Option<Stamp>, CollectError> {
        match self.lower.stamp(path) {
            Ok(stamp) => Ok(stamp),
            // A file or a link of the workspace is in the way: none of it shows through.
            Err(PathError::NotDirectory | PathError::Outside) => Ok(None),
            Err(error) => Err(CollectError::Path { path: path.to_owned(), error }),
        }
    }

    fn holds_the_same(&self, path: &Path, source: &Path) -> Result<bool, CollectError> {
        let Ok(before) = self.lower.open_found(path) else { return Ok(false) };
        let Ok(after) = File::open(source) else { return Ok(false) };
        match holes::are_equal(&before, &after, &|| Instant::now() < self.deadline) {
            Ok(Some(is_equal)) => Ok(is_equal),
            Ok(None) => Err(CollectError::Slow(self.limits.time)),
            Err(_) => Ok(false),
        }
    }

    fn failed(&self, path: &Path, error: &std::io::Error) -> CollectError {
        let errno = nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        CollectError::Path { path: path.to_owned(), error: errno.into() }
    }
}

/// A path below a directory, in one piece of memory from the beginning.
fn joined(directory: &Path, name: &OsStr) -> PathBuf {
    let mut path = PathBuf::with_capacity(directory.as_os_str().len() + 1 + name.len());
    path.push(directory);
    path.push(name);
    path
}

/// Returns whether permission bits let a program run as another user.
fn has_privilege(stamp: &Stamp) -> bool {
    stamp.permissions() & 0o6000 != 0
}

/// A file system that is mounted below a directory.
pub(super) fn mount_below(directory: &Path) -> Option<PathBuf> {
    let directory = directory.canonicalize().ok()?;
    let table = fs::read("/proc/self/mountinfo").ok()?;
    // The fifth field, with `\040` and the like for blanks (proc_pid_mountinfo(5)); an escaped part below is a mount too.
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let mut points = points.map(|point| PathBuf::from(OsStr::from_bytes(point)));
    points.find(|point| point.starts_with(&directory) && *point != directory)
}
