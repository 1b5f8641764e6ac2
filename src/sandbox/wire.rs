//! The helper's orders, in its second argument.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Limits, Tier};

/// A path: text if it is UTF-8, else its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum PathWire {
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
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes.clone()).into(),
        }
    }
}

/// The paths of a list.
pub(super) fn paths(list: &[PathWire]) -> impl Iterator<Item = PathBuf> + '_ {
    list.iter().map(PathWire::path)
}

/// Way in which a program is to be held. All paths are absolute and free of links.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The process that started the helper; where that is another one by now, it has ended.
    pub(super) parent: u32,
    #[serde(with = "TierName")]
    pub(super) tier: Tier,
    pub(super) writable: Vec<PathWire>,
    pub(super) readable: Vec<PathWire>,
    pub(super) read_only: Vec<PathWire>,
    pub(super) masked: Vec<PathWire>,
    pub(super) cwd: PathWire,
    /// The own temporary directory, where `/tmp` isn't one.
    pub(super) tmp: Option<PathWire>,
    pub(super) network: bool,
    /// A process whose network namespace is shared, instead of a new one.
    pub(super) network_of: Option<u32>,
    /// The file for the notes of what a first look was refused.
    pub(super) refused: Option<PathWire>,
    /// The further needs of the overlay tier.
    pub(super) jail: Option<JailWire>,
    pub(super) limits: LimitsWire,
    pub(super) descriptors: u32,
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
pub(super) struct JailWire {
    pub(super) workspace: PathWire,
    /// The path that is shown in its place.
    pub(super) shown_instead: Option<PathWire>,
    pub(super) view: ViewWire,
    /// The replacements of `/tmp` and of the homes.
    pub(super) tmp: PathWire,
    pub(super) home: PathWire,
    pub(super) homes: Vec<PathWire>,
    /// The parts of the homes that a program sees.
    pub(super) kept_of_home: Vec<PathWire>,
}

/// Way in which a program sees its workspace.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ViewWire {
    Look,
    Work,
    Copy {
        upper: PathWire,
        work: PathWire,
        /// The file that takes what was refused.
        refused: PathWire,
    },
}

/// [`Limits`], as they are written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LimitsWire {
    pub(super) processes: u64,
    pub(super) file_bytes: u64,
    pub(super) cpu_seconds: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
}

impl From<Limits> for LimitsWire {
    fn from(limits: Limits) -> Self {
        let Limits { processes, file_bytes, cpu_seconds, memory_bytes } = limits;
        Self { processes, file_bytes, cpu_seconds, memory_bytes }
    }
}
