//! Connections that requests share: one to a file of SQLite, several to a server. A lost connection is replaced.

use std::cell::Cell;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Begin, Connection, Engine, Error, PREPARED_MAX, Result};

/// Time for which a statement waits for another process, in milliseconds: a command such as `gateway token create`
/// writes briefly.
const BUSY: Duration = Duration::from_secs(2);
/// Connections to a server: as many as there are threads for requests.
#[cfg(feature = "postgres")]
const CONNECTIONS: usize = 8;
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

impl Target {
    /// Says whether it is a server, which several gateways can share.
    #[must_use]
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// The number of connections at once.
    fn connections(&self) -> usize {
        match self {
            Self::File(_) => 1,
            #[cfg(feature = "postgres")]
            Self::Server(_) => CONNECTIONS,
            #[cfg(not(feature = "postgres"))]
            Self::Server(_) => 1,
        }
    }

    /// Opens a connection.
    fn connect(&self, node: &str) -> Result<Connection> {
        let engine = match self {
            Self::File(path) => {
                let connection = rusqlite::Connection::open(path)?;
                connection.busy_timeout(BUSY)?;
                connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
                connection.pragma_update(None, "journal_mode", "WAL")?;
                connection.pragma_update(None, "synchronous", "FULL")?;
                connection.pragma_update(None, "foreign_keys", true)?;
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
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    free: Vec<Connection>,
    open: usize,
}

impl Pool {
    /// The connections of a gateway; opens none yet.
    pub fn new(target: Target, node: String) -> Self {
        Self { target, node, state: Mutex::new(State { free: Vec::new(), open: 0 }), returned: Condvar::new() }
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
        let held = self.take()?;
        match held.start(begin, tenants) {
            Err(_) if held.is_lost() => {
                // The server was restarted: the other connections are lost, too.
                drop(held);
                self.forget_lost();
                let held = self.take()?;
                held.start(begin, tenants)?;
                Ok(held)
            }
            started => started.map(|()| held),
        }
    }

    /// Takes a connection without a transaction.
    ///
    /// # Errors
    /// All connections are busy, or none can be opened.
    pub fn take(&self) -> Result<Held<'_>> {
        let until = Instant::now() + WAIT;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = state.free.pop() {
                return Ok(Held { pool: self, connection: Some(connection) });
            }
            if state.open < self.target.connections() {
                state.open += 1;
                drop(state);
                return match self.target.connect(&self.node) {
                    Ok(connection) => Ok(Held { pool: self, connection: Some(connection) }),
                    Err(error) => {
                        self.give_back(None);
                        Err(error)
                    }
                };
            }
            let left = until.saturating_duration_since(Instant::now());
            // The one connection to a file is only ever held for a moment: its users wait for each other, as they did before.
            let is_patient = !self.target.is_server();
            if left.is_zero() && !is_patient {
                return Err(Error::Server("all connections are busy".into()));
            }
            let wait = if is_patient { WAIT } else { left };
            (state, _) = self.returned.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, connection: Option<Connection>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match connection {
            Some(connection) => state.free.push(connection),
            None => state.open = state.open.saturating_sub(1),
        }
        drop(state);
        self.returned.notify_one();
    }

    fn forget_lost(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.free.len();
        state.free.retain(|connection| !connection.is_lost());
        let lost = before - state.free.len();
        state.open = state.open.saturating_sub(lost);
    }
}

/// A connection that a request holds; a transaction that wasn't committed is taken back at the end.
pub struct Held<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
}

impl Deref for Held<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("a held connection is there until it is dropped")
    }
}

impl Held<'_> {
    /// Commits, and gives the connection back without looking for an open transaction.
    ///
    /// # Errors
    /// The database fails: then nothing was changed, or nobody knows.
    pub fn finish(mut self) -> Result<()> {
        let committed = self.commit();
        let connection = self.connection.take().filter(|_| committed.is_ok());
        self.pool.give_back(connection);
        committed
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let is_usable = !connection.is_lost() && connection.roll_back().is_ok();
        self.pool.give_back(is_usable.then_some(connection));
    }
}
