//! One request on its way through a handler: what was sent, checked against the route's row, and what goes back.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Gateway;
use super::problem::{Answered, Problem};
use super::routes::Route;
use super::shares::follow::ShareStream;
use super::stream::{RunStream, Stream};
use crate::base::percent;
use crate::ledger::Who;
use crate::proto::team::Identity;
use crate::schema::Schema;

/// Most items of a list.
pub const LIMIT_MAX: usize = 500;
/// Items of a list unless `limit` says otherwise.
const LIMIT: usize = 100;

/// A request whose head was checked.
pub struct Sent {
    /// The route's row.
    pub route: &'static Route,
    /// The id of the request.
    pub request_id: String,
    /// Values of the path's names.
    pub params: BTreeMap<String, String>,
    /// The query, as sent.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// The client's address.
    pub address: IpAddr,
    /// Whether it came by the Unix socket, from a process of the gateway's own user.
    pub is_own: bool,
}

/// A request whose sender is known.
pub struct Call<'a> {
    /// The gateway.
    pub gateway: &'a Arc<Gateway>,
    /// The request.
    pub sent: &'a Sent,
    /// The holder of the token; `None` on public routes.
    pub holder: Option<Who>,
    /// The caller, on routes that need a token.
    pub identity: Option<Identity>,
    /// The body, valid against the route's schema; null if it takes none.
    pub body: Value,
    /// The query, by name.
    pub query: BTreeMap<String, String>,
}

/// An answer.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The content.
    pub content: Content,
}

/// The body of an answer.
pub enum Content {
    /// Nothing.
    Empty,
    /// JSON.
    Json(Value),
    /// Bytes that are built in, with their type.
    Bytes(&'static str, &'static [u8]),
    /// A stored file, with its type.
    Download(&'static str, Vec<u8>),
    /// Text of another type.
    Text(&'static str, String),
    /// Events, for as long as the client stays.
    Stream(Box<Stream>),
    /// The events of a run of the agent.
    Run(Box<RunStream>),
    /// A shared session, for a viewer or for its publisher.
    Share(Box<ShareStream>),
    /// The reports of an action on a thread of its own. The client waits for its end; if it has a question, so long at
    /// most.
    Later(mpsc::UnboundedReceiver<Progress>, Duration),
}

/// A report of an action.
pub enum Progress {
    /// A person is asked: the answer for a client that doesn't wait.
    Asked(Value),
    /// Over.
    Done(Box<Answered<Reply>>),
}

impl Reply {
    /// The answer comes later.
    #[must_use]
    pub fn later(steps: mpsc::UnboundedReceiver<Progress>, wait: Duration) -> Self {
        Self { status: 200, headers: Vec::new(), content: Content::Later(steps, wait) }
    }

    /// JSON with status 200.
    #[must_use]
    pub fn ok(value: Value) -> Self {
        Self::json(200, value)
    }

    /// JSON with a status.
    #[must_use]
    pub fn json(status: u16, value: Value) -> Self {
        Self { status, headers: Vec::new(), content: Content::Json(value) }
    }

    /// Text of a type.
    #[must_use]
    pub fn text(kind: &'static str, text: String) -> Self {
        Self { status: 200, headers: Vec::new(), content: Content::Text(kind, text) }
    }

    /// No content.
    #[must_use]
    pub fn empty() -> Self {
        Self { status: 204, headers: Vec::new(), content: Content::Empty }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Call<'_> {
    /// Returns the caller.
    ///
    /// # Errors
    /// The route is public: nobody is known.
    pub fn who(&self) -> Answered<&Identity> {
        self.identity.as_ref().ok_or_else(Problem::unauthenticated)
    }

    /// A value of the path.
    #[must_use]
    pub fn param(&self, name: &str) -> &str {
        self.sent.params.get(name).map_or("", String::as_str)
    }

    /// A text of the query.
    #[must_use]
    pub fn asked(&self, name: &str) -> Option<String> {
        self.query.get(name).cloned()
    }

    /// A whole number of the query.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&self, name: &str) -> Answered<Option<i64>> {
        let number = |text: &String| {
            let number = text.parse().ok().filter(|number| *number >= 0);
            number.ok_or_else(|| Problem::body(format!("{name} in the query must be a whole number from 0")))
        };
        self.query.get(name).map(number).transpose()
    }

    /// Number of items that are wanted.
    ///
    /// # Errors
    /// `limit` isn't between 1 and 500.
    pub fn limit(&self) -> Answered<usize> {
        let Some(limit) = self.number("limit")? else { return Ok(LIMIT) };
        let limit = usize::try_from(limit).ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        limit.ok_or_else(|| Problem::body(format!("limit must be between 1 and {LIMIT_MAX}")))
    }

    /// A text of the body.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.body[name].as_str().map(str::to_owned)
    }

    /// A whole number of the body.
    #[must_use]
    pub fn whole(&self, name: &str) -> Option<i64> {
        self.body[name].as_i64()
    }

    /// Whether the request came by a name that a proxy serves with encryption.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.header("host").is_some_and(|host| self.gateway.names.is_encrypted(host))
    }

