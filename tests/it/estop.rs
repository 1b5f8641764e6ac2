//! The emergency stop of the built executable: set by any program, cleared only by a person at a terminal.

use std::path::Path;
use std::process::{Command, Stdio};

use reedclaw::estop::Estop;

use crate::need::TEST_PATH;
use crate::pty::{Key, Session, Spawn, program, status_code};

fn reedclaw(home: &Path, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(program());
    command.args(words).env_clear().env("HOME", home).env("PATH", TEST_PATH).stdin(Stdio::null());
    let output = command.output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("a code"), String::from_utf8_lossy(&text).into_owned())
}

fn estop(home: &Path) -> Estop {
    Estop::new(home.join(".local/state/reedclaw"))
}

#[test]
fn without_a_terminal_it_is_set_and_not_cleared() {
    let home = tempfile::tempdir().expect("a home");
    assert_eq!(reedclaw(home.path(), &["estop", "--status"]), (0, "tools may run: no emergency stop\n".into()));
    let (code, text) = reedclaw(home.path(), &["estop"]);
    assert!(code == 0 && text.starts_with("tools are stopped by the emergency stop, since "), "{text}");
    assert!(estop(home.path()).check().is_err());
    let (code, text) = reedclaw(home.path(), &["estop", "--clear"]);
    assert!(code == 3 && text.contains("only a person at a terminal"), "{text}");
    assert_eq!(reedclaw(home.path(), &["estop", "--status"]).0, 1);
    assert!(reedclaw(home.path(), &["doctor"]).1.contains("tools are stopped"));
    let mut without_home = Command::new(program());
    let output = without_home.arg("estop").env_clear().env("PATH", TEST_PATH).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn doctor_tells_of_it_and_how_it_is_cleared() {
    let home = tempfile::tempdir().expect("a home");
    reedclaw(home.path(), &["estop"]);
    let (_, told) = reedclaw(home.path(), &["doctor"]);
    let told: Vec<&str> = told.lines().skip_while(|line| !line.starts_with("tools are stopped")).take(2).collect();
    assert_eq!(told.get(1), Some(&"reedclaw estop --clear, at a terminal, lets them run again"), "{told:?}");
}

#[test]
fn at_a_terminal_it_asks_before_it_clears() {
    let home = tempfile::tempdir().expect("a home");
    for (answer, code, stays) in [("", 1, true), ("y", 1, true), ("no", 1, true), ("yes", 0, false)] {
        estop(home.path()).stop().expect("a stop");
        let session = Session::spawn(Spawn::new(program()).arg("estop").arg("--clear").home(home.path()));
        session.expect_text("Type yes:");
        session.line(answer);
        assert_eq!(status_code(session.expect_exit()), code, "{answer}");
        assert_eq!(estop(home.path()).check().is_err(), stays, "{answer}");
    }
}

#[test]
fn the_shell_stops_and_clears() {
    let home = tempfile::tempdir().expect("a home");
    let session = Session::spawn(Spawn::reedclaw().home(home.path()));
    session.run(":estop");
    session.expect_text(":estop clear lets them run again");
    assert!(estop(home.path()).check().is_err());
    // Lines that a person types are never stopped.
    session.run("echo still-$((1+1))");
    session.expect_line("still-2");
    session.expect_prompt();
    session.line(":estop clear");
    session.expect_text("yes [y]  no [Enter, Esc]");
    session.press(Key::Enter);
    session.expect_text("nothing was changed");
    assert!(estop(home.path()).check().is_err());
    session.expect_prompt();
    session.line(":estop clear");
    session.expect("the second question", |screen| screen.contents().matches("yes [y]").count() == 2);
    session.type_text("y");
    session.expect_text("tools may run again");
    assert_eq!(estop(home.path()).check(), Ok(()));
    session.run(":estop now");
    session.expect_text("doesn't know now");
}
