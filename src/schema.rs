//! A JSON Schema for an answer: read once, then values are checked against it. Pure.
//!
//! A subset of draft 2020-12. Checked: [`KEYWORDS`], with `$ref` to places of the same schema. Annotations ([`ANNOTATIONS`],
//! including `format`) are ignored, as the draft specifies. Any other keyword is an error, because a value must not count as
//! checked if a part of its schema was ignored.

use std::cell::Cell;
use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value};

/// Keywords that are checked.
pub const KEYWORDS: [&str; 32] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "definitions",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "if",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "uniqueItems",
    "dependentRequired",
];

/// Keywords that don't affect which values are valid.
pub const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
];

/// Limit on the nesting of schemas and the length of a chain of references; beyond it, the schema or the value is refused.
const DEPTH_MAX: usize = 64;
/// Limit for the problems reported about one value.
const PROBLEMS_MAX: usize = 8;
/// Limit on the schemas that one check applies: otherwise two references in an `anyOf` could double the work at each step.
const STEPS_MAX: usize = 4_000_000;
/// Limit for a schema from outside, in bytes.
const FOREIGN_BYTES_MAX: usize = 256 << 10;
/// Limit on the items that `uniqueItems` compares with each other.
const UNIQUE_ITEMS_MAX: usize = 4_000;
/// Names of the types.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A schema against which values can be checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    root: Value,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// Its problem, or the keyword that isn't checked here, with its place.
    pub fn new(root: Value) -> Result<Self, String> {
        check_schema(&root, &root, "#", 0)?;
        Ok(Self { root })
    }

    /// Reads a schema from outside. Unknown keywords are ignored: the schema's owner checks those.
    ///
    /// # Errors
    /// The problem of a known keyword, a reference out of the schema, or its size.
    pub fn foreign(root: &Value) -> Result<Self, String> {
        if root.to_string().len() > FOREIGN_BYTES_MAX {
            return Err(format!("it is longer than {FOREIGN_BYTES_MAX} bytes"));
        }
        Self::new(without_unknown(root, 0))
    }

    /// The schema in its original form.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.root
    }

    /// Lists the problems of a value, by place, at most eight; none if it is valid.
    #[must_use]
    pub fn problems(&self, value: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        let check = Check { root: &self.root, steps_left: Cell::new(STEPS_MAX) };
        check.check(&self.root, value, Place::Whole, 0, &mut problems);
        problems.truncate(PROBLEMS_MAX);
        problems
    }

    /// Reads an answer, one JSON value, bare or as the only content of a code block; returns its text unchanged.
    ///
    /// # Errors
    /// The answer isn't a JSON value, or the problems of the value.
    pub fn read<'a>(&self, answer: &'a str) -> Result<&'a str, Vec<String>> {
        let text = unfenced(answer);
        let value = serde_json::from_str(text)
            .map_err(|error| vec![format!("it isn't JSON at line {} column {}", error.line(), error.column())])?;
        let problems = self.problems(&value);
        if problems.is_empty() { Ok(text) } else { Err(problems) }
    }
}

/// One check of one value.
struct Check<'s> {
    root: &'s Value,
    steps_left: Cell<usize>,
}

/// The position of a value within the checked one; written out only when a problem is reported.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// The value that is checked.
    Whole,
    /// A member of an object.
    Member(&'p Place<'p>, &'p str),
    /// An item of a list.
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    fn in_words(self) -> String {
        if matches!(self, Self::Whole) { "the value".to_owned() } else { self.to_string() }
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Member(of, name) => write!(f, "{of}/{name}"),
            Self::Item(of, index) => write!(f, "{of}/{index}"),
        }
    }
}

