//! Events on NATS: all of a log, in order, once each, whatever happens to the server meanwhile.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use nix::sys::signal::Signal;
use reedclaw::base::base64;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::server::certified;
use super::{Client, Gateway, PATIENCE, home_with, run, token};
use crate::wait::wait_until;

/// A message that the stream has stored.
#[derive(Clone, Debug)]
struct Stored {
    subject: String,
    id: String,
    event: Value,
}

#[derive(Default)]
struct State {
    is_down: bool,
    /// The next message is stored, but its acknowledgement is lost with the connection.
    loses_answer: bool,
    stored: Vec<Stored>,
    repeats: usize,
    sockets: Vec<TcpStream>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the state")
    }

    /// Serves a client until it or the server goes away.
    fn serve(&self, mut socket: TcpStream, encryption: Option<Arc<ServerConfig>>) -> Option<()> {
        let info =
            json!({"server_id": "test", "headers": true, "max_payload": 1 << 20, "tls_required": encryption.is_some()});
        socket.write_all(format!("INFO {info}\r\n").as_bytes()).ok()?;
        match encryption {
            None => self.talk(BufReader::new(socket)),
            Some(config) => {
                let session = ServerConnection::new(config).expect("a session");
                self.talk(BufReader::new(StreamOwned::new(session, socket)))
            }
        }
    }

    fn talk<S: Read + Write>(&self, mut stream: BufReader<S>) -> Option<()> {
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let mut reply = |bytes: &[u8]| {
                stream.get_mut().write_all(bytes).ok()?;
                stream.get_mut().flush().ok()
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            match *words.first()? {
                "PING" => reply(b"PONG\r\n")?,
                // The server's own ping, which the client must answer.
                "CONNECT" => reply(b"PING\r\n")?,
                "PUB" | "HPUB" => {
                    let mut bytes = vec![0; words.last()?.parse::<usize>().ok()? + 2];
                    stream.read_exact(&mut bytes).ok()?;
                    let head = if words[0] == "HPUB" { words[3].parse().ok()? } else { 0 };
                    let answer = self.answer(words[1], &bytes[..head], &bytes[head..bytes.len() - 2])?.to_string();
                    let text = format!("MSG {} 1 {}\r\n{answer}\r\n", words[2], answer.len());
                    stream.get_mut().write_all(text.as_bytes()).ok()?;
                    stream.get_mut().flush().ok()?;
                }
                _ => {}
            }
        }
    }

    /// The stream's answer to a message; `None` if the connection ends there.
    fn answer(&self, subject: &str, head: &[u8], payload: &[u8]) -> Option<Value> {
        let mut state = self.state();
        if subject == "$JS.API.STREAM.MSG.GET.EVENTS" {
            let wanted: Value = serde_json::from_slice(payload).expect("JSON");
            let last = state.stored.iter().rfind(|it| wanted["last_by_subj"] == it.subject.as_str());
            let header = |it: &Stored| base64::encode(format!("NATS/1.0\r\nNats-Msg-Id: {}\r\n\r\n", it.id).as_bytes());
            return Some(match last {
                Some(it) => json!({"message": {"subject": it.subject, "seq": 1, "hdrs": header(it)}}),
                None => json!({"error": {"code": 404, "description": "no message found"}}),
            });
        }
        let head = String::from_utf8_lossy(head).into_owned();
        assert!(head.contains("\r\nNats-Expected-Stream: EVENTS\r\n"), "{head}");
        let id = head.lines().find_map(|line| line.strip_prefix("Nats-Msg-Id: ")).expect("an id").to_owned();
        let is_known = state.stored.iter().any(|it| it.id == id);
        if is_known {
            state.repeats += 1;
        } else {
            let event = serde_json::from_slice(payload).expect("JSON");
            state.stored.push(Stored { subject: subject.to_owned(), id, event });
        }
        self.changed.notify_all();
        let is_lost = std::mem::take(&mut state.loses_answer);
        (!is_lost).then(|| json!({"stream": "EVENTS", "seq": state.stored.len(), "duplicate": is_known}))
    }
}

/// A NATS server with one stream, as far as a publishing client sees it.
struct Nats {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Nats {
    fn start() -> Self {
        Self::start_with(None)
    }

    fn start_with(encryption: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared: Arc<Shared> = Arc::default();
        let at_work = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let mut state = at_work.state();
                if state.is_down {
                    continue;
                }
                state.sockets.push(socket.try_clone().expect("a socket"));
                drop(state);
                let (at_work, encryption) = (Arc::clone(&at_work), encryption.clone());
                thread::spawn(move || {
                    let ended = socket.try_clone().expect("a socket");
                    at_work.serve(socket, encryption);
                    let _ = ended.shutdown(Shutdown::Both);
                });
            }
        });
        Self { shared, address }
    }

    fn go_down(&self) {
        let mut state = self.shared.state();
        state.is_down = true;
        state.sockets.drain(..).for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    fn come_up(&self) {
        self.shared.state().is_down = false;
    }

    /// Waits for this many messages of a subject and returns them.
    fn expect(&self, subject: &str, count: usize) -> Vec<Stored> {
        let of = |state: &State| state.stored.iter().filter(|it| it.subject == subject).cloned().collect::<Vec<_>>();
        let is_missing = |state: &mut State| of(state).len() < count;
        let (state, waited) =
            self.shared.changed.wait_timeout_while(self.shared.state(), PATIENCE, is_missing).expect("the state");
        assert!(!waited.timed_out(), "{} of {count} messages", of(&state).len());
        of(&state)
    }
}

