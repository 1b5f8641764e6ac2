//! Commits that are rewritten, and sessions on a branch of the user's, with git's own program as the witness.

use std::path::{Path, PathBuf};

use super::tests::{Scene, branch, git, turn, turn_report, write};
use super::*;
use crate::files::{Change, Journals, Tree as _};
use crate::git::Mode;

fn commit_in_checkout(scene: &Scene, path: &str, text: &str) {
    std::fs::write(scene.ws().join(path), text).expect("a file");
    git(&scene.ws(), &["add", "-A"]);
    git(&scene.ws(), &["commit", "-q", "-m", &format!("mine: {path}")]);
}

#[test]
fn own_commits_are_joined_into_the_newest_turn_and_undo_parts_them_again() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    assert!(matches!(amend(&mut session, None), Err(SessionError::Refused(_))), "there is no turn yet");
    turn(&mut session, "q1", "x.txt", None, Some("x\n"));
    assert!(matches!(amend(&mut session, None), Err(SessionError::Refused(_))), "there is nothing to join");
    session.edit_by_user("x.txt", Some(b"x\n"), b"mine\n").expect("edited");
    session.edit_by_user("y.txt", None, b"y\n").expect("edited");
    let before = session.tip();
    amend(&mut session, Some("both of us")).expect("amended");
    let name = session.reference().to_owned();
    assert_eq!(git(&scene.ws(), &["diff", &before.to_string(), &name, "--", ".", ":!.reedclaw"]), "");
    let log = session.view().log().expect("a log");
    let subjects: Vec<&str> = log.iter().map(|it| it.subject.as_str()).collect();
    assert_eq!(subjects[0], "both of us");
    assert_eq!((log.len(), log[0].turn, log[0].act.as_str()), (2, Some(1), "turn"));
    let record = session.view().record(1).expect("a record");
    let paths: Vec<&str> = record.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!((record.question.as_str(), paths), ("q1", vec!["x.txt", "y.txt"]));
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    session.undo().expect("undone");
    assert_eq!(session.tip(), before);
    // Only the person's own commits are joined.
    commit_in_checkout(&scene, "theirs.txt", "1\n");
    sync(&mut session, None, &scene.program()).expect("synced");
    assert!(matches!(amend(&mut session, None), Err(SessionError::Refused(_))));
}

#[test]
fn a_session_is_replayed_on_the_users_branch_commit_by_commit() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x\n"));
    session.edit_by_user("mine.txt", None, b"mine\n").expect("edited");
    turn(&mut session, "q2", "x.txt", Some("x\n"), Some("X\n"));
    commit_in_checkout(&scene, "theirs.txt", "1\n");
    let before = session.tip();
    let program = scene.program();
    let synced = replay(&mut session, None, &program).expect("replayed");
    let (ws, name) = (scene.ws(), session.reference().to_owned());
    assert_eq!(synced.from.to_string(), git(&ws, &["rev-parse", "main"]));
    assert_eq!(git(&ws, &["merge-base", "main", &name]), git(&ws, &["rev-parse", "main"]));
    let subjects = git(&ws, &["log", "--format=%s", &format!("main..{name}")]);
    let subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!((subjects.len(), &subjects[..3]), (4, &["q2", "add mine.txt", "q1"][..]));
    assert_eq!(git(&ws, &["log", "--merges", "--format=%s", &name]), "");
    assert_eq!(
        git(&ws, &["ls-tree", "-r", "--name-only", &name, "--", "mine.txt", "theirs.txt", "x.txt"]),
        "mine.txt\ntheirs.txt\nx.txt"
    );
    // Each commit has the record of its turn, and the session's changes are the same as before.
    assert_eq!(session.view().records(2).expect("records").len(), 2);
    let changed = session.view().changes().expect("changes");
    assert_eq!(
        changed.iter().map(|it| it.path.as_path()).collect::<Vec<_>>(),
        [Path::new("mine.txt"), Path::new("x.txt")]
    );
    assert_eq!(session.view().changes_of(1).expect("changes").len(), 1);
    git(&ws, &["fsck", "--strict", "--no-dangling"]);
    session.undo().expect("undone");
    assert_eq!(session.tip(), before);
    // If both changed the same place, nothing moves.
    commit_in_checkout(&scene, "x.txt", "theirs\n");
    let failed = replay(&mut session, None, &program);
    assert!(
        matches!(&failed, Err(SessionError::Conflicts(all)) if all.len() == 1 && all[0].path == Path::new("x.txt")),
        "{failed:?}"
    );
    assert_eq!(session.tip(), before);
    // The branch already has the changes of an earlier merge.
    session.rewind(1).expect("back");
    git(&ws, &["reset", "-q", "--hard", "HEAD~1"]);
    sync(&mut session, None, &program).expect("synced");
    commit_in_checkout(&scene, "more.txt", "1\n");
    replay(&mut session, None, &program).expect("replayed");
    let acts: Vec<String> = session.view().log().expect("a log").into_iter().map(|it| it.act).collect();
    assert_eq!(acts, ["turn", "base"]);
    drop(session);
}

