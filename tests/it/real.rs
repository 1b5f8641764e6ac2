//! A bug of a real library is mended by a real model of 135 million parameters, behind a real llama.cpp server, and everything
//! is taken back. What it says is its own; what is held is what came of it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::need;
use crate::pty::{Key, PROMPT, Session, Spawn, left_of_cursor};
use crate::story::{committed, git, rustc, shlex};

/// What a user of so small a model has in their config.
const CONFIG: &str = include_str!("../../examples/small-local.lua");
const ENDPOINT: &str = "http://127.0.0.1:8080";

/// Each line counts twice: the library's own test `test_lineno` fails.
const RIGHT: &str = "self.line_no += 1;";
const WRONG: &str = "self.line_no += 2;";
/// What the user says; the next where the model gets one wrong.
const QUESTIONS: [&str; 3] = [
    "?In src/bytes.rs replace `self.line_no += 2;` by `self.line_no += 1;`.",
    "?In src/bytes.rs replace `self.line_no += 2;` by `self.line_no += 1;`, please.",
    "?In src/bytes.rs change `self.line_no += 2;` to `self.line_no += 1;`.",
];

/// Asks, and says yes to the one change that is meant; gives whether it was made.
fn asks_and_accepts(session: &Session, question: &str, file: &Path) -> bool {
    // A conversation of its own, without the words that went wrong.
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
            // Seen where the test fails.
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
    // Two busy cores read some 50 tokens a second.
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
