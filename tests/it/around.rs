//! Conditions around the line in a live shell: traps, hooks, shell options, unknown terminals, lines that continue.

use std::time::{Duration, Instant};

use crate::pty::{Key, PROMPT, Session, Spawn};
use crate::wait::wait_for;

/// The output of a session between the Enter of a line and the next prompt.
#[track_caller]
fn printed(session: &Session, line: &str) -> String {
    session.expect_prompt();
    session.press(Key::Ctrl('l'));
    session.expect("a cleared screen", |screen| {
        screen.contents().trim_end().ends_with(PROMPT) && screen.contents().lines().count() == 1
    });
    session.type_text(line);
    session.expect(&format!("`{line}` at the prompt"), |screen| crate::pty::cursor_line(screen).contains(line.trim()));
    session.press(Key::Enter);
    session.expect(&format!("a prompt after `{line}`"), |screen| {
        screen.contents().lines().filter(|row| row.contains(PROMPT)).count() == 2
            && crate::pty::left_of_cursor(screen).ends_with(PROMPT)
    });
    let text = session.screen_text();
    let rows: Vec<&str> = text.lines().map(str::trim_end).collect();
    rows[1..rows.len() - 1].join("\n")
}

/// Checks a table of lines and their outputs, in one session with this start-up file.
#[track_caller]
fn prints(rc: &str, lines: &[(&str, &str)]) {
    let session = Session::spawn(Spawn::reedclaw().size(24, 120).file(".bashrc", &format!("PS1='{PROMPT} '\n{rc}\n")));
    // The first prompt does not wait for the start-up file. Once a line has run, all output of the file is on the screen.
    session.run(":");
    for (line, expected) in lines {
        assert_eq!(printed(&session, line), *expected, "{line}, after {rc}");
    }
}

#[test]
fn an_err_trap_runs_once_for_each_failure() {
    prints(
        r#"trap 'echo "failed $? $LINENO $BASH_COMMAND"' ERR"#,
        &[("false", "failed 1 2 false"), ("echo next", "next"), ("(exit 3)", "failed 3 4 ( exit 3 )")],
    );
}

/// In posix mode, `trap -p` also prints a trap that isn't set.
#[test]
fn posix_mode_adds_nothing_to_a_commands_output() {
    prints(
        "",
        &[("set -o posix", ""), ("echo b", "b"), ("trap -p DEBUG", "trap -- - DEBUG"), ("set +o posix; echo c", "c")],
    );
}

#[test]
fn a_shell_that_suspends_itself_goes_on_and_says_why() {
    let session = Session::spawn(Spawn::reedclaw().size(24, 80));
    for line in ["suspend", "kill -STOP $$"] {
        session.run("clear");
        session.run(line);
        session.expect_line("a shell in ReedClaw can't be suspended; `exit` leaves it");
        session.expect_prompt();
        session.run("echo status-$?");
        session.expect_line("status-0");
    }
}

/// In bash, Enter alone reports finished jobs, and lets direnv and similar hooks run again.
#[test]
fn an_empty_line_reports_jobs_that_have_ended_and_keeps_the_status() {
    let rc = format!("PS1='{PROMPT} '\nPROMPT_COMMAND='echo \"hook $((++hooks)): $?\"'\n");
    let session = Session::spawn(Spawn::reedclaw().size(24, 120).file(".bashrc", &rc).file("gate", ""));
    session.run("rm gate; mkfifo gate; cat gate > copy &");
    session.run("hooks=0; (exit 3)");
    session.expect_line("hook 1: 3");
    session.expect_prompt();
    session.press(Key::Enter);
    session.expect_line("hook 2: 3");
    session.expect_prompt();
    std::fs::write(session.home().join("gate"), "through").expect("the job reads");
    // The shell notices the end of the job a moment after the text has arrived.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut hooks = 2;
    while !session.screen_text().contains("Done") {
        assert!(Instant::now() < deadline, "no report of the job:\n{}", session.screen_text());
        session.press(Key::Enter);
        hooks += 1;
        session.expect_line(&format!("hook {hooks}: 3"));
        session.expect_prompt();
    }
    session.line("echo \"status $?\"");
    session.expect_line("status 3");
}

