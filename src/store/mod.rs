//! The store: history and conversations in one SQLite file, shared by all sessions of a user.
//!
//! It owns the file, its schema and the behaviour if the file can't be used: a store that can't be opened is one error and the
//! caller continues with [`Store::in_memory`]; a store that can't be written any more holds new rows in memory, reports that once
//! through [`Store::take_problem`], and moves them to the file when it can be written again. It must not know the clock (times
//! come from the caller, in Unix milliseconds), the settings, the line editor or the model.

mod conversations;
mod error;
mod exchange;
mod history;
mod overlay;
mod route;
mod run;
mod schema;
mod spending;
mod statements;
#[cfg(test)]
mod tests;

pub use exchange::{doctor, export, import};

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

pub use conversations::calls::StoredCall;
pub use conversations::conversation::{
    ConversationId, MessageState, OpenMessage, StoredConversation, StoredMessage, StoredTurn, TurnCounts,
};
pub use conversations::editor::EditorSession;
pub use conversations::memory::{MemoryOrigin, StoredMemory, ToRemember};
pub use conversations::recall::Hit;
pub use conversations::summary::StoredSummary;
pub use error::{StoreError, StoreErrorKind};
pub use history::{Entry, HistoryId, Row, Search, TextMatch, keeps};
pub use route::RouteMemory;
pub use run::{NewRun, PartOfRun, RunRow, StoredEvent};
pub use spending::{Charge, Counted, ModelTimes, Period, RequestId, SpentSum, StoredRequest};

use overlay::Overlay;

/// The name of the database in the store's directory.
pub const FILE_NAME: &str = "reedclaw.db";

/// History and conversations, on disk or in memory.
///
/// Writes of new rows don't fail: if the file can't store them they stay in memory and [`take_problem`](Store::take_problem)
/// returns the reason, once.
#[derive(Debug)]
pub struct Store {
    main: Connection,
    /// Rows that the file could not take; none while all is well.
    overlay: Option<Overlay>,
    moved: overlay::Moved,
    /// None: the whole store is in memory.
    path: Option<PathBuf>,
    /// Device and inode of the open file.
    file: Option<(u64, u64)>,
    problem: Option<StoreError>,
    read_problem_told: bool,
}

impl Store {
    /// Opens the store in `dir`, making the directory (0700) and the database (0600) if they don't exist.
    ///
    /// Waits for another session's lock for at most 250 ms per step (`schema::BUSY_TIMEOUT_MS`).
    ///
    /// # Errors
    /// One error that names the fault and the remedy: the directory or file can't be made, read or written, the file is no
    /// database, is damaged, locked, or of a newer version. The caller continues with [`Store::in_memory`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|problem| StoreError::io("make the directory", dir, &problem))?;
        let path = dir.join(FILE_NAME);
        prepare_file(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = |problem: rusqlite::Error| StoreError::sqlite("open", Some(&path), &problem);
        let mut main = Connection::open_with_flags(&path, flags).map_err(fail)?;
        schema::prepare(&main).map_err(fail)?;
        schema::migrate(&mut main, &path)?;
        Ok(Self::over(main, Some(path)))
    }

    /// Makes an empty store in memory: it ends with the process.
    ///
    /// # Errors
    /// Only where SQLite itself can't start (no memory).
    pub fn in_memory() -> Result<Self, StoreError> {
        let main = schema::memory().map_err(|problem| StoreError::sqlite("open", None, &problem))?;
        Ok(Self::over(main, None))
    }

    /// Returns whether new rows reach the disk.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.path.is_some() && self.overlay.is_none()
    }

    /// Returns whether it reads a file: new rows may still stay in memory.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.path.is_some()
    }

    /// Takes the problem that arose since the last call, if any, so that each is shown once.
    pub fn take_problem(&mut self) -> Option<StoreError> {
        self.problem.take()
    }

    /// Stores a failed read for [`take_problem`](Store::take_problem), for callers that must continue; only one per session.
    pub fn note_read_problem(&mut self, problem: StoreError) {
        if !self.read_problem_told {
            self.read_problem_told = true;
            self.problem.get_or_insert(problem);
        }
    }

    fn over(main: Connection, path: Option<PathBuf>) -> Self {
        let file = path.as_deref().and_then(identity);
        let moved = overlay::Moved::default();
        Self { main, overlay: None, moved, path, file, problem: None, read_problem_told: false }
    }

    /// The path of the open file if it isn't there any more: moved, removed or replaced.
    fn lost_path(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| identity(path) != self.file)
    }

    fn fail(&self, action: &str, problem: &rusqlite::Error) -> StoreError {
        StoreError::sqlite(action, self.path.as_deref(), problem)
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|data| (data.dev(), data.ino()))
}

/// Creates the database's file with private permissions, and refuses anything but a plain file: SQLite would wait on a
/// pipe endlessly.
fn prepare_file(path: &Path) -> Result<(), StoreError> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => return Err(StoreError::not_a_file(path)),
        Ok(meta) => {
            // An error is left to the opening below, which describes it better. The file's mode also applies to its -wal.
            if meta.permissions().mode() & 0o077 != 0 {
                let _ = std::fs::set_permissions(path, Permissions::from_mode(0o600));
            }
            OpenOptions::new().read(true).write(true).open(path)
        }
        Err(_) => create_private(path),
    }
    .map(drop)
    .map_err(|problem| StoreError::io("open", path, &problem))
}

fn create_private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}
