//! Licences, strategy locks and budgets over HTTP.

use serde_json::{Value, json};

use crate::chain::{self, CLASSES};
use crate::gateway::http::call::{Call, Reply};
use crate::gateway::http::inputs::time_ms;
use crate::gateway::http::problem::{Answered, Problem};
use crate::ledger::{NewLicence, NewLock};
use crate::proto::team::EventDraft;

/// The body of `POST /firearms/licences`.
pub const LICENCE: &str = r#"{"type": "object", "additionalProperties": false,
    "required": ["subject", "valid_until", "reason"], "properties": {
    "subject": {"type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1, "properties": {
        "user": {"type": "string", "minLength": 1, "maxLength": 128},
        "role": {"enum": ["viewer", "member", "approver", "operator", "admin"]},
        "agent": {"type": "string", "minLength": 1, "maxLength": 128}}},
    "actions": {"type": "array", "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 128}},
    "class": {"enum": ["exec", "delete", "network", "money", "canvas_purge"]},
    "project": {"type": "string", "minLength": 1, "maxLength": 128},
    "surface_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "valid_until": {"type": "string", "maxLength": 40},
    "uses_max": {"type": "integer", "minimum": 1}, "reason": {"type": "string", "minLength": 1, "maxLength": 500}}}"#;
/// The body of `POST /firearms/{id}/revoke`.
pub const REASON: &str = r#"{"type": "object", "additionalProperties": false, "required": ["reason"],
    "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": 500}}}"#;
/// The body of `POST /strategy-locks`.
pub const LOCK: &str = r#"{"type": "object", "additionalProperties": false,
    "required": ["scope", "actions", "valid_until", "reason"], "properties": {
    "scope": {"type": "string", "minLength": 1, "maxLength": 128},
    "surface_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "actions": {"type": "array", "minItems": 1, "maxItems": 50,
        "items": {"type": "string", "minLength": 1, "maxLength": 128}},
    "three_wise": {"type": "boolean"}, "valid_from": {"type": "string", "maxLength": 40},
    "valid_until": {"type": "string", "maxLength": 40}, "expected_version": {"type": "integer", "minimum": 1},
    "reason": {"type": "string", "minLength": 1, "maxLength": 500}}}"#;
/// The states of a strategy lock.
const LOCK_STATES: [&str; 4] = ["pending", "approved", "rejected", "expired"];
/// The body of `POST /budget/usage`.
pub const USAGE: &str = r#"{"type": "object", "additionalProperties": false,
    "required": ["run_id", "storage_class", "provider", "model", "usage", "event_id"], "properties": {
    "run_id": {"type": "string", "minLength": 1, "maxLength": 128}, "storage_class": {"const": "cost"},
    "provider": {"type": "string", "minLength": 1, "maxLength": 128},
    "model": {"type": "string", "minLength": 1, "maxLength": 256},
    "usage": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    "cost_pico_usd": {"type": "integer", "minimum": 0, "maximum": 9007199254740992},
    "event_id": {"type": "string", "minLength": 1, "maxLength": 128}}}"#;

/// A moment of the body, in Unix milliseconds. It is compared with the database's clock, never with this machine's.
fn moment(call: &Call<'_>, name: &str) -> Answered<Option<i64>> {
    call.text(name).map(|text| time_ms(name, &text)).transpose()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// `POST /firearms/licences`.
pub fn issue(call: &Call<'_>) -> Answered<Reply> {
    let subject = call.body["subject"].as_object().and_then(|subject| subject.iter().next());
    let (kind, name) = subject.ok_or_else(|| Problem::body("subject names a user, a role or an agent"))?;
    let (actions, class) = (texts(&call.body["actions"]), call.text("class"));
    if actions.is_empty() && class.is_none() {
        return Err(Problem::body(format!("a licence names actions, or a class: {}", CLASSES.join(", "))));
    }
    let new = NewLicence {
        subject: format!("{kind}:{}", name.as_str().unwrap_or_default()),
        actions,
        class,
        project: call.text("project"),
        surface_id: call.text("surface_id"),
        valid_until_ms: moment(call, "valid_until")?.unwrap_or_default(),
        uses_max: call.whole("uses_max"),
        reason: call.text("reason").unwrap_or_default(),
    };
    Ok(Reply::json(201, call.gateway.ledger.permits().issue(call.who()?, &new)?))
}

/// `GET /firearms/licences`.
pub fn licences(call: &Call<'_>) -> Answered<Reply> {
    let only_active = match call.asked("active").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::body("active must be true or false")),
    };
    let items = call.gateway.ledger.permits().licences(call.who()?, only_active)?;
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// `POST /firearms/{id}/revoke`.
pub fn revoke(call: &Call<'_>) -> Answered<Reply> {
    let reason = call.text("reason").unwrap_or_default();
    Ok(Reply::ok(call.gateway.ledger.permits().revoke_licence(call.who()?, call.param("id"), &reason)?))
}

