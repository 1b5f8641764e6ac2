//! A tenant's log as a file that can be checked without the database, and the erasure of a person's texts.

use std::io::{BufRead, Write};

use crate::ledger::sql::params;
use serde_json::{Value, json};

use crate::base::{base64, hash};
use crate::ledger::more::anchor::Anchor;
use crate::ledger::row::Event;
use crate::ledger::spine::verify::{Chain, erased_of};
use crate::ledger::spine::{genesis, read_in};
use crate::ledger::stores::note;
use crate::ledger::{Broken, Filter, Ledger, LedgerError, Verified, now_text};
use crate::proto::team::Identity;

/// The version of the archive format.
const FORM: u32 = 1;
/// Events of a page.
const PAGE: usize = 500;
/// Types of events whose content is a person's own text.
const TEXTS: [&str; 4] = ["message.user", "message.assistant", "message.summary", "run.started"];

/// Writes a line of an archive: an object whose `type` is one of [`BESIDE`].
pub type Put<'p> = &'p mut dyn FnMut(&Value) -> Result<(), LedgerError>;

/// Types of lines about a tenant's data outside the database.
pub const BESIDE: [&str; 2] = ["conversation", "remembered"];

/// The archive of a tenant.
pub struct Archive<'l>(pub(in crate::ledger) &'l Ledger);

/// An archive while it is written: its lines are hashed together.
struct Lines<'w> {
    to: &'w mut dyn Write,
    hash: hash::Hasher,
}

impl Lines<'_> {
    fn put(&mut self, value: &Value) -> Result<(), LedgerError> {
        let line = format!("{value}\n");
        self.hash.update(line.as_bytes());
        self.to
            .write_all(line.as_bytes())
            .map_err(|error| LedgerError::Invalid(format!("it can't be written: {error}")))
    }
}

