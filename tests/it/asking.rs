//! Answering a question about a model's call by a key: when a key counts, which questions are asked twice, and what the person
//! sees.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::changes::{home, rounds, work};
use crate::faces::{Face, asking, done};
use crate::need::TEST_PATH;
use crate::pty::{Key, Session, Spawn, program};
use crate::wall::{scene, session};

const KEYS: &str = "run once [y]";
const SOON: &str = "(too soon: press again)";
/// On a copy, a command would run before the question.
const ASKED_FIRST: &str = "security = {sandbox = \"off\"}";
const FACES: [Face; 4] = [Face::Shell, Face::Chat, Face::Once, Face::Tool];

fn touch() -> (&'static str, serde_json::Value) {
    ("shell", json!({"command": "touch typed"}))
}

/// A face that asks about the command, and accepts keys.
fn asked(face: Face, home: &std::path::Path) -> Session {
    let session = asking(face, home, (40, 110), "true", touch());
    session.expect_text("The model wants to use shell");
    session.expect_text(KEYS);
    session
}

/// A person who was typing the next line answered the question that appeared meanwhile with the `a` of "also", for good.
#[test]
fn a_key_between_other_keys_answers_nothing_and_the_row_says_so() {
    for face in FACES {
        let home = home(&[rounds("please", &[touch()], "that was it")], ASKED_FIRST);
        let session = asked(face, home.path());
        session.send(b"x");
        session.expect("a row without keys", |screen| {
            let text = screen.contents();
            text.contains("run once") && !text.contains(KEYS) && !text.contains(SOON)
        });
        session.send(b"y");
        session.expect_text(SOON);
        session.expect("keys that count again", |screen| {
            screen.contents().contains(KEYS) && !screen.contents().contains(SOON)
        });
        assert!(!work(home.path(), "typed").exists(), "{face:?}");
        session.send(b"y");
        done(face, &session);
        assert!(work(home.path(), "typed").exists(), "{face:?}");
    }
}

/// A command that took a moment was shown as one of five seconds, because the person had read its question for that long.
#[test]
fn the_time_of_a_call_is_not_the_time_that_the_person_took() {
    let home = home(&[rounds("please", &[touch()], "that was it")], ASKED_FIRST);
    let session = asked(Face::Shell, home.path());
    let began = std::time::Instant::now();
    for _ in 0..2 {
        session.send(b"x");
        session.expect("a row without keys", |screen| !screen.contents().contains(KEYS));
        session.expect_text(KEYS);
    }
    let waited = began.elapsed().as_millis();
    assert!(waited > 1000, "the keys rest for 700 ms each");
    session.send(b"y");
    done(Face::Shell, &session);
    let log = fs::read_to_string(home.path().join(".local/state/reedclaw/reedclaw.log")).expect("the log");
    let events = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let completed: Vec<_> = events.filter(|event| event["event"] == "tool_completed").collect();
    let took = completed[0]["ms"].as_u64().expect("a time");
    assert!(u128::from(took) < waited, "{took} ms, of which the person took {waited}");
}

#[test]
fn ctrl_c_counts_at_any_time() {
    let home = home(&[rounds("please", &[touch()], "that was it")], ASKED_FIRST);
    let session = asked(Face::Shell, home.path());
    session.send(b"x");
    session.expect("a row without keys", |screen| !screen.contents().contains(KEYS));
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    assert!(!work(home.path(), "typed").exists());
}

#[test]
fn always_takes_a_second_key_and_any_other_goes_back() {
    for face in FACES {
        let home = home(&[rounds("please", &[touch()], "that was it")], ASKED_FIRST);
        let allowed = || {
            let mut list = Command::new(program());
            list.args(["allow", "list"]).env_clear().env("PATH", TEST_PATH).env("HOME", home.path());
            let output = list.current_dir(work(home.path(), ".")).stdin(Stdio::null()).output().expect("it runs");
            String::from_utf8_lossy(&output.stdout).contains("touch typed")
        };
        let session = asked(face, home.path());
        for back in [&b"y"[..], b"\r", b"aa"] {
            session.send(b"a");
            session.expect_text("press a again [a]  back [any other key]");
            session.send(back);
            session.expect_text(KEYS);
        }
        assert!(!allowed() && !work(home.path(), "typed").exists(), "{face:?}");
        session.send(b"a");
        session.expect_text("always, for this command in this project? press a again [a]");
        session.send(b"a");
        done(face, &session);
        assert!(allowed() && work(home.path(), "typed").exists(), "{face:?}");
    }
}

/// Screen readers read the keys out once, when they count.
#[test]
fn in_accessible_mode_the_row_of_keys_is_written_once() {
    let home = home(&[rounds("please", &[touch()], "that was it")], ASKED_FIRST);
    let config = home.path().join(".config/reedclaw/config.lua");
    let text = fs::read_to_string(&config).expect("the config").replace("{usage = false}", "{accessible = true}");
    fs::write(&config, text).expect("a config");
    let session = asked(Face::Once, home.path());
    session.expect_text("model: touch typed");
    session.send(b"y");
    done(Face::Once, &session);
    let raw = String::from_utf8_lossy(&session.raw()).into_owned();
    assert_eq!(raw.matches("run once").count(), 1, "{raw}");
}

