//! What surrounds the agent: calls that are kept with the conversation, the chat, what is allowed for good, the log, and
//! what a session says that follows one that was killed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};

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
        calling("clock", "time", &json!({"zone": "UTC"}), "it is late"),
        calling("passwd", "file_read", &json!({"path": "/etc/passwd"}), "I may not"),
    ]);
    assert_eq!(run(home.path(), &["agent", "-m", "what does the clock say?"]).0, Some(0));
    assert_eq!(run(home.path(), &["agent", "--conversation", "last", "-m", "read passwd"]).0, Some(0));
    let (code, shown, _) = run(home.path(), &["memory", "show", "1"]);
    assert_eq!(code, Some(0));
    let (asked, denied) = (shown.find("### Tool time, receipt-").expect(&shown), shown.find("(not done)"));
    assert!(shown[asked..].contains("{\"zone\":\"UTC\"}") && shown[asked..].contains("it is late"), "{shown}");
    assert!(denied.is_some_and(|at| at > asked) && shown.contains("### Tool file_read (not done)"), "{shown}");
    let (_, exported, _) = run(home.path(), &["memory", "export"]);
    let calls: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let calls: Vec<&Value> = calls.iter().filter(|object| object["type"] == "tool_call").collect();
    assert_eq!(calls.len(), 2, "{exported}");
    assert_eq!((&calls[0]["tool"], &calls[0]["success"]), (&json!("time"), &json!(true)));
    assert_eq!((&calls[0]["arguments"]["zone"], &calls[0]["message"]), (&json!("UTC"), &json!(2)));
    assert_eq!((&calls[1]["success"], &calls[1]["result"]["error"]["code"]), (&json!(false), &json!("denied")));
    let receipt = calls[1]["receipt"].as_str().expect("a receipt");
    assert_eq!(run(home.path(), &["receipt", "show", receipt]).0, Some(0));
    assert!(run(home.path(), &["doctor"]).1.contains("tool calls: 2"));
    assert_eq!(run(home.path(), &["memory", "clear", "--yes"]).0, Some(0));
    assert!(run(home.path(), &["doctor"]).1.contains("tool calls: 0"));
    let file = std::fs::read(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("the database");
    assert!(memchr::memmem::find(&file, receipt.as_bytes()).is_none(), "it is gone from the free space too");
}

/// What the file of rules of a project would hold; its name is the hash of its root.
fn allowed(home: &Path, project: &Path, commands: &[(&str, &str)]) {
    let root = project.canonicalize().expect("a project");
    let hash = ring::digest::digest(&ring::digest::SHA256, root.as_os_str().as_encoded_bytes());
    let name: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = home.join(".local/state/reedclaw/allowed");
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = Path::new("/bin/true").canonicalize().expect("a program");
    let rule =
        |(command, cwd): &(&str, &str)| json!({"command": command, "cwd": cwd, "program": program, "sha256": "00"});
    let rules: Vec<Value> = commands.iter().map(rule).collect();
    let text = json!({"root": root, "rules": rules}).to_string();
    std::fs::write(folder.join(format!("{name}.json")), text).expect("rules");
}

#[test]
fn what_is_allowed_for_good_is_listed_taken_back_and_passed_on() {
    let home = home(&[]);
    let project = home.path().join("project");
    std::fs::create_dir_all(project.join(".git")).expect("a project");
    allowed(home.path(), &project, &[("true one", ""), ("true \u{1b}[2J", "sub")]);
    let allow = |args: &[&str]| {
        let args: Vec<&str> = ["allow"].iter().chain(args).copied().collect();
        seen(&command(home.path(), &args).current_dir(&project).output().expect("it runs"))
    };
    let (code, listed, _) = allow(&["list"]);
    assert_eq!(code, Some(0));
    assert!(listed.contains("1  true one") && listed.contains("in sub") && !listed.contains('\u{1b}'), "{listed}");
    let (code, told, err) = allow(&["export", "list.json"]);
    assert_eq!((code, told.as_str(), err.as_str()), (Some(0), "2 commands in list.json\n", ""));
    let text = std::fs::read_to_string(project.join("list.json")).expect("a list");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let wanted = json!({"allowedCommands": ["true one", {"command": "true \u{1b}[2J", "cwd": "sub"}]});
    assert_eq!(value, wanted);
    assert_eq!(allow(&["export", "list.json"]).0, Some(1), "a file that is there stays");
    assert_eq!(allow(&["remove", "1"]).1, "1 command taken back\n");
    assert_eq!(allow(&["remove", "7"]).0, Some(1));
    assert!(!allow(&["list"]).1.contains("true one"));
    let elsewhere = home.path().join("reedclaw-workspace");
    let (code, out, err) = allow(&["list", "--workspace", elsewhere.to_str().expect("text")]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(err.contains("nothing is allowed for good"), "{err}");
}

#[test]
fn a_list_adds_nothing_that_is_asked_about_each_time_nor_leaves_the_project() {
    let home = home(&[]);
    let list = json!({"allowedCommands": [
        "rm -rf /", "no-such-program-here", {"command": "ls", "cwd": "../.."}, {"command": "ls", "cwd": "/etc"},
    ]});
    std::fs::write(home.path().join("list.json"), list.to_string()).expect("a list");
    let (code, out, err) = run(home.path(), &["allow", "import", "list.json", "--yes"]);
    assert_eq!((code, out.matches("refused: ").count(), err.as_str()), (Some(1), 4, ""), "{out}");
    assert!(out.contains("nothing to add") && out.contains("its directory isn't in the project"), "{out}");
    assert_eq!(run(home.path(), &["allow", "list"]).1, "");
    std::fs::write(home.path().join("list.json"), "{\"allowedCommands\": [1]}").expect("no list");
    assert_eq!(run(home.path(), &["allow", "import", "list.json"]).0, Some(1));
}

#[test]
fn a_session_lists_its_tools_and_what_is_allowed() {
    let home = home(&[]);
    let project = home.path().join("project");
    std::fs::create_dir_all(project.join(".git")).expect("a project");
    allowed(home.path(), &project, &[("true one", ""), ("true two", "")]);
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&project).size(40, 120));
    session.expect_prompt();
    session.run(":tools");
    session.expect_text("file_write");
    session.expect_text("medium in the workspace");
    session.run(":allow");
    session.expect_text("true one");
    session.run(":allow remove 1");
    session.expect_text("taken back");
    session.run(":clear");
    session.run(":allowlist");
    session.expect_text("1  true two");
    session.line(":exit");
    session.expect_exit();
}
