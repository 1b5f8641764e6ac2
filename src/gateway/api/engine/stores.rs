//! Memory and blackboard over HTTP.

use serde_json::{Value, json};

use crate::gateway::http::call::{Call, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::ledger::{BoardEntry, MemoryEntry, Place};

/// The body of `POST /memory`.
pub const REMEMBER: &str = r#"{"type": "object", "additionalProperties": false, "required": ["scope", "key", "value"],
    "properties": {"scope": {"enum": ["session", "project", "tenant"]},
    "key": {"type": "string", "minLength": 1, "maxLength": 256}, "value": {},
    "ttl_s": {"type": "integer", "minimum": 1, "maximum": 315360000},
    "expected_version": {"type": "integer", "minimum": 0}}}"#;
/// The body of `PUT /blackboard/{run_id}/entries/{key}`.
pub const PUT: &str = r#"{"type": "object", "additionalProperties": false, "required": ["value"],
    "properties": {"value": {}, "expected_version": {"type": "integer", "minimum": 0}}}"#;
/// Characters of a key.
const KEY_CHARS_MAX: usize = 256;

/// Place to which a scope leads for this request.
fn place(call: &Call<'_>, scope: &str) -> Answered<Place> {
    let who = call.who()?;
    let scope_id = match scope {
        "session" => who
            .run_id
            .clone()
            .ok_or_else(|| Problem::body("the scope session needs the header X-Run-Id, which names the session"))?,
        "project" => who.project.clone(),
        "tenant" => String::new(),
        _ => return Err(Problem::body("scope must be session, project or tenant")),
    };
    Ok(Place { scope: scope.to_owned(), scope_id })
}

/// `POST /memory`.
pub fn remember(call: &Call<'_>) -> Answered<Reply> {
    let place = place(call, &call.text("scope").unwrap_or_default())?;
    let key = call.text("key").unwrap_or_default();
    let (ttl_s, expected) = (call.whole("ttl_s"), call.whole("expected_version"));
    let ledger = &call.gateway.ledger;
    let (version, expires_at) =
        ledger.stores().remember(call.who()?, &place, &key, &call.body["value"], ttl_s, expected)?;
    let status = if version == 1 { 201 } else { 200 };
    Ok(Reply::json(status, json!({"version": version, "expires_at": expires_at})))
}

/// `GET /memory`.
pub fn memories(call: &Call<'_>) -> Answered<Reply> {
    let place = place(call, &call.asked("scope").unwrap_or_default())?;
    let (key, is_prefix) = match (call.asked("key"), call.asked("prefix")) {
        (Some(key), None) => (key, false),
        (None, Some(prefix)) => (prefix, true),
        _ => return Err(Problem::body("the query has either key or prefix")),
    };
    let (after, limit) = (call.asked("cursor").unwrap_or_default(), call.limit()?);
    if !is_prefix && !after.is_empty() {
        return Err(Problem::body("one key has no pages; cursor goes with prefix"));
    }
    let page = (after.as_str(), limit + 1);
    let found = call.gateway.ledger.stores().memories(call.who()?, &place, &key, is_prefix, page)?;
    let item = |entry: &MemoryEntry| {
        json!({"key": entry.key, "value": entry.value, "version": entry.version, "expires_at": entry.expires_at,
            "by": entry.by})
    };
    match found.first() {
        None if !is_prefix => Err(Problem::not_found()),
        Some(entry) if !is_prefix => Ok(Reply::ok(item(entry))),
        _ => Ok(page_of(&found, limit, item, |entry| &entry.key)),
    }
}

/// `DELETE /memory`.
pub fn forget(call: &Call<'_>) -> Answered<Reply> {
    let place = place(call, &call.asked("scope").unwrap_or_default())?;
    let key = call.asked("key").ok_or_else(|| Problem::body("key is missing in the query"))?;
    call.gateway.ledger.stores().forget(call.who()?, &place, &key)?;
    Ok(Reply::empty())
}

fn item(entry: &BoardEntry) -> Value {
    json!({"key": entry.key, "value": entry.value, "version": entry.version, "by": entry.by, "at": entry.at})
}

/// `GET /blackboard/{run_id}/entries`.
pub fn entries(call: &Call<'_>) -> Answered<Reply> {
    let prefix = call.asked("prefix").unwrap_or_default();
    let (after, limit) = (call.asked("cursor").unwrap_or_default(), call.limit()?);
    let page = (after.as_str(), limit + 1);
    let found = call.gateway.ledger.stores().entries(call.who()?, call.param("run_id"), &prefix, true, page)?;
    Ok(page_of(&found, limit, item, |entry| &entry.key))
}

/// Makes a page of found items, of which there may be one more than the limit; the cursor is the last key of the page.
fn page_of<T>(found: &[T], limit: usize, item: impl Fn(&T) -> Value, key: impl Fn(&T) -> &String) -> Reply {
    let page = &found[..found.len().min(limit)];
    let next = page.last().filter(|_| found.len() > limit).map(key);
    Reply::ok(json!({"items": page.iter().map(item).collect::<Vec<Value>>(), "next": next}))
}

/// The run and the key of an entry: in the path, or in the query, which is the second spelling.
fn place_of(call: &Call<'_>) -> Answered<(String, String)> {
    if !call.param("run_id").is_empty() {
        return Ok((call.param("run_id").to_owned(), call.param("key").to_owned()));
    }
    let missing = |name: &str| Problem::body(format!("{name} is missing in the query"));
    let run_id = call.asked("run_id").ok_or_else(|| missing("run_id"))?;
    Ok((run_id, call.asked("key").ok_or_else(|| missing("key"))?))
}

/// `GET /blackboard/{run_id}/entries/{key}`, and `GET /blackboard?run_id=&key=`.
pub fn entry(call: &Call<'_>) -> Answered<Reply> {
    let (run_id, key) = place_of(call)?;
    let found = call.gateway.ledger.stores().entries(call.who()?, &run_id, &key, false, ("", 1))?;
    let entry = found.first().ok_or_else(Problem::not_found)?;
    Ok(Reply::ok(item(entry)).header("ETag", format!("\"{}\"", entry.version)))
}

/// `PUT /blackboard/{run_id}/entries/{key}`: the version comes in the body or in `If-Match`.
pub fn put(call: &Call<'_>) -> Answered<Reply> {
    let named = call.whole("expected_version");
    let matched = call.header("if-match").map(|text| {
        let number = text.trim().trim_start_matches('"').trim_end_matches('"').parse::<i64>().ok();
        number.ok_or_else(|| Problem::body("If-Match must be the ETag of an earlier answer"))
    });
    let expected = match (named, matched.transpose()?) {
        (Some(named), Some(matched)) if named != matched => {
            return Err(Problem::body("expected_version and If-Match name different versions"));
        }
        (Some(version), _) | (None, Some(version)) => version,
        (None, None) => {
            let message = "expected_version or If-Match is needed; 0 if there must be no entry";
            return Err(Problem::new(428, "precondition_required", message));
        }
    };
    let (run_id, key) = place_of(call)?;
    if !crate::gateway::identity::is_id(&run_id) || !(1..=KEY_CHARS_MAX).contains(&key.chars().count()) {
        return Err(Problem::body("the run is an id, and a key has 1 to 256 characters"));
    }
    let version = call.gateway.ledger.stores().put_entry(call.who()?, &run_id, &key, &call.body["value"], expected)?;
    let status = if version == 1 { 201 } else { 200 };
    Ok(Reply::json(status, json!({"version": version})).header("ETag", format!("\"{version}\"")))
}
