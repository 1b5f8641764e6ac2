//! Sessions on real repositories, with git's own program as the witness.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::Desk;
use super::*;
use crate::files::{Change, Journals, Tree};
use crate::git::{Oid, Program, Repo};

pub(super) fn git(at: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
        command.env(name, "person@example.org");
    }
    let done = command.output().expect("git runs");
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

pub(super) struct Scene {
    pub(super) dir: tempfile::TempDir,
    pub(super) sessions: Sessions,
}

impl Scene {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().join("ws");
        std::fs::create_dir_all(at.join("src")).expect("a directory");
        git(&at, &["init", "-q", "-b", "main"]);
        std::fs::write(at.join("a.txt"), "one\ntwo\nthree\n").expect("a file");
        std::fs::write(at.join("src/b.rs"), "fn b() {}\n").expect("a file");
        git(&at, &["add", "-A"]);
        git(&at, &["commit", "-q", "-m", "first"]);
        let sessions = Sessions::at(&at, &dir.path().join("state"), None, "tester").expect("a repository");
        Self { dir, sessions }
    }

    pub(super) fn ws(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    pub(super) fn program(&self) -> Program {
        let env: BTreeMap<_, _> = [
            ("PATH".into(), std::env::var_os("PATH").expect("a path")),
            ("HOME".into(), self.dir.path().as_os_str().to_owned()),
        ]
        .into();
        Program::find(&env).expect("git")
    }

    /// The parts of the checkout that a session must not change.
    fn checkout(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let ws = self.ws();
        let names =
            ["a.txt", "src/b.rs", ".git/index", ".git/HEAD", ".git/config", ".git/logs/HEAD", ".git/refs/heads/main"];
        names.iter().map(|name| (name.into(), std::fs::read(ws.join(name)).unwrap_or_default())).collect()
    }
}

pub(super) fn write(session: &Session, path: &str, old: Option<&str>, new: Option<&str>) {
    let change = Change { path, old: old.map(str::as_bytes), new: new.map(str::as_bytes) };
    session.draft().change(&Journals::new("/nonexistent".into()), &[change]).expect("changed");
}

pub(super) fn turn_report(question: &str, state: State) -> TurnReport {
    TurnReport {
        question: question.into(),
        subject: None,
        answer: format!("the answer to {question}"),
        state,
        model: Some("m".into()),
        calls: Vec::new(),
        time_ms: 1_700_000_000_000,
        tokens: [10, 2],
        cost: None,
        left_out: Vec::new(),
        doubts: Vec::new(),
    }
}

pub(super) fn turn(
    session: &mut Session,
    question: &str,
    path: &str,
    old: Option<&str>,
    new: Option<&str>,
) -> Committed {
    session.begin_turn(question).expect("begun");
    write(session, path, old, new);
    session.end_turn(&turn_report(question, State::Whole)).expect("committed")
}

/// The branch of a session.
pub(super) fn branch(id: &str) -> String {
    format!("{BRANCHES}{id}")
}

fn into(how: How, branch: &str) -> MergeWish {
    MergeWish { into: Some(branch.into()), ..how.into() }
}

#[test]
fn each_turn_is_one_commit_and_the_checkout_stays_as_it_is() {
    let scene = Scene::new();
    let before = scene.checkout();
    let mut session = scene.sessions.start(None, "a title").expect("begun");
    turn(&mut session, "make x", "x.txt", None, Some("x\n"));
    turn(&mut session, "change a", "a.txt", Some("one\ntwo\nthree\n"), Some("ONE\ntwo\nthree\n"));
    // A turn that only talks, one that fails, one that is stopped.
    for (question, state) in [("talk", State::Whole), ("fail", State::Failed), ("stop", State::Cancelled)] {
        session.begin_turn(question).expect("begun");
        session.end_turn(&turn_report(question, state)).expect("committed");
    }
    let branch = format!("reedclaw/session/{}", session.id());
    assert_eq!(git(&scene.ws(), &["rev-list", "--count", &format!("main..{branch}")]), "6");
    assert_eq!(git(&scene.ws(), &["show", &format!("{branch}:x.txt")]), "x");
    assert_eq!(git(&scene.ws(), &["log", "-1", "--format=%s", &branch]), "stop");
    let state = "%(trailers:key=ReedClaw-State,valueonly)";
    assert_eq!(git(&scene.ws(), &["log", "-1", &format!("--format={state}"), &branch]), "cancelled");
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(git(&scene.ws(), &["status", "--porcelain"]), "");
    assert_eq!(scene.checkout(), before);
    let shown = git(&scene.ws(), &["show", &format!("{branch}~3"), "--", ".", ":!.reedclaw"]);
    assert!(shown.contains("+ONE") && !shown.contains("question"), "{shown}");
}

