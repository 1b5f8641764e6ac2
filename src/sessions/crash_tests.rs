//! The process is killed at every point of every operation, or the power fails there, and the next one must find the old state or
//! the new one, with no message or file lost. Each test starts this test program again, as the process that is killed.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::tests::{Scene, git, turn, turn_report, write};
use super::untouched_tests::of_another_kind;
use super::*;
use crate::files::{Change, Journals, Tree};
use crate::git::fault::power_tests::{Cut, Disk, NOTES};
use crate::git::fault::{END_AT, FULL_AT};
use crate::git::{Oid, Program};

/// The variables that define the work of a process that is to be killed.
const WORK: &str = "REEDCLAW_TEST_WORK";
const PLACE: &str = "REEDCLAW_TEST_PLACE";
/// More points than any operation has.
const POINTS_MAX: u64 = 400;
/// Number of times that each point is tried if `REEDCLAW_TEST_LONG` is set: the order of concurrent writes differs each time.
const LONG_ROUNDS: u64 = 100;

fn sessions_at(place: &Path) -> Sessions {
    Sessions::at(&place.join("ws"), &place.join("state"), None, "tester").expect("a repository")
}

fn program(place: &Path) -> Program {
    let path = std::env::var_os("PATH").expect("a path");
    Program::find(&[("PATH".into(), path), ("HOME".into(), place.as_os_str().to_owned())].into()).expect("git")
}

/// Logs the progress of the process for the test.
fn tell(place: &Path, word: &str) {
    let file = std::fs::File::options().append(true).create(true).open(place.join("log"));
    writeln!(file.expect("a file"), "{word}").expect("written");
}

/// The work of the process that is killed; without its variables it has none. The other tests here start it.
#[test]
fn the_process_that_is_killed() {
    let (Ok(work), Some(place)) = (std::env::var(WORK), std::env::var_os(PLACE).map(PathBuf::from)) else { return };
    let sessions = sessions_at(&place);
    let id = sessions.list().expect("a list").first().map(|it| it.meta.id.clone()).unwrap_or_default();
    match &*work {
        "start" => drop(sessions.start(None, "new").expect("begun")),
        "turn" => {
            let mut session = sessions.open(&id).expect("opened");
            session.begin_turn("the question").expect("begun");
            tell(&place, "asked");
            write(&session, "x.txt", None, Some("x\n"));
            tell(&place, "x.txt");
            write(&session, "y.txt", None, Some("y\n"));
            tell(&place, "y.txt");
            session.end_turn(&turn_report("the question", State::Whole)).expect("committed");
            tell(&place, "committed");
        }
        "approve" => {
            let mut session = sessions.open(&id).expect("opened");
            session.begin_turn("the question").expect("begun");
            tell(&place, "asked");
            write(&session, "x.txt", None, Some("x\n"));
            tell(&place, "x.txt");
            session.commit_so_far().expect("committed").expect("something");
            tell(&place, "so far");
            session.note_approval("a command").expect("committed").expect("something");
            tell(&place, "approved");
            write(&session, "y.txt", None, Some("y\n"));
            tell(&place, "y.txt");
            session.end_turn(&turn_report("the question", State::Whole)).expect("committed");
            tell(&place, "committed");
        }
        "turn while the disk becomes full" => {
            let mut session = sessions.open(&id).expect("opened");
            if session.begin_turn("the question").is_err() {
                return tell(&place, "refused");
            }
            tell(&place, "asked");
            let journals = Journals::new("/nonexistent".into());
            for path in ["x.txt", "y.txt"] {
                let change = Change { path, old: None, new: Some(b"new\n") };
                let done = session.draft().change(&journals, &[change]);
                tell(&place, if done.is_ok() { path } else { "refused" });
            }
            let (tip, held) = (session.tip(), session.draft().changes().expect("changes"));
            match session.end_turn(&turn_report("the question", State::Whole)) {
                Ok(_) => tell(&place, "committed"),
                // The turn continues in memory: the tip hasn't moved, and the draft is complete.
                Err(error) => {
                    assert!(matches!(error, SessionError::Git(_) | SessionError::Disk(..)), "{error}");
                    assert_eq!((session.tip(), session.draft().changes().expect("changes")), (tip, held));
                    tell(&place, "refused");
                }
            }
        }
        "rewind" => drop(sessions.open(&id).expect("opened").rewind(1).expect("back")),
        "undo" => drop(sessions.open(&id).expect("opened").undo().expect("undone")),
        "fork" => drop(sessions.fork(&id, Some(1)).expect("forked")),
        "abandon" => drop(sessions.abandon(&id).expect("abandoned")),
        "drop" => sessions.drop_for_good(&id).expect("dropped"),
        "merge" => {
            let plan = plan_merge(&sessions, &id, How::Squash, &program(&place)).expect("a plan");
            let commit = merge(&sessions, &plan, true, &program(&place)).expect("merged");
            note_merged(&mut sessions.open(&id).expect("opened"), &plan, commit).expect("noted");
        }
        other => panic!("{other} is no work"),
    }
    tell(&place, "done");
}

