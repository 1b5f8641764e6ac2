//! Resources of servers: those that a person names, the addresses that fit what was typed, and a model's two tools for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::names::RESOURCES;
use super::shown::clean;
use super::tool::{failed, outcome};
use super::{Asked, MCP_WORDS, Rule, Servers, none_of};
use crate::gate::Permit;
use crate::mcp::{Part, manifest_known};
use crate::proto::action::Action;
use crate::proto::served::{Link, PinStanding, Unasked};
use crate::proto::tool::{Outcome, ToolError};
use crate::render::text::escape_visible;
use crate::tools::{Offer, Place, Plan, Spec, Tool, Work};

/// Resources that one search shows.
const SHOWN_MAX: usize = 20;
/// Characters of a resource's name and description that a search shows.
const LINE_CHARS_MAX: usize = 160;
/// Longest address of a resource, in bytes.
const URI_BYTES_MAX: usize = 4096;

/// Addresses of one list.
const FOUND_MAX: usize = 200;

impl Servers {
    /// Reads the text of a resource, and starts its server if it isn't running.
    ///
    /// # Errors
    /// The reason in words: it has no text, or the server doesn't return it before `until`.
    pub fn resource(&self, server: &str, uri: &str, until: Instant) -> Result<String, String> {
        let is_late = || Instant::now() >= until;
        if self.configured(server).is_some_and(|row| !row.server.has_resources) {
            return Err(none_of(server, "resources", false));
        }
        self.renew(server);
        let reply = self.mcp.read(server, uri, &is_late, &mut Unasked).map_err(|error| match is_late() {
            true => "its server didn't give it in time".to_owned(),
            false => escape_visible(&error.to_string()),
        })?;
        let text = |part| match part {
            Part::Text(text) => Some(clean(&text)),
            Part::Binary { .. } | Part::Link(_) => None,
        };
        let texts: Vec<String> = reply.parts.into_iter().filter_map(text).collect();
        if texts.is_empty() { Err("it is no text".to_owned()) } else { Ok(texts.join("\n")) }
    }
}

/// The addresses and names of a server's resources, as they were at its last run, whose address contains `typed`. Nothing is
/// started; `state` is the directory of the client's files.
#[must_use]
pub fn resources_like(state: &Path, server: &str, typed: &str) -> Vec<(String, String)> {
    // An address with characters that a terminal would obey or hide isn't one to type.
    let is_plain = |uri: &str| !uri.contains(char::is_whitespace) && escape_visible(uri) == uri;
    let found = manifest_known(state, server).map(|manifest| manifest.resources).unwrap_or_default();
    let fitting = found.into_iter().filter(|link| link.uri.contains(typed) && is_plain(&link.uri));
    fitting.take(FOUND_MAX).map(|link| (link.uri, escape_visible(&link.name))).collect()
}

/// Returns the words that may follow `:mcp` and the words after it, each with its meaning, from the configuration and the last
/// known state. Nothing is started; `state` is the directory of the client's files.
#[must_use]
pub fn words_after(state: &Path, servers: &[String], words: &[&str]) -> Vec<(String, String)> {
    let known = |server: &str| manifest_known(state, server).unwrap_or_default();
    let found: Vec<(String, String)> = match words {
        [] => MCP_WORDS.iter().map(|(word, _, help)| ((*word).to_owned(), (*help).to_owned())).collect(),
        ["list" | "import"] => Vec::new(),
        ["call"] => servers
            .iter()
            .flat_map(|server| {
                let tools = known(server).tools.into_iter();
                tools.map(move |tool| (format!("{server}.{}", tool.name), tool.description.clone()))
            })
            .collect(),
        [_] => servers.iter().map(|name| (name.clone(), String::new())).collect(),
        ["prompt", server] => known(server).prompts.into_iter().map(|it| (it.name, it.description)).collect(),
        ["prompt", server, prompt, words @ ..] => {
            let prompt = known(server).prompts.into_iter().find(|it| it.name == *prompt);
            let is_new = |name: &String| !words.iter().any(|word| word.starts_with(&format!("{name}=")));
            let arguments = prompt.map(|prompt| prompt.arguments).unwrap_or_default().into_iter();
            let word = |is_required| if is_required { "required" } else { "" };
            arguments
                .filter(|(name, _)| is_new(name))
                .map(|(name, is_required)| (format!("{name}="), word(is_required).into()))
                .collect()
        }
        ["read", server] => known(server).resources.into_iter().map(|it| (it.uri, it.name)).collect(),
        ["allow" | "deny", server] => {
            known(server).tools.iter().map(|it| (it.name.clone(), it.description.clone())).collect()
        }
        _ => Vec::new(),
    };
    // A word with characters that a terminal would obey or hide isn't one to type.
    let is_plain = |word: &String| !word.contains(char::is_whitespace) && escape_visible(word) == *word;
    let line =
        |text: String| escape_visible(&text.lines().next().unwrap_or_default().chars().take(80).collect::<String>());
    found.into_iter().filter(|(word, _)| is_plain(word)).map(|(word, text)| (word, line(text))).collect()
}

