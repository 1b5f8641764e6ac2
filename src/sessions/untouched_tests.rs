//! The first rule of sessions: nothing they do changes the user's files, index, branches, configuration or logs. Random series of
//! operations run in repositories of many shapes, and everything that isn't the session's is compared.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::tests::{Scene, git, turn, turn_report, write};
use super::*;
use crate::files::{Change, Journals, Tree};

/// Operations of one series.
const OPERATIONS: usize = 14;

/// One file: kind and permissions, time of its last change, content or target.
type Seen = (u32, i64, i64, Vec<u8>);

/// Everything below `at` that isn't an object, or a reference of sessions or its log.
fn seen(at: &Path) -> BTreeMap<PathBuf, Seen> {
    let ours = ["objects", "refs/heads/reedclaw", "refs/reedclaw", "logs/refs/heads/reedclaw", "logs/refs/reedclaw"];
    let (mut all, mut waiting) = (BTreeMap::new(), vec![at.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let data = path.symlink_metadata().expect("a file");
            if ours.iter().any(|it| path.ends_with(Path::new(".git").join(it))) {
                continue;
            }
            let content = match data.is_symlink() {
                true => std::fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes(),
                false if data.is_file() => std::fs::read(&path).expect("a file"),
                false => Vec::new(),
            };
            // A directory of git's, as that of all logs, may be made for a reference of ours.
            let time = if data.is_dir() { (0, 0) } else { (data.mtime(), data.mtime_nsec()) };
            if data.is_dir() {
                waiting.push(path.clone());
                if path.components().any(|it| it.as_os_str() == ".git") {
                    continue;
                }
            }
            all.insert(path, (data.mode(), time.0, time.1, content));
        }
    }
    all
}

/// Names of the differing paths, for a readable message.
fn differing(before: &BTreeMap<PathBuf, Seen>, after: &BTreeMap<PathBuf, Seen>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        before.iter().filter(|(path, it)| after.get(*path) != Some(it)).map(|(path, _)| path.clone()).collect();
    paths.extend(after.keys().filter(|path| !before.contains_key(*path)).cloned());
    paths
}

/// Does the operation with a number. A refused operation counts, too.
fn operate(scene: &Scene, at: &Path, session: Session, number: u64) -> Session {
    let (sessions, id) = (session.sessions().clone(), session.id().to_owned());
    let mut session = session;
    match number % 12 {
        0..=2 => {
            let name = format!("made-{number}.txt");
            let old = session.draft().read(&name, 100).ok().map(|it| String::from_utf8(it.bytes).expect("text"));
            turn(
                &mut session,
                "make it",
                &name,
                old.as_deref(),
                Some(&format!("{number}{}\n", old.as_deref().unwrap_or(""))),
            );
        }
        3 => {
            session.begin_turn("only talk").expect("begun");
            session.end_turn(&turn_report("only talk", State::Cancelled)).expect("committed");
        }
        4 => drop(session.rewind(number % 3)),
        5 => drop(session.undo()),
        6 => {
            // A turn that a crash cuts off, and that is found again.
            session.begin_turn("cut off").expect("begun");
            write(&session, &format!("cut-{number}.txt"), None, Some("x"));
            drop(session);
            session = sessions.open(&id).expect("opened");
        }
        7 => session = sessions.fork(&id, None).expect("forked"),
        8 => {
            let view = session.view();
            view.log().expect("a log");
            view.changes().expect("changes");
            drop(view.changes_of(1));
            sessions.list().expect("a list");
        }
        9 => {
            for how in [How::Squash, How::Merge, How::Rebase] {
                let planned =
                    plan_merge(&sessions, &id, MergeWish { into: Some("main".into()), ..how.into() }, &scene.program());
                assert!(
                    matches!(planned, Ok(_) | Err(SessionError::Refused(_) | SessionError::Nothing(_))),
                    "{planned:?}"
                );
            }
        }
        10 => {
            drop(session);
            sessions.abandon(&id).expect("abandoned");
            session = sessions.start(None, "another").expect("begun");
        }
        _ => {
            drop(session);
            sessions.drop_for_good(&id).expect("dropped");
            let again = Sessions::at(at, &scene.dir.path().join("state"), None, "tester").expect("a repository");
            session = again.start(None, "another").expect("begun");
        }
    }
    session
}

