//! JSON-RPC 2.0 in lines, for a program that another one starts: reads the client's messages, queues those for it, and pairs its
//! responses with our requests. It must not know the methods.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest line that is read: a prompt with pictures in Base64 stays below that.
pub const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Limit on the bytes that wait for a client; a session that sends more waits for it.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// The line isn't JSON.
pub const PARSE_ERROR: i64 = -32_700;
/// The message isn't a request, or can't come now.
pub const INVALID_REQUEST: i64 = -32_600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// The method doesn't take these parameters.
pub const INVALID_PARAMS: i64 = -32_602;
/// The fault is ours.
pub const INTERNAL_ERROR: i64 = -32_603;

/// Reason why a request wasn't carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// Its number.
    pub code: i64,
    /// The reason in words.
    pub message: String,
    /// Facts for the client's program; null if there are none.
    pub data: Value,
}

impl RpcError {
    /// Makes one without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null }
    }
}

/// A line of the client.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// Wants an answer.
    Request {
        /// A number or a text, to which the answer refers.
        id: Value,
        /// The method.
        method: String,
        /// Null if there are none.
        params: Value,
    },
    /// Wants no answer.
    Notification {
        /// The method.
        method: String,
        /// Null if there are none.
        params: Value,
    },
    /// The answer to a request of ours.
    Response {
        /// The request's number.
        id: Value,
        /// The result, or the error as an object.
        result: Result<Value, Value>,
    },
    /// Not JSON-RPC.
    Bad {
        /// Null if it isn't known.
        id: Value,
        /// The reason.
        error: RpcError,
    },
    /// Nothing but white space.
    Empty,
}

/// Reads a message.
#[must_use]
pub fn parse(line: &[u8]) -> Incoming {
    if line.trim_ascii().is_empty() {
        return Incoming::Empty;
    }
    let bad = |id, code, message: &str| Incoming::Bad { id, error: RpcError::new(code, message) };
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return bad(Value::Null, PARSE_ERROR, "this line is not JSON");
    };
    let Value::Object(mut message) = value else {
        return bad(Value::Null, INVALID_REQUEST, "a message is a JSON object, one a line");
    };
    let id = message.remove("id");
    let is_id = |id: &Value| matches!(id, Value::Null | Value::String(_) | Value::Number(_));
    let known = id.clone().filter(is_id).unwrap_or_default();
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return bad(known, INVALID_REQUEST, "jsonrpc must be \"2.0\"");
    }
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return bad(Value::Null, INVALID_REQUEST, "an id is a string or a number");
    }
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Incoming::Request { id, method, params },
        (Some(Value::String(method)), None) => Incoming::Notification { method, params },
        (Some(_), _) => bad(known, INVALID_REQUEST, "a method is a string"),
        (None, Some(id)) => match (message.remove("result"), message.remove("error")) {
            (_, Some(error)) => Incoming::Response { id, result: Err(error) },
            (Some(result), None) => Incoming::Response { id, result: Ok(result) },
            (None, None) => bad(id, INVALID_REQUEST, "a message has a method, a result, or an error"),
        },
        (None, None) => bad(Value::Null, INVALID_REQUEST, "a message has a method, a result, or an error"),
    }
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// In the buffer.
    Whole,
    /// Longer than allowed, and skipped.
    TooLong,
    /// The end of the input.
    End,
}

/// Reads a line into `line`, at most `bytes_max` bytes of it.
///
/// # Errors
/// The input can't be read.
pub fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<Line> {
    line.clear();
    let mut is_too_long = false;
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(chunk.len(), |at| at + 1);
        is_too_long |= line.len() + length > bytes_max;
        if !is_too_long {
            line.extend_from_slice(&chunk[..length]);
        }
        let is_over = end.is_some() || length == 0;
        input.consume(length);
        if is_over {
            return Ok(match (is_too_long, length == 0 && line.is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Whole,
            });
        }
    }
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    bytes: usize,
    /// True if no further messages are accepted.
    is_closed: bool,
    /// True if a line is being written.
    is_writing: bool,
}

/// The response to a request of ours: its result or its error.
pub type Reply = Result<Value, Value>;

#[derive(Default)]
struct Awaited {
    last: u64,
    replies: HashMap<u64, SyncSender<Reply>>,
}

/// The other side: what goes to it, and the responses that are awaited.
#[derive(Default)]
pub struct Peer {
    queue: Mutex<Queue>,
    changed: Condvar,
    awaited: Mutex<Awaited>,
}

