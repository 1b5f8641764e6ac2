//! The servers of tools that a client brings: its person is asked before one is started, and again before a model may call its
//! tools. A server that was allowed and hasn't changed is used without a question.

use std::collections::BTreeMap;

use serde_json::Value;

use super::commands::{Silent, of_session};
use super::person::AtEditor;
use crate::app::{Added, Done, Face, Runtime, ServerPlace, Servers, allow_tools, mcp_command};
use crate::proto::served::PinStanding;
use crate::proto::{Failure, FailureKind};
use crate::render::text::escape_visible;

/// Servers of one session.
const SERVERS_MAX: usize = 16;
/// Characters of a server's name.
const NAME_CHARS_MAX: usize = 20;

/// Adds a client's servers to a session; returns their names, and why others can't be used. Nothing is started.
pub(super) fn take(runtime: &mut Runtime, wanted: &[Value]) -> (Vec<String>, Vec<Failure>) {
    let (mut names, mut problems) = (Vec::new(), Vec::new());
    let servers = of_session(runtime);
    for server in wanted {
        let said = server["name"].as_str().unwrap_or_default();
        let mut refuse = |why: &str| {
            let message = format!("the editor's server {} isn't used: {why}", escape_visible(said));
            problems.push(Failure { kind: FailureKind::User, message, hint: String::new() });
        };
        let Some(servers) = &servers else {
            refuse("servers of tools are switched off");
            continue;
        };
        match added(server) {
            Err(why) => refuse(why),
            Ok(_) if names.len() >= SERVERS_MAX => refuse("there are too many"),
            Ok(added) => {
                let name = name(said, names.len() + 1);
                if servers.add_named(&name, &added) {
                    names.push(name);
                } else {
                    refuse("your config or the editor has another one of that name");
                }
            }
        }
    }
    (names, problems)
}

/// A server as the protocol describes it.
///
/// # Errors
/// The reason why it can't be used.
fn added(server: &Value) -> Result<Added, &'static str> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let pairs = |list: &Value| -> BTreeMap<String, String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|item| Some((text(&item["name"])?, text(&item["value"])?))).collect()
    };
    let place = match server["type"].as_str() {
        Some("http") => ServerPlace::Url(text(&server["url"]).ok_or("it has no address")?),
        Some(_) => return Err("its transport isn't spoken here"),
        None => {
            let command = text(&server["command"]).filter(|it| !it.is_empty()).ok_or("it has no program")?;
            let arguments = server["args"].as_array().into_iter().flatten().filter_map(text);
            ServerPlace::Program(std::iter::once(command).chain(arguments).collect())
        }
    };
    Ok(Added { place, env: pairs(&server["env"]), headers: pairs(&server["headers"]) })
}

/// The name of a server as models see it: letters, digits, and hyphens.
fn name(said: &str, number: usize) -> String {
    let lower = said.to_ascii_lowercase();
    let plain: String =
        lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(NAME_CHARS_MAX).collect();
    let plain = plain.trim_matches('-');
    if plain.starts_with(|c: char| c.is_ascii_lowercase()) { plain.to_owned() } else { format!("editor-{number}") }
}

/// Asks about servers that were added: whether each may be started, and whether its tools may be called. `names` is empty
/// afterwards.
pub(super) fn ask_about(runtime: &mut Runtime, person: &mut AtEditor<'_>, names: &mut Vec<String>) {
    let Some(servers) = of_session(runtime) else { return };
    for name in &std::mem::take(names) {
        let known = servers.list(name);
        let is_settled = known.iter().all(|row| row.is_left_out || row.standing == PinStanding::Pinned);
        if !known.is_empty() && is_settled {
            continue;
        }
        if !person.agrees(&format!("Start the server {name}"), &what(&servers, name), "Start it") {
            servers.remove(name);
            continue;
        }
        let cancel = person.cancel;
        let is_stopped = || cancel.is_cancelled();
        let read = |_: &str| Err(String::new());
        let env = runtime.env().clone();
        let mut face = Face { typed: "reedclaw mcp", stop: &is_stopped, person: &mut Silent, env: &env, read: &read };
        let allowed = match mcp_command(&servers, &format!("allow {name}"), &mut face) {
            Ok(Done::Ask { server, tools, lines }) => {
                let title = format!("Let the model call the tools of {name}");
                if person.agrees(&title, &lines.join("\n"), "Allow all of them, as they are") {
                    allow_tools(&servers, &server, &tools).map(drop)
                } else {
                    Ok(())
                }
            }
            Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = allowed {
            person.editor.notice(&failure.message, "warning");
        }
    }
}

/// Describes a server that wasn't started yet.
fn what(servers: &Servers, name: &str) -> String {
    let Some(row) = servers.configured(name) else { return String::new() };
    let place = match &row.server.place {
        ServerPlace::Program(_) => {
            "The editor wants this program to be started, in the sandbox and without the network:"
        }
        ServerPlace::Url(_) => "The editor wants this address to be used:",
    };
    let variables = row.identity.get("env").or_else(|| row.identity.get("headers"));
    let variables = variables.map(|names| format!("\nWith values for {names}")).unwrap_or_default();
    format!("{place}\n{}{}", escape_visible(&row.server.place.line()), escape_visible(&variables))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_plain_and_servers_of_unknown_kinds_are_refused() {
        let names = ["git", "My Files!", "42", "", "-x-", "a-very-long-name-of-a-server"];
        assert_eq!(
            names.map(|it| name(it, 3)),
            ["git", "my-files", "editor-3", "editor-3", "x", "a-very-long-name-of"]
        );
        let program = json!({"name": "a", "command": "x", "args": ["-y"], "env": [{"name": "K", "value": "v"}]});
        let found = added(&program).expect("a server");
        assert_eq!((found.place.line().as_str(), found.env["K"].as_str()), ("x -y", "v"));
        assert!(added(&json!({"name": "a", "type": "sse", "url": "http://x"})).is_err());
        assert!(added(&json!({"name": "a"})).is_err());
    }
}
