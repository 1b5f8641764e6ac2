//! The bash that a model's commands run in: one process for a project, so that directories and variables stay between
//! calls. It has a terminal of its own, at which nobody sits; what it prints comes by two pipes. Knows no policy: what it is
//! given has a permit.
//!
//! Both pipes end a command with a line that holds its number, which is random. What a command prints can't be mistaken
//! for it unless the command wants that, and then it deceives the model that wrote it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memchr::memmem;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ring::rand::{SecureRandom, SystemRandom};

use super::spawner::Spawner;
use super::terminal::Terminal;
use crate::base::hex;
use crate::render::strip_controls;
use crate::sandbox::end;

/// How often is looked whether everything was stopped.
const LOOK: Duration = Duration::from_millis(50);
/// How long the second line that ends a command may be behind the first, once its time is over.
const END_TIME: Duration = Duration::from_secs(2);
/// Bytes of one stream that are kept; what comes beyond is counted.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes in which the last line is looked for.
const TAIL_BYTES: usize = 16 * 1024;
/// Time that processes have to end by themselves.
const GRACE: Duration = Duration::from_millis(200);
/// Reads commands, each as number, directory and line with a NUL behind it, and runs them one by one. Their input is the
/// terminal.
const DRIVER: &str = r#"exec 3<&0 4>&1 5>&2
exec </dev/tty || exec </dev/null
while IFS= read -r -d '' -u 3 __rc_n && IFS= read -r -d '' -u 3 __rc_d && IFS= read -r -d '' -u 3 __rc_c; do
  if builtin cd -- "$__rc_d"; then
    builtin eval "$__rc_c" 3<&- 4>&- 5>&-
  fi
  builtin printf '\n%s %d %s\n' "$__rc_n" "$?" "$PWD" >&4
  builtin printf '\n%s\n' "$__rc_n" >&5
done"#;

/// A running bash.
pub(super) struct Bash {
    child: Child,
    commands: ChildStdin,
    out: Stream<ChildStdout>,
    err: Stream<ChildStderr>,
    terminal: Terminal,
}

/// One of its outputs, as far as it was read.
struct Stream<R> {
    pipe: R,
    bytes: Vec<u8>,
    dropped: usize,
    is_over: bool,
    /// When something came last.
    heard: Option<Instant>,
}

/// How far a command got.
pub(super) enum Ran {
    /// It ended.
    Done(Output),
    /// It still runs.
    Running(Output),
    /// It was stopped, and bash with it.
    Stopped(Output),
    /// It waited for a person at the terminal and was ended, and bash with it.
    Awaited(Output),
    /// It ended bash itself, by `exit` for one.
    Gone(Output),
}

/// What a command printed, and how it ended.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) out: Vec<u8>,
    pub(super) err: Vec<u8>,
    /// What it wrote to the terminal itself.
    pub(super) terminal: Vec<u8>,
    /// Bytes that were too many to be kept.
    pub(super) dropped: usize,
    pub(super) status: Option<i32>,
    /// Where bash is now.
    pub(super) cwd: Option<PathBuf>,
}

