//! The transport of servers that are reached by an address (streamable HTTP): requests by ureq on threads of their own, their
//! answers as rmcp's messages. It follows no redirect, and sends a token only to the address that it was made for.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt, poll_fn};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tokio::sync::{mpsc, oneshot, watch};
use ureq::Agent;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Request, header};

use super::oauth::{Challenge, Tokens};
use super::{Headers, MESSAGE_BYTES_MAX, messages};
use crate::host::{Authorities, certificate_problem};

/// Timeout for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for a request to be sent.
const SEND: Duration = Duration::from_secs(60);
/// Time that the first call of a session waits for the stream on which the server may ask something.
const LISTENING: Duration = Duration::from_secs(2);
/// Bytes that are read at once.
const PIECE_BYTES: usize = 16 << 10;
/// Limit on pieces that wait to be read.
const PIECES: usize = 8;
/// Connections that wait to be used again.
const IDLE_MAX: usize = 8;
/// Bytes of a refusal's body.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// Bytes of a session's name.
const SESSION_BYTES_MAX: usize = 1024;
/// Headers that the transport itself sends.
const RESERVED: [&str; 8] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
    "transfer-encoding",
];
/// The start of the headers that the protocol fills from a request.
const PROTOCOL_HEADERS: &str = "mcp-";

type HttpResult<T> = Result<T, StreamableHttpError<HttpError>>;

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HttpError {
    /// Nothing was sent.
    #[error("{0}")]
    NotSent(String),
    /// The request was sent, and no whole answer came.
    #[error("{0}")]
    Broken(String),
    /// The server requires a login.
    #[error("it needs a login")]
    Login(Challenge),
    /// The server refused the request, so it wasn't carried out.
    #[error("it answered with HTTP status {0}{1}")]
    Status(u16, String),
}

/// The way to one server.
#[derive(Clone)]
pub(super) struct Http(Arc<Inner>);

struct Inner {
    url: String,
    authorities: Authorities,
    headers: Headers,
    server: String,
    tokens: Tokens,
    /// Clients whose connection can be used again.
    idle: Mutex<Vec<Agent>>,
    /// The server has answered the request for the session's own stream, or need not be waited for any longer.
    is_listening: watch::Sender<bool>,
}

/// One request.
struct Order {
    method: &'static str,
    /// The address, if it isn't the server's own.
    url: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
}

/// The head of an answer, and its body as it comes.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Body,
}

/// A body as it comes. Its connection is closed when this is dropped before the end.
struct Body {
    pieces: mpsc::Receiver<Result<Bytes, String>>,
    _line: HangUp,
}

/// The connection of a request, for ending it from another thread.
#[derive(Default)]
struct Line {
    agent: Mutex<Option<Agent>>,
    is_over: AtomicBool,
}

struct HangUp(Arc<Line>);

