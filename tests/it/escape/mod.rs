//! The escape suite: attempts of a hostile program or repository in a sandbox, on each tier and with each view of the workspace,
//! as the user who runs the tests and, if that is root, as an ordinary user too. The table is in `cases`.
//!
//! After each case everything outside must be unchanged, including the inodes' times; in a copy and in a look, the workspace too.
//! The results are written to `target/tmp/escape`.

mod cases;
mod places;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use reedclaw::files::{Layers, Root, SurveyLimits, Table};
use reedclaw::gate::Named;
use reedclaw::sandbox::{
    CollectError, CollectLimits, Grant, Layer, Limits, Missed, Mode, Place, Sandbox, Tier, View, collect,
    collect_whole, credentials, end, protected,
};
use reedclaw::tools::protection;

use crate::need::{TEST_PATH, find, require, require_that};
use crate::pty::{copy_program, program};
use cases::{CASES, Case};

/// The directory in which the tests work when they run again as another user, with the executable in it.
const AGAIN: &str = "REEDCLAW_TEST_ESCAPE";
/// Users without files or processes here.
const OTHERS: std::ops::Range<u32> = 20_000..60_000;
/// Time limit of a case.
const CASE_TIME: Duration = Duration::from_secs(60);
const SECRET: &str = "SECRET-KEY";

/// A program's view of its workspace.
#[derive(Clone, Copy, PartialEq)]
enum Sight {
    Copy,
    Work,
    Look,
    /// A look that the policy hasn't judged: the home is hidden.
    First,
    /// The bench of a git session: a directory with copies of all files.
    Bench,
}

/// The columns of the table; those of a first look, with the same expected results as a look; and those of benches, with the same
/// expected results as a copy, or as a look or work on the same tier.
const COLUMNS: [(Tier, Sight, &str); 10] = [
    (Tier::Overlay, Sight::Copy, "overlay-copy"),
    (Tier::Overlay, Sight::Work, "overlay-work"),
    (Tier::Bubblewrap, Sight::Look, "bubblewrap-look"),
    (Tier::Bubblewrap, Sight::Work, "bubblewrap-work"),
    (Tier::Landlock, Sight::Look, "landlock-look"),
    (Tier::Landlock, Sight::Work, "landlock-work"),
    (Tier::Bubblewrap, Sight::First, "bubblewrap-first"),
    (Tier::Landlock, Sight::First, "landlock-first"),
    (Tier::Bubblewrap, Sight::Bench, "bubblewrap-bench"),
    (Tier::Landlock, Sight::Bench, "landlock-bench"),
];

/// The cases and their expected results, as a table of the documents.
pub fn table() -> String {
    let head = "case|overlay copy|overlay work|bwrap look|bwrap work|Landlock look|Landlock work";
    let row = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut table = row(&mut head.split('|').map(str::to_owned));
    table += &row(&mut head.split('|').map(|_| "---".to_owned()));
    for case in CASES {
        let either = |letters: &str| letters.chars().map(String::from).collect::<Vec<_>>().join("/");
        let words = case.expected.split(' ').map(either);
        table += &row(&mut std::iter::once(case.name.to_owned()).chain(words));
    }
    table
}

/// The directory of this run, and the executable that it tests.
fn ground() -> (PathBuf, PathBuf) {
    match std::env::var_os(AGAIN) {
        Some(place) => (place.clone().into(), Path::new(&place).join("reedclaw")),
        None => (outside_of_tmp(), program()),
    }
}

/// A directory outside of `/tmp`, which a sandbox hides as a whole.
fn outside_of_tmp() -> PathBuf {
    let usual = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if usual.starts_with("/tmp") { std::env::var_os("HOME").expect("a home").into() } else { usual.to_owned() }
}

