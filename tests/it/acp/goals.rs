//! Runs towards goals in an editor: the plan as updates, the questions before and during a run, and its end.

use std::fs;

use serde_json::{Value, json};

use super::client::{Client, chosen};
use super::work;
use crate::changes::{home, read, rounds};

fn shell(when: &str, command: &str, text: &str) -> Value {
    rounds(when, &[("shell", json!({"command": command}))], text)
}

fn plan() -> Value {
    json!({"when": "Plan the work", "steps": [{"text": "TASK: write it\nTASK: clean up\nCHECK: `test -e made`"}]})
}

/// The states of the tasks in each plan that arrived.
fn plans(client: &Client) -> Vec<Vec<String>> {
    let state = |entry: &Value| entry["status"].as_str().expect("a state").to_owned();
    let states = |update: &Value| update["entries"].as_array().expect("entries").iter().map(state).collect();
    client.updates("plan").iter().map(states).collect()
}

#[test]
fn a_goal_shows_its_plan_and_waits_for_its_person_before_and_within_the_work() {
    let answers = [
        plan(),
        shell("TASK 1: write it", "echo 1 > made", "it is there"),
        shell("TASK 2: clean up", "rm -rf old", "clean"),
    ];
    let home = home(&answers, "");
    fs::create_dir_all(work(home.path()).join("old/deep")).expect("a directory");
    fs::write(work(home.path()).join("old/deep/file"), "x\n").expect("a file");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    let commands = client.update("available_commands_update").to_string();
    assert!(commands.contains("\"goal\""), "{commands}");

    let place = work(home.path());
    client.respond(move |_, message| {
        let call = &message["params"]["toolCall"];
        if call["title"] == "Begin to work?" {
            assert!(call.to_string().contains("proposed with the plan: `test -e made`"), "{call}");
            assert!(!place.join("made").exists(), "nothing is done before the plan was seen");
        } else {
            assert!(call.to_string().contains("rm -rf old"), "{call}");
            assert!(place.join("old").exists(), "a deletion waits for its person");
        }
        Some(chosen("yes"))
    });
    assert_eq!(client.prompt(&session, "/goal make it")["result"]["stopReason"], "end_turn");
    assert_eq!((read(home.path(), "made"), work(home.path()).join("old").exists()), ("1\n".into(), false));
    assert_eq!(client.requests("session/request_permission").len(), 2, "the plan, and the deletion");
    let shown = client.updates("plan");
    assert_eq!(shown[0]["entries"][0], json!({"content": "write it", "priority": "medium", "status": "pending"}));
    let states = plans(&client);
    for states_then in [["pending", "pending"], ["in_progress", "pending"], ["completed", "in_progress"]] {
        assert!(states.iter().any(|it| it == &states_then), "{states_then:?}: {states:?}");
    }
    assert_eq!(states.last().expect("a plan"), &["completed", "completed"]);
    let answer = client.text("agent_message_chunk");
    assert!(answer.contains("Run 1: verified"), "{answer}");
    assert!(!answer.contains("it is there"), "the executor's words are no answer: {answer}");
    assert!(client.updates("tool_call").iter().any(|call| call["rawInput"]["command"] == "echo 1 > made"));

    client.prompt(&session, "/goal list");
    assert!(client.text("agent_message_chunk").contains("2/2"), "{}", client.text("agent_message_chunk"));
}

#[test]
fn a_goal_that_is_refused_does_nothing_and_one_that_is_left_open_goes_on_later() {
    let home = home(&[plan(), shell("TASK 1: write it", "echo 1 > made", "done"), shell("TASK 2", "true", "done")], "");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    client.respond(|_, _| Some(chosen("no")));
    client.prompt(&session, "/goal make it");
    assert_eq!(read(home.path(), "made"), "(no file)");
    assert!(client.text("agent_message_chunk").contains("Run 1: stopped"), "{}", client.text("agent_message_chunk"));
    // Neither yes nor no: the run waits, even for another session and process.
    client.respond(|_, _| Some(json!({"outcome": {"outcome": "cancelled"}})));
    client.prompt(&session, "/goal make it");
    assert!(client.text("agent_message_chunk").contains("/goal resume 2 continues it"));
    drop(client);
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    client.respond(|_, _| Some(chosen("yes")));
    assert_eq!(client.prompt(&session, "/goal resume 2")["result"]["stopReason"], "end_turn");
    assert_eq!(read(home.path(), "made"), "1\n");
    assert!(client.text("agent_message_chunk").contains("Run 2: verified"), "{}", client.text("agent_message_chunk"));
}

#[test]
fn a_goal_keeps_to_the_mode_of_its_session_and_stops_with_its_prompt() {
    let slow = json!({"when": "TASK 1: wait", "steps": [{"delay_ms": 600_000}, {"text": "I work"}]});
    let wait = json!({"when": "wait long", "steps": [{"text": "TASK: wait"}]});
    let home = home(&[slow, wait, plan(), shell("TASK 1: write it", "echo 1 > made", "done")], "");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    client.respond(|_, _| Some(chosen("yes")));
    let asked = client.send("session/prompt", super::text_prompt(&session, "/goal wait long"));
    client.until("the task at hand", |message| {
        message.pointer("/params/update/entries/0/status") == Some(&json!("in_progress"))
    });
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.response(asked)["result"]["stopReason"], "cancelled");
    assert!(client.text("agent_message_chunk").contains("Run 1: paused"), "{}", client.text("agent_message_chunk"));

    client.request("session/set_mode", json!({"sessionId": session, "modeId": "readonly"}));
    client.prompt(&session, "/goal make it");
    assert_eq!(read(home.path(), "made"), "(no file)", "a run can't do more than the mode allows");
}
