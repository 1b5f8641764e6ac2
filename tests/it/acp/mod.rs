//! ReedClaw inside an editor: sessions, prompts, permission, modes, cancelling and the end, over the Agent Client Protocol.

mod brings;
mod client;
mod edges;
mod goals;
mod others;
mod roots;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::changes::{home, read, rounds};
use crate::wait::wait_until;
use client::{Client, chosen, text_prompt};

const FULL: &str = "security = { autonomy = \"full\" }";

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("file_write", json!({"path": path, "content": content}))
}

fn work(home: &Path) -> std::path::PathBuf {
    home.join("work")
}

#[test]
fn an_answer_is_streamed_and_loaded_again_by_another_process() {
    let steps = json!({"when": "hello", "steps": [
        {"thought": "a "}, {"thought": "greeting"}, {"text": "Hi "}, {"text": "the\u{1b}[2Jre"},
        {"usage": {"in": 10, "cache_read": 5, "cache_write": 0, "out": 3, "reasoning": 1}}]});
    let written = rounds("make", &[write("a.txt", "one\n")], "made");
    let home = home(&[steps, written], FULL);
    let name = {
        let client = Client::connected(home.path(), json!({}));
        let session = client.session(&work(home.path()));
        assert_eq!(client.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
        assert_eq!(client.text("agent_thought_chunk"), "a greeting");
        assert_eq!(client.text("agent_message_chunk"), "Hi there", "without what a terminal would obey");
        let usage = &client.updates("usage_update")[0];
        assert_eq!(usage["used"], 19);
        assert!(usage["size"].as_u64().is_some_and(|size| size > 1000), "{usage}");
        assert_eq!(client.update("session_info_update")["title"], "hello");
        assert_eq!(client.prompt(&session, "make it")["result"]["stopReason"], "end_turn");
        session
    };
    assert_eq!(read(home.path(), "a.txt"), "one\n");

    let client = Client::connected(home.path(), json!({}));
    let listed = client.request("session/list", json!({"cwd": work(home.path())}));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], name.as_str());
    assert_eq!(listed["result"]["sessions"][0]["title"], "hello");
    assert_eq!(client.request("session/list", json!({"cwd": "/elsewhere"}))["result"]["sessions"], json!([]));
    let open = json!({"sessionId": name, "cwd": work(home.path()), "mcpServers": []});
    assert!(client.request("session/load", open.clone()).get("result").is_some());
    assert_eq!(client.text("user_message_chunk"), "hellomake it");
    assert_eq!(client.text("agent_message_chunk"), "Hi therehellomade".replace("hello", ""));
    let call = &client.updates("tool_call")[0];
    assert_eq!((&call["kind"], &call["status"]), (&json!("edit"), &json!("completed")), "{call}");
    assert_eq!(client.prompt(&name, "hello again")["result"]["stopReason"], "end_turn", "it goes on");

    assert_eq!(client.request("session/load", open.clone())["error"]["code"], -32_600, "it is open");
    assert!(client.request("session/close", json!({"sessionId": name})).get("result").is_some());
    let before = client.updates("user_message_chunk").len();
    assert!(client.request("session/resume", open).get("result").is_some());
    assert_eq!(client.updates("user_message_chunk").len(), before, "resume shows nothing again");
    assert!(client.request("session/close", json!({"sessionId": name})).get("result").is_some());
    assert!(client.request("session/delete", json!({"sessionId": name})).get("result").is_some());
    assert_eq!(client.request("session/list", json!({}))["result"]["sessions"], json!([]));
}

