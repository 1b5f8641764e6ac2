//! One form of SQL over two engines, SQLite and PostgreSQL: connections, parameters, rows. It owns the differences between the
//! two, so that every store has one text and one behaviour. It must not know any table but those of a connection's start.
//!
//! A statement is written for SQLite (`?1`), with what both engines understand: `ON CONFLICT`, `RETURNING`, `string_agg`, sums
//! cast to `BIGINT`. [`pg`] translates the rest: parameters, and `user`, which PostgreSQL reserves.

#[cfg(feature = "postgres")]
mod pg;
mod pool;
#[cfg(feature = "postgres")]
mod tls;
mod value;
#[cfg(feature = "postgres")]
mod wire;

use std::cell::Cell;

pub use pool::{Held, Pool, Target};
pub use value::{AsValue, FromValue, Params, Value};

#[cfg(feature = "postgres")]
pub use pg::{listen, notify};

/// Statements of a connection that stay prepared: more than the stores have.
const PREPARED_MAX: usize = 256;

/// Rows that one statement inserts on a server, where each statement is a way there and back.
#[cfg(feature = "postgres")]
const ROWS_MAX: usize = 128;

/// Reason why a statement fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no row.
    #[error("there is no such row")]
    NoRow,
    /// A column has another type than the program expects.
    #[error("the column {0} has another type than expected")]
    Type(usize),
    /// SQLite's reason.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL's reason.
    #[error("{0}")]
    Server(String),
}

/// The result of a statement.
pub type Result<T> = std::result::Result<T, Error>;

/// Turns a missing row into `None`.
pub trait OptionalExtension<T> {
    /// The row, if there is one.
    ///
    /// # Errors
    /// Any other failure.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The values of a statement's parameters, in their order.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::ledger::sql::AsValue),*] as &[&dyn $crate::ledger::sql::AsValue]
    };
}
pub(crate) use params;

/// A connection to the database.
pub struct Connection {
    engine: Engine,
    /// The id of the gateway whose connection it is.
    node: String,
    /// `true` if this transaction has appended events.
    has_grown: Cell<bool>,
}

enum Engine {
    Sqlite(Box<rusqlite::Connection>),
    #[cfg(feature = "postgres")]
    Postgres(Box<pg::Server>),
}

/// The beginning of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Reads one state of the database and changes nothing.
    Read,
    /// May write, alone among the writers of its tenants.
    Write,
    /// The same with the rights of the database's owner, which requests don't have.
    Owner,
}

impl Connection {
    /// The id of the gateway whose connection it is.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Notes that this transaction appends events.
    pub fn grow(&self) {
        self.has_grown.set(true);
    }

    /// Returns whether this transaction has appended events.
    pub fn has_grown(&self) -> bool {
        self.has_grown.get()
    }

