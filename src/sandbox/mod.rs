//! The sandbox for programs that a model starts: the best that the machine offers, chosen once and reported.
//!
//! It owns how a program is started so that it can write only in its workspace and in a private temporary directory, sees no
//! credentials and none of our files, has no network unless that was approved, and can be ended with all its children. It must
//! not know what is run, why, or who approved it.
//!
//! [`Sandbox::command`] returns an ordinary command. The command starts this executable again, with [`HELPER_WORD`] as its first
//! argument: that process, which has one thread, restricts itself ([`enter`]) and becomes the program. Between fork and exec of a
//! program with threads none of that would be possible.
//!
//! | what | overlay | bubblewrap | Landlock | none |
//! |---|---|---|---|---|
//! | workspace | a copy whose changes are looked at, or as below | written directly, or read-only | the same | all |
//! | that of a git session | the session's files at its path | a directory with copies there | the same at its own path | refused |
//! | other writes | own `/tmp` and home | own `/tmp` | own directory in `/tmp` | all |
//! | home | empty but for tools | readable but for credentials | the same | all |
//! | credentials, our own directories | empty | empty | unreadable, as are lists of the directories above them | readable |
//! | `/tmp`, `/run` | empty | empty | unreadable | all |
//! | network, unless approved | its own loopback | its own loopback, no Unix sockets | no sockets | all |
//! | network, if approved | IPv4, IPv6; Unix sockets that were granted | IPv4, IPv6 | the same | all |
//! | other processes | not seen | not seen | seen; no signals, no tracing | all |
//! | leaving its session | ends with the program | ends with the sandbox | `setsid` is refused | possible |
//! | limits, own session, closed descriptors, no setuid | yes | yes | yes | yes |

mod bubblewrap;
mod changes;
#[cfg(test)]
mod changes_tests;
mod end;
mod helper;
mod made;
mod masks;
mod missed;
mod overlay;
mod scratch;
mod sockets;
#[cfg(test)]
mod tests;
mod tmp;
mod waiting;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use changes::{Change, ChangeKind, Changes, CollectError, CollectLimits, collect, collect_whole};
pub use end::{end, end_all};
pub use helper::enter::{Calls, enter};
pub use made::MadeInHome;
use masks::Resolver;
pub use masks::{Outside, credentials, entries_without, home_of_user, outside, protected};
pub use missed::Missed;
pub use scratch::{Area, Layer};
pub use waiting::{AtTerminal, at_terminal};

use crate::files::Layers;
use crate::proto::Failure;
use helper::wire::{JailWire, PathWire, ShownWire, Spec, ViewWire, paths};
use scratch::Scratch;
use tmp::Tmp;

/// The first argument that makes this executable the helper. No script has that name.
pub const HELPER_WORD: &str = "__reedclaw-sandbox";
/// The exit status of a helper that can't restrict itself; the program was not started.
pub const HELPER_FAILED: u8 = 125;
/// Time limit of the trial of a tier.
const TRIAL_TIME: Duration = Duration::from_secs(5);
/// Interval for checking a trial.
const TRIAL_LOOK: Duration = Duration::from_millis(2);

/// The mode that the config asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Without a sandbox nothing runs.
    Require,
    /// The best sandbox that works, or none.
    Prefer,
    /// None.
    Off,
}

/// Form of restriction of a program, the strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// No restriction except for limits and a separate session.
    None,
    /// Landlock and seccomp.
    Landlock,
    /// Namespaces, by bubblewrap, and seccomp.
    Bubblewrap,
    /// Namespaces that we create, a copy-on-write view of the workspace, and seccomp.
    Overlay,
}

impl Tier {
    /// The tier's name, in receipts and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Bubblewrap => "bubblewrap",
            Self::Overlay => "overlay",
        }
    }

    /// The tier of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::None, Self::Landlock, Self::Bubblewrap, Self::Overlay].into_iter().find(|tier| tier.name() == name)
    }
}

