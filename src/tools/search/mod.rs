//! `find_files` and `search_text`: names and lines of the workspace. Each file is opened beneath its handle, and what a
//! rule closes isn't shown, though it lies below a place that may be searched.

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

/// Results that are given where the model doesn't say.
const RESULTS: usize = 100;
/// Most results that are given.
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

/// Says how a walk ended where that wasn't its end; the call fails where it was stopped.
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

/// A path as it is given.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Puts lines together with what they don't tell.
fn outcome(lines: &[String], count: usize, is_all: bool) -> Outcome {
    Outcome::of(lines.join("\n")).with("results", count).with("is_all", is_all)
}
