//! The servers of tools that a client brings: its person is asked before one is started, and again before a model may call its
//! tools. A server that was allowed and hasn't changed is used without a question.

use std::collections::BTreeMap;

use serde_json::Value;

use super::channel::without_session;
use super::commands::of_session;
use super::person::AtEditor;
use crate::app::{Added, Done, Runtime, ServerPlace, Servers, allow_tools, ask_to_allow_started};
use crate::proto::Failure;
use crate::render::text::escape_visible;

/// Servers of one session.
const SERVERS_MAX: usize = 16;
/// Characters of a server's name.
const NAME_CHARS_MAX: usize = 20;

/// A server that a client brings.
#[derive(Debug)]
pub(super) struct Brought {
    name: String,
    added: Added,
    /// The person has agreed to its start.
    may_start: bool,
    /// A prompt has waited for its start already.
    is_late: bool,
}

/// Adds a client's servers to a session; returns them, and the reasons why others can't be used. Nothing is started. Without
/// forms the questions of servers can't be answered.
pub(super) fn take(runtime: &mut Runtime, wanted: &[Value], has_forms: bool) -> (Vec<Brought>, Vec<Failure>) {
    let (mut brought, mut problems) = (Vec::new(), Vec::new());
    let servers = of_session(runtime);
    if let Some(servers) = servers.as_ref().filter(|_| !has_forms) {
        servers.ask_nobody();
    }
    for server in wanted {
        let title = server["name"].as_str().unwrap_or_default();
        let mut refuse = |why: &str| {
            let message = format!("the editor's server {} isn't used: {why}", escape_visible(title));
            problems.push(Failure::user(message));
        };
        let Some(servers) = &servers else {
            refuse("servers of tools are switched off");
            continue;
        };
        match added(server) {
            Err(why) => refuse(why),
            Ok(_) if brought.len() >= SERVERS_MAX => refuse("there are too many"),
            Ok(added) => {
                let name = name(title, brought.len() + 1);
                if servers.add_named(&name, &added) {
                    brought.push(Brought { name, added, may_start: false, is_late: false });
                } else {
                    refuse("your config or the editor has another one of that name");
                }
            }
        }
    }
    (brought, problems)
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
fn name(title: &str, number: usize) -> String {
    let lower = title.to_ascii_lowercase();
    let plain: String =
        lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(NAME_CHARS_MAX).collect();
    let plain = plain.trim_matches('-');
    if plain.starts_with(|c: char| c.is_ascii_lowercase()) { plain.to_owned() } else { format!("editor-{number}") }
}

/// Asks about added servers: whether each may be started, and whether its tools may be called. If something was already allowed
/// for a server with this start, it is started without a question. Servers start while the person answers, and are waited for
/// once, for as long as a question waits for a server. Afterwards `brought` has only those that are still starting and those
/// whose question was cancelled: they are asked about with the next prompt, without repeating answered questions.
pub(super) fn ask_about(runtime: &mut Runtime, person: &mut AtEditor<'_>, brought: &mut Vec<Brought>) {
    let Some(servers) = of_session(runtime) else { return };
    let mut all = std::mem::take(brought).into_iter();
    while let Some(mut one) = all.next() {
        let is_known = servers.has_allowed_start(&one.name);
        if is_known && servers.is_settled(&one.name) {
            continue;
        }
        one.may_start = one.may_start || is_known || {
            let about = what(&one.added, &*runtime.agent().redactor().hiding());
            person.agrees(&format!("Start the server {}", one.name), &about, "Start it")
        };
        if person.cancel.is_cancelled() {
            brought.push(one);
            brought.extend(all);
            return;
        }
        if !one.may_start {
            servers.remove(&one.name);
            continue;
        }
        // A late one may have failed meanwhile, and isn't started again automatically.
        if !one.is_late {
            servers.begin(&one.name);
        }
        brought.push(one);
    }
    let new: Vec<String> = brought.iter().filter(|one| !one.is_late).map(|one| one.name.clone()).collect();
    servers.wait_for_start(&new, &|| person.cancel.is_cancelled());
    for one in std::mem::take(brought) {
        let is_starting = servers.is_starting(&one.name);
        if is_starting && !one.is_late && !person.cancel.is_cancelled() {
            let name = &one.name;
            let line = format!("[mcp] {name}: still starting; its tools are asked about with a later prompt");
            person.editor.notice(&line, "info");
        }
        if !is_starting
            && !person.cancel.is_cancelled()
            && let Err(failure) = ask_about_tools(&servers, person, &one.name)
        {
            person.editor.notice(&without_session(&failure.message), "warning");
        }
        if person.cancel.is_cancelled() || is_starting {
            brought.push(Brought { is_late: is_starting, ..one });
        }
    }
}

/// Asks whether a model may call the tools of a server, if it runs. If it doesn't, the question shows the reason.
///
/// # Errors
/// The permission can't be stored.
fn ask_about_tools(servers: &Servers, person: &AtEditor<'_>, name: &str) -> Result<(), Failure> {
    let Some(Done::Ask { server, tools, lines }) = ask_to_allow_started(servers, name) else { return Ok(()) };
    let title = format!("Let the model call the tools of {name}");
    if person.agrees(&title, &lines.join("\n"), "Allow all of them, as they are") {
        allow_tools(servers, &server, &tools)?;
    }
    Ok(())
}

/// Describes a server that wasn't started yet: its program or address, and its values without secrets, since they may decide which
/// code runs.
fn what(added: &Added, redact: &dyn Fn(&str) -> String) -> String {
    let about = match &added.place {
        ServerPlace::Program(_) => {
            "The editor wants this program to be started, in the sandbox and without the network:"
        }
        ServerPlace::Url(_) => "The editor wants this address to be used:",
    };
    let mut lines = vec![about.to_owned(), redact(&added.place.line())];
    for (what, values) in [("variable", &added.env), ("header", &added.headers)] {
        let between = if what == "header" { ": " } else { "=" };
        let line = |(name, value): (&String, &String)| {
            format!("With the {what} {}", redact(&format!("{name}{between}{value}")))
        };
        lines.extend(values.iter().map(line));
    }
    lines.iter().map(|line| escape_visible(line)).collect::<Vec<_>>().join("\n")
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
        let text = what(&found, &|text| text.replace('v', "V"));
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["x -y", "With the variable K=V"]);
    }
}