/// Runs this test again as an ordinary user, if the tests run as root.
fn again_as_other() -> Option<String> {
    if std::env::var_os(AGAIN).is_some() || !nix::unistd::geteuid().is_root() || !require(&["setpriv"]) {
        return None;
    }
    let above = if is_open_to_all(&outside_of_tmp()) { outside_of_tmp() } else { "/var/lib".into() };
    let place = tempfile::Builder::new().prefix("reedclaw-test").tempdir_in(above).expect("a directory");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    copy_program(&program(), &place.path().join("reedclaw"));
    let this = place.path().join("test");
    let current = std::env::current_exe().expect("this test");
    fs::hard_link(&current, &this).unwrap_or_else(|_| copy_program(&current, &this));
    // Files of another user, which anyone may write.
    fs::create_dir(place.path().join("foreign")).expect("a folder");
    for (_, _, name) in COLUMNS {
        let path = place.path().join("foreign").join(name);
        fs::write(&path, "theirs\n").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("permissions");
    }
    // The kernel counts processes by user, so those of another test with the same user would count against this one's limit.
    let other = OTHERS.start + unique() % (OTHERS.end - OTHERS.start);
    for path in [place.path().to_owned(), place.path().join("foreign")] {
        std::os::unix::fs::chown(path, Some(other), Some(other)).expect("an owner");
    }
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={other}"), &format!("--regid={other}"), "--clear-groups", "--"]);
    command.arg(this).args(["--exact", &name]).current_dir(place.path());
    command.env_clear().env("PATH", TEST_PATH).env("HOME", place.path()).env(AGAIN, place.path());
    let ended = command.output().expect("it runs");
    for entry in fs::read_dir(place.path()).expect("a list").flatten() {
        if entry.path().extension() == Some(OsStr::new("tsv")) {
            fs::copy(entry.path(), results().join(entry.file_name())).expect("a result");
        }
    }
    let text = || String::from_utf8_lossy(&ended.stdout).into_owned();
    (!ended.status.success()).then(text)
}

fn is_open_to_all(path: &Path) -> bool {
    path.ancestors().all(|it| it.metadata().is_ok_and(|data| data.mode() & 0o5 == 0o5))
}

fn results() -> PathBuf {
    let place = match std::env::var_os(AGAIN) {
        Some(place) => place.into(),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("escape"),
    };
    fs::create_dir_all(&place).expect("a directory");
    place
}

/// A number that is unique among the tests, whether they are threads of one process or processes.
fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    std::process::id() * 32 + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Things outside while the cases of a column run: services, memory, a process, a file in `/tmp`.
struct Outside {
    top: tempfile::TempDir,
    helper: PathBuf,
    tcp: TcpListener,
    services: Vec<UnixListener>,
    victim: Child,
    variables: BTreeMap<&'static str, OsString>,
}

impl Outside {
    fn new() -> Self {
        let (place, helper) = ground();
        // If a test is killed, its queues and semaphores vanish with its namespace. Only root may create one; those of others are
        // small.
        let _ = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWIPC);
        let top = tempfile::tempdir_in(place).expect("a directory");
        let in_tmp = tempfile::Builder::new().prefix("reedclaw-test").tempdir_in("/tmp").expect("a directory").keep();
        let tcp = TcpListener::bind("0.0.0.0:0").expect("a listener");
        tcp.set_nonblocking(true).expect("not blocking");
        let victim = Command::new("sleep").arg("600").env("VARIABLE", SECRET).spawn().expect("a sleep");
        let id = unique();
        let own_address = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:53")?;
            socket.local_addr()
        });
        let variables = BTreeMap::from([
            ("PORT", tcp.local_addr().expect("an address").port().to_string().into()),
            ("HOSTADDR", own_address.map_or_else(|_| "127.0.0.1".into(), |it| it.ip().to_string()).into()),
            ("ABSTRACT", format!("reedclaw-test-{id}").into()),
            ("SOCKET_TMP", in_tmp.join("docker.sock").into()),
            ("HOSTONLY", in_tmp.join("file").into()),
            ("SHMKEY", (0x4000_0000 + id).to_string().into()),
            ("MQ", format!("/reedclaw-test-{id}").into()),
            ("DEVSHM", format!("reedclaw-test-{id}").into()),
            ("VICTIM", victim.id().to_string().into()),
            ("WORD", format!("613.{id}").into()),
            ("PROBE", top.path().join("probe.py").into()),
        ]);
        fs::write(top.path().join("probe.py"), include_str!("probe.py")).expect("a program");
        fs::write(in_tmp.join("file"), "").expect("a file");
        let mut outside = Self { top, helper, tcp, services: Vec::new(), victim, variables };
        let name = outside.variables["ABSTRACT"].as_encoded_bytes();
        let hidden = SocketAddr::from_abstract_name(name).expect("an address");
        let hidden = UnixListener::bind_addr(&hidden).expect("a listener");
        hidden.set_nonblocking(true).expect("not blocking");
        outside.services.push(hidden);
        outside.listen(&in_tmp.join("docker.sock"));
        fs::write(outside.in_shm(), "canary").expect("a file");
        outside.probe("outside_ipc");
        outside
    }

    fn listen(&mut self, path: &Path) {
        let service = UnixListener::bind(path).expect("a listener");
        service.set_nonblocking(true).expect("not blocking");
        self.services.push(service);
    }

    fn in_shm(&self) -> PathBuf {
        Path::new("/dev/shm").join(&self.variables["DEVSHM"])
    }

    fn probe(&self, name: &str) {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-IS"]).arg(&self.variables["PROBE"]).arg(name).envs(&self.variables);
        let output = command.output().expect("python3 runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The state of everything outside of a scene's workspace, and of the services.
    fn state(&mut self, scene: &Scene) -> BTreeMap<PathBuf, String> {
        let state = scene.top.join("home/.local/state/reedclaw");
        let mut found = fingerprint(&scene.top, &[&scene.work, &state.join("wall"), &state.join("whole")]);
        let mut note = |name: &str, value: String| found.insert(name.into(), value);
        note("victim", format!("{:?}", self.victim.try_wait()));
        let reached = self.services.iter().filter(|it| it.accept().is_ok()).count();
        note("connections", format!("{reached} {}", self.has_probe_connected()));
        note("shared memory", fs::read_to_string(self.in_shm()).unwrap_or_default());
        note("left running", running(&self.variables["WORD"]).join(" "));
        found
    }

    /// Returns whether a probe reached the port, which is known by the word that it sends: another test may look for a free port
    /// and connect to this one.
    fn has_probe_connected(&self) -> bool {
        std::iter::from_fn(|| self.tcp.accept().ok()).any(|(mut stream, _)| {
            let mut word = [0_u8; 3];
            let limit = Some(Duration::from_millis(500));
            stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(limit)).expect("a time limit");
            stream.read_exact(&mut word).is_ok_and(|()| word == *b"out")
        })
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        self.probe("outside_ipc_gone");
        let _ = fs::remove_file(self.in_shm());
        let in_tmp = Path::new(&self.variables["HOSTONLY"]).parent().expect("a directory");
        let _ = fs::remove_dir_all(in_tmp);
    }
}

