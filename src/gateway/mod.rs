//! The team gateway: HTTP in front of the same gate, tools and receipts as the shell's, on one machine with SQLite or on several
//! with PostgreSQL.
//!
//! It owns the listener, the checks before routing, the identity of callers, the table of routes, and streams. It must not know
//! the terminal or the line editor. None of it exists before [`serve`] is called: no thread, socket or table.
//!
//! ```text
//! gw-http   sockets, checks, streams: one thread at a time, and the next one while it does the synchronous side of a request
//! gw-work   that side of the requests that have to wait for a place
//! gw-read   what streams read: a page of the log for all streams of a tenant
//! gw-action one for each action that goes on
//! gw-run    one for each conversation that is live
//! gw-relay  passes events on to NATS, if the config names a server
//! gw-traces writes spans, if the config names a file
//! ```

mod api;
mod ask;
mod database;
mod gestures;
mod guard;
mod homes;
mod http;
mod identity;
mod relay;
mod runs;
mod shares;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod traces;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::app;
use crate::chain::CLASSES;
use crate::config::{GatewaySettings, state_directory};
use crate::ledger::{GATEWAY_ENDED, Ledger, Neighbours, Target, nodes};
use crate::proto::team::Mode;
use crate::proto::{Failure, FailureKind};
use crate::share::SOCKET_NAME;

pub use api::ROUTES;
pub use ask::figures_at;
pub use database::{database_target, migrate, of_ledger, open, open_existing};
pub use homes::{Homes, Parts};
pub use http::inputs::query;
pub use http::openapi::document as openapi;
pub use http::route::Route;
pub use identity::{ids, is_id};
pub use shares::Picture;
pub use state::Gateway;
pub use stream::cursor;

use database::server_address;
use guard::{Names, Reach};
use http::front::{self, Listeners};
use http::inputs::Schemas;
use http::metrics::Metrics;
use http::rates::{Rates, Streams};
use identity::Callers;
use runs::bell::Bell;
use runs::live::Live;
use runs::runners::Runners;
use runs::work::Pool;
use shares::Shares;
use shares::socket::Socket;
use stream::{Feeds, Rights};
use traces::Traces;

/// The usual address.
pub const LISTEN: &str = "127.0.0.1:4117";
/// Threads for requests, and places in their queue.
const WORK: (usize, usize) = (8, 256);
/// Threads for the reads of streams, and the size of their queue, so that no stream waits for a request.
const READ: (usize, usize) = (2, 1_024);
/// Wait for running requests at the end.
const END_WAIT: Duration = Duration::from_secs(10);
/// Wait for the last tasks after that.
const DROP_WAIT: Duration = Duration::from_secs(3);

/// The options of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The address.
    pub listen: String,
    /// Way in which tenants are run.
    pub mode: String,
    /// The database.
    pub database: Target,
}

/// Place where a gateway listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The address.
    pub address: SocketAddr,
    /// The address that people open.
    pub url: String,
    /// The mode.
    pub mode: &'static str,
    /// The database's file, or its kind if it is on a server.
    pub database: String,
}

/// Returns the address of the console: the public address of the settings, the address of the gateway that serves the database
/// now, or the address at which a gateway would listen.
///
/// # Errors
/// The database fails.
pub fn console_at(settings: &GatewaySettings, ledger: &Ledger) -> Result<String, Failure> {
    if !settings.reach.public_url.is_empty() {
        return Ok(settings.reach.public_url.trim_end_matches('/').to_owned());
    }
    let nodes = ledger.nodes().list().map_err(|error| of_ledger(&error))?;
    let serving = nodes.into_iter().filter_map(|node| node.address).find(|address| figures_at(address).is_some());
    Ok(format!("http://{}", serving.as_ref().unwrap_or(&settings.listen)))
}

