//! Files that determine what other programs run: git's config, hooks and attributes in every `.git` below the workspace, and the
//! files of a project that are protected by name, such as `.envrc`, recipes of CI and tasks of editors. They are compared by
//! content before and after a command, and restored on request. It doesn't know what was run, nor who is asked.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::look::STAGE_PREFIX;
use super::{Limits, StepsError};
use crate::base::text::spelled_out;
use crate::files::{Looked, PathError, Root, Seen, Stamp, SurveyEnd, SurveyLimits};
use crate::proto::known_paths::{View, WorkTree, stays_below};

/// Bytes of a file that are compared and can be put back; of a longer one the stamp is compared.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum size of all of them together; the rest is compared by stamps.
const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Factor by which the second look may last longer and see more entries, since it sees what a command made.
const AGAIN: u32 = 10;
/// The clock of a file system may be late by this much.
const TICK_NS: i64 = 20_000_000;
/// Names of the protected files in git's directory for a linked work tree.
const OF_WORKTREE: [&[u8]; 3] = [b"gitdir", b"commondir", b"config.worktree"];
/// Names of its other files, which are useless once those are gone.
const LEFT_OF_WORKTREE: [&str; 5] = ["HEAD", "ORIG_HEAD", "index", "locked", "logs/HEAD"];
/// Its directories that are then empty.
const DIRECTORIES_LEFT: [&str; 2] = ["logs", "refs"];
/// Directories of git's that hold others of git's, with rules of their own.
const PARTS: [&[u8]; 2] = [b"modules", b"worktrees"];

/// The earlier state of a protected path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Link(Vec<u8>),
    /// Something that isn't read: too long, new, not readable, neither file nor link.
    Unread(Stamp),
    /// Unknown, since the first pass didn't get this far.
    Unseen,
}

/// The protected files in a workspace, as they were.
pub struct Guard {
    held: BTreeMap<PathBuf, Held>,
    /// Git's other files for linked work trees: they aren't protected, but without them the restored ones are useless.
    of_worktrees: BTreeMap<PathBuf, Held>,
    /// The directories that may contain such files, and those of them that couldn't be read.
    directories: BTreeSet<PathBuf>,
    closed: BTreeSet<PathBuf>,
    is_whole: bool,
    /// Time at which it was made.
    since_ns: i64,
    limits: Limits,
    is_protected: IsProtected,
}

/// Decides by a path's name, and whether it is a link.
type ByName = Box<dyn Fn(&[u8], bool) -> bool + Send + Sync>;

/// Rules by which a path of the workspace is protected.
pub struct IsProtected {
    /// By its name, and whether it is a link. In the directory of a submodule the name is that of the place in a `.git` of its
    /// own.
    pub by_name: ByName,
    /// A link by its target: it leads out of the workspace, or to a protected place.
    pub by_target: Box<dyn Fn(&Path) -> bool + Send + Sync>,
}

