//! `POST /actions/execute`: the one way by which a request runs a tool. It goes through the gates, then through the same gate,
//! policy and receipts as a call of the shell's model.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::Gateway;
use super::call::{Call, Reply};
use super::identity::is_id;
use super::problem::{Answered, Problem};
use crate::agent::{Cancel, Nobody, ToolRunner};
use crate::app::{self, ChannelKind, RunnerOf, ToolCall};
use crate::base::canonical::canonical;
use crate::base::hash;
use crate::chain::{self, Stop, Wish};
use crate::config;
use crate::gate::{Blocked, Call as ToolWish, Ceiling, Chain};
use crate::ledger::{Begun, DEPTH_MAX, Judged, Key, LedgerError, Record, Subject};
use crate::proto::action::{Decision, PolicyVerdict, Risk};
use crate::proto::team::{EventDraft, Identity};
use crate::proto::tool::Outcome;

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

/// An action that is asked for.
struct Action {
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
    let action = Action { name: text("action_name"), subject, args: call.body["args"].clone() };
    if call.body["dry_run"] == true {
        return dry_run(call.gateway, &who, &action);
    }
    let named = call.header("idempotency-key").map(str::to_owned);
    let key = one_of(call.text("idempotency_key"), named, "idempotency_key")?;
    let Some(key) = key else {
        return run(call.gateway, &who, &action).map(|(status, value)| Reply::json(status, value));
    };
    let request = json!({"action_name": action.name, "subject_type": action.subject.kind,
        "subject_id": action.subject.id, "args": action.args});
    let request = canonical(&request, DEPTH_MAX).map_err(|error| Problem::body(error.to_string()))?;
    let key = Key { kind: "action", key, request_hash: hash::sha256_hex(request.as_bytes()) };
    if let Begun::Answered { status, response } = call.gateway.ledger.begin(&who, &key)? {
        let value = serde_json::from_str(&response).unwrap_or_default();
        return Ok(Reply::json(status, value).header("Idempotent-Replay", "true"));
    }
    let done = run(call.gateway, &who, &action);
    let answer = done.as_ref().ok().map(|(status, value)| (*status, value.to_string()));
    call.gateway.ledger.answer(&who, &key, answer.as_ref().map(|(status, text)| (*status, text.as_str())))?;
    done.map(|(status, value)| Reply::json(status, value))
}

/// A value that the body and a header may name: one of them, or both the same.
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

fn wish(who: &Identity, name: &str, verdict: Option<&PolicyVerdict>) -> Wish {
    let risk = verdict.map_or(Risk::Low, |verdict| verdict.risk);
    Wish {
        action: name.to_owned(),
        surface_id: who.surface_id.clone(),
        project: who.project.clone(),
        user: who.user.clone(),
        role: who.role.word().to_owned(),
        kind: who.kind.word().to_owned(),
        risk,
        class: chain::class(name, risk, verdict.map_or(&[], |verdict| &verdict.effects)),
    }
}

/// The gates in front of the gate of one call.
struct TeamChain {
    gateway: Arc<Gateway>,
    who: Identity,
    subject: Subject,
    judged: Mutex<Option<Result<Judged, LedgerError>>>,
}

impl Chain for TeamChain {
    fn decide(&self, call: &ToolWish, verdict: &PolicyVerdict) -> Result<(), Blocked> {
        let wish = wish(&self.who, &call.tool, Some(verdict));
        let judged = self.gateway.gates(&self.who, &wish, &self.subject, Record::Admit);
        let blocked = match &judged {
            Ok(judged) => judged.block().map(|(gate, reason, _)| Blocked { gate: gate.word(), why: reason.to_owned() }),
            Err(error) => Some(Blocked { gate: "kill_switch", why: error.to_string() }),
        };
        *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = Some(judged);
        blocked.map_or(Ok(()), Err)
    }
}

impl Gateway {
    fn gates(&self, who: &Identity, wish: &Wish, subject: &Subject, record: Record) -> Result<Judged, LedgerError> {
        let node = self.stopped().map(|why| Stop { scope: "node".into(), since: why, by: "this machine".into() });
        let judged = self.ledger.gates(who, wish, subject, node.as_ref(), record)?;
        if let Some((gate, ..)) = judged.block() {
            self.metrics.blocked(gate.word());
        }
        Ok(judged)
    }