/// Every path below a directory with all its properties that can be read without changing it.
fn fingerprint(top: &Path, apart: &[&Path]) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(at) = waiting.pop() {
        let Ok(data) = at.symlink_metadata() else { continue };
        let times = if data.is_dir() { 0 } else { data.ctime() * 1_000_000_000 + data.ctime_nsec() };
        let held = match (data.is_dir(), data.is_symlink(), data.is_file() && data.len() < 1 << 20) {
            (true, ..) => {
                let below = fs::read_dir(&at).into_iter().flatten().flatten().map(|it| it.path());
                waiting.extend(below.filter(|path| !apart.contains(&path.as_path())));
                Vec::new()
            }
            (_, true, _) => fs::read_link(&at).map(|it| it.into_os_string().into_encoded_bytes()).unwrap_or_default(),
            (_, _, true) => fs::read(&at).unwrap_or_default(),
            _ => Vec::new(),
        };
        let mut names = [0_u8; 1024];
        let count = rustix::fs::llistxattr(&at, &mut names[..]).unwrap_or(0);
        let names = String::from_utf8_lossy(&names[..count]).into_owned();
        let all = (
            data.mode(),
            data.uid(),
            data.gid(),
            data.nlink(),
            times,
            names,
            String::from_utf8_lossy(&held).into_owned(),
        );
        found.insert(at, format!("{all:?}"));
    }
    found
}

/// The processes with a word in their arguments.
fn running(word: &OsStr) -> Vec<String> {
    let word = word.to_str().expect("UTF-8");
    let all = fs::read_dir("/proc").expect("processes");
    let arguments = all.filter_map(|it| fs::read_to_string(it.ok()?.path().join("cmdline")).ok());
    arguments.filter(|words| words.split('\0').any(|it| it == word)).collect()
}

/// A home with secrets, with a workspace in it, and files beside the home that a program may see.
struct Scene {
    _held: tempfile::TempDir,
    top: PathBuf,
    work: PathBuf,
}

