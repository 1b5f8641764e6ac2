//! One suite for every kind of tree: a draft over git's objects, a read-only commit, and files in memory give the same answers as
//! a directory, change as it does, and become the tree that git's program makes of it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::files::{Change, EntryKind, Journals, PathError, Root, Tree};
use crate::git::{Repo, TreeEdit, diff, empty_tree};

fn git(at: &Path, arguments: &[&str]) -> String {
    let done = Command::new("git")
        .args(arguments)
        .current_dir(at)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// A directory with files and links, and the same as a draft.
struct Twins {
    dir: tempfile::TempDir,
    root: Root,
    draft: Draft,
    repo: Arc<Repo>,
    journals: Journals,
}

impl Twins {
    /// The same files without a repository.
    fn in_memory(&self) -> Draft {
        let memory = Draft::on(Arc::new(Memory::default()), empty_tree(), self.root.path(), None);
        for it in diff(&*self.repo, empty_tree(), self.draft.base()).expect("entries") {
            let (mode, id) = it.new.expect("an entry");
            let bytes = self.repo.blob(id, 1000).expect("a blob");
            memory.put(&it.path, Some((mode, &bytes))).expect("put");
        }
        memory
    }

    /// The same files, which can't be changed.
    fn read_only(&self) -> Draft {
        Draft::read_only(self.repo.clone(), self.draft.base(), self.root.path(), None)
    }

    fn new() -> Self {
        let dir = crate::git::in_memory();
        let at = dir.path().join("ws");
        std::fs::create_dir_all(at.join("src/deep")).expect("a directory");
        git(&at, &["init", "-q", "-b", "main"]);
        for (path, text) in [
            ("a.txt", "a\n"),
            ("src/b.rs", "fn b() {}\n"),
            ("src/deep/c.txt", "c\n"),
            (".hidden", "h\n"),
            ("run", "#!\n"),
        ] {
            std::fs::write(at.join(path), text).expect("a file");
        }
        std::fs::set_permissions(at.join("run"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        for (target, link) in [
            ("a.txt", "link"),
            ("src", "into"),
            ("/etc/passwd", "away"),
            ("../..", "up"),
            ("loop", "loop"),
            ("none", "dangling"),
        ] {
            symlink(target, at.join(link)).expect("a link");
        }
        let root = Root::open(&at, None).expect("a root");
        git(&at, &["add", "-A"]);
        let tree = git(&at, &["write-tree"]);
        let repo = Arc::new(Repo::open(&at).expect("a repository"));
        let tree = crate::git::oid_of(&tree).expect("a tree");
        let draft = Draft::on(repo.clone(), tree, root.path(), None);
        Self { root, draft, repo, journals: Journals::new(dir.path().join("journals")), dir }
    }

    /// Returns the tree that git makes of the directory, and the one that the draft would become.
    fn trees(&self) -> (String, String) {
        let at = self.dir.path().join("ws");
        git(&at, &["add", "-A"]);
        let mut batch = self.repo.batch();
        let mut edits: Vec<TreeEdit> = Vec::new();
        for Changed { path, now } in self.draft.changes().expect("changes") {
            let now = now.map(|(mode, content)| {
                if let Content::New(bytes, _) = &content {
                    batch.blob_of(bytes).expect("a blob");
                }
                (mode, content.id())
            });
            edits.push((path, now));
        }
        let tree = batch.tree(self.draft.base(), &edits).expect("a tree");
        (git(&at, &["write-tree"]), tree.to_string())
    }
}

/// Statement 8: one suite for every kind of tree.
#[test]
fn every_tree_answers_as_the_directory_does() {
    let twins = Twins::new();
    let (memory, read_only) = (twins.in_memory(), twins.read_only());
    for tree in [&twins.draft, &memory, &read_only] {
        answers_as_the_directory(&twins, tree);
    }
}

fn answers_as_the_directory(twins: &Twins, draft: &Draft) {
    let inside = twins.root.path().join("src/b.rs");
    let paths = [
        "a.txt",
        "./a.txt",
        "src/b.rs",
        "src//b.rs",
        "src/./b.rs",
        "src/../a.txt",
        "src/deep/../../a.txt",
        "link",
        "into/b.rs",
        "into",
        "src",
        "src/",
        "src/.",
        ".",
        "",
        "..",
        "../x",
        "src/../../x",
        "away",
        "up",
        "up/x",
        "loop",
        "dangling",
        "none",
        "none/x",
        "a.txt/x",
        "a.txt/",
        "into/deep/c.txt",
        "into/../a.txt",
        "src/none",
        "run",
        ".hidden",
        "~",
        "~/x",
        "~nobody",
        "$HOME/x",
        "${X}",
        "/etc/passwd",
        "a\0b",
        inside.to_str().expect("a path"),
        "src/deep/",
        "link/",
        "link/x",
    ];
    let long = "x".repeat(300);
    let shapes =
        ["./{}", "{}/.", "{}/..", "{}/../a.txt", "src/../{}", "{}//b.rs", "into/../{}", "{}/none", "{}/deep/c.txt"];
    let names =
        ["a.txt", "src", "link", "into", "away", "up", "loop", "dangling", "none", "run", ".hidden", "src/deep", "."];
    let shaped: Vec<String> =
        names.iter().flat_map(|name| shapes.iter().map(move |shape| shape.replace("{}", name))).collect();
    assert!(shaped.len() + paths.len() > 150, "as many paths as the suite is to have");
    for path in paths.into_iter().chain([long.as_str()]).chain(shaped.iter().map(String::as_str)) {
        let read = |tree: &dyn Tree| tree.read(path, 1000).map(|it| (it.bytes, it.mode & 0o111 != 0));
        assert_eq!(read(draft), read(&twins.root), "read {path:?}");
        assert_eq!(draft.look(path), Tree::look(&twins.root, path), "look {path:?}");
        assert_eq!(draft.resolve(path), Tree::resolve(&twins.root, path), "resolve {path:?}");
        assert_eq!(draft.beneath(path), Tree::beneath(&twins.root, path), "beneath {path:?}");
        let list = |tree: &dyn Tree| {
            let entries = tree.list(path)?;
            Ok::<_, PathError>(entries.into_iter().filter(|it| it.name != ".git").collect::<Vec<_>>())
        };
        assert_eq!(list(draft), list(&twins.root), "list {path:?}");
    }
    let holds = |tree: &dyn Tree, path: &str| tree.holds(Path::new(path));
    for path in ["a.txt", "src", "link", "into/b.rs", "none", "src/none"] {
        assert_eq!(holds(draft, path), holds(&twins.root, path), "holds {path}");
    }
    assert_eq!(draft.read("a.txt", 1), Err(PathError::Long(1)));
}

#[test]
fn every_tree_shows_the_same_files_to_a_search() {
    let twins = Twins::new();
    let (memory, read_only) = (twins.in_memory(), twins.read_only());
    let walked = |tree: &dyn Tree, below: &str| {
        let found = Mutex::new(Vec::new());
        tree.walk(Path::new(below), &|| {
            Box::new(|file| {
                let bytes = file.stamp().expect("a stamp").bytes;
                found.lock().push((file.path.to_owned(), bytes));
                true
            })
        });
        let mut found = found.into_inner();
        found.sort();
        found
    };
    for below in ["", "src", "src/b.rs", ".hidden", "none"] {
        for tree in [&twins.draft, &memory, &read_only] {
            assert_eq!(walked(tree, below), walked(&twins.root, below), "below {below:?}");
        }
    }
    let text = |tree: &dyn Tree| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut tree.opener()(Path::new("src/b.rs")).expect("opened").0, &mut text)
            .expect("read");
        text
    };
    for tree in [&twins.draft, &memory, &read_only] {
        assert_eq!(text(tree), text(&twins.root));
    }
}

#[test]
fn every_tree_is_changed_alike_and_one_that_is_read_only_never() {
    let text = |text: &'static str| Some(text.as_bytes());
    let changes = [
        ("a.txt", text("a\n"), text("x")),
        ("a.txt", text("other"), text("x")),
        ("a.txt", None, text("x")),
        ("a.txt", text("a\n"), None),
        ("a.txt", text("other"), None),
        ("none", text("x"), text("y")),
        ("none", text("x"), None),
        ("new/deep/x", None, text("x")),
        ("src", None, text("x")),
        ("src", text(""), None),
        ("a.txt/x", None, text("x")),
        ("link", text("a\n"), text("x")),
        ("link", text("other"), text("x")),
        ("into/b.rs", text("fn b() {}\n"), text("x")),
        ("into/new.rs", None, text("x")),
        ("src/deep/../b.rs", text("fn b() {}\n"), None),
        ("away", None, text("x")),
        ("up/x", None, text("x")),
        ("loop", None, text("x")),
        ("../x", None, text("x")),
        ("/etc/passwd", None, text("x")),
        ("~/x", None, text("x")),
        ("", None, text("x")),
        ("run", text("#!\n"), text("x")),
    ];
    for (path, old, new) in changes {
        let twins = Twins::new();
        let (memory, read_only) = (twins.in_memory(), twins.read_only());
        let change = |tree: &dyn Tree| {
            let done = tree.change(&twins.journals, &[Change { path, old, new }]).map_err(|error| error.error);
            (done, tree.read(path, 100).map(|it| (it.bytes, it.mode & 0o111 != 0)))
        };
        let before = read_only.read(path, 100);
        let wanted = change(&twins.root);
        for tree in [&twins.draft, &memory] {
            assert_eq!(change(tree), wanted, "{path:?} {old:?} {new:?}");
        }
        assert!(change(&read_only).0.is_err() && read_only.is_unchanged(), "{path:?}");
        assert_eq!(read_only.read(path, 100), before);
    }
}

#[test]
fn of_two_changes_at_once_that_expect_the_same_content_one_fails() {
    let twins = Twins::new();
    let memory = twins.in_memory();
    for tree in [&twins.root as &dyn Tree, &twins.draft, &memory] {
        let mut old = b"a\n".to_vec();
        for round in 0..50 {
            let new = [format!("{round} left"), format!("{round} right")];
            let barrier = std::sync::Barrier::new(2);
            let change = |new: &String| {
                barrier.wait();
                let change = Change { path: "a.txt", old: Some(&old), new: Some(new.as_bytes()) };
                tree.change(&twins.journals, &[change]).is_ok()
            };
            let done = std::thread::scope(|scope| {
                let both = [scope.spawn(|| change(&new[0])), scope.spawn(|| change(&new[1]))];
                both.map(|it| it.join().expect("it ends"))
            });
            assert_eq!(done.iter().filter(|it| **it).count(), 1, "round {round}");
            let wanted = if done[0] { &new[0] } else { &new[1] };
            old = tree.read("a.txt", 100).expect("read").bytes;
            assert_eq!(old, wanted.as_bytes(), "round {round}");
        }
    }
}

#[test]
fn a_draft_refuses_what_git_or_the_session_cannot_hold() {
    let twins = Twins::new();
    let change = |path: &str, old: Option<&[u8]>, new: Option<&[u8]>| {
        twins.draft.change(&twins.journals, &[Change { path, old, new }]).map_err(|error| error.error)
    };
    for path in [".git/config", "x/.GIT/hooks/a", "src/git~1"] {
        assert!(matches!(change(path, None, Some(b"x")), Err(PathError::Reserved(_))), "{path}");
    }
    assert!(matches!(change(".reedclaw/sessions/x/session.json", None, Some(b"x")), Err(PathError::Reserved(_))));
    assert_eq!(change("a.txt", Some(b"other"), Some(b"x")), Err(PathError::Changed));
    assert_eq!(change("a.txt", None, Some(b"x")), Err(PathError::Changed));
    assert_eq!(change("src", None, Some(b"x")), Err(PathError::Directory));
    assert_eq!(change("a.txt/x", None, Some(b"x")), Err(PathError::NotDirectory));
    assert_eq!(change("../x", None, Some(b"x")), Err(PathError::Outside));
    assert_eq!(change("away", None, Some(b"x")), Err(PathError::Outside));
    let both = [
        Change { path: "a.txt", old: Some(b"a\n"), new: Some(b"changed") },
        Change { path: "none", old: Some(b"x"), new: None },
    ];
    assert!(twins.draft.change(&twins.journals, &both).is_err());
    assert!(twins.draft.is_unchanged(), "a change that fails changes nothing");
    let shut = Draft::read_only(twins.repo.clone(), twins.draft.base(), twins.root.path(), None);
    let one = [Change { path: "a.txt", old: Some(b"a\n"), new: Some(b"x") }];
    assert!(shut.change(&twins.journals, &one).is_err() && shut.is_unchanged());
}

#[test]
fn a_reverted_edit_is_no_change_and_a_link_resolves_to_its_file() {
    let twins = Twins::new();
    let change = |path: &str, old: Option<&[u8]>, new: Option<&[u8]>| {
        twins.draft.change(&twins.journals, &[Change { path, old, new }]).expect("changed");
    };
    change("link", Some(b"a\n"), Some(b"by the link\n"));
    assert_eq!(twins.draft.read("a.txt", 100).expect("read").bytes, b"by the link\n");
    change("a.txt", Some(b"by the link\n"), Some(b"a\n"));
    assert!(twins.draft.is_unchanged());
    change("run", Some(b"#!\n"), Some(b"#!/bin/sh\n"));
    let (mode, _) = twins.draft.leaf(Path::new("run"), 100).expect("a file");
    assert_eq!(mode, Mode::Executable, "a file keeps its mode");
}

#[test]
fn memory_holds_a_tree_without_a_repository() {
    let memory = Arc::new(Memory::default());
    let draft = Draft::on(memory, empty_tree(), Path::new("/project"), None);
    let journals = Journals::new("/nonexistent".into());
    let change = [Change { path: "/project/src/a.rs", old: None, new: Some(b"x") }];
    draft.change(&journals, &change).expect("written");
    assert_eq!(draft.read("src/a.rs", 10).expect("read").bytes, b"x");
    assert_eq!(draft.list("src").expect("a list").iter().map(|it| it.kind).collect::<Vec<_>>(), [EntryKind::File]);
    draft.change(&journals, &[Change { path: "src/a.rs", old: Some(b"x"), new: None }]).expect("deleted");
    assert_eq!(draft.look("src"), Err(PathError::Missing), "an empty directory is none");
}

/// One act on both.
#[derive(Clone, Debug)]
enum Act {
    Write(usize, u8),
    Delete(usize),
    Executable(usize, bool),
    Link(usize, usize),
    Rename(usize, usize),
}

const NAMES: [&str; 14] = [
    "a.txt",
    "src/b.rs",
    "src/deep/c.txt",
    "src/deep",
    "src",
    "new",
    "new/x",
    "new/x/y",
    "link",
    "into/z",
    "src/ü",
    "b c",
    "run",
    "src/deep/er/d",
];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let name = 0..NAMES.len();
    let act = prop_oneof![
        5 => (name.clone(), any::<u8>()).prop_map(|(name, byte)| Act::Write(name, byte)),
        3 => name.clone().prop_map(Act::Delete),
        1 => (name.clone(), any::<bool>()).prop_map(|(name, on)| Act::Executable(name, on)),
        1 => (name.clone(), name.clone()).prop_map(|(name, target)| Act::Link(name, target)),
        1 => (name.clone(), name).prop_map(|(from, to)| Act::Rename(from, to)),
    ];
    prop::collection::vec(act, 1..25)
}

