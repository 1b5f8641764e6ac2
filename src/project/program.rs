//! Git as a program. A repository can name programs that git runs: monitors, hooks, filters, those of submodules. What is
//! built here runs none of the first two, fetches nothing, takes no lock and asks nobody; the rest is with the commands.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables that git needs to find its own config.
const VARIABLES: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "PATH"];

/// Why git has said nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No git is there, or it doesn't want to.
    NoGit,
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
