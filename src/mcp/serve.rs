//! The thread of the servers: one task for each holds its connection, starts it when it is needed, and ends it.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CancelledNotificationParam, ClientRequest, GetPromptRequestParams, InputRequest,
    InputRequiredResult, InputResponses, PingRequest, ReadResourceRequestParams, Request as ProtocolRequest,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, LocalSet};

use super::asking::{Caller, CallerMessage, Talks, as_value};
use super::cache::Cache;
use super::connect::{Connection, NotConnected, Notice, connect};
use super::http::HttpError;
use super::oauth::Tokens;
use super::{
    END, End, Era, Fault, Halted, Launch, McpError, Order, Place, Reply, Server, ServerLimits, Shared, Standing, Web,
    convert,
};
use crate::proto::served::Manifest;

/// Failures within [`FAILURE_TIME`] after which a server stays off until a person restarts it.
const FAILURES_MAX: usize = 3;
const FAILURE_TIME: Duration = Duration::from_secs(600);
/// Waits before a server is automatically started again, by the number of failures.
const BACK_OFF: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];
/// Time in which changes of a list are put together before it is fetched again.
const LIST_QUIET: Duration = Duration::from_millis(250);

/// Interval at which a running server's task checks the emergency stop, which has to end the server within 500 ms.
const HALT_LOOK: Duration = Duration::from_millis(250);
const _: () = assert!(HALT_LOOK.as_millis() < 500);

/// The parts that the thread works with.
pub(super) struct Tools {
    pub(super) launch: Launch,
    pub(super) end: End,
    pub(super) web: Web,
    pub(super) halted: Halted,
    pub(super) state: Option<PathBuf>,
    pub(super) cache: Cache,
    pub(super) known: Mutex<HashMap<String, Tokens>>,
    /// True if servers' questions are declined.
    pub(super) is_nobody_there: AtomicBool,
    pub(super) starting: Starting,
}

/// The process ids of programs that were started and haven't connected yet.
pub(super) type Starting = Arc<Mutex<BTreeSet<u32>>>;

impl Tools {
    /// The tokens of a server that is reached by an address. They are shared by address, so that all of their users know the
    /// newest challenge.
    pub(super) fn tokens(&self, server: &Server) -> Option<Tokens> {
        let Place::Url(url) = &server.place else { return None };
        let mut known = self.known.lock();
        let made = || {
            let (read, name) = (Arc::clone(&self.web.secret), server.name.clone());
            let secret = Box::new(move || read(&name));
            Tokens::new(url, self.state.clone(), Arc::clone(&self.web.dial), server.oauth.clone(), secret)
        };
        Some(known.entry(url.clone()).or_insert_with(made).clone())
    }

    /// Waits until the emergency stop; returns the reason.
    async fn wait_for_halt(&self) -> String {
        loop {
            if let Some(why) = (self.halted)() {
                return why;
            }
            tokio::time::sleep(HALT_LOOK).await;
        }
    }
}

/// Threads for requests to servers that are reached by an address, each of which may hold a stream open.
const BLOCKING_MAX: usize = 96;
/// Requests that one server answers at a time. A question has one call at a time; many questions share a server.
const IN_FLIGHT_MAX: usize = 8;
/// Limit on the rounds in which one request may ask the person something.
const ROUNDS_MAX: usize = 5;
/// Interval at which a call checks its time limits.
const LOOK: Duration = Duration::from_millis(50);

/// A request to the thread.
pub(super) struct Request {
    pub(super) server: String,
    pub(super) job: Job,
}

pub(super) enum Job {
    Wake,
    Close(std::sync::mpsc::Sender<()>),
    Connect { answer: Caller, cancel: oneshot::Receiver<()> },
    Ping { answer: Caller, cancel: oneshot::Receiver<()> },
    Call { order: Order, answer: Caller, cancel: oneshot::Receiver<()> },
    Read { uri: String, answer: Caller, cancel: oneshot::Receiver<()> },
    Prompt { name: String, arguments: Map<String, Value>, answer: Caller, cancel: oneshot::Receiver<()> },
}

/// Starts the thread.
///
/// # Errors
/// The machine has no thread or no event queue left.
pub(super) fn start(
    shared: Arc<Shared>,
    tools: Arc<Tools>,
) -> io::Result<(mpsc::UnboundedSender<Request>, std::thread::JoinHandle<()>)> {
    let (sender, requests) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(BLOCKING_MAX)
        .build()?;
    let run = move || {
        LocalSet::new().block_on(&runtime, dispatch(requests, shared, tools));
        runtime.shutdown_timeout(END);
    };
    let handle = std::thread::Builder::new().name("mcp".into()).spawn(run)?;
    Ok((sender, handle))
}

