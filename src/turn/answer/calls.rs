//! Calls of tools that a model wrote into its answer's text: bare JSON, in a fence, between tags, or with doubled braces, as
//! small models do if their server doesn't know their format. They are judged like any other call. Pure.

use serde_json::{Map, Value};

use super::loose::{loose_json, without_fence};

/// Tags around calls.
const TAGS: [&str; 5] = ["tool_call", "tool_calls", "tools", "function_call", "tool"];
/// Keys under which the name of a tool is found.
const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
/// Keys under which the arguments are found.
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "args", "input", "tool_input"];
/// The most calls that a text is searched for.
const CALLS_MAX: usize = 32;

/// A call found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCall {
    /// The name, as written.
    pub name: String,
    /// The arguments, as JSON.
    pub arguments: String,
}

/// The kind of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// No call.
    Words,
    /// These calls, and the words before them.
    Calls(String, Vec<WrittenCall>),
    /// Looks like a call, but can't be read as one.
    Unclear,
}

/// Reads an answer's text; `is_tool` says whether a name is a tool's.
#[must_use]
pub fn read_calls(text: &str, is_tool: &dyn Fn(&str) -> bool) -> Reading {
    let mut starts = line_starts(text).filter(|at| may_begin_call(&text[*at..])).peekable();
    if starts.peek().is_none() {
        return Reading::Words;
    }
    for start in starts.by_ref() {
        let calls = all_calls(&text[start..], is_tool);
        if !calls.is_empty() {
            return Reading::Calls(text[..start].trim_end().to_owned(), calls);
        }
    }
    // An answer may well hold JSON; only one that begins with what looks like a call was meant as one.
    let begin = text.trim_start();
    if may_begin_call(begin) && has_call_keys(begin) { Reading::Unclear } else { Reading::Words }
}

/// Returns whether a text that is still arriving may turn out to be a call: it begins as one does, as far as it has
/// come.
#[must_use]
pub fn may_begin_call(text: &str) -> bool {
    let mut rest = text.trim_start();
    for _ in 0..3 {
        if let Some(after) = rest.strip_prefix("```") {
            let Some((info, body)) = after.split_once('\n') else {
                return after.len() < 12 && after.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            };
            if !["", "json", "tool_call", "tool_code", "xml", "text", "plaintext"].contains(&info.trim()) {
                return false;
            }
            rest = body.trim_start();
        } else if rest.starts_with('<') {
            let Some(end) = rest.find('>') else {
                return TAGS.iter().any(|tag| format!("<{tag}>").starts_with(rest));
            };
            if !TAGS.contains(&&rest[1..end]) {
                return false;
            }
            rest = rest[end + 1..].trim_start();
        }
    }
    if rest.is_empty() || "```".starts_with(rest) {
        return !text.trim().is_empty();
    }
    let inner = rest.trim_start_matches('[').trim_start();
    let Some(inner) = inner.strip_prefix('{') else { return inner.is_empty() };
    let inner = inner.strip_prefix('{').unwrap_or(inner).trim_start();
    let Some(quote) = inner.chars().next() else { return true };
    let inner = if quote == '"' || quote == '\'' { &inner[1..] } else { return false };
    let is_key = |key: &&str| match inner.split_once(quote) {
        Some((name, _)) => name == *key,
        None => key.starts_with(inner),
    };
    NAMES.iter().chain(&ARGUMENTS).chain(&["type", "id"]).any(is_key)
}

/// Places at which a line begins.
fn line_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1))
}

fn has_call_keys(text: &str) -> bool {
    let has =
        |keys: &[&str]| keys.iter().any(|key| text.contains(&format!("{key}\"")) || text.contains(&format!("{key}'")));
    TAGS.iter().any(|tag| text.starts_with(&format!("<{tag}>"))) || has(&NAMES) && has(&ARGUMENTS)
}

/// The calls of a text that holds calls and nothing else but fences and tags; empty if there is anything else.
fn all_calls(text: &str, is_tool: &dyn Fn(&str) -> bool) -> Vec<WrittenCall> {
    let mut plain = without_fence(text).to_owned();
    for tag in TAGS {
        plain = plain.replace(&format!("<{tag}>"), "\n").replace(&format!("</{tag}>"), "\n");
    }
    let mut calls = Vec::new();
    for value in values(&plain) {
        match value {
            Some(Value::Array(items)) if !items.is_empty() => calls.extend(items.iter().map(|it| call_of(it, is_tool))),
            Some(value) => calls.push(call_of(&value, is_tool)),
            None => return Vec::new(),
        }
    }
    let all: Option<Vec<WrittenCall>> = calls.into_iter().take(CALLS_MAX).collect();
    all.unwrap_or_default()
}