/// Runs series of operations and compares after each; at the end nothing of sessions is left.
fn stays_untouched(scene: &Scene, at: &Path, seed: u64) {
    let sessions = Sessions::at(at, &scene.dir.path().join("state"), None, "tester").expect("a repository");
    let before = seen(&scene.ws());
    let mut session = sessions.start(None, "a title").expect("begun");
    assert_eq!(differing(&before, &seen(&scene.ws())), Vec::<PathBuf>::new(), "start");
    let mut state = seed;
    for step in 0..OPERATIONS {
        // Each kind once, in an order of its own, then at random.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = if step < 12 { (step as u64 * 7 + seed) % 12 + 12 * step as u64 } else { state >> 33 };
        session = operate(scene, at, session, number);
        let now = seen(&scene.ws());
        assert_eq!(differing(&before, &now), Vec::<PathBuf>::new(), "operation {} of seed {seed}", number % 12);
    }
    drop(session);
    for listed in sessions.list().expect("a list") {
        sessions.drop_for_good(&listed.meta.id).expect("dropped");
    }
    for (name, tip) in sessions.repo().refs(KEPT).expect("references") {
        sessions.repo().swap(&name, Some(tip), None, &sessions.who).expect("removed");
    }
    assert_eq!(differing(&before, &seen(&scene.ws())), Vec::<PathBuf>::new(), "after all were dropped");
    assert_eq!(git(at, &["for-each-ref", "refs/heads/reedclaw", "refs/reedclaw"]), "");
}

#[test]
fn a_clean_checkout_stays_untouched() {
    for seed in [1, 2, 3] {
        let scene = Scene::new();
        stays_untouched(&scene, &scene.ws(), seed);
    }
}

#[test]
fn a_dirty_checkout_with_a_locked_index_stays_untouched() {
    let scene = Scene::new();
    let at = scene.ws();
    std::fs::write(at.join("staged.txt"), "staged\n").expect("a file");
    git(&at, &["add", "staged.txt"]);
    std::fs::write(at.join("a.txt"), "changed\n").expect("a file");
    std::fs::write(at.join("untracked.txt"), "untracked\n").expect("a file");
    std::fs::remove_file(at.join("src/b.rs")).expect("removed");
    std::os::unix::fs::symlink("/nonexistent", at.join("link")).expect("a link");
    git(&at, &["stash", "list"]);
    // Another git process is working: a session neither waits for it nor breaks its lock.
    std::fs::write(at.join(".git/index.lock"), "").expect("a file");
    stays_untouched(&scene, &at, 4);
}

#[test]
fn a_checkout_with_filters_line_ends_and_links_stays_untouched_and_is_merged_as_git_would() {
    let scene = Scene::new();
    let at = scene.ws();
    // Git LFS without its program: the filter must never be run by a session.
    let canary = scene.dir.path().join("canary");
    for (name, value) in [
        ("core.autocrlf", "true".to_owned()),
        ("filter.lfs.clean", "cat".to_owned()),
        ("filter.lfs.smudge", format!("touch {}; cat", canary.display())),
    ] {
        git(&at, &["config", name, &value]);
    }
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n";
    std::fs::write(at.join(".gitattributes"), "*.bin filter=lfs -text\n").expect("a file");
    std::fs::write(at.join("big.bin"), pointer).expect("a file");
    std::fs::write(at.join("a.txt"), "one\r\ntwo\r\nthree\r\n").expect("a file");
    std::os::unix::fs::symlink("a.txt", at.join("link")).expect("a link");
    git(&at, &["add", "-A"]);
    git(&at, &["commit", "-q", "-m", "filters, line ends and links"]);
    let _ = std::fs::remove_file(&canary);
    stays_untouched(&scene, &at, 11);
    assert!(!canary.exists());
    let mut session = scene.sessions.start(None, "").expect("begun");
    let journals = Journals::new("/nonexistent".into());
    let change = Change { path: "big.bin", old: Some(pointer.as_bytes()), new: Some(b"content") };
    let refused = session.draft().change(&journals, &[change]).expect_err("refused");
    assert!(refused.error.to_string().contains("Git LFS"), "{}", refused.error);
    turn(&mut session, "by the link", "link", Some("one\ntwo\nthree\n"), Some("ONE\ntwo\nthree\n"));
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &scene.program()).expect("a plan");
    assert!(!canary.exists(), "a preview runs no filter");
    merge(&scene.sessions, &plan, true, &scene.program()).expect("merged");
    assert_eq!(std::fs::read(at.join("a.txt")).expect("a file"), b"ONE\r\ntwo\r\nthree\r\n");
    assert_eq!(std::fs::read_link(at.join("link")).expect("a link"), Path::new("a.txt"));
    assert_eq!(std::fs::read_to_string(at.join("big.bin")).expect("a file"), pointer);
    assert_eq!(git(&at, &["status", "--porcelain"]), "");
}

