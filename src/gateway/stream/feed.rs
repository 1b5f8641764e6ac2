//! The growth of a tenant's log, read once for all streams of the tenant: the newest events as frames, which each stream takes
//! those from that it wants.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};

use crate::gateway::runs::work::Pool;
use crate::ledger::{Event, Filter, Ledger, LedgerError};
use crate::proto::team::Identity;

/// Events of a page.
const PAGE: usize = 500;
/// Limit on the events in memory for the streams of a tenant, and on their bytes. A stream that lags further reads the log.
const KEPT_MAX: (usize, usize) = (2_000, 4 * 1024 * 1024);
/// Time without a hint after which the log is read: another process may have appended.
const POLL: Duration = Duration::from_secs(1);
/// Time after which the log is read again if the threads were busy.
const BUSY: Duration = Duration::from_millis(20);

/// An event in the form for streams.
pub struct Shown {
    position: i64,
    stream: String,
    event_type: String,
    frame: Bytes,
}

/// The logs that streams follow.
pub struct Feeds {
    ledger: Arc<Ledger>,
    readers: Arc<Pool>,
    feeds: Mutex<HashMap<String, Weak<Feed>>>,
}

/// The growth of one tenant's log. It is read while this value is in use.
pub struct Feed {
    who: Identity,
    /// The epoch of the log that its streams follow.
    epoch: i64,
    tail: Mutex<Tail>,
    /// The positions that its streams have sent.
    sent: Mutex<Vec<Weak<AtomicI64>>>,
    /// Changes with the log, and with the state of the database.
    changed: watch::Sender<u64>,
    poke: Arc<Notify>,
}

/// The newest events: all that lie after one position and up to another.
struct Tail {
    after: i64,
    reached: i64,
    events: VecDeque<Shown>,
    bytes: usize,
    state: State,
}

/// State of a log as its readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Read without a failure.
    Well,
    /// Unread, since the database doesn't answer.
    Failing,
    /// The log was replaced since the streams began.
    Replaced,
}

/// Frames for a stream.
pub enum Since {
    /// All that it wants, and the position that it has reached.
    Frames(Vec<Bytes>, i64),
    /// None: the stream lags further than the events in memory.
    Behind,
}

impl Feeds {
    /// No logs yet; they are read on threads of `readers`.
    pub fn new(ledger: &Arc<Ledger>, readers: &Arc<Pool>) -> Self {
        Self { ledger: Arc::clone(ledger), readers: Arc::clone(readers), feeds: Mutex::default() }
    }

    fn feeds(&self) -> MutexGuard<'_, HashMap<String, Weak<Feed>>> {
        self.feeds.lock()
    }

    /// Signals that a tenant's log has grown, or without a name, that any may have.
    pub fn grown(&self, tenant: Option<&str>) {
        let feeds = self.feeds();
        let all = feeds.iter().filter(|(name, _)| tenant.is_none_or(|tenant| tenant == **name));
        all.filter_map(|(_, feed)| feed.upgrade()).for_each(|feed| feed.poke.notify_one());
    }

    /// Returns the number of positions by which the slowest stream lags the part of its log that was read.
    pub fn lag(&self) -> i64 {
        let feeds: Vec<Arc<Feed>> = self.feeds().values().filter_map(Weak::upgrade).collect();
        feeds.iter().map(|feed| feed.lag()).max().unwrap_or(0)
    }

    /// The feed of a tenant; a new one begins at `head`.
    pub fn join(self: &Arc<Self>, who: &Identity, epoch: i64, head: i64) -> Arc<Feed> {
        let mut feeds = self.feeds();
        let known = feeds.get(&who.tenant).and_then(Weak::upgrade);
        if let Some(feed) = known.filter(|feed| feed.epoch == epoch && feed.state() != State::Replaced) {
            return feed;
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let tail = Tail { after: head, reached: head, events: VecDeque::new(), bytes: 0, state: State::Well };
        let feed = Arc::new(Feed {
            who: who.clone(),
            epoch,
            tail: Mutex::new(tail),
            sent: Mutex::default(),
            changed: watch::Sender::new(0),
            poke: Arc::new(Notify::new()),
        });
        feeds.insert(who.tenant.clone(), Arc::downgrade(&feed));
        tokio::spawn(follow(Arc::clone(self), Arc::downgrade(&feed), Arc::clone(&feed.poke)));
        feed
    }

    /// Reads a page of the log for a stream that lags: its frames, and the position that it reaches. Returns `None` if the log
    /// can't be read now.
    pub async fn page(&self, feed: &Feed, after: i64, filter: &Filter) -> Option<(Vec<Bytes>, i64)> {
        let read = self.read(feed, after, filter).await?.ok()?;
        (read.epoch == feed.epoch).then(|| (read.events.into_iter().map(|shown| shown.frame).collect(), read.reached))
    }

    /// Reads a page; `None` if the threads are busy.
    async fn read(&self, feed: &Feed, after: i64, filter: &Filter) -> Option<Result<Read, LedgerError>> {
        let (ledger, who, filter, epoch) = (Arc::clone(&self.ledger), feed.who.clone(), filter.clone(), feed.epoch);
        let read = move || -> Result<Read, LedgerError> {
            let page = ledger.page(&who, after, &filter, PAGE)?;
            let events = page.events.into_iter().map(|event| shown(event, &who, epoch)).collect();
            Ok(Read { events, reached: page.reached, epoch: page.epoch })
        };
        self.readers.run(&feed.who.tenant, read).await.ok()
    }
}

