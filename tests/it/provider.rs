//! `reedclaw provider` and `reedclaw onboard`: the servers that are listed and tried, and the settings that are and never are
//! written.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::config::home;
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};
use crate::server::{Server, Step, answer, refusal};

const CONFIG: &str = ".config/reedclaw/config.lua";

/// Runs a subcommand without a terminal; returns its exit status and all its output.
fn run(home: &Path, args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("HOME", home).env("PATH", TEST_PATH).current_dir(home).stdin(Stdio::null());
    let output = command.envs(env.iter().copied()).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn whole(body: &serde_json::Value) -> Vec<Step> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    vec![Step::Raw((head + &body).into_bytes())]
}

fn list(models: &[&str]) -> Vec<Step> {
    let models: Vec<_> = models.iter().map(|id| json!({"id": id})).collect();
    whole(&json!({"object": "list", "data": models}))
}

fn events(events: &[serde_json::Value]) -> Vec<Step> {
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    events.iter().for_each(|event| text.push_str(&format!("data: {event}\n\n")));
    vec![Step::Raw(text.into_bytes())]
}

fn anthropic_answer(text: &str) -> Vec<Step> {
    events(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 4, "cache_read_input_tokens": 6}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ])
}

#[test]
fn the_list_says_where_each_model_is_and_where_its_key_comes_from() {
    let config = "return { default_model = 'all', models = { \
                  near = { endpoint = 'http://127.0.0.1:9', model = 'm-1' }, \
                  far = { kind = 'anthropic', model = 'm-2', key_env = 'FAR_KEY' }, \
                  unset = { kind = 'gemini', key_env = 'UNSET_KEY' }, \
                  all = { kind = 'reliable', of = { 'near', 'far' } } } }";
    let home = home(&[(CONFIG, config)]);
    let (status, told) = run(home.path(), &["provider", "list"], &[("FAR_KEY", "sk-planted")]);
    let rows: Vec<Vec<&str>> =
        told.lines().map(|line| line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect()).collect();
    assert_eq!(status, Some(0), "{told}");
    assert_eq!(rows[0], ["name", "kind", "model", "where", "key"], "{told}");
    assert_eq!(rows[1], ["*", "all", "reliable", "near, then far", "none"]);
    assert_eq!(rows[2], ["far", "anthropic", "m-2", "api.anthropic.com (the internet)", "$FAR_KEY"]);
    assert_eq!(rows[3], ["near", "openai-compatible", "m-1", "127.0.0.1:9 (this machine)", "none"]);
    assert_eq!(rows[4][4], "$UNSET_KEY (not set)");
    assert!(!told.contains("sk-planted"));
}

