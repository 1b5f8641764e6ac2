//! A server's output, watched for lines that the protocol can't read: one that is too long or too deeply nested would be passed
//! over in silence, and the call that it answers would wait for its time limit. An error with the same id is put after it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of a line's beginning and of its end in which its id is looked for.
const EDGE_BYTES: usize = 256;
/// Depth from which `serde_json` reads no value.
const DEPTH_MAX: usize = 127;
/// The member that pairs an answer with its request.
const ID: &[u8] = b"\"id\"";
/// The member that a request has and an answer hasn't.
const METHOD: &[u8] = b"\"method\"";

/// A reader that passes all on, and adds an error after each line that can't be read.
pub(super) struct Watched<R> {
    inner: R,
    /// Bytes of the longest line that is read.
    longest: usize,
    line: Line,
    /// Errors that weren't read yet.
    added: VecDeque<u8>,
}

impl<R> Watched<R> {
    pub(super) fn new(inner: R, longest: usize) -> Self {
        Self { inner, longest, line: Line::default(), added: VecDeque::new() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        // Only between two reads: then the newest byte that was passed on ended a line.
        if this.line.length == 0 && !this.added.is_empty() {
            let now = this.added.len().min(buffer.remaining());
            this.added.drain(..now).for_each(|byte| buffer.put_slice(&[byte]));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        for byte in &buffer.filled()[before..] {
            if let Some(error) = this.line.take(*byte, this.longest) {
                this.added.extend(error);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// A line, as far as it was read.
#[derive(Default)]
struct Line {
    length: usize,
    beginning: Vec<u8>,
    end: VecDeque<u8>,
    depth: usize,
    deepest: usize,
    is_in_text: bool,
    is_escaped: bool,
}

impl Line {
    /// Takes the next byte. Returns an error for the request if the line ends with it and can't be read.
    fn take(&mut self, byte: u8, longest: usize) -> Option<Vec<u8>> {
        if byte == b'\n' {
            return std::mem::take(self).error(longest);
        }
        self.length += 1;
        if self.beginning.len() < EDGE_BYTES {
            self.beginning.push(byte);
        } else {
            if self.end.len() == EDGE_BYTES {
                self.end.pop_front();
            }
            self.end.push_back(byte);
        }
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = self.is_in_text,
            b'"' => self.is_in_text = !self.is_in_text,
            b'{' | b'[' if !self.is_in_text => {
                self.depth += 1;
                self.deepest = self.deepest.max(self.depth);
            }
            b'}' | b']' if !self.is_in_text => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        None
    }

    fn error(self, longest: usize) -> Option<Vec<u8>> {
        let why = match self {
            _ if self.length > longest => format!("its answer is longer than {} MiB", longest >> 20),
            _ if self.deepest > DEPTH_MAX => format!("its answer is nested more than {DEPTH_MAX} deep"),
            _ => return None,
        };
        let end: Vec<u8> = self.end.into();
        // A request of the server has an id, too, which is none of ours.
        let has_method = |text: &[u8]| text.windows(METHOD.len()).any(|part| part == METHOD);
        if has_method(&self.beginning) || has_method(&end) {
            return None;
        }
        let id = id_at_beginning(&self.beginning).or_else(|| id_at_end(&end))?;
        let error = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": why}});
        Some(format!("{error}\n").into_bytes())
    }
}

/// The id of an answer that begins with it, before any value that could have an id of its own.
fn id_at_beginning(text: &[u8]) -> Option<serde_json::Value> {
    let at = text.windows(ID.len()).position(|part| part == ID)?;
    let is_first = !text[..at].iter().skip(1).any(|byte| matches!(byte, b'{' | b'['));
    is_first.then(|| value(&text[at + ID.len()..]).map(|(id, _)| id))?
}

/// The id of an answer that ends with it: after it comes the end of the answer alone, or the version of the protocol.
fn id_at_end(text: &[u8]) -> Option<serde_json::Value> {
    let at = text.windows(ID.len()).rposition(|part| part == ID)?;
    let (id, rest) = value(&text[at + ID.len()..])?;
    let rest: Vec<u8> = rest.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    matches!(&rest[..], b"}" | b",\"jsonrpc\":\"2.0\"}").then_some(id)
}

/// A number or a text after a colon, and the rest.
fn value(text: &[u8]) -> Option<(serde_json::Value, &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b":")?;
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<serde_json::Value>();
    let value = values.next()?.ok().filter(|value| value.is_u64() || value.is_string())?;
    Some((value, &text[values.byte_offset()..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    const LONGEST: usize = 4 << 20;

    fn read(text: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut read = String::new();
        runtime
            .block_on(async { Watched::new(text.as_bytes(), LONGEST).read_to_string(&mut read).await })
            .expect("text");
        read
    }

    fn error(id: &str, why: &str) -> String {
        format!(
            "{{\"error\":{{\"code\":-32603,\"message\":\"its answer is {why}\"}},\"id\":{id},\"jsonrpc\":\"2.0\"}}\n"
        )
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_followed_by_an_error_with_its_id() {
        let (long, deep) = ("x".repeat(LONGEST), format!("{}{}", "[".repeat(200), "]".repeat(200)));
        let (is_long, is_deep) = ("longer than 4 MiB", "nested more than 127 deep");
        for (line, id, why) in [
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{long}\"}}"), "7", is_long),
            (format!("{{\"result\":\"{long}\",\"jsonrpc\":\"2.0\",\"id\":\"a}}\"}}"), "\"a}\"", is_long),
            (format!("{{\"result\":\"{long}\", \"id\": 8, \"jsonrpc\": \"2.0\"}}"), "8", is_long),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{deep}}}"), "9", is_deep),
        ] {
            assert_eq!(read(&format!("{line}\n{{}}\n")), format!("{line}\n{{}}\n{}", error(id, why)));
        }
    }

    #[test]
    fn what_can_be_read_or_answers_nothing_passes_as_it_is() {
        let long = "x".repeat(LONGEST);
        for line in [
            "{\"id\":1,\"result\":{}}".to_owned(),
            format!("{{\"id\":1,\"result\":\"{}\"}}", "{[".repeat(300)),
            format!("{{\"id\":1,\"result\":\"\\\"{}\"}}", "{".repeat(300)),
            format!("{{\"method\":\"notice\",\"params\":{{\"id\":3,\"text\":\"{long}\"}}}}"),
            format!("{{\"method\":\"notice\",\"params\":{{\"text\":\"{long}\",\"id\":3}}}}"),
            format!("{{\"id\":3,\"method\":\"elicitation/create\",\"params\":\"{long}\"}}"),
            long,
        ] {
            assert_eq!(read(&format!("{line}\n")), format!("{line}\n"));
        }
    }

    /// Reads in pieces of these sizes, over and over.
    struct Pieces<'a> {
        text: &'a [u8],
        sizes: Vec<usize>,
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
        /// Whatever a server writes, and however it arrives: all of it is passed on, errors stand between whole lines only, and
        /// they are the same however it was cut into pieces.
        #[test]
        fn bent_framing_is_passed_on_whole(
            lines in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>().prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'\n').collect::<Vec<u8>>()),
                    "[\\[\\]{}\":,\\\\ a-z0-9]{0,400}".prop_map(String::into_bytes),
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
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let read = |sizes: Vec<usize>| {
                let mut read = Vec::new();
                let pieces = Pieces { text: &text, sizes, next: 0 };
                let mut watched = Watched::new(pieces, longest);
                runtime.block_on(watched.read_to_end(&mut read)).expect("what was written");
                read
            };
            let is_added = |line: &&[u8]| line.starts_with(b"{\"error\":{\"code\":-32603,\"message\":\"its answer is ");
            let (pieces, whole) = (read(sizes), read(vec![1 << 20]));
            let lines = |read: &[u8]| read.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
            let (pieces, whole) = (lines(&pieces), lines(&whole));
            let added = |lines: &[Vec<u8>]| {
                lines.iter().filter(|line| is_added(&line.as_slice())).cloned().collect::<Vec<_>>()
            };
            prop_assert_eq!(added(&pieces), added(&whole));
            let of_server: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).filter(|line| !is_added(line)).collect();
            prop_assert_eq!(of_server.join(&b'\n'), text);
        }
    }
}
