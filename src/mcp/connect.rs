//! One connection to a server: its program, its pipes, the first words of the protocol.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProtocolVersion, UrlElicitationCapability,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, RequestContext, RoleClient,
    RunningServiceCancellationToken, serve_client_with_lifecycle,
};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::asking::Talks;
use super::http::{Http, HttpError};
use super::listen::{Task, listen};
use super::messages::input::{Input, Probe};
use super::messages::lines::Messages;
use super::serve::{Starting, Tools, http_words, of_http};
use super::sse;
use super::{End, Era, LOG_BYTES_MAX, MESSAGE_BYTES_MAX, Place, Server, Shared, convert};
use crate::proto::served::Manifest;

/// Time for a server to answer the question for its versions, which older servers don't know.
const DISCOVER: Duration = Duration::from_secs(5);
/// Time for a program to end on its own after its input has ended.
const GRACE: Duration = Duration::from_millis(500);
/// Interval at which a program's end is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// Longest wait for the remaining standard error of a program that has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// An event that a server causes on its own.
pub(super) enum Notice {
    /// Ended, for this reason.
    Ended(String),
    /// One of its lists has changed.
    Lists,
}

/// A running server.
pub(super) struct Connection {
    /// The version that the server speaks.
    pub(super) era: Era,
    peer: Peer<RoleClient>,
    cancel: Option<RunningServiceCancellationToken>,
    service: JoinHandle<()>,
    /// The service has ended, and must not be waited for again.
    is_over: bool,
    lists: mpsc::UnboundedReceiver<()>,
    /// Tasks that end with the connection.
    _tasks: Vec<Task>,
    /// Its program; a server that is reached by an address has none.
    process: Option<Process>,
}

impl Connection {
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.peer.clone()
    }

    /// Waits until the server does something on its own. It may be dropped and called again at any time.
    pub(super) async fn next(&mut self) -> Notice {
        if !self.is_over {
            tokio::select! {
                _ = &mut self.service => self.is_over = true,
                Some(()) = self.lists.recv() => return Notice::Lists,
            }
        }
        Notice::Ended(self.ended().await)
    }

    /// Reason why the server can't be called any more, if it can't.
    pub(super) async fn why_over(&self) -> Option<String> {
        if self.is_over || self.peer.is_transport_closed() { Some(self.ended().await) } else { None }
    }

    async fn ended(&self) -> String {
        match &self.process {
            Some(process) => process.ended().await,
            None => "its connection has ended".into(),
        }
    }

    /// Forgets changes of lists that were announced so far.
    pub(super) fn forget_changes(&mut self) {
        while self.lists.try_recv().is_ok() {}
    }

    /// Ends the connection and the server's processes immediately.
    pub(super) fn abort(mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
    }

    /// Ends the connection: the server's input ends, and its processes soon after.
    pub(super) async fn close(mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
        if !self.is_over {
            let _ = tokio::time::timeout(GRACE, &mut self.service).await;
        }
        if let Some(process) = &self.process {
            let _ = process.status_within(GRACE).await;
        }
    }
}

