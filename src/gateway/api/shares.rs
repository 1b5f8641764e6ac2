//! Shared sessions over HTTP: a session publishes by its own secret, viewers who are named in it watch, and its recording stays.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::gateway::http::call::{Call, Content, Reply, cursor_of};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::http::routes;
use crate::gateway::identity::is_id;
use crate::gateway::shares::follow::ShareStream;
use crate::gateway::shares::recording::{Lines, head};
use crate::gateway::shares::{Begun, LiveShare, may_watch};
use crate::gateway::stream;
use crate::host::now_unix_ms;
use crate::ledger::{GATEWAY_ENDED, NewShare};
use crate::share::EVERYBODY;

/// The body of `POST /shares`.
pub const BEGIN: &str = r#"{"type": "object", "additionalProperties": false, "required": ["kind", "cols", "rows"], "properties": {
    "share_id": {"type": "string", "minLength": 1, "maxLength": 64}, "after": {"type": "integer", "minimum": 0, "maximum": 1000000000000},
    "kind": {"enum": ["shell", "agent"]}, "title": {"type": "string", "maxLength": 500},
    "cols": {"type": "integer", "minimum": 1, "maximum": 1000}, "rows": {"type": "integer", "minimum": 1, "maximum": 1000},
    "watch": {"type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 128}},
    "approve": {"type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 128}},
    "record": {"type": "boolean"}}}"#;
/// Time for which viewers wait for a session whose gateway has ended.
const RETURN_MS: i64 = 60_000;
/// The type of frames.
pub const FRAMES: &str = "application/x-ndjson";
/// Limit on one request with frames, in bytes; the last frame may begin below the publisher's own limit.
pub const FRAMES_BYTES_MAX: usize = 512 * 1024;

/// `POST /shares`; with the id of a session that its gateway left, it continues that session.
pub fn begin(call: &Call<'_>) -> Answered<Reply> {
    let (gateway, who) = (call.gateway, call.who()?);
    let users = |name: &str| -> Vec<String> {
        call.body[name].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
    };
    let cells = |name: &str| call.whole(name).and_then(|it| u16::try_from(it).ok()).unwrap_or(80);
    let new = NewShare {
        share_id: String::new(),
        kind: call.text("kind").unwrap_or_default(),
        title: call.text("title").unwrap_or_default(),
        size: (cells("cols"), cells("rows")),
        watch: users("watch"),
        approve: users("approve"),
    };
    let wrong = new.watch.iter().chain(&new.approve).find(|user| *user != EVERYBODY && !is_id(user));
    if let Some(user) = wrong {
        return Err(Problem::body(format!("{user:?} isn't a user's name")));
    }
    let members = gateway.ledger.accounts().members(&who.tenant)?;
    let is_unknown = |user: &&String| *user != EVERYBODY && members.iter().all(|(member, _)| member != *user);
    let unknown: BTreeSet<String> = new.watch.iter().chain(&new.approve).filter(is_unknown).cloned().collect();
    let (owner, size) = ((who, routes::secret(call.sent)), new.size);
    let begun = match call.text("share_id") {
        None => gateway.shares.begin(&gateway.ledger, owner, new)?,
        Some(_) if *gateway.stopping.borrow() => Begun::Elsewhere,
        Some(id) => {
            let after = call.whole("after").and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
            gateway.shares.resume(&gateway.ledger, owner, &id, (after, size))?
        }
    };
    let (id, secret) = match begun {
        Begun::Live { id, secret } => (id, secret),
        Begun::Full => {
            let message = "too many sessions are shared here; end one, or try again later";
            return Err(Problem::new(429, "rate_limited", message).header("Retry-After", "30"));
        }
        Begun::Elsewhere => return Err(elsewhere()),
        Begun::Ended(why) => {
            let message = format!("the session isn't shared any more: {why}");
            return Err(Problem::new(410, "ended", message).context(json!({"why": why})));
        }
    };
    let url = format!("{}/ui/#/sessions/{id}", gateway.url);
    Ok(Reply::json(201, json!({"share_id": id, "url": url, "publish_token": secret, "unknown": unknown})))
}

/// The session that the request's publisher secret belongs to.
fn published(call: &Call<'_>) -> Answered<std::sync::Arc<LiveShare>> {
    let secret = routes::secret(call.sent).ok_or_else(Problem::unauthenticated)?;
    call.gateway.shares.published(call.param("share_id"), secret).ok_or_else(Problem::unauthenticated)
}

/// `POST /shares/{share_id}/frames`.
pub fn publish(call: &Call<'_>) -> Answered<Reply> {
    let accepted = published(call)?.publish(&call.sent.body)?;
    Ok(Reply::json(202, json!({"accepted_to": accepted})))
}

