//! Chat and runs: the same agent as in the shell, over HTTP. A run outlives its connection, and its calls go through the gates.

use serde_json::{Value, json};

use super::asking::outcome;
use super::streams::Reader;
use super::{Client, Gateway, allowed, home_with, is_on_server, run, token, verify};
use crate::server::{Server, Step, answer, end, head, piece, refusal, tool_call};
use crate::wait::wait_for;

pub fn home_of(server: &Server) -> tempfile::TempDir {
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}", server.endpoint());
    home_with(&format!("{models}, memory = {{auto = false}}, context = {{project = false}}"))
}

#[test]
fn scenario_44_a_question_over_http_is_answered_and_its_conversation_goes_on_in_the_terminal() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    server.reply(answer("Forty-two."));
    let first = client.post("/chat", &json!({"message": "What is six times seven?"}));
    assert_eq!((first.status, &first.json()["text"]), (200, &json!("Forty-two.")), "{first:?}");
    let conversation = first.json()["conversation_id"].clone();
    server.reply(answer("Because."));
    let second = client.post("/chat", &json!({"message": "Why?", "conversation_id": conversation}));
    assert_eq!((second.status, &second.json()["conversation_id"]), (200, &conversation), "{second:?}");
    assert_eq!(server.request(2).content(1), "What is six times seven?", "it knows what was said");
    assert_eq!(client.post("/chat", &json!({"message": "?", "conversation_id": 999})).code(), "not_found");
    let runs = client.get("/runs").json()["items"].clone();
    let states: Vec<&Value> = runs.as_array().expect("runs").iter().map(|run| &run["state"]).collect();
    assert_eq!(states, [&json!("answered"), &json!("answered")], "{runs}");
    let id = runs[1]["run_id"].as_str().expect("an id");
    assert_eq!(client.get(&format!("/runs/{id}")).json()["text"], "Forty-two.");
    let found = client.get("/memory/search?q=seven").json();
    let first = &found["items"][0];
    assert_eq!(first["conversation_id"], conversation, "{found}");
    assert!(first["turn_id"].as_i64() > Some(0) && first["score"].as_f64() > Some(0.0), "{found}");
    drop(gateway);
    server.reply(answer("In the terminal."));
    let number = conversation.to_string();
    let (status, out, err) = run(home.path(), &["agent", "--conversation", &number, "-m", "And now?"]);
    assert_eq!((status, out.contains("In the terminal.")), (Some(0), true), "{out}{err}");
    assert_eq!(server.request(3).content(1), "What is six times seven?");
    assert_eq!(verify(home.path()).0, Some(0));
}

#[test]
fn an_answer_must_match_the_schema_that_was_asked_for() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let question = json!({"message": "How many?", "output_schema": schema});
    for wrong in ["w0 w1 w2", "{\"n\": \"one\"}"] {
        server.reply(answer(wrong));
        let failed = client.post("/chat", &question);
        assert_eq!((failed.status, failed.code().as_str()), (502, "upstream"), "{failed:?}");
        let error = failed.json()["error"].clone();
        assert!(error["message"].as_str().is_some_and(|it| it.contains("output_schema")), "{error}");
        assert_eq!((&error["context"]["state"], &error["context"]["text"]), (&json!("failed"), &json!(wrong)));
    }
    server.reply(answer("```json\n{\"n\": 1}\n```"));
    let done = client.post("/chat", &question);
    let text = done.json()["text"].clone();
    assert_eq!((done.status, text.as_str().map(str::trim)), (200, Some("{\"n\": 1}")), "{done:?}");
}

#[test]
fn an_answer_with_the_character_that_servers_store_no_text_with_is_stored() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    server.reply(answer("one\0two"));
    let done = client.post("/chat", &json!({"message": "Say it."})).json();
    assert_eq!(done["text"], "one\0two", "{done}");
    let stored = client.get(&format!("/runs/{}", done["run_id"].as_str().expect("an id"))).json();
    let text = if is_on_server(home.path()) { "one\u{fffd}two" } else { "one\0two" };
    assert_eq!((&stored["state"], &stored["text"]), (&json!("answered"), &json!(text)), "{stored}");
}

