//! One request on its way through a handler: what was sent, checked against the route's row, and what goes back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde_json::Value;
use tokio::sync::mpsc;

use super::problem::{Answered, Problem};
use super::route::Route;
use crate::gateway::Gateway;
use crate::gateway::identity::is_id;
use crate::gateway::shares::follow::ShareStream;
use crate::gateway::stream::{RunStream, Stream};
use crate::ledger::{Mark, Who};
use crate::proto::team::Identity;

/// The type of JSON.
pub const JSON: &str = "application/json";
/// Largest number of items of a list.
pub const LIMIT_MAX: usize = 500;
/// Number of items of a list without `limit`.
const LIMIT: usize = 100;

/// A request whose head was checked.
pub struct Sent {
    /// The route's row.
    pub route: &'static Route,
    /// The id of the request.
    pub request_id: String,
    /// Values of the names in the path; `None` if one of them isn't valid text.
    pub params: Option<BTreeMap<String, String>>,
    /// The query, as sent.
    pub query: String,
    /// Path and query, as sent.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// The client's address.
    pub address: IpAddr,
    /// True if it came by the Unix socket, from a process of the gateway's own user.
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
    /// The answer of another gateway.
    Passed(Box<Response>),
    /// The reports of an action on a thread of its own. The client waits for its end; if it has a question, this long at
    /// most.
    Later(mpsc::UnboundedReceiver<Progress>, Duration),
}

/// A report of an action.
pub enum Progress {
    /// A person is asked: the answer for a client that doesn't wait.
    Asked(Value),
    /// The end.
    Done(Box<Answered<Reply>>),
}

impl Reply {
    /// Returns a reply that comes later.
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

/// The cursor after a page of such a list; null after the last one.
#[must_use]
pub fn cursor_of(next: Option<Mark>) -> Value {
    next.map_or(Value::Null, |mark| format!("{}-{}", mark.at_ms, mark.id).into())
}

impl Call<'_> {
    /// Returns the caller.
    ///
    /// # Errors
    /// The route is public, so there is no caller.
    pub fn who(&self) -> Answered<&Identity> {
        self.identity.as_ref().ok_or_else(Problem::unauthenticated)
    }

    /// A value of the path.
    #[must_use]
    pub fn param(&self, name: &str) -> &str {
        self.sent.params.as_ref().and_then(|params| params.get(name)).map_or("", String::as_str)
    }

    /// A text of the query.
    #[must_use]
    pub fn asked(&self, name: &str) -> Option<String> {
        self.query.get(name).cloned()
    }

    /// Returns an integer field of the query.
    ///
    /// # Errors
    /// The field isn't an integer.
    pub fn number(&self, name: &str) -> Answered<Option<i64>> {
        let number = |text: &String| {
            let number = text.parse().ok().filter(|number| *number >= 0);
            number.ok_or_else(|| Problem::body(format!("{name} in the query must be a whole number from 0")))
        };
        self.query.get(name).map(number).transpose()
    }

    /// Returns the requested number of items.
    ///
    /// # Errors
    /// `limit` isn't between 1 and 500.
    pub fn limit(&self) -> Answered<usize> {
        let Some(limit) = self.number("limit")? else { return Ok(LIMIT) };
        let limit = usize::try_from(limit).ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        limit.ok_or_else(|| Problem::body(format!("limit must be between 1 and {LIMIT_MAX}")))
    }

    /// The mark of the page before in a list from the newest to older items, by `cursor`.
    ///
    /// # Errors
    /// The cursor isn't one of such a list.
    pub fn mark(&self) -> Answered<Mark> {
        let Some(text) = self.asked("cursor") else { return Ok(Mark::newest()) };
        let mark = text.split_once('-').and_then(|(at, id)| {
            let at_ms = at.parse().ok().filter(|_| at.bytes().all(|byte| byte.is_ascii_digit()))?;
            is_id(id).then(|| Mark { at_ms, id: id.to_owned() })
        });
        mark.ok_or_else(|| Problem::new(400, "cursor_invalid", "a cursor is the value next of the page before"))
    }

    /// A text of the body.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.body[name].as_str().map(str::to_owned)
    }

    /// Returns an integer field of the body.
    #[must_use]
    pub fn whole(&self, name: &str) -> Option<i64> {
        self.body[name].as_i64()
    }

    /// Returns whether the request came by a name that a proxy serves with encryption.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.header("host").is_some_and(|host| self.gateway.names.is_encrypted(host))
    }

    /// Returns whether the client has a version already: one of its `If-None-Match`, which are compared weakly (RFC
    /// 9110, 13.1.2).
    #[must_use]
    pub fn has_version(&self, tag: &str) -> bool {
        let lines = self.sent.headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).map(str::trim).any(|it| it == "*" || it.trim_start_matches("W/") == tag)
    }

    /// A header that is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.sent.headers.get(name)?.to_str().ok()
    }
}
