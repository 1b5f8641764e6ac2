//! zsh as the live shell: what bash does there, it does too.

use crate::need::require;
use crate::pty::{Key, Session, Spawn, status_code};

/// A session over zsh with this start-up file; none where zsh isn't installed.
fn session(rc: &str) -> Option<Session> {
    start(rc, "", |spawn| spawn)
}

fn start(rc: &str, settings: &str, change: impl FnOnce(Spawn) -> Spawn) -> Option<Session> {
    if !require(&["zsh"]) {
        return None;
    }
    let program = crate::need::find("zsh").expect("just found");
    // Known, because the list of programs may come behind the first lines; a slow machine completes slowly.
    let config = format!(
        "return {{ shell = {{ program = \"{}\", known_commands = {{ \"sleep\", \"cat\", \"vim\" }} }}, \
         editor = {{ completion_timeout_ms = 10000 }}, {settings} }}",
        program.display()
    );
    Some(Session::spawn(change(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file(".zshrc", rc))))
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
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("mkdir -p a/b; cd a/b; export ONE=1; alias hi='echo hi-by'");
    session.run("twice() { echo $1-$1; }");
    session.run("hi there; twice x; pwd; sh -c 'echo in-$ONE'; echo type-$TERM");
    session.expect_line("hi-by there");
    session.expect_line("x-x");
    session.expect_line("in-1");
    session.expect_line("type-xterm-256color");
    session.expect("the directory in the prompt", |screen| screen.contents().contains("~/a/b ❯"));
}

#[test]
fn the_prompt_names_the_virtual_environment() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("export VIRTUAL_ENV='/srv/projects/my env;1'");
    session.expect_text("(my_env_1) ~ ❯");
    session.run("unset VIRTUAL_ENV");
    session.run("clear");
    session.expect("a prompt without it", |screen| crate::pty::cursor_line(screen).starts_with("~ ❯"));
}

#[test]
fn an_interrupt_right_after_enter_reaches_the_command() {
    let Some(session) = session("") else { return };
    ready(&session);
    for _ in 0..5 {
        session.interrupted_at_once("sleep 600");
        session.run("clear");
    }
}

#[test]
fn a_status_is_shown_and_available_to_the_next_line() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("false");
    session.expect("the status in the prompt", |screen| screen.contents().contains(" 1 ❯"));
    session.run("echo status-$?");
    session.expect_line("status-1");
    session.line("exit 3");
    assert_eq!(status_code(session.expect_exit()), 3);
}

#[test]
fn several_lines_are_one_command_and_a_half_one_goes_on() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.expect_prompt();
    session.send(b"\x1b[200~for i in 1 2; do\necho r-$i\ndone\necho behind\x1b[201~\r");
    session.expect_line("r-1");
    session.expect_line("r-2");
    session.expect_line("behind");
    session.run("clear");
    session.line("echo 'begun");
    // The line is back in the editor, open. What is typed before that may be read by zsh's own editor and be lost.
    session.expect_text("∙");
    session.line("ended'");
    session.expect_line("begun");
    session.expect_line("ended");
    session.run("clear");
    session.expect_prompt();
    session.line("if true; then echo whole");
    session.expect_text("∙");
    session.type_text("fi");
    session.press(Key::Enter);
    session.expect_line("whole");
    session.expect_prompt();
}

#[test]
fn a_syntax_error_is_shown_once() {
    let Some(session) = session("") else { return };
    ready(&session);
    session.run("echo a )");
    session.expect_text("zsh: parse error near `)'");
    session.run("echo alive");
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
    session.run("echo status-$?");
    session.expect_line("status-130");
    session.line("sleep 612");
    running(&session, "sleep");
    session.press(Key::Ctrl('z'));
    session.run("echo stopped-$?; jobs | cat");
    session.expect_text("stopped-148");
    session.run("clear");
    session.line("fg");
    session.expect_outside("the job in front", || {
        session.descendants().iter().any(|process| process.name == "sleep" && process.state != 'T').then_some(())
    });
    session.press(Key::Ctrl('c'));
    session.run("echo then-$?");
    session.expect_line("then-130");
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
    session.expect_text("+ done");
    session.run("echo afterwards");
    session.expect_line("afterwards");
    assert!(!session.screen_text().contains("633"), "{}", session.screen_text());
}

#[test]
fn a_script_and_a_command_are_the_shell_itself() {
    if !require(&["zsh"]) {
        return;
    }
    let Some(session) = start("", "", |spawn| spawn.arg("-c").arg("echo v-${ZSH_VERSION%%.*}")) else {
        return;
    };
    session.expect_line("v-5");
    assert_eq!(status_code(session.expect_exit()), 0);
}

/// A project's file that asks for it is read behind the prompt that would have drawn it.
#[test]
fn its_own_prompt_is_drawn_as_soon_as_a_project_asks_for_it() {
    let own = "return { prompt = \"shell\" }\n";
    let Some(session) = start("PS1='own-%? %1~❯ '\n", "", |spawn| spawn.file("p/.reedclaw.lua", own)) else {
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
    let Some(session) = start("PS1='own-%? ❯ '\n", "prompt = \"shell\"", |spawn| spawn) else { return };
    session.run("false");
    session.expect("the prompt with its status", |screen| screen.contents().contains("own-1 ❯"));
    session.run("echo mine-${PS1%% *}");
    session.expect_text("mine-own-%?");
}

#[test]
fn its_completion_answers() {
    let Some(session) = session(
        "autoload -Uz compinit; compinit -u\nmine() { :; }\n_mine() { _values things 'one[first]' 'onto[second]' }\ncompdef _mine mine\n",
    ) else {
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
    let Some(session) = session("alias al='echo named'; alias -g GLOBAL=x\nfn() { echo named $*; }\n") else { return };
    ready(&session);
    session.run("echo ready");
    for name in ["al", "fn"] {
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
fn its_start_up_files_are_read_in_order() {
    let files = |spawn: Spawn| {
        spawn
            .argv0("-reedclaw")
            .file(".zshenv", "order=env; ZDOTDIR=~/dots\n")
            .file("dots/.zprofile", "order+=-profile\n")
            .file("dots/.zshrc", "order+=-rc\n")
            .file("dots/.zlogin", "order+=-login\n")
    };
    let Some(session) = start("", "", files) else { return };
    session.run("echo $order-${ZDOTDIR:t}; [[ -o login ]] && echo is-login");
    session.expect_line("env-profile-rc-login-dots");
    session.expect_line("is-login");
    session.run("clear");
    session.run("echo left-$(ls ~/.run | grep -c zsh)-");
    session.expect_line("left-0-");
}

#[test]
fn start_up_files_may_be_left_out() {
    let Some(session) = start("echo was-read\n", "", |spawn| spawn.arg("-f")) else { return };
    session.run("echo opt-$options[rcs]");
    session.expect_line("opt-off");
    assert!(!session.screen_text().contains("was-read"));
}

#[test]
fn hostile_settings_leave_it_working() {
    let Some(session) = session("bindkey -v; setopt ignore_eof correct prompt_sp hist_verify ksh_arrays\n") else {
        return;
    };
    ready(&session);
    for line in
        ["set -u", "set -e", "precmd_functions=(true)", "preexec_functions=()", "set -x", "set +x", "bindkey -d"]
    {
        session.run(line);
    }
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
    session.run("clear");
    session.run("set -o | grep promptsp; echo $TERM");
    session.expect_line("xterm-256color");
}
