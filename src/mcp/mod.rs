//! Servers of the Model Context Protocol: starts them, fetches what they offer, calls their tools.
//!
//! The protocol itself is rmcp's. This room gives it pipes to jailed programs, one thread that is made when a server is
//! first needed, limits, and a synchronous face: nothing here waits but [`Mcp::call`], [`Mcp::read`], [`Mcp::prompt`],
//! [`Mcp::wait`], and the end. It must not know policy, what a person has allowed, or who shows what.

mod asking;
mod cache;
mod connect;
mod convert;
mod http;
mod lines;
mod listen;
mod oauth;
mod serve;
mod sse;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::host::Authorities;
use crate::proto::served::{Asks, Link, Manifest, OAuth, Unasked};
use asking::{Caller, Told};
use cache::Cache;
pub use oauth::{Browser, Dial, Visit};
use serve::{Job, Request};

/// Longest time that [`Mcp`] waits for its servers when it ends.
const END: Duration = Duration::from_secs(2);
/// Interval at which a waiting caller looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a server's standard error that are kept.
const LOG_BYTES_MAX: usize = 64 << 10;
/// Longest message of a server.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// A server, as the user's configuration has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its name: `[a-z][a-z0-9-]{0,19}`.
    pub name: String,
    /// Its address or program.
    pub place: Place,
    /// The version of the protocol to speak.
    pub era: Era,
    /// Time limits.
    pub limits: ServerLimits,
    /// Logins at it, if it is reached by an address.
    pub oauth: OAuth,
    /// Whether it may ask the person something.
    pub may_ask: bool,
    /// Speaks the transport of 2024-11-05 at its address.
    pub is_sse: bool,
    /// Whether its resources are listed.
    pub has_resources: bool,
    /// Whether its prompts are listed.
    pub has_prompts: bool,
    /// Started to install itself: with the network, without the workspace.
    pub is_fetching: bool,
}

/// Way in which a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// By a program that is started, with its arguments.
    Program(Vec<String>),
    /// By an address.
    Url(String),
}

impl Place {
    /// The program with its arguments, or the address, in one line.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Program(argv) => argv.join(" "),
            Self::Url(url) => url.clone(),
        }
    }
}

/// The version of the protocol to speak with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// Found out, and remembered for seven days.
    #[default]
    Auto,
    /// `2025-11-25` or older, which begin with a handshake.
    Initialize,
    /// `2026-07-28`, without a handshake.
    Discover,
}

/// Time limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// From its start to its list of tools.
    pub start: Duration,
    /// Between a call and its answer or the next sign of progress.
    pub call: Duration,
    /// Of a call in all.
    pub call_max: Duration,
    /// Without a call until it is ended.
    pub idle: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            call: Duration::from_secs(60),
            call_max: Duration::from_secs(600),
            idle: Duration::from_secs(600),
        }
    }
}

/// Makes the command that starts a server, in the sandbox of its grant.
pub type Launch = Arc<dyn Fn(&Server) -> Result<Command, String> + Send + Sync>;
/// Ends the processes of a program that was started by [`Launch`], after the time given at the latest.
pub type End = Arc<dyn Fn(u32, Duration) -> bool + Send + Sync>;

/// Says why nothing may run now, if so: the emergency stop.
pub type Halted = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Reads the headers that the user wants sent to a server, keys among them.
pub type Headers = Arc<dyn Fn(&str) -> Result<Vec<(String, String)>, String> + Send + Sync>;

/// Reads the secret of the user's own registration for a server.
pub type Secret = Arc<dyn Fn(&Server) -> Option<String> + Send + Sync>;

/// The parts for servers that are reached by an address.
#[derive(Clone)]
pub struct Web {
    /// The authorities that vouch for servers on https.
    pub authorities: Authorities,
    /// The user's headers for a server.
    pub headers: Headers,
    /// Makes the client for addresses that a server names.
    pub dial: Dial,
    /// Reads the secret of the user's own registration for a server.
    pub secret: Secret,
}

/// The parts of a client of servers.
pub struct Options {
    /// The servers that are configured.
    pub servers: Vec<Server>,
    /// Starts their programs.
    pub launch: Launch,
    /// Ends their programs.
    pub end: End,
    /// Reaches those that are reached by an address.
    pub web: Web,
    /// Ends everything as soon as it gives a reason.
    pub halted: Halted,
    /// The directory for manifests and standard errors; nothing is kept without one.
    pub state: Option<PathBuf>,
}