#[test]
fn a_debug_trap_sees_the_users_commands_alone() {
    prints(
        r#"trap 'echo "before $? $BASH_COMMAND"' DEBUG"#,
        &[("false", "before 0 false"), ("echo a b", "before 1 echo a b\na b")],
    );
    prints(
        "",
        &[
            // The first line is the trap's own; a comment at its end must not disable the code that is put around it.
            (r#"trap 'echo "at $BASH_COMMAND"; count=$((count + 1)) # ' DEBUG; true"#, "at true"),
            ("count=0", "at count=0"),
            ("echo $count", "at echo $count\n1"),
            ("true; echo $count", "at true\nat echo $count\n3"),
            ("trap - DEBUG", "at trap - DEBUG"),
            ("echo over", "over"),
        ],
    );
    // With noclobber, existing files aren't overwritten, but ours have to be.
    prints(
        "set -C; count=0; trap 'count=$((count + 1))' DEBUG",
        &[("echo $count >start; true", ""), ("echo $(($count - $(cat start)))", "2")],
    );
}

/// `PROMPT_COMMAND=(true true); PS1='x> '` once removed hooks and markers in one line: the shell's own prompt was shown, and the
/// session was lost for good.
#[test]
fn whatever_a_line_makes_of_the_prompt_the_next_one_is_ours() {
    prints(
        "files() { printf 'unset PROMPT_COMMAND; PS1=\"sourced> \"\n' >change; }; files",
        &[
            ("PROMPT_COMMAND=(true true); PS1='x> '; (exit 4)", ""),
            ("echo $?", "4"),
            ("printf open; PROMPT_COMMAND=(true 'echo hook-$?'); PS1='two\\nrows> '; (exit 3)", "openhook-3"),
            ("echo $?", "3\nhook-0"),
            ("unset PROMPT_COMMAND", ""),
            ("unset PROMPT_COMMAND PS0 PS1 PS2", ""),
            ("set -u; unset PROMPT_COMMAND PS1", ""),
            ("set +u; . ./change", ""),
            ("echo \"[$PS1]$?\"", "[sourced> ${__rc_mark@P}]0"),
            ("unset -f $(compgen -A function __rc_); PS1='w> '; (exit 5)", ""),
            ("echo $?", "5"),
            ("PS1='y> '; declare -ar PROMPT_COMMAND=(true true)", ""),
            ("PS1='z> '; echo locked", "locked"),
            ("echo $?", "0"),
        ],
    );
}

/// A program that uses readline while a command runs isn't the prompt.
#[test]
fn a_line_that_a_command_reads_is_its_own_even_without_hooks() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("true");
    session.line("PS1='x> '; PROMPT_COMMAND=(true true); read -e -p 'more: ' answer; echo \"[$answer]\"");
    session.expect("its question", |screen| crate::pty::cursor_line(screen) == "more:");
    session.line("what was typed");
    session.expect_line("[what was typed]");
    session.run("echo \"again [$answer]\"");
    session.expect_line("again [what was typed]");
    session.run("printf half; unset PROMPT_COMMAND; PS1='\\[\\e[31m\\]red\\[\\e[m\\]> '");
    session.expect_text("\nhalf⏎");
    assert!(!session.screen_text().contains("\nx>"), "{}", session.screen_text());
}

#[test]
fn a_timer_of_traps_and_hooks_does_not_count_time_at_the_prompt() {
    let rc = "begin() { from=${from:-$SECONDS}; }; end() { unset from; }; trap begin DEBUG; PROMPT_COMMAND=end";
    prints(rc, &[("true", ""), ("echo ${from+set}", "set"), ("(exit 2)", "")]);
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", &format!("{rc}\ntrap 'kept=$from' EXIT\n")));
    session.run("true");
    session.run("declare -p from >at-start 2>&1; trap - DEBUG");
    session.run("echo \"[${from-none}]\"");
    session.expect_line("[none]");
}

/// The protocol of bash-preexec, reimplemented: a DEBUG trap that calls `preexec` for the first command after a prompt, unless
/// standard output isn't a terminal or the command is one of `PROMPT_COMMAND`, and hooks before and after the others.
const PREEXEC: &str = r#"
ready=
seen() {
  [[ -t 1 && -n $ready && -z ${COMP_LINE-}${READLINE_POINT-} ]] || return 0
  ready=
  local each
  local IFS=$'\n;'
  for each in ${PROMPT_COMMAND[*]}; do [[ $each != "$BASH_COMMAND" ]] || return 0; done
  preexec "$BASH_COMMAND"
}
first() { status=$?; precmd; }
last() { ready=on; }
install() { PROMPT_COMMAND=("${PROMPT_COMMAND[@]/install}"); PROMPT_COMMAND=(first "${PROMPT_COMMAND[@]}" last); trap 'seen "$_"' DEBUG; first; last; }
PROMPT_COMMAND=install
preexec() { echo "[run $1]"; }
precmd() { echo "[end $status]"; }
"#;

