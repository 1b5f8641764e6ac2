//! The event log: order without gaps, events that count once, versions, and a chain that reveals every change.

use std::collections::BTreeSet;
use std::thread;

use nix::sys::signal::Signal;
use reedclaw::ledger::Ledger;
use reedclaw::proto::team::{EventDraft, Identity, Mode, TeamRole, TokenKind};
use serde_json::{Value, json};

use super::{Client, Gateway, home, run, sqlite, token, verify};

fn event(number: usize) -> Value {
    json!({"event_type": "x.step", "source": "agent", "run_id": "run-1", "body": {"number": number}})
}

/// All positions of a list, page by page.
fn positions(client: &Client<'_>, path: &str) -> Vec<i64> {
    let (mut positions, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}{cursor}")).json();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
        positions.extend(items.iter().map(|item| item["position"].as_i64().expect("a position")));
        let Some(next) = page["next"].as_str() else { return positions };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn scenario_14_events_are_appended_and_read_in_pages_without_a_gap() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    for batch in 0..50 {
        let events: Vec<Value> = (0..200).map(|number| event(batch * 200 + number)).collect();
        let answer = client.post("/events/append", &json!({"events": events}));
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let all = positions(&client, "/events/list?type=x.step&limit=500");
    assert_eq!(all.len(), 10_000);
    assert!(all.windows(2).all(|pair| pair[1] == pair[0] + 1), "there is a gap");
    let last = client.get("/events/list?run_id=run-1&limit=1").json()["items"][0].clone();
    assert_eq!(
        (&last["body"]["number"], &last["actor"], &last["stream"]),
        (&json!(0), &json!("anna"), &json!("run/run-1"))
    );
    assert_eq!(positions(&client, "/events/replay?run_id=run-1&limit=400").len(), 10_000);
    let (status, told) = verify(home.path());
    assert_eq!(status, Some(0), "{told}");
    let refused = json!({"event_type": "made.up", "source": "agent", "run_id": "r", "body": {}});
    assert_eq!(client.post("/events/append", &refused).code(), "schema_invalid");
    let forged = json!({"event_type": "safety", "source": "engine", "run_id": "r", "body": {}});
    assert_eq!(client.post("/events/append", &forged).status, 400, "only the gateway is the engine");
    let nowhere = json!({"event_type": "x.a", "source": "agent", "body": {}});
    assert_eq!(client.post("/events/append", &nowhere).code(), "body_invalid", "without a run");
    let caused = json!({"event_type": "x.a", "source": "agent", "run_id": "r", "causation_id": "none", "body": {}});
    assert_eq!(client.post("/events/append", &caused).status, 422);
    let large = json!({"event_type": "x.a", "source": "agent", "run_id": "r", "body": 9_007_199_254_740_993_u64});
    assert_eq!(client.post("/events/append", &large).status, 422, "a number that a double can't hold");
}

#[test]
fn scenario_15_an_event_that_is_sent_again_and_again_is_there_once() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let mut one = event(1);
    one["event_id"] = "the-same".into();
    let answers: Vec<_> = thread::scope(|scope| {
        let send = || (0..10).map(|_| client.post("/events/append", &one)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..10).map(|_| scope.spawn(send)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("answers")).collect()
    });
    let places: BTreeSet<i64> = answers.iter().filter_map(|it| it.json()["events"][0]["position"].as_i64()).collect();
    assert_eq!((answers.len(), places.len()), (100, 1));
    assert_eq!(answers.iter().filter(|it| it.status == 201).count(), 1);
    let mut other = one.clone();
    other["body"] = json!({"number": 2});
    let answer = client.post("/events/append", &other);
    assert_eq!((answer.status, answer.code().as_str()), (422, "idempotency_mismatch"));
}

