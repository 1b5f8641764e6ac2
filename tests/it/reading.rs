//! A person's use of an answer and the wait for it: copy, run and save of its blocks, the waiting sign, and the mode for screen
//! readers.

use crate::pty::{Key, Session};
use crate::server::{Server, Step, answer, end, head, piece};

const ANSWER: &str =
    "Do this:\n\n```sh\necho from-block-$((40+2))\n```\n\n1. or that\n   ```python\n   if x:\n       y()\n   ```\n";

fn asked(server: &Server, rest: &str) -> Session {
    server.reply(answer(ANSWER));
    let session = Session::spawn(server.shell("", rest));
    session.run("what should be done?");
    session.expect_text("or that");
    session
}

#[test]
fn a_block_is_copied_without_its_decoration() {
    let server = Server::start();
    let session = asked(&server, "");
    session.run(":copy 2");
    session.expect_text("block 2 was sent to the terminal's clipboard");
    // "if x:\n    y()\n"
    session.expect_raw(b"\x1b]52;c;aWYgeDoKICAgIHkoKQo=\x07", 0);
    session.run(":copy");
    session.expect_text("the answer was sent to the terminal's clipboard");
    session.run(":copy 3");
    session.expect_text("there is no block 3");
    session.expect_text("the last answer has blocks 1 to 2");
}

#[test]
fn a_block_runs_only_after_the_question() {
    let server = Server::start();
    let session = asked(&server, "");
    session.line(":run 1");
    session.expect_text("run [r]");
    session.press(Key::Enter);
    session.expect_text("skipped");
    session.expect_prompt();
    assert!(!session.screen_text().contains("from-block-42"));
    session.line(":run 1");
    session.expect("the second question", |screen| screen.contents().matches("run [r]").count() == 2);
    session.type_text("r");
    session.expect_line("from-block-42");
    // The block is shown as it would run, and the shell can't run Python.
    session.run("clear");
    session.line(":run 2");
    session.expect_text("block 2 is python; the shell would run it as commands");
    session.expect_text("run [r]");
    session.press(Key::Enter);
    session.expect_prompt();
    session.run(":run");
    session.expect_text(":run needs an argument");
}

#[test]
fn a_block_is_saved_without_overwriting_a_file() {
    let server = Server::start();
    let session = asked(&server, "");
    session.run("mkdir sub; cd sub");
    session.run(":save 2 my script.py");
    session.expect_text("block 2 is in");
    let path = session.home().join("sub/my script.py");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "if x:\n    y()\n");
    session.run(":save 1 my script.py");
    session.expect_text("nothing was overwritten");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "if x:\n    y()\n");
    session.run(":save 1 'in quotes.sh'");
    assert!(session.home().join("sub/in quotes.sh").is_file());
    session.run(":save 1");
    session.expect_text(":save needs a number and a file");
    session.run(":save 9 other");
    session.expect_text("there is no block 9");
}

#[test]
fn the_sign_of_waiting_leaves_no_trace() {
    let server = Server::start();
    server.reply(vec![head(), Step::Gate(1), piece("The answer."), end()]);
    let session = Session::spawn(server.shell("", ""));
    session.expect_prompt();
    session.line("what takes so long?");
    session.expect_text("1 s");
    // A change of the width meanwhile does no harm.
    session.resize(24, 40);
    session.expect_text("2 s");
    server.open(1);
    session.expect_line("The answer.");
    session.expect_prompt();
    let screen = session.screen_text();
    assert!(!screen.contains("1 s") && !screen.contains("2 s"), "{screen}");
    let lines: Vec<&str> = screen.lines().collect();
    let at = lines.iter().position(|line| *line == "The answer.").expect("the answer");
    assert!(lines[at - 1].ends_with("what takes so long?"), "nothing stands between: {screen}");
}

#[test]
fn for_a_screen_reader_nothing_is_drawn_over_and_words_stand_for_colours() {
    let server = Server::start();
    let steps = vec![head(), Step::Gate(1), piece("An **answer**.\n"), end()];
    server.reply(steps.clone());
    server.reply(steps);
    let session = Session::spawn(server.shell("", "console = {accessible = true}"));
    session.expect_prompt();
    session.line("what takes so long?");
    server.request(1);
    // In another session the sign appears, so its time has come.
    let other = Session::spawn(server.shell("", ""));
    other.expect_prompt();
    other.line("what takes so long?");
    other.expect_text("1 s");
    assert!(!session.screen_text().contains("1 s"), "a sign was drawn");
    server.open(1);
    session.expect_text("An answer.");
    session.expect_prompt();
    session.run(":model none");
    session.expect_text("error: no model is called none");
    session.run(":new");
    session.expect_text("note: a new conversation begins");
    let raw = String::from_utf8_lossy(&session.raw()).into_owned();
    let is_color = |code: &str| matches!(code.parse(), Ok(30..=37 | 90..=97 | 40..=47));
    let sequences = raw.split("\x1b[").skip(1).filter_map(|rest| rest.split_once(|c: char| c.is_ascii_alphabetic()));
    let colours: Vec<&str> = sequences
        .filter(|(codes, rest)| raw.contains(&format!("[{codes}m{rest}")) && codes.split(';').any(is_color))
        .map(|(codes, _)| codes)
        .collect();
    assert_eq!(colours, [""; 0], "a colour was used");
}
