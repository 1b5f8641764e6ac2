//! Calls of tools as an editor shows them: kind, places, differences, result. Text of a model or a file is made harmless, since
//! a client may be a terminal; a difference stays as it is, for an editor shows it and may take it over.

use std::path::Path;

use serde_json::{Value, json};

use super::wire::call_text;
use crate::proto::action::{Action, Risk};
use crate::proto::tool::{FileChange, Outcome, Planned, Question};
use crate::render::sanitise;
use crate::render::text::{escape_visible, has_hidden};

/// Bytes of a result that an editor is sent; the model may have read more.
const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a file whose difference is sent.
const FILE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Places and differences of one call.
const FILES_MAX: usize = 200;

/// Facts of a result that repeat its text.
const REPEATED: [&str; 4] = ["diff", "diffsByFile", "stdout", "stderr"];

/// The kind of a call, for an icon.
pub(super) fn kind(tool: &str, action: &Action) -> &'static str {
    match action {
        _ if matches!(tool, "search_text" | "find_files" | "symbols" | "memory_search" | "hotfiles") => "search",
        Action::Shell { .. } => "execute",
        Action::Read { .. } | Action::Open { .. } | Action::List { .. } => "read",
        Action::Write { .. } | Action::Edit { .. } | Action::Keep { .. } | Action::Canvas { .. } => "edit",
        Action::Delete { .. } => "delete",
        Action::Http { .. } => "fetch",
        Action::Inert { .. } | Action::External { .. } | Action::Served { .. } => "other",
    }
}

/// The files of a call.
pub(super) fn locations(action: &Action, root: &Path) -> Vec<Value> {
    let paths: Vec<&String> = match action {
        Action::Read { path } | Action::List { path } | Action::Write { path } | Action::Delete { path } => vec![path],
        Action::Open { paths } => paths.iter().collect(),
        Action::Edit { writes, deletes } | Action::Keep { writes, deletes, .. } => {
            writes.iter().chain(deletes).collect()
        }
        _ => Vec::new(),
    };
    paths.into_iter().take(FILES_MAX).map(|path| json!({"path": absolute(path, root)})).collect()
}

fn absolute(path: &str, root: &Path) -> String {
    root.join(path).display().to_string()
}

/// The differences of a proposal, and a warning about changes that they can't show.
pub(super) fn differences(changes: &[FileChange], root: &Path) -> Vec<Value> {
    let mut content: Vec<Value> = changes.iter().take(FILES_MAX).map(|change| difference(change, root)).collect();
    let hides = |change: &&FileChange| {
        let text = change.new.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        text.lines().any(|line| has_hidden(&line.replace('\t', " ")))
    };
    let hidden: Vec<String> = changes.iter().filter(hides).map(|change| escape_visible(&change.path)).collect();
    if !hidden.is_empty() {
        let warning = format!("Careful: invisible characters are in {}.", hidden.join(", "));
        content.push(call_text(&warning));
    }
    if changes.len() > FILES_MAX {
        content.push(call_text(&format!("{} more files are not shown.", changes.len() - FILES_MAX)));
    }
    content
}

fn difference(change: &FileChange, root: &Path) -> Value {
    let path = escape_visible(&change.path);
    let side = |bytes: &Option<Vec<u8>>| match bytes {
        None => Some(None),
        Some(bytes) if bytes.len() > FILE_BYTES_MAX => None,
        Some(bytes) => String::from_utf8(bytes.clone()).ok().map(Some),
    };
    match (side(&change.old), side(&change.new)) {
        (Some(old), Some(new)) => {
            let is_deleted = new.is_none();
            let mut difference = json!({
                "type": "diff", "path": absolute(&change.path, root), "oldText": old,
                "newText": new.unwrap_or_default(),
            });
            if is_deleted {
                difference["_meta"] = json!({"reedclaw/deleted": true});
            }
            difference
        }
        _ => {
            let bytes = |side: &Option<Vec<u8>>| side.as_ref().map_or(0, Vec::len);
            let (old, new) = (bytes(&change.old), bytes(&change.new));
            call_text(&format!("{path}: no text, or too long to show ({old} bytes before, {new} bytes after)"))
        }
    }
}

/// A call that a model wants.
pub(super) fn begun(id: &str, tool: &str, intent: &str, planned: &Planned, root: &Path) -> Value {
    let status = if planned.is_asked { "pending" } else { "in_progress" };
    json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "title": escape_visible(intent), "name": tool,
        "kind": kind(tool, &planned.action), "status": status, "rawInput": planned.arguments,
        "locations": locations(&planned.action, root), "content": differences(&planned.changes, root),
    })
}

