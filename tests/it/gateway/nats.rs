//! Events on NATS: all of a log, in its order, once, whatever happens to the server meanwhile.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use nix::sys::signal::Signal;
use reedclaw::base::base64;
use serde_json::{Value, json};

use super::{Client, Gateway, PATIENCE, home_with, run, token};

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
    /// The next message is stored, and its answer gets lost with the connection.
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

    /// Speaks with a client until it or the server goes.
    fn serve(&self, socket: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(socket.try_clone().ok()?);
        let mut writer = socket;
        writer.write_all(b"INFO {\"server_id\":\"test\",\"headers\":true,\"max_payload\":1048576}\r\n").ok()?;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match *words.first()? {
                "PING" => writer.write_all(b"PONG\r\n").ok()?,
                // The server's own question, which the client must answer in passing.
                "CONNECT" => writer.write_all(b"PING\r\n").ok()?,
                "PUB" | "HPUB" => {
                    let mut bytes = vec![0; words.last()?.parse::<usize>().ok()? + 2];
                    reader.read_exact(&mut bytes).ok()?;
                    let head = if words[0] == "HPUB" { words[3].parse().ok()? } else { 0 };
                    let answer = self.answer(words[1], &bytes[..head], &bytes[head..bytes.len() - 2])?.to_string();
                    writer.write_all(format!("MSG {} 1 {}\r\n{answer}\r\n", words[2], answer.len()).as_bytes()).ok()?;
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

/// A server of NATS with one stream, as far as a client that publishes sees it.
struct Nats {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Nats {
    fn start() -> Self {
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
                let at_work = Arc::clone(&at_work);
                thread::spawn(move || {
                    let ended = socket.try_clone().expect("a socket");
                    at_work.serve(socket);
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

    /// The messages, when there are so many of a subject.
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
    // The stream has the next one, and the gateway doesn't get to know it.
    nats.shared.state().loses_answer = true;
    let count = append(&client, 5);
    nats.expect("reedclaw.events.local", count);
    // Down: nobody who appends notices, and what gathers is passed on afterwards.
    nats.go_down();
    let count = append(&client, 30);
    assert!(nats.shared.state().stored.len() < count);
    nats.come_up();
    nats.expect("reedclaw.events.local", count);
    // The gateway dies, and the next one goes on.
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
    // A tenant's name makes no other subject.
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