fn lock_of(call: &Call<'_>) -> Answered<NewLock> {
    let actions = texts(&call.body["actions"]);
    if let Some(pattern) = actions.iter().find(|pattern| !chain::is_pattern(pattern)) {
        return Err(Problem::body(format!("{pattern:?} names no action: write *, a whole name, or prefix.*")));
    }
    Ok(NewLock {
        scope: call.text("scope").unwrap_or_default(),
        surface_id: call.text("surface_id"),
        actions,
        is_three_wise: call.body["three_wise"] == true,
        valid_from_ms: moment(call, "valid_from")?,
        valid_until_ms: moment(call, "valid_until")?.unwrap_or_default(),
        reason: call.text("reason").unwrap_or_default(),
    })
}

/// `POST /strategy-locks`.
pub fn add_lock(call: &Call<'_>) -> Answered<Reply> {
    if call.body.get("expected_version").is_some() {
        return Err(Problem::body("a new lock has no expected_version"));
    }
    Ok(Reply::json(201, call.gateway.ledger.permits().add_lock(call.who()?, &lock_of(call)?)?))
}

/// `GET /strategy-locks`.
pub fn locks(call: &Call<'_>) -> Answered<Reply> {
    let (state, surface) = (call.asked("state"), call.asked("surface_id"));
    if state.as_ref().is_some_and(|state| !LOCK_STATES.contains(&state.as_str())) {
        return Err(Problem::body(format!("state in the query must be {}", LOCK_STATES.join(", "))));
    }
    let is_wanted = |lock: &Value| {
        state.as_ref().is_none_or(|state| lock["state"] == **state)
            && surface.as_ref().is_none_or(|surface| lock["surface_id"] == **surface)
    };
    let items: Vec<Value> =
        call.gateway.ledger.permits().strategy_locks(call.who()?)?.into_iter().filter(is_wanted).collect();
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// `PATCH /strategy-locks/{id}`: replaces the whole lock; needs the version that was read.
pub fn change_lock(call: &Call<'_>) -> Answered<Reply> {
    let needed = || Problem::new(428, "precondition_required", "expected_version is needed: the version that was read");
    let expected = call.whole("expected_version").ok_or_else(needed)?;
    let new = lock_of(call)?;
    Ok(Reply::ok(call.gateway.ledger.permits().change_lock(call.who()?, call.param("id"), expected, &new)?))
}

/// `POST /strategy-locks/{id}/approve`.
pub fn approve(call: &Call<'_>) -> Answered<Reply> {
    Ok(Reply::ok(call.gateway.ledger.permits().decide_lock(call.who()?, call.param("id"), true)?))
}

/// `POST /strategy-locks/{id}/reject`.
pub fn reject(call: &Call<'_>) -> Answered<Reply> {
    Ok(Reply::ok(call.gateway.ledger.permits().decide_lock(call.who()?, call.param("id"), false)?))
}

/// `POST /budget/usage`.
pub fn usage(call: &Call<'_>) -> Answered<Reply> {
    let mut who = call.who()?.clone();
    who.run_id = call.text("run_id");
    for name in ["run_id", "event_id"] {
        if !call.text(name).is_some_and(|id| crate::gateway::identity::is_id(&id)) {
            return Err(Problem::body(format!("{name} must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -")));
        }
    }
    let usage = call.body["usage"].as_object().into_iter().flatten();
    let tokens = usage.filter_map(|(_, value)| value.as_i64()).fold(0, i64::saturating_add);
    let cost = call.whole("cost_pico_usd").unwrap_or(0);
    let body = json!({"storage_class": "cost", "provider": call.body["provider"], "model": call.body["model"],
        "usage": {"tokens": tokens, "of": call.body["usage"]}, "cost_pico_usd": cost});
    let draft = EventDraft {
        event_id: call.text("event_id"),
        event_type: "cost".into(),
        source: "agent".into(),
        run_id: call.text("run_id"),
        body,
        ..EventDraft::default()
    };
    let is_new = call.gateway.ledger.safety().use_budget(&who, &draft, cost, tokens)?;
    Ok(Reply::json(if is_new { 201 } else { 200 }, json!({"event_id": draft.event_id, "duplicate": !is_new})))
}

/// `GET /budget`.
pub fn budget(call: &Call<'_>) -> Answered<Reply> {
    let limits = call.gateway.ledger.safety().budget(call.who()?)?;
    Ok(Reply::ok(json!({"items": limits.iter().map(chain::Limit::to_value).collect::<Vec<Value>>(), "next": null})))
}
