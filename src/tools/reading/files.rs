//! `file_list`, `file_read` and `read_readme`: files of the workspace, each opened beneath its handle.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::files::{DirEntry, EntryKind, PathError, Tree};
use crate::gate::Permit;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::tools::edit::{is_binary, shown};
use crate::tools::{Brief, Offer, Place, Plan, Reads, Spec, Spill, Tool, Work, number, text};

/// Longest file that is read or compared, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Entries of a directory that are listed.
const ENTRIES_MAX: usize = 1_000;
/// Names that are suggested if a file is missing.
const NAMES_MAX: usize = 8;

/// Returns the model's error for an unusable path.
pub(in crate::tools) fn path_error(path: &str, error: &PathError) -> ToolError {
    let (code, hint) = match error {
        PathError::Outside | PathError::Tilde => ("outside", "only paths inside the workspace can be used"),
        PathError::Missing => ("not-found", "file_list shows what is there"),
        PathError::Directory => ("is-directory", "file_list lists a directory"),
        PathError::NotDirectory => ("not-directory", "file_list shows what is there"),
        PathError::Changed => ("changed", "read the file again, then propose the change again"),
        PathError::Long(_) => ("too-long", ""),
        _ => ("path", ""),
    };
    ToolError::new(code, format!("{path}: {error}"), hint)
}

/// Returns the model's error for a missing path, with the names that are there instead.
pub(in crate::tools) fn missing(path: &str, tree: &dyn Tree) -> ToolError {
    let error = path_error(path, &PathError::Missing);
    let (directory, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or((".", path));
    let directory = if directory.is_empty() { "/" } else { directory };
    let Ok(mut entries) = tree.list(directory) else {
        let message = format!("{}, nor a directory {directory}", error.message);
        return ToolError { message, ..error };
    };
    let alike = |it: &DirEntry| {
        let same = |(a, b): &(char, char)| a.eq_ignore_ascii_case(b);
        let start = name.chars().zip(it.name.chars()).take_while(same).count();
        let end = name.chars().rev().zip(it.name.chars().rev()).take_while(same).count();
        std::cmp::Reverse(start + end)
    };
    entries.sort_by_key(alike);
    let names: Vec<String> = entries.iter().take(NAMES_MAX).map(|it| it.name.escape_debug().to_string()).collect();
    let more = if entries.len() > NAMES_MAX { ", …" } else { "" };
    let place = if directory == "." { "the workspace" } else { directory };
    let hint = match &names[..] {
        [] => format!("{place} is empty"),
        names => format!("in {place} there is {}{more}", names.join(", ")),
    };
    ToolError { hint, ..error }
}

/// Returns the schema of a path; `what` is needed only if the argument's name doesn't explain it.
pub(in crate::tools) fn path_schema(what: &str) -> Value {
    let mut schema = json!({"type": "string", "minLength": 1});
    if !what.is_empty() {
        schema["description"] = what.into();
    }
    schema
}

/// `file_list`.
pub(in crate::tools) struct List;

impl Tool for List {
    fn spec(&self) -> Spec {
        let description = "Lists a directory: directories first, each with a slash, then files with their sizes.";
        Spec {
            name: "file_list".into(),
            aliases: &["list_root"],
            description: description.into(),
            schema: json!({
                "type": "object",
                "properties": {"path": path_schema("the workspace where absent")},
                "additionalProperties": false,
            }),
        }
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::List { path: directory(arguments).to_owned() }))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let path = directory(permit.arguments());
        let entries = match work.place.tree.list(path) {
            Ok(entries) => entries,
            Err(error) => return path_error(path, &error).into(),
        };
        let (entries, ignored) = not_ignored(entries, path, work.place.tree);
        let line = |it: &DirEntry| match it.kind {
            EntryKind::Directory => format!("{}/", it.name),
            EntryKind::File => format!("{}  {} bytes", it.name, it.bytes),
            EntryKind::Link => format!("{}  link", it.name),
            EntryKind::Other => format!("{}  neither file nor directory", it.name),
        };
        let mut lines: Vec<String> = entries.iter().take(ENTRIES_MAX).map(line).collect();
        if entries.len() > ENTRIES_MAX {
            lines.push(format!("[{} more]", entries.len() - ENTRIES_MAX));
        }
        if entries.is_empty() && ignored.is_empty() {
            lines.push("[it is empty]".to_owned());
        }
        if !ignored.is_empty() {
            let names = ignored.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = if ignored.len() > NAMES_MAX { ", …" } else { "" };
            lines.push(format!("[{} ignored: {names}{more}]", ignored.len()));
        }
        let entries: Vec<Value> = entries.iter().take(ENTRIES_MAX).map(entry_of).collect();
        Outcome::of(lines.join("\n")).with("entries", entries).with("ignored", ignored.len())
    }
}