#[test]
fn preexec_and_precmd_run_once_each_and_in_order() {
    prints(
        PREEXEC,
        &[
            ("cd /", "[run cd /]\n[end 0]"),
            ("false", "[run false]\n[end 1]"),
            ("echo hi", "[run echo hi]\nhi\n[end 0]"),
            ("(exit 5)", "[end 5]"),
            ("echo $?", "[run echo $?]\n5\n[end 0]"),
        ],
    );
}

#[test]
fn options_of_the_shell_show_nothing_of_ours() {
    prints(
        "",
        &[("set -k", ""), ("echo a=1 b", "b"), ("false", ""), ("echo $?", "1"), ("set +k", ""), ("echo on", "on")],
    );
    prints(
        "",
        &[
            ("set -v", ""),
            ("echo a", "echo a\na"),
            ("false", "false"),
            ("echo $?", "echo $?\n1"),
            ("set +v", "set +v"),
            ("echo b", "b"),
        ],
    );
    prints("set -T; trap 'echo end' RETURN", &[("f() { true; }", ""), ("f", "end"), ("echo c", "c")]);
}

#[test]
fn a_shell_without_its_line_editor_runs_lines_all_the_same() {
    prints(
        "",
        &[
            ("set +o emacs +o vi", ""),
            ("(exit 3)", ""),
            ("echo $?", "3"),
            ("cat <<< \"a b\"", "a b"),
            ("stty -a | grep -ow -- '-*echo'", "echo"),
            ("set -o emacs", ""),
            ("false", ""),
            ("echo $?", "1"),
        ],
    );
}

#[test]
fn an_unknown_terminal_shows_a_line_once() {
    let unknown = Spawn::reedclaw().env("TERM", "xterm-of-nobody");
    let session = Session::spawn(unknown);
    assert_eq!(printed(&session, "echo hi"), "hi");
    assert_eq!(printed(&session, "false"), "");
    assert_eq!(printed(&session, "echo $? $TERM"), "1 xterm-of-nobody");
    assert_eq!(printed(&session, "printf 'a\\n\\nb\\n'"), "a\n\nb");
}

#[test]
fn modes_that_a_program_leaves_on_are_reset() {
    let session = Session::spawn(Spawn::reedclaw());
    for (left_on, reset) in
        [("\\e[3;6r", "\x1b7\x1b[r\x1b8"), ("\\e[4h", "\x1b[4l"), ("\\e[?7l", "\x1b[?7h"), ("\\e[?6h", "\x1b[?6l")]
    {
        session.expect_prompt();
        let from = session.raw().len();
        session.line(&format!("printf '{left_on}'"));
        session.expect_raw(reset.as_bytes(), from);
    }
}

/// A session with another shell and this start-up file.
fn other(shell: &str, path: &str, rc: &str) -> Option<Session> {
    if !crate::need::require(&[shell]) {
        return None;
    }
    let program = crate::need::find(shell).expect("just found");
    let config = format!("return {{ shell = {{ program = \"{}\" }} }}", program.display());
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file(path, rc));
    session.run("echo ready");
    session.expect_line("ready");
    Some(session)
}

/// Enters the lines of one command, and checks that the screen shows them once.
#[track_caller]
fn enter_in_pieces(session: &Session, lines: &[&str]) {
    session.expect_prompt();
    session.press(Key::Ctrl('l'));
    session.expect("a cleared screen", |screen| screen.contents().trim_end().lines().count() == 1);
    for line in lines {
        session.type_text(line);
        session.expect(&format!("`{line}`"), |screen| crate::pty::cursor_line(screen).ends_with(line));
        session.press(Key::Enter);
    }
}

#[test]
fn an_unfinished_line_of_zsh_goes_on_without_its_hooks() {
    let rc = "precmd() { print \"[end $?]\" }\nHISTFILE=~/kept SAVEHIST=99 HISTSIZE=99\nsetopt incappendhistory\n";
    let Some(session) = other("zsh", ".zshrc", rc) else { return };
    session.run("false");
    enter_in_pieces(&session, &["for i in 1; do", "echo \"was $?\"", "done"]);
    session.expect_line("[end 0]");
    session.expect_prompt();
    let text = session.screen_text();
    let rows: Vec<&str> = text.lines().map(str::trim_end).filter(|row| !row.is_empty()).collect();
    assert_eq!(rows.len(), 6, "{text}");
    assert!(rows[0].ends_with("1 ❯ for i in 1; do") && rows[3] == "was 1" && rows[4] == "[end 0]", "{text}");
    let kept = std::fs::read_to_string(session.home().join("kept")).expect("the history");
    assert!(kept.contains("for i in 1; do\\\necho \"was $?\"\\\ndone\n"), "{kept}");
    assert_eq!(kept.matches("for i").count(), 1, "{kept}");
}

