//! The values of a config after their check. Must not know which keys there are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::reading::problem::quoted;

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) enum Setting {
    Text(String),
    Path(PathBuf),
    Integer(u64),
    Number(f64),
    Bool(bool),
    Words(Vec<String>),
    WordMap(BTreeMap<String, String>),
    /// Values that may be secrets, by name.
    Sources(BTreeMap<String, KeySource>),
    Argv(Vec<String>),
    Ports(Vec<u16>),
    Secret(Hidden),
}

impl Setting {
    /// A word or a truth value as a problem shows it.
    pub(in crate::config) fn in_words(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Bool(value) => value.to_string(),
            Self::Words(words) if words.is_empty() => "{}".into(),
            _ => "the default".into(),
        }
    }
}

/// The source of a key, or of another value that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// This environment variable holds it.
    Variable(String),
    /// This program, with its arguments, prints it.
    Command(Vec<String>),
    /// A file that only the user can read.
    File(PathBuf),
    /// The config itself.
    Literal(Hidden),
}

/// Checked values by key, each key in its parts.
pub(in crate::config) type Tree = BTreeMap<Vec<String>, Setting>;

/// A key from the config. It is never shown; `Debug` prints stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Wraps a key.
    #[must_use]
    pub fn new(key: String) -> Self {
        Self(key)
    }

    /// Returns the key, to be sent.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