impl Archive<'_> {
    /// Writes all data of a tenant as JSON lines: the log, memory, blackboards, files, and the data outside the database from
    /// `more`. The last line has the hash of the lines before it. The export is recorded in the log. Without an actor, a person
    /// at a terminal is recorded. Returns the number of events.
    ///
    /// # Errors
    /// There is no such tenant, the file can't be written, or the database fails.
    pub fn export(
        &self,
        tenant: &str,
        by: Option<&Identity>,
        to: &mut dyn Write,
        more: &dyn Fn(Put<'_>) -> Result<(), LedgerError>,
    ) -> Result<i64, LedgerError> {
        let by = by.map_or_else(|| self.0.permits().operator_at_terminal(tenant), |by| Ok(by.clone()))?;
        let events = self.write_out(tenant, to, more)?;
        let body = json!({"kind": "export", "events": events});
        self.0.write(tenant, |transaction| note(transaction, &by, "audit", "dataset:audit".into(), body))?;
        Ok(events)
    }

    fn write_out(
        &self,
        tenant: &str,
        to: &mut dyn Write,
        more: &dyn Fn(Put<'_>) -> Result<(), LedgerError>,
    ) -> Result<i64, LedgerError> {
        let connection = self.0.view(tenant)?;
        let mut lines = Lines { to, hash: hash::Hasher::new() };
        let (begin, mut last) = match Anchor::of(&connection, tenant)? {
            Some(anchor) => (anchor.hash, anchor.position),
            None => (genesis(&connection, tenant)?, 0),
        };
        let at = now_text(&connection)?;
        lines.put(&json!({"type": "archive", "form": FORM, "tenant": tenant, "genesis": begin, "after": last,
            "exported_at": at}))?;
        let erased = erased_of(&connection, tenant)?;
        loop {
            let page = read_in(&connection, tenant, last, &Filter::default(), PAGE)?;
            let Some(newest) = page.last() else { break };
            last = newest.position;
            for event in &page {
                let mut line = json!({"type": "event", "event": event.to_value()});
                if let Some(sha256) = erased.get(&event.position) {
                    line["erased_sha256"] = sha256.clone().into();
                }
                lines.put(&line)?;
            }
        }
        for (kind, sql) in [
            ("memory", "SELECT scope, scope_id, key, value, by FROM memory WHERE tenant = ?1"),
            ("blackboard", "SELECT 'run', run_id, key, value, by FROM blackboard WHERE tenant = ?1"),
        ] {
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([tenant], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<String>(3)?, row.get(4)?))
            })?;
            for row in rows {
                let (scope, id, key, value, by): (String, String, String, String, String) = row?;
                let value: Value = serde_json::from_str(&value).unwrap_or_default();
                lines.put(
                    &json!({"type": kind, "scope": scope, "scope_id": id, "key": key, "value": value, "by": by}),
                )?;
            }
        }
        let mut statement =
            connection.prepare_cached("SELECT sha256, n FROM artifact_part WHERE tenant = ?1 ORDER BY sha256, n")?;
        let rows = statement.query_map([tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for row in rows {
            let (sha256, number): (String, i64) = row?;
            // The parts are read one after the other, since all of them don't fit in memory.
            let sql = "SELECT data FROM artifact_part WHERE tenant = ?1 AND sha256 = ?2 AND n = ?3";
            let data: Vec<u8> = connection.query_row(sql, params![tenant, sha256, number], |row| row.get(0))?;
            lines.put(&json!({"type": "file", "sha256": sha256, "part": number, "data": base64::encode(&data)}))?;
        }
        more(&mut |value| lines.put(value))?;
        let sha256 = lines.hash.clone().finish_hex();
        lines.put(&json!({"type": "end", "events": last, "sha256": sha256}))?;
        lines.to.flush().map_err(|error| LedgerError::Invalid(format!("it can't be written: {error}")))?;
        Ok(last)
    }

    /// Erases the texts that a person has written or asked, and the answers to their questions: each is replaced by its hash. The
    /// erasure is recorded in the log. Without an actor, a person at a terminal is recorded. Returns the number of events and
    /// runs that lost their text.
    ///
    /// # Errors
    /// There is no such tenant, or the database fails.
    pub fn erase(&self, tenant: &str, who: Option<&Identity>, user: &str) -> Result<usize, LedgerError> {
        let who = &who.map_or_else(|| self.0.permits().operator_at_terminal(tenant), |who| Ok(who.clone()))?;
        self.0.write(tenant, |transaction| {
            let sql = "SELECT position, body, event_type FROM event WHERE tenant = ?1 AND actor = ?2 AND position NOT IN \
                       (SELECT position FROM erased WHERE tenant = ?1) ORDER BY position";
            let mut statement = transaction.prepare_cached(sql)?;
            let rows = statement.query_map(params![who.tenant, user], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let found: Vec<(i64, String, String)> = rows.collect::<crate::ledger::sql::Result<_>>()?;
            let mut positions = Vec::new();
            for (position, body, kind) in found {
                if !TEXTS.contains(&kind.as_str()) {
                    continue;
                }
                let sha256 = hash::sha256_hex(body.as_bytes());
                transaction
                    .execute("INSERT INTO erased VALUES (?1, ?2, ?3)", params![who.tenant, position, sha256])?;
                let sql = "UPDATE event SET body = ?3 WHERE tenant = ?1 AND position = ?2";
                transaction.execute(sql, params![who.tenant, position, tombstone(&sha256)])?;
                positions.push(position);
            }
            let sql = "UPDATE run SET question = '', text = '', failure = NULL WHERE tenant = ?1 AND user = ?2 \
                       AND state <> 'running' AND (question <> '' OR text <> '')";
            let runs = transaction.execute(sql, params![who.tenant, user])?;
            for some in positions.chunks(PAGE) {
                let body = json!({"kind": "erasure", "user": user, "positions": some});
                note(transaction, who, "audit", "dataset:audit".into(), body)?;
            }
            Ok(positions.len() + runs)
        })
    }
}

/// Returns the content that replaces an erased one.
pub fn tombstone(sha256: &str) -> String {
    format!("{{\"erased\":true,\"sha256\":\"{sha256}\"}}")
}

/// Checks an archive without the database: the hash of its lines, and the chain of its events.
///
/// # Errors
/// It can't be read, or isn't an archive. An archive that fails the check isn't an error but the inner result.
pub fn verify(from: &mut dyn BufRead) -> Result<Result<Verified, Broken>, LedgerError> {
    let not = |why: &str| LedgerError::Invalid(format!("this is no archive of a tenant: {why}"));
    let (mut all, mut chain, mut line) = (hash::Hasher::new(), None::<Chain>, String::new());
    loop {
        line.clear();
        if from.read_line(&mut line).map_err(|error| not(&error.to_string()))? == 0 {
            let events = chain.map_or(0, |chain| chain.events());
            return Ok(Err(Broken { position: events + 1, why: "the archive ends too early".into() }));
        }
        let value: Value = serde_json::from_str(&line).map_err(|error| not(&error.to_string()))?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        match (value["type"].as_str(), &mut chain) {
            (Some("archive"), None) if value["form"] == FORM => {
                let begin = text("genesis").ok_or_else(|| not("it has no beginning"))?;
                chain = Some(Chain::after(value["after"].as_i64().unwrap_or(0), begin));
            }
            (Some("event"), Some(chain)) => {
                let event = Event::read(&value["event"]).ok_or_else(|| not("an event lacks fields"))?;
                if let Some(broken) = chain.take(&event, text("erased_sha256").as_deref()) {
                    return Ok(Err(broken));
                }
            }
            (Some("end"), Some(_)) => {
                let chain = chain.unwrap_or_else(|| Chain::new(String::new()));
                if text("sha256") != Some(all.finish_hex()) || value["events"] != chain.events() {
                    let why = "the last line doesn't fit the lines before it".to_owned();
                    return Ok(Err(Broken { position: chain.events() + 1, why }));
                }
                return Ok(chain.end());
            }
            (Some("memory" | "blackboard" | "file"), Some(_)) => {}
            (Some(kind), Some(_)) if BESIDE.contains(&kind) => {}
            _ => return Err(not("a line has another type")),
        }
        all.update(line.as_bytes());
    }
}
