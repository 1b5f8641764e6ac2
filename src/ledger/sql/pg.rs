//! PostgreSQL: statements in its form, transactions that see their tenants only, and hints between gateways.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tokio::runtime::Builder;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Config, NoTls, Statement};

use super::tls::Tls;
use super::value::Owned;
use super::wire::Wire;
use super::{Begin, Error, Query, Result, Row, Value};
use crate::base::percent;
use crate::host::{self, Authorities};

/// Time that a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Time after which a server rolls back the transaction of a stalled client: shorter than a gateway's lease, so that its locks
/// are released before other gateways continue.
const STILL: &str = "10s";
/// The role that has no right to anything but what requests need.
pub const ROLE: &str = "reedclaw_app";
/// The channel of hints.
const CHANNEL: &str = "reedclaw";

/// A connection to a server.
pub struct Server {
    wire: RefCell<Wire>,
    /// Statements that are prepared, by their text in SQLite's form.
    prepared: RefCell<HashMap<String, Statement>>,
    /// True if a transaction was begun, and neither committed nor rolled back.
    is_begun: Cell<bool>,
}

impl Server {
    /// Connects; encrypted, unless the server is on this machine or the address has `sslmode=disable`.
    pub fn connect(address: &str) -> Result<Self> {
        Ok(Self { wire: RefCell::new(connect(address)?), prepared: RefCell::default(), is_begun: Cell::new(false) })
    }

