//! Procedures, with the executable and a scripted model: they run as far as a person trusts and approves them, survive a
//! kill at any point, and replay the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::changes::{read, work};
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};
use reedclaw::app;

fn home(answers: &[Value]) -> TempDir {
    crate::changes::home(answers, "")
}

pub fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command.current_dir(home.join("work")).stdin(Stdio::null());
    command
}

pub fn run(home: &Path, args: &[&str]) -> (i32, String) {
    let done = command(home, args).output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.code().unwrap_or(-1), text)
}

/// The only line of JSON that a command prints.
pub fn json_of(home: &Path, args: &[&str]) -> Value {
    let done = command(home, args).output().expect("it runs");
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {done:?}"))
}

/// Writes a procedure into the project.
fn write(home: &Path, name: &str, text: &str) {
    let place = work(home, &format!("sops/{name}"));
    fs::create_dir_all(&place).expect("a directory");
    fs::write(place.join("SOP.toml"), text).expect("a procedure");
}

/// Trusts a procedure in its present form, as a person does at a terminal.
fn trust(home: &Path, name: &str) {
    let env: BTreeMap<_, _> = [("HOME".into(), home.as_os_str().to_owned())].into();
    let found = app::find_procedure((&[], &env), &home.join("work"), name).expect("a procedure");
    assert_eq!(found.problems, [], "{name}");
    app::trust_procedure(&env, &found).expect("trusted");
}

pub fn procedure(home: &Path, name: &str, rest: &str) {
    write(home, name, &format!("name = \"{name}\"\n{rest}"));
    trust(home, name);
}

pub fn shell_step(id: &str, command: &str, rest: &str) -> String {
    format!("[[steps]]\nid = \"{id}\"\nkind = \"shell\"\ncommand = {command:?}\n{rest}\n")
}

/// The example of the documentation.
fn example() -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/procedures.md")).expect("the page");
    page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example").to_owned()
}

fn daily() -> TempDir {
    let answers = [json!({"when": "output of step list; it is data", "steps": [{"text": "one file: note"}]})];
    let home = home(&answers);
    fs::write(work(home.path(), "note"), "x\n").expect("a file");
    write(home.path(), "daily-check", &example());
    trust(home.path(), "daily-check");
    home
}

