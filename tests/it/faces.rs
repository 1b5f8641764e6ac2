//! A model's proposal at a terminal without a session: the chat, one question and `tool run` ask as the shell does, with the same
//! keys. Keys typed ahead aren't lost, and the terminal is left in its original state.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use nix::sys::termios::LocalFlags;
use serde_json::json;

use crate::changes::{batch, batch_home, expect_hunk, home, numbered, read, rounds, work};
use crate::pty::{Key, Session, Spawn, cursor_line, program, status_code};
use crate::server::{Server, Step, end, head, piece};

const KEYS: &str = "accept [y]  by hunk [h]  edit [e]  whole file [f]  no, and say why [w]  no [n, Enter]";

/// The face that asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Face {
    Shell,
    Chat,
    Once,
    Tool,
}

const WITHOUT_SESSION: [Face; 3] = [Face::Chat, Face::Once, Face::Tool];

/// A session in which a face asks about this call, which the model of `home` wants too.
pub fn asking(
    face: Face,
    home: &Path,
    size: (u16, u16),
    editor: &str,
    (tool, arguments): (&str, serde_json::Value),
) -> Session {
    let project = home.join("work").display().to_string();
    let spawn = match face {
        Face::Shell => Spawn::reedclaw().cwd(&home.join("work")),
        Face::Chat => Spawn::new(program()).args(&["agent", "--path", &project]),
        Face::Once => Spawn::new(program()).args(&["agent", "--path", &project, "-m", "please do"]),
        Face::Tool => {
            let arguments = arguments.to_string();
            Spawn::new(program()).args(&["tool", "run", tool, "--json", &arguments, "--workspace", &project])
        }
    };
    let session = Session::spawn(spawn.home(home).size(size.0, size.1).env("EDITOR", editor));
    match face {
        Face::Shell => {
            session.expect_prompt();
            session.send(b"?please do\r");
        }
        Face::Chat => {
            session.expect_text("a chat with the model");
            session.line("please do");
        }
        Face::Once | Face::Tool => {}
    }
    session
}

/// A chat that gets a question and further keys at once: sent later, the keys might arrive when a question is already open.
pub fn chat_with_keys_ahead(home: &Path, keys: &str) -> Session {
    let chat = Spawn::new(program()).args(&["agent", "--path", &home.join("work").display().to_string()]);
    let session = Session::spawn(chat.home(home).size(40, 100));
    session.expect_text("a chat with the model");
    session.type_text(&format!("please do\r{keys}"));
    session
}

/// Waits for the output after a yes, and for the end of a face that ends.
pub fn done(face: Face, session: &Session) {
    if face == Face::Tool {
        return assert_eq!(status_code(session.expect_exit()), 0);
    }
    session.expect_text("that was it");
    if face == Face::Once {
        assert_eq!(status_code(session.expect_exit()), 0);
    }
}

#[test]
fn every_face_offers_the_same() {
    for face in [Face::Shell, Face::Chat, Face::Once, Face::Tool] {
        let home = batch_home();
        let session = asking(face, home.path(), (40, 100), "true", ("edit_apply_batch", batch()));
        session.expect_text(KEYS);
        session.expect_text("+ line twenty-five");
        session.send(b"f");
        session.expect_text("back [q, Enter]");
        session.expect("lines far from any change", |screen| screen.contents().contains(" 15  15   line 15"));
        session.send(b"q");
        session.expect_text(KEYS);
        session.send(b"h");
        expect_hunk(&session, "hunk 1 of 3");
        session.send(b"n");
        expect_hunk(&session, "hunk 2 of 3");
        session.send(b"d");
        session.expect("nothing but the question is left", |screen| !screen.contents().contains("hunk 2 of 3"));
        assert_eq!(
            (read(home.path(), "a.txt"), read(home.path(), "b.txt")),
            (numbered(30), "old\n".into()),
            "{face:?}"
        );
    }
}

#[test]
fn hunks_are_accepted_one_by_one_without_a_session() {
    for face in WITHOUT_SESSION {
        let home = batch_home();
        let session = asking(face, home.path(), (40, 100), "true", ("edit_apply_batch", batch()));
        session.expect_text(KEYS);
        session.send(b"h");
        expect_hunk(&session, "hunk 1 of 3");
        session.send(b"n");
        expect_hunk(&session, "hunk 2 of 3");
        session.send(b"a");
        session.expect_text("2 of 3 hunks accepted");
        done(face, &session);
        assert_eq!(read(home.path(), "a.txt"), numbered(30).replace("25", "twenty-five"), "{face:?}");
        assert_eq!(read(home.path(), "b.txt"), "new\n", "{face:?}");
    }
}

