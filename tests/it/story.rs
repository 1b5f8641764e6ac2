//! A bug is found and mended, from the question to the test that passes: in a small project with a real bug and a test that
//! fails, with a model that plays its part.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::changes::home;
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn};

/// Counts how long lines are. Its bug: a last line without a newline isn't counted.
const WIDEST: &str = r#"#!/bin/bash
# Prints the length of the longest line of each file, and the name of the file.
set -u

widest() {
    local longest=0 line
    while IFS= read -r line; do
        if (( ${#line} > longest )); then
            longest=${#line}
        fi
    done <"$1"
    printf '%s\t%s\n' "$longest" "$1"
}

for file in "$@"; do
    widest "$file"
done
"#;

const TESTS: &str = r#"#!/bin/bash
# Runs the tests; ends with the number of those that failed.
set -u
cd "$(dirname "$0")/.." || exit 99
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

expect() {
    local name=$1 wanted=$2 found
    found=$(bin/widest.sh "$work/$name" | cut -f1)
    if [[ $found == "$wanted" ]]; then
        echo "ok   $name"
    else
        echo "FAIL $name: wanted $wanted, found $found"
        failed=$((failed + 1))
    fi
}

printf 'one\nthree\n' >"$work/plain"
printf 'one\nlonger\n  x  \n' >"$work/blanks"
printf 'one\nthe longest' >"$work/no-newline"
: >"$work/empty"
expect plain 5
expect blanks 6
expect no-newline 11
expect empty 0
exit "$failed"
"#;

const OLD: &str = "    while IFS= read -r line; do\n";
const NEW: &str = "    while IFS= read -r line || [[ -n $line ]]; do\n";

fn rounds() -> Value {
    let call = |name: &str, arguments: Value| json!([{"tool_call": {"name": name, "arguments": arguments}}]);
    json!({"when": "longest", "rounds": [
        call("search_text", json!({"query": "longest", "path": "bin"})),
        call("file_read", json!({"path": "bin/widest.sh", "range": "5-13"})),
        call("shell", json!({"command": "bash tests/run.sh"})),
        call("edit_replace_exact", json!({"path": "bin/widest.sh", "old": OLD, "new": NEW})),
        call("shell", json!({"command": "bash tests/run.sh"})),
        [{"text": "`read` fails at a last line that has no newline, though it has read it. The loop takes such a line now; \
            all tests pass."}],
    ]})
}

#[test]
fn a_bug_is_mended_from_the_question_to_the_test_that_passes() {
    let home = home(&[rounds()], "");
    let work = home.path().join("work");
    fs::remove_dir(work.join(".git")).expect("the empty one");
    for (path, text) in [("bin/widest.sh", WIDEST), ("tests/run.sh", TESTS), ("README.md", "# widest\n")] {
        fs::create_dir_all(work.join(path).parent().expect("a parent")).expect("a directory");
        fs::write(work.join(path), text).expect("a file");
        fs::set_permissions(work.join(path), fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(&work).env_clear().env("PATH", TEST_PATH).env("HOME", home.path());
        let done = git.output().expect("git");
        assert!(done.status.success(), "{words:?} {done:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "widest"]);

    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&work).size(50, 120));
    session.expect_prompt();
    session.run("bash tests/run.sh");
    session.expect_text("FAIL no-newline: wanted 11, found 3");
    session.send(b"?why is the longest line wrong, and mend it\r");
    session.expect_text("Searching `longest` in `bin`");
    session.expect_text("Reading `bin/widest.sh`, lines 5 to 13");
    session.expect_text("Command requested: `bash tests/run.sh`");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("failed: it ended with status 1");
    session.expect_text("Preparing edits in `bin/widest.sh`");
    session.expect("the difference", |screen| {
        let text = screen.contents();
        text.contains("bin/widest.sh  +1 −1")
            && text.contains("  7     -     while IFS= read -r line; do")
            && text.contains("      7 +     while IFS= read -r line || [[ -n $line ]]; do")
            && text.contains("accept [y]")
    });
    session.send(b"y");
    session.expect_text("1 file, 1 line added, 1 removed");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("all tests pass.");
    session.expect_prompt();
    assert_eq!(fs::read_to_string(work.join("bin/widest.sh")).expect("the file"), WIDEST.replace(OLD, NEW));
    session.run("clear");
    session.run(":diff");
    session.expect_text("bin/widest.sh  +1 −1");
    session.run("clear");
    session.run("bash tests/run.sh");
    session.expect_line("ok   no-newline");
    session.run("echo failed=$?");
    session.expect_line("failed=0");
}
