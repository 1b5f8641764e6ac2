//! `edit_replace_exact`, `edit_insert_at_line`, `edit_create_file`, `edit_delete_file`, `edit_apply_batch` and `file_write`:
//! exact edits of files of the workspace, shown as a difference first, and applied all or none. What was shown is what is done;
//! if the person revises a proposal, the revision is shown and done.

mod draft;
mod revise;
#[cfg(test)]
mod tests;
mod text;
mod whole;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Brief, Offer, Place, Plan, Reads, Spec, Tool, Work, text as argument};
use crate::files::{Journals, Tree};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{FileChange, Outcome, ToolError};
use crate::schema::Schema;
use crate::tools::catalog::fit;
use crate::tools::reading::files::{path_error, path_schema};
use draft::{Difference, Draft};

pub use revise::{changed_by_person, chosen};
pub(super) use text::{is_binary, shown};
pub(super) use whole::Whole;

/// Edits of a batch.
const EDITS_MAX: usize = 1_000;

/// The effect of an edit on its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Replace,
    Insert,
    Create,
    Delete,
    /// The whole of a file, whether there is one or not; not for a batch.
    Write,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Replace, Self::Insert, Self::Create, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::Replace => "edit_replace_exact",
            Self::Insert => "edit_insert_at_line",
            Self::Create => "edit_create_file",
            Self::Delete => "edit_delete_file",
            Self::Write => "file_write",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Replace => {
                "Replaces a text in a file. old must be in the file exactly as given, spaces included, and only once; \
                 with expected_occurrences that often, and all are replaced."
            }
            Self::Insert => "Inserts whole lines in front of a line of a file; one more than the file has appends.",
            Self::Create => {
                "Makes a file, with the directories that it needs; replaces a file only with overwrite: true."
            }
            Self::Delete => "Deletes a file.",
            Self::Write => {
                "Writes a whole text file, new or over the old one. To change a part use edit_replace_exact."
            }
        }
    }

    fn schema(self) -> Value {
        let text = |what: &str| json!({"type": "string", "description": what});
        let path = path_schema("");
        let (properties, required) = match self {
            Self::Replace => (
                json!({
                    "path": path,
                    "old": {"type": "string", "minLength": 1, "description": "what is there"},
                    "new": text("what is to be there"),
                    "expected_occurrences": {"type": "integer", "minimum": 1, "description": "1 where absent"},
                }),
                json!(["path", "old", "new"]),
            ),
            Self::Insert => (
                json!({
                    "path": path,
                    "line": {"type": "integer", "minimum": 1},
                    "content": {"type": "string", "minLength": 1},
                }),
                json!(["path", "line", "content"]),
            ),
            Self::Create => (
                json!({"path": path, "content": {"type": "string"}, "overwrite": {"type": "boolean"}}),
                json!(["path", "content"]),
            ),
            Self::Delete => (json!({"path": path}), json!(["path"])),
            Self::Write => (json!({"path": path, "content": {"type": "string"}}), json!(["path", "content"])),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

/// Returns the six tools; their journals are written to `journals`, and `reads` holds what the model has read.
#[must_use]
pub fn edit_tools(journals: &Journals, reads: &Reads) -> Vec<Box<dyn Tool>> {
    let one =
        |kind| Box::new(Edit { kind: Some(kind), journals: journals.clone(), reads: reads.clone() }) as Box<dyn Tool>;
    let batch = Box::new(Edit { kind: None, journals: journals.clone(), reads: reads.clone() });
    let singles = Kind::ALL.into_iter().chain([Kind::Write]).map(one);
    singles.chain([batch as Box<dyn Tool>]).collect()
}

/// One kind of edit, or a batch of any.
struct Edit {
    kind: Option<Kind>,
    journals: Journals,
    reads: Reads,
}

impl Tool for Edit {
    fn spec(&self) -> Spec {
        let (name, description, schema) = match self.kind {
            Some(kind) => (kind.name(), kind.description(), kind.schema()),
            None => (
                "edit_apply_batch",
                "Applies several edits in order, all or none. Each sees the result of those before; args are those of \
                 the tool that tool names.",
                json!({
                    "type": "object",
                    "properties": {"edits": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": EDITS_MAX,
                        "items": {
                            "type": "object",
                            "properties": {
                                "tool": {"enum": Kind::ALL.map(Kind::name)},
                                "args": {"type": "object"},
                                "tool_name": {"enum": Kind::ALL.map(Kind::name), "deprecated": true},
                            },
                            "required": ["args"],
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

    fn brief(&self) -> Option<Brief> {
        match self.kind? {
            Kind::Replace => Some(Brief {
                description: "Replaces a text that is exactly once in a file.",
                arguments: &["path", "old", "new"],
            }),
            Kind::Write => Some(Brief { description: "Writes a whole text file.", arguments: &["path", "content"] }),
            _ => None,
        }
    }

    fn offer(&self) -> Offer {
        match self.kind {
            Some(Kind::Replace | Kind::Write) => Offer::Core,
            Some(Kind::Insert | Kind::Delete) => Offer::Usual,
            Some(Kind::Create) | None => Offer::Extra,
        }
    }

    fn plan(&self, arguments: &Value, place: Place<'_>) -> Result<Plan, ToolError> {
        let action = self.action(arguments)?;
        let intent = match (self.kind, &action) {
            (Some(Kind::Replace | Kind::Insert), Action::Write { path }) => {
                Some(format!("Preparing edits in `{path}`"))
            }
            _ => None,
        };
        let plan = Plan { intent, ..Plan::of(action) };
        Ok(match self.draft(arguments, place.tree) {
            Ok(draft) => Plan { preview: draft.difference().preview(), changes: draft.file_changes(), ..plan },
            Err(error) => Plan { refusal: Some(refused(error)), ..plan },
        })
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let tree = work.place.tree;
        let draft = match self.draft(permit.arguments(), tree) {
            Ok(draft) => draft,
            Err(error) => return refused(error),
        };
        let difference = draft.difference();
        // What was shown is what is done: the files must be those that the difference was made from.
        if difference.preview() != permit.preview() {
            let message = "a file has changed meanwhile: the difference that was shown was made from another";
            return refused(ToolError::new("changed", message, "read them again, then propose the change again"));
        }
        match tree.change(&self.journals, &draft.changes()) {
            Ok(()) => {
                draft.note(&self.reads);
                done(&difference, work.limits.output_bytes)
            }
            Err(error) => refused(path_error(&error.path, &error.error)),
        }
    }

    fn revised(&self, arguments: &Value, files: &[FileChange]) -> Option<Value> {
        Some(revise::arguments(arguments, files))
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
            let name = [argument(edit, "tool"), argument(edit, "tool_name")].into_iter().max().unwrap_or_default();
            let found = Kind::ALL.iter().zip(&schemas).find(|(kind, _)| kind.name() == name);
            let (kind, schema) = found.ok_or_else(|| wrong(at, format!("there is no edit {name}"), None))?;
            let args = edit.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
            let args = fit::fit(args.into(), &kind.schema(), "", &mut Vec::new());
            let schema = schema.as_ref().map_err(|error| wrong(at, error.clone(), None))?;
            match schema.problems(&args)[..] {
                [] => Ok((*kind, args)),
                ref problems => Err(wrong(at, problems.join("; "), Some(*kind))),
            }
        };
        edits.iter().enumerate().map(one).collect()
    }

    /// Returns the action, from the names of the files alone.
    fn action(&self, arguments: &Value) -> Result<Action, ToolError> {
        if let Some(files) = revise::files(arguments) {
            let paths = |is_gone: bool| {
                let wanted = files.iter().filter(|file| file.content.is_none() == is_gone);
                wanted.map(|file| file.path.clone()).collect()
            };
            return Ok(Action::Edit { writes: paths(false), deletes: paths(true) });
        }
        let path = || argument(arguments, "path").to_owned();
        Ok(match self.kind {
            Some(Kind::Delete) => Action::Delete { path: path() },
            Some(_) => Action::Write { path: path() },
            None => {
                let edits = self.edits(arguments)?;
                let paths = |is_wanted: &dyn Fn(Kind) -> bool| -> Vec<String> {
                    let wanted = edits.iter().filter(|(kind, _)| is_wanted(*kind));
                    let paths: BTreeSet<&str> = wanted.map(|(_, arguments)| argument(arguments, "path")).collect();
                    paths.into_iter().map(str::to_owned).collect()
                };
                Action::Edit {
                    writes: paths(&|kind| kind != Kind::Delete),
                    deletes: paths(&|kind| kind == Kind::Delete),
                }
            }
        })
    }

    fn draft(&self, arguments: &Value, tree: &dyn Tree) -> Result<Draft, ToolError> {
        let mut draft = Draft::default();
        if let Some(files) = revise::files(arguments) {
            for file in files {
                draft.put(file, tree)?;
            }
        } else {
            for (at, (kind, arguments)) in self.edits(arguments)?.iter().enumerate() {
                draft.edit(*kind, arguments, tree, &self.reads).map_err(|error| match self.kind {
                    Some(_) => error,
                    None => ToolError { message: format!("edit {} ({}): {error}", at + 1, kind.name()), ..error },
                })?;
            }
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
        .with("diffsByFile", if left_out == 0 { difference.by_file.clone() } else { serde_json::Map::new() })
        .with("canApply", true)
        .with("stats", difference.stats())
}

fn refused(error: ToolError) -> Outcome {
    Outcome::from(error)
        .with("diff", "")
        .with("diffsByFile", json!({}))
        .with("canApply", false)
        .with("stats", Difference::default().stats())
}
