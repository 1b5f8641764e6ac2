//! The event log of each tenant: appended in one transaction under the head's row, so that positions have no gap; read in pages
//! that are complete prefixes, from a replica of the server for callers that accept slightly outdated ones.

mod batch;
mod gather;
pub(in crate::ledger) mod verify;

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::batch::{Batch, Prepared};
use super::sql::{Begin, Connection, OptionalExtension as _, Pool, Target, Value as Sql, params};

use super::more::anchor::Anchor;
use super::row::{COLUMNS, Event};
use super::{Ledger, LedgerError};
use crate::base::hash;
use crate::proto::team::{EventDraft, Identity};

pub(super) use gather::Gather;

/// Bytes of an event's content.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;

/// Time for which a replica that failed isn't asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// A replica of the database's server.
pub(in crate::ledger) struct Replica {
    pool: Pool,
    /// Time of its last failure.
    failed: Mutex<Option<Instant>>,
}

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
    /// True if it was stored before.
    pub is_duplicate: bool,
}

/// A page of a log for a follower.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The events.
    pub events: Vec<Event>,
    /// The position up to which the log was looked through.
    pub reached: i64,
    /// The epoch of the log.
    pub epoch: i64,
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

/// Events that are appended all or none, and the version that a stream must have.
pub(super) type Append = (Vec<Prepared>, Option<Expected>);

/// Commits of appended events, and how many events there were in them.
#[derive(Default)]
pub(super) struct Batches {
    commits: AtomicU64,
    events: AtomicU64,
}

impl Batches {
    fn committed(&self, events: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(events as u64, Ordering::Relaxed);
    }
}

/// The end of a commit: the tenants whose logs may have grown, and the memory of their events, which is freed after the turn.
#[derive(Default)]
struct Grown {
    tenants: Vec<String>,
    rows: Vec<Event>,
}

/// Commits the gathered appends in one transaction. An append that is refused doesn't affect the others; if the commit fails, all
/// of them fail.
fn commit_together(pool: &Pool, appends: Vec<Append>) -> (Vec<Appended>, Grown) {
    let count = appends.len();
    let mut tenants: Vec<String> =
        appends.iter().flat_map(|(drafts, _)| drafts).map(|draft| draft.tenant().to_owned()).collect();
    tenants.dedup();
    tenants.sort_unstable();
    tenants.dedup();
    match commit(pool, &tenants, appends) {
        Ok((done, rows)) => (done, Grown { tenants, rows }),
        Err(error) => (vec![Err(error); count], Grown::default()),
    }
}

/// The places of the events of one append.
pub(super) type Appended = Result<Vec<Stored>, LedgerError>;

/// The result of each append, and the events.
type Done = (Vec<Appended>, Vec<Event>);

fn commit(pool: &Pool, tenants: &[String], appends: Vec<Append>) -> Result<Done, LedgerError> {
    if tenants.is_empty() {
        return Ok((appends.iter().map(|_| Ok(Vec::new())).collect(), Vec::new()));
    }
    let names: Vec<&str> = tenants.iter().map(String::as_str).collect();
    let transaction = pool.begin(Begin::Write, &names)?;
    let known = appends.iter().map(|(drafts, expected)| (drafts.as_slice(), expected.as_ref()));
    let mut batch = Batch::read(&transaction, known)?;
    let done = appends.into_iter().map(|(drafts, expected)| batch.take(drafts, expected.as_ref())).collect();
    batch.write()?;
    let rows = batch.into_rows();
    transaction.finish()?;
    Ok((done, rows))
}

impl Ledger {
    /// Appends events, all or none. An event whose id exists already stays at its place and is marked.
    ///
    /// # Errors
    /// A stream has another version than expected, an id was used for another event, a cause isn't in the log, a body is
    /// too long or has numbers that can't be stored, the lease of the work is lost, or the database fails.
    pub fn append(
        &self,
        who: &Identity,
        drafts: &[EventDraft],
        expected: Option<&Expected>,
    ) -> Result<Vec<Stored>, LedgerError> {
        // Work that needs no connection is done before the turn, by each writer at the same time.
        let drafts = Prepared::all(who, drafts)?;
        let mut grown = Grown::default();
        let stored = self.appends.add((drafts, expected.cloned()), |appends| {
            let (done, all) = commit_together(&self.pool, appends);
            grown = all;
            if done.iter().any(|it| matches!(it, Err(LedgerError::Database(_)))) {
                self.health.failed();
            } else if !grown.rows.is_empty() {
                self.health.wrote();
                self.batches.committed(grown.rows.len());
            }
            done
        });
        if let Some(hint) = self.hint.get() {
            grown.tenants.iter().for_each(|tenant| hint(tenant));
        }
        let stored = stored.unwrap_or_else(|| Err(LedgerError::Database("an append got no answer".into())));
        stored.inspect_err(|error| self.leases().refused(&who.tenant, error))
    }