/// A program's access to its workspace.
#[derive(Clone, Debug, Default)]
pub enum View {
    /// Reads it, but can't write there.
    Look,
    /// Reads and writes it.
    #[default]
    Work,
    /// Writes to a copy of it: only the overlay tier makes one. With the others the copy is [`Grant::whole`].
    Copy(Arc<Layer>),
    /// Reads it but can't write there, and sees only the tools in the homes, since its effects aren't known yet. The layer
    /// records what it was refused. Only the tiers without copies have this view.
    First(Arc<Layer>),
}

/// The rights of a program, and its limits. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The directory that it works in.
    pub workspace: PathBuf,
    /// Directories of ours that are shown in the workspace's place, stacked, the topmost first; if empty, the workspace is shown.
    /// The overlay tier supports it; the others need [`Grant::whole`] as well.
    pub shown_instead: Vec<PathBuf>,
    /// Directories that are shown read-only in the workspace, each with its path there, which is an empty directory. With
    /// Landlock they are readable at their own paths.
    pub shown_at: Vec<(PathBuf, PathBuf)>,
    /// A directory of ours with all the files of [`Grant::shown_instead`]. Bubblewrap binds it at the workspace's path; with
    /// Landlock the program works in it at its own path, and can only read the workspace.
    pub whole: Option<PathBuf>,
    /// The access to the workspace.
    pub view: View,
    /// Further paths that it may write: existing files and directories.
    pub writable: Vec<PathBuf>,
    /// The readable paths inside masked ones, such as a plugin's own directory.
    pub readable: Vec<PathBuf>,
    /// The read-only paths in the workspace: [`protected`]. Only bubblewrap enforces them, and only for entries that exist at the
    /// start.
    pub read_only: Vec<PathBuf>,
    /// The hidden paths: [`credentials`], our own directories.
    pub masked: Vec<PathBuf>,
    /// The directory in which it starts.
    pub cwd: PathBuf,
    /// True if it has a network.
    pub network: bool,
    /// An earlier program whose loopback it shares; only with the overlay tier.
    pub network_of: Option<u32>,
    /// Homes: the overlay tier shows a private one, with the tools in it. The first is `$HOME`.
    pub homes: Vec<PathBuf>,
    /// The private home and `/tmp` that it sees with the overlay tier.
    pub area: Area,
    /// Paths in a home at which nothing exists, and which the program may create: the overlay tier lets it create them in its
    /// private home, from which [`Sandbox::made_in_home`] returns them. That home must be the one for agreed programs.
    pub new_in_home: Vec<PathBuf>,
    /// Its whole environment; TMPDIR is set by the sandbox.
    pub env: BTreeMap<OsString, OsString>,
    /// Its limits.
    pub limits: Limits,
    /// Number of descriptors that it inherits, from 0; all others are closed.
    pub descriptors: u32,
}

/// The limits of a program's resources. Its caller limits the wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads in addition to the user's own; no limit for root.
    pub processes: u64,
    /// Bytes of a file.
    pub file_bytes: u64,
    /// Seconds of processor time of a process, if limited.
    pub cpu_seconds: Option<u64>,
    /// Bytes of address space of a process, if limited. Runtimes reserve much more than they use.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        // A build of a large project starts a few hundred; a fork bomb is stopped while the machine still responds.
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
            shown_instead: Vec::new(),
            shown_at: Vec::new(),
            whole: None,
            view: View::default(),
            writable: Vec::new(),
            readable: Vec::new(),
            read_only: Vec::new(),
            masked: Vec::new(),
            network: false,
            network_of: None,
            homes: Vec::new(),
            area: Area::default(),
            new_in_home: Vec::new(),
            env: BTreeMap::new(),
            limits: Limits::default(),
            descriptors: 3,
        }
    }
}

/// Reason why a program can't be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SandboxError {
    /// The problem and its subject; one line.
    pub message: String,
    /// One thing to do next.
    pub hint: String,
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self::refused(error.message).hint(error.hint)
    }
}

