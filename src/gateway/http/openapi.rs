//! The OpenAPI 3.1 document, made from the table of routes: the schemas of bodies are those that requests are checked against.

use serde_json::{Map, Value, json};

use super::answers;
use super::route::{Needs, Route};
use crate::gateway::ROUTES;

/// Headers with the caller's identity and the ids of a request; in `lab` all of them have defaults.
pub(super) const HEADERS: [&str; 10] = [
    "X-Mode",
    "X-Tenant-Id",
    "X-Project-Id",
    "X-Request-Id",
    "X-Trace-Id",
    "X-Run-Id",
    "X-Step-Id",
    "X-Surface-Id",
    "X-App-Id",
    "X-User-Id",
];

/// Routes that a replica of the database may answer.
const BEHIND: [&str; 3] = ["/events/list", "/events/replay", "/realtime/timeline/{stream_id}/list"];

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
pub(super) const EVENTS: &str = "text/event-stream";

/// Makes the document.
#[must_use]
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES.iter().filter(|route| !is_page(route)) {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method().as_str().to_ascii_lowercase()] = operation(route);
    }
    let schema =
        |name: &str| if name == "X-Mode" { json!({"enum": ["saas", "enterprise", "lab"]}) } else { id_schema() };
    let header = |name: &str| (name.to_owned(), json!({"name": name, "in": "header", "schema": schema(name)}));
    let mut schemas = answers::shapes();
    schemas.insert("Error".into(), error_schema());
    let parameters: Map<String, Value> = HEADERS.iter().map(|name| header(name)).collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "ReedClaw gateway", "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"}},
        "servers": [{"url": format!("http://{}", crate::gateway::LISTEN)}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "parameters": parameters,
            "schemas": schemas,
        },
    })
}

/// Returns whether a route serves the console's files, which aren't part of the contract.
fn is_page(route: &Route) -> bool {
    route.path == "/" || route.path.starts_with("/ui/")
}

fn error_schema() -> Value {
    json!({
        "type": "object", "required": ["error"],
        "properties": {"error": {
            "type": "object", "required": ["code", "message", "request_id"],
            "properties": {
                "code": {"type": "string"}, "message": {"type": "string"}, "context": {"type": "object"},
                "expected_rev": {"type": "integer"}, "details": {"type": "object"}, "http_status": {"type": "integer"},
                "upstream": {"type": "string"}, "request_id": {"type": "string"},
            },
        }},
    })
}

fn operation(route: &Route) -> Value {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": path_schema(name)}));
    let in_query = route.query.iter().map(|name| json!({"name": name, "in": "query", "schema": query_schema(name)}));
    let is_known = route.needs != Needs::Nothing;
    let headers = HEADERS.iter().filter(|_| is_known);
    let headers = headers.map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    let may_be_behind = BEHIND.contains(&route.path);
    let behind = may_be_behind.then(|| {
        json!({"name": "X-Consistency", "in": "header", "schema": {"type": "string"},
        "description": "eventual: a replica of the database may answer"})
    });
    let parameters: Vec<Value> = in_path.chain(in_query).chain(headers).chain(behind).collect();
    let mut responses: Map<String, Value> =
        route.statuses.iter().map(|status| (status.to_string(), success(route, *status))).collect();
    let error = |description: &str| {
        json!({"description": description,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}})
    };
    responses.extend(errors(route).map(|(status, why)| (status.to_string(), error(why))));
    if route.path == "/health" {
        // The status of a health check, not an error.
        responses.insert("503".into(), success(route, 503));
    }
    let mut operation = json!({"summary": route.summary, "parameters": parameters, "responses": responses});
    if is_known {
        operation["security"] = json!([{"token": []}]);
    }
    if let Some(schema) = route.body {
        let schema: Value = serde_json::from_str(schema).unwrap_or_default();
        operation["requestBody"] = json!({"content": {"application/json": {"schema": in_place(schema)}}});
    }
    if !route.raw.is_empty() {
        let file = json!({"schema": {"type": "string", "format": "binary"}});
        let types: Map<String, Value> = route.raw.iter().map(|kind| ((*kind).to_owned(), file.clone())).collect();
        operation["requestBody"] = json!({"required": true, "content": types});
    }
    operation
}

