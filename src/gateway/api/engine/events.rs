//! The event log over HTTP: append, list, replay, the timeline of one stream, and a stream as it grows.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::gateway::http::call::{Call, Content, Reply};
use crate::gateway::http::inputs::time_text;
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::http::routes;
use crate::gateway::identity::is_id;
use crate::gateway::stream::{self, Stream};
use crate::ledger::{Event, Expected, Filter, Stored};
use crate::proto::team::EventDraft;

/// Types of events that clients may append, beside those that begin with `x.`.
const TYPES: &[&str] = &[
    "safety",
    "audit",
    "budget",
    "strategy_lock",
    "licence",
    "analytics",
    "cost",
    "message.user",
    "message.assistant",
    "message.summary",
    "action.requested",
    "action.admitted",
    "action.completed",
    "action.failed",
    "run.started",
    "run.ended",
];
/// Streams that only the gateway writes.
const OWN_STREAMS: &[&str] = &["canvas/", "memory/", "blackboard/", "dataset:"];
/// The type of an event about what a request to a model cost.
const COST: &str = "cost";
/// The type of a run's last event.
const ENDED: &str = "run.ended";
/// The type of a run's first event.
const STARTED: &str = "run.started";
/// The source of the gateway's own events, which no client can claim.
const ENGINE: &str = "engine";
/// The header of a client that accepts slightly outdated answers: `eventual`.
const CONSISTENCY: &str = "x-consistency";
/// Page size for adding up a run's costs.
const SUM_PAGE: usize = 1_000;

/// The body of `POST /events/append`: one event, or several.
pub const APPEND: &str = r##"{"$defs": {
    "id": {"type": "string", "minLength": 1, "maxLength": 128},
    "stream": {"type": "string", "minLength": 1, "maxLength": 200},
    "event": {"type": "object", "additionalProperties": false, "required": ["event_type", "source"], "properties": {
        "event_id": {"$ref": "#/$defs/id"}, "event_type": {"$ref": "#/$defs/id"},
        "source": {"enum": ["agent", "tool", "ui"]}, "run_id": {"$ref": "#/$defs/id"},
        "step_id": {"$ref": "#/$defs/id"}, "trace_id": {"$ref": "#/$defs/id"}, "stream": {"$ref": "#/$defs/stream"},
        "causation_id": {"$ref": "#/$defs/id"}, "correlation_id": {"$ref": "#/$defs/id"},
        "occurred_at": {"type": "string", "maxLength": 40}, "actor_id": {"$ref": "#/$defs/id"}, "body": {}}},
    "expected": {"type": "object", "additionalProperties": false, "required": ["stream", "version"], "properties": {
        "stream": {"$ref": "#/$defs/stream"}, "version": {"type": "integer", "minimum": 0}}}},
    "type": "object", "if": {"required": ["events"]},
    "then": {"additionalProperties": false, "properties": {
        "events": {"type": "array", "minItems": 1, "maxItems": 200, "items": {"$ref": "#/$defs/event"}},
        "expected_version": {"$ref": "#/$defs/expected"}}},
    "else": {"$ref": "#/$defs/event"}}"##;

/// The body of `POST /realtime/timeline/{stream_id}/append`.
pub const TIMELINE: &str = r#"{"type": "object", "additionalProperties": false, "required": ["event_type", "source"],
    "properties": {"event_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "event_type": {"type": "string", "minLength": 1, "maxLength": 128},
    "source": {"enum": ["agent", "tool", "ui"]}, "body": {}, "expected_version": {"type": "integer", "minimum": 0}}}"#;

/// `POST /events/append`.
pub fn append(call: &Call<'_>) -> Answered<Reply> {
    let events = match call.body.get("events").and_then(Value::as_array) {
        Some(events) => events.as_slice(),
        None => std::slice::from_ref(&call.body),
    };
    let drafts: Vec<EventDraft> = events.iter().map(|event| draft(call, event)).collect::<Answered<_>>()?;
    if call.who()?.run_id.is_none() && drafts.iter().any(|draft| draft.run_id.is_none()) {
        return Err(Problem::body("run_id is missing: in each event, or in the header X-Run-Id"));
    }
    let expected = call.body.get("expected_version").map(|expected| Expected {
        stream: expected["stream"].as_str().unwrap_or_default().to_owned(),
        version: expected["version"].as_i64().unwrap_or_default(),
    });
    let stored = call.gateway.ledger.append(call.who()?, &drafts, expected.as_ref())?;
    Ok(appended(&stored))
}