#[test]
fn zsh_reports_its_own_syntax_errors() {
    let Some(session) = other("zsh", ".zshrc", "alias each='for x in'\n") else { return };
    for (line, answer) in [("echo )", "parse error near `)'"), ("fi", "parse error near `fi'")] {
        session.run(line);
        session.expect_text(answer);
    }
    for pieces in [
        &["echo 'one", "two'"][..],
        &["cat <<END", "one", "two", "END"],
        &["each a b; do", "echo $x; done"],
        &["echo one |", "cat"],
        &["echo o\\", "ne"],
    ] {
        enter_in_pieces(&session, pieces);
        session.expect_prompt();
        session.expect("its output", |screen| {
            screen.contents().lines().any(|row| ["one", "two", "a"].contains(&row.trim_end()))
        });
    }
}

#[test]
fn print_z_of_zsh_puts_a_line_into_the_editor() {
    let Some(session) = other("zsh", ".zshrc", "") else { return };
    session.expect_prompt();
    session.line("print -z echo pushed");
    session.expect("the line to edit", |screen| crate::pty::cursor_line(screen).ends_with("❯ echo pushed"));
    assert!(!session.screen_text().contains('⏎'));
    session.line(" on");
    session.expect_line("pushed on");
}

#[test]
fn an_unfinished_line_of_fish_goes_on_without_its_hooks() {
    let rc = "function told --on-event fish_prompt\necho \"[end $status]\"\nend\n";
    let Some(session) = other("fish", ".config/fish/config.fish", rc) else { return };
    session.run("false");
    session.expect_line("[end 1]");
    enter_in_pieces(&session, &["for i in 1", "echo \"was $status\"", "end"]);
    session.expect_line("was 1");
    session.expect_line("[end 0]");
    assert!(!session.screen_text().contains('⏎'), "an open line is marked");
}

#[test]
fn zsh_lists_no_option_that_the_user_did_not_set() {
    let Some(session) = other("zsh", ".zshrc", "") else { return };
    session.run("setopt | grep -c -e beep -e histverify -e promptcr");
    session.expect_line("0");
}

#[test]
fn the_terminal_receives_directories_commands_and_titles() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("mkdir 'a b'");
    let from = session.raw().len();
    session.run("cd 'a b'; (exit 3)");
    let started = session.expect_raw(b"\x1b]0;cd 'a b'; (exit 3)\x07\x1b]133;C\x07", from);
    let ended = session.expect_raw(b"\x1b]133;D;3\x07\x1b]7;file://", started);
    session.expect_raw(b"/a%20b\x07\x1b]0;~/a b\x07", ended);
    let linux = Session::spawn(Spawn::reedclaw().env("TERM", "linux"));
    linux.run("cd /");
    assert!(!String::from_utf8_lossy(&linux.raw()).contains("\x1b]"), "a terminal that may print it");
}

#[test]
fn tmux_knows_the_directory_and_the_program_in_front() {
    if !crate::need::require(&["tmux"]) {
        return;
    }
    let tmux = |home: &std::path::Path, args: &[&str]| {
        let socket = home.join("socket");
        let mut command = std::process::Command::new("tmux");
        command.env_clear().env("PATH", crate::need::TEST_PATH).env("HOME", home).env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8").args(["-f", "/dev/null", "-S"]).arg(&socket).args(args);
        String::from_utf8_lossy(&command.output().expect("tmux runs").stdout).trim().to_owned()
    };
    let home = tempfile::TempDir::new().expect("a home");
    let home = home.path().canonicalize().expect("its path");
    let pane = || tmux(&home, &["display-message", "-p", "#{pane_current_command} #{pane_current_path}"]);
    let until = |wanted: &str| wait_for(wanted, || (pane() == wanted).then_some(()));
    let start = format!("cd {} && exec {}", home.display(), crate::pty::program().display());
    tmux(&home, &["new-session", "-d", "-x", "80", "-y", "24", &start]);
    let name = crate::pty::program().file_name().expect("a name").to_string_lossy().into_owned();
    let ended = std::panic::catch_unwind(|| {
        until(&format!("{name} {}", home.display()));
        tmux(&home, &["send-keys", "cd /usr/share", "Enter"]);
        until(&format!("{name} /usr/share"));
        tmux(&home, &["send-keys", "sleep 600 | cat", "Enter"]);
        until("sleep /usr/share");
        let shown = tmux(&home, &["display-message", "-p", "#{pane_pid}"]);
        // A SIGTERM to the pane's process, such as `pkill` sends by name, doesn't end the session.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(shown.parse().expect("a pid")), nix::sys::signal::SIGTERM)
            .expect("the signal is sent");
        tmux(&home, &["send-keys", "C-c"]);
        until(&format!("{name} /usr/share"));
    });
    tmux(&home, &["kill-server"]);
    assert!(ended.is_ok(), "see above");
}

