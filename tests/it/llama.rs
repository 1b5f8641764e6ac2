//! A real llama.cpp server, where one is given: `REEDCLAW_TEST_LLAMA=http://127.0.0.1:PORT`.

use crate::need;
use crate::pty::{Key, Session, Spawn};

#[test]
fn a_real_server_answers_is_stopped_and_answers_again() {
    let Some(endpoint) = need::llama() else { return };
    let config = format!(
        "return {{models = {{real = {{endpoint = \"{endpoint}\", temperature = 0}}}}, system_prompt = \"Be short.\"}}"
    );
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).size(40, 100));
    session.run("echo seen-by-$((1+1))");
    session.expect_prompt();
    session.line("what is a shell?");
    session.expect("an answer or its beginning", |screen| {
        let text = screen.contents();
        let behind = text.split("what is a shell?").nth(1).unwrap_or_default();
        behind.lines().skip(1).any(|line| !line.trim().is_empty())
    });
    session.press(Key::Ctrl('c'));
    session.expect_text("stopped; what came is kept");
    session.expect_prompt();
    assert!(!session.screen_text().contains("reedclaw: "), "{}", session.screen_text());
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");

    session.run("clear");
    let from = session.raw().len();
    session.line("and what is a file?");
    session.expect("an answer or its beginning", |screen| screen.contents().lines().count() > 1);
    session.press(Key::Ctrl('c'));
    session.expect_prompt();
    assert!(memchr::memmem::find(&session.raw()[from..], b"\x1b[?1049h").is_none());
    session.line("exit");
    assert_eq!(session.expect_exit().code(), Some(0));
}
