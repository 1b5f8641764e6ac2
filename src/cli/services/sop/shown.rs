//! Procedures and their runs as lines, as JSON, and as a question at the terminal.

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use crate::agent::procedure::{Foreseen, Outlook};
use crate::app::{self, Procedure, SopJournal};
use crate::cli::answers::agent::say;
use crate::cli::exit;
use crate::cli::out::{err, outln};
use crate::render::text::escape_visible;
use crate::sop::{Covered, Event, Problem, Run, Trigger};

pub(super) fn trigger_words(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Manual => "manual".to_owned(),
        Trigger::Cron { at, zone, .. } if zone.is_empty() => format!("cron {at}"),
        Trigger::Cron { at, zone, .. } => format!("cron {at} ({zone})"),
        Trigger::File { paths, .. } => format!("file {}", paths.join(", ")),
        Trigger::Webhook { .. } => "webhook".to_owned(),
    }
}

pub(super) fn procedure_json(procedure: &Procedure) -> Value {
    let definition = procedure.definition.as_ref();
    let steps: Vec<Value> = definition
        .iter()
        .flat_map(|it| &it.steps)
        .map(|step| json!({"id": step.id, "kind": step.act.word(), "line": step.line}))
        .collect();
    let triggers: Vec<String> = definition.iter().flat_map(|it| &it.triggers).map(trigger_words).collect();
    json!({
        "name": procedure.name, "file": procedure.file(), "standing": procedure.standing(),
        "project": procedure.is_project, "mode": definition.map(|it| it.mode.word()),
        "description": definition.map(|it| it.description.clone()), "triggers": triggers, "steps": steps,
        "problems": procedure.problems.len(),
    })
}

/// A run as JSON; `is_left` says that no process works on it although it should. Without an end or a rest it has no status.
pub(super) fn run_json(journal: &SopJournal, run: &Run, is_left: bool) -> Value {
    let definition = run.definition();
    let steps: Vec<Value> = definition
        .iter()
        .flat_map(|it| &it.steps)
        .zip(&run.steps)
        .map(|(step, state)| {
            let inner = state.inner.map(|inner| inner.run);
            json!({"id": step.id, "run": inner, "kind": step.act.word(), "state": format!("{:?}", state.state).to_lowercase(),
                "attempts": state.attempts.min(1_000), "error": state.error})
        })
        .collect();
    let asked = run
        .asked
        .as_ref()
        .filter(|_| run.end.is_none())
        .map(|(_, prompt, covers)| json!({"prompt": prompt, "covers": covers}));
    let state = match is_left {
        true if run.is_at_its_start() => "queued",
        true => "interrupted",
        false => run.word(),
    };
    let exit = (!run.is_active()).then(|| status_of(run));
    json!({
        "run": run.id, "name": journal.name, "state": state, "exit": exit, "began": run.began,
        "trigger": run.trigger, "workspace": journal.workspace, "steps": steps, "asked": asked,
        "why": run.end.as_ref().map(|end| end.why().to_owned()).or_else(|| run.paused.clone()),
    })
}

/// A step before it runs, as a line.
pub(super) fn foreseen_line(step: &Foreseen) -> String {
    let Foreseen { step: id, kind, outlook, call } = step;
    let risk = if call.risk.is_empty() { String::new() } else { format!(" ({} risk)", call.risk) };
    let word = match outlook {
        Outlook::Runs => "runs",
        Outlook::Asks => "waits for a person",
        Outlook::Denied => "is denied",
        Outlook::Later => "is judged later",
        Outlook::Fails => "fails",
    };
    let first = call.intent.lines().next().unwrap_or_default();
    let why = if *outlook == Outlook::Runs || call.reasons.is_empty() {
        String::new()
    } else {
        format!("; {}", call.reasons.join("; "))
    };
    format!("step {id} ({kind}) {word}{risk}: {first}{why}")
}

