//! The number of tokens of a text for a model: the server's own count from llama.cpp, and OpenAI's vocabularies for
//! OpenAI's models. For other models it returns nothing, since the number could only be estimated, which is done
//! elsewhere.

use parking_lot::Mutex;
use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cancel::Cancel;
use super::endpoint::{Ask, Endpoint, Protocol};
use super::provider::{Count, Countable};
use super::wire;
use crate::model::exchange::worker;
use crate::tokens::Encoding;

/// Longest wait for a count: a question waits for it.
const WAIT: Duration = Duration::from_secs(2);
/// Interval at which a wait checks for cancellation.
const STEP: Duration = Duration::from_millis(25);
/// Bytes of a server's answer that are read: the tokens of a very long conversation, as a list of numbers.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Tokens around each message, and at the end, in OpenAI's form.
const AROUND_MESSAGE: u64 = 4;
const AT_END: u64 = 3;

/// Counts for one server, of which it remembers whether it can.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// The server's description of itself, once it has answered.
    facts: Mutex<Option<ServerFacts>>,
}

/// A server's description of itself.
#[derive(Clone, Copy, Debug)]
struct ServerFacts {
    /// The server is llama.cpp's.
    is_llama: bool,
    /// Tokens of a request and its answer that it has room for.
    window: Option<u64>,
    /// Its template leaves tools out: the model would never see them.
    drops_tools: bool,
    /// `true` if its model accepts pictures; `None` if it doesn't report that.
    sees: Option<bool>,
}

impl Counter {
    /// Counts the tokens, if there is an exact way.
    pub(super) fn count(&self, endpoint: &Endpoint, what: Countable<'_>, cancel: &Cancel) -> Option<Count> {
        let encoding = Encoding::of_model(&endpoint.model);
        // A model with such a name at another server than OpenAI's may be a different one.
        if let Some(encoding) = encoding.filter(|_| endpoint.reach() == super::Reach::Internet) {
            return Some(by_vocabulary(encoding, &endpoint.model, what));
        }
        if endpoint.protocol == Protocol::OpenAi
            && self.is_llama(endpoint, cancel)
            && let Some(tokens) = by_server(endpoint, what, cancel)
        {
            return Some(Count { tokens, method: "counted by the server".to_owned(), is_exact: true });
        }
        encoding.map(|encoding| Count { is_exact: false, ..by_vocabulary(encoding, &endpoint.model, what) })
    }

    /// The server's window, if it has already reported one. Never waits.
    pub(super) fn window(&self) -> Option<u64> {
        self.facts.try_lock()?.as_ref()?.window
    }

    /// Returns whether the server has reported that tools don't reach its model. Never waits.
    pub(super) fn drops_tools(&self) -> bool {
        self.facts.try_lock().is_some_and(|facts| facts.as_ref().is_some_and(|facts| facts.drops_tools))
    }

    /// Returns whether the server's model takes pictures, if the server has reported it. Never waits.
    pub(super) fn sees(&self) -> Option<bool> {
        self.facts.try_lock()?.as_ref()?.sees
    }

    /// Asks a server that may be llama.cpp's for its description, once; a server on the internet gets no such request,
    /// since its protocol lacks it.
    pub(super) fn is_llama(&self, endpoint: &Endpoint, cancel: &Cancel) -> bool {
        if endpoint.reach() == super::Reach::Internet {
            return false;
        }
        let mut facts = self.facts.lock();
        if let Some(facts) = &*facts {
            return facts.is_llama;
        }
        // Without an answer nothing is known, so it is asked again.
        let Some(props) = ask(endpoint, "/props", None, cancel) else { return false };
        let settings = props.get("default_generation_settings");
        let is_llama = settings.is_some() || props.get("chat_template").is_some();
        // A server that answers several requests at once reports the window of each.
        let window = settings.and_then(|settings| settings.get("n_ctx")?.as_u64()).filter(|tokens| *tokens > 0);
        let drops_tools = props.pointer("/chat_template_caps/supports_tools") == Some(&Value::Bool(false));
        let sees = props.pointer("/modalities/vision").and_then(Value::as_bool);
        facts.insert(ServerFacts { is_llama, window, drops_tools, sees }).is_llama
    }
}

