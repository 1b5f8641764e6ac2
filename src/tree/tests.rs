//! Trees against a real directory, and against git's program.

use std::io::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::files::{Change, EntryKind, Journals, PathError, Root, Tree};
use crate::git::{Repo, TreeEdit, empty_tree};

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

    /// The tree that the directory is for git, and the one that the draft would become.
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

#[test]
fn a_draft_answers_as_the_directory_does() {
    let twins = Twins::new();
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
        assert_eq!(read(&twins.draft), read(&twins.root), "read {path:?}");
        assert_eq!(twins.draft.look(path), Tree::look(&twins.root, path), "look {path:?}");
        assert_eq!(twins.draft.resolve(path), Tree::resolve(&twins.root, path), "resolve {path:?}");
        assert_eq!(twins.draft.beneath(path), Tree::beneath(&twins.root, path), "beneath {path:?}");
        let list = |tree: &dyn Tree| {
            let entries = tree.list(path)?;
            Ok::<_, PathError>(entries.into_iter().filter(|it| it.name != ".git").collect::<Vec<_>>())
        };
        assert_eq!(list(&twins.draft), list(&twins.root), "list {path:?}");
    }
    let holds = |tree: &dyn Tree, path: &str| tree.holds(Path::new(path));
    for path in ["a.txt", "src", "link", "into/b.rs", "none", "src/none"] {
        assert_eq!(holds(&twins.draft, path), holds(&twins.root, path), "holds {path}");
    }
    assert_eq!(twins.draft.read("a.txt", 1), Err(PathError::Long(1)));
}

#[test]
fn both_show_the_same_files_to_a_search() {
    let twins = Twins::new();
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
        assert_eq!(walked(&twins.draft, below), walked(&twins.root, below), "below {below:?}");
    }
    let text = |tree: &dyn Tree| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut tree.opener()(Path::new("src/b.rs")).expect("opened").0, &mut text)
            .expect("read");
        text
    };
    assert_eq!(text(&twins.draft), text(&twins.root));
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
        1 => (name.clone(), name).prop_map(|(name, target)| Act::Link(name, target)),
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
                    // Only what the directory took as a file counts: git has no empty directories in the way.
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
        let (theirs, ours) = twins.trees();
        prop_assert_eq!(theirs, ours);
    }
}

/// A file that a command made on its copy.
fn made_file(dir: &Path, text: &str) -> Did {
    let (mut file, path) = tempfile::NamedTempFile::new_in(dir).expect("a file").keep().expect("its name");
    file.write_all(text.as_bytes()).expect("written");
    Did::File(path, 0o644)
}

/// A bench over a draft with one file, and a directory in which a command's files lie.
fn bench(dir: &Path) -> Bench {
    let draft = Draft::on(Arc::new(Memory::default()), empty_tree(), Path::new("/project"), None);
    draft.put(Path::new("a.txt"), Some((Mode::File, b"a\n"))).expect("put");
    draft.put(Path::new(".gitignore"), Some((Mode::File, b"built/\n"))).expect("put");
    Bench::new(dir.join("bench"), Some(dir.join("trees")), Arc::new(draft))
}

