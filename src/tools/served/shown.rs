//! What a person is shown of servers of tools: rows of lists, whole definitions, differences. Every text is escaped.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::instructions;
use super::{Listed, Servers, changes, tokens};
use crate::base::text::age;
use crate::gate::pin;
use crate::mcp::{Part, Place, Standing};
use crate::proto::Failure;
use crate::proto::served::{Definition, PinStanding};
use crate::redact::Redactor;
use crate::render::changed_words;
use crate::render::text::escape_visible;
use crate::tools::catalog::stranger::warnings;

/// Characters of a value of JSON that is shown in one line.
const JSON_CHARS_MAX: usize = 84;
/// Characters of a description that are shown in a list.
const LINE_CHARS_MAX: usize = 100;
/// Characters of a tool's name at its beginning and its end that are shown in a list.
const NAME_CHARS: (usize, usize) = (40, 10);

pub(super) fn rows(servers: &Servers, typed: &str) -> Vec<Vec<String>> {
    let row = |(name, standing): (String, Standing)| {
        let failure = servers.mcp().failure(&name);
        let mut why_failed = failure.map(|fault| format!("{} ago: {}", elapsed(fault.at), escape_visible(&fault.why)));
        let how = match standing {
            Standing::Asleep { is_known: true } => "asleep".to_owned(),
            Standing::Asleep { is_known: false } => "never started".to_owned(),
            Standing::Starting(since) => format!("starting for {} s", since.elapsed().as_secs()),
            Standing::Ready { took } => format!("running, started in {} ms", took.as_millis()),
            Standing::NeedsLogin => format!("needs a login: {typed} login {name}"),
            Standing::Failed { why, at, .. } => {
                why_failed = Some(escape_visible(&why));
                format!("failed {} ago", elapsed(at))
            }
        };
        let listed = servers.list(&name);
        let allowed = listed.iter().filter(|row| row.standing == PinStanding::Pinned && !row.is_left_out).count();
        let version = servers.mcp().manifest(&name).map(|manifest| escape_visible(&manifest.version));
        let tools =
            if version.is_some() { format!("{allowed} of {} tools allowed", listed.len()) } else { String::new() };
        let row = servers.configured(&name);
        let transport = row.as_ref().map_or("", |row| transport_word(&row.server.place));
        let reach = row.as_ref().map(|row| (row.reach)().place()).unwrap_or_default();
        // The error is the longest, and what doesn't fit is cut at the end.
        vec![
            name,
            how,
            tools,
            reach.to_owned(),
            transport.to_owned(),
            version.unwrap_or_default(),
            why_failed.unwrap_or_default(),
        ]
    };
    servers.mcp().standings().into_iter().map(row).collect()
}

/// The time since then, in seconds within the first minute.
fn elapsed(since: Instant) -> String {
    match since.elapsed().as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => age(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000)),
    }
}

fn transport_word(place: &Place) -> &'static str {
    match place {
        Place::Program(_) => "pipe",
        Place::Url(_) => "HTTP",
    }
}

fn place_kind(place: &Place) -> &'static str {
    match place {
        Place::Program(_) => "program",
        Place::Url(_) => "address",
    }
}

/// A server's program or address without secrets: lists are copied into reports.
pub(super) fn place_line(place: &Place) -> String {
    let line = place.line();
    let shown = match (place, line.find(['?', '#'])) {
        (Place::Url(_), Some(at)) => format!("{}{}…", &line[..at], &line[at..=at]),
        _ => line,
    };
    escape_visible(&Redactor::default().redact(&shown).text)
}

pub(super) fn standing_word(row: &Listed) -> &'static str {
    if row.is_left_out { "left out by the config" } else { word(row.standing) }
}

pub(super) fn word(standing: PinStanding) -> &'static str {
    match standing {
        PinStanding::Pinned => "allowed",
        PinStanding::Changed => "changed since you allowed it",
        PinStanding::New => "not allowed",
    }
}

pub(super) fn tool_rows(servers: &Servers, server: &str) -> Vec<Vec<String>> {
    let sent = servers.sent();
    let row = |row: &Listed| {
        let first: String =
            row.tool.description.lines().next().unwrap_or_default().chars().take(LINE_CHARS_MAX).collect();
        let name = format!("{server}.{}", escape_visible(&short_name(&row.tool.name)));
        let how = match (row.standing == PinStanding::Pinned && !row.is_left_out, sent.contains(&row.name)) {
            (true, true) => "sent",
            (true, false) => "found by a search",
            (false, _) => "",
        };
        let size = format!("{} tokens", tokens(row));
        vec![name, standing_word(row).to_owned(), how.to_owned(), size, escape_visible(&first)]
    };
    servers.list(server).iter().map(row).collect()
}

