//! The supervisor: a small parent process that outlives any crash of the front-end.
//!
//! It remembers the terminal's modes, waits, and ends as the front-end requests. If a front-end ends without a word (panic,
//! SIGSEGV, `kill -9`), the person gets a restored terminal and a plain shell. It has one thread and knows nothing else.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::bytes::modes::RESET_ALL;
use super::sys::{self, Ignored, Side};

/// Time in which a terminal must answer after the front-end has crashed.
const REPLY_WAIT: Duration = Duration::from_millis(500);
/// Limit on the input that is dropped then.
const DROPPED_BYTES_MAX: usize = 64 * 1024;

/// The channel by which the front-end passes its ending to the supervisor.
#[derive(Debug)]
pub struct LastWord {
    pipe: PipeWriter,
}

/// A channel to the supervisor: the process that multiplexers and terminals look at.
#[derive(Clone, Debug)]
pub struct Front {
    pipe: Arc<PipeWriter>,
    shows_program: bool,
}

impl Front {
    /// Returns whether the supervisor shows the name of the program in the foreground: under tmux, which reads it from the
    /// command line. Elsewhere the name would only mislead people who look for the program.
    #[must_use]
    pub(super) fn shows_program(&self) -> bool {
        self.shows_program
    }

    /// Makes the supervisor change to the shell's directory.
    pub(super) fn go_to(&self, cwd: &Path) {
        self.say(b"cwd ", cwd.as_os_str().as_bytes());
    }

    /// Makes the supervisor show a program's name, or its own again.
    pub(super) fn name_program(&self, name: &str) {
        self.say(b"program ", name.as_bytes());
    }

    fn say(&self, what: &[u8], value: &[u8]) {
        // If the supervisor ends, this process ends too.
        let _ = (&*self.pipe).write_all(&[what, value, b"\0"].concat());
    }
}

/// The ending of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// End with this exit code.
    Exit(i32),
    /// End by this signal, as the shell did.
    Signal(i32),
    /// Never reached a prompt; the reason, in one line.
    NotStarted(String),
    /// Ended without a word; the known details.
    Crashed(String),
}

impl Ending {
    /// The ending that mirrors a process's.
    #[must_use]
    pub fn mirror(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Exit(1),
        }
    }
}

impl LastWord {
    /// The channel to the supervisor until the end.
    #[must_use]
    pub fn front(&self) -> Option<Front> {
        let shows_program = std::env::var_os("TMUX").is_some();
        Some(Front { pipe: Arc::new(self.pipe.try_clone().ok()?), shows_program })
    }

    /// Leaves the front-end's last word and ends the process.
    pub fn end(mut self, ending: &Ending) -> ! {
        let word = match ending {
            Ending::Exit(code) => format!("exit {code}"),
            Ending::Signal(signal) => format!("signal {signal}"),
            Ending::NotStarted(reason) => format!("failed {reason}"),
            Ending::Crashed(_) => String::new(),
        };
        let _ = self.pipe.write_all(word.as_bytes());
        std::process::exit(0)
    }
}

/// Forks; runs `front_end` in the child and returns its ending in the parent, with the terminal restored. `ignored` are the
/// signals that were ignored at the start.
///
/// # Errors
/// There is no terminal on standard input, or no room for another process.
pub fn supervise(ignored: Ignored, front_end: impl FnOnce(LastWord)) -> io::Result<Ending> {
    let modes = tcgetattr(io::stdin())?;
    let (mut reader, writer) = io::pipe()?;
    match sys::fork_single_threaded()? {
        Side::Child => {
            drop(reader);
            sys::signal_when_parent_ends(Signal::SIGHUP);
            for signal in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU, Signal::SIGINT, Signal::SIGQUIT] {
                sys::ignore(signal);
            }
            front_end(LastWord { pipe: writer });
            std::process::exit(70)
        }
        Side::Parent(child) => {
            drop(writer);
            let ending = watch(child, &mut reader, ignored)?;
            restore(&modes, matches!(ending, Ending::Crashed(_)));
            Ok(ending)
        }
    }
}

