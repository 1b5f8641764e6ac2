//! Git as a program. A repository can name programs that git runs: monitors, hooks, filters, those of submodules. What is
//! built here runs none of the first two, fetches nothing, takes no lock and asks nobody; the rest is with the commands.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Variables that git needs to find its own config.
const VARIABLES: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "PATH"];
/// Bytes of the names of a config's keys that are read.
const NAMES_BYTES_MAX: u64 = 1024 * 1024;

/// Why git has said nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No git is there, or it doesn't want to.
    NoGit,
    /// A repository of another kind, or a damaged one.
    Unreadable,
    /// It took too long.
    Slow,
    /// It was stopped.
    Stopped,
}

/// The first git on `PATH` that isn't the repository's own.
pub(super) fn find_git(root: &Path, env: &[(OsString, OsString)]) -> Option<PathBuf> {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
            && path.canonicalize().is_ok_and(|real| !real.starts_with(root))
    };
    let directories = std::env::split_paths(path.unwrap_or(OsStr::new("/usr/bin:/bin")));
    directories.filter(|directory| directory.is_absolute()).map(|directory| directory.join("git")).find(is_program)
}

/// Git with these words, in a directory; its output is piped.
pub(super) fn command(git: &Path, root: &Path, env: &[(OsString, OsString)], words: &[String]) -> Command {
    let mut command = Command::new(git);
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]).args(words);
    command.current_dir(root).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.envs(env.iter().filter(|(name, _)| VARIABLES.iter().any(|wanted| name == wanted)).cloned());
    command.envs([
        ("LC_ALL", "C"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
    ]);
    command
}

/// Git for what compares files with what it has: every filter that any config names is overridden with nothing.
pub(super) struct Quiet<'a> {
    git: PathBuf,
    root: &'a Path,
    env: &'a [(OsString, OsString)],
    /// Longest wait for one answer.
    wait: Duration,
    words: Vec<String>,
}

/// What git has printed.
pub(super) struct Output {
    pub text: String,
    /// There was no more.
    pub is_whole: bool,
}

impl<'a> Quiet<'a> {
    pub(super) fn new(root: &'a Path, env: &'a [(OsString, OsString)], wait: Duration) -> Result<Self, Trouble> {
        let mut quiet = Self { git: find_git(root, env).ok_or(Trouble::NoGit)?, root, env, wait, words: Vec::new() };
        let names = quiet.output(&["config", "--list", "--name-only", "-z"], NAMES_BYTES_MAX)?;
        // A filter runs where git compares a file with what it has: an empty one is none.
        for filter in filters(&names.text) {
            // A name with this sign can't be given by an option, so it can't be taken away by one.
            if filter.contains('=') {
                return Err(Trouble::NoGit);
            }
            for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                quiet.words.extend(["-c".to_owned(), format!("filter.{filter}.{key}={value}")]);
            }
        }
        Ok(quiet)
    }

    /// Runs git within the time; what it prints where it succeeds, or the first of it.
    pub(super) fn output(&self, words: &[&str], bytes_max: u64) -> Result<Output, Trouble> {
        let words: Vec<String> = self.words.iter().cloned().chain(words.iter().map(|&word| word.to_owned())).collect();
        let mut command = command(&self.git, self.root, self.env, &words);
        let mut child = command.spawn().map_err(|_| Trouble::NoGit)?;
        let output = child.stdout.take().ok_or(Trouble::NoGit)?;
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(bytes_max).read_to_end(&mut bytes);
            let _ = sender.send(read.map(|_| bytes));
        });
        let heard = receiver.recv_timeout(self.wait);
        if heard.is_err() {
            let _ = child.kill();
        }
        // It has closed its output, been killed, or has more to say than is read: then it ends by itself.
        let status = child.wait();
        match heard {
            Ok(Ok(bytes)) => {
                let is_whole = (bytes.len() as u64) < bytes_max;
                if is_whole && !status.is_ok_and(|status| status.success()) {
                    return Err(Trouble::NoGit);
                }
                Ok(Output { text: String::from_utf8_lossy(&bytes).into_owned(), is_whole })
            }
            Err(RecvTimeoutError::Timeout) => Err(Trouble::Slow),
            _ => Err(Trouble::NoGit),
        }
    }
}

/// The filters that any config names.
pub(super) fn filters(names: &str) -> Vec<&str> {
    let mut filters: Vec<&str> = names.split('\0').filter_map(filter_of).collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}

fn filter_of(name: &str) -> Option<&str> {
    name.strip_prefix("filter.")?.rsplit_once('.').map(|(filter, _)| filter)
}