/// A name in a list: of a long one the beginning and the end, or it would hide what is said of the tool.
fn short_name(name: &str) -> String {
    let (first, last) = NAME_CHARS;
    let count = name.chars().count();
    if count <= first + last + 1 {
        return name.to_owned();
    }
    name.chars().take(first).chain(['…']).chain(name.chars().skip(count - last)).collect()
}

pub(super) fn show(servers: &Servers, server: &str, failure: Option<&Failure>) -> Vec<String> {
    let Some(row) = servers.configured(server) else { return Vec::new() };
    // That of its last run, if it doesn't start now.
    let manifest = servers.mcp().manifest(server).unwrap_or_default();
    let title =
        if manifest.title.is_empty() { String::new() } else { format!(" ({})", escape_visible(&manifest.title)) };
    let mut lines = vec![
        format!("server        {server}{title}"),
        format!("{:<13} {}", place_kind(&row.server.place), place_line(&row.server.place)),
        format!("runs          {}", (row.reach)().place()),
    ];
    lines.extend(row.grant.iter().map(|(what, which)| format!("{what:<13} {}", escape_visible(which))));
    let (what, names) = &row.values;
    if !names.is_empty() {
        lines.push(format!("{what:<13} {}", escape_visible(&Value::from(names.clone()).to_string())));
    }
    if !manifest.version.is_empty() {
        lines.push(format!("protocol      {}", escape_visible(&manifest.version)));
    }
    if let Some(Failure { message, hint, .. }) = failure {
        lines.push(format!("problem       {message}"));
        lines.extend(Some(hint).filter(|hint| !hint.is_empty()).map(|hint| format!("              {hint}")));
    }
    lines.extend(servers.whole_pin(server).map(|pin| format!("pin           {pin}")));
    if instructions::definition(&manifest).is_some() {
        let standing = word(servers.instructions_standing(server));
        lines.push(format!("instructions  {standing}"));
    }
    lines.extend(manifest.instructions.lines().map(|line| format!("says          {}", escape_visible(line))));
    lines.extend(manifest.left_out.iter().map(|what| format!("left out      {}", escape_visible(what))));
    let (others, identity) = (servers.others(server), (row.identity)());
    for listed in servers.list(server) {
        lines.push(format!("tool          {} ({})", escape_visible(&listed.tool.name), standing_word(&listed)));
        lines.extend(identity.iter().map(|identity| format!("  pin         {}", pin(identity, &listed.tool))));
        lines.extend(tool_lines(&listed.tool, &others));
    }
    for prompt in &manifest.prompts {
        lines.push(format!("prompt        {}: {}", escape_visible(&prompt.name), escape_visible(&prompt.description)));
    }
    lines
}

/// Everything that a model is shown of a tool, and what about it deserves a second look.
pub(super) fn tool_lines(tool: &Definition, others: &[String]) -> Vec<String> {
    let mut lines = said_lines(&tool.description, others);
    lines.extend(json_lines("arguments", &tool.input.value()));
    for (what, value) in [("result", &tool.output), ("hints", &tool.annotations)] {
        if !value.is_null() {
            lines.extend(json_lines(what, &value.value()));
        }
    }
    lines
}

/// A value of JSON in lines, each with an indentation that shows its depth.
fn json_lines(what: &str, value: &Value) -> Vec<String> {
    let text = outlined(value, 0);
    let label = |number: usize| if number == 0 { what } else { "" };
    text.lines().enumerate().map(|(number, line)| format!("  {:<11} {}", label(number), escape_visible(line))).collect()
}

/// A value of JSON: in one line as long as that is short, otherwise with a line for each of its parts.
fn outlined(value: &Value, depth: usize) -> String {
    let line = value.to_string();
    let pad = |depth: usize| format!("\n{:1$}", "", 2 * depth);
    let parts: Vec<String> = match value {
        _ if line.chars().count() + 2 * depth <= JSON_CHARS_MAX => return line,
        Value::Array(items) => items.iter().map(|item| pad(depth + 1) + &outlined(item, depth + 1)).collect(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}{}: {}", pad(depth + 1), Value::from(name.as_str()), outlined(value, depth + 1))
            };
            members.iter().map(member).collect()
        }
        _ => return line,
    };
    let (opens, closes) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    format!("{opens}{}{}{closes}", parts.join(","), pad(depth))
}