/// Starts a server, and fetches its offer.
///
/// # Errors
/// Why not, in words, with the end of its standard error.
pub(super) async fn connect(
    server: &Server,
    tools: &Tools,
    shared: &Arc<Shared>,
    talks: &Talks,
) -> Result<(Connection, Manifest), NotConnected> {
    let eras = match (server.era, tools.cache.era(server)) {
        // An installation must not be cut off. Every older server answers the handshake, and every newer one refuses it at once.
        _ if server.is_fetching => vec![Era::Initialize, Era::Discover],
        // That transport is older than the question for versions.
        (Era::Auto, _) if server.is_sse => vec![Era::Initialize],
        (Era::Auto, Some(Era::Initialize)) => vec![Era::Initialize, Era::Discover],
        (Era::Auto, _) => vec![Era::Discover, Era::Initialize],
        (era, _) => vec![era],
    };
    let is_only = eras.len() == 1;
    let mut last = String::new();
    for (round, era) in eras.into_iter().enumerate() {
        // After another start, a server writes the same standard error again.
        if round > 0
            && let Some(entry) = shared.lock().get_mut(&server.name)
        {
            entry.log.clear();
        }
        let limit =
            if era == Era::Discover && !is_only && !server.is_fetching { DISCOVER } else { server.limits.start };
        let attempt = tokio::time::timeout(limit, attempt(server, tools, shared, talks, era)).await;
        match attempt {
            Ok(Ok(connected)) => return Ok(connected),
            // The cause is the program itself: another attempt would fail in the same way.
            Ok(Err(Failure::NoProgram(why))) => return Err(NotConnected::Failed(why)),
            Ok(Err(Failure::NeedsLogin)) => return Err(NotConnected::NeedsLogin),
            Ok(Err(Failure::Unread(why))) => {
                last = why;
                break;
            }
            Ok(Err(Failure::Protocol(why))) => last = why,
            Err(_) => last = format!("it didn't answer within {} s", limit.as_secs()),
        }
    }
    let log = shared.lock().get(&server.name).map(|entry| entry.log.clone()).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let newest = log.lines().rev().find(|line| !line.trim().is_empty()).map(|line| format!(" ({})", line.trim()));
    Err(NotConnected::Failed(format!("{last}{}", newest.unwrap_or_default())))
}

/// Reason why there is no connection.
pub(super) enum NotConnected {
    /// The server requires a login.
    NeedsLogin,
    /// The server was to end before it had started.
    Ended,
    /// In words.
    Failed(String),
}

enum Failure {
    /// The program or the address itself is the reason.
    NoProgram(String),
    NeedsLogin,
    Protocol(String),
    /// The program ended and had read nothing, so another version makes no difference.
    Unread(String),
}

async fn attempt(
    server: &Server,
    tools: &Tools,
    shared: &Arc<Shared>,
    talks: &Talks,
    era: Era,
) -> Result<(Connection, Manifest), Failure> {
    let (changed, lists) = mpsc::unbounded_channel();
    let may_ask = server.may_ask && !tools.is_nobody_there.load(Ordering::Relaxed);
    let handler = Handler { changed: changed.clone(), era, talks: talks.clone(), may_ask };
    let mode = match era {
        Era::Discover => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        Era::Auto | Era::Initialize => ClientLifecycleMode::Initialize,
    };
    let mut tasks = Vec::new();
    let (running, process) = match &server.place {
        Place::Program(_) => {
            let (process, output, input, probe) = Process::start(server, tools, shared).map_err(Failure::NoProgram)?;
            let transport = Messages::new(output, input, MESSAGE_BYTES_MAX);
            match serve_client_with_lifecycle(handler, transport, mode).await {
                Ok(running) => (running, Some(process.connected())),
                Err(error) => return Err(begin_failure(error, Some((&process, &probe))).await),
            }
        }
        Place::Url(url) if server.is_sse => {
            let lines = sse::open(&http(server, tools, url)?).await.map_err(stream_failure)?;
            tasks = lines.tasks;
            let transport = Messages::new(lines.output, lines.input, MESSAGE_BYTES_MAX);
            match serve_client_with_lifecycle(handler, transport, mode).await {
                Ok(running) => (running, None),
                Err(error) => return Err(begin_failure(error, None).await),
            }
        }
        Place::Url(url) => {
            let http = http(server, tools, url)?;
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            config.max_sse_event_size = MESSAGE_BYTES_MAX;
            config.max_json_response_size = MESSAGE_BYTES_MAX;
            let transport = StreamableHttpClientTransport::with_client(http, config);
            match serve_client_with_lifecycle(handler, transport, mode).await {
                Ok(running) => (running, None),
                Err(error) => return Err(begin_failure(error, None).await),
            }
        }
    };
    let peer = running.peer().clone();
    let cancel = Some(running.cancellation_token());
    let service = tokio::spawn(async move {
        let _ = running.waiting().await;
    });
    // Before the lists are fetched, so that no change is missed.
    tasks.extend(listen(&peer, changed));
    let is_over = false;
    let connection = Connection { era, peer: peer.clone(), cancel, service, is_over, lists, _tasks: tasks, process };
    match convert::manifest(&peer, server).await {
        Ok(manifest) => Ok((connection, manifest)),
        Err(why) => Err(tools_failure(server, tools, why)),
    }
}