#[test]
fn scenario_44_a_streamed_run_goes_on_without_its_connection_and_is_resumed_by_the_last_event() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    server.reply(vec![head(), piece("One "), Step::Gate(1), piece("two "), Step::Gate(2), piece("three"), end()]);
    let begun = client.with("Prefer", "respond-async").post("/chat", &json!({"message": "Count."}));
    assert_eq!(begun.status, 202, "{begun:?}");
    let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let mut first = Reader::new(client.open(&format!("/sse/runs/{id}")));
    let (cursor, _, event) = first.expect("text");
    assert_eq!(event["text"], "One ");
    drop(first);
    server.open(1);
    let cursor = cursor.expect("an id");
    let mut again = Reader::new(client.with("Last-Event-ID", &cursor).open(&format!("/sse/runs/{id}")));
    assert_eq!(again.expect("text").2["text"], "two ");
    server.open(2);
    assert_eq!(again.expect("text").2["text"], "three");
    assert_eq!(again.expect("answered").2["text"], "One two three");
    assert!(again.next().is_none(), "the stream ends with the run");
    let mut late = Reader::new(client.open(&format!("/sse/runs/{id}")));
    assert_eq!(late.expect("text").2["text"], "One ");
    assert_eq!(client.get(&format!("/runs/{id}")).json()["state"], "answered");
    // A stopped run reports that it was stopped.
    server.reply(vec![head(), piece("Long "), Step::Hold]);
    let begun = client.with("Prefer", "respond-async").post("/chat", &json!({"message": "Go on."}));
    let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let mut stream = Reader::new(client.open(&format!("/sse/runs/{id}")));
    stream.expect("text");
    assert_eq!(client.post(&format!("/runs/{id}/cancel"), &json!({})).status, 200);
    assert_eq!(stream.expect("cancelled").2["text"], "Long ");
    let other = gateway.client(&token(home.path(), "carl", "member", &[])).with("X-Project-Id", "elsewhere");
    assert_eq!(other.get(&format!("/sse/runs/{id}")).code(), "not_found");
    assert_eq!(other.post(&format!("/runs/{id}/cancel"), &json!({})).code(), "not_found");
}

#[test]
fn scenario_13_a_runs_calls_go_through_the_gates_and_ask_persons() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    server.reply(tool_call("file_write", "{\"path\": \"run.txt\", \"content\": \"x\"}"));
    server.reply(answer("Written."));
    let begun = anna.with("Prefer", "respond-async").post("/chat", &json!({"message": "Write a file."}));
    let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let mut stream = Reader::new(anna.open(&format!("/sse/runs/{id}")));
    let question = stream.expect("question").2["question_id"].as_str().expect("an id").to_owned();
    let card = ben.get(&format!("/questions/{question}")).json();
    assert_eq!((&card["run_id"], &card["tool"]), (&json!(id), &json!("file_write")), "{card}");
    let yes = json!({"digest": card["digest"], "answer": "once", "seen_to_end": true});
    assert_eq!(ben.post(&format!("/questions/{question}/answer"), &yes).status, 200);
    assert_eq!(stream.expect("answered").2["text"], "Written.");
    assert!(stream.next().is_none(), "the stream ends when the run's end is stored");
    assert!(home.path().join("ws/run.txt").exists());
    let replay = anna.get(&format!("/events/replay?run_id={id}&limit=500")).json();
    let kinds: Vec<&str> =
        replay["items"].as_array().expect("items").iter().filter_map(|it| it["event_type"].as_str()).collect();
    for kind in [
        "run.started",
        "action.requested",
        "question.asked",
        "question.answered",
        "action.admitted",
        "action.completed",
        "cost",
        "run.ended",
    ] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert!(anna.get("/receipts?tool=file_write").text.contains("person:ben"));
    // The model learns of a call that a gate blocks, and continues its text.
    assert_eq!(anna.post("/estop", &json!({"scope": "tenant"})).status, 200);
    server.reply(tool_call("file_read", "{\"path\": \"run.txt\"}"));
    server.reply(answer("I may not."));
    let blocked = anna.post("/chat", &json!({"message": "Read it."}));
    assert_eq!((blocked.status, &blocked.json()["text"]), (200, &json!("I may not.")), "{blocked:?}");
    let told = server.request(4).whole_content(-1);
    assert!(told.contains("kill_switch") || told.contains("stopped"), "{told}");
    let metrics = gateway.send("GET", "/metrics", &[], "").text;
    assert!(metrics.contains("reedclaw_conversations_total 2\n"), "{metrics}");
}

