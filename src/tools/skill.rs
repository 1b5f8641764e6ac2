//! `skill`: the text of a skill, by its name.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Offer, Place, Plan, Spec, Tool, Work, text};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// Reads skills: without a name their names, otherwise the text of the one with that name. It is called each time, so that a
/// skill that the person no longer trusts is gone at once.
pub type Library = Arc<dyn Fn(Option<&str>) -> Result<String, String> + Send + Sync>;

/// The tool.
pub struct Skill(Library);

impl Skill {
    /// Reads from a library.
    #[must_use]
    pub fn new(library: Library) -> Self {
        Self(library)
    }
}

impl Tool for Skill {
    fn spec(&self) -> Spec {
        Spec {
            name: "skill".into(),
            aliases: &[],
            description:
                "Reads the instructions of a skill that is listed under [skills]. Read it before work that it is for."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 64}},
                "required": ["name"],
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        if (self.0)(None).is_ok_and(|names| !names.is_empty()) { Offer::Core } else { Offer::Never }
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "skill".into() }))
    }

    fn run(&mut self, permit: &Permit, _: &mut Work<'_>) -> Outcome {
        match (self.0)(Some(text(permit.arguments(), "name"))) {
            Ok(body) => Outcome::of(body),
            Err(why) => ToolError::new("no-skill", why, "").into(),
        }
    }
}
