//! Full-screen programs, and what they leave on the screen.

use crate::need::require;
use crate::pty::{Key, PROMPT, Session, Spawn, cursor_line};

#[test]
fn vim_edits_stops_and_resumes() {
    if !require(&["vim"]) {
        return;
    }
    let session = Session::spawn(Spawn::reedclaw().file("note.txt", "a line of the note\n"));
    session.expect_prompt();
    session.line("vim -u NONE note.txt");
    session.expect("vim", |screen| screen.alternate_screen() && screen.contents().contains("a line of the note"));
    session.press(Key::Ctrl('z'));
    session.run("echo status-$?");
    session.expect_line("status-148");
    session.line("fg");
    session.expect("vim again", |screen| screen.alternate_screen() && screen.contents().contains("a line of the note"));
    session.type_text("ggxx:wq");
    session.press(Key::Enter);
    session.run("cat note.txt");
    session.expect_line("line of the note");
}

#[test]
fn vim_gets_the_size_of_the_terminal_at_once_and_later() {
    if !require(&["vim"]) {
        return;
    }
    let session = Session::spawn(Spawn::reedclaw().size(30, 100));
    session.expect_prompt();
    session.line("vim -u NONE -c 'set laststatus=2 statusline=%{&lines}x%{&columns}'");
    session.expect_text("30x100");
    for (rows, cols) in [(20, 60), (21, 61), (22, 62), (40, 120)] {
        session.resize(rows, cols);
    }
    session.expect_text("40x120");
    session.type_text(":q!");
    session.press(Key::Enter);
    session.run("stty size");
    session.expect_line("40 120");
}

#[test]
fn a_size_set_inside_stays_until_the_next_change() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("stty size");
    session.expect_line("24 80");
    session.run("stty cols 40; stty size");
    session.expect_line("24 40");
    session.resize(25, 90);
    session.run("stty size");
    session.expect_line("25 90");
}

#[test]
fn less_and_man_page_and_quit() {
    if !require(&["less", "man"]) {
        return;
    }
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("seq 1 500 | less");
    session.expect("the first page", |screen| screen.alternate_screen() && screen.contents().starts_with("1\n2\n"));
    session.type_text("G");
    session.expect("the last page", |screen| screen.contents().contains("\n500\n"));
    session.type_text("q");
    session.run("echo paged-$?");
    session.expect_line("paged-0");
}

#[test]
fn htop_draws_and_quits() {
    if !require(&["htop"]) {
        return;
    }
    let session = Session::spawn(Spawn::reedclaw().size(30, 100));
    session.expect_prompt();
    session.line("htop");
    session.expect("htop", |screen| screen.alternate_screen() && screen.contents().contains("F10"));
    session.type_text("q");
    session.run("echo quit-$?");
    session.expect_line("quit-0");
}

#[test]
fn fzf_reads_the_terminal_itself() {
    if !require(&["fzf"]) {
        return;
    }
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("picked=$(printf '%s\\n' apple pear plum | fzf); echo picked-$picked");
    session.expect_text("3/3");
    session.type_text("pear");
    session.expect_text("1/3");
    session.press(Key::Enter);
    session.expect_line("picked-pear");
    session.expect_prompt();
}

#[test]
fn tmux_runs_inside() {
    if !require(&["tmux"]) {
        return;
    }
    let session = Session::spawn(Spawn::reedclaw());
    let socket = session.home().join("tmux-socket");
    session.expect_prompt();
    session.line(&format!("tmux -S {} -f /dev/null new-session 'cat; echo ended'", socket.display()));
    session.expect("tmux", |screen| screen.alternate_screen() && screen.contents().contains("[0]"));
    session.line("through tmux");
    session.expect("cat in tmux", |screen| screen.contents().matches("through tmux").count() == 2);
    session.press(Key::Ctrl('d'));
    session.expect_text("[exited]");
    session.run("echo after-$((1+1))");
    session.expect_line("after-2");
}

