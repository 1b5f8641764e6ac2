//! Health, status, metrics, tools, the emergency stop, and what agents leave in the home of a project: receipts and
//! conversations.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::app;
use crate::gateway::Gateway;
use crate::gateway::homes::{Home, Parts};
use crate::gateway::http::call::{Call, Reply};
use crate::gateway::http::metrics::Gauges;
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::runs::chained::class_named;
use crate::host;
use crate::ops;
use crate::proto::Role;
use crate::proto::team::{Mode, TeamRole};
use crate::receipts::{self, Check};
use crate::tools::{Registry, Spec, canvas_tools};

/// The body of `POST /estop`.
pub const ESTOP: &str = r#"{"type": "object", "additionalProperties": false, "properties": {
    "scope": {"enum": ["node", "tenant", "project", "action"]},
    "action": {"type": "string", "minLength": 1, "maxLength": 128},
    "reason": {"type": "string", "maxLength": 500}}}"#;
/// Limit on the newest receipts that are searched.
const RECEIPTS_MAX: usize = 10_000;
/// Difference between the clocks of this machine and the database above which it is reported.
const SKEW_MS: i64 = 2_000;
/// Time for which a check of the receipts counts.
const CHECKED: Duration = Duration::from_secs(10);

/// `GET /health`: one word and nothing else.
pub fn health(call: &Call<'_>) -> Answered<Reply> {
    let word = match (*call.gateway.stopping.borrow(), call.gateway.ledger.is_well()) {
        (true, _) => "stopping",
        (false, false) => "degraded",
        (false, true) => return Ok(Reply::ok(json!({"status": "ok"}))),
    };
    Ok(Reply::json(503, json!({"status": word})))
}

/// `GET /status`.
pub fn status(call: &Call<'_>) -> Answered<Reply> {
    let gateway = call.gateway;
    let who = call.who()?;
    let home = gateway.known_home(who)?;
    let (is_valid, last_seq) = home.map_or((true, 0), |home| receipts_state(gateway, &home));
    let began = Instant::now();
    let is_well = gateway.ledger.is_well();
    let lag_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    // Only this field uses the machine's clock: deadlines follow the database's.
    let skew_ms = gateway.ledger.now_ms().ok().map(|now| host::now_unix_ms() - now);
    let streams = gateway.streams.count();
    // Other tenants don't see the workspace of this machine's user, or the directory of their own.
    let workspace = (who.tenant == "local").then(|| app::workspace_dir(&gateway.parts.settings, &gateway.parts.env));
    let leases = (who.role == TeamRole::Admin).then(|| {
        let lease = |(project, fence): (String, i64)| json!({"project": project, "fence": fence});
        gateway.ledger.leases().here(&who.tenant).into_iter().map(lease).collect::<Vec<_>>()
    });
    let (positions, kill_switches) = (gateway.ledger.head(who)?.0, gateway.ledger.safety().kill_switches(who)?);
    Ok(Reply::ok(json!({
        "positions": positions, "kill_switches": kill_switches, "console": crate::web::version(),
        "version": env!("CARGO_PKG_VERSION"), "mode": gateway.mode.word(), "node_id": gateway.node_id,
        "uptime_s": gateway.uptime_s(), "database": {"kind": gateway.ledger.engine(), "ok": is_well, "lag_ms": lag_ms,
            "skew_ms": skew_ms.filter(|skew| skew.abs() > SKEW_MS)},
        "nats": gateway.passing.word(), "streams": streams, "queue": gateway.work.waiting(), "running": gateway.running.count(),
        "estop": gateway.stopped().is_some(), "receipts": {"valid": is_valid, "last_seq": last_seq},
        "leases": leases, "provider": gateway.parts.settings.default_model, "workspace": workspace.map(|path| path.display().to_string()),
    })))
}

/// `GET /metrics`.
pub fn metrics(call: &Call<'_>) -> Answered<Reply> {
    let is_chain_valid = call.gateway.homes.open().iter().all(|home| receipts_state(call.gateway, home).0);
    let gateway = call.gateway;
    let now = Gauges {
        is_chain_valid,
        streams: gateway.streams.count(),
        lag: gateway.feeds.lag(),
        waiting: gateway.work.waiting(),
        batches: gateway.ledger.batches(),
        leases: gateway.ledger.leases().count(),
    };
    Ok(Reply::text("text/plain; version=0.0.4", gateway.metrics.text(now)))
}

/// Returns whether a home's receipts are valid, and their number; checks again after some seconds.
fn receipts_state(gateway: &Gateway, home: &Home) -> (bool, u64) {
    let mut known = home.checked.lock();
    if let Some((_, is_valid, last)) = known.filter(|(at, ..)| at.elapsed() < CHECKED) {
        return (is_valid, last);
    }
    let options = home.receipts(&gateway.parts).ok().flatten();
    let checked = options.and_then(|options| ops::receipts::Checked::of(options, &Check::default()).ok());
    let state = checked.map_or((true, 0), |it| (it.is_valid(), it.report.receipts));
    *known = Some((Instant::now(), state.0, state.1));
    state
}

/// The tools, for lists.
pub fn registry(parts: &Parts) -> Registry {
    let mut registry = app::tools_alone(&parts.settings, &parts.env).0;
    canvas_tools(&None).into_iter().for_each(|tool| registry.lend(tool, true));
    registry
}

