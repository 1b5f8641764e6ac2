//! The one form of errors: `{"error": {"code", "message", "context"?, …, "request_id"}}`, on every route and before routing.

use serde_json::{Map, Value, json};

use super::rates::Rate;
use crate::ledger::{LedgerError, Node};

/// An error as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The status.
    pub status: u16,
    /// The code, a stable word.
    pub code: &'static str,
    /// The message, for people.
    pub message: String,
    /// Members that only some errors have, boxed to make results small.
    pub details: Box<Details>,
}

/// The rest of an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Facts for a program.
    pub context: Option<Value>,
    /// More fields of the error: `expected_rev`, `details`.
    pub fields: Map<String, Value>,
    /// Fields beside the error: the data to recover from a conflict.
    pub beside: Map<String, Value>,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The gateway that can serve the request.
    pub elsewhere: Option<Node>,
}

/// The outcome of a handler.
pub type Answered<T> = Result<T, Problem>;

impl Problem {
    /// A problem with a status, a code and a message.
    #[must_use]
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: Box::default() }
    }

    /// A body that isn't valid.
    #[must_use]
    pub fn body(message: impl Into<String>) -> Self {
        Self::new(400, "body_invalid", message)
    }

    /// Something that doesn't exist, or belongs to another tenant: both get exactly the same answer.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(404, "not_found", "there is no such thing here")
    }

    /// Too many requests for a rate; the header gives the time until the next one is accepted.
    #[must_use]
    pub fn rate_limited(rate: Rate) -> Self {
        let seconds = rate.seconds();
        let after = if seconds == 1 { "a second".to_owned() } else { format!("{seconds} seconds") };
        let message = format!("too many requests; try again in {after}");
        Self::new(429, "rate_limited", message).header("Retry-After", seconds.to_string())
    }

    /// The user or the tenant has too many streams.
    #[must_use]
    pub fn too_many_streams() -> Self {
        let message = "too many streams are open; close one, or follow several topics in one stream";
        Self::new(429, "too_many_streams", message).header("Retry-After", "5")
    }

    /// A queue is full.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::new(503, "overloaded", "the gateway has too much to do; try again in a second").header("Retry-After", "1")
    }

    /// A missing or an invalid token: the answer is the same.
    #[must_use]
    pub fn unauthenticated() -> Self {
        Self::unknown("a valid token is needed in the header Authorization: Bearer")
    }

    /// An invalid secret other than a token.
    #[must_use]
    pub fn unknown(message: &str) -> Self {
        Self::new(401, "unauthenticated", message).header("WWW-Authenticate", "Bearer")
    }

    /// Another gateway of the same database has `what`: the request is forwarded there, or if that fails, this refusal names the
    /// gateway.
    #[must_use]
    pub fn is_elsewhere(what: &str, node: Option<Node>) -> Self {
        let message = match node.as_ref().and_then(|node| node.address.as_ref()) {
            Some(address) => format!("the {what} is at the gateway that listens at {address}"),
            None => format!("the {what} isn't at this gateway: another one of the same database has it"),
        };
        let context =
            json!({"node_id": node.as_ref().map(|node| &node.id), "address": node.as_ref().map(|node| &node.address)});
        Self::new(503, "workspace_elsewhere", message).context(context).header("Retry-After", "5").elsewhere(node)
    }

    /// Adds facts.
    #[must_use]
    pub fn context(mut self, context: Value) -> Self {
        self.details.context = Some(context);
        self
    }

    /// Names the gateway that can serve the request.
    #[must_use]
    pub fn elsewhere(mut self, node: Option<Node>) -> Self {
        self.details.elsewhere = node;
        self
    }

    /// Adds a field of the error.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a field beside the error.
    #[must_use]
    pub fn beside(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.beside.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.headers.push((name, value.into()));
        self
    }

    /// The body of the answer.
    #[must_use]
    pub fn to_value(&self, request_id: &str) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), self.code.into());
        error.insert("message".into(), self.message.clone().into());
        if let Some(context) = &self.details.context {
            error.insert("context".into(), context.clone());
        }
        error.insert("request_id".into(), request_id.into());
        error.extend(self.details.fields.clone());
        let mut whole = self.details.beside.clone();
        whole.insert("error".into(), error.into());
        whole.into()
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        let message = error.to_string();
        match error {
            LedgerError::NotFound => Self::not_found(),
            LedgerError::WrongExpectedVersion { stream, expected, actual } => {
                let context = json!({"stream": stream, "expected": expected, "actual": actual});
                Self::new(409, "wrong_expected_version", message).context(context)
            }
            LedgerError::VersionConflict { expected, actual } => {
                Self::new(409, "version_conflict", message).context(json!({"expected": expected, "actual": actual}))
            }
            LedgerError::IdempotencyMismatch(_) => Self::new(422, "idempotency_mismatch", message),
            LedgerError::InProgress(state) => Self::new(409, "in_progress", message).context(json!({"state": state})),
            LedgerError::AlreadyAnswered(by) => Self::new(409, "already_answered", message).context(json!({"by": by})),
            LedgerError::OtherCall => Self::new(409, "conflict", message),
            LedgerError::Elsewhere(node) => Self::is_elsewhere("project's workspace", node.map(|node| *node)),
            LedgerError::LeaseLost { lease, .. } => {
                Self::new(409, "conflict", message).context(json!({"fence": lease.fence}))
            }
            LedgerError::Time(_) => Self::body(message),
            LedgerError::Late => Self::new(410, "question_expired", message),
            LedgerError::Invalid(_) => Self::new(422, "schema_invalid", message),
            LedgerError::Forbidden(_) => Self::new(403, "forbidden", message),
            LedgerError::Database(why) => {
                tracing::error!(event = "database_failed", why = why.as_str());
                Self::new(503, "database_unavailable", "the database can't be read or written; nothing was done")
                    .header("Retry-After", "1")
            }
        }
    }
}