#[test]
fn keys_typed_together_with_a_bound_key_are_not_lost() {
    let rc = "one() { READLINE_LINE+='one '; READLINE_POINT=99; }\n\
              two() { sleep 0.3; READLINE_LINE+='two '; READLINE_POINT=99; }\n\
              bind -x '\"\\C-g\": one'\nbind -x '\"\\ez\": two'\n";
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", &format!("PS1='{PROMPT} '\n{rc}")));
    session.run("true");
    session.type_text("echo \x07x \x1bzy \x07\x07z\r");
    session.expect_line("one x two y one one z");
    session.type_text("echo \x1bzlast\rtrue\r");
    session.expect_line("two last");
}

/// Once, the prompt was drawn over the output.
#[test]
fn output_of_a_bound_key_stays_above_the_line() {
    let rc = r#"bind -x '"\ey": echo one-$((1+1))'
bind -x '"\ez": printf "two-%s\n" $((1+1)) "$READLINE_LINE"'
"#;
    let session = Session::spawn(Spawn::reedclaw().file(
        ".bashrc",
        &format!(
            "PS1='{PROMPT} '
{rc}"
        ),
    ));
    session.run("true");
    session.type_text("abcy");
    session.expect_line("one-2");
    session.expect("the line below", |screen| crate::pty::cursor_line(screen).ends_with("abc"));
    session.type_text("dz");
    session.expect_line("two-abcd");
    session.expect("the line below", |screen| crate::pty::cursor_line(screen).ends_with("abcd"));
    let text = session.screen_text();
    assert!(
        text.contains("one-2")
            && text.contains(
                "two-2
two-abcd"
            ),
        "{text}"
    );
}

#[test]
fn keys_typed_while_a_bound_key_ends_stay_in_order() {
    let rc = "slow() { sleep 0.2; READLINE_LINE+='slow '; READLINE_POINT=99; }\nbind -x '\"\\ez\": slow'\n";
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", &format!("PS1='{PROMPT} '\n{rc}")));
    session.run("true");
    session.type_text("echo \x1bz");
    // The keys are typed one by one until the function has long ended, so that some arrive at the instant of its end.
    let mut typed = String::new();
    let from = std::time::Instant::now();
    while from.elapsed() < std::time::Duration::from_millis(600) && typed.len() < 700 {
        std::thread::park_timeout(std::time::Duration::from_millis(1));
        let key = char::from(b'a' + u8::try_from(typed.len() % 26).expect("a letter"));
        session.type_text(&key.to_string());
        typed.push(key);
    }
    session.type_text(" | tail -c 4000\r");
    let wanted = format!("slow {typed}");
    session.expect("all of them, once", |screen| {
        let rows: String = screen.rows(0, screen.size().1.get()).collect();
        rows.matches(&wanted).count() == 2
    });
}