/// State of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not running. Whether its manifest is known from an earlier run.
    Asleep {
        /// Its manifest is known.
        is_known: bool,
    },
    /// Being started, since when.
    Starting(Instant),
    /// Running; how long its start took.
    Ready {
        /// From its start to its list of tools.
        took: Duration,
    },
    /// Wants to know who asks.
    NeedsLogin,
    /// Failed to start, or ended by itself.
    Failed {
        /// The reason, in words.
        why: String,
        /// Not started again by itself before then.
        again_at: Option<Instant>,
    },
}

/// Reason why something of a server can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// There is no server of this name.
    #[error("there is no server called {0}")]
    NoServer(String),
    /// Failed to start, or doesn't speak the protocol.
    #[error("the server {server} can't be used: {why}")]
    Start {
        /// The server.
        server: String,
        /// The reason, in words, with the end of its standard error.
        why: String,
    },
    /// Wants to know who asks.
    #[error("the server {0} needs a login")]
    NeedsLogin(String),
    /// A login failed.
    #[error("the login failed: {0}")]
    Login(String),
    /// No answer came in time.
    #[error("the server didn't answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// Answered with an error.
    #[error("the server answered with error {0}: {1}")]
    Refused(i32, String),
    /// Answered something that the protocol doesn't have here.
    #[error("the server answered against the protocol: {0}")]
    Protocol(String),
    /// Not reached, or refused the request as a whole: nothing was carried out.
    #[error("the server wasn't reached: {0}")]
    NotSent(String),
    /// The caller's `stop` said so.
    #[error("stopped")]
    Stopped,
    /// Nothing may run now, and why.
    #[error("{0}")]
    Halted(String),
    /// Gone after the call was sent: whether the call was carried out isn't known.
    #[error("the server went away during the call; whether it carried the call out is unknown")]
    Lost,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The server.
    pub server: String,
    /// The tool's name at the server.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

/// The answer to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Its parts, in the server's order.
    pub parts: Vec<Part>,
    /// The structured result; null if there is none.
    pub structured: Value,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// A part of an answer. All of it is the server's own text or bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, a sound, or another file.
    Binary {
        /// Its media type.
        media_type: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A link to a resource that wasn't sent along.
    Link(Link),
}

/// Returns a server's offer at its last run, however it is started now; `state` is the directory of [`Options`].
#[must_use]
pub fn manifest_known(state: &std::path::Path, server: &str) -> Option<Manifest> {
    Cache::new(Some(state.to_owned())).last(server)
}

/// The state that callers and the thread share.
#[derive(Default)]
struct Shared {
    servers: Mutex<BTreeMap<String, Entry>>,
    changed: Condvar,
}

struct Entry {
    server: Server,
    standing: Standing,
    manifest: Option<Arc<Manifest>>,
    log: Vec<u8>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a server, and wakes whoever waits for that.
    fn update(&self, server: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.lock().get_mut(server) {
            change(entry);
        }
        self.changed.notify_all();
    }
}

/// The client. The thread and the servers end with it, within two seconds.
pub struct Mcp {
    shared: Arc<Shared>,
    options: Arc<serve::Tools>,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    requests: mpsc::UnboundedSender<Request>,
    handle: std::thread::JoinHandle<()>,
}

