//! The helper's orders, in its second argument.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::{Limits, Tier};

/// A path: text if it is UTF-8, else its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(in crate::sandbox) enum PathWire {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<OsString> for PathWire {
    fn from(path: OsString) -> Self {
        path.into_string().map_or_else(|path| Self::Bytes(path.into_vec()), Self::Text)
    }
}

impl From<&PathBuf> for PathWire {
    fn from(path: &PathBuf) -> Self {
        path.clone().into_os_string().into()
    }
}

impl PathWire {
    pub(in crate::sandbox) fn path(&self) -> PathBuf {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes.clone()).into(),
        }
    }
}

/// The paths of a list.
pub(in crate::sandbox) fn paths(list: &[PathWire]) -> impl Iterator<Item = PathBuf> + '_ {
    list.iter().map(PathWire::path)
}

/// Description of how a program is confined. All paths are absolute and free of links.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::sandbox) struct Spec {
    /// The process that started the helper; if the parent is another one now, it has ended.
    pub(in crate::sandbox) parent: u32,
    #[serde(with = "TierName")]
    pub(in crate::sandbox) tier: Tier,
    pub(in crate::sandbox) writable: Vec<PathWire>,
    pub(in crate::sandbox) readable: Vec<PathWire>,
    pub(in crate::sandbox) read_only: Vec<PathWire>,
    pub(in crate::sandbox) masked: Vec<PathWire>,
    pub(in crate::sandbox) cwd: PathWire,
    /// A directory, and the path at which bubblewrap binds it in place of what is there.
    pub(in crate::sandbox) bound: Option<[PathWire; 2]>,
    /// Directories that bubblewrap shows read-only in that, each with its place.
    pub(in crate::sandbox) shown_at: Vec<[PathWire; 2]>,
    /// The sandbox's own temporary directory, if `/tmp` isn't one.
    pub(in crate::sandbox) tmp: Option<PathWire>,
    pub(in crate::sandbox) network: bool,
    /// A process whose network namespace is shared, instead of a new one.
    pub(in crate::sandbox) network_of: Option<u32>,
    /// The file that records what a first look was refused.
    pub(in crate::sandbox) refused: Option<PathWire>,
    /// The further needs of the overlay tier.
    pub(in crate::sandbox) jail: Option<JailWire>,
    pub(in crate::sandbox) limits: LimitsWire,
    pub(in crate::sandbox) descriptors: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Tier")]
enum TierName {
    None,
    Landlock,
    Bubblewrap,
    Overlay,
}

/// The file system of a jail.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::sandbox) struct JailWire {
    pub(in crate::sandbox) workspace: PathWire,
    /// The directories that are shown in its place, the topmost first.
    pub(in crate::sandbox) shown_instead: Vec<PathWire>,
    /// Directories that are shown in it, each with its place.
    pub(in crate::sandbox) shown_at: Vec<[PathWire; 2]>,
    pub(in crate::sandbox) view: ViewWire,
    /// The replacements of `/tmp` and of the homes.
    pub(in crate::sandbox) tmp: ShownWire,
    pub(in crate::sandbox) home: ShownWire,
    pub(in crate::sandbox) homes: Vec<PathWire>,
    /// The parts of the homes that a program sees.
    pub(in crate::sandbox) kept_of_home: Vec<PathWire>,
    /// Paths in the homes that it may make.
    pub(in crate::sandbox) new_in_home: Vec<PathWire>,
}

/// A directory of ours that a program sees.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::sandbox) struct ShownWire {
    /// The directory that takes changes.
    pub(in crate::sandbox) upper: PathWire,
    /// A directory whose files show through, and an empty one that overlayfs works in.
    pub(in crate::sandbox) below: Option<[PathWire; 2]>,
}

/// Way in which a program sees its workspace.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::sandbox) enum ViewWire {
    Look,
    Work,
    Copy {
        upper: PathWire,
        work: PathWire,
        /// The file that records refusals.
        refused: PathWire,
    },
}

/// [`Limits`], as they are written.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::sandbox) struct LimitsWire {
    pub(in crate::sandbox) processes: u64,
    pub(in crate::sandbox) file_bytes: u64,
    pub(in crate::sandbox) cpu_seconds: Option<u64>,
    pub(in crate::sandbox) memory_bytes: Option<u64>,
}

impl From<Limits> for LimitsWire {
    fn from(limits: Limits) -> Self {
        let Limits { processes, file_bytes, cpu_seconds, memory_bytes } = limits;
        Self { processes, file_bytes, cpu_seconds, memory_bytes }
    }
}
