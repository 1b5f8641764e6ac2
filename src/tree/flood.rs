//! A flood: thousands of new files of one command. They are data or products, so no commit accepts them, and none is read or
//! moved on its own: a new directory is moved onto the bench as a whole. Other entries in the way of a flood aren't handled here.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use super::bench::{Bench, PATHS_MAX, Taking, summed_up};
use super::layer::Layer;
use super::rules::{is_rule_file, rules_in};

/// One entry of what a command made on its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// Its path.
    pub path: &'a Path,
    /// The entry.
    pub kind: NewEntryKind<'a>,
}

/// The kinds of entries that matter for a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewEntryKind<'a> {
    /// A new file.
    File {
        /// The file on the copy.
        source: &'a Path,
        /// Its permission bits.
        mode: u32,
        /// Its size.
        bytes: u64,
        /// `true` if it may be moved together with its directory.
        is_plain: bool,
    },
    /// A new directory.
    Directory {
        /// `true` if it may be moved with all that is in it.
        is_plain: bool,
    },
    /// Something that no flood takes along.
    Other,
}

/// A flood of new files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flood {
    /// For each entry, true if the flood includes it.
    pub takes: Vec<bool>,
    /// New directories that are moved as a whole.
    directories: Vec<(PathBuf, PathBuf)>,
    /// Files that are moved one by one, with their permission bits.
    files: Vec<(PathBuf, PathBuf, u32)>,
    /// Lines about what no commit has.
    left_out: Vec<String>,
    /// The number of files by their topmost names.
    tops: BTreeMap<PathBuf, usize>,
}

impl Bench {
    /// Finds the flood in what a command made, which is sorted by path; `None` if there is none.
    #[must_use]
    pub fn flood(&self, made: &[NewEntry<'_>]) -> Option<Flood> {
        if made.len() <= PATHS_MAX {
            return None;
        }
        let rule_files = made.iter().filter(|it| is_rule_file(it.path)).map(|it| match it.kind {
            NewEntryKind::File { source, .. } => (it.path, rules_in(source)),
            NewEntryKind::Directory { .. } | NewEntryKind::Other => (it.path, None),
        });
        let mut taking = Taking::by(self.rules_after(rule_files));
        let mut takes = vec![false; made.len()];
        let mut flood = Flood::default();
        let (mut new, mut last) = (0, (Path::new(""), false));
        // If an entry replaces something of another kind, its contents aren't part of the flood.
        let mut over = None::<&Path>;
        for (at, NewEntry { path, kind }) in made.iter().enumerate() {
            if over.is_some_and(|over| is_at_or_below(path, over)) {
                continue;
            }
            let NewEntryKind::File { bytes, .. } = *kind else {
                over = if *kind == NewEntryKind::Other { Some(path) } else { over };
                continue;
            };
            let parent = path.parent().unwrap_or(Path::new(""));
            if last.0.as_os_str() != parent.as_os_str() || parent.as_os_str().is_empty() {
                last = (parent, self.draft.is_directory(parent));
            }
            if last.1 && self.draft.has(path) {
                continue;
            }
            takes[at] = true;
            if taking.rules.ignores(path) {
                continue;
            }
            new += 1;
            match self.why_new_left_out(path, bytes, &mut taking) {
                Some(why) => taking.leave_out(path, why),
                None => count(&mut taking.flood, path),
            }
        }
        if new <= PATHS_MAX {
            return None;
        }
        flood.find_directories(made, &mut takes);
        Some(Flood { takes, left_out: taking.left_out, tops: taking.flood, ..flood })
    }

    /// Moves a flood onto the bench; returns the lines about what no commit has.
    pub(super) fn take_flood(layer: Layer<'_>, flood: &Flood) -> io::Result<Vec<String>> {
        for (path, source) in &flood.directories {
            layer.take_directory(path, source)?;
        }
        for (path, source, mode) in &flood.files {
            layer.take(path, source, *mode)?;
        }
        Ok(summed_up(flood.left_out.clone(), &flood.tops))
    }
}

/// Returns whether a path is another one or below it; both are in the form in which a walk returns them.
fn is_at_or_below(path: &Path, above: &Path) -> bool {
    let rest = path.as_os_str().as_encoded_bytes().strip_prefix(above.as_os_str().as_encoded_bytes());
    rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

/// Counts a file at its topmost name.
fn count(tops: &mut BTreeMap<PathBuf, usize>, path: &Path) {
    let Some(top) = path.iter().next() else { return };
    match tops.get_mut(Path::new(top)) {
        Some(count) => *count += 1,
        None => drop(tops.insert(top.into(), 1)),
    }
}

impl Flood {
    /// The number of its entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.takes.iter().filter(|it| **it).count()
    }

    /// Returns whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows for a person, and for a model: the topmost names.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        self.tops.iter().map(|(top, count)| format!("+  {}  {count} files, in no commit", top.display())).collect()
    }

