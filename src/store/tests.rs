//! Tests of the store on real files, with faults.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;

use super::*;
use crate::proto::{LineKind, Spent, Usage};

fn line(time: i64, text: &str) -> Entry {
    Entry {
        time,
        session: 1,
        cwd: Some("/home/u".into()),
        hostname: None,
        line: text.into(),
        kind: LineKind::Command,
        status: None,
        duration_ms: None,
    }
}

fn filled(entries: &[(i64, &str)]) -> Store {
    let mut store = Store::in_memory().unwrap();
    for (time, text) in entries {
        store.append(&line(*time, text));
    }
    store
}

fn texts(rows: Vec<Row>) -> Vec<String> {
    rows.into_iter().map(|row| row.entry.line).collect()
}

fn find(store: &Store, search: Search) -> Vec<String> {
    texts(store.search(&search).unwrap())
}

fn prefix(text: &str) -> Search {
    Search { text: TextMatch::Prefix(text.into()), ..Search::default() }
}

fn substring(text: &str) -> Search {
    Search { text: TextMatch::Substring(text.into()), ..Search::default() }
}

/// Makes every write to the file fail until [`allow_writes`].
fn forbid_writes(store: &Store) {
    store.main.pragma_update(None, "query_only", true).unwrap();
}

fn allow_writes(store: &Store) {
    store.main.pragma_update(None, "query_only", false).unwrap();
}

/// Removes the tables of runs and the places of requests from a database.
pub(super) const WITHOUT_RUNS: &str =
    "DROP TABLE run; DROP TABLE run_event; DROP TABLE run_fire; DROP INDEX request_run;
    ALTER TABLE request DROP COLUMN run; ALTER TABLE request DROP COLUMN category;
    ALTER TABLE request DROP COLUMN kind; ALTER TABLE request DROP COLUMN host";

#[test]
fn a_new_store_is_private_and_returns_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("a/b");
    let entry = Entry { kind: LineKind::ModelCommand, ..line(5, "ls\0 -l\n'é") };
    {
        let mut store = Store::open(&home).unwrap();
        assert!(store.is_durable());
        let id = store.append(&entry);
        store.set_outcome(id, Some(130), Some(1_500), 6);
        assert_eq!(store.take_problem(), None);
    }
    assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(home.join(FILE_NAME).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let store = Store::open(&home).unwrap();
    let rows = store.recent(10).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].entry, Entry { status: Some(130), duration_ms: Some(1_500), ..entry });
    assert_eq!(store.row(rows[0].id).unwrap().as_ref(), Some(&rows[0]));
}

