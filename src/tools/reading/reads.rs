//! Contents of files when the model read them, so that no edit overwrites later changes of others. Must not decide
//! what an edit does.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::hash::sha256;

/// Files that are remembered.
const FILES_MAX: usize = 10_000;

/// The contents that were read, by the place of the file; shared by the tools that read and those that edit.
#[derive(Clone, Debug, Default)]
pub struct Reads(Arc<Mutex<HashMap<PathBuf, [u8; 32]>>>);

impl Reads {
    /// Records what the model has read.
    pub(in crate::tools) fn note(&self, place: PathBuf, content: &[u8]) {
        let mut known = self.known();
        if known.len() < FILES_MAX || known.contains_key(&place) {
            known.insert(place, sha256(content));
        }
    }

    /// Notes the result of the model's own edit of a file that it had read.
    pub(in crate::tools) fn edited(&self, place: &Path, content: Option<&[u8]>) {
        let mut known = self.known();
        match (known.get_mut(place), content) {
            (Some(hashed), Some(content)) => *hashed = sha256(content),
            (Some(_), None) => drop(known.remove(place)),
            (None, _) => {}
        }
    }

    /// Returns whether a file has changed since the model read it; false for a file that it hasn't read.
    pub(in crate::tools) fn differ(&self, place: &Path, content: &[u8]) -> bool {
        self.known().get(place).is_some_and(|hashed| *hashed != sha256(content))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, [u8; 32]>> {
        self.0.lock()
    }
}