/// Both put a hook into `PROMPT_COMMAND`, and direnv reports what it loads before the next prompt.
#[test]
fn direnv_and_zoxide_follow_the_directory_by_their_own_hooks() {
    if !crate::need::require(&["direnv", "zoxide"]) {
        return;
    }
    let rc = format!("PS1='{PROMPT} '\neval \"$(direnv hook bash)\"\neval \"$(zoxide init bash)\"\n");
    let spawn = Spawn::reedclaw().file(".bashrc", &rc).file("work/proj/.envrc", "export PROJECT=here\nPATH_add bin\n");
    let session = Session::spawn(spawn.file("work/proj/deep/file", "").size(30, 100));
    session.run("cd work/proj");
    session.expect_text("Run `direnv allow` to approve its content");
    session.run("direnv allow");
    session.expect_text("direnv: export +PROJECT ~PATH");
    session.run("(exit 3)");
    session.run("echo \"<$PROJECT $?>\"");
    session.expect_line("<here 3>");
    session.run("cd deep");
    session.run("cd /; clear");
    session.expect_line("direnv: unloading");
    session.run("echo \"<${PROJECT-gone}>\"");
    session.expect_line("<gone>");
    session.run("z deep");
    session.expect_line("direnv: export +PROJECT ~PATH");
    session.run("pwd");
    session.expect("the directory", |screen| screen.contents().lines().any(|row| row.ends_with("/proj/deep")));
    session.run("zoxide query -l | wc -l");
    session.expect_line("3");
}

/// The terminal's input for a foreground program that wants to know what the terminal sends: it prints each byte that arrives.
const HEX_READER: &str = "stty -icanon -echo; timeout 60 od -An -tx1 -v -w1; stty sane";

#[test]
fn the_end_of_a_long_command_is_announced_to_a_person_who_looks_elsewhere() {
    let config = "return { console = { notify_s = 1 } }";
    let spawn = Spawn::reedclaw().file(".config/reedclaw/config.lua", config);
    let session = Session::spawn(spawn.env("TERM_PROGRAM", "WezTerm"));
    session.run("true");
    session.expect_raw(b"\x1b[?1004h", 0);
    let slow = |from: usize, focus: &str| {
        session.line("sleep 1.1; (exit 3)");
        let started = session.expect_raw(b"\x1b]133;C\x07", from);
        session.type_text(focus);
        let ended = session.expect_raw(b"\x1b]133;D;3\x07", started);
        String::from_utf8_lossy(&session.raw()[started..ended]).into_owned()
    };
    let notice = "\x1b]9;sleep 1.1; (exit 3): failed (3) after 1 s\x07";
    assert_eq!(slow(session.raw().len(), "\x1b[O").matches(notice).count(), 1);
    session.expect_prompt();
    // A person who types is looking at the terminal, and so is one who came back.
    assert_eq!(slow(session.raw().len(), "\x1b[O\x1b[I").matches("\x1b]9").count(), 0);
    session.expect_prompt();
    session.run("echo \"[$(timeout 0.1 cat)]\"");
    session.expect_line("[]");
}

#[test]
fn a_program_that_asks_for_the_focus_gets_it() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("true");
    session.expect_raw(b"\x1b[?1004h", 0);
    let from = session.raw().len();
    session.line(&format!("printf '\\e[?1004h'; {HEX_READER}"));
    session.expect_raw(b"\x1b[?1004h", from);
    session.type_text("\x1b[O");
    session.expect_line(" 4f");
    let from = session.raw().len();
    session.press(Key::Ctrl('c'));
    // The program left the reports on: they are switched off for it, and on again for us.
    session.expect_raw(b"\x1b[?1004l", from);
    session.expect_raw(b"\x1b[?1004h", from);
}

#[test]
fn the_prompt_is_marked_for_the_terminal() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("true");
    let start = session.expect_raw(b"\x1b]133;A", 0);
    session.expect_raw(b"\x1b]133;B", start);
}

#[test]
fn the_prompt_names_user_and_host_over_ssh_and_shows_a_long_duration() {
    let spawn = Spawn::reedclaw().env("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22");
    let session = Session::spawn(spawn);
    session.expect_prompt();
    let root = nix::unistd::geteuid().is_root();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().split('.').next().expect("a label");
    let who = if root { format!("root@{host}#") } else { format!("tester@{host}") };
    session.expect(&who, |screen| screen.contents().lines().any(|row| row.starts_with(&format!("{who} ~ ❯"))));
    session.run("sleep 2.1");
    session.expect_text("~ 2.1s ❯");
    session.run("true");
    session.expect("a prompt without it", |screen| crate::pty::left_of_cursor(screen).ends_with("~ ❯"));
    let config = "return { console = { who = \"never\", duration_s = 0 } }";
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", config));
    session.run("sleep 2.1");
    session.expect("a prompt of the directory", |screen| {
        screen.contents().lines().filter(|row| row.starts_with("~ ❯")).count() == 2
    });
}

