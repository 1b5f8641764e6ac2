//! `update_context`: the files whose newest contents go with every question of a session on git. Must not know how
//! questions are made.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::reading::files::{missing, path_error};
use super::{Offer, Place, Plan, Reads, Spec, Tool, Work};
use crate::files::PathError;
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// Files of one call.
const PATHS_MAX: usize = 50;
/// Longest file that is opened, in bytes; of a longer one a model reads lines.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// The tool.
pub struct UpdateContext(pub Reads);

fn paths<'a>(arguments: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    arguments.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

impl UpdateContext {
    /// Opens and closes what the call names. Returns the newly opened files with their contents.
    fn update(&self, arguments: &Value, place: Place<'_>) -> Result<Vec<(PathBuf, String)>, ToolError> {
        let (mut opened, mut closed) = (Vec::new(), Vec::new());
        for path in paths(arguments, "open") {
            let failed = |error: PathError| match error {
                PathError::Missing => missing(path, place.tree),
                error => path_error(path, &error),
            };
            let (found, _) = place.tree.look(path).map_err(failed)?;
            let content = place.tree.read(path, FILE_BYTES_MAX).map_err(failed)?;
            self.0.note(place.tree.path().join(&found), &content.bytes);
            let text = String::from_utf8(content.bytes);
            let text = text.map_err(|_| ToolError::new("binary", format!("{path} is no text"), ""))?;
            opened.push((found, text));
        }
        for path in paths(arguments, "close") {
            closed.push(place.tree.beneath(path).map_err(|error| path_error(path, &error))?);
        }
        let names: Vec<PathBuf> = opened.iter().map(|(path, _)| path.clone()).collect();
        place.tree.set_open_files(&names, &closed).map_err(|error| path_error("the open files", &error))?;
        Ok(opened)
    }
}

impl Tool for UpdateContext {
    fn spec(&self) -> Spec {
        let list = |what: &str| {
            let path = json!({"type": "string", "minLength": 1});
            json!({"type": "array", "items": path, "maxItems": PATHS_MAX, "description": what})
        };
        Spec {
            name: "update_context".into(),
            aliases: &["list_active_files"],
            description:
                "Opens files: you read them whole now, and their newest contents go with every later question \
                          until you close them. Open all files that the task needs in one call. Without arguments it \
                          lists the open ones."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {"open": list("paths to open"), "close": list("paths to close")},
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        // In a session on git, which is the only one that has it, this tool replaces many reads.
        Offer::Core
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let opened: Vec<String> = paths(arguments, "open").map(str::to_owned).collect();
        let closed = paths(arguments, "close").count();
        let intent = match (&opened[..], closed) {
            ([], 0) => "Listing the open files".to_owned(),
            ([], closed) => format!("Closing {closed} of the open files"),
            (opened, _) => {
                format!("Opening {}", opened.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", "))
            }
        };
        let action = match opened.is_empty() {
            true => Action::Inert { name: "update_context".into() },
            false => Action::Open { paths: opened },
        };
        Ok(Plan::of(action).saying(intent))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let opened = match self.update(permit.arguments(), work.place) {
            Ok(opened) => opened,
            Err(error) => return error.into(),
        };
        let all = work.place.tree.open_files().unwrap_or_default();
        let names: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
        let listed =
            if names.is_empty() { "no file is open".to_owned() } else { format!("open: {}", names.join(", ")) };
        let mut text = listed + "\n";
        for (path, content) in &opened {
            let path = path.display();
            text.push_str(&format!("[{path}]\n{}\n[end of {path}]\n", content.trim_end_matches('\n')));
        }
        Outcome::of(text).with("open", names)
    }
}
