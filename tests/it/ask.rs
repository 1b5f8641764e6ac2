//! Questions to a scripted model server: the requests, the drawing, and the state after a failure.

use crate::procs;
use crate::pty::{Key, Session, Spawn, status_code};
use crate::server::{Server, Step, answer, end, head, piece, refusal};

/// The newest conversation in the database of a home: role, text, state.
fn stored(home: &std::path::Path) -> Vec<(String, String, String)> {
    let path = home.join(".local/share/reedclaw");
    let mut files = std::fs::read_dir(path).expect("the data folder").flatten().map(|entry| entry.path());
    let file = files.find(|path| path.extension().is_some_and(|ext| ext == "db")).expect("the database");
    let database = rusqlite::Connection::open(file).expect("the database opens");
    let mut rows = database.prepare("SELECT role, content, state FROM message ORDER BY id").expect("messages");
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

#[test]
fn an_answer_appears_while_it_arrives() {
    let server = Server::start();
    server.reply(vec![head(), piece("The first "), Step::Gate(1), piece("and the second."), end()]);
    let session = Session::spawn(server.shell("", ""));
    session.expect_prompt();
    session.line("what is a shell?");
    session.expect_text("The first");
    assert!(!session.screen_text().contains("second"));
    server.open(1);
    session.expect_line("The first and the second.");
    session.run("echo next-$((1+1))");
    session.expect_line("next-2");
}

#[test]
fn only_what_the_user_showed_is_sent() {
    let server = Server::start();
    let model = "model = \"tiny-1\", temperature = 0.25, key_env = \"TEST_KEY\"";
    let session = Session::spawn(server.shell(model, "").env("TEST_KEY", "sk-planted"));
    session.run("echo visible-$((1+1)) && false");
    session.run(" echo hidden-$((2+2))");
    session.run("how does the first question look?");
    let first = server.request(1);
    first.expect_turns();
    assert!(first.content(0).contains("You are the assistant in ReedClaw"));
    let question = first.content(1);
    let tag = "[exec output]\n$ echo visible-$((1+1)) && false\n(exit status 1)\nvisible-2";
    assert!(question.starts_with(tag), "{question}");
    assert!(question.ends_with("\n\nhow does the first question look?"), "{question}");
    assert!(!first.raw.contains("hidden-"), "{}", first.raw);
    assert!(first.head.starts_with("POST /v1/chat/completions "), "{}", first.head);
    assert!(first.head.to_lowercase().contains("authorization: bearer sk-planted"), "{}", first.head);
    assert!(!first.raw.contains("sk-planted") && !session.screen_text().contains("sk-planted"));
    assert_eq!((&first.body["model"], &first.body["stream"]), (&"tiny-1".into(), &true.into()));
    assert_eq!(first.body["temperature"], 0.25);

    session.run("and what is the second one like?");
    let second = server.request(2);
    second.expect_turns();
    assert_eq!((second.content(-2), second.content(-1)), ("ok".into(), "and what is the second one like?".into()));
    assert_eq!(second.content(1), question, "an earlier question changed");
}

/// Keys typed ahead of a password's prompt appear on the screen, and were sent as the command's output.
#[test]
fn keys_typed_during_a_command_are_not_sent_to_the_model() {
    let server = Server::start();
    let session = Session::spawn(server.shell("", ""));
    session.run("mkfifo gate");
    session.line("echo begun-$((1+1)); read -r line <gate; echo $line");
    session.expect_line("begun-2");
    session.type_text("hunter2 typed-early");
    session.expect("the echo", |screen| crate::pty::cursor_line(screen) == "hunter2 typed-early");
    std::fs::write(session.home().join("gate"), "all done\n").expect("the command reads");
    session
        .expect("the keys at the prompt", |screen| crate::pty::cursor_line(screen).contains("❯ hunter2 typed-early"));
    session.press(Key::Ctrl('u'));
    session.run("? what was that command for?");
    let question = server.request(1);
    assert!(question.content(1).contains("begun-2\nall done"), "{}", question.content(1));
    assert!(!question.raw.contains("typed-early"), "{}", question.raw);
}

/// A leading blank before `:exec` and `:ask` got lost with the colon: the command ran as if it had been typed without one, was
/// stored in the history, and its output went to the model.
#[test]
fn a_blank_in_front_hides_meta_lines_and_questions_too() {
    let server = Server::start();
    let session = Session::spawn(server.shell("", ""));
    session.run(" :exec echo hidden-$((1+1))");
    session.expect_line("hidden-2");
    session.run(" :ask what is hidden here?");
    session.expect_line("ok");
    session.run(" ? what is hidden again?");
    session.run(":history");
    session.run("? what does the server see?");
    assert!(!server.request(1).raw.contains("hidden-2"));
    assert!(!server.request(3).raw.contains("hidden-2"));
    session.line("exit");
    session.expect_exit();
    let database = rusqlite::Connection::open(session.home().join(".local/share/reedclaw/reedclaw.db")).expect("it");
    let mut rows = database.prepare("SELECT line FROM history ORDER BY id").expect("lines");
    let rows = rows.query_map([], |row| row.get::<_, String>(0)).expect("lines");
    let lines: Vec<String> = rows.map(|row| row.expect("a line")).collect();
    assert_eq!(lines, [":history", "? what does the server see?", "exit"]);
}

#[test]
fn markdown_is_drawn_in_the_scrollback() {
    let server = Server::start();
    server.reply(answer("# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n```sh\nls -l\n```\n"));
    let session = Session::spawn(server.shell("", ""));
    session.run("what does it look like?");
    session.expect("drawn markdown", |screen| {
        let text = screen.contents();
        text.contains("Some bold and code.") && text.contains("ls -l") && !text.contains("**")
    });
    let raw = session.raw();
    assert!(memchr::memmem::find(&raw, b"\x1b[?1049h").is_none(), "the alternate screen was used");
    assert!(memchr::memmem::find(&raw, b"\x1b[1m").is_some() || memchr::memmem::find(&raw, b"\x1b[1;").is_some());
}

#[test]
fn no_escape_sequence_of_an_answer_reaches_the_terminal() {
    let server = Server::start();
    let evil = [
        "begin \x1b]0;owned\x07title ",
        "\x1b[2J\x1b[Hclear ",
        "\u{9b}31mc1 \u{9d}0;owned\u{9c} ",
        "\x1bPdcs\x1b\\ ",
        "split \x1b",
        "[8mhidden ",
        "bidi \u{202e}desrever \u{200b}\u{feff} ",
        "`\x1b[31mcode` **\x1b]52;c;b3duZWQ=\x07bold** end",
    ];
    let mut steps = vec![head()];
    steps.extend(evil.iter().map(|text| piece(text)));
    steps.push(end());
    server.reply(steps);
    let session = Session::spawn(server.shell("", ""));
    session.expect_prompt();
    session.line("what can you do?");
    session.expect_text("begin ");
    let from = memchr::memmem::rfind(&session.raw(), b"begin ").expect("on the screen");
    session.expect_prompt();
    let raw = session.raw();
    let drawn = String::from_utf8_lossy(&raw[from..]).into_owned();
    // The prompt follows the answer, which ends with its last word.
    let end = drawn.find("end").expect("the last word");
    let drawn = &drawn[..end];
    for word in ["title", "clear", "c1", "bidi", "desrever", "code", "bold"] {
        assert!(drawn.contains(word), "{word} is missing in {drawn:?}");
    }
    assert!(!drawn.contains("owned") && !drawn.contains("b3duZWQ"), "{drawn:?}");
    for (at, c) in drawn.char_indices() {
        assert!(
            !matches!(c, '\u{80}'..='\u{9f}' | '\u{200b}' | '\u{202e}' | '\u{feff}' | '\x07'),
            "{c:?} in {drawn:?}"
        );
        if c == '\x1b' {
            let rest = drawn[at + 1..].strip_prefix('[').expect("only SGR");
            let length = rest.find(|c: char| !(c.is_ascii_digit() || c == ';')).expect("an end");
            assert_eq!(&rest[length..=length], "m", "not SGR in {drawn:?}");
            assert!(!rest.starts_with("8m") && !rest.starts_with("31m"), "the model's own colour in {drawn:?}");
        }
    }
}

#[test]
fn ctrl_c_stops_an_answer_and_keeps_its_first_part() {
    let server = Server::start();
    server.reply(vec![head(), piece("Half an ans wer"), Step::Hold]);
    let session = Session::spawn(server.shell("", ""));
    session.expect_prompt();
    session.line("what is a long story?");
    session.expect_text("Half an ans");
    session.press(Key::Ctrl('c'));
    session.expect_prompt();
    server.expect_hang_up();
    // A last word that may still grow is drawn only when the answer ends.
    session.expect_line("Half an ans wer");
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
    session.run("what was that?");
    let second = server.request(2);
    second.expect_turns();
    assert_eq!(second.content(2), "Half an ans wer\n[stopped by the user]");
    assert!(second.content(3).starts_with("[exec output]\n$ echo on-"));
}

/// The list of programs became ready while the shell waited for the model; its nudge was mistaken for the end of the answer, and
/// Ctrl-C and the closing of the window were no longer noticed.
#[test]
fn ctrl_c_stops_a_question_without_an_answer() {
    let server = Server::start();
    server.reply(vec![Step::Hold]);
    let session = Session::spawn(server.shell("", ""));
    session.expect_prompt();
    session.line("what takes so long?");
    server.request(1);
    session.press(Key::Ctrl('c'));
    session.expect_prompt();
    server.expect_hang_up();
    session.run("what now?");
    session.expect_line("ok");
    server.request(2).expect_turns();
}

#[test]
fn each_failure_is_one_line_and_a_hint_and_the_shell_goes_on() {
    let server = Server::start();
    let short = "first_byte_timeout_ms = 300, idle_timeout_ms = 300, retries = 0";
    let session = Session::spawn(server.shell(short, "").size(24, 200));
    let cut = vec![head(), piece("Half a "), Step::Raw(b"data: {\"cho".to_vec())];
    let garbage = Step::Raw(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>\x1b]0;x\x07 hello</html>".to_vec());
    let cases = [
        (refusal("401 Unauthorized", "bad key"), "the server refused the key (HTTP 401): bad key", "key_env"),
        (refusal("404 Not Found", "no such model"), "not found (HTTP 404): no such model", ":models lists"),
        (refusal("429 Too Many Requests", "slow"), "too many requests (HTTP 429): slow", "ask again"),
        (refusal("500 Internal Server Error", "oops\x1b[2J"), "the server failed (HTTP 500): oops", "ask again"),
        (cut, "the answer was cut off in the middle", "server's log"),
        (vec![garbage], "follow the server's protocol", "models.tiny.endpoint"),
        (vec![Step::Hold], "no answer began within 300 ms", "server may be busy"),
        (vec![head(), piece("Then "), Step::Hold], "the answer stalled: nothing came for 300 ms", "server may be"),
        (vec![], "the server closed the connection without an answer", "server's log"),
    ];
    let count = cases.len();
    for (number, (steps, message, hint)) in cases.into_iter().enumerate() {
        server.reply(steps);
        session.run("clear");
        session.run("what is wrong here?");
        session.expect("one line and its hint", |screen| {
            let text = screen.contents();
            let mut lines = text.lines().skip_while(|line| !line.starts_with("reedclaw: "));
            let said = lines.next().is_some_and(|line| line.contains(message));
            said && lines.next().is_some_and(|line| line.starts_with("  ") && line.contains(hint))
                && lines.next().is_some_and(|line| line.contains('❯'))
        });
        session.run(&format!("echo on-$(({number}+100))"));
        session.expect_line(&format!("on-{}", number + 100));
    }
    session.run("what is right?");
    let last = server.request(count + 1);
    last.expect_turns();
    let kept = last.raw.matches("[the answer broke off here]").count();
    assert_eq!(kept, 2, "{}", last.raw);
    session.line("exit 0");
    assert_eq!(status_code(session.expect_exit()), 0);
}

/// A server that hung but still answered `/health` was waited for silently for an hour.
#[test]
fn a_server_that_says_it_is_at_work_is_waited_for_a_bounded_time() {
    let server = Server::start();
    let short = "first_byte_timeout_ms = 300, busy_timeout_ms = 2000, retries = 0";
    let session = Session::spawn(server.shell(short, "").size(24, 200));
    server.says_of_its_work("/health", r#"{"status": "ok"}"#);
    server.reply(vec![Step::Hold]);
    session.line("what is wrong here?");
    session
        .expect_text("[model] tiny: no answer yet, but the server says that it is at work; waiting up to 2 s in all");
    session.expect_text("no answer began within 2 s");
    assert_eq!(session.screen_text().matches("no answer yet").count(), 1);
    session.expect_prompt();
    session.run("clear");
    // Its slots count more than its health: none is computing, so nothing more will come.
    server.says_of_its_work("/slots", r#"[{"id": 0, "is_processing": false}]"#);
    server.reply(vec![Step::Hold]);
    session.line("what is wrong here?");
    session.expect_text("no answer began within 300 ms");
    session.expect_prompt();
    session.run("clear");
    server.says_of_its_work("/slots", r#"[{"id": 0, "is_processing": true}]"#);
    server.reply([vec![Step::Gate(1)], answer("here at last")].concat());
    session.line("what is wrong here?");
    session.expect_text("no answer yet");
    server.open(1);
    session.expect_line("here at last");
}

#[test]
fn a_refused_question_is_asked_again_with_a_notice() {
    let server = Server::start();
    server.reply(refusal("503 Service Unavailable", "loading"));
    server.reply(answer("ready now"));
    let session = Session::spawn(server.shell("", "").size(24, 200));
    session.line("what is a shell?");
    session.expect_text("[model] tiny: the server failed (HTTP 503): loading; again in 0.");
    session.expect_line("ready now");
    assert_eq!(server.requests(), 2);
}

/// The first model is down; the next one is nearer, equally near, or farther: only the last case needs a person's approval.
#[test]
fn a_question_goes_on_to_the_next_model_but_no_farther_without_a_yes() {
    let server = Server::start();
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    // 192.0.2.1 is reserved for documentation (RFC 5737): no host has it, and no test waits for it.
    let models = format!(
        "return {{default_model = 'all', models = {{\n\
         down = {{endpoint = 'http://127.0.0.1:{port}'}},\n\
         far = {{endpoint = 'http://192.0.2.1:9', connect_timeout_ms = 1}},\n\
         near = {{endpoint = '{}'}},\n\
         all = {{kind = 'reliable', of = {{'down', 'far', 'near'}}}}}}}}",
        server.endpoint()
    );
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &models).size(30, 200));
    session.expect_prompt();
    session.line("what is a shell?");
    session.expect_text("down doesn't answer. Send this conversation to far (192.0.2.1:9)?");
    session.expect_text("yes [y]  no [n, Enter]");
    assert_eq!(server.requests(), 0, "something was sent before the answer");
    session.type_text("n");
    session.expect_text("far was not asked: it is on the internet (192.0.2.1:9); models.all.allow_remote = true");
    session.expect_text("connection refused; asking near");
    session.expect_line("ok");
    // Asked only once per session.
    session.expect_prompt();
    let from = session.raw().len();
    session.run("what is a file?");
    let told = session.expect_raw(b"far was not asked", from);
    session.expect_raw(b"ok\r\n", told);
    let since = session.raw()[from..].to_vec();
    assert!(memchr::memmem::find(&since, b"yes [y]").is_none(), "{}", session.screen_text());
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");

    // After a yes it is tried, and the result is reported. Ctrl-C at the question stops everything.
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &models).size(30, 200));
    session.expect_prompt();
    session.line("what is a shell?");
    session.expect_text("yes [y]  no [n, Enter]");
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    session.expect_prompt();
    session.run("clear");
    session.line("what is a shell?");
    session.expect_text("yes [y]  no [n, Enter]");
    session.type_text("y");
    session.expect_text("connection refused; asking far");
    session.expect_text("; asking near");
    session.expect_line("ok");
}