impl Drop for HangUp {
    fn drop(&mut self) {
        if !self.0.is_over.swap(true, Ordering::SeqCst)
            && let Some(agent) = lock(&self.0.agent).take()
        {
            agent.shutdown();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Http {
    pub(super) fn new(server: &str, url: &str, authorities: Authorities, headers: Headers, tokens: Tokens) -> Self {
        let (server, url) = (server.to_owned(), url.to_owned());
        let is_listening = watch::Sender::new(false);
        Self(Arc::new(Inner { url, authorities, headers, server, tokens, idle: Mutex::default(), is_listening }))
    }

    /// The server's address.
    pub(super) fn url(&self) -> &str {
        &self.0.url
    }

    /// Opens the stream of a server of version 2024-11-05.
    pub(super) async fn events(&self) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let headers = vec![(header::ACCEPT, HeaderValue::from_static("text/event-stream"))];
        let answer = self.send(Order { method: "GET", url: None, headers, body: Vec::new() }).await?;
        match answer.status {
            200..300 if answer.is_of("text/event-stream") => Ok(answer.events()),
            200..300 => Err(HttpError::Broken("it has no stream of events at this address".into())),
            _ => Err(answer.refusal().await),
        }
    }

    /// Sends a message to an address of the same server, whose answer comes by the stream.
    pub(super) async fn post_to(&self, url: &str, body: Vec<u8>) -> Result<(), HttpError> {
        let headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let answer = self.send(Order { method: "POST", url: Some(url.to_owned()), headers, body }).await?;
        if (200..300).contains(&answer.status) { Ok(()) } else { Err(answer.refusal().await) }
    }

    /// Waits until the session's own stream is open or refused. A server drops its earlier questions.
    async fn listening(&self) {
        let mut is_listening = self.0.is_listening.subscribe();
        if tokio::time::timeout(LISTENING, is_listening.wait_for(|is_open| *is_open)).await.is_err() {
            self.0.is_listening.send_replace(true);
        }
    }

    async fn send(&self, order: Order) -> Result<Answer, HttpError> {
        let (head, headed) = oneshot::channel();
        let (sender, pieces) = mpsc::channel(PIECES);
        let line = Arc::new(Line::default());
        let hang_up = HangUp(Arc::clone(&line));
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || inner.perform(&order, head, &sender, &line));
        let (status, headers) =
            headed.await.map_err(|_| HttpError::Broken("the request ended without an answer".into()))??;
        Ok(Answer { status, headers, body: Body { pieces, _line: hang_up } })
    }
}

type Head = oneshot::Sender<Result<(u16, HeaderMap), HttpError>>;

impl Inner {
    /// Sends a request and passes its answer on, on a thread of its own.
    fn perform(&self, order: &Order, head: Head, pieces: &mpsc::Sender<Result<Bytes, String>>, line: &Line) {
        let response = match self.response(order, line) {
            Ok(response) => response,
            Err(error) => {
                let _ = head.send(Err(error));
                return;
            }
        };
        let (parts, body) = response.into_parts();
        if head.send(Ok((parts.status.as_u16(), parts.headers))).is_err() {
            return;
        }
        let mut reader = body.into_with_config().limit(u64::MAX).reader();
        let mut bytes = vec![0; PIECE_BYTES];
        loop {
            let piece = match reader.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => Ok(Bytes::copy_from_slice(&bytes[..count])),
                Err(error) => Err(error.to_string()),
            };
            let is_over = piece.is_err();
            if pieces.blocking_send(piece).is_err() || is_over {
                return;
            }
        }
        drop(reader);
        if !line.is_over.swap(true, Ordering::SeqCst)
            && let Some(agent) = lock(&line.agent).take()
        {
            let mut idle = lock(&self.idle);
            if idle.len() < IDLE_MAX {
                idle.push(agent);
            }
        }
    }

    /// Sends a request, and again with a fresh token if the server rejects the current one.
    fn response(&self, order: &Order, line: &Line) -> Result<ureq::http::Response<ureq::Body>, HttpError> {
        let own = (self.headers)(&self.server).map_err(HttpError::NotSent)?;
        let is_signed = own.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let mut token = if is_signed { None } else { self.tokens.token() };
        for is_last in [false, true] {
            let response = self.exchange(order, &own, token.as_deref(), line)?;
            let status = response.status().as_u16();
            if !matches!(status, 401 | 403) || is_signed {
                return Ok(response);
            }
            let challenge = Challenge::of(status, response.headers());
            if status == 403 && !challenge.wants_scope() {
                return Ok(response);
            }
            let fresh = (status == 401 && !is_last).then(|| self.tokens.refreshed(token.as_deref())).flatten();
            match fresh {
                Some(fresh) => token = Some(fresh),
                None => {
                    self.tokens.note(&challenge);
                    return Err(HttpError::Login(challenge));
                }
            }
        }
        Err(HttpError::Login(Challenge::default()))
    }

    fn exchange(
        &self,
        order: &Order,
        own: &[(String, String)],
        token: Option<&str>,
        line: &Line,
    ) -> Result<ureq::http::Response<ureq::Body>, HttpError> {
        let url = order.url.as_deref().unwrap_or(&self.url);
        if (token.is_some() || !own.is_empty()) && is_open(url) {
            let why =
                "its key or headers would go unencrypted to another machine, so nothing is sent; use an https address";
            return Err(HttpError::NotSent(why.into()));
        }
        let mut request = Request::builder().method(order.method).uri(url);
        for (name, value) in own {
            let lower = name.to_ascii_lowercase();
            if RESERVED.contains(&lower.as_str()) || lower.starts_with(PROTOCOL_HEADERS) {
                return Err(HttpError::NotSent(format!("the header {name} can't be set in the config")));
            }
            request = request.header(name, value);
        }
        for (name, value) in &order.headers {
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let agent = self.agent()?;
        *lock(&line.agent) = Some(agent.clone());
        if line.is_over.load(Ordering::SeqCst) {
            return Err(HttpError::NotSent("it was stopped".into()));
        }
        let is_empty = order.body.is_empty();
        let response = if is_empty {
            request.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request))
        } else {
            request.body(&order.body[..]).map_err(ureq::Error::from).and_then(|request| agent.run(request))
        };
        let response = response.map_err(|error| self.failed(&error))?;
        if response.status().is_redirection() {
            let place = response.headers().get(header::LOCATION).map(|it| String::from_utf8_lossy(it.as_bytes()));
            let place = place.unwrap_or_default();
            let why = format!(" and sends elsewhere ({place}), which isn't followed; the config can name that address");
            return Err(HttpError::Status(response.status().as_u16(), why));
        }
        Ok(response)
    }

    /// A client with an open connection, if there is one, or a new one.
    fn agent(&self) -> Result<Agent, HttpError> {
        if let Some(agent) = lock(&self.idle).pop() {
            return Ok(agent);
        }
        agent(&self.url, &self.authorities).map_err(HttpError::NotSent)
    }

    fn failed(&self, error: &ureq::Error) -> HttpError {
        let why = error.to_string();
        let why = certificate_problem(&why).map_or(why, |(message, _)| message);
        match error {
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::BadUri(_)
            | ureq::Error::Tls(_)
            | ureq::Error::Rustls(_)
            | ureq::Error::Http(_)
            | ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => HttpError::NotSent(why),
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                let place = self.url.split(['?', '#']).next().unwrap_or_default();
                HttpError::NotSent(format!("nothing answers at {place}"))
            }
            _ => HttpError::Broken(why),
        }
    }
}

