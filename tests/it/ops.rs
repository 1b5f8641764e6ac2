//! What surrounds the agent: calls that are kept with the conversation, the chat, what is allowed for good, the log, and
//! what a session says that follows one that was killed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need::TEST_PATH;
use crate::pty::program;

/// A home with a model that plays a script, and a workspace with a file in it.
fn home(answers: &[Value]) -> TempDir {
    let home = TempDir::new().expect("a home");
    let config = home.path().join(".config/reedclaw");
    let workspace = home.path().join("reedclaw-workspace");
    for folder in [&config, &workspace] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
    std::fs::write(home.path().join("answers.jsonl"), lines.join("\n")).expect("a script");
    let script = home.path().join("answers.jsonl");
    let model = format!("return {{models = {{mine = {{kind = \"mock\", script = \"{}\"}}}}}}\n", script.display());
    std::fs::write(config.join("config.lua"), model).expect("a config");
    std::fs::write(workspace.join("notes.txt"), "remember the milk\n").expect("a file");
    home
}

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command.current_dir(home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn seen(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn run(home: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    seen(&command(home, args).output().expect("it runs"))
}

/// An answer that calls one tool and then says something.
fn calling(when: &str, tool: &str, arguments: &Value, text: &str) -> Value {
    json!({"when": when, "rounds": [[{"tool_call": {"name": tool, "arguments": arguments}}], [{"text": text}]]})
}

#[test]
fn calls_are_kept_shown_exported_and_deleted_with_the_conversation() {
    let home = home(&[
        calling("list", "file_list", &json!({"path": "."}), "there are notes"),
        calling("passwd", "file_read", &json!({"path": "/etc/passwd"}), "I may not"),
    ]);
    assert_eq!(run(home.path(), &["agent", "-m", "list it"]).0, Some(0));
    assert_eq!(run(home.path(), &["agent", "--conversation", "last", "-m", "read passwd"]).0, Some(0));
    let (code, shown, _) = run(home.path(), &["memory", "show", "1"]);
    assert_eq!(code, Some(0));
    let (listed, denied) = (shown.find("### Tool file_list, receipt-").expect(&shown), shown.find("(not done)"));
    assert!(shown[listed..].contains("{\"path\":\".\"}") && shown[listed..].contains("notes.txt"), "{shown}");
    assert!(shown[listed..].contains("there are notes") && denied.is_some_and(|at| at > listed), "{shown}");
    let (_, exported, _) = run(home.path(), &["memory", "export"]);
    let calls: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let calls: Vec<&Value> = calls.iter().filter(|object| object["type"] == "tool_call").collect();
    assert_eq!(calls.len(), 2, "{exported}");
    assert_eq!((&calls[0]["tool"], &calls[0]["success"]), (&json!("file_list"), &json!(true)));
    assert_eq!((&calls[0]["arguments"]["path"], &calls[0]["message"]), (&json!("."), &json!(2)));
    assert_eq!((&calls[1]["success"], &calls[1]["result"]["error"]["code"]), (&json!(false), &json!("denied")));
    let receipt = calls[1]["receipt"].as_str().expect("a receipt");
    assert_eq!(run(home.path(), &["receipt", "show", receipt]).0, Some(0));
    assert!(run(home.path(), &["doctor"]).1.contains("tool calls: 2"));
    assert_eq!(run(home.path(), &["memory", "clear", "--yes"]).0, Some(0));
    assert!(run(home.path(), &["doctor"]).1.contains("tool calls: 0"));
    let file = std::fs::read(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("the database");
    assert!(memchr::memmem::find(&file, receipt.as_bytes()).is_none(), "it is gone from the free space too");
}
