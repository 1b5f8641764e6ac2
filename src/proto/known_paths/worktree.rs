//! Git's linked work trees: a `.git` file and a directory below `.git/worktrees` that name each other. Both determine which
//! configuration git reads, so they are protected. A pair that leads git to the configuration that applied at that place anyway
//! is harmless. This file doesn't read files: a [`View`] does.

use std::path::{Component, Path, PathBuf};

/// The content of `commondir`: the path to the work tree's repository.
const COMMON: &str = "../..\n";

/// Files of a workspace before and after a command. All paths are relative to the workspace.
pub trait View {
    /// Other paths of the workspace's top, by which a file may name a path below it.
    fn tops(&self) -> Vec<PathBuf>;

    /// The text of a new plain file that isn't executable.
    fn new_text(&self, path: &Path) -> Option<String>;

    /// The text that a plain file had before the command.
    fn old_text(&self, path: &Path) -> Option<String>;

    /// Returns whether a directory is new, or was empty.
    fn is_new_directory(&self, path: &Path) -> bool;

    /// Returns whether a directory existed before and still exists.
    fn is_old_directory(&self, path: &Path) -> bool;

    /// Returns whether something existed at a path before, or exists now.
    fn is_known(&self, path: &Path) -> bool;

    /// Returns whether nothing exists at a path now.
    fn is_gone(&self, path: &Path) -> bool;
}

/// A linked work tree of a repository in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkTree {
    /// The top of the repository, with its `.git`.
    pub repository: PathBuf,
    /// The directory below `.git/worktrees`.
    pub admin: PathBuf,
    /// The top of the work tree.
    pub top: PathBuf,
}

impl WorkTree {
    /// The new work tree that a new `gitdir` belongs to, if the pair is exactly as git makes it.
    #[must_use]
    pub fn find_made(gitdir: &Path, view: &dyn View) -> Option<Self> {
        let tree = Self::of(gitdir, &view.new_text(gitdir)?, view)?;
        let is_pair = tree.is_named_by(&view.new_text(&tree.dot_git())?, view)
            && view.new_text(&tree.admin.join("commondir"))? == COMMON;
        let is_new = view.is_new_directory(&tree.admin) && view.is_new_directory(&tree.top);
        (is_pair && is_new && tree.is_of_its_place(view)).then_some(tree)
    }

    /// The work tree that a deleted `gitdir` belonged to, if nothing is left of the work tree. One outside the workspace isn't
    /// visible in the jail, and `git worktree prune` would take it for deleted.
    #[must_use]
    pub fn find_removed(gitdir: &Path, view: &dyn View) -> Option<Self> {
        let tree = Self::of(gitdir, &view.old_text(gitdir)?, view)?;
        let dot_git = tree.dot_git();
        let was_pair = match view.old_text(&dot_git) {
            Some(text) => tree.is_named_by(&text, view),
            None => !view.is_known(&dot_git),
        };
        let is_gone = view.is_gone(&tree.admin) && view.is_gone(&tree.top);
        (was_pair && is_gone && tree.is_of_its_place(view)).then_some(tree)
    }

    /// The `.git` file.
    #[must_use]
    pub fn dot_git(&self) -> PathBuf {
        self.top.join(".git")
    }

    /// Returns whether a path lies in either directory.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.admin) || path.starts_with(&self.top)
    }

    /// The path in the repository that corresponds to a path in the work tree, and the path below both tops.
    #[must_use]
    pub fn twin<'a>(&self, path: &'a Path) -> Option<(PathBuf, &'a Path)> {
        let below = path.strip_prefix(&self.top).ok()?;
        Some((self.repository.join(below), below))
    }

    /// The work tree whose `gitdir` has this text. Git's directory must belong to a repository directly in the workspace, and the
    /// work tree must be in none.
    fn of(gitdir: &Path, text: &str, view: &dyn View) -> Option<Self> {
        let admin = gitdir.parent().filter(|_| gitdir.ends_with("gitdir"))?;
        let git = admin.parent().filter(|it| it.ends_with(".git/worktrees"))?.parent()?;
        let repository = git.parent()?;
        let dot_git = inside(admin, text.strip_suffix('\n')?, view)?;
        let top = dot_git.parent().filter(|_| dot_git.ends_with(".git"))?;
        let is_apart = !top.as_os_str().is_empty() && ![repository, top].iter().any(|it| it.components().any(is_git));
        is_apart.then(|| Self { repository: repository.into(), admin: admin.into(), top: top.into() })
    }

    /// Returns whether the text of a `.git` file leads to git's directory of this work tree.
    fn is_named_by(&self, text: &str, view: &dyn View) -> bool {
        let path = text.strip_prefix("gitdir: ").and_then(|path| path.strip_suffix('\n'));
        path.and_then(|path| inside(&self.top, path, view)).is_some_and(|path| path == self.admin)
    }

    /// Returns whether git would find the same repository at this place without the work tree.
    fn is_of_its_place(&self, view: &dyn View) -> bool {
        let git = self.repository.join(".git");
        let mut above = self.top.ancestors().skip(1).map(|it| it.join(".git"));
        view.is_old_directory(&git) && above.find(|path| view.is_known(path)).is_some_and(|path| path == git)
    }
}

/// Returns whether a link at a path below a top leads to another path below it, judged by its text alone.
#[must_use]
pub fn stays_below(link: &Path, target: &Path) -> bool {
    let up = up(target);
    let is_down = target.components().skip(up).all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
    is_down && link.components().count() > up
}

/// Resolves a path in one of git's files, relative to a directory, to a path of the workspace. It goes up only at its beginning,
/// from directories that aren't links, so that its text suffices to follow it.
fn inside(directory: &Path, path: &str, view: &dyn View) -> Option<PathBuf> {
    let path = Path::new(path);
    let (base, rest) = if path.is_absolute() {
        (Path::new(""), view.tops().iter().find_map(|top| path.strip_prefix(top).ok())?)
    } else {
        let up = up(path);
        (directory.ancestors().nth(up)?, path.strip_prefix(PathBuf::from_iter(vec![".."; up])).ok()?)
    };
    rest.components().all(|part| matches!(part, Component::Normal(_))).then(|| base.join(rest))
}

/// The number of directories that a path goes up at its beginning.
fn up(path: &Path) -> usize {
    path.components().take_while(|it| *it == Component::ParentDir).count()
}

fn is_git(part: Component) -> bool {
    part.as_os_str().eq_ignore_ascii_case(".git")
}