impl Scene {
    fn new(outside: &mut Outside) -> Self {
        let held = tempfile::tempdir_in(outside.top.path()).expect("a directory");
        let top = held.path().canonicalize().expect("a path");
        let work = top.join("home/project");
        for (name, text) in [
            ("home/project/own.txt", "mine\n"),
            ("home/project/sub/deep.txt", "deep\n"),
            ("home/.ssh/id_rsa", SECRET),
            ("home/.netrc", SECRET),
            ("home/.docker/config.json", "{\"auths\": \"SECRET-KEY\"}"),
            ("home/.local/state/reedclaw/receipts.jsonl", SECRET),
            ("home/.local/state/reedclaw/wall/file", SECRET),
            ("outside/canary.txt", "canary\n"),
        ] {
            let path = top.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        outside.services.truncate(2);
        outside.listen(&top.join("outside/bus"));
        outside.listen(&work.join("service.sock"));
        Self { _held: held, top, work }
    }

    fn home(&self) -> PathBuf {
        self.top.join("home")
    }

    /// A copy of the workspace as the bench of a git session, with its table of files.
    fn bench(&self) -> (PathBuf, Table) {
        let whole = self.home().join(".local/state/reedclaw/whole");
        let copied = Command::new("cp").arg("-a").arg(&self.work).arg(&whole).status().expect("cp runs");
        assert!(copied.success());
        // A commit contains no socket.
        fs::remove_file(whole.join("service.sock")).expect("the socket goes");
        let limits = SurveyLimits { entries_max: 10_000, deadline: Instant::now() + CASE_TIME };
        let root = Root::open(&whole, None).expect("a directory");
        let table = Table::of_ours(&root, limits).expect("a table");
        (whole, table)
    }

    fn bash(&self, script: &str, outside: &Outside) -> Command {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-c", script]).current_dir(&self.work).env_clear();
        command.envs(self.variables(outside)).stdin(Stdio::null());
        command
    }

    fn variables(&self, outside: &Outside) -> BTreeMap<OsString, OsString> {
        let own = [
            ("PATH", TEST_PATH.into()),
            ("LANG", "C.UTF-8".into()),
            ("HOME", self.home().into_os_string()),
            ("OUT", self.top.join("outside").into_os_string()),
            ("WALL", self.home().join(".local/state/reedclaw/wall").into_os_string()),
        ];
        let all = outside.variables.iter().map(|(name, value)| (*name, value.clone()));
        all.chain(own).map(|(name, value)| (name.into(), value)).collect()
    }

    fn grant(&self, outside: &Outside, view: View) -> Grant {
        let mut masked = credentials(&self.home());
        masked.push(self.home().join(".local/state/reedclaw"));
        masked.extend(Some(self.work.join("secret")).filter(|it| it.exists()));
        Grant {
            masked,
            view,
            read_only: protected(&self.work),
            homes: vec![self.home()],
            env: self.variables(outside),
            limits: Limits { file_bytes: 16 << 30, ..Limits::default() },
            ..Grant::new(self.work.clone())
        }
    }
}

/// A column of the table.
struct Column {
    at: usize,
    sandbox: Sandbox,
    outside: Outside,
}

impl Column {
    /// Returns `None` if the tier doesn't work here.
    fn new(name: &str) -> Option<Self> {
        let at = COLUMNS.iter().position(|column| column.2 == name).expect("a column");
        let mut outside = Outside::new();
        let state = outside.top.path().join("wall");
        let place = Place { state: Some(state), ..Place::default() };
        let sandbox = Sandbox::of_tier(Mode::Require, COLUMNS[at].0, outside.helper.clone(), &place);
        let is_there = require_that(sandbox.is_ok(), &format!("{name}: {:?}", sandbox.as_ref().err()));
        outside.variables.insert("FD", "99".into());
        is_there.then(|| Self { at, sandbox: sandbox.expect("a sandbox"), outside })
    }

    fn view(&self, scene: &Scene) -> (View, Option<Arc<Layer>>) {
        match COLUMNS[self.at].1 {
            Sight::Look => (View::Look, None),
            Sight::Work => (View::Work, None),
            Sight::First => (View::First(self.sandbox.layer(&scene.work).expect("a layer")), None),
            Sight::Copy | Sight::Bench => {
                let layer = self.sandbox.layer(&scene.work).expect("a layer");
                (View::Copy(Arc::clone(&layer)), Some(layer))
            }
        }
    }

