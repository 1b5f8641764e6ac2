//! The shell's state from one line to the next, and its surroundings.

use crate::pty::{Key, Session, Spawn, cursor_line};

/// Ctrl-U, which drops the line; Ctrl-C would set the status as well.
const CLEAR_LINE: &[u8] = b"\x15";

/// Runs the lines one by one and waits for the line that the last of them must print.
#[track_caller]
fn lines_give(lines: &[&str], expected: &str) {
    let session = Session::spawn(Spawn::reedclaw());
    for line in lines {
        session.run(line);
    }
    session.expect_line(expected);
}

#[test]
fn variables_and_arrays_stay() {
    lines_give(
        &["export ONE=1; two=2; three=(a b c)", "echo $ONE-$two-${three[2]}-$(bash -c 'echo $ONE$two')"],
        "1-2-c-1",
    );
}

#[test]
fn the_directory_and_its_stack_stay() {
    lines_give(
        &["mkdir -p a/b; cd a/b", "pushd /tmp > /dev/null", "popd > /dev/null; echo ${PWD##*/a/}-${OLDPWD##*/}"],
        "b-tmp",
    );
}

#[test]
fn aliases_functions_and_options_stay() {
    lines_give(
        &[
            "alias hi='echo hi-by'",
            "f() { echo \"f-$1\"; }",
            "set -o pipefail; shopt -s extglob",
            "hi alias; f x; false | true; echo $?-$(shopt -q extglob; echo $?)",
        ],
        "1-0",
    );
    lines_give(&["alias hi='echo hi-by'", "hi alias"], "hi-by alias");
}

#[test]
fn a_sourced_environment_stays() {
    let session = Session::spawn(
        Spawn::reedclaw().file("venv/bin/activate", "VIRTUAL_ENV=venv; deactivate() { unset VIRTUAL_ENV; }\n"),
    );
    session.run("source venv/bin/activate");
    session.run("echo in-$VIRTUAL_ENV");
    session.expect_line("in-venv");
    session.run("deactivate; echo out-${VIRTUAL_ENV-none}");
    session.expect_line("out-none");
}

#[test]
fn umask_limits_traps_and_descriptors_stay() {
    lines_give(
        &["umask 027; ulimit -n 200", "exec 3<>file; echo text >&3", "echo $(umask)-$(ulimit -n)-$(cat file)"],
        "0027-200-text",
    );
    let session = Session::spawn(Spawn::reedclaw());
    session.run("trap 'echo bye-$((1+1))' EXIT; trap 'echo usr1-$((1+1))' USR1");
    session.run("kill -USR1 $$");
    session.expect_line("usr1-2");
    session.line("exit");
    session.expect_exit();
    session.expect_line("bye-2");
}

#[test]
fn the_special_parameters_are_the_last_command_s() {
    lines_give(&["false", "echo status-$?"], "status-1");
    lines_give(&["echo some words", "echo last-$_"], "last-words");
    lines_give(&["true | false | (exit 3)", "echo pipes-${PIPESTATUS[*]}"], "pipes-0 1 3");
    lines_give(&["sleep 0 & wait", "kill -0 $! 2>/dev/null; echo gone-$?"], "gone-1");
}

#[test]
fn history_expands() {
    lines_give(&["echo first-$((1+1))", "clear", "echo x", "!-1:0 second-$((2+2))"], "second-4");
    lines_give(&["echo word-a", "clear", "fc -s word-a=word-b echo"], "word-b");
}

#[test]
fn the_environment_is_that_of_bash() {
    let variables = |spawn: Spawn| {
        let session = Session::spawn(spawn);
        session.run("env | cut -d= -f1 | sort > names; echo level-$SHLVL-$TERM");
        session.expect_line("level-1-xterm-256color");
        std::fs::read_to_string(session.home().join("names")).expect("the names")
    };
    assert_eq!(variables(Spawn::reedclaw()), variables(Spawn::bash()));
}

#[test]
fn no_descriptor_leaks_into_a_child() {
    // Compared with bash, because the process that runs the tests may have left descriptors open for all its children.
    let descriptors = |spawn: Spawn| {
        let session = Session::spawn(spawn);
        session.run("ls /proc/self/fd > fds");
        std::fs::read_to_string(session.home().join("fds")).expect("the list")
    };
    assert_eq!(descriptors(Spawn::reedclaw()), descriptors(Spawn::bash()));
}

