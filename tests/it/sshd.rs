//! An ssh server of the tests, on a loopback port with its own keys, for a temporary user whose login shell is the program under
//! test. Needs root to create that user; removes the user at the end.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::need::{require, require_root};
use crate::procs;
use crate::pty::{Session, Spawn, copy_program};

/// The account files have one lock for the whole machine, and the account tools fail rather than wait for it.
static ACCOUNTS: Mutex<u32> = Mutex::new(0);
/// The prefix of the names of temporary users; the pid of the tests and a number follow.
const USER_PREFIX: &str = "rctest-";

/// A running server. Ends itself and its user when it is dropped.
pub struct Sshd {
    server: Option<Child>,
    user: String,
    home: PathBuf,
    client_config: PathBuf,
    _folder: TempDir,
}

impl Sshd {
    /// Starts a server for a new user whose login shell is a copy of `login_shell`. `None` if the machine can't.
    ///
    /// # Panics
    /// If `REEDCLAW_TEST_REQUIRE_ALL=1` and the machine can't, and if a step fails.
    pub fn start(login_shell: &Path) -> Option<Self> {
        if !require(&["sshd", "ssh", "ssh-keygen", "useradd", "userdel"]) || !require_root() {
            return None;
        }
        let folder = tempfile::Builder::new().prefix(USER_PREFIX).tempdir().expect("a folder");
        let root = folder.path();
        open_to_all(root);
        // A copy, because another user may have no access to the checkout.
        let shell = root.join(login_shell.file_name().expect("a program's name"));
        copy_program(login_shell, &shell);
        open_to_all(&shell);
        let home = root.join("home");
        fs::create_dir(&home).expect("a home");
        let user = add_user(&home, &shell);
        let mut this = Self { server: None, user, home, client_config: root.join("ssh_config"), _folder: folder };
        this.serve(root_of(&this.client_config));
        Some(this)
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The user's home, which the user owns.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The client's configuration, in which the host is called `rc`: for `scp -F`, `rsync -e`, `GIT_SSH_COMMAND`.
    pub fn client_config(&self) -> &Path {
        &self.client_config
    }

    /// `ssh rc ARGS…`, with options before a command if needed.
    pub fn ssh(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(&self.client_config).arg("rc").args(args);
        command
    }

    /// A person logging in from a terminal.
    pub fn login(&self) -> Session {
        let config = self.client_config.display().to_string();
        Session::spawn(Spawn::new("/usr/bin/ssh").arg("-F").arg(&config).arg("-tt").arg("rc"))
    }

    fn serve(&mut self, root: PathBuf) {
        // The privilege separation folder that sshd requires; Debian creates it when the service starts.
        fs::create_dir_all("/run/sshd").expect("/run/sshd");
        for key in ["host_key", "user_key"] {
            run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(root.join(key)));
        }
        fs::copy(root.join("user_key.pub"), root.join("authorized_keys")).expect("the user's key is known");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let folder = root.display();
        let server_config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             AllowUsers {user}\nPrintLastLog no\nPrintMotd no\nUseDNS no\nAcceptEnv LANG LC_*\n\
             Subsystem sftp /usr/lib/openssh/sftp-server\n",
            user = self.user
        );
        fs::write(root.join("sshd_config"), server_config).expect("the server's configuration");
        let client_config = format!(
            "Host rc\n HostName 127.0.0.1\n Port {port}\n User {user}\n IdentityFile {folder}/user_key\n \
             IdentitiesOnly yes\n IdentityAgent none\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n \
             GlobalKnownHostsFile /dev/null\n BatchMode yes\n LogLevel ERROR\n",
            user = self.user
        );
        fs::write(&self.client_config, client_config).expect("the client's configuration");
        let sshd = crate::need::find("sshd").expect("looked for above");
        let mut server = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(root.join("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sshd starts");
        let mut log = BufReader::new(server.stderr.take().expect("a pipe")).lines();
        self.server = Some(server);
        let mut said = Vec::new();
        loop {
            let Some(Ok(line)) = log.next() else { panic!("sshd ended: {said:#?}") };
            if line.starts_with("Server listening") {
                break;
            }
            said.push(line);
        }
        // The rest of its log must be read, or the server stops at a full pipe.
        std::thread::spawn(move || log.for_each(drop));
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let below = procs::descendants(i32::try_from(server.id()).expect("a pid"));
            drop(server.kill());
            drop(server.wait());
            for old in below {
                if procs::process(old.pid).is_some_and(|now| now.started_ticks == old.started_ticks) {
                    let _ = kill(Pid::from_raw(old.pid), Signal::SIGKILL);
                }
            }
        }
        remove_user(&self.user);
    }
}

fn root_of(file: &Path) -> PathBuf {
    file.parent().expect("a file in a folder").to_path_buf()
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions are set");
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Creates the user. `*` as the password never matches, and unlike useradd's own `!` it doesn't lock the account.
fn add_user(home: &Path, shell: &Path) -> String {
    let mut count = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    remove_stale_users();
    *count += 1;
    let user = format!("{USER_PREFIX}{}-{count}", std::process::id());
    run(Command::new("useradd").args(["-M", "-N", "-p", "*", "-d"]).arg(home).arg("-s").arg(shell).arg(&user));
    run(Command::new("chown").arg(&user).arg(home));
    user
}

/// Ends the remaining processes of the user, who was created for this test only, and removes the account.
fn remove_user(user: &str) {
    let _lock = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(Some(account)) = nix::unistd::User::from_name(user) {
        for process in procs::all() {
            let owner =
                fs::metadata(format!("/proc/{}", process.pid)).map(|of| std::os::unix::fs::MetadataExt::uid(&of));
            if owner.is_ok_and(|owner| owner == account.uid.as_raw()) {
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
            }
        }
    }
    delete_account(user);
}

/// Removes the users of tests that were killed before they could do so.
fn remove_stale_users() {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    for name in accounts.lines().filter_map(|line| line.split(':').next()) {
        let Some((pid, _)) = name.strip_prefix(USER_PREFIX).and_then(|rest| rest.split_once('-')) else { continue };
        if pid.parse().is_ok_and(|pid| procs::process(pid).is_none()) {
            delete_account(name);
        }
    }
}

fn delete_account(user: &str) {
    // `-f`: a killed process that hasn't been reaped yet doesn't prevent the removal of its account.
    let output = Command::new("userdel").arg("-f").arg(user).output();
    if !output.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("the temporary user {user} could not be removed: {output:?}");
    }
}