#[test]
fn a_kill_switch_closes_the_question_of_a_run() {
    for scope in
        [json!({"scope": "tenant"}), json!({"scope": "project"}), json!({"scope": "action", "action": "file_write"})]
    {
        let server = Server::start();
        let home = home_of(&server);
        let gateway = Gateway::start(home.path());
        let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
        let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
        server.reply(tool_call("file_write", "{\"path\": \"run.txt\", \"content\": \"x\"}"));
        server.reply(answer("Then not."));
        let begun = anna.with("Prefer", "respond-async").post("/chat", &json!({"message": "Write a file."}));
        let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
        let mut stream = Reader::new(anna.open(&format!("/sse/runs/{id}")));
        let question = stream.expect("question").2["question_id"].as_str().expect("an id").to_owned();
        let card = ben.get(&format!("/questions/{question}")).json();
        assert_eq!(anna.post("/estop", &scope).status, 200);
        assert_eq!(stream.expect("answered").2["text"], "Then not.", "the run goes on with text");
        let yes = json!({"digest": card["digest"], "answer": "once", "seen_to_end": true});
        let late = ben.post(&format!("/questions/{question}/answer"), &yes);
        assert_eq!((late.status, late.code().as_str()), (410, "question_expired"), "{scope}: {late:?}");
        assert!(!home.path().join("ws/run.txt").exists());
        let told = server.request(2).whole_content(-1);
        assert!(told.contains("a kill switch was set"), "{told}");
    }
}

#[test]
fn a_provider_that_fails_and_words_that_nobody_knows_are_told() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    server.reply(refusal("401 Unauthorized", "bad key"));
    let failed = anna.post("/chat", &json!({"message": "Hello?"}));
    assert_eq!((failed.status, failed.code().as_str()), (502, "upstream"), "{failed:?}");
    assert_eq!(anna.post("/chat", &json!({"message": "?", "model": "none"})).status, 422);
    assert_eq!(anna.post("/chat", &json!({"message": "?", "persona": "pirate"})).status, 422);
}

#[test]
fn a_question_may_name_a_persona_whose_instructions_the_model_gets() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}", server.endpoint());
    let personas = "gateway = {personas = {pirate = {system_prompt = \"You are a pirate.\"}}}";
    let home = home_with(&format!("{models}, system_prompt = \"You are a clerk.\", {personas}"));
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let ask = |body: Value| {
        server.reply(answer("Aye."));
        let done = anna.post("/chat", &body);
        assert_eq!(done.status, 200, "{done:?}");
        (done.json()["conversation_id"].clone(), server.request(server.requests()).content(0))
    };
    let (conversation, system) = ask(json!({"message": "Who are you?", "persona": "pirate"}));
    assert!(system.starts_with("You are a pirate.") && !system.contains("clerk"), "{system}");
    // Each question chooses its persona, even in one conversation.
    for named in [json!({}), json!({"persona": "default"}), json!({"persona": "tiny"})] {
        let mut body = json!({"message": "And now?", "conversation_id": conversation});
        named.as_object().expect("fields").iter().for_each(|(name, value)| body[name] = value.clone());
        let (_, system) = ask(body);
        assert!(system.starts_with("You are a clerk."), "{system}");
    }
    let cards = anna.get("/registry/personas").json();
    let ids: Vec<&Value> = cards["items"].as_array().expect("cards").iter().map(|card| &card["id"]).collect();
    assert_eq!(
        ids,
        [&json!("default"), &json!("pirate"), &json!("tiny")],
        "those of models can be named, too: {cards}"
    );
    assert_eq!(anna.post("/chat", &json!({"message": "?", "persona": "nobody"})).code(), "schema_invalid");
}

