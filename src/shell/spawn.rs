//! Starts the backing shell in its PTY with our integration, and leaves everything else as at a login.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::SigSet;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::sys::{self, Ignored, WindowSize};

const BASH: &str = include_str!("../../config/shell/bash.sh");
const ZSH: &str = include_str!("../../config/shell/reedclaw.zsh");
const FISH: &str = include_str!("../../config/shell/reedclaw.fish");

/// The integration of a shell, by the name of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// GNU bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

impl Dialect {
    /// Finds the dialect of a shell program; `None` if there is no integration for it.
    #[must_use]
    pub fn of(program: &Path) -> Option<Self> {
        match program.file_name()?.to_str()? {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            _ => None,
        }
    }

    /// The key sequence on which the shell loads the request and accepts it. No keyboard sends it; but fish 4 ignores keys that
    /// it doesn't know, so it gets function keys with Control, Alt and Shift.
    pub(super) fn submit_keys(self) -> &'static [u8] {
        match self {
            Self::Bash | Self::Zsh => b"\x1b[9999~",
            Self::Fish => b"\x1b[24;8~",
        }
    }

    /// The key sequence on which the shell completes the request.
    pub(super) fn complete_keys(self) -> &'static [u8] {
        match self {
            Self::Bash | Self::Zsh => b"\x1b[9996~",
            Self::Fish => b"\x1b[23;8~",
        }
    }

    /// The key sequence on which the shell presses the key in the request, and returns the line.
    pub(super) fn press_keys(self) -> &'static [u8] {
        match self {
            Self::Bash | Self::Zsh => b"\x1b[9991~",
            Self::Fish => b"\x1b[21;8~",
        }
    }

    /// The key sequence on which it returns the line unchanged, if that key has run a command or was interrupted.
    pub(super) fn release_keys(self) -> &'static [u8] {
        match self {
            Self::Bash | Self::Zsh => b"\x1b[9994~",
            Self::Fish => b"\x1b[20;8~",
        }
    }
}

/// The way in which the backing shell is started.
#[derive(Clone, Debug)]
pub struct Start {
    /// The shell's program.
    pub program: PathBuf,
    /// `true` if it is a login shell.
    pub login: bool,
    /// Command-line options for the shell itself (`--norc`, `-x`, `-o vi` …).
    pub arguments: Vec<OsString>,
    /// The size of its window.
    pub size: WindowSize,
    /// The signals that were ignored at our start, as under `nohup`: they stay ignored.
    pub ignored: Ignored,
    /// The channel to the supervisor, if there is one.
    pub front: Option<super::supervise::Front>,
}

/// The private channels between us and the running shell.
#[derive(Debug)]
pub struct Channels {
    /// The file from which the shell loads the next line.
    pub request: std::fs::File,
    /// A line written here lets the shell's prompt go on.
    pub acknowledge: PipeWriter,
    /// Names and completions, as records that end with NUL.
    pub report: PipeReader,
    /// The shell's end of `acknowledge`, held open so that the shell can open it by name again.
    acknowledge_reader: PipeReader,
    /// Held open for the same reason.
    report_writer: PipeWriter,
    /// The integration.
    script: std::fs::File,
    /// Removed at the end if zsh hasn't removed it.
    shim: Option<Shim>,
}

impl Channels {
    /// Writes the integration again for a shell that has read its files and waits at its prompt, with this nonce; returns its
    /// path.
    pub(super) fn write_for_adopted(&mut self, dialect: Dialect, nonce: &str) -> io::Result<String> {
        let text = match dialect {
            Dialect::Bash => self.fill(BASH, nonce).replace("@RCFILE@", "''").replace("@ENV@", "''"),
            Dialect::Zsh => self.fill(ZSH, nonce).replace("@ZDOTDIR@", "''"),
            Dialect::Fish => self.fill(FISH, nonce),
        };
        self.script.set_len(0)?;
        self.script.rewind()?;
        self.script.write_all(text.replace("@OPTIONS@", "-ra").as_bytes())?;
        Ok(here(&self.script))
    }

