//! The loop of a model and its tools, from question to answer, in the built executable with a scripted model: the calls that run,
//! the questions, the refusals, and the records.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::{TestHome, run};
use crate::pty::{Key, Session, Spawn};
use crate::server::{Server, answer, refusal};

/// A home with a model that plays these answers, each `{"when": …, "rounds": …}`; `rest` are lines of the config.
fn home(answers: &[Value], rest: &str) -> TempDir {
    TestHome::for_commands().plays_alone(answers, rest).directory("reedclaw-workspace").done()
}

/// An answer that calls a tool and then has `text`.
fn calls(when: &str, tool: &str, arguments: Value, text: &str) -> Value {
    json!({"when": when, "rounds": [[{"tool_call": {"name": tool, "arguments": arguments}}], [{"text": text}]]})
}

/// The results that the model received, in order.
fn results(home: &Path, question: &str) -> Vec<Value> {
    let (code, out, err) = run(home, &["agent", "--json", "-m", question]);
    assert_eq!(code, Some(0), "{out}{err}");
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "tool_done").map(|line| line["result"].clone()).collect()
}

fn receipts(home: &Path) -> Vec<Value> {
    let text = fs::read_to_string(home.join(".local/state/reedclaw/receipts.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The events, as `kind status tool`.
fn told(home: &Path) -> Vec<String> {
    let word = |receipt: &Value, name: &str| receipt[name].as_str().unwrap_or_default().to_owned();
    receipts(home)
        .iter()
        .map(|it| format!("{} {} {}", word(it, "kind"), word(it, "status"), word(it, "tool")))
        .collect()
}

#[test]
fn a_tool_runs_in_the_workspace_and_leaves_a_receipt() {
    let home = home(&[calls("look", "file_list", json!({"path": "."}), "there")], "");
    fs::write(home.path().join("reedclaw-workspace/here.txt"), "x").expect("a file");
    let results = results(home.path(), "look around");
    assert!(results[0]["output"].as_str().expect("a list").contains("here.txt"), "{results:?}");
    assert!(results[0]["receipt_id"].as_str().expect("a receipt").starts_with("receipt-"));
    assert_eq!(told(home.path()), ["intent allowed file_list", "outcome allowed file_list"]);
}

#[test]
fn forbidden_calls_are_denied_and_the_model_learns_why() {
    let answers = [
        calls("passwd", "file_read", json!({"path": "/etc/passwd"}), "no"),
        calls("clean", "shell", json!({"command": "rm -rf /"}), "no"),
        calls("own", "file_write", json!({"path": "~/.config/reedclaw/config.lua", "content": "x"}), "no"),
    ];
    let home = home(&answers, "security = {autonomy = \"full\"}");
    for question in ["read passwd", "clean up", "own it"] {
        let results = results(home.path(), question);
        assert_eq!(results[0]["error"]["code"], "denied", "{results:?}");
        assert_eq!(results[0]["metadata"]["risk"], "blocked", "{results:?}");
    }
    assert_eq!(told(home.path()), ["denied denied file_read", "denied denied shell", "denied denied file_write"]);
}

#[test]
fn three_receipts_and_the_second_edited_by_hand() {
    let home = home(&[calls("passwd", "file_read", json!({"path": "/etc/passwd"}), "no")], "");
    (0..3).for_each(|_| drop(results(home.path(), "read passwd")));
    let (code, out, _) = run(home.path(), &["receipt", "verify"]);
    assert_eq!(code, Some(0), "{out}");
    let path = home.path().join(".local/state/reedclaw/receipts.jsonl");
    let text = fs::read_to_string(&path).expect("the log");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] = lines[1].replace("file_read", "file_list");
    fs::write(&path, lines.join("\n") + "\n").expect("an edit");
    let (code, out, err) = run(home.path(), &["receipt", "verify"]);
    assert!(code == Some(1) && format!("{out}{err}").contains("receipt 2"), "{code:?} {out}{err}");
}

#[test]
fn a_command_runs_sandboxed_keeps_its_state_and_cannot_reach_our_files() {
    let steps = |command: &str| json!([{"tool_call": {"name": "shell", "arguments": {"command": command}}}]);
    let home = home(
        &[json!({"when": "work", "rounds": [
            steps("mkdir -p sub && cd sub && kept=yes && pwd"),
            steps("echo \"$kept\"; pwd; echo oops >&2"),
            steps("cat ~/.config/reedclaw/config.lua"),
            [{"text": "done"}],
        ]})],
        "security = {autonomy = \"full\", workspace_only = false}",
    );
    let results = results(home.path(), "work");
    let output = |at: usize| results[at]["output"].as_str().unwrap_or_default().to_owned();
    assert!(output(0).ends_with("/reedclaw-workspace/sub\n[kept: + sub]"), "{results:?}");
    assert!(output(1).starts_with("yes\n") && output(1).ends_with("[stderr]\noops"), "{results:?}");
    assert!(!output(2).contains("mock") && results[2]["success"] == false, "{results:?}");
    let sandbox = receipts(home.path()).iter().find_map(|it| it["sandbox"].as_str().map(str::to_owned));
    assert!(sandbox.is_some_and(|name| name != "none"), "what a model runs is held by a sandbox here");
}

/// The home's shell in a terminal, in the workspace, which is a project of its own.
fn session(home: &Path) -> Session {
    fs::create_dir_all(home.join("reedclaw-workspace/.git")).expect("a repository");
    let spawn = Spawn::reedclaw().home(home).cwd(&home.join("reedclaw-workspace")).size(50, 120);
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session
}

const KEYS: &str = "run once [y]";
const CHANGE_KEYS: &str = "accept [y]";

#[test]
fn a_write_is_shown_as_a_difference_and_asked_about() {
    let home = home(&[calls("write", "file_write", json!({"path": "a.txt", "content": "one\ntwo\n"}), "written?")], "");
    let file = home.path().join("reedclaw-workspace/a.txt");
    fs::write(&file, "one\n").expect("a file");
    let session = session(home.path());
    session.send(b"?please write it\r");
    session.expect_text("2 + two");
    session.expect_text(CHANGE_KEYS);
    session.send(b"\r");
    session.expect_text("written?");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "one\n", "Enter is no");
    session.expect_prompt();
    session.run("clear");
    session.send(b"?please write it\r");
    session.expect_text(CHANGE_KEYS);
    session.send(b"y");
    session.expect_text("written?");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "one\ntwo\n");
    assert_eq!(
        told(home.path()),
        ["denied denied file_write", "intent allowed file_write", "outcome allowed file_write"]
    );
    let approver = |at: usize| receipts(home.path())[at]["approver"].clone();
    assert_eq!((approver(0), approver(1)), (json!("person"), json!("person")));
}