/// Returns an entry as structured data.
fn entry_of(entry: &DirEntry) -> Value {
    let kind = match entry.kind {
        EntryKind::Directory => "directory",
        EntryKind::File => "file",
        EntryKind::Link => "link",
        EntryKind::Other => "other",
    };
    let size = (entry.kind == EntryKind::File).then_some(entry.bytes);
    json!({"name": entry.name, "type": kind, "size": size})
}

/// The entries that no ignore file names, and the names of the others; git's own directory is one of those.
fn not_ignored(entries: Vec<DirEntry>, path: &str, tree: &dyn Tree) -> (Vec<DirEntry>, Vec<String>) {
    let names = tree.look(path).ok().and_then(|(below, _)| tree.unignored(&below));
    let Some(names) = names else { return (entries, Vec::new()) };
    let (shown, ignored): (Vec<DirEntry>, Vec<DirEntry>) = entries.into_iter().partition(|it| names.contains(&it.name));
    (shown, ignored.into_iter().map(|it| it.name).collect())
}

fn directory(arguments: &Value) -> &str {
    match text(arguments, "path") {
        "" => ".",
        path => path,
    }
}

/// `file_read`.
pub(in crate::tools) struct Read(pub(in crate::tools) Reads);

impl Tool for Read {
    fn spec(&self) -> Spec {
        let description = "Reads a text file, or some of its lines.";
        Spec {
            name: "file_read".into(),
            aliases: &["read_file"],
            description: description.into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": path_schema(""),
                    "start_line": {"type": "integer", "minimum": 1},
                    "end_line": {"type": "integer", "minimum": 1},
                    // Another form of the same: "10-40", or {"start": 10, "end": 40}.
                    "range": {"type": ["string", "object"], "deprecated": true},
                },
                "required": ["path"],
                "additionalProperties": false,
            }),
        }
    }

    fn brief(&self) -> Option<Brief> {
        Some(Brief { description: "Reads a text file.", arguments: &["path"] })
    }

    fn offer(&self) -> Offer {
        Offer::Core
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let path = text(arguments, "path").to_owned();
        let (from, to) = range(arguments)?;
        let intent = match (from, to) {
            (1, None) => format!("Reading `{path}`"),
            (from, None) => format!("Reading `{path}` from line {from}"),
            (from, Some(to)) if from == to => format!("Reading `{path}`, line {from}"),
            (from, Some(to)) => format!("Reading `{path}`, lines {from} to {to}"),
        };
        let is_output = Spill::is_name(&path);
        let action = if is_output { Action::Inert { name: "file_read".into() } } else { Action::Read { path } };
        Ok(Plan::of(action).saying(intent))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let path = text(permit.arguments(), "path");
        let lines = range(permit.arguments()).and_then(|range| {
            if !Spill::is_name(path) {
                return read_lines(path, range, work.place, &self.0);
            }
            let missing = || ToolError::new("not-found", format!("there is no {path}"), "");
            lines_of(path, &work.place.spill.read(path).ok_or_else(missing)?, range)
        });
        lines.unwrap_or_else(Into::into)
    }
}

/// The first line that is wanted, and the last one if that isn't the end.
fn range(arguments: &Value) -> Result<(usize, Option<usize>), ToolError> {
    let (start, end) = (number(arguments, "start_line"), number(arguments, "end_line"));
    if let Some(Value::Object(range)) = arguments.get("range") {
        let line = |name: &str| match range.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .filter(|line| *line > 0)
                .and_then(|line| usize::try_from(line).ok())
                .map(Some)
                .ok_or_else(|| {
                    ToolError::new("bad-range", format!("{name} is no line"), "such as {\"start\": 10, \"end\": 40}")
                }),
        };
        return Ok((line("start")?.unwrap_or(1), line("end")?));
    }
    let range = text(arguments, "range");
    if range.is_empty() {
        return Ok((start.unwrap_or(1), end));
    }
    if start.is_some() || end.is_some() {
        return Err(ToolError::new("bad-range", "there are a range and lines beside it", "give one of them"));
    }
    let line = |text: &str| {
        let wrong = || ToolError::new("bad-range", format!("{range} is no range of lines"), "such as 10-40");
        text.parse().ok().filter(|line| *line > 0).ok_or_else(wrong)
    };
    Ok(match range.split_once('-') {
        Some((from, "")) => (line(from)?, None),
        Some((from, to)) => (line(from)?, Some(line(to)?)),
        None => (line(range)?, Some(line(range)?)),
    })
}

