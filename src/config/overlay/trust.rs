//! The project files that a person has trusted: records in the user's state directory, never in the project. A record
//! binds the directory (path, device, inode) to the digest of the exact bytes; a file that differs in anything isn't
//! trusted.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::directories::{self, Kind};
use crate::base::hash::sha256_hex;
use crate::config::Env;
use crate::config::overlay::project::Overlay;
use crate::config::reading::find::{FILE_BYTES_MAX, OTHERS_WRITE};
use crate::files::replace_private;

/// The version of a trusted file's rights. If a newer ReedClaw grants such a file more, it asks again.
const VERSION: u32 = 1;
/// Limit on a record's size: the text, which JSON may make six times as long, and the rest.
const RECORD_BYTES_MAX: u64 = 6 * FILE_BYTES_MAX + 8192;

/// The user's state directory: `$XDG_STATE_HOME/reedclaw`, else `~/.local/state/reedclaw`; none without a home.
#[must_use]
pub fn state_directory(env: &Env) -> Option<PathBuf> {
    Some(directories::of(env, Kind::State)?.join("reedclaw"))
}

/// The user's config directory: `$XDG_CONFIG_HOME/reedclaw`, else `~/.config/reedclaw`; none without a home.
#[must_use]
pub fn config_directory(env: &Env) -> Option<PathBuf> {
    Some(directories::of(env, Kind::Config)?.join("reedclaw"))
}

/// The user's data directory: `$XDG_DATA_HOME/reedclaw`, else `~/.local/share/reedclaw`; none without a home.
#[must_use]
pub fn data_directory(env: &Env) -> Option<PathBuf> {
    Some(directories::of(env, Kind::Data)?.join("reedclaw"))
}

/// The records.
#[derive(Clone, Debug)]
pub struct Trust {
    /// `None` without a home; then trust lasts only for the session.
    directory: Option<PathBuf>,
    /// The files trusted in this session for which no record could be written.
    session: Vec<Overlay>,
}

/// A project's file that a person has trusted: the only kind that can be run. Only this room creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted(Overlay);

impl Trusted {
    /// The file, as a user would write it.
    #[must_use]
    pub fn shown(&self) -> String {
        self.0.shown().to_owned()
    }

    /// The trusted text.
    pub(in crate::config) fn text(&self) -> &str {
        self.0.text()
    }
}

/// The verdict of the records on a project's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustVerdict {
    /// These bytes in this directory were trusted.
    Trusted(Trusted),
    /// The user doesn't want to be asked about this directory.
    Never,
    /// The user hasn't been asked about these bytes.
    Unknown {
        /// The file in question.
        overlay: Overlay,
        /// The text that was trusted here earlier, if any.
        before: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Trusted,
    Never,
}

/// One record. Its file is named by the digest of the directory's path.
#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    /// For a person who reads the record; only the file name of the record counts.
    root: String,
    device: u64,
    inode: u64,
    decision: Decision,
    sha256: String,
    text: String,
}

impl Trust {
    /// Finds the user's records, in `trust` of the state directory.
    #[must_use]
    pub fn of(env: &Env) -> Self {
        Self { directory: state_directory(env).map(|state| state.join("trust")), session: Vec::new() }
    }

    /// Finds the records about something other than config files, in another directory of the state directory.
    #[must_use]
    pub fn in_directory(env: &Env, name: &str) -> Self {
        Self { directory: state_directory(env).map(|state| state.join(name)), session: Vec::new() }
    }

    /// Returns whether a file is trusted.
    #[must_use]
    pub fn judge(&self, overlay: Overlay) -> TrustVerdict {
        if self.session.contains(&overlay) {
            return TrustVerdict::Trusted(Trusted(overlay));
        }
        let record = self.record(&overlay.root);
        // Another directory at the same path is not the trusted one, whatever its name.
        let record = record.filter(|record| (record.device, record.inode) == overlay.root_id);
        match record {
            Some(record) if record.decision == Decision::Never => TrustVerdict::Never,
            Some(record) if record.version == VERSION && record.sha256 == sha256_hex(overlay.text.as_bytes()) => {
                TrustVerdict::Trusted(Trusted(overlay))
            }
            record => TrustVerdict::Unknown { overlay, before: record.map(|record| record.text) },
        }
    }

    /// Returns whether any version of this directory's file has been trusted.
    pub(in crate::config) fn has_trusted(&self, root: &Path) -> bool {
        self.record(root).is_some_and(|record| record.decision == Decision::Trusted)
    }

    /// Trusts exactly this file. The trust lasts for this session even if the record can't be written.
    ///
    /// # Errors
    /// The error of writing the record, returned beside the trusted file.
    pub fn trust(&mut self, overlay: Overlay) -> (Trusted, io::Result<()>) {
        let written = self.write(&overlay, Decision::Trusted);
        if written.is_err() {
            self.session.push(overlay.clone());
        }
        (Trusted(overlay), written)
    }

    /// Never asks about this directory again.
    ///
    /// # Errors
    /// The record can't be written.
    pub fn never(&self, overlay: &Overlay) -> io::Result<()> {
        self.write(overlay, Decision::Never)
    }

    /// Forgets the decision about a directory; returns whether there was one.
    pub fn forget(&mut self, overlay: &Overlay) -> io::Result<bool> {
        let before = self.session.len();
        self.session.retain(|trusted| trusted.root != overlay.root);
        let in_session = self.session.len() < before;
        let Some(path) = self.record_path(&overlay.root) else { return Ok(in_session) };
        match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(in_session)
            }
            Err(error) => Err(error),
        }
    }

    fn record(&self, root: &Path) -> Option<Record> {
        self.record_path(root).and_then(|path| read(&path).ok())
    }

    fn record_path(&self, root: &Path) -> Option<PathBuf> {
        let name = format!("{}.json", sha256_hex(root.as_os_str().as_bytes()));
        Some(self.directory.as_ref()?.join(name))
    }

    /// Writes a record whole or not at all.
    fn write(&self, overlay: &Overlay, decision: Decision) -> io::Result<()> {
        let Some(path) = self.record_path(&overlay.root) else {
            return Err(io::Error::other("no HOME is set, so there is no state directory"));
        };
        let record = Record {
            version: VERSION,
            root: overlay.root.display().to_string(),
            device: overlay.root_id.0,
            inode: overlay.root_id.1,
            decision,
            sha256: sha256_hex(overlay.text.as_bytes()),
            text: overlay.text.clone(),
        };
        let bytes = serde_json::to_vec(&record).map_err(io::Error::other)?;
        replace_private(&path, &bytes)
    }
}

/// Reads a record; a file that another user could have written doesn't count.
fn read(path: &Path) -> io::Result<Record> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() || data.uid() != nix::unistd::geteuid().as_raw() || data.mode() & OTHERS_WRITE != 0 {
        return Err(io::Error::other("not the user's own file"));
    }
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}
