//! Streams: complete and in order across a cut, ended with the right to read them, and informed when the gateway ends.

use std::io::{BufRead, BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{Client, Gateway, PATIENCE, home, run, token};

/// One frame of a stream: its id, its event, its data.
type Frame = (Option<String>, String, Value);

/// A reader of a stream.
pub struct Reader(BufReader<TcpStream>);

impl Reader {
    pub fn new(socket: TcpStream) -> Self {
        Self(BufReader::new(socket))
    }

    /// The next frame; `None` at the end. Chunk sizes and comments are skipped.
    pub fn next(&mut self) -> Option<Frame> {
        let (mut id, mut event, mut line) = (None, String::new(), String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let text = line.trim_end();
            if let Some(value) = text.strip_prefix("id: ") {
                id = Some(value.to_owned());
            } else if let Some(value) = text.strip_prefix("event: ") {
                event = value.to_owned();
            } else if let Some(value) = text.strip_prefix("data: ") {
                return Some((id, event, serde_json::from_str(value).expect("JSON")));
            }
        }
    }

    /// The next frame of an event.
    #[track_caller]
    pub fn expect(&mut self, event: &str) -> Frame {
        let until = Instant::now() + PATIENCE;
        while let Some(frame) = self.next() {
            if frame.1 == event {
                return frame;
            }
            assert!(Instant::now() < until, "no {event} came");
        }
        panic!("the stream ended without {event}");
    }
}

fn append(client: &Client<'_>, numbers: std::ops::Range<usize>) {
    let events: Vec<Value> = numbers
        .map(|number| json!({"event_type": "x.step", "source": "ui", "stream": "board", "run_id": "r", "body": number}))
        .collect();
    assert_eq!(client.post("/events/append", &json!({"events": events})).status, 201);
}

#[test]
fn scenario_31_a_stream_that_was_cut_goes_on_where_it_ended() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    append(&client, 0..30);
    let mut seen = Vec::new();
    let mut cursor = "1-0".to_owned();
    // Each connection reads some events and is cut, while more are appended.
    for round in 0..6 {
        let mut reader = Reader::new(client.with("Last-Event-ID", &cursor).open("/sse/timeline/board"));
        append(&client, 30 + round * 5..35 + round * 5);
        for _ in 0..10 {
            let (id, _, data) = reader.expect("x.step");
            cursor = id.expect("an id");
            seen.push(data["body"].as_u64().expect("a number"));
        }
    }
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
    let mut reader = Reader::new(client.with("Last-Event-ID", "9-1").open("/sse/timeline/board"));
    let hello = reader.expect("system").2;
    assert_eq!(hello["kind"], "hello");
    assert_eq!(reader.expect("system").2["kind"], "resync", "of another log");
    assert!(reader.next().is_none());
    assert_eq!(client.with("Last-Event-ID", "nonsense").get("/sse/timeline/board").code(), "cursor_invalid");
}

/// The time from the end of a user's right until the user's stream ends. The command `end` ends the right; later requests fail
/// with `code`.
fn stream_ends(home: &Path, gateway: &Gateway, user: &str, end: &[&str], code: &str) -> Duration {
    let client = gateway.client(&token(home, user, "viewer", &[]));
    let mut reader = Reader::new(client.open("/sse/timeline/board"));
    reader.expect("system");
    let (_, list, _) = run(home, &["gateway", "token", "list"]);
    let id =
        list.lines().find(|line| line.contains(&format!(" {user} "))).and_then(|line| line.split_whitespace().next());
    let words: Vec<&str> = end.iter().map(|word| if *word == "ID" { id.expect("a token") } else { *word }).collect();
    assert_eq!(run(home, &words).0, Some(0));
    let ended = Instant::now();
    while reader.next().is_some() {}
    let took = ended.elapsed();
    assert_eq!(client.get("/sse/timeline/board").code(), code);
    took
}