impl Guard {
    /// Records the protected files before a command.
    #[must_use]
    pub fn before(root: &Root, limits: &Limits, is_protected: IsProtected) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let since_ns = i64::try_from(now).unwrap_or(i64::MAX) - TICK_NS;
        let Protected { paths, directories, closed, is_whole } = protected(root, limits, &is_protected, None);
        let mut left = ALL_BYTES_MAX;
        let mut look_at = |path: PathBuf| {
            let held = if left == 0 { Held::Unread(root.stamp(&path).ok()??) } else { look(root, &path)? };
            left = left.saturating_sub(held.bytes().map_or(0, <[u8]>::len));
            Some((path, held))
        };
        let held: BTreeMap<_, _> = paths.into_iter().filter_map(&mut look_at).collect();
        let of_worktrees = held.keys().flat_map(|path| left_of_worktree(path)).filter_map(look_at).collect();
        Self { held, of_worktrees, directories, closed, is_whole, since_ns, limits: limits.clone(), is_protected }
    }

    /// Adopts the present state of these paths as the earlier one, since a person has agreed to it.
    pub fn accept<'a>(&mut self, root: &Root, paths: impl Iterator<Item = &'a Path>) {
        for path in paths {
            match look(root, path) {
                Some(Held::Unread(stamp)) if stamp.is_directory() => drop(self.closed.insert(path.to_owned())),
                Some(held) => drop(self.held.insert(path.to_owned(), held)),
                None => drop(self.held.remove(path)),
            }
        }
    }

    /// Returns whether all of the workspace was covered, within the limits of entries and time.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Compares the present state; returns the changes, and whether everything was covered. New paths come first, because they
    /// may be in the way of what is restored. An unreadable directory counts as changed if it was readable before or didn't
    /// exist.
    #[must_use]
    pub fn changed(&self, root: &Root) -> (Vec<Changed>, bool) {
        let limits = Limits {
            files_max: self.limits.files_max.saturating_mul(AGAIN as usize),
            look_time: self.limits.look_time.saturating_mul(AGAIN),
            ..self.limits.clone()
        };
        let Protected { mut paths, closed, is_whole, .. } =
            protected(root, &limits, &self.is_protected, Some(self.since_ns));
        paths.extend(self.held.keys().cloned());
        paths.sort_unstable();
        paths.dedup();
        let changed: Vec<Changed> = paths.into_iter().filter_map(|path| self.change(root, path)).collect();
        let mut changed = Now { guard: self, root }.without_worktrees(changed);
        let deleted = changed.iter().filter(|it| it.after.is_none()).flat_map(|it| left_of_worktree(&it.path));
        let lost: Vec<Changed> = deleted.filter_map(|path| self.lost(root, path)).collect();
        changed.extend(lost);
        changed.sort_by_key(|it| it.before.is_some());
        changed.extend(closed.difference(&self.closed).filter_map(|path| {
            let stamp = root.stamp(path).ok()??;
            let after = Some(Held::Unread(stamp)).filter(|_| self.is_whole || stamp.changed_ns >= self.since_ns)?;
            Some(Changed { path: path.clone(), before: Some(Held::Unseen), after: Some(after), made: None })
        }));
        (changed, self.is_whole && is_whole)
    }

    /// The change of a file of a linked work tree that is gone.
    fn lost(&self, root: &Root, path: PathBuf) -> Option<Changed> {
        let before = self.of_worktrees.get(&path).cloned();
        let is_lost = before.is_some() && root.stamp(&path) == Ok(None);
        is_lost.then_some(Changed { path, before, after: None, made: None })
    }

    /// The change of a path, if it has changed.
    fn change(&self, root: &Root, path: PathBuf) -> Option<Changed> {
        if let Some(before) = self.held.get(&path) {
            let after = match before {
                Held::Unread(_) => root.stamp(&path).ok().flatten().map(Held::Unread),
                _ => look(root, &path),
            };
            let before = Some(before.clone()).filter(|before| Some(before) != after.as_ref())?;
            return Some(Changed { path, before: Some(before), after, made: None });
        }
        // The content of a new file doesn't matter, and there may be any number of new files.
        let stamp = root.stamp(&path).ok()??;
        let is_known = self.is_whole || path.parent().is_some_and(|directory| self.directories.contains(directory));
        if !is_known && stamp.changed_ns < self.since_ns {
            return None;
        }
        let is_made = |above: &&Path| self.is_whole && !self.directories.contains(*above);
        let made = path.ancestors().skip(1).take_while(is_made).last().map(Path::to_owned);
        Some(Changed { path, before: (!is_known).then_some(Held::Unseen), after: Some(Held::Unread(stamp)), made })
    }
}

/// The present workspace and its earlier state.
struct Now<'a> {
    guard: &'a Guard,
    root: &'a Root,
}

