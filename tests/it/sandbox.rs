//! Real escapes under the real kernel: attempts of a program in a sandbox that must fail, on each tier that the machine has. A
//! missing tier is reported loudly, and is a failure if everything is required.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reedclaw::sandbox::{Grant, HELPER_FAILED, Limits, Mode, Place, Sandbox, Tier, credentials, end, protected};

use crate::need::{TEST_PATH, require, require_that};
use crate::pty::{copy_program, program};
use crate::wait::wait_until;

/// A home outside of `/tmp`, with secrets, a workspace and a directory of ours.
pub struct World {
    dir: tempfile::TempDir,
    state: tempfile::TempDir,
    pub sandbox: Arc<Sandbox>,
}

impl World {
    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn place(&self) -> Place {
        Place { state: Some(self.state.path().join("wall")), ..Place::default() }
    }

    pub fn grant(&self) -> Grant {
        let mut masked = credentials(self.home());
        masked.extend([self.path(".local/state/reedclaw"), self.path(".config/reedclaw")]);
        let env = [("PATH", TEST_PATH), ("LANG", "C.UTF-8"), ("HOME", self.home().to_str().expect("UTF-8"))];
        Grant {
            masked,
            env: env.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect(),
            ..Grant::new(self.path("work"))
        }
    }