fn draft(call: &Call<'_>, event: &Value) -> Answered<EventDraft> {
    let text = |name: &str| event[name].as_str().map(str::to_owned);
    for name in ["event_id", "event_type", "run_id", "step_id", "trace_id", "causation_id", "correlation_id"] {
        if text(name).is_some_and(|id| !is_id(&id)) {
            return Err(Problem::body(format!("{name} must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -")));
        }
    }
    if text("stream").is_some_and(|stream| !is_stream(&stream)) {
        return Err(Problem::body("a stream is ids with / between them, 200 bytes at most"));
    }
    let event_type = text("event_type").unwrap_or_default();
    if !event_type.starts_with("x.") && !TYPES.contains(&event_type.as_str()) {
        let message = format!("the type {event_type:?} isn't one that clients append; others begin with x.");
        return Err(Problem::new(422, "schema_invalid", message));
    }
    if event_type == COST && has_negative(&event["body"]) {
        return Err(Problem::new(422, "schema_invalid", "a cost has no negative numbers"));
    }
    let stream = text("stream");
    if let Some(own) = stream.as_ref().and_then(|name| OWN_STREAMS.iter().find(|own| name.starts_with(**own))) {
        let message = format!("streams that begin with {own:?} are written by the gateway alone");
        return Err(Problem::new(422, "schema_invalid", message));
    }
    if text("actor_id").is_some_and(|actor| call.who().is_ok_and(|who| who.user != actor)) {
        return Err(Problem::new(403, "actor_mismatch", "the actor is the token's user, and an event names another"));
    }
    Ok(EventDraft {
        event_id: text("event_id"),
        event_type,
        source: text("source").unwrap_or_default(),
        stream,
        run_id: text("run_id"),
        step_id: text("step_id"),
        trace_id: text("trace_id"),
        causation_id: text("causation_id"),
        correlation_id: text("correlation_id"),
        occurred_at: text("occurred_at").map(|text| time_text("occurred_at", &text)).transpose()?,
        body: event.get("body").cloned().unwrap_or_default(),
    })
}

/// Returns whether a value has a negative number.
fn has_negative(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number < 0.0),
        Value::Array(items) => items.iter().any(has_negative),
        Value::Object(fields) => fields.values().any(has_negative),
        _ => false,
    }
}

fn appended(stored: &[Stored]) -> Reply {
    let is_old = stored.iter().all(|it| it.is_duplicate);
    let events: Vec<Value> = stored
        .iter()
        .map(|it| {
            json!({"event_id": it.event_id, "position": it.position, "stream_version": it.stream_version,
                "duplicate": it.is_duplicate})
        })
        .collect();
    let positions = stored.iter().map(|it| it.position);
    let (first, last) = (positions.clone().min(), positions.max());
    let body = json!({"first_position": first, "last_position": last, "events": events});
    Reply::json(if is_old { 200 } else { 201 }, body)
}

/// `GET /events/list`.
pub fn list(call: &Call<'_>) -> Answered<Reply> {
    let filter = Filter {
        event_type: call.asked("type"),
        source: call.asked("source"),
        run_id: call.asked("run_id"),
        stream: call.asked("stream"),
        before: call.number("before")?,
        from: call.asked("from").map(|text| time_text("from", &text)).transpose()?,
        to: call.asked("to").map(|text| time_text("to", &text)).transpose()?,
        ..Filter::default()
    };
    page(call, &filter)
}

/// `GET /realtime/timeline/{stream_id}/list`.
pub fn timeline(call: &Call<'_>) -> Answered<Reply> {
    page(call, &Filter { stream: Some(stream_id(call)?), ..Filter::default() })
}

fn stream_id(call: &Call<'_>) -> Answered<String> {
    let name = call.param("stream_id");
    if is_stream(name) { Ok(name.to_owned()) } else { Err(Problem::not_found()) }
}