#[test]
fn a_python_prompt_reads_lines_and_keeps_its_ctrl_c() {
    if !require(&["python3"]) {
        return;
    }
    let session = Session::spawn(Spawn::reedclaw().env("PYTHON_HISTORY", "/dev/null"));
    session.expect_prompt();
    session.line("/usr/bin/python3 -q");
    session.expect_text(">>>");
    session.line("print(6*7)");
    session.expect_line("42");
    session.expect("its next prompt", |screen| cursor_line(screen) == ">>>");
    session.press(Key::Ctrl('c'));
    // Python may handle a signal that arrives just before it waits only at the next key.
    session.press(Key::Enter);
    session.expect_text("KeyboardInterrupt");
    session.line("exit(5)");
    session.run("echo status-$?");
    session.expect_line("status-5");
}

#[test]
fn a_password_is_not_shown() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("read -rsp 'secret: ' word; echo; echo \"length-${#word}\"");
    session.expect("the question", |screen| screen.contents().lines().any(|line| line.trim_end() == "secret:"));
    session.line("hunter-seven");
    session.expect_line("length-12");
    assert!(!String::from_utf8_lossy(&session.raw()).contains("hunter-seven"));
    session.expect_prompt();
}

#[test]
fn select_asks_and_answers() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("select fruit in apple pear; do echo \"chose-$fruit\"; break; done");
    session.expect_text("#?");
    session.line("2");
    session.expect_line("chose-pear");
    session.expect_prompt();
}

#[test]
fn a_reply_of_the_terminal_reaches_the_program_that_asked() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("clear");
    session.run("IFS= read -rsd R -p $'\\e[6n' at; echo \"at-${at#??}\"");
    session.expect("a position", |screen| {
        screen.contents().lines().any(|line| line.starts_with("at-") && line.contains(';'))
    });
    session.run("echo clean-$((1+1))");
    session.expect_line("clean-2");
}

#[test]
fn modes_left_on_by_a_killed_program_are_reset() {
    let wild = "printf '\\e[?1049h\\e[?1000h\\e[?1002h\\e[?1006h\\e[?2004h\\e[?25l'; stty raw -echo; kill -9 $$\n";
    let session = Session::spawn(Spawn::reedclaw().file("wild", wild));
    session.expect_prompt();
    session.line("bash wild");
    session.expect_raw(b"\x1b[?2004h\x1b[?25l", 0);
    session.run("echo usable-$((1+1))");
    session.expect("a line of output with the cursor shown and the mouse off", |screen| {
        screen.contents().lines().any(|line| line.trim_end() == "usable-2")
            && !screen.alternate_screen()
            && !screen.hide_cursor()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    });
}

#[test]
fn make_and_vim_run_commands_through_the_shell_variable() {
    if !require(&["vim", "make"]) {
        return;
    }
    let shell = crate::pty::program().display().to_string();
    let session = Session::spawn(
        Spawn::reedclaw().size(24, 160).env("SHELL", &shell).file("Makefile", "all:\n\t@echo made-by-$$((40+2))\n"),
    );
    session.run("make");
    session.expect_line("made-by-42");
    session.run("vim -u NONE -es -c '!echo by-vim-$((40+2)) > out' -c q; cat out");
    session.expect_line("by-vim-42");
}

#[test]
fn the_size_in_pixels_is_passed_on() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.resize_with_pixels([30, 120, 900, 600]);
    session.run("perl -le 'ioctl(STDIN, 0x5413, $b = \"x\" x 8); print join \"-\", unpack \"S4\", $b'");
    session.expect_line("30-120-900-600");
}

#[test]
fn screen_runs_inside_and_around() {
    if !require(&["screen"]) {
        return;
    }
    let program = crate::pty::program().display().to_string();
    // Private sockets, so that no other sessions are seen. Screen requires that only their owner has access.
    let spawn = Spawn::bash().file("run/.keep", "").file(".screenrc", "startup_message off\n");
    let session = Session::spawn(spawn);
    session.run("chmod 700 run; export SCREENDIR=$PWD/run");
    session.line(&format!("screen {program}"));
    session.expect_outside("our shell in screen", || {
        (session.descendants().iter().filter(|process| process.name.starts_with("reedclaw")).count() >= 2).then_some(())
    });
    session.expect("its prompt", |screen| cursor_line(screen).ends_with(PROMPT));
    session.line("echo in-screen-$((1+1)); stty size");
    session.expect_line("in-screen-2");
    session.expect_line("24 80");
    session.line("exit");
    session.expect_text("[screen is terminating]");
    session.run("echo after-$((1+1))");
    session.expect_line("after-2");
}
