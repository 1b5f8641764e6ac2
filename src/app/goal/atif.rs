//! A run as a trajectory in the Agent Trajectory Interchange Format, version 1.7, which runners of benchmarks read. Source of the
//! format: the models of the Python package `harbor` (`harbor.models.trajectories`).

use serde_json::{Map, Value, json};

use super::journal::StoredJournal;
use crate::agent::goal::Journal;
use crate::base::time::utc_ms;
use crate::norris::{Event, Run};
use crate::proto::Failure;
use crate::store::{ConversationId, Store, StoredCall, StoredRequest};

/// The version of the format.
const SCHEMA: &str = "ATIF-v1.7";

/// Returns a run as a trajectory: a step for each question, for each answer with its calls and their results, and for what
/// the run did by itself, such as its checks.
///
/// # Errors
/// The store can't be read.
pub fn run_trajectory(journal: &StoredJournal) -> Result<Value, Failure> {
    let events = journal.events(0)?;
    let mut run = Run::default();
    let mut steps = Vec::new();
    let store = journal.store.lock();
    for (_, time, event) in &events {
        run.apply(*time, event);
        match event {
            Event::Planning { model, conversation } | Event::Working { model, conversation, .. } => {
                question_steps(&store, *conversation, model, &mut steps)?;
            }
            Event::Said { text } => steps.push(json!({"source": "user", "message": text, "timestamp": utc_ms(*time)})),
            _ => {
                let lines = super::event_lines(&run, event);
                let line = Some(lines.join("\n")).filter(|line| !line.is_empty() && is_own(event));
                let tail = if let Event::Checked { tail, .. } = event { format!("\n{tail}") } else { String::new() };
                steps.extend(line.map(
                    |line| json!({"source": "system", "message": format!("{line}{tail}"), "timestamp": utc_ms(*time)}),
                ));
            }
        }
    }
    drop(store);
    for (number, step) in steps.iter_mut().enumerate() {
        step["step_id"] = (number + 1).into();
    }
    let used = journal.used()?;
    let goal = run.goal.clone().unwrap_or_default();
    let model = steps.iter().rev().find_map(|step| step.get("model_name").cloned()).unwrap_or_default();
    let (read, written, cached) = totals(&steps);
    Ok(json!({
        "schema_version": SCHEMA,
        "session_id": format!("reedclaw-run-{}", journal.run()),
        "agent": {"name": "reedclaw", "version": env!("CARGO_PKG_VERSION"), "model_name": model},
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": read,
            "total_completion_tokens": written,
            "total_cached_tokens": cached,
            "total_cost_usd": used.usd,
            "total_steps": steps.len(),
        },
        "extra": {"goal": goal.text, "checks": goal.checks, "state": run.word(), "exit": run.end.as_ref().map(crate::norris::End::status)},
    }))
}

/// Returns whether an event is the run's own doing, and not part of a question.
fn is_own(event: &Event) -> bool {
    matches!(event, Event::Checked { .. } | Event::Halted { .. } | Event::Paused { .. } | Event::Ended { .. })
}

/// Adds the question and the answer of a conversation, which has one turn.
fn question_steps(
    store: &Store,
    conversation: Option<i64>,
    model: &str,
    steps: &mut Vec<Value>,
) -> Result<(), Failure> {
    let Some(id) = conversation.map(ConversationId) else { return Ok(()) };
    let requests = store.requests(id)?;
    for turn in store.turns(id)? {
        let time = utc_ms(turn.time);
        steps.push(json!({"source": "user", "message": turn.question, "timestamp": time}));
        let mut step = json!({"source": "agent", "model_name": model, "message": turn.answer, "timestamp": time});
        if !turn.calls.is_empty() {
            step["tool_calls"] = turn.calls.iter().enumerate().map(tool_call).collect();
            step["observation"] = json!({"results": turn.calls.iter().enumerate().map(observed).collect::<Vec<_>>()});
        }
        if !requests.is_empty() {
            step["llm_call_count"] = requests.len().into();
            step["metrics"] = metrics(&requests);
        }
        steps.push(step);
    }
    Ok(())
}

/// The identifier of a call within its step; models may use one call id twice.
fn id_of(number: usize, call: &StoredCall) -> String {
    format!("{number}-{}", call.call_id)
}

fn tool_call((number, call): (usize, &StoredCall)) -> Value {
    let arguments = match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(arguments)) => arguments,
        _ => Map::from_iter([("text".to_owned(), call.arguments.clone().into())]),
    };
    json!({"tool_call_id": id_of(number, call), "function_name": call.tool, "arguments": arguments})
}

fn observed((number, call): (usize, &StoredCall)) -> Value {
    let extra = json!({"success": call.success, "receipt": call.receipt});
    json!({"source_call_id": id_of(number, call), "content": call.result, "extra": extra})
}

fn metrics(requests: &[StoredRequest]) -> Value {
    let sum = |tokens: &dyn Fn(&crate::proto::Usage) -> u64| -> u64 {
        requests.iter().map(|request| tokens(&request.spent.usage)).sum()
    };
    let costs = requests.iter().filter_map(|request| request.spent.cost);
    // A sum of no floats is minus zero.
    let cost = costs.fold(0.0, |sum, cost| sum + cost.usd());
    json!({
        "prompt_tokens": sum(&crate::proto::Usage::total_in),
        "completion_tokens": sum(&crate::proto::Usage::total_out),
        "cached_tokens": sum(&|usage| usage.cache_read),
        "cost_usd": cost,
    })
}

fn totals(steps: &[Value]) -> (u64, u64, u64) {
    let sum = |name: &str| steps.iter().filter_map(|step| step["metrics"][name].as_u64()).sum();
    (sum("prompt_tokens"), sum("completion_tokens"), sum("cached_tokens"))
}