/// Passes each request to its server's task, until there are no more senders; then all servers are ended.
async fn dispatch(mut requests: mpsc::UnboundedReceiver<Request>, shared: Arc<Shared>, tools: Arc<Tools>) {
    let mut tasks = JoinSet::new();
    let mut keepers: HashMap<String, (mpsc::UnboundedSender<Job>, Ends)> = HashMap::new();
    while let Some(Request { server, job }) = requests.recv().await {
        let (keeper, ends) = keepers.entry(server.clone()).or_insert_with(|| {
            let (sender, jobs) = mpsc::unbounded_channel();
            let ends = Ends::default();
            let keeper = Keeper {
                name: server,
                shared: Arc::clone(&shared),
                tools: Arc::clone(&tools),
                connection: None,
                failures: VecDeque::new(),
                calls: Arc::default(),
                talks: Talks::default(),
                ends: ends.clone(),
            };
            tasks.spawn_local(keeper.run(jobs));
            (sender, ends)
        });
        if matches!(job, Job::Close(_)) {
            ends.add();
        }
        let _ = keeper.send(job);
    }
    keepers.values().for_each(|(_, ends)| ends.add());
    // Those that hang are ended together: one after the other would take long.
    let starting: Vec<u32> = std::mem::take(&mut *tools.starting.lock()).into_iter().collect();
    if !starting.is_empty() {
        let _ = (tools.end)(&starting, Duration::ZERO);
    }
    drop(keepers);
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    // The rest is dropped with its tasks, which kills the programs.
    let _ = tokio::time::timeout(END, all_ended).await;
}

/// The pending orders to end a server. They abort a start, or a fetch of its lists.
#[derive(Clone, Default)]
struct Ends(Rc<watch::Sender<usize>>);

impl Ends {
    fn add(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    fn take(&self) {
        self.0.send_modify(|count| *count -= 1);
    }

    /// Waits until there is one.
    async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|count| *count > 0).await;
    }
}

/// The task of one server.
struct Keeper {
    name: String,
    shared: Arc<Shared>,
    tools: Arc<Tools>,
    connection: Option<Connection>,
    failures: VecDeque<Instant>,
    /// Calls that are under way.
    calls: Arc<AtomicUsize>,
    talks: Talks,
    ends: Ends,
}

enum Event {
    Job(Job),
    Gone,
    Notice(Notice),
    Idle,
    Halted(String),
}