    /// Commits of appended events by this process, and how many events there were in them.
    #[must_use]
    pub fn batches(&self) -> (u64, u64) {
        (self.batches.commits.load(Ordering::Relaxed), self.batches.events.load(Ordering::Relaxed))
    }

    /// Reads events after a position, oldest first: a complete prefix of those that pass the filter.
    ///
    /// # Errors
    /// The database fails.
    pub fn read(&self, who: &Identity, after: i64, filter: &Filter, limit: usize) -> Result<Vec<Event>, LedgerError> {
        let connection = self.view(&who.tenant)?;
        read_in(&connection, &who.tenant, after, filter, limit)
    }

    /// Reads a page as [`Self::read`] does, with the further state that a follower of the log needs.
    ///
    /// # Errors
    /// The database fails.
    pub fn page(&self, who: &Identity, after: i64, filter: &Filter, limit: usize) -> Result<Page, LedgerError> {
        let connection = self.view(&who.tenant)?;
        let events = read_in(&connection, &who.tenant, after, filter, limit)?;
        let reached = match events.last() {
            Some(last) if events.len() == limit => last.position,
            _ => super::head(&connection, &who.tenant)?.max(after),
        };
        Ok(Page { events, reached, epoch: epoch(&connection, &who.tenant)? })
    }

    /// The position of the newest event, the epoch of the tenant's log, and the position after which it begins.
    ///
    /// # Errors
    /// The database fails.
    pub fn head(&self, who: &Identity) -> Result<(i64, i64, i64), LedgerError> {
        let connection = self.view(&who.tenant)?;
        let first = Anchor::of(&connection, &who.tenant)?.map_or(0, |anchor| anchor.position);
        Ok((super::head(&connection, &who.tenant)?, epoch(&connection, &who.tenant)?, first))
    }

    /// The position of the newest event of a tenant.
    ///
    /// # Errors
    /// The database fails.
    pub fn positions(&self, tenant: &str) -> Result<i64, LedgerError> {
        super::head(&*self.view(tenant)?, tenant)
    }

    /// Sets a replica of the server. Later calls have no effect.
    pub fn follow(&self, replica: Target) {
        let pool = Pool::new(replica, self.pool.node().to_owned());
        let _ = self.replica.set(Replica { pool, failed: Mutex::default() });
    }

    /// Reads events as [`Self::read`] does, from the replica if there is one and it is far enough. Returns whether the replica
    /// was used; `None` without one.
    ///
    /// # Errors
    /// The database fails.
    pub fn read_behind(
        &self,
        who: &Identity,
        after: i64,
        filter: &Filter,
        limit: usize,
    ) -> Result<(Vec<Event>, Option<bool>), LedgerError> {
        let Some(replica) = self.replica.get() else { return Ok((self.read(who, after, filter, limit)?, None)) };
        if replica.failed.lock().is_none_or(|at| at.elapsed() >= AGAIN) {
            let now = self.head(who)?.1;
            match replica.read(who, (now, after), filter, limit) {
                Ok(Some(events)) => return Ok((events, Some(true))),
                Ok(None) => {}
                Err(error) => {
                    *replica.failed.lock() = Some(Instant::now());
                    tracing::warn!(event = "replica_failed", error = %error);
                }
            }
        }
        Ok((self.read(who, after, filter, limit)?, Some(false)))
    }
}

impl Replica {
    /// Reads events, unless its log is of another epoch or ends before the position.
    fn read(
        &self,
        who: &Identity,
        (now, after): (i64, i64),
        filter: &Filter,
        limit: usize,
    ) -> Result<Option<Vec<Event>>, LedgerError> {
        let connection = self.pool.begin(Begin::Read, &[&who.tenant])?;
        if epoch(&connection, &who.tenant)? != now || super::head(&connection, &who.tenant)? < after {
            return Ok(None);
        }
        read_in(&connection, &who.tenant, after, filter, limit).map(Some)
    }
}

fn epoch(connection: &Connection, tenant: &str) -> Result<i64, LedgerError> {
    let found = connection.query_row("SELECT epoch FROM tenant WHERE tenant = ?1", [tenant], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(1))
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
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    let drafts = Prepared::all(who, drafts)?;
    let mut batch = Batch::read(transaction, std::iter::once((drafts.as_slice(), expected)))?;
    let stored = batch.take(drafts, expected)?;
    batch.write()?;
    Ok(stored)
}
