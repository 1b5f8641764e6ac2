//! Checks a tenant's log from its beginning: positions, hashes, streams, the head, and canvases.

use std::collections::BTreeMap;

use rusqlite::OptionalExtension as _;

use super::row::{COLUMNS, Event};
use super::spine::genesis;
use super::{Ledger, LedgerError};

/// A log that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its events.
    pub events: i64,
    /// The hash of the newest one.
    pub head: String,
}

/// The first place where a log doesn't hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The position.
    pub position: i64,
    /// The fault.
    pub why: String,
}

impl Ledger {
    /// Checks the log of a tenant.
    ///
    /// # Errors
    /// The database fails. A log that doesn't hold isn't an error but the inner result.
    pub fn verify(&self, tenant: &str) -> Result<Result<Verified, Broken>, LedgerError> {
        let connection = self.lock();
        let sql = format!("SELECT {COLUMNS} FROM event WHERE tenant = ?1 ORDER BY position");
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map([tenant], Event::from_row)?;
        let (mut position, mut hash) = (0, genesis(&connection, tenant)?);
        let mut streams: BTreeMap<String, i64> = BTreeMap::new();
        for row in rows {
            let event = row?;
            position += 1;
            if let Some(why) = fault(&event, position, &hash, &mut streams)? {
                return Ok(Err(Broken { position, why }));
            }
            hash = event.hash;
        }
        let sql = "SELECT position, hash FROM head WHERE tenant = ?1";
        let head: Option<(i64, String)> =
            connection.query_row(sql, [tenant], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let head = head.unwrap_or_else(|| (0, hash.clone()));
        if head != (position, hash.clone()) {
            let why = format!("the head names position {} and another hash or place than the last event", head.0);
            return Ok(Err(Broken { position: position + 1, why }));
        }
        let mut statement = connection.prepare("SELECT stream, version FROM stream WHERE tenant = ?1")?;
        let rows = statement.query_map([tenant], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        for row in rows {
            let (stream, version) = row?;
            if streams.get(&stream).copied().unwrap_or(0) != version {
                let why = format!("the stream {stream} is said to have version {version}");
                return Ok(Err(Broken { position, why }));
            }
        }
        drop(statement);
        if let Some(broken) = Self::verify_canvases(&connection, tenant)? {
            return Ok(Err(broken));
        }
        Ok(Ok(Verified { events: position, head: hash }))
    }
}

fn fault(
    event: &Event,
    position: i64,
    previous: &str,
    streams: &mut BTreeMap<String, i64>,
) -> Result<Option<String>, LedgerError> {
    if event.position != position {
        return Ok(Some(format!("there is no event; the next one has position {}", event.position)));
    }
    if event.previous_hash != previous {
        return Ok(Some("it doesn't follow the event before it".to_owned()));
    }
    // A damaged event may not even have a canonical form.
    if event.computed_hash().ok().as_deref() != Some(&event.hash) {
        return Ok(Some("its hash isn't that of its content".to_owned()));
    }
    let version = streams.entry(event.stream.clone()).or_default();
    *version += 1;
    if *version != event.stream_version {
        return Ok(Some(format!("it has version {} in its stream, not {version}", event.stream_version)));
    }
    Ok(None)
}
