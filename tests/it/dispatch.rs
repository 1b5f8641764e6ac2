//! Before anything else: input that doesn't come from a person at a terminal goes to the backing shell, as if ReedClaw weren't
//! there.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::need::{TEST_PATH, require, require_root};
use crate::pty::{Session, Spawn, copy_program, cursor_line, program, status_code};

/// Runs a program without a terminal, with a cleared environment.
pub fn piped(program: &std::path::Path, argv0: &str, args: &[&str], input: &[u8], home: &std::path::Path) -> Output {
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
    // On a thread, because both pipes may fill. A program that doesn't read its input closes it, which isn't a failure.
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
        // The backing shell has its own name, which start-up files compare with `-bash`.
        let bash = piped("/bin/bash".as_ref(), &argv0.replace("shell", "bash"), args, input.as_bytes(), home.path());
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
        let bash = piped("/bin/bash".as_ref(), "bash", &["-c", command], b"", home.path());
        let ours = piped(&program(), "shell", &["-c", command], b"", home.path());
        assert_eq!(ours, bash, "{command}");
    }
}

#[test]
fn ignored_and_blocked_signals_reach_the_command_as_they_were() {
    let home = TempDir::new().expect("a home");
    let seen = |shell: &str| {
        let command = format!("trap '' PIPE USR1; exec {shell} -c 'grep -E \"^Sig(Blk|Ign|Cgt)\" /proc/self/status'");
        piped("/bin/bash".as_ref(), "bash", &["-c", &command], b"", home.path())
    };
    let ours = seen(&program().display().to_string());
    assert_eq!(ours, seen("/bin/bash"));
    assert!(ours.status.success() && ours.stdout.starts_with(b"Sig"), "{ours:?}");
}

#[test]
fn a_config_that_may_name_a_shell_is_read_before_a_command() {
    let home = TempDir::new().expect("a home");
    let folder = home.path().join(".config/reedclaw");
    std::fs::create_dir_all(&folder).expect("a folder");
    let shell = |config: &str| {
        std::fs::write(folder.join("config.lua"), config).expect("a config");
        let output = piped(&program(), "shell", &["-c", "echo $0"], b"", home.path());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(shell("return { shell = { program = \"/bin/sh\" } }"), "sh");
    assert_eq!(shell("-- nothing but a long comment, and no shell\n".repeat(2000).as_str()), "bash");
    // The word lies across the end of the piece that is read at once.
    let long = format!("--{}\nreturn {{ shell = {{ program = \"/bin/sh\" }} }}", "x".repeat(16 * 1024 - 26));
    assert_eq!(shell(&long), "sh");
}

#[test]
fn a_bash_that_is_this_program_is_passed_over() {
    let home = TempDir::new().expect("a home");
    std::os::unix::fs::symlink(program(), home.path().join("bash")).expect("a link");
    let path = format!("relative::{}:{TEST_PATH}", home.path().display());
    let mut command = Command::new(program());
    command.args(["-c", "echo ran"]).env_clear().env("PATH", path).env("HOME", home.path()).current_dir(&home);
    let output = command.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n");
}

/// The loader of the C library, started by hand with the program as its argument.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn a_loader_started_by_hand_runs_the_program() {
    let output = Command::new("/lib64/ld-linux-x86-64.so.2").arg(program()).arg("--version").output().expect("it runs");
    assert!(output.status.success() && output.stdout.starts_with(b"reedclaw "), "{output:?}");
}

#[test]
fn a_missing_home_and_a_broken_config_lock_no_user_out() {
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
        // No prompt to wait for: it may be bash's own. A typed line must run, and leave a trace outside the screen.
        let trace = session.home().join("trace");
        session.line(&format!("echo \"alive $((40+2))\" > {}", trace.display()));
        session.expect_outside("the trace of a command", || {
            std::fs::read_to_string(&trace).ok().filter(|text| text == "alive 42\n")
        });
        session.line("exit 3");
        assert_eq!(status_code(session.expect_exit()), 3);
    }
}

/// Runs the executable under test after a shell script that prepares its surroundings, in a separate mount namespace; the script
/// ends with `exec "$0"`.
fn prepared(script: &str) -> Spawn {
    let path = program().display().to_string();
    Spawn::new("/usr/bin/unshare").arg("-m").arg("/bin/sh").arg("-c").arg(script).arg(&path)
}

#[test]
fn without_bash_it_is_sh_and_says_so() {
    if !require(&["unshare"]) || !require_root() {
        return;
    }
    let hide = "for b in /bin/bash /usr/bin/bash /usr/local/bin/bash; do [ -e $b ] && mount --bind /dev/null $b; done";
    let session = Session::spawn(prepared(&format!("{hide}; exec \"$0\"")));
    session.expect_text("this is plain /bin/sh");
    session.expect("its prompt", |screen| cursor_line(screen) == "#");
    session.line("echo alive-$((40+2)); exit 3");
    session.expect_line("alive-42");
    assert_eq!(status_code(session.expect_exit()), 3);
}

