//! Git as a program. A repository can name programs that git runs: monitors, hooks, filters, those of submodules, pagers,
//! signers. All of them are switched off here, nothing is fetched, no lock is taken and no question is asked; and git starts in a
//! jail, so that a program that runs in spite of that can change nothing. It must not know how the jail is made.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::project::Repository;

use crate::base::program::is_program;

/// Variables that git needs to find its own config.
const VARIABLES: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "PATH"];
/// Options that a repository's config can't override, since they precede git's subcommand. A bare repository is only used if it
/// is named, because a clone may contain one with a config of its own.
const SWITCHES: [&str; 10] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
];
/// Limit on the bytes that are read of the names of a config's keys.
const NAMES_BYTES_MAX: u64 = 1024 * 1024;

/// Jails a program: gets its command, with arguments, environment and directory, and the paths that it reads besides that
/// directory; returns the command to start instead, which writes nothing and has no network. The error is the reason why it can't
/// be jailed; then it isn't started.
pub type Jail = Arc<dyn Fn(Command, &[PathBuf]) -> Result<Command, String> + Send + Sync>;

/// The way in which git is started.
#[derive(Clone)]
pub struct GitOptions {
    /// The variables `PATH`, `HOME` and those that locate git's own config; others aren't passed on.
    pub env: Vec<(OsString, OsString)>,
    /// Jails the git command.
    pub jail: Jail,
}

impl fmt::Debug for GitOptions {
    // An environment may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitOptions").finish_non_exhaustive()
    }
}

/// The reason why git printed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no git, or it refuses.
    NoGit,
    /// A repository of another kind, a damaged one, or one whose config can't be read reliably.
    Unreadable,
    /// Took too long.
    Slow,
    /// Stopped.
    Stopped,
}

/// The first git on `PATH` that isn't the repository's own.
pub(in crate::project) fn find_git(root: &Path, env: &[(OsString, OsString)]) -> Option<PathBuf> {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let is_program = |path: &PathBuf| is_program(path) && path.canonicalize().is_ok_and(|real| !real.starts_with(root));
    let directories = std::env::split_paths(path.unwrap_or(OsStr::new("/usr/bin:/bin")));
    directories.filter(|directory| directory.is_absolute()).map(|directory| directory.join("git")).find(is_program)
}

/// The git command with these words, for the work tree at `root`. The work tree is named, because otherwise `core.worktree` could
/// lead elsewhere. Git finds its directory itself, only in `root`: it checks the owner only if the directory isn't named.
fn command(git: &Path, root: &Path, env: &[(OsString, OsString)], words: &[String]) -> Command {
    let mut command = Command::new(git);
    command.arg("--no-pager").args(SWITCHES.iter().flat_map(|switch| ["-c", switch])).args(words);
    command.current_dir(root).env_clear();
    command.envs(env.iter().filter(|(name, _)| VARIABLES.iter().any(|wanted| name == wanted)).cloned());
    command.env("GIT_WORK_TREE", root);
    if let Some(above) = root.parent() {
        command.env("GIT_CEILING_DIRECTORIES", above);
    }
    command.envs([
        ("LC_ALL", "C"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
    ]);
    command
}

/// Git for comparing files with its own data: every filter that any config names is overridden by an empty one.
pub(in crate::project) struct Quiet<'a> {
    git: PathBuf,
    root: &'a Path,
    options: &'a GitOptions,
    /// The paths that it reads besides the work tree.
    reads: Vec<PathBuf>,
    /// Time limit for one answer.
    wait: Duration,
    words: Vec<String>,
}

/// The output of git.
pub(in crate::project) struct Output {
    pub bytes: Vec<u8>,
    /// `true` if the output is complete.
    pub is_whole: bool,
}

impl Output {
    /// The output as text, with replacement characters for invalid UTF-8.
    pub(in crate::project) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl<'a> Quiet<'a> {
    /// Finds git, and the filters to override.
    ///
    /// # Errors
    /// There is no git, or it fails. The names of a config's keys can't be read completely or aren't UTF-8: a filter among them
    /// couldn't be overridden, so nothing is run.
    pub(in crate::project) fn new(root: &'a Path, options: &'a GitOptions, wait: Duration) -> Result<Self, Trouble> {
        let git = find_git(root, &options.env).ok_or(Trouble::NoGit)?;
        let reads = Repository::find(root).map(|repository| repository.outside()).unwrap_or_default();
        let mut quiet = Self { git, root, options, reads, wait, words: Vec::new() };
        let names = quiet.output(&["config", "--list", "--name-only", "-z"], NAMES_BYTES_MAX)?;
        let names = String::from_utf8(names.bytes).ok().filter(|_| names.is_whole).ok_or(Trouble::Unreadable)?;
        // A filter runs when git compares a file with its own data; an empty filter does nothing.
        for filter in filters(&names) {
            // An option can't set a name with this character, so it can't override the filter.
            if filter.contains('=') {
                return Err(Trouble::Unreadable);
            }
            for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                quiet.words.extend(["-c".to_owned(), format!("filter.{filter}.{key}={value}")]);
            }
        }
        Ok(quiet)
    }

    /// Runs git within the time limit; returns its output if it succeeds, limited to `bytes_max`.
    pub(in crate::project) fn output(&self, words: &[&str], bytes_max: u64) -> Result<Output, Trouble> {
        let words: Vec<String> = self.words.iter().cloned().chain(words.iter().map(|&word| word.to_owned())).collect();
        let command = command(&self.git, self.root, &self.options.env, &words);
        let mut command = (self.options.jail)(command, &self.reads).map_err(|_| Trouble::NoGit)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
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
            kill(&mut child);
        }
        // Git has closed its output, was killed, or printed more than is read: in each case it ends without help.
        let status = child.wait();
        match heard {
            Ok(Ok(bytes)) => {
                let is_whole = (bytes.len() as u64) < bytes_max;
                if is_whole && !status.is_ok_and(|status| status.success()) {
                    return Err(Trouble::NoGit);
                }
                Ok(Output { bytes, is_whole })
            }
            Err(RecvTimeoutError::Timeout) => Err(Trouble::Slow),
            _ => Err(Trouble::NoGit),
        }
    }
}

/// Kills git and, if the jail made it the leader of a group, its children.
fn kill(child: &mut Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let _ = child.kill();
}

/// The filters that the names of a config's keys define.
pub(in crate::project) fn filters(names: &str) -> Vec<&str> {
    let mut filters: Vec<&str> = names.split('\0').filter_map(filter_of).collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}

fn filter_of(name: &str) -> Option<&str> {
    name.strip_prefix("filter.")?.rsplit_once('.').map(|(filter, _)| filter)
}
