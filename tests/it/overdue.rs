//! A model's overdue command: the person is asked what to do with it while it continues to run. No test waits for a clock: the
//! command waits for a word through a pipe.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use nix::sys::termios::LocalFlags;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::changes::{self, rounds, work};
use crate::faces::{Face, asking, chat_with_keys_ahead, done};
use crate::loop_of_tools::followers;
use crate::need::TEST_PATH;
use crate::pty::{Key, Session, cursor_line, program, status_code};
use crate::server::{Server, answer, tool_call};

const LIMITS: &str = "limits = {shell_ms = 300}, security = {autonomy = \"full\", tier = \"landlock\"}";
const KEYS: &str = "continue as a job [j, Enter]  wait for it [w]  end it [e]";
const KEYS_OF_TOOL: &str = "end it [e, Enter]  wait for it [w]";
const FACES: [Face; 4] = [Face::Shell, Face::Chat, Face::Once, Face::Tool];

/// The pipe that a home's command waits for.
fn pipe(home: &Path) -> String {
    work(home, "go").display().to_string()
}

fn arguments(home: &Path) -> Value {
    json!({"command": format!("echo begun; cat {}", pipe(home))})
}

/// A home whose model calls the command and then continues with a text.
fn home() -> TempDir {
    let home = changes::home(&[], LIMITS);
    let answer = rounds("please", &[("shell", arguments(home.path()))], "that was it");
    fs::write(home.path().join("answers.jsonl"), answer.to_string()).expect("a script");
    mkfifo(&work(home.path(), "go"), Mode::S_IRWXU).expect("a pipe");
    home
}

fn keys(face: Face) -> &'static str {
    if face == Face::Tool { KEYS_OF_TOOL } else { KEYS }
}

/// Opens the question in one of the interfaces.
fn standing(face: Face, home: &Path) -> Session {
    let session = asking(face, home, (40, 100), "true", ("shell", arguments(home)));
    session.expect_text(keys(face));
    session.expect_text("The command still runs after ");
    session.expect_outside("it runs on", || (followers(&pipe(home)) > 0).then_some(()));
    session
}

fn go(home: &Path) {
    fs::write(work(home, "go"), "the rest\n").expect("it reads");
}

#[track_caller]
fn gone(session: &Session, home: &Path) {
    session.expect_outside("the command has ended", || (followers(&pipe(home)) == 0).then_some(()));
}

/// The lines of the receipts, as `kind status`.
fn receipts(home: &Path) -> Vec<String> {
    let text = fs::read_to_string(home.join(".local/state/reedclaw/receipts.jsonl")).expect("receipts");
    let told = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        format!("{} {}", line["kind"].as_str().unwrap_or_default(), line["status"].as_str().unwrap_or_default())
    };
    text.lines().map(told).collect()
}

#[test]
fn a_question_is_withdrawn_if_its_command_ends_meanwhile() {
    for face in FACES {
        let home = home();
        let session = standing(face, home.path());
        assert!(!session.screen_text().contains("it has ended"), "{face:?}");
        go(home.path());
        session.expect_text("it has ended");
        done(face, &session);
        let shown = session.screen_text();
        assert!(!shown.contains("as job"), "{face:?}: {shown}");
        match face {
            Face::Shell => assert!(shown.contains("status 0, 2 lines"), "{shown}"),
            Face::Tool => assert!(shown.contains("begun\\nthe rest"), "{shown}"),
            _ => {}
        }
        assert_eq!(receipts(home.path()), ["intent allowed", "outcome allowed"], "{face:?}");
    }
}

#[test]
fn waiting_for_an_overdue_command_ignores_the_limit() {
    for face in FACES {
        let home = home();
        let session = standing(face, home.path());
        session.send(b"w");
        session.expect_text(&format!("{}  waiting", keys(face)));
        go(home.path());
        done(face, &session);
        let shown = session.screen_text();
        assert!(!shown.contains("as job") && shown.matches("The command still runs").count() == 1, "{face:?}: {shown}");
        assert_eq!(receipts(home.path()), ["intent allowed", "outcome allowed"], "{face:?}");
    }
}

#[test]
fn an_ended_overdue_command_is_gone_and_no_failure() {
    for face in FACES {
        let home = home();
        let session = standing(face, home.path());
        session.send(b"e");
        session.expect_text("the user ended it after ");
        gone(&session, home.path());
        match face {
            Face::Tool => assert_eq!(status_code(session.expect_exit()), 1),
            _ => done(face, &session),
        }
        assert!(!session.screen_text().contains("failed"), "{face:?}: {}", session.screen_text());
        assert_eq!(receipts(home.path()), ["intent allowed", "outcome failed"], "{face:?}");
    }
}

#[test]
fn j_enter_or_escape_makes_an_overdue_command_a_job() {
    for (face, keys) in [
        (Face::Shell, &b"j"[..]),
        (Face::Shell, b"\r"),
        (Face::Shell, b"\x1b"),
        (Face::Shell, b"\x04"),
        (Face::Chat, b"J"),
        (Face::Once, b"\r"),
    ] {
        let home = home();
        let session = standing(face, home.path());
        session.send(keys);
        session.expect_text("the user lets it continue as job 1");
        done(face, &session);
        assert!(!session.screen_text().contains("failed"), "{face:?}: {}", session.screen_text());
    }
}