    /// A header that is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.sent.headers.get(name)?.to_str().ok()
    }
}

/// Reads a query; a name that the route doesn't know is refused, and so is one that comes twice.
///
/// # Errors
/// As said, and a percent code that stands for no character.
pub fn query(text: &str, known: &[&str]) -> Answered<BTreeMap<String, String>> {
    let mut fields = BTreeMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text| {
            let text = percent::decode_form(text)
                .ok_or_else(|| Problem::body("the query has a percent code that isn't one"))?;
            if text.contains('\0') { Err(no_nul("query")) } else { Ok(text) }
        };
        let (name, value) = (decoded(name)?, decoded(value)?);
        if !known.contains(&name.as_str()) {
            return Err(Problem::body(format!("the query has no name {name:?} here")));
        }
        if fields.insert(name.clone(), value).is_some() {
            return Err(Problem::body(format!("{name} comes twice in the query")));
        }
    }
    Ok(fields)
}

/// The refusal of the one character that PostgreSQL doesn't store. Otherwise a text with it would fail like a database that is
/// gone, together with all appends that are committed beside it.
fn no_nul(place: &str) -> Problem {
    Problem::body(format!("the {place} has the character U+0000, which can't be stored"))
}

/// Whether a text or name in a value has the character U+0000.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, field)| name.contains('\0') || has_nul(field)),
        _ => false,
    }
}

/// The schemas of bodies, each read when it is first needed.
#[derive(Default)]
pub struct Schemas(Mutex<HashMap<&'static str, Arc<Schema>>>);

impl Schemas {
    fn of(&self, text: &'static str) -> Answered<Arc<Schema>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known.get(text) {
            return Ok(Arc::clone(schema));
        }
        let internal = |why: String| Problem::new(500, "internal", why);
        let value: Value = serde_json::from_str(text).map_err(|error| internal(error.to_string()))?;
        let schema = Arc::new(Schema::new(value).map_err(internal)?);
        known.insert(text, Arc::clone(&schema));
        Ok(schema)
    }

    /// Reads a body and holds it against the route's schema.
    ///
    /// # Errors
    /// It is no JSON, or not what the schema says.
    pub fn body(&self, bytes: &[u8], schema: &'static str) -> Answered<Value> {
        let value: Value = if bytes.is_empty() {
            Value::Object(serde_json::Map::new())
        } else {
            serde_json::from_slice(bytes).map_err(|error| Problem::body(format!("the body is no JSON: {error}")))?
        };
        // The character has no other form in JSON.
        if bytes.windows(5).any(|part| part == b"u0000") && has_nul(&value) {
            return Err(no_nul("body"));
        }
        let problems = self.of(schema)?.problems(&value);
        if problems.is_empty() { Ok(value) } else { Err(Problem::body(problems.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_unknown_or_repeated_names_are_refused() {
        let fields = query("key=a%20b+c&limit=5", &["key", "limit"]).expect("a query");
        assert_eq!((fields["key"].as_str(), fields["limit"].as_str()), ("a b c", "5"));
        for wrong in ["other=1", "key=1&key=2", "key=%zz", "key=%f", "key=%ff", "key=a%00"] {
            let problem = query(wrong, &["key"]).expect_err(wrong);
            assert_eq!((problem.status, problem.code), (400, "body_invalid"), "{wrong}");
        }
    }

    #[test]
    fn a_text_that_no_database_stores_is_refused_before_anything_is_done() {
        let schemas = Schemas::default();
        let body = |text: &str| schemas.body(text.as_bytes(), r#"{"type": "object"}"#);
        for wrong in [r#"{"a": "x\u0000"}"#, r#"{"a": [{"b\u0000": 1}]}"#] {
            assert_eq!(body(wrong).expect_err(wrong).code, "body_invalid");
        }
        assert!(body(r#"{"a": "\\u0000, u0000"}"#).is_ok(), "the words for it are fine");
    }
}