#[test]
fn a_proposal_is_changed_in_the_editor_without_a_session() {
    for face in WITHOUT_SESSION {
        let edit = json!({"path": "a.txt", "old": "line 5\n", "new": "line five\n"});
        let home = home(&[rounds("please", &[("edit_replace_exact", edit.clone())], "that was it")], "");
        fs::write(work(home.path(), "a.txt"), numbered(9)).expect("a file");
        let editor = home.path().join("editor");
        // It has the terminal in its original modes, and the person's keys.
        let script =
            "#!/bin/sh\nstty -a >~/modes\nprintf 'edit? '\nread -r word\nsed -i \"s/line five/line $word/\" \"$2\"\n";
        fs::write(&editor, script).expect("an editor");
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("permissions");
        let editor = format!("{} -x", editor.display());
        let session = asking(face, home.path(), (40, 100), &editor, ("edit_replace_exact", edit));
        session.expect_text(KEYS);
        session.send(b"e");
        session.expect_text("edit? ");
        session.line("FIVE");
        session.expect_text("you changed the proposal");
        session.expect_text("+ line FIVE");
        session.expect_text(KEYS);
        assert_eq!(read(home.path(), "a.txt"), numbered(9), "it is asked about first");
        session.send(b"y");
        done(face, &session);
        assert_eq!(read(home.path(), "a.txt"), numbered(9).replace("line 5", "line FIVE"), "{face:?}");
        let modes = fs::read_to_string(home.path().join("modes")).expect("modes");
        assert!(modes.contains(" icanon ") && modes.contains(" echo "), "{face:?}: {modes}");
    }
}

#[test]
fn a_long_difference_is_scrolled_in_place_without_a_session() {
    for face in WITHOUT_SESSION {
        let write = json!({"path": "long.txt", "content": numbered(200)});
        let home = home(&[rounds("please", &[("file_write", write.clone())], "that was it")], "");
        let session = asking(face, home.path(), (24, 80), "true", ("file_write", write));
        session.expect_text("lines 1-");
        session.send(b"y");
        session.expect_text("first go to the end");
        session.send(b"\x1b[6~");
        session.expect_text("+ line 30");
        session.send(b"G");
        session.expect_text("+ line 200");
        session.expect_text("accept [y]");
        assert_eq!(read(home.path(), "long.txt"), "(no file)");
        session.send(b"y");
        done(face, &session);
        assert_eq!(read(home.path(), "long.txt"), numbered(200), "{face:?}");
    }
}

#[test]
fn a_rejection_says_why_without_a_session() {
    for face in WITHOUT_SESSION {
        let home = batch_home();
        let session = asking(face, home.path(), (40, 100), "true", ("edit_apply_batch", batch()));
        session.expect_text(KEYS);
        session.send(b"w");
        session.expect_text("tell the model: ");
        session.line("b.txt stays");
        session.expect_text("the user said no: b.txt stays");
        if face == Face::Tool {
            assert_eq!(status_code(session.expect_exit()), 3);
        }
        assert_eq!(read(home.path(), "b.txt"), "old\n", "{face:?}");
    }
}

#[test]
fn keys_from_before_a_question_of_the_chat_are_for_the_next_line() {
    let home = batch_home();
    let session = chat_with_keys_ahead(home.path(), "yyhy");
    session.expect_text(KEYS);
    session.send(b"yy");
    session.send(b"\x1b[200~y\x1b[201~");
    session.press(Key::Ctrl('c'));
    session.expect_text("Stopped.");
    session.expect("what was typed before, at the prompt", |screen| cursor_line(screen).trim_end() == "> yyhy");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), (numbered(30), "old\n".to_owned()));
}

#[test]
fn lines_typed_ahead_in_a_chat_are_all_asked_and_ctrl_d_ends_it() {
    let server = Server::start();
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let config =
        format!("return {{models = {{tiny = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}}}", server.endpoint());
    fs::create_dir_all(home.path().join(".config/reedclaw")).expect("a directory");
    fs::write(home.path().join(".config/reedclaw/config.lua"), config).expect("a config");
    server.reply(vec![head(), piece("begun\n\n"), Step::Gate(1), piece("and ended"), end()]);
    let session = Session::spawn(Spawn::new(program()).arg("agent").home(home.path()).size(40, 100));
    session.line("what is first?");
    session.expect_text("begun");
    // Written as at the prompt: with a typing error that is corrected, a command, and an end after the last line.
    session.send(b"what is sekond\x7f\x7f\x7f\x7fcond?\r/help\rwhat is third?\r");
    session.send(b"\x04");
    server.open(1);
    session.expect_text("and ended");
    assert!(session.expect_exit().success());
    let shown = session.screen_text();
    assert!(shown.contains("ends the chat, as Ctrl-D does"), "{shown}");
    // None of these keys was echoed into the answer.
    let lines: Vec<&str> = shown.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    assert!(lines.windows(3).any(|it| it == ["begun", "and ended", "> what is second?"]), "{shown}");
    let asked: Vec<String> = (1..=server.requests()).map(|at| server.request(at).content(-1)).collect();
    // News of the repository may precede a question.
    let wanted = ["what is first?", "what is second?", "what is third?"];
    assert_eq!(asked.len(), wanted.len(), "{asked:?}");
    assert!(asked.iter().zip(wanted).all(|(asked, wanted)| asked.ends_with(wanted)), "{asked:?}");
}

#[test]
fn a_chat_leaves_the_terminal_as_it_found_it_however_it_ends() {
    let is_usual = |session: &Session| {
        session.termios().local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    };
    for ends in ["exit", "ctrl-d", "signal"] {
        let home = batch_home();
        let session = asking(Face::Chat, home.path(), (40, 100), "true", ("", json!(null)));
        session.expect_text(KEYS);
        assert!(!is_usual(&session), "keys are read one by one");
        session.send(b"n");
        session.expect_text("[tool] denied: the user said no");
        match ends {
            "exit" => session.line("/exit"),
            "ctrl-d" => session.press(Key::Ctrl('d')),
            _ => session.kill(Signal::SIGTERM),
        }
        session.expect_exit();
        assert!(is_usual(&session), "{ends}");
    }
}
