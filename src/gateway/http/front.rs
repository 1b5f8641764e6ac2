//! The asynchronous side: connections with limits, the checks in front of routing, bodies, answers, streams. It never touches the
//! database, a file or a tool; those are jobs for the pools.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use futures::Stream as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};

use super::call::{Content, JSON, Progress, Reply, Sent};
use super::onward;
use super::openapi::{self, EVENTS};
use super::problem::{Answered, Problem};
use super::route::{Needs, Route};
use super::routes;
use crate::gateway::identity::request_id;
use crate::gateway::shares::follow::{self, ShareStream};
use crate::gateway::traces::{Kind, context};
use crate::gateway::{DROP_WAIT, END_WAIT, Gateway, ROUTES, stream};

/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// Wait for a request's head.
const HEAD_WAIT: Duration = Duration::from_secs(5);
/// Wait for a request's body.
const BODY_WAIT: Duration = Duration::from_secs(30);
/// Bytes of a body that comes without a token.
const UNKNOWN_BYTES_MAX: usize = 64 * 1024;
/// Interval for maintaining shared sessions.
const TICK: Duration = Duration::from_secs(1);
/// Interval for removing old data.
const TIDY: Duration = Duration::from_secs(3_600);
/// Time after which a client that takes nothing is dropped.
const STALLED: Duration = Duration::from_secs(30);

/// The address of a process on this machine.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The listeners: on the network, and for sessions of the same user.
pub struct Listeners {
    pub net: std::net::TcpListener,
    pub own: Option<std::os::unix::net::UnixListener>,
}

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Net(SocketAddr),
    /// A process of the same user, by the Unix socket.
    Own,
}

/// The sender of a request: its address, if necessary as a trusted proxy names it.
#[derive(Clone, Copy)]
struct Client {
    address: IpAddr,
    is_own: bool,
}

/// Starts the thread; the receiver reports its end.
pub fn start(gateway: Arc<Gateway>, listeners: Listeners) -> io::Result<(JoinHandle<()>, Receiver<()>)> {
    let (ended, has_ended) = sync_channel(1);
    // One thread works at a time, and another one takes over the rest while it blocks in a request.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("gw-http").enable_all().build()?;
    let thread = std::thread::Builder::new().name("gw-http".into()).spawn(move || {
        runtime.block_on(accept(gateway, listeners));
        runtime.shutdown_timeout(DROP_WAIT);
        let _ = ended.send(());
    })?;
    Ok((thread, has_ended))
}

async fn accept(gateway: Arc<Gateway>, listeners: Listeners) {
    let Ok(listener) = TcpListener::from_std(listeners.net) else { return };
    let own = listeners.own.and_then(|own| UnixListener::from_std(own).ok());
    let router = router(&gateway);
    let tidying = tokio::spawn(tidy(Arc::clone(&gateway)));
    let most = gateway.parts.settings.gateway.limits.connections;
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let places = Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(Semaphore::MAX_PERMITS)));
    let mut stopping = gateway.stopping.subscribe();
    tokio::spawn(tick(Arc::clone(&gateway)));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (gateway, router) = (Arc::clone(&gateway), router.clone());
        let is_accepted = tokio::select! {
            accepted = listener.accept() => accepted.map(|(socket, address)| {
                let _ = socket.set_nodelay(true);
                spawn_connection((gateway, router), Watched { socket, deadline: None }, Peer::Net(address), place);
            }),
            accepted = next(own.as_ref()) => accepted.map(|socket| {
                // The directory's mode admits only the same user; the kernel confirms it.
                if socket.peer_cred().is_ok_and(|peer| peer.uid() == nix::unistd::getuid().as_raw()) {
                    spawn_connection((gateway, router), Watched { socket, deadline: None }, Peer::Own, place);
                }
            }),
            _ = stopping.wait_for(|is_stopping| *is_stopping) => break,
        };
        if is_accepted.is_err() {
            // Usually the descriptors have run out: some are free again when other connections end.
            sleep(Duration::from_millis(100)).await;
        }
    }
    tidying.abort();
    let _ = timeout(END_WAIT + DROP_WAIT, places.acquire_many(most)).await;
}

