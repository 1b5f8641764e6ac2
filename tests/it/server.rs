//! A model server for tests that returns a test's scripted answers in the OpenAI form, and stores the requests. Gates hold it in
//! the middle of an answer, so that a test sees the part before the rest. Must not know what is tested.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::pty::{DEADLINE, Spawn};

/// One thing that the server does with a request.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends these bytes.
    Raw(Vec<u8>),
    /// Waits until the gate of this number is opened.
    Gate(usize),
    /// Keeps the connection open until the other side closes it.
    Hold,
}

/// Opens the answer: a stream of events, whose end is the connection's.
const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

fn event(delta: &Value, reason: Option<&str>) -> Step {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    Step::Raw(format!("data: {chunk}\n\n").into_bytes())
}

/// The head of a streamed answer.
pub fn head() -> Step {
    Step::Raw(STREAM.into())
}

/// One piece of text.
pub fn piece(text: &str) -> Step {
    event(&json!({"content": text}), None)
}

/// A piece of thoughts, as llama.cpp and others send them.
pub fn thought(text: &str) -> Step {
    event(&json!({"reasoning_content": text}), None)
}

/// The proper end with usage: tokens in (including cached ones), cached tokens, tokens out (including thoughts), thoughts.
pub fn end_with([input, cached, output, reasoning]: [u64; 4]) -> Step {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning}}});
    let Step::Raw(mut bytes) = event(&json!({}), Some("stop")) else { unreachable!("an event is bytes") };
    bytes.extend_from_slice(format!("data: {usage}\n\ndata: [DONE]\n\n").as_bytes());
    Step::Raw(bytes)
}

/// The proper end.
pub fn end() -> Step {
    end_for("stop")
}

/// The end with this reason.
fn end_for(reason: &str) -> Step {
    let Step::Raw(mut bytes) = event(&json!({}), Some(reason)) else { unreachable!("an event is bytes") };
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    Step::Raw(bytes)
}

/// A whole streamed answer in one piece.
pub fn answer(text: &str) -> Vec<Step> {
    vec![head(), piece(text), end()]
}

/// An answer that the limit of tokens cut off.
pub fn cut_answer(text: &str) -> Vec<Step> {
    vec![head(), piece(text), end_for("length")]
}

/// A whole answer that calls a tool.
pub fn tool_call(name: &str, arguments: &str) -> Vec<Step> {
    let call = json!([{"index": 0, "id": "call-1", "type": "function",
        "function": {"name": name, "arguments": arguments}}]);
    vec![head(), event(&json!({"tool_calls": call}), None), end_for("tool_calls")]
}

/// A refusal.
pub fn refusal(status: &str, message: &str) -> Vec<Step> {
    let body = json!({"error": {"message": message, "type": "test"}}).to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    vec![Step::Raw(format!("{head}connection: close\r\n\r\n{body}").into_bytes())]
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request line and the headers.
    pub head: String,
    /// The body as it arrived.
    pub raw: String,
    /// The body.
    pub body: Value,
}

impl Request {
    /// The roles of the messages, in order.
    pub fn roles(&self) -> Vec<String> {
        self.messages().map(|message| message["role"].as_str().expect("a role").to_owned()).collect()
    }

    /// The text of the message at `index`, counted from the end if it is negative; without the note of date and place, which goes
    /// with the first question.
    pub fn content(&self, index: isize) -> String {
        let text = self.whole_content(index);
        match text.strip_prefix("[session] ").and_then(|rest| rest.split_once("\n\n")) {
            Some((_, rest)) => rest.to_owned(),
            None => text,
        }
    }

    /// The text of the message at `index` with everything in front of it.
    pub fn whole_content(&self, index: isize) -> String {
        let messages: Vec<&Value> = self.messages().collect();
        let at = if index < 0 { messages.len().checked_add_signed(index) } else { index.try_into().ok() };
        let message = at.and_then(|at| messages.get(at)).expect("so many messages");
        message["content"].as_str().expect("its text").to_owned()
    }

    fn messages(&self) -> impl Iterator<Item = &Value> {
        self.body["messages"].as_array().expect("messages").iter()
    }

    /// Fails unless the system prompt is first, user and assistant take turns, and the user's message is last.
    #[track_caller]
    pub fn expect_turns(&self) {
        let roles = self.roles();
        let expected = (0..roles.len()).map(|at| match at {
            0 => "system",
            at if at % 2 == 1 => "user",
            _ => "assistant",
        });
        assert_eq!(roles, expected.collect::<Vec<_>>());
        assert_eq!(roles.last().map(String::as_str), Some("user"));
    }
}

