//! Questions that are answered over HTTP: the first answer counts, it admits exactly the call that was shown, and no call runs
//! without an answer.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::limits::gauge;
use super::streams::Reader;
use super::{Answer, Client, Gateway, home, home_with, run, token, verify};

fn write(path: &str, more: Value) -> Value {
    let mut body = json!({"action_name": "file_write", "subject_type": "thread", "subject_id": "t-1",
        "args": {"path": path, "content": "x"}});
    more.as_object().expect("fields").iter().for_each(|(name, value)| body[name] = value.clone());
    body
}

/// A pause between two polls: a user may send fifty requests a second.
fn rest() {
    thread::park_timeout(Duration::from_millis(50));
}

/// Asks for an action that waits for a person; returns the question's id.
fn asked(client: &Client<'_>, body: &Value) -> String {
    let answer = client.post("/actions/execute", body);
    assert_eq!((answer.status, &answer.json()["status"]), (202, &json!("waiting")), "{answer:?}");
    answer.json()["question_id"].as_str().expect("an id").to_owned()
}

fn said(client: &Client<'_>, question: &Value, answer: &str) -> Answer {
    let id = question["question_id"].as_str().expect("an id");
    let body = json!({"digest": question["digest"], "answer": answer, "seen_to_end": true});
    client.post(&format!("/questions/{id}/answer"), &body)
}

/// Waits until the call that a question was about has ended.
pub fn outcome(client: &Client<'_>, id: &str) -> Value {
    loop {
        let question = client.get(&format!("/questions/{id}")).json();
        if !question["outcome"].is_null() {
            return question;
        }
        rest();
    }
}

#[test]
fn scenario_54_a_question_is_answered_once_and_only_for_the_call_that_was_shown() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    let bot = gateway.client(&token(home.path(), "bot", "approver", &["--kind", "agent"]));
    let mut inbox = Reader::new(ben.open("/sse/inbox"));
    inbox.expect("system");
    let body = write("note.txt", json!({"idempotency_key": "once"}));
    let id = asked(&anna, &body);
    assert_eq!(asked(&anna, &body), id, "asked for again, the same question");
    assert_eq!(gauge(&gateway, "reedclaw_questions_open"), 1);
    assert_eq!(inbox.expect("question.asked").2["body"]["question_id"], *id);
    assert_eq!(anna.get("/questions?state=open").code(), "forbidden");
    let open = ben.get("/questions?state=open").json()["items"].clone();
    let question = &open[0];
    assert_eq!((&question["question_id"], &question["may_answer"]), (&json!(id), &json!(true)), "{open}");
    assert_eq!((&question["tool"], &question["risk"]), (&json!("file_write"), &json!("medium")), "{open}");
    assert!(question["changes"][0]["new"] == "x" && question["asked_by"] == "anna", "{question}");
    let seen = bot.get("/questions?state=open").json()["items"][0].clone();
    assert_eq!(seen["may_answer"], false, "an agent answers nothing: {seen}");
    assert_eq!(said(&bot, question, "once").code(), "forbidden");
    assert_eq!(said(&anna, question, "once").code(), "forbidden");
    let unseen = json!({"digest": question["digest"], "answer": "once", "seen_to_end": false});
    assert_eq!(ben.post(&format!("/questions/{id}/answer"), &unseen).code(), "body_invalid");
    let mut other = question.clone();
    other["digest"] = "0".repeat(64).into();
    assert_eq!(said(&ben, &other, "once").code(), "conflict");
    assert!(!home.path().join("ws/note.txt").exists());
    // Two answers at once: one counts.
    let answers: Vec<Answer> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| said(&ben, question, "once"))).collect();
        threads.into_iter().map(|it| it.join().expect("an answer")).collect()
    });
    assert_eq!(answers.iter().filter(|it| it.status == 200).count(), 1, "{answers:?}");
    let late = answers.iter().find(|it| it.status != 200).expect("a second answer");
    assert_eq!((late.code().as_str(), &late.json()["error"]["context"]["by"]), ("already_answered", &json!("ben")));
    let done = outcome(&anna, &id);
    assert_eq!((&done["http_status"], &done["outcome"]["status"]), (&json!(200), &json!("completed")), "{done}");
    assert_eq!(gauge(&gateway, "reedclaw_questions_open"), 0);
    assert_eq!(std::fs::read_to_string(home.path().join("ws/note.txt")).expect("the file"), "x");
    let again = anna.post("/actions/execute", &body);
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("completed")), "{again:?}");
    assert!(anna.get("/receipts?tool=file_write").text.contains("person:ben"));
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn a_client_that_waits_gets_the_end_and_a_no_stops_the_call() {
    let home = home_with("gateway = {four_eyes = true}");
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "approver", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    let question = |of: &str| loop {
        let open = ben.get("/questions?state=open").json()["items"].clone();
        let found = open.as_array().expect("items").iter().find(|it| it["action"].as_str().unwrap_or("").contains(of));
        if let Some(found) = found {
            break found.clone();
        }
        rest();
    };
    let (yes, no) = thread::scope(|scope| {
        let send = |path: &'static str| anna.post("/actions/execute", &write(path, json!({"wait_ms": 30_000})));
        let (yes, no) = (scope.spawn(move || send("yes.txt")), scope.spawn(move || send("no.txt")));
        assert_eq!(said(&anna, &question("yes.txt"), "once").code(), "forbidden", "four eyes");
        assert_eq!(said(&ben, &question("yes.txt"), "once").status, 200);
        assert_eq!(said(&ben, &question("no.txt"), "no").status, 200);
        (yes.join().expect("an answer"), no.join().expect("an answer"))
    });
    assert_eq!((yes.status, &yes.json()["status"]), (200, &json!("completed")), "{yes:?}");
    assert_eq!((no.status, no.code().as_str()), (403, "approval"), "{no:?}");
    assert!(home.path().join("ws/yes.txt").exists() && !home.path().join("ws/no.txt").exists());
    // What a gate blocks isn't asked about.
    assert_eq!(anna.post("/estop", &json!({"scope": "tenant"})).status, 200);
    assert_eq!(anna.post("/actions/execute", &write("late.txt", json!({}))).code(), "kill_switch");
    assert_eq!(ben.get("/questions?state=open").json()["items"], json!([]));
}