/// Returns a webhook's signature of a body at a time, with a secret.
pub fn signature(secret: &str, time: i64, body: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = ring::hmac::sign(&key, format!("{time}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={time},v1={hex}")
}

#[test]
fn scenario_49_a_webhook_is_signed_fresh_small_and_counts_once() {
    let server = Server::start();
    let models = format!("models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}", server.endpoint());
    let hooks = "gateway = {hooks = {builds = {secret_env = \"HOOK_SECRET\", question = \"Why did it fail?\"}}}";
    let home = home_with(&format!("{models}, {hooks}"));
    let gateway = Gateway::start_with(home.path(), &[("HOOK_SECRET", "a long secret of a hook")]);
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let now = jiff::Timestamp::now().as_second();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let send = |name: &str, signature: &str, body: &str| {
        let headers = [("X-Reedclaw-Signature", signature), ("traceparent", parent)];
        gateway.send("POST", &format!("/hooks/{name}"), &headers, body)
    };
    let body = json!({"build": 7}).to_string();
    let good = signature("a long secret of a hook", now, &body);
    for wrong in
        ["", "t=1", &signature("another secret", now, &body), &signature("a long secret of a hook", now - 600, &body)]
    {
        assert_eq!(send("builds", wrong, &body).code(), "unauthenticated", "{wrong}");
    }
    assert_eq!(send("builds", &good, "{\"build\": 8}").code(), "unauthenticated", "another body");
    assert_eq!(send("none", &good, &body).code(), "unauthenticated");
    assert_eq!(send("builds", &good, &format!("\"{}\"", "x".repeat(256 * 1024))).code(), "too_large");
    assert_eq!(server.requests(), 0);
    server.reply(tool_call("file_write", "{\"path\": \"hook.txt\", \"content\": \"x\"}"));
    server.reply(answer("A test failed."));
    let begun = send("builds", &good, &body);
    assert_eq!(begun.status, 202, "{begun:?}");
    let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let mut stream = Reader::new(client.open(&format!("/sse/runs/{id}")));
    assert_eq!(stream.expect("answered").2["text"], "A test failed.");
    let asked = server.request(1).raw;
    assert!(asked.contains("Why did it fail?") && asked.contains("build"), "{asked}");
    assert_eq!(traceparent(&server.request(1).head)[..36], parent[..36], "its sender's trace goes on");
    assert!(!home.path().join("ws/hook.txt").exists(), "nobody is there to say yes");
    assert_eq!(send("builds", &good, &body).code(), "replayed");
    assert_eq!(server.requests(), 2);
}

#[test]
fn a_webhook_begins_a_trusted_procedure_with_its_body_as_data() {
    let home = home_with("");
    let place = home.path().join("ws/sops/build");
    std::fs::create_dir_all(&place).expect("a directory");
    let text = "name = \"build\"\nmode = \"auto\"\n[[triggers]]\nkind = \"webhook\"\nsecret_env = \"HOOK_SECRET\"\n\
        [[steps]]\nid = \"say\"\nkind = \"shell\"\ncommand = 'printf %s \"$BODY\" > body.txt'\n\
        env_from = { BODY = \"trigger.body\" }\nwrites = [\"body.txt\"]\n";
    std::fs::write(place.join("SOP.toml"), text).expect("a procedure");
    let secret = "a long secret of a hook";
    let gateway = Gateway::start_with(home.path(), &[("HOOK_SECRET", secret)]);
    let body = json!({"build": "$(touch made)"}).to_string();
    let send = |time: i64| {
        let signature = signature(secret, time, &body);
        gateway.send("POST", "/hooks/build", &[("X-Reedclaw-Signature", &signature)], &body)
    };
    let now = jiff::Timestamp::now().as_second();
    assert_eq!(send(now).code(), "unauthenticated", "nobody has trusted it");
    let env = [("HOME".into(), home.path().as_os_str().to_owned())].into();
    let found = reedclaw::app::find_procedure((&[], &env), &home.path().join("ws"), "build").expect("a procedure");
    reedclaw::app::trust_procedure(&env, &found).expect("trusted");
    let begun = send(now);
    assert_eq!((begun.status, &begun.json()["run"]), (202, &json!(1)), "{begun:?}");
    assert_eq!(send(now).code(), "replayed");
    let status = wait_for("the end of the run", || {
        let (_, text, _) = run(home.path(), &["sop", "status", "1", "--json"]);
        let status: Value = serde_json::from_str(&text).expect("JSON");
        Some(status).filter(|status| status["state"] != "queued" && status["state"] != "running")
    });
    assert!(["waiting", "done"].iter().any(|word| status["state"] == *word), "{status}");
    let written = std::fs::read_to_string(home.path().join("ws/body.txt")).unwrap_or_default();
    assert!(written.is_empty() || written == body, "{written}");
    assert!(!home.path().join("ws/made").exists());
}

#[test]
fn scenario_45_memory_and_receipts_answer_as_the_command_line_does() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    for number in 0..3 {
        server.reply(answer(&format!("The walrus number {number} sleeps.")));
        assert_eq!(client.post("/chat", &json!({"message": format!("Tell me of walrus {number}.")})).status, 200);
        let call = json!({"action_name": "time", "subject_type": "run", "subject_id": "r", "args": {}});
        assert_eq!(client.post("/actions/execute", &call).status, 200);
    }
    let (status, lines, err) = run(home.path(), &["receipt", "list", "--json"]);
    assert_eq!(status, Some(0), "{err}");
    let by_hand: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let over_http = client.get("/receipts?limit=500").json()["items"].clone();
    let over_http = over_http.as_array().expect("items");
    assert_eq!((by_hand.len(), over_http.len()), (6, 6), "{lines}");
    for (one, other) in by_hand.iter().zip(over_http) {
        for (name, value) in one.as_object().expect("fields") {
            if let Some(told) = other.get(name) {
                assert_eq!(told, value, "{name}: {other}");
            }
        }
        assert!(one["id"] == other["id"] && other["receipt_hash"] == one["receipt_hash"], "{one}\n{other}");
    }
    let page = client.get("/receipts?limit=2").json();
    let next = page["next"].as_str().unwrap_or_else(|| panic!("no next in {page}"));
    let rest = client.get(&format!("/receipts?after={next}")).json();
    assert_eq!((&rest["items"][0]["id"], &rest["next"]), (&over_http[2]["id"], &Value::Null), "{rest}");
    let found = client.get("/memory/search?q=walrus&limit=500").json()["items"].clone();
    let (status, listed, err) = run(home.path(), &["memory", "search", "walrus"]);
    assert_eq!(status, Some(0), "{err}");
    let items = found.as_array().expect("items");
    assert_eq!(items.len(), 6, "{found}");
    assert_eq!(listed.matches("walrus").count(), items.len(), "{listed}");
    let (status, none, _) = run(home.path(), &["memory", "search", "narwhal"]);
    assert!(status.is_some() && !none.contains("narwhal sleeps"));
    assert_eq!(client.get("/memory/search?q=narwhal").json()["items"], json!([]));
    // The log has the last hash of the receipts' chain, once per 64 receipts.
    let anchors = || client.get("/events/list?type=receipts.anchor").json()["items"].clone();
    assert_eq!(anchors(), json!([]));
    for _ in 0..33 {
        let call = json!({"action_name": "time", "subject_type": "run", "subject_id": "r", "args": {}});
        assert_eq!(allowed(|| client.post("/actions/execute", &call)).status, 200);
    }
    let anchors = allowed(|| client.get("/events/list?type=receipts.anchor")).json()["items"].clone();
    let anchor = &anchors[0]["body"];
    let named = allowed(|| client.get("/receipts?limit=500")).json()["items"].clone();
    let seq = usize::try_from(anchor["seq"].as_u64().expect("a number")).expect("small");
    assert_eq!(anchors.as_array().map(Vec::len), Some(1), "{anchors}");
    assert_eq!(anchor["hash"], named[seq - 1]["receipt_hash"], "{anchors}");
}

