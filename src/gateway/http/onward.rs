//! Forwarding of a request to the gateway of the same database that has the workspace, run or session: once, with the caller's
//! own token, to an address from that gateway's own config. No request, tenant or row of a tenant can name such an address. It
//! must not know the meaning of a request.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::unfold;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::call::{Content, Reply, Sent};
use super::openapi::HEADERS;
use super::problem::{Answered, Problem};
use crate::gateway::Gateway;
use crate::gateway::guard::Origin;
use crate::ledger::Node;

/// The header of a forwarded request: the id of the gateway that it is meant for.
pub const HOP: &str = "x-reedclaw-hop";
/// Wait for a connection to another gateway.
const CONNECT: Duration = Duration::from_secs(5);
/// Interval for looking whether a gateway lives that hasn't answered yet: a run may take long.
const LOOK: Duration = Duration::from_secs(5);
/// Silence after which an answer is considered ended: a stream sends something every 15 s.
const SILENCE: Duration = Duration::from_secs(60);
/// Headers of a request that are forwarded, besides those in `HEADERS`. The others concern one connection, or are a browser's or
/// a proxy's, and were checked here.
const ASKED: [&str; 6] = ["accept", "authorization", "content-type", "last-event-id", "prefer", "traceparent"];
/// Headers of an answer that come back.
const ANSWERED: [&str; 6] =
    ["cache-control", "content-length", "content-type", "retry-after", "www-authenticate", "x-accel-buffering"];

/// A connection to another gateway.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<W: AsyncRead + AsyncWrite + Unpin + Send> Wire for W {}

/// Refuses a request that was forwarded to another gateway than this one, since the address has a new owner.
///
/// # Errors
/// The request names another gateway.
pub fn check(gateway: &Gateway, headers: &HeaderMap) -> Answered<()> {
    match headers.get(HOP) {
        Some(meant) if meant != gateway.node_id.as_str() => {
            let message = "the request was passed on to another gateway than this one";
            Err(Problem::new(503, "workspace_elsewhere", message).header("Retry-After", "5"))
        }
        _ => Ok(()),
    }
}

