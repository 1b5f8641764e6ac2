//! Canvases: one revision per command, conflicts that name what a client needs to continue, and a state that the log proves.

use std::collections::BTreeSet;
use std::thread;

use nix::sys::signal::Signal;
use proptest::prelude::*;
use reedclaw::canvas::{State, fold};
use reedclaw::ledger::{Command, Committed, Filter, Ledger, Target};
use serde_json::{Value, json};

use super::streams::Reader;
use super::{Client, Gateway, home, token, verify};

fn create(id: &str) -> Value {
    json!({"op": "create", "atom": {"id": id, "type": "note", "order": "m", "props": {"text": id}}})
}

fn set(id: &str, path: &str, value: i64) -> Value {
    json!({"op": "set", "id": id, "path": path, "value": value})
}

fn command(client: &Client<'_>, base_rev: i64, key: &str, ops: &[Value], merge: bool) -> super::Answer {
    let mut body = json!({"base_rev": base_rev, "ops": ops, "idempotency_key": key});
    if merge {
        body["merge"] = "disjoint".into();
    }
    client.post("/canvas/board/commands", &body)
}

#[test]
fn scenario_25_and_26_a_command_that_is_sent_again_is_one_revision() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let viewer = gateway.client(&token(home.path(), "vera", "viewer", &[]));
    assert_eq!(viewer.get("/canvas/board/snapshot").code(), "not_found");
    assert_eq!(command(&viewer, 0, "k", &[create("a")], false).code(), "forbidden");
    let answers: Vec<_> = thread::scope(|scope| {
        let send = || command(&client, 0, "first", &[create("a")], false);
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    let events: BTreeSet<String> = answers.iter().map(|answer| answer.json()["event_id"].to_string()).collect();
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!((events.len(), answers.iter().filter(|it| it.json()["replayed"] == false).count()), (1, 1));
    let without = json!({"base_rev": 0, "ops": [create("a")]});
    let again = super::allowed(|| client.with("Idempotency-Key", "first").post("/canvas/board/commands", &without));
    assert_eq!(
        (again.status, again.headers["idempotent-replay"].as_str()),
        (200, "true"),
        "the header is the key, too"
    );
    assert_eq!(command(&client, 0, "first", &[create("b")], false).code(), "idempotency_mismatch");
    assert_eq!(
        client.post("/canvas/board/commands", &json!({"base_rev": 1, "ops": [create("b")]})).code(),
        "idempotency_missing"
    );
    let twice = json!({"base_rev": 1, "ops": [create("b")], "idempotency_key": "x", "correlation_id": "y"});
    assert_eq!(client.post("/canvas/board/commands", &twice).code(), "body_invalid");
    let snapshot = viewer.get("/canvas/board/snapshot").json();
    assert_eq!((&snapshot["rev"], snapshot["atoms"].as_array().map(Vec::len)), (&json!(1), Some(1)), "{snapshot}");
    assert_eq!(viewer.with("X-Project-Id", "other").get("/canvas/board/snapshot").code(), "not_found");
    assert_eq!(command(&client.with("X-Project-Id", "other"), 1, "o", &[create("b")], false).code(), "not_found");
}

#[test]
fn canvases_are_listed_by_name_and_page_for_their_project_alone() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let none = client.get("/canvas").json();
    assert_eq!(none, json!({"items": [], "next": null}));
    for (project, name) in [("default", "b"), ("default", "a"), ("default", "c"), ("other", "d")] {
        let body = json!({"base_rev": 0, "ops": [create("one")], "idempotency_key": name});
        let made = client.with("X-Project-Id", project).post(&format!("/canvas/{name}/commands"), &body);
        assert_eq!(made.status, 200, "{made:?}");
    }
    let first = client.get("/canvas?limit=2").json();
    let canvas = |name: &str| json!({"canvas_id": name, "rev": 1});
    assert_eq!(first, json!({"items": [canvas("a"), canvas("b")], "next": "b"}));
    assert_eq!(client.get("/canvas?limit=2&cursor=b").json(), json!({"items": [canvas("c")], "next": null}));
    assert_eq!(client.with("X-Project-Id", "other").get("/canvas").json()["items"], json!([canvas("d")]));
}

