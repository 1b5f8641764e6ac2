//! Meta commands, and the route of a line while it is typed.

use crate::pty::{Key, PROMPT, Session, Spawn};
use crate::server::{Server, Step, answer};

/// Waits until the line of the cursor ends with this glyph, a blank and this text.
#[track_caller]
fn expect_glyph(session: &Session, glyph: &str, typed: &str) {
    let expected = format!("{glyph} {typed}");
    session.expect(&format!("{expected:?} at the prompt"), |screen| {
        let (row, column) = screen.cursor_position();
        let line = screen.rows(0, column).nth(usize::from(row)).unwrap_or_default();
        line.ends_with(&expected) || (typed.is_empty() && line.trim_end().ends_with(glyph))
    });
}

/// A session without suggestions, so that the line shows only the typed text.
fn session(server: &Server) -> Session {
    let session = Session::spawn(server.shell("", "editor = {autosuggest = false}").size(90, 80));
    session.expect_prompt();
    session
}

/// Commands of `:exec` and `:ask` are in the history once, as they were typed, with their outcomes.
#[test]
fn a_command_or_question_by_its_meta_is_one_row() {
    let server = Server::start();
    let session = session(&server);
    session.run(":exec test once = twice");
    session.run(":ask ls only once");
    session.expect_text("ok");
    session.run(" clear");
    session.run(" :history once");
    session.expect_prompt();
    let text = session.screen_text();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("once") && !line.contains(":history")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows.iter().any(|row| row.ends_with(":exec test once = twice")), "{text}");
    assert!(rows.iter().any(|row| row.ends_with(":ask ls only once")), "{text}");
}

#[test]
fn each_meta_command_works() {
    let server = Server::start();
    let session = session(&server);
    session.run("echo one-$((1+1))");
    session.run(":why");
    session.expect_text("went to the shell");
    session.run("what is first?");
    session.run(":why");
    session.expect_text("went to the model");
    session.run(":exec echo by-exec-$((2+2))");
    session.expect_line("by-exec-4");
    session.run(":ask ls");
    let second = server.request(2);
    second.expect_turns();
    assert!(second.content(-1).contains("by-exec-4") && second.content(-1).ends_with("\n\nls"));

    session.run("echo kept-$((3+3))");
    session.run(":new");
    session.run("what is third?");
    let third = server.request(3);
    assert_eq!(third.roles(), ["system", "user"]);
    assert!(third.content(1).contains("kept-6"), "a new conversation forgot a command's output");

    session.run("echo gone-$((4+4))");
    session.run(":reset");
    session.run("what is fourth?");
    assert_eq!(server.request(4).content(1), "what is fourth?");

    session.run("clear");
    session.run(":models");
    session.expect("the model", |screen| screen.contents().lines().any(|line| line.starts_with("* tiny")));
    session.run(":model");
    session.run(":model tiny");
    session.expect_text("tiny answers from now on");

    session.run("clear");
    session.run(":history gone");
    session
        .expect("the line that was looked for", |screen| screen.contents().matches("echo gone-$((4+4))").count() == 1);
    assert!(!session.screen_text().contains("kept-"));
    session.line(":q");
    assert_eq!(session.expect_exit().code(), Some(0));
}

#[test]
fn help_names_every_meta_command_and_key() {
    let server = Server::start();
    let session = session(&server);
    session.resize(160, 80);
    session.run(":help");
    let names = ["quit", "clear", "reset", "model NAME", "models", "history", "exec CMD", "ask TEXT", "why", "help"];
    for name in names {
        session.expect_text(&format!(":{name}"));
    }
    for key in ["Ctrl-T", "Ctrl-R", "Alt-Enter"] {
        session.expect_text(key);
    }
    for heading in ["Lines", "Conversation", "Model and cost", "Tools and their changes", "Keys"] {
        session.expect_line(heading);
    }
}

#[test]
fn help_is_shown_a_page_at_a_time_or_about_one_word() {
    let server = Server::start();
    let session = Session::spawn(server.shell("", "").size(24, 80));
    session.expect_prompt();
    session.line(":help");
    session.expect_text("down [Space, j]");
    session.expect("the first page", |screen| {
        screen.contents().contains("!LINE") && !screen.contents().contains("Alt-Enter")
    });
    session.send(b"G");
    session.expect("the last page", |screen| !screen.contents().contains("!LINE"));
    session.send(b"q");
    session.expect_prompt();
    session.run("clear");
    session.run(":help undo");
    session.expect_text(":undo [N]");
    session.expect("nothing else", |screen| !screen.contents().contains(":sessions"));
    session.run(":help nosuchword");
    session.expect_text("nothing in the help has nosuchword");
}