#[test]
fn any_turn_gives_its_code_and_conversation_in_a_clone() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let mut text = None;
    for number in 1..=20 {
        let new = format!("turn {number}\n");
        turn(&mut session, &format!("question {number}"), "x.txt", text.as_deref(), Some(&new));
        text = Some(new);
    }
    let clone = scene.dir.path().join("clone");
    git(scene.dir.path(), &["clone", "-q", "--mirror", "ws", "clone"]);
    let there = Sessions::at(&clone, &scene.dir.path().join("other-state"), None, "other").expect("a repository");
    let view = there.look(session.id()).expect("found");
    for number in 1..=20 {
        let files = view.files(Some(number)).expect("files");
        assert_eq!(files.read("x.txt", 100).expect("read").bytes, format!("turn {number}\n").into_bytes());
        let records = view.records(number).expect("records");
        assert_eq!(records.len() as u64, number);
        assert_eq!(records.last().expect("one").question, format!("question {number}"));
        let next = format!(".reedclaw/sessions/{}/turns/00/{:04}.json", session.id(), number + 1);
        assert!(files.read(&next, 100_000).is_err(), "nothing of turn {}", number + 1);
    }
    let fork = there.fork(session.id(), Some(7)).expect("forked");
    assert_eq!(fork.meta().turns, 7);
    assert_eq!(fork.draft().read("x.txt", 100).expect("read").bytes, b"turn 7\n");
    assert_eq!(fork.view().records(7).expect("records"), view.records(7).expect("records"));
    assert_eq!(there.look(session.id()).expect("found").tip(), session.tip(), "the original is unchanged");
}

#[test]
fn going_back_keeps_the_tip_and_can_be_undone_after_a_restart() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    for number in 1..=4 {
        turn(&mut session, &format!("q{number}"), &format!("{number}.txt"), None, Some("x"));
    }
    let (id, tip) = (session.id().to_owned(), session.tip());
    let reference = session.rewind(2).expect("back");
    assert_eq!(scene.sessions.repo().tip(&reference), Ok(Some(tip)));
    assert_eq!((session.meta().turns, session.draft().read("3.txt", 10).is_err()), (2, true));
    drop(session);
    let mut session = scene.sessions.open(&id).expect("opened");
    session.undo().expect("undone");
    assert_eq!((session.tip(), session.meta().turns), (tip, 4));
    session.rewind(1).expect("back");
    turn(&mut session, "another way", "other.txt", None, Some("x"));
    assert!(matches!(session.undo(), Err(SessionError::Refused(_))), "turns since aren't thrown away");
    assert!(matches!(session.rewind(9), Err(SessionError::NoTurn { last: 2, .. })));
}

#[test]
fn undone_turns_can_be_redone_until_the_next_turn() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("1\n"));
    turn(&mut session, "q2", "y.txt", None, Some("2\n"));
    let (id, newest) = (session.id().to_owned(), session.tip());
    session.rewind(1).expect("back");
    let back = session.tip();
    session.undo().expect("undone");
    drop(session);
    let mut session = scene.sessions.open(&id).expect("opened");
    assert_eq!(session.tip(), newest);
    let message = session.redo().expect("done again");
    assert!(message.contains("did the rewind to turn 1 again") && session.tip() == back, "{message}");
    assert_eq!(session.meta().turns, 1);
    assert!(matches!(session.redo(), Err(SessionError::Refused(_))));
    session.undo().expect("undone");
    turn(&mut session, "q3", "z.txt", None, Some("3\n"));
    assert!(matches!(session.redo(), Err(SessionError::Refused(_))), "the session has gone on");
    assert_eq!(session.meta().turns, 3);
}

