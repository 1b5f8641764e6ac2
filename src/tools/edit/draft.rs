//! Files as a sequence of edits would leave them, each edit made on the result of the previous ones. Nothing is written; a draft
//! returns the differences, and identifies the contents that it was made from.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::{Reads, number, text};
use super::Kind;
use super::revise::Revised;
use super::text as bytes;
use crate::base::hash::sha256_hex;
use crate::files::{Change, PathError, Tree};
use crate::proto::tool::{FileChange, ToolError};
use crate::render::diff::unified;
use crate::render::patch::all_crlf;
use crate::tools::reading::files::{missing, path_error};

/// Longest file that is edited, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of all files of a batch.
const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Files of a batch: as many as the policy lists effects for.
const FILES_MAX: usize = 200;

/// The result of edits before they are applied.
#[derive(Default)]
pub(super) struct Draft {
    files: Vec<Edited>,
    edits: usize,
}

struct Edited {
    path: String,
    /// Its real place, independent of the name that was used.
    place: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl Draft {
    /// Makes one more edit.
    pub(super) fn edit(
        &mut self,
        kind: Kind,
        arguments: &Value,
        tree: &dyn Tree,
        reads: &Reads,
    ) -> Result<(), ToolError> {
        let path = text(arguments, "path");
        let at = self.file(path, tree)?;
        if let Edited { place, old: Some(old), .. } = &self.files[at]
            && reads.differ(place, old)
        {
            let message = format!("{path} has changed since it was read: {} lines now", bytes::lines_of(old));
            let hint = format!("file_read {path}, then propose the change again");
            return Err(ToolError::new("changed", message, hint));
        }
        let now = self.files[at].new.as_deref();
        let there = now.ok_or_else(|| missing(path, tree));
        let next = match kind {
            Kind::Replace => {
                let expected = number(arguments, "expected_occurrences").unwrap_or(1);
                Some(bytes::replaced(path, there?, text(arguments, "old"), text(arguments, "new"), expected)?)
            }
            Kind::Insert => {
                let line = number(arguments, "line").unwrap_or(0);
                Some(bytes::inserted(path, there?, line, text(arguments, "content"))?)
            }
            Kind::Create => {
                let overwrites = arguments.get("overwrite").and_then(Value::as_bool).unwrap_or(false);
                if let (Some(now), false) = (now, overwrites) {
                    let lines = bytes::lines_of(now);
                    let message = format!("{path} is there already: {} bytes, {lines} lines", now.len());
                    let hint = format!("file_read {path}, then edit_replace_exact, or say overwrite: true");
                    return Err(ToolError::new("exists", message, hint));
                }
                self.may_be_file(at)?;
                Some(bytes::whole(now, text(arguments, "content")))
            }
            Kind::Write => {
                self.may_be_file(at)?;
                Some(text(arguments, "content").as_bytes().to_vec())
            }
            Kind::Delete => {
                there?;
                self.may_be_gone(at, path, tree)?;
                None
            }
        };
        if next.as_deref() == now {
            let message = format!("{path} would be what it is already");
            return Err(ToolError::new("no-change", message, "leave this edit out"));
        }
        self.hold(at, next)
    }

    /// Gives a file its exact new content.
    pub(super) fn put(
        &mut self,
        Revised { path, content, basis: made_from }: Revised,
        tree: &dyn Tree,
    ) -> Result<(), ToolError> {
        let at = self.file(&path, tree)?;
        // A person's revision must not undo changes that were made since the proposal.
        if basis(self.files[at].old.as_deref()) != made_from {
            return Err(path_error(&path, &PathError::Changed));
        }
        if content.is_some() {
            self.may_be_file(at)?;
        }
        self.hold(at, content)
    }

    fn hold(&mut self, at: usize, content: Option<Vec<u8>>) -> Result<(), ToolError> {
        self.files[at].new = content;
        self.edits += 1;
        let held: usize = self.files.iter().map(|file| file.new.as_ref().map_or(0, Vec::len)).sum();
        if held > ALL_BYTES_MAX {
            return Err(ToolError::new("too-long", format!("the files exceed {ALL_BYTES_MAX} bytes in total"), ""));
        }
        Ok(())
    }

    /// The number of a file, read with its first edit.
    fn file(&mut self, path: &str, tree: &dyn Tree) -> Result<usize, ToolError> {
        if path.chars().any(char::is_control) {
            return Err(ToolError::new("path", "the path holds a control character", ""));
        }
        let place = tree.resolve(path).map_err(|error| path_error(path, &error))?;
        if let Some(at) = self.files.iter().position(|file| file.place == place) {
            return Ok(at);
        }
        if self.files.len() == FILES_MAX {
            let message = format!("these are more than {FILES_MAX} files");
            return Err(ToolError::new("too-many", message, "make several batches of it"));
        }
        let old = match tree.read(path, FILE_BYTES_MAX) {
            Ok(old) => Some(old.bytes),
            Err(PathError::Missing) => None,
            Err(error) => return Err(path_error(path, &error)),
        };
        self.files.push(Edited { path: path.to_owned(), place, new: old.clone(), old });
        Ok(self.files.len() - 1)
    }

    /// Returns whether a new file has no file above or below it that an edit before has made.
    fn may_be_file(&self, at: usize) -> Result<(), ToolError> {
        let Edited { path, place, .. } = &self.files[at];
        let others = || self.files.iter().filter(|it| it.new.is_some() && it.place != *place);
        if others().any(|other| place.starts_with(&other.place)) {
            return Err(path_error(path, &PathError::NotDirectory));
        }
        if others().any(|other| other.place.starts_with(place)) {
            return Err(path_error(path, &PathError::Directory));
        }
        Ok(())
    }

    /// Returns whether the path names the file itself. By a link it is another file that would go, and the link that
    /// would stay.
    fn may_be_gone(&self, at: usize, path: &str, tree: &dyn Tree) -> Result<(), ToolError> {
        let relative = tree.beneath(path).map_err(|error| path_error(path, &error))?;
        let parent = relative.parent().and_then(Path::to_str).filter(|it| !it.is_empty());
        let directory = parent.map_or(Ok(PathBuf::new()), |it| tree.resolve(it));
        let directory = directory.map_err(|error| path_error(path, &error))?;
        let place = &self.files[at].place;
        if relative.file_name().is_some_and(|name| directory.join(name) == *place) {
            return Ok(());
        }
        let file = place.display();
        let message = format!("{path} is a link to {file}: that file would go, and the link would stay");
        Err(ToolError::new("is-link", message, format!("delete {file} itself, or the link alone with rm")))
    }

    fn changed(&self) -> impl Iterator<Item = &Edited> {
        self.files.iter().filter(|file| file.old != file.new)
    }

    /// Records the new contents as what the model has read.
    pub(super) fn note(&self, reads: &Reads) {
        self.changed().for_each(|file| reads.edited(&file.place, file.new.as_deref()));
    }

    /// Returns the changes to be written.
    pub(super) fn changes(&self) -> Vec<Change<'_>> {
        self.changed()
            .map(|Edited { path, old, new, .. }| Change { path, old: old.as_deref(), new: new.as_deref() })
            .collect()
    }

