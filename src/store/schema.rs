//! The database's schema: connection settings and migrations, all in this one place. Knows no rows.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::StoreError;

/// Time limit of one statement for another session's lock: a person hardly notices, and the prompt never hangs.
pub const BUSY_TIMEOUT_MS: u64 = 250;

/// Each step takes a database from the version that is its index to the next one. Never edit a step that was
/// released; add one.
const MIGRATIONS: [&str; 12] = [
    V1,
    V2,
    V3,
    REQUESTS,
    CONTEXT,
    CALLS,
    ROUTE_FINGERPRINT,
    EDITOR_SESSIONS,
    RUNS,
    REQUEST_PLACE,
    PROCEDURES,
    EDITOR_DIRECTORIES,
];

/// The version of the schema that this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// `history_line` serves prefix and exact searches and the import's question "is it there already"; `history_text`
/// serves substrings of three characters or more. Order is time, then id, so that imported lines find their place.
const V1: &str = "
CREATE TABLE history (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    session INTEGER NOT NULL,
    cwd TEXT,
    hostname TEXT,
    line TEXT NOT NULL,
    kind TEXT NOT NULL,
    status INTEGER,
    duration_ms INTEGER
) STRICT;
CREATE INDEX history_time ON history(time);
CREATE INDEX history_line ON history(line, time);
CREATE INDEX history_cwd ON history(cwd, time);
CREATE INDEX history_session ON history(session, time);
CREATE INDEX history_kind ON history(kind, time);
CREATE VIRTUAL TABLE history_text USING fts5(line, content='history', content_rowid='id', tokenize='trigram');
CREATE TRIGGER history_added AFTER INSERT ON history BEGIN
    INSERT INTO history_text(rowid, line) VALUES (new.id, new.line);
END;
CREATE TRIGGER history_deleted AFTER DELETE ON history BEGIN
    INSERT INTO history_text(history_text, rowid, line) VALUES ('delete', old.id, old.line);
END;
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started INTEGER NOT NULL,
    model TEXT NOT NULL
) STRICT;
CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    state TEXT NOT NULL,
    UNIQUE (conversation, seq)
) STRICT;
";

