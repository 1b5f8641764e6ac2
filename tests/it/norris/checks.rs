//! Checks whose tests no command names: a run that passes only with changed tests is not verified.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{plan, run, shell};
use crate::changes::{home, read, work};
use crate::need::require;

/// A home with these files in its project, and a model that runs a command.
fn home_with(files: &[(&str, &str)], does: &str, rest: &str) -> TempDir {
    let home = home(&[plan(&["do it"]), shell("Rules: do only", &[does], "done")], rest);
    for (name, content) in files {
        let place = work(home.path(), name);
        fs::create_dir_all(place.parent().expect("a directory")).expect("a directory");
        fs::write(&place, content).expect("a file");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    home
}

fn check(home: &Path, command: &str, more: &[&str]) -> (i32, String) {
    run(home, &[&["norris", "make it", "--check", command][..], more].concat())
}

/// Scripts of the check, and programs that find their tests themselves, ran files that the model had changed.
#[test]
fn a_check_that_passes_only_with_changed_tests_verifies_nothing() {
    let all = ("all.sh", "for it in tests/*.sh; do bash $it || exit 1; done\n");
    let rust = "fn one() {}\n\n#[cfg(test)]\nmod tests {\n    const BAD: u8 = 0;\n}\n";
    let pytest = "#!/bin/sh\ntest -e made || test -s conftest.py\n";
    for (files, does, command, named) in [
        (
            &[("all.sh", "bash tests/a.sh\n"), ("tests/a.sh", "exit 1\n")][..],
            "echo exit 0 > tests/a.sh",
            "bash all.sh",
            "tests/a.sh",
        ),
        (&[all, ("tests/a.sh", "exit 1\n"), ("tests/b.sh", "exit 0\n")], "rm tests/a.sh", "bash all.sh", "tests/a.sh"),
        (
            &[("all.sh", "sh helper.sh\n"), ("helper.sh", "test -e made\n")],
            "echo exit 0 > helper.sh",
            "bash all.sh",
            "helper.sh",
        ),
        (
            &[("all.sh", "cat spec/*.txt | grep -q wanted\n"), ("spec/a.txt", "x\n")],
            "echo wanted > spec/a.txt",
            "bash all.sh",
            "spec/a.txt",
        ),
        (
            &[("all.sh", "! grep -q BAD src/lib.rs\n"), ("src/lib.rs", rust)],
            "sed -i s/BAD/GOOD/ src/lib.rs",
            "bash all.sh",
            "src/lib.rs",
        ),
        (&[("all.sh", "bin/pytest\n"), ("bin/pytest", pytest)], "echo x > conftest.py", "bash all.sh", "conftest.py"),
    ] {
        let home = home_with(files, does, "");
        let (status, text) = check(home.path(), command, &[]);
        assert_eq!(status, 6, "{does}: {text}");
        assert!(text.contains(&format!("passes only with changed tests ({named})")), "{does}: {text}");
        assert!(text.contains(&format!("  with the first version of {named}: status 1")), "{does}: {text}");
        assert!(text.contains("Task 1 (claimed)"), "{does}: {text}");
        let home = home_with(files, does, "");
        let (status, text) = check(home.path(), command, &["--allow-check-edits"]);
        assert!(status == 0 && text.contains("Task 1 (checked)"), "{does}: {text}");
    }
}

#[test]
fn tests_that_were_changed_and_pass_as_they_were_too_verify_the_run() {
    let files = [("all.sh", "bash tests/a.sh\n"), ("tests/a.sh", "test -e made\n")];
    let home = home_with(&files, "touch made; echo 'test -e all.sh' >> tests/a.sh", "");
    let (status, text) = check(home.path(), "bash all.sh", &[]);
    assert!(status == 0 && text.contains("  with the first version of tests/a.sh: status 0"), "{text}");
    assert_eq!(read(home.path(), "tests/a.sh"), "test -e made\ntest -e all.sh\n", "the change stays");
}

/// The person has seen exactly this change.
#[test]
fn a_change_of_tests_that_its_person_has_allowed_counts_as_the_first_version() {
    let files = [("all.sh", "! cat old/*/test_a >/dev/null\n"), ("old/deep/test_a", "x\n")];
    let home = home_with(&files, "rm -r old", "");
    let (status, text) = check(home.path(), "bash all.sh", &[]);
    assert_eq!(status, 7, "{text}");
    assert_eq!(run(home.path(), &["norris", "approve", "1"]).0, 0);
    let (status, text) = run(home.path(), &["norris", "resume", "1"]);
    assert!(status == 0 && !text.contains("first version"), "{status} {text}");
}

#[test]
fn without_the_first_version_of_a_changed_test_nothing_is_verified() {
    let files = [("all.sh", "bash tests/a.sh\n"), ("tests/a.sh", "exit 1\n")];
    let home = home_with(&files, "echo exit 0 > tests/a.sh", "undo = { enabled = false }");
    let (status, text) = check(home.path(), "bash all.sh", &[]);
    assert!(status == 6 && text.contains("couldn't run with the first version of tests/a.sh"), "{status} {text}");
}

#[test]
fn on_a_session_a_check_that_passes_only_with_changed_tests_verifies_nothing() {
    if !require(&["git"]) {
        return;
    }
    let files = [("all.sh", "bash tests/a.sh\n"), ("tests/a.sh", "exit 1\n")];
    let home = home_with(&files, "echo exit 0 > tests/a.sh", "");
    super::commits::repository(home.path());
    let (status, text) = check(home.path(), "bash all.sh", &["--session", "new"]);
    assert!(status == 6 && text.contains("passes only with changed tests (tests/a.sh)"), "{status} {text}");
}

/// A new file that `make` prefers to the existing one.
#[test]
fn a_new_file_in_place_of_the_one_that_a_program_reads_halts_the_run() {
    for name in ["GNUmakefile", "makefile"] {
        let does = format!("printf 'test:\\n\\ttrue\\n' > {name}");
        let home = home_with(&[("Makefile", "test:\n\ttest -e made\n")], &does, "");
        let (status, text) = check(home.path(), "make test", &[]);
        assert!(status == 7 && !work(home.path(), name).exists(), "{name}: {status} {text}");
    }
}

/// The model changed the file while the check ran, and the run was verified.
#[test]
fn background_jobs_end_before_the_checks() {
    let call = |arguments: Value| json!([{"tool_call": {"name": "shell", "arguments": arguments}}]);
    let job = "while test ! -e go; do sleep 0.05; done; echo bad > made";
    let task = json!({"when": "Rules: do only", "rounds": [
        call(json!({"command": "echo good > made"})), call(json!({"command": job, "background": true})), [{"text": "done"}]]});
    let home = home(&[plan(&["do it"]), task], "");
    let begin = ["norris", "make it", "--check", "grep good made"];
    let (mut child, lines) = super::people::begun(home.path(), &begin, "ended before the checks: `while test");
    fs::write(work(home.path(), "go"), "").expect("a file");
    let said: Vec<String> = lines.collect();
    assert_eq!(
        (child.wait().expect("it ends").code(), read(home.path(), "made")),
        (Some(0), "good\n".into()),
        "{said:?}"
    );
}

/// A virtual environment on `PATH`, or a tool of `npm`: the check's first word named no file.
#[test]
fn a_program_of_the_workspace_that_a_check_runs_by_its_name_is_its_input() {
    for (program, command) in [(".venv/bin/verify", "verify"), ("node_modules/.bin/verify", "npx verify")] {
        let does = format!("printf '#!/bin/sh\\nexit 0\\n' > {program}");
        let home = home_with(&[(program, "#!/bin/sh\nexit 1\n")], &does, "");
        let path = format!("{}:{}", work(home.path(), ".venv/bin").display(), crate::need::TEST_PATH);
        let mut begin = super::command(home.path(), &["norris", "make it", "--check", command]);
        let done = begin.env("PATH", path).output().expect("it runs");
        let text = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert_eq!(done.status.code(), Some(7), "{program}: {text}");
        assert!(read(home.path(), program).contains("exit 1"), "{text}");
    }
}