#[test]
fn scenario_33_a_stream_ends_soon_after_the_right_to_read_it() {
    let home = home();
    let gateway = Gateway::start(home.path());
    // The machine is shared, so only one of several tries must end within two seconds.
    for (what, code) in [("member", "not_a_member"), ("token", "unauthenticated")] {
        let mut all = Vec::new();
        while !all.iter().any(|took| *took <= Duration::from_secs(2)) {
            assert!(all.len() < 5, "{what}: {all:?}");
            let user = format!("vera-{what}-{}", all.len());
            let end = match what {
                "member" => ["gateway", "member", "remove", "local", user.as_str()].to_vec(),
                _ => vec!["gateway", "token", "revoke", "ID"],
            };
            all.push(stream_ends(home.path(), &gateway, &user, &end, code));
        }
    }
    // A restored right counts at once.
    let secret = token(home.path(), "vera", "viewer", &[]);
    assert_eq!(run(home.path(), &["gateway", "member", "remove", "local", "vera"]).0, Some(0));
    assert_eq!(gateway.client(&secret).get("/auth/me").code(), "not_a_member");
    assert_eq!(run(home.path(), &["gateway", "member", "add", "local", "vera"]).0, Some(0));
    assert_eq!(gateway.client(&secret).get("/auth/me").status, 200);
}

#[test]
fn scenario_60_a_gateway_that_ends_says_so_on_its_streams() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let client = gateway.client(&token(home.path(), "anna", "member", &[]));
    let mut readers: Vec<Reader> = (0..16).map(|_| Reader::new(client.open("/sse/timeline/board"))).collect();
    for reader in &mut readers {
        reader.expect("system");
    }
    let began = Instant::now();
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
    for reader in &mut readers {
        let last = std::iter::from_fn(|| reader.next()).last().expect("a frame");
        assert_eq!(last.2["kind"], "shutting_down");
    }
}

/// The complete frames with an id in the part of a stream that was read before the cut: id and content.
fn whole_frames(text: &str) -> Vec<(String, Value)> {
    let (mut frames, mut id, mut data) = (Vec::new(), None, None);
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line = line.trim_end();
        if let Some(value) = line.strip_prefix("id: ") {
            id = Some(value.to_owned());
        } else if let Some(value) = line.strip_prefix("data: ") {
            data = serde_json::from_str(value).ok();
        } else if line.is_empty()
            && let Some(data) = data.take()
            && let Some(id) = id.take()
        {
            frames.push((id, data));
        }
    }
    frames
}

#[test]
fn scenario_31_a_stream_that_is_cut_at_any_byte_is_complete_in_order_and_without_repeats() {
    let home = home();
    let mut gateway = Gateway::start(home.path());
    let secrets: Vec<String> = (0..8).map(|user| token(home.path(), &format!("user-{user}"), "member", &[])).collect();
    let writer = token(home.path(), "writer", "member", &[]);
    // On a database server each connection goes to the other gateway.
    let other = super::is_on_server(home.path()).then(|| Gateway::start(home.path()));
    let (mut written, mut seen, mut cursor, mut seed) = (0, Vec::new(), "1-0".to_owned(), 11_u64);
    for cut in 0..500 {
        // Another process continues with the same cursors.
        if cut == 250 {
            assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
            gateway = Gateway::start(home.path());
        }
        if cut % 10 == 0 {
            append(&gateway.client(&writer), written..written + 40);
            written += 40;
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = usize::try_from(seed >> 33).expect("small") % 6_000;
        let here = other.as_ref().filter(|_| cut % 2 == 1).unwrap_or(&gateway);
        let client = here.client(&secrets[cut % secrets.len()]).with("Last-Event-ID", &cursor);
        let mut socket = client.open("/sse/timeline/board");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a deadline");
        let (mut text, mut piece) = (Vec::new(), [0; 512]);
        while text.len() < bytes {
            match socket.read(&mut piece) {
                Ok(count @ 1..) => text.extend_from_slice(&piece[..count]),
                _ => break,
            }
        }
        text.truncate(bytes);
        drop(socket);
        for (id, data) in whole_frames(&String::from_utf8_lossy(&text)) {
            cursor = id;
            seen.push(data["body"].as_u64().expect("a number"));
        }
    }
    let mut rest = Reader::new(gateway.client(&writer).with("Last-Event-ID", &cursor).open("/sse/timeline/board"));
    while seen.len() < written {
        seen.push(rest.expect("x.step").2["body"].as_u64().expect("a number"));
    }
    let all: Vec<u64> = (0..u64::try_from(written).expect("small")).collect();
    assert_eq!(seen, all);
}