/// The user's corrections of the router's decisions, and the resulting moves of the router's weights.
const V2: &str = "
CREATE TABLE route_answer (
    line TEXT PRIMARY KEY,
    time INTEGER NOT NULL,
    shell INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE route_weight (
    weight INTEGER PRIMARY KEY,
    steps INTEGER NOT NULL
) STRICT;
";

/// Stored conversations. `parent_turns` is the number of `parent`'s turns with which a conversation began. `rewound`
/// messages stay in the record and out of the conversation.
///
/// A message that still grows is not in the text index, since each piece would index it again: `indexed` marks those in
/// it, and the triggers respect the mark.
const V3: &str = "
ALTER TABLE conversation ADD COLUMN title TEXT;
ALTER TABLE conversation ADD COLUMN parent INTEGER;
ALTER TABLE conversation ADD COLUMN parent_turns INTEGER;
ALTER TABLE conversation ADD COLUMN updated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN rewound INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN model TEXT;
UPDATE conversation SET updated =
    coalesce((SELECT max(time) FROM message WHERE message.conversation = conversation.id), started);
CREATE INDEX conversation_updated ON conversation(updated);
CREATE INDEX message_unindexed ON message(id) WHERE indexed = 0;
CREATE VIRTUAL TABLE message_text USING fts5(content, content='message', content_rowid='id',
    tokenize='unicode61 remove_diacritics 2', prefix='2 3');
CREATE TRIGGER message_added AFTER INSERT ON message WHEN new.indexed BEGIN
    INSERT INTO message_text(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER message_finished AFTER UPDATE OF content, indexed ON message WHEN new.indexed AND NOT old.indexed BEGIN
    INSERT INTO message_text(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER message_changed AFTER UPDATE OF content ON message WHEN new.indexed AND old.indexed BEGIN
    INSERT INTO message_text(message_text, rowid, content) VALUES ('delete', old.id, old.content);
    INSERT INTO message_text(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER message_deleted AFTER DELETE ON message WHEN old.indexed BEGIN
    INSERT INTO message_text(message_text, rowid, content) VALUES ('delete', old.id, old.content);
END;
UPDATE message SET indexed = 1 WHERE content != '';
";

/// The cost of each request to a model. It isn't stored with messages: an answer may take several requests, and a fork
/// copies messages, but nothing is paid twice. The kinds of tokens don't overlap; `usage` is the server's report;
/// `tools` are names, one a line; `served_as` is the server's name for the model; `estimated_in` is the number counted
/// before sending; `cost` is in millionths of a millionth of a dollar, NULL if the price isn't known; the tokens of an
/// `estimate` were counted here, because the server reported none. `token_factor` is the ratio of a model's own count
/// to ours.
const REQUESTS: &str = "
CREATE TABLE request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    conversation INTEGER,
    model TEXT NOT NULL,
    served_as TEXT NOT NULL DEFAULT '',
    uncached_in INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    visible_out INTEGER NOT NULL,
    reasoning_out INTEGER NOT NULL,
    usage TEXT NOT NULL,
    tools TEXT NOT NULL,
    thoughts TEXT NOT NULL,
    estimated_in INTEGER,
    estimate INTEGER NOT NULL DEFAULT 0,
    cost INTEGER
) STRICT;
CREATE INDEX request_time ON request(time);
CREATE INDEX request_conversation ON request(conversation);
CREATE TABLE token_factor (
    model TEXT PRIMARY KEY,
    factor REAL NOT NULL,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Summaries of the first turns of a conversation, and memories beyond conversations. `place` is the directory or
/// repository that a memory belongs to, NULL if it belongs everywhere; a model's proposal waits with `taken` 0 until
/// the user accepts it. `reach` is how far it may go: 0 this machine, 1 the private network, 2 anywhere. `to_remember`
/// are conversations that ended and have no memory yet, with the model that answered.
const CONTEXT: &str = "
CREATE TABLE summary (
    conversation INTEGER PRIMARY KEY,
    turns INTEGER NOT NULL,
    time INTEGER NOT NULL,
    content TEXT NOT NULL
) STRICT;
CREATE TABLE memory (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    place TEXT,
    origin TEXT NOT NULL,
    conversation INTEGER,
    taken INTEGER NOT NULL,
    reach INTEGER NOT NULL,
    content TEXT NOT NULL
) STRICT;
CREATE TABLE to_remember (
    conversation INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    place TEXT,
    model TEXT NOT NULL,
    tries INTEGER NOT NULL
) STRICT;
";

/// The calls of tools for an answer. `message` is that answer; `arguments` and `result` are JSON, cut if they are long;
/// `receipt` is the id of the call's receipt.
const CALLS: &str = "
CREATE TABLE tool_call (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL,
    message INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    result TEXT NOT NULL,
    success INTEGER NOT NULL,
    receipt TEXT
) STRICT;
CREATE INDEX tool_call_conversation ON tool_call(conversation, message, seq);
CREATE INDEX tool_call_message ON tool_call(message, seq);
";

/// `fingerprint` identifies the router's weights that were moved: in other weights the features differ. For older rows
/// it is unknown. The default lets a repair copy rows from an older file.
const ROUTE_FINGERPRINT: &str = "
DROP TABLE route_weight;
CREATE TABLE route_weight (
    weight INTEGER PRIMARY KEY,
    steps INTEGER NOT NULL,
    fingerprint INTEGER NOT NULL DEFAULT 0
) STRICT;
";

/// The names by which editors know conversations, and the directory that each works in.
const EDITOR_SESSIONS: &str = "
CREATE TABLE editor_session (
    name TEXT PRIMARY KEY,
    conversation INTEGER NOT NULL UNIQUE,
    directory TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Runs towards a goal: a run is the fold of its events, which are only added. `run` and `category` of a request are the run
/// that it was made for, and the part of the work.
const RUNS: &str = "
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    workspace TEXT NOT NULL
) STRICT;
CREATE TABLE run_event (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
ALTER TABLE request ADD COLUMN run INTEGER;
ALTER TABLE request ADD COLUMN category TEXT;
CREATE INDEX request_run ON request(run) WHERE run IS NOT NULL;
";

/// Destination of each request: the protocol in the config's word for it, and the server's host; empty in rows from
/// before.
const REQUEST_PLACE: &str = "
ALTER TABLE request ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE request ADD COLUMN host TEXT NOT NULL DEFAULT '';
";

/// Runs of procedures, beside those towards goals: `kind` is `norris` or `sop`, and `name` is the procedure's. A row of
/// `run_fire` is a moment at which a trigger began a run, so that no moment begins two.
const PROCEDURES: &str = "
ALTER TABLE run ADD COLUMN kind TEXT NOT NULL DEFAULT 'norris';
ALTER TABLE run ADD COLUMN name TEXT NOT NULL DEFAULT '';
CREATE TABLE run_fire (
    place TEXT NOT NULL,
    slot TEXT NOT NULL,
    run INTEGER NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (place, slot)
) STRICT, WITHOUT ROWID;
";

/// The further directories of an editor's session, a JSON list of paths.
const EDITOR_DIRECTORIES: &str = "ALTER TABLE editor_session ADD COLUMN further TEXT NOT NULL DEFAULT '[]'";

/// Sets up a connection to a file: bounded waiting, write-ahead log, and deleted rows overwritten with zeros (a
/// line is often deleted because it held a secret).
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    // A database that is being made holds nothing to lose, and the first prompt needn't wait for the disk.
    let is_new = version(connection)? == 0;
    connection.pragma_update(None, "synchronous", if is_new { "OFF" } else { "NORMAL" })?;
    connection.pragma_update(None, "secure_delete", "ON")?;
    // A file system without shared memory answers with another mode: slower, as safe.
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())) {
            // Here SQLite doesn't wait for a lock. Another session is making the database, and changes the mode for all;
            // else the next one does.
            Err(problem) if problem.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Makes an empty database of the present version in memory.
pub(super) fn memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    apply(&mut connection, VERSION)?;
    Ok(connection)
}

/// Updates a database to the current version.
///
/// # Errors
/// It is newer than this program, or SQLite's.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let known = VERSION;
    let fail = |problem: rusqlite::Error| StoreError::sqlite("open", Some(path), &problem);
    let found = version(connection).map_err(fail)?;
    if !(0..=known).contains(&found) {
        return Err(StoreError::newer(path, found, known));
    }
    if found < known {
        apply(connection, known).map_err(fail)?;
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(fail)?;
    }
    Ok(())
}

/// Applies the missing steps, under the write lock.
pub(super) fn apply(connection: &mut Connection, known: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another session may have been here first.
    let found = version(&transaction)?;
    let steps = MIGRATIONS.iter().zip(1..).filter(|(_, version)| (found + 1..=known).contains(version));
    for (step, version) in steps {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()
}

pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}
