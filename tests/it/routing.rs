//! The router as the person sees it at the prompt: questions, corrections, remembered answers, modes.

use crate::home::run;
use crate::pty::{Key, PROMPT, Session, Spawn, cursor_line};
use crate::server::{Server, answer};

/// Many people type `!vim` and `!make` by habit for the last line that begins with that word.
#[test]
fn a_bang_and_a_word_may_repeat_the_last_line_that_begins_so() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("echo repeated-$((1+1))");
    session.expect_line("repeated-2");
    session.run("clear");
    session.line("!echo");
    session.expect_text("yes [y]");
    session.type_text("y");
    session.expect_line("repeated-2");
    session.run("clear");
    session.line("!true");
    session.expect("no question", |screen| screen.contents().matches("❯").count() == 2);
    // No such command: only bash's own meaning is left.
    session.run("!ec");
    session.expect_line("repeated-2");
    session.run("!nosuchword");
    session.expect_text("!nosuchword: event not found");
}

/// Commands that only report that they ran: the lines of these tests may be sentences, and must be harmless as commands.
const STUBS: &str = "make() { echo \"ran-$((40+2)) make $*\"; }\ngo() { echo \"ran-$((40+2)) go $*\"; }\n\
    fix() { echo \"ran-$((40+2)) fix $*\"; }\nkill() { echo \"ran-$((40+2)) kill $*\"; }\n\
    git() { echo \"ran-$((40+2)) git $*\"; }\n";
const RAN: &str = "ran-42";

fn shell(server: &Server, rest: &str) -> Spawn {
    let rest = format!("editor = {{autosuggest = false}},\n{rest}");
    server.shell("", &rest).file(".bashrc", STUBS).size(40, 100)
}

fn session(server: &Server) -> Session {
    let session = Session::spawn(shell(server, ""));
    session.expect_prompt();
    session.run("echo ready-$((1+1))");
    session.expect_line("ready-2");
    session
}

#[test]
fn the_config_that_is_named_decides_the_route() {
    let home = tempfile::TempDir::new().expect("a home");
    std::fs::write(home.path().join("m.lua"), "return { route = { mode = \"ask\" } }").expect("a config");
    let (code, out, err) = run(home.path(), &["--config", "m.lua", "route", "ls"]);
    assert!(code == Some(0) && out.starts_with("model: "), "{out} {err}");
    let (code, out, err) = run(home.path(), &["--config", "none.lua", "route", "ls"]);
    assert!(code == Some(2) && out.is_empty() && err.contains("none.lua can't be read"), "{out} {err}");
    let model = "return { models = { named_here = { kind = \"mock\", script = {} } } }";
    std::fs::write(home.path().join("m.lua"), model).expect("a config");
    let (_, out, _) = run(home.path(), &["completions", "--words", "--", "--config", "m.lua", "--model", ""]);
    assert!(out.lines().any(|line| line == "named_here"), "{out}");
}

/// Lines that the router can't classify, first the one that is most probably a command, and then the least. The router is asked
/// for them, since they depend on its weights. An answer about one changes the weights of the others, most if they begin alike:
/// these don't.
fn unsure_lines() -> Vec<String> {
    const CANDIDATES: [&str; 22] = [
        "go home",
        "make docs nice",
        "fix typos",
        "make progress",
        "go fast",
        "make peace",
        "fix tests",
        "go north",
        "make coffee",
        "make noise",
        "fix bugs",
        "go slow",
        "make room",
        "fix prices",
        "fix get tea",
        "fix merge hell",
        "make all tests",
        "make back two",
        "git vet everything",
        "kill noise",
        "kill time",
        "kill dragons",
    ];
    let home = tempfile::TempDir::new().expect("a home");
    std::fs::write(
        home.path().join("names"),
        "function make\nfunction go\nfunction fix\nfunction git\nfunction kill\n",
    )
    .expect("names");
    let score = |line: &str| {
        let output = std::process::Command::new(crate::pty::program())
            .args(["route", "--json", "--session", "names", "--", line])
            .current_dir(home.path())
            .output()
            .expect("it runs");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        (said["route"] == "confirm").then(|| said["score"].as_f64().expect("a score"))
    };
    let mut asked: Vec<_> = CANDIDATES.iter().filter_map(|line| Some((score(line)?, (*line).to_owned()))).collect();
    asked.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut lines: Vec<String> = asked.into_iter().map(|(_, line)| line).collect();
    if let Some(surest) = lines.pop() {
        let word = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        lines.retain(|line| word(line) != word(&surest));
        lines.insert(0, surest);
    }
    lines
}

