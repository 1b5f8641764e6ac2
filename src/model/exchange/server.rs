//! A model at a server: asks it, sends a refused request again, omits fields that it has refused. Knows no wire.

use parking_lot::Mutex;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use crate::host;
use crate::model::cancel::Cancel;
use crate::model::count::{self, Counter};
use crate::model::endpoint::{Endpoint, Protocol};
use crate::model::error::{Fault, ModelError, seconds};
use crate::model::exchange::connections::Connections;
use crate::model::exchange::retry;
use crate::model::exchange::stream::{Piece, Stream, start};
use crate::model::provider::{Capabilities, ChatEvent, Count, Countable, Provider, Sending, Sink};
use crate::model::request::{Request, Response};
use crate::model::window;
use crate::model::wire::{self, Without};

/// Longest single wait for a piece. Nothing is polled: a piece, the end, a time-out and a cancel all end the wait.
const WAIT: Duration = Duration::from_secs(60 * 60);
/// Silence after a piece that is reported to the sink.
const PAUSE: Duration = Duration::from_millis(100);

/// A model at a server.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    without: Mutex<Without>,
    counter: Counter,
    pub(in crate::model) connections: Connections,
}

impl Server {
    /// Makes the provider of an endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, without: Mutex::default(), counter: Counter::default(), connections: Connections::default() }
    }

    /// The endpoint with its key, which is read now if it isn't known yet.
    fn ready(&self, sink: &dyn Sink) -> Result<Endpoint, Fault> {
        let mut endpoint = self.endpoint.clone();
        if let (None, Some(reader)) = (&endpoint.key, &endpoint.key_reader) {
            let key = reader.read(sink.cancel());
            endpoint.key =
                Some(key.map_err(|it| if sink.cancel().is_cancelled() { Fault::Cancelled } else { Fault::Key(it) })?);
        }
        Ok(endpoint)
    }

    /// Asks the sink whether a request may be sent; returns a new request if the answer must be shorter.
    fn permitted(&self, endpoint: &Endpoint, request: &Request, sink: &mut dyn Sink) -> Result<Option<Request>, Fault> {
        let cancel = sink.cancel().clone();
        let sending = Sending {
            model: &endpoint.name,
            served_as: request.model.as_deref().unwrap_or(&endpoint.model),
            kind: endpoint.protocol.word(),
            host: &endpoint.host(),
            reach: endpoint.reach(),
            output_tokens_max: wire::output_tokens_max(request, endpoint),
            request,
            count: &|| self.counter.count(endpoint, Countable::Request(request), &cancel),
        };
        let most = sink.permit(&sending).map_err(Fault::NotAllowed)?;
        Ok(most.map(|most| Request { max_output_tokens: Some(most), ..request.clone() }))
    }

    /// Omits a field that the server has refused; returns whether that changes anything.
    fn leave_out(&self, fault: &Fault, has_schema: bool) -> bool {
        let Fault::Rejected { server_text, .. } = fault else { return false };
        let mut without = self.without.lock();
        let before = *without;
        let server_text = server_text.to_ascii_lowercase();
        // A format in the text of OpenAI's, a schema in Gemini's config, a tool that must be called at Anthropic's.
        let words =
            ["response_format", "text.format", "json_schema", "jsonschema", "grammar", "tool_choice", "input_schema"];
        without.answer_schema |= has_schema && words.iter().any(|word| server_text.contains(word));
        match self.endpoint.protocol {
            Protocol::OpenAi => without.stream_options |= server_text.contains("stream_options"),
            Protocol::Responses => {
                without.encrypted_reasoning |= server_text.contains("encrypted") || server_text.contains("include");
            }
            _ => {}
        }
        // Servers and models differ in the form of it that they accept, if any.
        if self.endpoint.thinking.is_some()
            && ["thinking", "reasoning", "effort"].iter().any(|it| server_text.contains(it))
        {
            without.thinking = without.thinking.next();
        }
        *without != before
    }

    /// Asks once, or again on a new connection if the server had closed the one that was left open. `has_begun` becomes true with
    /// the first piece of text.
    fn once(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        sink: &mut dyn Sink,
        has_begun: &mut bool,
    ) -> Result<Response, Fault> {
        let mut open = self.connections.take();
        loop {
            if sink.cancel().is_cancelled() {
                return Err(Fault::Cancelled);
            }
            let mut stream = start(endpoint, request, *self.without.lock(), &self.connections, open.take());
            let end = Self::follow(&mut stream, endpoint, sink, has_begun);
            if !stream.found_it_closed() {
                return end;
            }
        }
    }

    /// Passes on the events of a stream until it ends.
    fn follow(
        stream: &mut Stream,
        endpoint: &Endpoint,
        sink: &mut dyn Sink,
        has_begun: &mut bool,
    ) -> Result<Response, Fault> {
        if endpoint.may_say_it_works() {
            let (asked, cancel) = (endpoint.clone(), sink.cancel().clone());
            stream.wait_while(move || count::is_working(&asked, &cancel));
        }
        sink.cancel().attach(Some(stream.waker()));
        let mut flows = false;
        let end = loop {
            if sink.cancel().is_cancelled() {
                break Err(Fault::Cancelled);
            }
            let event = match stream.recv_timeout(if flows { PAUSE } else { WAIT }) {
                Ok(Some(Piece::Text(text))) => ChatEvent::Text(text),
                Ok(Some(Piece::Thought(text))) => ChatEvent::Thought(text),
                Ok(Some(Piece::AtWork(longest))) => {
                    let (name, longest) = (&endpoint.name, seconds(&longest));
                    sink.event(ChatEvent::Notice(format!(
                        "[model] {name}: no answer yet, but the server says that it is at work; waiting up to {longest} in all, \
                         Ctrl-C stops"
                    )));
                    continue;
                }
                Ok(Some(Piece::Done(response))) => break Ok(*response),
                Ok(None) if !std::mem::take(&mut flows) => continue,
                Ok(None) => {
                    sink.event(ChatEvent::Pause);
                    continue;
                }
                Err(error) => break Err(error.fault),
            };
            // Thoughts are no part of an answer, and a call that broke off was never made.
            (flows, *has_begun) = (true, *has_begun || matches!(event, ChatEvent::Text(_)));
            sink.event(event);
        };
        sink.cancel().attach(None);
        end
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.connections.close();
    }
}