fn lines_of(path: &str, content: &str, (from, to): (usize, Option<usize>)) -> Result<Outcome, ToolError> {
    let total = content.lines().count();
    let last = to.unwrap_or(total).min(total);
    if from > last && total > 0 {
        let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
        let message = format!("{path} has {total} lines; {from}{to} is no range of them");
        return Err(ToolError::new("bad-range", message, ""));
    }
    let lines = content.split_inclusive('\n').skip(from - 1).take((last + 1).saturating_sub(from));
    let outcome = Outcome::of(lines.collect::<String>()).with("path", path);
    Ok(outcome.with("startLine", from).with("endLine", last).with("lines", total))
}

fn read_lines(
    path: &str,
    range: (usize, Option<usize>),
    place: Place<'_>,
    reads: &Reads,
) -> Result<Outcome, ToolError> {
    let content = place.tree.read(path, FILE_BYTES_MAX).map_err(|error| match error {
        PathError::Missing => missing(path, place.tree),
        error => path_error(path, &error),
    })?;
    let text = readable(path, &content.bytes)?;
    let outcome = lines_of(path, &text, range)?;
    if let Ok(found) = place.tree.resolve(path) {
        reads.note(found, &content.bytes);
    }
    Ok(match text {
        Cow::Borrowed(_) => outcome,
        Cow::Owned(_) => outcome.with("encoding", "not UTF-8: other bytes are shown as \\xNN"),
    })
}

/// Returns a file's text; in another encoding it stays editable, with `\xNN` for bytes that aren't UTF-8. A content with a NUL
/// isn't text.
fn readable<'c>(path: &str, content: &'c [u8]) -> Result<Cow<'c, str>, ToolError> {
    let hint = match content {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it looks like UTF-16: iconv -f UTF-16 -t UTF-8 in the shell shows it",
        _ if is_binary(content) => "the shell has file, strings and od for it",
        _ => return Ok(shown(content)),
    };
    Err(ToolError::new("not-text", format!("{path} is no text ({} bytes)", content.len()), hint))
}

/// `read_readme`.
pub(in crate::tools) struct Readme(pub(in crate::tools) Reads);

/// Ends of a readme's name, the likelier ones first.
const README_ENDS: [&str; 8] = ["md", "markdown", "rst", "adoc", "org", "txt", "", "html"];

impl Tool for Readme {
    fn spec(&self) -> Spec {
        Spec {
            name: "read_readme".into(),
            aliases: &[],
            description: "Reads the readme of the workspace, whatever its name ends with.".into(),
            schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }
    }

    fn offer(&self) -> Offer {
        Offer::Extra
    }

    fn plan(&self, _: &Value, place: Place<'_>) -> Result<Plan, ToolError> {
        let entries = place.tree.list(".").map_err(|error| path_error(".", &error))?;
        let readmes = entries.into_iter().filter(|entry| entry.kind != EntryKind::Directory).filter_map(|entry| {
            let name = entry.name.to_ascii_lowercase();
            let end = name.strip_prefix("readme")?;
            let end = if end.is_empty() { end } else { end.strip_prefix('.')? };
            Some((README_ENDS.iter().position(|known| *known == end)?, entry.name))
        });
        let path = readmes.min().map(|(_, name)| name);
        let missing = || ToolError::new("not-found", "the workspace has no readme", "file_list shows what is there");
        Ok(Plan::of(Action::Read { path: path.ok_or_else(missing)? }))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let Action::Read { path } = permit.action() else {
            return ToolError::new("internal", "it has no path", "").into();
        };
        read_lines(path, (1, None), work.place, &self.0).unwrap_or_else(Into::into)
    }
}
