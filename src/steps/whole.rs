//! Directories of a copy that are moved as a whole: new ones, with one rename instead of two for each file in them, and others
//! with files for an existing directory, with one rename for all instead of the first of two. A directory is moved only if it
//! contains exactly the new contents, ready as they are; otherwise each file is moved on its own. Must not know what happens to
//! it in the workspace.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::intent::{Intent, Source, Sources};
use super::store::state::State;
use crate::files::{Root, Stage, is_plain};

/// Permissions that the owner of a directory needs to move it.
const OWNERS: u32 = 0o700;

/// Moves the new directories to the stage that can be moved as a whole; returns the numbers of the changes in them.
pub(super) fn take(root: &Root, stage: &Stage<'_>, intent: &Intent, sources: &Sources) -> HashSet<usize> {
    let numbers: HashMap<&Path, usize> = intent.changes.iter().map(|it| it.path.as_path()).zip(0..).collect();
    let is_new = |number: usize| {
        let change = &intent.changes[number];
        change.before == State::Nothing && change.after.is_directory()
    };
    // The outermost new directory above each change.
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, change) in intent.changes.iter().enumerate() {
        let above = change.path.ancestors().filter_map(|path| numbers.get(path).copied());
        if let Some(top) = above.take_while(|it| *it == number || is_new(*it)).last().filter(|top| is_new(*top)) {
            below.entry(top).or_default().push(number);
        }
    }
    let mut moved = HashSet::new();
    for (top, below) in below {
        let tree = Tree { intent, sources, numbers: &numbers, top: &intent.changes[top].path };
        if let Some(place) = tree.place(&below)
            && root.gives_nothing_to(tree.top)
            && tree.is_ready(&place, Path::new("")) == Some(below.len())
            && stage.take_directory(top, &place)
        {
            moved.extend(below);
        }
    }
    if let Some(copy) = Copy::of(intent, sources, &numbers, &moved) {
        copy.take(stage, Path::new(""), &mut moved);
    }
    moved
}

/// The directories of a copy that are arranged as those of the workspace.
struct Copy<'a> {
    place: &'a Path,
    /// The files in them that can be moved as they lie.
    ready: HashMap<&'a Path, usize>,
    /// The directories above those files.
    above: HashSet<&'a Path>,
    /// All changes; a directory that is itself among them isn't moved here.
    numbers: &'a HashMap<&'a Path, usize>,
}

impl<'a> Copy<'a> {
    /// Returns the copy in which the files lie that haven't been moved yet.
    fn of(
        intent: &'a Intent,
        sources: &'a Sources,
        numbers: &'a HashMap<&'a Path, usize>,
        moved: &HashSet<usize>,
    ) -> Option<Self> {
        let place = |number: usize| {
            let path = &intent.changes[number].path;
            match sources.get(number)? {
                Some(Source::File { path: source, is_ready: true }) if source.ends_with(path) => {
                    source.ancestors().nth(path.components().count())
                }
                _ => None,
            }
        };
        let waiting = || (0..intent.changes.len()).filter(|number| !moved.contains(number));
        let first = waiting().find_map(place)?;
        let ready = waiting().filter(|number| place(*number) == Some(first));
        let ready: HashMap<&Path, usize> = ready.map(|it| (intent.changes[it].path.as_path(), it)).collect();
        let mut above = HashSet::new();
        for path in ready.keys() {
            // If one is known, so are those above it.
            let _ = path.ancestors().skip(1).all(|path| above.insert(path));
        }
        Some(Self { place: first, ready, above, numbers })
    }

