//! The schemas of answers, for the OpenAPI document. Debug builds check each answer against its schema, so that the document and
//! the handlers agree.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::route::Route;

/// The place of a shape in the file.
const IN_FILE: &str = "#/$defs/";
/// The path of a shape in the document.
const IN_DOCUMENT: &str = "#/components/schemas/";

static FILE: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../config/schema/gateway.json");
    serde_json::from_str(text).unwrap_or_default()
});

/// The shapes that answers share, as the document's components.
pub(super) fn shapes() -> Map<String, Value> {
    let shapes = FILE["$defs"].as_object().cloned().unwrap_or_default();
    shapes.into_iter().map(|(name, shape)| (name, in_document(shape))).collect()
}

/// The schema of a route's answers in JSON that are no errors.
pub(super) fn schema(route: &Route) -> Option<Value> {
    FILE["answers"].get(key(route)).cloned().map(in_document)
}

fn key(route: &Route) -> String {
    format!("{} {}", route.method, route.path)
}

fn in_document(value: Value) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix(IN_FILE) {
            Some(name) => format!("{IN_DOCUMENT}{name}").into(),
            None => text.into(),
        },
        Value::Array(items) => items.into_iter().map(in_document).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, in_document(field))).collect(),
        other => other,
    }
}

/// The parts of an answer that aren't as its schema has them.
#[cfg(debug_assertions)]
pub(super) fn problems(route: &Route, answer: &Value) -> Vec<String> {
    use parking_lot::Mutex;
    use std::collections::HashMap;
    use std::sync::Arc;

    use crate::schema::Schema;

    static READ: LazyLock<Mutex<HashMap<String, Arc<Schema>>>> = LazyLock::new(Mutex::default);

    let key = key(route);
    let known = READ.lock().get(&key).cloned();
    let read = || {
        let mut schema = FILE["answers"].get(&key).cloned().ok_or_else(|| format!("{key} has no schema"))?;
        schema["$defs"] = FILE["$defs"].clone();
        let schema = Arc::new(Schema::new(schema)?);
        READ.lock().insert(key.clone(), Arc::clone(&schema));
        Ok::<_, String>(schema)
    };
    match known.map_or_else(read, Ok) {
        Ok(schema) => schema.problems(answer),
        Err(why) => vec![why],
    }
}