/// Returns whether requests to an address can be read on the way.
pub(super) fn is_open(url: &str) -> bool {
    let is_encrypted = url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    !is_encrypted && !super::oauth::is_this_machine(url)
}

/// Makes a client for an address of the user's.
pub(super) fn agent(url: &str, authorities: &Authorities) -> Result<Agent, String> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        // Requests are meant only for the address in the config.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(1)
        .user_agent(concat!("reedclaw/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_send_request(Some(SEND))
        .timeout_send_body(Some(SEND));
    if super::oauth::is_this_machine(url) {
        config = config.proxy(None);
    }
    if url.starts_with("https") {
        config = config.tls_config(authorities.tls()?);
    }
    Ok(Agent::new_with_config(config.build()))
}

impl Answer {
    fn is_of(&self, media_type: &str) -> bool {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
    }

    /// The name that the server gave to the session: visible characters only.
    fn session(&self) -> HttpResult<Option<String>> {
        let Some(value) = self.headers.get("mcp-session-id") else { return Ok(None) };
        let is_good = value.as_bytes().iter().all(u8::is_ascii_graphic) && value.len() <= SESSION_BYTES_MAX;
        match value.to_str() {
            Ok(name) if is_good && !name.is_empty() => Ok(Some(name.to_owned())),
            _ => Err(StreamableHttpError::UnexpectedServerResponse("its session has an odd name".into())),
        }
    }

    /// The body, up to the size limit of a message.
    async fn bytes(&mut self, most: usize) -> HttpResult<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.body.pieces.recv().await {
            let piece = piece.map_err(|why| StreamableHttpError::Client(HttpError::Broken(why)))?;
            if bytes.len() + piece.len() > most {
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: most });
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    fn events(self) -> BoxStream<'static, Result<Sse, SseError>> {
        SseStream::from_bytes_stream(bounded(self.body)).boxed()
    }

    /// A refusal in words.
    async fn refusal(mut self) -> HttpError {
        let status = self.status;
        let body = self.bytes(REFUSAL_BYTES_MAX).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        let line: String = line.chars().take(200).collect();
        HttpError::Status(status, if line.is_empty() { String::new() } else { format!(": {line}") })
    }
}

/// The pieces of a stream of events, as long as no event is longer than a message may be.
fn bounded(mut body: Body) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    let (mut since_blank, mut line_is_empty, mut is_over) = (0usize, true, false);
    poll_fn(move |context| {
        // This borrows the whole body, so that its connection lives as long as the stream.
        let body = &mut body;
        if is_over {
            return std::task::Poll::Ready(None);
        }
        body.pieces.poll_recv(context).map(|piece| {
            let piece = match piece? {
                Ok(piece) => piece,
                Err(why) => {
                    is_over = true;
                    return Some(Err(std::io::Error::other(why)));
                }
            };
            for byte in &piece {
                match byte {
                    b'\n' if line_is_empty => since_blank = 0,
                    b'\n' => line_is_empty = true,
                    b'\r' => {}
                    _ => line_is_empty = false,
                }
                since_blank += 1;
            }
            if since_blank > MESSAGE_BYTES_MAX {
                is_over = true;
                return Some(Err(std::io::Error::other("an event of its stream is too long")));
            }
            Some(Ok(piece))
        })
    })
}

fn text_header(value: &str) -> HttpResult<HeaderValue> {
    HeaderValue::from_str(value)
        .map_err(|_| StreamableHttpError::UnexpectedServerResponse("a value can't be put into a header".into()))
}

