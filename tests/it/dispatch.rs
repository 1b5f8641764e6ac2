//! Before anything of ours: what isn't a person at a terminal is the backing shell's, as if we weren't there.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program, status_code};

/// Runs a program without a terminal, with a cleared environment.
fn piped(program: &std::path::Path, argv0: &str, args: &[&str], input: &[u8], home: &std::path::Path) -> Output {
    let mut child = Command::new(program)
        .arg0(argv0)
        .args(args)
        .env_clear()
        .env("PATH", TEST_PATH)
        .env("HOME", home)
        .env("LANG", "C.UTF-8")
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // On a thread: both pipes may fill. A program that doesn't read its input closes it, which is no failure.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("the input was offered");
    output
}

#[test]
fn without_a_person_it_is_bash() {
    let home = TempDir::new().expect("a home");
    std::fs::write(home.path().join("script.sh"), "echo script \"$@\"; exit 5\n").expect("a script");
    std::fs::write(home.path().join(".bash_profile"), "echo profile\n").expect("a profile");
    let cases: &[(&str, &[&str], &str)] = &[
        ("shell", &["-c", "echo out; echo err >&2; exit 7"], ""),
        ("shell", &["-c", "echo $0 $1", "zero", "one"], ""),
        ("shell", &["-c", "kill -TERM $$"], ""),
        ("shell", &["-c", "kill -KILL $$"], ""),
        ("shell", &["-lc", "echo login; shopt login_shell"], ""),
        ("shell", &["-l", "-c", "echo login"], ""),
        ("shell", &["--login", "-c", "echo login"], ""),
        ("-shell", &["-c", "echo $0; shopt login_shell"], ""),
        ("-shell", &[], "echo piped; exit 4\n"),
        ("shell", &[], "echo piped; exit 4\n"),
        ("shell", &["-s", "a", "b"], "echo $1 $2\n"),
        ("shell", &["./script.sh", "a b", "c"], ""),
        ("shell", &["--", "script.sh", "x"], ""),
        ("shell", &["script.sh"], ""),
        ("shell", &["-e", "-c", "false; echo not reached"], ""),
        ("shell", &["-o", "pipefail", "-c", "false | true"], ""),
        ("shell", &["+O", "extglob", "-c", "shopt extglob"], ""),
        ("shell", &["--norc", "-c", "echo norc"], ""),
        ("shell", &["./missing.sh"], ""),
        ("shell", &["-c"], ""),
    ];
    for (argv0, args, input) in cases {
        let bash = piped("/bin/bash".as_ref(), argv0, args, input.as_bytes(), home.path());
        let ours = piped(&program(), argv0, args, input.as_bytes(), home.path());
        assert_eq!(ours, bash, "{argv0} {args:?} with {input:?}");
    }
}

#[test]
fn bytes_pass_unchanged() {
    let home = TempDir::new().expect("a home");
    let mut seed = 0x9e37_79b9_u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    })
    .take(1 << 20)
    .collect();
    let output = piped(&program(), "shell", &["-c", "cat"], &bytes, home.path());
    assert!(output.stdout == bytes, "{} bytes came back of {}", output.stdout.len(), bytes.len());
}

#[test]
fn a_command_in_a_terminal_is_bash_s_own() {
    let session = Session::spawn(Spawn::reedclaw().arg("-c").arg("tty; stty size; exit 9"));
    let (status, raw) = session.expect_end();
    assert_eq!(status_code(status), 9);
    let text = String::from_utf8(raw).expect("text");
    assert!(text.starts_with("/dev/pts/") && text.ends_with("\r\n24 80\r\n"), "{text:?}");
}

#[test]
fn the_environment_and_the_descriptors_are_bash_s() {
    let home = TempDir::new().expect("a home");
    for command in ["env | grep -v '^_=' | sort", "ls /proc/self/fd", "umask; ulimit -a; cat /proc/self/oom_score_adj"]
    {
        let bash = piped("/bin/bash".as_ref(), "shell", &["-c", command], b"", home.path());
        let ours = piped(&program(), "shell", &["-c", command], b"", home.path());
        assert_eq!(ours, bash, "{command}");
    }
}

#[test]
fn a_home_that_has_gone_and_a_broken_config_lock_nobody_out() {
    for spawn in [
        Spawn::reedclaw().env("HOME", "/nonexistent/home"),
        Spawn::reedclaw().env("TERM", "dumb"),
        Spawn::reedclaw().env_remove("TERM"),
        Spawn::reedclaw().file(".config/reedclaw/config.lua", "this is no Lua ((("),
        Spawn::reedclaw().file(".local/share/reedclaw", "a file where a folder should be"),
        Spawn::reedclaw().file(".local/state/reedclaw", "a file where a folder should be"),
        Spawn::reedclaw().env("XDG_RUNTIME_DIR", "/nonexistent/run"),
        Spawn::reedclaw().size(1, 2),
        Spawn::reedclaw().deaf(),
    ] {
        let session = Session::spawn(spawn);
        // No prompt to wait for: it may be bash's own. What is typed must run, and leave a trace outside the screen.
        let trace = session.home().join("trace");
        session.line(&format!("echo \"alive $((40+2))\" > {}", trace.display()));
        session.expect_outside("the trace of a command", || {
            std::fs::read_to_string(&trace).ok().filter(|text| text == "alive 42\n")
        });
        session.line("exit 3");
        assert_eq!(status_code(session.expect_exit()), 3);
    }
}
