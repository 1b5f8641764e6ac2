//! Procedures in rarer cases: interrupted in an edit or by the emergency stop, written by a model, with keys that tighten, waited
//! for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::changes::{home, read, rounds, work};
use crate::pty::program;
use crate::sop::{command, json_of, procedure, run, shell_step};

const WRITE: &str = "[[steps]]\nid = \"write\"\nkind = \"tool\"\ntool = \"file_write\"\nargs = { path = \"out\", content = \"new\\n\" }\n";

/// Removes the end of a step from the journal of run 1, as if its process had been killed before writing it.
fn cut_off(home: &Path, step: &str) {
    let database = rusqlite::Connection::open(home.join(".local/share/reedclaw/reedclaw.db")).expect("a store");
    let sql = "DELETE FROM run_event WHERE run = 1 AND seq >= (SELECT seq FROM run_event WHERE run = 1
        AND json_extract(body, '$.event') = 'ended' AND json_extract(body, '$.step') = ?1)";
    assert!(database.execute(sql, [step]).expect("rows") >= 1);
}

#[test]
fn an_edit_that_was_cut_off_is_recognised_by_its_file() {
    for (now, fate, status) in [("new\n", "Succeeded", 0), ("old\n", "NotBegun", 0), ("other\n", "Unknown", 7)] {
        // Without receipts only the file shows how it ended.
        let home = home(&[], "receipts = { enabled = false }");
        fs::write(work(home.path(), "out"), "old\n").expect("a file");
        procedure(home.path(), "writes", &format!("mode = \"auto\"\n{WRITE}"));
        assert_eq!(run(home.path(), &["sop", "run", "writes"]).0, 0);
        cut_off(home.path(), "write");
        fs::write(work(home.path(), "out"), now).expect("a file");
        let (ended, text) = run(home.path(), &["sop", "resume", "1"]);
        assert_eq!(ended, status, "{fate}: {text}");
        let (_, log) = run(home.path(), &["sop", "log", "1"]);
        assert!(log.contains(&format!("examined write: {fate}")), "{log}");
        assert_eq!(read(home.path(), "out"), if fate == "Unknown" { "other\n" } else { "new\n" }, "{log}");
        assert_eq!(run(home.path(), &["sop", "replay", "1"]).0, 0);
    }
}

#[test]
fn the_emergency_stop_ends_a_step_and_the_run_goes_on_afterwards() {
    let home = home(&[], "");
    let first = shell_step("one", "[ -e go ] || sleep 600; echo one >> log", "writes = [\"log\"]\nidempotent = true");
    let second = shell_step("two", "echo two >> log", "writes = [\"log\"]");
    procedure(home.path(), "slow", &format!("mode = \"auto\"\n{first}{second}"));
    let mut child = command(home.path(), &["sop", "run", "slow"]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    while !run(home.path(), &["receipt", "list"]).1.contains("intent") {}
    assert_eq!(run(home.path(), &["estop"]).0, 0);
    let done = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(9), "{text}");
    assert!(!work(home.path(), "log").exists(), "{text}");
    assert_eq!(run(home.path(), &["sop", "resume", "1"]).0, 9, "it is still on");
    reedclaw::estop::Estop::new(home.path().join(".local/state/reedclaw")).clear().expect("the stop is cleared");
    fs::write(work(home.path(), "go"), "").expect("a file");
    let (status, text) = run(home.path(), &["sop", "resume", "1"]);
    assert_eq!((status, read(home.path(), "log").as_str()), (0, "one\ntwo\n"), "{text}");
}

