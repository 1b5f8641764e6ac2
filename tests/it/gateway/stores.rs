//! Memory that expires, the blackboard with versions, the timeline of a stream.

use std::thread;

use serde_json::json;

use super::{Client, Gateway, allowed, home, token};

#[test]
fn scenario_22_a_memory_ends_by_the_databases_clock_and_keeps_its_scope() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let remember = |value: i32, more: serde_json::Value| {
        let mut body = json!({"scope": "project", "key": "colour", "value": value});
        more.as_object().expect("fields").iter().for_each(|(name, field)| body[name] = field.clone());
        client.post("/memory", &body)
    };
    let answer = remember(1, json!({"ttl_s": 60, "expected_version": 0}));
    assert_eq!((answer.status, &answer.json()["version"]), (201, &json!(1)));
    let answer = remember(2, json!({"expected_version": 0}));
    assert_eq!((answer.status, answer.code().as_str()), (409, "version_conflict"));
    assert_eq!(client.get("/memory?scope=project&key=colour").json()["value"], 1);
    assert_eq!(client.with("X-Project-Id", "other").get("/memory?scope=project&key=colour").status, 404);
    super::change(home.path(), "UPDATE memory SET expires_ms = expires_ms - 60001");
    assert_eq!(client.get("/memory?scope=project&key=colour").code(), "not_found");
    assert_eq!(client.delete("/memory?scope=project&key=colour").status, 404);
    let answer = remember(3, json!({"expected_version": 0}));
    assert_eq!(answer.json()["version"], 2, "an old version isn't given again");
    assert_eq!(client.get("/memory?scope=session&key=a").code(), "body_invalid", "a session has a run");
    let session = client.with("X-Run-Id", "run-1");
    let answer = session.post("/memory", &json!({"scope": "session", "key": "a", "value": [1, {"b": "marker"}]}));
    assert_eq!(answer.status, 201);
    assert_eq!(session.get("/memory?scope=session&prefix=").json()["items"][0]["value"], json!([1, {"b": "marker"}]));
    assert_eq!(client.with("X-Run-Id", "run-2").get("/memory?scope=session&key=a").status, 404);
    assert_eq!(session.delete("/memory?scope=session&key=a").status, 204);
    assert_eq!(session.get("/memory?scope=session&key=a").status, 404);
    let told = client.get("/events/list?type=memory").text;
    assert!(told.contains("value_sha256") && !told.contains("marker"), "values aren't in the log: {told}");
    // A gateway whose own clock is a day off uses the database's clock.
    let Some(library) = super::is_on_server(home.path()).then(super::history::clock).flatten() else { return };
    for skew in ["+1d", "-1d"] {
        let other = [("LD_PRELOAD", library), ("FAKETIME", skew), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
        let odd = Gateway::start_with(home.path(), &other);
        let there = Client { gateway: &odd, ..client.clone() };
        let minute = json!({"scope": "project", "key": skew, "value": 1, "ttl_s": 60});
        assert_eq!(there.post("/memory", &minute).status, 201);
        let path = format!("/memory?scope=project&key={}", skew.replace('+', "%2B"));
        assert_eq!((client.get(&path).status, there.get(&path).status), (200, 200), "{skew}");
        super::change(home.path(), "UPDATE memory SET expires_ms = expires_ms - 60001");
        assert_eq!((client.get(&path).status, there.get(&path).status), (404, 404), "{skew}");
    }
}

#[test]
fn scenario_23_a_hundred_increments_on_a_blackboard_give_a_hundred() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let path = "/blackboard/run-1/entries/count";
    assert_eq!(client.write("PUT", path, &json!({"value": 0})).code(), "precondition_required");
    let answer = client.write("PUT", path, &json!({"value": 0, "expected_version": 0}));
    assert_eq!((answer.status, answer.headers["etag"].as_str()), (201, "\"1\""));
    let stale = client.write("PUT", path, &json!({"value": 5, "expected_version": 0}));
    assert_eq!((stale.status, stale.code().as_str()), (409, "version_conflict"));
    // Each writer has its own user, since a user's requests are limited.
    let users: Vec<String> = (0..4).map(|user| token(home.path(), &format!("user-{user}"), "member", &[])).collect();
    let clients: Vec<_> = users.iter().map(|secret| gateway.client(secret)).collect();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(move || (0..25).for_each(|_| increment(client, path)));
        }
    });
    // The tenant's requests are limited, too: the writers may have used up this second's.
    let entry = allowed(|| client.get(path)).json();
    assert_eq!((&entry["value"], &entry["version"]), (&json!(100), &json!(101)));
    assert_eq!(allowed(|| client.get("/blackboard/run-1/entries/none")).code(), "not_found");
}