fn is_stream(name: &str) -> bool {
    name.split('/').all(is_id) && name.len() <= 200
}

/// The position after which a page begins: `cursor`, or `after`.
fn after(call: &Call<'_>) -> Answered<i64> {
    match call.asked("cursor") {
        None => Ok(call.number("after")?.unwrap_or(0)),
        Some(text) => {
            let (epoch, position) = stream::cursor(&text)?;
            let (_, now, first) = call.gateway.ledger.head(call.who()?)?;
            if epoch != now || position < first {
                return Err(Problem::new(410, "cursor_gone", "the cursor is of an earlier log; take a snapshot"));
            }
            Ok(position)
        }
    }
}

/// Reads events, from the replica if the client accepts outdated answers.
fn pages(call: &Call<'_>, after: i64, filter: &Filter, limit: usize) -> Answered<Vec<Event>> {
    let (gateway, who) = (call.gateway, call.who()?);
    if call.header(CONSISTENCY) != Some("eventual") {
        return Ok(gateway.ledger.read(who, after, filter, limit)?);
    }
    let (events, is_behind) = gateway.ledger.read_behind(who, after, filter, limit)?;
    match is_behind {
        Some(true) => gateway.metrics.replica_reads.fetch_add(1, Ordering::Relaxed),
        Some(false) => gateway.metrics.replica_misses.fetch_add(1, Ordering::Relaxed),
        None => 0,
    };
    Ok(events)
}

fn read(call: &Call<'_>, filter: &Filter) -> Answered<(Vec<Event>, Option<String>)> {
    let (who, limit) = (call.who()?, call.limit()?);
    let mut events = pages(call, after(call)?, filter, limit + 1)?;
    let has_more = events.len() > limit;
    events.truncate(limit);
    let epoch = call.gateway.ledger.head(who)?.1;
    let next = events.last().filter(|_| has_more).map(|last| format!("{epoch}-{}", last.position));
    Ok((events, next))
}

fn page(call: &Call<'_>, filter: &Filter) -> Answered<Reply> {
    let (events, next) = read(call, filter)?;
    let items: Vec<Value> = events.iter().map(Event::to_value).collect();
    Ok(Reply::ok(json!({"items": items, "next": next})))
}

/// `GET /events/replay`: the events of a run with its usage and decisions; as NDJSON if the client asks for that.
pub fn replay(call: &Call<'_>) -> Answered<Reply> {
    let run_id = call.asked("run_id").ok_or_else(|| Problem::body("run_id is missing in the query"))?;
    let filter = Filter { run_id: Some(run_id), ..Filter::default() };
    let (events, next) = read(call, &filter)?;
    if call.header("accept").is_some_and(|accept| accept.contains("application/x-ndjson")) {
        let mut lines: String = events.iter().map(|event| event.to_value().to_string() + "\n").collect();
        lines += &(json!({"type": "end", "next": next}).to_string() + "\n");
        return Ok(Reply::text("application/x-ndjson", lines));
    }
    // An event of this type from a client is a claim, not a decision of the gateway.
    let is_decision = |it: &&Event| it.event_type == "safety" && it.source == ENGINE;
    let decisions: Vec<Value> = events.iter().filter(is_decision).map(Event::body).collect();
    let items: Vec<Value> = events.iter().map(Event::to_value).collect();
    let (usage, is_complete) = sums(call, filter)?;
    Ok(Reply::ok(
        json!({"items": items, "next": next, "usage": usage, "decisions": decisions, "complete": is_complete}),
    ))
}