#[test]
fn scenario_28_and_29_a_late_command_gets_what_it_missed_or_merges() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    assert_eq!(command(&client, 0, "1", &[create("a"), create("b")], false).json()["head_rev"], 1);
    assert_eq!(command(&client, 1, "2", &[set("a", "/x", 1)], false).json()["head_rev"], 2);
    let late = command(&client, 1, "3", &[set("b", "/x", 2)], false);
    assert_eq!((late.status, late.code().as_str()), (409, "conflict"));
    let late = late.json();
    assert_eq!(
        (&late["head_rev"], &late["error"]["expected_rev"], &late["applied_ops"]),
        (&json!(2), &json!(2), &json!([]))
    );
    assert_eq!(late["recovery_ops"], json!([set("a", "/x", 1)]));
    // The same key and operations on the new base are the same command.
    assert_eq!(command(&client, 2, "3", &[set("b", "/x", 2)], false).json()["head_rev"], 3);
    let merged = command(&client, 1, "4", &[set("b", "/y", 3)], true).json();
    assert_eq!((&merged["head_rev"], &merged["merged"]), (&json!(4), &json!(true)));
    assert_eq!(command(&client, 1, "5", &[set("a", "/x/deep", 4)], true).code(), "conflict", "the same place");
    assert_eq!(command(&client, 99, "6", &[set("a", "/x", 4)], false).code(), "op_invalid");
    let invalid = command(&client, 4, "7", &[set("a", "/x", 5), json!({"op": "delete", "id": "none"})], false);
    assert_eq!((invalid.status, &invalid.json()["error"]["details"]["index"]), (422, &json!(1)));
    // Known types have properties in a fixed form; other types accept any.
    let atom = |kind: &str, props: Value| json!({"op": "create", "atom": {"id": kind, "type": kind, "order": "m", "props": props}});
    for wrong in [atom("link", json!({"from": "a"})), atom("note", json!({"text": 1})), set("b", "/text", 1)] {
        let refused = command(&client, 4, "8", &[wrong], false);
        assert_eq!((refused.status, refused.code().as_str()), (422, "op_invalid"), "{refused:?}");
    }
    let form = client.get("/ui/atoms/link.json");
    assert_eq!((form.status, &form.json()["required"]), (200, &json!(["from", "to"])), "{form:?}");
    // A refused command stored nothing, so its key is free.
    assert_eq!(command(&client, 4, "7", &[json!({"op": "delete", "id": "a"})], false).json()["head_rev"], 5);
    let any = [atom("sketch", json!({"text": 1})), atom("link", json!({"from": "b", "to": "sketch"}))];
    assert_eq!(command(&client, 5, "9", &any, false).json()["head_rev"], 6);
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn scenario_30_snapshot_and_replay_say_the_same_and_a_forged_snapshot_is_found() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let secret = token(home.path(), "anna", "member", &[]);
    let client = gateway.client(&secret);
    assert_eq!(command(&client, 0, "0", &[create("a")], false).status, 200);
    for rev in 1..203 {
        let answer = command(&client, rev, &rev.to_string(), &[set("a", "/n", rev)], false);
        if answer.status == 429 {
            // A user's requests are limited; this one is repeated until it is let through.
            while command(&client, rev, &rev.to_string(), &[set("a", "/n", rev)], false).status == 429 {}
        }
    }
    let snapshot = |client: &Client<'_>| loop {
        let answer = client.get("/canvas/board/snapshot");
        if answer.status != 429 {
            return answer.json();
        }
    };
    let whole = snapshot(&client);
    assert_eq!((&whole["rev"], &whole["atoms"][0]["props"]["n"]), (&json!(203), &json!(202)));
    let forgery = "UPDATE canvas_snapshot SET atoms = replace(atoms, '\"n\":199', '\"n\":7')";
    assert_eq!(super::change(home.path(), forgery), 1);
    // A gateway has its canvases in memory; the next one reads the snapshot.
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&secret);
    assert_eq!(snapshot(&client)["state_hash"], whole["state_hash"]);
    let left = super::read_rows(home.path(), "SELECT count(*) FROM canvas_snapshot");
    assert_eq!(left, ["0"], "the forged one is gone");
    let lines = loop {
        let answer = client.get("/canvas/board/replay");
        if answer.status != 429 {
            break answer.text;
        }
    };
    let ahead = super::allowed(|| client.get("/canvas/board/replay?after_event_id=1-99999"));
    assert_eq!((ahead.status, ahead.code().as_str()), (410, "cursor_gone"), "whoever is ahead isn't up to date");
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert_eq!((lines.lines().count(), &last["last_event_id"]), (204, &whole["last_event_id"]));
    // Each cursor returns the remaining revisions, and each revision equals the log folded from the start up to it.
    let commits: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut state = State::default();
    for (number, commit) in commits[..203].iter().enumerate() {
        let body = &commit["body"];
        state = fold(&state, body["ops"].as_array().expect("operations")).expect("they were committed");
        assert_eq!((body["rev"].as_i64(), body["state_hash"].as_str()), (Some(state.rev), Some(state.hash().as_str())));
        if number % 20 == 0 || number > 195 {
            let path = format!("/canvas/board/replay?after_event_id={}", commit["id"].as_str().expect("a cursor"));
            let rest = super::allowed(|| client.get(&path)).text;
            assert!(lines.ends_with(&rest) && rest.lines().count() == 203 - number, "{path}: {rest}");
        }
    }
    assert_eq!(whole["state_hash"], state.hash());
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    assert_eq!(verify(home.path()).0, Some(0));
    super::change(home.path(), "UPDATE canvas SET rev = rev - 1");
    let (status, told) = verify(home.path());
    assert!(status == Some(1) && told.contains("canvas board"), "{told}");
}

