//! Start of programs for tools: held by the sandbox, on the terms that the gate's permit allows. Knows no tool.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::proto::action::Hold;
use crate::sandbox::{Area, Layer, MadeInHome, Outside, View};

/// On which terms a program starts.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// True if it has a network.
    pub network: bool,
    /// Way in which it sees the workspace.
    pub view: View,
    /// Paths outside the workspace that it may read.
    pub readable: Vec<PathBuf>,
    /// Paths outside the workspace that it may write, directly.
    pub writable: Vec<PathBuf>,
    /// Paths in a home that don't exist and that it may create. What it creates is moved there after it has ended.
    pub new_in_home: Vec<PathBuf>,
    /// Its private home and `/tmp`; a program that gets more than its copy has that of agreed programs.
    pub area: Area,
    /// A process started earlier whose loopback it shares.
    pub network_of: Option<u32>,
    /// More variables of its environment.
    pub variables: Vec<(String, OsString)>,
}

impl Terms {
    /// Returns whether the program gets more than its copy of the workspace: the network, or a path outside.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.network || !self.readable.is_empty() || !self.writable.is_empty() || !self.new_in_home.is_empty()
    }
}

/// Makes the command that starts a program with these arguments on these terms; fails, with the reason, if it can't be confined.
type Start = dyn Fn(&str, &[&str], &Terms) -> Result<Command, String> + Send + Sync;
/// Makes the layers of a copy of the workspace, with a note about the command that works on it.
type MakeLayer = dyn Fn(Option<&str>) -> Result<Arc<Layer>, String> + Send + Sync;

/// Way in which a jail shows a path outside of the workspace.
type LookOutside = dyn Fn(&Path) -> Option<Outside> + Send + Sync;

/// Finds the file or directory that a program made at a path of a home before it ended.
type FindMade = dyn Fn(&Path) -> Option<MadeInHome> + Send + Sync;

/// Starts programs for a model.
#[derive(Clone)]
pub struct Launcher {
    start: Arc<Start>,
    hold: Arc<dyn Fn() -> Hold + Send + Sync>,
    layer: Arc<MakeLayer>,
    outside: Arc<LookOutside>,
    made_in_home: Arc<FindMade>,
    /// Jobs work on copies too.
    is_bench: bool,
    /// The directory of a bench in which programs work if layers can't be mounted.
    whole: Arc<dyn Fn() -> Option<WholeBench> + Send + Sync>,
}

/// The directory with all files of a bench in which programs work if layers can't be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeBench {
    /// The directory.
    pub directory: PathBuf,
    /// The workspace, if programs see the directory at its own path and not at this one.
    pub apart_from: Option<PathBuf>,
}

impl WholeBench {
    /// A path of the workspace, as programs see it.
    pub(in crate::tools) fn seen(&self, path: &Path) -> PathBuf {
        let below = self.apart_from.as_ref().and_then(|workspace| path.strip_prefix(workspace).ok());
        below.map_or_else(|| path.to_owned(), |below| joined(&self.directory, below))
    }

    /// The path of the workspace that programs see as this one.
    pub(in crate::tools) fn of_workspace(&self, seen: &Path) -> PathBuf {
        let below = self.apart_from.as_ref().zip(seen.strip_prefix(&self.directory).ok());
        below.map_or_else(|| seen.to_owned(), |(workspace, below)| joined(workspace, below))
    }
}

/// Joins two paths without a trailing slash.
fn joined(top: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { top.to_owned() } else { top.join(below) }
}

