//! `POST /actions/execute`: the one way by which a request runs a tool. It goes through the gates, then through the same gate,
//! policy and receipts as a call of the shell's model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::agent::Cancel;
use crate::app::ToolCall;
use crate::base::canonical::canonical;
use crate::base::hash;
use crate::gate::{Blocked, Chain};
use crate::gateway::Gateway;
use crate::gateway::http::call::{Call, Progress, Reply};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::identity::{is_id, log_span};
use crate::gateway::runs::chained::{TeamChain, boards, gates, personal, wish};
use crate::gateway::runs::person::{OnAsked, Remote};
use crate::ledger::{Begun, DEPTH_MAX, Key, Record, Subject, uuid_v7};
use crate::proto::action::{Action, Autonomy, Decision, PolicyVerdict, Risk};
use crate::proto::team::Identity;

/// The body of `POST /actions/execute`.
pub const EXECUTE: &str = r#"{"type": "object", "additionalProperties": false,
    "required": ["action_name", "subject_type", "subject_id", "args"], "properties": {
    "action_name": {"type": "string", "minLength": 1, "maxLength": 128},
    "subject_type": {"enum": ["thread", "canvas", "run"]},
    "subject_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "surface_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "app_id": {"type": "string", "minLength": 1, "maxLength": 128},
    "actor_id": {"type": "string", "minLength": 1, "maxLength": 128}, "args": {"type": "object"},
    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128}, "dry_run": {"type": "boolean"},
    "wait_ms": {"type": "integer", "minimum": 0, "maximum": 30000}}}"#;

/// A requested action.
struct Wanted {
    name: String,
    subject: Subject,
    args: Value,
}

/// `POST /actions/execute`.
pub fn execute(call: &Call<'_>) -> Answered<Reply> {
    let mut who = call.who()?.clone();
    who.surface_id = one_of(call.text("surface_id"), who.surface_id, "surface_id")?;
    who.app_id = one_of(call.text("app_id"), who.app_id, "app_id")?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    let subject = Subject { kind: text("subject_type"), id: text("subject_id") };
    if !is_id(&subject.id) {
        return Err(Problem::body("subject_id must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -"));
    }
    if subject.kind == "run" && who.run_id.is_none() {
        who.run_id = Some(subject.id.clone());
    }
    let action = Wanted { name: text("action_name"), subject, args: call.body["args"].clone() };
    if call.body["dry_run"] == true {
        return dry_run(call.gateway, &who, &action);
    }
    let named = call.header("idempotency-key").map(str::to_owned);
    let key = one_of(call.text("idempotency_key"), named, "idempotency_key")?;
    // Everything about an action has a run, so that its caller can find it.
    who.run_id.get_or_insert_with(uuid_v7);
    let wait = Duration::from_millis(call.body["wait_ms"].as_u64().unwrap_or_default());
    let Some(key) = key else { return start(call.gateway, who, action, None, wait) };
    let request = json!({"action_name": action.name, "subject_type": action.subject.kind,
        "subject_id": action.subject.id, "args": action.args});
    let request = canonical(&request, DEPTH_MAX).map_err(|error| Problem::body(error.to_string()))?;
    let key = Key { kind: "action", key, request_hash: hash::sha256_hex(request.as_bytes()) };
    if let Begun::Answered { status, response } = call.gateway.ledger.keys().begin(&who, &key)? {
        let value = serde_json::from_str(&response).unwrap_or_default();
        return Ok(Reply::json(status, value).header("Idempotent-Replay", "true"));
    }
    start(call.gateway, who, action, Some(key), wait)
}

/// Returns a value that the body or a header may have; if both have it, they must agree.
fn one_of(body: Option<String>, header: Option<String>, name: &str) -> Answered<Option<String>> {
    if let (Some(body), Some(header)) = (&body, &header)
        && body != header
    {
        return Err(Problem::body(format!("{name} differs between the body and the header")));
    }
    let value = body.or(header);
    if value.as_ref().is_some_and(|value| !is_id(value)) {
        return Err(Problem::body(format!("{name} must be one id of 1 to 128 of A–Z a–z 0–9 . _ : -")));
    }
    Ok(value)
}

fn dry_run(gateway: &Arc<Gateway>, who: &Identity, action: &Wanted) -> Answered<Reply> {
    let mut runner = gateway.runner(who)?;
    runner.lend_boards(boards(gateway, who));
    let planned = runner.preview(&tool_call(action), true);
    let keeps_unasked = runner.gate().rules().autonomy == Autonomy::Full;
    gateway.runners.keep(who, runner);
    let (name, verdict, is_command) = match &planned {
        Ok((call, verdict)) => (call.tool.as_str(), Some(verdict), matches!(call.action, Action::Shell { .. })),
        Err(error) => return Err(Problem::new(422, "schema_invalid", error.message.clone())),
    };
    // Such a command runs on a copy of the workspace, and a person is asked before its changes are applied.
    let is_asked_after = |verdict: &PolicyVerdict| is_command && verdict.risk >= Risk::Medium && !keeps_unasked;
    let judged = gates(gateway, who, &wish(gateway, who, name, verdict), &action.subject, (Record::Dry, &[]))?;
    let personal =
        planned.as_ref().ok().and_then(|(call, _)| personal(gateway, who, &call.action, &call.arguments.to_string()));
    let status = match verdict.map(|verdict| verdict.decision) {
        _ if judged.block().is_some() || personal.is_some() => "would_block",
        Some(Decision::Run) if !verdict.is_some_and(is_asked_after) => "would_run",
        Some(Decision::Run) => "would_ask",
        Some(Decision::Ask) => "would_ask",
        _ => "would_block",
    };
    let policy = verdict.map(|verdict| json!({"risk": verdict.risk.word(), "decision": verdict.decision.word()}));
    Ok(Reply::ok(json!({"status": status, "decisions": judged.to_value(), "policy": policy})))
}

