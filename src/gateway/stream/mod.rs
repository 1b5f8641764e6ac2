//! Server-sent events: a stream reads the log from its cursor in pages, then follows its tenant's feed. The log is the buffer, so
//! a slow client delays no other, and a client that reconnects misses nothing.

mod feed;
mod rights;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, timeout};

use super::Gateway;
use super::http::problem::{Answered, Problem};
use super::http::rates::StreamPlace;
use super::runs::live::LiveRun;
use crate::ledger::Filter;
use crate::proto::team::Identity;

pub use feed::{Feed, Feeds};
pub use rights::Rights;

use feed::{Since, State};

/// Frames that wait for a client.
const FRAMES_MAX: usize = 256;
/// Time without an event after which a comment is sent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time after which a stream tries to read again if the pool was busy.
const BUSY: Duration = Duration::from_millis(200);
/// Time after which a client that takes no frame is dropped.
const SLOW: Duration = Duration::from_secs(30);

/// A stream that a client wants.
pub struct Stream {
    /// The reader.
    pub who: Identity,
    /// The secret of the token: if it is revoked, the stream ends.
    pub secret: String,
    /// The events.
    pub filter: Filter,
    /// The position after which it begins.
    pub after: i64,
    /// The epoch of the log.
    pub epoch: i64,
    /// The position of the newest event when it began.
    pub head: i64,
    /// The path of the snapshot, for a client that must start over.
    pub snapshot: Option<String>,
    /// True if the cursor can't be served: the client must start over.
    pub is_gone: bool,
    /// Its place among the streams.
    #[expect(dead_code, reason = "the place is free again when the stream is dropped")]
    pub place: StreamPlace,
}

/// Reads a cursor `{epoch}-{position}`.
///
/// # Errors
/// The text isn't a cursor.
pub fn cursor(text: &str) -> Answered<(i64, i64)> {
    let parts = text.split_once('-').and_then(|(epoch, position)| {
        let is_plain =
            |part: &str| !part.is_empty() && part.len() < 19 && part.bytes().all(|byte| byte.is_ascii_digit());
        (is_plain(epoch) && is_plain(position)).then(|| Some((epoch.parse().ok()?, position.parse().ok()?)))?
    });
    parts.ok_or_else(|| Problem::new(400, "cursor_invalid", "a cursor is the id of an event of a stream"))
}

/// The body of a stream's answer.
pub(super) fn body(gateway: &Arc<Gateway>, stream: Stream) -> Body {
    let (frames, receiver) = mpsc::channel::<Bytes>(FRAMES_MAX);
    let gateway = Arc::clone(gateway);
    tracing::info!(event = "stream_opened", request_id = stream.who.request_id.as_str());
    tokio::spawn(async move {
        let request_id = stream.who.request_id.clone();
        // When the task ends, the body ends.
        let _ = pump(&gateway, stream, &frames).await;
        tracing::info!(event = "stream_closed", request_id = request_id.as_str());
    });
    body_of(receiver)
}

/// A run that a client follows.
pub struct RunStream {
    /// The run.
    pub run: Arc<LiveRun>,
    /// The number of the last line that the client has.
    pub after: u64,
    /// The secret of the token: if it is revoked, the stream ends.
    pub secret: String,
    /// Its place among the streams.
    pub place: StreamPlace,
}

/// The body of an answer that follows a run; it ends with the run.
pub(super) fn run_body(gateway: &Arc<Gateway>, stream: RunStream) -> Body {
    let (frames, receiver) = mpsc::channel::<Bytes>(FRAMES_MAX);
    let gateway = Arc::clone(gateway);
    tokio::spawn(async move {
        let _ = pump_run(&gateway, stream, &frames).await;
    });
    body_of(receiver)
}

async fn pump_run(gateway: &Arc<Gateway>, stream: RunStream, frames: &Sender<Bytes>) -> Result<(), Disconnected> {
    let RunStream { run, mut after, secret, place: _place } = stream;
    let mut grown = run.grown.subscribe();
    let mut stopping = gateway.stopping.subscribe();
    let right = gateway.rights.of(&secret, &run.who.tenant);
    let mut ended = right.ended();
    send(frames, "retry: 2000\n\n").await?;
    let mut spoken = Instant::now();
    loop {
        grown.borrow_and_update();
        if *ended.borrow() {
            return Ok(());
        }
        let (lines, is_over) = run.after(after);
        for (number, line) in lines {
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            let name = event["event"].as_str().unwrap_or("message");
            send(frames, format!("id: 1-{number}\nevent: {name}\ndata: {line}\n\n")).await?;
            after = number;
            spoken = Instant::now();
        }
        if is_over {
            return Ok(());
        }
        if *stopping.borrow() {
            return send(frames, system(json!({"kind": "shutting_down"}))).await;
        }
        if spoken.elapsed() >= HEARTBEAT {
            send(frames, ":\n\n").await?;
            spoken = Instant::now();
        }
        tokio::select! {
            _ = grown.changed() => {}
            _ = stopping.changed() => {}
            _ = ended.changed() => {}
            () = frames.closed() => return Ok(()),
            () = tokio::time::sleep_until(spoken + HEARTBEAT) => {}
        }
    }
}

