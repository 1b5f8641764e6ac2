//! The sandbox of what a model starts: the best that the machine has, chosen once and told.
//!
//! It owns how a program is started so that it can write in its workspace and a temporary directory of its own and nowhere
//! else, sees no credentials and nothing of ours, has no network unless that was approved, and can be ended with all that
//! it started. It must not know what is run, why, or who approved it.
//!
//! [`Sandbox::command`] gives an ordinary command. What it starts is this executable once more, with [`HELPER_WORD`] as
//! its first argument: that process, which has one thread, restricts itself ([`enter`]) and becomes the program. Between
//! fork and exec of a program with threads none of it could be done.
//!
//! | what | bubblewrap | Landlock | none |
//! |---|---|---|---|
//! | writes | workspace, own `/tmp` | workspace, own directory in `/tmp` | all |
//! | credentials, our own directories | empty | unreadable, and so are lists of the directories above them | readable |
//! | `/tmp`, `/run` | empty | unreadable | all |
//! | network, where not approved | none | no sockets at all, so no Unix sockets either | all |
//! | network, where approved | IPv4, IPv6 | the same | all |
//! | other processes | not seen | seen; no signals, no tracing | all |
//! | leaving its session | ends with the sandbox | `setsid` is refused | possible |
//! | limits, own session, closed descriptors, no setuid | yes | yes | yes |

mod bubblewrap;
mod end;
mod enter;
mod filter;
mod landlock;
mod masks;
#[cfg(test)]
mod tests;
mod tmp;
mod waiting;
mod wire;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use end::end;
pub use enter::{Calls, enter};
pub use masks::{credentials, protected};
pub use waiting::{AtTerminal, at_terminal};

use crate::proto::{Failure, FailureKind};
use tmp::Tmp;
use wire::Spec;

/// The first argument that makes this executable the helper. No script is called like that.
pub const HELPER_WORD: &str = "__reedclaw-sandbox";
/// The exit status of a helper that can't restrict itself; the program was not started.
pub const HELPER_FAILED: u8 = 125;
/// Longest wait for a trial of a tier.
const TRIAL_TIME: Duration = Duration::from_secs(5);
/// How often a trial is looked at.
const TRIAL_LOOK: Duration = Duration::from_millis(2);

/// What the config wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Without a sandbox nothing runs.
    Require,
    /// The best there is, or none.
    Prefer,
    /// None.
    Off,
}

/// How a program is held, the strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Not at all, but for limits and a session of its own.
    None,
    /// Landlock and seccomp.
    Landlock,
    /// Namespaces, by bubblewrap, and seccomp.
    Bubblewrap,
}

impl Tier {
    /// Its name, in receipts and wherever it is told.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Bubblewrap => "bubblewrap",
        }
    }
}

/// How a program sees its workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// It reads it, and can't write there.
    Look,
    /// It reads and writes it.
    #[default]
    Work,
}

/// What a program may do, and within which limits. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Where it works.
    pub workspace: PathBuf,
    /// How it sees that.
    pub view: View,
    /// Where else it may write; directories that are there.
    pub writable: Vec<PathBuf>,
    /// What it may read though it lies in what is masked, such as a plugin's own directory.
    pub readable: Vec<PathBuf>,
    /// What it may not write though it lies in the workspace: [`protected`]. Held by bubblewrap only, and for what is there
    /// at the start.
    pub read_only: Vec<PathBuf>,
    /// What it may not see: [`credentials`], our own directories.
    pub masked: Vec<PathBuf>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Whether it has a network.
    pub network: bool,
    /// Its whole environment; TMPDIR is set by the sandbox.
    pub env: BTreeMap<OsString, OsString>,
    /// Its limits.
    pub limits: Limits,
    /// How many descriptors it inherits, from 0; the rest is closed.
    pub descriptors: u32,
}

/// What a program may use up. The time on the wall is its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads, beside those that the user has; not held for root.
    pub processes: u64,
    /// Bytes of a file.
    pub file_bytes: u64,
    /// Seconds of processor time of a process, where limited.
    pub cpu_seconds: Option<u64>,
    /// Bytes of address space of a process, where limited. Runtimes reserve much more than they use.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        // A build of a large project starts some hundred; a fork bomb is stopped while the machine still answers.
        Self { processes: 1024, file_bytes: 16 << 30, cpu_seconds: None, memory_bytes: None }
    }
}