impl Keeper {
    async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        loop {
            match self.next(&mut jobs).await {
                Event::Job(job) => self.perform(job).await,
                Event::Gone => break,
                Event::Notice(Notice::Ended(why)) => self.note_failure(why),
                Event::Notice(Notice::Lists) => self.fetch_lists().await,
                Event::Idle if self.calls.load(Ordering::Relaxed) == 0 => self.close().await,
                Event::Idle => {}
                Event::Halted(why) => {
                    if let Some(connection) = self.connection.take() {
                        connection.abort();
                        tracing::info!(event = "server_ended", server = %self.name, why = "halted");
                    }
                    self.shared.update(&self.name, |entry| {
                        entry.standing = Standing::Failed { why, at: Instant::now(), again_at: None }
                    });
                }
            }
        }
        self.close().await;
    }

    async fn next(&mut self, jobs: &mut mpsc::UnboundedReceiver<Job>) -> Event {
        let idle = self.server().map_or(FAILURE_TIME, |server| server.limits.idle);
        let Some(connection) = &mut self.connection else {
            return jobs.recv().await.map_or(Event::Gone, Event::Job);
        };
        tokio::select! {
            job = jobs.recv() => job.map_or(Event::Gone, Event::Job),
            notice = connection.next() => Event::Notice(notice),
            () = tokio::time::sleep(idle) => Event::Idle,
            why = self.tools.wait_for_halt() => Event::Halted(why),
        }
    }

    fn server(&self) -> Option<Server> {
        self.shared.lock().get(&self.name).map(|entry| entry.server.clone())
    }

    async fn perform(&mut self, job: Job) {
        match job {
            Job::Wake => {
                // A person or a question asks for it: earlier failures don't count.
                self.failures.clear();
                let _ = self.connected().await;
            }
            Job::Close(done) => {
                self.failures.clear();
                self.close().await;
                self.ends.take();
                let _ = done.send(());
            }
            Job::Connect { answer, mut cancel } => {
                if cancel.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                    let result = self.connected().await.map(|_| Reply::default());
                    let _ = answer.send(CallerMessage::Done(result));
                }
            }
            Job::Ping { answer, cancel } => {
                self.send(ClientRequest::PingRequest(PingRequest::default()), answer, cancel).await;
            }
            Job::Call { order, answer, cancel } => {
                let mut params = CallToolRequestParams::new(order.tool);
                params.arguments = Some(order.arguments);
                let request = ClientRequest::CallToolRequest(ProtocolRequest::new(params));
                self.send_seen(request, order.seen, answer, cancel).await;
            }
            Job::Read { uri, answer, cancel } => {
                let params = ReadResourceRequestParams::new(uri);
                self.send(ClientRequest::ReadResourceRequest(ProtocolRequest::new(params)), answer, cancel).await;
            }
            Job::Prompt { name, arguments, answer, cancel } => {
                let params = GetPromptRequestParams::new(name).with_arguments(arguments);
                self.send(ClientRequest::GetPromptRequest(ProtocolRequest::new(params)), answer, cancel).await;
            }
        }
    }

    async fn send(&mut self, request: ClientRequest, answer: Caller, cancel: oneshot::Receiver<()>) {
        self.send_seen(request, None, answer, cancel).await;
    }

    /// Sends a request in a task of its own, so that the server's next one needn't wait for its answer. With `seen` it is sent
    /// only if the server's offer hasn't changed.
    async fn send_seen(
        &mut self,
        request: ClientRequest,
        seen: Option<Arc<Manifest>>,
        answer: Caller,
        mut cancel: oneshot::Receiver<()>,
    ) {
        let mut is_cancelled = || cancel.try_recv() != Err(oneshot::error::TryRecvError::Empty);
        if is_cancelled() {
            return;
        }
        let connected = match self.connected().await {
            Ok(_) if seen.is_some_and(|seen| !self.offers(&seen)) => Err(McpError::OtherOffer),
            Ok(_) if self.calls.load(Ordering::Relaxed) >= IN_FLIGHT_MAX => {
                Err(McpError::NotSent(format!("it is answering {IN_FLIGHT_MAX} requests already")))
            }
            connected => connected,
        };
        // A start may have taken long.
        if is_cancelled() {
            return;
        }
        let (peer, limits) = match connected {
            Ok(found) => found,
            Err(error) => {
                let _ = answer.send(CallerMessage::Done(Err(error)));
                return;
            }
        };
        let calls = Arc::clone(&self.calls);
        let (talks, name, shared) = (self.talks.clone(), self.name.clone(), Arc::clone(&self.shared));
        calls.fetch_add(1, Ordering::Relaxed);
        tokio::task::spawn_local(async move {
            let result = answered(&peer, request, limits, cancel, &talks, &answer).await;
            if let (Err(McpError::NeedsLogin(_)), Some(entry)) = (&result, shared.lock().get_mut(&name)) {
                entry.standing = Standing::NeedsLogin;
            }
            let result = result.map_err(|error| match error {
                McpError::NeedsLogin(_) => McpError::NeedsLogin(name.clone()),
                other => other,
            });
            let _ = answer.send(CallerMessage::Done(result.and_then(convert::reply)));
            calls.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Returns whether a manifest is the newest one.
    fn offers(&self, seen: &Arc<Manifest>) -> bool {
        let servers = self.shared.lock();
        servers.get(&self.name).and_then(|entry| entry.manifest.as_ref()).is_some_and(|now| Arc::ptr_eq(now, seen))
    }

    /// The connection, which is made if necessary.
    async fn connected(&mut self) -> Result<(Peer<RoleClient>, ServerLimits), McpError> {
        let server = self.server().ok_or_else(|| McpError::NoServer(self.name.clone()))?;
        if let Some(connection) = &self.connection {
            match connection.why_over().await {
                None => return Ok((connection.peer(), server.limits)),
                Some(why) => self.note_failure(why),
            }
        }
        let failed = |why: String| McpError::Start { server: self.name.clone(), why };
        if let Some(why) = self.waits() {
            return Err(failed(why));
        }
        let began = Instant::now();
        self.shared.update(&self.name, |entry| entry.standing = Standing::Starting(began));
        let connected = tokio::select! {
            biased;
            () = self.ends.wait() => Err(NotConnected::Ended),
            connected = connect(&server, &self.tools, &self.shared, &self.talks) => connected,
            why = self.tools.wait_for_halt() => Err(NotConnected::Failed(why)),
        };
        match connected {
            Ok((connection, manifest)) => {
                let peer = connection.peer();
                let manifest = self.keep(&server, connection.era, manifest);
                self.connection = Some(connection);
                let ready = Standing::Ready { took: began.elapsed() };
                let (ms, tools) = (began.elapsed().as_millis() as u64, manifest.tools.len() as u64);
                tracing::info!(event = "server_started", server = %self.name, ms, tools);
                self.shared.update(&self.name, |entry| {
                    entry.manifest = Some(manifest);
                    entry.standing = ready;
                    entry.runs = entry.runs.saturating_add(1);
                });
                Ok((peer, server.limits))
            }
            Err(NotConnected::NeedsLogin) => {
                tracing::warn!(event = "server_failed", server = %self.name, code = "login", shown = true);
                self.shared.update(&self.name, |entry| entry.standing = Standing::NeedsLogin);
                Err(McpError::NeedsLogin(self.name.clone()))
            }
            // The task that ended it also sets its new state.
            Err(NotConnected::Ended) => Err(failed("it was ended before it had started".into())),
            Err(NotConnected::Failed(why)) => {
                self.note_failure(why.clone());
                Err(McpError::Start { server: self.name.clone(), why })
            }
        }
    }

    /// Stores a manifest for later runs. Returns the known one if it is the same: the values derived from it are still valid.
    fn keep(&self, server: &Server, era: Era, manifest: Manifest) -> Arc<Manifest> {
        let known = self.shared.lock().get(&self.name).and_then(|entry| entry.manifest.clone());
        let known = known.filter(|known| **known == manifest);
        self.tools.cache.keep(server, era, &manifest, known.is_some());
        known.unwrap_or_else(|| Arc::new(manifest))
    }

    /// Reason why the server isn't started automatically now, if there is one.
    fn waits(&self) -> Option<String> {
        let recent = self.failures.iter().filter(|at| at.elapsed() < FAILURE_TIME).count();
        if recent >= FAILURES_MAX {
            return Some(format!("it failed {recent} times within {} min and stays off", FAILURE_TIME.as_secs() / 60));
        }
        let wait = self.again_at()?.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then(|| format!("it failed just now and is tried again in {} ms", wait.as_millis()))
    }

    fn again_at(&self) -> Option<Instant> {
        let last = self.failures.back()?;
        Some(*last + BACK_OFF[(self.failures.len() - 1).min(BACK_OFF.len() - 1)])
    }

    fn note_failure(&mut self, why: String) {
        self.connection = None;
        self.failures.push_back(Instant::now());
        if self.failures.len() > FAILURES_MAX {
            self.failures.pop_front();
        }
        // The reason may be a line of the server, which is in its own log.
        let failures = self.failures.len() as u64;
        tracing::warn!(event = "server_failed", server = %self.name, failures, shown = true);
        let again_at = (self.failures.len() < FAILURES_MAX).then(|| self.again_at()).flatten();
        let at = Instant::now();
        self.shared.update(&self.name, |entry| {
            entry.failure = Some(Fault { why: why.clone(), at, runs: entry.runs });
            entry.standing = Standing::Failed { why, at, again_at };
        });
    }

    async fn fetch_lists(&mut self) {
        tokio::time::sleep(LIST_QUIET).await;
        let (Some(server), Some(connection)) = (self.server(), &mut self.connection) else { return };
        connection.forget_changes();
        // A list that can't be fetched now leaves the old one.
        let peer = connection.peer();
        let fetched = tokio::select! {
            () = self.ends.wait() => return,
            fetched = convert::manifest(&peer, &server) => fetched,
        };
        if let (Ok(manifest), Some(connection)) = (fetched, &self.connection) {
            let era = connection.era;
            let manifest = self.keep(&server, era, manifest);
            self.shared.update(&self.name, |entry| entry.manifest = Some(manifest));
        }
    }

    /// Ends the connection. After the emergency stop, a server gets no time to end itself.
    async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            match (self.tools.halted)() {
                Some(_) => connection.abort(),
                None => connection.close().await,
            }
            tracing::info!(event = "server_ended", server = %self.name, why = "closed");
        }
        self.shared.update(&self.name, |entry| {
            entry.standing = Standing::Asleep { is_known: entry.manifest.is_some() };
        });
    }
}

