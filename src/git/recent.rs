//! Batches of objects that this process has written of late, in case a collection removes them.

use std::collections::HashMap;

use gix::ObjectId;
use gix::objs::Kind;
use parking_lot::Mutex;

/// Limit on the batches in memory, and on their total bytes: the newest ones, and those that are still unreferenced.
const HELD_MAX: usize = 8;
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a newest batch that is held.
const NEWEST_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Objects that were written at once.
pub(super) struct WrittenBatch {
    pub(super) objects: HashMap<ObjectId, (Kind, Vec<u8>)>,
    /// Their ids, each after all that it names.
    pub(super) order: Vec<ObjectId>,
}

impl WrittenBatch {
    fn bytes(&self) -> usize {
        self.objects.values().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// The batches, the newest last, each with whether a reference names it.
#[derive(Default)]
pub(super) struct Recent {
    all: Mutex<Vec<(WrittenBatch, bool)>>,
}

impl Recent {
    /// Holds a batch that was written.
    pub(super) fn push(&self, batch: WrittenBatch) {
        let mut all = self.all.lock();
        all.retain(|(_, is_named)| !is_named);
        all.push((batch, false));
        let (mut count, mut bytes) = (0, 0);
        for (batch, _) in all.iter().rev() {
            bytes += batch.bytes();
            if count >= HELD_MAX || bytes > if count == 0 { NEWEST_BYTES_MAX } else { HELD_BYTES_MAX } {
                break;
            }
            count += 1;
        }
        let first = all.len() - count;
        all.drain(..first);
    }

    /// Calls `act` with the batches that have this object, which are referenced from now on.
    pub(super) fn name<E>(&self, id: ObjectId, act: impl Fn(&WrittenBatch) -> Result<(), E>) -> Result<(), E> {
        let mut all = self.all.lock();
        all.iter_mut().filter(|(batch, _)| batch.objects.contains_key(&id)).try_for_each(|(batch, is_named)| {
            *is_named = true;
            act(batch)
        })
    }

    /// Calls `act` with each batch.
    pub(super) fn each<E>(&self, act: impl Fn(&WrittenBatch) -> Result<(), E>) -> Result<(), E> {
        self.all.lock().iter().try_for_each(|(batch, _)| act(batch))
    }

    /// Returns whether a batch has this object.
    pub(super) fn holds(&self, id: ObjectId) -> bool {
        self.all.lock().iter().any(|(batch, _)| batch.objects.contains_key(&id))
    }

    /// Number of batches in memory.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.all.lock().len()
    }
}
