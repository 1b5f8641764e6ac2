//! Facts of a git repository for the prompt and completion, by reading files. It runs no process, writes nothing, and
//! must not know the object database: it returns only names and the branch.

use std::path::{Path, PathBuf};

use crate::files::read_plain;

/// Limit on the references; a longer list is of no use for completion.
const REFS_MAX: usize = 5_000;
/// Limit on the directories under `refs/` that are opened.
const DIRECTORIES_MAX: usize = 1_000;
/// Limit on the size of `packed-refs`: 8 MiB are some 100,000 references.
const PACKED_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Limit on the size of a repository's `config`: a longer one wasn't written by a person.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Limit on the size of `HEAD`, `.git` and `commondir`, which are one line each; a path is 4,096 bytes at most.
const LINE_BYTES_MAX: u64 = 8 * 1024;
/// Number of digits that are shown of a commit for a detached HEAD, as git abbreviates by default.
const SHORT_HASH: usize = 7;

/// A repository found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The directory that contains `.git`.
    pub root: PathBuf,
    /// The directory with this work tree's own `HEAD`.
    git_dir: PathBuf,
    /// The directory with the references of all work trees.
    common_dir: PathBuf,
}

/// The target of HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A branch, even one without a commit.
    Branch(String),
    /// A commit without a branch: the first digits of its name.
    Detached(String),
}

/// Names for completion, each list sorted and without its `refs/…/` prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// Local branches.
    pub branches: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Branches of remotes, as `origin/main`.
    pub remotes: Vec<String>,
}

/// Returns whether `common_dir` is the shared directory of `git_dir`: both are the same, or `git_dir` is that of a linked work
/// tree, at the place where git puts it. With `commondir` alone, a stranger's directory could name any directory.
fn is_shared_by(common_dir: &Path, git_dir: &Path) -> bool {
    let is_git_s = || ["HEAD", "objects", "refs"].iter().all(|name| common_dir.join(name).symlink_metadata().is_ok());
    common_dir == git_dir || git_dir.parent() == Some(&*common_dir.join("worktrees")) && is_git_s()
}

impl Repository {
    /// Finds the repository that contains `cwd`, by searching upward.
    #[must_use]
    pub fn find(cwd: &Path) -> Option<Self> {
        cwd.ancestors().find_map(|root| {
            let dot_git = root.join(".git");
            let git_dir = if dot_git.metadata().ok()?.is_dir() {
                dot_git
            } else {
                let text = line_of(&dot_git)?;
                root.join(text.strip_prefix("gitdir:")?.trim())
            };
            // An empty `.git` directory isn't a repository, and git continues the search above.
            git_dir.join("HEAD").symlink_metadata().ok()?;
            let common_dir =
                line_of(&git_dir.join("commondir")).map_or_else(|| git_dir.clone(), |text| git_dir.join(text));
            Some(Self { root: root.to_owned(), git_dir, common_dir })
        })
    }

    /// Returns whether git's files of this work tree lie in it, or elsewhere in a directory that names this work tree in turn, as
    /// for a linked work tree or a submodule. Otherwise a stranger's repository could point at another one of the user's.
    #[must_use]
    pub fn is_its_own(&self) -> bool {
        let (Ok(root), Ok(git_dir)) = (self.root.canonicalize(), self.git_dir.canonicalize()) else { return false };
        if !git_dir.starts_with(&root) {
            return self.is_named_back(&root, &git_dir);
        }
        // A directory that doesn't exist leads nowhere.
        let is_inside = |name: &&str| {
            let path = self.common_dir.join(name);
            path.canonicalize().map_or_else(|_| path.symlink_metadata().is_err(), |real| real.starts_with(&root))
        };
        ["", "objects", "objects/pack", "refs", "refs/heads", "packed-refs"].iter().all(is_inside)
    }

    /// Git's own directories outside the work tree; the shared one first, which may contain the other. Empty if the files that
    /// name them could come from a stranger.
    #[must_use]
    pub fn outside(&self) -> Vec<PathBuf> {
        let real = |path: &Path| path.canonicalize().ok();
        let (Some(git_dir), Some(common_dir)) = (real(&self.git_dir), real(&self.common_dir)) else {
            return Vec::new();
        };
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let is_git_s = is_shared_by(&common_dir, &git_dir);
        let outside: Vec<PathBuf> = [common_dir, git_dir].into_iter().filter(|path| !path.starts_with(&root)).collect();
        if outside.is_empty() || !is_git_s || !self.is_its_own() { Vec::new() } else { outside }
    }

