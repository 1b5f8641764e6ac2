//! Memories that outlive a conversation: written by the user, by a model when a conversation ends, or proposed by a model and
//! accepted.

use std::time::Instant;

use serde_json::json;
use tempfile::TempDir;

use crate::dispatch::piped;
use crate::pty::{DEADLINE, Session, program};
use crate::server::{Server, answer, refusal, tool_call};

const QUIET: &str = "editor = {autosuggest = false}, memory = {auto = false}";
const AUTO: &str = "editor = {autosuggest = false}, memory = {auto = true}";

fn shell(server: &Server, home: &TempDir, config: &str) -> Session {
    let session = Session::spawn(server.shell("", config).home(home.path()).size(40, 110));
    session.expect_prompt();
    session
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a home")
}

#[test]
fn the_users_own_memories_precede_conversations() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home, QUIET);
    session.run(":memory");
    session.expect_text("nothing is remembered yet");
    session.run(":memory add The printer is called lemon; password=hunter2");
    session.expect_text("[memory] 1: The printer is called lemon; password=[redacted: password]");
    session.run(":redact");
    session.expect_text("a memory, line 1");
    session.run(":memory add I like short answers.");
    session.run("what is first here?");
    session.expect_text("2 memories go in front of this conversation");
    let first = server.request(1).content(-1);
    assert!(first.starts_with("[memory] Notes from before") && first.ends_with("what is first here?"), "{first}");
    assert!(first.contains("- I like short answers.\n") && !first.contains("hunter2"), "{first}");
    session.run("what is second here?");
    assert_eq!(server.request(2).content(-1), "what is second here?", "only the first question carries them");
    session.run(" clear");
    session.run(":memory edit 2 I like long answers.");
    session.run(":memory forget 1");
    session.run(":memory forget 1");
    session.expect_text("no memory has the number 1");
    session.run(" clear");
    session.run(":memory");
    session.expect("the one that is left, marked", |screen| {
        let text = screen.contents();
        text.contains("* 2")
            && text.contains("everywhere")
            && text.contains("I like long answers.")
            && !text.contains("lemon")
    });
    // Without a text, the current one is opened in the editor.
    session.line(":memory edit 2");
    session.expect_text(":memory edit 2 I like long answers.");
    session.interrupt();
    session.run(":new");
    session.run("what is third here?");
    assert!(server.request(3).content(-1).contains("- I like long answers.\n"));
    session.run(":memory nonsense");
    session.expect_text("nothing was found; word* finds beginnings");
    let stored = std::fs::read(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("the database");
    assert!(memchr::memmem::find(&stored, b"hunter2").is_none());
    let out = piped(&program(), "reedclaw", &["memory", "notes"], b"", home.path());
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.contains("I like long answers."), "{out}");
}

#[test]
fn words_are_searched_in_memories_and_in_all_conversations() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home, QUIET);
    session.run(":memory add The printer uses tabs.");
    server.reply(answer("Makefiles want tabs, not blanks."));
    session.run("what does a makefile want?");
    session.run(":new");
    session.run(":clear");
    for line in [":memory tabs", "/memory tabs"] {
        session.run(":clear");
        session.run(line);
        session.expect_text("memory 1");
        session.expect_text("The printer uses tabs.");
        session.expect_text("Makefiles want tabs");
        session.expect_text(":resume ID continues a conversation");
    }
    session.run(":memory nosuchword");
    session.expect_text("nothing was found");
    let found = piped(&program(), "reedclaw", &["memory", "search", "tabs"], b"", home.path());
    let told = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(told.contains("memory    The printer uses tabs.") && told.contains("Makefiles want tabs"), "{told}");
}

#[test]
fn a_models_memory_waits_until_it_is_accepted() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home, QUIET);
    for note in ["the disk is sdb", "always run rm -rf"] {
        server.reply(tool_call("remember", &json!({"text": note}).to_string()));
    }
    server.reply(answer("It is sdb."));
    session.run("what is the disk here?");
    session.expect_text("the model would remember 2 things");
    session.run(":new");
    session.run("what is the disk again?");
    assert_eq!(server.request(4).content(-1), "what is the disk again?", "nothing of it is sent");
    session.run(" clear");
    session.run(":memory inbox");
    session.expect("both", |screen| {
        let text = screen.contents();
        text.contains("the disk is sdb") && text.contains("always run rm -rf") && text.contains("model's")
    });
    session.run(":memory take 1");
    session.run(":memory drop 2");
    session.run(":memory inbox");
    session.expect_text("the inbox is empty");
    session.run(":new");
    session.run("what is the disk now?");
    let asked = server.request(5).content(-1);
    assert!(asked.contains("- the disk is sdb\n") && !asked.contains("rm -rf"), "{asked}");
}

#[test]
fn a_conversation_is_remembered_in_the_background_when_it_ends() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home, AUTO);
    let ask_three = |session: &Session| {
        for question in ["what is one here?", "what is two here?", "what is three here?"] {
            session.run(question);
        }
    };
    let remembered = |session: &Session, text: &str| {
        // A new memory is reported at the first prompt after it was written.
        let until = Instant::now() + DEADLINE;
        while !session.screen_text().contains(text) {
            assert!(Instant::now() < until, "no {text:?} on the screen:\n{}", session.screen_text());
            session.run(" true");
        }
    };
    ask_three(&session);
    server.reply(answer("The machine counts to three."));
    session.run(":new");
    let request = server.request(4);
    assert!(request.content(1).contains("Person:\nwhat is one here?\n\nAssistant:\nok\n"), "{}", request.raw);
    remembered(&session, "The machine counts to three.");
    session.run("what is new here?");
    let asked = server.request(5).content(-1);
    assert!(asked.contains("- The machine counts to three.\n"), "{asked}");
    // Two turns aren't enough for a memory.
    session.run("what is newer here?");
    session.run(":new");
    ask_three(&session);
    assert_eq!(server.request(7).content(-1).lines().last(), Some("what is one here?"));
    session.line("exit");
    session.expect_exit();
    assert_eq!(server.requests(), 9, "the end of a session asks nothing");

    // The next session does it after its first answer; a failure is reported, and it is tried again later.
    let session = shell(&server, &home, AUTO);
    server.reply(answer("ok"));
    server.reply(refusal("400 Bad Request", "no memory today"));
    session.run("what is first in this session?");
    server.request(11);
    remembered(&session, "conversation 3 isn't remembered");
    session.line("exit");
    session.expect_exit();
    let session = shell(&server, &home, AUTO);
    server.reply(answer("ok"));
    server.reply(answer("NOTHING"));
    session.run("what is first in the last session?");
    server.request(13);
    session.run(":memory");
    session.expect_text("The machine counts to three.");
}

#[test]
fn a_conversation_is_saved_at_once_when_asked_for() {
    let (server, home) = (Server::start(), home());
    let session = shell(&server, &home, QUIET);
    session.run(":save");
    session.expect_text("is empty");
    session.run("what is here?");
    server.reply(answer("A first memory."));
    session.run(":save");
    session.expect_text("[memory] 1: A first memory.");
    server.reply(answer("A second memory."));
    session.run(":memory save");
    session.expect_text("A second memory.");
    server.reply(refusal("400 Bad Request", "not today"));
    session.run(":memory save");
    session.expect_text("not today");
    session.run(" clear");
    session.run(":memory");
    session.expect("one of this conversation", |screen| {
        let text = screen.contents();
        text.contains("A second memory.") && text.contains("of 1") && !text.contains("A first")
    });
    session.run(":save 1");
    session.expect_text(":save needs a number and a file");
}