#[test]
fn a_session_works_on_a_branch_of_the_users_and_leaves_it_to_them() {
    let scene = Scene::new();
    let ws = scene.ws();
    let refused = |branch: &str| scene.sessions.start_on(branch, "").map(drop);
    assert!(matches!(refused("none"), Err(SessionError::Missing(..))));
    assert!(matches!(refused("main"), Err(SessionError::Refused(_))), "it is checked out");
    git(&ws, &["branch", "feature"]);
    let before = git(&ws, &["rev-parse", "feature"]);
    let mut session = scene.sessions.start_on("feature", "a title").expect("begun");
    assert!(matches!(refused("feature"), Err(SessionError::Refused(_))), "a session works there");
    turn(&mut session, "q1", "x.txt", None, Some("x\n"));
    let (id, tip) = (session.id().to_owned(), session.tip());
    assert_eq!(git(&ws, &["rev-parse", "feature"]), tip.to_string());
    assert_eq!(git(&ws, &["rev-list", "--count", &format!("{before}..feature")]), "2");
    assert_eq!(git(&ws, &["for-each-ref", "--format=%(refname)", "refs/heads"]), "refs/heads/feature\nrefs/heads/main");
    write(&session, "y.txt", None, Some("y\n"));
    drop(session);
    // A crash left a draft; the list finds the session by its branch.
    let listed = scene.sessions.list().expect("a list");
    assert_eq!((listed.len(), listed[0].meta.id.as_str(), listed[0].tip), (1, id.as_str(), tip));
    let mut session = scene.sessions.open(&id).expect("opened");
    assert_eq!(session.reference(), "refs/heads/feature");
    session.undo().expect("the draft is dropped");
    session.rewind(0).expect("back");
    session.undo().expect("undone");
    drop(session);
    let fork = scene.sessions.fork(&id, None).expect("forked");
    assert!(fork.reference().starts_with(BRANCHES));
    scene.sessions.abandon(fork.id()).expect_err("it is open");
    drop(fork);
    // A clone continues the session from its branch.
    let clone = scene.dir.path().join("clone");
    git(scene.dir.path(), &["clone", "-q", &ws.display().to_string(), "clone"]);
    git(&clone, &["branch", "-q", "feature", "origin/feature"]);
    let there = Sessions::at(&clone, &scene.dir.path().join("other state"), None, "tester").expect("a repository");
    let session = there.start_on("feature", "").expect("taken up");
    assert_eq!((session.id(), session.tip()), (id.as_str(), tip));
    // Without the session the branch stays.
    scene.sessions.drop_for_good(&id).expect("dropped");
    assert_eq!(git(&ws, &["rev-parse", "feature"]), tip.to_string());
    assert_eq!(git(&ws, &["for-each-ref", "--format=%(refname)", "refs/reedclaw"]), "");
}

