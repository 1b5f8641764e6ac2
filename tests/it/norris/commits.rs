//! A run on a git session: a commit for each task, the report as the last turn, the checkout untouched.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{plan, run, shell};
use crate::changes::{home, work};
use crate::need::require;

/// Runs git in a home's project; returns what it printed.
fn git(home: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let output = Command::new("git").args(who).args(args).current_dir(home.join("work")).output().expect("git runs");
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes a home's project a repository with one commit of all its files.
pub(super) fn repository(home: &Path) {
    std::fs::remove_dir(work(home, ".git")).expect("an empty directory");
    git(home, &["init", "-q"]);
    git(home, &["add", "."]);
    git(home, &["commit", "-q", "--allow-empty", "-m", "first"]);
}

#[test]
fn a_run_on_a_session_makes_a_commit_for_each_task_and_leaves_the_checkout_alone() {
    if !require(&["git"]) {
        return;
    }
    let write = |name: &str| ("file_write", json!({"path": name, "content": "x\n"}));
    let answers = [
        plan(&["write one", "write two"]),
        crate::changes::rounds("TASK 1: write one", &[write("one")], "one is there"),
        shell("TASK 2: write two", &["cat one > two"], "two is there"),
    ];
    let home = home(&answers, "");
    repository(home.path());
    let git = |args: &[&str]| git(home.path(), args);
    let check = "test -e one && test -e two";
    let (status, text) = run(home.path(), &["norris", "make two files", "--check", check, "--session", "new"]);
    assert_eq!(status, 0, "{text}");
    assert!(!work(home.path(), "one").exists() && !work(home.path(), "two").exists(), "{text}");
    let branch = git(&["for-each-ref", "--format=%(refname)"]);
    let branch = branch.lines().find(|name| name.contains("reedclaw")).expect("a branch of the session").to_owned();
    let log = git(&["log", "--format=%s", &branch]);
    let subjects: Vec<&str> = log.lines().collect();
    assert_eq!(&subjects[..3], ["report of run 1: verified", "write two", "write one"], "{log}");
    let report = git(&["log", "-1", "--format=%b", &branch]);
    assert!(report.contains("Run 1: verified"), "{report}");
    assert_eq!(git(&["show", &format!("{branch}:two")]), "x\n");
    let session = text.split("Its work is session ").nth(1).and_then(|it| it.split(':').next()).expect("its name");
    let (status, text) = run(home.path(), &["session", "apply", session, "--yes"]);
    assert!(status == 0 && work(home.path(), "two").exists(), "{text}");
    // All commits of the run are undone at once, and can be restored.
    let (status, text) = run(home.path(), &["norris", "undo", "1"]);
    assert!(status == 0 && text.contains("is at turn 0, as before run 1"), "{text}");
    assert_eq!(git(&["ls-tree", "--name-only", &branch, "one", "two"]), "");
    let (status, text) = run(home.path(), &["norris", "undo", "1"]);
    assert!(status == 2 && text.contains("it was undone"), "{status} {text}");
    let (status, text) = run(home.path(), &["session", "undo", session]);
    assert_eq!((status, git(&["show", &format!("{branch}:two")])), (0, "x\n".into()), "{text}");
}