#[test]
fn one_inside_another_keeps_apart() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("outer=outer-$((1+1))");
    session.expect_prompt();
    let before = session.descendants().len();
    session.line(&crate::pty::program().display().to_string());
    session.expect_outside("the inner one", || (session.descendants().len() > before).then_some(()));
    session.run("echo inner-${outer-unset}");
    session.expect_line("inner-unset");
    session.line("exit 4");
    session.expect_outside("the end of the inner one", || (session.descendants().len() == before).then_some(()));
    session.run("echo back-$?-$outer");
    session.expect_line("back-4-outer-2");
}

#[test]
fn a_session_works_inside_tmux_screen_and_script() {
    if !crate::need::require(&["tmux", "script"]) {
        return;
    }
    let program = crate::pty::program().display().to_string();
    let session = Session::spawn(Spawn::bash());
    let socket = session.home().join("socket");
    session.expect_prompt();
    session.line(&format!("tmux -S {} -f /dev/null new-session {program}", socket.display()));
    session.expect("tmux", |screen| screen.alternate_screen() && screen.contents().contains("[0]"));
    session.expect("its prompt", |screen| screen.contents().contains(crate::pty::PROMPT));
    session.line("echo in-tmux-$((1+1))");
    session.expect_text("in-tmux-2");
    session.line("exit");
    session.expect_text("[exited]");
    session.run("clear");
    session.line(&format!("script -qec {program} /dev/null"));
    session.expect_outside("script's shell", || (session.descendants().len() >= 2).then_some(()));
    session.run("echo in-script-$((1+1))");
    session.expect_line("in-script-2");
}

#[test]
fn the_umask_and_the_limits_are_those_of_bash() {
    let surroundings = |spawn: Spawn| {
        let session = Session::spawn(spawn.size(24, 160));
        session.run("{ umask; ulimit -a; nice; grep -e SigIgn -e SigBlk /proc/self/status; } > all");
        std::fs::read_to_string(session.home().join("all")).expect("the surroundings")
    };
    assert_eq!(surroundings(Spawn::reedclaw()), surroundings(Spawn::bash()));
}

/// The same as under `nohup`, or in the background of a script.
#[test]
fn signals_ignored_at_the_start_stay_ignored_in_the_shell() {
    let ignored = |program: &std::path::Path| {
        let program = program.display().to_string();
        let spawn = Spawn::new("/bin/bash").args(&["-c", "trap '' HUP INT QUIT; exec \"$0\" -i", &program]);
        let session = Session::spawn(spawn.file(".bashrc", &format!("PS1='{} '\n", crate::pty::PROMPT)));
        session.run("grep SigIgn /proc/self/status > ignored");
        std::fs::read_to_string(session.home().join("ignored")).expect("the mask")
    };
    let expected = ignored("/bin/bash".as_ref());
    assert!(expected.trim_end().ends_with('7'), "{expected}");
    assert_eq!(ignored(&crate::pty::program()), expected);
}

#[test]
fn completion_leaves_no_trace_in_the_shell() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("fruit() { return 7; }; complete -W 'apple apricot' fruit");
    session.run("fruit word | fruit; true; fruit last");
    session.press(Key::Enter);
    session.expect_prompt();
    session.type_text("fruit appl");
    session.expect_text("fruit appl");
    session.press(Key::Tab);
    session.expect("the completion", |screen| cursor_line(screen).contains("fruit apple"));
    session.send(CLEAR_LINE);
    session.run("echo \"status-$? last-$_\"");
    session.expect_line("status-7 last-last");
    session.run("fruit x | true | fruit");
    session.type_text("fruit apr");
    session.press(Key::Tab);
    session.expect("the completion", |screen| cursor_line(screen).contains("fruit apricot"));
    session.send(CLEAR_LINE);
    session.run("echo \"pipes-${PIPESTATUS[*]}\"");
    session.expect_line("pipes-7 0 7");
}

#[test]
fn a_trace_shows_the_user_s_commands_and_not_ours() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("set -x");
    session.run("echo traced-$((1+1))");
    session.expect_line("+ echo traced-2");
    session.expect_line("traced-2");
    session.run("PROMPT_COMMAND=(true)");
    session.run("set +x");
    assert!(!String::from_utf8_lossy(&session.raw()).contains("__rc"), "{}", session.screen_text());
}

