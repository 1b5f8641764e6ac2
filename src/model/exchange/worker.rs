//! The request's own thread: the only code of this room that touches the network. It reports through the channel, ends
//! by its own time-outs if the caller has gone, and never prints.

use std::io::{self, Read};
use std::sync::mpsc::SyncSender;

use ureq::Timeout;
use ureq::http::{HeaderMap, Response};

use crate::model::endpoint::{Address, Endpoint};
use crate::model::error::{Fault, one_line};
use crate::model::exchange::connections::{Connections, IDLE_MAX, InUse};
use crate::model::exchange::decode::{Decoder, Progress};
use crate::model::exchange::stream::StreamEvent;
use crate::model::request::Response as Answer;
use crate::model::wire::{Fresh, Problem};

/// Bytes taken from the socket at once, so also the largest piece of text.
const READ_BYTES: usize = 16 * 1024;
/// Bytes of a refusal's body that are read to find the server's words.
const REFUSAL_BYTES_MAX: u64 = 64 * 1024;
/// Bytes after the end of an answer that are read for the end of its response; a connection with more is closed.
const REST_BYTES_MAX: usize = 64 * 1024;

/// All that the thread needs.
pub(in crate::model) struct Job {
    pub agent: ureq::Agent,
    pub question: InUse,
    pub connections: Connections,
    pub url: String,
    pub body: Vec<u8>,
    pub endpoint: Endpoint,
    pub trace: Option<String>,
}

/// Makes an HTTP client with one connection.
///
/// # Errors
/// [`Fault::Tls`] if the authorities for https can't be read.
pub(in crate::model) fn agent(endpoint: &Endpoint, address: &Address) -> Result<ureq::Agent, Fault> {
    // A server that reports that it is working is waited for; the caller's end enforces the limit then.
    let longest = endpoint.first_byte_timeout.max(endpoint.busy_timeout);
    let first_byte = if endpoint.may_say_it_works() { longest } else { endpoint.first_byte_timeout };
    let mut config = ureq::Agent::config_builder()
        // A refusal's body holds the server's words.
        .http_status_as_error(false)
        // A redirect would turn the question into a GET, or send it to another address than the configured one.
        .max_redirects(0)
        .max_idle_connections(1)
        .max_idle_age(IDLE_MAX)
        .user_agent(concat!("reedclaw/", env!("CARGO_PKG_VERSION")))
        .accept("text/event-stream, application/json")
        .timeout_resolve(Some(endpoint.connect_timeout))
        .timeout_connect(Some(endpoint.connect_timeout))
        .timeout_send_request(Some(endpoint.first_byte_timeout))
        .timeout_send_body(Some(endpoint.first_byte_timeout))
        .timeout_recv_response(Some(first_byte))
        // The caller's end holds the exact limits in mid-stream; this one only bounds the thread's life.
        .timeout_per_read(Some(first_byte.max(endpoint.idle_timeout)));
    if address.is_loopback() {
        config = config.proxy(None);
    }
    if address.url.starts_with("https") {
        config = config.tls_config(endpoint.authorities.tls().map_err(|why| Fault::Tls { why })?);
    }
    Ok(ureq::Agent::new_with_config(config.build()))
}

/// Runs the request and always reports how it ended.
pub(in crate::model) fn run(job: Job, sender: SyncSender<StreamEvent>) {
    let mut line = Line { sender, ended: false };
    match exchange(&job, &line) {
        Some(Ok((answer, rest))) => {
            line.end(Ok(answer));
            if reads_to_end(rest) {
                job.connections.give_back(&job.question);
            }
        }
        Some(Err(fault)) => line.end(Err(redact(&job.endpoint, fault))),
        None => line.ended = true,
    }
}

/// Reads what follows an answer; returns whether the response has ended, so that its connection can be used again.
fn reads_to_end(mut rest: BodyReader) -> bool {
    let mut buffer = [0; 1024];
    let mut bytes = 0;
    loop {
        match rest.read(&mut buffer) {
            Ok(0) => return true,
            Ok(count) => bytes += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        if bytes > REST_BYTES_MAX {
            return false;
        }
    }
}

/// The thread's end of the channel; says that the request broke off if the thread dies before its end.
struct Line {
    sender: SyncSender<StreamEvent>,
    ended: bool,
}

impl Line {
    /// Sends a message to the caller; `None` if the caller has gone.
    fn say(&self, heard: StreamEvent) -> Option<()> {
        self.sender.send(heard).ok()
    }

    fn end(&mut self, end: Result<Box<Answer>, Fault>) {
        self.ended = true;
        let _ = self.sender.send(StreamEvent::End(end));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Err(Fault::Internal { why: "its thread ended early".to_owned() }));
        }
    }
}

/// A response's body as it comes.
type BodyReader = ureq::BodyReader<'static>;

/// One request and its response, with the part of its body that follows the answer; `None` if the caller has gone.
fn exchange(job: &Job, line: &Line) -> Option<Result<(Box<Answer>, BodyReader), Fault>> {
    let endpoint = &job.endpoint;
    if endpoint.key.as_ref().is_some_and(|key| !key.reveal().bytes().all(|byte| byte.is_ascii_graphic())) {
        return Some(Err(Fault::BadKey));
    }
    let mut request = job.agent.post(&job.url).header("content-type", "application/json");
    for (name, value) in endpoint.protocol.headers(endpoint.key.as_ref()) {
        request = request.header(name, value);
    }
    if let Some(trace) = &job.trace {
        request = request.header("traceparent", trace);
    }
    let response = match request.send(&job.body[..]) {
        Ok(response) => response,
        Err(error) => return Some(Err(before_answer(error, endpoint))),
    };
    line.say(StreamEvent::Alive)?;
    if response.status().is_success() {
        read_answer(response, endpoint, line)
    } else {
        Some(Err(refusal(response, endpoint)))
    }
}