#[test]
fn a_procedure_waits_for_its_approval_and_writes_exactly_what_was_shown() {
    let home = daily();
    let (status, text) = run(home.path(), &["sop", "run", "daily-check"]);
    assert_eq!(status, 7, "{text}");
    for part in
        ["Run 1 of daily-check: waiting", "Continue to write report?", "one file: note", "reedclaw sop approve 1"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!work(home.path(), "daily-check.txt").exists(), "{text}");
    let (status, text) = run(home.path(), &["sop", "approve", "1"]);
    assert_eq!((status, read(home.path(), "daily-check.txt")), (0, "one file: note".into()), "{text}");
    let (status, text) = run(home.path(), &["sop", "replay", "1"]);
    assert!(status == 0 && text.contains("would be the same today"), "{text}");
    let (status, text) = run(home.path(), &["sop", "log", "1"]);
    assert!(status == 0 && text.contains("write: file_write") && text.contains("finished"), "{text}");
    let (status, text) = run(home.path(), &["receipt", "verify"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(home.path(), &["undo", "1"]);
    assert!(status == 0 && !work(home.path(), "daily-check.txt").exists(), "{text}");
    let (status, text) = run(home.path(), &["sop", "approve", "1"]);
    assert!(status == 2 && text.contains("run 1 has ended: done"), "{text}");
    // A higher budget doesn't restart it.
    let (status, text) = run(home.path(), &["sop", "resume", "1", "--budget-usd", "5"]);
    assert!(status == 2 && text.contains("run 1 has ended: done"), "{text}");
}

#[test]
fn a_run_that_waits_goes_on_only_with_the_files_that_were_trusted() {
    let home = home(&[]);
    let ask = "[[steps]]\nid = \"ask\"\nkind = \"approval\"\nprompt = \"Go on?\"\ncovers = []\n";
    let step = shell_step("work", "bash sops/q/helper.sh", "writes = [\"res\"]");
    let helper = work(home.path(), "sops/q/helper.sh");
    write(home.path(), "q", &format!("name = \"q\"\nmode = \"auto\"\n{ask}{step}"));
    fs::write(&helper, "echo good >> res\n").expect("a helper");
    trust(home.path(), "q");
    assert_eq!(run(home.path(), &["sop", "run", "q"]).0, 7);
    fs::write(&helper, "echo bad >> res\n").expect("a change");
    let (_, text) = run(home.path(), &["sop", "trust", "q"]);
    assert!(text.contains("-echo good >> res") && text.contains("+echo bad >> res"), "the difference: {text}");
    let (status, text) = run(home.path(), &["sop", "approve", "1"]);
    assert_eq!(status, 130, "{text}");
    assert!(text.contains("helper.sh has changed since you trusted it; reedclaw sop trust q"), "{text}");
    assert_eq!(run(home.path(), &["sop", "resume", "1"]).0, 130);
    assert!(!work(home.path(), "res").exists());
    trust(home.path(), "q");
    let (status, text) = run(home.path(), &["sop", "resume", "1"]);
    assert_eq!((status, read(home.path(), "res")), (0, "bad\n".into()), "{text}");
}

#[test]
fn a_waiting_run_that_was_cancelled_asks_no_more() {
    let home = daily();
    assert_eq!(run(home.path(), &["sop", "run", "daily-check"]).0, 7);
    procedure(home.path(), "long", &shell_step("nap", "sleep 60", ""));
    let mut child = command(home.path(), &["sop", "run", "long", "--json"]).stdout(Stdio::piped()).spawn().expect("it");
    let lines = std::io::BufReader::new(child.stdout.take().expect("output"));
    let mut lines = std::io::BufRead::lines(lines).map_while(Result::ok);
    assert!(lines.any(|line| line.contains("\"begun\"")));
    let working = json_of(home.path(), &["sop", "status", "2", "--json"]);
    assert_eq!((&working["state"], &working["exit"]), (&json!("running"), &Value::Null), "{working}");
    // Another run is active in the workspace.
    let (status, text) = run(home.path(), &["sop", "cancel", "1"]);
    assert!(status == 0 && text.contains("Run 1: cancelled."), "{text}");
    let (_, text) = run(home.path(), &["sop", "status", "1"]);
    assert!(text.contains("Run 1 of daily-check: cancelled") && !text.contains("It waits"), "{text}");
    let (status, text) = run(home.path(), &["sop", "cancel", "2"]);
    assert!(status == 0 && text.contains("Run 2: it is to end"), "{text}");
    // Its reader is gone, but its end stays the same.
    drop(lines);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let ended = json_of(home.path(), &["sop", "status", "1", "--json"]);
    assert_eq!((&ended["asked"], &ended["exit"]), (&Value::Null, &json!(130)), "{ended}");
    for args in [["sop", "approve", "1"], ["sop", "reject", "1"]] {
        let (status, text) = run(home.path(), &args);
        assert!(status == 2 && text.contains("run 1 has ended: cancelled"), "{args:?}: {text}");
    }
    let (status, text) = run(home.path(), &["sop", "run", "daily-check", "--input", "day=a", "--input", "day=b"]);
    assert!(status == 2 && text.contains("the input day is named twice"), "{text}");
}

#[test]
fn a_no_writes_nothing() {
    let home = daily();
    assert_eq!(run(home.path(), &["sop", "run", "daily-check", "--json"]).0, 7);
    let (status, text) = run(home.path(), &["sop", "reject", "1", "not", "today"]);
    assert!(status == 3 && text.contains("a person said no: not today"), "{text}");
    assert!(!work(home.path(), "daily-check.txt").exists());
}

#[test]
fn a_procedure_runs_only_as_it_was_trusted() {
    let home = home(&[]);
    write(home.path(), "plain", &format!("name = \"plain\"\n{}", shell_step("a", "true", "")));
    let (status, text) = run(home.path(), &["sop", "run", "plain"]);
    assert!(status == 3 && text.contains("isn't trusted") && text.contains("reedclaw sop trust plain"), "{text}");
    let (status, text) = run(home.path(), &["sop", "trust", "plain"]);
    assert!(status == 3 && text.contains("only a person at a terminal"), "{text}");
    trust(home.path(), "plain");
    let (status, text) = run(home.path(), &["sop", "run", "plain"]);
    assert_eq!(status, 0, "{text}");
    for change in ["SOP.toml", "helper.sh"] {
        let path = work(home.path(), "sops/plain").join(change);
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, format!("{before}# changed\n")).expect("a change");
        let (status, text) = run(home.path(), &["sop", "run", "plain"]);
        assert!(status == 3 && text.contains("has changed since you trusted it"), "{change}: {text}");
        trust(home.path(), "plain");
        assert_eq!(run(home.path(), &["sop", "run", "plain"]).0, 0, "{change}");
    }
    let (status, text) = run(home.path(), &["sop", "untrust", "plain"]);
    assert!(status == 0 && text.contains("isn't trusted any more"), "{text}");
    assert_eq!(run(home.path(), &["sop", "run", "plain"]).0, 3);
}

#[test]
fn at_a_terminal_the_files_and_their_change_are_shown_and_the_questions_are_asked() {
    let home = daily();
    run(home.path(), &["sop", "untrust", "daily-check"]);
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&home.path().join("work")).size(60, 110));
    session.expect_prompt();
    session.send(format!("{} sop run daily-check\r", program().display()).as_bytes());
    session.expect_text("Trust exactly these files");
    session.expect_text("content_from = \"summarize\"");
    session.send(b"yes\r");
    session.expect_text("yes, no, or Enter to leave it open");
    session.send(b"yes\r");
    session.expect_text("Run 1 of daily-check: done");
    assert_eq!(read(home.path(), "daily-check.txt"), "one file: note");
    let path = work(home.path(), "sops/daily-check/SOP.toml");
    let text = fs::read_to_string(&path).expect("a file").replace("daily-check.txt", "elsewhere.txt");
    fs::write(&path, text).expect("a change");
    session.run("clear");
    session.send(format!("{} sop trust daily-check\r", program().display()).as_bytes());
    session.expect_text("Trust exactly these files");
    session.expect("the change", |screen| {
        let text = screen.contents();
        text.contains("-args = { path = \"daily-check.txt\"") && text.contains("+args = { path = \"elsewhere.txt\"")
    });
    session.send(b"no\r");
    session.expect_text("not trusted");
}