#[test]
fn a_full_disk_still_has_a_shell() {
    if !require(&["unshare"]) || !require_root() {
        return;
    }
    let fill = "mount -t tmpfs -o size=64k none \"$HOME\"; cd \"$HOME\"; head -c 1000000 /dev/zero > fill 2>/dev/null";
    let session = Session::spawn(prepared(&format!("{fill}; exec \"$0\"")));
    session.run("df . | grep -c 100%");
    session.expect_line("1");
    session.run("echo alive-$((40+2))");
    session.expect_line("alive-42");
    session.line("exit 3");
    assert_eq!(status_code(session.expect_exit()), 3);
}

#[test]
fn a_damaged_database_still_has_a_shell() {
    let session =
        Session::spawn(Spawn::reedclaw().file(".local/share/reedclaw/reedclaw.db", &"no database".repeat(999)));
    session.expect_text("reedclaw.db");
    session.run("echo alive-$((40+2))");
    session.expect_line("alive-42");
    session.line("exit 3");
    assert_eq!(status_code(session.expect_exit()), 3);
}

#[test]
fn if_no_process_can_be_made_it_becomes_bash() {
    if !require(&["setpriv"]) || !require_root() {
        return;
    }
    let path = program();
    let copy = tempfile::Builder::new().prefix("rc-nobody-").tempdir().expect("a folder");
    let shell = copy.path().join("reedclaw");
    copy_program(&path, &shell);
    for path in [copy.path(), &shell] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is opened");
    }
    // No process for a user id that no other process has.
    let script = "ulimit -u 1; exec \"$0\"";
    let spawn = Spawn::new("/usr/bin/setpriv")
        .args(&["--reuid=61234", "--regid=61234", "--clear-groups", "/bin/bash", "-c", script])
        .arg(&shell.display().to_string());
    let session = Session::spawn(spawn.env("HOME", "/"));
    session.expect_text("this is plain");
    session.expect("its prompt", |screen| cursor_line(screen).ends_with('$'));
    session.line("echo alive-$((40+2)); exit 3");
    session.expect_line("alive-42");
    assert_eq!(status_code(session.expect_exit()), 3);
}

#[test]
fn a_terminal_of_no_size_runs_lines() {
    let session = Session::spawn(Spawn::reedclaw().size(0, 0));
    let trace = session.home().join("trace");
    session.line(&format!("echo alive > {}", trace.display()));
    session.expect_outside("a trace", || std::fs::read_to_string(&trace).ok().filter(|text| text == "alive\n"));
    session.line("exit 3");
    assert_eq!(status_code(session.expect_exit()), 3);
}

#[test]
fn a_session_begins_in_the_directory_and_environment_of_its_start() {
    let home = TempDir::new().expect("a home");
    std::fs::create_dir_all(home.path().join("work/deep")).expect("a directory");
    let config = "return {models = {one = {kind = \"mock\"}, two = {kind = \"mock\"}}, default_model = \"one\"}";
    let spawn = || Spawn::reedclaw().home(home.path()).file(".config/reedclaw/config.lua", config);
    let session = Session::spawn(spawn().args(&["--path", "work/deep", "--model=two", "--log-level", "error"]));
    session.expect_prompt();
    session.run("pwd");
    session.expect_line(&home.path().join("work/deep").display().to_string());
    session.run(":model");
    session.expect_text("two");
    session.line("exit");
    session.expect_exit();
    let log = || std::fs::read_to_string(home.path().join(".local/state/reedclaw/reedclaw.log")).unwrap_or_default();
    assert!(!log().contains("startup"), "{}", log());
    // A missing model is reported, and the shell starts.
    let session = Session::spawn(spawn().args(&["--model", "three"]));
    session.expect_prompt();
    session.expect_text("three");
    session.line("exit");
    session.expect_exit();
    assert!(log().contains("startup"), "{}", log());
    // If tools don't work in that directory, the shell reports it.
    let local = "return {models = {one = {endpoint = \"http://127.0.0.1:9\"}}}";
    let named = Spawn::reedclaw().home(home.path()).file(".config/reedclaw/config.lua", local).size(24, 160);
    let session = Session::spawn(named.args(&["--path", "."]));
    session.expect_text("tools don't work there, but in ");
    session.line("exit");
    session.expect_exit();
    let session = Session::spawn(spawn().args(&["--path", "nowhere"]));
    session.expect_text("--path nowhere");
    assert_eq!(status_code(session.expect_exit()), 2);
    let output = piped(&program(), "reedclaw", &["--path", "work", "-c", "pwd"], b"", home.path());
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{err}");
}