#[test]
fn hidden_sessions_are_no_branches_and_work_as_others_do() {
    let scene = Scene::new();
    let shown = scene.sessions.start(None, "a branch").expect("begun").id().to_owned();
    let sessions = scene.sessions.clone().with(Options { hides: true, ..Options::default() });
    let mut session = sessions.start(None, "hidden").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("1\n"));
    turn(&mut session, "q2", "y.txt", None, Some("2\n"));
    let id = session.id().to_owned();
    assert_eq!(session.reference(), format!("{HIDDEN}{id}"));
    session.rewind(1).expect("back");
    drop(session);
    assert_eq!(git(&scene.ws(), &["branch", "--format=%(refname:short)"]), format!("main\nreedclaw/session/{shown}"));
    let remote = scene.dir.path().join("remote");
    git(scene.dir.path(), &["init", "-q", "--bare", "remote"]);
    git(&scene.ws(), &["push", "-q", "--all", remote.to_str().expect("a path")]);
    let sent = git(&remote, &["for-each-ref", "--format=%(refname)"]);
    assert!(!sent.contains(&id) && sent.contains(&shown), "{sent}");
    // A shell with the other setting finds both, and a branch stays a branch.
    assert_eq!(scene.sessions.list().expect("a list").len(), 2);
    assert_eq!(sessions.open(&shown).expect("opened").reference(), branch(&shown));
    let mut session = scene.sessions.open(&id).expect("opened");
    session.undo().expect("undone");
    turn(&mut session, "q3", "z.txt", None, Some("3\n"));
    drop(session);
    let plan = plan_merge(&scene.sessions, &id, How::Squash, &scene.program()).expect("a plan");
    merge(&scene.sessions, &plan, true, &scene.program()).expect("merged");
    assert_eq!(git(&scene.ws(), &["ls-files"]), "a.txt\nsrc/b.rs\nx.txt\ny.txt\nz.txt");
    git(&scene.ws(), &["gc", "-q", "--prune=now"]);
    assert_eq!(scene.sessions.look(&id).expect("found").records(3).expect("records").len(), 3);
    scene.sessions.drop_for_good(&id).expect("dropped");
    assert_eq!(git(&scene.ws(), &["for-each-ref", "refs/reedclaw"]), "");
}

#[test]
fn sessions_do_not_see_each_other_and_one_shell_writes_one() {
    let scene = Scene::new();
    let mut one = scene.sessions.start(None, "one").expect("begun");
    let two = scene.sessions.start(None, "two").expect("begun");
    write(&one, "x.txt", None, Some("x"));
    assert_eq!(one.draft().read("x.txt", 10).expect("read").bytes, b"x", "a later call reads it");
    assert!(two.draft().read("x.txt", 10).is_err() && !scene.ws().join("x.txt").exists());
    one.end_turn(&turn_report("q", State::Whole)).expect("committed");
    assert!(two.draft().read("x.txt", 10).is_err());
    assert!(matches!(scene.sessions.open(one.id()), Err(SessionError::Held(..))));
    let listed = scene.sessions.list().expect("a list");
    assert_eq!((listed.len(), listed.iter().all(|it| it.is_open)), (2, true));
    let id = one.id().to_owned();
    drop(one);
    assert_eq!(scene.sessions.find("one").expect("found"), id);
    assert_eq!(scene.sessions.find(&short_id(&id)[..7]).expect("found"), id, "the beginning of what the list shows");
    scene
        .sessions
        .open(short_id(&scene.sessions.find(short_id(&id)).expect("found")))
        .expect_err("a short id is for people");
}

#[test]
fn a_shallow_clone_shows_its_newest_turns_and_goes_on_from_them() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    for number in 1..=4 {
        turn(&mut session, &format!("q{number}"), &format!("{number}.txt"), None, Some("x\n"));
    }
    let (id, clone) = (session.id().to_owned(), scene.dir.path().join("clone"));
    let (from, to) = (format!("file://{}", scene.ws().display()), clone.display().to_string());
    let branch = format!("reedclaw/session/{id}");
    git(scene.dir.path(), &["clone", "-q", "--depth", "2", "--branch", &branch, &from, &to]);
    git(&clone, &["checkout", "-q", "--detach"]);
    let sessions = Sessions::at(&clone, &scene.dir.path().join("state"), None, "tester").expect("a repository");
    let view = sessions.look(&id).expect("it is there");
    let turns: Vec<_> = view.log().expect("a log").into_iter().filter_map(|it| it.turn).collect();
    assert_eq!(turns, [4, 3]);
    assert!(matches!(view.turn(Some(1)), Err(SessionError::NoTurn { .. })));
    assert_eq!(view.record(4).expect("a record").question, "q4");
    let mut fork = sessions.fork(&id, None).expect("forked");
    turn(&mut fork, "q5", "5.txt", None, Some("x\n"));
    assert_eq!(fork.view().records(5).expect("records").len(), 5);
}

#[test]
fn a_turn_that_was_cut_off_is_found_again_or_dropped() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    session.begin_turn("what was asked").expect("begun");
    write(&session, "x.txt", None, Some("x"));
    write(&session, "src/b.rs", Some("fn b() {}\n"), None);
    let id = session.id().to_owned();
    drop(session);
    let mut session = scene.sessions.open(&id).expect("opened");
    assert_eq!(session.left(), Some(Left { question: "what was asked".into(), files: 2 }));
    assert_eq!(session.draft().read("x.txt", 10).expect("read").bytes, b"x");
    session.undo().expect("dropped");
    assert_eq!((session.left(), session.draft().is_unchanged()), (None, true));
}

