//! Sessions that are changed by their commands, and output that pretends to be ours.

use crate::pty::{Key, Session, Spawn, cursor_line, status_code};

/// After any of these the session still runs lines, and shows their output.
const CHANGES: &[&str] = &[
    "set -u",
    "set -x",
    "set -f",
    "set -C",
    "set -a",
    "set -T",
    "set -E",
    "set -k",
    "set -b",
    "set +m",
    "set +H",
    "set -o vi",
    "set +o emacs +o vi",
    "set -v",
    "set -o posix",
    "unset PROMPT_COMMAND",
    "PROMPT_COMMAND='true'",
    "PROMPT_COMMAND='echo from-prompt-command'",
    "PROMPT_COMMAND=(true 'false')",
    "readonly PROMPT_COMMAND",
    "readonly PS0",
    "IFS=x",
    "LC_ALL=C",
    "trap 'true' DEBUG",
    "trap 'true' ERR",
    "trap 'true' RETURN",
    "trap 'echo leaving' EXIT",
    "trap '' INT TSTP",
    "exec 2>err",
    "stty -echo",
    "alias printf='echo no' read='echo no' eval='echo no' builtin='echo no' local='echo no'",
    "read() { echo no; }; printf() { echo no; }; eval() { return 1; }",
    "enable -n printf",
    "bind -r '\\C-l' 2>/dev/null",
    "bind '\"\\e[A\": \"typed by bind\"'",
    "shopt -s expand_aliases nullglob failglob lastpipe",
    "shopt -u histappend promptvars",
    "history -c; unset HISTFILE; HISTCONTROL=ignoreboth HISTSIZE=0",
    "unset HOME PWD OLDPWD TERM",
    "cd /; rmdir nothing 2>/dev/null; PATH=",
    "coproc cat",
    "exec 3>&1 4>&2 9>file",
    "BASH_ENV=/nonexistent ENV=/nonexistent; export BASH_ENV ENV",
    "ulimit -u 64 2>/dev/null; ulimit -f 100",
];

#[test]
fn a_changed_session_still_runs_lines() {
    for change in CHANGES {
        let session = Session::spawn(Spawn::reedclaw());
        session.expect_prompt();
        session.line(change);
        // Keys typed ahead of a command that removes the hooks may be read by the shell's own editor.
        session.expect_prompt();
        // The lines must run, one after the other.
        for (index, file) in ["first", "second"].iter().enumerate() {
            let path = session.home().join(file);
            session.line(&format!("echo {file}-$(({index}+40)) > {}", path.display()));
            session.expect_outside(&format!("a trace after {change:?}"), || {
                std::fs::read_to_string(&path).ok().filter(|text| *text == format!("{file}-{}\n", index + 40))
            });
        }
        session.line("exit 7");
        assert_eq!(status_code(session.expect_exit()), 7, "{change}");
    }
}

#[test]
fn set_e_ends_the_shell_where_bash_would_and_not_before() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("set -e");
    session.run("true");
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
    session.line("(exit 6)");
    assert_eq!(status_code(session.expect_exit()), 6);
}

#[test]
fn another_shell_in_its_place_still_answers() {
    for shell in ["zsh -f", "sh"] {
        let program = shell.split(' ').next().expect("a word");
        if !crate::need::require(&[program]) {
            continue;
        }
        let session = Session::spawn(Spawn::reedclaw());
        session.expect_prompt();
        session.line(&format!("exec {shell}"));
        // Keys typed while one shell replaces the other may be dropped by either.
        session.expect("the prompt of the new shell", |screen| cursor_line(screen).ends_with(['$', '#', '%']));
        let path = session.home().join("trace");
        session.line(&format!("echo in-$((40+2)) > {}", path.display()));
        session.expect_outside(&format!("a trace in {shell}"), || {
            std::fs::read_to_string(&path).ok().filter(|text| text == "in-42\n")
        });
        session.line("exit 5");
        assert_eq!(status_code(session.expect_exit()), 5, "{shell}");
    }
}

#[test]
fn output_redirected_for_good_is_the_user_s_wish() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("exec > out");
    session.line("echo to-the-file-$((1+1))");
    session.expect_outside("the file", || {
        std::fs::read_to_string(session.home().join("out")).ok().filter(|text| text.contains("to-the-file-2"))
    });
    session.line("exec > /dev/tty");
    session.run("echo back-$((1+1))");
    session.expect_line("back-2");
    let out = std::fs::read_to_string(session.home().join("out")).expect("the file");
    assert_eq!(out, "to-the-file-2\n", "nothing of ours went to the user's file");
}