/// A text of a server, and what about it deserves a second look.
pub(super) fn said_lines(text: &str, others: &[String]) -> Vec<String> {
    let lines = text.lines().map(|line| format!("  says        {}", escape_visible(line)));
    lines.chain(careful_lines(text, others)).collect()
}

/// The parts of a text that deserve a second look; `others` are tools that aren't its server's.
fn careful_lines(text: &str, others: &[String]) -> impl Iterator<Item = String> {
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    warnings(text, &others).into_iter().map(|warning| format!("  careful     {}", escape_visible(&warning)))
}

/// Shows a tool beside the one that a person allowed: each part that differs, and what deserves a second look.
pub(super) fn changed_lines(old: &Value, tool: &Definition, others: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for (part, old, new) in changes(old, tool) {
        lines.push(format!("  {part:<11} was  {}", escape_visible(&old)));
        lines.push(format!("  {:<11} is   {}", "", escape_visible(&new)));
        let (gone, come) = changed_words(&old, &new);
        for (what, words) in [("gone", gone), ("new", come)].iter().filter(|(_, words)| !words.is_empty()) {
            lines.push(format!("  {:<11} {what:<4} {}", "", escape_visible(words)));
        }
    }
    if lines.is_empty() {
        lines.push("  changed     the server itself: its program, arguments, variables, or sandbox".into());
    }
    lines.extend(careful_lines(&tool.description, others));
    lines
}

pub(super) fn resources(servers: &Servers, server: &str) -> Vec<Vec<String>> {
    let manifest = servers.mcp().manifest(server).unwrap_or_else(|| Arc::new(Default::default()));
    let row = |link: &crate::proto::served::Link| {
        [&link.uri, &link.name, &link.media_type, &link.description].map(|text| escape_visible(text)).to_vec()
    };
    manifest.resources.iter().map(row).collect()
}

/// A row for each prompt: its name, its arguments (those in brackets may be left out), its description.
pub(super) fn prompts(servers: &Servers, server: &str) -> Vec<Vec<String>> {
    let manifest = servers.mcp().manifest(server).unwrap_or_else(|| Arc::new(Default::default()));
    let row = |prompt: &crate::proto::served::PromptSpec| {
        let argument = |(name, is_required): &(String, bool)| {
            if *is_required { format!("{name}=…") } else { format!("[{name}=…]") }
        };
        let arguments = prompt.arguments.iter().map(argument).collect::<Vec<_>>().join(" ");
        [&prompt.name, &arguments, &prompt.description].map(|text| escape_visible(text)).to_vec()
    };
    manifest.prompts.iter().map(row).collect()
}

/// A line with what is hidden in it as escapes. A tab is plain text.
fn with_tabs(line: &str) -> String {
    line.split('\t').map(escape_visible).collect::<Vec<_>>().join("\t")
}

pub(super) fn parts(parts: Vec<Part>) -> Vec<String> {
    let mut lines = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => lines.extend(text.lines().map(with_tabs)),
            Part::Binary { media_type, bytes } => {
                lines.push(format!("[{}, {} bytes]", escape_visible(&media_type), bytes.len()));
            }
            Part::Link(link) => lines.push(format!("[link: {}]", escape_visible(&link.uri))),
        }
    }
    lines
}

/// A list in words.
pub(super) fn in_words(list: &[String]) -> String {
    match list {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => list.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_leaves_room_for_what_is_said_of_its_tool() {
        assert_eq!(short_name("find_issue"), "find_issue");
        assert_eq!(short_name(&"x".repeat(51)), "x".repeat(51));
        let long = format!("first{}last", "x".repeat(100));
        let short = short_name(&long);
        assert!(short.starts_with("firstx") && short.ends_with("xlast") && short.chars().count() == 51, "{short}");
    }

    #[test]
    fn tabs_of_a_text_stay() {
        let text = Part::Text("a\tb\u{1b}[m\nc".into());
        assert_eq!(parts(vec![text]), ["a\tb\\u{1b}[m", "c"]);
    }
}