/// A page of the log as frames.
struct Read {
    events: Vec<Shown>,
    reached: i64,
    epoch: i64,
}

/// Reads a log as it grows.
async fn follow(feeds: Arc<Feeds>, feed: Weak<Feed>, poke: Arc<Notify>) {
    let all = Filter::default();
    while let Some(feed) = feed.upgrade() {
        let after = feed.tail().reached;
        let is_full = match feeds.read(&feed, after, &all).await {
            None => {
                drop(feed);
                tokio::time::sleep(BUSY).await;
                continue;
            }
            Some(Err(_)) => {
                feed.set(State::Failing);
                false
            }
            Some(Ok(read)) if read.epoch != feed.epoch => return feed.set(State::Replaced),
            Some(Ok(read)) => {
                let is_full = read.events.len() == PAGE;
                feed.take(read);
                is_full
            }
        };
        drop(feed);
        if !is_full {
            let _ = tokio::time::timeout(POLL, poke.notified()).await;
        }
    }
}

impl Feed {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// Changes with the log, and with the state of the database.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns the place for a new stream's sent position; it counts while the stream holds it.
    pub fn sent(&self, after: i64) -> Arc<AtomicI64> {
        let (mut all, own) = (self.sent.lock(), Arc::new(AtomicI64::new(after)));
        if all.len() == all.capacity() {
            all.retain(|it| it.strong_count() > 0);
        }
        all.push(Arc::downgrade(&own));
        own
    }

    fn lag(&self) -> i64 {
        let reached = self.tail().reached;
        let sent = self.sent.lock();
        let last = sent.iter().filter_map(Weak::upgrade).map(|it| it.load(Ordering::Relaxed)).min();
        last.map_or(0, |last| (reached - last).max(0))
    }

    /// The state of the log.
    pub fn state(&self) -> State {
        self.tail().state
    }

