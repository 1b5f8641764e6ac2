//! The branches that work trees use: those that are checked out, and those that a rebase or a bisection will come back to.

use std::path::{Path, PathBuf};

use crate::files::read_plain;

/// Limit on a small file of git's with one or a few names, in bytes.
const TEXT_BYTES_MAX: u64 = 64 * 1024;

/// Use of a branch by a work tree, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchUse {
    /// The branch is checked out.
    CheckedOut(PathBuf),
    /// An unfinished rebase will move it.
    Rebased(PathBuf),
    /// A bisection began at it.
    Bisected(PathBuf),
}

impl std::fmt::Display for BranchUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (is, at) = match self {
            Self::CheckedOut(at) => ("is checked out in", at),
            Self::Rebased(at) => ("is being rebased in", at),
            Self::Bisected(at) => ("is being bisected in", at),
        };
        write!(f, "{is} {}", at.display())
    }
}

/// The text of a file of git's; empty if it can't be read.
fn text_of(path: &Path) -> String {
    let text = read_plain(path, TEXT_BYTES_MAX).ok().and_then(|(_, bytes)| String::from_utf8(bytes).ok());
    text.unwrap_or_default()
}

/// Git's directories of all work trees of a repository.
fn git_dirs(common_dir: &Path) -> impl Iterator<Item = PathBuf> {
    let linked = std::fs::read_dir(common_dir.join("worktrees")).into_iter().flatten().flatten();
    std::iter::once(common_dir.to_owned()).chain(linked.map(|it| it.path()))
}

/// Returns whether the file `HEAD` of a work tree names a branch.
pub(super) fn is_head(common_dir: &Path, branch: &str) -> bool {
    let head = |git_dir: PathBuf| text_of(&git_dir.join("HEAD"));
    git_dirs(common_dir).any(|it| head(it).strip_prefix("ref:").is_some_and(|name| name.trim() == branch))
}

/// The use of a branch by a rebase or a bisection that isn't finished, in any work tree of a repository.
pub(super) fn unfinished_use(common_dir: &Path, branch: &str) -> Option<BranchUse> {
    git_dirs(common_dir).find_map(|git_dir| {
        let at = || work_dir_of(&git_dir, common_dir);
        is_rebased(&git_dir, branch)
            .then(|| BranchUse::Rebased(at()))
            .or_else(|| is_bisected(&git_dir, branch).then(|| BranchUse::Bisected(at())))
    })
}

/// The work tree of one of git's directories; the directory itself if it names none.
fn work_dir_of(git_dir: &Path, common_dir: &Path) -> PathBuf {
    if git_dir == common_dir {
        let main = common_dir.parent().filter(|_| common_dir.ends_with(".git"));
        return main.unwrap_or(git_dir).to_owned();
    }
    let link = text_of(&git_dir.join("gitdir"));
    Path::new(link.trim_end()).parent().filter(|it| it.is_absolute()).unwrap_or(git_dir).to_owned()
}

/// Returns whether a rebase will move a branch. `head-name` holds its full name, `update-refs` three lines for each
/// further branch, of which the first is its name.
fn is_rebased(git_dir: &Path, branch: &str) -> bool {
    let files = ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"];
    let text = |name: &str| text_of(&git_dir.join(name));
    files.iter().any(|name| text(name).lines().any(|line| line == branch))
}

/// Returns whether a bisection began at a branch, whose short name is in `BISECT_START`.
fn is_bisected(git_dir: &Path, branch: &str) -> bool {
    let began = text_of(&git_dir.join("BISECT_START"));
    branch.strip_prefix("refs/heads/") == Some(began.trim_end())
}