/// Removes old data periodically.
async fn tidy(gateway: Arc<Gateway>) {
    loop {
        sleep(TIDY).await;
        let at_work = Arc::clone(&gateway);
        if let Ok(Err(error)) = gateway.work.run("", move || at_work.ledger.retention().tidy()).await {
            tracing::warn!(event = "tidy_failed", error = %error);
        }
    }
}

/// Accepts the next connection through the Unix socket; never returns if there is none.
async fn next(own: Option<&UnixListener>) -> io::Result<tokio::net::UnixStream> {
    match own {
        Some(own) => own.accept().await.map(|(socket, _)| socket),
        None => std::future::pending().await,
    }
}

/// Looks after shared sessions while the gateway serves.
async fn tick(gateway: Arc<Gateway>) {
    let mut stopping = gateway.stopping.subscribe();
    loop {
        tokio::select! {
            () = sleep(TICK) => {}
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        }
        if gateway.shares.are_some() {
            let at_work = Arc::clone(&gateway);
            let _ = gateway.work.run("", move || at_work.shares.tick(&at_work.callers, Instant::now())).await;
        }
    }
}

fn spawn_connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    (gateway, router): (Arc<Gateway>, Router),
    socket: Watched<S>,
    peer: Peer,
    place: OwnedSemaphorePermit,
) {
    tokio::spawn(async move {
        connection(gateway, router, socket, peer).await;
        drop(place);
    });
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    gateway: Arc<Gateway>,
    router: Router,
    socket: Watched<S>,
    peer: Peer,
) {
    let mut stopping = gateway.stopping.subscribe();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (gateway, router) = (Arc::clone(&gateway), router.clone());
        async move { Ok::<_, Infallible>(answer(&gateway, router, request.map(Body::new), peer).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let serving = builder.serve_connection(TokioIo::new(socket), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => return,
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = serving.await;
}

/// Builds the router from the table.
fn router(gateway: &Arc<Gateway>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let gateway = Arc::clone(gateway);
        let filter = MethodFilter::try_from(route.method()).unwrap_or(MethodFilter::GET);
        let handler = move |params: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
            let gateway = Arc::clone(&gateway);
            async move { handle(&gateway, route, params.ok().as_ref(), request).await }
        };
        router = router.route(route.path, on(filter, handler));
    }
    let missing = |request: Request| async move { respond_problem(&Problem::not_found(), &id_of(&request)) };
    router.fallback(missing)
}

/// Answers a request: checks in front of routing, then the route.
async fn answer(gateway: &Arc<Gateway>, router: Router, mut request: Request, peer: Peer) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    let (trace, parent) = context::enter(request.headers_mut());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let kind = (routes::is_raw(&path), path == "/" || path.starts_with("/ui/"));
    let mut span = (!kind.1 && path != "/health" && path != "/metrics")
        .then(|| gateway.traces.begin(&trace, parent.as_deref(), Kind::Server, method.to_string()))
        .flatten();
    let client = match peer {
        Peer::Net(address) => gateway.reach.client(address.ip(), request.headers()),
        Peer::Own => Ok(HERE),
    };
    let checked = match (peer, &client) {
        (Peer::Net(_), Err(())) => {
            Err(Problem::new(403, "forbidden", "other machines come through a trusted proxy only"))
        }
        (Peer::Net(_), Ok(_)) => gateway.names.check(&method, request.headers(), kind),
        // Pages can't reach the socket.
        (Peer::Own, _) => Ok(()),
    };
    let address = client.unwrap_or(HERE);
    request.extensions_mut().insert(Client { address, is_own: peer == Peer::Own });
    let mut response = match checked {
        Err(problem) => respond_problem(&problem, &id),
        Ok(()) => {
            let router = TowerToHyperService::new(router);
            router.call(request).await.unwrap_or_else(|never| match never {})
        }
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED && response.headers().get(header::CONTENT_TYPE).is_none() {
        let allow = response.headers().get(header::ALLOW).cloned();
        let message = format!("{method} isn't possible here");
        response = respond_problem(&Problem::new(405, "method_not_allowed", message), &id);
        response.headers_mut().extend(allow.map(|allow| (header::ALLOW, allow)));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    let route = response.extensions().get::<Pattern>().map_or("other", |pattern| pattern.0);
    let status = response.status().as_u16();
    gateway.metrics.answered(route, status, began.elapsed());
    if let Some(span) = &mut span {
        span.answered((method.as_str(), route), status, &id);
    }
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(event = "request", method = %method, route, status, ms, request_id = id.as_str());
    response
}

/// The request's id, either the client's or a new one.
#[derive(Clone)]
struct RequestId(String);

fn id_of(request: &Request) -> String {
    request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default()
}

/// The pattern of the route that answered.
#[derive(Clone, Copy)]
struct Pattern(&'static str);

/// Answers a request to a route; without `params` its path has a name that is no text.
async fn handle(
    gateway: &Arc<Gateway>,
    route: &'static Route,
    params: Option<&RawPathParams>,
    request: Request,
) -> Response {
    let id = id_of(&request);
    let is_stopping = *gateway.stopping.borrow();
    let done = match is_stopping && route.path != "/health" {
        true => Err(Problem::new(503, "shutting_down", "the gateway ends").header("Retry-After", "2")),
        false => handled(gateway, route, params, request).await,
    };
    let mut response = match done {
        Ok(reply) => respond(gateway, reply),
        Err(problem) => {
            if problem.code == "database_unavailable" {
                gateway.metrics.database_errors.fetch_add(1, Ordering::Relaxed);
            }
            respond_problem(&problem, &id)
        }
    };
    response.extensions_mut().insert(Pattern(route.path));
    response
}

async fn handled(
    gateway: &Arc<Gateway>,
    route: &'static Route,
    params: Option<&RawPathParams>,
    request: Request,
) -> Answered<Reply> {
    let params: Option<BTreeMap<String, String>> =
        params.map(|params| params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let client = request.extensions().get::<Client>().copied();
    let client = client.ok_or_else(|| Problem::new(500, "internal", "a request without a connection"))?;
    let request_id = id_of(&request);
    let (head, body) = request.into_parts();
    let headers = head.headers;
    onward::check(gateway, &headers)?;
    let accepts: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok()).collect();
    if !accepts.is_empty() && !openapi::is_acceptable(route, &accepts.join(",")) {
        let message = "there is no answer of a type that the header Accept allows";
        return Err(Problem::new(406, "not_acceptable", message));
    }
    let known = headers.contains_key(header::AUTHORIZATION);
    let is_signed = route.path == "/hooks/{name}";
    let bytes_max = if known || is_signed { route.bytes_max } else { route.bytes_max.min(UNKNOWN_BYTES_MAX) };
    let too_large = || Problem::new(413, "too_large", format!("a body has at most {bytes_max} bytes here"));
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > bytes_max) {
        return Err(too_large());
    }
    let body = timeout(BODY_WAIT, received(body, bytes_max)).await;
    let body = body.map_err(|_| Problem::new(408, "timeout", "the body didn't come in time"))?;
    let body = body?.ok_or_else(too_large)?;
    let (address, is_own) = (client.address, client.is_own);
    let sent = Arc::new(Sent { route, request_id, params, query, target, headers, body, address, is_own });
    let needs_caller = matches!(route.needs, Needs::Role(_) | Needs::Person(_));
    let refusal = routes::secret(&sent).filter(|_| needs_caller);
    if let Some(rate) = refusal.and_then(|secret| gateway.rates.refusal(secret, Instant::now())) {
        return Err(Problem::rate_limited(rate));
    }
    let (at_work, wanted) = (Arc::clone(gateway), Arc::clone(&sent));
    let lane = sent.headers.get("x-tenant-id").and_then(|tenant| tenant.to_str().ok()).unwrap_or_default().to_owned();
    let reply = match gateway.work.run(&lane, move || routes::answer(&at_work, &wanted)).await? {
        Err(refusal) => onward::pass(gateway, &sent, refusal).await?,
        Ok(reply) => reply,
    };
    match reply.content {
        Content::Later(steps, wait) => later(steps, wait).await,
        content => Ok(Reply { content, ..reply }),
    }
    .and_then(|reply| as_promised(route, reply))
}

/// Refuses, in debug builds, an answer that the OpenAPI document doesn't describe.
fn as_promised(route: &Route, reply: Reply) -> Answered<Reply> {
    #[cfg(debug_assertions)]
    {
        let value = match &reply.content {
            Content::Json(value) => Some(value.clone()),
            Content::Text(JSON, text) => Some(serde_json::from_str(text).unwrap_or_default()),
            _ => None,
        };
        let problems = value.map(|value| super::answers::problems(route, &value)).unwrap_or_default();
        if !problems.is_empty() {
            let message = format!("the answer isn't as its schema has it: {}", problems.join("; "));
            return Err(Problem::new(500, "internal", message));
        }
    }
    let _ = route;
    Ok(reply)
}

/// Reads a body; `None` if it has more than `most` bytes.
async fn received(body: Body, most: usize) -> Answered<Option<Vec<u8>>> {
    let (mut pieces, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(piece) = poll_fn(|context| Pin::new(&mut pieces).poll_next(context)).await {
        let piece = piece.map_err(|_| Problem::body("the body ends too early, or its pieces have no valid length"))?;
        if bytes.len() + piece.len() > most {
            return Ok(None);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Some(bytes))
}

/// Waits for the end of an action; once a person is asked, at most for `wait`.
async fn later(mut steps: UnboundedReceiver<Progress>, wait: Duration) -> Answered<Reply> {
    let mut asked: Option<(serde_json::Value, tokio::time::Instant)> = None;
    loop {
        let step = match &asked {
            None => steps.recv().await,
            Some((value, until)) => match tokio::time::timeout_at(*until, steps.recv()).await {
                Ok(step) => step,
                Err(_) => return Ok(Reply::json(202, value.clone())),
            },
        };
        match step {
            Some(Progress::Asked(value)) => asked = Some((value, tokio::time::Instant::now() + wait)),
            Some(Progress::Done(done)) => return *done,
            None => return Err(Problem::new(500, "internal", "the action ended without an answer")),
        }
    }
}

fn respond(gateway: &Arc<Gateway>, reply: Reply) -> Response {
    if let Content::Passed(response) = reply.content {
        return *response;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (kind, body) = match reply.content {
        // The caller has handled the last two.
        Content::Empty | Content::Later(..) | Content::Passed(_) => (None, Body::empty()),
        Content::Json(value) => (Some(JSON), Body::from(value.to_string())),
        Content::Text(kind, text) => (Some(kind), Body::from(text)),
        Content::Bytes(kind, bytes) => (Some(kind), Body::from(bytes)),
        Content::Download(kind, bytes) => (Some(kind), Body::from(bytes)),
        Content::Run(wanted) => (Some(EVENTS), stream::run_body(gateway, *wanted)),
        Content::Share(wanted) => (Some(EVENTS), share_body(gateway, *wanted)),
        Content::Stream(wanted) => (Some(EVENTS), stream::body(gateway, *wanted)),
    };
    *response.body_mut() = body;
    set_headers(&mut response, kind, &reply.headers);
    response
}

/// A body that follows a shared session for as long as its viewer may watch.
fn share_body(gateway: &Arc<Gateway>, wanted: ShareStream) -> Body {
    let right = match &wanted {
        ShareStream::Viewer { right, .. } => right.clone(),
        ShareStream::Publisher(_) => Default::default(),
    };
    let at_work = Arc::clone(gateway);
    let may_watch: follow::MayWatch = Box::new(move || {
        let (gateway, (tenant, secret)) = (Arc::clone(&at_work), right.clone());
        Box::pin(async move {
            let (look, lane) = (Arc::clone(&gateway), tenant.clone());
            let may_read = move || look.callers.may_read(&[(secret, tenant)]).ok();
            gateway.work.run(&lane, may_read).await.ok().flatten().map(|may_read| may_read == [true])
        })
    });
    follow::body(wanted, gateway.stopping.subscribe(), may_watch)
}

fn respond_problem(problem: &Problem, request_id: &str) -> Response {
    let mut response = Response::new(Body::from(problem.to_value(request_id).to_string()));
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set_headers(&mut response, Some(JSON), &problem.details.headers);
    response
}

/// Sets the headers that every answer has, and those of this one.
fn set_headers(response: &mut Response, kind: Option<&'static str>, more: &[(&'static str, String)]) {
    let headers = response.headers_mut();
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if kind == Some(EVENTS) {
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    }
    for (name, value) in more {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(*name, value);
        }
    }
}

/// A socket whose writes have a deadline: a body isn't polled while its client takes nothing, so a deadline within the body
/// would never come.
struct Watched<S> {
    socket: S,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    fn watch<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watch(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.watch(written, context)
    }
}
