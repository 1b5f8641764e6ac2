//! The models of a run: a helper that only reads, a reviewer that can only ask, a model without tools, and a planner that sees no
//! outputs.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{command, plan, run, shell};
use crate::changes::{home, read, rounds, work};
use crate::home::TestHome;
use crate::server::{Server, Step, answer, cut_answer, end_with, head, piece, refusal};

const QUIET: &str = "console = {usage = false}, memory = {auto = false}, context = {project = false}";

/// A home in which each of these models plays its script; `more` are further models and lines of the config.
fn home_of(models: &[(&str, &[Value])], more_models: &str, more: &str) -> TempDir {
    let home = TestHome::for_commands().directory("work/.git").directory(".config/reedclaw").done();
    let mut lines = more_models.to_owned();
    for (name, answers) in models {
        let script = home.path().join(format!("{name}.jsonl"));
        let answers: Vec<String> = answers.iter().map(Value::to_string).collect();
        fs::write(&script, answers.join("\n")).expect("a script");
        lines.push_str(&format!("{name} = {{kind = \"mock\", script = {:?}}},", script.display().to_string()));
    }
    let config = format!("return {{models = {{{lines}}}, default_model = \"m\", {QUIET},\n{more}}}\n");
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    home
}

#[test]
fn a_helper_looks_within_its_share_and_can_neither_write_nor_spawn_nor_ask() {
    let helper = rounds(
        "find the secret number",
        &[
            ("file_write", json!({"path": "by-helper", "content": "x"})),
            ("shell", json!({"command": "echo x > by-helper"})),
            ("delegate", json!({"task": "do it for me"})),
            ("ask_user", json!({"question": "may I?"})),
            ("search_text", json!({"pattern": "number"})),
        ],
        "The number is 42, in notes.txt.",
    );
    let worker = json!({"when": "TASK 1: write the number", "rounds": [
        [{"tool_call": {"name": "delegate", "arguments": {"task": "find the secret number", "paths": ["notes.txt"]}}}],
        [{"tool_call": {"name": "shell", "arguments": {"command": "echo 42 > answer"}}}],
        [{"text": "written"}],
    ]});
    let home = home(&[helper, plan(&["write the number"]), worker], "");
    fs::write(work(home.path(), "notes.txt"), "the number is 42\n").expect("a file");
    let (status, text) = run(home.path(), &["norris", "write it", "--check", "test -e answer"]);
    assert_eq!((status, read(home.path(), "answer")), (0, "42\n".into()), "{text}");
    assert!(!work(home.path(), "by-helper").exists(), "{text}");
    assert!(text.contains("Delegating: find the secret number"), "{text}");
    assert!(text.contains("Cost norris-delegate (m): 6 requests"), "{text}");
    assert!(text.contains("3 questions"), "a helper is a question: {text}");
    let (_, trajectory) = run(home.path(), &["norris", "export", "1"]);
    let trajectory: Value = serde_json::from_str(&trajectory).expect("JSON");
    let steps = trajectory["steps"].as_array().expect("steps").clone();
    let delegated =
        steps.iter().flat_map(|step| step["observation"]["results"].as_array().cloned().unwrap_or_default());
    let answers: Vec<String> = delegated.map(|it| it["content"].as_str().unwrap_or_default().to_owned()).collect();
    assert!(answers.iter().any(|it| it.contains("The number is 42")), "{answers:?}");
}

#[test]
fn without_a_fifth_of_the_budget_no_helper_begins() {
    let worker = json!({"when": "TASK 1: look", "rounds": [
        [{"tool_call": {"name": "delegate", "arguments": {"task": "find it"}}}],
        [{"text": "I looked myself"}],
    ]});
    let home = home(&[plan(&["look"]), worker], "");
    for option in ["--budget-steps", "--budget-calls"] {
        let (status, text) = run(home.path(), &["norris", "look", option, "5"]);
        assert_eq!(status, 6, "{text}");
        assert!(!text.contains("norris-delegate"), "{option}: {text}");
    }
    let (status, text) = run(home.path(), &["norris", "look", "--budget-tokens", "30000"]);
    assert!(status == 6 && text.contains("Delegating"), "{text}");
}