#[test]
fn one_half_of_a_turn_comes_back_and_the_other_stays() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("one\n"));
    turn(&mut session, "q2", "x.txt", Some("one\n"), Some("two\n"));
    turn(&mut session, "q3", "y.txt", None, Some("y\n"));
    let before = session.tip();
    let refused = rewind_half(&mut session, 3, Half::Code);
    assert!(matches!(refused, Err(SessionError::Refused(_))), "nothing has changed since");
    let text = |session: &Session, path: &str| {
        let read = session.view().files(None).expect("files").read(path, 100);
        read.map(|it| String::from_utf8(it.bytes).expect("text")).ok()
    };
    let questions = |session: &Session| -> Vec<String> {
        let records = session.view().records(session.meta().turns).expect("records");
        records.into_iter().map(|it| it.question).collect()
    };

    rewind_half(&mut session, 1, Half::Code).expect("gone back");
    assert_eq!((text(&session, "x.txt").as_deref(), text(&session, "y.txt")), (Some("one\n"), None));
    assert_eq!(session.meta().turns, 4);
    assert_eq!(questions(&session), ["q1", "q2", "q3", "Return to the files of turn 1."]);
    let record = session.view().record(4).expect("a record");
    assert_eq!(record.changes.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["x.txt", "y.txt"]);
    session.undo().expect("undone");
    assert_eq!(session.tip(), before);

    rewind_half(&mut session, 1, Half::Talk).expect("gone back");
    assert_eq!((text(&session, "x.txt").as_deref(), text(&session, "y.txt").as_deref()), (Some("two\n"), Some("y\n")));
    assert_eq!((session.meta().turns, questions(&session)), (1, vec!["q1".to_owned()]));
    turn(&mut session, "other", "z.txt", None, Some("z\n"));
    assert_eq!(questions(&session), ["q1", "other"]);
    let changes = session.view().changes_of(2).expect("changes");
    assert_eq!(changes.iter().map(|it| it.path.display().to_string()).collect::<Vec<_>>(), ["z.txt"]);
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);

    // A fork has its own record: it can't go back to a turn of the original session.
    let mut fork = scene.sessions.fork(session.id(), None).expect("forked");
    assert!(matches!(rewind_half(&mut fork, 1, Half::Code), Err(SessionError::Refused(_))));
}

#[test]
fn an_abandoned_session_is_listed_and_taken_up_again() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "left").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x\n"));
    session.rewind(0).expect("gone back");
    session.undo().expect("undone");
    let (id, tip) = (session.id().to_owned(), session.tip());
    drop(session);
    assert_eq!(scene.sessions.list_left().expect("a list"), []);
    scene.sessions.abandon(&id).expect("abandoned");
    assert_eq!(scene.sessions.list().expect("a list"), []);
    let left = scene.sessions.list_left().expect("a list");
    assert_eq!((left.len(), left[0].state(), left[0].tip), (1, "left", tip));
    assert_eq!(scene.sessions.find("left").expect("found"), id);
    assert_eq!(scene.sessions.look(&id).expect("there").tip(), tip);
    let session = scene.sessions.open(&id).expect("open again");
    assert_eq!((session.tip(), session.meta().turns), (tip, 1));
    assert_eq!(scene.sessions.list().expect("a list").len(), 1);
    assert_eq!(scene.sessions.list_left().expect("a list"), []);
}

#[test]
fn a_fork_goes_on_from_what_a_rewind_left_and_the_log_counts_lines() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("1\n2\n"));
    turn(&mut session, "q2", "x.txt", Some("1\n2\n"), Some("1\nzwei\ndrei\n"));
    session.rewind(1).expect("back");
    turn(&mut session, "another way", "y.txt", None, Some("y\n"));
    let refused = session.undo().expect_err("turns were made since").to_string();
    assert!(refused.contains("fork --kept N"), "{refused}");
    let id = session.id().to_owned();
    let [(number, left)] = &scene.sessions.former_tips(&id).expect("kept")[..] else { panic!("one is kept") };
    assert_eq!((left.subject.as_str(), left.lines), ("q2", Some([2, 1])));
    let fork = scene.sessions.fork_former(&id, *number, None).expect("forked");
    let questions: Vec<String> = fork.view().records(2).expect("records").into_iter().map(|it| it.question).collect();
    assert_eq!(questions, ["q1", "q2"]);
    assert_eq!(fork.draft().read("x.txt", 100).expect("a file").bytes, b"1\nzwei\ndrei\n");
    let fork = scene.sessions.fork_former(&id, *number, Some(1)).expect("forked");
    assert_eq!(fork.meta().turns, 1);
    assert!(matches!(scene.sessions.fork_former(&id, 9, None), Err(SessionError::Missing(..))));

    // Changes that an amend joins count as well.
    session.edit_by_user("y.txt", Some(b"y\n"), b"y\nmine\n").expect("edited");
    amend(&mut session, None).expect("amended");
    assert_eq!(session.view().log().expect("a log")[0].lines, Some([2, 0]));
}

