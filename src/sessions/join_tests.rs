//! Sessions and the user's branches: sync, merge in all its kinds, apply, hooks and signatures, several processes at once.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tests::{Scene, branch, git, turn, turn_report, write};
use super::*;
use crate::files::{Root, Tree};
use crate::git::Mode;

const SESSION_A: &str = "session\ntwo\nthree\n";

fn old() -> Option<&'static str> {
    Some("one\ntwo\nthree\n")
}

fn commit_on_main(scene: &Scene, text: &str) {
    std::fs::write(scene.ws().join("a.txt"), text).expect("a file");
    git(&scene.ws(), &["commit", "-q", "-am", "the user's"]);
}

fn hook(scene: &Scene, name: &str, script: &str) {
    let path = scene.ws().join(".git/hooks").join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a hook");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

#[test]
fn a_conflict_is_solved_in_the_session_and_then_the_merge_goes_through() {
    let scene = Scene::new();
    let program = scene.program();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "change a", "a.txt", old(), Some(SESSION_A));
    commit_on_main(&scene, "user\ntwo\nthree\n");
    let main = git(&scene.ws(), &["rev-parse", "main"]);
    let planned = plan_merge(&scene.sessions, session.id(), How::Squash, &program);
    assert!(matches!(planned, Err(SessionError::Conflicts(_))));
    let synced = sync(&mut session, None, &program).expect("synced");
    assert_eq!(synced.conflicts.iter().map(|it| it.path.as_path()).collect::<Vec<_>>(), [Path::new("a.txt")]);
    let marked = String::from_utf8(session.draft().read("a.txt", 1000).expect("read").bytes).expect("text");
    assert!(marked.contains("<<<<<<< session\n") && marked.contains(">>>>>>> main\n"), "{marked}");
    assert!(marked.contains("user\n"), "{marked}");
    // A turn that leaves the marks isn't whole, and nothing can be merged.
    turn(&mut session, "talk about it", "note.txt", None, Some("x\n"));
    assert_eq!(session.view().record(2).expect("a record").state, "conflicted");
    assert_eq!(scene.sessions.list().expect("a list")[0].meta.conflicts, ["a.txt"]);
    let refused = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect_err("refused");
    assert!(refused.to_string().contains("a.txt"), "{refused}");
    let checkout = Root::open(&scene.ws(), None).expect("a root");
    let applied =
        plan_apply(&scene.sessions, session.id(), &checkout, Some(&program)).expect_err("no marks in the checkout");
    assert!(applied.to_string().contains("aren't solved yet: a.txt"), "{applied}");
    turn(&mut session, "solve it", "a.txt", Some(&marked), Some("both\ntwo\nthree\n"));
    assert_eq!(session.view().record(3).expect("a record").state, "whole");
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
    assert_eq!(git(&scene.ws(), &["rev-parse", "main"]), main, "nothing has moved so far");
    merge(&scene.sessions, &plan, true, &program).expect("merged");
    assert_eq!(std::fs::read_to_string(scene.ws().join("a.txt")).expect("a file"), "both\ntwo\nthree\n");
    assert!(!scene.ws().join(".reedclaw").exists());
}

/// The message named the nonexistent turns "1-0", after three empty lines.
#[test]
fn the_message_of_a_squash_names_the_turns_that_there_are() {
    let scene = Scene::new();
    let program = scene.program();
    let mut session = scene.sessions.start(None, "a title").expect("begun");
    let message = |session: &Session| {
        let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
        let commit = merge(&scene.sessions, &plan, true, &program).expect("merged");
        (commit, plan, git(&scene.ws(), &["log", "-1", "--format=%B", "main"]))
    };
    session.edit_by_user("mine.txt", None, b"mine\n").expect("edited");
    let (commit, plan, text) = message(&session);
    assert_eq!(text, format!("a title\n\nReedClaw-Session: {}", session.id()));
    note_merged(&mut session, &plan, commit).expect("noted");
    turn(&mut session, "one turn", "x.txt", None, Some("x\n"));
    let text = message(&session).2;
    assert_eq!(text, format!("a title\n\n- one turn\n\nReedClaw-Session: {}\nReedClaw-Turns: 1", session.id()));
    let long = "words ".repeat(40);
    turn(&mut session, &long, "y.txt", None, Some("y\n"));
    let subject = git(&scene.ws(), &["log", "-1", "--format=%s", session.reference()]);
    assert!((60..=72).contains(&subject.chars().count()), "{subject}");
}

