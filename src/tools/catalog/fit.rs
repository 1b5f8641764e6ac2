//! Arguments as small models write them, made to fit a tool's schema if only one thing can be meant: names in another style,
//! numbers and booleans as text, empty optional values, arguments within `arguments`. Unknown names are left out, and that is
//! reported. The schema refuses what still doesn't fit; the policy judges the result.

use serde_json::{Map, Value, json};

use crate::turn::loose_json;

/// Keys within which some models put all arguments.
const WRAPPERS: [&str; 5] = ["arguments", "parameters", "args", "input", "kwargs"];

/// Reads a call's arguments; returns names that the tool doesn't have, which were left out.
///
/// # Errors
/// It isn't JSON.
pub(in crate::tools) fn read(text: &str, schema: &Value) -> Result<(Value, Vec<String>), String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut value = loose_json(text)?;
    // Encoded twice.
    if let Value::String(inner) = &value
        && let Ok(inner @ Value::Object(_)) = loose_json(inner)
    {
        value = inner;
    }
    let mut left_out = Vec::new();
    let value = unwrapped(value, schema);
    Ok((fit(value, schema, "", &mut left_out), left_out))
}

/// Returns whether two names are the same but for case, hyphens and underscores.
pub(in crate::tools) fn same_name(left: &str, right: &str) -> bool {
    let letters = |name: &'_ str| -> Vec<u8> {
        name.bytes().filter(|byte| byte.is_ascii_alphanumeric()).map(|byte| byte.to_ascii_lowercase()).collect()
    };
    letters(left) == letters(right)
}

/// Returns the arguments without a wrapper key that holds all of them.
fn unwrapped(value: Value, schema: &Value) -> Value {
    let Some((key, inner)) = value.as_object().filter(|it| it.len() == 1).and_then(|it| it.iter().next()) else {
        return value;
    };
    if !WRAPPERS.contains(&key.as_str()) || schema["properties"].get(key).is_some() {
        return value;
    }
    match inner {
        Value::Object(_) => inner.clone(),
        Value::String(text) => loose_json(text).ok().filter(Value::is_object).unwrap_or(value),
        _ => value,
    }
}

/// Makes a value fit its schema as far as that is plain.
pub(in crate::tools) fn fit(value: Value, schema: &Value, at: &str, left_out: &mut Vec<String>) -> Value {
    let is = |name: &str| match &schema["type"] {
        Value::String(only) => only == name,
        Value::Array(types) => types.iter().any(|it| it == name),
        _ => false,
    };
    match value {
        Value::Object(fields) if schema["properties"].is_object() => members(fields, schema, at, left_out),
        Value::Array(items) if schema["items"].is_object() => {
            items.into_iter().map(|item| fit(item, &schema["items"], at, left_out)).collect()
        }
        Value::String(text) if !is("string") && schema.get("type").is_some() => {
            of_text(text, schema, &is, at, left_out)
        }
        Value::Number(number) if is("string") && !is("integer") && !is("number") => Value::String(number.to_string()),
        Value::Bool(flag) if is("string") && !is("boolean") => Value::String(flag.to_string()),
        // Contents of a JSON file, written as what they hold.
        Value::Object(_) if is("string") && !is("object") => {
            serde_json::to_string_pretty(&value).map_or(value, |text| Value::String(text + "\n"))
        }
        Value::Number(_) if is("integer") => clamped(value, schema),
        other if is("array") && !is("string") && !other.is_array() && !other.is_null() => {
            json!([fit(other, &schema["items"], at, left_out)])
        }
        other => other,
    }
}

fn of_text(text: String, schema: &Value, is: &dyn Fn(&str) -> bool, at: &str, left_out: &mut Vec<String>) -> Value {
    let trimmed = text.trim();
    if is("boolean") && (trimmed.eq_ignore_ascii_case("true") || trimmed.eq_ignore_ascii_case("false")) {
        return Value::Bool(trimmed.eq_ignore_ascii_case("true"));
    }
    if (is("integer") || is("number"))
        && let Ok(number @ Value::Number(_)) = serde_json::from_str::<Value>(trimmed)
    {
        return fit(number, schema, at, left_out);
    }
    if (is("array") || is("object"))
        && let Ok(inner) = loose_json(trimmed)
        && (inner.is_array() || inner.is_object())
    {
        return fit(inner, schema, at, left_out);
    }
    if is("array") && schema["items"]["type"] == "string" {
        return json!([text]);
    }
    Value::String(text)
}