/// The sandbox that was chosen.
#[derive(Debug)]
pub struct Sandbox {
    mode: Mode,
    tier: Tier,
    /// Reasons why no better sandbox is used, one line for each that was tried.
    notes: Vec<String>,
    helper: PathBuf,
    /// The directory that replaces `/tmp` if the sandbox can't have its own.
    tmp: Mutex<Option<Tmp>>,
    /// The directory for the overlay tier's files.
    place: Option<PathBuf>,
    scratch: Mutex<Option<Arc<Scratch>>>,
}

/// The directories for a sandbox.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// A directory of ours in which the overlay tier stores the changes that programs make to their copies.
    pub state: Option<PathBuf>,
    /// The workspace, in which a tier is tried out.
    pub workspace: Option<PathBuf>,
    /// The strongest tier that is tried; with `None`, all of them.
    pub strongest: Option<Tier>,
}

impl Sandbox {
    /// Chooses the best sandbox that works in this place, by trying each. `helper` is this executable (`/proc/self/exe`). The
    /// trials start programs and take about 10 ms.
    #[must_use]
    pub fn detect(mode: Mode, helper: PathBuf, place: &Place) -> Self {
        let mut notes = Vec::new();
        for tier in [Tier::Overlay, Tier::Bubblewrap, Tier::Landlock] {
            if mode == Mode::Off {
                break;
            }
            if let Some(strongest) = place.strongest.filter(|strongest| tier > *strongest) {
                notes.push(format!("{}: security.tier is \"{}\"", tier.name(), strongest.name()));
                continue;
            }
            match Self::of_tier(mode, tier, helper.clone(), place) {
                Ok(mut sandbox) => {
                    sandbox.notes = notes;
                    return sandbox;
                }
                Err(why) => notes.push(format!("{}: {why}", tier.name())),
            }
        }
        Self::build(mode, Tier::None, notes, helper, place)
    }

    /// The sandbox of one tier.
    ///
    /// # Errors
    /// Why it doesn't work here.
    pub fn of_tier(mode: Mode, tier: Tier, helper: PathBuf, place: &Place) -> Result<Self, String> {
        if tier == Tier::Bubblewrap && bubblewrap::find().is_none() {
            return Err("bwrap is not installed".into());
        }
        let sandbox = Self::build(mode, tier, Vec::new(), helper, place);
        match tier {
            Tier::None => {}
            Tier::Overlay => sandbox.try_overlay(place.workspace.as_deref())?,
            Tier::Bubblewrap | Tier::Landlock => sandbox.try_out()?,
        }
        Ok(sandbox)
    }

    fn build(mode: Mode, tier: Tier, notes: Vec<String>, helper: PathBuf, place: &Place) -> Self {
        let state = place.state.clone();
        Self { mode, tier, notes, helper, tmp: Mutex::new(None), place: state, scratch: Mutex::new(None) }
    }

    /// Creates new layers for a copy of the workspace, for [`View::Copy`] and [`View::First`].
    ///
    /// # Errors
    /// There is no sandbox, or no room for the layers.
    pub fn layer(&self, workspace: &Path) -> Result<Arc<Layer>, SandboxError> {
        self.layer_in(workspace, None, None)
    }

    /// Creates layers, also for a program that writes in a directory with all files, if `whole` names one. They are below
    /// `folder`, if that is `Some`, where they survive a crash.
    ///
    /// # Errors
    /// The same as for [`Sandbox::layer`].
    pub fn layer_in(
        &self,
        workspace: &Path,
        whole: Option<PathBuf>,
        folder: Option<&Path>,
    ) -> Result<Arc<Layer>, SandboxError> {
        let failed = |why: String| SandboxError {
            message: format!("a copy of {} can't be made: {why}", workspace.display()),
            hint: "free some disk space; reedclaw doctor says more".into(),
        };
        if self.tier == Tier::None {
            return Err(failed(format!("the sandbox is {}", self.tier.name())));
        }
        let layer = self.scratch().and_then(|it| it.layer(workspace, folder));
        layer.map(|it| Arc::new(it.in_whole(whole))).map_err(|error| failed(error.to_string()))
    }

