//! Calls that the user or a helper answers: `ask_user` puts the model's question to the user, `delegate` gives side work to a
//! helper, whose questions the caller of the tool asks.

use serde_json::{Value, json};

use super::{Offer, Place, Plan, Spec, Tool, Work, text};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// Characters of a helper's task in the line about its call.
const INTENT_CHARS_MAX: usize = 200;

/// The tool that asks the person.
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
                let hint = "continue with what you know, or say what you would need";
                ToolError::new("no-answer", "the user gave no answer", hint).into()
            }
        }
    }
}

/// The tool by which a model gives side work to a helper.
pub const DELEGATE_TOOL: &str = "delegate";

/// Tools of a helper, which only reads: it changes nothing, starts nothing and asks nothing.
pub const HELPER_TOOLS: [&str; 9] = [
    "detect_languages",
    "file_list",
    "file_read",
    "find_files",
    "hotfiles",
    "read_readme",
    "search_text",
    "symbols",
    "time",
];

/// The tool that gives side work to a helper.
pub struct Delegate;

impl Tool for Delegate {
    fn spec(&self) -> Spec {
        Spec {
            name: DELEGATE_TOOL.into(),
            aliases: &[],
            description:
                "Lets a helper find something out: it reads and searches files, changes nothing, and answers in \
                          words. It knows only your text."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "task": {"type": "string", "minLength": 1, "maxLength": 4000},
                    "paths": {"type": "array", "items": {"type": "string", "maxLength": 400}, "maxItems": 20},
                },
                "required": ["task"],
                "additionalProperties": false,
            }),
        }
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let task: String = text(arguments, "task").chars().take(INTENT_CHARS_MAX).collect();
        Ok(Plan::of(Action::Inert { name: DELEGATE_TOOL.into() }).saying(format!("Delegating: {task}")))
    }

    fn run(&mut self, _: &Permit, work: &mut Work<'_>) -> Outcome {
        match work.no_helper {
            None => Outcome::of("a helper begins"),
            Some(why) => ToolError::new("no-helper", why, "do it yourself").into(),
        }
    }
}