#[test]
fn ignored_directories_of_the_checkout_are_copied_and_nothing_else() {
    let dir = crate::git::in_memory();
    let at = dir.path().join("ws");
    for (path, text) in [
        ("built/deep/one.js", "one\n"),
        ("built/tool", "#!\n"),
        ("built/.env", "KEY=1\n"),
        ("kept/mine.txt", "from the checkout\n"),
        ("plain/x", "x\n"),
        ("elsewhere/x", "x\n"),
    ] {
        std::fs::create_dir_all(at.join(path).parent().expect("a parent")).expect("a directory");
        std::fs::write(at.join(path), text).expect("a file");
    }
    std::fs::set_permissions(at.join("built/tool"), std::fs::Permissions::from_mode(0o755)).expect("set");
    std::fs::hard_link(at.join("elsewhere/x"), at.join("built/hard")).expect("another name");
    symlink("../elsewhere/x", at.join("built/link")).expect("a link");
    symlink("elsewhere", at.join("linked")).expect("a link");
    let bench = |names: &[&str], place: &str| {
        let draft = Draft::on(Arc::new(Memory::default()), empty_tree(), &at, None);
        draft.put(Path::new(".gitignore"), Some((Mode::File, b"built/\nkept/\nlinked\n"))).expect("put");
        draft.put(Path::new("kept/ours.txt"), Some((Mode::File, b"from git\n"))).expect("put");
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        Bench::new(dir.path().join(place), Some(dir.path().join("trees")), Arc::new(draft)).with_copies(&names)
    };
    let one = bench(&["built/", "kept", "plain", "linked", "missing"], "one");
    one.ready().expect("ready");
    let names = |directory: &str| {
        let entries = std::fs::read_dir(one.dir().join(directory)).expect("a directory");
        let mut names: Vec<_> =
            entries.map(|it| it.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), [".gitignore", "built", "kept"], "neither what git has, nor what isn't ignored, nor a link");
    assert_eq!(
        (names("built"), names("kept")),
        (["deep", "hard", "link", "tool"].map(String::from).to_vec(), vec!["ours.txt".into()])
    );
    assert_eq!(std::fs::read(one.dir().join("built/deep/one.js")).expect("a file"), b"one\n");
    assert_eq!(std::fs::read_link(one.dir().join("built/link")).expect("a link"), Path::new("../elsewhere/x"));
    let tool = one.dir().join("built/tool").metadata().expect("there");
    assert_eq!(tool.permissions().mode() & 0o777, 0o755);
    // It is the session's own from then on, and no part of a commit.
    std::fs::write(at.join("built/deep/one.js"), "another\n").expect("a file");
    one.adopt(&[(Path::new("built/tool"), Did::Gone)]).expect("adopted");
    one.ready().expect("ready");
    assert_eq!(names("built"), ["deep", "hard", "link"]);
    assert_eq!(std::fs::read(one.dir().join("built/deep/one.js")).expect("a file"), b"one\n");
    assert!(at.join("built/tool").exists());
    assert_eq!(one.draft().changes().expect("changes").len(), 2, "the rules, and the file of git");
    for wrong in ["../elsewhere", "/etc", ".git", "a/.GIT", ""] {
        let error = bench(&[wrong], "wrong").ready().expect_err("refused");
        assert!(error.contains("sessions.share") && error.contains(&format!("{wrong:?}")), "{error}");
    }
}

#[test]
fn a_rule_file_that_a_command_writes_counts_for_its_other_files_also_if_it_ignores_itself() {
    let dir = crate::git::in_memory();
    let bench = bench(dir.path());
    bench.ready().expect("ready");
    let adopt = |changes: &[(&str, &str)]| {
        let changes: Vec<(&Path, Did)> = changes
            .iter()
            .map(|(path, text)| (Path::new(*path), Did::Bytes(text.as_bytes().to_vec(), 0o644)))
            .collect();
        assert_eq!(bench.adopt(&changes).expect("adopted"), Vec::<String>::new());
    };
    // A cache as tools make it: the file of rules comes after others, and names itself.
    adopt(&[(".cache/+list", "1\n"), (".cache/.gitignore", "*\n"), (".cache/deep/last", "1\n"), ("kept.txt", "1\n")]);
    let has = |path: &str| bench.draft().has(Path::new(path));
    assert_eq!(["+list", ".gitignore", "deep/last"].map(|it| has(&format!(".cache/{it}"))), [false; 3]);
    assert!(has("kept.txt") && bench.dir().join(".cache/deep/last").exists());
    // The file of rules is on the bench alone by now.
    adopt(&[(".cache/deep/next", "2\n")]);
    assert!(!has(".cache/deep/next"));
    // One that is changed counts as it is then.
    adopt(&[(".gitignore", "*.log\n"), ("built/app", "2\n"), ("run.log", "2\n")]);
    assert_eq!(["built/app", "run.log"].map(has), [true, false]);
}

