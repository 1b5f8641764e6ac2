//! Canvases over HTTP: commands, snapshot, replay, and the events as they come.

use serde_json::{Value, json};

use super::call::{Call, Reply};
use super::events::follow;
use super::identity::is_id;
use super::problem::{Answered, Problem};
use super::{chained, stream};
use crate::ledger::{Command, Committed, Filter, Subject};
use crate::proto::team::TokenKind;

/// The body of `POST /canvas/{canvas_id}/commands`.
pub const COMMAND: &str = r#"{"type": "object", "additionalProperties": false, "required": ["base_rev", "ops"],
    "properties": {"base_rev": {"type": "integer", "minimum": 0},
    "ops": {"type": "array", "minItems": 1, "maxItems": 200, "items": {"type": "object"}},
    "actor_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "correlation_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128}, "merge": {"const": "disjoint"}}}"#;
/// Events of a page.
const PAGE: usize = 500;

fn canvas_id<'c>(call: &'c Call<'_>) -> Answered<&'c str> {
    let id = call.param("canvas_id");
    if is_id(id) { Ok(id) } else { Err(Problem::not_found()) }
}

/// `POST /canvas/{canvas_id}/commands`.
pub fn command(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    call.gateway.ledger.check_canvas(who, id)?;
    let names = [call.text("idempotency_key"), call.text("correlation_id")];
    let named = call.header("idempotency-key").map(str::to_owned);
    let mut keys: Vec<String> = names.into_iter().chain([named]).flatten().collect();
    keys.dedup();
    let key = match keys.as_slice() {
        [] => return Err(Problem::new(400, "idempotency_missing", "idempotency_key or correlation_id is needed")),
        [key] => key.clone(),
        _ => return Err(Problem::body("idempotency_key and correlation_id are two names of one key, and differ")),
    };
    let subject = Subject { kind: "canvas".into(), id: id.to_owned() };
    chained::admit(call.gateway, who, "canvas_command", &subject)?;
    let command = Command {
        base_rev: call.whole("base_rev").unwrap_or_default(),
        ops: call.body["ops"].as_array().cloned().unwrap_or_default(),
        key,
        may_merge: call.body.get("merge").is_some(),
        source: if who.kind == TokenKind::Person { "ui" } else { "agent" },
    };
    match call.gateway.ledger.command(who, id, &command)? {
        Committed::Done(mut answer, is_old) => {
            answer["replayed"] = is_old.into();
            let reply = Reply::ok(answer);
            Ok(if is_old { reply.header("Idempotent-Replay", "true") } else { reply })
        }
        Committed::Conflict { head_rev, recovery_ops } => {
            let problem = Problem::new(409, "conflict", "the canvas has changed since that revision")
                .field("expected_rev", head_rev)
                .beside("head_rev", head_rev)
                .beside("applied_ops", json!([]));
            Err(match recovery_ops {
                Some(ops) => problem.beside("recovery_ops", ops),
                None => problem.beside("recovery_ops", json!([])).field("details", json!({"recovery": "snapshot"})),
            })
        }
        Committed::Ahead(head_rev) => {
            let message = "base_rev is a revision that the canvas doesn't have yet";
            Err(Problem::new(422, "op_invalid", message).field("expected_rev", head_rev))
        }
        Committed::Invalid(error) => {
            let details = json!({"index": error.index});
            Err(Problem::new(422, "op_invalid", error.to_string()).field("details", details))
        }
    }
}

/// `GET /canvas/{canvas_id}/snapshot`.
pub fn snapshot(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    let found = call.gateway.ledger.canvas(who, id)?;
    let epoch = call.gateway.ledger.head(who)?.1;
    Ok(Reply::ok(json!({
        "canvas_id": id, "rev": found.state.rev, "last_event_id": format!("{epoch}-{}", found.position),
        "atoms": found.state.atoms_value(), "state_hash": found.state.hash(),
    })))
}

/// `GET /canvas/{canvas_id}/replay`: commits in order as NDJSON, up to the head that stood when it began.
pub fn replay(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, canvas_id(call)?);
    let ledger = &call.gateway.ledger;
    let last = ledger.canvas(who, id)?.position;
    let epoch = ledger.head(who)?.1;
    let mut after = match call.asked("after_event_id").as_deref().map(stream::cursor).transpose()? {
        Some((of, _)) if of != epoch => {
            return Err(Problem::new(410, "cursor_gone", "the cursor is of an earlier log; take a snapshot"));
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

/// `GET /sse/canvas/{canvas_id}`.
pub fn live(call: &Call<'_>) -> Answered<Reply> {
    let id = canvas_id(call)?;
    call.gateway.ledger.canvas(call.who()?, id)?;
    let filter = Filter { stream: Some(format!("canvas/{id}")), ..Filter::default() };
    follow(call, filter, Some(format!("/canvas/{id}/snapshot")))
}