#[test]
fn a_turn_that_was_cut_off_is_a_commit_before_the_next_question() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let id = session.id().to_owned();
    for (turn, cut, file) in [(1, "with a file", Some("x.txt")), (3, "without one", None)] {
        session.begin_turn(cut).expect("begun");
        file.inspect(|file| write(&session, file, None, Some("x")));
        drop(session);
        session = scene.sessions.open(&id).expect("opened");
        let notice = session.begin_turn("the next question").expect("begun").expect("told");
        assert!(notice.contains(&format!("turn {turn} was cut off")), "{notice}");
        let done = session.end_turn(&turn_report("the next question", State::Whole)).expect("committed");
        assert_eq!((done.turn, done.files), (turn + 1, 0));
        let record = session.view().record(turn).expect("a record");
        assert_eq!((record.question.as_str(), record.state.as_str()), (cut, "cut"));
        assert_eq!(session.view().changes_of(turn).expect("changes").len(), file.iter().count());
    }
    // A repeated attempt isn't a turn.
    session.begin_turn("attempt").expect("begun");
    session.forget_turn();
    assert_eq!(session.begin_turn("attempt").expect("begun"), None);
}

#[test]
fn a_crash_between_journal_and_reference_leaves_the_old_tip_or_the_new() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x"));
    let (id, old) = (session.id().to_owned(), session.tip());
    let name = branch(&id);
    turn(&mut session, "q2", "y.txt", None, Some("y"));
    let new = session.tip();
    drop(session);
    let desk = Desk::of(&scene.sessions.folder, &id);
    let reference = scene.ws().join(".git").join(&name);
    for (at, text) in [(old, format!("{old}\n")), (new, format!("{new}\n")), (new, String::new())] {
        desk.write_journal(&name, old, new).expect("written");
        std::fs::write(&reference, &text).expect("a reference");
        let session = scene.sessions.open(&id).expect("opened");
        assert_eq!(session.tip(), new, "from {at}: the journal is carried out");
        assert!(!scene.sessions.folder.join(&id).join("journal").exists());
        git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    }
    // An incomplete journal is ignored.
    std::fs::write(scene.sessions.folder.join(&id).join("journal"), format!("reedclaw-session 1\n{new}\n{old}\n"))
        .expect("a file");
    assert_eq!(scene.sessions.open(&id).expect("opened").tip(), new);
}

#[test]
fn a_branch_that_somebody_else_moves_or_deletes_loses_nothing() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x"));
    let (id, name) = (session.id().to_owned(), branch(session.id()));
    // A commit of the user's on it is adopted.
    let tree = git(&scene.ws(), &["rev-parse", &format!("{name}^{{tree}}")]);
    let theirs = git(&scene.ws(), &["commit-tree", &tree, "-p", &name, "-m", "by hand"]);
    git(&scene.ws(), &["update-ref", &name, &theirs]);
    assert!(session.begin_turn("q2").expect("begun").is_some());
    write(&session, "y.txt", None, Some("y"));
    session.end_turn(&turn_report("q2", State::Whole)).expect("committed");
    assert_eq!(git(&scene.ws(), &["log", "--format=%s", "-2", &name]), "q2\nby hand");
    // Deleted during a turn: not brought back, and the turn goes to a fork.
    session.begin_turn("q3").expect("begun");
    write(&session, "z.txt", None, Some("z"));
    git(&scene.ws(), &["update-ref", "-d", &name]);
    let tools = session.draft().clone();
    let done = session.end_turn(&turn_report("q3", State::Whole)).expect("committed");
    assert!(done.forked.is_some_and(|fork| fork != id));
    assert_eq!(scene.sessions.repo().tip(&name), Ok(None));
    assert_eq!(session.draft().read("z.txt", 10).expect("read").bytes, b"z");
    // Later changes by tools, which already have the draft, are in the fork.
    session.begin_turn("q4").expect("begun");
    let change = Change { path: "later.txt", old: None, new: Some(b"later") };
    tools.change(&Journals::new("/nonexistent".into()), &[change]).expect("changed");
    let done = session.end_turn(&turn_report("q4", State::Whole)).expect("committed");
    assert_eq!((done.files, done.forked), (1, None));
    assert_eq!(git(&scene.ws(), &["show", &format!("{}:later.txt", branch(session.id()))]), "later");
}

