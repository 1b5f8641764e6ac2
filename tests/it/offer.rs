//! Commands that an answer proposes: offered one by one, run only when a person presses a key, their output saved for the next
//! question.

use crate::pty::{Key, Session};
use crate::server::{Server, Step, answer, cut_answer, end, head, piece};

/// Waits for the question about proposal `number` of `total`.
#[track_caller]
fn expect_offer(session: &Session, number: usize, total: usize) {
    let title = format!("the model proposes ({number} of {total}):");
    session.expect(&title, |screen| {
        let text = screen.contents();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        text.contains(&title) && last.trim_end().ends_with("stop [t]")
    });
}

#[track_caller]
fn ask(session: &Session, question: &str) {
    session.expect_prompt();
    session.line(question);
}

#[test]
fn proposals_are_offered_one_by_one() {
    let server = Server::start();
    let text = "Three steps:\nCMD: echo one-$((1+1)) > one\nthen\nCMD: cat > two <<'END'\nfirst $x\n  second\nEND\n\
        and\nCMD: echo three > three\n";
    server.reply(answer(text));
    let session = Session::spawn(server.shell("", "").size(40, 80));
    ask(&session, "what are three steps?");
    expect_offer(&session, 1, 3);
    assert!(!session.home().join("one").exists(), "it ran before it was asked for");
    session.type_text("r");
    expect_offer(&session, 2, 3);
    assert_eq!(std::fs::read_to_string(session.home().join("one")).expect("it ran"), "one-2\n");
    session.type_text("r");
    expect_offer(&session, 3, 3);
    assert_eq!(std::fs::read_to_string(session.home().join("two")).expect("it ran"), "first $x\n  second\n");
    session.press(Key::Enter);
    session.expect_prompt();
    assert!(!session.home().join("three").exists(), "Enter is no yes");
    session.expect_text("skipped");
}

#[test]
fn skip_is_the_default_and_stop_ends_the_offers() {
    let server = Server::start();
    let text = "CMD: touch a\nCMD: touch b\nCMD: touch c\nCMD: touch d\nCMD: touch e\n";
    server.reply(answer(text));
    let session = Session::spawn(server.shell("", "").size(40, 80));
    ask(&session, "what are five steps?");
    expect_offer(&session, 1, 5);
    session.press(Key::Enter);
    expect_offer(&session, 2, 5);
    session.press(Key::Escape);
    expect_offer(&session, 3, 5);
    session.type_text("s");
    expect_offer(&session, 4, 5);
    session.type_text("t");
    session.expect_prompt();
    for name in ["a", "b", "c", "d", "e"] {
        assert!(!session.home().join(name).exists(), "{name} was run");
    }
    // Ctrl-C also stops, and the remaining commands aren't offered again.
    server.reply(answer("CMD: touch f\nCMD: touch g\n"));
    ask(&session, "what are two steps?");
    expect_offer(&session, 1, 2);
    session.press(Key::Ctrl('c'));
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
}

#[test]
fn the_output_of_a_proposal_is_in_the_next_question() {
    let server = Server::start();
    server.reply(answer("Look:\nCMD: echo seen-$((20+22)); false\n"));
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what is the number?");
    expect_offer(&session, 1, 1);
    session.type_text("r");
    session.expect_line("seen-42");
    session.run("what was it?");
    let second = server.request(2);
    second.expect_turns();
    let question = second.content(-1);
    assert_eq!(question, "[exec output]\n$ echo seen-$((20+22)); false\n(exit status 1)\nseen-42\n\nwhat was it?");
    session.run("clear");
    session.run(":history");
    session.expect("the model's command in the history", |screen| {
        screen.contents().lines().any(|line| line.contains("1  model's ") && line.contains(" echo seen-"))
    });
}

#[test]
fn an_edited_proposal_is_the_persons_own_line_and_the_rest_follows() {
    let server = Server::start();
    server.reply(answer("CMD: echo worng-$((1+1))\nCMD: echo second-$((2+2))\n"));
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what are two steps?");
    expect_offer(&session, 1, 2);
    session.type_text("e");
    session
        .expect("the proposal in the line", |screen| crate::pty::cursor_line(screen).ends_with("echo worng-$((1+1))"));
    session.type_text("; echo mended-$((3+3))");
    session.press(Key::Enter);
    session.expect_line("mended-6");
    expect_offer(&session, 2, 2);
    session.type_text("r");
    session.expect_line("second-4");
    session.expect_prompt();
}