/// `GET /shares/{share_id}/control`.
pub fn control(call: &Call<'_>) -> Answered<Reply> {
    let content = Content::Share(Box::new(ShareStream::Publisher(published(call)?)));
    Ok(Reply { status: 200, headers: Vec::new(), content })
}

/// Returns the row of a session that the caller may watch. Other sessions look as if they didn't exist.
pub fn watched(call: &Call<'_>, id: &str) -> Answered<Value> {
    let who = call.who()?;
    let row = call.gateway.ledger.shares().get(who, id)?;
    if may_watch(who, &row) { Ok(row) } else { Err(Problem::not_found()) }
}

/// `GET /shares`.
pub fn list(call: &Call<'_>) -> Answered<Reply> {
    let who = call.who()?;
    let (mut items, next) = call.gateway.ledger.shares().list(who, &call.mark()?, call.limit()?)?;
    items.retain(|row| may_watch(who, row));
    for item in &mut items {
        complete(call, item)?;
    }
    Ok(Reply::ok(json!({"items": items, "next": cursor_of(next)})))
}

/// Adds the current viewers.
fn complete(call: &Call<'_>, row: &mut Value) -> Answered<()> {
    let id = row["share_id"].as_str().unwrap_or_default();
    let viewers = call.gateway.shares.find(call.who()?, id).map(|share| share.viewers());
    row["viewers"] = json!(viewers.unwrap_or_default());
    Ok(())
}

/// `GET /shares/{share_id}`.
pub fn get(call: &Call<'_>) -> Answered<Reply> {
    let mut row = watched(call, call.param("share_id"))?;
    complete(call, &mut row)?;
    Ok(Reply::ok(row))
}

/// `DELETE /shares/{share_id}`: repeating it changes nothing.
pub fn end(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, call.param("share_id"));
    let row = watched(call, id)?;
    if row["owner"] != *who.user {
        return Err(Problem::new(403, "forbidden", "only its owner ends the sharing of a session"));
    }
    match call.gateway.shares.find(who, id) {
        Some(share) => share.end("its owner has ended it"),
        None => call.gateway.ledger.shares().end(who, id, "its owner has ended it")?,
    }
    Ok(Reply::empty())
}

/// `GET /sse/shares/{share_id}`.
pub fn follow(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, call.param("share_id"));
    let row = watched(call, id)?;
    let wanted = call.header("last-event-id").map(str::to_owned).or_else(|| call.asked("last_event_id"));
    let cursor = wanted.as_deref().map(stream::cursor).transpose()?;
    let after = cursor.map(|(_, number)| u64::try_from(number).unwrap_or_default());
    let Some(share) = call.gateway.shares.find(who, id) else {
        if row["state"] == "live" || may_return(&row) {
            return Err(elsewhere());
        }
        let text = format!("retry: 2000\n\nevent: ended\ndata: {}\n\n", json!({"why": row["why"]}));
        return Ok(Reply::text("text/event-stream", text));
    };
    let place = call.gateway.streams.take(&who.tenant, &who.user).ok_or_else(Problem::too_many_streams)?;
    let right = (who.tenant.clone(), routes::secret(call.sent).unwrap_or_default().to_owned());
    let viewer = share.join(who);
    let content = Content::Share(Box::new(ShareStream::Viewer { share, after, right, viewer, place }));
    Ok(Reply { status: 200, headers: Vec::new(), content })
}

/// Returns whether its gateway left a session so recently that it may come back.
fn may_return(row: &Value) -> bool {
    let ended = row["ended_ms"].as_i64().unwrap_or_default();
    row["why"] == GATEWAY_ENDED && now_unix_ms().saturating_sub(ended) < RETURN_MS
}

/// Returns the problem of a session that another gateway has, or that is between two gateways.
pub fn elsewhere() -> Problem {
    let message = "the session isn't at this gateway: another one has it, or it comes back in a moment";
    Problem::new(503, "workspace_elsewhere", message).header("Retry-After", "5")
}

/// `GET /shares/{share_id}/recording`.
pub fn recording(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, call.param("share_id"));
    let row = watched(call, id)?;
    let milliseconds = |name: &str| -> Answered<Option<u64>> {
        let seconds = call.number(name)?;
        Ok(seconds.map(|it| u64::try_from(it).unwrap_or_default().saturating_mul(1_000)))
    };
    let (from, to) = (milliseconds("from")?.unwrap_or(0), milliseconds("to")?.unwrap_or(u64::MAX));
    let mut lines = Lines::between(from, to);
    let mut text = head(&row, row["started_ms"].as_i64().unwrap_or_default() / 1_000);
    let mut number = 0;
    while let Some(piece) = call.gateway.ledger.shares().piece(who, id, number)? {
        text.push_str(&lines.of(&piece));
        number += 1;
    }
    Ok(Reply::text("application/x-asciicast", text)
        .header("Content-Disposition", format!("attachment; filename=\"{id}.cast\"")))
}