/// A repository with a session of two turns.
fn prepared() -> (Scene, String) {
    prepared_in(Scene::new())
}

/// The same in a repository whose references are in tables.
fn prepared_in_tables() -> (Scene, String) {
    let mut scene = Scene::new();
    of_another_kind(&scene, &["--ref-format=reftable"]);
    scene.sessions = sessions_at(scene.dir.path());
    prepared_in(scene)
}

fn prepared_in(scene: Scene) -> (Scene, String) {
    let mut session = scene.sessions.start(None, "a title").expect("begun");
    turn(&mut session, "q1", "one.txt", None, Some("1\n"));
    turn(&mut session, "q2", "two.txt", None, Some("2\n"));
    let id = session.id().to_owned();
    drop(session);
    (scene, id)
}

/// A fresh copy of a scene, numbered.
fn copy_of(scene: &Scene, copies: &Path, number: u64) -> PathBuf {
    let place = copies.join(number.to_string());
    let copied = Command::new("cp").arg("-a").arg(scene.dir.path()).arg(&place).status().expect("cp runs");
    assert!(copied.success());
    // The state of a repository is in a directory whose name is made from the repository's place.
    let (was, is) = (&scene.sessions.folder, sessions_at(&place).folder);
    if let Ok(was) = was.strip_prefix(scene.dir.path())
        && was != is.strip_prefix(&place).expect("below")
        && place.join(was).exists()
    {
        std::fs::rename(place.join(was), is).expect("renamed");
    }
    place
}

/// A process that does `work` in a copy.
fn process(work: &str, place: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "sessions::crash_tests::the_process_that_is_killed", "--test-threads", "1"]);
    command.env(WORK, work).env(PLACE, place).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Does `work` in a process that is killed at one point after the other, each time in a fresh copy of `scene`, and calls `check`
/// with the result: the place, the log, and whether the work was done. Returns the number of points.
fn killed_everywhere(scene: &Scene, work: &str, check: &dyn Fn(&Path, &str, bool)) -> u64 {
    let rounds = if std::env::var_os("REEDCLAW_TEST_LONG").is_some() { LONG_ROUNDS } else { 1 };
    (0..rounds).map(|_| cut_everywhere(scene, work, None, check)).min().unwrap_or(0)
}

/// The same, and if there is a `cut`, the disk loses unsynced writes with the process.
fn cut_everywhere(scene: &Scene, work: &str, cut: Option<Cut>, check: &dyn Fn(&Path, &str, bool)) -> u64 {
    let copies = crate::git::in_memory();
    for point in 1..POINTS_MAX {
        let place = copy_of(scene, copies.path(), point);
        let (disk, notes) = (cut.map(|cut| (Disk::of(&place), cut)), copies.path().join(format!("notes {point}")));
        std::fs::create_dir(&notes).expect("a folder");
        let mut command = process(work, &place);
        let ended = command.env(END_AT, point.to_string()).env(NOTES, &notes).output().expect("started");
        let log = std::fs::read_to_string(place.join("log")).unwrap_or_default();
        let is_done = log.lines().last() == Some("done");
        assert!(
            if is_done { ended.status.success() } else { ended.status.signal() == Some(9) },
            "{work} at point {point}: {:?} {}",
            ended.status,
            String::from_utf8_lossy(&ended.stderr)
        );
        if let Some((disk, cut)) = disk {
            disk.cut(&notes, cut);
        }
        check(&place, &log, is_done);
        git(&place.join("ws"), &["fsck", "--strict", "--no-dangling"]);
        assert_eq!(git(&place.join("ws"), &["status", "--porcelain"]), "", "{work} at point {point}");
        std::fs::remove_dir_all(&place).expect("removed");
        if is_done {
            return point - 1;
        }
    }
    panic!("{work} has more than {POINTS_MAX} points");
}

