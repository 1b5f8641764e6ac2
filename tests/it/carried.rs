//! The state that passes from one command of a model to the next: the directory and the definitions of its shell, but no
//! process. The built executable runs with a scripted model.

use std::fs;

use serde_json::Value;

use crate::wall::{output, results, scene};

/// The shell looked for a directory of the private `/tmp` on the machine's disk: `rm -rf ./*` was judged as `/tmp/*`, and denied.
#[test]
fn a_directory_in_the_private_tmp_is_where_the_next_command_starts() {
    let commands = ["cd \"$(mktemp -d)\" && mkdir k && cd k && echo x > f && pwd", "rm -rf ./* && ls -A && pwd"];
    let home = scene(&commands, "security = {autonomy = \"full\"}");
    let results = results(home.path());
    let at = output(&results[0]);
    assert!(at.starts_with("/tmp/tmp.") && at.ends_with("/k"), "{results:?}");
    assert_eq!(output(&results[1]), at, "{results:?}");
}

#[test]
fn a_directory_that_is_not_kept_is_reported_with_the_next_one() {
    let made = "mkdir -p d/e && cd d/e && echo x > f";
    let lost = "cd \"$(mktemp -d)\"";
    for (security, command) in [("autonomy = \"readonly\"", made), ("autonomy = \"full\", tier = \"bubblewrap\"", lost)]
    {
        let home = scene(&[command, "pwd"], &format!("security = {{{security}}}"));
        let workspace = home.path().canonicalize().expect("a path").join("work").display().to_string();
        let results = results(home.path());
        let told = format!(" isn't kept; the next command starts in {workspace}]");
        assert!(output(&results[0]).ends_with(&told), "{security}: {results:?}");
        assert_eq!(results[0]["metadata"]["cwd"], workspace, "{security}");
        assert_eq!(output(&results[1]), workspace, "{security}");
    }
}

/// The directory existed for the command that was judged, but not in the files with which it would have run.
#[test]
fn a_command_whose_directory_is_gone_does_not_start_elsewhere() {
    let commands = ["cd \"$(mktemp -d)\" && mkdir k && cd k", "rmdir ../k", "touch \"$PWD/here\"; echo ran", "pwd"];
    let home = scene(&commands, "security = {autonomy = \"full\"}");
    let results = results(home.path());
    assert!(output(&results[2]).contains("it didn't start: its directory isn't there"), "{results:?}");
    assert!(results[2]["success"] == false && !output(&results[2]).contains("ran"), "{results:?}");
    assert!(!fs::exists(home.path().join("work/here")).expect("a look"), "{results:?}");
    assert_eq!(output(&results[3]), home.path().canonicalize().expect("a path").join("work").display().to_string());
}

/// Only `sleep 50 &` was reported, and the other ways to the background weren't.
#[test]
fn processes_that_end_with_their_command_are_reported() {
    let commands = [
        "(sleep 50.7507 &); echo a",
        "nohup sleep 50.7507 >/dev/null 2>&1 & disown; echo b",
        "setsid -f sleep 50.7507; echo c",
        "sleep 50.7507 & echo d",
        "echo e | cat",
    ];
    for tier in ["overlay", "bubblewrap", "landlock"] {
        let home = scene(&commands, &format!("security = {{autonomy = \"full\", tier = \"{tier}\"}}"));
        let results = results(home.path());
        let left: Vec<_> = results.iter().map(|it| it["metadata"]["ended_in_background"].clone()).collect();
        // In the tier of Landlock a program can't leave the session.
        let of_setsid = if tier == "landlock" { Value::Null } else { 1.into() };
        assert_eq!(left[..4], [1.into(), 1.into(), of_setsid, 1.into()], "{tier}: {results:?}");
        assert!(left[4].is_null(), "{tier}: {left:?}");
        assert_eq!(processes_of("50.7507"), 0, "{tier}");
    }
}

/// The number of processes with a word in their command line.
fn processes_of(word: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|it| it == word.as_bytes())).count()
}