impl Check<'_> {
    fn is_valid(&self, schema: &Value, value: &Value, depth: usize) -> bool {
        let mut problems = Vec::new();
        self.check(schema, value, Place::Whole, depth, &mut problems);
        problems.is_empty()
    }

    fn check(&self, schema: &Value, value: &Value, at: Place<'_>, depth: usize, problems: &mut Vec<String>) {
        if problems.len() >= PROBLEMS_MAX {
            return;
        }
        let mut say = |what: String| problems.push(format!("{}: {what}", at.in_words()));
        let Some(steps_left) = self.steps_left.get().checked_sub(1) else {
            return say("takes too long to check against this schema".to_owned());
        };
        self.steps_left.set(steps_left);
        if depth > DEPTH_MAX {
            return say("is nested too deeply, or the schema refers to itself without end".to_owned());
        }
        let keywords = match schema {
            Value::Bool(true) => return,
            Value::Object(keywords) => keywords,
            _ => return say("is not allowed here".to_owned()),
        };
        check_self(keywords, value, &mut say);
        match value {
            Value::Number(number) => check_number(keywords, number, &mut say),
            Value::String(text) => {
                let length = text.chars().count();
                check_count(keywords, "minLength", "maxLength", length, "characters", &mut say);
            }
            Value::Array(items) => {
                check_count(keywords, "minItems", "maxItems", items.len(), "items", &mut say);
                let twice = |(at, item): (usize, &Value)| items[..at].iter().any(|earlier| same(earlier, item));
                if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
                    if items.len() > UNIQUE_ITEMS_MAX {
                        say(format!("has more than {UNIQUE_ITEMS_MAX} items, too many to compare"));
                    } else if items.iter().enumerate().any(twice) {
                        say("has an item twice".to_owned());
                    }
                }
                self.check_items(keywords, items, at, depth, problems);
            }
            Value::Object(members) => self.check_members(keywords, members, at, depth, problems),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_combined(keywords, value, at, depth, problems);
    }

    fn check_items(
        &self,
        keywords: &Map<String, Value>,
        items: &[Value],
        at: Place<'_>,
        depth: usize,
        problems: &mut Vec<String>,
    ) {
        let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or_else(|| keywords.get("items")) {
                self.check(schema, item, Place::Item(&at, index), depth + 1, problems);
            }
        }
    }

    fn check_members(
        &self,
        keywords: &Map<String, Value>,
        members: &Map<String, Value>,
        at: Place<'_>,
        depth: usize,
        problems: &mut Vec<String>,
    ) {
        let mut say = |what: String| problems.push(format!("{}: {what}", at.in_words()));
        check_count(keywords, "minProperties", "maxProperties", members.len(), "members", &mut say);
        let dependent = keywords.get("dependentRequired").and_then(Value::as_object).into_iter().flatten();
        let dependent = dependent.filter(|(name, _)| members.contains_key(*name)).map(|(_, list)| list);
        let lists = keywords.get("required").into_iter().chain(dependent);
        let required = lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !members.contains_key(*name)) {
            problems.push(format!("{at}/{name}: is missing"));
        }
        let known = keywords.get("properties").and_then(Value::as_object);
        for (name, member) in members {
            let place = Place::Member(&at, name);
            if let Some(schema) = keywords.get("propertyNames")
                && !self.is_valid(schema, &Value::String(name.clone()), depth + 1)
            {
                problems.push(format!("{place}: has a name that isn't allowed"));
            }
            match (known.and_then(|known| known.get(name)), keywords.get("additionalProperties")) {
                (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => {
                    self.check(schema, member, place, depth + 1, problems);
                }
                (None, Some(Value::Bool(false))) => problems.push(format!("{place}: isn't known here")),
                _ => {}
            }
        }
    }

    fn check_combined(
        &self,
        keywords: &Map<String, Value>,
        value: &Value,
        at: Place<'_>,
        depth: usize,
        problems: &mut Vec<String>,
    ) {
        let list = |name: &str| keywords.get(name).and_then(Value::as_array);
        let valid = |schema: &&Value| self.is_valid(schema, value, depth + 1);
        if list("anyOf").is_some_and(|all| !all.iter().any(|schema| valid(&schema))) {
            problems.push(format!("{}: fits none of the forms that are allowed", at.in_words()));
        }
        if let Some(all) = list("oneOf") {
            let count = all.iter().filter(valid).count();
            if count != 1 {
                let place = at.in_words();
                problems.push(format!("{place}: fits {count} of the forms that are allowed, and must fit one"));
            }
        }
        if keywords.get("not").is_some_and(|schema| valid(&schema)) {
            problems.push(format!("{}: has a form that is forbidden", at.in_words()));
        }
        for schema in list("allOf").into_iter().flatten() {
            self.check(schema, value, at, depth + 1, problems);
        }
        if let Some(condition) = keywords.get("if")
            && let Some(schema) = keywords.get(if valid(&condition) { "then" } else { "else" })
        {
            self.check(schema, value, at, depth + 1, problems);
        }
        if let Some(schema) = keywords.get("$ref").and_then(Value::as_str).and_then(|place| find(self.root, place)) {
            self.check(schema, value, at, depth + 1, problems);
        }
    }
}

