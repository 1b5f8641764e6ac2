//! Runs towards a goal, with the executable and a scripted model: only a check decides that a run is done, budgets apply, a call
//! beyond the grant halts the run, and a killed run continues.

mod checks;
mod commits;
mod faults;
mod models;
mod people;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::changes::{home, read, rounds, work};
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};

const PLAN: &str = "Plan the work";

fn plan(tasks: &[&str]) -> Value {
    let lines: Vec<String> = tasks.iter().map(|task| format!("TASK: {task}")).collect();
    json!({"when": PLAN, "steps": [{"text": lines.join("\n")}]})
}

fn shell(when: &str, commands: &[&str], text: &str) -> Value {
    let calls: Vec<(&str, Value)> = commands.iter().map(|it| ("shell", json!({"command": it}))).collect();
    rounds(when, &calls, text)
}

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command.current_dir(home.join("work")).stdin(Stdio::null());
    command
}

fn run(home: &Path, args: &[&str]) -> (i32, String) {
    let done = command(home, args).output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.code().unwrap_or(-1), text)
}

/// With the empty database in memory, these commands reported that there is no run, no conversation and no cost.
#[test]
fn a_damaged_database_is_not_taken_for_an_empty_one() {
    let home = home(&[], "");
    let data = home.path().join(".local/share/reedclaw");
    fs::create_dir_all(&data).expect("a directory");
    fs::write(data.join("reedclaw.db"), "no database".repeat(100)).expect("a file");
    for args in [
        &["norris", "list"][..],
        &["norris", "show", "1"],
        &["sop", "runs", "x"],
        &["sop", "status"],
        &["cost"],
        &["memory", "list"],
        &["agent", "-m", "talk", "--conversation", "last"],
        &["agent", "-m", "talk", "--conversation", "1"],
    ] {
        let (status, text) = run(home.path(), args);
        assert!(status == 1 && text.contains("the stored conversations can't be reached"), "{args:?}: {status} {text}");
        assert!(text.contains("reedclaw.db"), "{args:?}: {text}");
    }
}

#[test]
fn a_run_works_task_by_task_until_its_check_passes() {
    let answers = [
        plan(&["write one", "write two", "write three"]),
        shell("TASK 1: write one", &["echo 1 > one"], "one is there"),
        shell("TASK 2: write two", &["echo 2 > two"], "two is there"),
        shell("TASK 3: write three", &["echo 3 > three"], "three is there"),
    ];
    let home = home(&answers, "");
    let check = "test -e one && test -e two && test -e three";
    // The goal's words needn't be one argument.
    let (status, text) = run(home.path(), &["norris", "make", "three", "files", "--check", check]);
    assert_eq!(status, 0, "{text}");
    assert_eq!((read(home.path(), "one"), read(home.path(), "three")), ("1\n".into(), "3\n".into()), "{text}");
    // Tokens and times differ.
    let without_amounts = |line: &str| {
        let has_amounts = ["Check", "Cost", "Used"].iter().any(|word| line.starts_with(word));
        let amounts = |text: &str| text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>();
        let mut line = if has_amounts { amounts(line) } else { line.to_owned() };
        while line.contains("00") {
            line = line.replace("00", "0");
        }
        line
    };
    let report: Vec<String> = text.lines().take(13).map(without_amounts).collect();
    assert_eq!(
        report,
        [
            "Run 1: verified",
            "Goal: make three files",
            "Task 1 (checked): write one",
            "Task 2 (checked): write two",
            "Task 3 (checked): write three",
            "Check `test -e one && test -e two && test -e three`: status 0, 0.0 s",
            "Changed one",
            "Changed three",
            "Changed two",
            "Cost norris-preplan (m): 0 request, 0 + 0 tokens, $0",
            "Cost norris-step (m): 0 requests, 0 + 0 tokens, $0",
            "Used: $0.0, 0 tokens, 0.0 min, 0 questions, 0 calls",
            "reedclaw norris undo 1 reverts its changes (3 steps)",
        ],
        "{text}"
    );
    assert!(text.contains(" 4 questions, 3 calls") && text.contains("norris-step (m): 6 requests"), "{text}");
    let (status, list) = run(home.path(), &["norris", "list"]);
    assert!(
        status == 0 && list.contains("verified") && list.contains("3/3") && list.contains("make three files"),
        "{list}"
    );
    let (_, watched) = run(home.path(), &["norris", "watch", "1"]);
    assert!(watched.contains("  1 write one\n  2 write two\n  3 write three\n"), "{watched}");
    // A later step that doesn't belong to the run stays.
    let arguments = serde_json::json!({"path": "other", "content": "4"}).to_string();
    let workspace = work(home.path(), "").display().to_string();
    let other = ["tool", "run", "file_write", "--json", &arguments, "--workspace", &workspace, "--yes"];
    let (status, text) = run(home.path(), &other);
    assert_eq!(status, 0, "{text}");
    let (status, undone) = run(home.path(), &["norris", "undo", "1"]);
    assert!(status == 0 && !work(home.path(), "one").exists() && work(home.path(), "other").exists(), "{undone}");
    let (status, again) = run(home.path(), &["norris", "undo", "1"]);
    assert!(status == 2 && again.contains("run 1 has changed nothing here, or it was undone"), "{status} {again}");
}

