//! The tools of a repository that its person has allowed, by the hash of their text: a file in the state directory. A
//! repository can't grant itself anything, so its tree isn't read for this.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Source;
use crate::files::replace_private;

/// Version of the file.
const VERSION: u32 = 1;
/// Texts of one tool that are remembered as allowed.
const ALLOWED_MAX: usize = 100;

/// The person's decisions about the tools of one repository.
#[derive(Clone, Debug)]
pub struct Grants {
    path: PathBuf,
}

/// The state of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The person has allowed this text.
    Allowed,
    /// No decision yet.
    Unknown,
    /// The person has allowed another text.
    Changed,
    /// The person doesn't want this text.
    Refused,
}

impl Standing {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Unknown => "unknown",
            Self::Changed => "changed",
            Self::Refused => "refused",
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct GrantsFile {
    v: u32,
    tools: BTreeMap<String, Known>,
}

#[derive(Default, Serialize, Deserialize)]
struct Known {
    /// Hashes of the allowed texts, the newest last.
    allowed: Vec<String>,
    /// The hash of a text that isn't wanted.
    refused: Option<String>,
    /// The text that was allowed last, by path.
    text: BTreeMap<String, String>,
}

impl Grants {
    /// The decisions in a file, which needn't exist.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// A damaged file grants nothing.
    fn read(&self) -> GrantsFile {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let file: GrantsFile = serde_json::from_str(&text).unwrap_or_default();
        if file.v == VERSION { file } else { GrantsFile { v: VERSION, ..GrantsFile::default() } }
    }

    /// Returns the state of a tool.
    #[must_use]
    pub fn standing(&self, source: &Source) -> Standing {
        let (file, hash) = (self.read(), source.sha256());
        match file.tools.get(source.name()) {
            Some(known) if known.refused.as_ref() == Some(&hash) => Standing::Refused,
            Some(known) if known.allowed.contains(&hash) => Standing::Allowed,
            Some(known) if !known.allowed.is_empty() => Standing::Changed,
            _ => Standing::Unknown,
        }
    }

    /// Returns whether anything of a tool of this name was allowed or refused.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.read().tools.get(name).is_some_and(|it| !it.allowed.is_empty() || it.refused.is_some())
    }

    /// The files of a tool as they were allowed last, by path; empty if it never was.
    #[must_use]
    pub fn allowed_text(&self, name: &str) -> BTreeMap<String, String> {
        self.read().tools.remove(name).map(|it| it.text).unwrap_or_default()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Known)) -> std::io::Result<()> {
        let mut file = self.read();
        change(file.tools.entry(name.to_owned()).or_default());
        replace_private(&self.path, &serde_json::to_vec_pretty(&file).unwrap_or_default())
    }

    /// Allows this text of a tool.
    ///
    /// # Errors
    /// The state directory can't be written.
    pub fn allow(&self, source: &Source) -> std::io::Result<()> {
        self.change(source.name(), |known| {
            let hash = source.sha256();
            known.allowed.retain(|it| *it != hash);
            known.allowed.push(hash);
            let old = known.allowed.len().saturating_sub(ALLOWED_MAX);
            known.allowed.drain(..old);
            known.refused = None;
            known.text = source.files().clone();
        })
    }

    /// Refuses this text of a tool, so that it isn't asked about again.
    ///
    /// # Errors
    /// The state directory can't be written.
    pub fn refuse(&self, source: &Source) -> std::io::Result<()> {
        self.change(source.name(), |known| known.refused = Some(source.sha256()))
    }

    /// Takes back whatever was allowed of a tool.
    ///
    /// # Errors
    /// The state directory can't be written.
    pub fn revoke(&self, name: &str) -> std::io::Result<()> {
        self.change(name, |known| *known = Known::default())
    }
}
