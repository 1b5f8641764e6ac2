//! Tables of the entries beneath one of our directories at one time, by the system's facts about each, and the paths that differ
//! later. Nothing is read but directories.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::{Root, Seen, Stamp, SurveyEnd, SurveyLimits};

/// Permissions of a directory's owner.
const OWNERS: u32 = 0o700;
/// Two changes of a file so close to each other may leave the same stamp: the clocks of file systems tick every 10 ms at the
/// slowest.
const RACY_NS: i64 = 30_000_000;
/// First bytes of a table's file: what it is, and its version.
const HEAD: &[u8] = b"reedclaw-stamps 1\n";
/// Last bytes of a complete table.
const END: &[u8] = b"end\n";

/// Everything beneath a directory, each directory with its entries by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The directories.
    pub directories: BTreeMap<PathBuf, Vec<Seen>>,
}

/// Reason why a table isn't whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// There are more entries than wanted.
    Entries,
    /// Took too long.
    Time,
    /// A directory can't be read.
    Closed(PathBuf),
}

impl Table {
    /// Examines everything beneath one of our directories. Directories whose owner's rights a program removed get them back, and
    /// the table has the modes from before.
    ///
    /// # Errors
    /// It isn't whole.
    pub fn of_ours(root: &Root, limits: SurveyLimits) -> Result<Self, Unseen> {
        let mut opened = HashMap::new();
        loop {
            let (table, closed) = Self::seen(root, limits)?;
            let Some(first) = closed.first() else { return Ok(table.with_modes(&opened)) };
            // Half of a directory is none.
            if closed.iter().any(|path| !open_directory(&root.path().join(path), path, &mut opened)) {
                return Err(Unseen::Closed(first.clone()));
            }
        }
    }