    /// The directories of this session, which are created at first use.
    fn scratch(&self) -> std::io::Result<Arc<Scratch>> {
        let mut scratch = self.scratch.lock();
        if let Some(scratch) = scratch.as_ref().filter(|it| it.is_there()) {
            return Ok(Arc::clone(scratch));
        }
        let place = self.place.as_ref().ok_or_else(|| std::io::Error::other("there is no state directory"))?;
        let made = Arc::new(Scratch::make(place)?);
        *scratch = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the chosen tier.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the reasons why no better sandbox is used, one line for each that was tried.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns a command that starts a program with the restrictions of its grant. It is spawned like any other, from a thread
    /// that lives as long as the program: the program is killed when that thread ends. Its children are ended by [`end`].
    ///
    /// The caller may make it the leader of a session with its own terminal; otherwise it leads one without a terminal.
    ///
    /// The status [`HELPER_FAILED`] and a line on standard error mean that it could not be restricted and was not started.
    ///
    /// # Errors
    /// A sandbox is required and there is none, a directory doesn't exist, or a writable path contains, or lies in, a hidden one.
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
        command.env_clear().envs(env).current_dir(spec.cwd.path());
        Ok(command)
    }

    /// Returns the directory with all files, which replaces the workspace if layers can't be mounted.
    fn whole(&self, grant: &Grant) -> Result<Option<PathBuf>, SandboxError> {
        let is_mounted = self.tier == Tier::Overlay;
        if grant.shown_instead.is_empty() || is_mounted || self.tier > Tier::None && matches!(grant.view, View::Look) {
            return Ok(None);
        }
        let refused = |hint: &str| SandboxError {
            message: format!("a command of a git session needs a sandbox, and here it is {}", self.tier.name()),
            hint: hint.into(),
        };
        if self.tier == Tier::None {
            return Err(refused("file tools work; reedclaw doctor says what the sandbox lacks"));
        }
        let whole = grant.whole.as_ref().ok_or_else(|| refused("its files aren't ready; try again"))?;
        directory(whole).map(Some)
    }

    /// Finds the file or directory that a program made at a path of a home before it ended: see [`Grant::new_in_home`].
    #[must_use]
    pub fn made_in_home(&self, path: &Path, homes: &[PathBuf]) -> Option<MadeInHome> {
        self.scratch().ok()?.made_in_home(path, homes)
    }

