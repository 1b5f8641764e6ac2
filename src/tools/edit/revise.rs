//! A person's revision of a proposal: some of its hunks, or another text. The call stays with its tool, and its arguments then
//! name the content of each file; a model can't do that, since no schema has this argument. Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::draft::basis;
use super::text as bytes;
use crate::proto::tool::FileChange;
use crate::render::diff::{self, unified};

/// The argument that holds it.
const REVISED: &str = "revised";
/// Bytes of a difference that the model gets.
const TOLD_BYTES_MAX: usize = 8 * 1024;

/// Returns the arguments with these file contents in place of the results of the model's edits. A content is a text of characters
/// up to U+00FF, one for each byte, since it may be in any encoding.
pub(super) fn arguments(arguments: &Value, files: &[FileChange]) -> Value {
    let file = |FileChange { path, old, new }: &FileChange| {
        let content = new.as_ref().map(|bytes| bytes.iter().map(|byte| char::from(*byte)).collect::<String>());
        json!({"path": path, "bytes": content, "basis": basis(old.as_deref())})
    };
    let mut arguments = arguments.clone();
    if let Some(fields) = arguments.as_object_mut() {
        fields.insert(REVISED.to_owned(), files.iter().map(file).collect());
    }
    arguments
}

/// A file's revised content, and the content that it was made from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Revised {
    pub(super) path: String,
    pub(super) content: Option<Vec<u8>>,
    pub(super) basis: String,
}

/// Returns the revised contents, if the arguments have them.
pub(super) fn files(arguments: &Value) -> Option<Vec<Revised>> {
    let file = |file: &Value| {
        let content = file["bytes"].as_str().map(|text| text.chars().map(|c| u8::try_from(c).ok()).collect());
        let text = |name: &str| file[name].as_str().map(str::to_owned);
        Some(Revised { path: text("path")?, content: content.unwrap_or_default(), basis: text("basis")? })
    };
    arguments.get(REVISED)?.as_array()?.iter().map(file).collect()
}

/// Returns the proposal with only the wanted hunks, by file, and a note about it for the model. A file that is new, deleted or
/// not text is one hunk.
#[must_use]
pub fn chosen(changes: &[FileChange], wanted: &[Vec<bool>]) -> (Vec<FileChange>, String) {
    let (mut files, mut note) = (Vec::new(), String::new());
    let (mut accepted, mut total) = (0, 0);
    for (number, change) in changes.iter().enumerate() {
        let wanted = wanted.get(number).map(Vec::as_slice).unwrap_or_default();
        let count = hunks(change);
        let is_taken = |hunk: &usize| wanted.get(*hunk).copied().unwrap_or(false);
        let numbers = |is_wanted: bool| -> Vec<String> {
            (0..count).filter(|hunk| is_taken(hunk) == is_wanted).map(|hunk| (hunk + 1).to_string()).collect()
        };
        let (with, without) = (numbers(true), numbers(false));
        (accepted, total) = (accepted + with.len(), total + count);
        let words = |numbers: &[String]| if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
        let _ = writeln!(note, "{}: made: {}; not made: {}", change.path, words(&with), words(&without));
        let new = match (&change.old, &change.new) {
            _ if without.is_empty() => change.new.clone(),
            (Some(old), Some(new)) if !with.is_empty() => Some(diff::partly(old, new, wanted)),
            _ => continue,
        };
        files.push(FileChange { new, ..change.clone() });
    }
    (files, format!("The user took {accepted} of {total} hunks (by number, in each file):\n{note}"))
}

/// Number of hunks that a person can take of a file.
fn hunks(change: &FileChange) -> usize {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) if !bytes::is_binary(old) && !bytes::is_binary(new) => {
            diff::hunks(&diff::diff_bytes(old, new)).len()
        }
        _ => 1,
    }
}

/// Describes the person's revision for its model: the difference from the proposal to the result; empty if
/// that is the same.
#[must_use]
pub fn changed_by_person(proposed: &[FileChange], done: &[FileChange]) -> String {
    let mut report = String::new();
    for change in proposed {
        let made = match done.iter().find(|it| it.path == change.path) {
            Some(made) => &made.new,
            None => &change.old,
        };
        if *made == change.new {
            continue;
        }
        let text = |content: &Option<Vec<u8>>| content.as_deref().map(|it| bytes::shown(it).into_owned());
        match (text(&change.new), text(made)) {
            (proposed, Some(made)) => report.push_str(&unified(&change.path, proposed.as_deref(), &made)),
            (_, None) => {
                let _ = writeln!(report, "{} is not there", change.path);
            }
        }
    }
    if report.len() > TOLD_BYTES_MAX {
        report.truncate(report.floor_char_boundary(TOLD_BYTES_MAX));
        report.push_str("\n[the rest is left out here]\n");
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> FileChange {
        FileChange { path: path.into(), old: old.map(<[u8]>::to_vec), new: new.map(<[u8]>::to_vec) }
    }

    #[test]
    fn file_contents_round_trip_exactly_through_the_arguments() {
        let all: Vec<u8> = (0..=255).collect();
        let written = arguments(&json!({"path": "a"}), &[change("a", None, Some(&all)), change("a", Some(b"x"), None)]);
        assert_eq!(written["path"], "a");
        let read = files(&written).expect("files");
        assert_eq!((read[0].content.as_deref(), read[1].content.as_deref()), (Some(&all[..]), None));
        assert_eq!((read[0].basis.clone(), read[1].basis.clone()), (basis(None), basis(Some(b"x"))));
        assert_eq!(files(&json!({"path": "a"})), None);
    }

    #[test]
    fn some_hunks_are_made_and_the_model_hears_which() {
        let old = b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n\xff\r\n";
        let new = b"one\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\nten\r\n";
        let changes =
            [change("a", Some(old), Some(new)), change("b", None, Some(b"new\n")), change("c", Some(b"x\0"), None)];
        let (files, note) = chosen(&changes, &[vec![false, true], vec![true], vec![false]]);
        let half = b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\nten\r\n";
        assert_eq!(files, [change("a", Some(old), Some(half)), change("b", None, Some(b"new\n"))]);
        let lines = "a: made: 2; not made: 1\nb: made: 1; not made: none\nc: made: none; not made: 1\n";
        assert_eq!(note, format!("The user took 2 of 4 hunks (by number, in each file):\n{lines}"));
        assert_eq!(chosen(&changes, &[vec![true; 2], vec![true], vec![true]]).0, changes);
        assert_eq!(chosen(&changes, &[]).0, []);
        let left_out = changed_by_person(&changes[..1], &files[..1]);
        assert!(left_out.contains("-one\r\n+1\r\n") && !left_out.contains("ten\r\n-"), "{left_out}");
        assert_eq!(changed_by_person(&changes, &changes), "");
        assert_eq!(changed_by_person(&changes[1..2], &[]), "b is not there\n");
    }
}
