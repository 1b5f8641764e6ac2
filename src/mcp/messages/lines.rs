//! The messages of a server that speaks in lines. rmcp would pass over a line that is too long or too deeply nested in silence, and
//! the call that it answers would wait for its time limit; here an error with the same id takes its place.

use std::io;

use memchr::memchr;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio::task::JoinHandle;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes of a line's beginning and of its end in which its id is looked for.
const EDGE_BYTES: usize = 256;
/// Depth from which `serde_json` reads no value.
const DEPTH_MAX: usize = 127;
/// The member that pairs an answer with its request.
const ID: &[u8] = b"\"id\"";
/// The member that a request has and an answer hasn't.
const METHOD: &[u8] = b"\"method\"";

/// A connection in lines.
pub(in crate::mcp) struct Messages<R, W: AsyncWrite> {
    output: BufReader<R>,
    /// Bytes of the longest line that is read.
    longest: usize,
    line: Line,
    /// The refusal of a message that isn't one of the protocol, while it is being sent. Nothing more is read meanwhile, so that
    /// no server can pile them up.
    refusal: Option<JoinHandle<()>>,
    sender: AsyncRwTransport<RoleClient, Empty, W>,
}

impl<R, W> Messages<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(in crate::mcp) fn new(output: R, input: W, longest: usize) -> Self {
        let output = BufReader::with_capacity(PIECE_BYTES, output);
        let sender = AsyncRwTransport::new(tokio::io::empty(), input);
        Self { output, longest, line: Line::default(), refusal: None, sender }
    }

    /// The next line, or `None` after the last whole one. It may be dropped and called again at any time.
    async fn next_line(&mut self) -> Option<Line> {
        loop {
            let piece = self.output.fill_buf().await.ok()?;
            if piece.is_empty() {
                return None;
            }
            let end = memchr(b'\n', piece);
            self.line.add(&piece[..end.unwrap_or(piece.len())], self.longest);
            let read = end.map_or(piece.len(), |end| end + 1);
            self.output.consume(read);
            if end.is_some() {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }

    fn refuse(&mut self) {
        let refusal = ErrorData::invalid_request("Invalid request", None);
        let sending = self.sender.send(ClientJsonRpcMessage::error(refusal, None));
        self.refusal = Some(tokio::spawn(async move {
            // A server that can't be written to has ended, which its output shows.
            let _ = sending.await;
        }));
    }
}

impl<R, W> Transport<RoleClient> for Messages<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.sender.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                let _ = refusal.await;
                self.refusal = None;
            }
            let line = self.next_line().await?;
            match line.read() {
                Read::Message(message) => return Some(*message),
                Read::Nothing => {}
                Read::NoMessage => self.refuse(),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.sender.close().await
    }
}

/// The content of a line.
enum Read {
    Message(Box<ServerJsonRpcMessage>),
    /// Output beside the protocol, a notification that isn't known, or an empty line.
    Nothing,
    /// JSON that isn't a message of the protocol.
    NoMessage,
}

/// A line, or the part read so far. If it is too long, only its edges are stored.
#[derive(Default)]
struct Line {
    text: Vec<u8>,
    /// The newest bytes of a line that is too long for `longest`, which is beside it.
    end: Option<(Vec<u8>, usize)>,
}

impl Line {
    fn add(&mut self, piece: &[u8], longest: usize) {
        if self.end.is_none() && self.text.len() + piece.len() > longest {
            self.end = Some((self.text.split_off(self.text.len().min(EDGE_BYTES)), longest));
        }
        let Some((end, _)) = &mut self.end else {
            self.text.extend_from_slice(piece);
            return;
        };
        let (beginning, rest) = piece.split_at(piece.len().min(EDGE_BYTES.saturating_sub(self.text.len())));
        self.text.extend_from_slice(beginning);
        end.extend_from_slice(&rest[rest.len().saturating_sub(EDGE_BYTES)..]);
        end.drain(..end.len().saturating_sub(EDGE_BYTES));
    }