    /// Finds the new directories that have nothing but files of the flood, and the files that are in none of them.
    fn find_directories(&mut self, made: &[NewEntry<'_>], takes: &mut [bool]) {
        let (mut mixed, mut flooded) = (Above::default(), Above::default());
        for (at, NewEntry { path, kind }) in made.iter().enumerate() {
            match kind {
                NewEntryKind::File { is_plain: true, .. } if takes[at] => flooded.add(path),
                NewEntryKind::Directory { is_plain: true } => {}
                NewEntryKind::Directory { is_plain: false } => {
                    mixed.add(path);
                    mixed.all.insert(path);
                }
                _ => mixed.add(path),
            }
        }
        let mut whole = None::<&Path>;
        for (at, NewEntry { path, kind }) in made.iter().enumerate() {
            let is_below = whole.is_some_and(|whole| is_at_or_below(path, whole));
            match kind {
                NewEntryKind::Directory { .. } if is_below => takes[at] = true,
                NewEntryKind::Directory { .. } if flooded.all.contains(path) && !mixed.all.contains(path) => {
                    if let Some(source) = source_of(path, &made[at..]) {
                        (whole, takes[at]) = (Some(*path), true);
                        self.directories.push(((*path).to_owned(), source));
                    }
                }
                NewEntryKind::File { source, mode, .. } if takes[at] && !is_below => {
                    self.files.push(((*path).to_owned(), (*source).to_owned(), *mode));
                }
                _ => {}
            }
        }
    }
}

/// The directory of the copy that became a new directory, from the first file below it.
fn source_of(directory: &Path, made: &[NewEntry<'_>]) -> Option<PathBuf> {
    let (path, source) = made.iter().find_map(|it| match it.kind {
        NewEntryKind::File { source, .. } => Some((it.path, source)),
        _ => None,
    })?;
    let depth = path.strip_prefix(directory).ok()?.iter().count();
    source.ancestors().nth(depth).map(Path::to_owned)
}

/// The directories above some paths, in the order of the paths.
#[derive(Default)]
struct Above<'a> {
    all: HashSet<&'a Path>,
    last: Option<&'a Path>,
}

impl<'a> Above<'a> {
    fn add(&mut self, path: &'a Path) {
        let parent = path.parent().unwrap_or(Path::new(""));
        if self.last.is_some_and(|last| last.as_os_str() == parent.as_os_str()) {
            return;
        }
        self.last = Some(parent);
        for above in parent.ancestors() {
            if !self.all.insert(above) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Arc;

    use super::*;
    use crate::git::{Mode, empty_tree};
    use crate::tree::{Did, Draft, Memory};

    /// Entries that a command made, sorted by path; all but those named in `old` are new.
    fn entries<'a>(paths: &'a [(PathBuf, PathBuf)], old: &[&str]) -> Vec<NewEntry<'a>> {
        let kind = |path: &Path, source: &'a Path| {
            let data = source.symlink_metadata().expect("there");
            let mode = data.permissions().mode();
            match () {
                () if old.iter().any(|it| path == Path::new(it)) && !data.is_dir() => NewEntryKind::Other,
                () if data.is_dir() => {
                    NewEntryKind::Directory { is_plain: !old.iter().any(|it| path == Path::new(it)) }
                }
                () if data.is_file() => {
                    NewEntryKind::File { source, mode, bytes: data.len(), is_plain: mode & 0o6000 == 0 }
                }
                () => NewEntryKind::Other,
            }
        };
        paths.iter().map(|(path, source)| NewEntry { path, kind: kind(path, source) }).collect()
    }

    fn list(copy: &Path, at: &Path, all: &mut Vec<(PathBuf, PathBuf)>) {
        for entry in fs::read_dir(copy.join(at)).expect("a directory") {
            let path = at.join(entry.expect("an entry").file_name());
            all.push((path.clone(), copy.join(&path)));
            if copy.join(&path).symlink_metadata().expect("there").is_dir() {
                list(copy, &path, all);
            }
        }
    }