/// A step before it runs, as JSON.
pub(super) fn foreseen_json(step: &Foreseen) -> Value {
    let Foreseen { step: id, kind, outlook, call } = step;
    json!({"step": id, "kind": kind, "outlook": outlook.word(), "risk": call.risk, "intent": call.intent,
        "reasons": call.reasons, "preview": call.preview})
}

pub(super) fn event_json(run: i64, seq: i64, time: i64, event: &Event) -> Value {
    let mut line = serde_json::to_value(event).unwrap_or_default();
    if let Some(fields) = line.as_object_mut() {
        fields.insert("run".into(), run.into());
        fields.insert("seq".into(), seq.into());
        fields.insert("time".into(), time.into());
    }
    line
}

/// The words of an event in the log.
pub(super) fn event_words(event: &Event) -> String {
    match event {
        Event::Begun { step, tool, .. } if tool.is_empty() => format!(" {step}"),
        Event::Begun { step, tool, risk, .. } => format!(" {step}: {tool}, {risk} risk"),
        Event::Ended { step, success: true, output, .. } => format!(" {step}: done, {} bytes", output.len()),
        Event::Ended { step, error, .. } => format!(" {step}: {error}"),
        Event::Concluded { step, error, .. } if error.is_empty() => format!(" {step}: done"),
        Event::Concluded { step, error, .. } => format!(" {step}: {error}"),
        Event::Skipped { step, .. } | Event::Asked { step, .. } | Event::Approved { step, .. } => format!(" {step}"),
        Event::Began { taken, .. } if !taken.is_empty() => {
            let steps: Vec<&str> = taken.iter().map(|it| it.step.as_str()).collect();
            format!(": {} as in run {}", steps.join(", "), taken[0].run)
        }
        Event::Halted { call } => format!(" {}: {}", call.step, call.intent),
        Event::Rejected { step, why } => format!(" {step}: {why}"),
        Event::Examined { step, fate } => format!(" {step}: {fate:?}"),
        Event::Decided { step, choice } => format!(" {step}: {choice:?}"),
        Event::RunBegun { step, run, .. } => format!(" {step}: run {run}"),
        Event::Paused { why, .. } | Event::Awaits { why, .. } => format!(": {why}"),
        Event::Finished { end, why, .. } => format!(" {end} {why}"),
        _ => String::new(),
    }
}

pub(super) fn print_problems(procedure: &Procedure, problems: &[Problem]) {
    for problem in problems {
        let hint = if problem.hint.is_empty() { String::new() } else { format!("; {}", problem.hint) };
        let line = format!("{}:{}: {}{hint}", procedure.file().display(), problem.line, problem.what);
        outln!("{}", escape_visible(&line));
    }
}

pub(super) fn print_json(value: &Value) {
    outln!("{value}");
}

/// The exit status of a run that doesn't work any more.
pub(super) fn status_of(run: &Run) -> u8 {
    match &run.end {
        Some(end) => end.status(),
        None if run.is_estop => exit::ESTOP,
        None if run.awaits.is_some() => exit::HALTED,
        None if run.paused.is_some() => exit::INTERRUPTED,
        None => exit::HALTED,
    }
}

/// Asks the question that a run waits for; `None` if the person leaves it open.
pub(super) fn asked(journal: &SopJournal, run: &Run) -> Option<Event> {
    let (at, _, covers) = run.asked.as_ref()?;
    let step = run.definition()?.steps.get(*at)?.id.clone();
    app::sop_lines(journal, run).iter().skip_while(|line| !line.starts_with("It waits")).for_each(|line| {
        if !line.starts_with("reedclaw sop") {
            say(&escape_visible(line));
        }
    });
    err!("yes, no, or Enter to leave it open: ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok()?;
    match answer.trim() {
        "yes" | "y" => Some(approval(step, covers)),
        "no" | "n" => Some(Event::Rejected { step, why: String::new() }),
        _ => None,
    }
}

/// The yes to a question, and to exactly the calls that it covers.
pub(super) fn approval(step: String, covers: &[Covered]) -> Event {
    let digests = covers.iter().map(|call| call.digest.clone()).filter(|digest| !digest.is_empty()).collect();
    Event::Approved { step, digests }
}
