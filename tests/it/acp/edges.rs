//! Mistakes of a client, paths that it may not reach, and the end of the process.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::client::{Client, chosen, text_prompt};
use super::{work, write};
use crate::changes::{home, read, rounds};
use crate::procs;
use crate::server::{Server, answer};

#[test]
fn a_wrong_message_gets_its_error_and_the_process_goes_on() {
    let home = home(&[json!({"when": "hello", "steps": [{"text": "Hi"}]})], "");
    let client = Client::start(home.path());
    let error = || {
        let message = client.until("an error", |message| message.get("error").is_some());
        (message["error"]["code"].as_i64().expect("a code"), message["id"].clone())
    };
    client.raw(b"{not json");
    assert_eq!(error(), (-32_700, Value::Null));
    client.raw(b"[1, 2]");
    assert_eq!(error(), (-32_600, Value::Null));
    client.raw(br#"{"jsonrpc": "2.0", "id": 70, "method": 5}"#);
    assert_eq!(error(), (-32_600, json!(70)));
    client.raw(b"");
    let early = client.request("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!(early["error"]["code"], -32_600, "initialize comes first");

    // A later version is offered, with unknown fields.
    let params = json!({"protocolVersion": 2, "clientCapabilities": {"fs": "new", "later": {}}, "more": [1]});
    let result = client.request("initialize", params.clone())["result"].clone();
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentCapabilities"]["promptCapabilities"]["embeddedContext"], true);
    assert_eq!(result["authMethods"], json!([]));
    assert_eq!(client.request("initialize", params)["error"]["code"], -32_600, "only once");
    assert_eq!(client.request("session/fly", json!({}))["error"]["code"], -32_601);
    client.notify("session/fly", json!({}));
    client.notify("session/cancel", json!({"sessionId": "none"}));
    client.raw(br#"{"jsonrpc": "2.0", "id": 999, "result": {"outcome": {"outcome": "selected", "optionId": "once"}}}"#);
    for (method, params, code) in [
        ("session/new", json!({}), -32_602),
        ("session/new", json!({"cwd": "relative", "mcpServers": []}), -32_602),
        ("session/new", json!({"cwd": "/no/such/place", "mcpServers": []}), -32_602),
        ("session/prompt", json!({"sessionId": "none", "prompt": []}), -32_602),
        ("session/load", json!({"sessionId": "none", "cwd": "/", "mcpServers": []}), -32_002),
        ("session/load", json!({"sessionId": "4711", "cwd": "/", "mcpServers": []}), -32_002),
        ("session/list", json!({"cursor": "x"}), -32_602),
        ("authenticate", json!({"methodId": "x"}), -32_602),
    ] {
        assert_eq!(client.request(method, params.clone())["error"]["code"], code, "{method} {params}");
    }
    let session = client.session(&work(home.path()));
    for prompt in [
        json!([]),
        json!([{"type": "text", "text": " \n"}]),
        json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]),
        json!([{"type": "text"}]),
        json!([{"type": "telepathy"}]),
    ] {
        let params = json!({"sessionId": session, "prompt": prompt});
        assert_eq!(client.request("session/prompt", params)["error"]["code"], -32_602, "{prompt}");
    }
    // A line of 10 MiB is read, and refused for its size; a line beyond the limit isn't even stored.
    let long = client.prompt(&session, &"x".repeat(10 * 1024 * 1024));
    assert_eq!(long["error"]["code"], -32_602, "{}", long["error"]);
    client.raw(&vec![b'x'; 33 * 1024 * 1024]);
    assert_eq!(error(), (-32_600, Value::Null));
    assert_eq!(client.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    client.hang_up();
    assert!(client.end().0.success());
}

#[test]
fn a_forbidden_file_stays_closed_though_the_client_would_read_it() {
    let answers = [rounds("key", &[("file_read", json!({"path": "/etc/shadow"}))], "tried")];
    let home = home(&answers, "");
    let client = Client::connected(home.path(), json!({"fs": {"readTextFile": true, "writeTextFile": true}}));
    let session = client.session(&work(home.path()));
    client.respond(|_, message| match message["method"].as_str() {
        Some("fs/read_text_file") => Some(json!({"content": "root:secret"})),
        _ => Some(chosen("no")),
    });
    client.prompt(&session, "the key");
    assert_eq!(client.requests("fs/read_text_file"), Vec::<Value>::new(), "our own rules read, not the editor");
    let end = client.updates("tool_call_update").pop().expect("its end");
    assert_eq!(end["status"], "failed", "{end}");
}

#[test]
fn unsaved_changes_in_the_editor_are_neither_lost_nor_overwritten() {
    let home = home(&[rounds("make", &[write("a.txt", "two\n")], "made")], super::FULL);
    fs::write(work(home.path()).join("a.txt"), "one\n").expect("a file");
    let client = Client::connected(home.path(), json!({"fs": {"readTextFile": true}}));
    let session = client.session(&work(home.path()));
    client.respond(|_, _| Some(json!({"content": "one, and what I am typing\n"})));
    client.prompt(&session, "make it");
    assert_eq!(read(home.path(), "a.txt"), "one\n");
    let end = client.updates("tool_call_update").pop().expect("its end");
    assert!(end.to_string().contains("aren't saved"), "{end}");
    client.respond(|_, _| Some(json!({"content": "one\r\n"})));
    client.prompt(&session, "make it");
    assert_eq!(read(home.path(), "a.txt"), "two\n");
}

#[test]
fn a_file_that_the_editor_knows_by_a_link_or_says_nothing_about_is_not_overwritten() {
    let home = home(&[rounds("make", &[write("a.txt", "two\n")], "made")], super::FULL);
    fs::write(work(home.path()).join("a.txt"), "one\n").expect("a file");
    let by_link = home.path().join("link");
    std::os::unix::fs::symlink(work(home.path()), &by_link).expect("a link");
    let client = Client::connected(home.path(), json!({"fs": {"readTextFile": true}}));
    let session = client.session(&by_link);
    let known = by_link.join("a.txt").display().to_string();
    client.respond(move |_, message| {
        let is_open = message["params"]["path"] == known.as_str();
        Some(json!({"content": if is_open { "what I am typing\n" } else { "one\n" }}))
    });
    client.prompt(&session, "make it");
    assert_eq!(read(home.path(), "a.txt"), "one\n");
    let end = client.updates("tool_call_update").pop().expect("its end");
    assert!(end.to_string().contains("has changes in the user's editor that aren't saved"), "{end}");
    client.respond(|_, message| (message["method"] != "fs/read_text_file").then(|| chosen("once")));
    client.prompt(&session, "make it");
    assert_eq!(read(home.path(), "a.txt"), "one\n");
    let end = client.updates("tool_call_update").pop().expect("its end");
    assert!(end.to_string().contains("it doesn't answer"), "{end}");
}

#[test]
fn a_conversation_is_open_once_by_whatever_name_and_keeps_the_one_that_its_editor_knows() {
    let home = home(&[json!({"when": "hello", "steps": [{"text": "Hi"}]})], "");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    client.prompt(&session, "hello");
    let open = |method: &str, name: &str| {
        client.request(method, json!({"sessionId": name, "cwd": work(home.path()), "mcpServers": []}))
    };
    let of = |method: &str, name: &str| client.request(method, json!({"sessionId": name}));
    assert_eq!(open("session/load", "1")["error"]["code"], -32_600, "it is open under another name");
    assert_eq!(of("session/delete", "1")["error"]["code"], -32_600);
    for name in ["99999", "-1", "none"] {
        assert_eq!(of("session/delete", name)["error"]["code"], -32_002, "{name}");
    }
    assert!(of("session/close", &session).get("result").is_some());
    assert!(open("session/load", "1").get("result").is_some());
    assert_eq!(open("session/load", &session)["error"]["code"], -32_600, "it is open under its number");
    client.prompt("1", "hello again");
    let listed = client.request("session/list", json!({}))["result"]["sessions"].clone();
    assert_eq!((listed.as_array().map(Vec::len), &listed[0]["sessionId"]), (Some(1), &json!(session)), "{listed}");
    assert!(of("session/close", "1").get("result").is_some());
    assert!(open("session/load", &session).get("result").is_some(), "its editor still finds it");
}

#[test]
fn attachments_of_a_prompt_reach_the_model_unless_their_files_are_forbidden() {
    let server = Server::start();
    server.reply(answer("seen"));
    let home = home(&[], "");
    let config = format!(
        "return {{ memory = {{auto = false}}, context = {{project = false}},
         models = {{ m = {{ endpoint = \"{}\", model = \"x\" }} }} }}",
        server.endpoint()
    );
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    fs::write(work(home.path()).join("my notes.txt"), "the linked text\n").expect("a file");
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    let place = work(home.path()).canonicalize().expect("a path");
    let uri = format!("file://{}/my%20notes.txt", place.display());
    let secret = format!("file://{}/.ssh/id_rsa", home.path().display());
    let prompt = json!([
        {"type": "text", "text": "compare"},
        {"type": "resource_link", "uri": uri, "name": "my notes.txt"},
        {"type": "text", "text": "with"},
        {"type": "resource", "resource": {"uri": "file:///usr/include/x.h", "text": "the embedded text"}},
        {"type": "resource", "resource": {"uri": secret, "text": "PRIVATE KEY TEXT"}},
        {"type": "resource_link", "uri": "https://example.org/page", "name": "a page"},
    ]);
    client.request("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    let sent = server.request(1).whole_content(-1);
    for part in [
        "the linked text",
        "[attached /usr/include/x.h] by the person",
        "the embedded text",
        "compare @\"my notes.txt\" with x.h id_rsa a page (https://example.org/page)",
    ] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(!sent.contains("PRIVATE KEY TEXT"), "{sent}");
    assert!(client.text("agent_thought_chunk").contains("not attached: id_rsa"), "its person hears of it");
}

#[test]
fn a_question_of_the_model_is_a_form() {
    let ask = ("ask_user", json!({"question": "Which one?", "choices": ["red", "green"]}));
    let home = home(&[rounds("choose", &[ask], "thanks")], "");
    for (capabilities, count, told) in [(json!({"elicitation": {"form": {}}}), 1, "green"), (json!({}), 0, "no answer")]
    {
        let client = Client::connected(home.path(), capabilities);
        let session = client.session(&work(home.path()));
        client.respond(|_, _| Some(json!({"action": "accept", "content": {"answer": "green"}})));
        client.prompt(&session, "choose");
        let asked = client.requests("elicitation/create");
        assert_eq!(asked.len(), count, "{asked:?}");
        assert!(asked.iter().all(|it| it.to_string().contains("Which one?") && it.to_string().contains("red")));
        let end = client.updates("tool_call_update").pop().expect("its end");
        assert!(end["content"].to_string().contains(told), "{end}");
    }
}

#[test]
fn a_form_of_a_server_is_the_editors_and_names_its_server() {
    if !crate::need::require(&["python3"]) {
        return;
    }
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.py");
    let place = std::path::Path::new(fixture).parent().expect("a directory").display();
    let servers = format!(
        "mcp = {{ wait_ms = 60000, servers = {{ one = {{ command = {{ \"/usr/bin/python3\", \"-IS\", \"{fixture}\" }}, \
         readable = {{ \"{place}\" }}, tools = {{ act = \"run\" }} }} }} }}"
    );
    let home = home(&[rounds("ask", &[("one__act", json!({"what": "elicit"}))], "thanks")], &servers);
    let spawn = crate::pty::Spawn::new(crate::pty::program()).args(&["mcp", "allow", "one"]).home(home.path());
    let terminal = crate::pty::Session::spawn(spawn.cwd(&work(home.path())).size(90, 120));
    terminal.expect_text("as they are? [y/N]");
    terminal.line("y");
    assert_eq!(crate::pty::status_code(terminal.expect_exit()), 0);
    for (capabilities, count, told) in [
        (json!({"elicitation": {"form": {}}}), 2, "accept: {\\\"colour\\\": \\\"blue\\\"}"),
        (json!({}), 0, "no elicitation"),
    ] {
        let client = Client::connected(home.path(), capabilities);
        let session = client.session(&work(home.path()));
        client.respond(|_, message| {
            let choices = message.pointer("/params/requestedSchema/properties/answer/enum");
            let answer = choices.map_or(json!("blue"), |choices| choices[0].clone());
            Some(json!({"action": "accept", "content": {"answer": answer}}))
        });
        client.prompt(&session, "ask it");
        let asked = client.requests("elicitation/create");
        assert_eq!(asked.len(), count, "{asked:?}");
        let is_named = |it: &Value| it["message"].as_str().is_some_and(|it| it.starts_with("The server one asks:\n"));
        assert!(asked.iter().all(is_named), "{asked:?}");
        let end = client.updates("tool_call_update").pop().expect("its end");
        assert!(end["content"].to_string().contains(told), "{end}");
    }
}

#[test]
fn without_a_model_a_terminal_can_set_one_up() {
    let home = home(&[], "");
    fs::write(home.path().join(".config/reedclaw/config.lua"), "return {}").expect("a config");
    let client = Client::start(home.path());
    let capabilities = json!({"auth": {"terminal": true}});
    let result = client.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
    let method = &result["result"]["authMethods"][0];
    assert_eq!((&method["type"], &method["args"]), (&json!("terminal"), &json!(["--setup"])));
    let opened = client.request("session/new", json!({"cwd": work(home.path()), "mcpServers": []}));
    assert_eq!(opened["error"]["code"], -32_000);

    // A client without terminals still gets a session, which reports what is missing.
    let client = Client::connected(home.path(), json!({}));
    let session = client.session(&work(home.path()));
    let error = client.prompt(&session, "hello")["error"].clone();
    assert_eq!(error["code"], -32_000, "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("onboard")), "{error}");
}

#[test]
fn the_process_ends_soon_in_the_middle_of_a_turn_and_leaves_nothing_running() {
    let answers = [
        json!({"when": "slow", "steps": [{"text": "begun"}, {"delay_ms": 120_000}]}),
        rounds("sleep", &[("shell", json!({"command": "sleep 600"}))], "never"),
        rounds("make", &[write("a.txt", "one\n")], "made"),
    ];
    let home = home(&answers, "");
    for (text, kind, signal) in [
        ("slow", "agent_message_chunk", None),
        ("sleep", "tool_call", None),
        ("sleep", "tool_call", Some(Signal::SIGTERM)),
        ("make", "tool_call", None),
    ] {
        let client = Client::connected(home.path(), json!({}));
        let session = client.session(&work(home.path()));
        client.send("session/prompt", text_prompt(&session, text));
        client.update(kind);
        let below = procs::descendants(client.pid().cast_signed());
        match signal {
            Some(signal) => kill(Pid::from_raw(client.pid().cast_signed()), signal).expect("a signal"),
            None => client.hang_up(),
        }
        let (status, took) = client.end();
        assert!(status.success(), "{text}: {status}");
        assert!(took.as_secs() < 10, "{text}: {took:?}");
        for process in below {
            let now = procs::process(process.pid).filter(|now| now.started_ticks == process.started_ticks);
            assert!(now.is_none_or(|now| "ZX".contains(now.state)), "{process:?} survived");
        }
    }
    assert_eq!(read(home.path(), "a.txt"), "(no file)");
    let client = Client::connected(home.path(), json!({}));
    let listed = client.request("session/list", json!({}));
    assert_eq!(listed["result"]["sessions"].as_array().map(Vec::len), Some(4), "what was asked is there");
}

#[test]
fn commands_and_the_model_are_chosen_in_the_editor() {
    let home = home(&[json!({"when": "hello", "steps": [{"text": "Hi"}]})], "");
    let script = home.path().join("answers.jsonl").display().to_string();
    let config = format!(
        "return {{ memory = {{auto = false}}, context = {{project = false}}, default_model = \"m\", models = {{
         m = {{ kind = \"mock\", script = \"{script}\" }}, n = {{ kind = \"mock\", script = \"{script}\" }} }} }}"
    );
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    let client = Client::connected(home.path(), json!({"session": {"notices": {}}}));
    let opened = client.request("session/new", json!({"cwd": work(home.path()), "mcpServers": []}));
    assert_eq!(opened["result"]["configOptions"][1]["currentValue"], "m");
    let session = opened["result"]["sessionId"].as_str().expect("a session").to_owned();
    let commands = client.update("available_commands_update")["availableCommands"].to_string();
    assert!(["undo", "cost", "model", "context"].iter().all(|name| commands.contains(name)), "{commands}");

    let option = |value: &str| json!({"sessionId": session, "configId": "model", "value": value});
    let options = client.request("session/set_config_option", option("n"))["result"].clone();
    assert_eq!(options["configOptions"][1]["currentValue"], "n");
    assert_eq!(client.request("session/set_config_option", option("gone"))["error"]["code"], -32_602);
    client.prompt(&session, "/model m");
    let update = client.updates("config_option_update").pop().expect("an update");
    assert_eq!(update["configOptions"][1]["currentValue"], "m");
    for command in ["/tools", "/cost", "/context", "/steps", "/memory", "/compact", "/model"] {
        assert_eq!(client.prompt(&session, command)["result"]["stopReason"], "end_turn", "{command}");
    }
    let said = client.text("agent_message_chunk");
    for part in ["file_read", "this month", "the next prompt carries", "has changed anything here", "nothing is old"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    client.prompt(&session, "/etc/passwd hello");
    assert!(client.text("agent_message_chunk").ends_with("Hi"), "a path is no command");
}

#[test]
fn an_answer_that_falls_short_says_why_it_ends() {
    let looks = [("file_list", json!({})), ("time", json!({})), ("file_list", json!({"path": "."}))];
    let answers = [
        json!({"when": "long", "steps": [{"text": "so fa"}, {"stop": "length"}]}),
        json!({"when": "bad", "steps": [{"text": "no"}, {"stop": "content_filter"}]}),
        rounds("often", &looks, "seen"),
    ];
    let home = home(&answers, "limits = { tool_rounds = 1 }");
    let client = Client::connected(home.path(), json!({}));
    let name = client.session(&work(home.path()));
    for (question, reason) in [("long", "max_tokens"), ("bad", "refusal"), ("often", "max_turn_requests")] {
        let done = client.prompt(&name, question);
        assert_eq!(done["result"]["stopReason"], reason, "{done}");
    }
}