    fn command(&self, words: &[&str], grant: &Grant) -> Command {
        let rest: Vec<OsString> = words[1..].iter().map(OsString::from).collect();
        let mut command = self.sandbox.command(OsStr::new(words[0]), &rest, grant).expect("a command");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run_with(&self, script: &str, grant: &Grant) -> Output {
        let words = ["bash", "--noprofile", "--norc", "-c", script];
        self.command(&words, grant).output().expect("it starts")
    }

    fn run(&self, script: &str) -> Output {
        self.run_with(script, &self.grant())
    }

    /// Returns the output of a script that must succeed.
    #[track_caller]
    fn says(&self, script: &str) -> String {
        let output = self.run(script);
        assert!(output.status.success(), "{:?}: {script}: {}", self.sandbox.tier(), told(&output));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs a script that must fail.
    #[track_caller]
    fn refuses(&self, script: &str) {
        let output = self.run(script);
        assert!(!told(&output).contains("reedclaw: sandbox:"), "{}", told(&output));
        assert!(!output.status.success(), "{:?} let this be done: {script}: {}", self.sandbox.tier(), told(&output));
    }
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}: {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A directory outside of `/tmp`, which a sandbox hides as a whole: that of the build, or the home if the project itself is below
/// `/tmp`.
fn place() -> PathBuf {
    let usual = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let home = || std::env::var_os("HOME").expect("a home outside of /tmp").into();
    if usual.starts_with("/tmp") { home() } else { usual.to_owned() }
}

/// Runs a test on each tier that works here.
fn on_each_tier(test: impl Fn(&World)) {
    on_tiers(&[Tier::Overlay, Tier::Bubblewrap, Tier::Landlock], test);
}

/// Runs a test on those of these tiers that work here.
pub fn on_tiers(tiers: &[Tier], test: impl Fn(&World)) {
    for tier in tiers {
        let mode = if *tier == Tier::None { Mode::Off } else { Mode::Require };
        let state = tempfile::tempdir_in(place()).expect("a directory");
        let place_of = Place { state: Some(state.path().join("wall")), ..Place::default() };
        let sandbox = Sandbox::of_tier(mode, *tier, program(), &place_of);
        if !require_that(sandbox.is_ok(), &format!("{}: {:?}", tier.name(), sandbox.as_ref().err())) {
            continue;
        }
        let dir = tempfile::tempdir_in(place()).expect("a directory");
        for (name, text) in [
            ("work/own.txt", "mine\n"),
            ("outside.txt", "outside\n"),
            (".ssh/id_test", "secret-key\n"),
            (".netrc", "secret-netrc\n"),
            (".local/state/reedclaw/receipts.jsonl", "secret-receipt\n"),
            (".config/other/settings", "plain\n"),
        ] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        test(&World { dir, state, sandbox: Arc::new(sandbox.expect("a sandbox")) });
    }
}

#[test]
fn work_can_be_done() {
    on_each_tier(|world| {
        assert_eq!(
            world.says("echo more >> own.txt; mkdir -p a/b; mv own.txt a/b/; ln -s a/b/own.txt l; cat l"),
            "mine\nmore"
        );
        assert_eq!(world.says("pwd"), world.path("work").canonicalize().expect("a path").to_str().expect("UTF-8"));
        assert_eq!(
            world.says("f=$(mktemp) && echo temporary > $f && cat $f && echo x > $TMPDIR/y && cat $TMPDIR/y"),
            "temporary\nx"
        );
        assert_eq!(world.says("cat ~/.config/other/settings ../outside.txt"), "plain\noutside");
        assert_eq!(
            world.says("echo 1 > /dev/null; head -c 3 /dev/zero | wc -c; (sleep 0 & wait); echo $((1+1)) | cat"),
            "3\n2"
        );
        assert_eq!(
            world.says("cat <(echo substituted) <<< x; printf '%s\\n' here | { read -r a; echo $a; }"),
            "substituted\nhere"
        );
        assert_eq!(
            world.says("find . -name own.txt -newer /etc/passwd | sort; grep -c . /etc/passwd >/dev/null && id -u"),
            format!("./a/b/own.txt\n{}", nix::unistd::getuid())
        );
        assert_eq!(world.says("(exit 3); echo $?; bash -c 'kill -TERM $$'; echo $?"), "3\n143");
        let output = world.run("exit 7");
        assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    });
}

#[test]
fn nothing_outside_is_written() {
    on_each_tier(|world| {
        let outside = world.path("outside.txt");
        symlink(&outside, world.path("work/link")).expect("a link");
        symlink(world.home(), world.path("work/up")).expect("a link");
        let out = outside.display();
        for script in [
            format!("echo bad > {out}"),
            format!("echo bad >> {out}"),
            format!("truncate -s 0 {out}"),
            "echo bad > ../outside.txt".into(),
            "echo bad > link".into(),
            "echo bad > up/outside.txt".into(),
            "echo bad > up/new.txt".into(),
            "mkdir ../new".into(),
            format!("echo bad > /proc/self/root{out}"),
            format!("echo bad > /proc/$$/cwd/../outside.txt; test \"$(cat {out})\" = bad"),
            format!("exec 3< {out}; echo bad > /proc/self/fd/3"),
            format!("exec 3< {out}; echo bad > /dev/fd/3"),
            format!("ln {out} hard && echo bad > hard"),
            format!("mv {out} ."),
            format!("rm -f {out}"),
            "mv own.txt ../new.txt".into(),
            "cp own.txt /usr/local/bin/reedclaw-test-escape".into(),
            "echo x > ~/.bashrc".into(),
            "mkdir ~/.ssh/x".into(),
            "mkdir -p ~/.aws && touch ~/.aws/credentials".into(),
            "echo 1 > /proc/sys/kernel/sysrq".into(),
            format!("chmod 600 {out} && test \"$(stat -c %a {out})\" = 600 && echo bad > {out}"),
            format!("python3 -c 'import os; os.truncate(\"{out}\", 0)'"),
            format!("python3 -c 'import os; os.open(\"{out}\", os.O_WRONLY | os.O_CREAT)'"),
            format!("python3 -c 'import os; os.rename(\"own.txt\", \"{out}\")'"),
            format!("python3 -c 'import os; os.symlink(\"x\", \"{out}.link\")'"),
        ] {
            world.refuses(&script);
            assert_eq!(fs::read_to_string(&outside).expect("it is there"), "outside\n", "{script}");
        }
        let names: Vec<_> =
            fs::read_dir(world.home()).expect("a list").map(|it| it.expect("an entry").file_name()).collect();
        assert!(!names.iter().any(|name| name == "new" || name == "new.txt" || name == ".bashrc"), "{names:?}");
        assert!(!Path::new("/usr/local/bin/reedclaw-test-escape").exists());
        assert!(!world.path(".ssh/x").exists());
    });
}

#[test]
fn secrets_are_not_read() {
    on_each_tier(|world| {
        let home = world.home().display();
        symlink(world.path(".ssh"), world.path("work/keys")).expect("a link");
        for script in [
            "cat ~/.ssh/id_test".to_owned(),
            "cat keys/id_test".into(),
            "cat ../.ssh/id_test".into(),
            format!("cat /proc/self/root{home}/.ssh/id_test"),
            "grep -r secret ~/.ssh".into(),
            "grep secret ~/.netrc".into(),
            "cat ~/.local/state/reedclaw/receipts.jsonl".into(),
            "ln ~/.ssh/id_test stolen && cat stolen".into(),
            "mv ~/.ssh stolen && cat stolen/id_test".into(),
            "cp -r ~/.ssh stolen && cat stolen/id_test".into(),
            "tar cf - ~/.ssh | grep -a secret".into(),
            "cat /etc/shadow | grep .".into(),
            format!("tr '\\0' '\\n' < /proc/{}/environ | grep .", std::process::id()),
            format!("cat /proc/{}/cwd/Cargo.toml", std::process::id()),
            format!("head -c 1 /proc/{}/mem", std::process::id()),
        ] {
            world.refuses(&script);
        }
        // Readable files can be read: the tests above don't fail for another reason.
        assert_eq!(world.says("cat ../outside.txt"), "outside");
    });
}

#[test]
fn a_masked_path_can_be_opened_to_one_program() {
    on_each_tier(|world| {
        let plugin = world.path(".local/state/reedclaw/plugin");
        fs::create_dir(&plugin).expect("a folder");
        fs::write(plugin.join("run"), "#!/bin/sh\necho plugged\n").expect("a file");
        fs::set_permissions(plugin.join("run"), fs::Permissions::from_mode(0o755)).expect("permissions");
        let grant = Grant { readable: vec![plugin.clone()], ..world.grant() };
        let script = format!("{0}/run; cat {0}/../receipts.jsonl; echo x > {0}/new", plugin.display());
        let output = world.run_with(&script, &grant);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "plugged\n", "{}", told(&output));
        assert!(!plugin.join("new").exists());
        world.refuses(&format!("{}/run", plugin.display()));
    });
}

#[test]
fn protected_files_of_the_workspace_stay_under_bubblewrap() {
    on_each_tier(|world| {
        if world.sandbox.tier() != Tier::Bubblewrap {
            return;
        }
        fs::create_dir_all(world.path("work/.git/hooks")).expect("a folder");
        fs::write(world.path("work/.git/config"), "[core]\n").expect("a file");
        let grant = Grant { read_only: protected(&world.path("work")), ..world.grant() };
        for script in [
            "echo x > .git/hooks/pre-commit",
            "echo x >> .git/config",
            "mv .git/hooks .git/h",
            "rm -f .git/config",
            "mv .git g && echo x >> g/config",
        ] {
            let output = world.run_with(script, &grant);
            assert!(!output.status.success(), "{script}: {}", told(&output));
        }
        assert_eq!(fs::read_to_string(world.path("work/.git/config")).expect("it is there"), "[core]\n");
        assert!(world.run_with("echo x > .git/HEAD", &grant).status.success());
    });
}

/// A script that tries several ways to connect to a port of this machine.
fn connects(port: u16) -> String {
    format!(
        "python3 - <<'E'\nimport socket, sys\nfor family, to in ((socket.AF_INET, ('127.0.0.1', {port})),):\n    \
         s = socket.socket(family, socket.SOCK_STREAM)\n    s.settimeout(5)\n    s.connect(to)\n    s.sendall(b'out')\nE"
    )
}

#[test]
fn without_a_network_no_address_is_reached() {
    on_each_tier(|world| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        listener.set_nonblocking(true).expect("not blocking");
        let port = listener.local_addr().expect("an address").port();
        for script in [
            connects(port),
            format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
            format!(
                "exec 3<>/dev/udp/127.0.0.1/{port} && echo x >&3 && python3 -c 'import socket; socket.getaddrinfo(\"a.root-servers.net\", 53)'"
            ),
            "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'".into(),
            "python3 -c 'import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)'".into(),
        ] {
            world.refuses(&script);
        }
        assert!(listener.accept().is_err(), "somebody connected");
        // With a network it can connect.
        let grant = Grant { network: true, ..world.grant() };
        let output = world.run_with(&connects(port), &grant);
        assert!(output.status.success(), "{}", told(&output));
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_nonblocking(false).expect("blocking");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        assert_eq!(text, "out");
    });
}

#[test]
fn services_of_the_user_are_not_reached_by_unix_sockets() {
    on_each_tier(|world| {
        let services = tempfile::Builder::new().prefix("reedclaw-test").tempdir_in("/tmp").expect("a directory");
        let path = services.path().join("service");
        let listener = UnixListener::bind(&path).expect("a listener");
        listener.set_nonblocking(true).expect("not blocking");
        use std::os::linux::net::SocketAddrExt;
        let name = format!("reedclaw-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).expect("an address");
        let hidden = UnixListener::bind_addr(&address).expect("a listener");
        hidden.set_nonblocking(true).expect("not blocking");
        for network in [false, true] {
            for to in [format!("'{}'", path.display()), format!("'\\0{name}'")] {
                let script = format!(
                    "python3 -c \"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect({to})\""
                );
                let output = world.run_with(&script, &Grant { network, ..world.grant() });
                assert!(!output.status.success(), "{to}: {}", told(&output));
            }
        }
        assert!(listener.accept().is_err() && hidden.accept().is_err(), "somebody connected");
        // A pair of sockets between its own processes doesn't lead out.
        world.says(
            "python3 -c 'import socket; a, b = socket.socketpair(); a.sendall(b\"x\"); assert b.recv(1) == b\"x\"'",
        );
    });
}

#[test]
fn other_processes_are_neither_traced_nor_killed() {
    on_each_tier(|world| {
        let mut victim = Command::new("sleep").arg("600").spawn().expect("a sleep");
        let pid = victim.id();
        for script in [
            format!("kill -9 {pid}"),
            format!("python3 -c 'import os, signal; signal.pidfd_send_signal(os.pidfd_open({pid}), 9)'"),
            format!(
                "python3 -c 'import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0 else 1)'"
            ),
            // Not even its own child: ptrace would bypass the filter's refusals.
            "python3 -c 'import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0 else 1)'".into(),
            format!("prlimit --pid {pid} --core=1"),
        ] {
            world.refuses(&script);
        }
        assert!(victim.try_wait().expect("its state").is_none(), "it was killed");
        victim.kill().expect("a kill");
        victim.wait().expect("its end");
    });
}

#[test]
fn the_kernels_doors_are_closed() {
    on_each_tier(|world| {
        let calls = |number: i64, arguments: &str| {
            format!(
                "python3 -c 'import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).syscall({number}{arguments}) >= 0 else 1)'"
            )
        };
        let mut scripts = vec![
            "mount -t tmpfs none .".to_owned(),
            "umount -l /".into(),
            "unshare -r true".into(),
            "unshare -rm mount -t tmpfs none .".into(),
            "chroot . true".into(),
            "mknod disk b 254 0".into(),
            calls(libc::SYS_bpf, ", 0, 0, 0"),
            calls(libc::SYS_keyctl, ", 0, -3, 0"),
            calls(libc::SYS_io_uring_setup, ", 1, ctypes.create_string_buffer(256)"),
            calls(libc::SYS_userfaultfd, ", 0"),
            calls(libc::SYS_perf_event_open, ", ctypes.create_string_buffer(128), 0, -1, -1, 0"),
            // A new user namespace by clone: if that works, a child returns as well.
            format!(
                "python3 -c 'import ctypes, os, sys; r = ctypes.CDLL(None).syscall({}, {}, 0, 0, 0, 0); os._exit(1 if r < 0 else 0)'",
                libc::SYS_clone,
                libc::CLONE_NEWUSER | libc::SIGCHLD
            ),
        ];
        if cfg!(target_arch = "x86_64") {
            // The filter refuses them; it isn't only this kernel that lacks them.
            scripts.push(format!(
                "python3 -c 'import ctypes, sys; c = ctypes.CDLL(None, use_errno=True); \
                 sys.exit(0 if c.syscall({}) >= 0 or ctypes.get_errno() != 1 else 1)'",
                0x4000_0000 + libc::SYS_getpid
            ));
        }
        for script in scripts {
            world.refuses(&script);
        }
        // Threads and processes can still be created.
        assert_eq!(
            world.says(
                "python3 -c 'import threading; t = threading.Thread(target=print, args=(5,)); t.start(); t.join()'"
            ),
            "5"
        );
        assert_eq!(
            world.says("grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | tr -d '[:space:]'"),
            "NoNewPrivs:1Seccomp:2"
        );
    });
}

#[test]
fn descriptors_and_variables_do_not_leak() {
    on_each_tier(|world| {
        // Left open for the child on purpose, as a careless library does.
        let secret = fs::File::open(world.path(".ssh/id_test")).expect("a secret");
        let leaked = nix::unistd::dup(&secret).expect("a descriptor");
        nix::fcntl::fcntl(&leaked, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))
            .expect("no close on exec");
        let number = std::os::fd::AsRawFd::as_raw_fd(&leaked);
        world.refuses(&format!("cat <&{number}"));
        assert_eq!(world.says("ls /proc/self/fd | wc -l"), "4", "three and the directory itself");
        assert_eq!(
            world.says("env | cut -d= -f1 | grep -vE '^(PWD|SHLVL|_|OLDPWD)$' | sort | tr '\\n' ' '"),
            "HOME LANG PATH TMPDIR"
        );
        let grant = Grant { descriptors: 4, ..world.grant() };
        drop(leaked);
        let output = world.run_with("ls /proc/self/fd >/dev/null", &grant);
        assert!(output.status.success(), "{}", told(&output));
    });
}

/// Waits for a line that a child prints.
fn first_line(child: &mut Child) -> String {
    let mut line = Vec::new();
    let out = child.stdout.as_mut().expect("its output");
    let mut byte = [0];
    while out.read(&mut byte).expect("a byte") == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("UTF-8")
}

/// The processes with a word in their arguments.
fn with_word(word: &str) -> Vec<String> {
    fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cmdline")).ok())
        .filter(|words| words.split('\0').any(|it| it == word))
        .collect()
}

#[test]
fn all_of_it_is_ended() {
    on_each_tier(|world| {
        // A number of seconds that no other sleep uses.
        let word = format!("600.{}", std::process::id());
        let script = format!(
            "trap '' TERM; sleep {word} & (sleep {word} &) ; nohup sleep {word} >/dev/null 2>&1 & \
             (setsid sleep {word} || sleep {word}) >/dev/null 2>&1 & \
             python3 -c 'import os\nif os.fork(): os._exit(0)\ntry: os.setsid()\nexcept OSError: os.setpgid(0, 0)\nos.execvp(\"sleep\", [\"sleep\", \"{word}\"])' & \
             echo ready; wait; sleep {word}"
        );
        let mut child = world.command(&["bash", "-c", &script], &world.grant()).spawn().expect("it starts");
        assert_eq!(first_line(&mut child), "ready");
        wait_until(|| with_word(&word).len() == 5);
        let began = Instant::now();
        assert!(end(child.id(), Duration::from_millis(200)));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert_eq!(with_word(&word), [""; 0], "{:?}", world.sandbox.tier());
        assert!(!child.wait().expect("its end").success());
        // A program that ends when it is asked to isn't killed.
        let mut child = world
            .command(
                &["bash", "-c", "trap 'echo bye; exit 5' TERM; echo ready; while :; do read -t 0.05 <> <(:); done"],
                &world.grant(),
            )
            .spawn()
            .expect("it starts");
        assert_eq!(first_line(&mut child), "ready");
        assert!(end(child.id(), Duration::from_secs(10)));
        let status = child.wait().expect("its end");
        assert_eq!(status.code(), Some(5), "{:?}", world.sandbox.tier());
    });
}

#[test]
fn a_sandboxed_program_ends_with_its_parent() {
    on_each_tier(|world| {
        let word = format!("601.{}", std::process::id());
        let mut command = world.command(&["bash", "-c", &format!("echo ready; exec sleep {word}")], &world.grant());
        // The thread that starts it ends: the kernel counts that as the end of the parent.
        let child = std::thread::spawn(move || {
            let mut child = command.spawn().expect("it starts");
            assert_eq!(first_line(&mut child), "ready");
            child
        });
        let mut child = child.join().expect("the thread");
        wait_until(|| with_word(&word).is_empty());
        let status = child.wait().expect("its end");
        assert_eq!(status.signal(), Some(9));
    });
}

#[test]
fn limits_hold() {
    on_each_tier(|world| {
        let limits = Limits { file_bytes: 4096, cpu_seconds: Some(1), ..Limits::default() };
        let grant = Grant { limits, ..world.grant() };
        let output = world.run_with("head -c 9000 /dev/zero > big; stat -c %s big", &grant);
        assert!(String::from_utf8_lossy(&output.stdout).contains("4096"), "{}", told(&output));
        let output = world.run_with("while :; do :; done", &grant);
        assert!(!output.status.success());
        let grant = Grant { limits: Limits { memory_bytes: Some(512 << 20), ..Limits::default() }, ..world.grant() };
        assert!(!world.run_with("python3 -c 'bytearray(1 << 30)'", &grant).status.success());
        assert_eq!(world.says("ulimit -c"), "0");
    });
}

#[test]
fn a_fork_bomb_meets_its_limit() {
    if !require(&["setpriv"]) {
        return;
    }
    // The private directories of the overlay tier belong to the user who creates them: `escape` tests it as another user.
    on_tiers(&[Tier::Bubblewrap, Tier::Landlock], |world| {
        // The kernel doesn't apply this limit to root, so another user runs it, from a directory that every user can reach.
        let place = tempfile::Builder::new().prefix("reedclaw-test").tempdir_in("/tmp").expect("a directory");
        let (work, helper) = (place.path().join("work"), place.path().join("reedclaw"));
        fs::create_dir(&work).expect("a folder");
        copy_program(&program(), &helper);
        open_to_all(place.path());
        open_to_all(&work);
        let sandbox = Sandbox::of_tier(Mode::Require, world.sandbox.tier(), helper, &world.place()).expect("a sandbox");
        let limits = Limits { processes: 40, ..Limits::default() };
        let grant = Grant { limits, env: world.grant().env, ..Grant::new(work) };
        // The children are counted, and each only waits to be ended.
        let script = "import os, time\nmade = 0\ntry:\n    while made < 500:\n        if os.fork() == 0:\n            \
                      time.sleep(600)\n            os._exit(0)\n        made += 1\nexcept OSError:\n    pass\n\
                      print(made, flush=True)\ntime.sleep(600)";
        let mut command =
            sandbox.command(OsStr::new("python3"), &["-c".into(), script.into()], &grant).expect("a command");
        if nix::unistd::geteuid().is_root() {
            let tmp = command.get_envs().find(|(name, _)| *name == "TMPDIR").and_then(|(_, value)| value);
            let tmp = tmp.expect("a temporary directory").to_owned();
            if tmp != "/tmp" {
                open_to_all(Path::new(&tmp));
            }
            let id = 64_000 + std::process::id() % 1_000;
            let mut as_other = Command::new("setpriv");
            as_other.args([&format!("--reuid={id}"), &format!("--regid={id}"), "--clear-groups", "--"]);
            as_other.arg(command.get_program()).args(command.get_args()).current_dir(place.path());
            as_other.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command = as_other;
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
        let made = first_line(&mut child);
        let ended = end(child.id(), Duration::from_millis(100));
        let mut error = String::new();
        child.stderr.take().expect("errors").read_to_string(&mut error).expect("text");
        child.wait().expect("its end");
        let made: u32 = made.parse().unwrap_or_else(|_| panic!("{made:?} {error}"));
        assert!(ended && (10..=45).contains(&made), "{made} processes, {error}");
    });
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("permissions");
}

#[test]
fn a_terminal_can_be_its_own() {
    on_each_tier(|world| {
        use reedclaw::shell::sys::lead_session_at;
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        let mut command = world.command(&["bash", "--noprofile", "--norc"], &world.grant());
        let end_of = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        command.stdin(end_of()).stdout(end_of()).stderr(end_of());
        lead_session_at(&mut command, pty.slave.try_clone().expect("a descriptor"));
        let mut child = command.spawn().expect("it starts");
        drop(command);
        drop(pty.slave);
        let mut terminal = fs::File::from(pty.master);
        std::io::Write::write_all(
            &mut terminal,
            b"PS1=; set +m; [ -t 0 ] && echo terminal-$((1+1)); python3 -c \"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')\" 2>/dev/null || echo not-typed-$((1+1)); yes | head -1; echo x > /dev/tty; exit 4\n",
        )
        .expect("keys");
        let mut seen = Vec::new();
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = terminal.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..length]);
        }
        let seen = String::from_utf8_lossy(&seen);
        assert!(seen.contains("terminal-2") && seen.contains("not-typed-2"), "{seen}");
        assert_eq!(child.wait().expect("its end").code(), Some(4), "{seen}");
    });
}

