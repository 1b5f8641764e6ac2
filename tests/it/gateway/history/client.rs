//! Clients of a history: requests that may get no answer, readers that continue at any gateway, and their notes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::checker::{Append, Call, End, History, Reader};
use crate::gateway::streams;

/// Time for which a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// Number of tries for a request without an answer.
const TRIES: usize = 40;

/// Pseudorandom numbers from a seed.
pub struct Seed(pub u64);

impl Seed {
    /// A number below `below`.
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

/// The way to a gateway: the address of the network in front of it, and its own address, which a request must name.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub through: SocketAddr,
    pub to: SocketAddr,
}

impl Way {
    fn connect(&self) -> Option<TcpStream> {
        let socket = TcpStream::connect_timeout(&self.through, PATIENCE).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(socket)
    }
}

/// The state of a history: gateways that start and end, a clock, and the notes.
pub struct World {
    pub gateways: RwLock<Vec<Option<Way>>>,
    /// Every tenant.
    pub tenants: Vec<String>,
    pub began: Instant,
    pub is_over: AtomicBool,
    pub history: Mutex<History>,
}

impl World {
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a short time")
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The way to one of the gateways that seem to be up.
    pub fn some_gateway(&self, seed: &mut Seed) -> Option<Way> {
        let gateways = self.gateways.read().expect("addresses");
        let there: Vec<Way> = gateways.iter().flatten().copied().collect();
        let count = u64::try_from(there.len()).expect("small");
        there.get(usize::try_from(seed.next(count)).expect("small")).copied()
    }

    pub fn note(&self, act: impl FnOnce(&mut History)) {
        act(&mut self.history.lock().expect("the history"));
    }
}

/// The prefix of the ids of a tenant's events, which identifies them in an answer to another tenant.
pub fn mark(tenant: &str) -> String {
    format!("e-{tenant}-")
}

/// An answer.
pub struct Answer {
    pub status: u16,
    /// The gateway stored the answer for an earlier request.
    pub is_replay: bool,
    pub body: Value,
}

/// A member of a tenant with a token.
pub struct Member {
    pub tenant: String,
    pub secret: String,
}