#[test]
fn a_test_says_what_was_asked_how_fast_it_was_and_what_it_can_do() {
    let server = Server::start();
    server.reply(anthropic_answer("ready"));
    server.reply(events(&[
        json!({"type": "message_start", "message": {"usage": {}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "get_weather"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"city\":"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "\"Oslo\"}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]));
    let endpoint = server.endpoint();
    let config = format!(
        "return {{ models = {{ claw = {{ kind = 'anthropic', endpoint = '{endpoint}', key_env = 'K', aliases = {{ 'c' }} }} }} }}"
    );
    let home = home(&[(CONFIG, &config)]);
    let (status, told) = run(home.path(), &["provider", "test", "c"], &[("K", "sk-planted")]);
    assert_eq!(status, Some(0), "{told}");
    for words in [
        "claw: anthropic at 127.0.0.1:",
        "(this machine)",
        "asked: Answer with the one word: ready\nanswer: ready\n",
        " ms to the first token, ",
        "tokens: 10 in (6 from the cache, 0 into it), 2 out (0 of them thoughts)",
        "can: streams, takes tools, marks the part that may be cached, gets its own thoughts back unchanged",
        "tools: it called get_weather with {\"city\":\"Oslo\"}",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("sk-planted"));
    let request = server.request(1);
    assert!(request.head.starts_with("POST /v1/messages "), "{}", request.head);
    assert!(request.head.to_lowercase().contains("x-api-key: sk-planted"), "{}", request.head);

    server.reply(refusal("401 Unauthorized", "bad key sk-planted"));
    let (status, told) = run(home.path(), &["provider", "test", "claw"], &[("K", "sk-planted")]);
    assert_eq!(status, Some(1));
    assert!(told.contains("the server refused the key (HTTP 401): bad key ***"), "{told}");
    let (status, told) = run(home.path(), &["provider", "test", "nobody"], &[]);
    assert!(
        status == Some(2) && told.contains("no model is called nobody") && told.contains("configured: claw"),
        "{told}"
    );
}

#[test]
fn the_next_model_answers_if_one_refuses_or_breaks_the_protocol() {
    let page = "<html><title>Sign in</title></html>";
    let html = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}", page.len());
    for fault in [
        refusal("403 Forbidden", "not for you"),
        refusal("404 Not Found", "no such model"),
        vec![Step::Raw(html.into_bytes())],
        vec![Step::Raw(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_vec())],
    ] {
        let (first, second) = (Server::start(), Server::start());
        first.reply(fault.clone());
        second.reply(answer("from the second"));
        let config = format!(
            "return {{ default_model = 'r', models = {{ a = {{ endpoint = '{}', key_env = 'K' }}, \
             b = {{ endpoint = '{}' }}, r = {{ kind = 'reliable', of = {{ 'a', 'b' }} }} }} }}",
            first.endpoint(),
            second.endpoint()
        );
        let home = home(&[(CONFIG, &config)]);
        let (status, told) = run(home.path(), &["agent", "-m", "what?"], &[("K", "sk-planted")]);
        assert_eq!(status, Some(0), "{fault:?}: {told}");
        assert!(told.contains("from the second") && told.contains("; asking b"), "{fault:?}: {told}");
    }
}

#[test]
fn a_combination_without_models_reports_it() {
    let home = home(&[(CONFIG, "return { models = { r = { kind = 'reliable', of = {} } } }")]);
    let (status, told) = run(home.path(), &["agent", "-m", "what?"], &[]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("models.r.of: names no model, so this one can't answer"), "{told}");
    assert!(told.contains("models.r.of names no model\n") && !told.contains("no place"), "{told}");
}

/// The port of a model server, at which `onboard` looks for one.
fn port(server: &Server) -> String {
    server.endpoint().rsplit(':').next().expect("a port").to_owned()
}

#[test]
fn onboard_tries_what_it_finds_and_writes_a_config_that_works_without_a_key() {
    let near = Server::start();
    near.reply(list(&["embed-1", "tiny \"1\""]));
    near.reply(answer("ready"));
    let far = Server::start();
    far.reply(list(&["claude-haiku-9", "claude-sonnet-9"]));
    far.reply(anthropic_answer("ready"));
    let home = home(&[]);
    let endpoint = far.endpoint();
    let env = [("ANTHROPIC_API_KEY", "sk-planted"), ("ANTHROPIC_BASE_URL", &*endpoint)];
    let (status, told) = run(home.path(), &["onboard", "--yes", "--port", &port(&near)], &env);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("wrote ~/.config/reedclaw/config.lua"), "{told}");
    let path = home.path().join(CONFIG);
    let text = fs::read_to_string(&path).expect("the config");
    assert!(!text.contains("sk-planted") && !told.contains("sk-planted"), "{text}{told}");
    assert!(text.contains("default_model = \"local\"") && text.contains("key_env = \"ANTHROPIC_API_KEY\""), "{text}");
    assert!(text.contains("-- ") && text.contains("It answered: "), "{text}");
    assert_eq!(fs::metadata(&path).expect("the config").permissions().mode() & 0o777, 0o600);
    assert_eq!(near.request(2).body["model"], "tiny \"1\"", "a model of embeddings answers no question");
    assert_eq!(far.request(2).body["model"], "claude-sonnet-9");
    let (status, problems) = run(home.path(), &["config", "validate"], &[]);
    assert_eq!(status, Some(0), "{problems}{text}");
    near.reply(answer("at your service"));
    let (status, told) = run(home.path(), &["agent", "-m", "are you there?"], &[]);
    assert!(status == Some(0) && told.contains("at your service"), "{told}");

    // An existing config stays.
    near.reply(list(&["tiny"]));
    let (status, told) = run(home.path(), &["onboard", "--yes", "--port", &port(&near)], &[]);
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("config.lua is there and stays as it is") && told.contains("model = \"tiny\""), "{told}");
    assert_eq!(fs::read_to_string(&path).expect("the config"), text);
    assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("the folder").count(), 1);
}

#[test]
fn onboard_sends_no_key_anywhere_without_a_yes_and_replaces_a_config_only_after_one() {
    let near = Server::start();
    let far = Server::start();
    let endpoint = far.endpoint();
    let old = "return {} -- mine";
    near.reply(list(&["tiny"]));
    near.reply(answer("ready"));
    let command = format!("{} onboard --port {}", program().display(), port(&near));
    let session = Session::spawn(
        Spawn::reedclaw()
            .file(CONFIG, old)
            .env("OPENAI_API_KEY", "sk-planted")
            .env("OPENAI_BASE_URL", &endpoint)
            .size(40, 160),
    );
    session.expect_prompt();
    session.line(&command);
    session.expect_text("openai: a key is in $OPENAI_API_KEY");
    session.expect_text("list its models and put one short question to one? [y/N]");
    session.line("n");
    session.expect_text("config.lua is there. Put the new one in its place? The old one stays beside it [y/N]");
    assert_eq!(far.requests(), 0, "the key was sent without a yes");
    session.line("n");
    session.expect_text("is there and stays as it is");
    session.expect_prompt();
    let path = session.home().join(CONFIG);
    assert_eq!(fs::read_to_string(&path).expect("the config"), old);

    session.run("clear");
    near.reply(list(&["tiny"]));
    near.reply(answer("ready"));
    session.line(&command);
    session.expect_text("put one short question to one? [y/N]");
    session.line("");
    session.expect_text("The old one stays beside it [y/N]");
    session.line("y");
    session.expect_text("wrote ~/.config/reedclaw/config.lua; the old one is ~/.config/reedclaw/config.lua.old");
    session.expect_prompt();
    let text = fs::read_to_string(&path).expect("the config");
    assert!(text.contains("    -- [\"openai\"] = { kind = \"openai-responses\", "), "{text}");
    assert!(!text.contains("sk-planted") && text.contains("Not tried."), "{text}");
    assert_eq!(fs::read_to_string(path.with_extension("lua.old")).expect("the old one"), old);
    assert_eq!(far.requests(), 0);
}

#[test]
fn onboard_that_finds_nothing_writes_nothing() {
    let home = home(&[]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let (status, told) = run(home.path(), &["onboard", "--yes", "--port", &free.to_string()], &[]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("no model server on") && told.contains("llama-server"), "{told}");
    assert!(!home.path().join(CONFIG).exists());
}

#[test]
fn a_mock_answers_from_its_file_and_a_router_chooses() {
    let config = "return { default_model = 'w', models = { \
                  a = { kind = 'mock', script = '~/a.jsonl' }, b = { kind = 'mock', script = '~/b.jsonl' }, \
                  gone = { kind = 'mock', script = '~/none.jsonl' }, \
                  w = { kind = 'router', rules = { default = 'a', plan = 'b' } } } }";
    let home = home(&[
        (CONFIG, config),
        ("a.jsonl", "{\"steps\": [{\"text\": \"from a\"}]}\n"),
        ("b.jsonl", "# plans\n{\"steps\": [{\"text\": \"from \"}, {\"delay_ms\": 5}, {\"text\": \"b\"}]}\n"),
    ]);
    let ask = |args: &[&str]| run(home.path(), &[&["agent", "-m"], args].concat(), &[]);
    assert_eq!(ask(&["what is a shell?"]), (Some(0), "from a\n".into()));
    assert_eq!(ask(&["plan the move of my tests"]), (Some(0), "from b\n".into()));
    let (status, told) = ask(&["what?", "--model", "gone"]);
    assert!(status == Some(1) && told.contains("the script can't be used: ") && told.contains("none.jsonl"), "{told}");
}