#[test]
fn the_terminals_of_the_person_are_closed() {
    on_each_tier(|world| {
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        let name = nix::unistd::ttyname(&pty.slave).expect("its name");
        world.refuses(&format!("echo drawn > {}", name.display()));
        world.refuses(&format!("read -t 1 -N 1 < {}", name.display()));
        world.refuses(&format!("cat /proc/{}/fd/0 < /dev/null", std::process::id()));
    });
}

#[test]
fn a_workspace_that_holds_secrets_is_refused() {
    on_each_tier(|world| {
        let refused = |workspace: PathBuf| {
            let grant = Grant { workspace, ..world.grant() };
            world.sandbox.command(OsStr::new("true"), &[], &grant).expect_err("a refusal").message
        };
        // The overlay tier hides masked paths below its workspace.
        if world.sandbox.tier() != Tier::Overlay {
            assert!(refused(world.home().to_owned()).contains("it holds"));
        }
        assert!(refused("/".into()).contains("it holds"));
        fs::create_dir(world.path(".ssh/work")).expect("a folder");
        assert!(refused(world.path(".ssh/work")).contains("it lies in"));
        symlink(world.path(".ssh/work"), world.path("work/way")).expect("a link");
        assert!(refused(world.path("work/way")).contains("it lies in"));
        assert!(refused(world.path("missing")).contains("No such file"));
        assert!(refused(world.path("outside.txt")).contains("ot a directory"));
    });
}

