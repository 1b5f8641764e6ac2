//! Messages of the Agent Client Protocol, version 1 (<https://agentclientprotocol.com/protocol/v1/schema>), as far as they are
//! used here: what a client sends, leniently, and how updates look. The names here are the protocol's, not ours.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

/// The version that is spoken, whichever one a client offers.
pub(super) const VERSION: u64 = 1;

/// The client's optional abilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Returns the text of files as they are in its buffers.
    pub(super) reads_files: bool,
    /// Shows short notices.
    pub(super) has_notices: bool,
    /// Shows forms.
    pub(super) has_forms: bool,
    /// Can start us in a terminal.
    pub(super) has_terminal: bool,
}

impl Abilities {
    /// Reads `clientCapabilities`; unknown values count as absent.
    pub(super) fn of(capabilities: &Value) -> Self {
        let is_there = |place: &str| capabilities.pointer(place).is_some_and(|it| !it.is_null() && *it != json!(false));
        Self {
            reads_files: is_there("/fs/readTextFile"),
            has_notices: is_there("/session/notices"),
            has_forms: is_there("/elicitation/form"),
            has_terminal: is_there("/auth/terminal"),
        }
    }
}

/// `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize {
    #[serde(default)]
    pub(super) client_capabilities: Value,
    #[serde(default)]
    pub(super) client_info: Value,
}

/// `session/new`, and with an id `session/load` and `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Open {
    pub(super) session_id: Option<String>,
    pub(super) cwd: PathBuf,
    /// Further directories that belong to the project.
    #[serde(default)]
    pub(super) additional_directories: Vec<PathBuf>,
    #[serde(default)]
    pub(super) mcp_servers: Vec<Value>,
}

/// A message that only names a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfSession {
    pub(super) session_id: String,
}

/// `session/list`.
#[derive(Debug, Deserialize)]
pub(super) struct List {
    pub(super) cwd: Option<PathBuf>,
    pub(super) cursor: Option<String>,
}

/// `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt {
    pub(super) session_id: String,
    pub(super) prompt: Vec<Block>,
}

/// `session/set_mode`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetMode {
    pub(super) session_id: String,
    pub(super) mode_id: String,
}

/// `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetOption {
    pub(super) session_id: String,
    pub(super) config_id: String,
    pub(super) value: Value,
}

/// `$/cancel_request`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelRequest {
    pub(super) request_id: Value,
}

/// A piece of a prompt.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Image {
        data: String,
        #[serde(default)]
        uri: Option<String>,
    },
    Audio {},
    ResourceLink {
        uri: String,
        #[serde(default)]
        name: String,
    },
    Resource {
        resource: Resource,
    },
}

/// A resource whose contents the client sends.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) uri: String,
    pub(super) text: Option<String>,
}

/// The speaker of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    User,
    Agent,
    Thought,
}

/// A piece of a message.
pub(super) fn chunk(voice: Voice, message: &str, text: &str) -> Value {
    let kind = match voice {
        Voice::User => "user_message_chunk",
        Voice::Agent => "agent_message_chunk",
        Voice::Thought => "agent_thought_chunk",
    };
    json!({"sessionUpdate": kind, "messageId": message, "content": text_block(text)})
}

/// The tasks of a run as the client's plan; the client replaces the plan that it shows.
pub(super) fn plan(tasks: &[(String, &'static str)]) -> Value {
    let entry =
        |(content, status): &(String, &str)| json!({"content": content, "priority": "medium", "status": status});
    json!({"sessionUpdate": "plan", "entries": tasks.iter().map(entry).collect::<Vec<_>>()})
}

/// A text as a block of content.
pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A text as content of a tool call.
pub(super) fn call_text(text: &str) -> Value {
    json!({"type": "content", "content": text_block(text)})
}

/// A command of a session.
pub(super) fn command(name: &str, description: &str, hint: &str) -> Value {
    let mut command = json!({"name": name, "description": description});
    if !hint.is_empty() {
        command["input"] = json!({"hint": hint});
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_are_read_leniently() {
        let whole = json!({
            "fs": {"readTextFile": true, "writeTextFile": true},
            "session": {"notices": {}},
            "elicitation": {"form": {}},
            "auth": {"terminal": true},
            "something": ["new"],
        });
        let all = Abilities { reads_files: true, has_notices: true, has_forms: true, has_terminal: true };
        assert_eq!(Abilities::of(&whole), all);
        for none in [json!(null), json!({}), json!({"fs": 1, "session": null, "elicitation": {"form": null}})] {
            assert_eq!(Abilities::of(&none), Abilities::default(), "{none}");
        }
    }
}