/// The turn from before the sync was replayed and met the same conflict again, and the hint was another sync.
#[test]
fn a_solved_conflict_lets_a_rebase_through_too() {
    let scene = Scene::new();
    let program = scene.program();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "change a", "a.txt", old(), Some(SESSION_A));
    commit_on_main(&scene, "user\ntwo\nthree\n");
    sync(&mut session, None, &program).expect("synced");
    let marked = String::from_utf8(session.draft().read("a.txt", 1000).expect("read").bytes).expect("text");
    turn(&mut session, "talk about it", "note.txt", None, Some("x\n"));
    turn(&mut session, "solve it", "a.txt", Some(&marked), Some("both\ntwo\nthree\n"));
    turn(&mut session, "go on", "more.txt", None, Some("x\n"));
    let plan = plan_merge(&scene.sessions, session.id(), How::Rebase, &program).expect("a plan");
    let commit = merge(&scene.sessions, &plan, true, &program).expect("merged");
    assert_eq!(std::fs::read_to_string(scene.ws().join("a.txt")).expect("a file"), "both\ntwo\nthree\n");
    let log = git(&scene.ws(), &["log", "--format=%s%n%b", "-2"]);
    assert!(log.starts_with("go on\n") && log.contains("- change a\n- talk about it\n- solve it\n"), "{log}");
    assert!(log.ends_with("ReedClaw-Turns: 1-3"), "{log}");
    note_merged(&mut session, &plan, commit).expect("noted");
    assert_eq!(session.view().changes().expect("changes"), []);
}

/// Only turns were replayed. The files also disappeared from the session's tip, and the next merge claimed that main had them.
#[test]
fn a_rebase_has_the_uncommitted_files_that_a_session_began_with() {
    let scene = Scene::new();
    let (at, program) = (scene.ws(), scene.program());
    std::fs::write(at.join("a.txt"), "not committed\n").expect("a file");
    std::fs::write(at.join("new.txt"), "new\n").expect("a file");
    let mut session = start_with_changes(&scene.sessions, "", &program, &no_key()).expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    git(&at, &["stash", "-q", "-u"]);
    let plan = plan_merge(&scene.sessions, session.id(), How::Rebase, &program).expect("a plan");
    assert_eq!(plan.files.len(), 3);
    let commit = merge(&scene.sessions, &plan, true, &program).expect("merged");
    note_merged(&mut session, &plan, commit).expect("noted");
    assert_eq!(git(&at, &["ls-files"]), "a.txt\nnew.txt\nsrc/b.rs\nx.txt");
    assert_eq!(git(&at, &["log", "--format=%s", "-2"]), "q\nfiles that weren't committed");
    assert_eq!(session.draft().read("a.txt", 100).expect("read").bytes, b"not committed\n");
    // One turn isn't the whole session, so the session doesn't change.
    turn(&mut session, "q2", "2.txt", None, Some("x\n"));
    turn(&mut session, "q3", "3.txt", None, Some("x\n"));
    let (plan, tip) =
        (plan_merge(&scene.sessions, session.id(), How::Pick(vec![3]), &program).expect("a plan"), session.tip());
    let commit = merge(&scene.sessions, &plan, true, &program).expect("merged");
    note_merged(&mut session, &plan, commit).expect("nothing to note");
    assert_eq!((session.tip(), session.draft().read("2.txt", 100).expect("read").bytes), (tip, b"x\n".to_vec()));
}

#[test]
fn a_sync_brings_what_the_user_did_and_is_undone() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    let refused = sync(&mut session, None, &scene.program()).expect_err("there is nothing to bring");
    assert!(refused.to_string().contains("has all of main"), "{refused}");
    commit_on_main(&scene, "user\ntwo\nthree\n");
    let before = session.tip();
    sync(&mut session, None, &scene.program()).expect("synced");
    assert_eq!(session.draft().read("a.txt", 100).expect("read").bytes, b"user\ntwo\nthree\n");
    let own: Vec<PathBuf> = session.view().changes().expect("changes").into_iter().map(|it| it.path).collect();
    assert_eq!(own, [PathBuf::from("x.txt")], "what the user did is none of the session's changes");
    assert_eq!(session.view().record(1).expect("a record").question, "q");
    assert_eq!(session.view().log().expect("a log")[0].act, "sync");
    session.undo().expect("undone");
    assert_eq!(session.tip(), before);
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
}

/// A fork of an early turn had the base of a later sync: `apply` would have reverted the user's own changes.
#[test]
fn a_fork_of_an_early_turn_has_the_base_of_that_turn_and_one_of_now_what_the_person_did_since() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    commit_on_main(&scene, "user\ntwo\nthree\n");
    sync(&mut session, None, &scene.program()).expect("synced");
    session.edit_by_user("own.txt", None, b"own\n").expect("edited");
    let changes = |session: &Session| -> Vec<PathBuf> {
        session.view().changes().expect("changes").into_iter().map(|it| it.path).collect()
    };
    let early = scene.sessions.fork(session.id(), Some(1)).expect("forked");
    assert_eq!(changes(&early), ["x.txt"].map(PathBuf::from));
    let now = scene.sessions.fork(session.id(), None).expect("forked");
    assert_eq!(changes(&now), ["own.txt", "x.txt"].map(PathBuf::from));
    assert_eq!(now.draft().read("a.txt", 100).expect("read").bytes, b"user\ntwo\nthree\n");
    assert_eq!((early.meta().turns, now.meta().turns), (1, 1));
}