/// Sends a request and waits for its answer; the person first answers the server's questions.
async fn answered(
    peer: &Peer<RoleClient>,
    mut request: ClientRequest,
    limits: ServerLimits,
    mut cancel: oneshot::Receiver<()>,
    talks: &Talks,
    caller: &Caller,
) -> Result<ServerResult, McpError> {
    for _ in 0..=ROUNDS_MAX {
        match once(peer, request.clone(), limits, &mut cancel, talks, caller).await? {
            ServerResult::InputRequiredResult(wanted) => add_input(&mut request, wanted, talks, caller).await?,
            result => return Ok(result),
        }
    }
    Err(McpError::Protocol(format!("it asks for input more than {ROUNDS_MAX} times")))
}

/// Sends a request once, and waits for its answer, for its time limits, or for the caller to cancel it.
async fn once(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    limits: ServerLimits,
    cancel: &mut oneshot::Receiver<()>,
    talks: &Talks,
    caller: &Caller,
) -> Result<ServerResult, McpError> {
    let began = Instant::now();
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
    // With a server that is reached by an address this waits for the head of its answer.
    let handle = tokio::select! {
        handle = sent => handle.map_err(failure)?,
        _ = &mut *cancel => return Err(McpError::Stopped),
        () = tokio::time::sleep(limits.call) => return Err(McpError::Timeout(limits.call)),
    };
    let (id, entry) = (handle.id.clone(), talks.begin(handle.progress_token.clone(), caller.clone()));
    let over = async {
        loop {
            tokio::time::sleep(LOOK).await;
            if entry.last().elapsed() >= limits.call {
                return limits.call;
            }
            if began.elapsed() >= limits.call_max {
                return limits.call_max;
            }
        }
    };
    let (reason, error) = tokio::select! {
        result = handle.await_response() => return result.map_err(failure),
        limit = over => ("it took too long", McpError::Timeout(limit)),
        _ = &mut *cancel => ("the person stopped it", McpError::Stopped),
    };
    let params = CancelledNotificationParam::new(Some(id), Some(reason.into()));
    let _ = peer.notify_cancelled(params).await;
    Err(error)
}