/// Once, the rest was never offered after `:why` in place of an edited proposal.
#[test]
fn the_rest_follows_a_meta_line_too() {
    let server = Server::start();
    server.reply(answer("CMD: echo one\nCMD: echo two-$((1+1))\n"));
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what are two steps?");
    expect_offer(&session, 1, 2);
    session.type_text("e");
    session.expect_text("echo one");
    session.expect("the line", |screen| crate::pty::cursor_line(screen).ends_with("❯ echo one"));
    session.press(Key::Ctrl('u'));
    session.expect_prompt();
    session.line(":why");
    expect_offer(&session, 2, 2);
    session.type_text("r");
    session.expect_line("two-2");
}

/// Once, keys from before the question were passed to the command that it ran, and into a proposal being edited, which an Enter
/// typed ahead submitted unread. Now they wait for the next line.
#[test]
fn keys_from_before_the_question_answer_nothing() {
    let server = Server::start();
    server.reply(vec![head(), piece("Wait.\n"), Step::Gate(1), piece("CMD: read -t 1 x; echo \"got-$x-\"\n"), end()]);
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what shall I read?");
    session.expect_text("Wait.");
    session.type_text("r");
    session.type_text("echo ahead-$((1+1))\r");
    server.open(1);
    expect_offer(&session, 1, 1);
    assert!(!session.screen_text().contains("\ngot--"), "a key from before answered");
    session.type_text("r");
    session.expect_line("got--");
    session.expect_text("recho ahead-$((1+1))");
    session.expect_prompt();
}

#[test]
fn keys_from_before_never_submit_an_edited_proposal() {
    let server = Server::start();
    server.reply(vec![head(), piece("Wait.\n"), Step::Gate(1), piece("CMD: touch unread\n"), end()]);
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what shall I touch?");
    session.expect_text("Wait.");
    session.type_text("\r");
    server.open(1);
    expect_offer(&session, 1, 1);
    session.type_text("e");
    session.expect("the line", |screen| crate::pty::cursor_line(screen).ends_with("❯ touch unread"));
    session.type_text("-");
    session.expect("the line goes on", |screen| crate::pty::cursor_line(screen).ends_with("❯ touch unread-"));
    assert!(!session.home().join("unread").exists(), "an Enter from before ran it");
    session.interrupt();
}

/// Once, bracketed paste was off at the question, so that a pasted "r" was the same as a pressed one.
#[test]
fn a_paste_answers_nothing() {
    let server = Server::start();
    server.reply(answer("CMD: touch pasted\n"));
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what shall I touch?");
    expect_offer(&session, 1, 1);
    session.expect("bracketed paste is on", vt100::Screen::bracketed_paste);
    session.send(b"\x1b[200~");
    session.send(b"r");
    session.send(b"\r");
    session.send(b"\x1b[201~");
    session.send(b"\x1b[200~r\x1b[201~");
    session.press(Key::Ctrl('c'));
    session.expect_prompt();
    session.expect_text("stopped");
    assert!(!session.home().join("pasted").exists(), "a paste ran it");
}

#[test]
fn a_proposal_shows_its_hidden_characters() {
    let server = Server::start();
    server.reply(answer("CMD: echo safe\u{202e}\x1b[8m; touch hidden\n"));
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what is safe?");
    session.expect("an offer or a notice", |screen| {
        let text = screen.contents();
        text.contains("stop [t]") || text.lines().count() > 3
    });
    assert!(!session.raw().windows(4).any(|bytes| bytes == b"\x1b[8m"));
}

#[test]
fn an_answer_that_was_stopped_proposes_nothing() {
    let server = Server::start();
    server.reply(vec![head(), piece("CMD: touch half\nand more"), Step::Hold]);
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what shall I touch?");
    session.expect_text("and");
    session.press(Key::Ctrl('c'));
    session.expect_prompt();
    assert!(!session.screen_text().contains("the model proposes"));
}

/// At the limit of tokens `rm -r build-old` may be cut off as `rm -r build`.
#[test]
fn an_answer_that_was_cut_off_proposes_nothing() {
    let server = Server::start();
    server.reply(cut_answer("Do:\nCMD: touch one\nCMD: touch tw"));
    let session = Session::spawn(server.shell("", ""));
    ask(&session, "what shall I touch?");
    session.expect_text("the answer stopped at the server's limit of tokens");
    session.expect_text("none of its commands is offered");
    session.expect_prompt();
    assert!(!session.screen_text().contains("the model proposes"));
}

#[test]
fn confirm_cmd_false_is_refused() {
    let server = Server::start();
    server.reply(answer("CMD: touch unasked\n"));
    let session = Session::spawn(server.shell("", "shell = {confirm_cmd = false}").size(24, 160));
    session.expect_text("confirm_cmd");
    ask(&session, "what shall I touch?");
    expect_offer(&session, 1, 1);
    session.type_text("s");
    session.expect_prompt();
    assert!(!session.home().join("unasked").exists());
}
