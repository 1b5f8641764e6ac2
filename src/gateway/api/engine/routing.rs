//! Routes to back-ends over HTTP: the back-end that stores each kind of a tenant's data.

use serde_json::{Value, json};

use crate::gateway::http::call::{Call, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::ledger::{Backend, Unfit, backends};

/// The body of `POST /routing/routes`.
pub const ROUTE: &str = r#"{"type": "object", "additionalProperties": false,
    "required": ["service", "backend"], "properties": {
    "service": {"enum": ["event_spine", "memory_store", "blackboard_store", "analytics_store", "event_stream",
        "canvas_command_store"]},
    "backend": {"enum": ["sqlite", "postgres", "nats", "memory", "filesystem", "firestore", "dynamo", "cosmos"]},
    "location": {"type": "string", "minLength": 1, "maxLength": 500},
    "tenant": {"type": "string", "minLength": 1, "maxLength": 128},
    "expected_version": {"type": "integer", "minimum": 0}}}"#;

/// `GET /routing/routes`.
pub fn list(call: &Call<'_>) -> Answered<Reply> {
    let routes = call.gateway.ledger.backends().list(&call.who()?.tenant)?;
    let items: Vec<Value> = routes.iter().map(Backend::to_value).collect();
    Ok(Reply::ok(json!({"items": items, "next": null, "version_hash": backends::version_hash(&routes)?})))
}

/// `POST /routing/routes`: stored for the next start. With `apply=true` this program must be able to serve it now.
pub fn set(call: &Call<'_>) -> Answered<Reply> {
    let (who, ledger) = (call.who()?, &call.gateway.ledger);
    if call.text("tenant").is_some_and(|tenant| tenant != who.tenant) {
        return Err(Problem::new(403, "not_a_member", "a route is set within its own tenant"));
    }
    let text = |name: &str| call.text(name).unwrap_or_default();
    let route =
        Backend { service: text("service"), backend: text("backend"), location: call.text("location"), version: 0 };
    let forbidden = |why: &str| Err(Problem::new(422, "backend_forbidden", format!("{}: {why}", route.backend)));
    match route.backend.as_str() {
        "filesystem" => {
            return forbidden("a plain directory keeps no order and no history, so no service is stored in one");
        }
        "memory" => return forbidden("what is only in memory is lost at the end"),
        "nats" if route.service != "event_stream" => return forbidden("NATS passes events on and stores none"),
        _ => {}
    }
    let is_applied = match call.asked("apply").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::body("apply must be true or false")),
    };
    if is_applied {
        let mut routes = ledger.backends().list(&who.tenant)?;
        for it in routes.iter_mut().filter(|it| it.service == route.service) {
            it.backend.clone_from(&route.backend);
        }
        refuse(backends::unfit(&routes, ledger.engine()))?;
    }
    let route = ledger.backends().set(who, &route, call.whole("expected_version").unwrap_or(0))?;
    let hash = backends::version_hash(&ledger.backends().list(&who.tenant)?)?;
    Ok(Reply::ok(json!({"route": route.to_value(), "version_hash": hash})))
}

fn refuse(unfit: Option<Unfit>) -> Answered<()> {
    match unfit {
        None => Ok(()),
        Some(Unfit::Split(routes)) => {
            let message =
                "the event log, blackboards and canvases change in one transaction, so they need one back-end";
            Err(Problem::new(422, "backends_split", message).context(json!({"routes": routes})))
        }
        Some(Unfit::Unavailable(routes)) => {
            let message = "this gateway doesn't serve that back-end";
            Err(Problem::new(422, "backend_unavailable", message).context(json!({"routes": routes})))
        }
    }
}