#[test]
fn clear_empties_the_screen_and_the_conversation_goes_on() {
    let server = Server::start();
    let session = session(&server);
    for (line, asked) in [(":clear", "what is second?"), ("/clear", "what is third?")] {
        session.run("what is first?");
        session.run(line);
        session.expect("an empty screen", |screen| !screen.contents().contains("what is first?"));
        session.run(asked);
    }
    let last = server.request(4);
    last.expect_turns();
    assert_eq!(last.roles().len(), 8, "the conversation was cleared: {}", last.raw);
    session.run("/new");
    session.run("what is new?");
    assert_eq!(server.request(5).roles(), ["system", "user"]);
}

#[test]
fn the_conversation_is_printed_again_with_its_answers() {
    let server = Server::start();
    let session = session(&server);
    session.run(":transcript");
    session.expect_text("this conversation is empty");
    for word in ["red", "blue"] {
        server.reply(answer(&format!("An answer about {word}.")));
        session.run(&format!("what is {word}?"));
    }
    for (line, has_both) in
        [(":transcript", true), (":history turns", true), (":transcript 1", false), (":history turns 1", false)]
    {
        session.run(":clear");
        session.run(line);
        session.expect_line("An answer about blue.");
        session.expect_text("? what is blue?");
        assert_eq!(session.screen_text().contains("An answer about red."), has_both, "{line}");
    }
    session.run(":transcript x");
    session.expect_text(":transcript doesn't know x");
}

#[test]
fn a_model_that_onboard_finds_answers_at_once() {
    let found = Server::start();
    let port = found.endpoint().rsplit(':').next().expect("a port").to_owned();
    let list = || {
        let body = r#"{"data":[{"id":"tiny"}]}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        vec![Step::Raw((head + body).into_bytes())]
    };
    found.reply(list());
    found.reply(answer("ready"));
    let session = Session::spawn(Spawn::reedclaw().size(40, 100));
    session.expect_text("No model is set up. Run \":onboard\"");
    session.expect_prompt();
    session.line(&format!(":onboard {port}"));
    session.expect_text("Write ~/.config/reedclaw/config.lua? [y/N]");
    session.line("y");
    session.expect_text("the config was read again");
    session.expect_prompt();
    found.reply(answer("at your service"));
    session.run("are you there?");
    session.expect_line("at your service");
}

#[test]
fn a_config_that_is_written_meanwhile_counts_with_the_next_question() {
    let server = Server::start();
    let session = Session::spawn(Spawn::reedclaw().size(40, 100));
    session.expect_prompt();
    let config = session.home().join(".config/reedclaw/config.lua");
    std::fs::create_dir_all(config.parent().expect("a directory")).expect("made");
    std::fs::write(&config, format!("return {{models = {{m = {{endpoint = '{}'}}}}}}", server.endpoint()))
        .expect("written");
    server.reply(answer("at your service"));
    session.run("are you there?");
    session.expect_line("at your service");
}

#[test]
fn an_unknown_meta_command_suggests_the_nearest() {
    let server = Server::start();
    let session = session(&server);
    session.run(":hlep");
    session.expect_text("there is no command :hlep");
    session.expect_text("did you mean :help?");
    session.run(":why not");
    session.expect_text(":why takes no argument");
    session.run(":exec");
    session.expect_text(":exec needs an argument");
    session.run(":zzz");
    session.expect_text(":help lists them");
    // A colon alone, or one with a blank after it, belongs to the shell.
    session.run(":");
    session.run(": a comment");
    session.run(": ${planted:=by-colon}; echo $planted");
    session.expect_line("by-colon");
    assert_eq!(server.requests(), 0);
}

