//! Events that one transaction appends: decided in memory against what was read of the logs at once, then written together. A
//! batch has the same few statements whether it has one event or two hundred.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{BODY_BYTES_MAX, Expected, Stored, genesis};
use crate::base::hash;
use crate::ledger::row::{COLUMNS, Event, Pieces, WIDTH};
use crate::ledger::sql::{Connection, Query, Value as Sql};
use crate::ledger::{LedgerError, stored_text, utc_ms, uuids_v7};
use crate::proto::team::{EventDraft, Identity, Lease};

/// Limit on the names in one query; a longer list needs several.
const NAMES_MAX: usize = 64;

/// An event without its place: the part that needs no connection.
pub struct Prepared {
    /// Position, version, time and hashes are still missing.
    event: Event,
    pieces: Pieces,
    /// True if the client has named the event, which may therefore exist already.
    is_named: bool,
    /// The client has named the stream.
    is_placed: bool,
    /// The machine of the lease under which its work is done.
    machine: Option<i64>,
}

impl Prepared {
    /// Prepares the events of drafts.
    ///
    /// # Errors
    /// A body is too long, too deep, or has numbers that can't be stored.
    pub fn all(who: &Identity, drafts: &[EventDraft]) -> Result<Vec<Self>, LedgerError> {
        let mut ids = uuids_v7(drafts.iter().filter(|draft| draft.event_id.is_none()).count());
        let mut id = |draft: &EventDraft| draft.event_id.clone().unwrap_or_else(|| ids.pop().unwrap_or_default());
        drafts.iter().map(|draft| Self::new(who, draft, id(draft))).collect()
    }

    fn new(who: &Identity, draft: &EventDraft, event_id: String) -> Result<Self, LedgerError> {
        let body = stored_text(&draft.body)?;
        if body.len() > BODY_BYTES_MAX && draft.source != "engine" && draft.event_type != "canvas_commit" {
            return Err(LedgerError::Invalid(format!("a body has at most {BODY_BYTES_MAX} bytes")));
        }
        let event = Event {
            tenant: who.tenant.clone(),
            position: 0,
            event_id,
            stream: draft.stream.clone().unwrap_or_else(|| stream_of(who, draft)),
            stream_version: 0,
            event_type: draft.event_type.clone(),
            source: draft.source.clone(),
            project: who.project.clone(),
            actor: who.user.clone(),
            ids: ids(who, draft),
            fence: who.lease.map(|lease| lease.fence),
            recorded_at: String::new(),
            body,
            previous_hash: String::new(),
            hash: String::new(),
        };
        let pieces = event.pieces(&hash::sha256_hex(event.body.as_bytes()));
        let machine = who.lease.map(|lease| lease.machine);
        Ok(Self { event, pieces, is_named: draft.event_id.is_some(), is_placed: draft.stream.is_some(), machine })
    }

    /// The tenant in whose log it comes.
    pub fn tenant(&self) -> &str {
        &self.event.tenant
    }
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

/// The appends of one transaction.
pub struct Batch<'c> {
    connection: &'c Connection,
    recorded_at: String,
    /// By tenant, so that heads are written in one order.
    logs: BTreeMap<String, Log>,
    /// New events, in the order in which they were added.
    rows: Vec<Event>,
}

/// The part of a tenant's log that the batch needs.
struct Log {
    position: i64,
    hash: String,
    /// Versions of the streams that the batch names; 0 for one that doesn't exist.
    streams: HashMap<String, i64>,
    /// Events that the batch names and the log has.
    known: HashMap<String, Known>,
    /// The leases that the batch names and this gateway has, by project and machine: their fences.
    leases: HashMap<(String, i64), i64>,
}

/// Names of a tenant's log that a batch needs to know about.
#[derive(Default)]
struct Wanted<'a> {
    streams: BTreeSet<&'a str>,
    events: BTreeSet<&'a str>,
    /// By project and machine.
    leases: BTreeSet<(&'a str, i64)>,
}

/// An event that a draft names.
enum Known {
    /// An event that was in the log before.
    Stored(Box<Event>),
    /// One of the batch, at this place among its rows.
    New(usize),
}