#[test]
fn a_file_that_changed_after_the_question_is_not_overwritten() {
    let home = home(&[calls("write", "file_write", json!({"path": "a.txt", "content": "new\n"}), "over")], "");
    let file = home.path().join("reedclaw-workspace/a.txt");
    fs::write(&file, "old\n").expect("a file");
    let session = session(home.path());
    session.send(b"?please write it\r");
    session.expect_text(CHANGE_KEYS);
    fs::write(&file, "somebody else's\n").expect("another writer");
    session.send(b"y");
    session.expect_text("has changed meanwhile");
    session.expect_text("over");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "somebody else's\n");
}

#[test]
fn keys_from_before_the_question_do_not_answer_it() {
    let rounds = json!([[{"delay_ms": 400}, {"tool_call": {"name": "file_write", "arguments":
        {"path": "a.txt", "content": "x"}}}], [{"text": "over"}]]);
    let home = home(&[json!({"when": "write", "rounds": rounds})], "");
    let session = session(home.path());
    session.send(b"?please write it\ryyy");
    session.expect_text(CHANGE_KEYS);
    // A burst and a paste don't count as single keys either; Ctrl-C counts among other keys, too.
    session.send(b"yy");
    session.send(b"\x1b[200~y\x1b[201~");
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    assert!(!home.path().join("reedclaw-workspace/a.txt").exists());
}

