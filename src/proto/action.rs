//! The action that a model requests, its effects on the machine, and the policy's verdict: plain data. The words of rules and
//! receipts are defined here, so that no two rooms spell them differently.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::known_paths::derived;
use super::served::{PinStanding, Reach};

/// The action that a model requests, as a tool's plan describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A command line for bash.
    Shell {
        /// The exact line; possibly several lines.
        command: String,
    },
    /// Reads a file.
    Read {
        /// As the model wrote it: absolute, or from the working directory.
        path: String,
    },
    /// Reads several files completely, and adds their contents to later questions.
    Open {
        /// As the model wrote them.
        paths: Vec<String>,
    },
    /// Lists a directory.
    List {
        /// As the model wrote it.
        path: String,
    },
    /// Makes a file or replaces one.
    Write {
        /// As the model wrote it.
        path: String,
    },
    /// Removes a file.
    Delete {
        /// As the model wrote it.
        path: String,
    },
    /// Changes several files as one.
    Edit {
        /// Files that are made or changed, as the model wrote them.
        writes: Vec<String>,
        /// Files that are removed.
        deletes: Vec<String>,
    },
    /// Applies the changes that a command made on its copy of the workspace.
    Keep {
        /// The command that ran.
        command: String,
        /// Files and links that are made or changed, relative to the workspace.
        writes: Vec<String>,
        /// Files and directories that are removed, relative to the workspace.
        deletes: Vec<String>,
        /// Directories with a changed mode, and new ones without a new file in them, relative to the workspace.
        directories: Vec<String>,
        /// Paths that are never changed without a question, each with the reason: links that lead out or to a protected file,
        /// directories of git whose mode changes.
        guarded: Vec<(String, &'static str)>,
        /// Paths that become a link or another kind of entry, or get another mode: no lasting rule covers them.
        special: Vec<String>,
        /// Rows about the changes that a text difference doesn't show. Text from outside: it must be escaped when it is shown.
        others: Vec<String>,
    },
    /// Sends a request.
    Http {
        /// The method, in capitals.
        method: String,
        /// The whole address.
        url: String,
    },
    /// Changes a board of a team.
    Canvas {
        /// The board's id.
        canvas: String,
    },
    /// Touches nothing outside: the time, a search in the memory, a question to the person.
    Inert {
        /// The tool's name.
        name: String,
    },
    /// A plugin's program.
    External {
        /// The tool's name.
        name: String,
    },
    /// A tool of a server.
    Served {
        /// The server's name.
        server: String,
        /// The tool's name at the server.
        tool: String,
        /// The state of a person's approval of its definition.
        standing: PinStanding,
        /// Identifies the approval, and changes with each new one; empty if "always" can't be chosen for its calls.
        pin: String,
        /// Its reach.
        reach: Reach,
        /// `true` if its program may write in the workspace.
        may_write: bool,
        /// `true` if its server declares that it may destroy something.
        is_destructive: bool,
        /// `true` if the user's own configuration lets it run without a question.
        is_granted: bool,
        /// `true` if the user's own configuration requires a question, whatever else would let it run.
        is_asked: bool,
    },
}

/// The paths of changes, as a lasting rule stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPaths {
    /// Paths with new content; a directory that tools fill is one, with a slash at its end, whatever happens in it.
    pub written: Vec<String>,
    /// Paths that are removed.
    pub removed: Vec<String>,
    /// `true` if something else is changed, which no rule covers.
    pub has_special: bool,
}

impl Action {
    /// Returns the paths of the changes that an action applies; `None` for another action.
    #[must_use]
    pub fn kept_paths(&self) -> Option<KeptPaths> {
        let Self::Keep { writes, deletes, directories, special, .. } = self else { return None };
        let filled = |path: &String| derived(Path::new(path)).map(|directory| format!("{}/", directory.display()));
        let mut written = BTreeSet::new();
        written.extend(writes.iter().chain(directories).map(|path| filled(path).unwrap_or_else(|| path.clone())));
        written.extend(deletes.iter().filter_map(filled));
        let removed: BTreeSet<&String> = deletes.iter().filter(|path| filled(path).is_none()).collect();
        Some(KeptPaths {
            written: written.into_iter().collect(),
            removed: removed.into_iter().cloned().collect(),
            has_special: special.iter().any(|path| filled(path).is_none()),
        })
    }
}

/// The risk of an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Only reads, and only permitted places.
    Low,
    /// Changes something, inside the workspace.
    Medium,
    /// Reaches further, deletes, or isn't completely understood.
    #[default]
    High,
    /// Never run, even with a person's consent.
    Blocked,
}

impl Risk {
    /// Every risk, from the least.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Blocked];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Blocked => "blocked",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The consequence of a risk under an autonomy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Runs.
    Run,
    /// The person is asked.
    Ask,
    /// Not run.
    Deny,
}

impl Decision {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A need of an action beyond a private copy of the workspace without a network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// The network.
    Network {
        /// The host; empty if it isn't known.
        host: String,
    },
    /// Reading a path outside the workspace that the jail hides.
    Read {
        /// The absolute path.
        path: String,
    },
    /// Writing a path outside the workspace.
    Write {
        /// The absolute path.
        path: String,
    },
    /// A Unix socket of a service outside the jail.
    Socket {
        /// The absolute path.
        path: String,
    },
    /// Processes, services or devices outside the jail.
    Host {
        /// The part of the machine, in a few words.
        what: String,
    },
}