#[test]
fn a_file_open_to_others_is_closed_to_them() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let path = dir.path().join(FILE_NAME);
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    store.append(&line(1, "x"));
    for name in [FILE_NAME.to_owned(), format!("{FILE_NAME}-wal")] {
        assert_eq!(dir.path().join(&name).metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn searches_find_matching_lines_newest_first() {
    let mut store = filled(&[(1, "cargo test"), (2, "git commit -m \"x\""), (3, "cargo build"), (4, "Cargo test")]);
    store.append(&Entry { cwd: Some("/tmp/a".into()), session: 2, ..line(5, "ls 100%_done") });
    store.append(&Entry { kind: LineKind::Question, status: Some(1), ..line(6, "why cargo?") });
    store.append(&Entry { status: Some(0), ..line(7, "printf \u{1b}[31m") });
    let limited = |search: Search, limit| Search { limit: Some(limit), ..search };
    let table: Vec<(Search, Vec<&str>)> = vec![
        (prefix("cargo"), vec!["cargo build", "cargo test"]),
        (limited(prefix("cargo"), 1), vec!["cargo build"]),
        (limited(prefix("cargo"), 9), vec!["cargo build", "cargo test"]),
        (prefix("nothing"), vec![]),
        (substring("car"), vec!["why cargo?", "cargo build", "cargo test"]),
        (limited(substring("go t"), 5), vec!["Cargo test", "cargo test"]),
        (
            substring("o"),
            vec!["why cargo?", "ls 100%_done", "Cargo test", "cargo build", "git commit -m \"x\"", "cargo test"],
        ),
        (substring("\"x\""), vec!["git commit -m \"x\""]),
        (substring("100%_"), vec!["ls 100%_done"]),
        (substring("0_"), vec![]),
        (Search { text: TextMatch::Exact("cargo test".into()), ..Search::default() }, vec!["cargo test"]),
        (Search { cwd: Some("/tmp/a".into()), ..Search::default() }, vec!["ls 100%_done"]),
        (Search { cwd_prefix: Some("/tmp".into()), ..Search::default() }, vec!["ls 100%_done"]),
        (Search { session: Some(2), ..Search::default() }, vec!["ls 100%_done"]),
        (Search { hostname: Some("h".into()), ..Search::default() }, vec![]),
        (Search { kind: Some(LineKind::Question), ..Search::default() }, vec!["why cargo?"]),
        (Search { successful: Some(true), ..Search::default() }, vec!["printf \u{1b}[31m"]),
        (Search { successful: Some(false), ..Search::default() }, vec!["why cargo?"]),
        (
            Search { time_min: Some(2), time_max: Some(3), ..Search::default() },
            vec!["cargo build", "git commit -m \"x\""],
        ),
        (Search { plain_only: true, limit: Some(1), ..Search::default() }, vec!["why cargo?"]),
        (Search { other_than: Some("cargo build".into()), ..prefix("cargo") }, vec!["cargo test"]),
        (Search { oldest_first: true, limit: Some(2), ..Search::default() }, vec!["cargo test", "git commit -m \"x\""]),
    ];
    for (search, wanted) in table {
        assert_eq!(find(&store, search.clone()), wanted, "{search:?}");
    }
}

#[test]
fn a_search_continues_after_the_last_window_of_rows() {
    let mut store = filled(&[(1, "needle one"), (2, "needle two")]);
    store.main.execute_batch("BEGIN").unwrap();
    for time in 3..2_500 {
        store.append(&line(time, "hay"));
    }
    store.main.execute_batch("COMMIT").unwrap();
    let one = Some(1);
    assert_eq!(find(&store, Search { limit: one, ..prefix("needle") }), ["needle two"]);
    assert_eq!(find(&store, Search { limit: one, ..substring("eedle") }), ["needle two"]);
    assert_eq!(find(&store, Search { limit: one, ..substring("w") }), ["needle two"]);
    assert_eq!(find(&store, Search { limit: one, oldest_first: true, ..prefix("hay") }), ["hay"]);
}

#[test]
fn prefix_and_substring_searches_of_a_long_history_use_an_index() {
    let store = filled(&[(1, "a")]);
    let plan = |sql: &str| -> String {
        let sql = format!("EXPLAIN QUERY PLAN {sql}");
        let mut select = store.main.prepare(&sql).unwrap();
        let details: Vec<String> = select.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        details.join("; ")
    };
    let newest = plan("SELECT * FROM history ORDER BY time DESC, id DESC LIMIT 1");
    assert!(newest.contains("history_time") && !newest.contains("TEMP B-TREE"), "{newest}");
    let by_prefix = plan(
        "SELECT * FROM history INDEXED BY history_line WHERE line >= 'a' AND line <= 'b' ORDER BY time DESC LIMIT 1",
    );
    assert!(by_prefix.contains("history_line (line>? AND line<?)"), "{by_prefix}");
    let step = plan("SELECT * FROM history WHERE (time, id) < (5, 5) ORDER BY time DESC, id DESC LIMIT 1");
    assert!(step.contains("history_time (") && !step.contains("TEMP B-TREE"), "{step}");
}

/// Up after the start of a common command took 170 ms in a history of 100,000 lines, to learn that this session has no such line.
#[test]
fn a_session_is_searched_by_its_own_rows() {
    let mut store = Store::in_memory().unwrap();
    let own = 7;
    for time in 0..3000 {
        let session = if time < 1500 { own } else { 8 };
        store.append(&Entry { session, ..line(time, &format!("git log {time}")) });
    }
    let search = |session, text: &str| Search { session: Some(session), limit: Some(1), ..prefix(text) };
    assert_eq!(find(&store, search(own, "git log 1 ")), [""; 0]);
    assert_eq!(find(&store, search(own, "git log 20")), ["git log 209"]);
    assert_eq!(find(&store, search(own, "git log 16")), ["git log 169"]);
    assert_eq!(find(&store, search(9, "git")), [""; 0]);
    let plan = "EXPLAIN QUERY PLAN SELECT id FROM history INDEXED BY history_session
        WHERE line >= 'g' AND line <= 'h' AND session = 7 ORDER BY time DESC, id DESC LIMIT 1";
    let detail: String = store.main.query_row(plan, [], |row| row.get(3)).unwrap();
    assert!(detail.contains("history_session (session=?)"), "{detail}");
}

/// All rows seemed to be stored, but went into a file that was unreachable.
#[test]
fn a_database_that_is_moved_away_is_reported_and_written_again_once_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let (here, away) = (dir.path().join("here"), dir.path().join("away"));
    let mut store = Store::open(&here).unwrap();
    store.append(&line(1, "before"));
    std::fs::rename(&here, &away).unwrap();
    store.append(&line(2, "meanwhile"));
    assert!(!store.is_durable() && store.is_on_disk());
    let problem = store.take_problem().expect("one line").message;
    assert!(problem.ends_with("here/reedclaw.db was moved or removed while it was open"), "{problem}");
    store.append(&line(10_000, "still"));
    assert_eq!(store.take_problem(), None, "once is enough");
    assert_eq!(find(&store, prefix("")).len(), 3);
    std::fs::rename(&away, &here).unwrap();
    store.append(&line(20_000, "back"));
    assert!(store.is_durable());
    drop(store);
    assert_eq!(find(&Store::open(&here).unwrap(), prefix("")).len(), 4);
}

#[test]
fn steps_go_from_row_to_row_in_the_order_of_time() {
    // Imported late, run early: ids and times disagree.
    let store = filled(&[(30, "third"), (10, "first"), (20, "second"), (20, "second again")]);
    let mut at = None;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let search = Search { after: at, limit: Some(1), ..Search::default() };
        let row = store.search(&search).unwrap().remove(0);
        at = Some(row.id);
        seen.push(row.entry.line);
    }
    assert_eq!(seen, ["third", "second again", "second", "first"]);
    let back = Search { after: at, oldest_first: true, ..Search::default() };
    assert_eq!(find(&store, back), ["second", "second again", "third"]);
    let until = Search { until: at, ..Search::default() };
    assert_eq!(find(&store, until).len(), 4, "the last row is part of it");
}