#[test]
fn a_permission_is_asked_where_the_gate_asks_and_only_an_offered_yes_counts() {
    let answers = [
        rounds("look", &[("file_read", json!({"path": "known.txt"}))], "seen"),
        rounds("make", &[write("a.txt", "one\n")], "made"),
        rounds("leave", &[("shell", json!({"command": "cat /etc/shadow; touch ../outside"}))], "tried"),
    ];
    let home = home(&answers, "");
    fs::write(work(home.path()).join("known.txt"), "known\n").expect("a file");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));

    client.prompt(&session, "look at it");
    assert_eq!(client.requests("session/request_permission"), Vec::<Value>::new(), "reading is never asked about");
    let call = &client.updates("tool_call")[0];
    let place = work(home.path()).canonicalize().expect("a path").join("known.txt");
    assert_eq!((&call["kind"], &call["status"]), (&json!("read"), &json!("in_progress")));
    assert_eq!(call["locations"], json!([{"path": place}]));
    assert!(client.updates("tool_call_update")[0].to_string().contains("known\\n"), "its result is shown");

    // Only a yes that was offered makes the file.
    for said in [
        chosen("no"),
        chosen("always"),
        chosen("yes"),
        json!({"outcome": {"outcome": "cancelled"}}),
        json!({"outcome": {"outcome": "cancelled", "optionId": "once"}}),
    ] {
        let answer = said.clone();
        client.respond(move |_, _| Some(answer.clone()));
        assert_eq!(client.prompt(&session, "make it")["result"]["stopReason"], "end_turn");
        assert_eq!(read(home.path(), "a.txt"), "(no file)", "{said}");
    }
    let asked = client.requests("session/request_permission").pop().expect("a question");
    let ids: Vec<&str> =
        asked["options"].as_array().expect("options").iter().filter_map(|it| it["optionId"].as_str()).collect();
    assert_eq!(ids, ["once", "no"], "an edit is never allowed for good");
    let difference = &asked["toolCall"]["content"][0];
    assert_eq!((&difference["type"], &difference["newText"]), (&json!("diff"), &json!("one\n")));
    let failed = client.updates("tool_call_update").pop().expect("its end");
    assert_eq!(failed["status"], "failed");

    client.respond(|client, message| {
        // A client that answers twice can't turn one call into two.
        client.raw(json!({"jsonrpc": "2.0", "id": message["id"], "result": chosen("once")}).to_string().as_bytes());
        Some(chosen("once"))
    });
    client.prompt(&session, "make it");
    assert_eq!(read(home.path(), "a.txt"), "one\n");
    let calls = client.updates("tool_call");
    let ids: std::collections::BTreeSet<String> = calls.iter().map(|call| call["toolCallId"].to_string()).collect();
    assert_eq!(ids.len(), calls.len(), "each call has an id of its own");

    let before = client.requests("session/request_permission").len();
    client.prompt(&session, "leave");
    let asked = client.requests("session/request_permission");
    let offers_always = asked[before..].iter().any(|it| it["options"].to_string().contains("always"));
    assert!(!offers_always, "what leaves the workspace is never allowed for good: {asked:?}");
    assert!(!home.path().join("outside").exists() || !asked[before..].is_empty(), "nothing leaves unasked");
}

#[test]
fn a_mode_never_goes_beyond_the_config_and_counts_at_once() {
    let home = home(&[rounds("make", &[write("a.txt", "one\n")], "made")], FULL);
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    let mode = |id: &str| client.request("session/set_mode", json!({"sessionId": session, "modeId": id}));
    assert!(mode("supervised").get("result").is_some());
    // The person chooses another mode while the question is open, and then says yes.
    let name = session.clone();
    client.respond(move |client, _| {
        client.send("session/set_mode", json!({"sessionId": name, "modeId": "readonly"}));
        Some(chosen("once"))
    });
    client.prompt(&session, "make it");
    assert_eq!(read(home.path(), "a.txt"), "(no file)");
    assert_eq!(client.updates("current_mode_update").pop().expect("an update")["currentModeId"], "readonly");
    assert!(client.updates("tool_call_update").pop().expect("its end").to_string().contains("readonly"));

    let option = json!({"sessionId": session, "configId": "mode", "value": "full"});
    let options = client.request("session/set_config_option", option);
    assert_eq!(options["result"]["configOptions"][0]["currentValue"], "full");
    client.prompt(&session, "make it");
    assert_eq!(read(home.path(), "a.txt"), "one\n");
    assert_eq!(client.requests("session/request_permission").len(), 1);
    assert_eq!(mode("boundless")["error"]["code"], -32_602);

    let careful = crate::changes::home(&[], "security = { autonomy = \"supervised\" }");
    let client = Client::connected(careful.path(), json!({}));
    let opened = client.request("session/new", json!({"cwd": work(careful.path()), "mcpServers": []}));
    assert!(!opened.to_string().contains("\"full\""), "{opened}");
    let session = opened["result"]["sessionId"].as_str().expect("a session");
    for (id, params) in [
        ("session/set_mode", json!({"sessionId": session, "modeId": "full"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "mode", "value": "full"})),
    ] {
        assert_eq!(client.request(id, params)["error"]["code"], -32_602);
    }
}

