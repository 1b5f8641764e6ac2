//! Linked work trees that a command has made or removed on its copy (`git worktree add`, `git worktree remove`): they lose the
//! protection if they are whole. It must not start git, nor decide what is done about the other changes.
//!
//! Git runs programs by paths relative to a work tree's top (`core.hooksPath = tools/hooks`). So a file of a new work tree is as
//! protected as the file at the same place of the repository, unless it is the same.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files::{Layers, open_plain};
use crate::gate::Named;
use crate::proto::known_paths::{self, View, WorkTree, stays_below};
use crate::sandbox::{Change, ChangeKind};

/// Bytes of a file that names a directory: one line, which is a path.
const LINE_BYTES_MAX: u64 = 8 * 1024;
/// Bytes of a protected file that is compared with the repository's.
const SAME_BYTES_MAX: u64 = 1024 * 1024;

/// The changes of a command, sorted by path, over the workspace as it was.
struct Changed<'a> {
    items: &'a [Change],
    before: &'a Layers,
    workspace: &'a Path,
}

/// Takes the protection off work trees that a command has made or removed as a whole, and protects what git would run in a new
/// one. `items` are sorted by path.
pub fn clear_worktrees(items: &mut [Change], before: &Layers, workspace: &Path, named: &Named) {
    let view = Changed { items, before, workspace };
    let gitdirs = || items.iter().filter(|it| it.path.ends_with("gitdir"));
    let made: Vec<WorkTree> =
        gitdirs().filter_map(|it| WorkTree::find_made(&it.path, &view)).filter(|tree| view.is_plain(tree)).collect();
    let removed: Vec<WorkTree> = gitdirs().filter_map(|it| WorkTree::find_removed(&it.path, &view)).collect();
    if made.is_empty() && removed.is_empty() {
        return;
    }
    let is_removed = |it: &Change| it.kind == ChangeKind::Deleted && removed.iter().any(|tree| tree.holds(&it.path));
    let protection = |it: &Change| match made.iter().find(|tree| tree.holds(&it.path)) {
        Some(tree) => protection_in(tree, it, before, named),
        None => it.protected.filter(|_| !is_removed(it)),
    };
    let protections: Vec<Option<&'static str>> = items.iter().map(protection).collect();
    for (it, protected) in items.iter_mut().zip(protections) {
        it.is_cleared = it.protected.is_some() && protected.is_none();
        it.protected = protected;
    }
}

/// Reason why a change in a new work tree is protected.
fn protection_in(tree: &WorkTree, change: &Change, before: &Layers, named: &Named) -> Option<&'static str> {
    if change.path.starts_with(&tree.admin) || change.path == tree.dot_git() {
        return None;
    }
    let (twin, below) = tree.twin(&change.path)?;
    let name = twin.as_os_str().as_bytes();
    let of_twin = || match change.kind {
        ChangeKind::Directory { .. } => None,
        ChangeKind::Link { .. } => known_paths::protected_link(name).or_else(|| named.reason_below(&twin)),
        _ => known_paths::protected(name).or_else(|| named.reason_below(&twin)),
    };
    change.protected.or_else(of_twin).filter(|_| !is_same(change, below, &twin, before))
}

impl Changed<'_> {
    fn item(&self, path: &Path) -> Option<&Change> {
        self.items.binary_search_by(|it| it.path.as_path().cmp(path)).ok().map(|at| &self.items[at])
    }

    fn was_directory(&self, path: &Path) -> bool {
        self.before.stamp(path).is_ok_and(|it| it.is_some_and(|it| it.is_directory()))
    }

    /// Returns whether git's directory of a new work tree has nothing in it that configures git. Git's other files in it start no
    /// program, as in `.git` itself.
    fn is_plain(&self, tree: &WorkTree) -> bool {
        let mut of_git = self.items.iter().filter(|it| it.path.starts_with(&tree.admin));
        of_git.all(|it| {
            let is_of_pair = ["gitdir", "commondir"].iter().any(|name| it.path == tree.admin.join(name));
            match &it.kind {
                ChangeKind::Directory { .. } => true,
                ChangeKind::File { mode, .. } => {
                    let is_named = known_paths::protected(it.path.as_os_str().as_bytes()).is_some();
                    mode & 0o111 == 0 && (is_of_pair || !is_named)
                }
                ChangeKind::Link { .. } | ChangeKind::Deleted => false,
            }
        })
    }
}

impl View for Changed<'_> {
    fn tops(&self) -> Vec<PathBuf> {
        [Some(self.workspace.to_owned()), std::fs::canonicalize(self.workspace).ok()].into_iter().flatten().collect()
    }

    fn new_text(&self, path: &Path) -> Option<String> {
        let change = self.item(path).filter(|it| it.before.is_none())?;
        let ChangeKind::File { mode, bytes, source } = &change.kind else { return None };
        let bytes = content(source, LINE_BYTES_MAX).filter(|it| it.len() as u64 == *bytes)?;
        String::from_utf8(bytes).ok().filter(|_| mode & 0o111 == 0)
    }

    fn old_text(&self, path: &Path) -> Option<String> {
        let (stamp, bytes) = self.before.held(path, LINE_BYTES_MAX).ok()?;
        String::from_utf8(bytes).ok().filter(|_| stamp.is_file())
    }

    fn is_new_directory(&self, path: &Path) -> bool {
        match self.item(path) {
            Some(change) => matches!(change.kind, ChangeKind::Directory { .. }) && change.before.is_none(),
            None => {
                let place = self.before.place(path).filter(|_| self.was_directory(path));
                place.is_some_and(|place| std::fs::read_dir(place).is_ok_and(|mut all| all.next().is_none()))
            }
        }
    }

    fn is_old_directory(&self, path: &Path) -> bool {
        let is_left = self.item(path).is_none_or(|it| matches!(it.kind, ChangeKind::Directory { .. }));
        is_left && self.was_directory(path)
    }

    fn is_known(&self, path: &Path) -> bool {
        self.item(path).is_some() || !matches!(self.before.stamp(path), Ok(None))
    }

    fn is_gone(&self, path: &Path) -> bool {
        match self.item(path) {
            Some(change) => change.kind == ChangeKind::Deleted,
            None => matches!(self.before.stamp(path), Ok(None)),
        }
    }
}

/// Returns whether a file or a link of a new work tree is the same as the repository's at its place: then it lets nothing be run
/// that the repository doesn't.
fn is_same(change: &Change, below: &Path, twin: &Path, before: &Layers) -> bool {
    let Ok((stamp, bytes)) = before.held(twin, SAME_BYTES_MAX) else { return false };
    match &change.kind {
        ChangeKind::File { mode, source, .. } => {
            let is_program = |mode: u32| mode & 0o111 != 0;
            let is_like = stamp.is_file() && (is_program(stamp.permissions()) || !is_program(*mode));
            is_like && content(source, SAME_BYTES_MAX).is_some_and(|it| it == bytes)
        }
        ChangeKind::Link { target } => {
            stamp.is_link() && target.as_os_str().as_bytes() == bytes && stays_below(below, target)
        }
        ChangeKind::Directory { .. } | ChangeKind::Deleted => false,
    }
}

/// The content of a plain file that isn't longer than this.
fn content(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    open_plain(path).ok()?.take(bytes_max + 1).read_to_end(&mut all).ok()?;
    (all.len() as u64 <= bytes_max).then_some(all)
}
