//! Texts of servers as a person is shown them: whole definitions, differences, answers. Every text is escaped.

use serde_json::{Value, json};

use super::instructions::INSTRUCTIONS;
use super::names::RESOURCES;
use crate::base::text::counted;
use crate::gate::definition;
use crate::mcp::{Part, Place};
use crate::proto::served::{Definition, PinStanding};
use crate::proto::tool::ToolError;
use crate::redact::Redactor;
use crate::render::text::escape_visible;
use crate::render::{changed_words, sanitise, strip_controls};
use crate::tools::catalog::stranger::warnings;

/// Characters of a value of JSON that is shown in one line.
const JSON_CHARS_MAX: usize = 84;
/// Characters of a tool's name at its beginning and its end that are shown in a list.
const NAME_CHARS: (usize, usize) = (40, 10);

pub(super) fn place_kind(place: &Place) -> &'static str {
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

pub(super) fn word(standing: PinStanding) -> &'static str {
    match standing {
        PinStanding::Pinned => "allowed",
        PinStanding::Changed => "changed since you allowed it",
        PinStanding::New => "not allowed",
    }
}

/// A name in a list. A long one is shortened to its beginning and end, so that the columns after it stay visible.
pub(super) fn short_name(name: &str) -> String {
    let (first, last) = NAME_CHARS;
    let count = name.chars().count();
    if count <= first + last + 1 {
        return name.to_owned();
    }
    name.chars().take(first).chain(['…']).chain(name.chars().skip(count - last)).collect()
}

/// Parts of a server that are off for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Off {
    tools: usize,
    has_resources: bool,
    has_instructions: bool,
}

impl Off {
    fn add(&mut self, part: &str) {
        match part {
            RESOURCES => self.has_resources = true,
            INSTRUCTIONS => self.has_instructions = true,
            _ => self.tools += 1,
        }
    }

    /// Lists them, the tools as `tool` and the others after `which`, with the verb that fits; `None` if there are none.
    fn in_words(self, tool: &str, which: &str) -> Option<(String, &'static str)> {
        let tools = (self.tools > 0).then(|| counted(self.tools, tool));
        let resources = self.has_resources.then(|| format!("{which} resources"));
        let instructions = self.has_instructions.then(|| format!("{which} instructions"));
        let parts: Vec<String> = [tools, resources, instructions].into_iter().flatten().collect();
        let are = if self.tools == 1 && parts.len() == 1 { "is" } else { "are" };
        (!parts.is_empty()).then(|| (in_words(&parts), are))
    }
}

/// Parts of a server that its person may miss: those that they allowed and that are off, or all of it if they never allowed any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// Allowed, but they or their server have changed since.
    changed: Off,
    /// Allowed only in other directories.
    elsewhere: Off,
    /// From a server of which nothing was ever allowed. Instructions alone are of no use.
    new: Off,
}

impl Missed {
    /// Counts one part: how it stands now, and whether it was allowed anywhere, or anything of its server was.
    pub(super) fn add(&mut self, part: &str, standing: PinStanding, was_allowed: bool, is_server_known: bool) {
        match standing {
            PinStanding::Pinned => {}
            PinStanding::Changed => self.changed.add(part),
            PinStanding::New if was_allowed => self.elsewhere.add(part),
            PinStanding::New if is_server_known || part == INSTRUCTIONS => {}
            PinStanding::New => self.new.add(part),
        }
    }

    /// Lists them in words; `None` if there are none.
    pub(super) fn in_words(self) -> Option<String> {
        let changed = self.changed.in_words("allowed tool", "the allowed").map(|(which, are)| {
            let they = if are == "is" { "it or its server has" } else { "they or their server have" };
            format!("{which} {are} off, because {they} changed")
        });
        let elsewhere = self
            .elsewhere
            .in_words("tool", "the")
            .map(|(which, are)| format!("{which} {are} allowed in another directory and off in this one"));
        let new = self.new.in_words("new tool", "new").map(|(which, _)| which);
        let parts: Vec<String> = [changed, elsewhere, new].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Returns everything that a model is shown of a tool, and the parts of it that deserve a second look.
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

/// Returns a text of a server, and the parts of it that deserve a second look.
pub(super) fn said_lines(text: &str, others: &[String]) -> Vec<String> {
    let lines = text.lines().map(|line| format!("  says        {}", escape_visible(line)));
    lines.chain(careful_lines(text, others)).collect()
}

/// The parts of a text that deserve a second look; `others` are tools that aren't its server's.
pub(super) fn careful_lines(text: &str, others: &[String]) -> impl Iterator<Item = String> {
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

/// Returns a line with hidden characters as escapes. A tab counts as plain text.
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

/// Returns the differences between a tool and the version that was allowed, part by part.
fn changes(old: &Value, tool: &Definition) -> Vec<(String, String, String)> {
    let new = definition(tool);
    let parts = ["title", "description", "input", "output", "annotations"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let differing = parts.into_iter().filter(|part| old.get(part) != new.get(part));
    let null = json!(null);
    differing
        .map(|part| (part.to_owned(), text(old.get(part).unwrap_or(&null)), text(new.get(part).unwrap_or(&null))))
        .collect()
}

/// Returns a server's text without control and invisible characters, in which orders to a model can hide.
pub(super) fn clean(text: &str) -> String {
    sanitise(&strip_controls(text.as_bytes())).into_owned()
}

/// The failure of a call of a tool that has changed.
pub(super) fn changed_error(server: &str, name: &str) -> ToolError {
    let message = format!("the tool {name} isn't the one that the user allowed");
    ToolError::new("changed", message, format!("the user can look at it and allow it: :mcp allow {server}"))
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
        assert_eq!(parts(vec![text]), ["a\tb\\x1b[m", "c"]);
    }

    #[test]
    fn missed_items_are_named_by_their_reason() {
        let off = |tools, has_resources, has_instructions| Off { tools, has_resources, has_instructions };
        let none = Off::default();
        let words = |changed, elsewhere, new| Missed { changed, elsewhere, new }.in_words().unwrap_or_default();
        for (changed, elsewhere, new, expected) in [
            (none, none, none, ""),
            (off(1, false, false), none, none, "1 allowed tool is off, because it or its server has changed"),
            (
                off(0, false, true),
                none,
                none,
                "the allowed instructions are off, because they or their server have changed",
            ),
            (
                none,
                off(3, true, true),
                none,
                "3 tools, the resources and the instructions are allowed in another directory and off in this one",
            ),
            (none, none, off(14, false, false), "14 new tools"),
            (none, none, off(0, true, false), "new resources"),
            (
                off(2, true, false),
                off(1, false, false),
                none,
                "2 allowed tools and the allowed resources are off, because they or their server have changed; \
                 1 tool is allowed in another directory and off in this one",
            ),
        ] {
            assert_eq!(words(changed, elsewhere, new), expected);
        }
    }

    #[test]
    fn new_instructions_alone_are_no_news_and_a_known_servers_new_parts_neither() {
        let mut missed = Missed::default();
        missed.add(INSTRUCTIONS, PinStanding::New, false, false);
        missed.add(RESOURCES, PinStanding::New, false, true);
        missed.add(RESOURCES, PinStanding::Pinned, true, true);
        assert_eq!(missed, Missed::default());
        missed.add(RESOURCES, PinStanding::New, true, true);
        missed.add(INSTRUCTIONS, PinStanding::Changed, true, true);
        let all = missed.in_words().unwrap_or_default();
        assert!(all.starts_with("the allowed instructions are off") && all.contains("; the resources are"), "{all}");
    }
}
