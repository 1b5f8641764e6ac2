//! The tools by which another agent looks at the user's shell: lines of the history, the policy's judgement, receipts, steps,
//! costs. They only read, and secrets are hidden as they are from a model.

use std::path::Path;

use serde_json::{Value, json};

use super::outputs;
use crate::app::{self, Runtime};
use crate::base::time::utc;
use crate::config::state_directory;
use crate::ops::cost::{Cost, Span, of_days};
use crate::ops::history::{self, Wanted};
use crate::ops::policy::{explain as explain_command, rules_in};
use crate::ops::receipts;
use crate::receipts::Verdict;
use crate::schema::Schema;
use crate::store::Row;

/// Lines of one search.
const LINES_MAX: usize = 100;
/// Sessions, and steps, of one answer.
const ROWS_MAX: usize = 20;
/// Bytes of a command that is judged.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// A tool: its name, its description, its arguments as the properties of a schema, and those that it needs.
type Offered = (&'static str, &'static str, Value, &'static [&'static str]);

fn offered() -> [Offered; 6] {
    [
        (
            "session_state",
            "The user's ReedClaw sessions, the newest first: the directory, and the last command with its exit status.",
            json!({}),
            &[],
        ),
        (
            "history_search",
            "Commands that the user typed, the newest first, with directory, time and exit status. Lines that began with a \
             space are never there.",
            json!({
                "query": {"type": "string", "description": "Words that a command has to contain; all commands without it"},
                "cwd": {"type": "string", "description": "Only commands from this directory, an absolute path"},
                "failed": {"type": "boolean", "description": "Only commands that failed"},
                "limit": {"type": "integer", "minimum": 1, "maximum": LINES_MAX},
            }),
            &[],
        ),
        (
            "policy_explain",
            "What ReedClaw's policy would say of a command: its risk, whether it runs, is asked about or denied, and why. \
             Nothing is run.",
            json!({"command": {"type": "string"}}),
            &["command"],
        ),
        (
            "receipts_verify",
            "Checks the log of tool calls: whether a receipt was changed, removed or added.",
            json!({}),
            &[],
        ),
        (
            "steps_list",
            "The last changes by models in the workspace, each with its command or edit and the files that changed.",
            json!({}),
            &[],
        ),
        ("cost", "The cost of the user's questions, of today and of this month, by model.", json!({}), &[]),
    ]
}

/// The tools that look at the sessions that run, if the config offers their outputs.
fn offered_of_sessions() -> [Offered; 2] {
    [
        (
            "last_output",
            "The last command of each ReedClaw session that runs now, with its exit status and the end of its output. Lines that \
             began with a space are never there.",
            json!({}),
            &[],
        ),
        ("jobs", "The jobs of each ReedClaw session that runs now: what runs and what is stopped.", json!({}), &[]),
    ]
}

/// The definitions of all these tools.
pub(super) fn definitions(has_outputs: bool) -> Vec<Value> {
    let definition = |tool: Offered| {
        json!({
            "name": tool.0, "description": tool.1, "inputSchema": schema(&tool),
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        })
    };
    all(has_outputs).map(definition).collect()
}

fn all(has_outputs: bool) -> impl Iterator<Item = Offered> {
    let of_sessions = offered_of_sessions().into_iter().filter(move |_| has_outputs);
    offered().into_iter().chain(of_sessions)
}

/// The schema of a tool's arguments.
fn schema((_, _, properties, required): &Offered) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Refuses arguments that the tool's schema doesn't allow.
fn check(tool: &Offered, arguments: &Value) -> Result<(), String> {
    let problems = Schema::new(schema(tool))?.problems(arguments);
    if problems.is_empty() { Ok(()) } else { Err(format!("the arguments can't be used: {}", problems.join("; "))) }
}

/// Answers a call; returns `None` if it isn't for one of these tools.
///
/// # Errors
/// The reason, in words.
pub(super) fn call(
    name: &str,
    arguments: &Value,
    runtime: &Runtime,
    workspace: &Path,
) -> Option<Result<Value, String>> {
    let tool = all(runtime.settings().mcp.serve.has_outputs).find(|tool| tool.0 == name)?;
    if let Err(why) = check(&tool, arguments) {
        return Some(Err(why));
    }
    Some(match name {
        "session_state" => session_state(runtime),
        "history_search" => search(arguments, runtime),
        "policy_explain" => explain(arguments, runtime, workspace),
        "receipts_verify" => verify(runtime),
        "steps_list" => steps(runtime, workspace),
        "cost" => cost(runtime),
        _ => of_sessions(runtime, name),
    })
}

fn session_state(runtime: &Runtime) -> Result<Value, String> {
    let rows = history::sessions(&runtime.lock_store(), ROWS_MAX).map_err(|failure| failure.message)?;
    let state = |row: &Row| {
        let mut state = line(row);
        state["session"] = row.entry.session.to_string().into();
        state
    };
    Ok(json!({"sessions": rows.iter().map(state).collect::<Vec<_>>()}))
}

