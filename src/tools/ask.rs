//! `ask_user`: a question of the model's to the person.

use serde_json::{Value, json};

use super::{Offer, Place, Plan, Spec, Tool, Work, text};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// The tool.
pub(super) struct Ask;

impl Tool for Ask {
    fn spec(&self) -> Spec {
        Spec {
            name: "ask_user".into(),
            aliases: &[],
            description: "Asks the user something that only they can know or decide.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "question": {"type": "string", "minLength": 1, "maxLength": 2000},
                    "choices": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 9},
                },
                "required": ["question"],
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        Offer::WithPerson
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "ask_user".into() }))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let choices =
            permit.arguments().get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let choices: Vec<String> = choices.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        match work.person.reply(text(permit.arguments(), "question"), &choices) {
            Some(reply) => Outcome::of(reply),
            None => {
                let hint = "go on with what you know, or say what you would need";
                ToolError::new("no-answer", "the user gave no answer", hint).into()
            }
        }
    }
}