#[test]
fn a_commands_lines_follow_a_gutter_and_mixed_scripts_are_marked() {
    let command = "tru\u{435}\n  in /tmp, by /bin/true\nrun once [y]";
    for (locale, gutter) in [("C.UTF-8", "│ "), ("C", "| ")] {
        let call = ("shell", json!({"command": command}));
        let home = home(&[], ASKED_FIRST);
        let project = home.path().join("work").display().to_string();
        let arguments = call.1.to_string();
        let args = ["tool", "run", "shell", "--json", &arguments, "--workspace", &project];
        let spawn = Spawn::new(program()).args(&args).home(home.path()).size(40, 110).env("LANG", locale);
        let session = Session::spawn(spawn);
        session.expect("its rows", |screen| {
            let text = screen.contents();
            let theirs = ["tru\\u{435}", "  in /tmp, by /bin/true", "run once [y]"];
            theirs.iter().all(|line| text.lines().any(|row| row.trim_end() == format!("{gutter}{line}")))
                && text.contains("\n  beware: a word mixes letters of two scripts")
                && text.lines().any(|row| row.starts_with("  in /") && row.contains("/work"))
        });
        session.expect_text("no [n, Enter]");
        session.send(b"n");
        session.expect_exit();
    }
}

/// A line that a command printed appeared in the question as ReedClaw's own words.
#[test]
fn output_of_a_command_is_right_of_the_gutter() {
    let home = scene(&["sh take.sh"], "");
    let plan = home.path().join("plan.txt");
    fs::write(&plan, "private\n").expect("a file");
    let script = format!("echo 'cat: {}: No such file. Only its size is read' >&2; exit 1\n", plan.display());
    fs::write(work(home.path(), "take.sh"), script).expect("a script");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("run once [y]");
    session.expect("the line beside the gutter", |screen| {
        let text = screen.contents();
        let is_theirs = |row: &str| row.starts_with("│ ");
        text.lines().any(|row| row.starts_with("  It was refused reading "))
            && text.lines().any(|row| is_theirs(row) && row.contains("cat: "))
            && text.lines().filter(|row| row.contains("No such file") || row.contains("size is read")).all(is_theirs)
    });
    session.send(b"n");
    session.expect_text("that was it");
}

/// A plugin's U+202E and C1 controls stayed in the JSON that a terminal shows.
#[test]
fn json_on_a_terminal_hides_nothing_and_in_a_pipe_is_as_it_was() {
    let home = home(&[], ASKED_FIRST);
    fs::write(work(home.path(), "a.txt"), "left\u{202e}right\u{9b}2J\n").expect("a file");
    let project = home.path().join("work").display().to_string();
    let args = ["tool", "run", "file_read", "--json", "{\"path\": \"a.txt\"}", "--workspace", &project];
    let session = Session::spawn(Spawn::new(program()).args(&args).home(home.path()).size(40, 110));
    session.expect_text("left\\u202eright");
    session.expect_exit();
    let raw = String::from_utf8_lossy(&session.raw()).into_owned();
    assert!(!raw.contains(['\u{202e}', '\u{9b}']), "{raw:?}");
    let mut piped = Command::new(program());
    piped.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home.path()).stdin(Stdio::null());
    let output = piped.output().expect("it runs").stdout;
    assert!(String::from_utf8_lossy(&output).contains("left\u{202e}right"));
}

/// A damaged file of rules turned off every tool of the project.
#[test]
fn a_damaged_file_of_rules_turns_off_the_rules_alone() {
    let home = home(&[], ASKED_FIRST);
    let project = home.path().join("work").display().to_string();
    let run = |args: &[&str]| {
        let mut command = Command::new(program());
        command.args(args).env_clear().env("PATH", TEST_PATH).env("HOME", home.path());
        let output = command.current_dir(work(home.path(), ".")).stdin(Stdio::null()).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let session = asked(Face::Tool, home.path());
    session.send(b"a");
    session.expect_text("press a again [a]");
    session.send(b"a");
    done(Face::Tool, &session);
    let command = json!({"command": "touch typed"}).to_string();
    let touch = ["tool", "run", "shell", "--json", &command, "--workspace", &project];
    assert_eq!(run(&touch).0, Some(0), "it is allowed for good");
    let rules = home.path().join(".local/state/reedclaw/allowed");
    let rules = fs::read_dir(rules).expect("the rules").flatten().map(|entry| entry.path());
    let rules = rules.into_iter().find(|path| path.extension().is_some_and(|it| it == "json")).expect("a file");
    fs::write(&rules, "{\"root\": 1").expect("a damaged file");
    let (code, out, err) = run(&touch);
    assert!(code == Some(3) && err.matches("nothing is allowed for good").count() == 1, "{code:?} {out} {err}");
    let (code, out, err) = run(&["tool", "run", "time", "--workspace", &project]);
    assert!(code == Some(0), "{out} {err}");
}