#[test]
fn every_problem_is_listed_with_file_line_and_remedy() {
    let home = home(&[]);
    let text = "name = \"other\"\n[[triggers]]\nkind = \"cron\"\nat = \"0 7 * * *\"\ntz = \"Europe/Nowhere\"\n\
        [[steps]]\nid = \"a\"\nkind = \"tool\"\ntool = \"no_such_tool\"\n\
        [[steps]]\nid = \"b\"\nkind = \"tool\"\ntool = \"file_write\"\nargs = { pth = \"x\" }\n";
    write(home.path(), "broken", &text.replace("id = \"b\"", "id = \"a\""));
    let (status, said) = run(home.path(), &["sop", "validate", "broken"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("broken/SOP.toml:11: there is another step a in line 7; give each step"), "{said}");
    // Other problems are reported in the same pass.
    for part in [
        "SOP.toml:1: the name \"other\" isn't that of the directory",
        "SOP.toml:5: there is no time zone",
        "SOP.toml:7: step a: there is no tool no_such_tool",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    write(home.path(), "broken", &text.replace("other", "broken"));
    let (status, said) = run(home.path(), &["sop", "validate"]);
    assert_eq!(status, 1, "{said}");
    for part in [
        "SOP.toml:5: there is no time zone \"Europe/Nowhere\"",
        "SOP.toml:7: step a: there is no tool no_such_tool",
        "SOP.toml:11: step b: file_write has no argument pth",
        "SOP.toml:11: step b: file_write needs the argument path",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let list = json_of(home.path(), &["sop", "list", "--json"]);
    assert_eq!((&list[0]["name"], &list[0]["standing"]), (&json!("broken"), &json!("new")), "{list}");
}

#[test]
fn a_denied_step_ends_or_continues_the_run_and_has_a_receipt() {
    let home = home(&[]);
    let blocked = shell_step("bad", "rm -rf ~", "ON");
    let next = shell_step("next", "true", "");
    procedure(home.path(), "stops", &format!("{}{next}", blocked.replace("ON", "")));
    procedure(home.path(), "goes-on", &format!("{}{next}", blocked.replace("ON", "on_failure = \"continue\"")));
    let (status, text) = run(home.path(), &["sop", "run", "stops"]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("next (shell): open"), "{text}");
    let (status, text) = run(home.path(), &["sop", "run", "goes-on"]);
    assert_eq!(status, 10, "{text}");
    assert!(text.contains("bad (shell): failed") && text.contains("next (shell): done"), "{text}");
    let (_, receipts) = run(home.path(), &["receipt", "list"]);
    assert!(receipts.contains("denied"), "{receipts}");
    assert!(home.path().join("work").exists());
}

#[test]
fn values_reach_a_command_as_variables_and_run_nothing() {
    let home = home(&[]);
    let step = "[inputs.day]\n".to_owned()
        + &shell_step("say", "printf '<%s>' \"$DAY\"; export LEFT=1", "env_from = { DAY = \"input.day\" }")
        + &shell_step("later", "echo \"left:$LEFT.\"", "");
    procedure(home.path(), "says", &step);
    let evil = "day=\"; touch made; $(touch made) `touch made`";
    let (status, text) = run(home.path(), &["sop", "run", "says", "--input", evil, "--json"]);
    assert_eq!(status, 0, "{text}");
    let outputs: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["event"] == "ended")
        .map(|line| line["output"].clone())
        .collect();
    assert!(
        outputs[0].as_str().is_some_and(|it| it.contains("<\"; touch made; $(touch made) `touch made`>")),
        "{text}"
    );
    assert!(
        outputs[1].as_str().is_some_and(|it| it.contains("left:.")),
        "a step knows nothing of earlier commands: {text}"
    );
    assert!(!work(home.path(), "made").exists());
    let last: Value = text
        .lines()
        .rfind(|line| line.contains("\"exit\""))
        .map(|it| serde_json::from_str(it).expect("JSON"))
        .expect("a line");
    assert_eq!((&last["event"], &last["end"], &last["exit"]), (&json!("run"), &json!("done"), &json!(0)), "{text}");
}

/// Number of events in the journal of run 1.
fn events(home: &Path) -> i64 {
    let database = home.join(".local/share/reedclaw/reedclaw.db");
    let Ok(database) = rusqlite::Connection::open(database) else { return 0 };
    database.query_row("SELECT count(*) FROM run_event WHERE run = 1", [], |row| row.get(0)).unwrap_or(0)
}

/// Starts a process on a run, waits until it has written this many more events, and kills it. Returns whether it was killed.
fn killed_after(home: &Path, args: &[&str], more: i64) -> bool {
    let before = events(home);
    let mut child = command(home, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    loop {
        if child.try_wait().expect("it can be waited for").is_some() {
            return false;
        }
        if events(home) >= before + more {
            child.kill().expect("it is killed");
            child.wait().expect("it ends");
            return true;
        }
        // Shorter than the time for an event.
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn killed_after_every_event_of_its_journal_a_run_does_nothing_twice() {
    let home = home(&[]);
    let add = |id: &str| shell_step(id, &format!("echo {id} >> log"), "writes = [\"log\"]");
    let steps = ["one", "two", "three", "four"].map(add).concat();
    procedure(home.path(), "adds", &format!("mode = \"auto\"\n{steps}"));
    assert!(killed_after(home.path(), &["sop", "run", "adds"], 1));
    let shown = command(home.path(), &["sop", "status", "1"]).output().expect("it runs").stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("No process works on it: reedclaw sop resume 1 or the service"), "{shown}");
    let (mut kills, mut asked) = (1, 0);
    for more in (2..5).cycle().take(60) {
        let status = json_of(home.path(), &["sop", "status", "1", "--json"]);
        if status["state"] == "unknown" {
            asked += 1;
            let (exit, text) = run(home.path(), &["sop", "resume", "1"]);
            assert!(exit == 7 && text.contains("--step done") && !text.contains("resume 1 continues"), "{text}");
            let steps = status["steps"].as_array().expect("steps");
            let id = steps.iter().find(|step| step["state"] == "unknown").expect("a step")["id"].clone();
            let is_done = read(home.path(), "log").lines().any(|line| id == line);
            let word = if is_done { "done" } else { "again" };
            kills += i32::from(killed_after(home.path(), &["sop", "resume", "1", "--step", word], more + 1));
        } else if ["queued", "interrupted"].iter().any(|word| status["state"] == *word) {
            kills += i32::from(killed_after(home.path(), &["sop", "resume", "1"], more));
        }
    }
    let (_, text) = run(home.path(), &["sop", "log", "1"]);
    assert_eq!(read(home.path(), "log"), "one\ntwo\nthree\nfour\n", "{kills} kills, {asked} questions: {text}");
    assert!(kills >= 5, "{kills} kills: {text}");
    assert_eq!(json_of(home.path(), &["sop", "status", "1", "--json"])["state"], "done", "{text}");
    assert_eq!(run(home.path(), &["sop", "replay", "1"]).0, 0, "{text}");
    assert_eq!(run(home.path(), &["receipt", "verify"]).0, 0);
    // An engine that decides differently is found, with the event.
    let database = rusqlite::Connection::open(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("a store");
    let sql = "UPDATE run_event SET body = replace(body, '\"digest\":\"', '\"digest\":\"0') WHERE seq = (SELECT max(seq) FROM run_event)";
    assert_eq!(database.execute(sql, []).expect("it is changed"), 1);
    let (status, text) = run(home.path(), &["sop", "replay", "1"]);
    assert!(status == 1 && text.contains("would be another one today"), "{status} {text}");
}

#[test]
fn the_mode_decides_what_waits_and_a_changed_call_is_asked_about_anew() {
    let home = home(&[]);
    fs::write(work(home.path(), "in"), "first\n").expect("a file");
    let write = "[[steps]]\nid = \"write\"\nkind = \"tool\"\ntool = \"file_write\"\n\
        args = { path = \"out\", content = \"x\" }\n";
    let copy = "[[steps]]\nid = \"read\"\nkind = \"shell\"\ncommand = \"cat in\"\n\
        [[steps]]\nid = \"copy\"\nkind = \"tool\"\ntool = \"file_write\"\n\
        args = { path = \"copy\", content_from = \"read.stdout\" }\n";
    for (name, mode, status) in [("by-auto", "auto", 0), ("by-hand", "supervised", 7), ("by-step", "step", 7)] {
        let _ = fs::remove_file(work(home.path(), "out"));
        procedure(home.path(), name, &format!("mode = \"{mode}\"\n{write}"));
        let (ended, text) = run(home.path(), &["sop", "run", name]);
        assert_eq!(ended, status, "{name}: {text}");
        assert_eq!(work(home.path(), "out").exists(), status == 0, "{name}");
    }
    let (status, text) = run(home.path(), &["sop", "approve", "3"]);
    assert!(status == 0 && work(home.path(), "out").exists(), "the yes to the step is one to its call: {text}");
    // The file can never allow values from elsewhere.
    procedure(home.path(), "copies", &format!("mode = \"auto\"\n{copy}"));
    let (status, text) = run(home.path(), &["sop", "run", "copies"]);
    assert!(status == 7 && text.contains("copy") && text.contains("first"), "{text}");
    // The target has changed between the question and the yes: another difference is another call.
    fs::write(work(home.path(), "copy"), "somebody's\n").expect("a file");
    let (status, text) = run(home.path(), &["sop", "approve", "4"]);
    assert!(status == 7 || status == 0, "{text}");
    if status == 7 {
        assert_eq!(read(home.path(), "copy"), "somebody's\n");
        assert_eq!(run(home.path(), &["sop", "approve", "4"]).0, 0);
    }
    assert_eq!(read(home.path(), "copy"), "first\n");
}

#[test]
fn time_cancel_budget_and_the_emergency_stop_end_or_pause_a_run() {
    let home = home(&[json!({"steps": [{"text": "hello"}]})]);
    procedure(home.path(), "slow", &shell_step("nap", "sleep 60", "timeout_ms = 300"));
    let (status, text) = run(home.path(), &["sop", "run", "slow"]);
    assert!(status == 1 && text.contains("it took longer than 300 ms"), "{text}");
    procedure(home.path(), "long", &format!("{}{}", shell_step("nap", "sleep 60", ""), shell_step("next", "true", "")));
    let mut child = command(home.path(), &["sop", "run", "long", "--json"]).stdout(Stdio::piped()).spawn().expect("it");
    let lines = std::io::BufReader::new(child.stdout.take().expect("output"));
    let mut lines = std::io::BufRead::lines(lines).map_while(Result::ok);
    assert!(lines.any(|line| line.contains("\"begun\"")));
    let (status, text) = run(home.path(), &["sop", "cancel", "2"]);
    assert_eq!(status, 0, "{text}");
    lines.for_each(drop);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    procedure(
        home.path(),
        "asks",
        "budget = { tokens = 5 }\n[[steps]]\nid = \"a\"\nkind = \"model\"\nprompt = \"hi\"\n",
    );
    let (status, text) = run(home.path(), &["sop", "run", "asks"]);
    assert!(status == 5 && text.contains("budget"), "{text}");
    let (status, text) = run(home.path(), &["sop", "resume", "3", "--budget-tokens", "100000"]);
    assert_eq!(status, 0, "{text}");
    run(home.path(), &["estop"]);
    let (status, text) = run(home.path(), &["sop", "run", "long"]);
    assert!(status == 9 && text.contains("the emergency stop is on"), "{text}");
    let (status, text) = run(home.path(), &["sop", "resume", "4"]);
    assert_eq!(status, 9, "{text}");
}

#[test]
fn the_session_runs_procedures_in_the_persons_own_shell() {
    let home = daily();
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&home.path().join("work")).size(60, 110));
    session.expect_prompt();
    session.send(b":sop\r");
    session.expect_text("Runs a daily workspace check");
    session.send(b":sop run daily-check\r");
    session.expect_text("yes, no, or Enter to leave it open");
    session.send(b"\r");
    session.expect_text("reedclaw sop approve 1");
    assert!(!work(home.path(), "daily-check.txt").exists());
    session.expect_prompt();
    drop(session);
    let next = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&home.path().join("work")).size(60, 110));
    next.expect_text("[sop] run 1 of daily-check waits: Continue to write report?; :sop approve 1");
    // The subject of a yes is shown before it counts.
    next.expect_prompt();
    next.send(b":sop approve 1\r");
    next.expect_text("one file: note");
    next.expect_text("yes, no, or Enter to leave it open");
    assert!(!work(home.path(), "daily-check.txt").exists());
    next.send(b"yes\r");
    next.expect_text("Run 1 of daily-check: done");
    assert!(work(home.path(), "daily-check.txt").exists());
}

/// A procedure whose step is another procedure with an approval, and whose last step uses the output of that one.
fn nested(home: &Path) {
    let steps = [
        shell_step("greet", "echo hello $WHO", "env_from = { WHO = \"input.who\" }"),
        "[[steps]]\nid = \"may\"\nkind = \"approval\"\nprompt = \"May it?\"\n".into(),
        shell_step("count", "echo run >> runs", "writes = [\"runs\"]"),
        shell_step("last", "echo good day $WHO", "env_from = { WHO = \"input.who\" }"),
    ];
    procedure(home, "inner", &format!("mode = \"auto\"\n[inputs.who]\n{}", steps.concat()));
    let outer = "mode = \"auto\"\n[inputs.name]\n[[steps]]\nid = \"begin\"\nkind = \"sop\"\nsop = \"inner\"\n\
                 inputs = { who_from = \"input.name\" }\n";
    let keeps = "[[steps]]\nid = \"keep\"\nkind = \"tool\"\ntool = \"file_write\"\n\
                 args = { path = \"kept\", content_from = \"begin\" }\n";
    procedure(home, "outer", &format!("{outer}{keeps}"));
}

#[test]
fn a_step_runs_another_procedure_and_waits_as_that_one_waits() {
    let home = home(&[]);
    nested(home.path());
    let (status, text) = run(home.path(), &["sop", "run", "outer", "--input", "name=you; touch no"]);
    assert!(status == 7 && text.contains("run 2 of step begin waits"), "{status} {text}");
    let inner = json_of(home.path(), &["sop", "status", "2", "--json"]);
    assert_eq!((&inner["state"], &inner["trigger"]["parent"]), (&json!("waiting"), &json!(1)), "{inner}");
    // A yes to the outer run is a yes to what it waits for, and the outer run then continues up to its own question.
    let (status, text) = run(home.path(), &["sop", "approve", "1"]);
    assert!(status == 7 && text.contains("Run 1 of outer: waiting"), "{status} {text}");
    let (status, text) = run(home.path(), &["sop", "approve", "1"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(read(home.path(), "kept").trim(), "good day you; touch no");
    assert_eq!(read(home.path(), "runs"), "run\n");
    for id in ["1", "2"] {
        let (status, text) = run(home.path(), &["sop", "replay", id]);
        assert!(status == 0 && text.contains("would be the same"), "{text}");
    }
}

#[test]
fn the_end_of_an_inner_procedure_is_the_end_of_its_step() {
    let home = home(&[]);
    nested(home.path());
    run(home.path(), &["sop", "run", "outer", "--input", "name=you"]);
    let (status, text) = run(home.path(), &["sop", "reject", "2", "no"]);
    assert!(
        status == 3 && text.contains("Run 1 of outer: refused") && text.contains("run 2 ended as refused"),
        "{text}"
    );
    run(home.path(), &["sop", "run", "outer", "--input", "name=you"]);
    let (status, text) = run(home.path(), &["sop", "cancel", "3"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(json_of(home.path(), &["sop", "status", "4", "--json"])["state"], "cancelled");
    // An inner procedure that has changed isn't trusted any more, and the trust in the outer one doesn't cover it.
    let file = work(home.path(), "sops/inner/SOP.toml");
    fs::write(&file, fs::read_to_string(&file).expect("it") + "# more\n").expect("written");
    let (status, text) = run(home.path(), &["sop", "run", "outer", "--input", "name=you"]);
    assert!(status == 3 && text.contains("inner has changed since you trusted it"), "{status} {text}");
    assert!(!work(home.path(), "runs").exists() && !work(home.path(), "kept").exists());
}

#[test]
fn procedures_in_a_circle_and_unknown_ones_are_problems() {
    let home = home(&[]);
    let step = |name: &str| format!("[[steps]]\nid = \"a\"\nkind = \"sop\"\nsop = \"{name}\"\n");
    for (name, next) in [("one", "two"), ("two", "one"), ("three", "none")] {
        procedure(home.path(), name, &step(next));
    }
    let (status, text) = run(home.path(), &["sop", "validate"]);
    for part in ["two leads back to one", "one leads back to two", "there is no procedure none"] {
        assert!(status == 1 && text.contains(part), "{part}: {text}");
    }
    // Even without the check nothing runs for ever.
    let (status, text) = run(home.path(), &["sop", "run", "one"]);
    assert!(status == 2 && text.contains("leads back"), "{status} {text}");
}

#[test]
fn a_goal_is_a_step_and_only_its_check_lets_the_procedure_go_on() {
    let plan = json!({"when": "Plan the work", "steps": [{"text": "TASK: make it"}]});
    let calls = [("shell", json!({"command": "echo 1 > made"}))];
    let made = crate::changes::rounds("TASK 1: make it", &calls, "it is made");
    let answers = [plan, made, json!({"steps": [{"text": "it is made"}]})];
    let home = home(&answers);
    let goal = |check: &str| {
        format!(
            "[[steps]]\nid = \"work\"\nkind = \"norris\"\ngoal = \"make it\"\nchecks = [\"{check}\"]\n\
             writes = [\"made\"]\nbudget = {{ tokens = 100000 }}\n"
        )
    };
    let after = shell_step("after", "echo $END > after", "env_from = { END = \"work.end\" }\nwrites = [\"after\"]");
    procedure(home.path(), "good", &format!("{}{after}", goal("test -e made")));
    procedure(home.path(), "bad", &format!("{}{after}", goal("test -e other")));
    let (status, text) = run(home.path(), &["sop", "run", "good"]);
    assert_eq!((status, read(home.path(), "made").as_str()), (0, "1\n"), "{text}");
    assert_eq!(read(home.path(), "after"), "verified\n", "{text}");
    let (status, text) = run(home.path(), &["norris", "list"]);
    assert!(status == 0 && text.contains("make it") && text.contains("verified"), "{text}");
    fs::remove_file(work(home.path(), "after")).expect("removed");
    let (status, text) = run(home.path(), &["sop", "run", "bad"]);
    assert!(status == 1 && text.contains("ended as stuck") && !work(home.path(), "after").exists(), "{status} {text}");
    assert_eq!(run(home.path(), &["sop", "replay", "1"]).0, 0);
}

#[test]
fn an_inner_procedure_that_is_killed_is_taken_up_by_its_outer_one() {
    let home = home(&[]);
    let wait = "[ -e go ] || { : > begun; while [ ! -e go ]; do read -t 0.05 < <(:) ; done; }; echo once >> runs";
    let step = shell_step("slow", wait, "writes = [\"runs\", \"begun\"]\nidempotent = true");
    procedure(
        home.path(),
        "inner",
        &format!("mode = \"auto\"\n{}{step}", shell_step("first", "echo x >> firsts", "writes = [\"firsts\"]")),
    );
    procedure(home.path(), "outer", "mode = \"auto\"\n[[steps]]\nid = \"begin\"\nkind = \"sop\"\nsop = \"inner\"\n");
    let mut child = command(home.path(), &["sop", "run", "outer", "--json"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    let begun = |line: &String| line.contains("\"begun\"") && line.contains("\"slow\"");
    assert!(lines.by_ref().map_while(Result::ok).any(|line| begun(&line)), "it never began");
    child.kill().expect("killed");
    child.wait().expect("it ends");
    fs::write(work(home.path(), "go"), "").expect("a file");
    let (status, text) = run(home.path(), &["sop", "resume", "1"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!((read(home.path(), "firsts").as_str(), read(home.path(), "runs").as_str()), ("x\n", "once\n"), "{text}");
    assert_eq!(run(home.path(), &["sop", "replay", "2"]).0, 0);
}

#[test]
fn a_models_command_neither_approves_nor_trusts_a_procedure() {
    let program = program();
    let words =
        ["sop approve 1", "sop trust other", "norris approve 1"].map(|words| format!("{} {words}", program.display()));
    let direct = words.iter().map(|line| ("shell", json!({"command": line})));
    // A script hides its commands from the rules, so that the sandbox has to restrict it.
    let script = format!("printf '%s\\n' '{}' > x.sh; HOME=$HOME bash x.sh", words.join("' '"));
    let hidden = ("shell", json!({"command": script}));
    let again = ("shell", json!({"command": "bash x.sh; setsid bash x.sh < /dev/null"}));
    let calls: Vec<(&str, Value)> = direct.chain([hidden, again]).collect();
    let answers = [
        json!({"when": "output of step list; it is data", "steps": [{"text": "one file: note"}]}),
        crate::changes::rounds("please", &calls, "that was it"),
    ];
    let home = crate::changes::home(&answers, "security = {autonomy = \"full\"}");
    write(home.path(), "daily-check", &example());
    trust(home.path(), "daily-check");
    write(home.path(), "other", &format!("name = \"other\"\n{}", shell_step("a", "true", "")));
    assert_eq!(run(home.path(), &["sop", "run", "daily-check"]).0, 7);
    let (_, text) = run(home.path(), &["agent", "-m", "please"]);
    assert!(text.contains("that was it"), "{text}");
    let (_, receipts) = run(home.path(), &["receipt", "list"]);
    assert!(receipts.matches("shell").count() > calls.len(), "the calls were judged, and some ran: {receipts}");
    assert_eq!(json_of(home.path(), &["sop", "status", "1", "--json"])["state"], "waiting", "{text}");
    assert!(!work(home.path(), "daily-check.txt").exists(), "{text}");
    let other = json_of(home.path(), &["sop", "show", "other", "--json"]);
    assert_eq!(other["standing"], "new", "{other}");
}

#[test]
fn a_look_says_what_each_step_would_do_and_does_nothing() {
    let home = home(&[]);
    let steps = [
        shell_step("looks", "ls", ""),
        "[[steps]]\nid = \"ask\"\nkind = \"approval\"\nprompt = \"Go on?\"\n".into(),
        "[[steps]]\nid = \"write\"\nkind = \"tool\"\ntool = \"file_write\"\n\
            args = { path = \"out\", content = \"x\" }\n"
            .into(),
        "[[steps]]\nid = \"later\"\nkind = \"tool\"\ntool = \"file_write\"\n\
            args = { path = \"out\", content_from = \"looks\" }\n"
            .into(),
        shell_step("bad", "rm -rf ~", ""),
    ];
    write(home.path(), "many", &format!("name = \"many\"\n{}", steps.concat()));
    let (status, text) = run(home.path(), &["sop", "run", "many", "--dry-run"]);
    assert_eq!(status, 0, "{text}");
    for part in [
        "isn't trusted, so it wouldn't run",
        "step looks (shell) runs",
        "step ask (approval) waits for a person: Go on?",
        "step write (tool) waits for a person",
        "step later (tool) is judged later",
        "step bad (shell) is denied (blocked risk)",
        "Nothing has run.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let done = command(home.path(), &["sop", "run", "many", "--dry-run", "--json"]).output().expect("it runs");
    let seen: Vec<Value> = String::from_utf8_lossy(&done.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let outlooks = |seen: &[Value]| seen.iter().map(|it| it["outlook"].clone()).collect::<Vec<_>>();
    let seen = if let [Value::Array(items)] = &seen[..] { items.clone() } else { seen };
    assert_eq!(outlooks(&seen), ["run", "ask", "ask", "later", "deny"].map(Value::from));
    assert!(!work(home.path(), "out").exists());
    let (status, text) = run(home.path(), &["sop", "status"]);
    assert!(status == 0 && text.contains("No procedure has run yet"), "{text}");
}

#[test]
fn a_check_decides_by_its_status_and_a_run_begins_where_an_earlier_one_failed() {
    let home = home(&[]);
    let count = shell_step("count", "echo x >> counted; wc -l < counted", "writes = [\"counted\"]");
    let check = "[[steps]]\nid = \"ready\"\nkind = \"check\"\ncommand = \"cat ready\"\n";
    let last = shell_step("last", "echo \"$LINES_SEEN\" > out", "env_from = { LINES_SEEN = \"count.stdout\" }");
    let last = last + "writes = [\"out\"]\n";
    procedure(home.path(), "checked", &format!("mode = \"auto\"\n{count}{check}{last}"));
    let (status, text) = run(home.path(), &["sop", "run", "checked"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("the check `cat ready` ended with status 1: "), "{text}");
    assert_eq!(read(home.path(), "counted"), "x\n");

    fs::write(work(home.path(), "ready"), "yes\n").expect("a file");
    let (status, text) = run(home.path(), &["sop", "run", "checked", "--from", "1:last"]);
    assert!(status == 2 && text.contains("step ready isn't done in run 1"), "{text}");
    let (status, text) = run(home.path(), &["sop", "run", "checked", "--from", "1"]);
    assert!(status == 2 && text.contains("write --from RUN:STEP"), "{text}");
    let (status, text) = run(home.path(), &["sop", "run", "checked", "--from", "1:ready"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!((read(home.path(), "counted"), read(home.path(), "out").trim().to_owned()), ("x\n".into(), "1".into()));
    assert_eq!(run(home.path(), &["sop", "replay", "2"]).0, 0);
    let (status, text) = run(home.path(), &["sop", "log", "2"]);
    assert!(status == 0 && text.contains("began: count as in run 1"), "{text}");

    procedure(home.path(), "other", &shell_step("a", "true", ""));
    let (status, text) = run(home.path(), &["sop", "run", "other", "--from", "1:a"]);
    assert!(status == 2 && text.contains("run 1 isn't one of the procedure other"), "{text}");
    let (status, text) = run(home.path(), &["sop", "runs", "other"]);
    assert!(status == 0 && text.contains("The procedure other hasn't run yet."), "{text}");
    let runs = json_of(home.path(), &["sop", "runs", "checked", "--json"]);
    let states: Vec<&Value> = runs.as_array().expect("a list").iter().map(|run| &run["state"]).collect();
    assert_eq!(states, ["done", "failed"]);
}

#[test]
fn an_output_must_fit_its_schema_and_is_kept_as_far_as_it_is_wanted() {
    let answers = [
        json!({"when": "Count well.\n\nAnswer with one JSON value alone", "steps": [{"text": "```json\n{\"files\": 3}\n```"}]}),
        json!({"when": "Count badly", "steps": [{"text": "three files"}]}),
    ];
    let home = home(&answers);
    let schema =
        "schema = { type = \"object\", required = [\"files\"], properties = { files = { type = \"integer\" } } }";
    let model =
        |prompt: &str| format!("[[steps]]\nid = \"count\"\nkind = \"model\"\nprompt = \"{prompt}\"\n{schema}\n");
    let say = shell_step("say", "echo \"$N files\"", "env_from = { N = \"count.files\" }");
    procedure(home.path(), "well", &format!("{}{say}", model("Count well.")));
    let (status, text) = run(home.path(), &["sop", "run", "well"]);
    assert_eq!(status, 0, "{text}");
    let (_, log) = run(home.path(), &["sop", "log", "1", "--json"]);
    assert!(log.contains("3 files"), "{log}");

    procedure(home.path(), "badly", &format!("{}{say}", model("Count badly.")));
    let (status, text) = run(home.path(), &["sop", "run", "badly"]);
    assert!(status == 1 && text.contains("its output doesn't fit its schema"), "{text}");

    procedure(home.path(), "long", &shell_step("long", "seq 1 100000", "keep_bytes = 10"));
    let (status, text) = run(home.path(), &["sop", "run", "long"]);
    assert_eq!(status, 0, "{text}");
    let (_, log) = run(home.path(), &["sop", "log", "3", "--json"]);
    assert!(log.contains("\"outputBytes\":588894") && log.len() < 4_000, "{} bytes", log.len());
}