impl Peer {
    /// Reads the client's messages until there are no more, lines of at most `line_bytes_max` bytes; a longer one is answered with
    /// an error.
    pub fn read(&self, input: impl io::Read, line_bytes_max: usize, mut take: impl FnMut(Incoming)) {
        let mut input = io::BufReader::with_capacity(64 * 1024, input);
        let mut line = Vec::new();
        loop {
            match read_line(&mut input, &mut line, line_bytes_max) {
                Ok(Line::Whole) => take(parse(&line)),
                Ok(Line::TooLong) => {
                    let message = format!("a message takes {} MiB at most", line_bytes_max / 1024 / 1024);
                    self.answer(&Value::Null, Err(RpcError::new(INVALID_REQUEST, message)));
                }
                Ok(Line::End) | Err(_) => return,
            }
            // A long message doesn't leave a large buffer.
            line.shrink_to(line_bytes_max / 64);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn awaited(&self) -> MutexGuard<'_, Awaited> {
        self.awaited.lock()
    }

    /// Queues a message. With `waits` it first waits until the client has read enough of what came before.
    fn push(&self, message: &Value, waits: bool) {
        let line = message.to_string() + "\n";
        let mut queue = self.queue();
        while waits && queue.bytes > QUEUE_BYTES && !queue.is_closed {
            self.changed.wait(&mut queue);
        }
        if !queue.is_closed {
            queue.bytes += line.len();
            queue.lines.push_back(line);
            self.changed.notify_all();
        }
    }

    /// Answers a request.
    pub fn answer(&self, id: &Value, result: Result<Value, RpcError>) {
        let message = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(RpcError { code, message, data: Value::Null }) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
            Err(RpcError { code, message, data }) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})
            }
        };
        // Each belongs to a request, so the client limits their number.
        self.push(&message, false);
    }

    /// Sends a notification; waits while the client is far too slow.
    pub fn notify(&self, method: &str, params: &Value) {
        self.push(&json!({"jsonrpc": "2.0", "method": method, "params": params}), true);
    }

    /// Sends a request; returns its id and where its response will come.
    pub fn request(&self, method: &str, params: &Value) -> (u64, Receiver<Reply>) {
        let (sender, receiver) = sync_channel(1);
        let id = {
            let mut awaited = self.awaited();
            awaited.last += 1;
            let id = awaited.last;
            awaited.replies.insert(id, sender);
            id
        };
        self.push(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), true);
        (id, receiver)
    }

    /// Stops waiting for a response; a late one is ignored.
    pub fn forget(&self, id: u64) {
        self.awaited().replies.remove(&id);
    }

    /// Passes a response to its waiting caller: the first one counts.
    pub fn responded(&self, id: &Value, result: Reply) {
        let waiting = id.as_u64().and_then(|id| self.awaited().replies.remove(&id));
        if let Some(waiting) = waiting {
            // There is room for it, and who has stopped waiting doesn't need it.
            let _ = waiting.try_send(result);
        }
    }

    /// Writes what is queued, line by line, until it is closed and empty, or the client is gone.
    ///
    /// # Errors
    /// The client is gone.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        loop {
            let line = {
                let mut queue = self.queue();
                queue.is_writing = false;
                self.changed.notify_all();
                loop {
                    if let Some(line) = queue.lines.pop_front() {
                        queue.bytes -= line.len();
                        queue.is_writing = true;
                        break line;
                    }
                    if queue.is_closed {
                        return Ok(());
                    }
                    self.changed.wait(&mut queue);
                }
            };
            self.changed.notify_all();
            out.write_all(line.as_bytes()).and_then(|()| out.flush()).inspect_err(|_| self.close())?;
        }
    }

    /// Accepts no more messages, and releases everyone who waits for the client.
    pub fn close(&self) {
        self.queue().is_closed = true;
        self.changed.notify_all();
        self.awaited().replies.clear();
    }

    /// Waits until everything is written, but not beyond `until`.
    pub fn drain(&self, until: Instant) {
        let mut queue = self.queue();
        while queue.is_writing || !queue.lines.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            self.changed.wait_for(&mut queue, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_the_next_one_is_read() {
        let mut input = io::BufReader::with_capacity(4, &b"short\n0123456789\n\nlast"[..]);
        let mut line = Vec::new();
        let mut next = || {
            let read = read_line(&mut input, &mut line, 8).expect("bytes");
            (read, String::from_utf8_lossy(&line).into_owned())
        };
        assert_eq!(next(), (Line::Whole, "short\n".into()));
        assert_eq!(next().0, Line::TooLong);
        assert_eq!(next(), (Line::Whole, "\n".into()));
        assert_eq!(next(), (Line::Whole, "last".into()));
        assert_eq!(next().0, Line::End);
    }

    #[test]
    fn invalid_messages_get_the_error_of_json_rpc() {
        let code = |line: &str| match parse(line.as_bytes()) {
            Incoming::Bad { error, .. } => error.code,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(code("{"), PARSE_ERROR);
        for line in [
            "[]",
            "1",
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":2}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
        ] {
            assert_eq!(code(line), INVALID_REQUEST, "{line}");
        }
        let id = json!("a");
        let bad = parse(br#"{"id":"a","method":"x"}"#);
        assert!(matches!(bad, Incoming::Bad { id: sent, .. } if sent == id), "the id is sent if it is known");
        assert_eq!(parse(b" \r\n"), Incoming::Empty);
    }

    #[test]
    fn only_the_first_response_to_a_request_counts() {
        let peer = Peer::default();
        let (id, replies) = peer.request("m", &Value::Null);
        peer.responded(&json!(id), Ok(json!("first")));
        peer.responded(&json!(id), Ok(json!("second")));
        assert_eq!(replies.recv(), Ok(Ok(json!("first"))));
        assert!(replies.recv().is_err(), "there is no second one");
    }
}
