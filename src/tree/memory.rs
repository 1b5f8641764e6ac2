//! Objects in memory, for trees without a repository.

use parking_lot::Mutex;
use std::collections::HashMap;

use crate::git::{Entry, GitError, Objects, Oid, is_empty_tree};

/// Blobs in memory. Directories of a draft over it are the draft's own.
#[derive(Debug, Default)]
pub struct Memory {
    blobs: Mutex<HashMap<Oid, Vec<u8>>>,
}

impl Memory {
    /// Stores a content and returns its hash; `None` for one that was crafted to have another's hash.
    pub fn keep(&self, bytes: &[u8]) -> Option<Oid> {
        let id = self.blob_id(bytes)?;
        self.blobs.lock().insert(id, bytes.to_vec());
        Some(id)
    }
}

impl Objects for Memory {
    fn entries(&self, tree: Oid) -> Result<Vec<Entry>, GitError> {
        if is_empty_tree(tree) { Ok(Vec::new()) } else { Err(GitError::Object(tree)) }
    }

    fn blob(&self, id: Oid, bytes_max: u64) -> Result<Vec<u8>, GitError> {
        let blobs = self.blobs.lock();
        let bytes = blobs.get(&id).ok_or(GitError::Object(id))?;
        if bytes.len() as u64 > bytes_max { Err(GitError::Long(bytes_max)) } else { Ok(bytes.clone()) }
    }

    fn size(&self, id: Oid) -> Result<u64, GitError> {
        let blobs = self.blobs.lock();
        blobs.get(&id).map(|bytes| bytes.len() as u64).ok_or(GitError::Object(id))
    }
}