/// Serves until `ended` reports the end. `begun` is called once, when clients can connect.
///
/// # Errors
/// The options are refused (a mode without its database, an address that others reach without encryption), another gateway
/// serves the database, or the address or database can't be used.
pub fn serve(
    options: &Options,
    parts: Parts,
    begun: impl FnOnce(&Listening),
    ended: impl FnOnce(),
) -> Result<(), Failure> {
    let mode = allowed_mode(&options.mode)?;
    check_mode(mode, &options.database)?;
    check_sandbox(mode, &parts)?;
    let passed_on = relay::wanted(&parts.settings.gateway.nats, &parts.env)?;
    let settings = &parts.settings.gateway;
    let listen_at = server_address("gateway.listen_database", &settings.listen_database, &parts.env)?;
    let replica = server_address("gateway.read_database", &settings.read_database, &parts.env)?;
    check_dangerous(&parts.settings.gateway.dangerous)?;
    let address = address_in(&options.listen)?;
    let reach = Reach::read(&parts.settings.gateway.reach, mode, address)?;
    let ledger = Arc::new(open(&options.database)?);
    replica.into_iter().for_each(|address| ledger.follow(Target::Server(address)));
    let _served = ledger.serve().map_err(|error| Failure { kind: FailureKind::Unavailable, ..of_ledger(&error) })?;
    let nodes = ledger.nodes();
    nodes.renew().and_then(|_| nodes.settle_dead()).map_err(|error| of_ledger(&error))?;
    ledger.shares().forget_old().map_err(|error| of_ledger(&error))?;
    let unserved = unserved(&ledger)?;
    let unusable = |what: &str, error: std::io::Error| failed(format!("{what}: {error}"));
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Failure {
            hint: "does another gateway run? reedclaw gateway status shows it; --listen ADDR:PORT takes another port"
                .into(),
            ..failed(format!("another program listens at {address}"))
        },
        _ => unusable(&address.to_string(), error),
    })?;
    listener.set_nonblocking(true).map_err(|error| unusable("the listener", error))?;
    let address = listener.local_addr().map_err(|error| unusable("the listener", error))?;
    let threads = |error| unusable("threads", error);
    let gateway = Arc::new(Gateway { unserved, ..assembled(ledger, parts, mode, (address, reach))? });
    let url = gateway.reach.node.as_ref().map(ToString::to_string);
    gateway.ledger.nodes().listens(near(address).to_string(), url).map_err(|error| of_ledger(&error))?;
    let neighbours = meet_neighbours(&gateway, listen_at).map_err(threads)?;
    let relay = passed_on.map(|to| relay::start(&gateway.ledger, to, &gateway.passing)).transpose().map_err(threads)?;
    let (own, socket) = own_socket(&gateway).unzip();
    let (http, done) = front::start(Arc::clone(&gateway), Listeners { net: listener, own }).map_err(threads)?;
    tracing::info!(event = "channel_started", channel = "gateway", address = %address);
    begun(&Listening { address, url: gateway.url.clone(), mode: mode.word(), database: gateway.ledger.place() });
    ended();
    gateway.stopping.send_replace(true);
    drop(socket);
    end_requests(&gateway, &done);
    drop(http);
    gateway.traces.end();
    drop((relay, neighbours));
    if let Err(error) = gateway.ledger.nodes().leave() {
        tracing::warn!(event = "lease_failed", error = %error);
    }
    Ok(())
}

/// Assembles a gateway, without accepting connections yet.
fn assembled(
    ledger: Arc<Ledger>,
    parts: Parts,
    mode: Mode,
    (address, reach): (SocketAddr, Reach),
) -> Result<Gateway, Failure> {
    let threads = |error| failed(format!("threads: {error}"));
    let readers = Arc::new(Pool::start("gw-read", READ.0, READ.1).map_err(threads)?);
    let callers = Arc::new(Callers::new(&ledger, &parts.settings.gateway.auth)?);
    let limits = parts.settings.gateway.limits;
    let homes = Homes::new(&parts, &ledger.system_id().map_err(|error| of_ledger(&error))?).on_machine(&ledger)?;
    let places = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let traces = Traces::start(&parts.settings.gateway.traces, ledger.node())?;
    Ok(Gateway {
        traces,
        node_id: ledger.node().to_owned(),
        feeds: Arc::new(Feeds::new(&ledger, &readers)),
        rights: Arc::new(Rights::new(&callers, &readers)),
        callers,
        ledger,
        parts,
        mode,
        started: Instant::now(),
        names: Names::of(address.port(), &reach),
        url: reach.public.as_ref().map_or_else(|| format!("http://{address}"), ToString::to_string),
        reach,
        work: Pool::start("gw-work", WORK.0, WORK.1).map_err(threads)?,
        running: Arc::default(),
        runners: Runners::default(),
        bell: Bell::default(),
        live: Live::default(),
        gestures: Arc::default(),
        shares: Shares::default(),
        schemas: Schemas::default(),
        rates: Rates::default(),
        streams: Streams::new(places(limits.user_streams), places(limits.tenant_streams)),
        metrics: Metrics::default(),
        stopping: watch::Sender::new(false),
        homes,
        passing: Arc::default(),
        unserved: BTreeMap::new(),
    })
}

/// The address at which this machine reaches a listener.
fn near(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if !ip.is_unspecified() => address,
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
    }
}

/// Ends shared sessions and waits for requests. The HTTP thread ends when it has answered the last one; a thread that hangs is
/// abandoned.
fn end_requests(gateway: &Gateway, done: &Receiver<()>) {
    gateway.shares.end_all(GATEWAY_ENDED);
    if done.recv_timeout(END_WAIT).is_err() {
        gateway.running.stop_all();
        let _ = done.recv_timeout(DROP_WAIT);
    }
}

/// Opens the socket for sessions of the same user, if the tenant has only one user. Without it the gateway works, but no session
/// can be shared.
fn own_socket(gateway: &Gateway) -> Option<(UnixListener, Socket)> {
    if gateway.mode != Mode::Lab {
        return None;
    }
    let path = state_directory(&gateway.parts.env)?.join(SOCKET_NAME);
    match shares::socket::listen(&path) {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(event = "socket_failed", path = %path.display(), why = error.to_string());
            None
        }
    }
}