/// Forwards a request to the gateway that can serve it, if the refusal names one with an address.
///
/// # Errors
/// The refusal itself, if it names no gateway, the gateway can't be reached, or the request was forwarded before. If the gateway
/// was reached and doesn't answer, it is unknown whether it has served the request, which is a different error.
pub async fn pass(gateway: &Arc<Gateway>, sent: &Sent, refusal: Problem) -> Answered<Reply> {
    // A session of this machine's user has no token that another gateway could check.
    let may_go_on = !sent.is_own && sent.headers.contains_key(header::AUTHORIZATION) && !sent.headers.contains_key(HOP);
    let node = refusal.details.elsewhere.as_ref().filter(|node| may_go_on && node.id != gateway.node_id);
    let Some((node, to)) = node.and_then(|node| Some((node, Origin::read(node.url.as_deref()?)?))) else {
        return Err(refusal);
    };
    let failed = |error: &io::Error| {
        tracing::warn!(event = "pass_on_failed", to = node.id.as_str(), request_id = sent.request_id.as_str(), %error);
    };
    let reached = timeout(CONNECT, reach(gateway, &to)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let sender = match reached {
        Ok(sender) => sender,
        Err(error) => {
            failed(&error);
            return Err(refusal);
        }
    };
    let answer = ask(gateway, sender, sent, node, &to).await.map_err(|error| {
        failed(&error);
        let message = "the gateway that has it was asked, and didn't answer: it may have done it";
        Problem::new(502, "upstream", message).context(json!({"node_id": node.id}))
    })?;
    tracing::info!(event = "passed_on", to = node.id.as_str(), request_id = sent.request_id.as_str());
    let (status, headers) = (answer.status().as_u16(), Vec::new());
    Ok(Reply { status, headers, content: Content::Passed(Box::new(passed(gateway, answer))) })
}

async fn reach(gateway: &Gateway, to: &Origin) -> io::Result<SendRequest<Body>> {
    let wire = connect(gateway, to).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// Waits for the head of an answer, as long as the other gateway lives.
async fn ask(
    gateway: &Arc<Gateway>,
    mut sender: SendRequest<Body>,
    sent: &Sent,
    node: &Node,
    to: &Origin,
) -> io::Result<Response<Incoming>> {
    let mut answering = pin!(sender.send_request(request(sent, node, to)?));
    let answer = loop {
        match timeout(LOOK, answering.as_mut()).await {
            Ok(answer) => break answer.map_err(io::Error::other)?,
            Err(_) if is_dead(gateway, node).await => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => {}
        }
    };
    // Each answer of a gateway has the request's id. One without it is from a proxy in front of the gateway, such as when the
    // gateway is down.
    match answer.headers().get("x-request-id").is_some_and(|id| id == sent.request_id.as_str()) {
        true => Ok(answer),
        false => Err(io::Error::other(format!("no gateway answers there, but something else: {}", answer.status()))),
    }
}

/// Returns whether the database records that a gateway is dead. If the database fails, the answer is false.
async fn is_dead(gateway: &Arc<Gateway>, node: &Node) -> bool {
    let at_work = Arc::clone(gateway);
    let living = gateway.work.run("", move || at_work.ledger.nodes().list()).await;
    matches!(living, Ok(Ok(living)) if !living.iter().any(|it| it.id == node.id))
}

/// Builds the forwarded request: the same, without the headers of the connection.
fn request(sent: &Sent, node: &Node, to: &Origin) -> io::Result<Request> {
    let mut request = Request::new(Body::from(sent.body.clone()));
    *request.method_mut() = sent.route.method();
    *request.uri_mut() = sent.target.parse().map_err(io::Error::other)?;
    *request.headers_mut() = only(&sent.headers, &[&ASKED[..], &HEADERS].concat());
    let more = [
        ("host", to.host()),
        (HOP, &node.id),
        ("x-forwarded-for", &sent.address.to_string()),
        ("x-request-id", &sent.request_id),
    ];
    for (name, value) in more {
        request.headers_mut().insert(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
    }
    Ok(request)
}

/// The headers with some of the names.
fn only(headers: &HeaderMap, names: &[&str]) -> HeaderMap {
    let is_named = |name: &HeaderName| names.iter().any(|it| name == it);
    headers.iter().filter(|(name, _)| is_named(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The answer as the client gets it. A stream ends with this gateway, and with silence.
fn passed(gateway: &Gateway, answer: Response<Incoming>) -> Response {
    let (head, body) = answer.into_parts();
    let pieces = Body::new(body).into_data_stream();
    let rest = unfold((pieces, gateway.stopping.subscribe()), |(mut pieces, mut stopping)| async move {
        let piece = tokio::select! {
            piece = timeout(SILENCE, pieces.next()) => piece.ok()??,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return None,
        };
        Some((piece, (pieces, stopping)))
    });
    let mut response = Response::new(Body::from_stream(rest));
    *response.status_mut() = head.status;
    *response.headers_mut() = only(&head.headers, &ANSWERED);
    response
}

async fn connect(gateway: &Gateway, to: &Origin) -> io::Result<Box<dyn Wire>> {
    let (name, port) = to.name_and_port();
    let socket = TcpStream::connect((name, port)).await?;
    socket.set_nodelay(true)?;
    if to.is_secure() { encrypted(gateway, name, socket).await } else { Ok(Box::new(socket)) }
}

/// Encrypts a connection; the certificate must be for the name.
#[cfg(feature = "postgres")]
async fn encrypted(gateway: &Gateway, name: &str, socket: TcpStream) -> io::Result<Box<dyn Wire>> {
    let authorities = crate::host::Authorities::of(&gateway.parts.env);
    let settings = tokio::task::spawn_blocking(move || authorities.client()).await?.map_err(io::Error::other)?;
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(tokio_rustls::TlsConnector::from(settings).connect(name, socket).await?))
}

/// Refuses: without a database server, gateways can't share a database.
#[cfg(not(feature = "postgres"))]
async fn encrypted(_: &Gateway, _: &str, _: TcpStream) -> io::Result<Box<dyn Wire>> {
    Err(io::ErrorKind::Unsupported.into())
}