impl Member {
    /// The lines of a request's head.
    fn head(&self, way: Way, method: &str, path: &str) -> String {
        let address = way.to;
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nX-Tenant-Id: {}\r\n\
             Content-Type: application/json\r\n",
            self.secret, self.tenant
        )
    }

    /// Sends a request; returns `None` without a whole answer. The client pauses for `pause` in the middle of the request.
    pub fn ask(&self, world: &World, way: Way, path: &str, body: &Value, pause: Duration) -> Option<Answer> {
        let mut socket = way.connect()?;
        let body = body.to_string();
        let head = self.head(way, "POST", path) + &format!("Content-Length: {}\r\n\r\n", body.len());
        let (first, rest) = body.split_at(body.len() / 2);
        socket.write_all((head + first).as_bytes()).ok()?;
        stand_still(pause);
        socket.write_all(rest.as_bytes()).ok()?;
        stand_still(pause);
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).ok()?;
        let text = String::from_utf8(answer).ok()?;
        let others = world.tenants.iter().filter(|tenant| **tenant != self.tenant && text.contains(&mark(tenant)));
        others.for_each(|other| world.note(|history| history.shown.push((self.tenant.clone(), other.clone()))));
        let (head, text) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let is_replay = head.to_ascii_lowercase().contains("idempotent-replay: true");
        Some(Answer { status, is_replay, body: serde_json::from_str(text).ok()? })
    }

    /// Appends events, and repeats that until a gateway answers.
    pub fn append(&self, world: &World, seed: &mut Seed, mut append: Append, causes: &[Option<String>]) -> Append {
        let stream = append.expected.as_ref().map(|(stream, _)| stream.clone());
        let events: Vec<Value> = append
            .ids
            .iter()
            .zip(causes)
            .map(|(id, cause)| {
                let mut event =
                    json!({"event_id": id, "event_type": "x.step", "source": "agent", "run_id": "r", "body": {"id": id}});
                event["stream"] = stream.clone().map_or(Value::Null, Value::from);
                event["causation_id"] = cause.clone().map_or(Value::Null, Value::from);
                event.as_object_mut().expect("an event").retain(|_, value| !value.is_null());
                event
            })
            .collect();
        let mut body = json!({"events": events});
        if let Some((stream, version)) = &append.expected {
            body["expected_version"] = json!({"stream": stream, "version": version});
        }
        append.invoked = world.now();
        append.end = End::Unknown;
        let mut is_open = false;
        for _ in 0..TRIES {
            let pause = if seed.next(20) == 0 { Duration::from_millis(seed.next(400)) } else { Duration::ZERO };
            let answer = world.some_gateway(seed).and_then(|to| self.ask(world, to, "/events/append", &body, pause));
            append.ended = world.now();
            match answer.as_ref().map(|answer| answer.status) {
                Some(200 | 201) => {
                    let body = answer.map(|answer| answer.body).unwrap_or_default();
                    let items = body["events"].as_array().cloned().unwrap_or_default();
                    append.positions = items.iter().filter_map(|item| item["position"].as_i64()).collect();
                    append.end = End::Done;
                    return append;
                }
                Some(409) => {
                    // A try without an answer may still be under way, and succeed once the version is the expected one.
                    append.end = if is_open { End::Unknown } else { End::Refused };
                    return append;
                }
                Some(429 | 503) => {}
                None => is_open = true,
                Some(other) => panic!("{other}: {}", answer.map(|answer| answer.body).unwrap_or_default()),
            }
            stand_still(Duration::from_millis(20 + seed.next(60)));
        }
        append
    }

    /// Changes the tenant's canvas until the end. The client has its own atoms, so that changes of others don't conflict with it.
    pub fn draw(&self, world: &World, mut seed: Seed) {
        let (own, mut rev) = (seed.next(1 << 30), 0);
        for number in 0_u64.. {
            let (key, id) = (format!("k-{own}-{number}"), format!("a-{own}-{}", number / 2));
            let op = match number % 2 {
                0 => json!({"op": "create", "atom": {"id": id, "type": "note", "order": "m"}}),
                _ => json!({"op": "set", "id": id, "path": "/x", "value": number}),
            };
            loop {
                // A command that was sent may have been applied: it is repeated until that is known.
                let body = json!({"base_rev": rev, "ops": [op], "idempotency_key": key, "merge": "disjoint"});
                let to = world.some_gateway(&mut seed);
                let answer = to.and_then(|to| self.ask(world, to, "/canvas/board/commands", &body, Duration::ZERO));
                let head = answer.as_ref().and_then(|answer| answer.body["head_rev"].as_i64());
                match answer.as_ref().map(|answer| answer.status) {
                    Some(200) => {
                        rev = head.expect("a revision");
                        world.note(|history| history.drawn.push((self.tenant.clone(), key.clone(), rev)));
                        break;
                    }
                    Some(409) => rev = head.expect("a revision"),
                    None | Some(429 | 503) => stand_still(Duration::from_millis(20 + seed.next(60))),
                    Some(other) => panic!("{other}: {}", answer.map(|answer| answer.body).unwrap_or_default()),
                }
                if world.is_over() {
                    break;
                }
            }
            if world.is_over() {
                return;
            }
            stand_still(Duration::from_millis(seed.next(40)));
        }
    }

    /// Calls a tool again and again with one key, until the outcome is known.
    pub fn call(&self, world: &World, seed: &mut Seed, key: &str) {
        let body = json!({"action_name": "time", "subject_type": "run", "subject_id": key, "args": {}, "idempotency_key": key});
        for _ in 0..TRIES {
            let invoked = world.now();
            let Some(to) = world.some_gateway(seed) else { continue };
            let answer = self.ask(world, to, "/actions/execute", &body, Duration::ZERO);
            let status = answer.as_ref().map_or(0, |answer| answer.status);
            if matches!(status, 200 | 403) {
                let was_admitted = status == 200 && answer.is_some_and(|answer| !answer.is_replay);
                let call = Call { tenant: self.tenant.clone(), key: key.into(), invoked, was_admitted };
                return world.note(|history| history.calls.push(call));
            }
            if status == 409 {
                return;
            }
            stand_still(Duration::from_millis(20 + seed.next(60)));
        }
    }

    /// Follows the tenant's log until the end, over connections to any gateway, and notes what it shows. `last` is the newest
    /// position once the history is over.
    pub fn follow(&self, world: &World, seed: &mut Seed, last: &dyn Fn() -> Option<i64>) {
        let mut reader = Reader { tenant: self.tenant.clone(), ..Reader::default() };
        let mut cursor = "1-0".to_owned();
        let until = Instant::now() + Duration::from_secs(3_600);
        while last().is_none_or(|last| reader.seen.last().is_none_or(|(position, _)| *position < last)) {
            assert!(Instant::now() < until, "the reader of {} doesn't catch up", self.tenant);
            let Some(way) = world.some_gateway(seed) else { continue };
            let Some(mut socket) = way.connect() else { continue };
            let path = format!("/sse/tenant?topics=timeline&last_event_id={cursor}");
            let head = self.head(way, "GET", &path) + "\r\n";
            if socket.write_all(head.as_bytes()).is_err() {
                continue;
            }
            let _ = socket.set_read_timeout(Some(Duration::from_secs(2)));
            let mut frames = streams::Reader::new(socket);
            // The client cuts some of the connections.
            let most = 1 + seed.next(400);
            for _ in 0..most {
                let Some((id, _, data)) = frames.next() else { break };
                let Some(id) = id else { continue };
                let position = data["position"].as_i64().expect("a position");
                let event_id = data["event_id"].as_str().unwrap_or_default().to_owned();
                let shown = data["routing"]["tenant"].as_str().unwrap_or_default().to_owned();
                let has_foreign = |tenant: &&String| **tenant != self.tenant && event_id.starts_with(&mark(tenant));
                let shown = world.tenants.iter().find(has_foreign).cloned().unwrap_or(shown);
                if shown != self.tenant {
                    world.note(|history| history.shown.push((self.tenant.clone(), shown)));
                }
                reader.seen.push((position, event_id));
                cursor = id;
                if last().is_some_and(|last| position >= last) {
                    break;
                }
            }
        }
        world.note(|history| history.readers.push(reader));
    }
}

/// Waits: a client that pauses, or that doesn't repeat a request at once.
pub fn stand_still(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}
