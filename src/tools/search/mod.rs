//! `find_files` and `search_text`: names and lines of the workspace. Each file is opened beneath its handle, and a file that a
//! rule closes isn't shown, even below a directory that may be searched.

mod find;
mod text;
mod walk;

use std::path::Path;

use serde_json::{Value, json};

use super::{Work, number};
use crate::proto::tool::{Outcome, ToolError};

pub(super) use find::Find;
pub(super) use text::Search;
pub(super) use walk::{End, Walk};

/// Number of results if the model doesn't choose one.
const RESULTS: usize = 100;
/// Maximum number of results.
const RESULTS_MAX: usize = 1_000;
/// The note for a model after a search without results.
const LEFT_OUT: &str = "hidden files, binary ones and what .gitignore names are left out";

pub(super) fn limit_schema() -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": RESULTS_MAX,
        "description": format!("most results; {RESULTS} where absent"),
    })
}

pub(super) fn limit(arguments: &Value) -> usize {
    number(arguments, "limit").unwrap_or(RESULTS).min(RESULTS_MAX)
}

/// Notes how a walk ended unless it was complete; a stopped walk fails the call.
pub(super) fn note(end: End, lines: &mut Vec<String>, work: &Work<'_>) -> Result<(), ToolError> {
    match end {
        End::Whole | End::Enough => {}
        End::Stopped => return Err(ToolError::new("stopped", "the user stopped it", "")),
        End::Late => lines.push(format!(
            "[this is not all: it was ended after {} s; search below a directory]",
            work.limits.tool.as_secs()
        )),
    }
    Ok(())
}

/// Returns a path as it is reported.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the outcome with these lines, their number, and whether they are all.
fn outcome(lines: &[String], count: usize, is_all: bool) -> Outcome {
    Outcome::of(lines.join("\n")).with("results", count).with("is_all", is_all)
}