#[test]
fn a_branch_that_is_checked_out_is_neither_moved_nor_removed() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x"));
    let (id, name) = (session.id().to_owned(), branch(session.id()));
    // It is checked out while a turn runs: the turn goes to a fork.
    session.begin_turn("q2").expect("begun");
    write(&session, "y.txt", None, Some("y"));
    git(&scene.ws(), &["switch", "-q", name.trim_start_matches("refs/heads/")]);
    let tip = git(&scene.ws(), &["rev-parse", "HEAD"]);
    let done = session.end_turn(&turn_report("q2", State::Whole)).expect("committed");
    assert!(done.forked.is_some_and(|fork| fork != id));
    drop(session);
    let refused = |error: SessionError| {
        assert!(matches!(&error, SessionError::InUse(..)), "{error}");
        assert_eq!(
            (git(&scene.ws(), &["rev-parse", "HEAD"]), git(&scene.ws(), &["status", "--porcelain"])),
            (tip.clone(), String::new())
        );
    };
    refused(scene.sessions.drop_for_good(&id).expect_err("refused"));
    refused(scene.sessions.abandon(&id).expect_err("refused"));
    refused(scene.sessions.open(&id).expect_err("refused"));
    // The branch of an open session, and a linked work tree.
    git(&scene.ws(), &["switch", "-q", "main"]);
    let mut session = scene.sessions.open(&id).expect("opened");
    let linked = scene.dir.path().join("linked");
    git(
        &scene.ws(),
        &["worktree", "add", "-q", linked.to_str().expect("UTF-8"), name.trim_start_matches("refs/heads/")],
    );
    assert!(matches!(session.begin_turn("q3"), Err(SessionError::InUse(..))));
    assert!(matches!(session.rewind(0), Err(SessionError::InUse(..))));
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&scene.ws(), &["for-each-ref", "refs/reedclaw/kept"]).lines().count(),
        1,
        "of the turn that went to a fork"
    );
}

#[test]
fn a_turn_that_could_not_be_written_is_a_commit_before_the_next_one() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let objects = scene.ws().join(".git/objects");
    session.begin_turn("q1").expect("begun");
    write(&session, "x.txt", None, Some("x"));
    std::fs::rename(&objects, scene.dir.path().join("away")).expect("renamed");
    std::fs::write(&objects, "").expect("a file in its place");
    session.end_turn(&turn_report("q1", State::Whole)).expect_err("nothing can be written");
    std::fs::remove_file(&objects).expect("removed");
    std::fs::rename(scene.dir.path().join("away"), &objects).expect("renamed");
    session.begin_turn("q2").expect("begun");
    write(&session, "y.txt", None, Some("y"));
    let done = session.end_turn(&turn_report("q2", State::Whole)).expect("committed");
    assert_eq!((done.turn, done.files), (2, 1));
    let log = git(&scene.ws(), &["log", "--format=%s", "--name-only", "-2", &branch(session.id()), "--", "*.txt"]);
    assert_eq!(log, "q2\n\ny.txt\nq1\n\nx.txt");
}

#[test]
fn a_session_whose_newest_commit_got_another_message_goes_on() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q1", "x.txt", None, Some("x"));
    turn(&mut session, "q2", "y.txt", None, Some("y"));
    let (id, name) = (session.id().to_owned(), branch(session.id()));
    drop(session);
    let short = name.trim_start_matches("refs/heads/");
    git(&scene.ws(), &["switch", "-q", short]);
    git(&scene.ws(), &["commit", "-q", "--amend", "-m", "my words"]);
    git(&scene.ws(), &["switch", "-q", "main"]);
    let session = scene.sessions.open(&id).expect("opened");
    let records = session.view().records(session.meta().turns).expect("records");
    assert_eq!(records.iter().map(|it| &*it.question).collect::<Vec<_>>(), ["q1", "q2"]);
    drop(session);
    let found = examine(&scene.sessions, true).expect("examined");
    assert_eq!(found.len(), 1);
    assert!(found[0].what.contains("turn 2 has no commit"), "{:?}", found[0]);
    assert_eq!(examine(&scene.sessions, false).expect("examined"), []);
    assert!(scene.sessions.look(&id).expect("a view").turn(Some(2)).is_ok());
}

