//! The routes as the OpenAPI document lists them, each with a minimal body, for tests that go through all of them.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use super::history::is_long;
use super::{Answer, Client, Gateway, allowed, home, is_on_server, run, token};
use crate::need;

/// One operation of the document.
#[derive(Clone, Debug)]
pub struct Row {
    pub method: String,
    /// The path with the names of its parameters in braces.
    pub path: String,
    /// The smallest body that its schema allows.
    pub body: Option<Value>,
    /// The content type of a body that isn't JSON.
    pub raw: Option<String>,
    /// True if the route answers without a token.
    pub is_public: bool,
    /// The statuses that it may return.
    pub statuses: Vec<u16>,
}

impl Row {
    /// The path with each parameter replaced.
    pub fn path_with(&self, value: impl Fn(&str) -> String) -> String {
        let part = |part: &str| match part.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
            Some(name) => value(name),
            None => part.to_owned(),
        };
        self.path.split('/').map(part).collect::<Vec<_>>().join("/")
    }

    /// Sends a request for the operation. For a stream only the head is read.
    pub fn send(&self, client: &Client<'_>, path: &str) -> Answer {
        let is_stream = path.starts_with("/sse/");
        let mut headers: Vec<(String, String)> = client.headers.clone();
        let body = self.body.as_ref().map(ToString::to_string).unwrap_or_default();
        if let Some(kind) = &self.raw {
            headers.push(("Content-Type".into(), kind.clone()));
            headers.push(("X-Artifact-Name".into(), "file".into()));
        }
        let body = if self.raw.is_some() { "1,2\n" } else { body.as_str() };
        let pairs: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if !is_stream {
            return client.gateway.send(&self.method, path, &pairs, body);
        }
        let mut reader = BufReader::new(client.gateway.open(&self.method, path, &pairs, body));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).expect("a head") > 0, "{head}");
        }
        if head.starts_with("HTTP/1.1 200") {
            return Answer::read(head.as_bytes());
        }
        let mut bytes = head.into_bytes();
        std::io::Read::read_to_end(&mut reader, &mut bytes).expect("an answer");
        Answer::read(&bytes)
    }
}

/// All operations.
pub fn rows(home: &Path) -> Vec<Row> {
    let (status, out, err) = run(home, &["gateway", "openapi"]);
    assert_eq!(status, Some(0), "{err}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let mut rows = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let content = operation["requestBody"]["content"].as_object();
            let json = content.filter(|it| it.len() == 1).and_then(|content| content.get("application/json"));
            let raw = content.filter(|_| json.is_none()).map(|content| {
                let is_text = |kind: &&String| ["text/csv", "application/x-ndjson"].contains(&kind.as_str());
                content.keys().find(is_text).expect("a file of plain text").clone()
            });
            rows.push(Row {
                method: method.to_uppercase(),
                path: path.clone(),
                body: json.map(|json| instance("", &json["schema"])),
                raw,
                // Metrics need a token, except from this machine.
                is_public: operation.get("security").is_none() || path == "/metrics",
                statuses: operation["responses"]
                    .as_object()
                    .expect("answers")
                    .keys()
                    .map(|status| status.parse().expect("a status"))
                    .collect(),
            });
        }
    }
    assert!(rows.len() > 60, "{}", rows.len());
    rows
}

/// A minimal value that a schema allows; names that mean a time get a valid time.
fn instance(name: &str, schema: &Value) -> Value {
    if let Some(other) = schema.get("else") {
        return instance(name, other);
    }
    if let Some(value) = schema.get("const").or_else(|| schema.get("enum").map(|all| &all[0])) {
        return value.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("object") => {
            let needed = schema["required"].as_array().cloned().unwrap_or_default();
            let field = |name: &Value| {
                let name = name.as_str().expect("a name").to_owned();
                let value = instance(&name, &schema["properties"][&name]);
                (name, value)
            };
            needed.iter().map(field).collect::<serde_json::Map<_, _>>().into()
        }
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(0);
            (0..count).map(|_| instance(name, &schema["items"])).collect()
        }
        Some("integer" | "number") => schema["minimum"].as_i64().unwrap_or(0).into(),
        Some("boolean") => true.into(),
        Some("string") if name == "valid_until" => {
            (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string().into()
        }
        Some("string") if name == "event_type" => "x.step".into(),
        Some("string") => "x".repeat(usize::try_from(schema["minLength"].as_u64().unwrap_or(1)).expect("small")).into(),
        _ => json!({}),
    }
}

