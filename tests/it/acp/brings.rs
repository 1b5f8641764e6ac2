//! Servers of tools and pictures that an editor sends; the person is asked about the servers.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::client::{Client, chosen};
use super::work;
use crate::changes::{home, rounds};
use crate::need::require;
use crate::server::{Server, answer};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.py");

/// Opens a session with one server of the editor, which writes a line to a file for each call.
fn session(client: &Client, home: &Path) -> String {
    let place = work(home);
    fs::copy(FIXTURE, place.join("server.py")).expect("a copy");
    session_with(client, home, "from the editor")
}

/// Opens a session in which the server's variable has another value.
fn session_with(client: &Client, home: &Path, value: &str) -> String {
    let place = work(home);
    let server = json!({
        "name": "My Fixture", "command": "/usr/bin/python3", "env": [{"name": "MARK", "value": value}],
        "args": ["-IS", place.join("server.py"), format!("touch={}", place.join("calls").display())],
    });
    let opened = client.request("session/new", json!({"cwd": place, "mcpServers": [server]}));
    opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}")).to_owned()
}

/// The titles of the questions that were asked, the oldest first.
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
    // A command before the first question doesn't use up the question about the server.
    assert_eq!(client.prompt(&name, "/cost")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client), Vec::<String>::new());
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client), ["Start the server my-fixture"]);
    let has_value = |it: &Value| it["method"] == "session/update" && it.to_string().contains("from the editor");
    assert!(!calls.exists() && !client.seen.borrow().iter().any(has_value));

    // A yes to each question.
    let client = Client::connected(home.path(), json!({}));
    let name = session(&client, home.path());
    client.respond(|_, message| message["params"]["options"][0]["optionId"].as_str().map(chosen));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    let asked = titles(&client);
    assert_eq!(asked[..2], ["Start the server my-fixture", "Let the model call the tools of my-fixture"], "{asked:?}");
    assert_eq!(asked.len(), 3, "the call itself is asked about, too: {asked:?}");
    let first = client.requests("session/request_permission")[0].to_string();
    assert!(
        first.contains("/usr/bin/python3 -IS") && first.contains("\\nWith the variable MARK=from the editor"),
        "{first}"
    );
    let result = client.updates("tool_call_update").pop().expect("its end");
    assert!(result["status"] == "completed" && result.to_string().contains("MARK=from the editor"), "{result}");
    assert_eq!(fs::read_to_string(&calls).expect("calls"), "act\n");

    // The next session remembers the server; the person is asked only about its calls.
    let client = Client::connected(home.path(), json!({}));
    let name = session(&client, home.path());
    client.respond(|_, message| message["params"]["options"][0]["optionId"].as_str().map(chosen));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client).len(), 1, "{:?}", titles(&client));
    assert_eq!(fs::read_to_string(&calls).expect("calls"), "act\nact\n");

    // With another value it counts as another server, since the value may decide which code runs. A cancelled question is asked
    // again.
    let client = Client::connected(home.path(), json!({}));
    let name = session_with(&client, home.path(), "from a repository");
    let session = name.clone();
    client.respond(move |client, _| {
        client.notify("session/cancel", json!({"sessionId": session}));
        Some(json!({"outcome": {"outcome": "cancelled"}}))
    });
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "cancelled");
    client.respond(|_, _| Some(chosen("no")));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client), ["Start the server my-fixture"; 2]);
    let asked = client.requests("session/request_permission").pop().expect("a question").to_string();
    assert!(asked.contains("MARK=from a repository"), "{asked}");
    assert_eq!(fs::read_to_string(&calls).expect("calls"), "act\nact\n");
}

