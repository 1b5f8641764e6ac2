//! Lines and conversations written out for other programs (JSON Lines) and for people (Markdown). Reads the store and
//! changes nothing in it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::base::time::utc;
use crate::proto::{Failure, Role};
use crate::store::conversations::conversation::{role_text, state_text};
use crate::store::history::kind_text;
use crate::store::{Row, Search, Store, StoredCall, StoredConversation, StoredMessage};

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    JsonLines,
    /// A text to read.
    Markdown,
}

impl Format {
    /// The format that a file's ending names: `.jsonl` or `.md`.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "jsonl" => Some(Self::JsonLines),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }
}

/// Makes the file of an export: new, and readable by its owner alone.
///
/// # Errors
/// It exists already, or can't be made.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes lines of the history.
///
/// # Errors
/// The error of the sink.
pub fn write_lines(rows: &[Row], format: Format, out: &mut dyn Write) -> io::Result<()> {
    if format == Format::Markdown {
        writeln!(out, "# History\n")?;
    }
    for Row { entry, .. } in rows {
        match format {
            Format::JsonLines => {
                let object = json!({
                    "time": utc(entry.time), "time_ms": entry.time, "line": entry.line, "kind": kind_text(entry.kind),
                    "cwd": entry.cwd, "host": entry.hostname, "session": entry.session, "status": entry.status,
                    "duration_ms": entry.duration_ms,
                });
                writeln!(out, "{object}")?;
            }
            Format::Markdown => {
                let status = entry.status.filter(|status| *status != 0);
                let status = status.map(|status| format!(" (status {status})")).unwrap_or_default();
                writeln!(out, "{}{status}\n\n{}\n", utc(entry.time), fenced(&entry.line))?;
            }
        }
    }
    Ok(())
}

/// Writes all lines of the history, then all conversations, to a new file; returns the number of each.
///
/// # Errors
/// The store can't be read, or the file not written.
pub fn write_all(store: &Store, file: &Path, format: Format) -> Result<(usize, usize), Failure> {
    let rows = store.search(&Search { oldest_first: true, ..Search::default() })?;
    let conversations = store.conversations(usize::MAX)?;
    let cannot = |error: io::Error| {
        Failure::unavailable(format!("{} can't be written: {error}", file.display()))
            .hint("name a new file that ends with .jsonl or .md")
    };
    let mut out = io::BufWriter::new(create(file).map_err(cannot)?);
    write_lines(&rows, format, &mut out).map_err(cannot)?;
    for conversation in conversations.iter().rev() {
        write_conversation(conversation, &store.record(conversation.id)?, format, &mut out).map_err(cannot)?;
    }
    out.flush().map_err(cannot)?;
    Ok((rows.len(), conversations.len()))
}

/// Writes a conversation with all that it ever held.
///
/// # Errors
/// The error of the sink.
pub fn write_conversation(
    conversation: &StoredConversation,
    record: &[StoredMessage],
    format: Format,
    out: &mut dyn Write,
) -> io::Result<()> {
    let StoredConversation { id, started, model, title, parent, turns, .. } = conversation;
    match format {
        Format::JsonLines => {
            let parent = parent.map(|(id, turns)| json!({"conversation": id.0, "turns": turns}));
            let object = json!({
                "type": "conversation", "id": id.0, "started": utc(*started), "started_ms": started, "model": model,
                "title": title, "parent": parent,
            });
            writeln!(out, "{object}")?;
            for StoredMessage { seq, time, message, state, model, rewound, calls } in record {
                for (number, call) in (1..).zip(calls) {
                    writeln!(out, "{}", call_object(id.0, *seq, number, call))?;
                }
                let object = json!({
                    "type": "message", "conversation": id.0, "seq": seq, "time": utc(*time), "time_ms": time,
                    "role": role_text(message.role), "content": message.content, "state": state_text(*state),
                    "model": model, "rewound": rewound,
                });
                writeln!(out, "{object}")?;
            }
        }
        Format::Markdown => {
            let fork = parent.map(|(id, turns)| format!(", forked from {} at turn {turns}", id.0)).unwrap_or_default();
            let turns = if *turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
            writeln!(out, "# {title}\n\nConversation {}, {}, {turns}{fork}\n", id.0, utc(*started))?;
            for StoredMessage { message, state, rewound, calls, .. } in record {
                for call in calls {
                    writeln!(out, "{}\n", call_text(call))?;
                }
                let mark = if *rewound { " (rewound)" } else { "" };
                match message.role {
                    Role::Assistant => {
                        let end =
                            if state_text(*state) == "complete" { "" } else { "\n\n*[the answer broke off here]*" };
                        writeln!(out, "{}{end}\n", message.content.trim_end())?;
                    }
                    _ => writeln!(out, "## Question{mark}\n\n{}\n", quoted(&message.content))?,
                }
            }
        }
    }
    Ok(())
}