fn read_answer(
    response: Response<ureq::Body>,
    endpoint: &Endpoint,
    line: &Line,
) -> Option<Result<(Box<Answer>, BodyReader), Fault>> {
    let mut reader = response.into_body().into_reader();
    let mut decoder = Decoder::new(endpoint.protocol);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let step = match reader.read(&mut buffer) {
            Ok(0) => Some(decoder.finish()),
            Ok(count) => match decoder.feed(&buffer[..count]) {
                Ok(Progress::More) => None,
                Ok(Progress::Done) => Some(Ok(())),
                Err(fault) => Some(Err(fault)),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => Some(broken_off(error, endpoint, &mut decoder)),
        };
        let Fresh { text, thought } = decoder.fresh();
        if !thought.is_empty() {
            line.say(StreamEvent::Thought(thought))?;
        }
        let progresses = decoder.take_progress();
        if !text.is_empty() {
            line.say(StreamEvent::Text(text))?;
        } else if progresses {
            line.say(StreamEvent::Alive)?;
        }
        if let Some(end) = step {
            return Some(end.map(|()| (Box::new(decoder.response(&endpoint.name)), reader)));
        }
    }
}

/// A read failed; the decoder's part may be complete all the same.
fn broken_off(error: io::Error, endpoint: &Endpoint, decoder: &mut Decoder) -> Result<(), Fault> {
    let is_timeout = matches!(ureq::Error::from(error), ureq::Error::Timeout(_));
    if is_timeout && !decoder.has_stopped() {
        let begun = decoder.saw_answer();
        return Err(if begun {
            Fault::Stalled(endpoint.idle_timeout)
        } else {
            Fault::NeverStarted(endpoint.first_byte_timeout)
        });
    }
    match decoder.finish() {
        Err(Fault::Garbage { .. }) => Err(Fault::Cut),
        other => other,
    }
}

pub(in crate::model) fn refusal(response: Response<ureq::Body>, endpoint: &Endpoint) -> Fault {
    let status = response.status().as_u16();
    let header = |headers: &HeaderMap, name: &str| headers.get(name).and_then(|it| it.to_str().ok()).map(one_line);
    if (300..400).contains(&status) {
        return Fault::Redirected { status, location: header(response.headers(), "location").unwrap_or_default() };
    }
    let retry_after = header(response.headers(), "retry-after").filter(|after| !after.is_empty());
    let mut body = Vec::new();
    // A body that breaks off is still worth showing.
    let _ = response.into_body().into_reader().take(REFUSAL_BYTES_MAX).read_to_end(&mut body);
    let mut problem = Problem::of_body(&body);
    if let Some(key) = &endpoint.key {
        // Before it is shortened, or a part of the key could stay.
        problem.message = key.redact(&problem.message);
    }
    let server_text = one_line(&problem.message);
    let retry_after = retry_after.or_else(|| problem.retry_after.clone());
    match status {
        // Google reports a wrong key like this.
        400 if problem.message.starts_with("API key not valid") => {
            Fault::Unauthorized { status, had_key: true, server_text }
        }
        401 | 403 => {
            let had_key = endpoint.key.as_ref().is_some_and(|key| !key.reveal().is_empty());
            Fault::Unauthorized { status, had_key, server_text }
        }
        404 => Fault::NotFound { server_text },
        429 => Fault::RateLimited { retry_after, server_text },
        400 | 413 | 422 | 500 if problem.is_context_overflow() => Fault::ContextOverflow { server_text },
        500..=599 => Fault::Server { status, retry_after, server_text },
        _ => Fault::Rejected { status, server_text },
    }
}

/// Classifies a failure before the response's headers.
pub(in crate::model) fn before_answer(error: ureq::Error, endpoint: &Endpoint) -> Fault {
    let why = one_line(&error.to_string());
    match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => Fault::ConnectTimeout(endpoint.connect_timeout),
        ureq::Error::Timeout(_) => Fault::NeverStarted(endpoint.first_byte_timeout),
        ureq::Error::HostNotFound => Fault::NameNotResolved,
        ureq::Error::Io(error) => io_fault(&error),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Fault::Tls { why },
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => Fault::Garbage { sample: why },
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Fault::BadEndpoint { why },
        _ => Fault::Unreachable { why },
    }
}

fn io_fault(error: &io::Error) -> Fault {
    let why = one_line(&error.to_string());
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Refused,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Fault::ClosedEarly,
        io::ErrorKind::InvalidData => Fault::Tls { why },
        // The standard library has no kind for a failed look-up, only this text.
        _ if why.contains("failed to lookup address") => Fault::NameNotResolved,
        _ => Fault::Unreachable { why },
    }
}

/// Removes the key from a server's words in the middle of an answer.
pub(in crate::model) fn redact(endpoint: &Endpoint, fault: Fault) -> Fault {
    let Some(key) = &endpoint.key else { return fault };
    match fault {
        Fault::ErrorInAnswer { server_text } => Fault::ErrorInAnswer { server_text: key.redact(&server_text) },
        Fault::ContextOverflow { server_text } => Fault::ContextOverflow { server_text: key.redact(&server_text) },
        Fault::RateLimited { retry_after, server_text } => {
            Fault::RateLimited { retry_after, server_text: key.redact(&server_text) }
        }
        Fault::Server { status, retry_after, server_text } => {
            Fault::Server { status, retry_after, server_text: key.redact(&server_text) }
        }
        Fault::Garbage { sample } => Fault::Garbage { sample: key.redact(&sample) },
        Fault::Redirected { status, location } => Fault::Redirected { status, location: key.redact(&location) },
        other => other,
    }
}