/// Returns the answer with a status that isn't an error: its content types.
fn success(route: &Route, status: u16) -> Value {
    let mut answer = json!({"description": "done"});
    if !matches!(status, 204 | 302 | 304) {
        let schema = |kind: &str| match answers::schema(route).filter(|_| kind == JSON) {
            Some(schema) => json!({"schema": schema}),
            None => json!({}),
        };
        let kinds = types(route).iter().map(|kind| ((*kind).to_owned(), schema(kind)));
        answer["content"] = kinds.collect::<Map<_, _>>().into();
    }
    answer
}

/// Returns whether a route can answer a request with this `Accept`: with one of its own types, or with JSON, the type of errors.
pub(super) fn is_acceptable(route: &Route, accept: &str) -> bool {
    let kinds = || types(route).iter().copied().chain([JSON]);
    let names = |range: &str| match range.strip_suffix("/*") {
        Some("*") => true,
        Some(group) => kinds().any(|kind| kind.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))),
        None => kinds().any(|kind| kind.split(';').next().is_some_and(|kind| kind.eq_ignore_ascii_case(range))),
    };
    is_page(route)
        || accept.split(',').any(|it| {
            let mut parts = it.split(';').map(str::trim);
            let is_wanted = parts.next().is_some_and(names);
            is_wanted && !parts.any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)))
        })
}

/// The types of content that a route answers with.
fn types(route: &Route) -> &'static [&'static str] {
    match (route.method, route.path) {
        ("GET", "/metrics") => &["text/plain"],
        ("GET", "/admin/archive" | "/canvas/{canvas_id}/replay") => &[LINES],
        ("GET", "/events/replay") => &[JSON, LINES],
        ("GET", "/shares/{share_id}/recording") => &["application/x-asciicast"],
        ("GET", "/canvas/{canvas_id}/artifacts/{artifact_id}") => {
            let stored = ROUTES.iter().find(|it| it.method == "POST" && it.path == "/canvas/{canvas_id}/artifacts");
            stored.map_or(&[], |route| route.raw)
        }
        ("GET", "/shares/{share_id}/control") => &[EVENTS],
        ("GET", path) if path.starts_with("/sse/") => &[EVENTS],
        ("POST", "/chat") => &[JSON, EVENTS],
        _ => &[JSON],
    }
}

/// Returns the statuses of errors that a route can answer with. The tests' walk over all routes, and schemathesis, check answers
/// against them.
fn errors(route: &Route) -> impl Iterator<Item = (u16, &'static str)> {
    let is_write = route.method != "GET";
    let is_health = route.path == "/health";
    let names = |names: &[&str]| route.query.iter().any(|name| names.contains(name));
    let has_cursor = names(&["cursor", "after", "last_event_id", "after_event_id"]);
    let all = [
        (400, "a header, the query or the body isn't valid", true),
        (401, "nothing says who asks, or it doesn't count", !is_health),
        (403, "it isn't allowed, or a gate blocks it", true),
        (404, "there is no such thing here", !is_health),
        (406, "it has no type of content that the header Accept allows", true),
        (408, "the body didn't come in time", true),
        (409, "something else was there first", is_write),
        (410, "the cursor, question or session is over", has_cursor || is_write),
        (413, "it is too large", true),
        (415, "the body has another type", is_write),
        (421, "the header Host names something else", true),
        (422, "it can't be done with this content", is_write),
        (428, "the version that was read is missing", matches!(route.method, "PUT" | "PATCH")),
        (429, "too many requests or streams", true),
        (500, "the gateway failed", true),
        (502, "a provider failed, or the gateway that has it", is_passed_on(route)),
        (503, "the gateway or its database can't answer now", true),
    ];
    all.into_iter().filter(|(.., can_be)| *can_be).map(|(status, why, _)| (status, why))
}