/// The JSON values of a text, one after the other; `None` for a part that isn't JSON.
fn values(text: &str) -> Vec<Option<Value>> {
    let text = text.trim();
    if let Ok(value) = loose_json(text) {
        return vec![Some(value)];
    }
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(fence) = rest.strip_prefix("```") {
            // Between two fenced calls.
            rest = fence.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').trim_start();
            continue;
        }
        let mut strict = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match strict.next() {
            Some(Ok(value)) => {
                found.push(Some(value));
                rest = rest[strict.byte_offset()..].trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            }
            _ => {
                found.push(loose_json(rest).ok());
                break;
            }
        }
    }
    found
}

fn call_of(value: &Value, is_tool: &dyn Fn(&str) -> bool) -> Option<WrittenCall> {
    let fields = value.as_object()?;
    // OpenAI's own form of a call: the function is an object of its own.
    if let Some(function @ Value::Object(_)) = fields.get("function") {
        return call_of(function, is_tool);
    }
    let name = NAMES.iter().find_map(|key| fields.get(*key)?.as_str()).filter(|name| is_tool(name))?;
    let arguments = ARGUMENTS.iter().find_map(|key| fields.get(*key));
    let arguments = match arguments {
        None if fields.len() == 1 => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments.clone(),
        Some(Value::String(text)) => loose_json(text).ok().filter(Value::is_object)?,
        _ => return None,
    };
    Some(WrittenCall { name: name.to_owned(), arguments: arguments.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Reading {
        read_calls(text, &|name| name == "shell" || name == "file_read")
    }

    #[test]
    fn calls_written_as_text_are_found() {
        let call = r#"{"name": "shell", "arguments": {"command": "ls"}}"#;
        for text in [
            call.to_owned(),
            format!("```json\n{call}\n```"),
            format!("```\n{call}"),
            format!("<tool_call>\n{call}\n</tool_call>"),
            format!("<tools>{call}</tools>"),
            format!("```xml\n<tool_call>\n{call}\n</tool_call>\n```"),
            r#"{{"name": "shell", "arguments": {"command": "ls"}}}"#.to_owned(),
            r"{'name': 'shell', 'parameters': {'command': 'ls'}}".to_owned(),
            r#"[{"type": "function", "function": {"name": "shell", "arguments": "{\"command\":\"ls\"}"}}]"#.to_owned(),
        ] {
            let expected = WrittenCall { name: "shell".into(), arguments: r#"{"command":"ls"}"#.into() };
            assert_eq!(read(&text), Reading::Calls(String::new(), vec![expected]), "{text}");
            let every_start = text.char_indices().map(|(at, _)| &text[..at]).filter(|start| !start.trim().is_empty());
            every_start.for_each(|start| assert!(may_begin_call(start), "{start}"));
        }
        let Reading::Calls(words, calls) = read(&format!("I look.\n\n```json\n{call}\n```\n")) else { panic!("calls") };
        assert_eq!((words.as_str(), calls.len()), ("I look.", 1));
        let Reading::Calls(_, calls) = read(&format!("{call}\n{call}")) else { panic!("calls") };
        assert_eq!(calls.len(), 2);
        let two = format!("<tool_call>\n{call}\n</tool_call>\n<tool_call>\n{call}\n</tool_call>");
        assert!(matches!(read(&two), Reading::Calls(_, calls) if calls.len() == 2));
    }

    #[test]
    fn other_text_is_no_call() {
        for text in [
            "The file holds 3 lines.",
            "```rust\nfn main() {}\n```",
            r#"{"name": "demo", "version": "1"}"#,
            r#"{"name": "Maria", "arguments": {"age": 3}} is not what I meant"#,
            "Here it is:\n```json\n{\"port\": 80}\n```",
            "<b>bold</b>",
            "",
        ] {
            assert!(!matches!(read(text), Reading::Calls(..)), "{text}");
        }
        for text in ["The", "```rust\n", "<b>", "{\"port", "{ x", "[1", "fn"] {
            assert!(!may_begin_call(text), "{text}");
        }
        assert_eq!(read(r#"{"name": "run_it", "arguments": {"x": 1}}"#), Reading::Unclear);
        assert_eq!(read(r#"{"name": "shell", "arguments": {"command": "rm -r bui"#), Reading::Unclear);
    }
}
