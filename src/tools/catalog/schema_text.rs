//! A tool's schema as it is sent to a model. It is short, because each request carries it. The arguments are in an order in which
//! a model can write them, because a server that enforces the schema makes it use that order. Must not decide what is valid.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Writes a schema in short form. It leaves out limits on lengths and old names of arguments (`deprecated`), which are still
/// valid. Required arguments come first, in the tool's order: a path before the text.
pub(in crate::tools) fn schema_text(schema: &Value) -> String {
    let mut text = String::new();
    write(schema, &mut text);
    text
}

/// The schema with these arguments alone, without their descriptions.
pub(in crate::tools) fn with_only(schema: &Value, arguments: &[&str]) -> Value {
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, it| {
            it.as_object_mut().and_then(|fields| fields.remove("description"));
            arguments.contains(&name.as_str()) || it.get("deprecated").is_some()
        });
    }
    schema
}

fn write(schema: &Value, text: &mut String) {
    let Value::Object(fields) = schema else { return put(schema, text) };
    if let Some(present) = present(fields) {
        return write(&present, text);
    }
    let mut shown: Vec<(&String, &Value)> = fields.iter().filter(|(name, value)| is_shown(name, value)).collect();
    shown.sort_by_key(|(name, _)| ["type", "description", "properties"].iter().position(|it| it == name).unwrap_or(3));
    object(&shown, text, |name, value, text| match (name, value) {
        ("properties", Value::Object(properties)) => {
            object(&in_order(properties, fields), text, |_, it, text| write(it, text))
        }
        ("items", _) => write(value, text),
        _ => put(value, text),
    });
}

/// Reduces a schema to its one alternative without old arguments; `None` unless exactly one is left.
fn present(fields: &Map<String, Value>) -> Option<Value> {
    let is_old = |name: &Value| name.as_str().is_some_and(|it| fields["properties"][it]["deprecated"] == true);
    let is_present = |it: &&Value| !it["required"].as_array().into_iter().flatten().any(is_old);
    let alternatives = fields.get("anyOf")?.as_array()?;
    let left: Vec<&Value> = alternatives.iter().filter(is_present).collect();
    let [Value::Object(only)] = left[..] else { return None };
    let mut fields = fields.clone();
    fields.remove("anyOf");
    fields.extend(only.clone());
    Some(Value::Object(fields))
}

fn is_shown(name: &str, value: &Value) -> bool {
    match name {
        "additionalProperties" => *value != Value::Bool(false),
        "minLength" | "maxLength" | "minItems" | "maxItems" => false,
        "minimum" => value.as_u64().is_none_or(|least| least > 1),
        _ => true,
    }
}

/// The arguments that a model sees, the required ones first.
fn in_order<'p>(properties: &'p Map<String, Value>, schema: &Map<String, Value>) -> Vec<(&'p String, &'p Value)> {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_present = |(_, schema): &(&String, &Value)| schema.get("deprecated") != Some(&Value::Bool(true));
    let mut shown: Vec<(&String, &Value)> = properties.iter().filter(is_present).collect();
    shown.sort_by_key(|(name, _)| required.iter().position(|it| it == name.as_str()).unwrap_or(required.len()));
    shown
}

fn object(fields: &[(&String, &Value)], text: &mut String, mut each: impl FnMut(&str, &Value, &mut String)) {
    text.push('{');
    for (number, (name, value)) in fields.iter().enumerate() {
        text.push_str(if number > 0 { "," } else { "" });
        put(&Value::from(name.as_str()), text);
        text.push(':');
        each(name, value, text);
    }
    text.push('}');
}

fn put(value: &Value, text: &mut String) {
    write!(text, "{value}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn required_fields_come_first_and_limits_are_left_out() {
        let schema = json!({
            "type": "object",
            "properties": {
                "new": {"type": "string", "maxLength": 9},
                "count": {"type": "integer", "minimum": 1, "description": "1 where absent"},
                "least": {"type": "integer", "minimum": 2},
                "path": {"type": "string", "minLength": 1, "description": "a \"file\""},
                "file": {"type": "string", "deprecated": true},
                "deprecated": {"items": {"type": "string", "maxLength": 3}, "type": "array", "maxItems": 2},
            },
            "required": ["path", "new"],
            "additionalProperties": false,
        });
        let expected = r#"{"type":"object","properties":{"path":{"type":"string","description":"a \"file\""},"#
            .to_owned()
            + r#""new":{"type":"string"},"count":{"type":"integer","description":"1 where absent"},"#
            + r#""deprecated":{"type":"array","items":{"type":"string"}},"least":{"type":"integer","minimum":2}},"#
            + r#""required":["path","new"]}"#;
        assert_eq!(schema_text(&schema), expected);
        // An alternative that only old callers know isn't shown.
        let mut either = schema;
        either["anyOf"] = json!([{"required": ["path", "new"]}, {"required": ["file"]}]);
        either.as_object_mut().expect("an object").remove("required");
        assert_eq!(schema_text(&either), expected);
    }
}