    /// Moves those of the directories at `within` and below that hold nothing else, the outermost only. Returns the numbers of
    /// the files at `within` and below if it may be moved with them itself.
    fn take(&self, stage: &Stage<'_>, within: &Path, moved: &mut HashSet<usize>) -> Option<Vec<usize>> {
        let place = self.place.join(within);
        let (mut files, mut below) = (Vec::new(), Vec::new());
        let mode = fs::symlink_metadata(&place).ok()?.permissions().mode();
        let mut is_whole = within != Path::new("") && !self.numbers.contains_key(within) && mode & OWNERS == OWNERS;
        for entry in fs::read_dir(&place).ok()? {
            let entry = entry.ok()?;
            let (kind, path) = (entry.file_type().ok()?, within.join(entry.file_name()));
            match self.ready.get(path.as_path()) {
                Some(number) if kind.is_file() => files.push(*number),
                None if kind.is_dir() && self.above.contains(path.as_path()) => match self.take(stage, &path, moved) {
                    Some(numbers) => below.push((path, numbers)),
                    None => is_whole = false,
                },
                _ => is_whole = false,
            }
        }
        if is_whole {
            files.extend(below.into_iter().flat_map(|(_, numbers)| numbers));
            return Some(files);
        }
        for (path, numbers) in below {
            if stage.take_files(&path, &self.place.join(&path)) {
                moved.extend(numbers);
            }
        }
        None
    }
}

/// A new directory, and its intended contents.
struct Tree<'a> {
    intent: &'a Intent,
    sources: &'a Sources,
    numbers: &'a HashMap<&'a Path, usize>,
    top: &'a Path,
}

impl Tree<'_> {
    /// Returns the directory's place, found by the places of the files in it; `None` if they aren't together.
    fn place(&self, below: &[usize]) -> Option<PathBuf> {
        let mut place: Option<PathBuf> = None;
        for number in below {
            let (change, source) = (&self.intent.changes[*number], self.sources.get(*number)?);
            let Some(Source::File { path, is_ready }) = source else {
                if matches!(change.after, State::Directory { .. } | State::Link { .. }) {
                    continue;
                }
                return None;
            };
            // The name of a longer content isn't known, by which a crash would find it.
            let is_named = change.after.id().is_some_and(|id| !id.is_null());
            let within = change.path.strip_prefix(self.top).ok()?;
            let at = path.ancestors().nth(within.components().count())?;
            if !is_ready || !is_named || place.get_or_insert_with(|| at.to_owned()).join(within) != *path {
                return None;
            }
        }
        place
    }

    /// Returns the number of entries at `place`, including itself, if each of them is as intended.
    fn is_ready(&self, place: &Path, within: &Path) -> Option<usize> {
        let mode = match self.after(within)? {
            State::Directory { mode } => mode,
            _ => return None,
        };
        let data = fs::symlink_metadata(place).ok()?;
        let own = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let is_bare = fs::File::open(place).is_ok_and(|directory| is_plain(&directory));
        let is_plain = data.permissions().mode() & 0o7777 == mode
            && mode & OWNERS == OWNERS
            && (data.uid(), data.gid()) == own
            && is_bare;
        if !is_plain {
            return None;
        }
        let mut count = 1;
        for entry in fs::read_dir(place).ok()? {
            let entry = entry.ok()?;
            let (kind, within) = (entry.file_type().ok()?, within.join(entry.file_name()));
            count += match (self.after(&within)?, self.source(&within)) {
                (State::Directory { .. }, _) if kind.is_dir() => self.is_ready(&entry.path(), &within)?,
                (State::File { .. }, Some(Source::File { .. })) if kind.is_file() => 1,
                (State::Link { .. }, Some(Source::Bytes(target))) if kind.is_symlink() => {
                    usize::from(fs::read_link(entry.path()).ok()?.as_os_str().as_bytes() == target)
                }
                _ => return None,
            };
        }
        Some(count)
    }

    fn after(&self, within: &Path) -> Option<State> {
        Some(self.intent.changes[self.number(within)?].after)
    }

    fn source(&self, within: &Path) -> Option<&Source> {
        self.sources.get(self.number(within)?)?.as_ref()
    }

    fn number(&self, within: &Path) -> Option<usize> {
        self.numbers.get(self.top.join(within).as_path()).copied()
    }
}
