//! A scripted HTTP server for tests: plays one exchange after another, byte for byte. Knows nothing of models.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// One thing that the server does after it has read a request.
#[derive(Clone)]
pub(crate) enum Step {
    /// Sends bytes and flushes.
    Send(Vec<u8>),
    /// Waits for the test's signal (`Script::go`).
    Await,
    /// Holds the connection until the client closes it, then reports that (`Script::closed`).
    Hold,
    /// Reads the next request on the same connection.
    Next,
    /// As `Hold`, and sends these bytes every few milliseconds meanwhile.
    Drip(Vec<u8>),
}

/// A server on a loopback port.
pub(crate) struct Script {
    /// Its address.
    pub url: String,
    /// The requests that came, head and body.
    pub requests: Receiver<String>,
    /// Releases an `Await`.
    pub go: Sender<()>,
    /// Reports that the client closed a held connection.
    pub closed: Receiver<()>,
}

/// Starts a server that plays one script per connection, in turn; each connection is closed after its script.
pub(crate) fn serve(exchanges: Vec<Vec<Step>>) -> Script {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (request_sender, requests) = channel();
    let (go, gone) = channel::<()>();
    let (closed_sender, closed) = channel();
    thread::spawn(move || {
        for steps in exchanges {
            let Ok((mut socket, _)) = listener.accept() else { return };
            let _ = socket.set_nodelay(true);
            let _ = request_sender.send(read_request(&mut socket));
            for step in steps {
                match step {
                    Step::Send(bytes) => {
                        let _ = socket.write_all(&bytes);
                    }
                    Step::Await => {
                        let _ = gone.recv();
                    }
                    Step::Next => {
                        let _ = request_sender.send(read_request(&mut socket));
                    }
                    Step::Hold => {
                        let _ = socket.set_read_timeout(Some(Duration::from_secs(60)));
                        while !matches!(socket.read(&mut [0; 64]), Ok(0) | Err(_)) {}
                        let _ = closed_sender.send(());
                    }
                    Step::Drip(bytes) => {
                        let _ = socket.set_read_timeout(Some(Duration::from_millis(5)));
                        let is_open = |read: std::io::Result<usize>| match read {
                            Ok(count) => count > 0,
                            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                        };
                        while socket.write_all(&bytes).is_ok() && is_open(socket.read(&mut [0; 64])) {}
                        let _ = closed_sender.send(());
                    }
                }
            }
        }
    });
    Script { url, requests, go, closed }
}

/// The head of a streamed response whose body ends with the connection.
pub(crate) fn sse_head() -> Step {
    Step::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec())
}

/// One event with `text`.
pub(crate) fn text_event(text: &str) -> Step {
    let json = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    Step::Send(format!("data: {json}\n\n").into_bytes())
}

/// The end of a streamed answer.
pub(crate) fn done() -> Step {
    Step::Send(b"data: [DONE]\n\n".to_vec())
}

/// A whole response with its length.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> Step {
    let length = body.len();
    Step::Send(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes())
}

fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length:").and_then(|value| value.trim().parse::<usize>().ok())
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