#[test]
fn deleted_text_is_gone_from_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let secret = store.append(&line(1, "login hunter2-qzx"));
    store.append(&line(2, "ls"));
    assert!(store.delete(secret).unwrap());
    assert!(!store.delete(secret).unwrap());
    assert_eq!(find(&store, substring("hunter")), Vec::<String>::new());
    for suffix in ["", "-wal"] {
        let bytes = std::fs::read(dir.path().join(format!("{FILE_NAME}{suffix}"))).unwrap();
        // The text index holds pieces of three characters.
        for piece in [&b"hunter2"[..], b"qzx"] {
            let found = bytes.windows(piece.len()).any(|window| window == piece);
            assert!(!found, "{} found in {FILE_NAME}{suffix}", piece.escape_ascii());
        }
    }
}

#[test]
fn clear_forgets_lines_but_no_conversation() {
    let mut store = filled(&[(1, "one"), (2, "two")]);
    let talk = store.begin_conversation(3, "m");
    store.clear().unwrap();
    assert_eq!(store.count().unwrap(), 0);
    assert_eq!(find(&store, substring("one")), Vec::<String>::new());
    let id = store.append(&line(4, "one more"));
    assert_eq!(find(&store, substring("one")), ["one more"]);
    assert!(store.delete(id).unwrap());
    assert_eq!(find(&store, substring("one more")), Vec::<String>::new(), "the trigger is back");
    assert_eq!(store.conversations(5).unwrap()[0].id, talk);
}

#[test]
fn prune_removes_the_oldest() {
    let mut store = filled(&[(3, "c"), (1, "a"), (2, "b")]);
    assert_eq!(store.prune(3).unwrap(), 0);
    assert_eq!(store.prune(2).unwrap(), 1);
    assert_eq!(texts(store.recent(9).unwrap()), ["c", "b"]);
    assert_eq!(store.prune(0).unwrap(), 2);
}

#[test]
fn a_leading_space_keeps_a_line_out() {
    for (text, is_stored) in [("ls", true), (" ls", false), ("", false), ("\t\n", false), ("\tls", true)] {
        assert_eq!(keeps(text), is_stored, "{text:?}");
    }
}

#[test]
fn two_sessions_share_one_history() {
    let dir = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Store::open(dir.path()).unwrap(), Store::open(dir.path()).unwrap());
    for time in 0..50 {
        let (store, session) = if time % 2 == 0 { (&mut one, 1) } else { (&mut two, 2) };
        store.append(&Entry { session, ..line(time, &format!("line {time}")) });
    }
    for store in [&mut one, &mut two] {
        assert_eq!(store.take_problem(), None);
        assert_eq!(store.count().unwrap(), 50);
        assert_eq!(store.recent(1).unwrap()[0].entry.line, "line 49");
        assert_eq!(store.search(&Search { session: Some(1), ..Search::default() }).unwrap().len(), 25);
    }
}

