//! Figures and their rules, files and gestures on a canvas, routes to back-ends, and the registry.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::streams::Reader;
use super::{Answer, Client, Gateway, allowed, home, home_with, run, token};
use crate::pty::{Session, Spawn, program, status_code};

fn execute(client: &Client<'_>, name: &str, args: Value) -> Answer {
    client
        .post("/actions/execute", &json!({"action_name": name, "subject_type": "run", "subject_id": "r", "args": args}))
}

fn kpi(home: &std::path::Path, args: &[&str]) {
    let (status, _, err) = run(home, &[&["gateway", "tenant", "kpi", "local"], args].concat());
    assert_eq!(status, Some(0), "{err}");
}

fn figure(client: &Client<'_>, name: &str) -> Value {
    let items = client.get("/analytics/kpis").json()["items"].clone();
    items.as_array().expect("items").iter().find(|it| it["kpi"] == name).cloned().unwrap_or_default()
}

fn board(client: &Client<'_>) {
    let ops = json!([{"op": "create", "atom": {"id": "a", "type": "note", "order": "m", "props": {}}}]);
    let body = json!({"base_rev": 0, "ops": ops, "idempotency_key": "first"});
    assert_eq!(client.post("/canvas/board/commands", &body).status, 200);
}

#[test]
fn scenario_11_a_rule_over_failures_trips_and_recovers_when_its_window_has_passed() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    kpi(home.path(), &["error_rate", "at-most", "0.5", "--window", "1m", "--samples", "3"]);
    assert_eq!(execute(&client, "time", json!({})).status, 200);
    for _ in 0..2 {
        let failed = execute(&client, "file_read", json!({"path": "no-such-file"}));
        assert_eq!(failed.json()["status"], "failed", "{failed:?}");
    }
    let blocked = execute(&client, "time", json!({}));
    assert_eq!(blocked.code(), "kpi", "{blocked:?}");
    let context = &blocked.json()["error"]["context"];
    assert_eq!(
        (&context["kpi"], &context["threshold"], &context["samples"]),
        (&json!("error_rate"), &json!(0.5), &json!(3))
    );
    assert_eq!(figure(&client, "error_rate")["broken"], true);
    // Calls that the rule blocks aren't failures, so they don't prolong the block: once the window has passed, calls are admitted
    // again.
    super::change(home.path(), "UPDATE figure SET at_ms = at_ms - 60001");
    assert_eq!(execute(&client, "time", json!({})).status, 200);
    let times = figure(&client, "p95_ms");
    assert!(times["samples"].as_i64() >= Some(3) && times["value"].is_number(), "{times}");
    // A rule about one action doesn't affect others; without a rule nothing is blocked.
    kpi(home.path(), &["latency", "at-most", "10", "--action", "time", "--samples", "1"]);
    let body = json!({"events": [{"kpi": "latency", "value": 12.5, "action_name": "time", "event_id": "once"}]});
    let first = client.post("/analytics/ingest", &body);
    assert_eq!((first.status, &first.json()["accepted"]), (202, &json!(1)), "{first:?}");
    assert_eq!(client.post("/analytics/ingest", &body).json()["duplicates"], 1);
    assert_eq!(execute(&client, "time", json!({})).code(), "kpi");
    assert_eq!(execute(&client, "file_list", json!({"path": "."})).status, 200);
    kpi(home.path(), &["latency", "none", "--action", "time"]);
    assert_eq!(execute(&client, "time", json!({})).status, 200);
    let own = json!({"events": [{"kpi": "error_rate", "value": 0}]});
    assert_eq!(client.post("/analytics/ingest", &own).code(), "schema_invalid");
    let told = client.get("/events/list?type=analytics").json();
    assert_eq!(told["items"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(super::verify(home.path()).0, Some(0));
}

#[test]
fn scenario_35_movements_reach_those_who_look_and_are_stored_nowhere() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let gesture = || client.post("/canvas/board/gestures", &json!({"kind": "cursor", "x": 10, "y": 20.5}));
    assert_eq!(gesture().code(), "not_found");
    board(&client);
    let mut here = Reader::new(client.open("/sse/canvas/board"));
    let mut whole = Reader::new(client.open("/sse/tenant?topics=canvas:board"));
    let elsewhere = client.with("X-Project-Id", "other");
    assert_eq!(elsewhere.get("/sse/tenant?topics=canvas:board").code(), "not_found");
    for reader in [&mut here, &mut whole] {
        while reader.expect("system").2["kind"] != "caught_up" {}
    }
    let positions = client.get("/status").json()["positions"].clone();
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < Duration::from_secs(1) || sent < 100 {
        let answer = gesture();
        // The limit on all requests may be reached, too.
        assert!(matches!(answer.status, 202 | 429), "{answer:?}");
        sent += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let after = allowed(|| client.get("/status")).json()["positions"].clone();
    assert_eq!(after, positions, "nothing is in the log");
    for reader in [&mut here, &mut whole] {
        let (id, _, data) = reader.expect("gesture");
        assert!(data["routing"].get("surface_id").is_none(), "{data}");
        assert_eq!((id, &data["actor"], &data["body"]["x"]), (None, &json!("anna"), &json!(10)));
    }
    // A commit ends the count.
    let ops = json!([{"op": "set", "id": "a", "path": "/n", "value": 1}]);
    let body = json!({"base_rev": 1, "ops": ops, "idempotency_key": "second"});
    assert_eq!(allowed(|| client.post("/canvas/board/commands", &body)).status, 200);
    let mut shown = 1;
    loop {
        let (_, event, _) = here.next().expect("a frame");
        match event.as_str() {
            "gesture" => shown += 1,
            "op_committed" => break,
            _ => {}
        }
    }
    assert!(f64::from(shown) <= 21.0 + 20.0 * seconds, "{shown} of {sent} in {seconds} s");
    let off = allowed(|| client.post("/admin/flags", &json!({"flag": "canvas.gestures", "on": false})));
    assert_eq!(off.status, 200, "{off:?}");
    assert_eq!(allowed(gesture).code(), "feature_off");
    let on = json!({"flag": "canvas.gestures", "on": true});
    assert_eq!(allowed(|| client.post("/admin/flags", &on)).status, 200);
    // A flag without its own value has the default.
    let flag = || allowed(|| client.get("/admin/flags")).json()["items"][0].clone();
    assert_eq!((&flag()["flag"], &flag()["on"]), (&json!("canvas.gestures"), &json!(true)));
    let forget = |flag: &str| allowed(|| client.delete(&format!("/admin/flags?flag={flag}")));
    assert_eq!(forget("canvas.gestures").status, 204);
    assert_eq!((&flag()["on"], &flag()["usual"]), (&Value::Null, &json!(true)));
    for (flag, code) in [("canvas.gestures", "not_found"), ("roles", "not_found")] {
        assert_eq!(forget(flag).code(), code);
    }
    assert_eq!(allowed(|| client.delete("/admin/flags")).code(), "body_invalid");
    assert_eq!(allowed(|| client.post("/estop", &json!({"scope": "tenant"}))).status, 200);
    assert_eq!(allowed(gesture).code(), "kill_switch");
}

fn upload(gateway: &Gateway, secret: &str, (kind, name): (&str, &str), bytes: &[u8]) -> Answer {
    let (bearer, length) = (format!("Bearer {secret}"), bytes.len().to_string());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", kind),
        ("X-Artifact-Name", name),
        ("Content-Length", length.as_str()),
    ];
    let mut socket: TcpStream = gateway.open("POST", "/canvas/board/artifacts", &headers, "");
    // The gateway may have closed the socket after it refused the body.
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut socket, &mut answer);
    Answer::read(&answer)
}