    /// The tools in the workspace of a project.
    fn runner(&self, who: &Identity) -> Answered<ToolRunner> {
        let parts = &self.parts;
        let workspace = self.workspace(who)?;
        let built = app::tool_runner(&RunnerOf {
            settings: &parts.settings,
            env: &parts.env,
            workspace: &workspace,
            store: &parts.store,
            channel: Some(ChannelKind::Agent),
            config: parts.config.as_deref(),
            ceiling: Ceiling::default(),
            bench: None,
        });
        let built = built.map_err(|failure| Problem::new(503, "database_unavailable", failure.message))?;
        Ok(built.runner)
    }

    /// The workspace of a project: the configured one for this machine's own, else a directory that no other project shares.
    fn workspace(&self, who: &Identity) -> Answered<PathBuf> {
        if (who.tenant.as_str(), who.project.as_str()) == ("local", "default") {
            return Ok(app::workspace_dir(&self.parts.settings, &self.parts.env));
        }
        let failed = |why: String| Problem::new(500, "internal", format!("there is no workspace: {why}"));
        let state = config::state_directory(&self.parts.env).ok_or_else(|| failed("no HOME is set".into()))?;
        // A name may be `..`, and a hash can't.
        let name = hash::sha256_hex(format!("{}\0{}", who.tenant, who.project).as_bytes());
        let home = state.parent().and_then(|it| it.parent()).unwrap_or(&state);
        let path = home.join("share/reedclaw/workspaces").join(&name[..32]);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|error| failed(error.to_string()))?;
        Ok(path)
    }
}

/// The error of a gate that blocks.
fn blocked(judged: &Judged) -> Option<Problem> {
    let (gate, reason, context) = judged.block()?;
    let mut context = context.clone();
    context["decisions"] = judged.to_value();
    context["event_ids"] = judged.event_ids.clone().into();
    Some(Problem::new(403, gate.word(), reason).context(context))
}

/// Lets the gates decide about something that isn't a tool, such as a command on a canvas.
///
/// # Errors
/// A gate blocks, or the database fails.
pub fn admit(gateway: &Gateway, who: &Identity, name: &str, subject: &Subject) -> Answered<Judged> {
    let judged = gateway.gates(who, &wish(who, name, None), subject, Record::Admit)?;
    blocked(&judged).map_or(Ok(judged), Err)
}

fn dry_run(gateway: &Arc<Gateway>, who: &Identity, action: &Action) -> Answered<Reply> {
    let mut runner = gateway.runner(who)?;
    let planned = runner.preview(&tool_call(action), true);
    let (name, verdict) = match &planned {
        Ok((call, verdict)) => (call.tool.as_str(), Some(verdict)),
        Err(error) => return Err(Problem::new(422, "schema_invalid", error.message.clone())),
    };
    let judged = gateway.gates(who, &wish(who, name, verdict), &action.subject, Record::Dry)?;
    let status = match verdict.map(|verdict| verdict.decision) {
        _ if judged.block().is_some() => "would_block",
        Some(Decision::Run) => "would_run",
        Some(Decision::Ask) => "would_ask",
        _ => "would_block",
    };
    let policy = verdict.map(|verdict| json!({"risk": verdict.risk.word(), "decision": verdict.decision.word()}));
    Ok(Reply::ok(json!({"status": status, "decisions": judged.to_value(), "policy": policy})))
}

fn tool_call(action: &Action) -> ToolCall {
    ToolCall { id: "gateway".into(), name: action.name.clone(), arguments: action.args.to_string() }
}

