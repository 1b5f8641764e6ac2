//! The checks before any route: names, origins, tokens, members, limits, and the one form of errors.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{Gateway, home, home_with, run, sqlite, token};
use crate::pty::{Session, status_code};

/// Every route of the program's own table, with plausible values for its path's names.
fn routes(home: &std::path::Path) -> Vec<(String, String)> {
    let (status, out, err) = run(home, &["gateway", "openapi"]);
    assert_eq!(status, Some(0), "{err}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    let filled = |path: &str| {
        let part = |part: &str| if part.starts_with('{') { "some".to_owned() } else { part.to_owned() };
        path.split('/').map(part).collect::<Vec<_>>().join("/")
    };
    let methods = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(|method| (method.to_uppercase(), filled(path))).collect::<Vec<_>>()
    };
    let routes: Vec<_> = paths.iter().flat_map(methods).collect();
    assert!(routes.len() > 15, "{routes:?}");
    routes
}

#[test]
fn scenario_56_other_sites_and_rebound_names_reach_no_route() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let mut routes = routes(home.path());
    routes.extend([("GET".into(), "/nowhere".into()), ("OPTIONS".into(), "/events/append".into())]);
    for (method, path) in &routes {
        let refused = [
            (("Host", "evil.example"), 421, "misdirected"),
            (("Host", "127.0.0.1:1"), 421, "misdirected"),
            (("Origin", "null"), 403, "origin_refused"),
            (("Origin", "http://evil.example"), 403, "origin_refused"),
            (("Sec-Fetch-Site", "cross-site"), 403, "origin_refused"),
        ];
        for (header, status, code) in refused {
            let answer = gateway.send(method, path, &[header], "");
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{method} {path} {header:?}");
            let cors = answer.headers.keys().find(|name| name.starts_with("access-control"));
            assert_eq!(cors, None, "{method} {path}");
        }
        if matches!(method.as_str(), "POST" | "PUT" | "PATCH") {
            for kind in ["text/plain", "application/x-www-form-urlencoded"] {
                let answer = gateway.send(method, path, &[("Content-Type", kind)], "{}");
                assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"), "{method} {path}");
            }
        }
    }
    let preflight = [("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")];
    assert_eq!(gateway.send("OPTIONS", "/events/append", &preflight, "").status, 403);
}

#[test]
fn scenario_42_every_error_has_the_one_form() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let token = token(home.path(), "anna", "admin", &[]);
    let client = gateway.client(&token);
    let answer = client.get("/nowhere");
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    let answer = client.write("DELETE", "/health", &Value::Null);
    assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"));
    assert!(answer.headers["allow"].contains("GET"), "{answer:?}");
    for body in ["{", "[]", "{\"scope\": 1}", "{\"scope\": \"project\", \"key\": \"k\", \"value\": 1, \"other\": 2}"] {
        let authorization = format!("Bearer {token}");
        let answer = gateway.send("POST", "/memory", &[("Authorization", &authorization)], body);
        assert_eq!((answer.status, answer.code().as_str()), (400, "body_invalid"), "{body}");
    }
    let long = json!({"scope": "project", "key": "k", "value": "x".repeat(1024 * 1024)});
    let answer = client.post("/memory", &long);
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
    for path in ["/memory?scope=project&key=k&other=1", "/events/list?limit=0", "/events/list?limit=501"] {
        assert_eq!(client.get(path).code(), "body_invalid", "{path}");
    }
    assert_eq!(client.get("/events/list?cursor=x").code(), "cursor_invalid");
    let gone = client.get("/events/list?cursor=9-0");
    assert_eq!((gone.status, gone.code().as_str()), (410, "cursor_gone"));
    for (accept, status) in
        [("text/csv", 406), ("application/json;q=0", 406), ("text/csv, application/*;q=0.5", 200), ("*/*", 200)]
    {
        let answer = client.with("Accept", accept).get("/status");
        assert_eq!(answer.status, status, "{accept}");
        assert!(status == 200 || answer.code() == "not_acceptable", "{accept}");
    }
    let led = gateway.send("GET", "/", &[("Accept", "text/html")], "");
    assert!(led.status == 302 && !led.headers.contains_key("content-type"), "{led:?}");
    // Without a token only the public routes answer, and all others return the same error.
    for (method, path) in routes(home.path()) {
        let is_public = ["/health", "/metrics", "/auth/pair", "/auth/refresh"].contains(&path.as_str());
        if is_public {
            continue;
        }
        let kind = if path.ends_with("/artifacts") { "image/png" } else { "application/json" };
        let answer = gateway.send(&method, &path, &[("Content-Type", kind)], "");
        // Wrong secrets are counted for each address.
        assert!(matches!(answer.status, 401 | 429), "{method} {path}: {answer:?}");
        assert!(["unauthenticated", "rate_limited"].contains(&answer.code().as_str()));
    }
    assert_eq!(client.get("/auth/me").json()["user"], "anna", "a right token passes all the same");
    let id = client.with("X-Request-Id", "mine-1").get("/nowhere");
    assert_eq!(id.json()["error"]["request_id"], "mine-1");
}

