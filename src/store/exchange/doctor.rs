//! Looks after the database's file: finds faults and saves the readable rows. It never deletes the original file.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params_from_iter};

use crate::store::{FILE_NAME, Permissions, Store, StoreError, schema};

/// Faults that one check lists at most.
const FAULTS_MAX: usize = 20;
/// The tables whose rows have a number of their own, and those that have none.
const NUMBERED: [&str; 7] = ["history", "conversation", "message", "request", "memory", "tool_call", "run"];
const UNNUMBERED: [&str; 8] = [
    "route_answer",
    "route_weight",
    "token_factor",
    "summary",
    "to_remember",
    "editor_session",
    "run_event",
    "run_fire",
];
/// The text indexes.
const INDEXES: [&str; 2] = ["history_text", "message_text"];

/// The findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkup {
    /// The content of the file, in words.
    pub facts: Vec<String>,
    /// The problems, one line each; none if all is well.
    pub faults: Vec<String>,
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Rows in the file afterwards.
    pub rows: u64,
    /// Rows that could not be read, if they can be counted.
    pub lost: u64,
    /// The new path of the damaged file; `None` if it stayed in place.
    pub damaged: Option<PathBuf>,
}

/// Checks the database in `dir`, and changes nothing.
#[must_use]
pub fn check(dir: &Path) -> Checkup {
    let path = dir.join(FILE_NAME);
    let mut found = Checkup::default();
    let Ok(data) = path.metadata() else {
        found.facts.push(format!("{}: not there yet; it is made with the first session", path.display()));
        return found;
    };
    if !data.is_file() {
        found.faults.push(format!("{} is not a regular file", path.display()));
        return found;
    }
    found.facts.push(format!("{}: {} KiB", path.display(), data.len().div_ceil(1024)));
    if !is_private(&path) {
        found.faults.push("others can read it (its mode should be 0600)".to_owned());
    }
    match open(&path).and_then(|connection| look(&connection, &mut found)) {
        Ok(()) => {}
        Err(problem) => found.faults.push(StoreError::sqlite("read", Some(&path), &problem).message),
    }
    found
}

/// Repairs the database in `dir`: its mode, its text indexes, and if the file itself is damaged, a new file with every
/// row that can still be read. The damaged file stays beside it, marked with `now` (Unix milliseconds).
///
/// # Errors
/// The file is of a newer ReedClaw, is locked, or can't be written: it is unchanged.
pub fn repair(dir: &Path, now: i64) -> Result<Repair, StoreError> {
    let path = dir.join(FILE_NAME);
    let io = |action: &'static str| {
        let path = path.clone();
        move |problem: std::io::Error| StoreError::io(action, &path, &problem)
    };
    if path.metadata().is_ok_and(|data| !data.is_file()) {
        return Err(StoreError::not_a_file(&path));
    }
    if path.exists() && !is_private(&path) {
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(io("make private"))?;
    }
    if !path.exists() || open(&path).and_then(|connection| is_sound(&connection)).unwrap_or(false) {
        let store = Store::open(dir)?;
        let rebuild = INDEXES.map(|index| format!("INSERT INTO {index}({index}) VALUES ('rebuild');")).concat();
        let rebuilt = store.main.execute_batch(&rebuild).and_then(|()| count(&store.main));
        let rows = rebuilt.map_err(|problem| store.fail("repair", &problem))?;
        return Ok(Repair { rows, lost: 0, damaged: None });
    }
    refuse_newer_or_locked(&path)?;
    let fresh = with_suffix(&path, &format!(".new-{now}"));
    crate::store::create_private(&fresh).map_err(io("make a new file beside"))?;
    let fail = |problem: rusqlite::Error| StoreError::sqlite("write", Some(&fresh), &problem);
    let mut target = Connection::open(&fresh).map_err(fail)?;
    schema::migrate(&mut target, &fresh)?;
    let lost = salvage(&path, &target).map_err(fail)?;
    let rows = count(&target).map_err(fail)?;
    target.close().map_err(|(_, problem)| fail(problem))?;
    let damaged = with_suffix(&path, &format!(".damaged-{now}"));
    for suffix in ["-wal", "-shm", ""] {
        let from = with_suffix(&path, suffix);
        if from.exists() {
            std::fs::rename(&from, with_suffix(&damaged, suffix)).map_err(io("put aside"))?;
        }
    }
    std::fs::rename(&fresh, &path).map_err(io("put in place"))?;
    Ok(Repair { rows, lost, damaged: Some(damaged) })
}

/// Reads what can be read of the database in `dir` into a store in memory, and counts the rows that can't.
///
/// # Errors
/// Only where SQLite itself can't start (no memory).
pub fn rescue(dir: &Path) -> Result<(Store, u64), StoreError> {
    let store = Store::in_memory()?;
    let lost = salvage(&dir.join(FILE_NAME), &store.main).map_err(|problem| store.fail("write", &problem))?;
    Ok((store, lost))
}

