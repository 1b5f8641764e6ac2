//! Sessions while other processes work in the same repository: other sessions, and the user with git's own program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::tests::{Scene, git, turn, turn_report, write};
use super::*;

fn commit_on_main(scene: &Scene, text: &str) {
    std::fs::write(scene.ws().join("a.txt"), text).expect("a file");
    git(&scene.ws(), &["commit", "-q", "-am", "the user's"]);
}

/// The work of another process; without its variables it has none.
#[test]
fn the_process_that_works_at_the_same_time() {
    let Some(place) = std::env::var_os("REEDCLAW_TEST_AT").map(PathBuf::from) else { return };
    let sessions = Sessions::at(&place.join("ws"), &place.join("state"), None, "tester").expect("a repository");
    let mut session = sessions.start(None, "one of many").expect("begun");
    let mut text = None;
    for number in 1..=turns_of_each() {
        let new = format!("{number}\n");
        turn(&mut session, &format!("q{number}"), "same.txt", text.as_deref(), Some(&new));
        text = Some(new);
    }
}

/// The lock files below a directory of git's.
fn locks_below(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![top.to_owned()]);
    while let Some(at) = waiting.pop() {
        for path in std::fs::read_dir(&at).expect("a directory").flatten().map(|it| it.path()) {
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|it| it == "lock") {
                found.push(path);
            }
        }
    }
    found
}

const PROCESSES: usize = 8;
/// The turns of each: `REEDCLAW_TEST_LONG=1` has more.
fn turns_of_each() -> usize {
    if std::env::var_os("REEDCLAW_TEST_LONG").is_some() { 100 } else { 20 }
}

/// A process with a session of its own.
fn worker(scene: &Scene) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "sessions::meanwhile_tests::the_process_that_works_at_the_same_time"]);
    command.arg("--nocapture").env("REEDCLAW_TEST_AT", scene.dir.path());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
}

fn each_worker_ended_well(children: Vec<Child>) {
    for child in children {
        let ended = child.wait_with_output().expect("ended");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

/// All records of all sessions, and all that their commits have, can be read.
fn no_turn_is_lost(scene: &Scene, processes: usize) {
    let all = scene.sessions.list().expect("a list");
    assert_eq!(all.len(), processes);
    for listed in &all {
        assert_eq!((listed.meta.turns, listed.is_open), (turns_of_each() as u64, false));
        let records =
            scene.sessions.look(&listed.meta.id).expect("found").records(turns_of_each() as u64).expect("records");
        assert_eq!(records.len(), turns_of_each());
    }
}

/// Statement 16.
#[test]
fn several_processes_work_in_one_repository_and_lose_no_turn() {
    let scene = Scene::new();
    let children: Vec<_> = (0..PROCESSES).map(|_| worker(&scene)).collect();
    // The user works meanwhile.
    for number in 0..10 {
        commit_on_main(&scene, &format!("{number}\n"));
        // It may stop because a reference moves just now; what matters is what it does to the sessions.
        let collected = Command::new("git").args(["gc", "-q"]).current_dir(scene.ws()).stderr(Stdio::null()).status();
        collected.expect("git runs");
    }
    each_worker_ended_well(children);
    no_turn_is_lost(&scene, PROCESSES);
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(git(&scene.ws(), &["rev-list", "--count", "main"]), "11");
    assert_eq!(locks_below(&scene.ws().join(".git")), Vec::<PathBuf>::new());
}

/// Removes the files of the objects that these commits have and older ones haven't.
fn remove_loose(scene: &Scene, revisions: &str) {
    let list = git(&scene.ws(), &["rev-list", "--objects", revisions]);
    for line in list.lines() {
        let id = line.split(' ').next().unwrap_or_default();
        let _ = std::fs::remove_file(scene.ws().join(".git/objects").join(&id[..2]).join(&id[2..]));
    }
}

/// Statement 17: a collection that began before the branch had moved knows nothing of the turns since, and removes them one after the other.
#[test]
fn turns_that_a_running_collection_removes_are_written_again_before_and_while_the_next_one_is_committed() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    std::fs::write(scene.ws().join(".git/gc.pid"), "1 here").expect("a file");
    let first = session.tip();
    for number in 1..=3 {
        turn(&mut session, "q", &format!("{number}.txt"), None, Some("x\n"));
    }
    let since = format!("{first}..{}", session.reference());
    remove_loose(&scene, &since);
    session.begin_turn("q").expect("begun");
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    write(&session, "4.txt", None, Some("x\n"));
    remove_loose(&scene, &since);
    session.end_turn(&turn_report("q", State::Whole)).expect("committed");
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(session.view().records(4).expect("records").len(), 4);
    // Without a collection nothing but the newest is held.
    std::fs::remove_file(scene.ws().join(".git/gc.pid")).expect("removed");
    turn(&mut session, "q", "5.txt", None, Some("x\n"));
    assert_eq!(session.unnamed.all.lock().len(), 1);
}

/// The user's next command needs them, and there may be no next turn.
#[test]
fn what_a_collection_has_removed_is_there_again_when_it_has_ended() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let (first, note) = (session.tip(), scene.ws().join(".git/gc.pid"));
    std::fs::write(&note, format!("{} here", std::process::id())).expect("a file");
    turn(&mut session, "q", "1.txt", None, Some("x\n"));
    remove_loose(&scene, &format!("{first}..{}", session.reference()));
    std::fs::remove_file(&note).expect("removed");
    let is_whole = || {
        let tree = format!("{}^{{tree}}", session.tip());
        Command::new("git").args(["cat-file", "-e", &tree]).current_dir(scene.ws()).stderr(Stdio::null()).status()
    };
    let began = std::time::Instant::now();
    while !is_whole().expect("git runs").success() {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "the tree isn't there");
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    // The note of a collection that was killed keeps nobody waiting.
    std::fs::write(&note, format!("{} here", u32::MAX)).expect("a file");
    assert!(!scene.sessions.repo.has_running_collection() && scene.sessions.repo.is_collecting());
}