fn watch(child: Pid, reader: &mut PipeReader, before: Ignored) -> io::Result<Ending> {
    use signal_hook::consts::{SIGHUP, SIGTERM};
    let ignored = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
    for signal in ignored {
        sys::ignore(signal);
    }
    let (mut signals, writer) = UnixStream::pair()?;
    for signal in [SIGHUP, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    let terminate = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&terminate))?;
    let hang_up = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&hang_up))?;
    let mut title = std::env::var_os("TMUX").and_then(|_| sys::CommandLine::own());
    let mut named = false;
    // From here on this process only waits.
    sys::release_program_pages();
    let mut word = Vec::new();
    loop {
        let mut set = [PollFd::new(reader.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        if poll(&mut set, PollTimeout::NONE).is_err() {
            continue;
        }
        let happened = |index: usize| set[index].revents().is_some_and(|flags| !flags.is_empty());
        let (spoke, signalled) = (happened(0), happened(1));
        if signalled {
            let mut drain = [0; 16];
            let _ = signals.read(&mut drain);
            // A program that ends processes by the displayed name doesn't mean the session; bash wouldn't end either.
            if hang_up.load(Ordering::Acquire) || (terminate.swap(false, Ordering::AcqRel) && !named) {
                let _ = kill(child, Signal::SIGHUP);
            }
        }
        if spoke {
            let mut buffer = [0; 512];
            match reader.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => word.extend_from_slice(&buffer[..count]),
            }
            follow(&mut word, &mut title, &mut named);
        }
    }
    if let Some(title) = &mut title {
        title.show(b"");
    }
    let status = loop {
        match waitpid(child, None) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other,
        }
    };
    for signal in ignored.into_iter().filter(|signal| !before.has(*signal)) {
        sys::default_action(signal);
    }
    Ok(read_word(&String::from_utf8_lossy(&word)).unwrap_or_else(|| {
        Ending::Crashed(match status {
            Ok(WaitStatus::Signaled(_, signal, _)) => format!("was killed ({signal})"),
            Ok(WaitStatus::Exited(_, code)) => format!("has failed (status {code})"),
            _ => "has failed".into(),
        })
    }))
}

/// Carries out the front-end's requests: changes to a directory, shows a program's name.
fn follow(word: &mut Vec<u8>, title: &mut Option<sys::CommandLine>, named: &mut bool) {
    while let Some(end) = word.iter().position(|byte| *byte == 0) {
        let record: Vec<u8> = word.drain(..=end).collect();
        if let Some(cwd) = record[..end].strip_prefix(b"cwd ") {
            let _ = nix::unistd::chdir(Path::new(OsStr::from_bytes(cwd)));
        } else if let Some(name) = record[..end].strip_prefix(b"program ")
            && let Some(title) = title
        {
            *named = !name.is_empty();
            title.show(name);
        }
    }
}

fn read_word(word: &str) -> Option<Ending> {
    let (kind, rest) = word.split_once(' ')?;
    match kind {
        "exit" => rest.parse().ok().map(Ending::Exit),
        "signal" => rest.parse().ok().map(Ending::Signal),
        "failed" => Some(Ending::NotStarted(rest.to_owned())),
        _ => None,
    }
}

fn restore(modes: &Termios, crashed: bool) {
    if crashed {
        let _ = io::stdout().write_all(RESET_ALL.as_bytes());
        let _ = io::stdout().write_all(b"\r\n");
        drop_replies();
    }
    let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, modes);
}

/// Removes the terminal's answers to the front-end's questions, which the next shell would read as keys: asks once more, and
/// drops everything up to that answer. Keys typed meanwhile are dropped too; it is better to lose half a line than to run it.
fn drop_replies() {
    let stdin = io::stdin();
    let _ = io::stdout().write_all(b"\x1b[5n").and_then(|()| io::stdout().flush());
    let until = Instant::now() + REPLY_WAIT;
    let mut seen = Vec::new();
    while memchr::memmem::find(&seen, b"\x1b[0n").is_none() && seen.len() < DROPPED_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        if poll(&mut [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)], timeout).unwrap_or(0) == 0 {
            break;
        }
        let mut buffer = [0; 512];
        match nix::unistd::read(&stdin, &mut buffer) {
            Ok(count @ 1..) => seen.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
}

/// Ends this process by a signal, as the shell below it ended.
pub fn end_by_signal(signal: i32) -> ! {
    if let Ok(known) = Signal::try_from(signal) {
        sys::default_action(known);
        let _ = raise(known);
    }
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_goes_on_after_it_has_let_go_of_its_pages() {
        static TABLE: [&str; 3] = ["exit 1", "signal 2", "failed x"];
        sys::release_program_pages();
        assert_eq!(TABLE.iter().filter_map(|word| read_word(word)).count(), 3);
    }

    #[test]
    fn a_last_word_is_read_back() {
        assert_eq!(read_word("exit 4"), Some(Ending::Exit(4)));
        assert_eq!(read_word("signal 15"), Some(Ending::Signal(15)));
        assert_eq!(read_word("failed no room"), Some(Ending::NotStarted("no room".into())));
        assert_eq!(read_word(""), None);
        assert_eq!(read_word("exi"), None);
    }
}