    /// Runs a case in a fresh scene; returns the letter of its result, and the problems with it.
    fn run(&mut self, case: &Case) -> (char, Vec<String>) {
        let scene = Scene::new(&mut self.outside);
        if !case.setup.is_empty() {
            let output = scene.bash(case.setup, &self.outside).output().expect("it runs");
            assert!(output.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&output.stderr));
        }
        let apart: [&Path; 0] = [];
        let bench = (COLUMNS[self.at].1 == Sight::Bench).then(|| scene.bench());
        let before = (self.outside.state(&scene), fingerprint(&scene.work, &apart));
        let (view, layer) = self.view(&scene);
        let mut grant = scene.grant(&self.outside, view);
        if let Some((whole, _)) = &bench {
            grant.shown_instead = vec![scene.work.clone()];
            grant.whole = Some(whole.clone());
        }
        if case.name == "fork-bomb" {
            grant.limits.processes = 40;
        }
        let words = ["--noprofile", "--norc", "-c", case.script].map(OsString::from);
        let Ok(command) = self.sandbox.command(OsStr::new("bash"), &words, &grant) else { return ('r', Vec::new()) };
        let (has_succeeded, text) = self.end_of(command);
        let mut wrong = Vec::new();
        if text.contains(SECRET) || text.contains("FORBIDDEN-TEXT") {
            wrong.push(format!("it printed a secret: {text}"));
        }
        if text.contains("reedclaw: sandbox:") {
            wrong.push(text.clone());
        }
        let outside = difference(&before.0, &self.outside.state(&scene));
        let is_known = self.expected(case) == "x";
        let letter_outside = (is_known && (has_succeeded || !outside.is_empty())).then_some('x');
        wrong.extend(outside.into_iter().filter(|_| !is_known));
        let after = fingerprint(&scene.work, &apart);
        let is_same = before.1 == after;
        if COLUMNS[self.at].1 != Sight::Work && !is_same {
            wrong.extend(difference(&before.1, &after));
        }
        let limits = CollectLimits { entries_max: 2_000, ..CollectLimits::default() };
        let layers = Layers::open([scene.work.as_path()]).expect("the workspace opens");
        let changes = layer.as_ref().map(|layer| match &bench {
            Some((whole, before)) => collect_whole((&**whole, before), layer, &layers, &limits),
            None => collect(layer, &layers, &limits),
        });
        let letter = match (has_succeeded, changes) {
            (_, Some(Err(CollectError::TooMany(_) | CollectError::Path { .. }))) => 'b',
            (_, Some(Err(error))) => panic!("{}: {error}", case.name),
            (false, _) => 'e',
            (true, Some(Ok(changes))) => {
                let named = Named::new(&scene.home(), &scene.work);
                let is_protected = changes.items.iter().any(|it| protection(it, &scene.work, &named).is_some());
                if changes.is_empty() {
                    'p'
                } else if is_protected {
                    'D'
                } else {
                    'd'
                }
            }
            (true, None) => {
                if is_same {
                    'p'
                } else {
                    'w'
                }
            }
        };
        let letter = letter_outside.unwrap_or(letter);
        if !self.expected(case).contains(letter) {
            wrong.push(format!("{letter} and not {}: {text}", self.expected(case)));
        }
        (letter, wrong)
    }

    fn expected(&self, case: &Case) -> String {
        let (tier, sight, _) = COLUMNS[self.at];
        let of = |tier: Tier, sight: Sight| {
            let at = COLUMNS.iter().position(|column| (column.0, column.1) == (tier, sight)).expect("a column");
            case.expected.split(' ').nth(at).expect("a word for each column")
        };
        match sight {
            Sight::First => of(tier, Sight::Look).to_owned(),
            Sight::Bench if of(tier, Sight::Work) == "x" => "x".to_owned(),
            Sight::Bench => {
                let all = [of(Tier::Overlay, Sight::Copy), of(tier, Sight::Look), of(tier, Sight::Work)].concat();
                // A change of the workspace becomes a change of the copy.
                if all.contains('w') { all + "dD" } else { all }.replace(['w', 'x', '-'], "")
            }
            _ => of(tier, sight).to_owned(),
        }
    }

