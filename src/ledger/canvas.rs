//! Canvases in the log: a command becomes one event with its operations and the hash of the resulting state. Snapshots are a
//! shortcut, and are used only if the log confirms them.

use super::sql::{Connection, OptionalExtension as _, Row, params};
use std::sync::Arc;

use serde_json::{Value, json};

use super::more::anchor::base;
use super::row::Event;
use super::spine::verify::Broken;
use super::spine::{append_in, read_in};
use super::{Filter, Ledger, LedgerError, now_ms};
use crate::base::canonical::canonical;
use crate::base::hash;
use crate::canvas::{self, State};
use crate::proto::team::{EventDraft, Identity};

/// Revisions between two snapshots.
const SNAPSHOT_EVERY: i64 = 200;
/// Operations of a recovery.
const RECOVERY_OPS_MAX: usize = 500;
/// Bytes of a recovery.
const RECOVERY_BYTES_MAX: usize = 256 * 1024;
/// Events of a page while a canvas is folded.
const PAGE: usize = 1_000;
/// The type of a commit.
const COMMIT: &str = "canvas_commit";

/// A change that a client wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The revision that the client knows.
    pub base_rev: i64,
    /// The operations.
    pub ops: Vec<Value>,
    /// The key by which the command may be repeated.
    pub key: String,
    /// `true` if it may be applied to a newer revision that has the same places unchanged.
    pub may_merge: bool,
    /// `ui` or `agent`.
    pub source: &'static str,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Committed {
    /// The answer, and whether it existed before.
    Done(Value, bool),
    /// The canvas is newer.
    Conflict {
        /// Its revision.
        head_rev: i64,
        /// The operations in between; none if there are too many.
        recovery_ops: Option<Vec<Value>>,
    },
    /// The client claims a revision that doesn't exist.
    Ahead(i64),
    /// An operation can't be applied.
    Invalid(canvas::OpError),
}

/// The current state of a canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its state.
    pub state: Arc<State>,
    /// The position of the newest commit.
    pub position: i64,
    /// The hash of the state.
    pub state_hash: String,
}

/// Canvases.
pub struct Canvases<'l>(pub(in crate::ledger) &'l Ledger);

