//! `symbols`: what the sources of the workspace define, with signatures: a file's outline, definitions by name, or a map of
//! what matters most.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::files::{FileStamp, Tree};
use crate::gate::Permit;
use crate::project::symbols::{self, FILES_MAX, Options, Outline, Sought, Symbols as Known};
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::tools::reading::files::{path_error, path_schema};
use crate::tools::{Place, Plan, Spec, Tool, Work, text};

/// Characters of a map or of what is found: some 2,500 tokens.
const MAP_CHARS_MAX: usize = 10_000;
/// Characters of a file's outline: some 5,000 tokens.
const FILE_CHARS_MAX: usize = 20_000;

/// The tool.
pub struct Symbols {
    /// Directory for its cache, with a file for each workspace; `None` for no cache.
    kept_in: Option<PathBuf>,
}

impl Symbols {
    /// Makes the tool with the directory for its cache.
    #[must_use]
    pub fn new(kept_in: Option<PathBuf>) -> Self {
        Self { kept_in }
    }
}

impl Tool for Symbols {
    fn spec(&self) -> Spec {
        let description = "Lists the definitions in sources, with lines and signatures. With `query`: definitions by name, or a \
                           question's words. With `path`: a file's outline. Alone: a map of what matters most.";
        Spec {
            name: "symbols".into(),
            aliases: &[],
            description: description.into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": path_schema("a file or a directory"),
                    "query": {"type": "string", "maxLength": 1000},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let (path, query) = (text(arguments, "path"), text(arguments, "query"));
        let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
        let intent = match query {
            "" => format!("Looking what is defined{place}"),
            query => format!("Looking for definitions of `{query}`{place}"),
        };
        let path = if path.is_empty() { "." } else { path };
        Ok(Plan::of(Action::Read { path: path.to_owned() }).saying(intent))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        self.list(permit, work).unwrap_or_else(Into::into)
    }
}

impl Symbols {
    fn list(&self, permit: &Permit, work: &Work<'_>) -> Result<Outcome, ToolError> {
        let tree = work.place.tree;
        let (path, query) = (text(permit.arguments(), "path"), text(permit.arguments(), "query"));
        let below = match path {
            "" => PathBuf::new(),
            path => tree.look(path).map_err(|error| path_error(path, &error))?.0,
        };
        let (open, deadline) = (tree.opener(), Instant::now() + work.limits.tool);
        let is_over = || (work.is_stopped)() || Instant::now() >= deadline;
        let files = || sources(tree, &is_over);
        let options = Options {
            kept_in: self.kept_in.as_deref().map(|directory| symbols::index_file(directory, tree.path())),
            time: work.limits.tool,
            is_stopped: work.is_stopped,
            files: Some(&files),
            open: &|path| open(path).ok().map(|(file, _)| file),
        };
        let mut known = symbols::symbols(tree.path(), &options);
        if known.is_stopped {
            return Err(ToolError::new("stopped", "the user stopped it", ""));
        }
        // A walk goes by names, and stored results may be older than a rule: each result is checked once more.
        let may = |path: &Path| tree.holds(path) && permit.may_read(&tree.path().join(path));
        known.sources.retain(|source| may(&source.path));
        Ok(outcome(&known, &below, query, work.used))
    }
}

/// Returns the sources of a tree, each with the stamp that identifies its content.
fn sources(tree: &dyn Tree, is_over: &(dyn Fn() -> bool + Sync)) -> Vec<(PathBuf, symbols::Stamp)> {
    let found = Mutex::new(Vec::new());
    tree.walk(Path::new(""), &|| {
        let (found, mut seen) = (&found, 0_usize);
        Box::new(move |file| {
            seen += 1;
            if symbols::is_source(file.path)
                && let Some(FileStamp { time_ns, bytes, identity }) = file.stamp()
                && bytes <= symbols::FILE_BYTES_MAX
            {
                let stamp = symbols::Stamp { time_ns, bytes, inode: identity };
                found.lock().push((file.path.to_owned(), stamp));
            }
            !seen.is_multiple_of(256) || !is_over()
        })
    });
    found.into_inner()
}

fn outcome(known: &Known, below: &Path, query: &str, used: &[PathBuf]) -> Outcome {
    let file = known.sources.iter().find(|source| source.path == below).filter(|_| query.is_empty());
    let (outline, what) = match file {
        Some(source) => (symbols::of_file(source, FILE_CHARS_MAX), "read_file shows the rest"),
        None => {
            let sought = Sought {
                words: query.into(),
                // Files that the conversation has mentioned matter more.
                files: used.to_vec(),
                only: !query.is_empty(),
                below: below.to_owned(),
            };
            let ranked = symbols::ranked(known, &sought);
            (symbols::map(&ranked, MAP_CHARS_MAX), "name a path or ask with query for the rest")
        }
    };
    let Outline { mut text, count, left_out } = outline;
    if count == 0 {
        text =
            "[nothing is defined there by that name, or in no language that is known; search_text finds text]".into();
    } else if left_out > 0 {
        text.push_str(&format!("[{left_out} more definitions; {what}]"));
    }
    if known.left_out > 0 {
        text.push_str(&format!(
            "\n[{} sources weren't looked at, for more than {FILES_MAX} or for lack of time; ask again to continue]",
            known.left_out
        ));
    }
    Outcome::of(text).with("definitions", count).with("is_all", left_out == 0 && known.left_out == 0)
}