#[test]
fn set_a_exports_no_variable_of_ours() {
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", "set -a; PS1='❯ '; MINE=yes\n"));
    session.run("true");
    session.run("env > all; echo written");
    session.expect_line("written");
    let all = std::fs::read_to_string(session.home().join("all")).expect("the environment");
    assert!(all.contains("MINE=yes") && !all.lines().any(|line| line.starts_with("__rc")), "{all}");
}

#[test]
fn the_shell_s_own_history_is_the_user_s() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("HISTCONTROL=ignorespace; history -c");
    session.run("echo kept-$((1+1))");
    session.run(" echo secret-$((1+1))");
    session.run("history > all");
    let all = std::fs::read_to_string(session.home().join("all")).expect("the history");
    let lines: Vec<&str> = all.lines().map(|line| line.trim_start_matches([' ', '1', '2', '3'])).collect();
    assert_eq!(lines, ["echo kept-$((1+1))", "history > all"]);
    session.run("clear");
    let times = |count: usize| {
        session.expect("the line again", |screen| {
            screen.contents().lines().filter(|line| line.trim_end() == "kept-2").count() == count
        });
    };
    for (index, again) in ["!-3", "!!", "fc -s", "!?kept"].iter().enumerate() {
        session.run(again);
        times(index + 1);
    }
    session.run("!?nothing-of-the-kind");
    session.expect_text("event not found");
    session.run("echo alive-$((2+2))");
    session.expect_line("alive-4");
}

#[test]
fn a_changed_prompt_command_tells_no_wrong_status() {
    for change in ["unset PROMPT_COMMAND", "PROMPT_COMMAND=true", "PROMPT_COMMAND=(true)"] {
        let session = Session::spawn(Spawn::reedclaw());
        session.run("clear");
        session.run(&format!("{change}; (exit 9)"));
        session.expect("the status at the prompt", |screen| cursor_line(screen).contains(" 9 "));
        session.run("cd /usr; (exit 8)");
        session.expect("directory and status", |screen| cursor_line(screen).starts_with("/usr 8 "));
    }
}

/// `. ~/.bashrc` may set both in this way.
#[test]
fn a_prompt_may_be_set_together_with_prompt_command() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("echo \"[$PROMPT_COMMAND]\"");
    session.expect_line("[]");
    session.run("PS1='mine> ' PROMPT_COMMAND='echo hook-$?'; (exit 5)");
    session.expect("the hook's output and our prompt", |screen| {
        screen.contents().contains("\nhook-5\n") && cursor_line(screen).contains(" 5 ❯")
    });
    session.run("echo \"[${PS1@Q}]\"");
    session.expect_text("['mine> ");
}

#[test]
fn a_prompt_command_that_is_set_again_replaces_the_one_before() {
    let rc = "PROMPT_COMMAND='echo hook-$((1+1))'\n";
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", rc));
    session.expect_prompt();
    let hooks = |command: &str| {
        session.run(command);
        session.run("clear; echo end-$((1+1))");
        session.expect_line("end-2");
        session.screen_text().lines().filter(|line| line.starts_with("hook-")).count()
    };
    assert_eq!(hooks(". ~/.bashrc; . ~/.bashrc"), 1);
    assert_eq!(hooks("PROMPT_COMMAND=true"), 0);
    assert_eq!(hooks("PROMPT_COMMAND=('echo hook-one' 'echo hook-two')"), 2);
    assert_eq!(hooks("PROMPT_COMMAND=\"echo hook-three; $PROMPT_COMMAND\""), 3, "what is built on it stays");
    assert_eq!(hooks("PROMPT_COMMAND="), 0);
}

#[test]
fn the_prompt_names_the_virtual_environment() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("export VIRTUAL_ENV='/srv/projects/my env;1'");
    session.expect_text("(my_env_1) ~ ❯");
    session.run("clear; unset VIRTUAL_ENV");
    session.expect("a prompt without it", |screen| crate::pty::cursor_line(screen).starts_with("~ ❯"));
    session.run("CONDA_DEFAULT_ENV=base");
    session.expect_text("(base) ~ ❯");
}
