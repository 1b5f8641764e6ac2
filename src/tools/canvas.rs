//! `canvas_read` and `canvas_edit`: a team's boards, for an agent in its gateway. They reach a board only through [`Canvases`], which
//! the gateway implements; other channels have neither tool. They know neither users nor storage.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Offer, Place, Plan, Spec, Tool, Work, text};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// Names of the tools that only a gateway has.
pub const CANVAS_TOOLS: [&str; 2] = ["canvas_edit", "canvas_read"];
/// Operations of a call, as of a client's command.
const OPS_MAX: usize = 200;

/// The boards that the caller of a run may see and change.
pub trait Canvases: Send + Sync {
    /// Returns a board's revision and atoms.
    ///
    /// # Errors
    /// There is no such board in the caller's project, or the store fails.
    fn read(&self, canvas: &str) -> Result<Value, ToolError>;

    /// Checks operations that start from a revision, as far as that is possible without committing them.
    ///
    /// # Errors
    /// They can't be applied.
    fn check(&self, canvas: &str, base_rev: i64, ops: &[Value]) -> Result<(), ToolError>;

    /// Commits operations; the same key again returns the first result. Returns the new revision and the applied operations.
    ///
    /// # Errors
    /// A gate blocks, the same places have changed since the revision, or the store fails.
    fn commit(&self, canvas: &str, base_rev: i64, ops: &[Value], key: &str) -> Result<Value, ToolError>;
}

/// The boards, or none outside a run.
pub type Boards = Option<Arc<dyn Canvases>>;

/// The two tools over the same boards.
#[must_use]
pub fn canvas_tools(boards: &Boards) -> [Box<dyn Tool>; 2] {
    [Box::new(Edit(boards.clone())), Box::new(Read(boards.clone()))]
}

fn known(boards: &Boards) -> Result<&Arc<dyn Canvases>, ToolError> {
    let none = || ToolError::new("no-canvas", "there are no canvases here", "a run of reedclaw gateway has them");
    boards.as_ref().ok_or_else(none)
}

/// `canvas_read`.
struct Read(Boards);

impl Tool for Read {
    fn spec(&self) -> Spec {
        Spec {
            name: "canvas_read".into(),
            aliases: &[],
            description: "Returns a canvas of the team: its revision and its atoms.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "canvas_id": canvas_id(),
                    "ids": {"type": "array", "maxItems": OPS_MAX, "items": {"type": "string"},
                        "description": "only these atoms; all without it"},
                },
                "required": ["canvas_id"],
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        offer(&self.0)
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        known(&self.0)?;
        Ok(Plan::of(Action::Inert { name: "canvas_read".into() }))
    }

    fn run(&mut self, permit: &Permit, _: &mut Work<'_>) -> Outcome {
        let arguments = permit.arguments();
        let mut board = match known(&self.0).and_then(|boards| boards.read(text(arguments, "canvas_id"))) {
            Ok(board) => board,
            Err(error) => return error.into(),
        };
        if let (Some(ids), Some(atoms)) = (arguments["ids"].as_array(), board["atoms"].as_array_mut()) {
            atoms.retain(|atom| ids.contains(&atom["id"]));
        }
        let rev = board["rev"].clone();
        Outcome::of(board.to_string()).with("rev", rev)
    }
}

/// `canvas_edit`.
struct Edit(Boards);

