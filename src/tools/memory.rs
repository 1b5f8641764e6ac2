//! `memory_search`: what was said in earlier conversations; `remember`: a note for later ones, which waits for the person.

use serde_json::{Value, json};

use super::{Found, Place, Plan, Spec, Tool, Work, number, text};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// Number of places that are returned if the model doesn't choose one.
const PLACES: usize = 5;

/// Limits for the notes of one answer, and for the characters of each: a longer text isn't a note.
const NOTES_MAX: usize = 8;
const NOTE_CHARS_MAX: usize = 500;

/// The tool that searches.
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

/// The tool that proposes a note.
pub struct Remember;

impl Tool for Remember {
    fn spec(&self) -> Spec {
        Spec {
            name: "remember".into(),
            aliases: &[],
            description:
                "Proposes a short fact that is worth knowing in later conversations. The user decides about it later."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {"text": {"type": "string", "minLength": 1, "maxLength": NOTE_CHARS_MAX}},
                "required": ["text"],
                "additionalProperties": false,
            }),
        }
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "remember".into() }))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let note: String = text(permit.arguments(), "text").trim().chars().filter(|c| !c.is_control()).collect();
        if note.is_empty() {
            return ToolError::new("empty", "the note is empty", "write the fact as text").into();
        }
        if work.notes.len() >= NOTES_MAX {
            return ToolError::new("limit", format!("{NOTES_MAX} notes are proposed already"), "continue without it")
                .into();
        }
        if !work.notes.contains(&note) {
            work.notes.push(note);
        }
        Outcome::of("proposed; the user decides later")
    }
}