/// A script with the same name in another directory is another script, so the person is asked before it starts.
#[test]
fn an_editors_server_is_asked_about_in_each_directory_and_shows_how_far_it_is() {
    if !require(&["python3"]) {
        return;
    }
    let home = home(&[rounds("please", &[("proj__act", json!({"what": "halfway"}))], "done")], "");
    let asked_in = |place: &Path, answer: &'static str| {
        fs::create_dir_all(place.join(".git")).expect("a repository");
        fs::copy(FIXTURE, place.join("server.py")).expect("a script");
        let client = Client::connected(home.path(), json!({}));
        let server = json!({"name": "proj", "command": "/usr/bin/python3", "env": [], "args": ["-IS", "server.py", "touch=calls"]});
        let opened = client.request("session/new", json!({"cwd": place, "mcpServers": [server]}));
        let name = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
        client.respond(move |_, message| match answer {
            "no" => Some(chosen("no")),
            _ => message["params"]["options"][0]["optionId"].as_str().map(chosen),
        });
        assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
        (titles(&client), client.updates("tool_call_update"))
    };
    let (titles, updates) = asked_in(&work(home.path()), "yes");
    assert_eq!(titles.len(), 3, "{titles:?}");
    let is_progress = |update: &&Value| update["status"] == "in_progress" && !update["content"].is_null();
    let shown = updates.iter().find(is_progress).unwrap_or_else(|| panic!("{updates:#?}"));
    assert_eq!(shown["content"][0]["content"]["text"], "halfway there, 50 %", "{shown}");
    assert_eq!(asked_in(&work(home.path()), "yes").0.len(), 1, "only the call is asked about");
    let other = home.path().join("other");
    assert_eq!(asked_in(&other, "no").0, ["Start the server proj"]);
    assert!(!other.join("calls").exists());
}

/// An answered question isn't asked again after a cancelled one about the tools, nor in the next session.
#[test]
fn an_editors_server_is_asked_about_no_more_than_is_new() {
    if !require(&["python3"]) {
        return;
    }
    let home = home(&[rounds("please", &[], "done")], "");
    let place = work(home.path());
    let list = place.join("tools.json");
    fs::copy(FIXTURE, place.join("server.py")).expect("a copy");
    let tools = |text: &str| {
        let tool = json!([{"name": "echo", "description": text, "inputSchema": {"type": "object"}}]);
        fs::write(&list, tool.to_string()).expect("a list");
    };
    let session = |client: &Client| {
        let script = place.join("server.py");
        let server = json!({
            "name": "fixture", "command": "/usr/bin/python3", "env": [],
            "args": ["-IS", script, format!("tools={}", list.display())],
        });
        let opened = client.request("session/new", json!({"cwd": place, "mcpServers": [server]}));
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}")).to_owned()
    };
    let (start, allow) = ("Start the server fixture", "Let the model call the tools of fixture");
    tools("Gives it back.");
    let client = Client::connected(home.path(), json!({}));
    let name = session(&client);
    let of_session = name.clone();
    client.respond(move |client, message| {
        if message["params"]["toolCall"]["title"] == start {
            return Some(chosen("yes"));
        }
        client.notify("session/cancel", json!({"sessionId": of_session}));
        Some(json!({"outcome": {"outcome": "cancelled"}}))
    });
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "cancelled");
    client.respond(|_, _| Some(chosen("yes")));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client), [start, allow, allow]);

    // The next session asks nothing.
    let client = Client::connected(home.path(), json!({}));
    let name = session(&client);
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client), Vec::<String>::new());
}

/// A prompt waits once for a server that doesn't answer yet, as long as for any server; the person is asked once it runs.
#[test]
fn an_editors_slow_server_holds_up_one_prompt_and_is_asked_about_when_it_runs() {
    if !require(&["python3"]) {
        return;
    }
    let (start, allow) = ("Start the server slow", "Let the model call the tools of slow");
    for (wait_ms, is_cancelled) in [(200, false), (60_000, true)] {
        let home = home(&[rounds("please", &[], "done")], &format!("mcp = {{ wait_ms = {wait_ms} }}"));
        let (place, client) = (work(home.path()), Client::connected(home.path(), json!({})));
        let (script, go) = (place.join("server.py"), place.join("go"));
        fs::copy(FIXTURE, &script).expect("a copy");
        let arguments = json!(["-IS", script, format!("waits={}", go.display())]);
        let server = json!({"name": "slow", "command": "/usr/bin/python3", "env": [], "args": arguments});
        let opened = client.request("session/new", json!({"cwd": place, "mcpServers": [server]}));
        let name = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
        let session = name.clone();
        client.respond(move |client, message| {
            if !is_cancelled {
                return Some(chosen("yes"));
            }
            // The prompt is cancelled while it waits for the server.
            client.raw(json!({"jsonrpc": "2.0", "id": message["id"], "result": chosen("yes")}).to_string().as_bytes());
            client.notify("session/cancel", json!({"sessionId": session}));
            None
        });
        let ends = if is_cancelled { "cancelled" } else { "end_turn" };
        assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], ends);
        client.respond(|_, _| Some(chosen("yes")));
        if !is_cancelled {
            assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
            let (line, told) = ("[mcp] slow: still starting; its tools are asked", client.text("agent_thought_chunk"));
            assert_eq!(told.matches(line).count(), 1, "{told}");
        }
        assert_eq!(titles(&client), [start]);

        fs::write(&go, "").expect("a word");
        let is_asked = (0..400).any(|_| {
            client.prompt(&name, "please");
            titles(&client).len() > 1
        });
        assert!(is_asked, "{:?}", client.text("agent_thought_chunk"));
        assert_eq!(titles(&client), [start, allow]);
    }
}