#[test]
fn scenario_16_of_many_writers_with_the_same_expected_version_one_succeeds() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let append = |number: usize| {
        let expected = json!({"stream": "run/run-1", "version": 0});
        client.post("/events/append", &json!({"events": [event(number)], "expected_version": expected}))
    };
    let append = &append;
    let answers: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..50).map(|number| scope.spawn(move || append(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    let of = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((of(201), of(409)), (1, 49));
    let lost = answers.iter().find(|answer| answer.status == 409).expect("a loser");
    assert_eq!(lost.code(), "wrong_expected_version");
    assert_eq!(lost.json()["error"]["context"]["actual"], 1);
}

#[test]
fn scenario_18_what_was_acknowledged_survives_a_killed_gateway() {
    let home = home();
    let secret = token(home.path(), "anna", "member", &[]);
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    let rounds = if super::history::is_long() { 200 } else { 4 };
    for round in 0..rounds {
        let gateway = Gateway::start(home.path());
        let pid = nix::unistd::Pid::from_raw(gateway.pid());
        let address = gateway.address;
        let (done, next): (Vec<usize>, usize) = thread::scope(|scope| {
            let (secret, begin) = (&secret, number);
            let writer = scope.spawn(move || {
                let mut done = Vec::new();
                for number in begin..begin + 10_000 {
                    let mut draft = event(number);
                    draft["event_id"] = format!("event-{number}").into();
                    draft["run_id"] = format!("round-{round}").into();
                    let Some(status) = try_post(address, secret, &draft.to_string()) else {
                        // This one may be stored.
                        return (done, number + 1);
                    };
                    // A fast machine reaches the limit of the token's rate.
                    if status != 429 {
                        assert_eq!(status, 201);
                        done.push(number);
                    }
                }
                (done, begin + 10_000)
            });
            // The gateway is killed in the middle: some events are stored, and the writer hasn't finished.
            let until = std::time::Instant::now() + super::PATIENCE;
            let client = gateway.client(secret);
            let path = format!("/events/list?run_id=round-{round}&limit=500");
            // Each round has another moment.
            let least = 1 + (round * 7_919 + 13) % 40;
            while client.get(&path).json()["items"].as_array().map_or(0, Vec::len) < least {
                assert!(std::time::Instant::now() < until, "no event came");
            }
            nix::sys::signal::kill(pid, Signal::SIGKILL).expect("it is there");
            writer.join().expect("the writer")
        });
        number = next;
        acknowledged.extend(done);
        drop(gateway);
        let (status, told) = verify(home.path());
        assert_eq!(status, Some(0), "{told}");
    }
    let rows = super::read_rows(home.path(), "SELECT event_id FROM event WHERE event_type = 'x.step'");
    let stored: BTreeSet<String> = rows.into_iter().collect();
    assert!(acknowledged.len() >= rounds * 2, "{}", acknowledged.len());
    for number in acknowledged {
        assert!(stored.contains(&format!("event-{number}")), "event-{number} was acknowledged and is missing");
    }
}

/// Sends an event; returns `None` if the gateway is gone.
fn try_post(address: std::net::SocketAddr, secret: &str, body: &str) -> Option<u16> {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect(address).ok()?;
    let head = format!(
        "POST /events/append HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {secret}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn scenario_20_a_runs_replay_tells_the_sum_of_its_costs() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "bot", "member", &["--kind", "agent"]));
    for (tokens, cost) in [(10, 100), (20, 250), (5, 1)] {
        let body = json!({"cost_pico_usd": cost, "usage": {"tokens": tokens}});
        let event = json!({"event_type": "cost", "source": "agent", "run_id": "run-1", "body": body});
        assert_eq!(client.post("/events/append", &event).status, 201);
    }
    let ended = json!({"event_type": "run.ended", "source": "agent", "run_id": "run-1", "body": {}});
    assert_eq!(client.post("/events/append", &ended).status, 201);
    let replay = client.get("/events/replay?run_id=run-1").json();
    assert_eq!(replay["usage"], json!({"tokens": 35, "cost": 351, "calls": 3}));
    assert_eq!((&replay["complete"], replay["items"].as_array().map(Vec::len)), (&json!(true), Some(4)));
    // The sums are those of the whole run, whichever page is read.
    let page = client.get("/events/replay?run_id=run-1&limit=1").json();
    assert_eq!((&page["usage"], &page["complete"]), (&replay["usage"], &json!(true)));
    // Facts that only the gateway can know aren't accepted from a client.
    let mut stream = super::streams::Reader::new(client.open("/sse/tenant?topics=safety"));
    while stream.expect("system").2["kind"] != "caught_up" {}
    let decision = json!({"kind": "decision", "action_name": "shell", "outcome": "pass"});
    let forged = json!({"event_type": "safety", "source": "agent", "run_id": "run-1", "body": decision});
    assert_eq!(client.post("/events/append", &forged).status, 201);
    assert_eq!(stream.next().map(|frame| frame.1), Some("safety".into()), "it is no decision");
    assert_eq!(client.get("/events/replay?run_id=run-1").json()["decisions"], json!([]));
    for body in [json!({"cost_pico_usd": -500}), json!({"usage": {"tokens": -3}})] {
        let event = json!({"event_type": "cost", "source": "agent", "run_id": "run-1", "body": body});
        assert_eq!(client.post("/events/append", &event).code(), "schema_invalid");
    }
    let call = json!({"action_name": "time", "subject_type": "run", "subject_id": "run-2", "args": {}});
    assert_eq!(client.post("/actions/execute", &call).status, 200);
    let decisions = client.get("/events/replay?run_id=run-2").json()["decisions"].clone();
    assert_eq!(decisions[0]["action_name"], "time", "{decisions}");
    assert_eq!(stream.next().map(|frame| frame.1), Some("safety_decision".into()));
    let lines = client.with("Accept", "application/x-ndjson").get("/events/replay?run_id=run-1").text;
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert_eq!((lines.lines().count(), &last["type"]), (6, &json!("end")));
}

#[test]
fn times_of_events_are_read_with_their_offset() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let mut one = event(1);
    one["occurred_at"] = "2026-11-28T16:00:00+05:00".into();
    assert_eq!(client.post("/events/append", &one).status, 201);
    let all = client.get("/events/list?type=x.step").json()["items"].clone();
    assert_eq!(all[0]["occurred_at"], "2026-11-28T11:00:00.000Z");
    // The time of the event, as it is written in another time zone.
    let at: jiff::Timestamp = all[0]["recorded_at"].as_str().and_then(|it| it.parse().ok()).expect("a time");
    let there = |moment: jiff::Timestamp| {
        let moment = moment + jiff::SignedDuration::from_hours(5);
        moment.to_string().replace('Z', "%2B05:00")
    };
    let found = |query: String| client.get(&format!("/events/list?type=x.step&{query}")).json()["items"] == all;
    assert!(found(format!("from={}", there(at))));
    assert!(!found(format!("to={}", there(at))));
    assert!(found(format!("to={}", there(at + jiff::SignedDuration::from_secs(1)))));
    for query in ["from=tomorrow", "to=zzz", "from=2026-11-28"] {
        assert_eq!(client.get(&format!("/events/list?{query}")).code(), "body_invalid", "{query}");
    }
    one["occurred_at"] = "yesterday".into();
    assert_eq!(client.post("/events/append", &one).code(), "body_invalid");
}

#[test]
fn scenario_21_a_changed_removed_or_swapped_event_is_found_and_named() {
    let home = super::home_with_file();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let events: Vec<Value> = (0..20).map(event).collect();
    assert_eq!(client.post("/events/append", &json!({"events": events})).status, 201);
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let place = super::database(home.path());
    let whole = std::fs::read(&place).expect("the database");
    assert_eq!(verify(home.path()).0, Some(0));
    let refused = sqlite(home.path()).execute("UPDATE event SET body = '{}' WHERE position = 5", []);
    assert!(refused.expect_err("a trigger").to_string().contains("append-only"));
    let refused = sqlite(home.path()).execute("DELETE FROM event WHERE position = 5", []);
    assert!(refused.expect_err("a trigger").to_string().contains("append-only"));
    for (damage, position) in [
        ("UPDATE event SET body = '{\"number\":99}' WHERE position = 7", 7),
        ("UPDATE event SET actor = 'ben' WHERE position = 8", 8),
        ("UPDATE event SET recorded_at = 'x' WHERE position = 9", 9),
        ("UPDATE event SET hash = previous_hash WHERE position = 10", 10),
        ("DELETE FROM event WHERE position = 11", 11),
        ("DELETE FROM event WHERE position = 21", 21),
        (
            "UPDATE event SET position = 1000 + position WHERE position IN (12, 13);
          UPDATE event SET position = 12 WHERE position = 1013; UPDATE event SET position = 13 WHERE position = 1012",
            12,
        ),
        ("UPDATE stream SET version = 99 WHERE stream = 'run/run-1'", 21),
    ] {
        std::fs::write(&place, &whole).expect("the whole database again");
        for journal in ["gateway.db-wal", "gateway.db-shm"] {
            let _ = std::fs::remove_file(place.with_file_name(journal));
        }
        let database = sqlite(home.path());
        database.execute_batch("DROP TRIGGER event_update; DROP TRIGGER event_delete").expect("no triggers");
        database.execute_batch(damage).expect("the damage");
        drop(database);
        let (status, told) = verify(home.path());
        assert_eq!(status, Some(1), "{damage}: {told}");
        assert!(told.contains(&format!("broken at position {position}:")), "{damage}: {told}");
    }
}

#[test]
fn scenario_21_each_byte_of_an_event_counts() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let path = home.path().join("gateway.db");
    let ledger = Ledger::open(&path).expect("a database");
    let draft = |number: usize| EventDraft {
        event_id: Some(format!("{number}{number}")),
        event_type: "x.step".into(),
        source: "agent".into(),
        step_id: Some("step".into()),
        correlation_id: Some("correlation".into()),
        causation_id: (number > 1).then(|| format!("{0}{0}", number - 1)),
        occurred_at: Some("yesterday".into()),
        body: json!({"number": number, "text": "some words"}),
        ..EventDraft::default()
    };
    ledger.append(&someone(), &(1..=6).map(draft).collect::<Vec<_>>(), None).expect("events");
    assert!(ledger.verify("local").expect("a check").is_ok());
    let raw = rusqlite::Connection::open(&path).expect("the database");
    raw.execute_batch("DROP TRIGGER event_update; DROP TRIGGER event_delete").expect("no triggers");
    let columns = [
        "tenant",
        "event_id",
        "stream",
        "event_type",
        "source",
        "project",
        "actor",
        "recorded_at",
        "body",
        "previous_hash",
        "hash",
        "run_id",
        "step_id",
        "trace_id",
        "request_id",
        "surface_id",
        "app_id",
        "causation_id",
        "correlation_id",
        "occurred_at",
    ];
    let mut flipped = 0;
    for column in columns {
        let which = if column == "event_id" { "position = 3" } else { "event_id = '33'" };
        let sql = format!("SELECT {column} FROM event WHERE {which}");
        let value: String = raw.query_row(&sql, [], |row| row.get(0)).expect("a value");
        let update = format!("UPDATE event SET {column} = ?1 WHERE {which}");
        for at in 0..value.len() {
            let mut bytes = value.clone().into_bytes();
            bytes[at] ^= 1;
            let wrong = String::from_utf8(bytes).expect("still a text");
            raw.execute(&update, [&wrong]).expect("the damage");
            let found = ledger.verify("local").expect("a check").expect_err(&format!("{column} {at}: {wrong}"));
            assert_eq!(found.position, 3, "{column} {at}: {found:?}");
            raw.execute(&update, [&value]).expect("whole again");
            flipped += 1;
        }
    }
    assert!(flipped > 250, "{flipped}");
    assert!(ledger.verify("local").expect("a check").is_ok());
    raw.execute_batch("UPDATE head SET position = 5, hash = (SELECT hash FROM event WHERE position = 5)")
        .expect("a head");
    assert_eq!(ledger.verify("local").expect("a check").expect_err("an event past the head").position, 7);
}

/// A member.
pub fn someone() -> Identity {
    let text = |text: &str| Some(text.to_owned());
    Identity {
        mode: Mode::Lab,
        tenant: "local".into(),
        project: "default".into(),
        user: "anna".into(),
        role: TeamRole::Member,
        kind: TokenKind::Person,
        request_id: "request".into(),
        trace_id: "trace".into(),
        run_id: text("run"),
        step_id: None,
        surface_id: text("surface"),
        app_id: text("app"),
        span: None,
        lease: None,
    }
}

#[test]
fn scenario_21_an_erased_text_is_gone_and_the_chain_and_its_archive_hold() {
    let home = super::home_with_file();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let paul = gateway.client(&token(home.path(), "paul", "member", &[]));
    let bot = gateway.client(&token(home.path(), "bot", "admin", &["--kind", "agent"]));
    let say = |client: &Client<'_>, id: &str, text: &str| {
        let message = json!({"event_type": "message.user", "source": "ui", "run_id": "r", "event_id": id, "body": {"text": text}});
        assert_eq!(client.post("/events/append", &message).status, 201);
    };
    say(&paul, "first", "my private word is quince");
    say(&anna, "second", "a text that stays");
    assert_eq!(paul.post("/events/append", &event(1)).status, 201);
    let file = |name: &str| home.path().join(name).display().to_string();
    let export = |name: &str| run(home.path(), &["gateway", "export", "local", &file(name)]);
    let check = |name: &str| run(home.path(), &["gateway", "verify", "--file", &file(name)]);
    assert_eq!(export("before.ndjson").0, Some(0));
    assert_eq!(export("before.ndjson").0, Some(2), "it overwrites nothing");
    assert_eq!(check("before.ndjson").0, Some(0));
    assert_eq!(paul.post("/admin/erasures", &json!({"user": "paul", "reason": "a wish"})).code(), "forbidden");
    assert_eq!(bot.post("/admin/erasures", &json!({"user": "paul", "reason": "a wish"})).code(), "forbidden");
    let erased = anna.post("/admin/erasures", &json!({"user": "paul", "reason": "a wish"}));
    assert_eq!((erased.status, &erased.json()["erased"]), (200, &json!(1)), "{erased:?}");
    assert_eq!(anna.post("/admin/erasures", &json!({"user": "paul", "reason": "a wish"})).json()["erased"], 0);
    let log = anna.get("/admin/log").json();
    assert_eq!((&log["whole"], &log["erased"]), (&json!(true), &json!(1)), "{log}");
    let events = anna.get("/events/list?limit=500").text;
    assert!(
        !events.contains("quince") && events.contains("a text that stays") && events.contains("erasure"),
        "{events}"
    );
    let over_http = anna.get("/admin/archive");
    assert_eq!(over_http.status, 200);
    assert_eq!(bot.get("/admin/archive").code(), "forbidden");
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let (status, told) = verify(home.path());
    assert!(status == Some(0) && told.contains("1 of them erased"), "{told}");
    assert_eq!(export("after.ndjson").0, Some(0));
    let (status, told, err) = check("after.ndjson");
    assert!(status == Some(0) && told.contains("1 of them erased"), "{told}{err}");
    let archive = std::fs::read_to_string(file("after.ndjson")).expect("the archive");
    assert!(!archive.contains("quince"));
    // Changes in the archive are found: a changed text, a missing line, a missing end.
    let lines: Vec<&str> = archive.lines().collect();
    let changed = archive.replacen("a text that stays", "a text that says", 1);
    let shorter = lines[..lines.len() - 1].join("\n") + "\n";
    let fewer: String =
        lines.iter().filter(|line| !line.contains("\"position\":2,")).map(|it| format!("{it}\n")).collect();
    let other_end =
        archive.replacen("\"type\":\"memory\"", "\"type\":\"file\"", 1).replacen("exported_at", "exported_as", 1);
    for (name, text) in [("changed", changed), ("shorter", shorter), ("fewer", fewer), ("other", other_end)] {
        assert_ne!(text, archive, "{name}");
        std::fs::write(file(name), text).expect("a wrong archive");
        let (status, told, err) = check(name);
        assert!(status == Some(1) && told.contains("broken at position"), "{name}: {told}{err}");
    }
    // A text that is removed without an entry in the log is found, too.
    let raw = sqlite(home.path());
    let refused = raw.execute("UPDATE event SET body = '{}' WHERE event_id = 'second'", []);
    assert!(refused.expect_err("a trigger").to_string().contains("append-only"));
    let body: String =
        raw.query_row("SELECT body FROM event WHERE event_id = 'second'", [], |row| row.get(0)).expect("a body");
    let sha256 = reedclaw::base::hash::sha256_hex(body.as_bytes());
    raw.execute("INSERT INTO erased SELECT tenant, position, ?1 FROM event WHERE event_id = 'second'", [&sha256])
        .expect("a row");
    let gone = format!("{{\"erased\":true,\"sha256\":\"{sha256}\"}}");
    raw.execute("UPDATE event SET body = ?1 WHERE event_id = 'second'", [&gone]).expect("the text is gone");
    let (status, told) = verify(home.path());
    assert!(status == Some(1) && told.contains("doesn't tell of an erasure"), "{told}");
}