/// The way to a server that is reached by an address.
fn http(server: &Server, tools: &Tools, url: &str) -> Result<Http, Failure> {
    let tokens = tools.tokens(server).ok_or_else(|| Failure::NoProgram("it has no address".into()))?;
    let web = &tools.web;
    Ok(Http::new(&server.name, url, web.authorities.clone(), Arc::clone(&web.headers), tokens))
}

/// Reason why a stream of events can't be opened.
fn stream_failure(error: HttpError) -> Failure {
    match error {
        HttpError::Login(_) => Failure::NeedsLogin,
        HttpError::NotSent(why) => Failure::NoProgram(why),
        other => Failure::Protocol(other.to_string()),
    }
}

/// The lists can't be fetched: perhaps only because the server requires a login.
fn tools_failure(server: &Server, tools: &Tools, why: String) -> Failure {
    match tools.tokens(server).and_then(|tokens| tokens.challenge()) {
        Some(_) => Failure::NeedsLogin,
        None => Failure::Protocol(why),
    }
}

/// Reason why the first words failed. If the program has ended, that is the reason.
async fn begin_failure(error: ClientInitializeError, process: Option<(&Process, &Probe)>) -> Failure {
    // Which of its two pipes is found closed first is chance.
    let is_closed = match &error {
        ClientInitializeError::ConnectionClosed(_) => true,
        ClientInitializeError::TransportError { error, .. } => is_broken_pipe(error),
        _ => false,
    };
    if let (Some((process, probe)), true) = (process, is_closed) {
        let status = process.end().await;
        let is_untouched = status.is_some() && probe.is_untouched();
        return if is_untouched { Failure::Unread(how_ended(status)) } else { Failure::Protocol(how_ended(status)) };
    }
    Failure::Protocol(match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it answered with error {}: {}", error.code.0, error.message)
        }
        ClientInitializeError::TransportError { error, .. } => match of_http(&error) {
            Some(HttpError::Login(_)) => return Failure::NeedsLogin,
            Some(HttpError::NotSent(why)) => return Failure::NoProgram(why.clone()),
            _ => http_words(&error),
        },
        other => other.to_string(),
    })
}

fn is_broken_pipe(error: &DynamicTransportError) -> bool {
    error.error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Answers a server's requests and handles its notifications that lists have changed. It offers no roots, and no model.
struct Handler {
    changed: mpsc::UnboundedSender<()>,
    era: Era,
    talks: Talks,
    may_ask: bool,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.may_ask {
            let both = ElicitationCapability::new().with_form(FormElicitationCapability::new());
            capabilities.elicitation = Some(both.with_url(UrlElicitationCapability::new()));
        }
        let own = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let version = match self.era {
            Era::Discover => ProtocolVersion::V_2026_07_28,
            Era::Auto | Era::Initialize => ProtocolVersion::V_2025_11_25,
        };
        ClientConfig::new(capabilities, own).with_protocol_version(version)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.may_ask {
            true => Ok(self.talks.ask(request).await),
            false => Err(ErrorData::method_not_found::<rmcp::model::ElicitationCreateRequestMethod>()),
        }
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.talks.progress(&params);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.changed.send(());
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.changed.send(());
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.changed.send(());
    }
}

/// The program of a server. Its processes end with this.
struct Process {
    child: Child,
    end: End,
    /// The programs that haven't connected yet, and haven't been ended together.
    starting: Starting,
    /// `true` once it has connected.
    is_connected: bool,
    /// The reader of its standard error.
    log: Option<JoinHandle<()>>,
}