#[test]
fn scenario_36_a_file_is_what_its_type_says_and_is_only_downloaded() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let secret = token(home.path(), "anna", "member", &[]);
    let client = gateway.client(&secret);
    let png = b"\x89PNG\r\n\x1a\nand the rest";
    assert_eq!(upload(&gateway, &secret, ("image/png", "a.png"), png).code(), "not_found");
    board(&client);
    let stored = upload(&gateway, &secret, ("image/png", "a plan.png"), png);
    assert_eq!(stored.status, 201, "{stored:?}");
    let id = stored.json()["artifact_id"].as_str().expect("an id").to_owned();
    assert_eq!((&stored.json()["sha256"], &stored.json()["bytes"]), (&json!(id), &json!(png.len())));
    assert_eq!(upload(&gateway, &secret, ("image/png", "again.png"), png).status, 200);
    let path = format!("/canvas/board/artifacts/{id}");
    let back = client.get(&path);
    let header = |name: &str| back.headers.get(name).map(String::as_str);
    assert_eq!(header("content-disposition"), Some("attachment; filename=\"a plan.png\""));
    assert_eq!((header("content-type"), header("x-content-type-options")), (Some("image/png"), Some("nosniff")));
    assert!(header("content-security-policy").is_some_and(|policy| policy.contains("sandbox")));
    assert!(back.text.ends_with("and the rest"), "{back:?}");
    assert_eq!(client.with("X-Project-Id", "other").get(&path).code(), "not_found");
    let types = [
        ("text/html", "<script>"),
        ("image/svg+xml", "<svg>"),
        ("text/plain", "a"),
        ("image/png", "no picture"),
        ("", "a"),
    ];
    for (kind, content) in types {
        let refused = upload(&gateway, &secret, (kind, "x"), content.as_bytes());
        assert_eq!(refused.code(), "unsupported_media_type", "{kind}: {refused:?}");
    }
    for name in ["../x", "a/b", "..", ".hidden", "a\"b", "a;b", "C:x", "a\\b", "x%2f"] {
        assert_eq!(upload(&gateway, &secret, ("text/csv", name), b"1").code(), "body_invalid", "{name}");
    }
    let limit = 32 * 1024 * 1024;
    assert_eq!(upload(&gateway, &secret, ("application/octet-stream", "large"), &vec![7; limit]).status, 201);
    assert_eq!(
        upload(&gateway, &secret, ("application/octet-stream", "larger"), &vec![7; limit + 1]).code(),
        "too_large"
    );
    // Other types than JSON don't open other paths.
    let bearer = format!("Bearer {secret}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "text/csv")];
    assert_eq!(gateway.send("POST", "/memory", &headers, "1").code(), "unsupported_media_type");
    let noted = client.post("/canvas/board/audits", &json!({"kind": "review", "report": {"ok": true}}));
    assert_eq!(noted.status, 201, "{noted:?}");
    let audits = client.get("/events/list?type=audit&stream=canvas/board").json();
    let kinds: Vec<&str> =
        audits["items"].as_array().expect("items").iter().filter_map(|it| it["body"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["artifact", "artifact", "review"]);
    let listed = client.get("/canvas/board/artifacts").json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2), "{listed}");
    let zero = if super::is_on_server(home.path()) { "'\\x00'" } else { "x'00'" };
    super::change(home.path(), &format!("UPDATE artifact_part SET data = {zero} WHERE sha256 = '{id}'"));
    assert_eq!(client.get(&path).code(), "database_unavailable", "changed content isn't given out");
}

