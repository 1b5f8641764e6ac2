//! Functions around the agent: calls that are stored with the conversation, the chat, allowed commands, the log, and the report
//! of a session after one that was killed.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::{TestHome, command, run, seen};
use crate::pty::{Key, Session, Spawn, program};
use crate::server::{Server, end_with, head, piece, refusal};

/// A home with a model that plays a script, and a workspace with a file in it.
fn home(answers: &[Value]) -> TempDir {
    TestHome::new().plays("mine", answers, "").file("reedclaw-workspace/notes.txt", "remember the milk\n").done()
}

/// An answer that calls one tool and then continues with a text.
fn calling(when: &str, tool: &str, arguments: &Value, text: &str) -> Value {
    json!({"when": when, "rounds": [[{"tool_call": {"name": tool, "arguments": arguments}}], [{"text": text}]]})
}

#[test]
fn calls_are_stored_shown_exported_and_deleted_with_the_conversation() {
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
    let result = calls[1]["result"].to_string();
    assert!(calls[1]["success"] == false && result.contains("is in security.forbidden_paths"), "{result}");
    let receipt = calls[1]["receipt"].as_str().expect("a receipt");
    assert_eq!(run(home.path(), &["receipt", "show", receipt]).0, Some(0));
    assert!(run(home.path(), &["doctor"]).1.contains("tool calls: 2"));
    assert_eq!(run(home.path(), &["memory", "clear", "--yes"]).0, Some(0));
    assert!(run(home.path(), &["doctor"]).1.contains("tool calls: 0"));
    let file = std::fs::read(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("the database");
    assert!(memchr::memmem::find(&file, receipt.as_bytes()).is_none(), "it is gone from the free space too");
}

/// The content of a project's file of rules; its name is the hash of the project's root.
fn allowed(home: &Path, project: &Path, commands: &[(&str, &str)]) {
    let root = project.canonicalize().expect("a project");
    let name = reedclaw::base::hash::path_name(&root);
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
fn permanent_allowances_are_listed_revoked_and_exported() {
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
    assert_eq!(allow(&["remove", "1"]).1, "1 command revoked\n");
    assert_eq!(allow(&["remove", "7"]).0, Some(2));
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
    assert_eq!(run(home.path(), &["allow", "import", "list.json"]).0, Some(2));
}

#[test]
fn a_session_lists_its_tools_and_allowances() {
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
    session.expect_text("withdrawn");
    session.run(":clear");
    session.run(":allowlist");
    session.expect_text("1  true two");
    // The same with a slash, as other assistants write it; a list is exported and imported, with a question.
    session.run(":allow export list.json");
    session.expect_text("1 command in list.json");
    session.run("clear");
    session.run("/allowlist remove 1");
    session.expect_text("withdrawn");
    session.send(b":allow import list.json\r");
    session.expect_text("true two  by /");
    session.expect_text("allow it for good in this project?");
    session.expect_text("yes [y]  no [n, Enter]");
    session.send(b"\r");
    session.expect_prompt();
    session.run("clear");
    session.run("/allowlist");
    session.expect_text("nothing is allowed for good");
    session.send(b":allow import list.json\r");
    session.expect_text("yes [y]  no [n, Enter]");
    session.send(b"y");
    session.expect_prompt();
    session.run("clear");
    session.run("/allowlist");
    session.expect_text("1  true two");
    session.line(":exit");
    session.expect_exit();
}

fn log_events(home: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(home.join(".local/state/reedclaw/reedclaw.log")).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().expect("a name")).collect()
}

#[test]
fn the_log_has_events_and_no_text_of_a_person_or_model() {
    let home = home(&[
        calling("clock", "time", &json!({"zone": "UTC"}), "answer-words"),
        calling("write", "file_write", &json!({"path": "new-name.txt", "content": "file-content"}), "I may not"),
        calling("odd", "no_such_tool\n", &json!({"x": "argument-words"}), "no"),
        calling("named", "functions.readFile", &json!({"path": "new-name.txt"}), "no"),
    ]);
    let agent = |message: &str| {
        let mut agent = command(home.path(), &["agent", "-m", message]);
        agent.env("SERVICE_API_KEY", "sk-secret-value-1234567890").env("REEDCLAW_LOG_LEVEL", "debug");
        seen(&agent.output().expect("it runs"))
    };
    let (code, _, err) = agent("what does the clock say? sk-secret-value-1234567890 question-words");
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("reedclaw: info: tool_completed tool=\"time\""), "{err}");
    agent("write it");
    agent("odd one");
    agent("by another name: named");
    let events = log_events(home.path());
    let first: Vec<&str> = names(&events).into_iter().take(14).collect();
    assert_eq!(
        first,
        [
            "startup",
            "config_path",
            "workspace_path",
            "channel_started",
            "conversation_started",
            "provider_selected",
            "tool_requested",
            "tool_arguments",
            "tool_decided",
            "tool_completed",
            "receipt_written",
            "memory_persisted",
            "startup",
            "config_path",
        ]
    );
    let of = |name: &str| events.iter().find(|event| event["event"] == name).expect("it is there");
    assert_eq!(of("config_path")["path"], json!(home.path().join(".config/reedclaw/config.lua")));
    assert_eq!(of("workspace_path")["path"], json!(home.path().join("reedclaw-workspace").canonicalize().expect("it")));
    assert_eq!(
        (&of("provider_selected")["provider"], &of("memory_persisted")["durable"]),
        (&json!("mine"), &json!(true))
    );
    assert_eq!(of("tool_arguments")["bytes"], json!({"zone": 3}));
    let decided = |tool: &str| {
        let found = events.iter().find(|event| event["event"] == "tool_decided" && event["tool"] == tool);
        let found = found.unwrap_or_else(|| panic!("no decision on {tool}"));
        [&found["risk"], &found["decision"], &found["by"]].map(|field| field.as_str().expect("a word").to_owned())
    };
    assert_eq!(decided("time"), ["low", "run", "policy"]);
    assert_eq!(decided("file_write"), ["medium", "deny", "policy"]);
    assert_eq!((&of("tool_denied")["tool"], &of("tool_denied")["level"]), (&json!("file_write"), &json!("warn")));
    assert_eq!((&of("tool_failed")["tool"], &of("tool_failed")["code"]), (&json!("?"), &json!("no-such-tool")));
    let named = |event: &&Value| event["event"] == "tool_failed" && event["tool"] == "file_read";
    assert!(events.iter().any(|event| named(&event)), "a call by another name has its tool's: {events:?}");
    let whole = std::fs::read_to_string(home.path().join(".local/state/reedclaw/reedclaw.log")).expect("the log");
    let told =
        ["sk-secret", "question-words", "answer-words", "new-name", "file-content", "argument-words", "UTC", "no_such"];
    told.iter().for_each(|words| assert!(!whole.contains(words), "{words}: {whole}"));
}

