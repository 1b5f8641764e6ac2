//! Benches: changes of commands become part of a draft, and trees are shared.

use std::io::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;
use crate::files::{Change, Journals, Tree};
use crate::git::{Repo, empty_tree};

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
    // A changed rule file applies in its new version.
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
    // Fewer are adopted.
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

    // A tree that differs by few files is placed over the same one.
    let three = bench_of("three", &[("a", "other"), ("d/1", "1")]);
    three.ready().expect("ready");
    assert_eq!(three.layers()[1], lower);
    assert_eq!(shown(&three), ["a other", "d /", "d/1 1"]);
}

/// A crash while changes are adopted leaves some files on the bench and some at the place at which the command made them. The
/// next process completes that by the note, even if it crashes in the same way.
#[test]
fn changes_that_a_crash_has_left_half_taken_over_are_taken_over_whole() {
    let dir = crate::git::in_memory();
    let at = dir.path().join("repository");
    git(dir.path(), &["init", "-q", "repository"]);
    let repo = Arc::new(Repo::open(&at).expect("a repository"));
    let tree = tree_with(&repo, &[("a", "a"), ("d/1", "1"), ("d/2", "2")]);
    let bench = || {
        let draft = Draft::on(repo.clone(), tree, Path::new("/project"), None);
        Bench::new(dir.path().join("bench"), Some(dir.path().join("trees")), Arc::new(draft))
    };
    let killed = bench();
    killed.ready().expect("ready");
    let (first, second) = (made_file(dir.path(), "first"), made_file(dir.path(), "second"));
    let Did::File(first_source, _) = first.clone() else { unreachable!("a file") };
    let did = [("a", Did::Gone), ("d/1", first), ("new/2", second), ("link", Did::Link("d/1".into()))];
    let did: Vec<(&Path, Did)> = did.iter().map(|(path, did)| (Path::new(*path), did.clone())).collect();
    let note = killed.note("make", Some(&did));
    std::fs::create_dir_all(killed.dir().join("d")).expect("a directory");
    std::fs::rename(first_source, killed.dir().join("d/1")).expect("moved");
    drop(killed);
    for _ in 0..2 {
        let next = bench();
        let cut_off = next.resume(&note).expect("a note");
        let changes = cut_off.changes.expect("changes");
        let changes: Vec<(&Path, Did)> = changes.iter().map(|(path, did)| (path.as_path(), did.clone())).collect();
        assert_eq!((&*cut_off.command, next.adopt(&changes)), ("make", Ok(Vec::new())));
        assert_eq!(shown(&next), ["d /", "d/1 first", "d/2 2", "link d/1", "new /", "new/2 second"]);
        let text = |path: &str| next.draft().read(path, 100).map(|it| String::from_utf8(it.bytes).expect("UTF-8")).ok();
        assert_eq!((text("d/1"), text("new/2"), text("a")), (Some("first".into()), Some("second".into()), None));
    }
    let next = bench();
    next.resume(&note).expect("a note");
    let running = bench().resume(&next.note("ls", None)).expect("a note");
    assert!(running.command == "ls" && running.changes.is_none());
    assert!(next.resume(b"{}").is_none() && next.resume(b"").is_none());
}

/// Makes a bench at a place that may already have one, without making it ready.
fn bench_of_none(at: PathBuf, trees: &Path, repo: &Arc<Repo>) -> Bench {
    let draft = Draft::on(repo.clone(), crate::git::empty_tree(), Path::new("/project"), None);
    Bench::new(at, Some(trees.to_owned()), Arc::new(draft))
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
    // Its process is killed while a command runs: only the note says over which tree the command has changed something.
    let (copy, note) = (first.copies().join("1"), first.note("make", None));
    std::fs::create_dir_all(copy.join("upper")).expect("a directory");
    std::fs::write(copy.join("note"), &note).expect("a file");
    let lower = first.layers()[1].clone();
    drop(first);
    std::fs::remove_file(state(0)).expect("a crash leaves none");
    assert_eq!((clear_up_shared(&trees, &[state(0)], false), lower.is_dir()), (Vec::new(), true));
    let next = bench_of_none(dir.path().join("bench0"), &trees, &repo);
    assert!(next.resume(&note).is_some(), "the changes can be taken over");
    drop(next);
    std::fs::remove_dir_all(&copy).expect("removed");
    assert_eq!((clear_up_shared(&trees, &[state(0)], false).len(), lower.is_dir()), (1, false));
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