    /// The statement for the time of the database's clock, in Unix milliseconds.
    pub fn clock(&self) -> &'static str {
        match &self.engine {
            Engine::Sqlite(_) => "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)",
            #[cfg(feature = "postgres")]
            Engine::Postgres(_) => "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)",
        }
    }

    /// Begins a transaction for these tenants.
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "SQLite has one writer for all tenants"))]
    pub(super) fn start(&self, begin: Begin, tenants: &[&str]) -> Result<()> {
        self.has_grown.set(false);
        match (&self.engine, begin) {
            (Engine::Sqlite(_), Begin::Read) => self.step("BEGIN"),
            (Engine::Sqlite(_), Begin::Write | Begin::Owner) => self.step("BEGIN IMMEDIATE"),
            #[cfg(feature = "postgres")]
            (Engine::Postgres(server), _) => server.start(begin, tenants),
        }
    }

    /// Makes a transaction's changes durable. Fails, too, if a statement failed whose answer wasn't waited for.
    pub fn commit(&self) -> Result<()> {
        self.step("COMMIT")
    }

    /// Rolls a transaction back.
    pub fn roll_back(&self) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(connection) if connection.is_autocommit() => Ok(()),
            Engine::Sqlite(_) => self.step("ROLLBACK"),
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => server.roll_back(),
        }
    }

    /// Runs a statement of every transaction.
    fn step(&self, sql: &str) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(connection) => Ok(connection.prepare_cached(sql)?.execute([]).map(drop)?),
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => server.run(sql),
        }
    }

    /// Runs statements without parameters.
    pub fn run(&self, sql: &str) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => server.run(sql),
        }
    }

    /// Returns whether the connection is lost.
    pub fn is_lost(&self) -> bool {
        match &self.engine {
            Engine::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => server.is_lost(),
        }
    }

    /// A statement that stays prepared.
    pub fn prepare_cached<'s>(&'s self, sql: &'s str) -> Result<Statement<'s>> {
        Ok(Statement { connection: self, sql })
    }

    /// The first row of a query.
    ///
    /// # Errors
    /// There is no row, or the database fails.
    pub fn query_row<T>(
        &self,
        sql: &str,
        values: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut first = None;
        self.each(sql, &values.values(), &mut |row| {
            first = Some(read(row)?);
            Ok(false)
        })?;
        first.ok_or(Error::NoRow)
    }

    /// Runs a statement; returns the number of rows that it changed.
    pub fn execute(&self, sql: &str, values: impl Params) -> Result<usize> {
        let values = values.values();
        match &self.engine {
            Engine::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                Ok(statement.execute(rusqlite::params_from_iter(values))?)
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => server.execute(sql, &values),
        }
    }

    /// Inserts rows of `N` values: `into` is the statement up to its values, `more` is the rest of it. A server may refuse them
    /// later, at the next statement that has an answer.
    pub fn insert<'v, const N: usize>(
        &self,
        into: &str,
        rows: impl Iterator<Item = [Value<'v>; N]>,
        more: &str,
    ) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(&inserting(into, 1, N, more))?;
                for row in rows {
                    statement.execute(rusqlite::params_from_iter(row))?;
                }
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => {
                let values: Vec<Value<'v>> = rows.flatten().collect();
                let mut rest = values.as_slice();
                while !rest.is_empty() {
                    // Powers of two, so that few statements are prepared.
                    let count = (1 << (rest.len() / N).ilog2()).min(ROWS_MAX);
                    let (some, after) = rest.split_at(count * N);
                    server.execute_later(&inserting(into, count, N, more), some)?;
                    rest = after;
                }
                Ok(())
            }
        }
    }

    /// Runs several queries that don't depend on each other; a server gets all of them at once. `take` is called with the index
    /// of the query and a row of it.
    pub fn query_all(&self, queries: &[Query<'_>], take: &mut dyn FnMut(usize, &Row<'_>) -> Result<()>) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(_) => queries.iter().enumerate().try_for_each(|(index, query)| {
                self.each(&query.sql, &query.values, &mut |row| take(index, row).map(|()| true))
            }),
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => server.query_all(queries, take),
        }
    }

    /// Passes the rows of a query to `take`, until it returns `false`.
    fn each(&self, sql: &str, values: &[Value<'_>], take: &mut dyn FnMut(&Row<'_>) -> Result<bool>) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                while let Some(row) = rows.next()? {
                    if !take(&Row::Sqlite(row))? {
                        break;
                    }
                }
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(server) => server.each(sql, values, take),
        }
    }
}

/// The text of a statement that inserts `count` rows of `width` values.
fn inserting(into: &str, count: usize, width: usize, more: &str) -> String {
    let row = format!("({})", vec!["?"; width].join(", "));
    format!("{into} VALUES {} {more}", vec![row; count].join(", "))
}

/// A query that is run with others.
pub struct Query<'v> {
    /// Its text.
    pub sql: String,
    /// The values of its parameters.
    pub values: Vec<Value<'v>>,
}

/// A statement of a connection.
pub struct Statement<'s> {
    connection: &'s Connection,
    sql: &'s str,
}

impl Statement<'_> {
    /// The rows of a query.
    pub fn query_map<T>(
        &mut self,
        values: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<std::vec::IntoIter<Result<T>>> {
        let mut rows = Vec::new();
        self.connection.each(self.sql, &values.values(), &mut |row| {
            rows.push(Ok(read(row)?));
            Ok(true)
        })?;
        Ok(rows.into_iter())
    }

    /// The first row of a query.
    ///
    /// # Errors
    /// There is no row, or the database fails.
    pub fn query_row<T>(&mut self, values: impl Params, read: impl FnMut(&Row<'_>) -> Result<T>) -> Result<T> {
        self.connection.query_row(self.sql, values, read)
    }

    /// Runs the statement; returns the number of rows that it changed.
    pub fn execute(&mut self, values: impl Params) -> Result<usize> {
        self.connection.execute(self.sql, values)
    }

    /// Returns whether a query has a row.
    pub fn exists(&mut self, values: impl Params) -> Result<bool> {
        Ok(self.query_row(values, |_| Ok(())).optional()?.is_some())
    }
}

/// A row of a query.
pub enum Row<'r> {
    /// SQLite's.
    Sqlite(&'r rusqlite::Row<'r>),
    /// PostgreSQL's.
    #[cfg(feature = "postgres")]
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// A column.
    pub fn get<T: FromValue>(&self, at: usize) -> Result<T> {
        let value = match self {
            Self::Sqlite(row) => Value::of_sqlite(row.get_ref(at)?).ok_or(Error::Type(at))?,
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => pg::column(row, at)?,
        };
        T::of(value).ok_or(Error::Type(at))
    }
}