/// The names of the commands in the latest list that the client received.
fn command_names(client: &Client) -> Vec<String> {
    let told = client.updates("available_commands_update").pop().expect("commands");
    let commands = told["availableCommands"].as_array().expect("a list").iter();
    commands.map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_servers_prompt_is_a_command_and_is_sent_only_after_its_person_read_it() {
    if !require(&["python3"]) {
        return;
    }
    let place = Path::new(FIXTURE).parent().expect("a directory").display().to_string();
    let config = format!(
        "mcp = {{ wait_ms = 60000, servers = {{ one = {{ command = {{ \"/usr/bin/python3\", \"-IS\", \"{FIXTURE}\" }}, \
         readable = {{ \"{place}\" }} }} }} }}"
    );
    let home = home(&[rounds("please", &[], "done"), rounds("Say hello to Ada L.", &[], "hello Ada")], &config);
    let client = Client::connected(home.path(), json!({}));
    let name = client.session(&work(home.path()));
    assert_eq!(client.prompt(&name, "please")["result"]["stopReason"], "end_turn");
    client.until("the prompt as a command", |message| {
        let commands = message.pointer("/params/update/availableCommands");
        commands.is_some_and(|it| it.to_string().contains("\"one.greet\""))
    });
    assert!(command_names(&client).contains(&"one.greet".to_owned()), "{:?}", command_names(&client));

    client.respond(|_, _| Some(chosen("no")));
    assert_eq!(client.prompt(&name, "/one.greet Ada L")["result"]["stopReason"], "end_turn");
    assert_eq!(titles(&client), ["Send the prompt greet of the server one"]);
    let asked = client.requests("session/request_permission").pop().expect("a question");
    assert!(asked["toolCall"]["content"].to_string().contains("Say hello to Ada L."), "{asked}");
    assert_eq!(client.text("agent_message_chunk"), "done", "nothing was sent to a model");

    client.respond(|_, _| Some(chosen("yes")));
    assert_eq!(client.prompt(&name, "/one.greet who=\"Ada L\"")["result"]["stopReason"], "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "donehello Ada");
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
fn the_effort_of_thinking_is_a_choice_and_can_be_left_to_the_config_again() {
    let server = Server::start();
    (0..4).for_each(|_| server.reply(answer("seen")));
    let home = home(&[], "");
    let config = format!(
        "return {{ memory = {{auto = false}}, context = {{project = false}},
         models = {{ m = {{ endpoint = \"{}\", model = \"x\" }} }} }}",
        server.endpoint()
    );
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    let client = Client::connected(home.path(), json!({}));
    let name = client.session(&work(home.path()));
    let set = |value: &str| {
        let option = json!({"sessionId": name, "configId": "thinking", "value": value});
        client.request("session/set_config_option", option)
    };
    let options = set("high")["result"]["configOptions"].to_string();
    assert!(options.contains("\"currentValue\":\"high\""), "{options}");
    assert_eq!(set("very hard")["error"]["code"], -32_602);
    client.prompt(&name, "the first question");
    set("configured");
    client.prompt(&name, "the second question");
    // A request for a title may come in between.
    let sent: Vec<String> = (1..=server.requests()).map(|number| server.request(number).raw).collect();
    let of = |question: &str| sent.iter().find(|raw| raw.contains(question)).unwrap_or_else(|| panic!("{sent:#?}"));
    let has_effort = |raw: &str| raw.contains("\"reasoning_effort\":\"high\"");
    assert!(has_effort(of("the first question")) && !has_effort(of("the second question")), "{sent:#?}");
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
    // The first bytes of a PNG, and then a text that isn't a picture.
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
