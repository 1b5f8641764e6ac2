//! Streams of a shared session: to its publisher, who receives the viewers and their answers, and to viewers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::live::{LiveShare, News, Viewer};
use crate::gateway::http::rates::StreamPlace;
use crate::ledger::GATEWAY_ENDED;

/// Frames that wait for a client.
const FRAMES_MAX: usize = 64;
/// Time without a frame after which a comment is sent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time after which the viewer's right to watch is checked again.
const CHECK: Duration = Duration::from_secs(2);
/// Time after which a client that takes no frame is dropped, and for which a right that can't be checked counts.
const SLOW: Duration = Duration::from_secs(30);

/// Checks whether the viewer may still watch; returns `None` if that is unknown now.
pub type MayWatch = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Option<bool>> + Send>> + Send + Sync>;

/// The stream of a shared session that a client follows.
pub enum ShareStream {
    /// Its publisher.
    Publisher(Arc<LiveShare>),
    /// A viewer.
    Viewer {
        /// The session.
        share: Arc<LiveShare>,
        /// The number of the last frame that the client has, if it has seen anything.
        after: Option<u64>,
        /// The tenant of the viewer, and the secret of the token: if it is revoked, the stream ends.
        right: (String, String),
        /// The viewer, for as long as this lives.
        viewer: Viewer,
        /// Its place among the streams.
        place: StreamPlace,
    },
}

/// The client has gone, or takes nothing.
struct ClientGone;

/// The body of an answer that follows a session; it ends with the session.
pub fn body(stream: ShareStream, stopping: watch::Receiver<bool>, may_watch: MayWatch) -> Body {
    let (frames, receiver) = mpsc::channel::<Bytes>(FRAMES_MAX);
    tokio::spawn(async move {
        let _ = match stream {
            ShareStream::Publisher(share) => control(&share, stopping, &frames).await,
            ShareStream::Viewer { share, after, viewer: _viewer, place: _place, .. } => {
                show(&share, after, stopping, &may_watch, &frames).await
            }
        };
    });
    let next = |mut receiver: Receiver<Bytes>| async move {
        let frame = receiver.recv().await?;
        Some((Ok::<_, Infallible>(frame), receiver))
    };
    Body::from_stream(futures::stream::unfold(receiver, next))
}

async fn send(frames: &Sender<Bytes>, frame: String) -> Result<(), ClientGone> {
    timeout(SLOW, frames.send(Bytes::from(frame))).await.map_err(|_| ClientGone)?.map_err(|_| ClientGone)
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Reports the viewers and their answers to the publisher of a session.
async fn control(
    share: &LiveShare,
    mut stopping: watch::Receiver<bool>,
    frames: &Sender<Bytes>,
) -> Result<(), ClientGone> {
    let mut called = share.called.subscribe();
    send(frames, event("viewers", &json!({"count": share.viewers().len()}))).await?;
    loop {
        called.borrow_and_update();
        for (name, value) in share.calls() {
            send(frames, event(name, &value)).await?;
        }
        let why = share.over().or_else(|| stopping.borrow().then(|| GATEWAY_ENDED.to_owned()));
        if let Some(why) = why {
            return send(frames, event("end", &json!({"why": why, "may_return": why == GATEWAY_ENDED}))).await;
        }
        let is_silent = tokio::select! {
            _ = called.changed() => false,
            _ = stopping.changed() => false,
            () = frames.closed() => return Ok(()),
            () = tokio::time::sleep(HEARTBEAT) => true,
        };
        if is_silent {
            send(frames, ":\n\n".into()).await?;
        }
    }
}

/// Shows a session to a viewer: its current state, then each frame. A viewer who is too slow starts over.
async fn show(
    share: &LiveShare,
    mut after: Option<u64>,
    mut stopping: watch::Receiver<bool>,
    may_watch: &MayWatch,
    frames: &Sender<Bytes>,
) -> Result<(), ClientGone> {
    let mut grown = share.grown.subscribe();
    send(frames, "retry: 2000\n\n".into()).await?;
    let (mut spoken, mut checked, mut allowed) = (Instant::now(), Instant::now(), Instant::now());
    let mut watching = None;
    loop {
        grown.borrow_and_update();
        // This is read before the news: the news then includes all frames up to the end.
        let over = share.over();
        match share.news(after) {
            News::Anew => {
                let (number, snapshot) = share.snapshot();
                send(frames, format!("id: 1-{number}\n{}", event("snapshot", &snapshot))).await?;
                (after, spoken) = (Some(number), Instant::now());
            }
            News::Frames(missed) => {
                for (number, frame) in missed {
                    send(frames, format!("id: 1-{number}\nevent: frame\ndata: {frame}\n\n")).await?;
                    (after, spoken) = (Some(number), Instant::now());
                }
            }
        }
        let viewers = share.viewers();
        if watching.as_ref() != Some(&viewers) {
            send(frames, event("viewers", &json!({"users": viewers}))).await?;
            watching = Some(viewers);
        }
        if let Some(why) = over.as_ref().filter(|why| *why != GATEWAY_ENDED) {
            return send(frames, event("ended", &json!({"why": why}))).await;
        }
        // The session may continue at the next gateway.
        if over.is_some() || *stopping.borrow() {
            return send(frames, event("system", &json!({"kind": "shutting_down"}))).await;
        }
        if spoken.elapsed() >= HEARTBEAT {
            send(frames, ":\n\n".into()).await?;
            spoken = Instant::now();
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            match may_watch().await {
                Some(true) => allowed = Instant::now(),
                None if allowed.elapsed() < SLOW => {}
                Some(false) | None => return Err(ClientGone),
            }
        }
        tokio::select! {
            _ = grown.changed() => {}
            _ = stopping.changed() => {}
            () = frames.closed() => return Ok(()),
            () = tokio::time::sleep(CHECK) => {}
        }
    }
}