#[test]
fn a_model_writes_no_procedure_and_no_unit_in_any_mode() {
    let text = "name = \"evil\"\n[[steps]]\nid = \"a\"\nkind = \"shell\"\ncommand = \"true\"\n";
    let unit = "~/.config/systemd/user/reedclaw.service";
    let calls = [
        ("file_write", json!({"path": "sops/evil/SOP.toml", "content": text})),
        ("file_write", json!({"path": "sops/mine/helper.sh", "content": "echo evil\n"})),
        ("edit_replace_exact", json!({"path": "sops/mine/SOP.toml", "old": "echo mine", "new": "echo evil"})),
        ("shell", json!({"command": "mkdir -p sops/evil; printf 'name = 1' > sops/evil/SOP.toml"})),
        ("shell", json!({"command": "d=sops; n=SOP; mkdir -p $d/evil; echo x > $d/evil/$n.toml"})),
        ("file_write", json!({"path": unit, "content": "[Service]\n"})),
        ("shell", json!({"command": format!("mkdir -p ~/.config/systemd/user; echo x > {unit}")})),
        ("shell", json!({"command": format!("{} sop trust mine", program().display())})),
        ("shell", json!({"command": format!("{} service install", program().display())})),
        ("file_read", json!({"path": "sops/mine/SOP.toml"})),
    ];
    let home = home(&[rounds("please", &calls, "that was it")], "security = { autonomy = \"full\" }");
    procedure(home.path(), "mine", &shell_step("a", "echo mine", ""));
    let before = fs::read_to_string(work(home.path(), "sops/mine/SOP.toml")).expect("a file");
    let (_, text) = run(home.path(), &["--path", ".", "agent", "-m", "please"]);
    assert!(text.contains("that was it"), "{text}");
    assert!(!work(home.path(), "sops/evil/SOP.toml").exists(), "{text}");
    assert!(!work(home.path(), "sops/mine/helper.sh").exists(), "{text}");
    assert!(!home.path().join(".config/systemd/user/reedclaw.service").exists(), "{text}");
    assert_eq!(fs::read_to_string(work(home.path(), "sops/mine/SOP.toml")).expect("a file"), before);
    let receipts = fs::read_to_string(home.path().join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    assert!(receipts.matches("\"kind\":\"denied\"").count() >= 6, "{receipts}");
    assert!(
        receipts.lines().any(|line| line.contains("file_read") && line.contains("intent")),
        "it may read: {receipts}"
    );
}

#[test]
fn keys_of_the_file_tighten_what_a_run_may_do() {
    let home = home(&[], "sop = { budget = { minutes = 5 } }, security = { autonomy = \"full\" }");
    let write = shell_step("write", "echo x > out", "");
    procedure(home.path(), "free", &write);
    procedure(home.path(), "looks", &format!("autonomy = \"readonly\"\n{write}"));
    let (status, text) = run(home.path(), &["sop", "run", "looks"]);
    assert!(
        status == 1 && text.contains("mode is \"readonly\"") && !work(home.path(), "out").exists(),
        "{status}: {text}"
    );
    let (status, text) = run(home.path(), &["sop", "run", "free"]);
    assert_eq!((status, read(home.path(), "out").as_str()), (0, "x\n"), "{text}");

    // The time limit of a run includes the time that it waits.
    let asks = "[[steps]]\nid = \"ask\"\nkind = \"approval\"\nprompt = \"Go on?\"\n";
    procedure(home.path(), "late", &format!("timeout_minutes = 1\n{asks}{write}"));
    assert_eq!(run(home.path(), &["sop", "run", "late"]).0, 7);
    let database = rusqlite::Connection::open(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("a store");
    database.execute("UPDATE run_event SET time = time - 61000 WHERE run = 3", []).expect("an hour passes");
    let (status, text) = run(home.path(), &["sop", "approve", "3"]);
    assert!(status == 5 && text.contains("time: it began 1 minutes ago"), "{status}: {text}");

    // A file can lower the config's limits, but not raise them.
    procedure(home.path(), "much", &format!("budget = {{ minutes = 60 }}\n{write}"));
    assert_eq!(run(home.path(), &["sop", "run", "much"]).0, 0);
    let (_, log) = run(home.path(), &["sop", "log", "4", "--json"]);
    assert!(log.contains("\"most\":{\"minutes\":5.0"), "{log}");

    let wrong = "version = 2\nautonomy = \"full\"\nworkspace = \"/tmp\"\noverlap = \"both\"\ntimeout_minutes = 2000\n";
    fs::create_dir_all(work(home.path(), "sops/wrong")).expect("a directory");
    let file = work(home.path(), "sops/wrong/SOP.toml");
    fs::write(&file, format!("name = \"wrong\"\n{wrong}{write}")).expect("a file");
    let (status, text) = run(home.path(), &["sop", "validate", "sops/wrong/SOP.toml"]);
    assert_eq!(status, 1, "{text}");
    for part in ["SOP.toml:2: version 2", "SOP.toml:3: autonomy", "SOP.toml:5: overlap", "SOP.toml:6: timeout_minutes"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    fs::write(&file, format!("name = \"wrong\"\nworkspace = \"/tmp\"\n{write}")).expect("a file");
    let (status, text) = run(home.path(), &["sop", "validate", "wrong"]);
    assert!(status == 1 && text.contains("SOP.toml:2: a project's procedure works in its project"), "{text}");
    let (status, text) = run(home.path(), &["sop", "validate", "sops/nowhere/SOP.toml"]);
    assert!(status == 2 && text.contains("sops/nowhere/SOP.toml"), "{text}");
}

#[test]
fn an_approval_without_covers_covers_the_calls_up_to_the_next_one() {
    let home = home(&[], "");
    let ask = |id: &str| format!("[[steps]]\nid = \"{id}\"\nkind = \"approval\"\nprompt = \"Go on?\"\n");
    let write =
        |id: &str| WRITE.replace("write\"\nkind", &format!("{id}\"\nkind")).replace("\"out\"", &format!("\"{id}\""));
    let steps = [ask("first"), write("a"), write("b"), ask("second"), write("c")].concat();
    procedure(home.path(), "many", &steps);
    let (status, text) = run(home.path(), &["sop", "run", "many"]);
    assert!(
        status == 7 && text.contains("write `a`") && text.contains("write `b`") && !text.contains("write `c`"),
        "{text}"
    );
    let (status, text) = run(home.path(), &["sop", "approve", "1"]);
    assert!(status == 7 && work(home.path(), "b").exists() && !work(home.path(), "c").exists(), "{text}");
    assert_eq!(run(home.path(), &["sop", "approve", "1"]).0, 0);
    assert_eq!(read(home.path(), "c"), "new\n");
}

#[test]
fn a_waiting_process_sees_an_end_by_another_process() {
    let home = home(&[], "");
    let ask = "[[steps]]\nid = \"ask\"\nkind = \"approval\"\nprompt = \"Go on?\"\n";
    procedure(home.path(), "asks", ask);
    let mut child = command(home.path(), &["sop", "run", "asks", "--wait", "--json"]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    while run(home.path(), &["sop", "approve", "1"]).0 != 0 {}
    let done = child.wait_with_output().expect("it ends");
    let last = String::from_utf8_lossy(&done.stdout).lines().last().map(str::to_owned).unwrap_or_default();
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!((done.status.code(), &last["end"]), (Some(0), &json!("done")), "{last}");
    let (status, text) = run(home.path(), &["sop", "replay", "1", "--to", "ask"]);
    assert!(status == 0 && text.contains("ask (approval): done"), "{text}");
    let (status, text) = run(home.path(), &["sop", "replay", "1", "--to", "nothing"]);
    assert!(status == 2 && text.contains("did nothing about a step nothing"), "{text}");
    let state = json_of(home.path(), &["sop", "show", "asks", "--json"]);
    assert_eq!(state["steps"][0]["outlook"], "ask", "{state}");
}

#[test]
fn old_runs_are_deleted_and_a_moment_still_begins_one() {
    let home = home(&[], "sop = { keep_runs = 2 }");
    procedure(home.path(), "plain", "[[steps]]\nid = \"a\"\nkind = \"wait\"\nseconds = 0\n");
    procedure(home.path(), "asks", "[[steps]]\nid = \"a\"\nkind = \"approval\"\nprompt = \"Go on?\"\n");
    assert_eq!(run(home.path(), &["sop", "run", "asks"]).0, 7);
    for _ in 0..4 {
        assert_eq!(run(home.path(), &["sop", "run", "plain"]).0, 0);
        assert_eq!(run(home.path(), &["sop", "run", "asks"]).0, 7);
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in json_of(home.path(), &["sop", "status", "--json"]).as_array().expect("a list") {
        *counts.entry(line["name"].as_str().expect("a name").to_owned()).or_default() += 1;
    }
    // A waiting run is never deleted. The newest of the finished ones began after the check for old ones.
    assert_eq!(counts, [("asks".to_owned(), 5), ("plain".to_owned(), 2)].into());
}

#[test]
fn init_makes_an_example_that_is_right_and_not_trusted() {
    let home = crate::home::TestHome::for_commands().directory("work").done();
    let (status, text) = run(home.path(), &["init"]);
    assert!(status == 0 && text.contains("sops/example/SOP.toml: made"), "{text}");
    let place = home.path().join("reedclaw-workspace");
    let place = place.to_str().expect("a path");
    let (status, text) = run(home.path(), &["--path", place, "sop", "validate"]);
    assert_eq!(status, 0, "{text}");
    let list = json_of(home.path(), &["--path", place, "sop", "list", "--json"]);
    assert_eq!((&list[0]["name"], &list[0]["standing"]), (&json!("example"), &json!("new")), "{list}");
    let (status, text) = run(home.path(), &["init"]);
    assert!(status == 0 && text.contains("stays as it is"), "{text}");
}