/// In `tool run` a job is impossible: it would end with the call.
#[test]
fn without_jobs_enter_ends_an_overdue_command() {
    let home = home();
    let session = standing(Face::Tool, home.path());
    session.expect_text("it can't continue as a job: it would end with this call");
    session.press(Key::Enter);
    session.expect_text("the user ended it after ");
    gone(&session, home.path());
    assert_eq!(status_code(session.expect_exit()), 1);
}

#[test]
fn ctrl_c_and_the_emergency_stop_end_it_under_the_question() {
    for face in FACES {
        let home = home();
        let session = standing(face, home.path());
        session.press(Key::Ctrl('c'));
        session.expect_text(&format!("{}  stopped", keys(face)));
        session.expect_text("it was stopped, and all that it had started");
        gone(&session, home.path());
        assert_eq!(receipts(home.path()), ["intent allowed", "outcome failed"], "{face:?}");
    }
    for face in FACES {
        let home = home();
        let session = standing(face, home.path());
        let mut stop = Command::new(program());
        stop.arg("estop").env_clear().env("PATH", TEST_PATH).env("HOME", home.path()).stdin(Stdio::null());
        assert!(stop.output().expect("it runs").status.success());
        session.expect_text(&format!("{}  it has ended", keys(face)));
        session.expect_text("it was stopped, and all that it had started");
        gone(&session, home.path());
    }
}

#[test]
fn ctrl_c_ends_an_overdue_command() {
    for face in FACES {
        let home = home();
        let session = standing(face, home.path());
        session.send(b"w");
        session.expect_text("  waiting");
        if [Face::Once, Face::Tool].contains(&face) {
            let is_usual = || session.termios().local_flags.contains(LocalFlags::ISIG).then_some(());
            session.expect_outside("the terminal as it was before", is_usual);
        }
        session.press(Key::Ctrl('c'));
        session.expect_text("it was stopped, and all that it had started");
        gone(&session, home.path());
    }
}

#[test]
fn keys_from_before_it_and_a_paste_do_not_answer_it() {
    let home = home();
    let session = chat_with_keys_ahead(home.path(), "eew");
    session.expect_text(KEYS);
    session.send(b"ee");
    session.send(b"\x1b[200~e\x1b[201~");
    go(home.path());
    session.expect_text("it has ended");
    session.expect_text("that was it");
    session.expect("what was typed before, at the prompt", |screen| cursor_line(screen).trim_end() == "> eew");
}

#[test]
fn the_model_learns_the_choice_and_its_jobs_are_not_offered_again() {
    let server = Server::start();
    let shell = |arguments: Value| tool_call("shell", &arguments.to_string());
    server.reply(shell(json!({"command": "cat go"})));
    server.reply(shell(json!({"job": 1})));
    server.reply(shell(json!({"command": "cat go"})));
    server.reply(answer("that was it"));
    let session = Session::spawn(server.shell("", LIMITS).size(40, 100));
    session.expect_prompt();
    let told = |number: usize| server.request(number).content(-1);
    session.run("mkdir -p reedclaw-workspace; mkfifo reedclaw-workspace/go");
    session.send(b"?please do\r");
    session.expect_text(KEYS);
    session.send(b"j");
    let (let_go_on, still_runs) = (told(2), told(3));
    assert!(let_go_on.contains("the user lets it continue as job 1"), "{let_go_on}");
    assert!(still_runs.contains("still running after 0 s; it continues as job 1"), "{still_runs}");
    session.expect("the second question", |screen| screen.contents().matches(KEYS).count() == 2);
    session.send(b"e");
    session.expect_text("that was it");
    let ended = told(4);
    assert!(ended.contains("the user ended it after "), "{ended}");
}

#[test]
fn without_a_person_and_by_the_models_own_short_time_it_is_a_job_at_once() {
    let home = home();
    let mut agent = Command::new(program());
    agent.args(["agent", "--json", "-m", "please do", "--path"]).arg(home.path().join("work"));
    let output = agent.env_clear().env("PATH", TEST_PATH).env("HOME", home.path()).stdin(Stdio::null()).output();
    let told = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
    let done = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let error = done.filter(|it| it["event"] == "tool_done").map(|it| it["result"]["error"].clone()).next();
    let error = error.expect("an outcome");
    assert_eq!(error["code"], "still-running", "{told}");
    assert!(error["message"].as_str().is_some_and(|it| it.ends_with(" s; it continues as job 1")), "{error}");

    let own = json!({"command": "cat go", "timeoutMs": 1});
    let home = changes::home(&[rounds("please", &[("shell", own)], "that was it")], "security = {autonomy = 'full'}");
    mkfifo(&work(home.path(), "go"), Mode::S_IRWXU).expect("a pipe");
    let session = asking(Face::Shell, home.path(), (40, 100), "true", ("", json!(null)));
    session.expect_text("  still running after 0 s; it continues as job 1");
    session.expect_text("that was it");
    assert!(!session.screen_text().contains("The command still runs"), "{}", session.screen_text());
}
