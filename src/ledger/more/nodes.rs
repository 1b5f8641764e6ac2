//! Gateways that share a database: each reports that it is alive, settles the work of dead ones, and sends hints about new
//! events.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use crate::base::time::utc_ms;
use crate::host;
#[cfg(feature = "postgres")]
use crate::ledger::sql;
use crate::ledger::sql::{Begin, OptionalExtension as _, Target, params};
use crate::ledger::{Ledger, LedgerError, Listening, now_ms};

/// Milliseconds of silence after which a gateway is dead.
const LEASE_MS: i64 = 15_000;
/// Time before the end of a lease from which on its gateway doesn't count on it: for a call to begin, and for clocks that don't run
/// equally fast.
const MARGIN: Duration = Duration::from_secs(1);
/// Interval at which a gateway reports that it lives.
const RENEW: Duration = Duration::from_secs(5);
/// Time in which at most one hint is sent.
const HINT: Duration = Duration::from_millis(20);
/// Time after which a lost connection for hints is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval for reporting a persistent failure again.
const REPEATED: Duration = Duration::from_secs(60);

/// The threads that connect a gateway with others. They end with the value.
pub struct Neighbours {
    hints: SyncSender<()>,
    /// Dropped at the end, which its receiver sees.
    #[expect(dead_code, reason = "the end of the value is the signal")]
    life: SyncSender<()>,
}

impl Neighbours {
    /// Notifies the others that a log has grown.
    pub fn hint(&self) {
        // A waiting hint covers this one, too.
        let _ = self.hints.try_send(());
    }
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// The address at which it listens.
    pub address: Option<String>,
    /// The address at which this gateway reaches it, as its own config names it.
    pub url: Option<String>,
    /// The time when it began.
    pub started_at: Option<String>,
}

/// The gateways of a database.
pub struct Nodes<'l>(pub(in crate::ledger) &'l Ledger);

