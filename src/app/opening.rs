//! Opens the store of history and conversations for a start. It must not know what is in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::config::{Env, Settings, data_directory};
use crate::proto::Failure;
use crate::store::{FILE_NAME, Store, StoreError};

/// The store at its usual place, opened by another thread while the config is read: that takes about as long, and the
/// first prompt waits for both.
pub(super) struct EarlyStore {
    dir: PathBuf,
    thread: JoinHandle<Result<Store, StoreError>>,
}

impl EarlyStore {
    /// Begins; `None` if there is no store at that place yet, since the config may name another.
    pub(super) fn begin(env: &Env) -> Option<Self> {
        let dir = data_directory(env).filter(|dir| dir.join(FILE_NAME).exists())?;
        let place = dir.clone();
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || Store::open(&place)).ok()?;
        Some(Self { dir, thread })
    }

    /// Returns the opened store if it is the one in `dir`.
    fn take(self, dir: &Path) -> Option<Result<Store, StoreError>> {
        if self.dir == dir { self.thread.join().ok() } else { None }
    }
}

/// Opens the store that the settings name. A failure becomes a problem, and history then stays in memory.
///
/// # Errors
/// The system has no memory for that, either.
pub(super) fn open_store(
    settings: &Settings,
    early: Option<EarlyStore>,
    problems: &mut Vec<Failure>,
) -> Result<Arc<Mutex<Store>>, Failure> {
    let opened = match &settings.history.dir {
        Some(dir) => early.and_then(|early| early.take(dir)).unwrap_or_else(|| Store::open(dir)),
        None => {
            problems.push(
                Failure::unavailable("no HOME is set, or it doesn't exist: history and conversations stay in memory")
                    .hint("set history.dir in the config to keep them"),
            );
            Store::in_memory()
        }
    };
    let store = opened.or_else(|problem| {
        problems.push(problem.into());
        Store::in_memory()
    });
    Ok(Arc::new(Mutex::new(store?)))
}

/// Returns whether the stored conversations are those on the disk.
pub(super) fn is_on_disk(store: &Mutex<Store>) -> bool {
    store.lock().is_on_disk()
}

/// The failure of a command that needs the stored conversations.
pub(super) fn not_stored() -> Failure {
    let message = "the stored conversations can't be reached";
    Failure::unavailable(message).hint("reedclaw doctor says more")
}

/// The same with the reason.
pub(super) fn because(problem: Failure) -> Failure {
    let Failure { message, hint, .. } = not_stored();
    let hint = if problem.hint.is_empty() { hint } else { problem.hint };
    Failure::unavailable(format!("{message}: {}", problem.message)).hint(hint)
}