/// Opens the file without making, migrating or repairing anything.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_millis(schema::BUSY_TIMEOUT_MS))?;
    Ok(connection)
}

fn look(connection: &Connection, found: &mut Checkup) -> rusqlite::Result<()> {
    let version = schema::version(connection)?;
    if version > schema::VERSION {
        let newer = format!("it has format {version}; this program knows up to {}", schema::VERSION);
        found.faults.push(newer);
        return Ok(());
    }
    let mut select = connection.prepare(&format!("PRAGMA integrity_check({FAULTS_MAX})"))?;
    let lines = select.query_map([], |row| row.get::<_, String>(0))?;
    // The text indexes are checked below.
    let is_fault = |line: &String| line != "ok" && !line.to_lowercase().contains("fts5");
    found.faults.extend(lines.collect::<Result<Vec<_>, _>>()?.into_iter().filter(is_fault));
    let tables =
        [("history", "lines"), ("conversation", "conversations"), ("message", "messages"), ("tool_call", "tool calls")];
    for (table, what) in tables {
        if has_table(connection, table)? {
            let sql = format!("SELECT count(*) FROM {table}");
            let rows: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
            found.facts.push(format!("{what}: {rows}"));
        }
    }
    // The indexes are compared with their content; this is rolled back, since the check counts as a write.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for index in INDEXES {
        if has_table(connection, index)? {
            let sql = format!("INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)");
            // Messages that are still growing are left out of their index on purpose, so it is only checked for consistency.
            let sql = if index == "message_text" { sql.replace(", 1)", ", 0)") } else { sql };
            if let Err(problem) = connection.execute(&sql, []) {
                found.faults.push(format!("the text index {index} doesn't agree with its rows: {problem}"));
            }
        }
    }
    connection.execute_batch("ROLLBACK")
}

fn is_sound(connection: &Connection) -> rusqlite::Result<bool> {
    let mut found = Checkup::default();
    look(connection, &mut found)?;
    // An index can be rebuilt from its rows.
    Ok(found.faults.iter().all(|fault| fault.starts_with("the text index")))
}

/// A file that is whole, but not ours to replace.
fn refuse_newer_or_locked(path: &Path) -> Result<(), StoreError> {
    let locked = |problem: &rusqlite::Error| StoreError::sqlite("repair", Some(path), problem);
    let Ok(connection) = open(path) else { return Ok(()) };
    if let Ok(version) = schema::version(&connection)
        && version > schema::VERSION
    {
        return Err(StoreError::newer(path, version, schema::VERSION));
    }
    match connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
        Err(problem) if locked(&problem).kind == crate::store::StoreErrorKind::Locked => Err(locked(&problem)),
        _ => Ok(()),
    }
}

/// Copies every row that can be read; counts those that can't.
fn salvage(path: &Path, target: &Connection) -> rusqlite::Result<u64> {
    let Ok(source) = open(path) else { return Ok(0) };
    let mut lost = 0;
    target.execute_batch("BEGIN")?;
    for table in NUMBERED {
        let Some(columns) = common_columns(&source, target, table)? else { continue };
        let list = columns.join(", ");
        let marks = vec!["?"; columns.len()].join(", ");
        let mut insert = target.prepare(&format!("INSERT OR IGNORE INTO {table} ({list}) VALUES ({marks})"))?;
        let Ok(mut select) = source.prepare(&format!("SELECT {list} FROM {table} WHERE id = ?1")) else { continue };
        for id in 1..=last_id(&source, table) {
            let row = select.query_row([id], |row| (0..columns.len()).map(|at| row.get(at)).collect());
            match row.optional() {
                Ok(None) => {}
                Ok::<Option<Vec<Value>>, _>(Some(values)) if insert.execute(params_from_iter(&values)).is_ok() => {}
                _ => lost += 1,
            }
        }
    }
    for table in UNNUMBERED {
        let Some(columns) = common_columns(&source, target, table)? else { continue };
        let (list, marks) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
        let mut insert = target.prepare(&format!("INSERT OR IGNORE INTO {table} ({list}) VALUES ({marks})"))?;
        let Ok(mut select) = source.prepare(&format!("SELECT {list} FROM {table}")) else { continue };
        let rows =
            select.query_map([], |row| (0..columns.len()).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>());
        for values in rows?.map_while(Result::ok) {
            insert.execute(params_from_iter(values))?;
        }
    }
    target.execute_batch("UPDATE message SET indexed = 1 WHERE content != ''; COMMIT")?;
    Ok(lost)
}

/// The columns that both databases have, except the mark of the text index, which is rebuilt.
fn common_columns(source: &Connection, target: &Connection, table: &str) -> rusqlite::Result<Option<Vec<String>>> {
    let columns = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
        connection.prepare("SELECT name FROM pragma_table_info(?1)")?.query_map([table], |row| row.get(0))?.collect()
    };
    let Ok(theirs) = columns(source) else { return Ok(None) };
    let common: Vec<String> =
        columns(target)?.into_iter().filter(|name| name != "indexed" && theirs.contains(name)).collect();
    Ok((!common.is_empty()).then_some(common))
}

