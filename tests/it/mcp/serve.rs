//! ReedClaw as a server of tools for another agent: what that agent sees, what it may do, and who approves it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{at, one_program, run};
use crate::changes::{home, read};
use crate::need::{self, TEST_PATH};
use crate::pty::{Session, Spawn, program, status_code};
use crate::wait::wait_for_end;

/// Maximum wait: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Another agent, as a client of `reedclaw mcp serve`.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    last: u64,
}

impl Agent {
    fn start(home: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["mcp", "serve"]).args(words).env_clear().env("PATH", TEST_PATH).env("HOME", home);
        command.current_dir(home.join("work")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("it starts");
        let output = child.stdout.take().expect("its output");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, last: 0 }
    }

    /// Starts one and completes the handshake.
    fn connected(home: &Path, words: &[&str]) -> Self {
        let mut agent = Self::start(home, words);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "other\u{1b}agent", "version": "1"}});
        assert_eq!(agent.request("initialize", params)["result"]["protocolVersion"], "2025-11-25");
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("an open input");
        writeln!(input, "{message}").and_then(|()| input.flush()).expect("it reads");
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        self.last
    }

    /// Waits for the answer to a request and skips the messages before it.
    fn answer(&self, id: u64) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no answer to {id}"));
            if message["id"] == id {
                return message;
            }
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    fn tools(&mut self) -> Vec<String> {
        let list = self.request("tools/list", json!({}));
        let tools = list["result"]["tools"].as_array().expect("a list").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Closes its input and waits for the end of the process.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        wait_for_end(&mut self.child).code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

fn session(home: &Path) -> Session {
    let session = Session::spawn(Spawn::reedclaw().home(home).cwd(&home.join("work")).size(40, 110));
    session.expect_prompt();
    session
}

#[test]
fn another_agent_sees_typed_lines_without_secrets_and_can_do_nothing() {
    let home = home(&[], "");
    let session = session(at(&home));
    session.run("echo token=ghp_abcdefghijklmnopqrstuvwxyz0123456789");
    session.run(" echo not in the history");
    session.run("false");
    let mut agent = Agent::connected(at(&home), &[]);
    let tools = agent.tools();
    assert_eq!(tools.len(), 6, "{tools:?}");
    assert!(!tools.iter().any(|name| name.starts_with("file") || name == "shell"), "{tools:?}");
    let refused = agent.request("tools/call", json!({"name": "shell", "arguments": {"command": "true"}}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    let found = agent.call("history_search", json!({"query": "echo"}));
    let lines = found["structuredContent"]["lines"].as_array().expect("lines");
    assert_eq!(lines.len(), 1, "{found}");
    let line = lines[0]["line"].as_str().expect("a line");
    assert!(line.starts_with("echo token=") && !line.contains("ghp_"), "{line}");
    let until = Instant::now() + PATIENCE;
    let state = loop {
        let state = agent.call("session_state", json!({}))["structuredContent"]["sessions"][0].take();
        if (&state["line"], &state["status"]) == (&json!("false"), &json!(1)) {
            break state;
        }
        assert!(Instant::now() < until, "{state}");
    };
    assert_eq!(state["cwd"].as_str().map(Path::new), Some(at(&home).join("work").as_path()));
    for (tool, wrong) in [
        ("history_search", json!({"text": "echo"})),
        ("history_search", json!({"limit": 0})),
        ("policy_explain", json!({})),
    ] {
        let refused = agent.call(tool, wrong);
        let why = refused["content"][0]["text"].as_str().unwrap_or_default();
        assert!(refused["isError"] == true && why.contains("the arguments can't be used"), "{refused}");
    }
    let verdict = agent.call("policy_explain", json!({"command": "rm -rf /"}));
    assert_eq!(verdict["structuredContent"]["risk"], "blocked", "{verdict}");
    let receipts = agent.call("receipts_verify", json!({}));
    assert_eq!(receipts["structuredContent"]["verdict"], "whole", "{receipts}");
    assert_eq!(agent.call("steps_list", json!({}))["structuredContent"]["steps"], json!([]));
    assert_eq!(agent.call("cost", json!({}))["structuredContent"]["today"], json!([]));
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn a_call_that_changes_something_waits_for_a_person_at_a_session() {
    let home = home(&[], "");
    let session = session(at(&home));
    let mut agent = Agent::connected(at(&home), &["--offer", "tools"]);
    std::fs::write(at(&home).join("work/a.txt"), "one\n").expect("a file");
    let seen = agent.call("file_read", json!({"path": "a.txt"}));
    assert!(text(&seen).contains("one") && seen["isError"] == false, "nobody is asked to look: {seen}");

    let write = |text: &str| json!({"name": "file_write", "arguments": {"path": "b.txt", "content": text}});
    let id = agent.begin("tools/call", write("made\n"));
    session.expect_text("asks: file_write");
    session.expect_text(":approve 1");
    assert!(!session.screen_text().contains('\u{1b}'), "{}", session.screen_text());
    session.send(b":approve\r");
    session.expect_text("+made");
    session.expect_text("yes [y]  no [n, Enter]");
    assert_eq!(read(at(&home), "b.txt"), "(no file)");
    session.send(b"y");
    session.expect_text("it runs");
    let done = agent.answer(id);
    assert_eq!((&done["result"]["isError"], read(at(&home), "b.txt").as_str()), (&json!(false), "made\n"), "{done}");
    let receipt = done["result"]["_meta"]["reedclaw/receipt"].as_str().expect("a receipt").to_owned();
    let (code, shown, _) = run(at(&home), &["receipt", "show", &receipt]);
    assert!(code == Some(0) && shown.contains("person"), "{shown}");

    let id = agent.begin("tools/call", write("other\n"));
    session
        .expect("the second call", |screen| screen.contents().matches("other\\x1bagent asks: file_write").count() == 2);
    session.send(b":approve 1\r");
    session.expect_text("+other");
    session.expect("the second question", |screen| screen.contents().matches("no [n, Enter]").count() == 2);
    session.send(b"n");
    session.expect_text("it doesn't run");
    let denied = agent.answer(id);
    assert!(text(&denied["result"]).contains("the user said no") && denied["result"]["isError"] == true, "{denied}");
    assert_eq!(read(at(&home), "b.txt"), "made\n");

    // A cancelled call is no longer asked about, and gets no answer.
    let id = agent.begin("tools/call", write("late\n"));
    let waits = at(&home).join(".local/state/reedclaw/serve/1.json");
    session.expect_outside("the question", || waits.exists().then_some(()));
    agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    session.expect_outside("its end", || (!waits.exists()).then_some(()));
    session.send(b":approve\r");
    session.expect_text("no call of another agent waits");
    assert_eq!(agent.request("ping", json!({}))["result"], json!({}));
    assert_eq!(read(at(&home), "b.txt"), "made\n");

    // The client disconnects while a question is open.
    agent.begin("tools/call", write("gone\n"));
    session.expect_outside("the question", || waits.exists().then_some(()));
    assert_eq!(agent.end(), Some(0));
    session.expect_outside("its end", || (!waits.exists()).then_some(()));
    session.send(b"exit\r");
    assert_eq!(status_code(session.expect_exit()), 0);
}

#[test]
fn the_last_output_and_the_jobs_of_a_session_are_seen_only_if_the_config_says_so() {
    let home = home(&[], "mcp = { serve = { outputs = true } }");
    let session = session(at(&home));
    session.run("echo seen-$((40 + 2)); false");
    session.run("sleep 600 &");
    session.run(" echo hidden-line");
    let mut agent = Agent::connected(at(&home), &[]);
    assert_eq!(agent.tools()[6..], ["last_output", "jobs"]);
    let last = agent.call("last_output", json!({}))["structuredContent"]["sessions"][0]["last_output"].clone();
    assert_eq!((&last["line"], &last["status"]), (&json!("sleep 600 &"), &json!(0)), "{last}");
    let jobs = agent.call("jobs", json!({}))["structuredContent"]["sessions"][0]["jobs"].clone();
    assert_eq!((&jobs[0]["command"], &jobs[0]["state"]), (&json!("sleep 600"), &json!("running")), "{jobs}");
    session.run("kill %1; wait; echo seen-$((40 + 2)); (exit 3)");
    let last = agent.call("last_output", json!({}))["structuredContent"]["sessions"][0]["last_output"].clone();
    assert!(last["status"] == 3 && last["output"].as_str().is_some_and(|text| text.contains("seen-42")), "{last}");
    assert_eq!(agent.end(), Some(0));
    std::fs::write(at(&home).join(".config/reedclaw/config.lua"), "return {}").expect("a config");
    let mut agent = Agent::connected(at(&home), &[]);
    assert_eq!(agent.tools().len(), 6);
    let refused = agent.request("tools/call", json!({"name": "last_output", "arguments": {}}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn the_policy_the_list_of_tools_and_the_emergency_stop_hold_for_other_agents() {
    let home = home(&[], "tools_allow = { serve = { \"file_read\", \"shell\" } }");
    std::fs::write(at(&home).join("work/a.txt"), "one\n").expect("a file");
    let mut agent = Agent::connected(at(&home), &["--offer", "tools"]);
    let tools = agent.tools();
    assert_eq!(tools[6..], ["file_read", "shell"], "{tools:?}");
    let blocked = agent.call("shell", json!({"command": "rm -rf --no-preserve-root /"}));
    assert!(blocked["isError"] == true && text(&blocked).starts_with("denied"), "{blocked}");
    assert_eq!(run(at(&home), &["estop"]).0, Some(0));
    let stopped = agent.call("file_read", json!({"path": "a.txt"}));
    assert!(stopped["isError"] == true && !text(&stopped).contains("one\n"), "{stopped}");
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn our_own_client_is_served_in_both_eras() {
    for era in ["2025-11-25", "2026-07-28"] {
        let more = format!("era = \"{era}\", sandbox = \"off\"");
        let words = [program().display().to_string(), "mcp".into(), "serve".into()];
        let home = home(&[], &one_program(&words, &more));
        let (code, out, err) = run(at(&home), &["mcp", "test", "one"]);
        assert_eq!(code, Some(3), "its tools are new: {out}{err}");
        assert!(out.contains(era) && out.contains("6 tools") && out.contains("reedclaw"), "{out}{err}");
    }
}

#[test]
fn the_python_library_is_served() {
    let Some(clients) = need::acp_clients() else { return };
    let home = home(&[], "");
    std::fs::write(at(&home).join("work/a.txt"), "one\n").expect("a file");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/sdk.py");
    let mut command = Command::new(clients.join("python/bin/python"));
    command.arg(script).arg(program()).arg(at(&home).join("work"));
    command.env_clear().env("PATH", TEST_PATH).env("HOME", at(&home)).env("LANG", "C.UTF-8");
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let seen: Value = serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("no JSON: {out}{err}"));
    let expected = json!({"server": "reedclaw", "observed": "blocked", "read": true, "unknown": true});
    assert_eq!(seen, expected, "{err}");
}