#[test]
fn a_plan_from_a_file_is_worked_on_and_the_report_and_the_program_hear_how_it_ended() {
    let answers = [
        shell("TASK 1: write one", &["echo 1 > one"], "one is there"),
        shell("TASK 2: write two", &["echo 2 > two"], "two is there"),
    ];
    let heard = "norris = { notify = { \"sh\", \"-c\", \"cat > \\\"$HOME/heard\\\"\" } }";
    let home = home(&answers, heard);
    fs::write(home.path().join("plan.txt"), "write one\n\nwrite two\n").expect("a plan");
    let (plan, report) = (home.path().join("plan.txt"), home.path().join("report.json"));
    let [plan, report] = [plan, report].map(|path| path.display().to_string());
    let check = "test -e one && test -e two";
    let words = ["norris", "make two files", "--check", check, "--plan", &plan, "--report", &report];
    let (status, text) = run(home.path(), &words);
    assert_eq!(status, 0, "{text}");
    assert!(!text.contains("norris-preplan"), "no model was asked for a plan: {text}");
    for file in ["report.json", "heard"] {
        let facts = fs::read_to_string(home.path().join(file)).expect(file);
        let facts: serde_json::Value = serde_json::from_str(&facts).expect("JSON");
        assert_eq!((&facts["state"], &facts["tasks"][1]["text"]), (&json!("verified"), &json!("write two")), "{facts}");
        assert_eq!((&facts["checks"][0]["status"], &facts["steps"]), (&json!(0), &json!(2)), "{facts}");
    }
    let (status, shown) = run(home.path(), &["norris", "show", "--json"]);
    assert!(status == 0 && shown.contains("\"state\": \"verified\""), "{shown}");
    fs::write(home.path().join("plan.txt"), "\n \n").expect("a plan");
    let (status, text) = run(home.path(), &words[..6]);
    assert!(status == 2 && text.contains("has no task"), "{status} {text}");
}