impl Grant {
    /// A program that works in a directory, without a network.
    #[must_use]
    pub fn new(workspace: PathBuf) -> Self {
        Self {
            cwd: workspace.clone(),
            workspace,
            view: View::default(),
            writable: Vec::new(),
            readable: Vec::new(),
            read_only: Vec::new(),
            masked: Vec::new(),
            network: false,
            env: BTreeMap::new(),
            limits: Limits::default(),
            descriptors: 3,
        }
    }
}

/// Why a program isn't started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SandboxError {
    /// What is wrong, and with what; one line.
    pub message: String,
    /// One thing to do next.
    pub hint: String,
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self { kind: FailureKind::Refused, message: error.message, hint: error.hint }
    }
}

/// A sandbox that was chosen.
#[derive(Debug)]
pub struct Sandbox {
    mode: Mode,
    tier: Tier,
    /// Why it isn't a better one, one line for each that was tried.
    notes: Vec<String>,
    helper: PathBuf,
    /// The directory that stands for `/tmp` where that can't be an own one.
    tmp: Mutex<Option<Tmp>>,
}

impl Sandbox {
    /// Chooses the best sandbox that works here, by trying each. `helper` is this executable (`/proc/self/exe`). It starts
    /// programs and takes some 10 ms.
    #[must_use]
    pub fn detect(mode: Mode, helper: PathBuf) -> Self {
        let mut notes = Vec::new();
        for tier in [Tier::Bubblewrap, Tier::Landlock] {
            if mode == Mode::Off {
                break;
            }
            match Self::of_tier(mode, tier, helper.clone()) {
                Ok(mut sandbox) => {
                    sandbox.notes = notes;
                    return sandbox;
                }
                Err(why) => notes.push(format!("{}: {why}", tier.name())),
            }
        }
        Self::made(mode, Tier::None, notes, helper)
    }

    /// The sandbox of one tier.
    ///
    /// # Errors
    /// Why it doesn't work here.
    pub fn of_tier(mode: Mode, tier: Tier, helper: PathBuf) -> Result<Self, String> {
        if tier == Tier::Bubblewrap && bubblewrap::find().is_none() {
            return Err("bwrap is not installed".into());
        }
        let sandbox = Self::made(mode, tier, Vec::new(), helper);
        if tier != Tier::None {
            sandbox.try_out()?;
        }
        Ok(sandbox)
    }

    fn made(mode: Mode, tier: Tier, notes: Vec<String>, helper: PathBuf) -> Self {
        Self { mode, tier, notes, helper, tmp: Mutex::new(None) }
    }

    /// What was chosen.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Why it isn't a better one, one line for each that was tried.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A command that starts a program, held as granted. It is spawned like any other, from a thread that lives as long
    /// as the program does: it is killed when that thread ends. What it starts is ended by [`end`].
    ///
    /// The caller may make it the leader of a session with a terminal of its own; else it leads one without.
    ///
    /// The status [`HELPER_FAILED`] and a line on standard error say that it could not be held and was not started.
    ///
    /// # Errors
    /// A sandbox is required and there is none, a directory isn't there, or what may be written holds, or lies in, what
    /// may not be seen.
    pub fn command(&self, program: &OsStr, arguments: &[OsString], grant: &Grant) -> Result<Command, SandboxError> {
        if self.mode == Mode::Require && self.tier == Tier::None {
            return Err(SandboxError {
                message: format!("a sandbox is required, and none works here ({})", self.notes.join("; ")),
                hint: "install bubblewrap; reedclaw doctor says more".into(),
            });
        }
        let mut spec = self.spec(grant)?;
        let mut env = grant.env.clone();
        if let Some(tmp) = self.own_tmp(&mut spec)? {
            env.insert("TMPDIR".into(), tmp.into());
        }
        let text = serde_json::to_string(&spec).map_err(|error| SandboxError {
            message: format!("the sandbox can't be described: {error}"),
            hint: String::new(),
        })?;
        let mut command = Command::new(&self.helper);
        command.arg(HELPER_WORD).arg(text).arg(program).args(arguments);
        command.env_clear().envs(env).current_dir(&grant.cwd);
        Ok(command)
    }