#[test]
fn the_shells_own_prompts_are_all_shown() {
    let rc = "PS0='<<begins>>\\n'; PS1='above\\n\\w ❯ '; PS2='more> '";
    let own = |spawn: Spawn| Session::spawn(spawn.file(".config/reedclaw/config.lua", "return { prompt = \"shell\" }"));
    let session = own(Spawn::reedclaw().file(".bashrc", rc));
    session.run("echo one");
    session.expect_text("<<begins>>\none");
    enter_in_pieces_below(&session, &["for i in 1; do", "echo two", "done"]);
    session.expect_line("two");
    let text = session.screen_text();
    assert!(text.contains("above\n~ ❯ for i in 1; do\nmore> echo two\nmore> done"), "{text}");
    session.expect_prompt();
    session.run("PS2='new> '");
    enter_in_pieces_below(&session, &["for i in 1; do", "echo new-$i", "done"]);
    session.expect_line("new-1");
    session.expect_text("new> echo new-$i\nnew> done");
    session.expect_prompt();
    // bash counts one less while it draws no prompt, but counts correctly in PS0.
    session.run("PS1='\\!:\\#\\\\! ❯ '; PS0='<\\!:\\#>\\n'");
    session.run("true");
    session.expect("the number of the line", |screen| {
        let rows: Vec<String> = screen.contents().lines().map(str::to_owned).collect();
        rows.windows(2).any(|rows| {
            let number = rows[0].strip_suffix("\\! ❯ true");
            number.is_some_and(|number| rows[1] == format!("<{number}>"))
        })
    });
    session.run("PS1='\\w ❯ '");
    // One sign, which is ours while the line isn't for the shell.
    session.type_text(":help");
    session.expect("our sign", |screen| crate::pty::cursor_line(screen) == "~ : :help");
    if !crate::need::require(&["zsh"]) {
        return;
    }
    let zsh = crate::need::find("zsh").expect("just found");
    let config = format!("return {{ prompt = \"shell\", shell = {{ program = \"{}\" }} }}", zsh.display());
    let rc = "PS1=$'above\\n%~ ❯ '; RPROMPT='right-%?'";
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file(".zshrc", rc));
    session.run("(exit 4)");
    session.expect("the right prompt", |screen| crate::pty::cursor_line(screen).ends_with("right-4"));
    session.run("print -r \"[$RPROMPT]\"");
    session.expect_line("[right-%?]");
}

/// Once, bash drew its own prompt above ours, because it could not be replaced by ours.
#[test]
fn a_readonly_prompt_of_the_shells_is_not_drawn_above_ours() {
    for (rc, line) in [("PS1='above\\nmine$ '", "readonly PS1"), ("PS1='above\\nmine$ '; readonly PS1", ":")] {
        let session = Session::spawn(Spawn::reedclaw().file(".bashrc", rc));
        session.run(line);
        shows_one_prompt(&session);
    }
}

fn shows_one_prompt(session: &Session) {
    session.run("sleep 0 & wait; echo one");
    session.run("trap 'echo \"[$BASH_COMMAND]\"' DEBUG");
    session.run("echo two");
    session.expect_prompt();
    let text = session.screen_text();
    assert!(!text.contains("mine$") && !text.contains("above"), "{text}");
    let rows: Vec<&str> = text.lines().collect();
    let at = rows.iter().position(|row| row.ends_with("❯ echo two")).expect("the line");
    assert!(rows[at + 1..at + 3] == ["[echo two]", "two"] && rows[at + 3].contains('❯'), "{text}");
}

/// Once, the shell's own `$` changed to our sign while the menu was open, and stayed so in the scrollback.
#[test]
fn an_open_menu_leaves_the_sign_of_the_prompt() {
    let spawn = Spawn::reedclaw().file(".config/reedclaw/config.lua", "return { prompt = \"shell\" }");
    let session = Session::spawn(spawn.file(".bashrc", "PS1='mine $ '").file("one-a", "").file("one-b", ""));
    session.expect("their prompt", |screen| crate::pty::cursor_line(screen).trim_end() == "mine $");
    session.type_text("cat o");
    session.press(Key::Tab);
    session.expect_text("one-b");
    session.expect("their sign", |screen| crate::pty::cursor_line(screen).starts_with("mine $ cat one-"));
}

/// As [`enter_in_pieces`], with prompts of several rows.
fn enter_in_pieces_below(session: &Session, lines: &[&str]) {
    session.expect_prompt();
    for line in lines {
        session.type_text(line);
        session.expect(&format!("`{line}`"), |screen| crate::pty::cursor_line(screen).ends_with(line));
        session.press(Key::Enter);
    }
}

