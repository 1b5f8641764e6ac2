//! The events of an answer as JSON lines, for `reedclaw agent --json` and the gateway (`config/schema/events.json` describes them
//! to other programs). This format is a promise: fields may be added, but none changes its meaning.

use serde::Serialize;

use super::tool::{Step, ToolEvent};
use super::{Event, FailureKind, Money, SessionEvent, Shortfall, Spent, TurnCommitted};

/// One line.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line<'a> {
    Notice {
        text: &'a str,
    },
    Text {
        text: &'a str,
    },
    Thought {
        text: &'a str,
    },
    Usage(Usage<'a>),
    ToolRequested {
        id: &'a str,
        tool: &'a str,
        intent: &'a str,
    },
    ToolApproved {
        id: &'a str,
        tool: &'a str,
    },
    ToolDenied {
        id: &'a str,
        tool: &'a str,
        why: &'a str,
    },
    ToolDone {
        id: &'a str,
        tool: &'a str,
        result: serde_json::Value,
        duration_ms: u64,
    },
    SessionStarted {
        session: &'a str,
    },
    SessionConflict {
        session: &'a str,
        paths: &'a [String],
    },
    DraftChanged {
        session: &'a str,
        paths: &'a [String],
    },
    TurnNotCommitted {
        session: &'a str,
        message: &'a str,
        hint: &'a str,
    },
    TurnCommitted {
        session: &'a str,
        turn: u64,
        commit: &'a str,
        files: usize,
        added: Option<u64>,
        removed: Option<u64>,
        state: &'static str,
        conflicts: &'a [String],
        text: &'a str,
    },
    Answered {
        text: &'a str,
        shortfall: Option<&'static str>,
    },
    Cancelled {
        text: &'a str,
    },
    Failed {
        text: &'a str,
        kind: &'static str,
        message: &'a str,
        hint: &'a str,
    },
}

/// The cost of a request.
#[derive(Serialize)]
pub struct Usage<'a> {
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
    /// Makes the line for an event.
    pub fn of(event: &'a Event) -> Self {
        match event {
            Event::Notice(text) => Self::Notice { text },
            Event::Text(text) => Self::Text { text },
            Event::Thought(text) => Self::Thought { text },
            Event::Tool(event) => Self::of_tool(event),
            Event::Usage(spent) => Self::Usage(Usage::of(spent)),
            Event::Session(event) => Self::of_session(event),
            Event::Answered { text, shortfall } => Self::Answered { text, shortfall: shortfall.map(word_of) },
            Event::Cancelled { text } => Self::Cancelled { text },
            Event::Failed { text, failure } => {
                Self::Failed { text, kind: kind(failure.kind), message: &failure.message, hint: &failure.hint }
            }
        }
    }

    fn of_session(event: &'a SessionEvent) -> Self {
        match event {
            SessionEvent::Started { session } => Self::SessionStarted { session },
            SessionEvent::Conflict { session, paths } => Self::SessionConflict { session, paths },
            SessionEvent::DraftChanged { session, paths } => Self::DraftChanged { session, paths },
            SessionEvent::NotCommitted { session, failure } => {
                Self::TurnNotCommitted { session, message: &failure.message, hint: &failure.hint }
            }
            SessionEvent::Committed(turn) => {
                let [added, removed] = turn.lines.map_or([None; 2], |lines| lines.map(Some));
                let TurnCommitted { session, turn, commit, files, state, conflicts, text, .. } = turn;
                let (turn, files) = (*turn, *files);
                Self::TurnCommitted { session, turn, commit, files, added, removed, state, conflicts, text }
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

    /// Writes the line, with its newline.
    pub fn to_json(&self) -> String {
        // It has only text in named fields, so nothing can fail.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// The word for a kind of failure.
#[must_use]
pub fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::User => "user",
        FailureKind::Config => "config",
        FailureKind::NoModel => "no_model",
        FailureKind::Refused => "refused",
        FailureKind::Budget => "budget",
        FailureKind::Unreachable => "unreachable",
        FailureKind::Unavailable => "unavailable",
        FailureKind::Internal => "internal",
    }
}

/// The word for a shortfall.
fn word_of(shortfall: Shortfall) -> &'static str {
    match shortfall {
        Shortfall::Length => "length",
        Shortfall::Rounds => "rounds",
        Shortfall::Filtered => "filtered",
    }
}