impl Mcp {
    /// Makes a client. Nothing is started, and no file but the manifests of earlier runs is read.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let cache = Cache::new(options.state.clone());
        let entry = |server: Server| {
            let manifest = cache.manifest(&server).map(Arc::new);
            let standing = Standing::Asleep { is_known: manifest.is_some() };
            (server.name.clone(), Entry { server, standing, manifest, log: Vec::new() })
        };
        let servers = options.servers.into_iter().map(entry).collect();
        let shared = Shared { servers: Mutex::new(servers), changed: Condvar::new() };
        let state = options.state;
        let tools = serve::Tools {
            launch: options.launch,
            end: options.end,
            web: options.web,
            halted: options.halted,
            state,
            cache,
            known: Mutex::default(),
        };
        Self { shared: Arc::new(shared), options: Arc::new(tools), thread: Mutex::new(None) }
    }

    /// The names of the servers, with how far each is.
    #[must_use]
    pub fn standings(&self) -> Vec<(String, Standing)> {
        self.shared.lock().iter().map(|(name, entry)| (name.clone(), entry.standing.clone())).collect()
    }

    /// A server's configuration.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<Server> {
        self.shared.lock().get(name).map(|entry| entry.server.clone())
    }

    /// Returns the manifest of a server, as it is now or was at an earlier run.
    #[must_use]
    pub fn manifest(&self, name: &str) -> Option<Arc<Manifest>> {
        self.shared.lock().get(name)?.manifest.clone()
    }

    /// The newest of a server's standard error.
    #[must_use]
    pub fn log(&self, name: &str) -> String {
        let servers = self.shared.lock();
        servers.get(name).map(|entry| String::from_utf8_lossy(&entry.log).into_owned()).unwrap_or_default()
    }

    /// Adds a server for as long as this client lives, or replaces one of its name that isn't running.
    pub fn add(&self, server: Server) {
        let manifest = self.options.cache.manifest(&server).map(Arc::new);
        let standing = Standing::Asleep { is_known: manifest.is_some() };
        let entry = Entry { standing, manifest, log: Vec::new(), server };
        self.shared.lock().insert(entry.server.name.clone(), entry);
    }

    /// Ends a server and forgets it.
    pub fn remove(&self, name: &str) {
        self.close(name);
        self.shared.lock().remove(name);
    }

    /// Starts a server in the background, unless it is running.
    pub fn wake(&self, name: &str) {
        if !matches!(self.standing(name), Some(Standing::Ready { .. } | Standing::Starting(_)) | None) {
            self.shared.update(name, |entry| entry.standing = Standing::Starting(Instant::now()));
            self.send(Request { server: name.to_owned(), job: Job::Wake });
        }
    }

    /// Ends a server. It is started again when it is needed.
    pub fn close(&self, name: &str) {
        if self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            let (done, is_done) = std::sync::mpsc::channel();
            self.send(Request { server: name.to_owned(), job: Job::Close(done) });
            let _ = is_done.recv_timeout(END);
        }
    }

    /// Waits until no server of `names` is being started, at most until `deadline`. Returns those that still are.
    #[must_use]
    pub fn wait(&self, names: &[String], deadline: Instant, stop: &(dyn Fn() -> bool + Sync)) -> Vec<String> {
        let is_starting = |servers: &BTreeMap<String, Entry>, name: &&String| {
            servers.get(*name).is_some_and(|entry| matches!(entry.standing, Standing::Starting(_)))
        };
        let mut servers = self.shared.lock();
        loop {
            let late: Vec<String> = names.iter().filter(|name| is_starting(&servers, name)).cloned().collect();
            let left = deadline.saturating_duration_since(Instant::now());
            if late.is_empty() || left.is_zero() || stop() {
                return late;
            }
            let waited = self.shared.changed.wait_timeout(servers, left.min(LOOK));
            servers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts a server if it isn't running, and waits for what it offers.
    ///
    /// # Errors
    /// See [`McpError`].
    pub fn connect(&self, server: &str, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), McpError> {
        self.ask(server, stop, &mut Unasked, |answer, cancel| Job::Connect { answer, cancel }).map(drop)
    }

    /// Calls a tool, and starts its server if it isn't running.
    ///
    /// # Errors
    /// See [`McpError`]; `stop` cancels the call at the server.
    pub fn call(
        &self,
        order: &Order,
        stop: &(dyn Fn() -> bool + Sync),
        asks: &mut dyn Asks,
    ) -> Result<Reply, McpError> {
        self.ask(&order.server, stop, asks, |answer, cancel| Job::Call { order: order.clone(), answer, cancel })
    }

    /// Reads a resource, and starts its server if it isn't running.
    ///
    /// # Errors
    /// See [`McpError`].
    pub fn read(
        &self,
        server: &str,
        uri: &str,
        stop: &(dyn Fn() -> bool + Sync),
        asks: &mut dyn Asks,
    ) -> Result<Reply, McpError> {
        self.ask(server, stop, asks, |answer, cancel| Job::Read { uri: uri.to_owned(), answer, cancel })
    }

    /// Fetches a prompt's text.
    ///
    /// # Errors
    /// See [`McpError`].
    pub fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: &Map<String, Value>,
        stop: &(dyn Fn() -> bool + Sync),
        asks: &mut dyn Asks,
    ) -> Result<Reply, McpError> {
        let (name, arguments) = (prompt.to_owned(), arguments.clone());
        self.ask(server, stop, asks, |answer, cancel| Job::Prompt { name, arguments, answer, cancel })
    }

    /// Asks a server for a sign of life.
    ///
    /// # Errors
    /// See [`McpError`].
    pub fn ping(&self, server: &str, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), McpError> {
        self.ask(server, stop, &mut Unasked, |answer, cancel| Job::Ping { answer, cancel }).map(drop)
    }

    /// Starts a server so that it can install itself, waits until it answers, and ends it.
    ///
    /// # Errors
    /// See [`McpError`].
    pub fn fetch(&self, server: &str, limit: Duration, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), McpError> {
        let known = self.server(server).ok_or_else(|| McpError::NoServer(server.to_owned()))?;
        self.close(server);
        let limits = ServerLimits { start: limit, ..known.limits };
        let fetching = Server { is_fetching: true, limits, ..known.clone() };
        self.shared.update(server, |entry| entry.server = fetching);
        let connected = self.connect(server, stop);
        self.close(server);
        self.shared.update(server, |entry| entry.server = known);
        connected
    }

    /// Logs in at a server, with the person's browser. It isn't connected by that.
    ///
    /// # Errors
    /// See [`McpError`].
    pub fn login(
        &self,
        server: &str,
        browser: &mut dyn Browser,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), McpError> {
        let known = self.server(server).ok_or_else(|| McpError::NoServer(server.to_owned()))?;
        let why = |why: &str| McpError::Login(why.to_owned());
        let tokens = self.options.tokens(&known).ok_or_else(|| why("a program on this machine has no login"))?;
        if !known.oauth.is_on {
            return Err(why("the config switches logins off for this server"));
        }
        let challenge = match tokens.challenge() {
            Some(challenge) => challenge,
            None => {
                // The server's own word, from a request without a token.
                let found = self.connect(server, stop);
                match (tokens.challenge(), found) {
                    (Some(challenge), _) => challenge,
                    (None, Ok(())) => return Err(why("the server doesn't ask for one")),
                    (None, Err(error)) => return Err(error),
                }
            }
        };
        let is_over = || stop() || (self.options.halted)().is_some();
        oauth::login(&tokens, &challenge, browser, &is_over).map_err(McpError::Login)?;
        tokens.forget_challenge();
        self.close(server);
        Ok(())
    }

    /// Forgets the tokens and the registration at a server. Tells whether there were any.
    ///
    /// # Errors
    /// See [`McpError`].
    pub fn logout(&self, server: &str) -> Result<bool, McpError> {
        let known = self.server(server).ok_or_else(|| McpError::NoServer(server.to_owned()))?;
        self.close(server);
        let Some(tokens) = self.options.tokens(&known) else { return Ok(false) };
        tokens.forget().map_err(|error| McpError::Login(error.to_string()))
    }

    fn ask(
        &self,
        server: &str,
        stop: &(dyn Fn() -> bool + Sync),
        asks: &mut dyn Asks,
        job: impl FnOnce(Caller, oneshot::Receiver<()>) -> Job,
    ) -> Result<Reply, McpError> {
        if self.standing(server).is_none() {
            return Err(McpError::NoServer(server.to_owned()));
        }
        if let Some(why) = (self.options.halted)() {
            return Err(McpError::Halted(why));
        }
        let (answer, answered) = std::sync::mpsc::channel();
        let (cancel, is_cancelled) = oneshot::channel();
        self.send(Request { server: server.to_owned(), job: job(answer, is_cancelled) });
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(Told::Done(result)) => return result,
                Ok(Told::Form { message, fields, answer }) => {
                    let _ = answer.send(asks.form(server, &message, &fields));
                }
                Ok(Told::Link { message, url, answer }) => {
                    let _ = answer.send(asks.link(server, &message, &url));
                }
                Ok(Told::Progress { message, share }) => asks.progress(&message, share),
                Err(RecvTimeoutError::Disconnected) => return Err(McpError::Lost),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let halted = (self.options.halted)();
            if halted.is_some() || stop() {
                // The server hears of it; its answer is no longer waited for.
                let _ = cancel.send(());
                return Err(halted.map_or(McpError::Stopped, McpError::Halted));
            }
        }
    }

    fn standing(&self, name: &str) -> Option<Standing> {
        self.shared.lock().get(name).map(|entry| entry.standing.clone())
    }

    /// Passes a request to the thread, which is made for the first one.
    fn send(&self, request: Request) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let server = request.server.clone();
        if thread.as_ref().is_none_or(|thread| thread.handle.is_finished()) {
            match serve::start(Arc::clone(&self.shared), Arc::clone(&self.options)) {
                Ok((requests, handle)) => *thread = Some(Thread { requests, handle }),
                Err(error) => {
                    let failed = Standing::Failed { why: format!("no thread for it: {error}"), again_at: None };
                    self.shared.update(&server, |entry| entry.standing = failed);
                    return;
                }
            }
        }
        if let Some(thread) = thread.as_ref() {
            let _ = thread.requests.send(request);
        }
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Thread { requests, handle }) = thread {
            drop(requests);
            // The thread bounds its own end.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod web_tests;