#[test]
fn scenario_3_a_request_that_names_another_actor_writes_nothing() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let event = json!({"event_type": "x.a", "source": "ui", "run_id": "r", "body": {}});
    let answer = client.with("X-User-Id", "ben").post("/events/append", &event);
    assert_eq!((answer.status, answer.code().as_str()), (403, "actor_mismatch"));
    let mut other = event.clone();
    other["actor_id"] = "ben".into();
    assert_eq!(client.post("/events/append", &other).code(), "actor_mismatch");
    assert_eq!(client.post("/events/append", &json!({"events": [other]})).code(), "actor_mismatch");
    assert_eq!(client.get("/events/list?type=x.a").json()["items"], json!([]));
    let answer = client.with("X-User-Id", "anna").post("/events/append", &event);
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[test]
fn scenario_4_another_tenants_things_are_like_things_that_do_not_exist() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let (status, _, err) = run(home.path(), &["gateway", "tenant", "add", "acme"]);
    assert_eq!(status, Some(0), "{err}");
    let here = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let there = gateway.client(&token(home.path(), "zoe", "admin", &["--tenant", "acme"])).with("X-Tenant-Id", "acme");
    // Only the mode `lab` has default headers, whatever the gateway's mode is.
    let other = here.with("X-Mode", "saas").with("X-Tenant-Id", "local");
    assert_eq!(other.get("/auth/me").code(), "identity_missing");
    let other = other.with("X-Project-Id", "default").with("X-Request-Id", "r");
    assert_eq!(other.get("/auth/me").code(), "mode_mismatch");
    // Another's tenant and one that doesn't exist return the same answer.
    for tenant in ["acme", "none"] {
        let answer = here.with("X-Tenant-Id", tenant).get("/auth/me");
        assert_eq!((answer.status, answer.code().as_str()), (403, "not_a_member"), "{tenant}");
    }
    let put = json!({"value": "secret", "expected_version": 0});
    assert_eq!(there.write("PUT", "/blackboard/run-1/entries/plan", &put).status, 201);
    let value = json!({"scope": "tenant", "key": "k", "value": "secret"});
    assert_eq!(there.post("/memory", &value).status, 201);
    let same = here.with("X-Request-Id", "same");
    for (theirs, missing) in [
        ("/blackboard/run-1/entries/plan", "/blackboard/run-2/entries/plan"),
        ("/memory?scope=tenant&key=k", "/memory?scope=tenant&key=other"),
        ("/blackboard/run-1/entries", "/blackboard/run-2/entries"),
        ("/events/list?run_id=run-1", "/events/list?run_id=run-2"),
        ("/realtime/timeline/blackboard%2Frun-1/list", "/realtime/timeline/blackboard%2Frun-2/list"),
    ] {
        let (theirs, missing) = (same.get(theirs), same.get(missing));
        assert_eq!((theirs.status, &theirs.text), (missing.status, &missing.text));
        assert!(!theirs.text.contains("secret"));
    }
    let events = here.get("/events/list?limit=500");
    assert!(!events.text.contains("acme") && !events.text.contains("zoe"), "{}", events.text);
    // Removing a member takes effect with the next request.
    let (status, _, err) = run(home.path(), &["gateway", "member", "remove", "acme", "zoe"]);
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(there.get("/auth/me").code(), "not_a_member");
}