#[test]
fn scenario_40_the_registry_has_cards_with_source_type_and_a_hash_that_changes_with_them() {
    let home = home_with(
        "default_model = \"tiny\", models = {tiny = {endpoint = \"http://127.0.0.1:9/secret\", \
         system_prompt = \"Be brief.\"}, far = {endpoint = \"https://api.example/v1\"}, \
         choice = {kind = \"router\", rules = {code = \"tiny\", default = \"far\"}}}",
    );
    let skill = home.path().join(".config/reedclaw/skills/tidy/SKILL.md");
    fs::create_dir_all(skill.parent().expect("a parent")).expect("directories");
    fs::write(&skill, "---\nname: tidy\ndescription: Keeps files tidy.\n---\nOne step.\n").expect("a skill");
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "viewer", &[]));
    let mut hashes = Vec::new();
    for (kind, one) in [
        ("nodes", "shell"),
        ("flows", "tidy"),
        ("personas", "tiny"),
        ("tasks", "code"),
        ("providers", "openai-compatible"),
        ("models", "tiny"),
    ] {
        let answer = client.get(&format!("/registry/{kind}"));
        let list = answer.json();
        assert_eq!(answer.status, 200, "{kind}: {list}");
        let items = list["items"].as_array().expect("items");
        let found = items.iter().find(|it| it["id"] == one).unwrap_or_else(|| panic!("{kind}: {list}"));
        assert_eq!(format!("{}s", found["type"].as_str().expect("a type")), kind);
        assert!(["registry", "workspace"].contains(&found["source"].as_str().expect("a source")));
        assert_eq!(found["version_hash"].as_str().map(str::len), Some(64));
        let tag = answer.headers.get("etag").expect("a tag");
        for known in [format!("W/{tag}"), format!("\"other\", {tag}"), "*".into()] {
            let answer = client.with("If-None-Match", &known).get(&format!("/registry/{kind}"));
            assert_eq!(answer.status, 304, "{known}: {answer:?}");
        }
        let again = client.with("If-None-Match", tag).get(&format!("/registry/{kind}"));
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{kind}");
        assert!(!answer.text.contains("secret") && !answer.text.contains("api.example"), "{kind}: {list}");
        hashes.push(list["version_hash"].clone());
    }
    let node = client.get("/registry/nodes/shell").json();
    assert_eq!((&node["card"]["dangerous_class"], &node["source"]), (&json!("exec"), &json!("registry")));
    assert_eq!(client.get("/registry/nodes/none").code(), "not_found");
    assert_eq!(client.get("/registry/flows/tidy").json()["card"]["description"], "Keeps files tidy.");
    let tools = client.get("/tools").json();
    assert!(tools["items"].as_array().expect("items").iter().all(|it| it["risk"].is_string()), "{tools}");
    fs::write(&skill, "---\nname: tidy\ndescription: Keeps files tidy.\n---\nTwo steps.\n").expect("another text");
    assert_ne!(client.get("/registry/flows").json()["version_hash"], hashes[1]);
    assert_eq!(client.get("/registry/models").json()["version_hash"], hashes[5]);
    // A plugin is listed once a person has allowed it, and only in that version.
    let source = home.path().join("src");
    fs::create_dir_all(source.join("bin")).expect("directories");
    let manifest = "name = \"weather\"\nversion = \"1.0\"\n[[tools]]\nname = \"today\"\ndescription = \"Tells the weather.\"\n\
                    command = \"bin/today.sh\"\nschema = { type = \"object\" }\n";
    fs::write(source.join("manifest.toml"), manifest).expect("a manifest");
    fs::write(source.join("bin/today.sh"), "#!/bin/sh\n").expect("a program");
    fs::set_permissions(source.join("bin/today.sh"), PermissionsExt::from_mode(0o755)).expect("it can be run");
    let place = source.display().to_string();
    let session =
        Session::spawn(Spawn::new(program()).args(&["plugin", "install", &place]).home(home.path()).size(60, 160));
    session.expect_text("and allow all of this? [y/N]");
    session.line("y");
    assert_eq!(status_code(session.expect_exit()), 0);
    let nodes = client.get("/registry/nodes").json();
    assert_ne!(nodes["version_hash"], hashes[0]);
    let plugin = nodes["items"].as_array().expect("items").iter().find(|it| it["source"] == "workspace");
    let name = plugin.expect("the plugin's tool")["id"].as_str().expect("a name").to_owned();
    let installed = home.path().join(".local/share/reedclaw/plugins/weather/bin/today.sh");
    fs::write(&installed, "#!/bin/sh\necho other\n").expect("another program");
    assert_eq!(client.get(&format!("/registry/nodes/{name}")).code(), "not_found");
    assert_eq!(client.get("/registry/nodes").json()["version_hash"], hashes[0]);
}

