//! `find_files`: names by a glob.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};

use super::{End, LEFT_OUT, Walk, limit, limit_schema, note, outcome, shown};
use crate::files::Walked;
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::tools::{Place, Plan, Spec, Tool, Work, text};

/// The tool.
pub(in crate::tools) struct Find;

impl Tool for Find {
    fn spec(&self) -> Spec {
        let description = "Finds files by a glob. Without a slash it is held against names (`*.{c,h}`), with one against \
                           whole paths (`src/**/*.rs`). Hidden and ignored files are left out.";
        Spec {
            name: "find_files".into(),
            aliases: &[],
            description: description.into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "minLength": 1, "maxLength": 1000},
                    "limit": limit_schema(),
                },
                "required": ["pattern"],
                "additionalProperties": false,
            }),
        }
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let pattern = text(arguments, "pattern");
        globs(pattern)?;
        Ok(Plan::of(Action::List { path: ".".into() }).saying(format!("Finding `{pattern}`")))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        found(permit, work).unwrap_or_else(Into::into)
    }
}

fn found(permit: &Permit, work: &Work<'_>) -> Result<Outcome, ToolError> {
    let pattern = text(permit.arguments(), "pattern");
    let globs = globs(pattern)?;
    let is_whole = pattern.contains('/');
    let tree = work.place.tree;
    let (mut paths, end) = Walk::new(Path::new(""), work).each_file(|| {
        |file: &Walked<'_>, found: &mut Vec<PathBuf>, _: &_| {
            let path = file.path;
            let is_match =
                if is_whole { globs.is_match(path) } else { path.file_name().is_some_and(|name| globs.is_match(name)) };
            if is_match {
                found.push(path.to_owned());
            }
        }
    });
    paths.sort_unstable();
    let count = paths.len();
    // A walk goes by names: each result is checked once more, beneath the handle.
    let is_shown = |path: &&PathBuf| tree.holds(path) && permit.may_read(&tree.path().join(path));
    let mut lines: Vec<String> =
        paths.iter().filter(is_shown).take(limit(permit.arguments())).map(|path| shown(path)).collect();
    let listed = lines.len();
    if listed == 0 {
        lines.push(format!("[no file has such a name; {LEFT_OUT}]"));
    } else if listed < count {
        lines.push(format!("[{listed} of {count} files]"));
    }
    note(end, &mut lines, work)?;
    Ok(outcome(&lines, listed, listed == count && end == End::Whole))
}

fn globs(pattern: &str) -> Result<GlobSet, ToolError> {
    let wrong = |error: globset::Error| {
        let hint = "a glob is expected: * ? ** [a-z] {one,two}, and \\ before a literal character";
        ToolError::new("bad-pattern", format!("{pattern}: {}", error.kind()), hint)
    };
    let from_here = pattern.trim_start_matches("./").trim_start_matches('/');
    let glob = GlobBuilder::new(from_here).literal_separator(true).build().map_err(wrong)?;
    GlobSetBuilder::new().add(glob).build().map_err(wrong)
}
