//! Values by their key, as the types that settings need. Knows no setting.

use std::path::PathBuf;

use crate::config::reading::checked::{Setting, Tree};

/// The user's values over the defaults.
pub(in crate::config) struct Values<'a> {
    pub(in crate::config) defaults: &'a Tree,
    pub(in crate::config) user: &'a Tree,
}

impl Values<'_> {
    pub(in crate::config) fn get(&self, key: &[&str]) -> Option<&Setting> {
        let key: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
        self.user.get(&key).or_else(|| self.defaults.get(&key))
    }

    pub(in crate::config) fn text(&self, key: &[&str]) -> Result<String, String> {
        match self.get(key) {
            Some(Setting::Text(text)) => Ok(text.clone()),
            _ => Err(key.join(".")),
        }
    }

    pub(in crate::config) fn path(&self, key: &[&str]) -> Option<PathBuf> {
        match self.get(key) {
            Some(Setting::Path(path)) => Some(path.clone()),
            _ => None,
        }
    }

    pub(in crate::config) fn words(&self, key: &[&str]) -> Result<Vec<String>, String> {
        match self.get(key) {
            Some(Setting::Words(words) | Setting::Argv(words)) => Ok(words.clone()),
            _ => Err(key.join(".")),
        }
    }

    pub(in crate::config) fn bool(&self, key: &[&str]) -> Result<bool, String> {
        match self.get(key) {
            Some(Setting::Bool(value)) => Ok(*value),
            _ => Err(key.join(".")),
        }
    }

    pub(in crate::config) fn number(&self, key: &[&str]) -> Result<f64, String> {
        match self.get(key) {
            Some(Setting::Number(number)) => Ok(*number),
            _ => Err(key.join(".")),
        }
    }

    pub(in crate::config) fn integer(&self, key: &[&str]) -> Result<u64, String> {
        match self.get(key) {
            Some(Setting::Integer(number)) => Ok(*number),
            _ => Err(key.join(".")),
        }
    }

    pub(in crate::config) fn size(&self, key: &[&str]) -> Result<usize, String> {
        usize::try_from(self.integer(key)?).map_err(|_| key.join("."))
    }
}
