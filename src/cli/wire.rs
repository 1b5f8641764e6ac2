//! The events of an answer as JSON lines, for `reedclaw agent --json` (`config/schema/events.json` describes them to
//! others), and verdicts of the policy, for `reedclaw policy explain --json`. This format is a promise: fields may be
//! added, but none changes its meaning.

use serde::Serialize;
use serde_json::json;

use crate::proto::action::{Effect, Need, PolicyVerdict};
use crate::proto::tool::{Step, ToolEvent};
use crate::proto::{Event, FailureKind, Money, Spent};

/// One line.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line<'a> {
    Notice { text: &'a str },
    Text { text: &'a str },
    Thought { text: &'a str },
    Usage(Usage<'a>),
    ToolRequested { id: &'a str, tool: &'a str, intent: &'a str },
    ToolApproved { id: &'a str, tool: &'a str },
    ToolDenied { id: &'a str, tool: &'a str, why: &'a str },
    ToolDone { id: &'a str, tool: &'a str, result: serde_json::Value, duration_ms: u64 },
    Answered { text: &'a str },
    Cancelled { text: &'a str },
    Failed { text: &'a str, kind: &'static str, message: &'a str, hint: &'a str },
}

/// The cost of a request.
#[derive(Serialize)]
pub(super) struct Usage<'a> {
    model: &'a str,
    served_as: &'a str,
    tools: &'a [String],
    input_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    is_estimate: bool,
    cost_usd: Option<f64>,
}

impl<'a> Usage<'a> {
    fn of(Spent { model, served_as, tools, usage, is_estimate, cost, .. }: &'a Spent) -> Self {
        Self {
            model,
            served_as,
            tools,
            input_tokens: usage.uncached_in,
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            output_tokens: usage.visible_out,
            reasoning_tokens: usage.reasoning_out,
            is_estimate: *is_estimate,
            cost_usd: cost.map(Money::usd),
        }
    }
}

impl<'a> Line<'a> {
    /// Makes the line of an event.
    pub(super) fn of(event: &'a Event) -> Self {
        match event {
            Event::Notice(text) => Self::Notice { text },
            Event::Text(text) => Self::Text { text },
            Event::Thought(text) => Self::Thought { text },
            Event::Tool(event) => Self::of_tool(event),
            Event::Usage(spent) => Self::Usage(Usage::of(spent)),
            Event::Answered { text } => Self::Answered { text },
            Event::Cancelled { text } => Self::Cancelled { text },
            Event::Failed { text, failure } => {
                Self::Failed { text, kind: kind(failure.kind), message: &failure.message, hint: &failure.hint }
            }
        }
    }

    fn of_tool(ToolEvent { id, tool, step }: &'a ToolEvent) -> Self {
        match step {
            Step::Requested { intent, .. } => Self::ToolRequested { id, tool, intent },
            Step::Approved => Self::ToolApproved { id, tool },
            Step::Denied { why } => Self::ToolDenied { id, tool, why },
            Step::Done { outcome, duration } => {
                let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                Self::ToolDone { id, tool, result: outcome.to_value(), duration_ms }
            }
        }
    }

    /// Writes it, with its newline.
    pub(super) fn to_json(&self) -> String {
        // Text in named fields: nothing that could fail.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// A verdict of the policy, for `reedclaw policy explain --json`.
pub(super) fn verdict_object(verdict: &PolicyVerdict) -> serde_json::Value {
    let reasons: Vec<serde_json::Value> = verdict
        .reasons
        .iter()
        .map(|reason| json!({"rule": reason.rule, "risk": reason.risk.word(), "text": reason.text}))
        .collect();
    let effects: Vec<serde_json::Value> = verdict.effects.iter().map(effect_object).collect();
    json!({
        "verdict": verdict.risk.word(),
        "decision": verdict.decision.word(),
        "reasons": reasons,
        "effects": effects,
        "needs": needs_list(&verdict.needs),
    })
}

/// The kinds of need, each once: `jail` alone if a private copy of the workspace suffices.
fn needs_list(needs: &[Need]) -> Vec<&'static str> {
    let mut words: Vec<&str> = needs.iter().map(Need::word).collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() { vec!["jail"] } else { words }
}

fn effect_object(effect: &Effect) -> serde_json::Value {
    match effect {
        Effect::Exec { argv } => json!({"effect": "exec", "argv": argv}),
        Effect::Write { path, how } => json!({"effect": "write", "how": how.word(), "path": path}),
        Effect::Read { path } => json!({"effect": "read", "path": path}),
        Effect::Net { host } => json!({"effect": "net", "host": host}),
        Effect::Signal { target } => json!({"effect": "signal", "target": target}),
        Effect::Define { name } => json!({"effect": "define", "name": name}),
    }
}

fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::User => "user",
        FailureKind::Config => "config",
        FailureKind::NoModel => "no_model",
        FailureKind::Refused => "refused",
        FailureKind::Budget => "budget",
        FailureKind::Unavailable => "unavailable",
        FailureKind::Internal => "internal",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde_json::Value;

    use std::time::Duration;

    use super::*;
    use crate::proto::Failure;
    use crate::proto::action::Action;
    use crate::proto::tool::{Outcome, Planned, ToolError};
    use crate::schema::Schema;

    const KINDS: [FailureKind; 7] = [
        FailureKind::User,
        FailureKind::Config,
        FailureKind::NoModel,
        FailureKind::Refused,
        FailureKind::Budget,
        FailureKind::Unavailable,
        FailureKind::Internal,
    ];

    /// One of each; the match in `of` doesn't compile without a new one, which then belongs here too.
    fn samples() -> Vec<Event> {
        let text = || "te\u{1b}xt\n\"".to_owned();
        let failed = |kind| {
            let failure = Failure { kind, message: "m".into(), hint: "h".into() };
            Event::Failed { text: text(), failure }
        };
        let tool = |step| Event::Tool(Box::new(ToolEvent { id: text(), tool: text(), step }));
        let error = ToolError::new("x", text(), text());
        let failed_outcome = Outcome::from(error).with("bytes", 1);
        let whole_outcome = Outcome { receipt_id: Some(text()), ..Outcome::of(text()) };
        let planned = || {
            let action = Action::Inert { name: text() };
            Arc::new(Planned { action, arguments: Value::Null, changes: [].into(), is_asked: false })
        };
        let done = |outcome| Step::Done { outcome, duration: Duration::from_millis(5) };
        let others = [
            tool(Step::Requested { intent: text(), planned: planned() }),
            tool(Step::Approved),
            tool(Step::Denied { why: text() }),
            tool(done(failed_outcome)),
            tool(done(whole_outcome)),
            Event::Notice(text()),
            Event::Text(text()),
            Event::Thought(text()),
            Event::Usage(Box::new(Spent { model: text(), tools: vec![text()], ..Spent::default() })),
            Event::Answered { text: text() },
            Event::Cancelled { text: text() },
        ];
        others.into_iter().chain(KINDS.map(failed)).collect()
    }

    #[test]
    fn the_events_match_their_schema() {
        let schema: Value = serde_json::from_str(include_str!("../../config/schema/events.json")).expect("JSON");
        let whole = Schema::new(schema.clone()).expect("a schema that is checked in full");
        let told = schema["$defs"].as_object().expect("the events");
        let mut written = BTreeSet::new();
        for event in samples() {
            let line = Line::of(&event).to_json();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1 && !line.contains('\u{1b}'), "{line}");
            let value: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(whole.problems(&value), Vec::<String>::new(), "{line}");
            let name = value["event"].as_str().expect("its name").to_owned();
            let keys = |value: &Value| value.as_object().expect("it").keys().cloned().collect::<BTreeSet<_>>();
            let required: BTreeSet<String> = told[&name]["required"]
                .as_array()
                .expect("the fields")
                .iter()
                .map(|name| name.as_str().expect("a name").to_owned())
                .collect();
            assert_eq!(keys(&value), keys(&told[&name]["properties"]), "{name}");
            assert_eq!(keys(&value), required, "{name}");
            written.insert(name);
        }
        assert_eq!(written, told.keys().cloned().collect(), "events that are written, and those of the schema");
        let kinds: Vec<&str> = KINDS.into_iter().map(kind).collect();
        assert_eq!(told["failed"]["properties"]["kind"]["enum"], json!(kinds));
        assert_ne!(whole.problems(&json!({"event": "text"})), Vec::<String>::new());
    }
}