#[test]
fn a_shell_that_was_replaced_has_its_prompt_under_the_notice() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("true");
    session.expect_prompt();
    session.line("exec env PS1='next> ' sh");
    session.expect("the notice, and the prompt under it", |screen| {
        let text = screen.contents();
        text.contains("the shell was replaced (exec)") && crate::pty::left_of_cursor(screen) == "next>"
    });
    session.line("echo on-$((1+1))");
    session.expect_line("on-2");
}

/// People reload their start-up files in this way. Once, the session was only a plain terminal from then on.
#[test]
fn a_bash_that_takes_the_shells_place_becomes_the_live_shell() {
    for control in ["", "ignorespace"] {
        becomes_the_live_shell(control);
    }
}

fn becomes_the_live_shell(control: &str) {
    let other = "PS1='two\\nrows> '; echo read-again; alias hi='echo hi-by'; trap 'echo trapped' INT\n";
    let other = format!("{other}HISTCONTROL={control}\n");
    let session = Session::spawn(Spawn::reedclaw().size(24, 160).file("other", &other));
    session.run("true");
    session.line("exec bash --rcfile other");
    session.expect_line("read-again");
    session.run("hi there");
    session.expect_line("hi-by there");
    session.run("(exit 7)");
    session.expect("the status at our prompt", |screen| crate::pty::cursor_line(screen).contains(" 7 ❯"));
    session
        .run("echo \"typed: $(history | grep -c '/f[d]/'), by me: $(history | grep -c 'exec b[a]sh')\"; trap -p INT");
    session.expect_line("typed: 0, by me: 1");
    session.expect_line("trap -- 'echo trapped' SIGINT");
    session.run("PROMPT_COMMAND=(true true); PS1='x> '; echo again-$((1+1))");
    session.expect_line("again-2");
    let text = session.screen_text();
    assert!(!text.contains("\nrows>") && !text.contains("\nx>") && !text.contains("replaced"), "{text}");
    session.line("exit 5");
    assert_eq!(crate::pty::status_code(session.expect_exit()), 5);
}

#[test]
fn a_single_row_of_a_start_up_file_leaves_no_empty_row() {
    let rc = "mkfifo ~/gate; read -r _ < ~/gate; echo one-row\n";
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", rc));
    // The early prompt is drawn while the file is still waiting.
    session.expect_text("❯");
    let gate = session.home().join("gate");
    session.expect_outside("the gate", || gate.exists().then_some(()));
    std::fs::write(&gate, "go\n").expect("the file goes on");
    session.expect("a prompt right below the row", |screen| {
        let text = screen.contents();
        let rows: Vec<&str> = text.lines().map(str::trim_end).collect();
        let at = rows.iter().position(|row| *row == "one-row");
        at.is_some_and(|at| {
            rows[..at].iter().all(|row| !row.is_empty()) && rows.get(at + 1).is_some_and(|row| row.contains('❯'))
        })
    });
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
}

#[test]
fn an_open_row_of_a_start_up_file_stays_above_the_prompt() {
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", "echo first-row; printf 'open row'\n"));
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
    let text = session.screen_text();
    let rows: Vec<&str> = text.lines().map(str::trim_end).collect();
    let at = rows.iter().position(|row| *row == "first-row").expect("the first row");
    assert!(rows[at + 1].starts_with("open row"), "{text}");
}

/// The home may be mounted later, and root could create it.
#[test]
fn a_home_that_does_not_exist_is_not_made() {
    let place = tempfile::TempDir::new().expect("a directory");
    let gone = place.path().join("gone");
    let mut spawn = Spawn::reedclaw().cwd(place.path()).env("HOME", &gone.display().to_string());
    for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        spawn = spawn.env(name, "");
    }
    let session = Session::spawn(spawn);
    session.expect_text("doesn't exist");
    session.run("cd; echo status-$?");
    session.expect_line("status-1");
    assert!(!gone.exists());
}

#[test]
fn a_missing_model_is_reported_in_the_first_session_alone() {
    let home = tempfile::TempDir::new().expect("a home");
    let seen = |line: &str| {
        let session = Session::spawn(Spawn::reedclaw().home(home.path()));
        session.run(line);
        session.expect_line("seen-2");
        let text = session.screen_text();
        session.line("exit");
        session.expect_exit();
        text.contains("No model is set up")
    };
    assert!(seen("echo seen-$((1+1))"));
    assert!(!seen("echo seen-$((4-2))"));
}
