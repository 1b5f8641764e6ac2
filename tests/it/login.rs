//! The login shell of a real account, over a real ssh server, as other programs expect it from a shell.

use std::fs;
use std::process::{Command, Stdio};

use crate::need::{require, require_root};
use crate::pty::{Key, Session, Spawn, program, status_code};
use crate::sshd::Sshd;

#[test]
fn commands_over_ssh() {
    let Some(server) = Sshd::start(&program()) else { return };
    let output = server.ssh(&["echo out; echo err >&2; exit 7"]).output().expect("ssh runs");
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(7), b"out\n".into(), b"err\n".into()));

    let killed = server.ssh(&["kill -TERM $$"]).output().expect("ssh runs");
    assert_eq!(killed.status.code(), Some(255), "a signal is reported as such");

    let script = server.home().join("script");
    fs::write(&script, "echo one\nexit 4\n").expect("a script");
    let input = fs::File::open(&script).expect("the script");
    let output = server.ssh(&[]).arg("-T").stdin(Stdio::from(input)).output().expect("ssh runs");
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(4), b"one\n".into(), b"".into()));

    let bytes: Vec<u8> = (0..1_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = server.home().join("bytes");
    fs::write(&file, &bytes).expect("a file");
    let output = server.ssh(&["cat"]).stdin(fs::File::open(&file).expect("the file")).output().expect("ssh runs");
    assert!(output.stdout == bytes, "cat over ssh gave {} bytes", output.stdout.len());
}

#[test]
fn copying_over_ssh() {
    if !require(&["scp", "sftp", "rsync", "git"]) {
        return;
    }
    let Some(server) = Sshd::start(&program()) else { return };
    let config = server.client_config().display().to_string();
    let ssh = format!("ssh -F {config}");
    let local = tempfile::TempDir::new().expect("a folder");
    let file = local.path().join("file");
    fs::write(&file, "what is copied\n").expect("a file");
    let run = |command: &mut Command| {
        let output = command.current_dir(local.path()).stdin(Stdio::null()).output().expect("it starts");
        assert!(output.status.success(), "{command:?}: {output:?}");
    };
    run(Command::new("scp").args(["-F", &config, "file", "rc:by-scp"]));
    run(Command::new("scp").args(["-O", "-F", &config, "file", "rc:by-old-scp"]));
    run(Command::new("rsync").args(["-a", "-e", &ssh, "file", "rc:by-rsync"]));
    fs::write(local.path().join("batch"), "put file by-sftp\n").expect("a batch");
    run(Command::new("sftp").args(["-F", &config, "-b", "batch", "rc"]));
    for copy in ["by-scp", "by-old-scp", "by-rsync", "by-sftp"] {
        assert_eq!(fs::read_to_string(server.home().join(copy)).expect(copy), "what is copied\n");
    }
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
        run(Command::new("git").args(identity).args(args).env("GIT_SSH_COMMAND", &ssh).env("HOME", local.path()));
    };
    run(server.ssh(&["git init -q --bare repo.git"]).arg("&& true"));
    git(&["init", "-q", "work"]);
    git(&["-C", "work", "commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["-C", "work", "push", "-q", "rc:repo.git", "HEAD:main"]);
    git(&["clone", "-q", "-b", "main", "rc:repo.git", "clone"]);
    assert!(local.path().join("clone/.git").is_dir());
}

#[test]
fn a_person_logs_in_over_ssh() {
    let Some(server) = Sshd::start(&program()) else { return };
    fs::write(server.home().join(".bash_profile"), "PS1='❯ '; echo profile-was-read\n").expect("a profile");
    let mut login = server.login();
    login.accept_plain_prompt();
    login.expect_line("profile-was-read");
    login.run("shopt -q login_shell && echo login-$?; tty | cut -c1-9");
    login.expect_line("login-0");
    login.expect_line("/dev/pts/");
    login.resize(33, 111);
    login.run("stty size");
    login.expect_line("33 111");
    login.line("sleep 600");
    login.expect_outside("the sleep of the test user", || crate::procs::all().into_iter().find(|p| p.name == "sleep"));
    login.press(Key::Ctrl('c'));
    login.run("echo after-$?");
    login.expect_line("after-130");
    login.line("exit 3");
    assert_eq!(status_code(login.expect_exit()), 3);
}

#[test]
fn su_and_runuser_reach_the_shell() {
    if !require(&["su", "runuser"]) || !require_root() {
        return;
    }
    let Some(server) = Sshd::start(&program()) else { return };
    for args in [
        ["su", "-", server.user(), "-c", "echo \"$0\"; exit 6"],
        ["su", "--", server.user(), "-c", "echo \"$0\"; exit 6"],
        ["runuser", "-l", server.user(), "-c", "echo \"$0\"; exit 6"],
    ] {
        let output = Command::new(args[0]).args(&args[1..]).stdin(Stdio::null()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(6), "{args:?}: {output:?}");
        // The backing shell's own name, which start-up files compare with `-bash`.
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(matches!(said.trim_end(), "-bash" | "bash"), "{args:?} said {said:?}");
    }
}

#[test]
fn a_login_shell_reads_its_files_and_leaves_by_them() {
    let spawn = Spawn::login()
        .file(".bash_profile", ". ~/.bashrc; echo profile-read\n")
        .file(".bash_logout", "echo logout > ~/left\n");
    let session = Session::spawn(spawn);
    session.expect_line("profile-read");
    session.run("shopt -q login_shell; echo login-$?");
    session.expect_line("login-0");
    session.line("logout");
    assert_eq!(status_code(session.expect_exit()), 0);
    assert_eq!(fs::read_to_string(session.home().join("left")).expect("the logout file ran"), "logout\n");
}

#[test]
fn su_and_sudo_give_a_session_of_ours() {
    if !require(&["su", "sudo"]) || !require_root() {
        return;
    }
    let Some(server) = Sshd::start(&program()) else { return };
    for command in [format!("su - {}", server.user()), format!("sudo -i -u {}", server.user())] {
        let mut session = Session::spawn(Spawn::bash());
        session.run("clear");
        session.accept_plain_prompt();
        session.line(&command);
        session.expect_outside("our shell", || {
            let name = program().file_name()?.to_string_lossy().into_owned();
            (session.descendants().iter().filter(|process| process.name == name).count() >= 2).then_some(())
        });
        session.run("shopt -q login_shell; echo \"login-$?-$(id -un)\"");
        session.expect_line(&format!("login-0-{}", server.user()));
        session.line("exit 5");
        session.expect_outside("its end", || session.descendants().is_empty().then_some(()));
        session.run("echo back-$?");
        session.expect_line("back-5");
    }
}