/// Routes whose data belongs to no tenant: those of the installation, and those that a signature identifies.
fn is_shared(row: &Row) -> bool {
    row.is_public || row.path.starts_with("/registry/")
}

/// Creates one thing of each kind in a tenant; returns the ids for the path of a route.
fn things(home: &Path, zoe: &Client<'_>) -> impl Fn(&Row, &str) -> String {
    let made = |answer: Answer, name: &str| {
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer.json()[name].as_str().unwrap_or_default().to_owned()
    };
    let ops = json!([{"op": "create", "atom": {"id": "a", "type": "note", "order": "m", "props": {"t": "secret"}}}]);
    let command = json!({"base_rev": 0, "ops": ops, "idempotency_key": "first"});
    made(zoe.post("/canvas/their-board/commands", &command), "event_id");
    let (path, raw) = (String::new(), Some("text/csv".into()));
    let file = Row { method: "POST".into(), path, body: None, raw, is_public: false, statuses: Vec::new() };
    let artifact = made(file.send(zoe, "/canvas/their-board/artifacts"), "artifact_id");
    let until = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let licence = json!({"subject": {"user": "zoe"}, "actions": ["shell"], "valid_until": until, "reason": "secret"});
    let licence = made(zoe.post("/firearms/licences", &licence), "licence_id");
    let lock = json!({"scope": "*", "actions": ["time"], "valid_until": until, "reason": "secret"});
    let lock = made(zoe.post("/strategy-locks", &lock), "lock_id");
    let put = json!({"value": "secret", "expected_version": 0});
    made(zoe.write("PUT", "/blackboard/their-run/entries/plan", &put), "x");
    let write = json!({"action_name": "file_write", "subject_type": "run", "subject_id": "their-run",
        "args": {"path": "secret.txt", "content": "secret"}});
    let question = made(zoe.post("/actions/execute", &write), "question_id");
    let sql = "INSERT INTO run (tenant, run_id, project, \"user\", state, question, started_ms) VALUES \
               ('acme', 'their-run', 'default', 'zoe', 'answered', 'secret', 1)";
    super::change(home, sql);
    let sql = "INSERT INTO share (tenant, share_id, project, owner, kind, title, cols, rows, watch, approve, state, started_ms) \
               VALUES ('acme', 'their-share', 'default', 'zoe', 'shell', 'secret', 80, 24, '[\"*\"]', '[]', 'ended', 1)";
    super::change(home, sql);
    move |row, name| {
        match name {
            "canvas_id" => "their-board",
            "artifact_id" => &artifact,
            "question_id" => &question,
            "run_id" => "their-run",
            "share_id" => "their-share",
            "stream_id" => "blackboard%2Ftheir-run",
            "key" => "plan",
            "id" if row.path.starts_with("/firearms") => &licence,
            "id" if row.path.starts_with("/strategy-locks") => &lock,
            other => panic!("what is {other} of {}? Add it here", row.path),
        }
        .to_owned()
    }
}

#[test]
fn scenario_4_no_route_tells_another_tenants_id_from_one_that_does_not_exist() {
    let home = home();
    let gateway = Gateway::start(home.path());
    assert_eq!(run(home.path(), &["gateway", "tenant", "add", "acme"]).0, Some(0));
    let zoe = gateway.client(&token(home.path(), "zoe", "admin", &["--tenant", "acme"])).with("X-Tenant-Id", "acme");
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[])).with("X-Request-Id", "same");
    let theirs = things(home.path(), &zoe);
    let before = zoe.get("/events/list?limit=500").text;
    let mut walked = 0;
    for row in rows(home.path()).iter().filter(|row| row.path.contains('{') && !is_shared(row)) {
        let ids = |name: &str| theirs(row, name);
        let missing = |name: &str| if name == "key" { "plan".to_owned() } else { other_than(&ids(name)) };
        let (named, absent) = (row.path_with(ids), row.path_with(missing));
        let asked = allowed(|| row.send(&anna, &named));
        let known = allowed(|| row.send(&anna, &absent));
        assert_eq!(asked.status, known.status, "{} {named}: {asked:?}\n{known:?}", row.method);
        if asked.status >= 400 {
            assert_eq!(asked.text, known.text, "{} {named}", row.method);
        }
        assert!(!asked.text.contains("secret") && !asked.text.contains("zoe"), "{} {named}: {asked:?}", row.method);
        walked += 1;
    }
    assert!(walked >= 20, "{walked}");
    assert_eq!(zoe.get("/events/list?limit=500").text, before, "nothing of theirs has changed");
}