    /// What the helper has to know.
    fn spec(&self, grant: &Grant) -> Result<Spec, SandboxError> {
        let workspace = directory(&grant.workspace)?;
        let mut readable = grant.readable.clone();
        let mut writable = Vec::new();
        match grant.view {
            View::Look => readable.push(workspace),
            View::Work => writable.push(workspace),
        }
        for path in &grant.writable {
            writable.push(directory(path)?);
        }
        let masked: Vec<PathBuf> = grant.masked.iter().map(|path| masks::resolve(path)).collect();
        let pairs = writable.iter().flat_map(|open| masked.iter().map(move |masked| (open, masked)));
        for (open, masked) in pairs.filter(|_| self.tier != Tier::None) {
            if masked.starts_with(open) || open.starts_with(masked) {
                let relation = if masked.starts_with(open) { "holds" } else { "lies in" };
                return Err(SandboxError {
                    message: format!(
                        "tools can't work in {}: it {relation} {}, which they may not see",
                        open.display(),
                        masked.display()
                    ),
                    hint: "choose another directory as the workspace, such as one below your home".into(),
                });
            }
        }
        let all = |paths: &[PathBuf]| paths.iter().map(|path| masks::resolve(path).into_os_string()).collect();
        Ok(Spec {
            parent: std::process::id(),
            tier: self.tier,
            writable: writable.into_iter().map(PathBuf::into_os_string).collect(),
            readable: all(&readable),
            read_only: all(&grant.read_only),
            masked: masked.into_iter().map(PathBuf::into_os_string).collect(),
            cwd: grant.cwd.clone().into_os_string(),
            tmp: None,
            network: grant.network,
            limits: grant.limits.into(),
            descriptors: grant.descriptors.max(3),
        })
    }

    /// The temporary directory that the program is told: `/tmp` where the sandbox has its own, else a directory that this
    /// value keeps; none without a sandbox.
    fn own_tmp(&self, spec: &mut Spec) -> Result<Option<PathBuf>, SandboxError> {
        match self.tier {
            Tier::None => Ok(None),
            Tier::Bubblewrap => Ok(Some("/tmp".into())),
            Tier::Landlock => {
                let mut tmp = self.tmp.lock().unwrap_or_else(PoisonError::into_inner);
                let held = match tmp.take() {
                    Some(held) if held.path().is_dir() => held,
                    _ => Tmp::make(Path::new("/tmp")).map_err(|error| SandboxError {
                        message: format!("no temporary directory can be made in /tmp: {error}"),
                        hint: "free some disk space, or look at its permissions".into(),
                    })?,
                };
                let path = tmp.insert(held).path().to_owned();
                spec.tmp = Some(path.clone().into_os_string());
                Ok(Some(path))
            }
        }
    }

    /// Starts a program that does nothing, with all that a real one is held by.
    fn try_out(&self) -> Result<(), String> {
        let workspace = nix::unistd::mkdtemp("/tmp/reedclaw-XXXXXX").map_err(|error| format!("/tmp: {error}"))?;
        let tried = self.try_in(&workspace);
        let _ = std::fs::remove_dir_all(&workspace);
        tried
    }

    fn try_in(&self, workspace: &Path) -> Result<(), String> {
        let grant = Grant { masked: credentials(Path::new("/root")), ..Grant::new(workspace.to_owned()) };
        let mut command = self.command(OsStr::new("/bin/true"), &[], &grant).map_err(|error| error.message)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("it can't be started: {error}"))?;
        let began = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(_)) => break,
                Ok(None) if began.elapsed() < TRIAL_TIME => std::thread::park_timeout(TRIAL_LOOK),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err("a trial did not end".into());
                }
            }
        }
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&output.stderr);
        Err(told.trim().lines().last().map_or_else(|| format!("a trial failed, {}", output.status), str::to_owned))
    }
}

/// A directory by its one true path.
fn directory(path: &Path) -> Result<PathBuf, SandboxError> {
    let found = path.canonicalize().and_then(|path| match path.is_dir() {
        true => Ok(path),
        false => Err(std::io::ErrorKind::NotADirectory.into()),
    });
    found.map_err(|error| SandboxError {
        message: format!("tools can't work in {}: {error}", path.display()),
        hint: "make the directory, or choose another one".into(),
    })
}
