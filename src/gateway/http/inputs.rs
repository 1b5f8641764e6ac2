//! The query and the body of a request, read by the names and the schema that its route knows.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::problem::{Answered, Problem};
use crate::base::percent;
use crate::base::time::utc_ms;
use crate::schema::Schema;

/// Parses a query; refuses an unknown or repeated name.
///
/// # Errors
/// A name is unknown or repeated, or a percent code is invalid.
pub fn query(text: &str, known: &[&str]) -> Answered<BTreeMap<String, String>> {
    let mut fields = BTreeMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text| {
            let text = percent::decode_form(text)
                .ok_or_else(|| Problem::body("the query has a percent code that isn't one"))?;
            if text.contains('\0') { Err(no_nul("query")) } else { Ok(text) }
        };
        let (name, value) = (decoded(name)?, decoded(value)?);
        if !known.contains(&name.as_str()) {
            return Err(Problem::body(format!("the query has no name {name:?} here")));
        }
        if fields.insert(name.clone(), value).is_some() {
            return Err(Problem::body(format!("{name} comes twice in the query")));
        }
    }
    Ok(fields)
}

/// Reads a time with its offset, in Unix milliseconds; `name` is that of its field.
///
/// # Errors
/// The text isn't a time.
pub fn time_ms(name: &str, text: &str) -> Answered<i64> {
    let moment: Result<jiff::Timestamp, _> = text.parse();
    let wrong = |_| Problem::body(format!("{name} must be a time such as 2026-12-31T12:00:00Z"));
    moment.map(|moment| moment.as_millisecond()).map_err(wrong)
}

/// The same in the form in which times are stored, so that texts compare as times do.
///
/// # Errors
/// The text isn't a time.
pub fn time_text(name: &str, text: &str) -> Answered<String> {
    Ok(utc_ms(time_ms(name, text)?))
}

/// The refusal of the one character that PostgreSQL doesn't store. Otherwise a text with it would fail like a database that is
/// gone, together with all appends that are committed beside it.
fn no_nul(place: &str) -> Problem {
    Problem::body(format!("the {place} has the character U+0000, which can't be stored"))
}

/// Returns whether a text or name in a value has the character U+0000.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, field)| name.contains('\0') || has_nul(field)),
        _ => false,
    }
}

/// The schemas of bodies, each read when it is first needed.
#[derive(Default)]
pub struct Schemas(Mutex<HashMap<&'static str, Arc<Schema>>>);

impl Schemas {
    fn of(&self, text: &'static str) -> Answered<Arc<Schema>> {
        let mut known = self.0.lock();
        if let Some(schema) = known.get(text) {
            return Ok(Arc::clone(schema));
        }
        let internal = |why: String| Problem::new(500, "internal", why);
        let value: Value = serde_json::from_str(text).map_err(|error| internal(error.to_string()))?;
        let schema = Arc::new(Schema::new(value).map_err(internal)?);
        known.insert(text, Arc::clone(&schema));
        Ok(schema)
    }

    /// Reads a body and holds it against the route's schema.
    ///
    /// # Errors
    /// The body isn't JSON, or doesn't match the schema.
    pub fn body(&self, bytes: &[u8], schema: &'static str) -> Answered<Value> {
        let value: Value = if bytes.is_empty() {
            Value::Object(serde_json::Map::new())
        } else {
            serde_json::from_slice(bytes).map_err(|error| Problem::body(format!("the body is no JSON: {error}")))?
        };
        // JSON has no other form for this character.
        if bytes.windows(5).any(|part| part == b"u0000") && has_nul(&value) {
            return Err(no_nul("body"));
        }
        let problems = self.of(schema)?.problems(&value);
        if problems.is_empty() { Ok(value) } else { Err(Problem::body(problems.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_unknown_or_repeated_names_are_refused() {
        let fields = query("key=a%20b+c&limit=5", &["key", "limit"]).expect("a query");
        assert_eq!((fields["key"].as_str(), fields["limit"].as_str()), ("a b c", "5"));
        for wrong in ["other=1", "key=1&key=2", "key=%zz", "key=%f", "key=%ff", "key=a%00"] {
            let problem = query(wrong, &["key"]).expect_err(wrong);
            assert_eq!((problem.status, problem.code), (400, "body_invalid"), "{wrong}");
        }
    }

    #[test]
    fn a_time_has_an_offset_and_one_form() {
        let read = |text: &str| time_text("from", text).map_err(|problem| problem.code);
        for text in ["2026-11-28T16:00:00+05:00", "2026-11-28T11:00:00Z", "2026-11-28T11:00:00.0004Z"] {
            assert_eq!(read(text), Ok("2026-11-28T11:00:00.000Z".into()), "{text}");
        }
        for wrong in ["yesterday", "2026-11-28", "2026-11-28T11:00:00", "zzz", ""] {
            assert_eq!(read(wrong), Err("body_invalid"), "{wrong}");
        }
    }

    #[test]
    fn a_text_that_no_database_stores_is_refused_before_anything_is_done() {
        let schemas = Schemas::default();
        let body = |text: &str| schemas.body(text.as_bytes(), r#"{"type": "object"}"#);
        for wrong in [r#"{"a": "x\u0000"}"#, r#"{"a": [{"b\u0000": 1}]}"#] {
            assert_eq!(body(wrong).expect_err(wrong).code, "body_invalid");
        }
        assert!(body(r#"{"a": "\\u0000, u0000"}"#).is_ok(), "the words for it are fine");
    }
}