/// Two panes of one terminal that start at once, on a machine that has no database yet: SQLite doesn't wait for a
/// lock while it changes the journal's mode.
#[test]
fn many_sessions_may_start_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let barrier = std::sync::Barrier::new(6);
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..6)
                .map(|time| {
                    let (barrier, dir) = (&barrier, dir.path());
                    scope.spawn(move || {
                        barrier.wait();
                        let mut store = Store::open(dir).expect("it opens");
                        store.append(&line(time, "echo at-once"));
                        assert!(store.take_problem().is_none());
                    })
                })
                .collect();
            opened.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        assert_eq!(Store::open(dir.path()).unwrap().count().unwrap(), 6);
    }
}

#[test]
fn a_session_that_saw_an_empty_file_before_another_filled_it_migrates_nothing_twice() {
    let mut connection = schema::memory().unwrap();
    let version =
        |connection: &Connection| -> i64 { connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap() };
    let before = version(&connection);
    for known in [1, before] {
        schema::apply(&mut connection, known).unwrap();
        assert_eq!(version(&connection), before);
    }
}

#[test]
fn a_database_of_an_earlier_version_gets_summaries_and_memories_and_keeps_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let path = dir.path().join(FILE_NAME);
    let connection = Connection::open(&path).unwrap();
    let without = "DROP TABLE editor_session; DROP TABLE tool_call; DROP TABLE summary; DROP TABLE memory; DROP TABLE to_remember;
        INSERT INTO conversation (started, model) VALUES (5, 'old');";
    connection.execute_batch(without).unwrap();
    connection.execute_batch(WITHOUT_RUNS).unwrap();
    connection.pragma_update(None, "user_version", 4).unwrap();
    drop(connection);
    let mut store = Store::open(dir.path()).unwrap();
    let old = store.conversations(9).unwrap()[0].id;
    let summary = StoredSummary { turns: 0, text: "s".into() };
    store.set_summary(old, Some(&summary), 6).unwrap();
    assert_eq!(store.summary(old).unwrap(), Some(summary));
    assert_eq!(schema::version(&store.main).unwrap(), schema::VERSION);
}

#[test]
fn a_file_that_cannot_be_opened_is_one_error_with_a_hint() {
    type Prepare = fn(&Path);
    let table: [(&str, Prepare, StoreErrorKind); 5] = [
        ("garbage", |path| std::fs::write(path, [b'x'; 5_000]).unwrap(), StoreErrorKind::Corrupt),
        ("a directory", |path| std::fs::create_dir(path).unwrap(), StoreErrorKind::Access),
        ("a pipe", |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(), StoreErrorKind::Access),
        ("newer", |path| version(path, 99), StoreErrorKind::Newer),
        ("negative", |path| version(path, -1), StoreErrorKind::Newer),
    ];
    for (name, prepare, kind) in table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        prepare(&path);
        let problem = Store::open(dir.path()).unwrap_err();
        assert_eq!(problem.kind, kind, "{name}: {problem}");
        assert!(problem.message.contains(FILE_NAME) && !problem.message.contains('\n'), "{problem}");
        assert!(!problem.hint.is_empty());
    }
}

fn version(path: &Path, version: i64) {
    Connection::open(path).unwrap().pragma_update(None, "user_version", version).unwrap();
}

#[test]
fn a_directory_that_cannot_be_made_is_one_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let mut places = vec![dir.path().join("file/below")];
    if cfg!(target_os = "linux") {
        // Read-only even for root.
        places.push("/proc/self/reedclaw".into());
    }
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o500)).unwrap();
    if std::fs::write(closed.join("probe"), "").is_err() {
        places.push(closed);
    }
    for place in places {
        let problem = Store::open(&place).unwrap_err();
        assert_eq!(problem.kind, StoreErrorKind::Access, "{problem}");
        assert!(problem.message.contains(place.to_str().unwrap()), "{problem}");
    }
}

#[test]
fn a_new_file_under_anothers_exclusive_lock_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let other = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE t (x);").unwrap();
    assert_eq!(Store::open(dir.path()).unwrap_err().kind, StoreErrorKind::Locked);
}

