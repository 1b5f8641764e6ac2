//! The team's stores in one SQLite file: the event log of each tenant, memory, blackboard, tokens, and what the gates need.
//!
//! It owns the file, its schema, and the rule that a row and the event that tells of it change in one transaction. Every
//! method takes the identity first, and every statement names the tenant. It must not know HTTP, agents or tools.

mod auth;
mod canvas;
mod idempotency;
mod ids;
mod more;
mod permits;
mod questions;
mod row;
mod runs;
mod safety;
mod spine;
mod stores;
mod verify;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::base::canonical::{CanonicalError, canonical};
use crate::base::time::utc_ms;

pub use auth::{ACCESS_MS, NewToken, Paired, REFRESH_MS, TokenRow, Who};
pub use canvas::{Command, Committed, Snapshot};
pub use idempotency::{Begun, Key};
pub use ids::{random_text, uuid_v7};
pub use more::archive::{self, Archive};
pub use more::artifacts::{Artifact, Artifacts};
pub use more::backends::{self, Backend, Backends, Unfit};
pub use more::figures::{self, Figure, Figures};
pub use permits::{NewLicence, NewLock};
pub use questions::{Asked, Given};
pub use row::Event;
pub use runs::{NewRun, RunEnd};
pub use safety::{Judged, Record, Subject};
pub use spine::{Expected, Filter, Stored};
pub use stores::{BoardEntry, MemoryEntry, Place};
pub use verify::{Broken, Verified};

/// The name of the file in the state directory.
pub const FILE_NAME: &str = "gateway.db";
/// The steps to the schema that this program reads and writes; their number is its version.
const SCHEMAS: [&str; 4] = [
    include_str!("schema.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
];
/// How long a statement waits for another process, in milliseconds: a command such as `gateway token create` writes briefly.
const BUSY_MS: u64 = 2_000;
/// Arrays and objects in each other that a stored value may have.
pub const DEPTH_MAX: usize = 32;

/// The reasons why the stores refuse something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// There is no such thing in this tenant.
    #[error("it doesn't exist")]
    NotFound,
    /// A stream has another version than was expected.
    #[error("the stream {stream} has version {actual}, not {expected}")]
    WrongExpectedVersion {
        /// The stream.
        stream: String,
        /// The version that the caller expected.
        expected: i64,
        /// The version that it has.
        actual: i64,
    },
    /// An entry has another version than was expected.
    #[error("it has version {actual}, not {expected}")]
    VersionConflict {
        /// The version that the caller expected.
        expected: i64,
        /// The version that it has; 0 if it doesn't exist.
        actual: i64,
    },
    /// The id or key was used for another request.
    #[error("{0} was used for another request")]
    IdempotencyMismatch(String),
    /// A request with this key runs, or nobody knows how it ended.
    #[error("a request with this key is {0}")]
    InProgress(&'static str),
    /// The content can't be stored.
    #[error("{0}")]
    Invalid(String),
    /// Somebody has answered the question before.
    #[error("the question was answered by {0}")]
    AlreadyAnswered(String),
    /// The answer names another call than the one that the question is about.
    #[error("the answer is for another call than the one that was asked about")]
    OtherCall,
    /// The question's time is over.
    #[error("the question's time is over")]
    Late,
    /// The actor may not do this to this object.
    #[error("{0}")]
    Forbidden(String),
    /// The database fails.
    #[error("the database fails: {0}")]
    Database(String),
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.to_string())
    }
}