#[test]
fn a_command_can_be_changed_refused_with_words_or_run_in_the_persons_shell() {
    let home = home(
        &[
            calls("build", "shell", json!({"command": "make-something --odd >out"}), "built"),
            calls("move", "shell", json!({"command": "mkdir here && cd here && export MOVED=1"}), "moved"),
        ],
        "security = {tier = \"landlock\"}",
    );
    let session = session(home.path());
    session.send(b"?build it\r");
    session.expect_text(KEYS);
    session.send(b"e");
    session.expect_text("run instead:");
    session.press(Key::Ctrl('u'));
    session.send(b"echo changed-$((1+1)) > out.txt\r");
    session.expect("the question about the new command", |screen| {
        let text = screen.contents();
        text.contains("echo changed-") && text.contains(KEYS)
    });
    session.send(b"y");
    session.expect_text("built");
    assert_eq!(fs::read_to_string(home.path().join("reedclaw-workspace/out.txt")).expect("the file"), "changed-2\n");
    session.expect_prompt();
    session.run("clear");

    session.send(b"?build it\r");
    session.expect_text(KEYS);
    session.send(b"w");
    session.expect_text("tell the model:");
    session.send(b"use cargo\r");
    session.expect_text("the user said no: use cargo");
    session.expect_text("built");
    session.run("clear");

    session.send(b"?move it\r");
    session.expect_text("in my shell [s]");
    session.send(b"s");
    session.expect_text("moved");
    session.run("echo at-${PWD##*/}-$MOVED");
    session.expect_line("at-here-1");
}

#[test]
fn ctrl_c_and_the_emergency_stop_end_a_running_command() {
    let home = home(
        &[
            calls("wait", "shell", json!({"command": "echo $$ > pid; sleep 1000"}), "waited"),
            calls("time", "time", json!({}), "what a time"),
        ],
        "security = {autonomy = \"full\", tier = \"landlock\"}",
    );
    let pid = home.path().join("reedclaw-workspace/pid");
    let session = session(home.path());
    session.send(b"?wait for it\r");
    let started = || fs::read_to_string(&pid).ok().filter(|text| text.ends_with('\n'));
    session.expect_outside("the command runs", started);
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    session.expect_prompt();
    assert!(told(home.path()).contains(&"outcome failed shell".to_owned()), "{:?}", told(home.path()));

    fs::remove_file(&pid).expect("the file");
    session.run("clear");
    session.send(b"?wait for it\r");
    session.expect_outside("the command runs", started);
    assert_eq!(run(home.path(), &["estop"]).0, Some(0));
    // The model may still answer afterwards.
    session.expect_text("waited");
    session.expect_prompt();
    session.send(b"?what time is it\r");
    session.expect_text("emergency stop");
    session.expect_text("what a time");
    assert_eq!(told(home.path()).last().map(String::as_str), Some("denied denied time"));
}

#[test]
fn a_call_that_no_tool_takes_leaves_a_receipt_too() {
    let answers = [
        calls("odd", "no_such", json!({"x": 1}), "no"),
        calls("less", "file_read", json!({}), "no"),
        calls("inside", "http", json!({"url": "http://169.254.169.254/latest"}), "no"),
    ];
    let home = home(&answers, "");
    for (question, tool, code) in
        [("odd", "no_such", "no-such-tool"), ("less", "file_read", "bad-arguments"), ("inside", "http", "refused")]
    {
        let result = results(home.path(), question)[0].clone();
        assert_eq!(result["error"]["code"], code, "{result}");
        let receipt = receipts(home.path()).pop().expect("a receipt");
        assert_eq!((&receipt["tool"], &receipt["rule"]), (&json!(tool), &json!(code)));
        assert_eq!((&receipt["status"], &receipt["risk"]), (&json!("denied"), &Value::Null));
        assert_eq!(receipt["id"], result["receipt_id"]);
    }
    let (code, out, _) = run(home.path(), &["receipt", "verify"]);
    assert_eq!(code, Some(0), "{out}");
}

/// The command of a question was shown three times, and a call that can't be planned wasn't shown at all.
#[test]
fn a_command_is_shown_once_and_a_call_that_cannot_be_planned_too() {
    let home = home(
        &[
            calls("build", "shell", json!({"command": "make-something --odd >out"}), "built"),
            calls("inside", "http", json!({"url": "http://169.254.169.254/latest"}), "no"),
        ],
        "security = {tier = \"landlock\"}",
    );
    let session = session(home.path());
    session.send(b"?build it\r");
    session.expect_text(KEYS);
    session.send(b"n");
    session.expect_text("denied: the user said no");
    session.expect_text("built");
    session.expect_prompt();
    let text = session.screen_text();
    assert_eq!(text.matches("│ make-something --odd").count(), 1, "{text}");
    assert!(!text.contains("Command requested"), "{text}");
    session.send(b"?look inside\r");
    session.expect_text("Calling http with {\"url\":\"http://169.254.169.254/latest\"}");
    session.expect_text("failed: ");
    session.expect_prompt();
    // While the emergency stop is on, no question is asked about a command: its line is all that the person sees.
    assert_eq!(run(home.path(), &["estop"]).0, Some(0));
    session.run("clear");
    session.send(b"?build it\r");
    session.expect_text("Command requested: `make-something --odd >out`");
    session.expect_text("denied: ");
}