#[test]
fn a_lock_held_for_a_while_costs_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let before = store.append(&line(1, "before"));
    let talk = store.begin_conversation(1, "m");
    let other = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();

    let during = store.append(&line(2, "during"));
    let problem = store.take_problem().unwrap();
    assert_eq!(problem.kind, StoreErrorKind::Locked);
    store.set_outcome(before, Some(7), None, 3);
    store.set_outcome(during, Some(8), None, 3);
    let answer = store.ask(talk, 3, "hi", None);
    store.finish_message(answer, MessageState::Complete, 3);
    assert_eq!(store.take_problem(), None, "told once");
    assert!(!store.is_durable());
    let check = |store: &Store| {
        let rows = store.recent(5).unwrap();
        let seen: Vec<_> = rows.iter().map(|row| (row.entry.line.as_str(), row.entry.status)).collect();
        assert_eq!(seen.last(), Some(&("before", Some(7))));
        assert!(seen.contains(&("during", Some(8))), "{seen:?}");
        assert_eq!(store.row(before).unwrap().unwrap().entry.status, Some(7));
        assert_eq!(store.row(during).unwrap().unwrap().entry.line, "during");
        assert_eq!(store.messages(talk).unwrap()[0].message.content, "hi");
    };
    check(&store);
    assert_eq!(find(&store, Search { limit: Some(1), ..prefix("dur") }), ["during"]);
    assert_eq!(find(&store, Search { after: Some(during), ..Search::default() }), ["before"]);

    other.execute_batch("COMMIT").unwrap();
    store.append(&line(10_000, "after"));
    assert!(store.is_durable());
    check(&store);
    store.set_outcome(during, Some(8), None, 10_001);
    assert_eq!(store.count().unwrap(), 3);
    let second = Store::open(dir.path()).unwrap();
    assert_eq!(texts(second.recent(5).unwrap()), ["after", "during", "before"]);
    assert_eq!(second.recent(2).unwrap()[1].entry.status, Some(8));
}

#[test]
fn a_full_disk_is_reported_once_and_the_session_keeps_its_history() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let pages: i64 = store.main.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store.main.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    let long = "x".repeat(3_000);
    let mut problems = Vec::new();
    for time in 0..40 {
        store.append(&line(time, &format!("{long}{time}")));
        problems.extend(store.take_problem());
    }
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].kind, StoreErrorKind::Full);
    assert_eq!(store.count().unwrap(), 40);
    assert_eq!(store.recent(1).unwrap()[0].entry.line, format!("{long}39"));
    // Room again, and the session ends before the next try.
    store.main.query_row("PRAGMA max_page_count = 100000", [], |_| Ok(())).unwrap();
    drop(store);
    assert_eq!(Store::open(dir.path()).unwrap().count().unwrap(), 40);
}

#[test]
fn an_answer_is_on_disk_while_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let talk = store.begin_conversation(0, "m");
    let mut open = store.ask(talk, 0, "why?", None);
    let seen = |text: &str| {
        // Another process after `kill -9` reads the same as a second connection now.
        let after_crash = Store::open(dir.path()).unwrap();
        let messages = after_crash.messages(talk).unwrap();
        assert_eq!((messages.len(), messages[0].seq, messages[1].seq), (2, 1, 2));
        assert_eq!(messages[0].state, MessageState::Complete);
        assert_eq!(messages[1].message.content, text);
        messages[1].state
    };
    assert_eq!(seen(""), MessageState::Partial);
    store.push_piece(&mut open, "Be", 50);
    assert_eq!(seen(""), MessageState::Partial);
    store.push_piece(&mut open, "cause", 100);
    assert_eq!(seen("Because"), MessageState::Partial);
    let long = "y".repeat(4 * 1024);
    store.push_piece(&mut open, &long, 101);
    assert_eq!(seen(&format!("Because{long}")), MessageState::Partial);
    store.push_piece(&mut open, ".", 102);
    store.finish_message(open, MessageState::Complete, 103);
    assert_eq!(seen(&format!("Because{long}.")), MessageState::Complete);
    assert_eq!(store.take_problem(), None);
}