#[test]
fn a_session_goes_on_after_its_merge_and_the_next_one_has_only_what_came_since() {
    let scene = Scene::new();
    let program = scene.program();
    let mut session = scene.sessions.start(None, "").expect("begun");
    for (number, text) in ["first\ntwo\nthree\n", "second\ntwo\nthree\n", "third\ntwo\nthree\n"].iter().enumerate() {
        let before = String::from_utf8(session.draft().read("a.txt", 100).expect("read").bytes).expect("text");
        turn(&mut session, &format!("q{number}"), "a.txt", Some(&before), Some(text));
        let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
        let commit = merge(&scene.sessions, &plan, true, &program).expect("merged");
        note_merged(&mut session, &plan, commit).expect("noted");
        assert_eq!(session.view().changes().expect("changes"), []);
        assert_eq!(std::fs::read_to_string(scene.ws().join("a.txt")).expect("a file"), *text);
    }
    assert_eq!(git(&scene.ws(), &["rev-list", "--count", "main"]), "4");
    drop(session);
    assert_eq!(scene.sessions.list().expect("a list")[0].state(), "merged");
}

#[test]
fn the_record_is_taken_over_only_if_that_is_wanted() {
    let scene = Scene::new();
    let program = scene.program();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    let wish = MergeWish { keeps_record: true, ..How::Squash.into() };
    let plan = plan_merge(&scene.sessions, session.id(), wish, &program).expect("a plan");
    merge(&scene.sessions, &plan, true, &program).expect("merged");
    let record = format!(".reedclaw/sessions/{}/turns/00/0001.json", session.id());
    assert!(std::fs::read_to_string(scene.ws().join(record)).expect("the record").contains("\"question\": \"q\""));
}

#[test]
fn a_merge_into_a_dirty_checkout_keeps_the_dirt_and_one_elsewhere_moves_there() {
    let scene = Scene::new();
    let program = scene.program();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    std::fs::write(scene.ws().join("a.txt"), "dirty\n").expect("a file");
    std::fs::write(scene.ws().join("untracked.txt"), "mine\n").expect("a file");
    git(&scene.ws(), &["worktree", "add", "-q", "-b", "side", "../side", "main"]);
    git(&scene.ws(), &["branch", "nowhere"]);
    for name in ["main", "side", "nowhere"] {
        let wish = MergeWish { into: Some(name.into()), ..How::Merge.into() };
        let plan = plan_merge(&scene.sessions, session.id(), wish, &program).expect("a plan");
        merge(&scene.sessions, &plan, true, &program).expect("merged");
        assert_eq!(git(&scene.ws(), &["show", &format!("{name}:x.txt")]), "x");
        assert_eq!(git(&scene.ws(), &["rev-list", "--parents", "-1", name]).split(' ').count(), 3, "two parents");
    }
    assert!(scene.dir.path().join("side/x.txt").exists(), "the worktree follows its branch");
    assert_eq!(git(&scene.ws(), &["status", "--porcelain"]), "M a.txt\n?? untracked.txt");
    // An untracked file of the user's in the way isn't overwritten.
    turn(&mut session, "q", "untracked.txt", None, Some("session\n"));
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
    assert!(matches!(merge(&scene.sessions, &plan, true, &program), Err(SessionError::Refused(_))));
    assert_eq!(std::fs::read_to_string(scene.ws().join("untracked.txt")).expect("a file"), "mine\n");
}

