//! The team's stores, in a file of SQLite or on a PostgreSQL server: the event log of each tenant, memory, blackboard, tokens,
//! and the facts that the gates need.
//!
//! It owns the file, its schema, and the rule that a row and its event change in one transaction. Every method has the identity
//! first, and every statement names the tenant. It must not know HTTP, agents or tools.

mod auth;
mod canvas;
mod idempotency;
mod ids;
mod leases;
mod migrate;
mod more;
mod permits;
mod questions;
mod row;
mod runs;
mod safety;
mod spine;
mod sql;
mod stores;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use self::more::health::Health;
use self::sql::{Begin, Connection, Held, OptionalExtension as _, Pool, params};

use crate::base::canonical::{CanonicalError, canonical};
use crate::base::time::utc_ms;
use crate::proto::team::Lease;

pub use crate::chain::Span;
pub use auth::{ACCESS_MS, Accounts, Caller, NewToken, Paired, REFRESH_MS, TokenRow, Who};
pub use canvas::{Canvases, Command, Committed, Snapshot};
pub use idempotency::{Begun, Key, Keys};
pub use ids::{random_text, uuid_v7, uuids_v7};
pub use leases::{Leases, OnLost, Work};
pub use more::archive::{self, Archive, Put};
pub use more::artifacts::{Artifact, Artifacts};
pub use more::backends::{self, Backend, Backends, Unfit};
pub use more::figures::{self, Figure, Figures};
pub use more::nodes::{self, Neighbours, Node, Nodes};
pub use more::relay::Relay;
pub use more::retention::{self, Retention};
pub use more::shares::{GATEWAY_ENDED, NewShare, Resumed, Shares};
pub use permits::{NewLicence, NewLock, Permits};
pub use questions::{Asked, Questions, StoredAnswer};
pub use row::Event;
pub use runs::{NewRun, RunEnd, Runs};
pub use safety::{Judged, NewLimit, Record, Safety, Subject};
pub use spine::verify::{Broken, Verified};
pub use spine::{Expected, Filter, Page, Stored};
pub use sql::Target;
pub use stores::{BoardEntry, MemoryEntry, Place, Stores};

/// The name of the file in the state directory.
pub const FILE_NAME: &str = "gateway.db";
/// The condition for a row of a gateway that doesn't serve any more: `?2` is the time.
const LEFT: &str = "(node IS NULL OR node NOT IN (SELECT node_id FROM node WHERE until_ms > ?2))";
/// Limit on the nesting of arrays and objects in a stored value.
pub const DEPTH_MAX: usize = 32;

/// A refusal or a failure of the stores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Not found in this tenant.
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
    /// A request with this key runs, or its end is unknown.
    #[error("a request with this key is {0}")]
    InProgress(&'static str),
    /// The content can't be stored.
    #[error("{0}")]
    Invalid(String),
    /// A time is outside the possible range.
    #[error("{0}")]
    Time(String),
    /// The question was already answered.
    #[error("the question was answered by {0}")]
    AlreadyAnswered(String),
    /// The answer names another call than the question does.
    #[error("the answer is for another call than the one that was asked about")]
    OtherCall,
    /// The question has expired.
    #[error("the question's time is over")]
    Late,
    /// The actor may not do this to this object.
    #[error("{0}")]
    Forbidden(String),
    /// Another gateway works in the workspace; its identity, if known.
    #[error("another gateway works in this project now")]
    Elsewhere(Option<Box<Node>>),
    /// The gateway's right to work in a workspace ran out, and another one may work there.
    #[error("this gateway was away for so long that another one may work in the project {project} now; ask again")]
    LeaseLost {
        /// The project.
        project: String,
        /// The lease that it had.
        lease: Lease,
    },
    /// The database fails.
    #[error("the database fails: {0}")]
    Database(String),
}

impl From<sql::Error> for LedgerError {
    fn from(error: sql::Error) -> Self {
        Self::Database(error.to_string())
    }
}

impl From<CanonicalError> for LedgerError {
    fn from(error: CanonicalError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// The last item of a page, of a list that goes from the newest to older ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its time, in Unix milliseconds.
    pub at_ms: i64,
    /// Its id.
    pub id: String,
}

impl Mark {
    /// The place before the newest item.
    #[must_use]
    pub fn newest() -> Self {
        Self { at_ms: i64::MAX, id: String::new() }
    }
}

/// A page of a list, and the mark of its last item if there are more.
pub type Marked = (Vec<serde_json::Value>, Option<Mark>);

/// Cuts the row that was read beyond a page.
fn cut(mut rows: Vec<(Mark, serde_json::Value)>, limit: usize) -> Marked {
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| has_more).map(|(mark, _)| mark.clone());
    (rows.into_iter().map(|(_, item)| item).collect(), next)
}