#[test]
fn a_command_is_asked_about_and_always_counts_in_this_project() {
    let answers = [rounds("count", &[("shell", json!({"command": "sed -i s/1/2/ n.txt"}))], "counted")];
    let home = home(&answers, "");
    fs::write(work(home.path()).join("n.txt"), "1\n").expect("a file");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    client.respond(|_, _| Some(chosen("always")));
    client.prompt(&session, "count");
    assert_eq!(read(home.path(), "n.txt"), "2\n");
    let asked = client.requests("session/request_permission");
    assert!(asked[0]["options"].to_string().contains("allow_always"), "{asked:?}");
    let file = work(home.path()).join("n.txt");
    fs::write(&file, "1\n").expect("a file");
    // A file that changes within a clock tick before a command counts as changed by another program meanwhile.
    let age = || fs::metadata(&file).and_then(|it| it.modified()).ok()?.elapsed().ok();
    wait_until(|| age().is_some_and(|age| age >= Duration::from_millis(20)));
    client.prompt(&session, "count");
    assert_eq!((read(home.path(), "n.txt").as_str(), client.requests("session/request_permission").len()), ("2\n", 1));
    client.prompt(&session, "/allowlist");
    assert!(client.text("agent_message_chunk").contains("sed -i"), "it is listed");
    client.prompt(&session, "/undo");
    assert_eq!(read(home.path(), "n.txt"), "1\n");
}

#[test]
fn a_cancelled_prompt_ends_in_each_of_its_phases_and_the_next_one_is_answered() {
    let answers = [
        json!({"when": "slow", "steps": [{"text": "begun"}, {"delay_ms": 120_000}, {"text": "never"}]}),
        rounds("sleep", &[("shell", json!({"command": "sleep 600"}))], "never"),
        rounds("make", &[write("a.txt", "one\n")], "made"),
        json!({"when": "hello", "steps": [{"text": "Hi"}]}),
    ];
    let home = home(&answers, "");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    let cancel = || client.notify("session/cancel", json!({"sessionId": session}));
    let ask = |text: &str| client.send("session/prompt", text_prompt(&session, text));
    let stopped = |id| client.response(id)["result"]["stopReason"].clone();

    let id = ask("slow");
    client.update("agent_message_chunk");
    assert_eq!(client.prompt(&session, "hello")["error"]["code"], -32_600, "one prompt at a time");
    cancel();
    assert_eq!(stopped(id), "cancelled");

    let id = ask("sleep");
    client.update("tool_call");
    client.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(stopped(id), "cancelled");

    let id = ask("make it");
    client.until("a question", |message| message["method"] == "session/request_permission");
    cancel();
    assert_eq!(stopped(id), "cancelled");
    assert_eq!(read(home.path(), "a.txt"), "(no file)");

    cancel();
    assert_eq!(client.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    assert!(!client.text("agent_message_chunk").contains("never"));
}

#[test]
fn eight_sessions_are_answered_at_once_and_a_ninth_is_refused() {
    let slow = json!({"when": "slow", "steps": [{"text": "begun"}, {"delay_ms": 120_000}]});
    let home = home(&[slow, json!({"when": "hello", "steps": [{"text": "Hi"}]})], "");
    let client = Client::connected(home.path(), json!({}));
    let sessions: Vec<String> = (0..8).map(|_| client.session(&work(home.path()))).collect();
    let ninth = client.request("session/new", json!({"cwd": work(home.path()), "mcpServers": []}));
    assert_eq!(ninth["error"]["code"], -32_600, "{ninth}");
    // All but one wait for their model; the last one is still answered.
    let waiting: Vec<u64> =
        sessions[..7].iter().map(|it| client.send("session/prompt", text_prompt(it, "slow"))).collect();
    assert_eq!(client.prompt(&sessions[7], "hello from the last")["result"]["stopReason"], "end_turn");
    sessions[..7].iter().for_each(|it| client.notify("session/cancel", json!({"sessionId": it})));
    for id in waiting {
        assert_eq!(client.response(id)["result"]["stopReason"], "cancelled");
    }
    let listed = client.request("session/list", json!({}));
    let rows = listed["result"]["sessions"].as_array().expect("sessions").clone();
    assert_eq!(rows.len(), 8, "one conversation each: {listed}");
    let of_last = rows.iter().find(|row| row["sessionId"] == sessions[7].as_str()).expect("the last one");
    assert_eq!(of_last["title"], "hello from the last");
}