#[test]
fn a_branch_that_a_rebase_or_a_bisection_comes_back_to_is_left_alone() {
    let scene = Scene::new();
    let (program, at) = (scene.program(), scene.ws());
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    commit_on_main(&scene, "user\ntwo\nthree\n");
    git(&at, &["branch", "stacked"]);
    git(&at, &["worktree", "add", "-q", "-b", "side", "../side", "main"]);
    let plan = |name: &str| {
        let wish = MergeWish { into: Some(name.into()), ..How::Merge.into() };
        plan_merge(&scene.sessions, session.id(), wish, &program)
    };
    let refusal = |name: &str| plan(name).map(drop).expect_err("refused").to_string();
    let planned = plan("main").expect("a plan");
    // The rebase stops at once, as it does at a conflict, with HEAD detached.
    git(&at, &["-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "--update-refs", "--root"]);
    let refused = merge(&scene.sessions, &planned, true, &program).expect_err("the rebase began after the plan");
    assert!(refused.to_string().contains("main is being rebased in"), "{refused}");
    for name in ["main", "stacked"] {
        let tip = git(&at, &["rev-parse", name]);
        assert!(refusal(name).contains(&format!("{name} is being rebased in {}", at.display())), "{}", refusal(name));
        assert!(scene.sessions.start_on(name, "").is_err(), "{name}");
        assert_eq!(git(&at, &["rev-parse", name]), tip);
    }
    git(&at, &["rebase", "--abort"]);
    plan("main").expect("the rebase has ended");
    let side = scene.dir.path().join("side");
    git(&side, &["bisect", "start", "HEAD", "HEAD~1"]);
    git(&side, &["checkout", "-q", "--detach"]);
    assert!(refusal("side").contains("side is being bisected in"), "{}", refusal("side"));
    git(&side, &["bisect", "reset"]);
    plan("side").expect("the bisection has ended");
}

#[test]
fn a_merge_into_a_branch_without_a_commit_makes_its_first_one() {
    let scene = Scene::new();
    std::fs::remove_dir_all(scene.ws()).expect("removed");
    std::fs::create_dir(scene.ws()).expect("a folder");
    git(&scene.ws(), &["init", "-q", "-b", "main"]);
    let sessions = Sessions::at(&scene.ws(), &scene.dir.path().join("new"), None, "tester").expect("a repository");
    let mut session = sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    let plan = plan_merge(&sessions, session.id(), How::Squash, &scene.program()).expect("a plan");
    merge(&sessions, &plan, true, &scene.program()).expect("merged");
    assert_eq!(git(&scene.ws(), &["ls-tree", "-r", "--name-only", "main"]), "x.txt");
    assert_eq!(std::fs::read_to_string(scene.ws().join("x.txt")).expect("a file"), "x\n");
}

#[test]
fn the_users_hooks_and_signature_are_on_a_merge_or_there_is_none() {
    let scene = Scene::new();
    let program = scene.program();
    let mut session = scene.sessions.start(None, "the title").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    let main = git(&scene.ws(), &["rev-parse", "main"]);
    // The hook sees the files and the index of the merge, not those of the checkout.
    hook(
        &scene,
        "pre-commit",
        "test \"$(cat x.txt)\" = x && git diff --cached --name-only | grep -qx x.txt && echo no >&2; exit 1",
    );
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
    let refused = merge(&scene.sessions, &plan, true, &program).expect_err("refused");
    assert!(refused.to_string().contains("refuses the commit: no"), "{refused}");
    assert_eq!(git(&scene.ws(), &["rev-parse", "main"]), main);
    assert_eq!(git(&scene.ws(), &["status", "--porcelain"]), "");
    // Several commits can't be checked, so there are none.
    for how in [How::Rebase, How::Pick(vec![1])] {
        let plan = plan_merge(&scene.sessions, session.id(), how, &program).expect("a plan");
        let refused = merge(&scene.sessions, &plan, true, &program).expect_err("refused");
        assert!(refused.to_string().contains("hooks of the repository check commits"), "{refused}");
    }
    assert_eq!(git(&scene.ws(), &["rev-parse", "main"]), main);
    // One that formats files, one that changes the message, and a signature.
    hook(&scene, "pre-commit", "echo formatted >>x.txt; git add x.txt");
    hook(&scene, "commit-msg", "echo 'Checked-by: hook' >>\"$1\"");
    let signer = scene.dir.path().join("signer");
    let words = "cat >/dev/null; echo '[GNUPG:] SIG_CREATED x' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo '-----END PGP SIGNATURE-----'";
    std::fs::write(&signer, format!("#!/bin/sh\n{words}\n")).expect("a program");
    std::fs::set_permissions(&signer, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    for (name, value) in [
        ("gpg.program", signer.to_str().expect("a path")),
        ("commit.gpgsign", "true"),
        ("user.name", "person"),
        ("user.email", "p@example.org"),
    ] {
        git(&scene.ws(), &["config", name, value]);
    }
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
    merge(&scene.sessions, &plan, true, &program).expect("merged");
    let commit = git(&scene.ws(), &["cat-file", "commit", "main"]);
    assert!(commit.contains("BEGIN PGP SIGNATURE") && commit.contains("Checked-by: hook"), "{commit}");
    assert_eq!(std::fs::read_to_string(scene.ws().join("x.txt")).expect("a file"), "x\nformatted\n");
    assert_eq!(git(&scene.ws(), &["status", "--porcelain"]), "");
}

#[test]
fn apply_merges_the_users_own_changes_or_refuses() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "a.txt", old(), Some(SESSION_A));
    turn(&mut session, "q2", "x.txt", None, Some("x\n"));
    turn(&mut session, "q3", "src/b.rs", Some("fn b() {}\n"), None);
    let checkout = Root::open(&scene.ws(), None).expect("a checkout");
    let plan = plan_apply(&scene.sessions, session.id(), &checkout, None).expect("a plan");
    let paths: Vec<&Path> = plan.iter().map(|it| it.path.as_path()).collect();
    assert_eq!(paths, [Path::new("a.txt"), Path::new("src/b.rs"), Path::new("x.txt")]);
    assert_eq!((plan[0].expected.is_some(), &plan[1].now, plan[2].expected), (true, &None, None));
    // Files that are already there needn't be applied; the user's changes are left alone.
    std::fs::write(scene.ws().join("x.txt"), "x\n").expect("a file");
    assert_eq!(plan_apply(&scene.sessions, session.id(), &checkout, None).expect("a plan").len(), 2);
    std::fs::write(scene.ws().join("a.txt"), "mine\n").expect("a file");
    let program = scene.program();
    for program in [None, Some(&program)] {
        let refused = plan_apply(&scene.sessions, session.id(), &checkout, program);
        assert!(
            matches!(refused, Err(SessionError::Conflicts(all)) if all.len() == 1 && all[0].path == Path::new("a.txt"))
        );
    }
    // Other lines of the same file, and its mode.
    std::fs::write(scene.ws().join("a.txt"), "one\ntwo\nthree\nmine\n").expect("a file");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scene.ws().join("a.txt"), executable).expect("a mode");
    let plan = plan_apply(&scene.sessions, session.id(), &checkout, Some(&program)).expect("a plan");
    let both = &plan[0];
    assert!(both.is_merged && !plan[1].is_merged);
    assert_eq!(both.now, Some((Mode::Executable, b"session\ntwo\nthree\nmine\n".to_vec())));
    // A file that the user deleted, and one that isn't text.
    for bytes in [None, Some(b"\0binary")] {
        let _ = std::fs::remove_file(scene.ws().join("a.txt"));
        bytes.iter().for_each(|bytes| std::fs::write(scene.ws().join("a.txt"), bytes).expect("a file"));
        let refused = plan_apply(&scene.sessions, session.id(), &checkout, Some(&program));
        assert!(matches!(refused, Err(SessionError::Conflicts(_))), "{bytes:?}");
    }
}

