//! Maintenance of sessions: damaged records, and data that isn't needed any more.

use std::path::{Path, PathBuf};

use super::disk::{Desk, is_whole, left_over};
use super::history::record_path;
use super::wire::{self, Meta, TurnFile};
use super::{KEPT, SessionError, Sessions, View, names, short_id, turn};
use crate::git::{Oid, TreeEdit, short};
use crate::host::now_unix_ms;
use crate::tree::{Draft, RECORDS, clear_up_shared, copies_beside, remove_bench};

/// Number of newest tips of a session that are retained at any age.
const KEPT_NEWEST: usize = 20;
/// Seconds of a day.
const DAY_S: i64 = 24 * 60 * 60;

/// A fault of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The session's id.
    pub session: String,
    /// The description.
    pub what: String,
    /// True if it was repaired.
    pub is_mended: bool,
    /// True if it is about records, which can be rebuilt.
    pub is_record: bool,
}

/// Checks every session that isn't open for unreadable records, missing objects, and the remains of a crash. If `repairs`,
/// records are rebuilt from older commits, as a commit on the session's branch.
///
/// # Errors
/// The repository can't be read, or written for a repair.
pub fn examine(sessions: &Sessions, repairs: bool) -> Result<Vec<Finding>, SessionError> {
    let mut found = Vec::new();
    for listed in sessions.list()? {
        let id = &listed.meta.id;
        if listed.is_open {
            continue;
        }
        let new = |what| Finding { session: id.clone(), what, is_mended: false, is_record: false };
        found.extend(unfinished(sessions, id, listed.tip)?.into_iter().map(new));
        let (meta, edits, what) = wrong_with(sessions, id, listed.tip)?;
        if what.is_empty() {
            continue;
        }
        if repairs {
            repair(sessions, id, listed.tip, &meta, &edits)?;
        }
        found.extend(what.into_iter().map(|what| Finding {
            session: id.clone(),
            what,
            is_mended: repairs,
            is_record: true,
        }));
    }
    Ok(found)
}

/// Returns whether a command is working for a session, or a crash has left the changes of one.
#[must_use]
pub fn has_commands_copy(sessions: &Sessions, id: &str) -> bool {
    let copies = copies_beside(&Desk::of(&sessions.folder, id).bench());
    std::fs::read_dir(copies).is_ok_and(|mut it| it.next().is_some())
}

/// Finds the remains of a crash in a session, and missing objects.
fn unfinished(sessions: &Sessions, id: &str, tip: Oid) -> Result<Vec<String>, SessionError> {
    let (repo, desk) = (&sessions.repo, Desk::of(&sessions.folder, id));
    let mut what = Vec::new();
    if !is_whole(repo, tip) {
        what.push("its newest commit names an object that can't be read; git fsck shows which".to_owned());
    }
    for (name, tip) in repo.refs(&format!("{KEPT}{id}/"))? {
        if repo.commit(tip).is_err() {
            what.push(format!("{name} names a commit that can't be read; opening the session removes it"));
        }
    }
    if desk.has_journal() {
        what.push("a move of its branch was begun and not finished; opening the session finishes it".to_owned());
    }
    if let Some(at) = desk.draft_tip() {
        let draft = repo.commit(at).map(|it| Draft::on(repo.clone(), it.tree, Path::new("/"), None));
        let lost = draft.map(|draft| desk.load_draft(&draft, at));
        match lost {
            Ok(Ok(lost)) if lost.is_empty() => {}
            Ok(Ok(lost)) => what.push(format!("of a turn that was cut off this is lost: {}", lost.join(", "))),
            _ => what.push("the files of a turn that was cut off can't be read".to_owned()),
        }
        if at != tip {
            let at = short(at);
            what.push(format!(
                "a turn was cut off at {at}, and the branch has moved; opening the session keeps it by name"
            ));
        }
    }
    Ok(what)
}

/// The list of data of a session as it should be, the files of turns that must be rebuilt, and the faults.
type Wrong = (Meta, Vec<(PathBuf, TurnFile)>, Vec<String>);