/// The session works after a crash: nothing waits to be repaired, and a turn goes through.
fn works(place: &Path, id: &str) {
    let sessions = sessions_at(place);
    let mut session = sessions.open(id).expect("opened");
    let desk = sessions.folder.join(id);
    assert!(!desk.join("journal").exists(), "the journal is settled");
    // An interrupted turn counts as a turn.
    let left = session.left();
    let before = session.meta().turns + u64::from(left.is_some());
    turn(&mut session, "afterwards", "after.txt", None, Some("after\n"));
    assert_eq!((session.meta().turns, session.left()), (before + 1, None));
    if let Some(left) = left {
        let record = session.view().record(before).expect("a record");
        assert_eq!((record.question, record.state.as_str()), (left.question, "cut"));
    }
    drop(session);
    assert_eq!(examine(&sessions, false).expect("examined"), [], "there is nothing left to say after one start");
}

#[test]
fn a_start_is_there_or_not() {
    let scene = Scene::new();
    let points = killed_everywhere(&scene, "start", &|place, _, is_done| {
        let all = sessions_at(place).list().expect("a list");
        assert!(all.len() == 1 || all.is_empty() && !is_done);
        all.iter().for_each(|it| works(place, &it.meta.id));
    });
    assert!(points >= 8, "{points} points");
}

#[test]
fn a_turn_is_committed_or_its_draft_is_found() {
    a_turn_loses_nothing(prepared());
}

#[test]
fn a_turn_is_committed_or_its_draft_is_found_where_references_are_in_tables() {
    a_turn_loses_nothing(prepared_in_tables());
}

/// A turn that is killed at each point.
fn a_turn_loses_nothing((scene, id): (Scene, String)) {
    let old = scene.sessions.look(&id).expect("found").tip();
    let points = killed_everywhere(&scene, "turn", &|place, log, _| {
        let session = sessions_at(place).open(&id).expect("opened");
        let parents = session.sessions().repo().commit(session.tip()).expect("a commit").parents;
        assert!(session.tip() == old || session.meta().turns == 3 && parents == [old], "the old tip or the new one");
        let is_committed = session.tip() != old;
        assert!(is_committed || !log.contains("committed"), "a turn that was reported is there");
        for name in ["x.txt", "y.txt"].iter().filter(|name| log.contains(**name)) {
            assert!(session.draft().read(name, 10).is_ok(), "{name} was written, so it is there");
        }
        match session.left() {
            Some(left) => assert!(!is_committed && left.question == "the question"),
            None => assert!(is_committed || !log.contains("asked"), "the question was noted"),
        }
        if is_committed {
            assert_eq!(session.view().record(3).expect("a record").question, "the question");
        }
        drop(session);
        works(place, &id);
    });
    assert!(points >= 25, "{points} points");
}

#[test]
fn a_turn_with_an_approval_in_its_middle_loses_neither_its_files_nor_the_yes() {
    let (scene, id) = prepared();
    let old = scene.sessions.look(&id).expect("found").tip();
    let points = killed_everywhere(&scene, "approve", &|place, log, _| {
        let session = sessions_at(place).open(&id).expect("opened");
        let commits = git(&place.join("ws"), &["log", "--format=%s", &format!("{old}..{}", session.tip())]);
        assert!(commits.contains("approve: a command") || !log.contains("approved"), "{log}: {commits}");
        for name in ["x.txt", "y.txt"].iter().filter(|name| log.contains(**name)) {
            assert!(session.draft().read(name, 10).is_ok(), "{name} was written, so it is there");
        }
        let is_committed = session.meta().turns == 3;
        assert!(is_committed || !log.contains("committed"), "a turn that was reported is there");
        assert!(is_committed || session.left().is_some() || !log.contains("asked"), "the question was noted");
        drop(session);
        works(place, &id);
    });
    assert!(points >= 60, "{points} points");
}