    fn read(self) -> Read {
        let error = |error: Option<ServerJsonRpcMessage>| error.map_or(Read::Nothing, |it| Read::Message(Box::new(it)));
        if let Some((end, longest)) = &self.end {
            return error(error_for(&self.text, end, format!("its answer is longer than {} MiB", longest >> 20)));
        }
        let text = self.text.strip_suffix(b"\r").unwrap_or(&self.text);
        if text.is_empty() {
            return Read::Nothing;
        }
        match super::read(text) {
            Ok(message) => Read::Message(Box::new(message)),
            Err(_) if depth(text) > DEPTH_MAX => {
                let (beginning, rest) = text.split_at(text.len().min(EDGE_BYTES));
                let end = &rest[rest.len().saturating_sub(EDGE_BYTES)..];
                error(error_for(beginning, end, format!("its answer is nested more than {DEPTH_MAX} deep")))
            }
            Err(why) if matches!(why.classify(), Category::Syntax | Category::Eof) => Read::Nothing,
            // A notification has no answer.
            Err(_)
                if serde_json::from_slice(text).is_ok_and(|head: Head| head.method.is_some() && head.id.is_none()) =>
            {
                Read::Nothing
            }
            Err(_) => Read::NoMessage,
        }
    }
}

/// The members that distinguish a notification from other messages.
#[derive(Deserialize)]
struct Head {
    method: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
}

/// The depth of a text's deepest value.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_in_text, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_in_text,
            b'"' => is_in_text = !is_in_text,
            b'{' | b'[' if !is_in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An error in the place of an answer that can't be read, by the edges of its line; `None` if it isn't an answer.
fn error_for(beginning: &[u8], end: &[u8], why: String) -> Option<ServerJsonRpcMessage> {
    // A request of the server also has an id, which isn't one of ours.
    let has_method = |text: &[u8]| text.windows(METHOD.len()).any(|part| part == METHOD);
    if has_method(beginning) || has_method(end) {
        return None;
    }
    let id = id_at_beginning(beginning).or_else(|| id_at_end(end))?;
    Some(ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None), Some(id)))
}

/// The id of an answer that begins with it, before any value that could have an id of its own.
fn id_at_beginning(text: &[u8]) -> Option<RequestId> {
    let at = text.windows(ID.len()).position(|part| part == ID)?;
    let is_first = !text[..at].iter().skip(1).any(|byte| matches!(byte, b'{' | b'['));
    is_first.then(|| value(&text[at + ID.len()..]).map(|(id, _)| id))?
}

/// The id of an answer that ends with it: after it comes the end of the answer alone, or the version of the protocol.
fn id_at_end(text: &[u8]) -> Option<RequestId> {
    let at = text.windows(ID.len()).rposition(|part| part == ID)?;
    let (id, rest) = value(&text[at + ID.len()..])?;
    let rest: Vec<u8> = rest.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    matches!(&rest[..], b"}" | b",\"jsonrpc\":\"2.0\"}").then_some(id)
}