/// The number of rows to read for a page: one more than it has.
fn rows_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

/// Called with the tenant after a commit that added events.
pub type Hint = Box<dyn Fn(&str) + Send + Sync>;

/// The place of a gateway that listens.
struct Listening {
    address: String,
    url: Option<String>,
    /// The loopback network of the machine, which an address there means.
    loopback: Option<String>,
    since_ms: i64,
}

/// The stores.
pub struct Ledger {
    pool: Pool,
    /// Waiting appends: one of their threads commits them together.
    appends: spine::Gather<spine::Append, spine::Appended>,
    batches: spine::Batches,
    boards: more::boards::Boards,
    hint: OnceLock<Hint>,
    /// The place where this gateway listens.
    listening: OnceLock<Listening>,
    /// The workspaces in which this gateway works.
    tenures: leases::Tenures,
    health: Health,
    /// A replica of the server, for reads that may be outdated.
    replica: OnceLock<spine::Replica>,
}

/// The right to serve a database; a second gateway on the same file doesn't get it. It ends with the process.
#[derive(Debug)]
pub struct Served(#[expect(dead_code, reason = "the lock lives as long as the file is open")] Option<Arc<File>>);

impl Ledger {
    /// Opens the database in the file at `path`; makes it (0600) if it doesn't exist.
    ///
    /// # Errors
    /// The file can't be made or read, or a newer program has written it.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Self::open_at(Target::File(path.to_owned()))
    }

    /// Opens a database. A new one gets its tables, and a file's schema is updated; on a server, which several gateways share, a
    /// person does that with [`Self::migrate`].
    ///
    /// # Errors
    /// It can't be made or reached, or a newer program has written it, or an older one on a server.
    pub fn open_at(target: Target) -> Result<Self, LedgerError> {
        let pool = Pool::new(target, uuid_v7());
        migrate::open(&pool)?;
        #[cfg(feature = "postgres")]
        if pool.target().is_server() {
            // The open connection wasn't checked yet.
            nodes::check_timeline(&*pool.take()?)?;
            pool.check_new(nodes::check_timeline);
        }
        Ok(Self {
            pool,
            appends: spine::Gather::default(),
            batches: spine::Batches::default(),
            boards: more::boards::Boards::default(),
            hint: OnceLock::new(),
            listening: OnceLock::new(),
            tenures: leases::Tenures::default(),
            health: Health::default(),
            replica: OnceLock::new(),
        })
    }

    /// Updates the schema of a database, or with `is_dry`, only checks it. Returns the versions before and after.
    ///
    /// # Errors
    /// It can't be made or reached, or a newer program has written it.
    pub fn migrate(target: Target, is_dry: bool) -> Result<(usize, usize), LedgerError> {
        migrate::migrate(&Pool::new(target, uuid_v7()), is_dry)
    }

    /// The database's place, as it may be shown: a file, or that it is a server.
    #[must_use]
    pub fn place(&self) -> String {
        match self.pool.target() {
            Target::File(path) => path.display().to_string(),
            Target::Server(_) => "PostgreSQL".to_owned(),
        }
    }

    /// Returns the id of the database, which never changes.
    ///
    /// # Errors
    /// The database fails.
    pub fn system_id(&self) -> Result<String, LedgerError> {
        Ok(self.view("")?.query_row("SELECT system_id FROM instance", params![], |row| row.get(0))?)
    }

    /// The name of the engine.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        if self.pool.target().is_server() { "postgres" } else { "sqlite" }
    }

    /// The id of this gateway.
    #[must_use]
    pub fn node(&self) -> &str {
        self.pool.node()
    }

    /// Sets the function that is called after each commit with new events; the first one stays.
    pub fn on_append(&self, hint: Hint) {
        let _ = self.hint.set(hint);
    }

    /// Takes the right to serve this database, for as long as the value lives. Several gateways may serve one on a server.
    ///
    /// # Errors
    /// Another gateway has it; its process id, if known.
    pub fn serve(&self) -> Result<Served, LedgerError> {
        let Target::File(database) = self.pool.target() else { return Ok(Served(None)) };
        let path = database.with_extension("lock");
        let failed = |error: std::io::Error| LedgerError::Database(format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(failed)?;
        if file.try_lock().is_err() {
            let pid = std::fs::read_to_string(&path).unwrap_or_default();
            let pid = pid.trim();
            let which = if pid.is_empty() { String::new() } else { format!(" (process {pid})") };
            return Err(LedgerError::Forbidden(format!("another gateway{which} serves {}", database.display())));
        }
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Served(Some(Arc::new(file))))
    }

    /// Memories and entries of the blackboard.
    #[must_use]
    pub fn stores(&self) -> Stores<'_> {
        Stores(self)
    }

    /// Canvases.
    #[must_use]
    pub fn canvases(&self) -> Canvases<'_> {
        Canvases(self)
    }

    /// Tenants, their members, tokens and pairing.
    #[must_use]
    pub fn accounts(&self) -> Accounts<'_> {
        Accounts(self)
    }

    /// Licences and strategy locks.
    #[must_use]
    pub fn permits(&self) -> Permits<'_> {
        Permits(self)
    }

    /// Runs of agents.
    #[must_use]
    pub fn runs(&self) -> Runs<'_> {
        Runs(self)
    }

    /// The gates in front of each action, budgets and the kill switch.
    #[must_use]
    pub fn safety(&self) -> Safety<'_> {
        Safety(self)
    }

    /// Idempotency keys.
    #[must_use]
    pub fn keys(&self) -> Keys<'_> {
        Keys(self)
    }

    /// Questions that wait for an answer.
    #[must_use]
    pub fn questions(&self) -> Questions<'_> {
        Questions(self)
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

    /// The removal of old data.
    #[must_use]
    pub fn retention(&self) -> Retention<'_> {
        Retention(self)
    }

    /// The gateways that share the database.
    #[must_use]
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes(self)
    }

    /// The leases of workspaces.
    #[must_use]
    pub fn leases(&self) -> Leases<'_> {
        Leases(self)
    }

    /// Files of canvases.
    #[must_use]
    pub fn artifacts(&self) -> Artifacts<'_> {
        Artifacts(self)
    }

    /// Sessions that are shared.
    #[must_use]
    pub fn shares(&self) -> Shares<'_> {
        Shares(self)
    }

    /// The logs as they are passed on to another system.
    #[must_use]
    pub fn relay(&self) -> Relay<'_> {
        Relay(self)
    }

    /// Routes to back-ends.
    #[must_use]
    pub fn backends(&self) -> Backends<'_> {
        Backends(self)
    }

    /// Returns whether the database can be read and, after a failed write, also written: then a small write is tried.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let answer = |connection: Held<'_>| connection.query_row("SELECT one FROM instance", params![], |_| Ok(()));
        let can_read = self.pool.begin(Begin::Read, &[]).and_then(answer).is_ok();
        can_read && self.health.can_write(|| self.nodes().live_on().is_ok())
    }

    /// The time by the database's clock, in Unix milliseconds.
    ///
    /// # Errors
    /// The database fails.
    pub fn now_ms(&self) -> Result<i64, LedgerError> {
        now_ms(&*self.view("")?)
    }

    /// A connection that reads one state of a tenant's rows.
    fn view(&self, tenant: &str) -> Result<Held<'_>, LedgerError> {
        Ok(self.pool.begin(Begin::Read, &[tenant])?)
    }

    /// Runs `act` in one transaction that may write, and gives the hint if `act` has appended events.
    fn write<T>(
        &self,
        tenant: &str,
        act: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.write_alone(tenant, &[tenant], act)
    }

    /// Does the same under a lock on `names`, which include the tenant.
    fn write_alone<T>(
        &self,
        tenant: &str,
        names: &[&str],
        act: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let written = self.pool.begin(Begin::Write, names).map_err(LedgerError::from).and_then(|transaction| {
            let done = act(&transaction)?;
            let has_grown = transaction.has_grown();
            transaction.finish()?;
            Ok((done, has_grown))
        });
        match &written {
            Err(LedgerError::Database(_)) => self.health.failed(),
            Err(error @ LedgerError::LeaseLost { .. }) => self.leases().refused(tenant, error),
            Ok((_, true)) => self.health.wrote(),
            _ => {}
        }
        let (done, has_grown) = written?;
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
    Ok(connection.query_row(connection.clock(), params![], |row| row.get(0))?)
}

/// The same as text.
fn now_text(connection: &Connection) -> Result<String, LedgerError> {
    Ok(utc_ms(now_ms(connection)?))
}

/// Returns a value in the form for storing and hashing.
fn stored_text(value: &serde_json::Value) -> Result<String, LedgerError> {
    Ok(canonical(value, DEPTH_MAX)?)
}