#[test]
fn standard_error_has_the_log_as_it_was_asked_for() {
    let home = home(&[calling("write", "file_write", &json!({"path": "a", "content": "b"}), "I may not")]);
    let agent = |variables: &[(&str, &str)]| {
        let mut agent = command(home.path(), &["agent", "-m", "write it"]);
        agent.envs(variables.iter().copied());
        seen(&agent.output().expect("it runs")).2
    };
    let plain = agent(&[]);
    assert!(!plain.contains("reedclaw: ") && plain.contains("[tool] denied"), "{plain}");
    let json = agent(&[("REEDCLAW_LOG", "json")]);
    let lines: Vec<&str> = json.lines().filter(|line| line.starts_with('{')).collect();
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let denied = events.iter().find(|event| event["event"] == "tool_denied").expect("the denial");
    assert_eq!(denied["level"], json!("warn"));
    assert!(events.iter().any(|event| event["event"] == "startup"), "info is among it: {json}");
    assert!(events.iter().all(|event| event["level"] != "debug"), "{json}");
    let odd = agent(&[("REEDCLAW_LOG_LEVEL", "loud")]);
    assert!(odd.contains("the log level \"loud\" isn't one of error, warn, info, debug, off"), "{odd}");
    let before = log_events(home.path()).len();
    assert!(!agent(&[("REEDCLAW_LOG_LEVEL", "off")]).contains("reedclaw: "));
    assert_eq!(log_events(home.path()).len(), before);
}

