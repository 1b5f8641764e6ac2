//! Servers that break, lie, or don't end: the results of their calls, and what remains of them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{act, allow, ask, at, call, has_python, one, results, run};
use crate::changes::{home, rounds};
use crate::need::TEST_PATH;
use crate::procs;
use crate::pty::{Session, Spawn, program, status_code};
use crate::wait::wait_until;

/// Maximum time that a server's processes may outlive their session, on a machine that is busy with other tests.
const END: Duration = Duration::from_secs(10);

/// Processes that have a word in their arguments.
fn with_word(word: &str) -> usize {
    let has = |id: i32| fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.contains(word));
    procs::all().iter().filter(|process| has(process.pid)).count()
}

/// A word for a server's arguments that no other process has.
fn mark(home: &Path) -> String {
    format!("log={}", home.file_name().expect("a name").to_string_lossy())
}

/// A definition of a tool.
fn tool(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "description": description, "inputSchema": schema})
}

/// A server whose tools are in a file that the server can also write.
fn with_list(list: &Path, more: &str) -> String {
    let place = list.parent().expect("a directory").display();
    one(&[&format!("tools={}", list.display())], &format!("writable = {{ \"{place}\" }}, {more}"))
}

#[test]
fn output_beside_the_protocol_breaks_no_call() {
    if !has_python() {
        return;
    }
    let home = home(&[], &one(&["noise=Listening on port 80"], ""));
    allow(at(&home));
    for (what, said) in [
        ("foreign", "the right one"),
        ("twice", "first"),
        ("odd bytes", "the right one"),
        ("in halves", "put together"),
    ] {
        let result = act(at(&home), what);
        assert_eq!((&result["success"], &result["output"]), (&json!(true), &json!(said)), "{what}: {result}");
    }
}

#[test]
fn a_server_that_is_killed_in_a_call_leaves_its_outcome_open_and_comes_back() {
    if !has_python() {
        return;
    }
    let calls = [("one__act", json!({"what": "kill"})), ("one__echo", json!({"text": "again"}))];
    let granted = "tools = { act = \"run\", echo = \"run\" }";
    let home = home(&[rounds("please", &calls, "done")], &one(&[], granted));
    allow(at(&home));
    let lines = ask(at(&home), "supervised");
    let results = results(&lines);
    assert_eq!(results[0]["error"]["code"], "unknown-outcome", "{lines:#?}");
    assert_eq!(results[1]["output"], "again", "{lines:#?}");
}

#[test]
fn nothing_of_a_server_outlives_a_session_that_is_killed() {
    if !has_python() {
        return;
    }
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (mark, touched) = (mark(files.path()), files.path().join("called"));
    let touch = format!("touch={}", touched.display());
    let more = format!("tools = {{ act = \"run\" }}, writable = {{ \"{}\" }}", files.path().display());
    let calls = [("one__act", json!({"what": "stubborn"}))];
    let home = home(&[rounds("please", &calls, "done")], &one(&[&mark, &touch], &more));
    allow(at(&home));
    let mut agent = agent(at(&home));
    wait_until(|| touched.exists() && with_word(&mark) > 1);
    agent.kill().expect("it is killed");
    agent.wait().expect("it has ended");
    let began = Instant::now();
    wait_until(|| with_word(&mark) == 0);
    assert!(began.elapsed() < END, "{:?}", began.elapsed());
}

/// A question without a terminal, which runs beside the test.
fn agent(home: &Path) -> std::process::Child {
    let mut command = Command::new(program());
    command.args(["agent", "--json", "--path", ".", "-m", "please"]).env_clear();
    command.env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8").current_dir(home.join("work"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
}

#[test]
fn the_emergency_stop_ends_a_call_and_its_server() {
    if !has_python() {
        return;
    }
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (mark, touched) = (mark(files.path()), files.path().join("called"));
    let touch = format!("touch={}", touched.display());
    let more = format!("tools = {{ act = \"run\" }}, writable = {{ \"{}\" }}", files.path().display());
    let calls = [("one__act", json!({"what": "hang"}))];
    let home = home(&[rounds("please", &calls, "done")], &one(&[&mark, &touch], &more));
    allow(at(&home));
    let mut agent = agent(at(&home));
    wait_until(|| touched.exists());
    assert_eq!(run(at(&home), &["estop"]).0, Some(0));
    let began = Instant::now();
    wait_until(|| agent.try_wait().expect("a status").is_some());
    assert!(began.elapsed() < END, "{:?}", began.elapsed());
    wait_until(|| with_word(&mark) == 0);
    let result = act(at(&home), "echo");
    assert_eq!(result["success"], false, "{result}");
}

