//! fish as the live shell: what bash does there, it does too.

use crate::need::require;
use crate::pty::{Key, Session, Spawn, status_code};

/// A session over fish with this start-up file; none where fish isn't installed.
fn session(rc: &str) -> Option<Session> {
    start(rc, "", |spawn| spawn)
}

fn start(rc: &str, settings: &str, change: impl FnOnce(Spawn) -> Spawn) -> Option<Session> {
    if !require(&["fish"]) {
        return None;
    }
    let program = crate::need::find("fish").expect("just found");
    // Known, because the list of programs may come behind the first lines; a slow machine completes slowly.
    let config = format!(
        "return {{ shell = {{ program = \"{}\", known_commands = {{ \"sleep\", \"cat\", \"vim\" }} }}, \
         editor = {{ completion_timeout_ms = 10000 }}, {settings} }}",
        program.display()
    );
    Some(Session::spawn(change(
        Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file(".config/fish/config.fish", rc),
    )))
}

/// Waits until the shell has taken a line.
#[track_caller]
fn ready(session: &Session) {
    session.run("echo ready");
    session.expect_line("ready");
    session.run("clear");
}

#[track_caller]
fn running(session: &Session, name: &str) {
    session.expect_outside(&format!("a running {name}"), || {
        session.descendants().iter().any(|process| process.name == name).then_some(())
    });
}

#[test]
fn variables_and_options_stay_set() {
    let Some(session) = session("function twice; echo $argv[1]-$argv[1]; end\n") else { return };
    ready(&session);
    session.run("mkdir -p a/b; cd a/b; set -gx ONE 1; alias hi='echo hi-by'");
    session.run("hi there; twice x; pwd; sh -c 'echo in-$ONE'; echo type-$TERM");
    session.expect_line("hi-by there");
    session.expect_line("x-x");
    session.expect_line("in-1");
    session.expect_line("type-xterm-256color");
    session.expect("the directory in the prompt", |screen| screen.contents().contains("~/a/b ❯"));
}

#[test]
fn an_empty_line_keeps_the_status_and_the_environment() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("set -gx VIRTUAL_ENV /srv/env; sh -c 'exit 3'");
    let is_prompt = |screen: &vt100::Screen| crate::pty::cursor_line(screen).trim_end().ends_with("(env) ~ 3 ❯");
    session.expect("the status in the prompt", is_prompt);
    session.press(Key::Enter);
    session.expect("the same prompt again", |screen| {
        is_prompt(screen)
            && screen.contents().lines().filter(|row| row.trim_end().ends_with("(env) ~ 3 ❯")).count() == 2
    });
    session.run("echo after $status");
    session.expect_line("after 3");
}

#[test]
fn the_prompt_names_the_virtual_environment() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("set -gx VIRTUAL_ENV '/srv/projects/my env;1'");
    session.expect_text("(my_env_1) ~ ❯");
    session.run("set -e VIRTUAL_ENV");
    session.run("clear");
    session.expect("a prompt without it", |screen| crate::pty::cursor_line(screen).starts_with("~ ❯"));
}

#[test]
fn an_interrupt_right_after_enter_reaches_the_command() {
    let Some(session) = session("") else { return };
    ready(&session);
    for _ in 0..5 {
        session.interrupted_at_once("sleep 600");
        session.run("echo back");
        session.expect_line("back");
        session.run("clear");
    }
}

#[test]
fn a_status_is_shown_and_available_to_the_next_line() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("false");
    session.expect("the status in the prompt", |screen| screen.contents().contains(" 1 ❯"));
    session.run("echo status-$status");
    session.expect_line("status-1");
    session.line("exit 3");
    assert_eq!(status_code(session.expect_exit()), 3);
}

#[test]
fn several_lines_are_one_command_and_a_half_one_goes_on() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.expect_prompt();
    session.send(b"\x1b[200~for i in 1 2\necho r-$i\nend\necho behind\x1b[201~\r");
    session.expect_line("r-1");
    session.expect_line("r-2");
    session.expect_line("behind");
    session.run("clear");
    session.line("echo 'begun");
    session.line("ended'");
    session.expect_line("begun");
    session.expect_line("ended");
    session.run("clear");
    session.expect_prompt();
    session.line("if true; echo whole");
    session.type_text("end");
    session.press(Key::Enter);
    session.expect_line("whole");
    session.expect_prompt();
}

#[test]
fn a_syntax_error_is_shown_once() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("echo a )");
    session.expect_text("fish: Unexpected ')'");
    session.run("echo alive-(math 1+1)");
    session.run("clear");
    session.run("printf half; true");
    session.expect("the mark of an open line, once", |screen| screen.contents().matches("half⏎").count() == 1);
}

#[test]
fn ctrl_c_and_ctrl_z_reach_the_job() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.expect_prompt();
    session.line("sleep 611");
    running(&session, "sleep");
    session.press(Key::Ctrl('c'));
    session.run("echo status-$status");
    session.expect_line("status-130");
    session.line("sleep 612");
    running(&session, "sleep");
    session.press(Key::Ctrl('z'));
    session.run("echo stopped-$status; jobs | cat");
    session.expect_text("stopped-0");
    session.run("clear");
    session.line("fg");
    session.expect_outside("the job in front", || {
        session.descendants().iter().any(|process| process.name == "sleep" && process.state != 'T').then_some(())
    });
    session.press(Key::Ctrl('c'));
    session.run("echo then-$status");
    // fish says of `fg` that it went well.
    session.expect_line("then-0");
}