#[test]
fn an_error_of_a_model_names_the_model_and_its_status() {
    let server = Server::start();
    let home = home_with(&format!(
        "default_model = \"tiny\", models = {{tiny = {{endpoint = \"{}\"}}, dead = {{endpoint = \"http://127.0.0.1:9\"}}}}, \
         memory = {{auto = false}}, context = {{project = false}}",
        server.endpoint()
    ));
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    server.reply(refusal("401 Unauthorized", "bad key"));
    for (model, status) in [("tiny", json!(401)), ("dead", Value::Null)] {
        let failed = client.post("/chat", &json!({"message": "?", "model": model}));
        assert_eq!((failed.status, failed.code().as_str()), (502, "upstream"), "{failed:?}");
        let error = failed.json()["error"].clone();
        assert_eq!((&error["upstream"], &error["http_status"]), (&json!(model), &status), "{error}");
        assert!(!failed.text.contains(":model"), "a hint for the shell: {failed:?}");
    }
    let unknown = client.post("/chat", &json!({"message": "?", "model": "none"}));
    assert_eq!((unknown.status, unknown.code().as_str()), (422, "schema_invalid"), "{unknown:?}");
    drop(gateway);
    let home = home_with("memory = {auto = false}");
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let none = client.post("/chat", &json!({"message": "?"}));
    assert_eq!((none.status, none.code().as_str()), (502, "upstream"), "the request was right: {none:?}");
    assert!(!none.text.contains(":onboard"), "{none:?}");
}

#[test]
fn scenario_39_personal_data_reaches_no_model_of_a_tenant_that_hides_it() {
    let server = Server::start();
    let home = home_of(&server);
    std::fs::write(home.path().join("ws/bill.txt"), "Pay to DE89 3704 0044 0532 0130 00 by Friday.\n").expect("a file");
    let gateway = Gateway::start(home.path());
    let admin = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let ask = |number: usize| {
        server.reply(tool_call("file_read", "{\"path\": \"bill.txt\"}"));
        server.reply(answer("Done, eva@mail.example."));
        let question = "Write to eva.maier@mail.example, card 4111 1111 1111 1111, phone +49 30 901820.";
        let done = admin.post("/chat", &json!({"message": question}));
        assert_eq!(done.status, 200, "{done:?}");
        let (first, second) = (server.request(2 * number - 1).raw, server.request(2 * number).raw);
        (first + &second, done.text)
    };
    let (sent, _) = ask(1);
    assert!(sent.contains("eva.maier@mail.example") && sent.contains("4111 1111") && sent.contains("DE89 3704"));
    assert_eq!(admin.post("/admin/flags", &json!({"flag": "pii", "on": true})).status, 200);
    let (sent, said) = ask(2);
    for hidden in ["eva.maier@mail.example", "4111 1111", "DE89 3704", "901820"] {
        assert!(!sent.contains(hidden), "{hidden} was sent: {sent}");
    }
    for mark in ["mail address", "payment card", "bank account", "phone number"] {
        assert!(sent.contains(&format!("[redacted: {mark}]")), "{mark}: {sent}");
    }
    assert!(!said.contains("eva@mail.example"), "nor is it in the answer: {said}");
    let newest = admin.get("/runs").json()["items"][0].clone();
    assert!(!newest.to_string().contains("eva.maier"), "{newest}");
    assert_eq!(run(home.path(), &["gateway", "tenant", "flag", "local", "pii", "off"]).0, Some(0));
    assert!(ask(3).0.contains("eva.maier@mail.example"));
}