#[test]
fn an_exit_status_means_the_same_in_every_subcommand() {
    let home = TempDir::new().expect("a home");
    let status = |args: &[&str]| seen(&command(home.path(), args).output().expect("it runs")).0;
    // A config that can't be read.
    for words in [
        &["agent", "-m", "x"][..],
        &["tool", "run", "time"],
        &["receipt", "list"],
        &["provider", "list"],
        &["config", "show"],
        &["cost"],
        &["memory", "list"],
        &["allow", "list"],
        &["steps"],
        &["card"],
        &["policy", "explain", "ls"],
        &["doctor"],
    ] {
        assert_eq!(status(&[&["--config", "/none.lua"], words].concat()), Some(2), "{words:?}");
    }
    // A name or an option that doesn't exist.
    for words in [
        &["receipt", "show", "zz"][..],
        &["provider", "test", "zz"],
        &["memory", "show", "99"],
        &["agent", "-m", "x", "--conversation", "99"],
        &["tool", "run", "time", "--workspace", "/nonexistent"],
        &["tool", "run"],
        &["cost", "--nonsense"],
    ] {
        assert_eq!(status(words), Some(2), "{words:?}");
    }
    // The answer is negative.
    for words in [&["memory", "search", "nosuchword"][..], &["tool", "run", "nosuchtool"]] {
        assert_eq!(status(words), Some(1), "{words:?}");
    }
    assert_eq!(status(&["agent", "-m", "x"]), Some(4), "no model is set up");
}

#[test]
fn each_request_to_a_server_is_logged_with_its_tokens_status_and_time() {
    let server = Server::start();
    server.reply(vec![head(), piece("ok"), end_with([30, 0, 5, 0])]);
    server.reply(refusal("404 Not Found", "no such model here"));
    let home = TempDir::new().expect("a home");
    let folder = home.path().join(".config/reedclaw");
    std::fs::create_dir_all(&folder).expect("a folder");
    let config = format!("return {{models = {{mine = {{endpoint = '{}', model = 'tiny-1'}}}}}}", server.endpoint());
    std::fs::write(folder.join("config.lua"), config).expect("a config");
    for _ in 0..2 {
        seen(&command(home.path(), &["agent", "-m", "question-words"]).output().expect("it runs"));
    }
    let events = log_events(home.path());
    let requests: Vec<&Value> = events.iter().filter(|event| event["event"] == "model_request").collect();
    assert_eq!(requests.len(), 2, "{events:?}");
    let [answered, refused] = [requests[0], requests[1]];
    let of = |event: &Value, names: [&str; 4]| names.map(|name| event[name].clone());
    assert_eq!(
        of(answered, ["model", "served_as", "status", "tokens_in"]),
        [json!("mine"), json!("tiny-1"), json!(200), json!(30)]
    );
    assert!(answered["tokens_out"] == 5 && answered["ms"].is_u64(), "{answered}");
    assert_ne!(answered["request"], refused["request"]);
    assert_eq!(
        of(refused, ["level", "kind", "status", "message"]),
        [json!("warn"), json!("NotFound"), json!(404), json!("not found (HTTP 404): no such model here")]
    );
    let failed = events.iter().find(|event| event["event"] == "answer_failed").expect("the failure");
    assert!(failed["message"].as_str().is_some_and(|text| text.contains("not found (HTTP 404)")), "{failed}");
    let whole = std::fs::read_to_string(home.path().join(".local/state/reedclaw/reedclaw.log")).expect("the log");
    assert!(!whole.contains("question-words"), "{whole}");
}

#[test]
fn a_provider_that_fails_and_the_one_that_answers_in_its_place_are_logged() {
    let home = home(&[json!({"steps": [{"text": "from the second"}]})]);
    let bad = home.path().join("bad.jsonl");
    std::fs::write(&bad, "{\"steps\": [{\"error\": {\"status\": 503, \"message\": \"server-words\"}}]}")
        .expect("a script");
    let script = home.path().join("answers.jsonl");
    let config = format!(
        "return {{default_model = \"both\", models = {{bad = {{kind = \"mock\", script = \"{}\"}}, mine = {{kind = \
         \"mock\", script = \"{}\"}}, both = {{kind = \"reliable\", of = {{\"bad\", \"mine\"}}}}}}}}\n",
        bad.display(),
        script.display()
    );
    std::fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    assert_eq!(run(home.path(), &["agent", "-m", "hi"]).1, "from the second\n");
    let events = log_events(home.path());
    let failed = events.iter().find(|event| event["event"] == "provider_failed").expect("it is there");
    assert_eq!((&failed["provider"], &failed["level"]), (&json!("bad"), &json!("warn")));
    assert!(!failed.to_string().contains("server-words"));
}

