//! Descriptions of tools from third parties: the form in which a model sees them, and warnings about them for a person.

use serde_json::Value;

use crate::render::strip_controls;
use crate::render::text::has_hidden;

/// Longest description that a model is shown, in bytes.
pub(in crate::tools) const DESCRIPTION_BYTES_MAX: usize = 2 * 1024;
/// Words by which a description tries to steer a model beyond its tool.
const STEERING: &[&str] =
    &["ignore", "instead of", "before any other", "do not tell", "don't tell", "system prompt", "override"];

/// A description as a model is shown it: harmless, and not too long.
pub(in crate::tools) fn shortened(description: &str) -> String {
    let mut text = harmless(description);
    text.truncate(text.floor_char_boundary(DESCRIPTION_BYTES_MAX));
    text
}

/// Returns the reasons for a person to look closely at a description: it speaks of more than its tool. `others` are the other
/// tools.
#[must_use]
pub fn warnings(description: &str, others: &[&str]) -> Vec<String> {
    let text = harmless(description).to_lowercase();
    let mut warnings = Vec::new();
    if has_hidden(&description.replace('\t', " ")) {
        warnings.push("its text holds control characters or hidden ones".to_owned());
    }
    if description.len() > DESCRIPTION_BYTES_MAX {
        warnings.push(format!("its text is longer than {DESCRIPTION_BYTES_MAX} bytes; the rest is left out"));
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let has_word = |word: &str| text.split(|c| !is_part(c)).any(|part| part == word);
    if let Some(other) = others.iter().find(|other| other.contains('_') && has_word(other)) {
        warnings.push(format!("its text speaks of another tool, {other}"));
    }
    if let Some(word) = STEERING.iter().find(|word| text.contains(**word)) {
        warnings.push(format!("its text gives orders ({word:?})"));
    }
    if text.split_whitespace().any(|word| word.starts_with("~/") || (word.starts_with('/') && word.len() > 2)) {
        warnings.push("its text names files".to_owned());
    }
    warnings
}

/// Returns a text on one line without control characters, escape sequences and invisible characters.
pub(in crate::tools) fn harmless(text: &str) -> String {
    let plain = strip_controls(text.as_bytes());
    let seen: String = plain.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let seen: String = seen.chars().filter(|c| !has_hidden(c.encode_utf8(&mut [0; 4]))).collect();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a schema with its texts made harmless; `None` if a name in it isn't.
pub(in crate::tools) fn harmless_schema(schema: Value) -> Option<Value> {
    Some(match schema {
        Value::String(text) => Value::String(harmless(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(harmless_schema).collect::<Option<_>>()?),
        Value::Object(fields) => {
            let mut object = serde_json::Map::new();
            for (name, value) in fields {
                if has_hidden(&name) {
                    return None;
                }
                object.insert(name, harmless_schema(value)?);
            }
            Value::Object(object)
        }
        other => other,
    })
}
