//! Chat and runs over HTTP: a question to the model, its answer at once, as a stream, or later; a run outlives its connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::app::{self, ChannelKind};
use crate::gateway::Gateway;
use crate::gateway::http::call::{Call, Content, Progress, Reply, cursor_of};
use crate::gateway::http::problem::{Answered, Problem};
use crate::gateway::runs::answering;
use crate::gateway::runs::live::{self, Job, LiveRun};
use crate::gateway::stream::{self, RunStream};
use crate::ledger::Work;
use crate::ops::conversations;
use crate::proto::team::Identity;
use crate::schema::Schema;
use crate::store::ConversationId;

/// The body of `POST /chat`.
pub const CHAT: &str = r#"{"type": "object", "additionalProperties": false, "required": ["message"], "properties": {
    "message": {"type": "string", "minLength": 1, "maxLength": 200000},
    "conversation_id": {"type": "integer", "minimum": 1}, "model": {"type": "string", "minLength": 1, "maxLength": 256},
    "persona": {"type": "string", "minLength": 1, "maxLength": 128}, "stream": {"type": "boolean"},
    "output_schema": {"type": "object"}}}"#;
/// The state of a run that hasn't ended.
const RUNNING: &str = "running";
/// The persona of a model's own system prompt.
const PERSONA: &str = "default";

/// `POST /chat`.
pub fn chat(call: &Call<'_>) -> Answered<Reply> {
    let (gateway, who) = (call.gateway, call.who()?);
    if let Some(failure) = app::closed(&gateway.parts.settings, ChannelKind::Gateway) {
        return Err(Problem::new(403, "feature_off", failure.message));
    }
    let persona = persona(gateway, call.text("persona"))?;
    let conversation = call.whole("conversation_id").map(|id| here(call, id)).transpose()?;
    if let Some(id) = conversation {
        let home = gateway.known_home(who)?.ok_or_else(Problem::not_found)?;
        let found = conversations::stored(&home.store.lock(), ConversationId(id));
        found.ok().flatten().ok_or_else(Problem::not_found)?;
    }
    if let Some(schema) = call.body.get("output_schema")
        && let Err(error) = Schema::new(schema.clone())
    {
        return Err(Problem::new(422, "schema_invalid", format!("output_schema: {error}")));
    }
    let schema = call.body.get("output_schema").map(Value::to_string);
    let (who, work) = gateway.work_in(who)?;
    let place = gateway.running.take(&who, None).ok_or_else(Problem::overloaded)?;
    let run = live::new_run(&gateway.traces, &who, "chat", place.cancel.clone());
    let (steps, received) = mpsc::unbounded_channel();
    let is_async = call.header("prefer").is_some_and(|prefer| prefer.split(',').any(|it| it.trim() == "respond-async"));
    let job = Job {
        run: Arc::clone(&run),
        message: call.text("message").unwrap_or_default(),
        model: call.text("model"),
        persona,
        schema,
        origin: "chat".into(),
        can_ask: true,
        steps,
        is_async,
        place,
        work,
    };
    answering::begin(gateway, conversation, job)?;
    if call.body["stream"] == true {
        return followed(call, run, 0);
    }
    Ok(Reply::later(received, Duration::ZERO))
}

/// Returns the conversation of this machine with an id; another machine's conversation is refused.
fn here(call: &Call<'_>, id: i64) -> Answered<i64> {
    let machine = match call.gateway.homes.id_here(id) {
        Ok(id) => return Ok(id),
        Err(machine) => machine,
    };
    Err(Problem::is_elsewhere("conversation", call.gateway.ledger.nodes().at_machine(machine)?))
}

/// The system prompt of a persona; `None` for the models' own.
fn persona(gateway: &Gateway, name: Option<String>) -> Answered<Option<String>> {
    let Some(name) = name.filter(|name| name != PERSONA) else { return Ok(None) };
    let settings = &gateway.parts.settings;
    let of_model = || settings.models.get(&name).map(|model| &model.system_prompt).filter(|text| !text.is_empty());
    let found = settings.gateway.personas.get(&name).or_else(of_model).cloned();
    let unknown = || Problem::new(422, "schema_invalid", format!("there is no persona {name}; see /registry/personas"));
    found.map(Some).ok_or_else(unknown)
}

