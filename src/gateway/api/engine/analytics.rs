//! Measured figures over HTTP: each is stored with an event, and the list shows the rules for it.

use serde_json::{Value, json};

use crate::gateway::http::call::{Call, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::identity::is_id;
use crate::ledger::{Figure, figures};
use crate::proto::team::EventDraft;

/// The body of `POST /analytics/ingest`.
pub const INGEST: &str = r#"{"type": "object", "additionalProperties": false, "required": ["events"], "properties": {
    "events": {"type": "array", "minItems": 1, "maxItems": 500, "items": {"type": "object", "additionalProperties": false,
        "required": ["kpi", "value"], "properties": {
        "event_id": {"type": "string", "minLength": 1, "maxLength": 128},
        "kpi": {"type": "string", "minLength": 1, "maxLength": 128},
        "action_name": {"type": "string", "minLength": 1, "maxLength": 128},
        "run_id": {"type": "string", "minLength": 1, "maxLength": 128},
        "value": {"type": "number", "minimum": -1000000000000, "maximum": 1000000000000}}}}}}"#;

/// `POST /analytics/ingest`.
pub fn ingest(call: &Call<'_>) -> Answered<Reply> {
    let events = call.body["events"].as_array().cloned().unwrap_or_default();
    let figures: Vec<Figure> = events.iter().map(figure).collect::<Answered<_>>()?;
    let accepted = call.gateway.ledger.figures().ingest(call.who()?, &figures)?;
    Ok(Reply::json(202, json!({"accepted": accepted, "duplicates": figures.len() - accepted})))
}

fn figure(event: &Value) -> Answered<Figure> {
    let text = |name: &str| event[name].as_str().map(str::to_owned);
    for name in ["kpi", "event_id", "action_name", "run_id"] {
        if text(name).is_some_and(|id| !is_id(&id)) {
            return Err(Problem::body(format!("{name} must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -")));
        }
    }
    let kpi = text("kpi").unwrap_or_default();
    if figures::BUILT_IN.contains(&kpi.as_str()) {
        let message = format!("{kpi} is measured by the gateway itself");
        return Err(Problem::new(422, "schema_invalid", message));
    }
    let action = text("action_name").unwrap_or_default();
    // Within the schema's bounds a figure in thousandths is a whole number that a double has exactly.
    #[expect(clippy::cast_possible_truncation, reason = "the schema bounds the value")]
    let thousandths = (event["value"].as_f64().unwrap_or_default() * 1_000.0).round() as i64;
    let draft = EventDraft {
        event_id: text("event_id"),
        event_type: "analytics".into(),
        source: "agent".into(),
        stream: Some("analytics".into()),
        run_id: text("run_id"),
        body: json!({"kpi": kpi, "action_name": action, "thousandths": thousandths}),
        ..EventDraft::default()
    };
    Ok(Figure { kpi, action, thousandths, draft })
}

/// `GET /analytics/kpis`.
pub fn kpis(call: &Call<'_>) -> Answered<Reply> {
    let all = call.gateway.ledger.figures().list(call.who()?)?;
    let items: Vec<Value> = all.iter().map(figures::to_value).collect();
    Ok(Reply::ok(json!({"items": items, "next": null})))
}
