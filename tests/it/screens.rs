//! Whole screens as a person sees them, beside each other in `tests/it/snapshots`: a change of wording appears there as one
//! difference to review. `cargo insta test --accept`, or `INSTA_UPDATE=always cargo test screens`, accepts new texts.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::changes::{batch, home, numbered, rounds};
use crate::home::{TestHome, run};
use crate::pty::{Session, Spawn};

/// Compares a text with its snapshot.
macro_rules! shown {
    ($name:literal, $text:expr) => {
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!($name, $text);
        });
    };
}

/// The text without the parts that differ between runs and users: the home, the user, measured times, blanks at the ends of
/// lines.
fn steady(text: &str, home: &Path) -> String {
    let text = text.replace(&home.display().to_string(), "/home/you");
    let mut made = String::new();
    for line in text.lines() {
        // For root the prompt contains user and machine.
        let line = line.strip_prefix("root@").and_then(|rest| rest.split_once("# ")).map_or(line, |(_, rest)| rest);
        let mut words: Vec<&str> = line.trim_end().split(' ').collect();
        for at in 1..words.len() {
            let is_unit = matches!(words[at].trim_end_matches(','), "ms" | "s");
            if is_unit && words[at - 1].chars().all(|c| c.is_ascii_digit() || c == '.') {
                words[at - 1] = "N";
            }
        }
        made.push_str(&words.join(" "));
        made.push('\n');
    }
    made.trim_end().to_owned()
}

/// Makes a project with its own repository, since the directory of the tests is inside another one. Returns the project's
/// directory.
fn repository(home: &Path) -> PathBuf {
    let project = home.join("code");
    let made = std::process::Command::new("git").args(["init", "-q", "-b", "main"]).arg(&project).status();
    assert!(made.expect("git runs").success());
    project
}

/// A session in a project whose model makes these calls when it is asked to `please`.
fn asked(calls: &[(&str, Value)], rest: &str, until: &str) -> (TempDir, Session) {
    let home = home(&[rounds("please", calls, "that was it")], rest);
    let project = repository(home.path());
    fs::write(project.join("a.txt"), numbered(30)).expect("a file");
    fs::write(project.join("b.txt"), "old\n").expect("a file");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(until);
    (home, session)
}

fn session(home: &Path) -> Session {
    let session = Session::spawn(Spawn::reedclaw().home(home).cwd(&home.join("code")).size(40, 160));
    session.expect_prompt();
    session
}

fn shell(command: &str) -> [(&'static str, Value); 1] {
    [("shell", json!({"command": command}))]
}

#[test]
fn question_before_a_command() {
    let (home, session) = asked(&shell("rm -r old && echo done"), "security = {sandbox = \"off\"}", "run once [y]");
    shown!("question_before_a_command", steady(&session.screen_text(), home.path()));
}

#[test]
fn question_about_a_commands_changes() {
    let command = "sed -i 's/line 5$/line five/' a.txt; rm b.txt; mkdir src; echo new > src/c.txt; echo x > .envrc";
    let (home, session) = asked(&shell(command), "", "accept [y]");
    shown!("question_about_a_commands_changes", steady(&session.screen_text(), home.path()));
    session.send(b"n");
    session.expect_text("that was it");
    session.expect_prompt();
    shown!("changes_of_a_command_rejected", steady(&session.screen_text(), home.path()));
}

#[test]
fn question_about_the_network() {
    let (home, session) = asked(&shell("bash -c 'exec 3<>/dev/tcp/nowhere.example/80'"), "", "run once [y]");
    shown!("question_about_the_network", steady(&session.screen_text(), home.path()));
}

#[test]
fn question_about_edits() {
    let (home, session) = asked(&[("edit_apply_batch", batch())], "", "accept [y]");
    shown!("question_about_edits", steady(&session.screen_text(), home.path()));
    session.send(b"h");
    session.expect_text("take [y]");
    shown!("question_about_a_hunk", steady(&session.screen_text(), home.path()));
}

#[test]
fn refused_command() {
    let (home, session) = asked(&shell("rm -rf /"), "", "that was it");
    session.expect_prompt();
    shown!("refused_command", steady(&session.screen_text(), home.path()));
}

#[test]
fn lines_that_steer_the_shell() {
    let home = TestHome::for_commands().config("").done();
    repository(home.path());
    let session = session(home.path());
    for line in [":nonsense", ":undo", ":mcp", ":session", ":sop", ":norris", ":steps", ":skills", ":memory", ":cost"] {
        session.run(line);
    }
    shown!("lines_that_steer_the_shell", steady(&session.screen_text(), home.path()));
}

#[test]
fn question_without_a_model() {
    let home = TestHome::for_commands().config("").done();
    repository(home.path());
    let session = session(home.path());
    session.run("?what does this project do");
    shown!("question_without_a_model", steady(&session.screen_text(), home.path()));
}

/// The output and exit status of subcommands.
fn answers(home: &Path, commands: &[&[&str]]) -> String {
    let mut all = String::new();
    for words in commands {
        let (code, out, err) = run(home, words);
        all.push_str(&format!("$ reedclaw {}\n{out}{err}[{}]\n\n", words.join(" "), code.unwrap_or(-1)));
    }
    steady(&all, home)
}

#[test]
fn problems_of_a_config() {
    let config = "return {\n  max_tokens = \"many\",\n  securty = {},\n  security = {autonomy = \"wild\"},\n}\n";
    let home = TestHome::for_commands().file(".config/reedclaw/config.lua", config).done();
    shown!("problems_of_a_config", answers(home.path(), &[&["config", "validate"], &["undo"]]));
}

#[test]
fn texts_of_subcommands() {
    let home = TestHome::for_commands().config("").done();
    let commands = [
        &["policy", "explain", "rm -rf ~"][..],
        &["policy", "explain", "npm install left-pad"],
        &["policy", "explain", "cargo test"],
        &["undo"],
        &["session", "list"],
        &["session", "show", "nobody"],
        &["mcp", "list"],
        &["mcp", "test", "nobody"],
        &["norris", "status"],
        &["sop", "list"],
        &["sop", "run", "nobody"],
        &["receipt", "verify"],
        &["memory", "search", "nothing"],
        &["history", "search", "nothing"],
        &["gateway", "status"],
        &["service", "nonsense"],
    ];
    shown!("texts_of_subcommands", answers(home.path(), &commands));
}
