//! Server-sent events: a stream reads the log from its cursor in pages, then waits until the log grows. The log is the
//! buffer, so a slow client slows nobody else, and a client that returns misses nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, timeout};

use super::Gateway;
use super::live::LiveRun;
use super::problem::{Answered, Problem};
use super::rates::StreamPlace;
use crate::ledger::{Event, Filter};
use crate::proto::team::Identity;

/// Frames that wait for a client.
const FRAMES_MAX: usize = 256;
/// Events of a page.
const PAGE: usize = 500;
/// A comment is sent after so long without an event.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The sender's right to read is looked at again after so long.
const CHECK: Duration = Duration::from_secs(2);
/// A stream tries to read again after so long if the pool was busy.
const BUSY: Duration = Duration::from_millis(200);
/// A client that takes no frame for so long is dropped.
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
    /// The path of the snapshot, for a client that must begin anew.
    pub snapshot: Option<String>,
    /// The cursor can't be served: the client must begin anew.
    pub is_gone: bool,
    /// Its place among the streams.
    #[expect(dead_code, reason = "the place is free again when the stream is dropped")]
    pub place: StreamPlace,
}

/// Reads a cursor `{epoch}-{position}`.
///
/// # Errors
/// It is none.
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
        // The end of the task ends the body.
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

async fn pump_run(gateway: &Arc<Gateway>, stream: RunStream, frames: &Sender<Bytes>) -> Result<(), Gone> {
    let RunStream { run, mut after, secret, place: _place } = stream;
    let mut grown = run.grown.subscribe();
    let mut stopping = gateway.stopping.subscribe();
    send(frames, "retry: 2000\n\n".into()).await?;
    let (mut spoken, mut checked, mut allowed) = (Instant::now(), Instant::now(), Instant::now());
    loop {
        grown.borrow_and_update();
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
            send(frames, ":\n\n".into()).await?;
            spoken = Instant::now();
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            let (at_work, secret, tenant) = (Arc::clone(gateway), secret.clone(), run.who.tenant.clone());
            let may_read = move || {
                let holder = at_work.ledger.authenticate(&secret).ok()??;
                at_work.ledger.member(&tenant, &holder.user).ok()?
            };
            match gateway.work.run(may_read).await {
                Ok(member) => drop(member.ok_or(Gone)?),
                // The pool is busy. The right is looked at again with the next line, and not for ever.
                Err(_) if allowed.elapsed() < SLOW => continue,
                Err(_) => return Err(Gone),
            }
            allowed = Instant::now();
        }
        tokio::select! {
            _ = grown.changed() => {}
            _ = stopping.changed() => {}
            () = frames.closed() => return Ok(()),
            () = tokio::time::sleep(CHECK) => {}
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
struct Gone;

async fn send(frames: &Sender<Bytes>, frame: String) -> Result<(), Gone> {
    timeout(SLOW, frames.send(Bytes::from(frame))).await.map_err(|_| Gone)?.map_err(|_| Gone)
}

async fn pump(gateway: &Arc<Gateway>, mut stream: Stream, frames: &Sender<Bytes>) -> Result<(), Gone> {
    // Subscribed before the first page is read, so that nothing is missed in between.
    let mut grown = gateway.grown.subscribe();
    let mut stopping = gateway.stopping.subscribe();
    let _hearing = gateway.gestures.hear(&stream.who, &stream.filter, frames);
    send(frames, "retry: 2000\n\n".into()).await?;
    send(frames, system(json!({"kind": "hello", "head": format!("{}-{}", stream.epoch, stream.head)}))).await?;
    if stream.is_gone {
        let body = json!({"kind": "resync", "snapshot": stream.snapshot});
        return send(frames, system(body)).await;
    }
    let (mut is_caught_up, mut spoken) = (false, Instant::now());
    loop {
        if *stopping.borrow() {
            return send(frames, system(json!({"kind": "shutting_down"}))).await;
        }
        grown.borrow_and_update();
        let page = match read(gateway, &mut stream).await {
            Ok(page) => page,
            Err(Unread::NotAllowed | Unread::Failed) => return Ok(()),
            Err(Unread::Busy) => {
                tokio::select! {
                    _ = stopping.changed() => {}
                    () = frames.closed() => return Ok(()),
                    () = tokio::time::sleep(BUSY) => {}
                }
                continue;
            }
        };
        let is_full = page.len() == PAGE;
        for frame in page {
            send(frames, frame).await?;
            spoken = Instant::now();
        }
        if is_full {
            continue;
        }
        if !is_caught_up {
            send(frames, system(json!({"kind": "caught_up"}))).await?;
            is_caught_up = true;
        }
        if spoken.elapsed() >= HEARTBEAT {
            send(frames, ":\n\n".into()).await?;
            spoken = Instant::now();
        }
        tokio::select! {
            _ = grown.changed() => {}
            _ = stopping.changed() => {}
            () = frames.closed() => return Ok(()),
            () = tokio::time::sleep(CHECK) => {}
        }
    }
}

/// Reason why there is no next page.
enum Unread {
    /// The pool has no place for one more task now.
    Busy,
    /// The reader may no longer read.
    NotAllowed,
    /// The read failed; the log of the gateway has more.
    Failed,
}

/// Reads the next page on a thread of the pool, if the reader may still read.
async fn read(gateway: &Arc<Gateway>, stream: &mut Stream) -> Result<Vec<String>, Unread> {
    let (who, secret, filter) = (stream.who.clone(), stream.secret.clone(), stream.filter.clone());
    let (after, epoch) = (stream.after, stream.epoch);
    let at_work = Arc::clone(gateway);
    let read = move || -> Option<(Vec<String>, i64)> {
        let ledger = &at_work.ledger;
        let holder = ledger.authenticate(&secret).ok()??;
        ledger.member(&who.tenant, &holder.user).ok()??;
        let events = ledger.read(&who, after, &filter, PAGE).ok()?;
        let last = events.last().map_or(after, |event| event.position);
        Some((events.iter().map(|event| frame(event, &who, epoch)).collect(), last))
    };
    let why = |problem: Problem| if problem.status == 503 { Unread::Busy } else { Unread::Failed };
    let read = gateway.work.run(read).await.map_err(why)?;
    let (page, last) = read.ok_or(Unread::NotAllowed)?;
    stream.after = last;
    Ok(page)
}

/// One event as a frame.
fn frame(event: &Event, who: &Identity, epoch: i64) -> String {
    let mut routing = Map::new();
    routing.insert("tenant".into(), event.tenant.clone().into());
    routing.insert("mode".into(), who.mode.word().into());
    routing.insert("project".into(), event.project.clone().into());
    let mut ids = Map::new();
    for (name, value) in &event.ids {
        let place = match *name {
            "surface_id" | "app_id" => &mut routing,
            "request_id" | "run_id" | "step_id" | "trace_id" => &mut ids,
            _ => continue,
        };
        place.insert((*name).into(), Value::from(value.clone()));
    }
    let name = match event.event_type.as_str() {
        "canvas_commit" => "op_committed",
        "safety" => "safety_decision",
        other => other,
    };
    let data = json!({
        "type": event.event_type, "stream": event.stream, "position": event.position, "at": event.recorded_at,
        "routing": routing, "ids": ids, "event_id": event.event_id, "body": event.body(),
    });
    format!("id: {epoch}-{}\nevent: {name}\ndata: {data}\n\n", event.position)
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
