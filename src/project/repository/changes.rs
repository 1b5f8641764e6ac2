//! The uncommitted changes as a diff: git's tracked files against the last commit, and the names of untracked ones. No program
//! that a config names runs: no driver, converter, filter, monitor or pager. Nothing outside the repository is shown.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::project::Repository;
use crate::project::repository::program::{GitOptions, Quiet, Trouble};

/// Time limit for git: the person has asked for the result.
const WAIT: Duration = Duration::from_secs(5);
/// Limit on the bytes read of the diff: more than a person reads or a model accepts.
const DIFF_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Limit on the bytes of the names of untracked files.
const NAMES_BYTES_MAX: u64 = 1024 * 1024;
/// The empty tree, which every repository has: the base of the diff if there is no commit yet.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// The differences from the last commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Git's unified diff of the files that it tracks, staged or not, as UTF-8; paths from the root of the work tree.
    pub diff: String,
    /// Files that git neither tracks nor ignores, as paths from the root.
    pub untracked: Vec<PathBuf>,
    /// `true` if nothing was left out because of its length.
    pub is_whole: bool,
}

/// Asks git for the differences from the last commit in the repository at `root`.
///
/// # Errors
/// There is no repository or no git, it took longer than 5 s, or the base of the diff lies in another repository.
pub fn changes(root: &Path, options: &GitOptions) -> Result<Changes, Trouble> {
    let repository = Repository::find(root).filter(|it| it.root == root).ok_or(Trouble::NoGit)?;
    if !repository.is_its_own() {
        return Err(Trouble::Unreadable);
    }
    let git = Quiet::new(root, options, WAIT)?;
    let diff = |against| {
        let words = "-c core.quotePath=false diff --no-ext-diff --no-textconv --no-color --ignore-submodules=all \
                     --src-prefix=a/ --dst-prefix=b/ --unified=3 --find-renames --no-relative";
        let words: Vec<&str> = words.split_ascii_whitespace().chain([against, "--"]).collect();
        git.output(&words, DIFF_BYTES_MAX)
    };
    let diff = match diff("HEAD") {
        Err(Trouble::NoGit) => diff(EMPTY_TREE),
        other => other,
    }?;
    let names = git.output(&["ls-files", "--others", "--exclude-standard", "-z", "--", ":/"], NAMES_BYTES_MAX)?;
    let untracked = names.text().split_terminator('\0').map(PathBuf::from).collect();
    Ok(Changes { diff: diff.text(), untracked, is_whole: diff.is_whole && names.is_whole })
}

/// One file's part of a git diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff<'a> {
    /// Its paths before and after, if known; the same path twice unless it was renamed.
    pub paths: Vec<String>,
    /// Its part, from `diff --git` on.
    pub text: &'a str,
}

/// Splits a git diff by file.
#[must_use]
pub fn by_file(diff: &str) -> Vec<FileDiff<'_>> {
    const HEAD: &str = "diff --git ";
    let mut starts: Vec<usize> = diff.match_indices(HEAD).map(|(at, _)| at).collect();
    starts.retain(|&at| at == 0 || diff.as_bytes()[at - 1] == b'\n');
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    let file = |(start, end): (&usize, usize)| {
        let text = &diff[*start..end];
        FileDiff { paths: paths_of(text), text }
    };
    starts.iter().zip(ends).map(file).collect()
}