    /// Returns whether a git directory names this work tree as its own: in `gitdir` for a linked one, in `core.worktree` for a
    /// submodule.
    fn is_named_back(&self, root: &Path, git_dir: &Path) -> bool {
        let is_root = |path: &Path| git_dir.join(path).canonicalize().is_ok_and(|path| path == root);
        if let Some(line) = line_of(&git_dir.join("gitdir")) {
            return Path::new(&line).parent().is_some_and(is_root);
        }
        let config = read_bounded(&git_dir.join("config"), CONFIG_BYTES_MAX).unwrap_or_default();
        let named = config.lines().filter_map(|line| line.trim().strip_prefix("worktree")?.trim().strip_prefix('='));
        named.map(|path| path.trim().trim_matches('"')).any(|path| is_root(Path::new(path)))
    }

    /// Reads the target of HEAD; `None` if it is unreadable.
    #[must_use]
    pub fn head(&self) -> Option<Head> {
        let path = self.git_dir.join("HEAD");
        // Very old repositories have a symbolic link for HEAD.
        if let Ok(target) = std::fs::read_link(&path) {
            return Some(Head::Branch(branch_of(target.to_str()?).to_owned()));
        }
        let text = line_of(&path)?;
        if let Some(name) = text.strip_prefix("ref:") {
            return Some(Head::Branch(branch_of(name.trim()).to_owned()));
        }
        let is_hash = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| Head::Detached(text[..SHORT_HASH].to_owned()))
    }

    /// Reads the name of HEAD's commit; `None` if there is no commit, or git stores references in an unknown format.
    #[must_use]
    pub fn head_commit(&self) -> Option<String> {
        let is_hash = |text: &str| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let line = line_of(&self.git_dir.join("HEAD"))?;
        let Some(name) = line.strip_prefix("ref:").map(str::trim) else { return Some(line).filter(|it| is_hash(it)) };
        if name.split('/').any(|part| part == "..") || !name.starts_with("refs/") {
            return None;
        }
        let packed = || {
            let text = read_bounded(&self.common_dir.join("packed-refs"), PACKED_BYTES_MAX)?;
            text.lines()
                .find_map(|line| line.split_once(' ').filter(|(_, it)| *it == name).map(|(hash, _)| hash.to_owned()))
        };
        let loose = [&self.git_dir, &self.common_dir].into_iter().find_map(|dir| line_of(&dir.join(name)));
        loose.or_else(packed).filter(|it| is_hash(it))
    }

    /// Lists branches, tags and remote branches, loose and packed.
    #[must_use]
    pub fn refs(&self) -> Refs {
        let mut refs = Refs::default();
        let mut directories_left = DIRECTORIES_MAX;
        for (kind, list) in [("heads", &mut refs.branches), ("tags", &mut refs.tags), ("remotes", &mut refs.remotes)] {
            walk(&self.common_dir.join("refs").join(kind), "", list, &mut directories_left);
        }
        if let Some(text) = read_bounded(&self.common_dir.join("packed-refs"), PACKED_BYTES_MAX) {
            for name in text.lines().filter_map(|line| line.split_once(' ').map(|(_, name)| name)) {
                for (prefix, list) in [
                    ("refs/heads/", &mut refs.branches),
                    ("refs/tags/", &mut refs.tags),
                    ("refs/remotes/", &mut refs.remotes),
                ] {
                    if let Some(short) = name.strip_prefix(prefix) {
                        list.push(short.to_owned());
                    }
                }
            }
        }
        for list in [&mut refs.branches, &mut refs.tags, &mut refs.remotes] {
            list.retain(|name| !name.ends_with("/HEAD") && !name.chars().any(char::is_control));
            list.sort_unstable();
            list.dedup();
            list.truncate(REFS_MAX);
        }
        refs
    }

    /// Names the remotes in the repository's `config`.
    #[must_use]
    pub fn remotes(&self) -> Vec<String> {
        let text = read_bounded(&self.common_dir.join("config"), CONFIG_BYTES_MAX).unwrap_or_default();
        let mut names: Vec<String> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("[remote \"")?.strip_suffix("\"]"))
            .filter(|name| !name.chars().any(char::is_control))
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn branch_of(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

fn line_of(path: &Path) -> Option<String> {
    let text = read_bounded(path, LINE_BYTES_MAX)?;
    let line = text.lines().next()?.trim();
    (!line.is_empty() && !line.chars().any(char::is_control)).then(|| line.to_owned())
}

/// The file's text; `None` if it is missing, longer than `bytes_max`, not a regular file (a FIFO would block) or not UTF-8.
pub(in crate::project) fn read_bounded(path: &Path, bytes_max: u64) -> Option<String> {
    String::from_utf8(read_plain(path, bytes_max).ok()?.1).ok()
}

fn walk(directory: &Path, prefix: &str, out: &mut Vec<String>, directories_left: &mut usize) {
    if *directories_left == 0 {
        return;
    }
    *directories_left -= 1;
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if out.len() >= REFS_MAX {
            return;
        }
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else { continue };
        let full = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if kind.is_dir() {
            walk(&entry.path(), &full, out, directories_left);
        } else if !full.ends_with(".lock") {
            out.push(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let holder = tempfile::tempdir().expect("a directory");
        let root = holder.path().join("project");
        put(&root.join(".git/HEAD"), "ref: refs/heads/feature/x\n");
        put(&root.join(".git/refs/heads/feature/x"), "0\n");
        put(&root.join(".git/refs/heads/main"), "0\n");
        put(&root.join(".git/refs/heads/main.lock"), "");
        put(&root.join(".git/refs/remotes/origin/HEAD"), "ref: refs/remotes/origin/main\n");
        put(&root.join(".git/config"), "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n[remote \"up\"]\n");
        put(
            &root.join(".git/packed-refs"),
            "# pack-refs with: peeled\n1111 refs/heads/main\n2222 refs/heads/old\n3333 refs/tags/v1\n^4444\n5555 refs/remotes/origin/main\n",
        );
        (holder, root)
    }

    #[test]
    fn branch_and_references_of_a_repository_from_inside_it() {
        let (_holder, root) = repository();
        fs::create_dir_all(root.join("src/deep")).expect("directories");
        let found = Repository::find(&root.join("src/deep")).expect("the repository");
        assert_eq!(found.root, root);
        assert_eq!(found.head(), Some(Head::Branch("feature/x".into())));
        let refs = found.refs();
        assert_eq!(refs.branches, ["feature/x", "main", "old"]);
        assert_eq!(refs.tags, ["v1"]);
        assert_eq!(refs.remotes, ["origin/main"]);
        assert_eq!(found.remotes(), ["origin", "up"]);
    }

    #[test]
    fn a_detached_head_is_a_short_hash_and_garbage_is_nothing() {
        let (_holder, root) = repository();
        let found = Repository::find(&root).expect("the repository");
        for (text, expected) in [
            ("0123456789abcdef0123456789abcdef01234567\n", Some(Head::Detached("0123456".into()))),
            ("garbage", None),
            ("", None),
            ("ref: refs/heads/a\u{1b}[31m", None),
            ("é", None),
        ] {
            put(&root.join(".git/HEAD"), text);
            assert_eq!(found.head(), expected, "{text:?}");
        }
        fs::write(root.join(".git/HEAD"), [0xff, 0xfe]).expect("a file");
        assert_eq!(found.head(), None);
        fs::write(root.join(".git/HEAD"), vec![b'a'; 100_000]).expect("a file");
        assert_eq!(found.head(), None);
    }

    #[test]
    fn the_commit_is_read_loose_packed_and_detached() {
        let (_holder, root) = repository();
        let found = Repository::find(&root).expect("the repository");
        assert_eq!(found.head_commit(), None, "no hash");
        let hash = "0123456789abcdef0123456789abcdef01234567";
        put(&root.join(".git/refs/heads/feature/x"), &format!("{hash}\n"));
        assert_eq!(found.head_commit().as_deref(), Some(hash));
        fs::remove_file(root.join(".git/refs/heads/feature/x")).expect("removed");
        put(&root.join(".git/packed-refs"), &format!("# pack\n{hash} refs/heads/feature/x\n"));
        assert_eq!(found.head_commit().as_deref(), Some(hash));
        put(&root.join(".git/HEAD"), hash);
        assert_eq!(found.head_commit().as_deref(), Some(hash));
        put(&root.join(".git/HEAD"), "ref: refs/../../secret\n");
        assert_eq!(found.head_commit(), None);
    }

    #[test]
    fn a_work_tree_has_its_own_head_and_the_shared_references() {
        let (holder, root) = repository();
        let tree = holder.path().join("tree");
        put(&tree.join(".git"), &format!("gitdir: {}\n", root.join(".git/worktrees/tree").display()));
        put(&root.join(".git/worktrees/tree/HEAD"), "ref: refs/heads/old\n");
        put(&root.join(".git/worktrees/tree/commondir"), "../..\n");
        let found = Repository::find(&tree).expect("the work tree");
        assert_eq!(found.head(), Some(Head::Branch("old".into())));
        assert_eq!(found.refs().tags, ["v1"]);
    }

    #[test]
    fn a_git_directory_elsewhere_counts_only_if_it_names_the_work_tree() {
        let (holder, root) = repository();
        let at = |path: &str| holder.path().canonicalize().expect("a path").join(path);
        let is_its_own = |path: &str| Repository::find(&at(path)).expect("a repository").is_its_own();
        assert!(is_its_own("project"));
        // A linked work tree and a submodule.
        put(&at("tree/.git"), &format!("gitdir: {}\n", at("project/.git/worktrees/tree").display()));
        put(&root.join(".git/worktrees/tree/HEAD"), "ref: refs/heads/old\n");
        put(&root.join(".git/worktrees/tree/commondir"), "../..\n");
        assert!(!is_its_own("tree"));
        put(&root.join(".git/worktrees/tree/gitdir"), &format!("{}\n", at("tree/.git").display()));
        assert!(is_its_own("tree"));
        fs::create_dir_all(root.join(".git/objects")).expect("a directory");
        let outside = Repository::find(&at("tree")).expect("a repository").outside();
        assert_eq!(outside, [at("project/.git"), at("project/.git/worktrees/tree")]);
        put(&root.join("sub/.git"), "gitdir: ../.git/modules/sub\n");
        put(&root.join(".git/modules/sub/HEAD"), "ref: refs/heads/main\n");
        put(&root.join(".git/modules/sub/config"), "[core]\n\tworktree = ../../../sub\n");
        assert!(is_its_own("project/sub"));
        // A stranger's pair of directories, one of which points elsewhere.
        fs::create_dir_all(at("own/private")).expect("a directory");
        for (name, half, shared) in [("far", "got/half", "../../own"), ("near", "own/worktrees/half", "../..")] {
            put(&at(name).join(".git"), &format!("gitdir: {}\n", at(half).display()));
            put(&at(half).join("HEAD"), "ref: refs/heads/old\n");
            put(&at(half).join("gitdir"), &format!("{}\n", at(name).join(".git").display()));
            put(&at(half).join("commondir"), &format!("{shared}\n"));
            assert!(Repository::find(&at(name)).expect("a repository").outside().is_empty(), "{name}");
        }
        // A stranger's repository that points at the user's.
        put(&at("evil/.git"), &format!("gitdir: {}\n", at("project/.git").display()));
        put(&at("common/.git/HEAD"), "ref: refs/heads/main\n");
        put(&at("common/.git/commondir"), "../../project/.git\n");
        put(&at("linked/.git/HEAD"), "ref: refs/heads/main\n");
        std::os::unix::fs::symlink(at("project/.git/refs"), at("linked/.git/refs")).expect("a link");
        for name in ["evil", "common", "linked"] {
            assert!(!is_its_own(name), "{name}");
            assert!(Repository::find(&at(name)).expect("a repository").outside().is_empty(), "{name}");
        }
    }

    #[test]
    fn a_directory_without_a_repository_has_none() {
        let holder = tempfile::tempdir().expect("a directory");
        fs::create_dir(holder.path().join(".git")).expect("a directory");
        let found = Repository::find(holder.path());
        assert!(found.is_none_or(|found| found.root != holder.path()));
        fs::remove_dir(holder.path().join(".git")).expect("removed");
        put(&holder.path().join(".git"), "nothing of git");
        assert!(Repository::find(holder.path()).is_none_or(|found| found.root != holder.path()));
    }
}