    fn set(&self, state: State) {
        let before = std::mem::replace(&mut self.tail().state, state);
        if before != state {
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Adds a page.
    fn take(&self, read: Read) {
        let has_grown = {
            let mut tail = self.tail();
            let has_grown = !read.events.is_empty() || tail.state != State::Well;
            tail.state = State::Well;
            tail.reached = read.reached;
            tail.bytes += read.events.iter().map(|shown| shown.frame.len()).sum::<usize>();
            tail.events.extend(read.events);
            while tail.events.len() > KEPT_MAX.0 || tail.bytes > KEPT_MAX.1 {
                let Some(gone) = tail.events.pop_front() else { break };
                tail.bytes -= gone.frame.len();
                tail.after = gone.position;
            }
            has_grown
        };
        if has_grown {
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// The frames that a stream wants after a position.
    pub fn since(&self, after: i64, filter: &Filter) -> Since {
        let tail = self.tail();
        if after < tail.after {
            return Since::Behind;
        }
        let first = tail.events.partition_point(|shown| shown.position <= after);
        let wanted = tail.events.range(first..).filter(|shown| is_wanted(shown, filter));
        Since::Frames(wanted.map(|shown| shown.frame.clone()).collect(), tail.reached.max(after))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // This wakes its task, so that it ends.
        self.poke.notify_one();
    }
}

/// Returns whether a stream shows an event: the same selection as for a page of the log.
fn is_wanted(shown: &Shown, filter: &Filter) -> bool {
    let has_any = !filter.any_streams.is_empty() || !filter.any_types.is_empty();
    filter.stream.as_ref().is_none_or(|stream| *stream == shown.stream)
        && filter.event_type.as_ref().is_none_or(|kind| *kind == shown.event_type)
        && (!has_any || filter.any_streams.contains(&shown.stream) || filter.any_types.contains(&shown.event_type))
}

/// One event as a frame.
fn shown(event: Event, who: &Identity, epoch: i64) -> Shown {
    let mut routing = Map::new();
    routing.insert("tenant".into(), event.tenant.clone().into());
    routing.insert("mode".into(), who.mode.word().into());
    routing.insert("project".into(), event.project.clone().into());
    let mut ids = Map::new();
    for (name, value) in &event.ids {
        let place = match *name {
            "surface_id" | "app_id" => &mut routing,
            "request_id" | "run_id" | "step_id" | "trace_id" | "causation_id" => &mut ids,
            _ => continue,
        };
        place.insert((*name).into(), Value::from(value.clone()));
    }
    let name = match event.event_type.as_str() {
        "canvas_commit" => "op_committed",
        // A client's event is a claim, not a decision.
        "safety" if event.source == "engine" => "safety_decision",
        other => other,
    };
    let data = json!({
        "type": event.event_type, "stream": event.stream, "position": event.position, "at": event.recorded_at,
        "routing": routing, "ids": ids, "event_id": event.event_id, "actor": event.actor, "body": event.body(),
    });
    let frame = format!("id: {epoch}-{}\nevent: {name}\ndata: {data}\n\n", event.position);
    let Event { position, stream, event_type, .. } = event;
    Shown { position, stream, event_type, frame: Bytes::from(frame) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(position: i64, stream: &str) -> Shown {
        let (stream, event_type) = (stream.to_owned(), "x.step".to_owned());
        Shown { position, stream, event_type, frame: Bytes::from(position.to_string()) }
    }

    fn feed() -> Feed {
        let tail = Tail { after: 10, reached: 10, events: VecDeque::new(), bytes: 0, state: State::Well };
        let who = Identity {
            mode: crate::proto::team::Mode::Lab,
            tenant: "t".into(),
            project: "p".into(),
            user: "u".into(),
            role: crate::proto::team::TeamRole::Viewer,
            kind: crate::proto::team::TokenKind::Person,
            request_id: "r".into(),
            trace_id: "t".into(),
            run_id: None,
            step_id: None,
            surface_id: None,
            app_id: None,
            span: None,
            lease: None,
        };
        let (tail, changed) = (Mutex::new(tail), watch::Sender::new(0));
        Feed { who, epoch: 1, tail, sent: Mutex::default(), changed, poke: Arc::default() }
    }

    fn frames(since: Since) -> Option<(Vec<String>, i64)> {
        let text = |frame: Bytes| String::from_utf8_lossy(&frame).into_owned();
        match since {
            Since::Frames(frames, reached) => Some((frames.into_iter().map(text).collect(), reached)),
            Since::Behind => None,
        }
    }

    #[test]
    fn a_stream_gets_what_it_wants_after_its_position_and_is_told_if_it_is_behind() {
        let feed = feed();
        feed.take(Read {
            events: (11..=14).map(|at| of(at, ["a", "b"][at as usize % 2])).collect(),
            reached: 14,
            epoch: 1,
        });
        let of = |stream: &str| Filter { stream: Some(stream.into()), ..Filter::default() };
        assert_eq!(frames(feed.since(10, &of("a"))), Some((vec!["12".into(), "14".into()], 14)));
        assert_eq!(frames(feed.since(12, &of("b"))), Some((vec!["13".into()], 14)));
        assert_eq!(frames(feed.since(20, &of("b"))), Some((vec![], 20)), "ahead of this gateway");
        assert!(frames(feed.since(9, &of("a"))).is_none());
        let any = Filter { any_types: vec!["x.step".into()], any_streams: vec!["c".into()], ..Filter::default() };
        assert_eq!(frames(feed.since(13, &any)), Some((vec!["14".into()], 14)));
    }

    #[test]
    fn the_lag_is_that_of_the_slowest_stream_that_is_there() {
        let feed = feed();
        let (slow, quick) = (feed.sent(4), feed.sent(10));
        assert_eq!(feed.lag(), 6);
        slow.store(9, Ordering::Relaxed);
        assert_eq!(feed.lag(), 1);
        drop(slow);
        assert_eq!(feed.lag(), 0);
        feed.take(Read { events: vec![of(11, "a")], reached: 11, epoch: 1 });
        assert_eq!(feed.lag(), 1);
        quick.store(12, Ordering::Relaxed);
        assert_eq!(feed.lag(), 0, "ahead of this gateway");
    }

    #[test]
    fn as_many_events_stay_as_there_is_room_for() {
        let feed = feed();
        let count = i64::try_from(KEPT_MAX.0).expect("small");
        for at in 0..count + 5 {
            feed.take(Read { events: vec![of(11 + at, "a")], reached: 11 + at, epoch: 1 });
        }
        assert!(frames(feed.since(14, &Filter::default())).is_none());
        let (all, reached) = frames(feed.since(15, &Filter::default())).expect("frames");
        assert_eq!((all.len(), reached), (KEPT_MAX.0, 15 + count));
    }
}
