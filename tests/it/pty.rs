//! A person at a terminal, for tests: starts a program in a PTY with a cleared environment, draws its output with a terminal
//! emulator, answers its queries, types, and waits for expected output. Never sleeps to wait: each wait has a condition and a
//! deadline. Must not know what a test means.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use tempfile::TempDir;
use vt100::Screen;

use crate::need::TEST_PATH;
use crate::procs;

/// Maximum time of one wait. Generous, because a loaded machine is slow and a passing test never waits for it.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Time for a program to end after a hang-up before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// The end of a prompt, the program's and the one that tests give to bash.
pub const PROMPT: &str = "❯";
/// Number of raw bytes that a failure shows.
const RAW_SHOWN_BYTES: usize = 600;
/// Lines that are stored above the screen.
const SCROLLBACK_LINES: usize = 2000;

/// The executable under test. `REEDCLAW_TEST_PROGRAM=/bin/bash` replaces it: a check that bash itself fails isn't a fair test of
/// a shell.
pub fn program() -> PathBuf {
    std::env::var_os("REEDCLAW_TEST_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_reedclaw").into(), PathBuf::from)
}

/// Copies a program in a separate process. A copy in this process would be open for writing in programs that other tests start
/// meanwhile, and a program that is open for writing can't be started ("Text file busy").
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--").args([from, to]).status().expect("cp runs");
    assert!(status.success(), "{} is copied", from.display());
}

/// The program to start, and its environment.
pub struct Spawn {
    program: PathBuf,
    argv0: Option<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    files: Vec<(String, String)>,
    home: Option<PathBuf>,
    cwd: Option<PathBuf>,
    rows: u16,
    cols: u16,
    deaf: bool,
}

impl Spawn {
    /// Any program. The screen has 24 rows of 80 columns, the home is empty, the working directory is the home.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let env = [
            ("PATH", TEST_PATH),
            ("TERM", "xterm-256color"),
            ("LANG", "C.UTF-8"),
            ("SHELL", "/bin/bash"),
            ("USER", "tester"),
            ("LOGNAME", "tester"),
            // fish and git look up USER and LOGNAME. Git must not read the system's config.
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ];
        Self {
            program: program.into(),
            argv0: None,
            args: Vec::new(),
            env: env.map(|(key, value)| (key.to_string(), value.to_string())).into(),
            files: Vec::new(),
            home: None,
            cwd: None,
            rows: 24,
            cols: 80,
            deaf: false,
        }
    }

    /// The plain bash that our own shell is measured against, with a prompt that ends like ours.
    pub fn bash() -> Self {
        Self::new("/bin/bash").arg("-i").file(".bashrc", &format!("PS1='{PROMPT} '\n"))
    }

    /// The executable under test.
    pub fn reedclaw() -> Self {
        Self::new(program()).file(".bashrc", &format!("PS1='{PROMPT} '\n"))
    }

    /// The executable under test as a login shell.
    pub fn login() -> Self {
        let name = program().file_name().expect("a program's name").to_string_lossy().into_owned();
        Self::reedclaw().argv0(&format!("-{name}")).file(".bash_profile", ". ~/.bashrc\n")
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_string());
        self
    }

    /// Adds arguments.
    pub fn args(self, args: &[&str]) -> Self {
        args.iter().fold(self, |this, arg| this.arg(arg))
    }

    /// Sets the name under which the program is started, `-reedclaw` for a login shell.
    pub fn argv0(mut self, argv0: &str) -> Self {
        self.argv0 = Some(argv0.to_string());
        self
    }

    /// Sets a variable, and replaces an earlier value.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != key);
        self.env.push((key.to_string(), value.to_string()));
        self
    }

    /// Removes a variable.
    pub fn env_remove(mut self, key: &str) -> Self {
        self.env.retain(|(known, _)| known != key);
        self
    }

    /// Puts a file into the home before the program starts. The last one with a name wins.
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_string(), text.to_string()));
        self
    }

    /// Shares a home, for two sessions of one user. The caller owns the folder.
    pub fn home(mut self, home: &Path) -> Self {
        self.home = Some(home.to_path_buf());
        self
    }

    /// Sets the working directory.
    pub fn cwd(mut self, cwd: &Path) -> Self {
        self.cwd = Some(cwd.to_path_buf());
        self
    }

    /// Sets the size of the terminal.
    pub fn size(mut self, rows: u16, cols: u16) -> Self {
        (self.rows, self.cols) = (rows, cols);
        self
    }

    /// Makes it a terminal that never answers a query.
    pub fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }
}