#[test]
fn apply_uses_the_line_endings_of_the_checkout() {
    let scene = Scene::new();
    git(&scene.ws(), &["config", "core.autocrlf", "true"]);
    let crlf = "one\r\ntwo\r\nthree\r\n";
    std::fs::write(scene.ws().join("a.txt"), crlf).expect("a file");
    assert_eq!(git(&scene.ws(), &["diff", "--stat"]), "");
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "a.txt", old(), Some(SESSION_A));
    let checkout = Root::open(&scene.ws(), None).expect("a checkout");
    let plan = plan_apply(&scene.sessions, session.id(), &checkout, None).expect("a plan");
    assert_eq!(plan[0].now, Some((Mode::File, SESSION_A.replace('\n', "\r\n").into_bytes())));
    // The user has changed the file, before and after the changes were applied.
    std::fs::write(scene.ws().join("a.txt"), format!("{crlf}mine\r\n")).expect("a file");
    let plan = plan_apply(&scene.sessions, session.id(), &checkout, Some(&scene.program())).expect("a plan");
    assert_eq!(plan[0].now, Some((Mode::File, b"session\r\ntwo\r\nthree\r\nmine\r\n".to_vec())));
    std::fs::write(scene.ws().join("a.txt"), SESSION_A.replace('\n', "\r\n")).expect("a file");
    assert_eq!(plan_apply(&scene.sessions, session.id(), &checkout, None).expect("a plan").len(), 0);
}

#[test]
fn a_draft_whose_branch_has_moved_is_kept_by_name() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x\n"));
    let (id, tip) = (session.id().to_owned(), session.tip());
    session.begin_turn("cut off").expect("begun");
    write(&session, "y.txt", None, Some("y\n"));
    drop(session);
    let name = branch(&id);
    let tree = git(&scene.ws(), &["rev-parse", &format!("{name}^{{tree}}")]);
    let theirs = git(&scene.ws(), &["commit-tree", &tree, "-p", &name, "-m", "by hand"]);
    git(&scene.ws(), &["update-ref", &name, &theirs]);
    let mut session = scene.sessions.open(&id).expect("opened");
    let message = session.take_notices().pop().expect("a message");
    assert_eq!((session.tip().to_string(), session.left()), (theirs, None));
    let references = scene.sessions.repo().refs(&format!("{KEPT}{id}/")).expect("references");
    let [(references, commit)] = &references[..] else { panic!("{references:?}") };
    assert!(message.contains(references.as_str()), "{message}");
    assert_eq!(scene.sessions.repo().commit(*commit).expect("a commit").parents, [tip]);
    assert_eq!(git(&scene.ws(), &["show", &format!("{references}:y.txt")]), "y");
}