    /// Returns the helper's orders.
    fn spec(&self, grant: &Grant) -> Result<Spec, SandboxError> {
        let workspace = directory(&grant.workspace)?;
        let whole = self.whole(grant)?;
        let is_apart = whole.is_some() && self.tier == Tier::Landlock;
        let mut readable = grant.readable.clone();
        let mut writable = Vec::new();
        let jail = match self.tier {
            Tier::Overlay => Some(self.jail(&workspace, grant)?),
            // The program works at the directory's own path, and can only read the workspace's path.
            Tier::Landlock if is_apart => {
                readable.push(workspace.clone());
                readable.extend(grant.shown_at.iter().map(|(source, _)| source.clone()));
                None
            }
            Tier::None | Tier::Landlock | Tier::Bubblewrap => {
                match grant.view {
                    View::Look | View::First(_) => readable.push(workspace.clone()),
                    View::Work | View::Copy(_) => writable.push(workspace.clone()),
                }
                None
            }
        };
        for path in &grant.writable {
            writable.push(existing(path)?);
        }
        let mut links = Resolver::default();
        let mut masked: Vec<PathBuf> = grant.masked.iter().map(|path| links.resolve(path)).collect();
        if self.tier != Tier::None {
            let open: Vec<&PathBuf> = writable.iter().chain(jail.is_some().then_some(&workspace)).collect();
            overlap(&open, &masked, jail.is_some())?;
        }
        if jail.is_none() && (whole.is_some() || matches!(grant.view, View::First(_))) {
            hide_homes(grant, &workspace, &mut masked, &mut readable);
        }
        // A hidden path of the workspace is hidden in the directory that replaces it, too.
        masked.extend(hidden_in(whole.as_ref().filter(|_| is_apart), &workspace, &masked));
        writable.extend(whole.clone().filter(|_| is_apart));
        let cwd = cwd_in(whole.as_ref().filter(|_| is_apart), grant);
        let bound = whole.filter(|_| !is_apart).map(|whole| [(&whole).into(), (&workspace).into()]);
        let shown_at = grant.shown_at.iter().filter(|_| bound.is_some());
        let shown_at = shown_at.map(|(source, place)| [source.into(), (&workspace.join(place)).into()]).collect();
        let mut all = |paths: &[PathBuf]| paths.iter().map(|path| (&links.resolve(path)).into()).collect();
        let masked = match &jail {
            Some(jail) => jail_masks(masked, jail),
            None => masked,
        };
        Ok(Spec {
            parent: std::process::id(),
            tier: self.tier,
            writable: writable.iter().map(PathWire::from).collect(),
            readable: all(&readable),
            read_only: all(&grant.read_only),
            masked: masked.iter().map(PathWire::from).collect(),
            cwd: (&cwd).into(),
            bound,
            shown_at,
            tmp: None,
            network: grant.network,
            network_of: grant.network_of,
            refused: match (&grant.view, self.tier) {
                // Inside bubblewrap it can't be observed.
                (View::First(layer), Tier::Landlock) => Some(PathWire::from(&layer.refused)),
                (View::Copy(layer), Tier::Landlock) if is_apart => Some(PathWire::from(&layer.refused)),
                _ => None,
            },
            jail,
            limits: grant.limits.into(),
            descriptors: grant.descriptors.max(3),
        })
    }

    /// The file system of a jail.
    fn jail(&self, workspace: &Path, grant: &Grant) -> Result<JailWire, SandboxError> {
        if workspace.parent().is_none() {
            return Err(SandboxError {
                message: "tools can't work in /: it holds the whole system".into(),
                hint: "choose another directory as the workspace, such as one below your home".into(),
            });
        }
        let failed = |error: std::io::Error| SandboxError {
            message: format!("the sandbox has no place for its directories: {error}"),
            hint: "free some disk space, or look at the permissions of the state directory".into(),
        };
        let scratch = self.scratch().map_err(failed)?;
        let layer = match &grant.view {
            View::Copy(layer) => Some(&**layer),
            View::Look | View::First(_) | View::Work => None,
        };
        let area = scratch.area(grant.area, layer).map_err(failed)?;
        let of = |path: &Path| PathWire::from(path.as_os_str().to_owned());
        let shown = |it: scratch::Shown| ShownWire {
            upper: of(&it.upper),
            below: it.below.map(|below| below.map(|path| of(&path))),
        };
        let (homes, tools) = homes_and_tools(grant);
        for path in &grant.new_in_home {
            scratch.make_room(path, &grant.homes).map_err(failed)?;
        }
        Ok(JailWire {
            workspace: of(workspace),
            shown_instead: grant.shown_instead.iter().map(|path| of(path)).collect(),
            shown_at: grant.shown_at.iter().map(|(source, place)| [of(source), of(&workspace.join(place))]).collect(),
            view: match &grant.view {
                View::Look | View::First(_) => ViewWire::Look,
                View::Work => ViewWire::Work,
                View::Copy(layer) => {
                    ViewWire::Copy { upper: of(&layer.upper), work: of(&layer.work), refused: of(&layer.refused) }
                }
            },
            tmp: shown(area.tmp),
            home: shown(area.home),
            homes: homes.iter().map(|home| of(home)).collect(),
            kept_of_home: tools.iter().map(|path| of(path)).collect(),
            new_in_home: grant.new_in_home.iter().map(|path| of(path)).collect(),
        })
    }

