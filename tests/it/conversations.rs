//! Conversations that last: gone on with, forked, rewound, named, by the same shell and by another one.

use tempfile::TempDir;

use crate::pty::{Key, Session};
use crate::server::{Server, answer};

fn home() -> TempDir {
    tempfile::tempdir().expect("a home")
}

fn shell(server: &Server, home: &TempDir) -> Session {
    let spawn = server.shell("", "editor = {autosuggest = false}").home(home.path()).size(40, 100);
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session
}

/// What the request of this number held, without the system prompt.
fn contents(server: &Server, number: usize) -> Vec<String> {
    let request = server.request(number);
    request.expect_turns();
    (1..request.roles().len()).map(|at| request.content(at.try_into().expect("small"))).collect()
}

#[test]
fn another_shell_goes_on_where_one_stopped() {
    let (server, home) = (Server::start(), home());
    let first = shell(&server, &home);
    server.reply(answer("Use the *first* way."));
    first.run("how do I mount a disk?");
    first.run("what is second here?");
    first.run(":new");
    first.run("what is the capital of Peru?");
    assert_eq!(contents(&server, 3), ["what is the capital of Peru?"]);
    first.line("exit");
    first.expect_exit();

    let second = shell(&server, &home);
    second.run(" clear");
    second.run(":sessions");
    second.expect("both of them", |screen| {
        let text = screen.contents();
        text.contains("2 turns") && text.contains("how do I mount a disk?") && text.contains("1 turn ")
    });
    second.run(":resume \"the first way\"");
    second.expect_text("1: how do I mount a disk?, 2 turns");
    second.expect_text("? what is second here?");
    second.run("what is third here?");
    let wanted =
        ["how do I mount a disk?", "Use the *first* way.", "what is second here?", "ok", "what is third here?"];
    assert_eq!(contents(&server, 4), wanted);
    // Alone it goes to the one before, and a title is looked at first.
    second.run(":resume");
    second.run("what about its size?");
    assert_eq!(contents(&server, 5), ["what is the capital of Peru?", "ok", "what about its size?"]);
    second.run(" clear");
    second.run(":resume nowhere-at-all");
    second.expect_text("no conversation has nowhere-at-all");
    second.run(":resume 99");
    second.expect_text("no conversation has the number 99");
}

#[test]
fn a_conversation_is_rewound_forked_and_named_and_keeps_its_outputs() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    session.run(":rewind");
    session.expect_text("holds nothing yet");
    session.run("echo seen-$((1+1))");
    for question in ["what is one here?", "what is two here?", "what is three here?"] {
        session.run(question);
    }
    session.run(" clear");
    session.run(":rewind");
    session.expect("the turns", |screen| {
        screen.contents().lines().any(|line| line.starts_with('2') && line.ends_with("what is two here?"))
    });
    session.run(":rewind 7");
    session.expect_text("7 is no turn of this conversation");
    session.run(":rewind 1");
    session.expect_text("back at turn 1; 2 turns taken back");
    session.run("what is two, again?");
    let sent = contents(&server, 4);
    assert!(sent[0].contains("seen-2") && sent[0].ends_with("what is one here?"), "{sent:?}");
    assert_eq!(sent[1..], ["ok", "what is two, again?"]);

    session.run(":title The numbers");
    session.run(":fork 1");
    session.expect_text("this is 2 now, forked from 1 at turn 1");
    session.run("what is in the fork?");
    let sent = contents(&server, 5);
    assert!(sent[0].contains("seen-2"), "{sent:?}");
    assert_eq!(sent[1..], ["ok", "what is in the fork?"]);
    session.run(" clear");
    session.run(":sessions");
    session.expect("the fork is the present one", |screen| {
        let text = screen.contents();
        text.lines().any(|line| line.starts_with("* 2")) && text.contains("The numbers")
    });
    session.run(":resume numb");
    session.expect_text("1: The numbers, 2 turns");
}

#[test]
fn resume_is_completed_with_numbers_and_titles() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    for question in ["what is the first thing?", "what is the second thing?"] {
        session.run(question);
        session.run(":new");
    }
    session.run(" clear");
    session.type_text(":resu");
    session.press(Key::Tab);
    session.expect_text(":resume");
    session.press(Key::Tab);
    session.expect("their titles", |screen| {
        screen.contents().contains("the second thing?") && screen.contents().contains("the first thing?")
    });
}

#[test]
fn lines_of_the_history_are_deleted_and_exported_by_number() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    session.run("echo secret-$((1+1))");
    session.run("echo kept-$((1+1))");
    session.run(" clear");
    session.run(":history secret");
    session.expect("its number", |screen| {
        screen.contents().lines().any(|line| line.starts_with('1') && line.ends_with("echo secret-$((1+1))"))
    });
    session.run(":history delete 1");
    session.expect_text("deleted: echo secret-$((1+1))");
    session.run(":history delete 1");
    session.expect_text("the history has no line 1");
    session.run(":history prune");
    session.expect_text("0 of the oldest lines removed");
    session.run(":history export ~/out.jsonl");
    session.expect_text("lines in");
    let text = std::fs::read_to_string(home.path().join("out.jsonl")).expect("the export");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["line"], &lines[0]["status"]), (&"echo kept-$((1+1))".into(), &0.into()));
    assert!(!text.contains("secret-$((1+1))\",\"session"), "{text}");
    session.run(" clear");
    session.run(":history export ~/out.jsonl");
    session.expect_text("can't be written to");
}
