//! Checks a tenant's log from its beginning: positions, hashes, streams, the head, and canvases.

use std::collections::{BTreeMap, BTreeSet};

use super::{Filter, genesis, read_in};
use crate::ledger::canvas;
use crate::ledger::more::anchor::Anchor;
use crate::ledger::more::archive::tombstone;
use crate::ledger::row::Event;
use crate::ledger::sql::{Connection, OptionalExtension as _};
use crate::ledger::{Ledger, LedgerError};

/// Events of a page.
const PAGE: usize = 1_000;

/// The result for a valid log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its events.
    pub events: i64,
    /// The hash of the newest one.
    pub head: String,
    /// The number of events whose content was erased.
    pub erased: i64,
}

/// The first fault of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The position.
    pub position: i64,
    /// The fault.
    pub why: String,
}

/// A log that is read from its beginning, event by event.
pub struct Chain {
    position: i64,
    hash: String,
    streams: BTreeMap<String, i64>,
    /// Events were removed before its beginning, so that the versions of streams don't begin with 1.
    is_cut: bool,
    erased: BTreeSet<i64>,
    /// Erased positions that the log itself records.
    announced: BTreeSet<i64>,
}

impl Chain {
    /// A log that begins with this hash.
    pub fn new(genesis: String) -> Self {
        Self::after(0, genesis)
    }

    /// A log whose events up to a position were removed; the last of them had this hash.
    pub fn after(position: i64, hash: String) -> Self {
        let (streams, erased, announced) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { position, hash, streams, is_cut: position > 0, erased, announced }
    }

    /// Number of events that were read.
    pub fn events(&self) -> i64 {
        self.position
    }

    /// Checks the next event; `erased` is the hash of an erased content. Returns the event's fault.
    pub fn take(&mut self, event: &Event, erased: Option<&str>) -> Option<Broken> {
        self.position += 1;
        let position = self.position;
        let fault = match erased {
            Some(sha256) if event.body != tombstone(sha256) => Some("it was erased, and its content is another".into()),
            _ => self.fault(event, erased),
        };
        if let Some(why) = fault {
            return Some(Broken { position, why });
        }
        if erased.is_some() {
            self.erased.insert(position);
        }
        if event.event_type == "audit" && event.source == "engine" && event.stream == "dataset:audit" {
            let body = event.body();
            let positions = body["positions"].as_array().filter(|_| body["kind"] == "erasure");
            self.announced.extend(positions.into_iter().flatten().filter_map(serde_json::Value::as_i64));
        }
        self.hash.clone_from(&event.hash);
        None
    }

    fn fault(&mut self, event: &Event, erased: Option<&str>) -> Option<String> {
        if event.position != self.position {
            return Some(format!("there is no event; the next one has position {}", event.position));
        }
        if event.previous_hash != self.hash {
            return Some("it doesn't follow the event before it".to_owned());
        }
        // A damaged event may not even have a canonical form.
        if event.computed_hash(erased).ok().as_deref() != Some(&event.hash) {
            return Some("its hash isn't that of its content".to_owned());
        }
        let version = match self.streams.get_mut(&event.stream) {
            Some(version) => version,
            None => {
                let before = if self.is_cut { event.stream_version - 1 } else { 0 };
                self.streams.entry(event.stream.clone()).or_insert(before)
            }
        };
        *version += 1;
        (*version != event.stream_version)
            .then(|| format!("it has version {} in its stream, not {version}", event.stream_version))
    }

    /// The end of the log: everything that was erased must have been announced.
    pub fn end(self) -> Result<Verified, Broken> {
        if let Some(position) = self.erased.difference(&self.announced).next() {
            let why = "its content is gone, and the log doesn't tell of an erasure".to_owned();
            return Err(Broken { position: *position, why });
        }
        let erased = i64::try_from(self.erased.len()).unwrap_or(i64::MAX);
        Ok(Verified { events: self.position, head: self.hash, erased })
    }
}

/// The hashes of contents that were erased, by position.
pub fn erased_of(connection: &Connection, tenant: &str) -> Result<BTreeMap<i64, String>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT position, body_sha256 FROM erased WHERE tenant = ?1")?;
    let rows = statement.query_map([tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
}

impl Ledger {
    /// Checks the log of a tenant.
    ///
    /// # Errors
    /// The database fails. A log that fails the check isn't an error but the inner result.
    pub fn verify(&self, tenant: &str) -> Result<Result<Verified, Broken>, LedgerError> {
        let connection = self.view(tenant)?;
        let erased = erased_of(&connection, tenant)?;
        let anchor = Anchor::of(&connection, tenant)?;
        if let Some(anchor) = &anchor
            && !anchor.is_announced(&connection, tenant)?
        {
            let why = "the events up to here are gone, and the log doesn't tell of a removal".to_owned();
            return Ok(Err(Broken { position: anchor.position, why }));
        }
        let (mut chain, mut last) = match anchor {
            Some(anchor) => (Chain::after(anchor.position, anchor.hash), anchor.position),
            None => (Chain::new(genesis(&connection, tenant)?), i64::MIN),
        };
        loop {
            let page = read_in(&connection, tenant, last, &Filter::default(), PAGE)?;
            let Some(newest) = page.last() else { break };
            last = newest.position;
            for event in &page {
                let erased = erased.get(&(chain.position + 1));
                if let Some(broken) = chain.take(event, erased.map(String::as_str)) {
                    return Ok(Err(broken));
                }
            }
        }
        let (position, hash) = (chain.position, chain.hash.clone());
        let sql = "SELECT position, hash FROM head WHERE tenant = ?1";
        let head: Option<(i64, String)> =
            connection.query_row(sql, [tenant], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let head = head.unwrap_or_else(|| (0, hash.clone()));
        if head != (position, hash.clone()) {
            let why = format!("the head names position {} and another hash or place than the last event", head.0);
            return Ok(Err(Broken { position: position + 1, why }));
        }
        let mut statement = connection.prepare_cached("SELECT stream, version FROM stream WHERE tenant = ?1")?;
        let rows = statement.query_map([tenant], |row| Ok((row.get::<String>(0)?, row.get::<i64>(1)?)))?;
        for row in rows {
            let (stream, version) = row?;
            let known = chain.streams.get(&stream).copied();
            if known.or((!chain.is_cut).then_some(0)).is_some_and(|known| known != version) {
                let why = format!("the stream {stream} is said to have version {version}");
                return Ok(Err(Broken { position, why }));
            }
        }
        if let Some(broken) = canvas::verify_canvases(&connection, tenant)? {
            return Ok(Err(broken));
        }
        Ok(chain.end())
    }
}
