//! `memory_search`: what was said in earlier conversations.

use serde_json::{Value, json};

use super::{Found, Place, Plan, Spec, Tool, Work, number, text};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// Places that are given where the model names no number.
const PLACES: usize = 5;

/// The tool.
pub(super) struct Search;

impl Tool for Search {
    fn spec(&self) -> Spec {
        Spec {
            name: "memory_search".into(),
            aliases: &[],
            description: "Searches earlier conversations with the user for words.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "minLength": 1, "maxLength": 400},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 50},
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
        }
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "memory_search".into() }))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let limit = number(permit.arguments(), "limit").unwrap_or(PLACES);
        match work.memory.search(text(permit.arguments(), "query"), limit) {
            Err(why) => ToolError::new("memory", why, "").into(),
            Ok(found) if found.is_empty() => Outcome::of("nothing was found"),
            Ok(found) => {
                let line =
                    |it: &Found| format!("conversation {} ({}), {}: {}", it.conversation, it.title, it.role, it.text);
                Outcome::of(found.iter().map(line).collect::<Vec<_>>().join("\n")).with("places", found.len())
            }
        }
    }
}