#[test]
fn an_answer_outlives_a_disk_that_fails_in_its_middle() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let talk = store.begin_conversation(0, "old");
    let mut open = store.ask(talk, 0, "q", None);
    store.push_piece(&mut open, "a", 200);
    forbid_writes(&store);
    store.push_piece(&mut open, "b", 400);
    assert_eq!(store.take_problem().unwrap().kind, StoreErrorKind::Access);
    store.push_piece(&mut open, "c", 600);
    let next = store.begin_conversation(700, "new");
    let mut second = store.ask(next, 700, "q", None);
    store.push_piece(&mut second, "x", 900);
    let content = |store: &Store, id| store.messages(id).unwrap()[1].message.content.clone();
    assert_eq!((content(&store, talk), content(&store, next)), ("abc".into(), "x".into()));
    allow_writes(&store);
    store.push_piece(&mut open, "d", 9_000);
    store.finish_message(open, MessageState::Failed, 9_000);
    store.push_piece(&mut second, "y", 9_000);
    assert!(store.is_durable());
    let after = Store::open(dir.path()).unwrap();
    assert_eq!(content(&after, talk), "abcd");
    assert_eq!(after.messages(talk).unwrap()[1].state, MessageState::Failed);
    assert_eq!(after.conversations(1).unwrap()[0].model, "new");
    assert_eq!(content(&store, next), "xy");
    assert_eq!(store.messages(next).unwrap().len(), 2);
    drop(second);
}

#[test]
fn deleting_from_a_file_that_cannot_be_written_is_an_error_and_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let id = store.append(&line(1, "a"));
    forbid_writes(&store);
    assert_eq!(store.delete(id).unwrap_err().kind, StoreErrorKind::Access);
    assert!(store.clear().is_err());
    assert!(store.prune(0).is_err());
    allow_writes(&store);
    assert_eq!(store.count().unwrap(), 1);
    assert!(store.clear().is_ok());
}

#[test]
fn a_failed_read_is_reported_once_in_a_session() {
    let mut store = filled(&[(1, "a")]);
    store.main.execute_batch("DROP TABLE history").unwrap();
    for has_problem in [true, false] {
        let problem = store.recent(1).unwrap_err();
        store.note_read_problem(problem);
        assert_eq!(store.take_problem().is_some(), has_problem);
    }
}

/// A database of the first release, with a conversation in it.
fn of_version_1(path: &Path) {
    let mut connection = Connection::open(path).unwrap();
    schema::apply(&mut connection, 1).unwrap();
    connection
        .execute_batch(
            "INSERT INTO conversation (started, model) VALUES (5, 'old');
             INSERT INTO message (conversation, seq, time, role, content, state) VALUES
                 (1, 1, 6, 'user', 'what is a shell?', 'complete'), (1, 2, 7, 'assistant', 'A husk.', 'complete'),
                 (1, 3, 8, 'user', 'and now?', 'complete'), (1, 4, 8, 'assistant', '', 'partial');",
        )
        .unwrap();
}

#[test]
fn conversations_of_an_older_database_are_listed_found_and_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    of_version_1(&dir.path().join(FILE_NAME));
    let mut store = Store::open(dir.path()).unwrap();
    let old = store.conversations(5).unwrap().remove(0);
    assert_eq!((old.title.as_str(), old.updated, old.turns, old.parent), ("what is a shell?", 8, 2, None));
    assert_eq!(store.recall("husk", 5).unwrap()[0].conversation, old.id);
    let mut open = store.ask(old.id, 9, "next", Some("new"));
    store.push_piece(&mut open, "yes", 9);
    store.finish_message(open, MessageState::Complete, 9);
    let turns = store.turns(old.id).unwrap();
    let seen: Vec<_> = turns.iter().map(|turn| (turn.question.as_str(), turn.answer.as_str(), turn.state)).collect();
    let (whole, partial) = (MessageState::Complete, MessageState::Partial);
    assert_eq!(seen, [("what is a shell?", "A husk.", whole), ("and now?", "", partial), ("next", "yes", whole)]);
    assert_eq!(store.messages(old.id).unwrap()[5].model.as_deref(), Some("new"));
}

/// Asks and answers at once.
fn say(store: &mut Store, talk: ConversationId, time: i64, question: &str, answer: &str) {
    let mut open = store.ask(talk, time, question, None);
    store.push_piece(&mut open, answer, time);
    store.finish_message(open, MessageState::Complete, time);
}

fn questions(store: &Store, talk: ConversationId) -> Vec<String> {
    store.turns(talk).unwrap().into_iter().map(|turn| turn.question).collect()
}

