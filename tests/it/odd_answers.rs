//! Odd answers of small models and odd servers: after each of them the question is still answered. The model is asked for a word
//! that only a file contains, so the answer needs a call that really ran.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::TestHome;
use crate::need::TEST_PATH;
use crate::pty::program;
use crate::server::{Server, Step, answer, cut_answer, head, refusal, tool_call};

const WORD: &str = "marigold";
const GOOD: &str = r#"{"command": "cat note.txt"}"#;

/// The reaction to an odd answer.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The answer counts as the call that was meant.
    Run,
    /// The model is asked again, and then makes a correct call.
    Again,
}

fn event(delta: &Value, reason: &Value) -> Step {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    Step::Raw(format!("data: {chunk}\n\n").into_bytes())
}

/// An answer of these pieces, with this reason for its end.
fn stream(pieces: &[Value], reason: &Value) -> Vec<Step> {
    let mut steps = vec![head()];
    steps.extend(pieces.iter().map(|piece| event(piece, &Value::Null)));
    steps.extend([event(&json!({}), reason), Step::Raw(b"data: [DONE]\n\n".to_vec())]);
    steps
}

fn call(name: &str, arguments: &Value, index: u64, id: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"index": index, "id": id, "type": "function", "function": function})
}

/// The answer that calls a tool of this name with these arguments.
fn named(name: &str, arguments: impl Into<Value>) -> Vec<Step> {
    stream(&[json!({"tool_calls": [call(name, &arguments.into(), 0, "call_1")]})], &json!("tool_calls"))
}

fn with(arguments: impl Into<Value>) -> Vec<Step> {
    named("shell", arguments)
}

/// The same call, cut off by the limit of tokens.
fn cut_call(arguments: &str) -> Vec<Step> {
    stream(&[json!({"tool_calls": [call("shell", &json!(arguments), 0, "call_1")]})], &json!("length"))
}

fn text(words: &str) -> Vec<Step> {
    stream(&[json!({"role": "assistant", "content": words})], &json!("stop"))
}