    /// Reads all directories; returns those too that can't be read, or from which nothing can be taken.
    fn seen(root: &Root, limits: SurveyLimits) -> Result<(Self, BTreeSet<PathBuf>), Unseen> {
        let (found, closed) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeSet::new()));
        let end = root.survey(limits, &|looked| {
            if looked.is_closed {
                closed.lock().insert(looked.path.to_owned());
            }
            let directories = || looked.entries.iter().filter(|it| it.stamp.is_directory());
            let narrow = directories().filter(|it| it.stamp.permissions() & OWNERS != OWNERS);
            closed.lock().extend(narrow.map(|it| looked.path.join(OsStr::from_bytes(&it.name))));
            let below = directories().map(|it| it.name.clone()).collect();
            found.lock().insert(looked.path.to_owned(), looked.entries);
            below
        });
        match end {
            SurveyEnd::Whole => Ok((Self { directories: found.into_inner() }, closed.into_inner())),
            SurveyEnd::Entries => Err(Unseen::Entries),
            SurveyEnd::Time => Err(Unseen::Time),
        }
    }

    /// The same with the modes of directories that had to be opened.
    fn with_modes(mut self, opened: &HashMap<PathBuf, u32>) -> Self {
        for (path, mode) in opened {
            let entries = path.parent().and_then(|above| self.directories.get_mut(above)).into_iter().flatten();
            let name = path.file_name().unwrap_or_default();
            entries.filter(|it| *it.name == *name.as_bytes()).for_each(|it| it.stamp.mode = *mode);
        }
        self
    }

    /// The entry at a path.
    #[must_use]
    pub fn stamp(&self, path: &Path) -> Option<&Stamp> {
        let entries = self.directories.get(path.parent()?)?;
        let name = path.file_name()?.as_bytes();
        entries.binary_search_by(|it| (*it.name).cmp(name)).ok().map(|at| &entries[at].stamp)
    }

    /// Returns the paths at which `now` has something else, or may have, those above others first. A directory is the same with
    /// the same permissions, whatever is in it.
    #[must_use]
    pub fn differing(&self, now: &Self) -> BTreeSet<PathBuf> {
        static NONE: Vec<Seen> = Vec::new();
        // Files that were new when this was made may have changed without another stamp.
        let racy = self.newest().saturating_sub(RACY_NS);
        let mut paths = BTreeSet::new();
        for directory in self.directories.keys().chain(now.directories.keys()) {
            let [old, new] = [self, now].map(|it| it.directories.get(directory).unwrap_or(&NONE));
            let known: HashMap<&[u8], &Stamp> = old.iter().map(|it| (&*it.name, &it.stamp)).collect();
            let is_same = |it: &Seen| known.get(&*it.name).is_some_and(|old| is_same(old, &it.stamp, racy));
            let names: BTreeSet<&[u8]> = new.iter().map(|it| &*it.name).collect();
            let gone = old.iter().filter(|it| !names.contains(&*it.name));
            let other = new.iter().filter(|it| !is_same(it));
            paths.extend(gone.chain(other).map(|it| directory.join(OsStr::from_bytes(&it.name))));
        }
        paths
    }

    /// The newest change of a file.
    fn newest(&self) -> i64 {
        let files = self.directories.values().flatten().filter(|it| !it.stamp.is_directory());
        files.map(|it| it.stamp.changed_ns).max().unwrap_or(i64::MAX)
    }

    /// Reads the directories of these paths again.
    ///
    /// # Errors
    /// As of [`Table::of_ours`].
    pub fn look_again(&mut self, root: &Root, paths: &BTreeSet<PathBuf>) -> Result<(), Unseen> {
        let mut directories: BTreeSet<&Path> = paths.iter().flat_map(|path| path.ancestors().skip(1)).collect();
        // A path that was a directory may no longer be one.
        directories.extend(paths.iter().map(PathBuf::as_path));
        for directory in directories {
            if !root.stamp(directory).is_ok_and(|it| it.is_some_and(|it| it.is_directory())) {
                self.directories.retain(|path, _| !path.starts_with(directory));
                continue;
            }
            let looked = root.look_into(directory);
            if looked.is_closed {
                return Err(Unseen::Closed(directory.to_owned()));
            }
            self.directories.insert(directory.to_owned(), looked.entries);
        }
        Ok(())
    }

    /// As bytes, to be read by [`Table::read`].
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let entries: usize = self.directories.values().map(Vec::len).sum();
        let mut out = Vec::with_capacity(entries * 64 + 4096);
        out.extend_from_slice(HEAD);
        let number = |out: &mut Vec<u8>, number: usize| out.extend_from_slice(&(number as u64).to_le_bytes());
        let text = |out: &mut Vec<u8>, bytes: &[u8]| {
            number(out, bytes.len());
            out.extend_from_slice(bytes);
        };
        number(&mut out, self.directories.len());
        for (path, entries) in &self.directories {
            text(&mut out, path.as_os_str().as_bytes());
            number(&mut out, entries.len());
            for Seen { name, stamp } in entries {
                text(&mut out, name);
                out.extend_from_slice(&stamp.mode.to_le_bytes());
                for it in [stamp.size, stamp.inode] {
                    out.extend_from_slice(&it.to_le_bytes());
                }
                for it in [stamp.modified_ns, stamp.changed_ns] {
                    out.extend_from_slice(&it.to_le_bytes());
                }
            }
        }
        out.extend_from_slice(END);
        out
    }

    /// Reads one; nothing if it isn't whole.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = bytes.strip_prefix(HEAD)?;
        let mut table = Self::default();
        for _ in 0..number(&mut from)? {
            let path = PathBuf::from(OsStr::from_bytes(text(&mut from)?));
            let mut entries = Vec::new();
            for _ in 0..number(&mut from)? {
                let name = text(&mut from)?.into();
                let mode = u32::from_le_bytes(array(&mut from)?);
                let (size, inode) = (number(&mut from)?, number(&mut from)?);
                let mut time = || array(&mut from).map(i64::from_le_bytes);
                let (modified_ns, changed_ns) = (time()?, time()?);
                entries.push(Seen { name, stamp: Stamp { mode, size, inode, modified_ns, changed_ns } });
            }
            table.directories.insert(path, entries);
        }
        (from == END).then_some(table)
    }
}

/// Returns whether both stamps are of the same thing. `racy` is the time from which on a file's stamp says too little.
fn is_same(old: &Stamp, new: &Stamp, racy: i64) -> bool {
    match old.is_directory() {
        true => old.mode == new.mode,
        false => old == new && old.changed_ns < racy,
    }
}

/// Restores our rights to a directory from which a program removed some, and notes its mode in `opened`; `false` if that was
/// tried before or fails.
fn open_directory(real: &Path, path: &Path, opened: &mut HashMap<PathBuf, u32>) -> bool {
    let Ok(data) = fs::symlink_metadata(real) else { return false };
    let mode = data.permissions().mode();
    let wider = fs::Permissions::from_mode(mode & 0o7777 | OWNERS);
    opened.insert(path.to_owned(), mode).is_none() && data.is_dir() && fs::set_permissions(real, wider).is_ok()
}

fn array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*bytes)
}

fn number(from: &mut &[u8]) -> Option<u64> {
    array(from).map(u64::from_le_bytes)
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}
