//! Connections that requests share. An SQLite file has one that writes and some that read beside it; those to a server do both. A
//! lost connection is replaced.

use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::fmt::{self, Display, Formatter};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;

use crate::base::percent;

use super::{Begin, Connection, Engine, Error, PREPARED_MAX, Result};

/// Time for which a statement waits for another process, in milliseconds: a command such as `gateway token create`
/// writes briefly.
const BUSY: Duration = Duration::from_secs(2);
/// Connections to a server: as many as there are threads for requests.
#[cfg(feature = "postgres")]
const CONNECTIONS: usize = 8;
/// Connections that read a file while another one writes. Each has a cache of pages of up to two megabytes.
const READERS: usize = 4;
/// Time for which a request waits for a connection that others use.
const WAIT: Duration = Duration::from_secs(5);

/// The place of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file of SQLite.
    File(PathBuf),
    /// The address of a PostgreSQL server; it may have a password.
    Server(String),
}

/// The parts of a server's address before and after its `@`: user and password, then host and port.
fn user_and_host(address: &str) -> (&str, &str) {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.rsplit_once('@').unwrap_or(("", authority))
}

/// The file's path, or the host and port of the server: never a user or password.
impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let address = match self {
            Self::File(path) => return write!(f, "{}", path.display()),
            Self::Server(address) => address,
        };
        // The directory of a socket is encoded.
        let host = percent::decode(user_and_host(address).1).unwrap_or_default();
        f.write_str(if host.is_empty() { "PostgreSQL" } else { &host })
    }
}

impl Target {
    /// Returns whether it is a server, which several gateways can share.
    #[must_use]
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// Returns whether it is the address of a server and has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        let Self::Server(address) = self else { return false };
        let options = address.split_once('?').map_or("", |(_, options)| options);
        user_and_host(address).0.contains(':') || options.split('&').any(|option| option.starts_with("password="))
    }

    /// The names of a file's tables. The file is only read: it may belong to another program.
    ///
    /// # Errors
    /// It can't be read, or isn't a database of SQLite.
    pub fn tables_of_file(path: &Path) -> Result<Vec<String>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        let mut statement = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
        let names = statement.query_map([], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    /// The number of connections at once that write.
    fn writers(&self) -> usize {
        match self {
            Self::File(_) => 1,
            #[cfg(feature = "postgres")]
            Self::Server(_) => CONNECTIONS,
            #[cfg(not(feature = "postgres"))]
            Self::Server(_) => 1,
        }
    }

    /// Opens a connection.
    fn connect(&self, node: &str, is_reader: bool) -> Result<Connection> {
        let engine = match self {
            Self::File(path) => {
                let connection = rusqlite::Connection::open(path)?;
                connection.busy_timeout(BUSY)?;
                connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
                // Otherwise a statement whose values may suit another index is prepared again for each value.
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
                connection.pragma_update(None, "journal_mode", "WAL")?;
                connection.pragma_update(None, "synchronous", "FULL")?;
                connection.pragma_update(None, "foreign_keys", true)?;
                connection.pragma_update(None, "query_only", is_reader)?;
                Engine::Sqlite(Box::new(connection))
            }
            #[cfg(feature = "postgres")]
            Self::Server(address) => Engine::Postgres(Box::new(super::pg::Server::connect(address)?)),
            #[cfg(not(feature = "postgres"))]
            Self::Server(_) => return Err(Error::Server("this program was built without PostgreSQL".into())),
        };
        Ok(Connection { engine, node: node.to_owned(), has_grown: Cell::new(false) })
    }
}

/// The connections to one database.
pub struct Pool {
    target: Target,
    node: String,
    writers: Lane,
    /// The connections that only read, for a file.
    readers: Lane,
    /// A check of each new connection.
    check: OnceLock<Check>,
}

/// A check of a new connection.
pub type Check = fn(&Connection) -> Result<()>;

/// Connections of one kind.
struct Lane {
    most: usize,
    is_reader: bool,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    free: Vec<Connection>,
    open: usize,
}

impl Pool {
    /// Makes the pool of a gateway without opening a connection.
    pub fn new(target: Target, node: String) -> Self {
        let lane = |most, is_reader| Lane { most, is_reader, state: Mutex::default(), returned: Condvar::new() };
        let writers = lane(target.writers(), false);
        Self { target, node, writers, readers: lane(READERS, true), check: OnceLock::new() }
    }