#[test]
fn a_merge_moves_the_target_once_and_drops_the_record() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "two files").expect("begun");
    turn(&mut session, "make x", "x.txt", None, Some("x\n"));
    turn(&mut session, "make a script", ".github/run.yml", None, Some("on: push\n"));
    let program = scene.program();
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
    assert_eq!((plan.target_name(), plan.files.len(), plan.that_run().len()), ("main", 2, 1));
    let before = scene.checkout();
    assert_eq!(scene.checkout(), before, "a plan changes nothing");
    let commit = merge(&scene.sessions, &plan, true, &program).expect("merged");
    assert_eq!(git(&scene.ws(), &["rev-parse", "main"]), commit.to_string());
    assert_eq!(
        git(&scene.ws(), &["ls-files"]),
        ".github/run.yml\na.txt\nsrc/b.rs\nx.txt",
        "no record, and the checkout has it"
    );
    assert_eq!(git(&scene.ws(), &["status", "--porcelain"]), "");
    assert!(merge(&scene.sessions, &plan, true, &program).is_err(), "a plan counts once");
    let again = plan_merge(&scene.sessions, session.id(), How::Squash, &program);
    assert!(matches!(again, Err(SessionError::Nothing(_))), "there is nothing more to merge");
}

#[test]
fn rebase_and_pick_make_a_commit_for_each_turn() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    for number in 1..=3 {
        turn(&mut session, &format!("q{number}"), &format!("{number}.txt"), None, Some("x\n"));
    }
    git(&scene.ws(), &["branch", "dev"]);
    git(&scene.ws(), &["branch", "other"]);
    let program = scene.program();
    let plan = plan_merge(&scene.sessions, session.id(), into(How::Rebase, "dev"), &program).expect("a plan");
    merge(&scene.sessions, &plan, true, &program).expect("merged");
    assert_eq!(git(&scene.ws(), &["log", "--format=%s", "-3", "dev"]), "q3\nq2\nq1");
    let plan = plan_merge(&scene.sessions, session.id(), into(How::Pick(vec![2]), "other"), &program).expect("a plan");
    merge(&scene.sessions, &plan, true, &program).expect("merged");
    assert_eq!(git(&scene.ws(), &["diff", "--name-only", "main", "other"]), "2.txt");
    // Changes that were merged and then reverted remain reverted.
    let plan = plan_merge(&scene.sessions, session.id(), into(How::Squash, "main"), &program).expect("a plan");
    let merged = merge(&scene.sessions, &plan, true, &program).expect("merged");
    note_merged(&mut session, &plan, merged).expect("noted");
    git(&scene.ws(), &["revert", "--no-edit", "HEAD"]);
    turn(&mut session, "q4", "4.txt", None, Some("x\n"));
    turn(&mut session, "q5", "5.txt", None, Some("x\n"));
    let plan = plan_merge(&scene.sessions, session.id(), into(How::Squash, "main"), &program).expect("a plan");
    let commit = merge(&scene.sessions, &plan, true, &program).expect("merged");
    let message = git(&scene.ws(), &["log", "-1", "--format=%B", &commit.to_string()]);
    assert!(
        message.contains("- q4\n- q5\n") && !message.contains("- q1") && message.contains("Turns: 4-5"),
        "{message}"
    );
    git(&scene.ws(), &["reset", "-q", "--hard", "HEAD~1"]);
    let plan = plan_merge(&scene.sessions, session.id(), into(How::Rebase, "main"), &program).expect("a plan");
    merge(&scene.sessions, &plan, true, &program).expect("merged");
    assert_eq!(git(&scene.ws(), &["ls-files"]), "4.txt\n5.txt\na.txt\nsrc/b.rs");
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn conflicts_and_local_changes_stop_a_merge_before_anything_moves() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "change a", "a.txt", Some("one\ntwo\nthree\n"), Some("session\ntwo\nthree\n"));
    let program = scene.program();
    // The user has an uncommitted change of the same file.
    std::fs::write(scene.ws().join("a.txt"), "mine\n").expect("a file");
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("a plan");
    let main = git(&scene.ws(), &["rev-parse", "main"]);
    assert!(matches!(merge(&scene.sessions, &plan, true, &program), Err(SessionError::Refused(_))));
    assert_eq!(
        (git(&scene.ws(), &["rev-parse", "main"]), std::fs::read_to_string(scene.ws().join("a.txt")).expect("a file")),
        (main, "mine\n".into())
    );
    // And then a commit that changes the same line.
    git(&scene.ws(), &["commit", "-q", "-am", "mine"]);
    let planned = plan_merge(&scene.sessions, session.id(), How::Squash, &program);
    assert!(
        matches!(planned, Err(SessionError::Conflicts(all)) if all.len() == 1 && all[0].path == Path::new("a.txt"))
    );
}