#[test]
fn a_detached_head_stays_untouched() {
    let scene = Scene::new();
    git(&scene.ws(), &["checkout", "-q", "--detach"]);
    stays_untouched(&scene, &scene.ws(), 5);
}

#[test]
fn a_repository_without_a_commit_stays_untouched() {
    let scene = Scene::new();
    std::fs::remove_dir_all(scene.ws().join(".git")).expect("removed");
    git(&scene.ws(), &["init", "-q", "-b", "main"]);
    stays_untouched(&scene, &scene.ws(), 6);
}

/// Puts another repository with the same files in the scene's place.
pub(super) fn of_another_kind(scene: &Scene, options: &[&str]) {
    std::fs::remove_dir_all(scene.ws().join(".git")).expect("removed");
    git(&scene.ws(), &[&["init", "-q", "-b", "main"], options].concat());
    git(&scene.ws(), &["config", "user.name", "A Person"]);
    git(&scene.ws(), &["config", "user.email", "person@example.org"]);
    git(&scene.ws(), &["add", "-A"]);
    git(&scene.ws(), &["commit", "-q", "-m", "first"]);
}

#[test]
fn repositories_with_long_names_and_with_references_in_tables_stay_untouched_and_are_merged_into() {
    for (options, seed) in [
        (&["--object-format=sha256"][..], 12),
        (&["--ref-format=reftable"], 13),
        (&["--object-format=sha256", "--ref-format=reftable"], 14),
    ] {
        let scene = Scene::new();
        of_another_kind(&scene, options);
        // The tables change as a whole, so their content is compared by name.
        let references = || git(&scene.ws(), &["for-each-ref", "refs/heads/main", "refs/tags", "refs/stash"]);
        let before = references();
        let is_in_tables = options.contains(&"--ref-format=reftable");
        if !is_in_tables {
            stays_untouched(&scene, &scene.ws(), seed);
        }
        let sessions =
            Sessions::at(&scene.ws(), &scene.dir.path().join("state"), None, "tester").expect("a repository");
        let mut session = sessions.start(None, "a title").expect("begun");
        for number in 0..24 {
            session = operate(&scene, &scene.ws(), session, number + seed);
        }
        assert_eq!(
            (references(), git(&scene.ws(), &["status", "--porcelain"])),
            (before, String::new()),
            "{options:?}"
        );
        turn(&mut session, "q", "new.txt", None, Some("x\n"));
        let plan = plan_merge(&sessions, session.id(), How::Squash, &scene.program()).expect("a plan");
        merge(&sessions, &plan, true, &scene.program()).expect("merged");
        assert_eq!(std::fs::read_to_string(scene.ws().join("new.txt")).expect("a file"), "x\n");
        let on = sessions.start_on("side", "").expect_err("there is no such branch");
        assert!(on.to_string().contains("there is no branch side"), "{on}");
        git(&scene.ws(), &["branch", "side"]);
        let mut side = sessions.start_on("side", "").expect("begun");
        turn(&mut side, "q", "side.txt", None, Some("side\n"));
        assert_eq!(git(&scene.ws(), &["show", "side:side.txt"]), "side");
        let id = side.id().to_owned();
        drop((session, side));
        assert_eq!(sessions.find(&id).expect("it is listed"), id);
        git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
        for listed in sessions.list().expect("a list").into_iter().chain(sessions.list_left().expect("a list")) {
            sessions.drop_for_good(&listed.meta.id).expect("dropped");
        }
        for (name, tip) in sessions.repo().refs(KEPT).expect("references") {
            sessions.repo().swap(&name, Some(tip), None, &sessions.who).expect("removed");
        }
        let left = git(&scene.ws(), &["for-each-ref", "--format=%(refname)", "refs/heads/reedclaw", "refs/reedclaw"]);
        assert_eq!(left, "", "{options:?}");
    }
}