#[test]
fn a_turn_on_a_full_disk_is_refused_and_loses_nothing() {
    refused_at_each_write("");
}

#[test]
fn a_turn_on_a_damaged_disk_is_refused_and_loses_nothing() {
    refused_at_each_write(" damaged");
}

/// Runs a turn in which each write fails once; `how` is the last part of the value that selects this.
fn refused_at_each_write(how: &str) {
    let (scene, id) = prepared();
    let old = scene.sessions.look(&id).expect("found").tip();
    let copies = crate::git::in_memory();
    for write in 1.. {
        let place = copy_of(&scene, copies.path(), write);
        let mut command = process("turn while the disk becomes full", &place);
        let ended = command.env(FULL_AT, format!("{write}{how}")).output().expect("started");
        assert!(ended.status.success(), "write {write}: {}", String::from_utf8_lossy(&ended.stderr));
        let log = std::fs::read_to_string(place.join("log")).expect("told");
        let session = sessions_at(&place).open(&id).expect("opened");
        let is_committed = session.tip() != old;
        assert_eq!(is_committed, log.contains("committed"), "write {write}: what was refused isn't committed");
        for name in ["x.txt", "y.txt"].iter().filter(|name| log.contains(**name)) {
            assert!(session.draft().read(name, 10).is_ok(), "write {write}: {name} was written, so it is there");
        }
        assert!(is_committed || session.left().is_some() || !log.contains("asked"), "write {write}");
        drop(session);
        git(&place.join("ws"), &["fsck", "--strict", "--no-dangling"]);
        assert_eq!(git(&place.join("ws"), &["count-objects", "-v"]).lines().last(), Some("size-garbage: 0"));
        works(&place, &id);
        if !log.contains("refused") {
            assert!(write > 20, "{write} writes");
            return;
        }
    }
}

/// Returns whether a tip of the session can still be reached by a name.
fn is_reachable(place: &Path, id: &str, tip: Oid) -> bool {
    let sessions = sessions_at(place);
    let references = sessions.repo().refs(KEPT).expect("references");
    sessions.look(id).expect("found").tip() == tip || references.iter().any(|(_, it)| *it == tip)
}

#[test]
fn a_rewind_and_its_undo_are_done_or_not_and_both_tips_are_kept() {
    for (scene, id) in [prepared(), prepared_in_tables()] {
        let old = scene.sessions.look(&id).expect("found").tip();
        for work in ["rewind", "undo"] {
            if work == "undo" {
                scene.sessions.open(&id).expect("opened").rewind(1).expect("back");
            }
            let points = killed_everywhere(&scene, work, &|place, _, _| {
                assert!(is_reachable(place, &id, old));
                assert!([1, 2].contains(&sessions_at(place).open(&id).expect("opened").meta().turns));
                works(place, &id);
            });
            assert!(points >= 4, "{work} has {points} points");
        }
    }
}

#[test]
fn a_fork_is_there_or_not_and_the_original_stays() {
    let (scene, id) = prepared();
    let old = scene.sessions.look(&id).expect("found").tip();
    killed_everywhere(&scene, "fork", &|place, _, is_done| {
        let sessions = sessions_at(place);
        assert_eq!(sessions.look(&id).expect("found").tip(), old);
        let all = sessions.list().expect("a list");
        assert!(all.len() == 2 || all.len() == 1 && !is_done);
        all.iter().for_each(|it| works(place, &it.meta.id));
    });
}

#[test]
fn a_session_that_is_abandoned_or_dropped_is_whole_or_gone() {
    let (scene, id) = prepared();
    let old = scene.sessions.look(&id).expect("found").tip();
    killed_everywhere(&scene, "abandon", &|place, _, _| {
        let sessions = sessions_at(place);
        let references = sessions.repo().refs(KEPT).expect("references");
        let is_listed = !sessions.list().expect("a list").is_empty();
        assert!(is_listed || references.iter().any(|(_, tip)| *tip == old));
        if is_listed {
            works(place, &id);
        }
    });
    killed_everywhere(&scene, "drop", &|place, _, _| {
        // Dropping it once more completes the interrupted operation.
        let sessions = sessions_at(place);
        sessions.drop_for_good(&id).expect("dropped");
        assert_eq!(git(&place.join("ws"), &["for-each-ref", "refs/heads/reedclaw", "refs/reedclaw"]), "");
        assert!(!sessions.folder.join(&id).exists());
    });
}