impl<'c> Batch<'c> {
    /// Reads what appends of these tenants need to know. `expected` are streams whose versions are compared.
    ///
    /// # Errors
    /// The database fails.
    pub fn read<'a>(
        connection: &'c Connection,
        appends: impl Iterator<Item = (&'a [Prepared], Option<&'a Expected>)>,
    ) -> Result<Self, LedgerError> {
        let mut wanted: BTreeMap<&str, Wanted<'_>> = BTreeMap::new();
        for (drafts, expected) in appends {
            for draft in drafts {
                let Wanted { streams, events, leases } = wanted.entry(&draft.event.tenant).or_default();
                streams.insert(&draft.event.stream);
                streams.extend(expected.map(|expected| expected.stream.as_str()));
                events.extend(draft.is_named.then_some(draft.event.event_id.as_str()));
                events.extend(draft.event.id("causation_id"));
                leases.extend(draft.machine.map(|machine| (draft.event.project.as_str(), machine)));
            }
        }
        let (mut logs, mut now_ms) = (BTreeMap::new(), 0);
        for (tenant, wanted) in wanted {
            let log = Log::read(connection, tenant, wanted, &mut now_ms)?;
            logs.insert(tenant.to_owned(), log);
        }
        Ok(Self { connection, recorded_at: utc_ms(now_ms), logs, rows: Vec::new() })
    }

    /// Takes one append into the batch: all of its events, or none.
    ///
    /// # Errors
    /// A stream has another version than expected, an id was used for another event, a cause isn't in the log, or the work's lease
    /// is lost.
    pub fn take(&mut self, drafts: Vec<Prepared>, expected: Option<&Expected>) -> Result<Vec<Stored>, LedgerError> {
        let mark = self.rows.len();
        let committed = self.take_all(drafts, expected);
        if committed.is_err() {
            self.undo(mark);
        }
        committed
    }

    fn take_all(&mut self, drafts: Vec<Prepared>, expected: Option<&Expected>) -> Result<Vec<Stored>, LedgerError> {
        let mut stored = Vec::with_capacity(drafts.len());
        let mut is_checked = false;
        for draft in drafts {
            let Prepared { mut event, pieces, is_named, is_placed, machine } = draft;
            let log = self.logs.get_mut(&event.tenant).ok_or(LedgerError::NotFound)?;
            if let Some((machine, fence)) = machine.zip(event.fence) {
                check_lease(log, event.project.clone(), Lease { machine, fence })?;
            }
            if let Some(there) = log.known.get(&event.event_id).filter(|_| is_named) {
                let there = match there {
                    Known::Stored(there) => there,
                    Known::New(at) => &self.rows[*at],
                };
                stored.push(duplicate(there, &event, is_placed)?);
                continue;
            }
            if let Some(expected) = expected.filter(|_| !is_checked) {
                check_version(log, expected)?;
                is_checked = true;
            }
            if let Some(cause) = event.id("causation_id").filter(|cause| !log.known.contains_key(*cause)) {
                return Err(LedgerError::Invalid(format!("the cause {cause} isn't in the log")));
            }
            event.position = log.position + 1;
            event.stream_version = log.streams.get(&event.stream).copied().unwrap_or(0) + 1;
            event.recorded_at.clone_from(&self.recorded_at);
            event.previous_hash.clone_from(&log.hash);
            event.hash = event.hash_of(&pieces)?;
            // Nothing fails from here on.
            log.position = event.position;
            log.hash.clone_from(&event.hash);
            match log.streams.get_mut(&event.stream) {
                Some(version) => *version = event.stream_version,
                None => drop(log.streams.insert(event.stream.clone(), event.stream_version)),
            }
            let (event_id, position, stream_version) = (event.event_id.clone(), event.position, event.stream_version);
            if is_named {
                log.known.insert(event_id.clone(), Known::New(self.rows.len()));
            }
            self.rows.push(event);
            stored.push(Stored { event_id, position, stream_version, is_duplicate: false });
        }
        Ok(stored)
    }

    /// The events that were written, so that another thread can free their memory.
    pub fn into_rows(self) -> Vec<Event> {
        self.rows
    }

    /// Removes events again, the newest first.
    fn undo(&mut self, mark: usize) {
        for event in self.rows.drain(mark..).rev() {
            let Some(log) = self.logs.get_mut(&event.tenant) else { continue };
            log.position = event.position - 1;
            log.streams.insert(event.stream, event.stream_version - 1);
            log.known.remove(&event.event_id);
            log.hash = event.previous_hash;
        }
    }

    /// Writes the events, their streams and the heads of their logs.
    ///
    /// # Errors
    /// The database fails.
    pub fn write(&self) -> Result<(), LedgerError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let connection = self.connection;
        let rows = self.rows.iter().map(Event::columns);
        connection.insert::<WIDTH>(&format!("INSERT INTO event ({COLUMNS})"), rows, "")?;
        let mut streams: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for event in &self.rows {
            streams.insert((&event.tenant, &event.stream), event.stream_version);
        }
        let rows = streams
            .into_iter()
            .map(|((tenant, stream), version)| [Sql::Text(tenant), Sql::Text(stream), Sql::Int(version)]);
        let newer = "ON CONFLICT (tenant, stream) DO UPDATE SET version = excluded.version";
        connection.insert("INSERT INTO stream", rows, newer)?;
        let grown: BTreeSet<&str> = self.rows.iter().map(|event| event.tenant.as_str()).collect();
        let heads = self.logs.iter().filter(|(tenant, _)| grown.contains(tenant.as_str()));
        let rows = heads.map(|(tenant, log)| [Sql::Text(tenant), Sql::Int(log.position), Sql::Text(&log.hash)]);
        let newer = "ON CONFLICT (tenant) DO UPDATE SET position = excluded.position, hash = excluded.hash";
        connection.insert("INSERT INTO head", rows, newer)?;
        connection.grow();
        Ok(())
    }
}