#[test]
fn a_checkout_with_a_submodule_stays_untouched() {
    let scene = Scene::new();
    let at = scene.ws();
    git(scene.dir.path(), &["clone", "-q", "ws", "other"]);
    git(&at, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../other", "sub"]);
    git(&at, &["commit", "-q", "-m", "with a submodule"]);
    std::fs::write(at.join("sub/a.txt"), "dirty\n").expect("a file");
    stays_untouched(&scene, &at, 7);
}

#[test]
fn linked_worktrees_stay_untouched() {
    let scene = Scene::new();
    let linked = scene.dir.path().join("linked");
    git(&scene.ws(), &["worktree", "add", "-q", "-b", "side", "../linked"]);
    std::fs::write(linked.join("a.txt"), "changed\n").expect("a file");
    let before = seen(&linked);
    stays_untouched(&scene, &linked, 8);
    stays_untouched(&scene, &scene.ws(), 9);
    assert_eq!(differing(&before, &seen(&linked)), Vec::<PathBuf>::new());
}

#[test]
fn a_sparse_checkout_stays_untouched_and_its_tools_see_all_files() {
    let scene = Scene::new();
    git(&scene.ws(), &["sparse-checkout", "set", "--no-cone", "/a.txt"]);
    assert!(!scene.ws().join("src").exists());
    stays_untouched(&scene, &scene.ws(), 10);
    let session = scene.sessions.start(None, "").expect("begun");
    assert_eq!(session.draft().read("src/b.rs", 100).expect("read").bytes, b"fn b() {}\n");
}

#[test]
fn a_shallow_clone_and_a_bare_one_can_hold_sessions() {
    let scene = Scene::new();
    git(&scene.ws(), &["commit", "-q", "--allow-empty", "-m", "second"]);
    let from = format!("file://{}", scene.ws().display());
    git(scene.dir.path(), &["clone", "-q", "--depth", "1", &from, "shallow"]);
    git(scene.dir.path(), &["clone", "-q", "--bare", &from, "bare"]);
    for name in ["shallow", "bare"] {
        let at = scene.dir.path().join(name);
        let sessions = Sessions::at(&at, &scene.dir.path().join("state"), None, "tester").expect("a repository");
        let mut session = sessions.start(None, "").expect("begun");
        turn(&mut session, "q", "x.txt", None, Some("x\n"));
        git(&at, &["fsck", "--strict", "--no-dangling"]);
        if name == "shallow" {
            git(&at, &["commit", "-q", "--allow-empty", "-m", "the user goes on"]);
            // A branch whose common commits with the session weren't fetched.
            git(&at, &["branch", "far", &git(&at, &["commit-tree", "-m", "far", "HEAD^{tree}"])]);
            let wish = MergeWish { into: Some("far".into()), ..How::Squash.into() };
            let refused = plan_merge(&sessions, session.id(), wish, &scene.program()).expect_err("refused");
            assert!(refused.to_string().contains("git fetch --deepen"), "{refused}");
        }
        let plan = plan_merge(&sessions, session.id(), How::Squash, &scene.program()).expect("a plan");
        merge(&sessions, &plan, true, &scene.program()).expect("merged");
        assert_eq!(git(&at, &["show", "main:x.txt"]), "x");
    }
}