fn body_of(receiver: mpsc::Receiver<Bytes>) -> Body {
    let next = |mut receiver: mpsc::Receiver<Bytes>| async move {
        let frame = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), receiver))
    };
    Body::from_stream(futures::stream::unfold(receiver, next))
}

/// The client has gone, or takes nothing.
struct Disconnected;

async fn send(frames: &Sender<Bytes>, frame: impl Into<Bytes>) -> Result<(), Disconnected> {
    timeout(SLOW, frames.send(frame.into())).await.map_err(|_| Disconnected)?.map_err(|_| Disconnected)
}

/// A running stream.
struct Pump<'f> {
    frames: &'f Sender<Bytes>,
    stream: Stream,
    feed: Arc<Feed>,
    /// The position that it has sent, shared with the feed.
    sent: Arc<AtomicI64>,
    is_caught_up: bool,
    /// True if the client knows that the database fails.
    is_failing: bool,
    spoken: Instant,
}

/// The next action of a stream.
enum Next {
    /// Wait for something to happen.
    Wait,
    /// Wait briefly, since the threads that read are busy.
    Busy,
    /// Go on.
    More,
    /// End.
    End,
}

async fn pump(gateway: &Arc<Gateway>, stream: Stream, frames: &Sender<Bytes>) -> Result<(), Disconnected> {
    let mut stopping = gateway.stopping.subscribe();
    let _hearing = gateway.gestures.hear(&stream.who, &stream.filter, frames);
    send(frames, "retry: 2000\n\n").await?;
    send(frames, system(json!({"kind": "hello", "head": format!("{}-{}", stream.epoch, stream.head)}))).await?;
    if stream.is_gone {
        return send(frames, resync(&stream)).await;
    }
    let feed = gateway.feeds.join(&stream.who, stream.epoch, stream.head);
    let right = gateway.rights.of(&stream.secret, &stream.who.tenant);
    let (mut changed, mut ended) = (feed.changed(), right.ended());
    let sent = feed.sent(stream.after);
    let mut pump = Pump { frames, stream, feed, sent, is_caught_up: false, is_failing: false, spoken: Instant::now() };
    loop {
        if *stopping.borrow() {
            return send(frames, system(json!({"kind": "shutting_down"}))).await;
        }
        if *ended.borrow() {
            return Ok(());
        }
        changed.borrow_and_update();
        let until = match pump.step(gateway).await? {
            Next::End => return Ok(()),
            Next::More => continue,
            Next::Busy => Instant::now() + BUSY,
            Next::Wait => pump.spoken + HEARTBEAT,
        };
        tokio::select! {
            _ = changed.changed() => {}
            _ = stopping.changed() => {}
            _ = ended.changed() => {}
            () = frames.closed() => return Ok(()),
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

impl Pump<'_> {
    /// Sends the available frames.
    async fn step(&mut self, gateway: &Gateway) -> Result<Next, Disconnected> {
        match self.feed.state() {
            State::Replaced => {
                send(self.frames, resync(&self.stream)).await?;
                return Ok(Next::End);
            }
            State::Failing if !self.is_failing => {
                send(self.frames, system(json!({"kind": "database_unavailable"}))).await?;
                self.is_failing = true;
            }
            State::Well if self.is_failing => {
                self.is_failing = false;
                self.is_caught_up = false;
            }
            State::Failing | State::Well => {}
        }
        match self.feed.since(self.stream.after, &self.stream.filter) {
            Since::Frames(frames, reached) => self.show(frames, reached).await?,
            Since::Behind => {
                let page = gateway.feeds.page(&self.feed, self.stream.after, &self.stream.filter).await;
                let Some((frames, reached)) = page else { return Ok(Next::Busy) };
                self.show(frames, reached).await?;
                return Ok(Next::More);
            }
        }
        if !self.is_caught_up && !self.is_failing {
            send(self.frames, system(json!({"kind": "caught_up"}))).await?;
            self.is_caught_up = true;
        }
        if self.spoken.elapsed() >= HEARTBEAT {
            send(self.frames, ":\n\n").await?;
            self.spoken = Instant::now();
        }
        Ok(Next::Wait)
    }

    async fn show(&mut self, frames: Vec<Bytes>, reached: i64) -> Result<(), Disconnected> {
        for frame in frames {
            send(self.frames, frame).await?;
            self.spoken = Instant::now();
        }
        self.stream.after = reached;
        self.sent.store(reached, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns the event that makes the client start over.
fn resync(stream: &Stream) -> String {
    system(json!({"kind": "resync", "snapshot": stream.snapshot}))
}

fn system(body: Value) -> String {
    format!("event: system\ndata: {body}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_two_plain_numbers() {
        assert_eq!(cursor("1-42"), Ok((1, 42)));
        for wrong in ["", "1", "1-", "-1", "1--2", "a-1", "1-+2", "1-99999999999999999999", "1-2-3"] {
            assert_eq!(cursor(wrong).map_err(|problem| problem.code), Err("cursor_invalid"), "{wrong}");
        }
    }
}