    /// Runs a command to its end, and ends its remaining processes; returns whether it succeeded, and its output.
    fn end_of(&self, mut command: Command) -> (bool, String) {
        let mut out = tempfile::tempfile().expect("a file");
        let copy = || Stdio::from(out.try_clone().expect("a descriptor"));
        command.stdin(Stdio::null()).stdout(copy()).stderr(copy());
        let secret = fs::File::open(self.outside.top.path().join("probe.py")).expect("a file");
        let leaked = leaked(&secret, 99);
        let mut child = command.spawn().expect("it starts");
        drop(leaked);
        let id = nix::unistd::Pid::from_raw(child.id().cast_signed());
        let began = Instant::now();
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        while matches!(waitid(Id::Pid(id), flags), Ok(WaitStatus::StillAlive)) && began.elapsed() < CASE_TIME {
            std::thread::park_timeout(Duration::from_millis(2));
        }
        let is_late = began.elapsed() >= CASE_TIME;
        // The overlay tier ends the remaining processes itself.
        if is_late || COLUMNS[self.at].0 != Tier::Overlay {
            let _ = end(child.id(), Duration::from_millis(50));
        }
        let status = child.wait().expect("its end");
        let mut bytes = Vec::new();
        out.rewind().and_then(|()| out.read_to_end(&mut bytes)).expect("what it printed");
        let late = if is_late { "it did not end\n" } else { "" };
        (status.success(), format!("{late}{}", String::from_utf8_lossy(&bytes)))
    }
}

/// A descriptor that every started program inherits, as a careless library leaves it.
fn leaked(file: &fs::File, number: i32) -> OwnedFd {
    let leaked = rustix::io::fcntl_dupfd_cloexec(file, number).expect("a descriptor");
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).expect("no close on exec");
    leaked
}

fn difference(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let paths: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let differing = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    differing
        .map(|path| format!("{} was {:?} and is {:?}", path.display(), before.get(path), after.get(path)))
        .collect()
}

/// Runs the table in a column, and again as an ordinary user.
fn run_all(name: &str) {
    let as_other = again_as_other();
    if let Some(mut column) = Column::new(name) {
        let is_root = nix::unistd::geteuid().is_root();
        let wanted = std::env::var("REEDCLAW_TEST_ESCAPE_CASE").ok();
        let (mut rows, mut failures) = (String::new(), Vec::new());
        for case in CASES.iter().filter(|case| wanted.as_ref().is_none_or(|wanted| wanted == case.name)) {
            let needs =
                [("strace-pipe", "strace"), ("zdotdir-zsh", "zsh"), ("gconv-path", "gcc"), ("ld-preload", "gcc")];
            let is_missing = needs.iter().any(|(name, program)| *name == case.name && find(program).is_none());
            // The kernel applies the limit on processes to ordinary users only.
            if is_missing || column.expected(case) == "-" || is_root && case.name == "fork-bomb" {
                rows.push_str(&format!("{}\t-\n", case.name));
                continue;
            }
            let (letter, wrong) = column.run(case);
            rows.push_str(&format!("{}\t{letter}{}\n", case.name, if wrong.is_empty() { "" } else { "!" }));
            failures.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", case.name)));
        }
        let who = if is_root { "root" } else { "user" };
        fs::write(results().join(format!("{who}-{name}.tsv")), rows).expect("a table");
        let other = as_other.as_deref().unwrap_or_default();
        if !failures.is_empty() {
            // Written past the test's capture, so that a truncated log shows it beside the test's name.
            let _ = writeln!(std::io::stderr(), "{name}, {who}: {}", failures.join("\n"));
        }
        assert!(failures.is_empty(), "{name}, {who}:\n{}\n{other}", failures.join("\n"));
    }
    assert!(as_other.is_none(), "{}", as_other.unwrap_or_default());
}

#[test]
fn nothing_escapes_the_overlay_with_a_copy() {
    run_all("overlay-copy");
}

#[test]
fn nothing_escapes_the_overlay_with_the_workspace() {
    run_all("overlay-work");
}

#[test]
fn nothing_escapes_bubblewrap_looking() {
    run_all("bubblewrap-look");
}

#[test]
fn nothing_escapes_bubblewrap_working() {
    run_all("bubblewrap-work");
}

#[test]
fn nothing_escapes_landlock_looking() {
    run_all("landlock-look");
}

#[test]
fn nothing_escapes_landlock_working() {
    run_all("landlock-work");
}

#[test]
fn nothing_escapes_a_first_look_in_bubblewrap() {
    run_all("bubblewrap-first");
}

#[test]
fn nothing_escapes_a_first_look_in_landlock() {
    run_all("landlock-first");
}

#[test]
fn nothing_escapes_a_bench_in_bubblewrap() {
    run_all("bubblewrap-bench");
}

#[test]
fn nothing_escapes_a_bench_in_landlock() {
    run_all("landlock-bench");
}