#[test]
fn scenario_39_a_call_that_would_send_personal_data_is_refused_before_anybody_is_asked() {
    let home = home_with("tools = {http_post = true}");
    let gateway = Gateway::start(home.path());
    let admin = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let call = |body: &str, is_dry: bool| {
        let args = json!({"url": "https://shop.example/orders", "method": "POST", "body": body});
        let wanted = json!({"action_name": "http", "subject_type": "thread", "subject_id": "t-1", "args": args, "dry_run": is_dry});
        admin.post("/actions/execute", &wanted)
    };
    let until = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let licence = json!({"subject": {"user": "anna"}, "class": "network", "valid_until": until, "reason": "orders"});
    assert_eq!(admin.post("/firearms/licences", &licence).status, 201);
    let to_eva = "an order for eva.maier@mail.example";
    let asked = call(to_eva, false);
    assert_eq!(asked.status, 202, "a person is asked: {asked:?}");
    assert_eq!(admin.post("/admin/flags", &json!({"flag": "pii", "on": true})).status, 200);
    let refused = call(to_eva, false);
    assert_eq!((refused.status, refused.code().as_str()), (403, "pii"), "{refused:?}");
    assert!(refused.text.contains("a mail address") && !refused.text.contains("eva"), "{refused:?}");
    assert_eq!(call(to_eva, true).json()["status"], "would_block");
    assert_eq!(call("an order", true).json()["status"], "would_ask");
    let open = admin.get("/questions?state=open").json()["items"].clone();
    assert_eq!(open.as_array().map(Vec::len), Some(1), "nobody was asked about it: {open}");
    let safety = admin.get("/events/list?type=safety").json()["items"].clone();
    let decision = safety.as_array().and_then(|all| all.last()).expect("a decision")["body"].clone();
    assert_eq!((&decision["gate"], &decision["outcome"]), (&json!("pii"), &json!("block")), "{decision}");
    let receipts = admin.get("/receipts?status=denied").json()["items"].clone();
    assert_eq!(receipts.as_array().map(Vec::len), Some(1), "{receipts}");
    // An earlier answer of a person doesn't count: the data doesn't leave.
    let question = &open[0];
    let yes = json!({"digest": question["digest"], "answer": "once", "seen_to_end": true});
    let id = question["question_id"].as_str().expect("an id");
    assert_eq!(admin.post(&format!("/questions/{id}/answer"), &yes).status, 200);
    let ended = outcome(&admin, id);
    assert_eq!((&ended["http_status"], &ended["outcome"]["error"]["code"]), (&json!(403), &json!("pii")), "{ended}");
}

#[test]
fn scenario_39_a_tenant_without_consent_has_runs_only_with_models_that_do_not_train() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let admin = gateway.client(&token(home.path(), "anna", "admin", &[]));
    let flag = |is_on: bool| admin.post("/admin/flags", &json!({"flag": "train_ok", "on": is_on})).status;
    assert_eq!(flag(false), 200);
    let refused = admin.post("/chat", &json!({"message": "hello"}));
    assert_eq!((refused.status, refused.code().as_str()), (403, "train_ok"), "{refused:?}");
    assert!(refused.json()["error"]["context"]["model"].is_string(), "{refused:?}");
    assert_eq!(flag(true), 200);
    server.reply(answer("Hello."));
    assert_eq!(admin.post("/chat", &json!({"message": "hello"})).status, 200);
    assert_eq!(flag(false), 200);
    gateway.end(nix::sys::signal::Signal::SIGTERM);
    let config = home.path().join(".config/reedclaw/config.lua");
    let text = std::fs::read_to_string(&config).expect("a config");
    assert!(text.contains("endpoint = "), "{text}");
    std::fs::write(&config, text.replacen("endpoint = ", "no_training = true, endpoint = ", 1)).expect("a config");
    let gateway = Gateway::start(home.path());
    server.reply(answer("Hello again."));
    let done = gateway.client(&token(home.path(), "ben", "member", &[])).post("/chat", &json!({"message": "hello"}));
    assert_eq!(done.status, 200, "{done:?}");
}