#[test]
fn roles_bound_what_a_token_may_do() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let viewer = gateway.client(&token(home.path(), "vera", "viewer", &[]));
    let value = json!({"scope": "project", "key": "k", "value": 1});
    let answer = viewer.post("/memory", &value);
    assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"));
    assert_eq!(viewer.get("/memory?scope=project&prefix=").status, 200);
    // A token can't do more than its user may, whatever role it was made with.
    let strong = gateway.client(&token(home.path(), "vera", "admin", &[]));
    assert_eq!(strong.post("/memory", &value).code(), "forbidden");
}

#[test]
fn scenario_57_stolen_old_and_misplaced_tokens_do_not_count() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let secret = token(home.path(), "anna", "member", &["--expires", "1d"]);
    let client = gateway.client(&secret);
    assert_eq!(client.get("/auth/me").status, 200);
    // A token counts neither in the query nor under another scheme.
    assert_eq!(gateway.send("GET", &format!("/auth/me?token={secret}"), &[], "").status, 401);
    assert_eq!(gateway.send("GET", "/auth/me", &[("Authorization", &format!("Basic {secret}"))], "").status, 401);
    let stored = super::read_rows(home.path(), "SELECT sha256 FROM token").remove(0);
    assert!(!stored.contains(&secret) && stored.len() == 64);
    super::change(home.path(), "UPDATE token SET expires_ms = expires_ms - 86400000");
    assert_eq!(client.get("/auth/me").code(), "unauthenticated");
    let other = token(home.path(), "anna", "member", &[]);
    let (_, list, _) = run(home.path(), &["gateway", "token", "list"]);
    let id = list.lines().find(|line| line.contains("active")).and_then(|line| line.split_whitespace().next());
    assert_eq!(gateway.client(&other).get("/auth/me").status, 200);
    let (status, _, err) = run(home.path(), &["gateway", "token", "revoke", id.expect("an id")]);
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(gateway.client(&other).get("/auth/me").code(), "unauthenticated");
}

#[test]
fn scenario_57_a_pairing_code_counts_once_and_a_stolen_cookie_ends_the_session() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let (status, _, err) = run(home.path(), &["gateway", "pair"]);
    assert_eq!(status, Some(3), "without a terminal: {err}");
    let session = Session::spawn(super::spawn(home.path(), &["gateway", "pair", "--user", "anna"]));
    let (status, bytes) = session.expect_end();
    assert_eq!(status_code(status), 0);
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    // The link names the running gateway, not the one that the config would start.
    assert!(shown.contains(&format!("http://{}/ui/#pair=", gateway.address)), "{shown}");
    let code = shown.trim().chars().take(14).collect::<String>();
    let pair = |code: &str| gateway.send("POST", "/auth/pair", &[], &json!({"code": code}).to_string());
    let paired = pair(&code);
    assert_eq!(paired.status, 200, "{code}: {paired:?}");
    let again = pair(&code);
    assert_eq!(again.code(), "unauthenticated", "a second time");
    assert!(again.text.contains("used before") && !again.text.contains("Bearer"), "{again:?}");
    let access = paired.json()["access_token"].as_str().expect("a token").to_owned();
    assert_eq!(gateway.client(&access).get("/auth/me").json()["user"], "anna");
    let cookie = |answer: &super::Answer| {
        let set = answer.headers["set-cookie"].clone();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && set.contains("Path=/auth"), "{set}");
        set.split(';').next().expect("a value").to_owned()
    };
    let first = cookie(&paired);
    let refresh = |cookie: &str| gateway.send("POST", "/auth/refresh", &[("Cookie", cookie)], "");
    let renewed = refresh(&first);
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let newer = renewed.json()["access_token"].as_str().expect("a token").to_owned();
    assert_eq!(refresh(&first).code(), "unauthenticated", "the old cookie");
    // Two browsers hold the same cookie: the session has ended for both.
    assert_eq!(gateway.client(&newer).get("/auth/me").code(), "unauthenticated");
    assert_eq!(refresh(&cookie(&renewed)).code(), "unauthenticated");
    // The limit on guesses is shared by all clients.
    let guesses: Vec<super::Answer> = (0..7).map(|_| pair("AAAA-AAAA-AAAA")).collect();
    let last = guesses.last().expect("an answer");
    assert!(guesses[0].status == 401 && last.status == 429, "{guesses:?}");
    assert!(last.headers["retry-after"] == "12" && last.text.contains("in 12 seconds"), "{last:?}");
}

