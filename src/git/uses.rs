//! The branches that work trees use: those that are checked out, and those that a rebase or a bisection will come back to.

use std::path::{Path, PathBuf};

use super::Repo;

/// Use of a branch by a work tree, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchUse {
    /// The branch is checked out.
    CheckedOut(PathBuf),
    /// A rebase that isn't finished will move it.
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

impl Repo {
    /// The use of a branch, by its full name, in any work tree of the repository; `None` if none uses it.
    #[must_use]
    pub fn use_of(&self, branch: &str) -> Option<BranchUse> {
        let checked_out = self.checked_out().into_iter().find(|(it, _)| it == branch);
        if let Some((_, at)) = checked_out {
            return Some(BranchUse::CheckedOut(at));
        }
        let linked = std::fs::read_dir(self.common_dir.join("worktrees")).into_iter().flatten().flatten();
        std::iter::once(self.common_dir.clone()).chain(linked.map(|it| it.path())).find_map(|git_dir| {
            let use_at: fn(PathBuf) -> BranchUse = match unfinished(&git_dir, branch)? {
                Unfinished::Rebase => BranchUse::Rebased,
                Unfinished::Bisection => BranchUse::Bisected,
            };
            Some(use_at(self.work_dir_of(&git_dir)))
        })
    }

    /// The names of branches that are checked out, each with its work tree.
    fn checked_out(&self) -> Vec<(String, PathBuf)> {
        if let Some(tables) = &self.tables {
            return tables.checked_out();
        }
        self.with(|repo| {
            let Ok(all) = repo.worktrees_including_main() else { return Vec::new() };
            let one = |it: gix::Repository| {
                let branch = it.head_name().ok()??.as_bstr().to_string();
                Some((branch, it.workdir()?.to_owned()))
            };
            all.flatten().filter_map(one).collect()
        })
    }

    /// The work tree of one of git's directories; the directory itself if it names none.
    fn work_dir_of(&self, git_dir: &Path) -> PathBuf {
        if git_dir == self.common_dir {
            let main = self.common_dir.parent().filter(|_| self.common_dir.ends_with(".git"));
            return main.unwrap_or(git_dir).to_owned();
        }
        let link = std::fs::read_to_string(git_dir.join("gitdir")).unwrap_or_default();
        Path::new(link.trim_end()).parent().filter(|it| it.is_absolute()).unwrap_or(git_dir).to_owned()
    }
}

/// Operations of git that leave HEAD detached and come back to a branch.
enum Unfinished {
    Rebase,
    Bisection,
}

/// The operation in a work tree that will come back to a branch, from git's files about it: `rebase-merge/head-name` and
/// `rebase-apply/head-name` hold a full name, `rebase-merge/update-refs` three lines for each further branch, the first one
/// its name, and `BISECT_START` a short name.
fn unfinished(git_dir: &Path, branch: &str) -> Option<Unfinished> {
    let lines = |name: &str| std::fs::read_to_string(git_dir.join(name)).unwrap_or_default();
    let of_rebase = ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"];
    if of_rebase.iter().any(|it| lines(it).lines().any(|line| line == branch)) {
        return Some(Unfinished::Rebase);
    }
    let short = branch.strip_prefix("refs/heads/")?;
    (lines("BISECT_START").trim_end() == short).then_some(Unfinished::Bisection)
}