/// Returns whether a server reports that it is working: one of its slots computes. Only llama.cpp's servers report this.
pub(super) fn is_working(endpoint: &Endpoint, cancel: &Cancel) -> bool {
    let slots = ask(endpoint, "/slots", None, cancel);
    let computes = |slot: &Value| slot.get("is_processing") == Some(&Value::Bool(true));
    match slots.as_ref().and_then(Value::as_array) {
        Some(slots) => slots.iter().any(computes),
        // A server that was started without `/slots` still has `/health`, which answers only while nothing blocks it.
        None => ask(endpoint, "/health", None, cancel).is_some_and(|it| it.get("status") == Some(&"ok".into())),
    }
}

fn by_vocabulary(encoding: Encoding, model: &str, what: Countable<'_>) -> Count {
    let method = encoding.name().to_owned();
    match what {
        Countable::Text(text) => Count { tokens: encoding.count(text), method, is_exact: Encoding::is_sure(model) },
        // The tokens around messages and tools differ from model to model.
        Countable::Request(request) => {
            let texts = request.texts();
            let tokens = texts.iter().map(|text| encoding.count(text) + AROUND_MESSAGE).sum::<u64>() + AT_END;
            Count { tokens, method, is_exact: false }
        }
    }
}

/// The server's own count: of a request, as its template makes it.
fn by_server(endpoint: &Endpoint, what: Countable<'_>, cancel: &Cancel) -> Option<u64> {
    let (text, with_start) = match what {
        Countable::Text(text) => (text.to_owned(), false),
        Countable::Request(request) => {
            let body = wire::body(request, endpoint, wire::Without::default()).ok()?;
            let body: Value = serde_json::from_slice(&body).ok()?;
            let template = json!({"messages": body.get("messages")?, "tools": body.get("tools")});
            let prompt = ask(endpoint, "/apply-template", Some(template), cancel)?;
            (prompt.get("prompt")?.as_str()?.to_owned(), true)
        }
    };
    let wanted = json!({"content": text, "add_special": with_start, "parse_special": with_start});
    let tokens = ask(endpoint, "/tokenize", Some(wanted), cancel)?;
    Some(tokens.get("tokens")?.as_array()?.len() as u64)
}

/// One request beside the protocol, on a thread of its own, so that a cancel ends the wait at once.
fn ask(endpoint: &Endpoint, path: &'static str, body: Option<Value>, cancel: &Cancel) -> Option<Value> {
    let address = endpoint.address(Ask::Root(path)).ok()?;
    let agent = worker::agent(endpoint, &address).ok()?;
    let headers = endpoint.protocol.headers(endpoint.key.as_ref());
    let (sender, answer) = sync_channel(1);
    let hang_up = agent.clone();
    thread::Builder::new()
        .name("model-count".to_owned())
        .spawn(move || {
            let _ = sender.send(exchange(&agent, &address.url, headers, body));
        })
        .ok()?;
    let until = Instant::now() + WAIT;
    while !cancel.is_cancelled() && Instant::now() < until {
        match answer.recv_timeout(STEP) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    hang_up.shutdown();
    None
}

fn exchange(
    agent: &ureq::Agent,
    url: &str,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
) -> Option<Value> {
    let response = match body {
        Some(body) => {
            let mut request = agent.post(url).header("content-type", "application/json");
            for (name, value) in headers {
                request = request.header(name, value);
            }
            request.send(serde_json::to_vec(&body).ok()?).ok()?
        }
        None => {
            let mut request = agent.get(url);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            request.call().ok()?
        }
    };
    if response.status().as_u16() == 503 {
        // It is busy loading its model, so nothing is known yet.
        return None;
    }
    if !response.status().is_success() {
        // It has answered, and doesn't know the path; a body that isn't JSON means the same.
        return Some(Value::Null);
    }
    let mut bytes = Vec::new();
    response.into_body().into_reader().take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}