#[test]
fn a_conversation_is_forked_rewound_and_named() {
    let mut store = Store::in_memory().unwrap();
    let first = store.begin_conversation(1, "m");
    for (time, question) in [(1, "one"), (2, "two\n  lines"), (3, "three")] {
        say(&mut store, first, time, question, "yes");
    }
    let second = store.begin_conversation(4, "m");
    say(&mut store, second, 4, "other", "yes");
    let fork = store.fork(first, 2, 5).unwrap();
    say(&mut store, fork, 6, "elsewhere", "yes");
    assert_eq!(questions(&store, fork), ["one", "two\n  lines", "elsewhere"]);
    assert_eq!(questions(&store, first).len(), 3);
    store.rewind(first, 1).unwrap();
    say(&mut store, first, 7, "again", "yes");
    assert_eq!(questions(&store, first), ["one", "again"]);
    let record: Vec<bool> = store.record(first).unwrap().iter().map(|stored| stored.rewound).collect();
    assert_eq!(record, [false, false, true, true, true, true, false, false]);
    assert!(store.set_title(second, "A name").unwrap());
    assert!(!store.set_title(ConversationId(99), "x").unwrap());
    let listed: Vec<_> = store.conversations(9).unwrap().into_iter().map(|it| (it.id, it.title, it.turns)).collect();
    assert_eq!(listed, [(first, "one".into(), 2), (fork, "one".into(), 3), (second, "A name".into(), 1)]);
    assert_eq!(store.conversation(fork).unwrap().unwrap().parent, Some((first, 2)));
    let counts = |asked, rewound, ended| TurnCounts { asked, rewound, ended };
    assert_eq!(store.turn_counts(first), Some(counts(4, 2, 4)));
    store.rewind(first, 0).unwrap();
    assert_eq!(questions(&store, first), [""; 0]);
    assert_eq!(store.turn_counts(first), Some(counts(4, 4, 4)));
    for (earlier, is_after) in [(counts(4, 3, 4), true), (counts(4, 4, 4), false), (counts(5, 4, 4), false)] {
        assert_eq!(counts(4, 4, 4).is_after(earlier), is_after, "{earlier:?}");
    }
}

#[test]
fn two_sessions_in_one_conversation_keep_each_question_with_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Store::open(dir.path()).unwrap(), Store::open(dir.path()).unwrap());
    let talk = one.begin_conversation(1, "m");
    let mut first = one.ask(talk, 1, "from one", None);
    let mut second = two.ask(talk, 2, "from two", None);
    for time in 0..20 {
        one.push_piece(&mut first, "a", time * 200);
        two.push_piece(&mut second, "b", time * 200);
    }
    two.finish_message(second, MessageState::Complete, 9_000);
    one.finish_message(first, MessageState::Complete, 9_000);
    for store in [&mut one, &mut two] {
        assert_eq!(store.take_problem(), None);
        let turns = store.turns(talk).unwrap();
        let seen: Vec<_> = turns.iter().map(|turn| (turn.question.as_str(), turn.answer.as_str())).collect();
        let (a, b) = ("a".repeat(20), "b".repeat(20));
        assert_eq!(seen, [("from one", a.as_str()), ("from two", b.as_str())]);
    }
}

#[test]
fn conversations_begun_forked_and_rewound_while_the_disk_fails_reach_it_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let old = store.begin_conversation(1, "m");
    say(&mut store, old, 1, "kept", "yes");
    say(&mut store, old, 2, "forked off", "yes");
    forbid_writes(&store);
    let new = store.begin_conversation(100, "m");
    assert_eq!(store.take_problem().unwrap().kind, StoreErrorKind::Access);
    say(&mut store, new, 100, "in memory", "meanwhile");
    say(&mut store, new, 101, "taken back", "meanwhile");
    let fork = store.fork(old, 1, 102).unwrap();
    say(&mut store, fork, 103, "further", "on");
    let fork_of_new = store.fork(new, 1, 104).unwrap();
    store.rewind(new, 1).unwrap();
    assert!(store.set_title(fork, "named").unwrap());
    assert!(store.set_title(old, "x").is_err() && store.rewind(old, 1).is_err());
    assert_eq!(store.take_problem(), None, "told once");
    let check = |store: &mut Store| {
        assert_eq!(questions(store, new), ["in memory"]);
        assert_eq!(questions(store, fork), ["kept", "further"]);
        assert_eq!(store.recall("meanwhile", 9).unwrap().len(), 2);
        assert_eq!(store.conversations(9).unwrap().len(), 4);
        assert_eq!(store.conversation(fork).unwrap().unwrap().title, "named");
    };
    check(&mut store);
    allow_writes(&store);
    store.append(&line(60_000, "later"));
    assert!(store.is_durable());
    check(&mut store);
    let mut after = Store::open(dir.path()).unwrap();
    let parents: Vec<_> = after.conversations(9).unwrap().into_iter().map(|it| (it.id, it.parent)).collect();
    let new_id = store.conversation(new).unwrap().unwrap().id;
    let fork_id = store.conversation(fork_of_new).unwrap().unwrap().id;
    assert!(parents.contains(&(fork_id, Some((new_id, 1)))), "{parents:?}");
    assert_eq!(after.recall("meanwhile", 9).unwrap().len(), 2);
    assert_eq!(after.record(new_id).unwrap().iter().filter(|stored| stored.rewound).count(), 2);
}

