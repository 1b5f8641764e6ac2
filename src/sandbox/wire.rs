//! What the helper is told, in its second argument. Paths are bytes: any path is one.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::{Limits, Tier};

/// How a program is to be held. All paths are absolute and free of links.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The process that started the helper; where that is another one by now, it has ended.
    pub(super) parent: u32,
    #[serde(with = "TierName")]
    pub(super) tier: Tier,
    pub(super) writable: Vec<OsString>,
    pub(super) readable: Vec<OsString>,
    pub(super) read_only: Vec<OsString>,
    pub(super) masked: Vec<OsString>,
    pub(super) cwd: OsString,
    /// The own temporary directory, where `/tmp` isn't one.
    pub(super) tmp: Option<OsString>,
    pub(super) network: bool,
    /// A process whose network namespace is shared, instead of a new one.
    pub(super) network_of: Option<u32>,
    /// What the overlay tier needs beside.
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
    pub(super) workspace: OsString,
    pub(super) view: ViewWire,
    /// What stands for `/tmp`, and for the homes.
    pub(super) tmp: OsString,
    pub(super) home: OsString,
    pub(super) homes: Vec<OsString>,
    /// What of the homes a program sees.
    pub(super) kept_of_home: Vec<OsString>,
}

/// How a program sees its workspace.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ViewWire {
    Look,
    Work,
    Copy { upper: OsString, work: OsString },
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
