//! `search_text`: lines by a text or a regular expression, with ripgrep's own crates.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use serde_json::{Value, json};

use super::{End, LEFT_OUT, Walk, limit, limit_schema, note, outcome, shown};
use crate::files::Walked;
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::tools::reading::files::{path_error, path_schema};
use crate::tools::{Brief, Offer, Place, Plan, Spec, Tool, Work, text};

/// Matches after which a search ends: ten times the maximum number of results, so that the first by path are usually among them.
const MATCHES_MAX: usize = 10_000;
/// Bytes of a line that are shown.
const PREVIEW_BYTES: usize = 200;
/// Bytes shown in front of a match, in a line that is longer.
const BEFORE_BYTES: usize = 60;
/// Longest line that is searched, in bytes: such lines are generated and not meant for reading.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The tool.
pub(in crate::tools) struct Search;

impl Tool for Search {
    fn spec(&self) -> Spec {
        let description = "Searches files for a text, or with `regex` for a regular expression within a line (as ripgrep \
                           has them). Gives each line that matches as path:line:column: text. Hidden, binary and \
                           ignored files are left out, unless `path` names them.";
        Spec {
            name: "search_text".into(),
            aliases: &[],
            description: description.into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "minLength": 1, "maxLength": 10_000},
                    "path": path_schema("a directory or a file"),
                    "regex": {"type": "boolean"},
                    "limit": limit_schema(),
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
        }
    }

    fn brief(&self) -> Option<Brief> {
        Some(Brief { description: "Searches files for a text.", arguments: &["query", "path"] })
    }

    fn offer(&self) -> Offer {
        Offer::Core
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        matcher(arguments)?;
        let (query, path) = (text(arguments, "query"), text(arguments, "path"));
        let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
        let action = Action::Read { path: start(arguments).to_owned() };
        Ok(Plan::of(action).saying(format!("Searching `{query}`{place}")))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        searched(permit, work).unwrap_or_else(Into::into)
    }
}

fn start(arguments: &Value) -> &str {
    match text(arguments, "path") {
        "" => ".",
        path => path,
    }
}

fn matcher(arguments: &Value) -> Result<RegexMatcher, ToolError> {
    let is_regex = arguments.get("regex").and_then(Value::as_bool).unwrap_or(false);
    let mut builder = RegexMatcherBuilder::new();
    builder.fixed_strings(!is_regex).line_terminator(Some(b'\n')).ban_byte(Some(0));
    builder.build(text(arguments, "query")).map_err(|error| {
        let hint = "a match lies within one line; without `regex` the query is matched literally";
        ToolError::new("bad-query", error.to_string(), hint)
    })
}

/// A line that matches.
struct Hit {
    path: Arc<PathBuf>,
    line: u64,
    column: usize,
    preview: String,
}