    #[test]
    fn new_directories_of_a_flood_are_moved_whole_unless_something_else_is_in_them() {
        let dir = crate::git::in_memory();
        let draft = Draft::on(Arc::new(Memory::default()), empty_tree(), Path::new("/project"), None);
        for (path, text) in [("elsewhere/a.txt", "a\n"), ("file", "f\n"), (".gitignore", "built/\n")] {
            draft.put(Path::new(path), Some((Mode::File, text.as_bytes()))).expect("put");
        }
        let bench = Bench::new(dir.path().join("bench"), Some(dir.path().join("trees")), Arc::new(draft));
        bench.ready().expect("ready");
        let copy = dir.path().join("copy");
        let write = |path: String| {
            fs::create_dir_all(copy.join(&path).parent().expect("a parent")).expect("a directory");
            fs::write(copy.join(path), "new\n").expect("a file");
        };
        (0..5_000).for_each(|number| write(format!("whole/deep/{number}")));
        for folder in ["mixed/sub", "mixed", "set", "built", "known", "file"] {
            (0..3).for_each(|number| write(format!("{folder}/{number}")));
        }
        write("whole/.env".into());
        write("old".into());
        fs::create_dir_all(copy.join("whole/empty")).expect("a directory");
        symlink("0", copy.join("mixed/link")).expect("a link");
        fs::set_permissions(copy.join("set/0"), fs::Permissions::from_mode(0o4755)).expect("set");
        let mut paths = Vec::new();
        list(&copy, Path::new(""), &mut paths);
        paths.sort();
        let mut made = entries(&paths, &["old"]);
        // A directory that takes the place of a file isn't a new one.
        made.iter_mut().filter(|it| it.path == Path::new("file")).for_each(|it| it.kind = NewEntryKind::Other);
        let flood = bench.flood(&made).expect("a flood");
        let directories: Vec<&Path> = flood.directories.iter().map(|it| it.0.as_path()).collect();
        assert_eq!(directories, ["built", "known", "mixed/sub", "whole"].map(Path::new));
        let rest = made.iter().zip(&flood.takes).filter(|(_, takes)| !**takes);
        let rest: Vec<String> = rest.map(|(it, _)| it.path.display().to_string()).collect();
        assert_eq!(rest, ["file", "file/0", "file/1", "file/2", "mixed", "mixed/link", "old", "set"]);
        let mut left_out = bench.adopt_with(&[], Some(&flood)).expect("adopted");
        left_out.sort();
        let wanted = [
            "known/ (3 of more than 5,000 new files)",
            "mixed/ (6 of more than 5,000 new files)",
            "set/ (3 of more than 5,000 new files)",
            "whole/ (5000 of more than 5,000 new files)",
            "whole/.env (a file of its name may hold secrets)",
        ];
        assert_eq!(left_out, wanted);
        for path in ["whole/deep/4999", "whole/empty", "mixed/sub/2", "mixed/2", "built/1", "known/0", "set/2"] {
            assert!(bench.dir().join(path).exists(), "{path}");
        }
        assert!(!bench.dir().join("mixed/link").exists());
        let mode = fs::metadata(bench.dir().join("set/0")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "nothing runs as somebody else");
        assert!(
            bench.draft().leaf(Path::new("file"), 10).is_ok()
                && bench.draft().leaf(Path::new("whole/deep/1"), 10).is_err()
        );
        assert!(bench.flood(&made[..5_000]).is_none(), "these are few");
    }

    #[test]
    fn a_directory_in_the_place_of_a_file_takes_the_file_from_the_draft() {
        let dir = crate::git::in_memory();
        let draft = Draft::on(Arc::new(Memory::default()), empty_tree(), Path::new("/project"), None);
        for (path, text) in [("file", "f\n"), (".gitignore", "*.o\n")] {
            draft.put(Path::new(path), Some((Mode::File, text.as_bytes()))).expect("put");
        }
        let bench = Bench::new(dir.path().join("bench"), None, Arc::new(draft));
        bench.ready().expect("ready");
        let source = dir.path().join("source");
        fs::write(&source, "product").expect("a file");
        let changes = [(Path::new("file"), Did::Directory), (Path::new("file/a.o"), Did::File(source, 0o644))];
        assert_eq!(bench.adopt(&changes), Ok(Vec::new()));
        assert!(!bench.draft().has(Path::new("file")), "no commit has what git ignores");
        assert!(bench.dir().join("file/a.o").exists());
    }
}