/// Converts a float without a fraction to an integer, and reduces one above the maximum to the maximum.
fn clamped(value: Value, schema: &Value) -> Value {
    let whole = value.as_f64().filter(|_| value.is_f64()).filter(|it| it.fract() == 0.0 && it.abs() < 9e15);
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    let value = whole.map_or(value, |it| json!(it as i64));
    match (value.as_i64(), schema["maximum"].as_i64()) {
        (Some(number), Some(most)) if number > most => json!(most),
        _ => value,
    }
}

fn members(fields: Map<String, Value>, schema: &Value, at: &str, left_out: &mut Vec<String>) -> Value {
    let empty = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&empty);
    let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    let is_open = schema.get("additionalProperties") != Some(&Value::Bool(false));
    let mut fitting = Map::new();
    for (written, value) in fields {
        let same = known.keys().find(|it| same_name(it, &written));
        let name = match known.get_key_value(&written).map(|(name, _)| name).or(same) {
            Some(name) => name.clone(),
            None if is_open => written.clone(),
            None => {
                left_out.push(format!("{at}{written}"));
                continue;
            }
        };
        let Some(schema) = known.get(&name) else {
            fitting.insert(name, value);
            continue;
        };
        let value = fit(value, schema, &format!("{at}{name}."), left_out);
        if value.is_null() || !is_required(&name) && says_nothing(&value, schema) {
            continue;
        }
        // The tool's own spelling of a name takes precedence over other spellings.
        if name == written || !fitting.contains_key(&name) {
            fitting.insert(name, value);
        }
    }
    Value::Object(fitting)
}

/// Returns whether an optional value looks like a mere placeholder: empty, or below the minimum.
fn says_nothing(value: &Value, schema: &Value) -> bool {
    match value {
        Value::String(text) => {
            text.is_empty() && (schema["minLength"].as_u64() >= Some(1) || schema["type"] != "string")
        }
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_i64().zip(schema["minimum"].as_i64()).is_some_and(|(it, least)| it < least),
        Value::Null => true,
        Value::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1},
                "cwd": {"type": "string", "minLength": 1},
                "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600_000},
                "background": {"type": "boolean"},
                "names": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["command"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn arguments_of_small_models_are_made_to_fit() {
        let ls = json!({"command": "ls"});
        let table = [
            (r#"{"command": "ls"}"#, ls.clone()),
            (r#""{\"command\": \"ls\"}""#, ls.clone()),
            (r#"{"arguments": {"command": "ls"}}"#, ls.clone()),
            (r#"{"parameters": "{\"command\": \"ls\"}"}"#, ls.clone()),
            (r#"{"Command": "ls", "cwd": "", "timeoutMs": 0, "background": null}"#, ls.clone()),
            (
                r#"{"command": "ls", "timeoutMs": "10000", "background": "True"}"#,
                json!({"command": "ls", "timeout_ms": 10_000, "background": true}),
            ),
            (
                r#"{"command": "ls", "timeout_ms": 9e9, "names": "a"}"#,
                json!({"command": "ls", "timeout_ms": 600_000, "names": ["a"]}),
            ),
            (r#"{"command": 7, "names": "[\"a\", \"b\"]"}"#, json!({"command": "7", "names": ["a", "b"]})),
            (r#"{"command": {"a": 1}}"#, json!({"command": "{\n  \"a\": 1\n}\n"})),
            (
                r#"{"Command": "pwd", "command": "ls", "timeoutMs": 5, "timeout_ms": 7, "CWD": "/tmp", "cwd": "/"}"#,
                json!({"command": "ls", "timeout_ms": 7, "cwd": "/"}),
            ),
            ("", json!({})),
        ];
        for (text, expected) in table {
            assert_eq!(read(text, &schema()), Ok((expected, vec![])), "{text}");
        }
    }

    #[test]
    fn unknown_names_are_left_out_and_reported() {
        let text = r#"{"command": "ls", "explanation": "I look", "x": 1}"#;
        let expected = (json!({"command": "ls"}), vec!["explanation".to_owned(), "x".to_owned()]);
        assert_eq!(read(text, &schema()), Ok(expected));
    }

    #[test]
    fn ambiguous_arguments_are_left_for_the_schema_to_refuse() {
        for text in [r#"{"command": ["ls", "-l"]}"#, r#"{"command": "ls", "background": "maybe"}"#] {
            let (value, _) = read(text, &schema()).expect("it is JSON");
            assert!(!crate::schema::Schema::new(schema()).unwrap().problems(&value).is_empty(), "{text}");
        }
        assert!(read(r#"{"command": "rm -r bu"#, &schema()).is_err());
    }
}