#[test]
fn tools_that_come_go_or_get_another_name_in_a_question_count_at_once() {
    if !has_python() {
        return;
    }
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (list, next) = (files.path().join("tools.json"), files.path().join("next.json"));
    let any = json!({"type": "object"});
    let act = tool("act", "Does one of several things.", &any);
    let stays = tool("stays", "Stays.", &any);
    let before = json!([act, stays, tool("old", "Has another name later.", &any), tool("gone", "Goes.", &any)]);
    let after = json!([act, stays, tool("new", "Has another name later.", &any), tool("added", "Is added.", &any)]);
    fs::write(&list, before.to_string()).expect("a list");
    fs::write(&next, after.to_string()).expect("a list");
    let named = |name: &str| (format!("one__{name}"), json!({}));
    let swap = json!({"what": format!("swap {}", next.display())});
    let names = ["stays", "old", "gone", "new", "added"].map(named);
    let mut calls = vec![("one__act", swap)];
    calls.extend(names.iter().map(|(name, arguments)| (name.as_str(), arguments.clone())));
    let granted =
        "tools = { act = \"run\", stays = \"run\", old = \"run\", gone = \"run\", new = \"run\", added = \"run\" }";
    let home = home(&[rounds("please", &calls, "done")], &with_list(&list, granted));
    allow(at(&home));
    let lines = ask(at(&home), "supervised");
    let results = results(&lines);
    assert_eq!(results[0]["output"], "swapped", "{lines:#?}");
    assert_eq!(results[1]["success"], true, "what stays goes on: {lines:#?}");
    for (at, name) in ["old", "gone", "new", "added"].iter().enumerate() {
        assert_eq!(results[at + 2]["success"], false, "{name}: {lines:#?}");
    }
}

#[test]
fn hidden_characters_reach_no_terminal_from_anywhere() {
    if !has_python() {
        return;
    }
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let list = files.path().join("tools.json");
    let evil = "x\u{1b}[2J\u{202e}\u{200b}\u{e0041}";
    let schema = json!({"type": "object", "properties": {evil: {"type": "string", "description": evil}}});
    let hidden = json!({
        "name": format!("add{evil}"), "title": evil, "description": evil, "inputSchema": schema,
        "annotations": {"title": evil},
    });
    fs::write(&list, json!([hidden, tool("act", "Does.", &json!({"type": "object"}))]).to_string()).expect("a list");
    let more = format!("writable = {{ \"{}\" }}", files.path().display());
    let config = one(&[&format!("tools={}", list.display())], &more);
    let home = home(&[], &config);
    let is_clean = |text: &str| {
        text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains(['\u{202e}', '\u{200b}', '\u{e0041}'])
    };
    for words in [["mcp", "allow", "one"], ["mcp", "show", "one"], ["mcp", "tools", "one"], ["mcp", "test", "one"]] {
        let (_, out, err) = run(at(&home), &words);
        assert!(is_clean(&out) && is_clean(&err), "{words:?}: {out:?}{err:?}");
        assert!(out.contains("\\u{202e}"), "{words:?}: {out}{err}");
    }
    let shown = allow(at(&home));
    assert!(is_clean(&shown), "{shown:?}");
    let (_, out, err) = run(at(&home), &["mcp", "call", "one.act", "{\"what\": \"escape\"}"]);
    assert!(is_clean(&out) && is_clean(&err) && out.contains("plain"), "{out:?}{err:?}");
    let (_, out, err) = run(at(&home), &["mcp", "call", "one.act", "{\"what\": \"fail with escapes\"}"]);
    assert!(is_clean(&out) && is_clean(&err) && err.contains("wrong"), "{out:?}{err:?}");
}