/// A key that isn't a character.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    Enter,
    Tab,
    Escape,
    Backspace,
    Up,
    Down,
    /// Control and a letter in lower case.
    Ctrl(char),
    /// Alt and a character.
    Alt(char),
    /// Alt and Enter: a newline in the editor.
    AltEnter,
}

impl Key {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Enter => b"\r".to_vec(),
            Self::Tab => b"\t".to_vec(),
            Self::Escape => b"\x1b".to_vec(),
            Self::Backspace => b"\x7f".to_vec(),
            Self::Up => b"\x1b[A".to_vec(),
            Self::Down => b"\x1b[B".to_vec(),
            Self::Ctrl(letter) => vec![(letter as u8) & 0x1f],
            Self::Alt(letter) => format!("\x1b{letter}").into_bytes(),
            Self::AltEnter => b"\x1b\r".to_vec(),
        }
    }
}

/// The replies that the emulator sends to the program.
#[derive(Default)]
struct Answers {
    deaf: bool,
    pending: Vec<u8>,
    queries: usize,
}

impl Answers {
    fn answer(&mut self, reply: &str) {
        self.queries += 1;
        if !self.deaf {
            self.pending.extend_from_slice(reply.as_bytes());
        }
    }
}

impl vt100::Callbacks for Answers {
    fn unhandled_csi(&mut self, screen: &mut Screen, i1: Option<u8>, i2: Option<u8>, params: &[&[u16]], c: char) {
        let first = params.first().and_then(|param| param.first()).copied().unwrap_or(0);
        match (i1, i2, c, first) {
            (None, None, 'n', 5) => self.answer("\x1b[0n"),
            (None, None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                self.answer(&format!("\x1b[{};{}R", row + 1, col + 1));
            }
            (None, None, 'c', _) => self.answer("\x1b[?62;22c"),
            (Some(b'>'), None, 'c', _) => self.answer("\x1b[>1;10;0c"),
            (Some(b'>'), None, 'q', _) => self.answer("\x1bP>|reedclaw-tests\x1b\\"),
            (Some(b'?'), None, 'u', _) => self.answer("\x1b[?0u"),
            (Some(b'?'), Some(b'$'), 'p', mode) => self.answer(&format!("\x1b[?{mode};0$y")),
            (None, None, 't', 18) => {
                let (rows, cols) = screen.size();
                self.answer(&format!("\x1b[8;{rows};{cols}t"));
            }
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut Screen, params: &[&[u8]]) {
        match params {
            [b"10", b"?"] => self.answer("\x1b]10;rgb:dddd/dddd/dddd\x1b\\"),
            [b"11", b"?"] => self.answer("\x1b]11;rgb:1111/1111/1111\x1b\\"),
            _ => {}
        }
    }
}

/// The state that the threads share.
struct State {
    parser: vt100::Parser<Answers>,
    raw: Vec<u8>,
    exit: Option<ExitStatus>,
    at_end: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    /// A test that panicked while it held the lock must not hide its own message behind a second panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program in its terminal. When it is dropped, it ends the processes that it started.
pub struct Session {
    shared: Arc<Shared>,
    master: Option<File>,
    slave_path: PathBuf,
    pid: i32,
    wake_reader: Option<OwnedFd>,
    reader: Option<JoinHandle<()>>,
    patience: Duration,
    prompts: &'static [&'static str],
    home: PathBuf,
    _own_home: Option<TempDir>,
}

impl Session {
    /// Starts the program.
    ///
    /// # Panics
    /// If the machine can't open a PTY or start the program; the same is true of all the methods below if the machine fails.
    pub fn spawn(spawn: Spawn) -> Self {
        let own_home = spawn.home.is_none().then(|| TempDir::new().expect("a temporary home"));
        let home = spawn.home.clone().unwrap_or_else(|| own_home.as_ref().expect("made above").path().to_path_buf());
        for (path, text) in &spawn.files {
            let path = home.join(path);
            fs::create_dir_all(path.parent().expect("a file in the home")).expect("a folder in the home");
            fs::write(path, text).expect("a file in the home");
        }
        name_the_machine();
        let (master, slave, slave_path) = open_pty();
        stty(&slave_path, &["rows", &spawn.rows.to_string(), "cols", &spawn.cols.to_string(), "iutf8"]);
        let mut child = command(&spawn, &home, slave).spawn().expect("the program starts");
        let pid = i32::try_from(child.id()).expect("a pid");

        let answers = Answers { deaf: spawn.deaf, ..Answers::default() };
        let parser = vt100::Parser::new_with_callbacks(cells(spawn.rows), cells(spawn.cols), SCROLLBACK_LINES, answers);
        let state = State { parser, raw: Vec::new(), exit: None, at_end: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let waiter = Arc::clone(&shared);
        std::thread::spawn(move || {
            let status = child.wait().expect("the child can be waited for");
            waiter.lock().exit = Some(status);
            waiter.changed.notify_all();
        });
        let (wake_read, wake_write) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        let from_program = master.try_clone().expect("a descriptor");
        let drawn = Arc::clone(&shared);
        let reader = std::thread::spawn(move || read_all(from_program, &wake_read, &drawn));
        Self {
            shared,
            master: Some(master),
            slave_path,
            pid,
            wake_reader: Some(wake_write),
            reader: Some(reader),
            patience: DEADLINE,
            prompts: &[PROMPT],
            home,
            _own_home: own_home,
        }
    }

    /// Sets the maximum time of each wait.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Accepts `>` as the end of a prompt too, for programs that don't know that the terminal uses UTF-8.
    pub fn accept_plain_prompt(&mut self) {
        self.prompts = &[PROMPT, ">"];
    }

    /// The process that was started.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The program's home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Everything that the program has written so far.
    pub fn raw(&self) -> Vec<u8> {
        self.shared.lock().raw.clone()
    }

    /// The text of the screen.
    pub fn screen_text(&self) -> String {
        self.shared.lock().parser.screen().contents()
    }

    /// Number of queries that the program has sent to the terminal.
    pub fn queries(&self) -> usize {
        self.shared.lock().parser.callbacks().queries
    }

    /// Makes it a terminal that answers no further query.
    pub fn stop_answering(&self) {
        self.shared.lock().parser.callbacks_mut().deaf = true;
    }

    /// Makes it a terminal that answers each query from now on; earlier ones stay unanswered.
    pub fn answer_again(&self) {
        self.shared.lock().parser.callbacks_mut().deaf = false;
    }

    /// The settings of the terminal as seen from outside.
    pub fn termios(&self) -> Termios {
        tcgetattr(self.master().as_fd()).expect("the terminal's settings")
    }

    /// Types characters, as bytes, without Enter.
    pub fn type_text(&self, text: &str) {
        self.send(text.as_bytes());
    }

    /// Presses a key.
    pub fn press(&self, key: Key) {
        self.send(&key.bytes());
    }

    /// Types a line and presses Enter.
    pub fn line(&self, line: &str) {
        self.send(format!("{line}\r").as_bytes());
    }

    /// Presses Ctrl-C at a prompt and waits for the next one.
    #[track_caller]
    pub fn interrupt(&self) {
        let from = self.raw().len();
        self.press(Key::Ctrl('c'));
        self.expect_raw(PROMPT.as_bytes(), from);
        self.expect_prompt();
    }

    /// Types a command whose Ctrl-C arrives together with its Enter, and waits until that has ended it. The status may be another
    /// one, if a pipeline's last program ends normally.
    #[track_caller]
    pub fn interrupted_at_once(&self, command: &str) {
        self.expect_prompt();
        let from = self.raw().len();
        self.send(format!("{command}\r\x03").as_bytes());
        // The editor has left its line: the next empty prompt is a new one.
        self.expect_raw(b"\x1b[?2004l", from);
        self.expect_prompt();
    }

    /// Sends bytes unchanged.
    pub fn send(&self, bytes: &[u8]) {
        self.master().write_all(bytes).expect("the terminal takes input");
    }

    /// Waits for an empty prompt, types the line, sees it there, presses Enter and waits for the next empty prompt. For lines
    /// that fit the screen's width.
    #[track_caller]
    pub fn run(&self, line: &str) {
        self.expect_prompt();
        self.type_text(line);
        self.expect(&format!("`{line}` at the prompt"), |screen| cursor_line(screen).contains(line.trim()));
        self.press(Key::Enter);
        self.expect_prompt();
    }

    /// Waits until the cursor is after a prompt with nothing typed.
    #[track_caller]
    pub fn expect_prompt(&self) {
        self.expect("an empty prompt", |screen| {
            let line = left_of_cursor(screen);
            !screen.alternate_screen() && self.prompts.iter().any(|prompt| line.ends_with(prompt))
        });
    }

    /// Waits until `text` is on the screen.
    #[track_caller]
    pub fn expect_text(&self, text: &str) {
        self.expect(&format!("{text:?} on the screen"), |screen| screen.contents().contains(text));
    }

    /// Waits until a line of the screen is exactly `text`: the output of a command, not its echo.
    #[track_caller]
    pub fn expect_line(&self, text: &str) {
        self.expect(&format!("the line {text:?}"), |screen| {
            screen.contents().lines().any(|line| line.trim_end() == text)
        });
    }

    /// Waits until `holds` is true of the screen.
    #[track_caller]
    pub fn expect(&self, what: &str, holds: impl Fn(&Screen) -> bool) {
        self.wait(what, |state| holds(state.parser.screen()).then_some(()));
    }

    /// Waits until the program has written `bytes` at or after `from`; returns the position after them.
    #[track_caller]
    pub fn expect_raw(&self, bytes: &[u8], from: usize) -> usize {
        let what = format!("{:?} in the raw output", String::from_utf8_lossy(bytes));
        self.wait(&what, |state| {
            let found = memchr::memmem::find(state.raw.get(from..)?, bytes)?;
            Some(from + found + bytes.len())
        })
    }

    /// Waits until the program has ended.
    #[track_caller]
    pub fn expect_exit(&self) -> ExitStatus {
        self.wait("the end of the program", |state| state.exit)
    }

    /// Waits until the program has ended and the terminal's output is complete, then returns all of it.
    #[track_caller]
    pub fn expect_end(&self) -> (ExitStatus, Vec<u8>) {
        self.wait("the end of the program and its output", |state| {
            state.exit.filter(|_| state.at_end).map(|status| (status, state.raw.clone()))
        })
    }

    /// Waits for something outside the screen (a process, a file). It is checked whenever the screen changes, and every few
    /// milliseconds, because there is no notification.
    #[track_caller]
    pub fn expect_outside<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        self.wait_at_intervals(what, Some(Duration::from_millis(10)), |_| look())
    }