/// The paths that the head of a file's part names.
fn paths_of(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for line in text.lines().take_while(|line| !line.starts_with("@@")) {
        let path = ["--- a/", "+++ b/", "rename from ", "rename to "].iter().find_map(|head| line.strip_prefix(head));
        // Git quotes a name with characters that a line can't contain, and ends a name that contains blanks with a tab.
        let path = path.or_else(|| line.strip_prefix("--- \"a/").or_else(|| line.strip_prefix("+++ \"b/")));
        paths.extend(path.map(|path| path.trim_end_matches(['\t', '"']).to_owned()));
    }
    if paths.is_empty() {
        // Neither content nor rename: only a mode, or an empty file. `a/PATH b/PATH` has the same path twice.
        let names = text.lines().next().unwrap_or_default().trim_start_matches("diff --git ");
        let half = names.len() / 2;
        paths.extend(names.get(..half).and_then(|name| name.strip_prefix("a/")).map(str::to_owned));
    }
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;
    use crate::project::tests::{git_options, repository};

    #[test]
    fn staged_and_unstaged_changes_are_one_diff_and_new_files_are_named() {
        let dir = repository(&[("a.txt", "one\n"), ("sub/b.txt", "two\n"), ("gone", "x\n"), (".gitignore", "out\n")]);
        let root = dir.path().canonicalize().expect("a path");
        let options = git_options("/usr/bin:/bin");
        assert_eq!(changes(&root, &options), Ok(Changes { is_whole: true, ..Changes::default() }));
        fs::write(root.join("a.txt"), "uno\n").expect("a file");
        fs::write(root.join("sub/b.txt"), "due\n").expect("a file");
        fs::write(root.join("sub/new é"), "").expect("a file");
        fs::write(root.join("out"), "").expect("a file");
        fs::remove_file(root.join("gone")).expect("removed");
        let staged = Command::new("git").args(["add", "a.txt"]).current_dir(&root).status();
        assert!(staged.expect("git").success());
        let found = changes(&root, &options).expect("changes");
        for line in ["--- a/a.txt", "-one", "+uno", "+++ b/sub/b.txt", "+due", "deleted file mode 100644"] {
            assert!(found.diff.lines().any(|it| it == line), "{line} in {}", found.diff);
        }
        assert_eq!((found.untracked, found.is_whole), (vec!["sub/new é".into()], true));
    }

    #[test]
    fn a_diff_is_cut_by_file() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-diff --git no\n+y\ndiff --git a/old b/new\n\
                    rename from old\nrename to new\ndiff --git a/e mpty b/e mpty\nnew file mode 100644\n";
        let files = by_file(diff);
        let paths: Vec<Vec<String>> = files.iter().map(|file| file.paths.clone()).collect();
        assert_eq!(paths, [vec!["x"], vec!["old", "new"], vec!["e mpty"]]);
        assert_eq!(files.iter().map(|file| file.text).collect::<String>(), diff);
        assert!(by_file("").is_empty());
    }

    #[test]
    fn a_repository_without_a_commit_has_changes_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let git = |words: &[&str]| Command::new("git").args(words).current_dir(dir.path()).status().expect("git");
        assert!(git(&["init", "-q"]).success());
        fs::write(dir.path().join("a"), "one\n").expect("a file");
        assert!(git(&["add", "a"]).success());
        let options = git_options("/usr/bin:/bin");
        let found = changes(&dir.path().canonicalize().expect("a path"), &options).expect("changes");
        assert!(found.diff.contains("+one"), "{found:?}");
        let none = tempfile::tempdir().expect("a directory");
        assert_eq!(changes(none.path(), &options), Err(Trouble::NoGit));
    }

    #[test]
    fn no_program_of_the_repository_runs() {
        let dir = repository(&[("a.txt", "one\n"), (".gitattributes", "*.txt diff=evil filter=evil\n")]);
        let root = dir.path().canonicalize().expect("a path");
        let (evil, ran) = (root.join("evil"), root.join("ran"));
        fs::write(&evil, format!("#!/bin/sh\necho ran >>{}\ncat\n", ran.display())).expect("a file");
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).expect("permissions");
        let config = fs::read_to_string(root.join(".git/config")).expect("a config");
        let evil = evil.display();
        let more = format!(
            "[core]\n\tpager = {evil}\n\tfsmonitor = {evil}\n\thooksPath = {}\n[pager]\n\tdiff = {evil}\n[diff]\n\
             \texternal = {evil}\n[diff \"evil\"]\n\tcommand = {evil}\n\ttextconv = {evil}\n[filter \"evil\"]\n\
             \tclean = {evil}\n\tprocess = {evil}\n",
            root.display()
        );
        fs::write(root.join(".git/config"), config + &more).expect("a config");
        fs::write(root.join("a.txt"), "uno\n").expect("a file");
        let found = changes(&root, &git_options("/usr/bin:/bin")).expect("changes");
        assert!(found.diff.contains("+uno") && !ran.exists(), "{found:?}");
        // The trap works: plain git runs the program.
        let plain = Command::new("git").args(["diff"]).current_dir(&root).output().expect("git");
        assert!(ran.exists(), "{plain:?}");
    }

    /// `core.worktree` once led `@diff` to files of the user that had never been in the repository.
    #[test]
    fn nothing_outside_the_work_tree_is_shown() {
        let outer = tempfile::tempdir().expect("a directory");
        fs::create_dir(outer.path().join("app")).expect("a directory");
        fs::write(outer.path().join("app/notes"), "launch on 3 May\n").expect("a file");
        let dir = repository(&[("app/notes", "nothing\n")]);
        let root = dir.path().canonicalize().expect("a path");
        let options = git_options("/usr/bin:/bin");
        let config = fs::read_to_string(root.join(".git/config")).expect("a config");
        let more = format!("[core]\n\tworktree = {}\n", outer.path().display());
        fs::write(root.join(".git/config"), config + &more).expect("a config");
        assert_eq!(changes(&root, &options), Ok(Changes { is_whole: true, ..Changes::default() }));
        // The trap works: plain git shows the file.
        let plain = Command::new("git").args(["diff", "HEAD"]).current_dir(&root).output().expect("git");
        assert!(String::from_utf8_lossy(&plain.stdout).contains("launch on 3 May"), "{plain:?}");
        // Another repository of the user's, reached through a git directory that points at it.
        let evil = tempfile::tempdir().expect("a directory");
        let evil = evil.path().canonicalize().expect("a path");
        fs::create_dir_all(&evil).expect("a directory");
        fs::write(evil.join(".git"), format!("gitdir: {}/.git\n", root.display())).expect("a file");
        assert_eq!(changes(&evil, &options), Err(Trouble::Unreadable));
    }

    #[test]
    fn a_linked_work_tree_and_a_submodule_have_their_changes() {
        let dir = repository(&[("a.txt", "one\n")]);
        let at = |path: &str| dir.path().canonicalize().expect("a path").join(path);
        let module = repository(&[("b.txt", "two\n")]);
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "protocol.file.allow=always"]).args(words).current_dir(dir.path());
            assert!(command.output().expect("git").status.success(), "{words:?}");
        };
        git(&["worktree", "add", "-q", "tree"]);
        git(&["submodule", "--quiet", "add", module.path().to_str().expect("UTF-8"), "sub"]);
        for (path, name) in [("tree", "a.txt"), ("sub", "b.txt")] {
            fs::write(at(path).join(name), "new\n").expect("a file");
            let found = changes(&at(path), &git_options("/usr/bin:/bin")).expect("changes");
            assert!(found.diff.contains("+new") && found.untracked.is_empty(), "{path}: {found:?}");
        }
    }
}