#[test]
fn a_session_draws_undisturbed_by_the_log_and_bash_logs_nothing() {
    let home = home(&[]);
    let done = command(home.path(), &["-c", "true"]).output().expect("it runs");
    assert!(done.status.success() && !home.path().join(".local").exists());
    let spawn = Spawn::reedclaw().home(home.path()).env("REEDCLAW_LOG_LEVEL", "debug").env("REEDCLAW_LOG", "json");
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session.run(":estop");
    session.expect_text("emergency stop");
    session.line(":exit");
    let (_, raw) = session.expect_end();
    assert!(memchr::memmem::find(&raw, b"channel_started").is_none());
    let events = log_events(home.path());
    let names = names(&events);
    assert!(["startup", "channel_started", "estop_triggered"].iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn an_interrupted_call_is_reported_once_and_listed_by_doctor() {
    let home = home(&[calling("ask", "ask_user", &json!({"question": "which port?"}), "good")]);
    let chat = Session::spawn(Spawn::new(program()).arg("agent").home(home.path()).size(24, 110));
    chat.expect_text("a chat with the model");
    chat.line("ask me");
    chat.expect_text("your answer: ");
    // Its intent is in the receipts, and there will be no outcome.
    chat.kill(Signal::SIGKILL);
    chat.expect_exit();
    let text = std::fs::read_to_string(home.path().join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let intent = records.iter().find(|record| record["kind"] == "intent").expect("an intent");
    let id = intent["id"].as_str().expect("an id");
    let start = || Session::spawn(Spawn::reedclaw().home(home.path()).size(24, 160));
    let session = start();
    session.expect_text("unknown outcome: ask_user at ");
    session.expect_text(id);
    session.expect_text("it may have run or not");
    session.run("echo on with it");
    session.line("exit");
    session.expect_exit();
    let session = start();
    session.run("echo next");
    session.run("echo after");
    assert!(!session.screen_text().contains("unknown outcome"), "{}", session.screen_text());
    session.line("exit");
    session.expect_exit();
    let (_, told, _) = run(home.path(), &["doctor"]);
    assert!(told.contains("unknown outcome: ask_user at ") && told.contains(id), "{told}");
    assert!(log_events(home.path()).iter().any(|event| event["event"] == "outcome_unknown"));
    // The question is stored, and the conversation continues.
    assert!(run(home.path(), &["memory", "show", "1"]).1.contains("> ask me"));
}

#[test]
fn a_chat_at_a_terminal_answers_and_has_its_commands() {
    let home = home(&[
        calling("clock", "time", &json!({"zone": "UTC"}), "it is **late**"),
        json!({"when": "adapter", "steps": [{"text": "Aardvark adapters are fine"}]}),
    ]);
    let session = Session::spawn(Spawn::new(program()).arg("agent").home(home.path()).size(80, 110));
    session.expect_text("a chat with the model; /help lists its commands");
    let at_prompt = || {
        session.expect("the prompt", |screen| crate::pty::cursor_line(screen).trim_end() == ">");
    };
    at_prompt();
    session.line("what does the clock say?");
    session.expect_text("it is late");
    at_prompt();
    session.line("/etc/passwd and an adapter?");
    session.expect_text("Aardvark adapters are fine");
    at_prompt();
    session.line("/allowlist");
    session.expect_text("nothing is allowed for good here");
    at_prompt();
    session.line("/memory aardvark");
    session.expect_text("     1  2");
    at_prompt();
    session.line("/tools");
    session.expect_text("medium in the workspace");
    at_prompt();
    session.line("/policy");
    for name in ["forbidden commands", "file tools: refused; commands: asked about", "high risk", "sandbox  "] {
        session.expect_text(name);
    }
    at_prompt();
    session.line("/policy explain rm -rf /");
    session.expect_text("what it would do:");
    at_prompt();
    session.line(":model");
    session.expect_text("* mine");
    at_prompt();
    session.line("/model other");
    session.expect_text("no model is called other");
    at_prompt();
    session.line("/nope");
    session.expect_text("/nope is no command of the chat");
    at_prompt();
    session.line("/clear");
    session.expect("an empty screen", |screen| !screen.contents().contains("no command of the chat"));
    at_prompt();
    session.line("/new");
    session.expect_text("a new conversation begins");
    at_prompt();
    session.line("one more about the clock");
    session.expect_text("it is late");
    at_prompt();
    session.line("/help");
    session.expect_text("ends the chat, as Ctrl-D does");
    at_prompt();
    session.line("/exit");
    assert!(session.expect_exit().success());
    let (_, listed, _) = run(home.path(), &["memory", "list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(run(home.path(), &["memory", "show", "1"]).1.contains("### Tool time"));
}

#[test]
fn a_chat_asks_before_it_writes_and_ctrl_c_stops_one_answer_only() {
    let home = home(&[
        calling("write", "file_write", &json!({"path": "new.txt", "content": "new content\n"}), "it is written"),
        json!({"when": "slow", "steps": [{"text": "begun\n\n"}, {"delay_ms": 60_000}, {"text": "never"}]}),
    ]);
    let session = Session::spawn(Spawn::new(program()).arg("agent").home(home.path()).size(40, 110));
    session.expect_text("a chat with the model");
    session.line("write it");
    session.expect_text("accept [y]");
    session.send(b"y");
    session.expect_text("it is written");
    let written = std::fs::read_to_string(home.path().join("reedclaw-workspace/new.txt")).expect("a file");
    assert_eq!(written, "new content\n");
    session.line("slow one");
    session.expect_text("begun");
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    session.line("slow once more");
    session.expect("it is asked again", |screen| screen.contents().matches("begun").count() == 2);
    session.press(Key::Ctrl('c'));
    session.expect("stopped again, and the prompt", |screen| {
        let line = crate::pty::cursor_line(screen);
        screen.contents().matches("Stopped.").count() == 2 && line.trim_end() == ">"
    });
    session.press(Key::Ctrl('d'));
    assert!(session.expect_exit().success());
}

#[test]
fn without_a_terminal_there_is_no_chat() {
    let home = home(&[]);
    let (code, out, err) = run(home.path(), &["agent"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("there is no terminal to chat at") && err.contains("--message"), "{err}");
    assert_eq!(run(home.path(), &["agent", "--json"]).0, Some(2));
}

#[test]
fn an_allow_list_is_imported_for_installed_programs_after_a_yes() {
    let home = home(&[]);
    let project = home.path().join("project");
    std::fs::create_dir_all(project.join(".git")).expect("a project");
    let list = json!({"allowedCommands": ["mkdir new", "rm -rf /"]});
    std::fs::write(project.join("list.json"), list.to_string()).expect("a list");
    let allow = |args: &[&str]| {
        let args: Vec<&str> = ["allow"].iter().chain(args).copied().collect();
        seen(&command(home.path(), &args).current_dir(&project).output().expect("it runs"))
    };
    let (code, out, err) = allow(&["import", "list.json"]);
    assert_eq!(code, Some(3), "nobody could be asked");
    assert!(out.contains("mkdir new  by /") && out.contains("refused: rm -rf /"), "{out}");
    assert!(err.contains("this would allow 1 command"), "{err}");
    assert_eq!(allow(&["list"]).1, "");
    let import = Spawn::new(program()).args(&["allow", "import", "list.json"]).home(home.path()).cwd(&project);
    let session = Session::spawn(import.size(24, 120));
    session.expect_text("[y/N]");
    session.line("y");
    session.expect_text("allowed: 1 command for good");
    session.expect_exit();
    assert!(allow(&["list"]).1.starts_with("1  mkdir new"));
}

#[test]
fn doctor_reports_problems_with_a_hint() {
    use std::os::unix::fs::PermissionsExt;
    let home = home(&[]);
    let state = home.path().join(".local/state/reedclaw");
    std::fs::create_dir_all(&state).expect("a folder");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    let (code, told, _) = run(home.path(), &["doctor"]);
    assert_eq!(code, Some(0), "{told}");
    for line in ["config: ~/.config/reedclaw/config.lua", "model: mine, mock", "workspace here: ~/reedclaw-workspace"] {
        assert!(told.lines().any(|it| it == line), "{told}");
    }
    // A port that was free a moment ago, so nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let config = format!(
        "return {{ nonsense = 1, shell = {{ program = \"/nowhere/bash\" }},
        models = {{ near = {{ endpoint = \"http://127.0.0.1:{port}\" }},
                    far = {{ endpoint = \"https://models.example\", key_env = \"NO_SUCH_KEY\" }} }} }}"
    );
    std::fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let (code, told, _) = run(home.path(), &["doctor"]);
    assert_eq!(code, Some(1), "{told}");
    for part in [
        "wrong: config: ~/.config/reedclaw/config.lua has 2 problems; reedclaw config validate lists them",
        "wrong: shell: /nowhere/bash can't be run",
        "wrong: model: far takes its key from $NO_SUCH_KEY, which is not set",
        &format!("wrong: model: near at 127.0.0.1:{port} (this machine): "),
        "wrong: state: others may write in ~/.local/state/reedclaw; chmod 700",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert!(!told.contains("nothing is wrong"), "{told}");
}

/// Once, `doctor` reported that nothing was wrong, although nothing could be saved.
#[test]
fn doctor_says_that_nothing_can_be_saved_in_a_home_without_permission() {
    if !crate::need::require(&["setpriv"]) || !crate::need::require_root() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::Builder::new().prefix("rc-closed-").tempdir().expect("a folder");
    let shell = home.path().join("reedclaw");
    crate::pty::copy_program(&crate::pty::program(), &shell);
    for path in [home.path(), &shell] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555)).expect("a mode");
    }
    let output = Command::new("setpriv")
        .args(["--reuid=61234", "--regid=61234", "--clear-groups"])
        .arg(&shell)
        .arg("doctor")
        .env_clear()
        .env("PATH", crate::need::TEST_PATH)
        .env("HOME", home.path())
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    for line in [
        "wrong: data: ~/.local/share/reedclaw can't be made, because you can't write in ~/",
        "wrong: state: ~/.local/state/reedclaw can't be made, because you can't write in ~/",
    ] {
        assert!(told.lines().any(|it| it == line), "{told}");
    }
}

#[test]
fn eight_processes_that_allow_commands_at_once_lose_none() {
    let home = home(&[]);
    let project = home.path().join("project");
    std::fs::create_dir_all(project.join(".git")).expect("a project");
    let allow = |args: &[&str]| {
        let mut command = command(home.path(), &[&["allow"], args].concat());
        command.current_dir(&project).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let import = |number: usize| {
        let commands: Vec<String> = (0..25).map(|at| format!("mkdir new-{number}-{at}")).collect();
        let name = format!("list-{number}.json");
        std::fs::write(project.join(&name), json!({"allowedCommands": commands}).to_string()).expect("a list");
        allow(&["import", &name, "--yes"]).spawn().expect("it starts")
    };
    let children: Vec<_> = (0..8).map(import).collect();
    for child in children {
        let output = child.wait_with_output().expect("its end");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (_, listed, _) = seen(&allow(&["list"]).output().expect("it runs"));
    assert_eq!(listed.lines().count(), 200, "{listed}");
}

#[test]
fn a_closed_pipe_ends_a_command_quietly_and_a_full_disk_is_reported() {
    let home = home(&[]);
    for args in [&["doctor"][..], &["policy", "explain", "rm -rf /"], &["config", "show"], &["tool", "list"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (code, _, err) = seen(&command(home.path(), args).stdout(writer).output().expect("it runs"));
        assert!(
            code.is_some_and(|code| code < 2) && !err.contains("panicked") && !err.contains("print"),
            "{args:?} {err}"
        );
        let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let (code, _, err) = seen(&command(home.path(), args).stdout(full).output().expect("it runs"));
        assert_eq!(code, Some(1), "{args:?} {err}");
        assert!(err.contains("standard output can't be written: No space left"), "{args:?} {err}");
    }
    // The status of a command that answers by it is the same without a reader, and help has to arrive, too.
    std::fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    std::fs::write(home.path().join(".config/reedclaw/config.lua"), "return { nonsense = 1 }\n").expect("a config");
    for args in [&["config", "validate"][..], &["service", "status"], &["tool", "run", "nope"]] {
        let plain = command(home.path(), args).output().expect("it runs").status.code();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let other = writer.try_clone().expect("a pipe");
        let closed = command(home.path(), args).stdout(writer).stderr(other).output().expect("it runs").status.code();
        assert!(plain.is_some_and(|code| code > 0) && closed == plain, "{args:?}: {plain:?} {closed:?}");
    }
    let (_, of_memory, _) = run(home.path(), &["memory", "show", "--help"]);
    assert_eq!(run(home.path(), &["help", "memory", "show"]), (Some(0), of_memory, String::new()));
    let (code, _, err) = run(home.path(), &["help", "memory", "x"]);
    assert!(code == Some(2) && err.contains("memory has no command x"), "{code:?} {err}");
    let (code, _, err) = run(home.path(), &["estop", "clear"]);
    assert!(code == Some(2) && err.contains("write --clear"), "{code:?} {err}");
    for args in [&["--help"][..], &["help"], &["--version"], &["sop", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let (code, _, err) = seen(&command(home.path(), args).stdout(full).output().expect("it runs"));
        assert!(code == Some(1) && err.contains("standard output can't be written"), "{args:?} {code:?} {err}");
    }
}