/// The answer without a code block around it.
fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    let inner = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.and_then(|inner| inner.split_once('\n')).map_or(answer, |(_, body)| body)
}

fn check_self(keywords: &Map<String, Value>, value: &Value, say: &mut dyn FnMut(String)) {
    if let Some(types) = keywords.get("type") {
        let is = |name: &Value| name.as_str().is_some_and(|name| is_of_type(value, name));
        let holds = types.as_array().map_or_else(|| is(types), |types| types.iter().any(is));
        if !holds {
            let all = types.as_array().map_or_else(|| vec![types], |types| types.iter().collect());
            let words: Vec<&str> = all.into_iter().filter_map(Value::as_str).map(type_in_words).collect();
            say(format!("must be {}", words.join(" or ")));
        }
    }
    if let Some(Value::Array(values)) = keywords.get("enum")
        && !values.iter().any(|allowed| same(allowed, value))
    {
        let words: Vec<String> = values.iter().map(Value::to_string).collect();
        say(format!("must be one of {}", words.join(", ")));
    }
    if let Some(only) = keywords.get("const")
        && !same(only, value)
    {
        say(format!("must be {only}"));
    }
}

fn type_in_words(name: &str) -> &str {
    match name {
        "array" => "a list",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "object" => "an object",
        "string" => "a string",
        name => name,
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
        Value::Number(number) => {
            name == "number"
                || (name == "integer"
                    && (!number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)))
        }
    }
}

/// Returns whether two values are equal; numbers are compared by amount, however they are written.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => left == right,
    }
}

fn check_number(keywords: &Map<String, Value>, number: &serde_json::Number, say: &mut dyn FnMut(String)) {
    let Some(amount) = number.as_f64() else { return };
    type Holds = fn(f64, f64) -> bool;
    let rules: [(&str, Holds, &str); 5] = [
        ("minimum", |a, b| a >= b, "must be at least"),
        ("maximum", |a, b| a <= b, "must be at most"),
        ("exclusiveMinimum", |a, b| a > b, "must be above"),
        ("exclusiveMaximum", |a, b| a < b, "must be below"),
        ("multipleOf", |a, b| ((a / b) - (a / b).round()).abs() < 1e-9, "must be a multiple of"),
    ];
    for (keyword, holds, words) in rules {
        if let Some(limit) = keywords.get(keyword).and_then(Value::as_f64)
            && !holds(amount, limit)
        {
            say(format!("{words} {limit}"));
        }
    }
}

fn check_count(
    keywords: &Map<String, Value>,
    least: &str,
    most: &str,
    count: usize,
    of: &str,
    say: &mut dyn FnMut(String),
) {
    let limit = |name: &str| keywords.get(name).and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
    if let Some(least) = limit(least).filter(|least| count < *least) {
        say(format!("has {count} {of} and must have at least {least}"));
    }
    if let Some(most) = limit(most).filter(|most| count > *most) {
        say(format!("has {count} {of} and must have at most {most}"));
    }
}