    /// Changes the size of the terminal, as a window manager would.
    pub fn resize(&self, rows: u16, cols: u16) {
        self.shared.lock().parser.screen_mut().set_size(cells(rows), cells(cols));
        stty(&self.slave_path, &["rows", &rows.to_string(), "cols", &cols.to_string()]);
    }

    /// Changes the size as a terminal does that knows its pixels: rows, columns, width and height.
    pub fn resize_with_pixels(&self, size: [u16; 4]) {
        self.shared.lock().parser.screen_mut().set_size(cells(size[0]), cells(size[1]));
        // A program instead of the system call, as in `stty` below. 0x5414 is TIOCSWINSZ.
        let program = "open(my $t, '+<', shift) or die; ioctl($t, 0x5414, pack('S4', @ARGV)) or die $!";
        let mut command = Command::new("perl");
        command.args(["-e", program]).arg(&self.slave_path).args(size.map(|number| number.to_string()));
        assert!(command.status().expect("perl starts").success(), "the size is set");
    }

    /// Sends a signal to the program that was started, unless it has ended.
    pub fn kill(&self, signal: Signal) {
        // Under the lock: the waiting thread can't report the end, so the pid is still the program's own.
        let state = self.shared.lock();
        if state.exit.is_none() {
            kill(Pid::from_raw(self.pid), signal).expect("the signal is sent");
        }
    }