#[test]
fn a_branch_that_was_rebased_elsewhere_is_found_and_both_histories_can_be_gone_on_from() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "a title").expect("begun");
    turn(&mut session, "q1", "1.txt", None, Some("1\n"));
    turn(&mut session, "q2", "2.txt", None, Some("2\n"));
    let (id, old) = (session.id().to_owned(), session.tip());
    commit_in_checkout(&scene, "main.txt", "main\n");
    git(&scene.ws(), &["rebase", "-q", "main", &branch(&id)["refs/heads/".len()..]]);
    git(&scene.ws(), &["checkout", "-q", "main"]);
    // The shell that has it open says so, and changes nothing.
    let error = session.begin_turn("q3").expect_err("it was made anew");
    let SessionError::MadeAnew { number: 1, .. } = error else { panic!("{error}") };
    drop(session);
    let mut session = scene.sessions.open(&id).expect("opened");
    assert_ne!(session.tip(), old);
    let notices = session.take_notices().join("; ");
    assert!(notices.contains("was rewritten") && notices.contains("--kept 1"), "{notices}");
    turn(&mut session, "q3", "3.txt", None, Some("3\n"));
    let view = session.view();
    let paths = |view: &View| -> Vec<String> {
        view.changes().expect("changes").iter().map(|it| it.path.display().to_string()).collect()
    };
    assert_eq!(paths(&view), ["1.txt", "2.txt", "3.txt"], "what main has is none of its changes");
    assert_eq!(view.records(3).expect("records").len(), 3);
    drop(session);
    let mut session = scene.sessions.open(&id).expect("opened again");
    assert_eq!(session.take_notices(), Vec::<String>::new(), "it is reported once");
    drop(session);
    let fork = scene.sessions.fork_former(&id, 1, None).expect("forked");
    assert_eq!((paths(&fork.view()), fork.meta().turns), (vec!["1.txt".to_owned(), "2.txt".to_owned()], 2));
}

#[test]
fn replaced_objects_and_grafts_change_nothing_that_a_session_reads() {
    let scene = Scene::new();
    commit_in_checkout(&scene, "b.txt", "b\n");
    std::fs::write(scene.dir.path().join("other"), "replaced\n").expect("a file");
    let other = git(&scene.ws(), &["hash-object", "-w", "../other"]);
    git(&scene.ws(), &["replace", "HEAD:a.txt", &other]);
    let root = git(&scene.ws(), &["commit-tree", "-m", "another", "HEAD^{tree}"]);
    git(&scene.ws(), &["replace", "HEAD~1", &root]);
    assert_eq!(git(&scene.ws(), &["show", "HEAD:a.txt"]), "replaced");
    let sessions = Sessions::at(&scene.ws(), &scene.dir.path().join("state"), None, "tester").expect("sessions");
    let mut session = sessions.start(None, "").expect("begun");
    let notices = session.take_notices().join("; ");
    assert!(notices.contains("git replace"), "{notices}");
    assert_eq!(session.draft().read("a.txt", 100).expect("read").bytes, b"one\ntwo\nthree\n");
    turn(&mut session, "q1", "a.txt", Some("one\ntwo\nthree\n"), Some("one\ntwo\n3\n"));
    git(&scene.ws(), &["branch", "dev"]);
    let wish = MergeWish { into: Some("dev".into()), ..How::Squash.into() };
    let plan = plan_merge(&sessions, session.id(), wish, &scene.program()).expect("a plan");
    merge(&sessions, &plan, true, &scene.program()).expect("merged");
    let real = ["--no-replace-objects", "show", "--format=", "--stat", "dev"];
    assert!(git(&scene.ws(), &real).contains("a.txt | 2 +-"), "one line of the real text has changed");
    assert!(!Scene::new().sessions.repo().has_replacements());
}