/// Number of random series, unless the environment wants another.
fn cases(usual: u32) -> u32 {
    let usual = if std::env::var_os("REEDCLAW_TEST_LONG").is_some() { 10_000 } else { usual };
    std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

proptest! {
    // Each case starts git twice; the whole takes some seconds.
    // REEDCLAW_TEST_LONG=1 has 10,000 of them.
    #![proptest_config(ProptestConfig { cases: cases(150), ..ProptestConfig::default() })]

    #[test]
    fn a_draft_becomes_the_tree_that_git_makes_of_the_directory(acts in acts()) {
        let twins = Twins::new();
        let at = twins.root.path().to_owned();
        for act in acts {
            match act {
                Act::Write(name, byte) => {
                    let (path, new) = (NAMES[name], vec![byte; 3]);
                    let old = Tree::read(&twins.root, path, 1000).ok().map(|it| it.bytes);
                    let change = [Change { path, old: old.as_deref(), new: Some(&new) }];
                    let kinds = (twins.journals.commit(&twins.root, &change), twins.draft.change(&twins.journals, &change));
                    // Only the directory's result as a file counts: git has no empty directories in the way.
                    let parent = at.join(path).parent().expect("a parent").to_owned();
                    let is_by_link = parent.canonicalize().is_ok_and(|it| it != parent);
                    prop_assert!(kinds.0.is_err() || kinds.1.is_ok() || is_by_link, "{path}: {kinds:?}");
                    if kinds.0.is_ok() && kinds.1.is_err() {
                        // The link leads to a directory that is empty on the disk, and none in git.
                        std::fs::remove_file(at.join(path)).expect("a file");
                    }
                    if kinds.0.is_err() && kinds.1.is_ok() {
                        std::fs::remove_dir_all(at.join(path)).ok();
                        twins.journals.commit(&twins.root, &change).expect("an empty directory was in the way");
                    }
                }
                Act::Delete(name) => {
                    let path = NAMES[name];
                    let Ok(old) = Tree::read(&twins.root, path, 1000) else { continue };
                    let change = [Change { path, old: Some(&old.bytes), new: None }];
                    let done = (twins.journals.commit(&twins.root, &change), twins.draft.change(&twins.journals, &change));
                    prop_assert_eq!(done.0.is_ok(), done.1.is_ok(), "{}", path);
                }
                Act::Executable(name, on) => {
                    let path = Path::new(NAMES[name]);
                    let is_plain = at.join(path).canonicalize().is_ok_and(|it| it == at.join(path) && it.is_file());
                    if !is_plain {
                        continue;
                    }
                    let Ok((_, bytes)) = twins.draft.leaf(path, 1000) else { continue };
                    let mode = if on { 0o755 } else { 0o644 };
                    std::fs::set_permissions(at.join(path), std::fs::Permissions::from_mode(mode)).expect("a mode");
                    let mode = if on { Mode::Executable } else { Mode::File };
                    twins.draft.put(path, Some((mode, &bytes))).expect("put");
                }
                Act::Rename(from, to) => {
                    let (from, to) = (NAMES[from], NAMES[to]);
                    let Ok(old) = Tree::read(&twins.root, from, 1000) else { continue };
                    let both = [
                        Change { path: from, old: Some(&old.bytes), new: None },
                        Change { path: to, old: None, new: Some(&old.bytes) },
                    ];
                    // Empty directories, and links to them, are in the way of the one and not of the other.
                    let is_plain = |path: &str| {
                        let parent = at.join(path).parent().expect("a parent").to_owned();
                        at.join(path).symlink_metadata().is_err() && parent.canonicalize().is_ok_and(|it| it == parent)
                    };
                    if !is_plain(to) || at.join(from).canonicalize().is_ok_and(|it| it != at.join(from)) {
                        continue;
                    }
                    let done = (twins.journals.commit(&twins.root, &both), twins.draft.change(&twins.journals, &both));
                    prop_assert_eq!(done.0.is_ok(), done.1.is_ok(), "{} to {}", from, to);
                }
                Act::Link(name, target) => {
                    let (path, target) = (Path::new(NAMES[name]), NAMES[target]);
                    let is_free = at.join(path).symlink_metadata().is_err();
                    let parent = path.parent().expect("a parent");
                    let is_plain = at.join(parent).canonicalize().is_ok_and(|it| it == at.join(parent) && it.is_dir());
                    if !is_free || !is_plain {
                        continue;
                    }
                    symlink(target, at.join(path)).expect("a link");
                    twins.draft.put(path, Some((Mode::Link, target.as_bytes()))).expect("put");
                }
            }
        }
        for path in NAMES {
            let read = |tree: &dyn Tree| tree.read(path, 1000).ok().map(|it| (it.bytes, it.mode & 0o111 != 0));
            prop_assert_eq!(read(&twins.root), read(&twins.draft), "{}", path);
            // The directory may have empty ones, of which git knows nothing.
            let look = |tree: &dyn Tree| tree.look(path).ok().filter(|(_, is_directory)| !is_directory);
            prop_assert_eq!(look(&twins.root), look(&twins.draft), "{}", path);
            let files = |tree: &dyn Tree| {
                let entries = tree.list(path).unwrap_or_default().into_iter();
                entries.filter(|it| it.kind != EntryKind::Directory).map(|it| it.name).collect::<Vec<_>>()
            };
            prop_assert_eq!(files(&twins.root), files(&twins.draft), "{}", path);
        }
        let (theirs, ours) = twins.trees();
        prop_assert_eq!(theirs, ours);
    }
}