    fn fill(&self, text: &str, nonce: &str) -> String {
        text.replace("@REQUEST@", &here(&self.request))
            .replace("@ACK@", &here(&self.acknowledge_reader))
            .replace("@REPORT@", &here(&self.report_writer))
            .replace("@NONCE@", nonce)
    }

    /// Removes acknowledgements that the shell didn't wait for, because Ctrl-C interrupted it. Its line editor reads, so no one
    /// waits for them.
    pub(super) fn drop_acknowledgements(&mut self) {
        let mut set = [PollFd::new(self.acknowledge_reader.as_fd(), PollFlags::POLLIN)];
        if poll(&mut set, PollTimeout::ZERO).is_ok_and(|count| count > 0) {
            let _ = (&self.acknowledge_reader).read(&mut [0; 64]);
        }
    }
}

/// The shell's process.
#[derive(Debug)]
pub struct Child(Pid);

impl Child {
    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.as_raw().unsigned_abs()
    }

    /// Sends SIGINT to it.
    pub(super) fn interrupt(&self) {
        // The end of a shell is noticed elsewhere, so a failure doesn't matter.
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::Signal::SIGINT);
    }

    /// Returns whether it has been stopped; each stop is reported once.
    pub(super) fn has_stopped(&self) -> bool {
        let stopped = waitid(Id::Pid(self.0), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
        matches!(stopped, Ok(WaitStatus::Stopped(..)))
    }

    /// Continues its process group, which has been stopped.
    pub(super) fn go_on(&self) {
        // The end of a shell is noticed elsewhere.
        let _ = nix::sys::signal::killpg(self.0, nix::sys::signal::Signal::SIGCONT);
    }

    /// Returns how it ended, once after its end.
    pub(super) fn try_wait(&self) -> Option<ExitStatus> {
        match waitpid(self.0, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => Some(ExitStatus::from_raw((code & 0xff) << 8)),
            Ok(WaitStatus::Signaled(_, signal, dumped)) => {
                Some(ExitStatus::from_raw(signal as i32 | i32::from(dumped) << 7))
            }
            _ => None,
        }
    }
}

/// A running shell.
#[derive(Debug)]
pub struct Running {
    /// Our end of its terminal.
    pub master: PtyMaster,
    /// The path of its end.
    pub slave_path: PathBuf,
    /// The process.
    pub child: Child,
    /// The private ways.
    pub channels: Channels,
}

/// A pseudo-terminal: our end, and the other end with its path.
pub struct Pty {
    /// Our end.
    pub master: PtyMaster,
    /// The other end.
    pub slave: OwnedFd,
    /// The path of the other end.
    pub slave_path: PathBuf,
}

/// Opens a pseudo-terminal whose descriptors close on exec.
///
/// # Errors
/// The system has no pseudo-terminal left, or `/dev/pts` isn't there.
pub fn open_pty() -> io::Result<Pty> {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave_path = PathBuf::from(ptsname_r(&master)?);
    let slave = nix::fcntl::open(
        &slave_path,
        OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC,
        nix::sys::stat::Mode::empty(),
    )?;
    Ok(Pty { master, slave, slave_path })
}