#[test]
fn a_session_begins_before_the_first_commit_and_leaves_nothing_when_it_is_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path().join("ws");
    std::fs::create_dir_all(&at).expect("a directory");
    git(&at, &["init", "-q", "-b", "main"]);
    let sessions = Sessions::at(&at, &dir.path().join("state"), None, "tester").expect("a repository");
    let mut session = sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    session.rewind(0).expect("back");
    let id = session.id().to_owned();
    drop(session);
    sessions.drop_for_good(&id).expect("dropped");
    assert_eq!(git(&at, &["for-each-ref"]), "");
    assert!(
        !dir.path()
            .join("state/sessions")
            .read_dir()
            .expect("a folder")
            .flatten()
            .any(|it| it.path().join(&id).exists())
    );
}

/// Each failed start left a session in the list.
#[test]
fn a_start_without_a_place_for_its_files_leaves_no_session() {
    let scene = Scene::new();
    let folder = &scene.sessions.folder;
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder.parent().expect("a folder")).expect("a folder");
    std::fs::write(folder, "in the way").expect("a file");
    let refused = scene.sessions.start(None, "x").expect_err("there is no place");
    assert!(matches!(refused, SessionError::Disk(..)), "{refused}");
    assert_eq!(git(&scene.ws(), &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    std::fs::remove_file(folder).expect("removed");
    assert_eq!(scene.sessions.list().expect("a list").len(), 0);
    scene.sessions.start(None, "x").expect("begun");
}

#[test]
fn a_damaged_record_is_listed_and_its_files_are_read() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x"));
    let (id, name) = (session.id().to_owned(), branch(session.id()));
    drop(session);
    let blob = git(&scene.ws(), &["hash-object", "-w", "a.txt"]);
    let path = format!(".reedclaw/sessions/{id}/session.json");
    let index = scene.dir.path().join("index");
    let in_index = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(arguments)
            .current_dir(scene.ws())
            .env("GIT_INDEX_FILE", &index)
            .output()
            .expect("git");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    };
    in_index(&["read-tree", &name]);
    in_index(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")]);
    let tree = in_index(&["write-tree"]);
    let commit = git(&scene.ws(), &["commit-tree", &tree, "-p", &name, "-m", "damage"]);
    git(&scene.ws(), &["update-ref", &name, &commit]);
    assert!(scene.sessions.list().expect("a list")[0].is_damaged);
    assert!(scene.sessions.open(&id).is_err());
    let files = scene.sessions.look(&id).expect("found").files(None).expect("files");
    assert_eq!(files.read("x.txt", 10).expect("read").bytes, b"x");
}

#[test]
fn the_model_is_an_author_and_is_named_if_its_person_wants_that() {
    let scene = Scene::new();
    let people = |name: &str| git(&scene.ws(), &["log", "-1", "--format=%an <%ae>, %cn", name]);
    let wanted = Options { is_by_model: true, names_models: true, ..Options::default() };
    for (options, is_by_model) in [(Options::default(), false), (wanted, true)] {
        let sessions = scene.sessions.clone().with(options);
        let mut session = sessions.start(None, "").expect("begun");
        let (id, reference) = (session.id().to_owned(), session.reference().to_owned());
        let own = people(&reference);
        let (_, committer) = own.split_once(", ").expect("two names");
        let expected =
            if is_by_model { format!("m via ReedClaw <noreply@localhost>, {committer}") } else { own.clone() };
        turn(&mut session, "q1", "x.txt", None, Some("x\n"));
        assert_eq!(people(&reference), expected);
        session.reword(None, "other words").expect("reworded");
        assert_eq!(people(&reference), expected, "also if the commit is made anew");
        session.edit_by_user("mine.txt", None, b"mine\n").expect("edited");
        assert_eq!(people(&reference), own, "a commit of the person's own is theirs");
        drop(session);
        let program = scene.program();
        let plan = plan_merge(&sessions, &id, How::Squash, &program).expect("planned");
        merge(&sessions, &plan, true, &program).expect("merged");
        assert!(people("main").starts_with(own.split_once(", ").expect("two names").0), "a merge is the person's");
        let message = git(&scene.ws(), &["log", "-1", "--format=%B", "main"]);
        assert_eq!(message.contains("\nAssisted-by: m via ReedClaw"), is_by_model, "{message}");
        git(&scene.ws(), &["reset", "-q", "--hard", "HEAD~1"]);
    }
}