impl Now<'_> {
    /// Leaves out linked work trees that were made or removed as a whole. Protected files in a new one must be the same as in the
    /// repository before.
    fn without_worktrees(&self, changed: Vec<Changed>) -> Vec<Changed> {
        let gitdirs = || changed.iter().map(|it| it.path.as_path()).filter(|path| path.ends_with("gitdir"));
        let is_of_pair = |tree: &WorkTree, path: &Path| {
            ["gitdir", "commondir"].iter().any(|name| path == tree.admin.join(name)) || path == tree.dot_git()
        };
        let is_whole =
            |tree: &WorkTree| changed.iter().all(|it| !it.path.starts_with(&tree.admin) || is_of_pair(tree, &it.path));
        let made: Vec<WorkTree> =
            gitdirs().filter_map(|path| WorkTree::find_made(path, self)).filter(is_whole).collect();
        let removed: Vec<WorkTree> = gitdirs().filter_map(|path| WorkTree::find_removed(path, self)).collect();
        let is_cleared = |it: &Changed| match made.iter().find(|tree| tree.holds(&it.path)) {
            Some(tree) => is_of_pair(tree, &it.path) || self.is_twin(tree, &it.path),
            None => it.after.is_none() && removed.iter().any(|tree| tree.holds(&it.path)),
        };
        let cleared: Vec<bool> = changed.iter().map(is_cleared).collect();
        changed.into_iter().zip(cleared).filter(|(_, is_cleared)| !is_cleared).map(|(it, _)| it).collect()
    }

    /// Returns whether a file or a link of a new work tree is what the repository had at its place.
    fn is_twin(&self, tree: &WorkTree, path: &Path) -> bool {
        let Some((twin, below)) = tree.twin(path) else { return false };
        match (self.guard.held.get(&twin), look(self.root, path)) {
            (Some(Held::File { mode: old, bytes: before }), Some(Held::File { mode, bytes })) => {
                bytes == *before && (mode & 0o111 == 0 || old & 0o111 != 0)
            }
            (Some(Held::Link(before)), Some(Held::Link(target))) => {
                target == *before && stays_below(below, Path::new(OsStr::from_bytes(&target)))
            }
            _ => false,
        }
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.root.stamp(path).is_ok_and(|it| it.is_some_and(|it| it.is_directory()))
    }
}

impl View for Now<'_> {
    fn tops(&self) -> Vec<PathBuf> {
        vec![self.root.path().to_owned()]
    }

    fn new_text(&self, path: &Path) -> Option<String> {
        match look(self.root, path)? {
            Held::File { mode, bytes } if mode & 0o111 == 0 && !self.guard.held.contains_key(path) => {
                String::from_utf8(bytes).ok()
            }
            _ => None,
        }
    }

    fn old_text(&self, path: &Path) -> Option<String> {
        String::from_utf8(self.guard.held.get(path)?.bytes()?.to_owned()).ok()
    }

    fn is_new_directory(&self, path: &Path) -> bool {
        self.guard.is_whole && !self.guard.directories.contains(path) && self.is_directory(path)
    }

    fn is_old_directory(&self, path: &Path) -> bool {
        self.guard.directories.contains(path) && self.is_directory(path)
    }

    fn is_known(&self, path: &Path) -> bool {
        self.guard.held.contains_key(path)
            || self.guard.directories.contains(path)
            || !matches!(self.root.stamp(path), Ok(None))
    }

    fn is_gone(&self, path: &Path) -> bool {
        matches!(self.root.stamp(path), Ok(None))
    }
}

/// A protected file that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its path from the workspace.
    pub path: PathBuf,
    before: Option<Held>,
    after: Option<Held>,
    /// The outermost directory above it that wasn't there before.
    made: Option<PathBuf>,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (&self.before, &self.after) {
            (None, _) => "new",
            (_, None) => "deleted",
            (_, Some(Held::Unread(stamp))) if stamp.is_directory() => "can't be looked into",
            (Some(Held::Unseen), _) => "new or changed",
            _ => "changed",
        };
        let what = match &self.after {
            Some(Held::Link(_)) => ", a link",
            Some(Held::Unread(stamp)) if stamp.is_link() => ", a link",
            Some(Held::Unread(stamp)) if stamp.is_file() && stamp.permissions() & 0o111 != 0 => ", executable",
            Some(Held::File { mode, .. }) if mode & 0o111 != 0 => ", executable",
            _ => "",
        };
        write!(f, "{}: {how}{what}", spelled_out(&self.path.to_string_lossy()))
    }
}

