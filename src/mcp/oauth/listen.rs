//! The place on this machine to which the browser comes back: one port of the loopback interface, for one login.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::base::percent;

/// Time that a person has for a login.
pub(super) const LIMIT: Duration = Duration::from_secs(300);
/// Time for a browser to send its request.
const READ: Duration = Duration::from_secs(2);
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Interval at which the listener checks whether it should stop.
const LOOK: Duration = Duration::from_millis(20);
/// The path to which the browser is sent.
const PATH: &str = "/callback";

/// The listener.
pub(super) struct Listener {
    socket: TcpListener,
    /// The address to which the browser is sent.
    pub(super) address: String,
}

impl Listener {
    /// Listens on a port, or on any free one if it is 0 or in use.
    ///
    /// # Errors
    /// No port is free.
    pub(super) fn on(port: u16) -> io::Result<Self> {
        let socket = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(_) if port != 0 => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)),
            bound => bound,
        }?;
        socket.set_nonblocking(true)?;
        let address = format!("http://127.0.0.1:{}{PATH}", socket.local_addr()?.port());
        Ok(Self { socket, address })
    }

    /// Waits for the browser; returns the fields of its request.
    ///
    /// # Errors
    /// It didn't come in time, or the caller stops.
    pub(super) fn wait(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<(String, String)>, String> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline && !stop() {
            match self.socket.accept() {
                Ok((stream, _)) => {
                    if let Some(fields) = served(stream) {
                        return Ok(fields);
                    }
                }
                Err(_) => std::thread::park_timeout(LOOK),
            }
        }
        Err(if stop() { "the login was stopped".into() } else { "no one logged in within 5 minutes".into() })
    }
}

/// Answers one request; its fields if it is the browser's.
fn served(mut stream: TcpStream) -> Option<Vec<(String, String)>> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(READ)).ok()?;
    stream.set_write_timeout(Some(READ)).ok()?;
    let mut bytes = Vec::new();
    let mut piece = [0; 2048];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") && bytes.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
    let line = String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned();
    let target = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let fields = fields(target);
    let (status, text) = match &fields {
        Some(_) => ("200 OK", "You can close this window and return to the terminal."),
        None => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(answer.as_bytes());
    fields
}

/// The fields of an address, if it is the one to which the browser was sent.
pub(super) fn fields(target: &str) -> Option<Vec<(String, String)>> {
    let (path, query) = target.split_once('?')?;
    if path != PATH && !path.ends_with(PATH) {
        return None;
    }
    let query = query.split('#').next().unwrap_or_default();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((percent::decode_form(name)?, percent::decode_form(value)?))
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}