#[test]
fn a_server_that_is_not_running_is_one_line_with_a_hint() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let config = format!("return {{models = {{gone = {{endpoint = \"http://127.0.0.1:{port}\"}}}}}}");
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config));
    session.run("what is there?");
    session.expect_text("connection refused");
    session.expect_text(":model NAME");
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
}

#[test]
fn without_a_model_a_question_says_how_to_connect_one() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("clear");
    session.run("what is a shell?");
    session.expect_text("reedclaw: no model is set up");
    session.expect_text(":onboard looks for models on this machine");
    session.run(":models");
    session.expect_text("No model is set up. Run \":onboard\" to find one; everything else works as usual.");
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
}

/// Two models and no `default_model`: the config reports that "none is chosen", because a question may be meant for another
/// machine; the agent nevertheless took the first by name.
#[test]
fn among_several_models_none_is_chosen_for_the_user() {
    let (one, two) = (Server::start(), Server::start());
    let models = format!(
        "return {{models = {{one = {{endpoint = \"{}\", model = \"m-1\"}}, two = {{endpoint = \"{}\"}}}}}}",
        one.endpoint(),
        two.endpoint()
    );
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &models).size(24, 120));
    session.run("clear");
    session.run("what is first?");
    session.expect_text(":model NAME");
    assert_eq!((one.requests(), two.requests()), (0, 0));
    session.run(":model tow");
    session.expect_text("no model is called tow");
    session.expect_text("configured: one, two");
    session.run(":model two");
    session.run("what is second?");
    session.expect_line("ok");
    session.run(":model one");
    session.run("what is third?");
    let third = one.request(1);
    third.expect_turns();
    assert_eq!((third.body["model"].clone(), third.roles().len()), ("m-1".into(), 4));
    assert_eq!(two.requests(), 1);
    session.run("clear");
    session.run(":models");
    session.expect("the list with its mark", |screen| {
        let text = screen.contents();
        text.lines().any(|line| line.starts_with("* one")) && text.lines().any(|line| line.starts_with("  two"))
    });
}

