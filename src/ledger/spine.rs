//! The event log of each tenant: appended in one transaction under the head's row, so that positions have no gap; read in
//! pages that are complete prefixes.

use std::sync::PoisonError;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::sql::{Begin, Connection, OptionalExtension as _, Pool, Value as Sql, params};

use super::row::{COLUMNS, Event};
use super::{Ledger, LedgerError, now_text, stored_text, uuid_v7};
use crate::base::hash;
use crate::proto::team::{EventDraft, Identity};

/// Bytes of an event's content.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;

/// The version that a stream must have before an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The stream.
    pub stream: String,
    /// Its version; 0 if it must not exist.
    pub version: i64,
}

/// Place where an appended event is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its id.
    pub event_id: String,
    /// Its place in the log.
    pub position: i64,
    /// Its place in its stream.
    pub stream_version: i64,
    /// Stored already.
    pub is_duplicate: bool,
}

/// The selection of events to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this type.
    pub event_type: Option<String>,
    /// Only from this source.
    pub source: Option<String>,
    /// Only of this run.
    pub run_id: Option<String>,
    /// Only of this stream.
    pub stream: Option<String>,
    /// Only before this position.
    pub before: Option<i64>,
    /// Only stored at this time or later, RFC 3339 in UTC with milliseconds.
    pub from: Option<String>,
    /// Only stored before this time.
    pub to: Option<String>,
    /// Only of one of these streams or types, if any are named.
    pub any_streams: Vec<String>,
    /// The same by type.
    pub any_types: Vec<String>,
}

/// An append that waits for the connection.
pub(super) struct Waiting {
    who: Identity,
    drafts: Vec<EventDraft>,
    expected: Option<Expected>,
    answer: SyncSender<Result<Vec<Stored>, LedgerError>>,
}

/// Commits appends that have gathered, in one transaction. One that is refused doesn't touch the others; if the commit fails,
/// all of them fail. Adds the tenants whose logs have grown.
fn commit_together(pool: &Pool, waiting: Vec<Waiting>, grown: &mut Vec<String>) {
    if waiting.is_empty() {
        return;
    }
    let mut done = Vec::with_capacity(waiting.len());
    let committed = (|| -> Result<(), LedgerError> {
        let mut tenants: Vec<&str> = waiting.iter().map(|it| it.who.tenant.as_str()).collect();
        tenants.sort_unstable();
        tenants.dedup();
        let transaction = pool.begin(Begin::Write, &tenants)?;
        for it in &waiting {
            transaction.run("SAVEPOINT one")?;
            let stored = append_in(&transaction, &it.who, &it.drafts, it.expected.as_ref());
            match &stored {
                Ok(_) => transaction.run("RELEASE one")?,
                Err(_) => transaction.run("ROLLBACK TO one; RELEASE one")?,
            }
            done.push(stored);
        }
        Ok(transaction.finish()?)
    })();
    for (number, it) in waiting.into_iter().enumerate() {
        let result = match (&committed, done.get_mut(number)) {
            (Ok(()), Some(stored)) => std::mem::replace(stored, Ok(Vec::new())),
            (Err(error), _) => Err(error.clone()),
            (Ok(()), None) => Ok(Vec::new()),
        };
        let is_new = result.as_ref().is_ok_and(|stored| stored.iter().any(|it| !it.is_duplicate));
        if is_new && !grown.contains(&it.who.tenant) {
            grown.push(it.who.tenant.clone());
        }
        let _ = it.answer.send(result);
    }
}

impl Ledger {
    /// Appends events, all or none. An event whose id is there already keeps its place and is marked.
    ///
    /// # Errors
    /// A stream has another version than expected, an id was used for another event, a cause isn't in the log, a body is
    /// too long or has numbers that can't be stored, or the database fails.
    pub fn append(
        &self,
        who: &Identity,
        drafts: &[EventDraft],
        expected: Option<&Expected>,
    ) -> Result<Vec<Stored>, LedgerError> {
        let (answer, answered) = sync_channel(1);
        let waiting = Waiting { who: who.clone(), drafts: drafts.to_vec(), expected: expected.cloned(), answer };
        self.appends.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        let mut grown = Vec::new();
        {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = std::mem::take(&mut *self.appends.lock().unwrap_or_else(PoisonError::into_inner));
            commit_together(&self.pool, waiting, &mut grown);
        }
        if let Some(hint) = self.hint.get() {
            grown.iter().for_each(|tenant| hint(tenant));
        }
        // Taken by this thread, or by one that had the connection before.
        answered.recv().unwrap_or_else(|_| Err(LedgerError::Database("an append got no answer".into())))
    }

    /// Reads events after a position, oldest first: a complete prefix of those that pass the filter.
    ///
    /// # Errors
    /// The database fails.
    pub fn read(&self, who: &Identity, after: i64, filter: &Filter, limit: usize) -> Result<Vec<Event>, LedgerError> {
        let connection = self.view(&who.tenant)?;
        read_in(&connection, &who.tenant, after, filter, limit)
    }