#[test]
fn a_merge_moves_the_branch_at_once_or_not_at_all() {
    let (scene, id) = prepared();
    let old = git(&scene.ws(), &["rev-parse", "main"]);
    killed_everywhere(&scene, "merge", &|place, _, is_done| {
        let ws = place.join("ws");
        let now = git(&ws, &["rev-parse", "main"]);
        let is_merged = now != old;
        assert!(is_merged || !is_done);
        assert_eq!(ws.join("two.txt").exists(), is_merged, "the checkout is where its branch is");
        works(place, &id);
        // The remains of the plan in the state directory don't affect the next one.
        let planned = plan_merge(&sessions_at(place), &id, How::Squash, &program(place));
        planned.expect("a plan");
    });
}

/// All states in which a power failure can leave unsynced files.
const CUTS: [Cut; 4] = [Cut::Nothing, Cut::Empty, Cut::Zeros, Cut::Half];

/// Opens the session after a power failure: its tip is one of `tips`, all of it can be read, and it works.
fn works_after_cut(place: &Path, id: &str, what: &str) -> Oid {
    let sessions = sessions_at(place).mend();
    let session = sessions.open(id).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (tip, turns) = (session.tip(), session.meta().turns);
    assert_eq!(session.view().records(turns).expect("records").len() as u64, turns, "{what}");
    for reference in [BRANCHES, HIDDEN, KEPT] {
        assert_eq!(sessions.repo().torn_below(reference), Vec::<String>::new(), "{what}");
    }
    drop(session);
    works(place, id);
    tip
}

#[test]
fn a_power_cut_takes_no_turn_that_was_reported() {
    let (scene, id) = prepared();
    let old = scene.sessions.look(&id).expect("found").tip();
    for cut in CUTS {
        let points = cut_everywhere(&scene, "turn", Some(cut), &|place, log, is_done| {
            let what = format!("{cut:?}, {log:?}");
            let tip = works_after_cut(place, &id, &what);
            let view = View::new(sessions_at(place).repo().clone(), id.clone(), tip);
            let parents = sessions_at(place).repo().commit(tip).expect("a commit").parents;
            assert!(tip == old || parents == [old], "{what}: the old tip, the new one, or the turn that was cut off");
            let is_reported = log.contains("committed") || is_done;
            if is_reported {
                assert_eq!(view.record(3).expect("a record").question, "the question", "{what}");
                let files = view.files_at(tip).expect("files");
                assert_eq!(files.read("y.txt", 10).expect("a file").bytes, b"y\n", "{what}");
            }
        });
        assert!(points >= 40, "{points} points");
    }
}

#[test]
fn a_power_cut_leaves_operations_done_or_not_done() {
    let (scene, id) = prepared();
    let old = scene.sessions.look(&id).expect("found").tip();
    for cut in CUTS {
        for work in ["rewind", "fork"] {
            cut_everywhere(&scene, work, Some(cut), &|place, log, is_done| {
                let what = format!("{work}, {cut:?}, {log:?}");
                let all = sessions_at(place).mend().list().expect("a list");
                assert!(!is_done || work != "fork" || all.len() == 2, "{what}");
                let tip = works_after_cut(place, &id, &what);
                let references = sessions_at(place).repo().refs(KEPT).expect("references");
                assert!(tip == old || work == "rewind" && references.iter().any(|(_, it)| *it == old), "{what}");
                assert!(!is_done || (tip != old) == (work == "rewind"), "{what}");
            });
        }
        cut_everywhere(&scene, "start", Some(cut), &|place, log, is_done| {
            let all = sessions_at(place).mend().list().expect("a list");
            assert!(all.len() == 2 || all.len() == 1 && !is_done, "{cut:?}, {log:?}");
            for it in all {
                works_after_cut(place, &it.meta.id, &format!("start, {cut:?}"));
            }
        });
    }
}