    /// Begins a transaction that sees the rows of these tenants; a writer waits for other writers of them. It is sent with the
    /// transaction's first statement, which fails if this does.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn start(&self, begin: Begin, tenants: &[&str]) -> Result<()> {
        let mut sql = String::from(match begin {
            Begin::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;",
            Begin::Write | Begin::Owner => "BEGIN ISOLATION LEVEL READ COMMITTED;",
        });
        let all = quoted(&tenants.join(","));
        let _ =
            write!(sql, "SELECT set_config('lock_timeout', '5s', true), set_config('reedclaw.tenants', {all}, true)");
        // A gateway that stalls in the middle of a transaction holds up the others for this long.
        let _ = write!(sql, ", set_config('idle_in_transaction_session_timeout', '{STILL}', true)");
        // As one statement: each costs the server about as much as a small query.
        if begin != Begin::Owner {
            let _ = write!(sql, ", set_config('role', '{ROLE}', true)");
        }
        sql.push(';');
        if begin != Begin::Read {
            // The tenants are sorted, so that two gateways can't deadlock.
            let mut tenants = tenants.to_vec();
            tenants.sort_unstable();
            for tenant in tenants {
                let _ = write!(sql, "SELECT pg_advisory_xact_lock(hashtextextended({}, 4117));", quoted(tenant));
            }
        }
        let mut wire = self.wire.borrow_mut();
        wire.look();
        if wire.is_lost() {
            return Err(lost());
        }
        wire.run_later(sql);
        self.is_begun.set(true);
        Ok(())
    }

    /// Takes a transaction's changes back, without waiting for the server. Without a transaction it does nothing.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn roll_back(&self) -> Result<()> {
        if !self.is_begun.take() {
            return Ok(());
        }
        let mut wire = self.wire.borrow_mut();
        wire.run_later("ROLLBACK".to_owned());
        wire.send().map_err(failure)
    }

    /// Runs statements without parameters.
    pub fn run(&self, sql: &str) -> Result<()> {
        if sql.starts_with("BEGIN") || sql == "COMMIT" {
            self.is_begun.set(sql != "COMMIT");
        }
        self.wire.borrow_mut().wait(async |client| client.batch_execute(sql).await).map_err(failure)
    }

    /// Returns whether the connection is lost.
    pub fn is_lost(&self) -> bool {
        self.wire.borrow().is_lost()
    }

    /// Runs a statement; returns the number of rows that it changed.
    pub fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize> {
        let statement = self.prepared(sql)?;
        let values = as_parameters(values);
        let changed =
            self.wire.borrow_mut().wait(async |client| client.execute(&statement, &values).await).map_err(failure)?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Sends a statement together with the next one that has an answer, which fails if this does.
    ///
    /// # Errors
    /// The statement can't be prepared.
    pub fn execute_later(&self, sql: &str, values: &[Value<'_>]) -> Result<()> {
        let statement = self.prepared(sql)?;
        self.wire.borrow_mut().execute_later(statement, values.iter().map(Owned::of).collect());
        Ok(())
    }

    /// Runs queries that are sent at once; `take` is called with the index of the query and a row of it.
    pub fn query_all(&self, queries: &[Query<'_>], take: &mut dyn FnMut(usize, &Row<'_>) -> Result<()>) -> Result<()> {
        let prepared = |query: &Query<'_>| self.prepared(&query.sql);
        let statements = queries.iter().map(prepared).collect::<Result<Vec<_>>>()?;
        let values: Vec<_> = queries.iter().map(|query| as_parameters(&query.values)).collect();
        let all = statements.iter().zip(&values);
        let answers = self
            .wire
            .borrow_mut()
            .wait(async |client| try_join_all(all.map(|(sql, values)| client.query(sql, values))).await)
            .map_err(failure)?;
        let mut rows = answers.iter().enumerate().flat_map(|(index, rows)| rows.iter().map(move |row| (index, row)));
        rows.try_for_each(|(index, row)| take(index, &Row::Postgres(row)))
    }

    /// Passes the rows of a query to `take`, until it returns `false`.
    pub fn each(&self, sql: &str, values: &[Value<'_>], take: &mut dyn FnMut(&Row<'_>) -> Result<bool>) -> Result<()> {
        let statement = self.prepared(sql)?;
        let values = as_parameters(values);
        let rows =
            self.wire.borrow_mut().wait(async |client| client.query(&statement, &values).await).map_err(failure)?;
        for row in &rows {
            if !take(&Row::Postgres(row))? {
                break;
            }
        }
        Ok(())
    }

    fn prepared(&self, sql: &str) -> Result<Statement> {
        if let Some(statement) = self.prepared.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let translated = translated(sql);
        let statement =
            self.wire.borrow_mut().wait(async |client| client.prepare(&translated).await).map_err(failure)?;
        let mut prepared = self.prepared.borrow_mut();
        if prepared.len() >= super::PREPARED_MAX {
            prepared.clear();
        }
        prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn connect(address: &str) -> Result<Wire> {
    let (address, asked) = encryption(address);
    let mut config: Config =
        address.parse().map_err(|_| Error::Server("the database's address can't be read".into()))?;
    config.application_name("reedclaw").connect_timeout(CONNECT);
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| Error::Server(error.to_string()))?;
    if is_plain(&config) {
        return Wire::connect(runtime, config.ssl_mode(SslMode::Disable), NoTls).map_err(failure);
    }
    let authorities = match asked {
        Some(path) => Authorities::in_file("sslrootcert", path),
        None => Authorities::of(&host::environment()),
    };
    let tls = Tls(authorities.client().map_err(Error::Server)?);
    Wire::connect(runtime, config.ssl_mode(SslMode::Require), tls).map_err(|error| {
        let error = failure(error);
        let why = host::certificate_problem(&error.to_string());
        why.map_or(error, |(why, hint)| Error::Server(format!("{why}; {hint}")))
    })
}

/// Returns whether a connection isn't encrypted: the address disables encryption, or doesn't mention it and names only this
/// machine.
fn is_plain(config: &Config) -> bool {
    let is_near = |host: &Host| match host {
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
        Host::Unix(_) => true,
    };
    match config.get_ssl_mode() {
        SslMode::Disable => true,
        SslMode::Prefer => {
            config.get_hosts().iter().all(is_near) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
        }
        _ => false,
    }
}

/// Translates the options of libpq about encryption that the client doesn't know: a file with the authorities, and modes that
/// check the server's certificate, which is done in any case.
fn encryption(address: &str) -> (String, Option<PathBuf>) {
    let Some((before, options)) = address.split_once('?') else { return (address.to_owned(), None) };
    let mut file = None;
    let mut options_left = Vec::new();
    for option in options.split('&') {
        match option.split_once('=') {
            Some(("sslrootcert", "system")) => {}
            Some(("sslrootcert", path)) => file = percent::decode(path).map(PathBuf::from),
            Some(("sslmode", "verify-ca" | "verify-full")) => options_left.push("sslmode=require"),
            Some(("sslmode", "allow")) => options_left.push("sslmode=prefer"),
            _ => options_left.push(option),
        }
    }
    (format!("{before}?{}", options_left.join("&")), file)
}

/// Sends a hint to the gateways that share the database.
///
/// # Errors
/// The database fails.
pub fn notify(connection: &super::Connection) -> Result<()> {
    let node = quoted(connection.node());
    connection.run(&format!("SELECT pg_notify('{CHANNEL}', {node})"))
}

/// Calls `hint` for each hint of another gateway, and `look` once a second, which ends the wait by `false`.
///
/// # Errors
/// The server can't be reached, or the connection is lost.
pub fn listen(address: &str, node: &str, hint: &dyn Fn(), look: &dyn Fn() -> bool) -> Result<()> {
    let mut wire = connect(address)?;
    let listen = format!("LISTEN {CHANNEL}");
    wire.wait(async |client| client.batch_execute(&listen).await).map_err(failure)?;
    while look() {
        let until = Instant::now() + Duration::from_secs(1);
        while let Some(payload) = wire.notification(until).map_err(failure)? {
            if payload != node {
                hint();
            }
            if !look() {
                return Ok(());
            }
        }
        if wire.is_lost() {
            return Err(lost());
        }
    }
    Ok(())
}

/// A column of a row.
pub fn column(row: &tokio_postgres::Row, at: usize) -> Result<Value<'_>> {
    let kind = row.columns().get(at).map(tokio_postgres::Column::type_).ok_or(Error::Type(at))?;
    let value = match *kind {
        Type::INT8 => row.try_get::<_, Option<i64>>(at).map(|value| value.map(Value::Int)),
        Type::INT4 => row.try_get::<_, Option<i32>>(at).map(|value| value.map(|number| Value::Int(number.into()))),
        Type::BOOL => row.try_get::<_, Option<bool>>(at).map(|value| value.map(|is| Value::Int(is.into()))),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(at).map(|value| value.map(Value::Bytes)),
        _ => row.try_get::<_, Option<&str>>(at).map(|value| value.map(Value::Text)),
    };
    Ok(value.map_err(|_| Error::Type(at))?.unwrap_or(Value::Null))
}

fn as_parameters<'v>(values: &'v [Value<'v>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

impl ToSql for Value<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match (self, kind) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Int(number), &Type::BOOL) => (*number != 0).to_sql(kind, out),
            (Self::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(kind, out),
            (Self::Int(number), _) => number.to_sql(kind, out),
            // The server stores no U+0000: requests with it are refused, but a model may write it.
            (Self::Text(text), _) if text.contains('\0') => text.replace('\0', "\u{fffd}").to_sql(kind, out),
            (Self::Text(text), _) => text.to_sql(kind, out),
            (Self::Bytes(bytes), _) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::BOOL, Type::TEXT, Type::VARCHAR, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

impl ToSql for Owned {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.value().to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <Value<'_> as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

fn lost() -> Error {
    Error::Server("the connection is lost".into())
}

/// The server's words, with its code; without them those of the client.
fn failure(error: tokio_postgres::Error) -> Error {
    Error::Server(error.as_db_error().map_or_else(
        || error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
        |server| format!("{} ({})", server.message(), server.code().code()),
    ))
}

/// A text as a literal.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|letter| *letter != '\0').collect();
    format!("'{}'", plain.replace('\'', "''"))
}

/// A statement in PostgreSQL's form: `?1` is `$1`, and `user` is a name in quotes. Texts in quotes stay as they are.
fn translated(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 16);
    let (mut rest, mut count) = (sql, 0_u32);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '?' => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                count += 1;
                let _ = match digits {
                    0 => write!(out, "${count}"),
                    _ => write!(out, "${}", &rest[1..=digits]),
                };
                rest = &rest[1 + digits..];
                continue;
            }
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let length = rest.bytes().take_while(is_part).count();
                if &rest[..length] == "user" {
                    out.push_str("\"user\"");
                    rest = &rest[length..];
                    continue;
                }
                length
            }
            other => other.len_utf8(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_get_the_servers_form_and_texts_in_quotes_stay() {
        for (sql, expected) in [
            ("SELECT user FROM a WHERE b = ?2 AND c = ?1", "SELECT \"user\" FROM a WHERE b = $2 AND c = $1"),
            ("x = ? AND y = ? LIMIT ?", "x = $1 AND y = $2 LIMIT $3"),
            ("state = 'user ?1' AND users = 1", "state = 'user ?1' AND users = 1"),
            ("a.user, user_id, 'it''s', user", "a.\"user\", user_id, 'it''s', \"user\""),
        ] {
            assert_eq!(translated(sql), expected);
        }
        assert_eq!(quoted("it's\0"), "'it''s'");
    }

    #[test]
    fn a_plain_connection_to_another_machine_must_be_allowed() {
        for (address, expected) in [
            ("postgres://db.example/x", false),
            ("postgres://localhost,db.example/x", false),
            ("postgres://localhost/x?hostaddr=10.0.0.1", false),
            ("postgres://10.0.0.1/x?sslmode=require", false),
            ("postgres://localhost/x?sslmode=verify-full", false),
            ("postgres://db.example/x?sslmode=allow", false),
            ("postgres://localhost/x", true),
            ("postgres://%2Frun%2Fpostgresql/x", true),
            ("postgres://db.example/x?sslmode=disable", true),
        ] {
            let config = encryption(address).0.parse().expect("an address");
            assert_eq!(is_plain(&config), expected, "{address}");
        }
    }

    #[test]
    fn an_address_says_how_it_is_encrypted_in_the_words_of_libpq() {
        for (address, options_left, file) in [
            ("postgres://h/x", "postgres://h/x", None),
            ("postgres://h/x?sslmode=verify-full&a=b", "postgres://h/x?sslmode=require&a=b", None),
            ("postgres://h/x?sslrootcert=%2Fetc%2Fca.pem", "postgres://h/x?", Some("/etc/ca.pem")),
            ("postgres://h/x?sslrootcert=system&sslmode=disable", "postgres://h/x?sslmode=disable", None),
        ] {
            assert_eq!(encryption(address), (options_left.to_owned(), file.map(PathBuf::from)), "{address}");
        }
    }
}