/// Asks a question whose call a person approves, after `meanwhile`; returns the text of the run and the call's fingerprint.
fn approved(anna: &Client<'_>, ben: &Client<'_>, message: &str, meanwhile: impl FnOnce()) -> (String, String) {
    let begun = anna.with("Prefer", "respond-async").post("/chat", &json!({"message": message}));
    let id = begun.json()["run_id"].as_str().expect("an id").to_owned();
    let mut stream = Reader::new(anna.open(&format!("/sse/runs/{id}")));
    let question = stream.expect("question").2["question_id"].as_str().expect("an id").to_owned();
    let card = ben.get(&format!("/questions/{question}")).json();
    meanwhile();
    let yes = json!({"digest": card["digest"], "answer": "once", "seen_to_end": true});
    assert_eq!(ben.post(&format!("/questions/{question}/answer"), &yes).status, 200);
    let text = stream.expect("answered").2["text"].as_str().expect("a text").to_owned();
    (text, card["digest"].as_str().expect("a digest").to_owned())
}

#[test]
fn scenario_27_an_agents_edit_of_a_moving_canvas_ends_in_the_right_state_once() {
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    let ben = gateway.client(&token(home.path(), "ben", "approver", &[]));
    let set = |rev: i64, key: &str, path: &str, value: &str| {
        let op = json!({"op": "set", "id": "a", "path": path, "value": value});
        let body = json!({"base_rev": rev, "ops": [op], "idempotency_key": key});
        assert_eq!(anna.post("/canvas/board/commands", &body).status, 200, "{body}");
    };
    let note = json!({"op": "create", "atom": {"id": "a", "type": "note", "order": "m", "props": {"text": "old"}}});
    let made = json!({"base_rev": 0, "ops": [note], "idempotency_key": "made"});
    assert_eq!(anna.post("/canvas/board/commands", &made).status, 200);
    let edit = json!({"canvas_id": "board", "base_rev": 1, "ops": [
        {"op": "set", "id": "a", "path": "/text", "value": "new"},
        {"op": "create", "atom": {"id": "b", "type": "note", "parent": "a", "order": "m"}}]});
    // Another person changes the same atom elsewhere while a question is open.
    server.reply(tool_call("canvas_read", "{\"canvas_id\": \"board\"}"));
    server.reply(tool_call("canvas_edit", &edit.to_string()));
    server.reply(answer("Done."));
    let (text, digest) = approved(&anna, &ben, "Change the board.", || set(1, "colour", "/colour", "red"));
    assert_eq!(text, "Done.");
    let read = server.request(2).whole_content(-1);
    assert!(read.contains("\"rev\":1") && read.contains("old"), "{read}");
    let snapshot = anna.get("/canvas/board/snapshot").json();
    let atoms: Vec<&Value> = snapshot["atoms"].as_array().expect("atoms").iter().map(|atom| &atom["props"]).collect();
    assert_eq!((&snapshot["rev"], atoms), (&json!(3), vec![&json!({"text": "new", "colour": "red"}), &json!({})]));
    let commits = anna.get("/events/list?type=canvas_commit&limit=500").json();
    let last = commits["items"].as_array().expect("commits").last().expect("a commit").clone();
    assert_eq!((&last["body"]["idempotency_key"], &last["source"]), (&json!(digest), &json!("agent")), "{last}");
    let safety = anna.get("/events/list?type=safety&limit=500").text;
    assert!(safety.contains("canvas_edit") && safety.contains("canvas_command"), "{safety}");
    // The same call again is the same command.
    server.reply(tool_call("canvas_edit", &edit.to_string()));
    server.reply(answer("Again."));
    assert_eq!(approved(&anna, &ben, "Once more.", || {}), ("Again.".into(), digest));
    let told = server.request(5).whole_content(-1);
    assert!(told.contains("\"replayed\":true"), "{told}");
    // A change at the same place isn't overwritten: the model is informed of it.
    set(3, "mine", "/text", "mine");
    let late = json!({"canvas_id": "board", "base_rev": 3, "ops": [
        {"op": "set", "id": "a", "path": "/text", "value": "its"}]});
    server.reply(tool_call("canvas_edit", &late.to_string()));
    server.reply(answer("It was changed."));
    approved(&anna, &ben, "And now?", || {});
    let told = server.request(7).whole_content(-1);
    assert!(told.contains("has changed since") && told.contains("\"value\":\"mine\""), "{told}");
    let snapshot = anna.get("/canvas/board/snapshot").json();
    assert_eq!((&snapshot["rev"], &snapshot["atoms"][0]["props"]["text"]), (&json!(4), &json!("mine")));
    // An operation that can't be applied fails before a person is asked, and another project's canvas doesn't exist here.
    let wrong = json!({"canvas_id": "board", "base_rev": 4, "ops": [{"op": "delete", "id": "none"}]});
    let call = json!({"action_name": "canvas_edit", "subject_type": "canvas", "subject_id": "board", "args": wrong});
    let failed = anna.post("/actions/execute", &call).json();
    assert!(failed["result"]["error"].to_string().contains("op_invalid"), "{failed}");
    let other = ben.with("X-Project-Id", "elsewhere").post("/actions/execute", &call).json();
    assert!(other["result"]["error"].to_string().contains("not_found"), "{other}");
    let tools = anna.get("/tools").json();
    let card = tools["items"].as_array().expect("tools").iter().find(|tool| tool["name"] == "canvas_edit");
    assert_eq!(card.expect("the tool")["channels"], json!(["gateway"]));
    assert_eq!(verify(home.path()).0, Some(0));
}