impl Changed {
    /// Restores the earlier state, or removes a new file.
    ///
    /// # Errors
    /// It has changed once more, its earlier state isn't known, or the file system refuses.
    pub fn put_back(&self, root: &Root) -> Result<(), StepsError> {
        let failed = |error| StepsError::Path { path: self.path.clone(), error };
        let now = match &self.after {
            Some(Held::Unread(_)) => root.stamp(&self.path).map_err(failed)?.map(Held::Unread),
            _ => look(root, &self.path),
        };
        if now != self.after {
            return Err(failed(PathError::Changed));
        }
        let Some(before) = &self.before else {
            root.remove(&self.path).map_err(failed)?;
            self.clear(root);
            return Ok(());
        };
        if matches!(before, Held::Unread(_) | Held::Unseen) {
            return Err(StepsError::Nothing("its earlier content isn't known".to_owned()));
        }
        for above in self.path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            if !above.as_os_str().is_empty() && root.stamp(above).map_err(failed)?.is_none() {
                root.make_directory(above, 0o755).map_err(failed)?;
            }
        }
        let name = format!("{STAGE_PREFIX}git-{}", std::process::id());
        let stage = root.staging(&name).map_err(failed)?;
        let mut places = root.places();
        let placed = match before {
            Held::File { mode, bytes } => stage.file(0, bytes, mode & 0o7777, &self.path, &mut places),
            Held::Link(target) => stage.link(0, target),
            Held::Unread(_) | Held::Unseen => Err(PathError::Changed),
        };
        let placed = placed.and_then(|()| stage.place(0, &self.path, self.after.is_none(), &mut places));
        root.unstage(&name);
        placed.map_err(failed)
    }

    /// Removes the new directories above it, as far as they are empty now, and git's own files for a new linked work tree.
    fn clear(&self, root: &Root) {
        let (Some(made), Some(directory)) = (&self.made, self.path.parent()) else { return };
        let is_worktree = directory.parent().is_some_and(|above| above.ends_with("worktrees"))
            && directory.ancestors().any(|above| above.file_name().is_some_and(|name| is_git(name.as_bytes())));
        let is_gone = || OF_WORKTREE.iter().all(|name| look(root, &directory.join(OsStr::from_bytes(name))).is_none());
        if is_worktree && is_gone() {
            LEFT_OF_WORKTREE.iter().for_each(|name| drop(root.remove(&directory.join(name))));
            DIRECTORIES_LEFT.iter().for_each(|name| drop(root.remove_directory(&directory.join(name))));
        }
        let empty = directory.ancestors().take_while(|above| above.starts_with(made));
        empty.map_while(|above| root.remove_directory(above).ok().filter(|is_removed| *is_removed)).for_each(drop);
    }
}

impl Held {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            _ => None,
        }
    }
}

/// Returns the paths of git's other files for a linked work tree, from the path of its `gitdir`.
fn left_of_worktree(path: &Path) -> impl Iterator<Item = PathBuf> {
    let directory = path.parent().filter(|_| path.ends_with("gitdir")).map(Path::to_owned);
    LEFT_OF_WORKTREE.iter().filter_map(move |name| Some(directory.as_ref()?.join(name)))
}

/// Returns the state of a path; `None` if nothing is there.
fn look(root: &Root, path: &Path) -> Option<Held> {
    let stamp = root.stamp(path).ok()??;
    match root.held(path, FILE_BYTES_MAX) {
        Ok((stamp, target)) if stamp.is_link() => Some(Held::Link(target)),
        Ok((stamp, bytes)) => Some(Held::File { mode: stamp.permissions(), bytes }),
        Err(PathError::Missing) => None,
        Err(_) => Some(Held::Unread(stamp)),
    }
}

/// The protected paths that were found in a workspace.
struct Protected {
    paths: Vec<PathBuf>,
    /// The directories that were looked into.
    directories: BTreeSet<PathBuf>,
    /// Those that couldn't be.
    closed: BTreeSet<PathBuf>,
    /// `true` if the look came to its end.
    is_whole: bool,
}

