//! The directories for a user's files, as the XDG specification defines them: the variable's value if it is absolute, otherwise
//! the default in the home directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A kind of files that have a directory of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    Config,
    /// `$XDG_DATA_HOME`, else `~/.local/share`.
    Data,
    /// `$XDG_STATE_HOME`, else `~/.local/state`.
    State,
    /// `$XDG_CACHE_HOME`, else `~/.cache`.
    Cache,
}

impl Kind {
    /// The variable, and the default below the home directory.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Config => ("XDG_CONFIG_HOME", ".config"),
            Self::Data => ("XDG_DATA_HOME", ".local/share"),
            Self::State => ("XDG_STATE_HOME", ".local/state"),
            Self::Cache => ("XDG_CACHE_HOME", ".cache"),
        }
    }
}

/// The value of a variable, if it is an absolute path.
#[must_use]
pub fn absolute(env: &BTreeMap<OsString, OsString>, name: &str) -> Option<PathBuf> {
    env.get(OsStr::new(name)).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The directory for files of a kind; `None` without a home.
#[must_use]
pub fn of(env: &BTreeMap<OsString, OsString>, kind: Kind) -> Option<PathBuf> {
    let (variable, usual) = kind.names();
    absolute(env, variable).or_else(|| absolute(env, "HOME").map(|home| home.join(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_value_does_not_count() {
        let env = |rows: &[(&str, &str)]| {
            rows.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect::<BTreeMap<_, _>>()
        };
        let both = env(&[("HOME", "/home/you"), ("XDG_STATE_HOME", "/state"), ("XDG_DATA_HOME", "data")]);
        for (kind, path) in [
            (Kind::Config, "/home/you/.config"),
            (Kind::Data, "/home/you/.local/share"),
            (Kind::State, "/state"),
            (Kind::Cache, "/home/you/.cache"),
        ] {
            assert_eq!(of(&both, kind), Some(PathBuf::from(path)));
        }
        assert_eq!(of(&env(&[("HOME", "home"), ("XDG_CACHE_HOME", "")]), Kind::Cache), None);
    }
}
