//! Canvases over HTTP: commands, snapshot, replay, and the events as they come.

use std::time::Instant;

use serde_json::{Value, json};

use crate::gateway::api::engine::events::follow;
use crate::gateway::http::call::{Call, JSON, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::http::rates;
use crate::gateway::identity::is_id;
use crate::gateway::runs::chained;
use crate::gateway::stream;
use crate::ledger::{Command, Filter, Subject};
use crate::proto::team::TokenKind;

/// The body of `POST /canvas/{canvas_id}/commands`.
pub const COMMAND: &str = r#"{"type": "object", "additionalProperties": false, "required": ["base_rev", "ops"],
    "properties": {"base_rev": {"type": "integer", "minimum": 0},
    "ops": {"type": "array", "minItems": 1, "maxItems": 200, "items": {"type": "object"}},
    "actor_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "correlation_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128}, "merge": {"const": "disjoint"}}}"#;
/// The body of `POST /canvas/{canvas_id}/gestures`.
pub const GESTURE: &str = r#"{"type": "object", "additionalProperties": false, "required": ["kind"], "properties": {
    "kind": {"type": "string", "minLength": 1, "maxLength": 64},
    "atom_id": {"type": "string", "minLength": 1, "maxLength": 128}, "x": {"type": "number"}, "y": {"type": "number"},
    "data": {"type": "object"}}}"#;
/// Bytes of a gesture.
pub const GESTURE_BYTES_MAX: usize = 2 * 1024;
/// The flag of a tenant that switches gestures on or off.
const GESTURES: &str = "canvas.gestures";
/// Events of a page.
const PAGE: usize = 500;

/// The canvas that the path names.
pub fn canvas_id<'c>(call: &'c Call<'_>) -> Answered<&'c str> {
    let id = call.param("canvas_id");
    if is_id(id) { Ok(id) } else { Err(Problem::not_found()) }
}

/// `POST /canvas/{canvas_id}/commands`.
pub fn command(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    let names = [call.text("idempotency_key"), call.text("correlation_id")];
    let named = call.header("idempotency-key").map(str::to_owned);
    let mut keys: Vec<String> = names.into_iter().chain([named]).flatten().collect();
    keys.dedup();
    let key = match keys.as_slice() {
        [] => return Err(Problem::new(400, "idempotency_missing", "idempotency_key or correlation_id is needed")),
        [key] => key.clone(),
        _ => {
            return Err(Problem::body(
                "idempotency_key, correlation_id and the header Idempotency-Key name one key, and differ",
            ));
        }
    };
    let command = Command {
        base_rev: call.whole("base_rev").unwrap_or_default(),
        ops: call.body["ops"].as_array().cloned().unwrap_or_default(),
        key,
        may_merge: call.body.get("merge").is_some(),
        source: if who.kind == TokenKind::Person { "ui" } else { "agent" },
    };
    let answer = chained::command(call.gateway, who, id, &command)?;
    let is_old = answer["replayed"] == true;
    let reply = Reply::ok(answer);
    Ok(if is_old { reply.header("Idempotent-Replay", "true") } else { reply })
}

/// `GET /canvas`: the canvases of the project by name; `cursor` is the last name of the page before.
pub fn list(call: &Call<'_>) -> Answered<Reply> {
    let limit = call.limit()?;
    let after = call.asked("cursor").unwrap_or_default();
    let mut found = call.gateway.ledger.canvases().list(call.who()?, &after, limit + 1)?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|(id, _)| id.clone());
    let items: Vec<Value> = found.iter().map(|(id, rev)| json!({"canvas_id": id, "rev": rev})).collect();
    Ok(Reply::ok(json!({"items": items, "next": next})))
}