impl Provider for Server {
    fn name(&self) -> &str {
        &self.endpoint.name
    }

    fn capabilities(&self) -> Capabilities {
        let protocol = self.endpoint.protocol;
        Capabilities {
            kind: protocol.word(),
            streaming: true,
            tools: !self.counter.drops_tools(),
            images: (self.endpoint.images)
                .or_else(|| self.counter.sees())
                .or_else(|| window::takes_images(&self.endpoint.model)),
            caching: protocol == Protocol::Anthropic,
            keeps_state: protocol != Protocol::OpenAi,
            context_tokens: self
                .endpoint
                .context_tokens
                .or_else(|| self.counter.window())
                .or_else(|| window::context_tokens(&self.endpoint.model)),
            reach: self.endpoint.reach(),
            place: self.endpoint.place(),
        }
    }

    fn learn(&self, cancel: &Cancel) {
        let endpoint = &self.endpoint;
        let has_key = endpoint.key.is_some() || endpoint.key_reader.is_none();
        if endpoint.asks_server && endpoint.protocol == Protocol::OpenAi && has_key {
            self.counter.is_llama(endpoint, cancel);
        }
    }

    fn chat(&self, request: &Request, sink: &mut dyn Sink) -> Result<Response, Box<ModelError>> {
        let failed = |fault: Fault| Box::new(ModelError::of(&self.endpoint, fault));
        let endpoint = self.ready(sink).map_err(failed)?;
        // The callers of this room can't hide a key that was only just read.
        let hidden = endpoint.key.as_ref().and_then(|key| request.without(key));
        let request = hidden.as_ref().unwrap_or(request);
        let limited = self.permitted(&endpoint, request, sink).map_err(failed)?;
        let request = limited.as_ref().unwrap_or(request);
        let (mut tries, mut has_begun) = (0, false);
        loop {
            let began = Instant::now();
            let end = self.once(&endpoint, request, sink, &mut has_begun);
            note(&endpoint, request, &end, began.elapsed());
            let fault = match end {
                Ok(response) => return Ok(response),
                Err(fault) => fault,
            };
            // The user has already seen the beginning of the answer, so a second one would confuse.
            if has_begun {
                return Err(failed(fault));
            }
            if self.leave_out(&fault, request.answer_schema.is_some()) {
                continue;
            }
            let delay = retry::delay(&fault, tries, random(), host::now_unix_ms());
            let Some(delay) = delay.filter(|_| tries < self.endpoint.retries) else { return Err(failed(fault)) };
            tries += 1;
            let (name, most) = (&self.endpoint.name, self.endpoint.retries);
            let seconds = delay.as_secs_f64();
            sink.event(ChatEvent::Notice(format!(
                "[model] {name}: {fault}; again in {seconds:.1} s ({tries} of {most})"
            )));
            if sink.cancel().wait(delay) {
                return Err(failed(Fault::Cancelled));
            }
        }
    }

    fn count(&self, what: Countable<'_>, cancel: &Cancel) -> Option<Count> {
        self.counter.count(&self.endpoint, what, cancel)
    }
}

/// Logs one request: its id, the model, its tokens, how it ended and how long it took.
fn note(endpoint: &Endpoint, request: &Request, end: &Result<Response, Fault>, took: Duration) {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let served_as = request.model.as_deref().unwrap_or(&endpoint.model);
    macro_rules! note {
        ($level:ident, $($fields:tt)+) => {
            tracing::$level!(
                event = "model_request",
                request = format!("{:016x}", random()),
                model = endpoint.name,
                served_as,
                ms,
                shown = true,
                $($fields)+
            )
        };
    }
    // The usual rule of thumb, for a server that counts nothing.
    let estimated_in = request.length().0 / 4;
    match end {
        Ok(Response { usage: Some(usage), .. }) => {
            note!(info, status = 200, tokens_in = usage.total_in(), tokens_out = usage.total_out());
        }
        Ok(response) => {
            let estimated_out = response.text.chars().count() as u64 / 4;
            note!(info, status = 200, estimated_in, estimated_out);
        }
        Err(fault) => {
            let (kind, status) = (fault.word(), fault.status());
            if *fault == Fault::Cancelled {
                note!(info, estimated_in, kind, status, message = %fault);
            } else {
                note!(warn, estimated_in, kind, status, message = %fault);
            }
        }
    }
}

/// A random number: each hasher of the standard library begins with a new one.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