/// Asks the person the server's questions, and adds the answers to the request.
async fn add_input(
    request: &mut ClientRequest,
    wanted: InputRequiredResult,
    talks: &Talks,
    caller: &Caller,
) -> Result<(), McpError> {
    let mut responses = InputResponses::new();
    for (key, input) in wanted.input_requests.unwrap_or_default() {
        let InputRequest::Elicitation(form) = input else {
            return Err(McpError::Protocol("it asks for something that this client doesn't offer".into()));
        };
        let token = rmcp::model::ProgressToken(rmcp::model::NumberOrString::String(key.clone().into()));
        let _entry = talks.begin(token, caller.clone());
        responses.insert(key, as_value(&talks.ask(form.params).await));
    }
    let responses = (!responses.is_empty()).then_some(responses);
    let state = wanted.request_state;
    match request {
        ClientRequest::CallToolRequest(request) => {
            (request.params.input_responses, request.params.request_state) = (responses, state);
        }
        ClientRequest::ReadResourceRequest(request) => {
            (request.params.input_responses, request.params.request_state) = (responses, state);
        }
        ClientRequest::GetPromptRequest(request) => {
            (request.params.input_responses, request.params.request_state) = (responses, state);
        }
        _ => return Err(McpError::Protocol("it asks for input where there is none".into())),
    }
    Ok(())
}

/// The reason for which HTTP failed, if it was that.
pub(super) fn of_http(error: &DynamicTransportError) -> Option<&HttpError> {
    match error.error.downcast_ref::<StreamableHttpError<HttpError>>()? {
        StreamableHttpError::Client(error) => Some(error),
        _ => None,
    }
}

/// The reason for which a transport failed, in words.
pub(super) fn http_words(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<HttpError>>() {
        Some(StreamableHttpError::Client(error)) => error.to_string(),
        Some(StreamableHttpError::UnexpectedContentType(kind)) => {
            let kind = kind.as_deref().unwrap_or("something without a type");
            format!("it answered with {kind} instead of JSON or events; is the address that of its endpoint?")
        }
        _ => error.error.to_string(),
    }
}

fn failure(error: ServiceError) -> McpError {
    match error {
        ServiceError::McpError(error) => McpError::Refused(error.code.0, error.message.into_owned()),
        ServiceError::Timeout { timeout } => McpError::Timeout(timeout),
        ServiceError::TransportSend(error) => match of_http(&error) {
            Some(HttpError::Login(_)) => McpError::NeedsLogin(String::new()),
            Some(HttpError::NotSent(why)) => McpError::NotSent(why.clone()),
            Some(refused @ HttpError::Status(..)) => McpError::NotSent(refused.to_string()),
            Some(HttpError::Broken(_)) => McpError::Lost,
            None if error.error.downcast_ref::<StreamableHttpError<HttpError>>().is_some() => {
                McpError::Protocol(http_words(&error))
            }
            None => McpError::Lost,
        },
        ServiceError::TransportClosed => McpError::Lost,
        ServiceError::Cancelled { .. } => McpError::Stopped,
        other => McpError::Protocol(other.to_string()),
    }
}