#[test]
fn a_reviewer_can_only_make_a_call_asked() {
    let write = shell("TASK 1: write it", &["echo 1 > made"], "there");
    let remove = shell("TASK 1: remove it", &["rm -rf old"], "gone");
    let done = json!({"when": "it was run for you", "steps": [{"text": "it is done"}]});
    let says = |text: &str| [json!({"steps": [{"text": text}]})];
    let offline = [json!({"steps": [{"error": {"message": "connection refused"}}]})];
    for (task, reviewer, expected, reason) in [
        ("write it", &says("SAFE")[..], 0, ""),
        ("write it", &says("DANGER: it writes what nobody wants"), 7, "the reviewer: it writes what nobody wants"),
        ("write it", &says("I can't tell"), 7, "the reviewer gave no clear opinion"),
        ("write it", &offline, 7, "the reviewer can't be asked"),
        ("remove it", &says("SAFE"), 7, ""),
    ] {
        let home =
            home_of(&[("m", &[done.clone(), plan(&[task]), write.clone(), remove.clone()]), ("r", reviewer)], "", "");
        fs::create_dir_all(work(home.path(), "old/deep")).expect("a directory");
        fs::write(work(home.path(), "old/deep/file"), "x").expect("a file");
        let check = if task == "write it" { "test -e made" } else { r#"test -z "$(ls -d o* 2>/dev/null)""# };
        let (status, text) = run(home.path(), &["norris", "go", "--check", check, "--reviewer", "r"]);
        assert_eq!(status, expected, "{task} {reviewer:?}: {text}");
        assert!(text.contains(reason), "{reason}: {text}");
        if expected == 7 {
            let (status, text) = run(home.path(), &["norris", "approve", "1"]);
            assert_eq!(status, 0, "{text}");
            let (status, text) = run(home.path(), &["norris", "resume", "1"]);
            assert_eq!(status, 0, "a person's yes counts whatever the reviewer says: {text}");
        }
        let (_, text) = run(home.path(), &["norris", "show", "1"]);
        assert!(task == "remove it" || reviewer == offline || text.contains("Cost norris-review (r)"), "{text}");
    }
}

#[test]
fn the_commands_of_a_model_without_tools_are_its_calls() {
    let server = Server::start();
    server.reply(refusal("400 Bad Request", "this model does not support tools"));
    server.reply(answer("TASK: write it"));
    server.reply(answer("I write it.\n\nCMD: cat > made <<EOF\nhello\nEOF\n"));
    server.reply(answer("The file is written."));
    let home = TestHome::for_commands().directory("work/.git").asks(&server, "m", "", QUIET).done();
    let (status, text) = run(home.path(), &["norris", "make it", "--check", "grep -q hello made"]);
    assert_eq!((status, read(home.path(), "made")), (0, "hello\n".into()), "{text}");
    assert!(text.contains("the commands in its text are its calls"), "{text}");
    let last = server.request(server.requests());
    last.expect_turns();
    assert!(last.content(-1).contains("Your commands were run"), "{}", last.content(-1));
}

/// A command that the token limit had cut in half was run.
#[test]
fn a_command_that_was_cut_off_is_asked_for_again() {
    let server = Server::start();
    server.reply(refusal("400 Bad Request", "this model does not support tools"));
    server.reply(answer("TASK: make it"));
    server.reply(cut_answer("CMD: mkdir half && touch half/wh"));
    server.reply(cut_answer("CMD: mkdir made\nCMD: touch made/tw"));
    server.reply(answer("CMD: touch made/two"));
    server.reply(answer("It is made."));
    let home = TestHome::for_commands().directory("work/.git").asks(&server, "m", "", QUIET).done();
    let (status, text) = run(home.path(), &["norris", "make it", "--check", "test -e made/two"]);
    assert_eq!(status, 0, "{text}");
    assert!(!work(home.path(), "half").exists() && !work(home.path(), "made/tw").exists(), "{text}");
    assert!(server.request(4).content(-1).contains("was cut off"), "{}", server.request(4).content(-1));
}

#[test]
fn the_planner_never_sees_the_outputs_of_calls() {
    let server = Server::start();
    server.reply(answer("TASK: look"));
    server.reply(answer("TASK: look again"));
    let worker = [
        shell("TASK 1: look", &["echo OUTPUT-OF-A-CALL"], "I looked"),
        shell("TASK 2: look again", &["echo OUTPUT-OF-A-CALL; echo 1 > made"], "I looked again"),
    ];
    let far = format!("far = {{endpoint = \"{}\"}},", server.endpoint());
    let home = home_of(&[("m", &worker)], &far, "norris = { preplanner = \"far\", attempts = 1 }");
    let (status, text) = run(home.path(), &["norris", "look", "--check", "test -e made"]);
    assert_eq!(status, 0, "{text}");
    for part in
        ["Cost norris-preplan (far): 1 request,", "Cost norris-replan (far): 1 request,", "Cost norris-step (m)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(server.requests(), 2, "{text}");
    for number in 1..=2 {
        let raw = server.request(number).raw;
        assert!(!raw.contains("OUTPUT-OF-A-CALL"), "{raw}");
        // A run has no one to answer questions, so it has no tool for them.
        assert!(raw.contains("file_read") && !raw.contains("ask_user"), "{raw}");
    }
}

/// A request that could go over the run's dollars isn't sent, and after raising that limit the same run continues.
#[test]
fn dollars_end_a_run_before_a_request_and_more_of_them_continue_it() {
    let server = Server::start();
    // Each answer uses 400 of its 500 tokens: $0.40.
    for text in ["TASK: one\nTASK: two", "one is done", "two is done"] {
        server.reply(vec![head(), piece(text), end_with([100, 0, 400, 0])]);
    }
    let rest = format!("prices = {{m = {{input = 0, output = 1000}}}}, {QUIET}");
    let home =
        TestHome::for_commands().directory("work/.git").asks(&server, "m", "max_output_tokens = 500", &rest).done();
    let (status, text) = run(home.path(), &["norris", "make it", "--budget-usd", "1.2"]);
    assert_eq!((status, server.requests()), (5, 2), "{text}");
    assert!(text.contains("Run 1: budget") && text.contains("Used: $0.8000"), "{text}");
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert_eq!((status, server.requests()), (5, 2), "nothing is sent beyond: {text}");
    let (status, text) = run(home.path(), &["norris", "budget", "1", "--budget-usd", "2"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert_eq!((status, server.requests()), (6, 3), "{text}");
    assert!(text.contains("Used: $1.2000") && text.contains("Task 2 (claimed): two"), "the sums go on: {text}");
}

/// A request that a kill interrupted counts with its maximum cost, and none is forgotten.
#[test]
fn the_sums_of_a_killed_run_are_never_below_those_of_the_server() {
    let server = Server::start();
    let whole = |text: &str| vec![head(), piece(text), end_with([100, 0, 400, 0])];
    server.reply(whole("TASK: one\nTASK: two"));
    server.reply(vec![head(), piece("I be"), Step::Hold]);
    server.reply(whole("one is done"));
    server.reply(whole("two is done"));
    let rest = format!("prices = {{m = {{input = 0, output = 1000}}}}, {QUIET}");
    let home =
        TestHome::for_commands().directory("work/.git").asks(&server, "m", "max_output_tokens = 500", &rest).done();
    let mut begin = command(home.path(), &["norris", "make it", "--budget-usd", "5"]);
    let mut child = begin.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    server.request(2);
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert_eq!((status, server.requests()), (6, 4), "{text}");
    let facts: Value = serde_json::from_str(&run(home.path(), &["norris", "show", "1", "--json"]).1).expect("JSON");
    let requests = facts["cost"].as_array().expect("parts").iter().filter_map(|part| part["requests"].as_u64());
    assert_eq!(requests.sum::<u64>(), 4, "{facts}");
    // Three answers of 400 tokens, and one that may have used 500.
    assert!(text.contains("Used: $1.7000"), "{text}");
}

#[test]
fn the_last_answer_of_a_script_is_played_whole_for_each_task() {
    let answer = json!({"rounds": [
        [{"tool_call": {"name": "shell", "arguments": {"command": "echo x >> log"}}}],
        [{"text": "done"}],
    ]});
    let home = home(&[answer], "");
    fs::write(home.path().join("plan.txt"), "one\ntwo\nthree\n").expect("a plan");
    let (status, text) = run(home.path(), &["norris", "go", "--plan", "../plan.txt"]);
    assert_eq!((status, read(home.path(), "log")), (6, "x\nx\nx\n".into()), "{text}");
}
