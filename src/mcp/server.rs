//! Servers as data: how they are reached, how far they are, their answers and errors; and the state that callers share with
//! the thread. It must not know the protocol.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::oauth::Dial;
use crate::host::Authorities;
use crate::proto::served::{Link, Manifest, OAuth};

/// Limit on the stored standard error of a server, in bytes.
pub(super) const LOG_BYTES_MAX: usize = 64 << 10;
/// Longest message of a server.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 << 20;

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
    /// True if it may ask the person questions.
    pub may_ask: bool,
    /// Speaks the transport of 2024-11-05 at its address.
    pub is_sse: bool,
    /// True if its resources are listed.
    pub has_resources: bool,
    /// True if its prompts are listed.
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
/// Ends the processes of programs that [`Launch`] started, within this time.
pub type End = Arc<dyn Fn(&[u32], Duration) -> bool + Send + Sync>;

/// Returns the reason for the emergency stop, if it is on.
pub type Halted = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Reads the user's headers for a server, including keys.
pub type Headers = Arc<dyn Fn(&str) -> Result<Vec<(String, String)>, String> + Send + Sync>;

/// Reads the secret of the user's own registration for a server, by its name; `None` if it has none.
pub type Secret = Arc<dyn Fn(&str) -> Result<Option<String>, String> + Send + Sync>;

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

/// State of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not running.
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
    /// Requires a login.
    NeedsLogin,
    /// Failed to start, or ended on its own.
    Failed {
        /// The reason, in words.
        why: String,
        /// The time of that.
        at: Instant,
        /// Time before which it isn't automatically started again.
        again_at: Option<Instant>,
    },
}

/// Reason why a request to a server fails.
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
    /// The server requires a login.
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
    /// The answer isn't valid in the protocol here.
    #[error("the server answered against the protocol: {0}")]
    Protocol(String),
    /// Not reached, or refused the request as a whole: nothing was carried out.
    #[error("the server wasn't reached: {0}")]
    NotSent(String),
    /// The offer differs from the one by which the call was judged: nothing was sent.
    #[error("the server offers something else by now")]
    OtherOffer,
    /// The caller's `stop` returned true.
    #[error("stopped")]
    Stopped,
    /// The emergency stop is on; the reason.
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
    /// The offer by which the call was judged. If the server's offer has changed since, it isn't called.
    pub seen: Option<Arc<Manifest>>,
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

/// A failed start, or an end that the server caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason.
    pub why: String,
    /// Its time.
    pub at: Instant,
    /// The number of times that the server had been connected by then.
    pub runs: u32,
}

/// The state that callers and the thread share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) servers: Mutex<BTreeMap<String, Entry>>,
    pub(super) changed: Condvar,
}

/// A server in its current state.
pub(super) struct Entry {
    pub(super) server: Server,
    pub(super) standing: Standing,
    pub(super) manifest: Option<Arc<Manifest>>,
    /// Its newest failure, also if it was started again.
    pub(super) failure: Option<Fault>,
    /// The number of times that it has been connected.
    pub(super) runs: u32,
    pub(super) log: Vec<u8>,
}

impl Entry {
    pub(super) fn new(server: Server, manifest: Option<Manifest>) -> Self {
        let standing = Standing::Asleep { is_known: manifest.is_some() };
        Self { server, standing, manifest: manifest.map(Arc::new), failure: None, runs: 0, log: Vec::new() }
    }
}

impl Shared {
    /// The servers, by name.
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.servers.lock()
    }

    /// Changes the state of a server, and wakes the threads that wait for that.
    pub(super) fn update(&self, server: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.lock().get_mut(server) {
            change(entry);
        }
        self.changed.notify_all();
    }
}
