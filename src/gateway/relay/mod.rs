//! Forwarding of events to a stream of NATS JetStream, for programs elsewhere. The log is the queue: each tenant's events are
//! sent in order, one after the other, and a row stores the position. Nothing here decides about a call, and no request waits for
//! it.

mod nats;

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::config::{Env, NatsSettings};
use crate::host::Authorities;
use crate::ledger::{Ledger, LedgerError};
use crate::proto::Failure;
use nats::{Address, Connection};

/// The beginning of the subjects; the tenant follows.
const SUBJECT: &str = "reedclaw.events";
/// Events that are read at once.
const PAGE: usize = 200;
/// Interval for reading the log if there are no new events.
const LOOK: Duration = Duration::from_millis(250);
/// Time after which an idle connection is checked.
const IDLE: Duration = Duration::from_secs(20);
/// The first and the longest wait before a lost connection is opened again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

/// The stream to which events are passed on.
pub struct Target {
    address: Address,
    authorities: Authorities,
    stream: String,
}

/// The state of the connection: true if events are being forwarded.
#[derive(Debug, Default)]
pub struct Passing(Mutex<Option<bool>>);

impl Passing {
    /// The word for it: `off`, `connected` or `waiting`.
    pub fn word(&self) -> &'static str {
        match *self.0.lock() {
            None => "off",
            Some(true) => "connected",
            Some(false) => "waiting",
        }
    }

    fn set(&self, is_connected: bool) {
        *self.0.lock() = Some(is_connected);
    }
}

/// Reads the settings; `None` if they name no server.
///
/// # Errors
/// A setting can't be used.
pub fn wanted(settings: &NatsSettings, env: &Env) -> Result<Option<Target>, Failure> {
    let url = match settings.url.strip_prefix("env:") {
        None => settings.url.as_str(),
        Some(name) => env.get(OsStr::new(name)).and_then(|value| value.to_str()).ok_or_else(|| {
            Failure::config(format!("gateway.nats.url names the variable {name}, which isn't set"))
                .hint("set it to nats://HOST:PORT or tls://HOST:PORT")
        })?,
    };
    if url.is_empty() {
        return Ok(None);
    }
    let hint = "tls://HOST:PORT encrypts the connection to a server on another machine";
    let address = Address::read(url)
        .map_err(|why| Failure::config(format!("gateway.nats.url can't be used: {why}")).hint(hint))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if settings.stream.is_empty() || !settings.stream.chars().all(is_name) {
        let message = "gateway.nats.stream must be the name of a stream: letters, digits, - and _";
        return Err(Failure::config(message).hint("make a stream with the subjects reedclaw.events.>"));
    }
    Ok(Some(Target { address, authorities: Authorities::of(env), stream: settings.stream.clone() }))
}

/// The forwarding thread, which ends when this is dropped.
pub struct Relay {
    life: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.life.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts forwarding events.
///
/// # Errors
/// The system has no more threads.
pub fn start(ledger: &Arc<Ledger>, target: Target, passing: &Arc<Passing>) -> io::Result<Relay> {
    let (life, ends) = sync_channel(0);
    passing.set(false);
    let line = Line { ledger: Arc::clone(ledger), target, passing: Arc::clone(passing), ends };
    let thread = std::thread::Builder::new().name("gw-relay".into()).spawn(move || line.pass_on())?;
    Ok(Relay { life: Some(life), thread: Some(thread) })
}

struct Line {
    ledger: Arc<Ledger>,
    target: Target,
    passing: Arc<Passing>,
    ends: Receiver<()>,
}

impl Line {
    /// Connects repeatedly until the end.
    fn pass_on(&self) {
        let (mut pause, mut reported) = (AGAIN.0, String::new());
        loop {
            let opened = Connection::open(&self.target.address, &self.target.authorities);
            if opened.is_ok() {
                (pause, reported) = (AGAIN.0, String::new());
                self.passing.set(true);
                tracing::info!(event = "nats_connected", stream = self.target.stream.as_str());
            }
            let Err(error) = opened.and_then(|mut connection| self.drain(&mut connection)) else { return };
            self.passing.set(false);
            let why = error.to_string();
            if why != reported {
                tracing::warn!(event = "nats_failed", why = why.as_str());
                reported = why;
            }
            if self.has_ended(pause) {
                return;
            }
            pause = (pause * 2).min(AGAIN.1);
        }
    }

    fn has_ended(&self, wait: Duration) -> bool {
        !matches!(self.ends.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
    }

    /// Forwards events until the end, or until something fails.
    fn drain(&self, connection: &mut Connection) -> io::Result<()> {
        let (mut known, mut checked) = (BTreeSet::new(), Instant::now());
        loop {
            let behind = self.ledger.relay().behind().map_err(of_ledger)?;
            let mut has_passed = false;
            for tenant in &behind {
                if known.insert(tenant.clone()) {
                    self.meet(connection, tenant)?;
                }
                has_passed |= self.page(connection, tenant)?;
            }
            // If retention has removed a tenant's events, there is nothing left to forward.
            if self.has_ended(if has_passed { Duration::ZERO } else { LOOK }) {
                return Ok(());
            }
            if checked.elapsed() > IDLE {
                connection.check()?;
                checked = Instant::now();
            }
        }
    }

    /// Continues after the newest event that the stream has, since it may be unknown whether the last one was stored.
    fn meet(&self, connection: &mut Connection, tenant: &str) -> io::Result<()> {
        let Some(last) = connection.last_id(&self.target.stream, &subject(tenant))? else { return Ok(()) };
        let epoch = self.ledger.relay().next(tenant, 1).map_err(of_ledger)?.0;
        let position = last.strip_prefix(&format!("{tenant}:{epoch}-")).and_then(|rest| rest.parse().ok());
        position.map_or(Ok(()), |position| self.ledger.relay().passed(tenant, position)).map_err(of_ledger)
    }

    /// Forwards a page of a tenant's log, in order. Returns whether there was anything.
    fn page(&self, connection: &mut Connection, tenant: &str) -> io::Result<bool> {
        let (epoch, events) = self.ledger.relay().next(tenant, PAGE).map_err(of_ledger)?;
        let (subject, mut last, mut done) = (subject(tenant), None, Ok(()));
        for event in &events {
            let id = format!("{tenant}:{epoch}-{}", event.position);
            let payload = event.to_value().to_string();
            done = connection.publish(&self.target.stream, &subject, &id, payload.as_bytes());
            if done.is_err() {
                break;
            }
            last = Some(event.position);
        }
        if let Some(position) = last {
            self.ledger.relay().passed(tenant, position).map_err(of_ledger)?;
        }
        done.map(|()| last.is_some())
    }
}

/// Returns the subject of a tenant. A dot is escaped: it would begin another part, so that readers of one tenant's subjects could
/// read another's.
fn subject(tenant: &str) -> String {
    format!("{SUBJECT}.{}", tenant.replace('.', "%2E"))
}

fn of_ledger(error: LedgerError) -> io::Error {
    io::Error::other(error.to_string())
}