#[test]
fn scenario_31_commits_and_decisions_come_as_events_and_none_is_missed() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    assert_eq!(client.get("/sse/canvas/board").code(), "not_found");
    assert_eq!(command(&client, 0, "1", &[create("a")], false).status, 200);
    let cursor = client.get("/canvas/board/snapshot").json()["last_event_id"].as_str().expect("a cursor").to_owned();
    let mut reader = Reader::new(client.open(&format!("/sse/canvas/board?last_event_id={cursor}")));
    for rev in 1..6 {
        assert_eq!(command(&client, rev, &rev.to_string().repeat(2), &[set("a", "/n", rev)], false).status, 200);
    }
    for rev in 2..7 {
        let (id, _, data) = reader.expect("op_committed");
        assert_eq!(
            (&data["type"], &data["body"]["rev"], &data["routing"]["tenant"]),
            (&json!("canvas_commit"), &json!(rev), &json!("local"))
        );
        assert!(id.is_some() && data["ids"]["request_id"].is_string(), "{data}");
    }
    assert_eq!(client.post("/estop", &json!({"scope": "tenant"})).status, 200);
    assert_eq!(command(&client, 6, "9", &[set("a", "/n", 9)], false).code(), "kill_switch");
    let decision = loop {
        let frame = reader.expect("safety_decision").2;
        if frame["body"]["outcome"] == "block" {
            break frame;
        }
    };
    assert_eq!(
        (&decision["body"]["gate"], &decision["body"]["action_name"]),
        (&json!("kill_switch"), &json!("canvas_command"))
    );
}

/// A client with its knowledge of a canvas.
#[derive(Default)]
struct Peer {
    state: State,
}

impl Peer {
    /// Applies operations that other clients committed.
    fn take(&mut self, ops: &[Value], rev: i64) {
        for op in ops {
            let next = fold(&self.state, std::slice::from_ref(op)).expect("what was committed fits");
            self.state.atoms = next.atoms;
        }
        self.state.rev = rev;
    }
}

fn one_op(kind: u8, atom: u8, value: u8) -> Value {
    let id = format!("a{atom}");
    match kind {
        0 | 1 => create(&id),
        2 | 3 => set(&id, ["/x", "/y", "/y/z"][usize::from(value % 3)], i64::from(value)),
        4 => json!({"op": "unset", "id": id, "path": "/x"}),
        5 => json!({"op": "move", "id": id, "parent": format!("a{}", value % 4), "order": "m"}),
        _ => json!({"op": "delete", "id": id}),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Five clients with stale states, with and without merges: all end in the state of the log, which contains every
    /// acknowledged change.
    #[test]
    fn scenario_29_five_clients_converge(
        steps in proptest::collection::vec((0..5_usize, 0..7_u8, 0..4_u8, any::<u8>(), any::<bool>()), 1..60)
    ) {
        let home = home();
        let ledger = match std::fs::read_to_string(home.path().join("database-address")) {
            Ok(address) => Ledger::open_at(Target::Server(address)).expect("a database"),
            Err(_) => Ledger::open(&home.path().join("gateway.db")).expect("a database"),
        };
        let who = super::log::someone();
        let mut peers: Vec<Peer> = (0..5).map(|_| Peer::default()).collect();
        let mut acknowledged = Vec::new();
        for (number, (peer, kind, atom, value, may_merge)) in steps.into_iter().enumerate() {
            let peer = &mut peers[peer];
            let ops = vec![one_op(kind, atom, value)];
            loop {
                let (base_rev, key) = (peer.state.rev, format!("key-{number}"));
                let command = Command { base_rev, ops: ops.clone(), key, may_merge, source: "ui" };
                match ledger.canvases().command(&who, "board", &command).expect("an answer") {
                    Committed::Done(answer, _) => {
                        let head = answer["head_rev"].as_i64().expect("a revision");
                        acknowledged.push(answer["event_id"].as_str().expect("an id").to_owned());
                        // A client that merged has missed an operation, and learns of it later.
                        if head == base_rev + 1 {
                            peer.take(&ops, head);
                        }
                        break;
                    }
                    Committed::Conflict { head_rev, recovery_ops } => peer.take(&recovery_ops.expect("few"), head_rev),
                    Committed::Invalid(_) => break,
                    Committed::Ahead(head) => panic!("{base_rev} is ahead of {head}"),
                }
            }
        }
        let log = ledger.read(&who, 0, &Filter { event_type: Some("canvas_commit".into()), ..Filter::default() }, 1_000);
        let log = log.expect("the log");
        prop_assert_eq!(acknowledged, log.iter().map(|event| event.event_id.clone()).collect::<Vec<_>>());
        for peer in &mut peers {
            for event in &log[usize::try_from(peer.state.rev).expect("small")..] {
                let body = event.body();
                peer.take(body["ops"].as_array().expect("operations"), body["rev"].as_i64().expect("a revision"));
            }
        }
        if let Some(last) = log.last() {
            let hash = last.body()["state_hash"].as_str().expect("a hash").to_owned();
            for peer in &peers {
                prop_assert_eq!(peer.state.hash(), hash.clone());
            }
        }
        prop_assert!(ledger.verify("local").expect("a check").is_ok());
    }
}