impl Nodes<'_> {
    /// Reports that this gateway is alive. The only gateway of a file counts as alive until the next one serves it. Returns the
    /// number of gateways that have died since the last call.
    ///
    /// # Errors
    /// The database fails.
    pub fn renew(&self) -> Result<usize, LedgerError> {
        let pool = &self.0.pool;
        // This is computed before the request is sent, so the database's lease ends later.
        let safe_until = host::boot_time() + Duration::from_millis(LEASE_MS.unsigned_abs()) - MARGIN;
        let transaction = pool.begin(Begin::Write, &[])?;
        let now = now_ms(&transaction)?;
        let is_server = pool.target().is_server();
        let sql = "DELETE FROM node WHERE node_id <> ?1 AND until_ms < ?2";
        let dead = transaction.execute(sql, params![pool.node(), if is_server { now } else { i64::MAX }])?;
        // The row of a file must change, too: an unchanged row isn't written, so it wouldn't reveal a full disk.
        let until = if is_server { now + LEASE_MS } else { i64::MAX - 1 - now };
        let listening = self.0.listening.get();
        let address = listening.map(|it| it.address.as_str());
        let (url, loopback) = listening.map(|it| (it.url.as_deref(), it.loopback.as_deref())).unzip();
        let (url, loopback, since) = (url.flatten(), loopback.flatten(), listening.map(|it| it.since_ms));
        let sql = "INSERT INTO node (node_id, until_ms, address, started_ms, url, loopback) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (node_id) DO UPDATE \
                   SET until_ms = ?2, address = ?3, started_ms = ?4, url = ?5, loopback = ?6";
        transaction.execute(sql, params![pool.node(), until, address, since, url, loopback])?;
        transaction.finish()?;
        self.0.leases().renewed(safe_until)?;
        Ok(dead)
    }

    /// Reports that this gateway is alive, and settles the work of gateways that have died.
    ///
    /// # Errors
    /// The database fails.
    pub fn live_on(&self) -> Result<(), LedgerError> {
        if self.renew()? > 0 { self.settle_dead() } else { Ok(()) }
    }

    /// Publishes the address at which this gateway listens, and the one at which others reach it.
    ///
    /// # Errors
    /// The database fails.
    pub fn listens(&self, address: String, url: Option<String>) -> Result<(), LedgerError> {
        let since_ms = {
            let connection = self.0.view("")?;
            now_ms(&connection)?
        };
        let _ = self.0.listening.set(Listening { address, url, loopback: host::loopback(), since_ms });
        self.renew().map(drop)
    }

    /// Returns the gateways of the database that are alive according to it.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self) -> Result<Vec<Node>, LedgerError> {
        let connection = self.0.view("")?;
        let now = now_ms(&connection)?;
        // At a loopback address of another machine, a stranger may listen on this one.
        let sql = "SELECT node_id, address, started_ms, CASE WHEN url LIKE 'https://%' OR loopback = ?2 THEN url END \
                   FROM node WHERE until_ms > ?1 ORDER BY started_ms, node_id";
        let here = self.0.listening.get().and_then(|it| it.loopback.as_deref());
        let rows = connection.prepare_cached(sql)?.query_map(params![now, here], |row| {
            let started: Option<i64> = row.get(2)?;
            Ok(Node { id: row.get(0)?, address: row.get(1)?, url: row.get(3)?, started_at: started.map(utc_ms) })
        })?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// Returns the number of this machine among those that share the database: the known one, or a new one. Only for a database
    /// on a server.
    ///
    /// # Errors
    /// The database fails.
    pub fn machine(&self, known: Option<i64>) -> Result<i64, LedgerError> {
        let pool = &self.0.pool;
        // This uses a lock with this name, so that two machines that begin at once get different numbers.
        let transaction = pool.begin(Begin::Write, &["machine"])?;
        let next =
            || transaction.query_row("SELECT coalesce(max(number) + 1, 0) FROM machine", params![], |row| row.get(0));
        let number: i64 = known.map_or_else(next, Ok)?;
        let sql = "INSERT INTO machine VALUES (?1, ?2) ON CONFLICT (number) DO UPDATE SET node = ?2";
        transaction.execute(sql, params![number, pool.node()])?;
        transaction.finish()?;
        Ok(number)
    }

    /// Returns the gateway that is alive on a machine, if there is one.
    ///
    /// # Errors
    /// There is no such machine, or the database fails.
    pub fn at_machine(&self, number: i64) -> Result<Option<Node>, LedgerError> {
        let id: Option<String> = {
            let connection = self.0.view("")?;
            let found = connection.query_row("SELECT node FROM machine WHERE number = ?1", [number], |row| row.get(0));
            found.optional()?.ok_or(LedgerError::NotFound)?
        };
        Ok(self.list()?.into_iter().find(|node| Some(&node.id) == id.as_ref()))
    }

    /// Reports that this gateway has stopped serving, so that another one settles its work at once.
    ///
    /// # Errors
    /// The database fails.
    pub fn leave(&self) -> Result<(), LedgerError> {
        let transaction = self.0.pool.begin(Begin::Write, &[])?;
        transaction.execute("UPDATE node SET until_ms = 0 WHERE node_id = ?1", params![self.0.pool.node()])?;
        Ok(transaction.finish()?)
    }

    /// Settles the work of gateways that don't serve any more: nothing waits for it, and its end is unknown.
    ///
    /// # Errors
    /// The database fails.
    pub fn settle_dead(&self) -> Result<(), LedgerError> {
        // This comes first, so that no event of theirs follows the ones about their end.
        self.0.leases().end_left()?;
        self.0.keys().mark_unknown()?;
        self.0.safety().settle_left()?;
        self.0.questions().close_left()?;
        self.0.runs().end_left()?;
        self.0.shares().end_left()?;
        Ok(())
    }
}