/// A call that has ended. A difference that was shown is left in its place.
pub(super) fn ended(id: &str, outcome: &Outcome, has_difference: bool, redact: &dyn Fn(&str) -> String) -> Value {
    let status = if outcome.success { "completed" } else { "failed" };
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status});
    let mut content = Vec::new();
    if let Some(error) = &outcome.error {
        let hint = if error.hint.is_empty() { String::new() } else { format!("\n{}", error.hint) };
        content.push(call_text(&sanitise(&redact(&format!("{}{hint}", error.message)))));
    }
    let shows_difference = has_difference && outcome.success;
    if !outcome.output.is_empty() && !shows_difference {
        content.push(call_text(&fenced(&redact(&outcome.output), "")));
    }
    if !shows_difference {
        update["content"] = content.into();
    }
    let mut facts = outcome.metadata.clone();
    // Their text is already in the content, and may be long.
    REPEATED.iter().for_each(|name| drop(facts.remove(*name)));
    facts.insert("success".into(), outcome.success.into());
    if let Some(receipt) = &outcome.receipt_id {
        facts.insert("receipt_id".into(), receipt.clone().into());
    }
    // Not as raw output, which clients show in the place of the content.
    update["_meta"] = json!({"reedclaw/facts": facts});
    update
}

/// A text in a block of code, sanitised and truncated.
pub(super) fn fenced(text: &str, language: &str) -> String {
    let end = text.floor_char_boundary(RESULT_BYTES_MAX.min(text.len()));
    let rest = if end < text.len() { format!("\n[{} more bytes]", text.len() - end) } else { String::new() };
    let clean = sanitise(&text[..end]).trim_end().to_owned();
    let mut fence = "```".to_owned();
    while clean.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}{language}\n{clean}{rest}\n{fence}")
}

/// The call that a question is about.
pub(super) fn asked(id: &str, question: &Question, (title, arguments): (&str, &Value), root: &Path) -> Value {
    let Question { tool, action, verdict, preview, changes, cwd, program, .. } = question;
    let mut content = differences(changes, root);
    let mut lines = Vec::new();
    let title = match action {
        Action::Shell { command } => {
            let shown: Vec<String> = command.lines().map(escape_visible).collect();
            content.push(call_text(&fenced(&shown.join("\n"), "sh")));
            lines.push(format!("Runs in {}.", escape_visible(cwd)));
            lines.extend(program.as_ref().map(|program| format!("The program is {}.", escape_visible(program))));
            if has_hidden(command) {
                lines.push("Careful: the command has invisible characters; they are shown as escapes.".into());
            }
            format!("Run `{}`", shown.join("; "))
        }
        Action::Keep { command, writes, deletes, directories, .. } => {
            let all = writes.iter().map(|path| (path, "changed")).chain(deletes.iter().map(|path| (path, "removed")));
            let all = all.chain(directories.iter().map(|path| (path, "directory")));
            lines.push("The command has run on a copy. A yes applies its changes here:".into());
            lines.extend(all.take(FILES_MAX).map(|(path, how)| format!("- {} ({how})", escape_visible(path))));
            // Modes, targets of links and sizes, which no difference shows.
            lines.extend(question.change_rows().take(FILES_MAX).map(|row| format!("  {}", escape_visible(row))));
            format!("Keep what `{}` changed", escape_visible(command))
        }
        _ => {
            if changes.is_empty() && !preview.is_empty() {
                content.push(call_text(&fenced(preview, "")));
            }
            escape_visible(if title.is_empty() { tool } else { title })
        }
    };
    lines.push(format!("Why you are asked ({}):", verdict.risk.word()));
    let weightiest = verdict.reasons.iter().filter(|reason| reason.risk == verdict.risk || reason.risk > Risk::Low);
    lines.extend(weightiest.map(|reason| format!("- {}", escape_visible(&reason.text))));
    lines.extend(verdict.needs.iter().map(|need| format!("- {}", escape_visible(&need.to_string()))));
    content.push(call_text(&lines.join("\n")));
    let mut call = json!({
        "toolCallId": id, "title": title, "kind": kind(tool, action), "status": "pending",
        "content": content, "locations": locations(action, root),
    });
    if !arguments.is_null() {
        call["rawInput"] = arguments.clone();
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_can_neither_leave_its_block_nor_speak_to_a_terminal() {
        let text = fenced("a\u{1b}[2Jb\n```\nout", "");
        assert_eq!(text, "````\nab\n```\nout\n````");
        let long = "x".repeat(RESULT_BYTES_MAX + 5);
        assert!(fenced(&long, "").ends_with("\n[5 more bytes]\n```"));
    }

    #[test]
    fn a_difference_is_exact_and_tells_of_what_cannot_be_seen() {
        let root = Path::new("/w");
        let change = |path: &str, old: Option<&str>, new: Option<&[u8]>| FileChange {
            path: path.into(),
            old: old.map(|text| text.as_bytes().to_vec()),
            new: new.map(<[u8]>::to_vec),
        };
        let content = differences(
            &[
                change("a.txt", Some("one\r\n"), Some(b"two\r\n")),
                change("new.txt", None, Some("a\u{202e}b".as_bytes())),
                change("gone.txt", Some("x"), None),
                change("bin", None, Some(&[0xff])),
            ],
            root,
        );
        assert_eq!(content[0], json!({"type": "diff", "path": "/w/a.txt", "oldText": "one\r\n", "newText": "two\r\n"}));
        assert_eq!((&content[1]["oldText"], &content[2]["newText"]), (&Value::Null, &json!("")));
        assert_eq!(content[3]["content"]["text"], "bin: no text, or too long to show (0 bytes before, 1 bytes after)");
        assert_eq!(content[4]["content"]["text"], "Careful: invisible characters are in new.txt.");
    }
}
