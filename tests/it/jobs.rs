//! Signals, job control and the end of a session, as a person at the keyboard causes them.

use nix::sys::signal::Signal;
use nix::sys::termios::LocalFlags;

use crate::pty::{Key, Session, Spawn, status_code};

/// Waits until a process of this name runs below the session.
#[track_caller]
fn running(session: &Session, name: &str) -> crate::procs::Process {
    session.expect_outside(&format!("a running {name}"), || session.descendants().into_iter().find(|p| p.name == name))
}

/// The foreground process group on the terminal of a process.
fn foreground(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(5)?.parse().ok()
}

/// Waits until no process of this name runs below the session.
#[track_caller]
fn gone(session: &Session, name: &str) {
    session.expect_outside(&format!("no {name}"), || {
        session.descendants().iter().all(|p| p.name != name || p.state == 'Z').then_some(())
    });
}

#[test]
fn ctrl_c_clears_the_line() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.type_text("echo never-$((1+1))");
    session.expect_text("never-$((1+1))");
    session.interrupt();
    session.run("echo next-$((1+1))");
    session.expect_line("next-2");
    assert!(!session.screen_text().contains("never-2"));
}

#[test]
fn ctrl_c_ends_the_foreground_job_only() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("sleep 601 &");
    session.expect_prompt();
    session.line("sleep 602");
    session.expect_outside("both", || {
        (session.descendants().iter().filter(|p| p.name == "sleep").count() == 2).then_some(())
    });
    session.press(Key::Ctrl('c'));
    session.run("echo status-$?; jobs");
    session.expect_line("status-130");
    session.expect_text("Running");
    session.run("kill %1; wait; echo waited");
    session.expect_line("waited");
}

#[test]
fn ctrl_c_ends_a_loop_and_a_pipeline() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    // One long sleep: between two short ones, the signal may find no process, in bash too.
    session.line("while :; do sleep 612; done");
    running(&session, "sleep");
    session.press(Key::Ctrl('c'));
    session.expect_prompt();
    session.line("sleep 603 | cat");
    running(&session, "cat");
    session.press(Key::Ctrl('c'));
    session.run("echo status-$?");
    session.expect_line("status-130");
    gone(&session, "sleep");
}

#[test]
fn ctrl_c_three_times_ends_nothing_of_ours() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    for _ in 0..3 {
        session.interrupt();
    }
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
    session.line("trap '' INT; cat; trap - INT");
    running(&session, "cat");
    for _ in 0..3 {
        session.press(Key::Ctrl('c'));
    }
    session.line("echoed by cat");
    session.expect_line("echoed by cat");
    session.press(Key::Ctrl('d'));
    session.run("echo alive-$((2+2))");
    session.expect_line("alive-4");
}

#[test]
fn ctrl_backslash_ends_with_131() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("ulimit -c 0");
    session.line("sleep 604");
    running(&session, "sleep");
    session.press(Key::Ctrl('\\'));
    session.run("echo status-$?");
    session.expect_line("status-131");
}

#[test]
fn ctrl_z_stops_and_fg_goes_on() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("sleep 605");
    running(&session, "sleep");
    session.press(Key::Ctrl('z'));
    session.run("echo status-$?");
    session.expect_line("status-148");
    session.run("jobs");
    session.expect_text("Stopped");
    session.run("bg");
    session.run("clear");
    session.run("jobs");
    session.expect_text("Running");
    session.line("fg");
    session.expect("the job in front", |screen| screen.contents().lines().any(|line| line.trim_end() == "sleep 605"));
    // The shell reports the job before it hands over the terminal, to which Ctrl-C then sends its signal.
    let job = running(&session, "sleep");
    session.expect_outside("the terminal is the job's", || (foreground(job.pid)? == job.group).then_some(()));
    session.press(Key::Ctrl('c'));
    session.run("echo status-$?");
    session.expect_line("status-130");
    gone(&session, "sleep");
}

#[test]
fn a_stopped_pipeline_a_killed_job_and_a_disowned_one() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("cat | sleep 606");
    // Waits for both: bash loses a Ctrl-Z for a child that it has forked and that isn't the program yet.
    running(&session, "cat");
    running(&session, "sleep");
    session.press(Key::Ctrl('z'));
    session.run("kill %1; bg; wait %1; echo ended-$?");
    session.expect_line("ended-143");
    session.run("sleep 607 & disown; jobs; echo pid-$(( $! > 0 ))");
    session.expect_line("pid-1");
    session.run("kill $!; echo done-$?");
    session.expect_line("done-0");
    session.run("(exit 3) & wait $!; echo waited-$?");
    session.expect_line("waited-3");
}

#[test]
fn a_stopped_front_end_would_lock_the_terminal_so_it_never_stops() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.press(Key::Ctrl('z'));
    for signal in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU] {
        session.kill(signal);
    }
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
}

#[test]
fn the_end_of_the_shell_is_the_end_of_ours() {
    for (line, status) in
        [("exit 5", 5), ("exit", 0), ("false; exit", 1), ("kill -KILL $$", 137), ("kill -HUP $$", 129)]
    {
        let session = Session::spawn(Spawn::reedclaw());
        session.expect_prompt();
        session.line(line);
        assert_eq!(status_code(session.expect_exit()), status, "{line}");
    }
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.press(Key::Ctrl('d'));
    assert_eq!(status_code(session.expect_exit()), 0);
}

#[test]
fn stopped_jobs_are_warned_about_once() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("sleep 608");
    running(&session, "sleep");
    session.press(Key::Ctrl('z'));
    session.run("exit");
    session.expect_text("stopped jobs");
    session.line("exit");
    session.expect_exit();
}