#[test]
fn without_a_required_sandbox_nothing_runs() {
    // A program that isn't a helper: no tier passes its trial.
    let none = Sandbox::detect(Mode::Require, "/bin/false".into(), &Place::default());
    assert_eq!((none.tier(), none.notes().len()), (Tier::None, 3));
    let dir = tempfile::tempdir().expect("a directory");
    let refused = none.command(OsStr::new("true"), &[], &Grant::new(dir.path().into())).expect_err("a refusal");
    assert!(refused.message.contains("a sandbox is required"), "{refused}");
    let off = Sandbox::detect(Mode::Off, program(), &Place::default());
    assert_eq!((off.tier(), off.notes().len()), (Tier::None, 0));
    let mut grant = Grant::new(dir.path().into());
    grant.env.insert("PATH".into(), TEST_PATH.into());
    let mut command =
        off.command(OsStr::new("sh"), &["-c".into(), "ps -o sid= -p $$; echo $$".into()], &grant).expect("a command");
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ids: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(ids.len(), 2, "{}", told(&output));
    assert_eq!(ids[0], ids[1], "a session of its own");
}

#[test]
fn doctor_names_the_sandbox_of_this_machine() {
    let home = tempfile::tempdir().expect("a home");
    let doctor = || {
        let mut command = Command::new(program());
        command.arg("doctor").env_clear().env("HOME", home.path()).env("PATH", TEST_PATH);
        told(&command.output().expect("the program runs"))
    };
    let place = Place { state: Some(home.path().join(".local/state/reedclaw/wall")), ..Place::default() };
    let here = Sandbox::detect(Mode::Prefer, program(), &place);
    let output = doctor();
    assert!(output.contains(&format!("sandbox: {}\n", here.tier().name())), "{output}");
    let config = home.path().join(".config/reedclaw");
    std::fs::create_dir_all(&config).expect("a directory");
    let write = |security: &str| {
        std::fs::write(config.join("config.lua"), format!("return {{security = {{{security}}}}}")).expect("a config");
    };
    write("tier = \"landlock\"");
    let output = doctor();
    assert!(output.contains("sandbox: not overlay: security.tier is \"landlock\"\n"), "{output}");
    assert!(output.contains("looks first") && !output.contains("install bubblewrap"), "{output}");
    write("sandbox = \"off\"");
    let output = doctor();
    assert!(output.contains("sandbox: none, for security.sandbox is \"off\"\n"), "{output}");
}

#[test]
fn the_helper_starts_nothing_on_orders_that_it_cannot_read() {
    for words in [&[][..], &["{}"], &["{}", "/bin/echo", "ran"], &["", "/bin/echo", "ran"]] {
        let output = Command::new(program()).arg("__reedclaw-sandbox").args(words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(i32::from(HELPER_FAILED)), "{}", told(&output));
        assert!(output.stdout.is_empty(), "{}", told(&output));
    }
}