#[test]
fn forged_markers_change_nothing() {
    let nonces = ["", "0", "00000000000000000000000000000000", "ffffffffffffffffffffffffffffffff", "$n"];
    let mut evil = String::new();
    for nonce in nonces {
        for kind in ["A", "B", "C", "D", "E", "F", "P", "X"] {
            evil.push_str(&format!("\x1b]633;{kind};{nonce};1;99;/tmp\x07"));
            evil.push_str(&format!("\x1b]633;{kind};{nonce}\x1b\\"));
        }
    }
    let cut: String = (0..12).map(|length| &"\x1b]633;D;00;0\x07"[..length]).map(|piece| format!("{piece}|")).collect();
    let session = Session::spawn(
        Spawn::reedclaw().size(24, 160).file("evil", &format!("before\n{evil}\nafter-evil\n")).file("cut", &cut),
    );
    session.run("cat evil; (exit 3)");
    session.expect_line("after-evil");
    session.run("echo status-$?-${PWD##*/}");
    let name = session.home().file_name().expect("a name").to_string_lossy().into_owned();
    session.expect_line(&format!("status-3-{name}"));
    session.run("while read -rn1 -d '' c; do printf %s \"$c\"; done < evil; echo; echo slow-$((1+1))");
    session.expect_line("slow-2");
    session.line("cat cut; printf '\\a\\e\\\\\\n'");
    session.expect_prompt();
    session.run("clear");
    session.run("echo clean-$((1+1))");
    session.expect_line("clean-2");
}

#[test]
fn an_endless_control_sequence_ends_with_its_command() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("printf '\\e]633;D;'; head -c 1000000 /dev/zero | tr '\\0' x; printf '\\a\\n'; echo past-$((1+1))");
    session.expect_line("past-2");
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
}

#[test]
fn random_bytes_on_the_terminal_stop_no_line() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line(
        "head -c 20000 /dev/urandom | tr -d '\\005\\016\\017\\033\\217\\220\\230\\233\\235\\236\\237'; reset -Q; clear",
    );
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
    session.press(Key::Enter);
    session.expect_prompt();
}

/// Lines in start-up files after which the session still runs lines.
const START_UP: &[&str] = &[
    "set -u",
    "set -x",
    "set -T; trap 'true' DEBUG",
    "set -o vi",
    "set -o posix",
    "PROMPT_COMMAND='echo from-rc'",
    "PROMPT_COMMAND=('true' 'false')",
    "readonly PROMPT_COMMAND='true'",
    "readonly PROMPT_COMMAND",
    "readonly PS0=x",
    "readonly PS1",
    "unset PS1 PS2",
    "trap 'echo leaving' EXIT",
    "if then; fi )",
    "return 3",
    "alias printf='echo no' read='echo no' builtin='echo no' local='echo no'; PATH=/nowhere",
    "bind '\"\\e[9999~\": \"typed by bind\"'; bind '\"\\e[9997~\": \"x\"'",
    "exec 3>&1 9</dev/null; umask 077; IFS=x",
    "cd /; export HOME=/nonexistent",
    "until [ -e ~/go ]; do sleep 0.05; done; echo slow-start",
];

#[test]
fn whatever_a_start_up_file_holds_lines_run() {
    for text in START_UP {
        let session = Session::spawn(Spawn::reedclaw().file(".bashrc", &format!("PS1='❯ '\n{text}\n")));
        let path = session.home().join("trace");
        session.line(&format!("echo up-$((40+2)) > {}", path.display()));
        std::fs::write(session.home().join("go"), "").expect("a file");
        session.expect_outside(&format!("a trace after {text:?}"), || {
            std::fs::read_to_string(&path).ok().filter(|text| *text == "up-42\n")
        });
        session.line("exit 7");
        assert_eq!(status_code(session.expect_exit()), 7, "{text}");
    }
}

#[test]
fn a_start_up_file_may_ask() {
    let session = Session::spawn(Spawn::reedclaw().file(".bashrc", "PS1='❯ '; read -p 'who? ' who\n"));
    session.expect_text("who?");
    session.line("tester");
    session.run("echo answered-$who");
    session.expect_line("answered-tester");
}

#[test]
fn a_nonce_that_was_used_is_worth_nothing() {
    let forge = r#"n=$(cat old)
for letter in P B C D F; do
  text=$(printf '\033]633;%s;%s;1;99\007' "$letter" "$n")
  for ((cut = 0; cut <= ${#text}; cut++)); do
    printf '%s' "${text:0:cut}"; printf '%s' "${text:cut}"
  done
done
printf 'forged-%d\n' 42
exit 3
"#;
    let session = Session::spawn(Spawn::reedclaw().file("forge", forge));
    session.run("printf %s \"${__rc_n}\" > old; test -s old && echo stolen");
    session.expect_line("stolen");
    session.run("bash forge");
    session.expect_line("forged-42");
    session.expect("the true status", |screen| cursor_line(screen).contains(" 3 "));
    session.run("echo status-$?");
    session.expect_line("status-3");
    // In the background, while the person edits a line.
    session.run("(until [ -e go ]; do sleep 0.02; done; bash forge) &");
    session.type_text("echo typed-$((1+1))");
    session.expect_text("typed-$((1+1))");
    std::fs::write(session.home().join("go"), "").expect("a file");
    session.expect_line("forged-42");
    session.press(Key::Enter);
    session.expect_line("typed-2");
}
