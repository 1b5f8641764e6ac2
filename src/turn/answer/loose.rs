//! JSON as small models write it: in a fence, with single quotes, raw line ends, trailing commas, doubled braces, words
//! of Python, or without its last brackets. Strict JSON is read as it is. A text that was cut off inside a value is
//! refused, because a part of a command must not pass for the whole. Pure.

use serde_json::{Map, Number, Value};

/// Limit on nested arrays and objects.
const DEPTH_MAX: usize = 32;

/// Reads a text as one JSON value.
///
/// # Errors
/// The reason why it can't be read, in the strict reader's words.
pub fn loose_json(text: &str) -> Result<Value, String> {
    let strict = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error.to_string(),
    };
    let bare = without_fence(text);
    let whole = |text: &str| serde_json::from_str(text).ok().or_else(|| Reader::new(text).whole());
    let doubled = || bare.strip_prefix("{{")?.strip_suffix("}}").map(|inner| format!("{{{inner}}}"));
    whole(bare).or_else(|| whole(&doubled()?)).ok_or(strict)
}

/// The text inside a block of code, if the block is all there is.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```") else { return text };
    let inner = inner.trim_end().strip_suffix("```").unwrap_or(inner);
    match inner.split_once('\n') {
        Some((info, body)) if info.trim().chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => body.trim(),
        _ => inner.trim(),
    }
}

/// Reads forgivingly, in one pass.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    /// The value, if nothing but white space follows it.
    fn whole(mut self) -> Option<Value> {
        let value = self.value(0)?;
        self.space();
        self.rest.is_empty().then_some(value)
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes this text if it comes next.
    fn take(&mut self, text: &str) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.space();
        match self.rest.chars().next().filter(|_| depth < DEPTH_MAX)? {
            '{' => self.object(depth),
            '[' => self.array(depth),
            quote @ ('"' | '\'') => self.string(quote).map(Value::String),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.take("{");
        let mut fields = Map::new();
        loop {
            if self.take("}") {
                return Some(Value::Object(fields));
            }
            let name = match self.rest.chars().next()? {
                quote @ ('"' | '\'') => self.string(quote)?,
                _ => self.bare_name()?,
            };
            if !self.take(":") {
                return None;
            }
            let value = self.value(depth + 1)?;
            let is_closed = !matches!(value, Value::Number(_));
            fields.insert(name, value);
            if !self.take(",") && !self.rest.starts_with('}') {
                // Only a value with a closing sign is certainly complete.
                return (self.rest.is_empty() && is_closed).then_some(Value::Object(fields));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.take("[");
        let mut items = Vec::new();
        loop {
            if self.take("]") {
                return Some(Value::Array(items));
            }
            items.push(self.value(depth + 1)?);
            if !self.take(",") && !self.rest.starts_with(']') {
                let is_closed = !matches!(items.last(), Some(Value::Number(_)));
                return (self.rest.is_empty() && is_closed).then_some(Value::Array(items));
            }
        }
    }

    fn bare_name(&mut self) -> Option<String> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| c == ',' || c == '}' || c == ']' || c.is_whitespace());
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match word {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            "null" | "None" => Some(Value::Null),
            _ => word.parse::<Number>().ok().map(Value::Number),
        }
    }

    /// A string in either kind of quotes, with line ends and tabs as they are.
    fn string(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next()?.1 {
                    'u' => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                    }
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    other => text.push(other),
                },
                _ if c == quote && ends_here(&self.rest[at + 1..], quote) => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                _ => text.push(c),
            }
        }
        None
    }
}

/// Returns whether a quote ends its string: an apostrophe within single quotes is followed by more text.
fn ends_here(rest: &str, quote: char) -> bool {
    quote == '"' || rest.trim_start().chars().next().is_none_or(|c| ",:}]".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slips_of_small_models_are_read_as_they_were_meant() {
        let good = json!({"command": "cat note.txt"});
        for text in [
            r#"{"command": "cat note.txt"}"#,
            r#"{"command": "cat note.txt",}"#,
            r#"{"command": "cat note.txt""#,
            r"{'command': 'cat note.txt'}",
            r#"{command: "cat note.txt"}"#,
            r#"{{"command": "cat note.txt"}}"#,
            "```json\n{\"command\": \"cat note.txt\"}\n```",
            "```\n{\"command\": \"cat note.txt\"}",
        ] {
            assert_eq!(loose_json(text), Ok(good.clone()), "{text}");
        }
        let table = [
            ("{\"a\": \"one\ntwo\"}", json!({"a": "one\ntwo"})),
            (
                "{'a': 'it\\'s', 'b': True, 'c': None, 'd': [1, 2,],}",
                json!({"a": "it's", "b": true, "c": null, "d": [1, 2]}),
            ),
            ("{'say': 'it's so'}", json!({"say": "it's so"})),
            (r#"{{"name": "x", "arguments": {"a": 1}}}"#, json!({"name": "x", "arguments": {"a": 1}})),
            ("\"{\\\"a\\\": 1}\"", json!("{\"a\": 1}")),
            ("{'a': '\\u00e9\\n'}", json!({"a": "é\n"})),
        ];
        for (text, value) in table {
            assert_eq!(loose_json(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_value_that_was_cut_off_is_refused() {
        for text in
            [r#"{"command": "rm -r build"#, r#"{"line": 12"#, r#"{"command""#, r#"{"a": [1, 2"#, "{", "hello", ""]
        {
            assert!(loose_json(text).is_err(), "{text}");
        }
        let deep = "[".repeat(40) + &"]".repeat(40) + ",";
        assert!(loose_json(&deep).is_err());
    }
}