/// `GET /canvas/{canvas_id}/snapshot`.
pub fn snapshot(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    let found = call.gateway.ledger.canvases().canvas(who, id)?;
    let epoch = call.gateway.ledger.head(who)?.1;
    let rest = json!({"canvas_id": id, "rev": found.state.rev, "last_event_id": format!("{epoch}-{}", found.position),
        "state_hash": found.state_hash})
    .to_string();
    // Each atom's text is cached, so a large board needn't be parsed into values first.
    Ok(Reply::text(JSON, format!("{{\"atoms\":{},{}", found.state.atoms_text(), &rest[1..])))
}

/// `GET /canvas/{canvas_id}/replay`: commits in order as NDJSON, up to the head at the time of the request.
pub fn replay(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    let ledger = &call.gateway.ledger;
    let last = ledger.canvases().canvas(who, id)?.position;
    let (head, epoch, first) = ledger.head(who)?;
    let mut after = match call.asked("after_event_id").as_deref().map(stream::cursor).transpose()? {
        // One ahead of the log is of a log that was lost: its owner isn't up to date.
        Some((of, position)) if of != epoch || position < first || position > head => {
            return Err(Problem::new(
                410,
                "cursor_gone",
                "the cursor is of another log than this one; take a snapshot",
            ));
        }
        Some((_, position)) => position,
        None => 0,
    };
    let filter = Filter {
        stream: Some(format!("canvas/{id}")),
        event_type: Some("canvas_commit".into()),
        before: Some(last + 1),
        ..Filter::default()
    };
    let mut lines = String::new();
    loop {
        let page = ledger.read(who, after, &filter, PAGE)?;
        let Some(newest) = page.last() else { break };
        after = newest.position;
        for event in &page {
            let line = json!({"type": "canvas_commit", "id": format!("{epoch}-{}", event.position),
                "event_id": event.event_id, "actor": event.actor, "at": event.recorded_at, "body": event.body()});
            lines += &(line.to_string() + "\n");
        }
    }
    let end: Value = json!({"type": "end", "last_event_id": format!("{epoch}-{last}")});
    Ok(Reply::text("application/x-ndjson", lines + &end.to_string() + "\n"))
}

/// `POST /canvas/{canvas_id}/gestures`: shown to the current viewers of the canvas, and never stored. Gestures over the rate
/// limit are dropped silently.
pub fn gesture(call: &Call<'_>) -> Answered<Reply> {
    let (gateway, who, id) = (call.gateway, call.who()?, canvas_id(call)?);
    if gateway.ledger.safety().flag(&who.tenant, GESTURES)? == Some(false) {
        return Err(Problem::new(403, "feature_off", "gestures are switched off for this tenant"));
    }
    let now = Instant::now();
    if !gateway.gestures.has_passed(who, id, now) {
        gateway.ledger.artifacts().list(who, id)?;
        let subject = Subject { kind: "canvas".into(), id: id.to_owned() };
        chained::peek(gateway, who, "canvas_gesture", &subject)?;
        gateway.gestures.passed(who, id, now);
    }
    if gateway.rates.take(format!("gesture {} {} {id}", who.tenant, who.user), rates::GESTURE, now) {
        let mut routing = json!({"tenant": who.tenant, "mode": who.mode.word(), "project": who.project});
        for (name, id) in [("surface_id", &who.surface_id), ("app_id", &who.app_id)] {
            id.iter().for_each(|id| routing[name] = id.as_str().into());
        }
        let data = json!({"type": "gesture", "stream": format!("canvas/{id}"), "routing": routing,
            "ids": {"request_id": who.request_id}, "actor": who.user, "body": call.body});
        gateway.gestures.show(who, &format!("canvas/{id}"), &format!("event: gesture\ndata: {data}\n\n"));
    }
    Ok(Reply::json(202, json!({"accepted": true})))
}

/// `GET /sse/canvas/{canvas_id}`.
pub fn live(call: &Call<'_>) -> Answered<Reply> {
    let id = canvas_id(call)?;
    call.gateway.ledger.canvases().canvas(call.who()?, id)?;
    let filter = Filter { stream: Some(format!("canvas/{id}")), ..Filter::default() };
    follow(call, filter, Some(format!("/canvas/{id}/snapshot")))
}