#[derive(Default)]
struct State {
    replies: VecDeque<Vec<Step>>,
    requests: Vec<Request>,
    open_gates: Vec<usize>,
    hang_ups: usize,
    props: Option<String>,
    /// Its answers to requests for its load, by path.
    work: BTreeMap<String, String>,
    over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, look: impl Fn(&State) -> Option<T>) -> T {
        let until = Instant::now() + DEADLINE;
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&state) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} within {DEADLINE:?}; the requests: {:#?}", state.requests);
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A running server. A request for which nothing is scripted is answered with "ok".
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Server {
    /// Starts it on a port that the system chooses.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if served.lock().over {
                    return;
                }
                let shared = Arc::clone(&served);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { shared, address }
    }

    /// Makes it describe itself as a llama.cpp server does, with a window of this many tokens.
    pub fn be_llama(&self, window: u64) {
        let props = json!({"default_generation_settings": {"n_ctx": window}, "chat_template": ""}).to_string();
        self.shared.lock().props = Some(props);
    }

    /// Sets the answer at `/slots` or `/health`, which shows whether the server is busy.
    pub fn says_of_its_work(&self, path: &str, answer: &str) {
        self.shared.lock().work.insert(path.to_owned(), answer.to_owned());
    }

    /// Scripts the next answer.
    pub fn reply(&self, steps: Vec<Step>) {
        self.shared.lock().replies.push_back(steps);
    }

    /// Opens a gate for the answers.
    pub fn open(&self, gate: usize) {
        self.shared.lock().open_gates.push(gate);
        self.shared.changed.notify_all();
    }

    /// Waits for the request of this number, from 1.
    #[track_caller]
    pub fn request(&self, number: usize) -> Request {
        self.shared.wait(&format!("request {number}"), |state| state.requests.get(number - 1).cloned())
    }

    /// Number of requests so far.
    pub fn requests(&self) -> usize {
        self.shared.lock().requests.len()
    }

    /// Waits until the other side has closed a connection that is held open.
    #[track_caller]
    pub fn expect_hang_up(&self) {
        self.shared.wait("closed connection", |state| (state.hang_ups > 0).then_some(()));
    }

    /// Its address, as a config names it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The shell under test with this server as its only model, `tiny`; `model` and `rest` are lines of its config.
    pub fn shell(&self, model: &str, rest: &str) -> Spawn {
        let endpoint = self.endpoint();
        // Most tests check whole lines, so the right edge of the line stays empty; a later `console` replaces that setting.
        // Requests besides the test's own questions would be counted with them.
        let quiet = if rest.contains("memory = {") { "" } else { "memory = {auto = false}," };
        let config = format!(
            "return {{\nconsole = {{usage = false}}, {quiet}\nmodels = {{tiny = {{endpoint = \"{endpoint}\", {model}}}}},\n{rest}\n}}\n"
        );
        Spawn::reedclaw().file(".config/reedclaw/config.lua", &config)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        // Its thread checks the flag at the next connection.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    let Some(request) = read_request(&mut stream) else { return };
    // Requests outside of the protocol, which only llama.cpp's server answers: they don't count as a test's requests.
    if ["GET /props ", "GET /slots ", "GET /health "].iter().any(|line| request.head.starts_with(line)) {
        let path = request.head.split(' ').nth(1).unwrap_or_default().to_owned();
        let state = shared.lock();
        let said = if path == "/props" { state.props.as_ref() } else { state.work.get(&path) };
        let answer = match said {
            Some(props) => {
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{props}", props.len())
            }
            None => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
        };
        drop(stream.write_all(answer.as_bytes()));
        return;
    }
    let mut state = shared.lock();
    state.requests.push(request);
    let steps = state.replies.pop_front().unwrap_or_else(|| answer("ok"));
    drop(state);
    shared.changed.notify_all();
    for step in steps {
        match step {
            Step::Raw(bytes) => {
                if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
                    return;
                }
            }
            Step::Gate(gate) => {
                let mut state = shared.lock();
                while !state.over && !state.open_gates.contains(&gate) {
                    state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Step::Hold => {
                hold(&mut stream, shared);
                return;
            }
        }
    }
}

/// Waits until the other side closes; the time-out only lets the thread end with its test.
fn hold(stream: &mut TcpStream, shared: &Shared) {
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    loop {
        match stream.read(&mut [0; 64]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if shared.lock().over {
                    return;
                }
            }
            Ok(1..) => {}
            Ok(0) | Err(_) => {
                shared.lock().hang_ups += 1;
                shared.changed.notify_all();
                return;
            }
        }
    }
}

fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(head_end) = memchr::memmem::find(&bytes, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
        let lengths = head.lines().filter_map(|line| line.split_once(':'));
        let length = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length.filter_map(|(_, value)| value.trim().parse().ok()).next().unwrap_or(0);
        if bytes.len() >= head_end + 4 + length {
            let raw = String::from_utf8_lossy(&bytes[head_end + 4..]).into_owned();
            let body = serde_json::from_str(&raw).unwrap_or(Value::Null);
            return Some(Request { head, raw, body });
        }
    }
}