/// The headers of the protocol.
fn headers(
    accept: &'static str,
    session: Option<&str>,
    event: Option<&str>,
    custom: HashMap<HeaderName, HeaderValue>,
) -> HttpResult<Vec<(HeaderName, HeaderValue)>> {
    let mut headers = vec![(header::ACCEPT, HeaderValue::from_static(accept))];
    if let Some(session) = session {
        headers.push((HeaderName::from_static("mcp-session-id"), text_header(session)?));
    }
    if let Some(event) = event {
        headers.push((HeaderName::from_static("last-event-id"), text_header(event)?));
    }
    headers.extend(custom);
    Ok(headers)
}

const BOTH: &str = "application/json, text/event-stream";

impl StreamableHttpClient for Http {
    type Error = HttpError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<StreamableHttpPostResponse> {
        match &message {
            JsonRpcMessage::Request(it) if matches!(it.request, ClientRequest::InitializeRequest(_)) => {
                self.0.is_listening.send_replace(false);
            }
            JsonRpcMessage::Request(it) if session.is_some() && may_be_asked(&it.request) => self.listening().await,
            _ => {}
        }
        let mut headers = headers(BOTH, session.as_deref(), None, custom)?;
        headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        let order = Order { method: "POST", url: None, headers, body: serde_json::to_vec(&message)? };
        let mut answer = self.send(order).await.map_err(StreamableHttpError::Client)?;
        let awaits_nothing = !matches!(message, JsonRpcMessage::Request(_));
        if matches!(answer.status, 202 | 204) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if answer.status == 404 && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let name = answer.session()?;
        if !(200..300).contains(&answer.status) {
            return refused(&message, session.is_some(), answer).await;
        }
        if answer.is_of("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(answer.events(), name));
        }
        if !answer.is_of("application/json") {
            // Some servers answer 200 without a body to what needs no answer.
            return match awaits_nothing {
                true => Ok(StreamableHttpPostResponse::Accepted),
                false => {
                    let kind = answer.headers.get(header::CONTENT_TYPE);
                    let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
                    Err(StreamableHttpError::UnexpectedContentType(kind))
                }
            };
        }
        let body = answer.bytes(MESSAGE_BYTES_MAX).await?;
        match messages::read(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, name)),
            Err(_) if awaits_nothing => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => Err(StreamableHttpError::Deserialize(error)),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<()> {
        let headers = headers(BOTH, Some(&session), None, custom)?;
        let answer = self.send(Order { method: "DELETE", url: None, headers, body: Vec::new() }).await;
        // A server needn't support it.
        answer.map(drop).map_err(StreamableHttpError::Client)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<BoxStream<'static, Result<Sse, SseError>>> {
        let headers = headers("text/event-stream", session.as_deref(), last_event.as_deref(), custom)?;
        let answer = self.send(Order { method: "GET", url: None, headers, body: Vec::new() }).await;
        self.0.is_listening.send_replace(true);
        let answer = answer.map_err(StreamableHttpError::Client)?;
        match answer.status {
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            200..300 if answer.is_of("text/event-stream") => Ok(answer.events()),
            200..300 => Err(StreamableHttpError::UnexpectedContentType(None)),
            _ => Err(StreamableHttpError::Client(answer.refusal().await)),
        }
    }
}

/// Returns whether a server may ask the person something before it answers a request.
fn may_be_asked(request: &ClientRequest) -> bool {
    use ClientRequest::{CallToolRequest, GetPromptRequest, ReadResourceRequest};
    matches!(request, CallToolRequest(_) | GetPromptRequest(_) | ReadResourceRequest(_))
}

/// A refusal: the protocol's own error if the body holds one.
async fn refused(
    message: &ClientJsonRpcMessage,
    has_session: bool,
    mut answer: Answer,
) -> HttpResult<StreamableHttpPostResponse> {
    let is_discover = matches!(
        message,
        JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_))
    );
    let status = answer.status;
    let is_refusal = (400..500).contains(&status) && !matches!(status, 401 | 403);
    let body = match answer.is_of("application/json") {
        true => answer.bytes(REFUSAL_BYTES_MAX).await.unwrap_or_default(),
        false => Vec::new(),
    };
    let refusal = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    match (message, refusal) {
        // An older server doesn't know the question, and may answer it without its number.
        (JsonRpcMessage::Request(request), refusal) if is_discover && is_refusal && !has_session => {
            let error = refusal.map(|refusal| refusal.error);
            let error = error.unwrap_or_else(|| ErrorData::invalid_request(format!("HTTP status {status}"), None));
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(request.id.clone())), None))
        }
        (JsonRpcMessage::Request(request), Some(refusal)) if !matches!(status, 401 | 403) => {
            let id = refusal.id.unwrap_or_else(|| request.id.clone());
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(refusal.error, Some(id)), None))
        }
        _ => Err(StreamableHttpError::Client(answer.refusal().await)),
    }
}