impl Canvases<'_> {
    /// Commits a command; the first one makes the canvas.
    ///
    /// # Errors
    /// The canvas belongs to another project, the key was used for other operations, or the database fails.
    pub fn command(&self, who: &Identity, id: &str, command: &Command) -> Result<Committed, LedgerError> {
        let ops = canonical(&Value::from(command.ops.clone()), super::DEPTH_MAX)
            .map_err(|error| LedgerError::Invalid(error.to_string()))?;
        let request_hash = hash::sha256_hex(ops.as_bytes());
        let kind = format!("canvas:{id}");
        let mut latest = None;
        let committed = self.0.write(&who.tenant, |transaction| {
            if let Some(answer) = repeated(transaction, who, &kind, &command.key, &request_hash)? {
                return Ok(Committed::Done(answer, true));
            }
            let known = self.current(transaction, who, id)?;
            let state = known.map(|it| it.state).unwrap_or_default();
            if command.base_rev > state.rev {
                return Ok(Committed::Ahead(state.rev));
            }
            let is_late = command.base_rev < state.rev;
            if is_late {
                let since = last_ops(transaction, who, id, state.rev - command.base_rev)?;
                let is_apart = canvas::is_disjoint(&canvas::touched(&command.ops), &canvas::touched(&since));
                if !(command.may_merge && is_apart && canvas::fold(&state, &command.ops).is_ok()) {
                    return Ok(Committed::Conflict { head_rev: state.rev, recovery_ops: recovery(since) });
                }
            }
            let checked = |next: State| canvas::check_kinds(&next, &command.ops).map(|()| next);
            match canvas::fold(&state, &command.ops).and_then(checked) {
                Err(error) => Ok(Committed::Invalid(error)),
                Ok(next) => {
                    let state_hash = next.hash();
                    let (answer, position) = commit(transaction, who, id, command, (&next, &state_hash, is_late))?;
                    let sql = "INSERT INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5, 'done', 200, ?6, ?7, NULL)";
                    let now = now_ms(transaction)?;
                    let text = answer.to_string();
                    transaction
                        .execute(sql, params![who.tenant, kind, command.key, who.user, request_hash, text, now])?;
                    latest = Some((Arc::new(next), position, state_hash));
                    Ok(Committed::Done(answer, false))
                }
            }
        })?;
        // Only a durable state may be cached in memory.
        if let Some(latest) = latest {
            self.0.boards.put(&who.tenant, id, latest);
        }
        Ok(committed)
    }

    /// Checks that a canvas belongs to this project, or doesn't exist.
    ///
    /// # Errors
    /// It belongs to another project, or the database fails.
    pub fn check_canvas(&self, who: &Identity, id: &str) -> Result<(), LedgerError> {
        let sql = "SELECT project FROM canvas WHERE tenant = ?1 AND canvas_id = ?2";
        let project: Option<String> =
            self.0.view(&who.tenant)?.query_row(sql, params![who.tenant, id], |row| row.get(0)).optional()?;
        if project.is_none_or(|project| project == who.project) { Ok(()) } else { Err(LedgerError::NotFound) }
    }

    /// A canvas as it is now.
    ///
    /// # Errors
    /// The project has no such canvas, or the database fails.
    pub fn canvas(&self, who: &Identity, id: &str) -> Result<Snapshot, LedgerError> {
        let (position, state_hash) = newest(&*self.0.view(&who.tenant)?, who, id)?.ok_or(LedgerError::NotFound)?;
        let known = self.0.boards.get(&who.tenant, id);
        if let Some((state, ..)) = known.filter(|(_, at, hash)| (*at, hash) == (position, &state_hash)) {
            return Ok(Snapshot { state, position, state_hash });
        }
        // A wrong snapshot is removed on the way, so this may write.
        let found = self.0.write(&who.tenant, |transaction| self.current(transaction, who, id))?;
        found.ok_or(LedgerError::NotFound)
    }

    /// The canvases of a project by name, from the one after `after` on, at most `limit`: names and revisions.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self, who: &Identity, after: &str, limit: usize) -> Result<Vec<(String, i64)>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        let sql = "SELECT canvas_id, rev FROM canvas WHERE tenant = ?1 AND project = ?2 AND canvas_id > ?3 \
                   ORDER BY canvas_id LIMIT ?4";
        let mut statement = connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![who.tenant, who.project, after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// The newest state: that in memory or the newest snapshot that the log confirms, and the commits after it.
    fn current(&self, transaction: &Connection, who: &Identity, id: &str) -> Result<Option<Snapshot>, LedgerError> {
        let Some((position, state_hash)) = newest(transaction, who, id)? else { return Ok(None) };
        let known = self.0.boards.get(&who.tenant, id).filter(|(_, at, _)| *at <= position);
        if let Some((state, at, hash)) = known {
            if (at, &hash) == (position, &state_hash) {
                return Ok(Some(Snapshot { state, position, state_hash }));
            }
            // Another gateway has changed it. A state that doesn't match the log is dropped.
            let state = Arc::new(folded(transaction, &who.tenant, id, (Arc::unwrap_or_clone(state), at))?);
            if state.hash() == state_hash {
                self.0.boards.put(&who.tenant, id, (state.clone(), position, state_hash.clone()));
                return Ok(Some(Snapshot { state, position, state_hash }));
            }
            self.0.boards.forget(&who.tenant, id);
        }
        let start = shortcut(transaction, who, id)?.unwrap_or_default();
        let state = Arc::new(folded(transaction, &who.tenant, id, start)?);
        if state.hash() == state_hash {
            self.0.boards.put(&who.tenant, id, (state.clone(), position, state_hash.clone()));
        }
        Ok(Some(Snapshot { state, position, state_hash }))
    }

    /// The canvases that have commits up to a position, or had some that were removed: each as it is, and the position of its
    /// newest commit.
    pub(super) fn boards_before(
        &self,
        transaction: &Connection,
        who: &Identity,
        last: i64,
    ) -> Result<Vec<(String, Arc<State>, i64)>, LedgerError> {
        let sql = "SELECT canvas_id, project FROM canvas WHERE tenant = ?1 ORDER BY canvas_id";
        let rows = transaction.prepare_cached(sql)?.query_map([&who.tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut found = Vec::new();
        for row in rows {
            let (id, project): (String, String) = row?;
            let sql = "SELECT 1 FROM event WHERE tenant = ?1 AND stream = ?2 AND position <= ?3 LIMIT 1";
            let is_old = transaction.prepare_cached(sql)?.exists(params![who.tenant, stream(&id), last])?;
            if is_old || base(transaction, &who.tenant, &id)?.is_some() {
                let who = Identity { project, ..who.clone() };
                let now = self.current(transaction, &who, &id)?;
                found.extend(now.map(|snapshot| (id, snapshot.state, snapshot.position)));
            }
        }
        Ok(found)
    }
}

/// Folds every canvas of a tenant from nothing, or from the state that replaces removed commits, and compares it with each
/// commit, row and snapshot.
pub(super) fn verify_canvases(connection: &Connection, tenant: &str) -> Result<Option<Broken>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT canvas_id, rev, state_hash FROM canvas WHERE tenant = ?1")?;
    let rows = statement.query_map([tenant], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for row in rows {
        let (id, rev, state_hash): (String, i64, String) = row?;
        let (mut state, mut position) = (State::default(), 0);
        if let Some(base) = base(connection, tenant, &id)? {
            let stored = stored(connection, tenant, &id, base.rev)?.map(|(state, _)| state);
            let Some(known) = stored.filter(|state| state.hash() == base.state_hash) else {
                let why = format!("the state of the canvas {id} that replaces removed commits doesn't match the log");
                return Ok(Some(Broken { position: base.position, why }));
            };
            (state, position) = (known, base.position);
        }
        for event in commits(connection, tenant, &id, position)? {
            position = event.position;
            let body = event.body();
            let ops = body["ops"].as_array().cloned().unwrap_or_default();
            let is_folded = canvas::fold_in(&mut state, &ops).is_ok() && body["state_hash"] == state.hash();
            if !is_folded {
                let why = format!("its operations don't give the state that it names (canvas {id})");
                return Ok(Some(Broken { position, why }));
            }
        }
        if (state.rev, state.hash()) != (rev, state_hash) {
            let why = format!("the row of the canvas {id} names another revision or hash than its log");
            return Ok(Some(Broken { position, why }));
        }
    }
    Ok(None)
}

fn repeated(
    transaction: &Connection,
    who: &Identity,
    kind: &str,
    key: &str,
    request_hash: &str,
) -> Result<Option<Value>, LedgerError> {
    let sql = "SELECT actor, request_hash, response FROM idempotency WHERE tenant = ?1 AND kind = ?2 AND key = ?3";
    let row = |row: &Row<'_>| -> crate::ledger::sql::Result<(String, String, String)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    };
    match transaction.query_row(sql, params![who.tenant, kind, key], row).optional()? {
        None => Ok(None),
        Some((actor, hash, response)) if actor == who.user && hash == request_hash => {
            Ok(Some(serde_json::from_str(&response).unwrap_or_default()))
        }
        Some(_) => Err(LedgerError::IdempotencyMismatch(format!("the key {key}"))),
    }
}

fn stream(id: &str) -> String {
    format!("canvas/{id}")
}

fn commits(connection: &Connection, tenant: &str, id: &str, after: i64) -> Result<Vec<Event>, LedgerError> {
    let filter = Filter { stream: Some(stream(id)), event_type: Some(COMMIT.into()), ..Filter::default() };
    let (mut all, mut after) = (Vec::new(), after);
    loop {
        let page = read_in(connection, tenant, after, &filter, PAGE)?;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.position;
        all.extend(page);
    }
}

/// The operations of the last `count` commits, oldest first.
fn last_ops(connection: &Connection, who: &Identity, id: &str, count: i64) -> Result<Vec<Value>, LedgerError> {
    let sql = "SELECT body FROM event WHERE tenant = ?1 AND stream = ?2 AND event_type = ?3 \
               ORDER BY stream_version DESC LIMIT ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![who.tenant, stream(id), COMMIT, count], |row| row.get::<String>(0))?;
    let mut bodies: Vec<String> = rows.collect::<crate::ledger::sql::Result<_>>()?;
    bodies.reverse();
    let body = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
    Ok(bodies.into_iter().map(body).flat_map(|body| body["ops"].as_array().cloned().unwrap_or_default()).collect())
}

fn recovery(ops: Vec<Value>) -> Option<Vec<Value>> {
    let bytes: usize = ops.iter().map(|op| op.to_string().len()).sum();
    (ops.len() <= RECOVERY_OPS_MAX && bytes <= RECOVERY_BYTES_MAX).then_some(ops)
}

/// A state and the commits after its position.
fn folded(
    connection: &Connection,
    tenant: &str,
    id: &str,
    (mut state, after): (State, i64),
) -> Result<State, LedgerError> {
    // The order is that of the index, by version; the rest of each event isn't needed.
    let sql = "SELECT stream_version, body FROM event WHERE tenant = ?1 AND stream = ?2 AND event_type = ?3 AND position > ?4 \
               AND stream_version > ?5 ORDER BY stream_version LIMIT ?6";
    let (stream, page) = (stream(id), i64::try_from(PAGE).unwrap_or(i64::MAX));
    let mut version = 0;
    loop {
        let mut statement = connection.prepare_cached(sql)?;
        let values = params![tenant, stream, COMMIT, after, version, page];
        let rows = statement.query_map(values, |row| Ok((row.get::<i64>(0)?, row.get::<String>(1)?)))?;
        let before = version;
        for row in rows {
            let (at, body) = row?;
            let mut body: Value = serde_json::from_str(&body).unwrap_or_default();
            let ops = body["ops"].take();
            canvas::fold_in(&mut state, ops.as_array().map_or(&[], Vec::as_slice))
                .map_err(|error| LedgerError::Database(format!("the canvas {id} can't be folded: {error}")))?;
            version = at;
        }
        if version == before {
            return Ok(state);
        }
    }
}

/// The position of a canvas's newest commit and the hash of its state; `None` if there is no such canvas.
fn newest(connection: &Connection, who: &Identity, id: &str) -> Result<Option<(i64, String)>, LedgerError> {
    let sql = "SELECT project, last_position, state_hash FROM canvas WHERE tenant = ?1 AND canvas_id = ?2";
    let row = |row: &Row<'_>| -> crate::ledger::sql::Result<(String, i64, String)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    };
    match connection.prepare_cached(sql)?.query_row(params![who.tenant, id], row).optional()? {
        Some((project, ..)) if project != who.project => Err(LedgerError::NotFound),
        found => Ok(found.map(|(_, position, state_hash)| (position, state_hash))),
    }
}

/// A stored snapshot and the position of its commit.
fn stored(
    connection: &Connection,
    tenant: &str,
    id: &str,
    rev: i64,
) -> Result<Option<(State, Option<i64>)>, LedgerError> {
    let sql = "SELECT atoms, position FROM canvas_snapshot WHERE tenant = ?1 AND canvas_id = ?2 AND rev = ?3";
    let row = |row: &Row<'_>| -> crate::ledger::sql::Result<(String, Option<i64>)> { Ok((row.get(0)?, row.get(1)?)) };
    let found = connection.query_row(sql, params![tenant, id, rev], row).optional()?;
    Ok(found.and_then(|(atoms, position)| {
        let atoms: Value = serde_json::from_str(&atoms).unwrap_or_default();
        Some((State::read(rev, &atoms)?, position))
    }))
}

/// Returns the newest snapshot and the position of its commit. A snapshot that the log doesn't confirm is removed.
fn shortcut(transaction: &Connection, who: &Identity, id: &str) -> Result<Option<(State, i64)>, LedgerError> {
    let sql = "SELECT max(rev) FROM canvas_snapshot WHERE tenant = ?1 AND canvas_id = ?2";
    let newest: Option<i64> = transaction.query_row(sql, params![who.tenant, id], |row| row.get(0))?;
    let Some(rev) = newest else { return Ok(None) };
    if let Some((state, Some(position))) = stored(transaction, &who.tenant, id, rev)? {
        let sql = "SELECT body FROM event WHERE tenant = ?1 AND stream = ?2 AND event_type = ?3 AND position = ?4";
        let values = params![who.tenant, stream(id), COMMIT, position];
        let logged: Option<String> = transaction.query_row(sql, values, |row| row.get(0)).optional()?;
        let (is_rev, state_hash) = match logged {
            Some(body) => {
                let body: Value = serde_json::from_str(&body).unwrap_or_default();
                (body["rev"] == rev, body["state_hash"].as_str().unwrap_or_default().to_owned())
            }
            // Its commit was removed, and the log has the state at that time.
            None => match base(transaction, &who.tenant, id)? {
                Some(base) => (base.rev == rev && base.position == position, base.state_hash),
                None => (false, String::new()),
            },
        };
        if is_rev && state_hash == state.hash() {
            return Ok(Some((state, position)));
        }
    }
    tracing::warn!(event = "snapshot_removed", rev);
    let sql = "DELETE FROM canvas_snapshot WHERE tenant = ?1 AND canvas_id = ?2 AND rev = ?3";
    transaction.execute(sql, params![who.tenant, id, rev])?;
    Ok(None)
}

fn commit(
    transaction: &Connection,
    who: &Identity,
    id: &str,
    command: &Command,
    (next, state_hash, is_merged): (&State, &str, bool),
) -> Result<(Value, i64), LedgerError> {
    let body = json!({"rev": next.rev, "base_rev": command.base_rev, "ops": command.ops, "state_hash": state_hash,
        "idempotency_key": command.key, "merged": is_merged});
    let draft = EventDraft {
        event_type: COMMIT.into(),
        source: command.source.into(),
        stream: Some(stream(id)),
        correlation_id: Some(command.key.clone()),
        body,
        ..EventDraft::default()
    };
    let stored = append_in(transaction, who, &[draft], None)?;
    let (event_id, position) = stored.into_iter().next().map(|it| (it.event_id, it.position)).unwrap_or_default();
    let sql = "INSERT INTO canvas VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tenant, canvas_id) \
               DO UPDATE SET rev = ?4, last_position = ?5, state_hash = ?6";
    transaction.execute(sql, params![who.tenant, id, who.project, next.rev, position, state_hash])?;
    if next.rev % SNAPSHOT_EVERY == 0 {
        let atoms = next.atoms_text();
        let sql = "INSERT INTO canvas_snapshot VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tenant, canvas_id, rev) \
                   DO UPDATE SET atoms = ?4, state_hash = ?5, position = ?6";
        transaction.execute(sql, params![who.tenant, id, next.rev, atoms, state_hash, position])?;
    }
    let mut answer = json!({"head_rev": next.rev, "applied_ops": command.ops, "event_id": event_id, "replayed": false});
    if is_merged {
        answer["merged"] = true.into();
    }
    Ok((answer, position))
}