/// Finds the faults in the records of a session, and the correct records.
fn wrong_with(sessions: &Sessions, id: &str, tip: Oid) -> Result<Wrong, SessionError> {
    let view = View::new(sessions.repo.clone(), id.to_owned(), tip);
    let (log, mut what) = (view.log()?, Vec::new());
    let of = |commit: Oid| View::new(sessions.repo.clone(), id.to_owned(), commit).meta().ok();
    let turns = log.iter().find_map(|it| it.turn).unwrap_or(0);
    let meta = match of(tip) {
        Some(meta) => meta,
        None => {
            what.push("its list of data (session.json) can't be read".to_owned());
            let older = log.iter().find_map(|it| of(it.id));
            let base = log.last().and_then(|it| it.parents.first()).map(ToString::to_string);
            let title = log.iter().rev().find(|it| it.act == "turn").map(|it| names::title(&it.subject));
            let new = || Meta {
                v: wire::VERSION,
                id: id.to_owned(),
                title: title.unwrap_or_default(),
                base,
                ..Meta::default()
            };
            Meta { turns, ..older.unwrap_or_else(new) }
        }
    };
    if meta.turns > turns {
        what.push(format!("turn {} has no commit with its number: the message was changed", meta.turns));
    }
    let mut edits = Vec::new();
    for number in 1..=turns.max(meta.turns) {
        if view.record_at(None, number).is_ok() {
            continue;
        }
        what.push(format!("the record of turn {number} can't be read"));
        let entry = log.iter().find(|it| it.turn == Some(number));
        let saved = view.record_at(Some(number), number).ok();
        let lost = || TurnFile {
            v: wire::VERSION,
            turn: number,
            kind: "ask".into(),
            state: entry.map(|it| it.state.clone()).unwrap_or_default(),
            question: entry.map(|it| it.subject.clone()).unwrap_or_default(),
            time_ms: entry.map_or(0, |it| it.time_s * 1000),
            ..TurnFile::default()
        };
        edits.push((record_path(id, number), saved.unwrap_or_else(lost)));
    }
    Ok((meta, edits, what))
}

fn repair(
    sessions: &Sessions,
    id: &str,
    tip: Oid,
    meta: &Meta,
    turns: &[(PathBuf, TurnFile)],
) -> Result<(), SessionError> {
    let _lock = Desk::of(&sessions.folder, id).lock()?;
    let mut batch = sessions.repo.batch();
    let mut edits: Vec<TreeEdit> =
        vec![turn::file(&mut batch, Path::new(RECORDS).join(id).join("session.json"), &turn::json(meta))?];
    for (path, file) in turns {
        edits.push(turn::file(&mut batch, path.clone(), &turn::json(file))?);
    }
    let tree = batch.tree(sessions.repo.commit(tip)?.tree, &edits)?;
    let newest = View::new(sessions.repo.clone(), id.to_owned(), tip).log()?.iter().find_map(|it| it.turn);
    let turn = Some(meta.turns).filter(|turns| *turns > newest.unwrap_or(0));
    let message = format!("repair the record\n\n{}", turn::trailers(id, turn, "repair", "whole", None));
    let commit = batch.commit(&sessions.new_commit(tree, vec![tip], now_unix_ms(), message))?;
    batch.settle()?;
    Ok(sessions.repo.swap(&sessions.reference(id), Some(tip), Some(commit), &sessions.who)?)
}