#[test]
fn the_audit_names_who_acted_and_not_whom_it_was_about() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let olga = gateway.client(&token(home.path(), "olga", "admin", &[])).with("X-Request-Id", "change-1");
    assert_eq!(olga.post("/admin/members", &json!({"user": "mallory", "role": "admin"})).status, 200);
    assert_eq!(olga.delete("/admin/members?user=mallory").status, 204);
    let bot = token(home.path(), "bot", "member", &["--kind", "agent"]);
    let (_, list, _) = run(home.path(), &["gateway", "token", "list"]);
    let id = list.lines().find(|line| line.contains(" bot ")).and_then(|line| line.split_whitespace().next());
    assert_eq!(olga.delete(&format!("/admin/tokens?id={}", id.expect("an id"))).status, 204);
    assert_eq!(gateway.client(&bot).get("/auth/me").code(), "unauthenticated");
    let archive = home.path().join("archive").display().to_string();
    assert_eq!(run(home.path(), &["gateway", "export", "local", &archive]).0, Some(0));
    assert_eq!(olga.get("/admin/archive").status, 200);
    let events = olga.get("/events/list?type=audit&limit=500").json()["items"].clone();
    let told: Vec<Value> = events
        .as_array()
        .expect("events")
        .iter()
        .map(|it| json!([it["body"]["kind"], it["body"]["user"], it["actor"], it["request_id"] == "change-1"]))
        .collect();
    let expected = json!([
        ["token", "olga", "terminal", false],
        ["member", "mallory", "olga", true],
        ["member", "mallory", "olga", true],
        ["token", "bot", "terminal", false],
        ["token_revoked", "bot", "olga", true],
        ["export", null, "terminal", false],
        ["export", null, "olga", true],
    ]);
    assert_eq!(json!(told), expected, "{events}");
}