/// Starts the shell.
///
/// # Errors
/// A PTY, a pipe or the process can't be made.
pub fn start(
    start: &Start,
    dialect: Dialect,
    nonce: &str,
    termios: &nix::sys::termios::Termios,
) -> io::Result<Running> {
    let pty = open_pty()?;
    nix::sys::termios::tcsetattr(&pty.slave, nix::sys::termios::SetArg::TCSANOW, termios)?;
    sys::set_window_size(std::os::fd::AsFd::as_fd(&pty.slave), start.size)?;
    let (acknowledge_reader, acknowledge) = io::pipe()?;
    let (report, report_writer) = io::pipe()?;
    let request = sys::memory_file(c"reedclaw-request")?;
    let script = sys::memory_file(c"reedclaw-integration")?;
    let script_path = here(&script);
    let mut channels = Channels { request, acknowledge, report, acknowledge_reader, report_writer, script, shim: None };
    let name = start.program.file_name().unwrap_or(start.program.as_os_str());
    let mut argv0 = OsString::from(if start.login { "-" } else { "" });
    argv0.push(name);
    let mut arguments = vec![argv0];
    let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let text = match dialect {
        Dialect::Bash => {
            let options = BashOptions::read(start);
            let own = environment.insert("ENV".into(), script_path.into()).unwrap_or_default();
            arguments.push("--posix".into());
            arguments.extend(options.passed_on);
            channels
                .fill(BASH, nonce)
                .replace("@OPTIONS@", &options.letters)
                .replace("@RCFILE@", &quote(&options.rcfile))
                .replace("@ENV@", &quote(&own))
        }
        Dialect::Zsh => {
            let (mut letters, passed_on) = zsh_options(&start.arguments);
            // It is interactive anyway, but this makes its command line differ from that of a zsh that replaces it (`exec zsh`).
            arguments.extend(["-o".into(), "interactive".into()]);
            let folder = Shim::make(Path::new(&script_path))?;
            let own = environment.insert("ZDOTDIR".into(), folder.0.clone().into());
            letters.push_str(if own.is_some() { "z" } else { "" });
            arguments.extend(passed_on);
            channels.shim = Some(folder);
            channels
                .fill(ZSH, nonce)
                .replace("@OPTIONS@", &letters)
                .replace("@ZDOTDIR@", &quote(&own.unwrap_or_default()))
        }
        Dialect::Fish => {
            arguments.extend(start.arguments.iter().cloned());
            arguments.extend(["--features=no-query-term".into(), "--init-command".into()]);
            arguments.push(format!("source {script_path}").into());
            channels.fill(FISH, nonce).replace("@OPTIONS@", "-")
        }
    };
    channels.script.write_all(text.as_bytes())?;
    let environment = environment.into_iter().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let child = spawn_on(&pty.slave_path, &start.program, arguments, environment, start.ignored)?;
    Ok(Running { master: pty.master, slave_path: pty.slave_path, child, channels })
}

/// The path at which the shell opens a descriptor of ours.
fn here(descriptor: &impl AsRawFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd())
}

/// Starts a program as the leader of a new session on a terminal, with the default action for every signal except those that stay
/// `ignored`. It doesn't copy the process, as `fork` would: that takes longer than everything else here.
fn spawn_on(
    terminal: &Path,
    program: &Path,
    arguments: Vec<OsString>,
    environment: impl IntoIterator<Item = OsString>,
    ignored: Ignored,
) -> io::Result<Child> {
    let text = |word: OsString| CString::new(word.as_bytes()).map_err(io::Error::from);
    let arguments = arguments.into_iter().map(text).collect::<io::Result<Vec<_>>>()?;
    let environment = environment.into_iter().map(text).collect::<io::Result<Vec<_>>>()?;
    let mut how = PosixSpawnAttr::init()?;
    how.set_sigdefault(&sys::all_signals_but(ignored))?;
    how.set_sigmask(&SigSet::empty())?;
    how.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::from_bits_retain(nix::libc::POSIX_SPAWN_SETSID.into()),
    )?;
    let mut streams = PosixSpawnFileActions::init()?;
    // The first terminal that a session leader opens becomes its controlling terminal.
    streams.add_open(0, terminal, OFlag::O_RDWR, nix::sys::stat::Mode::empty())?;
    streams.add_dup2(0, 1)?;
    streams.add_dup2(0, 2)?;
    let program = text(program.as_os_str().to_owned())?;
    Ok(Child(posix_spawnp(&program, &streams, &how, &arguments, &environment)?))
}

/// Bash's own start-up options that our integration carries out.
struct BashOptions {
    letters: String,
    rcfile: OsString,
    passed_on: Vec<OsString>,
}