#[test]
fn a_power_cut_leaves_a_rewind_undone_or_not_and_both_tips_are_there() {
    let (scene, id) = prepared();
    let newest = scene.sessions.look(&id).expect("found").tip();
    scene.sessions.open(&id).expect("opened").rewind(1).expect("back");
    let before = scene.sessions.look(&id).expect("found").tip();
    for cut in CUTS {
        cut_everywhere(&scene, "undo", Some(cut), &|place, log, is_done| {
            let what = format!("{cut:?}, {log:?}");
            let tip = works_after_cut(place, &id, &what);
            assert!(tip == newest || tip == before && !is_done, "{what}");
            let references = sessions_at(place).repo().refs(KEPT).expect("references");
            assert!(tip == newest || references.iter().any(|(_, it)| *it == newest), "{what}");
        });
    }
}

#[test]
fn a_power_cut_leaves_an_abandoned_session_listed_or_kept() {
    let (scene, id) = prepared();
    let old = scene.sessions.look(&id).expect("found").tip();
    for cut in CUTS {
        cut_everywhere(&scene, "abandon", Some(cut), &|place, log, is_done| {
            let what = format!("{cut:?}, {log:?}");
            let sessions = sessions_at(place).mend();
            let references = sessions.repo().refs(KEPT).expect("references");
            if sessions.list().expect("a list").is_empty() {
                assert!(references.iter().any(|(_, tip)| *tip == old), "{what}");
            } else {
                assert!(!is_done, "{what}");
                assert_eq!(works_after_cut(place, &id, &what), old, "{what}");
            }
        });
    }
}

/// The branch is checked out nowhere: in a checkout git's own program moves it, and its syncs aren't recorded here.
#[test]
fn a_power_cut_leaves_a_branch_merged_into_or_as_it_was() {
    let (scene, id) = prepared();
    git(&scene.ws(), &["checkout", "-q", "-b", "elsewhere"]);
    let old = git(&scene.ws(), &["rev-parse", "main"]);
    let tip = scene.sessions.look(&id).expect("found").tip();
    for cut in CUTS {
        cut_everywhere(&scene, "merge", Some(cut), &|place, log, is_done| {
            let (what, ws) = (format!("{cut:?}, {log:?}"), place.join("ws"));
            drop(sessions_at(place).mend());
            let now = git(&ws, &["rev-parse", "main"]);
            assert!(now != old || !is_done, "{what}");
            if now != old {
                assert_eq!(git(&ws, &["show", "main:two.txt"]), "2", "{what}");
                assert_eq!(git(&ws, &["rev-parse", "main~"]), old, "{what}");
            }
            let found = works_after_cut(place, &id, &what);
            let parents = sessions_at(place).repo().commit(found).expect("a commit").parents;
            assert!(found == tip || parents.first() == Some(&tip), "{what}: the old tip, or the note of the merge");
            assert!(found != tip || !is_done, "{what}");
        });
    }
}

#[test]
fn a_power_cut_while_a_session_is_dropped_takes_no_other_packed_reference() {
    let (scene, id) = prepared();
    git(&scene.ws(), &["branch", "other"]);
    git(&scene.ws(), &["tag", "-a", "-m", "a tag", "v1"]);
    git(&scene.ws(), &["pack-refs", "--all"]);
    let others = |ws: &Path| git(ws, &["for-each-ref", "refs/heads/main", "refs/heads/other", "refs/tags"]);
    let before = others(&scene.ws());
    for cut in CUTS {
        cut_everywhere(&scene, "drop", Some(cut), &|place, log, _| {
            let ws = place.join("ws");
            assert_eq!(others(&ws), before, "{cut:?}, {log:?}");
            let sessions = sessions_at(place).mend();
            sessions.drop_for_good(&id).expect("dropped");
            assert_eq!(git(&ws, &["for-each-ref", "refs/heads/reedclaw", "refs/reedclaw"]), "");
            git(&ws, &["pack-refs", "--all"]);
            assert_eq!(others(&ws), before, "{cut:?}, {log:?}");
        });
    }
}