/// Runs an action to its end.
fn run(gateway: &Arc<Gateway>, who: &Identity, action: &Action) -> Answered<(u16, Value)> {
    let mut runner = gateway.runner(who)?;
    let (wanted, mut event_ids) = (tool_call(action), Vec::new());
    event_ids.push(tell(gateway, who, action, "action.requested", json!({"action_name": action.name}))?);
    gateway.metrics.tool_calls.fetch_add(1, Ordering::Relaxed);
    let planned = runner.preview(&wanted, true);
    let verdict = planned.as_ref().ok().map(|(_, verdict)| verdict);
    // What the policy doesn't let run never reaches the gate's own look at the chain, so the chain is asked here.
    let refusal = match verdict.map(|verdict| verdict.decision) {
        Some(Decision::Run) => None,
        Some(Decision::Ask) => Some("approval"),
        Some(Decision::Deny) => Some("policy"),
        None => Some("plan"),
    };
    if refusal.is_some() {
        let name = planned.as_ref().map_or(action.name.as_str(), |(call, _)| call.tool.as_str());
        let judged = gateway.gates(who, &wish(who, name, verdict), &action.subject, Record::Peek)?;
        if let Some(problem) = blocked(&judged) {
            if let Ok((call, _)) = planned {
                runner.block(call, &Blocked { gate: problem.code, why: problem.message.clone() });
            }
            gateway.metrics.tool_denials.fetch_add(1, Ordering::Relaxed);
            return Err(problem);
        }
    }
    let chain = Arc::new(TeamChain {
        gateway: Arc::clone(gateway),
        who: who.clone(),
        subject: action.subject.clone(),
        judged: Mutex::new(None),
    });
    runner.gate().set_chain(Arc::clone(&chain) as Arc<dyn Chain>);
    let outcome = runner.call(&wanted, None, &Cancel::new(), &mut Nobody, &mut |_| {});
    let judged = chain.judged.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Ok(judged)) = &judged {
        event_ids.extend(judged.event_ids.clone());
    }
    if is_denied(&outcome) {
        gateway.metrics.tool_denials.fetch_add(1, Ordering::Relaxed);
        return Err(denied(gateway, who, action, verdict, judged, &outcome));
    }
    let judged = judged.transpose()?;
    let kind = if outcome.success { "action.completed" } else { "action.failed" };
    let body = json!({"action_name": action.name, "success": outcome.success, "receipt_id": outcome.receipt_id,
        "error": outcome.error.as_ref().map(|error| error.code)});
    event_ids.push(tell(gateway, who, action, kind, body)?);
    let status = if outcome.success { "completed" } else { "failed" };
    let decisions = judged.map_or_else(|| json!([]), |judged| judged.to_value());
    Ok((200, json!({"status": status, "result": outcome.to_value(), "decisions": decisions, "event_ids": event_ids})))
}

fn is_denied(outcome: &Outcome) -> bool {
    outcome.error.as_ref().is_some_and(|error| error.code == "denied")
}

/// The error of a call that was refused: by a gate, the policy, or because nobody could be asked.
fn denied(
    gateway: &Gateway,
    who: &Identity,
    action: &Action,
    verdict: Option<&PolicyVerdict>,
    judged: Option<Result<Judged, LedgerError>>,
    outcome: &Outcome,
) -> Problem {
    match judged {
        Some(Err(error)) => return error.into(),
        Some(Ok(judged)) => {
            if let Some(problem) = blocked(&judged) {
                return problem;
            }
        }
        None => {}
    }
    let code = if verdict.is_some_and(|verdict| verdict.decision == Decision::Ask) { "approval" } else { "policy" };
    let told = gateway.gates(who, &wish(who, &action.name, verdict), &action.subject, Record::Refused(code));
    let why = outcome.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
    let message = match code {
        "approval" => format!("it needs a person's yes, and nobody can be asked through this gateway yet: {why}"),
        _ => why,
    };
    let mut context = json!({"receipt_id": outcome.receipt_id, "risk": outcome.metadata.get("risk")});
    if let Ok(judged) = told {
        // The emergency stop is looked at before any gate is asked.
        if let Some(problem) = blocked(&judged) {
            return problem;
        }
        context["decisions"] = judged.to_value();
        context["event_ids"] = judged.event_ids.into();
    }
    Problem::new(403, code, message).context(context)
}

/// Appends an event about an action to the stream of its subject; returns its id.
fn tell(gateway: &Gateway, who: &Identity, action: &Action, kind: &str, body: Value) -> Answered<String> {
    let draft = EventDraft {
        event_type: kind.to_owned(),
        source: "engine".to_owned(),
        stream: Some(format!("{}/{}", action.subject.kind, action.subject.id)),
        body,
        ..EventDraft::default()
    };
    let stored = gateway.ledger.append(who, &[draft], None)?;
    Ok(stored.into_iter().next().map(|it| it.event_id).unwrap_or_default())
}