#[test]
fn changes_during_a_commit_stay_in_the_draft() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let id = session.id().to_owned();
    session.begin_turn("q1").expect("begun");
    write(&session, "x.txt", None, Some("x\n"));
    write(&session, "a.txt", Some("one\ntwo\nthree\n"), Some("changed\n"));
    let (meta, done) = session.write_turn(&turn_report("q1", State::Whole)).expect("written");
    // Another thread, such as one that applies the changes of a job.
    write(&session, "y.txt", None, Some("y\n"));
    write(&session, "a.txt", Some("changed\n"), Some("one\ntwo\nthree\n"));
    session.publish(done.commit).expect("the branch moves");
    session.meta = meta;
    let late = |session: &Session| -> Vec<String> {
        session.draft().changes().expect("changes").iter().map(|it| it.path.display().to_string()).collect()
    };
    assert_eq!(late(&session), ["a.txt", "y.txt"]);
    assert_eq!(git(&scene.ws(), &["show", &format!("{}:a.txt", branch(&id))]), "changed");
    drop(session);
    // It is in the state directory, too.
    let mut session = scene.sessions.open(&id).expect("opened");
    assert_eq!(late(&session), ["a.txt", "y.txt"]);
    assert_eq!(turn(&mut session, "q2", "z.txt", None, Some("z\n")).files, 3);
}

#[test]
fn whoever_looks_whether_a_session_is_open_keeps_nobody_from_opening_it() {
    let scene = Scene::new();
    let id = scene.sessions.start(None, "").expect("begun").id().to_owned();
    let lock = scene.sessions.folder.join(&id).join("lock");
    let looks = crate::files::Locked::take(std::fs::File::open(lock).expect("a file"), true, std::time::Duration::ZERO);
    let looks = looks.expect("nobody has it open");
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| scene.sessions.open(&id).map(drop));
        std::thread::yield_now();
        drop(looks);
        opened.join().expect("no panic").expect("opened");
    });
    // The remains of a session that is gone are retained while they hold uncommitted changes.
    let session = scene.sessions.open(&id).expect("opened");
    write(&session, "x.txt", None, Some("x\n"));
    drop(session);
    git(&scene.ws(), &["update-ref", "-d", &branch(&id)]);
    assert_eq!(clear_up(&scene.sessions, false).expect("cleared up"), Vec::<String>::new());
    assert!(scene.sessions.folder.join(&id).join("draft/list").exists());
}

#[test]
fn a_name_that_differs_only_in_case_or_form_is_refused_to_tools_and_named_before_a_merge() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    session.begin_turn("q1").expect("begun");
    write(&session, "caf\u{e9}.txt", None, Some("x\n"));
    let refused = |changes: &[Change<'_>]| {
        session.draft().change(&Journals::new("/nonexistent".into()), changes).map_err(|it| it.error.to_string())
    };
    for (path, there) in [("A.TXT", "a.txt"), ("SRC/new.rs", "src"), ("cafe\u{301}.txt", "caf\u{e9}.txt")] {
        let error = refused(&[Change { path, old: None, new: Some(b"x") }]).expect_err("refused");
        assert!(error.starts_with(&format!("{there} is there already")), "{error}");
    }
    // A file may get its own name in another case.
    let old = Some(&b"fn b() {}\n"[..]);
    let renames = [
        Change { path: "src/b.rs", old, new: None },
        Change { path: "src/B.rs", old: None, new: Some(b"fn b() {}\n") },
    ];
    refused(&renames).expect("renamed");
    // A command can make them.
    session.draft().put(Path::new("A.TXT"), Some((Mode::File, b"x"))).expect("put");
    session.end_turn(&turn_report("q1", State::Whole)).expect("committed");
    let id = session.id().to_owned();
    let plan = plan_merge(&scene.sessions, &id, How::Squash, &scene.program()).expect("a plan");
    assert_eq!(plan.twins, [(PathBuf::from("A.TXT"), PathBuf::from("a.txt"))]);
    let checkout = crate::files::Root::open(&scene.ws(), None).expect("a root");
    let apply = plan_apply(&scene.sessions, &id, &checkout, None).expect("a plan");
    let twins: Vec<_> = apply.iter().filter_map(|it| it.twin.clone()).collect();
    assert_eq!(twins, [PathBuf::from("a.txt")]);
}