/// Messages reported that a word "is nothing", that `:redact` takes no argument, and "invalid digit found in string"; and
/// `:history export` searched for that word and found itself.
#[test]
fn an_argument_that_makes_no_sense_is_answered_with_what_would() {
    let servers = "return {mcp = {servers = {bad = {command = {'/bin/false'}}}}}";
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", servers).size(30, 120));
    for (line, answer) in [
        (":mcp show", "mcp show takes NAME"),
        (":mcp list zz", "mcp list takes no argument"),
        (":mcp show zz", "configured: bad"),
        (":policy zz", ":policy doesn't know zz"),
        (":policy explain", ":policy explain needs a command"),
        (":config zz", ":config doesn't know zz"),
        (":share zz", ":share doesn't know zz"),
        (":cost zz", ":cost doesn't know zz"),
        (":redact zz", ":redact takes no argument but show"),
        (":memory add", ":memory add needs a text"),
        (":memory edit zz", ":memory edit needs the number of a memory"),
        (":p zz", "there is no prompt template zz"),
        (":history export", ":history export needs a file that ends in .jsonl or .md"),
        (":history delete", ":history delete needs the number of a line"),
        (":history nowhere-to-be-found", "nothing in the history has nowhere-to-be-found"),
        (":history delete zz", "nothing in the history has delete zz; :history delete N deletes a line"),
        (":memory delete 1", "nothing was found; :memory forget N forgets one"),
        (":memory list", "nothing is remembered yet"),
        (":doctor", "reedclaw doctor is the command for it"),
        (":onboard zz", ":onboard takes the port of a local server, not zz"),
    ] {
        session.run("clear");
        session.run(line);
        let shown = session.screen_text();
        assert!(shown.contains(answer), "{line}: {shown}");
    }
}

#[test]
fn quit_with_an_exit_trap_and_jobs_is_exit() {
    let server = Server::start();
    let session = session(&server);
    session.run("trap 'echo bye-$((1+1))' EXIT");
    session.line(":quit");
    session.expect_exit();
    session.expect_line("bye-2");
}

#[test]
fn tab_completes_meta_commands_and_models() {
    let server = Server::start();
    let session = session(&server);
    session.type_text(":rese\t");
    expect_glyph(&session, ":", ":reset");
    session.interrupt();
    session.type_text(":model ti\t");
    expect_glyph(&session, ":", ":model tiny ");
    session.interrupt();
    session.type_text(":h\t");
    session.expect("both candidates", |screen| {
        let text = screen.contents();
        text.contains("history") && text.contains("help")
    });
    session.interrupt();
}

#[test]
fn the_glyph_says_where_the_line_goes_while_it_is_typed() {
    let server = Server::start();
    let session = session(&server);
    for (line, glyph) in [
        ("echo hi", PROMPT),
        ("what is this?", "?"),
        ("? echo", "?"),
        ("!what is", PROMPT),
        ("$ what is", PROMPT),
        (":help", ":"),
        (": help", PROMPT),
    ] {
        session.type_text(line);
        expect_glyph(&session, glyph, line);
        session.press(Key::Ctrl('u'));
        expect_glyph(&session, PROMPT, "");
    }
}

#[test]
fn ctrl_t_flips_a_line_until_it_is_entered() {
    let server = Server::start();
    let session = session(&server);
    session.type_text("echo hi");
    expect_glyph(&session, PROMPT, "echo hi");
    session.press(Key::Ctrl('t'));
    expect_glyph(&session, "?", "echo hi");
    session.type_text(" again");
    expect_glyph(&session, "?", "echo hi again");
    session.press(Key::Ctrl('t'));
    expect_glyph(&session, PROMPT, "echo hi again");
    session.press(Key::Ctrl('t'));
    expect_glyph(&session, "?", "echo hi again");
    session.press(Key::Enter);
    assert_eq!(server.request(1).content(1), "echo hi again");
    session.expect_line("ok");
    // Ctrl-T applies to one line.
    session.run("echo next-$((1+1))");
    session.expect_line("next-2");
    session.run(":why");
    session.expect_text("went to the shell");
    // The other direction works, too.
    session.type_text("what is this");
    expect_glyph(&session, "?", "what is this");
    session.press(Key::Ctrl('t'));
    expect_glyph(&session, PROMPT, "what is this");
    session.press(Key::Enter);
    session.expect_text("what: command not found");
    assert_eq!(server.requests(), 1);
}

#[test]
fn prefixes_force_a_line() {
    let server = Server::start();
    let session = session(&server);
    session.run("!echo forced-$((1+1))");
    session.expect_line("forced-2");
    session.run("$ echo pasted-$((2+2))");
    session.expect_line("pasted-4");
    session.run("!! ; echo again");
    session.run("?echo hi");
    assert!(server.request(1).content(1).ends_with("\n\necho hi"), "{}", server.request(1).content(1));
    session.run("? ls");
    assert_eq!(server.request(2).content(-1), "ls");
}

#[test]
fn a_misspelt_command_and_a_sentence_go_different_ways() {
    let server = Server::start();
    let session = Session::spawn(Spawn::reedclaw());
    session.run("./nothing-here");
    session.run("echo status-$?");
    session.expect_line("status-127");
    drop(session);
    let session = self::session(&server);
    session.run("how do I list files by size?");
    session.expect_line("ok");
}