#[test]
fn the_log_of_a_server_is_shown_with_hidden_characters_escaped() {
    if !has_python() {
        return;
    }
    // Lua makes the characters of these escapes.
    let home = home(&[], &one(&["log=evil\\27[2J\\u{202e}\\u{e0041}marked"], ""));
    let session = Session::spawn(Spawn::reedclaw().home(at(&home)).cwd(&at(&home).join("work")).size(60, 120));
    session.expect_prompt();
    session.send(b":mcp connect one\r");
    session.expect_text("running, started in");
    session.send(b":mcp log one\r");
    session.expect_text("\\u{202e}");
    session.expect_text("marked");
    let raw = session.raw();
    for hidden in ["evil\u{1b}[2J", "\u{202e}", "\u{e0041}"] {
        assert!(!raw.windows(hidden.len()).any(|bytes| bytes == hidden.as_bytes()), "{hidden:?}");
    }
    session.send(b"exit\r");
    assert_eq!(status_code(session.expect_exit()), 0);
}

#[test]
fn a_server_with_the_network_gets_proxies_without_their_passwords_and_another_none() {
    if !has_python() {
        return;
    }
    for network in [false, true] {
        let home = home(&[], &one(&[], &format!("network = {network}, tools = {{ act = \"run\" }}")));
        allow(at(&home));
        let mut command = Command::new(program());
        command.args(["mcp", "call", "one.act", "{\"what\": \"env\"}"]).current_dir(at(&home).join("work"));
        command.env_clear().env("PATH", TEST_PATH).env("HOME", at(&home)).env("LANG", "C.UTF-8");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
            command.env(name, "http://user:hidden-password@127.0.0.1:1");
        }
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.contains("HOME=") && out.contains("PATH=") && !out.contains("hidden-password"), "{output:?}");
        assert_eq!(out.matches("_proxy=http://127.0.0.1:1").count(), usize::from(network), "{out}");
        assert_eq!(out.matches("_PROXY=http://127.0.0.1:1").count(), 3 * usize::from(network), "{out}");
        assert_eq!(out.to_lowercase().matches("proxy=").count(), 4 * usize::from(network), "{out}");
    }
}

#[test]
fn a_server_with_an_address_is_reached_by_the_proxy_of_the_environment() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let place = format!("http://{}", proxy.local_addr().expect("an address"));
    let home = home(&[], "mcp = { servers = { one = { url = \"http://tools.example/mcp\" } } }");
    let first = std::thread::spawn(move || {
        let mut line = String::new();
        let mut reader = BufReader::new(proxy.accept().expect("a request").0);
        reader.read_line(&mut line).expect("its first line");
        let _ =
            reader.get_mut().write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        line
    });
    let mut command = Command::new(program());
    command
        .args(["mcp", "test", "one"])
        .env_clear()
        .env("PATH", TEST_PATH)
        .env("HOME", at(&home))
        .env("LANG", "C.UTF-8");
    let tested = command.env("HTTP_PROXY", place).current_dir(at(&home).join("work")).output().expect("it runs");
    assert!(!tested.status.success(), "{tested:?}");
    let first = first.join().expect("no panic");
    assert!(first.contains("tools.example"), "{first}");
}

#[test]
fn a_server_called_like_a_built_in_tool_shadows_nothing() {
    if !has_python() {
        return;
    }
    let home = home(&[], &one(&[], "").replace("one = {", "shell = {"));
    let spawn = Spawn::new(program()).args(&["mcp", "allow", "shell"]).home(at(&home)).cwd(&at(&home).join("work"));
    let session = Session::spawn(spawn.size(90, 160));
    session.expect_text("as they are? [y/N]");
    session.line("y");
    assert_eq!(status_code(session.expect_exit()), 0);
    let served = call(at(&home), "shell__echo", &json!({"text": "of the server"}));
    assert_eq!(served["output"], "of the server", "{served}");
    let own = call(at(&home), "shell", &json!({"command": "echo built in"}));
    assert!(own["output"].as_str().is_some_and(|text| text.contains("built in")), "{own}");
}