    /// The program's temporary directory: `/tmp` if the sandbox has its own, otherwise a directory that this value owns; `None`
    /// without a sandbox.
    fn own_tmp(&self, spec: &mut Spec) -> Result<Option<PathBuf>, SandboxError> {
        match self.tier {
            Tier::None => Ok(None),
            Tier::Bubblewrap | Tier::Overlay => Ok(Some("/tmp".into())),
            Tier::Landlock => {
                let mut tmp = self.tmp.lock();
                let held = match tmp.take() {
                    Some(held) if held.path().is_dir() => held,
                    _ => Tmp::make(Path::new("/tmp")).map_err(|error| SandboxError {
                        message: format!("no temporary directory can be made in /tmp: {error}"),
                        hint: "free some disk space, or look at its permissions".into(),
                    })?,
                };
                let path = tmp.insert(held).path().to_owned();
                spec.tmp = Some((&path).into());
                Ok(Some(path))
            }
        }
    }

    /// Starts a program that does nothing, with all restrictions of a real one.
    fn try_out(&self) -> Result<(), String> {
        let workspace = nix::unistd::mkdtemp("/tmp/reedclaw-XXXXXX").map_err(|error| format!("/tmp: {error}"))?;
        let tried = self.try_in(&workspace);
        let _ = std::fs::remove_dir_all(&workspace);
        tried
    }

    fn try_in(&self, workspace: &Path) -> Result<(), String> {
        let grant = Grant { masked: credentials(Path::new("/root")), ..Grant::new(workspace.to_owned()) };
        self.try_program(&["/bin/true"], &grant)
    }

    /// Tries the overlay tier: a copy of a small directory, in which the changes must be found exactly, and a copy of the
    /// workspace itself.
    fn try_overlay(&self, workspace: Option<&Path>) -> Result<(), String> {
        const CHANGES: &str = "set -e; rm gone; rm -r again; mkdir again; : >new; : </dev/null";
        let words = |error: std::io::Error| error.to_string();
        let lower = self.scratch().map_err(words)?.area(Area::Session, None).map_err(words)?.tmp.upper.join("trial");
        std::fs::create_dir_all(lower.join("again/below")).map_err(words)?;
        std::fs::write(lower.join("gone"), "").map_err(words)?;
        let layer = self.layer(&lower).map_err(|error| error.message)?;
        let grant = Grant { view: View::Copy(Arc::clone(&layer)), ..Grant::new(lower.clone()) };
        let tried = self.try_program(&["/bin/sh", "-c", CHANGES], &grant).and_then(|()| {
            let below = Layers::open([&*lower]).map_err(|(path, error)| format!("{}: {error}", path.display()))?;
            let changes = collect(&layer, &below, &CollectLimits::default()).map_err(|error| error.to_string())?;
            let paths: Vec<_> = changes.items.iter().map(|it| it.path.display().to_string()).collect();
            if paths == ["again/below", "gone", "new"] {
                Ok(())
            } else {
                Err(format!("changes on a copy are found wrongly: {}", paths.join(", ")))
            }
        });
        let _ = std::fs::remove_dir_all(&lower);
        tried?;
        let Some(workspace) = workspace else { return Ok(()) };
        if let Some(mount) = changes::mount_below(workspace) {
            return Err(format!("another file system is mounted in the workspace ({})", mount.display()));
        }
        let layer = self.layer(workspace).map_err(|error| error.message)?;
        self.try_program(&["/bin/true"], &Grant { view: View::Copy(layer), ..Grant::new(workspace.to_owned()) })
    }

