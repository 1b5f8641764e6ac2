//! The log of calls: the tool, the decision on it and whose it was, and how the call went; never its content.

use std::time::Duration;

use serde_json::Value;

use super::hands::Said;
use crate::gate::{Approver, Ticket};
use crate::log::{self, Level};
use crate::proto::action::Decision;
use crate::proto::tool::{Outcome, Step, ToolEvent};

/// The log of a call: its tool and how it went, never its content.
pub(super) struct Logged {
    /// Ours, not the model's word for it.
    tool: String,
    conversation: Option<i64>,
}

impl Logged {
    pub(super) fn new(tool: String, conversation: Option<i64>) -> Self {
        Self { tool, conversation }
    }

    pub(super) fn step(&mut self, event: &ToolEvent) {
        self.tool.clone_from(&event.tool);
        match &event.step {
            Step::Requested { .. } => self.note(Level::Info, "tool_requested", &[]),
            Step::Approved | Step::Denied { .. } | Step::Done { .. } => {}
        }
    }

    /// The names of a call's arguments, which are the tool's own, and how long each is.
    pub(super) fn arguments(&self, arguments: &Value) {
        let size = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len);
        let sizes = arguments.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), size(value).into()));
        self.note(Level::Debug, "tool_arguments", &[("bytes", Value::Object(sizes.collect()))]);
    }

    /// The decision on a call, and whose it was.
    pub(super) fn decided(&self, ticket: &Ticket, said: &Said, can_ask: bool) {
        let verdict = ticket.verdict();
        let asked = if can_ask { "person" } else { "nobody" };
        let (decision, by) = match said {
            Said::Run(Approver::Policy) => ("run", "policy"),
            Said::Run(Approver::Config) => ("run", "config"),
            Said::Run(Approver::Person { always: false, .. }) => ("run", "person"),
            Said::Run(Approver::Person { always: true, .. }) => ("run", "person, for good"),
            Said::InMyShell(_) => ("run in the own shell", "person"),
            Said::Instead(_) | Said::Files(..) => ("run otherwise", "person"),
            Said::Refused("estop", _) => ("deny", "estop"),
            Said::Refused(..) if verdict.decision == Decision::Deny => ("deny", "policy"),
            Said::Refused(..) => ("deny", asked),
        };
        let fields = [("risk", verdict.risk.word().into()), ("decision", decision.into()), ("by", by.into())];
        self.note(Level::Info, "tool_decided", &fields);
    }

    pub(super) fn done(&self, outcome: &Outcome, duration: Duration) {
        let of = |name: &str| outcome.metadata.get(name).cloned().unwrap_or_default();
        let ms = ("ms", u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into());
        match &outcome.error {
            Some(error) if error.code == "denied" => {
                self.note(Level::Warn, "tool_denied", &[("risk", of("risk")), ("rule", of("rule")), ms]);
            }
            Some(error) => self.note(Level::Warn, "tool_failed", &[("code", error.code.into()), ms]),
            None if outcome.success => self.note(Level::Info, "tool_completed", &[ms]),
            None => self.note(Level::Warn, "tool_failed", &[ms]),
        }
        if let Some(receipt) = &outcome.receipt_id {
            self.note(Level::Info, "receipt_written", &[("receipt", receipt.as_str().into())]);
        }
    }

    fn note(&self, level: Level, name: &str, fields: &[(&str, Value)]) {
        let mut all = vec![("tool", self.tool.as_str().into()), ("conversation", self.conversation.into())];
        all.extend_from_slice(fields);
        // Whoever shows events tells the person.
        log::told(level, name, &all);
    }
}