/// Searches a workspace for protected paths. Links that are newer than a moment are also judged by their targets.
fn protected(root: &Root, limits: &Limits, is_protected: &IsProtected, since_ns: Option<i64>) -> Protected {
    let all = Mutex::new(Protected {
        paths: Vec::new(),
        directories: BTreeSet::new(),
        closed: BTreeSet::new(),
        is_whole: false,
    });
    let visit = |looked: Looked<'_>| {
        let Visited { files, directories } = visited(&looked, is_protected, since_ns);
        let mut all = all.lock();
        let part = if looked.is_closed { &mut all.closed } else { &mut all.directories };
        part.insert(looked.path.to_owned());
        all.paths.extend(files.into_iter().map(|name| looked.path.join(OsStr::from_bytes(name))));
        directories.into_iter().map(Box::from).collect()
    };
    let bounds = SurveyLimits { entries_max: limits.files_max, deadline: Instant::now() + limits.look_time };
    let end = root.survey(bounds, &visit);
    Protected { is_whole: end == SurveyEnd::Whole, ..all.into_inner() }
}

/// The names in a directory: protected ones, and subdirectories to search.
struct Visited<'a> {
    files: Vec<&'a [u8]>,
    directories: Vec<&'a [u8]>,
}

fn is_git(name: &[u8]) -> bool {
    // Some file systems ignore case.
    name.eq_ignore_ascii_case(b".git")
}

