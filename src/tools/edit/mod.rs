//! `edit_replace_exact`, `edit_insert_at_line`, `edit_create_file`, `edit_delete_file` and `edit_apply_batch`: exact edits
//! of files of the workspace, shown as a difference first, and applied all or none. What was shown is what is done.

mod draft;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::files::{path_error, path_schema};
use super::{Place, Plan, Spec, Tool, Work, text as argument};
use crate::gate::Permit;
use crate::host::{Journals, Root};
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::turn::schema::Schema;
use draft::{Difference, Draft};

/// Edits of a batch.
const EDITS_MAX: usize = 1_000;

/// What an edit does to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Replace,
    Insert,
    Create,
    Delete,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Replace, Self::Insert, Self::Create, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::Replace => "edit_replace_exact",
            Self::Insert => "edit_insert_at_line",
            Self::Create => "edit_create_file",
            Self::Delete => "edit_delete_file",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Replace => {
                "Replaces a text in a file of the workspace. The old text must match to the byte, white space included, \
                 and occur exactly once, or expectedOccurrences times: then all of them are replaced. Line feeds stand \
                 for the file's own line endings."
            }
            Self::Insert => {
                "Inserts whole lines in front of a line of a file of the workspace; one more than the file has appends."
            }
            Self::Create => {
                "Makes a file of the workspace, with the directories that it needs; in the place of another one only with \
                 overwrite: true."
            }
            Self::Delete => "Deletes a file of the workspace.",
        }
    }

    fn schema(self) -> Value {
        let text = |what: &str| json!({"type": "string", "description": what});
        let path = path_schema("a file");
        let (properties, required) = match self {
            Self::Replace => (
                json!({
                    "path": path,
                    "old": {"type": "string", "minLength": 1, "description": "what is there, to the byte"},
                    "new": text("what is to be there"),
                    "expectedOccurrences": {"type": "integer", "minimum": 1, "description": "1 where absent"},
                }),
                json!(["path", "old", "new"]),
            ),
            Self::Insert => (
                json!({
                    "path": path,
                    "line": {"type": "integer", "minimum": 1, "description": "the line that it comes in front of"},
                    "content": {"type": "string", "minLength": 1, "description": "whole lines"},
                }),
                json!(["path", "line", "content"]),
            ),
            Self::Create => (
                json!({"path": path, "content": text("the whole file"), "overwrite": {"type": "boolean"}}),
                json!(["path", "content"]),
            ),
            Self::Delete => (json!({"path": path}), json!(["path"])),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

/// The five tools; their journals are kept where `journals` says.
#[must_use]
pub fn edit_tools(journals: &Journals) -> Vec<Box<dyn Tool>> {
    let one = |kind| Box::new(Edit { kind: Some(kind), journals: journals.clone() }) as Box<dyn Tool>;
    let batch = Box::new(Edit { kind: None, journals: journals.clone() });
    Kind::ALL.map(one).into_iter().chain([batch as Box<dyn Tool>]).collect()
}

/// One kind of edit, or a batch of any.
struct Edit {
    kind: Option<Kind>,
    journals: Journals,
}

impl Tool for Edit {
    fn spec(&self) -> Spec {
        let (name, description, schema) = match self.kind {
            Some(kind) => (kind.name(), kind.description(), kind.schema()),
            None => (
                "edit_apply_batch",
                "Makes several edits as one, in order, each over the result of those before: all of them or, where one \
                 doesn't fit, none. args are those of the tool that toolName names. Use it for changes that belong \
                 together.",
                json!({
                    "type": "object",
                    "properties": {"edits": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": EDITS_MAX,
                        "items": {
                            "type": "object",
                            "properties": {"toolName": {"enum": Kind::ALL.map(Kind::name)}, "args": {"type": "object"}},
                            "required": ["toolName", "args"],
                            "additionalProperties": false,
                        },
                    }},
                    "required": ["edits"],
                    "additionalProperties": false,
                }),
            ),
        };
        Spec { name: name.into(), aliases: &[], description: description.into(), schema }
    }

    fn plan(&self, arguments: &Value, place: Place<'_>) -> Result<Plan, ToolError> {
        let edits = self.edits(arguments)?;
        let paths = |is_wanted: &dyn Fn(Kind) -> bool| -> Vec<String> {
            let wanted = edits.iter().filter(|(kind, _)| is_wanted(*kind));
            let paths: BTreeSet<&str> = wanted.map(|(_, arguments)| argument(arguments, "path")).collect();
            paths.into_iter().map(str::to_owned).collect()
        };
        let (writes, deletes) = (paths(&|kind| kind != Kind::Delete), paths(&|kind| kind == Kind::Delete));
        let path = || argument(arguments, "path").to_owned();
        let action = match self.kind {
            Some(Kind::Delete) => Action::Delete { path: path() },
            Some(_) => Action::Write { path: path() },
            None => Action::Edit { writes, deletes },
        };
        Ok(match self.draft(&edits, place.root) {
            Ok(draft) => Plan { preview: draft.difference().preview(), ..Plan::of(action) },
            Err(error) => Plan { refusal: Some(refused(error)), ..Plan::of(action) },
        })
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let root = work.place.root;
        let draft = match self.edits(permit.arguments()).and_then(|edits| self.draft(&edits, root)) {
            Ok(draft) => draft,
            Err(error) => return refused(error),
        };
        let difference = draft.difference();
        // What was shown is what is done: the files must be those that the difference was made from.
        if difference.preview() != permit.preview() {
            let message = "the files have changed since the difference was shown";
            return refused(ToolError::new("changed", message, "read them again, then propose the change anew"));
        }
        match root.commit(&self.journals, &draft.changes()) {
            Ok(()) => done(&difference, work.limits.output_bytes),
            Err(error) => refused(path_error(&error.path, &error.error)),
        }
    }
}

impl Edit {
    /// The single edits of a call, each with arguments that are valid.
    fn edits(&self, arguments: &Value) -> Result<Vec<(Kind, Value)>, ToolError> {
        if let Some(kind) = self.kind {
            return Ok(vec![(kind, arguments.clone())]);
        }
        let wrong = |at: usize, what: String, kind: Option<Kind>| {
            let hint = kind.map(|kind| format!("the schema of its args is {}", kind.schema())).unwrap_or_default();
            ToolError::new("bad-arguments", format!("edit {}: {what}", at + 1), hint)
        };
        let schemas = Kind::ALL.map(|kind| Schema::new(kind.schema()));
        let edits = arguments.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let one = |(at, edit): (usize, &Value)| {
            let name = argument(edit, "toolName");
            let found = Kind::ALL.iter().zip(&schemas).find(|(kind, _)| kind.name() == name);
            let (kind, schema) = found.ok_or_else(|| wrong(at, format!("there is no edit {name}"), None))?;
            let args = edit.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
            let args: Map<String, Value> = args.into_iter().filter(|(_, value)| !value.is_null()).collect();
            let args = Value::from(args);
            let schema = schema.as_ref().map_err(|error| wrong(at, error.clone(), None))?;
            match schema.problems(&args)[..] {
                [] => Ok((*kind, args)),
                ref problems => Err(wrong(at, problems.join("; "), Some(*kind))),
            }
        };
        edits.iter().enumerate().map(one).collect()
    }

    fn draft(&self, edits: &[(Kind, Value)], root: &Root) -> Result<Draft, ToolError> {
        let mut draft = Draft::default();
        for (at, (kind, arguments)) in edits.iter().enumerate() {
            draft.edit(*kind, arguments, root).map_err(|error| match self.kind {
                Some(_) => error,
                None => ToolError { message: format!("edit {} ({}): {error}", at + 1, kind.name()), ..error },
            })?;
        }
        if draft.changes().is_empty() {
            return Err(ToolError::new("no-change", "together these edits change nothing", "leave them out"));
        }
        Ok(draft)
    }
}

fn done(difference: &Difference, bytes_max: usize) -> Outcome {
    let diff = &difference.diff;
    let cut = &diff[..diff.floor_char_boundary(bytes_max)];
    let left_out = diff.len() - cut.len();
    let more = if left_out == 0 { String::new() } else { format!("\n[{left_out} bytes are left out here]\n") };
    Outcome::of(difference.summary.trim_end())
        .with("diff", format!("{cut}{more}"))
        .with("canApply", true)
        .with("stats", difference.stats())
}

fn refused(error: ToolError) -> Outcome {
    Outcome::from(error).with("diff", "").with("canApply", false).with("stats", Difference::default().stats())
}