    fn try_program(&self, words: &[&str], grant: &Grant) -> Result<(), String> {
        let arguments: Vec<OsString> = words[1..].iter().map(OsString::from).collect();
        let mut command = self.command(OsStr::new(words[0]), &arguments, grant).map_err(|error| error.message)?;
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
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(errors.trim().lines().last().map_or_else(|| format!("a trial failed, {}", output.status), str::to_owned))
    }
}

/// Refuses paths that are open to a program although they lie in a hidden path, or contain one that can't be hidden.
fn overlap(open: &[&PathBuf], masked: &[PathBuf], has_jail: bool) -> Result<(), SandboxError> {
    for (open, masked) in open.iter().flat_map(|open| masked.iter().map(move |masked| (open, masked))) {
        // Mounts also cover masked paths in the workspace, and Landlock opens only the paths beside them. Without a jail neither
        // can prevent a program from creating a masked path that does not exist yet.
        let is_covered = has_jail || masked.exists();
        if open.starts_with(masked) || !is_covered && masked.starts_with(open) {
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
    Ok(())
}

/// Returns the directory in which a program starts; `apart` is the directory that replaces the workspace at its own path.
fn cwd_in(apart: Option<&PathBuf>, grant: &Grant) -> PathBuf {
    let below = apart.and_then(|whole| Some(whole.join(grant.cwd.strip_prefix(&grant.workspace).ok()?)));
    below.unwrap_or_else(|| grant.cwd.clone())
}

/// Returns the hidden paths of the workspace, in the directory that replaces it at its own path.
fn hidden_in(apart: Option<&PathBuf>, workspace: &Path, masked: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |path: &PathBuf| Some(apart?.join(path.strip_prefix(workspace).ok()?));
    masked.iter().filter_map(inside).filter(|path| path.symlink_metadata().is_ok()).collect()
}

/// Hides the homes except for tools, and except for a home that was granted as a whole.
fn hide_homes(grant: &Grant, workspace: &Path, masked: &mut Vec<PathBuf>, readable: &mut Vec<PathBuf>) {
    let (homes, tools) = homes_and_tools(grant);
    let is_hidden = |home: &PathBuf| *home != workspace && !readable.iter().any(|it| home.starts_with(it));
    masked.extend(homes.into_iter().filter(is_hidden));
    readable.extend(tools);
}

/// Returns the homes to hide, and the tools in them that stay visible. A home that contains the system can't be hidden.
fn homes_and_tools(grant: &Grant) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut links = Resolver::default();
    let homes: Vec<PathBuf> = grant.homes.iter().map(|home| links.resolve(home)).collect();
    let homes: Vec<PathBuf> = homes.into_iter().filter(|home| home.components().count() > 1 && home.is_dir()).collect();
    let tools = masks::tools_of(&homes, grant.env.get(OsStr::new("PATH")).map(OsString::as_os_str));
    (homes, tools)
}

/// Returns the paths to mask in a jail: those that exist, and aren't hidden with the homes anyway.
fn jail_masks(masked: Vec<PathBuf>, jail: &JailWire) -> Vec<PathBuf> {
    let homes: Vec<PathBuf> = paths(&jail.homes).collect();
    let shown: Vec<PathBuf> = paths(&jail.kept_of_home).chain([jail.workspace.path()]).collect();
    let is_seen = |path: &PathBuf| {
        !homes.iter().any(|home| path.starts_with(home))
            || shown.iter().any(|shown| path.starts_with(shown) || shown.starts_with(path))
    };
    masked.into_iter().filter(|path| is_seen(path) && path.symlink_metadata().is_ok()).collect()
}

/// Returns the canonical path of a writable file or directory.
fn existing(path: &Path) -> Result<PathBuf, SandboxError> {
    path.canonicalize().map_err(|error| SandboxError {
        message: format!("{} can't be opened to a program: {error}", path.display()),
        hint: "make it first, or let the program write in the workspace".into(),
    })
}

/// Returns the canonical path of a directory.
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
