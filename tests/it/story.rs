//! A bug is found and fixed, from the question to the passing test, and everything is undone: in a small project with a bug and a
//! failing test, and in the sources of a widely used library, with a model that plays its part.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::changes::home;
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn};

/// Prints the length of the longest line. Its bug: a last line without a newline isn't counted.
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

/// The output of git in a directory, with no config except the repository's.
pub fn git(work: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(words).current_dir(work).env_clear().env("PATH", TEST_PATH).env("HOME", "/nonexistent");
    let done = git.output().expect("git");
    assert!(done.status.success(), "{words:?} {done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Makes a repository of a directory, with all of it in one commit.
pub fn committed(work: &Path) {
    git(work, &["init", "-q", "-b", "main"]);
    git(work, &["add", "."]);
    git(work, &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "all"]);
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
    committed(&work);

    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&work).size(50, 120));
    session.expect_prompt();
    session.run("bash tests/run.sh");
    session.expect_text("FAIL no-newline: wanted 11, found 3");
    session.send(b"?why is the longest line wrong, and mend it\r");
    session.expect_text("Searching `longest` in `bin`");
    session.expect_text("Reading `bin/widest.sh`, lines 5 to 13");
    // It changes nothing, so the person isn't asked.
    session.expect_text("Command requested: `bash tests/run.sh`");
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
    session.run("clear");
    session.run(":undo");
    session.expect_text("Undid step");
    session.run("clear");
    session.run("bash tests/run.sh");
    session.expect_text("FAIL no-newline: wanted 11, found 3");
    assert_eq!(fs::read_to_string(work.join("bin/widest.sh")).expect("the file"), WIDEST);
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
}

/// What `parse_double` of the crate shlex (MIT or Apache-2.0) does with a backslash before a newline in double quotes.
const CONTINUED: &str =
    "                                // \\<newline> => nothing\n                                '\\n' => {},\n";
const BEFORE_IT: &str = "                                // \\x => =x\n";
/// Runs the crate's own tests, without a registry.
const CHECK: &str = "#!/bin/sh\nrustc --edition 2018 --cfg 'feature=\"std\"' --test -o tested src/lib.rs && ./tested --test-threads 1\n";

pub fn rustc(words: &[&str]) -> String {
    let program = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let done = Command::new(program).args(words).output().expect("rustc");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// The sources of a crate that this one is built with.
fn sources(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    let about = rustc(&["-vV"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("the host");
    // Dependencies for other systems were never fetched.
    cargo.args(["metadata", "--offline", "--format-version", "1", "--filter-platform", host]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    let done = cargo.output().expect("cargo");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let metadata: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let manifests = packages.iter().filter(|it| it["name"] == name).map(|it| it["manifest_path"].as_str());
    let newest = manifests.flatten().max().expect("the crate");
    Path::new(newest).parent().expect("a directory").to_owned()
}

/// Puts the library into `work` of a home, with a script that runs its tests; returns the directory, and the present text of
/// `src/bytes.rs`.
pub fn shlex(home: &Path) -> (PathBuf, String) {
    let (work, library) = (home.join("work"), sources("shlex"));
    fs::create_dir_all(work.join("src")).expect("a directory");
    for name in ["Cargo.toml", "README.md", "src/bytes.rs", "src/lib.rs", "src/quoting_warning.md"] {
        fs::write(work.join(name), fs::read(library.join(name)).expect(name)).expect("a file");
    }
    fs::write(work.join("check"), CHECK).expect("a script");
    fs::set_permissions(work.join("check"), fs::Permissions::from_mode(0o755)).expect("permissions");
    let whole = fs::read_to_string(work.join("src/bytes.rs")).expect("the source");
    (work, whole)
}

#[test]
fn a_bug_of_a_library_is_mended_and_undo_reverts_everything() {
    let call = |name: &str, arguments: Value| json!([{"tool_call": {"name": name, "arguments": arguments}}]);
    let home = home(
        &[json!({"when": "backslash", "rounds": [
            call("search_text", json!({"query": "fn parse_double", "path": "src"})),
            call("file_read", json!({"path": "src/bytes.rs", "range": "82-110"})),
            call("shell", json!({"command": "./check"})),
            call("edit_replace_exact", json!({"path": "src/bytes.rs", "old": BEFORE_IT,
                "new": format!("{CONTINUED}{BEFORE_IT}")})),
            call("shell", json!({"command": "./check"})),
            [{"text": "Inside double quotes a backslash before a newline was kept; both go now, and all tests pass."}],
        ]})],
        "limits = {shell_ms = 120000}",
    );
    fs::remove_dir(home.path().join("work/.git")).expect("the empty one");
    let (work, whole) = shlex(home.path());
    let broken = whole.replacen(CONTINUED, "", 1);
    assert_ne!(broken, whole, "the crate has changed: choose another bug");
    fs::write(work.join("src/bytes.rs"), &broken).expect("the bug");
    committed(&work);
    let path = format!("{}/bin:{TEST_PATH}", rustc(&["--print", "sysroot"]));

    let spawn = Spawn::reedclaw().home(home.path()).cwd(&work).size(50, 120).env("PATH", &path);
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session.send(b"?why does a backslash before a newline stay in a quoted word, and mend it\r");
    session.expect_text("Searching `fn parse_double` in `src`");
    session.expect_text("accept [y]");
    session.send(b"y");
    session.expect_text("failed: it ended with status 101");
    session.expect("the difference", |screen| {
        let text = screen.contents();
        text.contains("src/bytes.rs  +2 −0")
            && text.contains("// \\<newline> => nothing")
            && text.contains("accept [y]")
    });
    session.send(b"y");
    session.expect_text("1 file, 2 lines added");
    session.expect_text("accept [y]");
    session.send(b"y");
    session.expect_text("and all tests pass.");
    session.expect_prompt();
    assert_eq!(fs::read_to_string(work.join("src/bytes.rs")).expect("the file"), whole);
    session.run("clear");
    session.run("./tested | tail -n 2");
    session.expect_text("test result: ok.");
    session.run("clear");
    session.run(":steps");
    session.expect_text("src/bytes.rs");
    session.run(":undo 3");
    session.expect_text("Undid");
    assert_eq!(fs::read_to_string(work.join("src/bytes.rs")).expect("the file"), broken);
    assert_eq!(git(&work, &["status", "--porcelain"]), "", "the program that the tests made has gone too");
}