fn tool_call(action: &Wanted) -> ToolCall {
    ToolCall { id: "gateway".into(), name: action.name.clone(), arguments: action.args.to_string() }
}

/// Starts an action on a thread of its own, which outlives the connection; the answer comes with its end or its question.
fn start(gateway: &Arc<Gateway>, who: Identity, action: Wanted, key: Option<Key>, wait: Duration) -> Answered<Reply> {
    let begun = gateway.work_in(&who).and_then(|(who, work)| {
        let place = gateway.running.take(&who, Some(&action.name)).ok_or_else(Problem::overloaded)?;
        Ok((who, work, place))
    });
    let (who, work, place) = match begun {
        Ok(begun) => begun,
        Err(problem) => {
            let forgotten = key.as_ref().map(|key| gateway.ledger.keys().answer(&who, key, None));
            forgotten.transpose()?;
            return Err(problem);
        }
    };
    let (steps, received) = mpsc::unbounded_channel();
    let gateway = Arc::clone(gateway);
    let job = move || {
        let doing =
            Doing { gateway: &gateway, who: &who, key: key.as_ref(), cancel: place.cancel.clone(), steps: &steps };
        let done = catch_unwind(AssertUnwindSafe(|| log_span(&who).in_scope(|| run(&doing, &action))));
        let done = done.unwrap_or_else(|_| Err(Problem::new(500, "internal", "the gateway failed; its log has more")));
        if let Some(key) = &key {
            let answer = done.as_ref().ok().map(|(status, value)| (*status, value.to_string()));
            let answer = answer.as_ref().map(|(status, text)| (*status, text.as_str()));
            let stored = match answer.is_none() && gateway.ledger.leases().is_lost(&who) {
                true => gateway.ledger.keys().mark(&who, key),
                false => gateway.ledger.keys().answer(&who, key, answer),
            };
            if let Err(error) = stored {
                tracing::error!(event = "answer_not_stored", why = error.to_string());
            }
        }
        let _ = steps.send(Progress::Done(Box::new(done.map(|(status, value)| Reply::json(status, value)))));
        drop(work);
    };
    let started = std::thread::Builder::new().name("gw-action".into()).spawn(job);
    started.map_err(|_| Problem::overloaded())?;
    Ok(Reply::later(received, wait))
}

/// A running action.
struct Doing<'a> {
    gateway: &'a Arc<Gateway>,
    who: &'a Identity,
    key: Option<&'a Key>,
    cancel: Cancel,
    steps: &'a mpsc::UnboundedSender<Progress>,
}

/// Runs an action to its end.
fn run(doing: &Doing<'_>, action: &Wanted) -> Answered<(u16, Value)> {
    let Doing { gateway, who, .. } = *doing;
    let mut runner = gateway.runner(who)?;
    runner.lend_boards(boards(gateway, who));
    let wanted = tool_call(action);
    let chain = Arc::new(TeamChain::new(gateway, who.clone(), action.subject.clone()));
    chain.requested(&action.name, None);
    let planned = runner.preview(&wanted, true);
    let verdict = planned.as_ref().ok().map(|(_, verdict)| verdict);
    // A call that the policy refuses never reaches the chain in the gate, so the chain is asked here.
    if !matches!(verdict.map(|verdict| verdict.decision), Some(Decision::Run | Decision::Ask)) {
        let name = planned.as_ref().map_or(action.name.as_str(), |(call, _)| call.tool.as_str());
        if let Err(problem) = chain.peek(name, verdict) {
            if let Ok((call, _)) = planned {
                runner.block(call, &Blocked { gate: problem.code, why: problem.message.clone() });
            }
            gateway.metrics.tool_denials.fetch_add(1, Ordering::Relaxed);
            return Err(problem);
        }
    }
    runner.gate().set_chain(Arc::clone(&chain) as Arc<dyn Chain>);
    let mut person = Remote {
        gateway: Arc::clone(gateway),
        chain: Arc::clone(&chain),
        cancel: doing.cancel.clone(),
        on_asked: on_asked(doing),
        question_id: None,
        by: None,
    };
    let outcome = runner.call(&wanted, None, &doing.cancel, &mut person, &mut |_| {});
    gateway.runners.keep(who, runner);
    let ended = chain.ended(&action.name, verdict, &outcome).map(|ended| {
        let status = if outcome.success { "completed" } else { "failed" };
        let decisions = ended.judged.map_or_else(|| json!([]), |judged| judged.to_value());
        json!({"status": status, "result": outcome.to_value(), "decisions": decisions, "event_ids": ended.event_ids})
    });
    if let Some(id) = &person.question_id {
        let (status, text) = match &ended {
            Ok(value) => (200, value.to_string()),
            Err(problem) => (problem.status, problem.to_value(&who.request_id).to_string()),
        };
        gateway.ledger.questions().end(who, id, status, &text)?;
    }
    ended.map(|value| (200, value))
}

/// Returns a callback that reports a question to the client and stores it under the request's idempotency key.
fn on_asked(doing: &Doing<'_>) -> OnAsked {
    let (gateway, who) = (Arc::clone(doing.gateway), doing.who.clone());
    let (key, steps) = (doing.key.cloned(), doing.steps.clone());
    Box::new(move |id| {
        let value = json!({"status": "waiting", "question_id": id, "run_id": who.run_id});
        if let Some(key) = &key
            && let Err(error) = gateway.ledger.keys().answer_waiting(&who, key, 202, &value.to_string())
        {
            tracing::warn!(event = "answer_not_stored", why = error.to_string());
        }
        let _ = steps.send(Progress::Asked(value));
    })
}
