//! Gateways that share a database: each says that it lives, settles what a dead one has left, and hints at new events.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

#[cfg(feature = "postgres")]
use crate::ledger::sql;
use crate::ledger::sql::{Begin, Target, params};
use crate::ledger::{Ledger, LedgerError, now_ms};

/// A gateway that hasn't said so for so long is dead, in milliseconds.
const LEASE_MS: i64 = 15_000;
/// A gateway says that it lives after so long.
const RENEW: Duration = Duration::from_secs(5);
/// At most one hint is sent in so long.
const HINT: Duration = Duration::from_millis(20);
/// A lost connection for hints is opened again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The threads that connect a gateway with others. They end with the value.
pub struct Neighbours {
    hints: SyncSender<()>,
    /// Dropped at the end, which its receiver sees.
    #[expect(dead_code, reason = "the end of the value is the signal")]
    life: SyncSender<()>,
}

impl Neighbours {
    /// Tells the others that a log has grown.
    pub fn hint(&self) {
        // One that waits stands for this one, too.
        let _ = self.hints.try_send(());
    }
}

/// The gateways of a database.
pub struct Nodes<'l>(pub(in crate::ledger) &'l Ledger);

impl Nodes<'_> {
    /// Says that this gateway lives. The only gateway of a file lives until the next one serves it. Returns how many have died
    /// since they were last looked for.
    ///
    /// # Errors
    /// The database fails.
    pub fn renew(&self) -> Result<usize, LedgerError> {
        let pool = &self.0.pool;
        let transaction = pool.begin(Begin::Write, &[])?;
        let now = now_ms(&transaction)?;
        let is_server = pool.target().is_server();
        let sql = "DELETE FROM node WHERE node_id <> ?1 AND until_ms < ?2";
        let dead = transaction.execute(sql, params![pool.node(), if is_server { now } else { i64::MAX }])?;
        let until = if is_server { now + LEASE_MS } else { i64::MAX - 1 };
        let sql = "INSERT INTO node VALUES (?1, ?2) ON CONFLICT (node_id) DO UPDATE SET until_ms = ?2";
        transaction.execute(sql, params![pool.node(), until])?;
        transaction.finish()?;
        Ok(dead)
    }

    /// Says that this gateway serves no more, so that another one settles at once what it has left.
    ///
    /// # Errors
    /// The database fails.
    pub fn leave(&self) -> Result<(), LedgerError> {
        let transaction = self.0.pool.begin(Begin::Write, &[])?;
        transaction.execute("UPDATE node SET until_ms = 0 WHERE node_id = ?1", params![self.0.pool.node()])?;
        Ok(transaction.finish()?)
    }

    /// Settles what gateways have left that serve no more: nobody waits for it, and nobody knows how it ended.
    ///
    /// # Errors
    /// The database fails.
    pub fn settle_dead(&self) -> Result<(), LedgerError> {
        self.0.mark_unknown()?;
        self.0.settle_left()?;
        self.0.close_left_questions()?;
        self.0.end_left_runs()?;
        self.0.shares().end_left()?;
        Ok(())
    }
}

/// Begins to live with the other gateways of a database on a server: `grown` is called when one of them has appended events,
/// and in doubt. A database in a file has one gateway, and needs no threads.
///
/// # Errors
/// The system has no more threads.
pub fn meet(ledger: &Arc<Ledger>, grown: impl Fn() + Send + 'static) -> std::io::Result<Option<Neighbours>> {
    let Target::Server(address) = ledger.pool.target().clone() else { return Ok(None) };
    let (hints, coming) = sync_channel(1);
    let (life, lives) = sync_channel(0);
    let node = ledger.pool.node().to_owned();
    std::thread::Builder::new().name("gw-listen".into()).spawn(move || hear(&address, &node, &grown, &lives))?;
    let ledger = Arc::clone(ledger);
    std::thread::Builder::new().name("gw-node".into()).spawn(move || live(&ledger, &coming))?;
    Ok(Some(Neighbours { hints, life }))
}

/// Hears the hints of others. Without a connection the streams look once a second.
fn hear(address: &str, node: &str, grown: &dyn Fn(), lives: &Receiver<()>) {
    let look = || {
        grown();
        lives.try_recv() != Err(TryRecvError::Disconnected)
    };
    loop {
        #[cfg(feature = "postgres")]
        if let Err(error) = sql::listen(address, node, grown, &look) {
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
    let mut renewed = Instant::now();
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
            let nodes = ledger.nodes();
            let settled = nodes.renew().and_then(|dead| if dead > 0 { nodes.settle_dead() } else { Ok(()) });
            if let Err(error) = settled {
                tracing::warn!(event = "lease_failed", error = %error);
            }
        }
    }
}