/// All keys of a list, page by page.
fn pages(client: &Client<'_>, path: &str, name: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = allowed(|| client.get(&format!("{path}{cursor}"))).json();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
        assert!(items.len() <= 2, "{page}");
        found.extend(items.iter().map(|item| item[name].as_str().expect("a name").to_owned()));
        let Some(next) = page["next"].as_str() else { return found };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn every_list_with_pages_goes_on_after_its_cursor() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "approver", &[]));
    let names = ["a", "b", "c", "d", "e"];
    let backwards = ["e", "d", "c", "b", "a"];
    for (number, name) in names.iter().enumerate() {
        let value = json!({"scope": "project", "key": name, "value": 1});
        assert_eq!(client.post("/memory", &value).status, 201);
        let path = format!("/blackboard/run-1/entries/{name}");
        assert_eq!(client.write("PUT", &path, &json!({"value": 1, "expected_version": 0})).status, 201);
        // Two of them share each millisecond.
        let at = number / 2;
        for sql in [
            format!(
                "INSERT INTO run (tenant, run_id, project, \"user\", state, question, started_ms) VALUES \
                 ('local', '{name}', 'default', 'anna', 'answered', 'x', {at})"
            ),
            format!(
                "INSERT INTO share (tenant, share_id, project, owner, kind, title, cols, rows, watch, approve, state, \
                 started_ms) VALUES ('local', '{name}', 'default', 'anna', 'shell', 'x', 80, 24, '[\"*\"]', '[]', 'ended', {at})"
            ),
        ] {
            super::change(home.path(), &sql);
        }
        let write = json!({"action_name": "file_write", "subject_type": "thread", "subject_id": "t",
            "args": {"path": name, "content": "x"}});
        assert_eq!(client.post("/actions/execute", &write).status, 202);
    }
    assert_eq!(pages(&client, "/memory?scope=project&prefix=&limit=2", "key"), names);
    assert_eq!(pages(&client, "/blackboard/run-1/entries?limit=2", "key"), names);
    assert_eq!(pages(&client, "/runs?limit=2", "run_id"), backwards);
    assert_eq!(pages(&client, "/shares?limit=2", "share_id"), backwards);
    let asked = allowed(|| client.get("/questions?state=open")).json();
    let mut asked: Vec<&str> =
        asked["items"].as_array().expect("items").iter().filter_map(|it| it["question_id"].as_str()).collect();
    let paged = pages(&client, "/questions?state=open&limit=2", "question_id");
    // Each page lists its newest entry last.
    let mut expected: Vec<String> = asked.rchunks(2).flatten().map(|id| (*id).to_owned()).collect();
    assert_eq!(paged, expected);
    expected.sort();
    asked.sort_unstable();
    assert_eq!(expected, asked, "each once");
    for path in ["/runs?cursor=x", "/shares?cursor=1-", "/questions?cursor=-1-a"] {
        assert_eq!(allowed(|| client.get(path)).code(), "cursor_invalid", "{path}");
    }
    assert_eq!(allowed(|| client.get("/memory?scope=project&key=a&cursor=a")).code(), "body_invalid");
}

/// Adds one to a number on a blackboard, in competition with other clients.
fn increment(client: &Client<'_>, path: &str) {
    loop {
        let now = allowed(|| client.get(path));
        let value = now.json()["value"].as_i64().expect("a number") + 1;
        let matched = client.with("If-Match", &now.headers["etag"]);
        match allowed(|| matched.write("PUT", path, &json!({"value": value}))).status {
            200 => return,
            409 => {}
            other => panic!("status {other}"),
        }
    }
}

#[test]
fn scenario_24_a_timeline_has_the_events_of_its_stream_alone() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let append = |stream: &str, expected: Option<i64>| {
        let mut body = json!({"event_type": "x.note", "source": "ui", "body": {"of": stream}});
        if let Some(expected) = expected {
            body["expected_version"] = expected.into();
        }
        client.post(&format!("/realtime/timeline/{stream}/append"), &body)
    };
    assert_eq!(append("one", Some(0)).status, 201);
    assert_eq!(append("two", None).status, 201);
    assert_eq!(append("one", Some(1)).json()["events"][0]["stream_version"], 2);
    assert_eq!(append("one", Some(1)).code(), "wrong_expected_version");
    let items = client.get("/realtime/timeline/one/list").json()["items"].clone();
    let items = items.as_array().expect("items");
    assert!(items.len() == 2 && items.iter().all(|item| item["body"]["of"] == "one"), "{items:?}");
    // Clients can't write to the streams of the gateway itself.
    for stream in ["canvas%2Fa", "dataset:audit", "memory%2Fproject%2Fdefault"] {
        assert_eq!(append(stream, None).code(), "schema_invalid", "{stream}");
    }
}