/// The greatest number that a table has ever assigned, from whichever page still has it.
fn last_id(source: &Connection, table: &str) -> i64 {
    let by_rows = source.query_row(&format!("SELECT coalesce(max(id), 0) FROM {table}"), [], |row| row.get(0));
    let by_sequence = source.query_row("SELECT seq FROM sqlite_sequence WHERE name = ?1", [table], |row| row.get(0));
    by_rows.unwrap_or(0).max(by_sequence.unwrap_or(0))
}

fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = NUMBERED.map(|table| format!("(SELECT count(*) FROM {table})")).join(" + ");
    connection.query_row(&format!("SELECT {sql}"), [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
}

fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?1)", [name], |row| row.get(0))
}

fn is_private(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.permissions().mode() & 0o077 == 0)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::proto::LineKind;
    use crate::store::{Entry, MessageState, StoreErrorKind};

    fn filled(dir: &Path, rows: i64) {
        let mut store = Store::open(dir).unwrap();
        let talk = store.begin_conversation(1, "m");
        for number in 0..rows {
            store.append(&Entry {
                time: number,
                session: 1,
                cwd: None,
                hostname: None,
                line: format!("echo line-{number}"),
                kind: LineKind::Command,
                status: None,
                duration_ms: None,
            });
            let mut open = store.ask(talk, number, &format!("question {number}"), None);
            store.push_piece(&mut open, &format!("answer {}", "word ".repeat(100)), number);
            store.finish_message(open, MessageState::Complete, number);
        }
    }

    #[test]
    fn a_sound_file_has_no_faults_and_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(dir.path()).faults, [""; 0], "none is there yet");
        filled(dir.path(), 5);
        let found = check(dir.path());
        assert_eq!(found.faults, [""; 0]);
        assert_eq!(found.facts[1..], ["lines: 5", "conversations: 1", "messages: 10", "tool calls: 0"]);
        assert_eq!(repair(dir.path(), 7).unwrap(), Repair { rows: 16, lost: 0, damaged: None });
    }

    #[test]
    fn an_open_mode_and_a_broken_text_index_are_reported_and_repaired() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 5);
        let path = dir.path().join(FILE_NAME);
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("DELETE FROM history_text_data WHERE id > 1; DELETE FROM message_text_data WHERE id > 1")
            .unwrap();
        drop(connection);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(check(dir.path()).faults.len(), 3, "{:?}", check(dir.path()));
        assert_eq!(repair(dir.path(), 7).unwrap().damaged, None);
        assert_eq!(check(dir.path()).faults, [""; 0]);
        assert_eq!(Store::open(dir.path()).unwrap().recall("question", 9).unwrap().len(), 5);
    }

    #[test]
    fn all_readable_rows_of_a_damaged_file_are_saved_and_the_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 300);
        let path = dir.path().join(FILE_NAME);
        let size = path.metadata().unwrap().len();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // Every ninth page from the middle on.
        for page in (size / 4096 / 2..size / 4096).step_by(9) {
            file.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
        }
        drop(file);
        assert!(!check(dir.path()).faults.is_empty());
        let (rescued, lost) = rescue(dir.path()).unwrap();
        assert!(lost > 0 && rescued.count().unwrap() > 100, "{lost}");
        let repaired = repair(dir.path(), 7).unwrap();
        assert!(repaired.rows > 300 && repaired.lost == lost, "{repaired:?}");
        assert_eq!(repaired.damaged, Some(dir.path().join(format!("{FILE_NAME}.damaged-7"))));
        assert!(repaired.damaged.unwrap().exists());
        assert_eq!(check(dir.path()).faults, [""; 0]);
        let mut store = Store::open(dir.path()).unwrap();
        assert!(!store.recall("question", 9).unwrap().is_empty());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_no_database_is_put_aside_and_a_newer_or_locked_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        std::fs::write(&path, [b'x'; 5_000]).unwrap();
        assert!(check(dir.path()).faults.iter().any(|fault| fault.contains("not a database")));
        assert_eq!(repair(dir.path(), 7).unwrap().rows, 0);
        assert_eq!(std::fs::read(with_suffix(&path, ".damaged-7")).unwrap(), [b'x'; 5_000]);

        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        assert_eq!(repair(dir.path(), 8).unwrap_err().kind, StoreErrorKind::Locked);
        other.execute_batch("ROLLBACK; PRAGMA user_version = 99").unwrap();
        drop(other);
        assert_eq!(repair(dir.path(), 9).unwrap_err().kind, StoreErrorKind::Newer);
        assert!(path.exists() && !with_suffix(&path, ".damaged-8").exists());
    }
}