#[test]
fn odd_schemas_work_or_are_refused_in_time_and_fetch_nothing() {
    if !has_python() {
        return;
    }
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let list = files.path().join("tools.json");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.set_nonblocking(true).expect("not blocking");
    let remote = format!("http://{}/schema.json", listener.local_addr().expect("an address"));
    let mut deep = json!({"type": "string"});
    for _ in 0..50 {
        deep = json!({"type": "object", "properties": {"x": deep}});
    }
    let modern = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"x": {"type": "string", "pattern": "^a+$"}}, "unevaluatedProperties": false, "required": ["x"],
    });
    let of = |rule: Value| json!({"type": "object", "properties": {"x": rule}});
    let tools = json!([
        tool("modern", "", &modern),
        tool("cycle", "", &of(json!({"$ref": "#/properties/x"}))),
        tool("remote", "", &of(json!({"$ref": remote}))),
        tool("deep", "", &deep),
    ]);
    fs::write(&list, tools.to_string()).expect("a list");
    let home = home(&[], &with_list(&list, ""));
    allow(at(&home));
    let began = Instant::now();
    assert_eq!(call(at(&home), "one__modern", &json!({"x": "aaa"}))["success"], true);
    assert_eq!(call(at(&home), "one__modern", &json!({}))["error"]["code"], "bad-arguments");
    for name in ["one__cycle", "one__remote", "one__deep"] {
        let result = call(at(&home), name, &json!({"x": "a"}));
        assert_eq!(result["success"], false, "{name}: {result}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(listener.accept().is_err(), "no schema is fetched");
}

#[test]
fn a_repository_starts_no_server_and_grants_nothing() {
    if !has_python() {
        return;
    }
    let home = home(&[], &one(&[], ""));
    let work = at(&home).join("work");
    let two = json!({"command": "/usr/bin/touch", "args": [work.join("started").display().to_string()]});
    fs::create_dir(work.join(".vscode")).expect("a directory");
    fs::write(work.join(".mcp.json"), json!({"mcpServers": {"two": two}}).to_string()).expect("a file");
    fs::write(work.join(".vscode/mcp.json"), json!({"servers": {"two": two}}).to_string()).expect("a file");
    let started = work.join("started").display().to_string();
    let overlay = format!(
        "return {{ mcp = {{ servers = {{ two = {{ command = {{ \"/usr/bin/touch\", \"{started}\" }} }}, \
         one = {{ tools = {{ echo = \"run\" }}, network = true, elicit = false }} }} }} }}\n"
    );
    fs::write(work.join(".reedclaw.lua"), overlay).expect("a file");
    let session = Session::spawn(Spawn::reedclaw().home(at(&home)).cwd(&work).size(60, 250));
    session.expect_text(".reedclaw.lua is new to you");
    session.expect_text("a project can't say which servers are started");
    session.expect_text("will be refused, a project can't set this to true");
    session.expect_text("will be refused, a project can't loosen this to run");
    session.expect_text("trust [t]");
    session.send(b"t");
    session.expect_prompt();
    session.send(b":mcp\r");
    session.expect_text("one  never started");
    assert!(!session.screen_text().contains("two  "), "{}", session.screen_text());
    session.send(b"exit\r");
    assert_eq!(status_code(session.expect_exit()), 0);
    assert!(!work.join("started").exists(), "nothing of it ran");
}

#[test]
fn a_server_that_is_started_twice_sees_what_it_may_read_both_times() {
    if !has_python() {
        return;
    }
    // The server works in the home, which is empty in the sandbox. It ends at the first question and is restarted.
    let home = home(&[], "");
    let place = at(&home).join("servers");
    fs::create_dir(&place).expect("a directory");
    fs::copy(super::FIXTURE, place.join("server.py")).expect("a copy");
    let config = at(&home).join(".config/reedclaw/config.lua");
    let server = format!(
        "mcp = {{ servers = {{ one = {{ command = {{ \"/usr/bin/python3\", \"-IS\", \"{}\", \"era=ends\" }}, \
         readable = {{ \"{}\" }} }} }} }},",
        place.join("server.py").display(),
        place.display()
    );
    let text = fs::read_to_string(&config).expect("a config").replacen("return {", &format!("return {{ {server}"), 1);
    fs::write(&config, text).expect("a config");
    let (code, out, err) = run(at(&home), &["mcp", "test", "one"]);
    assert!(code == Some(3) && out.contains("2025-11-25"), "{out}{err}");
}

#[test]
fn ctrl_c_stops_the_wait_for_a_server_that_never_answers() {
    if !has_python() {
        return;
    }
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mark = mark(files.path());
    let home = home(&[], &one(&[&mark, "era=silent"], "era = \"2026-07-28\", start_ms = 3600000"));
    let session = Session::spawn(Spawn::reedclaw().home(at(&home)).cwd(&at(&home).join("work")).size(40, 100));
    session.expect_prompt();
    session.line(":mcp test one");
    session.expect_outside("the server runs", || (with_word(&mark) > 0).then_some(()));
    session.interrupt();
    session.expect_prompt();
    session.run("echo still-$((40 + 2))");
    session.expect_text("still-42");
}