#[test]
fn a_disk_that_fills_up_during_an_answer_loses_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let talk = store.begin_conversation(0, "m");
    let mut open = store.ask(talk, 0, "q", None);
    let pages: i64 = store.main.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store.main.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    let mut problems = Vec::new();
    for time in 1..40 {
        store.push_piece(&mut open, &"word ".repeat(400), time * 200);
        problems.extend(store.take_problem());
    }
    store.finish_message(open, MessageState::Complete, 8_000);
    assert_eq!(problems.iter().map(|it| it.kind).collect::<Vec<_>>(), [StoreErrorKind::Full]);
    assert_eq!(store.turns(talk).unwrap()[0].answer.len(), 39 * 2_000);
    store.main.query_row("PRAGMA max_page_count = 100000", [], |_| Ok(())).unwrap();
    drop(store);
    let mut after = Store::open(dir.path()).unwrap();
    assert_eq!(after.turns(talk).unwrap()[0].answer.len(), 39 * 2_000);
    assert_eq!(after.recall("word", 5).unwrap().len(), 1);
}

#[test]
fn costs_outlive_a_full_disk_and_a_cleared_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let spent = |model: &str, tokens: u64| Spent {
        model: model.into(),
        kind: "openai-compatible".into(),
        host: "localhost".into(),
        tools: vec!["read".into(), "list".into()],
        usage: Usage { uncached_in: tokens, visible_out: 1, raw: "{}".into(), ..Usage::default() },
        ..Spent::default()
    };
    let talk = store.begin_conversation(1, "m");
    store.add_request_for(None, Some(talk), 2, &spent("a", 10), "deep");
    forbid_writes(&store);
    let new = store.begin_conversation(3, "m");
    store.add_request_for(None, Some(new), 4, &spent("b", 20), "");
    store.add_request_for(None, None, 5, &spent("c", u64::MAX), "");
    allow_writes(&store);
    store.append(&line(60_000, "later"));
    assert!(store.is_durable());
    let rows = |store: &Store| -> Vec<(i64, Option<i64>, String, i64, String, String)> {
        let sql = "SELECT time, conversation, concat_ws(' ', model, kind, host), uncached_in, tools, thoughts FROM request ORDER BY id";
        let mut select = store.main.prepare(sql).unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        };
        select.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let new = store.conversation(new).unwrap().unwrap().id;
    let tools = || "read\nlist".to_owned();
    let place = |model: &str| format!("{model} openai-compatible localhost");
    let expected = [
        (2, Some(talk.0), place("a"), 10, tools(), "deep".into()),
        (4, Some(new.0), place("b"), 20, tools(), String::new()),
        (5, None, place("c"), i64::MAX, tools(), String::new()),
    ];
    assert_eq!(rows(&store), expected);
    store.clear_conversations().unwrap();
    assert_eq!(rows(&store).iter().map(|row| (row.1, row.5.as_str())).collect::<Vec<_>>(), [(None, ""); 3]);
}

/// Only the newest 200 runs were searched.
#[test]
fn all_runs_that_have_not_finished_are_found_the_oldest_first() {
    let mut store = Store::in_memory().expect("a store");
    let new = NewRun { kind: "sop", name: "p", workspace: "/w", body: r#"{"event":"began"}"#, slot: None };
    let runs: Vec<i64> = (0..300).map(|_| store.begin_run(1, &new).expect("a run").expect("its number")).collect();
    store.add_run_event(runs[7], 2, r#"{"event":"finished","end":"done"}"#).expect("its end");
    let open: Vec<i64> = store.open_runs("sop").expect("they are read").iter().map(|run| run.id).collect();
    let expected: Vec<i64> = runs.iter().copied().filter(|run| *run != runs[7]).collect();
    assert_eq!(open, expected);
}