    /// Sets the check of each new connection.
    #[cfg(feature = "postgres")]
    pub fn check_new(&self, check: Check) {
        let _ = self.check.set(check);
    }

    /// The database's place.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The id of this gateway.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Takes a connection and begins a transaction for these tenants.
    ///
    /// # Errors
    /// All connections are busy, or the database fails.
    pub fn begin(&self, begin: Begin, tenants: &[&str]) -> Result<Held<'_>> {
        let is_reader = begin == Begin::Read && !self.target.is_server();
        let lane = if is_reader { &self.readers } else { &self.writers };
        let held = self.take_of(lane)?;
        match held.start(begin, tenants) {
            Err(_) if held.is_lost() => {
                // The server was restarted: the other connections are lost, too.
                drop(held);
                lane.forget_lost();
                let held = self.take_of(lane)?;
                held.start(begin, tenants)?;
                Ok(held)
            }
            started => started.map(|()| held),
        }
    }

    /// Acquires a connection for one statement that reads. For a file, the writing connection has the newest pages in its cache,
    /// so it is preferred if it is free; and a single statement needs no transaction there.
    ///
    /// # Errors
    /// All connections are busy, or the database fails.
    pub fn glance(&self, tenants: &[&str]) -> Result<Held<'_>> {
        if self.target.is_server() {
            return self.begin(Begin::Read, tenants);
        }
        let free = self.writers.state.lock().free.pop();
        match free {
            Some(connection) => Ok(Held { lane: &self.writers, connection: Some(connection) }),
            None => self.take_of(&self.readers),
        }
    }

    /// Takes a connection without a transaction.
    ///
    /// # Errors
    /// All connections are busy, or none can be opened.
    pub fn take(&self) -> Result<Held<'_>> {
        self.take_of(&self.writers)
    }

    fn take_of<'p>(&'p self, lane: &'p Lane) -> Result<Held<'p>> {
        let until = Instant::now() + WAIT;
        let mut state = lane.state.lock();
        loop {
            if let Some(connection) = state.free.pop() {
                return Ok(Held { lane, connection: Some(connection) });
            }
            if state.open < lane.most {
                state.open += 1;
                drop(state);
                let connected = self.target.connect(&self.node, lane.is_reader);
                let checked = connected.and_then(|it| self.check.get().map_or(Ok(()), |check| check(&it)).map(|()| it));
                return match checked {
                    Ok(connection) => Ok(Held { lane, connection: Some(connection) }),
                    Err(error) => {
                        lane.give_back(None);
                        Err(error)
                    }
                };
            }
            let left = until.saturating_duration_since(Instant::now());
            // A connection to a file is only ever held for a moment: its users wait for each other.
            let is_patient = !self.target.is_server();
            if left.is_zero() && !is_patient {
                return Err(Error::Server("all connections are busy".into()));
            }
            let wait = if is_patient { WAIT } else { left };
            lane.returned.wait_for(&mut state, wait);
        }
    }
}

impl Lane {
    fn give_back(&self, connection: Option<Connection>) {
        let mut state = self.state.lock();
        match connection {
            Some(connection) => state.free.push(connection),
            None => state.open = state.open.saturating_sub(1),
        }
        drop(state);
        self.returned.notify_one();
    }

    fn forget_lost(&self) {
        let mut state = self.state.lock();
        let before = state.free.len();
        state.free.retain(|connection| !connection.is_lost());
        let lost = before - state.free.len();
        state.open = state.open.saturating_sub(lost);
    }
}

/// A connection that a request holds; a transaction that wasn't committed is rolled back at the end.
pub struct Held<'p> {
    lane: &'p Lane,
    connection: Option<Connection>,
}

impl Deref for Held<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("a held connection is there until it is dropped")
    }
}

impl Held<'_> {
    /// Commits, and returns the connection without checking for an open transaction.
    ///
    /// # Errors
    /// The database fails: then nothing was changed, or it is unknown.
    pub fn finish(mut self) -> Result<()> {
        let committed = self.commit();
        let connection = self.connection.take().filter(|_| committed.is_ok());
        self.lane.give_back(connection);
        committed
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let is_usable = !connection.is_lost() && connection.roll_back().is_ok();
        self.lane.give_back(is_usable.then_some(connection));
    }
}