impl Launcher {
    /// Puts it together. `hold` says how the machine can hold a program: it is asked only if one is to start. `layer` is
    /// asked only if that is [`Hold::Copy`].
    pub fn new(
        start: impl Fn(&str, &[&str], &Terms) -> Result<Command, String> + Send + Sync + 'static,
        hold: impl Fn() -> Hold + Send + Sync + 'static,
        layer: impl Fn(Option<&str>) -> Result<Arc<Layer>, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            start: Arc::new(start),
            hold: Arc::new(hold),
            layer: Arc::new(layer),
            outside: Arc::new(|_| None),
            made_in_home: Arc::new(|_| None),
            is_bench: false,
            whole: Arc::new(|| None),
        }
    }

    /// Returns the same launcher with a function that names the directory in which programs work if layers can't be mounted.
    #[must_use]
    pub fn in_whole(self, whole: impl Fn() -> Option<WholeBench> + Send + Sync + 'static) -> Self {
        Self { whole: Arc::new(whole), ..self }
    }

    /// The directory with all files of a bench in which programs work, if they do.
    #[must_use]
    pub fn whole(&self) -> Option<WholeBench> {
        (self.whole)()
    }

    /// Returns whether a program runs in a jail, which ends with all that it has started.
    #[must_use]
    pub fn has_jail(&self) -> bool {
        self.hold() == Hold::Copy && self.whole().is_none()
    }

    /// Returns the same launcher with a function that returns how a jail shows an outside path.
    #[must_use]
    pub fn with_outside(self, outside: impl Fn(&Path) -> Option<Outside> + Send + Sync + 'static) -> Self {
        Self { outside: Arc::new(outside), ..self }
    }

    /// Returns the same launcher with a function that finds what a program made in a home.
    #[must_use]
    pub fn with_homes(self, made: impl Fn(&Path) -> Option<MadeInHome> + Send + Sync + 'static) -> Self {
        Self { made_in_home: Arc::new(made), ..self }
    }

    /// Returns the same launcher for the bench of a git session, on which jobs work on a copy, too.
    #[must_use]
    pub fn on_bench(self, is_bench: bool) -> Self {
        Self { is_bench, ..self }
    }

    /// Returns whether programs work on the bench of a git session.
    #[must_use]
    pub fn is_on_bench(&self) -> bool {
        self.is_bench
    }

    /// One that holds nothing.
    #[cfg(test)]
    pub(in crate::tools) fn plain() -> Self {
        let start = |program: &str, arguments: &[&str], terms: &Terms| {
            let mut command = Command::new(program);
            command.args(arguments).envs(terms.variables.iter().cloned());
            Ok(command)
        };
        Self::new(start, || Hold::Walls, |_| Err("there are no copies".into()))
    }

    /// Returns how a program is confined.
    #[must_use]
    pub fn hold(&self) -> Hold {
        (self.hold)()
    }

    /// The command that starts a program.
    ///
    /// # Errors
    /// The reason why it can't be confined as it must be.
    pub fn command(&self, program: &str, arguments: &[&str], terms: &Terms) -> Result<Command, String> {
        (self.start)(program, arguments, terms)
    }

    /// Way in which a jail shows a path outside of the workspace; nothing if it may not be opened to a program.
    #[must_use]
    pub fn outside(&self, path: &Path) -> Option<Outside> {
        (self.outside)(path)
    }

    /// The paths of a home, outermost ones, that a program may make in its private one: nothing that is closed to each program is
    /// below or above them.
    #[must_use]
    pub fn may_make(&self, paths: Vec<PathBuf>) -> Vec<PathBuf> {
        let is_free = |path: &PathBuf| self.outside(path).is_some();
        let mut free: Vec<PathBuf> = paths.into_iter().filter(is_free).collect();
        free.sort();
        free.dedup_by(|path, above| path.starts_with(above));
        free
    }

    /// The files and directories that a program, which has ended, made of those that it was allowed to make in a home.
    #[must_use]
    pub fn made_in_home(&self, allowed: &[PathBuf]) -> Vec<MadeInHome> {
        allowed.iter().filter_map(|path| (self.made_in_home)(path)).collect()
    }

    /// Makes layers for a copy of the workspace. If its changes are to be applied, `command` is noted in a git session, in which
    /// it survives a crash.
    ///
    /// # Errors
    /// There is no room for them, or the machine doesn't support copies.
    pub fn layer(&self, command: Option<&str>) -> Result<Arc<Layer>, String> {
        (self.layer)(command)
    }
}