#[test]
fn scenario_24_and_41_a_route_is_stored_and_what_cannot_be_served_is_refused_at_the_start() {
    let home = super::home_with_file();
    let gateway = Gateway::start(home.path());
    let admin = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let route = |service: &str, backend: &str| json!({"service": service, "backend": backend});
    let listed = admin.get("/routing/routes").json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(6), "{listed}");
    let refused = admin.post("/routing/routes?apply=true", &route("memory_store", "firestore"));
    assert_eq!(refused.code(), "backend_unavailable");
    let split = admin.post("/routing/routes?apply=true", &route("event_spine", "postgres"));
    assert_eq!(split.code(), "backends_split");
    for (service, backend) in [("event_spine", "filesystem"), ("event_spine", "nats"), ("memory_store", "memory")] {
        assert_eq!(admin.post("/routing/routes", &route(service, backend)).code(), "backend_forbidden", "{backend}");
    }
    let stored = admin.post("/routing/routes", &route("memory_store", "firestore"));
    assert_eq!((stored.status, &stored.json()["route"]["version"]), (200, &json!(1)), "{stored:?}");
    assert_ne!(stored.json()["version_hash"], listed["version_hash"]);
    assert_eq!(admin.post("/routing/routes", &route("memory_store", "sqlite")).code(), "version_conflict");
    assert_eq!(admin.post("/routing/routes", &route("analytics_store", "cosmos")).status, 200);
    let member = gateway.client(&token(home.path(), "ben", "member", &[]));
    assert_eq!(member.post("/routing/routes", &route("memory_store", "sqlite")).code(), "forbidden");
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let (status, _, err) = run(home.path(), &["gateway", "--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(3), "{err}");
    for line in ["local, memory_store: firestore", "local, analytics_store: cosmos", "--forget"] {
        assert!(err.contains(line), "{err}");
    }
    assert_eq!(run(home.path(), &["gateway", "routes", "--check"]).0, Some(1));
    for service in ["memory_store", "analytics_store"] {
        assert_eq!(run(home.path(), &["gateway", "routes", "--forget", service]).0, Some(0));
    }
    assert_eq!(run(home.path(), &["gateway", "routes", "--check"]).0, Some(0));
    // One tenant's routes end only its own service.
    assert_eq!(run(home.path(), &["gateway", "tenant", "add", "beta"]).0, Some(0));
    let (anna, zoe) =
        (token(home.path(), "anna", "admin", &[]), token(home.path(), "zoe", "admin", &["--tenant", "beta"]));
    let gateway = Gateway::start(home.path());
    let there = gateway.client(&zoe).with("X-Tenant-Id", "beta");
    assert_eq!(there.post("/routing/routes", &route("blackboard_store", "dynamo")).status, 200);
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let gateway = Gateway::start(home.path());
    let there = gateway.client(&zoe).with("X-Tenant-Id", "beta");
    assert_eq!(gateway.client(&anna).get("/status").status, 200);
    let refused = there.get("/status");
    assert_eq!((refused.status, refused.code().as_str()), (503, "backend_unavailable"), "{refused:?}");
    assert_eq!(refused.json()["error"]["context"]["routes"], json!(["blackboard_store: dynamo"]), "only what was set");
    let mut mended = route("blackboard_store", "sqlite");
    mended["expected_version"] = json!(1);
    assert_eq!(there.post("/routing/routes", &mended).status, 200, "what makes it right is open");
    drop(gateway);
    let (status, _, err) = run(home.path(), &["gateway", "routes", "--forget", "blackboard_store"]);
    assert!(status == Some(2) && err.contains("tenant local") && err.contains("--tenant"), "{err}");
    let forget = ["gateway", "routes", "--tenant", "beta", "--forget", "blackboard_store"];
    assert_eq!(run(home.path(), &forget).0, Some(0));
    let gateway = Gateway::start(home.path());
    let status = gateway.client(&zoe).with("X-Tenant-Id", "beta").get("/status");
    assert_eq!(
        (status.status, &status.json()["workspace"]),
        (200, &Value::Null),
        "that of this machine's user isn't theirs"
    );
}

#[test]
fn a_blackboard_has_a_second_spelling() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let put = client.write("PUT", "/blackboard?run_id=r&key=plan", &json!({"value": [1], "expected_version": 0}));
    assert_eq!(put.status, 201, "{put:?}");
    assert_eq!(client.get("/blackboard?run_id=r&key=plan").text, client.get("/blackboard/r/entries/plan").text);
    assert_eq!(client.get("/blackboard?run_id=r").code(), "body_invalid");
}