/// Types a line and waits for the question about it.
#[track_caller]
fn ask(session: &Session, line: &str) {
    session.expect_prompt();
    session.type_text(line);
    session.expect("the line", |screen| cursor_line(screen).contains(line));
    session.press(Key::Enter);
    session.expect("the question", |screen| cursor_line(screen).trim_end().ends_with("cancel [Enter, Esc]"));
}

#[test]
fn a_line_that_may_be_either_is_asked_about_and_nothing_runs_to_find_out() {
    let server = Server::start();
    let lines = unsure_lines();
    assert!(lines.len() >= 2, "{lines:?}");
    let session = session(&server);
    for key in [Key::Escape, Key::Enter, Key::Ctrl('d'), Key::Ctrl('c')] {
        ask(&session, &lines[0]);
        session.press(key);
        session.expect_prompt();
        session.run("clear");
    }
    assert!(!session.screen_text().contains(RAN) && server.requests() == 0);

    ask(&session, &lines[0]);
    session.type_text("r");
    session.expect_prompt();
    session.expect_line(&format!("{RAN} {}", lines[0]));
    // The answer is remembered: the question is not asked again.
    session.run("clear");
    session.run(&lines[0]);
    session.expect_line(&format!("{RAN} {}", lines[0]));
    ask(&session, &lines[1]);
    session.type_text("a");
    session.expect_line("ok");
    assert!(server.request(1).content(-1).ends_with(&lines[1]));
    session.run(":why");
    session.expect_text("you said so");
    session.run(&lines[1]);
    assert_eq!(server.request(2).content(-1), lines[1]);
    assert!(!session.screen_text().contains(&format!("{RAN} {}", lines[1])));
}

