//! One command in a bash of its own. The state that a command leaves in its shell (directory, variables, functions, aliases,
//! options, umask, traps) is saved at its end and restored for the next one, so that each can be confined by a sandbox of its
//! own. Bash has a terminal without a user; its output arrives by two pipes, its state by a third. Knows no policy: each command
//! that it runs has a permit.
//!
//! The state is the model's own text: it is restored inside the sandbox only.

use std::ffi::OsStr;
use std::io::{PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::memmem;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::proto::action::Hold;
use crate::render::strip_controls;
use crate::sandbox::{Layer, View, end};
use crate::tools::running::launcher::{Launcher, Terms, WholeBench};
use crate::tools::running::spawner::Spawner;
use crate::tools::running::terminal::Terminal;

/// Poll interval for a stop.
const LOOK: Duration = Duration::from_millis(50);
/// Limit on the stored bytes of one stream; further bytes are only counted.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Number of bytes that are searched for the last line.
const TAIL_BYTES: usize = 16 * 1024;
/// Time for processes to end on their own.
const GRACE: Duration = Duration::from_millis(200);
/// Limit on the state that one command passes to the next, in bytes; if it is larger, the older state stays.
const STATE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one variable: the kernel takes 128 KiB with the name (`MAX_ARG_STRLEN`).
const VARIABLE_BYTES_MAX: usize = 100 * 1024;
/// Variables for commands without network: package managers then try once, instead of retrying for a minute. A command that gets
/// the network starts without the state of others, so these aren't passed on to it.
const ASKING_ONCE: [&str; 4] = ["CARGO_NET_RETRY", "PIP_RETRIES", "UV_HTTP_RETRIES", "npm_config_fetch_retries"];

/// Restores the state. Functions are read with `extglob`, without which one pattern in them would end the reading of all. The
/// input is the terminal. What bash doesn't allow to be set again fails silently. The command itself is a positional parameter,
/// so that no read-only variable of the state can replace it.
const BEGIN: &str = r#"exec 3>&0
{ exec </dev/tty; } 2>/dev/null || exec </dev/null
for __rc_v in "${!__RC_S@}"; do __rc_s+=${!__rc_v}; unset -v "$__rc_v"; done
set -- "$__RC_COMMAND" "$__RC_DIR" "$__RC_OPTIONS"
unset -v __RC_COMMAND __RC_DIR __RC_OPTIONS BASH_EXECUTION_STRING
__rc_path=$PATH
builtin eval "$__rc_s" 2>/dev/null
unset -v __rc_s __rc_v
for __rc_d in {10..99}; do [[ -L /proc/self/fd/$__rc_d ]] || break; done
"#;
/// Runs the command. Traps and options come last, `xtrace` after the others: they apply to the command, not to this script.
const RUN: &str = r#"if builtin cd -- "$2" || [[ . -ef $2 ]]; then builtin eval $'builtin set --\n'"$3"$'\n'"$1" 3>&-
else builtin cd -P . ; builtin printf "it didn't start: its directory isn't there; the next command starts in %s\n" "$PWD" >&2; false; fi
"#;
/// Writes the new state to the original descriptor 0, which is a pipe to ReedClaw: options, directory, number of remaining
/// programs, the rest, each ended by a NUL. While the command runs, bash itself holds that pipe as the first free descriptor from
/// 10 on, which no program inherits; it isn't put back if `set -e` ends bash at an error of an expansion. The remaining programs
/// have a moment to end. In a sandbox with process numbers of its own bash is process 2; elsewhere its orphans become its
/// children (`PR_SET_CHILD_SUBREAPER`).
const SAVE: &str = r#"{ builtin : >&3; } || command exec 3>&"${__rc_d:-10}"
builtin umask -p >&3; builtin trap -p ERR RETURN HUP INT QUIT PIPE TERM USR1 USR2 >&3; builtin set +o >&3
builtin trap - DEBUG ERR; builtin set +efuxv
for __rc_i in {1..5}; do
  if [[ $$ == 2 ]]; then __rc_p=(/proc/[0-9]*); __rc_l=2
  else __rc_l=0; IFS=" " builtin read -ra __rc_p </proc/$$/task/$$/children; fi
  __rc_l=$((${#__rc_p[@]} - __rc_l - (BASHPID != $$)))
  ((__rc_l > 0 && __rc_i < 5)) || break
  command -p sleep 0.04
done
builtin printf "\0%s\0%s\0" "$PWD" "$__rc_l" >&3
unset -f ${__rc_f-}
[[ $PATH != "$__rc_path" ]] || unset -v PATH
unset -v RANDOM SRANDOM SECONDS LINENO HISTCMD BASH_COMMAND BASHPID EPOCHSECONDS EPOCHREALTIME BASHOPTS SHELLOPTS _ "${!__rc_@}"
{ builtin declare -p; builtin alias -p; builtin printf "builtin shopt -s extglob\n"
  builtin declare -f; builtin declare -Fx; builtin shopt -p; } >&3
builtin printf "\0end\0" >&3
"#;
/// The beginning and the end of a function that saves the state before the command ends its shell. The first record counts.
const EXIT_HEAD: &str = r#"builtin declare -F exit >/dev/null || { __rc_f=exit; exit() {
  builtin set -- $? "$@"
  [[ $BASHPID != $$ ]] || (
"#;
const EXIT_TAIL: &str = r#") &>/dev/null
  if (($# > 1)); then builtin exit "${@:2}"; else (builtin exit $1); builtin exit; fi
}; }
"#;
/// The line before the functions of a state.
const EXTGLOB: &str = "builtin shopt -s extglob\n";

/// Returns the script for a command. A trap on EXIT saves its state, no matter how it ends its shell. A command that names `trap`
/// could see this trap or replace it, so a subshell saves the state after the command and before an `exit`: the command's own
/// trap on EXIT runs later.
fn script(request: &Request<'_>) -> String {
    let Request { command, state, .. } = request;
    // Variables come before aliases and functions; their values may contain words of an earlier command.
    let code_at =
        [&b"\nalias "[..], EXTGLOB.as_bytes()].into_iter().filter_map(|it| memmem::find(&state.text, it)).min();
    let codes = [command.as_bytes(), &state.text[code_at.unwrap_or(0)..]];
    let names = |word: &str| codes.iter().any(|code| has_word(code, word.as_bytes()));
    if !names("trap") {
        return format!("{BEGIN}trap '{{\n{SAVE}}} 2>/dev/null' EXIT\n{RUN}");
    }
    let exit = if names("exit") { EXIT_HEAD.to_owned() + SAVE + EXIT_TAIL } else { String::new() };
    // A trap of the command on DEBUG prints nothing about this.
    format!("{BEGIN}{exit}{RUN}{{ (builtin set -- $?\n{SAVE}builtin exit $1); }} &>/dev/null && {{ :; }} &>/dev/null")
}

/// Returns whether a text has a word that isn't part of a longer name.
fn has_word(text: &[u8], word: &[u8]) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    memmem::find_iter(text, word)
        .any(|at| !is_part(at.checked_sub(1).and_then(|at| text.get(at))) && !is_part(text.get(at + word.len())))
}

/// The state that a command leaves for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tools) struct State {
    /// Variables, functions, aliases: text for bash.
    text: Vec<u8>,
    /// Options, umask and traps.
    options: Vec<u8>,
}

/// A command that is to run.
pub(in crate::tools) struct Request<'a> {
    pub(in crate::tools) command: &'a str,
    pub(in crate::tools) cwd: &'a Path,
    pub(in crate::tools) state: &'a State,
    pub(in crate::tools) terms: Terms,
}

/// A running bash, with its one command.
pub(in crate::tools) struct Bash {
    child: Child,
    state: Stream<PipeReader>,
    out: Stream<ChildStdout>,
    err: Stream<ChildStderr>,
    terminal: Terminal,
    /// True if the programs that it started end with it.
    is_jail: bool,
    /// True if it works on the workspace itself.
    is_work: bool,
    layer: Option<Arc<Layer>>,
    whole: Option<WholeBench>,
}

/// One of its outputs, as far as it was read.
struct Stream<R> {
    pipe: R,
    bytes: Vec<u8>,
    dropped: usize,
    is_over: bool,
    /// Time of the last output.
    heard: Option<Instant>,
}

/// Progress of a command.
pub(in crate::tools) enum Ran {
    /// Ended.
    Done(Output),
    /// Still runs.
    Running(Output),
    /// Stopped.
    Stopped(Output),
    /// Waited for a person at the terminal and was ended.
    Awaited(Output),
    /// Its copy, its home and `/tmp` took more disk space than they may: it was ended, and the latter two were emptied.
    Overfull(Output),
}

/// The output of a command, and how it ended.
#[derive(Debug, Default)]
pub(in crate::tools) struct Output {
    pub(in crate::tools) out: Vec<u8>,
    pub(in crate::tools) err: Vec<u8>,
    /// The bytes that it wrote to the terminal itself.
    pub(in crate::tools) terminal: Vec<u8>,
    /// Number of bytes that were dropped because there were too many.
    pub(in crate::tools) dropped: usize,
    pub(in crate::tools) status: Option<i32>,
    /// Its last directory.
    pub(in crate::tools) cwd: Option<PathBuf>,
    /// The state for the next command; `None` if it ended its shell.
    pub(in crate::tools) state: Option<State>,
    /// Worked on a copy of the workspace.
    pub(in crate::tools) is_on_copy: bool,
    /// Programs that it had left running in the background, which were ended.
    pub(in crate::tools) background: usize,
}

impl Bash {
    /// Starts it with its command.
    pub(in crate::tools) fn start(
        launcher: &Launcher,
        spawner: &Spawner,
        request: &Request<'_>,
    ) -> std::io::Result<Self> {
        let Request { command, cwd, state, terms } = request;
        let mut variables = terms.variables.clone();
        let mut put = |name: String, value: &[u8]| variables.push((name, OsStr::from_bytes(value).to_owned()));
        for (number, piece) in state.text.chunks(VARIABLE_BYTES_MAX).enumerate() {
            put(format!("__RC_S{number:03}"), piece);
        }
        put("__RC_OPTIONS".into(), &state.options);
        put("__RC_COMMAND".into(), command.as_bytes());
        let whole = launcher.whole();
        let seen = whole.as_ref().map_or_else(|| cwd.to_path_buf(), |whole| whole.seen(cwd));
        put("__RC_DIR".into(), seen.as_os_str().as_bytes());
        if !terms.network && matches!(launcher.hold(), Hold::Copy | Hold::Walls) {
            ASKING_ONCE.iter().for_each(|name| put((*name).to_owned(), b"0"));
        }
        let layer = match &terms.view {
            View::Copy(layer) | View::First(layer) => Some(Arc::clone(layer)),
            View::Look | View::Work => None,
        };
        let terms = Terms { variables, ..terms.clone() };
        let mut bash = launcher
            .command("bash", &["--noprofile", "--norc", "-c", &script(request)], &terms)
            .map_err(std::io::Error::other)?;
        let (reader, writer) = std::io::pipe()?;
        bash.stdin(OwnedFd::from(writer)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let terminal = Terminal::give(&mut bash)?;
        let mut child = spawner.spawn(bash)?;
        let missing = || std::io::Error::other("it has no pipes");
        let out = Stream::new(child.stdout.take().ok_or_else(missing)?)?;
        let err = Stream::new(child.stderr.take().ok_or_else(missing)?)?;
        let (is_jail, is_work) = (launcher.has_jail(), matches!(terms.view, View::Work));
        Ok(Self { child, state: Stream::new(reader)?, out, err, terminal, is_jail, is_work, layer, whole })
    }

    /// The copy on which it works, if it does.
    pub(in crate::tools) fn layer(&self) -> Option<&Arc<Layer>> {
        self.layer.as_ref()
    }

    /// Returns whether it works on the workspace itself and hasn't ended.
    pub(in crate::tools) fn is_working(&mut self) -> bool {
        self.is_work && self.is_running()
    }

    /// Returns whether it hasn't ended. Reads its output so that it isn't blocked, and ends the programs that it left running.
    pub(in crate::tools) fn is_running(&mut self) -> bool {
        if self.state.is_over {
            return false;
        }
        // An output that can't be read is reported by the next wait.
        let _ = self.state.read();
        self.terminal.read();
        if self.out.read().unwrap_or(false) | self.err.read().unwrap_or(false) {
            self.terminal.heard();
        }
        if self.state.is_over && !self.is_jail {
            let _ = end(self.child.id(), GRACE);
        }
        !self.state.is_over
    }

    /// The process that leads its jail.
    pub(in crate::tools) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end until `deadline`, or until `is_stopped`.
    pub(in crate::tools) fn wait(&mut self, deadline: Instant, is_stopped: &dyn Fn() -> bool) -> std::io::Result<Ran> {
        self.wait_while(&|| deadline.saturating_duration_since(Instant::now()), is_stopped)
    }

    /// Waits as long as there is time left, which may change meanwhile.
    pub(in crate::tools) fn wait_while(
        &mut self,
        time_left: &dyn Fn() -> Duration,
        is_stopped: &dyn Fn() -> bool,
    ) -> std::io::Result<Ran> {
        let mut is_late = false;
        loop {
            if self.state.is_over {
                return self.ended().map(Ran::Done);
            }
            if is_stopped() {
                self.kill();
                return Ok(Ran::Stopped(self.take()));
            }
            if self.terminal.is_awaited(self.child.id()) {
                self.kill();
                self.terminal.read();
                return Ok(Ran::Awaited(self.take()));
            }
            if let Some(layer) = self.layer.clone().filter(|layer| layer.is_overfull()) {
                self.kill();
                layer.empty_private();
                return Ok(Ran::Overfull(self.take()));
            }
            // Everything that had arrived before the time was over has been read.
            if is_late {
                return Ok(Ran::Running(self.take()));
            }
            let left = time_left();
            is_late = left.is_zero();
            let wait = PollTimeout::try_from(left.min(LOOK)).unwrap_or(PollTimeout::ZERO);
            let mut pipes = vec![PollFd::new(self.state.pipe.as_fd(), PollFlags::POLLIN)];
            if !self.out.is_over {
                pipes.push(PollFd::new(self.out.pipe.as_fd(), PollFlags::POLLIN));
            }
            if !self.err.is_over {
                pipes.push(PollFd::new(self.err.pipe.as_fd(), PollFlags::POLLIN));
            }
            pipes.extend(self.terminal.fd().map(|terminal| PollFd::new(terminal, PollFlags::POLLIN)));
            let _ = poll(&mut pipes, wait);
            // The output of a command is complete before its shell ends: so the state is read first, and then the output.
            self.state.read()?;
            self.terminal.read();
            if self.out.read()? | self.err.read()? {
                self.terminal.heard();
            }
        }
    }

    /// Returns the output after its shell has ended; programs that it left running end too.
    fn ended(&mut self) -> std::io::Result<Output> {
        if !self.is_jail {
            // A process that can't be ended hangs in the kernel; waiting for it would be useless.
            let _ = end(self.child.id(), GRACE);
        }
        let status = self.child.wait()?;
        self.terminal.read();
        let _ = self.out.read()? | self.err.read()?;
        let mut output = Output { status: status_of(status), ..self.take() };
        let record = std::mem::take(&mut self.state.bytes);
        if let [options, cwd, left, text, b"end", ..] = record.split(|byte| *byte == 0).collect::<Vec<_>>()[..] {
            let cwd = Path::new(OsStr::from_bytes(cwd));
            output.cwd = Some(self.whole.as_ref().map_or_else(|| cwd.to_owned(), |whole| whole.of_workspace(cwd)));
            output.background = std::str::from_utf8(left).ok().and_then(|left| left.parse().ok()).unwrap_or(0);
            output.state = (text.len() + options.len() <= STATE_BYTES_MAX)
                .then(|| State { text: text.to_vec(), options: options.to_vec() });
        }
        Ok(output)
    }

    /// Returns the output since the last call.
    fn take(&mut self) -> Output {
        let dropped = std::mem::take(&mut self.out.dropped) + std::mem::take(&mut self.err.dropped);
        let (out, err) = (std::mem::take(&mut self.out.bytes), std::mem::take(&mut self.err.bytes));
        let is_on_copy = (self.is_jail || self.whole.is_some()) && self.layer.is_some();
        Output { out, err, terminal: self.terminal.take(), dropped, is_on_copy, ..Output::default() }
    }

    /// Puts back the output of a running command, as if it had not been returned yet. Nothing may have been read in between.
    pub(in crate::tools) fn take_back(&mut self, output: Output) {
        (self.out.bytes, self.err.bytes) = (output.out, output.err);
        self.out.dropped += output.dropped;
        self.terminal.take_back(output.terminal);
    }

    /// Returns the last line that was printed and not yet returned: from the stream with the newest output, or from the terminal
    /// if both are empty.
    pub(in crate::tools) fn last_line(&self) -> Option<String> {
        let (out, err) = (&self.out, &self.err);
        let [first, second] = if err.heard > out.heard { [err.tail(), out.tail()] } else { [out.tail(), err.tail()] };
        [first, second, self.terminal.written()].into_iter().find_map(last_line)
    }

    /// Ends bash and all that it started.
    pub(in crate::tools) fn kill(&mut self) {
        // A process that can't be ended hangs in the kernel; waiting for it would be useless.
        if end(self.child.id(), GRACE) {
            let _ = self.child.wait();
        }
    }
}

/// Returns the status as bash reports it: for a signal, 128 plus its number.
fn status_of(status: std::process::ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

/// Returns the last line that isn't blank.
pub(in crate::tools) fn last_line(bytes: &[u8]) -> Option<String> {
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

    /// Reads the available bytes, and returns whether there were any. Beyond the limit only the tail is stored, which has the
    /// last line.
    fn read(&mut self) -> std::io::Result<bool> {
        /// Number of bytes of the tail that are stored.
        const KEPT_TAIL: usize = 8 * 1024;
        /// Number of pieces per call: more than a pipe holds, and limited so that an endless output doesn't block the caller.
        const PIECES_MAX: usize = 128;
        let mut buffer = [0; 16 * 1024];
        let mut heard = false;
        for _ in 0..PIECES_MAX {
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
                let cut = KEPT_BYTES_MAX - KEPT_TAIL..self.bytes.len() - KEPT_TAIL;
                self.dropped += cut.len();
                self.bytes.drain(cut);
            }
        }
        Ok(heard)
    }

    /// The end of what was read.
    fn tail(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(TAIL_BYTES)..]
    }
}