/// A number or a text after a colon, and the rest.
fn value(text: &[u8]) -> Option<(RequestId, &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b":")?;
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<serde_json::Value>();
    let value = values.next()?.ok().filter(|value| value.is_u64() || value.is_string())?;
    Some((serde_json::from_value(value).ok()?, &text[values.byte_offset()..]))
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tokio::io::ReadBuf;

    use super::*;

    const LONGEST: usize = 4 << 20;

    /// The messages in a server's output, which comes in pieces of these sizes, over and over; and whether one was refused.
    fn received(text: &[u8], sizes: &[usize], longest: usize) -> (Vec<Value>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let pieces = Pieces { text, sizes, next: 0 };
            let (input, mut written) = tokio::io::duplex(1 << 20);
            let mut messages = Messages::new(pieces, input, longest);
            let mut received = Vec::new();
            while let Some(message) = messages.receive().await {
                received.push(serde_json::to_value(message).expect("JSON"));
            }
            drop(messages);
            let mut refusals = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut written, &mut refusals).await.expect("text");
            (received, refusals.lines().filter(|line| line.contains("Invalid request")).count())
        })
    }

    fn read(text: &str) -> Vec<Value> {
        received(text.as_bytes(), &[1 << 20], LONGEST).0
    }

    fn error(id: Value, why: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": format!("its answer is {why}")}})
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_followed_by_an_error_with_its_id() {
        let (long, deep) = ("x".repeat(LONGEST), format!("{}{}", "[".repeat(200), "]".repeat(200)));
        let (is_long, is_deep) = ("longer than 4 MiB", "nested more than 127 deep");
        let next = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        for (line, id, why) in [
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{long}\"}}"), json!(7), is_long),
            (format!("{{\"result\":\"{long}\",\"jsonrpc\":\"2.0\",\"id\":\"a}}\"}}"), json!("a}"), is_long),
            (format!("{{\"result\":\"{long}\", \"id\": 8, \"jsonrpc\": \"2.0\"}}"), json!(8), is_long),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{deep}}}"), json!(9), is_deep),
        ] {
            assert_eq!(read(&format!("{line}\n{next}\n")), [error(id, why), next.clone()]);
        }
    }

    #[test]
    fn a_line_that_answers_nothing_is_passed_over() {
        let long = "x".repeat(LONGEST);
        for line in [
            format!("{{\"method\":\"notice\",\"params\":{{\"id\":3,\"text\":\"{long}\"}}}}"),
            format!("{{\"method\":\"notice\",\"params\":{{\"text\":\"{long}\",\"id\":3}}}}"),
            format!("{{\"id\":3,\"method\":\"elicitation/create\",\"params\":\"{long}\"}}"),
            "a line of a log".to_owned(),
            "{\"method\":5}".to_owned(),
            "\r".to_owned(),
            long,
        ] {
            assert_eq!(received(format!("{line}\n").as_bytes(), &[1 << 20], LONGEST), (Vec::new(), 0));
        }
    }

    #[test]
    fn brackets_in_a_text_are_no_depth() {
        let answer = |text: &str| json!({"jsonrpc": "2.0", "id": 1, "result": {"text": text}});
        for answer in [answer(&"{[".repeat(300)), answer(&format!("\"{}", "{".repeat(300)))] {
            assert_eq!(read(&format!("\u{feff}{answer}\r\n")), [answer]);
        }
    }

    #[test]
    fn json_that_is_no_message_is_refused_and_the_next_is_read() {
        let next = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        let text = format!("{{\"id\":1}}\n{{\"jsonrpc\":\"2.0\"}}\n{next}\n");
        assert_eq!(received(text.as_bytes(), &[1 << 20], LONGEST), (vec![next], 2));
    }

    /// Reads in pieces of these sizes, over and over.
    struct Pieces<'a> {
        text: &'a [u8],
        sizes: &'a [usize],
        next: usize,
    }

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let size = self.sizes[self.next % self.sizes.len()].min(self.text.len()).min(buffer.remaining());
            self.next += 1;
            let (piece, rest) = self.text.split_at(size);
            buffer.put_slice(piece);
            self.text = rest;
            Poll::Ready(Ok(()))
        }
    }

    proptest! {
        /// Whatever a server writes, and however it arrives: each answer that can be read is received, and all of it is the same
        /// however it was cut into pieces.
        #[test]
        fn bent_framing_is_passed_on_whole(
            lines in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>().prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'\n').collect::<Vec<u8>>()),
                    "[\\[\\]{}\":,\\\\ a-z0-9]{0,400}".prop_map(String::into_bytes),
                    (0_u32..9).prop_map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}").into_bytes()),
                    (0_u32..9, 120_usize..140, 0_usize..2).prop_map(|(id, depth, end)| {
                        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
                        let texts = [
                            format!("{{\"id\":{id},\"result\":{open}{close}}}"),
                            format!("{{\"result\":{open}{close},\"id\":{id}}}"),
                        ];
                        texts[end].clone().into_bytes()
                    }),
                ],
                0..6,
            ),
            sizes in prop::collection::vec(1_usize..300, 1..5),
            longest in 64_usize..600,
        ) {
            let text = lines.iter().flat_map(|line| line.iter().chain(b"\n")).copied().collect::<Vec<u8>>();
            let (pieces, whole) = (received(&text, &sizes, longest), received(&text, &[1 << 20], longest));
            prop_assert_eq!(&pieces, &whole);
            let is_answer = |line: &&Vec<u8>| line.ends_with(b"\"result\":{}}") && line.starts_with(b"{\"jsonrpc");
            let is_received = |answer: &&Value| answer.get("result").is_some_and(|result| *result == json!({}));
            prop_assert_eq!(pieces.0.iter().filter(is_received).count(), lines.iter().filter(is_answer).count());
            let is_too_deep = |line: &&Vec<u8>| line.len() <= longest && depth(line) > DEPTH_MAX;
            let is_error = |answer: &&Value| answer["error"]["message"] == "its answer is nested more than 127 deep";
            prop_assert_eq!(pieces.0.iter().filter(is_error).count(), lines.iter().filter(is_too_deep).count());
        }
    }
}