#[test]
fn vim_opens_and_quits() {
    if !require(&["vim"]) {
        return;
    }
    let Some(session) = start("", "", |spawn| spawn.file("note.txt", "a line of the note\n")) else { return };
    ready(&session);
    session.expect_prompt();
    session.line("vim -u NONE note.txt");
    session.expect("vim", |screen| screen.alternate_screen() && screen.contents().contains("a line of the note"));
    session.type_text("ggxx:wq");
    session.press(Key::Enter);
    session.run("cat note.txt");
    session.expect_line("line of the note");
}

#[test]
fn keys_typed_ahead_reach_the_command() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.expect_prompt();
    session.send(b"sleep 0.3\rcat > kept\rtyped ahead\r");
    session.expect_outside("what cat got", || {
        std::fs::read_to_string(session.home().join("kept")).ok().filter(|text| text == "typed ahead\n")
    });
    session.press(Key::Ctrl('d'));
    session.run("echo next-to-it");
    session.expect_line("next-to-it");
}

#[test]
fn a_slow_start_takes_the_first_line() {
    let Some(session) = session("sleep 0.5; echo started-up\n") else { return };
    session.send(b"echo first-line\r");
    session.expect_line("first-line");
    session.run("echo second-line");
    session.expect_line("second-line");
    session.expect_line("started-up");
}

#[test]
fn a_background_job_speaks_above_the_prompt() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.expect_prompt();
    session.line("sleep 0.3 &");
    session.expect_text("has ended");
    session.run("echo afterwards");
    session.expect_line("afterwards");
    assert!(!session.screen_text().contains("633"), "{}", session.screen_text());
}

#[test]
fn a_script_and_a_command_are_the_shell_itself() {
    if !require(&["fish"]) {
        return;
    }
    let Some(session) = start("", "", |spawn| spawn.arg("-c").arg("echo v-$version | cut -c1-3")) else { return };
    session.expect_line("v-3");
    assert_eq!(status_code(session.expect_exit()), 0);
}

/// A project's file that asks for it is read behind the prompt that would have drawn it.
#[test]
fn its_own_prompt_is_drawn_as_soon_as_a_project_asks_for_it() {
    let own = "return { prompt = \"shell\" }\n";
    let Some(session) = start(
        "function fish_prompt; echo -n \"own-$status \"(string split -r -m1 / -- $PWD)[-1]'❯ '; end\n",
        "",
        |spawn| spawn.file("p/.reedclaw.lua", own),
    ) else {
        return;
    };
    ready(&session);
    session.expect_prompt();
    session.type_text("cd p");
    session.press(Key::Enter);
    session.expect_text("trust [t]  look [l]");
    session.type_text("t");
    session.expect("the prompt", |screen| crate::pty::cursor_line(screen).starts_with("own-0 p❯"));
    session.run("cd /");
    session.expect("the default", |screen| crate::pty::cursor_line(screen).starts_with("/ ❯"));
    session.run("cd ~/p");
    session.expect("the prompt at once", |screen| crate::pty::cursor_line(screen).starts_with("own-0 p❯"));
    session.run("echo again-$TERM");
    session.expect_line("again-xterm-256color");
}

#[test]
fn its_own_prompt_may_be_drawn() {
    let Some(session) =
        start("function fish_prompt; echo own-$status '❯ '; end\n", "prompt = \"shell\"", |spawn| spawn)
    else {
        return;
    };
    session.run("false");
    session.expect("the prompt with its status", |screen| screen.contents().contains("own-1 ❯"));
    session.run("echo mine-(fish_prompt)");
    session.expect_text("mine-own-1");
}

#[test]
fn its_completion_answers() {
    let Some(session) =
        session("function mine; end\ncomplete -c mine -f -a one -d first; complete -c mine -f -a onto -d second\n")
    else {
        return;
    };
    ready(&session);
    session.expect_prompt();
    session.type_text("mine on");
    session.press(Key::Tab);
    session.expect_text("second");
    session.press(Key::Ctrl('c'));
    session.run("echo still-here");
    session.expect_line("still-here");
}

#[test]
fn names_of_our_own_are_hidden() {
    let Some(session) = session("alias al='echo named'; abbr -a ab 'echo named'\nfunction fn; echo named $argv; end\n")
    else {
        return;
    };
    ready(&session);
    session.run("echo ready");
    for name in ["al", "ab", "fn"] {
        session.run(&format!("{name} one two"));
        session.expect_line("named one two");
        session.run("clear");
    }
    session.type_text("__rc");
    session.press(Key::Tab);
    session.expect_text("__rc");
    assert!(!session.screen_text().contains("__rc_"), "{}", session.screen_text());
}

#[test]
fn a_login_shell_starts_as_one() {
    let rc = "status is-login; and set kind login\nfunction fish_greeting; echo greeted; end\n";
    let Some(session) = start(rc, "", |spawn| spawn.argv0("-reedclaw")) else { return };
    session.run("echo kind-$kind");
    session.expect_line("kind-login");
    session.expect_raw(b"greeted", 0);
}

#[test]
fn a_prompt_made_later_is_its_own() {
    let Some(session) = start("function fish_prompt; echo old; end\n", "prompt = \"shell\"", |spawn| spawn) else {
        return;
    };
    session.expect("the prompt", |screen| screen.contents().contains("old"));
    // As a virtual environment does it: it keeps the prompt that there was and puts its name in front.
    session.line("functions -c fish_prompt was; function fish_prompt; echo (echo 'env '; was) '❯'; end");
    session.run("echo $TERM");
    session.expect_text("env  old ❯");
    session.expect_line("xterm-256color");
}