#[test]
fn a_question_gets_as_much_time_again_once_from_those_who_may_answer_it() {
    let home = home_with("gateway = {question_timeout = 600}");
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    let bot = gateway.client(&token(home.path(), "bot", "approver", &["--kind", "agent"]));
    let id = asked(&anna, &write("slow.txt", json!({})));
    let extend = |client: &Client<'_>| client.post(&format!("/questions/{id}/extend"), &json!({}));
    let before = ben.get(&format!("/questions/{id}")).json();
    assert_eq!((extend(&anna).code().as_str(), extend(&bot).code().as_str()), ("forbidden", "forbidden"));
    assert_eq!(ben.get(&format!("/questions/{id}")).json()["deadline"], before["deadline"]);
    let more = extend(&ben).json();
    let time = |value: &Value| value.as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
    assert_eq!((time(&more["deadline"]) - time(&before["asked_at"])).total(jiff::Unit::Second).ok(), Some(1_200.0));
    assert_eq!(extend(&ben).json(), more, "no more than once");
    assert_eq!(ben.get("/events/list?type=question.extended").json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(said(&ben, &before, "no").status, 200);
    assert_eq!(extend(&ben).code(), "already_answered");
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn a_question_that_is_over_takes_no_answer_and_a_kill_switch_closes_it() {
    let home = home_with("gateway = {question_timeout = 1}");
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let id = asked(&anna, &write("late.txt", json!({})));
    let done = outcome(&anna, &id);
    assert_eq!((&done["state"], &done["http_status"]), (&json!("expired"), &json!(403)), "{done}");
    let answer = said(&anna, &done, "once");
    assert_eq!((answer.status, answer.code().as_str()), (410, "question_expired"), "{answer:?}");
    assert!(!home.path().join("ws/late.txt").exists());
    drop(gateway);
    let more = super::home();
    let gateway = Gateway::start(more.path());
    let anna = gateway.client(&token(more.path(), "anna", "admin", &[]));
    let id = asked(&anna, &write("stopped.txt", json!({})));
    assert_eq!(anna.post("/estop", &json!({"scope": "tenant"})).status, 200);
    let done = outcome(&anna, &id);
    assert_eq!((&done["state"], &done["http_status"]), (&json!("expired"), &json!(403)), "{done}");
}

#[test]
fn scenario_10_what_a_killed_gateway_was_doing_is_unknown_and_its_reservations_are_free() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let secret = token(home.path(), "anna", "admin", &[]);
    let anna = gateway.client(&secret);
    assert_eq!(run(home.path(), &["gateway", "tenant", "limit", "local", "calls", "2"]).0, Some(0));
    let question = asked(&anna, &write("open.txt", json!({})));
    let body = json!({"action_name": "shell", "subject_type": "run", "subject_id": "r", "idempotency_key": "k",
        "args": {"command": "sleep 600"}});
    let unanswered = gateway.open_write("/actions/execute", &anna, &body);
    while anna.get("/events/list?type=action.admitted").json()["items"] == json!([]) {
        rest();
    }
    assert_eq!(anna.get("/budget").json()["items"][0]["spent"], 1);
    gateway.end(Signal::SIGKILL);
    drop(unanswered);
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&secret);
    // A second gateway on a database server would count as alive until its lease expires.
    let unknown = || anna.get("/events/list?type=action.unknown").json()["items"].clone();
    while super::is_on_server(home.path()) && unknown() == json!([]) {
        rest();
    }
    let unknown = unknown();
    assert_eq!((&unknown[0]["stream"], &unknown[0]["run_id"]), (&json!("run/r"), &json!("r")), "{unknown}");
    assert_eq!(anna.get("/budget").json()["items"][0]["spent"], 0);
    let again = anna.post("/actions/execute", &body);
    assert_eq!((again.code().as_str(), &again.json()["error"]["context"]["state"]), ("in_progress", &json!("unknown")));
    assert_eq!(anna.get(&format!("/questions/{question}")).json()["state"], "expired");
    assert_eq!(super::read_rows(home.path(), "SELECT count(*) FROM reservation"), ["0"]);
    assert_eq!(verify(home.path()).0, Some(0));
}