fn append(client: &Client<'_>, count: usize) -> usize {
    for number in 0..count {
        let event = json!({"event_type": "x.step", "source": "ui", "stream": "board", "run_id": "r", "body": number});
        assert_eq!(client.post("/events/append", &event).status, 201);
    }
    let head = client.get("/status").json()["positions"].as_u64().expect("a position");
    usize::try_from(head).expect("a number")
}

#[test]
fn scenario_66_all_events_reach_nats_in_order_and_once_though_it_was_down() {
    let nats = Nats::start();
    let settings = format!("gateway = {{nats = {{url = \"nats://{}\", stream = \"EVENTS\"}}}}", nats.address);
    let home = home_with(&settings);
    let secret = token(home.path(), "anna", "admin", &[]);
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&secret);
    let count = append(&client, 5);
    nats.expect("reedclaw.events.local", count);
    assert_eq!(client.get("/status").json()["nats"], "connected");
    // The stream stores the next message, but the gateway doesn't learn of it.
    nats.shared.state().loses_answer = true;
    let count = append(&client, 5);
    nats.expect("reedclaw.events.local", count);
    // While the server is down, clients that append notice nothing, and the events are published afterwards.
    nats.go_down();
    let count = append(&client, 30);
    assert!(nats.shared.state().stored.len() < count);
    nats.come_up();
    nats.expect("reedclaw.events.local", count);
    // The gateway is killed, and the next one continues.
    nats.go_down();
    append(&client, 5);
    assert_eq!(gateway.end(Signal::SIGKILL), None);
    nats.come_up();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&secret);
    assert_eq!(run(home.path(), &["gateway", "tenant", "add", "a.b"]).0, Some(0));
    let count = append(&client, 5);
    let stored = nats.expect("reedclaw.events.local", count);
    let epoch = stored[0].id.strip_prefix("local:").and_then(|rest| rest.split_once('-')).expect("an id").0;
    for (position, message) in (1..).zip(&stored) {
        assert_eq!(message.id, format!("local:{epoch}-{position}"));
        assert_eq!(message.event["position"], json!(position), "{message:?}");
    }
    let items = client.get("/events/list?type=x.step&limit=500").json()["items"].clone();
    let listed: Vec<&Value> = items.as_array().expect("items").iter().map(|item| &item["hash"]).collect();
    let sent: Vec<&Value> =
        stored.iter().filter(|it| it.event["event_type"] == "x.step").map(|it| &it.event["hash"]).collect();
    assert_eq!(sent, listed);
    assert_eq!(nats.shared.state().repeats, 0, "what the stream has isn't sent again");
    // A tenant's name can't form another subject.
    let carl = gateway.client(&token(home.path(), "carl", "member", &["--tenant", "a.b"])).with("X-Tenant-Id", "a.b");
    append(&carl, 1);
    assert_eq!(nats.expect("reedclaw.events.a%2Eb", 1)[0].event["tenant"], "a.b");
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
}

#[test]
fn nats_on_another_machine_or_without_a_stream_is_refused_before_anything_starts() {
    for (url, stream) in [("nats://db.example:4222", "EVENTS"), ("nats://127.0.0.1:1", ""), ("env:NONE", "EVENTS")] {
        let home = home_with(&format!("gateway = {{nats = {{url = \"{url}\", stream = \"{stream}\"}}}}"));
        let (status, _, err) = run(home.path(), &["gateway", "--listen", "127.0.0.1:0"]);
        assert_ne!(status, Some(0), "{url}");
        assert!(err.contains("gateway.nats"), "{url}: {err}");
    }
}

#[test]
fn events_go_to_another_machine_over_an_encrypted_connection_whose_certificate_is_checked() {
    if !crate::need::require(&["openssl"]) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let authority = certified(place.path());
    let pem = |name: &str| place.path().join(name);
    let certificate = CertificateDer::from_pem_file(pem("cert.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(pem("key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).expect("a pair");
    let nats = Nats::start_with(Some(Arc::new(config)));
    let port = nats.address.port();
    let home = |url: &str| home_with(&format!("gateway = {{nats = {{url = \"{url}\", stream = \"EVENTS\"}}}}"));
    let good = home(&format!("tls://localhost:{port}"));
    let secret = token(good.path(), "anna", "admin", &[]);
    let trusted = [("SSL_CERT_FILE", authority.to_str().expect("text"))];
    let gateway = Gateway::start_with(good.path(), &trusted);
    let count = append(&gateway.client(&secret), 5);
    nats.expect("reedclaw.events.local", count);
    drop(gateway);
    nats.shared.state().stored.clear();
    // Nothing is sent without a trusted authority, under another name, or without encryption.
    for (url, variables) in [
        (format!("tls://localhost:{port}"), &[][..]),
        (format!("tls://127.0.0.1:{port}"), &trusted[..]),
        (format!("nats://localhost:{port}"), &trusted[..]),
    ] {
        let home = home(&url);
        let secret = token(home.path(), "anna", "admin", &[]);
        let gateway = Gateway::start_with(home.path(), variables);
        append(&gateway.client(&secret), 1);
        let log = home.path().join(".local/state/reedclaw/reedclaw.log");
        wait_until(|| std::fs::read_to_string(&log).is_ok_and(|text| text.contains("nats_failed")));
        assert_eq!(gateway.client(&secret).get("/status").json()["nats"], "waiting", "{url}");
        assert!(nats.shared.state().stored.is_empty(), "{url}");
    }
}