#[test]
fn routing_answers_outlive_the_session_until_they_are_forgotten() {
    let server = Server::start();
    let lines = unsure_lines();
    let first = session(&server);
    ask(&first, &lines[0]);
    first.type_text("r");
    first.expect_line(&format!("{RAN} {}", lines[0]));
    // A line that begins with a space isn't remembered.
    ask(&first, &format!(" {}", lines[1]));
    first.type_text("r");
    first.expect_line(&format!("{RAN} {}", lines[1]));
    first.line("exit");
    first.expect_exit();

    let second = Session::spawn(shell(&server, "").home(first.home()));
    second.run(&lines[0]);
    second.expect_line(&format!("{RAN} {}", lines[0]));
    second.run(":why");
    second.expect_text("you sent this very line to the shell before");
    ask(&second, &lines[1]);
    second.press(Key::Escape);
    second.run(":route forget");
    second.expect_text("Forgot 1 line and what was learned from it.");
    second.run(":route remember");
    second.expect_text(":route remember is unknown");
    second.run(":why");
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_line_that_was_run_before_is_not_asked_about() {
    let server = Server::start();
    let lines = unsure_lines();
    let session = session(&server);
    session.run(&format!("!{}", lines[0]));
    session.expect_line(&format!("{RAN} {}", lines[0]));
    session.run("clear");
    session.run(&lines[0]);
    session.expect_line(&format!("{RAN} {}", lines[0]));
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_flipped_line_is_remembered() {
    let server = Server::start();
    let program = crate::pty::program().display().to_string();
    let session = Session::spawn(shell(&server, "").env("RC", &program));
    session.expect_prompt();
    session.type_text("git status");
    session.press(Key::Ctrl('t'));
    session.expect("the model's glyph", |screen| cursor_line(screen).contains("? git status"));
    session.press(Key::Enter);
    server.request(1).expect_turns();
    session.run("git status");
    assert_eq!(server.request(2).content(-1), "git status");
    session.run("clear");
    session.run("!\"$RC\" route --json git status");
    session.expect_text("\"rule\":\"remembered\"");
    session.run(":route forget");
    session.run("git status");
    session.expect_line(&format!("{RAN} git status"));
    assert_eq!(server.requests(), 2);
}

#[test]
fn a_sentence_that_begins_with_a_command_never_runs() {
    let server = Server::start();
    let session = session(&server);
    let lines = ["kill the server on port 80", "make me a sandwich", "git is confusing, explain rebase"];
    for (number, line) in lines.iter().enumerate() {
        session.run(line);
        assert!(server.request(number + 1).content(-1).ends_with(line));
    }
    assert!(!session.screen_text().contains(RAN));
    session.run("kill -9 80");
    session.expect_line(&format!("{RAN} kill -9 80"));
}

#[test]
fn a_misspelt_command_is_corrected_with_one_key() {
    let server = Server::start();
    let session = session(&server);
    ask(&session, "gti status");
    session.expect_text("Run git status instead?");
    session.type_text("y");
    session.expect_line(&format!("{RAN} git status"));
    session.run(":why");
    session.expect_text("went to the shell: you took `git status` for it");
    ask(&session, "Git log");
    session.press(Key::Escape);
    session.expect_prompt();
    assert!(!session.screen_text().contains(&format!("{RAN} git log")));
    session.resize(40, 80);
    ask(&session, "gti status");
    session.expect_line("`gti` is not a command, `git` is similar. Run git status instead?");
    session.press(Key::Escape);
    // At 80 columns the row of keys leaves no room for the sentence.
    session.expect_line("cancelled: nothing was run");
    ask(&session, "gti status");
    session.type_text("r");
    session.expect_text("gti: command not found");
    assert_eq!(server.requests(), 0);
}

#[test]
fn autocd_enters_a_directory_alone() {
    let server = Server::start();
    let session = session(&server);
    session.run("mkdir -p some/where; shopt -s autocd");
    session.run("some");
    session.run("pwd");
    session.expect("the directory", |screen| screen.contents().lines().any(|row| row.trim_end().ends_with("/some")));
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_directory_alone_offers_cd() {
    let server = Server::start();
    let session = session(&server);
    session.run("mkdir -p some/where");
    ask(&session, "some");
    session.expect_text("`some` is a directory. Run cd some instead?");
    session.type_text("y");
    session.expect_prompt();
    session.run("pwd");
    session.expect("the directory", |screen| screen.contents().lines().any(|line| line.trim_end().ends_with("/some")));
    ask(&session, "where/");
    session.type_text("r");
    session.expect_text("Is a directory");
}

#[test]
fn a_command_that_is_not_there_offers_the_model() {
    let server = Server::start();
    let session = session(&server);
    session.run("frobnicate");
    session.expect_text("frobnicate: command not found");
    session.expect_text("Alt-Enter on an empty line");
    session.press(Key::AltEnter);
    let first = server.request(1);
    assert!(first.content(-1).contains("`frobnicate` failed with status 127"), "{}", first.content(-1));
    session.run("frobnicate --fast");
    session.expect_prompt();
    session.line(":why");
    session.expect_text("it wasn't found:\nask the model about it [a]");
    session.type_text("a");
    assert!(server.request(2).content(-1).contains("`frobnicate --fast` failed"));
    // A command that exists and failed is offered in the same way.
    session.run("ls /nowhere");
    session.expect_prompt();
    session.line(":why");
    session.expect_text("it failed with status 2:\nask the model about it [a]");
    session.type_text("n");
    session.expect_prompt();
    // After a successful command, Alt-Enter is a new line again, and there is no question.
    session.run("true");
    session.run("clear");
    session.run(":why");
    session.expect_text("rule ");
    assert!(!session.screen_text().contains("ask the model about it"), "{}", session.screen_text());
    session.type_text("echo a-$((1+1))");
    session.press(Key::AltEnter);
    session.type_text("echo b-$((1+1))");
    session.press(Key::Enter);
    session.expect_line("b-2");
    assert_eq!(server.requests(), 2);
}

#[test]
fn a_mode_is_never_overridden_but_by_a_prefix() {
    let server = Server::start();
    let session = session(&server);
    session.run(":mode shell");
    session.run("what is this");
    session.expect_text("what: command not found");
    session.run("?what is this");
    assert!(server.request(1).content(-1).ends_with("what is this"));
    session.run(":mode ask");
    session.run("git status");
    assert_eq!(server.request(2).content(-1), "git status");
    session.run("!echo forced-$((1+1))");
    session.expect_line("forced-2");
    session.run(":mode loud");
    session.expect_text(":mode auto, :mode shell, :mode ask or :mode shadow");
    session.run(":mode auto");
    session.run("git status");
    session.expect_line(&format!("{RAN} git status"));
    assert_eq!(server.requests(), 2);
}

#[test]
fn in_shadow_the_prompt_tells_and_the_prefixes_decide() {
    let server = Server::start();
    let session = Session::spawn(shell(&server, "route = {mode = \"shadow\"}"));
    session.run("true");
    session.type_text("what is this");
    session.expect("what auto would do", |screen| cursor_line(screen).trim_end().ends_with("auto: the model"));
    session.press(Key::Enter);
    session.expect_text("what: command not found");
    session.run("?what is this");
    assert!(server.request(1).content(-1).ends_with("what is this"));
    assert_eq!(server.requests(), 1);
}

#[test]
fn the_verdict_can_be_in_words() {
    let server = Server::start();
    let session = Session::spawn(shell(&server, "route = {verdict = \"words\"}"));
    let lines = unsure_lines();
    for (line, word) in
        [("echo hi", "shell>"), ("what is this", "model>"), (":help", "meta>"), (&*lines[0], "ask first>")]
    {
        session.type_text(line);
        session.expect("the word", |screen| cursor_line(screen).contains(&format!("{word} {line}")));
        session.press(Key::Ctrl('u'));
        session.expect("an empty line", |screen| cursor_line(screen).trim_end().ends_with("shell>"));
    }
}

#[test]
fn a_reload_changes_who_decides_how_it_is_shown_and_what_is_learned() {
    const CONFIG: &str = ".config/reedclaw/config.lua";
    let server = Server::start();
    let session = Session::spawn(shell(&server, "route = {mode = \"auto\"}"));
    let reload = |from: &str, to: &str| {
        let path = session.home().join(CONFIG);
        let config = std::fs::read_to_string(&path).expect("the config");
        assert!(config.contains(from), "{config}");
        std::fs::write(&path, config.replacen(from, to, 1)).expect("the config");
        session.run("!clear");
        session.line(":config reload");
        session.expect_text("the config was read again");
    };
    // The mode set by `:mode` stays in effect unless the config changes its own.
    session.run(":mode ask");
    session.run("git one");
    reload("mode = \"auto\"", "mode = \"auto\", learn = false");
    session.run("git two");
    assert!(server.request(2).content(-1).ends_with("git two"));
    session.run(":mode auto");
    session.type_text("git status");
    session.press(Key::Ctrl('t'));
    session.expect("the model's glyph", |screen| cursor_line(screen).contains("? git status"));
    session.press(Key::Enter);
    server.request(3).expect_turns();
    session.run("git status");
    session.expect_line(&format!("{RAN} git status"));
    reload("mode = \"auto\"", "mode = \"shell\"");
    session.run("what is this");
    session.expect_text("what: command not found");
    reload("learn = false", "verdict = \"words\"");
    session.type_text("?what is this");
    session.expect("the word", |screen| cursor_line(screen).contains("model> ?what is this"));
    assert_eq!(server.requests(), 3);
}

#[test]
fn the_glyph_holds_while_a_word_is_being_finished() {
    let server = Server::start();
    let session = session(&server);
    for typed in ["g", "gi", "git", "git ", "git s", "git st", "git sta", "git stat", "git statu", "git status"] {
        session.type_text(&typed[typed.len() - 1..]);
        session.expect(&format!("the shell's glyph before {typed:?}"), |screen| {
            cursor_line(screen).trim_end().ends_with(&format!("{PROMPT} {}", typed.trim_end()))
        });
    }
    session.press(Key::Enter);
    session.expect_line(&format!("{RAN} git status"));
}

#[test]
fn after_a_question_of_the_models_short_answers_are_its_own() {
    let server = Server::start();
    let session = session(&server);
    let replies = ["yes", "no", "2", "continue", "do it"];
    server.reply(answer("Shall I go on?"));
    session.run("what is this?");
    for (number, reply) in replies.iter().enumerate() {
        server.reply(answer("Shall I go on?"));
        session.run(reply);
        assert_eq!(server.request(number + 2).content(-1), *reply);
    }
    // An answer that doesn't end in a question ends it.
    session.run("what now?");
    session.run("true");
    assert_eq!(server.requests(), replies.len() + 2);
}

#[test]
fn a_paste_of_several_lines_is_decided_as_a_whole() {
    let server = Server::start();
    let session = session(&server);
    session.send(b"\x1b[200~please look at this output:\ngit status\nmake all\nwhat is wrong?\x1b[201~");
    session.expect_text("what is wrong?");
    session.press(Key::Enter);
    assert!(server.request(1).content(-1).ends_with("what is wrong?"));
    session.expect_prompt();
    assert!(!session.screen_text().contains(RAN));
    session.send(b"\x1b[200~git status\nmake all\x1b[201~");
    session.expect_text("make all");
    session.press(Key::Enter);
    session.expect_line(&format!("{RAN} git status"));
    session.expect_line(&format!("{RAN} make all"));
    assert_eq!(server.requests(), 1);
}

#[test]
fn why_names_the_words_that_weighed_most() {
    let server = Server::start();
    let session = session(&server);
    session.run("kill the server on port 80");
    session.run(":why");
    session.expect_text("went to the model: `kill` is a command, but the rest reads as a sentence");
    session.expect("the words", |screen| {
        screen.contents().lines().any(|line| line.starts_with("weighed most: ") && line.contains("(model)"))
    });
}