#[test]
fn a_session_begins_with_the_users_uncommitted_files_if_that_is_wanted() {
    let scene = Scene::new();
    let at = scene.ws();
    std::fs::write(at.join(".gitignore"), "ignored.txt\n").expect("a file");
    git(&at, &["add", ".gitignore"]);
    git(&at, &["commit", "-q", "-m", "rules"]);
    for (name, text) in [
        ("staged.txt", "staged\n"),
        ("a.txt", "unstaged\n"),
        ("untracked.txt", "untracked\n"),
        ("ignored.txt", "ignored\n"),
        (".env", "SECRET=1\n"),
        ("intent.txt", "intent\n"),
    ] {
        std::fs::write(at.join(name), text).expect("a file");
    }
    git(&at, &["add", "staged.txt"]);
    git(&at, &["add", "-N", "intent.txt"]);
    std::fs::remove_file(at.join("src/b.rs")).expect("removed");
    let (status, index) =
        (git(&at, &["status", "--porcelain"]), std::fs::read(at.join(".git/index")).expect("an index"));
    let mut session = start_with_changes(&scene.sessions, "", &scene.program(), &no_key()).expect("begun");
    assert_eq!(std::fs::read(at.join(".git/index")).expect("an index"), index);
    assert_eq!(git(&at, &["status", "--porcelain"]), status);
    let files = git(&at, &["ls-tree", "-r", "--name-only", &branch(session.id())]);
    let files: Vec<&str> = files.lines().filter(|it| !it.starts_with(".reedclaw")).collect();
    assert_eq!(files, [".gitignore", "a.txt", "intent.txt", "staged.txt", "untracked.txt"]);
    // The tree is the one that git's program makes from the same files, with their contents and modes.
    git(&at, &["clone", "-q", ".", "../twin"]);
    let twin = scene.dir.path().join("twin");
    std::fs::remove_file(twin.join("src/b.rs")).expect("removed");
    for name in ["a.txt", "intent.txt", "staged.txt", "untracked.txt"] {
        std::fs::copy(at.join(name), twin.join(name)).expect("copied");
    }
    git(&twin, &["add", "-A"]);
    let theirs = git(&twin, &["write-tree"]);
    let edit = git(&at, &["ls-tree", "-r", &branch(session.id())]);
    let ours: Vec<&str> = edit.lines().filter(|it| !it.contains("\t.reedclaw/")).collect();
    assert_eq!(ours.join("\n"), git(&twin, &["ls-tree", "-r", &theirs]));
    assert_eq!(session.draft().read("a.txt", 100).expect("read").bytes, b"unstaged\n");
    assert_eq!(session.take_notices(), [".env isn't taken along: a file of its name may hold secrets"]);
}

/// A guard that knows no key.
fn no_key() -> crate::tree::Guard {
    Box::new(|_| false)
}

#[test]
fn a_key_in_the_checkout_gets_into_no_object_when_a_session_takes_its_files() {
    let scene = Scene::new();
    let (at, program) = (scene.ws(), scene.program());
    let key = "the-key-in-the-config";
    std::fs::write(at.join("a.txt"), format!("one\n{key}\n")).expect("a file");
    std::fs::write(at.join("new.txt"), key).expect("a file");
    std::fs::write(at.join(format!("{key}.txt")), "x").expect("a file");
    std::fs::write(at.join("plain.txt"), "plain\n").expect("a file");
    let guard: crate::tree::Guard = Box::new(|bytes| bytes.windows(key.len()).any(|window| window == key.as_bytes()));
    let mut session = start_with_changes(&scene.sessions, "", &program, &guard).expect("begun");
    let notices = session.take_notices();
    assert!(
        notices.len() == 3 && notices.iter().all(|it| it.ends_with("isn't taken along: it holds a key")),
        "{notices:?}"
    );
    assert_eq!(session.draft().read("a.txt", 100).expect("read").bytes, b"one\ntwo\nthree\n");
    assert_eq!(session.draft().read("plain.txt", 100).expect("read").bytes, b"plain\n");
    std::fs::write(at.join("plain.txt"), "other\n").expect("a file");
    let (_, left_out) = sync_changes(&mut session, &program, &guard).expect("synced");
    assert_eq!(left_out.len(), 3);
    assert_eq!(session.draft().read("plain.txt", 100).expect("read").bytes, b"other\n");
    let objects = Command::new("git")
        .args(["cat-file", "--batch-all-objects", "--batch"])
        .current_dir(&at)
        .output()
        .expect("git runs");
    let has = |text: &str| objects.stdout.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("plain\n") && !has(key), "only what a commit takes becomes an object");
}

#[test]
fn uncommitted_files_come_into_a_session_that_has_begun() {
    let scene = Scene::new();
    let (at, program) = (scene.ws(), scene.program());
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "a.txt", old(), Some(SESSION_A));
    assert!(matches!(sync_changes(&mut session, &program, &no_key()), Err(SessionError::Nothing(_))), "nothing is new");
    std::fs::write(at.join("a.txt"), "one\ntwo\nmine\n").expect("a file");
    std::fs::write(at.join("new.txt"), "new\n").expect("a file");
    git(&at, &["add", "new.txt"]);
    let (status, index) =
        (git(&at, &["status", "--porcelain"]), std::fs::read(at.join(".git/index")).expect("an index"));
    let before = session.tip();
    let (synced, left_out) = sync_changes(&mut session, &program, &no_key()).expect("synced");
    assert_eq!((synced.conflicts, left_out), (vec![], vec![]));
    assert_eq!(session.draft().read("a.txt", 100).expect("read").bytes, b"session\ntwo\nmine\n");
    assert_eq!(session.draft().read("new.txt", 100).expect("read").bytes, b"new\n");
    assert_eq!(std::fs::read(at.join(".git/index")).expect("an index"), index);
    assert_eq!(git(&at, &["status", "--porcelain"]), status);
    // Uncommitted changes have no commit of their own in the history.
    assert_eq!(git(&at, &["rev-list", "--parents", "-1", session.reference()]).split(' ').count(), 2);
    session.undo().expect("undone");
    assert_eq!(session.tip(), before);
    // The same line on both sides is a conflict, to be solved in the session.
    std::fs::write(at.join("a.txt"), "mine\ntwo\nthree\n").expect("a file");
    let (synced, _) = sync_changes(&mut session, &program, &no_key()).expect("synced");
    let kinds: Vec<_> = synced.conflicts.iter().map(|it| (it.path.as_path(), it.kind.as_str())).collect();
    assert_eq!(
        (kinds, session.meta().conflicts.clone()),
        (vec![(Path::new("a.txt"), "contents")], vec!["a.txt".into()])
    );
    session.undo().expect("undone");
    // Commits must be synced first.
    git(&at, &["commit", "-q", "-m", "new"]);
    assert!(matches!(sync_changes(&mut session, &program, &no_key()), Err(SessionError::Refused(_))));
}

