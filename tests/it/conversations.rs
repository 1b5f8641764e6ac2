//! Lasting conversations: continued, forked, rewound, named, by the same shell and by another one.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::dispatch::piped;
use crate::procs;
use crate::pty::{Key, Session, program};
use crate::server::{Server, Step, answer, end, head, piece, refusal};

fn home() -> TempDir {
    tempfile::tempdir().expect("a home")
}

fn shell(server: &Server, home: &TempDir) -> Session {
    let spawn = server.shell("", "editor = {autosuggest = false}").home(home.path()).size(40, 100);
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session
}

/// The contents of the request of this number, without the system prompt.
fn contents(server: &Server, number: usize) -> Vec<String> {
    let request = server.request(number);
    request.expect_turns();
    (1..request.roles().len()).map(|at| request.content(at.try_into().expect("small"))).collect()
}

#[test]
fn another_shell_continues_a_conversation() {
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
    // Without an argument it resumes the previous conversation; a title is looked up first.
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
    session.expect_text("is empty");
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
    session.line(":rewind 1");
    session.expect_text("Back at turn 1; 2 later turns are set aside.");
    // The question that was undone is in the line again.
    session.expect_text("? what is two here?");
    session.send(b"\x15");
    session.expect_prompt();
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
    session.run("what is a shell?");
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
    session.expect_text("and 1 conversation in");
    let text = std::fs::read_to_string(home.path().join("out.jsonl")).expect("the export");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["line"], &lines[0]["status"]), (&"echo kept-$((1+1))".into(), &0.into()));
    assert!(!text.contains("secret-$((1+1))\",\"session"), "{text}");
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((of("conversation"), of("message") % 2), (1, 0), "{text}");
    assert!(of("message") > 0, "the turns are in it");
    session.run(" clear");
    session.run(":history export ~/out.jsonl");
    session.expect_text("can't be written: ");
}