impl Need {
    /// The kind of need, as `policy explain` prints it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Network { .. } => "network",
            Self::Read { .. } | Self::Write { .. } => "path",
            Self::Socket { .. } => "socket",
            Self::Host { .. } => "host",
        }
    }
}

/// The confinement of a model's command while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Only limits, since no sandbox works: its changes are immediate.
    Nothing,
    /// Only limits, since the user's config wants no sandbox: the person is asked instead.
    Off,
    /// Walls around the workspace, which it changes directly.
    #[default]
    Walls,
    /// A private copy of the workspace: its changes are looked at afterwards.
    Copy,
}

/// A model's freedom to act without asking, in order: a later level includes the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Autonomy {
    /// Only reads.
    Readonly,
    /// Reads; the person is asked about anything that changes something.
    #[default]
    Supervised,
    /// Works in the workspace; for anything beyond, the person is asked.
    Full,
}

impl Autonomy {
    /// The words for them, as the config spells them.
    pub const WORDS: &'static [&'static str] = &["readonly", "supervised", "full"];

    /// The autonomy of this name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "readonly" => Self::Readonly,
            "supervised" => Self::Supervised,
            "full" => Self::Full,
            _ => return None,
        })
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl fmt::Display for Autonomy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The reason for a risk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The rule, a stable identifier such as `delete-root`.
    pub rule: &'static str,
    /// The risk by this rule alone.
    pub risk: Risk,
    /// The reason in words, one line. It may quote the action, so it must be escaped when it is shown.
    pub text: String,
}

/// An effect of an action, as far as it can be predicted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A program or builtin is run.
    Exec {
        /// Its words; an unknown part is `?`.
        argv: Vec<String>,
    },
    /// A file is made, changed or removed.
    Write {
        /// The path, absolute if possible.
        path: String,
        /// The kind of change.
        how: WriteKind,
    },
    /// A file is read.
    Read {
        /// The path, absolute if possible.
        path: String,
    },
    /// Another machine is contacted.
    Net {
        /// The host; empty if it is unknown.
        host: String,
    },
    /// A process gets a signal.
    Signal {
        /// The target, as in the command.
        target: String,
    },
    /// A variable, function or alias is set that changes the meaning of later words.
    Define {
        /// Its name.
        name: String,
    },
}

/// The kind of change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// Made or replaced.
    Write,
    /// Something is appended.
    Append,
    /// Removed.
    Delete,
    /// Removed with everything below it.
    DeleteTree,
    /// Its mode, owner or attributes change.
    Mode,
    /// Renamed, or replaced by a renamed file.
    Move,
}

impl WriteKind {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Append => "append",
            Self::Delete => "delete",
            Self::DeleteTree => "delete-tree",
            Self::Mode => "mode",
            Self::Move => "move",
        }
    }
}

/// The policy's verdict on an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVerdict {
    /// The risk.
    pub risk: Risk,
    /// The consequence of the risk.
    pub decision: Decision,
    /// The reasons, the most important first; never empty.
    pub reasons: Vec<Reason>,
    /// Its effects, in the order in which they were found; truncated at a limit, which a reason then names.
    pub effects: Vec<Effect>,
    /// Its needs beyond a private copy of the workspace; empty if the copy suffices.
    pub needs: Vec<Need>,
}

impl PolicyVerdict {
    /// Returns the same verdict with more needs, for which `decide` decides again.
    #[must_use]
    pub fn with_needs(mut self, needs: &[Need], decide: impl FnOnce(&Self) -> Decision) -> Self {
        if !needs.is_empty() {
            self.needs.extend(needs.iter().filter(|need| !self.needs.contains(need)).cloned().collect::<Vec<_>>());
            self.decision = decide(&self);
        }
        self
    }
}

impl fmt::Display for Need {
    /// Writes one line for a person. It may quote the action, so the caller escapes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { host } if host.is_empty() => f.write_str("it needs the network"),
            Self::Network { host } => write!(f, "it needs the network ({host})"),
            Self::Read { path } => write!(f, "it reads {path}"),
            Self::Write { path } => write!(f, "it writes {path} directly"),
            Self::Socket { path } => write!(f, "it uses the service at {path}, which acts for you outside the sandbox"),
            Self::Host { what } => write!(f, "it needs {what}"),
        }
    }
}

impl fmt::Display for Effect {
    /// Writes one line for a person. It quotes the action, so the caller escapes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec { argv } => write!(f, "runs {}", argv.join(" ")),
            Self::Write { path, how: WriteKind::Append } => write!(f, "appends to {path}"),
            Self::Write { path, how: WriteKind::Delete } => write!(f, "deletes {path}"),
            Self::Write { path, how: WriteKind::DeleteTree } => write!(f, "deletes {path} and all below it"),
            Self::Write { path, how: WriteKind::Mode } => write!(f, "changes who may use {path}"),
            Self::Write { path, how: WriteKind::Move } => write!(f, "moves {path}"),
            Self::Write { path, how: WriteKind::Write } => write!(f, "writes {path}"),
            Self::Read { path } => write!(f, "reads {path}"),
            Self::Net { host } if host.is_empty() => f.write_str("uses the network"),
            Self::Net { host } => write!(f, "speaks to {host}"),
            Self::Signal { target } => write!(f, "sends a signal to {target}"),
            Self::Define { name } => write!(f, "sets {name}"),
        }
    }
}