/// `models.NAME.system_prompt` was read from the config, documented, and never sent.
#[test]
fn a_model_has_a_system_prompt_of_its_own() {
    let server = Server::start();
    let endpoint = server.endpoint();
    let config = format!(
        "return {{default_model = \"a\", system_prompt = \"general\", models = {{
            a = {{endpoint = \"{endpoint}\", system_prompt = \"of a\"}}, b = {{endpoint = \"{endpoint}\"}}}}}}"
    );
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config));
    session.run("what is first?");
    session.run(":model b");
    session.run("what is second?");
    let (first, second) = (server.request(1).content(0), server.request(2).content(0));
    assert!(first.starts_with("of a\n") && second.starts_with("general\n"), "{first} {second}");
}

#[test]
fn the_oldest_turns_leave_with_a_notice() {
    let server = Server::start();
    let session = Session::spawn(server.shell("", "context = {max_turns = 2}"));
    for question in ["what is one?", "what is two?"] {
        session.run(question);
    }
    assert!(!session.screen_text().contains("evicted"));
    session.run("what is three?");
    session.expect_line("[context] oldest 1 turn evicted");
    let third = server.request(3);
    third.expect_turns();
    assert_eq!((third.roles().len(), third.content(1)), (4, "what is two?".into()));
}

#[test]
fn a_small_budget_evicts_too() {
    let server = Server::start();
    server.reply(answer(&"word ".repeat(400)));
    let rest = "system_prompt = \"short\", context = {token_budget = 400, exec_output_tokens = 100, compact_at = 0}";
    let session = Session::spawn(server.shell("", rest));
    session.run("what is one?");
    session.run("clear");
    session.run("what is two?");
    session.expect_line("[context] oldest 1 turn evicted");
    assert_eq!(server.request(2).roles(), ["system", "user"]);
}

