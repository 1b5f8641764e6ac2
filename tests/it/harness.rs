//! The harness itself, checked against programs that are known to be correct.

use nix::sys::signal::Signal;

use crate::need::require;
use crate::pty::{Key, Session, Spawn, cursor_line, status_code};
use crate::sshd::Sshd;

#[test]
fn a_prompt_appears_and_a_command_runs() {
    let session = Session::spawn(Spawn::bash());
    session.run("echo sum-$((40+2))");
    session.expect_text("sum-42");
    session.line("exit 7");
    assert_eq!(status_code(session.expect_exit()), 7);
}

#[test]
fn the_environment_is_the_tests_own() {
    let session = Session::spawn(Spawn::bash().env("PLANTED", "yes"));
    session.run("echo \"home-$HOME-\"; echo user-$USER-$PLANTED-$CARGO_MANIFEST_DIR-");
    session.expect_text("user-tester-yes--");
    session.expect_text(&format!("home-{}", &session.home().display().to_string()[..12]));
}

#[test]
fn vim_opens_in_the_alternate_screen_and_quits() {
    if !require(&["vim"]) {
        return;
    }
    let session = Session::spawn(Spawn::bash().file("note.txt", "a line of the note\n"));
    session.expect_prompt();
    session.line("vim -u NONE note.txt");
    session.expect("vim with the file", |screen| {
        screen.alternate_screen() && screen.contents().contains("a line of the note")
    });
    session.type_text("ggxx:wq");
    session.press(Key::Enter);
    session.expect_prompt();
    session.run("cat note.txt");
    session.expect_text("line of the note");
    assert_eq!(std::fs::read_to_string(session.home().join("note.txt")).expect("the note"), "line of the note\n");
}

#[test]
fn a_resize_reaches_the_program() {
    let session = Session::spawn(Spawn::bash().size(30, 100));
    session.run("stty size");
    session.expect_text("30 100");
    session.resize(40, 132);
    session.run("stty size");
    session.expect_text("40 132");
}

#[test]
fn queries_are_answered_where_the_cursor_is() {
    let session = Session::spawn(Spawn::bash());
    session.run("clear");
    session.run("IFS= read -rsd R -p $'\\e[6n' at; echo \"at ${at#??}\"");
    session.expect_text("at 2;1");
    for (query, end, reply) in [
        ("\\e[5n", "n", "[0"),
        ("\\e[c", "c", "[?62;22"),
        ("\\e[>c", "c", "[>1;10;0"),
        ("\\e[?u", "u", "[?0"),
        ("\\e[?2026$p", "y", "[?2026;0$"),
        ("\\e]11;?\\e\\\\", "\\\\", "]11;rgb:1111/1111/1111"),
    ] {
        session.run("clear");
        session.run(&format!("IFS= read -rsd {end} -p $'{query}' at; printf 'got %q\\n' \"$at\""));
        session.expect("the reply", |screen| {
            screen.contents().lines().any(|line| line.starts_with("got ") && line.contains(reply))
        });
    }
    assert_eq!(session.queries(), 7);
}

#[test]
fn a_deaf_terminal_answers_nothing() {
    let session = Session::spawn(Spawn::bash().deaf());
    session.run("IFS= read -t 0.2 -rsd R -p $'\\e[6n' at; echo \"status $?\"");
    session.expect_text("status 142");
    assert_eq!(session.queries(), 1);
}

#[test]
fn another_name_makes_a_login_shell() {
    let session = Session::spawn(Spawn::new("/bin/bash").argv0("-bash").file(".bash_profile", "PS1='❯ '\n"));
    session.run("echo $0; shopt login_shell");
    session.expect_text("-bash");
    session.expect("a login shell", |screen| {
        screen.contents().lines().any(|line| line.starts_with("login_shell") && line.ends_with("on"))
    });
}

#[test]
fn a_closed_terminal_hangs_up_and_a_signal_ends() {
    let mut session = Session::spawn(Spawn::bash());
    session.expect_prompt();
    session.hang_up();
    assert_eq!(status_code(session.expect_exit()), 128 + Signal::SIGHUP as i32);

    let session = Session::spawn(Spawn::new("/bin/sleep").arg("600"));
    session.kill(Signal::SIGTERM);
    assert_eq!(status_code(session.expect_exit()), 128 + Signal::SIGTERM as i32);
}

#[test]
fn nothing_that_was_started_outlives_its_session() {
    let session = Session::spawn(Spawn::bash());
    session.run("(trap '' HUP; sleep 600) & disown; echo started");
    let below = session.expect_outside("the sleep below bash", || {
        let below = session.descendants();
        below.iter().any(|process| process.name == "sleep").then_some(below)
    });
    drop(session);
    for process in below {
        // A killed process may stay a zombie until its new parent notices.
        let now = crate::procs::process(process.pid).filter(|now| now.started_ticks == process.started_ticks);
        assert!(now.is_none_or(|now| "ZX".contains(now.state)), "{process:?} survived");
    }
}

#[test]
fn the_cursor_line_is_the_typed_line() {
    let session = Session::spawn(Spawn::bash());
    session.expect_prompt();
    session.type_text("echo naïve 漢字");
    session.expect("the typed line", |screen| cursor_line(screen).ends_with("echo naïve 漢字"));
    session.press(Key::Ctrl('u'));
    session.expect_prompt();
}

#[test]
fn a_failure_shows_the_screen_and_the_processes() {
    let mut session = Session::spawn(Spawn::bash());
    session.set_patience(std::time::Duration::from_secs(2));
    session.run("echo sum-$((40+2))");
    session.line("exit");
    session.expect_exit();
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| session.expect_text("never written")));
    let failure = *failure.expect_err("the wait fails").downcast::<String>().expect("a message");
    for part in ["\"never written\" on the screen", "|sum-42", "last raw bytes", "has ended: exit status: 0"] {
        assert!(failure.contains(part), "{part:?} is missing in\n{failure}");
    }
}

#[test]
fn a_user_logs_in_over_ssh() {
    let Some(server) = Sshd::start("/bin/bash".as_ref()) else { return };
    let output = server.ssh(&["echo out; echo err >&2; exit 7"]).output().expect("ssh runs");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");

    let login = server.login();
    login.expect("a prompt of the test user", |screen| cursor_line(screen).ends_with('$'));
    login.line("echo who-$(id -un)-$0");
    login.expect_text(&format!("who-{}--bash", server.user()));
    login.line("exit 3");
    assert_eq!(status_code(login.expect_exit()), 3);
}
