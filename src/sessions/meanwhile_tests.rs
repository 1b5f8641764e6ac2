//! Sessions while other processes work in the same repository: other sessions, and the user with git's own program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::tests::{Scene, git, turn};
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
    // One in the background would still be at work when the objects are checked.
    git(&scene.ws(), &["config", "gc.auto", "0"]);
    let children: Vec<_> = (0..PROCESSES).map(|_| worker(&scene)).collect();
    // The user works at the same time.
    for number in 0..10 {
        commit_on_main(&scene, &format!("{number}\n"));
        // It may stop because a reference is moving; only its effect on the sessions matters.
        let collected = Command::new("git").args(["gc", "-q"]).current_dir(scene.ws()).stderr(Stdio::null()).status();
        collected.expect("git runs");
    }
    each_worker_ended_well(children);
    no_turn_is_lost(&scene, PROCESSES);
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(git(&scene.ws(), &["rev-list", "--count", "main"]), "11");
    assert_eq!(locks_below(&scene.ws().join(".git")), Vec::<PathBuf>::new());
}

/// Statement 17: the user constantly commits, rebases, deletes branches and immediately removes unreferenced objects.
#[test]
fn a_loop_of_commits_rebases_and_collections_disturbs_no_session_and_none_disturbs_it() {
    const SESSIONS: usize = 2;
    let (scene, mut number) = (Scene::new(), 0);
    let ws = scene.ws();
    git(&ws, &["config", "gc.auto", "0"]);
    let mut children: Vec<_> = (0..SESSIONS).map(|_| worker(&scene)).collect();
    while children.iter_mut().any(|it| it.try_wait().expect("its state").is_none()) {
        number += 1;
        commit_on_main(&scene, &format!("{number}\n"));
        git(&ws, &["switch", "-q", "-c", "topic", "main~1"]);
        std::fs::write(ws.join("topic.txt"), format!("{number}\n")).expect("a file");
        git(&ws, &["add", "topic.txt"]);
        git(&ws, &["commit", "-q", "-m", "a topic"]);
        git(&ws, &["rebase", "-q", "main"]);
        git(&ws, &["switch", "-q", "main"]);
        git(&ws, &["branch", "-q", "-D", "topic"]);
        git(&ws, &["gc", "-q", "--prune=now"]);
    }
    each_worker_ended_well(children);
    no_turn_is_lost(&scene, SESSIONS);
    git(&ws, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(git(&ws, &["rev-list", "--count", "main"]), (number + 1).to_string());
    assert_eq!(locks_below(&ws.join(".git")), Vec::<PathBuf>::new());
}

/// Writes the note of a running `git gc` into git's directory.
fn note_of_collection(scene: &Scene, pid: u32, host: &str) {
    std::fs::write(scene.ws().join(".git/gc.pid"), format!("{pid} {host}")).expect("a file");
}

/// Statement 17: a collection that began before the branch had moved knows nothing of the turns since. It removes their loose files
/// and not the packs that came after it had begun.
#[test]
fn turns_that_a_running_collection_does_not_know_are_in_packs() {
    let scene = Scene::new();
    let mut session = scene.sessions.start(None, "").expect("begun");
    let first = session.tip();
    note_of_collection(&scene, 1, "elsewhere");
    for number in 1..=3 {
        turn(&mut session, "q", &format!("{number}.txt"), None, Some("x\n"));
    }
    let other = scene.sessions.start(None, "another").expect("begun");
    for revisions in [format!("{first}..{}", session.reference()), format!("main..{}", other.reference())] {
        for line in git(&scene.ws(), &["rev-list", "--objects", &revisions]).lines() {
            let id = line.split(' ').next().unwrap_or_default();
            let _ = std::fs::remove_file(scene.ws().join(".git/objects").join(&id[..2]).join(&id[2..]));
        }
    }
    let program = scene.program();
    git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    let again = Sessions::at(&scene.ws(), &scene.dir.path().join("state"), None, "tester").expect("a repository");
    assert_eq!(again.look(session.id()).expect("found").records(3).expect("records").len(), 3);
    let packs = || std::fs::read_dir(scene.ws().join(".git/objects/pack")).expect("a folder").count();
    let before = packs();
    let plan = plan_merge(&scene.sessions, session.id(), How::Squash, &program).expect("planned");
    merge(&scene.sessions, &plan, true, &program).expect("merged");
    assert!(packs() > before, "the merge is in one as well");
    // Without a collection nothing but the newest is held, and there are no further packs.
    std::fs::remove_file(scene.ws().join(".git/gc.pid")).expect("removed");
    let before = packs();
    turn(&mut session, "q", "4.txt", None, Some("x\n"));
    assert_eq!((scene.sessions.repo.held(), packs()), (1, before));
}

#[test]
fn the_note_of_a_collection_that_was_killed_does_not_count() {
    let scene = Scene::new();
    let (own, is_collecting) = (crate::host::host_name().expect("a name"), || scene.sessions.repo.is_collecting());
    assert!(!is_collecting());
    note_of_collection(&scene, std::process::id(), &own);
    assert!(is_collecting());
    note_of_collection(&scene, u32::MAX, &own);
    assert!(!is_collecting());
    note_of_collection(&scene, u32::MAX, "elsewhere");
    assert!(is_collecting(), "nobody knows what runs on another machine");
    let note = std::fs::File::options().write(true).open(scene.ws().join(".git/gc.pid")).expect("a file");
    let begun = std::time::UNIX_EPOCH + std::time::Duration::from_hours(1);
    note.set_modified(begun).expect("set");
    assert!(!is_collecting(), "git itself believes such a note for twelve hours");
}
