//! A procedure of six steps that is killed before any system call: no step is done twice, and none is lost.

use std::path::Path;

use serde_json::json;

use crate::changes::{home, read, work};
use crate::kills::{KILLER, killer};
use crate::need::require;
use crate::sop::{command, json_of, procedure, run, shell_step};

/// Number of system calls between two kills; a smaller one is for a manual run.
const APART: usize = 61;
/// Maximum number of times that a killed run is resumed.
const RESUMED_MAX: usize = 4;

/// Resumes a killed run until it ends, and answers its questions as a person does who checks the files.
fn finish(home: &Path, what: &str) {
    for _ in 0..RESUMED_MAX {
        let status = json_of(home, &["sop", "status", "1", "--json"]);
        if status["state"] == "done" {
            return;
        }
        let steps = status["steps"].as_array().expect("steps");
        let unknown = steps.iter().find(|step| step["state"] == "unknown").and_then(|step| step["id"].as_str());
        let is_done = unknown.is_some_and(|id| read(home, "log").lines().any(|line| line == id));
        let step = ["--step", if is_done { "done" } else { "again" }];
        let asked = if status["state"] == "unknown" { &step[..] } else { &[] };
        let (exit, text) = run(home, &[&["sop", "resume", "1"], asked].concat());
        assert!(exit == 0 || exit == 7, "{what}: {exit} {text}");
    }
    panic!("{what}: it never ends");
}

fn check(home: &Path, what: &str) {
    let (_, log) = run(home, &["sop", "log", "1"]);
    assert_eq!(read(home, "log"), "one\nfour\nsix\n", "{what}: {log}");
    assert_eq!(read(home, "two"), "2", "{what}: {log}");
    for args in [&["sop", "replay", "1"][..], &["receipt", "verify"]] {
        let (status, text) = run(home, args);
        assert_eq!(status, 0, "{what}: {args:?}: {text}");
    }
}

#[test]
fn a_procedure_that_is_killed_anywhere_does_no_step_twice_and_loses_none() {
    if !require(&["cc"]) {
        return;
    }
    let (_place, library) = killer(KILLER);
    let apart = std::env::var("REEDCLAW_TEST_KILLS_APART").ok().and_then(|it| it.parse().ok()).unwrap_or(APART);
    let add = |id: &str| shell_step(id, &format!("echo {id} >> log"), "writes = [\"log\"]");
    let two =
        "[[steps]]\nid = \"two\"\nkind = \"tool\"\ntool = \"file_write\"\nargs = { path = \"two\", content = \"2\" }\n";
    let three = "[[steps]]\nid = \"three\"\nkind = \"model\"\nprompt = \"Say it.\"\n";
    let five = "[[steps]]\nid = \"five\"\nkind = \"check\"\ncommand = \"grep -q four log\"\n";
    let steps = [&add("one"), two, three, &add("four"), five, &add("six")].map(|it| it.to_owned()).concat();
    let mut kills = 0;
    for number in 0.. {
        let home = home(&[json!({"steps": [{"text": "said"}]})], "");
        procedure(home.path(), "six", &format!("mode = \"auto\"\n{steps}"));
        let before = (1 + number * apart).to_string();
        let mut begin = command(home.path(), &["sop", "run", "six"]);
        let output = begin.env("LD_PRELOAD", &library).env("KILL_BEFORE", &before).output().expect("it runs");
        if output.status.success() {
            assert!(kills > 5, "it was killed {kills} times only");
            check(home.path(), "not killed");
            return;
        }
        let what = format!("killed before call {before}");
        // Before its first event is stored there is no run, and nothing was done.
        if run(home.path(), &["sop", "status"]).1.contains("No procedure has run yet") {
            assert!(!work(home.path(), "log").exists(), "{what}");
            continue;
        }
        kills += 1;
        finish(home.path(), &what);
        check(home.path(), &what);
    }
}