impl Tool for Edit {
    fn spec(&self) -> Spec {
        Spec {
            name: "canvas_edit".into(),
            aliases: &[],
            description:
                "Changes a canvas of the team: all operations or none. Read it first. Changes of other places since \
                          base_rev are kept; if the same places have changed, the result says how, and nothing is done."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "canvas_id": canvas_id(),
                    "base_rev": {"type": "integer", "minimum": 0,
                        "description": "the revision that canvas_read returned; 0 makes the canvas"},
                    "ops": {"type": "array", "minItems": 1, "maxItems": OPS_MAX, "items": {
                        "type": "object",
                        "properties": {
                            "op": {"enum": ["create", "set", "unset", "move", "delete"]},
                            "atom": {"type": "object", "description": "of create: id, type, order, parent?, props?"},
                            "id": {"type": "string"},
                            "path": {"type": "string", "description": "of set and unset: a JSON Pointer in props, such as /text"},
                            "value": {"description": "of set: any JSON"},
                            "parent": {"type": ["string", "null"], "description": "of move"},
                            "order": {"type": "string", "description": "of move: text, compared by bytes"},
                        },
                        "required": ["op"],
                        "additionalProperties": false,
                    }},
                },
                "required": ["canvas_id", "base_rev", "ops"],
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        offer(&self.0)
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let (canvas, base_rev, ops) = wanted(arguments);
        known(&self.0)?.check(canvas, base_rev, ops)?;
        let mut preview = format!("from revision {base_rev}:\n");
        preview.extend(ops.iter().map(|op| shown(op) + "\n"));
        Ok(Plan { preview, ..Plan::of(Action::Canvas { canvas: canvas.to_owned() }) })
    }

    fn run(&mut self, permit: &Permit, _: &mut Work<'_>) -> Outcome {
        let (canvas, base_rev, ops) = wanted(permit.arguments());
        match known(&self.0).and_then(|boards| boards.commit(canvas, base_rev, ops, permit.digest())) {
            Ok(done) => {
                let rev = done["head_rev"].clone();
                Outcome::of(done.to_string()).with("rev", rev)
            }
            Err(error) => error.into(),
        }
    }
}

fn offer(boards: &Boards) -> Offer {
    if boards.is_some() { Offer::Usual } else { Offer::Never }
}

fn canvas_id() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 128})
}

fn wanted(arguments: &Value) -> (&str, i64, &[Value]) {
    let ops = arguments["ops"].as_array().map(Vec::as_slice).unwrap_or_default();
    (text(arguments, "canvas_id"), arguments["base_rev"].as_i64().unwrap_or_default(), ops)
}

/// An operation in a line, for a person.
fn shown(op: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let id = word(&op["id"]);
    match op["op"].as_str() {
        Some("create") => {
            let atom = &op["atom"];
            let parent = atom["parent"].as_str().map(|parent| format!(" in {parent}")).unwrap_or_default();
            format!("create {} ({}){parent}: {}", word(&atom["id"]), word(&atom["type"]), atom["props"])
        }
        Some("set") => format!("set {id} {}: {}", word(&op["path"]), op["value"]),
        Some("unset") => format!("unset {id} {}", word(&op["path"])),
        Some("move") => {
            let parent = op["parent"].as_str().unwrap_or("the top");
            format!("move {id} to {parent}, at {}", word(&op["order"]))
        }
        Some("delete") => format!("delete {id} and what lies in it"),
        _ => op.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_a_line_for_a_person() {
        let lines = [
            (
                json!({"op": "create", "atom": {"id": "a", "type": "note", "parent": "p", "order": "m", "props": {"t": 1}}}),
                "create a (note) in p: {\"t\":1}",
            ),
            (json!({"op": "set", "id": "a", "path": "/t", "value": "x"}), "set a /t: \"x\""),
            (json!({"op": "unset", "id": "a", "path": "/t"}), "unset a /t"),
            (json!({"op": "move", "id": "a", "parent": null, "order": "z"}), "move a to the top, at z"),
            (json!({"op": "delete", "id": "a"}), "delete a and what lies in it"),
        ];
        for (op, line) in lines {
            assert_eq!(shown(&op), line);
        }
    }

    #[test]
    fn without_boards_no_model_is_offered_the_tools_and_a_call_says_where_they_are() {
        for tool in canvas_tools(&None) {
            assert_eq!(tool.offer(), Offer::Never);
            assert!(CANVAS_TOOLS.contains(&tool.spec().name.as_str()));
        }
        assert_eq!(known(&None).map(drop).expect_err("no boards").code, "no-canvas");
    }
}