fn visited<'a>(looked: &'a Looked<'_>, is_protected: &IsProtected, since_ns: Option<i64>) -> Visited<'a> {
    let mut parts = looked.path.components().map(Component::as_os_str).map(OsStrExt::as_bytes);
    let within: Option<Vec<&[u8]>> = parts.by_ref().any(is_git).then(|| parts.collect());
    let directories = || looked.entries.iter().filter(|it| it.stamp.is_directory()).map(|it| &*it.name);
    let others = looked.entries.iter().filter(|it| !it.stamp.is_directory());
    let leads = |it: &Seen| {
        let is_new = it.stamp.is_link() && since_ns.is_some_and(|since| it.stamp.changed_ns >= since);
        is_new && (is_protected.by_target)(&looked.path.join(OsStr::from_bytes(&it.name)))
    };
    let Some(within) = within else {
        let is_one = |it: &&Seen| {
            let path = looked.path.join(OsStr::from_bytes(&it.name));
            is_git(&it.name) || (is_protected.by_name)(path.as_os_str().as_bytes(), it.stamp.is_link()) || leads(it)
        };
        return Visited {
            files: others.filter(is_one).map(|it| &*it.name).collect(),
            directories: directories().collect(),
        };
    };
    let has_head = || looked.entries.iter().any(|it| &*it.name == b"HEAD");
    let is_in_part = within.first().is_some_and(|first| PARTS.contains(first));
    // A linked work tree has its own.
    let is_module = is_in_part && within.contains(&PARTS[0]);
    let is_of_git = within.is_empty() || is_module && has_head();
    let is_of_worktree = within.len() > 1 && within[within.len() - 2] == PARTS[1];
    // The end of a submodule's name isn't known: each place counts at which it may be.
    let starts = if is_in_part { 2..within.len() + 1 } else { 0..1 };
    let names: Vec<Vec<u8>> = starts
        .filter(|&at| at == 0 || within[at - 1] != b"refs")
        .map(|at| &within[at..])
        .filter(|rest| rest.first().map_or(is_of_git, |first| !PARTS.contains(first)))
        .map(|rest| [&[&b".git"[..]], rest].concat().join(&b'/'))
        .collect();
    let is_one = |it: &&Seen| {
        let name = &*it.name;
        let is_named =
            |directory: &Vec<u8>| (is_protected.by_name)(&[directory, &b"/"[..], name].concat(), it.stamp.is_link());
        is_of_worktree && OF_WORKTREE.contains(&name) || names.iter().any(is_named) || leads(it)
    };
    // Objects are named by their content: nothing is written through one.
    let is_looked_into = |name: &&[u8]| *name != b"objects" || is_module && !is_of_git;
    Visited {
        files: others.filter(is_one).map(|it| &*it.name).collect(),
        directories: directories().filter(is_looked_into).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    use super::*;

    fn limits(files_max: usize) -> Limits {
        let time = Duration::from_secs(60);
        Limits { bytes_max: 0, file_bytes_max: 0, files_max, look_time: time, read_time: time, compare_time: time }
    }

    /// Rules by which a file that git runs is protected, plus the rule of a test, plus links that lead to another folder.
    fn rules(is_one: fn(&[u8], bool) -> bool) -> IsProtected {
        let by_name = move |name: &[u8], is_link| {
            let own = [
                ".git/config",
                ".git/commondir",
                ".git/hooks",
                ".git/info/attributes",
                ".git/rebase-merge/git-rebase-todo",
            ];
            let is_own = own.iter().any(|own| name.starts_with(own.as_bytes())) && !name.ends_with(b".sample");
            is_own || is_one(name, is_link)
        };
        IsProtected { by_name: Box::new(by_name), by_target: Box::new(|path| path.ends_with("lk")) }
    }

    fn put(root: &Root, path: &str, text: &str) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    /// A repository with a submodule that has one too, another below, and a linked work tree.
    fn workspace() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::open(dir.path(), None).expect("a root");
        for git in [".git", "deep/er/.git", ".git/modules/lib/sub", ".git/modules/lib/sub/modules/inner"] {
            for (path, text) in [
                ("HEAD", "ref: refs/heads/main\n"),
                ("config", "[core]\n"),
                ("hooks/pre-commit.sample", "#!/bin/sh\n"),
                ("hooks/pre-push", "#!/bin/sh\nexit 0\n"),
                ("info/exclude", ""),
                ("objects/ab/cdef", "x"),
                ("objects/info/config", "x"),
                ("refs/heads/config", "x"),
            ] {
                put(&root, &format!("{git}/{path}"), text);
            }
        }
        put(&root, ".git/worktrees/tree/gitdir", "/elsewhere/.git\n");
        put(&root, "sub/.git", "gitdir: ../.git/modules/lib/sub\n");
        put(&root, "src/config", "no git\n");
        (dir, root)
    }

    #[track_caller]
    fn changes(guard: &Guard, root: &Root) -> Vec<String> {
        let (changed, is_whole) = guard.changed(root);
        assert!(is_whole);
        changed.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_change_of_a_protected_file_is_found_and_put_back() {
        let (_dir, root) = workspace();
        let at = |path: &str| root.path().join(path);
        let guard = Guard::before(
            &root,
            &limits(1000),
            rules(|name, is_link| name == b".envrc" || name == b".cargo" && is_link),
        );
        assert!(guard.is_whole() && changes(&guard, &root).is_empty());
        // Changes by a command that do no harm here.
        for path in ["src/config", ".git/HEAD", ".git/objects/ab/more", ".git/info/exclude", ".git/hooks/new.sample"] {
            put(&root, path, "other\n");
        }
        put(&root, ".git/config", "[core]\n");
        assert_eq!(changes(&guard, &root), Vec::<String>::new());
        put(&root, ".git/config", "[core]\n\tfsmonitor = evil\n");
        put(&root, "deep/er/.git/hooks/post-commit", "evil\n");
        fs::set_permissions(at("deep/er/.git/hooks/post-commit"), fs::Permissions::from_mode(0o755)).expect("a mode");
        put(&root, "deep/er/.git/info/attributes", "* filter=evil\n");
        fs::remove_file(at(".git/hooks/pre-push")).expect("removed");
        put(&root, ".git/modules/lib/sub/config", "evil\n");
        fs::set_permissions(at(".git/modules/lib/sub/modules/inner/hooks/pre-push"), fs::Permissions::from_mode(0o755))
            .expect("a mode");
        put(&root, ".git/worktrees/tree/gitdir", "/other/.git\n");
        put(&root, "sub/.git", "gitdir: ../evil\n");
        put(&root, ".git/rebase-merge/git-rebase-todo", "exec evil\n");
        put(&root, "new/.git/config", "evil\n");
        put(&root, ".envrc", "evil\n");
        fs::create_dir(at(".git/logs")).expect("a folder");
        symlink("../../.bashrc", at(".git/logs/lk")).expect("a link");
        symlink("../.bashrc", at("src/lk")).expect("a link");
        symlink("../../src/config", at(".git/config.worktree")).expect("a link");
        symlink("src", at(".cargo")).expect("a link");
        let expected = [
            ".cargo: new, a link",
            ".envrc: new",
            ".git/config.worktree: new, a link",
            ".git/logs/lk: new, a link",
            ".git/rebase-merge/git-rebase-todo: new",
            "deep/er/.git/hooks/post-commit: new, executable",
            "deep/er/.git/info/attributes: new",
            "new/.git/config: new",
            "src/lk: new, a link",
            ".git/config: changed",
            ".git/hooks/pre-push: deleted",
            ".git/modules/lib/sub/config: changed",
            ".git/modules/lib/sub/modules/inner/hooks/pre-push: changed, executable",
            ".git/worktrees/tree/gitdir: changed",
            "sub/.git: changed",
        ];
        assert_eq!(changes(&guard, &root), expected);
        let (changed, _) = guard.changed(&root);
        for change in &changed {
            change.put_back(&root).expect("put back");
        }
        assert_eq!(changes(&guard, &root), Vec::<String>::new());
        assert_eq!(fs::read_to_string(at("src/config")).expect("it"), "other\n", "not through the link");
        assert!(
            fs::read_dir(root.path()).expect("it").flatten().all(|it| !it
                .file_name()
                .display()
                .to_string()
                .contains("undo"))
        );
    }

    /// After `git worktree add` without consent, half of the new work tree stayed in `.git/worktrees`.
    #[test]
    fn companions_of_a_protected_file_are_removed_unless_other_files_need_them() {
        let (_dir, root) = workspace();
        let guard = Guard::before(&root, &limits(1000), rules(|name, _| name.ends_with(b".envrc")));
        for name in ["one", "two"] {
            for path in ["HEAD", "ORIG_HEAD", "index", "commondir", "gitdir", "logs/HEAD"] {
                put(&root, &format!(".git/worktrees/{name}/{path}"), "x\n");
            }
            fs::create_dir(root.path().join(format!(".git/worktrees/{name}/refs"))).expect("a folder");
            put(&root, &format!("{name}/.git"), "gitdir: x\n");
        }
        for path in ["two/file", ".git/worktrees/two/file", "a/b/.envrc", "src/.envrc", "c/d/.envrc"] {
            put(&root, path, "x\n");
        }
        fs::create_dir(root.path().join("c/e")).expect("a folder");
        for change in guard.changed(&root).0 {
            change.put_back(&root).expect("put back");
        }
        assert_eq!(changes(&guard, &root), Vec::<String>::new());
        let is_there = |path: &str| root.path().join(path).exists();
        for gone in [".git/worktrees/one", "one", "a", "c/d", ".git/worktrees/two/HEAD"] {
            assert!(!is_there(gone), "{gone}");
        }
        for path in [".git/worktrees/tree/gitdir", ".git/worktrees/two/file", "two/file", "c/e", "src/config"] {
            assert!(is_there(path), "{path}");
        }
    }

    /// Only the links between the two were put back, and git had lost the work tree.
    #[test]
    fn a_linked_work_tree_that_git_has_lost_is_put_back_as_a_whole() {
        let (_dir, root) = workspace();
        for (path, text) in
            [("HEAD", "ref: refs/heads/one\n"), ("index", "DIRC"), ("logs/HEAD", "x\n"), ("commondir", "../..\n")]
        {
            put(&root, &format!(".git/worktrees/tree/{path}"), text);
        }
        let guard = Guard::before(&root, &limits(1000), rules(|name, _| name == b".envrc"));
        put(&root, ".git/worktrees/tree/HEAD", "ref: refs/heads/two\n");
        fs::remove_file(root.path().join(".git/worktrees/tree/index")).expect("removed");
        assert_eq!(changes(&guard, &root), Vec::<String>::new(), "git changes those itself");
        fs::remove_dir_all(root.path().join(".git/worktrees/tree")).expect("removed");
        let lost = ["HEAD", "commondir", "gitdir", "index", "logs/HEAD"];
        let mut found = changes(&guard, &root);
        found.sort();
        assert_eq!(found, lost.map(|name| format!(".git/worktrees/tree/{name}: deleted")));
        for change in guard.changed(&root).0 {
            change.put_back(&root).expect("put back");
        }
        assert_eq!(changes(&guard, &root), Vec::<String>::new());
        let head = fs::read_to_string(root.path().join(".git/worktrees/tree/HEAD")).expect("it");
        assert_eq!(head, "ref: refs/heads/one\n");
    }

    #[test]
    fn put_back_leaves_newer_changes_and_never_writes_through_a_link() {
        let (dir, root) = workspace();
        let at = |path: &str| root.path().join(path);
        let guard = Guard::before(&root, &limits(1000), rules(|name, _| name == b".envrc"));
        put(&root, ".git/config", "evil\n");
        let (changed, _) = guard.changed(&root);
        put(&root, ".git/config", "the user's\n");
        let refused = changed[0].put_back(&root);
        assert_eq!(refused, Err(StepsError::Path { path: ".git/config".into(), error: PathError::Changed }));
        put(&root, ".git/config", "[core]\n");
        // All hooks by a link to others.
        let outside = tempfile::tempdir().expect("a directory");
        fs::rename(at(".git/hooks"), at("hooks")).expect("moved");
        symlink(outside.path(), at(".git/hooks")).expect("a link");
        assert_eq!(changes(&guard, &root), [".git/hooks: new, a link", ".git/hooks/pre-push: deleted"]);
        let (changed, _) = guard.changed(&root);
        assert!(changed[1].put_back(&root).is_err());
        assert_eq!(fs::read_dir(outside.path()).expect("it").count(), 0);
        for change in &changed {
            change.put_back(&root).expect("put back");
        }
        assert_eq!(fs::read_to_string(at(".git/hooks/pre-push")).expect("it"), "#!/bin/sh\nexit 0\n");
        drop(dir);
    }

    #[test]
    fn long_files_and_many_are_bounded() {
        let (_dir, root) = workspace();
        let long = "x".repeat(usize::try_from(FILE_BYTES_MAX).expect("a size") + 1);
        put(&root, ".git/hooks/long", &long);
        let guard = Guard::before(&root, &limits(1000), rules(|name, _| name == b".envrc"));
        put(&root, ".git/hooks/long", &long.replace('x', "y"));
        let (changed, _) = guard.changed(&root);
        assert_eq!(changed.len(), 1);
        assert!(changed[0].put_back(&root).is_err());
        // If not everything was examined, that is reported, and paths newer than the first pass count.
        let cut = Guard::before(&root, &limits(10), rules(|name, _| name == b".envrc"));
        assert!(!cut.is_whole());
        put(&root, "deep/er/.git/hooks/new", "x\n");
        let (changed, is_whole) = cut.changed(&root);
        let lines: Vec<String> = changed.iter().map(ToString::to_string).collect();
        let new = lines.iter().position(|it| it.starts_with("deep/er/.git/hooks/new: new")).expect("the hook");
        assert!(
            !is_whole && (lines[new].ends_with("or changed") == changed[new].put_back(&root).is_err()),
            "{lines:?}"
        );
    }

    /// A command's protected files beyond the first 5,000 weren't restored.
    #[test]
    fn a_protected_file_among_thousands_is_put_back() {
        let (_dir, root) = workspace();
        let guard = Guard::before(&root, &limits(10_000), rules(|name, _| name.ends_with(b".envrc")));
        for number in 0..5_100 {
            put(&root, &format!("!{number}/.envrc"), "x");
        }
        put(&root, "zz/.envrc", "x");
        let (changed, is_whole) = guard.changed(&root);
        assert_eq!((changed.len(), is_whole), (5_101, true));
        let last = changed.last().expect("the last");
        assert_eq!(last.to_string(), "zz/.envrc: new");
        last.put_back(&root).expect("removed");
        assert!(!root.path().join("zz").exists());
    }
}