/// Wakes the streams of this gateway and of its neighbours when a log has grown.
fn meet_neighbours(gateway: &Arc<Gateway>, listen_at: Option<String>) -> std::io::Result<Option<Arc<Neighbours>>> {
    // Weak, since the stores hold this and the feeds hold the stores: at the end the database's file must be closed.
    let grow =
        |feeds: Weak<Feeds>| move |tenant: Option<&str>| feeds.upgrade().iter().for_each(|feeds| feeds.grown(tenant));
    let (here, heard) = (grow(Arc::downgrade(&gateway.feeds)), grow(Arc::downgrade(&gateway.feeds)));
    let running = Arc::clone(&gateway.running);
    gateway.ledger.leases().on_lost(Box::new(move |tenant, project, lease| running.stop_under(tenant, project, lease)));
    let neighbours = nodes::meet(&gateway.ledger, listen_at, move || heard(None))?.map(Arc::new);
    let there = neighbours.as_ref().map(Arc::downgrade);
    gateway.ledger.on_append(Box::new(move |tenant| {
        here(Some(tenant));
        if let Some(neighbours) = there.as_ref().and_then(Weak::upgrade) {
            neighbours.hint();
        }
    }));
    Ok(neighbours)
}

/// Finds the tenants whose routes name back-ends that this program doesn't have, each with those routes. Only these tenants
/// aren't served: the settings of one tenant's admin must not end the service of the others.
///
/// # Errors
/// Every tenant has such routes, or the database fails.
fn unserved(ledger: &Ledger) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let here = ledger.engine();
    let tenants = ledger.accounts().tenants().map_err(|error| of_ledger(&error))?;
    let mut unserved = BTreeMap::new();
    for (tenant, _) in &tenants {
        let routes = ledger.backends().list(tenant).map_err(|error| of_ledger(&error))?;
        let others = routes.into_iter().filter(|route| route.backend != here);
        let lines: Vec<String> = others.map(|route| format!("{}: {}", route.service, route.backend)).collect();
        if !lines.is_empty() {
            tracing::warn!(event = "tenant_not_served", tenant, routes = lines.join(", "));
            unserved.insert(tenant.clone(), lines);
        }
    }
    if unserved.len() < tenants.len() {
        return Ok(unserved);
    }
    let all = unserved.iter().flat_map(|(tenant, lines)| lines.iter().map(move |line| format!("{tenant}, {line}")));
    let all = all.collect::<Vec<_>>().join("; ");
    Err(Failure::refused(format!("these routes name back-ends that can't be served here: {all}"))
        .hint("reedclaw gateway routes --tenant TENANT --forget SERVICE takes a route away"))
}

fn failed(message: String) -> Failure {
    Failure::unavailable(format!("the gateway can't start: {message}"))
}

fn allowed_mode(word: &str) -> Result<Mode, Failure> {
    match Mode::of(word) {
        Some(mode) => Ok(mode),
        None => Err(Failure::user(format!("there is no mode {word:?}")).hint("the modes are saas, enterprise and lab")),
    }
}

/// Refuses modes with tenants that don't trust each other, unless the database separates them.
///
/// # Errors
/// The database doesn't separate tenants.
pub fn check_mode(mode: Mode, target: &Target) -> Result<(), Failure> {
    if mode == Mode::Lab || target.is_server() {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "the mode {} needs PostgreSQL, which keeps tenants apart in the database",
        mode.word()
    ))
    .hint(
        "--database env:NAME names a variable with the address of a server; --mode lab serves this machine with SQLite",
    ))
}

/// Refuses an unknown class of actions: otherwise the intended rule would have no effect.
fn check_dangerous(named: &[String]) -> Result<(), Failure> {
    let is_known =
        |it: &&String| it.split_once('=').is_some_and(|(name, class)| !name.is_empty() && CLASSES.contains(&class));
    let Some(wrong) = named.iter().find(|it| !is_known(it)) else { return Ok(()) };
    Err(Failure::user(format!("gateway.dangerous: {wrong:?} names no action and class"))
        .hint(format!("such as \"shop__pay=money\"; the classes are {}", CLASSES.join(", "))))
}

/// Checks that a sandbox with namespaces is available if tenants don't trust each other.
fn check_sandbox(mode: Mode, parts: &Parts) -> Result<(), Failure> {
    if mode == Mode::Lab {
        return Ok(());
    }
    let workspace = app::workspace_dir(&parts.settings, &parts.env);
    app::keeps_tenants_apart(&parts.settings, &parts.env, &workspace).map_err(|why| {
        let message = format!("the mode {} needs a sandbox that keeps tenants apart, and {why}", mode.word());
        Failure::refused(message)
            .hint("install bubblewrap, or let this user make user namespaces; reedclaw doctor says more")
    })
}

/// The address to bind.
fn address_in(text: &str) -> Result<SocketAddr, Failure> {
    text.replace("localhost", "127.0.0.1").parse().map_err(|_| {
        Failure::user(format!("{text:?} isn't an address with a port")).hint(format!("such as --listen {LISTEN}"))
    })
}