impl Bash {
    /// Starts it; `command` is what starts programs for a model, with its environment.
    pub(super) fn start(mut command: Command, spawner: &Spawner) -> std::io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let terminal = Terminal::give(&mut command)?;
        let mut child = spawner.spawn(command)?;
        let missing = || std::io::Error::other("it has no pipes");
        let commands = child.stdin.take().ok_or_else(missing)?;
        let out = Stream::new(child.stdout.take().ok_or_else(missing)?)?;
        let err = Stream::new(child.stderr.take().ok_or_else(missing)?)?;
        Ok(Self { child, commands, out, err, terminal })
    }

    /// The same bash, where it waits for a command; what an earlier one has left behind may have ended it.
    pub(super) fn there(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// The arguments with which bash is started.
    pub(super) fn arguments() -> [&'static str; 4] {
        ["--noprofile", "--norc", "-c", DRIVER]
    }

    /// Runs a command in a directory; waits for its end until `deadline`, or until `is_stopped`.
    pub(super) fn run(
        &mut self,
        command: &str,
        cwd: &Path,
        deadline: Instant,
        is_stopped: &dyn Fn() -> bool,
    ) -> std::io::Result<(String, Ran)> {
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).map_err(|_| std::io::Error::other("no random numbers"))?;
        let number = hex::encode(&random);
        let mut request = format!("{number}\0").into_bytes();
        request.extend_from_slice(cwd.as_os_str().as_encoded_bytes());
        request.push(0);
        request.extend_from_slice(command.as_bytes());
        request.push(0);
        self.terminal.reset();
        self.commands.write_all(&request)?;
        let ran = self.wait(&number, deadline, is_stopped)?;
        Ok((number, ran))
    }

    /// Waits on for the command with this number.
    pub(super) fn wait(
        &mut self,
        number: &str,
        deadline: Instant,
        is_stopped: &dyn Fn() -> bool,
    ) -> std::io::Result<Ran> {
        self.wait_while(number, &|| deadline.saturating_duration_since(Instant::now()), is_stopped)
    }

    /// Waits on as long as there is time left, which may change meanwhile.
    pub(super) fn wait_while(
        &mut self,
        number: &str,
        time_left: &dyn Fn() -> Duration,
        is_stopped: &dyn Fn() -> bool,
    ) -> std::io::Result<Ran> {
        let end = format!("\n{number}");
        let mut late_since = None;
        loop {
            if self.out.ends_with(&end) && self.err.ends_with(&end) {
                return Ok(Ran::Done(self.take(Some(number))));
            }
            if self.out.is_over && self.err.is_over {
                let status = self.child.wait()?.code();
                return Ok(Ran::Gone(Output { status, ..self.take(Some(number)) }));
            }
            if is_stopped() {
                self.kill();
                return Ok(Ran::Stopped(self.take(Some(number))));
            }
            if self.terminal.is_awaited(self.child.id()) {
                self.kill();
                self.terminal.read();
                return Ok(Ran::Awaited(self.take(Some(number))));
            }
            // One of the lines that end it comes right behind the other: taken alone it would be missed for good.
            let is_ending = self.out.ends_with(&end) || self.err.ends_with(&end);
            // What had come when its time was over was read.
            if late_since.is_some_and(|since: Instant| !is_ending || since.elapsed() > END_TIME) {
                return Ok(Ran::Running(self.take(None)));
            }
            let left = time_left();
            if left.is_zero() {
                late_since.get_or_insert_with(Instant::now);
            }
            let wait =
                PollTimeout::try_from(if is_ending { LOOK } else { left.min(LOOK) }).unwrap_or(PollTimeout::ZERO);
            let mut pipes = Vec::with_capacity(3);
            if !self.out.is_over {
                pipes.push(PollFd::new(self.out.pipe.as_fd(), PollFlags::POLLIN));
            }
            if !self.err.is_over {
                pipes.push(PollFd::new(self.err.pipe.as_fd(), PollFlags::POLLIN));
            }
            pipes.extend(self.terminal.fd().map(|terminal| PollFd::new(terminal, PollFlags::POLLIN)));
            let _ = poll(&mut pipes, wait);
            // The terminal first: what a command has written there is there before it ends.
            self.terminal.read();
            if self.out.read(&end)? | self.err.read(&end)? {
                self.terminal.heard();
            }
        }
    }

    /// What was printed since the last time; the lines that end the command are taken out.
    fn take(&mut self, number: Option<&str>) -> Output {
        let dropped = self.out.dropped + self.err.dropped;
        let (mut out, mut err) = (std::mem::take(&mut self.out.bytes), std::mem::take(&mut self.err.bytes));
        let mut output = Output { dropped, ..Output::default() };
        if let Some(number) = number {
            let end = format!("\n{number}");
            if let Some(at) = memmem::rfind(&out, end.as_bytes()) {
                let line = String::from_utf8_lossy(&out[at + end.len()..]).into_owned();
                let mut words = line.trim_start().trim_end_matches('\n').splitn(2, ' ');
                output.status = words.next().and_then(|word| word.parse().ok());
                output.cwd = words.next().map(PathBuf::from);
                out.truncate(at);
            }
            if let Some(at) = memmem::rfind(&err, end.as_bytes()) {
                err.truncate(at);
            }
            (self.out.dropped, self.err.dropped) = (0, 0);
        }
        Output { out, err, terminal: self.terminal.take(), ..output }
    }

    /// Takes back what a running command has printed, as if it had not been taken yet: nothing was read since.
    pub(super) fn take_back(&mut self, output: Output) {
        (self.out.bytes, self.err.bytes) = (output.out, output.err);
        self.terminal.take_back(output.terminal);
    }

    /// The last line that was printed and not taken yet: of what came last, the terminal's where nothing else came.
    pub(super) fn last_line(&self) -> Option<String> {
        let (out, err) = (&self.out, &self.err);
        let [first, second] = if err.heard > out.heard { [err.tail(), out.tail()] } else { [out.tail(), err.tail()] };
        [first, second, self.terminal.written()].into_iter().find_map(last_line)
    }

    /// Ends bash and all that it started.
    pub(super) fn kill(&mut self) {
        // What can't be ended hangs in the kernel; nobody waits for that.
        if end(self.child.id(), GRACE) {
            let _ = self.child.wait();
        }
    }
}

/// The last line with anything on it.
pub(super) fn last_line(bytes: &[u8]) -> Option<String> {
    let text = strip_controls(bytes);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

impl Drop for Bash {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

impl<R: Read + AsFd> Stream<R> {
    fn new(pipe: R) -> std::io::Result<Self> {
        let flags = OFlag::from_bits_truncate(fcntl(&pipe, FcntlArg::F_GETFL)?);
        fcntl(&pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self { pipe, bytes: Vec::new(), dropped: 0, is_over: false, heard: None })
    }

    /// Reads what is there, and tells whether there was anything. Beyond the limit only the end is kept, in which the last
    /// line is.
    fn read(&mut self, end: &str) -> std::io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let mut heard = false;
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => {
                    self.is_over = true;
                    break;
                }
                Ok(count) => {
                    heard = true;
                    self.heard = Some(Instant::now());
                    self.bytes.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.bytes.len() > KEPT_BYTES_MAX {
                let kept_tail = end.len() + 8 * 1024;
                let cut = KEPT_BYTES_MAX - kept_tail..self.bytes.len() - kept_tail;
                self.dropped += cut.len();
                self.bytes.drain(cut);
            }
            if self.ends_with(end) {
                break;
            }
        }
        Ok(heard)
    }

    /// The end of what was read.
    fn tail(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(TAIL_BYTES)..]
    }

    /// Whether the last line is the one that ends the command.
    fn ends_with(&self, end: &str) -> bool {
        if !self.bytes.ends_with(b"\n") {
            return false;
        }
        let before = &self.bytes[..self.bytes.len() - 1];
        let start = memchr::memrchr(b'\n', before).unwrap_or(0);
        before[start..].starts_with(end.as_bytes())
    }
}
