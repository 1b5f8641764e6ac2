//! What an editor brings along: servers of tools, which its person is asked about, and pictures.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::client::{Client, chosen};
use super::work;
use crate::changes::{home, rounds};
use crate::need::require;
use crate::server::{Server, answer};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.py");

/// Opens a session with one server of the editor's, which writes a line to a file for each call.
fn session(client: &Client, home: &Path) -> String {
    let place = work(home);
    fs::copy(FIXTURE, place.join("server.py")).expect("a copy");
    let server = json!({
        "name": "My Fixture", "command": "/usr/bin/python3", "env": [{"name": "MARK", "value": "from the editor"}],
        "args": ["-IS", place.join("server.py"), format!("touch={}", place.join("calls").display())],
    });
    let opened = client.request("session/new", json!({"cwd": place, "mcpServers": [server]}));
    opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}")).to_owned()
}

/// The titles of the questions that were put, the oldest first.
fn titles(client: &Client) -> Vec<String> {
    let asked = client.requests("session/request_permission");
    asked.iter().map(|it| it["toolCall"]["title"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn an_editors_server_is_used_after_its_person_allowed_it_and_never_before() {
    if !require(&["python3"]) {
        return;
    }
    let home = home(&[rounds("please", &[("my-fixture__act", json!({"what": "env"}))], "done")], "");
    let calls = work(home.path()).join("calls");

    // A no: the server isn't started, and the model has no such tool.
    let client = Client::connected(home.path(), json!({}));
    let name = session(&client, home.path());
    client.respond(|_, _| Some(chosen("no")));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client), ["Start the server my-fixture"]);
    assert!(!calls.exists() && !client.seen.borrow().iter().any(|it| it.to_string().contains("from the editor")));

    // A yes to each question.
    let client = Client::connected(home.path(), json!({}));
    let name = session(&client, home.path());
    client.respond(|_, message| message["params"]["options"][0]["optionId"].as_str().map(chosen));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    let asked = titles(&client);
    assert_eq!(asked[..2], ["Start the server my-fixture", "Let the model call the tools of my-fixture"], "{asked:?}");
    assert_eq!(asked.len(), 3, "the call itself is asked about, too: {asked:?}");
    let first = client.requests("session/request_permission")[0].to_string();
    assert!(first.contains("/usr/bin/python3 -IS") && first.contains("MARK") && !first.contains("from the editor"));
    let result = client.updates("tool_call_update").pop().expect("its end");
    assert!(result["status"] == "completed" && result.to_string().contains("MARK=from the editor"), "{result}");
    assert_eq!(fs::read_to_string(&calls).expect("calls"), "act\n");

    // The next session knows it; only its calls are asked about.
    let client = Client::connected(home.path(), json!({}));
    let name = session(&client, home.path());
    client.respond(|_, message| message["params"]["options"][0]["optionId"].as_str().map(chosen));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client).len(), 1, "{:?}", titles(&client));
    assert_eq!(fs::read_to_string(&calls).expect("calls"), "act\nact\n");
}

#[test]
fn a_server_that_cannot_be_used_is_named_and_the_session_goes_on() {
    let home = home(&[rounds("please", &[], "answered")], "");
    let client = Client::connected(home.path(), json!({}));
    let servers = json!([
        {"type": "sse", "name": "old", "url": "http://127.0.0.1:1/", "headers": []},
        {"name": "gone", "command": "/nonexistent", "args": [], "env": []},
    ]);
    let opened = client.request("session/new", json!({"cwd": work(home.path()), "mcpServers": servers}));
    let name = opened["result"]["sessionId"].as_str().expect("a session").to_owned();
    client.respond(|_, message| message["params"]["options"][0]["optionId"].as_str().map(chosen));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "answered");
    let told = client.text("agent_thought_chunk");
    assert!(told.contains("server old isn't used") && told.contains("gone"), "{told}");
}

#[test]
fn a_picture_of_a_prompt_reaches_a_model_that_takes_pictures() {
    let server = Server::start();
    server.reply(answer("seen"));
    let home = home(&[], "");
    let config = format!(
        "return {{ memory = {{auto = false}}, context = {{project = false}},
         models = {{ m = {{ endpoint = \"{}\", model = \"x\", images = true }} }} }}",
        server.endpoint()
    );
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    let client = Client::connected(home.path(), json!({}));
    let name = client.session(&work(home.path()));
    // The first bytes of a PNG, and then a text that is no picture.
    let prompt = json!([
        {"type": "text", "text": "what is it?"},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgpub3QgYSByZWFsIHBpY3R1cmU="},
        {"type": "image", "mimeType": "image/png", "data": "bm8gcGljdHVyZQ=="},
    ]);
    let done: Value = client.request("session/prompt", json!({"sessionId": name, "prompt": prompt}));
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done}");
    let sent = server.request(1).raw;
    assert!(sent.contains("data:image/png;base64,iVBORw0KGgpub3QgYSByZWFsIHBpY3R1cmU="), "{sent}");
    assert!(!sent.contains("bm8gcGljdHVyZQ"), "{sent}");
    assert!(client.text("agent_thought_chunk").contains("not attached: picture 2"));
}