/// Checks whether another server has replaced the one with the database. The last writes that the old one acknowledged may be
/// missing here, so all clients start over: the logs get a new epoch.
#[cfg(feature = "postgres")]
pub fn check_timeline(connection: &sql::Connection) -> sql::Result<()> {
    let sql = "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE \
               ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END";
    let Some(timeline) = connection.query_row(sql, params![], |row| row.get::<Option<i64>>(0))? else { return Ok(()) };
    let known: Option<i64> = connection.query_row("SELECT timeline FROM instance", params![], |row| row.get(0))?;
    if known == Some(timeline) {
        return Ok(());
    }
    connection.run("BEGIN")?;
    // Of several that see it at once, one raises the epochs.
    let sql = "UPDATE instance SET timeline = ?1 WHERE timeline IS DISTINCT FROM ?1";
    if connection.execute(sql, params![timeline])? > 0 && known.is_some() {
        connection.execute("UPDATE tenant SET epoch = epoch + 1", params![])?;
        tracing::warn!(event = "epoch_raised", timeline);
    }
    connection.commit()
}

/// Starts to exchange hints with the other gateways of a database on a server: `grown` is called when one of them has appended
/// events, and in doubt. A database in a file has one gateway, and needs no threads. `listen_at` is the server's address if that
/// of the database is a connection pooler, which doesn't support listening.
///
/// # Errors
/// The system has no more threads.
pub fn meet(
    ledger: &Arc<Ledger>,
    listen_at: Option<String>,
    grown: impl Fn() + Send + 'static,
) -> std::io::Result<Option<Neighbours>> {
    let Target::Server(address) = ledger.pool.target().clone() else { return Ok(None) };
    let address = listen_at.unwrap_or(address);
    let (hints, coming) = sync_channel(1);
    let (life, lives) = sync_channel(0);
    let node = ledger.pool.node().to_owned();
    std::thread::Builder::new().name("gw-listen".into()).spawn(move || hear(&address, &node, &grown, &lives))?;
    let ledger = Arc::clone(ledger);
    std::thread::Builder::new().name("gw-node".into()).spawn(move || live(&ledger, &coming))?;
    Ok(Some(Neighbours { hints, life }))
}

/// The reports of one kind of failure: while a database is away, each attempt fails in the same way.
#[derive(Default)]
struct Reports {
    last: Option<Instant>,
}

impl Reports {
    /// Returns whether a failure should be reported now.
    fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= REPEATED);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}

/// Receives the hints of others. Without a connection the streams poll once a second.
fn hear(address: &str, node: &str, grown: &dyn Fn(), lives: &Receiver<()>) {
    let look = || {
        grown();
        lives.try_recv() != Err(TryRecvError::Disconnected)
    };
    #[cfg(feature = "postgres")]
    let mut reports = Reports::default();
    loop {
        #[cfg(feature = "postgres")]
        if let Err(error) = sql::listen(address, node, grown, &look)
            && reports.is_due()
        {
            tracing::warn!(event = "hints_lost", error = %error);
        }
        #[cfg(not(feature = "postgres"))]
        let _ = (address, node, look());
        grown();
        if lives.recv_timeout(AGAIN) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Sends hints and renews the lease until the gateway ends.
fn live(ledger: &Ledger, hints: &Receiver<()>) {
    let (mut renewed, mut reports) = (Instant::now(), Reports::default());
    loop {
        match hints.recv_timeout(RENEW.saturating_sub(renewed.elapsed())) {
            Ok(()) => {
                #[cfg(feature = "postgres")]
                if let Err(error) = ledger.pool.take().and_then(|connection| sql::notify(&connection)) {
                    tracing::warn!(event = "hint_failed", error = %error);
                }
                std::thread::park_timeout(HINT);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if renewed.elapsed() >= RENEW {
            renewed = Instant::now();
            if let Err(error) = ledger.nodes().live_on().and_then(|()| ledger.leases().let_idle_go())
                && reports.is_due()
            {
                tracing::warn!(event = "lease_failed", error = %error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_goes_on_is_reported_once_a_minute() {
        let mut reports = Reports::default();
        assert_eq!([reports.is_due(), reports.is_due(), reports.is_due()], [true, false, false]);
        reports.last = reports.last.and_then(|last| last.checked_sub(REPEATED));
        assert_eq!([reports.is_due(), reports.is_due()], [true, false]);
    }
}