/// Returns the totals of a whole run, whichever page is asked for, and whether it has ended. Only the gateway can
/// end a run that it began; a client's event ends the run of another agent.
fn sums(call: &Call<'_>, run: Filter) -> Answered<(Value, bool)> {
    let (mut tokens, mut cost, mut calls) = (0_i64, 0_i64, 0_i64);
    let (mut after, mut is_ours, mut has_ended, mut is_said) = (0, false, false, false);
    let filter = Filter { any_types: vec![COST.into(), STARTED.into(), ENDED.into()], ..run };
    loop {
        let page = pages(call, after, &filter, SUM_PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.position;
        for event in &page {
            let is_engine = event.source == ENGINE;
            match event.event_type.as_str() {
                STARTED => is_ours |= is_engine,
                ENDED if is_engine => has_ended = true,
                ENDED => is_said = true,
                _ => {
                    let body = event.body();
                    let whole = |value: &Value| value.as_i64().unwrap_or(0).max(0);
                    calls += 1;
                    cost = cost.saturating_add(whole(&body["cost_pico_usd"]));
                    tokens = tokens.saturating_add(whole(&body["usage"]["tokens"]));
                }
            }
        }
    }
    let is_complete = has_ended || is_said && !is_ours;
    Ok((json!({"tokens": tokens, "cost": cost, "calls": calls}), is_complete))
}

/// `POST /realtime/timeline/{stream_id}/append`.
pub fn append_to(call: &Call<'_>) -> Answered<Reply> {
    let stream = stream_id(call)?;
    let mut event = call.body.clone();
    event["stream"] = stream.clone().into();
    let draft = draft(call, &event)?;
    let expected = call.whole("expected_version").map(|version| Expected { stream, version });
    let stored = call.gateway.ledger.append(call.who()?, &[draft], expected.as_ref())?;
    Ok(appended(&stored))
}

/// `GET /sse/timeline/{stream_id}`.
pub fn stream(call: &Call<'_>) -> Answered<Reply> {
    let filter = Filter { stream: Some(stream_id(call)?), ..Filter::default() };
    follow(call, filter, None)
}

/// A stream of events that pass a filter, from the client's cursor or from now on.
pub fn follow(call: &Call<'_>, filter: Filter, snapshot: Option<String>) -> Answered<Reply> {
    let who = call.who()?.clone();
    let (head, epoch, first) = call.gateway.ledger.head(&who)?;
    let wanted = call.header("last-event-id").map(str::to_owned).or_else(|| call.asked("last_event_id"));
    let cursor = wanted.as_deref().map(stream::cursor).transpose()?;
    let is_gone = cursor.is_some_and(|(of, position)| of != epoch || position > head || position < first);
    let after = cursor.map_or(head, |(_, position)| position);
    let secret = routes::secret(call.sent).unwrap_or_default().to_owned();
    let place = call.gateway.streams.take(&who.tenant, &who.user).ok_or_else(Problem::too_many_streams)?;
    let stream = Stream { who, secret, filter, after, epoch, head, snapshot, is_gone, place };
    Ok(Reply { status: 200, headers: Vec::new(), content: Content::Stream(Box::new(stream)) })
}

/// Topics of one stream.
const TOPICS_MAX: usize = 64;
/// Types of the topic `safety`.
const SAFETY: [&str; 5] = ["safety", "kill_switch", "licence", "strategy_lock", "budget"];

/// `GET /sse/tenant`: several streams in one connection. The topics are `canvas:ID`, `run:ID`, `thread:ID`, `inbox`, `safety`, and
/// `timeline` for everything.
pub fn tenant(call: &Call<'_>) -> Answered<Reply> {
    let topics = call.asked("topics").unwrap_or_default();
    let mut filter = Filter::default();
    let topics: Vec<&str> = topics.split(',').filter(|topic| !topic.is_empty()).collect();
    if !(1..=TOPICS_MAX).contains(&topics.len()) {
        return Err(Problem::body(format!("topics in the query names 1 to {TOPICS_MAX} topics")));
    }
    for topic in &topics {
        match topic.split_once(':') {
            Some((kind @ ("canvas" | "run" | "thread"), id)) if crate::gateway::identity::is_id(id) => {
                if *kind == *"canvas" {
                    call.gateway.ledger.canvases().canvas(call.who()?, id)?;
                }
                filter.any_streams.push(format!("{kind}/{id}"));
            }
            None if *topic == "safety" => filter.any_types.extend(SAFETY.map(str::to_owned)),
            None if *topic == "inbox" => {
                filter.any_types.extend(crate::gateway::api::questions::INBOX.map(str::to_owned))
            }
            None if *topic == "timeline" => {}
            _ => return Err(Problem::body(format!("there is no topic {topic}"))),
        }
    }
    if topics.contains(&"timeline") {
        filter = Filter::default();
    }
    follow(call, filter, None)
}