    /// Returns the same changes in the form that the user interface draws.
    pub(super) fn file_changes(&self) -> Arc<[FileChange]> {
        let change = |Edited { path, old, new, .. }: &Edited| FileChange {
            path: path.clone(),
            old: old.clone(),
            new: new.clone(),
        };
        self.changed().map(change).collect()
    }

    /// Returns the difference, by file.
    pub(super) fn difference(&self) -> Difference {
        let mut whole = Difference { edits: self.edits, ..Difference::default() };
        let mut rows = String::new();
        for file in self.changed() {
            let (old, new) = (file.old.as_deref(), file.new.as_deref());
            let (diff, added, removed) = file.difference();
            let what = match (old, new) {
                (None, _) => "new, ",
                (_, None) => "deleted, ",
                _ => "",
            };
            let endings = if file.is_crlf() { ", lines end with CR LF" } else { "" };
            let _ = writeln!(rows, "  {}: {what}{added} added, {removed} removed{endings}", file.path);
            let _ = writeln!(whole.basis, "# {}: {}", file.path, basis(old));
            whole.files += 1;
            whole.added += added;
            whole.removed += removed;
            whole.diff.push_str(&diff);
            whole.by_file.insert(file.path.clone(), diff.into());
        }
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (files, added) = (counted(whole.files, "file"), counted(whole.added, "line"));
        whole.summary = format!("{files}, {added} added, {} removed\n{rows}", whole.removed);
        whole
    }
}

impl Edited {
    fn is_crlf(&self) -> bool {
        let states: Vec<bool> = [&self.old, &self.new].into_iter().flatten().filter_map(|it| all_crlf(it)).collect();
        !states.is_empty() && !states.contains(&false)
    }

    /// Returns the difference in unified form, and the numbers of added and removed lines.
    fn difference(&self) -> (String, usize, usize) {
        let Self { path, old, new, .. } = self;
        if [old, new].into_iter().flatten().any(|it| bytes::is_binary(it)) {
            let size =
                |it: &Option<Vec<u8>>| it.as_ref().map_or("nothing".to_owned(), |it| format!("{} bytes", it.len()));
            return (format!("Binary file {path}: from {} to {}\n", size(old), size(new)), 0, 0);
        }
        let shown = |it: &[u8]| {
            let text = bytes::shown(it);
            if self.is_crlf() { text.replace("\r\n", "\n") } else { text.into_owned() }
        };
        let (before, after) = (old.as_deref().map(shown), new.as_deref().map(shown));
        let mut diff = unified(path, before.as_deref(), after.as_deref().unwrap_or_default());
        if after.is_none() {
            diff = diff.replacen(&format!("\n+++ {path}\n"), "\n+++ /dev/null\n", 1);
        }
        // Its first two lines are its head.
        let count = |mark: char| diff.split('\n').skip(2).filter(|line| line.starts_with(mark)).count();
        let (added, removed) = (count('+'), count('-'));
        (diff, added, removed)
    }
}

/// The difference between the present files and the proposed ones.
#[derive(Default)]
pub(super) struct Difference {
    /// The unified form, file by file.
    pub(super) diff: String,
    /// The same, for each file.
    pub(super) by_file: Map<String, Value>,
    /// Files and lines, in words: one line, and one for each file.
    pub(super) summary: String,
    /// The content that it was made from.
    basis: String,
    files: usize,
    edits: usize,
    added: usize,
    removed: usize,
}

impl Difference {
    /// Returns the text for a person; it includes the basis, so that the same text means the same change.
    pub(super) fn preview(&self) -> String {
        format!("{}{}{}", self.basis, self.summary, self.diff)
    }

    /// Its numbers.
    pub(super) fn stats(&self) -> Value {
        json!({"files": self.files, "edits": self.edits, "linesAdded": self.added, "linesRemoved": self.removed})
    }
}

/// Returns the identity of the content that a difference was made from.
pub(super) fn basis(old: Option<&[u8]>) -> String {
    match old {
        Some(old) => format!("{} bytes, SHA-256 {}", old.len(), sha256_hex(old)),
        None => "a new file".to_owned(),
    }
}