#[test]
fn files_that_run_on_peoples_machines_come_first_in_a_merge() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "aaa.txt", None, Some("x\n"));
    turn(&mut session, "q2", "package.json", None, Some("{}\n"));
    turn(&mut session, "q3", ".github/workflows/ci.yml", None, Some("on: push\n"));
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &scene.program()).expect("a plan");
    let paths: Vec<&str> = plan.files.iter().filter_map(|it| it.path.to_str()).collect();
    assert_eq!(paths, [".github/workflows/ci.yml", "package.json", "aaa.txt"]);
}

#[test]
fn two_sessions_are_merged_by_plain_git_without_a_conflict_in_their_records() {
    let scene = Scene::new();
    let mut names = Vec::new();
    for name in ["one", "two"] {
        let mut session = scene.sessions.start(None, name).expect("begun");
        turn(&mut session, name, &format!("{name}.txt"), None, Some("x\n"));
        names.push(branch(session.id()));
    }
    git(&scene.ws(), &["checkout", "-q", "-b", "both"]);
    for name in &names {
        git(&scene.ws(), &["merge", "-q", "--no-edit", name]);
    }
    assert!(scene.ws().join("one.txt").exists() && scene.ws().join("two.txt").exists());
}

#[test]
fn a_session_runs_nothing_that_the_repository_configures_until_a_merge_was_agreed() {
    let scene = Scene::new();
    let (at, canary) = (scene.ws(), scene.dir.path().join("canary"));
    let touch = format!("touch {}; cat", canary.display());
    for name in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "merge.evil.driver",
        "core.fsmonitor",
        "core.sshCommand",
        "diff.evil.textconv",
        "alias.merge-tree",
        "core.pager",
    ] {
        git(&at, &["config", name, &touch]);
    }
    std::fs::write(at.join(".git/info/attributes"), "* filter=evil merge=evil diff=evil\n").expect("a file");
    for name in ["pre-commit", "post-checkout", "reference-transaction", "post-index-change", "commit-msg"] {
        hook(&scene, name, &format!("touch {}", canary.display()));
    }
    let _ = std::fs::remove_file(&canary);
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "a.txt", old(), Some(SESSION_A));
    session.begin_turn("talk").expect("begun");
    session.end_turn(&turn_report("talk", State::Whole)).expect("committed");
    session.view().changes().expect("changes");
    session.rewind(1).expect("back");
    session.undo().expect("undone");
    let id = session.id().to_owned();
    let _plan = plan_merge(&scene.sessions, &id, How::Squash, &scene.program()).expect("a plan");
    drop(scene.sessions.fork(&id, None).expect("forked"));
    drop(session);
    scene.sessions.abandon(&id).expect("abandoned");
    assert!(!canary.exists());
}