/// Processes that have this word as an argument.
pub fn followers(word: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let has_word = |line: Vec<u8>| line.split(|byte| *byte == 0).skip(1).any(|it| it == word.as_bytes());
    entries.filter(|it| fs::read(it.path().join("cmdline")).is_ok_and(has_word)).count()
}

#[test]
fn jobs_after_an_answer_end_with_the_emergency_stop() {
    let file = format!("followed-{}", std::process::id());
    let home = home(
        &[
            calls(
                "leave",
                "shell",
                json!({"command": format!("touch {file}; tail -f {file}"), "background": true}),
                "left one",
            ),
            calls("follow", "shell", json!({"command": format!("tail -f {file}"), "timeout_ms": 300}), "left two"),
        ],
        "security = {autonomy = \"full\", tier = \"landlock\"}",
    );
    let session = session(home.path());
    session.send(b"?leave something behind\r");
    session.expect_text("left one");
    session.expect_prompt();
    session.send(b"?follow it\r");
    session.expect_text("  still running after 0 s; it continues as job 2");
    session.expect_text("left two");
    session.expect_prompt();
    assert_eq!(followers(&file), 2);
    assert_eq!(run(home.path(), &["estop"]).0, Some(0));
    session.expect_outside("both end", || (followers(&file) == 0).then_some(()));
}

/// The question was like that of any command, its start was an error, and only the emergency stop ended it.
#[test]
fn a_job_is_asked_about_as_one_and_its_person_lists_and_ends_it() {
    let command = json!({"command": "read -r line <go; echo \"$line\" >out", "background": true});
    let home = home(&[calls("leave", "shell", command, "left one")], "");
    let session = session(home.path());
    let go = home.path().join("reedclaw-workspace/go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    session.send(b"?leave something behind\r");
    session.expect_text("it runs in the background until ReedClaw exits, on the workspace itself");
    session.expect_text(KEYS);
    session.send(b"y");
    session.expect_text("left one");
    session.expect_prompt();
    session.run("clear");
    session.run(":jobs");
    session.expect_text("1  running  read -r line <go");
    session.run(":jobs kill 2");
    session.expect_text("there is no job 2");
    session.run(":jobs kill 1");
    session.expect_text("Job 1 was ended.");
    session.run("clear");
    session.run(":jobs");
    session.expect_text("No command of the model runs in the background.");
    assert!(!session.screen_text().contains("running"), "{}", session.screen_text());
}

#[test]
fn no_question_is_asked_about_a_halted_call() {
    let home = home(&[calls("write", "file_write", json!({"path": "a", "content": "b"}), "I can't")], "");
    assert_eq!(run(home.path(), &["estop"]).0, Some(0));
    let session = session(home.path());
    session.send(b"?write it\r");
    session.expect_text("denied: tools are stopped by the emergency stop");
    session.expect_text("I can't");
    session.expect_prompt();
    assert_eq!(told(home.path()), ["denied denied file_write"]);
    assert!(!session.screen_text().contains("wants to use"), "{}", session.screen_text());
}

#[test]
fn a_denial_names_its_rule() {
    let answers = [
        calls("write", "file_write", json!({"path": "a", "content": "b"}), "no"),
        calls("push", "shell", json!({"command": "git push"}), "no"),
    ];
    for (config, question, message, hint) in [
        ("readonly", "write it", "security.autonomy is \"readonly\" (medium: writes ", "the user's config"),
        ("supervised", "push it", "security.high is \"deny\" (it needs the network)", "the user's config"),
        ("supervised", "write it", "it needs the user's consent, and no one can be asked here", "no one is there"),
    ] {
        let home = home(&answers, &format!("security = {{autonomy = \"{config}\", high = \"deny\"}}"));
        let error = results(home.path(), question)[0]["error"].clone();
        assert!(error["message"].as_str().is_some_and(|it| it.starts_with(message)), "{error}");
        assert!(error["hint"].as_str().is_some_and(|it| it.starts_with(hint)), "{error}");
    }
}

#[test]
fn a_model_that_goes_round_in_circles_is_stopped() {
    let again = json!([{"tool_call": {"name": "file_list", "arguments": {}}}]);
    let other = |at: usize| json!([{"tool_call": {"name": "file_read", "arguments": {"path": format!("{at}.txt")}}}]);
    let circle = json!({"when": "circle", "rounds": [again]});
    let mut rounds: Vec<Value> = (0..9).map(other).collect();
    rounds.push(json!([{"text": "here I am"}]));
    let home = home(&[circle, json!({"when": "far", "rounds": rounds})], "limits = {tool_rounds_once = 4}");
    let (code, out, err) = run(home.path(), &["agent", "-m", "circle"]);
    assert!(code == Some(1) && err.contains("no answer, though it was asked twice"), "{out}{err}");
    let (_, out, err) = run(home.path(), &["agent", "--json", "-m", "far"]);
    let done = out.lines().filter(|line| line.contains("\"tool_done\"")).count();
    assert!(done == 4 && out.contains("4 rounds of tools are the limit"), "{out}{err}");
}

#[test]
fn a_call_that_an_answer_makes_twice_is_made_once() {
    let insert = json!({"tool_call": {"name": "edit_insert_at_line",
        "arguments": {"path": "a.txt", "line": 1, "content": "first\n"}}});
    let rounds = json!([[insert, insert], [{"text": "it is there"}]]);
    let home = home(&[json!({"when": "insert", "rounds": rounds})], "security = {autonomy = 'full'}");
    let file = home.path().join("reedclaw-workspace/a.txt");
    fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    fs::write(&file, "second\n").expect("a file");
    let (code, out, err) = run(home.path(), &["agent", "-m", "insert"]);
    assert!(code == Some(0) && out.contains("it is there"), "{out}{err}");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "first\nsecond\n");
}