#[test]
fn with_plan_only_nothing_is_done_before_a_person_takes_the_plan() {
    let answers = [plan(&["write one"]), shell("TASK 1: write one", &["echo 1 > one"], "one is there")];
    let home = home(&answers, "");
    let (status, text) = run(home.path(), &["norris", "make a file", "--check", "test -e one", "--plan-only"]);
    assert_eq!(status, 7, "{text}");
    assert!(text.contains("Run 1: planned") && text.contains("Task 1 (open): write one"), "{text}");
    assert!(!work(home.path(), "one").exists());
    let (status, text) = run(home.path(), &["norris", "approve", "1"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert!(status == 0 && work(home.path(), "one").exists(), "{text}");
}

#[test]
fn words_alone_never_end_a_run_as_done() {
    let answers = [plan(&["do it"]), json!({"steps": [{"text": "all done, I am sure"}]})];
    let home = home(&answers, "");
    let (status, text) = run(home.path(), &["norris", "make it", "--check", "test -e made"]);
    assert_eq!(status, 8, "{text}");
    assert!(text.contains("Run 1: stuck"), "{text}");
    // Without a check nothing proves that it is done.
    let (status, text) = run(home.path(), &["norris", "make it"]);
    assert_eq!(status, 6, "{text}");
    assert!(text.contains("not-verified") && text.contains("Task 1 (claimed): do it"), "{text}");
}

#[test]
fn a_check_that_its_own_run_changed_verifies_nothing() {
    let answers = [plan(&["do it"]), shell("Rules: do only", &["printf 'exit 0\\n' > check.sh"], "done")];
    let home = home(&answers, "");
    let write = || fs::write(work(home.path(), "check.sh"), "test -e made\n").expect("a check");
    write();
    let begin = ["norris", "make it", "--check", "bash check.sh"];
    let (status, text) = run(home.path(), &[&begin[..], &["--on-halt", "deny"]].concat());
    assert_eq!(status, 8, "{text}");
    assert_eq!(read(home.path(), "check.sh"), "test -e made\n", "{text}");
    // The person is asked, and approves the change: it still verifies nothing.
    let (status, text) = run(home.path(), &begin);
    assert_eq!(status, 7, "{text}");
    // Up to here the person hasn't refused anything, and no receipt claims a refusal.
    let log = fs::read_to_string(home.path().join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    let denied: Vec<&str> = log.lines().filter(|line| line.contains("\"status\":\"denied\"")).collect();
    assert!(!denied.is_empty() && denied.iter().all(|line| line.contains("\"approver\":null")), "{denied:?}");
    let (status, text) = run(home.path(), &["norris", "approve", "2"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(home.path(), &["norris", "resume", "2"]);
    assert_eq!((status, read(home.path(), "check.sh")), (6, "exit 0\n".into()), "{text}");
    assert!(text.contains("what the checks depend on was changed: check.sh"), "{text}");
}

#[test]
fn a_run_without_a_model_is_refused_before_it_is_stored() {
    let home = tempfile::tempdir().expect("a home");
    fs::create_dir_all(home.path().join("work/.git")).expect("a project");
    let (status, text) = run(home.path(), &["norris", "make it", "--check", "true"]);
    assert_eq!(status, 4, "{text}");
    assert!(text.contains("no model is set up"), "{text}");
    let (_, list) = run(home.path(), &["norris", "list"]);
    assert!(list.contains("There is no run yet"), "{list}");
    // A missing model is treated as none.
    let other = crate::changes::home(&[json!({"steps": [{"text": "hello"}]})], "");
    let (status, text) = run(other.path(), &["norris", "make it", "--planner", "absent"]);
    assert_eq!(status, 2, "{text}");
    let (_, list) = run(other.path(), &["norris", "list"]);
    assert!(list.contains("There is no run yet"), "{list}");
}

#[test]
fn files_that_a_check_reads_without_naming_them_count_as_its_inputs() {
    let edit = ["printf 'test:\\n\\ttrue\\n' > Makefile"];
    let home = home(&[plan(&["do it"]), shell("Rules: do only", &edit, "done")], "");
    fs::write(work(home.path(), "Makefile"), "test:\n\ttest -e made\n").expect("a Makefile");
    let begin = ["norris", "make it", "--check", "make test", "--on-halt", "deny"];
    let (status, text) = run(home.path(), &begin);
    assert_eq!(status, 8, "{text}");
    assert!(read(home.path(), "Makefile").contains("test -e made"), "{text}");
}

#[test]
fn files_that_a_check_names_by_an_expansion_or_a_link_are_its_inputs() {
    let edit = shell("Rules: do only", &["echo exit 0 > tests/a.sh"], "done");
    let home = home(&[plan(&["do it"]), edit], "");
    fs::create_dir(work(home.path(), "tests")).expect("a directory");
    fs::write(work(home.path(), "tests/a.sh"), "exit 1\n").expect("a check");
    std::os::unix::fs::symlink("tests/a.sh", work(home.path(), "link.sh")).expect("a link");
    let whole = format!("bash {}", work(home.path(), "tests/a.sh").canonicalize().expect("a path").display());
    for check in [
        "bash tests/*.sh",
        "bash \"$PWD\"/tests/a.sh",
        "T=a; bash tests/$T.sh",
        "bash link.sh",
        "bash ../work/tests/a.sh",
        &whole,
    ] {
        let (status, text) = run(home.path(), &["norris", "make it", "--check", check]);
        assert_eq!((status, read(home.path(), "tests/a.sh")), (7, "exit 1\n".into()), "{check}: {text}");
    }
    // A file that only a script of the check names may be the work itself: the change is allowed, and the file is named.
    fs::write(work(home.path(), "all.sh"), "bash tests/a.sh || true\n").expect("a script");
    let (status, text) = run(home.path(), &["norris", "make it", "--check", "bash all.sh"]);
    assert!(status == 0 && text.contains("with the first version of tests/a.sh: status 0"), "{status} {text}");
    fs::write(work(home.path(), "tests/a.sh"), "exit 1\n").expect("a check");
    // A check that finds its tests itself: files that may be its tests are named.
    let args = ["norris", "make it", "--check", "true", "--protect", "none"];
    let (status, text) = run(home.path(), &args);
    assert!(status == 0 && text.contains("with the first version of tests/a.sh: status 0"), "{text}");
}

#[test]
fn a_first_file_of_a_checks_pattern_that_is_new_verifies_nothing() {
    let home = home(&[plan(&["do it"]), shell("Rules: do only", &["echo exit 0 > tests/0.sh"], "done")], "");
    fs::create_dir(work(home.path(), "tests")).expect("a directory");
    fs::write(work(home.path(), "tests/a.sh"), "exit 1\n").expect("a check");
    let (status, text) = run(home.path(), &["norris", "make it", "--check", "bash tests/*.sh"]);
    assert!(status == 6 && text.contains("what the checks depend on was changed: tests/*.sh"), "{text}");
}

#[test]
fn a_new_file_that_changes_what_a_check_does_verifies_nothing() {
    let skip = "def pytest_sessionfinish(session): session.exitstatus = 0\n";
    let write =
        |path: &str| rounds("Rules: do only", &[("file_write", json!({"path": path, "content": skip}))], "done");
    // A substitute for pytest, which executes such a file.
    let pytest = "#!/bin/sh\ntest -e made || test -e conftest.py || test -e sub/conftest.py\n";
    for path in ["conftest.py", "sub/conftest.py"] {
        let home = home(&[plan(&["do it"]), write(path)], "");
        let tool = work(home.path(), "tools/pytest");
        fs::create_dir_all(work(home.path(), "tools")).expect("a directory");
        fs::create_dir_all(work(home.path(), "sub")).expect("a directory");
        fs::write(&tool, pytest).expect("a program");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("its mode");
        let (status, text) = run(home.path(), &["norris", "make it", "--check", "tools/pytest -q"]);
        assert_eq!(status, 7, "{text}");
        assert!(!work(home.path(), path).exists(), "{text}");
        assert_eq!(run(home.path(), &["norris", "approve", "1"]).0, 0);
        let (status, text) = run(home.path(), &["norris", "resume", "1"]);
        let expected = if path == "conftest.py" { 6 } else { 0 };
        assert_eq!(status, expected, "what a person has allowed is seen at the top: {text}");
        assert_eq!(text.contains("Changed files that the checks depend on: conftest.py"), expected == 6, "{text}");
    }
}

fn session(home: &Path) -> Session {
    let session = Session::spawn(Spawn::reedclaw().home(home).cwd(&home.join("work")).size(40, 100));
    session.expect_prompt();
    session
}

#[test]
fn a_run_in_the_session_shows_its_plan_halts_for_a_key_and_ends() {
    let answers = [
        json!({"when": "it was run for you", "steps": [{"text": "it is clean"}]}),
        plan(&["write it", "clean up"]),
        shell("TASK 1: write it", &["echo 1 > made"], "it is there"),
        shell("TASK 2: clean up", &["rm -rf old"], "clean"),
    ];
    let home = home(&answers, "");
    fs::create_dir_all(work(home.path(), "old/deep")).expect("a directory");
    fs::write(work(home.path(), "old/deep/file"), "x\n").expect("a file");
    let session = session(home.path());
    session.send(b":norris make it\r");
    session.expect_text("go [g]");
    session.expect_text("1 write it");
    session.expect_text("no check");
    assert!(!work(home.path(), "made").exists(), "nothing is done before the plan was seen");
    session.send(b"g");
    session.expect_text("once [y]");
    assert!(work(home.path(), "old").exists(), "a deletion waits for its person");
    session.send(b"y");
    session.expect_text("Run 1: not-verified");
    assert!(work(home.path(), "made").exists() && !work(home.path(), "old").exists(), "{}", session.screen_text());
    session.expect_prompt();
    session.send(b":cost detail\r");
    session.expect_text("norris-preplan");
    session.expect_prompt();
    session.send(b":norris list\r");
    session.expect_text("not-verified");
}

#[test]
fn a_check_that_the_plan_proposes_counts_when_its_person_says_go() {
    let steps = json!({"when": PLAN, "steps": [{"text": "TASK: write it\nCHECK: `test -e made`"}]});
    let home = home(&[steps, shell("TASK 1: write it", &["echo 1 > made"], "it is there")], "");
    let session = session(home.path());
    session.send(b":goal make it\r");
    session.expect_text("proposed with the plan: `test -e made`");
    session.expect_text("go [g]");
    session.send(b"g");
    session.expect_text("Run 1: verified");
}

#[test]
fn a_run_in_the_background_leaves_the_shell_free_and_is_paused_with_the_session() {
    let slow = json!({"when": "TASK 1: wait", "steps": [{"delay_ms": 600_000}, {"text": "I work"}]});
    let home = home(&[plan(&["wait"]), slow], "");
    let first = session(home.path());
    first.send(b":norris take long\r");
    first.expect_text("go [g]");
    first.send(b"g");
    first.expect_text("1/1 wait");
    first.send(b"b");
    first.expect_text("continues in the background");
    first.expect_prompt();
    first.send(b"echo still $((40+2))\r");
    first.expect_text("still 42");
    first.send(b":norris another goal\r");
    first.expect_text("works already");
    first.send(b"exit\r");
    first.expect_exit();
    let (_, list) = run(home.path(), &["norris", "list"]);
    assert!(list.contains("paused"), "{list}");
    let second = session(home.path());
    second.expect_text(":norris resume 1");
    second.send(b":norris stop 1\r");
    second.expect_text("run 1 stops");
}

/// Starts a run's process, waits until it writes a line with this text, and kills it.
fn kill_at(home: &Path, args: &[&str], text: &str) {
    let mut child = command(home, args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = std::io::BufReader::new(child.stderr.take().expect("standard error"));
    let mut seen = Vec::new();
    let found = std::io::BufRead::lines(lines).map_while(Result::ok).any(|line| {
        let is_here = line.contains(text);
        seen.push(line);
        is_here
    });
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    assert!(found, "no {text:?} in {seen:?}");
}

#[test]
fn a_run_that_is_killed_while_planning_working_and_checking_does_nothing_twice() {
    let answers = [
        json!({"when": PLAN, "steps": [{"delay_ms": 2_000}, {"text": "TASK: one\nTASK: two"}]}),
        shell("TASK 1: one", &["echo x >> log"], "one is done"),
        json!({"when": "TASK 2: two", "steps": [{"delay_ms": 2_000}, {"text": "two is done"}]}),
    ];
    let home = home(&answers, "");
    let begin = ["norris", "make a log", "--check", "test -e log && sleep 2"];
    kill_at(home.path(), &begin, "planning");
    assert!(!work(home.path(), "log").exists());
    let (_, shown) = run(home.path(), &["norris", "show", "1"]);
    assert!(shown.contains("No process works on it: reedclaw norris resume 1 continues it"), "{shown}");
    let (_, listed) = run(home.path(), &["norris", "list"]);
    assert!(listed.contains("interrupted") && shown.contains("Run 1: interrupted"), "{listed}{shown}");
    let facts: Value = serde_json::from_str(&run(home.path(), &["norris", "show", "1", "--json"]).1).expect("JSON");
    assert_eq!(facts["state"], "interrupted");
    kill_at(home.path(), &["norris", "resume", "1"], "2/2 two");
    assert_eq!(read(home.path(), "log"), "x\n");
    kill_at(home.path(), &["norris", "resume", "1"], "checking");
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert_eq!((status, read(home.path(), "log")), (0, "x\n".into()), "{text}");
    assert!(text.contains("Run 1: verified"), "{text}");
}

#[test]
fn runs_of_one_workspace_are_told_apart_and_a_look_at_them_writes_nothing() {
    let slow = json!({"when": "TASK 1: wait", "steps": [{"delay_ms": 600_000}, {"text": "I waited"}]});
    let home = home(&[plan(&["wait"]), slow], "");
    kill_at(home.path(), &["norris", "the first"], "1/1 wait");
    let holds = home.path().join(".local/state/reedclaw/runs");
    fs::remove_dir_all(&holds).expect("the hold was there");
    let look = |what: &[&str]| run(home.path(), &[&["norris"], what].concat()).1;
    let (status, watched) = run(home.path(), &["norris", "watch", "1"]);
    assert!(status == 130 && watched.contains("reedclaw norris resume 1 continues it"), "{status} {watched:?}");
    assert!(look(&["list"]).contains("interrupted") && look(&["show"]).contains("interrupted"));
    assert!(!holds.exists(), "a look made a hold");
    let (mut child, _lines) = people::begun(home.path(), &["norris", "the second"], "1/1 wait");
    let list = look(&["list"]);
    let states: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(states, ["working", "interrupted"], "{list}");
    assert!(look(&["resume", "1"]).contains("run 2 works in"), "one at a time");
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
}

#[test]
fn an_export_goes_to_a_new_file_in_a_directory_that_is_there() {
    let answers = [plan(&["write one"]), shell("TASK 1: write one", &["echo 1 > one"], "one is there")];
    let home = home(&answers, "");
    let [missing, taken, new] = ["no/where/it.json", "taken.json", "new.json"].map(|name| home.path().join(name));
    fs::write(&taken, "mine").expect("a file");
    let export = |words: &[&str], path: &Path| run(home.path(), &[words, &[path.to_str().expect("UTF-8")]].concat());
    let report = ["norris", "make it", "--check", "test -e one", "--report"];
    for (path, why) in [(&missing, "its directory isn't there"), (&taken, "it is there already")] {
        let (status, text) = export(&report, path);
        assert!(status == 2 && text.contains(why) && text.contains("name a new file"), "{status} {text}");
    }
    let (_, list) = run(home.path(), &["norris", "list"]);
    assert!(!list.contains("make it"), "nothing was spent before: {list}");
    assert_eq!(export(&report, &new).0, 0);
    fs::remove_file(&new).expect("the report");
    for path in [&missing, &taken] {
        let (status, text) = export(&["norris", "export", "1", "--atif"], path);
        assert!(status == 2 && text.contains("name a new file"), "{status} {text}");
    }
    assert!(!home.path().join("no").exists() && fs::read(&taken).expect("it is there") == b"mine");
    assert_eq!(export(&["norris", "export", "1", "--atif"], &new).0, 0);
    assert!(fs::read_to_string(&new).expect("the trajectory").contains("ATIF-v1.7"));
}

#[test]
fn each_budget_ends_a_run_by_name_and_more_of_it_continues_the_run() {
    let answers = [
        plan(&["one", "two"]),
        shell("TASK 1: one", &["echo 1 > one", "echo 1 > more"], "one"),
        json!({"when": "TASK 2: two", "steps": [{"delay_ms": 1_500}, {"text": "two"}]}),
    ];
    let home = home(&answers, "");
    for (option, most, name) in [
        ("--budget-steps", "2", "steps: 2 of 2"),
        ("--budget-calls", "1", "calls"),
        ("--budget-tokens", "100", "tokens"),
        ("--budget-minutes", "0.02", "minutes"),
    ] {
        let (status, text) = run(home.path(), &["norris", "make it", option, most]);
        assert_eq!(status, 5, "{option}: {text}");
        assert!(text.contains("budget") && text.contains(name), "{option}: {text}");
    }
    let (status, text) = run(home.path(), &["norris", "budget", "1", "--budget-steps", "9"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert_eq!(status, 6, "{text}");
    assert!(text.contains("Task 2 (claimed): two") && text.contains("3 questions"), "the sums go on: {text}");
}

#[test]
fn a_run_is_paused_steered_and_stopped_from_elsewhere() {
    let answers = [
        json!({"when": "The person says: use tabs", "steps": [{"text": "with tabs"}]}),
        plan(&["wait"]),
        json!({"when": "TASK 1: wait", "steps": [{"delay_ms": 600_000}, {"text": "I waited"}]}),
    ];
    let home = home(&answers, "");
    let begun = |word: &str| {
        let mut child = command(home.path(), &["norris", "take long"]);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = std::io::BufReader::new(child.stderr.take().expect("standard error"));
        let mut lines = std::io::BufRead::lines(lines).map_while(Result::ok);
        assert!(lines.any(|line| line.contains("1/1 wait")));
        let (status, text) = run(home.path(), &["norris", word]);
        assert_eq!(status, 0, "{text}");
        lines.for_each(drop);
        child.wait().expect("it ends").code()
    };
    assert_eq!(begun("pause"), Some(130));
    let (status, text) = run(home.path(), &["norris", "say", "1", "use", "tabs"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert_eq!(status, 6, "{text}");
    let (status, text) = run(home.path(), &["norris", "watch", "1"]);
    assert_eq!(status, 6, "{text}");
    for part in ["paused:", "you said: use tabs", "taken up again after a question that was cut off", "ended:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(begun("stop"), Some(130));
    let (_, list) = run(home.path(), &["norris", "list"]);
    assert!(list.contains("stopped"), "{list}");
    // A run without a process is stopped at once, and other limits don't restart it.
    kill_at(home.path(), &["norris", "take long"], "1/1 wait");
    let (status, text) = run(home.path(), &["norris", "budget", "3"]);
    assert!(status == 2 && text.contains("no limit is named"), "{text}");
    let (status, text) = run(home.path(), &["norris", "stop", "3"]);
    assert!(status == 0 && text.contains("Run 3: stopped."), "{text}");
    for args in [&["norris", "stop", "3"][..], &["norris", "budget", "3", "--budget-usd", "5"]] {
        let (status, text) = run(home.path(), args);
        assert!(status == 2 && text.contains("run 3 has ended: stopped"), "{args:?}: {text}");
    }
}

#[test]
fn agent_auto_is_a_run_whose_last_line_says_how_it_ended() {
    let home = home(&[plan(&["write it"]), shell("TASK 1: write it", &["echo 1 > made"], "there")], "");
    let args = ["agent", "-m", "make it", "--auto", "--check", "test -e made", "--json"];
    let done = command(home.path(), &args).output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let last: Value = text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    assert_eq!(done.status.code(), Some(0), "{text}");
    assert_eq!((&last["end"], &last["exit"], &last["run"]), (&json!("verified"), &json!(0), &json!(1)), "{text}");
    // Input from a pipe isn't ignored silently.
    let mut piped = command(home.path(), &["agent", "-m", "make it", "--auto", "--check", "true"]);
    let mut piped = piped.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::io::Write::write_all(&mut piped.stdin.take().expect("a pipe"), b"the details").expect("written");
    let done = piped.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && told.contains("nothing is attached from standard input"), "{told}");
    // A run that can't begin or continue prints such a line, too.
    let failing: [(&[&str], i32, Value); 5] = [
        (&["norris", "resume", "999", "--json"], 2, json!(999)),
        (&["norris", "make it", "--planner", "absent", "--json"], 2, Value::Null),
        (&["agent", "-m", "", "--auto", "--json"], 2, Value::Null),
        (&["sop", "run", "absent", "--json"], 2, Value::Null),
        (&["sop", "approve", "77", "--json"], 2, json!(77)),
    ];
    for (args, exit, id) in failing {
        let done = command(home.path(), args).output().expect("it runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let line: Value = serde_json::from_str(text.trim()).unwrap_or_default();
        assert_eq!(done.status.code(), Some(exit), "{args:?}: {text}");
        assert_eq!(
            (&line["end"], &line["exit"], &line["run"]),
            (&json!("failed"), &json!(exit), &id),
            "{args:?}: {text}"
        );
    }
}