fn arguments() -> Vec<(&'static str, Vec<Step>, Next)> {
    let good: Value = serde_json::from_str(GOOD).expect("JSON");
    let more = |name: &str, value: Value| {
        let mut all = good.clone();
        all[name] = value;
        all.to_string()
    };
    vec![
        ("as they should be", with(GOOD), Next::Run),
        ("without the last bracket", with(&GOOD[..GOOD.len() - 1]), Next::Run),
        ("cut off in a value", with(&GOOD[..GOOD.len() - 4]), Next::Again),
        ("without the last bracket at the limit of tokens", cut_call(&GOOD[..GOOD.len() - 1]), Next::Again),
        ("whole at the limit of tokens", cut_call(GOOD), Next::Run),
        ("a trailing comma", with(r#"{"command": "cat note.txt",}"#), Next::Run),
        ("single quotes", with("{'command': 'cat note.txt'}"), Next::Run),
        ("raw line ends", with("{\"command\": \"\ncat note.txt\n\"}"), Next::Run),
        ("a fence", with(format!("```json\n{GOOD}\n```")), Next::Run),
        ("an object in place of text", with(good.clone()), Next::Run),
        ("encoded twice", with(json!(GOOD).to_string()), Next::Run),
        ("an unknown argument", with(more("explanation", json!("I read the file"))), Next::Run),
        ("a number as text", with(more("timeoutMs", json!("10000"))), Next::Run),
        (
            "all optional ones filled in",
            with(
                json!({"command": "cat note.txt", "cwd": "", "timeout_ms": 0, "job": 1,
            "kill": false, "background": null})
                .to_string(),
            ),
            Next::Run,
        ),
        ("wrapped", with(json!({"arguments": good}).to_string()), Next::Run),
    ]
}

fn names_and_texts() -> Vec<(&'static str, Vec<Step>, Next)> {
    let object = format!(r#"{{"name": "shell", "arguments": {GOOD}}}"#);
    vec![
        ("a name in capitals", named("SHELL", GOOD), Next::Run),
        ("a name with a prefix", named("functions.shell", GOOD), Next::Run),
        ("another prefix", named("default_api:shell", GOOD), Next::Run),
        ("an unknown name", named("run_terminal_cmd", GOOD), Next::Again),
        ("a call in a fence", text(&format!("```json\n{object}\n```")), Next::Run),
        ("a bare call", text(&object), Next::Run),
        ("a call between tags", text(&format!("<tool_call>\n{object}\n</tool_call>")), Next::Run),
        ("doubled braces", text(&format!("{{{object}}}")), Next::Run),
        ("words before a call", text(&format!("I read it.\n\n```json\n{object}\n```")), Next::Run),
        ("a call as text that was cut off", text(r#"{"name": "shell", "arguments": {"command": "cat no"#), Next::Again),
        ("a call as text at the limit of tokens", cut_answer(&object[..object.len() - 1]), Next::Again),
        (
            "a call in tags, after thoughts in tags",
            text(
                "<think>\nI read it.\n</think>\n\n<tool_call>\n<function=shell>\n<parameter=command>\ncat note.txt\n</parameter>\n</function>\n</tool_call>",
            ),
            Next::Run,
        ),
        ("words after a call", text(&format!("```json\n{object}\n```\nThen I will answer.")), Next::Run),
        (
            "a call in tags that is cut off",
            text("I read it.\n<function=shell>\n<parameter=command>cat no"),
            Next::Again,
        ),
        ("thoughts alone", text("<think>hmm</think>"), Next::Again),
        ("thoughts without an end, and nothing else", text("<think>hmm I must think"), Next::Again),
        ("nothing", text(""), Next::Again),
        ("nothing, at the limit", stream(&[], &json!("length")), Next::Again),
    ]
}

fn protocols() -> Vec<(&'static str, Vec<Step>, Next)> {
    let one = |change: &dyn Fn(&mut Value)| {
        let mut call = call("shell", &json!(GOOD), 0, "call_1");
        change(&mut call);
        json!({"tool_calls": [call]})
    };
    let remove = |name: &'static str| one(&move |call| drop(call.as_object_mut().expect("an object").remove(name)));
    let pieces: Vec<Value> = GOOD
        .as_bytes()
        .chunks(4)
        .map(|piece| {
            let piece = String::from_utf8_lossy(piece).into_owned();
            json!({"tool_calls": [call("shell", &json!(piece), 0, "call_1")]})
        })
        .collect();
    let many = |count: u64, each: &dyn Fn(u64) -> Value| {
        let calls: Vec<Value> = (0..count).map(each).collect();
        stream(&[json!({"tool_calls": calls})], &json!("tool_calls"))
    };
    let tool_calls = json!("tool_calls");
    let thought = json!({"content": "<think>I should read the file."});
    let broken = vec![head(), event(&one(&|_| ()), &Value::Null)];
    vec![
        ("thoughts without an end", stream(&[thought, one(&|_| ())], &tool_calls), Next::Run),
        ("another reason for the end", stream(&[one(&|_| ())], &json!("stop")), Next::Run),
        ("no reason for the end", stream(&[one(&|_| ())], &Value::Null), Next::Run),
        ("no id", stream(&[remove("id")], &tool_calls), Next::Run),
        ("no index", stream(&[remove("index")], &tool_calls), Next::Run),
        ("the name in each piece", stream(&pieces, &tool_calls), Next::Run),
        (
            "the same id twice",
            many(2, &|at| {
                let arguments = if at == 0 { GOOD } else { r#"{"command": "ls"}"# };
                call("shell", &json!(arguments), at, "call_1")
            }),
            Next::Run,
        ),
        ("the same call twice", many(2, &|at| call("shell", &json!(GOOD), at, &format!("call_{at}"))), Next::Run),
        (
            "forty calls",
            many(40, &|at| {
                let arguments = json!({"command": format!("echo {at}; cat note.txt")}).to_string();
                call("shell", &json!(arguments), at, &format!("call_{at}"))
            }),
            Next::Run,
        ),
        (
            "a refusal",
            refusal("500 Internal Server Error", "Failed to parse input at pos 12: <tool_call>"),
            Next::Again,
        ),
        ("a stream that breaks off in a call", broken, Next::Again),
    ]
}

fn home(server: &Server) -> TempDir {
    home_with(server, "retries = 2")
}

/// A home whose model has these settings.
fn home_with(server: &Server, model: &str) -> TempDir {
    TestHome::for_commands()
        .asks(server, "m", model, "security = {autonomy = \"full\"}, memory = {auto = false}")
        .directory("work/.git")
        .file("work/note.txt", format!("The code word is {WORD}.\n"))
        .done()
}

/// Asks for the word; returns the exit status and both outputs.
fn ask(home: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    command.args(["agent", "--path", "work", "-m", "What is the code word in note.txt?"]).env_clear();
    command.env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8").current_dir(home);
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn expect_answers(cases: Vec<(&'static str, Vec<Step>, Next)>) {
    for (name, odd, next) in cases {
        let server = Server::start();
        let home = home(&server);
        server.reply(odd);
        if matches!(next, Next::Again) {
            server.reply(tool_call("shell", GOOD));
        }
        server.reply(answer(&format!("It is {WORD}.")));
        let (code, out, err) = ask(home.path());
        let requests = if matches!(next, Next::Again) { 3 } else { 2 };
        assert_eq!((code, server.requests()), (Some(0), requests), "{name}: {out}{err}");
        let last = server.request(requests).raw;
        assert!(last.contains(&format!("The code word is {WORD}")), "{name}: the call didn't run: {last}");
        assert!(out.ends_with(&format!("It is {WORD}.\n")), "{name}: {out}");
        assert!(!out.contains("\"arguments\"") && !out.contains('<'), "{name}: a call was shown as text: {out}");
    }
}

#[test]
fn odd_arguments_are_read_as_they_were_meant() {
    expect_answers(arguments());
}

#[test]
fn odd_names_and_calls_in_text_are_read_or_asked_again() {
    expect_answers(names_and_texts());
}

#[test]
fn odd_protocols_make_no_difference() {
    expect_answers(protocols());
}

#[test]
fn a_call_that_is_repeated_gets_its_earlier_result_and_then_no_tools() {
    let server = Server::start();
    let home = home(&server);
    (0..6).for_each(|_| server.reply(tool_call("shell", r#"{"command": "true"}"#)));
    server.reply(tool_call("shell", GOOD));
    server.reply(answer(&format!("It is {WORD}.")));
    let (code, out, err) = ask(home.path());
    assert_eq!((code, server.requests()), (Some(0), 8), "{out}{err}");
    assert!(server.request(3).raw.contains("You made this call before"), "the second time it isn't run");
    assert!(server.request(4).body["tools"].is_null(), "after the third time it is to answer");
    assert!(server.request(8).body["tools"].is_array(), "another call is worth running");
}

#[test]
fn no_answer_is_a_failure_after_a_second_try() {
    let unreadable = r#"{"name": "shell", "arguments": {"command": "cat no"#;
    for (odd, why) in [("", "no answer, though it was asked twice"), (unreadable, "a tool call that can't be read")] {
        let server = Server::start();
        let home = home(&server);
        (0..2).for_each(|_| server.reply(text(odd)));
        let (code, _, err) = ask(home.path());
        assert!(code == Some(1) && err.contains(why), "{code:?} {err}");
        assert_eq!(server.requests(), 2);
    }
}

#[test]
fn a_model_that_fails_at_calls_may_write_whole_files() {
    let server = Server::start();
    let home = home(&server);
    (0..2).for_each(|_| server.reply(named("edit_replace_exact", r#"{"path": "note.txt"}"#)));
    server.reply(text("Here is the new file.\n\nnote.txt\n```\nThe code word is tulip.\n```"));
    server.reply(answer("It is changed."));
    let (code, out, err) = ask(home.path());
    assert!(code == Some(0) && out.ends_with("It is changed.\n"), "{out}{err}");
    assert!(server.request(3).raw.contains("in a block of ``` code"), "the model is told how");
    assert_eq!(fs::read_to_string(home.path().join("work/note.txt")).expect("a file"), "The code word is tulip.\n");
}

/// A file of 40 lines was once replaced by the two that had arrived.
#[test]
fn half_a_file_is_never_written() {
    let half = "note.txt\n```\nThe code word is tu";
    for (last, requests) in
        [(cut_answer(half), 4), (cut_answer(&format!("{half}lip.\n```\nb.txt")), 4), (text(half), 3)]
    {
        let server = Server::start();
        let home = home(&server);
        (0..2).for_each(|_| server.reply(named("edit_replace_exact", r#"{"path": "note.txt"}"#)));
        server.reply(last);
        server.reply(answer("I leave it."));
        let (code, out, err) = ask(home.path());
        assert_eq!((code, server.requests()), (Some(0), requests), "{out}{err}");
        let note = fs::read_to_string(home.path().join("work/note.txt")).expect("a file");
        assert_eq!(note, format!("The code word is {WORD}.\n"));
    }
}

/// A call with six hundred lines of output.
fn long_call(number: u32) -> Vec<Step> {
    tool_call("shell", &json!({"command": format!("seq {number}000 {number}600")}).to_string())
}

#[test]
fn a_questions_own_older_results_make_room_in_a_small_window() {
    let server = Server::start();
    let home = home_with(&server, "context_tokens = 4000");
    (1..=4).for_each(|number| server.reply(long_call(number)));
    server.reply(answer("Counted."));
    let (code, out, err) = ask(home.path());
    assert_eq!((code, server.requests()), (Some(0), 5), "{out}{err}");
    assert!(err.contains("of this question left out to make room"), "{err}");
    let has = |number: usize, lines: [&str; 2]| lines.iter().all(|line| server.request(number).raw.contains(line));
    assert!(has(2, ["1301", "1302"]) && !has(5, ["1301", "1302"]) && has(5, ["4301", "4302"]));
    assert!(server.request(5).raw.contains("left out to make room; call again"));
}

#[test]
fn a_request_that_is_refused_for_its_size_is_sent_without_older_results() {
    let server = Server::start();
    let home = home(&server);
    (1..=2).for_each(|number| server.reply(long_call(number)));
    server.reply(refusal("400 Bad Request", "the request exceeds the available context size"));
    server.reply(answer("Counted."));
    let (code, out, err) = ask(home.path());
    assert_eq!((code, server.requests()), (Some(0), 4), "{out}{err}");
    assert!(!err.contains("has no room for tools"), "{err}");
    let last = server.request(4).raw;
    assert!(last.contains("left out to make room; call again") && last.contains("2301"), "{last}");
}