#[test]
fn of_thousands_of_new_files_none_is_taken_and_a_known_file_is() {
    let dir = crate::git::in_memory();
    let bench = bench(dir.path());
    bench.ready().expect("ready");
    let made = |count: usize, folder: &str| -> Vec<PathBuf> {
        (0..count).map(|number| Path::new(folder).join(format!("{number}.txt"))).collect()
    };
    let did = || made_file(dir.path(), "new\n");
    let named = ["a.txt", "new.txt", ".env"].map(PathBuf::from).to_vec();
    let is_long = std::env::var_os("REEDCLAW_TEST_LONG").is_some();
    let count = if is_long { 200_000 } else { 5_000 };
    let paths: Vec<PathBuf> = [made(count, "data/deep"), made(6_000, "built"), named].concat();
    let changes: Vec<(&Path, Did)> = paths.iter().map(|path| (path.as_path(), did())).collect();
    let mut left_out = bench.adopt(&changes).expect("adopted");
    left_out.sort();
    let wanted = [
        ".env (a file of its name may hold secrets)",
        &format!("data/ ({count} of more than 5,000 new files)"),
        "new.txt (one of more than 5,000 new files)",
    ];
    assert_eq!(left_out, wanted, "what git ignores isn't counted");
    assert_eq!(bench.draft().leaf(Path::new("a.txt"), 10).expect("a file").1, b"new\n");
    assert!(bench.draft().leaf(Path::new("data/deep/1.txt"), 10).is_err());
    assert!(bench.dir().join("data/deep/4999.txt").exists(), "the next command finds them");
    // Fewer are taken.
    let changes: Vec<(&Path, Did)> = paths[..100].iter().map(|path| (path.as_path(), did())).collect();
    assert_eq!(bench.adopt(&changes).expect("adopted"), Vec::<String>::new());
    assert!(bench.draft().leaf(Path::new("data/deep/1.txt"), 10).is_ok());
}

#[test]
fn a_file_of_a_command_takes_the_place_of_what_the_bench_has_and_never_runs_as_somebody_else() {
    use std::os::unix::fs::PermissionsExt;
    let dir = crate::git::in_memory();
    let bench = bench(dir.path());
    bench.ready().expect("ready");
    let elsewhere = dir.path().join("elsewhere");
    std::fs::write(&elsewhere, "untouched").expect("a file");
    let adopt = |path: &str, did: Did| bench.adopt(&[(Path::new(path), did)]).expect("adopted");
    adopt("link", Did::Link(elsewhere.clone()));
    adopt("folder/below.txt", made_file(dir.path(), "below\n"));
    let above = Did::Link(dir.path().to_owned());
    adopt("way", above);
    for path in ["a.txt", "link", "folder", "way/elsewhere"] {
        let Did::File(source, _) = made_file(dir.path(), "new\n") else { unreachable!("a file") };
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o6755)).expect("set");
        adopt(path, Did::File(source, 0o755));
        let file = bench.dir().join(path);
        let data = file.symlink_metadata().expect("there");
        assert_eq!((data.is_file(), data.permissions().mode() & 0o7777), (true, 0o755), "{path}");
        assert_eq!(bench.draft().leaf(Path::new(path), 10).expect("a file"), (Mode::Executable, b"new\n".to_vec()));
    }
    assert_eq!(std::fs::read(&elsewhere).expect("a file"), b"untouched", "no link on the way is followed");
}

#[test]
fn a_file_with_a_known_key_is_refused_and_taken_back_if_the_key_is_known_later() {
    let dir = crate::git::in_memory();
    let bench = bench(dir.path());
    let draft = bench.draft();
    let key = b"known-key";
    draft.put(Path::new("early.txt"), Some((Mode::File, b"a known-key in it"))).expect("nobody knows it yet");
    draft.put(Path::new("a.txt"), Some((Mode::File, b"known-key"))).expect("nobody knows it yet");
    draft.guard(Box::new(|bytes| memchr::memmem::find(bytes, key).is_some()));
    let mut taken_back = draft.take_back_keys().expect("changes");
    taken_back.sort();
    assert_eq!(taken_back, [PathBuf::from("a.txt"), PathBuf::from("early.txt")]);
    assert!(draft.leaf(Path::new("early.txt"), 100).is_err());
    for (path, text) in [("x.txt", "known-key"), ("known-key.txt", "x")] {
        let refused = draft.put(Path::new(path), Some((Mode::File, text.as_bytes()))).expect_err("refused");
        assert!(refused.to_string().contains("it holds a key"), "{refused}");
        let change = Change { path, old: None, new: Some(text.as_bytes()) };
        draft.change(&Journals::new("/nonexistent".into()), &[change]).expect_err("refused");
    }
    assert_eq!(draft.changes().expect("changes").len(), 1, "{:?}", draft.changes());
}