/// Finds the target of a reference within the schema.
fn find<'a>(root: &'a Value, place: &str) -> Option<&'a Value> {
    let place = place.strip_prefix('#')?;
    if place.contains(['%', '~']) {
        return root.pointer(&place.replace("%25", "%"));
    }
    // A reference without escapes is resolved without copying its names.
    let mut names = place.split('/');
    if !names.next()?.is_empty() {
        return None;
    }
    names.try_fold(root, |value, name| match value {
        Value::Object(members) => members.get(name),
        _ => value.pointer(&format!("/{name}")),
    })
}

/// Checks that a schema is usable.
fn check_schema(root: &Value, schema: &Value, at: &str, depth: usize) -> Result<(), String> {
    let keywords = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(keywords) if depth <= DEPTH_MAX => keywords,
        Value::Object(_) => return Err(format!("{at}: schemas within more than {DEPTH_MAX} others aren't read")),
        _ => return Err(format!("{at}: a schema is an object, true or false")),
    };
    for (name, value) in keywords {
        let place = format!("{at}/{name}");
        let wrong = |what: &str| Err(format!("{place}: must be {what}"));
        match name.as_str() {
            name if ANNOTATIONS.contains(&name) => {}
            "const" => {}
            "enum" if !value.is_array() => return wrong("a list"),
            "enum" => {}
            "type" => {
                let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
                if !known(value) && !value.as_array().is_some_and(|list| list.iter().all(known)) {
                    return wrong("the name of a type or a list of them");
                }
            }
            "$ref" => match value.as_str() {
                Some(place) if place.starts_with('#') && find(root, place).is_some() => {}
                _ => return wrong("a place in this schema that is there, such as #/$defs/name"),
            },
            "required" if !is_names(value) => return wrong("a list of names"),
            "required" => {}
            "dependentRequired" if !value.as_object().is_some_and(|all| all.values().all(is_names)) => {
                return wrong("lists of names, by name");
            }
            "dependentRequired" => {}
            "uniqueItems" if !value.is_boolean() => return wrong("true or false"),
            "uniqueItems" => {}
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => {
                return wrong("a number");
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {}
            "multipleOf" if !value.as_f64().is_some_and(|by| by > 0.0) => return wrong("a number above 0"),
            "multipleOf" => {}
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                if !value.is_u64() {
                    return wrong("a whole number from 0");
                }
            }
            "$defs" | "definitions" | "properties" => {
                let Some(all) = value.as_object() else { return wrong("schemas by name") };
                for (name, schema) in all {
                    check_schema(root, schema, &format!("{place}/{name}"), depth + 1)?;
                }
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let Some(all) = value.as_array().filter(|all| !all.is_empty()) else {
                    return wrong("a list of schemas");
                };
                for (index, schema) in all.iter().enumerate() {
                    check_schema(root, schema, &format!("{place}/{index}"), depth + 1)?;
                }
            }
            "additionalProperties" | "items" | "propertyNames" | "not" | "if" | "then" | "else" => {
                check_schema(root, value, &place, depth + 1)?;
            }
            _ => return Err(format!("{place}: this keyword isn't checked here")),
        }
    }
    Ok(())
}

/// A schema without the unknown keywords, at any depth that is read.
fn without_unknown(schema: &Value, depth: usize) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    if depth > DEPTH_MAX {
        return schema.clone();
    }
    let below = |schema: &Value| without_unknown(schema, depth + 1);
    let cleaned = keywords.iter().filter_map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("$defs" | "definitions" | "properties", Value::Object(all)) => {
                all.iter().map(|(name, schema)| (name.clone(), below(schema))).collect::<Map<_, _>>().into()
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => all.iter().map(below).collect(),
            ("additionalProperties" | "items" | "propertyNames" | "not" | "if" | "then" | "else", value) => {
                below(value)
            }
            (known, value) if KEYWORDS.contains(&known) || ANNOTATIONS.contains(&known) => value.clone(),
            _ => return None,
        };
        Some((name.clone(), value))
    });
    cleaned.collect::<Map<_, _>>().into()
}

fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema(value: Value) -> Schema {
        Schema::new(value).expect("a schema")
    }

    #[test]
    fn each_keyword_refuses_and_accepts() {
        let person = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
        let table = [
            (json!({"type": "integer"}), vec![json!(1), json!(2.0)], vec![json!(1.5), json!("1"), json!(null)]),
            (json!({"type": ["string", "null"]}), vec![json!("a"), json!(null)], vec![json!(1), json!([])]),
            (json!({"type": "number"}), vec![json!(1), json!(1.5)], vec![json!(true)]),
            (json!({"enum": [1, "a"]}), vec![json!(1.0), json!("a")], vec![json!(2)]),
            (json!({"const": {"a": 1}}), vec![json!({"a": 1})], vec![json!({"a": 2})]),
            (person.clone(), vec![json!({"age": 1, "x": 2})], vec![json!({}), json!({"age": "1"}), json!([])]),
            (
                json!({"properties": {"a": true}, "additionalProperties": false}),
                vec![json!({"a": 1}), json!(3)],
                vec![json!({"b": 1})],
            ),
            (json!({"additionalProperties": {"type": "null"}}), vec![json!({"b": null})], vec![json!({"b": 1})]),
            (json!({"propertyNames": {"maxLength": 2}}), vec![json!({"ab": 1})], vec![json!({"abc": 1})]),
            (
                json!({"dependentRequired": {"a": ["b"]}}),
                vec![json!({"a": 1, "b": 2}), json!({"c": 1})],
                vec![json!({"a": 1})],
            ),
            (
                json!({"minProperties": 1, "maxProperties": 2}),
                vec![json!({"a": 1})],
                vec![json!({}), json!({"a": 1, "b": 1, "c": 1})],
            ),
            (
                json!({"items": {"type": "string"}, "prefixItems": [{"type": "null"}]}),
                vec![json!([null, "a"])],
                vec![json!(["a"]), json!([null, 1])],
            ),
            (
                json!({"minItems": 1, "maxItems": 2, "uniqueItems": true}),
                vec![json!([1]), json!([1, 2])],
                vec![json!([]), json!([1, 2, 3]), json!([1, 1.0])],
            ),
            (json!({"minLength": 2, "maxLength": 3}), vec![json!("日本"), json!(1)], vec![json!("a"), json!("abcd")]),
            (json!({"minimum": 1, "maximum": 3}), vec![json!(1), json!(3)], vec![json!(0.9), json!(3.1)]),
            (json!({"exclusiveMinimum": 1, "exclusiveMaximum": 3}), vec![json!(2)], vec![json!(1), json!(3)]),
            (json!({"multipleOf": 0.1}), vec![json!(0.3), json!(2)], vec![json!(0.25)]),
            (json!({"anyOf": [{"type": "null"}, {"minimum": 3}]}), vec![json!(null), json!(4)], vec![json!(2)]),
            (
                json!({"oneOf": [{"type": "integer"}, {"minimum": 3}]}),
                vec![json!(2), json!(3.5)],
                vec![json!(4), json!(1.5)],
            ),
            (json!({"allOf": [{"type": "integer"}, {"minimum": 3}]}), vec![json!(3)], vec![json!(2), json!(3.5)]),
            (json!({"not": {"type": "null"}}), vec![json!(1)], vec![json!(null)]),
            (
                json!({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}}),
                vec![json!("ab"), json!(null)],
                vec![json!("a"), json!(1)],
            ),
            (json!({"$ref": "#/$defs/p", "$defs": {"p": person}}), vec![json!({"age": 3})], vec![json!({})]),
            (
                json!({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "null"}}}),
                vec![json!(null)],
                vec![json!(1)],
            ),
            (json!({"title": "t", "format": "email"}), vec![json!("no email")], vec![]),
            (json!(true), vec![json!(1)], vec![]),
            (json!(false), vec![], vec![json!(1)]),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for (written, valid, invalid) in table {
            for keyword in KEYWORDS.iter().filter(|keyword| written.to_string().contains(&format!("\"{keyword}\":"))) {
                seen.insert(*keyword);
            }
            let schema = schema(written.clone());
            for value in valid {
                assert_eq!(schema.problems(&value), Vec::<String>::new(), "{written} {value}");
            }
            for value in invalid {
                assert_ne!(schema.problems(&value), Vec::<String>::new(), "{written} {value}");
            }
        }
        assert_eq!(seen.len(), KEYWORDS.len(), "a keyword has no case: {seen:?}");
    }

    #[test]
    fn unchecked_keywords_are_refused() {
        for (written, place) in [
            (json!({"pattern": "^a"}), "#/pattern"),
            (json!({"properties": {"a": {"minContains": 1}}}), "#/properties/a/minContains"),
            (json!({"$ref": "http://elsewhere/x"}), "#/$ref"),
            (json!({"$ref": "#/$defs/none"}), "#/$ref"),
            (json!({"type": "text"}), "#/type"),
            (json!({"minLength": -1}), "#/minLength"),
            (json!({"multipleOf": 0}), "#/multipleOf"),
            (json!({"required": "a"}), "#/required"),
            (json!({"anyOf": []}), "#/anyOf"),
            (json!([]), "#"),
        ] {
            let problem = Schema::new(written.clone()).expect_err(&written.to_string());
            assert!(problem.starts_with(&format!("{place}: ")), "{written}: {problem}");
        }
    }

    #[test]
    fn problems_name_their_place() {
        let schema = schema(json!({"properties": {"a": {"items": {"type": "string"}}}, "required": ["b"]}));
        assert_eq!(schema.problems(&json!({"a": ["x", 1]})), ["/b: is missing", "/a/1: must be a string"]);
    }

    #[test]
    fn an_answer_is_read_bare_or_from_its_block() {
        let schema = schema(json!({"type": "object"}));
        for answer in ["{\"a\": 1}", " {\"a\":1}\n", "```json\n{\"a\": 1}\n```", "```\n{\"a\": 1}\n```\n"] {
            let text = schema.read(answer).expect(answer);
            assert_eq!(serde_json::from_str::<Value>(text).ok(), Some(json!({"a": 1})), "{answer}");
        }
        for answer in ["", "Here: {\"a\": 1}", "{\"a\": 1} {}", "[]", "```json\n{\"a\"\n```"] {
            assert!(schema.read(answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn a_reference_to_itself_ends() {
        let endless = schema(json!({"$ref": "#"}));
        assert_ne!(endless.problems(&json!(1)), Vec::<String>::new());
        let doubling = schema(json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}));
        assert_ne!(doubling.problems(&json!(1)), Vec::<String>::new());
        let tree = schema(json!({"type": "array", "items": {"$ref": "#"}}));
        assert_eq!(tree.problems(&json!([[], [[]]])), Vec::<String>::new());
        assert_ne!(tree.problems(&json!([[], [[1]]])), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in any::<String>(), depth in 0usize..300) {
            let schema = schema(json!({"type": "array", "items": {"$ref": "#"}}));
            if let Ok(read) = schema.read(&text) {
                prop_assert!(text.contains(read) && serde_json::from_str::<Value>(read).is_ok_and(|it| it.is_array()), "{}", read);
            }
            // Each list and each reference adds a level.
            let is_read = schema.read(&format!("{}{}", "[".repeat(depth), "]".repeat(depth))).is_ok();
            prop_assert!(is_read || !(1..DEPTH_MAX / 2).contains(&depth), "{}", depth);
            prop_assert!(!is_read || depth <= DEPTH_MAX, "{}", depth);
        }
    }
}