/// Removes data that isn't needed any more, and names it: tips older than their retention time, except the newest 20 of a
/// session; directories for commands that weren't used for as long; and the remains of sessions that are gone. If `only_names`,
/// it removes nothing. Git's own objects are left to `git gc`.
///
/// # Errors
/// A reference can't be read or removed.
pub fn clear_up(sessions: &Sessions, only_names: bool) -> Result<Vec<String>, SessionError> {
    let oldest = now_unix_ms() / 1000 - i64::from(sessions.options.keep_days) * DAY_S;
    let mut notices = clear_kept(sessions, oldest, only_names)?;
    notices.extend(clear_left_over(sessions, only_names));
    let all = sessions.list()?;
    for entry in std::fs::read_dir(&sessions.folder).into_iter().flatten().flatten() {
        let Ok(id) = entry.file_name().into_string() else { continue };
        let desk = Desk::of(&sessions.folder, &id);
        // An open session holds its lock, even if another process is only just beginning it.
        let Some(_lock) = Some(&desk).filter(|_| names::is_id(&id)).and_then(|desk| desk.lock_if_there()) else {
            continue;
        };
        match all.iter().find(|it| it.meta.id == id) {
            None if sessions.repo.tip(&sessions.reference(&id))?.is_none() && !desk.holds_changes() => {
                notices.push(format!("what is left of session {}, which is gone", short_id(&id)));
                if !only_names {
                    desk.remove()?;
                }
            }
            Some(it) if it.time_s < oldest && !it.has_draft && desk.bench().is_dir() => {
                notices.push(format!("the directory for commands of session {}", short_id(&id)));
                if !only_names {
                    remove_bench(&desk.bench()).map_err(|error| SessionError::Disk(desk.bench(), error))?;
                }
            }
            _ => {}
        }
    }
    // A bench that was just removed doesn't name its tree any more.
    let states: Vec<PathBuf> = std::fs::read_dir(&sessions.folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|it| it.path().join("bench.state"))
        .collect();
    let trees = clear_up_shared(&sessions.shared_trees(), &states, only_names);
    notices
        .extend(trees.iter().map(|name| format!("the files {} that commands of several sessions shared", &name[..8])));
    Ok(notices)
}

/// Removes the remains of killed processes: directories for merges and for the files of a checkout, drafts of the table of
/// references.
fn clear_left_over(sessions: &Sessions, only_names: bool) -> Vec<String> {
    let entries = std::fs::read_dir(&sessions.folder).into_iter().flatten().flatten();
    let folders = entries.map(|it| it.path()).filter(|it| it.is_dir());
    let folders = folders.chain([sessions.folder.clone(), sessions.repo.common_dir().to_owned()]);
    let mut notices = Vec::new();
    for path in folders.flat_map(|folder| left_over(&folder)) {
        notices.push(format!("what a killed process has left in {}", path.display()));
        if !only_names {
            // A failed removal is repeated at the next run.
            let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        }
    }
    notices
}