/// A call as an object; it precedes the answer that it led to.
fn call_object(conversation: i64, seq: u32, number: u32, call: &StoredCall) -> Value {
    let StoredCall { time, call_id, tool, arguments, result, success, receipt } = call;
    // A truncated text isn't JSON any more, and remains text.
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    json!({
        "type": "tool_call", "conversation": conversation, "message": seq, "seq": number, "time": utc(*time),
        "time_ms": time, "call_id": call_id, "tool": tool, "arguments": value(arguments), "result": value(result),
        "success": success, "receipt": receipt,
    })
}

/// A call as text: the request and the result.
fn call_text(call: &StoredCall) -> String {
    let StoredCall { tool, arguments, result, success, receipt, .. } = call;
    let text = match serde_json::from_str::<Value>(result) {
        Ok(value) => {
            let text = |part: &Value| part.as_str().unwrap_or_default().to_owned();
            let (output, error) = (text(&value["output"]), text(&value["error"]["message"]));
            [error, output].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Err(_) => result.clone(),
    };
    let end = if *success { "" } else { " (not done)" };
    let receipt = receipt.as_ref().map(|id| format!(", {id}")).unwrap_or_default();
    let text = if text.is_empty() { String::new() } else { format!("\n\n{}", fenced(text.trim_end())) };
    format!("### Tool {tool}{end}{receipt}\n\n{}{text}", fenced(arguments))
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// A block of code whose fence is longer than any in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::LineKind;
    use crate::store::{Entry, MessageState, Store};

    #[test]
    fn an_export_holds_everything_and_its_text_breaks_nothing() {
        let mut store = Store::in_memory().unwrap();
        let talk = store.begin_conversation(0, "m");
        for (question, answer, state) in
            [("a\n\"b\"", "# yes\n", MessageState::Complete), ("c", "ha", MessageState::Partial)]
        {
            let mut open = store.ask(talk, 1_000, question, Some("big"));
            if question == "c" {
                let of = |success, result: &str, receipt: Option<&str>| StoredCall {
                    time: 1_000,
                    call_id: "call_1".into(),
                    tool: "file_list".into(),
                    arguments: "{\"path\":\"```\"}".into(),
                    result: result.into(),
                    success,
                    receipt: receipt.map(str::to_owned),
                };
                store.add_call(&open, &of(true, "{\"success\":true,\"output\":\"a.txt\\n\"}", Some("receipt-1")));
                store.add_call(&open, &of(false, "cut {", None));
            }
            store.push_piece(&mut open, answer, 1_000);
            store.finish_message(open, state, 1_000);
        }
        store.rewind(talk, 1).unwrap();
        let (found, record) = (store.conversation(talk).unwrap().unwrap(), store.record(talk).unwrap());
        let written = |format| {
            let mut out = Vec::new();
            write_conversation(&found, &record, format, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let objects: Vec<serde_json::Value> =
            written(Format::JsonLines).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((objects.len(), &objects[0]["title"]), (7, &"a \"b\"".into()));
        assert_eq!((&objects[1]["content"], &objects[2]["model"]), (&"a\n\"b\"".into(), &"big".into()));
        assert_eq!((&objects[6]["state"], &objects[6]["rewound"]), (&"partial".into(), &true.into()));
        assert_eq!((&objects[4]["arguments"]["path"], &objects[4]["receipt"]), (&"```".into(), &"receipt-1".into()));
        assert_eq!((&objects[5]["result"], &objects[5]["success"]), (&"cut {".into(), &false.into()));
        assert_eq!((&objects[5]["message"], &objects[5]["seq"]), (&4.into(), &2.into()));
        assert_eq!(
            written(Format::Markdown),
            "# a \"b\"\n\nConversation 1, 1970-01-01T00:00:00Z, 1 turn\n\n## Question\n\n> a\n> \"b\"\n\n# yes\n\n\
             ## Question (rewound)\n\n> c\n\n### Tool file_list, receipt-1\n\n````\n{\"path\":\"```\"}\n````\n\n\
             ```\na.txt\n```\n\n### Tool file_list (not done)\n\n````\n{\"path\":\"```\"}\n````\n\n\
             ```\ncut {\n```\n\nha\n\n*[the answer broke off here]*\n\n"
        );

        let line = "echo '```'".to_owned();
        store.append(&Entry {
            time: 0,
            session: 1,
            cwd: None,
            hostname: None,
            line: line.clone(),
            kind: LineKind::Command,
            status: Some(2),
            duration_ms: None,
        });
        let rows = store.recent(5).unwrap();
        let mut out = Vec::new();
        write_lines(&rows, Format::Markdown, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, format!("# History\n\n1970-01-01T00:00:00Z (status 2)\n\n````\n{line}\n````\n\n"));
        let mut out = Vec::new();
        write_lines(&rows, Format::JsonLines, &mut out).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&object["line"], &object["status"], &object["kind"]), (&line.into(), &2.into(), &"command".into()));
    }

    #[test]
    fn a_file_that_is_there_is_not_overwritten() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.md");
        let file = create(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