#[test]
fn a_model_without_tools_proposes_commands_in_their_place() {
    let server = Server::start();
    server.reply(refusal("500 Oops", "tools param requires --jinja flag"));
    server.reply(answer("CMD: echo proposed"));
    server.reply(answer("again"));
    let session = Session::spawn(server.shell("retries = 0", ""));
    session.expect_prompt();
    session.send(b"?what then\r");
    session.expect_text("takes no tools");
    session.expect_text("skip [s, Enter]");
    session.send(b"s");
    session.expect_prompt();
    assert!(server.request(1).body["tools"].is_array() && server.request(2).body["tools"].is_null());
    assert!(server.request(2).content(0).contains("CMD: "), "the contract");
    session.run("?and now");
    session.expect_text("again");
    assert!(server.request(3).body["tools"].is_null(), "it isn't tried twice");
}

#[test]
fn a_window_too_small_for_tools_gets_the_question_without_them() {
    let server = Server::start();
    server.reply(refusal("400 Bad Request", "request (6076 tokens) exceeds the available context size (4096 tokens)"));
    server.reply(answer("small but mine"));
    let session = Session::spawn(server.shell("", ""));
    session.run("?what then");
    session.expect_text("has no room for tools");
    session.expect_text("small but mine");
    assert!(server.request(1).body["tools"].is_array() && server.request(2).body["tools"].is_null());
    session.run("clear");
    server.reply(refusal("400 Bad Request", "request (6076 tokens) exceeds the available context size (4096 tokens)"));
    server.reply(answer("small again"));
    session.run("?and now");
    assert!(server.request(3).body["tools"].is_array(), "there may be room by now");
    session.expect_text("small again");
    assert!(!session.screen_text().contains("has no room"), "it is said once\n{}", session.screen_text());
}

#[test]
fn a_tools_output_goes_with_the_next_question_and_is_shown_whole() {
    let server = Server::start();
    server.reply(crate::server::tool_call("file_list", "{}"));
    server.reply(answer("one file"));
    server.reply(answer("yes"));
    let session = Session::spawn(server.shell("", "").file("reedclaw-workspace/only.txt", "x"));
    session.run("?what is there");
    session.expect_text("(:show 1)");
    session.run(":show 1");
    session.expect_text("only.txt  1 bytes");
    session.run("?sure?");
    let messages = server.request(3).body["messages"].to_string();
    assert!(messages.contains("only.txt") && messages.contains("\"role\":\"tool\""), "{messages}");
}