/// The W3C `traceparent` header in the head of a request.
pub fn traceparent(head: &str) -> String {
    let head = head.to_lowercase();
    let line = head.lines().find_map(|line| line.strip_prefix("traceparent: ").map(str::to_owned));
    line.unwrap_or_else(|| panic!("no trace in {head}"))
}

#[test]
fn scenario_2_a_runs_ids_are_in_its_events_log_lines_and_requests_to_models() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let server = Server::start();
    let home = home_of(&server);
    let gateway = Gateway::start(home.path());
    let anna = gateway.client(&token(home.path(), "anna", "member", &[]));
    server.reply(tool_call("file_list", "{\"path\": \".\"}"));
    server.reply(answer("Empty."));
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let traced = anna.with("traceparent", &parent).with("X-Request-Id", "ask-1");
    let said = traced.post("/chat", &json!({"message": "What is here?"}));
    assert_eq!((said.status, said.headers["x-request-id"].as_str()), (200, "ask-1"), "{said:?}");
    let id = said.json()["run_id"].as_str().expect("an id").to_owned();
    let replay = anna.get(&format!("/events/replay?run_id={id}&limit=500")).json();
    let items = replay["items"].as_array().expect("events");
    assert!(items.iter().any(|item| item["event_type"] == "action.completed"), "{replay}");
    for item in items {
        assert_eq!((&item["trace_id"], &item["request_id"]), (&json!(TRACE), &json!("ask-1")), "{item}");
    }
    // A request to the model and the calls in its answer are one step; the next request is another step.
    let steps = |kind: &str| -> Vec<&Value> {
        items.iter().filter(|item| item["event_type"] == kind).map(|item| &item["step_id"]).collect()
    };
    let costs = steps("cost");
    assert!(costs.len() == 2 && costs[0].is_string() && costs[1].is_string() && costs[0] != costs[1], "{replay}");
    for kind in ["action.requested", "action.admitted", "action.completed"] {
        assert_eq!(steps(kind), [costs[0]], "{kind}: {replay}");
    }
    // The trace continues to the model, and each request is a span of it.
    let sent = |number: usize| traceparent(&server.request(number).head);
    let (first, second) = (sent(1), sent(2));
    for header in [&first, &second] {
        assert!(
            header.starts_with(&format!("00-{TRACE}-")) && header.ends_with("-01") && *header != parent,
            "{header}"
        );
    }
    assert_ne!(first, second);
    // The event of the call names its receipt.
    let receipt = items.iter().find_map(|item| item["body"]["receipt_id"].as_str()).expect("a receipt");
    assert!(anna.get("/receipts?tool=file_list").text.contains(receipt), "{receipt}");
    assert_eq!(gateway.end(nix::sys::signal::Signal::SIGTERM), Some(0));
    let log = std::fs::read_to_string(home.path().join(".local/state/reedclaw/reedclaw.log")).expect("the log");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for event in ["tool_requested", "tool_completed", "receipt_written"] {
        let of_run = |line: &&Value| line["event"] == event && line["run_id"] == json!(id);
        let line = lines.iter().find(of_run).unwrap_or_else(|| panic!("no line {event} of the run in {log}"));
        assert_eq!((&line["trace_id"], &line["request_id"]), (&json!(TRACE), &json!("ask-1")), "{line}");
    }
    let request = |line: &Value| line["event"] == "request" && line["request_id"] == "ask-1";
    assert!(lines.iter().any(request), "{log}");
}