impl Process {
    fn start(
        server: &Server,
        tools: &Tools,
        shared: &Arc<Shared>,
    ) -> Result<(Self, pipe::Receiver, Input, Probe), String> {
        let mut command = (tools.launch)(server)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Place::Program(argv) = &server.place else { return Err("it has no program".into()) };
        let program = argv.first().map(String::as_str).unwrap_or_default();
        let child = command.spawn().map_err(|error| format!("{program} can't be started: {error}"))?;
        let (end, starting) = (Arc::clone(&tools.end), Arc::clone(&tools.starting));
        starting.lock().insert(child.id());
        let mut process = Self { child, end, starting, is_connected: false, log: None };
        let pipes = process.pipes().map_err(|error| format!("{program} has no pipes: {error}"))?;
        let (output, (input, probe), errors) = pipes;
        let (shared, name) = (Arc::clone(shared), server.name.clone());
        process.log = Some(tokio::spawn(async move { keep_log(errors, &shared, &name).await }));
        Ok((process, output, input, probe))
    }

    fn pipes(&mut self) -> io::Result<(pipe::Receiver, (Input, Probe), pipe::Receiver)> {
        let missing = || io::Error::other("a pipe is missing");
        let output: OwnedFd = self.child.stdout.take().ok_or_else(missing)?.into();
        let input: OwnedFd = self.child.stdin.take().ok_or_else(missing)?.into();
        let errors: OwnedFd = self.child.stderr.take().ok_or_else(missing)?.into();
        let receiver = pipe::Receiver::from_owned_fd;
        Ok((receiver(output)?, Input::new(input)?, receiver(errors)?))
    }

    /// Marks a server as connected: it ends itself once its connection is closed.
    fn connected(mut self) -> Self {
        self.is_connected = self.starting.lock().remove(&self.child.id());
        self
    }

    /// Describes how the program ended, after its end and its last output.
    async fn ended(&self) -> String {
        how_ended(self.end().await)
    }

    /// Waits a moment for the program's end and its last words.
    async fn end(&self) -> Option<WaitStatus> {
        let status = self.status_within(GRACE).await;
        // A child process may hold standard error open.
        for _ in 0..LAST_WORDS.as_millis() / LOOK.as_millis() {
            if self.log.as_ref().is_none_or(JoinHandle::is_finished) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        status
    }

    /// Its status as soon as it has ended. The program isn't reaped: its number must stay its own until `drop`.
    async fn status_within(&self, limit: Duration) -> Option<WaitStatus> {
        let id = Pid::from_raw(self.child.id().cast_signed());
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        for _ in 0..=limit.as_millis() / LOOK.as_millis() {
            match waitid(Id::Pid(id), flags) {
                Ok(WaitStatus::StillAlive) => tokio::time::sleep(LOOK).await,
                status => return status.ok(),
            }
        }
        None
    }
}

fn how_ended(status: Option<WaitStatus>) -> String {
    match status {
        Some(WaitStatus::Exited(_, status)) => format!("it ended with exit status {status}"),
        Some(WaitStatus::Signaled(_, signal, _)) => format!("it was ended by {signal}"),
        _ => "it closed its pipes".into(),
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its children end, too, even if the program itself has already ended.
        if self.starting.lock().remove(&self.child.id()) || self.is_connected {
            let _ = (self.end)(&[self.child.id()], Duration::ZERO);
        }
        let _ = self.child.wait();
    }
}

/// Stores the newest part of a server's standard error.
async fn keep_log(mut errors: pipe::Receiver, shared: &Shared, name: &str) {
    let mut bytes = [0; 4096];
    while let Ok(read) = errors.read(&mut bytes).await {
        if read == 0 {
            break;
        }
        if let Some(entry) = shared.lock().get_mut(name) {
            entry.log.extend_from_slice(&bytes[..read]);
            let over = entry.log.len().saturating_sub(LOG_BYTES_MAX);
            entry.log.drain(..over);
        }
    }
}
