//! Servers of the Model Context Protocol: starts them, fetches what they offer, calls their tools.
//!
//! The protocol itself is rmcp's. This room adds pipes to jailed programs, one thread that is made when a server is first needed,
//! limits, and a synchronous interface: only [`Mcp::call`], [`Mcp::read`], [`Mcp::prompt`], [`Mcp::wait`], and the end can block.
//! It must not know policy, a person's permissions, or the display.

mod asking;
mod cache;
mod connect;
mod convert;
mod http;
mod listen;
mod messages;
mod oauth;
mod serve;
mod server;
mod sse;
mod wire;

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::proto::served::{Asks, Manifest, Unasked};
use asking::{Caller, CallerMessage};
use cache::Cache;
pub use oauth::{Browser, Dial, Visit};
use serve::{Job, Request};
pub use server::{
    End, Era, Fault, Halted, Headers, Launch, McpError, Order, Part, Place, Reply, Secret, Server, ServerLimits,
    Standing, Web,
};
use server::{Entry, LOG_BYTES_MAX, MESSAGE_BYTES_MAX, Shared};

/// Longest time that [`Mcp`] waits for its servers when it ends.
const END: Duration = Duration::from_secs(2);
/// Interval at which a waiting caller checks whether it should stop.
const LOOK: Duration = Duration::from_millis(20);

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
    /// Ends everything as soon as it returns a reason.
    pub halted: Halted,
    /// The directory for manifests and standard errors; without one, nothing is stored.
    pub state: Option<PathBuf>,
}

/// Returns a server's offer at its last run, however it is started now; `state` is the directory of [`Options`].
#[must_use]
pub fn manifest_known(state: &std::path::Path, server: &str) -> Option<Manifest> {
    Cache::new(Some(state.to_owned())).last(server)
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
            let manifest = cache.manifest(&server);
            (server.name.clone(), Entry::new(server, manifest))
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
            is_nobody_there: AtomicBool::new(false),
            starting: serve::Starting::default(),
        };
        Self { shared: Arc::new(shared), options: Arc::new(tools), thread: Mutex::new(None) }
    }

    /// The names of the servers, each with its state.
    #[must_use]
    pub fn standings(&self) -> Vec<(String, Standing)> {
        self.shared.lock().iter().map(|(name, entry)| (name.clone(), entry.standing.clone())).collect()
    }

    /// The newest failure of a server.
    #[must_use]
    pub fn failure(&self, name: &str) -> Option<Fault> {
        self.shared.lock().get(name)?.failure.clone()
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
        let manifest = self.options.cache.manifest(&server);
        self.shared.lock().insert(server.name.clone(), Entry::new(server, manifest));
    }

    /// Ends a server and forgets it.
    pub fn remove(&self, name: &str) {
        self.close(name);
        self.shared.lock().remove(name);
    }

    /// Declines the questions of servers that are started from now on.
    pub fn ask_nobody(&self) {
        self.options.is_nobody_there.store(true, Ordering::Relaxed);
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
        if self.thread.lock().is_some() {
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
            self.shared.changed.wait_for(&mut servers, left.min(LOOK));
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

    /// Pings a server.
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

    /// Logs in at a server, with the person's browser. This doesn't connect to it.
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
        tracing::info!(event = "login", server);
        tokens.forget_challenge();
        self.close(server);
        Ok(())
    }

    /// Deletes the tokens and the registration at a server. Returns whether there were any.
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
                // If a call failed because of the emergency stop, the error names the stop, whichever thread noticed it first.
                Ok(CallerMessage::Done(Err(error))) => {
                    return Err((self.options.halted)().map_or(error, McpError::Halted));
                }
                Ok(CallerMessage::Done(done)) => return done,
                Ok(CallerMessage::Form { message, fields, answer }) => {
                    let _ = answer.send(asks.form(server, &message, &fields));
                }
                Ok(CallerMessage::Link { message, url, answer }) => {
                    let _ = answer.send(asks.link(server, &message, &url));
                }
                Ok(CallerMessage::Progress { message, share }) => asks.progress(&message, share),
                Err(RecvTimeoutError::Disconnected) => return Err(McpError::Lost),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let halted = (self.options.halted)();
            if halted.is_some() || stop() {
                // The server is notified; its answer is ignored.
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
        let mut thread = self.thread.lock();
        let server = request.server.clone();
        if thread.as_ref().is_none_or(|thread| thread.handle.is_finished()) {
            match serve::start(Arc::clone(&self.shared), Arc::clone(&self.options)) {
                Ok((requests, handle)) => *thread = Some(Thread { requests, handle }),
                Err(error) => {
                    let why = format!("no thread for it: {error}");
                    let failed = Standing::Failed { why, at: Instant::now(), again_at: None };
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
        let thread = self.thread.get_mut().take();
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