/// Paths that show on a bench, with the contents of files and links.
fn shown(bench: &Bench) -> Vec<String> {
    let layers = bench.layers();
    let layers = crate::files::Layers::open(layers.iter().map(PathBuf::as_path)).expect("layers");
    let all = parking_lot::Mutex::new(Vec::new());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let limits = crate::files::SurveyLimits { entries_max: 10_000, deadline };
    let see = |path: &Path, stamp: crate::files::Stamp| {
        let text = if stamp.is_directory() { "/".into() } else { layers.held(path, 1000).expect("a file").1 };
        all.lock().push(format!("{} {}", path.display(), String::from_utf8_lossy(&text)));
    };
    let end = layers.survey(Path::new(""), limits, &see).expect("a directory");
    assert_eq!(end, crate::files::SurveyEnd::Whole);
    let mut all = all.into_inner();
    all.sort();
    all
}

/// Every file below a directory with its content.
fn held(top: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.symlink_metadata().expect("looked at") {
                it if it.is_dir() => waiting.push(path),
                it if it.is_symlink() => {
                    all.push((path.clone(), std::fs::read_link(path).expect("a link").into_os_string().into_vec()));
                }
                _ => all.push((path.clone(), std::fs::read(&path).expect("a file"))),
            }
        }
    }
    all.sort();
    all
}

/// A commit's tree with some files, in a repository.
fn tree_with(repo: &Arc<Repo>, files: &[(&str, &str)]) -> Oid {
    let mut batch = repo.batch();
    let mut edits = Vec::new();
    for (path, text) in files {
        edits.push((PathBuf::from(path), Some((Mode::File, batch.blob_of(text.as_bytes()).expect("a blob")))));
    }
    let tree = batch.tree(empty_tree(), &edits).expect("a tree");
    batch.settle().expect("written");
    tree
}

#[test]
fn benches_share_one_tree_that_none_of_them_changes() {
    let dir = crate::git::in_memory();
    let at = dir.path().join("repository");
    git(dir.path(), &["init", "-q", "repository"]);
    let repo = Arc::new(Repo::open(&at).expect("a repository"));
    let files = [("a", "a"), ("d/1", "1"), ("d/2", "2"), ("e/f/g", "g"), (".reedclaw/sessions/x/session.json", "{}")];
    let trees = dir.path().join("trees");
    let bench_of = |name: &str, files: &[(&str, &str)]| {
        let draft = Draft::on(repo.clone(), tree_with(&repo, files), Path::new("/project"), None);
        Bench::new(dir.path().join(name), Some(trees.clone()), Arc::new(draft))
    };
    let (one, two) = (
        bench_of("one", &files),
        bench_of("two", &[&files[..4], &[(".reedclaw/sessions/y/session.json", "{}")]].concat()),
    );
    one.ready().expect("ready");
    two.ready().expect("ready");
    let lower = one.layers()[1].clone();
    assert_eq!(two.layers()[1], lower, "the record makes no difference");
    let before = held(&lower);
    assert_eq!(before.len(), 4);
    assert_eq!((held(one.dir()), held(two.dir())), (Vec::new(), Vec::new()), "neither has files of its own");

    let file = || made_file(dir.path(), "new");
    let did = [
        ("a", Did::Gone),
        ("d", Did::Gone),
        ("d/1", Did::Gone),
        ("d/2", Did::Gone),
        ("d/3", file()),
        ("e/f/g", file()),
    ];
    let did: Vec<(&Path, Did)> = did.iter().map(|(path, did)| (Path::new(*path), did.clone())).collect();
    assert_eq!(one.adopt(&did).expect("adopted"), Vec::<String>::new());
    assert_eq!(shown(&one), ["d /", "d/3 new", "e /", "e/f /", "e/f/g new"]);
    assert_eq!(shown(&two), ["a a", "d /", "d/1 1", "d/2 2", "e /", "e/f /", "e/f/g g"]);

    // A file tool's changes reach the bench in the same way; a file takes the place of a directory, and the other way round.
    let draft = one.draft();
    draft.put(Path::new("d/1"), Some((Mode::File, b"again"))).expect("put");
    draft.put(Path::new("e/f"), Some((Mode::Link, b"../a"))).expect("put");
    draft.put(Path::new("a/below"), Some((Mode::File, b"x"))).expect("put");
    one.ready().expect("ready");
    assert_eq!(shown(&one), ["a /", "a/below x", "d /", "d/1 again", "d/3 new", "e /", "e/f ../a"]);
    draft.start_over(draft.base());
    one.ready().expect("ready");
    assert_eq!(shown(&one), shown(&two));
    assert_eq!(held(&lower), before, "nothing has changed below");

    // A tree that differs by few files stands over the same one.
    let three = bench_of("three", &[("a", "other"), ("d/1", "1")]);
    three.ready().expect("ready");
    assert_eq!(three.layers()[1], lower);
    assert_eq!(shown(&three), ["a other", "d /", "d/1 1"]);
}