/// Finds resources of the servers whose resources a person has allowed.
pub(super) struct ResourceFind(pub(super) Arc<Servers>);

impl Tool for ResourceFind {
    fn spec(&self) -> Spec {
        Spec {
            name: "resource_find".into(),
            aliases: &[],
            description: format!(
                "Finds resources (documents, files, records) that these servers have: {}. `resource_read` reads one.",
                self.0.with_resources().join(", ")
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "words of its name, address or subject; empty for all"},
                    "server": {"type": "string", "description": "only this server's"},
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        // A person has allowed it.
        Offer::Core
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::Inert { name: "resource_find".into() }))
    }

    fn run(&mut self, permit: &Permit, _: &mut Work<'_>) -> Outcome {
        let text = |name: &str| permit.arguments().get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (query, server) = (text("query").to_lowercase(), text("server"));
        let words: Vec<&str> = query.split_whitespace().collect();
        let mut found: Vec<(usize, String)> = Vec::new();
        for name in self.0.with_resources().into_iter().filter(|name| server.is_empty() || *name == server) {
            let links = self.0.mcp.manifest(&name).map(|manifest| manifest.resources.clone()).unwrap_or_default();
            let rows = links.iter().map(|link| (score(link, &words), line(&name, link)));
            found.extend(rows.filter(|(score, _)| *score > 0 || words.is_empty()));
        }
        // Equal ones stay in their server's order.
        found.sort_by_key(|(score, _)| usize::MAX - score);
        let count = found.len();
        let mut lines: Vec<String> = found.into_iter().take(SHOWN_MAX).map(|(_, line)| line).collect();
        if count == 0 {
            lines.push("No resource fits.".into());
        } else if count > SHOWN_MAX {
            lines.push(format!("[{} more: search for more words]", count - SHOWN_MAX));
        }
        Outcome::of(lines.join("\n"))
    }
}

/// Returns the number of the words that occur in a resource.
fn score(link: &Link, words: &[&str]) -> usize {
    let text = format!("{} {} {}", link.uri, link.name, link.description).to_lowercase();
    words.iter().filter(|word| text.contains(**word)).count()
}

fn line(server: &str, link: &Link) -> String {
    let words: String = format!("{} {}", link.name, link.description).chars().take(LINE_CHARS_MAX).collect();
    clean(&format!("{server} {}: {}", link.uri, words.replace('\n', " ").trim()))
}

/// Reads a resource.
pub(super) struct ResourceRead(pub(super) Arc<Servers>);

impl Tool for ResourceRead {
    fn spec(&self) -> Spec {
        Spec {
            name: "resource_read".into(),
            aliases: &[],
            description: format!("Reads a resource of a server: {}.", self.0.with_resources().join(", ")),
            schema: json!({
                "type": "object",
                "properties": {
                    "server": {"type": "string"},
                    "uri": {"type": "string", "maxLength": URI_BYTES_MAX},
                },
                "required": ["server", "uri"],
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        Offer::Core
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        let (server, uri) = named(arguments);
        let row = self.0.configured(server).ok_or_else(|| {
            ToolError::new("bad-arguments", "there is no such server", self.0.with_resources().join(", "))
        })?;
        let (reach, may_write) = row.reach();
        let action = Action::Served {
            server: server.to_owned(),
            tool: RESOURCES.into(),
            standing: self.0.resources_standing(server),
            pin: String::new(),
            reach,
            may_write,
            is_destructive: false,
            is_granted: row.rules.get(RESOURCES) == Some(&Rule::Run),
            is_asked: row.rules.get(RESOURCES) == Some(&Rule::Ask),
        };
        let intent = format!("Reading {} of the server {server}", escape_visible(uri));
        Ok(Plan { preview: format!("{arguments:#}"), ..Plan::of(action).saying(intent) })
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let (server, uri) = named(permit.arguments());
        self.0.renew(server);
        if let Err(error) = self.0.mcp.connect(server, work.is_stopped) {
            return failed(&error).into();
        }
        if self.0.resources_standing(server) != PinStanding::Pinned {
            let message = format!("the resources of {server} aren't allowed");
            return ToolError::new("changed", message, format!("the user can allow them: :mcp allow {server}")).into();
        }
        match self.0.mcp.read(server, uri, work.is_stopped, &mut Asked(work.person)) {
            Ok(reply) => outcome(server, reply, work),
            Err(error) => failed(&error).into(),
        }
    }
}

fn named(arguments: &Value) -> (&str, &str) {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    (text("server"), text("uri"))
}