/// An id of the same form that doesn't exist.
fn other_than(id: &str) -> String {
    let (last, rest) = id.split_at(id.len() - 1);
    let _ = rest;
    format!("{last}{}", if id.ends_with('0') { '1' } else { '0' })
}

#[test]
fn scenario_42_every_route_refuses_in_the_one_form() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let rows = rows(home.path());
    // Each check has its own user, since a user's requests are limited.
    let secrets: Vec<String> = (0..8).map(|at| token(home.path(), &format!("user-{at}"), "admin", &[])).collect();
    let viewer = token(home.path(), "vera", "viewer", &["--kind", "agent"]);
    let mut only_for_others = 0;
    // Logging out would end the token that the other routes need.
    for row in rows.iter().filter(|row| !row.is_public && row.path != "/auth/logout") {
        let path = row.path_with(|_| "some".into());
        let client = |at: usize| gateway.client(&secrets[at]);
        let expect = |client: Client<'_>, path: &str, status: u16, code: &str| {
            let answer = allowed(|| row.send(&client, path));
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{} {path}", row.method);
            assert!(row.statuses.contains(&status), "{} {path}: {status} isn't in the document", row.method);
        };
        let named = client(0).with("X-Tenant-Id", "local").with("X-Project-Id", "default").with("X-Request-Id", "r");
        expect(named.with("X-Mode", "saas"), &path, 403, "mode_mismatch");
        expect(client(1).with("X-Tenant-Id", "none"), &path, 403, "not_a_member");
        expect(client(2).with("X-User-Id", "another"), &path, 403, "actor_mismatch");
        expect(client(3).with("X-Project-Id", "a b"), &path, 400, "identity_invalid");
        expect(client(4), &format!("{path}?no_such_name=1"), 400, "body_invalid");
        expect(client(6).with("Accept", "x/none"), &path, 406, "not_acceptable");
        if row.body.is_some() {
            let bearer = format!("Bearer {}", secrets[5]);
            let headers = [("Authorization", bearer.as_str())];
            for body in ["{", "[1]", "{\"no_such_field\": 1}"] {
                let answer = allowed(|| gateway.send(&row.method, &path, &headers, body));
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (400, "body_invalid"),
                    "{} {path} {body}",
                    row.method
                );
            }
            let headers = [("Authorization", bearer.as_str()), ("Content-Length", "40000000")];
            let answer = allowed(|| gateway.send(&row.method, &path, &headers, "{}"));
            assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"), "{} {path}", row.method);
            let headers = [("Authorization", bearer.as_str()), ("Content-Type", "text/plain")];
            let answer = allowed(|| gateway.send(&row.method, &path, &headers, "{}"));
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (415, "unsupported_media_type"),
                "{} {path}",
                row.method
            );
        }
        // With an agent's token of the lowest role, a route allows the request, returns `forbidden`, or doesn't find the thing.
        let answer = allowed(|| row.send(&gateway.client(&viewer), &path));
        assert!(row.statuses.contains(&answer.status), "{} {path} isn't so in the document: {answer:?}", row.method);
        if answer.status >= 400 {
            let code = answer.code();
            let known = ["forbidden", "not_found", "body_invalid", "precondition_required", "too_many_streams"];
            assert!(known.contains(&code.as_str()), "{} {path}: {code}", row.method);
            only_for_others += usize::from(code == "forbidden");
        }
    }
    assert!(only_for_others >= 25, "{only_for_others}");
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    for path in rows.iter().map(|row| &row.path).collect::<std::collections::BTreeSet<_>>() {
        let has = |method: &str| rows.iter().any(|row| row.path == *path && row.method == method);
        let wrong = methods.into_iter().find(|method| !has(method)).expect("a method that it hasn't");
        let path = path.split('/').map(|part| if part.starts_with('{') { "some" } else { part }).collect::<Vec<_>>();
        let kind = [("Content-Type", "application/json")];
        let answer = gateway.send(wrong, &path.join("/"), if wrong == "GET" { &[] } else { &kind }, "");
        let is_file = path.ends_with(&["artifacts"]) && answer.status == 415;
        assert!(answer.status == 405 || is_file, "{wrong} {path:?}: {answer:?}");
        assert!(is_file || answer.code() == "method_not_allowed" && !answer.headers["allow"].is_empty());
    }
}

