//! The log of calls: the tool, the decision and who made it, and how the call ended; never its content.

use std::time::Duration;

use serde_json::Value;

use crate::agent::calls::runner::Ruling;
use crate::gate::{Approver, Lasting, Ticket};
use crate::proto::action::Decision;
use crate::proto::tool::{Outcome, Step, ToolEvent};

/// Writes an event of a call, with its tool and conversation. The face that shows the call tells the user.
macro_rules! note {
    ($level:ident, $call:expr, $event:literal $(, $($fields:tt)+)?) => {
        tracing::$level!(
            event = $event,
            tool = $call.tool.as_str(),
            conversation = $call.conversation,
            shown = true,
            $($($fields)+)?
        )
    };
}

/// The log's name of a tool that doesn't exist: its real name is the model's text.
pub(in crate::agent) const UNKNOWN: &str = "?";

/// The log of a call: its tool and how it ended, never its content.
pub(in crate::agent) struct Logged {
    /// The name of one of ReedClaw's tools, or [`UNKNOWN`].
    tool: String,
    conversation: Option<i64>,
}

impl Logged {
    pub(in crate::agent) fn new(tool: String, conversation: Option<i64>) -> Self {
        Self { tool, conversation }
    }

    pub(in crate::agent) fn step(&mut self, event: &ToolEvent) {
        if self.tool != UNKNOWN {
            self.tool.clone_from(&event.tool);
        }
        match &event.step {
            Step::Requested { .. } => note!(info, self, "tool_requested"),
            Step::Approved | Step::Denied { .. } | Step::Done { .. } => {}
        }
    }

    /// The names of a call's arguments, which are the tool's own, and how long each is.
    pub(in crate::agent) fn arguments(&self, arguments: &Value) {
        let size = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len);
        let sizes = arguments.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), size(value).into()));
        let sizes = Value::Object(sizes.collect()).to_string();
        note!(debug, self, "tool_arguments", bytes = sizes.as_bytes());
    }

    /// The decision on a call, and whose it was.
    pub(in crate::agent) fn decided(&self, ticket: &Ticket, ruling: &Ruling, can_ask: bool) {
        let verdict = ticket.verdict();
        let asked = if can_ask { "person" } else { "nobody" };
        let (decision, by) = match ruling {
            Ruling::Run(Approver::Policy) => ("run", "policy"),
            Ruling::Run(Approver::Config) => ("run", "config"),
            Ruling::Run(Approver::Check) => ("run", "check"),
            Ruling::Run(Approver::Person { lasting: Lasting::Once, .. }) => ("run", "person"),
            Ruling::Run(Approver::Person { .. }) => ("run", "person, for good"),
            Ruling::InMyShell(_) => ("run in the own shell", "person"),
            Ruling::Instead(_) | Ruling::Files(..) => ("run otherwise", "person"),
            Ruling::Refused("estop", _) => ("deny", "estop"),
            Ruling::Refused(..) if verdict.decision == Decision::Deny => ("deny", "policy"),
            Ruling::Refused(..) => ("deny", asked),
        };
        note!(info, self, "tool_decided", risk = verdict.risk.word(), decision, by);
    }

    pub(in crate::agent) fn done(&self, outcome: &Outcome, duration: Duration) {
        let of = |name: &str| outcome.metadata.get(name).and_then(Value::as_str);
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        match &outcome.error {
            Some(error) if error.code == "denied" => {
                note!(warn, self, "tool_denied", risk = of("risk"), rule = of("rule"), ms);
            }
            Some(error) => note!(warn, self, "tool_failed", code = error.code, ms),
            None if outcome.success => note!(info, self, "tool_completed", ms),
            None => note!(warn, self, "tool_failed", ms),
        }
        if let Some(receipt) = &outcome.receipt_id {
            note!(info, self, "receipt_written", receipt = receipt.as_str());
        }
    }
}