/// Returns whether a request to a route may be forwarded to another gateway.
fn is_passed_on(route: &Route) -> bool {
    matches!(route.path, "/chat" | "/sse/runs/{run_id}" | "/runs/{run_id}/cancel")
}

/// Returns the schema of a name in a path: an id, or for a stream, several of them.
fn path_schema(name: &str) -> Value {
    match name {
        "stream_id" => json!({"type": "string", "pattern": "^[A-Za-z0-9._:/-]{1,200}$"}),
        "key" => json!({"type": "string", "minLength": 1, "maxLength": 256}),
        _ => id_schema(),
    }
}

fn query_schema(name: &str) -> Value {
    match name {
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": super::call::LIMIT_MAX}),
        "after" | "before" => json!({"type": "integer", "minimum": 0}),
        "cursor" => json!({"type": "string", "maxLength": 256}),
        "last_event_id" | "after_event_id" => {
            json!({"type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,18}$"})
        }
        "apply" | "active" => json!({"enum": ["true", "false"]}),
        "scope" => json!({"enum": ["session", "project", "tenant"]}),
        "run_id" | "user" | "id" | "surface_id" => id_schema(),
        _ => json!({"type": "string", "maxLength": 200}),
    }
}

fn id_schema() -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"})
}

/// A schema with its own definitions put in the place of references, since `#` is the whole document here.
fn in_place(schema: Value) -> Value {
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    replaced(schema, &definitions)
}

fn replaced(value: Value, definitions: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let named = fields.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
            if let Some(definition) = named.and_then(|name| definitions.get(name)) {
                return replaced(definition.clone(), definitions);
            }
            let rest = fields.into_iter().filter(|(name, _)| name != "$defs");
            rest.map(|(name, field)| (name, replaced(field, definitions))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(|item| replaced(item, definitions)).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::schema::Schema;

    #[test]
    fn the_document_has_every_route_once_and_its_schemas_can_be_read() {
        let document = document();
        let mut seen = BTreeSet::new();
        for route in ROUTES {
            let method = route.method().as_str().to_ascii_lowercase();
            assert!(seen.insert((route.path, method.clone())), "{method} {} is there twice", route.path);
            if is_page(route) {
                assert!(document["paths"][route.path].is_null(), "{}", route.path);
                continue;
            }
            let operation = &document["paths"][route.path][&method];
            let responses = operation["responses"].as_object().expect("answers");
            assert!(responses.contains_key("503") && !responses.contains_key("default"), "{method} {}", route.path);
            let error = "/content/application~1json/schema/$ref";
            for (status, answer) in responses {
                let is_empty = matches!(status.as_str(), "204" | "302" | "304");
                assert_eq!(answer["content"].is_null(), is_empty, "{method} {} {status}", route.path);
                let is_error = status.starts_with(['4', '5']) && (route.path, status.as_str()) != ("/health", "503");
                let has_error = answer.pointer(error).is_some_and(|name| name == "#/components/schemas/Error");
                assert_eq!(has_error, is_error, "{method} {} {status}", route.path);
            }
            let json = "/content/application~1json";
            for answer in responses.values().filter(|answer| answer.pointer(json).is_some()) {
                assert!(answer.pointer(&format!("{json}/schema")).is_some(), "{method} {}", route.path);
            }
            if let Some(schema) = route.body {
                let schema: Value = serde_json::from_str(schema).expect("JSON");
                Schema::new(schema).unwrap_or_else(|why| panic!("{}: {why}", route.path));
            }
        }
        assert!(!document.to_string().contains("$defs"));
        let routes: BTreeSet<String> = ROUTES.iter().map(|it| format!("{} {}", it.method, it.path)).collect();
        let answers: Value = serde_json::from_str(include_str!("../../../config/schema/gateway.json")).expect("JSON");
        for (route, answer) in answers["answers"].as_object().expect("answers") {
            assert!(routes.contains(route), "{route} is no route");
            let mut schema = answer.clone();
            schema["$defs"] = answers["$defs"].clone();
            Schema::new(schema).unwrap_or_else(|why| panic!("{route}: {why}"));
        }
    }
}