fn clear_kept(sessions: &Sessions, oldest: i64, only_names: bool) -> Result<Vec<String>, SessionError> {
    let mut notices = Vec::new();
    let mut references = sessions.repo.refs(KEPT)?;
    let number = |name: &str| name.rsplit('/').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    let session = |name: &str| name.trim_start_matches(KEPT).split('/').next().unwrap_or_default().to_owned();
    references.sort_by_key(|(name, _)| (session(name), std::cmp::Reverse(number(name))));
    for of_one in references.chunk_by(|(one, _), (other, _)| session(one) == session(other)) {
        for (name, tip) in of_one.iter().skip(KEPT_NEWEST) {
            if sessions.repo.commit(*tip)?.time_s < oldest {
                notices.push(format!("the kept commit {name} ({})", short(*tip)));
                if !only_names {
                    sessions.repo.swap(name, Some(*tip), None, &sessions.who)?;
                }
            }
        }
    }
    Ok(notices)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scene, branch, git, turn, turn_report, write};
    use super::super::{merge, plan_merge};
    use super::*;
    use crate::sessions::{How, State};

    /// Puts a commit with other files of the record on a session's branch.
    fn damage(scene: &Scene, id: &str, edits: &[(PathBuf, Option<&str>)]) {
        let repo = scene.sessions.repo();
        let tip = repo.tip(&branch(id)).expect("read").expect("a tip");
        let mut batch = repo.batch();
        let edits: Vec<TreeEdit> = edits
            .iter()
            .map(|(path, text)| match text {
                Some(text) => turn::file(&mut batch, path.clone(), text.as_bytes()).expect("a blob"),
                None => (path.clone(), None),
            })
            .collect();
        let tree = batch.tree(repo.commit(tip).expect("a commit").tree, &edits).expect("a tree");
        let new = scene.sessions.new_commit(tree, vec![tip], now_unix_ms(), "damage".into());
        let commit = batch.commit(&new).expect("a commit");
        batch.settle().expect("written");
        repo.swap(&branch(id), Some(tip), Some(commit), &scene.sessions.who).expect("moved");
    }

    #[test]
    fn damaged_records_are_found_and_made_anew_from_older_commits() {
        let scene = Scene::new();
        let mut session = scene.sessions.start(None, "a title").expect("begun");
        for number in 1..=3 {
            turn(&mut session, &format!("q{number}"), &format!("{number}.txt"), None, Some("x"));
        }
        let (id, whole) = (session.id().to_owned(), session.view().records(3).expect("records"));
        drop(session);
        assert_eq!(examine(&scene.sessions, false).expect("examined"), []);
        let own = Path::new(RECORDS).join(&id);
        damage(&scene, &id, &[(own.join("session.json"), Some("{ no JSON")), (record_path(&id, 2), None)]);
        let found = examine(&scene.sessions, false).expect("examined");
        let what: Vec<&str> = found.iter().map(|it| it.what.as_str()).collect();
        let wanted = ["its list of data (session.json) can't be read", "the record of turn 2 can't be read"];
        assert_eq!((what, found[0].is_mended), (wanted.to_vec(), false));
        assert!(scene.sessions.open(&id).is_err(), "looking mends nothing");
        assert!(examine(&scene.sessions, true).expect("examined").iter().all(|it| it.is_mended));
        assert_eq!(examine(&scene.sessions, false).expect("examined"), []);
        let mut session = scene.sessions.open(&id).expect("opened");
        assert_eq!((session.meta().turns, session.meta().title.as_str()), (3, "a title"));
        assert_eq!(session.view().records(3).expect("records"), whole);
        turn(&mut session, "q4", "4.txt", None, Some("x"));
        git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    }

    #[test]
    fn leftovers_of_a_crash_and_missing_objects_are_found() {
        let scene = Scene::new();
        let mut session = scene.sessions.start(None, "").expect("begun");
        turn(&mut session, "q1", "x.txt", None, Some("x\n"));
        session.rewind(0).expect("back");
        turn(&mut session, "q2", "y.txt", None, Some("only in y\n"));
        session.begin_turn("q3").expect("begun");
        write(&session, "z.txt", None, Some("z\n"));
        let (id, former) = (session.id().to_owned(), scene.sessions.repo().refs(KEPT).expect("read")[0].1);
        drop(session);
        // Another process doesn't have this one's list of written objects.
        let other = Sessions::at(&scene.ws(), &scene.dir.path().join("state"), None, "tester").expect("a repository");
        let what =
            || -> Vec<String> { examine(&other, false).expect("examined").into_iter().map(|it| it.what).collect() };
        assert_eq!(what(), Vec::<String>::new(), "a turn that was cut off is none");
        let folder = scene.sessions.folder.join(&id);
        let contents = folder.join("draft/blobs/all-0");
        let whole = std::fs::read(&contents).expect("a file");
        std::fs::write(&contents, "?").expect("a file");
        assert_eq!(what(), ["of a turn that was cut off this is lost: z.txt"]);
        std::fs::write(&contents, whole).expect("a file");
        let objects = scene.ws().join(".git/objects");
        let place = |id: Oid| {
            let hex = id.to_string();
            objects.join(&hex[..2]).join(&hex[2..])
        };
        std::fs::remove_file(place(former)).expect("removed");
        let found = what();
        assert!(found.len() == 1 && found[0].contains("names a commit that can't be read"), "{found:?}");
        let blob = git(&scene.ws(), &["rev-parse", &format!("{}:y.txt", branch(&id))]);
        std::fs::remove_file(place(crate::git::oid_of(&blob).expect("an id"))).expect("removed");
        assert!(what().iter().any(|it| it.contains("names an object that can't be read")), "{:?}", what());
    }

    #[test]
    fn another_message_leaves_files_and_records_as_they_are_and_is_undone() {
        let scene = Scene::new();
        let mut session = scene.sessions.start(None, "").expect("begun");
        for number in 1..=3 {
            turn(&mut session, &format!("q{number}"), &format!("{number}.txt"), None, Some("x"));
        }
        let (before, name) = (session.tip(), branch(session.id()));
        session.reword(Some(2), "better words\nin one line").expect("reworded");
        let subjects = git(&scene.ws(), &["log", "--format=%s", "-3", &name]);
        assert_eq!(subjects, "q3\nbetter words in one line\nq1");
        assert_eq!(git(&scene.ws(), &["diff", &before.to_string(), &name]), "");
        assert_eq!(session.view().record(2).expect("a record").question, "q2");
        assert_eq!(session.view().log().expect("a log").len(), 4);
        git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
        session.undo().expect("undone");
        assert_eq!(session.tip(), before);
        session.reword(None, "the newest").expect("reworded");
        assert_eq!(git(&scene.ws(), &["log", "--format=%s", "-1", &name]), "the newest");
        assert!(matches!(session.reword(Some(9), "x"), Err(SessionError::NoTurn { .. })));
        assert!(matches!(session.reword(None, " \n"), Err(SessionError::Refused(_))));
    }

    #[test]
    fn a_turn_is_written_into_a_new_directory_and_into_no_other() {
        let scene = Scene::new();
        let mut session = scene.sessions.start(None, "").expect("begun");
        turn(&mut session, "q1", "deep/x.txt", None, Some("1\n"));
        turn(&mut session, "q2", "deep/x.txt", Some("1\n"), Some("2\n"));
        let at = scene.dir.path().join("out");
        assert_eq!(session.view().write_to(Some(1), &at).expect("written"), 3);
        assert_eq!(std::fs::read_to_string(at.join("deep/x.txt")).expect("a file"), "1\n");
        assert!(at.join("src/b.rs").exists() && !at.join(".reedclaw").exists() && !at.join(".git").exists());
        assert!(session.view().write_to(None, &at).is_err(), "nothing is overwritten");
        assert!(!scene.dir.path().join("out.state").exists());
    }

    #[test]
    fn an_approval_is_a_commit_of_its_own_and_the_turn_has_all_its_changes() {
        let scene = Scene::new();
        let mut session = scene.sessions.start(None, "").expect("begun");
        turn(&mut session, "q1", "1.txt", None, Some("1\n"));
        let id = session.id().to_owned();
        assert_eq!(session.commit_so_far().expect("nothing to do"), None, "no turn runs");
        session.begin_turn("q2").expect("begun");
        assert_eq!(session.commit_so_far().expect("nothing to do"), None, "nothing was changed");
        write(&session, "x.txt", None, Some("x\n"));
        session.commit_so_far().expect("committed").expect("a commit");
        assert_eq!(git(&scene.ws(), &["show", &format!("{}:x.txt", branch(&id))]), "x", "while the person is asked");
        session.note_approval("shell\nmake").expect("committed").expect("a commit");
        // A crash now finds the turn with its question.
        drop(session);
        let mut session = scene.sessions.open(&id).expect("opened");
        assert_eq!(session.left().expect("a turn").question, "q2");
        write(&session, "y.txt", None, Some("y\n"));
        let done = session.end_turn(&turn_report("q2", State::Whole)).expect("committed");
        assert_eq!((done.turn, done.files), (2, 2));
        let log = session.view().log().expect("a log");
        let acts: Vec<&str> = log.iter().map(|it| it.act.as_str()).collect();
        assert_eq!(acts, ["turn", "approve", "part", "turn", "base"]);
        assert_eq!(log[1].subject, "approve: shell make");
        let paths = |changes: Vec<crate::git::Changed>| -> Vec<String> {
            changes.into_iter().map(|it| it.path.display().to_string()).collect()
        };
        assert_eq!(paths(session.view().changes_of(2).expect("changes")), ["x.txt", "y.txt"]);
        assert_eq!(session.view().record(2).expect("a record").changes.len(), 2);
        session.rewind(1).expect("back");
        assert!(session.draft().leaf(Path::new("x.txt"), 10).is_err());
        session.undo().expect("undone");
        git(&scene.ws(), &["branch", "dev"]);
        let wish = crate::sessions::MergeWish { into: Some("dev".into()), ..How::Rebase.into() };
        let plan = plan_merge(&scene.sessions, &id, wish, &scene.program()).expect("a plan");
        merge(&scene.sessions, &plan, true, &scene.program()).expect("merged");
        assert_eq!(git(&scene.ws(), &["log", "--format=%s", "-2", "dev"]), "q2\nq1");
        assert_eq!(git(&scene.ws(), &["ls-tree", "-r", "--name-only", "dev"]), "1.txt\na.txt\nsrc/b.rs\nx.txt\ny.txt");
    }

    #[test]
    fn only_old_tips_and_what_is_left_of_gone_sessions_are_cleared_up() {
        let scene = Scene::new();
        let mut session = scene.sessions.start(None, "").expect("begun");
        turn(&mut session, "q1", "1.txt", None, Some("x"));
        let (id, tip) = (session.id().to_owned(), session.tip());
        drop(session);
        let tree = git(&scene.ws(), &["rev-parse", &format!("{tip}^{{tree}}")]);
        let old = "@1000000000 +0000";
        let mut tips = Vec::new();
        for number in 1..=KEPT_NEWEST + 3 {
            let mut command = std::process::Command::new("git");
            command.args(["commit-tree", &tree, "-m", &number.to_string()]).current_dir(scene.ws());
            for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
                command.env(name, "x@y");
            }
            let made = command.env("GIT_AUTHOR_DATE", old).env("GIT_COMMITTER_DATE", old).output().expect("git");
            tips.push(String::from_utf8_lossy(&made.stdout).trim().to_owned());
            git(&scene.ws(), &["update-ref", &format!("{KEPT}{id}/{number}"), &tips[number - 1]]);
        }
        let gone = "01234567-0123-7123-8123-0123456789ab";
        std::fs::create_dir_all(scene.sessions.folder.join(gone).join("bench")).expect("a folder");
        std::fs::create_dir_all(scene.sessions.folder.join(&id).join("bench")).expect("a folder");
        std::fs::create_dir_all(scene.sessions.folder.join("something else")).expect("a folder");
        // Two of a killed process, and one of this process, which is merging.
        let ended = std::process::Command::new("true").spawn().and_then(|mut it| it.wait().map(|_| it.id()));
        let ended = ended.expect("a process that has ended");
        let own = scene.sessions.folder.join(&id).join(format!("scratch.{}-0", std::process::id()));
        let killed = scene.sessions.folder.join(&id).join(format!("scratch.{ended}-3"));
        let table = scene.ws().join(format!(".git/packed-refs.rc{ended}"));
        std::fs::create_dir_all(&own).expect("a folder");
        std::fs::create_dir_all(&killed).expect("a folder");
        std::fs::write(&table, "").expect("a file");
        let named = clear_up(&scene.sessions, true).expect("named");
        assert_eq!(named.len(), 6, "{named:?}");
        assert!(scene.sessions.folder.join(gone).exists(), "it was only named");
        assert_eq!(clear_up(&scene.sessions, false).expect("cleared up"), named);
        assert_eq!(clear_up(&scene.sessions, false).expect("cleared up"), Vec::<String>::new());
        assert_eq!((own.exists(), killed.exists(), table.exists()), (true, false, false));
        let references = scene.sessions.repo().refs(KEPT).expect("references");
        assert_eq!((references.len(), references.iter().any(|(name, _)| name.ends_with("/3"))), (KEPT_NEWEST, false));
        let left = |name: &str| scene.sessions.folder.join(name).exists();
        assert_eq!((left(gone), left(&id), left("something else")), (false, true, true));
        assert!(scene.sessions.folder.join(&id).join("bench").exists(), "it was used today");
    }

    /// A session of two turns whose references are packed if that is wanted; its id, tip and reference's file.
    fn with_two_turns(scene: &Scene, is_packed: bool) -> (String, Oid, PathBuf) {
        let mut session = scene.sessions.start(None, "a title").expect("begun");
        turn(&mut session, "q1", "1.txt", None, Some("1"));
        turn(&mut session, "q2", "2.txt", None, Some("2"));
        if is_packed {
            git(&scene.ws(), &["pack-refs", "--all"]);
        }
        let file = scene.ws().join(".git").join(branch(session.id()));
        (session.id().to_owned(), session.tip(), file)
    }

    #[test]
    fn a_torn_reference_is_set_to_the_newest_commit_that_was_noted() {
        let scene = Scene::new();
        let (id, tip, file) = with_two_turns(&scene, false);
        let texts = [String::new(), "\0".repeat(41), tip.to_string()[..20].to_owned(), tip.to_string()];
        for torn in texts {
            std::fs::write(&file, &torn).expect("written");
            let sessions = scene.sessions.clone().mend();
            let [notice] = sessions.mended() else { panic!("{torn:?}: {:?}", sessions.mended()) };
            assert!(notice.contains(short_id(&id)) && notice.contains(&short(tip)), "{notice}");
            assert_eq!(git(&scene.ws(), &["rev-parse", &branch(&id)]), tip.to_string(), "{torn:?}");
            assert_eq!(scene.sessions.clone().mend().mended(), <[String; 0]>::default(), "it is reported once");
        }
        // Opening alone is enough.
        std::fs::write(&file, "").expect("written");
        let mut session = scene.sessions.open(&id).expect("opened");
        assert_eq!((session.tip(), session.take_notices().len()), (tip, 1));
        turn(&mut session, "q3", "3.txt", None, Some("3"));
        git(&scene.ws(), &["fsck", "--strict", "--no-dangling"]);
    }

    #[test]
    fn a_reference_in_a_torn_table_comes_back_and_one_that_was_deleted_does_not() {
        for table in ["", "# pack-refs with: peeled fully-peeled sorted \n0123"] {
            let scene = Scene::new();
            let (id, tip, file) = with_two_turns(&scene, true);
            assert!(!file.exists(), "it is in the table");
            std::fs::write(scene.ws().join(".git/packed-refs"), table).expect("written");
            let sessions = scene.sessions.clone().mend();
            assert_eq!(sessions.mended().len(), 1, "{:?}", sessions.mended());
            assert_eq!(std::fs::read_to_string(&file).expect("a file"), format!("{tip}\n"));
            assert_eq!(scene.sessions.clone().mend().mended(), <[String; 0]>::default());
            drop(id);
        }
        let scene = Scene::new();
        let (id, _, file) = with_two_turns(&scene, false);
        git(&scene.ws(), &["update-ref", "-d", &branch(&id)]);
        assert_eq!(scene.sessions.clone().mend().mended(), <[String; 0]>::default());
        assert!(!file.exists());
    }

    #[test]
    fn a_commit_that_is_lost_gives_way_to_the_one_before_and_a_kept_tip_that_names_nothing_goes() {
        let scene = Scene::new();
        let (id, tip, _) = with_two_turns(&scene, false);
        let hex = tip.to_string();
        let object = scene.ws().join(".git/objects").join(&hex[..2]).join(&hex[2..]);
        std::fs::remove_file(&object).expect("removed");
        std::fs::write(&object, "").expect("written");
        let folder = scene.ws().join(".git").join(KEPT).join(&id);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("1"), "").expect("written");
        // A process has its own view of the objects.
        let sessions = Sessions::at(&scene.ws(), &scene.dir.path().join("state"), None, "tester").expect("sessions");
        let sessions = sessions.mend();
        assert_eq!(sessions.mended().len(), 2, "{:?}", sessions.mended());
        let mut session = sessions.open(&id).expect("opened");
        assert_eq!((session.meta().turns, folder.join("1").exists()), (1, false));
        // The same turn writes the lost object again.
        turn(&mut session, "q2", "2.txt", None, Some("2"));
        session.rewind(1).expect("back");
    }
}
