//! Copies contents that a step needs and only the user's repository has into the store of steps, so that later changes of that
//! repository don't matter.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use gix::ObjectId;

use super::git::Theirs;
use crate::steps::store::Store;
use crate::steps::store::error::StepsError;
use crate::steps::store::state::{State, Why};
use crate::steps::store::table::Change;

/// Maximum number of copying threads.
const THREADS_MAX: usize = 8;
/// Number of contents from which they go into packs; fewer get a file each.
const PACKED_MIN: usize = 64;

/// Copies the contents that these changes name and the store doesn't have, the earlier ones first, up to `bytes_max`; a state
/// that can't be restored is marked as unknown. Returns the number of bytes that were written.
pub(in crate::steps) fn secure(
    store: &Store,
    held: &[Theirs],
    changes: &mut [Change],
    bytes_max: u64,
) -> Result<u64, StepsError> {
    let mut seen = HashSet::new();
    let ids = changes.iter().map(|it| it.before).chain(changes.iter().map(|it| it.after)).filter_map(State::id);
    let packs = store.packs();
    let is_held = |id: &ObjectId| packs.hold(id) || store.holds_alone(id);
    let missing: Vec<ObjectId> = ids.filter(|id| seen.insert(*id) && !is_held(id)).collect();
    if missing.is_empty() {
        return Ok(0);
    }
    let copied = copy(store, held, &missing, bytes_max)?;
    store.packed();
    for change in changes {
        // The step can be reverted without the present content, which is stored when that happens.
        if let Some(why) = change.before.id().and_then(|id| copied.lost.iter().find(|(lost, _)| *lost == id)) {
            change.before = State::Unknown(why.1);
        }
    }
    Ok(copied.written)
}

struct Copied {
    written: u64,
    lost: HashSet<(ObjectId, Why)>,
}

fn copy(store: &Store, held: &[Theirs], missing: &[ObjectId], bytes_max: u64) -> Result<Copied, StepsError> {
    let room = AtomicU64::new(bytes_max);
    let lost = Mutex::new(HashSet::new());
    let failed = |error: std::io::Error| StepsError::io("the store of steps", &error);
    let threads = if missing.len() < 8 { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let threads = threads.min(THREADS_MAX);
    let part = |first: usize| -> Result<u64, StepsError> {
        let (mut packer, mut written) = (store.packer(), 0);
        for id in missing.iter().skip(first).step_by(threads) {
            let found = held.iter().rev().find_map(|theirs| theirs.packs().content(id));
            let take = |bytes: &Vec<u8>| {
                let take = |left: u64| left.checked_sub(bytes.len() as u64);
                room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_err(|_| Why::Budget)
            };
            match found.ok_or(Why::Gone).and_then(|bytes| take(&bytes).map(|_| bytes)) {
                Ok(bytes) if missing.len() >= PACKED_MIN => packer.add(*id, &bytes).map_err(failed)?,
                Ok(bytes) => written += store.keep_alone(*id, &bytes)?,
                Err(why) => drop(lost.lock().insert((*id, why))),
            }
        }
        packer.finish().map_err(failed)?;
        Ok(written + packer.written())
    };
    let part = &part;
    let written = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|first| scope.spawn(move || part(first))).collect();
        let own = part(0);
        let gone = || Err(StepsError::Io { what: "the store of steps", why: "a thread ended".to_owned() });
        others.into_iter().map(|it| it.join().unwrap_or_else(|_| gone())).chain([own]).sum::<Result<u64, _>>()
    })?;
    Ok(Copied { written, lost: lost.into_inner() })
}