/// Returns the description of a tool for endpoints.
pub fn tool_card(parts: &Parts, spec: &Spec) -> Value {
    let (risk, class) = app::tool_risk(&spec.name);
    let class = class_named(&parts.settings.gateway, &spec.name).or(class);
    json!({"name": spec.name, "aliases": spec.aliases, "description": spec.description, "schema": spec.schema,
        "risk": risk, "dangerous_class": class, "channels": app::tool_channels(&parts.settings, spec)})
}

/// `GET /tools`.
pub fn tools(call: &Call<'_>) -> Answered<Reply> {
    let parts = &call.gateway.parts;
    let items: Vec<Value> = registry(parts).specs().map(|spec| tool_card(parts, spec)).collect();
    Ok(Reply::ok(json!({"items": items, "next": null})))
}

/// `GET /memory/search`.
pub fn search(call: &Call<'_>) -> Answered<Reply> {
    let words = call.asked("q").filter(|words| !words.trim().is_empty());
    let words = words.ok_or_else(|| Problem::body("q is missing in the query"))?;
    let limit = call.limit()?;
    let gateway = call.gateway;
    let Some(home) = gateway.known_home(call.who()?)? else { return Ok(Reply::ok(json!({"items": []}))) };
    let mut store = home.store.lock();
    let hits = crate::ops::memory::recall(&mut store, &words, limit)
        .map_err(|error| Problem::new(503, "database_unavailable", error.to_string()).header("Retry-After", "1"))?;
    let item = |hit: &crate::store::Hit| {
        let role = if hit.role == Role::User { "user" } else { "assistant" };
        let score = crate::chain::of_thousandths(hit.score);
        let conversation = gateway.homes.id_outside(hit.conversation.0);
        json!({"conversation_id": conversation, "turn_id": hit.message, "role": role, "snippet": hit.excerpt,
            "score": score, "at": crate::base::time::utc_ms(hit.time)})
    };
    Ok(Reply::ok(json!({"items": hits.iter().map(item).collect::<Vec<Value>>()})))
}

/// `GET /receipts`: the receipts after a number, oldest first.
pub fn receipts(call: &Call<'_>) -> Answered<Reply> {
    let (after, limit) = (call.number("after")?.unwrap_or(0), call.limit()?);
    let (tool, status) = (call.asked("tool"), call.asked("status"));
    let failed = |message: String| Problem::new(503, "database_unavailable", message).header("Retry-After", "1");
    let none = || Ok(Reply::ok(json!({"items": [], "next": null, "verified_to": 0})));
    let Some(home) = call.gateway.known_home(call.who()?)? else { return none() };
    let options = home.receipts(&call.gateway.parts).map_err(|failure| failed(failure.message))?;
    let Some(options) = options else { return none() };
    let mut stored = receipts::newest(&options, RECEIPTS_MAX).map_err(|error| failed(error.to_string()))?;
    stored.sort_by_key(|it| it.number);
    let wanted = stored.iter().filter_map(|it| {
        let record = it.record.as_ref()?;
        let is_wanted = i64::try_from(it.number).is_ok_and(|number| number > after)
            && tool.as_deref().is_none_or(|tool| record.tool.as_deref() == Some(tool))
            && status.as_deref().is_none_or(|status| record.status.is_some_and(|it| it.name() == status));
        let mut item: Map<String, Value> = serde_json::from_str(&it.line).ok()?;
        item.insert("node".into(), call.gateway.node_id.clone().into());
        is_wanted.then_some((it.number, Value::from(item)))
    });
    let mut items: Vec<(u64, Value)> = wanted.take(limit + 1).collect();
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|(number, _)| number.to_string());
    let items: Vec<Value> = items.into_iter().map(|(_, item)| item).collect();
    Ok(Reply::ok(json!({"items": items, "next": next, "verified_to": receipts_state(call.gateway, &home).1})))
}

/// `POST /estop`: stops all tools of this machine (by the file that every session checks), or those of a tenant, a project, or
/// one action. On a machine that serves several tenants, none of them can stop the machine. A stop can't be cleared over HTTP.
pub fn estop(call: &Call<'_>) -> Answered<Reply> {
    call.gateway.gestures.forget();
    let who = call.who()?;
    let is_alone = who.mode == Mode::Lab && call.gateway.mode == Mode::Lab;
    let scope = call.text("scope").unwrap_or_else(|| if is_alone { "node" } else { "tenant" }.into());
    if scope == "node" && !is_alone {
        let message = "this machine serves several tenants; stop your own with the scope tenant";
        return Err(Problem::new(403, "forbidden", message));
    }
    let reason = call.text("reason").unwrap_or_default();
    let subject = match scope.as_str() {
        "project" => who.project.clone(),
        "action" => call.text("action").ok_or_else(|| Problem::body("the scope action needs the action's name"))?,
        _ => String::new(),
    };
    if scope != "node" {
        let since = call.gateway.ledger.safety().kill(who, &scope, &subject, &reason)?;
        call.gateway.running.stop(who, &scope, &subject);
        call.gateway.bell.ring();
        return Ok(Reply::ok(json!({"stopped": true, "since": since})));
    }
    let was_stopped = call.gateway.stopped().is_some();
    let failed = |message: String| Problem::new(500, "internal", message);
    ops::estop::stop(&call.gateway.parts.env, "gateway").map_err(|failure| failed(failure.message))?;
    // The file is what stops the tools; the row and its event record who set it.
    let since = call.gateway.ledger.safety().kill_node(who, &reason, !was_stopped)?;
    let since = call.gateway.stop_noted().map_or(since, |(since, _)| since);
    Ok(Reply::ok(json!({"stopped": true, "since": since})))
}