fn followed(call: &Call<'_>, run: Arc<LiveRun>, after: u64) -> Answered<Reply> {
    let who = call.who()?;
    let place = call.gateway.streams.take(&who.tenant, &who.user).ok_or_else(Problem::too_many_streams)?;
    let secret = crate::gateway::http::routes::secret(call.sent).unwrap_or_default().to_owned();
    let content = Content::Run(Box::new(RunStream { run, after, secret, place }));
    Ok(Reply { status: 200, headers: Vec::new(), content })
}

/// `GET /runs`.
pub fn list(call: &Call<'_>) -> Answered<Reply> {
    let (mut items, next) = call.gateway.ledger.runs().list(call.who()?, &call.mark()?, call.limit()?)?;
    for item in &mut items {
        if let Some(fields) = item.as_object_mut() {
            fields.remove("text");
        }
    }
    Ok(Reply::ok(json!({"items": items, "next": cursor_of(next)})))
}

/// `GET /runs/{run_id}`.
pub fn get(call: &Call<'_>) -> Answered<Reply> {
    Ok(Reply::ok(call.gateway.ledger.runs().get(call.who()?, call.param("run_id"))?))
}

/// `POST /runs/{run_id}/cancel`: repeating it changes nothing.
pub fn cancel(call: &Call<'_>) -> Answered<Reply> {
    let (gateway, who, id) = (call.gateway, call.who()?, call.param("run_id"));
    let row = gateway.ledger.runs().get(who, id)?;
    match gateway.live.run(who, id) {
        Some(run) => run.cancel.cancel(),
        None if row["state"] == RUNNING => {
            return Err(Problem::is_elsewhere("run", gateway.ledger.runs().node(who, id)?));
        }
        None => {}
    }
    Ok(Reply::ok(json!({"run_id": id, "state": row["state"]})))
}

/// `GET /sse/runs/{run_id}`: the events of a run from the client's cursor on, or from its beginning.
pub fn live(call: &Call<'_>) -> Answered<Reply> {
    let (who, id) = (call.who()?, call.param("run_id"));
    let wanted = call.header("last-event-id").map(str::to_owned).or_else(|| call.asked("last_event_id"));
    let cursor = wanted.as_deref().map(stream::cursor).transpose()?;
    let after = cursor.map_or(0, |(_, number)| u64::try_from(number).unwrap_or_default());
    if let Some(run) = call.gateway.live.run(who, id) {
        return followed(call, run, after);
    }
    // It is only in the database: its text, and its end.
    let row = call.gateway.ledger.runs().get(who, id)?;
    let event = match row["state"].as_str() {
        Some(RUNNING) => return Err(Problem::is_elsewhere("run", call.gateway.ledger.runs().node(who, id)?)),
        Some("answered") => "answered",
        Some("cancelled") => "cancelled",
        _ => "failed",
    };
    let line = json!({"event": event, "text": row["text"], "message": row["failure"], "state": row["state"]});
    let text = format!("retry: 2000\n\nid: 1-1\nevent: {event}\ndata: {line}\n\n");
    Ok(Reply::text("text/event-stream", text))
}

/// Starts a run for a webhook, without a person to ask.
pub fn start_unattended(
    call: &Call<'_>,
    (who, work): (&Identity, Option<Work>),
    message: String,
    origin: String,
    by: Option<String>,
) -> Answered<Reply> {
    let persona = persona(call.gateway, by)?;
    let place = call.gateway.running.take(who, None).ok_or_else(Problem::overloaded)?;
    let run = live::new_run(&call.gateway.traces, who, &origin, place.cancel.clone());
    let (steps, received) = mpsc::unbounded_channel::<Progress>();
    let (model, schema, can_ask, is_async) = (None, None, false, true);
    let job = Job { run, message, model, persona, schema, origin, can_ask, steps, is_async, place, work };
    answering::begin(call.gateway, None, job)?;
    Ok(Reply::later(received, Duration::ZERO))
}