    /// All processes below the program.
    pub fn descendants(&self) -> Vec<procs::Process> {
        procs::descendants(self.pid)
    }

    /// Closes the terminal while the program runs, as a closed window does.
    pub fn hang_up(&mut self) {
        self.wake_reader = None;
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has nothing to add to the failure that is being reported.
            drop(reader.join());
        }
        self.master = None;
    }

    fn master(&self) -> &File {
        self.master.as_ref().expect("the terminal hasn't been hung up")
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, look: impl Fn(&State) -> Option<T>) -> T {
        self.wait_at_intervals(what, None, look)
    }

    #[track_caller]
    fn wait_at_intervals<T>(&self, what: &str, interval: Option<Duration>, look: impl Fn(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + self.patience;
        let mut state = self.shared.lock();
        loop {
            if let Some(found) = look(&state) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let picture = picture(&state);
                drop(state);
                panic!("no {what} within {:?}\n{picture}processes:\n{}", self.patience, procs::picture(self.pid));
            }
            let pause = interval.map_or(left, |interval| interval.min(left));
            state = self.shared.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let below = self.descendants();
        self.hang_up();
        let deadline = Instant::now() + GRACE;
        let mut state = self.shared.lock();
        if state.exit.is_none() {
            // It may end between the check and the signal; then there is nothing left to end.
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGHUP);
        }
        while state.exit.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let runs = |old: &procs::Process| {
            let now = procs::process(old.pid).filter(|now| now.started_ticks == old.started_ticks);
            now.is_some_and(|now| !"ZX".contains(now.state))
        };
        let until = Instant::now() + GRACE;
        for old in below.iter().filter(|old| runs(old)) {
            let _ = kill(Pid::from_raw(old.pid), Signal::SIGKILL);
            // A killed process disappears when it next gets the processor.
            while runs(old) && Instant::now() < until {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

/// Sets a short host name for this thread and the programs that it starts: root's prompt contains the machine's name, and a long
/// one would leave no room for the lines of tests. Only root may do that, and only root's prompt shows the name.
fn name_the_machine() {
    if nix::unistd::geteuid().is_root() && nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUTS).is_ok() {
        nix::unistd::sethostname("vm").expect("a host name in a namespace of our own");
    }
}

/// The text of the cursor's line, without blanks at its end, and without root's user and machine names before a prompt: any user
/// may run the tests.
pub fn cursor_line(screen: &Screen) -> String {
    let (row, _) = screen.cursor_position();
    let (_, cols) = screen.size();
    let row = screen.rows(0, cols.get()).nth(usize::from(row)).unwrap_or_default();
    let row = row.trim_end();
    let without_who = row.strip_prefix("root@").and_then(|rest| rest.split_once("# "));
    without_who.map_or(row, |(_, rest)| rest).to_string()
}

/// The text of that line before the cursor, without blanks at its end: the text after the cursor may be a suggestion.
pub fn left_of_cursor(screen: &Screen) -> String {
    let (row, col) = screen.cursor_position();
    screen.rows(0, col).nth(usize::from(row)).unwrap_or_default().trim_end().to_string()
}

/// Returns a status in the shell's form: the code, or 128 plus the signal.
pub fn status_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}

fn open_pty() -> (File, File, PathBuf) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a PTY");
    grantpt(&master).expect("the PTY is granted");
    unlockpt(&master).expect("the PTY is unlocked");
    let path = PathBuf::from(ptsname_r(&master).expect("the PTY has a name"));
    let slave = OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(&path);
    (File::from(OwnedFd::from(master)), slave.expect("the PTY's other end"), path)
}

/// Sets the terminal from outside. A program instead of the system call: that one is `unsafe`, and tests have none.
fn stty(terminal: &Path, settings: &[&str]) {
    let status = Command::new("stty").arg("-F").arg(terminal).args(settings).status().expect("stty starts");
    assert!(status.success(), "stty -F {} {settings:?}: {status}", terminal.display());
}

/// Returns the program in a new session, whose controlling terminal is `slave`: `setsid --ctty` executes it in place, so the pid
/// is the program's. To start it under another name, perl does the same without changing a variable.
fn command(spawn: &Spawn, home: &Path, slave: File) -> Command {
    let mut command = Command::new("setsid");
    // The process that runs the tests may ignore signals (nohup, a background job).
    command.args(["--ctty", "env", "--default-signal"]);
    if let Some(argv0) = &spawn.argv0 {
        command.args(["perl", "-e", "my $p = shift; exec {$p} @ARGV or die"]).arg(&spawn.program).arg(argv0);
    } else {
        command.arg(&spawn.program);
    }
    command.args(&spawn.args).env_clear().env("HOME", home);
    for (key, folder) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_RUNTIME_DIR", ".run"),
    ] {
        let folder = home.join(folder);
        fs::create_dir_all(&folder).expect("a folder in the home");
        command.env(key, folder);
    }
    command.envs(spawn.env.iter().map(|(key, value)| (key, value)));
    let copy = || Stdio::from(slave.try_clone().expect("a descriptor"));
    command.current_dir(spawn.cwd.as_deref().unwrap_or(home)).stdin(copy()).stdout(copy()).stderr(copy());
    command
}