#[test]
fn malformed_requests_are_refused_in_the_problem_format() {
    use std::io::{Read as _, Write as _};

    let home = home();
    let gateway = Gateway::start(home.path());
    let secret = token(home.path(), "anna", "member", &[]);
    let client = gateway.client(&secret);
    for path in ["/canvas/%ff/snapshot", "/runs/%80"] {
        assert_eq!(gateway.send("GET", path, &[], "").code(), "unauthenticated", "{path}");
        let answer = client.get(path);
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    let mut socket = std::net::TcpStream::connect(gateway.address).expect("a connection");
    let head = format!(
        "POST /memory HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
        gateway.address
    );
    socket.write_all(head.as_bytes()).expect("it is sent");
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    let answer = super::Answer::read(&bytes);
    assert_eq!((answer.status, answer.code().as_str()), (400, "body_invalid"), "{answer:?}");
}

#[test]
fn unsafe_options_keep_the_gateway_from_starting() {
    let home = super::home_with_file();
    for (args, word) in [
        (&["--listen", "0.0.0.0:0"][..], "other machines"),
        (&["--mode", "saas"], "needs PostgreSQL"),
        (&["--mode", "enterprise"], "needs PostgreSQL"),
        (&["--database", "postgres://me:secret@localhost/x"], "has a password"),
        (&["tenant", "add", "acme", "--mode", "saas"], "needs PostgreSQL"),
    ] {
        let (status, _, err) = run(home.path(), &[&["gateway"], args].concat());
        assert_eq!((status, err.contains(word)), (Some(3), true), "{args:?}: {err}");
    }
    let gateway = Gateway::start(home.path());
    let (status, _, err) = run(home.path(), &["gateway", "--listen", "127.0.0.1:0"]);
    assert_eq!((status, err.contains(&format!("process {}", gateway.pid()))), (Some(1), true), "{err}");
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let database = sqlite(home.path());
    database.pragma_update(None, "user_version", 99).expect("a newer schema");
    let (status, _, err) = run(home.path(), &["gateway", "--listen", "127.0.0.1:0"]);
    assert_eq!((status, err.contains("schema has version 99")), (Some(3), true), "{err}");
}

#[test]
fn scenario_44_health_is_one_word_and_the_local_endpoints_answer() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let health = gateway.send("GET", "/health", &[], "");
    assert_eq!((health.status, health.text.as_str()), (200, "{\"status\":\"ok\"}"));
    let client = gateway.client(&token(home.path(), "anna", "viewer", &[]));
    let status = client.get("/status").json();
    assert_eq!((&status["mode"], &status["database"]["ok"]), (&json!("lab"), &json!(true)), "{status}");
    let tools = client.get("/tools").json();
    let is_there = |name: &str| tools["items"].as_array().is_some_and(|all| all.iter().any(|it| it["name"] == name));
    assert!(is_there("time") && is_there("shell"), "{tools}");
    let metrics = gateway.send("GET", "/metrics", &[], "").text;
    for name in [
        "reedclaw_conversations_total",
        "reedclaw_tool_calls_total",
        "reedclaw_tool_denials_total",
        "reedclaw_provider_errors_total",
        "reedclaw_receipt_chain_valid 1",
        "reedclaw_http_requests_total{route=\"/health\",status=\"200\"} 1",
    ] {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    assert!(!metrics.contains("anna") && !metrics.contains("local"), "{metrics}");
}

#[test]
fn scenario_57_a_token_of_another_sign_in_has_the_rights_of_its_user_here() {
    let all: Value = serde_json::from_str(include_str!("../../data/gateway/jwt.json")).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let keys = place.path().join("keys.json");
    std::fs::write(&keys, all["jwks"].to_string()).expect("the keys");
    let settings = |jwks: &str| {
        let (issuer, audience) = (text(&all["issuer"]), text(&all["audience"]));
        format!("gateway = {{auth = {{issuer = \"{issuer}\", audience = \"{audience}\", jwks = \"{jwks}\"}}}}")
    };
    let home = home_with(&settings(&keys.display().to_string()));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&text(&all["tokens"]["rs256"]));
    assert_eq!(anna.get("/auth/me").code(), "not_a_member", "the roles in the token don't count");
    assert_eq!(run(home.path(), &["gateway", "member", "add", "local", "anna", "--role", "member"]).0, Some(0));
    let me = anna.get("/auth/me");
    assert_eq!((me.status, &me.json()["user"]), (200, &"anna".into()), "{me:?}");
    let event = serde_json::json!({"event_type": "x.step", "source": "ui", "run_id": "r", "body": {}});
    assert_eq!(anna.post("/events/append", &event).status, 201);
    assert_eq!(anna.get("/events/list?type=x.step").json()["items"][0]["actor"], "anna");
    assert_eq!(anna.post("/admin/flags", &serde_json::json!({"flag": "pii", "on": true})).code(), "forbidden");
    for name in ["none", "hs256", "other_issuer", "other_audience", "swapped", "without_end"] {
        let answer = gateway.client(&text(&all["tokens"][name])).get("/auth/me");
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{name}");
    }
    assert_eq!(run(home.path(), &["gateway", "member", "remove", "local", "anna"]).0, Some(0));
    assert_eq!(anna.get("/auth/me").code(), "not_a_member");
    // Without the keys the gateway doesn't start, so that there is no partial sign-in.
    let wrong = home_with(&settings("keys.json"));
    let (status, _, err) = run(wrong.path(), &["gateway", "--listen", "127.0.0.1:0"]);
    assert!(status == Some(2) && err.contains("gateway.auth"), "{status:?} {err}");
}