#[test]
fn scenario_5_the_gateway_starts_tools_in_two_files_only_and_both_set_the_gates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gateway");
    let mut files = vec![root.clone()];
    let (mut starters, mut gated) = (Vec::new(), Vec::new());
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).expect("sources").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let name = path.strip_prefix(&root).expect("below").display().to_string();
        for forbidden in ["std::process", "crate::sandbox", "tools::Tool;"] {
            assert!(!text.contains(forbidden), "{name} has {forbidden}");
        }
        let mut words = text.split(|character: char| !character.is_alphanumeric());
        assert!(!words.any(|word| word == "Permit"), "{name} has Permit");
        if text.contains("runner.call(") || text.contains("runtime.answer(") {
            starters.push(name.clone());
        }
        if text.contains(".set_chain(") {
            gated.push(name);
        }
    }
    starters.sort();
    gated.sort();
    assert_eq!(starters, ["api/engine/actions.rs", "runs/answering.rs"]);
    assert_eq!(gated, starters);
}

#[test]
fn a_character_that_not_every_database_stores_is_refused_everywhere() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    assert_eq!(anna.get("/events/list?stream=a%00b").code(), "body_invalid");
    assert_eq!(anna.get("/canvas/a%00b/snapshot").code(), "not_found");
    for (name, value) in [("stream", "a\0b"), ("body", "a\0b"), ("run_id", "\0")] {
        let mut event = json!({"event_type": "x.step", "source": "ui", "run_id": "r", "body": {}});
        event[name] = value.into();
        assert_eq!(anna.post("/events/append", &event).code(), "body_invalid", "{name}");
    }
    let event = json!({"event_type": "x.step", "source": "ui", "run_id": "r", "body": {"text": "\\u0000"}});
    assert_eq!(anna.post("/events/append", &event).status, 201);
}

#[test]
fn scenario_43_schemathesis_finds_no_failure_and_nothing_undocumented() {
    let Some(place) = need::schemathesis() else { return };
    let home = home();
    // A database file uses the mode for one user; on a server tenants don't trust each other.
    let (mode, tenant) = if is_on_server(home.path()) { ("saas", "acme") } else { ("lab", "local") };
    if mode == "saas" {
        assert_eq!(run(home.path(), &["gateway", "tenant", "add", tenant, "--mode", mode]).0, Some(0));
    }
    let gateway = Gateway::start_mode(home.path(), mode);
    let token = token(home.path(), "anna", "admin", &["--tenant", tenant]);
    let (status, document, err) = run(home.path(), &["gateway", "openapi"]);
    assert_eq!(status, Some(0), "{err}");
    let path = home.path().join("openapi.json");
    std::fs::write(&path, document).expect("the document");
    let mut command = std::process::Command::new(place.join("bin/schemathesis"));
    command.args(["run", &path.display().to_string(), "--url", &format!("http://{}", gateway.address), "--no-color"]);
    command.env("SCHEMATHESIS_HOOKS", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/gateway/serializers.py"));
    // A stream doesn't end, a log-out or a stop would end the requests after it, and a question without a model is answered with
    // 502.
    command.args(["--exclude-path-regex", "^/(sse/|estop|auth/logout|chat)"]);
    // Creates entries for the lists.
    let ids = [("Authorization", format!("Bearer {token}")), ("X-Mode", mode.into()), ("X-Tenant-Id", tenant.into())];
    let ids: Vec<(&str, &str)> = ids.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let ids = [&ids[..], &[("X-Project-Id", "default"), ("X-Request-Id", "r-0")]].concat();
    let call = json!({"action_name": "time", "subject_type": "run", "subject_id": "r", "args": {}}).to_string();
    for _ in 0..2 {
        let done = gateway.send("POST", "/actions/execute", &ids, &call);
        assert_eq!(done.status, 200, "{done:?}");
    }
    let secret = format!("Authorization: Bearer {token}");
    let (mode, tenant) = (format!("X-Mode: {mode}"), format!("X-Tenant-Id: {tenant}"));
    for header in [&secret, &mode, &tenant, "X-User-Id: anna", "X-Project-Id: default", "X-Request-Id: r-1"] {
        command.args(["--header", header]);
    }
    let (examples, seconds) = if is_long() { ("500", "1200") } else { ("5", "25") };
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
    command.args(["--checks", checks, "--max-examples", examples, "--max-time", seconds]);
    command.args([
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--generation-database",
        "none",
        "--continue-on-failure",
        "--seed",
        "7",
    ]);
    let done = command.current_dir(home.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains("generated") && said.contains("passed"), "{said}");
}