#[test]
fn objects_of_a_turn_that_a_gc_prunes_before_the_branch_names_them_are_written_again() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    session.begin_turn("q").expect("begun");
    write(&session, "deep/x.txt", None, Some("x\n"));
    let (meta, done) = session.write_turn(&turn_report("q", State::Whole)).expect("written");
    let commit = done.commit;
    git(&scene.ws(), &["gc", "-q", "--prune=now"]);
    let is_there = |id: Oid| Repo::open(&scene.ws()).expect("a repository").has(id);
    assert!(!is_there(commit), "nothing names it");
    session.publish(commit).expect("published");
    session.meta = meta;
    assert!(is_there(commit));
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(git(&scene.ws(), &["show", &format!("{}:deep/x.txt", branch(session.id()))]), "x");
    // A content that git has already and that nothing names.
    let known = scene.dir.path().join("known");
    std::fs::write(&known, "known\n").expect("a file");
    git(&scene.ws(), &["hash-object", "-w", known.to_str().expect("a path")]);
    session.begin_turn("q2").expect("begun");
    write(&session, "known.txt", None, Some("known\n"));
    let (meta, done) = session.write_turn(&turn_report("q2", State::Whole)).expect("written");
    git(&scene.ws(), &["gc", "-q", "--prune=now"]);
    session.publish(done.commit).expect("published");
    session.meta = meta;
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    // A collection that began before the branch moved removes them after that, and the next turn writes them once more.
    let hex = done.commit.to_string();
    std::fs::remove_file(scene.ws().join(".git/objects").join(&hex[..2]).join(&hex[2..])).expect("removed");
    turn(&mut session, "q3", "deep/y.txt", None, Some("y\n"));
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
}

/// A `git gc --prune=now` removed the file that was about to become an object, and the turn wasn't committed.
#[test]
fn a_turn_is_committed_although_temporary_files_of_objects_are_removed_all_the_time() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let objects = scene.ws().join(".git/objects");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let remove = scope.spawn(|| {
            let mut removed = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for folder in std::fs::read_dir(&objects).expect("a folder").flatten() {
                    for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                        let is_temporary = file.file_name().to_string_lossy().starts_with("tmp_obj_");
                        removed += u32::from(is_temporary && std::fs::remove_file(file.path()).is_ok());
                    }
                }
            }
            removed
        });
        for number in 0..30 {
            turn(&mut session, "q", &format!("{number}.txt"), None, Some(&format!("{number}\n")));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(remove.join().expect("it ends") > 0, "none was removed");
    });
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(session.view().records(30).expect("records").len(), 30);
}

#[test]
fn a_question_to_the_person_of_one_session_is_seen_by_others() {
    let scene = Scene::new();
    let one = scene.sessions.start(None, "one").expect("begun");
    let mut two = scene.sessions.start(None, "two").expect("begun");
    let state = |id: &str| {
        let all = scene.sessions.list().expect("a list");
        let it = all.iter().find(|it| it.meta.id == id).expect("it is listed");
        (it.state(), it.asks.clone())
    };
    two.begin_turn("q").expect("begun");
    assert_eq!(state(two.id()), ("running", None));
    assert!(!scene.sessions.others_ask(one.id()));
    two.ask(Some("run make"));
    assert_eq!(state(two.id()), ("asking", Some("run make".to_owned())));
    assert!(scene.sessions.others_ask(one.id()) && !scene.sessions.others_ask(two.id()));
    two.ask(None);
    assert_eq!((state(two.id()), scene.sessions.others_ask(one.id())), (("running", None), false));
    two.ask(Some("run make"));
    let id = two.id().to_owned();
    drop(two);
    assert_eq!(state(&id), ("cut", None), "whoever asked has gone");
    assert!(!scene.sessions.others_ask(one.id()));
}

#[test]
fn a_list_says_what_a_session_changed_and_how_far_its_branch_has_moved() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    turn(&mut session, "q", "x.txt", None, Some("x\n"));
    let progress = || {
        let all = scene.sessions.list().expect("a list");
        scene.sessions.progress(&all[0]).expect("progress")
    };
    assert_eq!(progress(), (1, Some(0)));
    git(&scene.ws(), &["commit", "-q", "--allow-empty", "-m", "second"]);
    git(&scene.ws(), &["commit", "-q", "--allow-empty", "-m", "third"]);
    assert_eq!(progress(), (1, Some(2)));
    git(&scene.ws(), &["commit", "-q", "--amend", "--allow-empty", "-m", "third again"]);
    assert_eq!(progress(), (1, Some(2)));
    git(&scene.ws(), &["checkout", "-q", "--orphan", "other"]);
    git(&scene.ws(), &["commit", "-q", "-m", "made anew"]);
    git(&scene.ws(), &["branch", "-q", "-M", "main"]);
    assert_eq!(progress(), (1, None));
    session.rewind(0).expect("back");
    assert_eq!(scene.sessions.former_tips(session.id()).expect("kept").len(), 1);
}