    /// The position of the newest event, and the epoch of the tenant's log.
    ///
    /// # Errors
    /// The database fails.
    pub fn head(&self, who: &Identity) -> Result<(i64, i64), LedgerError> {
        let connection = self.view(&who.tenant)?;
        let epoch = connection.query_row("SELECT epoch FROM tenant WHERE tenant = ?1", [&who.tenant], |row| row.get(0));
        Ok((super::head(&connection, &who.tenant)?, epoch.optional()?.unwrap_or(1)))
    }

    /// The position of an event with this id.
    ///
    /// # Errors
    /// There is none in this tenant, or the database fails.
    pub fn position_of(&self, who: &Identity, event_id: &str) -> Result<i64, LedgerError> {
        let sql = "SELECT position FROM event WHERE tenant = ?1 AND event_id = ?2";
        let found =
            self.view(&who.tenant)?.query_row(sql, params![who.tenant, event_id], |row| row.get(0)).optional()?;
        found.ok_or(LedgerError::NotFound)
    }
}

pub(super) fn read_in(
    connection: &Connection,
    tenant: &str,
    after: i64,
    filter: &Filter,
    limit: usize,
) -> Result<Vec<Event>, LedgerError> {
    let mut sql = format!("SELECT {COLUMNS} FROM event WHERE tenant = ? AND position > ?");
    let mut values = vec![Sql::Text(tenant), Sql::Int(after)];
    let texts = [
        (" AND event_type = ?", &filter.event_type),
        (" AND source = ?", &filter.source),
        (" AND run_id = ?", &filter.run_id),
        (" AND stream = ?", &filter.stream),
        (" AND recorded_at >= ?", &filter.from),
        (" AND recorded_at < ?", &filter.to),
    ];
    for (condition, value) in texts {
        if let Some(value) = value {
            sql.push_str(condition);
            values.push(Sql::Text(value));
        }
    }
    let any: Vec<String> = [("stream", &filter.any_streams), ("event_type", &filter.any_types)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(column, names)| format!("{column} IN ({})", vec!["?"; names.len()].join(", ")))
        .collect();
    if !any.is_empty() {
        sql.push_str(&format!(" AND ({})", any.join(" OR ")));
        values.extend(filter.any_streams.iter().chain(&filter.any_types).map(|text| Sql::Text(text)));
    }
    if let Some(before) = filter.before {
        sql.push_str(" AND position < ?");
        values.push(Sql::Int(before));
    }
    sql.push_str(" ORDER BY position LIMIT ?");
    values.push(Sql::Int(i64::try_from(limit).unwrap_or(i64::MAX)));
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(values.as_slice(), Event::from_row)?;
    Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
}

/// The hash before the first event: that of the tenant and of the database's id.
pub(super) fn genesis(connection: &Connection, tenant: &str) -> Result<String, LedgerError> {
    let system: String = connection.query_row("SELECT system_id FROM instance", params![], |row| row.get(0))?;
    Ok(hash::sha256_hex(format!("{tenant}\0{system}").as_bytes()))
}

/// Appends within a transaction that may change rows, too.
pub(super) fn append_in(
    transaction: &Connection,
    who: &Identity,
    drafts: &[EventDraft],
    expected: Option<&Expected>,
) -> Result<Vec<Stored>, LedgerError> {
    let tenant = &who.tenant;
    let head: Option<(i64, String)> = transaction
        .prepare_cached("SELECT position, hash FROM head WHERE tenant = ?1")?
        .query_row([tenant], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (mut position, mut previous_hash) = match head {
        Some(head) => head,
        None => (0, genesis(transaction, tenant)?),
    };
    let recorded_at = now_text(transaction)?;
    let mut stored = Vec::with_capacity(drafts.len());
    let mut is_checked = expected.is_none();
    for draft in drafts {
        let body = stored_text(&draft.body)?;
        if body.len() > BODY_BYTES_MAX && draft.source != "engine" && draft.event_type != "canvas_commit" {
            return Err(LedgerError::Invalid(format!("a body has at most {BODY_BYTES_MAX} bytes")));
        }
        if let Some(there) = duplicate(transaction, who, draft, &body)? {
            stored.push(there);
            continue;
        }
        if let Some(expected) = expected.filter(|_| !is_checked) {
            check_version(transaction, tenant, expected)?;
            is_checked = true;
        }
        check_cause(transaction, tenant, draft)?;
        let stream = draft.stream.clone().unwrap_or_else(|| stream_of(who, draft));
        position += 1;
        let event = Event {
            tenant: tenant.clone(),
            position,
            event_id: draft.event_id.clone().unwrap_or_else(uuid_v7),
            stream_version: version(transaction, tenant, &stream)? + 1,
            stream,
            event_type: draft.event_type.clone(),
            source: draft.source.clone(),
            project: who.project.clone(),
            actor: who.user.clone(),
            ids: ids(who, draft),
            recorded_at: recorded_at.clone(),
            body,
            previous_hash: previous_hash.clone(),
            hash: String::new(),
        };
        let event = Event { hash: event.computed_hash(None)?, ..event };
        insert(transaction, &event)?;
        transaction.grow();
        previous_hash.clone_from(&event.hash);
        let Event { event_id, position, stream_version, .. } = event;
        stored.push(Stored { event_id, position, stream_version, is_duplicate: false });
    }
    transaction
        .prepare_cached(
            "INSERT INTO head VALUES (?1, ?2, ?3) ON CONFLICT (tenant) DO UPDATE SET position = ?2, hash = ?3",
        )?
        .execute(params![tenant, position, previous_hash])?;
    Ok(stored)
}

/// The stream of an event whose draft names none: that of its run.
fn stream_of(who: &Identity, draft: &EventDraft) -> String {
    let run = draft.run_id.as_ref().or(who.run_id.as_ref());
    run.map_or_else(|| format!("project/{}", who.project), |run| format!("run/{run}"))
}

fn ids(who: &Identity, draft: &EventDraft) -> Vec<(&'static str, String)> {
    let all = [
        ("run_id", draft.run_id.as_ref().or(who.run_id.as_ref())),
        ("step_id", draft.step_id.as_ref().or(who.step_id.as_ref())),
        ("trace_id", draft.trace_id.as_ref().or(Some(&who.trace_id))),
        ("request_id", Some(&who.request_id)),
        ("surface_id", who.surface_id.as_ref()),
        ("app_id", who.app_id.as_ref()),
        ("causation_id", draft.causation_id.as_ref()),
        ("correlation_id", draft.correlation_id.as_ref()),
        ("occurred_at", draft.occurred_at.as_ref()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?.clone()))).collect()
}

