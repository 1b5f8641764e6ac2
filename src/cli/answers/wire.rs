//! Verdicts of the policy as JSON, for `reedclaw policy explain --json`; and the tests of the lines of an answer
//! ([`Line`](crate::proto::wire::Line)) against their schema.

use serde_json::json;

use crate::proto::action::{Effect, Need, PolicyVerdict};

/// A verdict of the policy, for `reedclaw policy explain --json`.
pub(in crate::cli) fn verdict_object(verdict: &PolicyVerdict) -> serde_json::Value {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde_json::Value;

    use std::time::Duration;

    use super::*;
    use crate::proto::action::Action;
    use crate::proto::tool::{Outcome, Planned, ToolError};
    use crate::proto::tool::{Step, ToolEvent};
    use crate::proto::wire::{Line, kind};
    use crate::proto::{Event, Failure, FailureKind, SessionEvent, Shortfall, Spent, TurnCommitted};
    use crate::schema::Schema;

    const KINDS: [FailureKind; 8] = [
        FailureKind::User,
        FailureKind::Config,
        FailureKind::NoModel,
        FailureKind::Refused,
        FailureKind::Budget,
        FailureKind::Unreachable,
        FailureKind::Unavailable,
        FailureKind::Internal,
    ];

    /// One of each; the match in `of` doesn't compile without a new one, which then belongs here too.
    fn samples() -> Vec<Event> {
        let text = || "te\u{1b}xt\n\"".to_owned();
        let failed = |kind| {
            let failure = Failure::new(kind, "m").hint("h");
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
            Event::Session(Box::new(SessionEvent::Started { session: text() })),
            Event::Session(Box::new(SessionEvent::Conflict { session: text(), paths: vec![text()] })),
            Event::Session(Box::new(SessionEvent::DraftChanged { session: text(), paths: vec![text()] })),
            Event::Session(Box::new(SessionEvent::NotCommitted {
                session: text(),
                failure: Failure::unavailable(text()).hint(text()),
            })),
            Event::Session(Box::new(SessionEvent::Committed(TurnCommitted {
                session: text(),
                conflicts: vec![text()],
                state: "whole",
                text: text(),
                ..TurnCommitted::default()
            }))),
            Event::Answered { text: text(), shortfall: None },
            Event::Answered { text: text(), shortfall: Some(Shortfall::Length) },
            Event::Cancelled { text: text() },
        ];
        others.into_iter().chain(KINDS.map(failed)).collect()
    }

    #[test]
    fn the_events_match_their_schema() {
        let schema: Value = serde_json::from_str(include_str!("../../../config/schema/events.json")).expect("JSON");
        let whole = Schema::new(schema.clone()).expect("a schema that is checked in full");
        let events = schema["$defs"].as_object().expect("the events");
        let mut written = BTreeSet::new();
        for event in samples() {
            let line = Line::of(&event).to_json();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1 && !line.contains('\u{1b}'), "{line}");
            let value: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(whole.problems(&value), Vec::<String>::new(), "{line}");
            let name = value["event"].as_str().expect("its name").to_owned();
            let keys = |value: &Value| value.as_object().expect("it").keys().cloned().collect::<BTreeSet<_>>();
            let required: BTreeSet<String> = events[&name]["required"]
                .as_array()
                .expect("the fields")
                .iter()
                .map(|name| name.as_str().expect("a name").to_owned())
                .collect();
            assert_eq!(keys(&value), keys(&events[&name]["properties"]), "{name}");
            assert_eq!(keys(&value), required, "{name}");
            written.insert(name);
        }
        for line in [
            json!({"event": "run_step", "run": 1, "text": "planning"}),
            json!({"event": "run", "run": null, "end": "failed", "exit": 2, "why": "no model"}),
        ] {
            assert_eq!(whole.problems(&line), Vec::<String>::new(), "{line}");
            written.insert(line["event"].as_str().expect("its name").to_owned());
        }
        assert_eq!(written, events.keys().cloned().collect(), "events that are written, and those of the schema");
        let kinds: Vec<&str> = KINDS.into_iter().map(kind).collect();
        assert_eq!(events["failed"]["properties"]["kind"]["enum"], json!(kinds));
        assert_ne!(whole.problems(&json!({"event": "text"})), Vec::<String>::new());
    }
}