/// Draws the output and answers queries, until the program's side is closed or the session hangs up.
fn read_all(mut master: File, wake: &OwnedFd, shared: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut ready = [PollFd::new(master.as_fd(), PollFlags::POLLIN), PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => panic!("waiting for the terminal: {error}"),
        }
        if ready[1].revents().is_some_and(|events| !events.is_empty()) {
            return;
        }
        if ready[0].revents().is_none_or(|events| events.is_empty()) {
            continue;
        }
        // Linux reports the last close of the other end as EIO.
        let count = master.read(&mut buffer).unwrap_or(0);
        let mut state = shared.lock();
        if count == 0 {
            state.at_end = true;
            shared.changed.notify_all();
            return;
        }
        state.raw.extend_from_slice(&buffer[..count]);
        state.parser.process(&buffer[..count]);
        let replies = std::mem::take(&mut state.parser.callbacks_mut().pending);
        drop(state);
        shared.changed.notify_all();
        if !replies.is_empty() {
            // The program may have gone since it asked.
            drop(master.write_all(&replies));
        }
    }
}

/// The framed screen with the cursor, the last raw bytes and the end of the program, for a failure's report.
fn picture(state: &State) -> String {
    let screen = state.parser.screen();
    let (row, col) = screen.cursor_position();
    let (rows, cols) = screen.size();
    let mut text = format!("screen {rows}×{cols}, cursor at row {row}, column {col}");
    if screen.alternate_screen() {
        text.push_str(", alternate screen");
    }
    text.push('\n');
    for (index, line) in screen.rows(0, cols.get()).enumerate() {
        let mark = if index == usize::from(row) { '>' } else { '|' };
        text.push_str(&format!("{mark}{}\n", line.trim_end()));
    }
    let tail = &state.raw[state.raw.len().saturating_sub(RAW_SHOWN_BYTES)..];
    text.push_str(&format!("last raw bytes: {:?}\n", String::from_utf8_lossy(tail)));
    match state.exit {
        Some(status) => text.push_str(&format!("the program has ended: {status}\n")),
        None => text.push_str("the program runs\n"),
    }
    text
}