/// Runs the program without a terminal; returns its exit code, its output, its errors.
fn run(home: &TempDir, args: &[&str]) -> (Option<i32>, String, String) {
    let output = piped(&program(), "reedclaw", args, b"", home.path());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn database(home: &TempDir) -> PathBuf {
    home.path().join(".local/share/reedclaw/reedclaw.db")
}

#[test]
fn memory_lists_finds_shows_exports_and_clears() {
    let (server, home) = (Server::start(), home());
    assert_eq!(run(&home, &["memory", "list"]), (Some(0), String::new(), String::new()));
    let session = shell(&server, &home);
    server.reply(answer("The configuration is in /etc.\u{1b}]0;owned\u{7}"));
    session.run("where is the first file?");
    session.run(":new");
    session.run("what is the second thing?");
    session.line("exit");
    session.expect_exit();

    let (_, listed, _) = run(&home, &["memory", "list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("1 turn   what is the second thing?"), "{listed}");
    assert_eq!(run(&home, &["memory", "list", "--limit", "1"]).1.lines().count(), 1);
    for query in [&["configuration"][..], &["conf*", "ETC"], &["\"configuration is in\""]] {
        let (code, found, _) = run(&home, &[&["memory", "search"], query].concat());
        assert!(code == Some(0) && found.contains("     1  ") && found.contains("answer"), "{query:?}: {found}");
    }
    let (code, found, told) = run(&home, &["memory", "search", "conf"]);
    assert!(code == Some(1) && found.is_empty() && told.contains("nothing was found"), "{told}");
    let (_, shown, _) = run(&home, &["memory", "show", "1"]);
    assert!(shown.starts_with("# where is the first file?") && shown.contains("The configuration is in /etc."));
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let (code, _, told) = run(&home, &["memory", "show", "9"]);
    assert!(code == Some(2) && told.contains("no conversation has the number 9"), "{told}");

    let (_, exported, _) = run(&home, &["memory", "export"]);
    let objects: Vec<serde_json::Value> =
        exported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(objects.len(), 6);
    assert_eq!((&objects[2]["model"], &objects[2]["role"]), (&"tiny".into(), &"assistant".into()));
    assert_eq!(run(&home, &["memory", "export", "all.md"]).1, "2 conversations in all.md\n");
    assert_eq!(run(&home, &["memory", "export", "all.md"]).0, Some(1), "it would overwrite");
    let text = std::fs::read_to_string(home.path().join("all.md")).expect("the export");
    assert_eq!(text, run(&home, &["memory", "export", "--markdown"]).1);

    let (code, _, told) = run(&home, &["memory", "clear"]);
    assert!(code == Some(2) && told.contains("2 conversations"), "{told}");
    assert_eq!(run(&home, &["memory", "clear", "--yes"]).1, "2 conversations deleted\n");
    assert_eq!(run(&home, &["memory", "list"]).1, "");
    for suffix in ["", "-wal"] {
        let bytes = std::fs::read(format!("{}{suffix}", database(&home).display())).unwrap_or_default();
        for word in [&b"configuration"[..], b"onfigurat"] {
            assert!(memchr::memmem::find(&bytes, word).is_none(), "{suffix}: deleted text is still there");
        }
    }
}

#[test]
fn a_damaged_database_is_one_line_and_the_doctor_saves_it() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    for number in 0..3 {
        server.reply(answer(&"many words of an answer ".repeat(300)));
        session.run(&format!("what is number {number} here?"));
    }
    session.line("exit");
    session.expect_exit();
    assert_eq!(run(&home, &["doctor"]).0, Some(0));
    let mut bytes = std::fs::read(database(&home)).expect("the database");
    // The head of the file: SQLite can't even open it.
    bytes[..16].fill(0);
    std::fs::write(database(&home), &bytes).expect("damaged");

    let session = shell(&server, &home);
    session.expect_text("reedclaw doctor --repair");
    session.run("what about a damaged file?");
    session.expect_line("ok");
    session.run("echo goes-on-$((1+1))");
    session.expect_line("goes-on-2");
    session.run(" clear");
    session.run(":sessions");
    session.expect_text("what about a damaged file?");
    session.line("exit");
    session.expect_exit();

    let (code, told, _) = run(&home, &["doctor"]);
    assert!(code == Some(1) && told.contains("wrong: ") && told.contains("--repair"), "{told}");
    let (code, told, errors) = run(&home, &["doctor", "--repair"]);
    assert!(code == Some(0) && told.contains("the damaged file is kept"), "{told}{errors}");
    assert_eq!(run(&home, &["doctor"]).0, Some(0));
}

#[test]
fn an_export_of_the_doctor_holds_lines_and_conversations() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    session.run("echo a-line");
    session.run("what is a question?");
    session.line("exit");
    session.expect_exit();
    assert_eq!(run(&home, &["doctor", "--export", "x.txt"]).0, Some(2));
    let (code, told, _) = run(&home, &["doctor", "--export", "x.jsonl"]);
    assert_eq!((code, told.as_str()), (Some(0), "3 lines and 1 conversation in x.jsonl\n"));
    let text = std::fs::read_to_string(home.path().join("x.jsonl")).expect("the export");
    assert!(text.contains("echo a-line") && text.contains("\"role\":\"assistant\""), "{text}");
}

/// A backup, or another program that locks the database while the user asks.
#[test]
fn a_locked_database_is_one_line_and_gets_the_conversation_later() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    session.run("what was before the lock?");
    let other = rusqlite::Connection::open(database(&home)).expect("the database");
    other.busy_timeout(crate::pty::DEADLINE).expect("a time");
    other.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    session.run("what is behind the lock?");
    session.expect_text("this conversation is not being stored");
    session.run("and what is last here?");
    let raw = session.raw();
    assert_eq!(memchr::memmem::find_iter(&raw, b"is not being stored").count(), 1, "told more than once");
    assert_eq!(contents(&server, 3)[2], "what is behind the lock?", "the conversation goes on in memory");
    other.execute_batch("ROLLBACK").expect("free again");
    session.line("exit");
    session.expect_exit();
    let (_, shown, _) = run(&home, &["memory", "show", "1"]);
    for question in ["what was before the lock?", "what is behind the lock?", "and what is last here?"] {
        assert!(shown.contains(question), "{shown}");
    }
}