fn searched(permit: &Permit, work: &Work<'_>) -> Result<Outcome, ToolError> {
    let matcher = matcher(permit.arguments())?;
    let tree = work.place.tree;
    let start = start(permit.arguments());
    let (below, _) = tree.look(start).map_err(|error| path_error(start, &error))?;
    let (open, total, binary) = (tree.opener(), AtomicUsize::new(0), AtomicUsize::new(0));
    let (mut hits, end) = Walk::new(&below, work).each_file(|| {
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LINE_BYTES_MAX))
            .line_number(true)
            .build();
        let (matcher, open, total, binary) = (matcher.clone(), &open, &total, &binary);
        move |file: &Walked<'_>, found: &mut Vec<Hit>, halt: &AtomicBool| {
            let path = file.path;
            // A file is left out if it can't be opened, has another name outside, or has too long a line.
            let Ok((file, bytes)) = open(path) else { return };
            let mut lines = Lines { path, shared: None, matcher: &matcher, found, halt, total, is_binary: false };
            let _ = searcher.search_reader(&matcher, Stoppable { file, left: bytes, halt }, &mut lines);
            if lines.is_binary {
                binary.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    hits.sort_unstable_by(|left, right| (&left.path, left.line).cmp(&(&right.path, right.line)));
    let count = hits.len();
    let (mut lines, mut matches) = (Vec::new(), Vec::new());
    let mut judged: Option<(Arc<PathBuf>, bool)> = None;
    for hit in hits {
        let may = match &judged {
            Some((path, may)) if *path == hit.path => *may,
            _ => permit.may_read(&tree.path().join(&*hit.path)),
        };
        judged = Some((Arc::clone(&hit.path), may));
        if may && lines.len() < limit(permit.arguments()) {
            lines.push(hit.line());
            matches.push(hit.fields());
        }
    }
    let listed = lines.len();
    match end {
        End::Enough => lines.push(format!("[{listed} of more than {count} lines; ask for less, or below a directory]")),
        _ if listed == 0 => lines.push(format!("[no line matches; {LEFT_OUT}]")),
        _ if listed < count => lines.push(format!("[{listed} of {count} lines]")),
        _ => {}
    }
    note(end, &mut lines, work)?;
    let is_all = listed == count && end == End::Whole;
    Ok(outcome(&lines, listed, is_all).with("binary_files", binary.into_inner()).with("matches", matches))
}

impl Hit {
    fn line(&self) -> String {
        let Self { path, line, column, preview } = self;
        format!("{}:{line}:{column}: {preview}", shown(path))
    }

    fn fields(&self) -> Value {
        let Self { path, line, column, preview } = self;
        json!({"path": shown(path), "line": line, "column": column, "preview": preview})
    }
}

/// A file that is read as far as it went when it was opened, and no further once the walk is to end. To know its length
/// spares asking twice whether that was all, a third of the calls for a small file.
struct Stoppable<'a> {
    file: Box<dyn Read + Send>,
    left: u64,
    halt: &'a AtomicBool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || self.halt.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let read = self.file.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

/// Takes the lines that match in one file.
struct Lines<'a> {
    path: &'a Path,
    shared: Option<Arc<PathBuf>>,
    matcher: &'a RegexMatcher,
    found: &'a mut Vec<Hit>,
    halt: &'a AtomicBool,
    total: &'a AtomicUsize,
    is_binary: bool,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.total.fetch_add(1, Ordering::Relaxed) >= MATCHES_MAX {
            self.halt.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        let at = self.matcher.find(found.bytes())?.map_or(0, |at| at.start());
        let path = self.shared.get_or_insert_with(|| Arc::new(self.path.to_owned()));
        self.found.push(Hit {
            path: Arc::clone(path),
            line: found.line_number().unwrap_or(0),
            column: at + 1,
            preview: preview(found.bytes(), at),
        });
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Returns a line, shortened to the part around a match if it is long.
fn preview(line: &[u8], at: usize) -> String {
    let line = line.trim_ascii_end();
    let from = if line.len() > PREVIEW_BYTES { at.saturating_sub(BEFORE_BYTES) } else { 0 };
    let to = (from + PREVIEW_BYTES).min(line.len());
    // A character that is cut in two is left out at the front and at the end.
    let is_inner = |byte: &u8| byte & 0xc0 == 0x80;
    let from = if from == 0 { 0 } else { from + line[from..].iter().take(3).take_while(|byte| is_inner(byte)).count() };
    let to = if to == line.len() {
        to
    } else {
        to - line[..=to].iter().rev().take(3).take_while(|byte| is_inner(byte)).count()
    };
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" });
    format!("{before}{}{after}", String::from_utf8_lossy(line.get(from..to).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        assert_eq!(preview(b"  short line \r\n", 2), "  short line");
        let line = format!("{}needle{}\n", "ä".repeat(500), "ö".repeat(500));
        let at = line.find("needle").expect("it is there");
        let shown = preview(line.as_bytes(), at);
        assert!(shown.starts_with("…ä") && shown.contains("äneedleö") && shown.ends_with("ö…"), "{shown}");
        assert!(!shown.contains('\u{fffd}') && shown.len() <= PREVIEW_BYTES + 6, "{shown}");
    }

    proptest! {
        #[test]
        fn any_line_and_place_can_be_shown(line in prop::collection::vec(any::<u8>(), 0..600), at in 0usize..600) {
            prop_assert!(preview(&line, at.min(line.len())).len() <= 3 * PREVIEW_BYTES + 6);
        }
    }
}