#[test]
fn a_closed_window_takes_jobs_along_but_not_nohup() {
    let mut session = Session::spawn(Spawn::reedclaw());
    session.run("nohup sleep 609 >/dev/null 2>&1 &");
    session.expect_prompt();
    session.line("sleep 610");
    session.expect_outside("both", || {
        (session.descendants().iter().filter(|p| p.name == "sleep").count() == 2).then_some(())
    });
    let below = session.descendants();
    session.hang_up();
    session.expect_exit();
    let mut kept = Vec::new();
    for old in below {
        let command = std::fs::read_to_string(format!("/proc/{}/cmdline", old.pid)).unwrap_or_default();
        if command.contains("609") {
            kept.push(old.pid);
            continue;
        }
        session.expect_outside(&format!("the end of {old:?}"), || {
            let now = crate::procs::process(old.pid).filter(|now| now.started_ticks == old.started_ticks);
            now.is_none_or(|now| "ZX".contains(now.state)).then_some(())
        });
    }
    for pid in &kept {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), Signal::SIGKILL);
    }
    assert_eq!(kept.len(), 1, "the one with nohup lives on");
}

#[test]
fn a_killed_front_end_leaves_a_usable_terminal() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("echo here");
    // The front-end's process isn't reported: these are our processes below the first, deepest last.
    let ours: Vec<i32> =
        session.descendants().iter().filter(|p| p.name.starts_with("reedclaw")).map(|p| p.pid).collect();
    for pid in ours {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    }
    session.expect_text("is plain");
    session.expect_prompt();
    session.line("echo alive-$((40+2)) > ~/trace");
    let trace = session.home().join("trace");
    session
        .expect_outside("a shell that answers", || std::fs::read_to_string(&trace).ok().filter(|t| t == "alive-42\n"));
    session.line("exit 0");
    session.expect_exit();
    let cooked = LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG;
    assert!(session.termios().local_flags.contains(cooked), "the terminal was left raw");
}

#[test]
fn a_front_end_that_crashes_leaves_a_usable_terminal() {
    for signal in [Signal::SIGSEGV, Signal::SIGABRT, Signal::SIGBUS] {
        let session = Session::spawn(Spawn::reedclaw());
        session.expect_prompt();
        let front_end = running(&session, &crate::procs::process(session.pid()).expect("it runs").name);
        let pid = nix::unistd::Pid::from_raw(front_end.pid);
        // The runtime's own handler of a stack overflow swallows the first signal, if no memory access has caused it.
        session.expect_outside("the end of the front-end", || {
            let lives = crate::procs::process(front_end.pid).is_some_and(|now| !"ZX".contains(now.state));
            let _ = lives.then(|| nix::sys::signal::kill(pid, signal));
            (!lives).then_some(())
        });
        session.expect_text(&format!("the session was killed ({}) and is gone; this is plain", signal.as_str()));
        session.expect_prompt();
        session.line("echo alive-$((1+1)); stty -a | tr ' ' '\\n' | grep -c -e '^icanon' -e '^echo;*$'");
        session.expect_line("alive-2");
        session.expect_line("2");
        session.line("exit 6");
        assert_eq!(status_code(session.expect_exit()), 6, "{signal}");
    }
}

#[test]
fn a_terminated_session_takes_its_processes_along() {
    let session = Session::spawn(Spawn::reedclaw());
    session.expect_prompt();
    session.line("sleep 611");
    running(&session, "sleep");
    let below = session.descendants();
    session.kill(Signal::SIGTERM);
    assert_ne!(status_code(session.expect_exit()), 0);
    for old in below {
        session.expect_outside(&format!("the end of {old:?}"), || {
            let now = crate::procs::process(old.pid).filter(|now| now.started_ticks == old.started_ticks);
            now.is_none_or(|now| "ZX".contains(now.state)).then_some(())
        });
    }
}

/// A shell swallows a Ctrl-C that arrives between Enter and the start of the program.
#[test]
fn an_interrupt_right_after_enter_reaches_the_command() {
    let session = Session::spawn(Spawn::reedclaw());
    // While the shell reads its start-up files, Ctrl-C goes to them.
    session.run("true");
    for command in ["sleep 600", "sleep 600 | cat", "while :; do :; done"] {
        for _ in 0..5 {
            session.interrupted_at_once(command);
            session.run("clear");
        }
    }
}

#[test]
fn an_interrupt_of_a_start_up_file_leaves_a_whole_session() {
    for rc in ["sleep 600", "f() { sleep 600; }; f", "while :; do :; done", "trap 'echo own' INT; kill -INT $$"] {
        let own_trap = rc.starts_with("trap");
        let session = Session::spawn(Spawn::reedclaw().file(".bashrc", &format!("echo begun-rc\n{rc}\n")));
        session.expect_text("begun-rc");
        session.line("echo ran-$((1+1))");
        session.expect_text("echo ran-$((1+1))");
        // Plain bash loses a Ctrl-C here, too: 9 of 150 that arrived within 1.5 ms of the text before.
        if rc.contains("sleep") {
            running(&session, "sleep");
        }
        if !own_trap {
            session.press(Key::Ctrl('c'));
        }
        session.expect_line("ran-2");
        session.run("trap -p INT > traps");
        let traps = std::fs::read_to_string(session.home().join("traps")).expect("the traps");
        assert_eq!(traps, if own_trap { "trap -- 'echo own' SIGINT\n" } else { "" }, "{rc}");
    }
}
