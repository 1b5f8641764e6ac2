//! A route: its path, the right that it needs, its input, and its handler. One row of the tables of `api`.

use axum::http::Method;

use super::call::{Call, Reply};
use super::problem::Answered;
use crate::proto::team::TeamRole;

/// Bytes of a JSON body.
pub const JSON_BYTES_MAX: usize = 1024 * 1024;

/// The right that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Anybody.
    Nothing,
    /// A service's token, unless only this machine's user could ask.
    Service,
    /// A token with at least this role.
    Role(TeamRole),
    /// A token of a person, with at least this role.
    Person(TeamRole),
}

/// A route.
pub struct Route {
    /// The method.
    pub(in crate::gateway) method: &'static str,
    /// The pattern of the path.
    pub path: &'static str,
    /// The right that it needs.
    pub needs: Needs,
    /// The names that its query may have.
    pub query: &'static [&'static str],
    /// The JSON Schema of its body; none if it takes no body.
    pub body: Option<&'static str>,
    /// The statuses of its answers that aren't errors.
    pub statuses: &'static [u16],
    /// Bytes of its body.
    pub bytes_max: usize,
    /// The types that its body may have; none for JSON.
    pub raw: &'static [&'static str],
    /// The summary, for the OpenAPI document.
    pub summary: &'static str,
    pub(in crate::gateway) handler: fn(&Call<'_>) -> Answered<Reply>,
}

impl Route {
    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        Method::from_bytes(self.method.as_bytes()).unwrap_or(Method::GET)
    }
}

/// A row for reading.
pub(in crate::gateway) const fn get(
    path: &'static str,
    needs: Needs,
    query: &'static [&'static str],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    let (method, body, statuses, bytes_max) = ("GET", None, &[200_u16] as &[u16], 0);
    Route { method, path, needs, query, body, statuses, bytes_max, raw: &[], summary, handler }
}

/// A row for a write with a JSON body.
pub(in crate::gateway) const fn write(
    method: &'static str,
    path: &'static str,
    needs: Needs,
    body: &'static str,
    statuses: &'static [u16],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    let (query, bytes_max) = (&[] as &[&str], JSON_BYTES_MAX);
    Route { method, path, needs, query, body: Some(body), statuses, bytes_max, raw: &[], summary, handler }
}

/// A row for a removal.
pub(in crate::gateway) const fn delete(
    path: &'static str,
    needs: Needs,
    query: &'static [&'static str],
    summary: &'static str,
    handler: fn(&Call<'_>) -> Answered<Reply>,
) -> Route {
    Route { method: "DELETE", statuses: &[204], ..get(path, needs, query, summary, handler) }
}

/// The schema of an empty body.
pub const NOTHING: &str = r#"{"type": "object", "additionalProperties": false}"#;