/// One part of what each session shows.
fn of_sessions(runtime: &Runtime, part: &str) -> Result<Value, String> {
    let state = state_directory(runtime.env()).ok_or("no HOME is set, so no session can be found")?;
    let row = |mut session: Value| json!({"session": session["session"].take(), part: session[part].take()});
    Ok(json!({"sessions": outputs::of_sessions(&state).into_iter().map(row).collect::<Vec<_>>()}))
}

fn search(arguments: &Value, runtime: &Runtime) -> Result<Value, String> {
    let query = arguments["query"].as_str().unwrap_or_default().to_lowercase();
    let limit = arguments["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(ROWS_MAX);
    let wanted = Wanted {
        words: query.split_whitespace().map(str::to_owned).collect(),
        cwd: arguments["cwd"].as_str().map(str::to_owned),
        is_failed: arguments["failed"] == true,
        limit: limit.clamp(1, LINES_MAX),
    };
    let rows = history::commands(&runtime.lock_store(), wanted).map_err(|failure| failure.message)?;
    Ok(json!({"lines": rows.iter().map(line).collect::<Vec<_>>()}))
}

fn line(row: &Row) -> Value {
    let entry = &row.entry;
    let time = (entry.time > 0).then(|| utc(entry.time));
    json!({
        "line": entry.line, "cwd": entry.cwd, "time": time, "status": entry.status, "duration_ms": entry.duration_ms,
    })
}

fn explain(arguments: &Value, runtime: &Runtime, workspace: &Path) -> Result<Value, String> {
    let command = arguments["command"].as_str().unwrap_or_default().to_owned();
    if command.trim().is_empty() || command.len() > COMMAND_BYTES_MAX {
        return Err(format!("command is a text of 1 to {COMMAND_BYTES_MAX} bytes"));
    }
    let (_, hold) = app::sandbox_in_use(runtime.settings(), runtime.env(), workspace);
    let verdict = explain_command(&rules_in(runtime, workspace), hold, &command).verdict;
    let reason = |reason: &crate::proto::action::Reason| json!({"rule": reason.rule, "risk": reason.risk.word(), "text": reason.text});
    Ok(json!({
        "risk": verdict.risk.word(), "decision": verdict.decision.word(),
        "reasons": verdict.reasons.iter().map(reason).collect::<Vec<_>>(),
        "effects": verdict.effects.iter().map(ToString::to_string).collect::<Vec<_>>(),
    }))
}

fn verify(runtime: &Runtime) -> Result<Value, String> {
    let checked = receipts::verify(runtime.settings(), runtime.env()).map_err(|failure| failure.message)?;
    let report = checked.ok_or("the config keeps no receipts")?.report;
    let (verdict, why) = match &report.verdict {
        Verdict::Whole => ("whole", None),
        Verdict::Broken { receipt, why } => ("broken", Some(format!("receipt {receipt}: {why}"))),
        Verdict::Torn { bytes } => ("torn", Some(format!("{bytes} bytes at the end are no whole line"))),
        Verdict::Cut { why, .. } => ("cut", Some(why.clone())),
        Verdict::Unconfirmed { why } => ("unconfirmed", Some(why.clone())),
    };
    Ok(json!({
        "verdict": verdict, "why": why, "receipts": report.receipts, "head": report.head,
        "unknown_outcomes": report.unknown.len(), "notes": report.warnings.iter().chain(&report.notes).collect::<Vec<_>>(),
    }))
}

fn steps(runtime: &Runtime, workspace: &Path) -> Result<Value, String> {
    let steps = app::steps(runtime.settings(), runtime.env(), workspace).map_err(|failure| failure.message)?;
    let records = steps.list();
    let step = |record: &crate::steps::Record| {
        json!({
            "number": record.number, "time": utc(record.time), "kind": record.kind.word(), "text": record.text,
            "is_undone": record.is_undone,
            "files": record.changes.iter().map(|change| change.path.display().to_string()).collect::<Vec<_>>(),
        })
    };
    let workspace = workspace.display().to_string();
    Ok(json!({"workspace": workspace, "steps": records.iter().rev().take(ROWS_MAX).map(step).collect::<Vec<_>>()}))
}

fn cost(runtime: &Runtime) -> Result<Value, String> {
    let store = runtime.lock_store();
    let mut result = json!({});
    for Cost { span, by_model } in of_days(&store).map_err(|error| error.to_string())? {
        let name = if span == Span::Day { "today" } else { "this_month" };
        let row = |(model, sum): &(String, crate::store::SpentSum)| {
            json!({
                "model": model, "requests": sum.requests, "unpriced_requests": sum.unpriced,
                "input_tokens": sum.total_in(), "output_tokens": sum.total_out(), "cost_usd": sum.cost.usd(),
            })
        };
        result[name] = by_model.iter().map(row).collect();
    }
    Ok(result)
}