impl BashOptions {
    fn read(start: &Start) -> Self {
        let mut options = Self { letters: "-".into(), rcfile: OsString::new(), passed_on: Vec::new() };
        if start.login {
            options.letters.push('l');
        }
        let mut arguments = start.arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--norc") => options.letters.push('r'),
                Some("--noprofile") => options.letters.push('n'),
                Some("--rcfile" | "--init-file") => options.rcfile = arguments.next().cloned().unwrap_or_default(),
                _ => options.passed_on.push(argument.clone()),
            }
        }
        options
    }
}

/// Removes zsh's "no start-up files" from its options: our own file must be read, and then carries the option out.
fn zsh_options(arguments: &[OsString]) -> (String, Vec<OsString>) {
    let mut letters = String::from("-");
    let mut passed_on = Vec::new();
    let mut is_value = false;
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        let short = text.starts_with('-') && !text.starts_with("--") && !is_value;
        if !is_value && matches!(text, "--no-rcs" | "--norcs" | "--no_rcs") {
            letters.push('f');
        } else if short && text.contains('f') {
            letters.push('f');
            let rest = text.replace('f', "");
            if rest.len() > 1 {
                passed_on.push(rest.into());
            }
        } else {
            passed_on.push(argument.clone());
        }
        is_value = !is_value && text.starts_with(['-', '+']) && !text.starts_with("--") && text.ends_with('o');
    }
    (letters, passed_on)
}

/// The private folder that zsh uses as its `ZDOTDIR` while it starts: it contains a link to our integration. The integration
/// removes the folder once it is read; this does if it was never read.
#[derive(Debug)]
struct Shim(PathBuf);

impl Shim {
    fn make(script: &Path) -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let within = |base: PathBuf| nix::unistd::mkdtemp(&base.join("reedclaw-zsh-XXXXXX"));
        let folder = runtime.and_then(|base| within(base).ok()).map_or_else(|| within(std::env::temp_dir()), Ok)?;
        let shim = Self(folder);
        std::os::unix::fs::symlink(script, shim.0.join(".zshenv"))?;
        Ok(shim)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // Both are usually gone already.
        if std::fs::remove_file(self.0.join(".zshenv")).is_ok() {
            let _ = std::fs::remove_dir(&self.0);
        }
    }
}

/// Quotes a word for a POSIX shell.
fn quote(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_names_have_an_integration() {
        let table = [
            ("/bin/bash", Some(Dialect::Bash)),
            ("/usr/bin/zsh", Some(Dialect::Zsh)),
            ("/opt/fish", Some(Dialect::Fish)),
            ("/bin/rbash", None),
            ("/bin/zsh-5.9", None),
            ("/bin/rzsh", None),
            ("/bin/sh", None),
            ("/", None),
        ];
        for (program, dialect) in table {
            assert_eq!(Dialect::of(Path::new(program)), dialect, "{program}");
        }
    }

    #[test]
    fn options_about_zshs_start_up_files_are_found() {
        let table: [(&[&str], &str, &[&str]); 6] = [
            (&["-f"], "-f", &[]),
            (&["-fx"], "-f", &["-x"]),
            (&["--no-rcs", "-x"], "-f", &["-x"]),
            (&["-o", "-f"], "-", &["-o", "-f"]),
            (&["-o", "vi", "-f"], "-f", &["-o", "vi"]),
            (&["+f"], "-", &["+f"]),
        ];
        for (words, letters, passed_on) in table {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let (seen, rest) = zsh_options(&words);
            assert_eq!((seen.as_str(), rest), (letters, passed_on.iter().map(OsString::from).collect()), "{words:?}");
        }
    }

    #[test]
    fn the_folder_for_zsh_is_private_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let shim = Shim::make(Path::new("/nowhere")).unwrap();
        let folder = shim.0.clone();
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_link(folder.join(".zshenv")).unwrap(), Path::new("/nowhere"));
        drop(shim);
        assert!(!folder.exists());
    }
}
