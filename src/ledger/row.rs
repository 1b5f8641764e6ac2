//! A row of the event log: read from the database, as JSON, and as the text that its hash covers.

use std::borrow::Cow;

use super::sql::{Row, Value as Sql};
use serde_json::{Map, Value};

use super::LedgerError;
use crate::base::canonical::quote;
use crate::base::hash;
use crate::base::hex;

/// An event of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The tenant.
    pub tenant: String,
    /// Its place in the tenant's log, from 1 without a gap.
    pub position: i64,
    /// Its id.
    pub event_id: String,
    /// Its stream.
    pub stream: String,
    /// Its place in the stream, from 1 without a gap.
    pub stream_version: i64,
    /// Its type.
    pub event_type: String,
    /// Its source.
    pub source: String,
    /// The project.
    pub project: String,
    /// The actor.
    pub actor: String,
    /// The ids and times that may be absent, by name.
    pub ids: Vec<(&'static str, String)>,
    /// The number of the lease of the workspace, of work under one.
    pub fence: Option<i64>,
    /// Time when it was stored, by the database's clock.
    pub recorded_at: String,
    /// Its content, canonical JSON.
    pub body: String,
    /// The hash of the event before it.
    pub previous_hash: String,
    /// Its own hash.
    pub hash: String,
}

/// The columns, in the order in which [`Event::from_row`] reads them.
pub(super) const COLUMNS: &str = "tenant, position, event_id, stream, stream_version, event_type, source, project, actor, \
     recorded_at, body, previous_hash, hash, run_id, step_id, trace_id, request_id, surface_id, app_id, causation_id, \
     correlation_id, occurred_at, fence";

/// Number of [`COLUMNS`].
pub(super) const WIDTH: usize = 23;

/// Names of columns with a text that may be absent; in [`COLUMNS`] only the fence comes after them.
pub(super) const OPTIONAL: [&str; 9] = [
    "run_id",
    "step_id",
    "trace_id",
    "request_id",
    "surface_id",
    "app_id",
    "causation_id",
    "correlation_id",
    "occurred_at",
];

impl Event {
    /// Reads a row of [`COLUMNS`].
    pub(super) fn from_row(row: &Row<'_>) -> crate::ledger::sql::Result<Self> {
        let mut ids = Vec::new();
        for (at, name) in OPTIONAL.into_iter().enumerate() {
            if let Some(value) = row.get::<Option<String>>(13 + at)? {
                ids.push((name, value));
            }
        }
        Ok(Self {
            tenant: row.get(0)?,
            position: row.get(1)?,
            event_id: row.get(2)?,
            stream: row.get(3)?,
            stream_version: row.get(4)?,
            event_type: row.get(5)?,
            source: row.get(6)?,
            project: row.get(7)?,
            actor: row.get(8)?,
            recorded_at: row.get(9)?,
            body: row.get(10)?,
            previous_hash: row.get(11)?,
            hash: row.get(12)?,
            ids,
            fence: row.get(13 + OPTIONAL.len())?,
        })
    }