impl Log {
    /// Reads it, and the time by the database's clock.
    fn read<'a>(
        connection: &Connection,
        tenant: &'a str,
        wanted: Wanted<'a>,
        now_ms: &mut i64,
    ) -> Result<Self, LedgerError> {
        let in_pieces = |names: BTreeSet<&'a str>, sql: &str| -> Vec<Query<'a>> {
            let names: Vec<&str> = names.into_iter().collect();
            let piece = |names: &[&'a str]| {
                let (marks, values) = named(tenant, names);
                Query { sql: format!("{sql} IN ({marks})"), values }
            };
            names.chunks(NAMES_MAX).map(piece).collect()
        };
        let streams = in_pieces(wanted.streams, "SELECT stream, version FROM stream WHERE tenant = ? AND stream");
        let events = in_pieces(wanted.events, &format!("SELECT {COLUMNS} FROM event WHERE tenant = ? AND event_id"));
        // This is one query: for a server each one costs about as much as its content.
        let clock = connection.clock();
        let head = format!("SELECT ({clock}), h.position, h.hash FROM (SELECT 1) o LEFT JOIN head h ON h.tenant = ?1");
        let mut queries = vec![Query { sql: head, values: vec![Sql::Text(tenant)] }];
        let first_event = queries.len() + streams.len();
        let first_lease = first_event + events.len();
        let leases = wanted.leases.into_iter().map(|(project, machine)| Query {
            sql: "SELECT project, machine, fence FROM workspace_lease \
                  WHERE tenant = ? AND project = ? AND machine = ? AND node = ?"
                .to_owned(),
            values: vec![Sql::Text(tenant), Sql::Text(project), Sql::Int(machine), Sql::Text(connection.node())],
        });
        queries.extend(streams.into_iter().chain(events).chain(leases));
        let (mut head, mut streams, mut known, mut leases) = (None, HashMap::new(), HashMap::new(), HashMap::new());
        connection.query_all(&queries, &mut |query, row| {
            match query {
                0 => {
                    *now_ms = row.get(0)?;
                    head = row.get::<Option<i64>>(1)?.zip(row.get::<Option<String>>(2)?);
                }
                _ if query < first_event => drop(streams.insert(row.get(0)?, row.get(1)?)),
                _ if query >= first_lease => drop(leases.insert((row.get(0)?, row.get(1)?), row.get(2)?)),
                _ => {
                    let event = Event::from_row(row)?;
                    known.insert(event.event_id.clone(), Known::Stored(Box::new(event)));
                }
            }
            Ok(())
        })?;
        let (position, hash) = match head {
            Some(head) => head,
            None => (0, genesis(connection, tenant)?),
        };
        Ok(Self { position, hash, streams, known, leases })
    }
}

/// The parameters of a query for names. Their number is a power of two, by repeating the last one, so that few statements are
/// prepared.
fn named<'v>(tenant: &'v str, names: &[&'v str]) -> (String, Vec<Sql<'v>>) {
    let count = names.len().next_power_of_two();
    let last = names.last().copied().unwrap_or_default();
    let padded = names.iter().copied().chain(std::iter::repeat(last)).take(count);
    let values = std::iter::once(tenant).chain(padded).map(Sql::Text).collect();
    (vec!["?"; count].join(", "), values)
}

/// Returns the place of an event that exists already, if it is the same one.
fn duplicate(there: &Event, draft: &Event, is_placed: bool) -> Result<Stored, LedgerError> {
    let is_same = there.event_type == draft.event_type
        && there.source == draft.source
        && there.body == draft.body
        && there.actor == draft.actor
        && (!is_placed || draft.stream == there.stream);
    if !is_same {
        return Err(LedgerError::IdempotencyMismatch(format!("the event id {}", draft.event_id)));
    }
    let (event_id, position, stream_version) = (there.event_id.clone(), there.position, there.stream_version);
    Ok(Stored { event_id, position, stream_version, is_duplicate: true })
}

/// Refuses the events of work whose workspace another gateway may work in by now.
fn check_lease(log: &Log, project: String, lease: Lease) -> Result<(), LedgerError> {
    let place = (project, lease.machine);
    match log.leases.get(&place) {
        Some(fence) if *fence == lease.fence => Ok(()),
        _ => Err(LedgerError::LeaseLost { project: place.0, lease }),
    }
}

fn check_version(log: &Log, expected: &Expected) -> Result<(), LedgerError> {
    let actual = log.streams.get(&expected.stream).copied().unwrap_or(0);
    if actual == expected.version {
        return Ok(());
    }
    Err(LedgerError::WrongExpectedVersion { stream: expected.stream.clone(), expected: expected.version, actual })
}