#[test]
fn a_shared_tree_stays_while_a_bench_uses_it() {
    let dir = crate::git::in_memory();
    let at = dir.path().join("repository");
    git(dir.path(), &["init", "-q", "repository"]);
    let repo = Arc::new(Repo::open(&at).expect("a repository"));
    let trees = dir.path().join("trees");
    // Trees that have too little in common to share one.
    let many = |number: usize| -> Vec<(String, String)> {
        (0..2_600).map(|file| (format!("{}/{file}", number), number.to_string())).collect()
    };
    let bench_of = |number: usize| {
        let files = many(number);
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let draft = Draft::on(repo.clone(), tree_with(&repo, &files), Path::new("/project"), None);
        let bench = Bench::new(dir.path().join(format!("bench{number}")), Some(trees.clone()), Arc::new(draft));
        bench.ready().expect("ready");
        bench
    };
    let mut benches: Vec<Bench> = (0..4).map(bench_of).collect();
    let state = |number: usize| dir.path().join(format!("bench{number}.state"));
    assert_eq!(clear_up_shared(&trees, &[], false), Vec::<String>::new(), "all are in use");
    let first = benches.remove(0);
    drop(benches);
    let states = [state(1)];
    let named = clear_up_shared(&trees, &states, true);
    assert_eq!(clear_up_shared(&trees, &states, false), named, "naming them removes none");
    assert_eq!(named.len(), 0, "two that nobody uses stay for the next session");
    assert_eq!(clear_up_shared(&trees, &[], false).len(), 1);
    assert_eq!(shown(&first).len(), 2_601);
}

#[test]
fn files_for_commands_are_written_ahead_and_what_is_left_of_half_a_tree_is_cleared_up() {
    let dir = crate::git::in_memory();
    let at = dir.path().join("repository");
    git(dir.path(), &["init", "-q", "repository"]);
    let repo = Arc::new(Repo::open(&at).expect("a repository"));
    assert_eq!(repo.files_in_index(), None);
    for name in ["a", "b", "c"] {
        std::fs::write(at.join(name), name).expect("a file");
    }
    git(&at, &["add", "-A"]);
    assert_eq!(repo.files_in_index(), Some(3));
    let draft = Draft::on(repo.clone(), tree_with(&repo, &[("a", "a"), ("d/1", "1")]), Path::new("/project"), None);
    let trees = dir.path().join("trees");
    let bench = Bench::new(dir.path().join("bench"), Some(trees.clone()), Arc::new(draft));
    bench.prepare();
    let names = || std::fs::read_dir(&trees).expect("a folder").flatten().map(|it| it.path()).collect::<Vec<_>>();
    let made: Vec<PathBuf> = names().into_iter().filter(|it| it.is_dir()).collect();
    assert_eq!((made.len(), held(&made[0].join("files")).len()), (1, 2), "{made:?}");
    bench.ready().expect("ready");
    assert_eq!(bench.layers()[1], made[0].join("files"), "a command finds what was written");
    let unfinished = trees.join("0".repeat(40)).with_extension("new");
    std::fs::create_dir_all(unfinished.join("files/half")).expect("a directory");
    let name = unfinished.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!((clear_up_shared(&trees, &[], true), unfinished.exists()), (vec![name.clone()], true));
    assert_eq!((clear_up_shared(&trees, &[], false), unfinished.exists()), (vec![name], false));
}