#[test]
fn undo_brings_back_files_of_turns_and_redo_takes_them_again() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let refused = |done: Result<FilesBack, SessionError>| matches!(done, Err(SessionError::Refused(_)));
    assert!(refused(session.undo_files(None)) && refused(session.redo_files()));
    turn(&mut session, "q1", "x.txt", None, Some("x\n"));
    session.begin_turn("q2").expect("begun");
    write(&session, "a.txt", Some("one\ntwo\nthree\n"), None);
    write(&session, "src/b.rs", Some("fn b() {}\n"), None);
    session.end_turn(&turn_report("q2", State::Whole)).expect("committed");
    session.edit_by_user("x.txt", Some(b"x\n"), b"mine\n").expect("edited");
    let whole = session.tip();
    let files = |session: &Session| {
        let all =
            git(&scene.ws(), &["ls-tree", "-r", "--name-only", session.reference(), "--", "a.txt", "src", "x.txt"]);
        all.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let did = |what: &str, files| FilesBack { what: what.to_owned(), files };
    assert_eq!(session.undo_files(None).expect("undone"), did("edit x.txt", 1));
    assert_eq!(session.draft().read("x.txt", 10).expect("read").bytes, b"x\n");
    assert_eq!(session.undo_files(None).expect("undone"), did("q2", 2));
    assert_eq!(files(&session), ["a.txt", "src/b.rs", "x.txt"]);
    // The conversation remains, and the next turn continues it.
    assert_eq!(session.view().records(2).expect("records").len(), 2);
    assert_eq!(session.redo_files().expect("redone"), did("q2", 2));
    assert_eq!(session.redo_files().expect("redone"), did("edit x.txt", 1));
    assert_eq!(session.tip(), whole);
    assert!(refused(session.redo_files()));
    // Changes that were undone before a turn aren't found again.
    session.undo_files(None).expect("undone");
    turn(&mut session, "q3", "z.txt", None, Some("z\n"));
    assert_eq!(session.undo_files(None).expect("undone"), did("q3", 1));
    assert_eq!(session.undo_files(None).expect("undone"), did("q2", 2));
    assert_eq!(session.undo_files(None).expect("undone"), did("q1", 1));
    assert!(refused(session.undo_files(None)));
    assert_eq!(files(&session), ["a.txt", "src/b.rs"]);
    // One file can be reverted alone, and the rest remains.
    session.edit_by_user("a.txt", Some(b"one\ntwo\nthree\n"), b"1\n").expect("edited");
    session.edit_by_user("src/b.rs", Some(b"fn b() {}\n"), b"2\n").expect("edited");
    assert_eq!(session.undo_files(Some(Path::new("a.txt"))).expect("undone"), did("edit a.txt", 1));
    assert_eq!(session.draft().read("a.txt", 100).expect("read").bytes, b"one\ntwo\nthree\n");
    assert_eq!(session.draft().read("src/b.rs", 100).expect("read").bytes, b"2\n");
    // A fork doesn't go back before the turn that it began with.
    let mut fork = scene.sessions.fork(session.id(), None).expect("forked");
    assert!(refused(fork.undo_files(None)));
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn a_session_that_was_fetched_is_looked_at_and_forked_and_not_worked_on() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "theirs").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x\n"));
    let id = session.id().to_owned();
    let clone = scene.dir.path().join("clone");
    git(scene.dir.path(), &["clone", "-q", &scene.ws().display().to_string(), "clone"]);
    let there = Sessions::at(&clone, &scene.dir.path().join("other state"), None, "tester").expect("a repository");
    assert_eq!(there.list().expect("a list"), []);
    let foreign = there.list_foreign().expect("a list");
    assert_eq!((foreign.len(), foreign[0].state(), foreign[0].fetched_from.as_deref()), (1, "foreign", Some("origin")));
    assert_eq!(there.find(short_id(&id)).expect("found"), id);
    assert_eq!(there.look(&id).expect("a look").changes().expect("changes").len(), 1);
    let is_refused = |error: Option<SessionError>| matches!(error, Some(SessionError::Foreign(..)));
    assert!(is_refused(there.open(&id).err()) && is_refused(there.abandon(&id).err()));
    assert!(is_refused(there.drop_for_good(&id).err()));
    assert!(is_refused(plan_merge(&there, &id, How::Squash, &scene.program()).err()));
    assert!(!there.folder.join(&id).exists(), "nothing is written for it");
    let mut fork = there.fork(&id, None).expect("forked");
    turn(&mut fork, "q2", "x.txt", Some("x\n"), Some("y\n"));
    assert_eq!(fork.view().records(2).expect("records").len(), 2);
    // A branch of this repository makes it one of its sessions.
    git(&clone, &["branch", "-q", &format!("reedclaw/session/{id}"), &format!("origin/reedclaw/session/{id}")]);
    assert_eq!(there.list_foreign().expect("a list"), []);
    assert_eq!(there.open(&id).expect("opened").meta().turns, 1);
}