/// A piece was written with the next one or after 100 ms, but the time was only checked when the next one came: a piece before a
/// pause of the server was in no database if the machine failed in that pause.
#[test]
fn a_crash_in_the_middle_of_an_answer_loses_nothing() {
    let server = Server::start();
    server.reply(vec![head(), piece("What came "), piece("before the end "), Step::Gate(1), piece(" never")]);
    let session = Session::spawn(server.shell("", ""));
    session.expect_prompt();
    session.line("what will be lost?");
    session.expect_text("before the end");
    session.expect_outside("the partial answer in the database", || {
        let rows = stored(session.home());
        rows.get(1).is_some_and(|(_, text, _)| text == "What came before the end ").then_some(())
    });
    let mut all = session.descendants();
    all.extend(procs::process(session.pid()));
    for process in all {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), nix::sys::signal::Signal::SIGKILL);
    }
    session.expect_exit();
    let row = |role: &str, text: &str, state: &str| (role.to_owned(), text.to_owned(), state.to_owned());
    let expected =
        [row("user", "what will be lost?", "complete"), row("assistant", "What came before the end ", "partial")];
    assert_eq!(stored(session.home()), expected);
}

#[test]
fn a_closed_window_ends_a_question() {
    let server = Server::start();
    server.reply(vec![head(), piece("Half way"), Step::Hold]);
    let mut session = Session::spawn(server.shell("", ""));
    session.expect_prompt();
    session.line("what is a window?");
    session.expect_text("Half");
    session.hang_up();
    session.expect_exit();
    server.expect_hang_up();
    assert_eq!(stored(session.home())[1].1, "Half way");
}
