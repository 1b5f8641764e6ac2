//! A real model of 135 million parameters fixes a bug of a real library through a real llama.cpp server, and everything is
//! undone. The model chooses its words; the test checks only the result.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::need;
use crate::pty::{Key, PROMPT, Session, Spawn, left_of_cursor};
use crate::story::{committed, git, rustc, shlex};

/// The config for such a small model.
const CONFIG: &str = include_str!("../../examples/small-local.lua");
const ENDPOINT: &str = "http://127.0.0.1:8080";

/// Each line counts twice: the library's own test `test_lineno` fails.
const RIGHT: &str = "self.line_no += 1;";
const WRONG: &str = "self.line_no += 2;";
/// The user's questions; the next one is used if the model gets one wrong.
const QUESTIONS: [&str; 3] = [
    "?In src/bytes.rs replace `self.line_no += 2;` by `self.line_no += 1;`.",
    "?In src/bytes.rs replace `self.line_no += 2;` by `self.line_no += 1;`, please.",
    "?In src/bytes.rs change `self.line_no += 2;` to `self.line_no += 1;`.",
];

/// Asks, and approves only the intended change; returns whether it was made.
fn asks_and_accepts(session: &Session, question: &str, file: &Path) -> bool {
    // A new conversation, without the wording that failed.
    session.run(":reset");
    session.run("clear");
    session.line(question);
    session.expect("the question", |screen| screen.contents().contains(question.trim_start_matches('?')));
    loop {
        session.expect("a proposal or the end of the answer", |screen| {
            screen.contents().contains("accept [y]") || is_at_prompt(screen)
        });
        let text = session.screen_text();
        if !text.contains("accept [y]") {
            // Shown if the test fails.
            println!("{text}");
            return fs::read_to_string(file).expect("the source").contains(RIGHT);
        }
        let is_meant = text.contains("+1 −1") && text.contains(WRONG) && text.contains(RIGHT);
        session.send(if is_meant { b"y" } else { b"n" });
        session.expect("it is decided", |screen| !screen.contents().contains("accept [y]"));
    }
}

fn is_at_prompt(screen: &vt100::Screen) -> bool {
    left_of_cursor(screen).ends_with(PROMPT)
}

#[test]
fn a_real_model_mends_a_bug_and_undo_reverts_everything() {
    let Some(endpoint) = need::instruct() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let (work, whole) = shlex(home.path());
    let broken = whole.replacen(RIGHT, WRONG, 1);
    assert_ne!(broken, whole, "the crate has changed: choose another bug");
    let file = work.join("src/bytes.rs");
    fs::write(&file, &broken).expect("the bug");
    committed(&work);
    let path = format!("{}/bin:{}", rustc(&["--print", "sysroot"]), need::TEST_PATH);
    let spawn = Spawn::reedclaw().home(home.path()).cwd(&work).size(50, 120).env("PATH", &path);
    assert!(CONFIG.contains(ENDPOINT));
    let config = CONFIG.replace(ENDPOINT, &endpoint);
    let mut session = Session::spawn(spawn.file(".config/reedclaw/config.lua", &config));
    // Two busy cores read about 50 tokens a second.
    session.set_patience(Duration::from_secs(170));
    session.run("./check 2>&1 | tail -n 3");
    session.expect_text("test result: FAILED. 5 passed; 2 failed");
    session.run("rm tested");

    assert!(QUESTIONS.iter().any(|question| asks_and_accepts(&session, question, &file)), "{}", session.screen_text());
    assert_eq!(fs::read_to_string(&file).expect("the source"), whole);
    let screen = session.screen_text();
    assert!(screen.contains("1 file, 1 line added, 1 removed"), "{screen}");
    assert!(screen.contains("passed, "), "the project's check: {screen}");
    session.run("clear");
    // The project's check ran on a copy, so it left no program here.
    assert!(!work.join("tested").exists());
    session.run("./check 2>&1 | tail -n 2");
    session.expect_text("test result: ok. 7 passed");
    session.run("rm tested");
    session.run("clear");
    session.run(":steps");
    session.expect_text("src/bytes.rs");
    session.run(":undo");
    session.expect_text("Undid");
    assert_eq!(fs::read_to_string(&file).expect("the source"), broken);
    assert_eq!(git(&work, &["status", "--porcelain"]), "", "nothing else is left");
    session.press(Key::Ctrl('d'));
}
