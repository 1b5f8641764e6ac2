//! Requests to a gateway of the same user by its Unix socket: HTTP as far as this needs it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// Time for an answer.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of a line of events: a question's answer with its note.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// The answer to a request.
pub(super) struct Answer {
    pub status: u16,
    /// Its body; null if it isn't JSON.
    pub body: Value,
}

/// A request.
pub(super) struct Request<'r> {
    pub method: &'static str,
    pub path: &'r str,
    /// The secret for `Authorization`; the socket itself speaks for its user without one.
    pub token: Option<&'r str>,
    pub kind: &'static str,
    pub body: &'r [u8],
}

impl Request<'_> {
    fn send(&self, socket: &mut UnixStream, version: &str) -> io::Result<()> {
        let mut head =
            format!("{} {} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n", self.method, self.path);
        if let Some(token) = self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if self.method != "GET" {
            head += &format!("Content-Type: {}\r\nContent-Length: {}\r\n", self.kind, self.body.len());
        }
        head += "\r\n";
        socket.write_all(&[head.as_bytes(), self.body].concat())
    }

    /// Sends it and waits for the answer.
    pub fn answer(&self, path: &Path) -> io::Result<Answer> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(WAIT))?;
        socket.set_write_timeout(Some(WAIT))?;
        self.send(&mut socket, "1.1")?;
        let mut reader = BufReader::new(socket.take(ANSWER_BYTES_MAX));
        let status = status(&mut reader)?;
        let mut body = Vec::new();
        reader.read_to_end(&mut body)?;
        Ok(Answer { status, body: serde_json::from_slice(&body).unwrap_or_default() })
    }

    /// Sends it and returns the stream of events, which has no end. Of the older version, a body is as it is sent.
    pub fn events(&self, path: &Path) -> io::Result<Events> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(WAIT))?;
        socket.set_write_timeout(Some(WAIT))?;
        self.send(&mut socket, "1.0")?;
        let mut reader = BufReader::new(socket.try_clone()?);
        let status = status(&mut reader)?;
        if status != 200 {
            return Err(io::Error::other(format!("the gateway answered {status}")));
        }
        Ok(Events { reader, socket })
    }
}

/// Reads the head of an answer.
fn status(reader: &mut impl BufRead) -> io::Result<u16> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("the gateway speaks no HTTP"))?;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            return Ok(status);
        }
    }
}

/// Events of the gateway as they come.
pub(super) struct Events {
    reader: BufReader<UnixStream>,
    /// Its connection, so that somebody else can end the wait.
    pub socket: UnixStream,
}

impl Events {
    /// The next event: its name and its data.
    pub fn next(&mut self, silence: Duration) -> io::Result<(String, Value)> {
        self.socket.set_read_timeout(Some(silence))?;
        let mut name = String::new();
        loop {
            let mut line = String::new();
            let count = (&mut self.reader).take(LINE_BYTES_MAX).read_line(&mut line)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Ok((name, serde_json::from_str(data).unwrap_or_default()));
            }
        }
    }
}