    /// Reads an event from the value that [`Self::to_value`] made.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let ids = OPTIONAL.into_iter().filter_map(|name| Some((name, text(name)?))).collect();
        Some(Self {
            tenant: text("tenant")?,
            position: value["position"].as_i64()?,
            event_id: text("event_id")?,
            stream: text("stream")?,
            stream_version: value["stream_version"].as_i64()?,
            event_type: text("event_type")?,
            source: text("source")?,
            project: text("project")?,
            actor: text("actor")?,
            ids,
            fence: value["fence"].as_i64(),
            recorded_at: text("recorded_at")?,
            body: super::stored_text(value.get("body")?).ok()?,
            previous_hash: text("previous_hash")?,
            hash: text("hash")?,
        })
    }

    /// One of the ids that may be absent.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<&str> {
        self.ids.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the event in the form for endpoints.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut fields = self.fields();
        fields.insert("body".into(), serde_json::from_str(&self.body).unwrap_or_default());
        fields.insert("previous_hash".into(), self.previous_hash.clone().into());
        fields.insert("hash".into(), self.hash.clone().into());
        fields.into()
    }

    /// The content.
    #[must_use]
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let texts = [
            ("tenant", &self.tenant),
            ("event_id", &self.event_id),
            ("stream", &self.stream),
            ("event_type", &self.event_type),
            ("source", &self.source),
            ("project", &self.project),
            ("actor", &self.actor),
            ("recorded_at", &self.recorded_at),
        ];
        for (name, text) in texts {
            fields.insert(name.into(), text.clone().into());
        }
        fields.insert("position".into(), self.position.into());
        fields.insert("stream_version".into(), self.stream_version.into());
        for (name, value) in &self.ids {
            fields.insert((*name).into(), value.clone().into());
        }
        if let Some(fence) = self.fence {
            fields.insert("fence".into(), fence.into());
        }
        fields
    }

    /// The values of [`COLUMNS`].
    pub(super) fn columns(&self) -> [Sql<'_>; WIDTH] {
        let [run, step, trace, request, surface, app, cause, correlation, occurred] =
            OPTIONAL.map(|name| self.id(name).map_or(Sql::Null, Sql::Text));
        [
            Sql::Text(&self.tenant),
            Sql::Int(self.position),
            Sql::Text(&self.event_id),
            Sql::Text(&self.stream),
            Sql::Int(self.stream_version),
            Sql::Text(&self.event_type),
            Sql::Text(&self.source),
            Sql::Text(&self.project),
            Sql::Text(&self.actor),
            Sql::Text(&self.recorded_at),
            Sql::Text(&self.body),
            Sql::Text(&self.previous_hash),
            Sql::Text(&self.hash),
            run,
            step,
            trace,
            request,
            surface,
            app,
            cause,
            correlation,
            occurred,
            self.fence.map_or(Sql::Null, Sql::Int),
        ]
    }

    /// The hash that this event must have: SHA-256 of a zero byte, the previous hash, and the event in canonical form with
    /// the body's hash in place of the body, so that a body can be erased without breaking the chain.
    /// `erased` is the hash of a body that was.
    pub(super) fn computed_hash(&self, erased: Option<&str>) -> Result<String, LedgerError> {
        let of_body = || hash::sha256_hex(self.body.as_bytes());
        self.hash_of(&self.pieces(&erased.map_or_else(of_body, str::to_owned)))
    }

    /// Returns the hash from the pieces of the canonical form.
    pub(super) fn hash_of(&self, pieces: &Pieces) -> Result<String, LedgerError> {
        let previous: [u8; 32] =
            hex::decode(&self.previous_hash).ok_or_else(|| LedgerError::Invalid("the previous hash is none".into()))?;
        let mut hasher = hash::Hasher::new();
        hasher.update(&[0]);
        hasher.update(&previous);
        for piece in self.canonical(pieces) {
            hasher.update(piece.as_bytes());
        }
        Ok(hasher.finish_hex())
    }

    /// The canonical form of the event, in pieces.
    fn canonical<'p>(&self, [first, second, third, last]: &'p Pieces) -> [Cow<'p, str>; 7] {
        let mut recorded_at = String::with_capacity(32);
        quote(&self.recorded_at, &mut recorded_at);
        [
            first.into(),
            self.position.to_string().into(),
            second.into(),
            recorded_at.into(),
            third.into(),
            self.stream_version.to_string().into(),
            last.into(),
        ]
    }

    /// Returns the parts of the canonical form around position, time and version, which an event gets when it is appended.
    /// `body_sha256` replaces the body.
    pub(super) fn pieces(&self, body_sha256: &str) -> Pieces {
        let id = |name: &'static str| (name, self.id(name));
        fn own<'t>(name: &'static str, text: &'t str) -> (&'static str, Option<&'t str>) {
            (name, Some(text))
        }
        // The names are sorted, as in the canonical form.
        let first = [
            own("actor", &self.actor),
            id("app_id"),
            own("body_sha256", body_sha256),
            id("causation_id"),
            id("correlation_id"),
            own("event_id", &self.event_id),
            own("event_type", &self.event_type),
        ];
        let fence = self.fence.map(|fence| format!(",\"fence\":{fence}")).unwrap_or_default();
        let third =
            [id("request_id"), id("run_id"), own("source", &self.source), id("step_id"), own("stream", &self.stream)];
        let last = [id("surface_id"), own("tenant", &self.tenant), id("trace_id")];
        let written = |fields: &[(&str, Option<&str>)], end: &str| {
            let mut text = String::with_capacity(256);
            for (name, value) in fields {
                let Some(value) = value else { continue };
                text.extend([",\"", name, "\":"]);
                quote(value, &mut text);
            }
            text + end
        };
        let first = written(&first, &fence) + &written(&[id("occurred_at")], ",\"position\":");
        let second = written(&[own("project", &self.project)], ",\"recorded_at\":");
        let third = written(&third, ",\"stream_version\":");
        [first.replacen(',', "{", 1), second, third, written(&last, "}")]
    }
}

/// Parts of an event's canonical form.
pub(super) type Pieces = [String; 4];

#[cfg(test)]
mod tests {
    use crate::base::canonical::canonical;

    use super::*;

    #[test]
    fn the_written_form_is_the_canonical_one() {
        let text = |text: &str| format!("{text} \"ü\\\n\u{1}");
        let mut event = Event {
            tenant: text("tenant"),
            position: 7,
            event_id: text("id"),
            stream: text("stream"),
            stream_version: 3,
            event_type: text("type"),
            source: text("source"),
            project: text("project"),
            actor: text("actor"),
            ids: OPTIONAL.into_iter().map(|name| (name, text(name))).collect(),
            fence: Some(12),
            recorded_at: text("now"),
            body: "{}".into(),
            previous_hash: "0".repeat(64),
            hash: String::new(),
        };
        for count in (0..=OPTIONAL.len()).rev() {
            event.ids.truncate(count);
            event.fence = event.fence.filter(|_| count > 2);
            let mut fields = event.fields();
            fields.insert("body_sha256".into(), "abc".into());
            let written = event.canonical(&event.pieces("abc")).concat();
            assert_eq!(written, canonical(&fields.into(), 8).expect("a text"));
        }
        assert_eq!(COLUMNS.split(", ").count(), WIDTH);
    }
}