/// The counts of `git status`, in the words of ours.
fn status_of(at: &Path) -> String {
    let words = ["status", "--porcelain=v2", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal"];
    let (mut conflicts, mut staged, mut changed, mut untracked) = (0, 0, 0, 0);
    for line in git(at, &words).lines() {
        conflicts += usize::from(line.starts_with("u "));
        untracked += usize::from(line.starts_with("? "));
        if let Some(state) = line.strip_prefix("1 ") {
            staged += usize::from(!state.starts_with('.'));
            changed += usize::from(state.as_bytes()[1] != b'.');
        }
    }
    let counts = [(conflicts, "in conflict"), (staged, "staged"), (changed, "changed"), (untracked, "untracked")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn uncommitted_files_are_counted_as_git_counts_them() {
    let scene = Scene::new();
    let at = scene.ws();
    let put = |name: &str, text: &str| {
        std::fs::create_dir_all(at.join(name).parent().expect("a parent")).expect("a directory");
        std::fs::write(at.join(name), text).expect("a file");
    };
    let index = at.join(".git/index");
    let is_as_git_says = |what: &str| {
        // A `git status` would rewrite the index.
        let before = std::fs::read(&index).ok();
        let counts = scene.sessions.count_uncommitted(std::time::Duration::from_secs(60)).expect("counted");
        assert_eq!(std::fs::read(&index).ok(), before, "{what}");
        assert!(counts.is_whole, "{what}");
        assert_eq!(counts.to_string(), status_of(&at), "{what}");
    };
    is_as_git_says("just committed");
    // A file that was only touched, one with another content of the same length, and one that became executable.
    for (name, text) in [("touched", "as before\n"), ("same length", "aaa\n"), ("tool", "#!/bin/sh\n"), ("gone", "x\n")]
    {
        put(&format!("d/{name}"), text);
    }
    put("whole/of/a", "a\n");
    put("whole/of/b", "b\n");
    put(".gitignore", "*.log\nbuild/\n!keep.log\n");
    std::os::unix::fs::symlink("a.txt", at.join("link")).expect("a link");
    git(&at, &["add", "-A"]);
    is_as_git_says("all staged");
    git(&at, &["commit", "-q", "-m", "more"]);
    is_as_git_says("committed");
    put("d/touched", "as before\n");
    put("d/same length", "bbb\n");
    std::fs::set_permissions(at.join("d/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    std::fs::remove_file(at.join("d/gone")).expect("removed");
    std::fs::remove_dir_all(at.join("whole")).expect("removed");
    std::fs::remove_file(at.join("link")).expect("removed");
    std::os::unix::fs::symlink("src", at.join("link")).expect("a link");
    is_as_git_says("changed");
    git(&at, &["add", "d/tool", "whole"]);
    for name in
        ["new", "x.log", "keep.log", "build/out", "only/ignored/y.log", "fresh/a/b/c", "fresh/d", "only/keep.log"]
    {
        put(name, "text\n");
    }
    std::fs::create_dir_all(at.join("empty/er")).expect("a directory");
    put("announced", "text\n");
    git(&at, &["add", "-N", "announced"]);
    git(&at, &["init", "-q", "nested"]);
    std::fs::write(at.join("src/b.rs"), "").expect("a file");
    is_as_git_says("new and ignored ones, and a repository inside");
    git(&at, &["config", "core.fileMode", "false"]);
    std::fs::set_permissions(at.join("a.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    is_as_git_says("permissions that don't count");
    git(&at, &["config", "core.autocrlf", "true"]);
    put("a.txt", "one\r\ntwo\r\nthree\r\n");
    is_as_git_says("another length by the ends of lines");
    git(&at, &["checkout", "-q", "a.txt"]);
    let text = std::fs::read(at.join("a.txt")).expect("a file");
    assert!(text.ends_with(b"\r\n"), "git has converted it");
    std::fs::write(at.join("a.txt"), text).expect("a file");
    is_as_git_says("converted ends of lines");
    git(&at, &["update-index", "--skip-worktree", "d/same length"]);
    std::fs::remove_file(at.join("d/same length")).expect("removed");
    is_as_git_says("a file that needn't be there");
    git(&at, &["update-index", "--index-version", "4"]);
    is_as_git_says("an index with short paths");
}

#[test]
fn uncommitted_files_are_counted_in_a_conflict_before_the_first_commit_and_in_part() {
    let scene = Scene::new();
    let (at, time) = (scene.ws(), std::time::Duration::from_secs(60));
    git(&at, &["config", "user.name", "x"]);
    git(&at, &["config", "user.email", "x@y"]);
    git(&at, &["switch", "-q", "-c", "other"]);
    std::fs::write(at.join("a.txt"), "theirs\n").expect("a file");
    git(&at, &["commit", "-q", "-am", "theirs"]);
    git(&at, &["switch", "-q", "main"]);
    std::fs::write(at.join("a.txt"), "ours\n").expect("a file");
    git(&at, &["commit", "-q", "-am", "ours"]);
    let merged = Command::new("git").args(["merge", "-q", "other"]).current_dir(&at).output().expect("git runs");
    assert!(!merged.status.success());
    let counts = || scene.sessions.count_uncommitted(time);
    assert_eq!(counts().expect("counted").to_string(), "1 in conflict");
    assert_eq!(status_of(&at), "1 in conflict");
    // Without time no number is certain.
    let part = scene.sessions.count_uncommitted(std::time::Duration::ZERO).expect("a part");
    assert!(!part.is_whole && !part.to_string().contains("changed"), "{part}");
    git(&at, &["merge", "--abort"]);
    // A filter may produce the same content for another file, and isn't run.
    std::fs::write(at.join(".gitattributes"), "a.txt filter=x\n").expect("a file");
    assert_eq!(counts().expect("counted").to_string(), "1 untracked");
    std::fs::write(at.join("a.txt"), "hers\n").expect("a file");
    assert_eq!(counts(), None);
    std::fs::remove_file(at.join(".gitattributes")).expect("removed");
    git(&at, &["update-index", "--split-index"]);
    assert_eq!(counts(), None, "an index in two files");
    let new = tempfile::tempdir().expect("a directory");
    git(new.path(), &["init", "-q"]);
    std::fs::write(new.path().join("a"), "").expect("a file");
    let sessions = Sessions::at(new.path(), &new.path().join(".git/state"), None, "x").expect("a repository");
    assert_eq!(sessions.count_uncommitted(time).expect("counted").to_string(), "1 untracked");
}
