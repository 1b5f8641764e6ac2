//! A stored conversation → the updates that show it again.

use std::path::Path;

use serde_json::{Value, json};

use super::calls::{fenced, kind};
use super::wire::{Voice, call_text, chunk};
use crate::proto::action::Action;
use crate::render::sanitise;
use crate::render::text::escape_visible;
use crate::store::{MessageState, StoredCall, StoredTurn};

/// Characters of arguments in a title.
const TITLE_CHARS_MAX: usize = 120;

/// The updates of a conversation, in order.
pub(super) fn updates(turns: &[StoredTurn], workspace: &Path) -> Vec<Value> {
    let mut updates = Vec::new();
    for (number, turn) in (1..).zip(turns) {
        let number: usize = number;
        updates.push(chunk(Voice::User, &format!("stored-{number}-question"), &sanitise(&turn.question)));
        updates.extend(
            turn.calls.iter().enumerate().map(|(at, it)| call(it, &format!("stored-{number}-{at}"), workspace)),
        );
        let mut answer = sanitise(&turn.answer).into_owned();
        if turn.state != MessageState::Complete {
            answer.push_str("\n\n[This answer was cut off.]");
        }
        updates.push(chunk(Voice::Agent, &format!("stored-{number}-answer"), answer.trim_start()));
    }
    updates
}

fn call(stored: &StoredCall, id: &str, workspace: &Path) -> Value {
    let StoredCall { tool, arguments, result, success, .. } = stored;
    let known: Option<Value> = serde_json::from_str(arguments).ok().filter(Value::is_object);
    let text = |name: &str| known.as_ref().and_then(|it| it.get(name)).and_then(Value::as_str);
    let about = text("command").or(text("path")).or(text("url")).unwrap_or_default();
    let title: String = escape_visible(&format!("{tool} {about}")).trim_end().chars().take(TITLE_CHARS_MAX).collect();
    let action = match text("command") {
        Some(command) => Action::Shell { command: command.to_owned() },
        None if tool.starts_with("edit_") || tool == "file_write" => Action::Write { path: about.to_owned() },
        None if tool.starts_with("file_") => Action::Read { path: about.to_owned() },
        None => Action::Inert { name: tool.clone() },
    };
    let mut update = json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "name": escape_visible(tool),
        "kind": kind(tool, &action), "status": if *success { "completed" } else { "failed" },
        "content": [call_text(&fenced(result, ""))],
    });
    if let Some(path) = text("path") {
        update["locations"] = json!([{"path": workspace.join(path).display().to_string()}]);
    }
    if let Some(arguments) = known {
        update["rawInput"] = arguments;
    }
    update
}