#[test]
fn a_conversation_before_kill_9_is_found_and_continued() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    server.reply(vec![head(), piece("The kumquat "), piece("is a small "), Step::Gate(1), piece("fruit")]);
    session.line("what is a kumquat, in short?");
    session.expect_text("is a small");
    session.expect_outside("the piece in the database", || {
        run(&home, &["memory", "show", "1"]).1.contains("is a small").then_some(())
    });
    let mut all = session.descendants();
    all.extend(procs::process(session.pid()));
    for process in all {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), nix::sys::signal::Signal::SIGKILL);
    }
    session.expect_exit();
    let (_, found, _) = run(&home, &["memory", "search", "\"kumquat is a\""]);
    assert!(found.contains("The kumquat is a small"), "{found}");
    let second = shell(&server, &home);
    second.run(":resume 1");
    second.run("and what is it like?");
    let broken = "The kumquat is a small\n[the answer broke off here]";
    assert_eq!(contents(&server, 2), ["what is a kumquat, in short?", broken, "and what is it like?"]);
}

#[test]
fn two_shells_in_one_conversation_keep_each_question_with_its_answer() {
    let (server, home) = (Server::start(), home());
    let first = shell(&server, &home);
    first.run("what did it begin with?");
    let second = shell(&server, &home);
    second.run(":resume 1");
    server.reply(vec![head(), piece("early "), Step::Gate(1), piece("bird"), end()]);
    first.line("what does the first ask?");
    first.expect_text("early");
    server.reply(answer("from between"));
    second.run("what does the second ask?");
    second.expect_line("from between");
    server.open(1);
    first.expect_line("early bird");
    first.expect_prompt();
    let third = shell(&server, &home);
    third.run(":resume 1");
    third.run("what does the third see?");
    let sent = contents(&server, 4);
    assert_eq!(sent[2..6], ["what does the first ask?", "early bird", "what does the second ask?", "from between"]);
}

/// Turns that one shell had rewound were still sent with the questions of the other, though neither showed them.
#[test]
fn a_question_carries_what_another_shell_added_and_not_what_it_rewound() {
    let (server, home) = (Server::start(), home());
    let first = shell(&server, &home);
    first.run("what is the first word?");
    let second = shell(&server, &home);
    second.run(":resume 1");
    second.run("what is the second word?");
    first.run("what is the third word?");
    let [one, two, three] = ["first", "second", "third"].map(|word| format!("what is the {word} word?"));
    assert_eq!(contents(&server, 3), [&one, "ok", &two, "ok", &three]);
    first.expect_text("another session has changed this conversation");
    first.line(":rewind 1");
    first.expect_text("Back at turn 1; 2 later turns are set aside.");
    second.run("what is left?");
    assert_eq!(contents(&server, 4), [&one, "ok", "what is left?"]);
    // The conversation hasn't changed since then.
    second.run("what else?");
    assert_eq!(second.screen_text().matches("another session has changed").count(), 1);
}

#[test]
fn a_broken_answer_is_marked_in_the_transcript() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home);
    server.reply(vec![head(), piece("The first half")]);
    session.run("what breaks?");
    server.reply(refusal("401 Unauthorized", "no"));
    session.run("what fails?");
    session.run(" clear");
    session.run(":transcript");
    session.expect("both marks", |screen| {
        let text = screen.contents();
        text.contains("The first half\n[the answer broke off here]") && text.contains("? what fails?\n[no answer came]")
    });
}