/// The place of an event whose id is there already.
fn duplicate(
    transaction: &Connection,
    who: &Identity,
    draft: &EventDraft,
    body: &str,
) -> Result<Option<Stored>, LedgerError> {
    let Some(event_id) = &draft.event_id else { return Ok(None) };
    let sql = format!("SELECT {COLUMNS} FROM event WHERE tenant = ?1 AND event_id = ?2");
    let found =
        transaction.prepare_cached(&sql)?.query_row(params![who.tenant, event_id], Event::from_row).optional()?;
    let Some(there) = found else { return Ok(None) };
    let is_same = there.event_type == draft.event_type
        && there.source == draft.source
        && there.body == body
        && there.actor == who.user
        && draft.stream.as_ref().is_none_or(|stream| *stream == there.stream);
    if !is_same {
        return Err(LedgerError::IdempotencyMismatch(format!("the event id {event_id}")));
    }
    let Event { event_id, position, stream_version, .. } = there;
    Ok(Some(Stored { event_id, position, stream_version, is_duplicate: true }))
}

fn check_version(transaction: &Connection, tenant: &str, expected: &Expected) -> Result<(), LedgerError> {
    let actual = version(transaction, tenant, &expected.stream)?;
    if actual == expected.version {
        return Ok(());
    }
    Err(LedgerError::WrongExpectedVersion { stream: expected.stream.clone(), expected: expected.version, actual })
}

fn check_cause(transaction: &Connection, tenant: &str, draft: &EventDraft) -> Result<(), LedgerError> {
    let Some(cause) = &draft.causation_id else { return Ok(()) };
    let sql = "SELECT 1 FROM event WHERE tenant = ?1 AND event_id = ?2";
    let found = transaction.prepare_cached(sql)?.exists(params![tenant, cause])?;
    if found { Ok(()) } else { Err(LedgerError::Invalid(format!("the cause {cause} isn't in the log"))) }
}

/// The version of a stream; 0 if it doesn't exist.
pub(super) fn version(connection: &Connection, tenant: &str, stream: &str) -> Result<i64, LedgerError> {
    let sql = "SELECT version FROM stream WHERE tenant = ?1 AND stream = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![tenant, stream], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn insert(transaction: &Connection, event: &Event) -> Result<(), LedgerError> {
    let sql = format!(
        "INSERT INTO event ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
         ?17, ?18, ?19, ?20, ?21, ?22)"
    );
    transaction.prepare_cached(&sql)?.execute(params![
        event.tenant,
        event.position,
        event.event_id,
        event.stream,
        event.stream_version,
        event.event_type,
        event.source,
        event.project,
        event.actor,
        event.recorded_at,
        event.body,
        event.previous_hash,
        event.hash,
        event.id("run_id"),
        event.id("step_id"),
        event.id("trace_id"),
        event.id("request_id"),
        event.id("surface_id"),
        event.id("app_id"),
        event.id("causation_id"),
        event.id("correlation_id"),
        event.id("occurred_at"),
    ])?;
    let sql = "INSERT INTO stream VALUES (?1, ?2, ?3) ON CONFLICT (tenant, stream) DO UPDATE SET version = ?3";
    transaction.prepare_cached(sql)?.execute(params![event.tenant, event.stream, event.stream_version])?;
    Ok(())
}