impl From<CanonicalError> for LedgerError {
    fn from(error: CanonicalError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Called with the tenant after a commit that added events.
pub type Hint = Box<dyn Fn(&str) + Send + Sync>;

/// The stores.
pub struct Ledger {
    path: PathBuf,
    connection: Mutex<Connection>,
    /// Appends that wait for the connection: whoever gets it commits them together.
    appends: Mutex<Vec<spine::Waiting>>,
    hint: OnceLock<Hint>,
}

/// The right to serve a database; a second gateway on the same file doesn't get it. It ends with the process.
#[derive(Debug)]
pub struct Served(#[expect(dead_code, reason = "the lock lives as long as the file is open")] Arc<File>);

impl Ledger {
    /// Opens the database at `path`; makes it (0600, in a directory with 0700) if it doesn't exist.
    ///
    /// # Errors
    /// The file can't be made or read, or a newer program has written it.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |error: std::io::Error| LedgerError::Database(format!("{}: {error}", path.display()));
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        migrate(&mut connection)?;
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
            appends: Mutex::default(),
            hint: OnceLock::new(),
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the function that is called after each commit with new events; the first one stays.
    pub fn on_append(&self, hint: Hint) {
        let _ = self.hint.set(hint);
    }

    /// Takes the right to serve this database, for as long as the value lives.
    ///
    /// # Errors
    /// Another gateway has it; its process id, as far as it is known.
    pub fn serve(&self) -> Result<Served, LedgerError> {
        let path = self.path.with_extension("lock");
        let failed = |error: std::io::Error| LedgerError::Database(format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
        if file.try_lock().is_err() {
            let pid = std::fs::read_to_string(&path).unwrap_or_default();
            let pid = pid.trim();
            let which = if pid.is_empty() { String::new() } else { format!(" (process {pid})") };
            return Err(LedgerError::Forbidden(format!("another gateway{which} serves {}", self.path.display())));
        }
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Served(Arc::new(file)))
    }

    /// Measured figures and the rules over them.
    #[must_use]
    pub fn figures(&self) -> Figures<'_> {
        Figures(self)
    }

    /// A tenant's log as a file, and the erasure of a person's texts.
    #[must_use]
    pub fn archive(&self) -> Archive<'_> {
        Archive(self)
    }

    /// Files of canvases.
    #[must_use]
    pub fn artifacts(&self) -> Artifacts<'_> {
        Artifacts(self)
    }

    /// Routes to back-ends.
    #[must_use]
    pub fn backends(&self) -> Backends<'_> {
        Backends(self)
    }

    /// Says whether the database answers.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.lock().query_row("SELECT one FROM instance", [], |_| Ok(())).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` in one transaction that may write, and gives the hint if `act` has appended events.
    fn write<T>(
        &self,
        tenant: &str,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let (done, has_grown) = {
            let mut connection = self.lock();
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let before = head(&transaction, tenant)?;
            let done = act(&transaction)?;
            let has_grown = head(&transaction, tenant)? != before;
            transaction.commit()?;
            (done, has_grown)
        };
        if let Some(hint) = self.hint.get().filter(|_| has_grown) {
            hint(tenant);
        }
        Ok(done)
    }
}

/// The position of the newest event of a tenant; 0 if there is none.
fn head(connection: &Connection, tenant: &str) -> Result<i64, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT position FROM head WHERE tenant = ?1")?;
    Ok(statement.query_row([tenant], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// The time by the database's clock, in Unix milliseconds.
fn now_ms(connection: &Connection) -> Result<i64, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The same as text.
fn now_text(connection: &Connection) -> Result<String, LedgerError> {
    Ok(utc_ms(now_ms(connection)?))
}

/// A value as it is stored and hashed.
fn stored_text(value: &serde_json::Value) -> Result<String, LedgerError> {
    Ok(canonical(value, DEPTH_MAX)?)
}

fn migrate(connection: &mut Connection) -> Result<(), LedgerError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    let known = SCHEMAS.len();
    if version > known {
        return Err(LedgerError::Forbidden(format!(
            "its schema has version {version}, and this program knows up to {known}"
        )));
    }
    for step in &SCHEMAS[version..] {
        transaction.execute_batch(step)?;
    }
    if version == 0 {
        let now = now_text(&transaction)?;
        transaction.execute("INSERT INTO instance VALUES (1, ?1, ?2)", params![uuid_v7(), now])?;
        transaction.execute("INSERT INTO tenant (tenant, mode) VALUES ('local', 'lab')", [])?;
    }
    if version < known {
        transaction.pragma_update(None, "user_version", i64::try_from(known).unwrap_or(i64::MAX))?;
    }
    Ok(transaction.commit()?)
}
